"""Where packages come from: pip's, uv's and envkit's settings, what the indexes and folders offer, what uv is handed."""

from __future__ import annotations

from envkit.sources.installing import Installation, installation, partners
from envkit.sources.listing import Found, look, read_constraints
from envkit.sources.settings import Index, Sources, mirror_hint, read_sources, redact

__all__ = [
    "Found",
    "Index",
    "Installation",
    "Sources",
    "installation",
    "look",
    "mirror_hint",
    "partners",
    "read_constraints",
    "read_sources",
    "redact",
]
