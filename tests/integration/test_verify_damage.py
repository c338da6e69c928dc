"""Environments that are wrong in one way each: every one fails, with the right words, within the limit.

The probe is the real one, and torch is where it matters; what a broken device does to it is bent in from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envkit.data import packaged
from envkit.model import Proof
from envkit.verify import Aim, proof_document, verify_venv

UV = Path(sys.executable).with_name("uv")
PROBE = Path(__file__).resolve().parents[2] / "envkit/verify/probe.py"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"

CPU = Aim(
    scheme="linux-cpu",
    expect={
        "backend": {"name": "cpu", "version": "", "tag": "cpu", "device": "cpu"},
        "framework": {"name": "torch", "version": "2.13.0"},
        "python": PYTHON,
        "packages": [
            {"name": "torch", "version": "2.13.0+cpu", "index": "https://download.pytorch.org/whl/cpu"},
        ],
    },
)
CUDA = Aim(
    scheme="linux-cuda",
    expect={
        "accelerator": {"name": "NVIDIA H200", "arch": "sm_90"},
        "backend": {"name": "cuda", "version": "13.0", "tag": "cu130", "device": "cuda"},
        "framework": {"name": "torch", "version": "2.13.0"},
        "python": PYTHON,
        "packages": [],
    },
)


def make_venv(folder: Path) -> Path:
    """An empty environment; where its packages go."""
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True, timeout=60)
    return next(folder.glob("lib/python*/site-packages"))


@pytest.fixture(scope="session")
def torch_site(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site-packages of a right environment: torch for the CPU and numpy. Shared: look, don't change."""
    folder = tmp_path_factory.mktemp("torch") / "env"
    site = make_venv(folder)
    argv = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        folder / "bin/python",
        "--find-links",
        wheels,
        "torch==2.13.0+cpu",
        "numpy",
    ]
    subprocess.run(argv, check=True, timeout=300)
    return site


def link_to(site: Path, good: Path, *, leave_out: str = "") -> None:
    """Fills `site` with links to what is in `good`, without `leave_out`."""
    for entry in good.iterdir():
        if entry.name != leave_out and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)


# Lets the environment bend torch once it has been imported: what a broken driver does to it cannot be had here.
HOOK = """
import importlib.util, sys

class Bend:
    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            exec(BENT, {"torch": module})
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Bend())
"""


@pytest.fixture
def bent(torch_site: Path, tmp_path: Path) -> Callable[[str], Path]:
    """An environment with the real torch, in which the given lines run right after it was imported."""

    def make(lines: str) -> Path:
        folder = tmp_path / "env"
        site = make_venv(folder)
        link_to(site, torch_site)
        (site / "bend.py").write_text(f"BENT = {lines!r}\n{HOOK}", encoding="utf-8")
        (site / "bend.pth").write_text("import bend\n", encoding="utf-8")
        return folder

    return make


@pytest.fixture
def stand_in(tmp_path: Path) -> Callable[[str], Path]:
    """An environment whose torch is the given lines: quick, for what happens before anything is computed."""

    def make(lines: str) -> Path:
        folder = tmp_path / "env"
        package = make_venv(folder) / "torch"
        package.mkdir()
        head = "__version__ = '2.13.0+cu130'\nclass version:\n    cuda = '13.0'\n    hip = None\n    xpu = None\n"
        (package / "__init__.py").write_text(f"{head}{lines}\n", encoding="utf-8")
        return folder

    return make


def outcomes(proof: Proof) -> dict[str, str]:
    return {check.id: check.outcome for check in proof.checks}


def detail(proof: Proof, identity: str) -> str:
    return next(check.detail for check in proof.checks if check.id == identity)


# ---- real torch --------------------------------------------------------------------------------------------------


@pytest.mark.net
def test_a_right_environment_passes(torch_site: Path) -> None:
    proof = verify_venv(CPU, torch_site.parents[2])
    assert proof.passed
    assert set(outcomes(proof).values()) <= {"passed", "skipped"}
    measured = proof.measured
    assert measured["torch"] == "2.13.0+cpu"
    assert measured["device"] == "cpu"
    assert measured["loss_after"] < measured["loss_before"]
    # Two precisions never agree to the last bit: a difference of zero would mean that one thing was compared with itself.
    assert 0 < measured["max_abs_diff_to_cpu"] < 1e-4


