"""What an index lists of a project: PEP 691/700 documents and PEP 503 pages, read strictly: a wrong page must not be believed."""

from __future__ import annotations

import html.parser
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

from envkit.matrix.refresh.net import Answer, Distrusted, Net, shown

ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.5, text/html;q=0.4"
PYPI = "pypi"
# What the older manylinux names stand for (PEP 600).
_OLD_MANYLINUX = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_WINDOWS = {"win_amd64": "windows/x86_64", "win_arm64": "windows/arm64"}
ANY = "any"


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """One file of a project, as its index lists it."""

    name: str
    url: str = field(default="", repr=False)
    size: int | None = None
    date: str = ""  # of the upload, YYYY-MM-DD
    yanked: bool = False
    requires_python: str = ""
    metadata: bool = False  # whether its METADATA lies beside it (PEP 658)


@dataclass(frozen=True, kw_only=True, slots=True)
class Wheel:
    """A wheel, by what its name says."""

    file: File
    version: str  # without its local part
    local: str  # "+cu128", or ""
    platforms: Mapping[str, str]  # linux/x86_64 -> lowest glibc or macOS that one of its tags names; "" where none does
    python: str  # 3.12, 3.13t; "" for any
    or_newer: bool = False  # abi3: this Python and newer ones


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A project on an index."""

    index: str  # as the matrix names it
    name: str
    place: str  # the page's address, fit to be printed
    files: tuple[File, ...]
    wheels: tuple[Wheel, ...]
    known: bool = True  # False: the index answered that it has no such project

    def of(self, version: str, local: str | None = None) -> tuple[Wheel, ...]:
        """The wheels of one version that are not yanked."""
        return tuple(
            wheel
            for wheel in self.wheels
            if wheel.version == version and (local is None or wheel.local == local) and not wheel.file.yanked
        )


# ---- reading -----------------------------------------------------------------------------------------------------


def page_of(base: str, name: str) -> str:
    """The address of a project's page on an index; an index that is one page is that page."""
    return base if base.endswith((".html", ".htm")) else f"{base.rstrip('/')}/{name}/"


def read_listing(net: Net, index: str, base: str, name: str) -> Listing:
    """The listing of a project on the index at `base`. Raises Unreachable or Distrusted."""
    url = page_of(base, name)
    answer = net.get(url, {"Accept": ACCEPT})
    if answer.gone and index != PYPI and url != base:
        # Some indexes are one page of links to everything.
        whole = net.get(base.rstrip("/") + "/", {"Accept": ACCEPT})
        if not whole.gone and any(wheel_of(file, name) for file in parse_listing(whole, name)):
            answer, url = whole, base
    if answer.gone:
        return Listing(index=index, name=name, place=shown(url), files=(), wheels=(), known=False)
    if answer.status != 200:
        raise Distrusted(f"answered {answer.status}")
    files = parse_listing(answer, name)
    wheels = tuple(wheel for file in files if (wheel := wheel_of(file, name)) is not None)
    return Listing(index=index, name=name, place=shown(url), files=files, wheels=wheels)


def parse_listing(answer: Answer, name: str) -> tuple[File, ...]:
    """The files that an answer lists. Raises Distrusted where it is no whole listing of this project."""
    kind = answer.kind.partition(";")[0].strip().lower()
    if not answer.body.strip():
        raise Distrusted("answered an empty page")
    if kind.endswith("json"):
        return _from_json(answer, name)
    if "html" in kind or not kind:
        return _from_html(answer)
    raise Distrusted(f"answered {kind}, which is no listing")


def _from_json(answer: Answer, name: str) -> tuple[File, ...]:
    try:
        document = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise Distrusted("answered JSON that is not whole") from None
    if not isinstance(document, dict) or not isinstance(document.get("files"), list):
        raise Distrusted("answered JSON that lists no files")
    meta = document.get("meta")
    version = str(meta.get("api-version", "1.0")) if isinstance(meta, dict) else "1.0"
    if version.partition(".")[0] != "1":
        raise Distrusted(f"speaks version {version[:10]} of the simple API, which is not known")
    if (given := document.get("name")) and normal(str(given)) != normal(name):
        raise Distrusted(f"answered the listing of another project ({str(given)[:40]})")
    files = []
    for row in document["files"]:
        if not isinstance(row, dict) or not isinstance(row.get("filename"), str) or not isinstance(row.get("url"), str):
            raise Distrusted("lists a file without name or address")
        files.append(
            File(
                name=row["filename"],
                url=urljoin(answer.url, row["url"]),
                size=row["size"] if isinstance(row.get("size"), int) else None,
                date=_date(row.get("upload-time")),
                yanked=bool(row.get("yanked")),
                requires_python=str(row.get("requires-python") or ""),
                metadata=bool(row.get("core-metadata") or row.get("dist-info-metadata") or row.get("data-dist-info-metadata")),
            )
        )
    return tuple(files)


def _date(value: Any) -> str:
    found = re.match(r"\d{4}-\d{2}-\d{2}", str(value or ""))
    return found[0] if found else ""


