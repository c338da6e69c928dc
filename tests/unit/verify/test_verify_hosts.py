"""Host URLs and what becomes of them; testinfra is the real one, the processes it would start are not."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from envkit import process
from envkit.errors import InvalidFile, Unavailable, UsageError
from envkit.process import Completed
from envkit.verify import hosts
from envkit.verify.hosts import HostRunner, SshOptions, connect, reach_hint, redact

Shell = list[dict[str, Any]]


def ended(status: int | None = 0, stdout: str = "", stderr: str = "", *, timed_out: bool = False) -> Completed:
    return Completed(argv=(), returncode=status, stdout=stdout, stderr=stderr, timed_out=timed_out)


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Callable[[Completed], Shell]:
    """Lets every command that testinfra starts end in a given way; what it was given."""

    def set_answer(completed: Completed) -> Shell:
        calls: Shell = []

        def run(argv: Sequence[str], **more: Any) -> Completed:
            calls.append({"argv": list(argv), **more})
            return completed

        monkeypatch.setattr(process, "run", run)
        monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/usr/bin/{name}")
        return calls

    return set_answer


@pytest.mark.parametrize(
    ("url", "words", "hint"),
    [
        ("lab1", "'lab1' is no host URL", "write the connection too: ssh://lab1"),
        ("shh://lab1", "unknown connection shh:// in 'shh://lab1'", "did you mean ssh://?"),
        (
            "http://lab1",
            "unknown connection http:// in 'http://lab1'",
            "known are ansible://, chroot://, docker://, kubectl://, local://, lxc://, openshift://, paramiko://, podman://, "
            "safe-ssh://, salt://, ssh://, winrm://",
        ),
        ("ssh://", "'ssh://' names no host", "write ssh://NAME"),
        ("docker://", "'docker://' names no host", "write docker://NAME"),
    ],
)
def test_what_is_no_host_url_is_told(url: str, words: str, hint: str) -> None:
    with pytest.raises(UsageError) as raised:
        connect(url)
    assert (raised.value.message, raised.value.hint) == (words, hint)


def test_known_connections_are_testinfras() -> None:
    from testinfra.backend import BACKENDS

    assert set(hosts.KINDS) == set(BACKENDS)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("ssh://me:secret@lab1:22", "ssh://me:***@lab1:22"),
        ("ssh://me:se@cret@lab1", "ssh://me:***@lab1"),
        ("ssh://me@lab1?ssh_identity_file=/home/me/key", "ssh://me@lab1"),
        ("docker://trainer", "docker://trainer"),
        ("me:secret", "me:secret"),
    ],
)
def test_passwords_are_not_shown(url: str, shown: str) -> None:
    assert redact(url) == shown


def test_this_machine_needs_no_testinfra() -> None:
    assert connect("local://") is process.run


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(Unavailable, match=r"ssh:// needs the program ssh, which is not on PATH"):
        connect("ssh://lab1")


def test_ssh_asks_no_questions_and_leaves_no_master_behind(shell: Callable[[Completed], Shell]) -> None:
    calls = shell(ended(0, "out", "err"))
    done = connect("ssh://me@lab1:2222?timeout=3", SshOptions(config="/c", identity="/k"))(["echo", "a b", "$HOME"], limit=7)
    assert (done.returncode, done.stdout, done.stderr) == (0, "out", "err")
    line = calls[0]["argv"][-1]
    assert calls[0]["limit"] == 7
    for words in ("BatchMode=yes", "User=me", "Port=2222", "-F /c", "-i /k", "ConnectTimeout=3", "ServerAliveInterval=15"):
        assert words in line
    assert "ControlMaster" not in line
    # Quoted for the shell here, and inside for the one there.
    assert """lab1 'echo '"'"'a b'"'"' '"'"'$HOME'"'"''""" in line


def test_a_password_is_not_kept_from_being_asked_for(shell: Callable[[Completed], Shell]) -> None:
    calls = shell(ended())
    connect("ssh://me:secret@lab9")(["true"])
    assert "sshpass -p secret ssh" in calls[0]["argv"][-1]
    assert "BatchMode" not in calls[0]["argv"][-1]


@pytest.mark.parametrize(
    ("said", "words", "hint"),
    [
        (
            "me@lab2: Permission denied (publickey).",
            "ssh://me@lab2 cannot be reached: me@lab2: Permission denied (publickey).",
            "give a key that the host accepts: --identity FILE, or 'ssh://me@lab2?ssh_identity_file=FILE'",
        ),
        (
            "Warning: something\nHost key verification failed.",
            "ssh://me@lab2 cannot be reached: Host key verification failed.",
            "log in once by hand to accept its key: ssh me@lab2",
        ),
        (
            "ssh: connect to host lab2 port 22: Connection refused",
            "ssh://me@lab2 cannot be reached: ssh: connect to host lab2 port 22: Connection refused",
            "check that its SSH server runs and listens on that port",
        ),
        (
            "ssh: Could not resolve hostname lab2: Name or service not known",
            "ssh://me@lab2 cannot be reached: ssh: Could not resolve hostname lab2: Name or service not known",
            "check the host's name",
        ),
        ("", "ssh://me@lab2 cannot be reached: it did not say why", ""),
    ],
)
def test_a_host_that_cannot_be_reached_comes_with_a_remedy(
    shell: Callable[[Completed], Shell], said: str, words: str, hint: str
) -> None:
    shell(ended(255, "", said))
    with pytest.raises(Unavailable) as raised:
        connect("ssh://me@lab2")(["true"])
    assert (raised.value.message, raised.value.hint) == (words, hint)


def test_a_command_that_fails_is_an_answer(shell: Callable[[Completed], Shell]) -> None:
    shell(ended(3, "", "no such option"))
    done = connect("ssh://lab3")(["false"])
    assert (done.returncode, done.missing) == (3, False)


def test_a_command_that_is_missing_is_an_answer(shell: Callable[[Completed], Shell]) -> None:
    shell(ended(127, "", "sh: nvidia-smi: not found"))
    assert connect("docker://trainer3")(["nvidia-smi"]).missing


def test_a_connection_that_hangs_is_an_answer_too(shell: Callable[[Completed], Shell]) -> None:
    shell(ended(None, timed_out=True))
    assert connect("ssh://lab4")(["true"], limit=1).timed_out


def test_docker_runs_inside_the_container(shell: Callable[[Completed], Shell]) -> None:
    calls = shell(ended(0, "x"))
    connect("docker://user@trainer")(["id", "-u"])
    assert calls[0]["argv"][-1] == "docker exec -u user trainer /bin/sh -c 'id -u'"


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Error response from daemon: No such container: trainer2", "see what runs with: docker ps"),
        ("Error response from daemon: container abc is not running", "start it with: docker start trainer2"),
        ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "start the engine: sudo systemctl start docker"),
    ],
)
def test_a_container_that_cannot_be_reached_comes_with_a_remedy(
    shell: Callable[[Completed], Shell], said: str, hint: str
) -> None:
    shell(ended(1, "", said))
    with pytest.raises(Unavailable, match=r"docker://trainer2 cannot be reached") as raised:
        connect("docker://trainer2")(["true"])
    assert raised.value.hint == hint


def test_output_in_any_encoding_is_text_already(shell: Callable[[Completed], Shell]) -> None:
    shell(ended(0, "données 数据 �", "é"))
    done = connect("ssh://lab5")(["cat", "x"])
    assert (done.stdout, done.stderr) == ("données 数据 �", "é")


class Stuck:
    """A backend with sockets of its own, whose command never comes back."""

    NAME = "paramiko"

    def run(self, command: str) -> Any:
        import time

        time.sleep(3)

    def get_pytest_id(self) -> str:
        return "paramiko://lab6"


def test_a_backend_without_processes_is_bounded_as_well() -> None:
    done = HostRunner(SimpleNamespace(backend=Stuck()), "paramiko://lab6")(["true"], limit=0.1)
    assert done.timed_out
    assert done.seconds < 2


def test_a_hosts_fixture_becomes_a_runner(shell: Callable[[Completed], Shell]) -> None:
    import testinfra

    shell(ended(0, "here"))
    run = hosts.runner_of(testinfra.get_host("docker://trainer7"))
    assert run(["true"]).stdout == "here"


def test_winrm_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import testinfra

    def refuse(url: str, **options: Any) -> Any:
        raise RuntimeError("pywinrm is required")

    monkeypatch.setattr(testinfra, "get_host", refuse)
    with pytest.raises(Unavailable, match="pywinrm is required") as raised:
        connect("winrm://lab8")
    assert raised.value.hint == "pip install pywinrm"


def test_without_ansible_an_inventory_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(Unavailable, match="an inventory needs Ansible") as raised:
        hosts.connect_all(tmp_path / "hosts.ini")
    assert raised.value.hint == "pip install 'accel-envkit[hosts,provision]'"


INVENTORY = """{"_meta": {"hostvars": {"lab1": {"ansible_host": "10.0.0.1", "ansible_port": 2222, "ansible_user": "me",
"ansible_ssh_private_key_file": "/k"}, "here": {"ansible_connection": "local"}}}, "all": {"children": ["ungrouped"]},
"ungrouped": {"hosts": ["lab1", "here"]}}"""


def test_an_inventory_gives_a_runner_for_each_host(shell: Callable[[Completed], Shell], tmp_path: Path) -> None:
    calls = shell(ended(0, INVENTORY))
    found = hosts.connect_all(tmp_path / "hosts.ini")
    assert [name for name, _ in found] == ["here", "lab1"]
    assert f"ansible-inventory --list -i {tmp_path / 'hosts.ini'}" in calls[0]["argv"][-1]
    for _, run in found:
        run(["true"])
    assert calls[1]["argv"][-1] == "true"
    for words in ("ssh", "User=me", "Port=2222", "-i /k", "BatchMode=yes", "10.0.0.1"):
        assert words in calls[2]["argv"][-1]
    assert "ControlMaster" not in calls[2]["argv"][-1]


def test_an_ansible_url_names_one_host_or_a_group(shell: Callable[[Completed], Shell], tmp_path: Path) -> None:
    calls = shell(ended(0, INVENTORY))
    url = f"?ansible_inventory={tmp_path / 'hosts.ini'}&ssh_identity_file=/other"
    run = connect(f"ansible://lab1{url}")
    assert str(tmp_path / "hosts.ini") in calls[0]["argv"][-1]
    run(["id"])
    assert "10.0.0.1" in calls[-1]["argv"][-1]
    assert [name for name, _ in hosts.connect_group(f"ansible://ungrouped{url}")] == ["here", "lab1"]
    assert [name for name, _ in hosts.connect_group(f"ansible://{url}")] == ["here", "lab1"]
    with pytest.raises(UsageError, match=r"ansible://ungrouped names 2 hosts, and one is asked for"):
        connect(f"ansible://ungrouped{url}")
    with pytest.raises(UsageError, match=r"hosts\.ini has no host 'absent'"):
        connect(f"ansible://absent{url}")


def test_ansible_itself_can_be_made_to_carry_every_call(shell: Callable[[Completed], Shell]) -> None:
    calls = shell(ended(0, INVENTORY))
    run = connect("ansible://lab1?force_ansible=true")
    with pytest.raises(Unavailable, match="ansible://lab1 cannot be reached"):
        run(["id"])  # what came back is no answer of Ansible's
    assert "ansible --tree" in calls[-1]["argv"][-1]
    assert "-m shell --args id" in calls[-1]["argv"][-1]


@pytest.mark.parametrize(
    "answer", [ended(1, "", "ERROR! no such file"), ended(0, "no json"), ended(0, '{"_meta": {}, "all": {}}')]
)
def test_an_inventory_that_cannot_be_read_is_told(shell: Callable[[Completed], Shell], tmp_path: Path, answer: Completed) -> None:
    shell(answer)
    with pytest.raises(InvalidFile, match=r"hosts\.ini: Ansible cannot read this inventory"):
        hosts.connect_all(tmp_path / "hosts.ini")


def test_hints_fit_their_causes() -> None:
    assert reach_hint("nothing known", "ssh://lab1") == ""
    assert reach_hint("Connection timed out", "ssh://lab1") == "check that the host is on and that no firewall is in between"
