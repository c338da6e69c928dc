"""Tiny wheels made on the spot, so that tests can have any project, version and flavour they need."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    tag: str = "py3-none-any",
    requires: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
) -> Path:
    """The path of a wheel in `folder`, made with a module that knows its version."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    content = {f"{module}/__init__.py": f"__version__ = {version!r}\n", **(files or {})}
    content[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n" + "".join(
        f"Requires-Dist: {text}\n" for text in requires
    )
    content[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    record = "".join(f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in content.items())
    path = folder / f"{module}-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inner, text in content.items():
            wheel.writestr(inner, text)
        wheel.writestr(f"{info}/RECORD", f"{record}{info}/RECORD,,\n")
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


def make_index(folder: Path, wheels: Sequence[tuple[str, str, Sequence[str]]], *, tag: str = "py3-none-any") -> Path:
    """A simple index below `folder`: a folder a project, each with its wheels (name, version, requirements)."""
    for name, version, requires in wheels:
        make_wheel(folder / name, name, version, tag=tag, requires=requires)
    return folder
