"""Real reports with their right diagnosis: those of tests/fixtures/doctor, and the shared ones where they are at hand."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from envkit import matrix as matrices
from envkit.detect import read_facts
from envkit.doctor import diagnose
from envkit.model import Matrix, Severity

ROOT = Path(__file__).resolve().parents[3]
FIXTURES = ROOT / "tests/fixtures/doctor"
SHARED = ROOT.parent / "shared/cases"
OURS = sorted(file for file in FIXTURES.glob("*/*.toml") if file.parent.name != "healthy")
CASES = OURS + sorted(SHARED.glob("*.toml"))


@cache
def matrix() -> Matrix:
    return matrices.load()


@cache
def known_causes() -> frozenset[str]:
    """The causes that some check can find, read from the source."""
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "envkit/doctor").glob("*.py"))
    return frozenset(word for text in sources for word in re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)+)"', text))


def expected(file: Path) -> dict[str, Any]:
    table: dict[str, Any] = tomllib.loads(file.read_text(encoding="utf-8"))["expected"]
    return table


@pytest.mark.parametrize("file", CASES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_right_cause_comes_first(file: Path) -> None:
    wanted = expected(file)
    if wanted["cause"] not in known_causes():
        pytest.xfail(f"no check finds {wanted['cause']}")
    diagnosis = diagnose(matrix(), read_facts(file))
    assert diagnosis.broken == ()
    found = [finding.cause for finding in diagnosis.findings]
    assert found, f"nothing was found; expected {wanted['cause']}"
    assert found[0] in (wanted["cause"], *wanted.get("also_accept", ())), found
    for finding in diagnosis.findings:
        assert finding.evidence
        assert finding.remedy.endswith("."), finding.remedy
        assert finding.severity is not Severity.ERROR or finding.remedy


@pytest.mark.parametrize("file", OURS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_case_lies_under_its_cause_and_says_where_it_is_from(file: Path) -> None:
    wanted = expected(file)
    assert wanted["cause"] == file.parent.name
    assert wanted["source"]
    assert wanted["remedy"]
