"""Causes that lie in NVIDIA's driver release: too old, of two versions at once, or brought along by a container."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.doctor.index import asked, pypi_tag
from envkit.model import BackendRelease, Dotted, DriverFacts, Finding, Gpu, Os, dotted
from envkit.resolve.plans import source_texts
from envkit.resolve.rules import own_driver, tag_floor
from envkit.resolve.target import card_name, driver_number

_COMPAT = "NVIDIA: CUDA forward compatibility: https://docs.nvidia.com/deploy/cuda-compatibility/forward-compatibility.html"
_MISMATCH = "NVIDIA: verifying the loaded driver: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
_TOOLKIT = "NVIDIA Container Toolkit: https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/"


# ---- what a report says of the driver ----------------------------------------------------------------------------


def driver_facts(case: Case) -> DriverFacts:
    """What the report's tables say of NVIDIA's driver; nothing where they are about another vendor's."""
    if "nvidia" in case.machine.drivers:
        return case.machine.drivers["nvidia"]
    others = {card.vendor for card in case.gpus if card.vendor} - {"nvidia"}
    return DriverFacts() if others and not case.cards("nvidia") else case.driver


_RELEASE = r"(\d{3}\.\d{2,3}(?:\.\d+)?)"
# "Kernel Module" stands in nvidia-smi's header since 610 as KMD.
_HEADER = rf"(?:driver|KMD) version\s*:?\s*{_RELEASE}"
_LOADED = rf"kernel module\s+(?:for \S+\s+)?{_RELEASE}"


def driver_release(case: Case) -> tuple[Dotted | None, str]:
    """The driver that is loaded, in NVIDIA's own numbers, and the line that tells it."""
    loaded = case.hit(_LOADED, "/proc/driver/nvidia/version")
    if loaded:
        return Dotted(loaded[1]), str(loaded)
    text = driver_facts(case).kernel
    number = dotted(driver_number("nvidia", case.os or Os.LINUX, text)) if text else None
    if number is not None and number.major > 100:
        return number, f"machine.driver.kernel: {text}"
    said = case.hit(_HEADER) or case.hit(rf"^\s*{_RELEASE}\s*$", "driver_version")
    return (Dotted(said[1]), str(said)) if said else (None, "")


def served_cuda(case: Case) -> tuple[Dotted | None, str]:
    """The newest CUDA that the loaded driver serves, and the line that tells it."""
    found = case.hit(r"found version (\d{4,5})\b|found CUDA version (\d{4,5})\b|cuda driver version\D{0,4}(\d{5})\b")
    if found:
        number = int(next(group for group in found.match.groups() if group))
        return Dotted(f"{number // 1000}.{number % 1000 // 10}"), str(found)
    header = case.hit(r"CUDA (?:UMD )?Version\s*:\s*(\d+\.\d+)", "nvidia-smi", "collect", "error")
    if header:
        return Dotted(header[1]), str(header)
    release, line = driver_release(case)
    if release is None or case.os is Os.WINDOWS or case.wsl:
        return None, ""
    branches = [each for each in case.matrix.backends["cuda"].branches if each.branch <= release]
    newest = max(branches, key=lambda each: each.branch.key, default=None)
    return (newest.max_backend, line) if newest else (None, "")


def needed_cuda(case: Case) -> tuple[Dotted | None, str]:
    """The CUDA that the framework was built with, and what tells it."""
    torch = case.torch
    if torch.flavour in ("cpu", "rocm", "xpu"):
        return None, ""
    if dotted(torch.cuda):
        return dotted(torch.cuda), f"torch.version.cuda: {torch.cuda}"
    tag = torch.tag or ("" if torch.version else asked(case).tag)
    plain = re.match(r"cu(\d+)(\d)$", tag)
    if plain:
        return Dotted(f"{plain[1]}.{plain[2]}"), f"torch: {torch.version or tag}"
    plain = re.match(r"cu(\d+)(\d)$", pypi_tag(case)) if case.os in (Os.LINUX, Os.WSL2) else None
    if plain:
        return Dotted(f"{plain[1]}.{plain[2]}"), f"torch.version: {torch.version}, of PyPI"
    for name in ("nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime-cu11", "nvidia-cuda-runtime"):
        if version := dotted(case.packages.get(name)):
            return Dotted(".".join(version.split(".")[:2])), f"python.packages: {name} {version}"
    built = case.hit(r"built against (?:CUDA )?version (\d{5})\b")
    if built:
        return Dotted(f"{int(built[1]) // 1000}.{int(built[1]) % 1000 // 10}"), str(built)
    return None, ""


