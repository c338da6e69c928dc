"""A diagnosis as the document that INTERFACE.md promises."""

from __future__ import annotations

from typing import Any

from envkit.model import Diagnosis, Finding

SCHEMA = "envkit/diagnosis/1"


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
