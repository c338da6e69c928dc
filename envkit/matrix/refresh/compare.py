"""Decides what the listings of today say about the rows that the matrix has. Pure: everything that was read is handed in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from envkit.matrix.refresh.changes import (
    CHANGED,
    GONE,
    LOOK,
    NEW,
    Change,
    SourceBook,
    backend_of,
    build_label,
    index_of,
    local_of,
    merged,
    package_of,
    served,
)
from envkit.matrix.refresh.listings import PYPI, Listing, Wheel, normal, python_key, release_key
from envkit.matrix.refresh.propose import new_on_indexes, new_on_pypi, new_partners, new_release
from envkit.matrix.refresh.upstream import Seen, Upstream, fresh, newer, on, parts, pythons_of, see, versions_from
from envkit.model import Build, Evidence, Framework, Matrix

# ---- the comparison ----------------------------------------------------------------------------------------------


def compare(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> list[Change]:
    """Every change of a framework's rows; a row that two pages would add is proposed once."""
    releases = list(_releases(framework, upstream, book))
    # Builds without Pythons of their own have those of the release, as they will be.
    pythons = {change.label: tuple(change.now["pythons"]) for change in releases if change.now.get("pythons")}
    framework = replace(
        framework,
        releases=tuple(
            replace(release, pythons=pythons[release.version]) if release.version in pythons else release
            for release in framework.releases
        ),
    )
    found = [
        *releases,
        *_companions(framework, upstream, book),
        *_builds(matrix, framework, upstream, book),
        *new_on_indexes(matrix, framework, upstream, book),
        *new_on_pypi(matrix, framework, upstream, book),
        *new_partners(matrix, framework, upstream, book),
    ]
    # What is to be looked at differs by its reason; of a row that is to be added or changed there is one.
    once: dict[tuple[str, ...], Change] = {}
    for change in found:
        key = (change.kind, change.table, change.label, change.because if change.kind == LOOK else "")
        once[key] = merged(once[key], change) if key in once and change.kind == CHANGED else change
    return _with_builds(framework, list(once.values()))


def _with_builds(framework: Framework, changes: Sequence[Change]) -> list[Change]:
    """Leaves releases out that no build serves; how many there are is said all the same."""
    table = f"framework.{framework.name}.release"
    proposed = [str(change.row["release"]) for change in changes if change.kind == NEW and "release" in change.row]
    lines = [*proposed, *(build.release for build in framework.builds if build.published is not False)]

    def bare(change: Change) -> bool:
        version = str(change.row.get("version", ""))
        return (
            change.kind == NEW
            and change.table == table
            and not any(version == one or version.startswith(f"{one}.") for one in lines)
        )

    left = [change for change in changes if bare(change)]
    kept = [change for change in changes if not bare(change)]
    if left:
        labels = left[0].label if len(left) == 1 else f"{left[0].label} to {left[-1].label}"
        because = f"{len(left)} newer on PyPI, but nothing there tells of a build like those that the matrix has"
        kept.append(Change(kind=LOOK, table=table, label=labels, because=because, place=left[0].place))
    return kept


