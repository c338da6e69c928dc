"""The group of commands, and the one place where errors become messages and exit codes."""

from __future__ import annotations

import difflib
import importlib
import os
import traceback
from collections.abc import Sequence
from typing import Any

import click

from envkit import __version__
from envkit.cli import CLOSED_PIPE
from envkit.cli.output import close_output, say
from envkit.cli.signals import ended_as_interrupted
from envkit.errors import EnvkitError

# Written out, never collected by scanning: name -> module below envkit.cli. Each module has one click command `command`.
COMMANDS = {
    "up": "up",
    "detect": "detect",
    "schemes": "schemes",
    "advise": "advise",
    "resolve": "resolve",
    "matrix": "matrix",
    "render": "render",
    "build": "build",
    "verify": "verify",
    "doctor": "doctor",
}

# Help lines of the commands, so that `envkit --help` need not import them.
SUMMARIES = {
    "up": "Make this machine's environment: detect, resolve, install, verify.",
    "detect": "The facts of a machine.",
    "schemes": "The schemes: what each needs, for whom it is, what it cannot do.",
    "advise": "The schemes ranked for a machine or a card to buy, with reasons for and against.",
    "resolve": "The best plan for a machine, or why nothing fits.",
    "matrix": "Look at, check, refresh and export the compatibility matrix.",
    "render": "Write images/ and playbooks/, or say what is out of date.",
    "build": "Build images.",
    "verify": "Prove an environment by computing in it.",
    "doctor": "Why the accelerator does not work, with evidence and remedy.",
}


class CommandGroup(click.Group):
    """A group that loads a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        command = importlib.import_module(f"envkit.cli.{module}").command
        assert isinstance(command, click.Command)  # noqa: S101
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            meant = f" Did you mean '{close[0]}'?" if close else ""
            ctx.fail(f"No such command '{name}'.{meant}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, SUMMARIES[name]) for name in COMMANDS])


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "ENVKIT"})
@click.version_option(__version__, message="envkit %(version)s")
@click.option(
    "--overlay",
    type=click.Path(),
    multiple=True,
    help="A matrix overlay to apply; may be given several times (ENVKIT_OVERLAY: separated as in PATH).",
)
def envkit(overlay: tuple[str, ...]) -> None:
    """Takes an AI machine from bare to proven."""


def run(arguments: Sequence[str]) -> int:
    """The exit code of a call; prints what went wrong, never a traceback unless ENVKIT_DEBUG is set."""
    try:
        with ended_as_interrupted():
            result: Any = envkit.main(args=list(arguments), prog_name="envkit", standalone_mode=False)
        code = result if isinstance(result, int) else 0
    except EnvkitError as error:
        _debug()
        say(f"error: {error.message}")
        if error.hint:
            say(f"hint: {error.hint}")
        code = error.exit_code
    except click.exceptions.Exit as done:
        code = done.exit_code
    except SystemExit:
        # Not used by any command: click's own way out when help is printed into a closed pipe.
        code = CLOSED_PIPE
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.ctx.get_help() if error.ctx else str(error))
        code = 2
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            say(context.get_usage())
        say(f"error: {error.format_message()}")
        code = 2 if isinstance(error, click.UsageError) else error.exit_code
    except (KeyboardInterrupt, click.Abort):
        say("interrupted")
        code = 130
    except BrokenPipeError:
        close_output()
        code = CLOSED_PIPE
    except UnicodeEncodeError as error:
        say(f"error: {error.object!a} holds what this system's text encoding ({error.encoding}) cannot carry")
        say("hint: choose another name, or a UTF-8 locale: LC_ALL=C.UTF-8")
        code = 2
    except OSError as error:
        _debug()
        where = f"{error.filename}: " if error.filename else ""
        say(f"error: {where}{error.strerror or error}")
        say("hint: check that the place exists, may be written to and has room")
        code = 6
    except Exception as error:
        _debug()
        say(f"error: envkit failed on something it did not foresee: {type(error).__name__}: {error}")
        say("hint: run again with ENVKIT_DEBUG=1 and report what it prints")
        code = 6
    return code


def _debug() -> None:
    if os.environ.get("ENVKIT_DEBUG"):
        traceback.print_exc()