@pytest.mark.net
def test_the_step_is_the_same_every_time(torch_site: Path) -> None:
    first, second = (verify_venv(CPU, torch_site.parents[2]).measured for _ in range(2))
    for name in ("loss_before", "loss_after", "max_abs_diff_to_cpu"):
        assert first[name] == second[name]


@pytest.mark.net
def test_a_swapped_flavour_is_named_on_both_sides(torch_site: Path, tmp_path: Path) -> None:
    site = make_venv(tmp_path / "env")
    info = next(torch_site.glob("torch-*.dist-info"))
    link_to(site, torch_site, leave_out=info.name)
    swapped = site / "torch-2.13.0.dist-info"
    shutil.copytree(info, swapped)
    metadata = (swapped / "METADATA").read_text(encoding="utf-8")
    (swapped / "METADATA").write_text(metadata.replace("Version: 2.13.0+cpu", "Version: 2.13.0"), encoding="utf-8")
    proof = verify_venv(CPU, tmp_path / "env")
    assert not proof.passed
    assert detail(proof, "flavour") == "the plan wants torch 2.13.0+cpu, this environment has 2.13.0"


@pytest.mark.net
def test_another_build_than_its_record_says_is_found_by_importing(bent: Callable[[str], Path]) -> None:
    proof = verify_venv(CPU, bent("torch.__version__ = '2.13.0+cu130'; torch.version.cuda = '13.0'"))
    assert not proof.passed
    assert outcomes(proof)["flavour"] == "passed"
    words = "the plan wants torch 2.13.0+cpu, the torch that is imported says 2.13.0+cu130 (built for CUDA 13.0)"
    assert detail(proof, "framework-build") == words


@pytest.mark.net
def test_a_removed_torch_is_called_not_installed(torch_site: Path, tmp_path: Path) -> None:
    site = make_venv(tmp_path / "env")
    info = next(torch_site.glob("torch-*.dist-info"))
    link_to(site, torch_site)
    (site / "torch").unlink()
    (site / info.name).unlink()
    proof = verify_venv(CPU, tmp_path / "env")
    assert not proof.passed
    assert detail(proof, "flavour") == "torch is not installed, the plan wants 2.13.0+cpu"
    assert detail(proof, "import") == "torch is not installed in this environment"
    assert outcomes(proof)["train-step"] == "skipped"
    assert detail(proof, "train-step") == "not reached, since import failed"


@pytest.mark.net
def test_zero_devices_have_failed(torch_site: Path) -> None:
    proof = verify_venv(CUDA, torch_site.parents[2])
    assert not proof.passed
    assert detail(proof, "framework-build") == "the plan wants a torch for CUDA, this torch was built for the CPU"
    words = "no CUDA device is visible: this torch was built for the CPU, it cannot see a CUDA device"
    assert detail(proof, "device-visible") == words
    assert outcomes(proof)["train-step"] == "skipped"


# A CUDA build without a working device, seen from Python: a card is shown, and what is sent to it stays on the CPU.
SHOWN = """
import types
torch.__version__ = "2.13.0+cu130"
torch.version.cuda = "13.0"
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: COUNT
card = types.SimpleNamespace(name="NVIDIA H200", major=9, minor=0, total_memory=141 << 30)
torch.cuda.get_device_properties = lambda index: card
torch.cuda.get_arch_list = lambda: ["sm_80", "sm_90"]
torch.cuda.max_memory_allocated = lambda device=None: 0
send = torch.Tensor.to
torch.Tensor.to = lambda self, *words, **more: self if "cuda" in str(words[:1]) else send(self, *words, **more)
"""


@pytest.mark.net
def test_a_fallback_to_the_cpu_has_failed(bent: Callable[[str], Path]) -> None:
    proof = verify_venv(CUDA, bent(SHOWN.replace("COUNT", "1")))
    assert not proof.passed
    assert outcomes(proof)["device-visible"] == "passed"
    assert detail(proof, "train-step") == "fell back to the CPU: the plan computes on cuda:0, results lie on cpu"


@pytest.mark.net
def test_every_device_is_looked_at_by_itself(bent: Callable[[str], Path]) -> None:
    proof = verify_venv(CUDA, bent(SHOWN.replace("COUNT", "2")))
    assert not proof.passed
    assert detail(proof, "train-step").startswith("fell back to the CPU: the plan computes on cuda:0")
    assert detail(proof, "train-step/cuda:1").startswith("fell back to the CPU: the plan computes on cuda:1")


