"""What a test needs and may not have: one rule for all of them."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

# Run only when `-m` names them: they take minutes, or hardware, or a system of their own.
OPT_IN = ("vm", "wine", "gpu", "bare")


def strict() -> bool:
    """Whether nothing may be missing here (ENVKIT_CI): a skip is then a failure."""
    return os.environ.get("ENVKIT_CI", "") not in ("", "0")


def need(reason: str) -> NoReturn:
    """Ends the test: skipped with a reason that says what is missing, or failed where nothing may be missing."""
    if strict():
        pytest.fail(f"missing here, and nothing may be missing with ENVKIT_CI=1: {reason}", pytrace=False)
    pytest.skip(reason)
