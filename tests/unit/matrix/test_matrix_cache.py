"""The cache of parsed files: the same content, faster, and never in the way."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path

import pytest

from envkit.matrix import parsed
from envkit.matrix.parsed import derive, read_toml

TEXT = 'a = "ä"\n[b]\nc = [1, 2.5, true]\n'
CONTENT = {"a": "ä", "b": {"c": [1, 2.5, True]}}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's cache lies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/envkit/toml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A TOML file."""
    path = tmp_path / "f.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def forbid_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsed, "parse_toml", lambda raw, label: pytest.fail("parsed again"))


def test_a_second_reading_does_not_parse(folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_toml(file) == CONTENT
    forbid_parsing(monkeypatch)
    assert read_toml(file) == CONTENT


def test_a_changed_file_is_parsed(folder: Path, file: Path) -> None:
    read_toml(file)
    file.write_text("a = 2\n", encoding="utf-8")
    assert read_toml(file) == {"a": 2}
    assert len(entries(folder)) == 2


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"sha256": "0", "content": {}}', b"\xff\xfe", b'{"content": {}}', b"[" * 100_000]
)
def test_a_damaged_entry_is_parsed_over(folder: Path, file: Path, damage: bytes) -> None:
    read_toml(file)
    entry = entries(folder)[0]
    whole = entry.read_bytes()
    entry.write_bytes(damage)
    assert read_toml(file) == CONTENT
    assert entry.read_bytes() == whole


def test_content_that_is_no_table_is_not_believed(folder: Path, file: Path) -> None:
    read_toml(file)
    entry = entries(folder)[0]
    entry.write_text(json.dumps({"sha256": entry.stem, "content": [1]}), encoding="utf-8")
    assert read_toml(file) == CONTENT


@pytest.mark.parametrize("place", ["file", "below-file"])
def test_a_folder_that_cannot_be_made(tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" if place == "file" else tmp_path / "file/x"))
    assert read_toml(file) == CONTENT


def test_a_folder_that_may_not_be_written(folder: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_args: object, **_kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    folder.mkdir(parents=True)
    monkeypatch.setattr(parsed.os, "replace", full)
    assert read_toml(file) == CONTENT
    assert entries(folder) == []  # the temporary file is gone as well


def test_a_home_that_is_not_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("no home")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(homeless))
    assert parsed.cache_folder() is None
    assert read_toml(file) == CONTENT


def test_a_relative_cache_folder_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parsed.cache_folder() == tmp_path / ".cache/envkit/toml"


@pytest.mark.parametrize("text", ["a = 2026-11-30\n", "a = 07:32:00\n", "a = nan\n", "a = inf\n"])
def test_what_json_cannot_hold_is_not_kept(folder: Path, tmp_path: Path, text: str) -> None:
    path = tmp_path / "d.toml"
    path.write_text(text, encoding="utf-8")
    assert str(read_toml(path)) == str(read_toml(path))
    assert entries(folder) == []


def test_entries_are_private_and_whole(folder: Path, file: Path) -> None:
    read_toml(file)
    assert [entry.suffix for entry in entries(folder)] == [".json"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(entries(folder)[0].stat().st_mode) == 0o600


def test_old_entries_go(folder: Path, tmp_path: Path) -> None:
    for number in range(40):
        path = tmp_path / "n.toml"
        path.write_text(f"a = {number}\n", encoding="utf-8")
        read_toml(path)
    assert len(entries(folder)) <= 25


def test_many_readers_at_once(folder: Path, file: Path) -> None:
    results: list[object] = []
    threads = [threading.Thread(target=lambda: results.append(read_toml(file))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [CONTENT] * 16
    assert [entry.suffix for entry in entries(folder)] == [".json"]


def test_what_is_derived_is_kept_until_file_or_recipe_change(folder: Path, file: Path) -> None:
    calls: list[str] = []

    def make(contents: list[dict[str, object]]) -> dict[str, object]:
        calls.append("made")
        return {"first": contents[0]["a"]}

    assert derive([file], "one", make) == derive([file], "one", make) == {"first": "ä"}
    assert len(calls) == 1
    derive([file], "two", make)
    assert len(calls) == 2
    file.write_text("a = 3\n", encoding="utf-8")
    assert derive([file], "two", make) == {"first": 3}
