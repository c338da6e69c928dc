"""Decides which rows the matrix lacks: new releases, new builds, new packages beside them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envkit.matrix.reader import natural
from envkit.matrix.refresh.changes import (
    GONE,
    LOOK,
    NEW,
    Change,
    SourceBook,
    backend_of,
    build_label,
    index_of,
    local_of,
    package_of,
    serves,
)
from envkit.matrix.refresh.listings import PYPI, Listing, normal, python_key, release_key
from envkit.matrix.refresh.upstream import (
    Seen,
    Upstream,
    carrier_of,
    date_of,
    finals,
    fresh,
    newer,
    on,
    partner_packages,
    parts,
    pythons_of,
    see,
    versions_from,
)
from envkit.model import Build, Evidence, Framework, FrameworkRelease, LibraryRelease, Matrix

# ---- releases ----------------------------------------------------------------------------------------------------


def new_release(
    framework: Framework, upstream: Upstream, listing: Listing, version: str, table: str, source: str
) -> Iterator[Change]:
    pythons = pythons_of(upstream, framework, version)
    before = _before(framework, version)
    if not pythons:
        pythons = tuple(word for word in (before.pythons if before else ()))
        because = "new; its wheels do not name Pythons: those of the release before are taken"
    else:
        because = "new"
    if not pythons:
        return
    row: dict[str, Any] = {"version": version}
    if date := date_of(listing, version):
        row["date"] = date
    row["pythons"] = list(pythons)
    companions = {
        name: list(found)
        for name in sorted(framework.companions)
        if (found := _companions_for(framework, upstream, name, version, before))
    }
    if companions:
        row["companions"] = companions
    if requires := _requires(framework, upstream, version):
        row["requires"] = requires
    row["source"] = source
    yield Change(kind=NEW, table=table, label=version, key={"version": version}, row=row, because=because, place=listing.place)


def _before(framework: Framework, version: str) -> FrameworkRelease | None:
    older = [release for release in framework.releases if release_key(release.version) < release_key(version)]
    return max(older, key=lambda release: release_key(release.version), default=None)


def _requires(framework: Framework, upstream: Upstream, version: str) -> dict[str, str]:
    """What the release's own metadata asks of the libraries that are installed beside it."""
    metadata = upstream.metadata.get((normal(framework.package), version))
    if metadata is None:
        return {}
    return {name: text for name in framework.default_packages if (text := metadata.specifier_of(name))}


def _companions_for(
    framework: Framework, upstream: Upstream, name: str, version: str, before: FrameworkRelease | None
) -> tuple[str, ...]:
    """The companion's releases whose metadata allows this release, the newest line's first."""
    listing = upstream.listing(PYPI, name)
    if listing is None:
        return ()
    found = []
    for candidate in reversed(finals(listing)):
        metadata = upstream.metadata.get((normal(name), candidate))
        allowed = metadata.allows(framework.package, version) if metadata else None
        # One that says nothing of the framework is kept where it served the release before.
        if allowed or (allowed is None and before and candidate in before.companions.get(name, ())):
            found.append(candidate)
    return tuple(found)


# ---- builds that the matrix lacks --------------------------------------------------------------------------------


def _platforms_of(matrix: Matrix) -> set[str]:
    return {platform for framework in matrix.frameworks.values() for build in framework.builds for platform in build.platforms}


def _seen_row(seen: Seen, release: FrameworkRelease | None, platform: str) -> dict[str, Any]:
    """The fields of a row that wheels tell."""
    row: dict[str, Any] = {}
    if seen.pythons and (release is None or set(seen.pythons) != set(release.pythons)):
        row["pythons"] = list(seen.pythons)
    if seen.floor and platform.startswith("linux/"):
        row["glibc"] = seen.floor
    return row


def _floor_note(seen: Seen, platform: str) -> list[str]:
    if not seen.lower:
        return []
    word = "macOS" if platform.startswith("macos/") else "glibc"
    return [f"the wheels of some Pythons are content with {word} {min(seen.floors, key=parts)}"]


def _ordered(row: Mapping[str, Any]) -> dict[str, Any]:
    order = (
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
        "extras",
        "macos",
        "packages",
        "partners",
        "vendor_supported",
        "evidence",
        "note",
        "source",
    )
    return {word: row[word] for word in order if word in row}


