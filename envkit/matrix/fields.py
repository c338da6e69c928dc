"""Readers of single values: each takes a value of a TOML file and gives what the model holds, or notes a fault."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from envkit.model import Dotted, Evidence, Os, Pin

# What a reader gives for a value that it noted a fault of.
BAD: Final = object()


class Faults:
    """The faults of one file, in the order of reading."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []

    def add(self, path: str, message: str) -> object:
        """Notes a fault; gives BAD, for readers to return."""
        self.lines.append(f"{self.label}: {path}: {message}" if path else f"{self.label}: {message}")
        return BAD


Reader = Callable[[Any, str, Faults], Any]

_KINDS = {str: "text", bool: "true or false", int: "integer", float: "float", list: "list", dict: "table"}


def kind_of(value: object) -> str:
    """What TOML calls a value: text, float, list, ..."""
    return _KINDS.get(type(value), "date or time")


def meant(word: str, known: Iterable[str]) -> str:
    """ "; did you mean 'rocm'?", or nothing where no known word comes close."""
    close = difflib.get_close_matches(word[:60], sorted(known), n=1, cutoff=0.6)
    return f"; did you mean '{close[0]}'?" if close else ""


def shown(value: object) -> str:
    """A value as a message quotes it: one line, of bounded length."""
    text = str(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return "'" + "".join(c if c.isprintable() else "?" for c in text) + "'"


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def text(value: Any, path: str, faults: Faults) -> Any:
    """Text of one line."""
    if type(value) is not str:
        return faults.add(path, f"expected text, got {kind_of(value)}")
    if _CONTROL.search(value):
        return faults.add(path, "expected text of one line, got a line break or control character")
    return value


def flag(value: Any, path: str, faults: Faults) -> Any:
    """True or false."""
    return value if type(value) is bool else faults.add(path, f"expected true or false, got {kind_of(value)}")


def flag_or_unknown(value: Any, path: str, faults: Faults) -> Any:
    """True, false, or "unknown" for None."""
    if value == "unknown":
        return None
    if type(value) is not bool:
        return faults.add(path, f'expected true, false or "unknown", got {kind_of(value)}')
    return value


def version(value: Any, path: str, faults: Faults) -> Any:
    """A version of plain numbers."""
    if type(value) is not str:
        return faults.add(path, f"expected text, got {kind_of(value)}")
    try:
        return Dotted(value)
    except ValueError:
        return faults.add(path, f'expected a version such as "12.8", got {shown(value)}')


def matching(pattern: str, what: str) -> Reader:
    """A reader of text that fits a pattern; `what` is how messages call it."""
    fits = re.compile(pattern, re.ASCII).fullmatch

    def read(value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not str:
            return faults.add(path, f"expected text, got {kind_of(value)}")
        return value if fits(value) else faults.add(path, f"expected {what}, got {shown(value)}")

    return read


# Names end up in file names, labels, image names and shell words: nothing there may need quoting.
name = matching(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}", "a name of letters, digits, '.', '_', '+' and '-'")
tag = matching(r"[a-z0-9][a-z0-9._-]{0,59}", 'a tag such as "cu128"')
package = matching(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,78}[A-Za-z0-9])?", "the name of a package")
partner = matching(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,78}([A-Za-z0-9]|\{arch\})", "the name of a package, with {arch} at most at its end"
)
python = matching(r"3\.\d{1,2}t?", 'a Python version such as "3.12"')
wheel_platform = matching(r"(linux|windows|macos)/[a-z0-9_]{2,20}", 'a wheel platform such as "linux/x86_64"')
date = matching(r"\d{4}(-\d{2}(-\d{2})?)?", 'a date such as "2026-11-30"')
release_version = matching(
    r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?(\+[A-Za-z0-9]+([._-][A-Za-z0-9]+)*)?", 'a version such as "2.7.1"'
)
release_line = matching(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?(\.dev\d+)?", 'a release such as "2.14" or "2.14.1"')
specifier = matching(
    r"((===?|[<>!~]=|[<>])[A-Za-z0-9.*+!_-]+)(,(===?|[<>!~]=|[<>])[A-Za-z0-9.*+!_-]+)*", 'a specifier such as "<2"'
)
local = matching(r"(\+[a-z0-9]+([._-][a-z0-9]+)*)?", 'a local version such as "+cu128", or ""')
index = matching(
    r"pypi|vendor|https?://[^\s\"'`\\$<>|;&]+", '"pypi", "vendor" or an address such as "https://download.pytorch.org/whl/{tag}"'
)
address = matching(r"https?://[^\s\"'`\\<>|]+", "an address that begins with https://")
variable = matching(r"[A-Za-z_][A-Za-z0-9_]*", "the name of an environment variable")
extras = matching(r"[A-Za-z0-9_.{},-]+", 'extras such as "device-{arch}"')
run_flag = matching(r"--[a-z][A-Za-z0-9._=/:,@-]*( [A-Za-z0-9._/:-]+)?", 'a flag such as "--gpus=all"')
image = matching(r"[a-z0-9][a-z0-9._/:-]*(:[A-Za-z0-9._-]+)?", 'an image such as "debian:bookworm-slim"')
digest = matching(r"sha256:[0-9a-f]{64}", 'a digest such as "sha256:..."')
group = matching(r"[A-Za-z_][A-Za-z0-9_-]*", "the name of a group")


def one_of(words: Iterable[str], what: str) -> Reader:
    """A reader of one of a few words."""
    known = tuple(words)

    def read(value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not str:
            return faults.add(path, f"expected text, got {kind_of(value)}")
        if value not in known:
            return faults.add(path, f"unknown {what} {shown(value)}{meant(value, known) or '; known: ' + ', '.join(known)}")
        return value

    return read


_EVIDENCE_WORD = one_of(Evidence, "evidence")
_OS_WORD = one_of(Os, "os")


def evidence(value: Any, path: str, faults: Faults) -> Any:
    """How well a row is known."""
    word = _EVIDENCE_WORD(value, path, faults)
    return word if word is BAD else Evidence(word)


def os_family(value: Any, path: str, faults: Faults) -> Any:
    """An operating-system family."""
    word = _OS_WORD(value, path, faults)
    return word if word is BAD else Os(word)


def pin(value: Any, path: str, faults: Faults) -> Any:
    """A version, or a table with a version, an index and extras."""
    if type(value) is not dict:
        found = release_version(value, path, faults)
        return found if found is BAD else Pin(version=found)
    values = table(value, _PIN, path, faults)
    return values if values is BAD else Pin(**values)


def several(item: Reader, *, least: int = 0) -> Reader:
    """A reader of a list; the same item twice is a fault."""

    def read(value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not list:
            return faults.add(path, f"expected a list, got {kind_of(value)}")
        if len(value) < least:
            return faults.add(path, "expected at least one item, got an empty list")
        items = []
        whole = True
        for position, entry in enumerate(value):
            result = item(entry, f"{path}[{position}]", faults)
            if result is BAD:
                whole = False
            elif result in items:
                faults.add(f"{path}[{position}]", f"{shown(entry)} stands there twice")
                whole = False
            else:
                items.append(result)
        return tuple(items) if whole else BAD

    return read


def one_or_several(item: Reader) -> Reader:
    """A reader of one value or a list of them."""
    many = several(item, least=1)

    def read(value: Any, path: str, faults: Faults) -> Any:
        if type(value) is list:
            return many(value, path, faults)
        if type(value) is not str:
            return faults.add(path, f"expected text or a list of text, got {kind_of(value)}")
        result = item(value, path, faults)
        return result if result is BAD else (result,)

    return read


def keyed(key: Reader, item: Reader) -> Reader:
    """A reader of a table whose keys are data."""

    def read(value: Any, path: str, faults: Faults) -> Any:
        if type(value) is not dict:
            return faults.add(path, f"expected a table, got {kind_of(value)}")
        items: dict[Any, Any] = {}
        whole = True
        for word, entry in value.items():
            place = join(path, word)
            checked = key(word, place, faults)
            result = item(entry, place, faults)
            if checked is BAD or result is BAD:
                whole = False
            else:
                items[checked] = result
        return MappingProxyType(items) if whole else BAD

    return read


Shape = Mapping[str, tuple[Reader, bool]]  # key -> reader, whether it must be there


def need(reader: Reader) -> tuple[Reader, bool]:
    """A key that must be there."""
    return reader, True


def may(reader: Reader) -> tuple[Reader, bool]:
    """A key that may be left out."""
    return reader, False


def table(value: Any, shape: Shape, path: str, faults: Faults, *, partial: bool = False, beside: Iterable[str] = ()) -> Any:
    """The values of a table by key, or BAD; `beside` are keys that others read, `partial` lets needed ones be absent."""
    if type(value) is not dict:
        return faults.add(path, f"expected a table, got {kind_of(value)}")
    before = len(faults.lines)
    result: dict[str, Any] = {}
    for word, entry in value.items():
        known = shape.get(word)
        if known is None:
            if word not in beside:
                faults.add(join(path, word), f"unknown key {shown(word)}{meant(word, {*shape, *beside})}")
            continue
        read = known[0](entry, join(path, word), faults)
        if read is not BAD:
            result[word] = read
    if not partial:
        for word, (_, needed) in shape.items():
            if needed and word not in value:
                faults.add(join(path, word), "is missing")
    return BAD if len(faults.lines) > before else result


_PIN: Shape = {"version": need(release_version), "index": may(index), "extras": may(extras)}


def join(path: str, word: str) -> str:
    """A dotted path one step longer; words that TOML would quote are quoted."""
    return f"{path}.{_written(word)}" if path else _written(word)


@lru_cache(maxsize=2048)
def _written(word: str) -> str:
    bare = re.fullmatch(r"[A-Za-z0-9_-]+", word, re.ASCII)
    return word if bare else '"' + "".join(c if c.isprintable() else "?" for c in word) + '"'
