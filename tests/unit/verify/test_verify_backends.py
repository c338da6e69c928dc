"""Backends and frameworks that this machine has not: stand-ins made from the vendors' documents, right and damaged."""

from __future__ import annotations

import json
import math
import struct
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from envkit.verify import probe
from envkit.verify.probe import (
    FRAMEWORKS,
    Heard,
    InWords,
    Proving,
    apart,
    compare,
    draw_model,
    find_devices,
    flat,
    framework_pin,
    judge_half,
    judge_memory,
    judge_parallel,
    judge_rate,
    judge_step,
    judge_sum,
    load_plugins,
    onnx_model,
    pass_through,
    peaks_of,
    plain_step,
    proto_number,
    providers_used,
    reaches,
)

RAISED = [
    AttributeError,
    AssertionError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OSError,
    ImportError,
    KeyError,
    SystemExit,
]


def module(name: str, monkeypatch: pytest.MonkeyPatch, **content: Any) -> Any:
    """A module of this name, for as long as the test lasts; its packages too."""
    made = ModuleType(name)
    made.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, made)
    parts = name.split(".")
    for count in range(1, len(parts)):
        above = ".".join(parts[:count])
        if above not in sys.modules:
            monkeypatch.setitem(sys.modules, above, ModuleType(above))
    return made


def space(count: int, name: str = "card", *, available: bool = True, **more: Any) -> Any:
    return SimpleNamespace(
        is_available=lambda: available, device_count=lambda: count, get_device_name=lambda index=0: name, **more
    )


# ---- torch through plugins ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["npu", "mlu", "musa"])
def test_devices_of_a_plugin_are_listed(kind: str) -> None:
    answer, devices = find_devices(SimpleNamespace(**{kind: space(2, "Ascend910B3")}), kind)
    assert answer == ("passed", f"{kind}:0 Ascend910B3, {kind}:1 Ascend910B3")
    assert [device["device"] for device in devices] == [f"{kind}:0", f"{kind}:1"]


@pytest.mark.parametrize("kind", ["npu", "mlu", "musa"])
def test_a_plugin_that_sees_nothing_has_failed(kind: str) -> None:
    title = probe.TITLES[kind]
    words = f"no {title} device is visible: torch.{kind} sees no device"
    for seen in (space(0), space(2, available=False)):
        assert find_devices(SimpleNamespace(**{kind: seen}), kind) == (("failed", words), [])


class Raises:
    """A namespace in which every question raises."""

    def __init__(self, raised: type[BaseException]) -> None:
        self.raised = raised

    def __getattr__(self, name: str) -> Any:
        raise self.raised("no such device")


@pytest.mark.parametrize("raised", RAISED)
@pytest.mark.parametrize(
    "backend", ["cuda", "rocm", "xpu", "mps", "npu", "mlu", "musa", "hpu", "tpu", "xla", "neuron", "directml"]
)
def test_whatever_a_backend_raises_is_an_answer(
    monkeypatch: pytest.MonkeyPatch, backend: str, raised: type[BaseException]
) -> None:
    broken = Raises(raised)
    for name in ("torch_directml", "habana_frameworks.torch.hpu", "torch_xla.runtime"):
        made = module(name, monkeypatch)
        made.__getattr__ = broken.__getattr__
    torch = SimpleNamespace(
        version=SimpleNamespace(cuda="13.0", hip="7.0"),
        cuda=broken,
        xpu=broken,
        backends=broken,
        npu=broken,
        mlu=broken,
        musa=broken,
    )
    answer, devices = find_devices(torch, backend)
    assert answer[0] == "failed"
    assert "no such device" in answer[1]
    assert devices == []


def test_gaudi_processes_hold_one_processor_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HABANA_VISIBLE_MODULES", raising=False)
    module("habana_frameworks.torch.hpu", monkeypatch, **vars(space(2, "GAUDI2")))
    answer, devices = find_devices(SimpleNamespace(), "hpu")
    assert answer == ("passed", "hpu:0 GAUDI2, hpu:1 GAUDI2")
    assert [(d["use"], d["env"]) for d in devices] == [
        ("hpu:0", {"HABANA_VISIBLE_MODULES": "0"}),
        ("hpu:0", {"HABANA_VISIBLE_MODULES": "1"}),
    ]
    monkeypatch.setenv("HABANA_VISIBLE_MODULES", "4,5")
    _, devices = find_devices(SimpleNamespace(), "hpu")
    assert [d["env"]["HABANA_VISIBLE_MODULES"] for d in devices] == ["4", "5"]


def test_torch_xla_has_to_compute_on_what_the_plan_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch_tpu", raising=False)
    runtime = module("torch_xla.runtime", monkeypatch, device_type=lambda: "TPU")
    module("torch_xla.core.xla_model", monkeypatch, get_xla_supported_devices=lambda: ["xla:0", "xla:1"])
    assert find_devices(SimpleNamespace(), "tpu")[0] == ("passed", "xla:0 TPU, xla:1 TPU")
    runtime.device_type = lambda: "CPU"
    words = "no TPU device is visible: torch_xla computes on CPU here, not on a TPU"
    assert find_devices(SimpleNamespace(), "tpu")[0] == ("failed", words)
    assert find_devices(SimpleNamespace(), "xla")[0] == ("passed", "xla:0 CPU, xla:1 CPU")
    assert find_devices(SimpleNamespace(), "neuron")[0][0] == "failed"


