"""Machines made of files: trees that the probe reads as it reads a real machine, and a small catalogue of devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from envkit.detect import probe
from envkit.detect.parse import parse
from envkit.model import Facts, Product

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "detect"

UBUNTU = """PRETTY_NAME="Ubuntu 24.04.1 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.1 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
"""

# What the tests need of the catalogue, so that they do not change with it.
PRODUCTS = {
    "10de:2684": ("GeForce RTX 4090", "nvidia", "sm_89", "consumer"),
    "10de:2b85": ("GeForce RTX 5090", "nvidia", "sm_120", "consumer"),
    "10de:20b2": ("A100-SXM4-80GB", "nvidia", "sm_80", "datacenter"),
    "10de:2901": ("B200", "nvidia", "sm_100", "datacenter"),
    "1002:744c": ("Radeon RX 7900 XTX", "amd", "gfx1100", "consumer"),
    "1002:164e": ("Radeon Graphics (Raphael)", "amd", "gfx1036", "apu"),
    "1002:1586": ("Radeon 8060S", "amd", "gfx1151", "apu"),
    "1002:75a0": ("Instinct MI350X", "amd", "gfx950", "datacenter"),
    "1002:67df": ("Radeon RX 580", "amd", "gfx803", "consumer"),
    "8086:9bc4": ("UHD Graphics (Comet Lake)", "intel", "", "integrated"),
    "8086:56a0": ("Arc A770", "intel", "dg2", "consumer"),
    "8086:e223": ("Arc Pro B70", "intel", "bmg", "workstation"),
}
NAMES = {
    "jetson agx orin": "sm_87",
    "nvidia geforce rtx 4070": "sm_89",
    "apple m3 pro": "apple-m3",
    "apple m1": "apple-m1",
    "ascend 910b4": "ascend910b",
}


@dataclass(frozen=True)
class FakeFound:
    """The part of the catalogue's answer that detect looks at."""

    archs: tuple[str, ...]
    ambiguous: bool = False


@pytest.fixture(autouse=True)
def catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts a small catalogue in the place of the shipped one."""
    import envkit.devices as devices

    def by_pci(pci_id: str) -> Product | None:
        row = PRODUCTS.get(pci_id)
        return Product(name=row[0], vendor=row[1], arch=row[2], kind=row[3], pci_ids=(pci_id,)) if row else None

    def find(query: str) -> FakeFound:
        arch = NAMES.get(query.lower(), "")
        return FakeFound(archs=(arch,) if arch else ())

    monkeypatch.setattr(devices, "by_pci", by_pci, raising=False)
    monkeypatch.setattr(devices, "find", find, raising=False)


@pytest.fixture(scope="session")
def captured() -> Callable[[str], str]:
    """The text of a captured file."""

    def read(name: str) -> str:
        return (FIXTURES / name).read_bytes().decode("utf-8")

    return read


class Tree:
    """A machine made of files."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.answers: dict[str, dict[str, Any]] = {}
        self.asked: list[str] = []
        self.release = "6.8.0-41-generic"
        self.file("/etc/os-release", UBUNTU)
        self.file("/proc/meminfo", "MemTotal:       32617296 kB\n")
        self.file("/proc/self/cgroup", "0::/user.slice/user-1000.slice/session-2.scope\n")
        self.file("/proc/self/mountinfo", "28 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n")
        self.file("/proc/modules", "")
        self.file("/etc/group", "root:x:0:\nvideo:x:44:\nrender:x:109:\n")
        (root / "sys/firmware/efi").mkdir(parents=True)

    def file(self, path: str, content: str | bytes) -> Tree:
        """Writes a file."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        return self

    def link(self, path: str, target: str) -> Tree:
        """Makes a symbolic link."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(target)
        return self

    def pci(self, address: str, ident: str, kind: str = "030000", driver: str = "", **files: str) -> Tree:
        """Puts a device on the bus."""
        folder = f"/sys/bus/pci/devices/{address}"
        vendor, device = ident.split(":")
        for name, text in {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{kind}", **files}.items():
            if name == "physfn":
                self.link(f"{folder}/physfn", f"../{text}")
            else:
                self.file(f"{folder}/{name}", text + "\n")
        if driver:
            self.link(f"{folder}/driver", f"../../../../bus/pci/drivers/{driver}")
        return self

    def module(self, name: str, version: str = "") -> Tree:
        """Loads a kernel module."""
        with (self.root / "proc/modules").open("a") as stream:
            stream.write(f"{name} 16384 0 - Live 0x0000000000000000\n")
        self.file(f"/sys/module/{name}/refcnt", "0\n")
        return self.file(f"/sys/module/{name}/version", version + "\n") if version else self

    def kfd(self, node: int, properties: str) -> Tree:
        """Adds a node of the compute topology."""
        return self.file(f"/sys/class/kfd/kfd/topology/nodes/{node}/properties", properties)

    def tool(self, command: str, stdout: str = "", *, code: int | None = 0, stderr: str = "", hangs: bool = False) -> Tree:
        """Installs a tool that answers a command line that begins like `command`."""
        self.answers[command] = {"code": None if hangs else code, "stdout": stdout, "stderr": stderr, "timed_out": hangs}
        return self

    def raw(self, **changes: Any) -> dict[str, Any]:
        """The raw document, with what comes from the running interpreter made the same everywhere."""

        def run(argv: list[str], limit: float) -> dict[str, Any] | None:
            line = " ".join([Path(argv[0]).name.removesuffix(".exe"), *argv[1:]])
            self.asked.append(line)
            fitting = [command for command in self.answers if line == command or line.startswith(command + " ")]
            return (
                dict(self.answers[max(fitting, key=len)])
                if fitting
                else {"code": 1, "stdout": "", "stderr": "?", "timed_out": False}
            )

        def which(name: str) -> str | None:
            plain = name.removesuffix(".exe")
            return f"/usr/bin/{name}" if any(command.split()[0] == plain for command in self.answers) else None

        self.file("/proc/sys/kernel/osrelease", self.release + "\n")
        document = probe.read(str(self.root), run=run, which=which, system="linux")
        fixed = {
            "machine": "x86_64",
            "libc": "glibc 2.39",
            "processors": 8,
            "env": {},
            "python": {"version": "3.12.3", "bits": 64},
        }
        return document | fixed | changes

    def facts(self, **changes: Any) -> Facts:
        """The facts."""
        return parse(self.raw(**changes))


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """An Ubuntu machine without accelerators."""
    return Tree(tmp_path / "root")
