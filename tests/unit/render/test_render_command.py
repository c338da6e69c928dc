"""`envkit render` as it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from envkit.cli import app
from envkit.data import packaged, shipped

ROOT = Path(__file__).resolve().parents[3]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app.envkit, ["render", *arguments])


def document(result: Result) -> dict[str, Any]:
    found = json.loads(result.stdout)
    jsonschema.validate(found, json.loads((packaged("schemas") / "render.json").read_text(encoding="utf-8")))
    assert isinstance(found, dict)
    return found


def code(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    ended = app.run(arguments)
    shown = capsys.readouterr()
    return ended, shown.out, shown.err


def test_the_checkout_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert shipped("templates").parent == ROOT
    ended, out, _ = code(["render", "--check", "-o", str(ROOT)], capsys)
    assert ended == 0, out
    assert "are as the matrix and the templates have them" in out


def test_writing_checking_and_writing_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["-o", str(tmp_path)]
    assert code(["render", "--check", *folder], capsys)[0] == 1
    ended, out, err = code(["render", *folder], capsys)
    assert ended == 0
    assert "wrote images/linux-cpu/Dockerfile\n" in out
    assert "windows-cuda: no image: " in err
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    ended, out, _ = code(["render", *folder], capsys)
    assert ended == 0
    assert out.endswith("files, nothing to do\n")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert (tmp_path / "playbooks/roles/python_env/tasks/main.yml").is_file(), "a play is of no use without its roles"
    (tmp_path / "images/linux-cpu/Dockerfile").unlink()
    (tmp_path / "playbooks/linux-cpu.yml").write_text("# Written by `envkit render`, once\n", encoding="utf-8")
    ended, out, err = code(["render", "--check", *folder], capsys)
    assert ended == 1
    assert out == "missing  images/linux-cpu/Dockerfile\nchanged  playbooks/linux-cpu.yml\n"
    assert err.endswith("hint: envkit render\n")


def test_the_document(tmp_path: Path) -> None:
    first = document(call("--format", "json", "-o", str(tmp_path)))
    assert first["current"] is False
    assert "playbooks/windows-rocm.yml" in first["written"]
    assert {row["scheme"] for row in first["skipped"]} >= {"windows-cuda", "windows-directml"}
    second = document(call("--format", "json", "--check", "-o", str(tmp_path)))
    assert second["current"] is True
    assert second["written"] == []
    (tmp_path / "images/linux-old").mkdir()
    (tmp_path / "images/linux-old/Dockerfile").write_text("# Written by `envkit render`\n", encoding="utf-8")
    assert document(call("--format", "json", "-o", str(tmp_path)))["stale"] == ["images/linux-old/Dockerfile"]
    third = document(call("--prune", "--format", "json", "-o", str(tmp_path)))
    assert third["removed"] == ["images/linux-old/Dockerfile"]
    assert not (tmp_path / "images/linux-old").exists()


def test_another_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended, _, err = code(["render", "linux-cpu", "--torch", "2.9"], capsys)
    assert ended == 2
    assert "--torch makes other files than the usual ones" in err
    assert call("linux-cpu", "--torch", "2.9.1", "-o", str(tmp_path)).exit_code == 0
    assert "torch==2.9.1+cpu" in (tmp_path / "images/linux-cpu/plan/constraints.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "ended", "words"),
    [
        (["linux-cpi"], 2, "error: unknown scheme 'linux-cpi'; did you mean 'linux-cpu'?"),
        (["linux-cpu", "--torch", "banana", "-o", "x"], 2, "error: --torch 'banana' names no release"),
        (["linux-cpu", "--torch", "9.9", "-o", "x"], 4, "9.9"),
    ],
)
def test_what_cannot_be_meant(
    arguments: list[str],
    ended: int,
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    found = code(["render", *arguments], capsys)
    assert found[0] == ended
    assert words in found[2]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "f").write_text("", encoding="utf-8")
    ended, _, err = code(["render", "-o", str(tmp_path / "f")], capsys)
    assert ended == 2
    assert "is a file" in err


def test_elsewhere_the_current_folder_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("linux-cpu").exit_code == 0
    assert (tmp_path / "images/linux-cpu/Dockerfile").is_file()


def test_inside_the_checkout_its_top_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT / "tests")
    found = document(call("--check", "--format", "json"))
    assert found["folder"] == str(ROOT)
