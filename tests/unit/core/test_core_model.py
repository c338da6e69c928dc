"""Versions as vendors write them, verdicts, proofs."""

from __future__ import annotations

import pytest

from envkit.model import Check, Dotted, Proof, Verdict, dotted


@pytest.mark.parametrize(
    ("low", "high"),
    [("525.60.13", "570.26"), ("580.65.06", "580.82"), ("9.0", "10.0"), ("6.4", "6.4.1"), ("580", "580.65.06"), ("2.27", "2.28")],
)
def test_dotted_compares_by_number(low: str, high: str) -> None:
    assert Dotted(low) < Dotted(high)
    assert Dotted(high) > Dotted(low)
    assert Dotted(low) <= Dotted(high)
    assert Dotted(high) >= Dotted(low)
    assert Dotted(low) != Dotted(high)
    assert max(Dotted(low), Dotted(high)) == Dotted(high)


def test_dotted_keeps_its_text_and_ignores_trailing_zeros() -> None:
    assert str(Dotted("580.65.06")) == "580.65.06"
    assert f"{Dotted('13.0')}" == "13.0"
    assert Dotted("6.2") == Dotted("6.2.0")
    assert hash(Dotted("6.2")) == hash(Dotted("6.2.0"))
    assert Dotted("6.2") <= Dotted("6.2.0") <= Dotted("6.2")


@pytest.mark.parametrize("text", ["", "banana", "1.", ".1", "1..2", "1.2a", "-1", "1.2 ", "１.２", "1\n"])
def test_dotted_refuses_what_is_no_version(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        Dotted(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [("6.8.0-41-generic", "6.8.0"), ("v12.8", "12.8"), (" 2.36", "2.36"), ("", None), (None, None), ("N/A", None)],
)
def test_dotted_reads_the_version_at_the_start(text: str | None, version: str | None) -> None:
    assert dotted(text) == (Dotted(version) if version else None)


def test_verdicts_are_ordered_best_first() -> None:
    assert [v.rank for v in Verdict] == [0, 1, 2, 3, 4]
    assert Verdict.SUPPORTED.rank < Verdict.COMMUNITY.rank < Verdict.OVERRIDE.rank < Verdict.UNKNOWN.rank


def proof(*checks: Check) -> Proof:
    return Proof(plan="sha256:0", host="here", when="2026-11-30T00:00:00Z", checks=checks)


def test_a_proof_of_nothing_has_not_passed() -> None:
    assert not proof().passed
    assert not proof(Check(id="import", level="framework", outcome="passed")).passed
    assert not proof(Check(id="train-step", level="compute", outcome="skipped")).passed


def test_one_failure_fails_a_proof() -> None:
    step = Check(id="train-step", level="compute", outcome="passed")
    assert proof(step).passed
    assert not proof(step, Check(id="flavour", level="framework", outcome="failed")).passed


@pytest.mark.parametrize(
    ("low", "high"),
    [
        ("7.9", "8.0.RC1"),
        ("8.0.RC1", "8.0.RC3"),
        ("8.0.RC3", "8.0.0"),
        ("8.0.0", "8.0.1"),
        ("9.1.0-alpha.1", "9.1.0-beta.1"),
        ("9.1.0-beta.3", "9.1.0"),
        ("9.0.1", "9.1.0-beta.1"),
        ("26.0.RC1", "26.0"),
    ],
)
def test_what_comes_before_a_release_is_older_than_it(low: str, high: str) -> None:
    assert Dotted(low) < Dotted(high)
    assert Dotted(low) != Dotted(high)
    assert Dotted(low).major == int(low.split(".")[0])