def _from_html(answer: Answer) -> tuple[File, ...]:
    text = answer.text
    lowered = text.lower()
    if "<a " not in lowered and "<html" not in lowered:
        raise Distrusted("answered something that is no page of links")
    if "<html" in lowered and "</html" not in lowered and "</body" not in lowered:
        raise Distrusted("its page was cut short: it has no end")
    parser = _Links(answer.url)
    parser.feed(text)
    parser.close()
    if parser.open:
        raise Distrusted("its page was cut short: its last link has no end")
    return tuple(parser.files)


def links_of(answer: Answer) -> tuple[str, ...]:
    """The addresses that a page's links lead to. Raises Distrusted where it is no whole page."""
    text = answer.text
    links = tuple(re.findall(r"""<a\s[^>]*href=["']([^"'#?]+)["']""", text, re.IGNORECASE))
    if not links:
        raise Distrusted("answered something that is no page of links")
    if "<html" in text.lower() and "</html" not in text.lower() and "</body" not in text.lower():
        raise Distrusted("its page was cut short: it has no end")
    return links


class _Links(html.parser.HTMLParser):
    def __init__(self, base: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base = base
        self.open = False
        self.files: list[File] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and values.get("href"):
            self.base = urljoin(self.base, values["href"] or "")
        if tag != "a" or not values.get("href"):
            return
        self.open = True
        url = urljoin(self.base, values["href"] or "")
        name = unquote(urlsplit(url).path.rsplit("/", 1)[-1])
        metadata = values.get("data-core-metadata") or values.get("data-dist-info-metadata")
        if name:
            self.files.append(
                File(
                    name=name,
                    url=url.partition("#")[0],
                    date=_date(values.get("data-upload-time")),
                    yanked="data-yanked" in values,
                    requires_python=values.get("data-requires-python") or "",
                    metadata=bool(metadata) and metadata != "false",
                )
            )

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self.open = False


# ---- names of wheels ---------------------------------------------------------------------------------------------


def normal(name: str) -> str:
    """A project's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wheel_of(file: File, name: str) -> Wheel | None:
    """What a wheel's file name says; None for other files, other projects, and what runs on nothing that the matrix knows."""
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion

    if not file.name.endswith(".whl"):
        return None
    try:
        project, version, _, tags = parse_wheel_filename(file.name)
    except (InvalidWheelFilename, InvalidVersion):
        return None
    if project != normal(name):
        return None
    platforms: dict[str, str] = {}
    for tag in tags:
        for platform, floor in _platforms(tag.platform):
            known = platforms.get(platform)
            if known is None or _number(floor) < _number(known):
                platforms[platform] = floor
    pythons = {found for tag in tags if (found := _python(tag.interpreter, tag.abi)) is not None}
    if not platforms or not pythons:
        return None
    # One wheel with several Python tags: the names of those that are no CPython are left out already.
    python, or_newer = min(pythons, key=lambda found: (found[0] != "", _number(found[0].rstrip("t"))))
    return Wheel(
        file=file,
        version=version.public,
        local=f"+{version.local}" if version.local else "",
        platforms=platforms,
        python=python,
        or_newer=or_newer,
    )


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")) if text else ()


def _platforms(tag: str) -> Iterable[tuple[str, str]]:
    if tag == "any":
        yield ANY, ""
    elif tag in _WINDOWS:
        yield _WINDOWS[tag], ""
    elif found := re.fullmatch(r"manylinux_(\d+)_(\d+)_(\w+)", tag):
        yield f"linux/{found[3]}", f"{found[1]}.{found[2]}"
    elif found := re.fullmatch(r"(manylinux(?:1|2010|2014))_(\w+)", tag):
        yield f"linux/{found[2]}", _OLD_MANYLINUX[found[1]]
    elif found := re.fullmatch(r"linux_(\w+)", tag):
        yield f"linux/{found[1]}", ""
    elif found := re.fullmatch(r"macosx_(\d+)_(\d+)_(arm64|x86_64|universal2)", tag):
        for machine in ("arm64", "x86_64") if found[3] == "universal2" else (found[3],):
            yield f"macos/{machine}", f"{found[1]}.{found[2]}"


def _python(interpreter: str, abi: str) -> tuple[str, bool] | None:
    """The Python of a tag, and whether newer ones are meant as well; "" for any; None for what the matrix does not hold."""
    if interpreter in ("py3", "py2.py3"):
        return "", False
    found = re.fullmatch(r"cp3(\d+)", interpreter)
    if not found:
        return None
    if abi == "abi3":
        return f"3.{found[1]}", True
    return f"3.{found[1]}" + ("t" if re.fullmatch(r"cp3\d+t", abi) else ""), False


def python_key(python: str) -> tuple[int, bool]:
    """A sort key: 3.9, 3.13, 3.13t, 3.14."""
    return int(python.rstrip("t").partition(".")[2]), python.endswith("t")


def release_key(version: str) -> Any:
    """A sort key for versions as published."""
    from packaging.version import Version

    return Version(version)
