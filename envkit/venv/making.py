"""Carries a plan out with uv: makes the environment, installs, asserts the flavour. Nothing is decided here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from envkit.errors import EnvkitError, StepFailed, Unavailable
from envkit.model import Plan
from envkit.plan import to_document
from envkit.process import Completed, run
from envkit.sources import Installation, redact
from envkit.venv.activation import interpreter, write_activation, write_pip_settings
from envkit.venv.contents import wrong_versions
from envkit.venv.folder import Lock, cannot_write, own, state_home, write_json, write_whole
from envkit.venv.pythons import Interpreter

# A slow link may take hours for a CUDA build of several GB; uv gives up on a silent one by itself.
_INSTALL_LIMIT = 6 * 3600.0

Tell = Callable[[str], None]


def find_uv() -> Path:
    """uv's program, from its wheel, else from the search path."""
    with contextlib.suppress(ImportError, FileNotFoundError):
        from uv import find_uv_bin

        return Path(find_uv_bin())
    if found := shutil.which("uv"):
        return Path(found)
    raise Unavailable(
        "uv is missing, which makes environments and installs into them", hint="install it: python -m pip install uv"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """One making or changing of an environment."""

    directory: Path
    plan: Plan
    installation: Installation
    python: Interpreter
    lock: Lock
    uv: Path
    tell: Tell
    show: Callable[[bytes], None] | None = None  # draws uv's own progress on the user's terminal


class DiskFull(EnvkitError):
    """No space was left for an install."""


def make(work: Work) -> None:
    """Makes the bare environment. Files that are there stay; our own folder is one of them."""
    _write_project(work)
    argv = [str(work.uv), "venv", "--allow-existing", "--no-progress", f"--prompt={work.directory.name}"]
    argv += ["--python", work.python.path or work.python.version]
    if work.python.path:
        argv += ["--no-python-downloads"]
    else:
        work.tell(f"downloading Python {work.python.version}")
    done = _uv(work, [*argv, str(work.directory)], limit=3600.0, step="making the environment", fresh=True, quiet=True)
    if not done.ok and not work.python.path and not _is_full(done.stderr):
        raise Unavailable(
            f"Python {work.python.version} is not on this machine and could not be downloaded: {_gist(done.stderr)}",
            hint=f"install Python {work.python.version}, or name one that is here: envkit up --python 3.X",
        )
    _judge(work, done, "making the environment")


def install(work: Work, *, reinstall: Sequence[str] = (), corrupt: Sequence[str] = (), everything: bool = False) -> None:
    """Installs the plan into the environment. `reinstall` names packages to install anew, `corrupt` those of spoilt files."""
    _write_project(work)
    if corrupt:
        # uv's cache shares its files with the environment (hard links): what was spoilt here may be spoilt there.
        _uv(
            work,
            [str(work.uv), "cache", "clean", "--quiet", *corrupt],
            limit=300.0,
            step="dropping spoilt files from uv's cache",
            quiet=True,
        )
    argv = [str(work.uv), "pip", "install", "--python", str(interpreter(work.directory))]
    argv += ["-r", "pyproject.toml", "--constraints", str(own(work.directory) / "constraints.txt"), *work.installation.arguments]
    argv += [part for name in reinstall for part in ("--reinstall-package", name)]
    if everything:
        argv += ["--reinstall"]
    started = time.monotonic()
    done = _uv(work, argv, limit=_INSTALL_LIMIT, step="installing")
    if not done.ok and _UNREACHED.search(matters(done.stderr)):
        # What was installed before may still lie in uv's cache, the pages of the indexes included.
        offline = _uv(work, [*argv, "--offline"], limit=_INSTALL_LIMIT, step="installing from uv's cache", quiet=True)
        done = offline if offline.ok else done
    _judge(work, done, "installing")
    work.tell(f"installed in {time.monotonic() - started:.0f} s")


def add_pip(work: Work) -> None:
    """Gives the environment a pip of its own: without one, `pip install` in it would reach another Python's."""
    argv = [
        str(work.uv),
        "pip",
        "install",
        "--quiet",
        "--python",
        str(interpreter(work.directory)),
        *work.installation.arguments,
        "pip",
    ]
    done = _uv(work, argv, limit=600.0, step="adding pip", quiet=True)
    if not done.ok:
        work.tell("warning: pip could not be had from the package sources, so install into this environment with: uv pip install")


def finish(work: Work) -> None:
    """Writes what belongs to the environment besides its packages, after asserting that the right ones are there."""
    wrong = wrong_versions(work.directory, work.plan)
    if wrong:
        raise StepFailed(
            f"the install went through, but {'; '.join(wrong)}", log=str(_log(work.directory)), hint="run envkit up again"
        )
    write_pip_settings(work.directory)
    write_activation(work.directory, work.plan.env)
    with contextlib.suppress(OSError):
        shutil.rmtree(own(work.directory) / "install")


def write_records(directory: Path, plan: Plan, installation: Installation) -> None:
    """Writes the plan and the pins."""
    write_json(own(directory) / "plan.json", to_document(plan))
    write_whole(own(directory) / "constraints.txt", installation.constraints)


def _write_project(work: Work) -> None:
    folder = own(work.directory) / "install"
    folder.mkdir(exist_ok=True)
    write_whole(folder / "pyproject.toml", work.installation.project)


def _log(directory: Path) -> Path:
    return own(directory) / "install.log"


def _uv(work: Work, argv: list[str], *, limit: float, step: str, fresh: bool = False, quiet: bool = False) -> Completed:
    """How uv ended; what it printed goes to the terminal and, line by line, into the log."""
    terminal = work.show is not None and not quiet
    with _log(work.directory).open("w" if fresh else "a", encoding="utf-8") as log:
        log.write(f"$ {redact(' '.join(argv))}\n")

        def keep(line: str) -> None:
            log.write(redact(line) + "\n")
            if not quiet and (said := progress(line)):
                work.tell(said)

        done = run(
            argv,
            limit=limit,
            env=work.installation.environ(os.environ),
            cwd=own(work.directory) / "install",
            on_line=None if terminal else keep,
            on_terminal=work.show if terminal else None,
            keep_open=[work.lock.descriptor] if work.lock.descriptor >= 0 else [],
            end_with_us=True,
        )
        if terminal:
            log.write(redact(done.stderr))
        log.write(f"{step}: ended with {'its time limit' if done.timed_out else done.returncode} after {done.seconds:.1f} s\n")
    return done


def progress(line: str) -> str:
    """What a line of uv's is worth saying where it can't draw its own progress; "" for nothing."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", line).strip()
    if re.match(
        r"(Resolved|Prepared|Installed|Uninstalled) \d+ package|(Downloading|Downloaded|Building|Built) |warning: ", text
    ):
        return "  " + redact(text)
    return ""


def _is_full(text: str) -> bool:
    return "No space left on device" in text or "os error 28" in text or "os error 122" in text


# How uv words that a place could not be reached, as opposed to what it says of packages.
_UNREACHED = re.compile(
    r"error sending request|dns error|Failed to fetch|operation timed out|Request failed after|tcp connect error|"
    r"connection (?:refused|reset|closed)|certificate|HTTP status (?:client|server) error|status code 5\d\d",
    re.IGNORECASE,
)


def _judge(work: Work, done: Completed, step: str) -> None:
    """Raises what a failed uv means."""
    if done.ok:
        return
    log = str(_log(work.directory))
    words = matters(done.stderr)
    if _is_full(done.stderr):
        raise DiskFull(f"{step}: no space left on the disk\n{words}", hint="free some space, or choose a folder on another disk")
    if done.missing or (done.returncode is None and not done.timed_out):
        raise Unavailable(
            f"uv could not be started: {done.stderr.strip()}", hint="install it anew: python -m pip install --force-reinstall uv"
        )
    if done.timed_out:
        raise StepFailed(f"{step} did not end within {_INSTALL_LIMIT / 3600:g} hours", log=log)
    if _UNREACHED.search(words):
        raise Unavailable(
            f"{step}: a package index could not be reached\n{words}\nlog: {log}",
            hint="name a mirror (PIP_INDEX_URL, ENVKIT_PYTORCH_MIRROR), a proxy (HTTPS_PROXY) "
            "or a folder of wheels (PIP_FIND_LINKS)",
        )
    if not done.stderr.strip() and done.returncode is not None and done.returncode < 0:
        words = f"uv was ended by signal {-done.returncode}" + (" (out of memory?)" if done.returncode == -9 else "")
    raise StepFailed(f"{step} failed\n{words}", log=log)


def matters(text: str) -> str:
    """The lines of uv's output that say what went wrong: from its error on, at most fifteen."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in redact(text).splitlines()]
    start = next((number for number, line in enumerate(lines) if re.match(r"\s*(error:|× )", line)), None)
    chosen = [line for line in (lines[start:] if start is not None else lines[-15:]) if line.strip()]
    return "\n".join(chosen if len(chosen) <= 15 else [*chosen[:14], f"... and {len(chosen) - 14} more lines"])


def _gist(text: str) -> str:
    lines = [line for line in matters(text).splitlines() if line.strip()]
    return re.sub(r"^(error: |\s*cause: )", "", lines[-1]).strip() if lines else "uv gave no reason"


def keep_log(directory: Path) -> Path | None:
    """Copies the log out of an environment that is about to be taken away; None where that is not possible."""
    log = _log(directory)
    kept = state_home() / "up.log"
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, log.read_text(encoding="utf-8"))
    except OSError:
        return None
    return kept


def explain(directory: Path, fault: OSError) -> EnvkitError:
    """The error for a fault of the file system in the midst of it."""
    return cannot_write(directory, fault)


def draw() -> Callable[[bytes], None] | None:
    """What draws on our standard error what uv draws on its own; None where there are no such terminals."""
    if os.name != "posix":
        return None

    def show(drawn: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.buffer.write(drawn)
            sys.stderr.buffer.flush()

    return show


def document_of(file: Path) -> object:
    """The JSON document in a file; None where there is none."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
