"""NVIDIA: what /proc, nvidia-smi and the driver's files say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from envkit.detect.catalogue import arch_of_name, best_name, product
from envkit.detect.raw import Found, Raw, Seen, first_match, json_of, newest, whole
from envkit.model import DriverFacts, Gpu

OPEN_LICENSE = "Dual MIT/GPL"
PROPRIETARY_LICENSE = "NVIDIA"

# The modules of one Tegra chip share one architecture; the catalogue knows it by the product.
_TEGRA = {
    "tegra124": "Jetson TK1",
    "tegra210": "Jetson TX1",
    "tegra186": "Jetson TX2",
    "tegra194": "Jetson AGX Xavier",
    "tegra234": "Jetson AGX Orin",
    "tegra264": "Jetson AGX Thor",
}


def read(raw: Raw, devices: Sequence[Seen]) -> Found:
    """NVIDIA's part of a machine."""
    rows = parse_query(raw)
    header = parse_header(_header_text(raw))
    seen = [device for device in devices if device.vendor == "nvidia"]
    board = _jetson(raw)
    # A Jetson's own GPU is on no bus; nvidia-smi lists it all the same.
    gpus = board + _merge(raw, seen, rows if seen or not board else [])
    driver = DriverFacts(
        kernel=_kernel_version(raw, rows, header, devices),
        userspace=parse_userspace(raw.texts("libraries")) or _said_userspace(raw, header),
        license=parse_license(raw.file("/proc/driver/nvidia/version"), _modinfo(raw)),
        toolkit=_toolkit(raw),
    )
    return Found(vendor="nvidia", gpus=gpus, driver=driver, evidence=_evidence(raw))


# ---- nvidia-smi --------------------------------------------------------------------------------------------------


def parse_query(raw: Raw) -> list[dict[str, str]]:
    """The rows of `nvidia-smi --query-gpu=...`, by column; what it could not tell is ""."""
    answers = [raw.tool(command, exact=True) for command in raw.table("tools") if command.startswith("nvidia-smi --query-gpu=")]
    for answer in answers:
        if answer is None or not answer.ok:
            continue
        columns = answer.command.split("--query-gpu=", 1)[1].split(" ", 1)[0].split(",")
        rows = []
        for line in answer.stdout.splitlines():
            values = [value.strip() for value in line.split(", ")]
            if len(values) == len(columns):
                rows.append({name: "" if _is_nothing(value) else value for name, value in zip(columns, values, strict=True)})
        if rows:
            return rows
    return []


def _is_nothing(value: str) -> bool:
    return value.strip("[]").lower() in ("n/a", "not supported", "unknown error", "gpu requires reset", "err!", "")


def parse_header(text: str) -> Mapping[str, str]:
    """`tool`, `driver` and `cuda` of nvidia-smi's header; from 610 on it says KMD and CUDA UMD Version."""
    return {
        "tool": first_match(r"NVIDIA-SMI\s+([0-9]+(?:\.[0-9]+)+)", text),
        "driver": first_match(r"(?:Driver|KMD) Version:\s*([0-9]+(?:\.[0-9]+)+)", text),
        "cuda": first_match(r"CUDA (?:UMD )?Version:\s*([0-9]+\.[0-9]+)", text),
    }


def _header_text(raw: Raw) -> str:
    answer = raw.tool("nvidia-smi", exact=True)
    return answer.said if answer else ""


# ---- devices -----------------------------------------------------------------------------------------------------


def bus_address(text: str) -> str:
    """A PCI address as sysfs writes it: nvidia-smi's 00000000:01:00.0 is 0000:01:00.0."""
    found = re.fullmatch(r"([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})\.([0-9a-fA-F])", text.strip())
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else ""


def combined_id(text: str) -> str:
    """The vendor:device id of nvidia-smi's 0x268410DE."""
    found = re.fullmatch(r"0x([0-9a-fA-F]{4})([0-9a-fA-F]{4})", text.strip())
    return f"{found[2]}:{found[1]}".lower() if found else ""


