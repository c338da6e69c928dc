"""Causes that lie between an NVIDIA card and its kernel module: not built, refused, of the wrong kind, or not given the card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.doctor.nvidia import driver_facts, driver_release, is_nvidia, on_linux, works
from envkit.model import Finding, Gpu
from envkit.resolve.plans import source_texts
from envkit.resolve.rules import module_kind
from envkit.resolve.target import card_name, processor

_INSTALL = "NVIDIA driver installation guide: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
_SECURE = "Debian wiki: Secure Boot and MOK: https://wiki.debian.org/SecureBoot"
_NO_ANSWER = (
    r"couldn'?t communicate with the nvidia driver|nvml_error_driver_not_loaded|nvml: driver not loaded|driver not loaded"
)
_NO_DEVICES = (
    r"no devices (?:were )?found|unable to determine the device handle|NVRM: No NVIDIA (?:graphics adapter|GPU|devices probed)"
)
_PACKAGES = (
    r"^(?:nvidia-(?:driver|dkms|open|kernel|headless|current|graphics|gfx)\S*|akmod-nvidia\S*"
    r"|kmod-nvidia\S*|cuda-drivers\S*|nvidia)$|^nvidia-\d|^linux-modules-nvidia|^x11-video-nvidia"
)


def installed(case: Case) -> str:
    """A package of the driver's kernel side that the report lists, with its version; "" for none."""
    found = next(((n, v) for n, v in case.machine.system_packages.items() if re.search(_PACKAGES, n)), None)
    return f"machine.system_packages: {found[0]} {found[1]}" if found else ""


def module_loaded(case: Case) -> bool | None:
    """Whether NVIDIA's module is loaded; None where nothing tells."""
    if case.machine.modules is not None:
        return any(name in ("nvidia", "nvidia_uvm", "nvgpu") for name in case.machine.modules)
    if case.hit(r"^nvidia(?:_\w+)?\s+\d+|NVRM: loading NVIDIA", "lsmod", "dmesg", "journal") or works(case):
        return True
    if case.hit(r"NVRM version", "/proc/driver/nvidia") or any(card.kernel_driver == "nvidia" for card in case.cards("nvidia")):
        return True
    listed = [text for place, text in case.facts.evidence.items() if "lsmod" in place and "nvidia" in place]
    return False if listed and not any("nvidia" in text for text in listed) else None


def _silent(case: Case) -> Hit | None:
    """nvidia-smi finds no driver: some cause of this module holds, whatever else is known."""
    return case.hit(_NO_ANSWER)


# ---- nouveau -----------------------------------------------------------------------------------------------------

_NOUVEAU = (
    r"already bound to (?:nouveau|NovaCore|nova)|nouveau kernel driver is currently in use"
    r"|kernel driver in use:\s*(?:nouveau|nova)"
    r"|driver=nouveau|^(?:nouveau|nova_core)\s+\d+|nvidia probe routine was not called|such as:?\s*(?:NVRM:\s*)?nouveau, rivafb"
    r"|NVRM: nouveau, rivafb|nouveau (?:kernel )?(?:module |driver )?(?:is )?(?:still )?loaded|conflicting .*nouveau"
)


