"""The door to the Docker SDK, and the tools that a build needs: looked at before anything is built."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from envkit.errors import EnvkitError, Unavailable
from envkit.process import Completed, Runner, run

if TYPE_CHECKING:
    from docker import DockerClient

# Docker Engine 23 (BuildKit 0.10) is the first that knows named build contexts.
OLDEST_ENGINE = 23

_ARCH_WORDS = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Engine:
    """The engine that answers."""

    version: str
    arch: str  # as the matrix says it: x86_64, aarch64
    buildx: str
    driver: str = "docker"  # of the builder in use


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """An image as the engine has it."""

    id: str
    size_bytes: int
    labels: Mapping[str, str] = field(default_factory=dict)


def look(runner: Runner = run, platform: str = sys.platform) -> Engine:
    """The engine and the builder that `docker` uses; raises Unavailable with what to do where a build cannot work."""
    plugin = runner(["docker", "buildx", "version"], limit=20)
    if plugin.missing:
        raise Unavailable("docker is missing, which builds images", hint=how_to_install(platform))
    with _client(runner, platform) as client:
        facts = client.version()
    version, arch = str(facts.get("Version", "")), str(facts.get("Arch", ""))
    if str(facts.get("Os", "linux")) != "linux":
        raise Unavailable(
            "the Docker engine runs Windows containers, and images of envkit are for Linux",
            hint="switch Docker Desktop to Linux containers (its tray menu), or build under WSL2",
        )
    if not plugin.ok:
        raise Unavailable(
            "docker has no buildx, through which images are built", hint=how_to_get_buildx(platform, plugin.stderr.strip())
        )
    driver = builder_driver(runner(["docker", "buildx", "inspect"], limit=60))
    number = version.split(".")[0]
    if driver == "docker" and number.isdecimal() and int(number) < OLDEST_ENGINE:
        raise Unavailable(
            f"Docker Engine {version} is too old: its BuildKit knows no named build contexts, Docker Engine {OLDEST_ENGINE} does",
            hint="update it, or make a builder with a newer BuildKit: docker buildx create --driver docker-container --use",
        )
    words = plugin.stdout.split()
    return Engine(version=version, arch=_ARCH_WORDS.get(arch, arch), buildx=words[1] if len(words) > 1 else "", driver=driver)


def builder_driver(shown: Completed) -> str:
    """The driver of the builder in use, from what `docker buildx inspect` prints; "docker" where it says nothing."""
    for line in shown.stdout.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "Driver" and value.strip():
            return value.strip()
    return "docker"


def image(name: str, runner: Runner = run) -> Image | None:
    """An image by name or id; None where the engine does not have it."""
    from docker.errors import ImageNotFound

    with _client(runner, sys.platform) as client:
        try:
            found = client.images.get(name)
        except ImageNotFound:
            return None
        return Image(id=str(found.id), size_bytes=int(found.attrs.get("Size", 0)), labels=dict(found.labels))


@contextlib.contextmanager
def _client(runner: Runner, platform: str) -> Iterator[DockerClient]:
    """A client of the engine that the docker command uses; its faults become errors with a remedy."""
    import docker
    from docker.errors import DockerException

    address = os.environ.get("DOCKER_HOST", "")
    if not address:
        # The command follows its own contexts (Docker Desktop, rootless, remote), of which the SDK knows nothing.
        shown = runner(["docker", "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"], limit=20)
        address = shown.stdout.strip() if shown.ok else ""
    client = None
    try:
        client = docker.DockerClient(base_url=address, timeout=60) if address else docker.from_env(timeout=60)
        yield client
    except (DockerException, OSError) as fault:  # requests' own are children of OSError
        raise no_engine(fault, platform, address) from fault
    finally:
        if client is not None:
            client.close()


def no_engine(fault: BaseException, platform: str, address: str) -> EnvkitError:
    """The error for an engine that could not be talked to."""
    text = str(fault)
    where = f" at {address}" if address else ""
    if "Permission denied" in text or "PermissionError" in text:
        return Unavailable(
            f"this user may not talk to the Docker engine{where}",
            hint="join its group and log in again: sudo usermod -aG docker $USER"
            if platform.startswith("linux")
            else "start Docker Desktop as this user",
        )
    if any(
        word in text for word in ("FileNotFoundError", "No such file", "Connection refused", "CreateFile", "ConnectionRefused")
    ):
        return Unavailable(f"no Docker engine answers{where}", hint=how_to_start(platform))
    return Unavailable(f"the Docker engine{where} could not be asked: {text}", hint="see what `docker info` says")


def how_to_install(platform: str) -> str:
    """How to get Docker on this OS."""
    if platform.startswith("linux"):
        return (
            "install Docker Engine: https://docs.docker.com/engine/install/ (Debian, Ubuntu: apt install docker.io docker-buildx)"
        )
    return "install Docker Desktop: https://docs.docker.com/desktop/ (an image needs Linux; `envkit up` makes a venv without it)"


def how_to_start(platform: str) -> str:
    """How to start the engine on this OS."""
    if platform.startswith("linux"):
        return "start it: sudo systemctl start docker (under WSL2 without systemd: sudo service docker start, or Docker Desktop)"
    return "start Docker Desktop and wait until it says that the engine is running"


def how_to_get_buildx(platform: str, said: str) -> str:
    """How to get the buildx plugin on this OS."""
    if platform.startswith("linux"):
        return "install it: apt install docker-buildx (from Docker's own repository: docker-buildx-plugin)"
    return "it is part of Docker Desktop; update that" + (f" (docker said: {said.splitlines()[0]})" if said else "")
