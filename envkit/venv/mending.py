"""Puts the right wheels into an environment that somebody else made: nothing is taken away, and what was there is noted."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envkit.errors import StepFailed, Unavailable, Unresolvable
from envkit.model import Facts, Matrix, Plan, Wish
from envkit.process import run
from envkit.sources import Sources, installation, partners, redact
from envkit.venv import making
from envkit.venv.activation import interpreter
from envkit.venv.contents import distributions, python_of
from envkit.venv.deciding import Decision, decide
from envkit.venv.folder import state_home, write_whole

_LIMIT = 6 * 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Mended:
    """What was put into an environment, and how to go back."""

    plan: Plan
    before: Path  # a list of what was installed, as pip reads it
    undo: str


def mend(
    directory: Path,
    matrix: Matrix,
    facts: Facts,
    sources: Sources,
    *,
    release: str = "",
    companions: Sequence[str] = (),
    tell: Callable[[str], None] = lambda text: None,
) -> Mended:
    """Installs the build of torch that this machine calls for, with its companions, into a virtual environment.

    The release stays where there is such a build of it. Raises Unresolvable, Unavailable or StepFailed.
    """
    python = interpreter(directory)
    if not (directory / "pyvenv.cfg").is_file() or not python.exists():
        raise Unavailable(
            f"{directory} is no virtual environment, and only those are repaired",
            hint="make one beside it: envkit up DIR",
        )
    uv = making.find_uv()
    decision = _decide(directory, matrix, facts, sources, uv, release, companions, tell)
    plan = decision.plan
    there = distributions(directory)
    before = state_home() / "mended" / f"{time.strftime('%Y%m%d-%H%M%S')}-{directory.name[:40]}.txt"
    try:
        before.parent.mkdir(parents=True, exist_ok=True)
        write_whole(before, "".join(f"{name}=={version}\n" for name, version in sorted(there.items())))
    except OSError as fault:
        raise Unavailable(
            f"what is installed could not be noted in {before}: {fault.strerror}", hint="set XDG_STATE_HOME to a folder with room"
        ) from None
    names = [package.name for package in plan.packages]
    install = installation(sources, plan, decision.found, partners(sources, plan, decision.found))
    tell(f"installing {', '.join(package.requirement for package in plan.packages)} into {directory}")
    with tempfile.TemporaryDirectory(prefix="envkit-") as folder:
        write_whole(Path(folder) / "pyproject.toml", install.project)
        write_whole(Path(folder) / "constraints.txt", install.constraints)
        argv = [str(uv), "pip", "install", "--python", str(python), "-r", "pyproject.toml", "--constraints", "constraints.txt"]
        argv += [*install.arguments, *(part for name in names for part in ("--reinstall-package", name))]
        done = run(argv, limit=_LIMIT, env=install.environ(os.environ), cwd=Path(folder), end_with_us=True)
    if not done.ok:
        raise StepFailed(f"installing failed, and {directory} is as it was\n{making.matters(redact(done.stderr))}")
    return Mended(plan=plan, before=before, undo=f"uv pip install --python {shlex.quote(str(python))} -r {shlex.quote(str(before))}")


def _decide(
    directory: Path,
    matrix: Matrix,
    facts: Facts,
    sources: Sources,
    uv: Path,
    release: str,
    companions: Sequence[str],
    tell: Callable[[str], None],
) -> Decision:
    python = python_of(directory)
    for torch in dict.fromkeys((release, "")):
        try:
            return decide(matrix, Wish(torch=torch, python=python, extras=tuple(companions)), facts, sources, uv, tell)
        except (Unresolvable, Unavailable):
            if not torch:
                raise
            tell(f"no torch {torch} that fits this machine can be had here; taking the newest that does")
    raise AssertionError("the loop returns or raises")
