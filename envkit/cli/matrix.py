"""`envkit matrix`: look at the compatibility matrix, and check it or an overlay of one's own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envkit.cli.matrix_export import command as export
from envkit.cli.matrix_refresh import command as refresh
from envkit.cli.matrix_refresh import not_asked
from envkit.cli.output import emit, emit_json, format_option, say
from envkit.errors import InvalidFile, UsageError

if TYPE_CHECKING:
    from envkit.matrix.refresh import Online
    from envkit.model import BackendRelease, Build, Framework, Matrix, Scheme

SHIPPED = "matrix.toml"
UNWELL = 1
_SHOWN = 8  # tags of a scheme in the overview
UNREACHABLE = 5
INVALID = 3
# A whole matrix has all of these; a file without is an overlay.
_WHOLE = {"meta", "source", "backend", "framework", "scheme"}


@click.group()
def command() -> None:
    """Look at, check, refresh and export the compatibility matrix."""


command.add_command(refresh, "refresh")
command.add_command(export, "export")


# ---- show --------------------------------------------------------------------------------------------------------


@command.command()
@click.argument("scheme", required=False, default="")
@format_option("text", "json")
@click.pass_context
def show(ctx: click.Context, scheme: str, form: str) -> int:
    """The matrix, or the part of it that SCHEME draws on, with the user's overlays applied."""
    from envkit.cli.common import load_matrix
    from envkit.matrix.plain import matrix_document

    matrix = load_matrix(ctx)
    chosen = _scheme(matrix, scheme) if scheme else None
    if form == "json":
        emit_json(matrix_document(matrix, chosen))
    else:
        emit(_scheme_text(matrix, chosen) if chosen else _overview(matrix))
    return 0


def _scheme(matrix: Matrix, name: str) -> Scheme:
    from envkit.matrix.fields import meant

    if name not in matrix.schemes:
        raise UsageError(f"unknown scheme '{name}'{meant(name, matrix.schemes)}", hint="envkit schemes lists them")
    return matrix.schemes[name]


def _overview(matrix: Matrix) -> str:
    from envkit.matrix.plain import builds_for

    lines = [f"the matrix of {matrix.updated}: {len(matrix.schemes)} schemes, {len(matrix.sources)} sources"]
    for framework in matrix.frameworks.values():
        newest = framework.releases[-1].version if framework.releases else "none"
        lines.append(f"{framework.name}: {len(framework.releases)} releases to {newest}, {len(framework.builds)} builds")
    rows = [("scheme", "newest confirmed build", "wheel indexes, newest first")]
    for scheme in matrix.schemes.values():
        builds = [build for build in builds_for(matrix, scheme).builds if build.published]
        newest_build = f"{scheme.framework} {builds[-1].release} {builds[-1].tag}" if builds else "none"
        tags = _newest_first(build.tag for build in builds)
        older = f" and {len(tags) - _SHOWN} older" if len(tags) > _SHOWN + 1 else ""
        rows.append((scheme.name, newest_build, " ".join(tags[:_SHOWN] if older else tags) + older))
    lines += ["", *_table(rows), "", "envkit matrix show SCHEME lists the builds of one; --format json gives every row"]
    return "\n".join(lines)


def _scheme_text(matrix: Matrix, scheme: Scheme) -> str:
    from envkit.matrix.plain import part_of

    part = part_of(matrix, scheme)
    framework, backend = part.frameworks[scheme.framework], part.backends[scheme.backend]
    lines = [f"{scheme.name}: {scheme.title}", "", f"releases of {framework.name}", *_releases(framework)]
    lines += ["", f"releases of {backend.title}", *_backend_releases(backend.releases), "", "builds", *_builds(framework)]
    lines += [
        "",
        "sources",
        *(f"  {word:<24}  {row.text}" + (f" <{row.url}>" if row.url else "") for word, row in part.sources.items()),
    ]
    return "\n".join(lines)


def _releases(framework: Framework) -> list[str]:
    rows = [("release", "date", "Pythons", *framework.companions)]
    for release in reversed(framework.releases):
        companions = [" ".join(release.companions.get(word, ())) or "-" for word in framework.companions]
        rows.append((release.version, release.date or "-", " ".join(release.pythons), *companions))
    return _table(rows)


def _backend_releases(releases: Sequence[BackendRelease]) -> list[str]:
    rows = [("index", "version", "needs a driver of", "listed architectures", "note")]
    for release in reversed(releases):
        floors = "; ".join(f"{os} {version}" for os, version in release.min_driver.items()) or "-"
        archs = "-" if release.archs is None else " ".join(release.archs)
        rows.append((release.tag, "-" if release.version == "0" else str(release.version), floors, archs, release.note))
    return _table(rows)


