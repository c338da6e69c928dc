"""Libraries are pinned to releases whose wheels run on the machine's C library."""

from __future__ import annotations

import pytest

from envkit import matrix as matrices
from envkit.model import Dotted, Facts, Gpu, Machine, Matrix, Wish
from envkit.resolve import resolve


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def numpy(matrix: Matrix, wish: Wish, facts: Facts | None = None) -> str:
    plan = resolve(matrix, wish, facts).plan
    assert plan is not None
    return next(package.version for package in plan.packages if package.name == "numpy")


@pytest.mark.parametrize(
    ("os", "python", "version"),
    [
        ("centos-7", "", "2.2.6"),
        ("centos-7", "3.12", "2.2.6"),
        ("centos-7", "3.9", "2.0.2"),
        ("ubuntu-18.04", "3.12", "2.5.5"),
        ("debian-12", "3.12", "2.5.5"),
        ("linux", "3.12", "2.5.5"),
        ("windows", "3.12", "2.5.5"),
    ],
)
def test_numpy_runs_on_the_glibc_of_the_system(matrix: Matrix, os: str, python: str, version: str) -> None:
    assert numpy(matrix, Wish(os=f"{os}/x86_64", gpu="RTX 2080 Ti", python=python)) == version


def test_every_numpy_has_a_floor(matrix: Matrix) -> None:
    """Taken from the names of its wheels: manylinux2014 is 2.17, manylinux_2_27 is 2.27."""
    floors = {row.version: row.glibc for row in matrix.libraries["numpy"]}
    assert set(floors.values()) == {Dotted("2.17"), Dotted("2.27")}


def test_a_glibc_older_than_every_wheel_is_no_place_for_a_plan(matrix: Matrix) -> None:
    facts = Facts(machine=Machine(os="linux", glibc="2.12", gpus=(Gpu(arch="sm_75", vendor="nvidia"),)))
    resolution = resolve(matrix, Wish(torch="2.6.0", backend="cu124"), facts)
    assert resolution.plan is None
    reasons = {one.reason for each in resolution.judged for one in each.answers}
    assert any("that run on glibc 2.12: they need 2.17" in reason for reason in reasons)
    assert resolution.nearest[0].change.text == "move to CentOS 7 or newer (glibc 2.17)"
    assert resolve(matrix, Wish(), facts).plan is None


def test_another_python_is_offered_where_it_has_wheels_for_the_glibc(matrix: Matrix) -> None:
    wish = Wish(os="centos-7/x86_64", gpu="none", python="3.14", torch="2.9", accept=())
    reasons = {one.reason for each in resolve(matrix, wish).judged for one in each.answers if one.rule == "libraries"}
    assert any("has wheels for Python 3.14 that run on glibc 2.17: they need 2.27" in reason for reason in reasons)
