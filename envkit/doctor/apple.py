"""Causes that lie in macOS and Apple silicon."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor.case import Case
from envkit.model import Dotted, Finding, Os, dotted

_MPS = "PyTorch, MPS backend: https://docs.pytorch.org/docs/stable/notes/mps.html"
_METAL = "Apple, accelerated PyTorch training on Mac: https://developer.apple.com/metal/pytorch/"
_WRONG = "pytorch/pytorch issue #177819: https://github.com/pytorch/pytorch/issues/177819"
_SANDBOX = "openai/codex issue #9007: https://github.com/openai/codex/issues/9007"
_CONTAINER = "pytorch/pytorch issue #81224: https://github.com/pytorch/pytorch/issues/81224"
_ROSETTA = "Lightning-AI/pytorch-lightning issue #16124: https://github.com/Lightning-AI/pytorch-lightning/issues/16124"

_CHIP = (
    r"\bApple (?:M\d|silicon)|\bM[1-9](?: (?:Pro|Max|Ultra))?\b(?=.*(?:mac|apple))|\b(?:mac|macbook|imac)\b.*\bM[1-9]\b"
    r"|arm64-apple|\bARM64_T\d"
)


def _on_mac(case: Case) -> bool:
    if case.os is not None:
        return case.os is Os.MACOS
    return case.hit(r"\bmacOS\b|\bDarwin\b|MacOS \d|\bsw_vers\b|-apple-darwin") is not None


def _silicon(case: Case) -> str:
    """What tells that the Mac is one of Apple silicon; "" where nothing does."""
    for card in case.gpus:
        if card.vendor == "apple" or re.search(r"apple m\d", card.name, re.IGNORECASE):
            return f"machine.gpu: {card.name or card.arch}"
    if case.machine.arch in ("arm64", "aarch64") and _on_mac(case):
        return f"machine.arch: {case.machine.arch}"
    hit = case.hit(_CHIP) or case.hit(r"proc_translated\W+1\b|hw\.optional\.arm64\W+1\b|^\s*arm64\s*$", "sysctl", "uname", "arch")
    if hit:
        return str(hit)
    asked = re.search(_CHIP, case.request, re.IGNORECASE)
    return f"request: {asked[0]}" if asked else ""


def _translated(case: Case) -> str:
    """What tells that the Python runs as one for Intel."""
    if case.facts.python.machine in ("x86_64", "i386"):
        return f"python.machine: {case.facts.python.machine}"
    hit = (
        case.hit(r"macOS-[\d.]+-x86_64-(?:i386-)?64bit|macosx[-_][\d_.]+[-_]x86_64")
        or case.hit(r"^\s*['\"]?(i386|x86_64)['\"]?\s*$", "platform", "python", "file ", "machine", "processor", "arch")
        or case.hit(
            r"proc_translated\W+1\b|mach-o 64-bit executable x86_64|have (?:instead )?['\"]?x86_64|need ['\"]?(?:x86_64)['\"]?"
            r"|\bosx-64\b|platform.processor\S*\W+i386"
        )
    )
    return str(hit) if hit else ""


def macos_x86_python_rosetta(case: Case) -> Iterator[Finding]:
    """A Python for Intel runs in translation on Apple silicon."""
    if not _on_mac(case):
        return
    silicon, translated = _silicon(case), _translated(case)
    said = case.hit(r"\brosetta\b|proc_translated\W+1\b")
    if case.machine.arch == "x86_64" and silicon.startswith("machine.gpu") and not case.facts.python.machine:
        translated = translated or "machine.arch: x86_64"
    mixed = case.hit(r"incompatible architecture \(have .?(x86_64|arm64)|mach-o.*wrong architecture")
    if not (silicon and (translated or mixed)) and not (translated and said):
        return
    if case.facts.python.machine == "arm64" and not mixed:
        return
    evidence = [each for each in (translated, silicon) if each] + [str(hit) for hit in (said, mixed) if hit]
    yield Finding(
        cause="macos-x86-python-rosetta",
        message=(
            "this Python is for Intel and runs in translation (Rosetta); Metal through torch and newer wheels are for arm64 alone"
        ),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy="Make the environment anew with a Python for arm64, from a terminal that does not run under Rosetta.",
        commands=(
            "python3 -c 'import platform; print(platform.machine())'",
            "uv venv --python cpython-3.12-macos-aarch64 env",
            "CONDA_SUBDIR=osx-arm64 conda create -n arm python",
        ),
        sources=(_ROSETTA, _METAL),
        likelihood=92,
    )


def _version(case: Case) -> tuple[Dotted | None, str]:
    """The macOS that runs, and where that is told. 10.16 is what a Python built for older systems is told of any."""
    told = re.search(r"(\d+(?:\.\d+)*)", case.machine.os_release) if case.os in (Os.MACOS, None) else None
    if told and re.search(r"mac|os x", case.machine.os_release, re.IGNORECASE) and told[1] != "10.16":
        return dotted(told[1]), f"machine.os_release: {case.machine.os_release}"
    for pattern in (
        r"ProductVersion:?\s+(\d+[\d.]*)",
        r"macOS[- ]v?(\d+(?:\.\d+)*)(?![\d.]*\+)(?!\.?\d*\s*(?:or|and) (?:newer|later))",
        r"^\s*(\d\d\.\d+(?:\.\d+)?)\s*$",
    ):
        places = ("sw_vers", "mac_ver") if pattern.startswith("^") else ()
        for hit in case.hits(pattern, *places):
            if hit[1] != "10.16" and not re.search(r"supported on macos|minimum", hit.line, re.IGNORECASE):
                return dotted(hit[1]), str(hit)
    kernel = dotted(case.machine.kernel)
    if kernel is not None and _on_mac(case) and kernel.major >= 20:
        # Darwin counted nine ahead of macOS up to 15, and is one behind from 26 on.
        major = kernel.major - 9 if kernel.major < 25 else kernel.major + 1
        return Dotted(str(major)), f"machine.kernel: {case.machine.kernel}"
    return None, ""


def _floor(case: Case) -> Dotted | None:
    """The macOS from which on this torch offers MPS."""
    release = case.torch.release
    rows = sorted(
        (build for build in case.matrix.frameworks["torch"].builds if build.tag == "mps" and build.macos is not None),
        key=lambda build: Dotted(build.release).key,
    )
    if release is None or not rows:
        return None
    older = [build for build in rows if Dotted(build.release) <= release or f"{release}.".startswith(f"{build.release}.")]
    return (older[-1] if older else rows[0]).macos


_SUPPORTED_ON = r"supported on MacOS (\d+(?:\.\d+)*)\+"
_NEWER = (
    r"(?:only )?(?:supported|available|natively)[\w ]*(?:on|from|starting from|in) macOS (\d+(?:\.\d+)?)"
    r"(?: or (?:newer|later)|\+|\.|$)"
    r"|requires macOS (\d+(?:\.\d+)?)"
)


def _no_mps(case: Case) -> str:
    """What tells that torch does not see the device."""
    hit = (
        case.hit(r"^\s*(?:mps\W+)?(?:is_available\W+)?false\s*$", "mps")
        or case.hit(
            r"mps\S*(?:is_)?available\S*?\W+false|MPS available\W+false|mps_available['\"]?\W+false|is_available\(\)\W+false"
        )
        or case.hit(_SUPPORTED_ON)
        or case.hit(
            r"MTLCreateSystemDefaultDevice.*(?:nil|null|none)|metal device is\s+nil|No Metal device|MPS device.*not (?:found"
            r"|available)|no available Metal"
        )
        or case.hit(r"MPS backend (?:is )?not available|mps.*is not available|not linked with support for mps|MPS not available")
    )
    return str(hit) if hit else ""


def mps_macos_too_old(case: Case) -> Iterator[Finding]:
    """macOS is older than this torch's MPS needs; the message of torch may name another number."""
    if not _on_mac(case):
        return
    floor, (have, told) = _floor(case), _version(case)
    said, other = case.hit(_SUPPORTED_ON), case.hit(_NEWER)
    failing = _no_mps(case) or ("torch.available: false" if case.torch.available is False else "")
    named = dotted(said[1]) if said else None
    if floor is not None and have is not None and have < floor and (failing or case.torch.available is None):
        yield _too_old(case, have, floor, [failing, told], 90 if said or failing != "torch.available: false" else 86)
    elif said is not None and have is not None and named is not None and have < named and (floor is None or have < floor):
        yield _too_old(case, have, named, [str(said), told], 90)
    elif said is not None and have is None:
        yield _too_old(case, None, floor or named, [str(said)], 70)
    elif other is not None and have is not None and (wanted := dotted(other[1] or other[2])) is not None and have < wanted:
        yield _too_old(case, have, wanted, [str(other), told], 88)
    elif other is not None and have is None and re.search(r"mps|metal", other.line, re.IGNORECASE):
        yield _too_old(case, None, dotted(other[1] or other[2]), [str(other)], 78)


