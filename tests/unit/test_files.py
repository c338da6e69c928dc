"""Files are written whole or not at all, and nothing but a regular file is ever replaced."""

from __future__ import annotations

import os
import stat
import sys
import threading
from pathlib import Path

import pytest

from envkit.files import write_whole

posix = pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX are there links, pipes and devices of this kind")


def test_a_file_is_made_and_replaced_and_nothing_else_stays(tmp_path: Path) -> None:
    for text in ("one\n", "two \u2713\n"):
        write_whole(tmp_path / "a", text)
        assert (tmp_path / "a").read_bytes() == text.encode()
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
    write_whole(tmp_path / ("n" * 255), "as long as a name may be")


@posix
def test_links_stay_and_what_they_lead_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old", encoding="utf-8")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("made")
    write_whole(tmp_path / "link", "new")
    write_whole(tmp_path / "dangling", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dangling").is_symlink()
    assert [(tmp_path / name).read_text(encoding="utf-8") for name in ("real", "made")] == ["new", "new"]


@posix
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found: list[str] = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_text(encoding="utf-8")), daemon=True)
    reader.start()
    write_whole(pipe, "through")
    reader.join(timeout=10)
    assert found == ["through"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only on Linux is there /dev/full")
def test_a_device_stays_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    # Should it fail, the machine must not lose its device.
    monkeypatch.setattr(Path, "replace", lambda *_words: pytest.fail("a device was to be replaced"))
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_whole(Path("/dev/full"), "x")
    assert raised.value.filename == "/dev/full"
    write_whole(Path("/dev/null"), "x")
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@posix
def test_what_was_private_stays_private(tmp_path: Path) -> None:
    (tmp_path / "a").touch(mode=0o600)
    write_whole(tmp_path / "a", "x")
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_a_fault_names_the_place_that_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError) as absent:
        write_whole(tmp_path / "absent/a", "x")
    assert absent.value.filename == str(tmp_path / "absent/a")
    (tmp_path / "a").write_text("old", encoding="utf-8")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        write_whole(tmp_path / "a", "new")
    assert raised.value.filename == str(tmp_path / "a")
    assert (tmp_path / "a").read_text(encoding="utf-8") == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["a"]
