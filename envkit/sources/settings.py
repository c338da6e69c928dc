"""Reads pip's, uv's and envkit's own settings into one `Sources`. No network."""

from __future__ import annotations

import configparser
import os
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from envkit.errors import InvalidFile

PYPI = "https://pypi.org/simple"
_SYSTEM_PIP = Path("/etc/pip.conf")
_SYSTEM_UV = Path("/etc/uv/uv.toml")

# The settings of a project's uv.toml that say how to reach packages. Those that say what the project consists of
# (sources, constraints, overrides, exclude-newer) belong to that project and not to an environment of ours.
_CARRIED = (
    "allow-insecure-host",
    "cache-dir",
    "concurrent-downloads",
    "http-proxy",
    "https-proxy",
    "index-strategy",
    "keyring-provider",
    "link-mode",
    "native-tls",
    "no-cache",
    "no-proxy",
    "offline",
    "pypy-install-mirror",
    "python-downloads",
    "python-install-mirror",
    "python-preference",
    "system-certs",
)


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Index:
    """One package index, or a flat page or folder of wheels. `url` may hold credentials: print `shown`."""

    url: str
    name: str = ""
    default: bool = False
    explicit: bool = False
    flat: bool = False
    origin: str = ""  # the setting it was read from
    known_to_uv: bool = False  # uv reads that setting by itself

    @property
    def shown(self) -> str:
        """The URL as it may be printed."""
        return redact(self.url)

    def __repr__(self) -> str:
        return f"Index({self.shown!r}, origin={self.origin!r})"


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Sources:
    """How this user's machine reaches packages."""

    default: Index | None = None  # None: PyPI
    extra: tuple[Index, ...] = ()
    find_links: tuple[Index, ...] = ()
    no_index: bool = False
    offline: bool = False
    certificates: str = ""  # a bundle of trusted authorities
    client_certificate: str = ""
    trusted_hosts: tuple[str, ...] = ()
    proxy: str = ""
    timeout: str = ""
    constraints: tuple[str, ...] = ()  # pip's
    uv_constraints: tuple[str, ...] = ()  # those of UV_CONSTRAINT, which uv reads by itself
    mirrors: Mapping[str, str] = field(default_factory=dict)
    uv_settings: Mapping[str, Any] = field(default_factory=dict)  # of the project that the user stands in
    environ: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # settings that can't be honoured, and why

    def __repr__(self) -> str:
        return f"Sources(default={self.default!r}, extra={self.extra!r}, find_links={self.find_links!r})"

    def mirrored(self, url: str) -> str:
        """`url` where the user's mirror has it; the same URL where there is none. May hold credentials."""
        if url == "pypi":
            url = PYPI
            if self.default is not None:
                return self.default.url
        for key, mirror in sorted(self.mirrors.items(), key=lambda item: -len(item[0])):
            prefix = key.rstrip("/") if "://" in key else _prefix_of(url, key)
            if prefix and (url == prefix or url.startswith(prefix + "/")):
                return mirror.rstrip("/") + url[len(prefix) :]
        return url


def mirror_hint(index: str) -> str:
    """How to name another place for what an index of the matrix could not deliver."""
    variable = "PIP_INDEX_URL" if index == "pypi" else "ENVKIT_PYTORCH_MIRROR"
    return f"name a mirror ({variable}=https://..., or [mirrors] in envkit.toml) or a folder of wheels (PIP_FIND_LINKS=/path)"


def _prefix_of(url: str, word: str) -> str:
    """What a mirror for the short name `word` stands for: the host that bears the name, and the first folder there."""
    parts = urlsplit(url)
    if word.lower() not in (parts.hostname or "").split("."):
        return ""
    first = parts.path.strip("/").split("/")[0]
    return f"{parts.scheme}://{parts.netloc}" + (f"/{first}" if first else "")


# ---- credentials -------------------------------------------------------------------------------------------------


def redact(text: str) -> str:
    """`text` without the user names and passwords of the URLs in it."""
    return re.sub(r"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s@]*@", r"\1***@", _redact_odd(text))


