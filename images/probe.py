"""Proves an environment by computing in it: one standard-library file that runs inside the target, with the target's Python.

    python probe.py --expect plan.json          # the plan document, or any part of it that names a backend
    python - --expect plan.json < probe.py      # the same, without a copy of this file

It prints one JSON document on standard output, whatever libraries print, and exits 0 only if nothing failed and a
training step passed on a device: one inference, of frameworks that do not train. Python 3.8 and later.

The parent process imports no framework. A worker in a process group of its own imports it once, looks for devices and
computes on the first; each further device gets a worker of its own. Results come back line by line, so that a worker that
hangs or crashes has already told how far it came; the parent meanwhile does the checks that need no framework.
"""

from __future__ import annotations

import argparse
import base64
import functools
import json
import marshal
import math
import operator
import os
import re
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
LEVELS = ("host", "runtime", "framework", "compute", "collective", "speed")
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
    ("infer-step", "compute"),
    ("same-result", "compute"),
    ("bf16-step", "compute"),
    ("fp16-step", "compute"),
    ("memory-freed", "compute"),
    ("all-reduce", "collective"),
    ("data-parallel", "collective"),
    ("matmul-rate", "speed"),
    ("copy-rate", "speed"),
)
LEVEL_OF = dict(CHECKS)

# What one float32 step may differ from the reference, relative to the largest value of each tensor. Rounding alone gives
# about 1e-6; a kernel for another architecture gives garbage. MPS, DirectML and processors that are made for matrices
# promise less exact arithmetic: they may keep fewer bits of a factor.
TOLERANCE = {
    "cpu": 1e-4,
    "cuda": 1e-3,
    "rocm": 1e-3,
    "xpu": 1e-3,
    "openvino": 1e-3,
    "mps": 1e-2,
    "mlx": 1e-2,
    "directml": 1e-2,
    "npu": 1e-2,
    "hpu": 1e-2,
    "mlu": 1e-2,
    "musa": 1e-2,
    "tpu": 2e-2,
    "xla": 2e-2,
    "neuron": 2e-2,
}
# The same for steps in 16 bits, of which eight or eleven are the number itself.
HALF_TOLERANCE = {"bfloat16": 0.1, "float16": 0.02}
SHORT = {"bfloat16": "bf16-step", "float16": "fp16-step"}

TITLES = {
    "cpu": "CPU",
    "cuda": "CUDA",
    "rocm": "ROCm",
    "xpu": "XPU",
    "openvino": "OpenVINO",
    "mps": "MPS",
    "mlx": "Metal",
    "directml": "DirectML",
    "npu": "Ascend NPU",
    "hpu": "Gaudi HPU",
    "mlu": "MLU",
    "musa": "MUSA",
    "tpu": "TPU",
    "xla": "XLA",
    "neuron": "Neuron",
}


class InWords(Exception):
    """A check failed, and the message says all that a reader needs: the exception's kind is not shown."""


# ---- small things ------------------------------------------------------------------------------------------------


def one_line(text: object, most: int = 300) -> str:
    """The text on one line, cut to a readable length."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[: most - 3] + "..."


def describe(fault: BaseException) -> str:
    """An exception as people write it: its kind and first words, and what caused it, which often says more."""
    words = "%s: %s" % (type(fault).__name__, fault) if str(fault) else type(fault).__name__
    if fault.__cause__ is None:
        return one_line(words)
    return one_line("%s (caused by %s)" % (one_line(words, 180), describe(fault.__cause__)))


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
    except (Exception, SystemExit) as fault:
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


def read_text(path: str, most: int = 65536) -> str:
    """What a file says at its beginning, "" when it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(most)
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
    "openvino": [["/dev/dri/renderD*", "/dev/dxg", "/dev/accel/accel*"]],
    "npu": [["/dev/davinci[0-9]*"], ["/dev/davinci_manager"], ["/dev/hisi_hdc"]],
    "mlu": [["/dev/cambricon_dev*"], ["/dev/cambricon_ctl"]],
    "musa": [["/dev/mtgpu*"]],
    "tpu": [["/dev/accel[0-9]*", "/dev/vfio/[0-9]*"]],
    "neuron": [["/dev/neuron[0-9]*"]],
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
    framework = framework_pin(expect, part(expect, "framework", "name") or "torch")
    own = {framework.get("index")} - {"pypi", None}
    return [p for p in pins(expect) if p is framework or "+" in p["version"] or p.get("index") in own]


def framework_pin(expect: Document, framework: str) -> Document:
    """The pinned package that is the framework: of its own name, or the first where its name begins so (onnxruntime-gpu)."""
    own = [p for p in pins(expect) if p["name"] == framework]
    named = [p for p in pins(expect)[:1] if framework != "torch" and p["name"].replace(".", "").startswith(framework)]
    return (own + named + [{}])[0]


def same_version(package: Document, have: str) -> bool:
    """Whether the installed version is the pinned one. A vendor's own build marks its version as it likes: 2.9.0a0+git1a2b."""
    wanted = normal(package["version"])
    if package.get("index") == "vendor" and "+" not in package["version"]:
        return normal(have.split("+")[0]) in (wanted, wanted + "a0")
    return normal(have) == wanted


def judge_versions(wanted: Sequence[Document], have: Dict[str, List[str]]) -> Answer:
    """Whether each package is there in the pinned version, its local part included."""
    faults = []
    for package in wanted:
        name, version = package["name"], package["version"]
        versions = have.get(name, [])
        if not versions:
            faults.append("%s is not installed, the plan wants %s" % (name, version))
        elif not same_version(package, versions[0]):
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
    if backend != "cpu" and part(expect, "backend", "device").lower() != "cpu":
        found.append(timed("device-nodes", lambda: look_at_nodes(backend)))
        found.append(timed("driver-floor", lambda: look_at_driver(expect, measured)))
    if level == "host":
        return found
    measured["python"] = python_version()
    measured["executable"] = sys.executable
    measured["prefix"] = sys.prefix
    found.append(timed("python", lambda: judge_python(measured["python"], part(expect, "python"))))
    # llama.cpp is no Python package: its own programs say what they are.
    special = [p for p in flavoured(expect) if p["name"] != "llama.cpp"]
    plain = [p for p in pins(expect) if p not in special and p["name"] != "llama.cpp"]
    found.append(timed("flavour", lambda: judge_versions(special, installed_versions([p["name"] for p in special]))))
    found.append(timed("packages", lambda: judge_versions(plain, installed_versions([p["name"] for p in plain]))))
    return found


# ---- framework: these run in the worker --------------------------------------------------------------------------


def load_framework(expect: Document, measured: Document) -> Any:
    """The imported framework; raises InWords where it cannot be had."""
    framework = FRAMEWORKS[part(expect, "framework", "name") or "torch"]
    name, top = framework.name, framework.module.partition(".")[0]
    started = time.perf_counter()
    try:
        module = framework.load()
    except InWords:
        raise
    except ModuleNotFoundError as fault:
        if fault.name in (top, framework.module):
            raise InWords("%s is not installed in this environment" % name) from None
        raise InWords("%s cannot be imported: %s" % (name, describe(fault))) from None
    except (Exception, SystemExit) as fault:
        raise InWords("%s cannot be imported: %s" % (name, describe(fault))) from None
    if not isinstance(getattr(module, "__version__", None), str):
        where = ", ".join(getattr(module, "__path__", []))
        raise InWords("%s is only what an uninstall left behind: there is no module in %s" % (name, where or "its folder"))
    measured["import_seconds"] = round(time.perf_counter() - started, 4)
    measured["framework"] = name
    measured[name] = framework.version(module)
    measured[name + "_path"] = os.path.dirname(getattr(module, "__file__", None) or "")
    return module


def load_plugins(expect: Document, backend: str) -> List[str]:
    """The names of the modules through which the framework reaches the backend, each imported."""
    import importlib

    framework = FRAMEWORKS[part(expect, "framework", "name") or "torch"]
    loaded = framework.plugins(backend, expect)
    for name in loaded:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as fault:
            if name == fault.name or name.startswith(str(fault.name) + "."):
                words = "%s is not installed in this environment: %s reaches %s through it"
                raise InWords(words % (str(fault.name), framework.name, TITLES[backend])) from None
            raise InWords("%s cannot be imported: %s" % (name, describe(fault))) from None
        except (Exception, SystemExit) as fault:
            raise InWords("%s cannot be imported: %s" % (name, describe(fault))) from None
    return loaded


# Modules that load their vendor's libraries when they are imported, which is in vain where no driver is.
NEEDING_DRIVERS = (
    "habana_frameworks",
    "torch_directml",
    "torch_mlu",
    "torch_musa",
    "torch_neuronx",
    "torch_npu",
    "torch_tpu",
    "torch_xla",
)


def load_companions(expect: Document, on_cpu: bool = False) -> List[str]:
    """The names of the plan's other packages, each imported where it is a module: a mismatched one breaks at import.

    With `on_cpu` those are left alone that take a driver to be imported.
    """
    import importlib
    import importlib.util

    top = FRAMEWORKS[part(expect, "framework", "name") or "torch"].module.partition(".")[0]
    loaded = []
    for package in pins(expect):
        name = package["name"].replace("-", "_")
        needless = name == top or "." in name or (on_cpu and name in NEEDING_DRIVERS)
        if needless or not importlib.util.find_spec(name):
            continue
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as fault:
            raise InWords("%s cannot be imported: %s" % (name, describe(fault))) from None
        loaded.append(name)
    return loaded


def find_devices(module: Any, backend: str, framework: str = "torch", wanted: str = "") -> Tuple[Answer, List[Document]]:
    """The devices of `backend`, and the answer about them. Zero devices have failed."""
    import warnings

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        why = ""
        try:
            devices = FRAMEWORKS[framework].visible(module, backend, wanted)
        except InWords as fault:
            devices, why = [], str(fault)
        except (Exception, SystemExit) as fault:
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


# ---- the reference model -----------------------------------------------------------------------------------------

