"""What lies in the output folder, held against what should lie there; and the writing of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from envkit.errors import UsageError
from envkit.files import write_whole
from envkit.render.rendering import Rendering
from envkit.render.templates import SIGN

# How the generated files are known that carry no such line: by what stands in their first lines.
_SIGNS = {"plan.json": '"schema": "envkit/plan/', "pyproject.toml": 'name = "envkit-plan"'}
_SIGN_OF_PINS = "# What envkit installed and proved."


@dataclass(frozen=True, kw_only=True, slots=True)
class Drift:
    """The files that are not as they should be, by their path below the output folder."""

    missing: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()  # edited by hand, or outdated
    stale: tuple[str, ...] = ()  # generated for a scheme, or a part of one, that is no more
    foreign: tuple[str, ...] = ()  # where a file should lie, one that nobody generated
    same: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.missing or self.changed or self.stale or self.foreign)


def find_drift(rendering: Rendering, folder: Path) -> Drift:
    """How `folder` differs from the rendering. Reads only."""
    missing, changed, foreign, same = [], [], [], []
    for place, text in rendering.files.items():
        there = _read(folder / place)
        if there is None:
            missing.append(place)
        elif there == text.encode():
            same.append(place)
        elif is_generated(place, there):
            changed.append(place)
        else:
            foreign.append(place)
    stale = [place for place in _generated(folder, rendering) if place not in rendering.files]
    return Drift(
        missing=tuple(missing), changed=tuple(changed), stale=tuple(sorted(stale)), foreign=tuple(foreign), same=tuple(same)
    )


def _generated(folder: Path, rendering: Rendering) -> Iterator[str]:
    """The generated files below `folder` that belong to the schemes rendered, or to none of the matrix."""
    found = [*folder.glob("images/*/Dockerfile"), *folder.glob("images/*/plan/*"), *folder.glob("playbooks/*.yml")]
    for path in found:
        place = path.relative_to(folder).as_posix()
        scheme = place.split("/")[1].removesuffix(".yml")
        rendered = rendering.whole or f"playbooks/{scheme}.yml" in rendering.files
        content = _read(path)
        if (rendered or scheme not in rendering.schemes) and content is not None and is_generated(place, content):
            yield place


def is_generated(place: str, content: bytes) -> bool:
    """Whether the content of a file shows that `envkit render` wrote it, by whatever hand it was changed since."""
    text = content.decode("utf-8", errors="replace")
    name = place.rpartition("/")[2]
    if name == "probe.py":
        return 'SCHEMA = "envkit/probe/' in text
    if name == "constraints.txt":
        return text.startswith(_SIGN_OF_PINS)
    return SIGN in text or (name in _SIGNS and _SIGNS[name] in text[:400]) or place.startswith("playbooks/roles/")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def write_files(rendering: Rendering, folder: Path, drift: Drift) -> None:
    """Writes what is missing or changed, each file whole or not at all; raises UsageError, before anything, for foreign ones."""
    if drift.foreign:
        raise UsageError(
            "\n".join([f"{folder}: these files were not written by envkit render:", *(f"  {place}" for place in drift.foreign)]),
            hint="move them away, or write elsewhere: envkit render -o DIR",
        )
    for place in (*drift.missing, *drift.changed):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, rendering.files[place])


def remove_stale(folder: Path, drift: Drift) -> None:
    """Removes the stale files, and the folders that are empty then."""
    for place in drift.stale:
        path = folder / place
        path.unlink(missing_ok=True)
        for above in path.parents:
            if above in (folder, folder / "images", folder / "playbooks") or any(above.iterdir()):
                break
            above.rmdir()
