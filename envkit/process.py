"""The only place that starts processes: a time limit, captured output, and the death of the whole group."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import struct
import subprocess
import sys
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
    on_terminal: Callable[[bytes], None] | None = None,
    keep_open: Sequence[int] = (),
    end_with_us: bool = False,
) -> Completed:
    """How `argv` ended, within `limit` seconds.

    The command runs in a process group of its own, and the whole group is killed when the limit is reached or the
    caller is interrupted. `on_line` is called with each line of standard error as it comes (progress); `inherit_stderr`
    leaves standard error to the terminal; `on_terminal` gives the command a terminal of its own as standard error and is
    called with what it draws there (POSIX). `keep_open` are descriptors that the command gets too. `end_with_us` has the
    system kill the command when this process dies, even by SIGKILL (Linux; elsewhere it lives on).
    A failing, missing or hanging command is an answer, not an exception.
    """
    argv = [os.fspath(part) for part in argv]
    started = time.monotonic()
    master, slave = _terminal() if on_terminal is not None else (-1, -1)
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if inherit_stderr else slave if slave >= 0 else subprocess.PIPE,
            env=dict(env) if env is not None else None,
            cwd=cwd,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=os.name == "posix",
            pass_fds=tuple(keep_open) if os.name == "posix" else (),
            preexec_fn=_dies_with(os.getpid()) if end_with_us and sys.platform == "linux" else None,
        )
    except (OSError, ValueError) as fault:
        for descriptor in (master, slave):
            if descriptor >= 0:
                os.close(descriptor)
        missing = isinstance(fault, FileNotFoundError)
        return Completed(argv=tuple(argv), returncode=None, stderr=str(fault), missing=missing)
    err_lines: list[str] = []
    out_parts: list[str] = []
    readers = [threading.Thread(target=_collect, args=(child.stdout, out_parts, None), daemon=True)]
    if child.stderr is not None:
        readers.append(threading.Thread(target=_collect, args=(child.stderr, err_lines, on_line), daemon=True))
    if slave >= 0:
        os.close(slave)
        readers.append(threading.Thread(target=_collect_terminal, args=(master, err_lines, on_terminal), daemon=True))
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
    with contextlib.suppress(ValueError, OSError), stream:
        for line in stream:
            parts.append(line)
            if on_line is not None:
                on_line(line.rstrip("\n"))


def _terminal() -> tuple[int, int]:
    """A new pseudo-terminal as wide as ours; (-1, -1) where there are none."""
    try:
        import fcntl
        import pty
        import termios

        master, slave = pty.openpty()
    except (ImportError, OSError):
        return -1, -1
    with contextlib.suppress(OSError, ValueError):
        size = os.get_terminal_size(sys.stderr.fileno())
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))
    return master, slave


_CONTROLS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")


def _collect_terminal(master: int, parts: list[str], show: Callable[[bytes], None] | None) -> None:
    drawn = bytearray()
    with contextlib.suppress(OSError):  # EIO: the last one who had the terminal open has ended
        while chunk := os.read(master, 65536):
            drawn += chunk
            if show is not None:
                show(bytes(chunk))
    os.close(master)
    text = _CONTROLS.sub("", drawn.decode("utf-8", errors="replace")).replace("\r\n", "\n")
    # A progress line is drawn over and over: what stood there last counts.
    parts += [line.rpartition("\r")[2] + "\n" for line in text.split("\n") if line.strip()]


def _dies_with(parent: int) -> Callable[[], None]:
    """What a child does before its program starts, so that the system kills it when `parent` dies."""
    import ctypes

    prctl = ctypes.CDLL(None, use_errno=True).prctl
    set_death_signal = 1  # PR_SET_PDEATHSIG, linux/prctl.h

    def prepare() -> None:
        prctl(set_death_signal, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:  # it died before the line above
            os._exit(1)

    return prepare


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
