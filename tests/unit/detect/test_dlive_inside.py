"""The look into a Python environment: which interpreter, what it tells step by step, where it ended; all from captured output."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from envkit.detect import Inside, examine, probe, read_here
from envkit.detect.parse import parse
from envkit.detect.probe import MARK, STEP
from envkit.errors import Unavailable

SITE = "/srv/env/lib/python3.11/site-packages"
PYTHON = {
    "version": "3.11.9",
    "full_version": "3.11.9 (main) [GCC 13.2.0]",
    "executable": "/srv/env/bin/python",
    "bits": 64,
    "distributions": [["torch", "2.6.0+cu124", SITE], ["numpy", "2.1.0", SITE]],
    "torch_version_py": "__version__ = '2.6.0+cu124'\ncuda: str = '12.4'\nhip = None\n",
    "torch_folders": [SITE],
    "user_site": "",
    "plan": [],
}


def lines(*steps: dict[str, Any]) -> str:
    return "".join(f"\n{MARK}{json.dumps(step)}\n" for step in steps)


def answered(stdout: str, stderr: str = "", code: int | None = 0, timed_out: bool = False) -> Callable[..., dict[str, Any]]:
    def run(argv: list[str], limit: float, env: dict[str, str]) -> dict[str, Any]:
        assert argv[0] == "/srv/env/bin/python"
        assert argv[-2:] == ["--inside", f"{limit:g}"]
        assert env["PYTHONFAULTHANDLER"] == "1"
        return {"code": code, "stdout": stdout, "stderr": stderr, "timed_out": timed_out}

    return run


def facts_of(stdout: str, stderr: str = "", code: int | None = 0, timed_out: bool = False) -> Any:
    found = probe._ask_python("/srv/env/bin/python", probe.time.monotonic() + 30, answered(stdout, stderr, code, timed_out))
    return parse({"format": 1, "os": "linux", "python": found.pop("python", None) or PYTHON, "inside": found})


HEALTHY = lines(
    {"python": PYTHON},
    {"begin": "import torch"},
    {"torch": {"version": "2.6.0+cu124", "file": f"{SITE}/torch/__init__.py", "cuda": "12.4", "hip": "", "xpu": ""}},
    {"torch": {"arch_list": ["sm_50", "sm_90"]}},
    {"begin": "torch.cuda.is_available()"},
    {"torch": {"available": True}},
    {"torch": {"device_count": 1}},
    {"torch": {"device_names": ["NVIDIA H100"]}},
    {"libraries": ["/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.10", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"]},
    {"end": True},
)


def test_a_healthy_torch_is_told_and_leaves_no_trace_of_trouble() -> None:
    facts = facts_of(HEALTHY, f"\n{STEP}import torch\nUserWarning: Failed to initialize NumPy: No module named 'numpy'\n")
    assert facts.torch == {
        "version": "2.6.0+cu124",
        "cuda": "12.4",
        "hip": "",
        "xpu": "",
        "available": True,
        "device_count": 1,
        "arch_list": ["sm_50", "sm_90"],
        "device_names": ["NVIDIA H100"],
    }
    # Loaded from elsewhere than beside the packages: whose driver it is, is worth knowing.
    assert facts.evidence == {"/proc/self/maps": "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.10"}


@pytest.mark.parametrize(
    ("steps", "stderr", "code", "timed_out", "place", "said"),
    [
        (
            [{"begin": "import torch"}],
            f'{STEP}import torch\nFatal Python error: Segmentation fault\n\n  File "/x/detect/probe.py", line 3 in main\n',
            -11,
            False,
            "python -c 'import torch'",
            "Fatal Python error: Segmentation fault\nended by SIGSEGV (Segmentation fault)",
        ),
        (
            [{"begin": "import torch"}, {"begin": "torch.cuda.is_available()"}],
            "",
            None,
            True,
            "python -c 'import torch; torch.cuda.is_available()'",
            "no answer within 30.0 s: hung, and was ended",
        ),
        (
            [{"error": ["import torch", "Traceback (most recent call last):\nOSError: libcudnn.so.9: no"]}, {"end": True}],
            "",
            0,
            False,
            "python -c 'import torch'",
            "Traceback (most recent call last):\nOSError: libcudnn.so.9: no",
        ),
        (
            [{"begin": "import torchvision"}, {"error": ["import torchvision", "RuntimeError: nms"]}, {"end": True}],
            f"{STEP}import torchvision\nwarn: image.so\n",
            0,
            False,
            "python -c 'import torchvision'",
            "warn: image.so\nRuntimeError: nms",
        ),
        ([], "python: cannot execute\n", 126, False, "python", "python: cannot execute\nended with status 126"),
    ],
    ids=["crash", "hang", "error", "printed", "no start"],
)
def test_what_breaks_is_evidence_of_its_step(
    steps: list[dict[str, Any]], stderr: str, code: int | None, timed_out: bool, place: str, said: str
) -> None:
    facts = facts_of(lines({"python": PYTHON}, *steps) if steps else "", stderr, code, timed_out)
    assert facts.evidence[place] == said
    # The version file tells what the import could not.
    assert (facts.torch["version"], facts.torch["cuda"]) == ("2.6.0+cu124", "12.4")


@pytest.mark.parametrize("stdout", [f"{MARK}[1]", f"{MARK}{{", f"{MARK}null\nnoise", "", f'{MARK}{{"torch": [], "error": 3}}'])
def test_spoilt_output_is_no_fault_of_ours(stdout: str) -> None:
    assert facts_of(stdout).torch["version"] == "2.6.0+cu124"


def test_two_installs_are_named_with_their_places() -> None:
    rows = [["torch", "2.6.0+cu124", SITE], ["torch", "2.4.1", "/usr/lib/python3/dist-packages"]]
    facts = parse({"os": "linux", "python": {**PYTHON, "distributions": rows}})
    assert facts.evidence["sys.path"] == f"torch: 2.6.0+cu124 in {SITE}, 2.4.1 in /usr/lib/python3/dist-packages"
    one = parse({"os": "linux", "python": {**PYTHON, "torch_folders": ["/pp", SITE]}})
    assert one.evidence["sys.path"] == f"torch: 2.6.0+cu124 in {SITE}, without a record in /pp"
    assert "sys.path" not in parse({"os": "linux", "python": PYTHON}).evidence


def test_the_plan_and_the_user_site_are_evidence() -> None:
    home = "/home/me/.local/lib/python3.11/site-packages"
    python = {
        **PYTHON,
        "plan": ["torch==2.6.0+cpu"],
        "user_site": home,
        "distributions": [["torch", "2.6.0+cu124", SITE], ["triton", "3.0", home]],
    }
    facts = parse({"os": "linux", "python": python, "inside": {"torch": {}, "errors": []}})
    assert facts.evidence["envkit/plan.json"] == "torch==2.6.0+cpu"
    assert facts.evidence["python -m site --user-site"] == f"{home}: triton 3.0"


# ---- which interpreter -------------------------------------------------------------------------------------------


def make_python(folder: Path, *, torch: bool = False) -> Path:
    python = folder / "bin/python3"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\n", encoding="utf-8")
    python.chmod(0o755)
    site = folder / "lib/python3.11/site-packages"
    site.mkdir(parents=True)
    if torch:
        (site / "torch").mkdir()
    return python


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The interpreters that were started; each has the torch that lies beside it."""
    found: list[str] = []

    def ask(path: str, until: float, run: Any = None) -> dict[str, Any]:
        found.append(path)
        return {"python": {**PYTHON, "executable": path}, "torch": {}, "errors": []}

    monkeypatch.setattr(probe, "_ask_python", ask)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: the folders are named otherwise there")
