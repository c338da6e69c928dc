"""Repairs: what is done from here, what is left to a person, and that nothing is done unasked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from envkit.cli import app
from envkit.detect import Examined
from envkit.doctor import fix, live
from envkit.errors import StepFailed, Unavailable, Unresolvable
from envkit.model import Diagnosis, Facts, Finding, Gpu, Machine, PythonFacts, Severity
from envkit.process import Completed
from envkit.venv import mending


def finding(cause: str, severity: Severity = Severity.ERROR) -> Finding:
    return Finding(cause=cause, message="m", evidence=("e",), remedy="Do it.", commands=("sudo do-it",), severity=severity)


def facts(folder: Path | None) -> Facts:
    executable = str(folder / "bin/python") if folder else "/usr/bin/python3"
    return Facts(
        machine=Machine(os="linux", gpus=(Gpu(name="NVIDIA GeForce RTX 4090", vendor="nvidia", arch="sm_89"),)),
        python=PythonFacts(version="3.11.9", executable=executable, packages={"torch": "2.6.0+cpu", "torchvision": "0.21.0+cpu"}),
        torch={"version": "2.6.0+cpu", "cuda": "", "hip": "", "available": False},
    )


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    folder = tmp_path / "my env"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin/python").write_text("", encoding="utf-8")
    (folder / "pyvenv.cfg").write_text("version = 3.11.9\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("cause", sorted(fix.REPAIRED_BY_WHEELS))
def test_wheels_are_repaired_in_environments_alone(cause: str, venv: Path) -> None:
    diagnosis = Diagnosis(findings=(finding(cause),))
    (step,) = fix.steps(diagnosis, facts(venv))
    assert step.safe
    assert step.does == f"reinstall the right wheels in {venv}, with what was there noted, so that it can be put back"
    assert step.commands == (f"envkit doctor --venv '{venv}' --fix --yes",)
    (step,) = fix.steps(diagnosis, facts(None))
    assert (step.safe, step.does, step.commands) == (False, "Do it.", ("sudo do-it",))


@pytest.mark.parametrize(
    "cause",
    [
        "nvidia-driver-too-old",
        "nouveau-bound",
        "rocm-user-not-in-render-group",
        "two-torch-installs",
        "nvidia-secure-boot-unsigned",
        "container-shm-small",
        "rocm-dkms-stale",
    ],
)
def test_drivers_groups_and_containers_are_left_to_people(cause: str, venv: Path) -> None:
    (step,) = fix.steps(Diagnosis(findings=(finding(cause),)), facts(venv))
    assert not step.safe


def test_what_is_no_trouble_needs_no_repair(venv: Path) -> None:
    assert fix.steps(Diagnosis(findings=(finding("cpu-only-wheel", Severity.INFO),)), facts(venv)) == []


def test_an_environment_of_ours_goes_through_up(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []

    def up(directory: Path, matrix: Any, wish: Any, told: Facts, sources: Any, *, tell: Any) -> Any:
        calls.append((directory, wish.extras, wish.scheme))
        package = SimpleNamespace(requirement="torch==2.6.0+cu124")
        return SimpleNamespace(plan=SimpleNamespace(framework_package=package), did="repaired")

    monkeypatch.setattr("envkit.venv.up", up)
    monkeypatch.setattr(fix, "_is_ours", lambda directory: True)
    done = fix.repair(None, facts(venv), Diagnosis(findings=(finding("cpu-only-wheel"),)), print)  # type: ignore[arg-type]
    assert done == [f"{venv} holds torch==2.6.0+cu124 again (repaired)"]
    assert calls == [(venv, ("torchvision",), "")]


def test_without_anything_safe_nothing_is_done(venv: Path) -> None:
    assert fix.repair(None, facts(venv), Diagnosis(findings=(finding("nouveau-bound"),)), print) == []  # type: ignore[arg-type]


# ---- environments of others --------------------------------------------------------------------------------------


class Decided:
    """`decide` as the test wants it, and what it was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fails: tuple[str, ...] = (), returncode: int = 0) -> None:
        self.wishes: list[Any] = []
        self.ran: list[list[str]] = []
        package = SimpleNamespace(name="torch", version="2.6.0+cu124", requirement="torch==2.6.0+cu124")
        plan = SimpleNamespace(packages=(package,))

        def decide(matrix: Any, wish: Any, told: Facts, sources: Any, uv: Path, tell: Any) -> Any:
            self.wishes.append(wish)
            if wish.torch in fails:
                raise Unresolvable("nothing fits")
            return SimpleNamespace(plan=plan, found=None)

        def run(argv: list[str], **options: Any) -> Completed:
            self.ran.append(argv)
            assert (options["cwd"] / "pyproject.toml").read_text(encoding="utf-8") == "project"
            return Completed(argv=tuple(argv), returncode=returncode, stderr="error: it broke")

        install = SimpleNamespace(project="project", constraints="", arguments=("--find-links", "x"), environ=dict)
        monkeypatch.setattr(mending, "decide", decide)
        monkeypatch.setattr(mending, "run", run)
        monkeypatch.setattr(mending, "installation", lambda *parts: install)
        monkeypatch.setattr(mending, "partners", lambda *parts: ())
        monkeypatch.setattr(mending.making, "find_uv", lambda: Path("/usr/bin/uv"))


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def site_of(venv: Path) -> Path:
    site = venv / "lib/python3.11/site-packages"
    (site / "torch-2.6.0+cpu.dist-info").mkdir(parents=True)
    (site / "torch-2.6.0+cpu.dist-info/METADATA").write_text("Name: torch\n", encoding="utf-8")
    return site


