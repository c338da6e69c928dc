"""The only place that starts processes: a time limit, captured output, and the death of the whole group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Completed:
    """How a command ended. `returncode` is None when it could not be started or ran into its limit."""

    argv: tuple[str, ...]
    returncode: int | None
    stdout: str = ""
    stderr: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    missing: bool = False  # no such program

    @property
    def ok(self) -> bool:
        """Whether it ended with status 0."""
        return self.returncode == 0


class Runner(Protocol):
    """Runs a command somewhere (here, in a container, over SSH) and says how it ended; never raises for its failure."""

    def __call__(self, argv: Sequence[str], *, limit: float = 30.0) -> Completed: ...


def run(
    argv: Sequence[str],
    *,
    limit: float = 30.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | None = None,
    on_line: Callable[[str], None] | None = None,
    inherit_stderr: bool = False,
) -> Completed:
    """How `argv` ended, within `limit` seconds.

    The command runs in a process group of its own, and the whole group is killed when the limit is reached or the
    caller is interrupted. `on_line` is called with each line of standard error as it comes (progress); `inherit_stderr`
    leaves standard error to the terminal. A failing, missing or hanging command is an answer, not an exception.
    """
    argv = [os.fspath(part) for part in argv]
    started = time.monotonic()
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if inherit_stderr else subprocess.PIPE,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=os.name == "posix",
        )
    except (OSError, ValueError) as fault:
        missing = isinstance(fault, FileNotFoundError)
        return Completed(argv=tuple(argv), returncode=None, stderr=str(fault), missing=missing)
    err_lines: list[str] = []
    out_parts: list[str] = []
    readers = [threading.Thread(target=_collect, args=(child.stdout, out_parts, None), daemon=True)]
    if child.stderr is not None:
        readers.append(threading.Thread(target=_collect, args=(child.stderr, err_lines, on_line), daemon=True))
    for reader in readers:
        reader.start()
    timed_out = False
    try:
        if child.stdin is not None and stdin is not None:
            with contextlib.suppress(BrokenPipeError, OSError):
                child.stdin.write(stdin)
                child.stdin.close()
        try:
            child.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            timed_out = True
            kill_group(child)
    except BaseException:
        kill_group(child)
        raise
    for reader in readers:
        # A grandchild that keeps the pipe open must not keep us: the command itself has ended.
        reader.join(timeout=2.0)
    return Completed(
        argv=tuple(argv),
        returncode=None if timed_out else child.returncode,
        stdout="".join(out_parts),
        stderr="".join(err_lines),
        seconds=time.monotonic() - started,
        timed_out=timed_out,
    )


def _collect(stream: IO[str] | None, parts: list[str], on_line: Callable[[str], None] | None) -> None:
    if stream is None:
        return
    with contextlib.suppress(ValueError, OSError):
        for line in stream:
            parts.append(line)
            if on_line is not None:
                on_line(line.rstrip("\n"))


def kill_group(child: subprocess.Popen[str]) -> None:
    """Ends a child and all that it started, and waits for it."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
    else:
        with contextlib.suppress(OSError):
            child.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(timeout=5)