def test_torchtpu_is_asked_through_the_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    module("torch_tpu", monkeypatch)
    torch = SimpleNamespace(
        accelerator=SimpleNamespace(is_available=lambda: True, device_count=lambda: 1), tpu=Raises(RuntimeError)
    )
    assert find_devices(torch, "tpu")[0] == ("passed", "tpu:0 TPU")
    torch.accelerator.is_available = lambda: False
    assert find_devices(torch, "tpu")[0] == ("failed", "no TPU device is visible")


@pytest.mark.parametrize(
    ("packages", "named"),
    [(["torch", "torch-tpu"], ["torch_tpu"]), (["torch", "torch-xla"], ["torch_xla"]), (["torch"], ["torch_xla"])],
)
def test_the_plan_says_which_way_leads_to_a_tpu(packages: list[str], named: list[str]) -> None:
    expect = {"packages": [{"name": name, "version": "2.9.0"} for name in packages]}
    assert FRAMEWORKS["torch"].plugins("tpu", expect) == named


def test_a_plugin_that_is_not_there_is_named() -> None:
    with pytest.raises(InWords) as told:
        load_plugins({"backend": {"name": "npu"}}, "npu")
    assert str(told.value) == "torch_npu is not installed in this environment: torch reaches Ascend NPU through it"
    with pytest.raises(InWords) as told:
        load_plugins({"backend": {"name": "hpu"}}, "hpu")
    assert str(told.value) == "habana_frameworks is not installed in this environment: torch reaches Gaudi HPU through it"


def test_a_plugin_that_breaks_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def refuse(name: str) -> Any:
        raise OSError("libhccl.so: cannot open shared object file")

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(InWords, match=r"torch_npu cannot be imported: OSError: libhccl.so"):
        load_plugins({"backend": {"name": "npu"}}, "npu")


@pytest.mark.parametrize(
    ("backend", "able", "kinds"),
    [
        ("cuda", True, ["bfloat16", "float16"]),
        ("cuda", False, ["float16"]),
        ("npu", None, ["bfloat16", "float16"]),
        ("mlu", RuntimeError, ["bfloat16", "float16"]),
    ],
)
def test_sixteen_bits_are_tried_where_the_device_says_so(backend: str, able: Any, kinds: list[str]) -> None:
    def ask() -> bool:
        if able is RuntimeError:
            raise RuntimeError
        return bool(able)

    seen = SimpleNamespace() if able is None else SimpleNamespace(is_bf16_supported=ask)
    assert FRAMEWORKS["torch"].halves(SimpleNamespace(**{backend: seen}), backend, backend + ":0") == kinds


def test_full_factors_are_asked_for_where_a_plugin_knows_how() -> None:
    torch = SimpleNamespace(npu=SimpleNamespace(matmul=SimpleNamespace(allow_hf32=True)))
    probe.forbid_short_factors(torch, "npu")
    assert torch.npu.matmul.allow_hf32 is False
    probe.forbid_short_factors(SimpleNamespace(), "musa")


def test_memory_is_asked_for_by_device() -> None:
    asked = []
    torch = SimpleNamespace(
        npu=SimpleNamespace(memory_allocated=lambda name: asked.append(name) or 512),
        mps=SimpleNamespace(current_allocated_memory=lambda: 64),
        mlu=SimpleNamespace(),
    )
    framework = FRAMEWORKS["torch"]
    assert framework.memory(torch, "npu", "npu:1") == 512
    assert asked == ["npu:1"]
    assert framework.memory(torch, "mps", "mps:0") == 64
    assert framework.memory(torch, "mlu", "mlu:0") is None
    assert framework.memory(torch, "cpu", "cpu") is None


# ---- jax ---------------------------------------------------------------------------------------------------------


def installed(monkeypatch: pytest.MonkeyPatch, **packages: str) -> None:
    """Has these packages, and no others, be installed."""
    found = {name.replace("_", "-"): version for name, version in packages.items()}
    monkeypatch.setattr(
        probe, "installed_like", lambda *starts: {name: version for name, version in found.items() if name.startswith(starts)}
    )


@pytest.mark.parametrize(
    ("backend", "version", "packages", "outcome", "words"),
    [
        ("cpu", "0", {}, "passed", "jax 0.7.0, jaxlib 0.7.0"),
        (
            "cpu",
            "0",
            {"jax_cuda12_plugin": "0.7.0"},
            "failed",
            "the plan wants a jax for the CPU, this environment also has jax-cuda12-plugin 0.7.0",
        ),
        (
            "cuda",
            "12.9",
            {"jax_cuda12_plugin": "0.7.0", "jax_cuda12_pjrt": "0.7.0"},
            "passed",
            "jax 0.7.0, jaxlib 0.7.0, jax-cuda12-plugin 0.7.0",
        ),
        (
            "cuda",
            "13.0",
            {"jax_cuda12_plugin": "0.7.0"},
            "failed",
            "the plan wants a jax for CUDA 13, this environment has jax-cuda12-plugin 0.7.0",
        ),
        ("cuda", "12.9", {}, "failed", "the plan wants a jax for CUDA, this environment has no plugin for an accelerator"),
        (
            "rocm",
            "7.0",
            {"jax_cuda12_plugin": "0.7.0"},
            "failed",
            "the plan wants a jax for ROCm, this environment has jax-cuda12-plugin 0.7.0",
        ),
        ("tpu", "0.0.20", {"libtpu": "0.0.20"}, "passed", "jax 0.7.0, jaxlib 0.7.0, libtpu 0.0.20"),
    ],
)
def test_a_jax_is_for_what_its_plugins_are(
    monkeypatch: pytest.MonkeyPatch, backend: str, version: str, packages: dict[str, str], outcome: str, words: str
) -> None:
    installed(monkeypatch, **packages)
    module("jaxlib.version", monkeypatch, __version__="0.7.0")
    expect = {"backend": {"name": backend, "version": version}}
    answer = FRAMEWORKS["jax"].judge_build(expect, SimpleNamespace(__version__="0.7.0"), {})
    assert answer == (outcome, words)


