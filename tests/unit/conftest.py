"""The guard: a unit test that reaches for the network, a process or Docker fails, whatever the code around it catches."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

# Docker is reached through a socket or a process, so these two doors are enough.
SOCKET_CALLS = ("connect", "connect_ex", "sendto")
MODULE_CALLS = ((socket, "create_connection"), (socket, "getaddrinfo"), (socket, "gethostbyname"))
PROCESS_CALLS = (
    (os, "system"),
    (os, "popen"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (os, "fork"),
    (os, "execv"),
    (os, "execve"),
)


@pytest.fixture(autouse=True)
def guard(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Makes the doors to the outside fail; `pytest.fail` is no `Exception`, and a call in a thread is found at the end."""
    used: list[str] = []

    def closed(what: str) -> Callable[..., NoReturn]:
        def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
            used.append(what)
            pytest.fail(f"a unit test must not use {what}; tests/integration is the place for it")

        return refuse

    # A subclass, since the methods of the C type cannot be replaced.
    plain = socket.socket
    refusing = {name: closed(f"socket.{name}") for name in SOCKET_CALLS}
    monkeypatch.setattr(socket, "socket", type("socket", (plain,), refusing))
    monkeypatch.setattr(subprocess.Popen, "__init__", closed("subprocess"))
    for module, name in (*MODULE_CALLS, *PROCESS_CALLS):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, closed(f"{module.__name__}.{name}"))
    yield
    if used:
        pytest.fail(f"a unit test must not use {', '.join(sorted(set(used)))}")


@pytest.fixture(scope="session")
def unit_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One home for the whole run, so that caches work as they do for a user."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(autouse=True)
def own_home(unit_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the settings of whoever runs the tests out of them: home, XDG folders, pip's, uv's and envkit's variables."""
    for name in list(os.environ):
        if name.upper().startswith(("ENVKIT_", "PIP_", "UV_")) and name != "ENVKIT_CI":
            monkeypatch.delenv(name)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HOME", str(unit_home))
    for name, folder in (("CONFIG", ".config"), ("CACHE", ".cache"), ("STATE", ".local/state"), ("DATA", ".local/share")):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(unit_home / folder))