def new_on_indexes(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """Builds on a framework's own indexes (one index a tag) that no row is about."""
    if "{tag}" not in framework.index:
        return
    known = _platforms_of(matrix)
    releases = {release.version: release for release in framework.releases}
    tags = [row.tag for backend in matrix.backends.values() for row in backend.releases]
    for tag in tags:
        index = framework.index.replace("{tag}", tag)
        listing = upstream.listing(index, framework.package)
        if listing is None or not listing.known:
            continue
        rows: dict[tuple[str, str, str], list[str]] = {}
        for wheel in listing.wheels:
            if wheel.version in releases and wheel.local in ("", f"+{tag}") and not wheel.file.yanked:
                for platform in wheel.platforms:
                    versions = rows.setdefault((platform, wheel.local, _line(wheel.version)), [])
                    if wheel.version not in versions:
                        versions.append(wheel.version)
        for (platform, local, line), versions in rows.items():
            lacking = [version for version in versions if not _covered(framework, tag, platform, version)]
            if platform not in known or not lacking:
                continue
            whole = set(lacking) >= {version for version in releases if _line(version) == line}
            for release in [line] if whole else sorted(lacking, key=release_key):
                about = lacking if whole else [release]
                wheels = [wheel for version in about for wheel in listing.of(version, local)]
                seen = see(on(wheels, platform), platform)
                newest = releases[max(about, key=release_key)]
                yield _new_build(
                    matrix,
                    framework,
                    {
                        "release": release,
                        "tag": tag,
                        "platforms": [platform],
                        **_seen_row(seen, newest, platform),
                        **({"local": ""} if not local else {}),
                        **({"macos": seen.floor} if platform.startswith("macos/") and seen.floor else {}),
                        "source": book.of(index, framework.package),
                    },
                    _floor_note(seen, platform),
                    listing.place,
                )


def _line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _covered(framework: Framework, tag: str, platform: str, version: str) -> bool:
    """Whether a row is about a release's build for a platform, by this tag (or any)."""
    return any(tag in (build.tag, "") and platform in build.platforms and serves(build, version) for build in framework.builds)


def _new_build(
    matrix: Matrix,
    framework: Framework,
    row: dict[str, Any],
    notes: Sequence[str],
    place: str,
    because: str = "not in the matrix",
) -> Change:
    backend = matrix.backends.get(backend_of(matrix, row["tag"]))
    notes = list(notes)
    if backend is not None and backend.code_rule in ("cuda", "exact") and "archs" not in row:
        notes.append("compiled architectures not read")
    row = {**row, "evidence": str(Evidence.INDEX_CHECKED)}
    if notes:
        row["note"] = "; ".join(notes)
    return Change(
        kind=NEW,
        table=f"framework.{framework.name}.build",
        label=build_label(row["release"], row["tag"], row["platforms"]),
        key={word: row[word] for word in ("release", "tag", "platforms")},
        row=_ordered(row),
        because=because,
        place=place,
    )


def new_on_pypi(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """Builds of new releases that PyPI serves: what the release before had from there, with the facts of the new wheels."""
    main = upstream.listing(PYPI, framework.package)
    known = _platforms_of(matrix)
    for version in fresh(framework, upstream.whole(framework)):
        before = _built_before(framework, version)
        if before is None:
            continue
        rows = [build for build in framework.builds if serves(build, before.version) and build.published is not False]
        taken: set[tuple[str, tuple[str, ...]]] = set()
        for change in _from_templates(matrix, framework, upstream, book, version, before, rows):
            taken.add((change.row["tag"], tuple(change.row["platforms"])))
            yield change
        if "{tag}" not in framework.index or main is None:
            continue
        # The index of each tag may not have been reached; what PyPI serves of the release is known all the same.
        for platform in sorted({platform for wheel in main.of(version) for platform in wheel.platforms} & known):
            tag = _default_tag(matrix, framework, upstream, version, platform)
            # A row of the whole line (2.14) is about the new release already.
            if not tag or any(platform in platforms for _, platforms in taken) or _covered(framework, "", platform, version):
                continue
            seen = see(on(main.of(version), platform), platform)
            yield _new_build(
                matrix,
                framework,
                {
                    "release": version,
                    "tag": tag,
                    "platforms": [platform],
                    **_seen_row(seen, _as_release(upstream, framework, version), platform),
                    "local": "",
                    "index": PYPI,
                    **({"macos": seen.floor} if platform.startswith("macos/") and seen.floor else {}),
                    "source": book.of(PYPI, framework.package),
                },
                _floor_note(seen, platform),
                main.place,
                because="PyPI's own build of a new release",
            )


def _as_release(upstream: Upstream, framework: Framework, version: str) -> FrameworkRelease:
    return FrameworkRelease(version=version, pythons=pythons_of(upstream, framework, version))


def _built_before(framework: Framework, version: str) -> FrameworkRelease | None:
    older = [
        release
        for release in framework.releases
        if release_key(release.version) < release_key(version)
        and any(serves(build, release.version) for build in framework.builds)
    ]
    return max(older, key=lambda release: release_key(release.version), default=None)


def _default_tag(matrix: Matrix, framework: Framework, upstream: Upstream, version: str, platform: str) -> str:
    """The tag of the build that PyPI serves: by the CUDA runtime that its metadata requires on Linux, else the CPU's."""
    metadata = upstream.metadata.get((normal(framework.package), version))
    cuda = metadata.cuda(platform) if metadata else ""
    if cuda:
        return next(
            (
                row.tag
                for backend in matrix.backends.values()
                if backend.code_rule == "cuda"
                for row in backend.releases
                if row.version == cuda
            ),
            "",
        )
    return "cpu" if metadata and any(row.tag == "cpu" for backend in matrix.backends.values() for row in backend.releases) else ""


def _from_templates(
    matrix: Matrix,
    framework: Framework,
    upstream: Upstream,
    book: SourceBook,
    version: str,
    before: FrameworkRelease,
    rows: Sequence[Build],
) -> Iterator[Change]:
    """Rows like those of the release before that come from PyPI and hold no label."""
    done: set[tuple[object, ...]] = set()
    # Of several releases of one backend, the newest is the one that a new build may go with.
    for build in sorted(rows, key=lambda row: natural(row.tag), reverse=True):
        package = package_of(framework, build)
        listing = upstream.listing(PYPI, package)
        backend = backend_of(matrix, build.tag)
        kind = (backend, build.platforms, package, build.extras, tuple(build.packages))
        if local_of(build) or listing is None or kind in done:
            continue
        if index_of(framework, build) != PYPI and not all(platform.startswith("macos/") for platform in build.platforms):
            continue
        if any(_covered(framework, build.tag, platform, version) for platform in build.platforms):
            continue
        pins = _new_pins(framework, build, upstream, version)
        carrier = carrier_of(framework, upstream, package) or listing
        wheels = listing.of(version)
        if pins is None or not all(on(wheels, platform) for platform in build.platforms):
            continue
        metadata = upstream.metadata.get((normal(package), version))
        if build.extras and "{" not in build.extras and metadata and not {*build.extras.split(",")} <= set(metadata.extras):
            continue
        done.add(kind)
        seen = [see(on(carrier.of(version), platform), platform) for platform in build.platforms]
        floor = max((each.floor for each in seen), key=parts)
        several = backend in matrix.backends and len(matrix.backends[backend].releases) > 1 and not _names_tag(build)
        notes = [note for each, platform in zip(seen, build.platforms, strict=True) for note in _floor_note(each, platform)][:1]
        if several:
            notes.append(f"that it goes with {build.tag} like the release before is not read anywhere")
        word = "macos" if build.platforms[0].startswith("macos/") else "glibc"
        yield _new_build(
            matrix,
            framework,
            {
                "release": version,
                "tag": build.tag,
                "platforms": list(build.platforms),
                **({"published": "unknown"} if several else {}),
                **_seen_row(seen[0], _as_release(upstream, framework, version), build.platforms[0]),
                "local": "",
                **({"package": build.package} if build.package else {}),
                **({"index": PYPI} if framework.index != PYPI else {}),
                **({"extras": build.extras} if build.extras else {}),
                **({word: floor} if floor and not build.platforms[0].startswith("windows/") else {}),
                **({"packages": pins} if pins else {}),
                **({"partners": list(build.partners)} if build.partners else {}),
                "source": book.of(PYPI, package),
            },
            notes,
            listing.place,
            because=f"like {build.release} {build.tag}",
        )


def _names_tag(build: Build) -> bool:
    """Whether the names of a build say which release of its backend they mean: jax-cuda13-plugin for cuda13."""
    number = re.search(r"\d[\d.]*$", build.tag)
    names = " ".join([build.package, build.extras, *build.packages])
    return number is not None and number[0] in re.findall(r"\d+(?:\.\d+)*", names)


def _new_pins(framework: Framework, build: Build, upstream: Upstream, version: str) -> dict[str, Any] | None:
    """The build's further packages for a new release: those whose metadata pins it, or that bear its version; None: not there."""
    pins: dict[str, Any] = {}
    for name, pin in build.packages.items():
        listing = upstream.listing(pin.index or index_of(framework, build), name)
        if listing is None:
            return None
        found = [
            candidate
            for candidate in reversed(finals(listing))
            if (metadata := upstream.metadata.get((normal(name), candidate)))
            and public(metadata.pin_of(framework.package)) == version
        ]
        if not found and serves(build, pin.version) and listing.of(version):
            found = [version]
        if not found:
            return None
        pins[name] = (
            found[0]
            if not pin.index and not pin.extras
            else {
                "version": found[0],
                **({"index": pin.index} if pin.index else {}),
                **({"extras": pin.extras} if pin.extras else {}),
            }
        )
    return pins


def public(version: str) -> str:
    """A version without its local part."""
    return version.partition("+")[0]


def new_partners(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """New releases of the packages that builds take besides the framework (torch-npu, torch-directml), for known releases."""
    releases = {release.version: release for release in framework.releases}
    main = upstream.whole(framework)
    if main is None:
        return  # which of them come with a new release of the framework itself is not known then
    new = fresh(framework, main)
    for name in partner_packages(framework):
        listing = upstream.listing(PYPI, name)
        known = versions_from(framework, (PYPI, normal(name)), unconfirmed=True)
        for version in newer(listing, known):
            metadata = upstream.metadata.get((normal(name), version))
            target = public(metadata.pin_of(framework.package)) if metadata else ""
            if listing is None or version in new or target in new:
                continue  # comes with the new release of the framework itself
            if target not in releases:
                asks = metadata.specifier_of(framework.package) if metadata else ""
                yield Change(
                    kind=LOOK,
                    table=f"framework.{framework.name}.build",
                    label=f"{name} {version}",
                    because=f"new on {date_of(listing, version) or 'the index'}; "
                    + (f"asks for {framework.package}{asks}" if asks else f"does not say for which {framework.package}"),
                    place=listing.place,
                )
                continue
            yield from _partner_rows(matrix, framework, releases[target], name, version, listing, book)


def _partner_rows(
    matrix: Matrix, framework: Framework, release: FrameworkRelease, name: str, version: str, listing: Listing, book: SourceBook
) -> Iterator[Change]:
    templates = [build for build in framework.builds if name in build.packages and build.published is not False]
    newest = max(templates, key=lambda build: (natural(build.release), natural(build.tag)))
    wheels = listing.of(version)
    backend = matrix.backends[backend_of(matrix, newest.tag)]
    several, title = len(backend.releases) > 1, backend.title
    for build in templates:
        if (build.release, build.tag) != (newest.release, newest.tag):
            continue
        there = [platform for platform in build.platforms if on(wheels, platform)]
        if several or not there or any(_covered(framework, build.tag, platform, release.version) for platform in there):
            yield Change(
                kind=LOOK,
                table=f"framework.{framework.name}.build",
                label=f"{name} {version}",
                because=f"new on {date_of(listing, version) or 'the index'} for {framework.package} {release.version}; its "
                f"metadata does not say which release of {title} it goes with",
                place=listing.place,
            )
            return
        seen = see(on(wheels, there[0]), there[0])
        others = [word for word in build.packages if word != name]
        yield _new_build(
            matrix,
            framework,
            {
                "release": release.version,
                "tag": build.tag,
                "platforms": there,
                **({"published": "unknown"} if others else {}),
                "pythons": [python for python in seen.pythons if python in release.pythons] or list(release.pythons),
                **({"glibc": seen.floor} if seen.floor and there[0].startswith("linux/") else {}),
                **({"local": build.local} if build.local is not None else {}),
                **({"index": build.index} if build.index else {}),
                "packages": {name: version},
                "source": book.of(PYPI, name),
            },
            [f"which {' and '.join(others)} goes with it is not read"] if others else [],
            listing.place,
            because=f"{name} {version} is new and asks for {framework.package} {release.version}",
        )


# ---- libraries ---------------------------------------------------------------------------------------------------


def compare_library(name: str, rows: Sequence[LibraryRelease], listing: Listing, book: SourceBook) -> list[Change]:
    """The newest release of a library where the matrix lacks it, vanished ones, and other Pythons. `rows`: newest first."""
    source = book.of(PYPI, name)
    table = f"library.{name}.release"
    changes: list[Change] = []
    listed = finals(listing)
    known = {row.version for row in rows}
    if listed and listed[-1] not in known and all(release_key(listed[-1]) > release_key(row.version) for row in rows):
        wheels = listing.of(listed[-1])
        seen = see([wheel for wheel in wheels if "linux/x86_64" in wheel.platforms], "linux/x86_64")
        pythons = tuple(sorted({wheel.python for wheel in wheels if wheel.python}, key=python_key))
        if pythons:
            new = {
                "version": listed[-1],
                "pythons": list(pythons),
                **({"glibc": seen.floor} if seen.floor else {}),
                "source": source,
            }
            changes.append(
                Change(
                    kind=NEW,
                    table=table,
                    label=listed[-1],
                    key={"version": listed[-1]},
                    row=new,
                    because="new",
                    place=listing.place,
                )
            )
    changes += [
        Change(
            kind=GONE,
            table=table,
            label=row.version,
            key={"version": row.version},
            because="no longer listed, or withdrawn",
            place=listing.place,
            shrinks=True,
        )
        for row in rows
        if not listing.of(row.version)
    ]
    return changes