def test_jax_devices_are_asked_for_by_name() -> None:
    asked = []

    def local_devices(backend: str) -> list[Any]:
        asked.append(backend)
        return [
            SimpleNamespace(platform="gpu", id=index, device_kind="NVIDIA H200", compute_capability="9.0") for index in (0, 1)
        ]

    answer, devices = find_devices(SimpleNamespace(local_devices=local_devices), "cuda", "jax", "gpu")
    assert asked == ["cuda"]
    assert answer == ("passed", "gpu:0 NVIDIA H200 sm_90, gpu:1 NVIDIA H200 sm_90")
    assert [device["device"] for device in devices] == ["gpu:0", "gpu:1"]


def test_a_jax_without_its_device_says_why() -> None:
    def local_devices(backend: str) -> list[Any]:
        raise RuntimeError("Unable to initialize backend 'tpu': INTERNAL: Failed to open libtpu.so")

    answer, _ = find_devices(SimpleNamespace(local_devices=local_devices), "tpu", "jax", "tpu")
    assert answer[0] == "failed"
    assert "Failed to open libtpu.so" in answer[1]


# ---- mlx ---------------------------------------------------------------------------------------------------------


def metal(count: int = 1, *, available: bool = True, old: bool = False) -> Any:
    facts = {"device_name": "Apple M3 Max", "memory_size": 64 << 30}
    made = SimpleNamespace(gpu="gpu", metal=SimpleNamespace(is_available=lambda: available, device_info=lambda: facts))
    if not old:
        made.Device = lambda kind, index: (kind, index)
        made.device_count = lambda kind: count
        made.device_info = lambda device: facts
    return made


@pytest.mark.parametrize("old", [False, True])
def test_an_apple_gpu_is_listed(old: bool) -> None:
    answer, devices = find_devices(metal(old=old), "mlx", "mlx", "gpu")
    assert answer == ("passed", "gpu:0 Apple M3 Max")
    assert devices[0]["memory_bytes"] == 64 << 30


def test_without_metal_there_is_no_gpu() -> None:
    answer, devices = find_devices(metal(available=False), "mlx", "mlx", "gpu")
    words = "no Metal device is visible: this MLX computes on the CPU alone, or there is no GPU that it can use"
    assert (answer, devices) == (("failed", words), [])


# ---- mindspore, tensorflow ---------------------------------------------------------------------------------------


def test_mindspore_lists_ascend() -> None:
    hal = SimpleNamespace(
        is_available=lambda kind: kind == "Ascend", device_count=lambda kind: 2, get_device_name=lambda index, kind: "Ascend910B"
    )
    answer, _ = find_devices(SimpleNamespace(hal=hal), "npu", "mindspore", "Ascend")
    assert answer == ("passed", "Ascend:0 Ascend910B, Ascend:1 Ascend910B")


def test_mindspore_without_cann_is_not_visible() -> None:
    def refuse(kind: str) -> bool:
        raise ValueError("no CANN")

    answer, _ = find_devices(SimpleNamespace(hal=SimpleNamespace(is_available=refuse)), "npu", "mindspore", "Ascend")
    assert answer == ("failed", "no Ascend NPU device is visible: ValueError: no CANN")


def test_tensorflow_lists_directml_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    config = SimpleNamespace(
        list_physical_devices=lambda kind: ["/physical_device:GPU:0"],
        experimental=SimpleNamespace(get_device_details=lambda device: {"device_name": "AMD Radeon"}),
    )
    assert find_devices(SimpleNamespace(config=config), "directml", "tensorflow", "GPU")[0] == ("passed", "GPU:0 AMD Radeon")
    config.list_physical_devices = lambda kind: []
    words = "no DirectML device is visible: TensorFlow lists no GPU"
    assert find_devices(SimpleNamespace(config=config), "directml", "tensorflow", "GPU")[0] == ("failed", words)
    installed(monkeypatch)
    answer = FRAMEWORKS["tensorflow"].judge_build({"backend": {"name": "directml"}}, SimpleNamespace(__version__="2.10.0"), {})
    assert answer == ("failed", "the plan wants a tensorflow for DirectML, tensorflow-directml-plugin is not installed")


# ---- llama.cpp ---------------------------------------------------------------------------------------------------


class Library:
    """ggml with one card beside the processor."""

    ggml, build = "0.25.3", "11312"
    listed = (("ROCm0", "AMD Radeon RX 7900 XT"), ("ROCm1", "AMD Radeon RX 7900 XT"), ("CPU", "AMD EPYC"))

    def devices(self) -> list[tuple[str, str]]:
        return list(self.listed)


