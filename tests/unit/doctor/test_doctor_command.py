"""The command: reports in, diagnoses out."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner

from envkit.cli import app
from envkit.data import packaged

REPORT = """
[machine]
os = "windows"
[[machine.gpu]]
name = "NVIDIA GeForce RTX 4090"
[torch]
version = "2.0.0+cpu"
available = false
"""


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app.envkit, ["doctor", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    return int(result.return_value), result.output


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "report.toml"
    file.write_text(REPORT, encoding="utf-8")
    return file


def test_a_report_is_diagnosed(report: Path) -> None:
    code, text = run("--report", str(report))
    assert code == 1
    assert text.startswith("1. cpu-only-wheel (error): torch 2.0.0+cpu was built without GPU code")
    assert "   seen    torch.version: 2.0.0+cpu\n" in text


def test_the_document_is_what_its_schema_says(report: Path) -> None:
    code, text = run("--report", str(report), "--format", "json")
    document = json.loads(text)
    assert code == 1
    jsonschema.validate(document, json.loads(packaged("schemas/diagnosis.json").read_text(encoding="utf-8")))
    assert document["findings"][0]["cause"] == "cpu-only-wheel"


def test_nothing_found_is_healthy(tmp_path: Path) -> None:
    file = tmp_path / "report.toml"
    file.write_text('[machine]\nos = "linux"\n', encoding="utf-8")
    assert run("--report", str(file)) == (0, "nothing was found wrong\n")
