"""JAX, MLX, ONNX Runtime and OpenVINO proven for real on this CPU, and damaged in one way each.

One environment for all four, made once: each check looks at one framework of it. MindSpore and TensorFlow, which weigh
gigabytes, and llama.cpp, which has no wheels, are proven where ENVKIT_TEST_HEAVY names environments that have them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lab.needs import need

from envkit.data import packaged
from envkit.model import Proof
from envkit.verify import Aim, proof_document, verify_venv
from envkit.verify.probe import plain_step

UV = Path(sys.executable).with_name("uv")
PACKAGES = ("jax", "mlx[cpu]", "onnxruntime", "openvino")

pytestmark = pytest.mark.net


def make_venv(folder: Path) -> Path:
    """An empty environment; where its packages go."""
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True, timeout=60)
    return next(folder.glob("lib/python*/site-packages"))


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of an environment with the four frameworks. Shared: look, don't change."""
    folder = tmp_path_factory.mktemp("frameworks") / "env"
    found = make_venv(folder)
    argv = [UV, "pip", "install", "--quiet", "--python", folder / "bin/python", *PACKAGES]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=900, check=False)
    if ended.returncode:
        need(f"{', '.join(PACKAGES)} cannot be had from the package index: {' '.join(ended.stderr.split())[-300:]}")
    return found


@pytest.fixture
def bent(site: Path, tmp_path: Path) -> Callable[[str, str], Path]:
    """An environment like the shared one, in which lines run right after one module was imported."""

    def make(module: str, lines: str) -> Path:
        folder = tmp_path / "env"
        mine = make_venv(folder)
        for entry in site.iterdir():
            if not (mine / entry.name).exists():
                (mine / entry.name).symlink_to(entry)
        (mine / "bend.py").write_text(HOOK.replace("MODULE", module).replace("BENT", repr(lines)), encoding="utf-8")
        (mine / "bend.pth").write_text("import bend\n", encoding="utf-8")
        return folder

    return make


HOOK = """
import importlib.util, sys

class Bend:
    def find_spec(self, name, path=None, target=None):
        if name != "MODULE":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            exec(BENT, {"module": module})
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Bend())
"""


def aim(framework: str, backend: str = "cpu", device: str = "cpu", **more: Any) -> Aim:
    document = {"backend": {"name": backend, "device": device}, "framework": {"name": framework}, **more}
    return Aim(scheme=f"linux-{framework}", expect=document)


AIMS = {
    "jax": aim("jax"),
    "mlx": aim("mlx"),
    "onnxruntime": aim("onnxruntime", device="CPUExecutionProvider"),
    "openvino": aim("openvino", "openvino", "CPU"),
}
DEVICES = {"jax": "cpu:0", "mlx": "cpu", "onnxruntime": "CPUExecutionProvider", "openvino": "CPU"}


def outcomes(proof: Proof) -> dict[str, str]:
    return {check.id: check.outcome for check in proof.checks}


def detail(proof: Proof, identity: str) -> str:
    return next(check.detail for check in proof.checks if check.id == identity)


@pytest.mark.parametrize("framework", AIMS)
def test_a_right_environment_passes(site: Path, framework: str) -> None:
    proof = verify_venv(AIMS[framework], site.parents[2])
    assert proof.passed, proof_document(proof)
    assert set(outcomes(proof).values()) <= {"passed", "skipped"}
    measured = proof.measured
    assert measured["framework"] == framework
    assert measured["device"] == DEVICES[framework]
    # Two ways of computing never agree to the last bit: a difference of zero would mean that nothing was compared.
    assert 0 < measured["max_abs_diff_to_cpu"] < 1e-4
    jsonschema.validate(proof_document(proof), json.loads(packaged("schemas/proof.json").read_text(encoding="utf-8")))
    if framework in ("jax", "mlx"):
        reference = plain_step()
        assert measured["loss_before"] == pytest.approx(reference["loss_before"], rel=1e-5)
        assert measured["loss_after"] == pytest.approx(reference["loss_after"], rel=1e-5)
        assert measured["loss_after"] < measured["loss_before"]
    else:
        assert "infer-step" in outcomes(proof)
        assert "train-step" not in outcomes(proof)


