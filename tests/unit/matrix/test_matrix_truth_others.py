"""Row by row: the collected facts on Ascend, Gaudi, Cambricon, Moore Threads, TPU, Neuron and the clouds, against the matrix."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from envkit.matrix import load
from envkit.model import Backend, BackendRelease, Build, Evidence, Matrix, Os

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")

CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# Tables of the facts that the matrix does not hold, each with the reason.
UNUSED_TABLES = {
    "ascend": {
        "vllm_ascend": "pins of a serving engine; used only where they pair a torch_npu that Ascend's own table leaves out",
        "lifecycle": "planned ends of maintenance; what is published is read from PyPI",
        "torch_python": "the wheels on PyPI say more, and differ (see [[conflict]])",
        "triton_ascend": "not tied to a torch release by any source",
        "onnxruntime_cann": "belongs to the framework onnxruntime",
        "cann_python": "Pythons of CANN's own tools; the wheels are narrower",
    },
    "cambricon": {
        "torch_mlu_series": "names of sets of SDKs; the components are in the rows",
        "lifecycle": "planned ends of maintenance, as of 2024",
        "catch": "predecessor for torch 1.6, older than the matrix",
    },
    "moore_threads": {
        "companion": "torchada is no part of an environment; the scheme's text names it",
    },
    "tpu": {
        "torch_xla_elsewhere": "builds for Neuron, which the SDK pulls in",
        "libtpu": "one release a line is named by what pins it; the floors of its wheels are in the rows",
    },
}

# Rows of the official table are left out where PyPI does not have them (2.1.0.post4 and others), or torch is older than this.
NPU_OLDEST_TORCH = (2, 1)
# On PyPI, in no table of CANN, and beside a paired release for the same torch.
NPU_UNPAIRED_PASSED_OVER = {"2.1.0.post3", "2.7.1.post6", "2.8.0.post5", "2.9.0.post4"}
NPU_UNPAIRED = {
    "2.7.1.post11", "2.9.0.post9", "2.9.1", "2.10.0.post7", "2.11.0.post3", "2.12.0.post3", "2.13.0", "2.14.0",
}  # fmt: skip
MUSA_POST = {"2.9.1.post1+musa5.2.0", "2.11.0.post1+musa5.2.1mp22"}  # .post builds of torch itself, third-party knowledge


def facts(name: str) -> dict[str, Any]:
    return tomllib.loads((FACTS / f"{name}.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def order(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def release(backend: Backend, tag: str) -> BackendRelease:
    return next(each for each in backend.releases if each.tag == tag)


def builds(matrix: Matrix, tag: str, framework: str = "torch") -> list[Build]:
    return [each for each in matrix.frameworks[framework].builds if each.tag == tag]


def holding(matrix: Matrix, package: str, version: str, framework: str = "torch") -> list[Build]:
    found = matrix.frameworks[framework].builds
    return [each for each in found if package in each.packages and each.packages[package].version == version]


def plain(version: str) -> str:
    """A version of torch_npu as PyPI writes it."""
    return version.replace(".rc", "rc")


# ---- Ascend ------------------------------------------------------------------------------------------------------


def test_every_torch_npu_of_the_official_table(matrix: Matrix) -> None:
    rows, on_pypi = facts("ascend"), {row["version"] for row in facts("ascend")["torch_npu_pypi"]}
    left_out = []
    for row in rows["torch_npu"]:
        version, cann = plain(row["version"]), row["cann"]
        if order(row["torch"])[:2] < NPU_OLDEST_TORCH or version not in on_pypi:
            left_out.append(version)
            continue
        tag = "cann9.1.x" if cann == "9.1.X" else f"cann{cann.lower()}"
        found = [each for each in holding(matrix, "torch-npu", version) if each.tag == tag]
        assert {platform for each in found for platform in each.platforms} == {"linux/aarch64", "linux/x86_64"}, version
        assert {each.release for each in found} == {row["torch"]}, version
        assert all(each.published for each in found), version
        if cann != "9.1.X":
            assert release(matrix.backends["npu"], tag).version == cann, version
    assert not [version for version in left_out if version in on_pypi]


def test_every_wheel_of_torch_npu_on_pypi(matrix: Matrix) -> None:
    rows = facts("ascend")
    in_table = {plain(row["version"]) for row in rows["torch_npu"]}
    ours = {each.packages["torch-npu"].version for each in matrix.frameworks["torch"].builds if "torch-npu" in each.packages}
    for row in rows["torch_npu_pypi"]:
        version = row["version"]
        if row.get("prerelease") and version not in in_table:
            assert version not in ours, version
            continue
        if version in NPU_UNPAIRED_PASSED_OVER:
            assert version not in in_table | ours
            continue
        found = holding(matrix, "torch-npu", version)
        assert found, version
        assert {each.packages["torch-npu"].index for each in found} == {"pypi"}
        for each in found:
            platform = each.platforms[0].replace("/", "_")
            wanted = row["pythons_by_platform"][platform] if "pythons_by_platform" in row else row["pythons"]
            assert set(each.pythons or ()) == set(wanted), version
            if platform == "linux_x86_64":
                # 2.12 and newer pin X or X.*, which X+cpu satisfies too.
                assert (each.local, each.index) == ("+cpu", CPU_INDEX), version
                assert row["torch_pin_x86_64"] in ("none", *(f"torch=={each.release}{end}" for end in ("+cpu", "", ".*")))
            unconfirmed = version in NPU_UNPAIRED
            assert (each.published is None) == unconfirmed == (each.tag == "cann-unpaired"), version
    assert ours <= {row["version"] for row in rows["torch_npu_pypi"]}


def test_what_has_no_known_cann_is_what_the_facts_say(matrix: Matrix) -> None:
    text = next(row["text"] for row in facts("ascend")["limit"] if "no known CANN pairing" in row["text"])
    assert set(re.findall(r"\d+\.\d+\.\d+(?:\.post\d+)?", text)) == NPU_UNPAIRED
    for version in NPU_UNPAIRED:
        assert all(f"torch-npu {version} is on PyPI" in each.note for each in holding(matrix, "torch-npu", version))


def test_torch_on_aarch64_comes_without_cuda(matrix: Matrix) -> None:
    pypi = {row["version"]: row.get("pypi_cuda_linux_aarch64") for row in facts("torch_releases")["release"]}
    for each in matrix.frameworks["torch"].builds:
        if "torch-npu" in each.packages and each.platforms == ("linux/aarch64",):
            expected = ("", "pypi") if pypi[each.release] == "cpu_only" else ("+cpu", CPU_INDEX)
            assert (each.local, each.index) == expected, each.release


def test_the_pair_that_vllm_names_alone(matrix: Matrix) -> None:
    row = next(row for row in facts("ascend")["torch_npu_pypi"] if "cann_secondary" in row)
    found = holding(matrix, "torch-npu", row["version"])
    assert {each.tag for each in found} == {f"cann{row['cann_secondary']}"}
    assert {each.evidence for each in found} == {Evidence.CLAIMED}


def test_every_driver_of_cann(matrix: Matrix) -> None:
    backend = matrix.backends["npu"]
    known = {row["cann"]: row["driver"] for row in facts("ascend")["cann_driver"]}
    for each in backend.releases:
        driver = known.get(str(each.version), "unknown")
        assert each.tested_driver.get(Os.LINUX, "unknown") == driver, each.tag
    assert {cann for cann, driver in known.items() if driver != "unknown"} <= {str(each.version) for each in backend.releases}


def test_every_chip_and_image_of_cann(matrix: Matrix) -> None:
    rows, backend = facts("ascend"), matrix.backends["npu"]
    chips = {row["image_chip"] for row in rows["hardware"] if "image_chip" in row}
    assert set(backend.chips.values()) == chips
    imaged: dict[str, Mapping[str, Any]] = {row["cann"].upper(): row for row in rows["cann_image"]}
    for each in backend.releases:
        assert each.archs is not None
        row = imaged.get(str(each.version))
        if row:
            assert set(row["chips"]) <= {arch.removeprefix("ascend") for arch in each.archs}, each.tag
            assert ("950" in row["chips"]) == ("ascend950" in each.archs), each.tag
    for build in (*matrix.frameworks["torch"].builds, *matrix.frameworks["mindspore"].builds):
        if build.image.startswith("quay.io/ascend/cann:"):
            cann, chip, system, python = build.image.partition(":")[2].rsplit("-", 3)
            row = next(row for row in rows["cann_image"] if row["cann"] == cann)
            assert build.tag == f"cann{cann}"
            assert (chip in row["chips"], system in row["os"]) == (True, True)
            assert python.removeprefix("py") in row["pythons"]
        elif build.image.startswith("quay.io/ascend/torch-npu:"):
            assert build.image.partition(":")[2].startswith(f"{build.packages['torch-npu'].version}-cann9.1.0-910b-")
    (pattern,) = rows["torch_npu_image"]
    assert pattern["example"] in {build.image for build in builds(matrix, "cann9.1.0")}


def test_every_mindspore(matrix: Matrix) -> None:
    rows, ours = facts("ascend"), matrix.frameworks["mindspore"]
    assert {row["version"] for row in rows["mindspore"]} == {each.version for each in ours.releases}
    for row in rows["mindspore"]:
        own = next(each for each in ours.releases if each.version == row["version"])
        wanted = row["pythons_by_platform"]["any"] if "pythons_by_platform" in row else row["pythons"]
        assert set(own.pythons) == set(wanted) - {"3.7"}, row["version"]
        numpy = set(row["numpy"].removeprefix("numpy").split(","))
        # Observed: with NumPy 2 the operators of this wheel end in "numpy.core.multiarray failed to import".
        numpy |= {"<2"} if row["version"] == "2.10.0" else set()
        assert set(own.requires["numpy"].split(",")) == numpy, row["version"]
    pairs = {
        (row["mindspore"].replace("-rc", "rc"), row["cann"])
        for key in ("cann_driver", "mindspore_cann")
        for row in rows[key]
        if "mindspore" in row
    }
    on_pypi = {row["version"] for row in rows["mindspore"]}
    paired = {
        (each.release, str(release(matrix.backends["npu"], each.tag).version))
        for each in ours.builds
        if each.published and each.tag != "cpu"
    }
    assert paired == {pair for pair in pairs if pair[0] in on_pypi}
    unpaired = {each.release for each in ours.builds if each.tag == "cann-unpaired"}
    assert unpaired == on_pypi - {version for version, _ in paired}
    assert {each.release for each in ours.builds if each.tag == "cpu"} == on_pypi


def test_flags_and_names_of_ascend(matrix: Matrix) -> None:
    rows = facts("ascend")
    container = matrix.schemes["linux-npu"].container
    assert container is not None
    told = [flag.replace("<n>", "0") for flag in rows["container"][0]["run_flags"]]
    assert list(container.run_flags) == [flag.replace("--device ", "--device=").replace("-v ", "--volume=") for flag in told]
    assert matrix.backends["npu"].visible == next(row["name"] for row in rows["env"] if "devices a process" in row["role"])
    strings = {row["product"]: row["string"] for row in rows["device"]}
    assert matrix.backends["npu"].device == strings["torch_npu"]
    assert matrix.schemes["linux-npu-mindspore"].device == strings["mindspore"]


# ---- Gaudi -------------------------------------------------------------------------------------------------------


def test_every_gaudi_release(matrix: Matrix) -> None:
    rows, backend = facts("intel"), matrix.backends["hpu"]
    assert [str(each.version) for each in backend.releases] == sorted((row["software"] for row in rows["gaudi"]), key=order)
    numbers = {row["software"]: row["build"] for row in rows["gaudi_build"]}
    for row in rows["gaudi"]:
        software, found = row["software"], builds(matrix, f"gaudi{row['software']}")
        own = release(backend, f"gaudi{software}")
        assert own.tested_driver == {Os.LINUX: numbers.get(software, software)}
        if row["torch"] == "unknown":
            assert found == []
            continue
        (build,) = found
        assert build.release == row["torch"] or build.release.startswith(f"{row['torch']}.")
        assert (build.index, build.local, build.platforms) == ("vendor", "", ("linux/x86_64",))
        assert (build.published is None) == (row.get("basis") == "secondary" or order(software) < (1, 14)), software
        if build.image:
            pattern = rows["gaudi_image"][0]["pattern"]
            assert build.image == pattern.replace("<software>", software).replace("<os>", "ubuntu22.04").replace(
                "<torch>", build.release
            )


def test_every_system_of_gaudi(matrix: Matrix) -> None:
    rows = facts("intel")["gaudi_os"]
    known = {"ubuntu": lambda v: ".".join(v.split(".")[:2]), "rhel": lambda v: v.split(".")[0]}
    for row in rows:
        software = row["software"] + (".0" if row["software"].count(".") == 1 else "")
        own = release(matrix.backends["hpu"], f"gaudi{software}")
        name, _, number = row["os"].partition("-")
        if name in known:
            assert f"{name}-{known[name](number)}" in (own.platforms or ()), row
        assert f"{row['os']} (kernel {row['kernel']}, Python {', '.join(row['pythons'])})" in own.note
        (build,) = builds(matrix, f"gaudi{software}")
        assert set(row["pythons"]) <= set(build.pythons or ()), row


def test_generations_of_gaudi(matrix: Matrix) -> None:
    said = {
        row["software"]: {name.lower().replace(" ", "") for name in row["generations"]}
        for row in facts("intel")["gaudi_hardware"]
    }
    for software, words in said.items():
        assert set(release(matrix.backends["hpu"], f"gaudi{software}.0").archs or ()) == words
    for each in matrix.backends["hpu"].releases:
        if each.version >= "1.22":
            assert each.archs == ("gaudi2", "gaudi3"), "the first generation was dropped from 1.22"


# ---- Cambricon and Moore Threads -----------------------------------------------------------------------------------


def test_every_torch_mlu(matrix: Matrix) -> None:
    for row in facts("cambricon")["torch_mlu"]:
        toolkit = row["cntoolkit"].removesuffix("-1")
        own = release(matrix.backends["mlu"], f"cntoolkit{toolkit}")
        (build,) = [each for each in builds(matrix, f"cntoolkit{toolkit}") if each.release == row["torch"]]
        assert build.packages["torch-mlu"].version == row.get("wheel_version", f"{row['version']}+torch{row['torch']}")
        assert (build.platforms, build.pythons) == (("linux/x86_64",), ("3.10",))
        assert {pin.index for pin in build.packages.values()} == {"vendor"}
        secondary = "basis" in row
        assert (build.published is None) == secondary
        expected = {} if row["driver"] == "unknown" else {Os.LINUX: row["driver"].removesuffix("-1")}
        assert own.tested_driver == expected
        vendor_torch = any(
            row["torch"].startswith(line)
            for each in facts("cambricon")["torch_wheel"]
            if each["vendor_wheel_needed"]
            for line in each["torch"]
        )
        expected_index = "vendor" if vendor_torch or secondary else CPU_INDEX
        assert (build.local, build.index) == ("+cpu" if expected_index == CPU_INDEX else "", expected_index)


def test_every_torch_musa(matrix: Matrix) -> None:
    tags = {each.tag for each in matrix.backends["musa"].releases}
    for row in facts("moore_threads")["torch_musa"]:
        if row["torch"] in MUSA_POST:
            continue
        name = row["tag"].removeprefix("v") if "tag" in row else row["version"]
        assert f"musa{name}" in tags
        own = release(matrix.backends["musa"], f"musa{name}")
        wanted = re.findall(r"(?:^| )(\d+\.\d+\.\d+)", row["torch"])
        found = builds(matrix, f"musa{name}")
        assert {each.release for each in found} == set(wanted), name
        secondary = row.get("basis") == "secondary"
        assert all((each.published is None) == secondary for each in found)
        assert all(set(each.pythons or ()) == set(row.get("pythons", ["3.10"])) for each in found)
        assert own.tested_driver == ({Os.LINUX: row["driver"]} if "driver" in row else {})
        sdk = row.get("musa_sdk") or row.get("musa_toolkits")
        assert sdk is None or f"MUSA SDK {sdk}" in own.note
        tags.discard(f"musa{name}")
    assert not tags


def test_flags_of_moore_threads(matrix: Matrix) -> None:
    row = facts("moore_threads")["container"][0]
    container = matrix.schemes["linux-musa"].container
    assert container is not None
    assert container.base == row["image"]
    assert {flag.replace("--env ", "--env=") for flag in row["run_flags"]} - {"--pull always"} <= set(container.run_flags)
    assert f"{row['image'].rpartition(':')[0]}:{row['tags_seen'][0]}" in {each.image for each in builds(matrix, "musa2.1.0")}


# ---- TPU ---------------------------------------------------------------------------------------------------------


def test_every_torch_xla(matrix: Matrix) -> None:
    superseded = {"2.6.0": "2.6.1", "2.8.0": "2.8.1"}  # the same torch minor and the same libtpu
    python_of_libtpu = {row["version"]: set(row["pythons"]) for row in facts("tpu")["libtpu"]}
    rows = facts("tpu")["torch_xla"]
    by_version = {row["version"]: row for row in rows}
    for row in rows:
        version = row["version"]
        found = holding(matrix, "torch-xla", version)
        if version in superseded:
            assert found == []
            assert by_version[superseded[version]]["extra_tpu"] == row["extra_tpu"]
            continue
        (build,) = found
        assert build.release == row["torch"] or build.release.startswith(f"{row['torch']}.")
        assert (build.packages["torch-xla"].extras, build.device, build.local, build.index) == ("tpu", "xla", "+cpu", CPU_INDEX)
        pin = next((text.partition("==")[2] for text in row["extra_tpu"] if text.startswith("libtpu==")), "")
        wanted = set(row["pythons"])
        if pin and "py3" not in python_of_libtpu[pin]:
            wanted &= python_of_libtpu[pin]  # the extra cannot be installed where libtpu has no wheel
        assert set(build.pythons or ()) == wanted, version
        nightly = next((text.partition("==")[2] for text in row["extra_tpu"] if text.startswith("libtpu-nightly==")), "")
        assert ("libtpu-nightly" in build.packages and build.packages["libtpu-nightly"].version) == (nightly or False)
        if pin:
            assert release(matrix.backends["tpu"], build.tag).version == pin


def test_torch_tpu(matrix: Matrix) -> None:
    row = next(row for row in facts("tpu")["torch_tpu"] if not row.get("yanked"))
    found = holding(matrix, "torch-tpu", row["version"])
    assert {each.release for each in found} == {"2.11", "2.12", "2.13", "2.14", "2.15.0"}
    assert row["torch"] == ">=2.11.0,<=2.15.0"
    assert all(set(each.pythons or ()) == set(row["pythons"]) and each.glibc == "2.31" for each in found)
    assert all(each.device == "" for each in found)
    assert matrix.backends["tpu"].device == "tpu"
    own = release(matrix.backends["tpu"], "torchtpu0.2.0")
    assert own.version == row["libtpu"].removeprefix(">=")
    (hardware,) = facts("tpu")["torch_tpu_hardware"]
    promised = {key for key, word in hardware.items() if word.startswith(("recommended", "supported"))}
    assert set(own.archs or ()) == {f"tpu-{name}" for name in promised}


def test_every_jax_for_tpu(matrix: Matrix) -> None:
    rows, ours = facts("tpu"), matrix.frameworks["jax"]
    libtpu = {row["version"]: row for row in rows["libtpu"]}
    known = {each.version: each for each in ours.releases}
    found = {each.release: each for each in ours.builds if each.tag.startswith("libtpu")}
    for row in rows["jax"]:
        version = row["version"]
        if known[version].yanked:
            continue
        build = found.get(version) or found[version.rpartition(".")[0]]  # 0.12.0 serves 0.12.0.1
        pin = next((text.partition("==")[2].removesuffix(".*") for text in row["extra_tpu"] if text.startswith("libtpu==")), "")
        nightly = next((text.partition("==")[2] for text in row["extra_tpu"] if text.startswith("libtpu-nightly==")), "")
        assert (build.extras, build.index, build.local, build.platforms) == ("tpu", "pypi", "", ("linux/x86_64",))
        assert ("libtpu-nightly" in build.packages and build.packages["libtpu-nightly"].version) == (nightly or False)
        assert build.tag == (f"libtpu{pin}" if pin else f"libtpu{nightly.partition('.dev')[2]}")
        if pin:
            assert release(matrix.backends["tpu"], build.tag).version == pin
            line = [libtpu[each] for each in libtpu if each == pin or each.startswith(f"{pin}.")]
            floors = {re.search(r"manylinux_(\d+)_(\d+)", tag) for each in line for tag in each["wheel_tags"]}
            assert build.glibc == max(f"{floor[1]}.{floor[2]}" for floor in floors if floor), version
            # Wherever jax has wheels, libtpu has to have one too.
            for python in known[version].pythons if build.pythons is None else build.pythons:
                assert any("py3" in each["pythons"] or python in each["pythons"] for each in line), (version, python)


def test_flags_and_variables_of_tpu(matrix: Matrix) -> None:
    rows, scheme = facts("tpu"), matrix.schemes["linux-tpu"]
    assert scheme.container is not None
    assert list(scheme.container.run_flags) == rows["container"][0]["run_flags"]
    assert scheme.env == rows["device"][0]["env_required"]
    needs = " ".join(scheme.needs)
    assert all(row["image"] in needs for row in rows["vm_image"])


# ---- Neuron ------------------------------------------------------------------------------------------------------


def test_every_neuron_release(matrix: Matrix) -> None:
    rows, backend = facts("others"), matrix.backends["neuron"]
    index = next(row["url"] for row in rows["neuron_repo"] if row["kind"] == "pip")
    assert [str(each.version) for each in backend.releases] == sorted((row["sdk"] for row in rows["neuron_release"]), key=order)
    for row in rows["neuron_release"]:
        own, found = release(backend, f"neuron{row['sdk']}"), builds(matrix, f"neuron{row['sdk']}")
        assert own.tested_driver == {Os.LINUX: row["dkms"]}
        # The manifest is the SDK's; torch-neuronx does not serve Inf1.
        assert set(own.archs or ()) == set(row["instances"]) - {"inf1"}
        assert {each.packages["torch-neuronx"].version for each in found} == set(row["torch_neuronx"])
        assert {each.release for each in found} == set(row["torch"])
        for each in found:
            assert each.packages["torch-neuronx"].version.startswith(f"{each.release}.")
            assert set(each.pythons or ()) == set(row["pythons"][each.release])
            assert each.packages["neuronx-cc"].version == row["neuronx_cc"]
            assert each.packages["libneuronxla"].version in row["libneuronxla"]
            assert {pin.index for pin in each.packages.values()} == {index}


# ---- clouds ------------------------------------------------------------------------------------------------------


def test_clouds(matrix: Matrix) -> None:
    rows = facts("others")["cloud_api"]
    assert set(matrix.clouds) == {row["vendor"].lower() for row in rows}
    for row in rows:
        own = matrix.clouds[row["vendor"].lower()]
        assert (own.package, own.version, list(own.env), own.training) == (
            row["package"],
            row["version"],
            row["env"],
            row["training"],
        )
        assert own.endpoint == row.get("endpoint", "")
    for row in facts("others")["local_sdk"]:
        assert row["name"] in matrix.clouds[row["vendor"].lower()].text


# ---- texts and what is left out --------------------------------------------------------------------------------------


MINE = (
    "linux-cpu-mindspore",
    "linux-hpu",
    "linux-mlu",
    "linux-musa",
    "linux-neuron",
    "linux-npu",
    "linux-npu-mindspore",
    "linux-tpu",
    "linux-tpu-jax",
)


@pytest.mark.parametrize("name", MINE)
def test_schemes_speak_chinese_too(matrix: Matrix, name: str) -> None:
    scheme = matrix.schemes[name]
    assert scheme.stability
    assert scheme.ecosystem
    assert scheme.multi_device
    for word in ("title", "for_whom", "needs", "pros", "cons", "cannot"):
        mine = _texts(getattr(scheme, word))
        theirs = _texts(scheme.zh[word])
        assert len(mine) == len(theirs)
        assert all(re.search("[\u4e00-\u9fff]", text) for text in theirs), theirs
        # Versions and commands are the same in both languages.
        for english, chinese in zip(mine, theirs, strict=True):
            assert set(re.findall(r"\d+\.\d+(?:\.\d+)?", english)) == set(re.findall(r"\d+\.\d+(?:\.\d+)?", chinese)), chinese


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def test_what_the_matrix_leaves_out_is_listed() -> None:
    used = {
        "ascend": {"torch_npu", "torch_npu_pypi", "cann_driver", "mindspore_cann", "mindspore", "hardware",
                "cann_image", "torch_npu_image",
                   "cann_pip", "host_driver", "container", "device", "env", "limit", "conflict"},
        "cambricon": {"torch_mlu", "torch_wheel", "hardware", "host_driver", "container", "install", "device", "env", "limit"},
        "moore_threads": {"torch_musa", "python", "hardware", "collectives", "host_driver", "container_toolkit",
                "container", "device", "env", "limit"},
        "tpu": {"torch_xla", "torch_xla_status", "jax", "torch_xla_find_links", "conflict", "torch_tpu", "torch_tpu_links",
                "torch_tpu_hardware", "generation",
                "device", "device_node", "env", "vm_image", "container", "host_driver", "limit"},
    }  # fmt: skip
    for name, tables in used.items():
        there = set(facts(name)) - {"meta"}
        assert there == tables | set(UNUSED_TABLES[name]), name


def test_no_row_without_a_fact(matrix: Matrix) -> None:
    mine: Iterable[Build] = (
        each for each in matrix.frameworks["torch"].builds if set(each.packages) & {"torch-npu", "torch-mlu", "torch-musa"}
    )
    known = {plain(row["version"]) for row in facts("ascend")["torch_npu_pypi"]}
    known |= {row.get("wheel_version", f"{row['version']}+torch{row['torch']}") for row in facts("cambricon")["torch_mlu"]}
    known |= {
        (row.get("tag") or row["version"]).removeprefix("v").removesuffix("-pt25") for row in facts("moore_threads")["torch_musa"]
    }
    for each in mine:
        assert {pin.version for name, pin in each.packages.items() if name != "triton"} <= known
