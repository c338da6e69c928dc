"""What the metadata of a wheel says: its requirements, and so which CUDA it was built for and what it must be paired with."""

from __future__ import annotations

import email.parser
import re
from collections.abc import Iterable
from dataclasses import dataclass

from envkit.matrix.refresh.listings import File, normal
from envkit.matrix.refresh.net import Distrusted, Net
from envkit.matrix.refresh.remote import RemoteWheel

# Which of torch's requirements name the CUDA that it was built with.
_CUDA_RUNTIMES = re.compile(r"nvidia-cuda-runtime(-cu\d+)?|cuda-toolkit", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """The part of METADATA that compatibility rests on."""

    version: str
    requires_python: str = ""
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()

    def pin_of(self, name: str) -> str:
        """The one release of `name` that is required ("==2.9.0", "==2.9.0.*"), or ""."""
        found = {
            specifier.version.removesuffix(".*")
            for requirement in _named(self.requires, name)
            for specifier in requirement.specifier
            if specifier.operator in ("==", "===")
        }
        return found.pop() if len(found) == 1 else ""

    def allows(self, name: str, version: str) -> bool | None:
        """Whether it may stand beside `name` in this version; None where it says nothing of it."""
        requirements = [requirement for requirement in _named(self.requires, name) if requirement.specifier]
        if not requirements:
            return None
        return all(requirement.specifier.contains(version, prereleases=True) for requirement in requirements)

    def specifier_of(self, name: str) -> str:
        """What it asks of `name`, as text: ">=1.20,<2"; "" where nothing."""
        from packaging.specifiers import SpecifierSet

        texts = [str(requirement.specifier) for requirement in _named(self.requires, name) if requirement.specifier]
        return ",".join(sorted({str(one) for text in texts for one in SpecifierSet(text)}))

    def cuda(self, platform: str = "linux/x86_64") -> str:
        """The CUDA release (12.8) whose runtime it requires on a platform, or ""."""
        from packaging.requirements import Requirement

        family, _, machine = platform.partition("/")
        system = {"linux": "Linux", "windows": "Windows", "macos": "Darwin"}.get(family, "")
        environment = {"platform_system": system, "platform_machine": machine, "extra": ""}
        found = set()
        for text in self.requires:
            requirement = Requirement(text)
            if _CUDA_RUNTIMES.fullmatch(normal(requirement.name)) and (
                requirement.marker is None or requirement.marker.evaluate(environment)
            ):
                found |= {".".join(one.version.split(".")[:2]) for one in requirement.specifier if one.operator == "=="}
        return found.pop() if len(found) == 1 else ""

    def halves(self) -> tuple[str, ...]:
        """The packages that it requires up to its own version: the other halves of a framework in pieces (jaxlib)."""
        from packaging.requirements import Requirement

        found = []
        for text in self.requires:
            requirement = Requirement(text)
            exact = {one.operator for one in requirement.specifier if one.version == self.version}
            if requirement.marker is None and exact & {"==", "===", "<="}:
                found.append(normal(requirement.name))
        return tuple(found)


def _named(requires: Iterable[str], name: str) -> list:  # type: ignore[type-arg]
    from packaging.requirements import Requirement

    # Extras ask for more than what everybody gets.
    return [
        requirement
        for text in requires
        if normal((requirement := Requirement(text)).name) == normal(name)
        and (requirement.marker is None or "extra" not in str(requirement.marker))
    ]


def read_metadata(net: Net, file: File) -> Metadata:
    """The metadata of a wheel: from beside it, else out of it. Raises Unreachable or Distrusted."""
    if file.metadata:
        answer = net.get(f"{file.url}.metadata")
        if answer.status == 200:
            return parse_metadata(answer.text)
    wheel = RemoteWheel(net, file.url, file.size)
    names = [name for name in wheel.members if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
    if len(names) != 1:
        raise Distrusted("the wheel has no METADATA")
    return parse_metadata(wheel.read(names[0]).decode("utf-8", "replace"))


def parse_metadata(text: str) -> Metadata:
    """The metadata in `text`. Raises Distrusted where it is none."""
    from packaging.requirements import InvalidRequirement, Requirement

    message = email.parser.HeaderParser().parsestr(text)
    if not message.get("Metadata-Version") or not message.get("Version"):
        raise Distrusted("its METADATA is not whole")
    requires = tuple(str(value) for value in message.get_all("Requires-Dist", []))
    extras = tuple(str(value) for value in message.get_all("Provides-Extra", []))
    try:
        for requirement in requires:
            Requirement(requirement)
    except InvalidRequirement:
        raise Distrusted("its METADATA has a requirement that cannot be read") from None
    return Metadata(
        version=str(message["Version"]), requires_python=str(message.get("Requires-Python", "")), requires=requires, extras=extras
    )
