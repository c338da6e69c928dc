"""TOML files as plain data, through a cache of JSON: tomllib needs 30 times as long for the same content."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from envkit.errors import InvalidFile

# Old entries go once there are more than this; each is a parsed file of some 300 KB at most.
_KEPT = 24
_CHARSET = "utf-8"


def cache_folder() -> Path | None:
    """Where parsed files are kept; None on a machine without a home."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and os.path.isabs(base):  # noqa: PTH117 - the specification ignores relative values; Path costs more here
        return Path(base) / "envkit" / "toml"
    try:
        return Path.home() / ".cache" / "envkit" / "toml"
    except RuntimeError:
        return None


def read_toml(path: Path, label: str = "") -> dict[str, Any]:
    """The content of a TOML file; raises InvalidFile (named `label`) with line and column where it is none."""
    label = label or str(path)
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InvalidFile(f"{label}: cannot be read: {error.strerror or error}") from None
    digest = hashlib.sha256(raw).hexdigest()
    folder = cache_folder()
    cached = _recall(folder, digest)
    if cached is not None:
        return cached
    content = parse_toml(raw, label)
    _keep(folder, digest, content)
    return content


def derive(paths: Sequence[Path], recipe: str, make: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> dict[str, Any]:
    """What `make` gives for the content of some TOML files, kept as JSON; `recipe` changes whenever `make` does."""
    raws = [path.read_bytes() for path in paths]
    digest = hashlib.sha256(recipe.encode())
    for raw in raws:
        digest.update(hashlib.sha256(raw).digest())
    folder = cache_folder()
    cached = _recall(folder, digest.hexdigest())
    if cached is None:
        cached = make([parse_toml(raw, str(path)) for raw, path in zip(raws, paths, strict=True)])
        _keep(folder, digest.hexdigest(), cached)
    return cached


def parse_toml(raw: bytes, label: str) -> dict[str, Any]:
    """The content of TOML text; raises InvalidFile with line and column where it is none."""
    try:
        text = raw.decode(_CHARSET + "-sig")  # Windows editors begin files with a byte order mark
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidFile(f"{label}: line {line}: not UTF-8 text", hint="save the file as UTF-8") from None
    import tomllib

    # TOML knows no lone carriage returns; tomllib takes the pair for one line end, as TOML does.
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidFile(f"{label}: {_place(str(error), text)}", hint="see https://toml.io for how values are written") from None
    except (RecursionError, ValueError) as error:
        # Deep nesting, and numbers or dates that Python cannot hold.
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidFile(f"{label}: {reason}") from None


def _place(message: str, text: str) -> str:
    found = re.fullmatch(r"(.*) \(at line (\d+), column (\d+)\)", message, re.DOTALL)
    if found:
        return f"line {found[2]}, column {found[3]}: {found[1][:1].lower()}{found[1][1:]}"
    lines = text.split("\n")
    what = message.removesuffix(" (at end of document)")
    return f"line {len(lines)}, column {len(lines[-1]) + 1}: {what[:1].lower()}{what[1:]} (at the end of the file)"


def _recall(folder: Path | None, digest: str) -> dict[str, Any] | None:
    if folder is None:
        return None
    try:
        entry = json.loads((folder / f"{digest}.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or entry.get("sha256") != digest:
        return None
    content = entry.get("content")
    return content if isinstance(content, dict) else None


def _keep(folder: Path | None, digest: str, content: dict[str, Any]) -> None:
    if folder is None:
        return
    try:
        # Dates and times have no JSON; a file that holds some is parsed each time. So is one with inf or nan.
        text = json.dumps({"sha256": digest, "content": content}, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return
    import tempfile

    temporary = ""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
        with os.fdopen(handle, "w", encoding=_CHARSET) as stream:
            stream.write(text)
        os.replace(temporary, folder / f"{digest}.json")  # noqa: PTH105
    except (OSError, UnicodeEncodeError):
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)  # noqa: PTH108
        return
    _forget(folder)


def _forget(folder: Path) -> None:
    with contextlib.suppress(OSError):
        entries = sorted(folder.glob("*.json"), key=lambda entry: entry.stat().st_mtime, reverse=True)
        for entry in entries[_KEPT:]:
            entry.unlink(missing_ok=True)
