"""Decides what goes into an image: the plan for the container's platform, of wheels that this machine can get hold of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from envkit.errors import Unavailable, Unresolvable, UsageError
from envkit.model import Matrix, OsRelease, Plan, Resolution, Scheme, Wish
from envkit.plan import digest
from envkit.resolve import conflict_document, plan_of, resolve
from envkit.resolve.wishes import read_scheme
from envkit.sources import Found, Sources, look, mirror_hint, partners, redact

Tell = Callable[[str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What one image is made of."""

    scheme: Scheme
    platform: OsRelease
    plan: Plan
    found: Found
    partners: tuple[str, ...] = ()


def scheme_with_image(matrix: Matrix, name: str) -> tuple[Scheme, OsRelease]:
    """The scheme and the platform of its image; raises UsageError for an unknown one and for one without image."""
    read_scheme(matrix, name)
    scheme = matrix.schemes[name]
    if scheme.container is None:
        raise UsageError(
            f"{name} has no image: {scheme.no_container}",
            hint=f"on the machine itself: envkit up --scheme {name}",
        )
    return scheme, matrix.platforms[scheme.container.platform]


def decide(
    matrix: Matrix, name: str, wish: Wish, arch: str, sources: Sources, tell: Tell, *, only_look: bool = False
) -> Decision:
    """The plan for the image of a scheme.

    Raises Unresolvable where nothing fits, before anything is asked of the network, and Unavailable where something
    would fit but can't be reached. With `only_look` that is but told, and the plan is the matrix's best.
    """
    scheme, platform = scheme_with_image(matrix, name)
    wish = replace(wish, scheme=scheme.name, os=f"{platform.id}/{arch}")
    pythons = [platform.python] if platform.python else None
    free = resolve(matrix, wish, pythons=pythons)
    best = plan_of(free)
    framework = matrix.frameworks[best.framework_name]
    tags = tuple(dict.fromkeys(each.candidate.build.tag for each in free.judged if each.verdict in wish.accept))
    tell(f"looking where {best.framework_package.name} can be had")
    found = look(sources, framework, tags, companions=wish.extras)
    resolution = resolve(matrix, wish, None, found, pythons=pythons)
    plan = resolution.plan
    if plan is None or missing(plan, found):
        fault = nothing_offered(resolution, plan or best, found)
        if not only_look or not isinstance(fault, Unavailable):
            raise fault
        tell(f"warning: a build would stop here: {fault.message}")
        plan = plan or best
    return Decision(
        scheme=scheme,
        platform=platform,
        plan=without_places(plan, resolve(matrix, the_same(wish, plan), pythons=[plan.python]).plan),
        found=found,
        partners=partners(sources, plan, found),
    )


def the_same(wish: Wish, plan: Plan) -> Wish:
    """The wish that leads to this plan wherever its packages come from."""
    return replace(wish, torch=plan.framework_version, backend=plan.backend_tag, python=plan.python)


def without_places(plan: Plan, pure: Plan | None) -> Plan:
    """The plan as it may stay in an image: its reasons tell nothing of the places that this machine's settings name."""
    return pure if pure is not None and digest(pure) == digest(plan) else replace(plan, reasons=())


def missing(plan: Plan, found: Found) -> list[str]:
    """The plan's packages from indexes of their own that no source offers."""
    from packaging.utils import canonicalize_name

    return [
        package.requirement
        for package in plan.packages
        if package.index not in ("pypi", "vendor") and not found.places_of(canonicalize_name(package.name), package.version)
    ]


def nothing_offered(resolution: Resolution, best: Plan, found: Found) -> Unavailable | Unresolvable:
    """Something fits the container, and cannot be had: unreachable, or really not there."""
    own = [package.requirement for package in best.packages if package.index != "pypi"]
    wanted = ", ".join(missing(best, found) or own or [best.framework_package.requirement])
    lines = [f"{wanted} for Python {best.python} can't be had here", *(f"  looked at {place}" for place in found.places)]
    # An index that was asked stands among the places, with what it answered.
    lines += [f"  {redact(url)}: {why}" for url, why in found.faults.items() if url not in found.indexes]
    if found.faults:
        return Unavailable(
            "\n".join(lines),
            hint=mirror_hint(best.framework_package.index),
        )
    document = conflict_document(resolution) if resolution.plan is None else None
    return Unresolvable("\n".join(lines), document=document, hint="ask for another release (--torch), or add a place that has it")


def fits_container(tags: Sequence[str], python: str, arch: str) -> bool:
    """Whether a wheel with one of these tags can be installed in the container."""
    number = "cp" + python.rstrip("t").replace(".", "")
    abi = f"{number}t" if python.endswith("t") else number
    for tag in tags:
        interpreter, its_abi, where = tag.split("-", 2)
        runs = its_abi == abi or its_abi == "abi3" or (its_abi == "none" and interpreter in ("py3", number))
        if runs and (where == "any" or ("linux" in where and where.endswith(arch))):
            return True
    return False
