"""Other machines, through testinfra: a host URL becomes a Runner. The only door to testinfra outside the smoke tests."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envkit import process
from envkit.errors import EnvkitError, InvalidFile, Unavailable, UsageError
from envkit.process import Completed, Runner

# The connections that testinfra knows. Written out, so that a wrong URL is told without importing it.
KINDS = (
    "ansible",
    "chroot",
    "docker",
    "kubectl",
    "local",
    "lxc",
    "openshift",
    "paramiko",
    "podman",
    "safe-ssh",
    "salt",
    "ssh",
    "winrm",
)

# The program that a connection starts on this machine.
PROGRAMS = {
    "ansible": "ansible",
    "docker": "docker",
    "kubectl": "kubectl",
    "lxc": "lxc",
    "openshift": "oc",
    "podman": "podman",
    "safe-ssh": "ssh",
    "ssh": "ssh",
}

# How long a command that testinfra starts on this machine may take; set for each call of a Runner.
_LIMIT: ContextVar[float] = ContextVar("_LIMIT", default=60.0)

# No question may be asked where nobody answers, and a link that dies has to be noticed.
_SSH_ARGUMENTS = "-o BatchMode=yes -o ServerAliveInterval=15 -o ServerAliveCountMax=4"


@dataclass(frozen=True, kw_only=True, slots=True)
class SshOptions:
    """How to reach hosts over SSH, beyond what the URL and the user's own configuration say."""

    config: str = ""
    identity: str = ""


class _TimedOut(Exception):
    """A command that testinfra started ran into its limit."""


def connect(url: str, ssh: SshOptions | None = None) -> Runner:
    """A Runner for the host that `url` names: `local://`, `docker://NAME`, `ssh://user@host:port`, `ansible://HOST`, ...

    The connection's own options go into the query: `ssh://host?ssh_identity_file=KEY&ssh_config=FILE&timeout=5`.
    Raises UsageError for what is no such URL. The Runner raises Unavailable where the host itself cannot be reached.
    """
    kind = kind_of(url)
    if url in ("local://", "local://localhost"):
        return process.run
    if kind == "ansible":
        found = connect_group(url, ssh)
        if len(found) != 1:
            raise UsageError(f"{redact(url)} names {len(found)} hosts, and one is asked for", hint="name one: ansible://HOST")
        return found[0][1]
    program = PROGRAMS.get(kind)
    if program and shutil.which(program, path=_search_path()) is None:
        raise Unavailable(f"{kind}:// needs the program {program}, which is not on PATH", hint=f"install {program}")
    testinfra = _testinfra()
    options: dict[str, Any] = {}
    if kind in ("ssh", "safe-ssh", "paramiko"):
        ssh = ssh or SshOptions()
        if ssh.config:
            options["ssh_config"] = ssh.config
        if ssh.identity:
            options["ssh_identity_file"] = ssh.identity
    if kind in ("ssh", "safe-ssh"):
        # A master connection left behind by ControlPersist keeps our pipes open; one round trip needs none.
        options["controlpersist"] = 0
        if ":" not in url.partition("://")[2].rpartition("@")[0]:
            options["ssh_extra_args"] = _SSH_ARGUMENTS
    try:
        host = testinfra.get_host(url, **options)
    except (ImportError, RuntimeError) as fault:
        raise Unavailable(f"{redact(url)}: {fault}", hint=_missing_hint(kind)) from None
    except (TypeError, ValueError) as fault:
        raise UsageError(f"{redact(url)}: not a host URL that testinfra can read: {fault}") from None
    return HostRunner(host, redact(url))


def kind_of(url: str) -> str:
    """The connection that a host URL names; raises UsageError for what is none."""
    kind, separator, rest = url.partition("://")
    if not separator:
        raise UsageError(f"{redact(url)!r} is no host URL", hint=f"write the connection too: ssh://{redact(url)}")
    if kind not in KINDS:
        close = difflib.get_close_matches(kind, KINDS, n=1)
        meant = f"did you mean {close[0]}://?" if close else "known are " + ", ".join(f"{name}://" for name in KINDS)
        raise UsageError(f"unknown connection {kind}:// in {redact(url)!r}", hint=meant)
    if not rest and kind not in ("local", "ansible"):
        raise UsageError(f"{url!r} names no host", hint=f"write {kind}://NAME")
    return kind


def redact(url: str) -> str:
    """The URL as messages and proofs may show it: without a password, and without the query (which may hold paths of keys)."""
    shown = url.partition("?")[0]
    return re.sub(r"(://[^:/@]*):.*@", r"\1:***@", shown)


