"""The real uv as an oracle: which PyTorch index it takes for a driver, a system and a chip, beside what envkit takes.

uv asks a stand-in for the PyTorch index that holds what the matrix holds (tests/lab/pytorch_index.py), so every difference is one
of judgement. Those stand in tests/fixtures/agreement/uv.toml with their reasons.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from lab import agreement, pytorch_index
from lab.agreement import Deviation, Row
from lab.needs import need

from envkit import matrix as matrices
from envkit.model import Matrix, Wish
from envkit.resolve import resolve

PYTHON = "3.11"
PLATFORMS = {"linux": "x86_64-manylinux_2_28", "windows": "x86_64-pc-windows-msvc", "macos": "aarch64-apple-darwin"}
# Both sides of every border that uv or NVIDIA draws, and the ends.
DRIVERS = {
    "linux": "418.87 450.80.01 450.80.02 470.256.02 525.60.12 525.60.13 550.54.14 560.28.03 570.26 575.51.03 579.99 580.65.06 "
    "595.45.04 620.70.06",
    "windows": "452.38 452.39 528.32 528.33 560.76 570.65 576.02 579.99 580.88 595.97",
}
TORCH = ["", "1.13.1", "2.0.1", "2.3.1", "2.5.1", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.14.1"]
CARDS = ["sm_37", "sm_61", "sm_70", "sm_75", "sm_86", "sm_89", "sm_90", "sm_120"]
CHIPS = ["gfx803", "gfx900", "gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1010", "gfx1030", "gfx1031", "gfx1035"]
CHIPS += ["gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201"]

Ask = Callable[..., str]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


@pytest.fixture(scope="module")
def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.exists() else shutil.which("uv")
    return found or need("no uv beside this Python or on PATH")


@pytest.fixture(scope="module")
def ask(uv: str, matrix: Matrix, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Asks uv for the build of torch that it would install: "2.7.1+cu128", or "none" with its words."""
    folder = tmp_path_factory.mktemp("uv")
    kept = {name: text for name, text in os.environ.items() if not name.upper().startswith(("UV_", "PIP_", "SSL_"))}
    with pytorch_index.serve(folder, pytorch_index.pages(matrix, PYTHON)) as leading:
        fixed = {"UV_CACHE_DIR": str(folder / "cache"), "UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "NO_COLOR": "1"}

        def run(torch: str, system: str, **variables: str) -> str:
            arguments = ["--torch-backend", "auto", "--python-version", PYTHON, "--python-platform", PLATFORMS[system]]
            done = subprocess.run(
                [uv, "pip", "compile", "-", *arguments, "--python", sys.executable, "--no-header", "--no-annotate", "-q"],
                input=f"torch=={torch}" if torch else "torch",
                env={**kept, **leading, **fixed, **variables},
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            found = re.search(r"^torch==(\S+)$", done.stdout, re.MULTILINE)
            return found[1] if found else f"none: {' '.join(done.stderr.split())}"

        run("", "linux", UV_CUDA_DRIVER_VERSION="620.70.06")  # fills the cache, so that the others do not all fetch the same
        yield run


def envkit_takes(matrix: Matrix, **wish: str) -> str:
    made = resolve(matrix, Wish(python=PYTHON, **wish)).plan
    return made.framework_package.version if made else "none"


def compared(answers: list[tuple[str, str, str]]) -> list[Row]:
    shown = [(key, "none" if theirs.startswith("none") else theirs, ours) for key, theirs, ours in answers]
    return [Row(table="uv", key=key, theirs=theirs, ours=ours) for key, theirs, ours in shown]


def cuda_rows(ask: Ask, matrix: Matrix) -> list[Row]:
    """Every driver on its system with every release, and beside uv's one answer envkit's for each card."""
    cells = [(system, driver, torch) for system, drivers in DRIVERS.items() for driver in drivers.split() for torch in TORCH]
    with ThreadPoolExecutor(4) as pool:
        theirs = list(pool.map(lambda cell: ask(cell[2], cell[0], UV_CUDA_DRIVER_VERSION=cell[1]), cells))
    answers = []
    for (system, driver, torch), taken in zip(cells, theirs, strict=True):
        for card in CARDS:
            ours = envkit_takes(matrix, os=system, gpu=card, driver=driver, torch=torch)
            answers.append((f"{system} {card} {driver} {torch or 'newest'}", taken, ours))
    return compared(answers)


def rocm_rows(ask: Ask, matrix: Matrix) -> list[Row]:
    cells = [(chip, torch) for chip in CHIPS for torch in TORCH if torch not in ("1.13.1", "2.0.1")]
    with ThreadPoolExecutor(4) as pool:
        theirs = list(pool.map(lambda cell: ask(cell[1], "linux", UV_AMD_GPU_ARCHITECTURE=cell[0]), cells))
    ours = [envkit_takes(matrix, os="linux", gpu=chip, torch=torch) for chip, torch in cells]
    keys = [f"linux {chip} {torch or 'newest'}" for chip, torch in cells]
    return compared(list(zip(keys, theirs, ours, strict=True)))


@pytest.fixture(scope="module")
def rows(ask: Ask, matrix: Matrix) -> list[Row]:
    return cuda_rows(ask, matrix) + rocm_rows(ask, matrix)


@pytest.fixture(scope="module")
def known() -> tuple[Deviation, ...]:
    return agreement.read_deviations("uv")


def test_every_difference_has_its_reason(rows: list[Row], known: tuple[Deviation, ...]) -> None:
    print(f"uv oracle: {agreement.figures(rows, known)}")  # shown with -rA
    found = agreement.unlisted(rows, known)
    shown = "\n".join(f"  {row.key}: uv takes {row.theirs}, envkit {row.ours}" for row in found[:40])
    assert not found, f"\nnot in tests/fixtures/agreement/uv.toml (mend the row, or list it with its reason):\n{shown}"


def test_no_listed_difference_has_gone(rows: list[Row], known: tuple[Deviation, ...]) -> None:
    gone = agreement.vanished(rows, known)
    assert not gone, "\nno longer differ: take these keys out of tests/fixtures/agreement/uv.toml:\n  " + "\n  ".join(gone)


def test_where_uv_takes_a_wheel_that_runs_the_floors_are_the_same(rows: list[Row]) -> None:
    """Turing has code in every wheel from CUDA 10 on: uv finds a build for CUDA wherever envkit does, and nowhere else."""
    turing = [row for row in rows if " sm_75 " in row.key and not row.key.endswith(" 2.7.1")]
    assert len(turing) > 200
    assert all(("+cu" in row.theirs) == ("+cu" in row.ours) for row in turing)


def test_uv_asks_the_stand_in_and_nothing_else(ask: Ask) -> None:
    assert ask("2.7.1", "macos") == "2.7.1"  # macOS has one build, without a local part
    assert ask("2.7.1", "linux", UV_CUDA_DRIVER_VERSION="570.26") == "2.7.1+cu128"
    assert ask("99.0", "linux", UV_CUDA_DRIVER_VERSION="570.26").startswith("none: ")


def test_the_macs_agree(ask: Ask, matrix: Matrix) -> None:
    schemes = [name for name in ("macos-mps", "macos-cpu") if name in matrix.schemes]
    for torch in ("", "2.3.1", "2.9.1"):
        for scheme in schemes:
            assert ask(torch, "macos") == envkit_takes(matrix, scheme=scheme, os="macos", torch=torch), (scheme, torch)
