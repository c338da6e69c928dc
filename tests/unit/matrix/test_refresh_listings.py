"""Listings of package indexes are read strictly: what is not whole, or no listing of the project, is not believed."""

from __future__ import annotations

import json

import pytest

from envkit.matrix.refresh.listings import File, parse_listing, read_listing, wheel_of
from envkit.matrix.refresh.net import Answer, Distrusted

from .refresh_fake import JSON, PYPI, SAVED, FakeNet, saved

HTML = """<!DOCTYPE html>
<html>
  <body>
    <h1>Links for torch</h1>
    <a href="/whl/cu130/torch-2.14.0%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl#sha256=ab"
       data-core-metadata="sha256=cd">torch</a><br/>
    <a href="/whl/cu130/torch-2.13.0%2Bcu130-cp312-cp312-win_amd64.whl#sha256=ab" data-yanked="broken">torch</a><br/>
  </body>
</html>
<!--TIMESTAMP 1764550000-->
"""


def answer(body: str | bytes, kind: str = "text/html") -> Answer:
    raw = body.encode() if isinstance(body, str) else body
    return Answer(url="https://download.pytorch.org/whl/cu130/torch/", status=200, kind=kind, body=raw)


def test_a_page_of_links_gives_names_addresses_and_what_its_attributes_say() -> None:
    files = parse_listing(answer(HTML), "torch")
    assert [(file.name, file.yanked, file.metadata) for file in files] == [
        ("torch-2.14.0+cu130-cp312-cp312-manylinux_2_28_x86_64.whl", False, True),
        ("torch-2.13.0+cu130-cp312-cp312-win_amd64.whl", True, False),
    ]
    assert files[0].url == ("https://download.pytorch.org/whl/cu130/torch-2.14.0%2Bcu130-cp312-cp312-manylinux_2_28_x86_64.whl")


def test_pypi_as_saved() -> None:
    listing = read_listing(FakeNet(saved("torch")), "pypi", PYPI, "torch")
    assert {wheel.version for wheel in listing.wheels} == {"2.0.1", "2.13.0", "2.14.0", "2.14.1", "2.15.0"}
    found = listing.of("2.15.0")
    assert {wheel.python for wheel in found} == {"3.11", "3.12", "3.13", "3.14", "3.14t", "3.15", "3.15t"}
    assert {(platform, floor) for wheel in found for platform, floor in wheel.platforms.items()} == {
        ("linux/x86_64", "2.28"),
        ("linux/aarch64", "2.28"),
        ("macos/arm64", "14.0"),
        ("windows/x86_64", ""),
    }
    assert min(wheel.file.date for wheel in found) == "2026-10-28"
    assert {floor for wheel in listing.of("2.0.1") for floor in wheel.platforms.values()} == {"2.5", "2.17", "10.9", "11.0", ""}


@pytest.mark.parametrize(
    ("body", "kind", "why"),
    [
        ("", "text/html", "answered an empty page"),
        ("  \n", JSON, "answered an empty page"),
        (HTML[:300], "text/html", "its page was cut short: it has no end"),
        ('<a href="a.whl">a</a><a href="b.whl">b', "text/html", "its page was cut short: its last link has no end"),
        ("Service temporarily unavailable", "text/html", "answered something that is no page of links"),
        (b"\xff\xfe<a href='x'>", "text/html", "answered something that is no UTF-8 text"),
        (HTML, "application/octet-stream", "answered application/octet-stream, which is no listing"),
        ('{"files": [{"filename": "a.whl", "url"', JSON, "answered JSON that is not whole"),
        (HTML, JSON, "answered JSON that is not whole"),
        ('["a"]', JSON, "answered JSON that lists no files"),
        ('{"message": "rate limit"}', "application/json", "answered JSON that lists no files"),
        ('{"name": "torch", "files": [{"url": "x"}]}', JSON, "lists a file without name or address"),
        ('{"name": "torchy", "files": []}', JSON, "answered the listing of another project (torchy)"),
        ('{"meta": {"api-version": "2.0"}, "files": []}', JSON, "speaks version 2.0 of the simple API, which is not known"),
    ],
)
def test_what_is_no_whole_listing_is_not_believed(body: str | bytes, kind: str, why: str) -> None:
    with pytest.raises(Distrusted) as caught:
        parse_listing(answer(body, kind), "torch")
    assert str(caught.value) == why


