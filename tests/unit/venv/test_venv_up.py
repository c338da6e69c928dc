"""What `up` does with a folder in each state it can be in. uv is a stand-in that writes files; the rest is real."""

from __future__ import annotations

import errno
import json
import re
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from lab.fake_wheels import make_wheel

from envkit.errors import EnvkitError, StepFailed, Unavailable, Unresolvable, UsageError
from envkit.matrix import load
from envkit.model import Check, DriverFacts, Facts, Gpu, Machine, Plan, Proof, PythonFacts, Verdict, Wish
from envkit.plan import digest
from envkit.sources import Found, Index, Sources
from envkit.venv import Options, making, pythons, up
from envkit.venv.folder import CHANGING, COMPLETE, MAKING, State, own, read_state, write_state
from envkit.venv.making import DiskFull, Work
from envkit.venv.pythons import Interpreter

MATRIX = load()
FACTS = Facts(
    machine=Machine(os="linux", os_id="debian-12", arch="x86_64", glibc="2.36", libc="glibc", wsl=False, gpus=()),
    python=PythonFacts(version="3.11.9"),
)
H100 = Gpu(name="NVIDIA H100", pci_id="10de:2330", arch="sm_90", kernel_driver="nvidia", vendor="nvidia")


def with_gpu(driver: str) -> Facts:
    drivers = DriverFacts(kernel=driver, userspace=driver)
    return replace(FACTS, machine=replace(FACTS.machine, gpus=(H100,), driver=drivers, drivers={"nvidia": drivers}))


@dataclass
class Uv:
    """Writes what uv would, and can be told to fail."""

    site: str = "lib/python3.11/site-packages"
    calls: list[str] = field(default_factory=list)
    fails: dict[str, BaseException] = field(default_factory=dict)
    wrong: str = ""

    def make(self, work: Work) -> None:
        self._step("make", work)
        (work.directory / self.site).mkdir(parents=True, exist_ok=True)
        (work.directory / "bin").mkdir(exist_ok=True)
        (work.directory / "bin" / "python").touch()
        (work.directory / "bin" / "activate").write_text("deactivate () {\n}\n", encoding="utf-8")
        (work.directory / "pyvenv.cfg").write_text(f"version_info = {work.plan.python}.9\n", encoding="utf-8")

    def install(self, work: Work, *, reinstall: Any = (), corrupt: Any = (), everything: bool = False) -> None:
        self._step("reinstall everything" if everything else f"install {' '.join(reinstall)}".strip(), work)
        for name in reinstall:
            assert not (work.directory / self.site / name).exists(), "what can't be trusted is gone before"
        for package in work.plan.packages:
            self.put(work.directory, package.name, self.wrong if self.wrong and package.name == "torch" else package.version)

    def put(self, directory: Path, name: str, version: str) -> None:
        site = directory / self.site
        for old in site.glob(f"{name}-*.dist-info"):
            shutil.rmtree(old)
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info" / "METADATA").touch()
        (site / name).mkdir(exist_ok=True)
        (site / name / "__init__.py").write_text("x")
        (site / f"{name}-{version}.dist-info" / "RECORD").write_text(f"{name}/__init__.py,sha256=x,1\n")

    def _step(self, name: str, work: Work) -> None:
        state = read_state(work.directory)
        assert state is not None
        assert state.state in (MAKING, CHANGING), "the marker comes first"
        self.calls.append(name)
        (own(work.directory) / "install.log").write_text("what uv said\n", encoding="utf-8")
        if name.split()[0] in self.fails:
            raise self.fails[name.split()[0]]


@pytest.fixture
def uv(monkeypatch: pytest.MonkeyPatch) -> Uv:
    stand_in = Uv()
    monkeypatch.setattr(making, "make", stand_in.make)
    monkeypatch.setattr(making, "install", stand_in.install)
    monkeypatch.setattr(making, "add_pip", lambda work: None)
    monkeypatch.setattr(making, "find_uv", lambda: Path("uv"))
    monkeypatch.setattr(pythons, "running", lambda: Interpreter(version="3.11", path="/usr/bin/python3.11"))
    monkeypatch.setattr(pythons, "installed", lambda uv: [Interpreter(version="3.12", path="/usr/bin/python3.12")])
    monkeypatch.setattr("envkit.verify.verify_venv", prove)
    return stand_in