def nouveau_bound(case: Case) -> Iterator[Finding]:
    """The card is in the hands of nouveau or nova, with which nothing computes."""
    said = case.hit(_NOUVEAU)
    cards = case.cards("nvidia")
    bound = [card for card in cards if card.kernel_driver in ("nouveau", "nova_core", "nova")]
    loaded = [name for name in ("nouveau", "nova_core") if name in (case.machine.modules or ())]
    ours = module_loaded(case)
    if not on_linux(case) or case.torch.available or (works(case) and not bound):
        return
    if any(card.kernel_driver == "nvidia" for card in cards) and not bound:
        return
    if not bound and said is None and (not loaded or ours):
        return
    if said and not bound and not loaded and ours and "probe routine" not in said.line and "bound to" not in said.line:
        return
    name = bound[0].kernel_driver if bound else loaded[0] if loaded else "nouveau"
    evidence = [str(said)] if said else []
    evidence += [f"machine.gpu.kernel_driver: {card.kernel_driver} ({card_name(card)})" for card in bound[:2]]
    evidence += [f"machine.modules: {each}" for each in loaded]
    update = {
        "apt": "sudo update-initramfs -u",
        "dnf": "sudo dracut --force",
        "zypper": "sudo dracut --force",
        "pacman": "sudo mkinitcpio -P",
    }
    yield Finding(
        cause="nouveau-bound",
        message=f"{card_name(cards[0]) if cards else 'the card'} is bound to {name}, so NVIDIA's module cannot take it",
        evidence=tuple(evidence),
        remedy=(
            f"Install NVIDIA's driver where it is missing, keep {name} from loading, build the initial ramdisk again and reboot."
        ),
        commands=(
            f"printf 'blacklist {name}\\noptions {name} modeset=0\\n' | sudo tee /etc/modprobe.d/blacklist-{name}.conf",
            *([update[case.package_manager]] if case.package_manager else ()),
            "sudo reboot",
        ),
        sources=(_INSTALL,),
        likelihood=89 if bound or (said and ("bound" in said.line or "in use" in said.line)) else 86,
    )


# ---- the module is missing or refused ----------------------------------------------------------------------------

_NOT_THERE = (
    r"module nvidia[\w-]* not found|could not find module by name\s*=?\s*'?nvidia|could not find module by name\s*=\s*'?nvidia"
    r"|modinfo: error: module nvidia|nvidia\.ko.*no such file|no nvidia modules? (?:were )?found|failed to find module '?nvidia"
)
_NOT_BUILT = (
    r"bad return status for module build|kernel headers for (?:this )?kernel .*(?:cannot be found|do not seem)|"
    r"missing \S+ kernel headers for module|unable to find the kernel source"
    r"|kernel[- ]headers? (?:package )?(?:is |are )?(?:not|missing)"
    r"|build of nvidia\S* failed|error: failed to run `?/usr/sbin/dkms build|module build for kernel \S+ was skipped"
    r"|an error occurred while performing the step: \"?(?:building|checking)|akmods?.*(?:failed|building rpms failed)"
    r"|building dkms module.*failed|dkms.*(?:failed|exited \d+)|could not (?:locate|find) dkms|linux-headers-\S+ (?:is not|not) "
    r"|kernel-devel.*(?:not|missing)|build.*nvidia.*\(bad exit status|make\.log for more information"
    r"|no matching .*kernel-(?:devel|headers)|unable to locate package linux-headers"
    r"|version mismatch.*gcc|compiler .*version .*does not match|gcc version check failed|failed to build (?:the )?nvidia"
)


def module_not_built(case: Case) -> Iterator[Finding]:
    """There is no module for the running kernel."""
    if not on_linux(case) or not is_nvidia(case) or (case.in_container and _silent(case) is None) or case.torch.available:
        return
    missing, built = case.hit(_NOT_THERE), _about_nvidia(case, case.hits(_NOT_BUILT))
    elsewhere = _dkms(case)
    silent, loaded, package = _silent(case), module_loaded(case), installed(case)
    if loaded and not missing:
        return
    if works(case) and not missing:
        return
    facts = loaded is False and bool(package) and not case.machine.secure_boot
    if not (missing or built or elsewhere or silent or facts):
        return
    evidence = [str(hit) for hit in (missing, built, silent) if hit] + ([elsewhere] if elsewhere else [])
    evidence += [package] if package and (facts or not evidence) else []
    evidence += ["machine.modules: nvidia is not among them"] if case.machine.modules is not None and not loaded else []
    kernel = f" {case.machine.kernel}" if case.machine.kernel else ""
    yield Finding(
        cause="nvidia-module-not-built",
        message=f"there is no NVIDIA module for the running kernel{kernel}",
        evidence=tuple(evidence),
        remedy="Install the headers of the running kernel, build the module for it (DKMS or akmods does), and load it or reboot.",
        commands=(*commands.kernel_headers(case), *_build(case), "sudo modprobe nvidia"),
        sources=(_INSTALL,),
        likelihood=90 if missing or elsewhere or built else 62 if facts else 45,
    )


