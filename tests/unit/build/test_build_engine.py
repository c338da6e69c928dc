"""The engine is looked at before anything is built, and what is wrong with it is said with a remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from envkit.build import engine
from envkit.errors import Unavailable
from envkit.process import Completed

BUILDX = "github.com/docker/buildx v0.13.1 788433953af10f2a698f5c07611dddce2e08c7a0\n"
INSPECT = "Name:          default\nDriver:        docker\nLast Activity: 2026-11-30\n\nNodes:\nName: default\n"


def answers(plugin: Completed, inspect: str = INSPECT) -> Any:
    def run(argv: Sequence[str], *, limit: float = 30.0) -> Completed:
        if list(argv[:3]) == ["docker", "buildx", "version"]:
            return plugin
        if list(argv[:3]) == ["docker", "buildx", "inspect"]:
            return Completed(argv=tuple(argv), returncode=0, stdout=inspect)
        return Completed(argv=tuple(argv), returncode=1)

    return run


def version(**changes: str) -> dict[str, str]:
    return {"Version": "26.1.5", "Os": "linux", "Arch": "amd64", **changes}


@pytest.fixture
def engine_says(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replaces the SDK's client by one that answers with these facts."""

    def say(facts: dict[str, str]) -> None:
        class Client:
            def version(self) -> dict[str, str]:
                return facts

        @contextmanager
        def client(*_: object) -> Iterator[Client]:
            yield Client()

        monkeypatch.setattr(engine, "_client", client)

    return say


def plugin(returncode: int | None = 0, stdout: str = BUILDX, stderr: str = "", missing: bool = False) -> Completed:
    return Completed(argv=("docker",), returncode=returncode, stdout=stdout, stderr=stderr, missing=missing)


def test_an_engine_that_will_do(engine_says: Any) -> None:
    engine_says(version())
    found = engine.look(answers(plugin()), "linux")
    assert found == engine.Engine(version="26.1.5", arch="x86_64", buildx="v0.13.1", driver="docker")


def test_the_processor_is_named_as_the_matrix_names_it(engine_says: Any) -> None:
    engine_says(version(Arch="arm64"))
    assert engine.look(answers(plugin()), "darwin").arch == "aarch64"


@pytest.mark.parametrize(
    ("facts", "ran", "platform", "message", "hint"),
    [
        (
            version(),
            plugin(None, "", missing=True),
            "linux",
            "docker is missing, which builds images",
            "install Docker Engine: https://docs.docker.com/engine/install/ "
            "(Debian, Ubuntu: apt install docker.io docker-buildx)",
        ),
        (
            version(),
            plugin(None, "", missing=True),
            "win32",
            "docker is missing, which builds images",
            "install Docker Desktop: https://docs.docker.com/desktop/ "
            "(an image needs Linux; `envkit up` makes a venv without it)",
        ),
        (
            version(),
            plugin(1, "", "docker: unknown command: docker buildx"),
            "linux",
            "docker has no buildx, through which images are built",
            "install it: apt install docker-buildx (from Docker's own repository: docker-buildx-plugin)",
        ),
        (
            version(),
            plugin(1, "", "docker: unknown command: docker buildx\n\nRun"),
            "darwin",
            "docker has no buildx, through which images are built",
            "it is part of Docker Desktop; update that (docker said: docker: unknown command: docker buildx)",
        ),
        (
            version(Os="windows"),
            plugin(),
            "win32",
            "the Docker engine runs Windows containers, and images of envkit are for Linux",
            "switch Docker Desktop to Linux containers (its tray menu), or build under WSL2",
        ),
        (
            version(Version="20.10.24"),
            plugin(),
            "linux",
            "Docker Engine 20.10.24 is too old: its BuildKit knows no named build contexts, Docker Engine 23 does",
            "update it, or make a builder with a newer BuildKit: docker buildx create --driver docker-container --use",
        ),
    ],
)
def test_what_is_wrong_is_said_with_a_remedy(
    engine_says: Any, facts: dict[str, str], ran: Completed, platform: str, message: str, hint: str
) -> None:
    engine_says(facts)
    with pytest.raises(Unavailable) as caught:
        engine.look(answers(ran), platform)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(("number", "fits"), [("22.0.6", False), ("23.0.0", True), ("29.1", True), ("dev", True)])
def test_the_oldest_engine_that_will_do(engine_says: Any, number: str, fits: bool) -> None:
    engine_says(version(Version=number))
    if fits:
        assert engine.look(answers(plugin()), "linux").version == number
    else:
        with pytest.raises(Unavailable):
            engine.look(answers(plugin()), "linux")


def test_an_old_engine_will_do_with_a_builder_of_its_own(engine_says: Any) -> None:
    engine_says(version(Version="20.10.24"))
    own = INSPECT.replace("Driver:        docker\n", "Driver:        docker-container\n")
    assert engine.look(answers(plugin(), own), "linux").driver == "docker-container"


@pytest.mark.parametrize("text", ["", "ERROR: no builder", "Driver"])
def test_a_builder_that_says_nothing_is_the_engines_own(text: str) -> None:
    assert engine.builder_driver(Completed(argv=(), returncode=0, stdout=text)) == "docker"


@pytest.mark.parametrize(
    ("fault", "platform", "message", "hint"),
    [
        (
            "Error while fetching server API version: ('Connection aborted.', PermissionError(13, 'Permission denied'))",
            "linux",
            "this user may not talk to the Docker engine at unix:///var/run/docker.sock",
            "join its group and log in again: sudo usermod -aG docker $USER",
        ),
        (
            "Error while fetching server API version: ('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))",
            "linux",
            "no Docker engine answers at unix:///var/run/docker.sock",
            "start it: sudo systemctl start docker (under WSL2 without systemd: sudo service docker start, or Docker Desktop)",
        ),
        (
            "('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))",
            "darwin",
            "no Docker engine answers at unix:///var/run/docker.sock",
            "start Docker Desktop and wait until it says that the engine is running",
        ),
        (
            "(2, 'CreateFile', 'The system cannot find the file specified.')",
            "win32",
            "no Docker engine answers at unix:///var/run/docker.sock",
            "start Docker Desktop and wait until it says that the engine is running",
        ),
        (
            "TLS is misconfigured",
            "linux",
            "the Docker engine at unix:///var/run/docker.sock could not be asked: TLS is misconfigured",
            "see what `docker info` says",
        ),
    ],
)
def test_an_engine_that_does_not_answer(fault: str, platform: str, message: str, hint: str) -> None:
    error = engine.no_engine(Exception(fault), platform, "unix:///var/run/docker.sock")
    assert (error.message, error.hint, error.exit_code) == (message, hint, 5)


def test_the_sdks_faults_become_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    import docker

    def refuse(*_args: object, **_more: object) -> object:
        raise docker.errors.DockerException("Error: FileNotFoundError(2, 'No such file or directory')")

    monkeypatch.setattr(docker, "DockerClient", refuse)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    with pytest.raises(Unavailable, match="no Docker engine answers at unix:///nowhere"):
        engine.look(answers(plugin()), "linux")