def cuda_row(case: Case, version: Dotted) -> BackendRelease | None:
    """The matrix row with the driver floor of a CUDA: its own, or one of the same major version, which has the same floor."""
    rows = [row for row in case.matrix.backends["cuda"].releases if row.tag.startswith("cu1")]
    same = [row for row in rows if row.version == version]
    return next(iter(same or [row for row in rows if row.version.major == version.major]), None)


def is_nvidia(case: Case) -> bool:
    """Whether the report is about an NVIDIA card: one is there, or NVIDIA's own tools and modules speak."""
    if case.cards("nvidia") or case.gpus:
        return bool(case.cards("nvidia"))
    words = r"\bnvidia|\bNVRM\b|\bnvml\b|\bnouveau\b|cuda|\bgeforce\b"
    return case.hit(words) is not None or any(re.search(words, place, re.IGNORECASE) for place in case.facts.evidence)


def on_linux(case: Case) -> bool:
    """Whether it may be a Linux with kernel modules of its own."""
    return case.os in (Os.LINUX, None)


def works(case: Case) -> Hit | None:
    """A line of nvidia-smi that it prints only where the driver answers."""
    return case.hit(
        r"^\s*GPU \d+: |NVIDIA-SMI\s+\d.*driver version|\|\s+\d+\s+(?:NVIDIA|Tesla|GeForce|Quadro|RTX|GTX)", "nvidia-smi"
    )


def package_versions(case: Case, pattern: str) -> dict[str, Dotted]:
    """The driver release of those system packages whose name matches."""
    found: dict[str, Dotted] = {}
    for name, text in case.machine.system_packages.items():
        release = re.search(_RELEASE, text)
        if re.search(pattern, name) and release:
            found[name] = Dotted(release[1])
    return found


def same_release(one: Dotted, other: Dotted) -> bool:
    """Whether two are one release; "570.124" of NVML's message is any 570.124.x."""
    first, second = one.split("."), other.split(".")
    count = min(len(first), len(second))
    return [int(part) for part in first[:count]] == [int(part) for part in second[:count]]


# ---- too old -----------------------------------------------------------------------------------------------------

_TOO_OLD = (
    r"nvidia driver on your system is too old|driver version is insufficient for cuda runtime|cudaErrorInsufficientDriver"
    r"|unsatisfied condition: cuda\s*>=?\s*(?P<cuda>\d+\.\d+)|unsatisfied condition: (?:driver|brand)"
    r"|container was built for nvidia driver release (?P<driver>\d+\.\d+(?:\.\d+)?)|cuda failure 35\b|cuda error:? 35\b"
    r"|found cuda version \d+, but jax was built against|cuda driver version \S+ is (?:too old|older)"
    r"|driver .{0,40}(?:does not|doesn't) support (?:cuda|this version)|please (?:update"
    r"|upgrade) your (?:gpu |nvidia |cuda )*driver"
    r"|requires? (?:an? )?(?:nvidia )?driver (?:version )?(?:>=|at least|or newer)"
    r"|provided ptx was compiled with an unsupported toolchain|cudaErrorUnsupportedPtxVersion|CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
)