def arch_of_capability(text: str) -> str:
    """The architecture of a compute capability: 8.9 is sm_89."""
    found = re.fullmatch(r"([0-9]{1,2})\.([0-9])", text.strip())
    return f"sm_{found[1]}{found[2]}" if found else ""


def _merge(raw: Raw, devices: Sequence[Seen], rows: Sequence[Mapping[str, str]]) -> tuple[Gpu, ...]:
    by_address = {bus_address(row.get("pci.bus_id", "")): row for row in rows}
    on_bus = [device for device in devices if device.pci_address]
    if rows and not on_bus:
        # WSL and sandboxes hide the bus, and the Windows side's list would tell the same cards again.
        driver = next((device.kernel_driver for device in devices if device.kernel_driver), _hidden_driver(raw))
        on_bus = [
            Seen(vendor="nvidia", pci_id=combined_id(row.get("pci.device_id", "")), pci_address=address, kernel_driver=driver)
            for address, row in by_address.items()
        ]
    return tuple(_gpu(raw, device, by_address.get(device.pci_address, {})) for device in on_bus or devices)


def _gpu(raw: Raw, device: Seen, row: Mapping[str, str]) -> Gpu:
    known = product(device.pci_id)
    model = first_match(r"^Model:[ \t]*(\S.*?)[ \t]*$", raw.text("nvidia", "gpus", device.pci_address))
    name = best_name(row.get("name", ""), model, device.name, known.name if known else "")
    memory = whole(row.get("memory.total", ""))
    return Gpu(
        name=name,
        pci_id=device.pci_id,
        arch=arch_of_capability(row.get("compute_cap", "")) or (known.arch if known else "") or arch_of_name(name),
        kernel_driver=device.kernel_driver,
        memory_bytes=memory * 1024**2 if memory else device.memory_bytes,
        vendor="nvidia",
        pci_address=device.pci_address,
    )


def _hidden_driver(raw: Raw) -> str:
    return next((name for name in ("dxgkrnl", "nvidia") if name in raw.table("modules")), "")


def _jetson(raw: Raw) -> tuple[Gpu, ...]:
    compatible = raw.file("/proc/device-tree/compatible").replace("\0", "\n")
    chip = first_match(r"\bnvidia,(tegra[0-9]{3})\b", compatible)
    model = re.sub(r"\s+", " ", raw.file("/proc/device-tree/model").strip("\0\n "))
    if not chip and "jetson" not in model.lower():
        return ()
    name = re.sub(r"(?i)^nvidia\s+|\s*(engineering reference|super)?\s*developer kit.*$|\s+module$", "", model) or _TEGRA.get(
        chip, ""
    )
    modules = raw.table("modules")
    return (
        Gpu(
            name=name,
            arch=arch_of_name(name) or arch_of_name(_TEGRA.get(chip, "")),
            kernel_driver=next((module for module in ("nvgpu", "nvidia") if module in modules), ""),
            vendor="nvidia",
        ),
    )


# ---- versions ----------------------------------------------------------------------------------------------------


def parse_module_version(text: str) -> str:
    """The version in /proc/driver/nvidia/version, of either kind of module."""
    return first_match(r"NVRM version:.*?Kernel Module\s+(?:for \S+\s+)?([0-9]+\.[0-9]+(?:\.[0-9]+)*)", text)


def parse_license(version_text: str, modinfo: str = "") -> str:
    """The license of the module that is loaded, or of the one that would be."""
    if "Open Kernel Module" in version_text:
        return OPEN_LICENSE
    if parse_module_version(version_text):
        return PROPRIETARY_LICENSE
    return first_match(r"^license:\s*(\S.*?)\s*$", modinfo)


def parse_userspace(libraries: Sequence[str]) -> str:
    """The version of libcuda that programs get, from `path -> target` lines; the link counts more than files beside it."""
    version = r"libcuda\.so\.([0-9]{3}\.[0-9]+(?:\.[0-9]+)*)$"
    linked = [first_match(version, line) for line in libraries if re.search(r"/libcuda\.so\.1 -> ", line)]
    lying = [first_match(version, line) for line in libraries]
    return next((found for found in linked if found), "") or newest([found for found in lying if found])


