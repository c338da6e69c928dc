"""AMD: the compute topology of amdgpu, and what rocminfo and amd-smi add to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from envkit.detect.catalogue import arch_of_name, best_name, product
from envkit.detect.raw import Found, Raw, Seen, first_match, json_of, newest, whole
from envkit.model import DriverFacts, Gpu


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What one source tells of one device."""

    address: str = ""
    arch: str = ""
    name: str = ""
    pci_id: str = ""
    memory_bytes: int | None = None
    driver: str = ""


def read(raw: Raw, devices: Sequence[Seen]) -> Found:
    """AMD's part of a machine."""
    seen = [device for device in devices if device.vendor == "amd"]
    nodes = [node for entry in raw.tables("kfd") if (node := parse_kfd(entry.text("properties")))]
    agents = parse_rocminfo(_stdout(raw, "rocminfo"))
    listed = parse_amd_smi(_stdout(raw, "amd-smi"))
    on_bus = [device for device in seen if device.pci_address]
    if not on_bus:
        driver = "amdgpu" if "amdgpu" in raw.table("modules") else "dxgkrnl" if raw.texts("marks") and _is_wsl(raw) else ""
        told = list({node.address: node for node in nodes if node.pci_id.startswith("1002:")}.values()) or agents
        hidden = [Seen(vendor="amd", pci_id=node.pci_id, pci_address=node.address, kernel_driver=driver) for node in told]
        on_bus = hidden or seen
    gpus = tuple(_gpu(device, nodes, agents, listed) for device in on_bus)
    return Found(vendor="amd", gpus=gpus, driver=_driver(raw, seen, listed), evidence=_evidence(raw, bool(gpus)))


def _is_wsl(raw: Raw) -> bool:
    return "microsoft" in raw.text("release").lower()


def _stdout(raw: Raw, tool: str) -> str:
    answer = raw.tool(tool)
    return answer.stdout if answer and answer.code == 0 else ""


def _gpu(device: Seen, nodes: Sequence[Told], agents: Sequence[Told], listed: Sequence[Told]) -> Gpu:
    node, agent, entry = (_told(device, source) for source in (nodes, agents, listed))
    known = product(device.pci_id)
    name = best_name(entry.name, agent.name, device.name, known.name if known else "")
    # The kernel's own word wins: HSA_OVERRIDE_GFX_VERSION changes what rocminfo says, and one PCI id may be a guess.
    arch = node.arch or (known.arch if known else "") or entry.arch or agent.arch or arch_of_name(name)
    return Gpu(
        name=name,
        pci_id=device.pci_id,
        arch=arch,
        kernel_driver=device.kernel_driver,
        memory_bytes=device.memory_bytes or entry.memory_bytes or agent.memory_bytes,
        vendor="amd",
        pci_address=device.pci_address,
    )


def _told(device: Seen, source: Sequence[Told]) -> Told:
    if device.pci_address:
        exact = next((told for told in source if told.address == device.pci_address), None)
        if exact:
            return exact
    same = [told for told in source if told.pci_id and told.pci_id == device.pci_id]
    return same[0] if same and not (device.pci_address and same[0].address) else Told()


# ---- the compute topology ----------------------------------------------------------------------------------------


def gfx_name(version: int) -> str:
    """The target of a gfx_target_version: 90010 is gfx90a, 110003 is gfx1103."""
    major, minor, step = version // 10000, version // 100 % 100, version % 100
    return f"gfx{major}{minor:x}{step:x}" if 0 < major < 100 and minor < 16 and step < 16 else ""


