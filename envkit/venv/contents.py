"""What is installed in an environment, read from the files alone, and what is damaged there."""

from __future__ import annotations

import contextlib
import csv
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envkit.model import Plan
from envkit.venv.activation import interpreter
from envkit.venv.folder import State


@dataclass(frozen=True, kw_only=True, slots=True)
class Damage:
    """What is wrong with an environment, in words, and which packages have to be installed anew."""

    words: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()  # to be installed anew
    corrupt: tuple[str, ...] = ()  # whose files are not those of their wheels
    python: bool = False  # its interpreter is gone


def site_packages(directory: Path) -> Path | None:
    """Where the environment's packages lie; None where there is no such folder."""
    if sys.platform == "win32":
        path = directory / "Lib" / "site-packages"
        return path if path.is_dir() else None
    found = sorted((directory / "lib").glob("python*/site-packages"))
    return found[0] if found else None


def python_of(directory: Path) -> str:
    """The Python that the environment was made with, as its own file says: "3.11"; "" where it says nothing."""
    with contextlib.suppress(OSError):
        found = re.search(
            r"^version(?:_info)?\s*=\s*(\d+\.\d+)", (directory / "pyvenv.cfg").read_text(encoding="utf-8"), re.MULTILINE
        )
        if found:
            site = site_packages(directory)
            threaded = site is not None and site.parent.name.endswith("t")
            return found[1] + ("t" if threaded else "")
    return ""


def distributions(directory: Path) -> dict[str, str]:
    """Every installed distribution: normalised name -> version. Read from the names of the folders, which is quick."""
    site = site_packages(directory)
    found: dict[str, str] = {}
    for entry in os.scandir(site) if site is not None else ():
        match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", entry.name)
        # Without METADATA it is the rest of something that was taken away by halves.
        if match and Path(entry.path, "METADATA").is_file():
            found[normal(match[1])] = match[2]
    return found


def normal(name: str) -> str:
    """A project's name as it is compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _record(site: Path, name: str) -> list[tuple[str, int | None]]:
    """The files of an installed distribution, with their sizes where the wheel names them."""
    with os.scandir(site) as found:
        entries = list(found)
    for entry in entries:
        match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", entry.name)
        if match and normal(match[1]) == name:
            with contextlib.suppress(OSError), Path(entry.path, "RECORD").open(encoding="utf-8", newline="") as stream:
                return [(row[0], int(row[2]) if len(row) > 2 and row[2].isdigit() else None) for row in csv.reader(stream) if row]
    return []


def tops(directory: Path, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What each distribution put into site-packages, at the top: torch -> torch, functorch, torchgen, ..."""
    site = site_packages(directory)
    found: dict[str, tuple[str, ...]] = {}
    for name in names if site is not None else ():
        first = {file.split("/")[0] for file, _ in _record(site, name)} if site is not None else set()
        found[name] = tuple(sorted(part for part in first if part not in ("..", "", "__pycache__") and not part.startswith("/")))
    return found


def inspect(directory: Path, plan: Plan, state: State) -> Damage:
    """What in the environment is not as the plan and the record of its making say. Files only; nothing is started."""
    if not interpreter(directory).exists():
        return Damage(words=(f"its Python is gone ({interpreter(directory)})",), python=True)
    site = site_packages(directory)
    if site is None:
        return Damage(words=("its packages are gone",), packages=tuple(package.name for package in plan.packages))
    there = distributions(directory)
    words: list[str] = []
    packages: list[str] = []
    corrupt: list[str] = []
    for package in plan.packages:
        name = normal(package.name)
        version = there.get(name)
        if version is None:
            words.append(f"{name} is not installed any more")
            packages.append(name)
        elif version != package.version:
            words.append(f"{name} is {version}, not {package.version}")
            packages.append(name)
        elif (broken := _broken_files(site, name)) is not None:
            words.append(f"{name} is damaged: {broken}")
            packages.append(name)
            corrupt.append(name)
    gone = sorted(name for name in state.installed if name not in there and name not in packages)
    words += [f"{name} is not installed any more" for name in gone if name != "pip"]
    return Damage(words=tuple(words), packages=tuple(packages), corrupt=tuple(corrupt))


def _broken_files(site: Path, name: str) -> str | None:
    """The first file that is missing or has another size than its wheel gave it. Byte code and scripts are not the wheel's."""
    for file, size in _record(site, name):
        if size is None or file.endswith(".pyc") or file.startswith("..") or ".dist-info/" in file:
            continue
        try:
            have = os.stat(f"{site}/{file}").st_size  # noqa: PTH116 -- thousands of files, and a Path for each costs more than the look
        except OSError:
            return f"{file} is missing"
        if have != size:
            return f"{file} has {have} bytes instead of {size}"
    return None


def remove_rest(directory: Path, recorded: Mapping[str, tuple[str, ...]], untrusted: Iterable[str] = ()) -> None:
    """Removes what packages left behind whose record is gone, and all of the `untrusted` ones.

    Nobody else would: an installer removes what a record names, and a new install would mix with the rest.
    """
    site = site_packages(directory)
    if site is None:
        return
    there = distributions(directory)
    untrusted = set(untrusted)
    for name, parts in recorded.items():
        if name in there and name not in untrusted:
            continue
        own_parts = tops(directory, [name])[name] if name in there else ()
        records = [entry.name for entry in os.scandir(site) if _is_record_of(entry.name, name)]
        for part in dict.fromkeys([*parts, *own_parts, *records]):
            path = site / part
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                with contextlib.suppress(OSError):
                    path.unlink()


def _is_record_of(folder: str, name: str) -> bool:
    match = re.fullmatch(r"(.+)-([^-]+)\.dist-info", folder)
    return match is not None and normal(match[1]) == name


def wrong_versions(directory: Path, plan: Plan) -> list[str]:
    """The plan's packages that are not installed as pinned, in words; empty when the flavour is right."""
    there = distributions(directory)
    return [
        f"{package.name} is {there.get(normal(package.name), 'missing')}, not {package.version}"
        for package in plan.packages
        if there.get(normal(package.name)) != package.version
    ]
