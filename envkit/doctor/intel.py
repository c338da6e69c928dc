"""Causes that lie in Intel's stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.model import Dotted, Finding, Gpu, Os, Severity, dotted
from envkit.resolve.target import card_name

if TYPE_CHECKING:
    from envkit.model import Product

_START = "PyTorch on Intel GPUs: https://docs.pytorch.org/docs/stable/notes/get_start_xpu.html"
_RUNTIME = "intel/compute-runtime: https://github.com/intel/compute-runtime"
_DRIVERS = "Intel, software for general purpose GPU capabilities: https://dgpu-docs.intel.com/driver/installation.html"
_XE_ON_DG2 = "intel/compute-runtime issue #905: https://github.com/intel/compute-runtime/issues/905"
_NPU = "intel/intel-npu-acceleration-library issue #132: https://github.com/intel/intel-npu-acceleration-library/issues/132"
_IPEX = "intel/intel-extension-for-pytorch issue #865: https://github.com/intel/intel-extension-for-pytorch/issues/865"

# The user-space driver of Intel's GPUs by the names of its packages.
_GPU_RUNTIME = (
    r"(?:libze-intel-gpu1?|libze-intel-gpu-legacy1|intel-level-zero-gpu|intel-opencl-icd|intel-opencl"
    r"|intel-compute-runtime(?:-legacy)?|intel-ocloc)"
)
_NPU_RUNTIME = r"(?:intel-level-zero-npu|libze_intel_(?:npu|vpu)|libze-intel-npu|intel-driver-compiler-npu|intel-fw-npu)"
# Cards that the kernel drives by i915; xe takes them only when it is forced to, and the compute runtime is not made for that.
_OF_I915 = frozenset(("dg1", "dg2", "ats-m", "tgl", "rkl", "adl", "rpl", "gen8", "gen9", "gen11", "pvc"))
_I915_NAMES = r"\biris\b|\bu?hd graphics|\barc(?:\(tm\))?\s+(?:pro\s+)?a\d{2}|\bflex\b|\bDG[12]\b"
_OF_XE = frozenset(("bmg", "lnl", "ptl", "wcl", "nvl", "cri"))
_NO_XPU = (
    r"XPU device count is zero|No XPU devices are available|no (?:intel |sycl |level.?zero )?(?:xpu|gpu) devices?\b"
    r"|No device of requested type"
    r"|ZE_RESULT_ERROR_(?:UNINITIALIZED|DEPENDENCY_UNAVAILABLE|UNSUPPORTED_FEATURE|DEVICE_LOST)|0x7800000[1-3]|0x70010001"
    r"|UR_RESULT_ERROR_(?:UNINITIALIZED|UNKNOWN|DEVICE_LOST|UNSUPPORTED)|PI_ERROR_\w+|UR error|number of platforms\s+0"
    r"|zeInit.*(?:fail|0x78|78000)"
    r"|zeDriverGet returns? 0|level.?zero.*(?:0 (?:drivers|devices)|no devices)|NEO::|device .*not detected"
)


def _intel(case: Case) -> bool:
    if case.cards("intel"):
        return True
    return not case.gpus and (
        case.torch.flavour == "xpu"
        or case.hit(r"\bxpu\b|intel.*\b(?:arc|gpu|graphics|flex|max)\b|level.?zero|libze_|\bsycl\b|\bi915\b|\bipex\b") is not None
    )


def _unavailable(case: Case) -> Hit | None:
    """What says that the device is not seen."""
    return (
        case.hit(_NO_XPU)
        or case.hit(r"^\s*(?:xpu:? )?false\s*$", "xpu", "is_available")
        or case.hit(r"xpu.*available\W+false|is xpu available: false")
    )


def _failing(case: Case) -> bool:
    return case.torch.available is False or _unavailable(case) is not None


def _runtimes(case: Case) -> dict[str, str]:
    """The packages of the GPU's user-space driver, from the facts or from what a package manager printed."""
    found = {name: text for name, text in case.machine.system_packages.items() if re.fullmatch(_GPU_RUNTIME, name)}
    for hit in case.hits(rf"\b({_GPU_RUNTIME})[:\s/=]+(?:amd64\s+)?(?:installed:\s*)?v?(\d\d\.\d\d?\.\d[\w.+~-]*)"):
        found.setdefault(hit[1], hit[2])
    for hit in case.hits(r"(?:compute-?runtime|NEO|driver.?version|level.?zero driver)\W+v?(\d\d\.\d\d?\.\d{5}(?:\.\d+)?)"):
        found.setdefault("compute-runtime", hit[1])
    return found


