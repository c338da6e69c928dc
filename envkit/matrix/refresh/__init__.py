"""What upstream offers today against what the matrix says: read, compared, proposed and written into matrix.toml."""

from __future__ import annotations

from envkit.matrix.refresh.online import Online, check_online
from envkit.matrix.refresh.refreshing import Options, Report, refresh, write

__all__ = ["Online", "Options", "Report", "check_online", "refresh", "write"]
