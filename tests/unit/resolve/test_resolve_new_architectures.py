"""Architectures that no wheel was made for, and the borders of what a vendor tested."""

from __future__ import annotations

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import Dotted, DriverFacts, Facts, Gpu, Machine, Matrix, PythonFacts, Verdict, Wish
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


def test_no_driver_is_both_open_and_proprietary(matrix: Matrix) -> None:
    # Blackwell takes the open module alone, Volta the proprietary one alone, and one module drives all of a machine's cards.
    cards = (Gpu(name="RTX 5090", arch="sm_120", vendor="nvidia"), Gpu(name="V100", arch="sm_70", vendor="nvidia"))
    facts = Facts(
        machine=Machine(os="linux", os_id="ubuntu-24.04", gpus=cards, driver=DriverFacts(kernel="580.82.07")),
        python=PythonFacts(version="3.12.3"),
    )
    resolution = resolve(matrix, Wish(), facts)
    assert resolution.plan is None
    (answer,) = (a for a in resolution.judged[0].answers if a.rule == "kernel-module")
    assert answer.reason == (
        "RTX 5090 (sm_120) is Blackwell, which works only with the open kernel module; "
        "V100 (sm_70) is Volta, which works only with the proprietary kernel module: no driver is both"
    )
    assert {each.change.text.partition(":")[0] for each in resolution.nearest} >= {
        "hide the RTX 5090 (sm_120)",
        "hide the V100 (sm_70)",
    }


def test_two_pythons_are_offered_where_the_nearest_holds_the_release_back(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(gpu="RTX 4090", driver="580.82.07", python="3.6"))
    assert [(each.change.text, each.plan.framework_version) for each in resolution.nearest] == [
        ("use Python 3.7: --python 3.7", "1.13.1"),
        ("use Python 3.11: --python 3.11", "2.15.0"),
    ]


def test_the_tags_of_other_systems_are_not_offered(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(gpu="RTX 4090", torch="2.12.0", backend="cu129", os="linux"))
    assert resolution.notes[0].startswith("torch 2.12.0 is not published for cu129 on linux: it has cpu, cu126, cu130, cu132")
