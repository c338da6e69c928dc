"""Causes that lie in AMD's stack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.doctor.index import builds_of, platform_word
from envkit.model import Build, Finding, Gpu, Os, OverrideSetting, Severity
from envkit.resolve.target import card_name, is_integrated

_MATRIX = "ROCm compatibility matrix: https://rocm.docs.amd.com/en/latest/compatibility/compatibility-matrix.html"
_POST = (
    "ROCm, after the installation: groups: "
    "https://rocm.docs.amd.com/projects/install-on-linux/en/latest/install/post-install.html"
)
_ISOLATION = "ROCm, GPU isolation: https://rocm.docs.amd.com/en/latest/conceptual/gpu-isolation.html"
_OVERRIDES = "ROCm/ROCR-Runtime, libhsakmt: HSA_OVERRIDE_GFX_VERSION: https://github.com/ROCm/rocm-systems"
_MULTI = "TheRock: multi-arch packages: https://github.com/ROCm/TheRock/blob/main/RELEASES.md"
_DKMS_BUILD = "ROCm/amdgpu issue #192: https://github.com/ROCm/amdgpu/issues/192"
_DKMS_STALE = "ROCm/legacy-rocm-build issue #3701: https://github.com/ROCm/legacy-rocm-build/issues/3701"
_WSL = "rocm-cli, WSL: https://github.com/ROCm/rocm-cli/blob/main/docs/wsl.md"
_WINDOWS = "ROCm/hip issue #3899: https://github.com/ROCm/hip/issues/3899"

_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"
_VISIBLE = ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL")

# What HIP, its libraries and the programs on them say of code that is not for the card.
_NO_CODE = (
    r"hipErrorNoBinaryForGpu|hipErrorInvalidDeviceFunction|HIP error: invalid device function|invalid device function"
    r"|hipErrorInvalidImage|device kernel image is invalid|hipErrorInvalidKernelFile|hipErrorSharedObjectInitFailed"
    r"|shared object initialization failed|no compatible code objects? found|could not load program|no kernel image is available"
    r"|TensileLibrary\S* ?(?:: ?(?:illegal seek|no such file)|.* for GPU arch)|Cannot read \S*TensileLibrary"
    r"|for GPU arch ?: ?gfx|amdgpu is not supported|HIP error: (?:98|200|209|301|303)\b|unsupported (?:gfx|gpu) arch\w* gfx"
)
_CRASH = (
    r"segmentation fault|SIGSEGV|core dumped|exit (?:code |status )?(?:139|134|-11|-1073741819)\b|0xC0000005|access violation"
    r"|Memory access fault by GPU|page fault|hsa_init|HSA_STATUS_ERROR|aborted|SIGABRT|illegal instruction|GPU hang"
    r"|free\(\): invalid"
)
_NO_DEVICE = (
    r"no ROCm-capable device is detected|hipErrorNoDevice|HIP error: 100\b|HIP API error = 0?100\b|no HIP GPUs are available"
    r"|No CUDA GPUs are available|error 100\b|failed to get device count"
)
_ABOUT_AMD = r"\brocm|\bhip(?:\b|blas|info|cc|error|sdk)|amdgpu|\bkfd\b|\bgfx\d|radeon|\bROCk\b|instinct"


def _amd(case: Case) -> bool:
    """Whether the report is about an AMD card, or about software that is only for those."""
    if case.cards("amd"):
        return True
    return not case.gpus and (case.torch.flavour == "rocm" or case.hit(_ABOUT_AMD) is not None)


def _asked(case: Case, pattern: str) -> bool:
    return re.search(pattern, case.request, re.IGNORECASE) is not None


def _cards(case: Case) -> tuple[Gpu, ...]:
    """AMD's cards: those of the facts, or else those that a tool named by their architecture."""
    told = tuple(card for card in case.cards("amd") if card.arch)
    if told or case.cards("amd"):
        return told
    named = dict.fromkeys(
        hit[1].lower()
        for hit in case.hits(
            r"(?:^\s*name:\s+|gpu arch ?: ?|gcnArchName:? ?|gpu_type[= ]|amdgcn-amd-amdhsa--"
            r"|\bfor:? )(gfx[0-9a-f]{3,4})\b(?!-generic)"
        )
    )
    return tuple(Gpu(arch=arch, vendor="amd") for arch in named)


# ---- code and cards ----------------------------------------------------------------------------------------------


def _codes(case: Case, arch: str) -> tuple[tuple[str, ...], str, bool]:
    """The code that the torch holds, where that was read, and whether the card's may be in it all the same."""
    if case.torch.archs:
        return tuple(each for each in case.torch.archs if each.startswith("gfx")), "torch.arch_list", False
    told = case.hit(r"^\s*\[?'?(gfx\w+(?:[';, ]+gfx\w+)+)'?\]?\s*$", "arch_list", "targets", "arch list", "roc-obj")
    if told:
        return tuple(re.findall(r"gfx[0-9a-f]{3,4}", told[1])), told.place, False
    if family := _family(case):
        return (*family,), "python.packages", False
    found = [build for build in _builds(case) if build.archs is not None or build.maybe_archs]
    known = {each for build in found for each in build.archs or ()}
    maybe = any(arch in build.maybe_archs for build in found)
    where = f"torch {case.torch.version or found[0].release}" if found else ""
    return tuple(sorted(known, key=_gfx_order)), where, maybe


