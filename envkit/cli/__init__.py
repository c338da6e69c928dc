"""The command line. Importing this stays cheap: each command's module is loaded when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

CLOSED_PIPE = 141  # as a shell reports a program that ended on a closed pipe


def main() -> None:
    """Runs `envkit` and ends the process with the exit code of INTERFACE.md."""
    _prepare_streams()
    sys.exit(_written(_version if sys.argv[1:] == ["--version"] else _command))


def _version() -> int:
    # Asked by scripts at every start; not worth the option parser.
    from envkit import __version__

    sys.stdout.write(f"envkit {__version__}\n")
    return 0


def _command() -> int:
    from envkit.cli.app import run

    return run(sys.argv[1:])


def _prepare_streams() -> None:
    """Closed streams lead nowhere instead of breaking every print; what a terminal can't show is spelt out."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 -- for the whole run
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _written(act: Callable[[], int]) -> int:
    """The exit code of `act`, once all that it printed has gone out."""
    try:
        code = act()
        sys.stdout.flush()
    except BrokenPipeError:
        code = CLOSED_PIPE
    except OSError as fault:
        sys.stderr.write(f"error: standard output: {fault.strerror or fault}\n")
        code = 6
    else:
        return code
    # What is still to be written goes nowhere, so that the interpreter does not complain about it at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
