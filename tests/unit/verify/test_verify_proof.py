"""Proofs as documents: what the probe prints becomes `envkit/proof/1`, valid by its schema, and comes back whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envkit.data import packaged
from envkit.model import Check, Proof
from envkit.verify import proof_document, read_proof, write_proof
from envkit.verify.proof import make_proof, now, parse_probe_output

DIGEST = "sha256:" + "0123456789abcdef" * 4

PROBED: dict[str, Any] = {
    "schema": "envkit/probe/1",
    "passed": True,
    "host": "lab1",
    "level": "compute",
    "checks": [
        {"id": "python", "level": "runtime", "outcome": "passed", "seconds": 0.0, "detail": "Python 3.12.4"},
        {"id": "train-step", "level": "compute", "outcome": "passed", "seconds": 1.2, "detail": "on cuda:0 the loss fell"},
        {"id": "train-step/cuda:1", "level": "compute", "outcome": "skipped", "seconds": 0, "detail": "no code"},
    ],
    "measured": {"torch": "2.7.1+cu128", "device": "cuda:0", "loss_before": 2.3, "loss_after": 2.1, "max_abs_diff_to_cpu": 1e-5},
}


def schema(name: str) -> Any:
    return json.loads(packaged(f"schemas/{name}.json").read_text(encoding="utf-8"))


def made(**more: Any) -> Proof:
    return make_proof({**PROBED, **more}, plan=DIGEST, scheme="linux-cuda", host="ssh://me@lab1")


def test_a_probe_document_becomes_a_proof_of_the_published_shape() -> None:
    document = proof_document(made())
    jsonschema.validate(document, schema("proof"))
    assert document["passed"] is True
    assert (document["plan"], document["scheme"], document["host"]) == (DIGEST, "linux-cuda", "ssh://me@lab1")
    assert document["checks"][1] == {
        "id": "train-step",
        "level": "compute",
        "outcome": "passed",
        "seconds": 1.2,
        "detail": "on cuda:0 the loss fell",
    }
    assert document["measured"]["loss_after"] == 2.1


def test_a_probe_cannot_call_itself_passed() -> None:
    assert not made(checks=[]).passed
    assert not made(checks=PROBED["checks"][:1]).passed
    assert not made(checks=[*PROBED["checks"], {"id": "flavour", "level": "runtime", "outcome": "failed"}]).passed


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "envkit/proof/2"},
        {"plan": "sha256:1"},
        {"when": "yesterday"},
        {"passed": "yes"},
        {"host": ""},
        {"checks": [{"id": "x", "level": "gpu", "outcome": "passed", "seconds": 0, "detail": ""}]},
        {"checks": [{"id": "x", "level": "host", "outcome": "ok", "seconds": 0, "detail": ""}]},
        {"checks": [{"id": "x", "level": "host", "outcome": "passed", "seconds": -1, "detail": ""}]},
        {"checks": [{"id": "x", "level": "host"}]},
        {"measured": {"loss_before": "2.3"}},
    ],
)
def test_the_schema_refuses_what_is_no_proof(change: dict[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**proof_document(made()), **change}, schema("proof"))


def test_checks_made_around_the_probe_come_in_the_order_of_levels() -> None:
    extra = Check(id="image-plan", level="host", outcome="failed", detail="another plan")
    proof = make_proof(PROBED, plan=DIGEST, scheme="linux-cuda", host="docker://x", extra=[extra])
    assert [check.id for check in proof.checks][:2] == ["image-plan", "python"]
    assert not proof.passed


def test_a_proof_is_written_whole_and_comes_back(tmp_path: Path) -> None:
    proof = made()
    write_proof(tmp_path / "proof.json", proof)
    assert read_proof(tmp_path / "proof.json") == proof
    assert [file.name for file in tmp_path.iterdir()] == ["proof.json"]
    jsonschema.validate(json.loads((tmp_path / "proof.json").read_text(encoding="utf-8")), schema("proof"))


def test_a_write_that_fails_leaves_the_old_proof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_proof(tmp_path / "proof.json", made())
    before = (tmp_path / "proof.json").read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_proof(tmp_path / "proof.json", replace(made(), host="other"))
    assert (tmp_path / "proof.json").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["proof.json"]


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"schema": "envkit/proof/1"}', '{"schema": "envkit/proof/1", "checks": [{}]}', "no"]
)
def test_what_is_no_proof_is_not_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "proof.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"proof\.json|Expecting"):
        read_proof(tmp_path / "proof.json")


def test_passed_is_worked_out_and_not_believed(tmp_path: Path) -> None:
    document = proof_document(made())
    document["checks"] = document["checks"][:1]
    (tmp_path / "proof.json").write_text(json.dumps(document), encoding="utf-8")
    assert read_proof(tmp_path / "proof.json").passed is False


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(PROBED),
        "Last login: Mon\n" + json.dumps(PROBED) + "\n",
        json.dumps(PROBED) + "\nlogout\n{broken\n",
        '{"schema": "other"}\r\n' + json.dumps(PROBED) + "\r\n",
    ],
)
def test_the_document_is_found_among_other_output(text: str) -> None:
    assert parse_probe_output(text) == PROBED


@pytest.mark.parametrize(
    "text", ["", "no json", "{}", '["envkit/probe/1"]', '{"schema": "envkit/probe/2"}', '{"schema": "envkit/probe/1"']
)
def test_without_a_document_there_is_none(text: str) -> None:
    assert parse_probe_output(text) is None


def test_the_moment_is_utc_to_the_second() -> None:
    assert len(now()) == 20
    assert now().endswith("Z")