def _builds(case: Case) -> list[Build]:
    torch = case.torch
    if torch.flavour not in ("rocm", "") or not (torch.tag.startswith("rocm") or torch.hip):
        return []
    tag = torch.tag
    if not tag and (numbers := re.match(r"\d+\.\d+", torch.hip)):
        tag = f"rocm{numbers[0]}"
    return builds_of(case, torch.version, tag, platform_word(case))


# The packages of one family of cards: rocm-sdk-libraries-gfx110X-all.
_OF_FAMILY = re.compile(r"rocm-sdk-libraries-(gfx[0-9a-f]+x?)(?:-(?:all|dgpu|dcgpu|igpu))?$")


def _family(case: Case) -> tuple[str, ...]:
    """The architectures of the family that a build of TheRock is for; () where none is named."""
    words = [found[1] for name in case.packages if (found := _OF_FAMILY.match(name))]
    if not words:
        return ()
    known = [name for name, row in case.matrix.archs.items() if row.vendor == "amd"]
    return tuple(name for name in known for word in words if name == word or (word.endswith("x") and name[:-1] == word[:-1]))


def _gfx_order(arch: str) -> tuple[int, str]:
    return len(arch), arch


def _acting(case: Case, card: Gpu) -> str:
    """The architecture that the runtime takes a card for, a setting included."""
    value = case.variable(_OVERRIDE) or ""
    found = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", value.strip().strip("\"'"))
    if not found or case.os is Os.WINDOWS:
        return card.arch
    return f"gfx{int(found[1])}{int(found[2]):x}{int(found[3]):x}"


def _setting(case: Case, arch: str, codes: tuple[str, ...]) -> OverrideSetting | None:
    os = Os.LINUX if case.os in (None, Os.WSL2) else case.os
    for row in case.matrix.backends["rocm"].overrides:
        if row.arch == arch and row.acts_as in codes and os in row.os:
            return row
    return None


def _missing(case: Case, card: Gpu) -> tuple[tuple[str, ...], str, bool] | None:
    """The code that is there where that of a card is not; None where it is, or where nothing is known."""
    codes, where, maybe = _codes(case, card.arch)
    if not codes or not card.arch or _acting(case, card) in codes or any(_is_generic(each, card.arch) for each in codes):
        return None
    return codes, where, maybe


def _is_generic(code: str, arch: str) -> bool:
    return code.endswith("-generic") and arch[3:].startswith(code[3:].split("-")[0])


def rocm_gfx_not_in_wheel(case: Case) -> Iterator[Finding]:
    """The build holds no code for the card; a setting may make it run a neighbour's."""
    if not _amd(case) or case.torch.flavour in ("cpu", "cuda", "xpu"):
        return
    said = case.hit(_NO_CODE)
    crash = case.hit(_CRASH)
    cards = _cards(case)
    inside = [card for card in cards if is_integrated(card)]
    for card in cards:
        if card in inside and len(inside) < len(cards):
            continue  # another cause: that it is used at all
        missing = _missing(case, card)
        if missing is None or (missing[2] and said is None) or _is_multi(case):
            continue
        codes, where, _ = missing
        failing = said or crash or case.torch.available is False or case.torch.available is None
        yield _no_code(case, card, codes, where, [hit for hit in (said, crash) if hit], 88 if said else 84 if failing else 76)
        return
    named = case.hit(r"(?:gpu arch ?: ?|code objects? found for:? ?|gpu_type[= ])(gfx[0-9a-f]{3,4})")
    held = tuple(
        dict.fromkeys(
            found
            for hit in case.hits(r"TensileLibrary\w*gfx|supported types|^\s*\[?'?gfx\w+")
            for found in re.findall(r"gfx[0-9a-f]{3,4}", hit.line)
        )
    )
    if named is not None and named[1].lower() in _codes(case, named[1].lower())[0]:
        return  # torch holds it and a library of the same wheel does not: that is the wheel's defect
    if said is not None and named is not None and (not held or named[1] not in held):
        card = next((each for each in cards if each.arch == named[1]), Gpu(arch=named[1].lower(), vendor="amd"))
        yield _no_code(case, card, held, named.place, [said, named], 82)
    elif said is not None and not _codes(case, cards[0].arch if cards else "")[0] and not _is_multi(case):
        card = cards[0] if cards else next(iter(case.cards("amd")), Gpu(vendor="amd"))
        yield _no_code(case, card, held, said.place, [said], 62)


def _no_code(case: Case, card: Gpu, codes: tuple[str, ...], where: str, hits: list[Hit], likelihood: int) -> Finding:
    row = _setting(case, card.arch, codes or ("gfx1030", "gfx1100"))
    held = f"for {', '.join(codes)}, none" if codes else "none"
    evidence = [str(hit) for hit in hits]
    evidence += [f"{where}: {', '.join(codes)}"] if codes and where else []
    evidence += [f"machine.gpu: {card_name(card)}"] if card.arch or card.name else []
    fitting = case.plan is not None and case.plan.backend_name == "rocm"
    plan = tuple(commands.reinstall_torch(case)) if fitting else ()
    if row is not None:
        words = " and ".join(f"{name}={value}" for name, value in sorted(row.env.items()))
        remedy = (
            f"Install a build that holds code for {card.arch}, or run the code of {row.acts_as} with {words} exported "
            f"({row.note})."
        )
        lines = plan + tuple(commands.export(case, name, value) for name, value in sorted(row.env.items()))
    else:
        note = case.matrix.archs[card.arch].note if card.arch in case.matrix.archs else ""
        known = f" ({note})" if note else ""
        remedy = f"Install a build that holds code for {card.arch or 'this card'}; there is no setting that replaces it{known}."
        lines = plan
    return Finding(
        cause="rocm-gfx-not-in-wheel",
        message=f"the build holds code {held} for {card_name(card)}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=remedy,
        commands=lines,
        sources=(_MATRIX, *((_OVERRIDES,) if row else ())),
        likelihood=likelihood,
    )


