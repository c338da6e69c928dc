"""Intel: graphics on the bus, and what xpu-smi adds. Neural units (NPU) are not accelerators that frameworks train on."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envkit.detect.catalogue import arch_of_name, best_name, product
from envkit.detect.raw import Found, Raw, Seen, first_match, json_of, newest, whole
from envkit.model import DriverFacts, Gpu

# The packages that carry the compute runtime, in the order in which programs come to use it.
_RUNTIMES = ("libze-intel-gpu1", "intel-level-zero-gpu", "intel-opencl-icd", "intel-compute-runtime")


def read(raw: Raw, devices: Sequence[Seen]) -> Found:
    """Intel's part of a machine."""
    answer = raw.tool("xpu-smi")
    listed = parse_xpu_smi(answer.stdout) if answer and answer.code == 0 else {}
    gpus = tuple(_gpu(device, listed.get(device.pci_address, {})) for device in devices if device.vendor == "intel")
    shown = next((device.driver_version for device in devices if device.vendor == "intel" and device.driver_version), "")
    modules = raw.table("modules")
    loaded = next((version for name in ("xe", "i915") if isinstance(version := modules.get(name), str) and version), "")
    driver = DriverFacts(kernel=loaded or shown, userspace=_runtime(raw), toolkit=_toolkit(raw))
    evidence = {"xpu-smi": answer.said} if answer and not answer.ok else {}
    return Found(vendor="intel", gpus=gpus, driver=driver, evidence=evidence)


def parse_xpu_smi(text: str) -> dict[str, Mapping[str, str]]:
    """The devices of `xpu-smi discovery -j` by PCI address: `name` and `memory` in bytes."""
    document = json_of(text)
    found: dict[str, Mapping[str, str]] = {}
    for entry in Raw(document if isinstance(document, Mapping) else {}).tables("device_list"):
        address = entry.text("pci_bdf_address").lower()
        if address:
            found[address] = {"name": entry.text("device_name"), "memory": entry.text("memory_physical_size_byte")}
    return found


def _gpu(device: Seen, told: Mapping[str, str]) -> Gpu:
    known = product(device.pci_id)
    name = best_name(told.get("name", ""), known.name if known else "", device.name)
    return Gpu(
        name=name,
        pci_id=device.pci_id,
        arch=(known.arch if known else "") or arch_of_name(name),
        kernel_driver=device.kernel_driver,
        memory_bytes=whole(told.get("memory", "")) or device.memory_bytes,
        vendor="intel",
        pci_address=device.pci_address,
    )


def _runtime(raw: Raw) -> str:
    packages = raw.table("packages")
    versions = [packages[name] for name in _RUNTIMES if isinstance(packages.get(name), str)]
    packaged = first_match(r"^(?:[0-9]+:)?([0-9]+(?:\.[0-9]+)+)", *versions)
    return packaged or first_match(r"libze_intel_gpu\.so\.([0-9]+\.[0-9]+\.[0-9]+)$", *raw.texts("libraries"))


def _toolkit(raw: Raw) -> str:
    folders = raw.texts("toolkits", "/opt/intel/oneapi")
    linked = raw.text("toolkits", "/opt/intel/oneapi/compiler/latest")
    return linked if re.fullmatch(r"20[0-9]{2}(\.[0-9]+)+", linked) else newest(folders)
