"""Asks every check and puts what they find in order.

A check is one function of a vendor's module, `def name(case: Case) -> Iterator[Finding]`, listed in that module's CHECKS: it
yields a finding for its cause where the case holds evidence for it, and nothing otherwise. Likelihood, by what it rests on:

    90  a tool names the cause in its own words
    80  the facts prove it (a wheel's code beside the card, the driver beside the wheel's floor)
    60  the facts make it the usual cause of what was printed
    40  it fits what was printed, and so do other things

What explains others goes first however likely those look by themselves: EXPLAINS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from envkit.doctor import (
    amd,
    apple,
    ascend,
    container,
    directml,
    index,
    intel,
    nvidia,
    nvidia_mig,
    nvidia_modules,
    nvidia_systems,
    tpu,
    wheel,
    windows,
    wsl,
)
from envkit.doctor.case import Case
from envkit.model import Diagnosis, Facts, Finding, Matrix

Check = Callable[[Case], Iterator[Finding]]

# Written out, never collected by scanning.
MODULES = (
    wheel,
    index,
    nvidia,
    nvidia_modules,
    nvidia_systems,
    nvidia_mig,
    container,
    wsl,
    amd,
    intel,
    directml,
    apple,
    tpu,
    ascend,
    windows,
)
CHECKS: tuple[Check, ...] = tuple(check for module in MODULES for check in module.CHECKS)

# A cause and what else it makes look broken.
EXPLAINS: dict[str, tuple[str, ...]] = {cause: others for module in MODULES for cause, others in module.EXPLAINS.items()}


def diagnose(matrix: Matrix, facts: Facts, *, checks: Sequence[Check] = CHECKS) -> Diagnosis:
    """The causes found in the facts, the likeliest first. A check that fails is named and stops nothing."""
    case = Case(matrix, facts)
    found: dict[str, Finding] = {}
    broken: list[str] = []
    for check in checks:
        try:
            for finding in check(case):
                found[finding.cause] = _merged(found.get(finding.cause), finding)
        except Exception as error:
            broken.append(f"{getattr(check, '__name__', 'check')}: {type(error).__name__}: {error}")
    return Diagnosis(findings=tuple(ordered(found.values())), broken=tuple(broken))


def _merged(old: Finding | None, new: Finding) -> Finding:
    """One finding a cause: that of the likelier with the evidence of both."""
    if not new.evidence:
        raise ValueError(f"{new.cause}: a finding without evidence")
    if old is None:
        return new
    better, other = (old, new) if old.likelihood >= new.likelihood else (new, old)
    return replace(better, evidence=tuple(dict.fromkeys((*better.evidence, *other.evidence))))


def ordered(findings: Iterable[Finding]) -> list[Finding]:
    """The likeliest first; what explains another goes before it."""
    found = {finding.cause: finding for finding in findings}
    likelihood = {cause: finding.likelihood for cause, finding in found.items()}
    # A cause is at least as likely as what it explains. The chains are short; each round lifts one link.
    for _ in found:
        for cause, explained in EXPLAINS.items():
            if cause in found:
                above = [likelihood[each] + 1 for each in explained if each in found]
                likelihood[cause] = max(likelihood[cause], *above) if above else likelihood[cause]
    places = {cause: number for number, cause in enumerate(found)}
    return sorted(found.values(), key=lambda each: (-likelihood[each.cause], places[each.cause]))
