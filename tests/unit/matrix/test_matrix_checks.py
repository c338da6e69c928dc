"""What `matrix check` finds in a matrix that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from envkit.data import shipped
from envkit.matrix import check, load

TEXT = shipped("matrix.toml").read_text(encoding="utf-8")


def found(tmp_path: Path, *changes: tuple[str, str]) -> list[str]:
    text = TEXT
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    path = tmp_path / "m.toml"
    path.write_text(text, encoding="utf-8")
    return check(load(path))


def test_the_shipped_matrix_has_no_faults() -> None:
    assert check(load()) == []


def test_sources(tmp_path: Path) -> None:
    assert found(tmp_path, ("cuda-arch-matrix = {", 'cuda-a = { text = "x" }\ncuda-arch-matrix = {')) == [
        "source.cuda-a: no row refers to it"
    ]
    assert found(tmp_path, (', source = "torch-index" },', " },")) == ["backend.cpu.release[0]: has no source"]


def test_order_of_tables(tmp_path: Path) -> None:
    row = 'sm_19 = { vendor = "nvidia", family = "Tesla", source = "nvidia-cc" }\nsm_121 = {'
    assert found(tmp_path, ("sm_121 = {", row)) == ["arch.sm_19: stands after sm_120; rows are sorted"]


def test_order_of_rows(tmp_path: Path) -> None:
    cu118, cu121 = (line for line in TEXT.splitlines() if 'tag = "cu118", min' in line or 'tag = "cu121", min' in line)
    assert found(tmp_path, (f"{cu118}\n{cu121}\n", f"{cu121}\n{cu118}\n")) == [
        "backend.cuda.release[3]: belongs before the row above it; rows are sorted"
    ]


def test_order_within_a_build(tmp_path: Path) -> None:
    assert found(tmp_path, ('archs = ["sm_80", "sm_90"]', 'archs = ["sm_90", "sm_80"]'))[0].endswith(".archs: are not sorted")


def test_an_architecture_that_ends_before_it_begins(tmp_path: Path) -> None:
    change = ('family = "Ada", min_backend = "11.8"', 'family = "Ada", min_backend = "11.8", last_backend = "11.7"')
    assert found(tmp_path, change) == ["arch.sm_89: last_backend 11.7 comes before min_backend 11.8"]


def test_the_floor_of_wheels_is_not_above_the_toolkits_own(tmp_path: Path) -> None:
    change = ('tag = "cu130", min_driver = { linux = "580.65.06"', 'tag = "cu130", min_driver = { linux = "580.66"')
    place = next(number for number, row in enumerate(load().backends["cuda"].releases) if row.tag == "cu130")
    assert found(tmp_path, change) == [
        f"backend.cuda.release[{place}].toolkit_driver.linux: 580.65.06 is older than 580.66, the floor of its wheels"
    ]


def test_a_tag_has_one_backend(tmp_path: Path) -> None:
    row = '{ version = "9.9", tag = "cpu", source = "rocm-matrix" },\n]\n# Drivers'
    place = len(load().backends["rocm"].releases)
    assert f"backend.rocm.release[{place}].tag: cpu belongs to backend cpu already; builds are found by their tag" in found(
        tmp_path, ("]\n# Drivers", row)
    )


def test_architectures_are_the_vendors_own(tmp_path: Path) -> None:
    assert found(tmp_path, ('dropped = ["sm_20", "sm_21"]', 'dropped = ["gfx900", "sm_21"]')) == [
        "backend.cuda.branch[0].dropped: gfx900 is of amd, not of nvidia"
    ]
    faults = found(tmp_path, ('archs = ["sm_80", "sm_90"]', 'archs = ["gfx900", "sm_90"]'))
    assert len(faults) == 1
    assert faults[0].endswith(".archs: gfx900 is of amd, not of nvidia")


def test_a_scheme_is_named_by_what_it_is(tmp_path: Path) -> None:
    change = ('[scheme.windows-rocm]\nos = "windows"', '[scheme.windows-rocm]\nos = "linux"')
    assert found(tmp_path, change) == ["scheme.windows-rocm: is named otherwise than <os>-<backend>[-<framework>]: linux-rocm"]


def test_a_scheme_says_something_in_each_field(tmp_path: Path) -> None:
    text = TEXT[TEXT.index("[scheme.linux-cpu]") :]
    english, chinese = [line for line in text.splitlines() if line.startswith("pros = ")][:2]
    assert found(tmp_path, (english, "pros = []"), (chinese, "pros = []")) == ["scheme.linux-cpu.pros: is empty"]


def test_windows_has_no_containers(tmp_path: Path) -> None:
    text = TEXT[TEXT.index("[scheme.windows-cpu]") :]
    why = next(line for line in text.splitlines() if line.startswith("no_container = "))
    container = 'container = { platform = "debian-12", base = "debian:bookworm-slim" }'
    assert found(tmp_path, (why, container)) == [
        "scheme.windows-cpu.container: windows has no containers that reach an accelerator; say why in no_container"
    ]


WINDOWS = 'platforms = ["windows/x86_64"], archs'


@pytest.mark.parametrize(
    ("new", "fault"),
    [
        ('platforms = ["windows/x86_64"], glibc = "2.28", archs', ".glibc: means nothing for windows"),
        ('platforms = ["windows/x86_64"], macos = "14.0", archs', ".macos: means nothing for windows"),
        ('platforms = ["windows/x86_64", "windows/riscv"], archs', ".platforms: are not sorted"),
    ],
)
def test_a_build_says_nothing_that_means_nothing(tmp_path: Path, new: str, fault: str) -> None:
    faults = found(tmp_path, (WINDOWS, new))
    assert len(faults) == 1
    assert faults[0].endswith(fault)


def test_a_release_without_builds(tmp_path: Path) -> None:
    row = '{ version = "2.99.0", pythons = ["3.12"], source = "torch-pypi" },\n]\n# release: "2.14"'
    faults = found(tmp_path, (']\n# release: "2.14"', row))
    assert faults == ["framework.torch.release[31]: no build serves 2.99.0"]
