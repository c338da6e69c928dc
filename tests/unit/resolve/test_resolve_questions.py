"""Hard questions to the shipped matrix. The answers were written from the facts and their sources, not from the code."""

# ruff: noqa: E501 -- the table of questions reads one row a line

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envkit import matrix as matrices
from envkit.model import DriverFacts, Evidence, Facts, Gpu, Machine, Matrix, Plan, PythonFacts, Resolution, Verdict, Wish
from envkit.resolve import conflict_document, resolve

OVERRIDE = (Verdict.SUPPORTED, Verdict.COMMUNITY, Verdict.OVERRIDE)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def machine(*cards: Gpu, driver: str = "", license: str = "", python: str = "", **more: Any) -> Facts:
    described = Machine(os=more.pop("os", "linux"), gpus=cards, driver=DriverFacts(kernel=driver, license=license), **more)
    return Facts(machine=described, python=PythonFacts(version=python))


def nvidia(arch: str, **more: Any) -> Gpu:
    return Gpu(arch=arch, vendor="nvidia", **more)


def amd(arch: str, **more: Any) -> Gpu:
    return Gpu(arch=arch, vendor="amd", **more)


def pinned(plan: Plan) -> str:
    package = plan.framework_package
    return f"{plan.scheme} {package.version} {plan.verdict}"


# ---- questions with a plan ---------------------------------------------------------------------------------------

