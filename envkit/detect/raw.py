"""A raw document, looked into without trusting it: whatever has another shape than expected counts as not there."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envkit.model import DriverFacts, Gpu


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """What a tool answered, or that it did not."""

    command: str
    code: int | None = None
    stdout: str = ""
    stderr: str = ""
    timed_out: bool = False
    limit: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether it ended with status 0 and said something."""
        return self.code == 0 and bool(self.stdout.strip())

    @property
    def said(self) -> str:
        """Everything it printed; that it was stopped, where it was."""
        if self.timed_out:
            return f"no answer within {self.limit:g} s, stopped" if self.limit else "not asked: no time left"
        text = "\n".join(part.strip("\n") for part in (self.stdout, self.stderr) if part.strip())
        text = text or "no output"
        if self.code not in (0, None):
            text += f"\n(exit status {self.code})"
        return text


class Raw:
    """Typed looks into a raw document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document

    def get(self, *keys: str) -> Any:
        """What lies at the end of `keys`, or None."""
        here: Any = self.document
        for key in keys:
            if not isinstance(here, Mapping):
                return None
            here = here.get(key)
        return here

    def text(self, *keys: str) -> str:
        """Text, or ""."""
        value = self.get(*keys)
        return value if isinstance(value, str) else ""

    def number(self, *keys: str) -> int | None:
        """A whole number that is not negative, or None."""
        return whole(self.get(*keys))

    def table(self, *keys: str) -> Mapping[str, Any]:
        """A table, or an empty one."""
        value = self.get(*keys)
        return value if isinstance(value, Mapping) else {}

    def texts(self, *keys: str) -> tuple[str, ...]:
        """The texts of a list, or of a single text."""
        value = self.get(*keys)
        if isinstance(value, str):
            return (value,)
        return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()

    def tables(self, *keys: str) -> tuple[Raw, ...]:
        """The tables of a list; a single table counts as a list of one, as PowerShell writes it."""
        value = self.get(*keys)
        if isinstance(value, Mapping):
            return (Raw(value),)
        return tuple(Raw(item) for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()

    def file(self, path: str) -> str:
        """The text of a file that was read, or ""."""
        value = self.table("files").get(path)
        return value if isinstance(value, str) else ""

    def marked(self, path: str) -> bool:
        """Whether `path` was there."""
        return path in self.texts("marks")

    def tool(self, prefix: str, *, exact: bool = False) -> ToolAnswer | None:
        """The answer of the command line `prefix`, or of the first that goes on from it; good answers first."""
        answers = [
            _answer(command, value)
            for command, value in self.table("tools").items()
            if isinstance(value, Mapping) and (command == prefix or (not exact and command.startswith(prefix + " ")))
        ]
        return next((answer for answer in answers if answer.ok), answers[-1] if answers else None)


def _answer(command: str, value: Mapping[str, Any]) -> ToolAnswer:
    raw = Raw(value)
    code = value.get("code")
    limit = value.get("limit")
    return ToolAnswer(
        command=command,
        code=code if isinstance(code, int) else None,
        stdout=raw.text("stdout"),
        stderr=raw.text("stderr"),
        timed_out=value.get("timed_out") is True,
        limit=float(limit) if isinstance(limit, int | float) else 0.0,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A device as the operating system lists it, before a vendor's module has looked at it."""

    vendor: str
    pci_id: str = ""
    pci_address: str = ""
    kernel_driver: str = ""
    name: str = ""
    memory_bytes: int | None = None
    driver_version: str = ""  # where the system tells one for each device: Windows


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What one vendor's module makes of a raw document."""

    vendor: str
    gpus: tuple[Gpu, ...] = ()
    driver: DriverFacts = field(default_factory=DriverFacts)
    evidence: Mapping[str, str] = field(default_factory=dict)


def whole(value: object) -> int | None:
    """A whole number that is not negative, given as a number or as its digits."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value if value >= 0 else None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,20}", value.strip()):
        return int(value)
    return None


def json_of(text: str) -> Any:
    """The JSON document in a tool's output, past whatever it printed in front of it; None where there is none."""
    text = text.lstrip("\ufeff")
    starts = [at for at in (text.find("{"), text.find("[")) if at >= 0]
    for start in sorted(starts):
        try:
            return json.JSONDecoder().raw_decode(text, start)[0]
        except (ValueError, RecursionError):
            continue
    return None


def first_match(pattern: str, *texts: str) -> str:
    """The first group of `pattern` in the first text that has it, or ""."""
    for text in texts:
        found = re.search(pattern, text, re.MULTILINE)
        if found:
            return found[1]
    return ""


def newest(versions: Sequence[str]) -> str:
    """The highest of some dotted versions, or ""."""
    return max(versions, key=lambda version: tuple(int(part) for part in re.findall(r"[0-9]+", version)[:6]), default="")
