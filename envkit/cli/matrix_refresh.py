"""`envkit matrix refresh`: what upstream has today against what the matrix says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from envkit.cli.output import emit, emit_json, format_option, say
from envkit.errors import UsageError

if TYPE_CHECKING:
    from envkit.matrix.refresh import Report
    from envkit.matrix.refresh.changes import Change
    from envkit.matrix.refresh.refreshing import Place
    from envkit.model import Matrix

UNWELL, UNREACHABLE, FAILED = 1, 5, 6
_SIGNS = {"new": "+", "vanished": "-", "changed": "~", "look": "?"}


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False), metavar="[FILE]")
@click.option(
    "--only",
    "names",
    multiple=True,
    metavar="NAME,...",
    help="Only these frameworks (torch, jax, ...), or: libraries, images, drivers.",
)
@click.option("--write", "writing", is_flag=True, help="Write the changes into the matrix; its comments and order stay.")
@click.option("--force", is_flag=True, help="Take rows away as well, and believe an index that shrank suddenly.")
@click.option("--check", "checking", is_flag=True, help="Exit 1 where there are differences.")
@click.option("--measure", is_flag=True, help="Read the compiled architectures out of the wheels that PyPI serves.")
@click.option(
    "--timeout",
    "limit",
    type=click.FloatRange(1, 600),
    default=30.0,
    show_default=True,
    help="Seconds that a server has to answer.",
)
@format_option("text", "json")
def command(
    file: Path | None,
    names: tuple[str, ...],
    writing: bool,
    force: bool,
    checking: bool,
    measure: bool,
    limit: float,
    form: str,
) -> int:
    """Compare the matrix (or FILE) with PyPI, the wheel indexes, registries and package lists of today.

    Prints what is new, vanished or changed there. Exit 0: compared; 1: with --check, there are differences; 5: no place could be
    reached; 6: an answer must not be believed (a server's error, a page cut short, an index that shrank suddenly), or the
    matrix would shrink: then nothing is written. Places that could not be reached are named and their rows are left alone.
    """
    from envkit.matrix.refresh import Options, refresh, write
    from envkit.sources import read_sources

    path, matrix, before = _matrix(file, writing)
    words = tuple(word for name in names for word in name.split(",") if word)
    options = Options(only=words, measure=measure, force=force, limit=limit)
    report = refresh(matrix, read_sources(), options, say)
    if form == "json":
        emit_json(_document(path, report))
    else:
        emit(_text(report))
    for line in not_asked(report.unreachable):
        say(f"not compared: {line}")
    if writing and not (report.unreachable and not report.read):
        write(path, before, report, force=force)
        say(f"wrote {path}")
    elif report.refused:
        for place in report.refused:
            say(f"refused: {place.url}: {place.why}")
    if report.refused:
        return FAILED
    if report.unreachable and not report.read:
        say("no place could be reached: check the network, proxies and mirrors (envkit.toml [mirrors], pip's and uv's settings)")
        return UNREACHABLE
    return UNWELL if checking and report.changes else 0


def not_asked(places: Sequence[Place]) -> list[str]:
    """Places that could not be asked, each with the reason; of many at one host, the host."""
    by_host: dict[tuple[str, str], list[str]] = {}
    for place in places:
        host = place.url.split("/")[2] if "://" in place.url else place.url
        by_host.setdefault((host, place.why), []).append(place.url)
    lines = []
    for (host, why), urls in by_host.items():
        lines += [f"{url}: {why}" for url in urls] if len(urls) < 4 else [f"{host}: {why} ({len(urls)} places)"]
    return lines


def _matrix(file: Path | None, writing: bool) -> tuple[Path, Matrix, bytes]:
    from envkit.data import shipped
    from envkit.errors import InvalidFile
    from envkit.matrix import load

    path = file or shipped("matrix.toml")
    if writing and file is None and path.parent.name == "_shipped":
        raise UsageError(
            "--write: the matrix of an installed envkit is not written to",
            hint="name a matrix of your own: envkit matrix refresh --write FILE",
        )
    try:
        before = path.read_bytes()
    except OSError as fault:
        raise InvalidFile(f"{path}: cannot be read: {fault.strerror or fault}") from None
    return path, load(file) if file else load(), before


def _document(path: Path, report: Report) -> dict[str, Any]:
    from envkit.matrix.refresh.measuring import plain_measured
    from envkit.matrix.refresh.refreshing import plain_change

    return {
        "schema": "envkit/matrix-refresh/1",
        "file": path.name,
        "changes": [plain_change(change) for change in report.changes],
        "places": [{"url": place.url, "state": place.state, "why": place.why} for place in report.places],
        "drivers": {name: dict(newest) for name, newest in report.drivers.items()},
        "left_out": {name: list(versions) for name, versions in report.left_out.items()},
        "measured": plain_measured(report.measured),
        "seconds": round(report.seconds, 3),
        "bytes_read": report.bytes_read,
        "requests": report.requests,
    }


# ---- text --------------------------------------------------------------------------------------------------------


def _text(report: Report) -> str:
    from envkit.matrix.refresh.refreshing import rows_of

    lines: list[str] = []
    for table, changes in rows_of(report.changes).items():
        lines += [table, *(line for change in changes for line in _change(change)), ""]
    if report.measured:
        lines += [*_measured(report), ""]
    for name, newest in report.drivers.items():
        lines.append(f"{name}: newest drivers by branch: {', '.join(f'{branch}: {driver}' for branch, driver in newest.items())}")
    for name, versions in report.left_out.items():
        few = ", ".join(versions[:6]) + (", ..." if len(versions) > 6 else "")
        lines.append(f"{name}: {len(versions)} older releases on PyPI are not in the matrix: {few}")
    count = {kind: sum(change.kind == kind for change in report.changes) for kind in _SIGNS}
    summary = ", ".join(f"{number} {kind if kind != 'look' else 'to look at'}" for kind, number in count.items() if number)
    compared = f"{len(report.read)} places read, {len(report.unreachable)} not reached, {len(report.refused)} refused"
    lines.append(f"{summary or 'no differences'} ({compared}; {report.bytes_read / 1e6:.1f} MB in {report.seconds:.1f} s)")
    return "\n".join(lines)


def _measured(report: Report) -> list[str]:
    """The wheels that were looked into, each with what it says of its row."""
    words = {True: "equal", False: "DIFFERS", None: "-"}
    rows = []
    for one in report.measured:
        code = one.code
        archs = " ".join((*code.archs, *(f"{arch}+ptx" for arch in code.ptx))) if code else ""
        cost = f"{code.bytes_read / 1e6:6.1f} MB {code.seconds:5.1f} s" if code else ""
        what = f"{one.framework} {one.version} {one.platform}"
        tag = one.build.split(" ")[1] if one.build else ""
        rows.append(f"  {words[one.agrees]:<8}{what:<36}{tag:<12}{cost:<19}{archs}{'; ' if archs and one.why else ''}{one.why}")
    compared = [one for one in report.measured if one.agrees is not None]
    equal = sum(one.agrees is True for one in compared)
    spent = sum(one.code.bytes_read for one in report.measured if one.code) / 1e6
    head = f"measured: {len(report.measured)} wheels, {equal} of {len(compared)} equal to the matrix, {spent:.0f} MB read"
    return [head, *rows]


def _change(change: Change) -> list[str]:
    from envkit.matrix.refresh.edit import toml

    lines = [f"  {_SIGNS[change.kind]} {change.label}: {change.because}"]
    if change.row:
        lines.append(f"      {toml(dict(change.row))}")
    for word, value in change.now.items():
        before = change.was.get(word)
        lines.append(f"      {word}: {_value(before)} -> {_value(value)}")
    return lines


def _value(value: Any) -> str:
    from envkit.matrix.refresh.edit import toml

    if value is None:
        return "(nothing)"
    return " ".join(value) if isinstance(value, list) and all(isinstance(word, str) for word in value) else toml(value)