def _build(case: Case) -> Iterator[str]:
    if case.package_manager == "dnf":
        yield "sudo akmods --force"
    else:
        yield "sudo dkms autoinstall"


def _about_nvidia(case: Case, hits: Iterator[Hit]) -> Hit | None:
    """The first of the lines that is not plainly about another driver's module."""
    others = re.compile(r"amdgpu|rtl?\d|r81\d|v4l2|virtualbox|vbox|zfs|wireguard|broadcom|xpad|evdi|i915", re.IGNORECASE)
    texts = case.facts.evidence
    return next(
        (
            hit
            for hit in hits
            if not others.search(hit.line)
            and not (others.search(texts.get(hit.place, "")) and "nvidia" not in texts.get(hit.place, "").lower())
        ),
        None,
    )


def _dkms(case: Case) -> str:
    """A `dkms status` in which the running kernel has no module of NVIDIA's; "" where it has or nothing tells."""
    lines = list(case.hits(r"\bnvidia\S*[/,]\s*\d{3}\.", "dkms"))
    running = case.machine.kernel
    if not lines:
        empty = next(
            (
                place
                for place, text in case.facts.evidence.items()
                if place.strip() in ("dkms status", "sudo dkms status") and not text.strip()
            ),
            "",
        )
        return f"{empty}: (nothing)" if empty and (_silent(case) or installed(case)) else ""
    if any("installed" in hit.line and (not running or running in hit.line) for hit in lines):
        return ""
    only_added = all(re.search(r":\s*(?:added|broken)\b", hit.line) for hit in lines)
    return str(lines[0]) if running or only_added else ""


_REFUSED = (
    r"key was rejected by service|required key not available|unavailable key is rejected|unsigned module loading is restricted"
    r"|pkcs#7 signature not signed with a trusted key|not signed by a key that is trusted"
    r"|secure boot is enabled.*(?:not signed|signed)"
    r"|loading of (?:unsigned )?module.*(?:rejected|is restricted)|module signature .*(?:required"
    r"|rejected)|lockdown:.*(?:module|modprobe|insmod)"
    r"|(?:insmod|modprobe|insert).*nvidia.*operation not permitted|x\.509.*(?:not found|rejected)|kernel is locked down"
)
_SECURE_BOOT = r"secure ?boot\s*(?:is\s*)?[:=]?\s*(?:enabled|on|yes|active|true)\b|sb_state.*enabled"


def secure_boot_unsigned(case: Case) -> Iterator[Finding]:
    """Secure Boot is on, and the kernel refuses a module that nobody whom it trusts has signed."""
    if not on_linux(case) or not is_nvidia(case) or case.in_container or works(case):
        return
    refused = next(
        (
            hit
            for hit in case.hits(_REFUSED)
            if not (named := re.search(r"(?:insert|module|load)\s*[:']+\s*'?([a-z][\w-]+)'", hit.line)) or "nvidia" in named[1]
        ),
        None,
    )
    on = case.machine.secure_boot or case.hit(_SECURE_BOOT) is not None
    if case.machine.secure_boot is False and refused is None:
        return
    silent, loaded = _silent(case), module_loaded(case)
    nouveau = "nouveau" in (case.machine.modules or ())
    facts = on and not loaded and (silent is not None or (loaded is False and bool(installed(case))))
    if loaded or not (refused or facts):
        return
    line = case.hit(_SECURE_BOOT)
    evidence = [str(refused)] if refused else []
    evidence += [str(line)] if line else ["machine.secure_boot: true"] if case.machine.secure_boot else []
    evidence += [str(silent)] if silent else []
    yield Finding(
        cause="nvidia-secure-boot-unsigned",
        message="Secure Boot is on, and the kernel refuses NVIDIA's module: the key that signed it is not enrolled, or none did",
        evidence=tuple(evidence),
        remedy=(
            "Enrol the key that signs the module and confirm it at the next boot, or install the module that the distribution "
            "has signed, or switch Secure Boot off in the firmware setup."
        ),
        commands=tuple(_enrol(case)),
        sources=(_SECURE,),
        likelihood=92 if refused else 55 if nouveau else 74,
    )


