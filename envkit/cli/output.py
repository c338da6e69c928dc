"""Printing: results to standard output, everything else to standard error."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from envkit.cli import CLOSED_PIPE

F = TypeVar("F", bound=Callable[..., Any])


class _FormatOption(click.Option):
    """Set by ENVKIT_<COMMAND>_FORMAT: the name that people type, not the parameter's."""

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        return os.environ.get(f"{ctx.auto_envvar_prefix}_FORMAT") or None


def format_option(*formats: str) -> Callable[[F], F]:
    """`--format`, for a command that prints a result; the first of `formats` is the default."""
    return click.option(
        "--format",
        "form",
        cls=_FormatOption,
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def emit(text: str) -> None:
    """Prints a result. When nobody reads it any more, the command ends quietly, as a shell reports it: 141."""
    try:
        click.echo(text)
    except BrokenPipeError:
        # Caught here, since click would make it an exit code of 1, which means "all is not well".
        close_output()
        raise click.exceptions.Exit(CLOSED_PIPE) from None


def emit_json(document: Any) -> None:
    """Prints a document: two-space indents, key order kept."""
    emit(json.dumps(document, indent=2, ensure_ascii=False))


def close_output() -> None:
    """Sends what is still to be printed nowhere, so that the interpreter does not complain at its end."""
    with contextlib.suppress(OSError):
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())


def say(text: str) -> None:
    """Prints progress or a warning; a closed standard error is no reason to fail."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True)


def fancy() -> bool:
    """Whether standard error may be given colours and moving progress."""
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
