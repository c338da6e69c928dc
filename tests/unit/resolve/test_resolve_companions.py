"""Pins of companion packages: what is known to have been built for a tag, and what is left to the tag's index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import envkit.matrix
from envkit.model import (
    Backend,
    BackendRelease,
    Build,
    Candidate,
    Dotted,
    Framework,
    FrameworkRelease,
    Kind,
    LibraryRelease,
    Matrix,
    Offers,
    Os,
    Plan,
    Platform,
    Scheme,
    Target,
    Wheel,
    Wish,
)
from envkit.resolve import resolve, rules
from envkit.resolve.candidates import companion_pin
from envkit.resolve.plans import packages

OLD = FrameworkRelease(version="2.11.0", pythons=("3.12", "3.13"), companions={"torchaudio": ("2.11.0", "2.11.1")})
MIDDLE = replace(OLD, version="2.14.0")
NEW = replace(OLD, version="2.15.0", companions={"torchaudio": ("2.11.1", "2.11.0")})
BUILDS = (
    Build(release="2.11", tag="cu130", platforms=("linux/x86_64",)),
    Build(release="2.14", tag="cu130", platforms=("linux/x86_64",)),
    Build(release="2.14", tag="cu132", platforms=("linux/x86_64", "windows/x86_64")),
    Build(release="2.14", tag="cu134", platforms=("linux/x86_64",), published=None),
    Build(release="2.14", tag="directml", platforms=("windows/x86_64",), local=""),
    Build(release="2.15", tag="cu132", platforms=("linux/x86_64",)),
    Build(release="2.15", tag="cu134", platforms=("linux/x86_64",), published=None),
)
TORCH = Framework(name="torch", package="torch", index="https://index.example/{tag}", releases=(OLD, MIDDLE, NEW), builds=BUILDS)
CUDA = BackendRelease(version=Dotted("13.0"), tag="cu130")
BACKEND = Backend(name="cuda", vendor="nvidia", title="NVIDIA CUDA", device="cuda", code_rule="cuda", releases=(CUDA,))
MATRIX = Matrix(
    updated="2026-11-30", sources={}, platforms={}, archs={}, backends={}, frameworks={"torch": TORCH}, libraries={}, schemes={}
)
PLAIN = Platform(os=Os.LINUX)


def candidate(release: FrameworkRelease, tag: str, platform: Platform = PLAIN, python: str = "3.12") -> Candidate:
    build = next(each for each in BUILDS if release.version.startswith(each.release) and each.tag == tag)
    scheme = Scheme(
        name="linux-cuda",
        os=Os.LINUX,
        backend="cuda",
        framework="torch",
        task="train",
        title="",
        for_whom="",
        needs=(),
        pros=(),
        cons=(),
    )
    return Candidate(
        scheme=scheme,
        backend=BACKEND,
        backend_release=CUDA,
        framework=TORCH,
        release=release,
        build=build,
        platform=platform,
        accelerator=None,
        python=python,
    )


@pytest.mark.parametrize(
    ("release", "tag", "expected"),
    [
        (OLD, "cu130", "2.11.0+cu130"),
        (MIDDLE, "cu130", "2.11.0+cu130"),
        (MIDDLE, "cu132", "2.11.1+cu132"),  # 2.11.0 came out before CUDA 13.2
        (MIDDLE, "cu134", "2.11.0"),  # nobody has seen either: the index decides
        (NEW, "cu132", "2.11.1+cu132"),
        (NEW, "cu134", "2.11.1+cu134"),  # as sure as torch 2.15.0+cu134 itself
    ],
)
def test_the_local_part_is_pinned_where_it_is_known(release: FrameworkRelease, tag: str, expected: str) -> None:
    assert companion_pin(MATRIX, candidate(release, tag), "torchaudio") == expected


def test_a_build_for_another_system_says_nothing() -> None:
    windows = Platform(os=Os.WINDOWS, libc="")
    assert companion_pin(MATRIX, candidate(MIDDLE, "cu132", windows), "torchaudio") == "2.11.0"
    assert companion_pin(MATRIX, candidate(MIDDLE, "directml", windows), "torchaudio") == "2.11.0"


def test_a_companion_without_wheels_for_the_python_is_passed_over() -> None:
    libraries = {"torchaudio": (LibraryRelease(version="2.11.1", pythons=("3.13",)),)}
    matrix = replace(MATRIX, libraries=libraries)
    assert companion_pin(matrix, candidate(MIDDLE, "cu132", python="3.13"), "torchaudio") == "2.11.1+cu132"
    assert companion_pin(matrix, candidate(MIDDLE, "cu132"), "torchaudio") == "2.11.0"


def test_no_companion_of_that_name() -> None:
    assert companion_pin(MATRIX, candidate(OLD, "cu130"), "torchvision") is None


@pytest.mark.parametrize(
    ("tag", "torchaudio", "kind"),
    [
        ("cu134", "2.11.0", Kind.FITS),
        ("cu134", "2.11.0+cu134", Kind.FITS),
        ("cu134", "2.11.0+cu130", Kind.REJECTED),
        ("cu130", "2.11.0+cu130", Kind.FITS),
        ("cu130", "2.11.0", Kind.REJECTED),
    ],
)
def test_what_the_sources_of_a_machine_must_have(tag: str, torchaudio: str, kind: Kind) -> None:
    wheels = tuple(
        Wheel(name=name, version=version, tags=frozenset({"py3-none-manylinux_2_28_x86_64"}))
        for name, version in (("torch", f"2.14.0+{tag}"), ("torchaudio", torchaudio))
    )
    offers = Offers(indexes={f"https://index.example/{tag}": True}, wheels=wheels)
    asked = Target(platform=PLAIN, accelerators=None, extras=("torchaudio",))
    assert rules.offered(candidate(MIDDLE, tag), asked, MATRIX, offers).kind is kind
    if kind is Kind.FITS:  # the plan names exactly what the sources have
        pins = {package.name: package.version for package in packages(candidate(MIDDLE, tag), asked, MATRIX, offers)}
        assert pins == {"torch": f"2.14.0+{tag}", "torchaudio": torchaudio}


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish(scheme="linux-cuda"), {"torch==2.15.0+cu132", "torchaudio==2.11.1+cu132", "torchvision==0.29.2+cu132"}),
        (
            Wish(scheme="linux-cuda", torch="2.14.1", backend="cu132"),
            {"torch==2.14.1+cu132", "torchaudio==2.11.1+cu132", "torchvision==0.29.1+cu132"},
        ),
        (
            Wish(scheme="windows-cuda", torch="2.14.1", backend="cu132"),
            {"torch==2.14.1+cu132", "torchaudio==2.11.0", "torchvision==0.29.1+cu132"},
        ),
        (Wish(scheme="linux-cpu", torch="2.13.0"), {"torch==2.13.0+cpu", "torchaudio==2.11.0+cpu", "torchvision==0.28.0+cpu"}),
    ],
)
def test_pins_of_the_shipped_matrix(wish: Wish, expected: set[str]) -> None:
    matrix = envkit.matrix.load(Path(__file__).parents[3] / "matrix.toml")
    made = resolve(matrix, replace(wish, extras=("torchaudio", "torchvision"))).plan
    assert isinstance(made, Plan)
    pins = {package.requirement for package in made.packages if package.name != "numpy"}
    assert pins == expected
    assert len({package.index for package in made.packages if package.name != "numpy"}) == 1


@pytest.mark.parametrize(
    ("torch", "partner"), [("2.1.0", "pytorch-triton-rocm"), ("2.9.1", "pytorch-triton-rocm"), ("2.10.0", "triton-rocm")]
)
def test_the_triton_of_rocm_wheels_is_bound_to_their_index(torch: str, partner: str) -> None:
    plan = resolve(envkit.matrix.load(), Wish(scheme="linux-rocm", torch=torch)).plan
    assert plan is not None
    assert plan.partners == (partner,)
    cuda = resolve(envkit.matrix.load(), Wish(scheme="linux-cuda", torch=torch)).plan
    assert cuda is not None
    assert cuda.partners == ()
