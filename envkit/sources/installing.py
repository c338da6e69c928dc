"""What uv is handed, so that each framework package comes from its own named index and the rest from the default one.

uv takes a named index for a package only from a project file, so the plan becomes one: `[[tool.uv.index]]` with
`explicit = true` (nothing else is ever looked for there) and `[tool.uv.sources]` (that package is looked for nowhere else).
A package of the same name on PyPI can then never stand in for the framework's, whatever its version.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from envkit.model import Package, Plan
from envkit.sources.listing import File, Found, Listed, RemoteFile, fetch, fetch_page
from envkit.sources.settings import Index, Sources, credentials, local_path

# Settings of the user's shell that would change what is installed, or where: a pinned plan has decided both.
# UV_CONFIG_FILE and UV_NO_CONFIG would hide the project file; what the former says was read and is carried into it.
_UNWANTED = (
    "UV_BREAK_SYSTEM_PACKAGES",
    "UV_CONFIG_FILE",
    "UV_CONSTRAINT",
    "UV_EXCLUDE",
    "UV_NO_BINARY",
    "UV_NO_BINARY_PACKAGE",
    "UV_NO_CONFIG",
    "UV_NO_SOURCES",
    "UV_NO_SOURCES_PACKAGE",
    "UV_OVERRIDE",
    "UV_PRERELEASE",
    "UV_PROJECT",
    "UV_PYTHON",
    "UV_REQUIRE_HASHES",
    "UV_RESOLUTION",
    "UV_SYSTEM_PYTHON",
    "UV_TORCH_BACKEND",
    "UV_VENV_CLEAR",
    "UV_VENV_RELOCATABLE",
    "UV_VENV_SEED",
    "UV_WORKING_DIR",
    "UV_WORKING_DIRECTORY",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Installation:
    """What uv gets: `uv pip install -r pyproject.toml -c constraints.txt ARGUMENTS`, run in the folder of `project`."""

    project: str  # the text of pyproject.toml; holds no credentials
    constraints: str  # the text of constraints.txt
    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)  # to be added to uv's; credentials are here and nowhere else
    unwanted: tuple[str, ...] = _UNWANTED  # to be taken out of uv's environment

    def environ(self, base: Mapping[str, str]) -> dict[str, str]:
        """The environment for uv on top of `base`."""
        kept = {key: value for key, value in base.items() if key not in self.unwanted}
        return {**kept, **self.environment}


def installation(
    sources: Sources,
    plan: Plan,
    found: Found | None = None,
    partners: Sequence[str] = (),
    moved: Mapping[str, str] | None = None,
) -> Installation:
    """What uv gets to install `plan`.

    `found` tells where each wheel lies; without it the plan's own indexes (or their mirrors) are taken. `partners` are
    requirements that the framework pins exactly and that its own index serves. `moved` maps local folders to where they
    are when uv runs (a build's mounts).
    """
    named = _Named(sources, moved or {})
    origins: dict[str, str] = {}
    partners = [*partners, *without(plan.partners, partners)]
    # What comes by the vendor's own way is there already, or cannot be fetched at all.
    fetched = [package for package in plan.packages if package.index != "vendor"]
    for package in fetched:
        if (index := _origin(sources, package, found)) is not None:
            origins[package.name] = named.add(index)
    own = origins.get(plan.framework_package.name)
    for requirement in partners:
        if own is not None and not sources.no_index:
            origins[_name(requirement)] = own
    return Installation(
        project=_project(sources, named, [package.requirement for package in fetched] + list(partners), origins),
        constraints=constraints_text(plan, [text for text in partners if text not in plan.partners]),
        arguments=tuple(part for file in sources.constraints for part in ("--constraints", named.place(file))),
        environment={**named.environment, **_transport(sources), **_constraint_variable(sources)},
    )


def without(names: Sequence[str], requirements: Sequence[str]) -> list[str]:
    """The partners of a plan that no requirement read from the framework's wheel names already."""
    known = {_name(text) for text in requirements}
    return [name for name in names if _name(name) not in known]


def constraints_text(plan: Plan, partners: Sequence[str] = ()) -> str:
    """The pins that later installs are held to."""
    from packaging.requirements import Requirement

    lines = [f"{package.name}=={package.version}" for package in plan.packages]
    for text in partners:
        requirement = Requirement(text)
        lines.append(f"{requirement.name}{requirement.specifier}" + (f" ; {requirement.marker}" if requirement.marker else ""))
    head = "# What envkit installed and proved. Later installs are held to it, so that none can swap the framework's flavour.\n"
    return head + "".join(f"{line}\n" for line in lines)


def _name(requirement: str) -> str:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    return canonicalize_name(Requirement(requirement).name)


def _origin(sources: Sources, package: Package, found: Found | None) -> Index | None:
    """The one place that this package may come from; None where any of the general sources will do."""
    places = found.places_of(package.name, package.version) if found is not None else ()
    if places and places[0].find_links:
        # With indexes off, the folders are all there is, and uv would not look into a named one.
        return None if sources.no_index else Index(url=places[0].place, flat=True)
    if package.index == "pypi":
        return None
    # An index is a folder of pages; one that is a single page of links is flat.
    flat = package.index.endswith(".html") or (found is not None and package.index in found.flat)
    return Index(url=sources.mirrored(package.index), flat=flat)


class _Named:
    """The indexes of the project file. Their credentials go into uv's environment, never into a file."""

    def __init__(self, sources: Sources, moved: Mapping[str, str]) -> None:
        self.rows: list[dict[str, Any]] = []
        self.environment: dict[str, str] = {}
        self.links: list[str] = []
        self._moved = moved
        # An index that uv's own settings name outranks these; so does the user's own name for one.
        for index in sources.extra:
            if not index.known_to_uv:
                self._row(index, name=index.name, explicit=index.explicit)
        if sources.default is not None and not sources.default.known_to_uv:
            self._row(sources.default, name=sources.default.name, default=True)
        elif sources.default is None and (mirror := sources.mirrored("pypi")) and mirror != Sources().mirrored("pypi"):
            self._row(Index(url=mirror), default=True)
        secret: list[str] = []
        for place in sources.find_links:
            path = local_path(place.url)
            if place.known_to_uv or (path is not None and not path.is_dir()):
                continue
            if credentials(place.url)[1]:
                secret.append(place.url)
            else:
                self.links.append(self.place(place.url))
        if secret:
            already = sources.environ.get("UV_FIND_LINKS", "")
            self.environment["UV_FIND_LINKS"] = ",".join([*([already] if already else []), *secret])

    def add(self, index: Index) -> str:
        """The name of an index that serves only the packages that name it."""
        url, _, _ = credentials(index.url)
        for row in self.rows:
            if row.get("explicit") and row["url"] == self.place(url):
                return str(row["name"])
        return self._row(index, explicit=True)

    def _row(self, index: Index, *, name: str = "", explicit: bool = False, default: bool = False) -> str:
        url, user, password = credentials(index.url)
        name = name or f"envkit-{len(self.rows) + 1}"
        row: dict[str, Any] = {"name": name, "url": self.place(url)}
        row |= {key: True for key, value in (("explicit", explicit), ("default", default)) if value}
        if index.flat:
            row["format"] = "flat"
        self.rows.append(row)
        if user or password:
            word = "UV_INDEX_" + re.sub(r"[^A-Z0-9]", "_", name.upper())
            self.environment |= {f"{word}_USERNAME": user, f"{word}_PASSWORD": password}
        return name

    def place(self, text: str) -> str:
        """Where a place lies when uv runs."""
        path = local_path(text)
        if path is None:
            return text
        for here, there in self._moved.items():
            with contextlib.suppress(ValueError):
                rest = path.relative_to(here)
                return there if str(rest) == "." else f"{there.rstrip('/')}/{rest.as_posix()}"
        return text if text.lower().startswith("file:") else str(path)


def _project(sources: Sources, named: _Named, requirements: Sequence[str], origins: Mapping[str, str]) -> str:
    settings: dict[str, Any] = dict(sources.uv_settings)
    # The plan is pinned; byte code is made by the first run that needs it.
    if sources.no_index:
        settings["no-index"] = True
    if named.links:
        settings["find-links"] = named.links
    hosts = [host for host in sources.trusted_hosts if host not in _texts(settings.get("allow-insecure-host"))]
    if hosts:
        settings["allow-insecure-host"] = [*_texts(settings.get("allow-insecure-host")), *hosts]
    merged = any(row for row in named.rows if not row.get("explicit") and not row.get("default"))
    if merged and "index-strategy" not in settings and "UV_INDEX_STRATEGY" not in sources.environ:
        # pip looks through all of its indexes; uv would stop at the first that knows a name, whatever versions it has.
        settings["index-strategy"] = "unsafe-first-match"
    lines = [
        "# Made by envkit for one `uv pip install`.",
        "[project]",
        'name = "envkit-plan"',
        'version = "0"',
        'requires-python = ">=3.8"',
        f"dependencies = {_toml(list(requirements))}",
        "",
        "[tool.uv]",
        *(f"{key} = {_toml(value)}" for key, value in sorted(settings.items())),
        "",
        "# A root of its own: a workspace above this folder is none of its business.",
        "[tool.uv.workspace]",
        "members = []",
    ]
    for row in named.rows:
        lines += ["", "[[tool.uv.index]]", *(f"{key} = {_toml(value)}" for key, value in row.items())]
    if origins:
        lines += ["", "[tool.uv.sources]", *(f"{_toml(name)} = {{ index = {_toml(index)} }}" for name, index in origins.items())]
    return "\n".join(lines) + "\n"


def _texts(value: Any) -> list[str]:
    return [str(word) for word in value] if isinstance(value, list) else []


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in value.items()) + " }"
    # TOML's basic strings are JSON's, but for the one character that JSON may leave bare.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else str(value)


