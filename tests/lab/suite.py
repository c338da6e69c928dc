"""All checks of the project, one section after the other; ends with a summary. Started by `bash tests/run`."""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import base_image, engine
from lab.machine import LabError, ca_bundle, is_root, need_programs, note, pip_settings

ROOT = Path(__file__).resolve().parents[2]
VENV = Path(os.environ.get("ENVKIT_TEST_VENV") or ROOT / ".venv")
BIN = VENV / "bin"


class Failed(Exception):
    """A section has failed; the message says how."""


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None, limit: float = 1500) -> None:
    """Runs a command with its output on the terminal; raises Failed when it fails."""
    argv = [str(word) for word in words]
    print("+ " + " ".join(Path(argv[0]).name if number == 0 else word for number, word in enumerate(argv)), flush=True)
    try:
        code = subprocess.run(
            argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, timeout=limit, preexec_fn=_default_signals, check=False
        ).returncode
    except subprocess.TimeoutExpired:
        raise Failed(f"{Path(argv[0]).name} was not done after {limit:.0f} s") from None
    if code != 0:
        raise Failed(f"{Path(argv[0]).name} ended with {code}")


def _default_signals() -> None:
    """What was started in the background ignores ^C and hang-ups, and so would all that the tests start and interrupt."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def uv_environment() -> dict[str, str]:
    """The environment for uv: it reads its own settings; pip's, which it does not read, are translated."""
    env = dict(os.environ)
    pip = pip_settings()
    for option, name in (
        ("index-url", "UV_DEFAULT_INDEX"),
        ("extra-index-url", "UV_INDEX"),
        ("find-links", "UV_FIND_LINKS"),
        ("constraint", "UV_CONSTRAINT"),
    ):
        if pip.get(option):
            env.setdefault(name, pip[option].replace(" ", "," if name == "UV_FIND_LINKS" else " "))
    if pip.get("extra-index-url"):
        # pip takes the best of all indexes; uv, left alone, what the first one has.
        env.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")
    bundle = Path(pip["cert"]) if pip.get("cert") else ca_bundle()
    if bundle:
        env.setdefault("SSL_CERT_FILE", str(bundle))
    if pip.get("proxy"):
        env.setdefault("ALL_PROXY", pip["proxy"])
    env.setdefault("UV_HTTP_TIMEOUT", "180")
    return env


def tools() -> None:
    """The tests' own environment: the project, editable, with its test dependencies."""
    # What is installed depends on these alone, so a second run starts at once.
    stamp = VENV / "envkit-tests.sha256"
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + sys.version.encode() + str(ROOT).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == wanted:
        print(f"{VENV} is up to date")
        return
    shutil.rmtree(VENV, ignore_errors=True)
    run(sys.executable, "-m", "venv", VENV)
    run(BIN / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "uv>=0.8")
    environment = {**uv_environment(), "VIRTUAL_ENV": str(VENV)}
    run(BIN / "uv", "pip", "install", "--quiet", "--group", "test", "--editable", ".", env=environment)
    stamp.write_text(wanted)


def lint() -> None:
    """Format and lint of the Python code."""
    run(BIN / "ruff", "format", "--check", ".")
    run(BIN / "ruff", "check", ".")


def types() -> None:
    """Types of the package, strict."""
    run(BIN / "mypy")


def artifacts() -> None:
    """The matrix, and that the files made from it are what it says."""
    run(BIN / "envkit", "matrix", "check")
    run(BIN / "envkit", "render", "--check")


def dockerfiles() -> None:
    """Lint of the Dockerfiles."""
    files = sorted(ROOT.glob("images/*/Dockerfile"))
    if not files:
        raise Failed("no images/*/Dockerfile")
    run(BIN / "hadolint", *files)


def playbooks() -> None:
    """Lint of plays and roles, without reaching for anything."""
    run(BIN / "yamllint", "--strict", "playbooks")
    plays = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("playbooks/*.yml"))
    if not plays:
        raise Failed("no playbooks/*.yml")
    env = {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "ANSIBLE_HOME": str(VENV / "ansible")}
    run(BIN / "ansible-lint", "--offline", "--profile", "production", "--strict", *plays, env=env)


