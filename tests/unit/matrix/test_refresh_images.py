"""Images at their registries: references, tokens, tags, digests; and matrix check --online."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
import jsonschema
import pytest
from click.testing import CliRunner

from envkit.cli import app
from envkit.data import packaged
from envkit.matrix import load
from envkit.matrix.refresh import check_online
from envkit.matrix.refresh.images import Image, Seen, compare_images, look, newer_tags, parse_image
from envkit.matrix.refresh.net import Answer, Distrusted, Unreachable
from envkit.model import Container

from .refresh_fake import MATRIX, FakeNet, Settings, upstream

HUB = "https://registry-1.docker.io/v2/library/debian"
DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("reference", "image"),
    [
        ("debian:bookworm-slim", ("registry-1.docker.io", "library/debian", "bookworm-slim", "")),
        ("ubuntu", ("registry-1.docker.io", "library/ubuntu", "latest", "")),
        ("nvidia/cuda:13.0.0-base-ubuntu24.04", ("registry-1.docker.io", "nvidia/cuda", "13.0.0-base-ubuntu24.04", "")),
        ("docker.io/library/debian:12", ("registry-1.docker.io", "library/debian", "12", "")),
        ("quay.io/ascend/cann:9.0.0-910b-ubuntu22.04-py3.11", ("quay.io", "ascend/cann", "9.0.0-910b-ubuntu22.04-py3.11", "")),
        ("localhost:5000/a/b:c", ("localhost:5000", "a/b", "c", "")),
        (f"ghcr.io/a/b:c@{DIGEST}", ("ghcr.io", "a/b", "c", DIGEST)),
    ],
)
def test_references_are_read_as_docker_reads_them(reference: str, image: tuple[str, str, str, str]) -> None:
    found = parse_image(reference)
    assert (found.registry, found.name, found.tag, found.digest) == image


@pytest.mark.parametrize(
    ("tag", "newer"),
    [
        ("13.0.0-base-ubuntu24.04", ["13.10.1-base-ubuntu24.04", "13.2.0-base-ubuntu24.04"]),
        ("13.10.1-base-ubuntu24.04", []),
        ("24.04", ["26.04"]),
        ("v1.2", ["v1.10"]),
        ("bookworm-slim", []),
        ("latest", []),
    ],
)
def test_newer_tags_are_those_that_are_named_alike(tag: str, newer: list[str]) -> None:
    tags = [
        "13.0.0-base-ubuntu24.04",
        "13.2.0-base-ubuntu24.04",
        "13.10.1-base-ubuntu24.04",
        "13.2.0-base-ubuntu26.04",
        "13.2.0-devel-ubuntu24.04",
        "14-base-ubuntu24.04",
        "24.04",
        "26.04",
        "v1.2",
        "v1.10",
        "bookworm-slim",
        "trixie-slim",
        "latest",
    ]
    assert list(newer_tags(tag, tags)) == newer


class Registry(FakeNet):
    """Docker Hub in small: a token for everybody, two pages of tags."""

    def __init__(self, token: str = "abc") -> None:
        super().__init__()
        self.token = token

    def get(self, url: str, headers: Mapping[str, str] | None = None, **options: Any) -> Answer:
        """As a registry answers."""
        self.asked.append(f"{options.get('method', 'GET')} {url}")

        def answer(status: int, body: object = None, **more: str) -> Answer:
            named = {name.replace("_", "-"): value for name, value in more.items()}
            return Answer(url=url, status=status, kind="", body=json.dumps(body).encode() if body else b"", headers=named)

        if url.startswith("https://auth.example/token?"):
            assert url.endswith("service=registry.example&scope=repository%3Alibrary%2Fdebian%3Apull")
            return answer(200, {"token": self.token}) if self.token else answer(403)
        if (headers or {}).get("Authorization") != "Bearer abc":
            return answer(401, www_authenticate='Bearer realm="https://auth.example/token",service="registry.example",scope="x"')
        if url == f"{HUB}/manifests/12":
            return answer(200, docker_content_digest=DIGEST)
        if url == f"{HUB}/tags/list?n=1000":
            return answer(200, {"tags": ["12", "13"]}, link='</v2/library/debian/tags/list?n=1000&last=13>; rel="next"')
        if url == f"{HUB}/tags/list?n=1000&last=13":
            return answer(200, {"tags": ["14"]})
        return answer(404)


def image(tag: str) -> Image:
    return parse_image(f"debian:{tag}")


def test_a_registry_gives_everybody_a_token() -> None:
    net = Registry()
    assert look(net, Settings(), image("12"), tags=True) == Seen(there=True, digest=DIGEST, tags=("12", "13", "14"))  # type: ignore[arg-type]
    assert net.asked[0] == f"HEAD {HUB}/manifests/12"
    assert not look(net, Settings(), image("99")).there  # type: ignore[arg-type]


def test_a_registry_that_wants_a_login_says_nothing() -> None:
    with pytest.raises(Unreachable, match="without a login"):
        look(Registry(token=""), Settings(), image("12"))  # type: ignore[arg-type]
    with pytest.raises(Unreachable, match="wants a login"):
        look(Registry(token="other"), Settings(), image("12"))  # type: ignore[arg-type]


@pytest.mark.parametrize("body", [b"<html>", b'{"tags": null}', b'{"tags": [1]}', b"[]", b'{"tags": ["a"'])
def test_what_is_no_list_of_tags_is_not_believed(body: bytes) -> None:
    net = FakeNet({f"{HUB}/manifests/12": ("", b"x"), f"{HUB}/tags/list?n=1000": ("", body)})
    with pytest.raises(Distrusted):
        look(net, Settings(), image("12"), tags=True)  # type: ignore[arg-type]


def with_container(digest: str = "") -> Any:
    matrix = load(MATRIX)
    scheme = matrix.schemes["linux-cuda"]
    container = Container(platform="ubuntu-24.04", base="debian:12", digest=digest)
    return replace(matrix, schemes={"linux-cuda": replace(scheme, container=container, no_container="")})


def test_what_registries_say_of_the_rows() -> None:
    matrix = with_container("sha256:" + "b" * 64)
    gone, newer = compare_images(matrix, {"debian:12": Seen(there=False, tags=("13", "11"))})
    assert gone.because == "its tag is gone; scheme.linux-cuda.container.base name it"
    assert newer.because == "newer tags like it: 13"
    [pushed] = compare_images(matrix, {"debian:12": Seen(there=True, digest=DIGEST)})
    assert (pushed.table, pushed.now) == ("scheme.linux-cuda.container", {"digest": DIGEST})
    assert list(compare_images(matrix, {"debian:12": Seen(there=True)})) == []


# ---- matrix check --online ---------------------------------------------------------------------------------------


def test_online_what_is_gone_is_a_fault_and_what_is_not_reached_is_unknown() -> None:
    net = upstream()
    net.pages[f"{HUB}/manifests/12"] = Answer(url="", status=404, kind="", body=b"")
    net.pages[f"{HUB}/tags/list?n=1000"] = ("", b'{"tags": []}')
    asked = check_online(with_container(), Settings(), net=net)  # type: ignore[arg-type]
    assert asked.faults == (
        "images debian:12: its tag is gone; scheme.linux-cuda.container.base name it "
        "(https://registry-1.docker.io/v2/library/debian)",
    )
    assert len(asked.unknown) == 3
    assert not asked.nothing_reached


def run(*arguments: str) -> Any:
    command = click.Command("envkit", callback=lambda: sys.exit(app.run(["matrix", "check", *arguments])))
    return CliRunner().invoke(command, [])


def test_the_command_online(monkeypatch: pytest.MonkeyPatch) -> None:
    net = upstream()
    monkeypatch.setattr("envkit.matrix.refresh.refreshing.Net", lambda *_, **__: net)
    result = run("--online", str(MATRIX))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-2:] == [
        "unknown: https://download.pytorch.org/whl/cu132/torch/: Name or service not known",
        "online: 8 places asked, 0 missing or not to be believed, 3 unknown",
    ]
    del net.pages["https://pypi.org/simple/openvino/"]
    result = run("--online", str(MATRIX), "--format", "json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    jsonschema.validate(document, json.loads(packaged("schemas/matrix-check.json").read_text(encoding="utf-8")))
    assert document["healthy"] is False
    assert document["online"]["faults"] == [
        "https://pypi.org/simple/openvino/: says that it knows no openvino, of which the matrix has 1 release"
    ]


def test_the_command_online_without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    result = run("--online", str(MATRIX))
    assert result.exit_code == 5
    assert "no place could be reached" in result.stderr
