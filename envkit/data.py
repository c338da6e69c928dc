"""Where the files that envkit ships lie: inside the wheel, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """The path of `matrix.toml`, `templates` or `playbooks`: the wheel's copy, else the checkout's."""
    packed = _PACKAGE / "_shipped" / name
    return packed if packed.exists() else _PACKAGE.parent / name


def packaged(name: str) -> Path:
    """The path of a file or folder inside the package itself, such as `devices` or `schemas/plan.json`."""
    return _PACKAGE / name