def _product(card: Gpu) -> Product | None:
    from envkit import devices

    product = devices.by_pci(card.pci_id) if card.pci_id else None
    if product is None and card.name:
        found = devices.find(card.name)
        product = found.products[0] if found.products else None
    return product


def xpu_compute_runtime_too_old(case: Case) -> Iterator[Finding]:
    """The Level Zero driver is missing, or older than the card or the kernel's interface."""
    if not _intel(case) or case.torch.flavour in ("cpu", "cuda", "rocm") or _swapped(case):
        return
    loader = case.hit(
        r"(?:libur_adapter_level_zero|libur_adapter\w*|libsycl|libpi_level_zero)\S*: undefined symbol: ze"
        r"|libze_loader\S*: .*(?:version|no such file|cannot open)"
    )
    old = case.hit(
        r"(?:compute.?runtime|level.?zero|libze\S*|driver).*\b(?:too old|outdated|(?:is|are) older)"
        r"|update your (?:intel.)?compute.?runtime"
    )
    said, runtimes = _unavailable(case), _runtimes(case)
    card = next(iter(case.cards("intel")), Gpu(vendor="intel"))
    if not (loader or old) and not _failing(case):
        return
    if _no_driver(case) or _wrong_driver(case) is not None or case.has_device(r"/dev/dri/renderD") is False:
        return
    product = _product(card) if card.name or card.pci_id else None
    year = product.year if product else None
    older = [
        (name, text)
        for name, text in runtimes.items()
        if (made := dotted(text)) is not None and year and 17 <= made.major <= 99 and 2000 + made.major < year
    ]
    absent = bool(case.machine.system_packages) and not runtimes and case.os is Os.LINUX
    newer_kernel = _kernel_after(case, runtimes)
    if case.os is Os.WINDOWS and not (loader or old):
        return
    likelihood = 90 if loader else 88 if old or older else 82 if newer_kernel else 76 if absent else 60
    evidence = [str(hit) for hit in (loader, old, said) if hit]
    evidence += [f"machine.system_packages: {name} {text}" for name, text in runtimes.items()]
    evidence += [f"machine.kernel: {case.machine.kernel}"] if case.machine.kernel else []
    evidence += ["torch.available: false"] if case.torch.available is False else []
    evidence += [f"machine.gpu: {card_name(card)}{f', of {year}' if year and older else ''}"] if card.name or card.arch else []
    what = f"{older[0][0]} {older[0][1]} is older than {card_name(card)}" if older else ""
    what = what or ("no Level Zero driver for Intel GPUs is among the packages" if absent else "")
    what = what or (
        f"{next(iter(runtimes))} {next(iter(runtimes.values()))} is older than kernel {case.machine.kernel}"
        if newer_kernel
        else ""
    )
    yield Finding(
        cause="xpu-compute-runtime-too-old",
        message=what
        or "the Level Zero driver in user space does not serve this kernel and card: it is too old, or not installed",
        evidence=tuple(dict.fromkeys(evidence)) or ("torch.xpu.is_available: false",),
        remedy=(
            "Install a newer Level Zero driver and loader (Intel's graphics repository is ahead of the distribution's) and "
            "try again."
        ),
        commands=tuple(_newer_runtime(case)),
        sources=(_RUNTIME, _DRIVERS),
        likelihood=likelihood,
    )


def _newer_runtime(case: Case) -> Iterator[str]:
    if case.package_manager == "apt" and "ubuntu" in f"{case.machine.os_id}{case.machine.os_release}".lower():
        yield "sudo add-apt-repository ppa:kobuk-team/intel-graphics"
    if case.package_manager == "apt":
        yield from commands.install(case, "libze-intel-gpu1", "libze1", "intel-opencl-icd")
    elif case.package_manager in ("dnf", "pacman"):
        yield from commands.install(
            case, "intel-compute-runtime", *(("level-zero-loader",) if case.package_manager == "pacman" else ("level-zero",))
        )
    else:
        yield from commands.install(case, "intel-level-zero-gpu", "level-zero", "intel-opencl")


