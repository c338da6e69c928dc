"""The shared types: frozen, without I/O. `None` means "not known", never "zero"; `""` in a text field means the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any

_NO_ITEMS: Mapping[str, Any] = MappingProxyType({})


def _nothing() -> Any:
    return _NO_ITEMS


# ---- words -------------------------------------------------------------------------------------------------------


class Os(StrEnum):
    """An operating-system family as schemes name it; WSL2 is one of its own, since its drivers are."""

    LINUX = "linux"
    WINDOWS = "windows"
    MACOS = "macos"
    WSL2 = "wsl2"


class Verdict(StrEnum):
    """What the matrix says of a combination, best first."""

    SUPPORTED = "supported"
    COMMUNITY = "community"
    OVERRIDE = "override"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"

    @property
    def rank(self) -> int:
        """0 for the best verdict, rising."""
        return list(Verdict).index(self)


class Evidence(StrEnum):
    """How well a row is known, weakest first."""

    CLAIMED = "claimed"
    INDEX_CHECKED = "index-checked"
    WHEEL_MEASURED = "wheel-measured"
    RUN_ON_HARDWARE = "run-on-hardware"


@lru_cache(maxsize=16384)
def _dotted_key(text: str) -> tuple[int, ...]:
    found = _DOTTED.match(text)
    numbers = [int(part) for part in (found[1] if found else text).split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    if found and found[2]:
        # What comes before 8.0 is later than every 7.x, so it stands at the end of that line.
        numbers[-1] -= 1
        numbers += [_BEFORE_FINAL + ("alpha", "beta", "rc").index(found[2].lower()), int(found[3] or 0)]
    return tuple(numbers)


_DOTTED = re.compile(r"(\d+(?:\.\d+)*)(?:[.-]?(alpha|beta|rc)\.?(\d*))?\Z", re.ASCII | re.IGNORECASE)
_BEFORE_FINAL = 1_000_000


class Dotted(str):
    """A version of plain numbers as its vendor writes it: drivers, CUDA, ROCm, CANN, glibc, kernels, Python.

    It keeps its text ("580.65.06") and compares by number ("6.2" equals "6.2.0"); "8.2.RC1" and "9.1.0-beta.3" come before
    their final release. Raises ValueError for anything else.
    """

    __slots__ = ()

    def __new__(cls, text: str) -> Dotted:
        """The version written `text`."""
        if not _DOTTED.match(text):
            raise ValueError(f"not a version: {text!r}")
        return super().__new__(cls, text)

    @property
    def key(self) -> tuple[int, ...]:
        """The numbers, without trailing zeros."""
        return _dotted_key(str(self))

    @property
    def major(self) -> int:
        """The first number."""
        return int(self.split(".")[0])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dotted):
            return self.key == other.key
        return str.__eq__(self, other) if isinstance(other, str) else NotImplemented

    # All four are written out: str has them already, so nothing would fill them in.
    def __lt__(self, other: str) -> bool:
        return self.key < _key_of(other)

    def __le__(self, other: str) -> bool:
        return self.key <= _key_of(other)

    def __gt__(self, other: str) -> bool:
        return self.key > _key_of(other)

    def __ge__(self, other: str) -> bool:
        return self.key >= _key_of(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)


def _key_of(other: str) -> tuple[int, ...]:
    # Comparisons of two versions are most of what the resolver does, so neither is read again.
    return other.key if isinstance(other, Dotted) else Dotted(other).key


def dotted(text: str | None) -> Dotted | None:
    """The version at the start of `text`, or None where there is none: "6.8.0-41-generic" gives 6.8.0."""
    found = re.match(r"\s*v?(\d+(?:\.\d+)*)", text or "", re.ASCII)
    return Dotted(found[1]) if found else None


# ---- a machine ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One accelerator as a machine shows it."""

    name: str = ""
    pci_id: str = ""  # vendor:device, lower case: 10de:2684
    arch: str = ""  # sm_89, gfx1100, dg2
    kernel_driver: str = ""  # the module bound to it
    memory_bytes: int | None = None
    vendor: str = ""  # nvidia, amd, intel, apple, huawei, ...
    pci_address: str = ""  # 0000:01:00.0


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverFacts:
    """What drives the accelerators. Four versions that never share a field."""

    kernel: str = ""  # the loaded module
    userspace: str = ""  # the libraries
    license: str = ""  # of the module: "NVIDIA" (proprietary) or "Dual MIT/GPL" (open)
    toolkit: str = ""  # a system CUDA, ROCm, oneAPI or CANN


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """The [machine] table of a facts document."""

    os: str = ""
    os_release: str = ""
    os_id: str = ""  # ubuntu-24.04, debian-12, windows-11: as the matrix names platforms
    os_like: tuple[str, ...] = ()  # what the distribution says it resembles (ID_LIKE), nearest first
    kernel: str = ""
    arch: str = ""
    glibc: str = ""
    libc: str = ""  # glibc, musl; "" elsewhere and where not known
    wsl: bool | None = None
    container: str = ""
    secure_boot: bool | None = None
    user_groups: tuple[str, ...] | None = None
    devices: tuple[str, ...] | None = None
    devices_denied: tuple[str, ...] | None = None  # those of `devices` that this user may not open
    modules: tuple[str, ...] | None = None
    system_packages: Mapping[str, str] = field(default_factory=_nothing)
    services: Mapping[str, str] = field(default_factory=_nothing)
    shm_bytes: int | None = None
    cpus: int | None = None
    memory_bytes: int | None = None
    gpus: tuple[Gpu, ...] | None = None  # None: not looked at; (): looked, none there
    driver: DriverFacts = field(default_factory=DriverFacts)
    drivers: Mapping[str, DriverFacts] = field(default_factory=_nothing)  # by vendor, where there are several