@pytest.mark.net
def test_a_second_device_that_hangs_leaves_the_first_its_result(bent: Callable[[str], Path]) -> None:
    hang = "import time\nkept = torch.device\ntorch.device = lambda name: time.sleep(600) if name == 'cuda:1' else kept(name)\n"
    started = time.monotonic()
    proof = verify_venv(CUDA, bent(SHOWN.replace("COUNT", "2") + hang), limit=15)
    assert time.monotonic() - started < 20
    assert detail(proof, "train-step").startswith("fell back to the CPU")
    words = "did not come back within 15 s while training a step on cuda:1"
    assert detail(proof, "train-step/cuda:1").startswith(words)


@pytest.mark.net
@pytest.mark.parametrize(
    ("lines", "check", "words"),
    [
        (
            "whole = torch.nn.functional.layer_norm\n"
            "def bent(x, *words):\n    y = whole(x, *words)\n    return y * 1.01 if x.dtype == torch.float32 else y\n"
            "torch.nn.functional.layer_norm = bent",
            "same-result",
            "differs from the same step in float64 by",
        ),
        (
            "f = torch.nn.functional\nwhole = f.cross_entropy\nf.cross_entropy = lambda x, y: whole(x, y) * float('nan')",
            "train-step",
            "the step on cpu gave values that are not finite (loss nan, then nan)",
        ),
        (
            "whole = torch.autograd.grad\ntorch.autograd.grad = lambda *words: tuple(-g for g in whole(*words))",
            "train-step",
            "the loss did not fall on cpu",
        ),
        (
            "whole = torch.autograd.grad\ntorch.autograd.grad = lambda *words: tuple(g * 0 for g in whole(*words))",
            "train-step",
            "the loss did not fall on cpu",
        ),
    ],
    ids=["wrong kernel", "nan", "uphill", "no gradient"],
)
def test_wrong_arithmetic_has_failed(bent: Callable[[str], Path], lines: str, check: str, words: str) -> None:
    proof = verify_venv(CPU, bent(lines))
    assert not proof.passed
    assert words in detail(proof, check)
    json.dumps(proof_document(proof), allow_nan=False)


# ---- a torch that is only a stand-in -----------------------------------------------------------------------------

HANGS = """
import time
class cuda:
    def is_available():
        time.sleep(600)
"""


def test_a_device_that_hangs_is_killed_within_the_limit(stand_in: Callable[[str], Path]) -> None:
    started = time.monotonic()
    proof = verify_venv(CUDA, stand_in(HANGS), limit=3)
    assert time.monotonic() - started < 6
    assert not proof.passed
    words = (
        "did not come back within 3 s while looking for devices (torch/__init__.py line 10 in is_available): hung, and was killed"
    )
    assert detail(proof, "device-visible") == words


def test_a_hang_that_holds_the_interpreter_is_killed_too(stand_in: Callable[[str], Path]) -> None:
    # PyDLL keeps the interpreter locked during the call, as many calls into drivers do.
    lines = "import ctypes\nclass cuda:\n    def is_available():\n        ctypes.PyDLL(None).sleep(600)\n"
    started = time.monotonic()
    proof = verify_venv(CUDA, stand_in(lines), limit=3)
    assert time.monotonic() - started < 6
    assert "while looking for devices (torch/__init__.py line 9 in is_available): hung" in detail(proof, "device-visible")


def test_an_import_that_hangs_is_killed(stand_in: Callable[[str], Path]) -> None:
    proof = verify_venv(CUDA, stand_in("import time\ntime.sleep(600)"), limit=3)
    assert detail(proof, "import").startswith("did not come back within 3 s while importing torch (torch/__init__.py line 7 in ")


def test_a_start_that_hangs_is_killed(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "env")
    # The parent gets past it, the worker does not: it is told apart by what it is started with.
    hook = "import sys, time; time.sleep(600 if '-c' in sys.argv else 0)\n"
    (site / "slow.pth").write_text(hook, encoding="utf-8")
    proof = verify_venv(CPU, tmp_path / "env", limit=3)
    assert detail(proof, "import") == "did not come back within 3 s while starting: hung, and was killed"


def test_a_crash_is_named(stand_in: Callable[[str], Path]) -> None:
    proof = verify_venv(
        CUDA, stand_in("import ctypes\nclass cuda:\n    def is_available():\n        ctypes.string_at(0)\n"), limit=30
    )
    words = "the process was ended by signal SIGSEGV while looking for devices"
    assert detail(proof, "device-visible").startswith(words)