def _kernel_after(case: Case, runtimes: dict[str, str]) -> bool:
    """Whether a runtime is of a year before that of the system's release, with a kernel newer than the release came with."""
    have = dotted(case.machine.kernel)
    made = [number.major for text in runtimes.values() if (number := dotted(text)) is not None and 17 <= number.major <= 99]
    if have is None or not made:
        return False
    for row in case.matrix.platforms.values():
        released = re.match(r"ubuntu-(\d\d)\.", row.id)
        if released and row.kernel is not None and have >= row.kernel and max(made) < int(released[1]):
            return True
    return False


def _no_driver(case: Case) -> bool:
    cards = case.cards("intel")
    modules = case.machine.modules
    unbound = bool(cards) and all(card.kernel_driver == "none" for card in cards)
    return unbound or (
        modules is not None
        and bool(cards)
        and not {"i915", "xe"} & set(modules)
        and not any(c.kernel_driver in ("i915", "xe") for c in cards)
    )


def xpu_kernel_driver_missing(case: Case) -> Iterator[Finding]:
    """No i915 or xe driver for the card in this kernel."""
    if case.os in (Os.WINDOWS, Os.WSL2, Os.MACOS) or not _intel(case):
        return
    said = case.hit(
        r"Your graphics device \w+ is not (?:properly|officially) supported|\b(?:i915|xe)\b.*(?:probe.*fail(?:ed)?"
        r"|failed with error)|probe with driver (?:i915|xe) failed|force_probe=.*to (?:force|enable)|(?:i915|xe).*(?:GuC"
        r"|firmware).*(?:failed to load|not found|fetch failed)|modprobe: FATAL: Module (?:i915|xe) not found"
    )
    if case.in_container and said is None:
        return
    card = next(iter(case.cards("intel")), Gpu(vendor="intel"))
    no_node = (
        case.has_device(r"/dev/dri/renderD") is False
        or case.hit(r"/dev/dri(?:/renderD\S*)?['\"]?:? .*(?:no such file|not found|cannot access)") is not None
    )
    passed_on = any(each.kernel_driver.startswith("vfio") for each in case.cards("intel"))
    xe_forced = _wrong_driver(case)
    if passed_on or (xe_forced is not None and said is None):
        return
    by_facts = bool(case.cards("intel")) and (_no_driver(case) or no_node)
    by_text = no_node and _failing(case)
    if said is None and not by_facts and not by_text:
        return
    if case.torch.available and said is None:
        return
    firmware = said is not None and re.search(r"guc|firmware", said.line, re.IGNORECASE) is not None
    evidence = [str(said)] if said else []
    evidence += [f"machine.modules: {', '.join(case.machine.modules) or 'none'}"] if case.machine.modules is not None else []
    evidence += [f"machine.devices: {', '.join(case.machine.devices) or 'none'}"] if case.machine.devices is not None else []
    evidence += [f"machine.kernel: {case.machine.kernel}"] if case.machine.kernel else []
    evidence += (
        [f"machine.gpu: {card_name(card)}: {card.kernel_driver or 'no driver told'}"]
        if card.name or card.arch or card.pci_id
        else []
    )
    unavailable = _unavailable(case)
    evidence += [str(unavailable)] if unavailable and not evidence else []
    driver = "xe" if card.arch in _OF_XE else "i915 or xe"
    yield Finding(
        cause="xpu-kernel-driver-missing",
        message=(
            f"the kernel {case.machine.kernel or ''} does not drive {card_name(card)}: no {driver} driver is bound to it"
        ).replace("  ", " "),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Install the firmware of the driver (linux-firmware) of at least the kernel's age and start again."
            if firmware
            else (f"Boot a kernel whose {driver} driver knows the card (a newer one of the distribution), with linux-firmware.")
        ),
        commands=("lspci -nnk -d 8086: | grep -A3 -Ei 'vga|display'", *commands.install(case, "linux-firmware")),
        sources=(_DRIVERS, _START),
        likelihood=91 if said else 82,
    )


def _wrong_driver(case: Case) -> Gpu | None:
    for card in case.cards("intel"):
        if card.kernel_driver == "xe" and (card.arch in _OF_I915 or (not card.arch and re.search(_I915_NAMES, card.name, re.I))):
            return card
        if card.kernel_driver == "i915" and card.arch in _OF_XE:
            return card
        if card.kernel_driver.startswith("vfio"):
            return card
    return None


