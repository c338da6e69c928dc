"""Decides, purely, what fits a wish on a machine: a plan, or why there is none and what comes nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from envkit.errors import Unresolvable
from envkit.model import Facts, Judged, Matrix, Offers, Plan, Resolution, Wish
from envkit.resolve.candidates import by_release
from envkit.resolve.documents import candidates_document, conflict_document
from envkit.resolve.explain import conflict_text, nothing_to_judge
from envkit.resolve.nearest import Search
from envkit.resolve.plans import make_plan
from envkit.resolve.ranking import first, judge, judge_in_a_hurry, rank
from envkit.resolve.rules import RULES
from envkit.resolve.target import Question, describe, read

__all__ = ["RULES", "candidates_document", "conflict_document", "plan_of", "resolve"]


def resolve(
    matrix: Matrix,
    wish: Wish,
    facts: Facts | None = None,
    offers: Offers | None = None,
    *,
    pythons: Sequence[str] | None = None,
) -> Resolution:
    """The answer to a wish on a machine. Without `pythons`, any Python can be had where neither wish nor facts name one."""
    question = read(matrix, wish, facts, pythons)

    def consider(asked: Question, hurry: bool) -> tuple[Judged, ...]:
        """Every candidate judged, best first; in a hurry only those that a card here may use."""
        asked = _promising(matrix, asked) if hurry else asked
        one = judge_in_a_hurry if hurry else judge
        found = [one(candidate, asked.target, matrix, offers) for group in by_release(matrix, asked) for candidate in group]
        return rank(found, asked.target, matrix)

    def solve(asked: Question) -> Plan | None:
        asked = _promising(matrix, asked)
        chosen = first(asked, matrix, offers)
        if chosen is None:
            return None
        return make_plan(chosen, asked, matrix, lambda candidate: judge(candidate, asked.target, matrix, offers), offers)

    @cache
    def judged() -> tuple[Judged, ...]:
        return consider(question, hurry=False)

    plan = solve(question)
    return Resolution(
        plan=plan,
        judge=judged,
        search=lambda: () if plan else Search(question, judged(), matrix, consider, solve).run(),
        note=lambda: question.notes if judged() else (*question.notes, nothing_to_judge(matrix, question)),
        describe=lambda: describe(question),
        sources=matrix.sources,
    )


def _promising(matrix: Matrix, question: Question) -> Question:
    """The question without the schemes whose candidates would all be rejected: no card here can use them, or the CPU unasked."""
    cards = question.target.accelerators
    if cards is None or not all(card.vendor for card in cards):
        return question
    vendors = {card.vendor for card in cards} | {""}
    backends = {scheme.name: matrix.backends[scheme.backend] for scheme in question.schemes}
    kept = tuple(
        scheme
        for scheme in question.schemes
        if (backends[scheme.name].vendor in vendors or backends[scheme.name].without_card)
        and (backends[scheme.name].device != "cpu" or not cards or scheme.name in question.target.asked)
    )
    return replace(question, schemes=kept)


def plan_of(resolution: Resolution) -> Plan:
    """The plan of a resolution; raises Unresolvable with the reasons and the conflict document where there is none."""
    if resolution.plan is None:
        raise Unresolvable(conflict_text(resolution), document=conflict_document(resolution))
    return resolution.plan
