"""Huawei Ascend: the PCI bus, device nodes, npu-smi and CANN's own files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from envkit.detect.catalogue import arch_of_name, best_name, product
from envkit.detect.raw import Found, Raw, Seen, first_match
from envkit.model import DriverFacts, Gpu


@dataclass(frozen=True, kw_only=True, slots=True)
class Chip:
    """One chip in npu-smi's table."""

    name: str
    address: str
    memory_bytes: int | None


def read(raw: Raw, devices: Sequence[Seen]) -> Found:
    """Huawei's part of a machine."""
    answer = raw.tool("npu-smi info", exact=True)
    chips = parse_npu_smi(answer.stdout) if answer and answer.code == 0 else []
    by_address = {chip.address: chip for chip in chips}
    seen = [device for device in devices if device.vendor == "huawei"]
    if not seen and chips:
        seen = [Seen(vendor="huawei", pci_address=chip.address) for chip in chips]
    if not seen:
        nodes = [node.text("path") for node in raw.tables("nodes")]
        seen = [Seen(vendor="huawei", name="Ascend NPU") for path in nodes if re.fullmatch(r"/dev/davinci[0-9]+", path)]
    driver = DriverFacts(
        kernel=first_match(r"(?im)^\s*version\s*=\s*\[?([0-9][\w.]*)", raw.file("/usr/local/Ascend/driver/version.info"))
        or first_match(r"npu-smi\s+\S+\s+Version:\s*([0-9][\w.]*)", answer.stdout if answer else ""),
        toolkit=_toolkit(raw),
    )
    evidence = {"npu-smi info": answer.said} if answer else {}
    gpus = tuple(_gpu(device, by_address.get(device.pci_address)) for device in seen)
    return Found(vendor="huawei", gpus=gpus, driver=driver, evidence=evidence)


def parse_npu_smi(text: str) -> list[Chip]:
    """The chips of `npu-smi info`: two lines each, the name in the first, the bus and the memory in the second."""
    chips = []
    name = ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 3:
            continue
        address = re.fullmatch(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-9a-fA-F]", cells[1])
        if address:
            size = re.search(r"/ *([0-9]{1,9})$", cells[-1])
            memory = int(size[1]) * 1024**2 if size and int(size[1]) else None
            chips.append(Chip(name=name, address=cells[1].lower(), memory_bytes=memory))
        else:
            found = re.fullmatch(r"[0-9]+ +(\S.*)", cells[0])
            name = found[1].strip() if found else ""
    return chips


def _gpu(device: Seen, chip: Chip | None) -> Gpu:
    known = product(device.pci_id)
    told = chip.name if chip else ""
    if told and not told.lower().startswith("ascend"):
        told = f"Ascend {told}"
    name = best_name(told, known.name if known else "", device.name)
    return Gpu(
        name=name,
        pci_id=device.pci_id,
        arch=arch_of_name(told) or (known.arch if known else ""),
        kernel_driver=device.kernel_driver,
        memory_bytes=chip.memory_bytes if chip else None,
        vendor="huawei",
        pci_address=device.pci_address,
    )


def _toolkit(raw: Raw) -> str:
    base = "/usr/local/Ascend/ascend-toolkit/latest/"
    # From CANN 8.5 on it lies in a folder of its own name.
    places = [f"{folder}{arch}-linux/" for folder in ("/usr/local/Ascend/cann/", base) for arch in ("aarch64", "x86_64")]
    installed = [raw.file(place + "ascend_toolkit_install.info") for place in places]
    return (
        first_match(r"(?m)^version=([0-9][\w.-]*)", *installed)
        or first_match(r"toolkit_running_version=\[[^\]]*:([0-9][\w.-]*)\]", raw.file(base + "version.cfg"))
        or first_match(r"^([0-9]+\.[0-9][\w.]*)$", raw.text("toolkits", "/usr/local/Ascend/ascend-toolkit/latest"))
    )
