"""`envkit up`: this machine's environment, from nothing to a proof. No Docker, no root."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from envkit.cli.output import emit, emit_json, fancy, format_option, say
from envkit.errors import Unresolvable
from envkit.model import Verdict, Wish

if TYPE_CHECKING:
    from envkit.model import Plan
    from envkit.venv import UpResult

DEFAULT_DIRECTORY = "env"
_ACCEPTED = (Verdict.SUPPORTED, Verdict.COMMUNITY)


@click.command()
@click.argument("directory", required=False, default=DEFAULT_DIRECTORY, metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--scheme", default="", metavar="NAME", help="A scheme, instead of the one that this machine calls for: linux-cpu.")
@click.option("--framework", default="", metavar="NAME", help="Another framework than torch: jax, openvino, onnxruntime, ...")
@click.option("--torch", default="", metavar="SPEC", help='The framework\'s release: "2.7.1", "2.7", ">=2.4,<2.8" or latest.')
@click.option("--python", default="", metavar="VERSION", help='"3.12", or "3.13t" for a free-threaded one.')
@click.option(
    "--with",
    "companions",
    envvar="ENVKIT_UP_WITH",
    multiple=True,
    metavar="PACKAGE",
    help="A companion package to include, such as torchvision. Can be given several times.",
)
@click.option(
    "--accept",
    multiple=True,
    type=click.Choice([str(verdict) for verdict in Verdict if verdict is not Verdict.UNSUPPORTED]),
    help="A verdict to accept besides supported and community. Can be given several times.",
)
@click.option("--upgrade", is_flag=True, help="Look for something newer than what DIR holds.")
@format_option("text", "json")
@click.pass_context
def command(
    ctx: click.Context,
    directory: Path,
    scheme: str,
    framework: str,
    torch: str,
    python: str,
    companions: tuple[str, ...],
    accept: tuple[str, ...],
    upgrade: bool,
    form: str,
) -> int:
    """Make DIR (env) this machine's environment: detect, resolve, install, verify, and print the proof.

    Run again, it changes nothing that is in order. A DIR that was left half made is made whole; one with files of others is
    not touched. What an option leaves open stays as DIR was made.
    """
    wish = Wish(
        scheme=scheme,
        framework=framework,
        torch=torch,
        python=python,
        extras=tuple(dict.fromkeys(companions)),
        accept=tuple(dict.fromkeys((*_ACCEPTED, *map(Verdict, accept)))),
    )
    try:
        result = _up(ctx, directory, wish, upgrade=upgrade)
    except Unresolvable as error:
        if form == "json" and error.document is not None:
            emit_json(error.document)
        raise
    _report(result, form, directory)
    return 0 if result.proof.passed else 1


def _up(ctx: click.Context, directory: Path, wish: Wish, *, upgrade: bool) -> UpResult:
    from envkit import detect
    from envkit.cli.common import load_matrix
    from envkit.sources import read_sources
    from envkit.venv import Options, draw, settle, up

    settle(directory)  # a folder that can't be used is told at once
    options = Options(upgrade=upgrade, show=draw() if fancy() else None, tell_plan=_tell_plan)
    return up(directory, lambda: load_matrix(ctx), wish, detect.detect(), read_sources, tell=say, options=options)


def _tell_plan(plan: Plan) -> None:
    """The plan in a few lines, and what was passed over."""
    pin = plan.framework_package
    on = f" on {plan.accelerator_name or plan.accelerator_arch}" if plan.accelerator_name or plan.accelerator_arch else ""
    say(f"{plan.scheme}: {pin.name} {pin.version}{on}, Python {plan.python} ({plan.verdict})")
    for reason in plan.reasons:
        say(f"  {reason}")
    for name, value in sorted(plan.env.items()):
        say(f"  needs {name}={value}, which activating the environment sets")


def _report(result: UpResult, form: str, directory: Path) -> None:
    if form == "json":
        from envkit.verify import proof_document

        emit_json(proof_document(result.proof))
    else:
        from envkit.report.text import proof_text

        emit(proof_text(result.proof))
    from envkit.venv import activation_command

    # As the user wrote it, which is shorter than where it really lies.
    say(f"activate it: {activation_command(directory.expanduser())}")
    if not result.proof.passed:
        say(f"the environment is whole but not proved; {_next(result)}")


def _next(result: UpResult) -> str:
    return f"after a change, prove it again with: envkit verify --venv {result.directory}"
