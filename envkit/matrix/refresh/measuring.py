"""Which wheels are measured, and what their code says of the matrix's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from envkit.matrix.refresh.changes import (
    CHANGED,
    NEW,
    Change,
    SourceBook,
    SourceRow,
    backend_of,
    build_label,
    index_of,
    merged,
    package_of,
    served,
    serves,
)
from envkit.matrix.refresh.listings import PYPI, File, Listing, release_key
from envkit.matrix.refresh.measure import Code, measure
from envkit.matrix.refresh.net import Net, Trouble, all_at_once
from envkit.matrix.refresh.upstream import Upstream, on
from envkit.model import Build, Evidence, Framework, Matrix

_AT_ONCE = 4  # wheels; each is read in many parts


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One wheel that was looked into."""

    framework: str
    version: str
    platform: str
    wheel: str  # file name
    code: Code | None = None
    build: str = ""  # the row that it was compared with
    agrees: bool | None = None  # None: nothing to compare
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class _Target:
    framework: Framework
    version: str
    platform: str
    files: tuple[File, ...]  # the first that has code counts
    build: Build | None  # None: which one it is, the wheel itself says


def measure_all(
    matrix: Matrix,
    upstreams: Mapping[str, Upstream],
    changes: Sequence[Change],
    net: Net,
    book: SourceBook,
    tell: Callable[[str], None],
) -> tuple[list[Measured], list[Change]]:
    """Measures what PyPI serves; gives what was found, and the changes with what it adds to them."""
    targets = [
        target for name, upstream in upstreams.items() for target in _targets(matrix, matrix.frameworks[name], upstream, changes)
    ]
    tell(f"measures {len(targets)} wheels")
    jobs = [(number, _job(net, target, tell)) for number, target in enumerate(targets)]
    codes = all_at_once(jobs, at_once=_AT_ONCE)
    found = list(changes)
    measured = []
    for number, target in enumerate(targets):
        code = codes[number]
        base = Measured(
            framework=target.framework.name, version=target.version, platform=target.platform, wheel=target.files[0].name
        )
        if isinstance(code, Trouble):
            measured.append(replace(base, why=str(code)))
        elif code is None:
            measured.append(replace(base, why="no code for accelerators was found in it"))
        else:
            measured.append(_compare(matrix, target, replace(base, code=code), code, found, book))
    return measured, found


def _job(net: Net, target: _Target, tell: Callable[[str], None]) -> Callable[[], Code | None]:
    def run() -> Code | None:
        code = measure(net, target.files)
        if code is not None:
            archs = " ".join(code.archs) or "no code"
            tell(f"  {target.files[0].name}: {archs} ({code.bytes_read / 1e6:.1f} MB, {code.seconds:.1f} s)")
        return code

    return run


def _targets(matrix: Matrix, framework: Framework, upstream: Upstream, changes: Sequence[Change]) -> Iterator[_Target]:
    if "{tag}" in framework.index:
        yield from _own_targets(matrix, framework, upstream, changes)
        return
    rows = [*framework.builds, *_proposed(framework, changes)]
    for build in rows:
        backend = matrix.backends.get(backend_of(matrix, build.tag))
        if backend is None or backend.code_rule not in ("cuda", "exact") or build.published is False:
            continue
        if index_of(framework, build) != PYPI:
            continue
        versions = [release.version for release in served(framework, build)] or [build.release]
        version = max(versions, key=release_key)
        for platform in build.platforms:
            if files := _files(framework, build, upstream, version, platform):
                yield _Target(framework=framework, version=version, platform=platform, files=files, build=build)


def _own_targets(matrix: Matrix, framework: Framework, upstream: Upstream, changes: Sequence[Change]) -> Iterator[_Target]:
    """The wheels of PyPI of a framework whose tags have indexes of their own: which tag PyPI serves, the wheel says."""
    listing = upstream.listing(PYPI, framework.package)
    if listing is None:
        return
    versions = [release.version for release in framework.releases]
    versions += [
        str(change.row["version"]) for change in changes if change.table == f"framework.{framework.name}.release" and change.row
    ]
    for version in versions:
        for platform in ("linux/aarch64", "linux/x86_64"):
            if file := _smallest(listing, version, platform):
                yield _Target(framework=framework, version=version, platform=platform, files=(file,), build=None)


def _smallest(listing: Listing, version: str, platform: str) -> File | None:
    files = [wheel.file for wheel in on(listing.of(version), platform)]
    return min(files, key=lambda file: (file.size or 0, file.name), default=None)


def _files(framework: Framework, build: Build, upstream: Upstream, version: str, platform: str) -> tuple[File, ...]:
    """The wheels in which a build's code may be, the smallest first: a plugin's own code before the compiler that it needs."""
    halves = set(upstream.carriers.values())
    names = [(package_of(framework, build), version)]
    names += [(name, pin.version) for name, pin in build.packages.items() if name not in halves and (pin.index or PYPI) == PYPI]
    found = []
    for name, wanted in names:
        listing = upstream.listing(PYPI, name)
        if listing is not None and (file := _smallest(listing, wanted, platform)):
            found.append(file)
    # Where there are further packages, the framework's own wheel is the part without a device.
    own = found[1:] if build.packages and len(found) > 1 else found
    return tuple(sorted(own, key=lambda file: file.size or 0))