def test_every_cut_of_a_saved_page_is_seen() -> None:
    whole = (SAVED / "openvino.json").read_bytes()
    for length in range(1, len(whole.rstrip()), 97):
        with pytest.raises(Distrusted):
            parse_listing(answer(whole[:length], JSON), "openvino")


def test_a_project_that_an_index_does_not_know() -> None:
    assert not read_listing(FakeNet(), "pypi", PYPI, "nothing").known


def test_an_index_that_is_one_page_of_links() -> None:
    links = '<a href="torch-2.9.1%2Brocm7.2.1-cp312-cp312-win_amd64.whl">t</a><a href="rocm-7.2.1.tar.gz">r</a>'
    page = f"<html><body>{links}</body></html>"
    base = "https://repo.example/rocm/windows/"
    gone = Answer(url=base, status=404, kind="", body=b"")
    net = FakeNet({f"{base}torch/": gone, f"{base}numpy/": gone, base: ("text/html", page)})
    listing = read_listing(net, base, base, "torch")
    assert [(wheel.version, wheel.local) for wheel in listing.wheels] == [("2.9.1", "+rocm7.2.1")]
    assert not read_listing(net, base, base, "numpy").known


@pytest.mark.parametrize(
    ("name", "python", "or_newer", "platforms"),
    [
        ("torch-2.0.1-1-cp311-cp311-manylinux2014_aarch64.whl", "3.11", False, {"linux/aarch64": "2.17"}),
        ("torch-1.13.1-cp310-cp310-manylinux1_x86_64.whl", "3.10", False, {"linux/x86_64": "2.5"}),
        ("torch-2.7.0-cp313-cp313t-macosx_14_0_arm64.whl", "3.13t", False, {"macos/arm64": "14.0"}),
        ("torch-2.1.0-cp310-none-macosx_10_9_x86_64.whl", "3.10", False, {"macos/x86_64": "10.9"}),
        ("torch-2.1.0-cp310-cp310-linux_aarch64.whl", "3.10", False, {"linux/aarch64": ""}),
        ("torch-2.1.0-cp39-abi3-win_arm64.whl", "3.9", True, {"windows/arm64": ""}),
        ("torch-2.1.0-py3-none-any.whl", "", False, {"any": ""}),
        (
            "torch-2.1.0-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.manylinux_2_28_x86_64.whl",
            "3.11",
            False,
            {"linux/x86_64": "2.17"},
        ),
        ("torch-2.1.0-cp311-cp311-macosx_11_0_universal2.whl", "3.11", False, {"macos/arm64": "11.0", "macos/x86_64": "11.0"}),
    ],
)
def test_what_a_wheel_is_named(name: str, python: str, or_newer: bool, platforms: dict[str, str]) -> None:
    wheel = wheel_of(File(name=name), "torch")
    assert wheel is not None
    assert (wheel.python, wheel.or_newer, dict(wheel.platforms)) == (python, or_newer, platforms)


@pytest.mark.parametrize(
    "name",
    [
        "torch-2.1.0.tar.gz",
        "torchvision-0.1.0-cp311-cp311-win_amd64.whl",
        "torch-2.1.0-cp311-cp311-win32.whl",
        "torch-2.1.0-cp311-cp311-musllinux_1_2_x86_64.whl",
        "torch-2.1.0-pp310-pypy310_pp73-win_amd64.whl",
        "torch-abc-cp311-cp311-win_amd64.whl",
        "torch.whl",
    ],
)
def test_files_that_no_row_is_about(name: str) -> None:
    assert wheel_of(File(name=name), "torch") is None


def test_the_saved_pages_are_whole_documents() -> None:
    for path in SAVED.glob("*.json"):
        assert json.loads(path.read_text(encoding="utf-8"))["files"], path