def _kernel_version(raw: Raw, rows: Sequence[Mapping[str, str]], header: Mapping[str, str], devices: Sequence[Seen]) -> str:
    module = raw.table("modules").get("nvidia")
    return (
        parse_module_version(raw.file("/proc/driver/nvidia/version"))
        or (module if isinstance(module, str) else "")
        or next((row["driver_version"] for row in rows if row.get("driver_version")), "")
        or header["driver"]
        or next((device.driver_version for device in devices if device.vendor == "nvidia" and device.driver_version), "")
    )


def _said_userspace(raw: Raw, header: Mapping[str, str]) -> str:
    mismatch = first_match(r"NVML library version:\s*([0-9]+(?:\.[0-9]+)+)", _header_text(raw))
    # On Windows the tool comes with the driver and there is no other library; elsewhere its version is the libraries'.
    return mismatch or ("" if raw.text("os") == "windows" else header["tool"])


def _modinfo(raw: Raw) -> str:
    answer = raw.tool("modinfo nvidia", exact=True)
    return answer.stdout if answer and answer.code == 0 else ""


def _toolkit(raw: Raw) -> str:
    document = json_of(raw.file("/usr/local/cuda/version.json"))
    listed = Raw(document).text("cuda", "version") if isinstance(document, Mapping) else ""
    folders = raw.texts("toolkits", "/usr/local")
    package = raw.table("packages").get("nvidia-cuda-toolkit")
    return (
        first_match(r"^([0-9]+(?:\.[0-9]+)+)$", listed)
        or first_match(r"CUDA Version ([0-9]+(?:\.[0-9]+)+)", raw.file("/usr/local/cuda/version.txt"))
        or first_match(r"^cuda-([0-9]+(?:\.[0-9]+)+)$", raw.text("toolkits", "/usr/local/cuda"))
        or newest([version for name in folders if (version := first_match(r"^cuda-([0-9]+\.[0-9]+)$", name))])
        or (first_match(r"^([0-9]+\.[0-9]+(?:\.[0-9]+)*)", package) if isinstance(package, str) else "")
    )


# ---- evidence ----------------------------------------------------------------------------------------------------


def _evidence(raw: Raw) -> dict[str, str]:
    evidence = {
        "/proc/driver/nvidia/version": raw.file("/proc/driver/nvidia/version"),
        "nvidia-smi": without_processes(_header_text(raw)),
        "/etc/nv_tegra_release": raw.file("/etc/nv_tegra_release"),
    }
    for command in ("nvidia-smi -L", "modinfo nvidia"):
        answer = raw.tool(command, exact=True)
        if answer:
            wanted = re.findall(r"(?m)^(?:filename|version|license|vermagic|signer):.*$", answer.stdout)
            evidence[command] = "\n".join(wanted) if wanted else answer.said
    # What the query for devices printed is in the facts already; only its failing is news.
    query = raw.tool("nvidia-smi --query-gpu") or next(
        (raw.tool(command, exact=True) for command in raw.table("tools") if command.startswith("nvidia-smi --query-gpu=")), None
    )
    if query and not query.ok and not evidence["nvidia-smi"]:
        evidence["nvidia-smi"] = query.said
    mig = raw.table("nvidia", "mig")
    if mig:
        evidence["/proc/driver/nvidia/capabilities"] = "\n".join(
            f"{gpu}: {', '.join(names)}" for gpu in sorted(mig) if (names := raw.texts("nvidia", "mig", gpu))
        )
    return evidence


def without_processes(text: str) -> str:
    """nvidia-smi's table without its date and without the programs that use the devices, which are nobody's business."""
    text = re.split(r"(?m)^\+-+\+\s*\n\| Processes:", text, maxsplit=1)[0]
    lines = [line.rstrip() for line in text.splitlines()]
    return "\n".join(line for line in lines if not re.match(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d", line)).strip("\n")
