"""Causes that lie in the torch that is installed: what it was built for, its code, what stands beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from envkit.doctor import commands
from envkit.doctor.case import Case, Hit
from envkit.doctor.index import asked, builds_of, platform_word, pypi_tag
from envkit.model import Dotted, Finding, Gpu, Os, Severity, dotted
from envkit.resolve.rules import code_for
from envkit.resolve.target import card_name, vendor_title
from envkit.resolve.wishes import matches

_INDEXES = "PyTorch: wheel indexes by build: https://pytorch.org/get-started/previous-versions/"
_PYPI = "PyPI torch: file lists and wheel metadata: https://pypi.org/project/torch/#files"
_FLAVOURS = {"nvidia": "cuda", "amd": "rocm", "intel": "xpu"}
_MADE_FOR = {"cuda": "NVIDIA CUDA", "rocm": "AMD ROCm", "xpu": "Intel GPUs", "cpu": "the CPU alone"}


# ---- the wheel that is there -------------------------------------------------------------------------------------

_NOT_COMPILED = r"torch not compiled with cuda enabled|not compiled with (?:cuda|xpu|rocm|hip) (?:support|enabled)"


_CPU_LISTED = r"^\W*(?:pytorch|libtorch)\s+\d\S*\s+\S*cpu|^\W*torch\b\W+\d[\d.]*\+cpu\b|^\W*(?:pytorch )?version\W+\d\S*\+cpu\b"


def cpu_only_wheel(case: Case) -> Iterator[Finding]:
    """The torch that runs was built without GPU code."""
    torch, said = case.torch, case.hit(_NOT_COMPILED)
    cards = sorted((card for card in case.gpus if _could_compute(case, card)), key=lambda card: card.vendor != "nvidia")
    plain = case.os is Os.WINDOWS and bool(torch.version) and not torch.tag and not torch.cuda and not torch.hip
    # Of NVIDIA's cards alone: a torch for ROCm has no CUDA either.
    none = case.hit(r"^\s*none\s*$", "version.cuda") if case.cards("nvidia") and torch.flavour in ("", "cpu") else None
    listed = (
        case.hit(_CPU_LISTED, "list", "freeze", "show torch", "conda", "collect", "__version__")
        if torch.flavour in ("", "cpu")
        else None
    )
    built = torch.flavour == "cpu" or plain or none is not None or listed is not None
    if torch.available or (not built and said is None) or (built and not cards and said is None) or _apple(case):
        return
    if torch.flavour in ("cuda", "rocm"):
        return  # it says so of a module that was not asked for
    evidence = [f"torch.version: {torch.version}"] if torch.version else []
    evidence += [str(hit) for hit in (case.hit(r"^\s*none\s*$", "version.cuda"), listed, said) if hit]
    evidence += [f"machine.gpu: {card_name(card)}" for card in cards[:1]]
    name = f"torch {torch.version}" if torch.version else "the torch that runs"
    beside = f", so it cannot use {card_name(cards[0])}" if cards else ""
    yield Finding(
        cause="cpu-only-wheel",
        message=f"{name} was built without GPU code{beside}",
        evidence=tuple(evidence) or ("torch.version.cuda: none", "torch.version.hip: none"),
        remedy="Replace torch in that environment by a build for the card; driver and toolkit stay as they are.",
        commands=tuple(commands.reinstall_torch(case)),
        sources=(_INDEXES,),
        likelihood=88 if built else 84,
    )


def _could_compute(case: Case, card: Gpu) -> bool:
    """Whether there is a build of torch for a card: not for each one of AMD's and Intel's, least for those in processors."""
    if card.vendor == "nvidia":
        return True
    return card.vendor in _FLAVOURS and case.plan is not None and case.plan.backend_name == _FLAVOURS[card.vendor]


def _apple(case: Case) -> bool:
    return case.os is Os.MACOS


def wrong_accelerator_wheel(case: Case) -> Iterator[Finding]:
    """The wheel was built for another vendor's cards than those of the machine."""
    torch = case.torch
    there = {card.vendor for card in case.gpus if card.vendor in _FLAVOURS}
    fitting = {_FLAVOURS[vendor] for vendor in there}
    if torch.available or not there or len(there) != len({card.vendor for card in case.gpus}):
        return
    # A package of the right vendor beside a plain torch tells what was there before a dependency replaced it.
    left = [name for name in ("triton-xpu", "pytorch-triton-xpu", "triton-rocm", "pytorch-triton-rocm") if name in case.packages]
    swapped = case.hit(r"^\s*-\s*torch==(\S+\+(?:xpu|rocm|cu)\S*)")
    if torch.flavour in ("cuda", "rocm", "xpu") and torch.flavour not in fitting:
        made = _MADE_FOR[torch.flavour]
    elif torch.flavour in ("cpu", "") and torch.version and not torch.tag and (left or swapped):
        made = "other devices"
    else:
        return
    card = case.gpus[0]
    evidence = [f"torch.version: {torch.version}" if torch.version else f"torch: built for {made}"]
    evidence += [f"machine.gpu: {card_name(card)}"] + [str(swapped)] * bool(swapped)
    evidence += [f"python.packages: {name} {case.packages[name]}" for name in left]
    yield Finding(
        cause="wrong-accelerator-wheel",
        message=f"torch {torch.version or ''} is for {made}; this machine has {card_name(card)}".replace("  ", " "),
        evidence=tuple(evidence),
        remedy=(
            f"Install the build for {vendor_title(card.vendor)} again, after the other packages, and bind torch to that index in "
            "the project file or a constraint file, so that a later install keeps it."
        ),
        commands=tuple(commands.reinstall_torch(case)),
        sources=(_INDEXES,),
        likelihood=87,
    )


