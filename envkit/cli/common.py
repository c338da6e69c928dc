"""What several commands need: the matrix with the user's overlays."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from envkit.errors import InvalidFile
from envkit.matrix import fields, load
from envkit.matrix.parsed import read_toml
from envkit.model import Matrix

PROJECT_FILE = "envkit.toml"


def load_matrix(ctx: click.Context | None = None) -> Matrix:
    """The shipped matrix with every overlay applied; raises InvalidFile naming every fault."""
    return load(overlays=overlays(ctx))


def overlays(ctx: click.Context | None = None) -> tuple[Path, ...]:
    """The overlays in the order in which they apply: the user's own, the project's, then those of the call."""
    own = _user_file()
    found = [own] if own is not None and own.is_file() else []
    found += _of_project(Path(PROJECT_FILE))
    found += _of_call(ctx)
    return tuple(dict.fromkeys(found))


def _user_file() -> Path | None:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if base and Path(base).is_absolute() else Path.home() / ".config"
    except RuntimeError:  # no home at all
        return None
    return folder / "envkit" / "matrix.toml"


def _of_project(file: Path) -> list[Path]:
    if not file.is_file():
        return []
    faults = fields.Faults(str(file))
    named = fields.several(fields.text)(read_toml(file, str(file)).get("overlays", []), "overlays", faults)
    if faults.lines:
        raise InvalidFile(f"faults in {file}", faults=faults.lines)
    return [file.parent / Path(name).expanduser() for name in named]


def _of_call(ctx: click.Context | None) -> list[Path]:
    given: Sequence[str | Path] | None = ctx.find_root().params.get("overlay") if ctx is not None else None
    if given is None:
        # Called without the group that has the option.
        given = [name for name in os.environ.get("ENVKIT_OVERLAY", "").split(os.pathsep) if name]
    return [Path(name).expanduser() for name in given]
