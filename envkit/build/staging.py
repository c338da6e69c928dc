"""Lays out what a build needs in a folder of its own: contexts, secrets, the files of its image, and the command."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from envkit.build.deciding import Decision, fits_container
from envkit.model import dotted
from envkit.render.bake import Target, bake
from envkit.render.image import image_files, image_tags, probe_text
from envkit.sources import Index, Sources, installation
from envkit.sources.settings import local_path

# BuildKit takes no larger secret.
_LARGEST_SECRET = 500 * 1024

# What Docker's builder hands to every step without keeping it.
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")

# What a folder of wheels may hold besides those that fit, and still be handed over as it is.
_LITTLE = 64 * 1024 * 1024

# uv's settings that say how to reach packages and are neither files nor folders of this machine.
_CARRIED = ("UV_CONCURRENT_DOWNLOADS", "UV_HTTP_TIMEOUT", "UV_INDEX_STRATEGY", "UV_PYTHON_INSTALL_MIRROR", "UV_REQUEST_TIMEOUT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to build."""

    tags: tuple[str, ...] = ()  # instead of the usual ones; "{scheme}" stands for the scheme
    push: bool = False
    no_cache: bool = False
    prune: bool = True


def tags_of(decision: Decision, options: Options) -> tuple[str, ...]:
    """The names that the image gets."""
    if options.tags:
        return tuple(tag.replace("{scheme}", decision.plan.scheme) for tag in options.tags)
    return image_tags(decision.plan)


# ---- sources -----------------------------------------------------------------------------------------------------


def detach(sources: Sources) -> tuple[Sources, list[str]]:
    """The sources as a container can use them, and what it cannot: folders of packages stay on this machine."""
    notes: list[str] = []

    def usable(index: Index | None) -> Index | None:
        if index is None or local_path(index.url) is None:
            # In the container uv finds none of the settings that it finds here by itself.
            return index and replace(index, known_to_uv=False)
        notes.append(f"{index.shown} ({index.origin}) is a folder of this machine; the build does without it")
        return None

    environ = {
        key: value
        for key, value in sources.environ.items()
        if key in _CARRIED or (key.startswith("UV_INDEX_") and key.endswith(("_USERNAME", "_PASSWORD")))
    }
    return (
        replace(
            sources,
            default=usable(sources.default),
            extra=tuple(index for found in sources.extra if (index := usable(found)) is not None),
            find_links=tuple(replace(index, known_to_uv=False) for index in sources.find_links),
            constraints=(),
            uv_settings={key: value for key, value in sources.uv_settings.items() if key not in ("cache-dir", "link-mode")},
            environ=environ,
        ),
        notes,
    )


def wheel_folders(sources: Sources) -> tuple[Path, ...]:
    """The folders of wheels on this machine that the settings name."""
    paths = (local_path(index.url) for index in sources.find_links)
    return tuple(path for path in paths if path is not None and path.is_dir())


def at_hand(decision: Decision) -> tuple[str, ...]:
    """The plan's pins whose wheels lie in a folder of this machine."""
    from packaging.utils import canonicalize_name

    pins = []
    for package in decision.plan.packages:
        places = decision.found.places_of(canonicalize_name(package.name), package.version)
        if places and places[0].find_links and local_path(places[0].place) is not None:
            pins.append(package.requirement)
    return tuple(pins)


def certificates(sources: Sources, default: str | None = None) -> str:
    """The bundle that this machine's tools trust; "" where there is none to be read."""
    default = ssl.get_default_verify_paths().cafile if default is None else default
    environ = sources.environ
    named = (environ.get("SSL_CERT_FILE"), sources.certificates, environ.get("REQUESTS_CA_BUNDLE"), default)
    return next((path for path in named if path and Path(path).is_file()), "")


def netrc(environ: Mapping[str, str]) -> str:
    """The file of logins that pip and uv read; "" where there is none."""
    home = environ.get("HOME") or environ.get("USERPROFILE") or ""
    path = environ.get("NETRC") or (str(Path(home) / ".netrc") if home else "")
    return path if path and Path(path).is_file() else ""


def reaches_this_host(sources: Sources, environ: Mapping[str, str]) -> bool:
    """Whether an index or proxy is meant that only this machine itself can reach, by its loopback address."""
    urls = [index.url for index in (sources.default, *sources.extra, *sources.find_links) if index is not None]
    urls += [*sources.mirrors.values(), sources.proxy]
    urls += [environ.get(spelling, "") for name in _PROXIES if name != "NO_PROXY" for spelling in (name, name.lower())]
    hosts = {urlsplit(url if "//" in url else f"//{url}").hostname for url in urls if url}
    return any(host == "localhost" or (host or "").startswith("127.") or host == "::1" for host in hosts)


