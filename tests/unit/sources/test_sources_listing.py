"""What pages and folders are read as, and what becomes an offer. Local places only; servers are in the integration tests."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from lab.fake_wheels import make_index, make_wheel

from envkit.model import Build, Framework
from envkit.sources import Index, Sources, listing, look
from envkit.sources.listing import read_html

BASE = "https://index.example/whl/cpu/torch/"


def framework(index: str, *tags: str) -> Framework:
    builds = tuple(Build(release="2.7", tag=tag, platforms=("linux/x86_64",)) for tag in tags)
    return Framework(name="torch", package="torch", index=index, builds=builds)


def links(*places: Path) -> tuple[Index, ...]:
    return tuple(Index(url=str(place), flat=True, origin="PIP_FIND_LINKS") for place in places)


def versions(found: listing.Found) -> set[str]:
    return {f"{wheel.name} {wheel.version}" for wheel in found.wheels}


# ---- pages -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("anchor", "name", "url", "metadata", "yanked"),
    [
        (
            '<a href="../../torch-2.7.1%2Bcpu-x.whl#sha256=1">t</a>',
            "torch-2.7.1+cpu-x.whl",
            f"{BASE[:-10]}torch-2.7.1%2Bcpu-x.whl",
            False,
            False,
        ),
        (
            '<A HREF="/whl/a.whl" data-dist-info-metadata="sha256=1">a</A>',
            "a.whl",
            "https://index.example/whl/a.whl",
            True,
            False,
        ),
        ('<a href="a.whl" data-core-metadata="false">a</a>', "a.whl", f"{BASE}a.whl", False, False),
        ("<a data-yanked=\"\" href='a.whl'>a</a>", "a.whl", f"{BASE}a.whl", False, True),
        ('<a href="https://cdn.example/a.whl?x=1&amp;y=2">a', "a.whl", "https://cdn.example/a.whl?x=1&y=2", False, False),
        ('<base href="https://cdn.example/b/"><a href="a.whl">a</a>', "a.whl", "https://cdn.example/b/a.whl", False, False),
    ],
)
def test_html_pages(anchor: str, name: str, url: str, metadata: bool, yanked: bool) -> None:
    (file,) = read_html(f"<!DOCTYPE html><html><body>{anchor}<a name=x></a><a href=''></a></body>", BASE)
    assert (file.name, file.url, file.metadata, file.yanked) == (name, url, metadata, yanked)


def test_json_pages() -> None:
    rows = [
        {"filename": "a.whl", "url": "a.whl", "core-metadata": {"sha256": "1"}},
        {"filename": "b.whl", "url": "https://cdn.example/b.whl", "yanked": "broken", "dist-info-metadata": False},
    ]
    page = listing._read_json(json.dumps({"files": rows}), BASE)
    assert page.files is not None
    assert [(file.url, file.metadata, file.yanked) for file in page.files] == [
        (f"{BASE}a.whl", True, False),
        ("https://cdn.example/b.whl", False, True),
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"files": 3}', '{"files": [{"url": "x"}]}', '{"files": ["x"]}'])
def test_broken_json_is_no_answer(text: str) -> None:
    assert listing._read_json(text, BASE).files is None


@pytest.mark.parametrize("text", ["", "<html", "not html at all", "<a href=", "\x00\x01"])
def test_broken_html_lists_nothing(text: str) -> None:
    assert read_html(text, BASE) == []


# ---- looking -----------------------------------------------------------------------------------------------------


def test_folders_and_local_indexes_are_looked_through(tmp_path: Path) -> None:
    index = make_index(
        tmp_path / "whl" / "cpu", [("torch", "2.7.0+cpu", ()), ("torchvision", "0.22.0+cpu", ()), ("numpy", "9", ())]
    )
    make_wheel(tmp_path / "links", "torch", "2.7.1+cpu", tag="cp311-cp311-manylinux_2_28_x86_64")
    make_wheel(tmp_path / "links", "torchaudio", "2.7.1+cpu")
    sources = Sources(find_links=links(tmp_path / "links"))
    url = f"{(tmp_path / 'whl').as_uri()}/{{tag}}"
    found = look(sources, framework(url, "cpu"), ["cpu"], companions=["torchvision"])
    assert versions(found) == {"torch 2.7.0+cpu", "torch 2.7.1+cpu", "torchvision 0.22.0+cpu"}
    assert dict(found.indexes) == {index.as_uri(): True}
    assert found.places == (
        f"{tmp_path / 'links'} (torch 2.7.1+cpu)",
        f"{index.as_uri()} (torch up to 2.7.0+cpu, torchvision up to 0.22.0+cpu)",
    )
    (linked,) = [wheel for wheel in found.wheels if wheel.version == "2.7.1+cpu"]
    assert linked.tags == frozenset({"cp311-cp311-manylinux_2_28_x86_64"})


def test_only_the_indexes_of_the_tags_and_the_platform_are_asked(tmp_path: Path) -> None:
    builds = (
        Build(release="2.7", tag="cpu", platforms=("linux/x86_64",), index=(tmp_path / "cpu").as_uri()),
        Build(release="2.7", tag="cpu", platforms=("macos/arm64",), index="https://elsewhere.example"),
        Build(release="2.7", tag="cu128", platforms=("linux/x86_64",), index="https://elsewhere.example"),
    )
    shape = Framework(name="torch", package="torch", index="https://nowhere.example/{tag}", builds=builds)
    make_index(tmp_path / "cpu", [("torch", "2.7.0", ())])
    assert list(look(Sources(), shape, ["cpu"], platform="linux/x86_64").indexes) == [(tmp_path / "cpu").as_uri()]


def test_an_index_that_does_not_know_the_project_has_answered(tmp_path: Path) -> None:
    (tmp_path / "whl" / "cpu").mkdir(parents=True)
    found = look(Sources(), framework(f"{(tmp_path / 'whl').as_uri()}/{{tag}}", "cpu"), ["cpu"])
    assert (list(found.indexes.values()), found.wheels, dict(found.faults)) == ([True], (), {})


def test_an_index_that_cannot_be_reached_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_host(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(listing, "fetch", no_such_host)
    url = "https://me:secret@index.example/whl/cpu"
    found = look(Sources(), framework("https://me:secret@index.example/whl/{tag}", "cpu"), ["cpu"])
    assert dict(found.indexes) == {url: False}
    assert found.places == ("https://***@index.example/whl/cpu (did not answer: Name or service not known)",)


@pytest.mark.parametrize(
    ("key", "why"),
    [("no_index", "not asked: the settings forbid indexes"), ("offline", "not asked: the settings forbid the network")],
)
def test_indexes_are_not_asked_where_the_settings_forbid_it(tmp_path: Path, key: str, why: str) -> None:
    make_wheel(tmp_path, "torch", "2.7.1+cpu")
    found = look(Sources(find_links=links(tmp_path), **{key: True}), framework("https://index.example/{tag}", "cpu"), ["cpu"])  # type: ignore[arg-type]
    assert (versions(found), dict(found.indexes)) == ({"torch 2.7.1+cpu"}, {})
    assert dict(found.faults) == {"https://index.example/cpu": why}


def test_a_mirror_that_is_one_flat_page_is_read_as_such(tmp_path: Path) -> None:
    make_wheel(tmp_path / "mirror" / "cpu", "torch", "2.7.1+cpu")
    sources = Sources(mirrors={"https://index.example/whl": (tmp_path / "mirror").as_uri()})
    found = look(sources, framework("https://index.example/whl/{tag}", "cpu"), ["cpu"])
    assert (versions(found), found.flat) == ({"torch 2.7.1+cpu"}, {"https://index.example/whl/cpu"})


def test_the_users_constraints_leave_wheels_out(tmp_path: Path) -> None:
    for version in ("2.6.0+cpu", "2.7.0+cpu", "2.7.1+cpu"):
        make_wheel(tmp_path / "links", "torch", version)
    file = tmp_path / "constraints.txt"
    file.write_text("# the company's\nTorch<2.7  # measured\nnumpy<2 ; python_version < '3'\n-r other\n", encoding="utf-8")
    sources = Sources(find_links=links(tmp_path / "links"), constraints=(str(file),))
    found = look(sources, framework("https://index.example/{tag}"), [])
    assert versions(found) == {"torch 2.6.0+cpu"}
    assert found.places[-1] == f"constraint torch<2.7 in {file} (leaves out 2 wheels)"


def test_files_that_are_no_wheels_are_passed_over(tmp_path: Path) -> None:
    for name in (
        "torch-2.7.1.tar.gz",
        "torch-x.whl",
        "torch-1-1-1-1-1-1-1.whl",
        "torch.whl",
        "readme",
        "torch-2.7.1-py3-none-any.whl.metadata",
    ):
        (tmp_path / name).touch()
    assert look(Sources(find_links=links(tmp_path)), framework("https://index.example/{tag}"), []).wheels == ()


def test_withdrawn_wheels_are_no_offers(tmp_path: Path) -> None:
    page = '<a href="torch-2.7.0-py3-none-any.whl" data-yanked="broken">x</a><a href="torch-2.7.1-py3-none-any.whl">x</a>'
    (tmp_path / "index.html").write_text(page, encoding="utf-8")
    assert versions(look(Sources(find_links=links(tmp_path)), framework("https://index.example/{tag}"), [])) == {"torch 2.7.1"}


def test_a_folder_that_is_missing_is_said_to_be(tmp_path: Path) -> None:
    found = look(Sources(find_links=links(tmp_path / "no")), framework("https://index.example/{tag}"), [])
    assert found.places == (f"{tmp_path / 'no'} (does not exist)",)
