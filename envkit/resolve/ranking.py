"""Verdicts out of answers, and which of several fitting candidates is the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from envkit.model import Answer, Candidate, Evidence, Judged, Kind, Matrix, Offers, Target, Verdict, dotted
from envkit.resolve.rules import RULES, own_driver
from envkit.resolve.wishes import version

_VERDICTS = (
    (Kind.REJECTED, Verdict.UNSUPPORTED),
    (Kind.UNKNOWN, Verdict.UNKNOWN),
    (Kind.SETTING, Verdict.OVERRIDE),
    (Kind.COMMUNITY, Verdict.COMMUNITY),
)
_VERDICT_RANK = {verdict: number for number, verdict in enumerate(Verdict)}
_EVIDENCE_RANK = {evidence: number for number, evidence in enumerate(Evidence)}


def judge(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Judged:
    """The candidate with every rule's answer."""
    answers = tuple(rule(candidate, target, matrix, offers) for rule in RULES)
    return Judged(candidate=candidate, verdict=verdict_of(answers), answers=answers)


def verdict_of(answers: Iterable[Answer]) -> Verdict:
    """The verdict that the answers add up to: the gravest one decides."""
    kinds = {answer.kind for answer in answers}
    return next((verdict for kind, verdict in _VERDICTS if kind in kinds), Verdict.SUPPORTED)


def rank(judged: Iterable[Judged], target: Target, matrix: Matrix) -> tuple[Judged, ...]:
    """Best first. The order never depends on the order of rows."""
    frameworks = {name: number for number, name in enumerate(matrix.frameworks)}
    schemes = {name: number for number, name in enumerate(matrix.schemes)}
    served: dict[str, bool] = {}
    return tuple(sorted(judged, key=lambda each: _key(each, target, frameworks, schemes, served)))


def _key(
    judged: Judged, target: Target, frameworks: dict[str, int], schemes: dict[str, int], served: dict[str, bool]
) -> tuple[Any, ...]:
    candidate = judged.candidate
    release = candidate.backend_release
    return (
        _VERDICT_RANK[judged.verdict],
        frameworks[candidate.framework.name],
        _Reversed(version(candidate.release.version)),
        -_EVIDENCE_RANK[candidate.build.evidence],
        not _served_by_itself(candidate, target, served),
        _Reversed(release.version),
        schemes[candidate.scheme.name],
        candidate.build.tag,
    )


def _served_by_itself(candidate: Candidate, target: Target, served: dict[str, bool]) -> bool:
    """Whether the driver serves the toolkit without minor-version compatibility; only a tie is decided by it."""
    tag = candidate.build.tag
    if tag not in served:
        facts = target.drivers.get(candidate.backend.vendor)
        have = dotted(facts.kernel) if facts else None
        own, _ = own_driver(candidate.backend, candidate.backend_release.version, target.platform.os)
        served[tag] = have is None or own is None or have >= own
    return served[tag]


class _Reversed:
    """Turns an order round inside a sorting key."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)


def best(judged: Sequence[Judged], accept: frozenset[Verdict]) -> Judged | None:
    """The best candidate whose verdict is accepted."""
    return next((each for each in judged if each.verdict in accept), None)
