"""NVIDIA's numbers: what a report tells of the driver, its floors on each system, and which cards a variable leaves."""

from __future__ import annotations

import pytest

from envkit import matrix as matrices
from envkit.doctor import Case, diagnose
from envkit.doctor.nvidia import driver_release, needed_cuda, same_release, served_cuda
from envkit.doctor.nvidia_mig import visible
from envkit.model import Dotted, DriverFacts, Facts, Gpu, Machine, Matrix, PythonFacts


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def causes(matrix: Matrix, facts: Facts) -> list[str]:
    diagnosis = diagnose(matrix, facts)
    assert diagnosis.broken == ()
    return [finding.cause for finding in diagnosis.findings]


@pytest.mark.parametrize(
    ("evidence", "served"),
    [
        ({"error": "driver on your system is too old (found version 12020)"}, "12.2"),
        ({"error": "driver on your system is too old (found version 9000)"}, "9.0"),
        ({"error": "driver on your system is too old (found version 10010)"}, "10.1"),
        ({"nvidia-smi": "| NVIDIA-SMI 535.171.04   Driver Version: 535.171.04   CUDA Version: 12.2     |"}, "12.2"),
        ({"nvidia-smi": "| NVIDIA-SMI 610.43.02  KMD Version: 610.43.02  CUDA UMD Version: 13.3 |"}, "13.3"),
        ({"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  520.56.06"}, "11.8"),
        ({}, None),
    ],
)
def test_the_newest_cuda_that_a_driver_serves(matrix: Matrix, evidence: dict[str, str], served: str | None) -> None:
    assert served_cuda(Case(matrix, Facts(evidence=evidence)))[0] == (Dotted(served) if served else None)


@pytest.mark.parametrize(
    ("machine", "evidence", "release"),
    [
        (Machine(driver=DriverFacts(kernel="535.54.03")), {}, "535.54.03"),
        (Machine(os="windows", driver=DriverFacts(kernel="32.0.15.7260")), {}, "572.60"),
        (Machine(os="linux", wsl=True), {"nvidia-smi": "| NVIDIA-SMI 535.103   Driver Version: 537.13 |"}, "537.13"),
        (
            Machine(gpus=(Gpu(name="AMD Radeon RX 7900 XT"),), driver=DriverFacts(kernel="6.12.12")),
            {},
            None,
        ),
        (Machine(), {"nvidia-smi --query-gpu=driver_version --format=csv,noheader": "550.54.15"}, "550.54.15"),
    ],
)
def test_the_release_of_the_loaded_driver(
    matrix: Matrix, machine: Machine, evidence: dict[str, str], release: str | None
) -> None:
    assert driver_release(Case(matrix, Facts(machine=machine, evidence=evidence)))[0] == (Dotted(release) if release else None)


@pytest.mark.parametrize(
    ("torch", "packages", "arch", "cuda"),
    [
        ({"version": "2.6.0+cu124"}, {}, "x86_64", "12.4"),
        ({"version": "2.14.1"}, {}, "x86_64", "13.0"),
        ({"version": "2.9.1"}, {}, "x86_64", "12.8"),
        ({"version": "2.9.1"}, {}, "aarch64", None),  # PyPI's was for the CPU there
        ({}, {"nvidia-cuda-runtime-cu12": "12.6.77"}, "x86_64", "12.6"),
        ({"version": "2.6.0+cpu"}, {}, "x86_64", None),
    ],
)
def test_the_cuda_that_a_torch_was_built_with(
    matrix: Matrix, torch: dict[str, str], packages: dict[str, str], arch: str, cuda: str | None
) -> None:
    case = Case(matrix, Facts(machine=Machine(os="linux", arch=arch), python=PythonFacts(packages=packages), torch=torch))
    assert needed_cuda(case)[0] == (Dotted(cuda) if cuda else None)


