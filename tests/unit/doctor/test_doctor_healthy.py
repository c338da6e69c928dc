"""Healthy machines of every vendor: nothing is found."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from envkit import matrix as matrices
from envkit.detect import read_facts
from envkit.doctor import diagnose
from envkit.model import Matrix

MACHINES = sorted((Path(__file__).resolve().parents[2] / "fixtures/doctor/healthy").glob("*.toml"))


@cache
def matrix() -> Matrix:
    return matrices.load()


@pytest.mark.parametrize("file", MACHINES, ids=lambda file: file.stem)
def test_a_healthy_machine_has_no_finding(file: Path) -> None:
    diagnosis = diagnose(matrix(), read_facts(file))
    assert [finding.cause for finding in diagnosis.findings] == []
    assert diagnosis.broken == ()
    assert diagnosis.healthy