@dataclass(frozen=True, kw_only=True, slots=True)
class PythonFacts:
    """The [python] table: the interpreter in question and what is installed beside it."""

    version: str = ""
    machine: str = ""
    executable: str = ""
    packages: Mapping[str, str] = field(default_factory=_nothing)


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """A facts document: any part may be missing."""

    machine: Machine = field(default_factory=Machine)
    python: PythonFacts = field(default_factory=PythonFacts)
    torch: Mapping[str, Any] = field(default_factory=_nothing)
    env: Mapping[str, str] = field(default_factory=_nothing)
    request: Mapping[str, Any] = field(default_factory=_nothing)
    evidence: Mapping[str, str] = field(default_factory=_nothing)


# ---- the catalogue of devices ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """One accelerator that can be bought, or a chip that a PCI id names."""

    name: str
    vendor: str
    arch: str  # "" where one name was sold with different chips
    family: str = ""  # Ampere, RDNA3
    kind: str = ""  # datacenter, workstation, consumer, laptop, apu, soc, jetson
    cpu: str = ""  # aarch64, where it comes with a processor of that architecture and in no other way
    memory_gib: tuple[float, ...] = ()
    pci_ids: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()  # architectures, where one name means several
    year: int | None = None
    note: str = ""
    source: str = ""


# ---- the matrix --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a fact can be read."""

    id: str
    text: str
    url: str = ""
    date: str = ""  # read on