def driver_too_old(case: Case) -> Iterator[Finding]:
    """The driver is older than the CUDA of what runs needs, or than the card."""
    said = case.hit(_TOO_OLD)
    need, built = needed_cuda(case)
    have, have_line = driver_release(case)
    serves, serves_line = served_cuda(case)
    row = cuda_row(case, need) if need else None
    floor = tag_floor(row, case.os or Os.LINUX) if row else None
    if need is None and said and (said["cuda"] or said["driver"]):
        wanted = f"CUDA {said['cuda']}" if said["cuda"] else f"driver {said['driver']}"
    else:
        wanted = f"CUDA {need}" if need else "the CUDA that this was built with"
    old = have is not None and floor is not None and have < floor
    # Without a driver's number, the CUDA that it serves tells: one of an older major version runs nothing of a newer one.
    older = have is None and need is not None and serves is not None and serves.major < need.major
    if (said is None and not (old or older)) or case.torch.available or not is_nvidia(case):
        yield from _unknown_card(case)
        return
    if said and have and floor and have >= floor and "ptx" not in said.line.lower() and not said["cuda"] and not said["driver"]:
        return  # the driver reaches the floor: something else stands before it (a stub, compat libraries)
    is_at = f"driver {have}" if have else "the driver"
    newest = f", which serves CUDA up to {serves}" if serves else ""
    takes = f" ({floor} or newer)" if floor else ""
    yield Finding(
        cause="nvidia-driver-too-old",
        message=f"{is_at}{newest}, is too old for {wanted}{takes}".replace(", is", ", is" if newest else " is"),
        evidence=tuple(dict.fromkeys(line for line in (str(said or ""), built, have_line, serves_line) if line)),
        remedy=(
            f"Update the NVIDIA driver{_where(case)}{f' to {floor} or newer' if floor else ''}, "
            "or install a build for a CUDA that this driver serves."
        ),
        # A plan is made for the driver; where its number is not known, it would be one for the newest.
        commands=tuple(commands.reinstall_torch(case)) if have else (),
        sources=source_texts(case.matrix.sources, row.sources if row else ("cuda-minor",)),
        likelihood=90 if said else 80,
    )
    return


def _where(case: Case) -> str:
    if case.wsl:
        return " in Windows"
    return " of the host" if case.in_container else ""


def _unknown_card(case: Case) -> Iterator[Finding]:
    """A card newer than the driver, or older than the oldest that it still drives."""
    have, line = driver_release(case)
    backend = case.matrix.backends["cuda"]
    legacy = case.hit(
        rf"supported through the\s+NVIDIA (\d{{3}})\.?x*\w* legacy|\bNVRM:.*(\d{{3}})\.xx legacy drivers?"
        rf"|{_RELEASE} driver will ignore"
    )
    refused = case.hit(r"installed in this system is not supported by the|is not supported by the \d{3}\.|unsupported chipset")
    for card in case.cards("nvidia"):
        row = case.matrix.archs.get(card.arch)
        if case.torch.available or (works(case) and card.name and card.name in case.printed("nvidia-smi")):
            continue
        if have is not None and row is not None and row.min_backend is not None and not legacy:
            first, sources = own_driver(case.matrix, backend, row.min_backend, case.os or Os.LINUX)
            if first is not None and have < first:
                yield Finding(
                    cause="nvidia-driver-too-old",
                    message=f"driver {have} does not know {card_name(card)}: the first that does is {first}",
                    evidence=tuple(text for text in (line, f"machine.gpu: {card_name(card)}", str(refused or "")) if text),
                    remedy=f"Install driver {first} or newer{_where(case)}.",
                    sources=source_texts(case.matrix.sources, (*row.sources, *sources)),
                    likelihood=86 if refused else 80,
                )
                return
        yield from _dropped(case, card, have, line, legacy)
    if legacy and not case.cards("nvidia"):
        yield from _dropped(case, Gpu(vendor="nvidia", name="the card"), have, line, legacy)


def _dropped(case: Case, card: Gpu, have: Dotted | None, line: str, legacy: Hit | None) -> Iterator[Finding]:
    branches = case.matrix.backends["cuda"].branches
    gone = next((each for each in branches if card.arch in each.dropped), None)
    if legacy is None and (gone is None or have is None or have < gone.branch):
        return
    last = max((each.branch for each in branches if gone and each.branch < gone.branch), key=lambda each: each.key, default=None)
    # Of a legacy branch named in the log, the log is right.
    named = next((group for group in legacy.match.groups() if group), "") if legacy else ""
    wanted = named.split(".")[0] if named and "legacy" in (legacy.line.lower() if legacy else "") else str(last or "")
    until = f": {wanted} is the last branch that does" if wanted else ""
    yield Finding(
        cause="nvidia-driver-dropped-gpu",
        message=f"{f'driver {have}' if have else 'the driver'} no longer drives {card_name(card)}{until}",
        evidence=tuple(text for text in (str(legacy or ""), line, f"machine.gpu: {card_name(card)}") if text),
        remedy=f"Install the {wanted or 'legacy'} branch of the driver and keep it from being upgraded.",
        sources=source_texts(case.matrix.sources, gone.sources if gone else ("nvidia-unix",)),
        likelihood=91 if legacy else 80,
    )


