"""What a refresh proposes: one change a row, with the place that says so."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from envkit.model import Build, Framework, FrameworkRelease, Matrix

NEW, GONE, CHANGED, LOOK = "new", "vanished", "changed", "look"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One proposal for the matrix."""

    kind: str  # new, vanished, changed; look: what a person has to decide
    table: str  # framework.torch.build: the list (or table) that the row belongs to
    label: str  # how people call the row: "2.16 cu134 linux/x86_64"
    key: Mapping[str, Any] = field(default_factory=dict)  # the fields that tell the row from others
    row: Mapping[str, Any] = field(default_factory=dict)  # new: the whole row, as it stands in TOML
    now: Mapping[str, Any] = field(default_factory=dict)  # changed: field -> value; None takes it away
    was: Mapping[str, Any] = field(default_factory=dict)  # changed: the same fields as they are
    because: str = ""
    place: str = ""  # the page that says so
    shrinks: bool = False  # takes something away that the matrix has


def merged(first: Change, second: Change) -> Change:
    """Two changes of one row as one."""
    known = first.now.get("source") or ()
    sources = [*known, *(word for word in second.now.get("source") or () if word not in known)]
    return replace(
        first,
        now={**first.now, **second.now, **({"source": sources} if sources else {})},
        was={**second.was, **first.was},
        because=f"{first.because}; {second.because}",
        shrinks=first.shrinks or second.shrinks,
    )


@dataclass(frozen=True, kw_only=True)
class SourceRow:
    """A row of [source] that changes rest on."""

    id: str
    text: str
    url: str


def serves(build: Build, version: str) -> bool:
    """Whether a build's row is about this release."""
    return version == build.release or version.startswith(f"{build.release}.")


def served(framework: Framework, build: Build) -> tuple[FrameworkRelease, ...]:
    """The releases that a build's row is about."""
    return tuple(release for release in framework.releases if serves(build, release.version))


def index_of(framework: Framework, build: Build) -> str:
    """The index that serves a build: a URL, "pypi" or "vendor"."""
    return (build.index or framework.index).replace("{tag}", build.tag)


def local_of(build: Build) -> str:
    """The local part of a build's version: "+cu128", or ""."""
    return f"+{build.tag}" if build.local is None else build.local


def package_of(framework: Framework, build: Build) -> str:
    """The name under which a build is published."""
    return build.package or framework.package


def build_label(release: str, tag: str, platforms: tuple[str, ...] | list[str]) -> str:
    """How people call a build."""
    return f"{release} {tag} {' '.join(platforms)}"


def backend_of(matrix: Matrix, tag: str) -> str:
    """The backend that a tag belongs to, or ""."""
    return next((name for name, backend in matrix.backends.items() if any(row.tag == tag for row in backend.releases)), "")


class SourceBook:
    """Which row of [source] stands for a page; those that are missing are made."""

    def __init__(self, matrix: Matrix) -> None:
        self._known = matrix.sources
        self.read: dict[str, SourceRow] = {}  # the rows that were read today, by id

    def of(self, index: str, name: str) -> str:
        """The id of the source that stands for a project's page on an index."""
        if index == "pypi":
            url = f"https://pypi.org/project/{name}/"
            fitting = [word for word, row in self._known.items() if row.url.partition("#")[0].rstrip("/") == url.rstrip("/")]
            # Several rows may stand for one page: the file list is meant, and its row is named so.
            found = [word for word in fitting if word.endswith("-pypi")] or [
                word for word in fitting if self._known[word].text.startswith(f"PyPI {name}")
            ]
            made = SourceRow(id=f"{name}-pypi", text=f"PyPI {name}: file list and wheel metadata", url=url)
        else:
            url = index.rstrip("/") + f"/{name}/"
            # A row whose text names a day stands for the reading of that day.
            found = [
                word
                for word, row in self._known.items()
                if row.url.rstrip("/") == url.rstrip("/") and not re.search(r"\d{4}-\d{2}-\d{2}", row.text)
            ]
            tail = index.rstrip("/").rpartition("/")[2]
            made = SourceRow(id=f"{name}-index-{tail}", text=f"Wheel index {index.rstrip('/')}: file list of {name}", url=url)
        row = made
        if found:
            known = self._known[found[0]]
            row = SourceRow(id=known.id, text=known.text, url=known.url)
        self.read[row.id] = row
        return row.id

    def found_at(self, row: SourceRow) -> str:
        """The id of the source that has `row`'s address; `row` itself where there is none."""
        for word, other in self._known.items():
            if other.url.rstrip("/") == row.url.rstrip("/"):
                row = SourceRow(id=word, text=other.text, url=other.url)
                break
        self.read[row.id] = row
        return row.id

    def found(self, row: SourceRow) -> str:
        """The id of a source for one kind of fact: the row that the matrix has for it, or `row`."""
        known = [
            word
            for word, other in self._known.items()
            if other.url == row.url and re.search(r"(?i)(compile flags|code read)", other.text)
        ]
        if known:
            other = self._known[known[0]]
            row = SourceRow(id=other.id, text=other.text, url=other.url)
        self.read[row.id] = row
        return row.id

    @property
    def missing(self) -> tuple[SourceRow, ...]:
        """Rows that the matrix does not have yet."""
        return tuple(row for word, row in self.read.items() if word not in self._known)
