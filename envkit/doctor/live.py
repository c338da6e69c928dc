"""What the checks look at, gathered live: this machine, a host, all hosts of an inventory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from envkit.detect import Examined, Inside, examine
from envkit.errors import EnvkitError
from envkit.process import Runner

# Where `provision` puts the environments of hosts, and where images have theirs.
_ON_HOSTS = ("/opt/envkit/*/bin/python", "/opt/venv/bin/python")


@dataclass(frozen=True, kw_only=True, slots=True)
class Looked:
    """One host, and what was found on it or why nothing was."""

    host: str
    examined: Examined | None = None
    error: EnvkitError | None = None


def environment_here(venv: Path | None) -> Path | None:
    """The environment in question on this machine: the one named, else the one that `up` made last here."""
    from envkit.venv import last_environment

    return venv if venv is not None else last_environment(Path.cwd())


def look_here(venv: Path | None, *, limit: float = 60.0) -> Examined:
    """This machine and the Python in question: that of `venv`, else of the environment that `up` made last here, else the
    first on PATH that has torch, else the one that runs this. Raises Unavailable where `venv` has no Python."""
    from envkit.verify.runner import venv_python

    directory = environment_here(venv)
    if directory is None:
        return examine(None, Inside(limit=limit))
    # Not resolved: an environment is known by the path that its interpreter is started with.
    python = str(venv_python(directory).absolute())
    return examine(None, Inside(pythons=(python,), strict=True, limit=limit))


def look_there(run: Runner, venv: str = "", *, limit: float = 60.0) -> Examined:
    """The host that `run` reaches; `venv` is a folder on it."""
    if venv:
        folder = venv.rstrip("/\\")
        return examine(run, Inside(pythons=(f"{folder}/bin/python", f"{folder}/Scripts/python.exe"), strict=True, limit=limit))
    return examine(run, Inside(pythons=_ON_HOSTS, limit=limit))


def look_everywhere(runners: Sequence[tuple[str, Runner]], venv: str = "", *, limit: float = 60.0) -> list[Looked]:
    """Every connected host (`verify.hosts.connect_all`), several at a time."""
    from concurrent.futures import ThreadPoolExecutor

    def one(item: tuple[str, Runner]) -> Looked:
        name, run = item
        try:
            return Looked(host=name, examined=look_there(run, venv, limit=limit))
        except EnvkitError as error:
            return Looked(host=name, error=error)

    with ThreadPoolExecutor(max_workers=max(1, min(16, len(runners)))) as pool:
        return list(pool.map(one, runners))