def package() -> None:
    """Wheel and sdist: whole, the same whichever way they are built, and working from an empty folder."""
    run(BIN / "python", "tests/lab/package.py", env=uv_environment())


def lab() -> None:
    """Docker engine, base image and SSH for the integration tests."""
    try:
        if is_root():
            need_programs({"ssh": "openssh-client", "ssh-keygen": "openssh-client"})
        found = engine.ensure()
        print(f"docker {found.version}, buildx {found.buildx}, {found.storage}")
        print(f"base image {base_image.ensure()}")
    except LabError as error:
        if os.environ.get("ENVKIT_CI") or is_root():
            raise Failed(str(error)) from None
        print(f"{error}: the tests that need one are skipped")


COUNTS = {"passed": 0, "failed": 0, "skipped": 0}


def pytest(*words: str) -> None:
    """One run of pytest, its counts added to the total."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        try:
            run(BIN / "python", "-m", "pytest", f"--junit-xml={report}", "--durations=8", *words, limit=2400)
        finally:
            if report.is_file():
                suite = ElementTree.parse(report).getroot().find("testsuite")
                assert suite is not None
                number = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
                bad = number["failures"] + number["errors"]
                COUNTS["failed"] += bad
                COUNTS["skipped"] += number["skipped"]
                COUNTS["passed"] += number["tests"] - bad - number["skipped"]


def unit() -> None:
    """Unit tests: no network, no processes, no Docker."""
    pytest("tests/unit")


def integration() -> None:
    """Integration tests: real environments, images and hosts."""
    pytest("tests/integration", "tests/benchmarks")


# Name, function, whether the quick run has it.
SECTIONS: tuple[tuple[str, Callable[[], None], bool], ...] = (
    ("tools", tools, True),
    ("lint", lint, True),
    ("types", types, True),
    ("artifacts", artifacts, True),
    ("dockerfiles", dockerfiles, True),
    ("playbooks", playbooks, True),
    ("package", package, True),
    ("unit tests", unit, True),
    ("lab", lab, False),
    ("integration tests", integration, False),
)


def main() -> int:
    """0 when every section passed."""
    parser = argparse.ArgumentParser(prog="bash tests/run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="no engine and no integration tests")
    parser.add_argument("--only", metavar="WORD", help="the sections whose name contains WORD (tools are always made)")
    wish = parser.parse_args()
    # The tools of the environment are found by what they start in turn (ansible, hadolint, docker's plugins stay the system's).
    os.environ["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
    os.environ.pop("PYTHONPATH", None)
    began = time.monotonic()
    results: list[tuple[str, float, str]] = []
    for name, section, quick in SECTIONS:
        if (wish.quick and not quick) or (wish.only and section is not tools and wish.only not in name):
            continue
        print(f"\n=== {name}: {re.sub(r'[.]$', '', section.__doc__ or '')} ===", flush=True)
        started = time.monotonic()
        fault = ""
        try:
            section()
        except (Failed, LabError) as error:
            fault = str(error)
            print(f"FAILED: {name}: {fault}", flush=True)
        results.append((name, time.monotonic() - started, fault))
        if fault and section is tools:
            break
    if wish.quick:
        note("quick run: integration tests left out")
    print("\n=== summary ===")
    for name, seconds, fault in results:
        print(f"{'FAILED' if fault else 'ok':7} {seconds:6.0f} s  {name}{': ' + fault.splitlines()[0] if fault else ''}")
    print(f"        {time.monotonic() - began:6.0f} s  in all")
    print(f"tests: {COUNTS['passed']} passed, {COUNTS['failed']} failed, {COUNTS['skipped']} skipped", flush=True)
    return 1 if any(fault for _, _, fault in results) else 0


if __name__ == "__main__":
    sys.exit(main())