def test_a_library_that_ends_the_process_is_no_success(stand_in: Callable[[str], Path]) -> None:
    proof = verify_venv(CUDA, stand_in("import os, sys\nprint('no driver', file=sys.stderr, flush=True)\nos._exit(0)"), limit=30)
    assert detail(proof, "import") == "the process ended with status 0 while importing torch: no driver"


def test_what_libraries_print_does_not_reach_the_document(stand_in: Callable[[str], Path]) -> None:
    noise = (
        "import os\nprint('hello from python')\nos.system('echo hello from a child')\n"
        'os.write(1, b\'{"schema": "envkit/probe/1"}\\n\')\n'
    )
    folder = stand_in(noise + "raise ImportError('libcudart.so.13: cannot open shared object file')")
    plan = folder / "expect.json"
    plan.write_text(json.dumps(CUDA.expect), encoding="utf-8")
    ended = subprocess.run(
        [folder / "bin/python", PROBE, "--expect", plan], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 1
    document = json.loads(ended.stdout)
    jsonschema.validate(document, json.loads(packaged("schemas/probe.json").read_text(encoding="utf-8")))
    found = next(check for check in document["checks"] if check["id"] == "import")
    assert found["detail"] == "torch cannot be imported: ImportError: libcudart.so.13: cannot open shared object file"


def test_an_empty_folder_is_no_torch(tmp_path: Path) -> None:
    site = make_venv(tmp_path / "env")
    (site / "torch" / "lib").mkdir(parents=True)
    proof = verify_venv(CPU, tmp_path / "env", limit=30)
    words = f"torch is only what an uninstall left behind: there is no module in {site / 'torch'}"
    assert detail(proof, "import") == words


def test_a_missing_dependency_is_not_called_a_missing_torch(stand_in: Callable[[str], Path]) -> None:
    proof = verify_venv(CUDA, stand_in("import sympy_is_gone"), limit=30)
    assert detail(proof, "import") == "torch cannot be imported: ModuleNotFoundError: No module named 'sympy_is_gone'"


def test_nothing_of_the_current_folder_is_taken_for_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_venv(tmp_path / "env")
    (tmp_path / "torch.py").write_text("__version__ = '2.13.0+cpu'\n", encoding="utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    proof = verify_venv(CPU, tmp_path / "env", limit=30)
    assert detail(proof, "import") == "torch is not installed in this environment"


@pytest.mark.parametrize(
    "raised", ["ImportError", "AttributeError", "AssertionError", "NotImplementedError", "RuntimeError", "ValueError", "OSError"]
)
def test_whatever_an_absent_device_raises_is_an_answer(stand_in: Callable[[str], Path], raised: str) -> None:
    proof = verify_venv(CUDA, stand_in(f"class cuda:\n    def is_available():\n        raise {raised}('no device')\n"), limit=30)
    assert detail(proof, "device-visible") == f"no CUDA device is visible: {raised}: no device"


def test_a_warning_tells_why_no_device_is_visible(stand_in: Callable[[str], Path]) -> None:
    lines = (
        "import warnings\nclass cuda:\n    def is_available():\n"
        "        warnings.warn('CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)')\n"
        "    def init():\n        raise RuntimeError('No CUDA GPUs are available')\n"
    )
    words = (
        "no CUDA device is visible: RuntimeError: No CUDA GPUs are available; "
        "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040)"
    )
    assert detail(verify_venv(CUDA, stand_in(lines), limit=30), "device-visible") == words


# ---- the command -------------------------------------------------------------------------------------------------


def probe_in(folder: Path, *words: str | Path, stdin: str | None = None) -> tuple[int, Any, str]:
    """How the probe's own command ended in an environment: status, document, errors."""
    argv = [str(folder / "bin/python"), "-" if stdin else str(PROBE), *map(str, words)]
    ended = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else None, ended.stderr


@pytest.mark.net
def test_the_probe_runs_from_standard_input(torch_site: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(CPU.expect), encoding="utf-8")
    status, document, _ = probe_in(torch_site.parents[2], "--expect", plan, stdin=PROBE.read_text(encoding="utf-8"))
    assert status == 0
    assert document["passed"] is True


@pytest.mark.net
def test_an_image_for_a_gpu_can_be_proven_without_one_while_it_is_built(bent: Callable[[str], Path], tmp_path: Path) -> None:
    folder = bent("torch.__version__ = '2.13.0+cu130'; torch.version.cuda = '13.0'")
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(CUDA.expect), encoding="utf-8")
    status, document, _ = probe_in(folder, "--device", "cpu", "--expect", plan)
    found = {check["id"]: check["outcome"] for check in document["checks"]}
    assert status == 0
    assert (found["framework-build"], found["device-visible"], found["train-step"]) == ("passed", "skipped", "passed")
    status, document, _ = probe_in(folder, "--expect", plan)
    assert status == 1
    assert document["passed"] is False


def test_the_recorded_plan_is_found_inside_or_beside_the_environment(tmp_path: Path) -> None:
    make_venv(tmp_path / "venv")
    status, document, errors = probe_in(tmp_path / "venv", "--expect", "recorded")
    places = (tmp_path / "venv/envkit/plan.json", tmp_path / "envkit/plan.json")
    assert (status, document) == (2, None)
    assert errors == f"probe.py: error: no plan is recorded here: there is neither {places[0]} nor {places[1]}\n"
    for place, name in zip(reversed(places), ("beside", "inside"), strict=True):
        place.parent.mkdir()
        place.write_text(json.dumps({**CPU.expect, "scheme": name}), encoding="utf-8")
        assert probe_in(tmp_path / "venv", "--expect", "recorded")[1]["plan"]["scheme"] == name


@pytest.mark.parametrize(
    ("level", "last"),
    [("host", "shared-memory"), ("runtime", "packages"), ("framework", "device-visible"), ("compute", "same-result")],
)
def test_a_level_is_how_far_the_probe_goes(stand_in: Callable[[str], Path], tmp_path: Path, level: str, last: str) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"backend": {"name": "cpu"}}), encoding="utf-8")
    status, document, _ = probe_in(stand_in("version.cuda = None"), "--level", level, "--expect", plan)
    assert document["checks"][-1]["id"] == last
    assert document["passed"] is False
    # Less than a proof was asked for and nothing failed; a stand-in cannot train.
    assert status == (1 if level == "compute" else 0)


