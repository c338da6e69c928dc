"""Causes that lie in an index, in what was asked of it, or in what asks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from envkit.doctor.case import Case, Hit
from envkit.model import Build, Dotted, Finding, FrameworkRelease, Os, dotted

_INDEXES = "PyTorch: wheel indexes by build: https://pytorch.org/get-started/previous-versions/"
_PYPI = "PyPI torch: file lists and wheel metadata: https://pypi.org/project/torch/#files"
_TAGS = "PEP 600, manylinux_x_y: https://peps.python.org/pep-0600/"


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The torch that somebody asked an installer for."""

    version: str = ""  # 2.4.0
    tag: str = ""  # cu124

    @property
    def text(self) -> str:
        """As a message names it: "torch 2.4.0+cu124"."""
        return f"torch {self.version}{f'+{self.tag}' if self.tag else ''}".strip()


_PIN = re.compile(
    r"\btorch(?:\[[^\]]*\])?(?:\s*={2,3}\s*|@\^?|\s\()(\d+(?:\.\d+)*(?:\.\*)?[a-z0-9.]*)(?:\+([a-z0-9.]+))?", re.IGNORECASE
)
_INDEX = re.compile(r"/whl/(?:test/|nightly/)?((?:cu|rocm)\d[\d.]*|cpu|xpu)\b")


def asked(case: Case) -> Asked:
    """What was asked for, as far as the request and the installer's own words tell."""
    texts = [case.request, *case.facts.evidence, *case.facts.evidence.values()]
    pin = next((found for text in texts if (found := _PIN.search(text))), None)
    index = next((found for text in texts if (found := _INDEX.search(text))), None)
    tag = (pin[2] if pin and pin[2] else "") or (index[1] if index else "")
    return Asked(version=pin[1].rstrip(".*") if pin else "", tag=tag.lower())


def platform_word(case: Case) -> str:
    """The wheel platform of a machine: linux/x86_64 where nothing tells."""
    family = {Os.WINDOWS: "windows", Os.MACOS: "macos"}.get(case.os or Os.LINUX, "linux")
    arch = case.machine.arch or ("arm64" if family == "macos" else "x86_64")
    return f"{family}/{arch}"


def releases(case: Case, version: str) -> list[FrameworkRelease]:
    """The releases of torch that a version, whole or cut, names."""
    plain = re.match(r"\d+(?:\.\d+)*", version)
    if plain is None:
        return []
    return [row for row in case.matrix.frameworks["torch"].releases if f"{row.version}.".startswith(f"{plain[0]}.")]


def builds_of(case: Case, version: str, tag: str, platform: str) -> list[Build]:
    """The builds of a release that were published for a tag and a platform; "" leaves a part open."""
    named = {row.version for row in releases(case, version)}
    return [
        build
        for build in case.matrix.frameworks["torch"].builds
        if build.published is not False
        and tag in ("", build.tag)
        and (not platform or platform in build.platforms)
        and (not version or any(f"{each}.".startswith(f"{build.release}.") for each in named))
    ]


def pypi_tag(case: Case) -> str:
    """The build that a torch without a local version is, where it came from PyPI; "" where that is not known."""
    version = case.torch.version
    if not version or "+" in version or case.torch.cuda or case.torch.hip:
        return ""
    rows = (row for row in case.matrix.frameworks["torch"].releases if row.version == version)
    return next((row.pypi.get(platform_word(case), "") for row in rows), "")


_NOT_FOUND = (
    r"could not find a version that satisfies the requirement torch\b|no matching distribution found for torch\b"
    r"|because there is no version of torch|no solution found when resolving|torch==\S+ was not found"
    r"|unable to find installation candidates for torch\b|candidate versions? (?:not )?found.*torch|torch .*was not found in"
    r"|torch .*has no (?:usable )?wheels|has no wheels with a matching|packagesnotfounderror.*pytorch"
)


def wheel_tag_not_published(case: Case) -> Iterator[Finding]:
    """The version and the build that were asked for were never published together."""
    wanted, said = asked(case), case.hit(_NOT_FOUND)
    platform = platform_word(case)
    if said is None or not wanted.tag or (wanted.version and not releases(case, wanted.version)):
        return
    if not wanted.version and builds_of(case, "", wanted.tag, ""):
        return
    if builds_of(case, wanted.version, wanted.tag, platform):
        return
    if not wanted.version:
        yield _no_such_tag(case, wanted, said, platform)
        return
    others = sorted({build.tag for build in builds_of(case, wanted.version, "", platform)})
    newer = sorted({build.release for build in builds_of(case, "", wanted.tag, platform)}, key=Dotted)
    has = f"torch {wanted.version} has {', '.join(others)}" if others else f"torch {wanted.version} has nothing for {platform}"
    line = f"; {wanted.tag} has torch {newer[0]} to {newer[-1]}" if newer else ""
    yield Finding(
        cause="wheel-tag-not-published",
        message=f"{wanted.text} was never published for {platform}: {has}{line}",
        evidence=(str(said), *_requested(case)),
        remedy="Ask for a pair that exists: another build of that torch, or a torch that this build was made for.",
        commands=tuple(_pair_commands(wanted, others, newer)),
        sources=(_INDEXES,),
        likelihood=88,
    )