def _too_old(case: Case, have: Dotted | None, floor: Dotted | None, evidence: list[str], likelihood: int) -> Finding:
    name = f"torch {case.torch.version}" if case.torch.version else "this torch"
    evidence = [each for each in evidence if each] + ([f"torch.version: {case.torch.version}"] if case.torch.version else [])
    return Finding(
        cause="mps-macos-too-old",
        message=f"{name} offers MPS from macOS {floor} on; this Mac runs {f'macOS {have}' if have else 'an older one'}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=f"Update macOS to {floor} or newer, or install an older torch that still serves this one.",
        commands=("sw_vers", "softwareupdate --list"),
        sources=(_MPS, "pytorch/pytorch issue #164943: https://github.com/pytorch/pytorch/issues/164943"),
        likelihood=likelihood,
    )


_BOXED = (
    r"\bsandbox|seatbelt|\bcodex\b|app store|\bMTLCreateSystemDefaultDevice\b|virtual machine|\bVM\b|virtuali[sz]|\bvmware\b"
    r"|parallels|\btart\b|\butm\b|runner|ssh|launchd|daemon|cron\b|headless|non-interactive|paravirtual"
)


def mps_sandboxed(case: Case) -> Iterator[Finding]:
    """macOS and torch would do, and the process may not reach Metal."""
    if not _on_mac(case) or case.in_container:
        return
    if _translated(case) and _silicon(case):
        return
    failing, (have, told), floor = _no_mps(case), _version(case), _floor(case)
    built = case.hit(r"is_built\S*\W+true|mps_built['\"]?\W+true|MPS built\W+true") or case.hit(r"^\s*true\s*$", "is_built")
    not_built = case.hit(r"is_built\S*\W+false|mps_built['\"]?\W+false") or case.hit(r"^\s*false\s*$", "is_built")
    said = case.hit(_SUPPORTED_ON)
    least = floor or (dotted(said[1]) if said else None)
    boxed = case.hit(_BOXED)
    asked = re.search(_BOXED, "\n".join((case.request, case.machine.container)), re.IGNORECASE)
    if not failing or not_built or (have is not None and least is not None and have < least):
        return
    if have is None and boxed is None and not asked:
        return
    if least is None and not (built or boxed or said):
        return
    if case.machine.arch == "x86_64" and not _silicon(case) and boxed is None:
        return
    yes = case.hit(r"^\s*(?:mps\W+)?true\s*$", "terminal", "outside", "user")
    evidence = [failing, told] + [str(hit) for hit in (built, boxed, yes) if hit] + ([f"request: {asked[0]}"] if asked else [])
    yield Finding(
        cause="mps-sandboxed",
        message="macOS is new enough and torch has MPS; this process may not reach Metal"
        + (", and the number in torch's message does not matter" if said else ""),
        evidence=tuple(dict.fromkeys(each for each in evidence if each)),
        remedy=(
            "Run it outside the sandbox (or let that permit Metal, IOKit and the GPU's service), from a terminal of a "
            "logged-in user, and on the Mac itself instead of a virtual machine."
        ),
        commands=("python3 -c 'import torch; print(torch.backends.mps.is_available())'",),
        sources=(_WRONG, _SANDBOX),
        likelihood=90 if boxed or asked or yes else 80 if built or said else 72,
    )


