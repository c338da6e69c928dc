"""The refresh as a whole: reads the places that the matrix rests on, compares, and writes what is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from envkit.errors import StepFailed, UsageError
from envkit.matrix.refresh import upstream as decide
from envkit.matrix.refresh.changes import LOOK, Change, SourceBook, SourceRow
from envkit.matrix.refresh.compare import compare
from envkit.matrix.refresh.drivers import compare_drivers, newest_of_branches, read_drivers
from envkit.matrix.refresh.images import Image, Seen, compare_images, images_of, look, parse_image
from envkit.matrix.refresh.listings import ANY, PYPI, File, Listing, normal, page_of, read_listing, release_key
from envkit.matrix.refresh.measuring import Measured, measure_all
from envkit.matrix.refresh.metadata import Metadata, read_metadata
from envkit.matrix.refresh.net import Distrusted, Net, Settings, Trouble, Unreachable, all_at_once, shown
from envkit.matrix.refresh.propose import compare_library
from envkit.matrix.refresh.upstream import Upstream
from envkit.model import Dotted, DriverList, Framework, Matrix

LIBRARIES, IMAGES, DRIVERS = "libraries", "images", "drivers"

READ, UNREACHABLE, REFUSED, NONE = "read", "unreachable", "refused", "none"


@dataclass(frozen=True, kw_only=True)
class Options:
    """What is asked of a refresh."""

    only: tuple[str, ...] = ()  # frameworks, "libraries", "images", "drivers"; (): all
    measure: bool = False
    force: bool = False  # believe a listing that shrank suddenly
    limit: float = 30.0  # seconds for an answer


@dataclass(frozen=True, kw_only=True)
class Place:
    """One place that was asked, and what came of it."""

    url: str
    state: str  # read, unreachable, refused, none (it says that it has no such project)
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a refresh found."""

    changes: tuple[Change, ...]
    places: tuple[Place, ...]
    sources: tuple[SourceRow, ...] = ()  # the rows of [source] that were read again
    measured: tuple[Measured, ...] = ()
    drivers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # backend -> branch -> its newest driver
    left_out: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # framework -> older releases that it never had
    seconds: float = 0.0
    bytes_read: int = 0
    requests: int = 0

    @property
    def refused(self) -> tuple[Place, ...]:
        """The places whose answers must not be believed."""
        return tuple(place for place in self.places if place.state == REFUSED)

    @property
    def unreachable(self) -> tuple[Place, ...]:
        """The places that could not be asked."""
        return tuple(place for place in self.places if place.state == UNREACHABLE)

    @property
    def read(self) -> tuple[Place, ...]:
        """The places that answered."""
        return tuple(place for place in self.places if place.state in (READ, NONE))

    @property
    def writable(self) -> tuple[Change, ...]:
        """The changes that can be written; the others are for a person to decide."""
        return tuple(change for change in self.changes if change.kind != LOOK)

    @property
    def shrinking(self) -> tuple[Change, ...]:
        """The changes that take something away."""
        return tuple(change for change in self.changes if change.shrinks)


def choices(matrix: Matrix) -> tuple[str, ...]:
    """What `only` may name."""
    return (*matrix.frameworks, LIBRARIES, IMAGES, DRIVERS)


# ---- reading and comparing ---------------------------------------------------------------------------------------


