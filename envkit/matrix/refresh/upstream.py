"""What was read of a framework upstream, and plain questions about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from envkit.matrix.refresh.changes import index_of, package_of, served
from envkit.matrix.refresh.listings import ANY, PYPI, Listing, Wheel, normal, python_key, release_key
from envkit.matrix.refresh.metadata import Metadata
from envkit.model import Framework

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

    def whole(self, framework: Framework) -> Listing | None:
        """PyPI's listings of all names that a framework is published under, as one; None where one of them could not be read."""
        read = [self.listing(PYPI, name) for name in own_packages(framework)]
        listings = [listing for listing in read if listing is not None and listing.known]
        if not listings or len(read) > sum(listing is not None for listing in read):
            return None
        files = tuple(file for listing in listings for file in listing.files)
        return replace(listings[0], files=files, wheels=tuple(wheel for listing in listings for wheel in listing.wheels))


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


def own_packages(framework: Framework) -> tuple[str, ...]:
    """The names under which PyPI serves a framework: its own, and those of builds (onnxruntime-gpu)."""
    names = [build.package for build in framework.builds if build.package and index_of(framework, build) == PYPI]
    return tuple(dict.fromkeys([framework.package, *names]))


def sudden_loss(framework: Framework, page: tuple[str, str], listing: Listing) -> str:
    """Why a listing must not be believed: it lacks too much of what the matrix has from it; "" where it may be."""
    known = versions_from(framework, page)
    if not known:
        return ""
    there = {wheel.version for wheel in listing.wheels}
    lost = [version for version in known if version not in there]
    if not listing.known:
        return f"says that it knows no {page[1]}, of which the matrix has {_count(len(known), 'release')}"
    if len(lost) >= min(_SUDDEN_LEAST, len(known)) and len(lost) > _SUDDEN * len(known):
        return f"shrank suddenly: {len(lost)} of {_count(len(known), 'release')} that the matrix has from it are no longer listed"
    return ""


def versions_from(framework: Framework, page: tuple[str, str], *, unconfirmed: bool = False) -> set[str]:
    """The versions of a package that the matrix takes from a page; with those of builds that nobody has confirmed, if wanted."""
    index, name = page
    found: set[str] = set()
    for build in framework.builds:
        if build.published is False or not (build.published or unconfirmed):
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
        for version in finals(listing)
        if version not in known
        and (release_key(version) > release_key(newest) or (latest and date_of(listing, version) > latest))
    )


def left_out(framework: Framework, listing: Listing | None) -> tuple[str, ...]:
    """The older releases that a listing has between those of the matrix."""
    if listing is None or not framework.releases:
        return ()
    known = {release.version for release in framework.releases}
    oldest = release_key(min(known, key=release_key))
    skipped = {*known, *fresh(framework, listing)}
    return tuple(version for version in finals(listing) if version not in skipped and release_key(version) > oldest)


def finals(listing: Listing) -> list[str]:
    """The final releases that are not withdrawn, oldest first; all, where a project has nothing but previews."""
    versions = {wheel.version for wheel in listing.wheels if not wheel.file.yanked}
    finals = {version for version in versions if not release_key(version).is_prerelease}
    return sorted(finals or versions, key=release_key)


def date_of(listing: Listing, version: str) -> str:
    return min((wheel.file.date for wheel in listing.wheels if wheel.version == version and wheel.file.date), default="")


def metadata_wanted(framework: Framework, upstream: Upstream) -> tuple[tuple[str, str], ...]:
    """The wheels (package and version, on PyPI) whose metadata the comparison needs."""
    wanted: dict[tuple[str, str], None] = {}
    new = fresh(framework, upstream.whole(framework))
    for version in new:
        for name in own_packages(framework):
            wanted[normal(name), version] = None
    for name in (*framework.companions, *partner_packages(framework)):
        listing = upstream.listing(PYPI, name)
        known = versions_from(framework, (PYPI, normal(name)), unconfirmed=True)
        for version in newer(listing, known, latest=6 if new else 0):
            wanted[normal(name), version] = None
    return tuple(wanted)


def partner_packages(framework: Framework) -> tuple[str, ...]:
    """The further packages that builds take from PyPI."""
    found: dict[str, None] = {}
    for build in framework.builds:
        for name, pin in build.packages.items():
            if (pin.index or index_of(framework, build)) == PYPI and build.published is not False:
                found[name] = None
    return tuple(name for name in found if name not in framework.companions)


def newer(listing: Listing | None, known: Iterable[str], latest: int = 0) -> tuple[str, ...]:
    """The releases that came after those that are known, and the `latest` ones in any case."""
    if listing is None or not (known := set(known)):
        return ()
    listed = finals(listing)
    newest = release_key(max(known, key=release_key))
    day = max((date_of(listing, version) for version in known), default="")
    return tuple(
        version
        for version in listed
        if (version not in known and (release_key(version) > newest or (day and date_of(listing, version) > day)))
        or version in listed[max(0, len(listed) - latest) :]
    )


# ---- what wheels say together ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the wheels of one build say together."""

    pythons: tuple[str, ...]  # () where they serve any
    floor: str  # glibc or macOS that all wheels but free-threaded ones are content with
    floors: frozenset[str]
    since: str = ""  # abi3: this Python and newer

    @property
    def lower(self) -> bool:
        """Whether some wheels are content with less."""
        return any(parts(floor) < parts(self.floor) for floor in self.floors)


def parts(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def on(wheels: Iterable[Wheel], platform: str) -> tuple[Wheel, ...]:
    return tuple(wheel for wheel in wheels if platform in wheel.platforms or ANY in wheel.platforms)


def see(wheels: Sequence[Wheel], platform: str) -> Seen:
    own = [wheel for wheel in wheels if platform in wheel.platforms]
    floors = frozenset(wheel.platforms[platform] for wheel in own if wheel.platforms[platform])
    # Of several wheels for one Python, the one that asks for least serves most; free-threaded ones are taken by nobody unasked.
    least: dict[str, str] = {}
    for wheel in own:
        known = least.get(wheel.python)
        if known is None or parts(wheel.platforms[platform]) < parts(known):
            least[wheel.python] = wheel.platforms[platform]
    plain = [floor for python, floor in least.items() if not python.endswith("t")] or list(least.values())
    since = [wheel.python for wheel in wheels if wheel.or_newer]
    fixed = not since and all(wheel.python for wheel in wheels)
    return Seen(
        pythons=tuple(sorted({wheel.python for wheel in wheels}, key=python_key)) if fixed and wheels else (),
        floor=max(plain, key=parts, default=""),
        floors=floors,
        since=min(since, key=python_key) if since else "",
    )


def carrier_of(framework: Framework, upstream: Upstream, package: str) -> Listing | None:
    """The listing of the package that holds the code: a framework's own, or that of its pinned half (jaxlib for jax)."""
    return upstream.listing(PYPI, upstream.carriers.get(normal(package), package))


def pythons_of(upstream: Upstream, framework: Framework, version: str) -> tuple[str, ...]:
    """The Pythons that a release has wheels for, under any of its names and on any platform; () where wheels name none."""
    listings = [carrier_of(framework, upstream, name) for name in own_packages(framework)]
    wheels = [wheel for listing in listings if listing for wheel in listing.of(version)]
    if not wheels or not all(wheel.python for wheel in wheels) or any(wheel.or_newer for wheel in wheels):
        return ()
    return tuple(sorted({wheel.python for wheel in wheels}, key=python_key))
