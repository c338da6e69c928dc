"""Proves an environment by computing in it: one standard-library file that runs inside the target, with the target's Python.

    python probe.py --expect plan.json          # the plan document, or any part of it that names a backend
    python - --expect plan.json < probe.py      # the same, without a copy of this file

It prints one JSON document on standard output, whatever libraries print, and exits 0 only if nothing failed and a
training step passed on a device. Python 3.8 and later.

The parent process imports no framework. A worker in a process group of its own imports it once, looks for devices and
trains on the first; each further device gets a worker of its own. Results come back line by line, so that a worker that
hangs or crashes has already told how far it came; the parent meanwhile does the checks that need no framework.
"""

from __future__ import annotations

import argparse
import base64
import json
import marshal
import os
import signal
import subprocess
import sys
import threading
import time
import zlib

MODULE_CODE = sys._getframe().f_code  # a worker is started from this, so that no file has to lie on the target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    Document = Dict[str, Any]
    Answer = Tuple[str, str]  # outcome, detail
    Emit = Callable[[Document], None]

SCHEMA = "envkit/probe/1"
LEVELS = ("host", "runtime", "framework", "compute")
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"

# Every check, in the order of a proof. A further device repeats the compute checks under "<id>/<device>".
CHECKS = (
    ("temp-space", "host"),
    ("shared-memory", "host"),
    ("device-nodes", "host"),
    ("driver-floor", "host"),
    ("python", "runtime"),
    ("flavour", "runtime"),
    ("packages", "runtime"),
    ("import", "framework"),
    ("framework-build", "framework"),
    ("device-visible", "framework"),
    ("device-code", "framework"),
    ("train-step", "compute"),
    ("same-result", "compute"),
)
LEVEL_OF = dict(CHECKS)

# What one float32 step may differ from the reference, relative to the largest value of each tensor. Rounding alone gives
# about 1e-6; a kernel for another architecture gives garbage. MPS and DirectML promise less exact arithmetic.
TOLERANCE = {"cpu": 1e-4, "cuda": 1e-3, "rocm": 1e-3, "xpu": 1e-3, "mps": 1e-2, "directml": 1e-2}

TITLES = {"cpu": "CPU", "cuda": "CUDA", "rocm": "ROCm", "xpu": "XPU", "mps": "MPS", "directml": "DirectML"}


class InWords(Exception):
    """A check failed, and the message says all that a reader needs: the exception's kind is not shown."""


# ---- small things ------------------------------------------------------------------------------------------------


def one_line(text: object, most: int = 300) -> str:
    """The text on one line, cut to a readable length."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def describe(fault: BaseException) -> str:
    """An exception as people write it: its kind and first words."""
    return one_line("%s: %s" % (type(fault).__name__, fault)) if str(fault) else type(fault).__name__


def part(expect: Document, *path: str) -> str:
    """The text at `path` of the expectation, "" where it is not given."""
    found: Any = expect
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, str) else ""


def numbers(version: str) -> List[int]:
    """The leading numbers of a version: "570.86.10-open" gives [570, 86, 10]."""
    found = []
    for piece in version.split("."):
        digits = ""
        for letter in piece:
            if not letter.isdigit():
                break
            digits += letter
        if not digits:
            break
        found.append(int(digits))
        if digits != piece:
            break
    return found


def normal(version: str) -> str:
    """A version in the spelling that installers compare: lower case, local part with dots."""
    return version.strip().lower().replace("-", ".").replace("_", ".")


def finite(value: Any) -> Any:
    """The value as JSON can carry it: NaN and infinities become None."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def check(identity: str, level: str, answer: Answer, seconds: float) -> Document:
    """One check as the document shows it."""
    return {"id": identity, "level": level, "outcome": answer[0], "seconds": round(seconds, 4), "detail": one_line(answer[1])}


def timed(identity: str, question: Callable[[], Answer]) -> Document:
    """The check of a question that answers (outcome, detail); whatever it raises is a failure."""
    started = time.perf_counter()
    try:
        answer = question()
    except InWords as fault:
        answer = (FAILED, str(fault))
    except Exception as fault:
        answer = (FAILED, describe(fault))
    return check(identity, LEVEL_OF[identity], answer, time.perf_counter() - started)


def claim_output() -> int:
    """A descriptor that leads to the real standard output; from now on everything else printed goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def write_all(descriptor: int, text: str) -> None:
    """Writes the whole text, as ASCII."""
    data = memoryview(text.encode("ascii", "backslashreplace"))
    while data:
        data = data[os.write(descriptor, data) :]


# ---- host --------------------------------------------------------------------------------------------------------


def read_text(path: str) -> str:
    """What a small file says, "" when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""


