"""matrix.toml and overlays -> Matrix: every fault is noted with its dotted path, then all are reported together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from envkit.data import shipped
from envkit.errors import InvalidFile
from envkit.matrix import fields as f
from envkit.matrix.fields import BAD, Faults, Shape, join, may, need
from envkit.matrix.parsed import read_toml
from envkit.model import (
    Architecture,
    Backend,
    BackendRelease,
    Build,
    Cloud,
    Container,
    DriverBranch,
    DriverList,
    Framework,
    FrameworkRelease,
    LibraryRelease,
    Limit,
    Matrix,
    Os,
    OsRelease,
    OverrideSetting,
    Promise,
    Scheme,
    Source,
)

SCHEMA = 1

# ---- the shape of the file ---------------------------------------------------------------------------------------

_SOURCES = may(f.one_or_several(f.name))
_TEXTS = f.several(f.text)
_NAMES = f.several(f.name)
_PYTHONS = f.several(f.python, least=1)
_BY_OS = f.keyed(f.os_family, f.version)
_ENV = f.keyed(f.variable, f.text)
_PACKAGES = f.keyed(f.package, f.pin)

_META: Shape = {
    "schema": need(lambda value, path, faults: _schema(value, path, faults)),
    "updated": need(f.date),
    "framework": may(f.name),
}
_SOURCE: Shape = {"text": need(f.text), "url": may(f.address), "date": may(f.date)}
_PLATFORM: Shape = {
    "os": need(f.os_family),
    "name": need(f.text),
    "glibc": may(f.version),
    "python": may(f.python),
    "kernel": may(f.version),
    "min_build": may(f.version),
    "source": _SOURCES,
}
_ARCH: Shape = {
    "vendor": need(f.name),
    "family": need(f.text),
    "min_backend": may(f.version),
    "last_backend": may(f.version),
    "module": may(f.one_of(("open", "proprietary", "either"), "kernel module")),
    "own_cpu_module": may(f.one_of(("open", "proprietary", "either"), "kernel module")),
    "runs_code_of": may(f.several(f.name, least=1)),
    "exact_until": may(f.version),
    "graphics": may(f.flag),
    "note": may(f.text),
    "source": _SOURCES,
}
_DRIVER_LIST: Shape = {
    "kind": need(f.one_of(("apt", "rpm", "folders"), "kind of list")),
    "url": need(f.address),
    "package": may(f.package),
}


def _driver_list(value: Any, path: str, faults: Faults) -> Any:
    values = f.table(value, _DRIVER_LIST, path, faults)
    return values if values is BAD else DriverList(**values)


_BACKEND: Shape = {
    "vendor": need(lambda value, path, faults: value if value == "" else f.name(value, path, faults)),
    "title": need(f.text),
    "device": need(f.name),
    "code_rule": may(f.one_of(("cuda", "exact", "any", "listed"), "code rule")),
    "modules": may(_NAMES),
    "visible": may(f.variable),
    "serves": may(_NAMES),
    "without_card": may(f.name),
    "driver_lists": may(f.several(_driver_list)),
    "chips": may(f.keyed(f.name, f.name)),
    "host_toolkit": may(f.flag),
    "source": _SOURCES,
}
_KERNELS = f.keyed(f.name, f.several(f.version, least=1))
_BACKEND_RELEASE: Shape = {
    "version": need(f.version),
    "tag": need(f.tag),
    "min_driver": may(_BY_OS),
    "toolkit_driver": may(_BY_OS),
    "max_driver": may(_BY_OS),
    "tested_driver": may(f.keyed(f.os_family, f.text)),
    "min_kernel": may(_BY_OS),
    "lists": may(f.version),
    "platforms": may(_NAMES),
    "kernels": may(_KERNELS),
    "archs": may(_NAMES),
    "deprecated_archs": may(_NAMES),
    "evidence": may(f.evidence),
    "note": may(f.text),
    "source": _SOURCES,
}
_BRANCH: Shape = {
    "branch": need(f.version),
    "numbers": may(_TEXTS),
    "max_backend": may(f.version),
    "dropped": may(_NAMES),
    "designation": may(f.text),
    "eol": may(f.text),
    "note": may(f.text),
    "source": _SOURCES,
}
_OVERRIDE: Shape = {
    "arch": need(f.name),
    "acts_as": need(f.name),
    "env": need(_ENV),
    "os": need(f.several(f.os_family, least=1)),
    "last_backend": may(f.version),
    "note": may(f.text),
    "source": _SOURCES,
}
_PROMISE: Shape = {
    "cards": need(f.several(f.text, least=1)),
    "os": need(f.several(f.os_family, least=1)),
    "first": may(f.version),
    "last": may(f.version),
    "deprecated": may(f.several(f.version)),
    "note": may(f.text),
    "source": _SOURCES,
}
_LIMIT: Shape = {
    "tags": need(f.several(f.tag, least=1)),
    "about": need(f.several(f.text, least=1)),
    "platforms": need(_NAMES),
    "kernels": may(_KERNELS),
    "note": may(f.text),
    "source": _SOURCES,
}
_FRAMEWORK: Shape = {
    "package": need(f.package),
    "index": need(f.index),
    "default_packages": may(f.several(f.package)),
    "companions": may(f.several(f.package)),
    "no_wheels": may(f.keyed(f.package, f.text)),
    "source": _SOURCES,
}
_FRAMEWORK_RELEASE: Shape = {
    "version": need(f.release_version),
    "date": may(f.date),
    "pythons": need(_PYTHONS),
    "companions": may(f.keyed(f.package, f.several(f.release_version, least=1))),
    "requires": may(f.keyed(f.package, f.specifier)),
    "pypi": may(f.keyed(f.wheel_platform, f.tag)),
    "yanked": may(f.flag),
    "note": may(f.text),
    "source": _SOURCES,
}
_BUILD: Shape = {
    "release": need(f.release_line),
    "tag": need(f.tag),
    "platforms": need(f.several(f.wheel_platform, least=1)),
    "archs": may(_NAMES),
    "maybe_archs": may(_NAMES),
    "ptx": may(_NAMES),
    "published": may(f.flag_or_unknown),
    "pythons": may(_PYTHONS),
    "glibc": may(f.version),
    "macos": may(f.version),
    "macos_pythons": may(f.keyed(f.python, f.version)),
    "systems": may(f.keyed(f.name, f.several(f.name))),
    "local": may(f.local),
    "package": may(f.package),
    "index": may(f.index),
    "image": may(f.image),
    "device": may(f.name),
    "extras": may(f.extras),
    "extras_of": may(f.several(f.package)),
    "partners": may(f.several(f.partner)),
    "packages": may(_PACKAGES),
    "vendor_supported": may(f.flag_or_unknown),
    "evidence": may(f.evidence),
    "note": may(f.text),
    "source": _SOURCES,
}
_LIBRARY_RELEASE: Shape = {
    "version": need(f.release_version),
    "pythons": need(_PYTHONS),
    "glibc": may(f.version),
    "source": _SOURCES,
}
_SCHEME: Shape = {
    "os": need(f.os_family),
    "backend": need(f.name),
    "framework": need(f.name),
    "task": need(f.one_of(("train", "infer"), "task")),
    "title": need(f.text),
    "for_whom": need(f.text),
    "needs": may(_TEXTS),
    "pros": may(_TEXTS),
    "cons": may(_TEXTS),
    "cannot": may(_TEXTS),
    "no_container": may(f.text),
    "device": may(f.name),
    "env": may(_ENV),
    "install": may(_TEXTS),
    "stability": may(f.one_of(("stable", "beta", "prototype", "maintenance", "ended"), "stability")),
    "ecosystem": may(f.one_of(("broad", "good", "narrow"), "ecosystem")),
    "multi_device": may(f.one_of(("yes", "limited", "no", "unknown"), "word for several devices")),
    "collectives": may(f.name),
    "zh": may(lambda value, path, faults: f.table(value, _SCHEME_ZH, path, faults)),
    "source": _SOURCES,
}
_SCHEME_ZH: Shape = {
    "title": may(f.text),
    "for_whom": may(f.text),
    "needs": may(_TEXTS),
    "pros": may(_TEXTS),
    "cons": may(_TEXTS),
    "cannot": may(_TEXTS),
    "no_container": may(f.text),
    "install": may(_TEXTS),
}
_CLOUD: Shape = {
    "title": need(f.text),
    "text": need(f.text),
    "package": may(f.package),
    "version": may(f.release_version),
    "endpoint": may(f.address),
    "env": may(f.several(f.variable)),
    "training": may(f.flag),
    "zh": may(lambda value, path, faults: f.table(value, {"title": may(f.text), "text": may(f.text)}, path, faults)),
    "source": _SOURCES,
}
_CONTAINER: Shape = {
    "platform": need(f.name),
    "base": need(f.image),
    "digest": may(f.digest),
    "vendor_base": may(f.image),
    "run_flags": may(f.several(f.run_flag)),
    "groups": may(f.several(f.group)),
}

_SECTIONS = ("meta", "source", "platform", "arch", "backend", "framework", "library", "scheme", "cloud")
_WITHDRAW: Shape = {"withdraw": need(lambda value, path, faults: True if value is True else faults.add(path, "can only be true"))}


def _schema(value: Any, path: str, faults: Faults) -> Any:
    if type(value) is not int:
        return faults.add(path, f"expected {SCHEMA}, got {f.kind_of(value)}")
    return value if value == SCHEMA else faults.add(path, f"this envkit reads schema {SCHEMA}, not {value}")


# ---- rows in the making ------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Row:
    """A row, and where it was written."""

    value: Any
    faults: Faults
    path: str


_Rows = dict[Any, _Row]


@dataclass(slots=True)
class _Group:
    """A backend, framework or library: its own fields and its lists of rows."""

    head: dict[str, Any]
    faults: Faults
    path: str
    lists: dict[str, _Rows] = field(default_factory=dict)


@dataclass(slots=True)
class _Draft:
    updated: str = ""
    framework: _Row | None = None
    sources: _Rows = field(default_factory=dict)
    platforms: _Rows = field(default_factory=dict)
    archs: _Rows = field(default_factory=dict)
    schemes: _Rows = field(default_factory=dict)
    clouds: _Rows = field(default_factory=dict)
    backends: dict[str, _Group] = field(default_factory=dict)
    frameworks: dict[str, _Group] = field(default_factory=dict)
    libraries: dict[str, _Group] = field(default_factory=dict)
    # Names of rows with faults, by kind: to mention one is no second fault.
    broken: dict[str, set[str]] = field(default_factory=dict)
    # What those rows mention is looked at all the same, so that one fault does not hide another.
    wrong: list[tuple[str, Mapping[str, Any], Faults, str]] = field(default_factory=list)

    def names(self, kind: str, rows: Iterable[str]) -> set[str]:
        """What may be mentioned: the rows read, and those with faults."""
        return {*rows, *self.broken.get(kind, ())}


def _sourced(values: dict[str, Any]) -> dict[str, Any]:
    if "source" in values:
        values["sources"] = values.pop("source")
    return values


@dataclass(frozen=True, slots=True)
class _List:
    """A kind of row: how it is read, and which fields tell one from another."""

    shape: Shape
    make: Callable[..., Any]
    key: tuple[str, ...]


_BACKEND_LISTS = {
    "release": _List(_BACKEND_RELEASE, BackendRelease, ("tag",)),
    "branch": _List(_BRANCH, DriverBranch, ("branch",)),
    "override": _List(_OVERRIDE, OverrideSetting, ("arch",)),
    "promise": _List(_PROMISE, Promise, ("cards", "os")),
    "limit": _List(_LIMIT, Limit, ("tags", "about")),
}
_FRAMEWORK_LISTS = {
    "release": _List(_FRAMEWORK_RELEASE, FrameworkRelease, ("version",)),
    "build": _List(_BUILD, Build, ("release", "tag", "platforms")),
}
_LIBRARY_LISTS = {"release": _List(_LIBRARY_RELEASE, LibraryRelease, ("version",))}


class _File:
    """Reads one file into a draft; an overlay may change and withdraw what stands there already."""

    def __init__(self, draft: _Draft, label: str, *, overlay: bool) -> None:
        self.draft = draft
        self.faults = Faults(label)
        self.overlay = overlay

    def read(self, content: Mapping[str, Any]) -> None:
        """Reads the whole file."""
        for word in content:
            if word not in _SECTIONS:
                self.faults.add(join("", word), f"unknown key {f.shown(word)}{f.meant(word, _SECTIONS)}")
        self._meta(content)
        self._tables(content, "source", _SOURCE, lambda key, values: Source(id=key, **values), self.draft.sources)
        self._tables(content, "platform", _PLATFORM, lambda key, values: OsRelease(id=key, **values), self.draft.platforms)
        self._tables(content, "arch", _ARCH, lambda key, values: Architecture(name=key, **values), self.draft.archs)
        self._groups(content, "backend", _BACKEND, _BACKEND_LISTS, self.draft.backends)
        self._groups(content, "framework", _FRAMEWORK, _FRAMEWORK_LISTS, self.draft.frameworks)
        self._groups(content, "library", {"source": _SOURCES}, _LIBRARY_LISTS, self.draft.libraries)
        self._schemes(content)
        self._tables(content, "cloud", _CLOUD, lambda key, values: Cloud(name=key, **values), self.draft.clouds)

    def _section(self, content: Mapping[str, Any], word: str) -> Iterable[tuple[str, Any, str]]:
        if word not in content:
            return
        section = content[word]
        if type(section) is not dict:
            self.faults.add(word, f"expected a table, got {f.kind_of(section)}")
            return
        for key, entry in section.items():
            path = join(word, key)
            if f.name(key, path, self.faults) is not BAD:
                yield key, entry, path

    def _meta(self, content: Mapping[str, Any]) -> None:
        if "meta" not in content:
            if not self.overlay:
                self.faults.add("meta", "is missing")
            return
        values = f.table(content["meta"], _META, "meta", self.faults, partial=self.overlay)
        if values is not BAD:
            self.draft.updated = values.get("updated", self.draft.updated)
            if "framework" in values:
                self.draft.framework = _Row(values["framework"], self.faults, "meta")

    def _withdrawn(self, entry: Any, path: str, known: bool, words: Iterable[str], what: str) -> bool:
        """Whether a table of an overlay only takes a row away."""
        if not self.overlay or type(entry) is not dict or "withdraw" not in entry:
            return False
        if f.table(entry, _WITHDRAW, path, self.faults) is not BAD and not known:
            self.faults.add(path, f"nothing to withdraw: unknown {what}{f.meant(path.rpartition('.')[2], words)}")
        return True

    def _tables(
        self, content: Mapping[str, Any], word: str, shape: Shape, make: Callable[[str, dict[str, Any]], Any], rows: _Rows
    ) -> None:
        for key, entry, path in self._section(content, word):
            if self._withdrawn(entry, path, key in rows, rows, word):
                rows.pop(key, None)
                continue
            values = f.table(entry, shape, path, self.faults, partial=key in rows)
            if values is BAD:
                self.draft.broken.setdefault(word, set()).add(key)
                self._wrong(word, entry, path)
            elif key in rows:
                rows[key] = _Row(replace(rows[key].value, **_sourced(values)), self.faults, path)
            else:
                rows[key] = _Row(make(key, _sourced(values)), self.faults, path)

    def _wrong(self, word: str, entry: Any, path: str) -> None:
        if type(entry) is dict:
            self.draft.wrong.append((word, entry, self.faults, path))

    def _schemes(self, content: Mapping[str, Any]) -> None:
        rows = self.draft.schemes
        for key, entry, path in self._section(content, "scheme"):
            if self._withdrawn(entry, path, key in rows, rows, "scheme"):
                rows.pop(key, None)
                continue
            # An overlay need say only what it changes of a scheme.
            old: Scheme | None = rows[key].value if key in rows else None
            values = f.table(entry, _SCHEME, path, self.faults, partial=old is not None, beside=("container",))
            container: Any = self._container(entry, old, path) if type(entry) is dict else BAD
            if values is BAD or container is BAD:
                self._wrong("scheme", entry, path)
            elif old is not None:
                reason = values.pop("no_container", "" if container else old.no_container)
                made = replace(old, container=container, no_container=reason, **_sourced(values))
                rows[key] = _Row(made, self.faults, path)
            else:
                rows[key] = _Row(Scheme(name=key, container=container, **_sourced(values)), self.faults, path)

    def _container(self, entry: Mapping[str, Any], old: Scheme | None, path: str) -> Any:
        """The container of a scheme, None where it says why there is none, or BAD."""
        reason = entry.get("no_container")
        if "container" not in entry:
            if old is None and not reason:
                return self.faults.add(join(path, "container"), "is missing; without one, say why in no_container")
            return None if reason or old is None else old.container
        if reason:
            return self.faults.add(join(path, "no_container"), "stands beside a container; one of them is wrong")
        before = old.container if old else None
        values = f.table(entry["container"], _CONTAINER, join(path, "container"), self.faults, partial=before is not None)
        if values is BAD:
            return BAD
        return replace(before, **values) if before else Container(**values)

    def _groups(
        self, content: Mapping[str, Any], word: str, head: Shape, lists: Mapping[str, _List], groups: dict[str, _Group]
    ) -> None:
        for key, entry, path in self._section(content, word):
            if self._withdrawn(entry, path, key in groups, groups, word):
                groups.pop(key, None)
                continue
            known = key in groups
            # An overlay may add rows to a backend without saying again what the backend is.
            values = f.table(entry, head, path, self.faults, partial=known, beside=lists)
            if type(entry) is not dict:
                self.draft.broken.setdefault(word, set()).add(key)
                continue
            group = groups.setdefault(key, _Group({}, self.faults, path, {name: {} for name in lists}))
            if values is not BAD:
                group.head.update(_sourced(values))
            for name, kind in lists.items():
                if name in entry:
                    self._rows(entry[name], kind, join(path, name), group.lists[name])

    def _rows(self, entries: Any, kind: _List, path: str, rows: _Rows) -> None:
        if type(entries) is not list:
            self.faults.add(path, f"expected a list of tables ([[{path}]]), got {f.kind_of(entries)}")
            return
        own: dict[Any, str] = {}
        served: dict[tuple[str, str], list[Any]] = {}  # of builds: the keys by release and tag
        if kind.make is Build:
            for known in rows:
                served.setdefault(known[:2], []).append(known)
        for position, entry in enumerate(entries):
            place = f"{path}[{position}]"
            if self.overlay and type(entry) is dict and "withdraw" in entry:
                self._withdraw_row(entry, kind, place, rows)
                continue
            values = f.table(entry, kind.shape, place, self.faults)
            if values is BAD:
                if type(entry) is dict and type(entry.get(kind.key[0])) is str:
                    self.draft.broken.setdefault(kind.key[0], set()).add(entry[kind.key[0]])
                self._wrong(kind.make.__name__, entry, place)
                continue
            key = tuple(values[word] for word in kind.key)
            made = kind.make(**_sourced(values))
            if key in own:
                words = " ".join(str(part) for part in key)
                self.faults.add(place, f"{words} stands there already, as {own[key]}")
                continue
            own[key] = place
            if kind.make is Build:
                self._clear(made, place, rows, served.setdefault(key[:2], []))
                served[key[:2]].append(key)
            rows[key] = _Row(made, self.faults, place)

    def _clear(self, build: Build, place: str, rows: _Rows, keys: list[Any]) -> None:
        """One row a platform: an overlay's build takes the place of others for its platforms; within a file that is a fault."""
        for key in [key for key in keys if key in rows]:
            row = rows[key]
            shared = [platform for platform in row.value.platforms if platform in build.platforms]
            if not shared:
                continue
            if row.faults is self.faults:
                self.faults.add(place, f"{build.release} {build.tag} for {shared[0]} stands there already, as {row.path}")
                continue
            keys += self._take_platforms(rows, key, shared)

    def _take_platforms(self, rows: _Rows, key: Any, platforms: Sequence[str]) -> list[Any]:
        """Takes platforms from a build; gives the key of what is left of it."""
        row = rows.pop(key)
        left = tuple(platform for platform in row.value.platforms if platform not in platforms)
        if not left:
            return []
        rows[(*key[:2], left)] = _Row(replace(row.value, platforms=left), row.faults, row.path)
        return [(*key[:2], left)]

    def _withdraw_row(self, entry: Mapping[str, Any], kind: _List, place: str, rows: _Rows) -> None:
        # A build is withdrawn for the platforms named, or for all.
        optional = {"platforms"} if kind.make is Build else set()
        shape = {word: (kind.shape[word][0], word not in optional) for word in kind.key} | dict(_WITHDRAW)
        values = f.table(entry, shape, place, self.faults)
        if values is BAD:
            return
        parts = [values[word] for word in kind.key if word not in optional]
        found = [key for key in rows if list(key[: len(parts)]) == parts]
        platforms = values.get("platforms")
        if platforms is not None:
            found = [key for key in found if set(rows[key].value.platforms) & set(platforms)]
        if not found:
            known = {" ".join(str(part) for part in key[: len(parts)]) for key in rows}
            words = " ".join(str(part) for part in parts)
            self.faults.add(place, f"nothing to withdraw: unknown {words}{f.meant(words, known)}")
        for key in found:
            if platforms is None:
                del rows[key]
            else:
                self._take_platforms(rows, key, platforms)