def hsa_override_not_exported(case: Case) -> Iterator[Finding]:
    """The setting is made in the shell but does not reach the process, or is written so that the runtime refuses it."""
    value, env = case.variable(_OVERRIDE), case.facts.env.get(_OVERRIDE)
    assigned = case.hit(rf"^\s*(?:\$\s*|#\s*)?(?!export|env\b|setx?\b){_OVERRIDE}=[\"']?\d[\d.]*[\"']?\s*(?:$|;|&&|#)") or next(
        _assigned(case), None
    )
    shown = case.hit(
        rf"^\s*(?:{_OVERRIDE}=)?\d+\.\d+\.\d+\s*$", f"echo ${_OVERRIDE}", f"echo ${{{_OVERRIDE}", "set | grep", "declare -p"
    )
    unseen = any(
        not text.strip() or re.fullmatch(r"\s*(?:None|KeyError.*|not set|unset|\(nothing\)|<empty>|1)\s*", text)
        for place, text in case.facts.evidence.items()
        if re.search(rf"(?:printenv|env \||env\||os\.environ|getenv|/environ|systemctl show|export -p).*{_OVERRIDE[:12]}", place)
    )
    declared = case.hit(rf"declare -- {_OVERRIDE}=")
    in_service = case.hit(rf"{_OVERRIDE}:(?=\s|\])") if case.hit(r"server config env|map\[") else None
    said = case.hit(
        rf"{_OVERRIDE}.*(?:not exported|without export|forgot(?:ten)? (?:to )?export|has no effect|not passed|remains empty)"
    )
    exported = case.hit(rf"export\s+{_OVERRIDE}\b|^\s*Environment=.*{_OVERRIDE}|\benv\s+{_OVERRIDE}=|declare -x {_OVERRIDE}")
    proofs = [hit for hit in (declared, in_service, said) if hit]
    if (assigned and not exported and env is None) or (shown and unseen):
        proofs += [hit for hit in (assigned, shown) if isinstance(hit, Hit)]
    if (not proofs and not (assigned and not exported and env is None)) or (exported and not in_service and not said):
        return
    if value is not None and env is not None and not unseen:
        return
    evidence = [str(hit) for hit in proofs] + ([assigned] if isinstance(assigned, str) and not exported else [])
    evidence += [f"{place}: empty" for place, text in case.facts.evidence.items() if _OVERRIDE in place and not text.strip()]
    wanted = re.search(rf"{_OVERRIDE}=[\"']?(\d+\.\d+\.\d+)", "\n".join((*evidence, case.request)))
    number = wanted[1] if wanted else shown.line.strip().rpartition("=")[2] if shown else "10.3.0"
    service = in_service is not None or case.hit(r"\bsystemd|\.service\b|systemctl") is not None
    yield Finding(
        cause="hsa-override-not-exported",
        message=f"{_OVERRIDE} is set in the shell and does not reach the process that fails",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy="Export the variable before the program starts"
        + (
            ", or put it into the service: Environment= in an override of its unit."
            if service
            else ", in the same shell or for all of them."
        ),
        commands=(f"export {_OVERRIDE}={number}",),
        sources=(_OVERRIDES,),
        likelihood=90,
    )


def _assigned(case: Case) -> Iterator[str]:
    """An assignment on a line of its own in what was typed: a shell keeps that to itself."""
    for line in case.request.splitlines():
        for part in re.split(r";|&&", line):
            if re.fullmatch(rf"\s*{_OVERRIDE}=[\"']?[\d.]+[\"']?\s*", part):
                yield f"request: {line.strip()}"


def hsa_override_malformed(case: Case) -> Iterator[Finding]:
    """The setting is written so that the runtime rejects it."""
    value = case.variable(_OVERRIDE)
    if not value or not value.strip() or re.fullmatch(r"\d+\.\d+\.\d+", value.strip()):
        return
    yield Finding(
        cause="hsa-override-malformed",
        message=f"{_OVERRIDE} is {value!r}; the runtime reads three numbers with dots and rejects all else",
        evidence=(f"env.{_OVERRIDE}: {value}",),
        remedy="Write it as major.minor.stepping without quotes: 10.3.0 for gfx1030, 11.0.0 for gfx1100; or take it away.",
        commands=(commands.unset(case, _OVERRIDE),),
        sources=(_OVERRIDES,),
        likelihood=86,
    )


