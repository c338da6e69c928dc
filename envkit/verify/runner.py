"""Carries the probe to a venv, an image, a host or an inventory of hosts, and brings back a proof."""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envkit import plan as plans
from envkit import process
from envkit.data import packaged
from envkit.errors import EnvkitError, InvalidFile, Unavailable, UsageError
from envkit.model import Backend, Check, Plan, Proof, Scheme
from envkit.process import Completed, Runner
from envkit.verify.proof import PROVING, make_proof, now, parse_probe_output, write_proof

if TYPE_CHECKING:
    import ast

    from envkit.verify.hosts import SshOptions

IMAGE_PYTHON = "/opt/venv/bin/python"
IMAGE_PLAN = "/opt/envkit/plan.json"
HOST_FOLDER = "/opt/envkit"
PLAN_LABEL = "org.envkit.plan"

# What the way there and back may take beyond the probe's own limit, which ends what hangs inside.
GRACE = 15.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """What an environment is held to: a plan, or no more than what a scheme says."""

    expect: dict[str, Any] = field(default_factory=dict)
    digest: str = ""  # of the plan; "" when there is none
    scheme: str = ""


def aim_at_plan(plan: Plan) -> Aim:
    """All that a plan promises."""
    document = plans.to_document(plan)
    # What only tells why the plan was chosen does not travel: a command line has its limits.
    wanted = ("schema", "scheme", "accelerator", "driver", "backend", "framework", "python", "packages", "env")
    return Aim(expect={key: document[key] for key in wanted}, digest=document["digest"], scheme=plan.scheme)


def aim_at_scheme(scheme: Scheme, backend: Backend) -> Aim:
    """What a scheme alone says: its backend and framework, without versions."""
    expect = {
        "scheme": scheme.name,
        "backend": {"name": backend.name, "device": scheme.device or backend.device},
        "framework": {"name": scheme.framework},
        "env": dict(scheme.env),
    }
    return Aim(expect=expect, scheme=scheme.name)


def _framework(aim: Aim) -> str:
    return str(aim.expect.get("framework", {}).get("name") or "torch")


def _aim(target: Plan | Aim) -> Aim:
    return aim_at_plan(target) if isinstance(target, Plan) else target


# ---- a venv ------------------------------------------------------------------------------------------------------


def venv_python(directory: Path) -> Path:
    """The Python of a venv; raises Unavailable where there is none."""
    for place in (directory / "bin" / "python", directory / "Scripts" / "python.exe"):
        if place.exists():
            return place
    if not directory.is_dir():
        raise Unavailable(f"{directory} does not exist", hint=f"make it with: envkit up {shlex.quote(str(directory))}")
    raise Unavailable(
        f"{directory} is no virtual environment: it has no Python", hint="name the folder that holds bin/ or Scripts/"
    )