def test_a_backend_or_framework_that_the_probe_does_not_know_has_failed(tmp_path: Path) -> None:
    make_venv(tmp_path / "env")
    for expect, words in (
        ({"backend": {"name": "abacus"}, "framework": {"name": "torch"}}, "this probe does not know torch on 'abacus'"),
        ({"backend": {"name": "cuda"}, "framework": {"name": "openvino"}}, "this probe does not know openvino on 'cuda'"),
        ({"backend": {"name": "cpu"}, "framework": {"name": "caffe"}}, "this probe does not know the framework 'caffe'"),
    ):
        proof = verify_venv(Aim(expect=expect), tmp_path / "env", limit=30)
        assert not proof.passed
        assert detail(proof, "import") == words


# ---- processes ---------------------------------------------------------------------------------------------------


def alive(marker: str) -> list[int]:
    """The processes whose environment holds `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker.encode() in (entry / "environ").read_bytes() and "State:\tZ" not in (entry / "status").read_text():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_gone(marker: str, limit: float = 5.0) -> list[int]:
    """The processes with `marker` that are left after `limit` seconds."""
    until = time.monotonic() + limit
    while alive(marker) and time.monotonic() < until:
        time.sleep(0.05)
    return alive(marker)


def test_a_hanging_worker_dies_with_all_that_it_started(stand_in: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    marker = f"ENVKIT_TEST_MARKER=hang-{os.getpid()}"
    monkeypatch.setenv(*marker.split("="))
    lines = "import subprocess, time\nsubprocess.Popen(['sleep', '600'])\n" + HANGS
    proof = verify_venv(CUDA, stand_in(lines), limit=3)
    assert not proof.passed
    monkeypatch.delenv(marker.split("=")[0])
    assert [pid for pid in wait_gone(marker) if pid != os.getpid()] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_worker_does_not_outlive_the_probe(stand_in: Callable[[str], Path], number: signal.Signals) -> None:
    folder = stand_in(HANGS)
    plan = folder / "expect.json"
    plan.write_text(json.dumps(CUDA.expect), encoding="utf-8")
    marker = f"ENVKIT_TEST_MARKER=outlive-{os.getpid()}-{number}"
    name, value = marker.split("=")
    probe: Any = subprocess.Popen(
        [folder / "bin/python", PROBE, "--expect", plan],
        env={**os.environ, name: value},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 20
    while len(alive(marker)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)  # until the worker has read its task
    probe.send_signal(number)
    probe.wait(timeout=10)
    assert wait_gone(marker) == []