def rocm_igpu_selected(case: Case) -> Iterator[Finding]:
    """The graphics part of the processor is device 0, or is used beside the card."""
    if case.torch.flavour in ("cpu", "cuda", "xpu"):
        return
    if any((case.variable(name) or "").strip() for name in _VISIBLE):
        return
    cards, from_tool = _ordered(case)
    inside = [card for card in cards if _inside(card)]
    outside = [card for card in cards if card not in inside]
    named = case.torch.device_names
    first_inside = bool(named) and len(named) > 1 and any(_same_card(named[0], card) for card in inside)
    if not named:
        first_inside = bool(cards) and cards[0] in inside and (from_tool or bool(inside and outside))
    said = (
        case.hit(_NO_CODE)
        or case.hit(_CRASH)
        or case.hit(r"out of memory|GPU hang|hangs?\b|freez|No HIP GPUs|wrong (?:gpu|device)|igpu")
    )
    told = case.hit(
        r"(?:i-?gpu|integrated (?:gpu|graphics)).*(?:device|cuda:|gpu) ?#?0"
        r"|(?:device|cuda:|gpu|device_name\()[ #]*0\b.*(?:i-?gpu|integrated|radeon\(tm\) graphics)"
    )
    if not inside or not outside:
        if told is None or not _amd(case):
            return
        outside, inside = outside or [Gpu(vendor="amd")], inside or [Gpu(name="the integrated GPU", vendor="amd")]
    elif said is None and not (first_inside and named) and told is None:
        return
    card = outside[0]
    if _missing(case, card) is not None and not told:
        return  # with the integrated GPU hidden it would fail all the same
    number = str(next((index for index, each in enumerate(cards) if each is card), 1)) if cards else "1"
    if named:
        number = str(next((index for index, name in enumerate(named) if _same_card(name, card)), int(number)))
    likelihood = 89 if (first_inside and said) or told else 80 if first_inside else 74
    variable = "HIP_VISIBLE_DEVICES" if case.os is Os.WINDOWS else "ROCR_VISIBLE_DEVICES"
    evidence = [str(hit) for hit in (told, said) if hit]
    evidence += [f"torch.device_names: {', '.join(named)}"] if named else []
    evidence += [f"machine.gpu: {card_name(each)}" for each in cards[:3]]
    yield Finding(
        cause="rocm-igpu-selected",
        message=f"the integrated GPU {card_name(inside[0])} is used beside {card_name(card)}, or in its place",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            f"Hide the integrated GPU: {variable}={number} leaves the card alone to the process; or switch it off in "
            "the firmware, or install a build with code for both."
        ),
        commands=(commands.export(case, variable, number),),
        sources=(_ISOLATION, "ROCm/TheRock issue #3392: https://github.com/ROCm/TheRock/issues/3392"),
        severity=Severity.ERROR if said or not case.torch.available else Severity.WARNING,
        likelihood=likelihood,
    )


def _ordered(case: Case) -> tuple[tuple[Gpu, ...], bool]:
    """AMD's cards in the machine's order, and whether a tool of ROCm told it."""
    cards = case.cards("amd") or _cards(case)
    agents = [hit[1].lower() for hit in case.hits(r"^\s*(?:Name:\s+|gcnArchName:?\s+|GPU\[?\d\]?.*)(gfx[0-9a-f]{3,4})\b")]
    agents = [arch for number, arch in enumerate(agents) if arch not in agents[:number]]
    if len(agents) > 1 and {card.arch for card in cards if card.arch} <= set(agents):
        by_arch = {card.arch: card for card in cards}
        return tuple(by_arch.get(arch, Gpu(arch=arch, vendor="amd")) for arch in agents), True
    return cards, False


def _inside(card: Gpu) -> bool:
    """Whether it is the graphics part of a processor; drivers call that by no more than this name."""
    return is_integrated(card) or (
        not card.arch
        and re.fullmatch(r"(?:AMD )?(?:ATI )?Radeon(?:\(TM\))?(?: \d{3}M| Vega \d+)? Graphics", card.name, re.IGNORECASE)
        is not None
    )


def _same_card(name: str, card: Gpu) -> bool:
    def plain(text: str) -> str:
        return re.sub(r"\(tm\)|\(r\)|amd|\s+", "", text.lower())

    if card.arch and card.arch in name.lower():
        return True
    if plain(name) in ("radeongraphics", "graphics"):
        return _inside(card)
    return bool(name) and plain(name) == plain(card.name)


# ---- the kernel --------------------------------------------------------------------------------------------------


def rocm_gpu_unsupported_by_kfd(case: Case) -> Iterator[Finding]:
    """The kernel's compute driver does not take the card, or not in this slot."""
    said = case.hit(r"not supported (?:in|by) kfd|kfd not supported on this ASIC|kfd.*skipped device|PCI ?rejects atomics")
    radeon = [card for card in case.cards("amd") if card.kernel_driver == "radeon"]
    memory = case.hit(r"Unable to open /dev/kfd read-write: (?:Cannot allocate memory|Invalid argument)")
    if said is None and not radeon and memory is None:
        return
    if case.in_container and said is None:
        return
    atomics = said is not None and "atomics" in said.line.lower()
    card = radeon[0] if radeon else next(iter(case.cards("amd")), Gpu(vendor="amd"))
    evidence = [str(hit) for hit in (said, memory) if hit] + [f"machine.gpu: {card_name(each)}: radeon" for each in radeon[:1]]
    likelihood = 92 if said else 84 if radeon else 58
    what = (
        "the slot does not pass PCIe atomics, which this card needs to compute"
        if atomics
        else "the kernel's compute driver (kfd) does not take the card"
    )
    yield Finding(
        cause="rocm-gpu-unsupported-by-kfd",
        message=f"{what}: {card_name(card)}",
        evidence=tuple(evidence),
        remedy=(
            "Put the card into a slot of the processor itself on a machine whose processor and board pass PCIe atomics, "
            "or use a newer card."
            if atomics
            else (
                "ROCm cannot use this card, whatever else is installed: use a newer card, or Vulkan, OpenCL of Mesa or the "
                "CPU with it."
            )
        ),
        commands=("sudo dmesg | grep -i kfd",),
        sources=("ROCm/legacy-rocm-build issue #2232: https://github.com/ROCm/legacy-rocm-build/issues/2232", _MATRIX),
        likelihood=likelihood,
    )


