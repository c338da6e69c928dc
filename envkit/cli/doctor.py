"""`envkit doctor`: why the accelerator does not work, with evidence and remedy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from envkit.cli.output import emit, emit_json, format_option, say
from envkit.errors import EnvkitError, Unavailable, UsageError
from envkit.model import Diagnosis, Facts, Matrix

if TYPE_CHECKING:
    from envkit.doctor.live import Looked


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """What is diagnosed: facts, whose they are, and what they must not say when they are passed on."""

    facts: Facts
    host: str = ""
    names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@click.command()
@click.option("--host", default="", metavar="URL", help="Another machine: ssh://user@host, docker://NAME.")
@click.option(
    "-i",
    "--inventory",
    type=click.Path(path_type=Path, exists=True),
    metavar="INVENTORY",
    help="Every host of an Ansible inventory.",
)
@click.option("--venv", metavar="DIR", default="", help="The virtual environment in question, on that machine.")
@click.option("--identity", metavar="FILE", default="", help="The key to log in with, for ssh hosts.")
@click.option("--ssh-config", metavar="FILE", default="", help="An SSH configuration file, for ssh hosts.")
@click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="A report, as INTERFACE and docs have it.")
@click.option("--fix", is_flag=True, help="Show what could be repaired from here, and what is left to do by hand.")
@click.option("--yes", is_flag=True, help="With --fix: do what is safe and can be undone.")
@click.option(
    "--bundle",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the facts to FILE (.json or .toml) as a report to pass on: without names, addresses, ids and secrets.",
)
@click.option(
    "--limit",
    type=click.FloatRange(min=1, max=3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="End an import of torch that takes longer.",
)
@format_option("text", "json")
@click.pass_context
def command(
    ctx: click.Context,
    host: str,
    inventory: Path | None,
    venv: str,
    identity: str,
    ssh_config: str,
    report: Path | None,
    fix: bool,
    yes: bool,
    bundle: Path | None,
    limit: float,
    form: str,
) -> int:
    """Why the accelerator does not work, the likeliest cause first, each with its evidence and its remedy.

    Without --host or --report it looks at this machine, and at the environment that --venv names: else the one that
    `envkit up` made last here, else the first python3 on PATH that has torch.
    """
    from envkit.cli.common import load_matrix
    from envkit.doctor import diagnose, diagnosis_document

    _agree(host=host, inventory=inventory, venv=venv, report=report, ssh=bool(identity or ssh_config), fix=fix, yes=yes)
    ssh = (ssh_config, identity)
    matrix = load_matrix(ctx)
    if inventory is not None or host.startswith("ansible://"):
        if bundle is not None:
            raise UsageError("--bundle writes the report of one machine", hint="name it: --host ssh://NAME")
        return _several(matrix, _look_everywhere(host, inventory, venv, ssh, limit), form)
    subject = _subject(host, venv, report, ssh, limit)
    diagnosis = diagnose(matrix, subject.facts)
    diagnosis = replace(diagnosis, notes=(*diagnosis.notes, *subject.notes))
    if bundle is not None:
        _write_bundle(bundle, subject)
    if fix:
        diagnosis = _fix(matrix, subject, diagnosis, yes=yes, again=lambda: _subject(host, venv, report, ssh, limit))
    if form == "json":
        emit_json(diagnosis_document(diagnosis, host=subject.host))
    else:
        emit(diagnosis_text(diagnosis))
    return 0 if diagnosis.healthy else 1


def _agree(*, host: str, inventory: Path | None, venv: str, report: Path | None, ssh: bool, fix: bool, yes: bool) -> None:
    """Raises UsageError for options that do not go together."""
    places = {"--host": host, "-i": inventory, "--report": report}
    given = [name for name, value in places.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} mean different machines", hint="name one of them")
    if ssh and not (host or inventory):
        raise UsageError("--identity and --ssh-config belong to --host or -i")
    if venv and report:
        raise UsageError("--venv is a folder of a machine, and --report is the whole machine", hint="leave one of them away")
    if yes and not fix:
        raise UsageError("--yes belongs to --fix")
    if fix and (host or inventory or report):
        raise UsageError("--fix repairs environments of this machine", hint="run envkit doctor --fix on the machine itself")


def _subject(host: str, venv: str, report: Path | None, ssh: tuple[str, str], limit: float) -> Subject:
    from envkit import detect
    from envkit.doctor import live

    if report is not None:
        return Subject(facts=detect.read_facts(report))
    if host:
        from envkit.verify.hosts import SshOptions, connect, redact

        found = live.look_there(connect(host, SshOptions(config=ssh[0], identity=ssh[1])), venv, limit=limit)
        return Subject(facts=found.facts, host=redact(host), names=found.names, notes=_looked_at(found.facts))
    found = live.look_here(Path(venv) if venv else None, limit=limit)
    return Subject(facts=found.facts, names=found.names, notes=_looked_at(found.facts))


def _fix(matrix: Matrix, subject: Subject, diagnosis: Diagnosis, *, yes: bool, again: Callable[[], Subject]) -> Diagnosis:
    """Tells what there is to do; with `yes` does what is safe. The diagnosis of what is then there."""
    from envkit.doctor import diagnose
    from envkit.doctor.fix import repair, steps

    for step in steps(diagnosis, subject.facts):
        told = "repairing" if step.safe and yes else "from here, with --yes" if step.safe else "by hand"
        say(f"{told}: {step.cause}: {step.does}")
        for line in () if step.safe else step.commands:
            say(f"  $ {line}")
    if not yes or not any(step.safe for step in steps(diagnosis, subject.facts)):
        return diagnosis
    for line in repair(matrix, subject.facts, diagnosis, say):
        say(line)
    after = again()
    return replace(diagnose(matrix, after.facts), notes=after.notes)


def _looked_at(facts: Facts) -> tuple[str, ...]:
    python = facts.python
    has = f"torch {facts.torch['version']}" if facts.torch.get("version") else "no torch"
    return (f"looked at {python.executable} (Python {python.version}, {has})",) if python.executable else ()


def _write_bundle(path: Path, subject: Subject) -> None:
    from envkit.doctor.bundle import bundle_text
    from envkit.files import write_whole

    text = bundle_text(subject.facts, subject.names, toml=path.suffix.lower() == ".toml")
    try:
        write_whole(path, text)
    except OSError as fault:
        raise EnvkitError(
            f"the report cannot be written to {path}: {fault.strerror}",
            hint="check that the folder is there and may be written to, or name another: --bundle FILE",
        ) from None
    say(f"written to {path}; read it through before you pass it on")


# ---- several hosts -----------------------------------------------------------------------------------------------


def _look_everywhere(host: str, inventory: Path | None, venv: str, ssh: tuple[str, str], limit: float) -> list[Looked]:
    from envkit.doctor.live import look_everywhere
    from envkit.verify.hosts import SshOptions, connect_all, connect_group

    options = SshOptions(config=ssh[0], identity=ssh[1])
    return look_everywhere(connect_group(host, options) if host else connect_all(inventory, ssh=options), venv, limit=limit)


def _several(matrix: Matrix, looked: Sequence[Looked], form: str) -> int:
    """Prints the diagnoses of several hosts; the exit code of all of them."""
    from envkit.doctor import diagnose, diagnoses_document

    diagnosed: list[tuple[str, Diagnosis]] = []
    unreached: list[tuple[str, EnvkitError]] = []
    for each in looked:
        if each.examined is not None:
            diagnosis = diagnose(matrix, each.examined.facts)
            notes = (*diagnosis.notes, *_looked_at(each.examined.facts))
            diagnosed.append((each.host, replace(diagnosis, notes=notes)))
        elif each.error is not None:
            unreached.append((each.host, each.error))
    if form == "json":
        emit_json(diagnoses_document(diagnosed, unreached))
    else:
        emit(diagnoses_text(diagnosed, unreached))
    if any(not diagnosis.healthy for _, diagnosis in diagnosed):
        return 1
    return Unavailable.exit_code if unreached else 0


def diagnoses_text(diagnosed: Sequence[tuple[str, Diagnosis]], unreached: Sequence[tuple[str, EnvkitError]] = ()) -> str:
    """Several hosts: each that has findings in full, and a line a host at the end."""
    lines: list[str] = []
    for host, diagnosis in diagnosed:
        if diagnosis.findings or diagnosis.broken:
            lines += [f"== {host}", "", diagnosis_text(diagnosis), ""]
    width = max((len(host) for host, _ in (*diagnosed, *unreached)), default=0)
    for host, diagnosis in diagnosed:
        causes = ", ".join(finding.cause for finding in diagnosis.findings) or "nothing was found wrong"
        lines.append(f"{host:{width}}  {causes}")
    for host, error in unreached:
        why = " ".join(error.message.split())
        lines.append(f"{host:{width}}  could not be asked: {why}" + (f" ({error.hint})" if error.hint else ""))
    return "\n".join(lines)


# ---- one diagnosis -----------------------------------------------------------------------------------------------


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