@pytest.mark.skipif("sys.platform == 'win32'", reason="only on POSIX: the folders are named otherwise there")
def test_the_release_is_kept_and_what_was_there_is_noted(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_of(venv)
    decided = Decided(monkeypatch)
    done = mending.mend(venv, None, facts(venv), None, release="2.6.0", companions=["torchvision"])  # type: ignore[arg-type]
    assert [(wish.torch, wish.python, wish.extras) for wish in decided.wishes] == [("2.6.0", "3.11", ("torchvision",))]
    assert done.before.read_text(encoding="utf-8") == "torch==2.6.0+cpu\n"
    assert done.undo == f"uv pip install --python '{venv}/bin/python' -r '{done.before}'"
    argv = decided.ran[0]
    assert argv[:5] == ["/usr/bin/uv", "pip", "install", "--python", f"{venv}/bin/python"]
    assert argv[-4:] == ["--find-links", "x", "--reinstall-package", "torch"]


@pytest.mark.skipif("sys.platform == 'win32'", reason="only on POSIX: the folders are named otherwise there")
def test_another_release_is_taken_where_that_one_does_not_fit(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_of(venv)
    decided = Decided(monkeypatch, fails=("2.2.2",))
    told: list[str] = []
    mending.mend(venv, None, facts(venv), None, release="2.2.2", tell=told.append)  # type: ignore[arg-type]
    assert [wish.torch for wish in decided.wishes] == ["2.2.2", ""]
    assert told[0] == "no torch 2.2.2 that fits this machine can be had here; taking the newest that does"
    with pytest.raises(Unresolvable):
        Decided(monkeypatch, fails=("2.2.2", ""))
        mending.mend(venv, None, facts(venv), None, release="2.2.2")  # type: ignore[arg-type]


@pytest.mark.skipif("sys.platform == 'win32'", reason="only on POSIX: the folders are named otherwise there")
def test_a_failed_install_is_told(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site_of(venv)
    Decided(monkeypatch, returncode=2)
    with pytest.raises(StepFailed, match="installing failed"):
        mending.mend(venv, None, facts(venv), None)  # type: ignore[arg-type]


def test_only_virtual_environments_are_repaired(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="is no virtual environment, and only those are repaired"):
        mending.mend(tmp_path, None, facts(None), None)  # type: ignore[arg-type]


# ---- the command -------------------------------------------------------------------------------------------------


def test_the_command_shows_first_and_does_only_when_told(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = {"facts": facts(venv)}
    healthy = Facts(machine=Machine(os="linux", gpus=()), python=state["facts"].python)
    monkeypatch.setattr(live, "examine", lambda *parts: Examined(facts=state["facts"]))

    def repair(*parts: Any) -> list[str]:
        state["facts"] = healthy
        return ["done"]

    monkeypatch.setattr(fix, "repair", repair)
    shown = CliRunner().invoke(app.envkit, ["doctor", "--venv", str(venv), "--fix"], standalone_mode=False)
    assert shown.return_value == 1
    assert f"from here, with --yes: cpu-only-wheel: reinstall the right wheels in {venv}" in shown.stderr
    assert state["facts"] is not healthy
    done = CliRunner().invoke(app.envkit, ["doctor", "--venv", str(venv), "--fix", "--yes"], standalone_mode=False)
    assert done.return_value == 0
    assert "repairing: cpu-only-wheel" in done.stderr
    assert done.stdout.startswith("nothing was found wrong\n")
