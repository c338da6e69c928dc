"""Writes proposals into matrix.toml: its comments, its order and its rows of one line stay as they are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from envkit.errors import InvalidFile
from envkit.matrix.reader import natural
from envkit.matrix.refresh.changes import CHANGED, GONE, NEW, Change, SourceRow

# The order of a row's fields, as the rows of the file have it.
_FIELDS = {
    "release": (
        "version",
        "tag",
        "date",
        "min_driver",
        "pythons",
        "glibc",
        "companions",
        "requires",
        "yanked",
        "evidence",
        "note",
        "source",
    ),
    "build": (
        "release",
        "tag",
        "platforms",
        "published",
        "pythons",
        "glibc",
        "archs",
        "ptx",
        "local",
        "package",
        "index",
        "image",
        "device",
        "extras",
        "macos",
        "packages",
        "partners",
        "vendor_supported",
        "evidence",
        "note",
        "source",
    ),
    "branch": ("branch", "max_backend", "dropped", "designation", "eol", "note", "source"),
}


def apply(text: str, changes: Iterable[Change], sources: Iterable[SourceRow], day: str) -> str:
    """The matrix's text with the changes in it. Raises InvalidFile where a row that a change is about is not there."""
    import tomlkit
    import tomlkit.exceptions

    try:
        document: Any = tomlkit.parse(text)
    except tomlkit.exceptions.ParseError as fault:
        raise InvalidFile(f"the matrix cannot be edited: {fault}") from None
    for change in changes:
        if change.kind in (NEW, GONE, CHANGED):
            _apply(document, change)
    for source in sources:
        _source(document, source, day)
    if "meta" in document:
        document["meta"]["updated"] = day
    edited: str = tomlkit.dumps(document)
    return edited


# ---- rows --------------------------------------------------------------------------------------------------------


def _apply(document: Any, change: Change) -> None:
    *path, name = change.table.split(".")
    table = document
    for word in path:
        if word not in table:
            raise InvalidFile(f"{change.table}: is not in the matrix")
        table = table[word]
    if name not in table:
        if change.kind != NEW:
            raise InvalidFile(f"{change.table}: is not in the matrix")
        table[name] = _value([change.row])
        return
    rows = table[name]
    if isinstance(rows, Mapping):  # a table of fields, such as [scheme.linux-cpu.container]
        _fields(rows, change)
    elif change.kind == NEW:
        _insert(rows, name, change.row)
    elif change.kind == GONE:
        _remove(rows, change)
    else:
        position = _find(rows, change)
        _replace(rows, position, _changed(name, _plain(rows[position]), change.now))


def _fields(table: Any, change: Change) -> None:
    for word, value in change.now.items():
        if value is None:
            table.pop(word, None)
        else:
            table[word] = value


def _changed(name: str, row: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its changes; its fields stay in the order in which they stood, new ones come where rows usually have them."""
    order = _FIELDS.get(name, ())
    words = [word for word in row if now.get(word, "") is not None]
    for word in now:
        if word not in row and now[word] is not None:
            before = order[: order.index(word)] if word in order else order[:-2]
            position = max((at for at, other in enumerate(words) if other in before), default=-1) + 1
            words.insert(position, word)
    changed = {word: now.get(word, row.get(word)) for word in words}
    source = changed.get("source")
    if isinstance(source, list) and len(source) == 1:
        changed["source"] = source[0]
    return changed


def _find(rows: Any, change: Change) -> int:
    key = {word: value for word, value in change.key.items() if word != "platform"}
    for position, row in enumerate(rows):
        plain = _plain(row)
        if all(plain.get(word) == value for word, value in key.items()):
            return position
    raise InvalidFile(f"{change.table}: {change.label}: is not in the matrix any more")


def _remove(rows: Any, change: Change) -> None:
    position = _find(rows, change)
    platform = change.key.get("platform")
    row = _plain(rows[position])
    if platform is not None and len(row["platforms"]) > 1:
        row["platforms"] = [word for word in row["platforms"] if word != platform]
        _replace(rows, position, row)
    else:
        del rows[position]


def _insert(rows: Any, name: str, row: Mapping[str, Any]) -> None:
    orders = [_order(name, _plain(other)) for other in rows]
    own = _order(name, row)
    falling = len(orders) > 1 and orders[0] > orders[-1]
    position = next((at for at, order in enumerate(orders) if (order < own if falling else order > own)), len(orders))
    order_of_fields = _FIELDS.get(name, ())
    # Fields that this list does not know come before the sources.
    known = len(order_of_fields) - 2.5
    words = sorted(row, key=lambda word: order_of_fields.index(word) if word in order_of_fields else known)
    rows.insert(position, _row(rows, {word: row[word] for word in words}))


def _replace(rows: Any, position: int, row: Mapping[str, Any]) -> None:
    rows[position] = _row(rows, row)


def _order(name: str, row: Mapping[str, Any]) -> Any:
    """As the check of the matrix wants rows sorted (`reader.order_of`)."""
    if name == "build":
        return natural(str(row.get("release", ""))), natural(str(row.get("tag", ""))), tuple(row.get("platforms", ()))
    if name == "branch":
        return natural(str(row.get("branch", "")))
    return natural(str(row.get("version", ""))), natural(str(row.get("tag", "")))


def _row(rows: Any, row: Mapping[str, Any]) -> Any:
    import tomlkit
    import tomlkit.items

    if isinstance(rows, tomlkit.items.AoT):
        table = tomlkit.table()
        for word, value in row.items():
            table[word] = _value(value)
        return table
    return _value(dict(row))


def _value(value: Any) -> Any:
    import tomlkit

    # From text, since the spaces of an inline table made otherwise are not those of the file.
    return tomlkit.parse(f"value = {toml(value)}\n")["value"]


def _plain(row: Any) -> dict[str, Any]:
    plain = row.unwrap() if hasattr(row, "unwrap") else row
    return dict(plain)


def toml(value: Any) -> str:
    """A value as TOML writes it on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(word)} = {toml(entry)}" for word, entry in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, str):
        # JSON's escapes are TOML's as well; DEL alone is allowed there and not here.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Sequence):
        return f"[{', '.join(toml(entry) for entry in value)}]"
    return str(value)


def _key(word: str) -> str:
    return word if re.fullmatch(r"[A-Za-z0-9_-]+", word) else toml(word)


# ---- sources -----------------------------------------------------------------------------------------------------


def _source(document: Any, source: SourceRow, day: str) -> None:
    table = document.setdefault("source", {})
    if source.id in table:
        if table[source.id].get("date") != day:
            table[source.id]["date"] = day
        return
    _insert_sorted(table, source.id, _value({"text": source.text, "url": source.url, "date": day}))


def _insert_sorted(table: Any, word: str, value: Any, key: Callable[[str], Any] = natural) -> None:
    """Puts an entry where it belongs: tomlkit's tables know only their end, so what comes after is put behind it again."""
    after = [name for name in table if key(name) > key(word)]
    moved = [(name, table[name]) for name in after]
    for name, _ in moved:
        table.remove(name)
    table.append(word, value)
    for name, entry in moved:
        table.append(name, entry)
