"""Facts as a document and back: `envkit/facts/1`, in JSON or TOML, written by the program or by hand."""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from envkit.detect import releases
from envkit.errors import InvalidFile
from envkit.model import DriverFacts, Facts, Gpu, Machine, PythonFacts

SCHEMA = "envkit/facts/1"


# ---- writing -----------------------------------------------------------------------------------------------------


def facts_document(facts: Facts) -> dict[str, Any]:
    """The document, in the order in which the interface lists its keys; what is not known is left out."""
    python = facts.python
    document = {
        "machine": _machine_table(facts.machine),
        "python": _known(
            {
                "version": python.version,
                "machine": python.machine,
                "executable": python.executable,
                "packages": dict(python.packages),
            }
        ),
        "torch": dict(facts.torch),
        "env": dict(facts.env),
        "request": dict(facts.request),
        "evidence": dict(facts.evidence),
    }
    return {"schema": SCHEMA} | {name: table for name, table in document.items() if table}


def _machine_table(machine: Machine) -> dict[str, Any]:
    looked = machine.wsl is not None
    table = _known(
        {
            "os": machine.os,
            "os_release": machine.os_release,
            "os_id": machine.os_id,
            "os_like": list(machine.os_like) or None,
            "kernel": machine.kernel,
            "arch": machine.arch,
            "libc": machine.libc,
            "glibc": machine.glibc,
            "wsl": machine.wsl,
        }
    )
    if machine.container or (looked and machine.os == "linux"):
        table["container"] = machine.container  # "" says that there is none
    table |= _known(
        {
            "secure_boot": machine.secure_boot,
            "user_groups": _listed(machine.user_groups),
            "devices": _listed(machine.devices),
            "devices_denied": _listed(machine.devices_denied),
            "modules": _listed(machine.modules),
            "system_packages": dict(machine.system_packages),
            "services": dict(machine.services),
            "shm_bytes": machine.shm_bytes,
            "cpus": machine.cpus,
            "memory_bytes": machine.memory_bytes,
        }
    )
    if machine.gpus is not None:
        table["gpu"] = [_gpu_table(gpu) for gpu in machine.gpus]
    driver = _driver_table(machine.driver)
    if driver:
        table["driver"] = driver
    if machine.drivers:
        table["drivers"] = {vendor: _driver_table(facts) for vendor, facts in machine.drivers.items()}
    return table


def _gpu_table(gpu: Gpu) -> dict[str, Any]:
    return _known(
        {
            "name": gpu.name,
            "pci_id": gpu.pci_id,
            "arch": gpu.arch,
            "kernel_driver": gpu.kernel_driver,
            "memory_bytes": gpu.memory_bytes,
            "vendor": gpu.vendor,
            "pci_address": gpu.pci_address,
        }
    )


def _driver_table(driver: DriverFacts) -> dict[str, Any]:
    return _known({"kernel": driver.kernel, "userspace": driver.userspace, "license": driver.license, "toolkit": driver.toolkit})


def _known(table: Mapping[str, Any]) -> dict[str, Any]:
    # An empty list is an answer (nothing there), an empty text or table is none.
    return {name: value for name, value in table.items() if value is not None and value not in ("", {})}


def _listed(values: tuple[str, ...] | None) -> list[str] | None:
    return None if values is None else list(values)


# ---- reading -----------------------------------------------------------------------------------------------------


