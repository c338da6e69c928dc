"""Vendors' lists of drivers: Packages files, repodata, folders; broken ones included."""

from __future__ import annotations

import gzip
import lzma
from dataclasses import replace

import pytest

from envkit.matrix import load
from envkit.matrix.refresh import Options, refresh
from envkit.matrix.refresh.drivers import newest_of_branches, read_drivers
from envkit.matrix.refresh.net import Distrusted
from envkit.model import Backend, Dotted, DriverBranch, DriverList

from .refresh_fake import MATRIX, FakeNet, Settings, upstream

URL = "https://repo.example/list/"

# As NVIDIA's list for Ubuntu is written: with the branch in the name up to 580, without it from 590 on.
PACKAGES = """Package: nvidia-driver-580
Version: 580.95.05-0ubuntu1
Architecture: amd64
Depends: nvidia-dkms-580 (= 580.95.05-0ubuntu1)

Package: nvidia-driver-580-open
Version: 580.105.08-0ubuntu1
Architecture: amd64

Package: nvidia-driver
Version: 1:625.10.02-1
Architecture: amd64

Package: nvidia-settings
Version: 999.1-1
Architecture: amd64
"""

REPOMD = """<?xml version="1.0"?>
<repomd xmlns="http://linux.duke.edu/metadata/repo">
  <data type="filelists"><location href="repodata/f.xml.gz"/></data>
  <data type="primary"><location href="repodata/p.xml.gz"/></data>
</repomd>
"""
PRIMARY = """<?xml version="1.0"?>
<metadata xmlns="http://linux.duke.edu/metadata/common" packages="2">
  <package type="rpm"><name>nvidia-driver</name><version epoch="3" ver="580.105.08" rel="1.el9"/></package>
  <package type="rpm"><name>other</name><version epoch="0" ver="1.2" rel="1"/></package>
</metadata>
"""
FOLDERS = (
    '<html><body><a href="../">..</a><a href="30.10.2/">x</a><a href="/amdgpu/31.30/">x</a><a href="latest/">x</a></body></html>'
)


def read(kind: str, *pages: tuple[str, str | bytes], package: str = "nvidia-driver") -> list[str]:
    net = FakeNet({URL + name: ("", body) for name, body in pages})
    return [str(version) for version in read_drivers(net, DriverList(kind=kind, url=URL, package=package), URL)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "pack", [str.encode, lambda text: gzip.compress(text.encode()), lambda text: lzma.compress(text.encode())]
)
def test_a_packages_file(pack: object) -> None:
    assert read("apt", ("", pack(PACKAGES))) == ["580.95.05", "580.105.08", "625.10.02"]  # type: ignore[operator]


def test_an_rpm_repository() -> None:
    pages = (("repodata/repomd.xml", REPOMD), ("repodata/p.xml.gz", gzip.compress(PRIMARY.encode())))
    assert read("rpm", *pages) == ["580.105.08"]


def test_folders_named_by_release() -> None:
    assert read("folders", ("", FOLDERS), package="") == ["30.10.2", "31.30"]


@pytest.mark.parametrize(
    ("kind", "pages", "why"),
    [
        ("apt", [("", "<html>sign in</html>")], "no list of packages"),
        ("apt", [("", gzip.compress(PACKAGES.encode())[:-20])], "cut short or is damaged"),
        ("apt", [("", PACKAGES.rpartition("Version")[0])], "a package has no version"),
        ("apt", [("", "Package: other\nVersion: 1.0\n")], "names no nvidia-driver"),
        ("rpm", [("repodata/repomd.xml", "<repomd")], "cut short or is damaged"),
        ("rpm", [("repodata/repomd.xml", "<a/>")], "names no list of packages"),
        ("rpm", [("repodata/repomd.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')], "no plain XML"),
        ("rpm", [("repodata/repomd.xml", REPOMD), ("repodata/p.xml.gz", PRIMARY[:-40])], "cut short or is damaged"),
        ("folders", [("", FOLDERS[:-20])], "cut short"),
        ("folders", [("", "<html><body><a href='x'>x</a></body></html>")], "names no nvidia-driver"),
        ("folders", [("", "plain")], "no page of links"),
    ],
)
def test_what_is_no_whole_list_is_not_believed(kind: str, pages: list[tuple[str, str | bytes]], why: str) -> None:
    with pytest.raises(Distrusted, match=why):
        read(kind, *pages)


@pytest.mark.parametrize(
    ("branch", "newest"),
    [
        ("580", {"580": "580.105.08", "590": "590.1"}),
        ("30.10", {"580.95": "580.95.05", "580.105": "580.105.08", "590.1": "590.1"}),
    ],
)
def test_a_branch_is_as_long_as_the_matrix_has_it(branch: str, newest: dict[str, str]) -> None:
    backend = Backend(name="x", vendor="", title="", device="", branches=(DriverBranch(branch=Dotted(branch)),))
    assert newest_of_branches(backend, [Dotted("580.95.05"), Dotted("580.105.08"), Dotted("590.1")]) == newest


def test_a_new_branch_is_proposed() -> None:
    matrix = load(MATRIX)
    cuda = matrix.backends["cuda"]
    branches = (DriverBranch(branch=Dotted("580")), DriverBranch(branch=Dotted("620")))
    lists = (DriverList(kind="apt", url=URL, package="nvidia-driver"),)
    matrix = replace(matrix, backends={**matrix.backends, "cuda": replace(cuda, branches=branches, driver_lists=lists)})
    net = upstream()
    net.pages[URL] = ("", PACKAGES)
    report = refresh(matrix, Settings(), Options(only=("drivers",)), net=net)  # type: ignore[arg-type]
    assert report.drivers == {"cuda": {"580": "580.105.08", "625": "625.10.02"}}
    [change] = report.changes
    assert (change.table, change.row) == (
        "backend.cuda.branch",
        {"branch": "625", "note": "newest driver seen: 625.10.02", "source": "driver-list-nvidia-driver"},
    )
    assert [source.url for source in report.sources] == [URL]


def test_every_list_of_the_matrix_names_its_package() -> None:
    lists = [row for backend in load().backends.values() for row in backend.driver_lists]
    assert {row.kind for row in lists} == {"apt", "rpm", "folders"}
    assert all(row.package or row.kind == "folders" for row in lists)