def _no_such_tag(case: Case, wanted: Asked, said: Hit, platform: str) -> Finding:
    kind = wanted.tag.rstrip("0123456789.")
    known = sorted({build.tag for build in builds_of(case, "", "", platform) if build.tag.rstrip("0123456789.") == kind})
    has = f": there are {', '.join(known)}" if known else ""
    return Finding(
        cause="wheel-tag-not-published",
        message=f"no torch is known to have been published for {wanted.tag}{has}",
        evidence=(str(said), *_requested(case)),
        remedy="Ask for a build that exists; a wheel runs with every driver that reaches the floor of its CUDA.",
        commands=(f"python -m pip install torch --index-url https://download.pytorch.org/whl/{known[-1]}",) if known else (),
        sources=(_INDEXES,),
        likelihood=84,
    )


def _pair_commands(wanted: Asked, others: list[str], newer: list[str]) -> Iterator[str]:
    best = others[-1] if others else ""
    if best:
        yield f"python -m pip install torch=={wanted.version} --index-url https://download.pytorch.org/whl/{best}"
    if newer:
        yield f"python -m pip install 'torch=={newer[-1]}.*' --index-url https://download.pytorch.org/whl/{wanted.tag}"


def _requested(case: Case) -> Iterator[str]:
    if case.request:
        yield f"request: {case.request.splitlines()[0]}"


def index_dependency_missing(case: Case) -> Iterator[Finding]:
    """An index that serves torch lacks a package which that torch pins."""
    missing = case.hit(r"^\s+(nvidia-[a-z0-9-]+|triton|pytorch-triton[a-z-]*|rocm-sdk[a-z0-9-]*|intel-[a-z0-9-]+)\s*$")
    depends = case.hit(
        r"torch \S+ depends on ((?:nvidia-|triton|pytorch-triton|intel-|rocm)[\w.-]*)[=<>~!]|"
        r"no matching distribution found for ((?:nvidia-|pytorch-triton|triton-|intel-cmplr|rocm-sdk)[\w.-]*)|"
        r"because ((?:nvidia-|pytorch-triton|triton|intel-|rocm-sdk)[\w.-]*)\S* was not found|"
        r"there (?:is|are) no versions? of ((?:nvidia-|pytorch-triton|triton|intel-|rocm-sdk)[\w.-]*)"
    )
    impossible = case.hit(r"resolutionimpossible|no matching distributions available|no solution found|no matching distribution")
    if depends is None or impossible is None:
        return
    if depends[1] and missing is None and case.hit(r"no matching distributions? available") is None:
        return
    name = next(group for group in depends.match.groups() if group)
    yield Finding(
        cause="index-dependency-missing",
        message=f"the index serves torch but not {name}, which that torch pins",
        evidence=tuple(dict.fromkeys(str(hit) for hit in (depends, missing, impossible) if hit)),
        remedy=(
            "Nothing on this machine is wrong. Let the missing packages come from PyPI besides the index, or take a torch of "
            "another index until this one is whole again."
        ),
        commands=tuple(f"{text} --extra-index-url https://pypi.org/simple" for text in case.request.splitlines()[:1]),
        sources=(_INDEXES,),
        likelihood=90,
    )


def python_no_wheel(case: Case) -> Iterator[Finding]:
    """No wheel of the release that was asked for is for this Python."""
    wanted, said = asked(case), case.hit(_NOT_FOUND)
    tagged = case.hit(
        r"torch.*has no wheels with a matching Python (?:version|ABI)|no wheels with a matching python (?:version|abi)"
    )
    requires = case.hit(r"torch.*requires[ -]python\s*:?\s*[<>=]|ignored the following versions that require a different python")
    if said is None and tagged is None and requires is None:
        return
    python, platform = _python_word(case), platform_word(case)
    narrow = case.hit(r"\b32[ -]?bit\b", "python", "platform", "error")
    if said and (narrow or case.facts.python.machine.lower() in ("x86", "i386", "i686", "win32")):
        yield Finding(
            cause="python-no-wheel",
            message="this Python is a 32-bit one, for which there are no wheels of torch",
            evidence=tuple(str(hit) for hit in (said, narrow) if hit),
            remedy="Install a 64-bit Python and make the environment with it.",
            sources=(_PYPI,),
            likelihood=91,
        )
        return
    builds = builds_of(case, wanted.version, wanted.tag, platform)
    served = sorted({each for build in builds for each in _pythons_of(case, build, wanted.version)}, key=_python_order)
    if tagged is None and requires is None and (not python or python in served or not builds):
        return
    known = f": it has wheels for Python {served[0]} to {served[-1]}" if served else ""
    yield Finding(
        cause="python-no-wheel",
        message=f"{wanted.text or 'torch'} has no wheel for Python {python or 'this version'} on {platform}{known}",
        evidence=tuple(dict.fromkeys(str(hit) for hit in (tagged, requires, said) if hit))
        + ((f"python.version: {case.facts.python.version}",) if python else ()),
        remedy="Make the environment with a Python that has wheels of this torch, or take a torch that serves this Python.",
        commands=(f"uv venv --python {served[-1]} env",) if served else (),
        sources=(_PYPI,),
        likelihood=89,
    )