def rocm_user_not_in_render_group(case: Case) -> Iterator[Finding]:
    """The user may not open the compute device."""
    if case.in_container or case.os in (Os.WINDOWS, Os.MACOS):
        return
    said = case.hit(
        r"/dev/kfd\S*(?: read-write)?[\"':]*[: ].*(?:permission denied|operation not permitted|zugriff verweigert|权限不够"
        r"|permiso denegado|permission non accord|отказано)"
    ) or case.hit(
        r"(?:permission denied|not permitted|PermissionError).*/dev/kfd"
        r"|is not (?:a )?member of [\"']?(?:render|video)[\"']? group|not in (?:the )?[\"']?(?:render|video)[\"']? group"
    )
    render = case.hit(r"/dev/dri/renderD\d+.*(?:permission denied|operation not permitted)") if _amd(case) else None
    denied = [path for path in case.machine.devices_denied or () if "kfd" in path]
    groups = case.machine.user_groups
    owner = case.hit(r"^crw-?r?w?.{3,6}\s+\d+\s+root\s+(\w+)\s.*(?:/dev/kfd|\bkfd)")
    open_to_all = case.hit(r"^crw-rw-rw-.*kfd")
    group = owner[1] if owner else "render"
    outside = (
        groups is not None and not ({group, "root"} & set(groups)) and (group != "render" or "video" not in groups or bool(owner))
    )
    works_as_root = case.hit(r"\bTrue\b|gfx\d{3}|Agent 2", "sudo") is not None
    no_device = case.hit(_NO_DEVICE) or case.hit(r"^\s*false\s*$", "is_available")
    failing = case.torch.available is False or no_device is not None
    by_facts = outside and failing and _amd(case) and case.has_device(r"/dev/kfd") is not False and not open_to_all
    if case.torch.flavour in ("cpu", "cuda", "xpu") and not (said or denied):
        return
    if said is None and render is None and not denied and not by_facts:
        return
    evidence = [str(hit) for hit in (said, render, owner) if hit] + [f"machine.devices_denied: {path}" for path in denied]
    evidence += [f"machine.user_groups: {', '.join(groups) or 'none'}"] if groups is not None else []
    evidence += [str(no_device)] if no_device and not said else []
    relogin = " The groups of this session are older than the change: log in anew." if groups and group in groups else ""
    names = "render,video" if group == "render" else f"{group},render"
    yield Finding(
        cause="rocm-user-not-in-render-group",
        message=f"this user may not open /dev/kfd, which belongs to the group {group}",
        evidence=tuple(dict.fromkeys(evidence)) or ("/dev/kfd: denied",),
        remedy=f"Add the user to the groups of the device nodes and log in again (or restart the service).{relogin}",
        commands=(f"sudo usermod -a -G {names} $LOGNAME", "ls -l /dev/kfd /dev/dri/renderD*"),
        sources=(_POST,),
        likelihood=91 if said or denied else 84 if render or works_as_root else 80,
    )


_DKMS_FAILS = (
    r"amdgpu-dkms\b.{0,160}(?:--configure|returned error|exit status|error code|код\w* ошибки|fehler|scriptlet|%post)"
    r"|failed for amdgpu\b|bad return status for module build on kernel|amdgpu.*(?:bad exit status|build failed|failed to build)"
    r"|dkms:? .{0,80}amdgpu.{0,80}(?:fail|error)|amdgpu.{0,80}dkms.{0,80}(?:fail|error)|Error! .*amdgpu"
    r"|could not insert '?amdgpu'?: (?:unknown symbol|invalid argument|exec format|invalid module)"
    r"|amdgpu: (?:disagrees about version|Unknown symbol)"
    r"|BUILD_EXCLUSIVE directive which does not match this kernel|/tmp/amd\.\w+/.*error:|amdgpu-dkms.*(?:неправильн|не удалось)"
)


def rocm_kernel_unsupported(case: Case) -> Iterator[Finding]:
    """AMD's packaged kernel driver does not build for the running kernel."""
    said = case.hit(_DKMS_FAILS)
    if said is None or not re.search(r"amdgpu|rock-dkms|/amd\.", _all_text(case), re.IGNORECASE):
        return
    if case.hit(r"/var/lib/dkms/(?!amdgpu)[a-z]") and not case.hit(r"/var/lib/dkms/amdgpu|amdgpu-dkms|dkms.*amdgpu|for amdgpu"):
        return
    headers = case.hit(
        r"kernel headers (?:for|package).*(?:cannot be found|not installed|missing)|linux-headers.*(?:unable to locate|not found)"
    )
    if headers is not None:
        yield Finding(
            cause="rocm-kernel-headers-missing",
            message="the headers of the running kernel are missing, so AMD's kernel driver cannot be built",
            evidence=(str(headers), str(said)),
            remedy="Install the headers of the running kernel and configure the package again.",
            commands=(
                *commands.kernel_headers(case),
                "sudo dpkg --configure -a" if case.package_manager == "apt" else "sudo dkms autoinstall",
            ),
            sources=(_DKMS_BUILD,),
            likelihood=93,
        )
        return
    kernel = case.hit(r"kernel:? (\d+\.\d+\S*)|for (\d+\.\d+\.\d+-\S+)")
    running = case.machine.kernel or (kernel[1] or kernel[2] if kernel else "")
    inside = case.has_module("amdgpu") or case.hit(r"kernel/drivers/gpu/drm/amd/amdgpu")
    gone = (
        "sudo apt autoremove amdgpu-dkms dkms"
        if case.package_manager in ("apt", "")
        else f"sudo {case.package_manager} remove amdgpu-dkms"
    )
    evidence = (
        [str(said)]
        + ([str(kernel)] if kernel else [])
        + ([f"machine.kernel: {case.machine.kernel}"] if case.machine.kernel else [])
    )
    evidence += [f"machine.os_release: {case.machine.os_release}"] if case.machine.os_release else []
    yield Finding(
        cause="rocm-kernel-unsupported",
        message=f"AMD's packaged amdgpu driver does not build for kernel {running or 'of this system'}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Remove the half-installed driver package and install ROCm without it"
            + ("; the amdgpu driver of the kernel serves the card" if inside else ": the kernel has an amdgpu driver of its own")
            + ". Or boot a kernel that AMD lists for this release."
        ),
        commands=(gone, "sudo amdgpu-install -y --usecase=rocm --no-dkms"),
        sources=(_DKMS_BUILD, _MATRIX),
        likelihood=88,
    )


