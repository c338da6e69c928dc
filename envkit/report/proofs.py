"""What the reports of a proof have in common: the verdict in words, and several proofs as one result."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from envkit.model import Proof
from envkit.verify import proof_document
from envkit.verify.proof import PROVING

PROOFS_SCHEMA = "envkit/proofs/1"


@dataclass(frozen=True, kw_only=True, slots=True)
class Unreached:
    """A host that could not be verified, and why."""

    host: str
    why: str
    hint: str = ""


Result = Proof | Unreached


def one_line(text: str) -> str:
    """The text on one line, with control characters shown instead of sent: it may come from another machine."""
    return "".join(sign if sign.isprintable() else f"\\x{ord(sign):02x}" for sign in " ".join(text.split()))


def well(proof: Proof, level: str) -> bool:
    """Whether a proof answers what was asked: passed, or below `compute` that something passed and nothing failed."""
    if level in PROVING:
        return proof.passed
    outcomes = {check.outcome for check in proof.checks}
    return "passed" in outcomes and "failed" not in outcomes


def verdict_line(proof: Proof) -> str:
    """The last line of a report: PASSED, FAILED with the reason, or NOT PROVEN where computing was not asked for."""
    failed = [check for check in proof.checks if check.outcome == "failed"]
    if failed:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        return f"FAILED: {failed[0].id}: {one_line(failed[0].detail)}{more}"
    if not any(check.outcome == "passed" for check in proof.checks):
        return "FAILED: nothing was checked"
    if proof.passed:
        return f"PASSED: {step_words(proof)}"
    if any(check.level == "compute" for check in proof.checks):
        return "FAILED: nothing was computed"
    return "NOT PROVEN: nothing failed, and nothing was computed"


def result_line(result: Result) -> str:
    """The verdict of a proof, or why there is none and what to do."""
    if isinstance(result, Proof):
        return verdict_line(result)
    return f"UNREACHED: {one_line(result.why)}" + (f" ({one_line(result.hint)})" if result.hint else "")


def step_words(proof: Proof) -> str:
    """What was computed where: "one step trained on cuda:0 (NVIDIA H200)"."""
    done = "one inference computed" if any(check.id == "infer-step" for check in proof.checks) else "one step trained"
    devices = devices_of(proof)
    if not devices:
        return done
    named = [f"{d['device']} ({d['name']})" if d.get("name") else str(d["device"]) for d in devices]
    return f"{done} on {', '.join(named)}"


def devices_of(proof: Proof) -> list[dict[str, Any]]:
    """What was measured on each device."""
    devices = proof.measured.get("devices")
    return [d for d in devices if isinstance(d, dict) and d.get("device")] if isinstance(devices, list) else []


def result_document(results: Sequence[Result]) -> dict[str, Any]:
    """The document of a verification: the proof itself, or `envkit/proofs/1` around several."""
    if len(results) == 1 and isinstance(results[0], Proof):
        return proof_document(results[0])
    return {
        "schema": PROOFS_SCHEMA,
        "passed": bool(results) and all(isinstance(result, Proof) and result.passed for result in results),
        "proofs": [proof_document(result) for result in results if isinstance(result, Proof)],
        "unreached": [
            {"host": result.host, "why": result.why, "hint": result.hint} for result in results if isinstance(result, Unreached)
        ],
    }


def as_json(results: Sequence[Result]) -> str:
    """The document as text."""
    return json.dumps(result_document(results), indent=2, ensure_ascii=False)
