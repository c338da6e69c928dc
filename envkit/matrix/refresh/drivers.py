"""Drivers in the vendors' package lists: Debian's Packages, repodata of RPM repositories, folders named by release."""

from __future__ import annotations

import gzip
import lzma
import re
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Iterable, Iterator
from urllib.parse import unquote, urljoin

from envkit.matrix.refresh.changes import NEW, Change, SourceBook, SourceRow
from envkit.matrix.refresh.listings import links_of
from envkit.matrix.refresh.net import LARGEST, Answer, Distrusted, Net
from envkit.model import Backend, Dotted, DriverList, dotted

_COMMON = "{http://linux.duke.edu/metadata/common}"
_REPO = "{http://linux.duke.edu/metadata/repo}"
_UNPACKED = 8 * LARGEST


def read_drivers(net: Net, row: DriverList, url: str) -> tuple[Dotted, ...]:
    """The driver versions that a list has, oldest first. Raises Unreachable or Distrusted, also where it names none."""
    if row.kind == "apt":
        names = parse_packages(_text(_fetch(net, url)))
    elif row.kind == "rpm":
        names = _rpm(net, url)
    else:
        names = ((row.package, unquote(link).strip("/").rpartition("/")[2]) for link in links_of(_fetch(net, url)))
    found = set()
    for name, version in names:
        if row.kind == "folders" or name == row.package or name.startswith(f"{row.package}-"):
            # Epoch and the packager's revision are no part of the driver's version.
            number = re.match(r"(?:\d+:)?(\d+(?:\.\d+)+)", version)
            if number and (known := dotted(number[1])) is not None:
                found.add(known)
    if not found:
        raise Distrusted(f"names no {row.package or 'release'}")
    return tuple(sorted(found, key=lambda version: version.key))


def _fetch(net: Net, url: str) -> Answer:
    answer = net.get(url, largest=LARGEST)
    if answer.status != 200:
        raise Distrusted(f"answered {answer.status}")
    return answer


def _text(answer: Answer) -> str:
    return _unpacked(answer.body).decode("utf-8", "replace")


def _unpacked(body: bytes) -> bytes:
    """The content of a list, packed or not; what ends too early is not believed."""
    try:
        if body.startswith(b"\x1f\x8b"):
            return gzip.decompress(body)
        if body.startswith(b"\xfd7zXZ"):
            return lzma.decompress(body)
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        raise Distrusted("its list was cut short or is damaged") from None
    if body.startswith(b"\x28\xb5\x2f\xfd"):
        raise Distrusted("its list is packed with zstd, which is not read")
    return body


def parse_packages(text: str) -> Iterator[tuple[str, str]]:
    """Name and version of each package of a Debian `Packages` file. Raises Distrusted where it is none."""
    if not re.search(r"^Package: ", text, re.MULTILINE):
        raise Distrusted("answered something that is no list of packages")
    for stanza in re.split(r"\n\s*\n", text.strip()):
        fields = dict(re.findall(r"^(Package|Version): (\S+)", stanza, re.MULTILINE))
        if len(fields) != 2:
            raise Distrusted("its list was cut short: a package has no version")
        yield fields["Package"], fields["Version"]


def _rpm(net: Net, base: str) -> Iterator[tuple[str, str]]:
    """Name and version of each package of an RPM repository."""
    base = base.rstrip("/") + "/"
    index = _xml(_fetch(net, urljoin(base, "repodata/repomd.xml")))
    location = index.find(f"{_REPO}data[@type='primary']/{_REPO}location")
    if location is None or not location.get("href"):
        raise Distrusted("its repodata names no list of packages")
    primary = _xml(_fetch(net, urljoin(base, location.get("href", ""))))
    for package in primary.iter(f"{_COMMON}package"):
        name, version = package.findtext(f"{_COMMON}name"), package.find(f"{_COMMON}version")
        if name and version is not None:
            yield name, version.get("ver", "")


def _xml(answer: Answer) -> ElementTree.Element:
    text = _unpacked(answer.body)
    # Entities could be made to grow without end, and no such list has any.
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text or len(text) > _UNPACKED:
        raise Distrusted("its repodata is no plain XML")
    try:
        return ElementTree.fromstring(text)  # noqa: S314 -- looked at above
    except ElementTree.ParseError:
        raise Distrusted("its repodata was cut short or is damaged") from None


# ---- deciding ----------------------------------------------------------------------------------------------------


def newest_of_branches(backend: Backend, versions: Iterable[Dotted]) -> dict[str, str]:
    """The newest driver of each branch, a branch being as long as the matrix's newest ones: 580, 30.10."""
    length = len(backend.branches[-1].branch.key) if backend.branches else 1
    # 31.0 and 31 are one number to a version, and not to the name of a branch.
    length = max(length, len(str(backend.branches[-1].branch).split(".")) if backend.branches else 1)
    newest: dict[str, str] = {}
    for version in versions:
        parts = str(version).split(".")
        newest[".".join(parts[:length])] = str(version)
    return newest


def compare_drivers(
    backend: Backend, row: DriverList, versions: Iterable[Dotted], book: SourceBook, place: str
) -> Iterator[Change]:
    """Branches that came after those of the matrix."""
    if not backend.branches:
        return
    last = max(branch.branch.key for branch in backend.branches)
    for branch, newest in newest_of_branches(backend, versions).items():
        known = Dotted(branch)
        if known.key > last:
            source = book.found_at(
                SourceRow(id=row.source_id, text=f"{backend.title}: the vendor's list of drivers", url=row.url)
            )
            new = {"branch": branch, "note": f"newest driver seen: {newest}", "source": source}
            yield Change(
                kind=NEW,
                table=f"backend.{backend.name}.branch",
                label=branch,
                key={"branch": branch},
                row=new,
                because="a new branch; which runtime it serves is not in the list",
                place=place,
            )