def _constraint_variable(sources: Sources) -> dict[str, str]:
    # Set anew, since the pins of another environment of ours, activated in the same shell, are not among them.
    return {"UV_CONSTRAINT": " ".join(sources.uv_constraints)} if sources.uv_constraints else {}


def _transport(sources: Sources) -> dict[str, str]:
    """pip's certificates, proxy and time limit in uv's words, where the user has not told uv otherwise."""
    words = {
        "SSL_CERT_FILE": sources.certificates,
        "SSL_CLIENT_CERT": sources.client_certificate,
        "UV_HTTP_TIMEOUT": sources.timeout if sources.timeout.isdigit() else "",
        "HTTPS_PROXY": sources.proxy,
        "HTTP_PROXY": sources.proxy,
    }
    return {
        key: value
        for key, value in words.items()
        if value
        and not any(sources.environ.get(spelling) for spelling in (key, key.lower(), "ALL_PROXY" if "PROXY" in key else key))
    }


# ---- partners ----------------------------------------------------------------------------------------------------


def partners(sources: Sources, plan: Plan, found: Found, *, limit: float = 5.0) -> tuple[str, ...]:
    """The requirements that the framework's wheel pins exactly and that its own index serves: its triton, its runtime.

    PyPI has placeholders and strangers under some of those names, so these must come from where the wheel came from.
    Empty where the wheel came from a folder, or its metadata can't be read: then the pins alone decide.
    """
    package = plan.framework_package
    listed = _chosen(found.places_of(package.name, package.version), plan)
    if listed is None or listed.find_links or package.index == "pypi" or package.index in found.flat:
        return ()
    own = {package.name for package in plan.packages}
    extras = [each for each in package.extras.split(",") if each]
    pinned = [text for text in _pinned(_metadata(sources, listed, limit), extras) if _name(text) not in own]
    base = sources.mirrored(package.index).rstrip("/")
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(max_workers=12) as pool:
        pages = pool.map(lambda text: fetch_page(sources, f"{base}/{_name(text)}/", limit), pinned)
        return tuple(text for text, page in zip(pinned, pages, strict=True) if _serves(page.files or (), text))


