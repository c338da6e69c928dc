"""The one way in which files are written: whole or not at all."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a text file so that nobody ever finds half of it, not even after a power cut.

    A link stays a link, and what it leads to is written. What is no regular file (a device, a pipe, `/dev/stdout`) is
    written to and never replaced. Raises OSError with `path`, as the caller knows it.
    """
    try:
        target = _replaceable(path)
        if target is None:
            with path.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        else:
            _replace(target, text)
    except OSError as fault:
        # It names the temporary file, which nobody asked for and which is gone.
        raise OSError(fault.errno, fault.strerror or str(fault), str(path)) from fault


def _replaceable(path: Path) -> Path | None:
    """The file that a new one may take the place of; None for what has to be written through."""
    target = Path(os.path.realpath(path))
    try:
        found = path.stat()
    except FileNotFoundError:
        return target
    # What a link below /proc leads to may have no name any more: then only the link itself gets there.
    if stat.S_ISREG(found.st_mode) and target.exists() and target.samefile(path):
        return target
    return None


def _replace(target: Path, text: str) -> None:
    temporary = target.with_name(f".{target.name[:40]}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        with temporary.open("x", encoding="utf-8", newline="\n") as file:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(stat.S_IMODE(target.stat().st_mode))  # what was private stays private
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