def settings_text(values: Mapping[str, str]) -> str:
    """Shell lines that export settings."""
    return "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(values.items()))


# ---- the folder --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Staged:
    """A folder from which images can be built."""

    folder: Path
    targets: tuple[Target, ...]
    environment: Mapping[str, str]  # to be added to that of the docker command
    notes: tuple[str, ...] = ()

    @property
    def metadata(self) -> Path:
        """Where the builder writes what it made."""
        return self.folder / "metadata.json"


def stage(decisions: Sequence[Decision], sources: Sources, options: Options, folder: Path, uv: Path | None) -> Staged:
    """Writes into `folder` (which is this user's alone) all that the build of these images needs."""
    context = folder / "images"
    detached, notes = detach(sources)
    contexts: dict[str, str] = {}
    if uv is not None and runs_in_container(uv, machine_of(decisions[0])):
        put(uv, folder / "uv" / "uv")
        contexts["uv"] = str(folder / "uv")
    folders = wheel_folders(sources)
    if folders:
        contexts["wheels"] = str(stage_wheels(folders, folder / "wheels", decisions))
    secrets = _shared_secrets(sources, folder, notes)
    host = reaches_this_host(sources, sources.environ)
    write(context / "probe.py", probe_text())
    targets = []
    for decision in decisions:
        plan = decision.plan
        files = image_files(plan, decision.scheme, decision.platform, partners=decision.partners, prune=options.prune)
        for place, text in files.items():
            write(context / place, text)
        moved = {str(path): "/run/wheels" for path in folders}
        install = installation(detached, plan, decision.found, decision.partners, moved)
        settings = {**_settings(detached), **_uv_settings(detached, install.environment), "AT_HAND": " ".join(at_hand(decision))}
        if held := _constraints(sources):
            # Part of the context: other constraints make another image.
            write(context / plan.scheme / "plan" / "more-constraints.txt", held)
            settings["UV_CONSTRAINT"] = "/opt/envkit/constraints.txt /run/plan/more-constraints.txt"
        own = folder / "secrets" / plan.scheme
        write(own / "pyproject.toml", install.project)
        write(own / "settings", settings_text(settings))
        targets.append(
            Target(
                name=plan.scheme,
                context=str(context),
                dockerfile=f"{plan.scheme}/Dockerfile",
                tags=tags_of(decision, options),
                contexts=contexts,
                secrets=(f"id=project,src={own / 'pyproject.toml'}", f"id=settings,src={own / 'settings'}", *secrets),
                args=dict.fromkeys(proxies_of(sources)),
                no_cache=options.no_cache,
                network="host" if host else "",
            )
        )
    proxy = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), sources.proxy) if sources.proxy else {}
    return Staged(
        folder=folder,
        targets=tuple(targets),
        # The plan's files lie in a temporary folder, which newer releases of bake would ask about.
        environment={**proxy, "BUILDX_BAKE_ENTITLEMENTS_FS": "0"},
        notes=tuple(notes),
    )


def command(staged: Staged, options: Options, buildx: str = "") -> list[str]:
    """The docker command that builds what is staged, for that release of buildx."""
    watched = ["--progress", "rawjson", "--metadata-file", str(staged.metadata)]
    # An attestation would tell of this machine's ways, and makes an index of what is one image.
    watched += ["--provenance", "false", "--push" if options.push else "--load"]
    if len(staged.targets) > 1:
        write(staged.folder / "bake.json", bake(staged.targets))
        # Since 0.18 bake asks to be allowed what build asks to be allowed, and before it does not know the option.
        networks = {target.network for target in staged.targets if target.network} if _number(buildx) >= (0, 18) else set()
        allowed = [part for network in sorted(networks) for part in ("--allow", f"network.{network}")]
        return ["docker", "buildx", "bake", *watched, *allowed, "--file", str(staged.folder / "bake.json")]
    target = staged.targets[0]
    argv = ["docker", "buildx", "build", *watched, "--file", str(Path(target.context) / target.dockerfile)]
    argv += [part for tag in target.tags for part in ("--tag", tag)]
    argv += [part for name, place in target.contexts.items() for part in ("--build-context", f"{name}={place}")]
    argv += [part for secret in target.secrets for part in ("--secret", secret)]
    argv += [part for name in target.args for part in ("--build-arg", name)]
    if target.network:
        argv += ["--network", target.network, "--allow", f"network.{target.network}"]
    if target.no_cache:
        argv += ["--no-cache"]
    return [*argv, target.context]


def _number(version: str) -> tuple[int, ...]:
    """The release in "v0.13.1", as numbers; () where there is none."""
    found = dotted(version)
    return found.key if found else ()


