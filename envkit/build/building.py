"""Runs the builder and judges what it says."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from envkit.build import engine
from envkit.build.deciding import Decision
from envkit.build.progress import Step, Stream
from envkit.build.staging import Options, Staged, command, stage
from envkit.errors import EnvkitError, StepFailed, Unavailable
from envkit.plan import digest
from envkit.process import Completed, run
from envkit.sources import Sources, redact
from envkit.venv.folder import state_home
from envkit.venv.making import find_uv

# A slow link may take hours for a CUDA build of several GB.
_LIMIT = 6 * 3600.0

# Called with each step that something is told of, and its new lines of output.
Watch = Callable[[Step, Sequence[str]], None]

# How apt, pip, uv and BuildKit word that a place could not be reached, as opposed to what it says of packages.
_UNREACHED = re.compile(
    r"Temporary failure resolving|Could not resolve|Unable to connect to|dns error|error sending request|Failed to fetch|"
    r"operation timed out|connection (?:refused|reset)|no such host|i/o timeout|network is unreachable|"
    r"Failed to establish a new connection|CERTIFICATE_VERIFY_FAILED|TLS handshake|failed to do request|failed to authorize",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device|disk quota exceeded|os error 28", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Built:
    """One image that was built."""

    decision: Decision
    tags: tuple[str, ...]
    id: str
    digest: str  # of what was pushed, else the id
    size_bytes: int | None  # None: the builder keeps its images elsewhere
    seconds: float  # of the whole build that it was part of
    steps: tuple[Step, ...]
    log: str


# Where a build may keep its files for a while.
_ELSEWHERE = "name another place for temporary files, with some room: TMPDIR=/path envkit build ..."


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    """A full disk is told of as what it is: the fault itself names the file that was copied from."""
    try:
        yield
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise EnvkitError(
            f"the temporary folder {folder.parent} is full: {fault.strerror}", hint=f"free some room there, or {_ELSEWHERE}"
        ) from None


@contextmanager
def workspace() -> Iterator[Path]:
    """A temporary folder that nobody else may read; gone afterwards, however it ends."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="envkit-build-"))
    except OSError as fault:
        raise Unavailable(f"no temporary folder can be made: {fault.strerror}", hint=_ELSEWHERE) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def own_uv() -> Path | None:
    """uv on this machine; None where there is none, and the build gets its own."""
    try:
        return find_uv()
    except Unavailable:
        return None


def dry_run(decisions: Sequence[Decision], sources: Sources, options: Options) -> tuple[dict[str, str], list[str]]:
    """The Dockerfile of each scheme, and the command that would build them. Asks no engine."""
    with workspace() as folder:
        with _room(folder):
            staged = stage(decisions, sources, options, folder, own_uv())
        argv = [part.replace(str(folder), "CONTEXT") for part in command(staged, options)]
        files = {target.name: (Path(target.context) / target.dockerfile).read_text(encoding="utf-8") for target in staged.targets}
        return files, argv


def build(
    decisions: Sequence[Decision],
    sources: Sources,
    options: Options,
    watch: Watch,
    tell: Callable[[str], None],
    buildx: str = "",
) -> tuple[Built, ...]:
    """The images of these plans; several are built at once. Raises Unavailable and StepFailed; leaves nothing half made."""
    with workspace() as folder:
        with _room(folder):
            staged = stage(decisions, sources, options, folder, own_uv())
        for note in staged.notes:
            tell(f"warning: {note}")
        log = log_path([decision.plan.scheme for decision in decisions])
        stream = Stream()
        with _open(log) as file:
            done = _follow(staged, command(staged, options, buildx), stream, watch, file)
        if not done.ok:
            raise failure(done, stream, [decision.plan.scheme for decision in decisions], str(log))
        made = _read(staged.metadata)
        return tuple(_built(decision, staged, made, stream, done, str(log)) for decision in decisions)


def log_path(schemes: Sequence[str]) -> Path:
    """Where the log of a build of these schemes lies."""
    return state_home() / f"build-{'+'.join(schemes)[:80]}.log"


def _open(path: Path) -> IO[str]:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("w", encoding="utf-8", buffering=1)  # by lines, for those who read along
    except OSError as fault:
        raise Unavailable(
            f"{path} can't be written to: {fault.strerror}", hint="name another folder for envkit's state: XDG_STATE_HOME=/path"
        ) from None