def _enrol(case: Case) -> Iterator[str]:
    key = {"dnf": "/etc/pki/akmods/certs/public_key.der", "apt": "/var/lib/shim-signed/mok/MOK.der"}
    if case.package_manager == "apt" and "ubuntu" not in f"{case.machine.os_release} {case.machine.os_id}".lower():
        key["apt"] = "/var/lib/dkms/mok.pub"
    if case.package_manager in key:
        yield f"sudo mokutil --import {key[case.package_manager]}"
        yield "sudo reboot"


# ---- the module is of the wrong kind -----------------------------------------------------------------------------


def _kind(case: Case) -> tuple[str, str]:
    """The kind of the module that is there, and the line that tells it."""
    text = driver_facts(case).license
    if module_kind(text):
        return module_kind(text), f"machine.driver.license: {text}"
    told = case.hit(r"^\s*(?:license:\s*)?(Dual MIT/GPL|NVIDIA)\s*$", "modinfo", "license")
    if told:
        return module_kind(told[1]), str(told)
    if banner := case.hit(r"NVIDIA UNIX (Open )?(?:\S+ )?Kernel Module"):
        return ("open" if banner[1] else "proprietary"), str(banner)
    # Packages of the distributions say it by their name.
    for name in case.machine.system_packages:
        if re.match(
            r"nvidia-driver-\d+(?:-server)?-open$|nvidia-open|nvidia-dkms-\d+(?:-server)?-open|kmod-nvidia-open"
            r"|nvidia-kernel-open",
            name,
        ):
            return "open", f"machine.system_packages: {name}"
    for name in case.machine.system_packages:
        if re.match(r"nvidia-(?:driver|dkms)-\d+(?:-server)?$|nvidia-kernel-dkms$|nvidia-dkms$", name):
            return "proprietary", f"machine.system_packages: {name}"
    return "", ""


def _takes(case: Case, card: Gpu) -> str:
    """The only kind of module that a card works with; "" for either."""
    row = case.matrix.archs.get(card.arch)
    if row is None:
        return ""
    kind = row.own_cpu_module if row.own_cpu_module and processor(card) else row.module
    return kind if kind in ("open", "proprietary") else ""


def open_modules_required(case: Case) -> Iterator[Finding]:
    """Cards from Blackwell on beside the proprietary modules."""
    said = case.hit(
        r"requires? (?:the )?use of the nvidia open|must use the open kernel module"
        r"|requires? the (?:nvidia )?open (?:gpu )?kernel module"
    )
    kind, line = _kind(case)
    yield from _wrong_kind(case, "open", said, line if kind == "proprietary" else "")


def open_modules_unsupported(case: Case) -> Iterator[Finding]:
    """Cards without a GSP, before Turing, beside the open modules."""
    said = case.hit(
        r"not supported by (?:the )?open\b|does not include the required gpu|required GPU System Processor"
        r"|System Processor \(GSP\)"
        r"|open (?:nvidia )?(?:gpu )?(?:kernel )?(?:modules?|driver)s?.*(?:not support|unsupported|only support)"
    )
    kind, line = _kind(case)
    yield from _wrong_kind(case, "proprietary", said, line if kind == "open" else "")


def _wrong_kind(case: Case, wanted: str, said: Hit | None, line: str) -> Iterator[Finding]:
    cards = [card for card in case.cards("nvidia") if _takes(case, card) == wanted]
    if not on_linux(case) or (said is None and (not line or not cards)) or (case.torch.available and said is None):
        return
    if said is None and works(case) and case.hit(_NO_DEVICES) is None:
        return
    card, release = cards[0] if cards else None, driver_release(case)[0]
    row = case.matrix.archs.get(card.arch) if card else None
    name = card_name(card) if card else "this card"
    other = "proprietary" if wanted == "open" else "open"
    evidence = [text for text in (str(said or ""), line, f"machine.gpu: {name}" if card else "") if text]
    evidence += [str(hit)] if (hit := case.hit(_NO_DEVICES)) else []
    why = (
        "works with the open kernel modules alone"
        if wanted == "open"
        else "has no GSP, without which the open kernel modules cannot drive it"
    )
    which = "the same release" if wanted == "open" else "a branch that still drives the card"
    yield Finding(
        cause="nvidia-open-modules-required" if wanted == "open" else "nvidia-open-modules-unsupported",
        message=f"{name} {why}; the {other} ones are installed",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=f"Replace the {other} kernel modules by the {wanted} ones of {which}, and reboot.",
        commands=tuple(_modules_of_kind(case, wanted, _branch(case, card, str(release.major) if release else ""))),
        sources=source_texts(case.matrix.sources, row.sources if row else ("kernel-module", "kernel-module-gsp")),
        likelihood=93 if said else 85,
    )