def prove(plan: Plan, directory: Path, *, limit: float) -> Proof:
    check = Check(id="train-step", level="compute", outcome="passed")
    return Proof(plan=digest(plan), host="here", when="now", checks=(check,))


@pytest.fixture
def wheels(tmp_path: Path) -> Sources:
    """A folder with torch 2.6.0 and 2.7.1 for the CPU, for Python 3.11 and 3.12, and no index."""
    for version in ("2.6.0", "2.7.1"):
        for python in ("cp311", "cp312"):
            make_wheel(tmp_path / "wheels", "torch", f"{version}+cpu", tag=f"{python}-{python}-manylinux_2_28_x86_64")
    return Sources(find_links=(Index(url=str(tmp_path / "wheels"), flat=True, origin="PIP_FIND_LINKS"),), offline=True)


@pytest.fixture
def env(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "env"


def bring_up(
    env: Path, sources: Sources, facts: Facts = FACTS, *, upgrade: bool = False, said: list[str] | None = None, **wish: Any
) -> str:
    lines = said if said is not None else []
    return up(env, MATRIX, Wish(**wish), facts, sources, tell=lines.append, options=Options(upgrade=upgrade, wait=0.1)).did


def torch_of(env: Path) -> str:
    document = json.loads((own(env) / "plan.json").read_text())
    return next(str(row["version"]) for row in document["packages"] if row["name"] == "torch")


def snapshot(env: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in env.rglob("*") if path.name not in ("lock", "proof.json")}


# ---- first and second --------------------------------------------------------------------------------------------


def test_a_new_folder_becomes_a_whole_environment(env: Path, uv: Uv, wheels: Sources) -> None:
    said: list[str] = []
    assert bring_up(env, wheels, said=said) == "made"
    assert uv.calls == ["make", "install"]
    state = read_state(env)
    assert state is not None
    assert (state.state, torch_of(env)) == (COMPLETE, "2.7.1+cpu")
    assert (own(env) / "constraints.txt").read_text().splitlines()[1] == "torch==2.7.1+cpu"
    assert not (own(env) / "install").exists()
    assert f"making {env} with Python 3.11" in said


def test_a_second_time_nothing_is_asked_and_nothing_changes(
    env: Path, uv: Uv, wheels: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring_up(env, wheels)
    uv.calls.clear()
    before = snapshot(env)
    monkeypatch.setattr("envkit.venv.deciding.look", lambda *_, **__: pytest.fail("nothing has to be looked for"))
    said: list[str] = []
    result = up(
        env,
        lambda: pytest.fail("the matrix is not needed"),
        Wish(),
        FACTS,
        lambda: pytest.fail("nor the sources"),
        tell=said.append,
    )
    assert (result.did, uv.calls, snapshot(env)) == ("nothing", [], before)
    assert said[0] == f"{env} is as wished: torch==2.7.1+cpu, Python 3.11"


def test_what_is_left_open_stays_as_the_environment_was_made(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels, torch="2.6")
    said: list[str] = []
    assert bring_up(env, wheels, said=said) == "nothing"
    assert torch_of(env) == "2.6.0+cpu"
    assert said[0] == "as this environment was made: --torch 2.6"


def test_another_wish_changes_it_in_place(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels, torch="2.6")
    uv.put(env, "pandas", "3.0")
    assert bring_up(env, wheels, torch="2.7") == "changed"
    assert (uv.calls, torch_of(env)) == (["make", "install", "install"], "2.7.1+cpu")
    assert (env / uv.site / "pandas").exists()


def test_upgrade_looks_for_something_newer(env: Path, uv: Uv, wheels: Sources, tmp_path: Path) -> None:
    newer = tmp_path / "wheels" / "torch-2.7.1+cpu-cp311-cp311-manylinux_2_28_x86_64.whl"
    newer.rename(tmp_path / "away")
    bring_up(env, wheels)
    assert torch_of(env) == "2.6.0+cpu"
    (tmp_path / "away").rename(newer)
    assert bring_up(env, wheels) == "nothing"
    assert bring_up(env, wheels, upgrade=True) == "changed"
    assert torch_of(env) == "2.7.1+cpu"
    before = snapshot(env)
    assert bring_up(env, wheels, upgrade=True) == "nothing"
    assert {path: time for path, time in snapshot(env).items() if not path.endswith(("state.json", "/envkit"))} == {
        path: time for path, time in before.items() if not path.endswith(("state.json", "/envkit"))
    }


def test_a_machine_that_changed_gets_its_plan_anew(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels)
    moved = replace(FACTS, machine=replace(FACTS.machine, os_id="debian-13", glibc="2.41"))
    assert bring_up(env, wheels, moved) == "changed"
    assert bring_up(env, wheels, moved) == "nothing"


def test_a_new_driver_is_nothing_to_an_environment_for_the_cpu_by_name(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels, with_gpu("580.82.07"), scheme="linux-cpu")
    assert bring_up(env, Sources(offline=True), with_gpu("590.1")) == "nothing"


# ---- left half made, damaged -------------------------------------------------------------------------------------


def test_one_that_was_left_half_made_is_made_anew(env: Path, uv: Uv, wheels: Sources) -> None:
    own(env).mkdir(parents=True)
    write_state(env, State(state=MAKING, wish={"torch": "2.6"}))
    (env / "lib").mkdir()
    (env / "lib" / "half").touch()
    said: list[str] = []
    assert bring_up(env, wheels, said=said) == "made"
    assert f"{env} was left half made; making it anew" in said
    assert not (env / "lib" / "half").exists()
    assert torch_of(env) == "2.6.0+cpu"


def test_one_that_was_left_before_its_marker_is_made(env: Path, uv: Uv, wheels: Sources) -> None:
    own(env).mkdir(parents=True)
    (own(env) / "lock").touch()
    assert bring_up(env, wheels) == "made"


def test_one_that_was_left_in_the_midst_of_a_change_is_finished(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels)
    state = read_state(env)
    assert state is not None
    write_state(env, replace(state, state=CHANGING))
    assert bring_up(env, wheels) == "repaired"
    assert uv.calls[-1] == "reinstall everything"
    after = read_state(env)
    assert after is not None
    assert after.state == COMPLETE


@pytest.mark.parametrize("version", [None, "2.7.1"])
def test_a_lost_or_swapped_torch_is_repaired_and_named(env: Path, uv: Uv, wheels: Sources, version: str | None) -> None:
    bring_up(env, wheels)
    if version:
        uv.put(env, "torch", version)
    else:
        shutil.rmtree(env / uv.site / "torch-2.7.1+cpu.dist-info")
    said: list[str] = []
    assert bring_up(env, wheels, said=said) == "repaired"
    assert uv.calls[-1] == "install torch"
    assert f"repairing: torch is {'2.7.1, not 2.7.1+cpu' if version else 'not installed any more'}" in said


def test_a_python_that_is_gone_is_put_back(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels)
    (env / "bin" / "python").unlink()
    assert bring_up(env, wheels) == "repaired"
    assert uv.calls == ["make", "install", "make", "install"]


def test_another_python_makes_it_anew_unless_something_of_the_users_would_be_lost(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels)
    uv.site = "lib/python3.12/site-packages"
    assert bring_up(env, wheels, python="3.12") == "changed"
    assert not (env / "lib" / "python3.11").exists()
    uv.put(env, "pandas", "3.0")
    before = snapshot(env)
    with pytest.raises(UsageError, match="it holds what envkit did not install: pandas"):
        bring_up(env, wheels, python="3.11")
    assert snapshot(env) == before


# ---- failures ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["make", "install"])
@pytest.mark.parametrize(
    "fault",
    [StepFailed("no", log="x"), DiskFull("full"), Unavailable("away"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full", "x")],
)
def test_what_fails_while_it_is_made_leaves_nothing(
    env: Path, uv: Uv, wheels: Sources, step: str, fault: BaseException, tmp_path: Path
) -> None:
    uv.fails = {step: fault}
    with pytest.raises((EnvkitError, KeyboardInterrupt)):
        bring_up(env, wheels)
    assert not (tmp_path / "deep").exists()
    env.mkdir(parents=True)
    with pytest.raises((EnvkitError, KeyboardInterrupt)):
        bring_up(env, wheels)
    assert list(env.iterdir()) == []


def test_the_log_outlives_what_is_taken_away(
    env: Path, uv: Uv, wheels: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    uv.fails = {"install": StepFailed("installing failed", log=str(own(env) / "install.log"))}
    with pytest.raises(StepFailed) as caught:
        bring_up(env, wheels)
    log = tmp_path / "state" / "envkit" / "up.log"
    assert caught.value.message == f"installing failed\nlog: {log}"
    assert log.read_text() == "what uv said\n"


def test_what_fails_while_it_is_changed_leaves_it_marked(env: Path, uv: Uv, wheels: Sources) -> None:
    bring_up(env, wheels, torch="2.6")
    uv.fails = {"install": StepFailed("no")}
    with pytest.raises(StepFailed):
        bring_up(env, wheels, torch="2.7")
    state = read_state(env)
    assert state is not None
    assert state.state == CHANGING
    uv.fails = {}
    assert bring_up(env, wheels) == "repaired"
    assert torch_of(env) == "2.7.1+cpu"


def test_another_flavour_than_the_plans_is_a_failed_install(env: Path, uv: Uv, wheels: Sources) -> None:
    uv.wrong = "2.7.1+cu128"
    with pytest.raises(StepFailed, match=r"the install went through, but torch is 2\.7\.1\+cu128, not 2\.7\.1\+cpu"):
        bring_up(env, wheels)
    assert not env.exists()


def test_one_at_work_is_waited_for_and_left_alone(env: Path, uv: Uv, wheels: Sources) -> None:
    from envkit.venv.folder import Lock, make_folder

    make_folder(env)
    with Lock(env), pytest.raises(Unavailable, match="another envkit works on"):
        bring_up(env, wheels)
    assert uv.calls == []
    assert (own(env) / "lock").exists()


def test_a_lock_that_cannot_be_made_leaves_nothing(
    env: Path, uv: Uv, wheels: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> None:
        raise Unavailable("no lock to be had")

    monkeypatch.setattr("envkit.venv.folder.Lock.take", full)
    with pytest.raises(Unavailable):
        bring_up(env, wheels)
    assert not (tmp_path / "deep").exists()


# ---- deciding ----------------------------------------------------------------------------------------------------


def test_nothing_that_fits_is_told_before_anything_is_asked(
    env: Path, uv: Uv, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("envkit.venv.deciding.look", lambda *_, **__: pytest.fail("nothing has to be looked for"))
    with pytest.raises(Unresolvable) as caught:
        bring_up(env, Sources(), with_gpu("470.57.02"))
    assert caught.value.document is not None
    assert caught.value.document["schema"] == "envkit/conflict/1"
    assert any(row["kind"] == "driver" for row in caught.value.document["nearest"])
    assert not (tmp_path / "deep").exists()


def test_only_the_indexes_of_what_fits_are_asked(env: Path, uv: Uv, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(sources: Sources, framework: Any, tags: Any, **_: Any) -> Found:
        asked.extend(tags)
        return Found(faults={"https://index.example": "away"})

    monkeypatch.setattr("envkit.venv.deciding.look", note)
    with pytest.raises(Unavailable):
        bring_up(env, Sources(), with_gpu("550.54.14"))
    # The driver is of CUDA 12: what needs CUDA 13's, another vendor's card or none at all is out.
    assert "cu126" in asked
    assert not [tag for tag in asked if tag.startswith(("cu13", "rocm", "xpu")) or tag == "cpu"]


def test_a_machine_with_an_accelerator_never_gets_the_cpu_unasked(env: Path, uv: Uv, wheels: Sources) -> None:
    with pytest.raises(Unavailable):  # a GPU build would fit, and only CPU builds can be had
        bring_up(env, wheels, with_gpu("580.82.07"))
    assert bring_up(env, wheels, with_gpu("580.82.07"), scheme="linux-cpu") == "made"


def test_another_python_of_this_machine_is_taken_where_only_that_has_wheels(
    env: Path, uv: Uv, wheels: Sources, tmp_path: Path
) -> None:
    for wheel in (tmp_path / "wheels").glob("*cp311*"):
        wheel.unlink()
    uv.site = "lib/python3.12/site-packages"
    said: list[str] = []
    assert bring_up(env, wheels, said=said) == "made"
    assert f"making {env} with Python 3.12" in said


def test_what_cannot_be_had_is_told_with_the_places_and_the_way_out(env: Path, uv: Uv, wheels: Sources, tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        bring_up(env, wheels, torch="2.5.1", python="3.11")
    lines = caught.value.message.splitlines()
    assert lines[0] == "torch==2.5.1+cpu for Python 3.11 can't be had here"
    assert lines[1] == f"  looked at {tmp_path / 'wheels'} (torch up to 2.7.1+cpu)"
    assert "not asked: the settings forbid the network" in lines[2]
    assert "ENVKIT_PYTORCH_MIRROR" in caught.value.hint
    assert not env.exists()


def test_a_companion_that_no_place_has_is_not_left_to_uv(env: Path, uv: Uv, wheels: Sources) -> None:
    with pytest.raises(Unavailable, match=r"torchvision==.* can't be had here"):
        bring_up(env, wheels, torch="2.7.1", extras=("torchvision",))
    assert uv.calls == []


def test_the_users_constraints_are_kept(env: Path, uv: Uv, wheels: Sources, tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("torch<2.7\n")
    bring_up(env, replace(wheels, constraints=(str(tmp_path / "c.txt"),)))
    assert torch_of(env) == "2.6.0+cpu"
    (tmp_path / "c.txt").write_text("numpy<1\n")
    with pytest.raises(UsageError, match=r"which the constraint numpy<1 in .* forbids"):
        bring_up(env.with_name("other"), replace(wheels, constraints=(str(tmp_path / "c.txt"),)))


# ---- other frameworks --------------------------------------------------------------------------------------------


@pytest.fixture
def more_wheels(tmp_path: Path, wheels: Sources) -> Sources:
    """JAX, MLX and two packages of ONNX Runtime beside torch."""
    folder = tmp_path / "wheels"
    make_wheel(folder, "jax", "0.10.2", tag="py3-none-any")
    make_wheel(folder, "jaxlib", "0.10.2", tag="cp311-cp311-manylinux_2_27_x86_64")
    make_wheel(folder, "onnxruntime", "1.32.0", tag="cp311-cp311-manylinux_2_28_x86_64")
    make_wheel(folder, "onnxruntime_gpu", "1.31.1", tag="cp311-cp311-manylinux_2_28_x86_64")
    return wheels


def test_another_framework_is_named_by_its_own_name(env: Path, uv: Uv, more_wheels: Sources) -> None:
    said: list[str] = []
    assert bring_up(env, more_wheels, said=said, scheme="linux-cpu-jax") == "made"
    assert said[0] == "looking where jax can be had"
    assert any(line.startswith("installing jax==0.10.2, jaxlib==0.10.2, numpy==") for line in said)
    assert said[-1] == "verifying: jax computes on cpu"
    assert not any("torch" in line for line in said)
    said.clear()
    assert bring_up(env, more_wheels, said=said) == "nothing"
    assert f"{env} is as wished: jax==0.10.2, Python 3.11" in said


def test_a_framework_can_be_asked_for_instead_of_a_scheme(env: Path, uv: Uv, more_wheels: Sources) -> None:
    bring_up(env, more_wheels, framework="onnxruntime")
    plan = json.loads((own(env) / "plan.json").read_text())
    assert (plan["scheme"], plan["framework"]["name"]) == ("linux-cpu-onnxruntime", "onnxruntime")
    said: list[str] = []
    assert bring_up(env, more_wheels, said=said) == "nothing"
    assert said[0] == "as this environment was made: --framework onnxruntime"


def test_the_package_of_the_build_is_looked_for(env: Path, uv: Uv, more_wheels: Sources) -> None:
    facts = with_gpu("580.95.05")
    said: list[str] = []
    bring_up(env, more_wheels, facts, said=said, scheme="linux-cuda-onnxruntime")
    assert said[0] == "looking where onnxruntime-gpu can be had"
    plan = json.loads((own(env) / "plan.json").read_text())
    assert plan["packages"][0] | {"index": ""} == {
        "name": "onnxruntime-gpu",
        "version": "1.31.1",
        "index": "",
        "extras": "cuda,cudnn",
    }


def test_another_framework_makes_it_anew_unless_something_of_the_users_would_be_lost(
    env: Path, uv: Uv, more_wheels: Sources
) -> None:
    bring_up(env, more_wheels, scheme="linux-cpu")
    said: list[str] = []
    assert bring_up(env, more_wheels, said=said, scheme="linux-cpu-jax") == "changed"
    assert f"{env} was made with torch==2.7.1+cpu; making it anew with jax==0.10.2" in said
    site = env / uv.site
    assert not (site / "torch").exists()
    assert (site / "jax").exists()
    (env / "src").mkdir()
    (env / "src/thesis.py").write_text("years of work\n", encoding="utf-8")
    with pytest.raises(UsageError, match="and it holds what envkit did not install: src$"):
        bring_up(env, more_wheels, scheme="linux-cpu-onnxruntime")
    assert (env / "src/thesis.py").is_file()
    shutil.rmtree(env / "src")
    uv.put(env, "flax", "0.12")
    before = snapshot(env)
    with pytest.raises(UsageError) as caught:
        bring_up(env, more_wheels, scheme="linux-cpu-onnxruntime")
    assert caught.value.message == (
        f"{env} was made with jax==0.10.2, onnxruntime==1.32.0 is wanted now, and it holds what envkit did not install: flax"
    )
    assert snapshot(env) == before


@pytest.mark.parametrize("framework", ["jax", "mlx", "openvino", "onnxruntime"])
def test_what_pypi_does_not_give_is_told_with_pypis_way_out(env: Path, uv: Uv, wheels: Sources, framework: str) -> None:
    with pytest.raises(Unavailable) as caught:
        bring_up(env, wheels, framework=framework, python="3.11")
    assert "not asked: the settings forbid the network" in caught.value.message
    assert "torch==" not in caught.value.message
    assert caught.value.hint.startswith("name a mirror (PIP_INDEX_URL=https://...")
    assert not env.exists()


def test_what_only_a_vendor_hands_out_is_refused_with_the_way_to_get_it(
    env: Path, uv: Uv, monkeypatch: pytest.MonkeyPatch
) -> None:
    gaudi = Gpu(name="Gaudi3", pci_id="1da3:1060", arch="gaudi3", kernel_driver="habanalabs", vendor="habana")
    machine = replace(FACTS.machine, os_id="ubuntu-22.04", glibc="2.35", gpus=(gaudi,), modules=("habanalabs",))
    asked: list[Any] = []
    monkeypatch.setattr("envkit.venv.deciding.look", lambda *a, **k: asked.append(a))
    with pytest.raises(Unavailable) as caught:
        bring_up(env, Sources(), replace(FACTS, machine=machine), scheme="linux-hpu", accept=tuple(Verdict))
    lines = caught.value.message.splitlines()
    assert re.fullmatch(
        r"linux-hpu: no package index has torch==\S+( and \S+)*, so envkit up cannot fetch it; it comes from the vendor", lines[0]
    )
    assert [line[:5] for line in lines[1:]] == [f"  {n}. " for n in range(1, len(MATRIX.schemes["linux-hpu"].install) + 1)]
    assert caught.value.exit_code == 5
    assert caught.value.hint == "or take the image that is built on the vendor's: envkit build linux-hpu"
    assert asked == []
    assert not env.exists()