@dataclass(frozen=True, kw_only=True, slots=True)
class OsRelease:
    """One operating-system release: `[platform.<id>]`."""

    id: str  # ubuntu-24.04
    os: Os
    name: str
    glibc: Dotted | None = None
    python: str = ""  # the system's own
    kernel: Dotted | None = None
    min_build: Dotted | None = None  # Windows
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """One accelerator architecture: `[arch.<name>]`."""

    name: str  # sm_86, gfx1030
    vendor: str
    family: str
    min_backend: Dotted | None = None  # first toolkit that knows it (CUDA 12.8 for sm_120)
    last_backend: Dotted | None = None  # last toolkit that compiles for it (12.9 for sm_61: below 13)
    module: str = ""  # NVIDIA kernel module it can use: open, proprietary, either
    own_cpu_module: str = ""  # the one it can use where it comes with a processor of its own (Grace Hopper)
    runs_code_of: tuple[str, ...] | None = None  # only code of exactly these runs on it; None: the same-major rule
    exact_until: Dotted | None = None  # from this backend version on, the same-major rule holds after all
    graphics: bool = True  # False: made to compute alone, so that it is not known whether a graphics interface reaches it
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverBranch:
    """One branch of a vendor's kernel driver: `[[backend.<name>.branch]]`."""

    branch: Dotted  # 580; for amdgpu 30.10
    numbers: tuple[str, ...] = ()  # other numbers that the same driver shows: the module's own (6.14.14), an older naming (22.20)
    max_backend: Dotted | None = None  # newest toolkit it serves by itself
    dropped: tuple[str, ...] = ()  # architectures that this and every later branch no longer drives
    designation: str = ""
    eol: str = ""
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """The systems on which a vendor promises some cards, where those are fewer: `[[backend.<name>.limit]]`."""

    tags: tuple[str, ...]  # of the backend's releases
    about: tuple[str, ...]  # architectures, and products as the catalogue names them, which go before their architecture
    platforms: tuple[str, ...]  # platform ids; "windows" and "wsl2" for those altogether
    kernels: Mapping[str, tuple[Dotted, ...]] = field(default_factory=_nothing)  # in place of the release's own
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Promise:
    """For which releases a vendor lists single products: `[[backend.<name>.promise]]`. Others go by their architecture."""

    cards: tuple[str, ...]  # as the catalogue names them
    os: tuple[Os, ...]
    first: Dotted | None = None  # None: never listed
    last: Dotted | None = None
    deprecated: tuple[Dotted, ...] = ()  # the first and the last release that lists them so
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendRelease:
    """One release of a backend that frameworks publish wheels for: `[[backend.<name>.release]]`."""

    version: Dotted
    tag: str  # name of the wheel index: cu128, rocm6.4, cpu
    min_driver: Mapping[Os, Dotted] = field(default_factory=_nothing)  # what a wheel of this tag needs (minor-version floor)
    toolkit_driver: Mapping[Os, Dotted] = field(default_factory=_nothing)  # the toolkit's own driver
    max_driver: Mapping[Os, Dotted] = field(default_factory=_nothing)
    tested_driver: Mapping[Os, str] = field(default_factory=_nothing)  # released together, where no minimum is stated
    min_kernel: Mapping[Os, Dotted] = field(default_factory=_nothing)  # Windows: the build, 10.0.16299
    lists: Dotted | None = None  # the patch release whose lists of systems and cards hold; None: that of `version`
    platforms: tuple[str, ...] | None = None  # platform ids that the vendor lists; None: not known
    kernels: Mapping[str, tuple[Dotted, ...]] = field(default_factory=_nothing)  # Linux kernels that it lists, by platform id
    archs: tuple[str, ...] | None = None  # architectures that the vendor lists; None: not known
    deprecated_archs: tuple[str, ...] = ()
    evidence: Evidence = Evidence.CLAIMED
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class OverrideSetting:
    """A setting that makes code of another architecture run: `[[backend.<name>.override]]`."""

    arch: str  # gfx1031
    acts_as: str  # gfx1030
    env: Mapping[str, str]
    os: tuple[Os, ...]
    last_backend: Dotted | None = None  # the last release with which it was seen to work; None: no such border is known
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class DriverList:
    """Where a vendor lists its drivers, for `matrix refresh`: an entry of `driver_lists` in `[backend.<name>]`."""

    kind: str  # apt: a Packages file; rpm: a repository; folders: a page whose links are named by release
    url: str
    package: str = ""  # the package that is numbered like the driver, also with a branch behind it; "" for folders

    @property
    def source_id(self) -> str:
        """The id that its row of [source] gets."""
        return f"driver-list-{self.package or self.url.rstrip('/').rpartition('/')[2]}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """A compute runtime: `[backend.<name>]`."""

    name: str
    vendor: str  # "" for cpu, and for directml which serves any
    title: str
    device: str  # what the framework calls the device: cuda, xpu, mps, privateuseone, cpu
    releases: tuple[BackendRelease, ...] = ()
    branches: tuple[DriverBranch, ...] = ()
    overrides: tuple[OverrideSetting, ...] = ()
    promises: tuple[Promise, ...] = ()
    limits: tuple[Limit, ...] = ()
    # How code runs on a device: "cuda" (same major, PTX), "exact" (gfx), "any" (every card of the vendor), "listed" (those that
    # the backend's release lists, since the code is for the chip and no one says which is in a wheel).
    code_rule: str = ""
    modules: tuple[str, ...] = ()  # Linux kernel modules through which the compute stack reaches its cards
    visible: str = ""  # the variable that says which cards a process may use
    serves: tuple[str, ...] = ()  # of a backend without a vendor of its own: whose cards it can use; (): anyone's
    without_card: str = ""  # the device used where there is no such card; "": then it cannot be used
    # What the vendor's images call the chips that they are for, where there is one image a chip: ascend310p -> 310p.
    chips: Mapping[str, str] = field(default_factory=_nothing)
    driver_lists: tuple[DriverList, ...] = ()
    host_toolkit: bool = False  # the runtime is installed on the machine, since wheels bring none along
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class FrameworkRelease:
    """One release of a framework: `[[framework.<name>.release]]`."""

    version: str  # as published; packaging.version.Version where it is compared
    date: str = ""
    pythons: tuple[str, ...] = ()  # "3.11", free-threaded "3.13t"
    companions: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)  # torchvision -> versions, best first
    requires: Mapping[str, str] = field(default_factory=_nothing)  # library -> specifier: numpy -> "<2"
    pypi: Mapping[str, str] = field(
        default_factory=_nothing
    )  # platform -> the tag of the build that PyPI has without a local version
    yanked: bool = False
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Pin:
    """A further package that a build needs."""

    version: str
    index: str = ""  # "": where the build itself comes from
    extras: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Build:
    """One build of a framework for a tag and platforms: `[[framework.<name>.build]]`."""

    release: str  # "2.14" serves every 2.14.x, "2.14.1" that one alone
    tag: str  # cu128
    platforms: tuple[str, ...]  # linux/x86_64, windows/x86_64, macos/arm64
    archs: tuple[str, ...] | None = None  # compiled code: sm_80, gfx1030; None: not known
    maybe_archs: tuple[str, ...] = ()  # of which it is not known whether code for them is in it
    ptx: tuple[str, ...] = ()  # compute_90 as "sm_90": code that newer devices can translate
    published: bool | None = True  # None: not confirmed
    pythons: tuple[str, ...] | None = None  # None: those of the release
    glibc: Dotted | None = None
    macos: Dotted | None = None
    macos_pythons: Mapping[str, Dotted] = field(default_factory=_nothing)  # where the wheels of some Pythons need a newer one
    systems: Mapping[str, tuple[str, ...]] = field(default_factory=_nothing)  # listed for this build, by architecture or "other"
    local: str | None = None  # local version: "+cu128"; "" for none; None: "+" and the tag
    package: str = ""  # "": the framework's; onnxruntime-gpu
    index: str | None = None  # None: the framework's index with the tag; "vendor": by no index that uv can use
    image: str = ""  # the vendor's image that holds it; where there is one a chip, that for any of them
    device: str = ""  # what this build calls the device, where it is another word than the backend's: xla
    extras: str = ""  # "device-{arch}": torch[device-gfx1100]
    extras_of: tuple[str, ...] = ()  # companions that take the same extras
    packages: Mapping[str, Pin] = field(default_factory=_nothing)  # further packages that this build needs
    partners: tuple[str, ...] = ()  # what it pulls in that must come from its own index: strangers hold the name on PyPI
    vendor_supported: bool | None = None  # False: community work
    evidence: Evidence = Evidence.CLAIMED
    note: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Framework:
    """A framework: `[framework.<name>]`."""

    name: str
    package: str
    index: str  # "https://download.pytorch.org/whl/{tag}", or "pypi"
    default_packages: tuple[str, ...] = ()  # installed beside it: numpy
    companions: tuple[str, ...] = ()  # on request: torchvision, torchaudio
    no_wheels: Mapping[str, str] = field(default_factory=_nothing)  # what people ask for beside it and no index serves: why
    releases: tuple[FrameworkRelease, ...] = ()
    builds: tuple[Build, ...] = ()
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class LibraryRelease:
    """One release of a plain library that plans pin: `[[library.<name>.release]]`."""

    version: str
    pythons: tuple[str, ...]
    glibc: Dotted | None = None  # the oldest that its Linux wheels run on
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Container:
    """How a scheme looks as an image: `[scheme.<name>.container]`."""

    platform: str  # debian-12
    base: str  # debian:bookworm-slim
    digest: str = ""  # sha256:... where known
    vendor_base: str = ""  # a vendor's image, as a choice
    run_flags: tuple[str, ...] = ()  # --gpus=all
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """A named way to a working environment: `[scheme.<name>]`."""

    name: str
    os: Os
    backend: str
    framework: str
    task: str  # train, infer
    title: str
    for_whom: str
    device: str = ""  # what this framework calls the device, where it is another word than the backend's
    needs: tuple[str, ...] = ()
    pros: tuple[str, ...] = ()
    cons: tuple[str, ...] = ()
    cannot: tuple[str, ...] = ()
    container: Container | None = None
    no_container: str = ""  # why there is none, and the way out
    env: Mapping[str, str] = field(default_factory=_nothing)
    install: tuple[str, ...] = ()  # the steps by which a person gets what no index serves
    stability: str = ""  # stable, beta, prototype, maintenance, ended
    ecosystem: str = ""  # broad, good, narrow
    multi_device: str = ""  # yes, limited, no, unknown
    collectives: str = ""  # nccl, rccl, hccl, ...
    zh: Mapping[str, Any] = field(default_factory=_nothing)  # the texts in Chinese, by the same names
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Cloud:
    """An accelerator that is reached over the network and has no environment of its own: `[cloud.<name>]`."""

    name: str
    title: str
    text: str
    package: str = ""
    version: str = ""
    endpoint: str = ""
    env: tuple[str, ...] = ()
    training: bool = False
    zh: Mapping[str, Any] = field(default_factory=_nothing)
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Matrix:
    """Every compatibility fact."""

    updated: str
    sources: Mapping[str, Source]
    platforms: Mapping[str, OsRelease]
    archs: Mapping[str, Architecture]
    backends: Mapping[str, Backend]
    frameworks: Mapping[str, Framework]
    libraries: Mapping[str, tuple[LibraryRelease, ...]]  # newest first
    schemes: Mapping[str, Scheme]
    clouds: Mapping[str, Cloud] = field(default_factory=_nothing)
    framework: str = ""  # the one that is meant where none is named; "": any


# ---- a wish, and what fits it ------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What a user asks for; `""` and None leave a thing open."""

    scheme: str = ""
    framework: str = ""  # "": that of the scheme, or the default one
    os: str = ""  # linux, windows, macos, wsl2, or a platform: ubuntu-24.04/x86_64
    gpu: str = ""  # as people write it; "none" for no accelerator
    driver: str = ""
    backend: str = ""  # cuda, cuda 12.8, or a tag: cu128
    torch: str = ""  # version or specifier of the framework
    python: str = ""
    extras: tuple[str, ...] = ()  # companion packages to include
    accept: tuple[Verdict, ...] = (Verdict.SUPPORTED, Verdict.COMMUNITY)