def _chosen(places: Sequence[Listed], plan: Plan) -> Listed | None:
    """The wheel that this plan's Python takes, else any: all wheels of one build pin the same."""
    python = "cp" + plan.python.replace(".", "")
    machine = plan.platform.rpartition("/")[2]

    def rank(item: Listed) -> tuple[bool, bool]:
        tags = item.wheel.tags
        return (not any(tag.endswith(machine) for tag in tags), not any(tag.startswith(python + "-") for tag in tags))

    return min(places, key=rank, default=None) if not any(item.find_links for item in places) else places[0]


def _metadata(sources: Sources, listed: Listed, limit: float) -> str:
    """The METADATA of a wheel: beside it on the index, or inside it, of which only that part is fetched."""
    file = listed.file
    if file is None:
        return ""
    path = local_path(file.url)
    try:
        if path is not None:
            with path.open("rb") as stream:
                return _metadata_inside(stream)
        address = _with_credentials(file.url, sources, listed)
        if file.metadata:
            with contextlib.suppress(OSError, ValueError):
                return fetch(sources, address + ".metadata", limit)[1]
        return _metadata_inside(RemoteFile(sources, address, limit))
    except (OSError, ValueError, StopIteration, EOFError, zipfile.BadZipFile, http.client.HTTPException):
        return ""


