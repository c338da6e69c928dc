"""From a raw document to facts: pure, and never stopped by what a machine said."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envkit.detect import amd, apple, ascend, inside, intel, linux, macos, nvidia, others, releases, windows
from envkit.detect.catalogue import product
from envkit.detect.excerpts import Privacy
from envkit.detect.raw import Found, Raw, Seen, first_match
from envkit.model import DriverFacts, Facts, Gpu, Machine, PythonFacts

# Written out, never collected by scanning; the order is that in which drivers are preferred for `machine.driver`.
PROBES: tuple[Callable[[Raw, Sequence[Seen]], Found], ...] = (
    nvidia.read,
    amd.read,
    ascend.read,
    intel.read,
    apple.read,
    others.read,
)

SYSTEMS: Mapping[str, tuple[Callable[[Raw], Machine], Callable[[Raw], list[Seen]]]] = {
    "linux": (linux.machine, linux.devices),
    "windows": (windows.machine, windows.devices),
    "macos": (macos.machine, macos.devices),
}


def parse(document: Mapping[str, Any]) -> Facts:
    """The facts that a raw document holds."""
    raw = Raw(document)
    system = raw.text("os")
    read_machine, read_devices = SYSTEMS.get(system, SYSTEMS["linux"])
    devices = read_devices(raw)
    found = [probe(raw, devices) for probe in PROBES]
    privacy = Privacy()
    machine = _with_accelerators(read_machine(raw), found)
    evidence = _evidence(raw, system, found)
    return Facts(
        machine=machine,
        python=python(raw),
        torch=torch(raw),
        env={name: privacy.clean(value) for name, value in raw.table("env").items() if isinstance(value, str)},
        evidence=privacy.table(evidence),
    )


def _with_accelerators(machine: Machine, found: Sequence[Found]) -> Machine:
    gpus = sorted((gpu for part in found for gpu in part.gpus), key=lambda gpu: gpu.pci_address)
    drivers = {part.vendor: part.driver for part in found if part.vendor and part.driver != DriverFacts()}
    present = {gpu.vendor for gpu in gpus}
    foremost = min(gpus, key=_rank, default=None)
    if foremost:
        driver = drivers.get(foremost.vendor, DriverFacts())
    else:
        # A driver or toolkit without a device of its vendor is still a fact, as long as it is clear whose it is.
        driver = next(iter(drivers.values())) if len(drivers) == 1 else DriverFacts()
    # A lone table says whose it is by the devices beside it; without those, or with several, each is named.
    several = len(present | set(drivers)) > 1 or not present
    return replace(machine, gpus=tuple(gpus), driver=driver, drivers=drivers if several else {})


def _rank(gpu: Gpu) -> tuple[bool, int, str]:
    order = ("nvidia", "amd", "huawei", "intel", "apple")
    return (_is_integrated(gpu), order.index(gpu.vendor) if gpu.vendor in order else len(order), gpu.pci_address)


def _is_integrated(gpu: Gpu) -> bool:
    known = product(gpu.pci_id)
    # Intel's own graphics always sit at this address; AMD's are known by the product.
    return bool(known and known.kind in ("apu", "integrated", "igpu")) or (
        gpu.vendor == "intel" and gpu.pci_address == "0000:00:02.0"
    )


def _evidence(raw: Raw, system: str, found: Sequence[Found]) -> dict[str, str]:
    evidence: dict[str, str] = {}
    if system == "macos":
        evidence.update(macos.evidence(raw))
    elif system == "windows":
        evidence.update(windows.evidence(raw))
    else:
        evidence.update(linux.evidence(raw))
    for part in found:
        evidence.update(part.evidence)
    twice = _installed_twice(raw)
    if twice:
        evidence["sys.path"] = twice
    evidence.update(inside.evidence(raw))
    faults = raw.texts("faults")
    if faults:
        evidence["envkit detect"] = "\n".join(faults)
    return evidence


# ---- Python ------------------------------------------------------------------------------------------------------


def normalised(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _distributions(raw: Raw) -> list[tuple[str, str, str]]:
    value = raw.get("python", "distributions")
    rows = value if isinstance(value, list) else []
    return [
        (normalised(row[0]), row[1], row[2])
        for row in rows
        if isinstance(row, list | tuple) and len(row) == 3 and all(isinstance(part, str) for part in row)
    ]


def python(raw: Raw) -> PythonFacts:
    """The interpreter that ran the probe, and the packages beside it; the first of two wins, as for imports."""
    packages: dict[str, str] = {}
    for name, version, _ in _distributions(raw):
        packages.setdefault(name, version)
    return PythonFacts(
        version=raw.text("python", "version"),
        machine=_python_machine(raw),
        executable=raw.text("python", "executable"),
        packages=dict(sorted(packages.items())),
    )


def _python_machine(raw: Raw) -> str:
    system = raw.text("os") or "linux"
    told = first_match(r"\b(AMD64|ARM64|Intel)\)\]", raw.text("python", "full_version")) if system == "windows" else ""
    word = {"AMD64": "x86_64", "ARM64": "arm64", "Intel": "i686"}.get(told) or releases.arch_word(raw.text("machine"), system)
    if raw.number("python", "bits") == 32:
        return {"x86_64": "i686", "aarch64": "armv7l"}.get(word, word)
    return word


def _installed_twice(raw: Raw) -> str:
    places: dict[str, list[str]] = {}
    for name, version, folder in _distributions(raw):
        if name.startswith(("torch", "numpy", "onnxruntime", "triton")):
            places.setdefault(name, []).append(f"{version} in {folder}")
    # A torch that nobody's record tells of, such as one on PYTHONPATH.
    told = {row[2] for row in _distributions(raw) if row[0] == "torch"}
    unrecorded = [folder for folder in raw.texts("python", "torch_folders") if folder not in told]
    if unrecorded and (told or len(unrecorded) > 1):
        places.setdefault("torch", []).extend(f"without a record in {folder}" for folder in unrecorded)
    return "\n".join(f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1)


def torch(raw: Raw) -> dict[str, Any]:
    """What torch's own version file says of the build; nothing is imported."""
    ran = inside.torch(raw)
    if ran.get("version"):
        return ran
    text = raw.text("python", "torch_version_py")
    version = first_match(r"^__version__\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", text)
    if not version:
        return {}
    found: dict[str, Any] = {"version": version}
    for name in ("cuda", "hip", "xpu"):
        value = re.search(rf"(?m)^{name}\s*(?::[^=]*)?=\s*(None|['\"]([^'\"]*)['\"])", text)
        if value:
            found[name] = value[2] or ""
    return found | ran