def _branch(case: Case, card: Gpu | None, branch: str) -> str:
    """The driver's branch to install: the one that is there, or the last that drives the card."""
    named = (re.search(r"^nvidia-(?:driver|dkms)-(\d{3})", name) for name in case.machine.system_packages)
    branch = branch or next((found[1] for found in named if found), "")
    branches = case.matrix.backends["cuda"].branches
    gone = next((each.branch for each in branches if card and card.arch in each.dropped), None)
    if branch and gone is not None and gone <= branch:
        branch = str(max((each.branch for each in branches if each.branch < gone), key=lambda each: each.key))
    return branch


def _modules_of_kind(case: Case, wanted: str, branch: str) -> Iterator[str]:
    ubuntu = any(word in f"{case.machine.os_release} {case.machine.os_id}".lower() for word in ("ubuntu", "mint", "pop"))
    if case.package_manager == "apt" and ubuntu and branch:
        yield f"sudo apt install nvidia-driver-{branch}{'-open' if wanted == 'open' else ''}"
    elif case.package_manager == "apt" and not ubuntu:
        yield f"sudo apt install {'nvidia-open-kernel-dkms' if wanted == 'open' else 'nvidia-kernel-dkms'}"
    elif case.package_manager == "dnf":
        flag = "1" if wanted == "open" else "0"
        yield f"echo '%_with_kmod_nvidia_open {flag}' | sudo tee /etc/rpm/macros-nvidia-kmod && sudo akmods --force --rebuild"
    elif case.package_manager == "pacman" and wanted == "open":
        yield "sudo pacman -S nvidia-open-dkms"
    else:
        return
    yield "sudo reboot"


# ---- the card itself ---------------------------------------------------------------------------------------------

_NO_BAR = (
    r"BAR ?\d.{0,80}(?:can'?t assign|failed to assign|no space)|BAR\d is 0M"
    r"|PCI I/O region assigned to your nvidia device is invalid"
    r"|system bios may have misconfigured your gpu|fatal error while attempting to resize pcie bars|not enough mmio"
    r"|insufficient (?:pci|mmio)|cannot find (?:bar|resource)s?.*nvidia"
)
_SWITCHED = (
    r"(?:above\s*4\s*g\w*(?:\s*decod\w*)?|re-?siz\w*\s*bar\w*(?:\s*support)?|4g decod\w*)\s*[\[:="
    r"|\s-]*(?P<state>disabled?|off|no|enabled?|on|auto|yes)\b"
)
_NO_START = r"rminitadapter failed|rm_init_adapter failed"
_XID = r"NVRM: Xid .*?:\s*(?P<xid>48|61|62|63|64|74|79|92|94|95|140|142|143|149|151|154)\b"
_BROKEN = (
    r"fallen off the bus|gpu is lost|uncorrectable ecc|row remap\w* fail|remapping fail|unknown header type|rev ff\b|"
    r"double[- ]bit ecc|requires rma|infoROM is corrupted|gpu requires reset|pcie bus error: severity=uncorrect.*|"
    r"code 43|unable to change power state from d3cold to d0|gsp.*(?:timeout|lockdown|heartbeat)"
)


