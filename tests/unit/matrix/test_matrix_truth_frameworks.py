"""JAX, MLX, OpenVINO and ONNX Runtime: every row of the collected facts, one by one, against the matrix and the resolver.

A package or release of the facts that the product makes no use of stands in a table here, with the reason.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from envkit.matrix import load
from envkit.model import Build, Facts, FrameworkRelease, Gpu, Machine, Matrix, Os, Verdict, Wish
from envkit.resolve import resolve

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")

Row = dict[str, Any]
LINUX = ("linux/aarch64", "linux/x86_64")
LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}

# Packages of ONNX Runtime that no scheme uses.
UNUSED_PACKAGES = {
    "onnxruntime-rocm": "its provider ended with 1.22; MIGraphX has taken its place",
    "onnxruntime-openvino": "linux-openvino serves Intel's devices without a second runtime above it",
    "onnxruntime-ep-openvino": "the same",
    "onnxruntime-cann": "the schemes for Ascend are those of torch and MindSpore",
    "onnxruntime-qnn": "no scheme for Qualcomm's NPU",
}


@lru_cache(maxsize=16)
def facts(name: str) -> Row:
    path = FACTS / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def each(name: str, table: str, *words: str, where: dict[str, Any] | None = None) -> Any:
    """Every row of a table as a case of its own, named by some of its fields."""
    found = [row for row in facts(name).get(table, []) if all(row.get(key) == value for key, value in (where or {}).items())]
    return pytest.mark.parametrize("row", found, ids=["-".join(str(row.get(word, "")) for word in words) for row in found])


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def release(matrix: Matrix, framework: str, version: str) -> FrameworkRelease:
    return next(each for each in matrix.frameworks[framework].releases if each.version == version)


def builds(matrix: Matrix, framework: str, version: str, platform: str, tag: str = ".*", package: str = "") -> list[Build]:
    return [
        build
        for build in matrix.frameworks[framework].builds
        if build.release == version
        and platform in build.platforms
        and re.fullmatch(tag, build.tag)
        and (not package or (build.package or framework) == package)
    ]


def pythons(matrix: Matrix, framework: str, build: Build) -> set[str]:
    return set(build.pythons if build.pythons is not None else release(matrix, framework, build.release).pythons)


def listed_pythons(row: Row, platform: str) -> set[str]:
    """The Pythons that a row of the facts lists for a platform."""
    word = platform.replace("/", "_")
    if "pythons_by_platform" in row:
        return set(row["pythons_by_platform"].get(word, ()))
    return set(row["pythons"]) if word in row["platforms"] else set()


def floor(row: Row, platform: str, key: str = "wheel_tags") -> str:
    """The glibc that a row's wheels for a platform need: of several tags of one wheel, the least."""
    machine = platform.partition("/")[2]
    for text in row[key]:
        found = [
            ".".join(m.groups()) if (m := re.match(r"manylinux_(\d+)_(\d+)_", tag)) else LEGACY[tag.partition("_")[0]]
            for tag in text.split(".")
            if tag.startswith("manylinux") and tag.endswith(f"_{machine}")
        ]
        if found:
            return min(found, key=Version)
    raise AssertionError(f"no wheel for {platform} in {row[key]}")


# ---- JAX ---------------------------------------------------------------------------------------------------------


@each("tpu", "jax", "version")
def test_each_release_of_jax(matrix: Matrix, row: Row) -> None:
    ours = release(matrix, "jax", row["version"])
    assert ours.date == row["date"]
    assert ours.requires == {"numpy": row["numpy"].removeprefix("numpy")}
    allowed = SpecifierSet(row["requires_python"])
    assert all(each.rstrip("t") in allowed for each in ours.pythons)
    assert ours.yanked is (row["version"] == "0.4.32")  # withdrawn on PyPI, which the facts leave out
    wanted = Requirement(row["jaxlib"]).specifier
    for platform in LINUX:
        (build,) = builds(matrix, "jax", row["version"], platform, "cpu")
        assert build.packages["jaxlib"].version in wanted


