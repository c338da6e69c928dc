"""The folder of an environment: whether it is ours, what state it is in, who works on it, and how it is taken away.

DIR/                        the virtual environment
DIR/envkit/state.json       "making" before anything else is written, "changing" while a whole one is altered, "complete" last
DIR/envkit/plan.json        the plan it was made from
DIR/envkit/constraints.txt  the pins that later installs are held to
DIR/envkit/proof.json       the last proof
DIR/envkit/install.log      what the last install printed
DIR/envkit/lock             held by the process that works on it
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from envkit.errors import EnvkitError, Unavailable, UsageError

SCHEMA = "envkit/state/1"
MAKING, CHANGING, COMPLETE = "making", "changing", "complete"
_OWN_FILES = {"state.json", "plan.json", "constraints.txt", "proof.json", "install.log", "lock", "install"}


@dataclass(frozen=True, kw_only=True, slots=True)
class State:
    """What DIR/envkit/state.json says."""

    state: str  # making, changing, complete
    wish: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)  # the facts that a plan depends on
    plan: str = ""  # digest
    partners: tuple[str, ...] = ()  # what else came from the framework's own index
    installed: Mapping[str, str] = field(default_factory=dict)  # every distribution after the install: name -> version
    tops: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the plan's packages: what they put into site-packages
    when: str = ""


def own(directory: Path) -> Path:
    """The folder in which envkit keeps its files."""
    return directory / "envkit"


def read_state(directory: Path) -> State | None:
    """The state of an environment of ours; None where there is none.

    One whose marker was lost or spoilt is told by its plan: it counts as left in the midst of a change.
    """
    return _marked(directory) or _by_its_plan(directory)


def _by_its_plan(directory: Path) -> State | None:
    from envkit.plan import digest, from_document

    if not (directory / "pyvenv.cfg").is_file():
        return None
    try:
        plan = from_document(json.loads((own(directory) / "plan.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    wish = {"scheme": plan.scheme, "torch": plan.framework_version, "python": plan.python}
    return State(state=CHANGING, wish=wish, plan=digest(plan))


def _marked(directory: Path) -> State | None:
    try:
        document = json.loads((own(directory) / "state.json").read_text(encoding="utf-8"))
        if document.get("schema") != SCHEMA or document["state"] not in (MAKING, CHANGING, COMPLETE):
            return None
        return State(
            state=document["state"],
            wish=dict(document.get("wish", {})),
            machine=dict(document.get("machine", {})),
            plan=str(document.get("plan", "")),
            partners=tuple(document.get("partners", ())),
            installed=dict(document.get("installed", {})),
            tops={name: tuple(tops) for name, tops in document.get("tops", {}).items()},
            when=str(document.get("when", "")),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_state(directory: Path, state: State) -> None:
    """Writes the marker, whole or not at all."""
    from envkit import __version__

    document = {
        "schema": SCHEMA,
        "state": state.state,
        "envkit": __version__,
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "wish": dict(state.wish),
        "machine": dict(state.machine),
        "plan": state.plan,
        "partners": list(state.partners),
        "installed": dict(state.installed),
        "tops": {name: list(tops) for name, tops in state.tops.items()},
    }
    write_json(own(directory) / "state.json", document)


def write_json(file: Path, document: Any) -> None:
    """Writes a document, whole or not at all."""
    write_whole(file, json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def write_whole(file: Path, text: str) -> None:
    """Writes a file under a temporary name, to the disk, and only then under its own."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


# ---- whose folder ------------------------------------------------------------------------------------------------


def settle(directory: Path) -> Path:
    """The real path of a folder that may become, or is, an environment of ours.

    Raises UsageError where it is something else, and Unavailable where it can't be written to. Touches nothing.
    """
    path = Path(os.path.abspath(directory.expanduser()))  # noqa: PTH100 -- Path.resolve would follow a link before it is looked at
    if os.pathsep in str(path) or "\n" in str(path):
        raise UsageError(
            f"{str(path)!r} holds a {os.pathsep!r} or a line break, which no search path can carry",
            hint="choose another name: envkit up env",
        )
    if not _is_text(path):
        raise UsageError(
            f"{str(path)!a} is no text that this system can carry ({sys.getfilesystemencoding()})",
            hint="choose another name, or a UTF-8 locale: LC_ALL=C.UTF-8 envkit up env",
        )
    try:
        path.lstat()
    except OSError as fault:
        if fault.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL):
            raise cannot_write(path, fault) from None
    if path.is_symlink() and not path.exists():
        raise UsageError(
            f"{path} is a link to {path.readlink()}, which does not exist", hint="remove the link, or choose another folder"
        )
    path = path.resolve()
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, not a folder", hint="choose another folder: envkit up env")
    if path.is_dir():
        strangers = _strangers(path)
        if strangers:
            raise UsageError(_foreign(path, strangers), hint="choose an empty or a new folder: envkit up env")
    _writable(path)
    return path


