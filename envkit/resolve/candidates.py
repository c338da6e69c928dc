"""The cells of the matrix that might serve a question: every build of every release, with the Python it would use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from envkit.model import (
    Backend,
    BackendRelease,
    Build,
    Candidate,
    Dotted,
    Framework,
    FrameworkRelease,
    Gpu,
    Limit,
    Matrix,
    Os,
    Platform,
    Promise,
    Scheme,
    Target,
    dotted,
)
from envkit.resolve.target import Question
from envkit.resolve.wishes import matches, version


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One release of a framework as one build of it: what is the same for every machine."""

    release: FrameworkRelease
    build: Build
    backend_release: BackendRelease


class Rows:
    """The rows of one matrix, by backend and framework, newest first. Made once for a matrix, since it never changes."""

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self._rows: dict[tuple[str, ...], tuple[Row, ...]] = {}
        self._systems: dict[tuple[str, ...], Mapping[str, tuple[Row, ...]]] = {}
        self._pythons: dict[tuple[object, ...], str] = {}
        self.drivers: dict[tuple[str, str, str], tuple[Dotted | None, tuple[str, ...]]] = {}  # each toolkit's own
        self.code: dict[tuple[object, ...], tuple[str, str]] = {}  # filled by the rule on compiled code
        self.without_code: dict[tuple[object, ...], bool] = {}  # filled by the search for the best candidate
        self._limits: dict[tuple[str, str], dict[str, Limit]] = {}  # of each backend and tag, by product and architecture
        self.promises: dict[str, dict[tuple[str, Os], Promise]] = {}  # of each backend, by product
        self.pins: dict[tuple[str, str, str, str], str | None] = {}
        self.companion_tags: dict[tuple[str, str, str], tuple[str, frozenset[tuple[str, str]]]] = {}

    def of(self, backend: Backend, framework: Framework) -> tuple[Row, ...]:
        """The rows of a framework on a backend, for any system."""
        key = (backend.name, framework.name)
        if key not in self._rows:
            self._rows[key] = tuple(_rows(backend, framework))
        return self._rows[key]

    def for_system(self, backend: Backend, framework: Framework, family: str, arch: str) -> Mapping[str, tuple[Row, ...]]:
        """By release, one row for each tag that there is for a system; where none serves the processor, one that says so."""
        key = (backend.name, framework.name, family, arch)
        if key not in self._systems:
            found: dict[str, list[Row]] = {}
            for row in _for_system(self.of(backend, framework), family, arch):
                found.setdefault(row.release.version, []).append(row)
            self._systems[key] = {release: tuple(group) for release, group in found.items()}
        return self._systems[key]

    def limit(self, backend: Backend, tag: str, *about: str) -> Limit | None:
        """What narrows the vendor's list of systems for a card, by the first of its names that a row is about."""
        key = (backend.name, tag)
        if key not in self._limits:
            self._limits[key] = {word: row for row in backend.limits if tag in row.tags for word in row.about}
        return next((self._limits[key][word] for word in about if word in self._limits[key]), None)

    def promise(self, backend: Backend, product: str, os: Os) -> Promise | None:
        """For which releases the backend's vendor lists a product; None where it goes by its architecture."""
        if backend.name not in self.promises:
            self.promises[backend.name] = {(card, os): row for row in backend.promises for card in row.cards for os in row.os}
        return self.promises[backend.name].get((product, os))

    def python(self, framework: Framework, row: Row, target: Target) -> str:
        """The Python to use: the first wanted one that everything has wheels for, else the first wanted one."""
        key = (
            framework.name,
            row.release.version,
            row.build.pythons,
            target.pythons,
            target.python_told or not row.build.image,
            target.platform.release,
            target.platform.point,
            row.build.macos,
            _glibc(target.platform),
            target.extras,
        )
        if key not in self._pythons:
            if len(self._pythons) > 4096:  # many machines, one process: memory stays flat
                self._pythons.clear()
            self._pythons[key] = _choose(self.matrix, framework, row, target)
        return self._pythons[key]