def test_the_devices_of_llama_cpp_are_those_of_its_library() -> None:
    answer, devices = find_devices(Library(), "rocm", "llamacpp", "ROCm")
    assert answer == ("passed", "ROCm0 AMD Radeon RX 7900 XT, ROCm1 AMD Radeon RX 7900 XT")
    assert [device["device"] for device in devices] == ["ROCm0", "ROCm1"]
    assert find_devices(Library(), "cpu", "llamacpp", "CPU")[0] == ("passed", "CPU AMD EPYC")
    words = "no CUDA device is visible: ggml has ROCm0, ROCm1, CPU alone"
    assert find_devices(Library(), "cuda", "llamacpp", "CUDA")[0] == ("failed", words)


@pytest.mark.parametrize(
    ("pinned", "build", "outcome", "words"),
    [
        ("11312", "11312", "passed", "llama.cpp 11312, ggml 0.25.3"),
        ("11312", "9000", "failed", "the plan wants llama.cpp 11312, this one is 9000"),
        ("11312", "", "skipped", "nothing tells which build of llama.cpp this is; the plan wants 11312 (ggml 0.25.3)"),
        ("", "", "passed", "llama.cpp of an unknown build, ggml 0.25.3"),
    ],
)
def test_a_llama_cpp_is_told_by_its_build(pinned: str, build: str, outcome: str, words: str) -> None:
    library = Library()
    library.build = build
    expect = {"packages": [{"name": "llama.cpp", "version": pinned, "index": "vendor"}] if pinned else []}
    assert FRAMEWORKS["llamacpp"].judge_build(expect, library, {}) == (outcome, words)


def test_llama_cpp_is_no_python_package() -> None:
    expect = {
        "backend": {"name": "rocm"},
        "framework": {"name": "llamacpp"},
        "packages": [{"name": "llama.cpp", "version": "11312", "index": "vendor"}],
    }
    checks = {check["id"]: check for check in probe.local_checks(expect, {}, "runtime", False)}
    assert checks["flavour"]["outcome"] == checks["packages"]["outcome"] == "skipped"
    assert probe.load_companions(expect) == []


def test_a_missing_llama_cpp_is_called_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    with pytest.raises(InWords) as told:
        probe.Ggml([str(tmp_path)])
    words = "llama.cpp is not here: there is no libggml.so beside llama-cli, in /app or in llama_cpp"
    assert str(told.value) == words


# ---- onnxruntime and openvino ------------------------------------------------------------------------------------


def runtime(*providers: str) -> Any:
    return SimpleNamespace(__version__="1.22.0", get_available_providers=lambda: list(providers))


@pytest.mark.parametrize(
    ("backend", "device", "has", "packages", "outcome", "words"),
    [
        (
            "cuda",
            "CUDAExecutionProvider",
            ("TensorrtExecutionProvider", "CUDAExecutionProvider", "CPUExecutionProvider"),
            {"onnxruntime_gpu": "1.22.0"},
            "passed",
            "onnxruntime 1.22.0, with TensorrtExecutionProvider, CUDAExecutionProvider, CPUExecutionProvider",
        ),
        (
            "rocm",
            "MIGraphXExecutionProvider",
            ("CPUExecutionProvider",),
            {},
            "failed",
            "the plan wants an onnxruntime with MIGraphXExecutionProvider, this one has CPUExecutionProvider",
        ),
        (
            "directml",
            "",
            ("DmlExecutionProvider", "CPUExecutionProvider"),
            {},
            "passed",
            "onnxruntime 1.22.0, with DmlExecutionProvider, CPUExecutionProvider",
        ),
        (
            "cuda",
            "CUDAExecutionProvider",
            ("CPUExecutionProvider",),
            {"onnxruntime": "1.22.0", "onnxruntime_gpu": "1.22.0", "onnxruntime_extensions": "0.13"},
            "failed",
            "onnxruntime 1.22.0 and onnxruntime-gpu 1.22.0 are installed over each other: they share their files",
        ),
    ],
)
def test_an_onnxruntime_has_the_plans_provider(
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    device: str,
    has: tuple[str, ...],
    packages: dict[str, str],
    outcome: str,
    words: str,
) -> None:
    installed(monkeypatch, **packages)
    expect = {"backend": {"name": backend, "device": device}}
    assert FRAMEWORKS["onnxruntime"].judge_build(expect, runtime(*has), {}) == (outcome, words)


@pytest.mark.parametrize(
    ("names", "framework", "found"),
    [
        (["onnxruntime-gpu", "numpy"], "onnxruntime", "onnxruntime-gpu"),
        (["onnxruntime", "numpy"], "onnxruntime", "onnxruntime"),
        (["tensorflow-cpu"], "tensorflow", "tensorflow-cpu"),
        (["numpy", "torch"], "torch", "torch"),
        (["torchvision"], "torch", ""),
        (["numpy", "onnxruntime-gpu"], "onnxruntime", ""),
        (["llama.cpp"], "llamacpp", "llama.cpp"),
    ],
)
def test_the_frameworks_package_may_have_another_name(names: list[str], framework: str, found: str) -> None:
    packages = [{"name": name, "version": "1.0", "index": "pypi"} for name in names]
    assert framework_pin({"packages": packages}, framework).get("name", "") == found