def _is_text(path: Path) -> bool:
    """Whether other programs and files can carry the name: bytes that are no text are kept apart as lone surrogates."""
    try:
        str(path).encode("utf-8")
        str(path).encode(sys.getfilesystemencoding())
    except UnicodeEncodeError:
        return False
    return True


def _strangers(path: Path) -> list[str]:
    """What lies in the folder that says it is not ours; empty for an empty folder and for one of ours."""
    try:
        names = sorted(entry.name for entry in os.scandir(path))
    except OSError as fault:
        raise Unavailable(
            f"{path} can't be read: {fault.strerror or fault}", hint="choose a folder of your own: envkit up env"
        ) from None
    if read_state(path) is not None:
        return []
    if names == ["envkit"] and own(path).is_dir() and not own(path).is_symlink():
        # Ended before the marker was on the disk: nothing but our own folder with nothing but our own files.
        inside = {entry.name for entry in os.scandir(own(path))}
        if all(name in _OWN_FILES or (name.startswith(".") and name.endswith(".tmp")) for name in inside):
            return []
    return names


# What a virtual environment of uv consists of, besides our own folder.
_OF_A_VENV = {"bin", "lib", "lib64", "include", "share", "etc", "man", "scripts", "pyvenv.cfg", "envkit", ".gitignore", ".lock"}
_OF_A_VENV |= {"pip.conf", "pip.ini", "uv.toml"}  # ours, that hold later installs to the plan


def guests(directory: Path) -> list[str]:
    """What lies in an environment of ours that belongs to no environment: files that its owner put there."""
    names = (entry.name for entry in os.scandir(directory))
    return sorted(name for name in names if name.lower() not in _OF_A_VENV and name != "CACHEDIR.TAG")


def _foreign(path: Path, names: list[str]) -> str:
    shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    if "pyvenv.cfg" in names:
        return f"{path} is a virtual environment that envkit did not make; it was not touched"
    return f"{path} holds files that envkit did not put there ({shown}); nothing was touched"


def _writable(path: Path) -> None:
    ancestor = path
    while not ancestor.exists():
        ancestor = ancestor.parent
    if not ancestor.is_dir():
        raise UsageError(f"{ancestor} is a file, so {path} can't be made below it", hint="choose another folder: envkit up env")
    if not os.access(ancestor, os.W_OK | os.X_OK):
        why = "the file system is mounted read-only" if _read_only(ancestor) else "permission denied"
        raise Unavailable(f"{ancestor} can't be written to: {why}", hint="choose a folder that you may write to: envkit up ~/env")


def _read_only(path: Path) -> bool:
    with contextlib.suppress(OSError, AttributeError):
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    return False


# ---- making and taking away --------------------------------------------------------------------------------------


def make_folder(directory: Path) -> list[Path]:
    """Makes the folder and ours inside it; the folders that were not there before, outermost first.

    What it made is taken away again when it can't make all of it.
    """
    made: list[Path] = []
    missing = [path for path in (own(directory), *own(directory).parents) if not path.exists()]
    try:
        for path in reversed(missing):
            with contextlib.suppress(FileExistsError):  # another `up` was quicker
                path.mkdir()
                made.append(path)
    except OSError as fault:
        remove_empty(made)
        raise cannot_write(directory, fault) from None
    return made


def remove_empty(made: list[Path]) -> None:
    """Removes the folders that are still empty, innermost first."""
    for path in reversed(made):
        with contextlib.suppress(OSError):
            path.rmdir()


def cannot_write(directory: Path, fault: OSError) -> EnvkitError:
    """The error to raise for a fault of the file system under `directory`."""
    where = fault.filename or directory
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return EnvkitError(
            f"no space left on the disk that holds {directory}", hint="free some space, or choose a folder on another disk"
        )
    if fault.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return Unavailable(
            f"{where} can't be written to: {fault.strerror}", hint="choose a folder that you may write to: envkit up ~/env"
        )
    if fault.errno in (errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP):
        return UsageError(f"{where} can't be a folder: {fault.strerror}", hint="choose another name: envkit up env")
    return EnvkitError(f"{where}: {fault.strerror or fault}", hint="check that the place exists, may be written to and has room")


