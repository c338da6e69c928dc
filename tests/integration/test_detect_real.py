"""`envkit detect` on real machines: this one, one with tools that misbehave, containers and SSH hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from envkit.data import packaged
from envkit.detect import detect, facts_document, parse
from envkit.detect.probe import MARK
from envkit.errors import Unavailable
from envkit.verify.hosts import connect

MIB = 1024**2
PROBE = packaged("detect/probe.py")

HANGS = """#!/bin/sh
trap '' TERM INT HUP
sleep 97 &
sleep 97
"""
CRASHES = "#!/bin/sh\nkill -SEGV $$\n"
FLOODS = "#!/bin/sh\nexec yes 'Name: gfx1100'\n"
FAILS = "#!/bin/sh\necho 'not json'\necho 'no permission' >&2\nexit 3\n"
NO_PROGRAM = "nothing that a system could start\n"


def probe(python: str = sys.executable, **env: str) -> dict[str, Any]:
    """What the probe prints when it is run as it is on another host."""
    done = subprocess.run([python, str(PROBE)], capture_output=True, text=True, timeout=30, env=env or None, check=True)
    document = json.loads(done.stdout.split(MARK, 1)[1])
    assert isinstance(document, dict)
    return document


def test_this_machine(envkit_command: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*envkit_command, "detect", "--format", "json"], capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path
    )
    machine = json.loads(done.stdout)["machine"]
    assert machine["os"] == "linux"
    assert machine["kernel"] == os.uname().release
    assert machine["arch"] == os.uname().machine
    assert machine["cpus"] <= (os.cpu_count() or 1)
    assert machine["memory_bytes"] > 0
    assert done.stderr == ""


def test_it_is_quick_without_vendor_tools() -> None:
    detect()
    started = time.process_time()
    facts_document(detect())
    # The processor's time, since this machine may be busy with other tests.
    assert time.process_time() - started < 0.15


def test_the_probe_needs_no_environment() -> None:
    facts = parse.parse(probe(PATH=""))
    assert facts.machine.os_id
    assert facts.env == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only on a machine where the tests run as root, who can become somebody else")
def test_an_unprivileged_user_gets_the_same_machine(tmp_path: Path) -> None:
    copy = tmp_path / "probe.py"
    copy.write_bytes(PROBE.read_bytes())
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    python = "/usr/bin/python3"
    if not Path(python).exists():
        pytest.skip("only on a system with a Python that others may run")
    done = subprocess.run(
        [python, str(copy)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
        user="nobody",
        group="nogroup",
        extra_groups=[],
    )
    other = parse.parse(json.loads(done.stdout.split(MARK, 1)[1])).machine
    own = parse.parse(probe(python)).machine
    assert other.user_groups == ("nogroup",)
    for name in ("os_id", "kernel", "glibc", "container", "gpus", "modules", "system_packages", "secure_boot"):
        assert getattr(other, name) == getattr(own, name), name


@pytest.fixture
def bad_tools(tmp_path: Path) -> Path:
    """A folder of vendors' tools, each of which misbehaves in its own way."""
    folder = tmp_path / "bin"
    folder.mkdir()
    tools = {"nvidia-smi": HANGS, "rocminfo": CRASHES, "xpu-smi": FLOODS, "amd-smi": FAILS, "npu-smi": NO_PROGRAM}
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def sleepers() -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if line.startswith((b"sleep\x0097", b"yes\x00Name")):
                found.append(entry.name)
    return found


def check_bad_tools(facts: Any) -> None:
    assert facts.machine.os_id
    assert facts.machine.gpus == ()
    assert facts.evidence["nvidia-smi"].startswith("no answer within 7.5 s, stopped")
    assert facts.evidence["rocminfo"] == "no output\n(exit status -11)"
    assert facts.evidence["amd-smi"] == "not json\nno permission\n(exit status 3)"
    assert "Exec format error" in facts.evidence["npu-smi info"]
    assert "xpu-smi" in facts.evidence
    assert len(json.dumps(facts_document(facts))) < 60_000


