"""Generated plays of other frameworks against a real host over SSH, and those that only tell a person what to do."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab.needs import need
from lab.ssh_hosts import inventory

pytestmark = [pytest.mark.docker, pytest.mark.ssh, pytest.mark.net]

# pytest runs with the tools of its own environment.
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")
Play = Callable[..., tuple[int, str, dict[str, str]]]


@pytest.fixture(scope="module")
def play(make_ssh_hosts: Callable[..., Any], envkit_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Play:
    """Runs the play of a scheme against a host of this module's own: its exit code, what it printed, and its counts."""
    if not ANSIBLE.is_file():
        need("ansible-playbook is missing (the extra `provision`)")
    folder = tmp_path_factory.mktemp("plays")
    argv = [*envkit_command, "render", "linux-cpu-mlx", "linux-musa", "wsl2-cuda", "-o", str(folder)]
    subprocess.run(argv, check=True, capture_output=True)
    (folder / "ansible.cfg").touch()
    (folder / "inventory.ini").write_text(inventory([make_ssh_hosts(1)[0]]), encoding="utf-8")
    env = {
        **os.environ,
        "PATH": f"{ANSIBLE.parent}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }

    def run(scheme: str, *more: str) -> tuple[int, str, dict[str, str]]:
        argv = [str(ANSIBLE), "-i", str(folder / "inventory.ini"), str(folder / f"playbooks/{scheme}.yml"), *more]
        done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        recap = re.search(r"^\S+\s+: (ok=.*)$", done.stdout, re.MULTILINE)
        text = " ".join((done.stdout + done.stderr).split())
        return done.returncode, text, dict(re.findall(r"(\w+)=(\d+)", recap[1])) if recap else {}

    return run


def test_a_host_gets_mlx_and_proves_it_and_nothing_changes_again(play: Play) -> None:
    code, text, _ = play("linux-cpu-mlx")
    assert code == 0, text
    assert "one step trained" in text
    # A vendor's file is read before the proof, in the shell that such files are written for.
    code, text, counts = play("linux-cpu-mlx", "-e", "verify_setup=/etc/profile")
    assert (code, counts["changed"], counts["failed"]) == (0, "0", "0"), text


def test_a_host_without_the_vendors_runtime_is_told_so(play: Play) -> None:
    code, text, _ = play("linux-cpu-mlx", "-e", "verify_setup=/usr/local/Ascend/ascend-toolkit/set_env.sh")
    assert code != 0
    assert "has no /usr/local/Ascend/ascend-toolkit/set_env.sh: set up the vendor's runtime first" in text


def test_what_no_index_has_is_told_in_steps(play: Play) -> None:
    code, text, counts = play("linux-musa")
    assert code != 0
    assert (counts["changed"], counts["failed"]) == ("0", "1")
    assert re.search(r"No package index has torch==\S+ and torch-musa==\S+, so nothing was installed on", text), text
    assert "check the card with: mthreads-gmi" in text
    assert "envkit build linux-musa" in text


def test_a_play_for_wsl2_leaves_other_hosts_alone(play: Play) -> None:
    code, text, counts = play("wsl2-cuda")
    assert code != 0
    assert counts["changed"] == "0"
    assert "which is not that of WSL2" in text