@pytest.mark.parametrize("framework", AIMS)
def test_the_pinned_version_is_compared_with_the_imported_one(site: Path, framework: str) -> None:
    wrong = Aim(expect={**AIMS[framework].expect, "packages": [{"name": framework, "version": "0.0.1", "index": "pypi"}]})
    proof = verify_venv(wrong, site.parents[2])
    assert outcomes(proof)["flavour"] == outcomes(proof)["framework-build"] == "failed"
    assert f"the plan wants {framework} 0.0.1, the one that is imported says " in detail(proof, "framework-build")
    assert not proof.passed


def test_the_probe_goes_through_its_own_command(site: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(AIMS["jax"].expect), encoding="utf-8")
    argv = [site.parents[2] / "bin/python", Path(__file__).resolve().parents[2] / "envkit/verify/probe.py", "--expect", plan]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["passed"] is True


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (aim("jax", "cuda", "gpu"), "no CUDA device is visible: RuntimeError: Unknown backend"),
        (aim("mlx", "mlx", "gpu"), "no Metal device is visible: this MLX computes on the CPU alone, or there is no GPU"),
        (
            aim("onnxruntime", "cuda", "CUDAExecutionProvider"),
            "no CUDA device is visible: this onnxruntime was built without CUDAExecutionProvider",
        ),
        (aim("openvino", "openvino", "GPU"), "no OpenVINO device is visible: OpenVINO sees CPU alone"),
    ],
    ids=["jax", "mlx", "onnxruntime", "openvino"],
)
def test_without_a_card_nothing_is_proven(site: Path, wanted: Aim, words: str) -> None:
    proof = verify_venv(wanted, site.parents[2])
    assert not proof.passed
    assert detail(proof, "device-visible").startswith(words)


def test_a_build_for_another_device_is_named(site: Path) -> None:
    proof = verify_venv(aim("jax", "cuda", "gpu"), site.parents[2])
    words = "the plan wants a jax for CUDA, this environment has no plugin for an accelerator"
    assert detail(proof, "framework-build") == words
    proof = verify_venv(aim("onnxruntime", "cuda", "CUDAExecutionProvider"), site.parents[2])
    words = "the plan wants an onnxruntime with CUDAExecutionProvider, this one has AzureExecutionProvider, CPUExecutionProvider"
    assert detail(proof, "framework-build") == words


# A session that was asked for CUDA and quietly computes on the CPU, as ONNX Runtime does when a library is missing.
FALLS_BACK = """
import os
module.get_available_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
module.preload_dlls = lambda: None
kept = module.InferenceSession
def session(model, sess_options, providers):
    os.write(2, b"\\x1b[1;31m[E:onnxruntime] Failed to load libonnxruntime_providers_cuda.so: libcudnn.so.9 is missing\\x1b[m\\n")
    made = kept(model, sess_options=sess_options, providers=["CPUExecutionProvider"])
    if SHOWN:
        made.get_providers = lambda: ["CUDAExecutionProvider", "CPUExecutionProvider"]
    return made
module.InferenceSession = session
"""
# The driver's library, with one card.
DRIVER = """
import ctypes
class Driver:
    def cuInit(self, flags): return 0
    def cuDeviceGetCount(self, count):
        count._obj.value = 1
        return 0
    def cuDeviceGet(self, handle, index): return 0
    def cuDeviceGetName(self, text, size, handle): text.value = b"NVIDIA H200"
ctypes.CDLL = lambda name, *words: Driver() if name == "libcuda.so.1" else kept_dll(name, *words)
"""


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (
            "False",
            "fell back to CPUExecutionProvider: CUDAExecutionProvider could not be started: "
            "[E:onnxruntime] Failed to load libonnxruntime_providers_cuda.so: libcudnn.so.9 is missing",
        ),
        (
            "True",
            "fell back to the CPU: the plan computes on CUDAExecutionProvider:0, results lie on CPUExecutionProvider",
        ),
    ],
    ids=["the session says so", "only the profile shows it"],
)
def test_a_provider_that_falls_back_has_failed(bent: Callable[[str, str], Path], shown: str, words: str) -> None:
    lines = "import ctypes\nkept_dll = ctypes.CDLL\n" + FALLS_BACK.replace("SHOWN", shown) + DRIVER
    proof = verify_venv(aim("onnxruntime", "cuda", "CUDAExecutionProvider"), bent("onnxruntime", lines))
    assert not proof.passed
    assert detail(proof, "device-visible") == "CUDAExecutionProvider:0 NVIDIA H200"
    assert detail(proof, "infer-step") == words