_known: list[Rows] = []


def rows(matrix: Matrix) -> Rows:
    """The rows of `matrix`; those of the last few matrices are kept."""
    for each in _known:
        if each.matrix is matrix:
            return each
    made = Rows(matrix)
    _known[:] = [made, *_known[:3]]
    return made


Skip = Callable[["Line", Row], bool]


def by_release(matrix: Matrix, question: Question, skip: Skip | None = None) -> Iterator[list[Candidate]]:
    """The candidates for a question, those that the wish itself rules out left away: one list a release, the newest first.

    `skip` tells rows to leave away too, before candidates are made of them.
    """
    lines = [Line(matrix, question, scheme) for scheme in question.schemes if _wanted(matrix, question, scheme)]
    releases = {(line.framework.name, release) for line in lines for release in line.rows}
    frameworks = {name: number for number, name in enumerate(matrix.frameworks)}
    for framework, release in sorted(releases, key=lambda each: (frameworks[each[0]], falling_release(each[1]))):
        if matches(question.torch.specifier, release):
            yield [each for line in lines if line.framework.name == framework for each in line.candidates(release, skip)]


def _wanted(matrix: Matrix, question: Question, scheme: Scheme) -> bool:
    return question.backend.name in ("", matrix.backends[scheme.backend].name)


class Line:
    """What one scheme has to offer for a question."""

    def __init__(self, matrix: Matrix, question: Question, scheme: Scheme) -> None:
        self.question, self.scheme, self.known = question, scheme, rows(matrix)
        self.backend, self.framework = matrix.backends[scheme.backend], matrix.frameworks[scheme.framework]
        used = cards(self.backend, question.target)
        self.card = next(iter(used), None)
        self.kinds = tuple(dict.fromkeys(card.arch for card in used))
        family = "linux" if scheme.os == "wsl2" else str(scheme.os)
        self.rows = self.known.for_system(self.backend, self.framework, family, question.target.platform.arch)

    def candidates(self, release: str, skip: Skip | None = None) -> Iterator[Candidate]:
        """The builds of one release."""
        wish = self.question.backend
        for row in self.rows.get(release, ()):
            if wish.tag not in ("", row.build.tag) or wish.version not in (None, row.backend_release.version):
                continue
            if skip is None or not skip(self, row):
                yield self.candidate(row)

    def candidate(self, row: Row, python: str | None = None) -> Candidate:
        """The candidate that a row makes; `python` spares the choice of one where that is not asked about."""
        return Candidate(
            scheme=self.scheme,
            backend=self.backend,
            backend_release=row.backend_release,
            framework=self.framework,
            release=row.release,
            build=row.build,
            platform=self.question.target.platform,
            python=self.known.python(self.framework, row, self.question.target) if python is None else python,
            accelerator=self.card,
        )


@lru_cache(maxsize=4096)
def falling_release(text: str) -> tuple[int, ...]:
    """A key that sorts the newest release first, and a pre-release behind its release."""
    this = version(text)
    return (*falling(this.release), int(this.is_prerelease))


@lru_cache(maxsize=4096)
def falling(numbers: tuple[int, ...]) -> tuple[int, ...]:
    """A key that sorts the highest numbers first."""
    # Equal lengths, since 12 would otherwise come before 12.8.
    return tuple(-number for number in (*numbers, 0, 0, 0, 0, 0)[:5])


def cards(backend: Backend, target: Target) -> tuple[Gpu, ...]:
    """The cards that a backend would use on a machine: none for the CPU, all of its vendor's otherwise."""
    if backend.device == "cpu" or not target.accelerators:
        return ()
    if not backend.vendor:
        served = ("", *backend.serves)
        return tuple(card for card in target.accelerators if not backend.serves or card.vendor in served)
    return tuple(card for card in target.accelerators if card.vendor == backend.vendor)