def xpu_kernel_driver_unsupported(case: Case) -> Iterator[Finding]:
    """The card is bound to a kernel driver that the compute runtime does not serve for it."""
    if case.os in (Os.WINDOWS, Os.WSL2, Os.MACOS) or not _intel(case):
        return
    card = _wrong_driver(case)
    forced = case.hit(r"xe\.force_probe=(?!!)[\"']?\*?[0-9a-f]{0,4}|modprobe xe force_probe|i915\.force_probe=!\w+")
    in_use = case.hit(r"kernel driver in use: (xe|vfio-pci)")
    said = _unavailable(case) or case.hit(r"abort was called|bindless_heaps_helper|core dumped|clinfo.*0\b")
    i915_card = case.hit(r"\b(?:arc(?:\(tm\))?\s+(?:pro\s+)?a\d{2,3}m?|DG2|DG1|alchemist|56[9a-c]\w|iris xe|uhd graphics)\b")
    if card is None and not ((forced or in_use) and (i915_card or (in_use and in_use[1].startswith("vfio")))):
        return
    if said is None and not _failing(case):
        return
    evidence = [f"machine.gpu: {card_name(card)}: {card.kernel_driver}"] if card else []
    evidence += [str(hit) for hit in (in_use, forced, said, None if card else i915_card) if hit]
    passed_on = bool(card and card.kernel_driver.startswith("vfio")) or bool(in_use and in_use[1].startswith("vfio"))
    driver = card.kernel_driver if card else in_use[1] if in_use else "xe"
    wanted = "xe" if card and card.arch in _OF_XE else "i915"
    name = card_name(card) if card else "this card"
    ident = card.pci_id[-4:] if card and card.pci_id else "<device id>"
    yield Finding(
        cause="xpu-kernel-driver-unsupported",
        message=f"{name} is bound to {driver}; the compute runtime serves it through {wanted}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Take the card back from vfio-pci (it is set aside for a virtual machine), or compute inside that machine."
            if passed_on
            else (
                f"Let {wanted} have the card: take the force_probe settings for {driver} out of the kernel's command line "
                f"and start again."
            )
        ),
        commands=()
        if passed_on
        else (
            f"sudo sed -i 's/ *\\(xe\\|i915\\)\\.force_probe=[^ \"]*//g' /etc/default/grub  # device {ident}",
            "sudo update-grub",
        ),
        sources=(_XE_ON_DG2,),
        likelihood=90 if card and said else 86 if card or said else 80,
    )


def xpu_npu_level_zero_conflict(case: Case) -> Iterator[Finding]:
    """The NPU's Level Zero driver disturbs what looks for a GPU."""
    said = case.hit(
        r"NPU_LOG.*ERROR|name of extension is unknown: zex|ze_driver\.cpp.*extension|libze_intel_(?:npu|vpu).*(?:error"
        r"|fail|segmentation|abort)"
    )
    there = [name for name in case.machine.system_packages if re.match(_NPU_RUNTIME, name)]
    printed = case.hit(rf"\b{_NPU_RUNTIME}")
    if said is None and not ((there or printed) and _failing(case) and case.torch.flavour in ("xpu", "")):
        return
    if said is None and (_no_driver(case) or _wrong_driver(case)):
        return
    failing = _unavailable(case)
    removed = case.hit(
        rf"(?:remov|uninstall|purg|without|disabl)\w*.*(?:{_NPU_RUNTIME}|npu)|(?:{_NPU_RUNTIME}|npu).*(?:remov|uninstall|disabl)"
    )
    evidence = [str(hit) for hit in (said, failing, removed, printed) if hit]
    evidence += [f"machine.system_packages: {name} {case.machine.system_packages[name]}" for name in there]
    yield Finding(
        cause="xpu-npu-level-zero-conflict",
        message=(
            "the NPU's Level Zero driver answers beside that of the GPU and lacks an extension that torch asks every driver for"
        ),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Update the NPU driver and the Level Zero loader, or hide the NPU from this process; or take the NPU driver "
            "away where it is not used."
        ),
        commands=("export ONEAPI_DEVICE_SELECTOR=level_zero:gpu", *commands.remove(case, "intel-level-zero-npu")),
        sources=(_NPU,),
        likelihood=92 if said else 84 if removed else 66,
    )