def clear(directory: Path, *, keep_own: bool = True) -> None:
    """Empties a half-made environment; our own folder, with the lock and the marker, stays unless told otherwise."""
    for entry in [Path(found.path) for found in os.scandir(directory)]:
        if keep_own and entry.name == "envkit":
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def take_away(directory: Path, made: list[Path]) -> None:
    """Removes a half-made environment and the folders made for it, so that nothing is left that was not there before."""
    with contextlib.suppress(OSError):
        # The marker goes last: until then the rest is known to be ours.
        clear(directory)
    with contextlib.suppress(OSError):
        shutil.rmtree(own(directory))
    remove_empty(made)


# ---- one at a time -----------------------------------------------------------------------------------------------


class Lock:
    """Held while an environment is worked on. The system lets go of it when the last process that has it ends.

    uv gets it too, so that it is still held while a uv lives on whose envkit was killed.
    """

    def __init__(self, directory: Path, *, wait: float = 5.0) -> None:
        self._file = own(directory) / "lock"
        self._wait = wait
        self.descriptor = -1

    def __enter__(self) -> Lock:
        return self if self.descriptor >= 0 else self.take()

    def take(self) -> Lock:
        """Waits for the lock; raises Unavailable, naming who holds it, when it does not come free."""
        deadline = time.monotonic() + self._wait
        while not self._take():
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"another envkit works on {self._file.parent.parent} ({self._holder()})",
                    hint="wait until it has ended, then run this again",
                )
            time.sleep(0.1)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _take(self) -> bool:
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as fault:
            if fault.errno == errno.ENOENT:
                return self._again()
            raise cannot_write(self._file, fault) from None
        try:
            _lock(descriptor)
            # The one who held it may have taken the folder away meanwhile, and this file with it.
            if os.fstat(descriptor).st_ino != self._file.stat().st_ino:
                os.close(descriptor)
                return False
        except FileNotFoundError:
            os.close(descriptor)
            return self._again()
        except OSError as fault:
            if fault.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
                os.close(descriptor)
                return False
            # Some network file systems have no locks: better unguarded than not at all.
            if fault.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP):
                os.close(descriptor)
                raise
        self.descriptor = descriptor
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps({"pid": os.getpid(), "since": time.strftime("%H:%M:%S")}).encode())
        return True

    def _again(self) -> bool:
        make_folder(self._file.parent.parent)
        return False

    def _holder(self) -> str:
        with contextlib.suppress(OSError, ValueError, KeyError):
            holder = json.loads(self._file.read_text(encoding="utf-8"))
            return f"process {holder['pid']}, since {holder['since']}"
        return "which one is not known"


def _lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        # Far behind the text, which others must be able to read meanwhile.
        os.lseek(descriptor, 1 << 20, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        os.lseek(descriptor, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


# ---- the last one made here --------------------------------------------------------------------------------------


def state_home(environ: Mapping[str, str] | None = None) -> Path:
    """Where envkit remembers things about this user's machine."""
    environ = os.environ if environ is None else environ
    if sys.platform == "win32" and "XDG_STATE_HOME" not in environ:
        return Path(environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "envkit"
    home = Path(environ.get("HOME") or Path.home())
    return Path(environ.get("XDG_STATE_HOME") or home / ".local" / "state") / "envkit"


def remember(directory: Path, cwd: Path) -> None:
    """Notes the environment as the last one made, on this machine and from this folder. A read-only home is no reason to fail."""
    file = state_home() / "last.json"
    entry = {"environment": str(directory), "cwd": str(cwd)}
    rows = [row for row in _remembered() if row != entry and row.get("environment") != str(directory)]
    if _remembered()[:1] == [entry]:
        return
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"schema": "envkit/last/1", "environments": [entry, *rows][:100]})


def _remembered() -> list[dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        rows = json.loads((state_home() / "last.json").read_text(encoding="utf-8")).get("environments", [])
        return [row for row in rows if isinstance(row, dict) and isinstance(row.get("environment"), str)]
    return []


def last_environment(cwd: Path | None = None) -> Path | None:
    """The environment that `up` made last here: from this folder, else on this machine; None where none is left."""
    cwd = Path.cwd() if cwd is None else cwd
    rows = sorted(_remembered(), key=lambda row: row.get("cwd") != str(cwd))
    return next((path for row in rows if read_state(path := Path(row["environment"])) is not None), None)