@each("cpu", "framework", "version", where={"package": "jaxlib"})
def test_each_wheel_of_jaxlib(matrix: Matrix, row: Row) -> None:
    for platform in LINUX:
        (build,) = builds(matrix, "jax", row["version"], platform, "cpu")
        assert build.packages["jaxlib"].version == row["version"]
        assert pythons(matrix, "jax", build) == listed_pythons(row, platform)
        assert str(build.glibc) == floor(row, platform)


def test_no_release_of_jax_besides(matrix: Matrix) -> None:
    assert {each.version for each in matrix.frameworks["jax"].releases} == {row["version"] for row in facts("tpu")["jax"]}


@pytest.mark.parametrize(("python", "newest"), [("3.11", "0.10.2"), ("3.10", "0.6.2")])
def test_the_last_release_of_jax_for_a_python(matrix: Matrix, python: str, newest: str) -> None:
    (limit,) = (row for row in facts("cpu")["limit"] if row["product"] == "jax")
    assert newest in limit["text"]
    assert python in limit["text"]
    plan = resolve(matrix, Wish(scheme="linux-cpu-jax", python=python)).plan
    assert plan is not None
    assert plan.framework_version == newest


def test_plugins_belong_to_their_release(matrix: Matrix) -> None:
    """The extra of each release accepts the plugin of that very number, or the last before it where there was none."""
    for build in matrix.frameworks["jax"].builds:
        for name, pin in build.packages.items():
            if "plugin" in name or "pjrt" in name:
                assert Version(pin.version).release <= Version(build.release).release
        if build.tag in ("cuda12", "cuda13"):
            major = build.tag.removeprefix("cuda")
            assert build.extras == f"cuda{major}"
            assert set(build.packages) == {"jaxlib", f"jax-cuda{major}-pjrt", f"jax-cuda{major}-plugin"}


def test_amd_has_no_jax_on_windows(matrix: Matrix) -> None:
    (row,) = (row for row in facts("rocm_windows")["windows_feature"] if row["feature"] == "JAX packages")
    assert row["windows"] == "not available"
    assert [b for b in matrix.frameworks["jax"].builds if b.tag.startswith("rocm") and b.platforms != ("linux/x86_64",)] == []


# ---- MLX ---------------------------------------------------------------------------------------------------------


@each("apple", "mlx", "version")
def test_each_release_of_mlx(matrix: Matrix, row: Row) -> None:
    ours = release(matrix, "mlx", row["version"])
    assert ours.date == row["date"]
    assert set(ours.pythons) == set(row["pythons"])
    (metal,) = builds(matrix, "mlx", row["version"], "macos/arm64")
    assert str(metal.macos) == min(row["wheel_macos"], key=Version)
    for platform in LINUX:
        found = builds(matrix, "mlx", row["version"], platform, "cpu")
        assert bool(found) == (platform.replace("/", "_") in row["platforms"])
        for build in found:
            # mlx-cpu, which the extra brings, may ask for more than mlx itself: 2.35 beside 2.34 in 0.26.5.
            own = floor(row, platform, "linux_tags")
            assert str(build.glibc) == own or (build.extras and Version(str(build.glibc)) > Version(own))


@each("cpu", "framework", "version", where={"package": "mlx-cpu"})
def test_each_wheel_of_mlx_cpu(matrix: Matrix, row: Row) -> None:
    for platform in LINUX:
        (build,) = builds(matrix, "mlx", row["version"], platform, "cpu")
        assert build.extras == "cpu"
        assert build.packages["mlx-cpu"].version == row["version"]
        assert str(build.glibc) == floor(row, platform)


@each("apple", "mlx_support", "platform")
def test_what_mlx_needs(matrix: Matrix, row: Row) -> None:
    newest = matrix.frameworks["mlx"].releases[-1].version
    tag = {"macos_arm64": "mlx", "linux, cpu": "cpu", "linux, cuda 12": "mlx-cuda12", "linux, cuda 13": "cuda13"}.get(
        row["platform"]
    )
    if tag is None:
        assert row["platform"] == "windows", "wheels without a document: no scheme"
        return
    platforms = [f"linux/{arch}" for arch in row.get("arch", ())] or ["macos/arm64"]
    for platform in platforms:
        (build,) = builds(matrix, "mlx", newest, platform, tag)
        assert row["pulls"] in build.packages if "pulls" in row else True
        if "min_macos" in row:
            assert str(build.macos) == row["min_macos"]
        if "min_glibc" in row:
            assert str(build.glibc) == row["min_glibc"]
        if "min_compute_capability" in row:
            assert build.archs is not None
            assert build.archs[0] == "sm_" + row["min_compute_capability"].replace(".", "")
        if "min_driver" in row:
            (toolkit,) = (each for each in matrix.backends["cuda"].releases if each.tag == tag)
            assert str(toolkit.min_driver[Os.LINUX]).startswith(row["min_driver"])


