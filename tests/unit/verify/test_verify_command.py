"""`envkit verify`: what its words mean, its exit codes and its formats; the running of probes is stood in for."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner, Result

from envkit import plan as plans
from envkit.cli import app
from envkit.cli.verify import command
from envkit.errors import Unavailable
from envkit.model import Check, Package, Plan, Proof, Verdict

PLAN = Plan(
    scheme="linux-cpu",
    verdict=Verdict.SUPPORTED,
    platform="debian-12/x86_64",
    accelerator_name="",
    accelerator_arch="",
    driver_have="",
    driver_need="",
    backend_name="cpu",
    backend_version="",
    backend_tag="cpu",
    device="cpu",
    framework_name="torch",
    framework_version="2.13.0",
    python="3.11",
    packages=(Package(name="torch", version="2.13.0+cpu", index="https://download.pytorch.org/whl/cpu"),),
)
PASSED = Proof(
    plan=plans.digest(PLAN),
    scheme="linux-cpu",
    host="lab1",
    when="2026-11-30T22:35:50Z",
    checks=(
        Check(id="train-step", level="compute", outcome="passed", seconds=0.1, detail="on cpu the loss fell from 2.3 to 2.2"),
    ),
    measured={"devices": [{"device": "cpu", "name": "", "loss_before": 2.3, "loss_after": 2.2, "max_abs_diff_to_cpu": 1e-7}]},
)
FAILED = replace(PASSED, checks=(*PASSED.checks, Check(id="flavour", level="runtime", outcome="failed", detail="wrong")))
RUNTIME = replace(PASSED, checks=(Check(id="python", level="runtime", outcome="passed"),), measured={})


class Stage:
    """What the command called, and what it got."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self.answer: Any = PASSED

    def hook(self, name: str) -> Any:
        def called(*words: Any, **more: Any) -> Any:
            self.calls.append((name, words, more))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return called


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    found = Stage()
    monkeypatch.setattr(
        "envkit.verify.hosts.connect_all", lambda inventory, pattern="all", ssh=None, *, force=False: [(pattern, None)]
    )
    for name in ("verify_venv", "verify_host", "verify_image", "verify_hosts"):
        monkeypatch.setattr(f"envkit.verify.{name}", found.hook(name))
    return found


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """An environment as `up` leaves it."""
    folder = tmp_path / "env"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").touch()
    (folder / "envkit").mkdir()
    (folder / "envkit/state.json").write_text('{"schema": "envkit/venv/1", "state": "complete"}', encoding="utf-8")
    (folder / "envkit/plan.json").write_text(json.dumps(plans.to_document(PLAN)), encoding="utf-8")
    return folder


def invoke(*words: str | Path) -> Result:
    return CliRunner().invoke(command, [str(word) for word in words], standalone_mode=False)


def code(*words: str | Path) -> int:
    return app.run(["verify", *(str(word) for word in words)])


def test_help_names_every_place() -> None:
    text = CliRunner().invoke(command, ["--help"]).output
    for words in (
        "--venv",
        "--host",
        "--inventory",
        "--image",
        "--level",
        "--limit",
        "--output",
        "--format [text|json|junit|md]",
    ):
        assert words in text


# ---- what the words mean -----------------------------------------------------------------------------------------


def test_a_venv_is_held_to_its_recorded_plan(stage: Stage, env: Path) -> None:
    for words in (("--venv", env), ("linux-cpu", "--venv", env)):
        stage.calls.clear()
        assert invoke(*words).return_value == 0
        assert stage.calls == [("verify_venv", (PLAN, env), {"limit": 300.0, "level": "compute"})]


def test_a_venv_can_be_held_to_another_scheme(stage: Stage, env: Path) -> None:
    assert invoke("linux-cuda", "--venv", env, "--limit", "9").return_value == 0
    (name, (aim, folder), more) = stage.calls[0]
    assert (name, folder, more) == ("verify_venv", env, {"limit": 9.0, "level": "compute", "record": False})
    assert (aim.scheme, aim.digest, aim.expect["backend"]) == ("linux-cuda", "", {"name": "cuda", "device": "cuda"})


