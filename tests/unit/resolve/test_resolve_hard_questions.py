"""A hundred hard questions to the shipped matrix, beyond those of test_resolve_questions.

Every answer was written down from the collected facts, whose row stands last, before the code was asked; where the facts leave a
thing open, the certain answer is that it is unknown.
"""

# ruff: noqa: E501 -- the tables of questions read one row a line

from __future__ import annotations

from typing import Any

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import DriverFacts, Facts, Gpu, Machine, Matrix, PythonFacts, Resolution, Verdict, Wish
from envkit.resolve import conflict_document, resolve

OVERRIDE = (Verdict.SUPPORTED, Verdict.COMMUNITY, Verdict.OVERRIDE)
U24: dict[str, Any] = {"os_id": "ubuntu-24.04", "glibc": "2.39", "python": "3.12.3"}
U22: dict[str, Any] = {"os_id": "ubuntu-22.04", "glibc": "2.35", "python": "3.10.12"}


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def machine(*cards: Gpu, driver: str = "", license: str = "", python: str = "", **more: Any) -> Facts:
    described = Machine(os=more.pop("os", "linux"), gpus=cards, driver=DriverFacts(kernel=driver, license=license), **more)
    return Facts(machine=described, python=PythonFacts(version=python))


def card(name: str = "", **more: Any) -> Gpu:
    return Gpu(name=name, **more)


def told(resolution: Resolution) -> str:
    """The plan in one line: scheme, build, verdict, Python, driver needed, settings; or "none"."""
    plan = resolution.plan
    if plan is None:
        return "none"
    env = " ".join(f"{key}={value}" for key, value in sorted(plan.env.items()))
    return " ".join(filter(None, (plan.scheme, plan.framework_package.version, str(plan.verdict), plan.driver_need, env)))


Question = tuple[str, dict[str, Any], Facts | None, str, str]

# ---- questions with a plan: what is asked, as options and facts; the answer; the row it rests on ---------------------------------

