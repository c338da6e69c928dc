"""Whose a folder is, what its marker says, and that one works on it at a time."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from envkit.errors import EnvkitError, Unavailable, UsageError
from envkit.model import Package, Plan, Verdict
from envkit.plan import digest, to_document
from envkit.venv import folder
from envkit.venv.folder import (
    CHANGING,
    COMPLETE,
    MAKING,
    Lock,
    State,
    cannot_write,
    clear,
    last_environment,
    make_folder,
    own,
    read_state,
    remember,
    settle,
    take_away,
    write_state,
    write_whole,
)


def ours(path: Path, word: str = COMPLETE) -> Path:
    own(path).mkdir(parents=True)
    write_state(
        path, State(state=word, plan="sha256:1", wish={"torch": "2.7"}, tops={"torch": ("torch",)}, installed={"torch": "2.7.1"})
    )
    return path


def names(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


# ---- whose -------------------------------------------------------------------------------------------------------


def test_new_empty_and_own_folders_may_be_used(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    mine = ours(tmp_path / "mine")
    (mine / "bin").mkdir()
    for name in ("new", "deep/er/new", "empty", "mine", "with blank ü"):
        assert settle(tmp_path / name) == tmp_path / name
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "deep").exists()


def test_a_link_to_a_folder_means_the_folder(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert settle(tmp_path / "link") == tmp_path / "real"


@pytest.mark.parametrize("inside", [[], ["lock"], ["lock", ".state.json.1.tmp"], ["state.json"]])
def test_a_folder_that_was_left_before_its_marker_is_ours(tmp_path: Path, inside: list[str]) -> None:
    own(tmp_path).mkdir()
    for name in inside:
        (own(tmp_path) / name).touch()
    assert settle(tmp_path) == tmp_path


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["a"], "holds files that envkit did not put there (a); nothing was touched"),
        (["a", "b", "c", "d", "e"], "holds files that envkit did not put there (a, b, c and 2 more); nothing was touched"),
        ([".hidden"], "holds files that envkit did not put there (.hidden); nothing was touched"),
        (["pyvenv.cfg", "bin/python"], "is a virtual environment that envkit did not make; it was not touched"),
        (["envkit/notes.txt"], "holds files that envkit did not put there (envkit); nothing was touched"),
        (["envkit/lock", "thesis.tex"], "holds files that envkit did not put there (envkit, thesis.tex); nothing was touched"),
    ],
)
def test_folders_of_others_are_refused(tmp_path: Path, files: list[str], message: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(UsageError) as caught:
        settle(tmp_path)
    assert caught.value.message == f"{tmp_path} {message}"


def test_files_dangling_links_and_names_no_search_path_can_carry_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    cases = {
        "file": "is a file, not a folder",
        "file/below": "is a file, so",
        "dangling": "is a link to nowhere, which does not exist",
        "a:b": "which no search path can carry",
        "a\nb": "which no search path can carry",
    }
    for name, words in cases.items():
        with pytest.raises(UsageError) as caught:
            settle(tmp_path / name)
        assert words in caught.value.message


def test_a_folder_that_may_not_be_written_to_is_told_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder.os, "access", lambda *_: False)
    with pytest.raises(Unavailable) as caught:
        settle(tmp_path / "a" / "b")
    assert caught.value.message == f"{tmp_path} can't be written to: permission denied"
    monkeypatch.setattr(folder, "_read_only", lambda _: True)
    with pytest.raises(Unavailable, match="mounted read-only"):
        settle(tmp_path / "a")


@pytest.mark.parametrize(
    ("number", "code"),
    [(errno.ENOSPC, 6), (errno.EACCES, 5), (errno.EROFS, 5), (errno.ENAMETOOLONG, 2), (errno.ELOOP, 2), (errno.EIO, 6)],
)
def test_faults_of_the_file_system_have_their_exit_codes(number: int, code: int) -> None:
    assert cannot_write(Path("/x"), OSError(number, os.strerror(number), "/x")).exit_code == code


# ---- the marker --------------------------------------------------------------------------------------------------


def test_the_marker_is_read_back_as_written(tmp_path: Path) -> None:
    ours(tmp_path / "e")
    state = read_state(tmp_path / "e")
    assert state is not None
    assert (state.state, state.plan, dict(state.wish), dict(state.installed), dict(state.tops)) == (
        COMPLETE,
        "sha256:1",
        {"torch": "2.7"},
        {"torch": "2.7.1"},
        {"torch": ("torch",)},
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '{"schema": "envkit/state/1"}', '{"schema": "envkit/state/1", "state": "whole"}', '{"schema": "x"}'],
)
def test_a_marker_that_is_none_makes_nothing_ours(tmp_path: Path, text: str) -> None:
    own(tmp_path).mkdir()
    (own(tmp_path) / "state.json").write_text(text, encoding="utf-8")
    (tmp_path / "thesis.tex").touch()
    assert read_state(tmp_path) is None
    with pytest.raises(UsageError):
        settle(tmp_path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    write_whole(file, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folder.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert names(tmp_path) == ["f"]


# ---- making and taking away --------------------------------------------------------------------------------------


def test_what_was_not_there_is_taken_away_and_what_was_stays(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target = tmp_path / "there" / "a" / "b"
    made = make_folder(target)
    write_state(target, State(state=MAKING))
    (target / "lib").mkdir()
    (target / "lib" / "x").touch()
    take_away(target, made)
    assert names(tmp_path) == ["there"]
    assert names(tmp_path / "there") == []


def test_an_empty_folder_that_was_there_stays(tmp_path: Path) -> None:
    take_away(tmp_path, make_folder(tmp_path))
    assert tmp_path.is_dir()
    assert names(tmp_path) == []


def test_clearing_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").touch()
    target = ours(tmp_path / "e", MAKING)
    (target / "lib64").symlink_to(tmp_path / "precious")
    clear(target)
    assert names(target) == ["envkit"]
    assert (tmp_path / "precious" / "x").exists()


# ---- one at a time -----------------------------------------------------------------------------------------------


def test_the_second_waits_and_then_says_who_holds_it(tmp_path: Path) -> None:
    target = ours(tmp_path / "e")
    with Lock(target), pytest.raises(Unavailable) as caught, Lock(target, wait=0.2):
        pass
    assert f"another envkit works on {target} (process {os.getpid()}, since " in caught.value.message
    with Lock(target, wait=0):
        pass


def test_a_lock_whose_folder_was_taken_away_is_taken_anew(tmp_path: Path) -> None:
    target = ours(tmp_path / "e")
    first = Lock(target).take()
    (own(target) / "lock").unlink()
    with Lock(target, wait=0.2) as second:
        assert second.descriptor >= 0
    first.__exit__(None, None, None)


def test_a_lock_taken_on_a_file_that_is_gone_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = ours(tmp_path / "e")
    taken: list[int] = []
    lock = folder._lock

    def slow(descriptor: int) -> None:
        if not taken:  # the one before lets go, and takes the folder away with it
            (own(target) / "lock").unlink()
            (own(target) / "lock").touch()
        taken.append(descriptor)
        lock(descriptor)

    monkeypatch.setattr(folder, "_lock", slow)
    with Lock(target, wait=1) as mine:
        assert len(taken) == 2
        assert os.fstat(mine.descriptor).st_ino == (own(target) / "lock").stat().st_ino


# ---- the last one ------------------------------------------------------------------------------------------------


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_the_last_one_made_from_here_comes_before_the_last_one_made(tmp_path: Path, memory: Path) -> None:
    assert last_environment(tmp_path) is None
    a, b = ours(tmp_path / "a"), ours(tmp_path / "b")
    remember(a, tmp_path / "x")
    remember(b, tmp_path / "y")
    assert last_environment(tmp_path / "x") == a
    assert last_environment(tmp_path / "z") == b
    remember(a, tmp_path / "x")
    assert last_environment(tmp_path / "z") == a


def test_one_that_is_gone_is_no_last_one(tmp_path: Path, memory: Path) -> None:
    a = ours(tmp_path / "a")
    remember(tmp_path / "gone", tmp_path)
    assert last_environment(tmp_path) is None
    remember(a, tmp_path / "x")
    assert last_environment(tmp_path) == a


@pytest.mark.parametrize("text", ["", "{", "[]", '{"environments": 3}', '{"environments": [1, {"environment": 2}]}'])
def test_a_broken_memory_is_an_empty_one(tmp_path: Path, memory: Path, text: str) -> None:
    (memory / "envkit").mkdir(parents=True)
    (memory / "envkit" / "last.json").write_text(text, encoding="utf-8")
    assert last_environment(tmp_path) is None
    remember(ours(tmp_path / "a"), tmp_path)
    assert last_environment(tmp_path) == tmp_path / "a"


def test_remembering_the_same_again_writes_nothing(tmp_path: Path, memory: Path) -> None:
    a = ours(tmp_path / "a")
    remember(a, tmp_path)
    before = (memory / "envkit" / "last.json").stat().st_mtime_ns
    remember(a, tmp_path)
    assert (memory / "envkit" / "last.json").stat().st_mtime_ns == before


def test_a_state_folder_that_cannot_be_written_is_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    remember(ours(tmp_path / "a"), tmp_path)
    assert isinstance(cannot_write(tmp_path, OSError(errno.EIO, "x")), EnvkitError)


# ---- a marker that was lost --------------------------------------------------------------------------------------


WRONG_TYPES = '{"schema": "envkit/state/1", "state": "complete", "installed": 5}'


@pytest.mark.parametrize("marker", [None, "", "{", "[]", '{"schema": "x"}', WRONG_TYPES])
def test_an_environment_of_ours_without_its_marker_is_told_by_its_plan(tmp_path: Path, marker: str | None) -> None:
    (tmp_path / "envkit").mkdir()
    (tmp_path / "pyvenv.cfg").touch()
    plan = Plan(
        scheme="linux-cpu",
        verdict=Verdict.SUPPORTED,
        platform="debian-12/x86_64",
        accelerator_name="",
        accelerator_arch="",
        driver_have="",
        driver_need="",
        backend_name="cpu",
        backend_version="0",
        backend_tag="cpu",
        device="cpu",
        framework_name="torch",
        framework_version="2.13.0",
        python="3.11",
        packages=(Package(name="torch", version="2.13.0+cpu", index="https://index.example/cpu"),),
    )
    (tmp_path / "envkit" / "plan.json").write_text(json.dumps(to_document(plan)), encoding="utf-8")
    if marker is not None:
        (tmp_path / "envkit" / "state.json").write_text(marker, encoding="utf-8")
    state = read_state(tmp_path)
    assert state is not None
    assert (state.state, state.plan) == (CHANGING, digest(plan))
    assert state.wish == {"scheme": "linux-cpu", "torch": "2.13.0", "python": "3.11"}
    assert settle(tmp_path) == tmp_path.resolve()
    # Without the environment itself, a plan alone makes nothing ours.
    (tmp_path / "pyvenv.cfg").unlink()
    assert read_state(tmp_path) is None