def test_a_foreign_venv_needs_a_scheme(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").touch()
    assert code("--venv", tmp_path) == 2
    assert capsys.readouterr().err == (
        f"error: {tmp_path} was not made by envkit, so nothing tells what it should be\n"
        f"hint: envkit verify SCHEME --venv {tmp_path}\n"
    )
    assert invoke("linux-cpu", "--venv", tmp_path).return_value == 0


def test_a_half_made_venv_is_refused(stage: Stage, env: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (env / "envkit/state.json").write_text('{"state": "making"}', encoding="utf-8")
    assert code("--venv", env) == 5
    assert capsys.readouterr().err == (
        f"error: {env} is half made: its last install did not come to an end\nhint: make it whole with: envkit up {env}\n"
    )
    assert stage.calls == []


def test_without_arguments_the_last_environment_counts(stage: Stage, env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envkit.venv.last_environment", lambda cwd: env if cwd == Path.cwd() else None)
    assert invoke().return_value == 0
    assert stage.calls[0][1] == (PLAN, env)


def test_without_arguments_and_environment_there_is_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("envkit.venv.last_environment", lambda cwd: None)
    assert code() == 2
    assert capsys.readouterr().err == (
        "error: no environment was made from this folder yet\n"
        "hint: make one with `envkit up`, or name one: envkit verify --venv DIR\n"
    )


def test_a_scheme_alone_means_its_image(stage: Stage) -> None:
    assert invoke("linux-cpu").return_value == 0
    assert stage.calls == [
        ("verify_image", (None, "envkit/linux-cpu:latest"), {"limit": 300.0, "level": "compute", "scheme": "linux-cpu"})
    ]


def test_an_image_can_have_another_name(stage: Stage) -> None:
    assert invoke("--image", "lab/train:1").return_value == 0
    assert stage.calls[0][1] == (None, "lab/train:1")


def test_a_scheme_without_images_says_so(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("windows-cuda") == 2
    assert capsys.readouterr().err.startswith("error: windows-cuda has no image")
    assert stage.calls == []


@pytest.mark.parametrize("words", [("linux-cdua",), ("linux-cdua", "--host", "local://")])
def test_an_unknown_scheme_is_corrected(stage: Stage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert code(*words) == 2
    assert (
        capsys.readouterr().err
        == "error: unknown scheme 'linux-cdua'; did you mean 'linux-cuda'?\nhint: see them with: envkit schemes\n"
    )


def test_a_host_is_verified_over_its_url(stage: Stage) -> None:
    words = (
        "linux-cpu",
        "--host",
        "ssh://me@lab1",
        "--python",
        "/srv/py",
        "--identity",
        "/k",
        "--ssh-config",
        "/c",
        "--level",
        "runtime",
    )
    stage.answer = RUNTIME
    assert invoke(*words).return_value == 0
    (name, (aim, url), more) = stage.calls[0]
    assert (name, aim.scheme, url) == ("verify_host", "linux-cpu", "ssh://me@lab1")
    assert (more["python"], more["scheme"], more["recorded"], more["level"]) == ("/srv/py", "linux-cpu", True, "runtime")
    assert (more["ssh"].identity, more["ssh"].config) == ("/k", "/c")


def test_a_host_without_a_scheme_is_held_to_its_record(stage: Stage) -> None:
    assert invoke("--host", "local://").return_value == 0
    assert stage.calls[0][1] == (None, "local://")


def test_an_inventory_gives_a_result_a_host(stage: Stage, tmp_path: Path) -> None:
    inventory = tmp_path / "hosts.ini"
    inventory.touch()
    stage.answer = [("lab1", PASSED), ("lab2", Unavailable("lab2 cannot be reached", hint="switch it on"))]
    result = invoke("-i", inventory, "--format", "json")
    assert result.return_value == 5
    document = json.loads(result.stdout)
    assert document["unreached"] == [{"host": "lab2", "why": "lab2 cannot be reached", "hint": "switch it on"}]
    stage.answer = [*stage.answer, ("lab3", FAILED)]
    assert invoke("-i", inventory).return_value == 1
    stage.answer = [("lab1", PASSED)]
    assert invoke("-i", inventory).return_value == 0


def test_an_ansible_url_may_mean_a_group(stage: Stage) -> None:
    stage.answer = [("lab1", PASSED), ("lab2", PASSED)]
    assert invoke("--host", "ansible://gpus", "--format", "json").return_value == 0
    assert stage.calls[0][:2] == ("verify_hosts", (None, [("gpus", None)]))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--venv", "a", "--host", "local://"), "--venv and --host mean different places"),
        (("--image", "a", "--venv", "b"), "--venv and --image mean different places"),
        (("--venv", "a", "--python", "p"), "--python belongs to --host or -i"),
        (("linux-cpu", "--identity", "k"), "--identity belongs to --host or -i"),
        (("--ssh-config", "c"), "--ssh-config belongs to --host or -i"),
        (("--limit", "0"), "Invalid value for '--limit': 0.0 is not in the range x>=1."),
        (("--limit", "-1"), "Invalid value for '--limit': -1.0 is not in the range x>=1."),
        (("--limit", "nan"), "Invalid value for '--limit': nan is no time to wait"),
        (("--limit", "inf"), "Invalid value for '--limit': inf is no time to wait"),
        (("--limit", "1e99"), "Invalid value for '--limit': 1e+99 is no time to wait"),
        (("-o", ""), "Invalid value for '-o' / '--output': it names no file."),
        (("--format", "html"), "Invalid value for '--format'"),
        (("--level", "gpu"), "Invalid value for '--level'"),
        (("-i", "absent.ini"), "Invalid value for '-i' / '--inventory'"),
        (("a", "b"), "Got unexpected extra argument (b)"),
    ],
)
def test_wrong_usage_is_told(stage: Stage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str) -> None:
    assert code(*words) == 2
    assert message in capsys.readouterr().err
    assert stage.calls == []


# ---- exit codes and formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proof", "level", "status"),
    [
        (PASSED, "compute", 0),
        (FAILED, "compute", 1),
        (RUNTIME, "compute", 1),
        (RUNTIME, "runtime", 0),
        (FAILED, "runtime", 1),
        (replace(PASSED, checks=()), "compute", 1),
        (replace(PASSED, checks=()), "host", 1),
    ],
)
def test_the_exit_code_tells_whether_all_is_well(stage: Stage, env: Path, proof: Proof, level: str, status: int) -> None:
    stage.answer = proof
    assert code("--venv", env, "--level", level) == status


def test_each_format_is_the_format(stage: Stage, env: Path) -> None:
    assert invoke("--venv", env).stdout.splitlines()[-1] == "PASSED: one step trained on cpu"
    assert json.loads(invoke("--venv", env, "--format", "json").stdout)["passed"] is True
    assert ElementTree.fromstring(invoke("--venv", env, "--format", "junit").stdout).get("failures") == "0"
    assert invoke("--venv", env, "--format", "md").stdout.startswith("## linux-cpu on lab1\n")


def test_a_result_goes_into_a_file(stage: Stage, env: Path, tmp_path: Path) -> None:
    stage.answer = FAILED
    result = invoke("--venv", env, "--format", "junit", "-o", tmp_path / "report.xml")
    assert result.return_value == 1
    assert result.stdout == ""
    assert result.stderr == f"lab1: FAILED: flavour: wrong\nwritten to {tmp_path / 'report.xml'}\n"
    assert ElementTree.parse(tmp_path / "report.xml").getroot().get("failures") == "1"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["env", "report.xml"]


def test_a_result_that_cannot_be_written_is_told(
    stage: Stage, env: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert code("--venv", env, "-o", tmp_path / "absent/report.txt") == 6
    place = tmp_path / "absent/report.txt"
    assert capsys.readouterr().err == (
        f"error: the report cannot be written to {place}: No such file or directory\nhint: mkdir -p {place.parent}\n"
    )
    assert stage.calls == [], "told before anything was proved"


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only on Linux is there /dev/full")
def test_a_report_goes_through_a_device(
    stage: Stage, env: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Should it fail, the machine must not lose its device.
    monkeypatch.setattr(Path, "replace", lambda *_words: pytest.fail("a device was to be replaced"))
    assert code("--venv", env, "-o", "/dev/full") == 6
    assert "error: the report cannot be written to /dev/full: No space left on device\n" in capsys.readouterr().err
    assert Path("/dev/full").is_char_device()
    assert code("--venv", env, "-o", "/dev/null") == 0


@pytest.mark.parametrize("level", ["host", "runtime", "compute"])
@pytest.mark.parametrize("proof", [PASSED, FAILED, RUNTIME, replace(PASSED, checks=())])
def test_junit_and_the_exit_code_agree(stage: Stage, env: Path, proof: Proof, level: str) -> None:
    stage.answer = proof
    result = invoke("--venv", env, "--level", level, "--format", "junit")
    root = ElementTree.fromstring(result.stdout)
    assert (root.get("failures") != "0") == (result.return_value == 1)
    assert int(root.get("failures", "")) == len(root.findall(".//failure"))
    assert int(root.get("skipped", "")) == len(root.findall(".//skipped"))
    if not proof.passed:
        assert root.findall(".//failure") or root.findall(".//skipped"), "what was not proven is not all green"


def test_options_can_be_set_by_variables(
    stage: Stage, env: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ENVKIT_VERIFY_LIMIT", "77")
    monkeypatch.setenv("ENVKIT_VERIFY_VENV", str(env))
    monkeypatch.setenv("ENVKIT_VERIFY_FORMAT", "json")
    assert code() == 0
    assert stage.calls[0][2]["limit"] == 77.0
    assert json.loads(capsys.readouterr().out)["passed"] is True


def test_every_option_has_a_variable_of_its_own_name() -> None:
    for option in command.params:
        if isinstance(option, click.Option) and option.name != "form":
            assert f"--{option.name.replace('_', '-')}" in option.opts, option.name