def local_version(build: Build) -> str:
    """The local part of a build's version, with its plus sign: "+cu128"; "" for none."""
    return build.local if build.local is not None else f"+{build.tag}"


def package_of(candidate: Candidate) -> str:
    """The package that carries the framework in a candidate's build."""
    return candidate.build.package or candidate.framework.package


def index_of(framework: Framework, build: Build) -> str:
    """The index that serves a build."""
    index = build.index if build.index is not None else framework.index
    return index.replace("{tag}", build.tag)


def macos_floor(build: Build, python: str) -> Dotted | None:
    """The oldest macOS that a build's wheel for a Python runs on."""
    return build.macos_pythons.get(python, build.macos)


def is_too_old(platform: Platform, floor: Dotted | None) -> bool:
    """Whether a Mac's system is known to be older than that; "macOS 12" alone may be any 12.x."""
    have = platform.point or dotted(platform.release.rpartition("-")[2])
    if floor is None or have is None or platform.family != "macos":
        return False
    return have < floor if platform.point else have.key < floor.key[: len(have.key)]


def pythons_of(release: FrameworkRelease, build: Build) -> tuple[str, ...]:
    """The Pythons that a build has wheels for."""
    return build.pythons if build.pythons is not None else release.pythons


@lru_cache(maxsize=1024)
def python_key(text: str) -> tuple[Dotted, bool]:
    """A sorting key: 3.13 before 3.13t before 3.14."""
    return Dotted(text.removesuffix("t")), text.endswith("t")


def own_python(matrix: Matrix, target: Target) -> str:
    """The Python that comes with the target's system; "" where that is not known."""
    release = matrix.platforms.get(target.platform.release)
    return release.python if release else ""


def pin(matrix: Matrix, library: str, release: FrameworkRelease, python: str, platform: Platform | None = None) -> str | None:
    """The newest release of a library that the framework's release accepts and that has wheels for a Python on a platform."""
    wanted = release.requires.get(library, "")
    pins = rows(matrix).pins
    have = _glibc(platform) if platform else None
    key = (library, wanted, python, str(have or ""))
    if key not in pins:
        if len(pins) > 4096:
            pins.clear()
        pins[key] = _pin(matrix, library, wanted, python, have)
    return pins[key]


def _pin(matrix: Matrix, library: str, wanted: str, python: str, have: Dotted | None) -> str | None:
    for row in matrix.libraries.get(library, ()):
        loads = have is None or row.glibc is None or have >= row.glibc
        if loads and python in row.pythons and matches(wanted, row.version):
            return row.version
    return None


def oldest_glibc(matrix: Matrix, library: str, release: FrameworkRelease, python: str) -> Dotted | None:
    """The least glibc on which any release of a library that the framework's release accepts has wheels for a Python."""
    wanted = release.requires.get(library, "")
    fitting = [row for row in matrix.libraries.get(library, ()) if python in row.pythons and matches(wanted, row.version)]
    return min((row.glibc for row in fitting if row.glibc is not None), default=None)


def _glibc(platform: Platform) -> Dotted | None:
    return platform.glibc if platform.family == "linux" and platform.libc != "musl" else None


def companion(matrix: Matrix, name: str, release: FrameworkRelease, python: str) -> str | None:
    """The best release of a companion package for the framework's release and a Python."""
    wheels = {row.version: row.pythons for row in matrix.libraries.get(name, ())}
    for text in release.companions.get(name, ()):
        if text not in wheels or python in wheels[text]:
            return text
    return None