def _builds(framework: Framework) -> list[str]:
    rows = [("release", "index", "platforms", "published", "evidence", "code for")]
    for build in reversed(framework.builds):
        published = {True: "yes", False: "no", None: "not confirmed"}[build.published]
        rows.append((build.release, build.tag, " ".join(build.platforms), published, str(build.evidence), _code(build)))
    return _table(rows)


def _code(build: Build) -> str:
    if build.archs is None:
        return "not known" if build.tag not in ("cpu", "directml") else "any"
    return " ".join((*build.archs, *(f"{arch}+ptx" for arch in build.ptx)))


def _newest_first(tags: Iterable[str]) -> list[str]:
    from envkit.matrix.reader import natural

    return sorted(set(tags), key=natural, reverse=True)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


# ---- check -------------------------------------------------------------------------------------------------------


@command.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE]...")
@click.option("--online", is_flag=True, help="Ask as well whether each index, wheel and image tag is still there.")
@click.option(
    "--timeout",
    "limit",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    help="With --online: seconds that a server has to answer.",
)
@format_option("text", "json")
@click.pass_context
def check(ctx: click.Context, files: tuple[Path, ...], online: bool, limit: float, form: str) -> int:
    """Whether the shipped matrix and the user's overlays are well, or each FILE: an overlay or a whole matrix.

    Exit 0: all is well; 1: the shipped matrix has faults; 3: a file of the user's has. With --online, what is no longer there
    is a fault (1); what could not be asked is unknown and no fault; 5: nothing could be asked at all.
    """
    looked = [_look(file) for file in files] if files else _look_at_all(ctx)
    asked = _ask(ctx, files, limit) if online and not any(faults for _, _, faults in looked) else None
    document: dict[str, Any] = {
        "schema": "envkit/matrix-check/1",
        "healthy": not any(faults for _, _, faults in looked),
        "files": [{"file": name, "faults": faults} for name, _, faults in looked],
    }
    if asked is not None:
        document["healthy"] = document["healthy"] and not asked.faults
        places = [{"url": place.url, "state": place.state, "why": place.why} for place in asked.places]
        document["online"] = {"faults": list(asked.faults), "places": places}
    if form == "json":
        emit_json(document)
    else:
        for name, _, faults in looked:
            emit("\n".join(faults) if faults else f"{name}: no faults")
        if asked is not None:
            emit("\n".join(_online_text(asked)))
    if asked is not None and asked.nothing_reached:
        say("no place could be reached: check the network, proxies and mirrors (envkit.toml [mirrors], pip's and uv's settings)")
        return UNREACHABLE
    if asked is not None and asked.faults:
        return UNWELL
    # A file that the user wrote can be mended by the user, so its code goes first.
    return max((code for _, code, faults in looked if faults), default=0)


def _ask(ctx: click.Context, files: tuple[Path, ...], limit: float) -> Online:
    """What upstream says: of the matrix with overlays, or of a whole matrix that is named."""
    from envkit.cli.common import load_matrix
    from envkit.matrix import load
    from envkit.matrix.refresh import check_online
    from envkit.sources import read_sources

    whole = [file for file in files if set(_content(file)) >= _WHOLE]
    overlays = [file for file in files if file not in whole]
    matrix = load(whole[0] if whole else None, overlays=overlays) if files else load_matrix(ctx)
    return check_online(matrix, read_sources(), limit=limit, tell=say)


def _online_text(asked: Online) -> list[str]:
    lines = list(asked.faults)
    lines += [f"unknown: {line}" for line in not_asked(asked.unknown)]
    reached = len(asked.places) - len(asked.unknown)
    lines.append(
        f"online: {reached} places asked, {len(asked.faults)} missing or not to be believed, {len(asked.unknown)} unknown"
    )
    return lines


Looked = tuple[str, int, list[str]]  # the file, the exit code of its faults, the faults


def _look_at_all(ctx: click.Context) -> list[Looked]:
    from envkit.cli.common import overlays

    looked = [_shipped()]
    return looked if looked[0][2] else [*looked, *(_look(file) for file in overlays(ctx))]


def _shipped() -> Looked:
    from envkit import matrix

    try:
        faults = [f"{SHIPPED}: {fault}" for fault in matrix.check(matrix.load())]
    except InvalidFile as error:
        faults = _faults(error)
    return SHIPPED, UNWELL, faults


def _look(file: Path) -> Looked:
    from envkit import matrix

    try:
        if set(_content(file)) >= _WHOLE:
            faults = [f"{file}: {fault}" for fault in matrix.check(matrix.load(file))]
        else:
            matrix.load(overlays=[file])
            faults = []
    except InvalidFile as error:
        faults = _faults(error)
    return str(file), INVALID, faults


def _content(file: Path) -> dict[str, Any]:
    from envkit.matrix.parsed import read_toml

    return read_toml(file, str(file))


def _faults(error: InvalidFile) -> list[str]:
    return list(error.faults) or [error.message]
