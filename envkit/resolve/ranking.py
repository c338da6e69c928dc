"""Verdicts out of answers, and which of several fitting candidates is the best."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from envkit.model import Answer, Candidate, Evidence, Judged, Kind, Matrix, Offers, Target, Verdict, dotted
from envkit.resolve.candidates import Line, Row, by_release, falling, falling_release, rows
from envkit.resolve.rules import RULES, Rule, driver_behind, driver_dropped, driver_floor, glibc, gpu_code, own_driver, python
from envkit.resolve.target import Question

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


# What rejects most comes first, where only acceptance is asked for, and then what most often costs the vendor's promise.
_TELLING = ("gpu_code", "driver_floor", "driver_knows_gpu", "driver_dropped", "python", "glibc", "published", "vendor_support")
_HURRIED = tuple(
    sorted(
        RULES,
        key=lambda rule: _TELLING.index(name) if (name := getattr(rule, "__name__", "")) in _TELLING else len(_TELLING),
    )
)


def judge_in_a_hurry(
    candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None, *, worthless: int | None = None
) -> Judged:
    """The same verdict, without asking on once something rejects the candidate: for trying changes out.

    A verdict of rank `worthless` or worse counts as rejected too.
    """
    worthless = _VERDICT_RANK[Verdict.UNSUPPORTED] if worthless is None else worthless
    answers = []
    for rule in _HURRIED:
        answer = rule(candidate, target, matrix, offers)
        if answer.kind is not Kind.FITS and _VERDICT_RANK[_VERDICTS[answer.kind]] >= worthless:
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
        judged.verdict is Verdict.COMMUNITY and driver_behind(candidate, target),
        falling_release(candidate.release.version),
        -_EVIDENCE_RANK[candidate.build.evidence],
        # A vendor's own build goes behind the framework's, where nothing else tells them apart.
        candidate.build.vendor_supported is True,
        not _served_by_itself(candidate, target, matrix, served),
        falling(candidate.backend_release.version.key),
        schemes[candidate.scheme.name],
        candidate.build.tag,
    )


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


class _Hopeless:
    """The rows that are rejected for one of the commonest reasons, which many of them share: so each is asked about once."""

    def __init__(self, target: Target, matrix: Matrix) -> None:
        self.target, self.matrix = target, matrix
        self.told: dict[tuple[object, ...], bool] = {}
        self.without_code = rows(matrix).without_code  # the same for every machine with these cards

    def __call__(self, line: Line, row: Row) -> bool:
        """Whether nothing else needs to be asked of a row."""
        release, build, told = row.release, row.build, self.told
        return (
            self._rejects(told, (build.tag,), driver_floor, line, row)
            or self._rejects(told, ("dropped", line.backend.name), driver_dropped, line, row)
            or self._rejects(told, ("glibc", build.glibc), glibc, line, row)
            or self._rejects(self.without_code, (id(row), self.target.platform.os, line.kinds), gpu_code, line, row)
            or self._rejects(told, (release.version, build.pythons, bool(build.image)), python, line, row)
        )

    def _rejects(self, told: dict[tuple[object, ...], bool], key: tuple[object, ...], rule: Rule, line: Line, row: Row) -> bool:
        """Whether a rule rejects a row; `key` is all of the row that it looks at."""
        if key not in told:
            if len(told) > 65536:  # many machines, one process: memory stays flat
                told.clear()
            candidate = line.candidate(row, None if rule is python else "")
            told[key] = rule(candidate, self.target, self.matrix, None).kind is Kind.REJECTED
        return told[key]


def first(question: Question, matrix: Matrix, offers: Offers | None) -> Judged | None:
    """The best candidate whose verdict is accepted: the same as by ranking them all.

    Releases come newest first, and of one verdict the newest goes first; so only what has a better verdict than the best so
    far need be looked at further.
    """
    # Equal cards get equal answers, so each kind is asked about once.
    whole, target, accepted = question.target, _lean(question.target), []
    question = replace(question, target=target)
    worthless = _VERDICT_RANK[Verdict.UNSUPPORTED]
    for group in by_release(matrix, question, _Hopeless(target, matrix)):
        judged = [judge_in_a_hurry(candidate, target, matrix, offers, worthless=worthless) for candidate in group]
        accepted += [each for each in judged if each.verdict in question.accept]
        worthless = min([worthless, *(_beaten(each, target) for each in judged if each.verdict in question.accept)])
        if worthless <= _VERDICT_RANK[Verdict.SUPPORTED]:
            break
    chosen = next(iter(rank(accepted, target, matrix)), None)
    if chosen is None or whole is target:
        return chosen
    return judge(chosen.candidate, whole, matrix, offers)


def _lean(target: Target) -> Target:
    """The machine with one card of each kind."""
    kinds = {(card.arch, card.name, card.pci_id, card.kernel_driver): card for card in target.accelerators or ()}
    if len(kinds) == len(target.accelerators or ()):
        return target
    return replace(target, accelerators=tuple(kinds.values()))


def _beaten(judged: Judged, target: Target) -> int:
    """The rank from which on verdicts of older releases are beaten by an accepted candidate: see `_key`."""
    own = _VERDICT_RANK[judged.verdict]
    if judged.verdict is Verdict.UNKNOWN or (judged.verdict is Verdict.COMMUNITY and driver_behind(judged.candidate, target)):
        return own + 1
    return own
