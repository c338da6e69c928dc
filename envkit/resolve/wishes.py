"""What people write for a release, a backend, a platform, a Python or a driver, read into values; bad text raises UsageError."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from envkit.errors import UsageError
from envkit.model import Dotted, Matrix, Os, OsRelease, Platform, Scheme, dotted

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet
    from packaging.version import Version

# The words of uname, of Windows and of wheels for the same two processors; Linux and macOS name the second one differently.
_X86 = {"x86_64", "amd64", "x64", "x86-64"}
_ARM = {"aarch64", "arm64"}

_OS_WORDS = {
    "linux": Os.LINUX,
    "windows": Os.WINDOWS,
    "win": Os.WINDOWS,
    "macos": Os.MACOS,
    "darwin": Os.MACOS,
    "mac": Os.MACOS,
    "wsl2": Os.WSL2,
    "wsl": Os.WSL2,
}


# ---- versions of frameworks --------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def version(text: str) -> Version:
    """The version that `text` names, by Python's packaging rules."""
    from packaging.version import Version

    return Version(text)


@lru_cache(maxsize=256)
def _specifiers(text: str) -> SpecifierSet:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(text)


@lru_cache(maxsize=16384)
def matches(specifier: str, release: str) -> bool:
    """Whether `release` is one of those that `specifier` means; "" means all."""
    return not specifier or _specifiers(specifier).contains(version(release), prereleases=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class TorchWish:
    """Which releases of the framework are wanted."""

    text: str = ""  # as the user wrote it
    specifier: str = ""  # as packaging reads it; "" for any
    tag: str = ""  # of "2.7.1+cu128"


_PLAIN = re.compile(
    r"(?P<numbers>\d+(?:\.\d+)*)(?P<pre>(?:a|b|rc|\.dev)\d+)?(?P<star>\.[*x])?(?:\+(?P<local>[a-z0-9.]+))?\Z", re.ASCII
)


def read_torch(text: str) -> TorchWish:
    """The releases meant by "2.7.1", "2.7", ">=2.4,<2.8", "2.7.1+cu128" or "latest"."""
    from packaging.specifiers import InvalidSpecifier

    asked = text.strip()
    plain = re.sub(r"^(?:torch$|[a-z][a-z_-]*(?=[\s=<>!~]))\s*(==(?!=))?\s*", "", asked.lower()).removeprefix("==").strip()
    if plain in ("", "latest", "newest"):
        return TorchWish(text=asked)
    found = _PLAIN.match(plain)
    if found:
        numbers, pre, local = found["numbers"], found["pre"] or "", found["local"] or ""
        short = numbers.count(".") < 2 and not pre
        exact = not found["star"] and not short
        return TorchWish(text=asked, specifier=f"=={numbers}{pre}" if exact else f"=={numbers}.*", tag=local)
    try:
        _specifiers(plain)
    except InvalidSpecifier:
        raise UsageError(
            f"--torch {asked!r} names no release",
            hint='write a version ("2.7.1", "2.7"), a range (">=2.4,<2.8"), a build ("2.7.1+cu128") or "latest"',
        ) from None
    return TorchWish(text=asked, specifier=plain)


# ---- backends ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class BackendWish:
    """Which backend is wanted; "" and None leave a part open."""

    text: str = ""
    name: str = ""
    version: Dotted | None = None
    tag: str = ""


_NAME_AND_VERSION = re.compile(
    r"(?P<name>[a-z][a-z_]*)?[ _-]*(?P<version>\d+(?:\.\d+)*(?:[.-]?(?:alpha|beta|rc)\.?\d*)?)?\Z", re.ASCII
)


def read_backend(matrix: Matrix, text: str) -> BackendWish:
    """The backend meant by "cuda", "cuda 12.8", "12.8", "cu128" or "rocm6.4"."""
    asked = text.strip().lower()
    if not asked:
        return BackendWish()
    if asked in matrix.backends:
        return BackendWish(text=asked, name=asked)
    tags = {release.tag: name for name, backend in matrix.backends.items() for release in backend.releases}
    if asked in tags:
        return BackendWish(text=asked, name=tags[asked], tag=asked)
    found = _NAME_AND_VERSION.match(asked)
    if found and found["version"]:
        wanted = Dotted(found["version"])
        names = [
            name
            for name, backend in matrix.backends.items()
            if found["name"] in (None, name) and any(release.version == wanted for release in backend.releases)
        ]
        if len(names) == 1:
            return BackendWish(text=asked, name=names[0], version=wanted)
        if names:
            raise UsageError(f"--backend {text!r} may mean {_either(f'{name} {wanted}' for name in names)}")
        if found["name"] in matrix.backends:
            known = [str(release.version) for release in matrix.backends[found["name"]].releases]
            raise UsageError(
                f"the matrix has no {found['name']} {wanted}",
                hint=f"it has {found['name']} {', '.join(sorted(known, key=Dotted))}",
            )
    joined = re.sub(r"[ _]+", "", asked)
    if joined in tags:  # "cann 8.2.rc1" is the tag cann8.2.rc1
        return BackendWish(text=asked, name=tags[joined], tag=joined)
    raise UsageError(
        f"unknown backend {text!r}{_meant(asked, [*matrix.backends, *tags])}",
        hint='write a backend ("cuda"), one release of it ("cuda 12.8") or the name of a wheel index ("cu128")',
    )


def read_scheme(matrix: Matrix, name: str) -> None:
    """Raises UsageError where the matrix has no such scheme."""
    if name and name not in matrix.schemes:
        raise UsageError(f"unknown scheme {name!r}{_meant(name.lower(), matrix.schemes)}", hint="list them with: envkit schemes")


def read_framework(matrix: Matrix, name: str, scheme: Scheme | None) -> str:
    """The framework that is meant; raises UsageError where the matrix has no such one, or where the scheme has another."""
    asked = name.strip().lower()
    if asked and asked not in matrix.frameworks:
        raise UsageError(
            f"unknown framework {name!r}{_meant(asked, matrix.frameworks)}",
            hint=f"the matrix knows {', '.join(matrix.frameworks)}",
        )
    if scheme is None:
        return asked or matrix.framework
    if asked not in ("", scheme.framework):
        others = [s.name for s in matrix.schemes.values() if s.framework == asked and s.os is scheme.os]
        raise UsageError(
            f"{scheme.name} is a scheme of {scheme.framework}, not of {asked}",
            hint=f"name one of: {', '.join(others)}" if others else "list them with: envkit schemes",
        )
    return scheme.framework


# ---- platforms ---------------------------------------------------------------------------------------------------


def machine_word(os: Os, text: str) -> str:
    """The processor architecture as wheels of that system name it."""
    word = text.strip().lower()
    if word in _X86:
        return "x86_64"
    if word in _ARM:
        return "aarch64" if os in (Os.LINUX, Os.WSL2) else "arm64"
    return word


def default_word(os: Os) -> str:
    """The architecture that is meant where none is named."""
    return "arm64" if os is Os.MACOS else "x86_64"


def platform_of(row: OsRelease, arch: str = "") -> Platform:
    """The platform of one row of the matrix."""
    return Platform(
        os=row.os,
        release=row.id,
        arch=machine_word(row.os, arch) or default_word(row.os),
        glibc=row.glibc,
        kernel=row.kernel,
        libc=libc_of(row.os, row.id, ""),
    )


def with_point(platform: Platform, text: str) -> Platform:
    """The platform with the point release of macOS that a text tells, where it tells more than the release does."""
    point = dotted(text) if platform.os is Os.MACOS else None
    return replace(platform, point=point) if point is not None and "." in point else platform


def libc_of(os: Os, release: str, glibc: str) -> str:
    """The C library: "musl" where the system is known to use it, "" where there is neither."""
    if os not in (Os.LINUX, Os.WSL2):
        return ""
    return "musl" if "musl" in glibc.lower() or release.split("-")[0] in ("alpine", "postmarketos") else "glibc"


def read_platform(matrix: Matrix, text: str) -> Platform:
    """The platform meant by "linux", "wsl2", "ubuntu-24.04", "ubuntu-24.04/x86_64" or "linux/aarch64"."""
    asked = text.strip().lower()
    release, _, arch = (part.strip() for part in asked.partition("/"))
    name = re.sub(r"[\s_:]+", "-", release)
    if arch and arch not in _X86 | _ARM:
        raise UsageError(f"--os {text!r}: unknown architecture {arch!r}", hint="write x86_64 or aarch64 (arm64)")
    if name in _OS_WORDS:
        os = _OS_WORDS[name]
        return Platform(os=os, arch=machine_word(os, arch) or default_word(os), libc=libc_of(os, "", ""))
    row = find_release(matrix, name)
    if row is not None:
        return with_point(platform_of(row, arch), name.rpartition("-")[2])
    raise UsageError(
        f"unknown platform {text!r}{_meant(name, [*_OS_WORDS, *matrix.platforms])}",
        hint=f"write linux, windows, macos, wsl2 or one of: {', '.join(sorted(matrix.platforms))}",
    )


def find_release(matrix: Matrix, name: str) -> OsRelease | None:
    """The row for an id such as "ubuntu-24.04"; the point release "ubuntu-24.04.1" is the same row."""
    while name:
        if name in matrix.platforms:
            return matrix.platforms[name]
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return None


def release_named(matrix: Matrix, text: str) -> OsRelease | None:
    """The row for a system as it names itself: "Ubuntu 24.04.1 LTS", "Debian GNU/Linux 12 (bookworm)"."""
    lowered = text.lower()
    found = re.search(r"\d+(?:\.\d+)*", lowered, re.ASCII)
    if not found:
        return None
    numbers = found[0].split(".")
    for size in range(len(numbers), 0, -1):
        for row in matrix.platforms.values():
            name, _, number = row.id.rpartition("-")
            known = name.replace("-", " ") in lowered or row.name.lower().split(" ")[0] in lowered.split(" ")
            if number == ".".join(numbers[:size]) and known:
                return row
    return None


# ---- Pythons and drivers -----------------------------------------------------------------------------------------


_PYTHON = re.compile(
    r"(?:python|cpython|cp|py)?[ -]?(?P<major>\d)\.?(?P<minor>\d{1,2})(?:\.\d+)?(?:(?:a|b|rc)\d+)?\+?(?P<free>t?)\Z", re.ASCII
)


def read_python(text: str) -> str:
    """The Python meant by "3.12", "3.12.4", "cp312" or "3.13t"; "" for "" """
    asked = text.strip().lower()
    if not asked:
        return ""
    found = _PYTHON.match(asked)
    if not found or found["major"] != "3":
        raise UsageError(f"--python {text!r} names no Python 3", hint='write "3.12", or "3.13t" for a free-threaded one')
    return f"{found['major']}.{int(found['minor'])}{found['free']}"


def read_driver(text: str) -> str:
    """The driver's version; raises UsageError where it is none."""
    asked = text.strip()
    if not asked:
        return ""
    try:
        return str(Dotted(asked))
    except ValueError:
        raise UsageError(
            f"--driver {text!r} is no version", hint='write the kernel driver\'s version as the vendor does: "570.86.10"'
        ) from None


# ---- texts -------------------------------------------------------------------------------------------------------


def _meant(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=3, cutoff=0.6)
    likeness = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    # Where one is much the likeliest, the others only distract.
    close = [name for name, each in zip(close, likeness, strict=True) if each > likeness[0] - 0.1]
    return f"; did you mean {_either(repr(name) for name in close)}?" if close else ""


def _either(names: Iterable[str]) -> str:
    *head, last = names
    return f"{', '.join(head)} or {last}" if head else last
