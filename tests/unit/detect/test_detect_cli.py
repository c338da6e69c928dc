"""`envkit detect`: the command and its summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import envkit.detect
from envkit.cli.app import envkit as group
from envkit.cli.detect import size, summary
from envkit.errors import Unavailable
from envkit.model import Facts, Machine


@pytest.fixture
def invoke(tree: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def call(*arguments: str, facts: Facts | None = None) -> Any:
        monkeypatch.setattr(envkit.detect, "detect", lambda run=None: facts or tree.facts())
        return CliRunner().invoke(group, ["detect", *arguments])

    return call


def test_json_is_the_document(invoke: Callable[..., Any], tree: Any) -> None:
    tree.pci("0000:01:00.0", "10de:2684", driver="nvidia").module("nvidia", "550.54.14")
    result = invoke("--format", "json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "envkit/facts/1"
    assert document["machine"]["gpu"][0]["arch"] == "sm_89"


def test_text_of_a_machine_with_a_card(invoke: Callable[..., Any], tree: Any) -> None:
    tree.pci("0000:01:00.0", "10de:2b85", driver="nvidia").module("nvidia", "570.86.10").pci("0000:09:00.0", "8086:ffff")
    tree.file(
        "/proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build\n"
    )
    tree.file("/dev/nvidia0", "").tool("nvidia-smi", hangs=True)
    python = {
        "version": "3.12.3",
        "executable": "/usr/bin/python3",
        "bits": 64,
        "distributions": [["torch", "2.6.0+cu124", "/a"], ["torch", "2.5.0", "/b"], ["nvidia-cudnn-cu12", "9.1", "/a"]],
        "torch_version_py": "__version__ = '2.6.0+cu124'\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n",
    }
    facts = tree.facts(python=python, env={"CUDA_VISIBLE_DEVICES": "0"}, shm_bytes=64 * 1024**2, identity={}, secure_boot=True)
    assert invoke(facts=facts).stdout.splitlines() == [
        "system        Ubuntu 24.04.1 LTS, kernel 6.8.0-41-generic, x86_64, glibc 2.39",
        "              8 CPUs, 31.1 GiB memory, 64 MiB /dev/shm",
        "              no container, not WSL, Secure Boot on",
        "accelerators  GeForce RTX 5090, sm_120, 10de:2b85 at 0000:01:00.0, driver nvidia",
        "              Intel device, architecture unknown, 8086:ffff at 0000:09:00.0, no driver bound",
        "drivers       NVIDIA: kernel driver 570.86.10 (open module)",
        "devices       /dev/nvidia0",
        "services      nvidia-fabricmanager: not-installed",
        "              nvidia-persistenced: not-installed",
        "python        3.12.3 (x86_64), /usr/bin/python3",
        "              torch 2.6.0+cu124",
        "              torch is built with CUDA 12.4",
        "environment   CUDA_VISIBLE_DEVICES=0",
        "unknown       the architecture of 8086:ffff",
        "notes         nvidia-smi: no answer within 7.5 s, stopped",
    ]
    assert facts.evidence["sys.path"] == "torch: 2.6.0+cu124 in /a, 2.5.0 in /b"


def test_text_of_a_machine_of_which_little_is_known() -> None:
    assert summary(Facts()) == (
        "system        unknown system\naccelerators  not looked for\nunknown       the release of the system"
    )
    assert "none found" in summary(Facts(machine=Machine(os="linux", gpus=())))


def test_a_node_that_may_not_be_opened_is_said() -> None:
    machine = Machine(os="linux", gpus=(), devices=("/dev/kfd",), devices_denied=("/dev/kfd",), container="docker", wsl=False)
    text = summary(Facts(machine=machine))
    assert "devices       /dev/kfd (this user may not open it)" in text
    assert "inside a container (docker)" in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1024**2, "1 MiB"), (1536 * 1024**2, "1.5 GiB"), (24 * 1024**3, "24 GiB"), (2 * 1024**4, "2 TiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert size(number) == text


def test_a_host_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    import envkit.verify.hosts as hosts

    asked: list[Any] = []
    monkeypatch.setattr(hosts, "connect", lambda url, ssh: f"runner of {url}, {ssh.config}, {ssh.identity}")
    monkeypatch.setattr(envkit.detect, "detect", lambda run=None: asked.append(run) or Facts())
    assert CliRunner().invoke(group, ["detect", "--host", "ssh://lab1", "--identity", "k", "--ssh-config", "c"]).exit_code == 0
    assert asked == ["runner of ssh://lab1, c, k"]


def test_ssh_options_without_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    from envkit.cli.app import run

    assert run(["detect", "--identity", "k"]) == 2
    assert capsys.readouterr().err == "error: --identity belongs to --host\n"


def test_a_host_that_cannot_be_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    import envkit.verify.hosts as hosts
    from envkit.cli.app import run

    def refuse(run: Any = None) -> Facts:
        raise Unavailable("the host has no python3, which detect needs there", hint="install it")

    monkeypatch.setattr(hosts, "connect", lambda url, ssh: None)
    monkeypatch.setattr(envkit.detect, "detect", refuse)
    assert run(["detect", "--host", "docker://x"]) == 5
    assert capsys.readouterr().err == "error: the host has no python3, which detect needs there\nhint: install it\n"


def test_help_says_what_it_does() -> None:
    result = CliRunner().invoke(group, ["detect", "--help"])
    assert result.exit_code == 0
    assert "in one round trip" in " ".join(result.stdout.split())
