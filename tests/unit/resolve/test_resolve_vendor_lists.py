"""What a vendor lists, card by card and system by system, over hand-made rows: nothing here depends on the shipped matrix."""

from __future__ import annotations

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
    Framework,
    FrameworkRelease,
    Gpu,
    Kind,
    Limit,
    Matrix,
    Os,
    OsRelease,
    OverrideSetting,
    Platform,
    Promise,
    Scheme,
    Target,
)
from envkit.resolve import rules
from envkit.resolve.candidates import cards
from envkit.resolve.target import release_number

V = Dotted


def lines(*texts: str) -> tuple[Dotted, ...]:
    return tuple(V(text) for text in texts)


ROCM = Backend(
    name="rocm",
    vendor="amd",
    title="AMD ROCm",
    device="cuda",
    code_rule="exact",
    releases=(
        BackendRelease(
            version=V("6.4"),
            tag="rocm6.4",
            lists=V("6.4.3"),
            platforms=("debian-12", "rhel-9", "ubuntu-24.04"),
            kernels={"ubuntu-24.04": lines("6.8", "6.11"), "debian-12": lines("6.1")},
            archs=("gfx942", "gfx1030", "gfx1101"),
            sources=("list",),
        ),
    ),
    branches=(
        DriverBranch(branch=V("5.2"), numbers=("22.20",)),
        DriverBranch(branch=V("5.7"), numbers=("6.2.4",)),
        DriverBranch(branch=V("6.2"), numbers=("6.8.5",)),
        DriverBranch(branch=V("6.4"), numbers=("6.12.12",)),
        DriverBranch(branch=V("30.10"), numbers=("6.14.14",)),
    ),
    promises=(
        Promise(cards=("Radeon RX 6800 XT",), os=(Os.LINUX,), sources=("products",)),
        Promise(cards=("Radeon RX 7800 XT",), os=(Os.LINUX,), first=V("6.4.1"), last=V("7.14.0"), sources=("products",)),
        Promise(cards=("Radeon RX 7700",), os=(Os.LINUX,), first=V("7.2.0"), last=V("7.14.0"), sources=("products",)),
        Promise(cards=("Instinct MI300A",), os=(Os.LINUX,), deprecated=(V("6.4.0"), V("6.4.3")), sources=("products",)),
    ),
    limits=(
        Limit(tags=("rocm6.4",), about=("gfx942",), platforms=("debian-12", "rhel-9", "ubuntu-24.04"), sources=("limit",)),
        Limit(tags=("rocm6.4",), about=("Instinct MI300A",), platforms=("rhel-9",), sources=("limit",)),
        Limit(
            tags=("rocm6.4",),
            about=("gfx1101",),
            platforms=("rhel-9", "ubuntu-24.04", "windows"),
            kernels={"ubuntu-24.04": lines("6.14")},
            sources=("limit",),
        ),
    ),
    overrides=(OverrideSetting(arch="gfx1031", acts_as="gfx1030", env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}, os=(Os.LINUX,)),),
)
DIRECTML = Backend(
    name="directml",
    vendor="",
    title="DirectML",
    device="privateuseone",
    code_rule="any",
    serves=("amd", "nvidia"),
    releases=(BackendRelease(version=V("0"), tag="directml"),),
    sources=("directml",),
)
BUILD = Build(release="2.8", tag="rocm6.4", platforms=("linux/x86_64",), archs=("gfx942", "gfx1030", "gfx1101"))
TORCH = Framework(
    name="torch",
    package="torch",
    index="pypi",
    releases=(FrameworkRelease(version="2.8.0", pythons=("3.12",)),),
    builds=(BUILD,),
)
MATRIX = Matrix(
    updated="2026-11-30",
    sources={},
    platforms={name: OsRelease(id=name, os=Os.LINUX, name=name) for name in ("debian-12", "rhel-9", "ubuntu-24.04")},
    archs={
        name: Architecture(name=name, vendor="amd", family="", graphics=name != "gfx942", note=note, sources=("arch",))
        for name, note in (("gfx942", ""), ("gfx1030", ""), ("gfx1031", "works badly"), ("gfx1101", ""), ("gfx1103", ""))
    },
    backends={"rocm": ROCM, "directml": DIRECTML},
    frameworks={"torch": TORCH},
    libraries={},
    schemes={},
)


def gpu(code: str, name: str = "") -> Gpu:
    return Gpu(arch=code, vendor="amd", name=name)


def target(*accelerators: Gpu, os: Os = Os.LINUX, release: str = "", kernel: str = "") -> Target:
    platform = Platform(os=os, release=release, kernel=V(kernel) if kernel else None)
    return Target(platform=platform, accelerators=accelerators)