@pytest.mark.parametrize(
    ("framework", "module", "lines", "check", "words"),
    [
        (
            "jax",
            "jax.nn",
            "kept = module.softmax\nmodule.softmax = lambda x, axis: kept(x, axis) * 1.01",
            "same-result",
            "differs",
        ),
        (
            "jax",
            "jax.nn",
            "kept = module.softmax\nmodule.softmax = lambda x, axis: kept(x, axis) * float('nan')",
            "train-step",
            "finite",
        ),
        (
            "mlx",
            "mlx.core",
            "kept = module.softmax\nmodule.softmax = lambda x, axis: kept(x, axis) * 1.01",
            "same-result",
            "differs",
        ),
        (
            "mlx",
            "mlx.core",
            "kept = module.value_and_grad\n"
            "def bent(*words, **more):\n    inner = kept(*words, **more)\n"
            "    def ask(*weights):\n        value, found = inner(*weights)\n        return value, [-g for g in found]\n"
            "    return ask\nmodule.value_and_grad = bent",
            "train-step",
            "the loss did not fall on cpu",
        ),
        (
            "openvino",
            "openvino.opset8",
            "kept = module.softmax\nmodule.softmax = lambda x, axis: kept(x, 1)",
            "same-result",
            "output differs from the same inference in plain Python by",
        ),
    ],
    ids=["jax wrong", "jax nan", "mlx wrong", "mlx uphill", "openvino wrong"],
)
def test_wrong_arithmetic_has_failed(
    bent: Callable[[str, str], Path], framework: str, module: str, lines: str, check: str, words: str
) -> None:
    proof = verify_venv(AIMS[framework], bent(module, lines))
    assert not proof.passed
    assert words in detail(proof, check)
    json.dumps(proof_document(proof), allow_nan=False)


def test_another_execution_device_than_the_plans_has_failed(bent: Callable[[str, str], Path]) -> None:
    lines = (
        "kept = module.Core\n"
        "class Core(kept):\n"
        "    available_devices = ['CPU', 'GPU']\n"
        "    def get_property(self, device, name): return kept.get_property(self, 'CPU', name)\n"
        "    def compile_model(self, model, device, config): return kept.compile_model(self, model, 'CPU', config)\n"
        "module.Core = Core\n"
    )
    proof = verify_venv(aim("openvino", "openvino", "GPU"), bent("openvino", lines))
    assert not proof.passed
    assert detail(proof, "infer-step") == "fell back to the CPU: the plan computes on GPU, results lie on CPU"


def test_a_framework_that_hangs_is_killed_within_the_limit(bent: Callable[[str, str], Path]) -> None:
    folder = bent("jax", "import time\nmodule.local_devices = lambda backend: time.sleep(600)")
    started = time.monotonic()
    proof = verify_venv(AIMS["jax"], folder, limit=8)
    assert time.monotonic() - started < 12
    assert detail(proof, "device-visible").startswith("did not come back within 8 s while looking for devices")


def test_a_framework_that_is_not_there_is_called_so(tmp_path: Path) -> None:
    make_venv(tmp_path / "env")
    for framework, wanted in AIMS.items():
        proof = verify_venv(wanted, tmp_path / "env", limit=30)
        assert detail(proof, "import") == f"{framework} is not installed in this environment"
        assert not proof.passed


@pytest.mark.parametrize(("framework", "device"), [("mindspore", "CPU"), ("tensorflow", "cpu"), ("llamacpp", "CPU")])
def test_heavy_frameworks_pass_where_they_are_at_hand(framework: str, device: str) -> None:
    folder = framework.replace("cpp", "_cpp")
    places = os.environ.get("ENVKIT_TEST_HEAVY", "").split(os.pathsep)
    having = [Path(place) for place in places if place and list(Path(place).glob(f"lib/python*/site-packages/{folder}"))]
    if not having:
        pytest.skip(f"only on machines where ENVKIT_TEST_HEAVY names an environment with {framework}")
    proof = verify_venv(aim(framework, device=device), having[0])
    assert proof.passed, proof_document(proof)
