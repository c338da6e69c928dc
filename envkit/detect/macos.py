"""macOS: what system_profiler, sw_vers and sysctl say."""

from __future__ import annotations

import re
from collections.abc import Mapping

from envkit.detect import releases
from envkit.detect.catalogue import VENDORS, vendor_of_name
from envkit.detect.raw import Raw, Seen, first_match, json_of, whole
from envkit.model import Machine

_UNITS = {"MB": 1024**2, "GB": 1024**3, "TB": 1024**4}


def machine(raw: Raw) -> Machine:
    """The machine, without its accelerators."""
    versions = _stdout(raw, "sw_vers")
    version = first_match(r"^ProductVersion:\s*([0-9]+(?:\.[0-9]+)*)", versions)
    name = first_match(r"^ProductName:\s*(\S.*?)\s*$", versions) or "macOS"
    groups = [group.text("name") or str(group.get("id")) for group in raw.tables("identity", "groups")]
    return Machine(
        os="macos",
        os_release=f"{name} {version}" if version else "",
        os_id=releases.macos_id(version),
        kernel=raw.text("release"),
        arch=_arch(raw),
        wsl=False,
        user_groups=tuple(groups) if raw.table("identity") else None,
        cpus=raw.number("processors"),
        memory_bytes=_memory(raw),
    )


def devices(raw: Raw) -> list[Seen]:
    """The accelerators that system_profiler lists; failing that, the GPU that Apple's own processors have."""
    found = []
    for display in _profile(raw).tables("SPDisplaysDataType"):
        name = display.text("sppci_model") or display.text("_name")
        maker = display.text("spdisplays_vendor")
        code = first_match(r"0x([0-9a-fA-F]{4})", maker)
        vendor = VENDORS.get(code.lower(), "") or vendor_of_name(maker.replace("sppci_vendor_", "")) or vendor_of_name(name)
        device = first_match(r"0x([0-9a-fA-F]{4})$", display.text("spdisplays_device-id"))
        number = code.lower() or next((ident for ident, word in VENDORS.items() if word == vendor), "")
        if not vendor:
            continue
        apple = vendor == "apple"
        found.append(
            Seen(
                vendor=vendor,
                pci_id=f"{number}:{device.lower()}" if device and number and not apple else "",
                name=_plain_name(name),
                memory_bytes=_memory(raw) if apple else _size(display.text("spdisplays_vram")),
            )
        )
    chip = first_match(r"^machdep\.cpu\.brand_string: (Apple .+?)\s*$", _stdout(raw, "sysctl"))
    if not found and chip:
        found.append(Seen(vendor="apple", name=chip, memory_bytes=_memory(raw)))
    return found


def _plain_name(name: str) -> str:
    # The first systems for Apple's processors wrote a key in place of the name: kHW_AppleM1Item.
    key = re.fullmatch(r"kHW_(Apple)(M[0-9]+)(Pro|Max|Ultra)?Item", name)
    return " ".join(part for part in key.groups() if part) if key else name


def _stdout(raw: Raw, tool: str) -> str:
    answer = raw.tool(tool)
    return answer.stdout if answer else ""


def _profile(raw: Raw) -> Raw:
    document = json_of(_stdout(raw, "system_profiler"))
    return Raw(document if isinstance(document, Mapping) else {})


def _memory(raw: Raw) -> int | None:
    exact = whole(first_match(r"^hw\.memsize: ([0-9]{1,18})$", _stdout(raw, "sysctl")))
    return exact or next((_size(item.text("physical_memory")) for item in _profile(raw).tables("SPHardwareDataType")), None)


def _size(text: str) -> int | None:
    found = re.fullmatch(r"\s*([0-9]{1,6})\s*(MB|GB|TB)\s*", text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def _arch(raw: Raw) -> str:
    # A program under Rosetta is told x86_64; these two tell the processor's own.
    told = _stdout(raw, "sysctl")
    own = re.search(r"(?m)^(hw\.optional\.arm64|sysctl\.proc_translated): 1$", told)
    return "arm64" if own else releases.arch_word(raw.text("machine"), "macos")


def evidence(raw: Raw) -> dict[str, str]:
    """That the interpreter runs translated, and which tool did not answer."""
    found = {}
    if re.search(r"(?m)^sysctl\.proc_translated: 1$", _stdout(raw, "sysctl")):
        found["sysctl sysctl.proc_translated"] = "1"
    for command in ("system_profiler", "sw_vers"):
        answer = raw.tool(command)
        if answer and not answer.ok:
            found[command] = answer.said
    return found
