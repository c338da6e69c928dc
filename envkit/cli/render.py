"""`envkit render`: writes images/ and playbooks/, or says what is missing, changed or stale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envkit.cli.output import emit, emit_json, format_option, say
from envkit.errors import UsageError

if TYPE_CHECKING:
    from envkit.render import Drift, Rendering

SCHEMA = "envkit/render/1"


@click.command()
@click.argument("schemes", nargs=-1, metavar="[SCHEME]...")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 where a file is missing, changed or stale.")
@click.option("--prune", is_flag=True, help="Remove the generated files of schemes that are no more.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    envvar="ENVKIT_RENDER_OUTPUT",
    help="The folder that holds images/ and playbooks/; by default the checkout that envkit runs from, else this folder.",
)
@click.option("--torch", default="", metavar="SPEC", help="Another release than the newest; only with --output.")
@format_option("text", "json")
@click.pass_context
def command(
    ctx: click.Context, schemes: tuple[str, ...], check: bool, prune: bool, output: Path | None, torch: str, form: str
) -> int:
    """Write images/ and playbooks/ of SCHEMES (all of them by default), or say what is out of date.

    A file that somebody else wrote is never replaced.
    """
    from envkit.cli.common import load_matrix
    from envkit.render import find_drift, render_schemes, write_files
    from envkit.render.drift import remove_stale

    if torch and output is None:
        raise UsageError("--torch makes other files than the usual ones", hint="say where to: envkit render --torch SPEC -o DIR")
    folder = output if output is not None else _default_folder()
    rendering = render_schemes(load_matrix(ctx), schemes, torch=torch, with_roles=not _has_own_roles(folder))
    drift = find_drift(rendering, folder)
    if not check:
        write_files(rendering, folder, drift)
        if prune:
            remove_stale(folder, drift)
    if form == "json":
        emit_json(_document(rendering, drift, folder, check, prune))
    else:
        _print(rendering, drift, folder, check, prune)
    return 1 if check and drift else 0


def _default_folder() -> Path:
    """The top of the checkout, when envkit runs from one and is called inside it; else the current folder."""
    from envkit.data import shipped

    here, top = Path.cwd(), shipped("templates").parent
    return top if (top / "pyproject.toml").is_file() and here.is_relative_to(top) else here


def _has_own_roles(folder: Path) -> bool:
    """Whether this is a checkout, whose roles are the originals and find the probe where it is written."""
    from envkit.data import shipped

    own = (folder / "playbooks").resolve() == shipped("playbooks").resolve()
    return own or (folder / "envkit" / "verify" / "probe.py").is_file()


def _print(rendering: Rendering, drift: Drift, folder: Path, check: bool, prune: bool) -> None:
    for scheme, why in rendering.skipped.items():
        say(f"{scheme}: {why}")
    if check:
        for word in ("missing", "changed", "foreign", "stale"):
            for place in getattr(drift, word):
                emit(f"{word:8} {place}")
        if drift:
            say("hint: envkit render" + (" --prune" if drift.stale else ""))
        else:
            emit(f"{len(drift.same)} files are as the matrix and the templates have them")
        return
    for place in sorted((*drift.missing, *drift.changed)):
        emit(f"wrote {place}")
    for place in drift.stale:
        emit(f"removed {place}" if prune else f"stale {place}")
    if drift.stale and not prune:
        say("hint: remove the stale files with: envkit render --prune")
    written = len(drift.missing) + len(drift.changed)
    emit(
        f"{written} of {len(rendering.files)} files written in {folder}"
        if written
        else f"{len(rendering.files)} files, nothing to do"
    )


def _document(rendering: Rendering, drift: Drift, folder: Path, check: bool, prune: bool) -> dict[str, Any]:
    document: dict[str, Any] = {"schema": SCHEMA, "folder": str(folder), "check": check, "current": not drift}
    document |= {word: list(getattr(drift, word)) for word in ("missing", "changed", "stale", "foreign")}
    document["written"] = [] if check else sorted((*drift.missing, *drift.changed))
    document["removed"] = list(drift.stale) if prune and not check else []
    document["skipped"] = [{"scheme": scheme, "because": why} for scheme, why in rendering.skipped.items()]
    return document
