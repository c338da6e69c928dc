"""What BuildKit says while it builds: a stream of JSON objects, read into steps. Pure."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

# How the stages of our Dockerfiles are called where a person reads along.
STAGES = {"system": "Python and a user", "uv": "uv", "environment": "install, prune and prove"}

_HEAD = re.compile(r"\[(?P<words>[^\]]+)\]\s*(?P<rest>.*)", re.DOTALL)
_COUNT = re.compile(r"\d+/\d+\Z")


@dataclass(slots=True)
class Step:
    """One vertex of a build, as far as it is known."""

    digest: str
    name: str = ""
    started: str = ""
    completed: str = ""
    cached: bool = False
    error: str = ""
    output: list[str] = field(default_factory=list)  # whole lines
    detail: str = ""  # what it is at: "transferring 191.8 MB"
    _open: str = ""  # the line that has no end yet

    @property
    def target(self) -> str:
        """The bake target that the step belongs to, "" where there is one image alone or the step serves all."""
        words = self._words()
        alone = len(words) == 1 and words[0] != "internal" and not _COUNT.match(words[0])
        several = len(words) > 1 and words[0] not in ("context", "internal") and not _COUNT.match(words[1])
        return words[0] if alone or several else ""

    @property
    def title(self) -> str:
        """The step in a few words; "" for the builder's own small chores."""
        words = self._words()
        rest = self._rest()
        if not words or self.target == words[-1]:
            return _short(rest)
        if words[-1] == "internal":
            return ""
        if "context" in words:
            return f"send {words[-1]}" if rest.startswith("load from client") else ""
        names = [word for word in words if not _COUNT.match(word)]
        stage = names[-1] if names else ""
        if rest.startswith("FROM "):
            return f"base {rest.removeprefix('FROM ').split('@')[0].removeprefix('docker.io/library/')}"
        if not rest.startswith("RUN "):
            return ""
        return STAGES.get(stage, stage or _short(rest))

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs, or where it never started."""
        if not self.started or not self.completed:
            return None
        return max(0.0, (_moment(self.completed) - _moment(self.started)).total_seconds())

    def _words(self) -> list[str]:
        found = _HEAD.match(self.name)
        return found["words"].split() if found else []

    def _rest(self) -> str:
        found = _HEAD.match(self.name)
        return found["rest"] if found else self.name

    def say(self, text: str) -> list[str]:
        """Takes in output; returns the lines that it completed."""
        *whole, self._open = (self._open + text).split("\n")
        # What overwrote its own line is shown as it ended.
        lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line.rstrip("\r").rpartition("\r")[2]) for line in whole]
        self.output += lines
        return lines

    def close(self) -> None:
        """Keeps a last line that had no end."""
        if self._open:
            self.say("\n")


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _moment(text: str) -> datetime:
    # Nine digits of a second are more than Python reads.
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d*", r"\1", text).replace("Z", "+00:00"))


@dataclass(slots=True)
class Stream:
    """Reads the stream as it comes."""

    steps: dict[str, Step] = field(default_factory=dict)
    plain: list[str] = field(default_factory=list)  # what is no JSON: buildx' own last words
    _buffer: str = ""

    def feed(self, line: str) -> list[tuple[Step, list[str]]]:
        """Takes in a line; returns the steps that it tells of, each with its new lines of output."""
        if not self._buffer and not line.lstrip().startswith("{"):
            if line.strip():
                self.plain.append(line)
            return []
        self._buffer += line + "\n"
        told: list[tuple[Step, list[str]]] = []
        # Only the end of an object can complete one; anything else is not worth a try.
        while line.rstrip().endswith("}") and self._buffer.startswith("{"):
            try:
                document, end = json.JSONDecoder().raw_decode(self._buffer)
            except ValueError:
                break
            self._buffer = self._buffer[end:].lstrip()
            told += self._take(document)
        return told

    def _take(self, document: dict[str, Any]) -> list[tuple[Step, list[str]]]:
        told: dict[str, tuple[Step, list[str]]] = {}
        for row in document.get("vertexes") or []:
            step = self._step(row["digest"])
            step.name = row.get("name") or step.name
            # A step can be looked at several times before it runs: the last times count.
            step.started = row.get("started") or step.started
            step.completed = row.get("completed") or ("" if row.get("started") else step.completed)
            step.cached = bool(row.get("cached")) or step.cached
            step.error = row.get("error") or step.error
            if step.completed:
                step.close()
            told.setdefault(step.digest, (step, []))
        for row in document.get("statuses") or []:
            step = self._step(row.get("vertex", ""))
            name = row.get("name") or row.get("id") or ""
            size = f" {int(row['current']) / 1e6:.1f} MB" if row.get("current", 0) > 1e5 else ""
            step.detail = f"{name}{size}"
            told.setdefault(step.digest, (step, []))
        for row in document.get("logs") or []:
            step = self._step(row.get("vertex", ""))
            text = base64.b64decode(row.get("data") or "").decode("utf-8", errors="replace")
            told.setdefault(step.digest, (step, []))[1].extend(step.say(text))
        return list(told.values())

    def _step(self, digest: str) -> Step:
        return self.steps.setdefault(digest, Step(digest=digest))

    def finish(self) -> None:
        """Closes what was left open when the stream ended."""
        if self._buffer.strip():
            self.plain += self._buffer.splitlines()
            self._buffer = ""
        for step in self.steps.values():
            step.close()

    @property
    def failed(self) -> Step | None:
        """The step that the build failed on; not one that was only called off because of it."""
        faulty = [step for step in self.steps.values() if step.error]
        return next((step for step in faulty if "context canceled" not in step.error), faulty[0] if faulty else None)
