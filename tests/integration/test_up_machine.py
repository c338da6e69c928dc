"""`envkit up` for real: this machine, the real uv, a real torch, a trained step."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab.needs import need

from envkit.venv.folder import Lock, own, read_state

pytestmark = pytest.mark.net

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def call(envkit_command: list[str], tmp_path: Path) -> Call:
    """Runs envkit in a folder of its own."""

    def run(*arguments: str, **settings: Any) -> subprocess.CompletedProcess[str]:
        settings = {"cwd": tmp_path, "timeout": 600, **settings}
        before = settings.pop("before", [])
        environ = {**os.environ, **settings.pop("environ", {})}
        done = subprocess.run(
            [*before, *envkit_command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=settings.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={key: value for key, value in environ.items() if value is not None},
            **settings,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def env(envkit_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One environment for all of these tests: each leaves it whole."""
    folder = tmp_path_factory.mktemp("up")
    command = [*envkit_command, "up", "env", "--scheme", "linux-cpu"]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode == 5:
        need(f"the package sources of this machine have no torch: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    return folder / "env"


def snapshot(env: Path) -> dict[str, int]:
    """Every file but the lock, the proof, and the byte code that the first proof leaves."""
    skipped = {"lock", "proof.json"}
    found = [env, *env.rglob("*")]
    return {
        str(path): path.lstat().st_mtime_ns
        for path in found
        if path.name not in skipped and "__pycache__" not in path.parts and path not in (env, own(env))
    }


def torch_of(env: Path) -> str:
    (found,) = env.glob("lib/python*/site-packages/torch-*.dist-info")
    return found.name.removeprefix("torch-").removesuffix(".dist-info")


# ---- once and twice ----------------------------------------------------------------------------------------------


def test_a_second_time_changes_nothing_and_is_quick(env: Path, call: Call) -> None:
    before = snapshot(env)
    # Nothing that could be asked is there: neither index nor folder.
    nowhere = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": None,
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "PIP_PROXY": "http://127.0.0.1:9",
    }
    started = time.monotonic()
    done = call("up", "env", "--format", "json", environ=nowhere, cwd=env.parent)
    seconds = time.monotonic() - started
    assert done.returncode == 0, done.stderr
    assert snapshot(env) == before
    proof = json.loads(done.stdout)
    assert (proof["schema"], proof["passed"]) == ("envkit/proof/1", True)
    proved = sum(check["seconds"] for check in proof["checks"])
    assert seconds < proved + 3, f"{seconds:.1f} s with a proof of {proved:.1f} s"
    assert "is as wished" in done.stderr


def test_the_plan_the_pins_and_the_proof_lie_in_the_environment(env: Path, call: Call) -> None:
    plan = json.loads((own(env) / "plan.json").read_text())
    assert plan["scheme"] == "linux-cpu"
    torch = next(row for row in plan["packages"] if row["name"] == "torch")
    assert torch["version"] == torch_of(env)
    assert torch["version"].endswith("+cpu")
    assert f"torch=={torch['version']}" in (own(env) / "constraints.txt").read_text()
    proof = json.loads((own(env) / "proof.json").read_text())
    assert (proof["plan"], proof["passed"]) == (plan["digest"], True)
    done = call("verify", cwd=env.parent)
    assert done.returncode == 0, done.stderr


def test_later_installs_cannot_swap_the_flavour(env: Path, tmp_path: Path) -> None:
    before = torch_of(env)
    pip = subprocess.run([env / "bin" / "pip", "install", "--quiet", "torch<2.10"], capture_output=True, text=True, check=False)
    assert pip.returncode != 0
    uv = Path(sys.executable).with_name("uv")
    script = f". '{env}/bin/activate' && exec '{uv}' pip install 'torch<2.10'"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"torch=={before}" in done.stderr
    script = f". '{env}/bin/activate' && deactivate && printf %s \"${{UV_CONSTRAINT-none}}\""
    clean = {key: value for key, value in os.environ.items() if key != "UV_CONSTRAINT"}
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, env=clean).stdout == "none"
    assert torch_of(env) == before


# ---- ended in the midst ------------------------------------------------------------------------------------------


