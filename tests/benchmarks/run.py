"""How fast envkit starts, resolves, diagnoses and verifies, measured beside what it is compared with, in one run.

    python tests/benchmarks/run.py [start] [resolve] [doctor] [verify]

Prints one line a figure. Times depend on the machine; the ratios are what is promised.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = sys.executable


@dataclass(frozen=True)
class Figure:
    """One measured figure, and the figure that it is held against."""

    name: str
    seconds: float
    other: str
    other_seconds: float

    @property
    def ratio(self) -> float:
        """How many times as long as the other."""
        return self.seconds / self.other_seconds

    @property
    def difference(self) -> float:
        """How much longer than the other, in seconds."""
        return self.seconds - self.other_seconds

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.seconds * 1000:.0f} ms; {self.other}: {self.other_seconds * 1000:.0f} ms; "
            f"ratio {self.ratio:.2f}, difference {self.difference * 1000:+.0f} ms"
        )


def clock(argv: Sequence[str | Path], cwd: Path, env: dict[str, str] | None = None) -> float:
    """Seconds that a command takes; it must not fail."""
    started = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in argv], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{argv} ended with {done.returncode}: {done.stderr[-800:]}")
    return seconds


def in_turn(one: Callable[[], float], other: Callable[[], float], rounds: int) -> tuple[float, float]:
    """The medians of two measurements taken in turn, after one round that warms the caches: a busy moment hits both."""
    one(), other()
    pairs = [(one(), other()) for _ in range(rounds)]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def envkit() -> list[str]:
    """The installed command where there is one, else the module."""
    script = Path(PYTHON).with_name("envkit")
    return [str(script)] if script.exists() else [PYTHON, "-P", "-m", "envkit"]


def start(rounds: int = 9) -> Figure:
    """`envkit --version` beside a bare import of click."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ours, theirs = in_turn(
            lambda: clock([*envkit(), "--version"], folder), lambda: clock([PYTHON, "-c", "import click"], folder), rounds
        )
    return Figure("envkit --version", ours, "python -c 'import click'", theirs)


WISHES = (
    {"os": "linux", "gpu": "RTX 5090", "driver": "580.82"},
    {"os": "linux", "gpu": "RTX 5090", "driver": "550.54.14"},
    {"os": "linux", "gpu": "GTX 1080 Ti", "driver": "580.82"},
    {"os": "windows", "gpu": "RX 7900 XT"},
    {"scheme": "linux-cpu"},
)


def resolve(rounds: int = 5) -> list[Figure]:
    """`resolve` inside the process, the matrix loaded, beside the promised 50 ms."""
    from envkit.matrix import load
    from envkit.model import Wish
    from envkit.resolve import resolve as decide

    matrix = load()
    figures = []
    for words in WISHES:
        wish = Wish(**words)
        decide(matrix, wish)
        times = []
        for _ in range(rounds):
            started = time.perf_counter()
            decide(matrix, wish)
            times.append(time.perf_counter() - started)
        figures.append(Figure(f"resolve {' '.join(words.values())}", statistics.median(times), "promised", 0.050))
    return figures


def verify(venv: Path, rounds: int = 3) -> Figure:
    """`envkit verify` of a CPU environment beside `import torch` in it."""
    python = venv / "bin/python"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "XDG_STATE_HOME": str(folder)}
        ours, theirs = in_turn(
            lambda: clock([*envkit(), "verify", "--venv", venv, "--format", "json"], folder, env),
            lambda: clock([python, "-c", "import torch"], folder),
            rounds,
        )
    return Figure("envkit verify --venv", ours, "import torch", theirs)


def doctor(rounds: int = 5) -> Figure:
    """`envkit doctor` of an environment without torch, beside a bare import of click: what it costs besides the import."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([PYTHON, "-m", "venv", "--without-pip", folder / "env"], check=True)
        ours, theirs = in_turn(
            lambda: clock([*envkit(), "doctor", "--venv", folder / "env"], folder, {**os.environ, "XDG_STATE_HOME": name}),
            lambda: clock([PYTHON, "-c", "import click"], folder),
            rounds,
        )
    return Figure("envkit doctor without torch", ours, "python -c 'import click'", theirs)


def doctor_torch(venv: Path, rounds: int = 3) -> Figure:
    """`envkit doctor` of a CPU environment beside `import torch` in it."""
    with tempfile.TemporaryDirectory() as name:
        ours, theirs = in_turn(
            lambda: clock([*envkit(), "doctor", "--venv", venv], Path(name)),
            lambda: clock([venv / "bin/python", "-c", "import torch"], Path(name)),
            rounds,
        )
    return Figure("envkit doctor --venv", ours, "import torch", theirs)


def main(wanted: Sequence[str]) -> int:
    """Prints the figures."""
    if not wanted or "start" in wanted:
        print(start())
    if not wanted or "resolve" in wanted:
        print(*resolve(), sep="\n")
    if not wanted or "doctor" in wanted:
        print(doctor())
    if not wanted or "verify" in wanted:
        with tempfile.TemporaryDirectory() as name:
            venv = Path(name) / "env"
            up = [*envkit(), "up", str(venv), "--scheme", "linux-cpu"]
            clock(up, Path(name), {**os.environ, "XDG_STATE_HOME": name})
            plan = json.loads((venv / "envkit/plan.json").read_text(encoding="utf-8"))
            print(f"{plan['framework']['name']} {plan['framework']['version']}, Python {plan['python']}")
            print(verify(venv))
            print(doctor_torch(venv))
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