@dataclass(frozen=True, kw_only=True, slots=True)
class Platform:
    """What a plan runs on."""

    os: Os
    release: str = ""  # ubuntu-24.04; "" when only the family is known
    arch: str = "x86_64"
    glibc: Dotted | None = None
    kernel: Dotted | None = None
    libc: str = "glibc"  # glibc, musl, "" elsewhere
    point: Dotted | None = None  # macOS to its last number, 14.4.1, where more is told than the release

    @property
    def family(self) -> str:
        """The family that wheels are built for: WSL2 runs Linux wheels."""
        return "linux" if self.os is Os.WSL2 else str(self.os)

    def __str__(self) -> str:
        return f"{self.release or self.os}/{self.arch}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """A machine as the rules see it: facts and wish brought together."""

    platform: Platform
    accelerators: tuple[Gpu, ...] | None  # None: not known what is there; (): none
    drivers: Mapping[str, DriverFacts] = field(default_factory=_nothing)  # by vendor
    pythons: tuple[str, ...] | None = None  # Pythons to be had there; None: any
    python_told: bool = False  # whether somebody asked for one: what an image brings along is no matter of the machine's
    gpu_note: str = ""  # e.g. an ambiguous name
    hidden: tuple[Gpu, ...] = ()  # there, but kept away from the framework: an integrated GPU beside a card
    order: tuple[Gpu, ...] = ()  # all of them, as the machine numbers them
    extras: tuple[str, ...] = ()  # companion packages asked for
    asked: tuple[str, ...] = ()  # schemes that were asked for by name, by backend or by tag


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """One wheel file that a package source offers."""

    name: str  # normalised
    version: str  # with its local part
    tags: frozenset[str]  # cp311-cp311-manylinux_2_28_x86_64, expanded


@dataclass(frozen=True, kw_only=True, slots=True)
class Offers:
    """What the package sources of this machine can really deliver; a plan is not made of wheels that cannot be had."""

    indexes: Mapping[str, bool] = field(default_factory=_nothing)  # index URL -> answered
    wheels: tuple[Wheel, ...] = ()  # from answering indexes and find-links folders
    places: tuple[str, ...] = ()  # where was looked, for messages (no credentials)


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """One cell of the matrix that might serve a wish."""

    scheme: Scheme
    backend: Backend
    backend_release: BackendRelease
    framework: Framework
    release: FrameworkRelease
    build: Build
    platform: Platform
    python: str
    accelerator: Gpu | None  # the device it would use; None for CPU schemes

    @property
    def label(self) -> str:
        """How messages name it: "torch 2.11.0+cu128 (linux-cuda, Python 3.12)"."""
        local = self.build.local if self.build.local is not None else f"+{self.build.tag}"
        # What is built elsewhere does not carry its tag in its version.
        elsewhere = self.build.index == "vendor" or (bool(self.build.packages) and self.build.tag not in local)
        tag = f"{self.build.tag}, " if elsewhere else ""
        return f"{self.framework.name} {self.release.version}{local} ({self.scheme.name}, {tag}Python {self.python})"


class Kind(StrEnum):
    """What one rule says of one candidate."""

    FITS = "fits"
    SETTING = "setting"  # fits with a setting
    COMMUNITY = "community"  # fits, without the vendor's promise
    UNKNOWN = "unknown"
    REJECTED = "rejected"


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What would have to be different for a rejected candidate to fit."""

    kind: str  # tag, torch, python, setting, driver, toolkit, os, scheme, card
    text: str  # "update the driver to 570.26 or newer"
    value: str = ""  # 570.26


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """One rule's answer: the reason names both sides."""

    rule: str
    kind: Kind
    reason: str = ""
    sources: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=_nothing)
    need_driver: Dotted | None = None  # the floor that this rule holds the driver to
    change: Change | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A candidate with every rule's answer."""

    candidate: Candidate
    verdict: Verdict
    answers: tuple[Answer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Package:
    """One pinned package of a plan."""

    name: str
    version: str  # with its local part: 2.7.1+cu128
    index: str  # "pypi", or the URL of its own index
    extras: str = ""

    @property
    def requirement(self) -> str:
        """The pin as installers read it: torch==2.7.1+cu128."""
        return f"{self.name}{f'[{self.extras}]' if self.extras else ''}=={self.version}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """One chosen combination, complete: the only thing that later stages get."""

    scheme: str
    verdict: Verdict
    platform: str
    accelerator_name: str
    accelerator_arch: str
    driver_have: str
    driver_need: str
    backend_name: str
    backend_version: str
    backend_tag: str
    device: str  # cuda, xpu, mps, privateuseone, cpu
    framework_name: str
    framework_version: str  # without the local part
    python: str
    packages: tuple[Package, ...]
    partners: tuple[str, ...] = ()  # names that come from the framework's own index, in the version that it pins
    env: Mapping[str, str] = field(default_factory=_nothing)
    container: Container | None = None
    run_flags: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()  # texts a reader can follow, not ids
    evidence: Evidence = Evidence.CLAIMED

    @property
    def framework_package(self) -> Package:
        """The package that carries the framework itself: the first one."""
        return self.packages[0]


@dataclass(frozen=True, kw_only=True, slots=True)
class Nearest:
    """A combination that would fit, and the change that leads to it."""

    change: Change
    plan: Plan


@dataclass(frozen=True, kw_only=True)
class Resolution:
    """The answer to a wish: a plan, or why there is none and what comes nearest.

    The reasons and the nearest changes are worked out when they are first asked for: over a fleet, most never are.
    """

    plan: Plan | None
    judge: Callable[[], tuple[Judged, ...]] = field(repr=False, compare=False)
    search: Callable[[], tuple[Nearest, ...]] = field(repr=False, compare=False)
    describe: Callable[[], str] = field(repr=False, compare=False)
    note: Callable[[], tuple[str, ...]] = field(repr=False, compare=False)
    sources: Mapping[str, Source] = field(default_factory=_nothing)  # of the matrix, so that documents can name them

    @cached_property
    def judged(self) -> tuple[Judged, ...]:
        """Every candidate, best first."""
        return self.judge()

    @cached_property
    def nearest(self) -> tuple[Nearest, ...]:
        """What comes nearest, where there is no plan."""
        return self.search()

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What else is to be said."""
        return self.note()

    @cached_property
    def asked(self) -> str:
        """The question in one line: "RTX 5090 (sm_120), driver 550.54.14, linux/x86_64"."""
        return self.describe()


# ---- diagnosis ---------------------------------------------------------------------------------------------------


class Severity(StrEnum):
    """How much a finding keeps the accelerator from working, gravest first."""

    ERROR = "error"  # it does not work
    WARNING = "warning"  # it works in part, or will stop to
    INFO = "info"  # nothing to repair


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One diagnosed cause with its evidence and its remedy."""

    cause: str  # nouveau-bound
    message: str
    evidence: tuple[str, ...]  # "dmesg: NVRM: ...", "torch.version: 2.0.0+cpu"; never empty
    remedy: str
    commands: tuple[str, ...] = ()  # fit for the machine's system; none where none can be typed
    sources: tuple[str, ...] = ()
    severity: Severity = Severity.ERROR
    likelihood: int = 80  # 0 to 100; see envkit.doctor.engine


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """Why an accelerator does not work, the likeliest cause first. No findings: nothing was found wrong."""

    findings: tuple[Finding, ...]
    broken: tuple[str, ...] = ()  # checks that failed themselves, with the error
    notes: tuple[str, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether nothing is to be repaired."""
        return all(finding.severity is Severity.INFO for finding in self.findings)


# ---- proof -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check of a proof."""

    id: str  # train-step
    level: str  # host, runtime, framework, compute
    outcome: str  # passed, failed, skipped
    seconds: float = 0.0
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Proof:
    """The recorded result of verifying a plan. Nothing checked means not passed."""

    plan: str  # digest
    host: str
    when: str  # ISO 8601, UTC
    checks: tuple[Check, ...]
    measured: Mapping[str, Any] = field(default_factory=_nothing)
    scheme: str = ""

    @property
    def passed(self) -> bool:
        """Whether at least one check passed on a device and none failed."""
        outcomes = {check.outcome for check in self.checks}
        computed = any(check.level == "compute" and check.outcome == "passed" for check in self.checks)
        return computed and "failed" not in outcomes
