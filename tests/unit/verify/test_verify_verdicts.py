"""The probe's verdicts: pure functions over what was seen. Message texts are whole, since users read them."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envkit.verify import probe
from envkit.verify.probe import (
    CHECKS,
    InWords,
    code_runs,
    compare,
    ending,
    fill_up,
    find_devices,
    finite,
    flavoured,
    innermost,
    judge_build,
    judge_code,
    judge_driver,
    judge_python,
    judge_same,
    judge_step,
    judge_versions,
    last_words,
    look_at_nodes,
    numbers,
    read_build,
    same_device,
)

PYPI, WHL = "pypi", "https://download.pytorch.org/whl/cu128"


def expect(backend: str, version: str = "", torch: str = "") -> dict[str, Any]:
    packages = [{"name": "torch", "version": torch, "index": WHL}] if torch else []
    return {"backend": {"name": backend, "version": version}, "packages": packages}


# ---- versions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("570.86.10", [570, 86, 10]),
        ("6.4.43482-0f2d60242", [6, 4, 43482]),
        ("12.8", [12, 8]),
        ("3.13t", [3, 13]),
        ("", []),
        ("x", []),
    ],
)
def test_numbers_are_the_leading_ones(text: str, found: list[int]) -> None:
    assert numbers(text) == found


@pytest.mark.parametrize(
    ("have", "need", "outcome", "words"),
    [
        ("525.60.13", "525.60.13", "passed", "driver 525.60.13, needs 525.60.13"),
        ("525.60.12", "525.60.13", "failed", "the loaded driver is 525.60.12, the plan needs 525.60.13 or newer"),
        ("580.1", "525.60.13", "passed", "driver 580.1, needs 525.60.13"),
        ("535.9", "535.10", "failed", "the loaded driver is 535.9, the plan needs 535.10 or newer"),
        ("", "525.60.13", "skipped", "the version of the loaded driver cannot be seen here; the plan needs 525.60.13"),
        ("580.1", "", "skipped", "the plan names no driver floor"),
    ],
)
def test_driver_floor_is_inclusive(have: str, need: str, outcome: str, words: str) -> None:
    assert judge_driver(have, need) == (outcome, words)


@pytest.mark.parametrize(
    ("have", "want", "outcome"),
    [
        ("3.12.4", "3.12", "passed"),
        ("3.12.4", "3.1", "failed"),
        ("3.11.9", "3.12", "failed"),
        ("3.13.0t", "3.13t", "passed"),
        ("3.13.0", "3.13t", "failed"),
        ("3.13.0t", "3.13", "failed"),
        ("3.11.9", "", "passed"),
    ],
)
def test_python_is_the_plans(have: str, want: str, outcome: str) -> None:
    assert judge_python(have, want)[0] == outcome


@pytest.mark.parametrize(
    ("pin", "have", "outcome", "words"),
    [
        ("2.13.0+cpu", ["2.13.0+cpu"], "passed", "torch 2.13.0+cpu"),
        ("2.13.0+cpu", ["2.13.0"], "failed", "the plan wants torch 2.13.0+cpu, this environment has 2.13.0"),
        ("2.13.0+cu130", ["2.13.0+cpu"], "failed", "the plan wants torch 2.13.0+cu130, this environment has 2.13.0+cpu"),
        ("2.13.0", ["2.13.0+cu130"], "failed", "the plan wants torch 2.13.0, this environment has 2.13.0+cu130"),
        ("2.13.0+cpu", [], "failed", "torch is not installed, the plan wants 2.13.0+cpu"),
        ("2.9.1+rocm6.4", ["2.9.1+ROCM6_4"], "passed", "torch 2.9.1+ROCM6_4"),
        ("2.13.0", ["2.13.0", "2.12.0"], "failed", "torch is installed more than once: 2.13.0, 2.12.0"),
    ],
)
def test_flavour_names_both_sides(pin: str, have: list[str], outcome: str, words: str) -> None:
    assert judge_versions([{"name": "torch", "version": pin}], {"torch": have}) == (outcome, words)


def test_several_wrong_packages_are_all_named() -> None:
    wanted = [{"name": "numpy", "version": "2.3.1"}, {"name": "sympy", "version": "1.14.0"}]
    answer = judge_versions(wanted, {"numpy": ["1.26.4"], "sympy": []})
    assert answer == (
        "failed",
        "the plan wants numpy 2.3.1, this environment has 1.26.4; sympy is not installed, the plan wants 1.14.0",
    )


def test_no_pins_are_no_pass() -> None:
    assert judge_versions([], {}) == ("skipped", "nothing is pinned to compare with")


def test_flavoured_packages_are_the_frameworks_and_its_companions() -> None:
    packages = [
        {"name": "torch", "version": "2.7.1+cu128", "index": WHL},
        {"name": "torchvision", "version": "0.22.1", "index": WHL},
        {"name": "torchaudio", "version": "2.7.1+cu128", "index": "https://mirror.example/x"},
        {"name": "numpy", "version": "2.3.1", "index": PYPI},
        {"name": "broken"},
    ]
    found = [p["name"] for p in flavoured({"framework": {"name": "torch"}, "packages": packages})]
    assert found == ["torch", "torchvision", "torchaudio"]


def test_packages_beside_a_framework_from_pypi_are_plain() -> None:
    packages = [{"name": "torch", "version": "2.7.1", "index": PYPI}, {"name": "numpy", "version": "2.3.1", "index": PYPI}]
    assert [p["name"] for p in flavoured({"packages": packages})] == ["torch"]


# ---- builds ------------------------------------------------------------------------------------------------------


def build(version: str = "2.13.0", **more: Any) -> dict[str, Any]:
    return {"version": version, "cuda": None, "hip": None, "xpu": None, "mps": False, **more}


@pytest.mark.parametrize(
    ("wanted", "facts", "outcome", "words"),
    [
        (expect("cpu"), build("2.13.0+cpu"), "passed", "torch 2.13.0+cpu, built for the CPU"),
        (expect("cpu"), build(cuda="13.0"), "failed", "the plan wants a torch for the CPU, this torch was built for CUDA 13.0"),
        (expect("cpu"), build(hip="6.4.1"), "failed", "the plan wants a torch for the CPU, this torch was built for ROCm 6.4.1"),
        (expect("cpu"), build(xpu="yes"), "failed", "the plan wants a torch for the CPU, this torch was built for XPU"),
        (expect("cpu"), build(mps=True), "passed", "torch 2.13.0, built for the CPU"),
        (expect("cuda", "12.8"), build("2.7.1+cu128", cuda="12.8"), "passed", "torch 2.7.1+cu128, built for CUDA 12.8"),
        (
            expect("cuda", "12.8"),
            build("2.7.1+cu126", cuda="12.6"),
            "failed",
            "the plan wants a torch for CUDA 12.8, this torch was built for CUDA 12.6",
        ),
        (expect("cuda"), build("2.7.1+cu126", cuda="12.6"), "passed", "torch 2.7.1+cu126, built for CUDA 12.6"),
        (expect("cuda", "12.8"), build(), "failed", "the plan wants a torch for CUDA, this torch was built for the CPU"),
        (
            expect("rocm", "6.4"),
            build(cuda="12.8"),
            "failed",
            "the plan wants a torch for ROCm, this torch was built for CUDA 12.8",
        ),
        (
            expect("rocm", "6.4.2"),
            build("2.9.0+rocm6.4", hip="6.4.43484-123eb5128"),
            "passed",
            "torch 2.9.0+rocm6.4, built for ROCm 6.4.43484-123eb5128",
        ),
        (
            expect("rocm", "7.0"),
            build(hip="6.4.1"),
            "failed",
            "the plan wants a torch for ROCm 7.0, this torch was built for ROCm 6.4.1",
        ),
        (expect("xpu"), build(), "failed", "the plan wants a torch for XPU, this torch was built for the CPU"),
        (expect("xpu"), build(xpu="20250101"), "passed", "torch 2.13.0, built for XPU 20250101"),
        (expect("mps"), build(), "failed", "the plan wants a torch with MPS, this torch was built without it"),
        (expect("mps"), build(mps=True), "passed", "torch 2.13.0, built for the CPU"),
        (expect("directml"), build("2.4.1+cpu"), "passed", "torch 2.4.1+cpu, built for the CPU"),
        (
            expect("cpu", torch="2.13.0+cpu"),
            build("2.13.0+cu130", cuda="13.0"),
            "failed",
            "the plan wants torch 2.13.0+cpu, the torch that is imported says 2.13.0+cu130 (built for CUDA 13.0)",
        ),
        # PyPI's wheels have no local part in their record and show one when imported.
        (
            expect("cuda", "13.0", "2.13.0"),
            build("2.13.0+cu130", cuda="13.0"),
            "passed",
            "torch 2.13.0+cu130, built for CUDA 13.0",
        ),
        (
            expect("cuda", "13.0", "2.12.0"),
            build("2.13.0+cu130", cuda="13.0"),
            "failed",
            "the plan wants torch 2.12.0, the torch that is imported says 2.13.0+cu130 (built for CUDA 13.0)",
        ),
    ],
)
def test_build_is_the_plans(wanted: dict[str, Any], facts: dict[str, Any], outcome: str, words: str) -> None:
    assert judge_build(wanted, facts) == (outcome, words)


class Absent:
    """A namespace in which every question raises."""

    def __init__(self, raised: type[Exception]) -> None:
        self.raised = raised

    def __getattr__(self, name: str) -> Any:
        raise self.raised(name)


@pytest.mark.parametrize(
    "raised", [AttributeError, AssertionError, NotImplementedError, RuntimeError, ValueError, OSError, ImportError]
)
def test_reading_a_build_survives_what_old_versions_lack(raised: type[Exception]) -> None:
    old = SimpleNamespace(__version__="2.1.0", version=SimpleNamespace(cuda="11.8"), xpu=Absent(raised), backends=Absent(raised))
    assert read_build(old) == build("2.1.0", cuda="11.8")


# ---- devices -----------------------------------------------------------------------------------------------------


def cuda_torch(count: int = 1, *, available: bool = True, hip: str | None = None, init: Exception | None = None) -> Any:
    def properties(index: int) -> Any:
        if hip:
            return SimpleNamespace(name="AMD Radeon RX 7900 XT", gcnArchName="gfx1100:sramecc-:xnack-", total_memory=20 << 30)
        return SimpleNamespace(name="NVIDIA H200", major=9, minor=0, total_memory=141 << 30)

    def start() -> None:
        if init:
            raise init

    cuda = SimpleNamespace(
        is_available=lambda: available, device_count=lambda: count, get_device_properties=properties, init=start
    )
    return SimpleNamespace(__version__="2.9.0", version=SimpleNamespace(cuda=None if hip else "12.8", hip=hip), cuda=cuda)


def test_cuda_devices_are_listed_one_by_one() -> None:
    answer, devices = find_devices(cuda_torch(2), "cuda")
    assert answer == ("passed", "cuda:0 NVIDIA H200 sm_90, cuda:1 NVIDIA H200 sm_90")
    assert devices[1] == {"device": "cuda:1", "name": "NVIDIA H200", "arch": "sm_90", "memory_bytes": 141 << 30}


def test_rocm_architectures_lose_their_feature_flags() -> None:
    answer, devices = find_devices(cuda_torch(hip="6.4.43484"), "rocm")
    assert answer == ("passed", "cuda:0 AMD Radeon RX 7900 XT gfx1100")
    assert devices[0]["arch"] == "gfx1100"


@pytest.mark.parametrize(
    ("torch", "backend", "words"),
    [
        (
            cuda_torch(available=False, init=RuntimeError("No CUDA GPUs are available")),
            "cuda",
            "no CUDA device is visible: RuntimeError: No CUDA GPUs are available",
        ),
        (cuda_torch(0), "cuda", "no CUDA device is visible: torch counts no device"),
        (
            cuda_torch(hip="6.4.1"),
            "cuda",
            "no CUDA device is visible: this torch was built for ROCm 6.4.1, it cannot see a CUDA device",
        ),
        (cuda_torch(), "rocm", "no ROCm device is visible: this torch was built for CUDA 12.8, it cannot see a ROCm device"),
        (SimpleNamespace(xpu=Absent(AttributeError)), "xpu", "no XPU device is visible: AttributeError: is_available"),
        (
            SimpleNamespace(backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False, is_built=lambda: True))),
            "mps",
            "no MPS device is visible: MPS is not available: this macOS or machine has none",
        ),
    ],
)
def test_zero_devices_have_failed_and_say_why(torch: Any, backend: str, words: str) -> None:
    assert find_devices(torch, backend) == (("failed", words), [])


def test_directml_adapters_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    adapters = SimpleNamespace(device_count=lambda: 1, device_name=lambda index: "AMD Radeon(TM) Graphics\0")
    monkeypatch.setitem(sys.modules, "torch_directml", adapters)
    answer, devices = find_devices(SimpleNamespace(), "directml")
    assert answer == ("passed", "privateuseone:0 AMD Radeon(TM) Graphics")
    assert devices[0]["device"] == "privateuseone:0"


def test_directml_without_its_package_is_not_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_directml", None)
    answer, devices = find_devices(SimpleNamespace(), "directml")
    assert answer[0] == "failed"
    assert devices == []


def test_xpu_devices_are_listed() -> None:
    xpu = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 1, get_device_name=lambda index: "Intel(R) Arc(TM) A770"
    )
    answer, devices = find_devices(SimpleNamespace(xpu=xpu), "xpu")
    assert answer == ("passed", "xpu:0 Intel(R) Arc(TM) A770")
    assert devices == [{"device": "xpu:0", "name": "Intel(R) Arc(TM) A770", "arch": ""}]


def test_the_cpu_is_always_there() -> None:
    answer, devices = find_devices(SimpleNamespace(), "cpu")
    assert answer[0] == "passed"
    assert [d["device"] for d in devices] == ["cpu"]


# ---- compiled code -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arch", "compiled", "runs"),
    [
        ("sm_86", ["sm_80"], True),  # same major, older minor
        ("sm_80", ["sm_86"], False),  # same major, newer minor
        ("sm_90", ["sm_80", "sm_86"], False),  # other major, no PTX
        ("sm_90", ["sm_80", "compute_80"], True),  # PTX of an older one
        ("sm_75", ["sm_80", "compute_80"], False),  # PTX of a newer one
        ("sm_90", ["sm_90a"], True),
        ("sm_120", ["sm_100a"], False),
        ("sm_121", ["sm_120a"], False),  # architecture features do not travel
        ("sm_121", ["sm_120f"], True),  # a family's do, upwards
        ("sm_120", ["sm_90", "compute_90a"], False),  # nor does PTX with architecture features
        ("sm_120", ["sm_120"], True),
        ("sm_12", ["sm_120"], False),
        ("sm_61", ["sm_60"], True),
        ("sm_90", [], None),
        ("", ["sm_90"], None),
    ],
)
def test_cuda_code_runs_within_one_major(arch: str, compiled: list[str], runs: bool | None) -> None:
    assert code_runs("cuda", arch, compiled) is runs


@pytest.mark.parametrize(
    ("arch", "compiled", "runs"),
    [
        ("gfx1100", ["gfx1030", "gfx1100"], True),
        ("gfx1101", ["gfx1100"], False),
        ("gfx942", ["gfx942:sramecc+:xnack-"], True),
        ("gfx1151", ["gfx11-generic"], None),
    ],
)
def test_rocm_code_is_exact(arch: str, compiled: list[str], runs: bool | None) -> None:
    assert code_runs("rocm", arch, compiled) is runs


def test_a_device_without_code_has_failed() -> None:
    devices = [{"device": "cuda:0", "arch": "sm_61"}]
    answer = judge_code("cuda", devices, ["sm_75", "sm_80"], "sm_61")
    assert answer == ("failed", "no code for cuda:0 (sm_61): this build holds sm_75 sm_80")


def test_a_second_card_without_code_is_left_out() -> None:
    devices: list[dict[str, Any]] = [{"device": "cuda:0", "arch": "sm_89"}, {"device": "cuda:1", "arch": "sm_35"}]
    answer = judge_code("cuda", devices, ["sm_80"], "sm_89")
    assert answer == ("passed", "code for the plan's sm_89; none for cuda:1 (sm_35), which is left out: this build holds sm_80")
    assert [device["code"] for device in devices] == [True, False]


def test_a_card_without_code_is_not_left_out_when_the_plan_is_for_it_or_for_any() -> None:
    for planned in ("sm_35", ""):
        devices = [{"device": "cuda:0", "arch": "sm_89"}, {"device": "cuda:1", "arch": "sm_35"}]
        assert judge_code("cuda", devices, ["sm_80"], planned)[0] == "failed"


def test_unknown_code_is_no_verdict() -> None:
    assert judge_code("xpu", [{"device": "xpu:0", "arch": ""}], [], "")[0] == "skipped"
    assert judge_code("xpu", [{"device": "xpu:0", "arch": ""}], ["dg2"], "")[0] == "skipped"


# ---- the step ----------------------------------------------------------------------------------------------------


def step(**more: Any) -> dict[str, Any]:
    return {
        "landed": ["cuda:0"],
        "loss_before": 2.3,
        "loss_after": 2.2,
        "finite": True,
        "max_abs_diff": 1e-6,
        "max_rel_diff": 1e-5,
        "worst": "gradient of conv",
        **more,
    }


@pytest.mark.parametrize(
    ("asked", "landed", "same"),
    [
        ("cuda:0", "cuda:0", True),
        ("cuda:1", "cuda:0", False),
        ("mps:0", "mps:0", True),
        ("mps", "mps:0", True),
        ("cpu", "cpu", True),
        ("cuda:0", "cpu", False),
        ("privateuseone:0", "privateuseone:0", True),
        ("privateuseone:0", "cpu", False),
    ],
)
def test_a_place_is_a_kind_and_an_index(asked: str, landed: str, same: bool) -> None:
    assert same_device(asked, landed) is same


@pytest.mark.parametrize(
    ("seen", "outcome", "words"),
    [
        (step(), "passed", "on cuda:0 the loss fell from 2.3 to 2.2"),
        (step(landed=["cpu"]), "failed", "fell back to the CPU: the plan computes on cuda:0, results lie on cpu"),
        (
            step(landed=["cpu", "cuda:0"]),
            "failed",
            "fell back to the CPU: the plan computes on cuda:0, results lie on cpu, cuda:0",
        ),
        (step(landed=["cuda:1"]), "failed", "the plan computes on cuda:0, results lie on cuda:1"),
        (step(loss_after=math.nan), "failed", "the step on cuda:0 gave values that are not finite (loss 2.3, then nan)"),
        (step(loss_before=math.inf), "failed", "the step on cuda:0 gave values that are not finite (loss inf, then 2.2)"),
        (step(finite=False), "failed", "the step on cuda:0 gave values that are not finite (loss 2.3, then 2.2)"),
        (step(loss_after=2.3), "failed", "the loss did not fall on cuda:0: 2.3, then 2.3"),
        (step(loss_after=2.4), "failed", "the loss did not fall on cuda:0: 2.3, then 2.4"),
    ],
)
def test_a_step_happens_on_its_device_stays_finite_and_lowers_the_loss(seen: dict[str, Any], outcome: str, words: str) -> None:
    assert judge_step("cuda:0", seen) == (outcome, words)


@pytest.mark.parametrize(
    ("backend", "difference", "outcome"),
    [
        ("cuda", 1e-3, "passed"),
        ("cuda", 1.01e-3, "failed"),
        ("cpu", 1e-4, "passed"),
        ("cpu", 1.01e-4, "failed"),
        ("mps", 1e-2, "passed"),
        ("cuda", math.nan, "failed"),
        ("cuda", math.inf, "failed"),
    ],
)
def test_the_result_equals_the_reference_within_the_tolerance(backend: str, difference: float, outcome: str) -> None:
    assert judge_same(backend, "cuda:0", step(max_rel_diff=difference))[0] == outcome


def test_a_difference_is_named() -> None:
    answer = judge_same("cuda", "cuda:0", step(max_rel_diff=0.25))
    words = "gradient of conv differs from the same step on the CPU by 0.25 of its size on cuda:0 (at most 0.001 is allowed)"
    assert answer == ("failed", words)


class Numbers:
    """As much of a tensor as the comparison uses."""

    def __init__(self, *values: float) -> None:
        self.values = values

    def __sub__(self, other: Numbers) -> Numbers:
        return Numbers(*(a - b for a, b in zip(self.values, other.values, strict=True)))

    def abs(self) -> Numbers:
        return Numbers(*map(abs, self.values))

    def max(self) -> Numbers:
        return Numbers(math.nan if any(map(math.isnan, self.values)) else max(self.values))

    def item(self) -> float:
        return self.values[0]


def result(*gradient: float, before: float = 2.0, after: float = 1.5) -> dict[str, Any]:
    return {"loss_before": before, "loss_after": after, "gradients": {"conv": Numbers(*gradient)}}


@pytest.mark.parametrize(
    ("seen", "absolute", "relative", "worst"),
    [
        (result(1.0, 4.0), 0.0, 0.0, ""),
        (result(1.0, 5.0), 1.0, 0.25, "gradient of conv"),
        (result(1.0, 4.0, before=3.0), 1.0, 0.5, "loss before the step"),
        (result(1.0, 4.0, after=1.2), 0.3, 0.2, "loss after the step"),
    ],
)
def test_differences_are_relative_to_the_largest_value(
    seen: dict[str, Any], absolute: float, relative: float, worst: str
) -> None:
    found = compare(seen, result(1.0, 4.0))
    assert found["max_abs_diff"] == pytest.approx(absolute)
    assert found["max_rel_diff"] == pytest.approx(relative)
    assert found["worst"] == worst


def test_nan_is_the_largest_difference_wherever_it_stands() -> None:
    assert math.isnan(compare(result(math.nan, 4.0), result(1.0, 4.0))["max_rel_diff"])
    assert math.isnan(compare(result(9.0, 4.0, before=math.nan), result(1.0, 4.0))["max_rel_diff"])


def test_a_reference_of_zeros_proves_nothing() -> None:
    assert compare(result(1.0), result(0.0))["max_rel_diff"] == math.inf


# ---- host --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("backend", "there", "open_", "outcome", "words"),
    [
        ("cuda", ["/dev/nvidiactl"], True, "passed", "/dev/nvidiactl"),
        ("cuda", ["/dev/dxg"], True, "passed", "/dev/dxg"),
        ("rocm", ["/dev/kfd", "/dev/dri/renderD128"], True, "passed", "/dev/kfd, /dev/dri/renderD128"),
        (
            "cuda",
            [],
            True,
            "failed",
            "there is no /dev/nvidiactl: no driver is loaded, or this container was started without its devices",
        ),
        (
            "rocm",
            ["/dev/kfd"],
            True,
            "failed",
            "there is no /dev/dri/renderD*: no driver is loaded, or this container was started without its devices",
        ),
        ("rocm", ["/dev/kfd", "/dev/dri/renderD128"], False, "failed", "closed: /dev/kfd"),
        ("mps", [], True, "skipped", "MPS needs no device files"),
    ],
)
def test_device_files_are_there_and_open(
    monkeypatch: pytest.MonkeyPatch, backend: str, there: list[str], open_: bool, outcome: str, words: str
) -> None:
    import fnmatch
    import glob
    import os

    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(glob, "glob", lambda pattern: fnmatch.filter(there, pattern))
    monkeypatch.setattr(os, "access", lambda path, mode: open_)
    monkeypatch.setattr(probe, "closed_words", lambda path: f"closed: {path}")
    assert look_at_nodes(backend) == (outcome, words)


# ---- crashes -----------------------------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX do processes end by signals")
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (-11, "was ended by signal SIGSEGV"),
        (-9, "was ended by signal SIGKILL"),
        (-200, "was ended by signal 200"),
        (3, "ended with status 3"),
        (0, "ended with status 0"),
        (None, "went away"),
        (0xC0000005, "crashed: access violation (0xC0000005)"),
    ],
)
def test_an_ending_is_told_in_words(status: int | None, words: str) -> None:
    assert ending(status) == words


TRACE = """Warning: something
Timeout (0:00:02)!
Thread 0x00007f1 (most recent call first):
  File "/env/lib/python3.11/site-packages/torch/cuda/__init__.py", line 174 in is_available
  File "<string>", line 3 in visible_cuda