def swapped_flavour(case: Case) -> Iterator[Finding]:
    """The build of torch that runs is not the one that the environment was made with."""
    torch, planned = case.torch, case.hit(r"^torch==(?P<release>[\w.]+)\+(?P<tag>[\w.]+)$", "envkit/plan.json")
    if planned is None or not torch.flavour or torch.available:
        return
    begins = (("cuda", r"cu\d"), ("rocm", r"rocm"), ("xpu", r"xpu"))
    flavour = next((word for word, begin in begins if re.match(begin, planned["tag"])), "")
    flavour = "cpu" if planned["tag"].startswith("cpu") else flavour
    if not flavour or flavour == torch.flavour:
        return
    yield Finding(
        cause="cpu-only-wheel" if torch.flavour == "cpu" else "wrong-accelerator-wheel",
        message=(
            f"this environment was made with torch {planned['release']}+{planned['tag']}; a later install put torch "
            f"{torch.version} in its place, which is for {_MADE_FOR[torch.flavour]}"
        ),
        evidence=(str(planned), f"torch.version: {torch.version}"),
        remedy="Install the build of the plan again, and keep to the environment's own envkit/constraints.txt from then on.",
        commands=tuple(commands.reinstall_torch(case)),
        sources=(_INDEXES,),
        severity=Severity.WARNING if flavour == "cpu" else Severity.ERROR,
        likelihood=91,
    )


def cpu_arch_no_cuda_wheel(case: Case) -> Iterator[Finding]:
    """On Arm, PyPI's torch came without CUDA for long, and Jetson needs wheels of its own."""
    arm = case.machine.arch in ("aarch64", "arm64") or case.facts.python.machine == "aarch64"
    cards, torch = case.cards("nvidia"), case.torch
    if not arm or case.os not in (Os.LINUX, Os.WSL2, None) or torch.available:
        return
    jetson = case.hit(r"\btegra\b|jetson|\bl4t\b|jetpack") or next((c for c in cards if "jetson" in c.name.lower()), None)
    without = torch.flavour == "cpu" or case.hit(_NOT_COMPILED) or (torch.available is False and pypi_tag(case) == "cpu")
    if not without or not (cards or jetson):
        return
    evidence = [f"machine.arch: {case.machine.arch or case.facts.python.machine}"]
    evidence += [f"torch.version: {torch.version}"] if torch.version else []
    evidence += [str(without)] if isinstance(without, Hit) else []
    evidence += [f"machine.gpu: {card_name(cards[0])}"] if cards else []
    what = "NVIDIA's own wheels for this JetPack" if jetson else "the build of a CUDA index, which serves aarch64"
    yield Finding(
        cause="cpu-arch-no-cuda-wheel",
        message="the torch for aarch64 that was installed holds no CUDA",
        evidence=tuple(evidence),
        remedy=f"Install {what}; PyPI's aarch64 wheels were for the CPU for long.",
        commands=() if jetson else tuple(commands.reinstall_torch(case)),
        sources=(_PYPI,),
        likelihood=89,
    )


