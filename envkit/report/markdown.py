"""Proofs as Markdown: for a pull request, a wiki or a CI summary."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.model import Proof
from envkit.report.proofs import Result, one_line, result_line, verdict_line
from envkit.report.text import measured_lines


def proof_markdown(proof: Proof) -> str:
    """A heading, the verdict, a table of the checks, and what was measured."""
    lines = [f"## {_cell(proof.scheme or 'environment')} on {_cell(proof.host)}", "", f"**{_cell(verdict_line(proof))}**", ""]
    lines += ["| level | check | outcome | seconds | detail |", "| --- | --- | --- | ---: | --- |"]
    lines += [
        f"| {_cell(c.level)} | `{_cell(c.id)}` | {_cell(c.outcome)} | {c.seconds:.2f} | {_cell(c.detail)} |" for c in proof.checks
    ]
    measured = measured_lines(proof)
    if measured:
        lines += ["", *(f"- {_cell(line)}" for line in measured)]
    plan = f"Plan `{proof.plan}`, " if proof.plan else ""
    lines += ["", f"{plan}{proof.when}"]
    return "\n".join(lines)


def results_markdown(results: Sequence[Result]) -> str:
    """Every proof, and a table of the hosts first where there are several."""
    if len(results) == 1 and isinstance(results[0], Proof):
        return proof_markdown(results[0])
    lines = ["| host | result |", "| --- | --- |"]
    lines += [f"| {_cell(result.host)} | {_cell(result_line(result))} |" for result in results]
    return "\n\n".join(["\n".join(lines), *(proof_markdown(result) for result in results if isinstance(result, Proof))])


def _cell(text: str) -> str:
    """Text that cannot break out of a table cell or turn into markup."""
    line = one_line(text)
    for sign in ("\\", "|", "<", "`", "*", "["):
        line = line.replace(sign, "\\" + sign)
    return line
