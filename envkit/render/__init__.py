"""Plans as text: Dockerfiles, plays and a bake file. The same plans give the same bytes."""

from __future__ import annotations

from envkit.render.drift import Drift, find_drift, write_files
from envkit.render.rendering import Rendering, render_schemes

__all__ = ["Drift", "Rendering", "find_drift", "render_schemes", "write_files"]
