"""What the lab knows of the machine it runs on: system, package mirror, cache folder, pip's settings. Standard library alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

DEBIAN_MIRROR = "http://deb.debian.org/debian"  # Debian's own, where the machine's sources name no other
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


class LabError(Exception):
    """The lab cannot give what was asked, and why."""


def note(text: str) -> None:
    """Says on standard error what the lab is doing."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


def command(
    argv: Sequence[str | Path],
    *,
    limit: float = 600,
    env: Mapping[str, str] | None = None,
    stdin: bytes | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """How a command ended; raises LabError with its last words when it failed and `check` is set."""
    words = [os.fspath(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            timeout=limit,
            env=dict(env) if env is not None else None,
            check=False,
        )
        result = subprocess.CompletedProcess(
            words, done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        )
    except FileNotFoundError:
        result = subprocess.CompletedProcess(words, 127, "", f"{words[0]}: no such program")
    except subprocess.TimeoutExpired:
        result = subprocess.CompletedProcess(words, 124, "", f"no answer within {limit:.0f} s")
    if check and result.returncode != 0:
        last = "\n".join((result.stdout + result.stderr).strip().splitlines()[-15:])
        raise LabError(f"{' '.join(words[:6])} ended with {result.returncode}:\n{last}")
    return result


def is_root() -> bool:
    """Whether this process may install packages and start daemons."""
    return os.geteuid() == 0


def cache_dir() -> Path:
    """The folder that outlives a run: base images, logs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "envkit-lab"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def alone(what: str) -> Iterator[None]:
    """Keeps two runs from doing the same thing at the same time."""
    with (cache_dir() / f"{what}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def os_release(root: Path = Path("/")) -> dict[str, str]:
    """The fields of /etc/os-release."""
    fields: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in (root / "etc/os-release").read_text(encoding="utf-8").splitlines():
            name, equals, value = line.partition("=")
            if equals:
                fields[name] = value.strip().strip('"')
    return fields


def debian_mirror(root: Path = Path("/")) -> str:
    """The Debian mirror of the machine's own package sources: what the lab makes comes from where the machine's packages do."""
    if os_release(root).get("ID") != "debian":
        return DEBIAN_MIRROR
    sources = root / "etc/apt"
    for file in sorted(sources.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text(encoding="utf-8", errors="replace")):
            fields = dict(re.findall(r"^(\w[\w-]*):\s*(.*)$", stanza, re.MULTILINE))
            if "main" in fields.get("Components", "").split() and "debian-archive" in fields.get("Signed-By", "debian-archive"):
                uri = fields.get("URIs", "").split()[0].rstrip("/")
                if "security" not in uri:
                    return str(uri)
    for file in [sources / "sources.list", *sorted(sources.glob("sources.list.d/*.list"))]:
        with contextlib.suppress(OSError):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                found = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(bookworm|trixie)\s+.*\bmain\b", line)
                if found:
                    return str(found[1]).rstrip("/")
    return DEBIAN_MIRROR


def apt_install(packages: Sequence[str], *, update: bool = True) -> None:
    """Installs packages without questions and without starting their services."""
    if not is_root():
        raise LabError(f"only root can install {' '.join(packages)}")
    # Where init is no systemd, an install would start the service by its init script, with settings of its own;
    # at run level 1 it does not.
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    if not Path("/run/systemd/system").is_dir():
        env["RUNLEVEL"] = "1"
    wait = ["-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"]
    if update:
        command(["apt-get", *wait, "update", "-qq"], limit=300, env=env)
    command(["apt-get", *wait, "install", "-y", "-qq", "--no-install-recommends", *packages], limit=900, env=env)


def need_programs(programs: Mapping[str, str]) -> None:
    """Installs the packages of those programs that are not there; `programs` maps a program to its package."""
    missing = sorted({package for program, package in programs.items() if shutil.which(program) is None})
    if missing:
        note(f"installing {' '.join(missing)}")
        apt_install(missing)


def pip_settings() -> dict[str, str]:
    """pip's own view of its settings (files and environment), by bare option name: index-url, find-links, cert, ..."""
    listed = command([sys.executable, "-m", "pip", "config", "list"], limit=60, check=False)
    settings: dict[str, str] = {}
    for line in listed.stdout.splitlines():
        found = re.match(r"(global|install|download|:env:)\.([\w-]+)='(.*)'$", line)
        if found:
            settings[found[2].replace("_", "-")] = found[3].replace("\\n", " ")
    for name, value in os.environ.items():
        if name.startswith("PIP_"):
            settings[name[4:].lower().replace("_", "-")] = value
    return settings


def find_links() -> list[Path]:
    """The folders of wheels that pip's find-links setting names."""
    return [Path(part) for part in pip_settings().get("find-links", "").split() if "://" not in part and Path(part).is_dir()]


def ca_bundle() -> Path | None:
    """The certificate bundle that this machine's tools are told to trust, else the system's."""
    for name in ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE"):
        path = Path(os.environ.get(name, ""))
        if path.is_file():
            return path
    return CA_BUNDLE if CA_BUNDLE.is_file() else None


def wait_for(what: str, ready: Callable[[], object], *, limit: float, pause: float = 0.2) -> None:
    """Waits until `ready()` is true; raises LabError after `limit` seconds."""
    ends = time.monotonic() + limit
    while not ready():
        if time.monotonic() > ends:
            raise LabError(f"{what}: not ready within {limit:.0f} s")
        time.sleep(pause)
