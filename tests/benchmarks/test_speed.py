"""The promises about speed, with room for a busy machine; `python tests/benchmarks/run.py` prints the figures themselves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

import fleet
import run as bench


def test_it_starts_quickly() -> None:
    # Promised: < 3 times, < 150 ms.
    figure = bench.start()
    print(figure)
    assert figure.ratio < 3, str(figure)


def test_starting_loads_no_heavy_library() -> None:
    heavy = {"rich", "docker", "requests", "jinja2", "testinfra", "pytest", "ansible_runner", "packaging", "asyncio"}
    script = f"import sys; from envkit.cli.app import run; run(['--version']); print(sorted({heavy!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=bench.ROOT)
    assert done.stdout.splitlines()[1] == "[]"


def test_resolve_decides_at_once() -> None:
    # Promised: < 50 ms inside the process.
    for figure in bench.resolve():
        print(figure)
        assert figure.ratio < 4, str(figure)


def test_a_fleet_is_resolved_quickly_and_memory_stays_flat() -> None:
    # Promised: 10,000 different machines in < 5 s on two cores.
    seconds, planned, growth = fleet.measure(2_000, 2)
    print(f"2000 machines in {seconds:.1f} s, {planned} with a plan, memory in the second half x {growth:.3f}")
    assert seconds < 5
    assert 400 < planned < 2_000
    assert growth < 1.1


@pytest.mark.net
def test_verify_costs_little_beside_the_import(cpu_venv: Path) -> None:
    # Promised: the import and half a second.
    figure = bench.verify(cpu_venv)
    print(figure)
    assert figure.difference < 2.0, str(figure)


def test_doctor_costs_little_besides_the_import() -> None:
    # Promised: < 500 ms besides the import of torch in its child.
    figure = bench.doctor()
    print(figure)
    assert figure.ratio < 15, str(figure)


@pytest.mark.net
def test_doctor_costs_little_beside_the_import_of_torch(cpu_venv: Path) -> None:
    figure = bench.doctor_torch(cpu_venv)
    print(figure)
    assert figure.difference < 2.0, str(figure)
