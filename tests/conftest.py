"""Fixtures on top of the lab (tests/lab), and the rule for skips.

A test that lacks something is skipped with a reason. With ENVKIT_CI=1 every skip is a failure, except of the opt-in markers
(`lab.needs.OPT_IN`) and of tests for another operating system (reason "only on ...").
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))

from lab.needs import OPT_IN, need, strict

ROOT = Path(__file__).resolve().parents[1]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skips the opt-in tests unless `-m` names their marker."""
    asked = config.option.markexpr or ""
    for item in items:
        for marker in OPT_IN:
            if item.get_closest_marker(marker) and marker not in asked:
                item.add_marker(pytest.mark.skip(reason=f"opt-in: run with -m {marker}"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turns skips into failures where nothing may be missing."""
    report = yield
    if strict() and report.skipped and not hasattr(report, "wasxfail") and not any(map(item.get_closest_marker, OPT_IN)):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith("only on "):
            report.outcome = "failed"
            report.longrepr = f"skipped, and nothing may be skipped with ENVKIT_CI=1: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole modules."""
    report = yield
    if strict() and report.outcome == "skipped":
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not reason.removeprefix("Skipped: ").startswith("only on "):
            report.outcome = "failed"
            report.longrepr = f"{collector.nodeid}: skipped, and nothing may be skipped with ENVKIT_CI=1: {reason}"
    return report


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sees to the SSH client of those tests that say they need one."""
    if item.get_closest_marker("ssh") and not any(map(item.get_closest_marker, OPT_IN)) and shutil.which("ssh") is None:
        from lab.machine import LabError, need_programs

        try:
            need_programs({"ssh": "openssh-client"})
        except LabError as error:
            need(str(error))


@pytest.fixture(scope="session", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A state folder of the tests' own: what they make must not become the user's last environment."""
    folder = tmp_path_factory.mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The top of the checkout that is tested."""
    return ROOT


@pytest.fixture(scope="session")
def envkit_command() -> list[str]:
    """How to start envkit in a process of its own, from any folder."""
    return [sys.executable, "-P", "-m", "envkit"]


@pytest.fixture(scope="session")
def engine() -> Any:
    """A Docker engine that answers (lab.engine.Engine)."""
    from lab import engine as lab_engine
    from lab.machine import LabError

    try:
        return lab_engine.ensure()
    except LabError as error:
        need(" ".join(str(error).split()))


@pytest.fixture(scope="session")
def base_image(engine: Any) -> str:
    """The name of the base image that the Dockerfiles ask for; the engine has it."""
    from lab import base_image as lab_image
    from lab.machine import LabError

    try:
        return lab_image.ensure()
    except LabError as error:
        need(" ".join(str(error).split()))


@pytest.fixture(scope="session")
def make_ssh_hosts(base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Makes lab hosts: `make_ssh_hosts(2)`; each call has its own keys; all are removed in the end."""
    from lab import ssh_hosts
    from lab.machine import LabError

    prefixes: list[str] = []

    def make(count: int = 1, *, user: str = ssh_hosts.USER) -> Any:
        prefixes.append(f"envkit-lab-{os.getpid()}-{len(prefixes)}")
        try:
            return ssh_hosts.up(tmp_path_factory.mktemp("ssh"), count=count, user=user, prefix=prefixes[-1])
        except LabError as error:
            need(" ".join(str(error).split()))

    yield make
    for prefix in prefixes:
        ssh_hosts.down(prefix)


@pytest.fixture(scope="session")
def ssh_host(make_ssh_hosts: Callable[..., Any]) -> Any:
    """One lab host (lab.ssh_hosts.Host: name, port, user, key, ssh_config, url, variables), the same for the whole run."""
    return make_ssh_hosts(1)[0]


@pytest.fixture(scope="session")
def wheels() -> Path:
    """The folder of pip's find-links setting that holds torch for this Python."""
    from lab.machine import find_links

    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    having = [folder for folder in find_links() if any(tag in wheel.name for wheel in folder.glob("torch-*.whl"))]
    return having[0] if having else need(f"pip's find-links setting names no folder that holds torch for {tag}")


@pytest.fixture(scope="session")
def cpu_venv(envkit_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that `envkit up --scheme linux-cpu` made and proved; the whole run shares it: look, don't change it."""
    folder = tmp_path_factory.mktemp("cpu") / "env"
    done = subprocess.run(
        [*envkit_command, "up", str(folder), "--scheme", "linux-cpu"],
        cwd=folder.parent,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode == 5:
        need(f"envkit up cannot reach what it needs: {done.stderr.strip()[-500:]}")
    assert done.returncode == 0, f"envkit up ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return folder
