"""What the shipped matrix says, held against what is known."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from envkit.data import shipped
from envkit.matrix import check, load
from envkit.model import Build, Dotted, Evidence, Matrix, Os


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def build(matrix: Matrix, release: str, tag: str, platform: str) -> Build:
    """The build that serves a release: the one for that very version before the one for its line."""
    found = [b for b in matrix.frameworks["torch"].builds if b.tag == tag and platform in b.platforms]
    exact = [b for b in found if b.release == release]
    return (exact or [b for b in found if b.release == release.rpartition(".")[0]])[0]


def test_it_is_well(matrix: Matrix) -> None:
    assert check(matrix) == []


def test_rows_stay_on_one_line_and_versions_in_quotes() -> None:
    text = shipped("matrix.toml").read_text(encoding="utf-8")
    assert "[[" not in re.sub(r'"[^"]*"', '""', text)
    bare = re.findall(r"= (\d+\.\d+[\d.]*)", re.sub(r'"[^"]*"', '""', text))
    assert bare == []
    assert not any(line != line.rstrip() for line in text.split("\n"))


def test_every_source_can_be_opened(matrix: Matrix) -> None:
    # Stored copies of pages that have no address of their own are named by their text alone.
    nowhere = {"cambricon-paddle", "gaudi-images", "mindspore-cpu", "musa-flagos", "musa-hardware", "tpu-vllm"}
    assert {source.id for source in matrix.sources.values() if not source.url} == nowhere
    assert [source.id for source in matrix.sources.values() if source.url and not source.url.startswith("https://")] == []
    assert [source.id for source in matrix.sources.values() if not source.date] == []


def test_the_containers_of_schemes(matrix: Matrix) -> None:
    containers = {
        name: (scheme.container.run_flags, scheme.container.groups) for name, scheme in matrix.schemes.items() if scheme.container
    }
    expected: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
        "linux-cpu": ((), ()),
        "linux-cuda": (("--gpus=all",), ()),
        "linux-rocm": (("--device=/dev/kfd", "--device=/dev/dri"), ("render", "video")),
        "linux-rocm-llamacpp": (
            ("--device=/dev/kfd", "--device=/dev/dri"),
            ("render", "video"),
        ),  # the machine's groups: they are handed in by number
        "linux-xpu": (("--device=/dev/dri",), ("render",)),
    }
    assert {name: containers[name] for name in expected} == expected
    without = ("macos-cpu", "macos-mps", "windows-cpu", "windows-cuda", "windows-xpu", "wsl2-cuda")
    without += ("windows-directml", "windows-directml-tensorflow", "windows-rocm", "wsl2-directml", "wsl2-rocm")
    assert not set(without) & set(containers)
    assert set(without) <= set(matrix.schemes)


def test_the_texts_of_schemes_are_their_own(matrix: Matrix) -> None:
    told = Counter(text for scheme in matrix.schemes.values() for text in (scheme.title, scheme.for_whom))
    assert [text for text, times in told.items() if times > 1] == []


def test_every_release_from_1_13_on(matrix: Matrix) -> None:
    versions = [release.version for release in matrix.frameworks["torch"].releases]
    assert versions[0] == "1.13.0"
    assert versions[-1] == "2.15.0"
    assert len([version for version in versions if "a" not in version]) == 30
    assert [version for version in versions if "a" in version] == ["2.8.0a0"]  # AMD's preview for Windows
    lines = {version.rpartition(".")[0] for version in versions}
    assert lines == {"1.13"} | {f"2.{minor}" for minor in range(16)}


@pytest.mark.parametrize(
    ("release", "tag", "platform", "archs", "evidence"),
    [
        ("2.1.2", "cu121", "linux/x86_64", "50 60 70 75 80 86 90", "wheel-measured"),
        ("2.6.0", "cu124", "linux/x86_64", "50 60 70 75 80 86 90", "wheel-measured"),
        ("2.8.0", "cu128", "linux/x86_64", "70 75 80 86 90 100 120", "wheel-measured"),
        ("2.9.1", "cu126", "windows/x86_64", "50 60 61 70 75 80 86 90", "claimed"),
        ("2.11.0", "cu130", "linux/aarch64", "80 90 100 110 120", "wheel-measured"),
        ("2.14.1", "cu126", "linux/x86_64", "50 60 70 75 80 86 90", "index-checked"),
        ("2.14.1", "cu130", "windows/x86_64", "75 80 86 90 100 120", "index-checked"),
        ("2.15.0", "cu132", "linux/x86_64", "75 80 86 90 100 120", "wheel-measured"),
    ],
)
def test_compiled_architectures(matrix: Matrix, release: str, tag: str, platform: str, archs: str, evidence: str) -> None:
    row = build(matrix, release, tag, platform)
    assert row.archs == tuple(f"sm_{arch}" for arch in archs.split())
    if evidence != "index-checked" or platform != "linux/x86_64":
        assert row.evidence == evidence


def test_what_is_not_confirmed_is_not_published(matrix: Matrix) -> None:
    unknown = {
        (b.release, b.tag)
        for b in matrix.frameworks["torch"].builds
        if b.published is None and "linux/x86_64" in b.platforms and b.tag.startswith(("cpu", "cu", "rocm", "xpu"))
    }
    assert unknown == {
        ("2.5.0", "xpu"),
        ("2.6.0", "rocm6.4.2"), ("2.13.0", "rocm10.0.0"), ("2.14.0", "rocm10.1.0"),
        ("2.13", "cu129"),
        ("2.14", "cu134"), ("2.14", "rocm7.2"), ("2.14", "rocm7.14"),
        ("2.15", "cu126"), ("2.15", "cu130"), ("2.15", "cu134"), ("2.15", "rocm7.14"), ("2.15", "rocm10.0"),
        ("2.15", "xpu"),
    }  # fmt: skip
    confirmed = {b.tag for b in matrix.frameworks["torch"].builds if b.release == "2.15" and b.published}
    assert confirmed == {"cpu", "cu132", "mps"}
    assert build(matrix, "2.12.1", "cu129", "linux/x86_64").published is True


def test_measured_wheels_carry_no_ptx_though_the_notes_say_so(matrix: Matrix) -> None:
    for release in ("2.12", "2.13", "2.14"):
        assert build(matrix, f"{release}.0", "cu130", "linux/x86_64").ptx == ()
    assert build(matrix, "2.7.1", "cu128", "linux/x86_64").ptx == ("sm_120",)


def test_unknown_architectures_are_none_and_never_empty(matrix: Matrix) -> None:
    assert build(matrix, "2.10.0", "cu128", "windows/x86_64").archs is None
    assert [b for b in matrix.frameworks["torch"].builds if b.archs == ()] == []


@pytest.mark.parametrize(
    ("release", "tag", "platform", "glibc"),
    [
        ("2.5.1", "cu124", "linux/x86_64", "2.5"),
        ("2.5.1", "cpu", "linux/aarch64", "2.17"),
        ("2.6.0", "cu124", "linux/x86_64", "2.5"),
        ("2.6.0", "cu126", "linux/x86_64", "2.28"),
        ("2.6.0", "rocm6.2.4", "linux/x86_64", "2.28"),
        ("2.7.0", "cu118", "linux/x86_64", "2.28"),
        ("2.15.0", "cpu", "linux/aarch64", "2.28"),
    ],
)
def test_glibc_floors(matrix: Matrix, release: str, tag: str, platform: str, glibc: str) -> None:
    assert build(matrix, release, tag, platform).glibc == Dotted(glibc)


def test_pythons_that_differ_by_platform(matrix: Matrix) -> None:
    assert build(matrix, "2.5.0", "cu124", "linux/x86_64").pythons is None
    assert build(matrix, "2.5.0", "cu124", "windows/x86_64").pythons == ("3.9", "3.10", "3.11", "3.12")
    assert build(matrix, "2.13.0", "cpu", "windows/arm64").pythons == ("3.11", "3.12", "3.13")
    assert "3.15t" in (build(matrix, "2.13.0", "cpu", "linux/x86_64").pythons or ())


@pytest.mark.parametrize(
    ("tag", "linux", "windows", "own"),
    [
        ("cu118", "450.80.02", "452.39", "520.61.05"),
        ("cu121", "525.60.13", "528.33", "530.30.02"),
        ("cu128", "525.60.13", "528.33", "570.26"),
        ("cu130", "580.65.06", "580", "580.65.06"),
        ("cu132", "580.65.06", "580", "595.45.04"),
        ("cu134", "580.65.06", "580", None),
    ],
)
def test_two_driver_floors_that_are_not_the_same(matrix: Matrix, tag: str, linux: str, windows: str, own: str | None) -> None:
    release = next(row for row in matrix.backends["cuda"].releases if row.tag == tag)
    assert release.min_driver == {Os.LINUX: linux, Os.WINDOWS: windows}
    assert release.toolkit_driver.get(Os.LINUX) == own


def test_branches_that_dropped_architectures(matrix: Matrix) -> None:
    dropped = {str(row.branch): row.dropped for row in matrix.backends["cuda"].branches if row.dropped}
    assert dropped == {
        "418": ("sm_20", "sm_21"),
        "495": ("sm_30", "sm_32", "sm_35", "sm_37"),
        "590": ("sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72"),
    }
    newest = {str(row.branch): row.max_backend for row in matrix.backends["cuda"].branches}
    assert (newest["550"], newest["570"], newest["580"], newest["620"]) == ("12.4", "12.8", "13.0", "13.5")


@pytest.mark.parametrize(
    ("arch", "first", "last", "module", "code", "until"),
    [
        ("sm_37", "6.0", "11.8", "proprietary", None, None),
        ("sm_53", "6.5", "12.9", "proprietary", ("sm_53",), None),
        ("sm_61", "8.0", "12.9", "proprietary", None, None),
        ("sm_72", None, "12.9", "proprietary", ("sm_72",), "13.2"),
        ("sm_86", "11.0", None, "either", None, None),
        ("sm_87", None, None, "either", ("sm_87",), "13.2"),
        ("sm_110", None, None, "open", ("sm_101", "sm_110"), None),
        ("sm_120", "12.8", None, "open", None, None),
    ],
)
def test_architectures(
    matrix: Matrix, arch: str, first: str | None, last: str | None, module: str, code: tuple[str, ...] | None, until: str | None
) -> None:
    row = matrix.archs[arch]
    assert (row.min_backend, row.last_backend, row.module, row.runs_code_of, row.exact_until) == (
        first,
        last,
        module,
        code,
        until,
    )


def test_no_override_for_what_must_not_be_overridden(matrix: Matrix) -> None:
    overrides = matrix.backends["rocm"].overrides
    assert {"gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx803"} & {row.arch for row in overrides} == set()
    assert {row.os for row in overrides} == {(Os.LINUX,)}
    assert {row.arch: row.env["HSA_OVERRIDE_GFX_VERSION"] for row in overrides}["gfx1031"] == "10.3.0"
    assert all(row.acts_as != row.arch for row in overrides)


def test_rocm_on_windows_comes_from_amd(matrix: Matrix) -> None:
    rows = [b for b in matrix.frameworks["torch"].builds if b.tag.startswith("rocm") and b.platforms == ("windows/x86_64",)]
    assert {(row.tag, row.release) for row in rows if row.published} == {
        ("rocm6.4.4", "2.8.0a0"), ("rocm7.2.1", "2.9.1"), ("rocm7.14.0", "2.12.0"),
    }  # fmt: skip
    assert all(row.index and ".com/rocm/" in row.index for row in rows)
    assert all(row.vendor_supported for row in rows if row.published)
    assert build(matrix, "2.12.0", "rocm7.14.0", "windows/x86_64").extras == "device-{arch}"
    assert build(matrix, "2.9.1", "rocm7.2.1", "windows/x86_64").archs == (
        "gfx1100", "gfx1101", "gfx1102", "gfx1150", "gfx1151", "gfx1200", "gfx1201",
    )  # fmt: skip


def test_directml_pins(matrix: Matrix) -> None:
    rows = {
        b.release: {name: pin.version for name, pin in b.packages.items()}
        for b in matrix.frameworks["torch"].builds
        if b.tag == "directml" and "windows/x86_64" in b.platforms
    }
    assert rows == {
        "1.13.1": {"torch-directml": "0.1.13.1.dev230413", "torchvision": "0.14.1"},
        "2.0.0": {"torch-directml": "0.2.0.dev230426", "torchvision": "0.15.1"},
        "2.2.1": {"torch-directml": "0.2.1.dev240521", "torchvision": "0.17.1"},
        "2.3.1": {"torch-directml": "0.2.4.dev240815", "torchvision": "0.18.1"},
        "2.4.1": {"torch-directml": "0.2.5.dev240914", "torchvision": "0.19.1"},
    }
    release = matrix.backends["directml"].releases[0]
    assert release.min_kernel == {Os.WINDOWS: Dotted("10.0.16299")}


def test_numpy_for_every_python_and_release(matrix: Matrix) -> None:
    """Each release has, for each of its Pythons, a NumPy that its ABI goes with."""
    missing = []
    for release in matrix.frameworks["torch"].releases:
        below_two = "numpy" in release.requires
        assert release.requires.get("numpy", "<2") == "<2"
        for python in release.pythons:
            fitting = [row for row in matrix.libraries["numpy"] if python in row.pythons and (not below_two or row.version < "2")]
            missing += [] if fitting else [f"{release.version} {python}"]
    assert missing == []
    held = [release.version for release in matrix.frameworks["torch"].releases if "numpy" in release.requires]
    assert (len(held), held[0], held[-1]) == (14, "1.13.0", "2.4.1")


def test_measured_rows_are_the_ones_of_wheels_that_were_read(matrix: Matrix) -> None:
    measured = [b for b in matrix.frameworks["torch"].builds if b.evidence is Evidence.WHEEL_MEASURED]
    assert measured
    assert all({"torch-wheel", "rocm-windows-7.2.1-gfx", "mps-floor"} & set(b.sources) for b in measured)
