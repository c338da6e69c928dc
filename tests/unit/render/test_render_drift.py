"""What lies in the folder, held against what should lie there."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.errors import UsageError
from envkit.matrix import load
from envkit.render import Drift, Rendering, find_drift, render_schemes, write_files
from envkit.render.drift import is_generated, remove_stale


@pytest.fixture(scope="module")
def whole() -> Rendering:
    return render_schemes(load())


def written(rendering: Rendering, folder: Path) -> None:
    write_files(rendering, folder, find_drift(rendering, folder))


def test_twice_the_same_bytes(whole: Rendering) -> None:
    assert dict(render_schemes(load()).files) == dict(whole.files)


def test_every_scheme_has_a_play_and_an_image_or_a_reason(whole: Rendering) -> None:
    matrix = load()
    for name, scheme in matrix.schemes.items():
        assert f"playbooks/{name}.yml" in whole.files
        if scheme.container:
            assert f"images/{name}/Dockerfile" in whole.files
        else:
            assert whole.skipped[name] == f"no image: {scheme.no_container}"
    assert "images/docker-bake.json" in whole.files
    assert "images/probe.py" in whole.files


def test_an_empty_folder_misses_everything_and_a_written_one_nothing(whole: Rendering, tmp_path: Path) -> None:
    assert find_drift(whole, tmp_path).missing == tuple(whole.files)
    written(whole, tmp_path)
    drift = find_drift(whole, tmp_path)
    assert not drift
    assert drift.same == tuple(whole.files)
    assert not list(tmp_path.rglob("*.tmp"))
    assert b"\r" not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "place", ["images/linux-cpu/Dockerfile", "images/linux-cpu/plan/plan.json", "playbooks/linux-cuda.yml", "images/probe.py"]
)
def test_a_file_edited_by_hand_is_changed_and_written_again(whole: Rendering, tmp_path: Path, place: str) -> None:
    written(whole, tmp_path)
    path = tmp_path / place
    path.write_text(path.read_text(encoding="utf-8") + "# more\n", encoding="utf-8")
    assert find_drift(whole, tmp_path).changed == (place,)
    written(whole, tmp_path)
    assert path.read_text(encoding="utf-8") == whole.files[place]


def test_line_ends_of_windows_are_a_change(whole: Rendering, tmp_path: Path) -> None:
    written(whole, tmp_path)
    path = tmp_path / "playbooks/linux-cpu.yml"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert find_drift(whole, tmp_path).changed == ("playbooks/linux-cpu.yml",)


def test_files_of_a_scheme_that_is_no_more_are_stale(whole: Rendering, tmp_path: Path) -> None:
    written(whole, tmp_path)
    gone = tmp_path / "images/linux-abacus"
    (gone / "plan").mkdir(parents=True)
    (gone / "Dockerfile").write_text(whole.files["images/linux-cpu/Dockerfile"], encoding="utf-8")
    (gone / "plan/plan.json").write_text(whole.files["images/linux-cpu/plan/plan.json"], encoding="utf-8")
    (gone / "notes.txt").write_text("mine", encoding="utf-8")
    drift = find_drift(whole, tmp_path)
    assert drift == Drift(stale=("images/linux-abacus/Dockerfile", "images/linux-abacus/plan/plan.json"), same=tuple(whole.files))
    written(whole, tmp_path)
    assert (gone / "Dockerfile").exists(), "nothing is removed unasked"
    remove_stale(tmp_path, drift)
    assert sorted(path.name for path in gone.iterdir()) == ["notes.txt"]
    assert not find_drift(whole, tmp_path)


def test_an_image_that_a_scheme_no_longer_has_is_stale(whole: Rendering, tmp_path: Path) -> None:
    written(whole, tmp_path)
    path = tmp_path / "images/windows-cpu/Dockerfile"
    path.parent.mkdir()
    path.write_text(whole.files["images/linux-cpu/Dockerfile"], encoding="utf-8")
    assert find_drift(whole, tmp_path).stale == ("images/windows-cpu/Dockerfile",)


def test_what_somebody_else_wrote_is_named_and_never_touched(whole: Rendering, tmp_path: Path) -> None:
    own = tmp_path / "images/linux-cpu/Dockerfile"
    own.parent.mkdir(parents=True)
    own.write_text("FROM alpine\n", encoding="utf-8")
    other = tmp_path / "playbooks/site.yml"
    other.parent.mkdir()
    other.write_text("- hosts: all\n", encoding="utf-8")
    drift = find_drift(whole, tmp_path)
    assert drift.foreign == ("images/linux-cpu/Dockerfile",)
    assert drift.stale == ()
    with pytest.raises(UsageError) as caught:
        write_files(whole, tmp_path, drift)
    assert caught.value.message == f"{tmp_path}: these files were not written by envkit render:\n  images/linux-cpu/Dockerfile"
    assert own.read_text(encoding="utf-8") == "FROM alpine\n"
    assert not (tmp_path / "images/linux-cuda").exists(), "refused before anything was written"


def test_one_scheme_leaves_the_others_alone(tmp_path: Path) -> None:
    one = render_schemes(load(), ["linux-cpu"])
    assert sorted(one.files) == [
        "images/linux-cpu/Dockerfile",
        "images/linux-cpu/plan/constraints.txt",
        "images/linux-cpu/plan/plan.json",
        "images/linux-cpu/plan/pyproject.toml",
        "images/probe.py",
        "playbooks/linux-cpu.yml",
    ]
    written(render_schemes(load()), tmp_path)
    (tmp_path / "playbooks/linux-cuda.yml").unlink()
    assert not find_drift(one, tmp_path)


def test_every_generated_file_is_known_for_one(whole: Rendering) -> None:
    with_roles = render_schemes(load(), with_roles=True)
    assert set(with_roles.files) > set(whole.files)
    assert "playbooks/roles/verify/files/probe.py" in with_roles.files
    assert [place for place, text in with_roles.files.items() if not is_generated(place, text.encode())] == []


def test_a_folder_where_a_file_should_be_is_an_error(whole: Rendering, tmp_path: Path) -> None:
    (tmp_path / "images/probe.py").mkdir(parents=True)
    with pytest.raises(OSError, match=r"probe\.py"):
        written(whole, tmp_path)
