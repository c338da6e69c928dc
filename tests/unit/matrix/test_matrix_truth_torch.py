"""torch for CUDA, CPU, Intel XPU and macOS: every row of the collected facts, one by one, against the matrix and the resolver.

A table or field of the facts that the product makes no use of stands in `UNUSED`, with the reason; nothing is passed over in
silence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from envkit import devices
from envkit.matrix import load
from envkit.model import (
    BackendRelease,
    Build,
    Dotted,
    DriverFacts,
    Evidence,
    Facts,
    FrameworkRelease,
    Gpu,
    Machine,
    Matrix,
    Os,
    PythonFacts,
    Verdict,
    Wish,
)
from envkit.resolve import resolve
from envkit.resolve.rules import code_for
from envkit.resolve.wishes import matches

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")

Row = dict[str, Any]


@lru_cache(maxsize=16)
def facts(name: str) -> Row:
    path = FACTS / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def rows(name: str, table: str) -> list[Row]:
    found = facts(name).get(table, [])
    return found if isinstance(found, list) else [found]


def each(name: str, table: str, *words: str) -> Any:
    """Every row of a table as a case of its own, named by some of its fields."""
    found = rows(name, table)
    return pytest.mark.parametrize("row", found, ids=["-".join(str(row.get(word, "")) for word in words) for row in found])


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def line(version: str) -> str:
    return ".".join(version.split(".")[:2])


def platform(text: str) -> str:
    return text.replace("_", "/", 1)


def sm(capability: str) -> str:
    return "sm_" + capability.replace(".", "")


def tag(cuda: str) -> str:
    return "cu" + cuda.replace(".", "")


def release(matrix: Matrix, version: str) -> FrameworkRelease:
    return next(each for each in matrix.frameworks["torch"].releases if each.version == version)


def builds(matrix: Matrix, version: str, tags: str, where: str) -> list[Build]:
    """The builds of a release or a line whose tag matches, for a platform: those of the very release, or of its line."""
    found = [b for b in matrix.frameworks["torch"].builds if re.fullmatch(tags, b.tag) and where in b.platforms]
    exact = [b for b in found if b.release == version]
    return exact or [
        b for b in found if line(b.release) == line(version) and (b.release == line(version) or version == line(version))
    ]


def pythons(matrix: Matrix, version: str, build: Build) -> set[str]:
    return set(build.pythons if build.pythons is not None else release(matrix, version).pythons)


# ---- what is made use of, and what is not ------------------------------------------------------------------------

PROSE = {"source", "note", "basis", "evidence", "confidence"}
USED = {
    "torch_releases": {
        "minor": {"minor", "wheel_variants", "cuda", "cuda_windows", "cuda_linux_aarch64", "cuda_unadvertised",
                  "cuda_unconfirmed",
                  "cuda_expected", "aarch64_cuda_expected", "xpu_platforms", "windows_arm64_cpu", "index_url_pattern"},
        "release": {"version", "minor", "pypi_date", "pythons", "pypi_cuda_linux_x86_64", "pypi_cuda_linux_aarch64",
                    "platforms_pypi",
                    "pythons_linux_aarch64", "pythons_windows_x86_64", "pythons_macos_arm64", "pythons_macos_x86_64",
                    "wheel_tags_linux", "wheel_tags_macos", "triton_pin", "torchvision", "torchaudio"},
        "companion": {"package", "version", "requires_torch", "python_tags", "yanked"},
    },
    "torch_cuda_archs": {
        "wheel": {"torch", "variant", "platform", "sass", "ptx", "evidence", "published"},
        "code_runs_on": {"code_cc", "runs_on_min", "runs_on_same_major_only", "runs_on_exact", "excludes",
                         "excludes_from_cuda_13_2"},
    },
    "cuda_driver": {
        "minor_version_compat": {"cuda_major", "linux_min", "linux_min_exact_ga", "windows_min"},
        "toolkit": {"cuda", "release", "linux_min", "windows_min", "driver_branch"},
        "driver_branch": {"branch", "max_cuda", "designation", "eol"},
        "arch_support": {"arch", "cc", "first_cuda", "last_cuda", "last_driver_branch"},
        "branch_drops": {"after_branch", "drops", "first_branch_without"},
        "toolkit_min_cc": {"cuda_major", "min_cc"},
        "kernel_module": {"arch", "required"},
    },
    "cpu": {
        "torch_index": {"os", "arch", "index", "local_version"},
        "torch_cpu_index_listing": {"version", "platform", "wheel_tag", "pythons"},
        "torch_pypi": {"version", "date", "pythons_linux_aarch64", "pythons_linux_x86_64", "pythons_macos_arm64",
                       "pythons_macos_x86_64", "pythons_windows_x86_64", "wheel_tags"},
        "torch_wheel_size": {"version", "mb"},
    },
    "intel": {
        "index": {"product", "url", "local_version", "platforms", "first_release", "releases"},
        "torch_xpu": {"torch", "wheels", "platforms", "hardware", "os_client", "os_client_without_arc_b", "os_datacenter",
                      "os_panther_lake"},
        "torch_xpu_python": {"torch", "pythons", "os", "arch"},
        "triton_xpu": {"torch", "package"},
        "env": {"name"},
        "container": {"product", "run_flags", "images"},
    },
    "apple": {
        "mps_support": {"introduced", "min_macos_first", "torch", "min_macos"},
        "mps_runtime_floor": {"torch", "min_macos", "checked_wheels"},
        "torch_macos": {"version", "pythons_arm64", "pythons_x86_64", "wheel_min_macos", "pythons_by_tag"},
    },
    "cuda_images": {"combo_later": {"cuda", "os", "flavours"}},
    "nvidia_gpus": {"chip": {"prefix", "arch", "cc"}, "name_rule": {"match", "rule", "exceptions"}},
    "others": {"triton_pin": {"torch", "triton"}, "triton": {"version", "pythons"}},
}  # fmt: skip

UNUSED = {
    "torch_releases.minor": {
        "rocm_linux": "AMD's builds are held to torch_rocm.toml",
        "rocm_advertised_on_site": "as above",
        "stable_rocm_official": "as above",
        "stable_cuda_official": "which CUDA a release calls stable changes no answer: the newest build that fits is taken",
        "experimental_cuda_official": "as above",
        "python_official": "the wheels that are there decide, not the promise",
        "source_official": "a source of the fields above",
    },
    "torch_releases.release": {
        "requires_python": "the Pythons of the wheels are exact",
        "pypi_windows": "the CPU build of PyPI; ours comes from the index cpu",
        "cuda_toolkit_pin": "the wheel's own requirement, met by the installer",
        "cudnn_pin": "as above",
        "nccl_pin": "as above",
        "git_version": "says nothing about fitting",
        "torchvision_basis": "a remark on torchvision",
        "torchaudio_basis": "a remark on torchaudio",
    },
    "torch_releases.companion": {
        "pypi_date": "the date of a companion decides nothing",
        "requires_python": "the Pythons of the wheels are exact; 3.14.1 alone cannot be told from 3.14",
    },
    "torch_releases": {
        "nightly_hint": "nightly builds are no part of plans",
        "planned": "plans are made of what is published",
        "meta": "",
    },
    "torch_cuda_archs.wheel": {
        "build_script_agrees": "the binary goes before the script",
        "build_script_source": "as above",
        "embedded_table_agrees": "as above",
        "ptx_conflict": "the binaries hold none, so the rows have none",
    },
    "torch_cuda_archs": {"meta": "", "code_runs_on_meta": ""},
    "cuda_driver.minor_version_compat": {
        "windows_min_alt": "the stricter one of NVIDIA's two numbers is taken; the rows say so",
        "branch_min": "the exact driver is the floor",
        "branch_upper_exclusive": "newer drivers run older CUDA by backward compatibility",
    },
    "cuda_driver.toolkit": {
        "branch_evidence": "a remark on driver_branch",
        "pypi_toolkit": "the wheel's own requirement, met by the installer",
        "pypi_date": "as above",
    },
    "cuda_driver.driver_branch": {
        "max_cuda_basis": "a remark on max_cuda",
        "eol_conflict": "the newer copy of NVIDIA's page is taken",
        "last_version_linux_unix_page": "a branch is named, not its last driver",
        "latest_version": "as above",
    },
    "cuda_driver.branch_drops": {"windows_note": "security updates of a legacy branch change no answer"},
    "cuda_driver.kernel_module": {"open_supported": "said by required", "proprietary_supported": "as above"},
    "cuda_driver": {
        "minor_version_compat_exception": "no wheel of the matrix is built with CUDA 11.0",
        "windows_min_extra": "secondary, and of toolkits without a floor by NVIDIA",
        "bundling": "which toolkit installs a driver: envkit installs none from toolkits",
        "kernel_module_fact": "since when the open modules exist and are the default: the notes of branches 515 and 560 say so",
        "forward_compat": "plans do not count on the cuda-compat packages",
        "pypi_cuda_toolkit": "the wheel's own requirement, met by the installer",
        "meta": "",
    },
    "cpu.torch_index": {"build": "said by the scheme", "pypi_build": "PyPI's builds are in torch_releases.toml"},
    "cpu.torch_pypi": {"requires_python": "the Pythons of the wheels are exact", "build": "said by torch_index"},
    "cpu": {"framework": "other frameworks", "limit": "remarks, in the texts of the schemes", "meta": ""},
    "intel.index": {"channel": "a remark", "pypi": "said by the index"},
    "intel.torch_xpu": {
        "install": "2.4 has no wheels",
        "channel": "the row of 2.5 names the test channel",
        "kernel_datacenter": "the kernel of each listed system is that new",
    },
    "intel.triton_xpu": {
        "version": "the wheel pins it; what the plan fixes is where it comes from",
        "index": "said by partners",
        "pypi": "the reason why it is a partner",
        "newest_on_pypi": "as above",
    },
    "intel.env": {"role": "a remark", "product": "Gaudi's variables are another room's"},
    "intel.container": {"wsl_flags": "images are for Linux; WSL2 takes the venv"},
    "intel": {
        "torch_xpu_runtime": "the wheel's own requirements, met by the installer",
        "oneapi_toolkit": "needed to build torch alone",
        "host_driver": "no minimum is stated anywhere; the image takes the packages of rolling-client",
        "gpu": "which chips the driver knows: PyTorch's own list is narrower, and decides",
        "device": "for the probe",
        "ipex_status": "the extension has ended; torch has xpu itself",
        "ipex": "as above",
        "jax_oneapi": "another framework",
        "limit": "remarks, in the texts of the schemes",
        "gaudi": "another backend", "gaudi_build": "another backend", "gaudi_os": "another backend",
        "gaudi_cluster": "another backend", "gaudi_hardware": "another backend", "gaudi_host": "another backend",
        "gaudi_image": "another backend", "gaudi_package": "another backend",
        "openvino": "another framework", "openvino_os": "another framework", "openvino_device": "another framework",
        "npu_generation": "OpenVINO's", "npu_driver": "OpenVINO's",
        "meta": "",
    },
    "apple.mps_support": {"hardware": "said by the platform", "min_python": "said by the wheels"},
    "apple.mps_runtime_floor": {"error": "for the doctor"},
    "apple.torch_macos": {"date": "said by the release"},
    "apple": {
        "device": "for the probe", "env": "for the doctor and the texts of the scheme",
        "limit": "remarks, in the texts of the schemes", "conflict": "about JAX",
        "mlx_support": "another framework", "mlx": "another framework",
        "jax_metal": "another framework", "jax_metal_status": "another framework",
        "jax_mps": "another framework", "jax_mps_status": "another framework",
        "meta": "",
    },
    "cuda_images": {
        "combo": "the base is a slim one; the vendor's image that is named as a choice is among the later ones",
        "naming": "how a tag is put together; one is named whole",
        "os_range": "as above", "policy": "as above", "tag_absent": "as above",
        "require": "what an image of NVIDIA's demands of a driver: the base has no such demand", "require_meta": "as above",
        "pytorch_naming": "PyTorch's own images bring a torch of their own beside the plan's",
        "pytorch_tag": "as above",
        "meta": "",
    },
    "nvidia_gpus": {"gpu": "held to the catalogue of devices", "source_key": "", "meta": ""},
    "others.triton": {
        "date": "the date decides nothing", "requires_python": "the Pythons of the wheels are exact",
        "platforms": "where there is no triton, torch's wheel does not ask for it",
    },
    "others": {
        "triton_backend": "the texts of the schemes name triton-windows and triton-xpu",
        **dict.fromkeys(
            ("onnxruntime", "onnxruntime_plugin", "llama_cpp_backend", "neuron_os", "neuron_release", "neuron_repo",
             "neuron_status",
             "ray", "ray_accelerator", "ray_accelerator_type", "cloud_api", "local_sdk", "qualcomm", "device", "limit"),
            "not torch on CUDA, the CPU, XPU or macOS",
        ),
        "meta": "",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", USED)
def test_no_table_and_no_field_is_passed_over(name: str) -> None:
    content = facts(name)
    assert set(content) == set(USED[name]) | set(UNUSED[name]), "tables without a use or a reason, or reasons without a table"
    for table, used in USED[name].items():
        fields = {field for row in rows(name, table) for field in row}
        unused = set(UNUSED.get(f"{name}.{table}", {}))
        assert fields - used - unused - PROSE == set(), table
        assert used | unused <= fields, f"{table}: the facts have no such field"
        assert not used & unused


# ---- releases ----------------------------------------------------------------------------------------------------


@each("torch_releases", "minor", "minor")
def test_what_each_line_publishes(matrix: Matrix, row: Row) -> None:
    minor = row["minor"]
    said = {"linux/x86_64": row["cuda"], "windows/x86_64": row["cuda_windows"], "linux/aarch64": row["cuda_linux_aarch64"]}
    unadvertised = set(row.get("cuda_unadvertised", ()))
    for where, versions in said.items():
        ours = {str(b.tag): b.published for b in matrix.frameworks["torch"].builds
                if line(b.release) == minor and b.tag.startswith("cu") and where in b.platforms}  # fmt: skip
        confirmed = {name for name, published in ours.items() if published}
        theirs = {tag(each) for each in versions if each != "unknown"}
        assert confirmed - {tag(each) for each in unadvertised} == theirs, where
        doubtful = {*row.get("cuda_unconfirmed", ()), *row.get("cuda_expected", ()), *row.get("aarch64_cuda_expected", ())}
        assert set(ours) - confirmed <= {tag(each) for each in (*doubtful, *unadvertised)} | (
            {"cu132"} if minor == "2.15" else set()
        )
    for version in unadvertised:
        assert all(
            each.published for each in builds(matrix, minor if minor != "2.12" else "2.12.1", tag(version), "linux/x86_64")
        )
    for word in ("linux/x86_64", "windows/x86_64", "linux/aarch64", "macos/arm64"):
        assert builds(matrix, minor, "cpu", word)[0].published is True
    arm = builds(matrix, minor, "cpu", "windows/arm64")
    assert bool(arm and arm[0].published) == row.get("windows_arm64_cpu", False)
    xpu = [b for b in matrix.frameworks["torch"].builds if line(b.release) == minor and b.tag == "xpu" and b.published]
    if row["xpu_platforms"] != ["unknown"] and minor != "2.5":  # 2.5: the test channel alone
        assert sorted(each.partition("/")[0] for b in xpu for each in b.platforms) == row["xpu_platforms"]
    tags = {b.tag for b in matrix.frameworks["torch"].builds if line(b.release) == minor}
    assert {each for each in row["wheel_variants"] if not each.startswith("rocm")} <= tags
    assert matrix.frameworks["torch"].index == row["index_url_pattern"].replace("<variant>", "{tag}")


@each("torch_releases", "release", "version")
def test_each_release(matrix: Matrix, row: Row) -> None:
    ours = release(matrix, row["version"])
    assert (ours.date, list(ours.pythons)) == (row["pypi_date"], row["pythons"])
    assert set(ours.companions["torchvision"]) == set(row["torchvision"])
    assert set(ours.companions["torchaudio"]) == set(row["torchaudio"])
    pin = ours.requires.get("triton", "")
    assert matches(pin, row["triton_pin"]) if "triton_pin" in row else not pin
    for where, cuda in (("linux/x86_64", row["pypi_cuda_linux_x86_64"]), ("linux/aarch64", row["pypi_cuda_linux_aarch64"])):
        if cuda != "cpu_only":
            (build,) = builds(matrix, row["version"], tag(cuda), where)
            assert build.published
            assert pythons(matrix, row["version"], build) == set(row.get(f"pythons_{where.replace('/', '_')}", row["pythons"]))
    for word in ("linux_aarch64", "windows_x86_64", "macos_arm64", "macos_x86_64"):
        found = builds(matrix, row["version"], "cpu", platform(word))
        assert bool(found) == (word in row["platforms_pypi"])
        listed = row.get(f"pythons_{word}", row["pythons"] if found else [])
        # The index "cpu" is known to have more than PyPI for 2.13.
        assert all(set(listed) <= pythons(matrix, row["version"], build) for build in found), word


GLIBC = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}


@each("torch_releases", "release", "version")
def test_the_floor_of_glibc_is_that_of_the_wheels_tag(matrix: Matrix, row: Row) -> None:
    for text in row["wheel_tags_linux"]:
        found = re.match(r"manylinux_(\d+)_(\d+)_(.+)", text) or re.match(r"(manylinux\d+)_()(.+)", text)
        assert found
        floor = GLIBC.get(found[1]) or f"{found[1]}.{found[2]}"
        cuda = row[f"pypi_cuda_linux_{found[3]}"]
        for build in builds(matrix, row["version"], "cpu" if cuda == "cpu_only" else tag(cuda), f"linux/{found[3]}"):
            assert build.glibc == floor, build


@each("torch_releases", "companion", "package", "version")
def test_each_companion(matrix: Matrix, row: Row) -> None:
    library = {each.version: each.pythons for each in matrix.libraries[row["package"]]}
    if row["yanked"]:
        assert row["version"] not in library
        return
    named = {f"3.{name[3:]}" for name in row["python_tags"] if name != "py3"}
    # A wheel tagged py3 is for every Python that its torch has.
    assert set(library[row["version"]]) == named if named else len(library[row["version"]]) > 5
    wanted = row["requires_torch"].removeprefix("torch") if row["requires_torch"] != "none" else ">=2.11"
    for ours in matrix.frameworks["torch"].releases:
        listed = row["version"] in ours.companions.get(row["package"], ())
        # The facts name no torchvision of 2.14.1's day for 2.14.0's pin, and keep to the pairs that came out together.
        assert not listed or matches(wanted.partition("+")[0], ours.version), ours.version


@each("others", "triton_pin", "torch")
def test_each_triton_pin(matrix: Matrix, row: Row) -> None:
    assert release(matrix, row["torch"]).requires["triton"] == row["triton"].removeprefix("triton")


@each("others", "triton", "version")
def test_each_triton(matrix: Matrix, row: Row) -> None:
    ours = {each.version: set(each.pythons) for each in matrix.libraries["triton"]}[row["version"]]
    assert set(row["pythons"]) <= ours
    # From 3.9 on, one wheel for the stable ABI serves 3.12 and all later ones.
    assert ours == set(row["pythons"]) or row["version"] == "3.9.0"


# ---- compiled code -----------------------------------------------------------------------------------------------


@each("torch_cuda_archs", "wheel", "torch", "variant", "platform")
def test_the_code_in_each_wheel(matrix: Matrix, row: Row) -> None:
    (build,) = [
        b for b in matrix.frameworks["torch"].builds
        if line(b.release) == row["torch"] and b.tag == row["variant"] and platform(row["platform"]) in b.platforms
    ]  # fmt: skip
    known = None if row["sass"] == ["unknown"] else {sm(each) for each in row["sass"]}
    assert (None if build.archs is None else set(build.archs)) == known
    assert set(build.ptx) == {sm(each) for each in row["ptx"]}
    assert (build.evidence is Evidence.WHEEL_MEASURED) == (row["evidence"] == "binary")
    if "published" in row:
        assert build.published is None


@each("torch_cuda_archs", "code_runs_on", "code_cc")
def test_where_code_runs(matrix: Matrix, row: Row) -> None:
    made = row["code_cc"]
    for version, excludes in (("12.8", "excludes"), ("13.2", "excludes_from_cuda_13_2")):
        for arch in (name for name, each in matrix.archs.items() if each.vendor == "nvidia"):
            major, minor = int(arch[3:-1]), int(arch[-1])
            capability = f"{major}.{minor}"
            if "runs_on_exact" in row:
                expected = capability in row["runs_on_exact"]
            else:
                low = [int(each) for each in row["runs_on_min"].split(".")]
                expected = major == low[0] and minor >= low[1] and capability not in row[excludes]
            how = code_for(matrix.archs, arch, "cuda", (sm(made),), (), Dotted(version))
            if version == "13.2" and capability in ("7.2", "8.7") and "runs_on_exact" not in row:
                assert (how == "native") == expected
            elif sm(made) != arch:
                assert (how == "native") == expected, (made, arch, version)


# ---- drivers -----------------------------------------------------------------------------------------------------


def torch_toolkits(matrix: Matrix) -> list[BackendRelease]:
    """The toolkits that torch is built with; other frameworks have tags of their own."""
    built = {build.tag for build in matrix.frameworks["torch"].builds}
    return [each for each in matrix.backends["cuda"].releases if each.tag in built]


@each("cuda_driver", "minor_version_compat", "cuda_major")
def test_the_floor_of_wheels(matrix: Matrix, row: Row) -> None:
    ours = [each for each in torch_toolkits(matrix) if each.version.major == row["cuda_major"]]
    assert ours
    for each in ours:
        assert str(each.min_driver[Os.LINUX]) == row.get("linux_min_exact_ga", row["linux_min"])
        assert str(each.min_driver[Os.WINDOWS]) == row["windows_min"]


@each("cuda_driver", "toolkit", "release")
def test_the_toolkits_own_driver(matrix: Matrix, row: Row) -> None:
    branch = next(each for each in matrix.backends["cuda"].branches if str(each.branch) == str(row["driver_branch"]))
    assert branch.max_backend == row["cuda"]
    ours = [each for each in matrix.backends["cuda"].releases if each.version == row["cuda"]]
    if not ours or not row["release"].endswith(" GA"):
        return  # no wheels of it, or an update: the first driver that knows the toolkit's cards is that of the GA
    for os, field in ((Os.LINUX, "linux_min"), (Os.WINDOWS, "windows_min")):
        assert str(ours[0].toolkit_driver.get(os, "none")) == (row[field] if row[field][0].isdigit() else "none")


def test_every_toolkit_that_wheels_are_built_with(matrix: Matrix) -> None:
    tags = {row["variant"] for row in rows("torch_cuda_archs", "wheel")}
    assert {each.tag for each in torch_toolkits(matrix)} == tags


@each("cuda_driver", "driver_branch", "branch")
def test_each_branch(matrix: Matrix, row: Row) -> None:
    ours = next(each for each in matrix.backends["cuda"].branches if str(each.branch) == str(row["branch"]))
    assert str(ours.max_backend or "unknown") == row["max_cuda"]
    assert (ours.designation or "unknown") == row["designation"]
    if re.match(r"\d{4}", row["eol"]):
        assert ours.eol == row["eol"]
    else:
        assert not ours.eol
        assert ("ended" in ours.note) == (row["eol"] == "ended")


def of_family(matrix: Matrix, family: str) -> set[str]:
    return {name for name, each in matrix.archs.items() if each.vendor == "nvidia" and each.family == family}


@each("cuda_driver", "branch_drops", "after_branch")
def test_what_a_branch_dropped(matrix: Matrix, row: Row) -> None:
    dropping = next(each for each in matrix.backends["cuda"].branches if each.branch > str(row["after_branch"]))
    assert set(dropping.dropped) == {name for family in row["drops"] for name in of_family(matrix, family)}
    assert str(dropping.branch) == str(row.get("first_branch_without", dropping.branch))


@each("cuda_driver", "arch_support", "arch", "cc")
def test_the_toolkits_and_drivers_of_an_architecture(matrix: Matrix, row: Row) -> None:
    last = {"11.x": "11.8", "12.x": "12.9", "ongoing": None}.get(row["last_cuda"], row["last_cuda"])
    branches = matrix.backends["cuda"].branches
    for capability in row["cc"]:
        if capability == "10.7":
            assert sm(capability) not in matrix.archs or row.get("confidence") == "secondary"
            continue
        ours = matrix.archs[sm(capability)]
        assert ours.family == row["arch"]
        if capability in ("3.2", "5.3"):  # Tegra: drivers of their own
            continue
        assert str(ours.min_backend) == row["first_cuda"]
        assert (str(ours.last_backend) if ours.last_backend else None) == last
        dropped = [each.branch for each in branches if ours.name in each.dropped]
        kept = [each.branch for each in branches if not dropped or each.branch < dropped[0]]
        if row["last_driver_branch"] == "ongoing":
            assert not dropped
        elif str(row["last_driver_branch"]) in {str(each.branch) for each in branches}:
            assert str(kept[-1]) == str(row["last_driver_branch"])


@each("cuda_driver", "toolkit_min_cc", "cuda_major")
def test_the_oldest_architecture_of_a_toolkit(matrix: Matrix, row: Row) -> None:
    floor = tuple(int(each) for each in row["min_cc"].split("."))
    for build in matrix.frameworks["torch"].builds:
        release_of = next((each for each in matrix.backends["cuda"].releases if each.tag == build.tag), None)
        if release_of and release_of.version.major == row["cuda_major"]:
            assert all((int(each[3:-1]), int(each[-1])) >= floor for each in build.archs or ())


@each("cuda_driver", "kernel_module", "arch")
def test_the_kernel_module_of_an_architecture(matrix: Matrix, row: Row) -> None:
    if row["arch"].startswith("Grace Hopper"):
        assert matrix.archs["sm_90"].own_cpu_module == row["required"]
        return
    assert {matrix.archs[name].module for name in of_family(matrix, row["arch"])} == {row["required"]}


@each("nvidia_gpus", "chip", "prefix")
def test_the_architecture_of_each_chip(matrix: Matrix, row: Row) -> None:
    assert matrix.archs[sm(row["cc"])].family == row["arch"]


NAMES = {
    "name contains 'Laptop GPU'": {"GeForce RTX 2050 Laptop GPU": "sm_86", "GeForce RTX 4090 Laptop GPU": "sm_89"},
    "name contains 'with Max-Q Design' or pci.ids name ends in Max-Q / Mobile": {"GeForce RTX 2080 with Max-Q Design": "sm_75"},
    "Quadro / RTX A / RTX Ada laptop parts": {
        "Quadro K1200": "sm_50", "Quadro K2200": "sm_50", "Quadro K620": "sm_50",
        "Quadro K2200M": "sm_50", "Quadro K620M": "sm_50",
        "GeForce GTX 745": "sm_50", "GeForce GTX 750 Ti": "",  # its own row has a second chip, of Kepler
    },
    "GeForce MX": {
        "GeForce MX110": "sm_50", "GeForce MX130": "sm_50", "GeForce MX150": "sm_61", "GeForce MX250": "sm_61",
        "GeForce MX350": "sm_61", "GeForce MX450": "sm_75", "GeForce MX550": "sm_75", "GeForce MX570": "sm_86",
    },
    "GeForce GT 630 / 640 / 720 / 730, GTX 750, GTX 860M": {"GeForce GT 730": "", "GeForce GT 630": "", "GeForce GTX 860M": ""},
}  # fmt: skip


@each("nvidia_gpus", "name_rule", "match")
def test_what_names_mean(row: Row) -> None:
    for name, arch in NAMES[row["match"]].items():
        found = devices.find(name)
        assert (found.ambiguous, "" if found.ambiguous else (found.archs or (found.products[0].arch,))[0]) == (not arch, arch), (
            name
        )


def test_the_image_of_nvidia_that_is_a_choice(matrix: Matrix) -> None:
    container = matrix.schemes["linux-cuda"].container
    assert container is not None
    tags = {
        f"{row['cuda']}-{each}-{os}" for row in rows("cuda_images", "combo_later") for each in row["flavours"] for os in row["os"]
    }
    name, _, text = container.vendor_base.partition(":")
    assert name == "nvidia/cuda"
    assert text in tags
    newest = resolve(matrix, Wish(scheme="linux-cuda")).plan
    assert newest is not None
    assert text.startswith(f"{newest.backend_version}.")


# ---- the CPU -----------------------------------------------------------------------------------------------------


@each("cpu", "torch_index", "os", "arch")
def test_the_index_of_the_cpus_builds(matrix: Matrix, row: Row) -> None:
    where = f"{row['os']}/{row['arch']}"
    ours = [each for each in matrix.frameworks["torch"].builds if each.tag == "cpu" and where in each.platforms]
    if row["arch"] == "s390x":
        assert not ours  # envkit knows no such machine
        return
    for each in ours:
        assert (each.local if each.local is not None else "+cpu") == row["local_version"]
        index = each.index if each.index is not None else matrix.frameworks["torch"].index.replace("{tag}", "cpu")
        assert index == ("pypi" if row["index"] == "PyPI" else row["index"])


@each("cpu", "torch_cpu_index_listing", "platform")
def test_a_listing_of_that_index(matrix: Matrix, row: Row) -> None:
    found = builds(matrix, row["version"], "cpu", platform(row["platform"]))
    assert bool(found) == (row["platform"] != "linux_s390x")
    for build in found:
        # PyPI has 3.10 of it too.
        assert pythons(matrix, row["version"], build) - {"3.10"} == set(row["pythons"])
        if "manylinux" in row["wheel_tag"]:
            assert build.glibc == "2.28"
        if "macosx" in row["wheel_tag"]:
            assert build.macos == "14.0"


@each("cpu", "torch_pypi", "version")
def test_the_pythons_of_pypi(matrix: Matrix, row: Row) -> None:
    assert release(matrix, row["version"]).date == row["date"]
    for field in (field for field in row if field.startswith("pythons_")):
        where = platform(field.removeprefix("pythons_"))
        union: set[str] = set()
        for build in builds(matrix, row["version"], r"cpu|cu\d+", where):
            union |= pythons(matrix, row["version"], build)
        assert set(row[field]) <= union, where
    intel_mac = builds(matrix, row["version"], "cpu", "macos/x86_64")
    assert bool(intel_mac) == ("macosx_10_9_x86_64" in row["wheel_tags"])


def test_the_sizes_that_the_texts_tell(matrix: Matrix) -> None:
    sizes = {row["version"]: row["mb"] for row in rows("cpu", "torch_wheel_size") if "macos_arm64" in row["mb"]}
    assert any(f"{int(sizes['2.15.0']['macos_arm64'] + 0.5)} MB" in text for text in matrix.schemes["macos-cpu"].pros)


# ---- Intel -------------------------------------------------------------------------------------------------------

HARDWARE = {
    "Data Center GPU Max": {"pvc"},
    "Arc A": {"dg2"},
    "Arc B": {"bmg"},
    "Core Ultra MTL": {"mtl-h", "mtl-u"},
    "Core Ultra MTL-H": {"mtl-h"},
    "Core Ultra ARL": {"arl-h", "arl-u", "arl-s"},
    "Core Ultra ARL-H": {"arl-h"},
    "Core Ultra LNL": {"lnl"},
    "Core Ultra PTL": {"ptl"},
}


def listed(names: list[str]) -> list[str]:
    """Systems as the matrix names them: a minor release is part of its release."""
    return sorted({re.sub(r"-sp\d$", "", re.sub(r"^(rhel-\d+)\.\d+$", r"\1", name)) for name in names})


@each("intel", "torch_xpu", "torch")
def test_each_xpu_line(matrix: Matrix, row: Row) -> None:
    ours = [each for each in matrix.frameworks["torch"].builds if line(each.release) == row["torch"] and each.tag == "xpu"]
    if not row["wheels"]:
        assert ours == []
        return
    assert sorted({each for build in ours for each in build.platforms}) == [platform(each) for each in row["platforms"]]
    for build in ours:
        if "hardware" in row:
            assert set(build.archs or ()) == {arch for name in row["hardware"] for arch in HARDWARE[name]}
        client = row.get("os_client_without_arc_b", []) + row.get("os_client", [])
        if client:
            assert sorted(build.systems["other"]) == listed(client)
            assert sorted(build.systems.get("pvc", ())) == listed(row.get("os_datacenter", []))
        if "os_client_without_arc_b" in row:
            assert sorted(build.systems["bmg"]) == listed(row["os_client"])
        if "os_panther_lake" in row:
            assert sorted(build.systems["ptl"]) == listed(row["os_panther_lake"])


@each("intel", "index", "product", "url")
def test_the_indexes_of_xpu(matrix: Matrix, row: Row) -> None:
    ours = [each for each in matrix.frameworks["torch"].builds if each.tag == "xpu"]
    for build in ours:
        index = build.index or matrix.frameworks["torch"].index.replace("{tag}", "xpu")
        early = line(build.release) == "2.5"
        if row["url"] == index:
            assert row["releases"] == [build.release] if early else row["first_release"] == "2.6.0"
            assert (build.published is None) or not early
        assert row["local_version"] == "+xpu"
        assert build.local is None
    assert [platform(each) for each in row["platforms"]] == sorted({each for build in ours for each in build.platforms})
    assert "nightly" not in {part for build in ours for part in (build.index or "").split("/")}


@each("intel", "torch_xpu_python", "torch")
def test_the_pythons_of_xpu(matrix: Matrix, row: Row) -> None:
    for build in builds(matrix, "2.14.1", "xpu", "linux/x86_64") + builds(matrix, "2.14.1", "xpu", "windows/x86_64"):
        assert pythons(matrix, "2.14.1", build) == set(row["pythons"])
    assert (row["os"], row["arch"]) == (["linux", "windows"], ["x86_64"])


@each("intel", "triton_xpu", "torch", "package")
def test_triton_beside_xpu_comes_from_its_index(matrix: Matrix, row: Row) -> None:
    for build in builds(matrix, row["torch"], "xpu", "linux/x86_64") if "torch" in row else ():
        assert build.partners == (row["package"],)


@each("intel", "env", "name")
def test_the_variable_that_hides_cards(matrix: Matrix, row: Row) -> None:
    if row["name"] == "ZE_AFFINITY_MASK":
        assert matrix.backends["xpu"].visible == row["name"]


def test_the_container_of_xpu(matrix: Matrix) -> None:
    row = next(row for row in rows("intel", "container") if row["product"] == "torch XPU")
    container = matrix.schemes["linux-xpu"].container
    assert container is not None
    assert container.run_flags == (row["run_flags"][0],)
    assert container.groups == ("render",)
    assert container.vendor_base in row["images"]


# ---- macOS -------------------------------------------------------------------------------------------------------


def lines_of(text: str) -> Iterator[str]:
    """ "2.0 to 2.5" as its lines."""
    first, _, last = text.partition(" to ")
    for minor in range(int(first.split(".")[1]), int((last or first).split(".")[1]) + 1):
        yield f"2.{minor}"


@each("apple", "mps_runtime_floor", "torch")
def test_the_macos_that_mps_asks_for_at_run_time(matrix: Matrix, row: Row) -> None:
    for minor in lines_of(row["torch"]):
        (build,) = builds(matrix, minor, "mps", "macos/arm64")
        assert build.macos == row["min_macos"]
        read = any(line(each) == minor for each in row["checked_wheels"])
        assert (build.evidence is Evidence.WHEEL_MEASURED) == read


@each("apple", "mps_support", "introduced", "torch")
def test_what_apple_says_of_mps(matrix: Matrix, row: Row) -> None:
    version = row.get("torch", "1.13.1")
    (build,) = builds(matrix, version, "mps", "macos/arm64")
    assert build.macos == row.get("min_macos", row.get("min_macos_first"))


@each("apple", "torch_macos", "version")
def test_each_macos_wheel(matrix: Matrix, row: Row) -> None:
    if row["version"].startswith("1.12"):
        assert row["version"] not in {each.version for each in matrix.frameworks["torch"].releases}
        return
    floors = dict.fromkeys(row["pythons_arm64"], "11.0") if row["wheel_min_macos"] != ["14.0"] else {}
    for name, listed_pythons in row.get("pythons_by_tag", {}).items():
        floors |= dict.fromkeys(listed_pythons, name.split("_")[1] + ".0")
    for which in ("cpu", "mps"):
        (build,) = builds(matrix, row["version"], which, "macos/arm64")
        assert set(row["pythons_arm64"]) <= pythons(matrix, row["version"], build)
        for python in row["pythons_arm64"]:
            floor = build.macos_pythons.get(python, build.macos)
            wheel = Dotted(floors.get(python, "14.0"))
            assert floor == wheel if which == "cpu" else floor is not None and floor >= wheel
    x86 = builds(matrix, row["version"], "cpu", "macos/x86_64")
    assert bool(x86) == ("pythons_x86_64" in row)
    for build in x86:
        assert pythons(matrix, row["version"], build) == set(row["pythons_x86_64"])


# ---- answers -----------------------------------------------------------------------------------------------------


def mac(os_release: str, arch: str = "arm64", *gpus: Gpu, python: str = "3.12.4") -> Facts:
    number = re.sub(r"^macOS (\d+).*", r"macos-\1", os_release)
    there = Machine(os="macos", os_release=os_release, os_id=number, arch=arch, gpus=gpus)
    return Facts(machine=there, python=PythonFacts(version=python))


M2 = Gpu(vendor="apple", name="Apple M2", arch="m2")
RADEON = Gpu(vendor="amd", name="AMD Radeon Pro 5500M", pci_id="1002:7340")
IRIS = Gpu(vendor="intel", name="Intel UHD Graphics 630", pci_id="8086:3e9b")


@pytest.mark.parametrize(
    ("facts_of", "answer"),
    [
        # The newest release whose floor the system reaches: 15 from 2.15 on, 14 from 2.9, 13 from 2.6, 12.3 before.
        (mac("macOS 26.0", "arm64", M2), "macos-mps 2.15.0"),
        (mac("macOS 15.0", "arm64", M2), "macos-mps 2.15.0"),
        (mac("macOS 14.7.1", "arm64", M2), "macos-mps 2.14.1"),
        (mac("macOS 13.6", "arm64", M2), "macos-mps 2.8.0"),
        (mac("macOS 12.3", "arm64", M2), "macos-mps 2.5.1"),
        (mac("macOS 12.2.1", "arm64", M2), ""),
        (mac("macOS 11.7", "arm64", M2), ""),
        # A wheel of one Python may need a newer system than the others.
        (mac("macOS 13.6", "arm64", M2, python="3.13.1t"), ""),
        (mac("macOS 14.0", "arm64", M2, python="3.13.1t"), "macos-mps 2.12.0"),
        # Intel Macs have wheels up to 2.2.2, and no card in them counts.
        (mac("macOS 13.6", "x86_64"), "macos-cpu 2.2.2"),
        (mac("macOS 13.6", "x86_64", IRIS, RADEON), "macos-cpu 2.2.2"),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.machine.os_release} {each.machine.arch} {each.python.version}",
)
def test_macs(matrix: Matrix, facts_of: Facts, answer: str) -> None:
    plan = resolve(matrix, Wish(), facts_of).plan
    assert (f"{plan.scheme} {plan.framework_version}" if plan else "") == answer


def reasons(matrix: Matrix, wish: Wish, there: Facts | None = None) -> set[str]:
    return {answer.reason for each in resolve(matrix, wish, there).judged for answer in each.answers}


def test_a_mac_that_is_too_old_is_told_both_sides(matrix: Matrix) -> None:
    there = mac("macOS 12.6", "arm64", M2)
    assert "on mps, torch 2.14.1 needs macOS 14.0 or newer; this machine runs macOS 12.6" in reasons(
        matrix, Wish(torch="2.14.1"), there
    )
    resolution = resolve(matrix, Wish(torch="2.14.1"), there)
    assert [each.change.text for each in resolution.nearest] == [
        "use torch 2.5.1: --torch 2.5.1",
        "update macOS to 14.0 or newer",
        "use the CPU: --scheme macos-cpu",
    ][: len(resolution.nearest)]


def test_an_intel_mac_is_told_why_it_stays_behind(matrix: Matrix) -> None:
    plan = resolve(matrix, Wish(), mac("macOS 14.1", "x86_64", RADEON)).plan
    assert plan is not None
    assert "torch 2.15.0 was passed over: torch 2.15.0 is published for macos/arm64; this machine is macos/x86_64" in plan.reasons
    assert any(each.startswith("AMD Radeon Pro 5500M") and "is left aside: no scheme of the matrix uses AMD" in each
               for each in plan.reasons)  # fmt: skip
    assert [each.requirement for each in plan.packages] == ["torch==2.2.2", "numpy==1.26.4"]


def test_macos_12_without_its_point_is_not_held_to_be_too_old(matrix: Matrix) -> None:
    there = Facts(machine=Machine(os="macos", os_id="macos-12", arch="arm64", gpus=(M2,)), python=PythonFacts(version="3.11.1"))
    plan = resolve(matrix, Wish(), there).plan
    assert plan is not None
    assert plan.framework_version == "2.5.1"
    assert "on mps, torch 2.5.1 needs macOS 12.3 or newer; which macOS 12 this machine runs is not known" in plan.reasons


@pytest.mark.parametrize(
    ("wish", "answer"),
    [
        (Wish(os="ubuntu-24.04", gpu="Arc B580"), "linux-xpu 2.14.1+xpu supported"),
        (Wish(os="windows-11", gpu="Arc A770"), "windows-xpu 2.14.1+xpu supported"),
        (Wish(os="ubuntu-24.04", gpu="Arc B580", torch="2.7.1"), "linux-xpu 2.7.1+xpu community"),  # Arc B: 24.10 alone
        (Wish(os="ubuntu-24.04", gpu="Arc A770", torch="2.7.1"), "linux-xpu 2.7.1+xpu supported"),
        (Wish(os="windows-10", gpu="Arc A770", torch="2.7.1"), "windows-xpu 2.7.1+xpu supported"),
        (Wish(os="windows-10", gpu="Arc A770", torch="2.9.1"), "windows-xpu 2.9.1+xpu community"),
        (Wish(os="ubuntu-24.04", gpu="ptl", torch="2.12.1"), "linux-xpu 2.12.1+xpu community"),
        (Wish(os="ubuntu-24.04", gpu="ptl", torch="2.11.0"), ""),  # not listed before 2.12
        (Wish(os="ubuntu-24.04", gpu="Arc A770", torch="2.5"), ""),  # the test channel is doubtful
        (Wish(os="ubuntu-24.04", gpu="Arc A770", torch="2.4"), ""),
        (Wish(os="ubuntu-24.04", gpu="tgl"), ""),
        (Wish(os="linux/aarch64", gpu="Arc A770"), ""),
        (Wish(os="wsl2", gpu="Arc A770"), "linux-xpu 2.7.1+xpu supported"),  # WSL2 was listed for 2.7 and, unconfirmed, 2.15
        (Wish(os="wsl2", gpu="Arc B580"), "wsl2-directml 2.4.1 supported"),
        (Wish(os="wsl2", gpu="RTX 4090", driver="528.33"), "wsl2-cuda 2.14.1+cu126 supported"),
        (Wish(os="wsl2", gpu="RTX 4090", driver="528.32", backend="cu126"), ""),
        (Wish(os="wsl2", gpu="RTX 5090", driver="580"), "wsl2-cuda 2.15.0+cu132 supported"),
        (Wish(gpu="GH200", driver="580.65.06"), "linux-cuda 2.15.0+cu132 supported"),
        (Wish(gpu="GB10", driver="580.65.06"), "linux-cuda 2.15.0+cu132 supported"),
        (Wish(gpu="Jetson AGX Thor"), "linux-cuda 2.15.0+cu132 supported"),
        (Wish(gpu="Jetson Orin Nano"), ""),
        (Wish(gpu="Jetson Orin Nano", driver="595.45.04"), "linux-cuda 2.15.0+cu132 community"),
        (Wish(gpu="Jetson Nano"), ""),
        (Wish(gpu="Tesla K80", driver="470.82.01"), "linux-cuda 2.7.1+cu118 supported"),
        (Wish(gpu="Tesla K80", driver="470.82.01", torch="1.13.1"), "linux-cuda 1.13.1+cu117 supported"),
        (Wish(gpu="RTX 3090", driver="450.80.02", torch="1.13.1", python="3.7"), "linux-cuda 1.13.1+cu117 supported"),
        (Wish(gpu="RTX 3090", driver="450.80.01", torch="1.13.1"), ""),
        (
            Wish(gpu="RTX 4090", driver="520.61.05", torch="2.0.1", backend="cu118", python="3.11"),
            "linux-cuda 2.0.1+cu118 supported",
        ),
        (
            Wish(os="windows", gpu="GTX 1080", driver="452.39", torch="1.13.1", backend="cu116"),
            "windows-cuda 1.13.1+cu116 supported",
        ),
        (Wish(scheme="linux-cuda", torch="1.13.1", python="3.11", extras=("torchvision",)), ""),
        (Wish(scheme="linux-cuda", torch="1.13.1", python="3.10", extras=("torchvision",)), "linux-cuda 1.13.1+cu117 supported"),
    ],
    ids=lambda each: each if isinstance(each, str) else f"{each.scheme} {each.os} {each.gpu} {each.driver} {each.torch}".strip(),
)
def test_answers(matrix: Matrix, wish: Wish, answer: str) -> None:
    plan = resolve(matrix, wish).plan
    said = f"{plan.scheme} {plan.framework_package.version} {plan.verdict}" if plan else ""
    assert said == answer


def test_an_office_laptop_gets_the_cpu_and_is_told_why(matrix: Matrix) -> None:
    card = Gpu(vendor="intel", name="Intel Iris Xe Graphics", pci_id="8086:9a49", arch="tgl")
    there = Facts(machine=Machine(os="linux", os_id="ubuntu-24.04", gpus=(card,)), python=PythonFacts(version="3.12.3"))
    plan = resolve(matrix, Wish(), there).plan
    assert plan is not None
    assert plan.scheme == "linux-cpu"
    assert any("is left aside: no scheme of the matrix uses Intel" in each for each in plan.reasons)
    asked = resolve(matrix, Wish(scheme="linux-xpu"), there)
    assert asked.plan is None
    assert any(
        "this machine has Intel Iris Xe Graphics (tgl)" in each for each in reasons(matrix, Wish(scheme="linux-xpu"), there)
    )
    # The graphics of a Core Ultra are what PyTorch lists, so the CPU is not taken unasked.
    ultra = Gpu(vendor="intel", name="Intel Arc Graphics", arch="mtl-h")
    there = Facts(machine=Machine(os="linux", os_id="ubuntu-24.04", gpus=(ultra,)), python=PythonFacts(version="3.12.3"))
    plan = resolve(matrix, Wish(), there).plan
    assert plan is not None
    assert plan.scheme == "linux-xpu"


def test_graphics_of_a_processor_give_way_to_a_card(matrix: Matrix) -> None:
    ultra = Gpu(vendor="intel", name="Intel Arc Graphics", pci_id="8086:7d55", pci_address="0000:00:02.0")
    card = Gpu(vendor="nvidia", name="NVIDIA GeForce RTX 4060 Laptop GPU", arch="sm_89")
    there = Machine(os="linux", os_id="ubuntu-24.04", gpus=(ultra, card), drivers={"nvidia": DriverFacts(kernel="470.256.02")})
    plan = resolve(matrix, Wish(), Facts(machine=there, python=PythonFacts(version="3.11.3"))).plan
    # The old driver holds the card at an older torch, and still the processor's graphics are not what a plan is for.
    assert plan is None or plan.scheme == "linux-cuda"
    asked = resolve(matrix, Wish(scheme="linux-xpu"), Facts(machine=there, python=PythonFacts(version="3.11.3"))).plan
    assert asked is not None
    assert (asked.scheme, asked.accelerator_arch) == ("linux-xpu", "mtl-h")


def test_what_a_prototype_is_called(matrix: Matrix) -> None:
    for name in ("linux-xpu", "windows-xpu"):
        assert matrix.schemes[name].stability == "prototype"
        assert any("prototype" in text for text in matrix.schemes[name].cons)


def test_each_scheme_speaks_both_languages(matrix: Matrix) -> None:
    names = ("linux-cpu", "linux-cuda", "linux-xpu", "macos-cpu", "macos-mps", "windows-cpu", "windows-cuda", "windows-xpu")
    for name in (*names, "wsl2-cuda"):
        scheme = matrix.schemes[name]
        assert scheme.zh, name
        assert scheme.stability, name
        assert scheme.ecosystem, name
        assert scheme.multi_device, name


def test_a_jetson_is_told_what_is_not_known(matrix: Matrix) -> None:
    told = reasons(matrix, Wish(gpu="Jetson Orin Nano"))
    assert (
        "Jetson Orin Nano (sm_87) is a Jetson: whether the driver of its JetPack runs torch 2.15.0+cu132 is not known; "
        "the wheels that NVIDIA makes for it lie on an index of their own, which the matrix does not hold"
    ) in told
    best = resolve(matrix, Wish(gpu="Jetson Orin Nano", accept=(Verdict.SUPPORTED, Verdict.COMMUNITY, Verdict.UNKNOWN))).plan
    assert best is not None
    assert best.verdict is Verdict.UNKNOWN