def test_tools_that_hang_crash_and_flood_here(bad_tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{bad_tools}:{os.environ['PATH']}")
    started = time.monotonic()
    facts = detect()
    assert time.monotonic() - started < 10
    check_bad_tools(facts)
    assert sleepers() == []


def test_tools_that_hang_crash_and_flood_on_a_host(bad_tools: Path) -> None:
    started = time.monotonic()
    raw = probe(PATH=f"{bad_tools}:{os.environ['PATH']}")
    assert time.monotonic() - started < 10
    check_bad_tools(parse.parse(raw))
    assert sleepers() == []


# ---- containers and hosts ----------------------------------------------------------------------------------------


@pytest.fixture
def container(base_image: str) -> Iterator[Callable[..., str]]:
    """Starts a container that waits, and gives its URL."""
    names: list[str] = []

    def start(image: str, *flags: str) -> str:
        names.append(f"envkit-detect-{os.getpid()}-{len(names)}")
        argv = ["docker", "run", "--detach", "--rm", "--name", names[-1], *flags, image, "sleep", "300"]
        subprocess.run(argv, check=True, capture_output=True, timeout=60)
        return f"docker://{names[-1]}"

    yield start
    for name in names:
        subprocess.run(["docker", "rm", "--force", name], capture_output=True, timeout=60, check=False)


@pytest.mark.docker
def test_a_container_with_limits_and_nodes(container: Callable[..., str]) -> None:
    from lab import ssh_hosts

    flags = ("--memory=512m", "--cpus=1.5", "--shm-size=256m", "--user=1000:1000", "--device=/dev/null:/dev/kfd")
    facts = detect(connect(container(ssh_hosts.ensure_image(), *flags)))
    machine = facts.machine
    assert (machine.container, machine.os_id, machine.glibc) == ("docker", "debian-12", "2.36")
    assert (machine.memory_bytes, machine.shm_bytes) == (512 * MIB, 256 * MIB)
    assert machine.cpus == min(2, os.cpu_count() or 1)
    assert machine.devices == ("/dev/kfd",)
    assert machine.devices_denied == ()
    assert facts.python.executable == "/usr/bin/python3"


@pytest.mark.docker
def test_a_node_that_a_user_may_not_open(container: Callable[..., str]) -> None:
    from lab import ssh_hosts

    url = container(ssh_hosts.ensure_image(), "--device=/dev/null:/dev/kfd", "--device=/dev/null:/dev/dri/renderD128")
    name = url.removeprefix("docker://")
    subprocess.run(["docker", "exec", name, "chmod", "600", "/dev/kfd"], check=True, timeout=60)
    user = subprocess.run(
        ["docker", "exec", "--interactive", "--user", "1000", name, "python3", "-"],
        input=PROBE.read_text(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    machine = parse.parse(json.loads(user.stdout.split(MARK, 1)[1])).machine
    assert machine.devices == ("/dev/kfd", "/dev/dri/renderD128")
    assert machine.devices_denied == ("/dev/kfd",)
    assert detect(connect(url)).machine.devices_denied == ()


@pytest.mark.docker
def test_a_container_without_python(container: Callable[..., str], base_image: str, envkit_command: list[str]) -> None:
    url = container(base_image)
    with pytest.raises(Unavailable, match="no python3"):
        detect(connect(url))
    done = subprocess.run([*envkit_command, "detect", "--host", url], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stdout == ""
    assert done.stderr.startswith("error: the host has no python3, which detect needs there\nhint: install Python")


@pytest.mark.ssh
@pytest.mark.docker
def test_an_ssh_host_in_one_round_trip(ssh_host: Any) -> None:
    runner = connect(ssh_host.url)
    calls = []

    def counted(argv: Any, *, limit: float = 30.0) -> Any:
        calls.append(argv)
        return runner(argv, limit=limit)

    machine = detect(counted).machine
    assert (machine.os_id, machine.container) == ("debian-12", "docker")
    assert len(calls) == 1