def _redact_odd(text: str) -> str:
    # A password that was never escaped may hold "/" and "@"; when all of the text is one URL, its last "@" before a host decides.
    found = re.fullmatch(r"(\w[\w+.-]*://)([^\s]*)@([^/@\s]+(?:/\S*)?)", text)
    return f"{found[1]}***@{found[3]}" if found and ":" in found[2] and "/" not in found[2].split(":")[0] else text


def _redact_bare(text: str) -> str:
    """`redact` for what should be a URL and may lack its scheme."""
    return redact(text) if "://" in text else re.sub(r"^[^\s/]*@", "***@", text)


def credentials(url: str) -> tuple[str, str, str]:
    """The URL without credentials, and its user name and password, unescaped."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url, "", ""
    userinfo, _, host = parts.netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    return urlunsplit(parts._replace(netloc=host)), unquote(user), unquote(password)


# ---- reading -----------------------------------------------------------------------------------------------------


def read_sources(environ: Mapping[str, str] | None = None, cwd: Path | None = None) -> Sources:
    """The sources that this user's settings name. Raises InvalidFile with every fault of a settings file."""
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    pip = _Pip(environ)
    uv = _Uv(environ, cwd)
    default, extra, find_links = _merge(pip, uv, cwd)
    return Sources(
        default=default,
        extra=extra,
        find_links=find_links,
        no_index=pip.flag("no-index") or uv.flag("no-index", "UV_NO_INDEX"),
        offline=uv.flag("offline", "UV_OFFLINE"),
        certificates=pip.path("cert"),
        client_certificate=pip.path("client-cert"),
        trusted_hosts=(*pip.words("trusted-host"), *uv.words("allow-insecure-host", "UV_INSECURE_HOST")),
        proxy=pip.text("proxy"),
        timeout=pip.text("timeout") or pip.text("default-timeout"),
        constraints=_foreign(_absolute(word, cwd) for word in pip.words("constraint")),
        uv_constraints=_foreign(_absolute(word, cwd) for word in environ.get("UV_CONSTRAINT", "").split()),
        mirrors=_read_mirrors(environ, cwd),
        uv_settings=uv.carried(),
        environ=dict(environ),
        notes=tuple(note for place in find_links if (note := _unusable(place))),
    )


def _merge(pip: _Pip, uv: _Uv, cwd: Path) -> tuple[Index | None, tuple[Index, ...], tuple[Index, ...]]:
    default = next((index for index in uv.indexes if index.default), None)
    extra = [index for index in uv.indexes if not index.default]
    if default is None and (url := pip.text("index-url") or pip.text("pypi-url")):
        default = Index(url=_absolute(url, cwd), default=True, origin=pip.origin("index-url"))
    extra += [Index(url=_absolute(word, cwd), origin=pip.origin("extra-index-url")) for word in pip.words("extra-index-url")]
    links = [*uv.find_links]
    links += [Index(url=_absolute(word, cwd), flat=True, origin=pip.origin("find-links")) for word in pip.words("find-links")]
    return default, _once(extra), _once(links)


def _once(indexes: Sequence[Index]) -> tuple[Index, ...]:
    """Each place once; uv's own mention of it wins, since uv needs no second one."""
    kept: dict[str, Index] = {}
    for index in indexes:
        kept.setdefault(index.url.rstrip("/"), index)
    return tuple(kept.values())