# ---- forward compatibility ---------------------------------------------------------------------------------------

_UNSUPPORTED_HW = (
    r"forward compatibility was attempted on non[ -]?supported hw|compat_not_supported_on_device|compatnotsupportedondevice"
    r"|\berror:? 804\b|cuda (?:failure|error):? 804\b|(?:cuinit|cudaGetDeviceCount)\S*\s*(?:=|->|returned|failed with)\s*804\b"
    r"|compatibility mode is unavailable"
)


def forward_compat_unsupported(case: Case) -> Iterator[Finding]:
    """The compatibility libraries of an image on a card that they do not serve, before an older driver."""
    said = case.hit(_UNSUPPORTED_HW)
    if said is None or case.torch.available:
        return
    have, line = driver_release(case)
    serves, serves_line = served_cuda(case)
    cards = case.cards("nvidia")
    yield Finding(
        cause="cuda-forward-compat-unsupported-hw",
        message=(
            f"the image's CUDA compatibility libraries do not serve {card_name(cards[0]) if cards else 'this card'}, and "
            f"{f'driver {have}' if have else 'the driver'} is older than the CUDA that the image is built for"
            f"{f' (it serves up to {serves})' if serves else ''}"
        ),
        evidence=tuple(dict.fromkeys(text for text in (str(said), line, serves_line) if text)),
        remedy=(
            "Update the driver of the host to the one of the image's CUDA, or run an image built for a CUDA that the driver "
            "serves. The compatibility libraries work on data-centre cards only; outside a container, take the cuda-compat "
            "package and its folder out of LD_LIBRARY_PATH."
        ),
        sources=(_COMPAT,),
        likelihood=92,
    )


# ---- two versions at once ----------------------------------------------------------------------------------------

_TWO_VERSIONS = (
    r"driver/library version mismatch|nvml_error_lib_rm_version_mismatch|API mismatch: .{0,30}client"
    r"|this kernel module has the version"
    r"|kernel (?:version|driver version|module) \S+ does not match (?:dso|the)"
    r"|unsupported display driver / cuda driver combination"
    r"|cuda_error_system_driver_mismatch|cudaErrorSystemDriverMismatch|\berror:? 803\b|lib_rm_version_mismatch"
)
_IN_IMAGE = (
    r"\b(?:nvidia-driver(?:-libs)?|libnvidia-(?:compute|gl|cfg|extra|common|ml)\S*|nvidia-utils\S*"
    r"|libcuda1|nvidia-compute-utils\S*|cuda-drivers\S*|nvidia-driver-cuda\S*|libnvidia-compute\S*)\b"
)