def _all_text(case: Case) -> str:
    return "\n".join((case.request, *case.facts.evidence, *case.facts.evidence.values(), *case.machine.system_packages))


def rocm_dkms_stale(case: Case) -> Iterator[Finding]:
    """A folder of an older driver is left over in DKMS's tree."""
    said = case.hit(
        r"/var/lib/dkms/(?:amdgpu|rock-dkms|rock)\S*/dkms\.conf does not exist|amdgpu.*dkms\.conf.*(?:does not exist"
        r"|not found|missing)"
    )
    plain = case.hit(
        r"could not (?:locate|find) dkms\.conf|dkms\.conf does not exist|Missing the module or (?:the )?module.version"
    )
    other = case.hit(r"/var/lib/dkms/(?!amdgpu|rock)[a-z0-9]\S*/dkms\.conf")
    if said is None and (
        plain is None or other is not None or not re.search(r"amdgpu|rock-dkms|rocm", _all_text(case), re.IGNORECASE)
    ):
        return
    line = said.line if said else plain.line if plain else ""
    folder = re.search(r"/var/lib/dkms/(?:amdgpu|rock)[^/\s]*/[^/\s]+", line) or re.search(
        r"/var/lib/dkms/(?:amdgpu|rock)[^/\s]*/[^/\s]+(?=/source)", _all_text(case)
    )
    path = folder[0] if folder else "/var/lib/dkms/amdgpu/<old version>"
    yield Finding(
        cause="rocm-dkms-stale",
        message=f"DKMS has a left-over folder without its source: {path}",
        evidence=tuple(dict.fromkeys(str(each) for each in (plain, said) if each)),
        remedy="Take the left-over folder away, then install or configure the driver package again.",
        commands=("ls -l /var/lib/dkms/amdgpu", f"sudo rm -r {path}", "sudo dkms status"),
        sources=(_DKMS_STALE,),
        likelihood=93 if said else 86,
    )


# ---- Windows and WSL ---------------------------------------------------------------------------------------------


def rocm_container_on_windows(case: Case) -> Iterator[Finding]:
    """A container or program that needs /dev/kfd, on Windows or inside WSL, where there is none."""
    said = case.hit(
        r"/dev/kfd.*(?:no such file|not found|does not exist|cannot find)|error gathering device information.*/dev/kfd"
        r"|ROCk module is NOT loaded|stat /dev/kfd|(?:add|device) .*?/dev/kfd.*(?:fail|error)"
    )
    windows = case.os in (Os.WINDOWS, Os.WSL2) or "microsoft" in case.machine.kernel.lower()
    desktop = case.hit(
        r"microsoft-standard|WSL2|docker desktop|desktop-linux|PS C:\\|^C:\\|Windows 1[01]\b|wsl --|/run/desktop/mnt"
    )
    requested = _asked(case, r"[A-Z]:\\|\bwsl\b|powershell")
    here = windows or ((desktop is not None or requested) and case.os in (None, Os.LINUX))
    asks = _asked(case, r"--device[= ]/dev/kfd|rocm/|:rocm|-rocm") or case.in_container
    no_kfd = case.has_device(r"/dev/kfd") is False or case.has_module("amdgpu") is False
    by_facts = windows and asks and _amd(case) and case.torch.available is False and (no_kfd or case.os is Os.WINDOWS)
    if not here or (said is None and not by_facts) or (case.os is Os.WINDOWS and not asks and said is None):
        return
    evidence = [str(hit) for hit in (said, desktop) if hit]
    evidence += [f"machine.kernel: {case.machine.kernel}"] if case.machine.kernel else []
    evidence += [f"machine.os: {case.machine.os}{' (WSL)' if case.wsl else ''}"] if case.machine.os else []
    yield Finding(
        cause="rocm-container-on-windows",
        message="the program wants /dev/kfd, which the kernel of WSL and Docker Desktop does not have: it has no amdgpu driver",
        evidence=tuple(evidence) or ("/dev/kfd: not there",),
        remedy=(
            "Use what reaches the card there: ROCm inside WSL through /dev/dxg (AMD's librocdxg, on the cards that AMD "
            "lists for it), the "
            "ROCm or DirectML wheels on Windows itself, or a Linux installed on the machine for ROCm containers."
        ),
        commands=("docker run --device=/dev/dxg -v /usr/lib/wsl:/usr/lib/wsl rocm/pytorch",)
        if (asks and not windows) or case.wsl
        else (),
        sources=(_WSL, "ROCm/AMDMIGraphX issue #3834: https://github.com/ROCm/AMDMIGraphX/issues/3834"),
        likelihood=93 if said else 80,
    )


