"""Decides what the listings of today change about a framework's rows. Pure: everything that was read is handed in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from envkit.matrix.reader import natural
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
    package_of,
    served,
    serves,
)
from envkit.matrix.refresh.listings import ANY, PYPI, Listing, Wheel, normal, python_key, release_key
from envkit.matrix.refresh.metadata import Metadata
from envkit.model import Build, Evidence, Framework, FrameworkRelease, LibraryRelease, Matrix

# An index that lacks more than this part of what the matrix has from it has not lost some rows: it is not itself today.
_SUDDEN = 1 / 3
_SUDDEN_LEAST = 3


@dataclass(frozen=True, kw_only=True)
class Upstream:
    """What was read for one framework."""

    listings: Mapping[tuple[str, str], Listing]  # by index (as the matrix names it) and package
    metadata: Mapping[tuple[str, str], Metadata] = field(default_factory=dict)  # by package and version, of PyPI
    carriers: Mapping[str, str] = field(default_factory=dict)  # package without code of its own -> the one that has it

    def listing(self, index: str, package: str) -> Listing | None:
        """A listing that was read; None where it could not be."""
        return self.listings.get((index, normal(package)))


# ---- what has to be read -----------------------------------------------------------------------------------------


def pages_of(framework: Framework) -> tuple[tuple[str, str], ...]:
    """The pages that a framework's rows rest on: index and package."""
    pages: dict[tuple[str, str], None] = {(PYPI, normal(framework.package)): None}
    for build in framework.builds:
        index = index_of(framework, build)
        if build.published is False or index == "vendor":
            continue
        pages[index, normal(package_of(framework, build))] = None
        for name, pin in build.packages.items():
            if (where := pin.index or index) != "vendor":
                pages[where, normal(name)] = None
    for name in framework.companions:
        pages[PYPI, normal(name)] = None
    return tuple(pages)


def sudden_loss(framework: Framework, page: tuple[str, str], listing: Listing) -> str:
    """Why a listing must not be believed: it lacks too much of what the matrix has from it; "" where it may be."""
    known = _versions_from(framework, page)
    if not known:
        return ""
    there = {wheel.version for wheel in listing.wheels}
    lost = [version for version in known if version not in there]
    if not listing.known:
        return f"says that it knows no {page[1]}, of which the matrix has {_count(len(known), 'release')}"
    if len(lost) >= min(_SUDDEN_LEAST, len(known)) and len(lost) > _SUDDEN * len(known):
        return f"shrank suddenly: {len(lost)} of {_count(len(known), 'release')} that the matrix has from it are no longer listed"
    return ""


def _versions_from(framework: Framework, page: tuple[str, str]) -> set[str]:
    """The versions of a package that the matrix takes from a page."""
    index, name = page
    found: set[str] = set()
    if index == PYPI and name == normal(framework.package) and framework.index == PYPI:
        found |= {release.version for release in framework.releases}
    for build in framework.builds:
        if not build.published:
            continue
        own = index_of(framework, build)
        if (own, normal(package_of(framework, build))) == page:
            found |= {release.version for release in served(framework, build)}
        found |= {pin.version for word, pin in build.packages.items() if (pin.index or own, normal(word)) == page}
    if index == PYPI and name in map(normal, framework.companions):
        for release in framework.releases:
            for word, versions in release.companions.items():
                if normal(word) == name:
                    found.update(versions)
    return found


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def fresh(framework: Framework, listing: Listing | None) -> tuple[str, ...]:
    """The releases that a listing has and the matrix lacks, and that came after those that it has. Sorted."""
    if listing is None or not framework.releases:
        return ()
    known = {release.version for release in framework.releases}
    newest = max(known, key=release_key)
    latest = max((release.date for release in framework.releases), default="")
    return tuple(
        version
        for version in _finals(listing)
        if version not in known
        and (release_key(version) > release_key(newest) or (latest and _date_of(listing, version) > latest))
    )


def left_out(framework: Framework, listing: Listing | None) -> tuple[str, ...]:
    """The older releases that a listing has between those of the matrix."""
    if listing is None or not framework.releases:
        return ()
    known = {release.version for release in framework.releases}
    oldest = release_key(min(known, key=release_key))
    skipped = {*known, *fresh(framework, listing)}
    return tuple(version for version in _finals(listing) if version not in skipped and release_key(version) > oldest)


def _finals(listing: Listing) -> list[str]:
    """The final releases that are not withdrawn, oldest first; all, where a project has nothing but previews."""
    versions = {wheel.version for wheel in listing.wheels if not wheel.file.yanked}
    finals = {version for version in versions if not release_key(version).is_prerelease}
    return sorted(finals or versions, key=release_key)