PLANS: list[Question] = [
    # the oldest drivers
    ("T4 on the very floor of CUDA 11", {"gpu": "Tesla T4", "driver": "450.80.02"}, None, "linux-cuda 2.7.1+cu118 supported 450.80.02", "cuda_driver minor_version_compat 11"),
    ("a 460 driver", {"gpu": "A100 PCIe", "driver": "460.32.03"}, None, "linux-cuda 2.7.1+cu118 supported 450.80.02", "cuda_driver minor_version_compat 11"),
    ("Windows on the floor of CUDA 12 as the release notes print it", {"os": "windows", "gpu": "RTX A2000", "driver": "528.33"}, None, "windows-cuda 2.14.1+cu126 supported 528.33", "cuda_driver minor_version_compat 12"),
    # 527.41 is what the other NVIDIA document prints; the stricter one is held to. Which code 2.6 and 2.7 hold there is not known.
    ("Windows between the two floors that NVIDIA prints", {"os": "windows", "gpu": "RTX A2000", "driver": "527.41"}, None, "windows-cuda 2.5.1+cu118 supported 452.39", "cuda_driver minor_version_compat 12 note; torch_cuda_archs 2.6 and 2.7 cu118 windows"),
    ("Windows' own number of 528.33", {"os": "windows", "gpu": "RTX 4090", "driver": "31.0.15.2833"}, None, "windows-cuda 2.14.1+cu126 supported 528.33", "cuda_driver minor_version_compat 12"),
    ("Windows' own number of 528.32", {"os": "windows", "gpu": "RTX 4090", "driver": "31.0.15.2832"}, None, "windows-cuda 2.5.1+cu118 supported 520.06", "cuda_driver minor_version_compat 12, toolkit 11.8"),
    # the newest drivers
    ("the newest driver and an Ampere card", {"gpu": "RTX 3090", "driver": "620.70.06"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "cuda_driver driver_branch 620"),
    ("the newest driver and Turing, the oldest that it drives", {"gpu": "Quadro RTX 8000", "driver": "620.70.06"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "cuda_driver arch_support Turing ongoing"),
    # cards that a branch dropped, on the last that drives them
    ("Kepler on its last branch", {"gpu": "Tesla K80", "driver": "470.256.02", "torch": "2.7.1"}, None, "linux-cuda 2.7.1+cu118 supported 450.80.02", "torch_cuda_archs 2.7 cu118: 3.7"),
    ("Kepler on Windows: 2.5.1 is the last whose code is known", {"os": "windows", "gpu": "Tesla K80", "driver": "474.30"}, None, "windows-cuda 2.5.1+cu118 supported 452.39", "torch_cuda_archs 2.5 cu118 windows: 3.7"),
    ("Maxwell on its last branch", {"gpu": "Tesla M60", "driver": "580.126.09"}, None, "linux-cuda 2.14.1+cu126 supported 525.60.13", "cuda_driver branch_drops 580; torch_cuda_archs 2.14 cu126: 5.0"),
    ("a Quadro K that is Maxwell", {"gpu": "Quadro K620", "driver": "470.256.02"}, None, "linux-cuda 2.7.1+cu118 supported 450.80.02", "nvidia_gpus name_rule Quadro K exceptions"),
    ("Pascal on Windows, last branch", {"os": "windows", "gpu": "GTX 1080 Ti", "driver": "581.80"}, None, "windows-cuda 2.14.1+cu126 supported 528.33", "torch_cuda_archs 2.14 cu126 windows: 6.1"),
    ("Volta with a 575 driver", {"gpu": "TITAN V", "driver": "575.57.08"}, None, "linux-cuda 2.14.1+cu126 supported 525.60.13", "torch_cuda_archs 2.14 cu126: 7.0"),
    ("Volta's 12.9 build of 2.8", {"gpu": "Tesla V100 PCIe", "driver": "580.82.07", "torch": "2.8", "backend": "cu129"}, None, "linux-cuda 2.8.0+cu129 supported 525.60.13", "torch_cuda_archs 2.8 cu129: 7.0"),
    # same-major code
    ("sm_86 on sm_86 code", {"gpu": "RTX A6000", "driver": "580.82.07"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_cuda_archs 2.15 cu132: 8.6"),
    ("sm_89 on sm_86 code, with CUDA 11.8 the first to know it", {"gpu": "L40S", "driver": "520.61.05"}, None, "linux-cuda 2.7.1+cu118 supported 520.61.05", "torch_cuda_archs code_runs_on 8.6; cuda_driver arch_support Ada"),
    ("sm_89 on the sm_80 code of Arm wheels", {"os": "linux/aarch64", "gpu": "L4", "driver": "535.54.03"}, None, "linux-cuda 2.14.1+cu126 supported 525.60.13", "torch_cuda_archs 2.14 cu126 aarch64: 8.0, 9.0"),
    ("sm_103 on sm_100 code", {"gpu": "B300", "driver": "580.95.05"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_cuda_archs code_runs_on 10.0"),
    ("sm_103 on sm_100 code of CUDA 12.8", {"gpu": "B300", "driver": "570.26"}, None, "linux-cuda 2.11.0+cu128 supported 570.26", "torch_cuda_archs 2.11 cu128: 10.0"),
    ("sm_121 on sm_120 code", {"gpu": "GB10", "driver": "580.95.05"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_cuda_archs code_runs_on 12.0"),
    ("H100 with torch 2.0", {"gpu": "H100 PCIe", "driver": "535.54.03", "torch": "2.0.1"}, None, "linux-cuda 2.0.1+cu118 supported 520.61.05", "torch_cuda_archs 2.0 cu118: 9.0"),
    ("Ada with the oldest torch", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "1.13.1"}, None, "linux-cuda 1.13.1+cu117 supported 520.61.05", "torch_cuda_archs 1.13 cu117: 8.6"),
    # PTX
    ("code of the wheel goes before its PTX", {"gpu": "RTX 5090", "driver": "575.51.03", "torch": "2.8", "backend": "cu129"}, None, "linux-cuda 2.8.0+cu129 supported 570.26", "torch_cuda_archs 2.8 cu129: 12.0 and ptx 12.0"),
    ("the PTX of Windows wheels carries Blackwell, without anyone's promise", {"os": "windows", "gpu": "RTX 5090", "driver": "580.88", "torch": "2.5.1", "backend": "cu118"}, None, "windows-cuda 2.5.1+cu118 community 570.65", "torch_cuda_archs 2.5 cu118 windows: ptx 3.7"),
    # builds of a release
    ("PyPI's own CUDA of 2.7", {"gpu": "A100 PCIe", "driver": "580.82.07", "torch": "2.7.1"}, None, "linux-cuda 2.7.1+cu126 supported 525.60.13", "torch_releases 2.7.1 pypi_cuda 12.6, read out of the wheel"),
    ("the first release with a build for CUDA 12.6", {"gpu": "A100 PCIe", "driver": "560.28.03", "torch": "2.6", "backend": "cu126"}, None, "linux-cuda 2.6.0+cu126 supported 525.60.13", "torch_releases minor 2.6"),
    ("the last with a build for CUDA 11.8", {"gpu": "A100 PCIe", "driver": "580.82.07", "backend": "cu118"}, None, "linux-cuda 2.7.1+cu118 supported 450.80.02", "torch_releases minor 2.7, 2.8"),
    ("the last with a build for CUDA 12.1", {"gpu": "A100 PCIe", "driver": "580.82.07", "backend": "cu121"}, None, "linux-cuda 2.5.1+cu121 supported 525.60.13", "torch_releases minor 2.5"),
    # Arm and superchips
    ("GH200 with its first wheels", {"gpu": "GH200", "driver": "535.54.03", "torch": "2.4.1"}, None, "linux-cuda 2.4.1+cu124 supported 525.60.13", "torch_cuda_archs 2.4 cu124 aarch64: 9.0"),
    ("GH200 with 580", {"gpu": "GH200", "driver": "580.95.05"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_cuda_archs 2.15 cu132 aarch64: 9.0"),
    ("GB300 with 580", {"gpu": "GB300", "driver": "580.95.05"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_cuda_archs 2.15 cu132 aarch64: 10.0"),
    ("H100 in an Arm server with the proprietary module", {}, machine(card("NVIDIA H100 PCIe"), driver="580.82.07", license="NVIDIA", arch="aarch64", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "cuda_driver kernel_module Hopper either"),
    ("GH200 with the open module", {}, machine(card("NVIDIA GH200 480GB"), driver="580.82.07", license="Dual MIT/GPL", arch="aarch64", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "cuda_driver kernel_module Grace Hopper open"),
    # open and proprietary module
    ("Turing takes either module: open", {}, machine(card(arch="sm_75"), driver="580.82.07", license="Dual MIT/GPL", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "cuda_driver kernel_module Turing either"),
    ("Turing takes either module: proprietary", {}, machine(card(arch="sm_75"), driver="580.82.07", license="NVIDIA", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "cuda_driver kernel_module Turing either"),
    # MIG, and names as drivers print them
    ("a MIG slice is the card's architecture", {}, machine(card("NVIDIA A100-SXM4-40GB MIG 1g.5gb", arch="sm_80"), driver="580.82.07", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "nvidia_gpus A100"),
    ("a capability instead of an architecture", {}, machine(card(arch="8.6", vendor="nvidia"), driver="580.82.07", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "nvidia_gpus chip GA102"),
    ("a name shared by products of one architecture", {"gpu": "T1000", "driver": "580.82.07"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "nvidia_gpus T1000 7.5"),
    ("a 20xx number that is Ampere", {"gpu": "RTX 2050 Laptop GPU", "driver": "580.82.07"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "nvidia_gpus name_rule RTX 2050"),
    # Pythons
    ("Python 3.7 ends with torch 1.13", {"gpu": "RTX 3090", "driver": "580.82.07", "python": "3.7"}, None, "linux-cuda 1.13.1+cu117 supported 450.80.02", "torch_releases 1.13.1 pythons"),
    ("Python 3.9 ends with torch 2.8", {"gpu": "RTX 3090", "driver": "580.82.07", "python": "3.9"}, None, "linux-cuda 2.8.0+cu128 supported 525.60.13", "torch_releases 2.8.0 pythons"),
    ("Python 3.10 ends with torch 2.14", {"gpu": "RTX 3090", "driver": "580.82.07", "python": "3.10"}, None, "linux-cuda 2.14.1+cu130 supported 580.65.06", "torch_releases 2.14.1 and 2.15.0 pythons"),
    ("free-threaded 3.13 ends with 2.12.0", {"gpu": "RTX 3090", "driver": "580.82.07", "python": "3.13t"}, None, "linux-cuda 2.12.0+cu130 supported 580.65.06", "torch_releases 2.12.0 and 2.12.1 pythons"),
    ("free-threaded 3.14", {"gpu": "RTX 3090", "driver": "580.82.07", "python": "3.14t"}, None, "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_releases 2.15.0 pythons"),
    ("Python 3.13 came to Windows with 2.6", {"scheme": "windows-cpu", "python": "3.13", "torch": "<2.7"}, None, "windows-cpu 2.6.0+cpu supported", "torch_releases 2.5.1 pythons_windows_x86_64"),
    ("Python 3.13 came to Linux with 2.5", {"scheme": "linux-cuda", "os": "linux", "python": "3.13", "torch": "<2.6"}, None, "linux-cuda 2.5.1+cu124 supported 525.60.13", "torch_releases 2.5.1 pythons"),
    # C libraries
    ("CentOS 7 with an old Python", {}, machine(card(arch="sm_80"), driver="525.60.13", os_id="centos-7", glibc="2.17", python="3.8.18"), "linux-cuda 2.4.1+cu121 supported 525.60.13", "torch_releases 2.4.1 wheel_tags_linux manylinux1"),
    ("Ubuntu 18.04 and a 470 driver", {}, machine(card(arch="sm_80"), driver="470.82.01", os_id="ubuntu-18.04", glibc="2.27", python="3.8.18"), "linux-cuda 2.4.1+cu118 supported 450.80.02", "torch_releases 2.4.1 wheel_tags_linux manylinux1"),
    ("RHEL 8 is new enough for every wheel", {}, machine(card(arch="sm_90"), driver="580.82.07", os_id="rhel-8", glibc="2.28", python="3.12.3"), "linux-cuda 2.15.0+cu132 supported 580.65.06", "torch_releases 2.15.0 wheel_tags_linux manylinux_2_28"),
    # AMD
    ("gfx900 is compiled and never promised", {}, machine(card(arch="gfx900"), **U24), "linux-rocm 2.13.0+rocm7.2 community 6.4", "torch_rocm torch 2.13.0 notes and arch_list 2.12.1; rocm_releases 7.2.1 gfx_official"),
    ("MI100", {}, machine(card("Instinct MI100"), **U22), "linux-rocm 2.13.0+rocm7.2 supported 6.4", "rocm_releases 7.2.1 gfx_official gfx908"),
    ("RX 7600: PyTorch's 7.2 wheels run on it, AMD promises it with its own 7.14", {}, machine(card(arch="gfx1102"), **U24), "linux-rocm 2.12.0+rocm7.14.0 supported 30.10", "rocm_releases 7.2.1 and 7.14.0 gfx_official"),
    ("RX 9070 XT", {}, machine(card("AMD Radeon RX 9070 XT"), **U24), "linux-rocm 2.13.0+rocm7.2 supported 6.4", "rocm_releases 7.2.1 gfx_official gfx1201"),
    ("RX 6700 XT with the setting, as accepted", {"accept": OVERRIDE}, machine(card("AMD Radeon RX 6700 XT"), **U24), "linux-rocm 2.13.0+rocm7.2 override 6.4 HSA_OVERRIDE_GFX_VERSION=10.3.0", "rocm_env override_value gfx1031"),
    ("gfx1101 needed the setting up to torch 2.5", {"accept": OVERRIDE, "torch": "2.5.1"}, machine(card(arch="gfx1101"), **U22), "linux-rocm 2.5.1+rocm6.2 override 6.0 HSA_OVERRIDE_GFX_VERSION=11.0.0", "torch_rocm arch_list 2.5.1 and 2.6.0"),
    ("gfx1101 needs none from 2.6 on", {"accept": OVERRIDE, "torch": "2.6"}, machine(card(arch="gfx1101"), **U22), "linux-rocm 2.6.0+rocm6.2.4 community 6.0", "torch_rocm arch_list 2.6.0; rocm_releases 6.2.4 gfx_official"),
    ("the setting of one card suits the other, which it makes it act as", {"accept": OVERRIDE}, machine(card(arch="gfx1031"), card(arch="gfx1030"), **U24), "linux-rocm 2.13.0+rocm7.2 override 6.4 HSA_OVERRIDE_GFX_VERSION=10.3.0", "rocm_env override scope: all GPU nodes"),
    # Windows on AMD
    ("RX 9070 XT on Windows", {"os": "windows", "gpu": "RX 9070 XT"}, None, "windows-rocm 2.12.0+rocm7.14.0 supported 26.6.4", "rocm_windows pytorch_windows 7.14.0"),
    ("Strix Halo on Windows", {"os": "windows", "gpu": "gfx1151"}, None, "windows-rocm 2.12.0+rocm7.14.0 supported 26.6.4", "rocm_windows pytorch_windows 7.14.0 gfx_official"),
    ("RX 6800 XT on Windows has DirectML alone", {"os": "windows", "gpu": "RX 6800 XT"}, None, "windows-directml 2.4.1 supported", "rocm_windows pytorch_windows 7.14.0 gfx_exceptions gfx1030"),
    # two vendors, and graphics inside processors
    ("GeForce beside the graphics of a Ryzen", {}, machine(card(arch="sm_89", name="RTX 4090"), card(arch="gfx1036", name="AMD Radeon(TM) Graphics"), driver="580.82.07", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "amd_gpus gfx1036 Raphael"),
    ("Radeon beside the graphics of a Ryzen: device 0 is the card", {}, machine(card(pci_id="1002:164e", pci_address="0000:01:00.0"), card(pci_id="1002:744c", pci_address="0000:03:00.0"), **U24), "linux-rocm 2.13.0+rocm7.2 supported 6.4 HIP_VISIBLE_DEVICES=1", "rocm_env env HIP_VISIBLE_DEVICES"),
    ("Radeon beside a GeForce that its driver dropped", {}, machine(card(arch="gfx1100", name="RX 7900 XTX"), card(arch="sm_61", name="GTX 1060"), driver="595.71.05", **U24), "linux-rocm 2.13.0+rocm7.2 supported 6.4", "cuda_driver branch_drops 580; rocm_releases 7.2.1"),
    ("GeForce beside Intel graphics", {}, machine(card(arch="sm_89", name="RTX 4090"), card("Intel UHD Graphics 770", vendor="intel"), driver="580.82.07", **U24), "linux-cuda 2.15.0+cu132 supported 580.65.06", "intel torch_xpu 2.12 hardware"),
    # WSL2
    ("WSL2 and CUDA 12.6", {"os": "wsl2", "gpu": "RTX 4090", "driver": "528.33"}, None, "wsl2-cuda 2.14.1+cu126 supported 528.33", "cuda_driver minor_version_compat 12 windows"),
    ("WSL2 and Blackwell", {"os": "wsl2", "gpu": "RTX 5090", "driver": "572.60", "torch": "2.11"}, None, "wsl2-cuda 2.11.0+cu128 supported 570.65", "cuda_driver toolkit 12.8 windows"),
    # Apple
    ("M1 on macOS 15", {"os": "macos-15", "gpu": "Apple M1"}, None, "macos-mps 2.15.0 supported", "apple mps_runtime_floor 2.15"),
    ("M1 on macOS 14: 2.15 installs, its mps does not run", {"os": "macos-14", "gpu": "Apple M1"}, None, "macos-mps 2.14.1 supported", "apple mps_runtime_floor 2.9 to 2.14"),
    ("M2 on macOS 13", {"os": "macos-13", "gpu": "Apple M2"}, None, "macos-mps 2.8.0 supported", "apple mps_runtime_floor 2.6 to 2.8"),
    ("M1 on macOS 12.6", {}, machine(card("Apple M1"), os="macos", os_release="macOS 12.6", os_id="macos-12.6", arch="arm64", python="3.11"), "macos-mps 2.5.1 supported", "apple mps_runtime_floor 2.0 to 2.5"),
    ("the CPU on macOS 13", {"scheme": "macos-cpu", "os": "macos-13/arm64"}, None, "macos-cpu 2.11.0 supported", "apple torch_macos 2.11.0 and 2.12.0 wheel_min_macos"),
    ("the CPU on macOS 14 takes 2.15", {"scheme": "macos-cpu", "os": "macos-14/arm64"}, None, "macos-cpu 2.15.0 supported", "apple torch_macos 2.15.0 wheel_min_macos"),
    ("an Intel Mac ends with 2.2.2", {"os": "macos-14/x86_64", "gpu": "none"}, None, "macos-cpu 2.2.2 supported", "apple limit: x86_64 wheels end with 2.2.2"),
    ("an Intel Mac with a Radeon has the CPU", {}, machine(card("AMD Radeon Pro 5500M", pci_id="1002:7340"), os="macos", os_release="macOS 14.5", arch="x86_64", python="3.11"), "macos-cpu 2.2.2 supported", "apple mps_support hardware Apple silicon"),
    # Intel
    ("Arc B580 on Linux", {"gpu": "Arc B580", "torch": "2.12.1"}, None, "linux-xpu 2.12.1+xpu supported", "intel torch_xpu 2.12 hardware Arc B"),
    ("Arc A770 on Windows 11", {"os": "windows-11", "gpu": "Arc A770", "torch": "2.12.1"}, None, "windows-xpu 2.12.1+xpu supported", "intel torch_xpu 2.12 os_client"),
    # the accelerators that torch reaches through a plug-in
    ("Ascend, as its vendor recommends", {"gpu": "Ascend 910B"}, None, "linux-npu 2.12.0+cpu supported", "ascend meta recommended"),
    ("Ascend with CANN 8.2.RC1", {"gpu": "Ascend 910B", "backend": "cann 8.2.RC1"}, None, "linux-npu 2.6.0+cpu supported", "ascend torch_npu 2.6.0"),
    ("Ascend with torch 2.8: the newer CANN of the two", {"gpu": "Atlas 800T A2", "torch": "2.8"}, None, "linux-npu 2.8.0+cpu supported", "ascend torch_npu 2.8.0.post4 with CANN 9.0.0"),
    ("Gaudi 3", {"gpu": "Gaudi 3", "backend": "hpu 1.22.0"}, None, "linux-hpu 2.7.1 supported", "intel gaudi 1.22.0"),
    ("the first Gaudi ends with 1.21", {"gpu": "Gaudi 1"}, None, "linux-hpu 2.6.0 supported", "intel gaudi_hardware 1.21 note: dropped from 1.22"),
    ("Gaudi where Intel lists no system", {"gpu": "Gaudi 2", "os": "debian-12", "python": "3.11"}, None, "linux-hpu 2.9.0 community", "intel gaudi_os 1.23"),
    ("MLU370", {"gpu": "MLU370"}, None, "linux-mlu 2.4.1+cpu community NEUWARE_HOME=/usr/local/neuware", "cambricon torch_mlu 1.25.0; no list of cards"),
    ("MTT S80", {"gpu": "MTT S80"}, None, "linux-musa 2.7.1 supported MUSA_HOME=/usr/local/musa", "moore_threads torch_musa v2.7.1"),
    # other frameworks
    ("JAX with a 580 driver", {"scheme": "linux-cuda-jax", "os": "linux", "gpu": "RTX 4090", "driver": "580.82.07"}, None, "linux-cuda-jax 0.12.0.1 supported 580.65.06", "tpu jax, extra cuda13"),
    ("JAX with a 535 driver", {"scheme": "linux-cuda-jax", "os": "linux", "gpu": "RTX 4090", "driver": "535.54.03"}, None, "linux-cuda-jax 0.12.0.1 supported 525.60.13", "tpu jax, extra cuda12"),
    ("MLX on macOS 13", {"scheme": "macos-mlx", "os": "macos-13", "gpu": "Apple M1"}, None, "macos-mlx 0.29.3 supported", "apple mlx 0.29.3 and 0.29.4 wheel_macos"),
    ("MLX on CUDA has a floor of its own", {"scheme": "linux-cuda-mlx", "gpu": "Tesla T4", "driver": "550.54.14"}, None, "linux-cuda-mlx 0.32.4 supported 550.54.14", "apple mlx_support cuda 12 min_driver"),
    ("ONNX Runtime through DirectML on a Polaris card", {"scheme": "windows-directml-onnxruntime", "gpu": "RX 580"}, None, "windows-directml-onnxruntime 1.24.4 supported", "directml onnxruntime-directml"),
    ("Arc A770 in WSL2 with 2.7, which lists it", {"os": "wsl2", "gpu": "Arc A770", "torch": "2.7.1"}, None, "linux-xpu 2.7.1+xpu supported", "intel torch_xpu 2.7 os_client_without_arc_b wsl2-ubuntu-24.04"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "facts", "answer"), [row[1:4] for row in PLANS], ids=[row[0] for row in PLANS])
def test_plans(matrix: Matrix, options: dict[str, Any], facts: Facts | None, answer: str) -> None:
    resolution = resolve(matrix, Wish(**options), facts)
    assert told(resolution) == answer, conflict_document(resolution)["rejections"][:3]


# ---- questions without: both sides of a reason, and the nearest change ----------------------------------------------------------

Refusal = tuple[str, dict[str, Any], Facts | None, tuple[str, ...], str, str]

REFUSALS: list[Refusal] = [
    # what is asked; words of both sides, all in one reason; the nearest change and its build, "" for none; the row
    ("RTX 3090 with 418", {"gpu": "RTX 3090", "driver": "418.87"}, None, ("418.87", "580.65.06"), "update the driver to 450.80.02 or newer: linux-cuda 2.7.1+cu118", "cuda_driver minor_version_compat 11"),
    ("T4 just below the floor of CUDA 11", {"gpu": "Tesla T4", "driver": "450.51.06"}, None, ("450.51.06",), "update the driver to 450.80.02 or newer: linux-cuda 2.7.1+cu118", "cuda_driver minor_version_compat 11"),
    ("Maxwell with 590", {"gpu": "Tesla M60", "driver": "590.48.01"}, None, ("590.48.01", "Tesla M60 (sm_52)", "branch 590 dropped it, 580 is the last"), "use a 580 driver: linux-cuda 2.14.1+cu126", "cuda_driver branch_drops 580"),
    ("Pascal with 610", {"gpu": "Tesla P100 PCIe", "driver": "610.43.02"}, None, ("610.43.02", "Tesla P100 PCIe (sm_60)", "branch 590 dropped it"), "use a 580 driver: linux-cuda 2.14.1+cu126", "cuda_driver branch_drops 580"),
    ("Volta with 595 on Windows", {"os": "windows", "gpu": "TITAN V", "driver": "595.97"}, None, ("595.97", "TITAN V (sm_70)", "branch 590 dropped it"), "use a 580 driver: windows-cuda 2.14.1+cu126", "cuda_driver branch_drops 580"),
    ("Kepler with 535", {"gpu": "Tesla K80", "driver": "535.54.03"}, None, ("535.54.03", "Tesla K80 (sm_37)", "branch 495 dropped it, 470 is the last"), "use a 470 driver: linux-cuda 2.7.1+cu118", "cuda_driver branch_drops 470"),
    ("sm_35 is in no wheel", {"gpu": "Tesla K40", "driver": "470.256.02"}, None, ("Tesla K40 (sm_35)", "has no code"), "use the CPU: --scheme linux-cpu: linux-cpu 2.15.0+cpu", "torch_cuda_archs 2.7 cu118: 3.7 is the oldest; code_runs_on 3.5"),
    ("Fermi", {"gpu": "GTX 480", "driver": "390.157"}, None, ("GeForce GTX 480 (sm_20)", "has no code"), "use the CPU: --scheme linux-cpu: linux-cpu 2.15.0+cpu", "cuda_driver arch_support Fermi"),
    ("Blackwell with torch 2.6", {"gpu": "RTX 5090", "driver": "580.82", "torch": "2.6.0"}, None, ("torch 2.6.0+cu126", "GeForce RTX 5090 (sm_120)", "sm_90"), "use torch 2.7.0: --torch 2.7.0: linux-cuda 2.7.0+cu128", "torch_cuda_archs 2.6 cu126"),
    ("Blackwell with torch 2.14 and a 570 driver", {"gpu": "RTX 5090", "driver": "570.86.10", "torch": "2.14.1"}, None, ("570.86.10", "580.65.06"), "use torch 2.11.0: --torch 2.11.0: linux-cuda 2.11.0+cu128", "torch_cuda_archs 2.14 cu126; cuda_driver minor_version_compat 13"),
    ("B200 with 560", {"gpu": "B200", "driver": "560.35.05"}, None, ("driver 560.35.05 does not know B200 (sm_100)", "570.26"), "update the driver to 570.26 or newer: linux-cuda 2.11.0+cu128", "cuda_driver arch_support Blackwell"),
    ("Hopper with 515", {"gpu": "H100 PCIe", "driver": "515.65.01"}, None, ("driver 515.65.01 does not know H100 PCIe (sm_90)", "520.61.05"), "update the driver to 520.61.05 or newer: linux-cuda 2.7.1+cu118", "cuda_driver arch_support Hopper, toolkit 11.8"),
    ("H100 with torch 1.13", {"gpu": "H100 PCIe", "driver": "580.82.07", "torch": "1.13.1"}, None, ("torch 1.13.1+cu117", "H100 PCIe (sm_90)", "sm_86"), "use torch 2.0.0: --torch 2.0.0: linux-cuda 2.0.0+cu118", "torch_cuda_archs 1.13 and 2.0"),
    ("Maxwell with the 12.8 build", {"gpu": "GTX 980", "driver": "580.95.05", "torch": "2.8", "backend": "cu128"}, None, ("torch 2.8.0+cu128", "GeForce GTX 980 (sm_52)", "sm_70"), "use another build: --backend cu126: linux-cuda 2.8.0+cu126", "torch_cuda_archs 2.8 cu128"),
    ("Pascal with 2.15: its 12.6 build is not confirmed", {"gpu": "Tesla P100 PCIe", "driver": "580.126.09", "torch": "2.15"}, None, ("torch 2.15.0+cu126", "not confirmed"), "use torch 2.14.1: --torch 2.14.1: linux-cuda 2.14.1+cu126", "torch_releases minor 2.15 cuda_expected"),
    ("A100 in an Arm server with 2.4.1: that wheel is for Hopper", {"os": "linux/aarch64", "gpu": "A100 PCIe", "driver": "580.82.07", "torch": "2.4.1"}, None, ("torch 2.4.1+cu124", "A100 PCIe (sm_80)", "sm_90"), "use torch 2.11.0: --torch 2.11.0: linux-cuda 2.11.0+cu130", "torch_cuda_archs 2.4 cu124 aarch64"),
    ("GH200 before it had wheels", {"gpu": "GH200", "driver": "535.54.03", "torch": "2.3.1"}, None, ("torch 2.3.1+cu121", "linux/x86_64", "linux/aarch64"), "use torch 2.4.0: --torch 2.4.0: linux-cuda 2.4.0+cu124", "torch_releases minor 2.3 and 2.4 cuda_linux_aarch64"),
    ("GH200 with the proprietary module", {}, machine(card("NVIDIA GH200 480GB"), driver="580.82.07", license="NVIDIA", arch="aarch64", **U24), ("NVIDIA GH200 480GB (sm_90)", "only with the open kernel module", "license NVIDIA"), "install the open kernel module of the driver: linux-cuda 2.15.0+cu132", "cuda_driver kernel_module Grace Hopper"),
    ("B200 with the proprietary module", {}, machine(card(arch="sm_100"), driver="580.82.07", license="NVIDIA", **U24), ("sm_100 is Blackwell", "only with the open kernel module", "license NVIDIA"), "install the open kernel module of the driver: linux-cuda 2.15.0+cu132", "cuda_driver kernel_module Blackwell"),
    ("Maxwell with the open module", {}, machine(card(arch="sm_52"), driver="580.82.07", license="Dual MIT/GPL", **U24), ("sm_52 is Maxwell", "only with the proprietary kernel module", "license Dual MIT/GPL"), "install the proprietary kernel module of the driver: linux-cuda 2.14.1+cu126", "cuda_driver kernel_module Maxwell"),
    ("Blackwell and Volta in one machine: no module drives both", {}, machine(card(arch="sm_120", name="RTX 5090"), card(arch="sm_70", name="V100"), driver="580.82.07", **U24), ("RTX 5090 (sm_120)", "only with the open", "V100 (sm_70)", "only with the proprietary", "no driver is both"), "hide the V100 (sm_70): CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0: linux-cuda 2.15.0+cu132", "cuda_driver kernel_module Blackwell and Volta"),
    ("GB10 on x86_64", {"gpu": "GB10", "os": "linux/x86_64", "driver": "580.95.05"}, None, ("GB10 (sm_121)", "linux/aarch64", "linux/x86_64"), "", "nvidia_gpus GB10"),
    # Pythons
    ("a Python too old for every wheel", {"gpu": "RTX 4090", "driver": "580.82.07", "python": "3.6"}, None, ("torch 2.15.0+cu132 has wheels for Python 3.11 to 3.15", "this is Python 3.6"), "use Python 3.7: --python 3.7: linux-cuda 1.13.1+cu117", "torch_releases 1.13.1 pythons"),
    ("3.14 with 2.8", {"gpu": "RTX 4090", "driver": "580.82.07", "python": "3.14", "torch": "2.8"}, None, ("Python 3.9 to 3.13 and 3.13t", "this is Python 3.14"), "use torch 2.9.0: --torch 2.9.0: linux-cuda 2.9.0+cu128", "torch_releases 2.8.0 and 2.9.0 pythons"),
    ("3.13 on Windows with 2.5", {"scheme": "windows-cpu", "python": "3.13", "torch": "2.5"}, None, ("torch 2.5.1+cpu has wheels for Python 3.9 to 3.12", "this is Python 3.13"), "use torch 2.6.0: --torch 2.6.0: windows-cpu 2.6.0+cpu", "torch_releases 2.5.1 pythons_windows_x86_64"),
    # C libraries
    ("2.9 on CentOS 7", {"torch": "2.9"}, machine(card(arch="sm_80"), driver="580.82.07", os_id="centos-7", glibc="2.17", python="3.12"), ("torch 2.9.1+cu128 needs glibc 2.28", "centos-7 has 2.17"), "use torch 2.6.0: --torch 2.6.0: linux-cuda 2.6.0+cu124", "torch_releases 2.7.0 wheel_tags_linux"),
    ("musl", {}, machine(card(arch="sm_80"), driver="580.82.07", os_id="alpine-3.20", python="3.12"), ("built for glibc", "alpine-3.20 uses musl"), "move to AlmaLinux 8 or newer (glibc 2.28): linux-cuda 2.15.0+cu132", "torch_releases 2.15.0 wheel_tags_linux"),
    # an index and a release that never met
    ("2.4.0 and cu126", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "2.4.0", "backend": "cu126"}, None, ("torch 2.4.0 is not published for cu126", "cu118, cu121, cu124"), "use another build: --backend cu121: linux-cuda 2.4.0+cu121", "torch_releases minor 2.4"),
    ("2.12.0 and cu129: 2.12.1 alone was seen there", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "2.12.0", "backend": "cu129"}, None, ("torch 2.12.0 is not published for cu129 on linux",), "use another build: --backend cu130: linux-cuda 2.12.0+cu130", "torch_releases minor 2.12 cuda_unadvertised"),
    ("2.15 and cu118", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "2.15", "backend": "cu118"}, None, ("torch 2.15 is not published for cu118",), "use another build: --backend cu132: linux-cuda 2.15.0+cu132", "torch_releases minor 2.15"),
    ("a release before the matrix", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "1.12"}, None, ("no torch 1.12", "1.13.0 to 2.15.0"), "use torch 1.13.0: --torch 1.13.0: linux-cuda 1.13.0+cu117", "torch_releases 1.13.0"),
    ("a release to come", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "2.16"}, None, ("no torch 2.16", "1.13.0 to 2.15.0"), "use torch 2.15.0: --torch 2.15.0: linux-cuda 2.15.0+cu132", "torch_releases planned 2.16"),
    # AMD
    ("gfx1103 has no code and no setting", {"torch": "2.12.1", "accept": OVERRIDE}, machine(card(arch="gfx1103"), **U24), ("torch 2.12.1+rocm7.2 has no code for gfx1103",), "use torch 2.12.0: --torch 2.12.0: linux-rocm 2.12.0+rocm7.14.0", "rocm_env override_value gfx1103 do not override"),
    ("gfx1150 before it was compiled: no setting either", {"torch": "2.9.1", "accept": OVERRIDE}, machine(card(arch="gfx1150"), **U24), ("torch 2.9.1+rocm6.4 has no code for gfx1150",), "use torch 2.10.0: --torch 2.10.0: linux-rocm 2.10.0+rocm7.1", "rocm_env override_value gfx1150; torch_rocm arch_list 2.10"),
    ("Navi 10: the setting is broken from ROCm 5.3 on", {"torch": "2.12.1", "accept": OVERRIDE}, machine(card("AMD Radeon RX 5700 XT"), **U24), ("torch 2.12.1+rocm7.2 has no code for AMD Radeon RX 5700 XT (gfx1010)",), "use Python 3.10: --python 3.10, and use torch 1.13.1: --torch 1.13.1: linux-rocm 1.13.1+rocm5.2", "rocm_env override_value gfx1010 notes"),
    ("a setting that another card would not bear", {"torch": "2.12.1", "accept": OVERRIDE}, machine(card(arch="gfx1031"), card(arch="gfx1100"), **U24), ("gfx1031", "the setting would apply to every card of this machine"), "hide the gfx1031: HIP_VISIBLE_DEVICES=1: linux-rocm 2.12.1+rocm7.2", "rocm_env override scope"),
    ("Polaris was never in these wheels", {"torch": "2.12.1"}, machine(card("AMD Radeon RX 580"), **U24), ("torch 2.12.1+rocm7.2 has no code for AMD Radeon RX 580 (gfx803)",), "use the CPU: --scheme linux-cpu: linux-cpu 2.12.1+cpu", "torch_rocm arch_list 2.12.1"),
    ("MI300X beside an Arm processor", {"os": "linux/aarch64", "gpu": "MI300X", "torch": "2.12.1"}, None, ("published for linux/x86_64", "linux/aarch64"), "use the CPU: --scheme linux-cpu: linux-cpu 2.12.1+cpu", "torch_rocm meta platform linux_x86_64"),
    ("Radeon in the hands of the old driver", {}, machine(card(pci_id="1002:744c", kernel_driver="radeon"), **U24), ("the kernel driver radeon", "needs amdgpu"), "", "rocm_env device /dev/kfd"),
    ("RX 9070 XT on Windows with Python 3.10", {"scheme": "windows-rocm", "gpu": "RX 9070 XT", "python": "3.10"}, None, ("wheels for Python 3.11 to 3.14", "this is Python 3.10"), "use Python 3.11: --python 3.11: windows-rocm 2.12.0+rocm7.14.0", "rocm_windows pytorch_windows 7.14.0 python"),
    # drivers of the wrong kind
    ("Blackwell in the hands of nouveau", {}, machine(card(pci_id="10de:2b85", kernel_driver="nouveau"), **U24), ("GeForce RTX 5090 (sm_120) has the kernel driver nouveau", "nvidia 580.65.06"), "install NVIDIA's driver 570.26 or newer: linux-cuda 2.11.0+cu128", "cuda_driver toolkit 12.8"),
    ("a card handed to a virtual machine", {}, machine(card(pci_id="10de:2b85", kernel_driver="vfio-pci"), **U24), ("has the kernel driver vfio-pci", "nvidia 580.65.06"), "install NVIDIA's driver 570.26 or newer: linux-cuda 2.11.0+cu128", "cuda_driver toolkit 12.8"),
    # Apple
    ("2.15's mps on macOS 14", {"scheme": "macos-mps", "os": "macos-14", "gpu": "M3", "torch": "2.15"}, None, ("needs macOS 15", "macOS 14"), "use torch 2.14.1: --torch 2.14.1: macos-mps 2.14.1", "apple mps_runtime_floor 2.15"),
    ("2.9's mps on macOS 13", {"os": "macos-13", "gpu": "M2", "torch": "2.9"}, None, ("needs macOS 14", "macOS 13"), "use torch 2.8.0: --torch 2.8.0: macos-mps 2.8.0", "apple mps_runtime_floor 2.9"),
    ("an Intel Mac after 2.2", {"os": "macos-15/x86_64", "gpu": "none", "torch": "2.3"}, None, ("torch 2.3.1 is published for macos/arm64", "macos/x86_64"), "use torch 2.2.2: --torch 2.2.2: macos-cpu 2.2.2", "apple limit: x86_64 wheels end with 2.2.2"),
    ("an Intel Mac with Python 3.13", {"os": "macos-14/x86_64", "gpu": "none", "python": "3.13"}, None, ("macos/x86_64",), "use Python 3.12: --python 3.12: macos-cpu 2.2.2", "apple torch_macos 2.2.2 pythons_x86_64"),
    ("free-threaded 3.13 wheels of 2.8 are for macOS 14", {"scheme": "macos-mps", "os": "macos-13/arm64", "torch": "2.8", "python": "3.13t"}, None, ("macOS 14", "macOS 13"), "update macOS to 14.0 or newer: macos-mps 2.8.0", "apple torch_macos 2.8.0 pythons_by_tag"),
    # Intel
    ("Flex is not on PyTorch's list", {"gpu": "Data Center GPU Flex 170", "scheme": "linux-xpu", "torch": "2.12.1"}, None, ("ats-m",), "use the CPU: --scheme linux-cpu: linux-cpu 2.12.1+cpu", "intel torch_xpu 2.12 hardware"),
    # the others
    ("Ascend with Python 3.14: no wheel of a known pair", {"scheme": "linux-npu", "gpu": "Ascend 910B", "python": "3.14", "torch": "2.12"}, None, ("Python 3.10 to 3.13", "this is Python 3.14"), "", "ascend torch_npu_pypi 2.12.0; conflict"),
    ("MindSpore and Python 3.13", {"scheme": "linux-npu-mindspore", "gpu": "Ascend 910B", "python": "3.13"}, None, ("mindspore 2.10.0 has wheels for Python 3.10 to 3.12", "this is Python 3.13"), "use Python 3.12: --python 3.12: linux-npu-mindspore 2.9.0", "ascend limit mindspore"),
    ("torch_mlu and Python 3.11", {"scheme": "linux-mlu", "gpu": "MLU370", "python": "3.11"}, None, ("wheels for Python 3.10", "this is Python 3.11"), "use Python 3.10: --python 3.10: linux-mlu 2.4.1+cpu", "cambricon limit"),
    ("torch_musa and Python 3.12", {"scheme": "linux-musa", "gpu": "MTT S80", "python": "3.12"}, None, ("wheels for Python 3.10", "this is Python 3.12"), "use Python 3.10: --python 3.10: linux-musa 2.7.1", "moore_threads python"),
    ("the first Gaudi with 1.22", {"scheme": "linux-hpu", "gpu": "Gaudi 1", "backend": "hpu 1.22.0"}, None, ("1.22.0 serves gaudi2, gaudi3", "Gaudi 1 (gaudi)"), "", "intel gaudi_hardware"),
    ("MLX on CUDA and a Volta card", {"scheme": "linux-cuda-mlx", "gpu": "Tesla V100 PCIe", "driver": "580.82.07"}, None, ("has no code for Tesla V100 PCIe (sm_70)", "sm_75"), "use the CPU: --scheme linux-cpu-mlx: linux-cpu-mlx 0.32.4", "apple mlx_support cuda 12 min_compute_capability"),
    ("an NPU on Windows is no card for DirectML", {"os": "windows", "gpu": "Ascend 910B"}, None, ("windows-directml needs a GPU", "Ascend 910B (ascend910b)"), "use the CPU: --scheme windows-cpu: windows-cpu 2.15.0+cpu", "directml hardware: DirectX 12 GPUs"),
    ("MLX on an Intel Mac", {"scheme": "macos-mlx", "os": "macos-14/x86_64", "gpu": "none"}, None, ("macos/arm64", "macos/x86_64"), "", "apple mlx_support macos_arm64"),
    ("JAX on Windows", {"framework": "jax", "os": "windows", "gpu": "none"}, None, ("no jax scheme on windows",), "", "no scheme"),
    ("ONNX Runtime with a 470 driver", {"scheme": "linux-cuda-onnxruntime", "gpu": "RTX 3090", "driver": "470.82.01"}, None, ("470.82.01",), "", "cuda_driver minor_version_compat 12"),
    ("Arc with torch 2.4: source alone", {"gpu": "Arc A770", "scheme": "linux-xpu", "torch": "2.4"}, None, ("torch 2.4 is not published for linux-xpu",), "use torch 2.6.0: --torch 2.6.0: linux-xpu 2.6.0+xpu", "intel torch_xpu 2.4 wheels false"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "facts", "words", "nearest"), [row[1:5] for row in REFUSALS], ids=[row[0] for row in REFUSALS]
)
def test_refusals(matrix: Matrix, options: dict[str, Any], facts: Facts | None, words: tuple[str, ...], nearest: str) -> None:
    resolution = resolve(matrix, Wish(**options), facts)
    assert resolution.plan is None, told(resolution)
    reasons = [each["because"] for each in conflict_document(resolution)["rejections"]]
    every = resolve(matrix, Wish(**options), facts)
    reasons += ["; ".join(a.reason for a in each.answers) for each in every.judged]
    assert any(all(word in reason for word in words) for reason in reasons), reasons[:6]
    offered = [f"{each.change.text}: {each.plan.scheme} {each.plan.framework_package.version}" for each in resolution.nearest]
    assert not nearest or offered[:1] == [nearest], offered


# ---- what is not known ------------------------------------------------------------------------------------------------------------

UNKNOWN: list[tuple[str, dict[str, Any], Facts | None, str, str]] = [
    ("a card of the future by its architecture", {"gpu": "sm_130", "scheme": "linux-cuda"}, None, "the matrix does not know sm_130", "no row"),
    ("a card of the future by its name", {"scheme": "linux-cuda"}, machine(card("NVIDIA GeForce RTX 6090", pci_id="10de:9999"), driver="620.70.06", **U24), "the architecture of NVIDIA GeForce RTX 6090 is not known", "no row"),
    ("GB10 with 2.8: the code of that Arm wheel was not read", {"gpu": "GB10", "driver": "580.95.05", "torch": "2.8"}, None, "which code torch 2.8.0+cu129 holds is not known", "torch_cuda_archs 2.8 cu129 aarch64 unknown"),
    ("RTX 5090 on Windows with 2.7", {"os": "windows", "gpu": "RTX 5090", "driver": "580.88", "torch": "2.7.1"}, None, "which code torch 2.7.1+cu128 holds is not known", "torch_cuda_archs 2.7 cu128 windows unknown"),
    ("gfx1103 with 2.13: perhaps added", {"torch": "2.13"}, machine(card(arch="gfx1103"), **U24), "whether torch 2.13.0+rocm7.2 has code for gfx1103 is not known", "torch_rocm torch 2.13.0 notes"),
    ("ROCm wheels of the PyTorch index in WSL2", {"os": "wsl2", "gpu": "RX 7900 XTX", "torch": "2.12.1", "backend": "rocm7.2"}, None, "inside WSL2 is not known", "rocm_windows wsl"),
    ("Ascend with torch 2.13: no known CANN", {"scheme": "linux-npu", "gpu": "Ascend 910B", "torch": "2.13"}, None, "no source says which CANN it goes with", "ascend limit releases of 2026-10-15"),
    ("2.15 for CUDA 13.0", {"gpu": "RTX 4090", "driver": "580.82.07", "torch": "2.15", "backend": "cu130"}, None, "not confirmed", "torch_releases minor 2.15 cuda_expected"),
    ("a Radeon whose chip the report does not give", {"backend": "rocm"}, machine(card("AMD Radeon Graphics", vendor="amd"), **U24), "is not known", "amd_gpus Radeon Graphics"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "facts", "words"), [row[1:4] for row in UNKNOWN], ids=[row[0] for row in UNKNOWN])
def test_what_is_not_known_is_told_and_never_guessed(
    matrix: Matrix, options: dict[str, Any], facts: Facts | None, words: str
) -> None:
    resolution = resolve(matrix, Wish(**options), facts)
    assert resolution.plan is None, told(resolution)
    best = resolution.judged[0]
    assert best.verdict is Verdict.UNKNOWN
    assert any(words in answer.reason for answer in best.answers), [answer.reason for answer in best.answers if answer.reason]
    assert all(each.plan.verdict is not Verdict.UNKNOWN or "--accept unknown" in each.change.text for each in resolution.nearest)


# ---- names that are riddles -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meanings"),
    [
        ("RTX 6000", ("sm_75", "sm_89", "sm_120")),  # nvidia_gpus Quadro RTX 6000, RTX 6000 Ada, RTX PRO 6000
        ("GT 710", ("sm_35",)),  # nvidia_gpus varies
        ("GT 1030", ("sm_61",)),  # nvidia_gpus varies
        ("GTX 750 Ti", ("sm_30", "sm_50")),  # nvidia_gpus varies
        ("GeForce RTX 3050 A Laptop GPU", ("sm_86", "sm_89")),  # nvidia_gpus varies
        ("Iris Xe", ("tgl", "rpl")),  # intel pci
    ],
)
def test_a_name_with_several_meanings_is_never_guessed(matrix: Matrix, name: str, meanings: tuple[str, ...]) -> None:
    with pytest.raises(UsageError) as caught:
        resolve(matrix, Wish(gpu=name))
    assert "may mean several" in str(caught.value)
    assert all(meaning in str(caught.value) for meaning in meanings)


def test_openvino_says_that_it_takes_the_processor_where_no_card_is_its_own(matrix: Matrix) -> None:
    plan = resolve(matrix, Wish(scheme="linux-openvino", gpu="RTX 4090")).plan
    assert plan is not None
    assert plan.device == "CPU"
    assert "the machine has no Intel GPU, so openvino computes on the CPU" in plan.reasons


def test_another_framework_is_no_near_change(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(framework="jax", os="windows", gpu="none"))
    assert [each.plan.framework_name for each in resolution.nearest if each.plan.framework_name != "jax"] == []


@pytest.mark.parametrize("text", ["npu 8.2.RC1", "cann 8.2.rc1", "cann8.2.rc1", "npu 8.2rc1"])
def test_a_release_candidate_of_a_backend_is_understood(matrix: Matrix, text: str) -> None:
    plan = resolve(matrix, Wish(gpu="Ascend 910B", backend=text)).plan
    assert plan is not None
    assert plan.backend_version == "8.2.RC1"
