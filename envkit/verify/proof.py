"""Proofs as documents: out of what the probe prints, to `envkit/proof/1`, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envkit.files import write_whole
from envkit.model import Check, Proof

PROOF_SCHEMA = "envkit/proof/1"
PROBE_SCHEMA = "envkit/probe/1"
LEVELS = ("host", "runtime", "framework", "compute", "collective", "speed")
PROVING = LEVELS[3:]  # the levels at which something is computed


def now() -> str:
    """This moment in UTC, to the second, as proofs carry it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_probe_output(text: str) -> dict[str, Any] | None:
    """The probe's document in what came over standard output; None where there is none.

    Start-up hooks of an environment and login shells may print before the probe has the floor, so it is looked for.
    """
    for line in reversed(text.splitlines()):
        line = line.strip()
        if not line.startswith("{"):
            continue
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict) and document.get("schema") == PROBE_SCHEMA:
            return document
    return None


def make_proof(document: dict[str, Any], *, plan: str, scheme: str, host: str, extra: Sequence[Check] = ()) -> Proof:
    """The proof of a probe's document; `extra` are checks made around it, such as an image's label."""
    checks = [*extra, *(read_check(check) for check in document["checks"])]
    order = {level: position for position, level in enumerate(LEVELS)}
    checks.sort(key=lambda check: order.get(check.level, len(order)))
    return Proof(
        plan=plan, host=host, when=now(), checks=tuple(checks), measured=dict(document.get("measured", {})), scheme=scheme
    )


def read_check(document: dict[str, Any]) -> Check:
    """One check of a document."""
    return Check(
        id=str(document["id"]),
        level=str(document["level"]),
        outcome=str(document["outcome"]),
        seconds=float(document.get("seconds", 0.0)),
        detail=str(document.get("detail", "")),
    )


def proof_document(proof: Proof) -> dict[str, Any]:
    """The document `envkit/proof/1`."""
    return {
        "schema": PROOF_SCHEMA,
        "plan": proof.plan,
        "scheme": proof.scheme,
        "host": proof.host,
        "when": proof.when,
        "passed": proof.passed,
        "checks": [
            {"id": c.id, "level": c.level, "outcome": c.outcome, "seconds": c.seconds, "detail": c.detail} for c in proof.checks
        ],
        "measured": dict(proof.measured),
    }


def read_proof(path: Path) -> Proof:
    """The proof kept in a file; raises ValueError where it holds none. What it says of itself, `passed`, is worked out anew."""
    document = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(document, dict) or document.get("schema") != PROOF_SCHEMA:
        raise ValueError(f"{path}: not a document of schema {PROOF_SCHEMA}")
    try:
        return Proof(
            plan=document["plan"],
            host=document["host"],
            when=document["when"],
            checks=tuple(read_check(check) for check in document["checks"]),
            measured=dict(document["measured"]),
            scheme=document.get("scheme", ""),
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise ValueError(f"{path}: incomplete proof: {fault}") from None


def write_proof(path: Path, proof: Proof) -> None:
    """Writes a proof's document, whole or not at all."""
    text = json.dumps(proof_document(proof), indent=2, ensure_ascii=False) + "\n"
    write_whole(path, text)