def nvml_version_mismatch(case: Case) -> Iterator[Finding]:
    """The loaded module and the driver's libraries are of two releases: on the host, or by what a container's image brought."""
    said = case.hit(_TWO_VERSIONS)
    facts = driver_facts(case)
    kernel, line = driver_release(case)
    told = case.hit(rf"kernel module has the version {_RELEASE}|kernel version {_RELEASE} does not match") if said else None
    kernel = kernel or (dotted(next(group for group in told.match.groups() if group)) if told else None)
    user = dotted(facts.userspace) or _library(case)
    split = kernel is not None and user is not None and not same_release(kernel, user)
    packages = package_versions(
        case,
        rf"^{_IN_IMAGE}|^nvidia-(?:driver|utils|smi|compute|headless)|^xorg-x11-drv-nvidia|^akmod-nvidia"
        rf"|^nvidia(?:-open)?(?:-dkms)?$",
    )
    other = packages and kernel is not None and not any(same_release(kernel, each) for each in packages.values())
    if case.os is Os.WINDOWS or case.os is Os.MACOS or case.wsl or (case.torch.available and said is None):
        return
    if said is None and not split and not (other and (works(case) is None or case.torch.available is False)):
        return
    lines = [str(said)] if said else []
    lines += [line] if line else []
    lines += [f"machine.driver.userspace: {facts.userspace}"] if facts.userspace else []
    lines += [f"machine.system_packages: {name} {version}" for name, version in packages.items()][:3]
    sides = f"the module {kernel} is loaded" if kernel else "the loaded module is of another release"
    theirs = user or next((v for v in packages.values() if kernel is None or not same_release(kernel, v)), None)
    message = f"{sides}; the libraries are of {theirs or 'another release'}"
    if case.in_container:
        host = f"the host's module is {kernel}" if kernel else "the host's module is of another release"
        yield from _brought_along(
            case, f"the container's driver libraries are of {theirs or 'another release'}; {host}", lines, said
        )
    host_side = case.hit(r"nvidia-container-cli.*mismatch|nvml error.*mismatch") is not None
    yield Finding(
        cause="nvidia-nvml-version-mismatch",
        message=message,
        evidence=tuple(lines),
        remedy=(
            "Bring the loaded module and the driver's packages to one release: finish the interrupted update, see that a module "
            "of the new release was built for the running kernel, and reboot. Where a reboot loads the old module again, remove "
            "what is left of the other driver first."
        ),
        commands=tuple(_one_release(case)),
        sources=(_MISMATCH,),
        likelihood=(91 if host_side else 70) if case.in_container else (90 if said else 82),
    )


def _library(case: Case) -> Dotted | None:
    told = case.hit(
        rf"nvml library version:\s*(\d+\.\d+(?:\.\d+)?)|client has the version {_RELEASE}|does not match dso version {_RELEASE}"
    )
    return dotted(next((group for group in told.match.groups() if group), "")) if told else None


def _one_release(case: Case) -> Iterator[str]:
    repair = {"apt": "sudo apt install --fix-broken", "dnf": "sudo dnf distro-sync", "zypper": "sudo zypper verify"}
    if case.package_manager in repair:
        yield repair[case.package_manager]
    yield from ("dkms status", "sudo reboot")


def _brought_along(case: Case, message: str, lines: list[str], said: Hit | None) -> Iterator[Finding]:
    """The same inside a container: the image holds driver packages of its own before those that the toolkit mounts."""
    brought = case.hit(
        rf"(?:apt(?:-get)?|dnf|yum|zypper|apk) .*install.*{_IN_IMAGE}|^ii\s+{_IN_IMAGE}|\bRUN\b.*{_IN_IMAGE}|{_IN_IMAGE}",
        "dpkg",
        "rpm",
        "apt",
        "Dockerfile",
        "docker",
    )
    inside = [name for name in case.machine.system_packages if re.match(_IN_IMAGE, name)]
    host = case.hit(r"driver version|^\s*GPU \d+:", "host", "outside")
    lines = lines + [str(hit) for hit in (brought, host) if hit] + [f"machine.system_packages: {name}" for name in inside[:3]]
    cli = case.hit(r"nvidia-container-cli|nvidia-container-runtime|failed to create (?:shim|task)")
    if cli and not (brought or inside):
        return  # that speaks on the host, before anything of the image runs
    yield Finding(
        cause="nvidia-driver-lib-in-container",
        message=message,
        evidence=tuple(dict.fromkeys(lines)),
        remedy=(
            "Take the driver's packages (libnvidia-*, nvidia-utils, cuda-drivers, the metapackage cuda) out of the image: the "
            "container toolkit mounts those of the host. Build the image again and start a new container."
        ),
        commands=tuple(commands.remove(case, *(inside or ["'libnvidia-*'", "'nvidia-utils-*'"]))) if case.package_manager else (),
        sources=(_TOOLKIT,),
        likelihood=91 if brought or inside or host else 74 if said else 70,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (driver_too_old, forward_compat_unsupported, nvml_version_mismatch)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "cuda-forward-compat-unsupported-hw": ("nvidia-driver-too-old",),
    "nvidia-nvml-version-mismatch": ("cuda-forward-compat-unsupported-hw", "nvidia-driver-too-old", "nvidia-module-not-built"),
    "nvidia-driver-lib-in-container": ("nvidia-nvml-version-mismatch",),
}