def mps_in_linux_container(case: Case) -> Iterator[Finding]:
    """A Linux container on a Mac: there is no Metal in it."""
    linuxkit = case.hit(r"linuxkit|orbstack|\bcolima\b|docker desktop for mac|virtualization\.framework|applehv|\blima\b")
    kernel = re.search(r"linuxkit|orbstack", case.machine.kernel, re.IGNORECASE)
    linux = case.os is Os.LINUX or (case.os is None and (linuxkit is not None or bool(kernel)))
    mac_host = case.os is Os.MACOS and (
        case.in_container or re.search(r"\b(?:docker|podman|nerdctl)\s+(?:run|compose|build)|devcontainer", case.request)
    )
    if not linux and not mac_host:
        return
    mps = _no_mps(case) or (
        f"request: {case.request.splitlines()[0]}" if re.search(r"\bmps\b|metal", case.request, re.IGNORECASE) else ""
    )
    said = case.hit(r"\bmps\b|\bmetal\b")
    apple = next((card for card in case.gpus if card.vendor == "apple"), None)
    chip = case.hit(
        r"\bApple M\d|VirtualApple|\bapple silicon\b|\bmacbook|\bmac (?:mini|studio|pro)\b|\bM[1-4] (?:pro|max|ultra)\b"
    )
    on_mac = linuxkit or kernel or apple or chip or mac_host
    arm = case.machine.arch in ("aarch64", "arm64", "") or case.facts.python.machine in ("aarch64", "arm64")
    if not on_mac or not (mps or said or apple) or (not arm and not (mps or apple)):
        return
    if case.cards("nvidia"):
        return
    evidence = [mps or (str(said) if said else "")] + ([str(linuxkit)] if linuxkit else []) + ([str(chip)] if chip else [])
    evidence += [f"machine.kernel: {case.machine.kernel}"] if kernel else []
    evidence += [f"machine.gpu: {apple.name or apple.arch}"] if apple else []
    evidence += [f"machine.container: {case.machine.container}"] if case.in_container else []
    yield Finding(
        cause="mps-in-linux-container",
        message="this is a Linux container on a Mac: it runs in a virtual machine without Metal, and torch for Linux has no MPS",
        evidence=tuple(dict.fromkeys(each for each in evidence if each)),
        remedy="Run Python on macOS itself for MPS (or MLX); keep the container for what the CPU does.",
        commands=("envkit up --scheme macos-mps",),
        sources=(_CONTAINER, "pytorch/pytorch issue #96066: https://github.com/pytorch/pytorch/issues/96066"),
        likelihood=93 if mps and (linuxkit or kernel or mac_host) else 86,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    macos_x86_python_rosetta,
    mps_macos_too_old,
    mps_sandboxed,
    mps_in_linux_container,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "macos-x86-python-rosetta": (
        "python-no-wheel",
        "wheel-tag-not-published",
        "mps-macos-too-old",
        "mps-sandboxed",
        "numpy2-abi",
        "cpu-only-wheel",
    ),
    "mps-in-linux-container": (
        "cpu-only-wheel",
        "cpu-arch-no-cuda-wheel",
        "container-no-gpu-flag",
        "mps-macos-too-old",
        "mps-sandboxed",
    ),
}
