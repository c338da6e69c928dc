"""Cards of which the facts do not tell enough: they never lead to the CPU unasked."""

from __future__ import annotations

from typing import Any

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import DriverFacts, Facts, Gpu, Machine, Matrix, PythonFacts, Resolution, Wish
from envkit.resolve import resolve


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def answer(matrix: Matrix, card: Gpu, *, python: str = "", **machine: Any) -> Resolution:
    there = Machine(os=machine.pop("os", "linux"), gpus=(card,), **machine)
    return resolve(matrix, Wish(), Facts(machine=there, python=PythonFacts(version=python)))


@pytest.mark.parametrize(
    ("card", "told"),
    [
        (Gpu(name="RTX 4000"), "the architecture of RTX 4000 is not known: it may be Quadro RTX 4000 (sm_75); RTX 4000 Ada"),
        (Gpu(name="780M"), "the vendor of 780M is not known: it may be Radeon 780M (gfx1103); GeForce GTX 780M (sm_30)"),
        (Gpu(name="GeForce GT 710"), "the architecture of GeForce GT 710 is not known: it may be GeForce GT 710 (sm_21, sm_35)"),
        (Gpu(name="Frobnicator 9000"), "the vendor of Frobnicator 9000 is not known"),
        (Gpu(), "the vendor of unknown GPU is not known"),
        (Gpu(arch="banana"), "the vendor of banana is not known"),
        (Gpu(vendor="Acme", name="X1"), "the vendor of X1 is not known"),
        (Gpu(pci_id="1db7:0001"), "the vendor of 1db7:0001 is not known"),
    ],
)
def test_a_card_that_cannot_be_told_is_unknown(matrix: Matrix, card: Gpu, told: str) -> None:
    resolution = answer(matrix, card)
    assert resolution.plan is None
    assert {str(each.verdict) for each in resolution.judged if each.candidate.scheme.name == "linux-cuda"} == {"unknown"}
    reasons = {one.reason for each in resolution.judged for one in each.answers}
    assert any(reason.startswith(told) for reason in reasons)
    assert resolution.nearest[0].change.text == "use the CPU: --scheme linux-cpu"


@pytest.mark.parametrize(
    "card",
    [
        Gpu(name="Apple M2"),
        Gpu(vendor="iluvatar", name="BI-V100"),
        Gpu(vendor="hygon", pci_id="1d94:54b7"),
    ],
)
def test_a_card_that_no_scheme_uses_is_no_reason_for_the_cpu(matrix: Matrix, card: Gpu) -> None:
    resolution = answer(matrix, card)
    assert resolution.plan is None
    assert [each.change.text for each in resolution.nearest] == ["use the CPU: --scheme linux-cpu"]


@pytest.mark.parametrize("card", [Gpu(name="Intel Arc B990"), Gpu(vendor="intel")])
def test_an_intel_card_of_unknown_architecture_is_unknown(matrix: Matrix, card: Gpu) -> None:
    resolution = answer(matrix, card)
    assert resolution.plan is None
    assert {str(each.verdict) for each in resolution.judged if each.candidate.scheme.name == "linux-xpu"} == {"unknown"}
    offered = ["use the CPU: --scheme linux-cpu", "take what is not known to work: --accept unknown"]
    assert [each.change.text for each in resolution.nearest] == offered


@pytest.mark.parametrize(
    "card",
    [
        Gpu(name="QEMU virtio GPU"),
        Gpu(pci_id="15ad:0405", name="SVGA II"),
        Gpu(pci_id="1002:515e", name="ES1000"),
        Gpu(name="Microsoft Basic Display Adapter"),
        Gpu(name="Intel(R) HD Graphics 4600"),
        Gpu(vendor="intel", pci_id="8086:0412", pci_address="0000:00:02.0"),
    ],
)
def test_what_only_draws_or_sits_in_the_processor_leaves_the_cpu(matrix: Matrix, card: Gpu) -> None:
    plan = answer(matrix, card).plan
    assert plan is not None
    assert plan.backend_name == "cpu"


@pytest.mark.parametrize(
    ("card", "arch"),
    [
        (Gpu(vendor="NVIDIA Corporation", arch="sm_90"), "sm_90"),
        (Gpu(vendor="NVIDIA", name="A100"), "sm_80"),
        (Gpu(arch="8.9"), "sm_89"),
        (Gpu(name="T1000"), "sm_75"),  # several cards of one architecture
    ],
)
def test_what_can_be_told_is_told(matrix: Matrix, card: Gpu, arch: str) -> None:
    plan = answer(matrix, card).plan
    assert plan is not None
    assert (plan.backend_name, plan.accelerator_arch) == ("cuda", arch)


def test_facts_that_cannot_be_read_are_named(matrix: Matrix) -> None:
    card = Gpu(arch="sm_90", vendor="nvidia")
    resolution = answer(matrix, card, python="banana", driver=DriverFacts(kernel="mango"))
    assert resolution.notes == (
        "machine.driver.kernel of the facts is no version, so the driver counts as not known: 'mango'",
        "python.version of the facts is no Python 3, so it counts as not known: 'banana'",
    )
    assert answer(matrix, card, python="3.12.1", driver=DriverFacts(kernel="580.65.06")).notes == ()


@pytest.mark.parametrize("text", ["10de:ffff", "10DE:FFFF", "[10de:ffff]", "PCI\\VEN_10DE&DEV_FFFF&SUBSYS_1"])
def test_a_pci_id_that_is_not_catalogued_is_an_unknown_card(matrix: Matrix, text: str) -> None:
    resolution = resolve(matrix, Wish(os="linux", gpu=text))
    assert resolution.plan is None
    reasons = {one.reason for each in resolution.judged for one in each.answers}
    assert "the architecture of 10de:ffff is not known" in reasons
    assert "linux-rocm needs an AMD GPU; this machine has 10de:ffff" in reasons


def test_a_pci_id_of_an_unknown_vendor_or_of_a_screen(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(os="linux", gpu="1db7:0001"))
    assert "the vendor of 1db7:0001 is not known" in {one.reason for each in resolution.judged for one in each.answers}
    with pytest.raises(UsageError, match="computes nothing"):
        resolve(matrix, Wish(os="linux", gpu="1a03:2000"))


def test_a_full_name_is_not_asked_to_be_written_in_full(matrix: Matrix) -> None:
    with pytest.raises(UsageError) as one:
        resolve(matrix, Wish(gpu="GeForce GT 710"))
    assert one.value.hint == "write the architecture or the PCI id"
    with pytest.raises(UsageError) as several:
        resolve(matrix, Wish(gpu="RTX 4000"))
    assert several.value.hint == "write the full name, the architecture or the PCI id"