@pytest.mark.parametrize(
    ("os", "wsl", "driver", "tag", "too_old"),
    [
        ("linux", False, "525.60.12", "cu124", True),
        ("linux", False, "525.60.13", "cu124", False),
        ("linux", False, "450.80.02", "cu118", False),
        ("linux", False, "450.80.01", "cu118", True),
        ("linux", False, "580.65.06", "cu130", False),
        ("linux", False, "580.65.05", "cu130", True),
        ("windows", False, "528.33", "cu121", False),
        ("windows", False, "528.32", "cu121", True),
        ("linux", True, "528.33", "cu121", False),  # WSL2 has the numbers of Windows
        ("linux", True, "525.60.13", "cu121", True),
    ],
)
def test_the_floor_of_a_wheel_is_inclusive(matrix: Matrix, os: str, wsl: bool, driver: str, tag: str, too_old: bool) -> None:
    machine = Machine(os=os, wsl=wsl, gpus=(Gpu(name="NVIDIA RTX A4000"),), driver=DriverFacts(kernel=driver))
    facts = Facts(machine=machine, torch={"version": f"2.5.1+{tag}", "available": False})
    assert ("nvidia-driver-too-old" in causes(matrix, facts)) is too_old


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("570.124", "570.124.06", True),
        ("570.124.06", "570.124.04", False),
        ("535.54.03", "535.54.3", True),
        ("535.161.07", "535.171.04", False),
    ],
)
def test_one_release_is_told_short_and_long(one: str, other: str, same: bool) -> None:
    assert same_release(Dotted(one), Dotted(other)) is same


@pytest.mark.parametrize(
    ("facts", "value"),
    [
        (Facts(env={"CUDA_VISIBLE_DEVICES": ""}), ""),
        (Facts(evidence={"printenv CUDA_VISIBLE_DEVICES": ""}), None),
        (Facts(evidence={"echo $CUDA_VISIBLE_DEVICES": "0,1"}), "0,1"),
        (Facts(request={"command": "CUDA_VISIBLE_DEVICES=3 python train.py"}), "3"),
        (Facts(evidence={"train.py": 'os.environ["CUDA_VISIBLE_DEVICES"] = "2"'}), "2"),
        (Facts(evidence={"train.py": "os.environ.setdefault('CUDA_VISIBLE_DEVICES', '2')"}), "2"),
        (Facts(evidence={"run.sh": "export CUDA_VISIBLE_DEVICES=4,5"}), "4,5"),
        (Facts(), None),
    ],
)
def test_what_the_variable_is(matrix: Matrix, facts: Facts, value: str | None) -> None:
    assert visible(Case(matrix, facts))[0] == value


@pytest.mark.parametrize(
    ("value", "cards", "hidden"),
    [("0", 1, False), ("1", 1, True), ("1", 2, False), ("2", 2, True), ("-1", 2, True), ("", 1, True), ("cuda:0", 1, True)],
)
def test_an_index_counts_from_zero(matrix: Matrix, value: str, cards: int, hidden: bool) -> None:
    machine = Machine(os="linux", gpus=(Gpu(name="NVIDIA RTX A4000"),) * cards)
    facts = Facts(machine=machine, torch={"version": "2.5.1+cu124", "available": False}, env={"CUDA_VISIBLE_DEVICES": value})
    assert ("cuda-visible-devices-hides-gpu" in causes(matrix, facts)) is hidden


def test_the_plan_is_made_for_the_driver_of_the_header(matrix: Matrix) -> None:
    evidence = {
        "nvidia-smi": "| NVIDIA-SMI 470.86   Driver Version: 470.86   CUDA Version: 11.4",
        "error": "The NVIDIA driver on your system is too old (found version 11040).",
    }
    machine = Machine(os="linux", arch="x86_64", gpus=(Gpu(name="NVIDIA GeForce RTX 3050"),))
    finding = diagnose(matrix, Facts(machine=machine, evidence=evidence)).findings[0]
    assert finding.cause == "nvidia-driver-too-old"
    assert finding.commands == (
        "python -m pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu118",
    )
