"""`envkit schemes`: what each scheme needs, for whom it is, what it cannot do."""

from __future__ import annotations

from collections.abc import Sequence

import click

from envkit.cli.output import emit, emit_json, format_option
from envkit.model import Matrix, Scheme


@click.command()
@format_option("text", "json")
@click.pass_context
def command(ctx: click.Context, form: str) -> int:
    """The schemes: what each needs, for whom it is, what it cannot do."""
    from envkit.cli.common import load_matrix
    from envkit.matrix.plain import scheme_document

    matrix = load_matrix(ctx)
    if form == "json":
        documents = [scheme_document(scheme, matrix.sources) for scheme in matrix.schemes.values()]
        emit_json({"schema": "envkit/schemes/1", "schemes": documents})
    else:
        emit("\n\n".join(scheme_text(scheme, matrix) for scheme in matrix.schemes.values()))
    return 0


def scheme_text(scheme: Scheme, matrix: Matrix) -> str:
    """A scheme as people read it."""
    lines = [f"{scheme.name}: {scheme.title}", f"  for         {scheme.for_whom}"]
    for word, items in (("needs", scheme.needs), ("good", scheme.pros), ("bad", scheme.cons), ("cannot", scheme.cannot)):
        lines += _items(word, items)
    if scheme.container:
        flags = " ".join(scheme.container.run_flags)
        lines.append(f"  container   on {scheme.container.base}" + (f", run with {flags}" if flags else ""))
    else:
        lines.append(f"  container   none: {scheme.no_container}")
    lines += _items("sources", [_source(word, matrix) for word in scheme.sources])
    return "\n".join(lines)


def _items(word: str, items: Sequence[str]) -> list[str]:
    return [f"  {word if position == 0 else '':<10}  {item}" for position, item in enumerate(items)]


def _source(word: str, matrix: Matrix) -> str:
    source = matrix.sources[word]
    return f"{source.text} <{source.url}>" if source.url else source.text
