"""The rules: whether a combination works is decided here and nowhere else.

Each rule is one pure function over (candidate, target, matrix, offers) that answers for its own question only: fits, fits with
a setting, fits without the vendor's promise, is rejected, or is not known. A reason names both sides. A new rule is one function
in `RULES`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

from envkit.model import (
    Answer,
    Architecture,
    Backend,
    BackendRelease,
    Build,
    Candidate,
    Change,
    Dotted,
    DriverFacts,
    Gpu,
    Kind,
    Limit,
    Matrix,
    Offers,
    Os,
    Platform,
    Target,
    Wheel,
    dotted,
)
from envkit.resolve.candidates import (
    cards,
    companion,
    companion_pin,
    index_of,
    is_too_old,
    local_version,
    macos_floor,
    oldest_glibc,
    package_of,
    pin,
    python_key,
    pythons_of,
    rows,
)
from envkit.resolve.target import (
    NO_MODULE,
    card_name,
    cards_text,
    is_board,
    may_mean,
    modules_of,
    processor,
    product_name,
    vendor_title,
)

Rule = Callable[[Candidate, Target, Matrix, "Offers | None"], Answer]

_OS_TITLES = {Os.LINUX: "Linux", Os.WINDOWS: "Windows", Os.MACOS: "macOS", Os.WSL2: "WSL2"}
_DEVICES = {
    "nvidia": "an NVIDIA GPU",
    "amd": "an AMD GPU",
    "intel": "an Intel GPU",
    "apple": "an Apple GPU",
    "huawei": "a Huawei Ascend NPU",
    "google": "a Google TPU",
    "habana": "an Intel Gaudi",
    "cambricon": "a Cambricon MLU",
    "moorethreads": "a Moore Threads GPU",
    "aws": "an AWS Neuron device",
}


# ---- answers -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _fits(rule: str) -> Answer:
    """The plain yes of a rule; one object serves every candidate."""
    return Answer(rule=rule, kind=Kind.FITS)


def _rejected(
    rule: str, reason: str, sources: Iterable[str] = (), change: Change | None = None, need: Dotted | None = None
) -> Answer:
    return Answer(rule=rule, kind=Kind.REJECTED, reason=reason, sources=tuple(sources), change=change, need_driver=need)


def _unknown(rule: str, reason: str, sources: Iterable[str] = ()) -> Answer:
    return Answer(rule=rule, kind=Kind.UNKNOWN, reason=reason, sources=tuple(sources))


def _community(rule: str, reason: str, sources: Iterable[str] = (), need: Dotted | None = None) -> Answer:
    return Answer(rule=rule, kind=Kind.COMMUNITY, reason=reason, sources=tuple(sources), need_driver=need)


def framework_build(candidate: Candidate) -> str:
    """How messages name a build: "torch 2.7.1+cu128", "torch 2.9.0+cpu with torch-npu 2.9.0.post6"."""
    build = candidate.build
    name = f"{candidate.framework.name} {candidate.release.version}{local_version(build)}"
    plugins = [
        f"{each} {pin.version}" for each, pin in sorted(build.packages.items()) if each.startswith(f"{package_of(candidate)}-")
    ]
    if plugins:
        return f"{name} with {' and '.join(plugins)}"
    return f"{name} for {toolkit(candidate)}" if build.index == "vendor" else name


def toolkit(candidate: Candidate) -> str:
    """How messages name a backend's release: "CUDA 12.8"."""
    version = candidate.backend_release.version
    # Backends without releases of their own have one row of version 0.
    return _backend_title(candidate.backend) + (f" {version}" if version != "0" else "")


def _backend_title(backend: Backend) -> str:
    return {"cuda": "CUDA", "rocm": "ROCm"}.get(backend.name, backend.title or backend.name)


# ---- system ------------------------------------------------------------------------------------------------------


