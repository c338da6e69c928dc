"""What envkit says when it cannot do what was asked: one exception per exit code of INTERFACE.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class EnvkitError(Exception):
    """Something a user can act on: what happened and where, with a hint that can be typed."""

    exit_code = 6

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(EnvkitError):
    """Wrong usage: an option or argument that cannot be meant (exit 2)."""

    exit_code = 2


class InvalidFile(EnvkitError):
    """A file the user wrote is invalid; `faults` names every fault with its dotted path (exit 3)."""

    exit_code = 3

    def __init__(self, message: str, *, faults: Sequence[str] = (), hint: str = "") -> None:
        super().__init__("\n".join([message, *faults]), hint=hint)
        self.faults = tuple(faults)


class Unresolvable(EnvkitError):
    """Nothing fits what was asked; `document` is the conflict document (exit 4)."""

    exit_code = 4

    def __init__(self, message: str, *, document: dict[str, Any] | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.document = document


class Unavailable(EnvkitError):
    """Something needed is missing or unreachable: engine, index, host, tool (exit 5)."""

    exit_code = 5


class StepFailed(EnvkitError):
    """A step ran and failed; the message names the step and where its log lies (exit 6)."""

    exit_code = 6

    def __init__(self, message: str, *, log: str = "", hint: str = "") -> None:
        super().__init__(message + (f"\nlog: {log}" if log else ""), hint=hint)
        self.log = log
