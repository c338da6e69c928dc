"""HTTP as the refresh needs it: whole answers or none, parts of files, a few connections a host, retries, limits."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

from envkit import __version__

LARGEST = 64 * 1024 * 1024  # a listing is a few MB at most; more is none
_AT_ONCE = 12  # requests in all
_PER_HOST = 6  # and to one host
_TRIES = 3
_PAUSES = (0.5, 2.0)
_LONGEST_PAUSE = 10.0  # of what a server may ask for with Retry-After
_PIECE = 65536
_BUSY = (408, 425, 429, 500, 502, 503, 504)
GONE = (404, 410)


class Settings(Protocol):
    """What the user's package settings say of reaching servers (`envkit.sources.Sources` is one)."""

    @property
    def certificates(self) -> str: ...
    @property
    def client_certificate(self) -> str: ...
    @property
    def proxy(self) -> str: ...
    @property
    def trusted_hosts(self) -> tuple[str, ...]: ...
    @property
    def offline(self) -> bool: ...
    @property
    def environ(self) -> Mapping[str, str]: ...
    def mirrored(self, url: str) -> str: ...


class Trouble(Exception):
    """A place that gave nothing that can be used; the text says why, without credentials."""


class Unreachable(Trouble):
    """Nobody answered, or the answer was that we may not ask: what is there is not known."""


class Distrusted(Trouble):
    """An answer that must not be believed: an error of the server, cut short, or no listing at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a server sent, whole."""

    url: str  # after redirects
    status: int
    kind: str  # content type
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def gone(self) -> bool:
        """Whether it says that there is no such thing."""
        return self.status in GONE

    @property
    def text(self) -> str:
        """The body as text; raises Distrusted where it is none."""
        try:
            return self.body.decode("utf-8")
        except UnicodeDecodeError:
            raise Distrusted("answered something that is no UTF-8 text") from None


