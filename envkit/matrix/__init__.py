"""The compatibility matrix: matrix.toml and overlays, read into typed rows and checked."""

from envkit.matrix.checks import check
from envkit.matrix.reader import load

__all__ = ["check", "load"]
