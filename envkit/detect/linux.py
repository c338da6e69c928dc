"""Linux: what the files of a machine say of its system, its containers and its devices."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from envkit.detect import releases, windows
from envkit.detect.catalogue import MANAGEMENT, VENDORS, VIRTUAL
from envkit.detect.raw import Raw, Seen, first_match, json_of, whole
from envkit.model import Machine

# Drivers that give a device to a guest or a user-space program: nothing on this system computes on it.
GIVEN_AWAY = ("vfio-pci", "pci-stub", "pciback", "xen-pciback")


def machine(raw: Raw) -> Machine:
    """The machine, without its accelerators and their drivers."""
    release = os_release(raw)
    wsl = is_wsl(raw)
    shop = container(raw)
    libc, version = c_library(raw)
    nodes = raw.tables("nodes")
    return Machine(
        os="linux",
        os_release=release.get("PRETTY_NAME", "") or _old_release(raw),
        os_id=releases.linux_id(release) or releases.id_of_title(_old_release(raw)),
        os_like=releases.kin(release),
        kernel=raw.text("release"),
        arch=releases.arch_word(raw.text("machine")),
        glibc=version if libc == "glibc" else "",
        libc=libc,
        wsl=wsl,
        container=shop,
        secure_boot=secure_boot(raw, contained=bool(shop), wsl=wsl),
        user_groups=_groups(raw),
        devices=tuple(node.text("path") for node in nodes) if "nodes" in raw.document else None,
        devices_denied=tuple(node.text("path") for node in nodes if node.get("open") is False)
        if "nodes" in raw.document
        else None,
        modules=_modules(raw),
        system_packages=packages(raw),
        services=services(raw),
        shm_bytes=raw.number("shm_bytes"),
        cpus=processors(raw),
        memory_bytes=memory(raw),
    )


# ---- the system --------------------------------------------------------------------------------------------------


def os_release(raw: Raw) -> dict[str, str]:
    """The variables of os-release."""
    return releases.parse_os_release(raw.file("/etc/os-release") or raw.file("/usr/lib/os-release"))


def _old_release(raw: Raw) -> str:
    return raw.file("/etc/redhat-release").strip()


def is_wsl(raw: Raw) -> bool:
    """Whether the kernel is Microsoft's, which containers on WSL have too: their driver is the Windows one."""
    return "microsoft" in raw.text("release").lower()


def c_library(raw: Raw) -> tuple[str, str]:
    """The C library and its version, from the interpreter's own word or that of ldd."""
    own = re.match(r"glibc ([0-9]+(?:\.[0-9]+)+)", raw.text("libc"))
    if own:
        return "glibc", own[1]
    answer = raw.tool("ldd --version", exact=True)
    said = answer.stdout + "\n" + answer.stderr if answer else ""
    if "musl" in said:
        return "musl", first_match(r"^Version ([0-9]+(?:\.[0-9]+)+)", said)
    version = first_match(r"^ldd \(.*\) ([0-9]+\.[0-9]+)", said)
    if version:
        return "glibc", version
    return ("musl", "") if os_release(raw).get("ID") == "alpine" else ("", "")


def secure_boot(raw: Raw, *, contained: bool, wsl: bool) -> bool | None:
    """Whether the firmware enforces signatures; None where that cannot be seen from here."""
    value = raw.get("secure_boot")
    if isinstance(value, bool):
        return value
    # Without EFI there is nothing to enforce. Containers hide /sys/firmware, and WSL has the firmware of a virtual machine.
    legacy = raw.marked("/sys/firmware") and not raw.marked("/sys/firmware/efi")
    return False if legacy and not contained and not wsl else None


# What engines leave in the names of control groups and in the layers of a root file system; the inner one first.
_TRACES = (
    ("buildkit", "buildkit"),
    ("libpod", "podman"),
    ("containers/storage", "podman"),
    ("lxc.payload", "lxc"),
    ("/lxc/", "lxc"),
    ("docker", "docker"),
    ("containerd", "containerd"),
    ("garden", "garden"),
    ("machine.slice/machine-", "systemd-nspawn"),
)