# Four images of two channels and 8 x 8 points: convolution, tanh, attention over the 16 places, mean, matrix product and,
# for training, cross-entropy. Small enough that plain Python computes it in float64 in milliseconds, so that nothing which
# is to be proven takes part in its own proof.
IMAGES, CHANNELS, SIDE, WIDTH, CLASSES = 4, 2, 8, 8, 5
PLACES = (SIDE // 2) ** 2
RATE = 0.25


def draw_model(images: int = IMAGES) -> Document:
    """The numbers that every framework starts from, as nested lists; all are exact in float16 and bfloat16 too."""
    import random

    source = random.Random(20)

    def draw(size: float, *shape: int) -> Any:
        if shape:
            return [draw(size, *shape[1:]) for _ in range(shape[0])]
        return int(source.uniform(-64.0, 64.0)) / 64.0 * size

    return {
        "images": draw(1.0, images, CHANNELS, SIDE, SIDE),
        "labels": [source.randrange(CLASSES) for _ in range(images)],
        "conv": draw(0.5, WIDTH, CHANNELS, 3, 3),
        "attention": draw(0.5, WIDTH, WIDTH),
        "head": draw(1.0, WIDTH, CLASSES),
    }


def flat(values: Any) -> List[float]:
    """Nested lists as one list of numbers."""
    if not isinstance(values, list):
        return [float(values)]
    return [number for value in values for number in flat(value)]


def times(left: Any, right: Any) -> Any:
    """The matrix product of two lists of rows."""
    columns = turned(right)
    return [[sum(map(operator.mul, row, column)) for column in columns] for row in left]


def turned(rows: Any) -> Any:
    """The transpose of a list of rows."""
    return [list(column) for column in zip(*rows)]  # noqa: B905 - `strict` came with Python 3.10


def plus(left: Any, right: Any, share: float = 1.0) -> Any:
    """Each of `left` with `share` of what stands in the same place of `right`."""
    return [[a + share * b for a, b in zip(one, other)] for one, other in zip(left, right)]  # noqa: B905 - as above


def softmax(row: Sequence[float]) -> List[float]:
    """The shares of a row of numbers."""
    top = max(row)
    powers = [math.exp(value - top) for value in row]
    return [power / sum(powers) for power in powers]


def patches(image: Any) -> Any:
    """The 3 x 3 surroundings of every second point of an image, a row each: what a convolution multiplies."""
    rows = []
    for top in range(-1, SIDE - 1, 2):
        for left in range(-1, SIDE - 1, 2):
            places = [(y, x) for y in range(top, top + 3) for x in range(left, left + 3)]
            rows.append([c[y][x] if 0 <= y < SIDE and 0 <= x < SIDE else 0.0 for c in image for y, x in places])
    return rows


def pass_through(model: Document, gradients: Optional[Document]) -> Tuple[List[List[float]], float]:
    """The model's outputs and loss in plain Python; adds to `gradients` (by name, rows as in the product) where given."""
    kernel = turned([flat(one) for one in model["conv"]])
    count = len(model["images"])
    outputs, loss = [], 0.0
    for image, label in zip(model["images"], model["labels"]):  # noqa: B905 - as above
        seen = patches(image)
        tokens = [[math.tanh(value) for value in row] for row in times(seen, kernel)]
        query = times(tokens, model["attention"])
        shares = [softmax([0.5 * value for value in row]) for row in times(query, turned(tokens))]
        mixed = plus(times(shares, tokens), tokens)
        pooled = [sum(column) / PLACES for column in turned(mixed)]
        output = times([pooled], model["head"])[0]
        outputs.append(output)
        chances = softmax(output)
        loss -= math.log(chances[label]) / count
        if gradients is None:
            continue
        d_output = [(chance - (place == label)) / count for place, chance in enumerate(chances)]
        d_mixed = [[value / PLACES for value in times([d_output], turned(model["head"]))[0]]] * PLACES
        d_shares = times(d_mixed, turned(tokens))
        inner = [sum(map(operator.mul, one, other)) for one, other in zip(d_shares, shares)]  # noqa: B905 - as above
        d_scores = [
            [0.5 * share * (value - mean) for value, share in zip(row, own)]  # noqa: B905 - as above
            for row, own, mean in zip(d_shares, shares, inner)  # noqa: B905 - as above
        ]
        d_query = times(d_scores, tokens)
        d_tokens = plus(d_mixed, times(turned(shares), d_mixed))
        d_tokens = plus(plus(d_tokens, times(turned(d_scores), query)), times(d_query, turned(model["attention"])))
        d_inner = [[d * (1.0 - t * t) for d, t in zip(one, other)] for one, other in zip(d_tokens, tokens)]  # noqa: B905 - as above
        for name, more in (
            ("conv", turned(times(turned(seen), d_inner))),
            ("attention", times(turned(tokens), d_query)),
            ("head", times(turned([pooled]), [d_output])),
        ):
            gradients[name] = plus(gradients[name], more) if name in gradients else more
    return outputs, loss


def plain_step(images: int = IMAGES) -> Document:
    """One training step of the reference model in plain Python: what a framework's own step is held to."""
    model = draw_model(images)
    gradients: Document = {}
    outputs, before = pass_through(model, gradients)
    after = dict(model, conv=[[flat(one)] for one in model["conv"]])
    for name in ("conv", "attention", "head"):
        after[name] = plus([flat(one) for one in model[name]], gradients[name], -RATE)
    return {
        "loss_before": before,
        "loss_after": pass_through(after, None)[1],
        "gradients": {name: flat(rows) for name, rows in gradients.items()},
        "outputs": {"output": flat(outputs)},
    }


# ---- frameworks --------------------------------------------------------------------------------------------------


# What a worker sets where neither the plan nor the caller does: on newer accelerators float32 is else computed with fewer
# bits, which hides a wrong kernel behind a wide tolerance. JAX takes three quarters of every GPU's memory when it starts.
WORKER_ENV = {
    "torch": {"NEURON_CC_FLAGS": "--auto-cast=none"},
    "jax": {"NVIDIA_TF32_OVERRIDE": "0", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"},
    "llamacpp": {"NVIDIA_TF32_OVERRIDE": "0"},
    "mlx": {"MLX_ENABLE_TF32": "0"},
    "onnxruntime": {"NVIDIA_TF32_OVERRIDE": "0"},
    "mindspore": {"GLOG_v": "3"},
    "tensorflow": {"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"},
}


class Framework:
    """How a framework is asked. Methods get the imported module; all of them run in a worker."""

    name = ""  # what plans call it
    module = ""  # what is imported
    task = "train"  # "infer" where a framework does not train: one inference is held to the reference
    backends: Tuple[str, ...] = ()

    def load(self) -> Any:
        """The imported module."""
        import importlib

        return importlib.import_module(self.module)

    def version(self, module: Any) -> str:
        """The version that the imported module shows."""
        return str(module.__version__)

    def plugins(self, backend: str, expect: Document) -> List[str]:
        """The modules through which the framework reaches the backend, beside its own."""
        return []

    def judge_build(self, expect: Document, module: Any, measured: Document) -> Answer:
        """Whether what was imported is the build that the plan names."""
        return judge_version(expect, self, self.version(module))

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        """The devices of the backend; `wanted` is what the plan calls the device. Raises what the framework raises."""
        raise NotImplementedError

    def arch_list(self, module: Any, backend: str) -> Optional[List[str]]:
        """The architectures that the framework holds code for; None where it never says."""
        return None

    def judge_code(self, backend: str, devices: Sequence[Document], compiled: Sequence[str], planned: str) -> Answer:
        """Whether that code fits the devices."""
        return SKIPPED, "this build does not say what it was compiled for"

    def alone(self, backend: str) -> bool:
        """Whether one process holds all devices, so that each of them is computed on in the first worker."""
        return False

    def reference(self, module: Any, backend: str) -> Document:
        """What the step has to give."""
        return plain_step()

    def against(self, backend: str) -> str:
        """What the reference is, in words."""
        return "the same %s in plain Python" % ("step" if self.task == "train" else "inference")

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        """One step, or one inference, on the device: numbers, and where the results lie."""
        raise NotImplementedError

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        """The 16-bit number formats that the device computes in: "bfloat16", "float16"."""
        return []

    def memory(self, module: Any, backend: str, name: str) -> Optional[int]:
        """The bytes that the framework holds on the device; None where it does not say."""
        return None

    def ranks(self, backend: str, devices: Sequence[Document]) -> Tuple[List[List[Document]], str]:
        """The devices of each process that takes part in a collective; none, and why, where there is nothing to prove."""
        return [], "%s computes in one process, on one device" % self.name

    def collective(self, module: Any, backend: str, group: Document, emit: Emit) -> None:
        """All-reduce and one data-parallel step, as a stage each."""
        raise NotImplementedError

    def rates(self, module: Any, backend: str, name: str) -> Optional[Document]:
        """How fast the device multiplies and copies; None where this probe has no way to measure it."""
        return None


# By the names of plans. Each of the sections that follow adds its own; a probe that is sent to a host or into a container
# leaves out those that its plan does not need.
FRAMEWORKS: Dict[str, Framework] = {}


def judge_version(expect: Document, framework: Framework, shown: str, more: str = "") -> Answer:
    """Whether the version that was imported is the pinned one."""
    pinned = framework_pin(expect, framework.name).get("version", "")
    # A build from an index without local parts may still show one when imported; OpenVINO shows its commit.
    bare = shown if "+" in pinned else shown.split("+")[0].split("-")[0]
    if pinned and normal(bare) != normal(pinned):
        return FAILED, "the plan wants %s %s, the one that is imported says %s" % (framework.name, pinned, shown)
    return PASSED, "%s %s%s" % (framework.name, shown, more)


def installed_like(*beginnings: str) -> Dict[str, str]:
    """The installed packages whose names begin with one of these, with their versions."""
    from importlib import metadata

    found = {}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith(beginnings):
            found[name] = str(distribution.version)
    return found


def listed(found: Dict[str, str]) -> str:
    """Packages as messages show them."""
    return ", ".join("%s %s" % item for item in sorted(found.items()))


def visible_cpu(torch: Any) -> List[Document]:
    """The CPU, as a device."""
    name = ""
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.lower().startswith("model name"):
            name = line.split(":", 1)[1].strip()
            break
    return [{"device": "cpu", "name": name, "arch": ""}]


class Heard:
    """What native code writes to standard error meanwhile: often the only place that says why it fell back."""

    def __enter__(self) -> Heard:
        import tempfile

        sys.stderr.flush()
        self.text = ""
        sys.stdout.flush()
        self.kept = os.dup(2)
        self.file = tempfile.TemporaryFile()
        os.dup2(self.file.fileno(), 2)
        os.dup2(self.file.fileno(), 1)  # in a worker both lead to standard error
        return self

    def __exit__(self, *unused: object) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(self.kept, 2)
        os.dup2(self.kept, 1)
        os.close(self.kept)
        self.file.seek(0)
        self.text = self.file.read(65536).decode("utf-8", "replace")
        self.file.close()
        os.write(2, self.text.encode("utf-8", "replace"))

    def reason(self, *signs: str) -> str:
        """The first line that holds one of `signs`, without colours."""
        lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in self.text.splitlines()]
        return next((one_line(line, 200) for line in lines if any(sign in line for sign in signs)), "")


# ---- jax ---------------------------------------------------------------------------------------------------------


class Jax(Framework):
    """JAX, whose arrays say on which device they lie."""

    name = module = "jax"
    backends = ("cpu", "cuda", "rocm", "tpu")

    def judge_build(self, expect: Document, module: Any, measured: Document) -> Answer:
        import importlib

        backend = part(expect, "backend", "name")
        lib = str(importlib.import_module("jaxlib.version").__version__)
        measured["jaxlib"] = lib
        plugins = installed_like("jax-cuda", "jax-rocm", "libtpu")
        plugins = {name: version for name, version in plugins.items() if not name.endswith("-pjrt")}
        start = {"cuda": "jax-cuda", "rocm": "jax-rocm", "tpu": "libtpu"}.get(backend, "")
        if start and not any(name.startswith(start) for name in plugins) and backend not in lib:
            has = listed(plugins) or "no plugin for an accelerator"
            return FAILED, "the plan wants a jax for %s, this environment has %s" % (TITLES[backend], has)
        if backend == "cpu" and plugins:
            return FAILED, "the plan wants a jax for the CPU, this environment also has %s" % listed(plugins)
        major = part(expect, "backend", "version").split(".")[0]
        numbered = [re.search(r"\d+", name) for name in plugins if backend in ("cuda", "rocm") and name.startswith(start)]
        if major and any(found and found.group() != major for found in numbered):
            return FAILED, "the plan wants a jax for %s %s, this environment has %s" % (TITLES[backend], major, listed(plugins))
        more = ", jaxlib %s" % lib + (", " + listed(plugins) if plugins else "")
        return judge_version(expect, self, self.version(module), more)

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        # Asked for by name: the default choice falls back to the CPU with no more than a warning.
        found = []
        for device in module.local_devices(backend=backend):
            facts: Document = {"device": jax_name(device), "name": str(device.device_kind), "arch": ""}
            if backend == "cpu":
                facts.update(visible_cpu(None)[0], device=jax_name(device))
            elif backend == "cuda" and getattr(device, "compute_capability", None):
                facts["arch"] = "sm_" + str(device.compute_capability).replace(".", "")
            found.append(facts)
        return found

    def alone(self, backend: str) -> bool:
        return backend == "tpu"  # libtpu lets one process in, with all chips

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        device = next(d for d in module.local_devices(backend=backend) if jax_name(d) == name)
        # Convolutions and products of float32 are else computed in TF32 or bfloat16 on accelerators.
        with module.default_device(device), module.default_matmul_precision("float32"):
            return jax_step(module, device, precision)

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        return {"cpu": [], "tpu": ["bfloat16"]}.get(backend, ["bfloat16", "float16"])

    def memory(self, module: Any, backend: str, name: str) -> Optional[int]:
        device = next(d for d in module.local_devices(backend=backend) if jax_name(d) == name)
        held = (device.memory_stats() or {}).get("bytes_in_use")
        return None if held is None else int(held)

    def ranks(self, backend: str, devices: Sequence[Document]) -> Tuple[List[List[Document]], str]:
        if backend == "cpu":  # two devices out of one processor: a flag of XLA's, made for tests
            return [[dict(devices[0], env={"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})]], ""
        return [list(devices)], ""

    def collective(self, module: Any, backend: str, group: Document, emit: Emit) -> None:
        jax_collective(module, backend, emit)

    def rates(self, module: Any, backend: str, name: str) -> Optional[Document]:
        device = next(d for d in module.local_devices(backend=backend) if jax_name(d) == name)
        kind = "float32" if backend == "cpu" else "bfloat16"
        numpy, product, copy = module.numpy, module.jit(module.numpy.matmul), module.jit(module.numpy.negative)

        def put(count: int, dtype: Any) -> Any:
            return module.device_put(numpy.ones(count, dtype), device)

        def multiply(size: int) -> Callable[[], Any]:
            matrix = put(size * size, getattr(numpy, kind)).reshape(size, size)
            return lambda: product(matrix, matrix)

        def move(count: int) -> Callable[[], Any]:
            values = put(count // 4, numpy.float32)
            return lambda: copy(values)

        with module.default_device(device):
            return measure_rates(multiply, move, lambda result: result.block_until_ready(), kind, backend == "cpu")


def jax_name(device: Any) -> str:
    """A device as JAX itself calls it: "gpu:0"."""
    return "%s:%d" % (device.platform, device.id)


def jax_loss(module: Any) -> Callable[..., Any]:
    """The reference model's loss as a function of its weights, images and labels (one-hot)."""
    numpy, lax = module.numpy, module.lax

    def loss(weights: Any, images: Any, labels: Any) -> Any:
        conv, attention, head = weights
        tokens = numpy.tanh(lax.conv_general_dilated(images, conv, (2, 2), ((1, 1), (1, 1))))
        tokens = numpy.swapaxes(tokens.reshape(tokens.shape[0], WIDTH, PLACES), 1, 2)
        scores = numpy.matmul(numpy.matmul(tokens, attention), numpy.swapaxes(tokens, 1, 2)) * 0.5
        mixed = numpy.matmul(module.nn.softmax(scores, axis=-1), tokens) + tokens
        output = numpy.matmul(mixed.mean(axis=1), head)
        return -(module.nn.log_softmax(output) * labels).sum() / labels.shape[0]

    return loss


def jax_collective(module: Any, backend: str, emit: Emit) -> None:
    """The collective checks over all devices of one process."""
    devices = module.local_devices(backend=backend)
    names = ", ".join(jax_name(device) for device in devices)
    count, numpy, lax = len(devices), module.numpy, module.lax

    def summing() -> Answer:
        total = module.pmap(lambda x: lax.psum(x, "all"), axis_name="all", devices=devices)
        rows = numpy.arange(1024.0) + numpy.arange(float(count))[:, None]
        return judge_sum(flat(total(rows)[0].tolist()), count, "XLA", names)

    def training() -> Answer:
        loss = jax_loss(module)
        per_device = 2
        weights, images, labels = module.device_get(jax_arrays(module, devices[0], "float32", per_device * count))
        split = [values.reshape(count, per_device, *values.shape[1:]) for values in (images, labels)]

        def step(weights: Any, images: Any, labels: Any) -> Any:
            before, gradients = module.value_and_grad(loss)(weights, images, labels)
            before, gradients = lax.pmean((before, gradients), "all")
            moved = [weight - RATE * gradient for weight, gradient in zip(weights, gradients)]  # noqa: B905 - as above
            return before, lax.pmean(loss(moved, images, labels), "all"), gradients, moved

        with module.default_matmul_precision("float32"):
            everywhere = module.pmap(step, axis_name="all", in_axes=(None, 0, 0), devices=devices)
            before, after, gradients, moved = everywhere(weights, *split)
        result = {
            "loss_before": float(before[0]),
            "loss_after": float(after[0]),
            "gradients": {
                name: flat(gradient[0].tolist())
                for name, gradient in zip(("conv", "attention", "head"), gradients)  # noqa: B905 - as above
            },
        }
        equal = all(bool((weight == weight[0]).all()) for weight in moved)
        return judge_parallel(result, plain_step(per_device * count), equal, count, backend)

    if stage(emit, "all-reduce", summing):
        stage(emit, "data-parallel", training)


def jax_arrays(module: Any, device: Any, precision: str, images: int = IMAGES) -> Tuple[Any, Any, Any]:
    """The reference model's weights, images and labels on the device."""
    import importlib

    numpy = importlib.import_module("numpy")
    model = draw_model(images)
    kind = getattr(module.numpy, precision)

    def put(values: Any) -> Any:
        return module.device_put(numpy.asarray(values, dtype=kind), device)

    labels = [[float(place == label) for place in range(CLASSES)] for label in model["labels"]]
    return tuple(put(model[name]) for name in ("conv", "attention", "head")), put(model["images"]), put(labels)


def jax_step(module: Any, device: Any, precision: str) -> Document:
    """One step by jax.grad, compiled for the device."""
    loss = jax_loss(module)
    weights, images, labels = jax_arrays(module, device, precision)

    def step(weights: Any, images: Any, labels: Any) -> Any:
        gradients = module.grad(loss)(weights, images, labels)
        moved = [weight - RATE * gradient for weight, gradient in zip(weights, gradients)]  # noqa: B905 - as above
        return loss(weights, images, labels), loss(moved, images, labels), gradients, moved

    before, after, gradients, moved = module.jit(step)(weights, images, labels)
    lie = {jax_name(where) for result in (before, after, *gradients, *moved) for where in result.devices()}
    return {
        "loss_before": float(before),
        "loss_after": float(after),
        "landed": sorted(lie),
        "gradients": {
            name: flat(gradient.astype(module.numpy.float32).tolist())
            for name, gradient in zip(("conv", "attention", "head"), gradients)  # noqa: B905 - as above
        },
    }


FRAMEWORKS["jax"] = Jax()


# ---- mlx ---------------------------------------------------------------------------------------------------------


class Mlx(Framework):
    """MLX, whose arrays lie in memory that all devices share: only the device that was asked to compute can be told."""

    name, module = "mlx", "mlx.core"
    backends = ("cpu", "cuda", "mlx")

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        if backend == "cpu":
            return visible_cpu(None)
        able = [getattr(module, kind, None) for kind in ("metal", "cuda")]
        if not any(kind is not None and kind.is_available() for kind in able):
            raise InWords("this MLX computes on the CPU alone, or there is no GPU that it can use")
        count = module.device_count(module.gpu) if hasattr(module, "device_count") else 1
        found = []
        for index in range(count):
            try:
                facts = module.device_info(module.Device(module.gpu, index))
            except (AttributeError, TypeError):
                facts = module.metal.device_info()
            name, memory = str(facts.get("device_name", "")), facts.get("memory_size")
            found.append({"device": "gpu:%d" % index, "name": name, "arch": "", "memory_bytes": memory})
        return found

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        kind, _, index = name.partition(":")
        module.set_default_device(module.Device(getattr(module, kind), int(index or 0)))
        return mlx_step(module, getattr(module, precision))

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        return [] if backend == "cpu" else ["bfloat16", "float16"]

    def memory(self, module: Any, backend: str, name: str) -> Optional[int]:
        ask = getattr(module, "get_active_memory", None)
        return None if ask is None or backend == "cpu" else int(ask())

    def rates(self, module: Any, backend: str, name: str) -> Optional[Document]:
        kind, _, index = name.partition(":")
        module.set_default_device(module.Device(getattr(module, kind), int(index or 0)))
        form = "float32" if backend == "cpu" else "bfloat16"

        def multiply(size: int) -> Callable[[], Any]:
            matrix = module.ones((size, size), dtype=getattr(module, form))
            return lambda: module.eval(module.matmul(matrix, matrix))

        def move(count: int) -> Callable[[], Any]:
            values = module.ones((count // 4,))
            return lambda: module.eval(module.negative(values))

        return measure_rates(multiply, move, lambda result: None, form, backend == "cpu")


def mlx_step(mx: Any, kind: Any) -> Document:
    """One step by mlx.core.value_and_grad on the default device."""
    model = draw_model()
    # MLX keeps the channels last.
    images = mx.array(model["images"], dtype=kind).transpose(0, 2, 3, 1)
    weights = [
        mx.array(model["conv"], dtype=kind).transpose(0, 2, 3, 1),
        mx.array(model["attention"], dtype=kind),
        mx.array(model["head"], dtype=kind),
    ]
    labels = mx.array([[float(place == label) for place in range(CLASSES)] for label in model["labels"]], dtype=kind)

    def loss(conv: Any, attention: Any, head: Any) -> Any:
        tokens = mx.tanh(mx.conv2d(images, conv, stride=2, padding=1)).reshape(IMAGES, PLACES, WIDTH)
        scores = mx.matmul(mx.matmul(tokens, attention), tokens.transpose(0, 2, 1)) * 0.5
        mixed = mx.matmul(mx.softmax(scores, axis=-1), tokens) + tokens
        output = mx.matmul(mx.mean(mixed, axis=1), head)
        chances = output - mx.logsumexp(output, axis=-1, keepdims=True)
        return -mx.sum(chances * labels) / IMAGES

    before, gradients = mx.value_and_grad(loss, argnums=[0, 1, 2])(*weights)
    moved = [weight - RATE * gradient for weight, gradient in zip(weights, gradients)]  # noqa: B905 - as above
    after = loss(*moved)
    mx.eval(before, after, *gradients)
    conv, attention, head = [gradient.astype(mx.float32) for gradient in gradients]
    # "Device(gpu, 0)"
    kind_, index = re.findall(r"\w+", str(mx.default_device()))[1:3]
    return {
        "loss_before": float(before.item()),
        "loss_after": float(after.item()),
        "landed": [kind_ if kind_ == "cpu" else "%s:%s" % (kind_, index)],
        "gradients": {
            "conv": flat(conv.transpose(0, 3, 1, 2).tolist()),
            "attention": flat(attention.tolist()),
            "head": flat(head.tolist()),
        },
    }


FRAMEWORKS["mlx"] = Mlx()


# ---- onnxruntime -------------------------------------------------------------------------------------------------

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "directml": "DmlExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
    "rocm": "MIGraphXExecutionProvider",
}


class OnnxRuntime(Framework):
    """ONNX Runtime, which computes on the CPU what its provider does not take, and says so in a warning at most."""

    name = module = "onnxruntime"
    task = "infer"
    backends = ("cpu", "cuda", "directml", "openvino", "rocm")

    def provider(self, backend: str, wanted: str) -> str:
        """The provider that the plan means."""
        return wanted if wanted.endswith("ExecutionProvider") and backend != "cpu" else PROVIDERS[backend]

    def judge_build(self, expect: Document, module: Any, measured: Document) -> Answer:
        provider = self.provider(part(expect, "backend", "name"), part(expect, "backend", "device"))
        has = [str(name) for name in module.get_available_providers()]
        measured["providers"] = has
        several = installed_like("onnxruntime")
        several = {name: version for name, version in several.items() if name in ONNX_PACKAGES}
        if len(several) > 1:
            return FAILED, "%s are installed over each other: they share their files" % listed(several).replace(", ", " and ")
        if provider not in has:
            return FAILED, "the plan wants an onnxruntime with %s, this one has %s" % (provider, ", ".join(has))
        return judge_version(expect, self, self.version(module), ", with " + ", ".join(has))

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        provider = self.provider(backend, wanted)
        if provider not in module.get_available_providers():
            raise InWords("this onnxruntime was built without %s" % provider)
        if backend == "cpu":
            return [dict(visible_cpu(None)[0], device=provider)]
        # ONNX Runtime itself does not count devices.
        names = cuda_names() if backend == "cuda" else [""]
        return [{"device": "%s:%d" % (provider, index), "name": name, "arch": ""} for index, name in enumerate(names)]

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        return onnx_inference(module, name, precision)

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        return ["float16"] if backend in ("cuda", "directml", "rocm") else []


# The packages that all bring the module onnxruntime.
ONNX_PACKAGES = (
    "onnxruntime",
    "onnxruntime-cann",
    "onnxruntime-directml",
    "onnxruntime-gpu",
    "onnxruntime-migraphx",
    "onnxruntime-openvino",
    "onnxruntime-qnn",
    "onnxruntime-rocm",
)


def cuda_names() -> List[str]:
    """The names of the NVIDIA devices that this process may use, from the driver's own library."""
    import ctypes

    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(name)
    except OSError:
        raise InWords("%s cannot be loaded: there is no NVIDIA driver" % name) from None
    status = driver.cuInit(0)
    count = ctypes.c_int(0)
    if status or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        raise InWords("the NVIDIA driver shows no device (cuInit gave %d)" % status)
    names = []
    for index in range(count.value):
        handle, text = ctypes.c_int(0), ctypes.create_string_buffer(128)
        driver.cuDeviceGet(ctypes.byref(handle), index)
        driver.cuDeviceGetName(text, 128, handle)
        names.append(text.value.decode("utf-8", "replace"))
    return names


def proto_number(value: int) -> bytes:
    """A protobuf varint; a negative one as its 64-bit complement."""
    value &= (1 << 64) - 1
    data = bytearray()
    while value > 127:
        data.append(value & 127 | 128)
        value >>= 7
    data.append(value)
    return bytes(data)


def proto(*fields: Tuple[int, Any]) -> bytes:
    """A protobuf message: (number of the field, whole number, text or bytes), ...; the one encoding that ONNX files use."""
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += proto_number(number << 3) + proto_number(value)
        else:
            body = value.encode("utf-8") if isinstance(value, str) else value
            data += proto_number(number << 3 | 2) + proto_number(len(body)) + body
    return data


def onnx_model(precision: str) -> bytes:
    """The reference model's forward pass as an ONNX file, written by hand: the package `onnx` is not part of a plan.

    Field numbers are those of onnx.proto (opset 13, IR version 7).
    """
    import struct

    model = draw_model()
    letter, kind = ("e", 10) if precision == "float16" else ("f", 1)

    def tensor(name: str, shape: Sequence[int], values: Sequence[float]) -> bytes:
        raw = struct.pack("<%d%s" % (len(values), letter), *values)
        return proto(*[(1, size) for size in shape], (2, kind), (8, name), (9, raw))

    def whole(name: str, values: Sequence[int]) -> bytes:
        return proto((1, len(values)), (2, 7), (8, name), (9, struct.pack("<%dq" % len(values), *values)))

    def node(operator_: str, inputs: str, output: str, **attributes: Any) -> bytes:
        named = []
        for name, value in attributes.items():
            many = isinstance(value, list)
            body = [(8, item) for item in value] if many else [(3, value)]
            named.append((5, proto((1, name), *body, (20, 7 if many else 2))))
        return proto(*[(1, name) for name in inputs.split()], (2, output), (3, output), (4, operator_), *named)

    def value_info(name: str, shape: Sequence[int]) -> bytes:
        dimensions = proto(*[(1, proto((1, size))) for size in shape])
        return proto((1, name), (2, proto((1, proto((1, kind), (2, dimensions))))))

    nodes = [
        node("Conv", "images conv", "convolved", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Tanh", "convolved", "bent"),
        node("Reshape", "bent shape", "rows"),
        node("Transpose", "rows", "tokens", perm=[0, 2, 1]),
        node("MatMul", "tokens attention", "query"),
        node("MatMul", "query rows", "raw"),
        node("Mul", "raw half", "scores"),
        node("Softmax", "scores", "shares", axis=-1),
        node("MatMul", "shares tokens", "attended"),
        node("Add", "attended tokens", "mixed"),
        node("ReduceMean", "mixed", "pooled", axes=[1], keepdims=0),
        node("MatMul", "pooled head", "output"),
    ]
    weights = [
        tensor("conv", [WIDTH, CHANNELS, 3, 3], flat(model["conv"])),
        tensor("attention", [WIDTH, WIDTH], flat(model["attention"])),
        tensor("head", [WIDTH, CLASSES], flat(model["head"])),
        tensor("half", [], [0.5]),
        whole("shape", [IMAGES, WIDTH, PLACES]),
    ]
    graph = proto(
        *[(1, one) for one in nodes],
        (2, "reference"),
        *[(5, one) for one in weights],
        (11, value_info("images", [IMAGES, CHANNELS, SIDE, SIDE])),
        (12, value_info("output", [IMAGES, CLASSES])),
    )
    return proto((1, 7), (2, "envkit"), (7, graph), (8, proto((1, ""), (2, 13))))


def onnx_inference(module: Any, name: str, precision: str) -> Document:
    """One inference of the reference model; `landed` are the providers that each computed a part of it."""
    import importlib
    import tempfile

    numpy = importlib.import_module("numpy")
    provider, _, index = name.partition(":")
    if provider == "CUDAExecutionProvider" and hasattr(module, "preload_dlls"):
        module.preload_dlls()  # CUDA's libraries out of wheels: nobody else looks for them there
    options = module.SessionOptions()
    options.intra_op_num_threads = 2
    options.enable_profiling = True  # names the provider of each node: the session's own list only says what it may use
    if provider == "DmlExecutionProvider":
        options.enable_mem_pattern = False
        options.execution_mode = module.ExecutionMode.ORT_SEQUENTIAL
    wanted = (provider, {"device_id": index}) if index else provider
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = os.path.join(folder, "run")
        with Heard() as heard:
            session = module.InferenceSession(onnx_model(precision), sess_options=options, providers=[wanted])
            ready = [str(one) for one in session.get_providers()]
            if provider in ready:
                images = numpy.asarray(draw_model()["images"], dtype=precision)
                output = session.run(None, {"images": images})[0]
        if provider not in ready:
            why = heard.reason("[E:", "[W:", "EP Error", "rror")
            words = "fell back to %s: %s could not be started" % (", ".join(ready), provider)
            raise InWords(words + (": " + why if why else ""))
        path = session.end_profiling()
        used = providers_used(read_text(path, 1 << 24))
    landed = [one + (":" + index if index and one == provider else "") for one in used]
    return {"landed": landed, "outputs": {"output": flat(output.astype("float64").tolist())}}


def providers_used(profile: str) -> List[str]:
    """The providers that computed nodes, of ONNX Runtime's own profile."""
    events = json.loads(profile)
    found = {
        event["args"]["provider"] for event in events if event.get("cat") == "Node" and event.get("args", {}).get("provider")
    }
    if not found:
        raise InWords("the profile of ONNX Runtime names no provider, so nothing tells where it computed")
    return sorted(found)


FRAMEWORKS["onnxruntime"] = OnnxRuntime()


# ---- openvino ----------------------------------------------------------------------------------------------------


class OpenVino(Framework):
    """OpenVINO: CPU, GPU or NPU, by those names."""

    name = module = "openvino"
    task = "infer"
    backends = ("cpu", "openvino")

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        core = module.Core()
        device = wanted if backend == "openvino" and wanted else "CPU"
        there = [str(one) for one in core.available_devices]
        mine = [one for one in there if one == device or one.startswith(device + ".")]
        if not mine:
            raise InWords("OpenVINO sees %s alone" % (", ".join(there) or "nothing"))
        return [{"device": one, "name": str(core.get_property(one, "FULL_DEVICE_NAME")).strip(), "arch": ""} for one in mine]

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        return openvino_inference(module, name, precision)

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        able = [str(one) for one in module.Core().get_property(name, "OPTIMIZATION_CAPABILITIES")]
        return [kind for kind, word in (("bfloat16", "BF16"), ("float16", "FP16")) if word in able]


def openvino_inference(module: Any, name: str, precision: str) -> Document:
    """One inference of the reference model, compiled for the device."""
    import importlib

    numpy = importlib.import_module("numpy")
    try:
        make = importlib.import_module("openvino.opset8")
    except ImportError:
        make = importlib.import_module("openvino.runtime.opset8")
    model = draw_model()

    def constant(values: Any) -> Any:
        return make.constant(numpy.asarray(values, dtype=numpy.float32))

    images = make.parameter([IMAGES, CHANNELS, SIDE, SIDE], numpy.float32, name="images")
    convolved = make.convolution(images, constant(model["conv"]), [2, 2], [1, 1], [1, 1], [1, 1])
    rows = make.reshape(make.tanh(convolved), make.constant(numpy.asarray([IMAGES, WIDTH, PLACES])), False)
    tokens = make.transpose(rows, make.constant(numpy.asarray([0, 2, 1])))
    query = make.matmul(tokens, constant(model["attention"]), False, False)
    scores = make.multiply(make.matmul(query, rows, False, False), constant(0.5))
    mixed = make.add(make.matmul(make.softmax(scores, 2), tokens, False, False), tokens)
    pooled = make.reduce_mean(mixed, make.constant(numpy.asarray([1])), False)
    output = make.matmul(pooled, constant(model["head"]), False, False)
    # Left to itself it computes in less than float32 where the device can.
    hint = {"float32": "f32", "bfloat16": "bf16", "float16": "f16"}[precision]
    whole = module.Model([output], [images], "reference")
    compiled = module.Core().compile_model(whole, name, {"INFERENCE_PRECISION_HINT": hint})
    result = compiled([numpy.asarray(model["images"], dtype=numpy.float32)])[compiled.output(0)]
    landed = [str(one) for one in compiled.get_property("EXECUTION_DEVICES")]
    return {"landed": landed, "outputs": {"output": flat(result.astype("float64").tolist())}}


FRAMEWORKS["openvino"] = OpenVino()


# ---- torch -------------------------------------------------------------------------------------------------------


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
    pin = framework_pin(expect, "torch")
    pinned = pin.get("version", "")
    # A build from PyPI has no local part in its metadata but shows one when imported.
    shown = facts["version"] if "+" in pinned else facts["version"].split("+")[0]
    if pinned and not same_version(pin, shown):
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
    import importlib

    adapters = importlib.import_module("torch_directml")
    count = adapters.device_count()
    return [
        {"device": "privateuseone:%d" % index, "name": str(adapters.device_name(index)).strip("\0 "), "arch": ""}
        for index in range(count)
    ]


def visible_plugged(torch: Any, kind: str) -> List[Document]:
    """The devices of a plugin that brings a namespace of its own, such as torch.npu."""
    space = getattr(torch, kind)
    count = int(space.device_count()) if space.is_available() else 0
    if not count:
        raise InWords("torch.%s sees no device" % kind)
    return [{"device": "%s:%d" % (kind, index), "name": str(space.get_device_name(index)), "arch": ""} for index in range(count)]


def visible_hpu(torch: Any) -> List[Document]:
    """The Gaudi processors. A process computes on one, which it calls hpu:0 and a variable chooses."""
    import importlib

    space = importlib.import_module("habana_frameworks.torch.hpu")
    count = int(space.device_count()) if space.is_available() else 0
    if not count:
        raise InWords("habana_frameworks sees no device")
    name = str(space.get_device_name())
    allowed = os.environ.get("HABANA_VISIBLE_MODULES", "")
    modules = allowed.split(",") if allowed and allowed != "all" else [str(index) for index in range(count)]
    return [
        {
            "device": "hpu:%d" % index,
            "use": "hpu:0",
            "env": {"HABANA_VISIBLE_MODULES": modules[index].strip()},
            "name": name,
            "arch": "",
        }
        for index in range(min(count, len(modules)))
    ]


def visible_xla(torch: Any, kind: str = "") -> List[Document]:
    """The devices that torch_xla drives; `kind` is what they have to be: TPU, NEURON."""
    import importlib

    runtime = importlib.import_module("torch_xla.runtime")
    has = str(runtime.device_type())
    if kind and has.upper() != kind:
        raise InWords("torch_xla computes on %s here, not on a %s" % (has, kind))
    names = importlib.import_module("torch_xla.core.xla_model").get_xla_supported_devices() or []
    return [{"device": str(name), "name": has, "arch": ""} for name in names]


def visible_tpu(torch: Any) -> List[Document]:
    """The TPU chips, through TorchTPU where it is there and through torch_xla else."""
    if "torch_tpu" not in sys.modules:
        return visible_xla(torch, "TPU")
    # torch.tpu's own is_available and device_count raise RuntimeError even where all is well.
    count = int(torch.accelerator.device_count()) if torch.accelerator.is_available() else 0
    return [{"device": "tpu:%d" % index, "name": "TPU", "arch": ""} for index in range(count)]


VISIBLE: Dict[str, Callable[[Any], List[Document]]] = {
    "cpu": visible_cpu,
    "cuda": visible_cuda,
    "rocm": visible_rocm,
    "xpu": visible_xpu,
    "mps": visible_mps,
    "directml": visible_directml,
    "npu": lambda torch: visible_plugged(torch, "npu"),
    "hpu": visible_hpu,
    "mlu": lambda torch: visible_plugged(torch, "mlu"),
    "musa": lambda torch: visible_plugged(torch, "musa"),
    "tpu": visible_tpu,
    "xla": visible_xla,
    "neuron": lambda torch: visible_xla(torch, "NEURON"),
}


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


def draw_batch(torch: Any, count: int) -> Document:
    """Images, labels and weights of torch's reference model: on the CPU in float64, the same for every device."""
    source = torch.Generator().manual_seed(20)

    def draw(*shape: int) -> Any:
        return torch.randn(*shape, generator=source, dtype=torch.float64)

    images = draw(count, 3, 16, 16)
    labels = torch.randint(0, 10, (count,), generator=source)
    names = ("conv", "norm weight", "norm bias", "attention", "pool", "head")
    starts = (draw(16, 3, 3, 3) * 0.2, torch.ones(16), torch.zeros(16), draw(16, 48) * 0.2, draw(16, 1) * 0.2, draw(16, 10) * 0.2)
    return {"images": images, "labels": labels, "weights": dict(zip(names, starts))}  # noqa: B905 - as above


def torch_loss(torch: Any, weights: Sequence[Any], images: Any, labels: Any, fused_attention: bool = True) -> Any:
    """The loss of torch's reference model: convolution, matrix product, attention, layer norm, softmax, cross-entropy."""
    functional = torch.nn.functional
    conv, weight, bias, attention, pool, head = weights
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


def train_step(torch: Any, device: Any, dtype: Any, fused_attention: bool, count: int = 8) -> Document:
    """One step of the reference model on `device`: losses, gradients and where the results lie.

    Forward and backward from a fixed seed. The step is written by hand: importing torch.optim alone costs seconds.
    """
    drawn = draw_batch(torch, count)
    images, labels = drawn["images"].to(dtype).to(device), drawn["labels"].to(device)
    weights = [start.to(dtype).to(device).requires_grad_() for start in drawn["weights"].values()]
    before = torch_loss(torch, weights, images, labels, fused_attention)
    gradients = torch.autograd.grad(before, weights)
    with torch.no_grad():
        for weight, gradient in zip(weights, gradients):  # noqa: B905 - as above
            weight.sub_(gradient, alpha=0.1)
        after = torch_loss(torch, weights, images, labels, fused_attention)
    results = [before, after, *gradients, *weights]
    return {
        "loss_before": float(before.item()),
        "loss_after": float(after.item()),
        "landed": sorted({str(result.device) for result in results}),
        "gradients": dict(zip(drawn["weights"], [g.detach().cpu().double() for g in gradients])),  # noqa: B905 - as above
    }


def open_device(torch: Any, backend: str, name: str) -> Any:
    """The device that a name such as "cuda:1" means, with float32 arithmetic that can be compared."""
    if backend in ("cuda", "rocm"):
        # TF32 rounds to ten bits and would hide a wrong kernel behind a wide tolerance.
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_tf32 = False
    if backend == "directml":
        import importlib

        return importlib.import_module("torch_directml").device(int(name.split(":")[1]))
    if backend in ("npu", "mlu", "musa", "xla", "tpu"):
        forbid_short_factors(torch, backend)
    return torch.device(name)


def forbid_short_factors(torch: Any, backend: str) -> None:
    """Asks a plugin to keep all bits of float32 factors, by the name that it has for it; old releases have none."""
    import importlib

    places = {
        "npu": (("npu.matmul", "allow_hf32", False), ("npu.conv", "allow_hf32", False)),
        "mlu": (("backends.mlu.matmul", "allow_tf32", False), ("backends.cnnl", "allow_tf32", False)),
        "musa": (("backends.mudnn", "allow_tf32", False),),
    }
    for path, name, value in places.get(backend, ()):
        found: Any = torch
        for piece in path.split("."):
            found = getattr(found, piece, None)
        if found is not None:
            try:
                setattr(found, name, value)
            except Exception:
                continue
    if backend in ("xla", "tpu"):
        try:
            importlib.import_module("torch_xla.backends").set_mat_mul_precision("highest")
        except (ImportError, AttributeError):
            pass


# How torch reaches a backend that it does not hold itself: a module each, which registers a device when it is imported.
PLUGINS = {
    "directml": ["torch_directml"],
    "npu": ["torch_npu"],
    "hpu": ["habana_frameworks.torch.core", "habana_frameworks.torch.hpu"],
    "mlu": ["torch_mlu"],
    "musa": ["torch_musa"],
    "neuron": ["torch_neuronx"],
    "xla": ["torch_xla"],
}


class Torch(Framework):
    """PyTorch, on all its backends. Its steps are held to its own on the CPU, those to float64."""

    name = module = "torch"
    backends = tuple(VISIBLE)

    def plugins(self, backend: str, expect: Document) -> List[str]:
        if backend != "tpu":
            return PLUGINS.get(backend, [])
        import importlib.util

        pinned = [p["name"].replace("-", "_") for p in pins(expect)]
        both = ["torch_tpu", "torch_xla"]
        named = [name for name in both if name in pinned] or [name for name in both if importlib.util.find_spec(name)]
        return named[:1] or ["torch_xla"]

    def judge_build(self, expect: Document, module: Any, measured: Document) -> Answer:
        facts = read_build(module)
        measured.update({key: facts[key] for key in ("cuda", "hip", "xpu") if facts[key]})
        return judge_build(expect, facts)

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        return VISIBLE[backend](module)

    def arch_list(self, module: Any, backend: str) -> Optional[List[str]]:
        return read_arch_list(module, backend) if backend in ("cuda", "rocm", "xpu") else None

    def judge_code(self, backend: str, devices: Sequence[Document], compiled: Sequence[str], planned: str) -> Answer:
        return judge_code(backend, devices, compiled, planned)

    def alone(self, backend: str) -> bool:
        return backend in ("tpu", "xla", "neuron")

    def reference(self, module: Any, backend: str) -> Document:
        # Small tensors gain nothing from many threads, and a pool of one hundred takes its time to start.
        module.set_num_threads(min(4, module.get_num_threads()))
        return train_step(module, module.device("cpu"), module.float64 if backend == "cpu" else module.float32, True)

    def against(self, backend: str) -> str:
        return "the same step in float64" if backend == "cpu" else "the same step on the CPU"

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        device = open_device(module, backend, name)
        return train_step(module, device, getattr(module, precision), backend != "directml")

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        if backend == "cpu":
            return ["bfloat16"] if {"avx512_bf16", "amx_bf16"} & set(cpu_flags()) else []
        if backend in ("tpu", "xla", "neuron", "hpu"):
            return ["bfloat16"]
        if backend == "directml":
            return ["float16"]
        ask = getattr(namespace(module, backend), "is_bf16_supported", None)
        try:
            both = ask is None or bool(ask())
        except Exception:
            both = True  # the step itself will tell
        return ["bfloat16", "float16"] if both else ["float16"]

    def memory(self, module: Any, backend: str, name: str) -> Optional[int]:
        space = namespace(module, backend)
        if backend == "mps":
            return int(space.current_allocated_memory())
        if backend not in ("cuda", "rocm", "xpu", "npu", "mlu", "musa") or not hasattr(space, "memory_allocated"):
            return None
        return int(space.memory_allocated(name))

    def ranks(self, backend: str, devices: Sequence[Document]) -> Tuple[List[List[Document]], str]:
        if backend not in COLLECTIVES:
            return [], "this probe knows no way for processes with %s to reduce" % TITLES[backend]
        if sys.platform == "win32" and backend != "cpu":
            return [], "torch for Windows comes without %s" % COLLECTIVES[backend]
        return [[device] for device in (list(devices) * 2 if backend == "cpu" else devices)], ""

    def collective(self, module: Any, backend: str, group: Document, emit: Emit) -> None:
        torch_collective(module, backend, group, emit)

    def rates(self, module: Any, backend: str, name: str) -> Optional[Document]:
        if backend in ("hpu", "tpu", "xla", "neuron"):
            return None  # these gather operations and run them later: a loop of products is not what they run
        device, space = open_device(module, backend, name), namespace(module, backend)
        kind = "float32" if backend == "cpu" else self.halves(module, backend, name)[0]
        sync = getattr(space, "synchronize", None) if backend != "cpu" else None

        def multiply(size: int) -> Callable[[], Any]:
            matrix = module.ones(size, size, dtype=getattr(module, kind), device=device)
            return lambda: module.matmul(matrix, matrix)

        def move(count: int) -> Callable[[], Any]:
            there, back = (module.ones(count, dtype=module.uint8, device=device) for _ in range(2))
            return lambda: back.copy_(there)

        def wait(result: Any) -> None:
            if sync is not None:
                sync()
            else:
                result.flatten()[:1].cpu()

        with module.no_grad():
            return measure_rates(multiply, move, wait, kind, backend == "cpu")


# The library through which torch.distributed reduces on a backend. On ROCm it is RCCL, by NCCL's name.
COLLECTIVES = {
    "cpu": "gloo",
    "cuda": "nccl",
    "rocm": "nccl",
    "xpu": "xccl",
    "npu": "hccl",
    "hpu": "hccl",
    "mlu": "cncl",
    "musa": "mccl",
}


def join_group(torch: Any, backend: str, group: Document) -> Tuple[Any, str]:
    """torch.distributed with this process in its group, and the library that it uses."""
    import datetime
    import importlib

    distributed = importlib.import_module("torch.distributed")
    library = COLLECTIVES[backend]
    if not distributed.is_available():
        raise InWords("this torch was built without torch.distributed")
    if backend == "hpu":
        importlib.import_module("habana_frameworks.torch.distributed.hccl")
    if backend == "xpu" and not getattr(distributed, "is_xccl_available", lambda: False)():
        importlib.import_module("oneccl_bindings_for_pytorch")  # what releases before 2.8 need
        library = "ccl"
    choose = getattr(namespace(torch, backend), "set_device", None)
    if choose is not None and backend not in ("cpu", "hpu"):
        choose(group["use"])
    distributed.init_process_group(
        library,
        init_method=group["meet"],
        rank=group["rank"],
        world_size=group["world"],
        timeout=datetime.timedelta(seconds=max(1.0, group["limit"])),
    )
    return distributed, library


def torch_collective(torch: Any, backend: str, group: Document, emit: Emit) -> None:
    """The collective checks of one process of a group."""
    torch.set_num_threads(1)
    device = open_device(torch, backend, group["use"])
    rank, world = group["rank"], group["world"]
    held: Document = {}

    def summing() -> Answer:
        held["distributed"], library = join_group(torch, backend, group)
        values = (torch.arange(1024.0) + rank).to(device)
        held["distributed"].all_reduce(values)
        return judge_sum(values.cpu().tolist(), world, library, group["names"])

    def training() -> Answer:
        return judge_parallel(*torch_parallel(torch, held["distributed"], device, rank, world, backend), world, backend)

    if stage(emit, "all-reduce", summing):
        stage(emit, "data-parallel", training)


def torch_parallel(
    torch: Any, distributed: Any, device: Any, rank: int, world: int, backend: str
) -> Tuple[Document, Document, bool]:
    """One step through DistributedDataParallel on this process's share of a batch: result, reference, all weights equal."""
    import importlib

    count = 2 * world
    drawn = draw_batch(torch, count)
    mine = slice(2 * rank, 2 * rank + 2)
    images, labels = drawn["images"][mine].float().to(device), drawn["labels"][mine].to(device)

    class Reference(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            starts = [start.float().to(device) for start in drawn["weights"].values()]
            self.weights = torch.nn.ParameterList([torch.nn.Parameter(start) for start in starts])

        def forward(self, images: Any, labels: Any) -> Any:
            return torch_loss(torch, list(self.weights), images, labels)

    parallel = importlib.import_module("torch.nn.parallel").DistributedDataParallel(Reference())
    before = parallel(images, labels)
    before.backward()
    weights = list(parallel.parameters())
    with torch.no_grad():
        for weight in weights:
            weight.sub_(weight.grad, alpha=0.1)
        after = parallel.module(images, labels)
        losses = torch.stack([before.detach(), after]) / world
        distributed.all_reduce(losses)
        whole = torch.cat([weight.detach().flatten() for weight in weights])
        most, least = whole.clone(), whole.clone()
        distributed.all_reduce(most, op=distributed.ReduceOp.MAX)
        distributed.all_reduce(least, op=distributed.ReduceOp.MIN)
    gradients = [weight.grad.detach().cpu().double() for weight in weights]
    result = {
        "loss_before": float(losses[0].item()),
        "loss_after": float(losses[1].item()),
        "gradients": dict(zip(drawn["weights"], gradients)),  # noqa: B905 - as above
    }
    reference = train_step(torch, torch.device("cpu"), torch.float64, True, count)
    distributed.barrier()  # one that leaves early would break the others
    return result, reference, bool((most == least).all().item())


def namespace(torch: Any, backend: str) -> Any:
    """Where torch keeps the functions of a backend: torch.cuda, torch.npu, ...; None where it has no such place."""
    return getattr(torch, "cuda" if backend == "rocm" else backend, None)


def cpu_flags() -> List[str]:
    """What the processor can do, by the kernel's words."""
    for line in read_text("/proc/cpuinfo").splitlines():
        if line.startswith(("flags", "Features")):
            return line.partition(":")[2].split()
    return []


FRAMEWORKS["torch"] = Torch()


# ---- mindspore ---------------------------------------------------------------------------------------------------


class MindSpore(Framework):
    """MindSpore on Ascend, or on the CPU."""

    name = module = "mindspore"
    backends = ("cpu", "npu")

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        if backend == "cpu":
            return visible_cpu(None)
        kind = wanted or "Ascend"
        if not module.hal.is_available(kind):
            raise InWords("MindSpore sees no %s device" % kind)
        return [
            {"device": "%s:%d" % (kind, index), "name": str(module.hal.get_device_name(index, kind)), "arch": ""}
            for index in range(module.hal.device_count(kind))
        ]

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        kind, _, index = name.partition(":")
        kind = "CPU" if backend == "cpu" else kind
        if hasattr(module, "set_device"):
            module.set_device(kind, int(index or 0))
        else:
            module.set_context(device_target=kind, device_id=int(index or 0))
        module.set_context(mode=module.PYNATIVE_MODE)
        return mindspore_step(module, name, precision)

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        return [] if backend == "cpu" else ["float16"]


def mindspore_step(module: Any, name: str, precision: str) -> Document:
    """One step by mindspore.value_and_grad."""
    ops, model, kind = module.ops, draw_model(), getattr(module, precision)
    images = module.Tensor(model["images"], kind)
    weights = [module.Tensor(model[part_], kind) for part_ in ("conv", "attention", "head")]
    labels = module.Tensor([[float(place == label) for place in range(CLASSES)] for label in model["labels"]], kind)

    def loss(conv: Any, attention: Any, head: Any) -> Any:
        tokens = ops.tanh(ops.conv2d(images, conv, stride=2, pad_mode="pad", padding=1))
        rows = ops.reshape(tokens, (IMAGES, WIDTH, PLACES))
        tokens = ops.transpose(rows, (0, 2, 1))
        scores = ops.bmm(ops.matmul(tokens, attention), rows) * 0.5
        mixed = ops.bmm(ops.softmax(scores, axis=-1), tokens) + tokens
        output = ops.matmul(ops.mean(mixed, 1), head)
        return -ops.sum(ops.log_softmax(output, axis=-1) * labels) / IMAGES

    before, gradients = module.value_and_grad(loss, grad_position=(0, 1, 2))(*weights)
    after = loss(*[weight - RATE * gradient for weight, gradient in zip(weights, gradients)])  # noqa: B905 - as above
    results = [before, after, *gradients]
    told = [str(getattr(result, "device", "") or module.get_context("device_target")) for result in results]
    return {
        "loss_before": float(before.asnumpy()),
        "loss_after": float(after.asnumpy()),
        "landed": sorted({name if same_device(name, place.lower() if name == "cpu" else place) else place for place in told}),
        "gradients": {
            part_: flat(gradient.asnumpy().astype("float64").tolist())
            for part_, gradient in zip(("conv", "attention", "head"), gradients)  # noqa: B905 - as above
        },
    }


FRAMEWORKS["mindspore"] = MindSpore()


# ---- tensorflow --------------------------------------------------------------------------------------------------


class TensorFlow(Framework):
    """TensorFlow 2, through DirectML's plugin or on the CPU."""

    name = module = "tensorflow"
    backends = ("cpu", "directml")

    def judge_build(self, expect: Document, module: Any, measured: Document) -> Answer:
        plugin = installed_like("tensorflow-directml")
        if part(expect, "backend", "name") == "directml" and not plugin:
            return FAILED, "the plan wants a tensorflow for DirectML, tensorflow-directml-plugin is not installed"
        more = ", " + listed(plugin) if plugin else ""
        return judge_version(expect, self, self.version(module), more)

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        if backend == "cpu":
            return visible_cpu(None)
        found = []
        for index, device in enumerate(module.config.list_physical_devices("GPU")):
            facts = module.config.experimental.get_device_details(device)
            found.append({"device": "GPU:%d" % index, "name": str(facts.get("device_name", "")), "arch": ""})
        if not found:
            raise InWords("TensorFlow lists no GPU")
        return found

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        module.config.set_soft_device_placement(False)  # what the device cannot do must not wander to the CPU unseen
        with module.device("/CPU:0" if backend == "cpu" else "/" + name):
            return tensorflow_step(module, name, precision)

    def halves(self, module: Any, backend: str, name: str) -> List[str]:
        return [] if backend == "cpu" else ["float16"]


def tensorflow_step(tf: Any, name: str, precision: str) -> Document:
    """One step by tf.GradientTape on the device of the surrounding context."""
    model, kind = draw_model(), getattr(tf, precision)
    # Channels last: the CPU has no convolution for the other order.
    images = tf.transpose(tf.constant(model["images"], kind), (0, 2, 3, 1))
    weights = [
        tf.transpose(tf.constant(model["conv"], kind), (2, 3, 1, 0)),
        tf.constant(model["attention"], kind),
        tf.constant(model["head"], kind),
    ]
    labels = tf.constant([[float(place == label) for place in range(CLASSES)] for label in model["labels"]], kind)

    def loss(conv: Any, attention: Any, head: Any) -> Any:
        convolved = tf.nn.conv2d(tf.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0))), conv, strides=2, padding="VALID")
        tokens = tf.reshape(tf.tanh(convolved), (IMAGES, PLACES, WIDTH))
        query = tf.reshape(tf.matmul(tf.reshape(tokens, (-1, WIDTH)), attention), (IMAGES, PLACES, WIDTH))
        shares = tf.nn.softmax(tf.matmul(query, tokens, transpose_b=True) * 0.5)
        output = tf.matmul(tf.reduce_mean(tf.matmul(shares, tokens) + tokens, 1), head)
        return -tf.reduce_sum(tf.nn.log_softmax(output) * labels) / IMAGES

    with tf.GradientTape() as tape:
        for weight in weights:
            tape.watch(weight)
        before = loss(*weights)
    gradients = tape.gradient(before, weights)
    after = loss(*[weight - RATE * gradient for weight, gradient in zip(weights, gradients)])  # noqa: B905 - as above
    # "/job:localhost/replica:0/task:0/device:GPU:0"
    told = {str(result.device).rpartition("device:")[2] for result in (before, after, *gradients)}
    conv = tf.transpose(gradients[0], (3, 2, 0, 1))
    return {
        "loss_before": float(before.numpy()),
        "loss_after": float(after.numpy()),
        "landed": sorted("cpu" if place == "CPU:0" else place for place in told),
        "gradients": {
            part_: flat(tf.cast(gradient, tf.float32).numpy().tolist())
            for part_, gradient in zip(("conv", "attention", "head"), (conv, *gradients[1:]))  # noqa: B905 - as above
        },
    }


FRAMEWORKS["tensorflow"] = TensorFlow()


# ---- llamacpp ----------------------------------------------------------------------------------------------------


class LlamaCpp(Framework):
    """llama.cpp, through the library that computes for it: a graph of ggml's, given to one device and to no other."""

    name, module = "llamacpp", "llama_cpp"
    task = "infer"
    backends = ("cpu", "cuda", "rocm")

    def load(self) -> Any:
        return Ggml(ggml_folders())

    def judge_build(self, expect: Document, module: Any, measured: Document) -> Answer:
        measured["ggml"] = module.ggml
        pinned = framework_pin(expect, self.name).get("version", "")
        if pinned and not module.build:
            return SKIPPED, "nothing tells which build of llama.cpp this is; the plan wants %s (ggml %s)" % (pinned, module.ggml)
        if pinned and normal(module.build) != normal(pinned):
            return FAILED, "the plan wants llama.cpp %s, this one is %s" % (pinned, module.build)
        return PASSED, "llama.cpp %s, ggml %s" % (module.build or "of an unknown build", module.ggml)

    def visible(self, module: Any, backend: str, wanted: str) -> List[Document]:
        start = {"cpu": "CPU", "cuda": "CUDA", "rocm": "ROCm"}[backend]
        there = module.devices()
        mine = [(name, text) for name, text in there if name.startswith(start)]
        if not mine:
            raise InWords("ggml has %s alone" % (", ".join(name for name, _ in there) or "no device"))
        return [{"device": name, "name": text, "arch": ""} for name, text in mine]

    def run(self, module: Any, backend: str, name: str, precision: str) -> Document:
        return dict(module.infer(name))


def ggml_folders() -> List[str]:
    """Where llama.cpp's libraries may lie: beside its programs, in its image, in the package llama_cpp."""
    import importlib.util
    import shutil

    found = []
    for program in ("llama-cli", "llama-server", "llama-bench"):
        path = shutil.which(program)
        if path:
            folder = os.path.dirname(os.path.realpath(path))
            found += [folder, os.path.join(os.path.dirname(folder), "lib")]
    found.append("/app")
    package = importlib.util.find_spec("llama_cpp")
    for folder in (package.submodule_search_locations or []) if package else []:
        found.append(os.path.join(folder, "lib"))
    return [folder for folder in dict.fromkeys(found) if os.path.isdir(folder)]


class Ggml:
    """ggml's C functions, as far as a small graph needs them (ggml.h, ggml-backend.h)."""

    def __init__(self, folders: Sequence[str]) -> None:
        import ctypes

        self.c = ctypes
        form = {"win32": "%s.dll", "darwin": "lib%s.dylib"}.get(sys.platform, "lib%s.so")
        having = [folder for folder in folders if os.path.isfile(os.path.join(folder, form % "ggml"))]
        if not having:
            raise InWords("llama.cpp is not here: there is no %s beside llama-cli, in /app or in llama_cpp" % (form % "ggml"))
        self.folder = having[0]
        if hasattr(os, "add_dll_directory"):
            os.add_dll_directory(self.folder)
        self.libraries = []
        for name in ("ggml-base", "ggml"):
            path = os.path.join(self.folder, form % name)
            if os.path.isfile(path):  # old builds have all in one
                self.libraries.append(ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL))
        if not self.call("ggml_backend_dev_count", "n"):
            # Builds with a library for each kind of device load them from a folder.
            self.call("ggml_backend_load_all_from_path", "", self.folder.encode())
        self.__file__ = os.path.join(self.folder, form % "ggml")
        text = self.function("ggml_version")
        self.ggml = self.call("ggml_version", "s") if text else "of an unknown version"
        self.build = self.told_build()
        self.__version__ = self.build or self.ggml

    def told_build(self) -> str:
        """The number of the build that llama.cpp's program tells: "version: 11312 (0527ad1)"."""
        program = os.path.join(self.folder, "llama-cli")
        if not os.path.isfile(program):
            return ""
        try:
            ended = subprocess.run(
                [program, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        found = re.search(r"version: (\d+)", ended.stdout.decode("utf-8", "replace"))
        return found.group(1) if found else ""

    def function(self, name: str) -> Any:
        """A function of the libraries, None where this release has no such."""
        return next((getattr(library, name) for library in self.libraries if hasattr(library, name)), None)

    def call(self, name: str, gives: str, *words: Any) -> Any:
        """What a C function gives: "p" a pointer, "n" a size, "i" a number, "s" a text, "" nothing."""
        function = self.function(name)
        if function is None:
            raise InWords("this release of ggml has no %s" % name)
        c = self.c
        function.restype = {"p": c.c_void_p, "n": c.c_size_t, "i": c.c_int, "s": c.c_char_p, "": None}[gives]
        result = function(*words)
        return (result or b"").decode("utf-8", "replace") if gives == "s" else result

    def devices(self) -> List[Tuple[str, str]]:
        """The devices by name, each with what it is."""
        found = []
        for index in range(self.call("ggml_backend_dev_count", "n")):
            device = self.c.c_void_p(self.call("ggml_backend_dev_get", "p", self.c.c_size_t(index)))
            found.append(
                (self.call("ggml_backend_dev_name", "s", device), self.call("ggml_backend_dev_description", "s", device))
            )
        return found

    def infer(self, name: str) -> Document:
        """The forward pass of the reference model on a device; ggml hands no part of such a graph to another one."""
        c = self.c
        place = [known for known, _ in self.devices()].index(name)
        device = c.c_void_p(self.call("ggml_backend_dev_get", "p", c.c_size_t(place)))
        backend = c.c_void_p(self.call("ggml_backend_dev_init", "p", device, None))
        if not backend:
            raise InWords("ggml cannot start %s" % name)

        class Memory(c.Structure):  # type: ignore[misc, name-defined]
            _fields_ = (("size", c.c_size_t), ("buffer", c.c_void_p), ("no_alloc", c.c_bool))

        context = c.c_void_p(self.call("ggml_init", "p", Memory(1 << 22, None, True)))
        inputs: List[Tuple[Any, List[float]]] = []
        nodes: List[Any] = []

        def tensor(values: Any, *shape: int) -> Any:
            sizes = [c.c_int64(size) for size in (*shape, 1, 1)[:3]]
            made = c.c_void_p(self.call("ggml_new_tensor_3d", "p", context, c.c_int(0), *sizes))
            inputs.append((made, flat(values)))
            return made

        def node(operation: str, *words: Any) -> Any:
            made = c.c_void_p(self.call("ggml_" + operation, "p", context, *words))
            nodes.append(made)
            return made

        def product(left: Any, right: Any) -> Any:  # every row of `right` with every row of `left`
            made = node("mul_mat", left, right)
            if self.function("ggml_mul_mat_set_prec"):
                self.call("ggml_mul_mat_set_prec", "", made, c.c_int(10))  # GGML_PREC_F32
            return made

        model = draw_model()
        seen = tensor([patches(image) for image in model["images"]], 9 * CHANNELS, PLACES, IMAGES)
        tokens = node("tanh", product(tensor(model["conv"], 9 * CHANNELS, WIDTH), seen))
        query = product(tensor(turned(model["attention"]), WIDTH, WIDTH), tokens)
        shares = node("soft_max", node("scale", product(tokens, query), c.c_float(0.5)))
        mixed = node("add", product(node("cont", node("transpose", tokens)), shares), tokens)
        pooled = node("mean", node("cont", node("transpose", mixed)))
        pooled = node("reshape_2d", pooled, c.c_int64(WIDTH), c.c_int64(IMAGES))
        output = product(tensor(turned(model["head"]), WIDTH, CLASSES), pooled)

        unable = [made for made in nodes if not self.call("ggml_backend_dev_supports_op", "i", device, made) & 255]
        if unable:
            raise InWords("%s lacks %d of the %d operations of the reference model" % (name, len(unable), len(nodes)))
        graph = c.c_void_p(self.call("ggml_new_graph", "p", context))
        self.call("ggml_build_forward_expand", "", graph, output)
        if not self.call("ggml_backend_alloc_ctx_tensors", "p", context, backend):
            raise InWords("there is no memory on %s for the reference model" % name)
        for made, values in inputs:
            data = (c.c_float * len(values))(*values)
            self.call("ggml_backend_tensor_set", "", made, data, c.c_size_t(0), c.c_size_t(c.sizeof(data)))
        status = self.call("ggml_backend_graph_compute", "i", backend, graph)
        if status:
            raise InWords("ggml could not compute on %s (status %d)" % (name, status))
        result = (c.c_float * (IMAGES * CLASSES))()
        self.call("ggml_backend_tensor_get", "", output, result, c.c_size_t(0), c.c_size_t(c.sizeof(result)))
        landed = self.call("ggml_backend_name", "s", backend)
        return {"landed": [landed], "outputs": {"output": [float(value) for value in result]}}


FRAMEWORKS["llamacpp"] = LlamaCpp()


# ---- compute: these run in the worker ----------------------------------------------------------------------------


def compare(result: Document, reference: Document) -> Document:
    """How far a step lies from its reference: the largest difference, absolute and relative to its tensor's largest value."""
    pairs = []
    if "gradients" in result:
        pairs = [(key, result[key] - reference[key], reference[key]) for key in ("loss_before", "loss_after")]
        pairs = [(key.replace("_", " ") + " the step", difference, size) for key, difference, size in pairs]
    for kind, title in (("gradients", "gradient of "), ("outputs", "")):
        for name, value in result.get(kind, {}).items():
            pairs.append((title + name, *apart(value, reference[kind][name])))
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


def apart(values: Any, reference: Any) -> Tuple[float, float]:
    """The largest difference of two tensors or lists of numbers, and the size of the reference: its largest value."""
    if not isinstance(reference, list):
        return (values - reference).abs().max().item(), reference.abs().max().item()
    if len(values) != len(reference):
        raise InWords("the result has %d numbers, the reference %d" % (len(values), len(reference)))
    differences = [abs(a - b) for a, b in zip(values, reference)]  # noqa: B905 - as above
    broken = [difference for difference in differences if difference != difference]
    return (broken or [max(differences)])[0], max(map(abs, reference))


def same_device(asked: str, landed: str) -> bool:
    """Whether a tensor lies where it was asked for: "mps" and "mps:0" are one place, "cpu" is never an accelerator."""
    asked_kind, _, asked_index = asked.partition(":")
    kind, _, index = landed.partition(":")
    return kind == asked_kind and (index or "0") == (asked_index or "0")


def judge_step(asked: str, step: Document) -> Answer:
    """Whether the step really happened on the device, stayed finite and lowered the loss."""
    astray = [place for place in step["landed"] if not same_device(asked, place)]
    if astray:
        if "cpu" in [place.lower().replace("executionprovider", "") for place in astray]:
            return FAILED, "fell back to the CPU: the plan computes on %s, results lie on %s" % (asked, ", ".join(step["landed"]))
        return FAILED, "the plan computes on %s, results lie on %s" % (asked, ", ".join(step["landed"]))
    if "loss_before" not in step:
        if not step["finite"]:
            return FAILED, "the inference on %s gave values that are not finite" % asked
        return PASSED, "on %s one inference in %.3g s" % (asked, step["step_seconds"])
    before, after = step["loss_before"], step["loss_after"]
    if finite(before) is None or finite(after) is None or not step["finite"]:
        return FAILED, "the step on %s gave values that are not finite (loss %s, then %s)" % (asked, before, after)
    if not after < before:
        return FAILED, "the loss did not fall on %s: %.6g, then %.6g" % (asked, before, after)
    return PASSED, "on %s the loss fell from %.6g to %.6g" % (asked, before, after)


def judge_same(backend: str, asked: str, step: Document, against: str = "", most: float = 0.0) -> Answer:
    """Whether forward and backward equal the reference within the tolerance, or within `most`."""
    tolerance = most or TOLERANCE[backend]
    against = against or ("the same step in float64" if backend == "cpu" else "the same step on the CPU")
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


def judge_half(precision: str, backend: str, asked: str, step: Document, against: str) -> Answer:
    """Whether a step in 16 bits happened on the device and came as near to the reference as 16 bits can."""
    answer = judge_step(asked, step)
    if answer[0] != PASSED:
        return answer
    same = judge_same(backend, asked, step, against, HALF_TOLERANCE[precision])
    return same if same[0] != PASSED else (PASSED, "%s; %s" % (answer[1], same[1]))


# How frameworks say that a device has no arithmetic for a number format: that is an answer, not a fault.
UNABLE = ("not implemented", "not supported", "unsupported", "does not support", "doesn't support", "NOT_IMPLEMENTED")


def judge_memory(asked: str, before: int, after: int) -> Answer:
    """Whether a second step left no more behind on the device than the first: libraries keep workspaces, steps keep nothing."""
    if after > before:
        return FAILED, "a step leaves %d bytes behind on %s: memory is not given back" % (after - before, asked)
    return PASSED, "a further step gave back all that it took on %s; %d KiB stay with the libraries" % (asked, after // 1024)


def compute_on(
    framework: Framework, module: Any, backend: str, device: Document, precision: str, reference: Document
) -> Document:
    """What a step on the device gave and how far it lies from the reference, as plain values."""
    name = str(device.get("use") or device["device"])
    started = time.perf_counter()
    step = framework.run(module, backend, name, precision)
    step["step_seconds"] = round(time.perf_counter() - started, 4)
    step["landed"] = [device["device"] if same_device(name, place) else place for place in step["landed"]]
    step.update(compare(step, reference))
    values = list(step.pop("gradients", step.pop("outputs", {})).values())
    step["finite"] = all(all_finite(value) for value in values)
    return step


def judge_sum(got: Sequence[float], world: int, library: str, names: str) -> Answer:
    """Whether the sum over `world` processes or devices, each with 0, 1, 2, ... plus its own number, is right to the last bit."""
    wrong = [place for place, value in enumerate(got) if value != place * world + world * (world - 1) / 2]
    if wrong or len(got) != 1024:
        return FAILED, "%s gave a wrong sum over %s, at %d of 1024 places" % (library, names, len(wrong) or 1024)
    if world == 1:
        return PASSED, "%s answers on %s; with one device there is nothing to sum over" % (library, names)
    return PASSED, "%s summed 1024 numbers over %d: %s" % (library, world, names)


def judge_parallel(result: Document, reference: Document, equal: bool, world: int, backend: str) -> Answer:
    """Whether a data-parallel step equals the step of the whole batch, and left the same weights everywhere."""
    before, after = result["loss_before"], result["loss_after"]
    found = compare(result, reference)
    if not found["max_rel_diff"] <= TOLERANCE[backend]:
        words = "%s differs from the step of the whole batch by %.3g of its size (at most %g is allowed)"
        return FAILED, words % (found["worst"], found["max_rel_diff"], TOLERANCE[backend])
    if not equal:
        return FAILED, "the weights are no longer the same on all %d after one step" % world
    if not after < before:
        return FAILED, "the loss did not fall: %.6g, then %.6g" % (before, after)
    words = "a batch spread over %d gave the step of the whole (largest relative difference %.3g)"
    return PASSED, words % (world, found["max_rel_diff"])


def measure_rates(
    multiply: Callable[[int], Callable[[], Any]],
    move: Callable[[int], Callable[[], Any]],
    wait: Callable[[Any], None],
    kind: str,
    small: bool,
) -> Document:
    """The rates of matrix products (of a size that keeps the device busy) and of copies inside its memory."""
    size, work = 1024, multiply(1024)
    while size < (2048 if small else 8192) and calls_per_second(work, wait, 0.0) > 50:
        size, work = size * 2, multiply(size * 2)
    products = calls_per_second(work, wait, 0.3)
    del work
    count = (64 if small else 256) << 20
    copies = calls_per_second(move(count), wait, 0.3)
    return {
        "matmul_tflops": round(products * 2.0 * size**3 / 1e12, 4),
        "matmul_format": kind,
        "matmul_size": size,
        "copy_gbytes": round(copies * 2.0 * count / 1e9, 3),  # each byte is read and written
    }


def calls_per_second(work: Callable[[], Any], wait: Callable[[Any], None], seconds: float) -> float:
    """How often `work` can be done in a second, after it was done once to warm up."""
    wait(work())
    wait(work())
    calls, batch, started = 0, 1, time.perf_counter()
    while True:
        for _ in range(batch):
            result = work()
        wait(result)
        calls += batch
        spent = time.perf_counter() - started
        if spent >= seconds:
            return calls / spent
        batch = min(64, batch * 2)


# What devices compute at most, by what their names contain: 10^12 operations on 16-bit numbers a second (dense), and 10^9
# bytes of memory a second. Of several variants the least. From the makers' pages as quoted in pytorch/torchtitan
# tools/utils.py @02581674, Lightning-AI/pytorch-lightning fabric/utilities/throughput.py @0810121f, and (memory)
# allenai/open-instruct's GPU_SPECS and glennklockwood.com/garden/processors/A100.
PEAKS: Tuple[Tuple[str, float, float], ...] = (
    (r"\bA100\b", 312, 1555),
    (r"\bA10G\b", 125, 0),
    (r"\bB200\b", 2250, 8000),
    (r"\bH100 80GB HBM3\b", 989, 3350),
    (r"\bH100 NVL\b", 835, 0),
    (r"\bH100 PCIe\b", 756, 0),
    (r"\bH200\b", 989, 4800),
    (r"\bL40S\b", 362, 864),
    (r"\bMI250X\b", 191.5, 0),
    (r"\bMI300X\b", 1300, 0),
    (r"\bMI325X\b", 1300, 0),
    (r"\bT4\b", 65, 0),
    (r"\bV100\b", 112, 0),
)
# A slice of a card, or one that has less power, is another device than its name says.
PARTIAL = re.compile(r"\bMIG\b|Laptop|Max-Q|\bv?GRID\b", re.IGNORECASE)
# What a working device reaches at least of its most. One without its clocks, its power or its tensor units computes at a
# tenth; ordinary losses (heat, a shared card, a small matrix) leave more than a third.
FLOOR = 0.2


def peaks_of(name: str) -> Tuple[float, float]:
    """The most that a device of this name computes and copies; 0.0 where that is not known."""
    if PARTIAL.search(name):
        return 0.0, 0.0
    return next(((compute, memory) for pattern, compute, memory in PEAKS if re.search(pattern, name)), (0.0, 0.0))


def judge_rate(what: str, value: float, unit: str, most: float, name: str) -> Answer:
    """Whether a rate is one of a working device; no verdict where nothing is known to compare it with."""
    shown = "%s %.4g %s" % (what, value, unit)
    if not most:
        return SKIPPED, "%s; measured only: no floor is known for %s" % (shown, name or "this device")
    floor = most * FLOOR
    if not value >= floor:
        words = "%s, of the %.4g that %s is made for: a working one reaches %.4g at least"
        return FAILED, words % (shown, most, name, floor)
    return PASSED, "%s, %.0f%% of what %s is made for" % (shown, 100.0 * value / most, name)


def all_finite(values: Any) -> bool:
    """Whether a tensor or a list of numbers holds no NaN and no infinity."""
    return all(map(math.isfinite, values)) if isinstance(values, list) else bool(values.isfinite().all())


# ---- the worker --------------------------------------------------------------------------------------------------


def work() -> None:
    """The worker's whole life: reads its task from standard input, sends a line for each thing found, never returns."""
    task = json.loads(sys.stdin.buffer.readline().decode("utf-8"))
    results = claim_output()

    def emit(event: Document) -> None:
        write_all(results, json.dumps(finite(event)) + "\n")

    die_with(int(task["parent"]))
    for name, value in WORKER_ENV.get(task["framework"], {}).items():
        os.environ.setdefault(name, value)
    for name, value in task["env"].items():
        os.environ[name] = value
    import faulthandler
    import warnings

    errors = os.dup(2)  # where standard error leads while a check listens to it does not matter to what follows
    faulthandler.enable(errors)
    # Tells where a worker hangs, shortly before the parent ends it. It needs no lock, so a call into a driver that
    # never comes back does not silence it.
    faulthandler.dump_traceback_later(max(0.1, float(task["limit"]) - min(1.0, float(task["limit"]) / 4)), file=errors)
    warnings.filterwarnings("ignore", message=".*[Nn]um[Pp]y.*")
    try:
        TASKS[task["kind"]](task, emit)
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
    """The framework checks, and the step on the first device."""
    expect, backend = task["expect"], task["backend"]
    framework = FRAMEWORKS[task["framework"]]
    measured: Document = {}
    held: Document = {}

    def importing() -> Answer:
        held["module"] = load_framework(expect, measured)
        others = load_plugins(expect, backend) + load_companions(expect, task["on_cpu"])
        words = "%s %s in %.2f s" % (framework.name, measured[framework.name], measured["import_seconds"])
        return PASSED, words + "".join(", " + name for name in dict.fromkeys(others))

    fine = stage(emit, "import", importing)
    emit({"measured": measured})
    module = held.get("module")
    if module is None or not fine:
        return
    built: Document = {}
    stage(emit, "framework-build", lambda: framework.judge_build(expect, module, built))
    emit({"measured": built})

    devices: List[Document] = []

    def looking() -> Answer:
        wanted = "cpu" if task["on_cpu"] else part(expect, "backend", "device")
        answer, found = find_devices(module, backend, framework.name, wanted)
        devices.extend(found)
        if task["on_cpu"] and found:
            return SKIPPED, "no accelerator was asked for: the step runs on the CPU"
        return answer

    stage(emit, "device-visible", looking)
    compiled = framework.arch_list(module, backend) if devices else None
    if compiled is not None:
        emit({"measured": {"arch_list": compiled}})
        planned = part(expect, "accelerator", "arch")
        stage(emit, "device-code", lambda: framework.judge_code(backend, devices, compiled, planned))
    mine = devices if framework.alone(backend) else devices[:1]
    emit({"devices": devices, "here": len(mine)})
    if not reaches(task["level"], "compute"):
        return
    for index, device in enumerate(mine):
        device_task(framework, module, backend, device, "/" + device["device"] if index else "", emit)


def further_task(task: Document, emit: Emit) -> None:
    """The step on one further device."""
    framework = FRAMEWORKS[task["framework"]]
    module = load_framework(task["expect"], {})
    load_plugins(task["expect"], task["backend"])
    device_task(framework, module, task["backend"], task["device"], "/" + task["device"]["device"], emit)


def collective_task(task: Document, emit: Emit) -> None:
    """The collective checks of one process."""
    framework = FRAMEWORKS[task["framework"]]
    module = load_framework(task["expect"], {})
    load_plugins(task["expect"], task["backend"])
    framework.collective(module, task["backend"], task["group"], emit)


def speed_task(task: Document, emit: Emit) -> None:
    """The rates of one device, or of several where only one process reaches them."""
    framework, backend = FRAMEWORKS[task["framework"]], task["backend"]
    module = load_framework(task["expect"], {})
    load_plugins(task["expect"], backend)
    for device, suffix in task["devices"]:
        name, product = device["device"], device["name"]
        rates: Document = {}

        def multiplying(device: Document = device, rates: Document = rates, product: str = product) -> Answer:
            found = framework.rates(module, backend, str(device.get("use") or device["device"]))
            if found is None:
                return SKIPPED, "this probe has no way to measure %s on %s" % (framework.name, TITLES[backend])
            rates.update(found)
            what = "products of %d x %d in %s:" % (rates["matmul_size"], rates["matmul_size"], rates["matmul_format"])
            most = peaks_of(product)[0] if rates["matmul_format"] != "float32" else 0.0
            return judge_rate(what, rates["matmul_tflops"], "TFLOP/s", most, product)

        def copying(rates: Document = rates, product: str = product) -> Answer:
            return judge_rate("copies in its memory:", rates["copy_gbytes"], "GB/s", peaks_of(product)[1], product)

        stage(emit, "matmul-rate" + suffix, multiplying)
        if rates:
            stage(emit, "copy-rate" + suffix, copying)
            emit({"computed": dict({"device": name}, **rates)})


TASKS = {"first": first_task, "further": further_task, "collective": collective_task, "speed": speed_task}


def device_task(framework: Framework, module: Any, backend: str, device: Document, suffix: str, emit: Emit) -> None:
    """The compute checks of one device."""
    name = device["device"]
    kind = framework.task + "-step"
    if device.get("code") is False:
        answer = (SKIPPED, "%s (%s) has no code in this build" % (name, device["arch"]))
        stage(emit, kind + suffix, lambda: answer)
        return
    os.environ.update(device.get("env") or {})
    use = str(device.get("use") or name)
    step: Document = {}
    held: Document = {}

    def training() -> Answer:
        held["reference"] = framework.reference(module, backend)
        step.update(compute_on(framework, module, backend, device, "float32", held["reference"]))
        return judge_step(name, step)

    fine = stage(emit, kind + suffix, training)
    if not step:
        return
    against = framework.against(backend)
    fine = stage(emit, "same-result" + suffix, lambda: judge_same(backend, name, step, against)) and fine
    values: Document = {key: step[key] for key in ("loss_before", "loss_after", "max_rel_diff", "step_seconds") if key in step}
    values["max_abs_diff_to_cpu"] = step["max_abs_diff"]
    if fine:
        for precision in framework.halves(module, backend, use):
            question = functools.partial(half, framework, module, backend, device, precision, held)
            stage(emit, SHORT[precision] + suffix, question)
        freed(framework, module, backend, device, suffix, emit, values)
    emit({"computed": dict({key: device[key] for key in device if key not in ("env", "use")}, **values)})


def half(framework: Framework, module: Any, backend: str, device: Document, precision: str, held: Document) -> Answer:
    """The answer about a step in 16 bits; skipped where the device has no arithmetic for them."""
    try:
        step = compute_on(framework, module, backend, device, precision, held["reference"])
    except Exception as fault:
        if isinstance(fault, NotImplementedError) or any(sign in str(fault) for sign in UNABLE):
            return SKIPPED, "%s does not compute in %s: %s" % (device["device"], precision, describe(fault))
        raise
    return judge_half(precision, backend, device["device"], step, framework.against(backend))


def freed(framework: Framework, module: Any, backend: str, device: Document, suffix: str, emit: Emit, values: Document) -> None:
    """The check that steps give their memory back, where the framework says what it holds."""
    import gc

    use = str(device.get("use") or device["device"])

    def held_now() -> Optional[int]:
        gc.collect()
        return framework.memory(module, backend, use)

    if framework.memory(module, backend, use) is None:
        return

    def freeing() -> Answer:
        framework.run(module, backend, use, "float32")
        before = held_now()
        framework.run(module, backend, use, "float32")
        after = held_now()
        values["held_bytes"] = after
        return judge_memory(device["device"], before or 0, after or 0)

    stage(emit, "memory-freed" + suffix, freeing)


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

    def broke(self) -> bool:
        """Whether it told of a failure, or went away without coming to its end."""
        with self.changed:
            failed = any(event.get("check", {}).get("outcome") == FAILED for event in self.events)
            return failed or (self.done and not any("end" in event for event in self.events))

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
    "import": "importing %s",
    "framework-build": "reading the build",
    "device-visible": "looking for devices",
    "device-code": "reading the compiled architectures",
    "train-step": "training a step",
    "infer-step": "computing an inference",
    "same-result": "comparing results",
    "bf16-step": "computing in bfloat16",
    "fp16-step": "computing in float16",
    "memory-freed": "looking at its memory",
    "all-reduce": "summing over all",
    "data-parallel": "training on all",
    "matmul-rate": "measuring products",
    "copy-rate": "measuring copies",
}


def broken(worker: Worker, hung: bool, status: Optional[int], limit: float) -> Optional[Document]:
    """The failed check of a worker that hung or crashed; None for one that came to its end."""
    if worker.said("end"):
        return None
    pending = worker.pending()
    base = pending.split("/")[0]
    errors = worker.errors.decode("utf-8", "replace")
    if not base and worker.said("check"):
        base = "going from one check to the next"
    doing = DOING.get(base, base).replace("%s", worker.task.get("framework") or "torch")
    doing += " on " + worker.task["device"]["device"] if worker.task.get("device") else ""
    place = innermost(errors)
    where = " (%s)" % place if place else ""
    # The watchdog, which tells where a worker hangs, looks at Python while it runs and may crash over it: the time was up.
    if hung or errors.startswith("Timeout (") or "\nTimeout (" in errors:
        words = "did not come back within %g s while %s%s: hung, and was killed" % (limit, doing, where)
    else:
        said = last_words(errors)
        words = "the process %s while %s%s%s" % (ending(status), doing, where, ": " + one_line(said, 160) if said else "")
    identity = pending or worker.task.get("blame") or "import"
    return check(identity, LEVEL_OF[identity.split("/")[0]], (FAILED, words), time.monotonic() - worker.started)


def reaches(level: str, wanted: str) -> bool:
    """Whether a proof up to `level` asks what belongs to `wanted`."""
    return LEVELS.index(level) >= LEVELS.index(wanted)


# Checks that are only there where a device or a framework has what they ask about.
WHERE_FIT = ("bf16-step", "fp16-step", "memory-freed")


def fill_up(checks: List[Document], level: str, backend: str, framework: str = "torch") -> None:
    """Adds what was not reached as skipped, so that a missing check cannot be taken for a passed one."""
    have = {found["id"] for found in checks}
    blocker = next((found["id"] for found in checks if found["outcome"] == FAILED and reaches(found["level"], "framework")), "")
    for identity, its_level in CHECKS:
        wanted = reaches(its_level, "framework") and reaches(level, its_level)
        if not wanted or identity in have or identity in WHERE_FIT:
            continue
        if identity == "device-code" and (framework != "torch" or backend not in ("cuda", "rocm", "xpu")):
            continue
        if identity == ("infer-step" if task_of(framework) == "train" else "train-step"):
            continue
        why = "not reached, since %s failed" % blocker if blocker else "not reached"
        checks.append(check(identity, its_level, (SKIPPED, why), 0.0))
    order = {identity: position for position, (identity, _) in enumerate(CHECKS)}
    checks.sort(
        key=lambda found: (LEVELS.index(found["level"]), found["id"].partition("/")[2] != "", order[found["id"].split("/")[0]])
    )


# What keeps a framework from looking for accelerators that were not asked for.
CPU_ALONE = {"JAX_PLATFORMS": "cpu", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def task_of(framework: str) -> str:
    """Whether a framework proves itself by a training step or by an inference."""
    return FRAMEWORKS[framework].task if framework in FRAMEWORKS else "train"


class Proving:
    """The workers of one proof, in phases: one that is over makes room for the next."""

    def __init__(self, expect: Document, level: str, limit: float, on_cpu: bool) -> None:
        self.expect, self.level, self.limit, self.on_cpu = expect, level, limit, on_cpu
        self.deadline = time.monotonic() + limit
        self.backend = "cpu" if on_cpu else part(expect, "backend", "name")
        self.framework = part(expect, "framework", "name") or "torch"
        self.able = self.framework in FRAMEWORKS and self.backend in FRAMEWORKS[self.framework].backends
        self.measured: Document = {}
        self.checks: List[Document] = []
        self.workers: List[Worker] = []
        self.changed = threading.Condition()

    def start(self, kind: str, device: Optional[Document] = None, blame: str = "import", **more: Any) -> Worker:
        """A new worker, with its task."""
        env = self.expect.get("env")
        task = {
            "kind": kind,
            "expect": self.expect,
            "framework": self.framework,
            "backend": self.backend,
            "device": device,
            "blame": blame,
            "level": self.level,
            "limit": max(0.5, self.deadline - time.monotonic()),
            "on_cpu": self.on_cpu,
            "parent": os.getpid(),
            "env": dict(
                {str(k): str(v) for k, v in env.items()} if isinstance(env, dict) else {},
                **(dict(device.get("env") or {}) if device else {}),
                **(CPU_ALONE if self.on_cpu else {}),
                **more.pop("env", {}),
            ),
        }
        worker = Worker(dict(task, **more), self.changed)
        self.workers.append(worker)
        return worker

    def first(self) -> List[Document]:
        """The framework, and a step on every device; the devices that were found."""
        if not self.able:
            what = self.framework if self.framework in FRAMEWORKS else "the framework %r" % self.framework
            what += " on %r" % self.backend if self.framework in FRAMEWORKS else ""
            self.checks.append(check("import", "framework", (FAILED, "this probe does not know %s" % what), 0.0))
            return []
        first, spread = self.workers[0], False
        devices: List[Document] = []
        with self.changed:
            while not all(worker.done for worker in self.workers):
                found = [event for event in first.events if "devices" in event]
                if found and not spread:
                    spread = True
                    devices = found[0]["devices"]
                    if reaches(self.level, "compute"):
                        for device in devices[found[0]["here"] :]:
                            self.start("further", device, "%s-step/%s" % (task_of(self.framework), device["device"]))
                left = self.deadline - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(min(left, 1.0))
        # What is known when the last one ends counts too: a short proof is over before anybody looked.
        devices = devices or [device for event in first.events if "devices" in event for device in event["devices"]]
        self.take_over()
        return [device for device in devices if device.get("code") is not False]

    def wait(self, together: bool = False) -> None:
        """Waits for all workers; of those that work together, one that broke ends the others soon."""
        soon = self.deadline
        with self.changed:
            while not all(worker.done for worker in self.workers):
                if together and any(worker.broke() for worker in self.workers):
                    soon = min(soon, time.monotonic() + 2.0)
                    together = False
                left = min(self.deadline, soon) - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(min(left, 0.5))

    def take_over(self) -> None:
        """Ends the workers and takes over what they told."""
        for worker in self.workers:
            collect(worker, self.checks, self.measured, self.limit)
        self.workers = []

    def collective(self, devices: Sequence[Document]) -> None:
        """All-reduce and a data-parallel step over all devices: what the processes of a group tell, as one check each."""
        import shutil
        import tempfile

        groups, why = FRAMEWORKS[self.framework].ranks(self.backend, devices)
        if not groups:
            for identity in ("all-reduce", "data-parallel"):
                self.checks.append(check(identity, "collective", (SKIPPED, why), 0.0))
            return
        folder = tempfile.mkdtemp(prefix="envkit-")
        try:
            for rank, mine in enumerate(groups):
                world = len(groups)
                group = {
                    "rank": rank,
                    "world": world,
                    "use": str(mine[0].get("use") or mine[0]["device"]),
                    "names": ", ".join(device["device"] for members in groups for device in members),
                    "meet": "file://" + ("/" if os.name == "nt" else "") + os.path.join(folder, "meet").replace("\\", "/"),
                    "limit": max(0.5, self.deadline - time.monotonic()),
                }
                # As torchrun sets them. The processes meet in a file and speak over the machine's own address: a container
                # may have no other, and a name that leads nowhere.
                env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
                if os.path.exists("/sys/class/net/lo"):
                    env.update({name: os.environ.get(name, "lo") for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")})
                self.start("collective", mine[0], "all-reduce", group=group, env=env)
            self.wait(together=True)
            self.take_group()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def take_group(self) -> None:
        """Makes one check out of what each process of a group told of it: that of the first process, or why one failed.

        One that vanished is named before those that complain of its absence; who hung beside one that broke only waited.
        """
        told: Dict[str, List[Document]] = {}
        count = len(self.workers)
        broke = [worker.broke() for worker in self.workers]
        for rank, worker in enumerate(self.workers):
            mine: List[Document] = []
            hung, vanished = not worker.done, worker.done and not worker.said("end")
            collect(worker, mine, self.measured, self.limit)
            for found in mine:
                if hung and any(broke):
                    continue
                place = len(told.setdefault(found["id"], []))
                if found["outcome"] == FAILED:
                    found["detail"] = (
                        one_line("process %d of %d: %s" % (rank + 1, count, found["detail"])) if count > 1 else found["detail"]
                    )
                    place = 0 if vanished else place
                told[found["id"]].insert(place, found)
        for found_all in told.values():
            failed = [found for found in found_all if found["outcome"] == FAILED]
            self.checks.append((failed or found_all)[0])
        self.workers = []

    def speed(self, devices: Sequence[Document]) -> None:
        """The rates of the devices, one after the other: they share the way to memory, and a processor."""
        pairs = [(device, "/" + device["device"] if place else "") for place, device in enumerate(devices)]
        together = FRAMEWORKS[self.framework].alone(self.backend)
        for some in [pairs] if together else [[pair] for pair in pairs]:
            self.start("speed", some[0][0], "matmul-rate" + some[0][1], devices=some)
            self.wait()
            self.take_over()


def prove(expect: Document, level: str, limit: float, on_cpu: bool) -> Document:
    """The whole document: all checks up to `level`, within `limit` seconds."""
    proving = Proving(expect, level, limit, on_cpu)
    deep = reaches(level, "framework")
    checks, measured = proving.checks, proving.measured
    try:
        if deep and proving.able:
            proving.start("first")
        checks.extend(local_checks(expect, measured, level, on_cpu))
        if deep:
            devices = proving.first()
            for its_level, phase in (("collective", proving.collective), ("speed", proving.speed)):
                fine = devices and FAILED not in {found["outcome"] for found in checks if reaches(found["level"], "framework")}
                if fine and reaches(level, its_level):
                    phase(devices)
    finally:
        for worker in proving.workers:
            worker.stop()
    if deep:
        fill_up(checks, level, proving.backend, proving.framework)
    computed = measured.get("devices", [])
    if computed:
        for key in ("device", "name", "loss_before", "loss_after", "max_abs_diff_to_cpu"):
            if key in computed[0]:
                measured["device_name" if key == "name" else key] = computed[0][key]
    measured["platform"] = sys.platform
    measured["backend"] = proving.backend
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
    devices = measured.setdefault("devices", []) if worker.said("computed") else []
    for values in worker.said("computed"):
        known = [device for device in devices if device["device"] == values["device"]]
        if known:
            known[0].update(values)
        else:
            devices.append(values)
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
    parser = argparse.ArgumentParser(prog="probe.py", description="Proves an environment by computing in it.")
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
    return 0 if document["passed"] or (not reaches(options.level, "compute") and not failed) else 1


def leave(number: int, frame: Optional[FrameType]) -> None:
    """Turns a request to end into an exception, so that the workers are ended on the way out."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    if "WORKER" in globals():
        work()
    else:
        sys.exit(main(sys.argv[1:]))
