"""The Pythons that an environment can be made with: the one running envkit first, then the others on this machine."""

from __future__ import annotations

import json
import platform
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envkit.process import run
from envkit.resolve.wishes import read_python


@dataclass(frozen=True, kw_only=True, slots=True)
class Interpreter:
    """One Python. `path` is "" where uv would have to download it."""

    version: str  # as the matrix names it: 3.12, free-threaded 3.13t
    path: str = ""


def running() -> Interpreter | None:
    """The Python that runs envkit; None where it is no CPython, for which frameworks have no wheels."""
    if platform.python_implementation() != "CPython":
        return None
    suffix = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return Interpreter(version=f"{sys.version_info.major}.{sys.version_info.minor}{suffix}", path=sys.executable)


def installed(uv: Path) -> list[Interpreter]:
    """The CPythons that uv finds on this machine, newest first, one of each minor version. Nothing is downloaded."""
    done = run([str(uv), "python", "list", "--only-installed", "--output-format", "json"], limit=60)
    return parse_list(done.stdout)


def parse_list(text: str) -> list[Interpreter]:
    """The interpreters of `uv python list --output-format json`."""
    try:
        rows = json.loads(text)
    except ValueError:
        return []
    found: dict[str, Interpreter] = {}
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict) or row.get("implementation") != "cpython" or not row.get("path"):
            continue
        parts = row.get("version_parts") or {}
        suffix = "t" if "freethreaded" in str(row.get("variant", "")) or "+freethreaded" in str(row.get("key", "")) else ""
        version = f"{parts.get('major')}.{parts.get('minor')}{suffix}"
        if re.fullmatch(r"\d+\.\d+t?", version) and not re.search(r"(a|b|rc)\d", str(row.get("version", ""))):
            found.setdefault(version, Interpreter(version=version, path=str(row["path"])))
    return sorted(
        found.values(), key=lambda one: (one.version.endswith("t"), *(-int(n) for n in re.findall(r"\d+", one.version)))
    )


def choices(uv: Path, asked: str = "") -> Iterator[Interpreter]:
    """The Pythons to try, best first; the others on this machine are looked for only when the first does not do."""
    wanted = read_python(asked)
    own = running()
    if own is not None and wanted in ("", own.version):
        yield own
    for one in installed(uv):
        if wanted in ("", one.version) and (own is None or one.version != own.version):
            yield one