def ipex_torch_mismatch(case: Case) -> Iterator[Finding]:
    """Intel Extension for PyTorch and torch are of different minor releases."""
    said = case.hit(
        r"needs to work with PyTorch (\d+\.\d+)\S*,? (?:but|while) PyTorch (\S+) is found"
        r"|Extension for PyTorch.*(?:needs to work with|requires) PyTorch"
    )
    broken = case.hit(
        r"(?:intel_extension_for_pytorch|libintel-ext-pt|intel-ext-pt)\S*.*(?:undefined symbol|WinError 12[67]|DLL load failed"
        r"|cannot open shared)|(?:error loading|undefined symbol).*(?:intel-ext-pt|intel_extension_for_pytorch)"
    )
    have, torch = case.packages.get("intel-extension-for-pytorch", ""), case.torch.version or case.packages.get("torch", "")
    mine, theirs = _minor(have), _minor(torch)
    apart = mine is not None and theirs is not None and mine != theirs
    if said is None and broken is None and not apart:
        return
    if said is None and mine is not None and mine == theirs:
        return
    both = f"intel-extension-for-pytorch {have or ''} and torch {torch or ''}".replace("  ", " ").strip()
    evidence = [str(hit) for hit in (said, broken) if hit]
    evidence += [f"python.packages: intel-extension-for-pytorch {have}"] if have else []
    evidence += [f"torch.version: {torch}"] if torch else []
    wanted = mine or (_minor(said[1]) if said and said.match.lastindex else None)
    yield Finding(
        cause="ipex-torch-mismatch",
        message=f"{both} are of different minor releases; the extension loads with its own alone",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Remove the extension: torch for XPU needs none, and Intel has ended it. Where a program insists on it, "
            "install the torch of the same minor release."
        ),
        commands=(
            "python -m pip uninstall -y intel-extension-for-pytorch",
            *commands.reinstall_torch(case),
            *((f'python -m pip install "torch=={wanted}.*"',) if wanted else ()),
        ),
        sources=(_IPEX,),
        severity=Severity.ERROR,
        likelihood=93 if said else 86 if apart else 78,
    )


def _minor(text: str) -> Dotted | None:
    number = re.match(r"\s*(\d+\.\d+)", text)
    return Dotted(number[1]) if number else None


def _swapped(case: Case) -> bool:
    """Whether another wheel took the place of the XPU one: another cause altogether."""
    return case.torch.flavour == "cpu" or case.hit(r"not compiled with xpu|^\s*-\s*torch==\S+\+xpu") is not None


def xpu_user_not_in_render_group(case: Case) -> Iterator[Finding]:
    """The user may not open the card's render node."""
    if case.in_container or not case.cards("intel") or case.os not in (Os.LINUX, None):
        return
    denied = [path for path in case.machine.devices_denied or () if "renderD" in path]
    said = case.hit(r"/dev/dri/renderD\d+.*(?:permission denied|operation not permitted)")
    groups = case.machine.user_groups
    outside = (
        groups is not None and not {"render", "root"} & set(groups) and _failing(case) and case.has_device(r"/dev/dri/renderD")
    )
    as_root = case.hit(r"\btrue\b", "sudo") or case.hit(
        r"\b(?:sign|log)(?:ged|ging)? in\b.{0,40}\b(?:local|desktop|console|gdm|monitor)|until I (?:sign|log) in"
    )
    if not denied and said is None and not (outside and as_root):
        return
    evidence = [str(hit) for hit in (said, as_root) if hit] + [f"machine.devices_denied: {path}" for path in denied]
    evidence += [f"machine.user_groups: {', '.join(groups) or 'none'}"] if groups is not None else []
    yield Finding(
        cause="xpu-user-not-in-render-group",
        message="this user may not open the render node of the card",
        evidence=tuple(evidence),
        remedy="Add the user to the group of the render nodes and log in again.",
        commands=("sudo usermod -a -G render $LOGNAME", "ls -l /dev/dri"),
        sources=(_START,),
        likelihood=91,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    xpu_compute_runtime_too_old,
    xpu_kernel_driver_missing,
    xpu_kernel_driver_unsupported,
    xpu_npu_level_zero_conflict,
    ipex_torch_mismatch,
    xpu_user_not_in_render_group,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "ipex-torch-mismatch": ("two-torch-installs", "xpu-compute-runtime-too-old"),
    "xpu-kernel-driver-missing": ("xpu-compute-runtime-too-old", "xpu-npu-level-zero-conflict"),
    "xpu-kernel-driver-unsupported": ("xpu-compute-runtime-too-old", "xpu-kernel-driver-missing"),
    "xpu-npu-level-zero-conflict": ("xpu-compute-runtime-too-old",),
    "xpu-user-not-in-render-group": ("xpu-compute-runtime-too-old",),
}
