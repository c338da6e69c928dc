"""Container images of the matrix at their registries (OCI distribution API): whether a tag is there, its digest, newer tags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode, urljoin

from envkit.matrix.refresh.changes import CHANGED, LOOK, Change
from envkit.matrix.refresh.net import Answer, Distrusted, Net, Settings, Unreachable
from envkit.model import Matrix

_DOCKER_HUB = "registry-1.docker.io"
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
_PAGES = 50  # of a list of tags
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A reference, taken apart."""

    registry: str
    name: str
    tag: str
    digest: str = ""

    @property
    def url(self) -> str:
        """Its repository at the registry."""
        return f"https://{self.registry}/v2/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What a registry says of an image."""

    there: bool
    digest: str = ""
    tags: tuple[str, ...] = ()  # all of the repository


def parse_image(reference: str) -> Image:
    """The parts of a reference as Docker reads it: debian:bookworm-slim lies at Docker Hub below library/."""
    rest, _, digest = reference.partition("@")
    first, slash, path = rest.partition("/")
    named = bool(slash) and ("." in first or ":" in first or first == "localhost")
    registry, path = (first, path) if named else (_DOCKER_HUB, rest)
    name, colon, tag = path.rpartition(":")
    if not colon:
        name, tag = path, "latest"
    if registry in ("docker.io", "index.docker.io"):
        registry = _DOCKER_HUB
    if registry == _DOCKER_HUB and "/" not in name:
        name = f"library/{name}"
    return Image(registry=registry, name=name, tag=tag, digest=digest)


def images_of(matrix: Matrix) -> dict[str, list[str]]:
    """The images of the matrix, and the rows that mention each."""
    found: dict[str, list[str]] = {}
    for scheme in matrix.schemes.values():
        if scheme.container:
            for word, image in (("base", scheme.container.base), ("vendor_base", scheme.container.vendor_base)):
                if image:
                    found.setdefault(image, []).append(f"scheme.{scheme.name}.container.{word}")
    for framework in matrix.frameworks.values():
        for build in framework.builds:
            if build.image and build.published is not False:
                found.setdefault(build.image, []).append(f"framework.{framework.name}.build {build.release} {build.tag}")
    return found


# ---- asking ------------------------------------------------------------------------------------------------------


def look(net: Net, settings: Settings, image: Image, *, tags: bool = False) -> Seen:
    """What the registry says of an image. Raises Unreachable (also where it wants a login) or Distrusted."""
    base = settings.mirrored(image.url)
    asked = _Registry(net, image.name)
    answer = asked.get(f"{base}/manifests/{image.digest or image.tag}", {"Accept": _MANIFESTS}, "HEAD")
    if answer.gone:
        return Seen(there=False, tags=_tags(asked, base) if tags else ())
    if answer.status != 200:
        raise Distrusted(f"answered {answer.status}")
    digest = answer.headers.get("docker-content-digest", "")
    return Seen(there=True, digest=digest if _DIGEST.fullmatch(digest) else "", tags=_tags(asked, base) if tags else ())


class _Registry:
    """A repository, with the token that anybody is given for reading it."""

    def __init__(self, net: Net, name: str) -> None:
        self._net = net
        self._name = name
        self._token = ""

    def get(self, url: str, headers: Mapping[str, str], method: str = "GET") -> Answer:
        """An answer; fetches a token where the registry wants one."""
        answer = self._net.get(url, self._with_token(headers), method=method)
        if answer.status == 401 and not self._token:
            self._token = self._ask_token(answer.headers.get("www-authenticate", ""))
            answer = self._net.get(url, self._with_token(headers), method=method)
        if answer.status == 401:
            raise Unreachable("wants a login (401)")
        return answer

    def _with_token(self, headers: Mapping[str, str]) -> dict[str, str]:
        return {**headers, **({"Authorization": f"Bearer {self._token}"} if self._token else {})}

    def _ask_token(self, challenge: str) -> str:
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        if not challenge.lower().startswith("bearer ") or not fields.get("realm", "").startswith(("https://", "http://")):
            raise Unreachable("wants a login (401)")
        query = {"service": fields.get("service", ""), "scope": f"repository:{self._name}:pull"}
        answer = self._net.get(f"{fields['realm']}?{urlencode(query)}")
        document = _document(answer)
        token = document.get("token") or document.get("access_token")
        if answer.status != 200 or not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise Unreachable(f"gives nobody a token without a login ({answer.status})")
        return token


def _tags(registry: _Registry, base: str) -> tuple[str, ...]:
    """All tags of a repository, page by page."""
    found: list[str] = []
    url = f"{base}/tags/list?n=1000"
    for _ in range(_PAGES):
        answer = registry.get(url, {})
        if answer.status != 200:
            raise Distrusted(f"answered {answer.status} for its list of tags")
        document = _document(answer)
        tags = document.get("tags")
        if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise Distrusted("answered something that is no list of tags")
        found += tags
        following = re.search(r'<([^>]+)>\s*;\s*rel="?next"?', answer.headers.get("link", ""))
        if not following:
            return tuple(found)
        url = urljoin(url, following[1])
    raise Distrusted("its list of tags has no end")


def _document(answer: Answer) -> dict[str, object]:
    try:
        document = json.loads(answer.body or b"{}")
    except (ValueError, RecursionError):
        raise Distrusted("answered JSON that is not whole") from None
    if not isinstance(document, dict):
        raise Distrusted("answered JSON of another kind")
    return document


# ---- deciding ----------------------------------------------------------------------------------------------------


def newer_tags(tag: str, tags: Iterable[str]) -> tuple[str, ...]:
    """The tags that are named like `tag` with higher numbers, newest first: 13.2.1-base-ubuntu24.04 for 13.0.0-base-ubuntu24.04.

    The numbers of the system stay: an image for another release of Ubuntu is another image.
    """
    parts = re.split(r"(\d+(?:\.\d+)+|\d+)", tag)
    if len(parts) < 3 or not re.match(r"[a-z-]*v?\d", tag):
        return ()
    shape = re.compile(re.escape(parts[0]) + r"(\d+(?:\.\d+)*)" + re.escape("".join(parts[2:])))
    own = _numbers(parts[1])
    found = {
        other: _numbers(match[1]) for other in tags if (match := shape.fullmatch(other)) and len(match[1].split(".")) == len(own)
    }
    return tuple(
        sorted((other for other, numbers in found.items() if numbers > own), key=lambda other: found[other], reverse=True)
    )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split("."))


def compare_images(matrix: Matrix, seen: Mapping[str, Seen]) -> Iterator[Change]:
    """What registries say otherwise than the matrix: images that are gone, other digests; newer tags are for a person."""
    rows = images_of(matrix)
    for reference, what in seen.items():
        image = parse_image(reference)
        if not what.there:
            yield Change(
                kind=LOOK,
                table="images",
                label=reference,
                because=f"its tag is gone; {', '.join(rows[reference])} name it",
                place=image.url,
            )
        if newer := newer_tags(image.tag, what.tags):
            yield Change(
                kind=LOOK,
                table="images",
                label=reference,
                because=f"newer tags like it: {', '.join(newer[:3])}",
                place=image.url,
            )
    for scheme in matrix.schemes.values():
        container = scheme.container
        found = seen.get(container.base) if container else None
        if container and container.digest and found and found.digest and found.digest != container.digest:
            yield Change(
                kind=CHANGED,
                table=f"scheme.{scheme.name}.container",
                label=container.base,
                now={"digest": found.digest},
                was={"digest": container.digest},
                because="the tag was pushed anew",
                place=parse_image(container.base).url,
            )
