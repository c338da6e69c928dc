"""The order of findings, checks that break, and what a case tells its checks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from envkit import matrix as matrices
from envkit.doctor import CHECKS, Case, diagnose, diagnosis_document
from envkit.doctor.engine import ordered
from envkit.model import Facts, Finding, Gpu, Machine, Matrix, Os, PythonFacts, Severity


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def finding(cause: str, likelihood: int = 80, *evidence: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(
        cause=cause,
        message=cause,
        evidence=evidence or (f"{cause}: seen",),
        remedy="repair it",
        likelihood=likelihood,
        severity=severity,
    )


def test_the_likeliest_comes_first_and_equals_keep_their_place() -> None:
    assert [each.cause for each in ordered([finding("a", 40), finding("b", 90), finding("c", 40)])] == ["b", "a", "c"]


def test_what_explains_another_goes_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from envkit.doctor import engine

    monkeypatch.setattr(engine, "EXPLAINS", {"root": ("middle",), "middle": ("leaf",)})
    found = ordered([finding("leaf", 90), finding("middle", 50), finding("root", 40), finding("other", 95)])
    assert [each.cause for each in found] == ["other", "root", "middle", "leaf"]


def test_a_check_that_breaks_is_named_and_stops_nothing(matrix: Matrix) -> None:
    def breaks(case: Case) -> Iterator[Finding]:
        yield finding("before")
        raise KeyError("what")

    def works(case: Case) -> Iterator[Finding]:
        yield finding("after")

    found = diagnose(matrix, Facts(), checks=[breaks, works])
    assert [each.cause for each in found.findings] == ["before", "after"]
    assert found.broken == ("breaks: KeyError: 'what'",)


def test_no_finding_without_evidence(matrix: Matrix) -> None:
    def claims(case: Case) -> Iterator[Finding]:
        yield Finding(cause="a", message="a", evidence=(), remedy="r")

    found = diagnose(matrix, Facts(), checks=[claims])
    assert found.findings == ()
    assert found.broken == ("claims: ValueError: a: a finding without evidence",)


def test_two_findings_of_one_cause_become_one(matrix: Matrix) -> None:
    def twice(case: Case) -> Iterator[Finding]:
        yield finding("a", 40, "one: line")
        yield finding("a", 90, "other: line", "one: line")

    (merged,) = diagnose(matrix, Facts(), checks=[twice]).findings
    assert merged.likelihood == 90
    assert merged.evidence == ("other: line", "one: line")


def test_what_only_informs_leaves_a_machine_healthy(matrix: Matrix) -> None:
    def informs(case: Case) -> Iterator[Finding]:
        yield finding("a", severity=Severity.INFO)

    assert diagnose(matrix, Facts(), checks=[informs]).healthy
    assert not diagnose(matrix, Facts(), checks=[lambda case: iter([finding("a")])]).healthy
    assert diagnosis_document(diagnose(matrix, Facts()))["healthy"] is True


def test_nothing_is_said_of_what_nobody_told(matrix: Matrix) -> None:
    diagnosis = diagnose(matrix, Facts())
    assert (diagnosis.findings, diagnosis.broken) == ((), ())
    assert CHECKS


@pytest.mark.parametrize(
    ("machine", "os", "manager"),
    [
        (Machine(os="linux", wsl=True, os_id="ubuntu-22.04"), Os.WSL2, "apt"),
        (Machine(os="linux", os_id="rocky-9"), Os.LINUX, "dnf"),
        (Machine(os="linux", os_release="Fedora 39"), Os.LINUX, "dnf"),
        (Machine(os="linux", os_id="nobara", os_like=("fedora",)), Os.LINUX, "dnf"),
        (Machine(os="linux", os_release="Solus"), Os.LINUX, ""),
        (Machine(os="windows"), Os.WINDOWS, ""),
        (Machine(), None, ""),
    ],
)
def test_the_system_of_a_case(matrix: Matrix, machine: Machine, os: Os | None, manager: str) -> None:
    case = Case(matrix, Facts(machine=machine))
    assert (case.os, case.package_manager) == (os, manager)


@pytest.mark.parametrize(
    ("torch", "flavour"),
    [
        ({"version": "2.0.0+cpu"}, "cpu"),
        ({"version": "2.6.0+cu124"}, "cuda"),
        ({"version": "2.9.1+rocm6.4"}, "rocm"),
        ({"version": "2.12.0", "cuda": "", "hip": ""}, "cpu"),
        ({"version": "2.12.0", "cuda": "13.0", "hip": ""}, "cuda"),
        ({"version": "2.12.0"}, ""),
        ({"version": "2.10.0+rocm7.13.0a20260508"}, "rocm"),
        ({}, ""),
    ],
)
def test_the_flavour_of_torch(matrix: Matrix, torch: dict[str, str], flavour: str) -> None:
    assert Case(matrix, Facts(torch=torch)).torch.flavour == flavour


def test_packages_are_found_whatever_their_spelling(matrix: Matrix) -> None:
    case = Case(matrix, Facts(python=PythonFacts(packages={"Torch_NPU": "2.7.1"}), torch={"version": "2.7.1"}))
    assert case.packages == {"torch-npu": "2.7.1", "torch": "2.7.1"}


def test_hits_name_their_place(matrix: Matrix) -> None:
    case = Case(matrix, Facts(evidence={"dmesg": "a\nNVRM: API mismatch\n", "nvidia-smi": "fine"}))
    hit = case.hit(r"nvrm: (\w+)")
    assert hit is not None
    assert (str(hit), hit[1]) == ("dmesg: NVRM: API mismatch", "API")
    assert case.hit("nvrm", "nvidia-smi") is None


@pytest.mark.parametrize(
    ("evidence", "value"),
    [
        ({"printenv CUDA_VISIBLE_DEVICES": "1"}, "1"),
        ({"echo $CUDA_VISIBLE_DEVICES": "0,1\n"}, "0,1"),
        ({"echo %CUDA_VISIBLE_DEVICES%": "%CUDA_VISIBLE_DEVICES%"}, None),
        ({}, None),
    ],
)
def test_a_variable_that_was_printed(matrix: Matrix, evidence: dict[str, str], value: str | None) -> None:
    assert Case(matrix, Facts(evidence=evidence)).variable("CUDA_VISIBLE_DEVICES") == value


def test_cards_are_identified(matrix: Matrix) -> None:
    case = Case(matrix, Facts(machine=Machine(os="linux", gpus=(Gpu(name="NVIDIA GeForce RTX 4090"), Gpu(name="NVIDIA GPU")))))
    assert [(card.vendor, card.arch) for card in case.gpus] == [("nvidia", "sm_89"), ("nvidia", "")]