def container(raw: Raw) -> str:
    """The kind of container this runs in; "" for none."""
    env = raw.table("env")
    init = raw.text("init_container") or raw.file("/run/systemd/container").strip()
    groups = raw.file("/proc/self/cgroup") + "\n" + raw.file("/proc/1/cgroup")
    # The last one mounted is the one in use.
    root = next((line for line in reversed(raw.texts("mounts")) if line.split(" ")[4:5] == ["/"]), "")
    if "KUBERNETES_SERVICE_PORT" in env or raw.marked("/var/run/secrets/kubernetes.io") or "kubepods" in groups:
        return "kubernetes"
    if raw.marked("/.singularity.d") or "APPTAINER_CONTAINER" in env or "SINGULARITY_CONTAINER" in env:
        return "apptainer"
    if init and init not in ("wsl", "1"):
        return "lxd" if init.startswith("lxc") and raw.marked("/dev/lxd/sock") else init.split(":")[0]
    if raw.marked("/run/.containerenv"):
        return first_match(r'^engine="([a-z]+)', raw.file("/run/.containerenv")) or "podman"
    named = _foreign(groups) + (root if " - overlay " in root else "")
    found = next((kind for word, kind in _TRACES if word in named), "")
    if found:
        return found
    if raw.marked("/.dockerenv") and (" - overlay " in root or _mounted_by_docker(raw)):
        return "docker"
    if raw.marked("/.flatpak-info"):
        return "flatpak"
    return "openvz" if raw.marked("/proc/vz") and not raw.marked("/proc/bc") else ""


def _foreign(groups: str) -> str:
    # A service's own group names the engine on the host as well: /system.slice/docker.service runs in no container.
    return "\n".join(line for line in groups.splitlines() if not re.search(r"\.service(/|$)|/user\.slice", line))