def companion_pin(matrix: Matrix, candidate: Candidate, name: str) -> str | None:
    """The version of a companion package to install, with its local part where that is known.

    A companion is built for the tags of the framework's release that it came out with, and serves later ones: torchaudio 2.11.0
    serves torch 2.11 to 2.15, and CUDA 13.2 came in between. A release built for the candidate's tag goes first. Where there is
    none, the number alone is pinned, which accepts every local part (PEP 440): what the tag's own index has is taken.
    """
    wheels = {row.version: row.pythons for row in matrix.libraries.get(name, ())}
    listed = candidate.release.companions.get(name, ())
    fitting = [text for text in listed if text not in wheels or candidate.python in wheels[text]]
    own = (candidate.build.tag, f"{candidate.platform.family}/{candidate.platform.arch}")
    for text in fitting:
        home, builds = _built_with(matrix, candidate.framework, name, text)
        if own in builds or candidate.release.version == home:
            return f"{text}{local_version(candidate.build)}"
    return fitting[0] if fitting else None


def _built_with(matrix: Matrix, framework: Framework, name: str, text: str) -> tuple[str, frozenset[tuple[str, str]]]:
    """The framework's release that a companion's release came out with, and the tags and platforms known to be built for that."""
    known = rows(matrix).companion_tags
    key = (framework.name, name, text)
    if key not in known:
        listing = [each for each in framework.releases if text in each.companions.get(name, ())]
        # The matrix names first what came out together; a later release may be listed for an older framework too.
        home = min(listing, key=lambda each: (each.companions[name][0] != text, version(each.version)))
        builds = [each for each in framework.builds if each.published and _serves(each, home)]
        known[key] = home.version, frozenset((each.tag, platform) for each in builds for platform in each.platforms)
    return known[key]


def _rows(backend: Backend, framework: Framework) -> Iterator[Row]:
    releases = {release.tag: release for release in backend.releases}
    builds = [build for build in framework.builds if build.tag in releases]
    for release in sorted(framework.releases, key=lambda each: version(each.version), reverse=True):
        taken: dict[str, set[str]] = {}
        # A build of this very release is more exact than one of the whole line, so it goes first and takes its platforms.
        for build in sorted((b for b in builds if _serves(b, release)), key=lambda b: len(b.release), reverse=True):
            platforms = tuple(p for p in build.platforms if p not in taken.get(build.tag, set()))
            taken.setdefault(build.tag, set()).update(build.platforms)
            if platforms:
                own = build if platforms == build.platforms else replace(build, platforms=platforms)
                yield Row(release=release, build=own, backend_release=releases[build.tag])


def _for_system(found: tuple[Row, ...], family: str, arch: str) -> Iterator[Row]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        if any(platform.startswith(f"{family}/") for platform in row.build.platforms):
            groups.setdefault((row.release.version, row.build.tag), []).append(row)
    for group in groups.values():
        serving = [row for row in group if f"{family}/{arch}" in row.build.platforms]
        platforms = tuple(dict.fromkeys(platform for row in group for platform in row.build.platforms))
        yield serving[0] if serving else replace(group[0], build=replace(group[0].build, platforms=platforms))


def _serves(build: Build, release: FrameworkRelease) -> bool:
    # A pre-release of 2.8 is no 2.8.x: only a build of its own serves it.
    later = release.version.startswith(f"{build.release}.") and not version(release.version).is_prerelease
    return release.version == build.release or later


def _choose(matrix: Matrix, framework: Framework, row: Row, target: Target) -> str:
    published = pythons_of(row.release, row.build)
    # A free-threaded Python is never chosen for anyone who did not ask for it.
    plain = [text for text in published if not text.endswith("t")]
    # The machine's own Python is no matter where the framework comes in an image.
    asked = target.pythons if target.python_told or not row.build.image else None
    choices = asked or tuple(sorted(plain or published, key=python_key, reverse=True))
    if asked is None and (own := own_python(matrix, target)):
        choices = (own, *choices)
    libraries = [name for name in framework.default_packages if name in matrix.libraries]
    for python in choices:
        if (
            python in published
            and not is_too_old(target.platform, macos_floor(row.build, python))
            and all(pin(matrix, name, row.release, python, target.platform) for name in libraries)
            and all(companion(matrix, name, row.release, python) for name in target.extras)
        ):
            return python
    return next((python for python in choices if python in published), choices[0] if choices else "")