def refresh(
    matrix: Matrix,
    settings: Settings,
    options: Options,
    tell: Callable[[str], None] = lambda _: None,
    net: Net | None = None,
) -> Report:
    """Compares the matrix with what upstream has today; changes nothing. Raises UsageError for an unknown name in `only`."""
    from envkit.matrix.fields import meant

    for name in options.only:
        if name not in choices(matrix):
            raise UsageError(
                f"unknown framework '{name}'{meant(name, choices(matrix))}", hint=f"one of: {', '.join(choices(matrix))}"
            )
    begin = time.monotonic()
    net = net or Net(settings, limit=options.limit)
    run = _Run(matrix, settings, options, net)
    frameworks = [row for name, row in matrix.frameworks.items() if not options.only or name in options.only]
    libraries = list(matrix.libraries) if not options.only or LIBRARIES in options.only else []
    tell(f"reads the listings of {', '.join([*(row.name for row in frameworks), *libraries])}")
    run.read_pages(frameworks, libraries)
    changes: list[Change] = []
    left_out: dict[str, tuple[str, ...]] = {}
    upstreams: dict[str, Upstream] = {}
    for framework in frameworks:
        upstream = upstreams[framework.name] = run.upstream(framework)
        changes += compare(matrix, framework, upstream, run.book)
        if out := decide.left_out(framework, upstream.whole(framework)):
            left_out[framework.name] = out
    for name in libraries:
        listing = run.listings.get((PYPI, normal(name)))
        if listing is not None and listing.known:
            changes += compare_library(name, matrix.libraries[name], listing, run.book)
    if not options.only or IMAGES in options.only:
        changes += run.images()
    drivers: dict[str, Mapping[str, str]] = {}
    if not options.only or DRIVERS in options.only:
        changes += run.drivers(drivers)
    measured: list[Measured] = []
    if options.measure:
        measured, changes = measure_all(matrix, upstreams, changes, net, run.book, tell)
    return Report(
        changes=tuple(changes),
        measured=tuple(measured),
        places=tuple(run.places.values()),
        sources=_needed(run.book, changes, matrix),
        drivers=drivers,
        left_out=left_out,
        seconds=time.monotonic() - begin,
        bytes_read=net.bytes_read,
        requests=net.requests,
    )


def _needed(book: SourceBook, changes: Iterable[Change], matrix: Matrix) -> tuple[SourceRow, ...]:
    """The sources that were read: those that the matrix has, and those that new rows mention."""
    used: set[str] = set()
    for change in changes:
        for named in (change.row.get("source"), change.now.get("source")):
            used.update([named] if isinstance(named, str) else named or ())
    return tuple(row for word, row in book.read.items() if word in matrix.sources or word in used)


