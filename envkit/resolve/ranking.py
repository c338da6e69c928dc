"""Verdicts out of answers, and which of several fitting candidates is the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from envkit.model import Answer, Candidate, Evidence, Judged, Kind, Matrix, Offers, Target, Verdict, dotted
from envkit.resolve.rules import RULES, own_driver
from envkit.resolve.wishes import version

_VERDICTS = {
    Kind.COMMUNITY: Verdict.COMMUNITY,
    Kind.SETTING: Verdict.OVERRIDE,
    Kind.UNKNOWN: Verdict.UNKNOWN,
    Kind.REJECTED: Verdict.UNSUPPORTED,
}
_VERDICT_RANK = {verdict: number for number, verdict in enumerate(Verdict)}
_EVIDENCE_RANK = {evidence: number for number, evidence in enumerate(Evidence)}


def judge(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Judged:
    """The candidate with every rule's answer."""
    answers = tuple(rule(candidate, target, matrix, offers) for rule in RULES)
    return Judged(candidate=candidate, verdict=verdict_of(answers), answers=answers)


# What rejects most comes first, where only acceptance is asked for.
_TELLING = {"gpu_vendor": 0, "asked_for": 1, "gpu_code": 2, "driver_floor": 3, "driver_knows_gpu": 4, "python": 5}
_HURRIED = tuple(sorted(RULES, key=lambda rule: _TELLING.get(getattr(rule, "__name__", ""), len(_TELLING))))


def judge_in_a_hurry(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None) -> Judged:
    """The same verdict, without asking on once something rejects the candidate: for trying changes out."""
    answers = []
    for rule in _HURRIED:
        answer = rule(candidate, target, matrix, offers)
        if answer.kind is Kind.REJECTED:
            return Judged(candidate=candidate, verdict=Verdict.UNSUPPORTED, answers=(answer,))
        answers.append(answer)
    answers.sort(key=lambda answer: _PLACES[answer.rule])
    return Judged(candidate=candidate, verdict=verdict_of(answers), answers=tuple(answers))


_PLACES = {getattr(rule, "__name__", "").replace("_", "-"): number for number, rule in enumerate(RULES)}


def verdict_of(answers: Iterable[Answer]) -> Verdict:
    """The verdict that the answers add up to: the gravest one decides."""
    verdict, rank = Verdict.SUPPORTED, 0
    for answer in answers:
        if answer.kind is not Kind.FITS and _VERDICT_RANK[_VERDICTS[answer.kind]] > rank:
            verdict = _VERDICTS[answer.kind]
            rank = _VERDICT_RANK[verdict]
    return verdict


def rank(judged: Iterable[Judged], target: Target, matrix: Matrix) -> tuple[Judged, ...]:
    """Best first. The order never depends on the order of rows."""
    frameworks = {name: number for number, name in enumerate(matrix.frameworks)}
    schemes = {name: number for number, name in enumerate(matrix.schemes)}
    served: dict[str, bool] = {}
    return tuple(sorted(judged, key=lambda each: _key(each, target, matrix, frameworks, schemes, served)))


def _key(
    judged: Judged, target: Target, matrix: Matrix, frameworks: dict[str, int], schemes: dict[str, int], served: dict[str, bool]
) -> tuple[Any, ...]:
    candidate = judged.candidate
    return (
        _VERDICT_RANK[judged.verdict],
        # A gamble on one unknown thing goes before one on two.
        sum(answer.kind is Kind.UNKNOWN for answer in judged.answers) if judged.verdict is Verdict.UNKNOWN else 0,
        frameworks[candidate.framework.name],
        _falling_release(candidate.release.version),
        -_EVIDENCE_RANK[candidate.build.evidence],
        not _served_by_itself(candidate, target, matrix, served),
        _falling(candidate.backend_release.version.key),
        schemes[candidate.scheme.name],
        candidate.build.tag,
    )


@lru_cache(maxsize=4096)
def _falling_release(text: str) -> tuple[int, ...]:
    """A key that sorts the newest release first, and a pre-release behind its release."""
    this = version(text)
    return (*_falling(this.release), int(this.is_prerelease))


@lru_cache(maxsize=4096)
def _falling(numbers: tuple[int, ...]) -> tuple[int, ...]:
    # Equal lengths, since 12 would otherwise come before 12.8.
    return tuple(-number for number in (*numbers, 0, 0, 0, 0, 0)[:5])


def _served_by_itself(candidate: Candidate, target: Target, matrix: Matrix, served: dict[str, bool]) -> bool:
    """Whether the driver serves the toolkit without minor-version compatibility; only a tie is decided by it."""
    tag = candidate.build.tag
    if tag not in served:
        facts = target.drivers.get(candidate.backend.vendor)
        have = dotted(facts.kernel) if facts else None
        own, _ = own_driver(matrix, candidate.backend, candidate.backend_release.version, target.platform.os)
        served[tag] = have is None or own is None or have >= own
    return served[tag]


def best(judged: Sequence[Judged], accept: frozenset[Verdict]) -> Judged | None:
    """The best candidate whose verdict is accepted."""
    return next((each for each in judged if each.verdict in accept), None)
