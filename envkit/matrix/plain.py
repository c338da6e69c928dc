"""Rows of the matrix as plain data, for documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from envkit.model import Backend, Framework, Matrix, Scheme, Source


def plain(value: Any) -> Any:
    """A row as dicts, lists and text; what is not known is None."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, Enum):
        return str(value.value)
    return str(value) if isinstance(value, str) else value


def scheme_document(scheme: Scheme, sources: Mapping[str, Source]) -> dict[str, Any]:
    """A scheme as it stands in the document envkit/schemes/1, with its sources written out."""
    document: dict[str, Any] = plain(scheme)
    document["sources"] = [plain(sources[word]) for word in scheme.sources if word in sources]
    return document


def matrix_document(matrix: Matrix, scheme: Scheme | None = None) -> dict[str, Any]:
    """The document envkit/matrix/1: the whole matrix, or the rows that a scheme draws on."""
    if scheme is not None:
        matrix = part_of(matrix, scheme)
    return {"schema": "envkit/matrix/1", **plain(matrix)}


def part_of(matrix: Matrix, scheme: Scheme) -> Matrix:
    """The rows that a scheme draws on."""
    backend = matrix.backends[scheme.backend]
    framework = builds_for(matrix, scheme)
    builds = framework.builds
    tags = {build.tag for build in builds}
    lines = {build.release for build in builds}
    releases = tuple(row for row in backend.releases if row.tag in tags)
    archs = _mentioned(builds, releases, backend)
    limits = tuple(row for row in backend.limits if tags & set(row.tags))
    platforms = {word for row in releases for word in row.platforms or ()}
    platforms |= {word for row in limits for word in row.platforms}
    if scheme.container:
        platforms.add(scheme.container.platform)
    kept_backend = Backend(**{**_parts(backend), "releases": releases, "limits": limits})
    kept_framework = Framework(
        **{
            **_parts(framework),
            "releases": tuple(
                row for row in framework.releases if row.version in lines or row.version.rpartition(".")[0] in lines
            ),
        }
    )
    libraries = {word: rows for word, rows in matrix.libraries.items() if word in framework.default_packages}
    kept = Matrix(
        updated=matrix.updated,
        sources={},
        platforms={word: row for word, row in matrix.platforms.items() if word in platforms},
        archs={word: row for word, row in matrix.archs.items() if word in archs},
        backends={backend.name: kept_backend},
        frameworks={framework.name: kept_framework},
        libraries=libraries,
        schemes={scheme.name: scheme},
    )
    used = set(_used_sources(kept))
    return Matrix(**{**_parts(kept), "sources": {word: row for word, row in matrix.sources.items() if word in used}})


def builds_for(matrix: Matrix, scheme: Scheme) -> Framework:
    """The scheme's framework with the builds that serve the scheme alone."""
    tags = {row.tag for row in matrix.backends[scheme.backend].releases}
    family = "linux" if scheme.os == "wsl2" else str(scheme.os)
    framework = matrix.frameworks[scheme.framework]
    builds = tuple(
        build
        for build in framework.builds
        if build.tag in tags and any(platform.startswith(f"{family}/") for platform in build.platforms)
    )
    return Framework(**{**_parts(framework), "builds": builds})


def _parts(row: Any) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in fields(row)}


def _mentioned(builds: Iterable[Any], releases: Iterable[Any], backend: Backend) -> set[str]:
    archs = {word for build in builds for word in (*(build.archs or ()), *build.maybe_archs, *build.ptx)}
    archs |= {word for row in releases for word in (*(row.archs or ()), *row.deprecated_archs)}
    archs |= {word for row in backend.branches for word in row.dropped}
    return archs | {word for row in backend.overrides for word in (row.arch, row.acts_as)}


def _used_sources(matrix: Matrix) -> Iterable[str]:
    rows: list[Any] = [*matrix.platforms.values(), *matrix.archs.values(), *matrix.schemes.values()]
    for backend in matrix.backends.values():
        rows += [backend, *backend.releases, *backend.branches, *backend.overrides, *backend.promises, *backend.limits]
    for framework in matrix.frameworks.values():
        rows += [framework, *framework.releases, *framework.builds]
    for releases in matrix.libraries.values():
        rows += releases
    return (word for row in rows for word in row.sources)