def test_plain_mlx_is_never_installed_on_linux(matrix: Matrix) -> None:
    """Since 0.29.4 it lacks libmlx there; before, the wheel held all of it."""
    plain = [b for b in matrix.frameworks["mlx"].builds if b.platforms[0].startswith("linux") and not b.extras]
    assert all(Version(build.release) < Version("0.29.4") for build in plain)


# ---- OpenVINO ----------------------------------------------------------------------------------------------------


@each("intel", "openvino", "version")
def test_each_release_of_openvino(matrix: Matrix, row: Row) -> None:
    ours = release(matrix, "openvino", row["version"])
    assert ours.date == row["date"]
    for platform in LINUX:
        (build,) = builds(matrix, "openvino", row["version"], platform)
        assert pythons(matrix, "openvino", build) == listed_pythons(row, platform)
        assert str(build.glibc) == floor(row, platform)


def test_no_release_of_openvino_besides(matrix: Matrix) -> None:
    assert {each.version for each in matrix.frameworks["openvino"].releases} == {
        row["version"] for row in facts("intel")["openvino"]
    }


@each("intel", "openvino_os", "os")
def test_the_systems_of_openvino(matrix: Matrix, row: Row) -> None:
    listed = matrix.backends["openvino"].releases[0].platforms
    assert listed is not None
    linux = row["os"] in matrix.platforms and matrix.platforms[row["os"]].os is Os.LINUX
    # Neither Windows nor macOS has a scheme, and Tumbleweed is no release.
    assert (row["os"] in listed) == linux
    assert linux or row["os"].split("-")[0] in ("windows", "macos", "opensuse")


def test_openvino_computes_on_the_cpu_without_an_intel_gpu(matrix: Matrix) -> None:
    plan = resolve(matrix, Wish(scheme="linux-openvino", gpu="none", os="ubuntu-24.04")).plan
    assert plan is not None
    assert plan.device == "CPU"
    assert "the machine has no Intel GPU, so openvino computes on the CPU" in plan.reasons
    plan = resolve(matrix, Wish(scheme="linux-openvino", gpu="Arc A770", os="ubuntu-24.04")).plan
    assert plan is not None
    assert (plan.device, plan.verdict) == ("GPU", Verdict.SUPPORTED)
    plan = resolve(matrix, Wish(scheme="linux-openvino", gpu="RTX 4090", os="ubuntu-24.04")).plan
    assert plan is not None
    assert plan.device == "CPU"


# ---- ONNX Runtime ------------------------------------------------------------------------------------------------

TAGS = {
    "onnxruntime": "cpu",
    "onnxruntime-gpu": "cuda1[23]",
    "onnxruntime-migraphx": r"rocm7\.\d",
    "onnxruntime-directml": "directml",
}


@each("others", "onnxruntime", "package", "version")
def test_each_wheel_of_onnxruntime(matrix: Matrix, row: Row) -> None:
    package = row["package"]
    if package in UNUSED_PACKAGES:
        assert [build for build in matrix.frameworks["onnxruntime"].builds if build.package == package] == []
        return
    ours = release(matrix, "onnxruntime", row["version"])
    assert ours.requires["numpy"] == ">=1.21.6"
    if package == "onnxruntime":
        assert ours.date == row["date"]
    platforms = ("windows/x86_64",) if package == "onnxruntime-directml" else LINUX
    for platform in platforms:
        found = builds(matrix, "onnxruntime", row["version"], platform, TAGS[package], package)
        expected = listed_pythons(row, platform)
        assert bool(found) == bool(expected)
        for build in found:
            assert pythons(matrix, "onnxruntime", build) == expected
            if platform in LINUX:
                assert str(build.glibc) == floor(row, platform)


