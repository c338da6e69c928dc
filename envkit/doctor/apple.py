"""Causes that lie in macOS and its Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from envkit.doctor.case import Case
from envkit.model import Finding

CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = ()
EXPLAINS: dict[str, tuple[str, ...]] = {}