class Reader:
    """Takes typed values out of a parsed file and notes every fault with its dotted path."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.notes: list[str] = []

    def fault(self, path: str, wanted: str, value: object) -> None:
        """Notes that `path` holds something else than `wanted`."""
        self.faults.append(f"{path}: expected {wanted}, got {_describe(value)}")

    def table(self, holder: Mapping[str, Any], path: str, known: Sequence[str] | None = None) -> Mapping[str, Any]:
        """The table at the last part of `path`; empty where there is none."""
        value = holder.get(_leaf(path))
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.fault(path, "a table", value)
            return {}
        if known is not None:
            self.unknown(value, path, known)
        return value

    def unknown(self, table: Mapping[str, Any], path: str, known: Sequence[str]) -> None:
        """Notes keys that mean nothing here; they are ignored, since later versions may know more."""
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(str(key), known, n=1)
                meant = f"; did you mean '{close[0]}'?" if close else ""
                self.notes.append(f"{path}.{key}: unknown key{meant}".lstrip("."))

    def text(self, holder: Mapping[str, Any], path: str) -> str:
        """Text, or ""."""
        value = holder.get(_leaf(path))
        if value is None:
            return ""
        if not isinstance(value, str):
            quoted = " (a version needs quotes)" if isinstance(value, int | float) and not isinstance(value, bool) else ""
            self.fault(path, "text" + quoted, value)
            return ""
        return value

    def flag(self, holder: Mapping[str, Any], path: str) -> bool | None:
        """True, False, or None where it is not said."""
        value = holder.get(_leaf(path))
        if value is not None and not isinstance(value, bool):
            self.fault(path, "true or false", value)
            return None
        return value

    def number(self, holder: Mapping[str, Any], path: str) -> int | None:
        """A whole number from 0 on, or None."""
        value = holder.get(_leaf(path))
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            self.fault(path, "a whole number", value)
            return None
        return value

    def texts(self, holder: Mapping[str, Any], path: str) -> tuple[str, ...] | None:
        """A list of texts, or None."""
        value = holder.get(_leaf(path))
        if value is None:
            return None
        if not isinstance(value, list):
            self.fault(path, "a list of texts", value)
            return None
        for at, item in enumerate(value):
            if not isinstance(item, str):
                self.fault(f"{path}[{at}]", "text", item)
        return tuple(item for item in value if isinstance(item, str))

    def pairs(self, holder: Mapping[str, Any], path: str) -> dict[str, str]:
        """A table of texts."""
        found = {}
        for key, value in self.table(holder, path).items():
            if isinstance(value, str):
                found[key] = value
            else:
                self.fault(f"{path}.{key}", "text", value)
        return found


def _leaf(path: str) -> str:
    return path.rsplit(".", 1)[-1]


def _describe(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"number {value}"
    if isinstance(value, str):
        return f"text {value[:40]!r}"
    if isinstance(value, list):
        return "a list"
    return "a table" if isinstance(value, Mapping) else type(value).__name__


_TOP = ("schema", "machine", "python", "torch", "env", "request", "evidence", "expected")
_MACHINE = (
    *(
        "os",
        "os_release",
        "os_id",
        "os_like",
        "kernel",
        "arch",
        "libc",
        "glibc",
        "wsl",
        "container",
        "secure_boot",
        "user_groups",
    ),
    *("devices", "devices_denied", "modules", "system_packages", "services", "shm_bytes", "cpus", "memory_bytes"),
    *("gpu", "driver", "drivers"),
)
_GPU = ("name", "pci_id", "arch", "kernel_driver", "memory_bytes", "vendor", "pci_address")
_DRIVER = ("kernel", "userspace", "license", "toolkit")
_TORCH: Mapping[str, Callable[[Reader, Mapping[str, Any], str], Any]] = {
    **dict.fromkeys(("version", "cuda", "hip", "xpu"), Reader.text),
    "available": Reader.flag,
    "device_count": Reader.number,
    "arch_list": Reader.texts,
    "device_names": Reader.texts,
}
_SYSTEMS = ("linux", "windows", "macos")


def read_facts(path: Path, notes: list[str] | None = None) -> Facts:
    """The facts in a JSON or TOML file, any part of which may be missing.

    Raises InvalidFile with every fault of the file. What means nothing here is ignored and, when `notes` is given,
    named there.
    """
    document = _load(path)
    reader = Reader()
    facts = _facts(reader, document)
    if reader.faults:
        raise InvalidFile(f"{path} is no facts document:", faults=reader.faults, hint="see docs: the document `facts`")
    if notes is not None:
        notes.extend(reader.notes)
    return facts


def _load(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as fault:
        raise InvalidFile(f"{path} cannot be read: {fault.strerror or fault}") from None
    except UnicodeDecodeError as fault:
        raise InvalidFile(f"{path} is not UTF-8 text: {fault.reason} at byte {fault.start}") from None
    is_json = path.suffix.lower() == ".json" or (path.suffix.lower() != ".toml" and text.lstrip().startswith("{"))
    try:
        document = json.loads(text) if is_json else tomllib.loads(text)
    except RecursionError:
        raise InvalidFile(f"{path} is nested too deeply") from None
    except ValueError as fault:
        raise InvalidFile(f"{path} is not valid {'JSON' if is_json else 'TOML'}: {fault}") from None
    if not isinstance(document, Mapping):
        raise InvalidFile(f"{path} is no facts document: expected a table, got {_describe(document)}")
    return document


def _facts(reader: Reader, document: Mapping[str, Any]) -> Facts:
    schema = document.get("schema")
    if schema not in (None, SCHEMA):
        reader.faults.append(f"schema: expected {SCHEMA!r}, got {_describe(schema)}")
    reader.unknown(document, "", _TOP)
    python = reader.table(document, "python", ("version", "machine", "executable", "packages"))
    return Facts(
        machine=_machine(reader, reader.table(document, "machine", _MACHINE)),
        python=PythonFacts(
            version=reader.text(python, "python.version"),
            machine=reader.text(python, "python.machine"),
            executable=reader.text(python, "python.executable"),
            packages=reader.pairs(python, "python.packages"),
        ),
        torch=_torch(reader, reader.table(document, "torch")),
        env=reader.pairs(document, "env"),
        request=dict(reader.table(document, "request")),
        evidence=reader.pairs(document, "evidence"),
    )


def _torch(reader: Reader, table: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in table.items():
        take = _TORCH.get(key)
        taken = take(reader, table, f"torch.{key}") if take else value
        if value is not None and taken is not None:
            found[key] = list(taken) if isinstance(taken, tuple) else taken
    return found


def _machine(reader: Reader, table: Mapping[str, Any]) -> Machine:
    def at(name: str) -> str:
        return f"machine.{name}"

    system = reader.text(table, at("os"))
    if system and system not in _SYSTEMS:
        meant = '; for WSL2 write os = "linux" and wsl = true' if system.lower().startswith("wsl") else ""
        reader.faults.append(f"machine.os: expected one of {', '.join(_SYSTEMS)}, got {system!r}{meant}")
    release, kernel = reader.text(table, at("os_release")), reader.text(table, at("kernel"))
    glibc = reader.text(table, at("glibc"))
    arch = reader.text(table, at("arch"))
    return Machine(
        os=system,
        os_release=release,
        os_id=reader.text(table, at("os_id")) or releases.id_of_title(release, kernel),
        os_like=reader.texts(table, at("os_like")) or (),
        kernel=kernel,
        arch=releases.arch_word(arch, system or "linux") if arch else "",
        glibc=glibc,
        libc=reader.text(table, at("libc")) or ("glibc" if glibc else ""),
        wsl=reader.flag(table, at("wsl")),
        container=reader.text(table, at("container")),
        secure_boot=reader.flag(table, at("secure_boot")),
        user_groups=reader.texts(table, at("user_groups")),
        devices=reader.texts(table, at("devices")),
        devices_denied=reader.texts(table, at("devices_denied")),
        modules=reader.texts(table, at("modules")),
        system_packages=reader.pairs(table, at("system_packages")),
        services=reader.pairs(table, at("services")),
        shm_bytes=reader.number(table, at("shm_bytes")),
        cpus=reader.number(table, at("cpus")),
        memory_bytes=reader.number(table, at("memory_bytes")),
        gpus=_gpus(reader, table),
        driver=_driver(reader, reader.table(table, at("driver"), _DRIVER), at("driver")),
        drivers={
            vendor: _driver(
                reader,
                reader.table(reader.table(table, at("drivers")), at(f"drivers.{vendor}"), _DRIVER),
                at(f"drivers.{vendor}"),
            )
            for vendor in reader.table(table, at("drivers"))
        },
    )


def _gpus(reader: Reader, table: Mapping[str, Any]) -> tuple[Gpu, ...] | None:
    entries = table.get("gpu")
    if entries is None:
        return None
    if isinstance(entries, Mapping):
        entries = [entries]  # [machine.gpu] with single brackets: one device is what was meant
    if not isinstance(entries, list):
        reader.fault("machine.gpu", "a list of tables", entries)
        return None
    return tuple(_gpu(reader, entry, f"machine.gpu[{at}]") for at, entry in enumerate(entries))


def _gpu(reader: Reader, entry: Any, path: str) -> Gpu:
    if not isinstance(entry, Mapping):
        reader.fault(path, "a table", entry)
        return Gpu()
    reader.unknown(entry, path, _GPU)
    ident = reader.text(entry, f"{path}.pci_id").lower().replace("0x", "")
    if ident and not re.fullmatch(r"[0-9a-f]{4}:[0-9a-f]{4}", ident):
        reader.faults.append(f"{path}.pci_id: expected vendor:device such as '10de:2684', got {ident!r}")
    return Gpu(
        name=reader.text(entry, f"{path}.name"),
        pci_id=ident,
        arch=reader.text(entry, f"{path}.arch"),
        kernel_driver=reader.text(entry, f"{path}.kernel_driver"),
        memory_bytes=reader.number(entry, f"{path}.memory_bytes"),
        vendor=reader.text(entry, f"{path}.vendor"),
        pci_address=reader.text(entry, f"{path}.pci_address"),
    )


def _driver(reader: Reader, table: Mapping[str, Any], path: str) -> DriverFacts:
    return DriverFacts(
        kernel=reader.text(table, f"{path}.kernel"),
        userspace=reader.text(table, f"{path}.userspace"),
        license=reader.text(table, f"{path}.license"),
        toolkit=reader.text(table, f"{path}.toolkit"),
    )
