"""Each rule at its borders, over hand-made rows: nothing here depends on the matrix that is shipped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from envkit.model import (
    Answer,
    Architecture,
    Backend,
    BackendRelease,
    Build,
    Candidate,
    Dotted,
    DriverBranch,
    DriverFacts,
    Framework,
    FrameworkRelease,
    Gpu,
    Kind,
    LibraryRelease,
    Matrix,
    Offers,
    Os,
    OsRelease,
    OverrideSetting,
    Platform,
    Scheme,
    Target,
    Wheel,
)
from envkit.resolve import RULES, rules

V = Dotted


def arch(name: str, vendor: str = "nvidia", **more: Any) -> Architecture:
    return Architecture(name=name, vendor=vendor, family=more.pop("family", "Family"), sources=(f"arch-{name}",), **more)


ARCHS = {
    each.name: each
    for each in (
        arch("sm_53", runs_code_of=("sm_53",)),
        arch("sm_61", last_backend=V("12.9"), module="proprietary"),
        arch("sm_75", min_backend=V("10.0"), module="either"),
        arch("sm_80", min_backend=V("11.0"), module="either"),
        arch("sm_86", min_backend=V("11.1"), module="either"),
        arch("sm_87", runs_code_of=("sm_87",), exact_until=V("13.2")),
        arch("sm_89", min_backend=V("11.8"), module="either"),
        arch("sm_90", min_backend=V("11.8"), module="either"),
        arch("sm_100", min_backend=V("12.8"), module="open"),
        arch("sm_103", min_backend=V("12.9"), module="open"),
        arch("sm_110", min_backend=V("13.0"), runs_code_of=("sm_101", "sm_110"), module="open"),
        arch("sm_120", min_backend=V("12.8"), module="open", family="Blackwell"),
        arch("sm_121", min_backend=V("12.9"), module="open"),
        arch("gfx1030", "amd"),
        arch("gfx1031", "amd"),
        arch("gfx1100", "amd"),
    )
}

CUDA = Backend(
    name="cuda",
    vendor="nvidia",
    title="CUDA",
    device="cuda",
    code_rule="cuda",
    modules=("nvidia",),
    releases=(
        BackendRelease(
            version=V("11.8"),
            tag="cu118",
            min_driver={Os.LINUX: V("450.80.02"), Os.WINDOWS: V("452.39")},
            toolkit_driver={Os.LINUX: V("520.61.05"), Os.WINDOWS: V("520.06")},
            sources=("cuda",),
        ),
        BackendRelease(
            version=V("12.8"),
            tag="cu128",
            min_driver={Os.LINUX: V("525.60.13"), Os.WINDOWS: V("528.33")},
            toolkit_driver={Os.LINUX: V("570.26"), Os.WINDOWS: V("570.65")},
            sources=("cuda",),
        ),
        BackendRelease(version=V("13.0"), tag="cu130", min_driver={Os.LINUX: V("580"), Os.WINDOWS: V("580")}, sources=("cuda",)),
    ),
    branches=(
        DriverBranch(branch=V("565")),
        DriverBranch(branch=V("570"), max_backend=V("12.8")),
        DriverBranch(branch=V("575"), max_backend=V("12.9")),
        DriverBranch(branch=V("580"), max_backend=V("13.0")),
        DriverBranch(branch=V("590"), max_backend=V("13.1"), dropped=("sm_61",), sources=("branches",)),
    ),
)
ROCM = Backend(
    name="rocm",
    vendor="amd",
    title="ROCm",
    device="cuda",
    code_rule="exact",
    releases=(
        BackendRelease(
            version=V("6.4"),
            tag="rocm6.4",
            min_driver={Os.LINUX: V("6.1")},
            max_driver={Os.LINUX: V("30.10")},
            archs=("gfx1100",),
            deprecated_archs=("gfx1030",),
            platforms=("ubuntu-24.04.2", "rhel-9"),
            sources=("rocm",),
        ),
    ),
    overrides=(
        OverrideSetting(
            arch="gfx1031", acts_as="gfx1030", env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, os=(Os.LINUX,), sources=("override",)
        ),
    ),
)
CPU = Backend(
    name="cpu", vendor="", title="CPU", device="cpu", code_rule="any", releases=(BackendRelease(version=V("0"), tag="cpu"),)
)
DML = Backend(
    name="directml",
    vendor="",
    title="DirectML",
    device="privateuseone",
    code_rule="any",
    releases=(BackendRelease(version=V("1"), tag="directml"),),
)
NPU = Backend(
    name="npu",
    vendor="huawei",
    title="Ascend CANN",
    device="npu",
    code_rule="listed",
    releases=(
        BackendRelease(version=V("8.2.RC1"), tag="cann8.2.rc1", archs=("ascend910b",), sources=("cann",)),
        BackendRelease(
            version=V("8.5.0"),
            tag="cann8.5.0",
            archs=("ascend910b", "ascend910c"),
            tested_driver={Os.LINUX: "25.5.0"},
            sources=("cann",),
        ),
        BackendRelease(version=V("9.1.0-beta.3"), tag="cann9.1.0-beta.3", sources=("cann",)),
    ),
)
OPENVINO = Backend(
    name="openvino",
    vendor="intel",
    title="OpenVINO",
    device="GPU",
    code_rule="any",
    without_card="CPU",
    releases=(BackendRelease(version=V("0"), tag="openvino"),),
)
BACKENDS = {each.name: each for each in (CUDA, ROCM, CPU, DML, NPU, OPENVINO)}


def scheme(name: str) -> Scheme:
    os, backend = name.split("-")
    return Scheme(
        name=name, os=Os(os), backend=backend, framework="torch", task="train", title="", for_whom="", sources=("scheme",)
    )


SCHEMES = {
    name: scheme(name)
    for name in (
        "linux-cuda",
        "linux-rocm",
        "linux-cpu",
        "linux-npu",
        "linux-openvino",
        "windows-cuda",
        "windows-directml",
        "windows-cpu",
    )
}
BUILD = Build(
    release="2.8",
    tag="cu128",
    platforms=("linux/x86_64", "windows/x86_64"),
    archs=("sm_75", "sm_80", "sm_90"),
    sources=("build",),
)
RELEASE = FrameworkRelease(
    version="2.8.0",
    pythons=("3.9", "3.10", "3.11", "3.12", "3.13", "3.13t"),
    companions={"torchvision": ("0.23.1", "0.23.0")},
    requires={"numpy": "<2"},
    sources=("release",),
)
TORCH = Framework(
    name="torch",
    package="torch",
    index="https://index.example/whl/{tag}",
    default_packages=("numpy",),
    companions=("torchvision",),
    releases=(RELEASE,),
    builds=(BUILD,),
)
MATRIX = Matrix(
    updated="2026-11-30",
    sources={},
    platforms={
        "ubuntu-18.04": OsRelease(id="ubuntu-18.04", os=Os.LINUX, name="Ubuntu 18.04", glibc=V("2.27")),
        "ubuntu-20.04": OsRelease(id="ubuntu-20.04", os=Os.LINUX, name="Ubuntu 20.04", glibc=V("2.31")),
        "ubuntu-22.04": OsRelease(id="ubuntu-22.04", os=Os.LINUX, name="Ubuntu 22.04", glibc=V("2.35")),
        "debian-10": OsRelease(id="debian-10", os=Os.LINUX, name="Debian 10", glibc=V("2.28")),
    },
    archs=ARCHS,
    backends=BACKENDS,
    frameworks={"torch": TORCH},
    libraries={
        "numpy": (LibraryRelease(version="2.3.0", pythons=("3.13",)), LibraryRelease(version="1.26.4", pythons=("3.11", "3.12"))),
        "torchvision": (LibraryRelease(version="0.23.1", pythons=("3.12",)),),
    },
    schemes=SCHEMES,
)
LINUX = Platform(os=Os.LINUX, release="ubuntu-24.04", glibc=V("2.39"))
WINDOWS = Platform(os=Os.WINDOWS, libc="")
WSL = Platform(os=Os.WSL2)


def gpu(code: str, **more: Any) -> Gpu:
    return Gpu(arch=code, vendor=more.pop("vendor", "amd" if code.startswith("gfx") else "nvidia"), **more)


def target(
    *cards: Gpu, platform: Platform = LINUX, driver: str = "", license: str = "", known: bool = True, **more: Any
) -> Target:
    drivers = {vendor: DriverFacts(kernel=driver, license=license) for vendor in ("nvidia", "amd")}
    return Target(platform=platform, accelerators=cards if known else None, drivers=drivers, **more)


def candidate(
    name: str = "linux-cuda", tag: str = "cu128", *, python: str = "3.12", card: Gpu | None = None, **build: Any
) -> Candidate:
    backend = BACKENDS[SCHEMES[name].backend]
    fields: Mapping[str, Any] = {
        "release": "2.8",
        "tag": tag,
        "platforms": BUILD.platforms,
        "archs": BUILD.archs,
        "sources": ("build",),
    }
    release = build.pop("of", RELEASE)
    return Candidate(
        scheme=SCHEMES[name],
        backend=backend,
        backend_release=next(each for each in backend.releases if each.tag == tag),
        framework=TORCH,
        release=release,
        build=Build(**{**fields, **build}),
        platform=LINUX,
        python=python,
        accelerator=card or Gpu(),
    )


def ask(rule: Any, made: Candidate, there: Target, offers: Offers | None = None) -> Answer:
    answer = rule(made, there, MATRIX, offers)
    assert isinstance(answer, Answer)
    assert answer.rule == rule.__name__.replace("_", "-")
    assert answer.reason or answer.kind is Kind.FITS, "an answer that is not a plain yes says why"
    return answer


def test_every_rule_is_listed_and_answers_under_its_own_name() -> None:
    defined = {
        value
        for value in vars(rules).values()
        if callable(value)
        and not value.__name__.startswith("_")
        and getattr(value, "__annotations__", {}).get("return") == "Answer"
        and len(value.__annotations__) == 5
    }
    assert defined == set(RULES)
    assert len({rule.__name__ for rule in RULES}) == len(RULES)  # type: ignore[attr-defined]


# ---- system ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "platform", "kind"),
    [
        ("linux-cuda", LINUX, Kind.FITS),
        ("linux-cuda", WSL, Kind.FITS),
        ("linux-cuda", WINDOWS, Kind.REJECTED),
        ("windows-cuda", WINDOWS, Kind.FITS),
        ("windows-cuda", WSL, Kind.REJECTED),
        ("windows-cuda", LINUX, Kind.REJECTED),
    ],
)
def test_os_family(name: str, platform: Platform, kind: Kind) -> None:
    assert ask(rules.os_family, candidate(name), target(platform=platform)).kind is kind


def test_os_family_names_both_sides() -> None:
    answer = ask(rules.os_family, candidate("windows-cuda"), target())
    assert answer.reason == "windows-cuda is for Windows; this machine runs Linux"
    assert answer.sources == ("scheme",)


@pytest.mark.parametrize(
    ("release", "kind"),
    [
        ("ubuntu-24.04", Kind.FITS),  # the vendor's list is finer: 24.04.2
        ("rhel-9", Kind.FITS),
        ("rhel-9.4", Kind.FITS),  # the vendor's list is coarser
        ("rhel-10", Kind.COMMUNITY),
        ("ubuntu-22.04", Kind.COMMUNITY),
        ("debian-12", Kind.COMMUNITY),
        ("", Kind.FITS),  # not known
    ],
)
def test_a_system_off_the_vendors_list_is_community_never_rejected(release: str, kind: Kind) -> None:
    platform = Platform(os=Os.LINUX, release=release)
    made = candidate("linux-rocm", "rocm6.4")
    answer = ask(rules.os_release, made, target(gpu("gfx1100"), platform=platform))
    assert answer.kind is kind
    if kind is Kind.COMMUNITY:
        assert answer.reason == f"{release} is not on AMD's list of systems for ROCm 6.4"


@pytest.mark.parametrize(
    ("have", "floor", "kind"),
    [
        ("macos-13", "14.0", Kind.REJECTED),
        ("macos-14", "14.0", Kind.FITS),
        ("macos-15.1", "14.0", Kind.FITS),
        ("", "14.0", Kind.FITS),
    ],
)
def test_macos_floor(have: str, floor: str, kind: Kind) -> None:
    platform = Platform(os=Os.MACOS, release=have, arch="arm64", libc="")
    assert ask(rules.os_release, candidate("linux-cpu", "cpu", macos=V(floor)), target(platform=platform)).kind is kind


@pytest.mark.parametrize(
    ("have", "floor", "kind"),
    [
        ("2.27", "2.28", Kind.REJECTED),
        ("2.28", "2.28", Kind.FITS),
        ("2.9", "2.28", Kind.REJECTED),  # by number, not by text
        ("2.39", "2.28", Kind.FITS),
        ("2.17", None, Kind.FITS),
        (None, "2.28", Kind.FITS),
    ],
)
def test_glibc_floor_is_inclusive(have: str | None, floor: str | None, kind: Kind) -> None:
    platform = Platform(os=Os.LINUX, release="ubuntu-18.04", glibc=V(have) if have else None)
    answer = ask(rules.glibc, candidate(glibc=V(floor) if floor else None), target(platform=platform))
    assert answer.kind is kind
    if kind is Kind.REJECTED:
        assert answer.reason == f"torch 2.8.0+cu128 needs glibc 2.28; ubuntu-18.04 has {have}"
        assert answer.change is not None
        assert (answer.change.kind, answer.change.value) == ("os", "ubuntu-20.04/x86_64")
        assert answer.change.text == "move to Ubuntu 20.04 or newer (glibc 2.31)"


def test_musl_has_no_wheels_whatever_its_version() -> None:
    platform = Platform(os=Os.LINUX, release="alpine-3.20", libc="musl")
    answer = ask(rules.glibc, candidate(glibc=V("2.28")), target(platform=platform))
    assert answer.kind is Kind.REJECTED
    assert answer.reason == "torch 2.8.0+cu128 is built for glibc; alpine-3.20 uses musl, for which there are no wheels"


def test_glibc_is_no_matter_on_windows() -> None:
    assert ask(rules.glibc, candidate(glibc=V("2.28")), target(platform=WINDOWS)).kind is Kind.FITS


@pytest.mark.parametrize(
    ("platform", "kind"),
    [
        (LINUX, Kind.FITS),
        (Platform(os=Os.WSL2), Kind.FITS),
        (Platform(os=Os.LINUX, arch="aarch64"), Kind.REJECTED),
        (Platform(os=Os.WSL2, arch="aarch64"), Kind.REJECTED),
        (Platform(os=Os.WINDOWS, arch="arm64"), Kind.REJECTED),
    ],
)
def test_cpu_architecture(platform: Platform, kind: Kind) -> None:
    answer = ask(rules.cpu_arch, candidate(), target(platform=platform))
    assert answer.kind is kind
    if kind is Kind.REJECTED:
        assert answer.reason.endswith(f"linux/x86_64, windows/x86_64; this machine is {platform.family}/{platform.arch}")


# ---- the build ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("published", "kind"), [(True, Kind.FITS), (None, Kind.UNKNOWN), (False, Kind.REJECTED)])
def test_published(published: bool | None, kind: Kind) -> None:
    assert ask(rules.published, candidate(published=published), target()).kind is kind


def test_a_withdrawn_release_is_rejected() -> None:
    withdrawn = FrameworkRelease(version="2.8.0", pythons=("3.12",), yanked=True)
    assert ask(rules.published, candidate(of=withdrawn), target()).kind is Kind.REJECTED


@pytest.mark.parametrize(
    ("python", "of_build", "kind", "nearest"),
    [
        ("3.9", None, Kind.FITS, ""),
        ("3.8", None, Kind.REJECTED, "3.9"),
        ("3.13t", None, Kind.FITS, ""),
        ("3.12t", None, Kind.REJECTED, "3.12"),
        ("3.14", None, Kind.REJECTED, "3.13"),
        ("3.13", ("3.10", "3.11"), Kind.REJECTED, "3.11"),
        ("3.1", None, Kind.REJECTED, "3.9"),
        ("3.12", (), Kind.UNKNOWN, ""),
    ],
)
def test_python(python: str, of_build: tuple[str, ...] | None, kind: Kind, nearest: str) -> None:
    answer = ask(rules.python, candidate(python=python, pythons=of_build), target())
    assert answer.kind is kind
    assert (answer.change.value if answer.change else "") == nearest


def test_python_reason_names_both_sides() -> None:
    answer = ask(rules.python, candidate(python="3.8"), target())
    assert answer.reason == "torch 2.8.0+cu128 has wheels for Python 3.9 to 3.13 and 3.13t; this is Python 3.8"


@pytest.mark.parametrize(
    ("python", "kind", "nearest"),
    [("3.12", Kind.FITS, ""), ("3.13", Kind.REJECTED, "3.12"), ("3.10", Kind.REJECTED, "3.11")],
)
def test_a_library_pin_must_exist_for_the_python(python: str, kind: Kind, nearest: str) -> None:
    # numpy 2.3.0 has wheels for 3.13, but this torch wants numpy<2.
    answer = ask(rules.libraries, candidate(python=python), target())
    assert answer.kind is kind
    assert (answer.change.value if answer.change else "") == nearest


@pytest.mark.parametrize(
    ("extras", "python", "kind"),
    [
        ((), "3.12", Kind.FITS),
        (("torchvision",), "3.12", Kind.FITS),
        (("torchvision",), "3.11", Kind.FITS),
        (("torchaudio",), "3.12", Kind.REJECTED),
    ],
)
def test_companions(extras: tuple[str, ...], python: str, kind: Kind) -> None:
    # torchvision 0.23.1 has no wheels for 3.11; of 0.23.0 the matrix does not say, so it is taken.
    assert ask(rules.companions, candidate(python=python), target(extras=extras)).kind is kind


# ---- the accelerator ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "tag", "cards", "kind"),
    [
        ("linux-cuda", "cu128", ("sm_90",), Kind.FITS),
        ("linux-cuda", "cu128", ("gfx1100",), Kind.REJECTED),
        ("linux-cuda", "cu128", ("gfx1100", "sm_90"), Kind.FITS),
        ("linux-cuda", "cu128", (), Kind.REJECTED),
        ("linux-cuda", "cu128", None, Kind.FITS),
        ("linux-rocm", "rocm6.4", ("sm_90",), Kind.REJECTED),
        ("linux-cpu", "cpu", (), Kind.FITS),
        ("windows-directml", "directml", ("gfx1100",), Kind.FITS),
        ("windows-directml", "directml", (), Kind.REJECTED),
    ],
)
def test_gpu_vendor(name: str, tag: str, cards: tuple[str, ...] | None, kind: Kind) -> None:
    there = target(known=False) if cards is None else target(*map(gpu, cards))
    assert ask(rules.gpu_vendor, candidate(name, tag), there).kind is kind


def test_gpu_vendor_names_both_sides() -> None:
    answer = ask(rules.gpu_vendor, candidate("linux-rocm", "rocm6.4"), target(gpu("sm_90", name="NVIDIA H100")))
    assert answer.reason == "linux-rocm needs an AMD GPU; this machine has NVIDIA H100 (sm_90)"
    assert (
        ask(rules.gpu_vendor, candidate(), target()).reason == "linux-cuda needs an NVIDIA GPU; this machine has no accelerator"
    )


@pytest.mark.parametrize(
    ("name", "tag", "cards", "asked", "kind"),
    [
        ("linux-cpu", "cpu", (), (), Kind.FITS),
        ("linux-cpu", "cpu", ("sm_90",), (), Kind.REJECTED),
        ("linux-cpu", "cpu", ("sm_90",), ("linux-cpu",), Kind.FITS),
        ("linux-cuda", "cu128", ("sm_90",), (), Kind.FITS),
        ("windows-directml", "directml", ("sm_90",), (), Kind.REJECTED),  # windows-cuda has code for it
        ("windows-directml", "directml", ("sm_90",), ("windows-directml",), Kind.FITS),
        ("windows-directml", "directml", ("sm_61",), (), Kind.FITS),  # nothing of NVIDIA's here runs on it
        ("windows-directml", "directml", ("gfx1100",), (), Kind.FITS),  # no scheme of AMD's own on Windows here
    ],
)
def test_the_lesser_way_is_taken_only_when_asked_for(
    name: str, tag: str, cards: tuple[str, ...], asked: tuple[str, ...], kind: Kind
) -> None:
    platform = WINDOWS if name.startswith("windows") else LINUX
    assert ask(rules.asked_for, candidate(name, tag), target(*map(gpu, cards), platform=platform, asked=asked)).kind is kind


@pytest.mark.parametrize(
    ("card", "codes", "ptx", "tag", "kind"),
    [
        ("sm_80", ("sm_80",), (), "cu128", Kind.FITS),
        ("sm_86", ("sm_80",), (), "cu128", Kind.FITS),  # same major, lower minor
        ("sm_89", ("sm_80", "sm_90"), (), "cu128", Kind.FITS),
        ("sm_80", ("sm_86",), (), "cu128", Kind.REJECTED),  # same major, higher minor
        ("sm_90", ("sm_80", "sm_86"), (), "cu128", Kind.REJECTED),  # another major
        ("sm_120", ("sm_75", "sm_90"), (), "cu128", Kind.REJECTED),
        ("sm_120", ("sm_75", "sm_90"), ("sm_90",), "cu128", Kind.COMMUNITY),  # PTX crosses the border
        ("sm_75", ("sm_80",), ("sm_80",), "cu128", Kind.REJECTED),  # but only upwards
        ("sm_90", ("sm_90a",), (), "cu128", Kind.FITS),  # made for 9.0 alone, and this is it
        ("sm_100", ("sm_90a",), (), "cu128", Kind.REJECTED),
        ("sm_103", ("sm_100a",), (), "cu128", Kind.REJECTED),  # a feature variant goes no further
        ("sm_103", ("sm_100f",), (), "cu128", Kind.FITS),  # a family variant does, inside its family
        ("sm_103", ("sm_100",), ("sm_100a",), "cu128", Kind.FITS),
        ("sm_120", ("sm_100",), ("sm_100a",), "cu128", Kind.REJECTED),  # PTX of a feature variant is not portable
        ("sm_121", ("sm_120",), (), "cu128", Kind.FITS),
        ("sm_87", ("sm_80", "sm_86"), (), "cu128", Kind.REJECTED),  # Tegra: only code made for it
        ("sm_87", ("sm_87",), (), "cu128", Kind.FITS),
        ("sm_89", ("sm_87",), (), "cu128", Kind.REJECTED),  # and that code runs nowhere else
        ("sm_53", ("sm_50",), (), "cu118", Kind.REJECTED),
        ("sm_110", ("sm_100", "sm_101"), (), "cu130", Kind.FITS),
        ("sm_110", ("sm_100", "sm_120"), (), "cu130", Kind.REJECTED),
        ("sm_61", None, (), "cu128", Kind.UNKNOWN),
        ("sm_61", None, (), "cu130", Kind.REJECTED),  # CUDA 12.9 was the last that made code for it
        ("sm_130", ("sm_120",), (), "cu128", Kind.UNKNOWN),  # newer than all the matrix knows
        ("sm_130", ("sm_130",), (), "cu128", Kind.FITS),
        ("sm_52", ("sm_75",), (), "cu128", Kind.REJECTED),  # no row, but older than all code
        ("", ("sm_75",), (), "cu128", Kind.UNKNOWN),
    ],
)
def test_gpu_code(card: str, codes: tuple[str, ...] | None, ptx: tuple[str, ...], tag: str, kind: Kind) -> None:
    made = candidate(tag=tag, archs=codes, ptx=ptx)
    assert ask(rules.gpu_code, made, target(gpu(card, vendor="nvidia"))).kind is kind


@pytest.mark.parametrize(("version", "runs"), [("13.1", False), ("13.2", True), ("13.4", True)])
def test_a_tegra_border_is_lifted_by_a_later_toolkit(version: str, runs: bool) -> None:
    assert bool(rules.native_code(ARCHS, "sm_87", "cuda", ("sm_80", "sm_86"), V(version))) is runs


def test_gpu_code_says_which_code_runs() -> None:
    answer = ask(rules.gpu_code, candidate(), target(gpu("sm_86", name="RTX A5000")))
    assert answer.reason == "torch 2.8.0+cu128 holds sm_80 code, which runs on RTX A5000 (sm_86)"


@pytest.mark.parametrize(
    ("card", "platform", "kind"),
    [
        ("gfx1030", LINUX, Kind.FITS),
        ("gfx1031", LINUX, Kind.SETTING),
        ("gfx1031", WSL, Kind.REJECTED),  # the setting is for Linux alone
        ("gfx1100", LINUX, Kind.REJECTED),  # exact code only
        ("gfx1032", LINUX, Kind.REJECTED),  # no setting known
    ],
)
def test_exact_code_and_settings(card: str, platform: Platform, kind: Kind) -> None:
    made = candidate("linux-rocm", "rocm6.4", archs=("gfx906", "gfx1030"))
    answer = ask(rules.gpu_code, made, target(gpu(card), platform=platform))
    assert answer.kind is kind
    if kind is Kind.SETTING:
        assert answer.env == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
        assert answer.change is not None
        assert answer.change.text == "set HSA_OVERRIDE_GFX_VERSION=10.3.0: --accept override"


@pytest.mark.parametrize(
    ("cards", "kind"),
    [
        (("gfx1031", "gfx1031"), Kind.SETTING),
        (("gfx1031", "gfx1030"), Kind.SETTING),  # it acts as what the other one is
        (("gfx1031", "gfx1032"), Kind.REJECTED),  # for which the small matrix knows no setting
        (("gfx1031", "gfx1100"), Kind.REJECTED),  # which would be told that it is a gfx1030
    ],
)
def test_a_setting_holds_for_every_card_of_the_machine(cards: tuple[str, ...], kind: Kind) -> None:
    made = candidate("linux-rocm", "rocm6.4", archs=("gfx1030", "gfx1100"))
    assert ask(rules.gpu_code, made, target(*(gpu(card) for card in cards))).kind is kind


def test_every_card_is_checked_by_itself() -> None:
    made = candidate(archs=("sm_75", "sm_90"))
    answer = ask(rules.gpu_code, made, target(gpu("sm_90"), gpu("sm_80", name="A100")))
    assert answer.kind is Kind.REJECTED
    assert "A100" in answer.reason


@pytest.mark.parametrize(
    ("name", "tag", "card", "kind"),
    [
        ("linux-rocm", "rocm6.4", "gfx1100", Kind.FITS),
        ("linux-rocm", "rocm6.4", "gfx1030", Kind.FITS),  # deprecated is still supported
        ("linux-rocm", "rocm6.4", "gfx1031", Kind.COMMUNITY),
        ("linux-cuda", "cu128", "sm_90", Kind.FITS),
    ],
)
def test_vendor_support(name: str, tag: str, card: str, kind: Kind) -> None:
    assert ask(rules.vendor_support, candidate(name, tag), target(gpu(card))).kind is kind


def test_community_builds_say_so() -> None:
    assert ask(rules.vendor_support, candidate(vendor_supported=False), target(gpu("sm_90"))).kind is Kind.COMMUNITY


# ---- the driver --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "tag", "platform", "kind"),
    [
        ("525.60.13", "cu128", LINUX, Kind.FITS),
        ("525.60.12", "cu128", LINUX, Kind.REJECTED),
        ("525.105.17", "cu128", LINUX, Kind.FITS),
        ("528.32", "cu128", WINDOWS, Kind.REJECTED),
        ("528.33", "cu128", WINDOWS, Kind.FITS),
        ("528.32", "cu128", WSL, Kind.REJECTED),  # WSL2 has the Windows driver
        ("579.99.99", "cu130", LINUX, Kind.REJECTED),  # a floor that is only a branch
        ("580", "cu130", LINUX, Kind.FITS),
        ("580.65.06", "cu130", WINDOWS, Kind.FITS),
        ("450.80.02", "cu118", LINUX, Kind.FITS),
        ("450.80.01", "cu118", LINUX, Kind.REJECTED),
        ("", "cu130", LINUX, Kind.FITS),  # not known
    ],
)
def test_driver_floor_is_inclusive(driver: str, tag: str, platform: Platform, kind: Kind) -> None:
    answer = ask(rules.driver_floor, candidate(tag=tag), target(gpu("sm_90"), driver=driver, platform=platform))
    assert answer.kind is kind
    assert answer.need_driver is not None


def test_driver_floor_names_both_sides_and_the_change() -> None:
    answer = ask(rules.driver_floor, candidate(tag="cu130"), target(gpu("sm_90"), driver="570.26"))
    assert answer.reason == "driver 570.26 is older than 580, which CUDA 13.0 wheels need on Linux"
    assert answer.sources == ("cuda",)
    assert answer.change is not None
    assert (answer.change.kind, answer.change.text, answer.change.value) == ("driver", "update the driver to 580 or newer", "580")


@pytest.mark.parametrize(
    ("card", "driver", "platform", "kind", "need"),
    [
        ("sm_120", "570.26", LINUX, Kind.FITS, "570.26"),
        ("sm_120", "570.25.99", LINUX, Kind.REJECTED, "570.26"),
        ("sm_120", "570.64", WINDOWS, Kind.REJECTED, "570.65"),
        ("sm_120", "570.65", WINDOWS, Kind.FITS, "570.65"),
        ("sm_121", "574.99", LINUX, Kind.REJECTED, "575"),  # no release row for 12.9: the branch that came with it
        ("sm_121", "575.51.03", LINUX, Kind.FITS, "575"),
        ("sm_110", "580", LINUX, Kind.FITS, "580"),
        ("sm_89", "520.61.05", LINUX, Kind.FITS, "520.61.05"),
        ("sm_89", "515.43.04", LINUX, Kind.REJECTED, "520.61.05"),
        ("sm_75", "450.80.02", LINUX, Kind.FITS, ""),  # older than all that the matrix knows
        ("sm_120", "", LINUX, Kind.FITS, "570.26"),
    ],
)
def test_a_driver_must_know_the_card_whatever_the_wheel_holds(
    card: str, driver: str, platform: Platform, kind: Kind, need: str
) -> None:
    answer = ask(rules.driver_knows_gpu, candidate(), target(gpu(card), driver=driver, platform=platform))
    assert answer.kind is kind
    assert str(answer.need_driver or "") == need


@pytest.mark.parametrize(
    ("card", "tag", "driver", "kind"),
    [
        ("sm_120", "cu128", "570.25", Kind.REJECTED),  # only PTX serves: the toolkit's own driver, not the tag's floor
        ("sm_120", "cu128", "570.26", Kind.FITS),
        ("sm_90", "cu128", "525.60.13", Kind.FITS),  # real code serves: minor-version compatibility holds
        ("sm_120", "cu130", "579", Kind.REJECTED),  # own driver known as a branch only
        ("sm_120", "cu130", "580", Kind.FITS),
    ],
)
def test_translating_takes_the_toolkits_own_driver(card: str, tag: str, driver: str, kind: Kind) -> None:
    made = candidate(tag=tag, archs=("sm_90",), ptx=("sm_90",))
    assert ask(rules.driver_translates, made, target(gpu(card), driver=driver)).kind is kind


@pytest.mark.parametrize(
    ("card", "driver", "kind"),
    [
        ("sm_61", "580.126.09", Kind.FITS),
        ("sm_61", "589.99", Kind.FITS),
        ("sm_61", "590", Kind.REJECTED),
        ("sm_61", "590.44.01", Kind.REJECTED),
        ("sm_61", "595.71.05", Kind.REJECTED),
        ("sm_75", "595.71.05", Kind.FITS),
        ("sm_61", "", Kind.FITS),
    ],
)
def test_driver_branches_that_dropped_a_card(card: str, driver: str, kind: Kind) -> None:
    answer = ask(rules.driver_dropped, candidate(), target(gpu(card), driver=driver))
    assert answer.kind is kind
    if kind is Kind.REJECTED:
        assert answer.reason == f"driver {driver} no longer drives sm_61: branch 590 dropped it, 580 is the last that does"
        assert answer.change is not None
        assert (answer.change.text, answer.change.value) == ("use a 580 driver", "580")


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        ("6.3.60303", Kind.FITS),
        ("30.10", Kind.FITS),
        ("30.10.2", Kind.FITS),
        ("30.20", Kind.COMMUNITY),
        ("31.40", Kind.COMMUNITY),
        ("", Kind.FITS),
    ],
)
def test_kernel_driver_window(driver: str, kind: Kind) -> None:
    assert ask(rules.driver_window, candidate("linux-rocm", "rocm6.4"), target(gpu("gfx1100"), driver=driver)).kind is kind


def test_a_backend_without_a_floor_for_wsl2_is_not_known_to_work_there() -> None:
    answer = ask(rules.driver_floor, candidate("linux-rocm", "rocm6.4"), target(gpu("gfx1100"), platform=WSL))
    assert answer.kind is Kind.UNKNOWN
    assert answer.reason == "whether ROCm wheels work inside WSL2 is not known"


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        ("25.5.0", Kind.FITS),
        ("25.2.3", Kind.COMMUNITY),
        ("26.0.RC1", Kind.COMMUNITY),
        ("", Kind.FITS),
    ],
)
def test_driver_tested_is_no_floor_but_the_one_that_it_came_with(driver: str, kind: Kind) -> None:
    card = gpu("ascend910b", vendor="huawei")
    there = Target(platform=LINUX, accelerators=(card,), drivers={"huawei": DriverFacts(kernel=driver)})
    answer = ask(rules.driver_tested, candidate("linux-npu", "cann8.5.0"), there)
    assert answer.kind is kind
    assert answer.reason.startswith("Ascend CANN 8.5.0 was released and tested with driver 25.5.0; a minimum is not stated")
    assert answer.reason.endswith(f", and this machine has {driver}") is (kind is Kind.COMMUNITY)


@pytest.mark.parametrize(
    ("tested", "have", "same"),
    [
        ("1.22.0-740", "1.22.0", True),
        ("1.22.0-740", "1.22.0-740-bd02d5e", True),
        ("1.22.0", "1.22.0-740", True),
        ("1.22.0-740", "1.22.0-74", False),
        ("1.22.0", "1.22.01", False),
        ("24.1.RC3", "24.1.rc3", True),
        ("24.1.RC3", "24.1.rc2", False),
        ("6.2.0", "v6.2.0", True),
    ],
)
def test_either_text_of_a_driver_may_leave_out_the_build(tested: str, have: str, same: bool) -> None:
    made = candidate("linux-npu", "cann8.5.0")
    made = replace(made, backend_release=replace(made.backend_release, tested_driver={Os.LINUX: tested}))
    there = Target(
        platform=LINUX,
        accelerators=(gpu("ascend910b", vendor="huawei"),),
        drivers={"huawei": DriverFacts(kernel=have)},
    )
    assert ask(rules.driver_tested, made, there).kind is (Kind.FITS if same else Kind.COMMUNITY)


def test_a_driver_beside_a_release_without_a_tested_one_is_not_promised() -> None:
    card = gpu("ascend910b", vendor="huawei")
    there = Target(platform=LINUX, accelerators=(card,), drivers={"huawei": DriverFacts(kernel="25.5.0")})
    answer = ask(rules.driver_tested, candidate("linux-npu", "cann8.2.rc1"), there)
    assert answer.kind is Kind.COMMUNITY
    assert answer.reason == "no source says which driver Ascend CANN 8.2.RC1 was tested with; this machine has 25.5.0"


@pytest.mark.parametrize(
    ("have", "kind", "reason"),
    [
        ("", Kind.FITS, "torch 2.8.0+cann8.5.0 takes Ascend CANN 8.5.0 from the machine: its wheels bring no runtime along"),
        ("8.5.0", Kind.FITS, "Ascend CANN 8.5.0 is installed"),
        ("8.5.0.B100", Kind.FITS, "Ascend CANN 8.5.0.B100 is installed"),
        ("8.5.1", Kind.REJECTED, "torch 2.8.0+cann8.5.0 is paired with Ascend CANN 8.5.0; this machine has Ascend CANN 8.5.1"),
        (
            "8.2.RC1",
            Kind.REJECTED,
            "torch 2.8.0+cann8.5.0 is paired with Ascend CANN 8.5.0; this machine has Ascend CANN 8.2.RC1",
        ),
    ],
)
def test_toolkit_installed(have: str, kind: Kind, reason: str) -> None:
    card = gpu("ascend910b", vendor="huawei")
    there = Target(platform=LINUX, accelerators=(card,), drivers={"huawei": DriverFacts(toolkit=have)})
    made = candidate("linux-npu", "cann8.5.0", card=card)
    made = replace(made, backend=replace(made.backend, host_toolkit=True))
    answer = ask(rules.toolkit_installed, made, there)
    assert (answer.kind, answer.reason) == (kind, reason)
    assert (answer.change.text if answer.change else "") == ("install Ascend CANN 8.5.0" if kind is Kind.REJECTED else "")
    elsewhere = replace(made, backend=replace(made.backend, host_toolkit=False))
    assert ask(rules.toolkit_installed, elsewhere, there).reason == ""


def test_no_tested_driver_says_nothing() -> None:
    answer = ask(rules.driver_tested, candidate("linux-npu", "cann8.2.rc1"), target(gpu("ascend910b", vendor="huawei")))
    assert (answer.kind, answer.reason) == (Kind.FITS, "")


@pytest.mark.parametrize(("driver", "kind"), [("6.1", Kind.FITS), ("6.0.9", Kind.REJECTED), ("", Kind.FITS)])
def test_kernel_driver_floor_of_rocm(driver: str, kind: Kind) -> None:
    assert ask(rules.driver_floor, candidate("linux-rocm", "rocm6.4"), target(gpu("gfx1100"), driver=driver)).kind is kind


@pytest.mark.parametrize(
    ("card", "license", "kind", "change"),
    [
        ("sm_120", "Dual MIT/GPL", Kind.FITS, ""),
        ("sm_120", "NVIDIA", Kind.REJECTED, "open"),
        ("sm_120", "", Kind.FITS, ""),
        ("sm_61", "NVIDIA", Kind.FITS, ""),
        ("sm_61", "Dual MIT/GPL", Kind.REJECTED, "proprietary"),
        ("sm_75", "NVIDIA", Kind.FITS, ""),
        ("sm_75", "Dual MIT/GPL", Kind.FITS, ""),
        ("sm_120", "who knows", Kind.FITS, ""),
    ],
)
def test_open_or_proprietary_module(card: str, license: str, kind: Kind, change: str) -> None:
    answer = ask(rules.kernel_module, candidate(), target(gpu(card), license=license))
    assert answer.kind is kind
    # Where the module is not known, the plan says which one it takes; where it fits, there is nothing to say.
    assert bool(answer.reason) is (kind is Kind.REJECTED or (card != "sm_75" and license in ("", "who knows")))
    assert (answer.change.value if answer.change else "") == change


@pytest.mark.parametrize(
    ("bound", "platform", "kind"),
    [
        ("nvidia", LINUX, Kind.FITS),
        ("", LINUX, Kind.FITS),
        ("nouveau", LINUX, Kind.REJECTED),
        ("vfio-pci", LINUX, Kind.REJECTED),
        ("none", LINUX, Kind.REJECTED),
        ("nouveau", WSL, Kind.FITS),
    ],
)
def test_driver_present(bound: str, platform: Platform, kind: Kind) -> None:
    answer = ask(rules.driver_present, candidate(), target(gpu("sm_120", kernel_driver=bound), platform=platform))
    assert answer.kind is kind
    if kind is Kind.REJECTED:
        assert answer.change is not None
        # The strictest floor is named, not the tag's: this card needs 12.8's own driver.
        assert answer.change.text == "install NVIDIA's driver 570.26 or newer"


# ---- offers ------------------------------------------------------------------------------------------------------


def offers(*wheels: tuple[str, str], **more: Any) -> Offers:
    made = tuple(Wheel(name="torch", version=version, tags=frozenset((tag,))) for version, tag in wheels)
    return Offers(wheels=made, **more)


@pytest.mark.parametrize(
    ("wheel", "python", "fits"),
    [
        (("2.8.0+cu128", "cp312-cp312-manylinux_2_28_x86_64"), "3.12", True),
        (("2.8.0+cu128", "cp312-cp312-manylinux_2_40_x86_64"), "3.12", False),
        (("2.8.0+cu128", "cp312-cp312-manylinux2014_x86_64"), "3.12", True),
        (("2.8.0+cu128", "cp312-cp312-linux_x86_64"), "3.12", True),
        (("2.8.0+cu128", "cp312-cp312-manylinux_2_28_aarch64"), "3.12", False),
        (("2.8.0+cu128", "cp312-cp312-musllinux_1_2_x86_64"), "3.12", False),
        (("2.8.0+cu128", "cp312-cp312-win_amd64"), "3.12", False),
        (("2.8.0+cu128", "cp311-cp311-manylinux_2_28_x86_64"), "3.12", False),
        (("2.8.0+cu128", "cp313-cp313t-manylinux_2_28_x86_64"), "3.13", False),
        (("2.8.0+cu128", "cp313-cp313t-manylinux_2_28_x86_64"), "3.13t", True),
        (("2.8.0+cu128", "cp39-abi3-manylinux_2_28_x86_64"), "3.12", True),
        (("2.8.0+cu128", "py3-none-any"), "3.12", True),
        (("2.8.0", "cp312-cp312-manylinux_2_28_x86_64"), "3.12", False),  # PyPI's has another flavour
        (("2.8.1+cu128", "cp312-cp312-manylinux_2_28_x86_64"), "3.12", False),
        (("2.8.0+cu128", "nonsense"), "3.12", False),
    ],
)
def test_offered(wheel: tuple[str, str], python: str, fits: bool) -> None:
    answer = ask(rules.offered, candidate(python=python), target(), offers(wheel))
    assert answer.kind is (Kind.FITS if fits else Kind.REJECTED)


def test_offered_names_the_places() -> None:
    index = "https://index.example/whl/cu128"
    answer = ask(rules.offered, candidate(), target(), offers(indexes={index: False}, places=("a folder (empty)",)))
    assert answer.reason == (
        f"torch 2.8.0+cu128 for Python 3.12 cannot be had here: {index} could not be reached; looked at a folder (empty)"
    )
    assert ask(rules.offered, candidate(), target(), None).kind is Kind.FITS


def test_rules_answer_for_a_machine_of_which_nothing_is_known() -> None:
    nothing = Target(platform=Platform(os=Os.LINUX), accelerators=None)
    made = candidate(card=None)
    kinds = {rule(made, nothing, MATRIX, None).kind for rule in RULES}
    assert kinds == {Kind.FITS}


@pytest.mark.parametrize(
    ("tag", "card", "kind"),
    [
        ("cann8.2.rc1", "ascend910b", Kind.FITS),
        ("cann8.2.rc1", "ascend910c", Kind.REJECTED),
        ("cann8.5.0", "ascend910c", Kind.FITS),
        ("cann8.5.0", "", Kind.UNKNOWN),
        ("cann9.1.0-beta.3", "ascend910b", Kind.UNKNOWN),  # the list is not known
    ],
)
def test_listed_code_runs_on_what_the_vendor_lists(tag: str, card: str, kind: Kind) -> None:
    made = candidate("linux-npu", tag, archs=None)
    assert ask(rules.gpu_code, made, target(gpu(card, vendor="huawei"))).kind is kind


def test_listed_code_names_both_sides() -> None:
    made = candidate("linux-npu", "cann8.2.rc1", archs=None)
    answer = ask(rules.gpu_code, made, target(gpu("ascend910c", vendor="huawei")))
    assert answer.reason == "Ascend CANN 8.2.RC1 serves ascend910b; this machine has ascend910c"


@pytest.mark.parametrize(("card", "kind"), [("intel", Kind.FITS), ("nvidia", Kind.FITS), (None, Kind.FITS), ("", Kind.UNKNOWN)])
def test_a_backend_that_does_without_a_card(card: str | None, kind: Kind) -> None:
    there = target(*([] if card is None else [gpu("x", vendor=card)]))
    assert ask(rules.gpu_vendor, candidate("linux-openvino", "openvino"), there).kind is kind


@pytest.mark.parametrize(("vendor", "wanted"), [("nvidia", "an NVIDIA GPU"), ("huawei", "a Huawei Ascend NPU")])
def test_gpu_vendor_names_the_device_that_is_missing(vendor: str, wanted: str) -> None:
    made = candidate() if vendor == "nvidia" else candidate("linux-npu", "cann8.5.0")
    answer = ask(rules.gpu_vendor, made, target())
    assert answer.reason == f"{made.scheme.name} needs {wanted}; this machine has no accelerator"
