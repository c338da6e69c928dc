"""`envkit detect`: the facts of a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable

import click

from envkit.cli.output import emit, emit_json, format_option
from envkit.errors import UsageError
from envkit.model import DriverFacts, Facts, Gpu, Machine

_VENDORS = {
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "intel": "Intel",
    "apple": "Apple",
    "huawei": "Huawei",
    "google": "Google",
    "aws": "AWS",
    "habana": "Intel Gaudi",
    "cambricon": "Cambricon",
    "qualcomm": "Qualcomm",
    "moorethreads": "Moore Threads",
}
_TOOLKITS = {"nvidia": "CUDA", "amd": "ROCm", "intel": "oneAPI", "huawei": "CANN"}
_WIDTH = 13


@click.command()
@click.option("--host", default="", metavar="URL", help="Another machine: ssh://user@host:port, docker://NAME, ansible://NAME.")
@click.option("--identity", metavar="FILE", default="", help="The key to log in with, for ssh hosts.")
@click.option("--ssh-config", metavar="FILE", default="", help="An SSH configuration file, for ssh hosts.")
@format_option("text", "json")
def command(host: str, identity: str, ssh_config: str, form: str) -> None:
    """The facts of this machine, or of --host, in one round trip.

    Nothing has to be installed for it: vendors' tools only add to what the system itself tells.
    """
    from envkit.detect import detect, facts_document

    for name, value in (("--identity", identity), ("--ssh-config", ssh_config)):
        if value and not host:
            raise UsageError(f"{name} belongs to --host")
    if host:
        from envkit.verify.hosts import SshOptions, connect

        facts = detect(connect(host, SshOptions(config=ssh_config, identity=identity)))
    else:
        facts = detect()
    if form == "json":
        emit_json(facts_document(facts))
    else:
        emit(summary(facts))


# ---- the facts as text -------------------------------------------------------------------------------------------


def summary(facts: Facts) -> str:
    """The facts as a person reads them; what is not known is named at the end."""
    machine = facts.machine
    lines = [
        *_block("system", _system(machine)),
        *_block("accelerators", _accelerators(machine)),
        *_block("drivers", _drivers(machine)),
        *_block("devices", _devices(machine)),
        *_block("groups", [", ".join(machine.user_groups)] if machine.user_groups else []),
        *_block("services", [f"{name}: {state}" for name, state in machine.services.items()]),
        *_block("python", _python(facts)),
        *_block("environment", [f"{name}={value}" for name, value in facts.env.items()]),
        *_block("unknown", [", ".join(unknown(facts))] if unknown(facts) else []),
        *_block("notes", notes(facts)),
    ]
    return "\n".join(lines)


def _block(title: str, lines: Iterable[str]) -> list[str]:
    return [f"{title if at == 0 else '':{_WIDTH}} {line}".rstrip() for at, line in enumerate(lines)]


def _system(machine: Machine) -> list[str]:
    names = [machine.os_release or machine.os or "unknown system"]
    if machine.kernel:
        names.append(("build " if machine.os == "windows" else "kernel ") + machine.kernel)
    if machine.arch:
        names.append(machine.arch)
    if machine.glibc or machine.libc:
        names.append(f"glibc {machine.glibc}" if machine.glibc else machine.libc)
    sizes = []
    if machine.cpus:
        sizes.append(f"{machine.cpus} CPU{'s' if machine.cpus > 1 else ''}")
    if machine.memory_bytes:
        sizes.append(f"{size(machine.memory_bytes)} memory")
    if machine.shm_bytes is not None:
        sizes.append(f"{size(machine.shm_bytes)} /dev/shm")
    place = []
    if machine.os == "linux":
        place.append(f"inside a container ({machine.container})" if machine.container else "no container")
        place.append("WSL" if machine.wsl else "not WSL")
    if machine.secure_boot is not None:
        place.append(f"Secure Boot {'on' if machine.secure_boot else 'off'}")
    return [", ".join(part) for part in (names, sizes, place) if part]


def size(number: int) -> str:
    """A size in binary units: 16 GiB, 512 MiB."""
    for unit, factor in (("TiB", 1024**4), ("GiB", 1024**3), ("MiB", 1024**2)):
        if number >= factor:
            return f"{number / factor:.1f}".removesuffix(".0") + f" {unit}"
    return f"{number} bytes"


def _accelerators(machine: Machine) -> list[str]:
    if machine.gpus is None:
        return ["not looked for"]
    return [_accelerator(gpu, machine) for gpu in machine.gpus] or ["none found"]


def _accelerator(gpu: Gpu, machine: Machine) -> str:
    parts = [gpu.name or f"{_VENDORS.get(gpu.vendor, gpu.vendor)} device".strip()]
    parts.append(gpu.arch or "architecture unknown")
    if gpu.memory_bytes:
        parts.append(size(gpu.memory_bytes))
    if gpu.pci_id:
        parts.append(gpu.pci_id + (f" at {gpu.pci_address}" if gpu.pci_address else ""))
    if gpu.kernel_driver:
        parts.append(f"driver {gpu.kernel_driver}")
    elif machine.os == "linux" and gpu.pci_address:
        parts.append("no driver bound")
    return ", ".join(parts)


def _drivers(machine: Machine) -> list[str]:
    if machine.drivers:
        return [_driver(facts, vendor) for vendor, facts in machine.drivers.items()]
    vendors = {gpu.vendor for gpu in machine.gpus or ()}
    only = vendors.pop() if len(vendors) == 1 else ""
    return [_driver(machine.driver, only)] if machine.driver != DriverFacts() else []


def _driver(facts: DriverFacts, vendor: str) -> str:
    parts = []
    if facts.kernel:
        kind = {"NVIDIA": " (proprietary module)", "Dual MIT/GPL": " (open module)"}.get(facts.license, "")
        parts.append(f"kernel driver {facts.kernel}{kind}")
    elif facts.license:
        parts.append(f"no module loaded; the installed one has license {facts.license}")
    if facts.userspace:
        parts.append(f"libraries {facts.userspace}")
    if facts.toolkit:
        parts.append(f"system {_TOOLKITS.get(vendor, 'toolkit')} {facts.toolkit}")
    return f"{_VENDORS.get(vendor, vendor)}: {', '.join(parts)}".removeprefix(": ")


def _devices(machine: Machine) -> list[str]:
    denied = set(machine.devices_denied or ())
    return [f"{path} (this user may not open it)" if path in denied else path for path in machine.devices or ()]


def _python(facts: Facts) -> list[str]:
    python = facts.python
    if not python.version:
        return []
    head = f"{python.version}" + (f" ({python.machine})" if python.machine else "")
    shown = [name for name in python.packages if not name.startswith(("nvidia-", "intel-", "pip", "setuptools"))]
    packages = ", ".join(f"{name} {python.packages[name]}" for name in shown)
    lines = [f"{head}, {python.executable}" if python.executable else head, packages]
    cuda, hip = facts.torch.get("cuda"), facts.torch.get("hip")
    if facts.torch.get("version"):
        flavour = f"CUDA {cuda}" if cuda else f"ROCm {hip}" if hip else "XPU" if facts.torch.get("xpu") else "no GPU code"
        lines.append(f"torch is built with {flavour}" if "cuda" in facts.torch else "")
    return [line for line in lines if line]


def unknown(facts: Facts) -> list[str]:
    """What could not be told, of the things that decide what fits."""
    machine = facts.machine
    missing = [f"the architecture of {gpu.name or gpu.pci_id or 'a device'}" for gpu in machine.gpus or () if not gpu.arch]
    vendors = {gpu.vendor for gpu in machine.gpus or ()}
    if "nvidia" in vendors and not (machine.drivers.get("nvidia") or machine.driver).kernel:
        missing.append("the version of NVIDIA's driver (none loaded)")
    if machine.os == "linux" and not machine.libc:
        missing.append("the C library")
    if not machine.os_release:
        missing.append("the release of the system")
    if machine.gpus and machine.os == "linux" and machine.secure_boot is None and not machine.wsl:
        missing.append("Secure Boot")
    return list(dict.fromkeys(missing))


def notes(facts: Facts) -> list[str]:
    """Tools that failed or did not answer."""
    told = re.compile(r"no answer within .*|not asked: no time left|no answer in time|\(exit status .*\)")
    found = []
    for command, text in facts.evidence.items():
        status = told.search(text)
        if status:
            first = next((line.strip() for line in text.splitlines() if line.strip()), "")
            found.append(f"{command}: {first if status[0] in first else f'{first} {status[0]}'}")
    return found