def proxies_of(sources: Sources) -> tuple[str, ...]:
    """The names of the proxy variables that are set; docker reads their values from its own environment."""
    named = [spelling for name in _PROXIES for spelling in (name, name.lower()) if sources.environ.get(spelling)]
    return tuple(dict.fromkeys([*named, *(("HTTP_PROXY", "HTTPS_PROXY") if sources.proxy else ())]))


def machine_of(decision: Decision) -> str:
    """The processor that the container is for."""
    return decision.plan.platform.rpartition("/")[2]


def _settings(sources: Sources) -> dict[str, str]:
    """pip's settings for the one step that uses pip: getting uv where none is brought along."""
    extra = [index.url for index in sources.extra if not index.explicit]
    values = {
        "PIP_INDEX_URL": sources.default.url if sources.default else sources.mirrored("pypi"),
        "PIP_EXTRA_INDEX_URL": " ".join(extra),
        "PIP_TRUSTED_HOST": " ".join(sources.trusted_hosts),
        "PIP_DEFAULT_TIMEOUT": sources.timeout,
    }
    return {name: value for name, value in values.items() if value}


def _uv_settings(sources: Sources, environment: Mapping[str, str]) -> dict[str, str]:
    """uv's settings that are no part of the project file. Certificates and proxies have ways of their own."""
    own = {key: value for key, value in environment.items() if not key.startswith("SSL_") and not key.endswith("_PROXY")}
    return {**sources.environ, **own}


def _constraints(sources: Sources) -> str:
    """The user's own constraints, put together."""
    texts = []
    for file in (*sources.constraints, *sources.environ.get("UV_CONSTRAINT", "").split()):
        path = local_path(file)
        if path is not None and path.is_file():
            texts.append(path.read_text(encoding="utf-8", errors="replace").rstrip("\n") + "\n")
    return "".join(texts)


def _shared_secrets(sources: Sources, folder: Path, notes: list[str]) -> tuple[str, ...]:
    """The secrets that all images of one build share."""
    named = {
        "ca": certificates(sources),
        "client": sources.environ.get("SSL_CLIENT_CERT") or sources.client_certificate,
        "netrc": netrc(sources.environ),
    }
    secrets = []
    for name, path in named.items():
        if not path or not Path(path).is_file():
            continue
        if Path(path).stat().st_size > _LARGEST_SECRET:
            notes.append(
                f"{path} is larger than BuildKit takes as a secret ({_LARGEST_SECRET // 1024} KiB); the build does without it"
            )
            continue
        if "," in path:
            # The option's own separator.
            put(Path(path), folder / "secrets" / name)
            path = str(folder / "secrets" / name)
        secrets.append(f"id={name},src={path}")
    return tuple(secrets)


def stage_wheels(folders: Sequence[Path], staging: Path, decisions: Sequence[Decision]) -> Path:
    """A folder with the wheels that fit the containers: the user's own where there is little else in it.

    The builder copies all of a context, and keeps it between builds by its path.
    """
    chosen = [entry for folder in folders for entry in _fitting(folder, decisions)]
    if len(folders) == 1:
        wanted = sum(entry.stat().st_size for entry in chosen)
        entries = list(os.scandir(folders[0]))
        if not any(entry.is_dir() for entry in entries):
            rest = sum(entry.stat().st_size for entry in entries) - wanted
            if rest <= max(_LITTLE, wanted // 10):
                return folders[0]
    staging.mkdir(parents=True)
    for entry in chosen:
        if not (staging / entry.name).exists():
            put(entry, staging / entry.name)
    return staging


def _fitting(folder: Path, decisions: Sequence[Decision]) -> list[Path]:
    from packaging.utils import InvalidWheelFilename, parse_wheel_filename
    from packaging.version import InvalidVersion

    found = []
    for entry in sorted(folder.glob("*.whl")):
        with contextlib.suppress(InvalidWheelFilename, InvalidVersion):
            tags = [str(tag) for tag in parse_wheel_filename(entry.name)[3]]
            if any(fits_container(tags, decision.plan.python, machine_of(decision)) for decision in decisions):
                found.append(entry)
    return found


def runs_in_container(program: Path, machine: str) -> bool:
    """Whether a program of this machine runs in a plain Linux container for that processor."""
    with program.open("rb") as file:
        head = file.read(4096)
    if head[:4] != b"\x7fELF" or b"/nix/store/" in head:
        return False
    return int.from_bytes(head[18:20], "little") == {"x86_64": 62, "aarch64": 183}.get(machine)


def write(path: Path, text: str) -> None:
    """Writes a file, with its folders, the same on every system."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def put(source: Path, place: Path) -> None:
    """The same file at another place, without a copy where the file system allows."""
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source.resolve(), place)
    except OSError:
        shutil.copy2(source, place)