def test_the_first_on_the_path_with_torch_is_asked_and_no_other(
    asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, three = (make_python(tmp_path / name, torch=name != "one") for name in ("one", "two", "three"))
    monkeypatch.setenv("PATH", os.pathsep.join(str(path.parent) for path in (one, two, three)))
    assert probe.ask_inside({})["python"]["executable"] == str(two)
    assert asked == [str(two)]


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: the folders are named otherwise there")
def test_a_named_one_goes_first_and_a_strict_one_alone(asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = make_python(tmp_path / "one", torch=True), make_python(tmp_path / "two")
    monkeypatch.setenv("PATH", str(one.parent))
    assert probe.ask_inside({"pythons": [str(two)]})["python"]["executable"] == str(two)
    assert probe.ask_inside({"pythons": [f"{tmp_path}/t*/bin/python3"]})["python"]["executable"] == str(two)
    assert probe.ask_inside({"pythons": [f"{tmp_path}/x*/bin/python3"]})["python"]["executable"] == str(one)
    assert probe.ask_inside({"pythons": ["/none"], "strict": True}) == {"missing": ["/none"]}


def test_without_any_it_is_the_one_that_asks(asked: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert probe.ask_inside({})["python"]["version"].startswith("3.")
    assert asked == []


def test_a_strict_one_that_is_not_there_is_told() -> None:
    with pytest.raises(Unavailable, match="there is no Python at /none/bin/python"):
        examine(None, Inside(pythons=("/none/bin/python",), strict=True))


def test_names_are_only_asked_for_with_a_look_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "somebody-else")
    assert "names" not in read_here()
    raw = read_here({"pythons": ["/none"], "strict": True})
    assert "somebody-else" in raw["names"]
    assert "somebody-else" not in json.dumps({key: value for key, value in raw.items() if key != "names"})


# ---- inside ------------------------------------------------------------------------------------------------------


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Any]]:
    """What the look inside prints with the given torch in the place of one."""

    def run(torch: Any, *names: str) -> list[Any]:
        for name in ("torch", *names):
            folder = tmp_path / f"{name}-1.0.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n", encoding="utf-8")
        monkeypatch.setattr(sys, "path", [str(tmp_path)])
        monkeypatch.setitem(sys.modules, "torch", torch)
        if hasattr(signal, "alarm"):
            monkeypatch.setattr(signal, "alarm", lambda seconds: 0)
        probe.look_inside(5)
        out = capsys.readouterr().out
        return [json.loads(line[len(MARK) :]) for line in out.splitlines() if line.startswith(MARK)][1:]

    return run