@each("cpu", "framework", "version", where={"package": "onnxruntime"})
def test_each_wheel_of_onnxruntime_for_the_cpu(matrix: Matrix, row: Row) -> None:
    for platform in LINUX:
        (build,) = builds(matrix, "onnxruntime", row["version"], platform, "cpu")
        assert pythons(matrix, "onnxruntime", build) == listed_pythons(row, platform)


@each("directml", "onnxruntime_directml", "version")
def test_each_wheel_of_onnxruntime_for_directml(matrix: Matrix, row: Row) -> None:
    found = builds(matrix, "onnxruntime", row["version"], "windows/x86_64", "directml", "onnxruntime-directml")
    if Version(row["version"]) < Version("1.20") or Version(row["version"]).is_devrelease:
        assert found == [], "the matrix begins with 1.20, the first release that the facts know for every provider"
        return
    (build,) = found
    assert pythons(matrix, "onnxruntime", build) == set(row["pythons"])


def test_the_newest_of_each_provider(matrix: Matrix) -> None:
    (lag,) = (r["text"] for r in facts("others")["limit"] if "provider packages lag" in r["text"])
    assert "directml, openvino, cann stop at 1.24.x" in lag
    assert "migraphx at 1.27.1, gpu at 1.31.1 while onnxruntime is 1.32.0" in lag
    for scheme, os, newest in (
        ("linux-cpu-onnxruntime", "linux", "1.32.0"),
        ("linux-cuda-onnxruntime", "linux", "1.31.1"),
        ("linux-rocm-onnxruntime", "linux", "1.27.1"),
        ("windows-directml-onnxruntime", "windows", "1.24.4"),
    ):
        plan = resolve(matrix, Wish(scheme=scheme, os=os)).plan
        assert plan is not None
        assert plan.framework_version == newest


# ---- hard questions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scheme", "wish", "version", "tag"),
    [
        # JAX: CUDA 12 wheels hold code from sm_50 on, CUDA 13 from sm_75; the floors are 525.60.13 and 580.65.06.
        ("linux-cuda-jax", {"gpu": "GTX 1080 Ti", "driver": "580.95.05", "python": "3.13"}, "0.12.0.1", "cuda12"),
        ("linux-cuda-jax", {"gpu": "Tesla V100", "driver": "525.60.13", "python": "3.13"}, "0.12.0.1", "cuda12"),
        ("linux-cuda-jax", {"gpu": "RTX 4090", "driver": "580.65.06", "python": "3.13"}, "0.12.0.1", "cuda13"),
        ("linux-cuda-jax", {"gpu": "RTX 4090", "driver": "580.65.05", "python": "3.13"}, "0.12.0.1", "cuda12"),
        ("linux-cuda-jax", {"gpu": "RTX 5090", "driver": "570.26", "python": "3.13"}, "0.12.0.1", "cuda12"),
        # The plugin for ROCm 7.14 holds gfx942; 0.12.0.1 has no plugin.
        ("linux-rocm-jax", {"gpu": "MI300X", "os": "ubuntu-24.04", "python": "3.12"}, "0.12.0", "rocm7.14"),
        ("linux-rocm-jax", {"gpu": "MI300X", "os": "ubuntu-22.04", "python": "3.11"}, "0.9.2", "rocm7.2"),
        # ONNX Runtime: 1.29 dropped sm_100, 1.27 went to CUDA 13, 1.20 is the last with sm_52.
        ("linux-cuda-onnxruntime", {"gpu": "B200", "driver": "580.95.05", "python": "3.12"}, "1.28.0", "cuda13"),
        ("linux-cuda-onnxruntime", {"gpu": "RTX 4090", "driver": "550.54.14", "python": "3.12"}, "1.26.0", "cuda12"),
        ("linux-cuda-onnxruntime", {"gpu": "RTX 4090", "driver": "580.65.06", "python": "3.12"}, "1.31.1", "cuda13"),
        ("linux-cuda-onnxruntime", {"gpu": "Tesla P100", "driver": "580.95.05", "python": "3.12"}, "1.26.0", "cuda12"),
        ("linux-cuda-onnxruntime", {"gpu": "GTX 980 Ti", "driver": "580.95.05", "python": "3.12"}, "1.20.2", "cuda12"),
        # MLX asks for 550.54.14 on CUDA 12.
        ("linux-cuda-mlx", {"gpu": "RTX 4090", "driver": "550.54.14", "python": "3.12"}, "0.32.4", "mlx-cuda12"),
        # The last MLX for macOS 13 is 0.29.3.
        # RHEL 9 has glibc 2.34: the last wheel for it is of 0.26.3.
        ("linux-cpu-mlx", {"os": "rhel-9", "python": "3.12"}, "0.26.3", "cpu"),
        ("macos-mlx", {"gpu": "m1", "os": "macos-13", "python": "3.12"}, "0.29.3", "mlx"),
        ("macos-mlx", {"gpu": "m1", "os": "macos-14", "python": "3.12"}, "0.32.4", "mlx"),
    ],
)
def test_what_fits(matrix: Matrix, scheme: str, wish: dict[str, str], version: str, tag: str) -> None:
    plan = resolve(matrix, Wish(scheme=scheme, **{"os": "linux", **wish})).plan
    assert plan is not None
    assert (plan.framework_version, plan.backend_tag) == (version, tag)