def _absolute(place: str, base: Path) -> str:
    """A place as it can be used from any folder: URLs as they are, paths absolute."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", place):
        return place
    return str((base / Path(place).expanduser()).absolute())


def _foreign(files: Iterable[str]) -> tuple[str, ...]:
    """The constraint files that are not the pins of an environment of ours: an activated one must not bind the next."""
    kept = []
    for file in files:
        path = local_path(file)
        if path is None or path.parts[-2:] != ("envkit", "constraints.txt") or not (path.parent / "state.json").exists():
            kept.append(file)
    return tuple(kept)


def local_path(place: str) -> Path | None:
    """The path that a path or a file: URL names; None for anything else."""
    if place.lower().startswith("file:"):
        from urllib.request import url2pathname

        return Path(url2pathname(urlsplit(place).path))
    return None if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", place) else Path(place)


def _unusable(place: Index) -> str:
    path = local_path(place.url)
    if path is None or path.is_dir():
        return ""
    if not path.exists():
        return f"{place.shown} ({place.origin}) does not exist"
    return f"{place.shown} ({place.origin}) is not a folder: uv reads folders and pages of wheels only"


class _Pip:
    """pip's settings as `pip install` sees them: environment over files, [install] over [global], later files over earlier."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._values: dict[tuple[str, str], tuple[str, str]] = {}
        for file in _pip_files(environ):
            for key, value in _read_ini(file):
                # An environment of ours holds pip to its own pins; that must not hide the user's constraints.
                if key[1] != "constraint" or _foreign(value.split()):
                    self._values[key] = (value, str(file))

    def _found(self, key: str) -> tuple[str, str]:
        name = "PIP_" + key.upper().replace("-", "_")
        if self._environ.get(name):
            return self._environ[name], name
        for section in ("install", "global"):
            for spelling in (key, key.replace("-", "_")):
                if (section, spelling) in self._values:
                    return self._values[section, spelling]
        return "", ""

    def text(self, key: str) -> str:
        return self._found(key)[0].strip()

    def words(self, key: str) -> tuple[str, ...]:
        return tuple(self._found(key)[0].split())

    def path(self, key: str) -> str:
        text = self.text(key)
        return str(Path(text).expanduser()) if text else ""

    def flag(self, key: str) -> bool:
        return self.text(key).lower() in ("1", "true", "yes", "on", "y", "t")

    def origin(self, key: str) -> str:
        return self._found(key)[1]


def _pip_files(environ: Mapping[str, str]) -> Iterator[Path]:
    """pip's configuration files that exist, weakest first."""
    named = environ.get("PIP_CONFIG_FILE", "")
    if named == os.devnull:
        return
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    files: list[Path] = []
    if sys.platform == "win32":
        files += [Path(environ.get("PROGRAMDATA", r"C:\ProgramData")) / "pip" / "pip.ini"]
        personal = [home / "pip" / "pip.ini", Path(environ.get("APPDATA", home)) / "pip" / "pip.ini"]
    else:
        folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
        if sys.platform == "darwin":
            folders = ["/Library/Application Support"]
        files += [Path(folder) / "pip" / "pip.conf" for folder in folders if folder] + [_SYSTEM_PIP]
        own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "pip" / "pip.conf"
        mac = home / "Library" / "Application Support" / "pip"
        if sys.platform == "darwin" and mac.is_dir():
            own = mac / "pip.conf"
        personal = [home / ".pip" / "pip.conf", own]
    ini = "pip.ini" if sys.platform == "win32" else "pip.conf"
    files += personal
    # The environment that the user works in has pip's "site" settings; pip itself lets them win over the user's.
    if environ.get("VIRTUAL_ENV"):
        files.append(Path(environ["VIRTUAL_ENV"]) / ini)
    if named:
        files.append(Path(named))
    seen: set[Path] = set()
    for file in files:
        if file not in seen and file.is_file():
            seen.add(file)
            yield file


