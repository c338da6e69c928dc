"""The machine -> facts: a probe that only reads, pure parsers, and the facts document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit.errors import Unavailable
from envkit.model import Facts
from envkit.process import Runner


def __getattr__(name: str) -> Any:
    # The parsers are only loaded when something is parsed.
    if name == "PROBES":
        from envkit.detect.parse import PROBES

        return PROBES
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def detect(run: Runner | None = None) -> Facts:
    """The facts of this machine, or of the host that `run` reaches, in one round trip.

    Never waits longer than about ten seconds for this machine's tools; which of them did not answer is in the
    evidence. Raises Unavailable where a host cannot be asked.
    """
    from envkit.detect.parse import parse

    return parse(read_here() if run is None else read_there(run))


@dataclass(frozen=True, kw_only=True, slots=True)
class Inside:
    """Which Python environment to look into besides the machine, and for how long."""

    pythons: Sequence[str] = ()  # paths of interpreters or patterns of them; the first that is there
    strict: bool = False  # whether nothing else counts; else the first python3 on PATH with torch, else the one that asks
    limit: float = 60.0  # seconds, of the import most of all


@dataclass(frozen=True, kw_only=True, slots=True)
class Examined:
    """A machine and the Python environment in question."""

    facts: Facts
    names: tuple[str, ...] = ()  # what the user and the machine are called: to be taken out of what is passed on


def examine(run: Runner | None = None, inside: Inside | None = None) -> Examined:
    """The facts of a machine and of what its torch says of itself, imported in a process of its own with a limit.

    Raises Unavailable where a host cannot be asked, or has no such Python.
    """
    from envkit.detect.parse import parse

    inside = inside or Inside()
    wish = {"pythons": list(inside.pythons), "strict": inside.strict, "limit": inside.limit}
    raw = read_here(wish) if run is None else read_there(run, wish)
    told = raw.get("inside")
    if isinstance(told, Mapping) and "missing" in told:
        raise Unavailable(
            f"there is no Python at {' or '.join(map(str, inside.pythons))}",
            hint="name the folder of a virtual environment: --venv DIR",
        )
    names = raw.get("names")
    return Examined(facts=parse(raw), names=tuple(map(str, names)) if isinstance(names, list) else ())


def read_here(inside: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The raw document of this machine: the probe's own code, without a process of its own."""
    from envkit.detect import probe

    return probe.read(inside=None if inside is None else dict(inside))


def read_there(run: Runner, inside: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The raw document of the host that `run` reaches."""
    from envkit.detect import remote

    return remote.read(run, inside)


def facts_document(facts: Facts) -> dict[str, Any]:
    """The document `envkit/facts/1`; what is not known is left out."""
    from envkit.detect.document import facts_document

    return facts_document(facts)


def read_facts(path: Path, notes: list[str] | None = None) -> Facts:
    """The facts in a JSON or TOML file, any part of which may be missing; raises InvalidFile with every fault."""
    from envkit.detect.document import read_facts

    return read_facts(path, notes)
