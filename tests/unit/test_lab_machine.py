"""The lab's reading of a machine: package mirrors in either notation, what a killed engine leaves behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from lab import engine, machine

DEB822 = """\
Types: deb
# a comment
URIs: https://tools.example.org/apt
Suites: nodistro
Components: main
Signed-By: /usr/share/keyrings/tools.gpg

Types: deb
URIs: http://mirror.example.org/debian/
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""

ONE_LINE = """\
# deb cdrom:[Debian]/ bookworm main
deb http://security.example.org/debian-security bookworm-security main
deb [signed-by=/usr/share/keyrings/x.gpg] http://mirror.example.org/debian bookworm main
"""


@pytest.mark.parametrize(
    ("system", "file", "text", "mirror"),
    [
        ("debian", "sources.list.d/debian.sources", DEB822, "http://mirror.example.org/debian"),
        ("debian", "sources.list", ONE_LINE, "http://mirror.example.org/debian"),
        ("debian", "sources.list", "", machine.DEBIAN_MIRROR),
        ("ubuntu", "sources.list", ONE_LINE, machine.DEBIAN_MIRROR),
    ],
)
def test_mirror(tmp_path: Path, system: str, file: str, text: str, mirror: str) -> None:
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "etc/os-release").write_text(f'ID={system}\nVERSION_ID="12"\n', encoding="utf-8")
    (tmp_path / "etc/apt" / file).write_text(text, encoding="utf-8")
    assert machine.debian_mirror(tmp_path) == mirror


def test_a_dead_engines_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RUN", tmp_path)
    # This very process has the old engine's number, as happens after a restart.
    (tmp_path / "docker.pid").write_text(str(os.getpid()), encoding="utf-8")
    (tmp_path / "docker/containerd").mkdir(parents=True)
    (tmp_path / "docker/containerd/containerd.pid").write_text("999999999", encoding="utf-8")
    engine._drop_stale()
    assert not (tmp_path / "docker.pid").exists()
    assert not (tmp_path / "docker/containerd/containerd.pid").exists()


def test_an_engine_that_hangs_is_not_fought_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "RUN", tmp_path)
    (tmp_path / "docker.pid").write_text(str(os.getpid()), encoding="utf-8")
    name = Path(f"/proc/{os.getpid()}/comm").read_text(encoding="utf-8").strip()
    monkeypatch.setattr(engine, "DAEMON", name)
    with pytest.raises(machine.LabError, match="runs but does not answer"):
        engine._drop_stale()
