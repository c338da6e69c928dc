"""Architectures that no wheel was made for, and the borders of what a vendor tested."""

from __future__ import annotations

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import Dotted, Facts, Gpu, Machine, Matrix, Verdict, Wish
from envkit.resolve import resolve
from envkit.resolve.rules import _within


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


@pytest.mark.parametrize("arch", ["sm_130", "sm_201"])
def test_a_card_of_the_future_is_unknown_by_either_way(matrix: Matrix, arch: str) -> None:
    facts = Facts(machine=Machine(os="linux", os_id="ubuntu-24.04", gpus=(Gpu(arch=arch, vendor="nvidia"),)))
    for resolution in (resolve(matrix, Wish(scheme="linux-cuda", gpu=arch)), resolve(matrix, Wish(scheme="linux-cuda"), facts)):
        assert resolution.plan is None
        best = resolution.judged[0]
        assert best.verdict is Verdict.UNKNOWN
        assert any(f"the matrix does not know {arch}, which is newer than all code in" in a.reason for a in best.answers)


def test_one_between_those_that_are_known_is_unknown_too(matrix: Matrix) -> None:
    facts = Facts(machine=Machine(os="linux", os_id="ubuntu-24.04", gpus=(Gpu(arch="sm_88", vendor="nvidia"),)))
    best = resolve(matrix, Wish(scheme="linux-cuda"), facts).judged[0]
    assert best.verdict is Verdict.UNKNOWN
    with pytest.raises(UsageError, match="unknown GPU 'sm_88'; did you mean"):
        resolve(matrix, Wish(gpu="sm_88"))


def test_one_before_all_code_is_rejected(matrix: Matrix) -> None:
    facts = Facts(machine=Machine(os="linux", os_id="ubuntu-24.04", gpus=(Gpu(arch="sm_13", vendor="nvidia"),)))
    assert {each.verdict for each in resolve(matrix, Wish(scheme="linux-cuda", torch="2.7.1"), facts).judged} == {
        Verdict.UNSUPPORTED
    }


@pytest.mark.parametrize(
    ("have", "line", "inside"),
    [
        ("30.10.2", "30.10", True),
        ("30.20", "30.10", False),
        ("6.0.5", "6.0", True),
        ("6", "6.0", True),
        ("6.1", "6.0", False),
        ("6.4.3", "6.0", False),
        ("5.7", "6.0", True),
        ("7.0", "6.4", False),
    ],
)
def test_a_line_of_drivers(have: str, line: str, inside: bool) -> None:
    assert _within(Dotted(have), Dotted(line)) is inside
