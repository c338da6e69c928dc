"""Why an accelerator does not work: causes with evidence and remedy, from facts and from what tools printed."""

from __future__ import annotations

from envkit.doctor.case import Case
from envkit.doctor.document import diagnoses_document, diagnosis_document
from envkit.doctor.engine import CHECKS, diagnose

__all__ = ["CHECKS", "Case", "diagnose", "diagnoses_document", "diagnosis_document"]
