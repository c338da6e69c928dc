"""Names of operating-system releases as the matrix has them: ubuntu-24.04, debian-12, rocky-9, windows-11, macos-14."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

# Distributions whose minor releases run each other's programs: the matrix knows them by the major one.
_BY_MAJOR = {
    "rhel",
    "rocky",
    "almalinux",
    "centos",
    "oracle",
    "scientific",
    "virtuozzo",
    "eurolinux",
    "cloudlinux",
    "sles",
    "azurelinux",
}
# Where the ID of os-release is not the name that people and the matrix use.
_RENAMED = {"ol": "oracle"}
_ROLLING = {"arch", "opensuse-tumbleweed", "gentoo", "void", "manjaro", "artix", "cachyos"}

# First build of each Windows release (Microsoft's release information pages); servers and clients share build numbers.
_CLIENT_BUILDS = ((22000, "windows-11"), (10240, "windows-10"), (9200, "windows-8"), (7600, "windows-7"))
_SERVER_BUILDS = ((26100, "2025"), (20348, "2022"), (17763, "2019"), (14393, "2016"), (9600, "2012-r2"))

# How systems name themselves in one line, where os-release is not at hand.
_TITLES = (
    (r"ubuntu (\d\d\.\d\d)", "ubuntu-{}"),
    (r"debian gnu/linux (\d+)", "debian-{}"),
    (r"red hat enterprise linux (?:\w+ )?(?:release )?(\d+)", "rhel-{}"),
    (r"rocky linux (?:release )?(\d+)", "rocky-{}"),
    (r"almalinux (?:release )?(\d+)", "almalinux-{}"),
    (r"centos (?:linux |stream )?(?:release )?(\d+)", "centos-{}"),
    (r"oracle linux (?:server )?(?:release )?(\d+)", "oracle-{}"),
    (r"fedora (?:linux )?(?:release )?(\d+)", "fedora-{}"),
    (r"amazon linux (\d+)", "amzn-{}"),
    (r"alpine linux v?(\d+\.\d+)", "alpine-{}"),
    (r"linux mint (\d+(?:\.\d+)?)", "linuxmint-{}"),
    (r"suse linux enterprise server (\d+)", "sles-{}"),
    (r"azure linux (\d+)", "azurelinux-{}"),
    (r"opensuse leap (\d+\.\d+)", "opensuse-leap-{}"),
    (r"arch linux", "arch"),
    (r"mac ?os(?: x)? (1[1-9]|[2-9]\d)\b", "macos-{}"),
    (r"mac ?os(?: x)? (10\.\d+)", "macos-{}"),
    (r"windows server (\d{4})", "windows-server-{}"),
    (r"windows (1[01])\b", "windows-{}"),
)


def parse_os_release(text: str) -> dict[str, str]:
    """The variables of os-release, unquoted as a shell would."""
    values = {}
    for line in text.splitlines():
        name, separator, value = line.strip().partition("=")
        if not separator or not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
            continue
        try:
            words = shlex.split(value)
        except ValueError:
            words = [value.strip("\"'")]
        values[name] = " ".join(words)
    return values


def linux_id(release: Mapping[str, str]) -> str:
    """The release's id from the variables of os-release; "" where it does not name itself."""
    name = release.get("ID", "").strip().lower()
    name = _RENAMED.get(name, name)
    if not re.fullmatch(r"[a-z0-9._-]+", name):
        return ""
    version = release.get("VERSION_ID", "").strip().lower()
    if name in _ROLLING:
        return name
    if not version:
        codename = release.get("VERSION_CODENAME", "").strip().lower()
        return f"{name}-{codename}" if codename else name
    if name in _BY_MAJOR or "rhel" in kin(release):
        version = version.split(".")[0]
    elif name == "alpine":
        version = ".".join(version.split(".")[:2])
    return f"{name}-{version.replace(' ', '-')}"


def kin(release: Mapping[str, str]) -> tuple[str, ...]:
    """The distributions that it says it is like, nearest first."""
    return tuple(_RENAMED.get(word, word) for word in release.get("ID_LIKE", "").lower().split())


def windows_id(build: int | None, *, server: bool = False) -> str:
    """The Windows release of a build number; "" for one older than any named here."""
    if build is None:
        return ""
    if server:
        found = next((name for first, name in _SERVER_BUILDS if build >= first), "")
        return f"windows-server-{found}" if found else ""
    return next((name for first, name in _CLIENT_BUILDS if build >= first), "")


def macos_id(version: str) -> str:
    """The macOS release of a product version: 14.4.1 is macos-14, 10.15.7 is macos-10.15."""
    found = re.match(r"(10\.\d+|\d+)", version)
    return f"macos-{found[1]}" if found else ""


def id_of_title(title: str, kernel: str = "") -> str:
    """The id of a release as a system names itself ("Ubuntu 24.04.1 LTS"); "" where that does not tell."""
    text = title.lower()
    build = re.fullmatch(r"10\.0\.(\d{5})(?:\.\d+)?", kernel)
    if build and "windows" in text:
        # The build decides: Windows 11 calls itself Windows 10 in many places.
        return windows_id(int(build[1]), server="server" in text)
    for pattern, shape in _TITLES:
        found = re.search(pattern, text)
        if found:
            return shape.format(*found.groups())
    return ""


def arch_word(machine: str, system: str = "linux") -> str:
    """A CPU architecture in the words of plans: x86_64, aarch64, on Windows and macOS arm64."""
    word = machine.strip().lower()
    if word in ("amd64", "x86_64", "x64", "em64t"):
        return "x86_64"
    if word in ("arm64", "aarch64"):
        return "aarch64" if system == "linux" else "arm64"
    return "i686" if word in ("x86", "i386", "i586", "i686") else word