def os_family(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the scheme is made for the machine's system."""
    scheme, os = candidate.scheme, target.platform.os
    if scheme.os is os or (scheme.os is Os.LINUX and os is Os.WSL2):
        return _fits("os-family")
    reason = f"{scheme.name} is for {_OS_TITLES[scheme.os]}; this machine runs {_OS_TITLES[os]}"
    return _rejected("os-family", reason, scheme.sources)


def os_release(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the release of the system is new enough for the build, and on the backend vendor's list."""
    build = candidate.build
    if target.platform.os is Os.MACOS and build.macos is not None:
        return _macos(candidate, target)
    oldest, kernel = candidate.backend_release.min_kernel.get(target.platform.os), target.platform.kernel
    if oldest is not None and kernel is not None and kernel < oldest:
        reason = f"{toolkit(candidate)} needs {_OS_TITLES[target.platform.os]} {oldest} or newer; this machine runs {kernel}"
        return _rejected("os-release", reason, candidate.backend_release.sources)
    # A vendor's list is about machines, so a plan for "any device" (an image) is not held to it.
    if candidate.accelerator is None:
        return _fits("os-release")
    if build.systems:
        return _systems(candidate, target)
    answers = [_system_listed(candidate, card, target, matrix) for card in cards(candidate.backend, target)]
    return max(answers, key=lambda answer: _SEVERITY[answer.kind], default=_fits("os-release"))


def _system_listed(candidate: Candidate, card: Gpu, target: Target, matrix: Matrix) -> Answer:
    """Whether the vendor promises a card on the system at all."""
    held, os, release = candidate.backend_release, target.platform.os, target.platform.release
    limit = _limit_of(candidate, card, matrix)
    listed = limit.platforms if limit else held.platforms
    if listed is None:
        return _fits("os-release")
    vendor = vendor_title(candidate.backend.vendor) or "the vendor"
    if os in (Os.WINDOWS, Os.WSL2) and limit is not None:
        if os in listed or any(_same_release(each, release) for each in listed):
            return _fits("os-release")
        # There the card has to be known to the driver and to the bridge, and nothing says that these are.
        where = "inside WSL2" if os is Os.WSL2 else f"on {_OS_TITLES[os]}"
        reason = f"{vendor} does not list {card_name(card)} for {toolkit(candidate)} {where}; whether it works there is not known"
        return _unknown("os-release", reason, limit.sources)
    if not release or os is Os.WSL2 or any(_same_release(each, release) for each in listed):
        return _fits("os-release")
    systems = {row.os for each in listed if (row := matrix.platforms.get(each))}
    if not limit and systems and os not in systems:
        return _fits("os-release")  # the list is about another system
    what = f"{card_name(card)} with {toolkit(candidate)}" if limit else toolkit(candidate)
    reason = f"{release} is not on {vendor}'s list of systems for {what}"
    return _community("os-release", reason, limit.sources if limit else held.sources)


def _limit_of(candidate: Candidate, card: Gpu, matrix: Matrix) -> Limit | None:
    """What narrows the vendor's list of systems for a card: a row about the product goes before one about the architecture."""
    backend = candidate.backend
    if not backend.limits:
        return None
    return rows(matrix).limit(backend, candidate.backend_release.tag, product_name(card), card.arch)


def os_kernel(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the Linux kernel is one that the backend's vendor lists for the system."""
    row, platform = candidate.backend_release, target.platform
    if platform.os is not Os.LINUX or platform.kernel is None or not platform.release or candidate.accelerator is None:
        return _fits("os-kernel")
    usual = matrix.platforms.get(platform.release)
    if usual is not None and str(usual.kernel) == str(platform.kernel):
        return _fits("os-kernel")  # what the system first came with, and nothing that was seen on a machine
    for card in cards(candidate.backend, target):
        limit = _limit_of(candidate, card, matrix)
        listed = (limit.kernels.get(platform.release) if limit else None) or row.kernels.get(platform.release)
        if not listed or any(_same_line(each, platform.kernel) for each in listed):
            continue
        vendor = vendor_title(candidate.backend.vendor) or "the vendor"
        known = " and ".join(listed)
        reason = (
            f"kernel {platform.kernel} is not one that {vendor} lists for {toolkit(candidate)} on {platform.release}: {known}"
        )
        return _community("os-kernel", reason, row.sources)
    return _fits("os-kernel")


def _same_line(listed: Dotted, have: Dotted) -> bool:
    """ "6.14" in a list of kernels is about every 6.14.x."""
    mine, theirs = (*have.key, 0, 0, 0), (*listed.key, 0)
    count = max(2, len(listed.split(".")))
    return mine[:count] == (*theirs, 0, 0)[:count]


def _systems(candidate: Candidate, target: Target) -> Answer:
    """Whether the system is one of those that the framework lists for a build and each card."""
    name = _listed_name(target.platform) if target.platform.release else ""
    for card in cards(candidate.backend, target):
        listed = candidate.build.systems.get(card.arch, candidate.build.systems.get("other", ()))
        if name and listed and not any(_same_release(each, name) for each in listed):
            known = f"for {framework_build(candidate)} and {card_name(card)}, {', '.join(listed)} are listed"
            return _community("os-release", f"{known}; this machine runs {name}", candidate.build.sources)
    return _fits("os-release")


def _listed_name(platform: Platform) -> str:
    """How lists name a system: a Linux inside WSL2 is another than the same one on its own."""
    return f"wsl2-{platform.release}" if platform.os is Os.WSL2 else platform.release


def _macos(candidate: Candidate, target: Target) -> Answer:
    platform, build = target.platform, candidate.build
    floor, have = macos_floor(build, candidate.python), platform.point or dotted(platform.release.rpartition("-")[2])
    if floor is None or have is None:
        return _fits("os-release")
    wheel = framework_build(candidate) + (f" for Python {candidate.python}" if candidate.python in build.macos_pythons else "")
    needs = f"{_on_device(candidate)}{wheel} needs macOS {floor} or newer"
    if is_too_old(platform, floor):
        to = f"macos-{floor.major}/{platform.arch}"
        change = _os_change(f"update macOS to {floor} or newer", to)
        return _rejected("os-release", f"{needs}; this machine runs macOS {have}", build.sources, change)
    if have < floor:  # the release is told without its point
        reason = f"{needs}; which macOS {have} this machine runs is not known"
        return Answer(rule="os-release", kind=Kind.FITS, reason=reason, sources=build.sources)
    return _fits("os-release")


def _on_device(candidate: Candidate) -> str:
    """What of a build a floor is about, where the same wheel serves the CPU on older systems too."""
    return f"on {candidate.backend.device}, " if candidate.backend.device == "mps" else ""


def _same_release(listed: str, release: str) -> bool:
    """ "ubuntu-24.04.3" in a vendor's list is about the release "ubuntu-24.04"."""
    return listed == release or listed.startswith(f"{release}.") or release.startswith(f"{listed}.")


def glibc(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the system's C library can load the wheel."""
    platform, floor = target.platform, candidate.build.glibc
    if platform.family != "linux":
        return _fits("glibc")
    if platform.libc == "musl":
        system = platform.release or "this system"
        reason = f"{framework_build(candidate)} is built for glibc; {system} uses musl, for which there are no wheels"
        return _rejected("glibc", reason, candidate.build.sources, _newer_os(matrix, platform, floor or Dotted("0")))
    if floor is None or platform.glibc is None or platform.glibc >= floor:
        return _fits("glibc")
    reason = f"{framework_build(candidate)} needs glibc {floor}; {platform.release or 'this machine'} has {platform.glibc}"
    return _rejected("glibc", reason, candidate.build.sources, _newer_os(matrix, platform, floor))


def _newer_os(matrix: Matrix, platform: Platform, floor: Dotted) -> Change | None:
    """A move to the oldest release with that C library, of the same distribution where there is one."""
    fitting = [row for row in matrix.platforms.values() if row.os is Os.LINUX and row.glibc is not None and row.glibc >= floor]
    name = platform.release.rpartition("-")[0]
    same = [row for row in fitting if row.id.rpartition("-")[0] == name]
    chosen = min(same or fitting, key=lambda row: (row.glibc or floor, row.id), default=None)
    if chosen is None:
        return None
    return _os_change(f"move to {chosen.name} or newer (glibc {chosen.glibc})", f"{chosen.id}/{platform.arch}")


def _os_change(text: str, value: str) -> Change:
    return Change(kind="os", text=text, value=value)


def cpu_arch(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the build is published for the machine's processor."""
    platform, build = target.platform, candidate.build
    word = f"{platform.family}/{platform.arch}"
    for card in target.accelerators or ():
        wanted = processor(card)
        if wanted and (platform.family != "linux" or platform.arch != wanted):
            reason = f"{card_name(card)} is built together with its processor: its systems are linux/{wanted}, never {word}"
            return _rejected("cpu-arch", reason)
    if word in build.platforms or not any(each.startswith(f"{platform.family}/") for each in build.platforms):
        return _fits("cpu-arch")  # another system altogether is the business of os-family
    reason = f"{framework_build(candidate)} is published for {', '.join(build.platforms)}; this machine is {word}"
    return _rejected("cpu-arch", reason, build.sources)


# ---- the framework's build ---------------------------------------------------------------------------------------


def published(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the build was really published."""
    build, release = candidate.build, candidate.release
    if release.yanked:
        return _rejected("published", f"{candidate.framework.name} {release.version} was withdrawn", release.sources)
    if build.published:
        return _fits("published")
    if build.published is None:
        reason = f"{framework_build(candidate)} is expected, but that it was published is not confirmed"
        if build.note and (build.packages or build.index == "vendor" or candidate.backend.host_toolkit):
            # What is not confirmed is then less the framework than what goes with it, and the row says why.
            reason = f"{framework_build(candidate)} is not confirmed: {build.note}"
        return _unknown("published", reason, build.sources)
    return _rejected("published", f"{framework_build(candidate)} was never published", build.sources)


def python(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the build has wheels for the Python."""
    known = pythons_of(candidate.release, candidate.build)
    if candidate.python in known:
        return _fits("python")
    if not known:
        return _unknown(
            "python", f"for which Pythons {framework_build(candidate)} has wheels is not known", candidate.build.sources
        )
    reason = f"{framework_build(candidate)} has wheels for Python {_pythons_text(known)}; this is Python {candidate.python}"
    nearest = min(known, key=lambda each: python_distance(each, candidate.python))
    change = Change(kind="python", text=f"use Python {nearest}", value=nearest)
    return _rejected("python", reason, candidate.build.sources or candidate.release.sources, change)


@lru_cache(maxsize=4096)
def python_distance(text: str, wanted: str) -> tuple[bool, int, bool]:
    """How far one Python is from another; a free-threaded one is never near."""
    a, b = python_key(text)[0].key, python_key(wanted)[0].key
    return text.endswith("t"), abs((a[1] if len(a) > 1 else 0) - (b[1] if len(b) > 1 else 0)), a < b


@lru_cache(maxsize=256)
def _pythons_text(known: tuple[str, ...]) -> str:
    ordered = sorted(known, key=python_key)
    plain = [each for each in ordered if not each.endswith("t")]
    free = [each for each in ordered if each.endswith("t")]
    span = f"{plain[0]} to {plain[-1]}" if len(plain) > 2 else " and ".join(plain)
    return f"{span} and {', '.join(free)}" if span and free else span or ", ".join(free)


def libraries(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the libraries that a plan pins have a release for the Python that the framework accepts."""
    platform = candidate.platform
    for name in candidate.framework.default_packages:
        if name in matrix.libraries and pin(matrix, name, candidate.release, candidate.python, platform) is None:
            wanted = candidate.release.requires.get(name, "")
            reason = f"no {name}{wanted} that {framework_build(candidate)} works with has wheels for Python {candidate.python}"
            usable = [
                each
                for each in pythons_of(candidate.release, candidate.build)
                if pin(matrix, name, candidate.release, each, platform)
            ]
            floor = oldest_glibc(matrix, name, candidate.release, candidate.python)
            if floor is not None and pin(matrix, name, candidate.release, candidate.python) is not None:
                reason += f" that run on glibc {platform.glibc}: they need {floor}"
                if not usable:
                    return _rejected("libraries", reason, candidate.release.sources, _newer_os(matrix, platform, floor))
            nearest = min(usable, key=lambda each: python_distance(each, candidate.python), default=None)
            change = Change(kind="python", text=f"use Python {nearest}", value=nearest) if nearest else None
            return _rejected("libraries", reason, candidate.release.sources, change)
    return _fits("libraries")


def companions(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the companion packages asked for exist for the release and the Python."""
    for name in target.extras:
        if companion(matrix, name, candidate.release, candidate.python) is None:
            known = candidate.release.companions.get(name)
            which = (
                f"none of its releases ({', '.join(known)}) has wheels for Python {candidate.python}"
                if known
                else "there is none"
            )
            reason = f"{name} was asked for; for {candidate.framework.name} {candidate.release.version} {which}"
            return _rejected("companions", reason, candidate.release.sources)
    return _fits("companions")


# ---- the accelerator ---------------------------------------------------------------------------------------------


def gpu_vendor(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the machine has a card that the backend can use."""
    backend = candidate.backend
    used = cards(backend, target)
    if backend.device == "cpu" or target.accelerators is None or any(card.vendor for card in used):
        return _fits("gpu-vendor")
    if backend.without_card and all(card.vendor for card in target.accelerators):
        return _fits("gpu-vendor")
    untold = next((card for card in target.accelerators if not card.vendor), None)
    if untold is not None:
        return _unknown(
            "gpu-vendor", f"the vendor of {card_name(untold)} is not known{may_mean(untold)}", candidate.scheme.sources
        )
    if used:
        return _fits("gpu-vendor")
    wanted = _DEVICES.get(backend.vendor, "a GPU")
    there = cards_text(target.accelerators) or "no accelerator"
    return _rejected("gpu-vendor", f"{candidate.scheme.name} needs {wanted}; this machine has {there}", candidate.scheme.sources)


def asked_for(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether a way that leaves a better one unused was asked for: the CPU beside a card, any layer beside a vendor's own."""
    backend, scheme = candidate.backend, candidate.scheme
    if backend.vendor or not target.accelerators or scheme.name in target.asked:
        return _fits("asked-for")
    if backend.device == "cpu":
        there = cards_text(target.accelerators)
        reason = f"the machine has {there}; the CPU is used only when asked for (--scheme {scheme.name})"
        return _rejected("asked-for", reason, scheme.sources)
    own = _own_scheme(matrix, target, candidate.framework.name)
    if own:
        there = card_name(target.accelerators[0])
        reason = f"{own} has code for {there}; {scheme.name} is used only when asked for (--scheme {scheme.name})"
        return _rejected("asked-for", reason, scheme.sources)
    return _fits("asked-for")


def _own_scheme(matrix: Matrix, target: Target, framework: str) -> str:
    """The scheme of the first card's own vendor with code for it on this system; "" where there is none."""
    card = (target.accelerators or (Gpu(),))[0]
    word = f"{target.platform.family}/{target.platform.arch}"
    for scheme in matrix.schemes.values():
        backend = matrix.backends[scheme.backend]
        if (
            backend.vendor != card.vendor
            or not backend.vendor
            or scheme.framework != framework
            or scheme.os is not target.platform.os
        ):
            continue
        known = rows(matrix)
        for row in known.of(backend, matrix.frameworks[framework]):
            held = word in row.build.platforms and row.build.archs is not None
            if not held or not _code(matrix, backend, row.build, row.backend_release, card.arch)[0]:
                continue
            if target.platform.os is Os.WSL2 and tag_floor(row.backend_release, Os.WSL2) is None:
                continue  # nothing says that it works there
            limit = known.limit(backend, row.build.tag, product_name(card), card.arch)
            if limit is None or target.platform.os is Os.LINUX or target.platform.os in limit.platforms:
                return scheme.name
    return ""


def gpu_code(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the build holds code that runs on every card that it would use."""
    backend, build = candidate.backend, candidate.build
    if not backend.vendor and (unreached := [card for card in cards(backend, target) if not _has_graphics(card, matrix)]):
        reason = f"{card_name(unreached[0])} is made to compute alone; whether {backend.title} reaches it is not known"
        return _unknown("gpu-code", reason, (*backend.sources, *matrix.archs[unreached[0].arch].sources))
    if backend.code_rule in ("", "any"):
        return _fits("gpu-code")
    if backend.code_rule == "listed":
        return _listed(candidate, target)
    worst = _fits("gpu-code")
    # Equal cards get equal answers.
    unlike = {(card.arch, card.name): card for card in cards(backend, target)}.values()
    for card in unlike:
        answer = _code_answer(candidate, card, target, matrix)
        if _SEVERITY[answer.kind] > _SEVERITY[worst.kind] or (answer.reason and not worst.reason and answer.kind is worst.kind):
            worst = answer
    if worst.kind is Kind.SETTING and not all(_bears(card, worst.env, backend) for card in unlike):
        return _rejected("gpu-code", f"{worst.reason}; the setting would apply to every card of this machine", build.sources)
    return worst


def _bears(card: Gpu, env: Mapping[str, str], backend: Backend) -> bool:
    """Whether a setting suits a card: it needs the same, or is what the others then act as."""
    return any(setting.env == env and card.arch in (setting.arch, setting.acts_as) for setting in backend.overrides)


def _has_graphics(card: Gpu, matrix: Matrix) -> bool:
    row = matrix.archs.get(card.arch)
    return row is None or row.graphics


def _listed(candidate: Candidate, target: Target) -> Answer:
    """Whether the vendor lists every chip for the backend's release, where no one says which code a wheel holds."""
    release = candidate.backend_release
    own = candidate.build.archs is not None or release.version == "0"  # the list is of the build, not of the backend's release
    known, name = candidate.build.archs if own else release.archs, framework_build(candidate) if own else toolkit(candidate)
    sources = release.sources + candidate.build.sources
    for card in cards(candidate.backend, target):
        if not card.arch:
            return _unknown("gpu-code", f"the architecture of {card_name(card)} is not known{may_mean(card)}", sources)
        if known is None:
            return _unknown("gpu-code", f"which chips {name} serves is not known", sources)
        if card.arch in candidate.build.maybe_archs:
            return _unknown("gpu-code", f"whether {name} serves {card_name(card)} is not known", sources)
        if card.arch not in known:
            reason = f"{name} serves {', '.join(known) or 'no chip'}; this machine has {card_name(card)}"
            return _rejected("gpu-code", reason, sources)
    return _fits("gpu-code")


_SEVERITY = {Kind.FITS: 0, Kind.COMMUNITY: 1, Kind.SETTING: 2, Kind.UNKNOWN: 3, Kind.REJECTED: 4}


def _code_answer(candidate: Candidate, card: Gpu, target: Target, matrix: Matrix) -> Answer:
    backend, build, name = candidate.backend, candidate.build, framework_build(candidate)
    if not card.arch:
        return _unknown("gpu-code", f"the architecture of {card_name(card)} is not known{may_mean(card)}", build.sources)
    row = matrix.archs.get(card.arch)
    sources = build.sources + (row.sources if row else ())
    if build.archs is None and (not build.maybe_archs or card.arch in build.maybe_archs):
        return _code_unknown(candidate, card, row, sources)
    if build.archs is None:
        reason = f"{name} is not made for {card_name(card)}: at most for {', '.join(build.maybe_archs)}"
        return _rejected("gpu-code", reason, sources)
    how, code = _code(matrix, backend, build, candidate.backend_release, card.arch)
    if how == "native":
        words = (
            f"holds code for {card_name(card)}" if code == card.arch else f"holds {code} code, which runs on {card_name(card)}"
        )
        return Answer(rule="gpu-code", kind=Kind.FITS, reason=f"{name} {words}", sources=sources)
    if how == "ptx":
        reason = f"{name} has no code for {card_name(card)}; the driver translates its PTX at first start"
        return _community("gpu-code", reason, sources)
    if card.arch in build.maybe_archs:
        reason = f"whether {name} has code for {card_name(card)} is not known: it holds at least {', '.join(build.archs)}"
        return _unknown("gpu-code", reason, sources)
    for setting in backend.overrides:
        if "{arch}" in build.extras:
            break  # the code of another architecture is in a package that would not be installed
        if setting.arch != card.arch or setting.acts_as not in build.archs or target.platform.os not in setting.os:
            continue
        if setting.last_backend is None or candidate.backend_release.version <= setting.last_backend:
            words = " ".join(f"{key}={value}" for key, value in sorted(setting.env.items()))
            reason = f"{name} has no code for {card_name(card)}; with {words} it runs {setting.acts_as} code"
            return Answer(
                rule="gpu-code",
                kind=Kind.SETTING,
                reason=reason,
                sources=sources + setting.sources,
                env=setting.env,
                change=Change(kind="setting", text=f"set {words}: --accept override", value=words),
            )
    if row is None and backend.code_rule == "cuda" and _capability(card.arch) is None:
        return _unknown("gpu-code", f"{card.arch} is an architecture that the matrix does not know", build.sources)
    if row is None and backend.code_rule == "cuda" and not _older_than_all(card.arch, build.archs):
        newer = ", which is newer than all code in " + name if _newer_than_all(card.arch, build.archs) else ""
        reason = f"the matrix does not know {card.arch}{newer or ', so neither whether code of ' + name + ' runs on it'}"
        return _unknown("gpu-code", reason, build.sources)
    reason = f"{name} has no code for {card_name(card)}: it holds {', '.join(build.archs) or 'none'}"
    return _rejected("gpu-code", reason, sources)


def _code_unknown(candidate: Candidate, card: Gpu, row: Architecture | None, sources: tuple[str, ...]) -> Answer:
    name, version = framework_build(candidate), candidate.backend_release.version
    if row and row.last_backend is not None and version > row.last_backend:
        last = f"{_backend_title(candidate.backend)} {row.last_backend}"
        reason = f"{name} cannot have code for {card_name(card)}: {last} was the last that made any"
        return _rejected("gpu-code", reason, sources)
    return _unknown(
        "gpu-code", f"which code {name} holds is not known, so neither is whether it runs on {card_name(card)}", sources
    )


_CODE = re.compile(r"sm_(\d+)(\d)([af]?)\Z", re.ASCII)


@lru_cache(maxsize=1024)
def _capability(arch: str) -> tuple[int, int, str] | None:
    """The major and minor compute capability and the feature letter: sm_90a gives (9, 0, "a")."""
    found = _CODE.match(arch)
    return (int(found[1]), int(found[2]), found[3]) if found else None


def _newer_than_all(arch: str, codes: Iterable[str]) -> bool:
    mine = _capability(arch)
    known = [found[:2] for code in codes if (found := _capability(code))]
    return mine is not None and bool(known) and mine[:2] > max(known)


def _older_than_all(arch: str, codes: Iterable[str]) -> bool:
    mine = _capability(arch)
    known = [found[:2] for code in codes if (found := _capability(code))]
    return mine is not None and bool(known) and mine[:2] < min(known)


def _code(matrix: Matrix, backend: Backend, build: Build, release: BackendRelease, arch: str) -> tuple[str, str]:
    """How a build's code runs on an architecture, and the code that runs natively; worked out once for a matrix."""
    codes = build.archs or ()
    key = (backend.code_rule, codes, build.ptx, str(release.version), arch)
    known = rows(matrix).code
    if key not in known:
        if len(known) > 16384:
            known.clear()
        known[key] = (
            code_for(matrix.archs, arch, backend.code_rule, codes, build.ptx, release.version),
            native_code(matrix.archs, arch, backend.code_rule, codes, release.version),
        )
    return known[key]


def code_for(
    archs: Mapping[str, Architecture], arch: str, rule: str, codes: tuple[str, ...], ptx: tuple[str, ...], version: Dotted
) -> str:
    """How compiled code runs on an architecture: "native", "ptx" (translated by the driver) or "" (not at all)."""
    if native_code(archs, arch, rule, codes, version):
        return "native"
    device = _capability(arch)
    if rule != "cuda" or arch not in archs or device is None:
        return ""
    # PTX is translated upwards over every border of generations; code with a feature letter is not portable.
    sources = [found for each in ptx if (found := _capability(each))]
    return "ptx" if any(found[:2] <= device[:2] and not found[2] for found in sources) else ""


def native_code(archs: Mapping[str, Architecture], arch: str, rule: str, codes: tuple[str, ...], version: Dotted) -> str:
    """The best of the compiled codes that runs on an architecture as it is; "" where none does."""
    if arch in codes:
        return arch
    if rule != "cuda" or arch not in archs:
        return ""
    fitting = (code for code in codes if _runs_on(archs, code, arch, version))
    return max(fitting, key=lambda code: _capability(code) or (0, 0, ""), default="")


def _runs_on(archs: Mapping[str, Architecture], code: str, arch: str, version: Dotted) -> bool:
    made_for, device = _capability(code), _capability(arch)
    if made_for is None or device is None:
        return False
    if made_for[2] == "a":  # sm_90a is for 9.0 alone
        return made_for[:2] == device[:2]
    # Some architectures are neighbours of a generation without sharing its binary code (the Tegra ones): only code made for
    # them runs there, until a toolkit lifts that, and code made for them runs nowhere else.
    row = archs[arch]
    if row.runs_code_of is not None and code in row.runs_code_of:
        return True
    if row.runs_code_of is not None and (row.exact_until is None or version < row.exact_until):
        return False
    own = archs.get(code)
    if own is not None and own.runs_code_of is not None:
        return False
    return made_for[0] == device[0] and made_for[1] <= device[1]


def jetson(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether a Jetson is one that the common wheels are made for: before Thor, it took NVIDIA's own ones for its JetPack."""
    backend, build = candidate.backend, candidate.build
    for card in cards(backend, target):
        if backend.vendor != "nvidia" or not is_board(card) or card.arch in (build.archs or ()):
            continue
        row = matrix.archs.get(card.arch)
        sources = row.sources if row else build.sources
        own = "the wheels that NVIDIA makes for it lie on an index of their own, which the matrix does not hold"
        if _driver(candidate, target)[1] is not None:
            return _community("jetson", f"{card_name(card)} is a Jetson: {own}", sources)
        driver = f"whether the driver of its JetPack runs {framework_build(candidate)} is not known"
        return _unknown("jetson", f"{card_name(card)} is a Jetson: {driver}; {own}", sources)
    return _fits("jetson")


def vendor_support(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the vendor promises the card for this release of its backend."""
    backend, release, build = candidate.backend, candidate.backend_release, candidate.build
    if build.vendor_supported is False:
        note = f": {build.note}" if build.note else ""
        return _community("vendor-support", f"{framework_build(candidate)} is community work{note}", build.sources)
    # NVIDIA promises every card that a toolkit compiles for; who ships exact code per chip keeps a list instead.
    if backend.code_rule != "exact" and release.archs is None:
        return _fits("vendor-support")
    answer = _fits("vendor-support")
    for card in cards(backend, target):
        if release.archs is None:
            reason = f"whether {vendor_title(backend.vendor)} supports {card_name(card)} with {toolkit(candidate)} is not known"
            return _community("vendor-support", reason, release.sources)
        how, sources = _promised(candidate, card, target, matrix)
        if how == "deprecated":
            reason = f"{vendor_title(backend.vendor)} calls {card_name(card)} deprecated in {toolkit(candidate)}"
            answer = Answer(rule="vendor-support", kind=Kind.FITS, reason=reason, sources=sources)
        elif not release.archs and not release.deprecated_archs:
            reason = f"{vendor_title(backend.vendor)} publishes no list of the cards that {toolkit(candidate)} serves"
            return _community("vendor-support", reason, release.sources)
        elif not how:
            reason = f"{card_name(card)} is not on {vendor_title(backend.vendor)}'s list for {toolkit(candidate)}"
            row = matrix.archs.get(card.arch)
            note = f" ({row.note})" if row and row.note else ""
            return _community("vendor-support", f"{reason}{note}", sources)
    return answer


def _promised(candidate: Candidate, card: Gpu, target: Target, matrix: Matrix) -> tuple[str, tuple[str, ...]]:
    """How the vendor lists a card: "listed", "deprecated" or "" for not at all; and the sources that say so."""
    release = candidate.backend_release
    lists = release.lists or release.version
    product = product_name(card) if candidate.backend.promises else ""
    row = rows(matrix).promise(candidate.backend, product, target.platform.os) if product else None
    if row is not None:
        if row.deprecated and row.deprecated[0] <= lists <= row.deprecated[1]:
            return "deprecated", row.sources
        held = row.first is not None and row.last is not None and row.first <= lists <= row.last
        return "listed" if held else "", row.sources
    if card.arch in release.deprecated_archs:
        return "deprecated", release.sources
    return "listed" if card.arch in (release.archs or ()) else "", release.sources


# ---- the driver --------------------------------------------------------------------------------------------------


_NO_DRIVER = DriverFacts()
_number = lru_cache(maxsize=4096)(dotted)


def _driver(candidate: Candidate, target: Target) -> tuple[DriverFacts, Dotted | None]:
    facts = target.drivers.get(candidate.backend.vendor) or _NO_DRIVER
    return facts, _number(facts.kernel)


def _driver_name(candidate: Candidate, target: Target) -> str:
    # Inside WSL2 the kernel driver is the one of the Windows host, with Windows' numbers.
    return "the Windows driver" if target.platform.os is Os.WSL2 else "the driver"


def _update(candidate: Candidate, target: Target, floor: Dotted) -> Change:
    return Change(kind="driver", text=f"update {_driver_name(candidate, target)} to {floor} or newer", value=str(floor))


def tag_floor(release: BackendRelease, os: Os) -> Dotted | None:
    """The driver that wheels of a tag need on a system."""
    return release.min_driver.get(os) or (release.min_driver.get(Os.WINDOWS) if os is Os.WSL2 else None)


def own_driver(matrix: Matrix, backend: Backend, version: Dotted, os: Os) -> tuple[Dotted | None, tuple[str, ...]]:
    """The driver that a toolkit came with, or its branch where only that is known; None where neither is."""
    known = rows(matrix).drivers
    key = (backend.name, str(version), str(os))
    if key not in known:
        known[key] = _own_driver(backend, version, os)
    return known[key]


def _own_driver(backend: Backend, version: Dotted, os: Os) -> tuple[Dotted | None, tuple[str, ...]]:
    for release in backend.releases:
        if release.version == version:
            found = release.toolkit_driver.get(os) or (release.toolkit_driver.get(Os.WINDOWS) if os is Os.WSL2 else None)
            if found is not None:
                return found, release.sources
    served = [(branch.max_backend, branch) for branch in backend.branches if branch.max_backend is not None]
    newer = min((b for newest, b in served if newest >= version), key=lambda b: b.branch.key, default=None)
    if newer is None:
        return None, ()
    # Without an older branch beside it, the first one of the table need not be the first that served.
    bounded = newer.max_backend == version or any(newest < version for newest, _ in served)
    return (newer.branch, newer.sources) if bounded else (None, ())


def driver_present(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the cards are in the hands of a driver that can compute."""
    backend = candidate.backend
    modules = modules_of(matrix, backend.vendor)
    if not modules or target.platform.os is not Os.LINUX:
        return _fits("driver-present")
    for card in cards(backend, target):
        if card.kernel_driver in ("", *modules):
            continue
        need = needed_driver(candidate, target, matrix)
        state = "no kernel driver" if card.kernel_driver == NO_MODULE else f"the kernel driver {card.kernel_driver}"
        wanted = " or ".join(modules) + (f" {need} or newer" if need else "")
        reason = f"{card_name(card)} has {state}; {toolkit(candidate)} needs {wanted}"
        text = f"install {vendor_title(backend.vendor)}'s driver" + (f" {need} or newer" if need else "")
        return _rejected(
            "driver-present",
            reason,
            candidate.backend_release.sources,
            Change(kind="driver", text=text, value=str(need or "")),
            need,
        )
    return _fits("driver-present")


def needed_driver(candidate: Candidate, target: Target, matrix: Matrix) -> Dotted | None:
    """The strictest floor for this candidate on this machine."""
    floors = [
        answer.need_driver
        for answer in (rule(candidate, target, matrix, None) for rule in (driver_floor, driver_knows_gpu, driver_translates))
        if answer.need_driver is not None
    ]
    return max(floors, key=lambda floor: floor.key, default=None)


def driver_floor(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the kernel driver reaches the floor of the wheel's tag. For CUDA that is the floor of its major version."""
    release = candidate.backend_release
    floor = tag_floor(release, target.platform.os)
    if floor is None and target.platform.os is Os.WSL2 and candidate.backend.vendor and not _lists_wsl2(candidate, target):
        # There the card is reached through the Windows driver; a backend that states no floor for it may not work at all.
        reason = f"whether {_backend_title(candidate.backend)} wheels work inside WSL2 is not known"
        return _unknown("driver-floor", reason, release.sources)
    if floor is None:
        return _fits("driver-floor")
    _, have = _driver(candidate, target)
    if have is not None and have < floor:
        reason = (
            f"driver {have} is older than {floor}, which {toolkit(candidate)} wheels need on {_OS_TITLES[target.platform.os]}"
        )
        return _rejected("driver-floor", reason, release.sources, _update(candidate, target, floor), floor)
    if have is not None:
        reason = f"driver {have} reaches {floor}, the floor of {toolkit(candidate)} wheels"
    elif target.platform.os is Os.LINUX and candidate.backend.vendor == "amd":
        # amdgpu is part of the kernel, and there it has no version of its own.
        reason = f"{toolkit(candidate)} wheels need the kernel's own amdgpu driver, or {floor} or newer of AMD's packages"
    else:
        reason = f"{toolkit(candidate)} wheels need driver {floor} or newer"
    return Answer(rule="driver-floor", kind=Kind.FITS, reason=reason, sources=release.sources, need_driver=floor)


def _lists_wsl2(candidate: Candidate, target: Target) -> bool:
    """Whether the framework lists WSL2 for a build and all cards."""
    systems = candidate.build.systems
    lists = [systems.get(card.arch, systems.get("other", ())) for card in cards(candidate.backend, target)]
    return bool(lists) and all(any(each.startswith("wsl2-") for each in listed) for listed in lists)


def driver_knows_gpu(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the kernel driver is new enough to drive the cards at all, whatever code the wheel holds."""
    backend = candidate.backend
    if backend.code_rule != "cuda":
        return _fits("driver-knows-gpu")
    _, have = _driver(candidate, target)
    strictest: Answer | None = None
    for card in cards(backend, target):
        row = _first_known(candidate, card, matrix)
        if row is None or row.min_backend is None:
            continue
        floor, sources = own_driver(matrix, backend, row.min_backend, target.platform.os)
        if floor is None or (strictest and strictest.need_driver and floor <= strictest.need_driver):
            continue
        first = f"the first is {floor}, of {_backend_title(backend)} {row.min_backend}"
        if row.name != card.arch:
            first = f"even {row.name} takes {floor}, of {_backend_title(backend)} {row.min_backend}"
        if have is not None and have < floor:
            reason = f"driver {have} does not know {card_name(card)}: {first}"
            strictest = _rejected("driver-knows-gpu", reason, row.sources + sources, _update(candidate, target, floor), floor)
        else:
            reason = f"{card_name(card)} needs a driver that knows it: {first}"
            strictest = Answer(
                rule="driver-knows-gpu", kind=Kind.FITS, reason=reason, sources=row.sources + sources, need_driver=floor
            )
    return strictest or _fits("driver-knows-gpu")


def _first_known(candidate: Candidate, card: Gpu, matrix: Matrix) -> Architecture | None:
    """The row that says since when drivers know a card: its own, or that of the older architecture whose code it would run."""
    row = matrix.archs.get(card.arch)
    build = candidate.build
    if row is None or row.min_backend is not None or not build.archs:
        return row
    _, code = _code(matrix, candidate.backend, build, candidate.backend_release, card.arch)
    return matrix.archs.get(code, row)


def driver_translates(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the driver can translate the wheel's PTX, where only that serves: minor-version compatibility does not cover it."""
    backend, build, release = candidate.backend, candidate.build, candidate.backend_release
    if backend.code_rule != "cuda" or not build.ptx or build.archs is None:
        return _fits("driver-translates")
    _, have = _driver(candidate, target)
    for card in cards(backend, target):
        if _code(matrix, backend, build, release, card.arch)[0] != "ptx":
            continue
        floor, sources = own_driver(matrix, backend, release.version, target.platform.os)
        if floor is None:
            return _unknown(
                "driver-translates", f"which driver translates the PTX of {toolkit(candidate)} is not known", release.sources
            )
        if have is not None and have < floor:
            what = f"the PTX of {toolkit(candidate)} for {card_name(card)}"
            reason = f"driver {have} cannot translate {what}: that takes the toolkit's own driver, {floor}"
            return _rejected("driver-translates", reason, sources, _update(candidate, target, floor), floor)
        reason = f"translating the PTX of {toolkit(candidate)} takes the toolkit's own driver, {floor} or newer"
        return Answer(rule="driver-translates", kind=Kind.FITS, reason=reason, sources=sources, need_driver=floor)
    return _fits("driver-translates")


def driver_dropped(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the driver's branch still drives the cards."""
    backend = candidate.backend
    _, have = _driver(candidate, target)
    if have is None or not backend.branches:
        return _fits("driver-dropped")
    for card in cards(backend, target):
        for branch in backend.branches:
            if card.arch in branch.dropped and have >= branch.branch:
                last = max(
                    (b.branch for b in backend.branches if b.branch < branch.branch), key=lambda each: each.key, default=None
                )
                reason = f"driver {have} no longer drives {card_name(card)}: branch {branch.branch} dropped it"
                if last is None:
                    return _rejected("driver-dropped", reason, branch.sources)
                change = Change(kind="driver", text=f"use a {last} driver", value=str(last))
                return _rejected("driver-dropped", f"{reason}, {last} is the last that does", branch.sources, change)
    return _fits("driver-dropped")


def driver_window(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the vendor tested this user space with so new a kernel driver."""
    newest = candidate.backend_release.max_driver.get(target.platform.os)
    _, have = _driver(candidate, target)
    if newest is None or have is None or _within(have, newest):
        return _fits("driver-window")
    vendor = vendor_title(candidate.backend.vendor)
    reason = f"kernel driver {have} is newer than {newest}, the last that {vendor} tested with {toolkit(candidate)}"
    return _community("driver-window", reason, candidate.backend_release.sources)


def _within(have: Dotted, line: Dotted) -> bool:
    """Whether a driver is of a line or older: "30.10.2" belongs to the line "30.10", and "6.4" is beyond the line "6.0"."""
    # The zeros that a key leaves out tell how long the line's own number is.
    size = line.count(".") + 1
    padded = (*have.key, *(0,) * size)[:size]
    return padded <= (*line.key, *(0,) * size)[:size]


def driver_tested(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the driver is the one that the backend's release came with, where the vendor states no minimum."""
    tested = candidate.backend_release.tested_driver.get(target.platform.os)
    facts, _ = _driver(candidate, target)
    if not tested:
        if facts.kernel and any(release.tested_driver for release in candidate.backend.releases):
            reason = f"no source says which driver {toolkit(candidate)} was tested with; this machine has {facts.kernel}"
            return _community("driver-tested", reason, candidate.backend_release.sources)
        return _fits("driver-tested")
    together = f"{toolkit(candidate)} was released and tested with driver {tested}; a minimum is not stated"
    sources = candidate.backend_release.sources
    if facts.kernel and not _same_driver(tested, facts.kernel):
        return _community("driver-tested", f"{together}, and this machine has {facts.kernel}", sources)
    return Answer(rule="driver-tested", kind=Kind.FITS, reason=together, sources=sources)


def driver_behind(candidate: Candidate, target: Target) -> bool:
    """Whether the driver is older than the one that the backend's release came with, or than that of the release before it."""
    facts, have = _driver(candidate, target)
    if have is None or (
        not candidate.backend_release.tested_driver and not any(r.tested_driver for r in candidate.backend.releases)
    ):
        return False
    known = [each for each in candidate.backend.releases if each.version <= candidate.backend_release.version]
    tested = [text for each in known if (text := each.tested_driver.get(target.platform.os))]
    if not tested or _same_driver(tested[-1], facts.kernel):
        return False
    try:
        return Dotted(facts.kernel) < Dotted(tested[-1])
    except ValueError:  # a driver that is named otherwise than by numbers
        return False


def _same_driver(tested: str, have: str) -> bool:
    """Whether two texts name one driver, of which either may leave out the build: 1.22.0-740 is of 1.22.0."""
    a, b = sorted((tested.lower().removeprefix("v"), have.lower().removeprefix("v")), key=len)
    return b == a or b.startswith((f"{a}.", f"{a}-"))


def toolkit_installed(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the runtime on the machine is the one that the build was made for, where wheels bring none along."""
    if not candidate.backend.host_toolkit or candidate.accelerator is None:
        return _fits("toolkit-installed")
    facts, _ = _driver(candidate, target)
    wanted, sources = toolkit(candidate), candidate.build.sources
    have = facts.toolkit and re.match(r"[0-9][\w.-]*", facts.toolkit)
    if not have:
        reason = f"{framework_build(candidate)} takes {wanted} from the machine: its wheels bring no runtime along"
        return Answer(rule="toolkit-installed", kind=Kind.FITS, reason=reason, sources=sources)
    title = _backend_title(candidate.backend)
    if _same_driver(str(candidate.backend_release.version), have[0]):
        return Answer(rule="toolkit-installed", kind=Kind.FITS, reason=f"{title} {have[0]} is installed", sources=sources)
    reason = f"{framework_build(candidate)} is paired with {wanted}; this machine has {title} {have[0]}"
    change = Change(kind="toolkit", text=f"install {wanted}", value=str(candidate.backend_release.version))
    return _rejected("toolkit-installed", reason, sources, change)


def kernel_module(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the loaded module is of the kind, open or proprietary, that the cards can use."""
    facts, _ = _driver(candidate, target)
    kind = module_kind(facts.license)
    answer = _fits("kernel-module")
    told: dict[str, str] = {}
    for card in cards(candidate.backend, target):
        row = matrix.archs.get(card.arch)
        needed, what = (row.module, row.family) if row else ("", "")
        if row and row.own_cpu_module and processor(card):
            needed, what = row.own_cpu_module, f"{row.family} beside a processor of its own"
        if row is None or needed not in ("open", "proprietary"):
            continue
        only = f"{card_name(card)} is {what}, which works only with the {needed} kernel module"
        told.setdefault(needed, only)
        if not kind and len(told) > 1 and target.platform.os is Os.LINUX:
            return _rejected("kernel-module", f"{'; '.join(told.values())}: no driver is both", row.sources)
        if kind and kind != needed:
            reason = f"{only}; the loaded one is {kind} (license {facts.license})"
            change = Change(kind="driver", text=f"install the {needed} kernel module of the driver", value=needed)
            return _rejected("kernel-module", reason, row.sources, change)
        if not kind and target.platform.os is Os.LINUX:
            answer = Answer(rule="kernel-module", kind=Kind.FITS, reason=only, sources=row.sources)
    return answer


def module_kind(text: str) -> str:
    """The kind of NVIDIA's kernel module that has this license; "" where it cannot be told."""
    if text.strip().upper() == "NVIDIA":
        return "proprietary"
    return "open" if "MIT" in text or "GPL" in text else ""


# ---- what can be had ---------------------------------------------------------------------------------------------


def offered(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Answer:
    """Whether the package sources of this machine can deliver the wheels of the framework and of the companions asked for."""
    if offers is None:
        return _fits("offered")
    own = index_of(candidate.framework, candidate.build)
    wanted = {package_of(candidate): (f"{candidate.release.version}{local_version(candidate.build)}", own)}
    wanted |= {name: (companion_version(matrix, candidate, name, offers) or "", own) for name in target.extras}
    wanted |= {name: (pin.version, pin.index or own) for name, pin in candidate.build.packages.items()}
    lacking = {
        f"{name} {text}": where
        for name, (text, where) in wanted.items()
        # What comes by a vendor's own way is on no index; the stage that installs says what to do about it.
        if text and where != "vendor" and not _had(offers, name, text, candidate)
    }
    if not lacking:
        return _fits("offered")
    missing, index = list(lacking), next(iter(lacking.values()))
    if offers.indexes.get(index):
        where = f"{index} does not have it"
    else:
        where = f"{index} could not be reached" if index in offers.indexes else f"{index} was not asked"
    places = f"; looked at {', '.join(offers.places)}" if offers.places else ""
    reason = f"{' and '.join(missing)} for Python {candidate.python} cannot be had here: {where}{places}"
    return _rejected("offered", reason)


def companion_version(matrix: Matrix, candidate: Candidate, name: str, offers: Offers | None) -> str | None:
    """The version of a companion to install; where its local part was not known, the build's own if the sources have that."""
    text = companion_pin(matrix, candidate, name)
    own = f"{text}{local_version(candidate.build)}"
    return own if text and "+" not in text and offers and _had(offers, name, own, candidate) else text


def _had(offers: Offers, name: str, version: str, candidate: Candidate) -> bool:
    wheels = _wheels(offers).get((_normal(name), version.lower()), ())
    return any(_tag_fits(tag, candidate.python, candidate.platform) for wheel in wheels for tag in wheel.tags)


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


_indexed: list[tuple[Offers, dict[tuple[str, str], list[Wheel]]]] = []


def _wheels(offers: Offers) -> dict[tuple[str, str], list[Wheel]]:
    """The wheels by name and version; kept for the last offers, since every candidate asks."""
    if not _indexed or _indexed[0][0] is not offers:
        found: dict[tuple[str, str], list[Wheel]] = {}
        for wheel in offers.wheels:
            found.setdefault((_normal(wheel.name), wheel.version.lower()), []).append(wheel)
        _indexed[:] = [(offers, found)]
    return _indexed[0][1]


_LEGACY_GLIBC = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}  # PEP 600


@lru_cache(maxsize=8192)
def _tag_fits(tag: str, python: str, platform: Platform) -> bool:
    """Whether a wheel with this tag installs for a Python on a platform."""
    parts = tag.split("-", 2)
    if len(parts) != 3:
        return False
    interpreter, abi, where = parts
    number = python.removesuffix("t").replace(".", "")
    own = f"cp{number}t" if python.endswith("t") else f"cp{number}"
    pythonic = interpreter in (f"cp{number}", "py3", f"py{number}") and abi in (own, "none")
    stable = (
        abi == "abi3"
        and not python.endswith("t")
        and interpreter.startswith("cp3")
        and _minor(interpreter) <= int(number[1:] or 0)
    )
    return (pythonic or stable) and _platform_fits(where, platform)


def _minor(interpreter: str) -> int:
    text = interpreter.removeprefix("cp3")
    return int(text) if text.isdecimal() else 10_000


def _platform_fits(where: str, platform: Platform) -> bool:
    if where == "any":
        return True
    if platform.family == "windows":
        return where == {"x86_64": "win_amd64", "arm64": "win_arm64"}.get(platform.arch)
    if platform.family == "macos":
        return where.startswith("macosx_") and where.endswith((f"_{platform.arch}", "_universal2"))
    if platform.libc == "musl" or not where.endswith(f"_{platform.arch}"):
        return False
    name = where.removesuffix(f"_{platform.arch}")
    if name == "linux":
        return True
    floor = dotted(_LEGACY_GLIBC.get(name) or name.removeprefix("manylinux_").replace("_", "."))
    return name.startswith("manylinux") and floor is not None and (platform.glibc is None or platform.glibc >= floor)


# Written out in the order in which a person would ask; every one is put to every candidate.
RULES: tuple[Rule, ...] = (
    os_family,
    os_release,
    os_kernel,
    glibc,
    cpu_arch,
    published,
    python,
    libraries,
    companions,
    gpu_vendor,
    asked_for,
    gpu_code,
    jetson,
    vendor_support,
    driver_present,
    driver_floor,
    driver_knows_gpu,
    driver_translates,
    driver_dropped,
    driver_window,
    driver_tested,
    toolkit_installed,
    kernel_module,
    offered,
)
