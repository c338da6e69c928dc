"""Agreement with the collected facts, in both directions: no build left out, none made up."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from envkit.matrix import load
from envkit.model import Build, Matrix

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")


def facts(name: str) -> dict[str, Any]:
    return tomllib.loads((FACTS / f"{name}.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def line(release: str) -> str:
    return ".".join(release.split(".")[:2])


def by_platform(matrix: Matrix, prefix: str) -> dict[tuple[str, str, str], Build]:
    builds = [b for b in matrix.frameworks["torch"].builds if b.tag.startswith(prefix)]
    return {(line(b.release), b.tag, platform): b for b in builds for platform in b.platforms}


def test_every_cuda_build(matrix: Matrix) -> None:
    ours = by_platform(matrix, "cu")
    theirs = {
        (row["torch"], row["variant"], row["platform"].replace("_", "/", 1)): row for row in facts("torch_cuda_archs")["wheel"]
    }
    assert set(ours) == set(theirs)
    for key, row in theirs.items():
        known = None if row["sass"] == ["unknown"] else {"sm_" + cc.replace(".", "") for cc in row["sass"]}
        assert (None if ours[key].archs is None else set(ours[key].archs or ())) == known, key
        assert {"sm_" + cc.replace(".", "") for cc in row["ptx"]} == set(ours[key].ptx), key
        assert (row["evidence"] == "binary") == (ours[key].evidence == "wheel-measured"), key


def test_every_build_that_is_published_and_no_other(matrix: Matrix) -> None:
    ours = {key for prefix in ("cu", "cpu") for key, build in by_platform(matrix, prefix).items() if build.published}
    theirs: set[tuple[str, str, str]] = set()
    for row in facts("torch_releases")["minor"]:
        minor = row["minor"]
        for field, platform in (
            ("cuda", "linux/x86_64"),
            ("cuda_windows", "windows/x86_64"),
            ("cuda_linux_aarch64", "linux/aarch64"),
        ):
            theirs |= {(minor, "cu" + cuda.replace(".", ""), platform) for cuda in row[field] if cuda != "unknown"}
        theirs |= {(minor, "cu" + cuda.replace(".", ""), "linux/x86_64") for cuda in row.get("cuda_unadvertised", ())}
        theirs |= {(minor, "cpu", platform) for platform in ("linux/x86_64", "linux/aarch64", "windows/x86_64", "macos/arm64")}
        if row.get("windows_arm64_cpu"):
            theirs.add((minor, "cpu", "windows/arm64"))
        if minor in ("1.13", "2.0", "2.1", "2.2"):
            theirs.add((minor, "cpu", "macos/x86_64"))
    assert ours == theirs


def test_every_rocm_build(matrix: Matrix) -> None:
    # AMD's own wheels come from indexes of their own.
    every = by_platform(matrix, "rocm").items()
    ours = {key: build for key, build in every if key[2] == "linux/x86_64" and build.index is None}
    rows = facts("torch_rocm")["torch"]
    theirs = {(line(row["version"]), f"rocm{rocm}", "linux/x86_64"): row["confirmed"] for row in rows for rocm in row["rocm"]}
    assert {key: build.published is True for key, build in ours.items()} == theirs
    lists = {(line(row["torch"]), f"rocm{row['rocm']}"): set(row["gfx"]) for row in facts("torch_rocm")["arch_list"]}
    for tag in ("rocm7.1", "rocm7.2"):
        lists["2.13", tag] = lists["2.12", tag]  # "at least the 2.12 list, gfx1103 possibly added"
        assert ours["2.13", tag, "linux/x86_64"].maybe_archs == ("gfx1103",)
    for (minor, tag, _), build in ours.items():
        assert (set(build.archs) if build.archs is not None else None) == lists.get((minor, tag)), (minor, tag)


def test_every_release_with_its_date_pythons_and_companions(matrix: Matrix) -> None:
    theirs = {
        row["version"]: (row["pypi_date"], row["pythons"], set(row["torchvision"]), set(row["torchaudio"]))
        for row in facts("torch_releases")["release"]
    }
    ours = {
        release.version: (
            release.date,
            list(release.pythons),
            set(release.companions["torchvision"]),
            set(release.companions["torchaudio"]),
        )
        for release in matrix.frameworks["torch"].releases
        if "a" not in release.version  # AMD's preview for Windows
    }
    assert ours == theirs


def test_toolkit_floors_and_branches(matrix: Matrix) -> None:
    collected = facts("cuda_driver")
    own = {row["cuda"]: row["linux_min"] for row in collected["toolkit"] if row["release"].endswith(" GA")}
    for release in matrix.backends["cuda"].releases:
        if "linux" in release.toolkit_driver:
            assert str(release.toolkit_driver["linux"]) == own[str(release.version)]
        else:
            assert not own.get(str(release.version), "unknown")[0].isdigit()
    branches = {str(row["branch"]): row["max_cuda"] for row in collected["driver_branch"]}
    assert {str(row.branch): str(row.max_backend or "unknown") for row in matrix.backends["cuda"].branches} == branches


def test_code_that_runs_nowhere_else(matrix: Matrix) -> None:
    rows = facts("torch_cuda_archs")["code_runs_on"]
    excluded = {"sm_" + cc.replace(".", "") for row in rows for cc in row.get("excludes", ())}
    exact = {"sm_" + cc.replace(".", "") for row in rows for cc in row.get("runs_on_exact", ())}
    assert {name for name, arch in matrix.archs.items() if arch.runs_code_of} == excluded | exact
    still = {"sm_" + cc.replace(".", "") for row in rows for cc in row.get("excludes_from_cuda_13_2", ())}
    lifted = {name for name, arch in matrix.archs.items() if arch.exact_until}
    assert lifted == excluded - still


def test_overrides(matrix: Matrix) -> None:
    theirs = {
        row["gfx"]: (row["acts_as"], row["value"])
        for row in facts("rocm_env")["override_value"]
        if row.get("acts_as") not in (None, row["gfx"]) and row["value"] not in ("none", "unknown")
    }
    ours = {row.arch: (row.acts_as, row.env["HSA_OVERRIDE_GFX_VERSION"]) for row in matrix.backends["rocm"].overrides}
    assert ours == theirs


def test_rocm_lists_of_cards(matrix: Matrix) -> None:
    lists = {row["version"]: set(row.get("gfx_official", ())) for row in facts("rocm_releases")["release"]}
    ours = {row.tag: set(row.archs or ()) for row in matrix.backends["rocm"].releases}
    for tag, version in (
        ("rocm5.7", "5.7.1"),
        ("rocm6.3", "6.3.3"),
        ("rocm6.4", "6.4.3"),
        ("rocm7.2", "7.2.1"),
        ("rocm7.14", "7.14.0"),
    ):
        assert ours[tag] == lists[version]