def look_at_temp(measured: Document) -> Answer:
    """Whether the folder for temporary files takes a megabyte: a full disk breaks the first checkpoint."""
    import tempfile

    place = tempfile.gettempdir()  # raises FileNotFoundError where no candidate may be written to
    with tempfile.TemporaryFile(dir=place) as file:
        file.write(b"\0" * 1048576)
        file.flush()
    if hasattr(os, "statvfs"):
        room = os.statvfs(place)
        measured["temp_free_bytes"] = room.f_bavail * room.f_frsize
        return PASSED, "%s has %d MiB free" % (place, measured["temp_free_bytes"] // 1048576)
    return PASSED, "%s takes files" % place


def look_at_shm(measured: Document) -> Answer:
    """Whether there is shared memory for data loaders with worker processes."""
    if not sys.platform.startswith("linux"):
        return SKIPPED, "only Linux keeps it in a file system"
    if not os.path.isdir("/dev/shm"):
        return SKIPPED, "there is no /dev/shm: data loaders with worker processes will not work here"
    size = os.statvfs("/dev/shm")
    measured["shm_bytes"] = size.f_blocks * size.f_frsize
    if not os.access("/dev/shm", os.W_OK):
        return FAILED, "/dev/shm may not be written to by this user"
    return PASSED, "/dev/shm has %d MiB" % (measured["shm_bytes"] // 1048576)


# The files through which a backend reaches its devices on Linux: one of each inner group has to be there. /dev/dxg is
# the WSL2 way; Tegra has no nvidiactl.
NODES = {
    "cuda": [["/dev/nvidiactl", "/dev/dxg", "/dev/nvhost-gpu", "/dev/nvgpu", "/dev/nvmap"]],
    "rocm": [["/dev/kfd", "/dev/dxg"], ["/dev/dri/renderD*", "/dev/dxg"]],
    "xpu": [["/dev/dri/renderD*", "/dev/dxg"]],
}


def look_at_nodes(backend: str) -> Answer:
    """Whether the device files of the backend are there and open to this user."""
    import glob

    wanted = NODES.get(backend)
    if wanted is None:
        return SKIPPED, "%s needs no device files" % TITLES.get(backend, backend)
    if not sys.platform.startswith("linux"):
        return SKIPPED, "only Linux shows devices as files"
    seen = []
    for group in wanted:
        there = sorted({path for pattern in group for path in glob.glob(pattern)})
        if not there:
            return FAILED, "there is no %s: no driver is loaded, or this container was started without its devices" % group[0]
        closed = [path for path in there if not os.access(path, os.R_OK | os.W_OK)]
        if len(closed) == len(there):
            return FAILED, closed_words(closed[0])
        seen += [path for path in there if path not in closed and path not in seen]
    return PASSED, ", ".join(seen)


def closed_words(path: str) -> str:
    """Why a device file that is there cannot be used, and what to do."""
    status = os.stat(path)
    group = str(status.st_gid)
    try:
        import grp

        group = grp.getgrgid(status.st_gid).gr_name
    except (ImportError, KeyError):
        pass
    return "%s is there, but this user (uid %d) may not open it: it belongs to group %s (usermod -aG %s, then log in again)" % (
        path,
        os.getuid(),
        group,
        group,
    )


# Where Linux shows the version of the loaded kernel module.
MODULES = {"cuda": ["/sys/module/nvidia/version"], "rocm": ["/sys/module/amdgpu/version"]}


def look_at_driver(expect: Document, measured: Document) -> Answer:
    """Whether the loaded kernel driver reaches the plan's floor."""
    backend = part(expect, "backend", "name")
    have = ""
    for path in MODULES.get(backend, []):
        have = have or read_text(path).strip()
    if have:
        measured["driver"] = have
    return judge_driver(have, part(expect, "driver", "need"))


def judge_driver(have: str, need: str) -> Answer:
    """Whether driver `have` reaches floor `need`; unknown on either side is no verdict."""
    if not need:
        return SKIPPED, "the plan names no driver floor"
    if not numbers(have):
        return SKIPPED, "the version of the loaded driver cannot be seen here; the plan needs %s" % need
    if numbers(have) < numbers(need):
        return FAILED, "the loaded driver is %s, the plan needs %s or newer" % (have, need)
    return PASSED, "driver %s, needs %s" % (have, need)


# ---- runtime -----------------------------------------------------------------------------------------------------


def judge_python(have: str, want: str) -> Answer:
    """Whether this is the plan's Python: "3.12", or free-threaded "3.13t"."""
    if not want:
        return PASSED, "Python %s" % have
    same_threading = have.endswith("t") == want.endswith("t")
    if not same_threading or numbers(have)[:2] != numbers(want)[:2]:
        return FAILED, "the plan wants Python %s, this environment has %s" % (want, have)
    return PASSED, "Python %s" % have


def python_version() -> str:
    """This Python's version, with a "t" where it runs without the global lock."""
    import sysconfig

    free = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return "%d.%d.%d%s" % (sys.version_info[0], sys.version_info[1], sys.version_info[2], free)


def installed_versions(names: Sequence[str]) -> Dict[str, List[str]]:
    """The versions recorded for each package: none, one, or several where installs lie over each other."""
    from importlib import metadata

    found: Dict[str, List[str]] = {}
    for name in names:
        versions = []
        for distribution in metadata.distributions(name=name):
            version = distribution.version
            if version and version not in versions:
                versions.append(version)
        found[name] = versions
    return found


def pins(expect: Document) -> List[Document]:
    """The packages that the expectation pins."""
    packages = expect.get("packages")
    return (
        [p for p in packages if isinstance(p, dict) and p.get("name") and p.get("version")] if isinstance(packages, list) else []
    )


def flavoured(expect: Document) -> List[Document]:
    """The pinned packages that come in flavours: the framework, and what shares its index or has a local version."""
    framework = part(expect, "framework", "name") or "torch"
    own = {p.get("index") for p in pins(expect) if p["name"] == framework} - {"pypi", None}
    return [p for p in pins(expect) if p["name"] == framework or "+" in p["version"] or p.get("index") in own]


def judge_versions(wanted: Sequence[Document], have: Dict[str, List[str]]) -> Answer:
    """Whether each package is there in the pinned version, its local part included."""
    faults = []
    for package in wanted:
        name, version = package["name"], package["version"]
        versions = have.get(name, [])
        if not versions:
            faults.append("%s is not installed, the plan wants %s" % (name, version))
        elif normal(versions[0]) != normal(version):
            faults.append("the plan wants %s %s, this environment has %s" % (name, version, versions[0]))
        elif len(versions) > 1:
            faults.append("%s is installed more than once: %s" % (name, ", ".join(versions)))
    if faults:
        return FAILED, "; ".join(faults)
    if not wanted:
        return SKIPPED, "nothing is pinned to compare with"
    return PASSED, ", ".join("%s %s" % (p["name"], have[p["name"]][0]) for p in wanted)


def local_checks(expect: Document, measured: Document, level: str, on_cpu: bool) -> List[Document]:
    """The checks that need no framework, host and runtime, up to `level`."""
    backend = "cpu" if on_cpu else part(expect, "backend", "name")
    found = [
        timed("temp-space", lambda: look_at_temp(measured)),
        timed("shared-memory", lambda: look_at_shm(measured)),
    ]
    if backend != "cpu":
        found.append(timed("device-nodes", lambda: look_at_nodes(backend)))
        found.append(timed("driver-floor", lambda: look_at_driver(expect, measured)))
    if level == "host":
        return found
    measured["python"] = python_version()
    measured["executable"] = sys.executable
    measured["prefix"] = sys.prefix
    found.append(timed("python", lambda: judge_python(measured["python"], part(expect, "python"))))
    special = flavoured(expect)
    plain = [p for p in pins(expect) if p not in special]
    found.append(timed("flavour", lambda: judge_versions(special, installed_versions([p["name"] for p in special]))))
    found.append(timed("packages", lambda: judge_versions(plain, installed_versions([p["name"] for p in plain]))))
    return found


# ---- framework: these run in the worker --------------------------------------------------------------------------


def load_framework(expect: Document, measured: Document) -> Any:
    """The imported framework; raises InWords where it cannot be had."""
    import importlib

    started = time.perf_counter()
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as fault:
        if fault.name == "torch":
            raise InWords("torch is not installed in this environment") from None
        raise InWords("torch cannot be imported: %s" % describe(fault)) from None
    except Exception as fault:
        raise InWords("torch cannot be imported: %s" % describe(fault)) from None
    if not isinstance(getattr(torch, "__version__", None), str):
        where = ", ".join(getattr(torch, "__path__", []))
        raise InWords("torch is only what an uninstall left behind: there is no module in %s" % (where or "its folder"))
    measured["import_seconds"] = round(time.perf_counter() - started, 4)
    measured["torch"] = str(torch.__version__)
    measured["torch_path"] = os.path.dirname(getattr(torch, "__file__", None) or "")
    return torch


def load_companions(expect: Document) -> List[str]:
    """The names of the plan's other packages, each imported where it is a module: a mismatched one breaks at import."""
    import importlib
    import importlib.util

    loaded = []
    for package in pins(expect):
        name = package["name"].replace("-", "_")
        if name == "torch" or not importlib.util.find_spec(name):
            continue
        try:
            importlib.import_module(name)
        except Exception as fault:
            raise InWords("%s cannot be imported: %s" % (name, describe(fault))) from None
        loaded.append(name)
    return loaded


def read_build(torch: Any) -> Document:
    """What the framework was built for."""
    facts: Document = {"version": str(torch.__version__), "cuda": None, "hip": None, "xpu": None, "mps": False}
    build = getattr(torch, "version", None)
    facts["cuda"] = getattr(build, "cuda", None)
    facts["hip"] = getattr(build, "hip", None)
    try:
        if torch.xpu._is_compiled():
            facts["xpu"] = str(getattr(build, "xpu", None) or "yes")
    except Exception:
        facts["xpu"] = None
    try:
        facts["mps"] = bool(torch.backends.mps.is_built())
    except Exception:
        facts["mps"] = False
    return facts


def build_words(facts: Document) -> str:
    """What a build is for, as a message names it."""
    for key, title in (("cuda", "CUDA"), ("hip", "ROCm"), ("xpu", "XPU")):
        if facts.get(key):
            known = str(facts[key])
            return title if known == "yes" else "%s %s" % (title, known)
    return "the CPU"


def judge_build(expect: Document, facts: Document) -> Answer:
    """Whether the framework that was imported is the build that the plan names."""
    backend, wanted = part(expect, "backend", "name"), part(expect, "backend", "version")
    title = TITLES.get(backend, backend)
    has = build_words(facts)
    pinned = next((p["version"] for p in pins(expect) if p["name"] == "torch"), "")
    # A build from PyPI has no local part in its metadata but shows one when imported.
    shown = facts["version"] if "+" in pinned else facts["version"].split("+")[0]
    if pinned and normal(shown) != normal(pinned):
        return FAILED, "the plan wants torch %s, the torch that is imported says %s (built for %s)" % (
            pinned,
            facts["version"],
            has,
        )
    if backend == "cpu":
        if any(facts.get(key) for key in ("cuda", "hip", "xpu")):
            return FAILED, "the plan wants a torch for the CPU, this torch was built for %s" % has
    elif backend in ("cuda", "rocm"):
        built = facts.get("cuda" if backend == "cuda" else "hip")
        if not built:
            return FAILED, "the plan wants a torch for %s, this torch was built for %s" % (title, has)
        # HIP counts its patch level its own way (ROCm 6.4 carries HIP 6.4.43482): only major and minor are the same thing.
        if wanted and numbers(wanted)[:2] != numbers(str(built))[: len(numbers(wanted)[:2])]:
            return FAILED, "the plan wants a torch for %s %s, this torch was built for %s" % (title, wanted, has)
    elif backend == "xpu":
        if not facts.get("xpu"):
            return FAILED, "the plan wants a torch for XPU, this torch was built for %s" % has
    elif backend == "mps":
        if not facts.get("mps"):
            return FAILED, "the plan wants a torch with MPS, this torch was built without it"
    return PASSED, "torch %s, built for %s" % (facts["version"], has)


def visible_cpu(torch: Any) -> List[Document]:
    """The CPU, as a device."""
    name = ""
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.lower().startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    return [{"device": "cpu", "name": name, "arch": ""}]


def visible_cuda(torch: Any) -> List[Document]:
    """The devices that torch.cuda sees, of an NVIDIA build."""
    if not torch.version.cuda:
        raise InWords("this torch was built for %s, it cannot see a CUDA device" % build_words(read_build(torch)))
    return visible_through_cuda(torch, lambda p: "sm_%d%d" % (p.major, p.minor))


def visible_rocm(torch: Any) -> List[Document]:
    """The devices that torch.cuda sees, of a ROCm build."""
    if not torch.version.hip:
        raise InWords("this torch was built for %s, it cannot see a ROCm device" % build_words(read_build(torch)))
    return visible_through_cuda(torch, lambda p: str(getattr(p, "gcnArchName", "")).split(":")[0])


def visible_through_cuda(torch: Any, arch_of: Callable[[Any], str]) -> List[Document]:
    """The devices of the torch.cuda namespace, which CUDA and ROCm builds share."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        torch.cuda.init()  # raises, and says why
        raise InWords("torch counts no device")
    found = []
    for index in range(count):
        facts = torch.cuda.get_device_properties(index)
        found.append(
            {
                "device": "cuda:%d" % index,
                "name": str(facts.name),
                "arch": arch_of(facts),
                "memory_bytes": int(getattr(facts, "total_memory", 0)) or None,
            }
        )
    return found


def visible_xpu(torch: Any) -> List[Document]:
    """The devices that torch.xpu sees."""
    if not torch.xpu.is_available():
        raise InWords("torch.xpu sees no device (built for %s)" % build_words(read_build(torch)))
    return [
        {"device": "xpu:%d" % index, "name": str(torch.xpu.get_device_name(index)), "arch": ""}
        for index in range(torch.xpu.device_count())
    ]


def visible_mps(torch: Any) -> List[Document]:
    """The GPU of an Apple machine."""
    if not torch.backends.mps.is_available():
        built = torch.backends.mps.is_built()
        raise InWords(
            "MPS is not available: " + ("this macOS or machine has none" if built else "this torch was built without it")
        )
    return [{"device": "mps:0", "name": "Apple GPU", "arch": ""}]


def visible_directml(torch: Any) -> List[Document]:
    """The adapters that DirectML sees; torch names them privateuseone."""
    import torch_directml

    count = torch_directml.device_count()
    return [
        {"device": "privateuseone:%d" % index, "name": str(torch_directml.device_name(index)).strip("\0 "), "arch": ""}
        for index in range(count)
    ]


VISIBLE = {
    "cpu": visible_cpu,
    "cuda": visible_cuda,
    "rocm": visible_rocm,
    "xpu": visible_xpu,
    "mps": visible_mps,
    "directml": visible_directml,
}


def find_devices(torch: Any, backend: str) -> Tuple[Answer, List[Document]]:
    """The devices of `backend`, and the answer about them. Zero devices have failed."""
    import warnings

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        why = ""
        try:
            devices = VISIBLE[backend](torch)
        except InWords as fault:
            devices, why = [], str(fault)
        except Exception as fault:
            # Asking for an absent device raises, by framework and version, ImportError, AttributeError, AssertionError,
            # NotImplementedError, RuntimeError, ValueError or OSError.
            devices, why = [], describe(fault)
    if devices:
        words = ["%s %s" % (d["device"], " ".join(w for w in (d["name"], d["arch"]) if w)) for d in devices]
        return (PASSED, ", ".join(word.strip() for word in words)), devices
    # The reason for an empty answer is often only in a warning: "The NVIDIA driver on your system is too old".
    said = [one_line(w.message, 200) for w in heard if "initiali" in str(w.message) or "driver" in str(w.message)]
    if said and said[0] not in why:
        why = "%s; %s" % (why, said[0]) if why else said[0]
    return (FAILED, "no %s device is visible%s" % (TITLES[backend], ": " + why if why else "")), []


def read_arch_list(torch: Any, backend: str) -> List[str]:
    """The architectures that the framework holds code for; empty where it does not say."""
    try:
        if backend in ("cuda", "rocm"):
            return [str(arch) for arch in torch.cuda.get_arch_list()]
        if backend == "xpu":
            return [str(arch) for arch in torch.xpu.get_arch_list()]
    except Exception:
        return []
    return []


def code_runs(backend: str, arch: str, compiled: Sequence[str]) -> Optional[bool]:
    """Whether a device of `arch` can run what was compiled; None where that is not known."""
    if not arch or not compiled:
        return None
    if backend == "rocm":
        if any("generic" in entry for entry in compiled):
            return None
        return arch in [entry.split(":")[0] for entry in compiled]
    if backend != "cuda" or not arch[3:].isdigit():
        return None
    device = int(arch[3:])
    for entry in compiled:
        kind, _, text = entry.partition("_")
        number = int("".join(letter for letter in text if letter.isdigit()) or 0)
        variant = text[-1:] if text[-1:].isalpha() else ""
        if kind == "compute" and not variant and number <= device:
            return True  # PTX is translated for any newer device
        if kind != "sm" or number // 10 != device // 10:
            continue  # binary code stays within one compute-capability major
        if variant == "a" and number == device:
            return True  # code with architecture features runs on exactly that one
        if variant != "a" and number <= device:
            return True
    return False


def judge_code(backend: str, devices: Sequence[Document], compiled: Sequence[str], planned: str) -> Answer:
    """Whether the framework holds code for the devices; marks those it has none for, with `code` = False.

    A second card of another architecture than the plan's is left out of the proof when it has no code; the first
    working one is not blamed for it.
    """
    if not compiled:
        return SKIPPED, "this build does not say what it was compiled for"
    without, unknown = [], 0
    for device in devices:
        runs = code_runs(backend, device["arch"], compiled)
        device["code"] = runs is not False
        unknown += runs is None
        if runs is False:
            without.append("%s (%s)" % (device["device"], device["arch"]))
    holds = "this build holds %s" % " ".join(compiled)
    blamed = [d for d in devices if not d["code"] and (not planned or d["arch"] == planned)]
    if without and (blamed or len(without) == len(devices)):
        return FAILED, "no code for %s: %s" % (", ".join(without), holds)
    if without:
        return PASSED, "code for the plan's %s; none for %s, which is left out: %s" % (planned, ", ".join(without), holds)
    if unknown:
        return SKIPPED, "whether the code fits cannot be told from the names; %s" % holds
    return PASSED, holds


# ---- compute: these run in the worker ----------------------------------------------------------------------------


def train_step(torch: Any, device: Any, dtype: Any, fused_attention: bool) -> Document:
    """One step of the reference model on `device`: losses, gradients and where the results lie.

    Convolution, matrix product, attention, layer norm, softmax and cross-entropy, forward and backward, from a fixed
    seed. The step is written by hand: importing torch.optim alone costs seconds.
    """
    functional = torch.nn.functional
    # Drawn on the CPU in float64 for every device, so that all start from the same numbers.
    source = torch.Generator().manual_seed(20)

    def draw(*shape: int) -> Any:
        return torch.randn(*shape, generator=source, dtype=torch.float64)

    images = draw(8, 3, 16, 16).to(dtype).to(device)
    labels = torch.randint(0, 10, (8,), generator=source).to(device)
    names = ("conv", "norm weight", "norm bias", "attention", "pool", "head")
    starts = (draw(16, 3, 3, 3) * 0.2, torch.ones(16), torch.zeros(16), draw(16, 48) * 0.2, draw(16, 1) * 0.2, draw(16, 10) * 0.2)
    parameters = [start.to(dtype).to(device).requires_grad_() for start in starts]

    def loss_now() -> Any:
        conv, weight, bias, attention, pool, head = parameters
        tokens = torch.relu(functional.conv2d(images, conv, stride=2, padding=1)).flatten(2).transpose(1, 2)
        tokens = functional.layer_norm(tokens, (16,), weight, bias)
        query, key, value = (piece.unsqueeze(1) for piece in torch.matmul(tokens, attention).chunk(3, -1))
        if fused_attention:
            mixed = functional.scaled_dot_product_attention(query, key, value)
        else:
            mixed = torch.matmul(torch.softmax(torch.matmul(query, key.transpose(-2, -1)) * 0.25, -1), value)
        tokens = tokens + mixed.squeeze(1)
        shares = torch.softmax(torch.matmul(tokens, pool), 1)
        pooled = torch.matmul(shares.transpose(1, 2), tokens).squeeze(1)
        return functional.cross_entropy(torch.matmul(pooled, head), labels)

    before = loss_now()
    gradients = torch.autograd.grad(before, parameters)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients):  # noqa: B905 - `strict` came with Python 3.10
            parameter.sub_(gradient, alpha=0.1)
        after = loss_now()
    results = [before, after, *gradients, *parameters]
    return {
        "loss_before": float(before.item()),
        "loss_after": float(after.item()),
        "landed": sorted({str(result.device) for result in results}),
        "gradients": dict(zip(names, [gradient.detach().cpu().double() for gradient in gradients])),  # noqa: B905 - as above
    }


def compare(result: Document, reference: Document) -> Document:
    """How far a step lies from its reference: the largest difference, absolute and relative to its tensor's largest value."""
    pairs = [
        ("loss before the step", result["loss_before"] - reference["loss_before"], reference["loss_before"]),
        ("loss after the step", result["loss_after"] - reference["loss_after"], reference["loss_after"]),
    ]
    for name, gradient in reference["gradients"].items():
        difference = (result["gradients"][name] - gradient).abs().max().item()
        pairs.append(("gradient of " + name, difference, gradient.abs().max().item()))
    absolute = relative = 0.0
    worst = ""
    for name, difference, size in pairs:
        share = abs(difference) / size if size else float("inf")
        # Written so that NaN, which is neither larger nor smaller, counts as the worst.
        if not share <= relative:
            relative, worst = share, name
        if not abs(difference) <= absolute:
            absolute = abs(difference)
        if relative != relative:
            break
    return {"max_abs_diff": absolute, "max_rel_diff": relative, "worst": worst}


def same_device(asked: str, landed: str) -> bool:
    """Whether a tensor lies where it was asked for: "mps" and "mps:0" are one place, "cpu" is never an accelerator."""
    asked_kind, _, asked_index = asked.partition(":")
    kind, _, index = landed.partition(":")
    return kind == asked_kind and (index or "0") == (asked_index or "0")


def judge_step(asked: str, step: Document) -> Answer:
    """Whether the step really happened on the device, stayed finite and lowered the loss."""
    astray = [place for place in step["landed"] if not same_device(asked, place)]
    if astray:
        if "cpu" in astray:
            return FAILED, "fell back to the CPU: the plan computes on %s, results lie on %s" % (asked, ", ".join(step["landed"]))
        return FAILED, "the plan computes on %s, results lie on %s" % (asked, ", ".join(step["landed"]))
    before, after = step["loss_before"], step["loss_after"]
    if finite(before) is None or finite(after) is None or not step["finite"]:
        return FAILED, "the step on %s gave values that are not finite (loss %s, then %s)" % (asked, before, after)
    if not after < before:
        return FAILED, "the loss did not fall on %s: %.6g, then %.6g" % (asked, before, after)
    return PASSED, "on %s the loss fell from %.6g to %.6g" % (asked, before, after)


def judge_same(backend: str, asked: str, step: Document) -> Answer:
    """Whether forward and backward equal the reference within the tolerance."""
    tolerance = TOLERANCE[backend]
    against = "the same step in float64" if backend == "cpu" else "the same step on the CPU"
    if not step["max_rel_diff"] <= tolerance:
        return FAILED, "%s differs from %s by %.3g of its size on %s (at most %g is allowed)" % (
            step["worst"],
            against,
            step["max_rel_diff"],
            asked,
            tolerance,
        )
    return PASSED, "equal to %s within %.3g (largest relative difference %.3g)" % (
        against,
        step["max_abs_diff"],
        step["max_rel_diff"],
    )


def compute_on(torch: Any, backend: str, name: str) -> Document:
    """What a step on the device and its reference gave, as plain values."""
    # Small tensors gain nothing from many threads, and a pool of one hundred takes its time to start.
    torch.set_num_threads(min(4, torch.get_num_threads()))
    reference = train_step(torch, torch.device("cpu"), torch.float64 if backend == "cpu" else torch.float32, True)
    started = time.perf_counter()
    step = train_step(torch, open_device(torch, backend, name), torch.float32, backend != "directml")
    spent = time.perf_counter() - started
    step.update(compare(step, reference))
    step["finite"] = all(bool(gradient.isfinite().all()) for gradient in step.pop("gradients").values())
    step["step_seconds"] = round(spent, 4)
    if backend in ("cuda", "rocm"):
        step["peak_bytes"] = int(torch.cuda.max_memory_allocated(name))
    return step


def open_device(torch: Any, backend: str, name: str) -> Any:
    """The device that a name such as "cuda:1" means, with float32 arithmetic that can be compared."""
    if backend in ("cuda", "rocm"):
        # TF32 rounds to ten bits and would hide a wrong kernel behind a wide tolerance.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    if backend == "directml":
        import torch_directml

        return torch_directml.device(int(name.split(":")[1]))
    return torch.device(name)


# ---- the worker --------------------------------------------------------------------------------------------------


def work() -> None:
    """The worker's whole life: reads its task from standard input, sends a line for each thing found, never returns."""
    task = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    results = claim_output()

    def emit(event: Document) -> None:
        write_all(results, json.dumps(finite(event)) + "\n")

    die_with(int(task["parent"]))
    for name, value in task["env"].items():
        os.environ[name] = value
    import faulthandler
    import warnings

    faulthandler.enable()
    # Tells where a worker hangs, shortly before the parent ends it. It needs no lock, so a call into a driver that
    # never comes back does not silence it.
    faulthandler.dump_traceback_later(max(0.1, float(task["limit"]) - min(1.0, float(task["limit"]) / 4)))
    warnings.filterwarnings("ignore", message=".*[Nn]um[Pp]y.*")
    try:
        if task["index"] == 0:
            first_task(task, emit)
        else:
            further_task(task, emit)
        emit({"end": True})
    finally:
        # The interpreter's own way out tears the framework down: a third of a second, and drivers that crash at exit.
        sys.stderr.flush()
        os._exit(0)


def die_with(parent: int) -> None:
    """Makes sure that this process does not outlive its parent, even one that is killed."""
    try:
        import ctypes

        if sys.platform.startswith("linux"):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            if os.getppid() != parent:
                os._exit(1)
            return
    except (ImportError, OSError, AttributeError):
        pass

    def watch() -> None:
        if sys.platform == "win32":
            # Reading standard input in a thread would lock up libraries that look at that handle while they load.
            kernel = ctypes.WinDLL("kernel32")
            kernel.OpenProcess.restype = ctypes.c_void_p
            handle = ctypes.c_void_p(kernel.OpenProcess(0x00100000, False, parent))  # SYNCHRONIZE
            kernel.WaitForSingleObject(handle, 0xFFFFFFFF)
        else:
            while sys.stdin.buffer.read(4096):
                pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def stage(emit: Emit, identity: str, question: Callable[[], Answer]) -> bool:
    """Asks one question, with word before and after; whether it passed or was skipped."""
    base = identity.split("/")[0]
    emit({"begin": identity})
    found = timed(base, question)
    found["id"] = identity
    emit({"check": found})
    return bool(found["outcome"] != FAILED)


def first_task(task: Document, emit: Emit) -> None:
    """The framework checks, and the training step on the first device."""
    expect, backend = task["expect"], task["backend"]
    measured: Document = {}
    held: Document = {}

    def importing() -> Answer:
        held["torch"] = load_framework(expect, measured)
        others = load_companions(expect)
        words = "torch %s in %.2f s" % (measured["torch"], measured["import_seconds"])
        return PASSED, words + "".join(", " + name for name in others)

    fine = stage(emit, "import", importing)
    emit({"measured": measured})
    torch = held.get("torch")
    if torch is None or not fine:
        return
    facts = read_build(torch)
    emit({"measured": {key: facts[key] for key in ("cuda", "hip", "xpu") if facts[key]}})
    stage(emit, "framework-build", lambda: judge_build(expect, facts))

    devices: List[Document] = []

    def looking() -> Answer:
        answer, found = find_devices(torch, backend)
        devices.extend(found)
        if task["on_cpu"]:
            return SKIPPED, "no accelerator was asked for: the step runs on the CPU"
        return answer

    stage(emit, "device-visible", looking)
    if devices and backend in ("cuda", "rocm", "xpu"):
        compiled = read_arch_list(torch, backend)
        emit({"measured": {"arch_list": compiled}})
        planned = part(expect, "accelerator", "arch")
        stage(emit, "device-code", lambda: judge_code(backend, devices, compiled, planned))
    emit({"devices": devices})
    if task["level"] == "compute" and devices:
        device_task(torch, backend, devices[0], "", emit)


def further_task(task: Document, emit: Emit) -> None:
    """The training step on one further device."""
    torch = load_framework(task["expect"], {})
    device_task(torch, task["backend"], task["device"], "/" + task["device"]["device"], emit)


def device_task(torch: Any, backend: str, device: Document, suffix: str, emit: Emit) -> None:
    """The compute checks of one device."""
    name = device["device"]
    if device.get("code") is False:
        answer = (SKIPPED, "%s (%s) has no code in this build" % (name, device["arch"]))
        stage(emit, "train-step" + suffix, lambda: answer)
        return
    step: Document = {}

    def training() -> Answer:
        step.update(compute_on(torch, backend, name))
        return judge_step(name, step)

    stage(emit, "train-step" + suffix, training)
    if step:
        stage(emit, "same-result" + suffix, lambda: judge_same(backend, name, step))
        values: Document = {
            key: step[key] for key in ("loss_before", "loss_after", "max_rel_diff", "step_seconds") if key in step
        }
        values["max_abs_diff_to_cpu"] = step["max_abs_diff"]
        if "peak_bytes" in step:
            values["peak_bytes"] = step["peak_bytes"]
        emit({"computed": dict(device, **values)})


# ---- the parent --------------------------------------------------------------------------------------------------

BOOT = (
    "import sys\n"
    "if sys.path[:1]==['']:del sys.path[0]\n"  # what lies in the current folder is not the environment
    "import marshal\n"
    "s=sys.stdin.buffer\n"
    "exec(marshal.loads(s.read(int(s.readline()))),{'__name__':'__main__','WORKER':True})"
)


class Worker:
    """A worker process and what it has told so far."""

    def __init__(self, task: Document, changed: threading.Condition) -> None:
        self.task = task
        self.changed = changed
        self.events: List[Document] = []
        self.done = False
        self.errors = b""
        self.started = time.monotonic()
        flags = [flag for flag, on in (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site)) if on]
        more: Dict[str, Any] = {}
        if os.name == "posix":
            more["start_new_session"] = True
        else:
            more["creationflags"] = getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
        self.process = subprocess.Popen(
            [sys.executable, *flags, "-c", BOOT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
        )
        self.readers = [threading.Thread(target=target, daemon=True) for target in (self._listen, self._keep_errors, self._send)]
        for reader in self.readers:
            reader.start()

    def _send(self) -> None:
        code = marshal.dumps(MODULE_CODE)
        text = json.dumps(self.task).encode("ascii")
        try:
            assert self.process.stdin is not None
            # Left open: its end tells the worker that we are gone.
            self.process.stdin.write(b"%d\n%s%s\n" % (len(code), code, text))
            self.process.stdin.flush()
        except (OSError, ValueError):
            pass

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                event = json.loads(line.decode("utf-8", "replace"))
            except ValueError:
                continue  # printed by a start-up hook of the environment, before the worker had the floor
            if not isinstance(event, dict):
                continue
            with self.changed:
                self.events.append(event)
                self.done = self.done or "end" in event
                self.changed.notify_all()
        with self.changed:
            self.done = True
            self.changed.notify_all()

    def _keep_errors(self) -> None:
        assert self.process.stderr is not None
        while True:
            piece = os.read(self.process.stderr.fileno(), 65536)
            if not piece:
                return
            self.errors = (self.errors + piece)[-16384:]

    def stop(self) -> Optional[int]:
        """Ends the worker and all that it started; its exit status where it had ended by itself."""
        status = self.process.poll()
        if status is None and self.done and not self.said("end"):
            try:
                status = self.process.wait(timeout=1.0)  # it has closed its output: it is about to end
            except subprocess.TimeoutExpired:
                pass
        if os.name == "posix":
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif status is None:
            subprocess.call(
                ["taskkill", "/F", "/T", "/PID", str(self.process.pid)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        try:
            self.process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            pass  # in a driver call that cannot be interrupted it does not even die of SIGKILL: it is left behind
        return status

    def said(self, key: str) -> List[Any]:
        """What the events of one kind carry."""
        with self.changed:
            return [event[key] for event in self.events if key in event]

    def pending(self) -> str:
        """The id of the check that was begun and not answered; "" when none is."""
        begun = self.said("begin")
        return begun[-1] if begun and len(begun) > len(self.said("check")) else ""


STATUS_NAMES = {
    0xC0000005: "access violation",
    0xC0000135: "a DLL is missing",
    0xC0000409: "stack buffer overrun",
    0xC000001D: "illegal instruction",
    0xC00000FD: "stack overflow",
}


def ending(status: Optional[int]) -> str:
    """How a process ended, in words."""
    if status is None:
        return "went away"
    if status < 0 and os.name == "posix":
        try:
            return "was ended by signal %s" % signal.Signals(-status).name
        except ValueError:
            return "was ended by signal %d" % -status
    code = status & 0xFFFFFFFF
    if code in STATUS_NAMES:
        return "crashed: %s (0x%08X)" % (STATUS_NAMES[code], code)
    return "ended with status %d" % status


def innermost(errors: str) -> str:
    """Where the main thread was, of what faulthandler wrote: 'cuda/__init__.py line 310 in _lazy_init'."""
    stacks: List[List[str]] = []
    crashed = -1
    for line in errors.splitlines():
        if "most recent call first" in line:
            crashed = len(stacks) if line.startswith("Current thread") else crashed
            stacks.append([])
        elif line.strip().startswith("File ") and stacks:
            stacks[-1].append(line.strip())
    # Of a hang, all threads are written, the main one last; of a crash, the one that crashed is marked.
    for frame in stacks[crashed] if stacks else []:
        if "threading.py" in frame or "<frozen" in frame:
            continue
        path, _, rest = frame[5:].partition(", ")
        place = path.strip('"').replace("\\", "/").split("/")
        return "%s %s" % ("/".join(place[-2:]), rest)
    return ""


def last_words(errors: str) -> str:
    """The last line of standard error that says something; faulthandler's own lines are told apart."""
    for line in reversed(errors.splitlines()):
        line = line.strip()
        if line and not line.startswith(("File ", "Thread ", "Current thread", "Extension modules", "Timeout (", "Fatal Python")):
            return line
    return ""


DOING = {
    "": "starting",
    "import": "importing torch",
    "framework-build": "reading the build",
    "device-visible": "looking for devices",
    "device-code": "reading the compiled architectures",
    "train-step": "training a step",
    "same-result": "comparing results",
}


def broken(worker: Worker, hung: bool, status: Optional[int], limit: float) -> Optional[Document]:
    """The failed check of a worker that hung or crashed; None for one that came to its end."""
    if worker.said("end"):
        return None
    pending = worker.pending()
    base = pending.split("/")[0]
    errors = worker.errors.decode("utf-8", "replace")
    doing = DOING.get(base, base) + (" on " + worker.task["device"]["device"] if worker.task.get("device") else "")
    place = innermost(errors)
    where = " (%s)" % place if place else ""
    # The watchdog, which tells where a worker hangs, looks at Python while it runs and may crash over it: the time was up.
    if hung or errors.startswith("Timeout (") or "\nTimeout (" in errors:
        words = "did not come back within %g s while %s%s: hung, and was killed" % (limit, doing, where)
    else:
        said = last_words(errors)
        words = "the process %s while %s%s%s" % (ending(status), doing, where, ": " + one_line(said, 160) if said else "")
    identity = pending or ("train-step/" + worker.task["device"]["device"] if worker.task.get("device") else "import")
    return check(identity, LEVEL_OF[identity.split("/")[0]], (FAILED, words), time.monotonic() - worker.started)


def fill_up(checks: List[Document], level: str, backend: str) -> None:
    """Adds what was not reached as skipped, so that a missing check cannot be taken for a passed one."""
    have = {found["id"] for found in checks}
    blocker = next(
        (found["id"] for found in checks if found["outcome"] == FAILED and found["level"] in ("framework", "compute")), ""
    )
    for identity, its_level in CHECKS:
        wanted = its_level in ("framework", "compute") and LEVELS.index(its_level) <= LEVELS.index(level)
        if not wanted or identity in have or (identity == "device-code" and backend not in ("cuda", "rocm", "xpu")):
            continue
        why = "not reached, since %s failed" % blocker if blocker else "not reached"
        checks.append(check(identity, its_level, (SKIPPED, why), 0.0))
    order = {identity: position for position, (identity, _) in enumerate(CHECKS)}
    checks.sort(
        key=lambda found: (LEVELS.index(found["level"]), found["id"].partition("/")[2] != "", order[found["id"].split("/")[0]])
    )


def prove(expect: Document, level: str, limit: float, on_cpu: bool) -> Document:
    """The whole document: all checks up to `level`, within `limit` seconds."""
    deadline = time.monotonic() + limit
    backend = "cpu" if on_cpu else part(expect, "backend", "name")
    measured: Document = {}
    workers: List[Worker] = []
    changed = threading.Condition()
    framework = part(expect, "framework", "name") or "torch"
    able = framework == "torch" and backend in VISIBLE

    def start(index: int, device: Optional[Document]) -> None:
        env = expect.get("env")
        task = {
            "expect": expect,
            "backend": backend,
            "index": index,
            "device": device,
            "level": level,
            "limit": max(0.5, deadline - time.monotonic()),
            "on_cpu": on_cpu,
            "parent": os.getpid(),
            "env": {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {},
        }
        workers.append(Worker(task, changed))

    deep = LEVELS.index(level) >= LEVELS.index("framework")
    try:
        if deep and able:
            start(0, None)
        checks = local_checks(expect, measured, level, on_cpu)
        if deep and not able:
            what = "frameworks other than torch" if framework != "torch" else "the backend %r" % backend
            checks.append(check("import", "framework", (FAILED, "this probe does not know %s" % what), 0.0))
        spread = False
        with changed:
            while workers and not all(worker.done for worker in workers):
                found = [event["devices"] for event in workers[0].events if "devices" in event]
                if found and not spread:
                    spread = True
                    if level == "compute":
                        for index, device in enumerate(found[0][1:], 1):
                            start(index, device)
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                changed.wait(min(left, 1.0))
        for worker in workers:
            collect(worker, checks, measured, limit)
    finally:
        for worker in workers:
            worker.stop()
    if deep:
        fill_up(checks, level, backend)
    computed = measured.get("devices", [])
    if computed:
        for key in ("device", "name", "loss_before", "loss_after", "max_abs_diff_to_cpu"):
            measured["device_name" if key == "name" else key] = computed[0].get(key)
    measured["platform"] = sys.platform
    measured["backend"] = backend
    outcomes = {found["outcome"] for found in checks}
    proven = any(found["level"] == "compute" and found["outcome"] == PASSED for found in checks)
    return {
        "schema": SCHEMA,
        "passed": proven and FAILED not in outcomes,
        "host": host_name(),
        "level": level,
        "checks": checks,
        "measured": measured,
    }


def collect(worker: Worker, checks: List[Document], measured: Document, limit: float) -> None:
    """Ends a worker and takes over what it told."""
    hung = not worker.done  # asked before it is ended, which closes its output too
    status = worker.stop()
    # The output of a worker that was just killed is still on its way through the reader.
    worker.readers[0].join(timeout=1.0)
    worker.readers[1].join(timeout=1.0)
    fault = broken(worker, hung, status, limit)
    checks.extend(worker.said("check"))
    for values in worker.said("measured"):
        measured.update(values)
    for values in worker.said("computed"):
        measured.setdefault("devices", []).append(values)
    if fault is not None:
        checks.append(fault)


def host_name() -> str:
    """What this machine calls itself."""
    import platform

    return platform.node()


# ---- the command -------------------------------------------------------------------------------------------------

# Beside the environment's own files, or in the folder `envkit` next to it: /opt/venv has its plan in /opt/envkit.
RECORDED = (
    os.path.join(sys.prefix, "envkit", "plan.json"),
    os.path.join(os.path.dirname(sys.prefix), "envkit", "plan.json"),
)


def read_expectation(options: argparse.Namespace) -> Tuple[Document, Optional[Document]]:
    """The expectation, and the plan recorded beside this Python where that one is it; raises ValueError in words."""
    source = options.expect
    if source == "recorded":
        source = next((path for path in RECORDED if os.path.isfile(path)), "")
        if not source and not options.packed:
            raise ValueError("no plan is recorded here: there is neither %s nor %s" % RECORDED)
    if source:
        with open(source, encoding="utf-8") as file:
            text = file.read()
    else:
        source = "--packed"
        text = zlib.decompress(base64.b64decode(options.packed)).decode("utf-8")
    try:
        document = json.loads(text)
    except ValueError as fault:
        raise ValueError("%s is no JSON document: %s" % (source, fault)) from None
    if not isinstance(document, dict):
        raise ValueError("%s is no plan: expected a JSON object" % source)
    if not part(document, "backend", "name"):
        raise ValueError("%s is no plan: it names no backend" % source)
    return document, document if source in RECORDED and options.expect == "recorded" else None


def main(argv: Sequence[str]) -> int:
    """The exit status of the command: 0 proven, 1 not, 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="probe.py", description="Proves an environment by training one step in it.")
    parser.add_argument("--expect", metavar="FILE", help="the plan; 'recorded' means the one that lies beside this Python")
    parser.add_argument("--packed", metavar="TEXT", help=argparse.SUPPRESS)  # a plan in the command line, or else that one
    parser.add_argument("--limit", type=float, default=300.0, metavar="SECONDS", help="end whatever takes longer (default: 300)")
    parser.add_argument("--level", choices=LEVELS, default="compute", help="how far to go (default: compute)")
    parser.add_argument(
        "--device",
        choices=("plan", "cpu"),
        default="plan",
        help="cpu: train on the CPU although the plan names an accelerator, for an image that is built on a machine without one",
    )
    options = parser.parse_args(list(argv))
    if not options.expect and not options.packed:
        parser.error("say what to hold this environment to: --expect FILE")
    try:
        expect, recorded = read_expectation(options)
    except (OSError, ValueError) as fault:
        print("probe.py: error: %s" % fault, file=sys.stderr)
        return 2
    output = claim_output()
    signal.signal(signal.SIGTERM, leave)
    document = prove(expect, options.level, options.limit, options.device == "cpu" and part(expect, "backend", "name") != "cpu")
    if recorded is not None:
        document["plan"] = recorded
    write_all(output, json.dumps(finite(document)) + "\n")
    failed = any(found["outcome"] == FAILED for found in document["checks"])
    return 0 if document["passed"] or (options.level != "compute" and not failed) else 1


def leave(number: int, frame: Optional[FrameType]) -> None:
    """Turns a request to end into an exception, so that the workers are ended on the way out."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    if "WORKER" in globals():
        work()
    else:
        sys.exit(main(sys.argv[1:]))