def fake_torch(**parts: Any) -> ModuleType:
    torch = ModuleType("torch")
    torch.__dict__.update(
        __version__="2.6.0+cu124", version=SimpleNamespace(cuda="12.4", hip=None), _C=SimpleNamespace(), **parts
    )
    return torch


def merged(told: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for step in told:
        found |= step.get("torch", {})
    return found


def test_every_kind_of_exception_is_an_answer(look: Callable[..., list[Any]]) -> None:
    def broken() -> bool:
        raise AssertionError("driver says no")

    cuda = SimpleNamespace(is_available=broken, device_count=broken, init=broken)
    told = look(fake_torch(cuda=cuda))
    errors = {step["error"][0]: step["error"][1] for step in told if "error" in step}
    assert set(errors) == {"torch.cuda.is_available()", "torch.cuda.init()"}
    assert errors["torch.cuda.init()"].endswith("AssertionError: driver says no")
    assert "_tried" not in errors["torch.cuda.init()"]
    assert merged(told)["available"] is False
    assert told[-1] == {"end": True}


def test_devices_are_named_where_there_are_some(look: Callable[..., list[Any]]) -> None:
    cuda = SimpleNamespace(is_available=lambda: True, device_count=lambda: 2, get_device_name=lambda at: f"GPU {at}")
    torch = fake_torch(cuda=cuda)
    torch._C._cuda_getArchFlags = lambda: "sm_80 compute_90"  # type: ignore[attr-defined]
    found = merged(look(torch))
    assert (found["available"], found["device_count"], found["device_names"]) == (True, 2, ["GPU 0", "GPU 1"])
    assert found["arch_list"] == ["sm_80", "compute_90"]


def test_numpy_is_tried_where_it_is_installed(look: Callable[..., list[Any]]) -> None:
    class Zeros:
        def __init__(self, *size: int) -> None: ...

        def numpy(self) -> None:
            raise RuntimeError("Numpy is not available")

    torch = fake_torch(cuda=SimpleNamespace(is_available=lambda: False, device_count=lambda: 0, init=lambda: None), zeros=Zeros)
    told = look(torch, "numpy")
    assert [step["error"][0] for step in told if "error" in step] == ["torch.zeros(1).numpy()"]


# ---- what a machine was told of its drivers ----------------------------------------------------------------------


def test_dkms_options_and_specifications(tree: Any) -> None:
    base = "/var/lib/dkms/nvidia/570.86.10"
    tree.file(f"{base}/source/dkms.conf", "")
    tree.file(f"{base}/6.8.0-40-generic/x86_64/module/nvidia.ko", "")
    tree.link("/var/lib/dkms/nvidia/kernel-6.8.0-40-generic-x86_64", "570.86.10/6.8.0-40-generic/x86_64")
    tree.file("/var/lib/dkms/amdgpu/6.10.5/x", "")
    tree.file("/var/lib/dkms/nvidia-open/570.1/source/dkms.conf", "")
    tree.file("/var/lib/dkms/zfs/2.2/source/dkms.conf", "")
    tree.file("/etc/modprobe.d/a.conf", "# blacklist nvidia\nblacklist nouveau\noptions nvidia NVreg_X=1\noptions snd x=1\n")
    tree.file("/etc/cdi/nvidia.yaml", "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    facts = parse(tree.raw())
    assert facts.evidence["dkms status"].splitlines() == [
        "amdgpu/6.10.5: broken (no dkms.conf)",
        "nvidia/570.86.10, 6.8.0-40-generic, x86_64: installed",
        "nvidia-open/570.1: added",
    ]
    assert facts.evidence["/etc/modprobe.d"].splitlines() == [
        "/etc/modprobe.d/a.conf: blacklist nouveau",
        "/etc/modprobe.d/a.conf: options nvidia NVreg_X=1",
    ]
    assert facts.evidence["ls /etc/cdi /var/run/cdi"] == "/etc/cdi/nvidia.yaml: nvidia.com/gpu"


def test_what_a_library_path_puts_first(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.file("/opt/old/lib/libcudnn.so.8", "").file("/opt/old/lib/libother.so", "").file("/opt/none/libx.so", "")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/opt/none:/opt/old/lib::relative")
    assert parse(tree.raw()).evidence["ls $LD_LIBRARY_PATH"] == "/opt/old/lib/libcudnn.so.8"


@pytest.mark.parametrize(("state", "kept"), [("active", False), ("failed", True)])
def test_the_journal_of_fabric_manager_is_kept_where_it_does_not_run(tree: Any, state: str, kept: bool) -> None:
    tree.pci("0000:07:00.0", "10de:20b2", "030200", "nvidia")
    tree.file("/usr/lib/systemd/system/nvidia-fabricmanager.service", "").file("/run/systemd/system/x", "")
    tree.tool("systemctl show", f"Id=nvidia-fabricmanager.service\nActiveState={state}\n")
    tree.tool("journalctl", "fabric manager NVIDIA GPU driver interface version 570.1 don't match with driver version 570.2\n")
    assert ("journalctl -u nvidia-fabricmanager" in parse(tree.raw()).evidence) is kept


@pytest.mark.parametrize("tool", ["hl-smi", "cnmon", "mthreads-gmi", "neuron-ls"])
def test_vendors_tools_are_kept_when_they_fail(tree: Any, tool: str) -> None:
    tree.tool(tool, "", code=1, stderr="driver not loaded\n")
    assert parse(tree.raw()).evidence[tool] == "driver not loaded\n(exit status 1)"


def test_the_mode_of_a_hybrid_laptop_is_evidence(tree: Any) -> None:
    tree.tool("prime-select query", "intel\n")
    assert parse(tree.raw()).evidence["prime-select query"] == "intel"


@pytest.mark.parametrize(
    ("told", "evidence", "packages"),
    [
        ({"long_paths": 0, "vc_runtime": "v14.38.33135.00"}, "0x0", {"vc_redist.x64": "14.38.33135.00"}),
        ({"long_paths": 1, "vc_runtime": ""}, "0x1", {}),
        ({"long_paths": None}, "0x0", {}),
        ({}, None, {}),
    ],
)
def test_windows_runtime_and_long_paths(told: dict[str, Any], evidence: str | None, packages: dict[str, str]) -> None:
    answer = {"code": 0, "stdout": json.dumps({"video": [], **told}), "stderr": "", "timed_out": False}
    facts = parse({"os": "windows", "tools": {"powershell": answer}})
    place = r"reg query HKLM\SYSTEM\CurrentControlSet\Control\FileSystem /v LongPathsEnabled"
    assert facts.evidence.get(place) == (None if evidence is None else f"LongPathsEnabled    REG_DWORD    {evidence}")
    assert facts.machine.system_packages == packages