@pytest.mark.parametrize(
    ("value", "data"),
    [(0, b"\x00"), (1, b"\x01"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_numbers_are_written_as_protobuf_does(value: int, data: bytes) -> None:
    assert proto_number(value) == data


@pytest.mark.parametrize(("precision", "size"), [("float32", 4), ("float16", 2)])
def test_the_onnx_file_holds_the_weights(precision: str, size: int) -> None:
    data = onnx_model(precision)
    letter = "f" if size == 4 else "e"
    for name in ("conv", "attention", "head"):
        values = flat(draw_model()[name])
        assert struct.pack(f"<{len(values)}{letter}", *values) in data
    for operator in (b"Conv", b"Tanh", b"Softmax", b"ReduceMean", b"MatMul"):
        assert operator in data


def test_the_profile_names_what_computed() -> None:
    events = [
        {"cat": "Session", "args": {}},
        {"cat": "Node", "name": "a_kernel_time", "args": {"provider": "CUDAExecutionProvider"}},
        {"cat": "Node", "name": "b_kernel_time", "args": {"provider": "CPUExecutionProvider"}},
        {"cat": "Node", "name": "c_fence_before", "args": {}},
    ]
    assert providers_used(json.dumps(events)) == ["CPUExecutionProvider", "CUDAExecutionProvider"]
    with pytest.raises(InWords, match="names no provider"):
        providers_used("[]")


def test_a_node_that_was_left_to_the_cpu_is_a_fallback() -> None:
    step = {"landed": ["CPUExecutionProvider", "CUDAExecutionProvider:0"], "finite": True, "step_seconds": 0.1}
    words = (
        "fell back to the CPU: the plan computes on CUDAExecutionProvider:0, "
        "results lie on CPUExecutionProvider, CUDAExecutionProvider:0"
    )
    assert judge_step("CUDAExecutionProvider:0", step) == ("failed", words)


class Core:
    """openvino.Core on a machine with two Intel cards."""

    available_devices = ("CPU", "GPU.0", "GPU.1", "NPU")

    def get_property(self, device: str, name: str) -> str:
        return {"GPU.0": "Intel(R) Arc(TM) A770 Graphics (dGPU)"}.get(device, device)


@pytest.mark.parametrize(
    ("wanted", "found"), [("GPU", ["GPU.0", "GPU.1"]), ("CPU", ["CPU"]), ("NPU", ["NPU"]), ("", ["CPU"]), ("GPU.1", ["GPU.1"])]
)
def test_openvino_devices_are_those_of_the_plans_name(wanted: str, found: list[str]) -> None:
    _, devices = find_devices(SimpleNamespace(Core=Core), "openvino", "openvino", wanted)
    assert [device["device"] for device in devices] == found


def test_what_native_code_says_is_heard(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    with Heard() as heard:
        os.write(2, b"\x1b[0;93m[W:onnxruntime] no cuDNN\x1b[m\nmore\n")
    assert heard.reason("[E:", "[W:") == "[W:onnxruntime] no cuDNN"
    assert heard.reason("[E:") == ""
    assert "no cuDNN" in capfd.readouterr().err


# ---- the reference model -----------------------------------------------------------------------------------------


def nudge(values: Any, place: int, by: float) -> None:
    """Moves the number at `place`, counted through nested lists, a little."""
    while isinstance(values[0], list):
        size = len(flat(values[0]))
        values, place = values[place // size], place % size
    values[place] += by


@pytest.mark.parametrize("name", ["conv", "attention", "head"])
def test_the_reference_gradients_are_those_of_finite_differences(name: str) -> None:
    gradients = plain_step()["gradients"][name]
    assert len(gradients) == len(flat(draw_model()[name]))
    for place in (0, 1, 5, len(gradients) // 2, len(gradients) - 1):
        losses = []
        for by in (1e-5, -1e-5):
            model = draw_model()
            nudge(model[name], place, by)
            losses.append(pass_through(model, None)[1])
        assert (losses[0] - losses[1]) / 2e-5 == pytest.approx(gradients[place], abs=1e-9)


def test_the_reference_step_lowers_the_loss() -> None:
    for images in (2, 4, 16):
        step = plain_step(images)
        assert math.isfinite(step["loss_before"])
        assert step["loss_after"] < step["loss_before"] - 0.01


def test_the_models_numbers_are_exact_in_sixteen_bits() -> None:
    model = draw_model()
    for name in ("images", "conv", "attention", "head"):
        values = flat(model[name])
        assert values == list(struct.unpack(f"<{len(values)}e", struct.pack(f"<{len(values)}e", *values)))
        # bfloat16 is the upper half of a float32.
        assert all(struct.pack("<f", value)[:2] == b"\0\0" for value in values)


@pytest.mark.parametrize(
    ("values", "gap"), [([1.0, 4.0], 0.0), ([1.0, 5.0], 1.0), ([math.nan, 4.0], math.nan), ([1.0, math.inf], math.inf)]
)
def test_lists_are_compared_like_tensors(values: list[float], gap: float) -> None:
    found, size = apart(values, [1.0, 4.0])
    assert size == 4.0
    assert found == pytest.approx(gap, nan_ok=True)


def test_a_result_of_another_size_is_no_result() -> None:
    with pytest.raises(InWords, match="the result has 1 numbers, the reference 2"):
        compare({"outputs": {"output": [1.0]}}, {"outputs": {"output": [1.0, 2.0]}})


# ---- verdicts ----------------------------------------------------------------------------------------------------


def step(**more: Any) -> dict[str, Any]:
    good = {
        "landed": ["npu:0"],
        "loss_before": 2.3,
        "loss_after": 2.2,
        "finite": True,
        "max_abs_diff": 1e-3,
        "max_rel_diff": 0.01,
    }
    return {**good, "worst": "gradient of conv", "step_seconds": 0.1, **more}


@pytest.mark.parametrize(
    ("precision", "seen", "outcome"),
    [
        ("bfloat16", step(max_rel_diff=0.1), "passed"),
        ("bfloat16", step(max_rel_diff=0.11), "failed"),
        ("float16", step(max_rel_diff=0.02), "passed"),
        ("float16", step(max_rel_diff=0.021), "failed"),
        ("float16", step(max_rel_diff=math.nan), "failed"),
        ("float16", step(landed=["cpu"]), "failed"),
        ("float16", step(finite=False), "failed"),
        ("float16", step(loss_after=2.3), "failed"),
    ],
)
def test_sixteen_bits_come_as_near_as_they_can(precision: str, seen: dict[str, Any], outcome: str) -> None:
    assert judge_half(precision, "npu", "npu:0", seen, "the same step on the CPU")[0] == outcome


class Halves(probe.Framework):
    """A framework whose 16-bit steps raise."""

    name = "stand-in"

    def __init__(self, raised: Exception) -> None:
        self.raised = raised

    def run(self, module: Any, backend: str, name: str, precision: str) -> dict[str, Any]:
        raise self.raised


@pytest.mark.parametrize(
    ("raised", "skipped"),
    [
        (RuntimeError("\"conv2d\" not implemented for 'BFloat16'"), True),
        (TypeError("BFloat16 is not supported on MPS"), True),
        (NotImplementedError("x"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_a_format_that_the_device_has_not_is_skipped(raised: Exception, skipped: bool) -> None:
    def ask() -> tuple[str, str]:
        return probe.half(Halves(raised), None, "mps", {"device": "mps:0"}, "bfloat16", {"reference": {}})

    if skipped:
        answer = ask()
        assert answer[0] == "skipped"
        assert answer[1].startswith("mps:0 does not compute in bfloat16: ")
    else:
        with pytest.raises(RuntimeError):
            ask()


@pytest.mark.parametrize(
    ("before", "after", "outcome"), [(0, 0, "passed"), (8192, 8192, "passed"), (8192, 4096, "passed"), (0, 1, "failed")]
)
def test_a_step_leaves_nothing_behind(before: int, after: int, outcome: str) -> None:
    assert judge_memory("cuda:0", before, after)[0] == outcome


def test_a_leak_is_told_in_bytes() -> None:
    assert judge_memory("cuda:0", 512, 1024) == ("failed", "a step leaves 512 bytes behind on cuda:0: memory is not given back")


@pytest.mark.parametrize(
    ("got", "world", "outcome", "words"),
    [
        ([place * 2 + 1.0 for place in range(1024)], 2, "passed", "gloo summed 1024 numbers over 2: a, b"),
        (
            [float(place) for place in range(1024)],
            1,
            "passed",
            "gloo answers on a, b; with one device there is nothing to sum over",
        ),
        ([float(place) for place in range(1024)], 2, "failed", "gloo gave a wrong sum over a, b, at 1024 of 1024 places"),
        (
            [place * 2 + 1.0 for place in range(1023)] + [math.nan],
            2,
            "failed",
            "gloo gave a wrong sum over a, b, at 1 of 1024 places",
        ),
        ([], 2, "failed", "gloo gave a wrong sum over a, b, at 1024 of 1024 places"),
    ],
)
def test_a_sum_is_right_to_the_last_bit(got: list[float], world: int, outcome: str, words: str) -> None:
    assert judge_sum(got, world, "gloo", "a, b") == (outcome, words)


def parallel(**more: Any) -> dict[str, Any]:
    return {"loss_before": 2.0, "loss_after": 1.5, "gradients": {"conv": [1.0, 4.0]}, **more}


@pytest.mark.parametrize(
    ("result", "equal", "words"),
    [
        (parallel(), True, "a batch spread over 2 gave the step of the whole (largest relative difference 0)"),
        (
            parallel(gradients={"conv": [2.0, 8.0]}),
            True,
            "gradient of conv differs from the step of the whole batch by 1 of its size (at most 0.0001 is allowed)",
        ),
        (
            parallel(gradients={"conv": [math.nan, 4.0]}),
            True,
            "gradient of conv differs from the step of the whole batch by nan of its size (at most 0.0001 is allowed)",
        ),
        (parallel(), False, "the weights are no longer the same on all 2 after one step"),
    ],
)
def test_a_spread_batch_gives_the_step_of_the_whole(result: dict[str, Any], equal: bool, words: str) -> None:
    assert judge_parallel(result, parallel(), equal, 2, "cpu")[1] == words


@pytest.mark.parametrize(
    ("name", "compute", "memory"),
    [
        ("NVIDIA H200", 989, 4800),
        ("NVIDIA H100 80GB HBM3", 989, 3350),
        ("NVIDIA A100-SXM4-80GB", 312, 1555),
        ("Tesla T4", 65, 0),
        ("NVIDIA T400 4GB", 0, 0),
        ("NVIDIA GH200 480GB", 0, 0),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", 0, 0),
        ("AMD Instinct MI300X", 1300, 0),
        ("AMD EPYC", 0, 0),
    ],
)
def test_a_floor_is_known_by_name(name: str, compute: float, memory: float) -> None:
    assert peaks_of(name) == (compute, memory)


@pytest.mark.parametrize(
    ("value", "most", "outcome", "words"),
    [
        (700.0, 989.0, "passed", "products: 700 TFLOP/s, 71% of what NVIDIA H200 is made for"),
        (
            90.0,
            989.0,
            "failed",
            "products: 90 TFLOP/s, of the 989 that NVIDIA H200 is made for: a working one reaches 197.8 at least",
        ),
        (90.0, 0.0, "skipped", "products: 90 TFLOP/s; measured only: no floor is known for NVIDIA H200"),
        (
            math.nan,
            989.0,
            "failed",
            "products: nan TFLOP/s, of the 989 that NVIDIA H200 is made for: a working one reaches 197.8 at least",
        ),
    ],
)
def test_a_card_at_a_tenth_of_its_rate_has_failed(value: float, most: float, outcome: str, words: str) -> None:
    assert judge_rate("products:", value, "TFLOP/s", most, "NVIDIA H200") == (outcome, words)


# ---- groups ------------------------------------------------------------------------------------------------------


class Told:
    """A worker of a group, as far as it is asked."""

    def __init__(self, *events: dict[str, Any], done: bool = True, device: str = "cuda:0") -> None:
        self.events = list(events)
        self.done = done
        self.errors = b""
        self.started = 0.0
        self.task = {"device": {"device": device}, "framework": "torch", "blame": "all-reduce"}
        self.readers = [SimpleNamespace(join=lambda timeout: None)] * 2

    def said(self, key: str) -> list[Any]:
        return [event[key] for event in self.events if key in event]

    def pending(self) -> str:
        return "all-reduce" if not self.done else ""

    def broke(self) -> bool:
        failed = any(event.get("check", {}).get("outcome") == "failed" for event in self.events)
        return failed or (self.done and not any("end" in event for event in self.events))

    def stop(self) -> int | None:
        return -9 if not self.done else 0


def found(outcome: str, detail: str, identity: str = "all-reduce") -> dict[str, Any]:
    return {"check": {"id": identity, "level": "collective", "outcome": outcome, "seconds": 0.1, "detail": detail}}


END = {"end": True}


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ([Told(found("passed", "good"), END), Told(found("passed", "good"), END)], {"all-reduce": "good"}),
        (
            [Told(found("passed", "good"), END), Told(found("failed", "wrong sum"), END)],
            {"all-reduce": "process 2 of 2: wrong sum"},
        ),
        # The first only waits for the second, which broke.
        (
            [Told(done=False), Told(found("failed", "RuntimeError: no library"), END)],
            {"all-reduce": "process 2 of 2: RuntimeError: no library"},
        ),
        (
            [Told(done=False), Told(done=False)],
            {"all-reduce": "process 1 of 2: did not come back within 5 s while summing over all on cuda:0: hung, and was killed"},
        ),
        (
            [Told(found("passed", "good"), found("passed", "fine", "data-parallel"), END), Told(found("passed", "good"))],
            {
                "all-reduce": "process 2 of 2: the process ended with status 0 while going from one check to the next on cuda:0",
                "data-parallel": "fine",
            },
        ),
        # The first complains of a closed connection: the second, which vanished, is why.
        (
            [Told(found("failed", "RuntimeError: Connection closed by peer"), END), Told()],
            {"all-reduce": "process 2 of 2: the process ended with status 0 while starting on cuda:0"},
        ),
    ],
    ids=["all well", "one wrong", "one waits", "all hang", "one vanished", "one complains"],
)
def test_a_group_answers_with_one_voice(workers: list[Any], words: dict[str, str]) -> None:
    proving = Proving({"backend": {"name": "cuda"}}, "collective", 5.0, False)
    proving.workers = workers
    proving.take_group()
    assert {check["id"]: check["detail"] for check in proving.checks} == words


@pytest.mark.parametrize(
    ("framework", "backend", "devices", "groups"),
    [
        ("torch", "cpu", ["cpu"], [["cpu"], ["cpu"]]),
        ("torch", "cuda", ["cuda:0", "cuda:1", "cuda:2"], [["cuda:0"], ["cuda:1"], ["cuda:2"]]),
        ("torch", "mps", ["mps:0"], []),
        ("jax", "cuda", ["gpu:0", "gpu:1"], [["gpu:0", "gpu:1"]]),
        ("jax", "cpu", ["cpu:0"], [["cpu:0"]]),
        ("openvino", "openvino", ["GPU"], []),
    ],
)
def test_each_device_takes_part(
    monkeypatch: pytest.MonkeyPatch, framework: str, backend: str, devices: list[str], groups: list[list[str]]
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    told, why = FRAMEWORKS[framework].ranks(backend, [{"device": device} for device in devices])
    assert [[device["device"] for device in members] for members in told] == groups
    assert bool(why) == (not groups)


def test_windows_has_no_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert FRAMEWORKS["torch"].ranks("cuda", [{"device": "cuda:0"}]) == ([], "torch for Windows comes without nccl")


def test_every_scheme_of_the_matrix_can_be_proven() -> None:
    from envkit.matrix.reader import load

    matrix = load()
    for scheme in matrix.schemes.values():
        known = FRAMEWORKS[scheme.framework].backends
        assert scheme.backend in known, f"{scheme.name}: the probe does not know {scheme.framework} on {scheme.backend}"


def test_levels_follow_each_other() -> None:
    from envkit.cli import verify as command
    from envkit.verify import proof

    assert probe.LEVELS == proof.LEVELS == command.LEVELS
    assert reaches("speed", "collective")
    assert reaches("compute", "compute")
    assert not reaches("compute", "collective")


@pytest.mark.parametrize(
    ("level", "framework", "ids"),
    [
        ("compute", "torch", ["import", "framework-build", "device-visible", "train-step", "same-result"]),
        ("compute", "openvino", ["import", "framework-build", "device-visible", "infer-step", "same-result"]),
        (
            "speed",
            "jax",
            [
                "import",
                "framework-build",
                "device-visible",
                "train-step",
                "same-result",
                "all-reduce",
                "data-parallel",
                "matmul-rate",
                "copy-rate",
            ],
        ),
    ],
)
def test_what_was_not_reached_is_shown(level: str, framework: str, ids: list[str]) -> None:
    checks: list[dict[str, Any]] = []
    probe.fill_up(checks, level, "cpu", framework)
    assert [check["id"] for check in checks] == ids
    assert {check["detail"] for check in checks} == {"not reached"}


# ---- one device from beginning to end ----------------------------------------------------------------------------


class Accelerator(probe.Framework):
    """A framework on an accelerator that computes what plain Python does, bent in one way."""

    name = "accelerator"

    def __init__(self, **bent: Any) -> None:
        self.bent = bent
        self.runs: list[str] = []
        self.held = 4096

    def run(self, module: Any, backend: str, name: str, precision: str) -> dict[str, Any]:
        self.runs.append(precision)
        if precision == self.bent.get("unable"):
            raise RuntimeError("not implemented for 'Half'")
        self.held += self.bent.get("leak", 0)
        result = {**plain_step(), "landed": [self.bent.get("landed", name)]}
        del result["outputs"]
        result["loss_before"] *= 1 + self.bent.get("error", 0.0)
        return result

    def halves(self, module: Any, backend: str, name: str) -> list[str]:
        return ["bfloat16", "float16"]

    def memory(self, module: Any, backend: str, name: str) -> int | None:
        return self.held


def walk(framework: probe.Framework, device: dict[str, Any], suffix: str = "") -> tuple[dict[str, str], list[dict[str, Any]]]:
    """The outcomes of the checks of one device, and what was measured on it."""
    events: list[dict[str, Any]] = []
    probe.device_task(framework, None, "cuda", device, suffix, events.append)
    checks = {event["check"]["id"]: event["check"]["outcome"] for event in events if "check" in event}
    return checks, [event["computed"] for event in events if "computed" in event]


CARD = {"device": "cuda:0", "name": "card", "arch": "sm_90"}


@pytest.mark.parametrize(
    ("bent", "checks"),
    [
        ({}, {"same-result": "passed", "bf16-step": "passed", "fp16-step": "passed", "memory-freed": "passed"}),
        (
            {"unable": "float16"},
            {"same-result": "passed", "bf16-step": "passed", "fp16-step": "skipped", "memory-freed": "passed"},
        ),
        ({"leak": 512}, {"same-result": "passed", "bf16-step": "passed", "fp16-step": "passed", "memory-freed": "failed"}),
        # Nothing more is asked of a device whose float32 is wrong.
        ({"error": 0.01}, {"same-result": "failed"}),
    ],
    ids=["right", "no fp16", "leak", "wrong"],
)
def test_a_device_is_asked_in_order(bent: dict[str, Any], checks: dict[str, str]) -> None:
    told, computed = walk(Accelerator(**bent), dict(CARD))
    assert told == {"train-step": "passed", **checks}
    assert list(told) == ["train-step", *checks]
    assert computed[0]["device"] == "cuda:0"
    assert ("held_bytes" in computed[0]) == ("memory-freed" in checks)


def test_results_that_lie_elsewhere_fail_at_once() -> None:
    told, _ = walk(Accelerator(landed="cpu"), dict(CARD))
    assert told == {"train-step": "failed", "same-result": "passed"}


def test_a_device_that_a_process_calls_otherwise_keeps_its_own_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HABANA_VISIBLE_MODULES", raising=False)
    device = {"device": "hpu:3", "use": "hpu:0", "env": {"HABANA_VISIBLE_MODULES": "3"}, "name": "GAUDI2", "arch": ""}
    told, computed = walk(Accelerator(), device, "/hpu:3")
    monkeypatch.delenv("HABANA_VISIBLE_MODULES")
    assert told["train-step/hpu:3"] == "passed"
    assert computed[0]["device"] == "hpu:3"
    assert "use" not in computed[0]


def test_a_device_without_code_is_left_out() -> None:
    assert walk(Accelerator(), {**CARD, "code": False}) == ({"train-step": "skipped"}, [])
