"""A diagnosis as the document that INTERFACE.md promises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from envkit.errors import EnvkitError
from envkit.model import Diagnosis, Finding

SCHEMA = "envkit/diagnosis/1"
SEVERAL_SCHEMA = "envkit/diagnoses/1"


def diagnosis_document(diagnosis: Diagnosis, *, host: str = "") -> dict[str, Any]:
    """The document `envkit/diagnosis/1`."""
    return {
        "schema": SCHEMA,
        **({"host": host} if host else {}),
        "healthy": diagnosis.healthy,
        "findings": [_finding(each) for each in diagnosis.findings],
        "broken": list(diagnosis.broken),
        "notes": list(diagnosis.notes),
    }


def diagnoses_document(
    diagnosed: Sequence[tuple[str, Diagnosis]], unreached: Sequence[tuple[str, EnvkitError]] = ()
) -> dict[str, Any]:
    """The document `envkit/diagnoses/1`: several hosts by name, and those that could not be asked."""
    return {
        "schema": SEVERAL_SCHEMA,
        "healthy": bool(diagnosed) and not unreached and all(diagnosis.healthy for _, diagnosis in diagnosed),
        "diagnoses": [diagnosis_document(diagnosis, host=host) for host, diagnosis in diagnosed],
        "unreached": [{"host": host, "why": error.message, "hint": error.hint} for host, error in unreached],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "cause": finding.cause,
        "severity": str(finding.severity),
        "message": finding.message,
        "evidence": list(finding.evidence),
        "remedy": finding.remedy,
        "commands": list(finding.commands),
        "sources": list(finding.sources),
    }