def _read_ini(file: Path) -> Iterator[tuple[tuple[str, str], str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8"), source=str(file))
    except (configparser.Error, UnicodeDecodeError) as fault:
        raise InvalidFile(f"{file}: not readable as pip's settings", faults=[redact(str(fault))]) from None
    except OSError:
        return  # pip, too, passes over settings that it may not read
    for section in ("global", "install"):
        if parser.has_section(section):
            for key, value in parser.items(section):
                yield (section, key), value


class _Uv:
    """uv's settings: environment, the user's and the system's files (uv reads those by itself), and the project's."""

    def __init__(self, environ: Mapping[str, str], cwd: Path) -> None:
        self._environ = environ
        self._levels: list[tuple[Mapping[str, Any], Path, bool]] = []  # settings, file, whether uv will see it by itself
        if named := environ.get("UV_CONFIG_FILE"):
            self._add(cwd / named, own=False)
        elif not environ.get("UV_NO_CONFIG"):
            if (project := _project_file(cwd)) is not None:
                self._add(project, own=False)
            for file in _uv_files(environ):
                if file.is_file():
                    self._add(file, own=True)
                    break  # of the user's level only the first is read; the system's below is another
            for file in _system_uv_files(environ):
                if file.is_file():
                    self._add(file, own=True)
                    break
        self.indexes = tuple(self._read_indexes(cwd))
        self.find_links = tuple(self._read_find_links(cwd))

    def _add(self, file: Path, *, own: bool) -> None:
        settings = read_toml(file)
        if file.name == "pyproject.toml":
            settings = settings.get("tool", {}).get("uv", {})
        if not isinstance(settings, dict):
            raise InvalidFile(f"{file}: tool.uv: expected a table")
        pip = settings.get("pip", {})
        self._levels.append(({**settings, **(pip if isinstance(pip, dict) else {})}, file, own))

    def _read_indexes(self, cwd: Path) -> Iterator[Index]:
        env = self._environ
        faults: list[str] = []
        for variable, default in (
            ("UV_DEFAULT_INDEX", True),
            ("UV_INDEX_URL", True),
            ("UV_INDEX", False),
            ("UV_EXTRA_INDEX_URL", False),
        ):
            for word in env.get(variable, "").split():
                named = re.match(r"([A-Za-z0-9_-]+)=(.+)", word)
                name, url = (named[1], named[2]) if named else ("", word)
                yield Index(url=_absolute(url, cwd), name=name, default=default, origin=variable, known_to_uv=True)
        for settings, file, own in self._levels:
            for number, row in enumerate(_rows(settings.get("index", []))):
                if not isinstance(row, dict) or not isinstance(row.get("url"), str):
                    faults.append(f"{file}: index[{number}].url: expected text")
                    continue
                yield Index(
                    url=_absolute(row["url"], file.parent),
                    name=str(row.get("name", "")),
                    default=bool(row.get("default", False)),
                    explicit=bool(row.get("explicit", False)),
                    flat=row.get("format") == "flat",
                    origin=str(file),
                    known_to_uv=own,
                )
            if isinstance(url := settings.get("index-url"), str):
                yield Index(url=_absolute(url, file.parent), default=True, origin=str(file), known_to_uv=own)
            for url in _texts(settings.get("extra-index-url"), f"{file}: extra-index-url", faults):
                yield Index(url=_absolute(url, file.parent), origin=str(file), known_to_uv=own)
        if faults:
            raise InvalidFile("uv's settings can't be read", faults=faults)

    def _read_find_links(self, cwd: Path) -> Iterator[Index]:
        faults: list[str] = []
        for word in re.split(r"[,\s]+", self._environ.get("UV_FIND_LINKS", "")):
            if word:
                yield Index(url=_absolute(word, cwd), flat=True, origin="UV_FIND_LINKS", known_to_uv=True)
        for settings, file, own in self._levels:
            for place in _texts(settings.get("find-links"), f"{file}: find-links", faults):
                yield Index(url=_absolute(place, file.parent), flat=True, origin=str(file), known_to_uv=own)
        if faults:
            raise InvalidFile("uv's settings can't be read", faults=faults)

    def flag(self, key: str, variable: str) -> bool:
        if variable in self._environ:
            return self._environ[variable].lower() in ("1", "true", "yes", "on", "y", "t")
        return next((bool(settings[key]) for settings, _, _ in self._levels if key in settings), False)

    def words(self, key: str, variable: str) -> tuple[str, ...]:
        found = tuple(self._environ.get(variable, "").split())
        for settings, _, _ in self._levels:
            value = settings.get(key, [])
            found += tuple(str(word) for word in (value if isinstance(value, list) else [value]))
        return found

    def carried(self) -> dict[str, Any]:
        """The settings of a file that uv, started in a folder of ours, would not find."""
        kept: dict[str, Any] = {}
        for settings, file, own in self._levels:
            if own:
                continue
            for key in _CARRIED:
                if key in settings and key not in kept:
                    value = settings[key]
                    kept[key] = _absolute(value, file.parent) if key == "cache-dir" and isinstance(value, str) else value
        return kept


def _rows(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else [value]


def _texts(value: Any, where: str, faults: list[str]) -> list[str]:
    if value is None:
        return []
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return value
    faults.append(f"{where}: expected a list of texts")
    return []


def _project_file(cwd: Path) -> Path | None:
    """The uv.toml, or the pyproject.toml with [tool.uv], that uv would take for `cwd`."""
    for folder in (cwd, *cwd.parents):
        if (folder / "uv.toml").is_file():
            return folder / "uv.toml"
        project = folder / "pyproject.toml"
        try:
            # Most projects say nothing of uv: spare them the parser.
            if project.is_file() and "tool.uv" in project.read_text(encoding="utf-8", errors="replace"):
                return project
        except OSError:
            continue
    return None


def _uv_files(environ: Mapping[str, str]) -> list[Path]:
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    if sys.platform == "win32":
        return [Path(environ.get("APPDATA", home)) / "uv" / "uv.toml"]
    return [Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "uv" / "uv.toml"]


def _system_uv_files(environ: Mapping[str, str]) -> list[Path]:
    if sys.platform == "win32":
        return [Path(environ.get("PROGRAMDATA", r"C:\ProgramData")) / "uv" / "uv.toml"]
    folders = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)
    return [*(Path(folder) / "uv" / "uv.toml" for folder in folders if folder), _SYSTEM_UV]


def read_toml(file: Path) -> dict[str, Any]:
    """The content of a TOML file; raises InvalidFile naming the place of the fault."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise InvalidFile(f"{file}: not readable as TOML", faults=[redact(f"{file}: {fault}")]) from None
    except FileNotFoundError:
        raise InvalidFile(f"{file}: there is no such file", hint="correct the setting that names it (UV_CONFIG_FILE)") from None


def _read_mirrors(environ: Mapping[str, str], cwd: Path) -> dict[str, str]:
    """[mirrors] of the user's and the folder's envkit.toml, the folder's winning, and ENVKIT_PYTORCH_MIRROR above both."""
    home = Path(environ.get("HOME") or environ.get("USERPROFILE") or Path.home())
    mirrors: dict[str, str] = {}
    for file in (Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "envkit" / "envkit.toml", cwd / "envkit.toml"):
        if not file.is_file():
            continue
        table = read_toml(file).get("mirrors", {})
        faults = [*_mirror_faults(table, file)]
        if faults:
            raise InvalidFile(f"{file}: {len(faults)} fault{'s' if len(faults) > 1 else ''} in [mirrors]", faults=faults)
        mirrors.update(table)
    if url := environ.get("ENVKIT_PYTORCH_MIRROR", "").strip():
        if not _is_url(url):
            raise InvalidFile(
                f"ENVKIT_PYTORCH_MIRROR: not a URL: {_redact_bare(url)!r}",
                hint="give the URL that stands for the PyTorch index, with https:// or file://",
            )
        mirrors["pytorch"] = url
    return mirrors


def _mirror_faults(table: Any, file: Path) -> Iterator[str]:
    if not isinstance(table, dict):
        yield f"{file}: mirrors: expected a table, got {type(table).__name__}"
        return
    for key, value in table.items():
        shown = f'"{redact(key)}"' if "://" in key or "." in key else key
        if not isinstance(value, str):
            yield f"{file}: mirrors.{shown}: expected text, got {type(value).__name__}"
        elif not _is_url(value):
            yield f"{file}: mirrors.{shown}: not a URL: {_redact_bare(value)!r}"


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return (parts.scheme in ("http", "https") and bool(parts.hostname)) or (parts.scheme == "file" and bool(parts.path))


def with_find_links(sources: Sources, places: Sequence[Path | str]) -> Sources:
    """`sources` with further folders or pages of wheels, which come first."""
    added = tuple(Index(url=_absolute(str(place), Path.cwd()), flat=True, origin="--find-links") for place in places)
    return replace(sources, find_links=_once([*added, *sources.find_links]))
