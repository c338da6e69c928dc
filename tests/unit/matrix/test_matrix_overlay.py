"""Overlays: rows added, replaced and withdrawn, and the faults of a user's file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from envkit.cli import app, common
from envkit.errors import InvalidFile
from envkit.matrix import check, load
from envkit.model import Dotted, Matrix, Os

FIVE_FAULTS = """
[[backend.cuda.release]]
version = 12.9
tag = "cu129"

[[backend.cuda.release]]
version = "13.6"
tag = "cu136"
min_drivr = { linux = "630.1" }

[[framework.torch.build]]
release = "2.99"
tag = "cu132"
platforms = ["linux/x86_64"]

[scheme.linux-rocm-next]
os = "linux"
backend = "rcom"
framework = "torch"
task = "train"
title = "next"
for_whom = "testers"
no_container = "a test"

[arch.sm_130]
vendor = "nvidia"
family = ["Rubin"]
"""


def overlaid(tmp_path: Path, *texts: str) -> Matrix:
    paths = []
    for number, text in enumerate(texts):
        paths.append(tmp_path / f"overlay{number}.toml")
        paths[-1].write_text(text, encoding="utf-8")
    return load(overlays=paths)


def builds(matrix: Matrix, release: str, tag: str) -> list[tuple[str, ...]]:
    return [build.platforms for build in matrix.frameworks["torch"].builds if (build.release, build.tag) == (release, tag)]


def test_an_overlay_adds_rows_without_repeating_the_rest(tmp_path: Path) -> None:
    matrix = overlaid(
        tmp_path,
        """
        [arch]
        sm_130 = { vendor = "nvidia", family = "Rubin" }
        [[backend.cuda.release]]
        version = "13.6"
        tag = "cu136"
        min_driver = { linux = "580.65.06" }
        [[framework.torch.release]]
        version = "2.16.0"
        pythons = ["3.12"]
        [[framework.torch.build]]
        release = "2.16"
        tag = "cu136"
        platforms = ["linux/x86_64"]
        archs = ["sm_130"]
        """,
    )
    assert matrix.backends["cuda"].releases[-1].tag == "cu136"
    assert matrix.frameworks["torch"].releases[-1].version == "2.16.0"
    assert matrix.frameworks["torch"].builds[-1].archs == ("sm_130",)
    assert matrix.frameworks["torch"].package == "torch"
    assert len(matrix.schemes) == len(load().schemes)


def test_rows_of_an_overlay_are_sorted_in(tmp_path: Path) -> None:
    matrix = overlaid(tmp_path, '[[framework.torch.release]]\nversion = "2.4.2"\npythons = ["3.12"]\nsource = "torch-pypi"\n')
    versions = [release.version for release in matrix.frameworks["torch"].releases]
    assert versions.index("2.4.1") + 1 == versions.index("2.4.2") == versions.index("2.5.0") - 1
    assert check(matrix) == []


def test_a_row_of_the_same_key_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    row = '[[backend.cuda.release]]\nversion = "13.2"\ntag = "cu132"\nmin_driver = { linux = "590" }\n'
    release = next(row for row in overlaid(tmp_path, row).backends["cuda"].releases if row.tag == "cu132")
    assert release.min_driver == {Os.LINUX: Dotted("590")}
    assert release.toolkit_driver == {}


def test_a_build_takes_over_its_platforms_alone(tmp_path: Path) -> None:
    row = '[[framework.torch.build]]\nrelease = "2.15"\ntag = "cu126"\nplatforms = ["linux/x86_64"]\npublished = true\n'
    matrix = overlaid(tmp_path, row)
    own = [b for b in matrix.frameworks["torch"].builds if (b.release, b.tag) == ("2.15", "cu126")]
    assert {platform: build.published for build in own for platform in build.platforms} == {
        "linux/x86_64": True,
        "linux/aarch64": None,
        "windows/x86_64": None,
    }


def test_a_build_leaves_the_other_platforms_of_a_row(tmp_path: Path) -> None:
    row = '[[framework.torch.build]]\nrelease = "2.15"\ntag = "cu126"\nplatforms = ["linux/aarch64", "linux/x86_64"]\n'
    second = '[[framework.torch.build]]\nrelease = "2.15"\ntag = "cu126"\nplatforms = ["linux/x86_64"]\nnote = "mine"\n'
    matrix = overlaid(tmp_path, row, second)
    own = {b.platforms: b.note for b in matrix.frameworks["torch"].builds if (b.release, b.tag) == ("2.15", "cu126")}
    assert own.pop(("windows/x86_64",))
    assert own == {("linux/aarch64",): "", ("linux/x86_64",): "mine"}


def test_a_head_may_be_changed_alone(tmp_path: Path) -> None:
    matrix = overlaid(tmp_path, '[framework.torch]\nindex = "https://mirror.example.org/torch/{tag}"\n')
    assert matrix.frameworks["torch"].index == "https://mirror.example.org/torch/{tag}"
    assert matrix.frameworks["torch"].default_packages == ("numpy",)


def test_rows_can_be_withdrawn(tmp_path: Path) -> None:
    matrix = overlaid(
        tmp_path,
        """
        [scheme.windows-directml]
        withdraw = true
        [[framework.torch.build]]
        release = "2.15"
        tag = "cu132"
        platforms = ["linux/aarch64"]
        withdraw = true
        [[framework.torch.build]]
        release = "2.14"
        tag = "cu130"
        withdraw = true
        [[backend.rocm.override]]
        arch = "gfx1031"
        withdraw = true
        """,
    )
    assert "windows-directml" not in matrix.schemes
    assert sorted(platform for row in builds(matrix, "2.15", "cu132") for platform in row) == ["linux/x86_64", "windows/x86_64"]
    assert builds(matrix, "2.14", "cu130") == []
    assert "gfx1031" not in {override.arch for override in matrix.backends["rocm"].overrides}


def test_later_overlays_apply_to_earlier_ones(tmp_path: Path) -> None:
    added = '[[framework.torch.release]]\nversion = "2.16.0"\npythons = ["3.12"]\n'
    gone = '[[framework.torch.release]]\nversion = "2.16.0"\nwithdraw = true\n'
    assert overlaid(tmp_path, added, gone).frameworks["torch"].releases[-1].version == "2.15.0"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (
            "[scheme.linux-cudaa]\nwithdraw = true\n",
            "scheme.linux-cudaa: nothing to withdraw: unknown scheme; did you mean 'linux-cuda'?",
        ),
        ("[scheme.linux-cuda]\nwithdraw = false\n", "scheme.linux-cuda.withdraw: can only be true"),
        ("[scheme.linux-cuda]\nwithdraw = true\ntitle = 'x'\n", "scheme.linux-cuda.title: unknown key 'title'"),
        (
            '[[framework.torch.build]]\nrelease = "2.99"\ntag = "cu132"\nwithdraw = true\n',
            "framework.torch.build[0]: nothing to withdraw: unknown 2.99 cu132; did you mean '2.9 cu130'?",
        ),
        ("[backend.cuda]\nwithdraw = true\n", "matrix.toml: scheme.linux-cuda.backend: unknown backend 'cuda'"),
    ],
)
def test_a_wrong_withdrawal_is_told(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InvalidFile) as caught:
        overlaid(tmp_path, text)
    assert any(fault in line for line in caught.value.faults), caught.value.faults


def test_the_shipped_matrix_cannot_withdraw(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"
    path.write_text('[meta]\nschema = 1\nupdated = "2026"\n[scheme.a]\nwithdraw = true\n', encoding="utf-8")
    with pytest.raises(InvalidFile, match=r"scheme\.a\.withdraw: unknown key 'withdraw'"):
        load(path)


def test_five_faults_are_all_named_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FIVE_FAULTS, encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        load(overlays=[path])
    assert caught.value.exit_code == 3
    assert caught.value.message.splitlines() == [
        f"5 faults in {path}",
        f"{path}: arch.sm_130.family: expected text, got list",
        f"{path}: backend.cuda.release[0].version: expected text, got float",
        f"{path}: backend.cuda.release[1].min_drivr: unknown key 'min_drivr'; did you mean 'min_driver'?",
        f"{path}: framework.torch.build[0].release: unknown release of torch '2.99'; did you mean '2.9'?",
        f"{path}: scheme.linux-rocm-next.backend: unknown backend 'rcom'; did you mean 'rocm'?",
    ]


def test_two_files_with_faults_are_both_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as caught:
        overlaid(tmp_path, "[scheme]\nx = 1\n", "oops = = 1\n")
    text = "\n".join(caught.value.faults)
    assert "overlay0.toml: scheme.x: expected a table, got integer" in text
    assert "overlay1.toml: line 1, column 8: " in text


# ---- where overlays come from ------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with a home and no settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ENVKIT_OVERLAY", raising=False)
    return tmp_path


def withdrawing(path: Path, scheme: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"[scheme.{scheme}]\nwithdraw = true\n", encoding="utf-8")
    return path


def test_without_settings_there_are_no_overlays(project: Path) -> None:
    assert common.overlays() == ()


def test_overlays_of_the_user_the_project_and_the_call(project: Path) -> None:
    own = withdrawing(project / "config/envkit/matrix.toml", "linux-cpu")
    (project / "envkit.toml").write_text('overlays = ["lab/a.toml"]\n', encoding="utf-8")
    withdrawing(project / "lab/a.toml", "linux-rocm")
    call = withdrawing(project / "b.toml", "windows-cpu")
    result = CliRunner().invoke(app.envkit, ["--overlay", str(call), "schemes"])
    assert result.exit_code == 0, result.output
    shown = [line.split(":")[0] for line in result.output.splitlines() if line and not line.startswith(" ")]
    assert shown == [name for name in load().schemes if name not in ("linux-cpu", "linux-rocm", "windows-cpu")]
    assert common.overlays() == (own, Path("lab/a.toml"))


def test_overlays_of_the_environment(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = withdrawing(project / "1.toml", "linux-cpu"), withdrawing(project / "2.toml", "windows-cpu")
    monkeypatch.setenv("ENVKIT_OVERLAY", f"{first}{os.pathsep}{second}")
    assert common.overlays() == (first, second)
    result = CliRunner().invoke(app.envkit, ["schemes"], auto_envvar_prefix="ENVKIT")
    assert "linux-cpu:" not in result.output
    assert "windows-cpu:" not in result.output
    assert "linux-cuda:" in result.output


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('overlays = "a.toml"\n', "envkit.toml: overlays: expected a list, got text"),
        ("overlays = [1]\n", "envkit.toml: overlays[0]: expected text, got integer"),
        ("overlays = [\n", "envkit.toml: line 2, column 1: "),
        ('overlays = ["none.toml"]\n', "none.toml: cannot be read: No such file or directory"),
    ],
)
def test_a_wrong_project_file_is_told(project: Path, text: str, fault: str) -> None:
    (project / "envkit.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile) as caught:
        common.load_matrix()
    assert fault in caught.value.message


def test_other_settings_of_the_project_are_not_ours(project: Path) -> None:
    (project / "envkit.toml").write_text('[mirrors]\n"https://a" = "https://b"\n', encoding="utf-8")
    assert common.overlays() == ()


# ---- an overlay says only what it changes ------------------------------------------------------------------------


def test_a_table_of_an_overlay_changes_the_keys_it_names(tmp_path: Path) -> None:
    before = load()
    after = overlaid(
        tmp_path,
        '[scheme.linux-cpu]\ntitle = "Ours"\n[scheme.linux-cpu.container]\nbase = "registry.lab/debian:bookworm-slim"\n'
        '[platform."ubuntu-24.04"]\nname = "Lab Ubuntu"\n',
    )
    old, new = before.schemes["linux-cpu"], after.schemes["linux-cpu"]
    assert (new.title, new.needs, new.backend) == ("Ours", old.needs, old.backend)
    assert new.container is not None
    assert old.container is not None
    assert (new.container.base, new.container.platform) == ("registry.lab/debian:bookworm-slim", old.container.platform)
    assert after.platforms["ubuntu-24.04"].glibc == before.platforms["ubuntu-24.04"].glibc


def test_an_overlay_may_take_a_container_away(tmp_path: Path) -> None:
    scheme = overlaid(tmp_path, '[scheme.linux-cpu]\nno_container = "not in this lab"\n').schemes["linux-cpu"]
    assert scheme.container is None
    assert scheme.no_container == "not in this lab"


def test_a_fault_does_not_hide_another_of_the_same_row(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as caught:
        overlaid(
            tmp_path,
            '[scheme.linux-cuda]\nbackend = "cudaa"\ncolour = "red"\n'
            '[[framework.torch.build]]\nrelease = 2.15\ntag = "cu999"\nplatforms = ["linux/x86_64"]\nsource = "torch-pipy"\n',
        )
    label = tmp_path / "overlay0.toml"
    assert set(caught.value.faults) == {
        f"{label}: scheme.linux-cuda.colour: unknown key 'colour'",
        f"{label}: scheme.linux-cuda.backend: unknown backend 'cudaa'; did you mean 'cuda'?",
        f"{label}: framework.torch.build[0].release: expected text, got float",
        f"{label}: framework.torch.build[0].tag: unknown tag 'cu999'; did you mean 'cu129'?",
        f"{label}: framework.torch.build[0].source: unknown source 'torch-pipy'; did you mean 'torch-pypi'?",
    }