def _python_word(case: Case) -> str:
    version = case.python
    return ".".join(str(version).split(".")[:2]) if version else ""


def _pythons_of(case: Case, build: Build, version: str) -> Iterable[str]:
    if build.pythons is not None:
        return build.pythons
    rows = releases(case, version) if version else case.matrix.frameworks["torch"].releases
    return {each for row in rows if f"{row.version}.".startswith(f"{build.release}.") for each in row.pythons}


def _python_order(text: str) -> tuple[int, ...]:
    return Dotted(text.rstrip("t")).key


def pip_too_old(case: Case) -> Iterator[Finding]:
    """pip cannot read the names or tags of today's wheels."""
    said = case.hit(
        r"has inconsistent (?:name|version)|inconsistent name: filename has|is not a supported wheel on this platform"
        r"|you are using pip version (\d+)"
    )
    told = dotted(case.packages.get("pip", ""))
    if said is None and told is not None and told < Dotted("20.3"):
        said = case.hit(_NOT_FOUND)  # what it does not list are the wheels whose tags it does not know
    if said is None:
        return
    version = dotted(case.packages.get("pip", "")) or dotted(
        next((hit[1] for hit in case.hits(r"(?:pip |pip version |pip==)(\d+(?:\.\d+)*)")), "")
    )
    unsupported = "supported wheel" in said.line
    if unsupported and (version is None or version >= Dotted("20.3")):
        return  # a recent pip that refuses a wheel is right: the wheel is for another system or Python
    if "pip version" in said.line.lower() and case.hit(_NOT_FOUND) is None:
        return
    yield Finding(
        cause="pip-too-old",
        message=f"pip {version or ''} cannot read the wheels of this index".replace("  ", " "),
        evidence=(str(said), *((f"pip: {version}",) if version else ())),
        remedy="Update pip in that environment and install again.",
        commands=("python -m pip install --upgrade pip",),
        sources=(_TAGS,),
        likelihood=90 if not unsupported else 82,
    )


def glibc_too_old(case: Case) -> Iterator[Finding]:
    """The system's C library is older than the wheel needs."""
    said = case.hit(
        r"version [`'\"]?GLIBC_(\d+\.\d+)[`'\"]? not found|requires? glibc (\d+\.\d+)"
        r"|manylinux_(\d+)_(\d+).*(?:not|only has wheels)|wheels are available for `?torch.*?manylinux_(\d+)_(\d+)"
    )
    have = dotted(case.machine.glibc)
    if said and have is None and "supported wheel" in said.line.lower():
        said = None  # that may as well be a pip that does not know the tag
    version = case.torch.version or asked(case).version
    builds = builds_of(case, version, "", platform_word(case)) if version else []
    floor = min((build.glibc for build in builds if build.glibc is not None), default=None)
    if said is not None:
        numbers = [group for group in said.match.groups()[2:] if group]
        named = said[1] or said[2] or ".".join(numbers[:2])
        if have is not None and dotted(named) is not None and have >= named:
            return
        yield _glibc_finding(case, f"glibc {named}", have, str(said), 90)
    elif have is not None and floor is not None and have < floor and (case.hit(_NOT_FOUND) or not case.torch.version):
        yield _glibc_finding(case, f"glibc {floor}", have, f"machine.glibc: {have}", 85)


def _glibc_finding(case: Case, needed: str, have: Dotted | None, evidence: str, likelihood: int) -> Finding:
    there = f"; {case.machine.os_release or 'this system'} has glibc {have}" if have else ""
    return Finding(
        cause="glibc-too-old",
        message=f"the wheel needs {needed}{there}",
        evidence=(evidence, *((f"machine.glibc: {have}",) if have and "machine.glibc" not in evidence else ())),
        remedy="Use a newer system, a container with one, or a release that was built for this C library; glibc itself stays.",
        sources=(_TAGS,),
        likelihood=likelihood,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    wheel_tag_not_published,
    index_dependency_missing,
    python_no_wheel,
    pip_too_old,
    glibc_too_old,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "glibc-too-old": ("python-no-wheel", "wheel-tag-not-published"),
    "pip-too-old": ("python-no-wheel", "wheel-tag-not-published"),
    "python-no-wheel": ("wheel-tag-not-published",),
}