def recorded_plan(directory: Path) -> Plan | None:
    """The plan that a venv was made from, None for a venv that envkit did not make.

    Raises Unavailable for one that is half made, and InvalidFile where its records cannot be trusted.
    """
    records = directory / "envkit"
    again = f"make it whole with: envkit up {shlex.quote(str(directory))}"
    try:
        state = json.loads((records / "state.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        if (records / "plan.json").is_file():
            raise Unavailable(f"{directory} is half made: it has a plan and no state", hint=again) from None
        return None
    except (OSError, ValueError) as fault:
        raise InvalidFile(f"{records / 'state.json'} cannot be read: {fault}", hint=again) from None
    if not isinstance(state, dict) or state.get("state") != "complete":
        raise Unavailable(f"{directory} is half made: its last install did not come to an end", hint=again)
    try:
        return plans.from_document(json.loads((records / "plan.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as fault:
        raise InvalidFile(f"{records / 'plan.json'} cannot be trusted: {fault}", hint=again) from None


def verify_venv(
    target: Plan | Aim, directory: Path, *, limit: float = 300.0, level: str = "compute", record: bool = True
) -> Proof:
    """The proof of a venv on this machine, kept in DIR/envkit/proof.json where DIR is one of ours."""
    aim = _aim(target)
    python = venv_python(directory)
    probe = packaged("verify") / "probe.py"
    argv = [str(python), str(probe), "--packed", pack(aim.expect), *_flags(limit, level)]
    ended = process.run(argv, limit=limit + GRACE, end_with_us=True)
    proof = _proof(ended, aim, host=_host_name(), limit=limit)
    if record and level in PROVING and (directory / "envkit").is_dir():
        try:
            write_proof(directory / "envkit" / "proof.json", proof)
        except OSError as fault:
            kept = Check(id="proof-kept", level="host", outcome="skipped", detail=f"the proof could not be kept: {fault}")
            proof = _with(proof, kept)
    return proof


def _host_name() -> str:
    import socket

    return socket.gethostname()


# ---- an image ----------------------------------------------------------------------------------------------------


def image_name(scheme: str) -> str:
    """What `build` calls a scheme's image."""
    return f"envkit/{scheme}:latest"


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """What an image says of itself."""

    name: str
    label: str  # the digest of the plan it was built from
    plan: Plan


def read_image(image: str, run: Runner = process.run) -> Image:
    """The label and the plan of an image; raises Unavailable without engine or image, UsageError for one that is not ours."""
    ended = run(["docker", "image", "inspect", "--format", "{{json .Config.Labels}}", image], limit=30.0)
    _engine_answered(ended)
    if not ended.ok:
        scheme = image.removeprefix("envkit/").partition(":")[0]
        hint = f"envkit build {scheme}" if image.startswith("envkit/") else "see what is there with: docker images"
        raise Unavailable(f"there is no image {image} here", hint=hint)
    try:
        labels = json.loads(ended.stdout) or {}
    except ValueError:
        labels = {}
    ended = run(["docker", "run", "--rm", "--network=none", "--entrypoint=cat", image, IMAGE_PLAN], limit=60.0)
    if not ended.ok:
        raise UsageError(
            f"{image} holds no plan ({IMAGE_PLAN}): {_last_line(ended.stderr)}",
            hint="verify takes images that `envkit build` made",
        )
    try:
        plan = plans.from_document(json.loads(ended.stdout))
    except ValueError as fault:
        raise UsageError(f"{image}: its plan cannot be trusted: {fault}", hint="build it again") from None
    return Image(name=image, label=str(labels.get(PLAN_LABEL, "")), plan=plan)


def judge_image(image: Image, wanted: str) -> Check:
    """Whether the image's label, the plan inside and the plan that is asked for are one and the same."""
    inside = plans.digest(image.plan)
    if not image.label:
        fault = f"{image.name} has no label {PLAN_LABEL}"
    elif image.label != inside:
        fault = f"{image.name} is labelled for the plan {short(image.label)}, the plan inside is {short(inside)}"
    elif wanted and wanted != inside:
        fault = f"{image.name} was built from the plan {short(inside)}, asked for is {short(wanted)}"
    else:
        return Check(id="image-plan", level="host", outcome="passed", detail=f"label and plan agree: {short(inside)}")
    return Check(id="image-plan", level="host", outcome="failed", detail=fault)


def verify_image(
    target: Plan | None,
    image: str,
    *,
    scheme: str = "",
    limit: float = 300.0,
    level: str = "compute",
    run: Runner = process.run,
) -> Proof:
    """The proof of an image: the probe runs in a container with the plan's run flags, which is gone afterwards.

    Without a plan the image is held to the one it carries, which must be of `scheme` where one is named.
    """
    facts = read_image(image, run)
    plan = target or facts.plan
    if scheme and plan.scheme != scheme:
        raise UsageError(f"{image} was built for {plan.scheme}, not {scheme}", hint=f"envkit build {scheme}")
    aim = aim_at_plan(plan)
    checked = judge_image(facts, aim.digest)
    name = f"envkit-verify-{os.getpid()}-{os.urandom(4).hex()}"
    flags = flags_here(plan)
    if not any(flag.startswith(("--net", "--network")) for flag in flags):
        flags.append("--network=none")  # a proof needs no network, and a container without one starts faster
    argv = ["docker", "run", "--rm", f"--name={name}", *flags, f"--entrypoint={IMAGE_PYTHON}", image]
    argv += ["-c", packed_probe(_framework(aim)), "--packed", pack(aim.expect), *_flags(limit, level)]
    try:
        ended = run(argv, limit=limit + GRACE)
    finally:
        # --rm has done it already when all went well. After a time-out or Ctrl-C it is this that ends the container.
        run(["docker", "rm", "--force", name], limit=30.0)
    unstarted = ended.returncode == 125 or "error gathering device information" in ended.stderr
    if unstarted and parse_probe_output(ended.stdout) is None:
        raise Unavailable(f"the container could not be started: {_docker_said(ended.stderr)}", hint=_start_hint(ended.stderr))
    if ended.returncode in (126, 127) and parse_probe_output(ended.stdout) is None:
        raise UsageError(f"{image} has no Python at {IMAGE_PYTHON}", hint="verify takes images that `envkit build` made")
    return _proof(ended, aim, host=f"docker://{image}", limit=limit, extra=[checked])


def flags_here(plan: Plan) -> list[str]:
    """The plan's run flags as they are right on this machine: with its numbers of the device groups.

    What computes on the CPU where there is no card is not kept from it by the want of the card's device files.
    """
    flags = []
    for flag in plan.run_flags:
        node = flag.removeprefix("--device=").partition(":")[0] if flag.startswith("--device=") else ""
        if not (node and plan.device.lower() == "cpu" and not Path(node).exists()):
            flags.append(flag)
    for name in plan.container.groups if plan.container else ():
        try:
            import grp

            # A name would mean the group that the image has under it, with another number.
            flags.append(f"--group-add={grp.getgrnam(name).gr_gid}")
        except (ImportError, KeyError):
            continue
    return flags


def _engine_answered(ended: Completed) -> None:
    if ended.missing:
        raise Unavailable(
            "an image needs Docker, and there is no `docker` on PATH", hint="install Docker Engine, or verify a venv: --venv DIR"
        )
    if ended.timed_out:
        raise Unavailable("the Docker engine does not answer", hint="sudo systemctl restart docker")
    if ended.ok or "No such image" in ended.stderr:
        return
    signs = ("Cannot connect", "permission denied", "error during connect", "Is the docker daemon running", "failed to connect")
    if any(sign in ended.stderr for sign in signs):
        hint = (
            "let this user talk to the engine: sudo usermod -aG docker $USER, then log in again"
            if "permission denied" in ended.stderr
            else "start the engine: sudo systemctl start docker"
        )
        raise Unavailable(f"the Docker engine cannot be reached: {_last_line(ended.stderr)}", hint=hint)


def _docker_said(errors: str) -> str:
    """The line with which Docker says what went wrong; it ends with an advertisement for its help."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    return next((line.removeprefix("docker: ")[:300] for line in lines if line.startswith("docker: ")), _last_line(errors))


def _start_hint(errors: str) -> str:
    if "could not select device driver" in errors:
        return "install the NVIDIA Container Toolkit, then: sudo nvidia-ctk runtime configure --runtime=docker"
    if "no such file or directory" in errors and "/dev/" in errors:
        return "the device is not on this machine, or its driver is not loaded: envkit detect"
    return ""


# ---- hosts -------------------------------------------------------------------------------------------------------

_NO_PYTHON = "envkit: no environment"
_SEVERAL = "envkit: several environments"


def verify_host(
    target: Plan | Aim | None,
    url: str,
    *,
    python: str = "",
    scheme: str = "",
    recorded: bool = False,
    limit: float = 300.0,
    level: str = "compute",
    ssh: SshOptions | None = None,
    run: Runner | None = None,
) -> Proof:
    """The proof of a host, in one round trip.

    The host is held to `target`; to the plan recorded beside its Python when there is no target, or when `recorded` says
    that it goes first. `python` is a path on the host; without one it is /opt/envkit/<scheme>/bin/python, or the only
    environment that is found where envkit puts them. `run` is a connection that is already there.
    """
    from envkit.verify import hosts

    run = run or hosts.connect(url, ssh)
    label = hosts.redact(url)
    aim = _aim(target) if target is not None else None
    command = host_command(
        aim,
        python=python,
        scheme=scheme or (aim.scheme if aim else ""),
        recorded=recorded or aim is None,
        limit=limit,
        level=level,
    )
    ended = run(command, limit=limit + GRACE)
    _host_answered(ended, label, python)
    document = parse_probe_output(ended.stdout)
    if document is not None and "plan" in document:
        try:
            plan = plans.from_document(document["plan"])
        except ValueError as fault:
            raise Unavailable(f"{label}: its recorded plan cannot be trusted: {fault}", hint="provision the host again") from None
        if scheme and plan.scheme != scheme:
            raise UsageError(
                f"{label} was set up as {plan.scheme}, not {scheme}", hint=f"envkit verify {plan.scheme} --host {label}"
            )
        aim = aim_at_plan(plan)
    if aim is None:
        if ended.timed_out:
            raise Unavailable(f"{label} did not answer within {limit + GRACE:g} s", hint="give it more time: --limit SECONDS")
        raise Unavailable(f"{label}: {_last_line(ended.stderr)}", hint="say what to hold it to: envkit verify SCHEME --host URL")
    return _proof(ended, aim, host=label, limit=limit)


def host_command(aim: Aim | None, *, python: str, scheme: str, recorded: bool, limit: float, level: str) -> list[str]:
    """The command that finds the environment on a host and proves it."""
    source = [*(["--expect", "recorded"] if recorded else []), *(["--packed", pack(aim.expect)] if aim else [])]
    # The recorded plan may be of another framework than the one asked for: only it will tell.
    probe = ["-c", packed_probe("" if recorded or aim is None else _framework(aim)), *source, *_flags(limit, level)]
    if python:
        return [python, *probe]
    if scheme:
        places = [f"{HOST_FOLDER}/{shlex.quote(scheme)}/bin/python", IMAGE_PYTHON]
        choose = f'for p in {" ".join(places)}; do [ -x "$p" ] && break; p=; done'
    else:
        places = [f"{HOST_FOLDER}/*/bin/python", IMAGE_PYTHON]
        choose = (
            f'p=; for q in {" ".join(places)}; do [ -x "$q" ] || continue; '
            f'if [ -n "$p" ]; then echo "{_SEVERAL}: $p $q" >&2; exit 125; fi; p=$q; done'
        )
    missing = f"{_NO_PYTHON}: no Python at {' or '.join(places)}"
    script = f'{choose}; [ -n "$p" ] || {{ echo {shlex.quote(missing)} >&2; exit 127; }}; exec "$p" "$@"'
    return ["/bin/sh", "-c", script, "envkit", *probe]


def _host_answered(ended: Completed, label: str, python: str) -> None:
    for line in ended.stderr.splitlines():
        if line.startswith(_NO_PYTHON):
            raise Unavailable(
                f"{label} has {line.removeprefix('envkit: ')}", hint="name its Python: --python PATH, or provision the host first"
            )
        if line.startswith(_SEVERAL):
            raise UsageError(
                f"{label} has {line.removeprefix('envkit: ')}",
                hint="say which: envkit verify SCHEME --host URL, or --python PATH",
            )
    # None: what runs here without a shell could not be started at all.
    started = ended.timed_out or ended.returncode not in (None, 126, 127) or parse_probe_output(ended.stdout) is not None
    if python and not started:
        what = f"there is no {python}" if ended.missing else f"{python} cannot be started: {_last_line(ended.stderr)}"
        raise Unavailable(f"{label}: {what}", hint="--python takes the path of a Python on that host, such as DIR/bin/python")
    if not started:
        raise Unavailable(
            f"{label}: the Python cannot be started: {_last_line(ended.stderr)}", hint="name its Python: --python PATH"
        )


def verify_hosts(
    target: Plan | Aim | None,
    runners: Sequence[tuple[str, Runner]],
    *,
    python: str = "",
    scheme: str = "",
    limit: float = 300.0,
    level: str = "compute",
) -> list[tuple[str, Proof | EnvkitError]]:
    """For each connected host (`hosts.connect_all`), by name, its proof or why there is none. Several hosts at a time."""
    from concurrent.futures import ThreadPoolExecutor

    def one(item: tuple[str, Runner]) -> tuple[str, Proof | EnvkitError]:
        name, run = item
        try:
            return name, verify_host(
                target,
                f"ansible://{name}",
                python=python,
                scheme=scheme,
                recorded=True,
                limit=limit,
                level=level,
                run=run,
            )
        except EnvkitError as error:
            return name, error

    with ThreadPoolExecutor(max_workers=max(1, min(16, len(runners)))) as pool:
        return list(pool.map(one, runners))


# ---- common ------------------------------------------------------------------------------------------------------


def pack(document: dict[str, Any]) -> str:
    """A document as one word of a command line."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True)
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


@lru_cache(maxsize=16)
def packed_probe(framework: str = "") -> str:
    """The probe as the argument of `python -c`: one round trip, nothing to copy, about 25 KB.

    Only what the plan's framework needs travels, where that is known: a command line on Windows has 32767 characters.
    """
    source = (packaged("verify") / "probe.py").read_text(encoding="utf-8")
    text = base64.b85encode(zlib.compress(slim(source, framework).encode(), 9)).decode()
    # What lies in the current folder of the target is not the environment: it must not shadow a module.
    first = "import sys;sys.path[:1]==[''] and sys.path.pop(0);import zlib,base64;"
    return f"{first}exec(compile(zlib.decompress(base64.b85decode('{text}')),'<probe>','exec'),{{'__name__':'__main__'}})"


def slim(source: str, framework: str = "") -> str:
    """The probe without comments, docstrings and the annotations of functions, and without the sections of other frameworks."""
    import ast

    if framework:
        sections = re.split(r"(?m)^(?=# ---- \w)", source)
        own = [section for section in sections if _section_of(section) in ("", framework)]
        source = "".join(own)
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
        node.body = [_plain(statement) for statement in node.body]
        if isinstance(node, ast.FunctionDef):
            node.returns = None
            for word in (*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg):
                if word is not None:
                    word.annotation = None
    text = ast.unparse(ast.fix_missing_locations(tree))
    return re.sub(r"(?m)^(?: {4})+", lambda indent: " " * (len(indent[0]) // 4), text)


def _plain(statement: ast.stmt) -> ast.stmt:
    """A statement without the annotation of the name that it sets."""
    import ast

    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return ast.copy_location(ast.Assign(targets=[statement.target], value=statement.value), statement)
    return statement


def _section_of(section: str) -> str:
    """The framework that a section of the probe registers; "" for one that all need."""
    found = re.search(r"(?m)^FRAMEWORKS\[\"(\w+)\"\] = ", section)
    return found[1] if found else ""


def _flags(limit: float, level: str) -> list[str]:
    return [f"--limit={limit:g}", f"--level={level}"]


def _proof(ended: Completed, aim: Aim, *, host: str, limit: float, extra: Sequence[Check] = ()) -> Proof:
    """The proof of what the probe printed; where it printed nothing, one that failed and says why."""
    document = parse_probe_output(ended.stdout)
    if document is not None:
        return make_proof(document, plan=aim.digest, scheme=aim.scheme, host=host, extra=extra)
    if ended.timed_out:
        detail = f"no answer within {limit + GRACE:g} s: hung, and was killed"
    else:
        detail = f"the probe ended with status {ended.returncode} and printed no result: {_last_line(ended.stderr)}"
    broken = Check(id="probe", level="runtime", outcome="failed", seconds=ended.seconds, detail=detail)
    return Proof(plan=aim.digest, host=host, when=now(), checks=(*extra, broken), scheme=aim.scheme)


def _with(proof: Proof, check: Check) -> Proof:
    from dataclasses import replace

    return replace(proof, checks=(*proof.checks, check))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it did not say why"


def short(digest: str) -> str:
    """A digest as messages show it."""
    return digest[:19]
