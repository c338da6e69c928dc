"""Resolutions in words, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from envkit.model import Judged, Matrix, Plan, Resolution
from envkit.plan import digest
from envkit.resolve.documents import because, decisive
from envkit.resolve.target import Question
from envkit.resolve.wishes import matches, version

_MOST_GROUPS = 12


def plan_text(plan: Plan) -> str:
    """A plan, its packages, its reasons and their sources."""
    pin = plan.framework_package
    where = plan.accelerator_name or plan.accelerator_arch
    arch = f" ({plan.accelerator_arch})" if plan.accelerator_arch and plan.accelerator_arch != where else ""
    rows: list[tuple[str, str]] = [
        ("verdict", f"{plan.verdict} (evidence: {plan.evidence})"),
        ("platform", plan.platform),
        ("backend", f"{plan.backend_name} {plan.backend_version} ({plan.backend_tag})"),
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
    """Each reason once, the commonest first, with the candidates that it keeps out."""
    if not resolution.judged:
        return list(resolution.notes)
    groups: dict[str, list[Judged]] = {}
    for each in resolution.judged:
        # A build's own name would make each reason another one.
        own = f"{each.candidate.framework.name} {each.candidate.label.split(' ')[1]}"
        groups.setdefault(because(each).replace(own, "it"), []).append(each)
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    lines = [f"{_named(members)}: {reason}" for reason, members in ordered[:_MOST_GROUPS]]
    left = sum(len(members) for _, members in ordered[_MOST_GROUPS:])
    return [*lines, f"and {left} more candidates for other reasons: --all lists them"] if left else lines


def _named(members: Sequence[Judged]) -> str:
    first, last = members[-1].candidate, members[0].candidate
    name = first.framework.name
    schemes = ", ".join(dict.fromkeys(each.candidate.scheme.name for each in members))
    tags = list(dict.fromkeys(each.candidate.build.tag for each in sorted(members, key=lambda m: m.candidate.build.tag)))
    versions = sorted({each.candidate.release.version for each in members}, key=version)
    span = versions[0] if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
    if first.scheme.name == last.scheme.name and len(members) == 1:
        return f"{name} {span}+{first.build.tag}"
    shown = ", ".join(tags[:4]) + (", ..." if len(tags) > 4 else "")
    return f"{schemes}: {name} {span} ({shown})"


def nothing_to_judge(matrix: Matrix, question: Question) -> str:
    """Why the matrix has not one candidate for a question."""
    if not question.schemes:
        asked = f" for {question.backend.text}" if question.backend.text else ""
        return f"the matrix has no scheme{asked} on {question.target.platform.os}"
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
        tags = ", ".join(dict.fromkeys(build.tag for build in builds)) or "no builds"
        return f"{name} {wanted} is not published for {question.backend.text or question.scheme}: it has {tags}"
    return "the matrix has nothing to offer"


def _list(title: str, texts: Iterable[str]) -> list[str]:
    told = list(texts)
    return ["", title, *(f"  - {text}" for text in told)] if told else []
