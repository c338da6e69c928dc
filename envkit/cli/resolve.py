"""`envkit resolve`: the best plan for a machine, or why nothing fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from envkit.cli.output import emit, emit_json, format_option
from envkit.errors import UsageError
from envkit.model import Facts, Resolution, Verdict, Wish

NOTHING_FITS = 4

_ACCEPTED = (Verdict.SUPPORTED, Verdict.COMMUNITY)


class _Whole(click.types.StringParamType):
    """A text that a variable of the environment gives as one, spaces and all, for an option that is collected."""

    def split_envvar_value(self, rv: str) -> list[str]:
        return [rv]


@click.command()
@click.argument("scheme", required=False, default="")
@click.option(
    "--scheme",
    "scheme_option",
    envvar="ENVKIT_RESOLVE_SCHEME",
    default="",
    metavar="NAME",
    help="The same as the argument SCHEME.",
)
@click.option("--framework", default="", metavar="NAME", help="Another framework than torch: jax, onnxruntime, ...")
@click.option("--os", "os", default="", metavar="OS", help="linux, windows, macos, wsl2 or a platform: ubuntu-24.04/x86_64.")
@click.option(
    "--gpu",
    type=_Whole(),
    multiple=True,
    metavar="GPU",
    help='A product ("RTX 5090", "4x A100"), an architecture (sm_86), a PCI id, or none.',
)
@click.option("--driver", default="", metavar="VERSION", help="The kernel driver's version.")
@click.option("--backend", default="", metavar="BACKEND", help='cuda, "cuda 12.8" or the name of a wheel index: cu128.')
@click.option("--torch", default="", metavar="SPEC", help='The framework\'s release: "2.7.1", "2.7", ">=2.4,<2.8" or latest.')
@click.option("--python", default="", metavar="VERSION", help='"3.12", or "3.13t" for a free-threaded one.')
@click.option(
    "--with",
    "companions",
    envvar="ENVKIT_RESOLVE_WITH",
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
@click.option(
    "--facts", type=click.Path(path_type=Path), metavar="FILE", help="The facts of a machine, as `envkit detect` writes them."
)
@click.option("--all", "every", envvar="ENVKIT_RESOLVE_ALL", is_flag=True, help="Every candidate with its verdict and reasons.")
@format_option("text", "json")
@click.pass_context
def command(
    ctx: click.Context,
    scheme: str,
    scheme_option: str,
    framework: str,
    os: str,
    gpu: tuple[str, ...],
    driver: str,
    backend: str,
    torch: str,
    python: str,
    companions: tuple[str, ...],
    accept: tuple[str, ...],
    facts: Path | None,
    every: bool,
    form: str,
) -> int:
    """The best plan for a machine, or why nothing fits (exit 4) and what comes nearest.

    Without --facts, --os, --gpu and --driver the machine is this one.
    """
    from envkit import resolve
    from envkit.cli.common import load_matrix
    from envkit.resolve import explain

    if scheme and scheme_option and scheme != scheme_option:
        raise UsageError(f"two schemes: {scheme} and {scheme_option}", hint="name one")
    if len(gpu) > 1:
        raise UsageError(
            f"--gpu was given {len(gpu)} times: {', '.join(gpu)}",
            hint="name one card at a time; the cards of a whole machine are told with --facts FILE",
        )
    wish = Wish(
        scheme=scheme or scheme_option,
        framework=framework,
        os=os,
        gpu=gpu[0] if gpu else "",
        driver=driver,
        backend=backend,
        torch=torch,
        python=python,
        extras=companions,
        accept=tuple(dict.fromkeys((*_ACCEPTED, *map(Verdict, accept)))),
    )
    resolution = resolve.resolve(load_matrix(ctx), wish, _facts(wish, facts))
    code = 0 if resolution.plan else NOTHING_FITS
    if form == "json":
        emit_json(_document(resolution, every))
    elif every:
        emit(explain.candidates_text(resolution))
    elif resolution.plan:
        emit(explain.plan_text(resolution.plan))
    else:
        emit(explain.conflict_text(resolution))
    return code


def _facts(wish: Wish, path: Path | None) -> Facts | None:
    from envkit import detect

    if path is not None:
        return detect.read_facts(path)
    if wish.os or wish.gpu or wish.driver:
        return None
    return detect.detect()


def _document(resolution: Resolution, every: bool) -> dict[str, Any]:
    from envkit import plan, resolve

    if every:
        return resolve.candidates_document(resolution)
    return plan.to_document(resolution.plan) if resolution.plan else resolve.conflict_document(resolution)