def candidate(wanted: Target, backend: Backend = ROCM, **build: Any) -> Candidate:
    from dataclasses import replace

    scheme = Scheme(name="s", os=wanted.platform.os, backend=backend.name, framework="torch", task="train", title="", for_whom="")
    return Candidate(
        scheme=scheme,
        backend=backend,
        backend_release=backend.releases[0],
        framework=TORCH,
        release=TORCH.releases[0],
        build=replace(BUILD, **build),
        platform=wanted.platform,
        python="3.12",
        accelerator=next(iter(cards(backend, wanted)), None),
    )


def ask(rule: rules.Rule, wanted: Target, backend: Backend = ROCM, **build: Any) -> Answer:
    return rule(candidate(wanted, backend, **build), wanted, MATRIX, None)


@pytest.mark.parametrize(
    ("release", "kernel", "kind"),
    [
        ("ubuntu-24.04", "6.8.0", Kind.FITS),
        ("ubuntu-24.04", "6.8.12", Kind.FITS),
        ("ubuntu-24.04", "6.11.0", Kind.FITS),
        ("ubuntu-24.04", "6.14.0", Kind.COMMUNITY),
        ("ubuntu-24.04", "6.80.0", Kind.COMMUNITY),
        ("ubuntu-24.04", "", Kind.FITS),  # not known
        ("debian-12", "6.1.0", Kind.FITS),
        ("debian-12", "6.10.0", Kind.COMMUNITY),
        ("rhel-9", "5.14.0", Kind.FITS),  # no list of kernels for it
        ("", "6.14.0", Kind.FITS),
    ],
)
def test_a_kernel_off_the_list_is_not_promised(release: str, kernel: str, kind: Kind) -> None:
    assert ask(rules.os_kernel, target(gpu("gfx1030"), release=release, kernel=kernel)).kind is kind


def test_some_cards_have_kernels_of_their_own() -> None:
    wanted = target(gpu("gfx1101"), release="ubuntu-24.04", kernel="6.14.0")
    assert ask(rules.os_kernel, wanted).kind is Kind.FITS
    answer = ask(rules.os_kernel, target(gpu("gfx1101"), release="ubuntu-24.04", kernel="6.8.0"))
    assert answer.reason == "kernel 6.8.0 is not one that AMD lists for ROCm 6.4 on ubuntu-24.04: 6.14"


def test_kernels_say_nothing_of_other_systems() -> None:
    assert ask(rules.os_kernel, target(gpu("gfx1030"), os=Os.WSL2, release="ubuntu-24.04", kernel="6.6.87")).kind is Kind.FITS
    assert ask(rules.os_kernel, target(release="ubuntu-24.04", kernel="6.14.0")).kind is Kind.FITS  # no card: an image


@pytest.mark.parametrize(
    ("card", "release", "kind"),
    [
        (gpu("gfx942"), "debian-12", Kind.FITS),
        (gpu("gfx942", "Instinct MI300X"), "debian-12", Kind.FITS),
        (gpu("gfx942", "Instinct MI300A"), "debian-12", Kind.COMMUNITY),  # the product goes before its architecture
        (gpu("gfx942", "Instinct MI300A"), "rhel-9", Kind.FITS),
        (gpu("gfx1101"), "debian-12", Kind.COMMUNITY),
        (gpu("gfx1101"), "ubuntu-24.04", Kind.FITS),
        (gpu("gfx1030"), "debian-12", Kind.FITS),  # nothing narrows it
    ],
)
def test_some_cards_are_promised_on_fewer_systems(card: Gpu, release: str, kind: Kind) -> None:
    assert ask(rules.os_release, target(card, release=release)).kind is kind


def test_the_reason_names_the_card_and_the_system() -> None:
    answer = ask(rules.os_release, target(gpu("gfx942", "Instinct MI300A"), release="debian-12"))
    assert answer.reason == "debian-12 is not on AMD's list of systems for Instinct MI300A (gfx942) with ROCm 6.4"
    assert answer.sources == ("limit",)


@pytest.mark.parametrize(
    ("code", "os", "kind"),
    [
        ("gfx1101", Os.WINDOWS, Kind.FITS),
        ("gfx1101", Os.WSL2, Kind.UNKNOWN),
        ("gfx942", Os.WINDOWS, Kind.UNKNOWN),
        ("gfx1030", Os.WINDOWS, Kind.FITS),  # nothing is said of it
    ],
)
def test_a_card_off_the_list_may_not_be_driven_at_all_on_windows(code: str, os: Os, kind: Kind) -> None:
    assert ask(rules.os_release, target(gpu(code), os=os)).kind is kind