def _date_of(listing: Listing, version: str) -> str:
    return min((wheel.file.date for wheel in listing.wheels if wheel.version == version and wheel.file.date), default="")


def metadata_wanted(framework: Framework, upstream: Upstream) -> tuple[tuple[str, str], ...]:
    """The wheels (package and version, on PyPI) whose metadata the comparison needs."""
    wanted: dict[tuple[str, str], None] = {}
    own = upstream.listing(PYPI, framework.package)
    new = fresh(framework, own)
    for version in new:
        wanted[normal(framework.package), version] = None
    for name in (*framework.companions, *_partner_packages(framework)):
        listing = upstream.listing(PYPI, name)
        known = _versions_from(framework, (PYPI, normal(name)))
        for version in _newer(listing, known, latest=6 if new else 0):
            wanted[normal(name), version] = None
    return tuple(wanted)


def _partner_packages(framework: Framework) -> tuple[str, ...]:
    """The further packages that builds take from PyPI."""
    found: dict[str, None] = {}
    for build in framework.builds:
        for name, pin in build.packages.items():
            if (pin.index or index_of(framework, build)) == PYPI and build.published is not False:
                found[name] = None
    return tuple(name for name in found if name not in framework.companions)


def _newer(listing: Listing | None, known: Iterable[str], latest: int = 0) -> tuple[str, ...]:
    """The releases that came after those that are known, and the `latest` ones in any case."""
    if listing is None or not (known := set(known)):
        return ()
    finals = _finals(listing)
    newest = release_key(max(known, key=release_key))
    day = max((_date_of(listing, version) for version in known), default="")
    return tuple(
        version
        for version in finals
        if (version not in known and (release_key(version) > newest or (day and _date_of(listing, version) > day)))
        or version in finals[-latest or len(finals) :]
    )


# ---- the comparison ----------------------------------------------------------------------------------------------