# ---- code against the card ---------------------------------------------------------------------------------------

_INCOMPATIBLE = r"with CUDA capability (sm_\d+[af]?) is not compatible with the current PyTorch"
_SUPPORTS = r"supports CUDA capabilities\s+((?:(?:sm|compute)_\d+[af]?[\s,.]*)+)"
_CAPABILITY = r"which is of (?:cuda|compute) capability (?:\(CC\) )?(\d+)\.(\d+)"
_TOO_OLD_CARD = (
    r"no longer supports this gpu because it is too old|minimum cuda capability (?:that we support|supported by this library)"
)
_HELD = r"^\W*(\d+)\.(\d+) which supports hardware CC"
_RANGE = r"^\W*\((\d+)\.(\d+)\)\s*-\s*\((\d+)\.(\d+)\)"
_NO_KERNEL = (
    r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA error: 209\b|named symbol not found"
    r"|PTX (?:JIT|was compiled with an unsupported)|invalid device function|device kernel image is invalid"
)


def wheel_against_card(case: Case) -> Iterator[Finding]:
    """The code in the wheel does not run on the card: it is too new for the wheel, too old, or a variant that was left out."""
    if case.torch.flavour in ("cpu", "rocm", "xpu"):
        return
    told = case.hit(_INCOMPATIBLE)
    supports = case.hit(_SUPPORTS)
    old, capability = case.hit(_TOO_OLD_CARD), case.hit(_CAPABILITY)
    said = told or capability or old or case.hit(_NO_KERNEL)
    cards = [card.arch for card in case.cards("nvidia") if card.arch]
    if told:
        cards = [told[1].lower(), *cards]
    elif capability:
        cards = [f"sm_{capability[1]}{capability[2]}", *cards]
    archs = case.torch.archs or (tuple(re.findall(r"(?:sm|compute)_\d+[af]?", supports[1])) if supports else None)
    if archs is None and capability:
        archs = tuple(f"sm_{hit[1]}{hit[2]}" for hit in case.hits(_HELD)) or None
    if archs is None and capability and (bounds := case.hit(_RANGE)):
        archs = (f"sm_{bounds[1]}{bounds[2]}", f"sm_{bounds[3]}{bounds[4]}")
    for arch in dict.fromkeys(cards):
        for codes, ptx, version, where in _codes(case, archs):
            # Where a kernel is said to be missing, no PTX has helped.
            if not codes or code_for(case.matrix.archs, arch, "cuda", codes, () if said else ptx, version):
                continue
            if said is None and case.torch.available is None and archs is None:
                break
            yield from _code_finding(case, arch, codes, where, [hit for hit in (said, supports) if hit])
            return
    if archs is None and said:
        yield from _told_finding(case, cards[0] if cards else "", said, told is not None, old is not None)


def _codes(case: Case, archs: tuple[str, ...] | None) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Dotted, str]]:
    """The code that the torch may hold: as it says itself, or as the matrix has it of builds that it may be."""
    version = dotted(case.torch.cuda) or Dotted("0")
    if archs is not None:
        codes = tuple(each for each in archs if each.startswith("sm_"))
        yield codes, tuple(f"sm_{each[8:]}" for each in archs if each.startswith("compute_")), version, "torch.arch_list"
        return
    tag = case.torch.tag or (f"cu{case.torch.cuda.replace('.', '')}" if case.torch.cuda else "") or asked(case).tag
    if not tag and not case.torch.version:
        return
    found = [
        build
        for build in builds_of(case, case.torch.version, tag, platform_word(case))
        if build.tag.startswith("cu") and build.archs
    ]
    if not found:  # nobody listed this system's; those of a tag differ little between systems
        found = [build for build in builds_of(case, case.torch.version, tag, "") if build.tag.startswith("cu") and build.archs]
    # The newest builds first: where the release is not told, that is the likelier one.
    for build in sorted(found, key=lambda each: Dotted(each.release).key, reverse=True):
        release = next((row for row in case.matrix.backends["cuda"].releases if row.tag == build.tag), None)
        yield build.archs or (), build.ptx, release.version if release else version, f"torch {build.release}+{build.tag}"


