"""Windows: what its CIM classes and its registry say, as JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envkit.detect import releases
from envkit.detect.catalogue import VENDORS, VIRTUAL, vendor_of_name
from envkit.detect.raw import Raw, Seen, first_match, json_of, whole
from envkit.model import Machine

# Windows' own stand-ins for a screen without a driver of its own or without hardware.
_NOT_HARDWARE = re.compile(r"(ROOT|SWD|USB|VMBUS|DISPLAY)\\", re.IGNORECASE)


def machine(raw: Raw) -> Machine:
    """The machine, without its accelerators and their drivers."""
    cim = _cim(raw)
    version = _version(cim.text("os", "Version")) or _version(raw.text("release"))
    build = whole(version.split(".")[2]) if version.count(".") >= 2 else None
    product_type = whole(cim.get("os", "ProductType"))
    if product_type is None:
        product_type = whole(raw.get("product_type"))
    secure = cim.get("secure_boot")
    if secure is None:
        secure = raw.get("registry", "secure_boot")
    kilobytes = whole(cim.get("os", "TotalVisibleMemorySize"))
    runtime = first_match(r"^v?([0-9]+(?:\.[0-9]+)+)$", cim.text("vc_runtime"), raw.text("registry", "vc_runtime"))
    return Machine(
        os="windows",
        os_release=cim.text("os", "Caption").strip() or _title(raw.text("registry", "product_name"), build),
        os_id=releases.windows_id(build, server=product_type not in (None, 1)),
        kernel=version,
        arch=_arch(raw, cim),
        wsl=False,
        system_packages={"vc_redist.x64": runtime} if runtime else {},
        secure_boot=bool(secure) if secure in (0, 1, True, False) else None,
        cpus=raw.number("processors") or whole(cim.get("cpus")),
        memory_bytes=kilobytes * 1024 if kilobytes else None,
    )


def devices(raw: Raw) -> list[Seen]:
    """The accelerators that Windows lists."""
    return adapters(_cim(raw))


def adapters(cim: Raw) -> list[Seen]:
    """The accelerators among the display adapters, and the cards that have no driver at all."""
    plugged = {_hardware_id(entity.text("DeviceID")): entity for entity in cim.tables("pnp")}
    signed = {driver.text("DeviceID").upper(): driver.text("DriverVersion") for driver in cim.tables("drivers")}
    registry = cim.tables("registry")
    found: list[Seen] = []
    listed: set[str] = set()
    for adapter in cim.tables("video"):
        device_id = adapter.text("PNPDeviceID")
        listed.add(_hardware_id(device_id))
        service = plugged[_hardware_id(device_id)].text("Service") if _hardware_id(device_id) in plugged else ""
        seen = _seen(
            device_id,
            adapter.text("Name"),
            adapter.text("DriverVersion") or signed.get(device_id.upper(), ""),
            service,
            _memory(device_id, adapter, registry),
        )
        found += [seen] if seen else []
    for key, entity in plugged.items():
        if key not in listed:
            seen = _seen(entity.text("DeviceID"), entity.text("Name"), "", entity.text("Service"), None)
            found += [seen] if seen else []
    if not cim.tables("video") and not plugged:
        # The registry keeps cards that were taken out, so it only counts where nothing better is known.
        for entry in registry:
            device_id = entry.text("MatchingDeviceId")
            seen = _seen(device_id, entry.text("DriverDesc"), entry.text("DriverVersion"), "", whole(entry.get("Memory")))
            found += [seen] if seen else []
    return found


def evidence(raw: Raw) -> dict[str, str]:
    """The adapters that Windows has a problem with, by its own code; its limit of paths; a PowerShell that told nothing."""
    answer = raw.tool("powershell", exact=True)
    found = _long_paths(raw)
    if answer and not answer.ok:
        return {"powershell": answer.said, **found}
    entities = _cim(raw).tables("pnp")
    troubled = [
        f"{entity.text('Name')}: code {code}" for entity in entities if (code := whole(entity.get("ConfigManagerErrorCode")))
    ]
    return {"Win32_PnPEntity": "\n".join(troubled), **found}


def _long_paths(raw: Raw) -> dict[str, str]:
    """The switch for long paths, in the words of the tool that shows it; nothing where it was not looked at."""
    told = [_cim(raw).document, raw.table("registry")]
    values = [table["long_paths"] for table in told if "long_paths" in table]
    if not values:
        return {}
    on = any(value == 1 for value in values)
    place = "reg query HKLM\\SYSTEM\\CurrentControlSet\\Control\\FileSystem /v LongPathsEnabled"
    return {place: f"LongPathsEnabled    REG_DWORD    0x{int(on)}"}


def _cim(raw: Raw) -> Raw:
    answer = raw.tool("powershell", exact=True)
    document = json_of(answer.stdout) if answer else None
    if isinstance(document, Mapping):
        return Raw(document)
    return Raw({"registry": raw.get("registry", "adapters")})


def _hardware_id(device_id: str) -> str:
    """The part of a device id that names one slot's device, for comparing lists."""
    return device_id.strip().upper()