def firmware_bar_settings(case: Case) -> Iterator[Finding]:
    """The firmware gives the card no room on the bus: the module is right and cannot start the card."""
    if (case.os is not None and not on_linux(case)) or not is_nvidia(case) or case.torch.available or case.in_container:
        return
    no_bar = case.hit(_NO_BAR)
    switches = list(case.hits(_SWITCHED))
    off = [hit for hit in switches if hit["state"].lower() in ("disabled", "disable", "off", "no")]
    failed, none = case.hit(_NO_START), case.hit(_NO_DEVICES)
    broken = failed or none
    if works(case) and not no_bar and not failed:
        return
    wrong = any(_takes(case, card) not in ("", _kind(case)[0] or _takes(case, card)) for card in case.cards("nvidia"))
    gsp = case.hit(r"not supported by open|nvidia open kernel modules|System Processor \(GSP\)")
    if wrong or gsp or not (no_bar or (off and broken) or (failed and not switches)):
        return
    if failed and not no_bar and not off and (case.hit(_XID) or case.hit(_BROKEN)):
        return
    kind, line = _kind(case)
    yield Finding(
        cause="nvidia-firmware-bar-settings",
        message="the firmware does not give the card its memory windows (BARs), so the loaded module cannot start it",
        evidence=tuple(str(hit) for hit in (no_bar, failed, none if not failed else None, *off) if hit)
        + ((line,) if line else ()),
        remedy=(
            "Switch on Above 4G Decoding and Resizable BAR in the firmware setup (and CSM off), update the firmware, and boot "
            "again; where there is no such switch, try the kernel parameter pci=realloc."
        ),
        sources=("NVIDIA/open-gpu-kernel-modules issue 862: https://github.com/NVIDIA/open-gpu-kernel-modules/issues/862",),
        likelihood=91 if no_bar or off else 66 if kind == "open" else 58,
    )


def hardware_fault(case: Case) -> Iterator[Finding]:
    """Software is right as far as it can be seen, and the card does not answer."""
    if not is_nvidia(case) or case.torch.available or case.wsl:
        return
    xid, said = case.hit(_XID), case.hit(_BROKEN)
    if said and re.search(r"code 43|d3cold", said.line, re.IGNORECASE) and not case.cards("nvidia"):
        said = None
    failed = case.hit(_NO_START)
    none = case.hit(_NO_DEVICES)
    kind, line = _kind(case)
    fits = bool(kind) and all(_takes(case, card) in ("", kind) for card in case.cards("nvidia"))
    loaded = module_loaded(case) and on_linux(case) and not case.in_container
    checked = [hit for hit in case.hits(_SWITCHED) if hit["state"].lower() in ("enabled", "enable", "on", "auto", "yes")]
    gsp = case.hit(r"not supported by open|nvidia open kernel modules|System Processor \(GSP\)|" + _NO_BAR)
    quiet = loaded and fits and (failed or none) and not gsp
    elsewhere = case.hit(
        r"(?:another|different|other) (?:pc|machine|computer|slot|system|box).*(?:same|fail|not|dead|too)"
        r"|swapp?ed (?:the )?card|windows.*(?:code 43|not detect|fails? too)"
    )
    if not (xid or said or quiet or (elsewhere and (failed or none))):
        return
    evidence = [str(hit) for hit in (xid, said, failed, none, elsewhere, *checked[:2]) if hit] + (
        [line] if line and quiet else []
    )
    yield Finding(
        cause="hardware-fault-suspected",
        message="driver and modules look right and the card does not answer: a fault of the card, its power, its "
        "slot or cable is likely",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Switch the machine off, seat the card and its power cables anew, try another slot and another machine, update the "
            "firmware; where the fault stays with the card, have it replaced."
        ),
        sources=("NVIDIA: GPU debug guidelines and Xid errors: https://docs.nvidia.com/deploy/xid-errors/index.html",),
        likelihood=88
        if xid or (said and "d3cold" not in said.line.lower()) or elsewhere
        else 70
        if checked
        else 62
        if none and not failed
        else 50,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    module_not_built,
    secure_boot_unsigned,
    nouveau_bound,
    open_modules_required,
    open_modules_unsupported,
    firmware_bar_settings,
    hardware_fault,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "nvidia-open-modules-required": ("nvidia-firmware-bar-settings", "hardware-fault-suspected", "nvidia-module-not-built"),
    "nvidia-open-modules-unsupported": (
        "nvidia-firmware-bar-settings",
        "hardware-fault-suspected",
        "nvidia-module-not-built",
        "nvidia-driver-dropped-gpu",
    ),
}
