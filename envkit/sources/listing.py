"""Asks the indexes and folders what they offer: PEP 503 pages, PEP 691 documents, flat pages, folders of wheels."""

from __future__ import annotations

import base64
import contextlib
import errno
import gzip
import html.parser
import http.client
import io
import json
import netrc
import os
import queue
import socket
import ssl
import threading
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from envkit.model import Framework, Offers, Wheel
from envkit.sources.settings import Sources, credentials, local_path, redact

_ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.4"
_LARGEST = 64 * 1024 * 1024  # a page of wheels is a few MB at most; more is no such page


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file that a page lists."""

    name: str  # file name
    url: str = field(repr=False)
    metadata: bool = False  # whether its METADATA lies beside it (PEP 658)
    yanked: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """What one place answered. `files` is None where nothing came: `why` says so."""

    files: tuple[File, ...] | None
    why: str = ""
    missing: bool = False  # it answered that it does not know the project


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """A wheel and where it lies."""

    wheel: Wheel
    place: str = field(repr=False)  # the matrix's index URL, or the find-links place as configured
    find_links: bool = False
    file: File | None = field(default=None, repr=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found(Offers):
    """Offers, and for each wheel where it lies."""

    listed: tuple[Listed, ...] = ()
    flat: frozenset[str] = frozenset()  # indexes whose mirror is a flat page
    faults: Mapping[str, str] = field(default_factory=dict)  # index URL -> why it gave nothing

    def places_of(self, name: str, version: str) -> tuple[Listed, ...]:
        """Where a wheel of this name and version lies, the user's own folders first."""
        fitting = [item for item in self.listed if item.wheel.name == name and item.wheel.version == version]
        return tuple(sorted(fitting, key=lambda item: not item.find_links))


def look(
    sources: Sources,
    framework: Framework,
    tags: Sequence[str],
    *,
    platform: str = "",
    companions: Sequence[str] = (),
    limit: float = 5.0,
) -> Found:
    """What the framework's indexes for `tags` and the user's find-links places offer of it and its `companions`.

    `platform` ("linux/x86_64") leaves out the indexes that only serve other platforms. All are asked at once; each has
    `limit` seconds to answer. An index that does not know a project has answered. What comes by a vendor's own way is on none.
    """
    wanted = _wanted(framework, tags, platform, companions)
    urls = tuple(wanted)
    plain = (_normal(name) for name in (framework.package, *companions))
    names = tuple(dict.fromkeys((*plain, *(name for own in wanted.values() for name in own))))
    asked = [] if sources.no_index or sources.offline else [(url, name) for url in urls for name in wanted[url]]
    jobs: dict[tuple[str, str], _Job] = {(url, name): _Job(sources, _addresses(sources, url, name)) for url, name in asked}
    jobs |= {(place.url, ""): _Job(sources, [place.url]) for place in sources.find_links}
    pages = _fetch_all(jobs, limit)

    indexes: dict[str, bool] = {}
    faults: dict[str, str] = {}
    listed: list[Listed] = []
    places: list[str] = []
    flat: set[str] = set()
    for place in sources.find_links:
        page = pages[place.url, ""]
        own = list(_wheels(page.files or (), names, place.url, find_links=True))
        listed += own
        places.append(f"{place.shown} ({page.why or _summary(own)})")
    for url in urls:
        answers = [pages[url, name] for name in wanted[url] if (url, name) in pages]
        if not answers:
            faults[url] = (
                "not asked: the settings forbid the network" if sources.offline else "not asked: the settings forbid indexes"
            )
            continue
        if all(answer.missing for answer in answers):
            whole = _flat_page(sources, url, limit)
            if whole is not None:
                answers = [whole]
                flat.add(url)
        indexes[url] = any(answer.files is not None for answer in answers)
        own = [item for answer in answers for item in _wheels(answer.files or (), names, url)]
        listed += own
        why = "" if indexes[url] else answers[0].why
        if why:
            faults[url] = why
        places.append(f"{_shown(sources, url)} ({why or _summary(own)})")
    kept, left_out = _constrained(sources, listed)
    return Found(
        indexes=indexes,
        wheels=tuple(dict.fromkeys(item.wheel for item in kept)),
        places=(*places, *left_out),
        listed=tuple(kept),
        flat=frozenset(flat),
        faults=faults,
    )