"""


def test_the_innermost_frame_of_a_hang_is_found() -> None:
    assert innermost(TRACE) == "cuda/__init__.py line 174 in is_available"
    assert innermost("nothing of the kind") == ""


def test_of_several_threads_the_main_one_counts_or_the_one_that_crashed() -> None:
    watching = 'Thread 0x1 (most recent call first):\n  File "probe.py", line 1 in watch\n\n'
    assert innermost(watching + TRACE) == "cuda/__init__.py line 174 in is_available"
    crashed = (
        'Fatal Python error: Segmentation fault\n\nCurrent thread 0x2 (most recent call first):\n  File "a/b.py", line 2 in f\n\n'
    )
    assert innermost(crashed + watching) == "a/b.py line 2 in f"


def test_a_frame_on_windows_is_found() -> None:
    text = 'Current thread 0x1 (most recent call first):\n  File "C:\\env\\Lib\\torch\\__init__.py", line 9 in <module>\n'
    assert innermost(text) == "torch/__init__.py line 9 in <module>"


def test_last_words_are_not_the_traceback() -> None:
    assert last_words(TRACE) == "Warning: something"
    assert last_words("") == ""


def test_a_stage_that_was_not_reached_is_shown_as_skipped() -> None:
    checks = [
        {"id": "import", "level": "framework", "outcome": "passed", "seconds": 1.0, "detail": ""},
        {"id": "device-visible", "level": "framework", "outcome": "failed", "seconds": 1.0, "detail": "no"},
        {"id": "python", "level": "runtime", "outcome": "passed", "seconds": 0.0, "detail": ""},
    ]
    fill_up(checks, "compute", "cuda")
    assert [check["id"] for check in checks] == [
        "python",
        "import",
        "framework-build",
        "device-visible",
        "device-code",
        "train-step",
        "same-result",
    ]
    assert checks[-1]["outcome"] == "skipped"
    assert checks[-1]["detail"] == "not reached, since device-visible failed"


# ---- documents ---------------------------------------------------------------------------------------------------


def test_json_carries_no_nan() -> None:
    assert (
        json.dumps(finite({"a": [math.nan, 1.0], "b": {"c": math.inf}}), allow_nan=False)
        == '{"a": [null, 1.0], "b": {"c": null}}'
    )


def test_every_check_has_a_level_in_order() -> None:
    levels = [probe.LEVELS.index(level) for _, level in CHECKS]
    assert levels == sorted(levels)
    assert len({identity for identity, _ in CHECKS}) == len(CHECKS)


def test_every_backend_has_its_parts() -> None:
    of_all = {backend for framework in probe.FRAMEWORKS.values() for backend in framework.backends}
    assert set(probe.VISIBLE) | of_all == set(probe.TOLERANCE) == set(probe.TITLES)
    assert set(probe.NODES) | set(probe.PLUGINS) <= set(probe.TITLES)


def test_an_expectation_that_is_none_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, words in (
        ("{", "is no JSON document"),
        ("[]", "is no plan: expected a JSON object"),
        ("{}", "is no plan: it names no backend"),
    ):
        file = tmp_path / "plan.json"
        file.write_text(text, encoding="utf-8")
        assert probe.main(["--expect", str(file)]) == 2
        assert words in capsys.readouterr().err
    assert probe.main(["--expect", str(tmp_path / "absent.json")]) == 2


def test_without_an_expectation_there_is_nothing_to_prove(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        probe.main([])
    assert ended.value.code == 2
    assert "say what to hold this environment to: --expect FILE" in capsys.readouterr().err


def test_the_probe_is_one_file_for_old_pythons() -> None:
    path = importlib.util.find_spec("envkit.verify.probe")
    assert path is not None and path.origin is not None
    tree = ast.parse(Path(path.origin).read_text(encoding="utf-8"), feature_version=(3, 8))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


def test_a_reason_in_words_carries_no_exception_name() -> None:
    def question() -> tuple[str, str]:
        raise InWords("torch is not installed in this environment")

    assert probe.timed("import", question)["detail"] == "torch is not installed in this environment"


def test_an_unforeseen_exception_is_a_failed_check() -> None:
    def question() -> tuple[str, str]:
        raise KeyError("x")

    found = probe.timed("import", question)
    assert (found["outcome"], found["detail"]) == ("failed", "KeyError: 'x'")


def gone(errors: str) -> Any:
    """A worker that went away while it imported torch."""
    return SimpleNamespace(
        said=lambda _key: [], pending=lambda: "import", errors=errors.encode(), task={"device": None}, started=0.0
    )


def test_a_watchdog_that_crashes_is_no_crash_of_the_framework() -> None:
    crash = 'Fatal Python error: Segmentation fault\n\nThread 0x1 (most recent call first):\n  File "a/b.py", line 2 in f\n'
    found = probe.broken(gone("Timeout (0:00:00.75)!\n" + crash), False, -11, 1.0)
    assert found is not None
    assert found["detail"] == "did not come back within 1 s while importing torch (a/b.py line 2 in f): hung, and was killed"
    found = probe.broken(gone(crash), False, -11, 1.0)
    assert found is not None
    assert found["detail"].startswith("the process was ended by signal SIGSEGV while importing torch")


@pytest.mark.parametrize(
    ("pin", "have", "outcome"),
    [
        ("2.9.0", "2.9.0", "passed"),
        ("2.9.0", "2.9.0+hpu.1.23.0", "passed"),
        ("2.9.0", "2.9.0a0+git1234567", "passed"),
        ("2.9.0", "2.9.1+hpu.1.23.0", "failed"),
        ("2.9.0+musa5", "2.9.0", "failed"),
        ("2.9.0+musa5", "2.9.0+musa5", "passed"),
    ],
)
def test_a_vendors_own_build_may_mark_its_version(pin: str, have: str, outcome: str) -> None:
    wanted = {"name": "torch", "version": pin, "index": "vendor"}
    assert judge_versions([wanted], {"torch": [have]})[0] == outcome
    if have != pin:
        assert judge_versions([{**wanted, "index": "pypi"}], {"torch": [have]})[0] == "failed"


def test_what_takes_a_driver_to_be_imported_is_left_alone_on_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch_npu.py").write_text("raise ImportError('libhccl.so: cannot open shared object file')\n", encoding="utf-8")
    (tmp_path / "torchvisor.py").write_text("", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    expect = {
        "framework": {"name": "torch"},
        "packages": [{"name": "torch-npu", "version": "2.12.0"}, {"name": "torchvisor", "version": "1.0"}],
    }
    assert probe.load_companions(expect, True) == ["torchvisor"]
    with pytest.raises(probe.InWords, match="torch_npu cannot be imported: ImportError: libhccl"):
        probe.load_companions(expect)