def rocm_windows_runtime_regression(case: Case) -> Iterator[Finding]:
    """A release of the HIP runtime or the driver for Windows no longer lists the card."""
    if case.os not in (Os.WINDOWS, None) or not _amd(case):
        return
    said = case.hit(
        r"no ROCm-capable device is detected|hipErrorNoDevice|HIP error: 100\b|HIP API error = 0?100\b|err(?:or)?[ =:]*100\b"
        r"|failed to get device count|not being enumerated|count[ =]0\b"
    ) or (case.hit(r"no HIP GPUs are available") if case.os is Os.WINDOWS else None)
    on_windows = case.os is Os.WINDOWS or case.hit(r"amdhip64|hipinfo\.exe|[A-Z]:\\|adrenalin|windows") is not None
    if said is None or not on_windows:
        return
    other = _works_elsewhere(case)
    if case.hit(r"nvidia") and not case.cards("amd"):
        return
    yield Finding(
        cause="rocm-windows-runtime-regression",
        message="the HIP runtime of this release for Windows finds no device, though Windows drives the card",
        evidence=tuple(dict.fromkeys(str(hit) for hit in (said, other) if hit))
        + tuple(f"machine.gpu: {card_name(card)}" for card in case.cards("amd")[:1]),
        remedy=(
            "Take another release of the HIP runtime or ROCm wheels, or the Adrenalin driver of before or after; one "
            "copy of amdhip64 on PATH only. Report the card and both releases."
        ),
        commands=("where amdhip64_7.dll", "hipInfo.exe"),
        sources=(_WINDOWS, "ROCm/legacy-rocm-build issue #5871: https://github.com/ROCm/legacy-rocm-build/issues/5871"),
        likelihood=89 if other else 66,
    )


# ---- packages ----------------------------------------------------------------------------------------------------


def _is_multi(case: Case) -> bool:
    """Whether the torch is of those whose code for each card lies in a package of its own."""
    if _family(case):
        return False
    if any("{arch}" in build.extras for build in _builds(case)):
        return True
    if any(re.match(r"(?:amd-torch|rocm-sdk)-device-gfx", name) for name in case.packages):
        return True
    return _asked(case, r"whl-multi-arch|whl-next|device-gfx") or case.hit(r"whl-multi-arch|whl-next") is not None


def rocm_device_package_missing(case: Case) -> Iterator[Finding]:
    """torch and its libraries are there, the package with the card's code is not."""
    if not _amd(case) or not _is_multi(case) or case.torch.flavour in ("cpu", "cuda", "xpu"):
        return
    said = case.hit(_NO_CODE)
    listed = any(re.match(r"(?:rocm$|rocm-sdk|amd-torch)", name) for name in case.packages)
    cards = [card for card in _cards(case) if card.arch and not (is_integrated(card) and len(_cards(case)) > 1)]
    lacking = case.hit(
        r"(?:amd-torch|rocm-sdk)-device-gfx\w*.*(?:not (?:found|installed)|missing)|no .*-device-.* package"
        r"|does not provide the extra '?device[-_]gfx"
    )
    asked_extra = _asked(case, r"device-(?:gfx\w+|all)")
    for card in cards:
        wanted = [f"amd-torch-device-{card.arch}", f"rocm-sdk-device-{card.arch}"]
        if all(name in case.packages for name in wanted) or "amd-torch-device-all" in case.packages:
            continue
        absent = [name for name in wanted if name not in case.packages]
        if not said and not lacking and not (listed and (case.torch.available is not True or len(absent) > 1)):
            continue
        if not listed and not lacking and (asked_extra or not said):
            continue
        others = [name for name in case.packages if "-device-gfx" in name]
        evidence = [str(hit) for hit in (said, lacking) if hit]
        evidence += [f"torch.version: {case.torch.version}"] if case.torch.version else []
        evidence += [f"python.packages: {', '.join(others) or 'no package for any card'}"] if listed else []
        evidence += [f"machine.gpu: {card_name(card)}"]
        yield _no_package(case, card.arch, evidence, 92 if listed and said else 84 if said or lacking else 81)
        return
    if not cards and (lacking or (said and not asked_extra and not any("-device-gfx" in name for name in case.packages))):
        hits = [hit for hit in (said, lacking) if hit]
        named = re.search(r"gfx[0-9a-f]{3,4}", " ".join(hit.line for hit in hits))
        yield _no_package(case, named[0] if named else "gfx<number>", [str(hit) for hit in hits], 80)


def _no_package(case: Case, arch: str, evidence: list[str], likelihood: int) -> Finding:
    index = next((build.index for build in _builds(case) if build.index and "{arch}" in build.extras), None)
    pin = f"=={case.torch.version}" if case.torch.version else ""
    where = f" --index-url {index}" if index else ""
    return Finding(
        cause="rocm-device-package-missing",
        message=(
            f"torch {case.torch.version or 'of this kind'} keeps the code for each card in a package of its own; that for "
            f"{arch} is not installed"
        ),
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=f"Install torch with the extra of the card, torch[device-{arch}], from the same index and in the same version.",
        commands=(f'python -m pip install "torch[device-{arch}]{pin}"{where}',),
        sources=(_MULTI, "ROCm/TheRock issue #7839: https://github.com/ROCm/TheRock/issues/7839"),
        likelihood=likelihood,
    )


