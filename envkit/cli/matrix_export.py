"""`envkit matrix export`: the whole matrix for people and machines."""

from __future__ import annotations

from pathlib import Path

import click

from envkit.cli.output import emit, format_option, say
from envkit.errors import StepFailed


@click.command()
@format_option("json", "csv", "md", "html")
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE", help="Write FILE instead of standard output.")
@click.option(
    "--table",
    type=click.Choice(["combinations", "schemes", "drivers", "branches"]),
    default="combinations",
    show_default=True,
    help="The table that --format csv prints; the other formats hold all of them.",
)
@click.pass_context
def command(ctx: click.Context, form: str, output: Path | None, table: str) -> int:
    """The whole matrix, the user's overlays included: schemes, combinations, drivers and sources.

    html is one page that needs nothing else; the same matrix gives the same bytes.
    """
    from envkit.cli.common import load_matrix
    from envkit.files import write_whole
    from envkit.matrix import export

    matrix = load_matrix(ctx)
    made = {
        "json": export.to_json,
        "csv": lambda matrix: export.to_csv(matrix, table),
        "md": export.to_markdown,
        "html": export.to_html,
    }[form](matrix)
    if output is None:
        emit(made.rstrip("\n"))
        return 0
    try:
        write_whole(output, made)
    except OSError as fault:
        raise StepFailed(
            f"{output}: cannot be written: {fault.strerror or fault}", hint="choose another place with -o FILE"
        ) from None
    say(f"wrote {output}")
    return 0