# ---- references between rows -------------------------------------------------------------------------------------


class _References:
    """Notes every name that stands for nothing, in the file that wrote it."""

    def __init__(self, draft: _Draft) -> None:
        self.draft = draft
        self.sources = draft.names("source", draft.sources)
        self.platforms = draft.names("platform", draft.platforms)
        self.archs = draft.names("arch", draft.archs)
        self.backends = draft.names("backend", draft.backends)
        self.frameworks = draft.names("framework", draft.frameworks)
        self.libraries = draft.names("library", draft.libraries)
        self.tags = draft.names("tag", (key[0] for backend in draft.backends.values() for key in backend.lists["release"]))

    def check(self) -> None:
        """Looks at every row."""
        draft = self.draft
        for row in (*draft.platforms.values(), *draft.archs.values(), *draft.schemes.values(), *draft.clouds.values()):
            self._sources(row)
        for row in draft.archs.values():
            self._each(row, "runs_code_of", row.value.runs_code_of or (), self.archs, "architecture")
        for group in draft.backends.values():
            self._backend(group)
        for group in draft.libraries.values():
            self._head_sources(group)
            for row in group.lists["release"].values():
                self._sources(row)
        for name, group in draft.frameworks.items():
            self._framework(name, group)
        for row in draft.schemes.values():
            self._one(row, "backend", row.value.backend, self.backends, "backend")
            self._one(row, "framework", row.value.framework, self.frameworks, "framework")
            if row.value.container:
                self._one(row, "container.platform", row.value.container.platform, self.platforms, "platform")
        if draft.framework:
            self._one(draft.framework, "framework", draft.framework.value, self.frameworks, "framework")
        for word, entry, faults, path in draft.wrong:
            self._wrong(word, entry, _Row(None, faults, path))

    def _wrong(self, word: str, entry: Mapping[str, Any], row: _Row) -> None:
        """The single names that a row with faults mentions."""
        mentions = {
            "scheme": {"backend": (self.backends, "backend"), "framework": (self.frameworks, "framework")},
            "Build": {"tag": (self.tags, "tag")},
        }
        for key, (known, what) in {**mentions.get(word, {}), "source": (self.sources, "source")}.items():
            if type(entry.get(key)) is str:
                self._one(row, key, entry[key], known, what)

    def _one(self, row: _Row, key: str, word: str, known: set[str], what: str) -> None:
        if word not in known:
            row.faults.add(f"{row.path}.{key}", f"unknown {what} {f.shown(word)}{f.meant(word, known)}")

    def _each(self, row: _Row, key: str, words: Iterable[str], known: set[str], what: str) -> None:
        for position, word in enumerate(words):
            if word not in known:
                self._one(row, f"{key}[{position}]", word, known, what)

    def _sources(self, row: _Row) -> None:
        sources = row.value.sources
        for position, word in enumerate(sources):
            if word not in self.sources:
                self._one(row, "source" if len(sources) == 1 else f"source[{position}]", word, self.sources, "source")

    def _head_sources(self, group: _Group) -> None:
        for word in group.head.get("sources", ()):
            if word not in self.sources:
                group.faults.add(join(group.path, "source"), f"unknown source {f.shown(word)}{f.meant(word, self.sources)}")

    def _backend(self, group: _Group) -> None:
        self._head_sources(group)
        for row in group.lists["release"].values():
            self._sources(row)
            self._each(row, "archs", row.value.archs or (), self.archs, "architecture")
            self._each(row, "deprecated_archs", row.value.deprecated_archs, self.archs, "architecture")
            self._each(row, "platforms", row.value.platforms or (), self.platforms, "platform")
            self._each(row, "kernels", row.value.kernels, self.platforms, "platform")
        for row in group.lists["branch"].values():
            self._sources(row)
            self._each(row, "dropped", row.value.dropped, self.archs, "architecture")
        for row in group.lists["override"].values():
            self._sources(row)
            self._one(row, "arch", row.value.arch, self.archs, "architecture")
            self._one(row, "acts_as", row.value.acts_as, self.archs, "architecture")
        for row in group.lists["promise"].values():
            self._sources(row)
        for row in group.lists["limit"].values():
            self._sources(row)
            self._each(row, "tags", row.value.tags, self.tags, "tag")
            self._each(row, "platforms", row.value.platforms, self.platforms | {str(each) for each in Os}, "platform")
            self._each(row, "kernels", row.value.kernels, self.platforms, "platform")

    def _framework(self, name: str, group: _Group) -> None:
        self._head_sources(group)
        for position, word in enumerate(group.head.get("default_packages", ())):
            if word not in self.libraries:
                place = f"{group.path}.default_packages[{position}]"
                group.faults.add(place, f"unknown library {f.shown(word)}{f.meant(word, self.libraries)}")
        companions = set(group.head.get("companions", ()))
        versions = self.draft.names("version", (key[0] for key in group.lists["release"]))
        lines = {version[: end.start()] for version in versions for end in re.finditer(r"\.|$", version)}
        for row in group.lists["release"].values():
            self._sources(row)
            for word in row.value.companions:
                self._one(row, f"companions.{word}", word, companions, "companion")
            for word in row.value.requires:
                self._one(row, f"requires.{word}", word, self.libraries, "library")
            for word, tag in row.value.pypi.items():
                self._one(row, f"pypi.{word}", tag, self.tags, "tag")
        for row in group.lists["build"].values():
            self._sources(row)
            self._one(row, "release", row.value.release, lines, f"release of {name}")
            self._one(row, "tag", row.value.tag, self.tags, "tag")
            self._each(row, "archs", row.value.archs or (), self.archs, "architecture")
            self._each(row, "maybe_archs", row.value.maybe_archs, self.archs, "architecture")
            self._each(row, "ptx", row.value.ptx, self.archs, "architecture")
            for word, systems in row.value.systems.items():
                if word != "other":
                    self._one(row, f"systems.{word}", word, self.archs, "architecture")
                self._each(row, f"systems.{word}", [each.removeprefix("wsl2-") for each in systems], self.platforms, "platform")


