"""Decides what an environment is made from: machine, wish, what the package sources offer, and the Pythons that are here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envkit.errors import Unavailable, Unresolvable
from envkit.model import Facts, Judged, Matrix, Plan, Resolution, Verdict, Wish
from envkit.resolve import conflict_document, plan_of, resolve
from envkit.sources import Found, Sources, look, mirror_hint, redact
from envkit.venv.pythons import Interpreter, choices

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """A plan, the Python to make its environment with, and where its packages lie."""

    plan: Plan
    python: Interpreter
    found: Found


def decide(matrix: Matrix, wish: Wish, facts: Facts, sources: Sources, uv: Path, tell: Tell) -> Decision:
    """The plan for this machine, made of wheels that can be had with a Python that is here.

    Raises Unresolvable where the machine or the wish leave nothing (before anything is asked of the network), and
    Unavailable where something would fit but can't be reached.
    """
    looked: dict[tuple[str, ...], Found] = {}
    fitting: list[tuple[Interpreter, Found]] = []
    for python, free in _candidates(matrix, wish, facts, sources, uv):
        if not any(_can_be_fetched(each, wish) for each in free.judged):
            raise _vendors_way(matrix, plan_of(free))
        key = _tags(free, wish)
        if key not in looked:
            looked[key] = _look(matrix, sources, free, key, wish, tell)
        found = looked[key]
        plan = resolve(matrix, wish, facts, found, pythons=[python.version]).plan
        if plan is not None and any(package.index == "vendor" for package in plan.packages):
            raise _vendors_way(matrix, plan)
        if plan is not None:
            return Decision(plan=plan, python=python, found=found)
        fitting.append((python, found))
    raise _nothing_offered(matrix, wish, facts, fitting)


def _candidates(matrix: Matrix, wish: Wish, facts: Facts, sources: Sources, uv: Path) -> Iterator[tuple[Interpreter, Resolution]]:
    """The Pythons for which something fits this machine, whatever can be had; at last one that would have to be downloaded."""
    here: list[str] = []
    fits = False
    for python in choices(uv, wish.python):
        here.append(python.version)
        resolution = resolve(matrix, wish, facts, pythons=[python.version])
        if resolution.plan is not None:
            fits = True
            yield python, resolution
    if fits and not wish.python:
        return  # a Python that is here would do; what is missing are wheels
    anywhere = _without_python(facts)
    resolution = resolve(matrix, wish, anywhere)
    if resolution.plan is None and here:
        # No Python at all would do: the reasons and the nearest changes are told of those that are here.
        resolution = resolve(matrix, wish, facts, pythons=here)
    plan = plan_of(resolution)
    if plan.python in here:
        return
    if not _may_download(sources):
        there = f"; this machine has {', '.join(here)}" if here else ""
        raise Unavailable(
            f"{plan.framework_package.requirement} needs Python {plan.python}{there}, and uv's settings forbid downloading one",
            hint=f"install Python {plan.python}, or allow uv to download it: UV_PYTHON_DOWNLOADS=automatic",
        )
    yield Interpreter(version=plan.python), resolve(matrix, wish, facts, pythons=[plan.python])


def _without_python(facts: Facts) -> Facts:
    """The facts less the Python that read them: an environment may be made with another."""
    return replace(facts, python=replace(facts.python, version=""))


def _may_download(sources: Sources) -> bool:
    setting = str(sources.environ.get("UV_PYTHON_DOWNLOADS") or sources.uv_settings.get("python-downloads", "automatic")).lower()
    return setting not in ("never", "manual", "false", "0") and not sources.offline


def _tags(resolution: Resolution, wish: Wish) -> tuple[str, ...]:
    """The tags of the builds that fit the machine: no other index has to be asked."""
    return tuple(dict.fromkeys(each.candidate.build.tag for each in resolution.judged if _fits(each, wish)))


def _fits(judged: Judged, wish: Wish) -> bool:
    return judged.verdict in wish.accept or judged.verdict is Verdict.SUPPORTED


def _can_be_fetched(judged: Judged, wish: Wish) -> bool:
    """Whether a build fits, and all of it is on indexes."""
    build = judged.candidate.build
    return _fits(judged, wish) and "vendor" not in (build.index, *(pin.index for pin in build.packages.values()))


def _vendors_way(matrix: Matrix, plan: Plan) -> Unavailable:
    """What fits is on no index: how a person gets it, as the vendor hands it out."""
    scheme = matrix.schemes[plan.scheme]
    names = " and ".join(package.requirement for package in plan.packages if package.index == "vendor")
    lines = [f"{plan.scheme}: no package index has {names}, so envkit up cannot fetch it; it comes from the vendor"]
    lines += [f"  {number}. {step}" for number, step in enumerate(scheme.install, 1)]
    way = f"or take the image that is built on the vendor's: envkit build {scheme.name}" if scheme.container else ""
    return Unavailable("\n".join(lines), hint=way or f"see what the scheme needs: envkit schemes {scheme.name}")


def _look(matrix: Matrix, sources: Sources, resolution: Resolution, tags: tuple[str, ...], wish: Wish, tell: Tell) -> Found:
    plan = plan_of(resolution)
    framework = matrix.frameworks[plan.framework_name]
    tell(f"looking where {plan.framework_package.name} can be had")
    platform = resolution.judged[0].candidate.platform
    return look(sources, framework, tags, platform=f"{platform.family}/{platform.arch}", companions=wish.extras)


def look_again(matrix: Matrix, plan: Plan, sources: Sources) -> Found:
    """Where the packages of a recorded plan lie now."""
    framework = matrix.frameworks[plan.framework_name]
    own = plan.framework_package
    others = [package.name for package in plan.packages if package.index == own.index != "pypi" and package is not own]
    system, machine = plan.scheme.partition("-")[0], plan.platform.rpartition("/")[2]
    return look(sources, framework, [plan.backend_tag], platform=f"{system}/{machine}", companions=others)


def _nothing_offered(
    matrix: Matrix, wish: Wish, facts: Facts, fitting: list[tuple[Interpreter, Found]]
) -> Unavailable | Unresolvable:
    """Something fits the machine, and nothing of it can be had: unreachable, or really not there."""
    versions = [python.version for python, _ in fitting]
    best = plan_of(resolve(matrix, wish, facts, pythons=versions))
    faults: dict[str, str] = {}
    places: dict[str, None] = {}
    unasked: dict[str, str] = {}
    for _, found in fitting:
        faults |= found.faults
        # An index that was asked stands among the places, with what it answered.
        unasked |= {url: why for url, why in found.faults.items() if url not in found.indexes}
        places |= dict.fromkeys(found.places)
    wanted = (
        ", ".join(package.requirement for package in best.packages if package.index != "pypi")
        or best.framework_package.requirement
    )
    lines = [f"{wanted} for Python {' or '.join(versions)} can't be had here", *(f"  looked at {place}" for place in places)]
    lines += [f"  {redact(url)}: {why}" for url, why in unasked.items()]
    if faults:
        return Unavailable(
            "\n".join(lines),
            hint=mirror_hint(best.framework_package.index),
        )
    resolution = resolve(matrix, wish, facts, fitting[0][1], pythons=versions)
    document = conflict_document(resolution) if resolution.plan is None else None
    return Unresolvable("\n".join(lines), document=document, hint="ask for another release (--torch), or add a place that has it")


# ---- what a plan depends on --------------------------------------------------------------------------------------


def wish_document(wish: Wish) -> dict[str, Any]:
    """A wish as the marker keeps it: what was asked for and nothing else."""
    document = {key: value for key, value in asdict(wish).items() if value}
    document["accept"] = [str(verdict) for verdict in wish.accept]
    if wish.accept == Wish().accept:
        del document["accept"]
    if "extras" in document:
        document["extras"] = list(wish.extras)
    return document


def read_wish(document: Mapping[str, Any]) -> Wish:
    """The wish of a marker; an empty one where it can't be read."""
    try:
        values = dict(document)
        if "accept" in values:
            values["accept"] = tuple(Verdict(word) for word in values["accept"])
        if "extras" in values:
            values["extras"] = tuple(values["extras"])
        return Wish(**values)
    except (TypeError, ValueError):
        return Wish()


def machine_document(facts: Facts) -> dict[str, Any]:
    """The facts that a plan depends on. When one of them changes, the plan is made anew."""
    machine = facts.machine
    drivers = {"": machine.driver, **machine.drivers}
    return {
        "os": machine.os_id or machine.os,
        "arch": machine.arch,
        "glibc": machine.glibc,
        "wsl": bool(machine.wsl),
        "accelerators": sorted([gpu.vendor, gpu.pci_id, gpu.arch] for gpu in machine.gpus or ()),
        "drivers": sorted([vendor, driver.kernel] for vendor, driver in drivers.items() if driver.kernel),
    }
