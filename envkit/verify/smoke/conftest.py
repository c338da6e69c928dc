"""Fixtures of the smoke tests: one proof a host, made once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from envkit.errors import EnvkitError
from envkit.model import Proof
from envkit.plan import from_document
from envkit.verify import verify_host
from envkit.verify.hosts import runner_of
from envkit.verify.smoke.options import Settings, read_settings

_PROOFS = pytest.StashKey[dict[str, "Proof | EnvkitError"]]()


@pytest.fixture(scope="session")
def envkit_settings(request: pytest.FixtureRequest) -> Settings:
    """What the tests were asked to look at."""
    return read_settings(request.config)


@pytest.fixture(scope="module")
def proof(host: Any, envkit_settings: Settings, request: pytest.FixtureRequest) -> Proof:
    """What the probe found on the host. It runs once a host, whatever the number of tests."""
    kept = request.config.stash.setdefault(_PROOFS, {})
    name = str(host.backend.get_pytest_id())
    if name not in kept:
        kept[name] = _prove(host, name, envkit_settings)
    found = kept[name]
    if isinstance(found, EnvkitError):
        pytest.fail(f"{found.message}\n{found.hint}".strip(), pytrace=False)
    return found


def _prove(host: Any, name: str, settings: Settings) -> Proof | EnvkitError:
    try:
        plan = from_document(json.loads(Path(settings.plan).read_text(encoding="utf-8"))) if settings.plan else None
    except (OSError, ValueError) as fault:
        raise pytest.UsageError(f"--envkit-plan: {settings.plan}: {fault}") from None
    try:
        return verify_host(
            plan,
            name if "://" in name else f"{name}://",
            python=settings.python,
            scheme=settings.scheme,
            limit=settings.limit,
            level=settings.level,
            run=runner_of(host),
        )
    except EnvkitError as error:
        return error