# ---- the whole ---------------------------------------------------------------------------------------------------


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key by which "cu99" comes before "cu118" and "2.9" before "2.10"."""
    parts = re.findall(r"\d+|\D+", text, re.ASCII)
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


def arch_order(name: str) -> tuple[str, int, str]:
    """A sort key for architectures: gfx900, gfx90a, gfx1030; sm_90, sm_100."""
    return name[:2], len(name), name


def order_of(row: Any) -> Any:
    """By what rows of one list are sorted."""
    if isinstance(row, Build):
        return natural(row.release), natural(row.tag), row.platforms
    if isinstance(row, BackendRelease):
        return row.version.key, natural(row.tag)
    if isinstance(row, DriverBranch):
        return row.branch.key
    if isinstance(row, OverrideSetting):
        return arch_order(row.arch)
    if isinstance(row, Promise):
        return natural(row.cards[0])
    if isinstance(row, Limit):
        return natural(row.tags[0])
    return natural(row.version)


def load(path: Path | None = None, overlays: Sequence[Path] = ()) -> Matrix:
    """The matrix of `path` (default: the shipped one) with overlays applied in turn; raises InvalidFile naming every fault."""
    draft = _Draft()
    base = path or shipped("matrix.toml")
    files = [_File(draft, base.name if path is None else str(path), overlay=False)]
    files[0].read(read_toml(base, files[0].faults.label))
    unreadable: list[InvalidFile] = []
    for overlay in overlays:
        file = _File(draft, str(overlay), overlay=True)
        try:
            file.read(read_toml(overlay, str(overlay)))
        except InvalidFile as error:
            unreadable.append(error)
            continue
        files.append(file)
    _References(draft).check()
    lines = [line for file in files for line in file.faults.lines]
    if not lines and len(unreadable) == 1:
        raise unreadable[0]
    if lines or unreadable:
        wrong = [file.faults.label for file in files if file.faults.lines] + [
            error.message.split(": ")[0] for error in unreadable
        ]
        lines += [error.message for error in unreadable]
        count = "1 fault" if len(lines) == 1 else f"{len(lines)} faults"
        raise InvalidFile(f"{count} in {', '.join(wrong)}", faults=lines)
    return _finish(draft, sort=bool(overlays))


def _finish(draft: _Draft, *, sort: bool) -> Matrix:
    def listed(group: _Group, name: str) -> tuple[Any, ...]:
        rows = [row.value for row in group.lists[name].values()]
        return tuple(sorted(rows, key=order_of) if sort else rows)

    def named(rows: _Rows) -> Mapping[str, Any]:
        return MappingProxyType({key: row.value for key, row in rows.items()})

    return Matrix(
        updated=draft.updated,
        framework=draft.framework.value if draft.framework else "",
        sources=named(draft.sources),
        platforms=named(draft.platforms),
        archs=named(draft.archs),
        backends=MappingProxyType(
            {
                name: Backend(
                    name=name,
                    releases=listed(group, "release"),
                    branches=listed(group, "branch"),
                    overrides=listed(group, "override"),
                    promises=listed(group, "promise"),
                    limits=listed(group, "limit"),
                    **group.head,
                )
                for name, group in draft.backends.items()
            }
        ),
        frameworks=MappingProxyType(
            {
                name: Framework(name=name, releases=listed(group, "release"), builds=listed(group, "build"), **group.head)
                for name, group in draft.frameworks.items()
            }
        ),
        libraries=MappingProxyType(
            {
                name: tuple(sorted((row.value for row in group.lists["release"].values()), key=order_of, reverse=True))
                for name, group in draft.libraries.items()
            }
        ),
        schemes=named(draft.schemes),
        clouds=named(draft.clouds),
    )
