"""`envkit up` as a command: what it refuses before anything is downloaded, and with which words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import envkit.detect
import envkit.venv.pythons
from envkit.cli import app
from envkit.cli.up import command
from envkit.errors import EnvkitError, Unresolvable, UsageError
from envkit.model import DriverFacts, Facts, Gpu, Machine, PythonFacts

MACHINE = Machine(os="linux", os_id="ubuntu-24.04", os_release="Ubuntu 24.04", arch="x86_64", glibc="2.39", libc="glibc", gpus=())
CARD = Gpu(name="NVIDIA GeForce RTX 5090", pci_id="10de:2b85", arch="sm_120", vendor="nvidia", kernel_driver="nvidia")
OLD_DRIVER = DriverFacts(kernel="550.54.14", license="Dual MIT/GPL")


def machine_with_an_old_driver() -> Facts:
    return Facts(
        machine=replace(MACHINE, gpus=(CARD,), driver=OLD_DRIVER, drivers={"nvidia": OLD_DRIVER}),
        python=PythonFacts(version="3.12.3", machine="x86_64"),
    )


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine that is looked at: that one, with no other Python than the one running."""
    monkeypatch.setattr(envkit.detect, "detect", machine_with_an_old_driver)
    monkeypatch.setattr(envkit.venv.pythons, "installed", lambda _uv: [])


def refused(arguments: list[str], kind: type[EnvkitError]) -> EnvkitError:
    result = CliRunner().invoke(command, arguments, standalone_mode=False)
    assert isinstance(result.exception, kind), result.output
    return result.exception


def test_a_folder_of_others_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    error = refused([str(tmp_path)], UsageError)
    assert str(tmp_path) in error.message
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_cpu_is_not_taken_unasked(tmp_path: Path) -> None:
    error = refused([str(tmp_path / "env")], Unresolvable)
    assert error.exit_code == 4
    assert "570.26" in error.message
    assert not (tmp_path / "env").exists()


def test_a_conflict_is_a_document_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["up", str(tmp_path / "env"), "--format", "json"]) == 4
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == "envkit/conflict/1"
    assert document["nearest"][0]["change"] == "update the driver to 570.26 or newer"
    assert "Traceback" not in captured.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--torch", "banana"], "--torch 'banana' names no release"),
        (["--scheme", "linux-cdua"], "unknown scheme 'linux-cdua'; did you mean 'linux-cuda'"),
        (["--python", "three"], "three"),
    ],
)
def test_what_cannot_be_meant_is_told_at_once(tmp_path: Path, arguments: list[str], words: str) -> None:
    error = refused([str(tmp_path / "env"), *arguments], UsageError)
    assert words in error.message
    assert error.hint
    assert not (tmp_path / "env").exists()