class _Run:
    def __init__(self, matrix: Matrix, settings: Settings, options: Options, net: Net) -> None:
        self.matrix = matrix
        self.settings = settings
        self.options = options
        self.net = net
        self.book = SourceBook(matrix)
        self.listings: dict[tuple[str, str], Listing] = {}
        self.places: dict[str, Place] = {}

    def note(self, url: str, state: str, why: str = "") -> None:
        """Notes what came of a place; the first trouble with it stays."""
        known = self.places.get(url)
        if known is None or known.state in (READ, NONE):
            self.places[url] = Place(url=url, state=state, why=why)

    def trouble(self, url: str, trouble: Trouble) -> None:
        """Notes why a place gave nothing."""
        self.note(url, UNREACHABLE if isinstance(trouble, Unreachable) else REFUSED, str(trouble))

    def read_pages(self, frameworks: Sequence[Framework], libraries: Sequence[str]) -> None:
        """Reads every listing at once, and leaves out what must not be believed."""
        pages = [page for framework in frameworks for page in decide.pages_of(framework)]
        pages += [(PYPI, normal(name)) for name in libraries]
        self._read(dict.fromkeys(pages))
        for framework in frameworks:
            for page in decide.pages_of(framework):
                listing = self.listings.get(page)
                loss = decide.sudden_loss(framework, page, listing) if listing else ""
                if listing and loss and not self.options.force:
                    del self.listings[page]
                    self.note(listing.place, REFUSED, loss)

    def _read(self, pages: Iterable[tuple[str, str]]) -> None:
        wanted = [page for page in pages if page not in self.listings]
        found = all_at_once([(page, _reader(self.net, self.settings, page)) for page in wanted])
        for page, listing in found.items():
            if isinstance(listing, Trouble):
                self.trouble(_page_url(self.settings, page), listing)
            else:
                self.listings[page] = listing
                self.note(listing.place, READ if listing.known else NONE, "" if listing.known else "has no such project")

    def images(self) -> list[Change]:
        """What the registries say of the images that rows name."""
        bases = {row.container.base for row in self.matrix.schemes.values() if row.container}
        bases |= {row.container.vendor_base for row in self.matrix.schemes.values() if row.container}
        # Of the many images that single builds name, newer ones come with newer builds.
        jobs = [
            (reference, _looker(self.net, self.settings, parse_image(reference), tags=reference in bases))
            for reference in images_of(self.matrix)
        ]
        seen: dict[str, Seen] = {}
        for reference, found in all_at_once(jobs).items():
            image = parse_image(reference)
            place = f"{shown(self.settings.mirrored(image.url))}:{image.tag}"
            if isinstance(found, Trouble):
                self.trouble(place, found)
            else:
                seen[reference] = found
                self.note(place, READ if found.there else NONE, "" if found.there else "has no such tag")
        return list(compare_images(self.matrix, seen))

    def drivers(self, newest: dict[str, Mapping[str, str]]) -> list[Change]:
        """What the vendors' lists have; the newest driver of each branch goes into `newest`."""
        rows = [(backend, row) for backend in self.matrix.backends.values() for row in backend.driver_lists]
        jobs = [(row.url, _driver_reader(self.net, self.settings, row)) for _, row in rows]
        answers = all_at_once(jobs)
        changes: list[Change] = []
        for backend, row in rows:
            found = answers[row.url]
            place = shown(self.settings.mirrored(row.url))
            if isinstance(found, Trouble):
                self.trouble(place, found)
                continue
            self.note(place, READ)
            versions = {**newest.get(backend.name, {}), **newest_of_branches(backend, found)}
            newest[backend.name] = versions
            changes += compare_drivers(backend, row, found, self.book, place)
        return list({(change.table, change.label): change for change in changes}.values())

    def upstream(self, framework: Framework) -> Upstream:
        """All that was read of a framework, its metadata and its other halves included."""
        own = {page: self.listings[page] for page in decide.pages_of(framework) if page in self.listings}
        upstream = Upstream(listings=own)
        carriers = self._carriers(framework, upstream)
        own |= {(PYPI, name): self.listings[PYPI, name] for name in carriers.values() if (PYPI, name) in self.listings}
        upstream = Upstream(listings=own, carriers=carriers)
        wanted = decide.metadata_wanted(framework, upstream)
        return replace(upstream, metadata=self._metadata(upstream, wanted))

    def _carriers(self, framework: Framework, upstream: Upstream) -> dict[str, str]:
        """Where a framework's wheels hold no code: the package that it requires in its own version and that does."""
        listing = upstream.listing(PYPI, framework.package)
        if listing is None or not listing.wheels:
            return {}
        newest = max((wheel.version for wheel in listing.wheels), key=release_key)
        if any(set(wheel.platforms) != {ANY} or wheel.python for wheel in listing.of(newest)):
            return {}
        read = self._metadata(upstream, [(normal(framework.package), newest)])
        halves = [name for metadata in read.values() for name in metadata.halves()]
        self._read((PYPI, name) for name in halves)
        for name in halves:
            other = self.listings.get((PYPI, name))
            if other and any(wheel.python for wheel in other.wheels):
                return {normal(framework.package): name}
        return {}

    def _metadata(self, upstream: Upstream, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Metadata]:
        jobs = []
        for name, version in wanted:
            listing = upstream.listing(PYPI, name)
            if listing and (file := _smallest(listing, version)):
                jobs.append(((name, version), _metadata_reader(self.net, file)))
        found: dict[tuple[str, str], Metadata] = {}
        for key, metadata in all_at_once(jobs).items():
            if isinstance(metadata, Trouble):
                self.trouble(f"metadata of {key[0]} {key[1]}", metadata)
            elif metadata.version != key[1] and normal(metadata.version) != normal(key[1]):
                self.trouble(f"metadata of {key[0]} {key[1]}", Distrusted(f"says that it is version {metadata.version[:40]}"))
            else:
                found[key] = metadata
        return found


