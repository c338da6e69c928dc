"""The machine -> facts: a probe that only reads, pure parsers, and the facts document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def read_here() -> Mapping[str, Any]:
    """The raw document of this machine: the probe's own code, without a process of its own."""
    from envkit.detect import probe

    return probe.read()


def read_there(run: Runner) -> Mapping[str, Any]:
    """The raw document of the host that `run` reaches."""
    from envkit.detect import remote

    return remote.read(run)


def facts_document(facts: Facts) -> dict[str, Any]:
    """The document `envkit/facts/1`; what is not known is left out."""
    from envkit.detect.document import facts_document

    return facts_document(facts)


def read_facts(path: Path, notes: list[str] | None = None) -> Facts:
    """The facts in a JSON or TOML file, any part of which may be missing; raises InvalidFile with every fault."""
    from envkit.detect.document import read_facts

    return read_facts(path, notes)
