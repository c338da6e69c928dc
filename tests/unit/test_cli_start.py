"""The group of commands itself: version, help, wrong usage, and errors as messages with the promised exit codes."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from envkit import __version__
from envkit.cli import app
from envkit.errors import EnvkitError, InvalidFile, StepFailed, Unavailable, Unresolvable, UsageError


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["--version"]) == 0
    assert capsys.readouterr().out == f"envkit {__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_command(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    assert app.run([flag]) == 0
    out = capsys.readouterr().out
    for name, summary in app.SUMMARIES.items():
        assert re.search(rf"^  {name}\s+{re.escape(summary.split('.')[0][:20])}", out, re.MULTILINE), name


def test_nothing_asked_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run([]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Usage: envkit" in captured.err


def test_unknown_command_is_told_what_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["resolv"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "error: No such command 'resolv'. Did you mean 'resolve'?" in captured.err


@pytest.mark.parametrize("name", app.COMMANDS)
def test_unknown_option_is_wrong_usage(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert app.run([name, "--no-such-option"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no-such-option" in captured.err.lower()
    assert "Traceback" not in captured.err


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert app.run([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"Usage: envkit {name}")


CASES = [
    (UsageError("no", hint="do"), 2, "error: no\nhint: do\n"),
    (
        InvalidFile("bad.toml is invalid:", faults=["a.b: expected text", "c: unknown"]),
        3,
        "error: bad.toml is invalid:\na.b: expected text\nc: unknown\n",
    ),
    (Unresolvable("nothing fits"), 4, "error: nothing fits\n"),
    (Unavailable("no engine", hint="start it"), 5, "error: no engine\nhint: start it\n"),
    (StepFailed("install failed", log="/tmp/log"), 6, "error: install failed\nlog: /tmp/log\n"),
    (EnvkitError("failed"), 6, "error: failed\n"),
    (KeyboardInterrupt(), 130, "interrupted\n"),
    (click.Abort(), 130, "interrupted\n"),
    (FileNotFoundError(2, "No such file or directory", "x/y"), 6, "error: x/y: No such file or directory\n"),
]


@pytest.mark.parametrize(("error", "code", "err"), CASES, ids=[type(case[0]).__name__ for case in CASES])
def test_errors_become_messages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int, err: str
) -> None:
    @click.command()
    def failing() -> None:
        raise error

    monkeypatch.setattr(app.CommandGroup, "get_command", lambda *_: failing)
    monkeypatch.delenv("ENVKIT_DEBUG", raising=False)
    assert app.run(["detect"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    # click ends the line that ^C was typed on.
    assert captured.err.lstrip("\n").startswith(err)
    assert "Traceback" not in captured.err


def test_the_unforeseen_is_no_traceback_unless_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    def failing() -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr(app.CommandGroup, "get_command", lambda *_: failing)
    assert app.run(["detect"]) == 6
    assert "error: envkit failed on something it did not foresee: ZeroDivisionError: by zero" in capsys.readouterr().err
    monkeypatch.setenv("ENVKIT_DEBUG", "1")
    assert app.run(["detect"]) == 6
    assert "Traceback" in capsys.readouterr().err


def test_options_can_be_set_by_the_environment(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ENVKIT_SCHEMES_FORMAT", "json")
    assert app.run(["schemes"]) == 0
    assert capsys.readouterr().out.lstrip().startswith(("{", "["))


def test_it_works_from_any_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.run(["schemes"]) == 0
    assert list(tmp_path.iterdir()) == []