def _driver_reader(net: Net, settings: Settings, row: DriverList) -> Callable[[], tuple[Dotted, ...]]:
    return lambda: read_drivers(net, row, settings.mirrored(row.url))


def _looker(net: Net, settings: Settings, image: Image, *, tags: bool) -> Callable[[], Seen]:
    return lambda: look(net, settings, image, tags=tags)


def _reader(net: Net, settings: Settings, page: tuple[str, str]) -> Callable[[], Listing]:
    return lambda: read_listing(net, page[0], settings.mirrored(page[0]), page[1])


def _metadata_reader(net: Net, file: File) -> Callable[[], Metadata]:
    return lambda: read_metadata(net, file)


def _page_url(settings: Settings, page: tuple[str, str]) -> str:
    return shown(page_of(settings.mirrored(page[0]), page[1]))


def _smallest(listing: Listing, version: str) -> File | None:
    """The wheel whose metadata is read: Linux's, since that one names the CUDA it needs."""
    wheels = listing.of(version)
    linux = [wheel for wheel in wheels if "linux/x86_64" in wheel.platforms] or list(wheels)
    return min((wheel.file for wheel in linux), key=lambda file: (file.size or 0, file.name), default=None)


# ---- writing -----------------------------------------------------------------------------------------------------


def today() -> str:
    """The date that sources are noted as read on (UTC)."""
    return datetime.now(UTC).date().isoformat()


def write(path: Path, before: bytes, report: Report, *, force: bool = False, day: str = "") -> str:
    """Writes a report's changes into the matrix at `path`, whole or not at all; gives the new text.

    `before` is the file's content when it was read. Raises StepFailed where an answer must not be believed, where the matrix
    would shrink and `force` is not set, where the file has changed since, or where the new matrix would not pass the check.
    """
    from envkit.files import write_whole
    from envkit.matrix.refresh.edit import apply

    if report.refused:
        reasons = [f"  {place.url}: {place.why}" for place in report.refused]
        raise StepFailed("\n".join(["refused: these answers are not to be believed; nothing is written", *reasons]))
    if report.shrinking and not force:
        rows = [f"  {change.table} {change.label}: {change.because}" for change in report.shrinking]
        raise StepFailed(
            "\n".join(["refused: the matrix would shrink; nothing is written", *rows]),
            hint="look at these rows upstream; --force takes them away",
        )
    if path.read_bytes() != before:
        raise StepFailed(f"refused: {path} has changed since it was read; nothing is written", hint="run the refresh again")
    text = apply(before.decode("utf-8"), report.writable, report.sources, day or today())
    faults = _faults(path, text)
    if faults:
        lines = [f"  {fault}" for fault in faults[:20]]
        raise StepFailed("\n".join(["refused: the matrix would not pass its check; nothing is written", *lines]))
    write_whole(path, text)
    return text


def _faults(path: Path, text: str) -> Sequence[str]:
    """The faults that the new text would have."""
    import tempfile

    from envkit.errors import InvalidFile
    from envkit.matrix import check, load

    with tempfile.TemporaryDirectory(prefix="envkit-") as folder:
        copy = Path(folder) / path.name
        copy.write_text(text, encoding="utf-8", newline="\n")
        try:
            return check(load(copy))
        except InvalidFile as error:
            return [fault.replace(str(copy), path.name) for fault in error.faults or (error.message,)]


def rows_of(changes: Iterable[Change]) -> Mapping[str, list[Change]]:
    """Changes by the table that they are about, in the order of their first mention."""
    found: dict[str, list[Change]] = {}
    for change in changes:
        found.setdefault(change.table, []).append(change)
    return found


def plain_change(change: Change) -> dict[str, Any]:
    """A change as it stands in the document."""
    document: dict[str, Any] = {"kind": change.kind, "table": change.table, "row": change.label, "because": change.because}
    document |= {"place": change.place, "shrinks": change.shrinks}
    if change.row:
        document["new"] = dict(change.row)
    if change.now:
        document["was"] = dict(change.was)
        document["now"] = dict(change.now)
    return document
