"""Standard output that is closed, full, or has no reader: the promised exit code, and never a traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = ["--version", "--help", "schemes", "resolve --os linux --gpu A100", "matrix show", "detect --format json"]


def shell(line: str) -> tuple[int, str]:
    """The exit code of envkit's part of a shell line, and what it said on standard error."""
    script = f'set -o pipefail; envkit() {{ "{sys.executable}" -m envkit "$@"; }}; {line}'
    done = subprocess.run(
        ["bash", "-c", script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("envkit {} >&-", 0, ""),
        # The reader has gone before anything is written.
        ("exec 3> >(exec 0<&-); sleep 0.3; envkit {} >&3", 141, ""),
        ("envkit {} >/dev/full", 6, "No space left on device"),
    ],
)
def test_output_that_goes_nowhere(command: str, line: str, code: int, said: str) -> None:
    returned, err = shell(line.format(command))
    assert (returned, "Traceback" in err) == (code, False), err
    assert said in err


@pytest.mark.parametrize("name", [b"bad\xff", b"x" * 300])
def test_names_that_no_folder_can_have(tmp_path: Path, name: bytes) -> None:
    argv = [sys.executable, "-m", "envkit", "up", name]
    done = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert done.returncode == 2, done.stderr
    assert b"hint: choose another name" in done.stderr
    assert list(tmp_path.iterdir()) == []
