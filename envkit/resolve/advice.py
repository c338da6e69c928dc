"""Which schemes suit a machine, or a card that is to be bought, and what speaks for and against each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from envkit.model import Cloud, Facts, Gpu, Judged, Kind, Matrix, Os, Plan, Resolution, Scheme, Verdict, Wish
from envkit.resolve import resolve
from envkit.resolve.chinese import in_chinese
from envkit.resolve.explain import reason_groups
from envkit.resolve.plans import objections, source_texts
from envkit.resolve.target import cards_text, memory_of, read

TASKS = ("train", "infer")
LANGUAGES = ("en", "zh")

_ANY = tuple(verdict for verdict in Verdict if verdict is not Verdict.UNSUPPORTED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One reason, with where it can be read."""

    text: str
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Advised:
    """One scheme, and what is to be said of it for this machine."""

    scheme: Scheme
    os: Os
    verdict: Verdict
    title: str
    for_whom: str
    plan: Plan | None = None
    pros: tuple[Point, ...] = ()
    cons: tuple[Point, ...] = ()
    cannot: tuple[Point, ...] = ()
    rejections: tuple[str, ...] = ()  # why there is no plan
    change: str = ""  # the least change that leads to one
    fits_task: bool = True
    other_hardware: bool = False  # it is made for devices that are not there
    sources: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether it does the task here."""
        return self.plan is not None and self.fits_task


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """The schemes, best first."""

    asked: str
    task: str
    language: str
    schemes: tuple[Advised, ...] = ()
    clouds: tuple[Cloud, ...] = ()  # what was asked for has no environment of its own
    notes: tuple[str, ...] = ()


def advise(matrix: Matrix, wish: Wish, facts: Facts | None = None, *, task: str = "train", language: str = "en") -> Advice:
    """The schemes for a machine (`facts`) or for a card (`wish.gpu`), best first, with reasons for and against.

    Without a system in the wish, a card is looked at on every system that has schemes for it. Raises UsageError where a text
    cannot be meant.
    """
    clouds = _clouds(matrix, wish.gpu)
    if clouds:
        return Advice(asked=wish.gpu.strip(), task=task, language=language, clouds=clouds)
    systems = _systems(matrix, wish, facts)
    target = read(matrix, replace(wish, os=systems[0][1]), facts).target
    cards = target.accelerators or ()
    say = in_chinese if language == "zh" else _as_it_is
    found = [
        _advised(matrix, replace(wish, scheme=scheme.name, os=text), facts, scheme, os, task, say)
        for os, text in systems
        for scheme in matrix.schemes.values()
        if scheme.os is os
    ]
    ranked = sorted(found, key=lambda each: _rank(each, matrix, cards))
    question = read(matrix, replace(wish, os=systems[0][1]), facts)
    return Advice(
        asked=say(_asked(cards, [os for os, _ in systems])),
        task=task,
        language=language,
        schemes=tuple(ranked),
        notes=tuple(say(note) for note in question.notes),
    )


# ---- what is asked -----------------------------------------------------------------------------------------------


def _clouds(matrix: Matrix, text: str) -> tuple[Cloud, ...]:
    """The accelerators without an environment of their own that a text names."""
    words = text.lower().replace("-", " ").split()
    return tuple(cloud for cloud in matrix.clouds.values() if cloud.name in words)


def _systems(matrix: Matrix, wish: Wish, facts: Facts | None) -> list[tuple[Os, str]]:
    """The systems to look at, and how a wish names each."""
    if facts is not None or wish.os.strip():
        own = read(matrix, replace(wish, gpu=wish.gpu or ("" if facts else "none")), facts).target.platform.os
        # A Windows machine can have a WSL2 at no cost; everything else would be another machine.
        return [(own, wish.os), *([(Os.WSL2, "wsl2")] if own is Os.WINDOWS else [])]
    cards = read(matrix, replace(wish, os="linux"), facts).target.accelerators or ()
    vendors = {card.vendor for card in cards}
    served = {s.os for s in matrix.schemes.values() if matrix.backends[s.backend].vendor in vendors} or {Os.LINUX}
    return [(os, str(os)) for os in Os if os in served]


def _asked(cards: tuple[Gpu, ...], systems: Iterable[Os]) -> str:
    memory = dict.fromkeys(" or ".join(f"{size:g}" for size in memory_of(card)) for card in cards)
    words = "".join(f", {sizes} GiB" for sizes in memory if sizes)
    return f"{cards_text(cards) or 'no accelerator'}{words}; {', '.join(map(str, systems))}"


# ---- one scheme --------------------------------------------------------------------------------------------------

Say = Callable[[str], str]


def _as_it_is(text: str) -> str:
    return text


def _advised(matrix: Matrix, wish: Wish, facts: Facts | None, scheme: Scheme, os: Os, task: str, say: Say) -> Advised:
    resolution = resolve(matrix, wish, facts)
    # What takes a setting, or is not known to work, is told as such; nobody is sent there unasked.
    plan = resolution.plan or resolve(matrix, replace(wish, accept=_ANY), facts).plan
    own = source_texts(matrix.sources, scheme.sources)
    fits_task = task == "infer" or scheme.task == "train"
    nearest = None if plan else next((each for each in resolution.nearest if each.change.kind != "scheme"), None)

    def written(name: str) -> tuple[Point, ...]:
        return tuple(Point(text=text, sources=own) for text in _text(scheme, name, say))

    return Advised(
        scheme=scheme,
        os=os,
        verdict=plan.verdict if plan else Verdict.UNSUPPORTED,
        title=_text(scheme, "title", say),
        for_whom=_text(scheme, "for_whom", say),
        plan=plan,
        pros=(*_spoken(_for(plan, scheme), say), *written("pros")),
        cons=(*_spoken(_against(plan, resolution, scheme, fits_task), say), *written("cons")),
        cannot=written("cannot"),
        rejections=() if plan else tuple(say(text) for text in reason_groups(resolution)),
        change=say(nearest.change.text) if nearest else "",
        fits_task=fits_task,
        other_hardware=plan is None and _for_other_hardware(resolution),
        sources=tuple(dict.fromkeys((*(plan.sources if plan else ()), *own))),
    )


def _text(scheme: Scheme, name: str, say: Say) -> str:
    """A text of the scheme in the language that is spoken."""
    own: str = getattr(scheme, name)
    return own if say is _as_it_is else scheme.zh.get(name) or own


def _spoken(points: Iterable[Point], say: Say) -> Iterator[Point]:
    return (replace(point, text=say(point.text)) for point in points)


def _for_other_hardware(resolution: Resolution) -> bool:
    """Whether nothing but other devices would do."""
    rejected = [{a.rule for a in each.answers if a.kind is Kind.REJECTED} for each in resolution.judged]
    return bool(rejected) and all("gpu-vendor" in rules for rules in rejected)


def _for(plan: Plan | None, scheme: Scheme) -> Iterator[Point]:
    if plan is None:
        return
    if plan.verdict is Verdict.SUPPORTED:
        build = f"{plan.framework_package.name} {plan.framework_package.version}"
        yield Point(text=f"{build} is supported here (evidence: {plan.evidence})", sources=plan.sources)
    if scheme.stability == "stable":
        yield Point(text="stable and maintained")
    if scheme.ecosystem == "broad":
        yield Point(text="a broad ecosystem: most libraries are made for it first")
    if scheme.multi_device == "yes" and scheme.collectives:
        yield Point(text=f"several devices work together ({scheme.collectives})")


_STABILITY = {
    "beta": "still a beta",
    "prototype": "still a prototype",
    "maintenance": "in maintenance: nothing new comes",
    "ended": "ended: there are no releases any more",
}
_VERDICTS = {
    Verdict.COMMUNITY: "works without the vendor's promise",
    Verdict.OVERRIDE: "works only with a setting",
    Verdict.UNKNOWN: "not known to work",
}
_SEVERAL = {"no": "one device only", "limited": "several devices work together only in part"}


def _against(plan: Plan | None, resolution: Resolution, scheme: Scheme, fits_task: bool) -> Iterator[Point]:
    if not fits_task:
        yield Point(text="made for inference alone: it does not train")
    if plan is not None:
        if plan.verdict in _VERDICTS:
            yield Point(text=_VERDICTS[plan.verdict])
        chosen = next((each for each in resolution.judged if _made(plan, each)), None)
        for answer in objections(chosen) if chosen else ():
            yield Point(text=answer.reason, sources=source_texts(resolution.sources, answer.sources))
        yield from (Point(text=text, sources=plan.sources) for text in plan.reasons if " was passed over: " in text)
    if scheme.stability in _STABILITY:
        yield Point(text=_STABILITY[scheme.stability])
    if scheme.ecosystem == "narrow":
        yield Point(text="a narrow ecosystem: few libraries are made for it")
    if scheme.multi_device in _SEVERAL:
        yield Point(text=_SEVERAL[scheme.multi_device])


def _made(plan: Plan, judged: Judged) -> bool:
    """Whether a plan was made of this candidate."""
    mine = judged.candidate
    return (mine.release.version, mine.build.tag, mine.python) == (plan.framework_version, plan.backend_tag, plan.python)


# ---- the order ---------------------------------------------------------------------------------------------------

_BY_STABILITY = ("stable", "", "beta", "prototype", "maintenance", "ended")
_BY_ECOSYSTEM = ("broad", "good", "", "narrow")
_BY_SEVERAL = ("yes", "limited", "", "unknown", "no")


def _rank(advised: Advised, matrix: Matrix, cards: tuple[Gpu, ...]) -> tuple[object, ...]:
    """The best first: what can do it, on the devices that are there, as well kept and as widely used as can be."""
    scheme = advised.scheme
    return (
        advised.plan is None,
        not advised.fits_task,
        advised.other_hardware,
        scheme.stability == "ended",
        _way(advised, matrix, cards),
        _BY_STABILITY.index(scheme.stability),
        advised.verdict.rank,
        _BY_ECOSYSTEM.index(scheme.ecosystem),
        _BY_SEVERAL.index(scheme.multi_device) if len(cards) > 1 else 0,
        scheme.framework != matrix.framework,
        list(Os).index(advised.os),
        scheme.name,
    )


def _way(advised: Advised, matrix: Matrix, cards: tuple[Gpu, ...]) -> int:
    """How it computes, best first: the vendor's own stack, that with a setting, any layer, the CPU, what is not known to work."""
    if advised.plan is None or not cards:
        return 0
    if advised.verdict is Verdict.UNKNOWN:
        return 4
    if not advised.plan.accelerator_arch and not advised.plan.accelerator_name:
        return 3
    if not matrix.backends[advised.scheme.backend].vendor:
        return 2
    return int(advised.verdict is Verdict.OVERRIDE)