def connect_group(url: str, ssh: SshOptions | None = None) -> list[tuple[str, Runner]]:
    """A Runner for each host that `ansible://GROUP` names, by name. The inventory is Ansible's own, or the URL's
    `?ansible_inventory=FILE`."""
    from urllib.parse import parse_qs, urlsplit

    parts = urlsplit(url)
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    asked = ssh or SshOptions()
    options = SshOptions(
        config=asked.config or query.get("ssh_config", ""), identity=asked.identity or query.get("ssh_identity_file", "")
    )
    inventory = query.get("ansible_inventory")
    return connect_all(
        Path(inventory).expanduser() if inventory else None,
        parts.netloc or "all",
        options,
        force=query.get("force_ansible", "").lower() == "true",
    )


def connect_all(
    inventory: Path | None, pattern: str = "all", ssh: SshOptions | None = None, *, force: bool = False
) -> list[tuple[str, Runner]]:
    """A Runner for each host of an Ansible inventory that `pattern` matches, by name; raises Unavailable without Ansible.

    Hosts are reached directly where their connection allows, which is ten times quicker than through Ansible; `force`
    has Ansible itself carry every call.
    """
    if shutil.which("ansible-inventory", path=_search_path()) is None:
        raise Unavailable(
            "an inventory needs Ansible, which is not installed here", hint="pip install 'accel-envkit[hosts,provision]'"
        )
    _testinfra()
    from testinfra.utils import ansible_runner

    _bound(ansible_runner.local)
    label = str(inventory or "Ansible's inventory")
    runner = ansible_runner.AnsibleRunner(str(inventory) if inventory else None)
    ssh = ssh or SshOptions()
    found: list[tuple[str, Runner]] = []
    try:
        for name in runner.get_hosts(pattern):
            host = None
            if not force:
                host = runner.get_host(name, ssh_config=ssh.config or None, ssh_identity_file=ssh.identity or None)
            if host is None:
                # A connection that only Ansible itself can make: its own command line carries each call.
                query = f"force_ansible=true{f'&ansible_inventory={inventory}' if inventory else ''}"
                host = testinfra_host(f"ansible://{name}?{query}")
            elif host.backend.NAME in ("ssh", "safe-ssh"):
                host.backend.controlpersist = 0
                if not host.backend.host.password:
                    host.backend.ssh_extra_args = f"{host.backend.ssh_extra_args or ''} {_SSH_ARGUMENTS}".strip()
            found.append((name, HostRunner(host, f"ansible://{name}")))
    except _TimedOut:
        raise Unavailable(f"{label}: ansible-inventory did not come back") from None
    except (AssertionError, RuntimeError, ValueError, KeyError, AttributeError) as fault:
        raise InvalidFile(f"{label}: Ansible cannot read this inventory: {_first_line(str(fault))}") from None
    if not found and pattern == "all":
        raise InvalidFile(f"{label} names no host")
    if not found:
        raise UsageError(f"{label} has no host {pattern!r}", hint="see them with: ansible-inventory --graph")
    return found


def testinfra_host(url: str) -> Any:
    """testinfra's own object for a host."""
    return _testinfra().get_host(url)


def runner_of(host: Any) -> Runner:
    """A Runner for a host that testinfra has already connected: the `host` fixture of a test."""
    return HostRunner(host, str(host.backend.get_pytest_id()))


class HostRunner:
    """Runs commands on a testinfra host, each within its limit."""

    def __init__(self, host: Any, label: str) -> None:
        self.host = host
        self.label = label
        _bound(host)

    def __call__(self, argv: Sequence[str], *, limit: float = 30.0) -> Completed:
        """How `argv` ended on the host; raises Unavailable where the host itself cannot be reached."""
        command = shlex.join(argv)
        started = time.monotonic()
        token = _LIMIT.set(limit)
        try:
            result = self._run(command, limit)
        except _TimedOut:
            return Completed(argv=tuple(argv), returncode=None, timed_out=True, seconds=time.monotonic() - started)
        except EnvkitError:
            raise
        except Exception as fault:
            # testinfra raises RuntimeError for ssh's 255, paramiko and winrm their own kinds.
            text = _said(fault)
            raise Unavailable(f"{self.label} cannot be reached: {text}", hint=reach_hint(text, self.label)) from None
        finally:
            _LIMIT.reset(token)
        text = result.stderr
        if _engine_refused(self.host.backend.NAME, int(result.rc), text):
            raise Unavailable(f"{self.label} cannot be reached: {_first_line(text)}", hint=reach_hint(text, self.label))
        return Completed(
            argv=tuple(argv),
            returncode=int(result.rc),
            stdout=result.stdout,
            stderr=text,
            seconds=time.monotonic() - started,
            missing=int(result.rc) == 127,
        )

    def _run(self, command: str, limit: float) -> Any:
        backend = self.host.backend
        if backend.NAME not in ("paramiko", "winrm"):
            return backend.run(command)
        # These two speak through their own sockets, without a process that could be ended.
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(max_workers=1)
        try:
            return pool.submit(backend.run, command).result(timeout=limit)
        except TimeoutError:
            raise _TimedOut from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _testinfra() -> Any:
    try:
        import testinfra
    except ImportError:
        raise Unavailable(
            "other hosts are reached through testinfra, which is not installed here", hint="pip install 'accel-envkit[hosts]'"
        ) from None
    return testinfra