def _wanted(
    framework: Framework, tags: Iterable[str], platform: str = "", companions: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """By the indexes that the matrix names for builds of `tags` ("pypi" is the default one), the packages looked for there."""
    tags = set(tags)
    found: dict[str, dict[str, None]] = {}
    for build in framework.builds:
        if build.tag not in tags or (platform and platform not in build.platforms):
            continue
        own = (build.index if build.index is not None else framework.index).replace("{tag}", build.tag)
        found.setdefault(own, {}).update(dict.fromkeys((build.package or framework.package, *companions)))
        for name, pin in build.packages.items():
            found.setdefault(pin.index or own, {})[name] = None
    found.pop("vendor", None)
    return {url: tuple(dict.fromkeys(_normal(name) for name in names)) for url, names in found.items()}


def _addresses(sources: Sources, url: str, name: str) -> list[str]:
    """The pages that list a project; the default index's project may also lie in the user's extra indexes."""
    bases = [sources.mirrored(url)]
    if url == "pypi":
        bases += [index.url for index in sources.extra if not index.explicit]
    return [f"{base.rstrip('/')}/{name}/" for base in bases]


def _flat_page(sources: Sources, url: str, limit: float) -> Page | None:
    """The page of a mirror that lists all its wheels on one page; None where the index is no such mirror."""
    mirror = sources.mirrored(url)
    if mirror == url or url == "pypi":
        return None
    page = fetch_page(sources, mirror.rstrip("/") + "/", limit)
    return page if page.files and any(file.name.endswith(".whl") for file in page.files) else None


def _shown(sources: Sources, url: str) -> str:
    return redact(sources.mirrored(url))


def _summary(listed: Sequence[Listed]) -> str:
    """What a place has, in a few words: the newest version of each project."""
    if not listed:
        return "nothing fitting there"
    from packaging.version import Version

    newest: dict[str, Version] = {}
    for item in listed:
        version = Version(item.wheel.version)
        newest[item.wheel.name] = max(version, newest.get(item.wheel.name, version))
    return ", ".join(f"{name} up to {version}" if len(listed) > 1 else f"{name} {version}" for name, version in newest.items())


def _normal(name: str) -> str:
    from packaging.utils import canonicalize_name

    return canonicalize_name(name)


def _wheels(files: Iterable[File], names: Sequence[str], place: str, *, find_links: bool = False) -> Iterator[Listed]:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion

    starts = tuple(name.replace("-", "_") + "-" for name in names)
    for file in files:
        # Checked before the costly parse: a flat page lists thousands of other projects' files.
        if file.yanked or not file.name.endswith(".whl") or not file.name.lower().startswith(starts):
            continue
        with contextlib.suppress(InvalidWheelFilename, InvalidVersion):
            name, version, _, tags = parse_wheel_filename(file.name)
            if name in names:
                wheel = Wheel(name=name, version=str(version), tags=frozenset(str(tag) for tag in tags))
                yield Listed(wheel=wheel, place=place, find_links=find_links, file=file)


# ---- constraints -------------------------------------------------------------------------------------------------


def read_constraints(sources: Sources) -> dict[str, list[tuple[str, str]]]:
    """The user's constraints: normalised name -> (specifier, file). Markers are left to the installer."""
    from packaging.requirements import InvalidRequirement, Requirement

    found: dict[str, list[tuple[str, str]]] = {}
    for file in (*sources.constraints, *sources.uv_constraints):
        path = local_path(file)
        try:
            text = path.read_text(encoding="utf-8", errors="replace") if path is not None else ""
        except OSError:
            continue  # the installer will say so, with its own words
        for line in text.splitlines():
            with contextlib.suppress(InvalidRequirement):
                requirement = Requirement(line.split(" #")[0].strip())
                if requirement.url is None and requirement.marker is None:
                    found.setdefault(_normal(requirement.name), []).append((str(requirement.specifier), file))
    return found


def _constrained(sources: Sources, listed: Sequence[Listed]) -> tuple[list[Listed], list[str]]:
    """The wheels that the user's constraints allow, and what was left out."""
    from packaging.specifiers import SpecifierSet

    constraints = read_constraints(sources)
    kept, out = [], dict[str, int]()
    for item in listed:
        broken = [
            f"constraint {item.wheel.name}{text} in {file}"
            for text, file in constraints.get(item.wheel.name, ())
            if not SpecifierSet(text).contains(item.wheel.version, prereleases=True)
        ]
        if broken:
            out[broken[0]] = out.get(broken[0], 0) + 1
        else:
            kept.append(item)
    return kept, [f"{text} (leaves out {count} wheel{'s' if count > 1 else ''})" for text, count in out.items()]


# ---- fetching ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Job:
    sources: Sources
    addresses: list[str]

    def run(self, limit: float) -> Page:
        """The files of all addresses together; the first that failed decides the reason where none answered."""
        pages = [fetch_page(self.sources, address, limit) for address in self.addresses]
        answered = [page for page in pages if page.files is not None]
        if not answered:
            return pages[0]
        files = tuple(file for page in answered for file in page.files or ())
        missing = all(page.missing for page in answered)
        return Page(files=files, missing=missing, why=answered[0].why if missing else "")


def _fetch_all(jobs: Mapping[tuple[str, str], _Job], limit: float) -> dict[tuple[str, str], Page]:
    """Every job's page. Looking a name up can hang beyond any socket's limit, so the threads are left behind then."""
    answers: queue.Queue[tuple[tuple[str, str], Page]] = queue.Queue()
    waiting: queue.SimpleQueue[tuple[tuple[str, str], _Job]] = queue.SimpleQueue()
    for key, job in jobs.items():
        waiting.put((key, job))

    def work() -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                key, job = waiting.get_nowait()
                answers.put((key, job.run(limit)))

    for _ in range(min(12, len(jobs))):
        threading.Thread(target=work, daemon=True).start()
    pages: dict[tuple[str, str], Page] = {}
    # Connecting, one redirect, and a page of a few MB: 6 limits are the border of what is worth waiting for.
    deadline = time.monotonic() + 6 * limit
    with contextlib.suppress(queue.Empty):
        while len(pages) < len(jobs):
            key, page = answers.get(timeout=max(0.01, deadline - time.monotonic()))
            pages[key] = page
    return {key: pages.get(key, Page(files=None, why=f"did not answer within {6 * limit:g} s")) for key in jobs}


def fetch_page(sources: Sources, address: str, limit: float) -> Page:
    """The files that a page, an index folder or a folder of wheels lists."""
    path = local_path(address)
    if path is not None:
        return _read_folder(path)
    try:
        kind, text, final = fetch(sources, address, limit)
    except urllib.error.HTTPError as answer:
        missing = answer.code in (404, 410)
        return Page(files=() if missing else None, why=f"answered {answer.code} {answer.reason}", missing=missing)
    except (OSError, ValueError, EOFError, zlib.error, http.client.HTTPException) as fault:
        return Page(files=None, why=f"did not answer: {_reason(fault)}")
    if "json" in kind:
        return _read_json(text, final)
    return Page(files=tuple(read_html(text, final)))


def _reason(fault: BaseException) -> str:
    cause = getattr(fault, "reason", fault)
    if isinstance(cause, TimeoutError | socket.timeout):
        return "timed out"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({cause.verify_message}); name the authority with SSL_CERT_FILE or PIP_CERT"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return redact(str(cause)) or type(cause).__name__


def _read_folder(path: Path) -> Page:
    """A local index page or folder of wheels."""
    try:
        if path.is_dir():
            if (path / "index.html").is_file():
                base = (path / "index.html").as_uri()
                return Page(files=tuple(read_html((path / "index.html").read_text(encoding="utf-8", errors="replace"), base)))
            files = sorted(entry.name for entry in os.scandir(path) if entry.is_file())
            return Page(files=tuple(File(name=name, url=str(path / name)) for name in files))
        if path.suffix in (".html", ".htm"):
            return Page(files=tuple(read_html(path.read_text(encoding="utf-8", errors="replace"), path.absolute().as_uri())))
    except OSError as fault:
        return Page(files=None, why=f"can't be read: {fault.strerror or fault}")
    if path.parent.is_dir():
        return Page(files=(), missing=True, why="does not exist")
    return Page(files=None, why="does not exist")


def _read_json(text: str, base: str) -> Page:
    try:
        document = json.loads(text)
        rows = document["files"]
        files = tuple(
            File(
                name=str(row["filename"]),
                url=urljoin(base, str(row["url"])),
                metadata=bool(row.get("core-metadata") or row.get("dist-info-metadata") or row.get("data-dist-info-metadata")),
                yanked=bool(row.get("yanked")),
            )
            for row in rows
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return Page(files=None, why="answered something that is no list of files")
    return Page(files=files)


class _Links(html.parser.HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base = base
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values: dict[str, Any] = dict(attrs)
        if tag == "base" and values.get("href"):
            self.base = urljoin(self.base, values["href"])
        if tag != "a" or not values.get("href"):
            return
        url = urljoin(self.base, values["href"])
        name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
        metadata = values.get("data-core-metadata") or values.get("data-dist-info-metadata")
        if name:
            self.files.append(
                File(
                    name=name,
                    url=url.split("#")[0],
                    metadata=bool(metadata) and metadata != "false",
                    yanked="data-yanked" in values,
                )
            )


def read_html(text: str, base: str) -> list[File]:
    """The files that a PEP 503 page, or a flat page of links, lists."""
    parser = _Links(base)
    parser.feed(text)
    parser.close()
    return parser.files


def fetch(sources: Sources, address: str, limit: float) -> tuple[str, str, str]:
    """Content type, text and final address of a page. Raises OSError (HTTPError among them) or ValueError."""
    with ask(sources, address, limit, {"Accept": _ACCEPT, "Accept-Encoding": "gzip"}) as answer:
        body = answer.read(_LARGEST)
        if answer.headers.get("Content-Encoding", "").lower() == "gzip":
            body = gzip.decompress(body)
        return answer.headers.get("Content-Type", ""), body.decode("utf-8", errors="replace"), answer.geturl()


def ask(sources: Sources, address: str, limit: float, headers: Mapping[str, str]) -> http.client.HTTPResponse:
    """A server's answer, by the user's proxies, certificates and credentials."""
    url, user, password = credentials(address)
    host = urlsplit(url).hostname or ""
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"not an address of a server: {url}")
    request = urllib.request.Request(url, headers={"User-Agent": "envkit", **headers})  # noqa: S310 -- looked at above
    if not user:
        user, password = _netrc(sources, host)
    if user:
        secret = base64.b64encode(f"{user}:{password}".encode()).decode()
        # Unredirected: the credentials are for this host and not for one that it points to.
        request.add_unredirected_header("Authorization", f"Basic {secret}")
    answer: http.client.HTTPResponse = _opener(sources, host).open(request, timeout=limit)
    return answer


class RemoteFile(io.RawIOBase):
    """A file on a server, read in pieces; the directory of a zip file of gigabytes is then a matter of two requests."""

    def __init__(self, sources: Sources, address: str, limit: float) -> None:
        self._sources, self._address, self._limit = sources, address, limit
        self._at = 0
        self._begin, self._piece = 0, b""
        with ask(sources, address, limit, {"Range": "bytes=-65536"}) as answer:
            whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
            if answer.status == 206 and whole.isdigit():
                self._size = int(whole)
                self._piece = answer.read()
                self._begin = self._size - len(self._piece)
                return
            length = answer.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > _LARGEST:
                raise OSError(errno.EOPNOTSUPP, "the server sends no parts of files")
            self._piece = answer.read()
            self._size = len(self._piece)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._at + size)
        if not self._begin <= self._at <= end <= self._begin + len(self._piece):
            # What is wanted next mostly lies close behind.
            last = min(self._size, max(end, self._at + 16384)) - 1
            with ask(self._sources, self._address, self._limit, {"Range": f"bytes={self._at}-{last}"}) as answer:
                if answer.status != 206:
                    raise OSError(errno.EOPNOTSUPP, "the server sends no parts of files")
                self._begin, self._piece = self._at, answer.read()
        found = self._piece[self._at - self._begin : end - self._begin]
        self._at += len(found)
        return found


def _opener(sources: Sources, host: str) -> urllib.request.OpenerDirector:
    proxies = dict.fromkeys(("http", "https"), sources.proxy) if sources.proxy else None
    if sources.proxy and urllib.request.proxy_bypass(host):
        proxies = {}
    return urllib.request.build_opener(
        urllib.request.ProxyHandler(proxies), urllib.request.HTTPSHandler(context=_context(sources, host))
    )


def _context(sources: Sources, host: str) -> ssl.SSLContext:
    if any(trusted.rpartition("://")[2].split(":")[0] == host for trusted in sources.trusted_hosts):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    context = ssl.create_default_context()  # knows SSL_CERT_FILE and SSL_CERT_DIR
    if sources.certificates:
        path = Path(sources.certificates)
        context.load_verify_locations(**({"capath": str(path)} if path.is_dir() else {"cafile": str(path)}))
    if sources.client_certificate:
        context.load_cert_chain(sources.client_certificate)
    return context


def _netrc(sources: Sources, host: str) -> tuple[str, str]:
    home = sources.environ.get("HOME") or sources.environ.get("USERPROFILE") or str(Path.home())
    file = Path(sources.environ.get("NETRC") or Path(home) / ".netrc")
    try:
        found = netrc.netrc(file).authenticators(host) if file.is_file() else None
    except (netrc.NetrcParseError, OSError):
        return "", ""
    return (found[0], found[2] or "") if found else ("", "")
