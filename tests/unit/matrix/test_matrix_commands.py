"""envkit schemes, envkit matrix show, envkit matrix check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner, Result

from envkit.cli import app
from envkit.data import packaged, shipped
from envkit.matrix import load


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app.envkit, list(arguments), standalone_mode=False)


def document(result: Result, name: str) -> Any:
    found = json.loads(result.stdout)
    jsonschema.validate(found, json.loads((packaged("schemas") / f"{name}.json").read_text(encoding="utf-8")))
    return found


def test_schemes_as_text() -> None:
    result = call("schemes")
    assert result.return_value == 0
    blocks = result.output.split("\n\n")
    assert [block.split(":")[0] for block in blocks] == list(load().schemes)
    for block in blocks:
        assert all(f"\n  {word} " in block for word in ("for", "needs", "good", "bad", "cannot", "container", "sources"))
    assert "run with --device=/dev/kfd --device=/dev/dri" in result.output
    assert "container   none: Windows containers reach GPUs through DirectX alone; use wsl2-cuda for containers" in result.output


def test_schemes_as_json() -> None:
    found = document(call("schemes", "--format", "json"), "schemes")
    by_name = {scheme["name"]: scheme for scheme in found["schemes"]}
    assert by_name["linux-cuda"]["container"]["run_flags"] == ["--gpus=all"]
    assert by_name["windows-cuda"]["container"] is None
    assert by_name["windows-rocm"]["sources"][0]["url"].startswith("https://")


def test_matrix_show_as_text() -> None:
    result = call("matrix", "show")
    shown = [" ".join(line.split()) for line in result.output.splitlines()]
    assert any(line.startswith("linux-cuda torch 2.15 cu132 cu132 cu130 ") for line in shown)
    assert "windows-rocm torch 2.12.0 rocm7.14.0 rocm7.14.0 rocm7.2.1 rocm6.4.4" in shown
    assert "linux-rocm-jax jax 0.12.0 rocm7.14 rocm7.14 rocm7.2 rocm7" in shown


def test_matrix_show_of_a_scheme_as_text() -> None:
    result = call("matrix", "show", "windows-cuda")
    assert "  2.15     cu126  windows/x86_64  not confirmed  claimed        not known\n" in result.output
    assert "linux/" not in result.output
    assert "sm_120+ptx" in call("matrix", "show", "linux-cuda").output


def test_matrix_show_as_json_holds_every_row() -> None:
    found = document(call("matrix", "show", "--format", "json"), "matrix")
    matrix = load()
    assert len(found["frameworks"]["torch"]["builds"]) == len(matrix.frameworks["torch"].builds)
    assert list(found["archs"]) == list(matrix.archs)
    assert found["backends"]["cuda"]["releases"][0]["min_driver"] == {"linux": "450.80.02", "windows": "452.39"}


def test_matrix_show_of_a_scheme_as_json_holds_its_rows_alone() -> None:
    found = document(call("matrix", "show", "windows-directml", "--format", "json"), "matrix")
    builds = found["frameworks"]["torch"]["builds"]
    assert {build["tag"] for build in builds} == {"directml"}
    assert all("windows/x86_64" in build["platforms"] for build in builds)
    assert [release["version"] for release in found["frameworks"]["torch"]["releases"]] == [
        "1.13.1",
        "2.0.0",
        "2.2.1",
        "2.3.1",
        "2.4.1",
    ]
    assert list(found["schemes"]) == ["windows-directml"]
    assert list(found["backends"]) == ["directml"]


def test_an_unknown_scheme_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["matrix", "show", "linux-cudda"]) == 2
    assert capsys.readouterr().err == (
        "error: unknown scheme 'linux-cudda'; did you mean 'linux-cuda'?\nhint: envkit schemes lists them\n"
    )


def test_matrix_check_of_the_shipped_matrix() -> None:
    result = call("matrix", "check")
    assert (result.return_value, result.output) == (0, "matrix.toml: no faults\n")
    found = document(call("matrix", "check", "--format", "json"), "matrix-check")
    assert found == {"schema": "envkit/matrix-check/1", "healthy": True, "files": [{"file": "matrix.toml", "faults": []}]}


def test_matrix_check_of_a_shipped_matrix_with_faults_exits_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "matrix.toml"
    text = shipped("matrix.toml").read_text(encoding="utf-8")
    monkeypatch.setattr("envkit.matrix.reader.shipped", lambda name: broken)
    broken.write_text(text.replace('backend = "rocm"', 'backend = "rcom"', 1), encoding="utf-8")
    result = call("matrix", "check")
    assert (result.return_value, result.output) == (
        1,
        "matrix.toml: scheme.linux-rocm.backend: unknown backend 'rcom'; did you mean 'rocm'?\n",
    )
    # Readable, but a row lost its source.
    broken.write_text(text.replace(', source = "torch-index" },', " },", 1), encoding="utf-8")
    result = call("matrix", "check")
    assert result.return_value == 1
    assert result.output == "matrix.toml: backend.cpu.release[0]: has no source\n"


def test_matrix_check_of_the_users_files_exits_3(tmp_path: Path) -> None:
    good, bad, broken = (tmp_path / f"{name}.toml" for name in ("good", "bad", "broken"))
    good.write_text('[[framework.torch.release]]\nversion = "2.16.0"\npythons = ["3.12"]\n', encoding="utf-8")
    bad.write_text("[scheme.linux-cuda]\nwithdraw = 1\n", encoding="utf-8")
    broken.write_text("[[scheme", encoding="utf-8")
    assert call("matrix", "check", str(good)).return_value == 0
    result = call("matrix", "check", str(good), str(bad), str(broken), "--format", "json")
    assert result.return_value == 3
    found = document(result, "matrix-check")
    assert found["healthy"] is False
    assert [entry["file"] for entry in found["files"]] == [str(good), str(bad), str(broken)]
    assert found["files"][0]["faults"] == []
    assert found["files"][1]["faults"] == [f"{bad}: scheme.linux-cuda.withdraw: can only be true"]
    assert found["files"][2]["faults"][0].startswith(f"{broken}: line 1, column 9: ")


def test_matrix_check_of_a_whole_matrix(tmp_path: Path) -> None:
    whole = tmp_path / "copy.toml"
    text = shipped("matrix.toml").read_text(encoding="utf-8")
    whole.write_text(text, encoding="utf-8")
    assert call("matrix", "check", str(whole)).output == f"{whole}: no faults\n"
    whole.write_text(text.replace('url = "https', 'ulr = "https', 1), encoding="utf-8")
    result = call("matrix", "check", str(whole))
    assert result.return_value == 3
    assert "unknown key 'ulr'; did you mean 'url'?" in result.output


def test_matrix_check_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = call("matrix", "check", str(tmp_path / "none.toml"))
    assert result.return_value == 3
    assert result.output == f"{tmp_path}/none.toml: cannot be read: No such file or directory\n"


def test_matrix_alone_shows_its_help() -> None:
    assert app.run(["matrix"]) == 2


def test_the_overlay_of_a_call_is_checked_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.toml"
    mine.write_text("[scheme.linux-cuda]\ntitle = 1\n", encoding="utf-8")
    assert call("--overlay", str(mine), "matrix", "check").return_value == 3
