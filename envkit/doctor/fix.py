"""What `doctor --fix` may do: reinstall the right wheels in a virtual environment. The rest is told to be done by hand.

Drivers, modules, groups and reboots are never touched: they are other people's, or cannot be undone.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from envkit.doctor.case import Case
from envkit.model import Diagnosis, Facts, Finding, Matrix, Severity, Wish

# Causes that the right wheels in the environment take away.
REPAIRED_BY_WHEELS = frozenset(
    {
        "cpu-only-wheel",
        "wrong-accelerator-wheel",
        "cpu-arch-no-cuda-wheel",
        "wheel-too-old-for-gpu",
        "wheel-too-new-for-gpu",
        "wheel-lacks-gpu-arch-variant",
        "torchvision-mismatch",
        "numpy2-abi",
    }
)
_COMPANIONS = ("torchvision", "torchaudio")


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One repair: done from here, or by hand."""

    cause: str
    does: str
    commands: tuple[str, ...] = ()
    safe: bool = False


def environment_of(facts: Facts) -> Path | None:
    """The virtual environment whose Python was looked at; None where that Python is a system's own."""
    path = Path(facts.python.executable) if facts.python.executable else None
    if path is None or not (path.parent.parent / "pyvenv.cfg").is_file():
        return None
    return path.parent.parent


def steps(diagnosis: Diagnosis, facts: Facts) -> list[Step]:
    """What there is to do, the first thing first."""
    directory = environment_of(facts)
    return [_step(finding, directory) for finding in diagnosis.findings if finding.severity is not Severity.INFO]


def _step(finding: Finding, directory: Path | None) -> Step:
    if finding.cause not in REPAIRED_BY_WHEELS or directory is None:
        return Step(cause=finding.cause, does=finding.remedy, commands=finding.commands)
    made = "as envkit made it" if _is_ours(directory) else "with what was there noted, so that it can be put back"
    return Step(
        cause=finding.cause,
        does=f"reinstall the right wheels in {directory}, {made}",
        commands=(f"envkit doctor --venv {shlex.quote(str(directory))} --fix --yes",),
        safe=True,
    )


def _is_ours(directory: Path) -> bool:
    from envkit.venv import read_state

    return read_state(directory) is not None


def repair(matrix: Matrix, facts: Facts, diagnosis: Diagnosis, tell: Callable[[str], None]) -> list[str]:
    """Does what is safe, once for all causes; what was done, in words. Raises EnvkitError where it does not succeed."""
    from envkit.sources import read_sources
    from envkit.venv import up
    from envkit.venv.mending import mend

    directory = environment_of(facts)
    causes = {step.cause for step in steps(diagnosis, facts) if step.safe}
    if directory is None or not causes:
        return []
    case = Case(matrix, facts)
    companions = tuple(name for name in _COMPANIONS if name in case.packages)
    if _is_ours(directory):
        result = up(directory, matrix, Wish(extras=companions), facts, read_sources, tell=tell)
        done = [f"{directory} holds {result.plan.framework_package.requirement} again ({result.did})"]
    else:
        mended = mend(
            directory,
            matrix,
            facts,
            read_sources(),
            release=case.torch.version.partition("+")[0],
            companions=companions,
            tell=tell,
        )
        done = [
            f"{directory} holds {', '.join(package.requirement for package in mended.plan.packages)} now",
            f"what was there before: {mended.before}; back to it: {mended.undo}",
        ]
    return done