def _follow(staged: Staged, argv: Sequence[str], stream: Stream, watch: Watch, log: IO[str]) -> Completed:
    begun = time.monotonic()
    log.write(f"$ {redact(shlex.join(argv))}\n")
    headed: set[str] = set()

    def take(line: str) -> None:
        for step, lines in stream.feed(line):
            if step.started and step.digest not in headed and not step.cached:
                headed.add(step.digest)
                log.write(f"{time.monotonic() - begun:7.1f} s  {step.name}\n")
            for text in lines:
                log.write(f"{time.monotonic() - begun:7.1f} s    {redact(text)}\n")
            if step.error:
                log.write(f"{time.monotonic() - begun:7.1f} s  error: {redact(step.error)}\n")
            watch(step, lines)

    done = run(
        argv,
        limit=_LIMIT,
        env={**os.environ, **staged.environment},
        cwd=staged.folder,
        on_line=take,
        end_with_us=True,
    )
    stream.finish()
    log.write("".join(f"{redact(line)}\n" for line in stream.plain))
    log.write(f"ended with {'its time limit' if done.timed_out else done.returncode} after {done.seconds:.1f} s\n")
    return done


def _read(path: Path) -> dict[str, Any]:
    try:
        made = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return made if isinstance(made, dict) else {}


def _built(decision: Decision, staged: Staged, made: dict[str, Any], stream: Stream, done: Completed, log: str) -> Built:
    target = next(target for target in staged.targets if target.name == decision.plan.scheme)
    # bake tells of each target under its name, build of its one image alone.
    facts = made.get(target.name, made) if len(staged.targets) > 1 else made
    identity = str(facts.get("containerimage.config.digest") or facts.get("containerimage.digest") or "")
    image = engine.image(identity or target.tags[0]) or engine.image(target.tags[0])
    if image is not None and image.labels.get("org.envkit.plan") not in (None, digest(decision.plan)):
        image = None  # an older image of this name, where the builder keeps the new one elsewhere
    return Built(
        decision=decision,
        tags=tuple(target.tags),
        id=image.id if image else identity,
        digest=str(facts.get("containerimage.digest") or identity),
        size_bytes=image.size_bytes if image else None,
        seconds=done.seconds,
        steps=tuple(step for step in stream.steps.values() if step.title and step.target in ("", target.name)),
        log=log,
    )


# ---- what went wrong ---------------------------------------------------------------------------------------------


def failure(done: Completed, stream: Stream, schemes: Sequence[str], log: str) -> EnvkitError:
    """The error for a builder that failed."""
    step = stream.failed
    what = f"building {', '.join(schemes)}"
    if done.missing:
        return Unavailable("docker is missing, which builds images", hint="see https://docs.docker.com/engine/install/")
    if done.timed_out:
        return StepFailed(f"{what} did not end within {_LIMIT / 3600:g} hours", log=log)
    said = "\n".join(stream.plain)
    error = step.error if step else ""
    words = _words(step, stream)
    everything = "\n".join([error, said, *(step.output[-60:] if step else [])])
    head = f"{what}: the step '{(step.title or step.name) if step else 'start'}' failed"
    if _FULL.search(everything):
        return StepFailed(
            f"{head}: no space left on the disk that the Docker engine uses\n{words}",
            log=log,
            hint="see what takes it (docker system df) and free some: docker builder prune, docker image prune",
        )
    if step is not None and step.name.startswith("[internal] load metadata for "):
        image = step.name.removeprefix("[internal] load metadata for ")
        return Unavailable(
            f"{what}: the base image {image} could not be had\n{words}\nlog: {log}",
            hint="make the registry reachable (a mirror in the engine's daemon.json, a proxy), or bring the image in: "
            f"docker pull {image}, docker load",
        )
    if proof := _failed_checks(step):
        return StepFailed(f"{head}: the environment did not prove itself\n{proof}", log=log)
    if _UNREACHED.search(everything):
        return Unavailable(
            f"{head}: a package source could not be reached\n{words}\nlog: {log}",
            hint="name a mirror (PIP_INDEX_URL, ENVKIT_PYTORCH_MIRROR), a proxy (HTTPS_PROXY), certificates (SSL_CERT_FILE) "
            "or a folder of wheels (PIP_FIND_LINKS)",
        )
    return StepFailed(f"{head}\n{words}", log=log)


def _words(step: Step | None, stream: Stream) -> str:
    """The last words of what failed."""
    lines = [line for line in step.output if line.strip()] if step else []
    if not lines:
        lines = [line for line in stream.plain if line.startswith("ERROR")] or stream.plain[-5:] or ([step.error] if step else [])
    code = re.search(r"exit code: (\d+)", step.error) if step else None
    shown = [f"  {redact(line)[:400]}" for line in lines[-15:]]
    return "\n".join([*shown, *([f"  exit code {code[1]}"] if code else [])])


def _failed_checks(step: Step | None) -> str:
    """What the probe found wrong, where it was the probe that failed."""
    for line in reversed(step.output if step else []):
        if line.startswith('{"schema": "envkit/probe/'):
            try:
                checks = json.loads(line)["checks"]
                failed = [f"  {found['id']}: {found['detail']}" for found in checks if found["outcome"] == "failed"]
            except (ValueError, KeyError, TypeError):
                return ""
            return "\n".join(failed)
    return ""