def compare(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> list[Change]:
    """Every change of a framework's rows; a row that two pages would add is proposed once."""
    found = [
        *_releases(framework, upstream, book),
        *_companions(framework, upstream, book),
        *_builds(matrix, framework, upstream, book),
        *_new_on_indexes(matrix, framework, upstream, book),
        *_new_on_pypi(matrix, framework, upstream, book),
        *_new_partners(matrix, framework, upstream, book),
    ]
    # What is to be looked at differs by its reason; of a row that is to be added or changed there is one.
    once = {(change.kind, change.table, change.label, change.because if change.kind == LOOK else ""): change for change in found}
    return list(once.values())


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """What the wheels of one build say together."""

    pythons: tuple[str, ...]  # () where they serve any
    floor: str  # glibc or macOS that all wheels but free-threaded ones are content with
    floors: frozenset[str]
    since: str = ""  # abi3: this Python and newer

    @property
    def lower(self) -> bool:
        """Whether some wheels are content with less."""
        return any(_parts(floor) < _parts(self.floor) for floor in self.floors)


def _parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def _on(wheels: Iterable[Wheel], platform: str) -> tuple[Wheel, ...]:
    return tuple(wheel for wheel in wheels if platform in wheel.platforms or ANY in wheel.platforms)


def _see(wheels: Sequence[Wheel], platform: str) -> _Seen:
    own = [wheel for wheel in wheels if platform in wheel.platforms]
    floors = frozenset(wheel.platforms[platform] for wheel in own if wheel.platforms[platform])
    plain = [wheel.platforms[platform] for wheel in own if not wheel.python.endswith("t")] or list(floors)
    since = [wheel.python for wheel in wheels if wheel.or_newer]
    fixed = not since and all(wheel.python for wheel in wheels)
    return _Seen(
        pythons=tuple(sorted({wheel.python for wheel in wheels}, key=python_key)) if fixed and wheels else (),
        floor=max(plain, key=_parts, default=""),
        floors=floors,
        since=min(since, key=python_key) if since else "",
    )


def _carrier(framework: Framework, upstream: Upstream, package: str) -> Listing | None:
    """The listing of the package that holds the code: a framework's own, or that of its pinned half (jaxlib for jax)."""
    return upstream.listing(PYPI, upstream.carriers.get(normal(package), package))


def _pythons(upstream: Upstream, framework: Framework, version: str) -> tuple[str, ...]:
    """The Pythons that a release has wheels for on any platform that people compute on."""
    listing = _carrier(framework, upstream, framework.package)
    wheels = listing.of(version) if listing else ()
    if not wheels or not all(wheel.python for wheel in wheels) or any(wheel.or_newer for wheel in wheels):
        return ()
    return tuple(sorted({wheel.python for wheel in wheels}, key=python_key))


def _releases(framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """Releases on PyPI: new ones, vanished ones, withdrawn ones, other Pythons."""
    listing = upstream.listing(PYPI, framework.package)
    if listing is None or not listing.known:
        return
    source = book.of(PYPI, framework.package)
    table = f"framework.{framework.name}.release"
    for version in fresh(framework, listing):
        yield from _new_release(framework, upstream, listing, version, table, source)
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
        found = _pythons(upstream, framework, release.version)
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


def _new_release(
    framework: Framework, upstream: Upstream, listing: Listing, version: str, table: str, source: str
) -> Iterator[Change]:
    pythons = _pythons(upstream, framework, version)
    before = _before(framework, version)
    if not pythons:
        pythons = tuple(word for word in (before.pythons if before else ()))
        because = "new; its wheels do not name Pythons: those of the release before are taken"
    else:
        because = "new"
    if not pythons:
        return
    row: dict[str, Any] = {"version": version}
    if date := _date_of(listing, version):
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
    for candidate in reversed(_finals(listing)):
        metadata = upstream.metadata.get((normal(name), candidate))
        allowed = metadata.allows(framework.package, version) if metadata else None
        # One that says nothing of the framework is kept where it served the release before.
        if allowed or (allowed is None and before and candidate in before.companions.get(name, ())):
            found.append(candidate)
    return tuple(found)


def _companions(framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """New releases of companions for the framework's known releases: one change a release."""
    added: dict[str, dict[str, list[str]]] = {}
    because: dict[str, list[str]] = {}
    places: dict[str, str] = {}
    for name in framework.companions:
        listing = upstream.listing(PYPI, name)
        known = _versions_from(framework, (PYPI, normal(name)))
        for version in _newer(listing, known):
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
        yield from _build(framework, build, upstream, listing, book.of(index, package))
        yield from _pins(framework, build, upstream, index)


def _build(framework: Framework, build: Build, upstream: Upstream, listing: Listing, source: str) -> Iterator[Change]:
    table, key = f"framework.{framework.name}.build", _key_of(build)
    label = build_label(build.release, build.tag, build.platforms)
    releases = served(framework, build)
    local = local_of(build)
    by_version = {release.version: listing.of(release.version, local) for release in releases}
    missing = {
        platform: [version for version, wheels in by_version.items() if not _on(wheels, platform)] for platform in build.platforms
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
    if build.published is None:
        now["published"], was["published"] = None, "unknown"
        because.append("its wheels are listed now")
        if build.note:
            now["note"], was["note"] = None, build.note
    if build.evidence is Evidence.CLAIMED:
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
    carried: dict[str, Sequence[Wheel]] = dict(by_version)
    carrier = upstream.carriers.get(normal(package_of(framework, build)))
    if carrier and (listing := upstream.listing(PYPI, carrier)) is not None:
        carried = {version: listing.of(version) for version in by_version}
    seen = [_see(_on(wheels, platform), platform) for platform in build.platforms for wheels in carried.values() if wheels]
    seen = [each for each in seen if each.pythons or each.floors]
    if not seen:
        return now, was, because
    partners = bool(build.packages)
    if all(each.pythons for each in seen) and not partners:
        found = tuple(sorted({python for each in seen for python in each.pythons}, key=python_key))
        releases = {release.version: release for release in served(framework, build)}
        if build.pythons is not None:
            differs = set(found) != set(build.pythons)
        else:
            differs = any(
                set(each.pythons) != set(releases[version].pythons)
                for version, wheels in carried.items()
                for platform in build.platforms
                if (each := _see(_on(wheels, platform), platform)).pythons
            )
        if differs:
            expected = set(build.pythons or {python for release in releases.values() for python in release.pythons})
            now["pythons"], was["pythons"] = list(found), sorted(expected, key=python_key)
            lost = sorted(expected - set(found), key=python_key)
            because.append(f"no wheels for {' '.join(lost)}" if lost else "wheels for other Pythons")
    word, value = ("macos", build.macos) if build.platforms[0].startswith("macos/") else ("glibc", build.glibc)
    floors = {floor for each in seen for floor in each.floors}
    floor = max((each.floor for each in seen), key=_parts)
    if floors and (value is None or not any(_parts(str(value)) == _parts(one) for one in floors)) and not partners:
        now[word], was[word] = floor, str(value) if value else None
        because.append(f"its wheels name {word} {' and '.join(sorted(floors, key=_parts))}")
    return now, was, because


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


# ---- builds that the matrix lacks --------------------------------------------------------------------------------


def _platforms_of(matrix: Matrix) -> set[str]:
    return {platform for framework in matrix.frameworks.values() for build in framework.builds for platform in build.platforms}


def _seen_row(seen: _Seen, release: FrameworkRelease | None, platform: str) -> dict[str, Any]:
    """The fields of a row that wheels tell."""
    row: dict[str, Any] = {}
    if seen.pythons and (release is None or set(seen.pythons) != set(release.pythons)):
        row["pythons"] = list(seen.pythons)
    if seen.floor and platform.startswith("linux/"):
        row["glibc"] = seen.floor
    return row


def _floor_note(seen: _Seen, platform: str) -> list[str]:
    if not seen.lower:
        return []
    word = "macOS" if platform.startswith("macos/") else "glibc"
    return [f"the wheels of some Pythons are content with {word} {min(seen.floors, key=_parts)}"]


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


def _new_on_indexes(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
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
                seen = _see(_on(wheels, platform), platform)
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


def _new_on_pypi(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """Builds of new releases that PyPI serves: what the release before had from there, with the facts of the new wheels."""
    main = upstream.listing(PYPI, framework.package)
    known = _platforms_of(matrix)
    for version in fresh(framework, main):
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
            seen = _see(_on(main.of(version), platform), platform)
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
    return FrameworkRelease(version=version, pythons=_pythons(upstream, framework, version))


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
    done: set[tuple[str, tuple[str, ...]]] = set()
    # Of several releases of one backend, the newest is the one that a new build may go with.
    for build in sorted(rows, key=lambda row: natural(row.tag), reverse=True):
        package = package_of(framework, build)
        listing = upstream.listing(PYPI, package)
        backend = backend_of(matrix, build.tag)
        if local_of(build) or listing is None or (backend, build.platforms) in done:
            continue
        if index_of(framework, build) != PYPI and not all(platform.startswith("macos/") for platform in build.platforms):
            continue
        if any(_covered(framework, build.tag, platform, version) for platform in build.platforms):
            continue
        pins = _new_pins(framework, build, upstream, version)
        carrier = _carrier(framework, upstream, package) or listing
        wheels = listing.of(version)
        if pins is None or not all(_on(wheels, platform) for platform in build.platforms):
            continue
        metadata = upstream.metadata.get((normal(package), version))
        if build.extras and "{" not in build.extras and metadata and not {*build.extras.split(",")} <= set(metadata.extras):
            continue
        done.add((backend, build.platforms))
        seen = [_see(_on(carrier.of(version), platform), platform) for platform in build.platforms]
        floor = max((each.floor for each in seen), key=_parts)
        several = backend in matrix.backends and len(matrix.backends[backend].releases) > 1
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


def _new_pins(framework: Framework, build: Build, upstream: Upstream, version: str) -> dict[str, Any] | None:
    """The build's further packages for a new release: those whose metadata pins it, or that bear its version; None: not there."""
    pins: dict[str, Any] = {}
    for name, pin in build.packages.items():
        listing = upstream.listing(pin.index or index_of(framework, build), name)
        if listing is None:
            return None
        found = [
            candidate
            for candidate in reversed(_finals(listing))
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


def _new_partners(matrix: Matrix, framework: Framework, upstream: Upstream, book: SourceBook) -> Iterator[Change]:
    """New releases of the packages that builds take besides the framework (torch-npu, torch-directml), for known releases."""
    releases = {release.version: release for release in framework.releases}
    new = fresh(framework, upstream.listing(PYPI, framework.package))
    for name in _partner_packages(framework):
        listing = upstream.listing(PYPI, name)
        known = _versions_from(framework, (PYPI, normal(name)))
        for version in _newer(listing, known):
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
                    because=f"new on {_date_of(listing, version) or 'the index'}; "
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
        there = [platform for platform in build.platforms if _on(wheels, platform)]
        if several or not there or any(_covered(framework, build.tag, platform, release.version) for platform in there):
            yield Change(
                kind=LOOK,
                table=f"framework.{framework.name}.build",
                label=f"{name} {version}",
                because=f"new on {_date_of(listing, version) or 'the index'} for {framework.package} {release.version}; its "
                f"metadata does not say which release of {title} it goes with",
                place=listing.place,
            )
            return
        seen = _see(_on(wheels, there[0]), there[0])
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
    finals = _finals(listing)
    known = {row.version for row in rows}
    if finals and finals[-1] not in known and all(release_key(finals[-1]) > release_key(row.version) for row in rows):
        wheels = listing.of(finals[-1])
        seen = _see([wheel for wheel in wheels if "linux/x86_64" in wheel.platforms], "linux/x86_64")
        pythons = tuple(sorted({wheel.python for wheel in wheels if wheel.python}, key=python_key))
        if pythons:
            new = {
                "version": finals[-1],
                "pythons": list(pythons),
                **({"glibc": seen.floor} if seen.floor else {}),
                "source": source,
            }
            changes.append(
                Change(
                    kind=NEW,
                    table=table,
                    label=finals[-1],
                    key={"version": finals[-1]},
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