def _seen(device_id: str, name: str, version: str, service: str, memory: int | None) -> Seen | None:
    ident = pci_id(device_id)
    vendor = VENDORS.get(ident[:4], "")
    if ident.startswith("1414"):
        # A share of a host's card in a guest: Microsoft's id, the card's own name.
        vendor, ident = vendor_of_name(name), ""
    elif ident[:4] in VIRTUAL or _NOT_HARDWARE.match(device_id):
        return None
    elif not ident:
        vendor = vendor_of_name(name)
    if not vendor and not ident:
        return None
    if vendor == "nvidia":
        version = nvidia_version(version)
    return Seen(
        vendor=vendor,
        pci_id=ident,
        kernel_driver=service or ("BasicDisplay" if "Basic Display" in name else ""),
        name=name.strip(),
        memory_bytes=memory,
        driver_version="" if "Basic Display" in name else version,
    )


def pci_id(device_id: str) -> str:
    r"""The vendor:device id of PCI\VEN_10DE&DEV_2684&SUBSYS_...; "" for what is not on the bus."""
    found = re.match(r"PCI\\VEN_([0-9A-F]{4})&DEV_([0-9A-F]{4})", device_id.strip(), re.IGNORECASE)
    return f"{found[1]}:{found[2]}".lower() if found else ""


def nvidia_version(version: str) -> str:
    """NVIDIA's own number behind Windows' one: the last five digits of 32.0.15.7628 are 576.28."""
    parts = version.strip().split(".")
    if len(parts) != 4 or not all(re.fullmatch(r"[0-9]{1,5}", part) for part in parts):
        return version
    digits = (parts[2] + parts[3].rjust(4, "0"))[-5:]
    return f"{digits[:3]}.{digits[3:]}" if len(digits) == 5 else version


def _memory(device_id: str, adapter: Raw, registry: Sequence[Raw]) -> int | None:
    key = device_id.upper()
    for entry in registry:
        match = entry.text("MatchingDeviceId").upper()
        size = whole(entry.get("Memory"))
        # An entry may name the device more loosely than the list does; an integrated one says 0 or nothing.
        if match and key.startswith(match) and size:
            return size
    size = whole(adapter.get("AdapterRAM"))
    # The field has 32 bits: from 4 GiB on it says just below 4 GiB or something wrong.
    return size if size and size < 4 * 1024**3 - 2**21 else None


def _version(text: str) -> str:
    return text if re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+(\.[0-9]+)?", text) else ""


def _title(name: str, build: int | None) -> str:
    # The registry goes on saying "Windows 10" on Windows 11.
    return name.replace("Windows 10", "Windows 11") if build and build >= 22000 and "Server" not in name else name


def _arch(raw: Raw, cim: Raw) -> str:
    told = cim.text("os", "OSArchitecture").lower()
    if "arm" in told:
        return "arm64"
    word = releases.arch_word(raw.text("machine"), "windows")
    return word or ("x86_64" if "64" in told else "i686" if "32" in told else "")