def address_of_location(domain: int, location: int) -> str:
    """The PCI address of a location_id, which is bus, device and function in one number."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7:x}"


def parse_kfd(properties: str) -> Told | None:
    """The GPU that one node's properties describe; None for a processor's node."""
    values: dict[str, int] = {}
    for line in properties.splitlines():
        found = re.fullmatch(r"(\w+) ([0-9]{1,20})\s*", line)
        if found:
            values[found[1]] = int(found[2])
    arch = gfx_name(values.get("gfx_target_version", 0))
    if not arch:
        return None
    return Told(
        address=address_of_location(values.get("domain", 0), values.get("location_id", 0)),
        arch=arch,
        pci_id=f"{values.get('vendor_id', 0):04x}:{values.get('device_id', 0):04x}",
    )


# ---- tools -------------------------------------------------------------------------------------------------------


def parse_rocminfo(text: str) -> list[Told]:
    """The GPU agents of rocminfo."""
    agents = []
    for block in re.split(r"(?m)^\*+\s*\nAgent [0-9]+\s*\n\*+\s*$", text)[1:]:
        if not re.search(r"^\s*Device Type:\s*GPU\s*$", block, re.MULTILINE):
            continue
        chip = first_match(r"^\s*Chip ID:\s*[0-9]+\(0x([0-9a-f]+)\)", block)
        location = whole(first_match(r"^\s*BDFID:\s*([0-9]+)", block))
        sizes = [int(size) for size in re.findall(r"COARSE GRAINED\s*\n\s*Size:\s*([0-9]{1,15})", block)]
        agents.append(
            Told(
                address=address_of_location(0, location) if location else "",
                arch=first_match(r"^\s*Name:\s*(gfx[0-9a-f]+)", block),
                name=first_match(r"^\s*Marketing Name:[ \t]*(\S.*?)[ \t]*$", block),
                pci_id=f"1002:{chip.rjust(4, '0')}" if chip else "",
                memory_bytes=max(sizes) * 1024 if sizes else None,
            )
        )
    return agents


def parse_amd_smi(text: str) -> list[Told]:
    """The devices of `amd-smi static --json`: a list up to ROCm 6, a table around that list from 7 on."""
    document = json_of(text)
    entries = Raw({"gpus": document.get("gpu_data") if isinstance(document, Mapping) else document}).tables("gpus")
    told = []
    for entry in entries:
        device = first_match(r"^0x([0-9a-fA-F]{4})$", _plain(entry.get("asic", "device_id")))
        version = entry.text("driver", "version") or entry.text("driver", "driver_version")
        told.append(
            Told(
                address=entry.text("bus", "bdf").lower(),
                arch=first_match(r"^(gfx[0-9a-f]+)", entry.text("asic", "target_graphics_version")),
                name=entry.text("asic", "market_name"),
                pci_id=f"1002:{device.lower()}" if device else "",
                memory_bytes=_megabytes(entry.get("vram", "size")),
                driver=version if re.fullmatch(r"[0-9]+(\.[0-9]+)+", version) else "",
            )
        )
    return told


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else f"0x{value:04x}" if isinstance(value, int) and 0 <= value <= 0xFFFF else ""


def _megabytes(value: Any) -> int | None:
    if isinstance(value, Mapping):
        value = value.get("value")
    number = whole(first_match(r"^\s*([0-9]{1,9})(?: MB)?\s*$", value)) if isinstance(value, str) else whole(value)
    return number * 1024**2 if number else None


# ---- versions ----------------------------------------------------------------------------------------------------


def _driver(raw: Raw, devices: Sequence[Seen], listed: Sequence[Told]) -> DriverFacts:
    module = raw.table("modules").get("amdgpu")
    release = raw.text("release")
    # A module of the kernel itself has no version of its own; some tools then show the kernel's.
    told = [device.driver for device in listed if device.driver and not release.startswith(device.driver)]
    loaded = first_match(r"ROCk module version ([0-9]+(?:\.[0-9]+)+) is loaded", _stdout(raw, "rocminfo"))
    shown = next((device.driver_version for device in devices if device.driver_version), "")
    return DriverFacts(
        kernel=(module if isinstance(module, str) else "") or loaded or next(iter(told), "") or shown,
        toolkit=_toolkit(raw),
    )


def _toolkit(raw: Raw) -> str:
    files = (raw.file("/opt/rocm/.info/version"), raw.file("/opt/rocm/core/.info/version"))
    folders = raw.texts("toolkits", "/opt")
    return (
        first_match(r"^\s*([0-9]+(?:\.[0-9]+)+)", *files)
        or first_match(r"^rocm-([0-9]+(?:\.[0-9]+)+)$", raw.text("toolkits", "/opt/rocm"))
        or newest([version for name in folders if (version := first_match(r"^rocm-([0-9]+(?:\.[0-9]+)+)$", name))])
    )


def _evidence(raw: Raw, present: bool) -> dict[str, str]:
    evidence = {}
    rocminfo = raw.tool("rocminfo")
    if rocminfo:
        wanted = re.findall(r"(?m)^(?:ROCk module.*|  (?:Name|Marketing Name|Device Type):.*)$", rocminfo.stdout)
        evidence["rocminfo"] = "\n".join(line.rstrip() for line in wanted) if rocminfo.ok and wanted else rocminfo.said
    amd_smi = raw.tool("amd-smi")
    if amd_smi and not amd_smi.ok:
        evidence["amd-smi"] = amd_smi.said
    if present and not raw.tables("kfd") and raw.text("os") == "linux" and not _is_wsl(raw):
        evidence["/sys/class/kfd"] = (
            "no compute node" if raw.marked("/sys/class/kfd/kfd") else "no such folder: amdgpu's compute part is not there"
        )
    return evidence
