"""Borders of the verdicts on AMD, Intel, DirectML, Apple, TPU, Ascend and Windows, and what they stay silent about."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from envkit import matrix as matrices
from envkit.doctor import amd, apple, ascend, diagnose, directml, intel, tpu, windows
from envkit.model import DriverFacts, Facts, Finding, Gpu, Machine, Matrix, PythonFacts

OURS = [check for module in (amd, intel, directml, apple, tpu, ascend, windows) for check in module.CHECKS]


@cache
def matrix() -> Matrix:
    return matrices.load()


def found(facts: Facts) -> list[str]:
    diagnosis = diagnose(matrix(), facts, checks=OURS)
    assert diagnosis.broken == ()
    return [finding.cause for finding in diagnosis.findings]


def first(facts: Facts) -> Finding:
    return diagnose(matrix(), facts, checks=OURS).findings[0]


def radeon(name: str, arch: str) -> Gpu:
    return Gpu(name=name, arch=arch, vendor="amd", kernel_driver="amdgpu")


# ---- Apple -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("torch", "macos", "cause"),
    [
        ("2.5.1", "12.3", "mps-sandboxed"),
        ("2.5.1", "12.2.1", "mps-macos-too-old"),
        ("2.6.0", "12.7.6", "mps-macos-too-old"),
        ("2.6.0", "13.0", "mps-sandboxed"),
        ("2.8.0", "13.7", "mps-sandboxed"),
        ("2.9.0", "13.7", "mps-macos-too-old"),
        ("2.14.1", "14.0", "mps-sandboxed"),
        ("2.15.0", "14.7", "mps-macos-too-old"),
        ("2.15.0", "15.0", "mps-sandboxed"),
    ],
)
def test_the_macos_floor_of_mps_is_inclusive(torch: str, macos: str, cause: str) -> None:
    facts = Facts(
        machine=Machine(os="macos", os_release=f"macOS {macos}", arch="arm64"),
        torch={"version": torch, "available": False},
        evidence={"torch.backends.mps.is_built()": "True", "torch.backends.mps.is_available()": "False"},
    )
    assert found(facts) == [cause]


@pytest.mark.parametrize(("kernel", "macos"), [("21.6.0", "12"), ("22.6.0", "13"), ("24.6.0", "15"), ("25.2.0", "26")])
def test_the_macos_of_a_kernel(kernel: str, macos: str) -> None:
    facts = Facts(
        machine=Machine(os="macos", kernel=kernel, arch="arm64"),
        evidence={"error": "The MPS backend is supported on MacOS 99.0+.Current OS version can be queried using `sw_vers`"},
    )
    assert f"this Mac runs macOS {macos}" in first(facts).message


def test_a_mac_told_by_collect_env_alone_is_not_taken_for_one_without_metal() -> None:
    # "Is CUDA available: False" is true of every Mac.
    machine = Machine(os="macos", os_release="macOS 15.6 (arm64)", arch="arm64", gpus=(Gpu(name="Apple M2"),))
    assert found(Facts(machine=machine, torch={"version": "2.11.0", "cuda": "", "hip": "", "available": False})) == []


# ---- AMD ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "codes", "override", "causes"),
    [
        ("gfx1031", ("gfx1030", "gfx1100"), "", ["rocm-gfx-not-in-wheel"]),
        ("gfx1031", ("gfx1030", "gfx1100"), "10.3.0", []),
        ("gfx1030", ("gfx1030", "gfx1100"), "", []),
        ("gfx90a", ("gfx90a",), "", []),
        ("gfx1103", ("gfx1100",), "11.0.0", []),
        ("gfx1031", ("gfx1100",), "10.3.0", ["rocm-gfx-not-in-wheel"]),
    ],
)
def test_code_and_the_setting_that_stands_for_it(arch: str, codes: tuple[str, ...], override: str, causes: list[str]) -> None:
    facts = Facts(
        machine=Machine(os="linux", gpus=(radeon("AMD Radeon", arch),)),
        torch={"version": "2.6.0+rocm6.2.4", "hip": "6.2.4", "available": True, "arch_list": list(codes)},
        env={"HSA_OVERRIDE_GFX_VERSION": override} if override else {},
    )
    assert found(facts) == causes


def test_the_setting_of_the_matrix_is_the_remedy() -> None:
    facts = Facts(
        machine=Machine(os="linux", gpus=(radeon("AMD Radeon RX 6600", "gfx1032"),)),
        torch={"version": "2.6.0+rocm6.2.4", "hip": "6.2.4", "arch_list": ["gfx1030"]},
    )
    assert "export HSA_OVERRIDE_GFX_VERSION=10.3.0" in first(facts).commands


CARD, INSIDE = radeon("AMD Radeon RX 7900 XTX", "gfx1100"), radeon("AMD Radeon(TM) Graphics", "gfx1036")


@pytest.mark.parametrize(
    ("gpus", "names", "env", "causes"),
    [
        ((INSIDE, CARD), ("AMD Radeon(TM) Graphics", "AMD Radeon RX 7900 XTX"), {}, ["rocm-igpu-selected"]),
        ((CARD, INSIDE), ("AMD Radeon RX 7900 XTX", "AMD Radeon(TM) Graphics"), {}, []),
        ((INSIDE, CARD), ("AMD Radeon(TM) Graphics", "AMD Radeon RX 7900 XTX"), {"HIP_VISIBLE_DEVICES": "1"}, []),
        ((INSIDE,), ("AMD Radeon(TM) Graphics",), {}, ["rocm-gfx-not-in-wheel"]),
    ],
)
def test_which_gpu_is_device_0(gpus: tuple[Gpu, ...], names: tuple[str, ...], env: dict[str, str], causes: list[str]) -> None:
    torch = {"version": "2.9.1+rocm6.4", "available": True, "device_names": list(names), "arch_list": ["gfx1030", "gfx1100"]}
    assert found(Facts(machine=Machine(os="linux", gpus=gpus), torch=torch, env=env)) == causes


@pytest.mark.parametrize(
    ("machine", "causes"),
    [
        ({"container": "docker"}, []),  # the numbers of its groups are the container's business
        ({"user_groups": ("render", "video")}, []),
        ({"user_groups": ("video",)}, []),
        ({"user_groups": ("adm",)}, ["rocm-user-not-in-render-group"]),
        ({"user_groups": ("root",)}, []),
        ({"user_groups": ("adm",), "devices": ()}, []),
        ({"user_groups": ("render",), "devices_denied": ("/dev/kfd",)}, ["rocm-user-not-in-render-group"]),
        ({}, []),
    ],
)
def test_who_may_open_kfd(machine: dict[str, Any], causes: list[str]) -> None:
    told = {"devices": ("/dev/kfd", "/dev/dri/renderD128"), "os": "linux", "gpus": (CARD,), **machine}
    torch = {"version": "2.9.1+rocm6.4", "available": False, "arch_list": ["gfx1100"]}
    assert found(Facts(machine=Machine(**told), torch=torch)) == causes


@pytest.mark.parametrize(
    ("line", "causes"),
    [
        ("File: /var/lib/dkms/amdgpu/6.7.0-1787201.22.04/source/dkms.conf does not exist.", ["rocm-dkms-stale"]),
        ("File: /var/lib/dkms/system76/1.0.14/source/dkms.conf does not exist.", []),
        ("Error! Bad return status for module build on kernel: 6.8.0-31-generic (x86_64)", []),
        ("dkms autoinstall on 6.8.0-44-generic/x86_64 failed for amdgpu(10)", ["rocm-kernel-unsupported"]),
        ("dkms autoinstall on 6.8.0-44-generic/x86_64 failed for nvidia(10)", []),
    ],
)
def test_whose_module_dkms_speaks_of(line: str, causes: list[str]) -> None:
    assert found(Facts(machine=Machine(os="linux"), evidence={"dkms": line})) == causes


# ---- Intel, DirectML, TPU, Ascend --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ipex", "torch", "causes"),
    [
        ("2.8.0", "2.8.1", []),
        ("2.8.10+xpu", "2.8.0+xpu", []),
        ("2.8.0", "2.9.0", ["ipex-torch-mismatch"]),
        ("2.1.100", "2.1.0", []),
    ],
)
def test_the_extension_goes_with_its_minor_release(ipex: str, torch: str, causes: list[str]) -> None:
    assert found(Facts(python=PythonFacts(packages={"intel-extension-for-pytorch": ipex, "torch": torch}))) == causes


@pytest.mark.parametrize(
    ("driver", "arch", "causes"),
    [
        ("xe", "dg2", ["xpu-kernel-driver-unsupported"]),
        ("xe", "bmg", ["xpu-compute-runtime-too-old"]),
        ("i915", "dg2", ["xpu-compute-runtime-too-old"]),
    ],
)
def test_which_kernel_driver_serves_a_card(driver: str, arch: str, causes: list[str]) -> None:
    card = Gpu(name="Intel GPU", arch=arch, vendor="intel", kernel_driver=driver)
    facts = Facts(
        machine=Machine(os="linux", gpus=(card,), modules=(driver,)), torch={"version": "2.9.0+xpu", "available": False}
    )
    assert found(facts) == causes


@pytest.mark.parametrize(
    ("packages", "causes"),
    [
        ({"torch-directml": "0.2.5.dev240914", "torch": "2.4.1"}, []),
        ({"torch-directml": "0.2.5.dev240914", "torch": "2.4.0"}, ["directml-torch-pin-conflict"]),
        ({"onnxruntime-directml": "1.23.0"}, []),
        ({"onnxruntime": "1.23.0"}, []),
        ({"onnxruntime": "1.23.0", "onnxruntime-gpu": "1.23.0"}, ["ort-package-shadowing"]),
        ({"onnxruntime": "1.23.0", "onnxruntime-extensions": "0.14.0"}, []),
        ({"torch": "2.9.1", "torch-xla": "2.9.0"}, []),
        ({"torch": "2.8.0", "torch-xla": "2.9.0"}, ["xla-torch-mismatch"]),
    ],
)
def test_packages_beside_each_other(packages: dict[str, str], causes: list[str]) -> None:
    assert found(Facts(python=PythonFacts(packages=packages))) == causes


@pytest.mark.parametrize(
    ("version", "cann", "causes"),
    [
        ("2.7.1", "8.3.RC1", []),
        ("2.7.1", "9.0.0-beta.2", ["npu-torch-npu-cann-mismatch"]),
        ("2.7.1.post4", "9.0.0-beta.2", []),
        ("2.9.0", "8.5.1", []),
        ("2.14.0", "9.0.0", []),  # no source pairs it with a CANN
        ("2.7.1", "", []),
    ],
)
def test_published_pairs_of_torch_npu_and_cann(version: str, cann: str, causes: list[str]) -> None:
    facts = Facts(
        machine=Machine(os="linux", driver=DriverFacts(toolkit=cann)),
        python=PythonFacts(packages={"torch-npu": version, "torch": version.partition(".post")[0]}),
    )
    assert found(facts) == causes


# ---- Windows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("length", "switch", "causes"),
    [(120, "", []), (240, "", ["windows-long-path"]), (210, "", []), (210, "0x0", ["windows-long-path"])],
)
def test_how_long_a_path_is(length: int, switch: str, causes: list[str]) -> None:
    path = "C:\\" + "a\\" * 10 + "b" * (length - 23)
    evidence = {"error": f"OSError: [Errno 2] No such file or directory: '{path}'"}
    if switch:
        evidence["reg query"] = f"    LongPathsEnabled    REG_DWORD    {switch}"
    assert found(Facts(machine=Machine(os="windows"), evidence=evidence)) == causes


@pytest.mark.parametrize(
    ("line", "causes"),
    [
        (
            '[WinError 126] Error loading "C:\\x\\torch\\lib\\fbgemm.dll" or one of its dependencies.',
            ["windows-libomp140-missing"],
        ),
        (
            '[WinError 126] Error loading "C:\\x\\torch\\lib\\c10.dll" or one of its dependencies.',
            ["windows-vcredist-old-or-missing"],
        ),
        ('[WinError 1455] The paging file is too small. Error loading "C:\\x\\torch\\lib\\torch_cpu.dll"', []),
        ('[WinError 126] Error loading "C:\\x\\torch\\lib\\cudnn_cnn64_9.dll" or one of its dependencies.', []),
    ],
)
def test_which_library_windows_does_not_load(line: str, causes: list[str]) -> None:
    assert found(Facts(machine=Machine(os="windows"), evidence={"error": line})) == causes
