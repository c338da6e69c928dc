"""Resolutions in words, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envkit.model import Build, Framework, Judged, Kind, Matrix, Plan, Resolution
from envkit.plan import digest
from envkit.resolve.documents import because, decisive
from envkit.resolve.plans import objections
from envkit.resolve.rules import framework_build, toolkit
from envkit.resolve.target import Question
from envkit.resolve.wishes import matches, version

_MOST_REASONS = 5
_MANY = 3  # schemes that one line tells of together


def plan_text(plan: Plan) -> str:
    """A plan, its packages, its reasons and their sources."""
    pin = plan.framework_package
    where = plan.accelerator_name or plan.accelerator_arch
    arch = f" ({plan.accelerator_arch})" if plan.accelerator_arch and plan.accelerator_arch != where else ""
    rows: list[tuple[str, str]] = [
        ("verdict", f"{plan.verdict} (evidence: {plan.evidence})"),
        ("platform", plan.platform),
        ("backend", _backend(plan)),
        ("python", plan.python),
    ]
    if plan.driver_need or plan.driver_have:
        rows.append(("driver", f"have {plan.driver_have or 'not known'}, need {plan.driver_need or 'no particular one'}"))
    width = max(len(package.requirement) for package in plan.packages)
    rows += [("packages" if not number else "", f"{p.requirement:<{width}}  {p.index}") for number, p in enumerate(plan.packages)]
    rows += [("env" if not number else "", f"{key}={value}") for number, (key, value) in enumerate(sorted(plan.env.items()))]
    if plan.container:
        rows.append(("image base", plan.container.base))
    rows.append(("digest", digest(plan)))
    lines = [f"{plan.scheme}: {pin.name} {pin.version}" + (f" on {where}{arch}" if where else "")]
    lines += ["", *(f"  {name:<11}{text}".rstrip() for name, text in rows)]
    lines += _list("why", plan.reasons) + _list("sources", plan.sources)
    return "\n".join(lines)


def _backend(plan: Plan) -> str:
    # Backends without releases of their own, such as the CPU, have one row of version 0.
    version = f" {plan.backend_version}" if plan.backend_version != "0" else ""
    return f"{plan.backend_name}{version}" + (f" ({plan.backend_tag})" if plan.backend_tag != plan.backend_name else "")


def conflict_text(resolution: Resolution) -> str:
    """Why nothing fits, equal reasons told once, and what would fit."""
    lines = [f"nothing fits: {resolution.asked}", *_list("why not", reason_groups(resolution))]
    if resolution.judged:
        lines += _list("besides", resolution.notes)
    if not resolution.nearest:
        return "\n".join([*lines, "", "no single change would make anything fit"])
    lines += ["", "what would fit, the least change first"]
    for number, each in enumerate(resolution.nearest, 1):
        plan = each.plan
        lines.append(f"  {number}. {each.change.text}")
        pin = plan.framework_package
        lines.append(f"     gives {pin.name} {pin.version} ({plan.scheme}, Python {plan.python}), {plan.verdict}")
    return "\n".join(lines)


def candidates_text(resolution: Resolution) -> str:
    """Every candidate in one line with what decided its verdict."""
    judged = resolution.judged
    width = max((len(each.candidate.label) for each in judged), default=0)
    lines = [f"{len(judged)} candidates for {resolution.asked}", ""]
    for each in judged:
        why = because(each) if decisive(each) else ""
        lines.append(f"  {each.verdict:<12} {each.candidate.label:<{width}}  {why}".rstrip())
    return "\n".join([*lines, *_list("notes", resolution.notes)])


def reason_groups(resolution: Resolution) -> list[str]:
    """Each reason once, scheme by scheme, with the candidates that it keeps out."""
    if not resolution.judged:
        return list(resolution.notes)
    schemes: dict[str, list[Judged]] = {}
    for each in resolution.judged:
        schemes.setdefault(each.candidate.scheme.name, []).append(each)
    # The scheme that comes closest is of most interest, one for another vendor's cards of least.
    ordered = sorted(schemes.values(), key=lambda members: min(len(objections(each)) for each in members) + _remote(members))
    other = [members for members in ordered if _for_other_devices(members)]
    if len(other) < _MANY:
        other = []
    lines = [line for members in ordered if members not in other for line in _lines(members)]
    if other:
        names = sorted(members[0].candidate.scheme.name for members in other)
        why = next(a.reason for a in other[0][0].answers if a.rule == "gpu-vendor" and a.kind is Kind.REJECTED)
        there = why.partition("; ")[2]
        lines.append(f"{', '.join(names[:-1])} and {names[-1]} need other devices; {there}")
    return lines


def _for_other_devices(members: Sequence[Judged]) -> bool:
    """Whether a scheme's backend has nothing to compute on here."""
    return all(any(a.rule == "gpu-vendor" and a.kind is Kind.REJECTED for a in each.answers) for each in members)