def _proposed(framework: Framework, changes: Sequence[Change]) -> list[Build]:
    """The builds that are proposed, as rows."""
    from envkit.model import Pin

    rows = []
    for change in changes:
        if change.kind == NEW and change.table == f"framework.{framework.name}.build":
            row = change.row
            packages = {
                name: Pin(version=pin) if isinstance(pin, str) else Pin(**pin) for name, pin in row.get("packages", {}).items()
            }
            rows.append(
                Build(
                    release=row["release"],
                    tag=row["tag"],
                    platforms=tuple(row["platforms"]),
                    package=row.get("package", ""),
                    index=row.get("index"),
                    packages=packages,
                )
            )
    return rows


# ---- what it says of the rows ------------------------------------------------------------------------------------


def _compare(
    matrix: Matrix, target: _Target, measured: Measured, code: Code, changes: list[Change], book: SourceBook
) -> Measured:
    framework = target.framework
    if target.build is None and not code.archs:
        return replace(measured, why=f"built for the CPU ({code.label or 'no label'})")
    tag = target.build.tag if target.build else code.label.lstrip("+")
    new = [position for position, change in enumerate(changes) if _is_row(change, framework, tag, target)]
    for position in new:
        changes[position] = _filled(changes[position], code)
    rows = [target.build] if target.build in framework.builds else []
    rows = rows or [
        build
        for build in framework.builds
        if build.tag == tag and target.platform in build.platforms and serves(build, target.version) and not build.packages
    ]
    if not rows or rows[0] is None:
        why = "fills a new row" if new else f"no row for {tag or 'a build without a label'} on {target.platform}"
        return replace(measured, build=build_label(target.version, tag, [target.platform]), why=why)
    build = rows[0]
    measured = replace(measured, build=build_label(build.release, build.tag, build.platforms))
    now, was, because = _differences(build, code)
    agrees = None if build.archs is None else not ({"archs", "ptx"} & now.keys())
    if now:
        source = _source(framework, target, code, book)
        if source not in build.sources:
            now["source"], was["source"] = [*build.sources, source], list(build.sources)
        _add(
            changes,
            Change(
                kind=CHANGED,
                table=f"framework.{framework.name}.build",
                label=measured.build,
                key={"release": build.release, "tag": build.tag, "platforms": list(build.platforms)},
                now=now,
                was=was,
                because=because,
                place=measured.wheel,
                shrinks=bool(set(build.archs or ()) - set(code.archs) or set(build.ptx) - set(code.ptx)),
            ),
        )
    return replace(measured, agrees=agrees, why=because if agrees is False else "")


def _is_row(change: Change, framework: Framework, tag: str, target: _Target) -> bool:
    return (
        change.kind == NEW
        and change.table == f"framework.{framework.name}.build"
        and change.row["tag"] == tag
        and target.platform in change.row["platforms"]
        and change.row["release"] == target.version
    )


def _filled(change: Change, code: Code) -> Change:
    """A proposed row with its architectures."""
    row: dict[str, Any] = {}
    for word, value in change.row.items():
        if word == "local" and "archs" not in change.row:
            row |= {"archs": list(code.archs), **({"ptx": list(code.ptx)} if code.ptx else {})}
        row[word] = value
    row["evidence"] = str(Evidence.WHEEL_MEASURED)
    notes = [note for note in str(row.pop("note", "")).split("; ") if note and note != "compiled architectures not read"]
    if notes:
        row["note"] = "; ".join(notes)
    row["source"] = row.pop("source")
    return replace(change, row=row)


def _differences(build: Build, code: Code) -> tuple[dict[str, Any], dict[str, Any], str]:
    now: dict[str, Any] = {}
    was: dict[str, Any] = {}
    reasons = []
    if set(build.archs or ()) != set(code.archs) or build.archs is None:
        now["archs"], was["archs"] = list(code.archs), None if build.archs is None else list(build.archs)
        reasons.append(f"its wheel holds code for {' '.join(code.archs)}")
    if set(build.ptx) != set(code.ptx):
        now["ptx"], was["ptx"] = list(code.ptx) or None, list(build.ptx) or None
        reasons.append(f"its wheel holds {'PTX for ' + ' '.join(code.ptx) if code.ptx else 'no PTX'}")
    if build.evidence in (Evidence.CLAIMED, Evidence.INDEX_CHECKED):
        now["evidence"], was["evidence"] = str(Evidence.WHEEL_MEASURED), str(build.evidence)
        reasons.append("measured")
    return now, was, "; ".join(reasons)


def _source(framework: Framework, target: _Target, code: Code, book: SourceBook) -> str:
    name = package_of(framework, target.build) if target.build else framework.package
    made = SourceRow(
        id=f"{name}-code",
        text=f"Code read out of the wheels of {name} on PyPI ({code.where})",
        url=f"https://pypi.org/project/{name}/#files",
    )
    return book.found(made)


def _add(changes: list[Change], change: Change) -> None:
    """Adds to a change of the same row, or puts it at the end."""
    for position, known in enumerate(changes):
        if (known.kind, known.table, known.key) == (CHANGED, change.table, change.key):
            changes[position] = merged(known, change)
            return
    changes.append(change)


def plain_measured(measured: Iterable[Measured]) -> list[dict[str, Any]]:
    """What was measured as it stands in the document."""
    return [
        {
            "wheel": one.wheel,
            "framework": one.framework,
            "version": one.version,
            "platform": one.platform,
            "build": one.build,
            "label": one.code.label if one.code else "",
            "archs": list(one.code.archs) if one.code else [],
            "ptx": list(one.code.ptx) if one.code else [],
            "agrees": one.agrees,
            "why": one.why,
            "bytes_read": one.code.bytes_read if one.code else 0,
            "seconds": round(one.code.seconds, 3) if one.code else 0.0,
        }
        for one in measured
    ]
