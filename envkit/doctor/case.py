"""The facts of one machine as the checks look at them. Pure: nothing here asks a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from envkit.errors import EnvkitError
from envkit.model import Dotted, DriverFacts, Facts, Gpu, Matrix, Os, Plan, Wish, dotted
from envkit.resolve import resolve
from envkit.resolve.target import identified

# Longer lines than this are cut before a pattern sees them: logs of others are not to be trusted with our time.
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Hit:
    """A line that a pattern was found in."""

    place: str  # dmesg, nvidia-smi, error: the command or file that printed it
    line: str
    match: re.Match[str]

    def __str__(self) -> str:
        return f"{self.place}: {self.line.strip()}"

    def __getitem__(self, group: int | str) -> str:
        """A group of the match; "" where it took no part."""
        return self.match[group] or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Torch:
    """The torch of a report, whichever of its tables told of it."""

    version: str = ""  # "2.6.0+cu124"; "" where it is not known
    flavour: str = ""  # cuda, rocm, xpu, cpu; "" where it cannot be told
    tag: str = ""  # cu124, rocm6.4, cpu; "" for none
    cuda: str = ""  # the CUDA it was built with
    hip: str = ""
    available: bool | None = None
    archs: tuple[str, ...] | None = None  # the code it holds
    device_count: int | None = None
    device_names: tuple[str, ...] = ()

    @property
    def release(self) -> Dotted | None:
        """Its release in numbers: 2.6.0."""
        return dotted(self.version)


class Case:
    """One machine, its Python and what was printed there; every part may be missing."""

    def __init__(self, matrix: Matrix, facts: Facts) -> None:
        self.matrix = matrix
        self.facts = facts
        self.machine = facts.machine
        self.driver: DriverFacts = facts.machine.driver

    # ---- the machine ---------------------------------------------------------------------------------------------

    @cached_property
    def os(self) -> Os | None:
        """The system; WSL2 is one of its own. None where nothing tells."""
        word = self.machine.os.lower()
        os = Os(word) if word in set(Os) else None
        return Os.WSL2 if os is Os.LINUX and self.machine.wsl else os

    @property
    def wsl(self) -> bool:
        """Whether it is inside WSL."""
        return self.os is Os.WSL2

    @property
    def in_container(self) -> bool:
        """Whether the report is from inside a container, or of a container run."""
        return bool(self.machine.container)

    @cached_property
    def gpus(self) -> tuple[Gpu, ...]:
        """The cards, identified as far as the catalogue knows them."""
        return identified(self.matrix, self.facts)

    def cards(self, vendor: str) -> tuple[Gpu, ...]:
        """The cards of one vendor."""
        return tuple(card for card in self.gpus if card.vendor == vendor)

    def has_module(self, name: str) -> bool | None:
        """Whether a kernel module is loaded; None where that was not looked at."""
        return None if self.machine.modules is None else name in self.machine.modules

    def has_device(self, pattern: str) -> bool | None:
        """Whether a device node whose path matches exists; None where that was not looked at."""
        devices = self.machine.devices
        return None if devices is None else any(re.search(pattern, path) for path in devices)

    @cached_property
    def package_manager(self) -> str:
        """apt, dnf, zypper or pacman; "" where it cannot be told."""
        names = {self.machine.os_id.rpartition("-")[0] or self.machine.os_id, *self.machine.os_like}
        title = self.machine.os_release.lower()
        for manager, families in _MANAGERS.items():
            if names & set(families) or any(re.search(rf"\b{family}\b", title) for family in families):
                return manager
        return ""

    # ---- Python --------------------------------------------------------------------------------------------------

    @cached_property
    def packages(self) -> Mapping[str, str]:
        """The Python packages by normalised name, torch of the [torch] table included."""
        found = {normal(name): version for name, version in self.facts.python.packages.items()}
        version = self.facts.torch.get("version")
        if isinstance(version, str) and version:
            found.setdefault("torch", version)
        return found

    @cached_property
    def torch(self) -> Torch:
        """The torch that runs."""
        table = self.facts.torch
        version = str(table.get("version") or self.packages.get("torch", ""))
        cuda, hip, xpu = (_text(table.get(key)) for key in ("cuda", "hip", "xpu"))
        local = version.partition("+")[2]
        archs, names = table.get("arch_list"), table.get("device_names")
        available, count = table.get("available"), table.get("device_count")
        return Torch(
            version=version,
            flavour=_flavour(local, cuda, hip, xpu, told="cuda" in table and "hip" in table),
            tag=local,
            cuda=cuda,
            hip=hip,
            available=available if isinstance(available, bool) else None,
            archs=tuple(map(str, archs)) if isinstance(archs, (list, tuple)) else None,
            device_count=count if isinstance(count, int) else None,
            device_names=tuple(map(str, names)) if isinstance(names, (list, tuple)) else (),
        )

    @cached_property
    def python(self) -> Dotted | None:
        """The Python in question."""
        return dotted(self.facts.python.version)

    def variable(self, name: str) -> str | None:
        """An environment variable of the process that failed; None where it is not known to be set."""
        if name in self.facts.env:
            return self.facts.env[name]
        for place, text in self.facts.evidence.items():
            if re.search(rf"(printenv {name}|echo \$\{{?{name}\}}?|echo %{name}%)\b", place + " ") and "%" not in text:
                return text.strip()
        return None

    # ---- what was printed ----------------------------------------------------------------------------------------

    @cached_property
    def request(self) -> str:
        """What the person tried to install or run."""
        return "\n".join(str(text) for text in self.facts.request.values())

    @cached_property
    def _printed(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (place, line[:_LONGEST]) for place, text in self.facts.evidence.items() for line in (text.splitlines() or [""])
        )

    def hits(self, pattern: str, *places: str) -> Iterator[Hit]:
        """The lines that a pattern is found in, whatever the case; `places` narrows it to those whose name has one of these."""
        found = _compiled(pattern).search
        for place, line in self._printed:
            if (not places or any(word in place for word in places)) and (match := found(line)):
                yield Hit(place, line, match)

    def hit(self, pattern: str, *places: str) -> Hit | None:
        """The first line that a pattern is found in; None where there is none."""
        return next(self.hits(pattern, *places), None)

    def printed(self, *places: str) -> str:
        """All that was printed at places whose name has one of these words."""
        return "\n".join(text for place, text in self.facts.evidence.items() if any(word in place for word in places))

    # ---- what it should have -------------------------------------------------------------------------------------

    @cached_property
    def plan(self) -> Plan | None:
        """The plan that this machine should have; None where nothing fits or too little is known."""
        try:
            return resolve(self.matrix, Wish(), self._with_driver()).plan
        except EnvkitError:
            return None

    def _with_driver(self) -> Facts:
        """The facts with the driver that only nvidia-smi's header tells, so that a plan is made for it."""
        header = self.hit(_SMI_DRIVER, "nvidia-smi") if self.cards("nvidia") else None
        if header is None or self.driver.kernel or self.machine.drivers:
            return self.facts
        driver = replace(self.driver, kernel=header[1])
        return replace(self.facts, machine=replace(self.machine, driver=driver))


_SMI_DRIVER = r"(?:driver|KMD) version\s*:\s*(\d{3}\.\d+(?:\.\d+)?)"
_MANAGERS = {
    "apt": ("debian", "ubuntu", "linuxmint", "pop", "kali", "raspbian"),
    "dnf": ("fedora", "rhel", "rocky", "almalinux", "centos", "oracle", "amzn"),
    "zypper": ("suse", "opensuse-leap", "opensuse-tumbleweed", "opensuse", "sles"),
    "pacman": ("arch", "manjaro", "cachyos", "endeavouros"),
}


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def normal(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _text(value: object) -> str:
    return value if isinstance(value, str) and value not in ("None", "N/A") else ""


def _flavour(local: str, cuda: str, hip: str, xpu: str, *, told: bool) -> str:
    """What a torch was built for. A plain version says nothing: PyPI's wheels are for CUDA on Linux and for the CPU elsewhere."""
    if hip or local.startswith("rocm"):
        return "rocm"
    if cuda or re.match(r"cu\d", local):
        return "cuda"
    if xpu or local.startswith("xpu"):
        return "xpu"
    return "cpu" if local.startswith("cpu") or told else ""