def children(pid: int) -> set[int]:
    """Every process below `pid`."""
    with contextlib.suppress(OSError):
        below = {int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
        return below | {deeper for child in below for deeper in children(child)}
    return set()


@pytest.mark.parametrize("number", range(5))
def test_killed_at_any_moment_it_is_made_whole_by_the_next_call(
    number: int, envkit_command: list[str], call: Call, tmp_path: Path
) -> None:
    moment = random.uniform(0.05, 2.0)
    print(f"killed after {moment:.3f} s")
    first = subprocess.Popen(
        [*envkit_command, "up", "env", "--scheme", "linux-cpu"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(moment)
    below = children(first.pid)
    first.kill()
    first.wait()
    state = read_state(tmp_path / "env")
    if state is None or state.state != "complete":
        assert call("verify", "--venv", "env").returncode == 5, "half an environment must not be taken for a whole one"
    done = call("up", "env", "--scheme", "linux-cpu")
    if done.returncode == 5 and "another envkit works" not in done.stderr:
        need(f"the package sources of this machine have no torch: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    assert "PASSED" in done.stdout
    left = [pid for pid in below if Path(f"/proc/{pid}").exists() and b"uv" in Path(f"/proc/{pid}/cmdline").read_bytes()[:200]]
    assert not left, "uv must not live on"


def test_killed_in_the_midst_of_a_change_it_is_finished_by_the_next_call(
    env: Path, envkit_command: list[str], call: Call
) -> None:
    shutil.rmtree(next(env.glob("lib/python*/site-packages/torch-*.dist-info")))
    again = subprocess.Popen([*envkit_command, "up", "env"], cwd=env.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and again.poll() is None:
        state = read_state(env)
        if state is not None and state.state == "changing":
            break
        time.sleep(0.005)
    time.sleep(0.15)
    again.kill()
    again.wait()
    done = call("up", str(env))
    assert done.returncode == 0, done.stderr
    assert "PASSED" in done.stdout


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")])
def test_interrupted_it_leaves_nothing(number: int, name: str, envkit_command: list[str], tmp_path: Path) -> None:
    target = tmp_path / "deep" / "env"
    first = subprocess.Popen(
        [*envkit_command, "up", str(target), "--scheme", "linux-cpu"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not (target / "bin").exists() and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    first.send_signal(number)
    _, said = first.communicate(timeout=30)
    if first.returncode == 5:
        need(f"the package sources of this machine have no torch: {said.strip()[-300:]}")
    assert first.returncode == 130, said
    assert said.rstrip().endswith("interrupted")
    assert "Traceback" not in said
    assert not (tmp_path / "deep").exists()


def test_two_at_once_do_not_fight(env: Path, call: Call) -> None:
    before = snapshot(env)
    with Lock(env):
        done = call("up", str(env))
    assert done.returncode == 5
    assert f"another envkit works on {env} (process {os.getpid()}, since" in done.stderr
    assert snapshot(env) == before


def test_two_that_begin_together_make_one(envkit_command: list[str], tmp_path: Path) -> None:
    both = [
        subprocess.Popen(
            [*envkit_command, "up", "env", "--scheme", "linux-cpu"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    ended = [(*each.communicate(timeout=600), each.returncode) for each in both]
    if any(code == 5 and "another envkit" not in said for _, said, code in ended):
        need("the package sources of this machine have no torch")
    # The second waits a little; on a slow machine it says who is at work instead.
    assert sorted(code for _, _, code in ended) in ([0, 0], [0, 5]), ended
    state = read_state(tmp_path / "env")
    assert state is not None
    assert state.state == "complete"


# ---- damaged -----------------------------------------------------------------------------------------------------


def lose_the_record(site: Path) -> None:
    shutil.rmtree(next(site.glob("torch-*.dist-info")))


def swap_the_flavour(site: Path) -> None:
    info = next(site.glob("torch-*.dist-info"))
    metadata = (info / "METADATA").read_text(encoding="utf-8").replace("+cpu", "", 1)
    (info / "METADATA").unlink()  # uv's cache may have the same file
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    info.rename(site / info.name.replace("+cpu", ""))


def cut_a_file(site: Path) -> None:
    file = site / "numpy" / "__init__.py"
    begin = file.read_bytes()[:100]
    file.unlink()
    file.write_bytes(begin)


def spoil_a_file_of_the_cache_too(site: Path) -> None:
    with (site / "numpy" / "__init__.py").open("a") as file:  # hard-linked into uv's cache
        file.write("raise RuntimeError('spoilt')\n")


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (lose_the_record, "torch is not installed any more"),
        (swap_the_flavour, "torch is "),
        (cut_a_file, "numpy is damaged: numpy/__init__.py has 100 bytes instead of "),
        (spoil_a_file_of_the_cache_too, "numpy is damaged: numpy/__init__.py has "),
    ],
)
def test_a_damaged_environment_is_repaired_and_proved(env: Path, call: Call, harm: Callable[[Path], None], words: str) -> None:
    (site,) = env.glob("lib/python*/site-packages")
    harm(site)
    done = call("up", str(env))
    assert done.returncode == 0, done.stderr
    assert any(line.startswith(f"repairing: {words}") for line in done.stderr.splitlines()), done.stderr
    assert "PASSED" in done.stdout
    assert len(list(site.glob("torch-*.dist-info"))) == 1


# ---- places that will not do -------------------------------------------------------------------------------------


def test_blanks_and_foreign_letters_and_links_in_the_path(call: Call, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "a b ü").symlink_to("real")
    done = call("up", "a b ü/my env", "--scheme", "linux-cpu", environ={"SHELL": "/bin/bash"})
    if done.returncode == 5:
        need(f"the package sources of this machine have no torch: {done.stderr.strip()[-300:]}")
    assert done.returncode == 0, done.stderr
    assert "activate it: source 'a b ü/my env/bin/activate'" in done.stderr
    steps = ["source 'a b ü/my env/bin/activate'", "python -c 'import sys; print(sys.prefix)'", "pip --version"]
    script = " && ".join([*steps, "exec $UV pip install --dry-run 'torch<2'"])
    uv = str(Path(sys.executable).with_name("uv"))
    held = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "UV": uv}
    )
    assert held.stdout.splitlines()[0] == str(tmp_path / "real" / "my env")
    assert str(tmp_path / "real" / "my env") in held.stdout.splitlines()[1]
    assert "unsatisfiable" in held.stderr


def test_a_folder_of_others_is_not_touched(call: Call, tmp_path: Path) -> None:
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("text")
    done = call("up", "thesis")
    assert done.returncode == 2
    assert f"{tmp_path}/thesis holds files that envkit did not put there (chapter.tex); nothing was touched" in done.stderr
    assert [path.name for path in (tmp_path / "thesis").iterdir()] == ["chapter.tex"]


def test_a_folder_that_may_not_be_written_to(call: Call, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o555)
    before = []
    if os.geteuid() == 0:
        # Root may write anywhere: without these two rights it may not.
        if not shutil.which("setpriv"):
            need("setpriv, to give up root's right to write anywhere")
        before = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search"]
    done = call("up", "locked/env", before=before)
    assert done.returncode == 5
    assert f"{tmp_path}/locked can't be written to: permission denied" in done.stderr
    assert list((tmp_path / "locked").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts file systems in memory, of a given size."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            need(f"the right to mount a small file system: {done.stderr.strip()}")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("size", ["16k", "60m"])
def test_a_full_disk_is_named_and_left_as_it_was(
    size: str, call: Call, small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    disk = small_disk(f"size={size}")
    done = call("up", str(disk / "new" / "env"), "--scheme", "linux-cpu", environ={"XDG_STATE_HOME": str(tmp_path / "state")})
    if done.returncode == 5:
        need(f"the package sources of this machine have no torch: {done.stderr.strip()[-300:]}")
    assert done.returncode == 6, done.stderr
    assert "no space left on the disk" in done.stderr
    assert list(disk.iterdir()) == []


def test_a_disk_that_is_mounted_read_only(call: Call, small_disk: Callable[[str], Path]) -> None:
    disk = small_disk("size=1m,ro")
    done = call("up", str(disk / "env"))
    assert done.returncode == 5
    assert f"{disk} can't be written to: the file system is mounted read-only" in done.stderr


# ---- what cannot be had ------------------------------------------------------------------------------------------


def test_without_any_source_it_says_which_was_asked_and_the_way_out(call: Call, tmp_path: Path) -> None:
    environ: dict[str, Any] = {name: None for name in os.environ if name.startswith(("PIP_", "UV_"))}
    environ |= {
        "PIP_CONFIG_FILE": os.devnull,
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "NO_PROXY": None,
    }
    done = call("up", "env", "--scheme", "linux-cpu", environ=environ)
    assert done.returncode == 5
    assert (
        "can't be had here\n  looked at https://download.pytorch.org/whl/cpu (did not answer: Connection refused)\n"
        in done.stderr
    )
    assert (
        "hint: name a mirror (ENVKIT_PYTORCH_MIRROR=https://..., or [mirrors] in envkit.toml) or a folder of wheels"
        in done.stderr
    )
    assert not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--torch", "banana"], 2, "--torch 'banana' names no release"),
        (["--scheme", "linux-cqu"], 2, "did you mean 'linux-cpu'"),
        (["--python", "banana"], 2, "--python 'banana' names no Python 3"),
        (["--torch", "99"], 4, "the matrix knows no torch 99"),
        (["--scheme", "linux-cuda", "--torch", "0.1"], 4, "the matrix knows no torch 0.1"),
        (["--format", "banana"], 2, "'banana' is not one of"),
    ],
)
def test_bad_wishes(arguments: list[str], code: int, words: str, call: Call, tmp_path: Path) -> None:
    done = call("up", "env", *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert not (tmp_path / "env").exists()


def test_a_conflict_is_a_document_too(call: Call) -> None:
    done = call("up", "env", "--torch", "99", "--format", "json")
    assert done.returncode == 4
    assert json.loads(done.stdout)["schema"] == "envkit/conflict/1"


def test_a_closed_pipe_is_no_fault(env: Path, envkit_command: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*envkit_command, "up", "env"], cwd=env.parent, stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert done.returncode == 141