def _bound(host: Any) -> None:
    """Lets the host's local commands run through `process`, so that a hanging ssh is ended with all that it started."""
    backend = host.backend
    if not hasattr(backend, "run_local"):
        return

    def run_local(command: str, *args: str) -> Any:
        command = backend.quote(command, *args)
        shell = ["/bin/sh", "-c"] if os.name == "posix" else [os.environ.get("COMSPEC", "cmd.exe"), "/d", "/s", "/c"]
        ended = process.run([*shell, command], limit=_LIMIT.get(), env={**os.environ, "PATH": _search_path()})
        if ended.timed_out:
            raise _TimedOut
        status = 127 if ended.returncode is None else ended.returncode
        return backend.result(status, command.encode("utf-8", "replace"), ended.stdout, ended.stderr)

    backend.run_local = run_local
    if backend.NAME == "ansible":
        from testinfra.utils import ansible_runner

        if ansible_runner.local is not host:
            _bound(ansible_runner.local)
        if not backend.force_ansible:
            # A fixture of testinfra's: it hands each call on to a host of its own where it can.
            native = backend.ansible_runner.get_host(
                backend.host, ssh_config=backend.ssh_config, ssh_identity_file=backend.ssh_identity_file
            )
            if native is not None:
                _bound(native)


def _search_path() -> str:
    """PATH, with the folder of this Python's own programs: Ansible may be installed beside envkit only."""
    return os.pathsep.join(filter(None, [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]))


def _said(fault: BaseException) -> str:
    # An ssh that could not connect comes as RuntimeError(CommandResult).
    result = fault.args[0] if fault.args else None
    if result is not None and hasattr(result, "stderr"):
        return _first_line(str(result.stderr))
    return _first_line(str(fault) or type(fault).__name__)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wanted = [line for line in lines if not line.startswith(("Warning:", "** WARNING", "@@@"))]
    return (wanted or lines or ["it did not say why"])[0][:300]


def _engine_refused(kind: str, status: int, errors: str) -> bool:
    """Whether a container engine, and not the command inside, gave this answer."""
    if kind not in ("docker", "podman") or status == 0:
        return False
    signs = ("No such container", "Cannot connect to the Docker daemon", "is not running", "is paused", "error during connect")
    return any(sign in errors for sign in signs) or "permission denied while trying to connect" in errors


def reach_hint(text: str, label: str) -> str:
    """What to do about a host that cannot be reached, from what the connection said."""
    name = label.partition("://")[2]
    hints = (
        ("Host key verification failed", f"log in once by hand to accept its key: ssh {name}"),
        ("REMOTE HOST IDENTIFICATION", f"the host's key has changed; if that is right: ssh-keygen -R {name.rpartition('@')[2]}"),
        ("Permission denied", f"give a key that the host accepts: --identity FILE, or '{label}?ssh_identity_file=FILE'"),
        ("Could not resolve hostname", "check the host's name"),
        ("Connection refused", "check that its SSH server runs and listens on that port"),
        ("timed out", "check that the host is on and that no firewall is in between"),
        ("No such container", "see what runs with: docker ps"),
        ("is paused", f"let it go on with: docker unpause {name}"),
        ("is not running", f"start it with: docker start {name}"),
        ("Docker daemon", "start the engine: sudo systemctl start docker"),
        (
            "permission denied while trying to connect",
            "let this user talk to the engine: sudo usermod -aG docker $USER, then log in again",
        ),
    )
    return next((hint for sign, hint in hints if sign in text), "")


def _missing_hint(kind: str) -> str:
    return {
        "winrm": "pip install pywinrm",
        "paramiko": "pip install 'accel-envkit[hosts]'",
        "ansible": "pip install 'accel-envkit[hosts,provision]'",
    }.get(kind, "")
