"""Apple silicon: one GPU that shares the machine's memory, driven by the system itself."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.detect.catalogue import arch_of_name
from envkit.detect.raw import Found, Raw, Seen
from envkit.model import Gpu


def read(raw: Raw, devices: Sequence[Seen]) -> Found:
    """Apple's part of a machine."""
    gpus = tuple(
        Gpu(name=device.name, arch=arch_of_name(device.name), memory_bytes=device.memory_bytes, vendor="apple")
        for device in devices
        if device.vendor == "apple"
    )
    return Found(vendor="apple", gpus=gpus)