def _releases(framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """Releases on PyPI: new ones, vanished ones, withdrawn ones, other Pythons."""
    listing = upstream.whole(framework)
    if listing is None:
        return
    source = book.of(PYPI, framework.package)
    table = f"framework.{framework.name}.release"
    for version in fresh(framework, listing):
        yield from new_release(framework, upstream, listing, version, table, source)
    on_pypi = framework.index == PYPI
    for release in framework.releases:
        key = {"version": release.version}
        wheels = [wheel for wheel in listing.wheels if wheel.version == release.version]
        if not wheels:
            # What PyPI never had is no loss: frameworks with indexes of their own may leave it out.
            if on_pypi and not _files(listing, release.version):
                yield Change(
                    kind=GONE,
                    table=table,
                    label=release.version,
                    key=key,
                    because="no longer listed",
                    place=listing.place,
                    shrinks=True,
                )
            continue
        yanked = all(wheel.file.yanked for wheel in wheels)
        if yanked != release.yanked:
            yield Change(
                kind=CHANGED,
                table=table,
                label=release.version,
                key=key,
                now={"yanked": True if yanked else None},
                was={"yanked": release.yanked or None},
                because="withdrawn upstream (yanked)" if yanked else "no longer withdrawn",
                place=listing.place,
                shrinks=yanked,
            )
        found = pythons_of(upstream, framework, release.version)
        if on_pypi and found and set(found) != set(release.pythons):
            # Rows of other indexes may add Pythons that PyPI's wheels lack.
            yield _changed(table, release.version, key, "pythons", release.pythons, found, listing.place)


def _files(listing: Listing, version: str) -> list[Any]:
    return [file for file in listing.files if f"-{version}." in file.name or f"-{version}-" in file.name]


def _changed(
    table: str, label: str, key: Mapping[str, Any], word: str, was: Sequence[str] | None, now: Sequence[str], place: str
) -> Change:
    lost = sorted(set(was or ()) - set(now), key=python_key)
    return Change(
        kind=CHANGED,
        table=table,
        label=label,
        key=key,
        now={word: list(now)},
        was={word: list(was) if was is not None else None},
        because=f"no wheels for {' '.join(lost)}" if lost else "wheels for more",
        place=place,
        shrinks=bool(lost),
    )


def _companions(framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """New releases of companions for the framework's known releases: one change a release."""
    added: dict[str, dict[str, list[str]]] = {}
    because: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for name in framework.companions:
        listing = upstream.listing(PYPI, name)
        known = versions_from(framework, (PYPI, normal(name)), unconfirmed=True)
        for version in newer(listing, known):
            metadata = upstream.metadata.get((normal(name), version))
            if listing is None or metadata is None:
                continue
            asked = metadata.specifier_of(framework.package)
            for release in framework.releases:
                if metadata.allows(framework.package, release.version):
                    added.setdefault(release.version, {}).setdefault(name, []).append(version)
                    because.setdefault(release.version, []).append(f"{name} {version} asks for {framework.package}{asked}")
                    places[release.version] = listing.place
    for release in framework.releases:
        if release.version in added:
            was = {name: list(versions) for name, versions in release.companions.items()}
            more = added[release.version]
            now = {name: [*was.get(name, []), *more.get(name, [])] for name in sorted({*was, *more})}
            yield Change(
                kind=CHANGED,
                table=f"framework.{framework.name}.release",
                label=release.version,
                key={"version": release.version},
                now={"companions": now},
                was={"companions": was},
                because="; ".join(because[release.version]),
                place=places[release.version],
            )


# ---- builds that the matrix has ----------------------------------------------------------------------------------


def _key_of(build: Build) -> dict[str, Any]:
    return {"release": build.release, "tag": build.tag, "platforms": list(build.platforms)}


def _builds(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    for build in framework.builds:
        index = index_of(framework, build)
        package = package_of(framework, build)
        listing = upstream.listing(index, package)
        if listing is None or not listing.known or build.published is False:
            continue
        yield from _build(matrix, framework, build, upstream, listing, book.of(index, package))
        yield from _pins(framework, build, upstream, index)


def _build(
    matrix: Matrix, framework: Framework, build: Build, upstream: Upstream, listing: Listing, source: str
) -> Iterator[Change]:
    table, key = f"framework.{framework.name}.build", _key_of(build)
    label = build_label(build.release, build.tag, build.platforms)
    releases = served(framework, build)
    local = local_of(build)
    by_version = {release.version: listing.of(release.version, local) for release in releases}
    # A preview that one vendor built is not missed where the row is about final releases as well.
    finals = {version: wheels for version, wheels in by_version.items() if wheels or not release_key(version).is_prerelease}
    by_version = finals or by_version
    missing = {
        platform: [version for version, wheels in by_version.items() if not on(wheels, platform)] for platform in build.platforms
    }
    withdrawn = all(release.yanked for release in releases)
    for platform, versions in missing.items():
        if withdrawn or not versions:
            continue
        if len(versions) == len(by_version):
            if build.published:
                yield Change(
                    kind=GONE,
                    table=table,
                    label=build_label(build.release, build.tag, [platform]),
                    key={**key, "platform": platform},
                    because="no wheel of it is listed any more",
                    place=listing.place,
                    shrinks=True,
                )
        elif build.published:
            yield Change(
                kind=LOOK,
                table=table,
                label=label,
                key=key,
                because=f"no wheel of {', '.join(versions)} for {platform}; the row is true of the other releases alone",
                place=listing.place,
            )
    there = [platform for platform in build.platforms if len(missing[platform]) < len(by_version)]
    if not there or len(there) < len(build.platforms):
        return
    now, was, because = _facts(framework, build, upstream, by_version)
    # That a wheel is listed proves the build where it bears the tag, or where the backend has no releases to pair it with.
    proves = bool(local_of(build)) or (not build.packages and len(matrix.backends[backend_of(matrix, build.tag)].releases) == 1)
    if proves and build.published is None:
        now["published"], was["published"] = None, "unknown"
        because.append("its wheels are listed now")
        if build.note:
            now["note"], was["note"] = None, build.note
    if proves and build.evidence is Evidence.CLAIMED:
        now["evidence"], was["evidence"] = str(Evidence.INDEX_CHECKED), str(build.evidence)
        because.append("seen on the index")
        if source not in build.sources:
            now["source"] = [*build.sources, source]
            was["source"] = list(build.sources)
    if now:
        lost = set(was.get("pythons") or ()) - set(now.get("pythons") or was.get("pythons") or ())
        yield Change(
            kind=CHANGED,
            table=table,
            label=label,
            key=key,
            now=now,
            was=was,
            because="; ".join(because),
            place=listing.place,
            shrinks=bool(lost),
        )


def _facts(
    framework: Framework, build: Build, upstream: Upstream, by_version: Mapping[str, Sequence[Wheel]]
) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """What the wheels say otherwise than the row: Pythons and floors."""
    now: dict[str, Any] = {}
    was: dict[str, Any] = {}
    because: list[str] = []
    carrier = upstream.carriers.get(normal(package_of(framework, build)))
    if carrier and (listing := upstream.listing(PYPI, carrier)) is not None:
        by_version = {version: listing.of(version) for version in by_version}
    releases = {release.version: release for release in served(framework, build)}
    seen = {
        (version, platform): each
        for version, wheels in by_version.items()
        for platform in build.platforms
        if (each := _with_pins(framework, build, upstream, see(on(wheels, platform), platform), platform)) is not None
    }
    if seen and all(each.pythons for each in seen.values()):
        found = {python for each in seen.values() for python in each.pythons}
        expected = set(build.pythons or {python for version, _ in seen for python in releases[version].pythons})
        lost = sorted(expected - found, key=python_key)
        if build.packages or build.pythons is not None:
            # Beside further packages a row may hold fewer than the wheels do: what its vendor lists.
            differs = bool(lost) or (not build.packages and found != expected)
        else:
            differs = any(set(each.pythons) != set(releases[version].pythons) for (version, _), each in seen.items())
        if differs:
            left = found & expected if build.packages else found
            now["pythons"], was["pythons"] = sorted(left, key=python_key), sorted(expected, key=python_key)
            because.append(f"no wheels for {' '.join(lost)}" if lost else "wheels for other Pythons")
    word, value = ("macos", build.macos) if build.platforms[0].startswith("macos/") else ("glibc", build.glibc)
    floors = {floor for each in seen.values() for floor in each.floors}
    if floors and _contradicts(word, str(value) if value else "", floors, exact=not (build.packages or build.extras)):
        now[word], was[word] = max((each.floor for each in seen.values()), key=parts), str(value) if value else None
        because.append(f"its wheels name {word} {' and '.join(sorted(floors, key=parts))}")
    return now, was, because


def _with_pins(framework: Framework, build: Build, upstream: Upstream, own: Seen, platform: str) -> Seen | None:
    """What the wheels of a build and of its further packages allow together; None where that is not known."""
    together = own if own.pythons or own.floors else None
    for name, pin in build.packages.items():
        listing = upstream.listing(pin.index or index_of(framework, build), name)
        wheels = on([wheel for wheel in listing.wheels if _same(wheel, pin.version)], platform) if listing else ()
        if not wheels:
            return None
        each = see(wheels, platform)
        if together is None:
            together = each if each.pythons or each.floors else None
            continue
        pythons = tuple(python for python in together.pythons if python in each.pythons) if each.pythons else together.pythons
        if each.pythons and not together.pythons:
            pythons = each.pythons
        higher = max((together, each), key=lambda one: parts(one.floor))
        together = Seen(pythons=pythons, floor=higher.floor, floors=higher.floors)
    return together


def _contradicts(word: str, value: str, floors: Iterable[str], *, exact: bool) -> bool:
    """Whether a row's floor is none that wheels name. A macOS above theirs is none: what the build is for may need more (MPS)."""
    known = {parts(floor) for floor in floors}
    if not value or parts(value) < min(known):
        return True
    return exact and word == "glibc" and parts(value) not in known


def _pins(framework: Framework, build: Build, upstream: Upstream, index: str) -> Iterator[Change]:
    """Further packages of a build that are no longer there."""
    for name, pin in build.packages.items():
        listing = upstream.listing(pin.index or index, name)
        if listing is None or not listing.known or not build.published:
            continue
        if not any(_same(wheel, pin.version) for wheel in listing.wheels) and not _files(listing, pin.version):
            yield Change(
                kind=GONE,
                table=f"framework.{framework.name}.build",
                label=build_label(build.release, build.tag, build.platforms),
                key=_key_of(build),
                because=f"it needs {name} {pin.version}, which is no longer listed",
                place=listing.place,
                shrinks=True,
            )


def _same(wheel: Wheel, version: str) -> bool:
    return f"{wheel.version}{wheel.local}" == version or (not wheel.local and wheel.version == version)
