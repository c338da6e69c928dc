"""Upstream as tests need it: saved pages behind the interface of `Net`, and settings without a network."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envkit.matrix.refresh.net import Answer, Trouble, Unreachable

SAVED = Path(__file__).resolve().parents[2] / "fixtures/refresh"
MATRIX = SAVED / "matrix.toml"
JSON = "application/vnd.pypi.simple.v1+json"
PYPI = "https://pypi.org/simple"


class Settings:
    """Settings of a user who has none."""

    certificates = client_certificate = proxy = ""
    trusted_hosts: tuple[str, ...] = ()
    offline = False
    environ: Mapping[str, str] = {}

    def mirrored(self, url: str) -> str:
        """The address itself."""
        return PYPI if url == "pypi" else url


class FakeNet:
    """Serves saved pages, bodies and troubles by their address; PyPI knows no others, and other hosts are not reached."""

    def __init__(self, pages: Mapping[str, Any] | None = None) -> None:
        self.pages: dict[str, Any] = dict(pages or {})
        self.asked: list[str] = []
        self.bytes_read = self.requests = 0

    def get(self, url: str, headers: Mapping[str, str] | None = None, **_: Any) -> Answer:
        """The page of an address."""
        self.asked.append(url)
        page = self.pages.get(url)
        if isinstance(page, Trouble):
            raise page
        if isinstance(page, Answer):
            return page
        if page is None and not url.startswith(PYPI):
            raise Unreachable("Name or service not known")
        if page is None:
            return Answer(url=url, status=404, kind="", body=b"")
        kind, body = page
        return Answer(url=url, status=200, kind=kind, body=body.encode() if isinstance(body, str) else body)

    def size(self, url: str) -> int:
        """The size of a file."""
        return len(self.pages[url])

    def part(self, url: str, begin: int, end: int) -> bytes:
        """A part of a file."""
        body: bytes = self.pages[url]
        return body[begin:end]


def saved(*names: str) -> dict[str, tuple[str, bytes]]:
    """The saved pages of PyPI for some projects."""
    return {f"{PYPI}/{name}/": (JSON, (SAVED / f"{name}.json").read_bytes()) for name in names}


def wheel(metadata: str, members: Mapping[str, bytes] | None = None) -> bytes:
    """A wheel with this METADATA and further members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (members or {}).items():
            archive.writestr(name, content)
        archive.writestr("some-1.dist-info/METADATA", metadata)
    return buffer.getvalue()


def with_metadata(net: FakeNet, project: str, version: str, text: str | None = None) -> None:
    """Makes every wheel of a release yield its saved METADATA."""
    import json

    text = text if text is not None else (SAVED / f"{project}-{version}.METADATA").read_text(encoding="utf-8")
    _, body = net.pages[f"{PYPI}/{project}/"]
    document = json.loads(body)
    for file in document["files"]:
        if f"-{version}-" in file["filename"]:
            net.pages[file["url"]] = wheel(text)
            file["size"] = len(net.pages[file["url"]])
    net.pages[f"{PYPI}/{project}/"] = (JSON, json.dumps(document).encode())


def upstream() -> FakeNet:
    """PyPI as it was on 2026-12-01, cut to the releases that the small matrix is about; no other index can be reached."""
    net = FakeNet(
        saved("torch", "torchvision", "torchaudio", "jax", "jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt", "openvino")
    )
    for project, version in (
        ("torch", "2.14.1"),
        ("torch", "2.15.0"),
        ("torchvision", "0.29.2"),
        ("torchaudio", "2.11.1"),
        ("jax", "0.12.0.1"),
        ("openvino", "2026.4.1"),
    ):
        with_metadata(net, project, version)
    with_metadata(
        net, "torchvision", "0.29.0", "Metadata-Version: 2.1\nName: torchvision\nVersion: 0.29.0\nRequires-Dist: torch==2.14.0\n"
    )
    for name in ("jaxlib", "jax-cuda13-plugin", "jax-cuda13-pjrt"):
        for version in ("0.11.2", "0.12.0.1"):
            with_metadata(net, name, version, f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return net
