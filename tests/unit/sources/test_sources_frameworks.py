"""Frameworks whose builds have packages of their own names, further packages, and indexes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from lab.fake_wheels import make_index, make_wheel

from envkit.matrix import load
from envkit.model import Build, Framework, Offers, Pin, Wheel, Wish
from envkit.resolve import resolve
from envkit.sources import Index, Sources, listing, look, mirror_hint

LINUX = "linux/x86_64"


def runtime(index: str = "pypi", **more: object) -> Framework:
    builds = (
        Build(release="1.0", tag="cpu", platforms=(LINUX,)),
        Build(release="1.0", tag="cuda12", platforms=(LINUX,), package="runtime-gpu"),
        Build(release="1.0", tag="dml", platforms=("windows/x86_64",), package="runtime-directml"),
        Build(
            release="1.0",
            tag="tpu",
            platforms=(LINUX,),
            packages={"Runtime_Plugin": Pin(version="1.0"), "libtpu": Pin(version="0.1", index="https://tpu.example/simple")},
        ),
        Build(
            release="1.0",
            tag="hpu",
            platforms=(LINUX,),
            index="vendor",
            packages={"vendor-helper": Pin(version="1", index="vendor")},
        ),
    )
    return Framework(name="runtime", package="runtime", index=index, builds=builds)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pages that were asked for; none is there."""
    pages: list[str] = []

    def note(sources: Sources, address: str, limit: float) -> listing.Page:
        pages.append(address)
        return listing.Page(files=(), missing=True)

    monkeypatch.setattr(listing, "fetch_page", note)
    return pages


@pytest.mark.parametrize(
    ("tags", "platform", "pages"),
    [
        (["cpu"], LINUX, {"https://pypi.org/simple/runtime/"}),
        (["cuda12"], LINUX, {"https://pypi.org/simple/runtime-gpu/"}),
        (["cpu", "cuda12"], LINUX, {"https://pypi.org/simple/runtime/", "https://pypi.org/simple/runtime-gpu/"}),
        (["dml"], LINUX, set()),
        (
            ["tpu"],
            LINUX,
            {
                "https://pypi.org/simple/runtime/",
                "https://pypi.org/simple/runtime-plugin/",
                "https://tpu.example/simple/libtpu/",
            },
        ),
        (["hpu"], LINUX, set()),
        (["hpu", "cpu"], LINUX, {"https://pypi.org/simple/runtime/"}),
    ],
)
def test_each_package_is_looked_for_on_its_own_index_alone(
    asked: list[str], tags: list[str], platform: str, pages: set[str]
) -> None:
    found = look(Sources(), runtime(), tags, platform=platform)
    assert set(asked) == pages
    assert "vendor" not in found.indexes


def test_what_the_indexes_have_becomes_an_offer_under_its_own_name(tmp_path: Path) -> None:
    index = make_index(tmp_path / "simple", [(name, "1.0", ()) for name in ("runtime", "runtime-gpu", "runtime-extra")])
    sources = Sources(default=Index(url=str(index)))
    found = look(sources, runtime(), ["cpu", "cuda12"], platform=LINUX)
    assert {wheel.name for wheel in found.wheels} == {"runtime", "runtime-gpu"}


def test_a_folder_is_looked_through_for_all_of_them(tmp_path: Path) -> None:
    for name in ("runtime", "runtime-gpu", "other"):
        make_wheel(tmp_path / "wheels", name, "1.0")
    sources = Sources(find_links=(Index(url=str(tmp_path / "wheels"), flat=True),), offline=True)
    found = look(sources, runtime(), ["cuda12"], platform=LINUX)
    assert "runtime-gpu" in {wheel.name for wheel in found.wheels}
    assert found.faults == {"pypi": "not asked: the settings forbid the network"}


@pytest.mark.parametrize(
    ("index", "variable"),
    [("pypi", "PIP_INDEX_URL"), ("https://download.pytorch.org/whl/cpu", "ENVKIT_PYTORCH_MIRROR")],
)
def test_the_way_out_names_the_variable_of_the_index(index: str, variable: str) -> None:
    assert mirror_hint(index) == (
        f"name a mirror ({variable}=https://..., or [mirrors] in envkit.toml) or a folder of wheels (PIP_FIND_LINKS=/path)"
    )


# ---- the rule ----------------------------------------------------------------------------------------------------


def offers(*wheels: tuple[str, str, str]) -> Offers:
    found = tuple(Wheel(name=name, version=text, tags=frozenset([tag])) for name, text, tag in wheels)
    return Offers(indexes={"pypi": True}, wheels=found)


JAX = ("jax", "0.10.2", "py3-none-any")
JAXLIB = ("jaxlib", "0.10.2", "cp311-cp311-manylinux_2_27_x86_64")


@pytest.mark.parametrize(
    ("wheels", "fits"),
    [
        ([JAX, JAXLIB], True),
        ([JAX], False),
        ([JAXLIB], False),
        ([JAX, ("jaxlib", "0.10.1", JAXLIB[2])], False),
        ([JAX, ("jaxlib", "0.10.2", "cp312-cp312-manylinux_2_27_x86_64")], False),
    ],
)
def test_a_plan_is_made_only_where_all_of_a_build_can_be_had(wheels: list[tuple[str, str, str]], fits: bool) -> None:
    wish = Wish(scheme="linux-cpu-jax", os="debian-12/x86_64", gpu="none", torch="0.10.2", python="3.11")
    resolution = resolve(load(), wish, offers=offers(*wheels))
    assert (resolution.plan is not None) == fits
    if not fits:
        (judged,) = resolution.judged
        lacking = "jax" if JAX not in wheels else "jaxlib"
        assert f"{lacking} 0.10.2 for Python 3.11 cannot be had here: pypi does not have it" in [a.reason for a in judged.answers]


def test_what_only_the_vendor_has_is_not_held_against_the_indexes() -> None:
    wish = Wish(scheme="linux-hpu", os="ubuntu-22.04/x86_64")
    resolution = resolve(load(), wish, offers=Offers())
    assert resolution.plan is not None
    assert resolution.plan.framework_package.index == "vendor"