def _number(arch: str) -> int:
    found = re.search(r"\d+", arch)
    return int(found[0]) if found else 0


def _told_finding(case: Case, arch: str, said: Hit, told: bool, old: bool) -> Iterator[Finding]:
    """What torch says of a card where nothing tells which code the wheel holds."""
    row = case.matrix.archs.get(arch)
    version = dotted(case.torch.cuda) or dotted(re.sub(r"cu(\d+)(\d)$", r"\1.\2", case.torch.tag))
    if old:
        too_new = True
    elif row is None:
        return
    elif told:
        # Architectures that toolkits have given up are left out of new wheels; any other was not there yet.
        too_new = row.last_backend is not None
    elif version is not None and row.last_backend is not None and row.last_backend < version:
        too_new = True
    elif version is not None and row.min_backend is not None and row.min_backend > version:
        too_new = False
    else:
        return
    name = card_name(next((card for card in case.gpus if card.arch == arch), Gpu(arch=arch, vendor="nvidia")))
    yield Finding(
        cause="wheel-too-new-for-gpu" if too_new else "wheel-too-old-for-gpu",
        message=f"the wheel holds no code for {name}, which is {'older' if too_new else 'newer'} than all that it is built for",
        evidence=(str(said),),
        remedy=_TOO_NEW if too_new else _TOO_OLD,
        commands=tuple(commands.reinstall_torch(case)),
        sources=("PyTorch: compiled architectures of the wheels: https://pypi.org/project/torch/#files",),
        likelihood=86,
    )


_TOO_OLD = "Install a newer build, made with a CUDA that knows this card; the driver must know it too."
_TOO_NEW = "Install a build that still holds code for this card (an index of an older CUDA), or use a newer card."


def _code_finding(case: Case, arch: str, codes: tuple[str, ...], where: str, hits: list[Hit]) -> Iterator[Finding]:
    numbers = sorted(map(_number, codes))
    mine = _number(arch)
    card = next((card for card in case.gpus if card.arch == arch), Gpu(arch=arch, vendor="nvidia"))
    held = ", ".join(sorted(codes, key=_number))
    evidence = [str(hit) for hit in hits] + [f"{where}: {held}", f"machine.gpu: {card_name(card)}"]
    if mine > numbers[-1]:
        cause, why = "wheel-too-old-for-gpu", "is newer than all of them"
        remedy = _TOO_OLD
    elif mine < numbers[0]:
        cause, why = "wheel-too-new-for-gpu", "is older than all of them"
        remedy = _TOO_NEW
    else:
        cause, why = "wheel-lacks-gpu-arch-variant", "is not among them"
        remedy = "Install a build that was made for this variant: the vendor's own wheels, or one built from source for it."
    yield Finding(
        cause=cause,
        message=f"the wheel holds code for {held}; {card_name(card)} {why}",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=remedy,
        commands=tuple(commands.reinstall_torch(case)),
        sources=("PyTorch: compiled architectures of the wheels: https://pypi.org/project/torch/#files",),
        likelihood=88 if hits else 82,
    )


# ---- beside torch ------------------------------------------------------------------------------------------------

_OPS = (
    r"operator torchvision::\w+ does not exist|could not run 'torchvision::\w+' with arguments"
    r"|torchvision.*undefined symbol|undefined symbol.*torchvision"
    r"|torchvision.*(?:incompatible|compiled with different cuda)|partially initialized module 'torchvision'"
    r"|couldn'?t load custom c\+\+ ops|torchaudio.*undefined symbol|pytorch and torchvision were compiled with different cuda"
)


