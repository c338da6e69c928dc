"""The vendors that need no more than the bus: what is there, under which driver."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.detect.catalogue import arch_of_name, product
from envkit.detect.raw import Found, Raw, Seen
from envkit.model import DriverFacts, Gpu

_TOOLS = ("hl-smi", "cnmon", "mthreads-gmi", "neuron-ls")
_OWN_MODULE = ("nvidia", "amd", "intel", "apple", "huawei")


def read(raw: Raw, devices: Sequence[Seen]) -> Found:
    """The devices of vendors without a module of their own; those of unknown vendors stay without a vendor."""
    gpus = tuple(_gpu(device) for device in devices if device.vendor not in _OWN_MODULE)
    versions = [raw.text("modules", gpu.kernel_driver) for gpu in gpus if gpu.kernel_driver]
    shown = [device.driver_version for device in devices if device.vendor not in _OWN_MODULE]
    kernel = next((version for version in versions + shown if version), "")
    vendor = next((gpu.vendor for gpu in gpus if gpu.vendor), "")
    return Found(vendor=vendor, gpus=gpus, driver=DriverFacts(kernel=kernel), evidence=_evidence(raw))


def _evidence(raw: Raw) -> dict[str, str]:
    """What the vendors' own tools say when they fail; what they show else is in the facts already."""
    found = {}
    for tool in _TOOLS:
        answer = raw.tool(tool)
        if answer and not answer.ok:
            found[answer.command] = answer.said
    return found


def _gpu(device: Seen) -> Gpu:
    known = product(device.pci_id)
    return Gpu(
        name=(known.name if known else "") or device.name,
        pci_id=device.pci_id,
        arch=(known.arch if known else "") or arch_of_name(device.name),
        kernel_driver=device.kernel_driver,
        memory_bytes=device.memory_bytes,
        vendor=device.vendor,
        pci_address=device.pci_address,
    )
