"""The options of the smoke tests, as a pytest plugin: `--pyargs` reads no conftest before the command line."""

from __future__ import annotations

import os
from dataclasses import dataclass

import pytest

from envkit.verify.proof import PROVING

# option -> (variable that sets it too, help)
OPTIONS = {
    "scheme": ("ENVKIT_SMOKE_SCHEME", "the scheme that the hosts serve; tells where their environment lies"),
    "python": ("ENVKIT_SMOKE_PYTHON", "the Python on the hosts (default: /opt/envkit/SCHEME/bin/python)"),
    "plan": ("ENVKIT_SMOKE_PLAN", "a plan document to hold the hosts to (default: the one recorded there)"),
    "level": ("ENVKIT_SMOKE_LEVEL", "how far to go: compute, collective or speed (default: compute)"),
    "limit": ("ENVKIT_SMOKE_LIMIT", "seconds that a host may take (default: 300)"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the smoke tests were asked to look at."""

    scheme: str = ""
    python: str = ""
    plan: str = ""
    level: str = "compute"
    limit: float = 300.0


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds `--envkit-scheme`, `--envkit-python`, `--envkit-plan`, `--envkit-level` and `--envkit-limit`."""
    group = parser.getgroup("envkit", "envkit smoke tests")
    for name, (variable, text) in OPTIONS.items():
        group.addoption(f"--envkit-{name}", default=None, metavar=name.upper(), help=f"{text}; or {variable}")


def read_settings(config: pytest.Config) -> Settings:
    """The options given; where an option was not, its variable counts."""
    values = {
        name: config.getoption(f"--envkit-{name}", default=None) or os.environ.get(variable, "")
        for name, (variable, _) in OPTIONS.items()
    }
    limit = values.pop("limit") or "300"
    level = values.pop("level") or "compute"
    if level not in PROVING:
        raise pytest.UsageError(f"--envkit-level: {level!r} computes nothing; choose from {', '.join(PROVING)}")
    try:
        seconds = float(limit)
    except ValueError:
        raise pytest.UsageError(f"--envkit-limit: not a number of seconds: {limit!r}") from None
    return Settings(**values, level=level, limit=seconds)