_WORKS = r"^\s*(?:True|ok|passed|works|tensor\(.*|0|success(?:ful)?)\s*$"
_VERSIONED = r"(?:with|after|on|in|build|nightly|release|torch|rocm|hip|driver|adrenalin|version|wheel)[\w =.:+#-]*?\d[\d.]*\d"
_SAID_WORKS = (
    r"\d[\w.+]*\b[^.]{0,60}\b(?:works?|worked|is fine|was fine|fine|ok|okay|no (?:problem|issue|error|crash)|succe\w+"
    r"|passes|detects?|finds?)\b|\b(?:works?|worked|fine|ok|passes|success\w*|detected|no (?:problem|issue|error"
    r"|crash)\w*)\b[^.]{0,30}\b(?:with|on|in|using|until|before|under|after (?:downgrading|reverting|going back"
    r"|rolling back))\b[^.]{0,60}\d"
    r"|(?:downgrad|revert|roll(?:ed|ing)? back|going back|previous (?:nightly|build|release|version|driver)|older (?:nightly"
    r"|build|release|driver))\w*[^.]{0,80}"
    r"\b(?:works?|worked|fix(?:es|ed)|helps?|helped|solve[sd]?|fine|ok)\b|regression|does(?: not|n't) (?:occur"
    r"|happen)[^.]{0,40}\d|err=0, count=[1-9]"
)


def _works_elsewhere(case: Case) -> Hit | None:
    """What tells that a neighbouring release works on the same machine."""
    for place, text in case.facts.evidence.items():
        if re.search(_VERSIONED, place, re.IGNORECASE) and (last := text.strip().splitlines()[:1]):
            for line in text.splitlines():
                found = re.search(_WORKS, line, re.IGNORECASE)
                # A bare 0 is a number of devices as well as an exit status, so it counts only where nothing else was printed.
                if found and (line.strip() != "0" or len(last) == len(text.strip().splitlines())):
                    return Hit(place, line, found)
    return case.hit(_SAID_WORKS)


_NIGHTLY = re.compile(r"a\d{8}|\.dev\d{8}|a0\+|nightly|rc\d", re.IGNORECASE)


def rocm_wheel_defect(case: Case) -> Iterator[Finding]:
    """One wheel or nightly fails where its neighbour works."""
    if not _amd(case) or case.torch.flavour in ("cpu", "cuda", "xpu"):
        return
    said = (
        case.hit(_CRASH)
        or case.hit(_NO_CODE)
        or case.hit(r"undefined symbol|cannot open shared object|import ?error|failed to initialize|InitDma")
    )
    if said is None or case.hit(r"/dev/kfd.*(?:denied|not permitted|no such file)|dkms"):
        return
    if case.torch.flavour != "rocm" and not re.search(r"torch|rocm|hip|hsa|wheel|nightly", _all_text(case), re.IGNORECASE):
        return
    other = _works_elsewhere(case)
    runtime = case.hit(r"libhsa-runtime64|rocr::|libamdhip64|libMIOpen|librocblas|libhipblaslt|GpuAgent")
    nightly = _NIGHTLY.search(case.torch.version)
    # A library of the wheel lacks the code that torch itself holds.
    uneven = case.hit(r"for GPU arch ?: ?(gfx[0-9a-f]{3,4})")
    apart = uneven is not None and uneven[1].lower() in _codes(case, uneven[1].lower())[0]
    likelihood = (
        89
        if other
        else 84
        if apart
        else 72
        if nightly and runtime
        else 60
        if nightly
        else 56
        if runtime and case.torch.flavour == "rocm"
        else 0
    )
    lacking = any(_missing(case, card) for card in _cards(case))
    if not likelihood or (lacking and not other):
        return
    name = f"torch {case.torch.version}" if case.torch.version else "this build of torch or ROCm"
    yield Finding(
        cause="rocm-wheel-defect",
        message=f"{name} fails on this card by a defect of its own" + (": a neighbouring build works" if other else ""),
        evidence=tuple(dict.fromkeys(str(hit) for hit in (said, runtime, other) if hit))
        + ((f"torch.version: {case.torch.version}",) if case.torch.version else ()),
        remedy="Take another build: the one before that worked, or a newer one in which it is repaired, and pin it.",
        commands=tuple(commands.reinstall_torch(case)) if case.plan and case.plan.backend_name == "rocm" else (),
        sources=("ROCm/TheRock issue #5763: https://github.com/ROCm/TheRock/issues/5763",),
        likelihood=likelihood,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (
    rocm_gfx_not_in_wheel,
    hsa_override_not_exported,
    hsa_override_malformed,
    rocm_igpu_selected,
    rocm_gpu_unsupported_by_kfd,
    rocm_user_not_in_render_group,
    rocm_kernel_unsupported,
    rocm_dkms_stale,
    rocm_container_on_windows,
    rocm_windows_runtime_regression,
    rocm_device_package_missing,
    rocm_wheel_defect,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "hsa-override-not-exported": ("rocm-gfx-not-in-wheel",),
    "hsa-override-malformed": ("rocm-gfx-not-in-wheel",),
    "rocm-container-on-windows": ("container-rocm-device-missing", "rocm-user-not-in-render-group", "container-no-gpu-flag"),
    "rocm-device-package-missing": ("rocm-gfx-not-in-wheel", "rocm-wheel-defect"),
    "rocm-dkms-stale": ("rocm-kernel-unsupported",),
    "rocm-gpu-unsupported-by-kfd": ("rocm-user-not-in-render-group", "rocm-gfx-not-in-wheel"),
    "rocm-igpu-selected": ("rocm-wheel-defect",),
    "rocm-kernel-headers-missing": ("rocm-kernel-unsupported",),
}