@pytest.mark.parametrize(
    ("card", "kind", "reason"),
    [
        (gpu("gfx1030"), Kind.FITS, ""),
        (gpu("gfx1030", "Radeon RX 6800 XT"), Kind.COMMUNITY, "Radeon RX 6800 XT (gfx1030) is not on AMD's list for ROCm 6.4"),
        (gpu("gfx1101", "Radeon RX 7800 XT"), Kind.FITS, ""),  # from 6.4.1 on, and the wheels carry 6.4.3
        (gpu("gfx1101", "Radeon RX 7700"), Kind.COMMUNITY, "Radeon RX 7700 (gfx1101) is not on AMD's list for ROCm 6.4"),
        (gpu("gfx942", "Instinct MI300A"), Kind.FITS, "AMD calls Instinct MI300A (gfx942) deprecated in ROCm 6.4"),
        (gpu("gfx1031"), Kind.COMMUNITY, "gfx1031 is not on AMD's list for ROCm 6.4 (works badly)"),
    ],
)
def test_products_go_before_their_architecture(card: Gpu, kind: Kind, reason: str) -> None:
    answer = ask(rules.vendor_support, target(card))
    assert (answer.kind, answer.reason) == (kind, reason)


@pytest.mark.parametrize(
    ("build", "code", "kind"),
    [
        ({"maybe_archs": ("gfx1103",)}, "gfx1103", Kind.UNKNOWN),
        ({}, "gfx1103", Kind.REJECTED),
        ({}, "gfx1031", Kind.SETTING),
        ({"maybe_archs": ("gfx1031",)}, "gfx1031", Kind.UNKNOWN),  # its own code may be there: no setting is called for
        ({"extras": "device-{arch}"}, "gfx1031", Kind.REJECTED),  # the neighbour's code would not be installed
    ],
)
def test_code_that_may_be_there(build: dict[str, Any], code: str, kind: Kind) -> None:
    assert ask(rules.gpu_code, target(gpu(code)), **build).kind is kind


def test_a_card_made_to_compute_alone_is_not_promised_to_a_graphics_interface() -> None:
    answer = ask(rules.gpu_code, target(gpu("gfx942", "Instinct MI300X"), os=Os.WINDOWS), DIRECTML)
    assert answer.kind is Kind.UNKNOWN
    assert answer.reason == "Instinct MI300X (gfx942) is made to compute alone; whether DirectML reaches it is not known"
    assert ask(rules.gpu_code, target(gpu("gfx1030"), os=Os.WINDOWS), DIRECTML).kind is Kind.FITS


def test_an_interface_of_no_vendor_serves_some() -> None:
    gaudi, card = Gpu(vendor="habana", arch="gaudi2"), gpu("gfx1030")
    assert cards(DIRECTML, target(gaudi, card)) == (card,)
    assert ask(rules.gpu_vendor, target(gaudi, os=Os.WINDOWS), DIRECTML).kind is Kind.REJECTED


@pytest.mark.parametrize(
    ("text", "told", "number"),
    [
        ("6.12.12", False, "6.4"),
        ("6.12.12.60401", False, "6.4"),  # as the package writes it
        ("6.14.14", True, "30.10"),
        ("22.20.1", False, "5.2"),
        ("6.4.3", True, "6.4.3"),  # a release's own number
        ("30.10.2", False, "30.10.2"),
        ("31.60", False, "31.60"),  # newer than all that is known
        ("6.11.3", False, ""),
        ("6.2.4", False, "5.7"),  # the module's number; the same as a release's
        ("6.2", True, "6.2"),
        ("", False, ""),
    ],
)
def test_the_number_of_a_module_is_not_that_of_its_driver(text: str, told: bool, number: str) -> None:
    assert release_number(MATRIX, "amd", text, told=told)[0] == number


def test_the_driver_of_the_kernel_itself_has_the_number_of_the_kernel() -> None:
    assert release_number(MATRIX, "amd", "6.14.0", told=False, linux=V("6.14.0")) == ("", "")


def test_what_is_said_of_such_numbers() -> None:
    assert release_number(MATRIX, "amd", "6.12.12", told=False)[1] == "6.12.12 is the number that the driver 6.4 of AMD shows"
    assert release_number(MATRIX, "amd", "6.11.3", told=False)[1] == (
        "the driver 6.11.3 is none of AMD's releases that the matrix knows, so which AMD ROCm it serves is not judged"
    )
    assert release_number(MATRIX, "nvidia", "570.86.10", told=False) == ("570.86.10", "")
