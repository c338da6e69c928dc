"""The generated play against a real host over SSH: said before it is done, done, proven, and not done twice."""

from __future__ import annotations

import json
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

DIR = "/opt/envkit/linux-cpu"
# pytest runs with the tools of its own environment.
ANSIBLE = Path(sys.executable).with_name("ansible-playbook")


class Played:
    """One run of the play."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.text = done.stdout + done.stderr
        recap = re.search(r"^\S+\s+: (ok=.*)$", done.stdout, re.MULTILINE)
        self.counts = dict(re.findall(r"(\w+)=(\d+)", recap[1])) if recap else {}


@pytest.fixture(scope="module")
def host(make_ssh_hosts: Callable[..., Any]) -> Any:
    """A host of this module's own: it is changed."""
    return make_ssh_hosts(1)[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the probe's findings go; the play makes the folder."""
    return tmp_path_factory.mktemp("results") / "probe"


@pytest.fixture(scope="module")
def play(
    host: Any, wheels: Path, results: Path, envkit_command: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Played]:
    """Runs the play of linux-cpu, rendered for the torch that can be had here."""
    if not ANSIBLE.is_file():
        need("ansible-playbook is missing (the extra `provision`)")
    folder = tmp_path_factory.mktemp("play")
    release = next(
        found[1] for path in wheels.glob("torch-*.whl") if (found := re.match(r"torch-(\d+\.\d+\.\d+)\+cpu-cp311-", path.name))
    )
    subprocess.run(
        [*envkit_command, "render", "linux-cpu", "--torch", release, "-o", str(folder)], check=True, capture_output=True
    )
    (folder / "ansible.cfg").touch()
    (folder / "inventory.ini").write_text(inventory([host]), encoding="utf-8")
    argv = [str(ANSIBLE), "-i", str(folder / "inventory.ini"), str(folder / "playbooks/linux-cpu.yml")]
    argv += ["-e", f"envkit_find_links={wheels}", "-e", f"envkit_results={results}"]
    env = {
        **os.environ,
        "PATH": f"{ANSIBLE.parent}{os.pathsep}{os.environ['PATH']}",
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_HOME": str(folder / "ansible"),
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
    }

    def run(*more: str) -> Played:
        return Played(
            subprocess.run(
                [*argv, *more], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False
            )
        )

    return run


def on(host: Any, script: str) -> str:
    done = subprocess.run(["docker", "exec", host.name, "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# These build on each other, in this order: one host goes through its life.


def test_a_check_on_a_bare_host_says_what_would_change_and_changes_nothing(host: Any, play: Callable[..., Played]) -> None:
    look = "ls -lA /opt /etc /usr/bin /root; dpkg --list"
    before = on(host, look)
    checked = play("--check")
    assert checked.code == 0, checked.text
    assert int(checked.counts["changed"]) >= 3
    assert "would install torch==" in checked.text
    assert on(host, look) == before


def test_the_first_run_makes_and_proves_the_environment(host: Any, play: Callable[..., Played], results: Path) -> None:
    first = play()
    assert first.code == 0, first.text
    assert int(first.counts["changed"]) > 0
    found = json.loads((results / f"{host.name}.json").read_text(encoding="utf-8"))
    assert found["schema"] == "envkit/probe/1"
    assert found["passed"] is True
    plan = json.loads(on(host, f"cat {DIR}/envkit/plan.json"))
    pins = on(host, f"cat {DIR}/envkit/constraints.txt").splitlines()[1:]
    assert pins == [f"{package['name']}=={package['version']}" for package in plan["packages"]]
    assert on(host, f"stat -c %U:%a {DIR}/envkit/plan.json").strip() == "root:644"


def test_the_plan_on_the_host_is_the_plan(host: Any) -> None:
    from envkit.plan import digest, from_document

    document = json.loads(on(host, f"cat {DIR}/envkit/plan.json"))
    assert digest(from_document(document)) == document["digest"]


def test_a_user_without_rights_can_use_it(host: Any) -> None:
    shown = on(host, f"su -c '{DIR}/bin/python -c \"import torch; print(torch.ones(2).sum().item())\"' {host.user}")
    assert shown.strip() == "2.0"


def test_envkit_verifies_the_host(host: Any, envkit_command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*envkit_command, "verify", "linux-cpu", "--host", host.url],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("more", [[], ["--check"]], ids=["run", "check"])
def test_a_second_run_changes_nothing(play: Callable[..., Played], more: list[str]) -> None:
    second = play(*more)
    assert second.code == 0, second.text
    assert second.counts["changed"] == "0", second.text
    assert "one step trained" in second.text


def test_what_was_changed_behind_its_back_is_told_and_put_right(host: Any, play: Callable[..., Played]) -> None:
    numpy = on(host, f"{DIR}/bin/python -c 'import numpy; print(numpy.__version__)'")
    on(host, f"rm -r {DIR}/lib/python3.11/site-packages/numpy {DIR}/lib/python3.11/site-packages/numpy-*.dist-info")
    checked = play("--check")
    assert checked.code == 0, "what is going to be put right is no fault"
    assert "would install torch==" in checked.text
    assert checked.counts["changed"] == "1"
    mended = play()
    assert mended.code == 0, mended.text
    assert on(host, f"{DIR}/bin/python -c 'import numpy; print(numpy.__version__)'") == numpy
    assert play().counts["changed"] == "0"


def test_an_install_that_was_cut_short_is_done_again(host: Any, play: Callable[..., Played]) -> None:
    on(host, f"rm {DIR}/envkit/plan.json")
    assert play().code == 0
    assert json.loads(on(host, f"cat {DIR}/envkit/plan.json"))["scheme"] == "linux-cpu"


def test_a_host_that_cannot_compute_fails_the_play(host: Any, play: Callable[..., Played], results: Path) -> None:
    on(host, f"echo 'raise ImportError(\"broken by a test\")' > {DIR}/lib/python3.11/site-packages/torch/__init__.py")
    for broken in (play("--check"), play()):
        assert broken.code != 0
        assert broken.counts["failed"] == "1"
        assert f"{host.name}: not proven." in broken.text
        assert "broken by a test" in broken.text
    assert json.loads((results / f"{host.name}.json").read_text(encoding="utf-8"))["passed"] is False