def torchvision_mismatch(case: Case) -> Iterator[Finding]:
    """torch and torchvision (or torchaudio) are no pair."""
    said, packages, torch = case.hit(_OPS), case.packages, case.torch
    wrong: list[str] = []
    for release in (row for row in case.matrix.frameworks["torch"].releases if torch.version.partition("+")[0] == row.version):
        for name, fitting in release.companions.items():
            have = packages.get(name, "")
            plain, _, local = have.partition("+")
            if have and plain not in fitting and re.fullmatch(r"\d+(\.\d+)+", plain):
                wrong.append(f"{name} {have} (torch {torch.version} goes with {' or '.join(fitting)})")
            elif have and local and torch.tag and local != torch.tag and (local == "cpu") != (torch.tag == "cpu"):
                wrong.append(f"{name} {have} beside torch {torch.version}")
    if said is None and not wrong:
        return
    have = ", ".join(f"{name} {packages[name]}" for name in ("torch", "torchvision", "torchaudio") if name in packages)
    yield Finding(
        cause="torchvision-mismatch",
        message=f"no pair: {'; '.join(wrong)}"
        if wrong
        else "torch and its companion packages are of different releases or builds",
        evidence=tuple(([str(said)] if said else []) + ([f"python.packages: {have}"] if have else [])),
        remedy="Install torch and its companions together, from one index and of one release.",
        commands=tuple(commands.reinstall_torch(case))
        or ("python -m pip install --force-reinstall torch torchvision torchaudio",),
        sources=("PyTorch: versions that go together: https://pytorch.org/get-started/previous-versions/",),
        severity=Severity.ERROR if said else Severity.WARNING,
        likelihood=90 if said else 62,
    )


def two_torch_installs(case: Case) -> Iterator[Finding]:
    """Two installs of torch on one path: what is imported is not what was installed."""
    imported = str(case.facts.torch.get("version") or "")
    listed = {name: text for name, text in case.facts.python.packages.items() if name.lower() == "torch"}
    packaged = next(iter(listed.values()), "")
    evidence: list[str] = []
    if imported and packaged and not _same(imported, packaged):
        evidence = [f"torch.version (imported): {imported}", f"python.packages (installed): {packaged}"]
    places = sorted({hit[1] for hit in case.hits(r"((?:/|[A-Za-z]:\\)[^\s'\":]*?(?:site|dist)-packages)[/\\]torch\b")})
    shown = (hit[1] for hit in case.hits(r"^\s*location:\s*(\S+(?:site|dist)-packages)\s*$", "show torch"))
    places = sorted({place.replace("/lib64/", "/lib/").replace("\\", "/").lower() for place in (*places, *shown)})
    if len(places) > 1 and case.hit(r"\btorch\b"):
        evidence += [f"torch in {place}" for place in places]
    both = case.hit(r"^\s*pytorch\s+\d[\w.]*\s+\S*(?:cuda|cpu)", "conda") and case.hit(r"^\s*torch\s+\d[\w.+]*\s+pypi", "conda")
    if both:
        evidence += [str(both), "conda list: torch of PyPI beside pytorch of conda"]
    # Seen on the path itself: what is imported is clear, and a later install may reach the other one.
    quiet = not evidence
    several = case.hit(r"^torch: (.+? in .+?), (?:.+ in .+)$", "sys.path")
    if several and len(set(re.findall(r"(?:^torch: |, )(\S+) ", several.line))) > 1:
        evidence.append(str(several))
    if not evidence:
        return
    yield Finding(
        cause="two-torch-installs",
        severity=Severity.WARNING if quiet else Severity.ERROR,
        message="two installs of torch are on one path" + (f": {imported} runs, {packaged} is installed" if packaged else ""),
        evidence=tuple(evidence),
        remedy="Remove both and install one, in a fresh environment without user site (PYTHONNOUSERSITE=1) and PYTHONPATH.",
        commands=("python -m pip uninstall -y torch", "python -m pip uninstall -y torch", *commands.reinstall_torch(case)),
        likelihood=86,
    )


def _same(one: str, other: str) -> bool:
    # PyPI's plain version and the import's own with a local part are one wheel.
    first, second = one.partition("+"), other.partition("+")
    return first[0] == second[0] and (first[2] == second[2] or not first[2] or not second[2])


