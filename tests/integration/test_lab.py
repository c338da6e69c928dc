"""The lab gives what the other tests stand on."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


@pytest.mark.docker
def test_an_engine_with_buildkit_and_the_base_image(engine: Any, base_image: str) -> None:
    assert engine.version
    assert engine.buildx
    shown = subprocess.run(
        ["docker", "run", "--rm", base_image, "cat", "/etc/os-release"], capture_output=True, text=True, check=True, timeout=60
    )
    assert 'VERSION_ID="12"' in shown.stdout


@pytest.mark.docker
@pytest.mark.ssh
def test_a_host_answers_over_ssh_and_lets_its_user_become_root(ssh_host: Any) -> None:
    argv = [
        "ssh",
        "-F",
        str(ssh_host.ssh_config),
        "-p",
        str(ssh_host.port),
        f"{ssh_host.user}@127.0.0.1",
        "id -un; sudo -n id -un",
    ]
    shown = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout.split() == [ssh_host.user, "root"]


@pytest.mark.docker
@pytest.mark.ssh
def test_a_host_is_reached_from_this_machine_alone(ssh_host: Any) -> None:
    shown = subprocess.run(["docker", "port", ssh_host.name, "22/tcp"], capture_output=True, text=True, check=True, timeout=30)
    assert shown.stdout.split() == [f"127.0.0.1:{ssh_host.port}"]


@pytest.mark.docker
@pytest.mark.ssh
def test_testinfra_takes_its_address(ssh_host: Any) -> None:
    import testinfra

    assert testinfra.get_host(ssh_host.url).check_output("id -un") == ssh_host.user