@pytest.mark.parametrize(
    ("scheme", "wish", "words"),
    [
        ("linux-cuda-jax", {"gpu": "RTX 4090", "driver": "525.60.12"}, "525.60.13"),
        ("linux-cuda-mlx", {"gpu": "RTX 4090", "driver": "550.54.13"}, "550.54.14"),
        ("linux-cuda-mlx", {"gpu": "Tesla V100", "driver": "580.95.05"}, "has no code for"),
        ("linux-cpu-mlx", {"os": "rhel-9", "torch": ">=0.27", "python": "3.12"}, "needs glibc 2.35"),
        ("linux-cpu-jax", {"os": "ubuntu-24.04", "python": "3.8"}, "this is Python 3.8"),
        ("linux-openvino", {"os": "debian-11/aarch64", "python": "3.11", "torch": ">=2025.3"}, "needs glibc 2.35"),
        ("windows-directml-onnxruntime", {"os": "windows-11", "python": "3.9"}, "this is Python 3.9"),
        ("linux-rocm-jax", {"gpu": "MI300X", "torch": "0.12.0.1", "python": "3.12"}, "was never published"),
        ("linux-cpu-jax", {"torch": "0.4.32", "python": "3.12"}, "jax 0.4.32 was withdrawn"),
    ],
)
def test_what_does_not_fit(matrix: Matrix, scheme: str, wish: dict[str, str], words: str) -> None:
    resolution = resolve(matrix, Wish(scheme=scheme, **{"os": "linux", **wish}))
    assert resolution.plan is None
    reasons = [answer.reason for judged in resolution.judged for answer in judged.answers]
    assert any(words in reason for reason in reasons), set(reasons)


def test_other_frameworks_are_never_taken_unasked(matrix: Matrix) -> None:
    for wish in ({"gpu": "RTX 4090"}, {"gpu": "none"}, {"gpu": "Arc A770"}, {"gpu": "m3", "os": "macos"}):
        plan = resolve(matrix, Wish(**{"os": "linux", **wish})).plan
        assert plan is not None
        assert plan.framework_name == "torch"
    plan = resolve(matrix, Wish(os="linux", gpu="RTX 4090", framework="jax")).plan
    assert plan is not None
    assert plan.scheme == "linux-cuda-jax"


@pytest.mark.parametrize("scheme", ["linux-xpu", "linux-openvino"])
@pytest.mark.parametrize(("module", "fits"), [("xe", True), ("i915", True), ("vfio-pci", False)])
def test_an_intel_gpu_has_to_be_in_the_hands_of_its_driver(matrix: Matrix, scheme: str, module: str, fits: bool) -> None:
    """Two backends are Intel's; one of them names the modules."""
    card = Gpu(name="Arc A770", pci_id="8086:56a0", arch="dg2", kernel_driver=module, vendor="intel")
    machine = Machine(os="linux", os_id="ubuntu-24.04", arch="x86_64", glibc="2.39", gpus=(card,), modules=(module,))
    assert (resolve(matrix, Wish(scheme=scheme, python="3.12"), Facts(machine=machine)).plan is not None) == fits