def numpy2_abi(case: Case) -> Iterator[Finding]:
    """A torch that was built for NumPy 1 beside NumPy 2."""
    said = case.hit(
        r"_ARRAY_API not found|compiled using NumPy 1\.x cannot be run in|numpy is not available|numpy\.dtype size changed"
        r"|numpy\.core\.multiarray failed to import"
    )
    numpy, torch = dotted(case.packages.get("numpy", "")), case.torch
    rows = [row for row in case.matrix.frameworks["torch"].releases if row.version == torch.version.partition("+")[0]]
    wanted = rows[0].requires.get("numpy", "") if rows else ""
    wrong = numpy is not None and bool(wanted) and not matches(wanted, str(numpy))
    if said is None and not wrong:
        return
    if said is not None and numpy is not None and numpy < Dotted("2"):
        return
    if said is None and torch.release is not None and torch.release >= Dotted("2.3") and case.os is not Os.WINDOWS:
        return  # those work with both on Linux
    evidence = [str(said)] if said else []
    evidence += [f"python.packages: numpy {case.packages['numpy']}"] if numpy else []
    evidence += [f"torch.version: {torch.version}"] if torch.version else []
    yield Finding(
        cause="numpy2-abi",
        message=f"torch {torch.version or ''} was built for NumPy 1; NumPy {numpy or '2'} is installed".replace("  ", " "),
        evidence=tuple(evidence),
        remedy="Install a NumPy below 2 in that environment, or a torch that was built for NumPy 2 (2.3 and newer on Linux).",
        commands=("python -m pip install 'numpy<2'",),
        sources=("pytorch/pytorch issues #107302 and #131668: https://github.com/pytorch/pytorch/issues/107302",),
        severity=Severity.ERROR if said else Severity.WARNING,
        likelihood=90 if said else 64,
    )


def nvidia_smi_header_changed(case: Case) -> Iterator[Finding]:
    """A program reads "CUDA Version" out of nvidia-smi's header, which drivers of 610 and newer write in another way."""
    header = case.hit(r"CUDA UMD Version\s*:\s*(\d+\.\d+)")
    failed = case.hit(
        r"(?:could not|cannot|can't|failed to|unable to) (?:parse|detect|determine|find|get).*cuda"
        r"|cuda version.*(?:not found|unknown|none)|'NoneType' object|list index out of range"
        r"|parse.*nvidia-smi|no cuda version|CUDA_VERSION.*(?:empty|unset)|cuda.*: N/A|cuda\w*(?:\(\))?\s*[:=]+>?\s*none"
        r"|cuda (?:version |driver )?(?:was )?not (?:found|detected)|cuda version is (?:null|empty|none|unknown)"
        r"|(?:default|fall)ing back to (?:cpu|cu\d+)|defaulting to (?:cpu|cu\d+)"
        r"|cpu[- ]only (?:pytorch|torch|build)|cuda version null",
    )
    if header is None or failed is None:
        return
    yield Finding(
        cause="nvidia-smi-header-changed",
        message=f'nvidia-smi writes "CUDA UMD Version: {header[1]}" where a program looks for "CUDA Version"; the driver is fine',
        evidence=(str(header), str(failed)),
        remedy="Update the program that reads nvidia-smi, or name the CUDA version to it by hand; the driver stays.",
        commands=("nvidia-smi --query-gpu=driver_version --format=csv,noheader",),
        severity=Severity.WARNING,
        likelihood=91,
    )


CHECKS = (
    cpu_arch_no_cuda_wheel,
    cpu_only_wheel,
    wrong_accelerator_wheel,
    swapped_flavour,
    wheel_against_card,
    torchvision_mismatch,
    two_torch_installs,
    numpy2_abi,
    nvidia_smi_header_changed,
)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "cpu-only-wheel": ("nvidia-driver-too-old", "torchvision-mismatch"),
    "cpu-arch-no-cuda-wheel": ("cpu-only-wheel", "wrong-accelerator-wheel"),
    "wrong-accelerator-wheel": ("cpu-only-wheel",),
    "two-torch-installs": ("torchvision-mismatch", "cpu-only-wheel", "wrong-accelerator-wheel"),
    "wheel-too-new-for-gpu": ("nvidia-driver-too-old",),
}
