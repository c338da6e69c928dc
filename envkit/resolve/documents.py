"""Resolutions as the documents that INTERFACE.md promises."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from envkit import plan as plans
from envkit.model import Answer, Judged, Kind, Resolution
from envkit.resolve.plans import objections, source_texts

CONFLICT = "envkit/conflict/1"
CANDIDATES = "envkit/candidates/1"


def conflict_document(resolution: Resolution) -> dict[str, Any]:
    """Why nothing fits, candidate by candidate, and what comes nearest."""
    return {
        "schema": CONFLICT,
        "asked": resolution.asked,
        "rejections": rejections(resolution),
        "nearest": [
            {
                "change": each.change.text,
                "kind": each.change.kind,
                "value": each.change.value,
                "plan": plans.to_document(each.plan),
            }
            for each in resolution.nearest
        ],
        "notes": list(resolution.notes),
    }


def rejections(resolution: Resolution) -> list[dict[str, Any]]:
    """One entry a candidate; where there was none to judge, one for the whole question."""
    if not resolution.judged:
        return [{"candidate": resolution.asked, "verdict": "unsupported", "because": "; ".join(resolution.notes), "sources": []}]
    return [
        {
            "candidate": each.candidate.label,
            "verdict": str(each.verdict),
            "because": because(each),
            "sources": list(source_texts(resolution.sources, _ids(decisive(each)))),
        }
        for each in resolution.judged
    ]


def because(judged: Judged) -> str:
    """Why a candidate makes no plan by itself, in one line."""
    return "; ".join(dict.fromkeys(answer.reason for answer in decisive(judged) if answer.reason))


def decisive(judged: Judged) -> list[Answer]:
    """The answers that made the verdict: those of the gravest kind."""
    told = objections(judged)
    return [answer for answer in told if answer.kind is told[0].kind]


def candidates_document(resolution: Resolution) -> dict[str, Any]:
    """Every candidate, best first, with its verdict and reasons."""
    return {
        "schema": CANDIDATES,
        "asked": resolution.asked,
        "plan": plans.digest(resolution.plan) if resolution.plan else None,
        "candidates": [_candidate(each, resolution) for each in resolution.judged],
        "notes": list(resolution.notes),
    }


def _candidate(judged: Judged, resolution: Resolution) -> dict[str, Any]:
    candidate = judged.candidate
    told = [answer for answer in judged.answers if answer.reason]
    # What speaks against it comes first; the rest tells what was looked at.
    told.sort(key=lambda answer: answer.kind is Kind.FITS)
    return {
        "candidate": candidate.label,
        "verdict": str(judged.verdict),
        "scheme": candidate.scheme.name,
        "framework": {"name": candidate.framework.name, "version": candidate.release.version},
        "backend": {
            "name": candidate.backend.name,
            "version": str(candidate.backend_release.version),
            "tag": candidate.build.tag,
        },
        "python": candidate.python,
        "platform": str(candidate.platform),
        "evidence": str(candidate.build.evidence),
        "reasons": [{"rule": answer.rule, "kind": str(answer.kind), "text": answer.reason} for answer in told],
        "sources": list(source_texts(resolution.sources, [*_ids(told), *candidate.build.sources])),
    }


def _ids(answers: Iterable[Answer]) -> list[str]:
    return [name for answer in answers for name in answer.sources]