PLANS: list[tuple[str, dict[str, str], Facts | None, str, str]] = [
    # what is asked, as options or facts; scheme, version and verdict; the driver needed
    ("newest torch for Blackwell", {"os": "linux", "gpu": "RTX 5090", "driver": "580.82"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    # 2.15's build for 12.6 is not confirmed; sm_60 code runs on sm_61, and CUDA 13 holds none (uv goes by the driver alone and takes cu132).
    ("Pascal keeps CUDA 12.6", {"gpu": "GTX 1080 Ti", "driver": "580.82"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("Maxwell too", {"gpu": "GTX 970", "driver": "580.126.09"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("a laptop's MX150 is Pascal", {"gpu": "GeForce MX150", "driver": "580.82"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("a laptop's MX450 is Turing", {"gpu": "GeForce MX450", "driver": "580.82"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    ("a laptop card", {"gpu": "RTX 4070 Laptop GPU", "driver": "580.95.05"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    # CUDA 12.8 is the newest that 570 reaches for sm_120, and torch 2.11 the last with a 12.8 build.
    ("Blackwell at its own floor", {"gpu": "RTX 5090", "driver": "570.26"}, None, "linux-cuda 2.11.0+cu128 supported", "570.26"),
    ("Blackwell on Windows", {"os": "windows", "gpu": "RTX 5090", "driver": "572.60"}, None, "windows-cuda 2.11.0+cu128 supported", "570.65"),
    ("a Windows driver as Windows numbers it", {"os": "windows", "gpu": "RTX 5090", "driver": "32.0.15.7260"}, None, "windows-cuda 2.11.0+cu128 supported", "570.65"),
    # torch 2.15 is not confirmed for Windows; a 580 driver serves 13.0 itself, 13.2 only by minor-version compatibility.
    ("Windows with a floor that is only a branch", {"os": "windows", "gpu": "RTX 5090", "driver": "580.88"}, None, "windows-cuda 2.14.1+cu130 supported", "580"),
    ("RTX 2080 Ti with 525", {"gpu": "RTX 2080 Ti", "driver": "525.60.13"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("V100: CUDA 13 has no code for Volta", {"gpu": "Tesla V100 PCIe", "driver": "580.82.07"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("V100: the last 12.8 build with Volta", {"gpu": "sm_70", "driver": "580.82.07", "backend": "cu128"}, None, "linux-cuda 2.10.0+cu128 supported", "525.60.13"),
    ("H100 with 560", {"gpu": "H100 PCIe", "driver": "560.35.05"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("H100 with 580", {"gpu": "H100 PCIe", "driver": "580.82.07"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    ("B200 at its floor", {"gpu": "B200", "driver": "570.26"}, None, "linux-cuda 2.11.0+cu128 supported", "570.26"),
    # No toolkit is known as the first for sm_121; it runs sm_120 code, which no driver before 570.26 loads.
    ("GB10 runs sm_120 code", {"os": "linux/aarch64", "gpu": "sm_121", "driver": "580.95.05"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    ("Thor has code of its own on Arm", {"os": "linux/aarch64", "gpu": "Jetson AGX Thor", "driver": "580.65.06"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    # Orin ran only code made for it, until CUDA 13.2 let it run sm_80 code.
    ("Orin from CUDA 13.2 on", {"os": "linux/aarch64", "gpu": "sm_87", "driver": "580.65.06"}, None, "linux-cuda 2.15.0+cu132 community", "580.65.06"),
    ("A100 on Arm", {"os": "linux/aarch64", "gpu": "sm_80", "driver": "580.82.07"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    # One card, every driver age: 11.8 by minor-version compatibility, then 12.6, then 13.2.
    ("RTX 3060 with 470", {"gpu": "RTX 3060", "driver": "470.256.02"}, None, "linux-cuda 2.7.1+cu118 supported", "450.80.02"),
    ("RTX 3060 with 525", {"gpu": "RTX 3060", "driver": "525.60.13"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("RTX 3060 just below 525's floor", {"gpu": "RTX 3060", "driver": "525.60.12"}, None, "linux-cuda 2.7.1+cu118 supported", "450.80.02"),
    ("RTX 3060 with 550", {"gpu": "RTX 3060", "driver": "550.54.14"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("RTX 3060 with 570", {"gpu": "RTX 3060", "driver": "570.86.10"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("RTX 3060 just below 580's floor", {"gpu": "RTX 3060", "driver": "580.65.05"}, None, "linux-cuda 2.14.1+cu126 supported", "525.60.13"),
    ("RTX 3060 with 580", {"gpu": "RTX 3060", "driver": "580.65.06"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    ("RTX 3060 with 595", {"gpu": "RTX 3060", "driver": "595.71.05"}, None, "linux-cuda 2.15.0+cu132 supported", "580.65.06"),
    ("Kepler's last", {"gpu": "Tesla K80", "driver": "470.256.02"}, None, "linux-cuda 2.7.1+cu118 supported", "450.80.02"),
    ("WSL2 has the Windows driver", {"os": "wsl2", "gpu": "RTX 4090", "driver": "572.60"}, None, "wsl2-cuda 2.14.1+cu126 supported", "528.33"),
    # Pythons and C libraries
    ("Python 3.8 ends with torch 2.4", {"gpu": "RTX 3090", "driver": "535.54.03", "python": "3.8"}, None, "linux-cuda 2.4.1+cu121 supported", "525.60.13"),
    ("free-threaded 3.13 ends with 2.12.0", {"scheme": "linux-cpu", "python": "3.13t"}, None, "linux-cpu 2.12.0+cpu supported", ""),
    ("Python 3.15", {"gpu": "none", "python": "3.15"}, None, "linux-cpu 2.15.0+cpu supported", ""),
    ("glibc 2.17: wheels before manylinux_2_28", {}, machine(os_id="centos-7", glibc="2.17", python="3.11.9"), "linux-cpu 2.6.0+cpu supported", ""),
    ("glibc 2.17 with a card", {}, machine(nvidia("sm_80"), driver="535.54.03", os_id="centos-7", glibc="2.17", python="3.11.9"), "linux-cuda 2.6.0+cu124 supported", "525.60.13"),
    ("glibc 2.27", {}, machine(os_id="ubuntu-18.04", glibc="2.27", python="3.11.9"), "linux-cpu 2.6.0+cpu supported", ""),
    ("glibc 2.28 is enough", {}, machine(os_id="rhel-8.10", glibc="2.28", python="3.11.9"), "linux-cpu 2.15.0+cpu supported", ""),
    ("the CPU on Arm", {"os": "linux/aarch64", "gpu": "none"}, None, "linux-cpu 2.15.0+cpu supported", ""),
    # 2.15 for Windows on Arm is not confirmed
    ("the CPU of Windows on Arm", {"os": "windows/arm64", "gpu": "none"}, None, "windows-cpu 2.14.1+cpu supported", ""),
    # AMD
    # The code of 2.13's wheels was not read and 2.14's are not confirmed, so 2.12.1 is the newest that is known to serve.
    ("RX 7900 XTX on Ubuntu 24.04", {}, machine(amd("gfx1100"), os_id="ubuntu-24.04", python="3.12.3"), "linux-rocm 2.13.0+rocm7.2 supported", "6.4"),
    ("MI300X on RHEL 9", {}, machine(amd("gfx942"), os_id="rhel-9.6", python="3.12.3"), "linux-rocm 2.13.0+rocm7.2 supported", "6.4"),
    ("RX 7900 XTX where AMD lists no system", {}, machine(amd("gfx1100"), os_id="fedora-43", glibc="2.42", python="3.12.3"), "linux-rocm 2.13.0+rocm7.2 community", "6.4"),
    # In every wheel, but off AMD's list after 6.2, where it was deprecated.
    ("MI50: the last release that AMD listed it for", {}, machine(amd("gfx906"), os_id="ubuntu-22.04", python="3.10.12"), "linux-rocm 2.7.1+rocm6.2.4 supported", "6.0"),
    ("RX 7900 XT on Windows", {"os": "windows", "gpu": "RX 7900 XT"}, None, "windows-rocm 2.12.0+rocm7.14.0 supported", "26.6.4"),
    ("Radeon 780M on Windows", {"os": "windows", "gpu": "gfx1103"}, None, "windows-rocm 2.12.0+rocm7.14.0 supported", "26.6.4"),
    ("Polaris on Windows has DirectML alone", {"os": "windows", "gpu": "Radeon RX 580"}, None, "windows-directml 2.4.1 supported", ""),
    ("RX 6700 XT on Windows likewise", {"os": "windows", "gpu": "RX 6700 XT"}, None, "windows-directml 2.4.1 supported", ""),
    # asked for, so it is given
    ("the CPU beside a card, as asked", {"scheme": "linux-cpu", "gpu": "RTX 5090"}, None, "linux-cpu 2.15.0+cpu supported", ""),
    ("the CPU beside a card, by backend", {"backend": "cpu", "gpu": "RTX 5090"}, None, "linux-cpu 2.15.0+cpu supported", ""),
    ("an exact build", {"torch": "2.7.1+cu128", "gpu": "RTX 5090", "driver": "580.82"}, None, "linux-cuda 2.7.1+cu128 supported", "570.26"),
    ("a minor line", {"torch": "2.9", "gpu": "RTX 5090", "driver": "580.82"}, None, "linux-cuda 2.9.1+cu128 supported", "570.26"),
    ("a range", {"torch": ">=2.4,<2.8", "gpu": "RTX 5090", "driver": "580.82"}, None, "linux-cuda 2.7.1+cu128 supported", "570.26"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "facts", "answer", "need"), [row[1:] for row in PLANS], ids=[row[0] for row in PLANS])
def test_plans(matrix: Matrix, options: dict[str, str], facts: Facts | None, answer: str, need: str) -> None:
    resolution = resolve(matrix, Wish(**options), facts)  # type: ignore[arg-type]
    assert resolution.plan is not None, conflict_document(resolution)["rejections"]
    assert (pinned(resolution.plan), resolution.plan.driver_need) == (answer, need)


# ---- questions without -------------------------------------------------------------------------------------------

CONFLICTS: list[tuple[str, dict[str, str], Facts | None, str, list[tuple[str, str]]]] = [
    # what is asked; a reason; each nearest change with the build that it leads to
    (
        "Blackwell with 550",
        {"os": "linux", "gpu": "RTX 5090", "driver": "550.54.14"},
        None,
        "(sm_120): the first is 570.26, of CUDA 12.8",
        [
            ("update the driver to 570.26 or newer", "linux-cuda 2.11.0+cu128"),
            ("update the driver to 580.65.06 or newer", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "Pascal with 595",
        {"gpu": "GTX 1080 Ti", "driver": "595.71.05"},
        None,
        "branch 590 dropped it, 580 is the last that does",
        [("use a 580 driver", "linux-cuda 2.14.1+cu126"), ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu")],
    ),
    (
        "Blackwell on Windows, just below its floor",
        {"os": "windows", "gpu": "RTX 5090", "driver": "570.64"},
        None,
        "(sm_120): the first is 570.65, of CUDA 12.8",
        [
            ("update the driver to 570.65 or newer", "windows-cuda 2.11.0+cu128"),
            ("update the driver to 580 or newer", "windows-cuda 2.14.1+cu130"),
            ("use DirectML: --scheme windows-directml", "windows-directml 2.4.1"),
            ("use the CPU: --scheme windows-cpu", "windows-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "GB10 with 550: its own first driver is not known, that of the code is",
        {"os": "linux/aarch64", "gpu": "sm_121", "driver": "550.54.14", "torch": "2.11"},
        None,
        "driver 550.54.14 does not know sm_121: even sm_120 takes 570.26, of CUDA 12.8",
        [
            ("update the driver to 580.65.06 or newer", "linux-cuda 2.11.0+cu130"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.11.0+cpu"),
            ("take what is not known to work: --accept unknown", "linux-cuda 2.11.0+cu128"),
        ],
    ),
    (
        "Ada with 470",
        {"gpu": "RTX 4090", "driver": "470.256.02"},
        None,
        "(sm_89): the first is 520.61.05, of CUDA 11.8",
        [
            ("update the driver to 520.61.05 or newer", "linux-cuda 2.7.1+cu118"),
            ("update the driver to 580.65.06 or newer", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "V100 with the newest torch",
        {"gpu": "Tesla V100 PCIe", "driver": "580.82.07", "torch": "2.15"},
        None,
        "torch 2.15.0+cu132 has no code for Tesla V100 PCIe (sm_70): it holds sm_75",
        [
            ("use torch 2.14.1: --torch 2.14.1", "linux-cuda 2.14.1+cu126"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
            ("take what is not known to work: --accept unknown", "linux-cuda 2.15.0+cu126"),
        ],
    ),
    (
        "Volta left the 12.8 builds with 2.11",
        {"gpu": "sm_70", "driver": "580.82.07", "torch": "2.11", "backend": "cu128"},
        None,
        "torch 2.11.0+cu128 has no code for sm_70",
        [
            ("use another build: --backend cu126", "linux-cuda 2.11.0+cu126"),
            ("use torch 2.10.0: --torch 2.10.0", "linux-cuda 2.10.0+cu128"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.11.0+cpu"),
        ],
    ),
    (
        "Kepler with 525",
        {"gpu": "Tesla K80", "driver": "525.60.13"},
        None,
        "branch 495 dropped it, 470 is the last that does",
        [("use a 470 driver", "linux-cuda 2.7.1+cu118"), ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu")],
    ),
    (
        "first-generation Kepler: no wheel holds code for it",
        {"gpu": "GeForce GTX 680", "driver": "470.256.02"},
        None,
        "has no code for GeForce GTX 680 (sm_30)",
        [("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu")],
    ),
    (
        "the wrong kind of kernel module",
        {},
        machine(nvidia("sm_120"), driver="580.82.07", license="NVIDIA", os_id="ubuntu-24.04", python="3.12.3"),
        "sm_120 is Blackwell, which works only with the open kernel module; the loaded one is proprietary (license NVIDIA)",
        [
            ("install the open kernel module of the driver", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "the open kernel module under Pascal",
        {},
        machine(nvidia("sm_61"), driver="575.57.08", license="Dual MIT/GPL", os_id="ubuntu-24.04", python="3.12.3"),
        "sm_61 is Pascal, which works only with the proprietary kernel module; the loaded one is open (license Dual MIT/GPL)",
        [
            ("install the proprietary kernel module of the driver", "linux-cuda 2.14.1+cu126"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "nouveau",
        {},
        machine(nvidia("sm_120", kernel_driver="nouveau"), os_id="ubuntu-24.04", python="3.12.3"),
        "sm_120 has the kernel driver nouveau; CUDA 12.8 needs nvidia 570.26 or newer",
        [
            ("install NVIDIA's driver 570.26 or newer", "linux-cuda 2.11.0+cu128"),
            ("install NVIDIA's driver 580.65.06 or newer", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "a GPU scheme on a machine without",
        {"scheme": "linux-cuda"},
        machine(os_id="debian-12", python="3.11.2"),
        "linux-cuda needs an NVIDIA GPU; this machine has no accelerator",
        [("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu")],
    ),
    (
        "a scheme of another system",
        {"scheme": "windows-cuda"},
        machine(nvidia("sm_86"), driver="580.82.07", os_id="debian-12", python="3.11.2"),
        "windows-cuda is for Windows; this machine runs Linux",
        [
            ("use NVIDIA CUDA: --scheme linux-cuda", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "a scheme of another vendor",
        {"scheme": "linux-rocm"},
        machine(nvidia("sm_86"), driver="580.82.07", os_id="debian-12", python="3.11.2"),
        "linux-rocm needs an AMD GPU; this machine has sm_86",
        [
            ("use NVIDIA CUDA: --scheme linux-cuda", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "a release that never was",
        {"gpu": "RTX 3060", "driver": "580.82.07", "torch": "2.7.9"},
        None,
        "the matrix knows no torch 2.7.9: it has 1.13.0 to 2.15.0",
        [
            ("use torch 2.7.1: --torch 2.7.1", "linux-cuda 2.7.1+cu126"),
            ("use torch 2.15.0: --torch 2.15.0", "linux-cuda 2.15.0+cu132"),
        ],
    ),
    (
        "a release and an index that never met",
        {"gpu": "RTX 3060", "driver": "580.82.07", "torch": "2.7.1", "backend": "cu130"},
        None,
        "torch 2.7.1 is not published for cu130: it has cpu, cu118, cu126, cu128, rocm6.2.4, rocm6.3, xpu",
        [
            ("use another build: --backend cu126", "linux-cuda 2.7.1+cu126"),
            ("use torch 2.9.0: --torch 2.9.0", "linux-cuda 2.9.0+cu130"),
            ("use torch 2.14.1: --torch 2.14.1", "linux-cuda 2.14.1+cu130"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.7.1+cpu"),
        ],
    ),
    (
        "a Python too new for the release",
        {"gpu": "RTX 3060", "driver": "580.82.07", "torch": "2.7.1", "python": "3.14"},
        None,
        "torch 2.7.1+cu126 has wheels for Python 3.9 to 3.13 and 3.13t; this is Python 3.14",
        [
            ("use torch 2.9.0: --torch 2.9.0", "linux-cuda 2.9.0+cu128"),
            ("use torch 2.15.0: --torch 2.15.0", "linux-cuda 2.15.0+cu132"),
            ("use Python 3.13: --python 3.13", "linux-cuda 2.7.1+cu126"),
        ],
    ),
    (
        "a Python that no wheel is for yet",
        {"gpu": "none", "python": "3.16"},
        None,
        "this is Python 3.16",
        [("use Python 3.15: --python 3.15", "linux-cpu 2.15.0+cpu")],
    ),
    (
        "DirectML ends with Python 3.12",
        {"scheme": "windows-directml", "gpu": "Radeon RX 580", "python": "3.13"},
        None,
        "torch 2.4.1 with torch-directml 0.2.5.dev240914 has wheels for Python 3.8 to 3.12; this is Python 3.13",
        [
            ("use Python 3.12: --python 3.12", "windows-directml 2.4.1"),
            ("use the CPU: --scheme windows-cpu", "windows-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "glibc too old for the release",
        {"torch": "2.7.1"},
        machine(os_id="ubuntu-18.04", glibc="2.27", python="3.11.9"),
        "torch 2.7.1+cpu needs glibc 2.28; ubuntu-18.04 has 2.27",
        [
            ("use torch 2.6.0: --torch 2.6.0", "linux-cpu 2.6.0+cpu"),
            ("move to Ubuntu 20.04 LTS or newer (glibc 2.31)", "linux-cpu 2.7.1+cpu"),
        ],
    ),
    (
        "RX 6700 XT on Linux",
        {},
        machine(amd("gfx1031"), os_id="ubuntu-24.04", python="3.12.3"),
        "has no code for gfx1031; with HSA_OVERRIDE_GFX_VERSION=10.3.0 it runs gfx1030 code",
        [
            ("set HSA_OVERRIDE_GFX_VERSION=10.3.0: --accept override", "linux-rocm 2.13.0+rocm7.2"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
            ("take what is not known to work: --accept unknown", "linux-rocm 2.12.0+rocm7.14.0"),
        ],
    ),
    (
        "RTX 2080 Ti in an Arm server: those wheels begin with sm_80",
        {"os": "linux/aarch64", "gpu": "RTX 2080 Ti", "driver": "580.82.07", "torch": "2.15", "backend": "cu132"},
        None,
        "torch 2.15.0+cu132 has no code for GeForce RTX 2080 Ti (sm_75): it holds sm_80",
        [
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "Radeon in WSL2: nobody has confirmed the wheels of the index there",
        {"os": "wsl2", "gpu": "RX 7900 XT", "torch": "2.12.1", "backend": "rocm7.2"},
        None,
        "whether ROCm wheels work inside WSL2 is not known",
        [
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.12.1+cpu"),
            ("take what is not known to work: --accept unknown", "wsl2-rocm 2.12.1+rocm7.2"),
        ],
    ),
    (
        "two things at once",
        {"gpu": "RTX 5090", "driver": "550.54.14", "torch": "2.6"},
        None,
        "torch 2.6.0+cu126 has no code for GeForce RTX 5090 (sm_120)",
        [
            ("update the driver to 570.26 or newer, and use torch 2.11.0: --torch 2.11.0", "linux-cuda 2.11.0+cu128"),
            ("update the driver to 580.65.06 or newer, and use torch 2.15.0: --torch 2.15.0", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.6.0+cpu"),
        ],
    ),
    (
        "two cards, one of them dropped by the driver",
        {},
        machine(
            nvidia("sm_89", name="RTX 4090"),
            nvidia("sm_35", name="GT 710"),
            driver="580.82.07",
            os_id="debian-12",
            python="3.11.2",
        ),
        "driver 580.82.07 no longer drives GT 710 (sm_35)",
        [
            ("hide the GT 710 (sm_35): CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0", "linux-cuda 2.15.0+cu132"),
            ("use the CPU: --scheme linux-cpu", "linux-cpu 2.15.0+cpu"),
        ],
    ),
    (
        "no scheme for the system",
        {"os": "macos", "backend": "directml", "gpu": "none"},
        None,
        "the matrix has no scheme for directml on macos",
        [("use the CPU: --scheme macos-cpu", "macos-cpu 2.15.0")],
    ),
]


@pytest.mark.parametrize(
    ("options", "facts", "reason", "nearest"), [row[1:] for row in CONFLICTS], ids=[row[0] for row in CONFLICTS]
)
def test_conflicts(
    matrix: Matrix, options: dict[str, str], facts: Facts | None, reason: str, nearest: list[tuple[str, str]]
) -> None:
    resolution = resolve(matrix, Wish(**options), facts)  # type: ignore[arg-type]
    assert resolution.plan is None
    assert any(reason in each["because"] for each in conflict_document(resolution)["rejections"])
    assert [(each.change.text, pinned(each.plan).rpartition(" ")[0]) for each in resolution.nearest] == nearest


# ---- what a plan holds -------------------------------------------------------------------------------------------


def plan(matrix: Matrix, wish: Wish, facts: Facts | None = None) -> Plan:
    resolution: Resolution = resolve(matrix, wish, facts)
    assert resolution.plan is not None
    return resolution.plan


def test_the_setting_is_in_the_plan_when_it_is_accepted(matrix: Matrix) -> None:
    facts = machine(amd("gfx1031", name="Radeon RX 6700 XT"), os_id="ubuntu-24.04", python="3.12.3")
    made = plan(matrix, Wish(accept=OVERRIDE), facts)
    assert pinned(made) == "linux-rocm 2.13.0+rocm7.2 override"
    assert made.env == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}


@pytest.mark.parametrize("arch", ["gfx1103", "gfx1150"])
def test_no_setting_is_ever_offered_where_it_was_seen_to_hang(matrix: Matrix, arch: str) -> None:
    resolution = resolve(matrix, Wish(torch="<2.10", accept=OVERRIDE), machine(amd(arch), os_id="ubuntu-24.04", python="3.12.3"))
    assert resolution.plan is None
    assert not any("HSA_OVERRIDE" in each.change.text or each.plan.env for each in resolution.nearest)


def test_musl_is_told_at_once(matrix: Matrix) -> None:
    for facts in (machine(os_id="alpine-3.20", python="3.12.3"), machine(os_id="void", libc="musl", python="3.12.3")):
        resolution = resolve(matrix, Wish(), facts)
        assert resolution.plan is None
        assert all(
            "uses musl, for which there are no wheels" in each["because"] for each in conflict_document(resolution)["rejections"]
        )


def test_what_windows_offers_an_rx_7900_xt_and_how_well_that_is_known(matrix: Matrix) -> None:
    made = plan(matrix, Wish(os="windows", gpu="RX 7900 XT"))
    assert made.framework_package.requirement == "torch[device-gfx1100]==2.12.0+rocm7.14.0"
    assert made.framework_package.index == "https://repo.amd.com/rocm/whl-multi-arch/"
    assert made.evidence is Evidence.CLAIMED
    assert made.accelerator_arch == "gfx1100"
    assert any("rocm.docs.amd.com" in source for source in made.sources)
    resolution = resolve(matrix, Wish(os="windows", gpu="RX 7900 XT"))
    others = {each.candidate.scheme.name for each in resolution.judged}
    assert others == {"windows-rocm", "windows-directml", "windows-cuda", "windows-xpu", "windows-cpu"}


def test_a_plan_for_an_image_is_for_the_images_platform(matrix: Matrix) -> None:
    made = plan(matrix, Wish(scheme="linux-cuda"))
    assert (made.platform, made.python, made.accelerator_arch) == ("debian-12/x86_64", "3.11", "")
    assert made.container is not None
    assert made.run_flags == ("--gpus=all",)
    assert [package.requirement for package in made.packages] == ["torch==2.15.0+cu132", "numpy==2.4.6"]


def test_a_plan_for_a_machine_is_none_for_an_image(matrix: Matrix) -> None:
    made = plan(matrix, Wish(), machine(nvidia("sm_86"), driver="580.82.07", os_id="ubuntu-24.04", python="3.12.3"))
    assert (made.platform, made.python, made.container, made.run_flags) == ("ubuntu-24.04/x86_64", "3.12", None, ())


def test_companions_come_from_the_same_index(matrix: Matrix) -> None:
    made = plan(matrix, Wish(torch="2.8.0", gpu="RTX 5090", driver="580.82", extras=("torchvision",)))
    assert [package.requirement for package in made.packages][:2] == ["torch==2.8.0+cu128", "torchvision==0.23.0+cu128"]
    assert {package.index for package in made.packages[:2]} == {"https://download.pytorch.org/whl/cu128"}


def test_numpy_1_for_a_torch_that_knows_no_other(matrix: Matrix) -> None:
    made = plan(matrix, Wish(scheme="linux-cpu", torch="2.2.2"))
    assert [package.requirement for package in made.packages] == ["torch==2.2.2+cpu", "numpy==1.26.4"]


def test_why_a_newer_release_was_passed_over(matrix: Matrix) -> None:
    made = plan(matrix, Wish(gpu="RTX 5090", driver="570.86.10"))
    assert (
        "torch 2.15.0 was passed over: driver 570.86.10 is older than 580.65.06, which CUDA 13.2 wheels need on Linux"
        in made.reasons
    )


def test_cards_of_two_vendors(matrix: Matrix) -> None:
    facts = machine(
        nvidia("sm_86", name="RTX 3090"),
        amd("gfx1100", name="RX 7900 XTX"),
        driver="580.82.07",
        os_id="ubuntu-24.04",
        python="3.12.3",
    )
    made = plan(matrix, Wish(), facts)
    assert pinned(made) == "linux-cuda 2.15.0+cu132 supported"
    assert made.accelerator_name == "RTX 3090"
    assert "RX 7900 XTX (gfx1100) is left alone: a build for NVIDIA does not use it" in made.reasons
    rocm = plan(matrix, Wish(backend="rocm"), facts)
    assert rocm.accelerator_name == "RX 7900 XTX"


def test_an_integrated_gpu_beside_a_card_is_kept_away(matrix: Matrix) -> None:
    # Raphael's iGPU first on the bus, as kfd numbers it; the card is index 1.
    inside = Gpu(pci_id="1002:164e", pci_address="0000:0e:00.0", vendor="amd")
    card = Gpu(pci_id="1002:744c", pci_address="0000:03:00.0", vendor="amd")
    for cards in ((inside, card), (card, inside)):
        made = plan(matrix, Wish(), machine(*cards, os_id="ubuntu-24.04", python="3.12.3"))
        assert made.accelerator_arch == "gfx1100"
        assert made.env == {"HIP_VISIBLE_DEVICES": "0"}
    swapped = plan(
        matrix, Wish(), machine(replace(inside, pci_address="0000:01:00.0"), card, os_id="ubuntu-24.04", python="3.12.3")
    )
    assert swapped.env == {"HIP_VISIBLE_DEVICES": "1"}


def test_a_report_without_bus_addresses_is_numbered_as_it_lists_the_cards(matrix: Matrix) -> None:
    # The known trouble of RX 7000 cards beside Ryzen processors on Windows: the integrated GPU is device 0.
    facts = machine(
        Gpu(name="AMD Radeon(TM) Graphics", arch="gfx1036"),
        Gpu(name="AMD Radeon RX 7900 XT", arch="gfx1100"),
        os="windows",
        driver="32.0.31007.5012",
        python="3.12",
    )
    made = plan(matrix, Wish(), facts)
    assert pinned(made) == "windows-rocm 2.12.0+rocm7.14.0 supported"
    assert made.env == {"HIP_VISIBLE_DEVICES": "1"}
    assert made.framework_package.extras == "device-gfx1100"


def test_the_graphics_of_a_processor_never_stand_in_for_a_card(matrix: Matrix) -> None:
    # Windows has wheels for the Radeon 780M; with a GeForce in the laptop whose driver is too old, they are not taken unasked.
    facts = machine(amd("gfx1103"), nvidia("sm_120", name="RTX 5060 Laptop"), os="windows", python="3.12", driver="560.94")
    resolution = resolve(matrix, Wish(), facts)
    assert resolution.plan is None
    assert resolution.nearest[0].change.text == "update the driver to 570.65 or newer"
    assert plan(matrix, Wish(scheme="windows-rocm"), facts).accelerator_arch == "gfx1103"
    newer = plan(matrix, Wish(driver="580.88"), facts)
    assert "gfx1103 is left alone: a build for NVIDIA does not use it" in newer.reasons


def test_every_card_of_a_kind_counts(matrix: Matrix) -> None:
    # Turing and Pascal together: only a build with code for both will do.
    facts = machine(nvidia("sm_75"), nvidia("sm_61"), driver="580.82.07", os_id="ubuntu-24.04", python="3.12.3")
    assert pinned(plan(matrix, Wish(), facts)) == "linux-cuda 2.14.1+cu126 supported"


def test_a_discrete_card_that_no_scheme_uses_is_no_reason_for_the_cpu(matrix: Matrix) -> None:
    flex = Gpu(pci_id="8086:56c0", vendor="intel", name="Intel Data Center GPU Flex 170")
    resolution = resolve(matrix, Wish(), machine(flex, os_id="ubuntu-24.04", python="3.12.3"))
    assert resolution.plan is None
    assert [each.change.text for each in resolution.nearest] == ["use the CPU: --scheme linux-cpu"]


def test_graphics_of_a_processor_that_no_scheme_uses_are_left_aside(matrix: Matrix) -> None:
    graphics = Gpu(vendor="intel", name="Intel UHD Graphics 630", kernel_driver="i915")
    made = plan(matrix, Wish(), machine(graphics, os_id="ubuntu-24.04", python="3.12.3"))
    assert made.scheme == "linux-cpu"
    assert "Intel UHD Graphics 630 (gen9) is left aside: no scheme of the matrix uses Intel Gen9 GPUs here" in made.reasons


def test_display_chips_of_servers_are_no_accelerators(matrix: Matrix) -> None:
    made = plan(matrix, Wish(), machine(Gpu(name="ASPEED Graphics", pci_id="1a03:2000"), os_id="ubuntu-24.04", python="3.12.3"))
    assert pinned(made) == "linux-cpu 2.15.0+cpu supported"