def _metadata_inside(stream: IO[bytes] | RemoteFile) -> str:
    # It reads, seeks and tells, which is all that a zip file takes.
    with zipfile.ZipFile(stream) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA") and name.count("/") == 1)
        return wheel.read(name).decode("utf-8", errors="replace")


def _with_credentials(url: str, sources: Sources, listed: Listed) -> str:
    """A file's URL with its index's credentials, where both are on one host."""
    from urllib.parse import urlsplit

    index = urlsplit(sources.mirrored(listed.place))
    parts = urlsplit(url)
    if "@" in index.netloc and parts.hostname == index.hostname and parts.port == index.port:
        return parts._replace(netloc=index.netloc).geturl()
    return url


def _pinned(metadata: str, extras: Sequence[str] = ()) -> list[str]:
    """What a wheel pins exactly by itself, and for the extras asked for."""
    from email.parser import HeaderParser

    from packaging.requirements import InvalidRequirement, Requirement

    pinned = []
    for text in HeaderParser().parsestr(metadata).get_all("Requires-Dist") or []:
        with contextlib.suppress(InvalidRequirement):
            requirement = Requirement(text)
            specifiers = list(requirement.specifier)
            exact = len(specifiers) == 1 and specifiers[0].operator in ("==", "===") and not specifiers[0].version.endswith("*")
            if not exact or requirement.url is not None:
                continue
            marker = requirement.marker
            if marker is None or "extra" not in str(marker):
                pinned.append(str(requirement))
            elif any(marker.evaluate({"extra": extra}) for extra in extras):
                requirement.marker = None  # an extra's own condition means nothing outside the wheel
                pinned.append(str(requirement))
    return pinned


def _serves(files: Sequence[File], text: str) -> bool:
    from packaging.requirements import Requirement
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion

    requirement = Requirement(text)
    for file in files:
        with contextlib.suppress(InvalidWheelFilename, InvalidVersion):
            if file.name.endswith(".whl") and not file.yanked and parse_wheel_filename(file.name)[1] in requirement.specifier:
                return True
    return False
