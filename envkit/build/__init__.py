"""Builds images: decides what goes in, lays out what the builder needs, follows it, and says what came of it."""

from __future__ import annotations

from envkit.build.building import Built, build, dry_run
from envkit.build.deciding import Decision, decide
from envkit.build.staging import Options

__all__ = ["Built", "Decision", "Options", "build", "decide", "dry_run"]