def _mounted_by_docker(raw: Raw) -> bool:
    # A file system that was once an image keeps /.dockerenv; a real container also has these files mounted in.
    places = {line.split(" ")[4] for line in raw.texts("mounts") if len(line.split(" ")) > 4}
    return bool(places & {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"})


# ---- limits, user, software --------------------------------------------------------------------------------------


def processors(raw: Raw) -> int | None:
    """The processors that this process gets: those it may run on, and no more than its quota."""
    own = raw.number("processors")
    quotas = []
    limits = raw.table("limits")
    for path, text in limits.items():
        if not isinstance(text, str):
            continue
        if path.endswith("/cpu.max"):
            quota, _, period = text.partition(" ")
        elif path.endswith("/cpu.cfs_quota_us"):
            quota, period = text, str(limits.get(path.replace("quota_us", "period_us"), ""))
        else:
            continue
        amount, span = whole(quota), whole(period)
        if amount and span:
            quotas.append(max(1, math.ceil(amount / span)))
    known = [number for number in (own, *quotas) if number]
    return min(known, default=None)


def memory(raw: Raw) -> int | None:
    """The memory that this process gets, in bytes."""
    total = whole(first_match(r"^MemTotal:\s+([0-9]{1,15}) kB", raw.file("/proc/meminfo")))
    known = [total * 1024] if total else []
    for path, text in raw.table("limits").items():
        if path.endswith(("/memory.max", "/memory.limit_in_bytes")):
            limit = whole(text)
            # An unlimited group of the first kind tells a number near the end of the range.
            if limit and limit < 2**60:
                known.append(limit)
    return min(known, default=None)


def _groups(raw: Raw) -> tuple[str, ...] | None:
    if not raw.table("identity"):
        return None
    names = (group.text("name") or str(group.get("id")) for group in raw.tables("identity", "groups"))
    return tuple(name for name in names if name and name != "None")


def _modules(raw: Raw) -> tuple[str, ...] | None:
    value = raw.get("modules")
    return tuple(sorted(name for name in value if isinstance(name, str))) if isinstance(value, Mapping) else None


def packages(raw: Raw) -> dict[str, str]:
    """The system packages that matter."""
    found = {
        name: version for name, version in raw.table("packages").items() if isinstance(name, str) and isinstance(version, str)
    }
    answer = raw.tool("rpm")
    if answer and answer.code == 0:
        from envkit.detect.probe import PACKAGES

        for line in answer.stdout.splitlines():
            name, separator, version = line.partition("\t")
            if separator and PACKAGES.match(name):
                found[name] = version.strip()
    return dict(sorted(found.items()))


def services(raw: Raw) -> dict[str, str]:
    """The state of NVIDIA's services, where there is an NVIDIA device that could need them."""
    if not any(device.text("vendor") == "0x10de" for device in raw.tables("pci")):
        return {}
    answer = raw.tool("systemctl show")
    states = dict(re.findall(r"(?m)^Id=(\S+?)\.service\n(?:ActiveState=(\S+))$", answer.stdout)) if answer else {}
    if not states and answer:
        # The two properties may come in either order.
        states = {name: state for state, name in re.findall(r"(?m)^ActiveState=(\S+)\nId=(\S+?)\.service$", answer.stdout)}
    found = {}
    for unit, installed in raw.table("units").items():
        if installed is False:
            found[unit] = "not-installed"
        elif unit in states:
            found[unit] = states[unit]
    return found


# ---- devices -----------------------------------------------------------------------------------------------------


def pci_id(device: Raw) -> str:
    """The vendor:device id of a raw PCI device, lower case and without 0x; "" where it is malformed."""
    parts = [re.fullmatch(r"0x([0-9a-fA-F]{4})", device.text(key)) for key in ("vendor", "device")]
    return ":".join(part[1].lower() for part in parts if part) if all(parts) else ""


def devices(raw: Raw) -> list[Seen]:
    """The accelerators on the bus; in WSL those of the Windows side."""
    every = raw.tables("pci")
    addresses = {device.text("address") for device in every}
    found = [
        Seen(
            vendor=VENDORS.get(pci_id(device)[:4], ""),
            pci_id=pci_id(device),
            pci_address=device.text("address").lower(),
            kernel_driver=device.text("driver"),
            name=device.text("product_name"),
            memory_bytes=device.number("mem_info_vram_total"),
        )
        for device in every
        if is_accelerator(device) and not is_guests_function(device, addresses)
    ]
    if not found and is_wsl(raw):
        answer = raw.tool("powershell", exact=True)
        document = json_of(answer.stdout) if answer else None
        listed = windows.adapters(Raw(document if isinstance(document, Mapping) else {}))
        found = [
            Seen(
                vendor=device.vendor,
                pci_id=device.pci_id,
                kernel_driver="dxgkrnl",
                name=device.name,
                memory_bytes=device.memory_bytes,
                driver_version=device.driver_version,
            )
            for device in listed
        ]
    return found


def is_accelerator(device: Raw) -> bool:
    """Whether a PCI device computes: not a virtual screen, a management controller's, a switch or a neural unit of a CPU."""
    ident = pci_id(device)
    vendor = ident[:4]
    kind = device.text("class").removeprefix("0x")
    if not ident or vendor in VIRTUAL or ident in MANAGEMENT or kind.startswith("0680"):
        return False
    if vendor == "1d0f":  # its network and storage cards and its screen have other numbers
        return ident[5] == "7"
    if vendor in ("1ae0", "1da3", "cabc", "1e52", "1e36"):
        return not kind.startswith(("01", "02", "04", "06"))
    if vendor == "8086":
        return kind.startswith("03")
    if vendor == "19e5":
        return kind.startswith(("12", "0b40"))
    if vendor in VENDORS:
        return kind.startswith(("03", "12"))
    # Nobody's card that only draws is a screen; one that calls itself an accelerator or a 3D controller is news.
    return kind.startswith(("0302", "12"))


def is_guests_function(device: Raw, addresses: set[str]) -> bool:
    """Whether a virtual function (SR-IOV) is there for a guest: the card itself is listed already."""
    if device.text("physfn") not in addresses or not device.text("physfn"):
        return False
    driver = device.text("driver")
    # NVIDIA binds its own driver to the functions that back virtual GPUs, so that says nothing there.
    return pci_id(device).startswith("10de") or not driver or driver in GIVEN_AWAY


def evidence(raw: Raw) -> dict[str, Any]:
    """Excerpts of what the facts rest on, by the file or command that shows them."""
    release = raw.file("/etc/os-release") or raw.file("/usr/lib/os-release")
    wanted = re.findall(r"(?m)^(?:PRETTY_NAME|ID|ID_LIKE|VERSION_ID|VERSION_CODENAME|UBUNTU_CODENAME)=.*$", release)
    found = {"/etc/os-release": "\n".join(wanted)}
    found["/sys/bus/pci/devices"] = "\n".join(_pci_line(device) for device in raw.tables("pci"))
    nodes = raw.tables("nodes")
    if nodes:
        found["ls -ln /dev"] = "\n".join(_node_line(node) for node in nodes)
        groups = ",".join(f"{group.get('id')}({group.text('name')})" for group in raw.tables("identity", "groups"))
        found["id"] = f"uid={raw.get('identity', 'uid')} gid={raw.get('identity', 'gid')} groups={groups}"
    found["dmesg"] = "\n".join(raw.texts("kernel_log"))
    if raw.tables("pci"):
        for name in ("sys_vendor", "product_name", "product_version"):
            found[f"/sys/class/dmi/id/{name}"] = raw.file(f"/sys/class/dmi/id/{name}").strip()
    if raw.marked("/.dockerenv") and not container(raw):
        found["/.dockerenv"] = "left over from an image; this is no container"
    found["dkms status"] = "\n".join(raw.texts("settings", "dkms"))
    found["/etc/modprobe.d"] = "\n".join(raw.texts("settings", "modprobe"))
    found["ls /etc/cdi /var/run/cdi"] = "\n".join(raw.texts("settings", "cdi"))
    if raw.tables("pci"):
        found["ls /etc/OpenCL/vendors"] = "\n".join(raw.texts("settings", "opencl"))
    found["ls $LD_LIBRARY_PATH"] = "\n".join(
        f"{folder}/{name}" for folder in raw.table("library_path") for name in raw.texts("library_path", folder)
    )
    if is_wsl(raw):
        # Here the driver's libraries come from Windows; another one first on the path is news.
        found["ls -l libcuda.so*"] = "\n".join(line for line in raw.texts("libraries") if "/libcuda" in line)
    found["df /dev/shm"] = raw.text("shm_refused")
    for command in ("prime-select query", "envycontrol --query", "supergfxctl --get"):
        answer = raw.tool(command, exact=True)
        if answer and answer.ok:
            found[command] = answer.said
    journal = raw.tool("journalctl")
    if journal and journal.ok and services(raw).get("nvidia-fabricmanager", "active") != "active":
        found["journalctl -u nvidia-fabricmanager"] = journal.said
    for command in ("systemctl show", "rpm", "powershell"):
        answer = raw.tool(command)
        if answer and not answer.ok:
            found[command] = answer.said
    return found


def _pci_line(device: Raw) -> str:
    parts = [device.text("address"), pci_id(device), f"class {device.text('class').removeprefix('0x')}"]
    parts.append(f"driver {device.text('driver') or 'none'}")
    if device.text("physfn"):
        parts.append(f"virtual function of {device.text('physfn')}")
    vendor = pci_id(device)[:4]
    if vendor in VIRTUAL or pci_id(device) in MANAGEMENT:
        parts.append(f"{VIRTUAL.get(vendor) or MANAGEMENT[pci_id(device)]} display, no accelerator")
    return " ".join(parts)


def _node_line(node: Raw) -> str:
    tail = (
        "" if node.get("open") is not False else f" (not for this user{': ' + node.text('error') if node.text('error') else ''})"
    )
    return f"{node.text('mode')} {node.get('uid')} {node.get('gid')} {node.text('path')}{tail}"
