"""What saved pages of PyPI change about a small matrix; the expectations are written from the pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from envkit.errors import UsageError
from envkit.matrix import load
from envkit.matrix.refresh import Options, Report, refresh
from envkit.matrix.refresh.changes import Change
from envkit.matrix.refresh.metadata import parse_metadata
from envkit.matrix.refresh.net import Distrusted

from .refresh_fake import JSON, MATRIX, PYPI, SAVED, FakeNet, Settings, upstream

CU130 = "https://download.pytorch.org/whl/cu130/torch/"
CU132 = "https://download.pytorch.org/whl/cu132/torch/"


def report(net: FakeNet, *only: str, **options: Any) -> Report:
    return refresh(load(MATRIX), Settings(), Options(only=only, **options), net=net)


def found(result: Report, label: str, kind: str = "") -> Change:
    [change] = [change for change in result.changes if change.label == label and kind in (change.kind, "")]
    return change


def labels(result: Report, kind: str) -> list[str]:
    return [f"{change.table.split('.')[1]} {change.label}" for change in result.changes if change.kind == kind]


def edit(net: FakeNet, project: str, keep: Any) -> None:
    _, body = net.pages[f"{PYPI}/{project}/"]
    document = json.loads(body)
    document["files"] = [file for file in document["files"] if keep(file)]
    net.pages[f"{PYPI}/{project}/"] = (JSON, json.dumps(document).encode())


def pytorch(*names: str) -> tuple[str, str]:
    links = "".join(f'<a href="/whl/{name.replace("+", "%2B")}">x</a><br/>\n' for name in names)
    return "text/html", f"<!DOCTYPE html>\n<html><body><h1>Links for torch</h1>\n{links}</body></html>\n<!--TIMESTAMP 1-->"


def wheels(version: str, platform: str = "manylinux_2_28_x86_64", pythons: str = "310 311 312 313 314 314t") -> list[str]:
    return [f"torch-{version}-cp{python.rstrip('t')}-cp{python}-{platform}.whl" for python in pythons.split()]


# ---- new ---------------------------------------------------------------------------------------------------------


def test_what_is_new_on_pypi() -> None:
    result = report(upstream())
    assert labels(result, "new") == [
        "jax 0.12.0.1",
        "jax 0.12.0.1 cuda13 linux/aarch64 linux/x86_64",
        "jax 0.12.0.1 cpu linux/aarch64 linux/x86_64",
        "openvino 2026.4.1",
        "openvino 2026.4.1 openvino linux/x86_64",
        "torch 2.14.1",
        "torch 2.15.0",
        "torch 2.14.1 cu130 linux/aarch64",
        "torch 2.15.0 cpu macos/arm64",
        "torch 2.15.0 cu132 linux/aarch64",
        "torch 2.15.0 cu132 linux/x86_64",
    ]
    assert labels(result, "vanished") == []
    assert not result.shrinking
    assert not result.refused


def test_a_new_release_of_torch_with_its_companions() -> None:
    assert found(report(upstream(), "torch"), "2.15.0").row == {
        "version": "2.15.0",
        "date": "2026-10-28",
        "pythons": ["3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t"],
        "companions": {"torchaudio": ["2.11.1"], "torchvision": ["0.29.2"]},
        "source": "torch-pypi",
    }


def test_pypi_serves_the_cuda_that_the_metadata_requires() -> None:
    assert found(report(upstream(), "torch"), "2.15.0 cu132 linux/x86_64").row == {
        "release": "2.15.0",
        "tag": "cu132",
        "platforms": ["linux/x86_64"],
        "glibc": "2.28",
        "local": "",
        "index": "pypi",
        "evidence": "index-checked",
        "note": "compiled architectures not read",
        "source": "torch-pypi",
    }


def test_a_framework_in_pieces_takes_pythons_and_floor_from_the_piece_with_the_code() -> None:
    result = report(upstream(), "jax")
    assert found(result, "0.12.0.1").row["pythons"] == ["3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t"]
    row = found(result, "0.12.0.1 cuda13 linux/aarch64 linux/x86_64").row
    assert row["packages"] == {"jax-cuda13-pjrt": "0.12.0.1", "jax-cuda13-plugin": "0.12.0.1", "jaxlib": "0.12.0.1"}
    assert (row["glibc"], row["extras"], "published" in row) == ("2.27", "cuda13", False)


def test_a_build_whose_packages_are_not_there_yet_is_not_proposed() -> None:
    net = upstream()
    edit(net, "jax-cuda13-plugin", lambda file: "0.12.0.1" not in file["filename"])
    assert labels(report(net, "jax"), "new") == ["jax 0.12.0.1", "jax 0.12.0.1 cpu linux/aarch64 linux/x86_64"]


def test_a_new_companion_joins_the_releases_that_its_metadata_allows() -> None:
    change = found(report(upstream(), "torch"), "2.14.0", "changed")
    assert change.now["companions"] == {"torchaudio": ["2.11.1"], "torchvision": ["0.29.0", "0.29.2"]}
    assert change.because == "torchvision 0.29.2 asks for torch>=2.14.0"


def test_previews_are_no_releases() -> None:
    net = upstream()
    _, body = net.pages[f"{PYPI}/openvino/"]
    net.pages[f"{PYPI}/openvino/"] = (JSON, body.replace(b"2026.4.1", b"2026.5.0rc1"))
    assert report(net, "openvino").changes == ()


def test_two_changes_of_a_release_are_one() -> None:
    net = upstream()
    _, body = net.pages[f"{PYPI}/torch/"]
    document = json.loads(body)
    for file in document["files"]:
        if "-2.14.0-" in file["filename"]:
            file["yanked"] = "broken"
    net.pages[f"{PYPI}/torch/"] = (JSON, json.dumps(document))
    change = found(report(net, "torch"), "2.14.0", "changed")
    assert change.now == {"yanked": True, "companions": {"torchaudio": ["2.11.1"], "torchvision": ["0.29.0", "0.29.2"]}}
    assert change.shrinks


def test_builds_follow_the_pythons_of_their_release() -> None:
    net = upstream()
    edit(net, "openvino", lambda file: "cp310" not in file["filename"])
    result = report(net, "openvino")
    assert found(result, "2026.4.0").now == {"pythons": ["3.11", "3.12", "3.13", "3.14", "3.14t"]}
    assert labels(result, "changed") == ["openvino 2026.4.0"]


# ---- the indexes of tags -----------------------------------------------------------------------------------------


def test_an_index_of_a_tag_confirms_rows_and_brings_new_ones() -> None:
    net = upstream()
    net.pages[CU130] = pytorch(*wheels("2.13.0+cu130"), *wheels("2.14.0+cu130"), *wheels("2.14.0+cu130", "win_amd64", "312 313"))
    net.pages[CU132] = pytorch(*wheels("2.14.0+cu132"))
    result = report(net, "torch")
    confirmed = found(result, "2.14 cu132 linux/x86_64")
    assert confirmed.was == {
        "published": "unknown",
        "note": "not seen on the index",
        "evidence": "claimed",
        "glibc": None,
        "source": ["torch-pypi"],
    }
    assert confirmed.now == {
        "published": None,
        "note": None,
        "evidence": "index-checked",
        "glibc": "2.28",
        "source": ["torch-pypi", "torch-index-cu132"],
    }
    # The platform is in no row of this matrix, so nobody could use a build for it.
    assert not [label for label in labels(result, "new") if "windows" in label]
    raised = found(result, "2.13 cu130 linux/x86_64")
    assert raised.now == {"evidence": "index-checked", "source": ["torch-pypi", "torch-index-cu130"]}


def test_wheels_for_fewer_pythons_and_an_older_glibc_are_changes() -> None:
    net = upstream()
    net.pages[CU130] = pytorch(*wheels("2.13.0+cu130"), *wheels("2.14.0+cu130", "manylinux_2_34_x86_64", "312 313"))
    change = found(report(net, "torch"), "2.14 cu130 linux/x86_64")
    assert change.now["pythons"] == ["3.12", "3.13"]
    assert change.now["glibc"] == "2.34"
    assert change.shrinks
    assert "no wheels for 3.10 3.11 3.14 3.14t" in change.because


def test_a_build_that_is_gone_vanishes() -> None:
    net = upstream()
    net.pages[CU130] = pytorch(*wheels("2.14.0+cu130"))
    change = found(report(net, "torch"), "2.13 cu130 linux/x86_64")
    assert (change.kind, change.shrinks, change.because) == ("vanished", True, "no wheel of it is listed any more")


def test_builds_with_another_label_are_others() -> None:
    net = upstream()
    net.pages[CU130] = pytorch(*wheels("2.13.0+cu130"), *wheels("2.14.0+cu130.cxx11"))
    assert found(report(net, "torch"), "2.14 cu130 linux/x86_64").kind == "vanished"


# ---- what went -----------------------------------------------------------------------------------------------


def test_a_withdrawn_release_is_marked() -> None:
    net = upstream()
    _, body = net.pages[f"{PYPI}/openvino/"]
    document = json.loads(body)
    for file in document["files"]:
        file["yanked"] = "broken" if "2026.4.0" in file["filename"] else False
    net.pages[f"{PYPI}/openvino/"] = (JSON, json.dumps(document))
    change = found(report(net, "openvino"), "2026.4.0")
    assert (change.now, change.shrinks) == ({"yanked": True}, True)


def test_a_release_that_is_gone_vanishes() -> None:
    net = upstream()
    edit(net, "openvino", lambda file: "2026.4.0" not in file["filename"])
    result = report(net, "openvino", force=True)
    assert labels(result, "vanished") == ["openvino 2026.4.0", "openvino 2026.4.0 openvino linux/x86_64"]


@pytest.mark.parametrize("gone", [True, False])
def test_an_index_that_shrank_suddenly_is_not_believed(gone: bool) -> None:
    net = upstream()
    if gone:
        del net.pages[f"{PYPI}/openvino/"]
    else:
        edit(net, "openvino", lambda file: False)
    result = report(net, "openvino")
    assert [place.state for place in result.places] == ["refused"]
    assert result.changes == ()
    assert result.refused[0].why == (
        "says that it knows no openvino, of which the matrix has 1 release"
        if gone
        else "shrank suddenly: 1 of 1 release that the matrix has from it are no longer listed"
    )


@pytest.mark.parametrize(
    ("lost", "of", "refused"),
    [(1, 9, False), (2, 9, False), (3, 9, False), (4, 9, True), (3, 8, True), (2, 4, False), (3, 3, True)],
)
def test_how_much_may_go_at_once(lost: int, of: int, refused: bool) -> None:
    from envkit.matrix.refresh.listings import File as Listed
    from envkit.matrix.refresh.listings import Listing, Wheel
    from envkit.matrix.refresh.upstream import sudden_loss
    from envkit.model import Build, Framework, FrameworkRelease

    versions = [f"1.{number}" for number in range(of)]
    framework = Framework(
        name="x",
        package="x",
        index="pypi",
        releases=tuple(FrameworkRelease(version=version) for version in versions),
        builds=(Build(release="1", tag="cpu", platforms=("linux/x86_64",), local=""),),
    )
    there = tuple(
        Wheel(file=Listed(name="x"), version=version, local="", platforms={"any": ""}, python="") for version in versions[lost:]
    )
    listing = Listing(index="pypi", name="x", place="x", files=(), wheels=there)
    assert bool(sudden_loss(framework, ("pypi", "x"), listing)) is refused


def test_an_unbelievable_page_leaves_the_others_compared() -> None:
    net = upstream()
    net.pages[f"{PYPI}/jax/"] = Distrusted("answered 500 Internal Server Error")
    result = report(net)
    assert [(place.url, place.why) for place in result.refused] == [(f"{PYPI}/jax/", "answered 500 Internal Server Error")]
    assert not [change for change in result.changes if change.table.startswith("framework.jax")]
    assert found(result, "2026.4.1").kind == "new"


def test_unreachable_indexes_are_said_and_their_rows_left_alone() -> None:
    result = report(upstream(), "torch")
    assert [place.url for place in result.unreachable] == [
        CU130,
        "https://download.pytorch.org/whl/cpu/torch/",
        CU132,
    ]
    assert labels(result, "vanished") == []


def test_unknown_names_are_said() -> None:
    with pytest.raises(UsageError, match="unknown framework 'torhc'; did you mean 'torch'"):
        report(upstream(), "torhc")


# ---- metadata ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("project", "version", "cuda", "pin"),
    [
        ("torch", "2.15.0", "13.2", ""),
        ("torch", "2.14.1", "13.0", ""),
        ("torch-npu", "2.9.1", "", "2.9.1+cpu"),
        ("torch-directml", "0.2.5.dev240914", "", "2.4.1"),
        ("openvino", "2026.4.1", "", ""),
    ],
)
def test_what_saved_metadata_says(project: str, version: str, cuda: str, pin: str) -> None:
    metadata = parse_metadata((SAVED / f"{project}-{version}.METADATA").read_text(encoding="utf-8"))
    assert (metadata.version, metadata.cuda(), metadata.pin_of("torch")) == (version, cuda, pin)


def test_metadata_on_companions() -> None:
    vision = parse_metadata((SAVED / "torchvision-0.29.2.METADATA").read_text(encoding="utf-8"))
    assert [vision.allows("torch", version) for version in ("2.13.0", "2.14.0", "2.15.0")] == [False, True, True]
    assert vision.allows("jax", "1") is None


@pytest.mark.parametrize("text", ["", "<html>", "Name: torch\n", "Metadata-Version: 2.1\nVersion: 1\nRequires-Dist: a b c\n"])
def test_what_is_no_metadata_is_not_believed(text: str) -> None:
    with pytest.raises(Distrusted):
        parse_metadata(text)


@pytest.mark.parametrize(
    ("word", "value", "floors", "exact", "wrong"),
    [
        ("macos", "11.0", {"11.0", "14.0"}, True, False),  # the wheels of some Pythons need more
        ("macos", "10.9", {"11.0", "14.0"}, True, True),
        ("macos", "15.0", {"14.0"}, True, False),  # MPS needs more than the wheel
        ("macos", "", {"14.0"}, True, True),
        ("glibc", "2.28", {"2.28"}, True, False),
        ("glibc", "2.17", {"2.28"}, True, True),
        ("glibc", "2.34", {"2.28"}, True, True),
        ("glibc", "2.34", {"2.28"}, False, False),  # what it needs besides may ask for more
        ("glibc", "2.17", {"2.28"}, False, True),
        ("glibc", "2.5", {"2.5", "2.17"}, True, False),
    ],
)
def test_which_floor_contradicts_the_wheels(word: str, value: str, floors: set[str], exact: bool, wrong: bool) -> None:
    from envkit.matrix.refresh.compare import _contradicts

    assert _contradicts(word, value, floors, exact=exact) is wrong
