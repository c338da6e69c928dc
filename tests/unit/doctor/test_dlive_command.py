"""The command on living machines: which Python it looks at, what it writes, many hosts, and options that do not go together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from envkit import detect
from envkit.cli import app
from envkit.cli.doctor import diagnoses_text
from envkit.data import packaged
from envkit.detect import Examined, Inside
from envkit.doctor import diagnoses_document, live
from envkit.doctor.live import Looked
from envkit.errors import EnvkitError, Unavailable
from envkit.model import Diagnosis, Facts, Finding, Gpu, Machine, PythonFacts
from envkit.verify import hosts

WRONG = Facts(
    machine=Machine(os="linux", gpus=(Gpu(name="NVIDIA GeForce RTX 4090", vendor="nvidia", arch="sm_89", pci_id="10de:2684"),)),
    python=PythonFacts(version="3.11.9", executable="/home/somebody/env/bin/python", packages={"torch": "2.6.0+cpu"}),
    torch={"version": "2.6.0+cpu", "cuda": "", "hip": "", "available": False},
)
RIGHT = Facts(machine=Machine(os="linux", gpus=()), python=PythonFacts(version="3.11.9", executable="/usr/bin/python3"))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app.envkit, ["doctor", *arguments], standalone_mode=False)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, Inside]]:
    """A machine that is wrong; what it was asked for."""
    calls: list[tuple[Any, Inside]] = []

    def examine(runner: Any = None, inside: Inside | None = None) -> Examined:
        assert inside is not None
        calls.append((runner, inside))
        return Examined(facts=WRONG, names=("somebody",))

    monkeypatch.setattr(live, "examine", examine)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return calls


def make_venv(folder: Path) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").write_text("", encoding="utf-8")
    return folder


def test_without_options_it_looks_on_the_path(asked: list[tuple[Any, Inside]]) -> None:
    result = run()
    assert result.return_value == 1, result.output
    assert result.output.startswith("1. cpu-only-wheel (error): ")
    assert result.output.endswith("note: looked at /home/somebody/env/bin/python (Python 3.11.9, torch 2.6.0+cpu)\n")
    assert asked == [(None, Inside(limit=60))]


def test_a_venv_is_the_only_place_to_look(asked: list[tuple[Any, Inside]], tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "env")
    assert run("--venv", str(venv), "--limit", "5").return_value == 1
    assert asked == [(None, Inside(pythons=(str(venv / "bin/python"),), strict=True, limit=5))]


def test_a_venv_that_is_none_is_told(asked: list[tuple[Any, Inside]], tmp_path: Path) -> None:
    result = run("--venv", str(tmp_path))
    assert isinstance(result.exception, Unavailable)
    assert result.exception.message == f"{tmp_path} is no virtual environment: it has no Python"


def test_a_host_is_asked_for_its_own_folder(asked: list[tuple[Any, Inside]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "connect", lambda url, ssh: f"runner of {url}")
    result = run("--host", "ssh://me:pw@lab1", "--venv", "/srv/env/", "--format", "json")
    assert asked[0][0] == "runner of ssh://me:pw@lab1"
    assert asked[0][1].pythons == ("/srv/env/bin/python", "/srv/env/Scripts/python.exe")
    assert json.loads(result.output)["host"] == "ssh://me:***@lab1"


def test_the_bundle_holds_the_facts_and_no_names(asked: list[tuple[Any, Inside]], tmp_path: Path) -> None:
    file = tmp_path / "report.toml"
    assert run("--bundle", str(file)).return_value == 1
    facts = detect.read_facts(file)
    assert facts.python.executable == "~/env/bin/python"
    assert facts.torch["version"] == "2.6.0+cpu"
    assert "somebody" not in file.read_text(encoding="utf-8")
    assert run("--report", str(file)).output.startswith("1. cpu-only-wheel (error): ")


def test_a_bundle_without_a_place_is_told(asked: list[tuple[Any, Inside]], tmp_path: Path) -> None:
    result = run("--bundle", str(tmp_path / "no" / "x.json"))
    assert isinstance(result.exception, EnvkitError)
    assert result.exception.message.startswith(f"the report cannot be written to {tmp_path / 'no' / 'x.json'}: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "ssh://a", "--report", "x"], "--host and --report mean different machines"),
        (["--identity", "x"], "--identity and --ssh-config belong to --host or -i"),
        (["--venv", "x", "--report", "y"], "--venv is a folder of a machine, and --report is the whole machine"),
        (["--yes"], "--yes belongs to --fix"),
        (["--fix", "--host", "ssh://a"], "--fix repairs environments of this machine"),
        (["--bundle", "x", "--host", "ansible://a"], "--bundle writes the report of one machine"),
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], message: str) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, EnvkitError)
    assert (result.exception.message, result.exception.exit_code) == (message, 2)


# ---- many hosts --------------------------------------------------------------------------------------------------


@pytest.fixture
def inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "hosts.ini"
    file.write_text("[lab]\n", encoding="utf-8")
    answers = {"one": WRONG, "two": RIGHT}

    def examine(runner: Any = None, inside: Inside | None = None) -> Examined:
        if runner not in answers:
            raise Unavailable("three cannot be reached: timed out", hint="check that the host is on")
        return Examined(facts=answers[runner])

    monkeypatch.setattr(live, "examine", examine)
    monkeypatch.setattr(hosts, "connect_all", lambda path, ssh: [(name, name) for name in ("one", "two", "three")])
    return file


def test_an_inventory_is_one_document(inventory: Path) -> None:
    result = run("-i", str(inventory), "--format", "json")
    document = json.loads(result.output)
    jsonschema.validate(document, json.loads(packaged("schemas/diagnoses.json").read_text(encoding="utf-8")))
    one = json.loads(packaged("schemas/diagnosis.json").read_text(encoding="utf-8"))
    for each in document["diagnoses"]:
        jsonschema.validate(each, one)
    assert result.return_value == 1
    assert document["healthy"] is False
    assert [(each["host"], each["healthy"]) for each in document["diagnoses"]] == [("one", False), ("two", True)]
    assert document["unreached"] == [
        {"host": "three", "why": "three cannot be reached: timed out", "hint": "check that the host is on"}
    ]


def test_an_inventory_ends_with_a_line_a_host(inventory: Path) -> None:
    lines = run("-i", str(inventory)).output.splitlines()
    assert lines[0] == "== one"
    assert lines[-3:] == [
        "one    cpu-only-wheel",
        "two    nothing was found wrong",
        "three  could not be asked: three cannot be reached: timed out (check that the host is on)",
    ]


@pytest.mark.parametrize(
    ("findings", "errors", "code"),
    [
        ((), (), 0),
        ((), (Unavailable("away"),), 5),
        ((Finding(cause="x", message="m", evidence=("e",), remedy="r"),), (Unavailable("away"),), 1),
    ],
)
def test_the_exit_code_of_many_hosts(
    findings: tuple[Finding, ...], errors: tuple[EnvkitError, ...], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envkit import doctor
    from envkit.cli.doctor import _several

    monkeypatch.setattr(doctor, "diagnose", lambda matrix, facts: Diagnosis(findings=findings))
    looked = [Looked(host="a", examined=Examined(facts=RIGHT)), *(Looked(host="b", error=error) for error in errors)]
    assert _several(None, looked, "json") == code  # type: ignore[arg-type]


def test_nothing_asked_is_not_healthy() -> None:
    assert diagnoses_document([])["healthy"] is False
    assert diagnoses_text([("a", Diagnosis(findings=()))]) == "a  nothing was found wrong"
