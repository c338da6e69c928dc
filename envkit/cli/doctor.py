"""`envkit doctor`: why the accelerator does not work, with evidence and remedy."""

from __future__ import annotations

from pathlib import Path

import click

from envkit.cli.output import emit, emit_json, format_option
from envkit.model import Diagnosis, Facts


@click.command()
@click.option("--host", default="", metavar="URL", help="Another machine: ssh://user@host, docker://NAME.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="A report, as INTERFACE and docs have it.")
@format_option("text", "json")
@click.pass_context
def command(ctx: click.Context, host: str, report: Path | None, form: str) -> int:
    """Why the accelerator does not work, the likeliest cause first, each with its evidence and its remedy."""
    from envkit.cli.common import load_matrix
    from envkit.doctor import diagnose, diagnosis_document

    diagnosis = diagnose(load_matrix(ctx), _facts(host, report))
    if form == "json":
        emit_json(diagnosis_document(diagnosis))
    else:
        emit(diagnosis_text(diagnosis))
    return 0 if diagnosis.healthy else 1


def _facts(host: str, report: Path | None) -> Facts:
    from envkit import detect

    if report is not None:
        return detect.read_facts(report)
    if host:
        from envkit.verify.hosts import connect

        return detect.detect(connect(host))
    return detect.detect()


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """A diagnosis as people read it."""
    lines: list[str] = []
    for number, finding in enumerate(diagnosis.findings, 1):
        lines += [f"{number}. {finding.cause} ({finding.severity}): {finding.message}"]
        lines += [f"   seen    {line}" if not place else f"           {line}" for place, line in enumerate(finding.evidence)]
        lines += [f"   repair  {finding.remedy}", *(f"           $ {text}" for text in finding.commands)]
        lines += [f"   source  {text}" for text in finding.sources]
        lines.append("")
    if not diagnosis.findings:
        lines += ["nothing was found wrong", ""]
    lines += [f"a check failed itself: {text}" for text in diagnosis.broken]
    lines += [f"note: {text}" for text in diagnosis.notes]
    return "\n".join(lines).rstrip()
