"""Commands that repair, in the words of the machine's own system and package manager."""

from __future__ import annotations

from collections.abc import Iterator

from envkit.doctor.case import Case
from envkit.model import Os

_INSTALL = {
    "apt": "sudo apt install {names}",
    "dnf": "sudo dnf install {names}",
    "zypper": "sudo zypper install {names}",
    "pacman": "sudo pacman -S {names}",
}
_REMOVE = {
    "apt": "sudo apt purge {names}",
    "dnf": "sudo dnf remove {names}",
    "zypper": "sudo zypper remove {names}",
    "pacman": "sudo pacman -R {names}",
}
_HEADERS = {
    "apt": "linux-headers-$(uname -r)",
    "dnf": "kernel-devel-$(uname -r)",
    "zypper": "kernel-default-devel",
    "pacman": "linux-headers",
}


def install(case: Case, *names: str) -> Iterator[str]:
    """How the system's package manager installs packages; nothing where that manager is not known."""
    if case.package_manager:
        yield _INSTALL[case.package_manager].format(names=" ".join(names))


def remove(case: Case, *names: str) -> Iterator[str]:
    """How the system's package manager removes packages."""
    if case.package_manager:
        yield _REMOVE[case.package_manager].format(names=" ".join(names))


def kernel_headers(case: Case) -> Iterator[str]:
    """How the headers of the running kernel are installed."""
    if case.package_manager:
        yield _INSTALL[case.package_manager].format(names=_HEADERS[case.package_manager])


def unset(case: Case, name: str) -> str:
    """How a variable is taken away for this shell."""
    return f"set {name}=" if case.os is Os.WINDOWS else f"unset {name}"


def export(case: Case, name: str, value: str) -> str:
    """How a variable is set for this shell."""
    return f"set {name}={value}" if case.os is Os.WINDOWS else f"export {name}={value}"


def reinstall_torch(case: Case, *, again: tuple[str, ...] = ("torchvision", "torchaudio")) -> Iterator[str]:
    """How pip replaces torch, and those of its companions that are there, by the build that the machine's plan has."""
    if case.plan is None or case.plan.framework_name != "torch":
        return
    pin = case.plan.framework_package
    if not pin.index.startswith("http"):
        return
    extras = f"[{pin.extras}]" if pin.extras else ""
    names = [f"torch{extras}", *(name for name in again if name in case.packages)]
    yield f"python -m pip install --force-reinstall {' '.join(names)} --index-url {pin.index}"
