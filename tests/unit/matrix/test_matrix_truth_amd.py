"""AMD and DirectML: every row of the collected facts, one by one, against the matrix and the resolver.

A table of the facts that the product makes no use of stands in `UNUSED`, with the reason; nothing is passed over in silence.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from envkit import devices
from envkit.matrix import load
from envkit.model import (
    Answer,
    BackendRelease,
    Build,
    Candidate,
    Dotted,
    Gpu,
    Kind,
    Matrix,
    Os,
    Plan,
    Platform,
    Target,
    Verdict,
    Wish,
)
from envkit.resolve import resolve, rules
from envkit.resolve.target import release_number

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")

Row = dict[str, Any]
ANY = tuple(verdict for verdict in Verdict if verdict is not Verdict.UNSUPPORTED)
V = Dotted

USED = {
    "rocm_releases": {"release", "gpu_os_limit", "user_kernel", "kfd_5x", "policy", "driver", "gpu_added"},
    "amd_gpus": {"gpu", "gfx", "ryzen_official"},
    "torch_rocm": {"torch", "arch_list", "arch_note", "index", "device_extra", "companion", "therock_build", "amd_wheel_example"},
    "rocm_windows": {"pytorch_windows", "windows_feature", "driver_windows", "wsl", "wsl_fact"},
    "rocm_env": {"device", "group", "override", "override_value", "env", "docker_flag", "image", "host"},
    "directml": {"torch_directml", "device", "os", "hardware", "tensorflow", "status", "container", "limit"},
}
UNUSED = {
    "rocm_releases": {
        "meta": "",
        "virtualization": "hosts and guests of SR-IOV: envkit plans for the system that it runs on",
        "install_method": "wheels bring ROCm along; AMD's packages are the business of the driver's role",
        "os_dropped": "point releases; the lists of each ROCm release say the same of the whole ones",
    },
    "amd_gpus": {
        "meta": "",
        "pci": "held to the catalogue of devices",
        "pci_source": "as above",
    },
    "torch_rocm": {
        "meta": "",
        "family": "names of folders of the indexes before 7.14, whose lists of torch releases are not stored",
        "version_format": "only stable releases are in the matrix",
        "builder_image": "how the wheels were made; which patch release they carry is in the notes of the rows",
    },
    "rocm_windows": {"meta": "", "hip_sdk": "the SDK is for C++ programs; the wheels bring their own runtime"},
    "rocm_env": {
        "meta": "",
        "sysfs": "read by the detection of hardware",
        "container_toolkit": "a way to hand over devices beside the plain flags, which serve everywhere",
        "pytorch_tag": "images that bring a torch of their own beside the plan's",
    },
    "directml": {
        "meta": "",
        "directml": "torch-directml brings its own DirectML.dll",
        "onnxruntime_directml": "another framework",
        "windows_ml_ep": "another framework",
    },
}
# Releases whose lists stand in a row of another number: the patch release that the wheels carry, or the last of the line.
TAGS = {
    "rocm5.1.1": "5.1.1", "rocm5.2": "5.2.3", "rocm5.3": "5.3.3", "rocm5.4.2": "5.4.2", "rocm5.5": "5.5.1", "rocm5.6": "5.6.1",
    "rocm5.7": "5.7.1", "rocm6.0": "6.0.2", "rocm6.1": "6.1.2", "rocm6.2": "6.2.4", "rocm6.2.4": "6.2.4", "rocm6.3": "6.3.3",
    "rocm6.4": "6.4.3", "rocm6.4.2": "6.4.2", "rocm7.0": "7.0.2", "rocm7.1": "7.1.1", "rocm7.2": "7.2.1", "rocm7.14": "7.14.0",
    "rocm7.14.0": "7.14.0",
}  # fmt: skip


@lru_cache(maxsize=16)
def facts(name: str) -> Row:
    path = FACTS / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def table(name: str, word: str) -> list[Row]:
    found = facts(name).get(word, [])
    return found if isinstance(found, list) else [found]


def each(name: str, word: str, *fields: str) -> Any:
    """Every row of a table as a case of its own, named by some of its fields."""
    found = table(name, word)
    return pytest.mark.parametrize("row", found, ids=["-".join(str(row.get(field, "")) for field in fields) for row in found])


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def release(matrix: Matrix, tag: str) -> BackendRelease:
    return next(row for row in matrix.backends["rocm"].releases if row.tag == tag)


def builds(matrix: Matrix, tag: str, version: str, platform: str = "linux/x86_64") -> list[Build]:
    """The builds of torch that serve a release on a tag and platform."""
    return [
        build
        for build in matrix.frameworks["torch"].builds
        if build.tag == tag and platform in build.platforms and f"{version}.".startswith(f"{build.release}.")
    ]


def system(text: str) -> str:
    """A system of the facts as the matrix names it: sles-15-sp7 is sles-15, ubuntu-24.04.3 is ubuntu-24.04."""
    found = re.match(r"ubuntu-\d+\.\d+|[a-z]+-\d+", text)
    assert found, text
    return found[0]


def card(name: str) -> Gpu:
    """A card by the name that the facts give it, or by its architecture."""
    found = devices.find(re.sub(r" \(\d+GB\)", "", name))
    if found.kind == "arch":
        return Gpu(vendor="amd", arch=found.archs[0])
    assert found.products, name
    return Gpu(vendor="amd", name=found.products[0].name, arch=found.products[0].arch)


def ask(matrix: Matrix, rule: Callable[..., Answer], tag: str, gpu: Gpu, os: Os = Os.LINUX, **where: Any) -> Answer:
    """What one rule says of a card and a tag on a system, whatever release of torch."""
    platform = Platform(os=os, **where)
    family = "windows" if os is Os.WINDOWS else "linux"
    torch = matrix.frameworks["torch"]
    build = max((b for b in torch.builds if b.tag == tag and f"{family}/x86_64" in b.platforms), key=lambda b: V(b.release))
    scheme = matrix.schemes[f"{os}-rocm"]
    candidate = Candidate(
        scheme=scheme,
        backend=matrix.backends["rocm"],
        backend_release=release(matrix, tag),
        framework=torch,
        release=torch.releases[-1],
        build=build,
        platform=platform,
        python="3.12",
        accelerator=gpu,
    )
    return rule(candidate, Target(platform=platform, accelerators=(gpu,)), matrix, None)


def plan(matrix: Matrix, **wish: Any) -> Plan | None:
    return resolve(matrix, Wish(**wish)).plan


def line(version: str) -> str:
    return ".".join(version.split(".")[:2])


# ---- nothing is passed over --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", USED)
def test_every_table_of_the_facts_is_used_or_listed(name: str) -> None:
    tables = {word for word in facts(name) if not word.startswith("_")}
    assert USED[name] | set(UNUSED[name]) == tables
    assert not USED[name] & set(UNUSED[name])
    assert all(reason for word, reason in UNUSED[name].items() if word != "meta")


# ---- releases ----------------------------------------------------------------------------------------------------


@each("rocm_releases", "release", "version")
def test_each_rocm_release(matrix: Matrix, row: Row) -> None:
    tags = [tag for tag, version in TAGS.items() if version == row["version"]]
    if not tags:
        # No index serves wheels of it, or the row of its line carries a later patch release.
        exact = [each for each in matrix.backends["rocm"].releases if str(each.version) == row["version"]]
        assert all(each.archs is None and "not been read" in each.note for each in exact) or not row.get("os"), row["version"]
        return
    for tag in tags:
        ours = release(matrix, tag)
        assert (ours.lists or ours.version) == V(row["version"])
        assert set(ours.platforms or ()) == {system(name) for name in row["os"]} & set(matrix.platforms)
        assert {system(name) for name in row["os"]} - set(matrix.platforms) <= {"centos-8"}
        official, old = set(row["gfx_official"]), set(row.get("gfx_deprecated", ()))
        assert set(ours.archs or ()) == official - old
        assert set(ours.deprecated_archs) == old
        assert not set(row.get("gfx_listed_unsupported", ())) & set(ours.archs or ())
        for window in row.get("kmd_compatible", ()):
            assert within(ours, window.removesuffix(".x")), window
        shipped = row.get("kmd_shipped", "")
        if shipped and not shipped.startswith("2"):
            assert within(ours, shipped)


@pytest.mark.parametrize("tag", TAGS)
def test_kernels_of_each_release(matrix: Matrix, tag: str) -> None:
    listed = {row["version"]: row.get("kernels", {}) for row in table("rocm_releases", "release")}
    kernels = listed[TAGS[tag]] or listed["7.2.0"]  # those of 7.2.1 are not stored
    theirs: dict[str, set[str]] = {}
    for name, texts in kernels.items():
        if system(name) in matrix.platforms:
            theirs.setdefault(system(name), set()).update(m[0] for text in texts if (m := re.match(r"\d+\.\d+", text)))
    ours = {name: {str(each) for each in lines} for name, lines in release(matrix, tag).kernels.items()}
    assert ours == {name: found for name, found in theirs.items() if found}


def within(release: BackendRelease, driver: str) -> bool:
    low, high, have = release.min_driver[Os.LINUX], release.max_driver[Os.LINUX], V(driver)
    return low <= have and (have <= high or line(driver) == str(high))


@each("rocm_releases", "user_kernel", "kmd")
def test_each_window_of_a_driver(matrix: Matrix, row: Row) -> None:
    drivers = [text.removesuffix(".x") for text in row["kmd"].split(" and ")]
    spaces = {text.removesuffix(".x") for text in row["user_space"]}
    whole = row["source"].startswith("ROCm/rocm-install-on-linux")  # the table of all, as it was with ROCm 7.0
    for ours in matrix.backends["rocm"].releases:
        if Os.LINUX not in ours.max_driver or V(line(str(ours.version))) > V("7.0" if whole else "7.2"):
            continue
        for driver in drivers:
            if (ours.tag, driver) == ("rocm7.0", "6.2"):
                continue  # 7.0.0 and 7.0.1 still have it, 7.0.2, which the wheels carry, no more
            if line(str(ours.version)) in spaces:
                assert within(ours, driver), (ours.tag, driver)
            elif whole and driver != "30.10" and V(line(str(ours.version))) >= V("5.5"):
                assert not within(ours, driver), (ours.tag, driver)


@each("rocm_releases", "kfd_5x", "kfd")
def test_each_pair_that_was_tested(matrix: Matrix, row: Row) -> None:
    lines = {line(text) for text in row["tested_user_space"]}
    for ours in matrix.backends["rocm"].releases:
        if ours.max_driver and line(str(ours.version)) in lines:
            assert within(ours, row["kfd"]), ours.tag


@each("rocm_releases", "driver", "version")
def test_each_driver_has_its_branch(matrix: Matrix, row: Row) -> None:
    branches = {str(each.branch): each for each in matrix.backends["rocm"].branches}
    ours = branches[line(row["version"])]
    if "kernel_module_version" in row:
        assert row["kernel_module_version"] in ours.numbers
        assert release_number(matrix, "amd", row["kernel_module_version"], told=False)[0] == str(ours.branch)
    assert release_number(matrix, "amd", row["version"], told=True)[0] == row["version"]
    carried = [tag for tag, version in TAGS.items() if version == row["rocm"]]
    assert all(within(release(matrix, tag), row["version"]) for tag in carried)


def test_drivers_by_older_numbers(matrix: Matrix) -> None:
    for row in table("rocm_releases", "release"):
        shipped = row.get("kmd_shipped", "")
        if shipped.startswith("2"):
            assert release_number(matrix, "amd", shipped, told=True)[0] == line(row["version"])


def test_the_policy(matrix: Matrix) -> None:
    policy = table("rocm_releases", "policy")[0]
    assert "30.10" in policy["driver_numbering"]
    assert "PCIe atomics" in policy["cpu"]
    assert any("PCIe atomics" in text for text in matrix.schemes["linux-rocm"].needs)


# ---- which card on which system ----------------------------------------------------------------------------------


def tags_between(text: str) -> list[str]:
    first, _, last = text.partition("-")
    return [tag for tag, version in TAGS.items() if V(first) <= V(version) <= V(last or first)]


def listed_on(matrix: Matrix, tag: str, gpu: Gpu, name: str) -> bool:
    """Whether the vendor promises a card on a system, by the list of systems alone."""
    if name in ("windows", "wsl"):
        os = Os.WSL2 if name == "wsl" else Os.WINDOWS
        return ask(matrix, rules.os_release, tag, gpu, os).kind is Kind.FITS
    return ask(matrix, rules.os_release, tag, gpu, release=name).kind is Kind.FITS


@each("rocm_releases", "gpu_os_limit", "rocm", "gpus")
def test_each_limit_of_a_card(matrix: Matrix, row: Row) -> None:
    tags = tags_between(row["rocm"])
    if row["rocm"] in ("7.1.0", "7.2.0"):
        tags = [tag for tag in ("rocm7.1", "rocm7.2") if V(row["rocm"]) <= V(TAGS[tag])]
    if row["rocm"] == "7.14.0":
        tags = ["rocm7.14.0"]
    assert tags
    alone = " only with th" in row.get("notes", "") or "Linux only with" in row.get("notes", "")
    for tag in tags:
        listed = set(release(matrix, tag).platforms or ())
        for gpu in cards_of(row["gpus"]):
            if "os_families" in row:
                families = set(row["os_families"])
                own = {name for name in listed if name.rpartition("-")[0] in families}
                # Ryzen APUs: the driver of Ubuntu 24.04 and 26.04 alone is named.
                named = {"ubuntu-22.04"} if "inbox kernel on Ubuntu 26.04" in row.get("notes", "") else set()
                assert {name for name in listed if listed_on(matrix, tag, gpu, name)} == own - named, (tag, gpu)
                for word in ("windows", "wsl"):
                    assert listed_on(matrix, tag, gpu, word) == (word in families), (tag, gpu, word)
            elif row.get("os", [""])[0].startswith("all listed"):
                assert all(listed_on(matrix, tag, gpu, name) for name in listed)
            elif alone or "single-node" in row.get("notes", "") or row.get("notes") == "Debian: only 12":
                assert all(listed_on(matrix, tag, gpu, system(name)) for name in row["os"] if system(name) in listed)
            elif row.get("notes") == "both Debian releases":
                assert all(listed_on(matrix, tag, gpu, name) for name in ("debian-12", "debian-13"))
            elif "os" in row:
                theirs = {system(name) for name in row["os"]} & listed
                theirs |= {"oracle-8"} & listed if "plus Oracle Linux 8.9" in row.get("notes", "") else set()
                # What a later release added, or another footnote: Azure Linux for MI300X and V710.
                assert {name for name in listed if listed_on(matrix, tag, gpu, name)} >= theirs, (tag, gpu)
                if tag not in ("rocm7.1", "rocm7.2"):
                    assert {name for name in listed if listed_on(matrix, tag, gpu, name)} == theirs, (tag, gpu)
            for name in row.get("os_added", ()):
                assert listed_on(matrix, tag, gpu, system(name)), (tag, gpu, name)
            for name in row.get("os_excluded", ()):
                assert not listed_on(matrix, tag, gpu, system(name)), (tag, gpu, name)
        if alone:
            others = {"Instinct MI210", "Radeon RX 7900 XTX", "Radeon PRO W6800"}
            for name in {system(text) for text in row["os"]} & listed:
                assert not any(listed_on(matrix, tag, card(other), name) for other in others), (tag, name)


def cards_of(names: list[str]) -> Iterator[Gpu]:
    for name in names:
        if name == "gfx1101 except V710":
            yield card("gfx1101")
            continue
        yield card(name)


def test_a_card_with_kernels_of_its_own(matrix: Matrix) -> None:
    row = next(r for r in table("rocm_releases", "gpu_os_limit") if "22.04.5 kernel 6.8 HWE" in str(r.get("os")))
    assert row["gpus"] == ["MI300X"]
    for kernel, kind in (("5.15.0", Kind.FITS), ("6.8.0", Kind.COMMUNITY), ("6.5.0", Kind.COMMUNITY)):
        where = {"release": "ubuntu-22.04", "kernel": V(kernel)}
        assert ask(matrix, rules.os_kernel, "rocm6.2.4", card("MI300X"), **where).kind is kind
        assert ask(matrix, rules.os_kernel, "rocm6.2.4", card("MI210"), **where).kind is Kind.FITS


@each("rocm_releases", "gpu_added", "rocm", "products")
def test_each_card_is_listed_from_its_release_on(matrix: Matrix, row: Row) -> None:
    promises = {card: each for each in matrix.backends["rocm"].promises for card in each.cards}
    for text in row["products"].split(", "):
        found = devices.find(text)
        if not found.products or found.products[0].name not in promises:
            assert row["gfx"] in ("gfx1151", "gfx1152"), text  # processors, which go by their architecture
            continue
        assert promises[found.products[0].name].first == V(row["rocm"]), text


@each("amd_gpus", "gpu", "name")
def test_each_product(matrix: Matrix, row: Row) -> None:
    found = devices.find(re.sub(r" \(\d+GB\)", "", row["name"]))
    gpu = card(row["name"]) if found.products else Gpu(vendor="amd", arch=row["gfx"])
    if row["gfx"] == "unknown" or "Conflict" in row.get("notes", ""):
        assert found.products == () or found.products[0].arch == ""
        return
    assert gpu.arch == row["gfx"]
    official, old = [row.get(word, []) for word in ("linux_official", "linux_deprecated")]
    for tag, version in TAGS.items():
        ours = release(matrix, tag)
        answer = ask(matrix, rules.vendor_support, tag, gpu)
        lists = V(version)
        deprecated = bool(old) and V(old[0]) <= lists <= V(old[1])
        listed = bool(official) and V(official[0]) <= lists <= V(official[1])
        if found.products and row["gfx"] in promised(matrix):
            assert (answer.kind is Kind.FITS) == (listed or deprecated), tag
            assert ("deprecated" in answer.reason) == deprecated, tag
        else:
            assert (answer.kind is Kind.FITS) == (row["gfx"] in (ours.archs or ())), tag
    for os, word in ((Os.WINDOWS, "windows_pytorch"), (Os.WSL2, "wsl")):
        kinds = {ask(matrix, rule, "rocm7.14.0", gpu, os).kind for rule in (rules.os_release, rules.gpu_code)}
        # The facts give the list by architecture: 7.14.0 names gfx targets and one product that is not among them.
        theirs = "7.14.0" in row.get(word, ())
        if theirs:
            assert kinds == {Kind.FITS}
        elif row["gfx"] not in facts("rocm_windows")["pytorch_windows"][4]["gfx_official"] or "V710" in row["name"]:
            assert kinds != {Kind.FITS}


def promised(matrix: Matrix) -> set[str]:
    return {devices.find(name).products[0].arch for row in matrix.backends["rocm"].promises for name in row.cards}


@each("amd_gpus", "gfx", "gfx")
def test_each_target(matrix: Matrix, row: Row) -> None:
    gfx, arch = row["gfx"], matrix.archs[row["gfx"]]
    assert arch.vendor == "amd"
    extra = row.get("pip_extra", "").removeprefix("device-")
    (own,) = (b for b in builds(matrix, "rocm7.14.0", "2.12.0") if b.index)
    if extra and gfx not in ("gfx90c", "gfx1250"):  # these are not in the list of extras of the index itself
        assert gfx in {*(own.archs or ()), *own.maybe_archs}
    first, last = row.get("pytorch_index_wheels", ("", ""))
    for build in matrix.frameworks["torch"].builds:
        if build.tag.startswith("rocm") and build.index is None and build.archs is not None and V(build.release) <= V("2.12"):
            there = bool(first) and V(first) <= V(build.release) <= V(last)
            # gfx942 came with ROCm 6.0: torch 2.3 has it on that index alone.
            assert (gfx in build.archs) == there or (gfx, build.tag) == ("gfx942", "rocm5.7"), build.tag
    assert arch.graphics != row["arch"].startswith("CDNA")


@each("amd_gpus", "ryzen_official", "gfx")
def test_each_ryzen(matrix: Matrix, row: Row) -> None:
    gpu = Gpu(vendor="amd", arch=row["gfx"])
    assert V(row["last_listed"]) == V("7.14.0")
    assert ask(matrix, rules.vendor_support, "rocm7.14.0", gpu).kind is Kind.FITS
    assert ask(matrix, rules.vendor_support, "rocm7.2", gpu).kind is Kind.COMMUNITY
    assert listed_on(matrix, "rocm7.14.0", gpu, "ubuntu-24.04")
    assert not listed_on(matrix, "rocm7.14.0", gpu, "rhel-10")
    for word, listed in (("windows", row.get("windows")), ("wsl", row.get("wsl"))):
        assert listed is None or listed_on(matrix, "rocm7.14.0", gpu, word) == listed


# ---- torch -------------------------------------------------------------------------------------------------------


@each("torch_rocm", "torch", "version")
def test_each_torch_for_rocm(matrix: Matrix, row: Row) -> None:
    listed = next(each for each in matrix.frameworks["torch"].releases if each.version == row["version"])
    for rocm, url in zip(row["rocm"], row["index_urls"], strict=True):
        (build,) = (b for b in builds(matrix, f"rocm{rocm}", row["version"]) if b.index is None)
        assert (build.published is True) == row["confirmed"]
        if "python" in row and row["confirmed"]:
            ours = set(build.pythons or listed.pythons)
            experimental = {"3.13t"} if "3.13t wheels were experimental" in row.get("notes", "") else set()
            assert ours - experimental == set(row["python"]), rocm
        assert matrix.frameworks["torch"].index.replace("{tag}", build.tag) == url
        assert build.local is None  # +rocm and the number
        if "triton_package" in row:
            assert row["triton_package"] in build.partners


@each("torch_rocm", "arch_list", "torch", "rocm")
def test_each_list_of_targets(matrix: Matrix, row: Row) -> None:
    (build,) = (b for b in builds(matrix, f"rocm{row['rocm']}", row["torch"]) if b.index is None)
    assert set(build.archs or ()) == set(row["gfx"])


@each("torch_rocm", "arch_note", "gfx")
def test_each_note_on_targets(matrix: Matrix, row: Row) -> None:
    public = [
        b for b in matrix.frameworks["torch"].builds if b.tag.startswith("rocm") and b.index is None and b.archs is not None
    ]
    for gfx in row["gfx"].split(", "):
        holding = {b.release for b in public if gfx in (b.archs or ())}
        if gfx == "gfx1103":
            assert holding == set()
            assert {b.release for b in public if gfx in b.maybe_archs} == {"2.13"}
        elif gfx == "gfx906":
            assert "rocm6.3" in matrix.archs[gfx].note
        else:
            assert holding == set(), gfx
            assert gfx not in ("gfx940", "gfx941") or gfx not in matrix.archs


INDEXES_PASSED_OVER = {
    "pytorch-nightly": "nightlies", "pytorch-test": "release candidates", "therock-nightly-per-family": "nightlies",
    "therock-staging-per-family": "nightlies", "therock-nightly-multi-arch": "nightlies", "therock-prerelease": "candidates",
    "therock-dev": "builds of developers", "repo-amd-nightly": "nightlies", "repo-amd-rc": "candidates",
    "repo-amd-bkc": "builds of developers", "repo-amd-dev": "builds of developers",
    "therock-stable-per-family": "previews up to 7.13; which torch releases they hold is not stored",
}  # fmt: skip


@each("torch_rocm", "index", "id")
def test_each_index(matrix: Matrix, row: Row) -> None:
    torch = matrix.frameworks["torch"]
    pattern = re.compile(re.escape(row["url"]).replace(r"<X\.Y>", r"[\d.]+").replace(r"<X\.Y\[\.Z\]>", r"[\d.]+") + r"\Z")
    used = {(b.index or torch.index).replace("{tag}", b.tag) for b in torch.builds if b.tag.startswith("rocm")}
    assert any(pattern.match(url) for url in used) == (row["id"] not in INDEXES_PASSED_OVER)


@each("torch_rocm", "device_extra", "extra")
def test_each_device_package(matrix: Matrix, row: Row) -> None:
    (own,) = (b for b in builds(matrix, "rocm7.14.0", "2.12.0") if b.index)
    assert own.extras == "device-{arch}"
    if row["gfx"] == "all supported":
        made = plan(matrix, scheme="linux-rocm", backend="rocm7.14.0", os="ubuntu-24.04", gpu="gfx1100")
        assert made is not None
        assert made.framework_package.extras == "device-gfx1100"
        assert {"amd-torch-device-gfx1100", "rocm-sdk-device-gfx1100", "rocm", "triton"} <= set(made.partners)
        return
    assert row["gfx"] in {*(own.archs or ()), *own.maybe_archs}


@each("torch_rocm", "companion", "torch")
def test_each_companion_of_amd(matrix: Matrix, row: Row) -> None:
    for ours in matrix.frameworks["torch"].releases:
        if line(ours.version) == row["torch"] and "a" not in ours.version:
            for name in ("torchvision", "torchaudio"):
                assert any(line(text) == row[name] for text in ours.companions[name]), (ours.version, name)


@each("torch_rocm", "therock_build", "channel", "platform")
def test_each_stable_build_of_amd(matrix: Matrix, row: Row) -> None:
    if not row["channel"].startswith("stable"):
        return  # candidates and nightlies
    word = "windows/x86_64" if row["platform"].startswith("windows") else "linux/x86_64"
    for version in row["torch"]:
        (build,) = (b for b in builds(matrix, "rocm7.14.0", version, word) if b.index)
        assert build.published
        assert list(build.pythons or ()) == row["python"]
        radeon = {"gfx1100", "gfx1151"} <= set(build.archs or ())
        assert radeon or version == "2.10.0"  # which AMD lists for Instinct alone
    if "wsl" in row["platform"]:
        made = plan(matrix, os="wsl2", gpu="RX 7900 XT")
        assert made is not None
        assert (made.scheme, made.framework_package.version) == ("wsl2-rocm", f"{row['torch'][0]}+rocm7.14.0")


@each("torch_rocm", "amd_wheel_example", "rocm", "platform", "torch")
def test_each_wheel_that_was_seen(matrix: Matrix, row: Row) -> None:
    word = "windows/x86_64" if row["platform"] == "win_amd64" else "linux/x86_64"
    if row["torch"] == "wheel content":
        (build,) = builds(matrix, "rocm7.2.1", "2.9.1", word)
        assert set(build.archs or ()) == set(row["gfx"])
        return
    version, _, local = row["torch"].partition("+")
    (build,) = builds(matrix, f"rocm{row['rocm']}", version, word)
    assert (build.local if build.local is not None else f"+{build.tag}") == f"+{local}"
    assert (build.index or matrix.frameworks["torch"].index.replace("{tag}", build.tag)) == row["url"]
    if "triton" in row:
        assert any(name.replace("-", "_") in row["triton"].replace("-", "_") for name in build.partners)


# ---- Windows and WSL2 --------------------------------------------------------------------------------------------


@each("rocm_windows", "pytorch_windows", "rocm")
def test_each_way_on_windows(matrix: Matrix, row: Row) -> None:
    ours = {b.tag: b for b in matrix.frameworks["torch"].builds if "windows/x86_64" in b.platforms and b.tag.startswith("rocm")}
    tag = {"7.14.0": "rocm7.14.0", "10.0": "rocm10.0.0"}.get(row["rocm"], f"rocm{row['rocm']}")
    if row["rocm"] in ("7.1.1", "7.2", "TheRock nightlies"):
        assert tag not in ours  # its torch is not known; nightlies are no releases
        return
    build = ours[tag]
    assert build.index == row["index"]
    if "torch" in row:
        assert f"{build.release}{build.local if build.local is not None else ''}".startswith(row["torch"].partition("+rocm")[0])
    if "python" in row:
        pythons = build.pythons or next(r for r in matrix.frameworks["torch"].releases if r.version == build.release).pythons
        assert list(pythons) == row["python"]
    wanted = row.get("gfx_official") or row.get("wheel_gfx")
    assert (set(build.archs) if build.archs is not None else None) == (set(wanted) if wanted else None)
    if row["rocm"] == "10.0":
        assert build.published is None
    if "driver_adrenalin" in row:
        assert release(matrix, tag).min_driver[Os.WINDOWS] == V(row["driver_adrenalin"])
        assert row["driver_oem"] in release(matrix, tag).note
    if row.get("gfx_exceptions"):
        for name in ("Radeon PRO V710", "MI300X", "RX 6800 XT"):
            made = plan(matrix, os="windows", gpu=name)
            assert made is None or made.scheme == "windows-directml", name
            assert plan(matrix, scheme="windows-rocm", gpu=name) is None, name


def test_instinct_on_windows_is_no_directml_by_stealth(matrix: Matrix) -> None:
    found = resolve(matrix, Wish(os="windows", gpu="MI300X"))
    assert found.plan is None
    told = {a.reason for each in found.judged for a in each.answers if each.candidate.scheme.name == "windows-directml"}
    assert "Instinct MI300X (gfx942) is made to compute alone; whether DirectML reaches it is not known" in told


@each("rocm_windows", "windows_feature", "feature")
def test_each_feature_on_windows(matrix: Matrix, row: Row) -> None:
    scheme = matrix.schemes["windows-rocm"]
    lacks = {
        "triton": "Triton",
        "FBGEMM GenAI": "FBGEMM GenAI",
        "apex": "apex",
        "torchcodec": "torchcodec",
        "JAX packages": "JAX",
    }
    named = any(lacks.get(row["feature"], "-") in text for text in scheme.cons)
    assert named == (row["feature"] in lacks)
    assert (row["windows"] == "supported") == (row["feature"] in ("torch", "aotriton", "torchaudio", "torchvision"))


@each("rocm_windows", "driver_windows", "rocm")
def test_each_driver_on_windows(matrix: Matrix, row: Row) -> None:
    floors = {row.tag: row.min_driver.get(Os.WINDOWS) for row in matrix.backends["rocm"].releases}
    if row["rocm"] == "7.14.0":
        assert floors["rocm7.14.0"] == V(row["adrenalin"])
    else:  # a third party's word, or none: no floor is made of it
        assert {tag for tag, floor in floors.items() if floor} == {"rocm7.14.0"}


@each("rocm_windows", "wsl", "rocm")
def test_each_way_in_wsl2(matrix: Matrix, row: Row) -> None:
    scheme = matrix.schemes["wsl2-rocm"]
    assert all(any(version in text for text in scheme.needs) for version in row.get("ubuntu", ()))
    if "gfx_official" in row:
        for gfx in matrix.archs:
            if matrix.archs[gfx].vendor == "amd":
                made = plan(matrix, os="wsl2", gpu=gfx)
                ours = made is not None and made.scheme == "wsl2-rocm"
                assert ours == (gfx in row["gfx_official"]), gfx
        assert plan(matrix, scheme="wsl2-rocm", gpu="Radeon PRO V710") is None
    elif row["rocm"] == "6.4.2":
        (build,) = builds(matrix, "rocm6.4.2", "2.6.0")
        assert build.published is None  # a community note is all that names it
        assert "libhsa-runtime64.so" in build.note
    else:
        found = resolve(matrix, Wish(scheme="wsl2-rocm", gpu="RX 7900 XT", backend="rocm7.2", accept=ANY)).plan
        assert found is not None
        assert found.verdict is Verdict.UNKNOWN


@each("rocm_windows", "wsl_fact", "topic")
def test_each_fact_on_wsl2(matrix: Matrix, row: Row) -> None:
    scheme = matrix.schemes["wsl2-rocm"]
    texts = " ".join((*scheme.needs, *scheme.cons, *scheme.cannot, scheme.no_container))
    if row["topic"] == "kernel seen":
        return  # one machine's
    if row["topic"] == "library path":
        assert scheme.env["LD_LIBRARY_PATH"] in row["fact"]
        return
    word = {
        "GPU device node": "/dev/dxg", "required host library": "/usr/lib/wsl/lib/libdxcore.so", "bridge library": "librocdxg.so",
        "variable": "HSA_ENABLE_DXG_DETECTION=1", "memory": "capped at that of the virtual machine",
        "conflict": "libhsa-runtime64-1 and libhsakmt1", "virtual machine type": "use WSL 1",
    }[row["topic"]]  # fmt: skip
    assert word in texts


# ---- settings, devices and images --------------------------------------------------------------------------------


@each("rocm_env", "override_value", "gfx")
def test_each_setting(matrix: Matrix, row: Row) -> None:
    ours = {each.arch: each for each in matrix.backends["rocm"].overrides}
    if row["value"] in ("none", "unknown") or row.get("acts_as") == row["gfx"]:
        assert row["gfx"] not in ours
        return
    setting = ours[row["gfx"]]
    assert (setting.acts_as, dict(setting.env)) == (row["acts_as"], {"HSA_OVERRIDE_GFX_VERSION": row["value"]})
    assert setting.os == (Os.LINUX,)
    if "broken from ROCm 5.3 on" in row["notes"]:
        assert setting.last_backend == V("5.2")


def test_the_setting_is_never_for_gfx1103(matrix: Matrix) -> None:
    for torch in [each.version for each in matrix.frameworks["torch"].releases]:
        for judged in resolve(matrix, Wish(scheme="linux-rocm", gpu="gfx1103", torch=torch, accept=ANY)).judged:
            assert not any("HSA_OVERRIDE_GFX_VERSION" in answer.env for answer in judged.answers)


def test_the_rule_of_settings(matrix: Matrix) -> None:
    row = table("rocm_env", "override")[0]
    assert row["platform"] == "linux"
    major, *rest = next(iter(matrix.backends["rocm"].overrides[0].env.values())).split(".")
    assert 0 <= int(major) <= 63
    assert all(0 <= int(each) <= 255 for each in rest)
    assert plan(matrix, os="windows", gpu="RX 6700 XT", backend="rocm", accept=(Verdict.OVERRIDE,)) is None


VARIABLES = {"HIP_VISIBLE_DEVICES": "backend", "HSA_ENABLE_DXG_DETECTION": "scheme"}


@each("rocm_env", "env", "name")
def test_each_variable(matrix: Matrix, row: Row) -> None:
    """Variables for tuning and debugging are a person's own; two are the product's business."""
    assert (row["name"] == matrix.backends["rocm"].visible) == (VARIABLES.get(row["name"]) == "backend")
    named = any(row["name"] in text for text in matrix.schemes["wsl2-rocm"].needs)
    assert named == (VARIABLES.get(row["name"]) == "scheme")


def test_two_amd_devices_are_numbered_as_the_bus_has_them(matrix: Matrix) -> None:
    from envkit.model import Facts, Machine

    inside = Gpu(vendor="amd", arch="gfx1036", pci_id="1002:164e", pci_address="0000:6b:00.0")
    outside = Gpu(vendor="amd", arch="gfx1100", pci_id="1002:744c", pci_address="0000:03:00.0")
    for gpus in ((inside, outside), (outside, inside)):
        made = resolve(matrix, Wish(), Facts(machine=Machine(os="linux", gpus=gpus))).plan
        assert made is not None
        assert (made.accelerator_arch, dict(made.env)) == ("gfx1100", {"HIP_VISIBLE_DEVICES": "0"})
    first = replace(inside, pci_address="0000:01:00.0")
    made = resolve(matrix, Wish(), Facts(machine=Machine(os="linux", gpus=(outside, first)))).plan
    assert made is not None
    assert dict(made.env) == {"HIP_VISIBLE_DEVICES": "1"}


@each("rocm_env", "device", "path")
def test_each_device_node(matrix: Matrix, row: Row) -> None:
    container = matrix.schemes["linux-rocm"].container
    assert container is not None
    if row["platform"] == "wsl2":
        assert any("/dev/dxg" in text for text in matrix.schemes["wsl2-rocm"].needs)
        return
    node = re.sub(r"/(renderD|card).*", "", row["path"])
    assert f"--device={node}" in container.run_flags
    assert set(row["groups"]) <= set(container.groups)


@each("rocm_env", "group", "name")
def test_each_group(matrix: Matrix, row: Row) -> None:
    container = matrix.schemes["linux-rocm"].container
    assert container is not None
    assert row["name"] in container.groups


@each("rocm_env", "docker_flag", "flag")
def test_each_flag_of_docker(matrix: Matrix, row: Row) -> None:
    container = matrix.schemes["linux-rocm"].container
    assert container is not None
    assert (row["flag"] in container.run_flags) == row["need"].startswith("required")


@each("rocm_env", "image", "repository", "tag_pattern")
def test_each_image(matrix: Matrix, row: Row) -> None:
    container = matrix.schemes["linux-rocm"].container
    assert container is not None
    repository, _, tag = container.vendor_base.partition(":")
    if row["repository"] == repository:
        assert tag in row["example"]


@each("rocm_env", "host", "topic", "fact")
def test_each_fact_on_hosts(matrix: Matrix, row: Row) -> None:
    linux, wsl = matrix.schemes["linux-rocm"], matrix.schemes["wsl2-rocm"]
    if row["topic"] == "CPU":
        assert any("Zen 1" in text and "Haswell" in text for text in linux.needs)
    elif row["topic"] == "kernel parameter":
        assert any("iommu=pt" in text for text in linux.needs)
    elif row["topic"] == "Strix Halo kernel":
        assert "6.18.4" in matrix.archs["gfx1151"].note
    elif row["topic"] == "Ryzen on Ubuntu":
        where = {"release": "ubuntu-24.04", "kernel": V("6.14.0")}
        assert ask(matrix, rules.os_kernel, "rocm7.14.0", Gpu(vendor="amd", arch="gfx1150"), **where).kind is Kind.FITS
        assert ask(matrix, rules.os_kernel, "rocm7.14.0", card("MI300X"), **where).kind is Kind.COMMUNITY
    elif row["topic"] == "distribution packages":
        assert any("libhsa-runtime64-1" in text for text in wsl.cons)
    else:
        assert row["topic"] in ("PyTorch API", "install layout", "tools")  # the detection's and the probe's


# ---- DirectML ----------------------------------------------------------------------------------------------------


@each("directml", "torch_directml", "version")
def test_each_torch_directml(matrix: Matrix, row: Row) -> None:
    pythons = row.get("pythons") or row["pythons_by_platform"]["linux_x86_64"]
    ours = next(each for each in matrix.libraries["torch-directml"] if each.version == row["version"])
    assert list(ours.pythons) == pythons
    found = [b for b in matrix.frameworks["torch"].builds if b.tag == "directml" and b.release == row.get("torch")]
    pins = {b.packages["torch-directml"].version for b in found}
    if not row["pins_torch"]:
        assert found == []  # for which torch it is, it does not say
        return
    newest = max(
        (each for each in table("directml", "torch_directml") if each.get("torch") == row["torch"]), key=lambda each: each["date"]
    )
    assert pins == {newest["version"]}
    if row is newest:
        assert {b.packages["torchvision"].version for b in found} == {row["torchvision"]}
        assert {b.pythons for b in found} == {tuple(pythons)}
        assert {platform for b in found for platform in b.platforms} == {"linux/x86_64", "windows/x86_64"}


@each("directml", "os", "package", "os")
def test_each_system_of_directml(matrix: Matrix, row: Row) -> None:
    floor = matrix.backends["directml"].releases[0].min_kernel
    if row["package"].startswith("DirectML"):
        assert row["redistributable_since"]  # the packages bring one along
    elif row["os"] == "windows":
        assert floor[Os.WINDOWS] == V(f"10.0.{row['min_build']}")
    else:  # inside WSL2 the kernel is Linux's, so its build cannot be asked
        assert Os.WSL2 not in floor
        assert row["package"] != "torch-directml" or any(
            str(row["min_build"]) in text for text in matrix.schemes["wsl2-directml"].needs
        )


@each("directml", "hardware", "package", "os", "vendor", "family")
def test_each_card_of_directml(matrix: Matrix, row: Row) -> None:
    if row["vendor"] != "any":
        assert row["vendor"].lower() in matrix.backends["directml"].serves
    for name in ("Radeon RX 580", "Arc A770", "GTX 1060 6GB"):
        made = plan(matrix, scheme="windows-directml", gpu=name)
        assert made is not None
        assert made.scheme == "windows-directml"


@each("directml", "tensorflow", "package", "version")
def test_each_tensorflow(matrix: Matrix, row: Row) -> None:
    (build,) = matrix.frameworks["tensorflow"].builds
    (ours,) = matrix.frameworks["tensorflow"].releases
    newest = table("directml", "tensorflow")[-1]
    assert build.packages["tensorflow-directml-plugin"].version == newest["version"]
    if row["package"] == "tensorflow-directml":
        assert V(row["pythons"][-1]) < V("3.8")  # older than the Pythons that environments are made with
    elif row is newest:
        assert row["requires"] == f"tensorflow-cpu=={ours.version}"
        assert list(ours.pythons) == row["pythons"]


@each("directml", "status", "package")
def test_each_state(matrix: Matrix, row: Row) -> None:
    name = "windows-directml-tensorflow" if row["package"].startswith("tensorflow") else "windows-directml"
    assert matrix.schemes[name].stability == ("ended" if "paused" in row["status"] else "maintenance")


@each("directml", "device", "package")
def test_each_device_of_directml(matrix: Matrix, row: Row) -> None:
    names = {"torch-directml": "windows-directml", "tensorflow-directml-plugin": "windows-directml-tensorflow"}
    if row["package"] in names:
        scheme = matrix.schemes[names[row["package"]]]
        assert (scheme.device or matrix.backends["directml"].device) == row["string"].partition(":")[0]


@each("directml", "container", "os")
def test_the_container_of_directml(matrix: Matrix, row: Row) -> None:
    text = matrix.schemes["wsl2-directml"].no_container
    assert row["device_node"] in text
    assert row["mount"] in text
    assert f"LD_LIBRARY_PATH={row['env']['LD_LIBRARY_PATH']}" in text


@each("directml", "limit", "product", "text")
def test_each_limit_of_directml(matrix: Matrix, row: Row) -> None:
    if row["product"] == "torch-directml":
        assert plan(matrix, scheme="windows-directml", gpu="Radeon RX 580", torch="2.4.1", python="3.13") is None
        assert plan(matrix, scheme="windows-directml", gpu="Radeon RX 580", torch="2.4.1", python="3.12") is not None
    elif row["product"] == "tensorflow-directml-plugin":
        assert plan(matrix, scheme="windows-directml-tensorflow", gpu="Radeon RX 580", python="3.11") is None
    elif row["product"] == "WSL":
        assert any("NPU" in text for text in matrix.schemes["windows-directml"].cannot)
    else:
        assert row["product"] == "onnxruntime"  # another framework


def test_llamacpp_on_rocm(matrix: Matrix) -> None:
    made = plan(matrix, scheme="linux-rocm-llamacpp", gpu="RX 5700 XT")
    assert made is not None
    assert made.verdict is Verdict.COMMUNITY
    assert made.container is not None
    assert made.container.base.startswith("ghcr.io/ggml-org/llama.cpp:full-rocm-b")
    assert plan(matrix, scheme="linux-rocm-llamacpp", gpu="Radeon RX 580") is None
    flags = {row["name"]: row["cmake_flag"] for row in table("others", "llama_cpp_backend")}
    assert any(f"-D{flags['HIP']}=ON" in text for text in matrix.schemes["linux-rocm-llamacpp"].install)