def shown(url: str) -> str:
    """A URL as it may be printed."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url


class Net:
    """Asks servers, by the user's settings; may be used from several threads. Counts what it read."""

    def __init__(self, settings: Settings, *, limit: float = 30.0, pauses: tuple[float, ...] = _PAUSES) -> None:
        self._settings = settings
        self._limit = limit
        self._pauses = pauses
        self._sessions = threading.local()
        self._hosts: dict[str, threading.Semaphore] = {}
        self._lock = threading.Lock()
        self._down: dict[str, str] = {}  # hosts that could not be reached: asking again costs the whole limit
        self.bytes_read = 0
        self.requests = 0

    # ---- asking --------------------------------------------------------------------------------------------------

    def get(self, url: str, headers: Mapping[str, str] | None = None, *, method: str = "GET", largest: int = LARGEST) -> Answer:
        """The whole answer, a 404 or 401 included. Raises Unreachable or Distrusted."""
        if urlsplit(url).scheme == "file":
            return _read_file(url)
        return self._tried(url, lambda: self._once(url, headers or {}, method, largest))

    def part(self, url: str, begin: int, end: int) -> bytes:
        """The bytes from `begin` up to `end` of a file on a server. Raises Unreachable or Distrusted."""

        def ask() -> Answer:
            answer = self._once(url, {"Range": f"bytes={begin}-{end - 1}"}, "GET", end - begin)
            if answer.gone:
                raise Distrusted(f"answered {answer.status} for a file that its listing names")
            if answer.status != 206:
                raise Distrusted("the server sends no parts of files")
            place = answer.headers.get("content-range", "")
            if not place.startswith(f"bytes {begin}-") or len(answer.body) != end - begin:
                raise Distrusted(f"sent other bytes than it was asked for ({place or 'no Content-Range'})")
            return answer

        return self._tried(url, ask).body

    def size(self, url: str) -> int:
        """How many bytes a file on a server has. Raises Unreachable or Distrusted."""
        answer = self.get(url, {"Accept-Encoding": "identity"}, method="HEAD")
        length = answer.headers.get("content-length", "")
        if answer.status != 200 or not length.isdigit():
            raise Distrusted(f"does not say how large the file is (answered {answer.status})")
        return int(length)

    def _tried(self, url: str, ask: Callable[[], Answer]) -> Answer:
        host = urlsplit(url).netloc.rpartition("@")[2]
        if self._settings.offline:
            raise Unreachable("not asked: the settings forbid the network")
        if host in self._down:
            raise Unreachable(self._down[host])
        with self._lock:
            gate = self._hosts.setdefault(host, threading.Semaphore(_PER_HOST))
        for attempt in range(_TRIES):
            last = attempt == _TRIES - 1
            try:
                with gate:
                    return ask()
            except _Busy as busy:
                if last:
                    raise Distrusted(str(busy)) from None
                self._pause(attempt, busy.pause)
            except Unreachable as trouble:
                # A second look-up of a name that nobody knows gives nothing, but a connection may have been lost.
                if attempt:
                    with self._lock:
                        self._down.setdefault(host, str(trouble))
                    raise
                self._pause(attempt, 0)
            except _Cut as cut:
                if last:
                    raise Distrusted(str(cut)) from None
                self._pause(attempt, 0)
        raise AssertionError("the last try returns or raises")

    def _pause(self, attempt: int, asked: float) -> None:
        if self._pauses:
            time.sleep(max(min(asked, _LONGEST_PAUSE), self._pauses[min(attempt, len(self._pauses) - 1)]))

    # ---- one request ---------------------------------------------------------------------------------------------

    def _session(self) -> Any:
        session = getattr(self._sessions, "session", None)
        if session is None:
            import requests

            session = requests.Session()
            session.max_redirects = 10
            session.headers["User-Agent"] = f"envkit/{__version__} (matrix refresh)"
            settings = self._settings
            if settings.proxy:
                session.proxies.update(dict.fromkeys(("http", "https"), settings.proxy))
            authorities = settings.certificates or settings.environ.get("SSL_CERT_FILE", "")
            if authorities:
                session.verify = authorities
            if settings.client_certificate:
                session.cert = settings.client_certificate
            self._sessions.session = session
        return session

    def _once(self, url: str, headers: Mapping[str, str], method: str, largest: int) -> Answer:
        import requests

        host = urlsplit(url).hostname or ""
        trusted = any(word.rpartition("://")[2].split(":")[0] == host for word in self._settings.trusted_hosts)
        deadline = time.monotonic() + 4 * self._limit
        with self._lock:
            self.requests += 1
        try:
            with self._session().request(
                method,
                url,
                headers=dict(headers),
                timeout=(min(self._limit, 10.0), self._limit),
                stream=True,
                **({"verify": False} if trusted else {}),
            ) as answer:
                if answer.status_code in _BUSY:
                    wait = answer.headers.get("Retry-After", "")
                    raise _Busy(f"answered {answer.status_code} {answer.reason}".rstrip(), float(wait) if wait.isdigit() else 0)
                if answer.status_code == 403 or answer.status_code == 407:
                    raise Unreachable(f"refused to answer ({answer.status_code} {answer.reason})")
                body = self._body(answer, method, largest, deadline)
                return Answer(
                    url=answer.url,
                    status=answer.status_code,
                    kind=answer.headers.get("Content-Type", ""),
                    body=body,
                    headers={key.lower(): value for key, value in answer.headers.items()},
                )
        except requests.exceptions.TooManyRedirects:
            raise Distrusted("redirects in a circle") from None
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
            raise _Cut("its answer was cut short") from None
        except requests.exceptions.SSLError as fault:
            raise Unreachable(_ssl_reason(fault)) from None
        except requests.exceptions.Timeout:
            raise Unreachable("timed out") from None
        except requests.exceptions.RequestException as fault:
            raise Unreachable(_reason(fault)) from None

    def _body(self, answer: Any, method: str, largest: int, deadline: float) -> bytes:
        if method == "HEAD":
            return b""
        pieces: list[bytes] = []
        size = 0
        for piece in answer.iter_content(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > largest:
                raise Distrusted(f"sent more than {largest} bytes")
            if time.monotonic() > deadline:
                raise Unreachable(f"sent only {size} bytes within {4 * self._limit:g} s")
        with self._lock:
            self.bytes_read += size
        length = answer.headers.get("Content-Length", "")
        # What is packed in transit has another length than what comes out of it; there the packing's own check holds.
        if length.isdigit() and not answer.headers.get("Content-Encoding") and int(length) != size:
            raise _Cut(f"its answer was cut short: {size} of {length} bytes came")
        return b"".join(pieces)


class _Busy(Exception):
    """An error of the server that may pass."""

    def __init__(self, text: str, pause: float) -> None:
        super().__init__(text)
        self.pause = pause


class _Cut(Exception):
    """An answer that ended too early; the next may be whole."""


def _read_file(url: str) -> Answer:
    """A mirror on a disk: a page, or a folder with its index.html."""
    path = Path(url2pathname(urlsplit(url).path))
    if path.is_dir():
        path = path / "index.html"
    try:
        body = path.read_bytes()
    except FileNotFoundError:
        return Answer(url=url, status=404, kind="", body=b"")
    except OSError as fault:
        raise Unreachable(f"can't be read: {fault.strerror or fault}") from None
    kind = "application/json" if path.suffix == ".json" else "text/html"
    return Answer(url=path.as_uri(), status=200, kind=kind, body=body)


def _reason(fault: BaseException) -> str:
    """The innermost cause in plain words; the text of `requests` quotes addresses, credentials included."""
    seen: BaseException | None = fault
    while seen is not None:
        if isinstance(seen, OSError) and seen.strerror and not hasattr(seen, "request"):
            return str(seen.strerror)
        inner = getattr(seen, "reason", None)
        arguments = [part for part in seen.args if isinstance(part, BaseException)]
        seen = inner if isinstance(inner, BaseException) else (arguments[0] if arguments else seen.__cause__ or seen.__context__)
    if "NameResolution" in repr(fault):
        return "its name is not known"
    if "proxy" in type(fault).__name__.lower():
        return "the proxy does not let us through"
    return f"no connection ({type(fault).__name__})"


def _ssl_reason(fault: BaseException) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in repr(fault):
        return "its certificate is not trusted; name the authority with SSL_CERT_FILE or PIP_CERT"
    return "no secure connection"


# ---- many at once ------------------------------------------------------------------------------------------------

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def all_at_once(jobs: Iterable[tuple[Key, Callable[[], Value]]], *, at_once: int = _AT_ONCE) -> dict[Key, Value | Trouble]:
    """Every job's result, or the Trouble that it met; other faults are raised here. In the order of the jobs.

    The threads are left behind when this ends early: an interrupt must not wait for a slow server.
    """
    listed = list(jobs)
    waiting: queue.SimpleQueue[tuple[Key, Callable[[], Value]]] = queue.SimpleQueue()
    done: queue.Queue[tuple[Key, Value | BaseException]] = queue.Queue()
    for job in listed:
        waiting.put(job)

    def work() -> None:
        with suppress(queue.Empty):
            while True:
                key, job = waiting.get_nowait()
                try:
                    done.put((key, job()))
                except BaseException as fault:
                    done.put((key, fault))

    for _ in range(min(at_once, len(listed))):
        threading.Thread(target=work, daemon=True).start()
    found: dict[Key, Value | Trouble] = {}
    for _ in listed:
        key, value = done.get()
        if isinstance(value, BaseException) and not isinstance(value, Trouble):
            raise value
        found[key] = value
    return {key: found[key] for key, _ in listed}