def _remote(members: Sequence[Judged]) -> int:
    return 100 if all({"gpu-vendor", "asked-for", "os-family"} & {a.rule for a in objections(each)} for each in members) else 0


def _lines(members: Sequence[Judged]) -> list[str]:
    name = members[0].candidate.scheme.name
    groups: dict[str, list[Judged]] = {}
    for each in members:
        for answer in decisive(each):
            groups.setdefault(_general(answer.reason, each), []).append(each)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    # What keeps all of a scheme out says enough about it, unless it is one of several things that one could change.
    if len(ordered[0][1]) == len(members) and _remote(members):
        return [ordered[0][0] if ordered[0][0].startswith(f"{name} ") else f"{name}: {ordered[0][0]}"]
    lines = [f"{name}, {_named(group, members)}: {reason}" for reason, group in ordered[:_MOST_REASONS]]
    left = len(ordered) - _MOST_REASONS
    more = f"{name}: and {left} more {'reason' if left == 1 else 'reasons'} (--all lists every candidate)"
    return [*lines, more] if left > 0 else lines


def _general(reason: str, judged: Judged) -> str:
    """The reason without what makes it another one for each build: names and versions that the line gives anyway."""
    plain = reason.replace(framework_build(judged.candidate), "it").split(": it holds")[0]
    return plain.replace(f"{toolkit(judged.candidate)} wheels", "these wheels")


def _named(group: Sequence[Judged], members: Sequence[Judged]) -> str:
    if len(group) == len(members) > 1:
        return f"all {len(members)} builds"
    name = group[0].candidate.framework.name
    tags = list(dict.fromkeys(each.candidate.build.tag for each in sorted(group, key=_by_backend)))
    versions = sorted({each.candidate.release.version for each in group}, key=version)
    span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
    return f"{name} {span} ({', '.join(tags) if len(tags) <= 4 else f'{tags[0]} to {tags[-1]}'})"


def _by_backend(judged: Judged) -> tuple[int, ...]:
    return judged.candidate.backend_release.version.key


def nothing_to_judge(matrix: Matrix, question: Question) -> str:
    """Why the matrix has not one candidate for a question."""
    if not question.schemes:
        asked = f" for {question.backend.text}" if question.backend.text else ""
        other = f" {question.framework}" if question.framework not in ("", matrix.framework) else ""
        return f"the matrix has no{other} scheme{asked} on {question.target.platform.os}"
    frameworks = {scheme.framework for scheme in question.schemes}
    wanted = question.torch.text or "any release"
    for name in sorted(frameworks):
        framework = matrix.frameworks[name]
        known = sorted((release.version for release in framework.releases), key=version)
        fitting = [text for text in known if matches(question.torch.specifier, text)]
        if not known:
            return f"the matrix knows no release of {name}"
        if not fitting:
            return f"the matrix knows no {name} {wanted}: it has {known[0]} to {known[-1]}"
        builds = [build for build in framework.builds if any(f"{text}.".startswith(f"{build.release}.") for text in fitting)]
        # The tags of other systems would only lead astray, and among them may be the very one that was asked for.
        family = f"{question.target.platform.family}/"
        here = [build for build in builds if any(platform.startswith(family) for platform in build.platforms)]
        tags = (
            ", ".join(dict.fromkeys(build.tag for build in here if build.published is not False and not _elsewhere(build)))
            or "no builds"
        )
        elsewhere = {build.tag for build in builds} - {build.tag for build in here}
        where = f" on {question.target.platform.family}" if question.backend.tag in elsewhere else ""
        asked = question.backend.text or question.scheme
        return f"{name} {wanted} is not published for {asked}{where}: it has {tags}{_served(matrix, question, framework)}"
    return "the matrix has nothing to offer"


def _list(title: str, texts: Iterable[str]) -> list[str]:
    told = list(texts)
    return ["", title, *(f"  - {text}" for text in told)] if told else []


def _served(matrix: Matrix, question: Question, framework: Framework) -> str:
    """Which releases there are for a scheme that was named and whose builds come by another way than the framework's index."""
    if not question.scheme:
        return ""
    tags = {release.tag for release in matrix.backends[matrix.schemes[question.scheme].backend].releases}
    builds = [build for build in framework.builds if build.tag in tags and build.published]
    if not builds or not all(map(_elsewhere, builds)):
        return ""
    known = [r.version for r in framework.releases if any(f"{r.version}.".startswith(f"{build.release}.") for build in builds)]
    return f"; {question.scheme} has {', '.join(sorted(known, key=version))}"


def _elsewhere(build: Build) -> bool:
    """Whether a build is no more than the framework beside a vendor's plug-in, or comes by the vendor's own way."""
    return bool(build.packages) or build.index == "vendor"
