"""Decides, purely, what fits a wish on a machine: a plan, or why there is none and what comes nearest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envkit.errors import Unresolvable
from envkit.model import Facts, Judged, Matrix, Offers, Plan, Resolution, Wish
from envkit.resolve.candidates import candidates
from envkit.resolve.documents import candidates_document, conflict_document
from envkit.resolve.explain import conflict_text, nothing_to_judge
from envkit.resolve.nearest import Search
from envkit.resolve.plans import make_plan
from envkit.resolve.ranking import best, judge, judge_in_a_hurry, rank
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

    def consider(asked: Question, *, hurry: bool = False) -> tuple[Judged, ...]:
        one = judge_in_a_hurry if hurry else judge
        found = [one(candidate, asked.target, matrix, offers) for candidate in candidates(matrix, asked)]
        return rank(found, asked.target, matrix)

    def solve(asked: Question, judged: tuple[Judged, ...] | None = None) -> Plan | None:
        judged = consider(_promising(matrix, asked), hurry=True) if judged is None else judged
        chosen = best(judged, asked.accept)
        if chosen is None:
            return None
        return make_plan(chosen, asked, matrix, judged, lambda candidate: judge(candidate, asked.target, matrix, offers), offers)

    def try_out(asked: Question, hurry: bool) -> tuple[Judged, ...]:
        return consider(_promising(matrix, asked), hurry=hurry)

    judged = consider(question)
    plan = solve(question, judged)
    notes = question.notes if judged else (*question.notes, nothing_to_judge(matrix, question))
    return Resolution(
        plan=plan,
        judged=judged,
        nearest=() if plan else Search(question, judged, matrix, try_out, solve).run(),
        notes=notes,
        asked=describe(question),
        sources=matrix.sources,
    )


def _promising(matrix: Matrix, question: Question) -> Question:
    """The question without the schemes that no card here can serve, whose candidates would all be rejected."""
    vendors = {card.vendor for card in question.target.accelerators or ()} | {""}
    kept = tuple(scheme for scheme in question.schemes if matrix.backends[scheme.backend].vendor in vendors)
    return question if question.target.accelerators is None else replace(question, schemes=kept)


def plan_of(resolution: Resolution) -> Plan:
    """The plan of a resolution; raises Unresolvable with the reasons and the conflict document where there is none."""
    if resolution.plan is None:
        raise Unresolvable(conflict_text(resolution), document=conflict_document(resolution))
    return resolution.plan
