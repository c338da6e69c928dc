"""Other hosts: one round trip with the packed probe, and what is said where that fails."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from envkit.data import packaged
from envkit.detect import detect, remote
from envkit.detect.probe import MARK
from envkit.errors import StepFailed, Unavailable
from envkit.process import Completed


class Host:
    """A host that answers in order."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, argv: Sequence[str], *, limit: float = 30.0) -> Completed:
        self.calls.append(tuple(argv))
        return Completed(argv=tuple(argv), **self.answers[min(len(self.calls), len(self.answers)) - 1])


def test_one_round_trip(captured: Callable[[str], str]) -> None:
    document = json.dumps(json.loads(captured("debian-12-vm.json")))
    host = Host({"returncode": 0, "stdout": f"Welcome!\n{MARK}{document}\nbye\n"})
    assert detect(host).machine.os_id == "debian-12"
    assert len(host.calls) == 1
    assert host.calls[0][:2] == ("python3", "-c")


def test_the_packed_probe_is_one_argument_without_quotes_that_shells_would_touch() -> None:
    code = remote.packed_probe()
    assert "\n" not in code
    assert '"' not in code
    assert "$" not in code
    assert len(code) < 100_000
    ast.parse(code, feature_version=(3, 8))


def test_the_probe_is_python_3_8_and_the_standard_library_alone() -> None:
    tree = ast.parse(packaged("detect/probe.py").read_text(encoding="utf-8"), feature_version=(3, 8))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names <= {
        "base64",
        "functools",
        "glob",
        "grp",
        "json",
        "os",
        "pwd",
        "re",
        "signal",
        "socket",
        "subprocess",
        "sys",
        "threading",
        "time",
        "traceback",
        "typing",
        "winreg",
        "zlib",
    }
    # Built-in collections take no brackets before 3.9, and methods that came later would fail there.
    text = packaged("detect/probe.py").read_text(encoding="utf-8")
    for later in ("removeprefix", "removesuffix", "list[", "dict[", "tuple[", " | None", "math.lcm", "zip(strict"):
        assert later not in text, later


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"returncode": None, "missing": True}, "the host has no python3, which detect needs there"),
        ({"returncode": 127, "stderr": "sh: 1: python3: not found\n"}, "the host has no python3, which detect needs there"),
        (
            {"returncode": 126, "stderr": 'OCI runtime exec failed: exec: "python3": executable file not found in $PATH'},
            "the host has no python3",
        ),
        ({"returncode": None, "timed_out": True}, "the host did not answer within 30 s"),
        (
            {"returncode": 1, "stderr": "  File x\nSyntaxError: invalid syntax\n"},
            "too old or incomplete: SyntaxError: invalid syntax",
        ),
        (
            {"returncode": 255, "stderr": "ssh: connect to host x port 22: Connection refused\n"},
            "cannot be reached: ssh: connect to host x",
        ),
        ({"returncode": 0, "stdout": ""}, "cannot be reached: no answer"),
    ],
)
def test_hosts_that_cannot_be_asked(answer: dict[str, Any], message: str) -> None:
    with pytest.raises(Unavailable) as raised:
        detect(Host(answer))
    assert message in raised.value.message
    assert raised.value.hint
    assert raised.value.exit_code == 5


def test_a_probe_that_breaks_is_a_failed_step() -> None:
    with pytest.raises(StepFailed, match="the probe failed on the host: KeyError: 1"):
        detect(Host({"returncode": 1, "stdout": "some", "stderr": "Traceback\nKeyError: 1\n"}))


@pytest.mark.parametrize("stdout", [MARK, MARK + "{", MARK + "[]", MARK + "3"])
def test_a_document_cut_short(stdout: str) -> None:
    with pytest.raises((StepFailed, Unavailable)):
        detect(Host({"returncode": 0, "stdout": stdout, "stderr": "x"}))


def test_windows_without_python_tells_by_powershell(captured: Callable[[str], str]) -> None:
    host = Host(
        {
            "returncode": 1,
            "stderr": "'python3' is not recognized as an internal or external command,\r\noperable program or batch file.",
        },
        {"returncode": 0, "stdout": captured("windows-nvidia-intel.json")},
    )
    machine = detect(host).machine
    assert (machine.os_id, machine.driver.kernel, machine.cpus, machine.arch) == ("windows-11", "576.28", 16, "x86_64")
    assert host.calls[1][0] == "powershell"


def test_windows_that_tells_nothing() -> None:
    host = Host(
        {"returncode": 1, "stderr": "'python3' is not recognized as a command"}, {"returncode": 1, "stderr": "Access denied"}
    )
    with pytest.raises(Unavailable, match="PowerShell told nothing: Access denied"):
        detect(host)
