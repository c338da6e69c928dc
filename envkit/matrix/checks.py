"""What must be true of a good matrix beyond its being readable."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any

from envkit.matrix.reader import arch_order, natural, order_of
from envkit.model import Build, Framework, Matrix, Os, Scheme


def check(matrix: Matrix) -> list[str]:
    """The faults of a matrix that could be read: rows without source, out of order, or that contradict each other."""
    faults: list[str] = []
    used: set[str] = set()
    for path, row in _rows(matrix):
        used.update(row.sources)
        if not row.sources:
            faults.append(f"{path}: has no source")
    faults += [f"source.{word}: no row refers to it" for word in matrix.sources if word not in used]
    faults += _order(matrix)
    faults += _backends(matrix)
    for framework in matrix.frameworks.values():
        faults += _framework(framework, matrix)
    for name, scheme in matrix.schemes.items():
        parts = name.split("-")
        fitting = (str(scheme.os), scheme.backend, *((scheme.framework,) if len(parts) > 2 else ()))
        faults += _languages(scheme)
        if tuple(parts) != fitting:
            faults.append(f"scheme.{name}: is named otherwise than <os>-<backend>[-<framework>]: {'-'.join(fitting)}")
        if scheme.container and scheme.os in (Os.WINDOWS, Os.MACOS):
            faults.append(
                f"scheme.{name}.container: {scheme.os} has no containers that reach an accelerator; say why in no_container"
            )
        faults += [
            f"scheme.{name}.{field}: is empty" for field in ("needs", "pros", "cons", "cannot") if not getattr(scheme, field)
        ]
    for name, arch in matrix.archs.items():
        if arch.min_backend and arch.last_backend and arch.last_backend < arch.min_backend:
            faults.append(f"arch.{name}: last_backend {arch.last_backend} comes before min_backend {arch.min_backend}")
    return faults


def _languages(scheme: Scheme) -> Iterable[str]:
    """What a text lacks in the other language."""
    if not scheme.zh:
        return
    path = f"scheme.{scheme.name}.zh"
    for field in ("title", "for_whom", "needs", "pros", "cons", "cannot", "install", "no_container"):
        mine, theirs = getattr(scheme, field), scheme.zh.get(field)
        if mine and not theirs:
            yield f"{path}.{field}: is missing"
        elif isinstance(mine, tuple) and len(mine) != len(theirs or ()):
            yield f"{path}.{field}: has {len(theirs or ())} items, the English text has {len(mine)}"


def _rows(matrix: Matrix) -> Iterable[tuple[str, Any]]:
    tables: tuple[tuple[str, Mapping[str, Any]], ...] = (
        ("platform", matrix.platforms),
        ("arch", matrix.archs),
        ("scheme", matrix.schemes),
        ("cloud", matrix.clouds),
    )
    for section, table in tables:
        yield from ((f"{section}.{name}", row) for name, row in table.items())
    for name, backend in matrix.backends.items():
        yield f"backend.{name}", backend
    for name, framework in matrix.frameworks.items():
        yield f"framework.{name}", framework
    for path, rows in _lists(matrix):
        yield from ((f"{path}[{position}]", row) for position, row in enumerate(rows))
    for name, releases in matrix.libraries.items():
        yield from ((f"library.{name} {row.version}", row) for row in releases)


def _order(matrix: Matrix) -> Iterable[str]:
    sections: tuple[tuple[str, Iterable[str]], ...] = (
        ("source", matrix.sources),
        ("platform", matrix.platforms),
        ("arch", matrix.archs),
        ("backend", matrix.backends),
        ("framework", matrix.frameworks),
        ("library", matrix.libraries),
        ("scheme", matrix.schemes),
        ("cloud", matrix.clouds),
    )
    for section, table in sections:
        key: Callable[[str], Any] = arch_order if section == "arch" else natural
        for before, after in pairwise(table):
            if key(after) < key(before):
                yield f"{section}.{after}: stands after {before}; rows are sorted"
    for path, rows in _lists(matrix):
        for position, (before, after) in enumerate(pairwise(rows), start=1):
            if order_of(after) < order_of(before):
                yield f"{path}[{position}]: belongs before the row above it; rows are sorted"


def _lists(matrix: Matrix) -> Iterable[tuple[str, tuple[Any, ...]]]:
    for name, backend in matrix.backends.items():
        yield f"backend.{name}.release", backend.releases
        yield f"backend.{name}.branch", backend.branches
        yield f"backend.{name}.override", backend.overrides
        yield f"backend.{name}.promise", backend.promises
        yield f"backend.{name}.limit", backend.limits
    for name, framework in matrix.frameworks.items():
        yield f"framework.{name}.release", framework.releases
        yield f"framework.{name}.build", framework.builds


def _backends(matrix: Matrix) -> Iterable[str]:
    owners: dict[str, str] = {}
    for name, backend in matrix.backends.items():
        for position, release in enumerate(backend.releases):
            path = f"backend.{name}.release[{position}]"
            owner = owners.setdefault(release.tag, name)
            if owner != name:
                yield f"{path}.tag: {release.tag} belongs to backend {owner} already; builds are found by their tag"
            for os, floor in release.min_driver.items():
                own = release.toolkit_driver.get(os)
                if own is not None and own < floor:
                    yield f"{path}.toolkit_driver.{os}: {own} is older than {floor}, the floor of its wheels"
            for word, archs in (("archs", release.archs or ()), ("deprecated_archs", release.deprecated_archs)):
                yield from _vendors(f"{path}.{word}", archs, backend.vendor, matrix)
        for position, limit in enumerate(backend.limits):
            path = f"backend.{name}.limit[{position}]"
            yield from _vendors(f"{path}.about", [a for a in limit.about if a in matrix.archs], backend.vendor, matrix)
        for position, promise in enumerate(backend.promises):
            path = f"backend.{name}.promise[{position}]"
            if (promise.first is None) != (promise.last is None):
                yield f"{path}: has one of first and last; a promise has both, and a card that was never listed none"
            elif promise.first is not None and promise.last is not None and promise.last < promise.first:
                yield f"{path}: last {promise.last} comes before first {promise.first}"
            if len(promise.deprecated) not in (0, 2):
                yield f"{path}.deprecated: expected the first and the last release"
        for position, branch in enumerate(backend.branches):
            yield from _vendors(f"backend.{name}.branch[{position}].dropped", branch.dropped, backend.vendor, matrix)


def _vendors(path: str, archs: Iterable[str], vendor: str, matrix: Matrix) -> Iterable[str]:
    for arch in archs:
        if vendor and matrix.archs[arch].vendor != vendor:
            yield f"{path}: {arch} is of {matrix.archs[arch].vendor}, not of {vendor}"


def _framework(framework: Framework, matrix: Matrix) -> Iterable[str]:
    place = f"framework.{framework.name}"
    for position, release in enumerate(framework.releases):
        line = release.version.rpartition(".")[0]
        if not any(build.release in (release.version, line) for build in framework.builds):
            yield f"{place}.release[{position}]: no build serves {release.version}"
    vendors = {release.tag: backend.vendor for backend in matrix.backends.values() for release in backend.releases}
    for position, build in enumerate(framework.builds):
        path = f"{place}.build[{position}]"
        yield from _build(path, build)
        for word, archs in (("archs", build.archs or ()), ("ptx", build.ptx)):
            yield from _vendors(f"{path}.{word}", archs, vendors[build.tag], matrix)


def _build(path: str, build: Build) -> Iterable[str]:
    families = {platform.partition("/")[0] for platform in build.platforms}
    if build.glibc and families != {"linux"}:
        yield f"{path}.glibc: means nothing for {', '.join(sorted(families - {'linux'}))}"
    if build.macos and families != {"macos"}:
        yield f"{path}.macos: means nothing for {', '.join(sorted(families - {'macos'}))}"
    if build.macos_pythons and build.macos is None:
        yield f"{path}.macos_pythons: stands without the floor of the other Pythons, macos"
    if list(build.platforms) != sorted(build.platforms):
        yield f"{path}.platforms: are not sorted"
    for word, archs in (("archs", build.archs or ()), ("ptx", build.ptx)):
        if list(archs) != sorted(archs, key=arch_order):
            yield f"{path}.{word}: are not sorted"
