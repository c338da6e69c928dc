"""A real Docker engine with BuildKit: the one that answers, else one installed from the distribution's packages and started."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lab.machine import LabError, alone, apt_install, cache_dir, command, debian_mirror, is_root, note, os_release, wait_for

RUN = Path("/var/run")
DAEMON = "dockerd"

# Debian 12's own engine (20.10) knows no named build contexts, which the tests use; Debian 13's packages install beside it
# without touching libc. The suite is pinned low, so that nothing but these comes from it.
ENGINE_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "containerd", "iptables")
UBUNTU_PACKAGES = ("docker.io", "docker-buildx", "containerd", "iptables")


@dataclass(frozen=True, kw_only=True)
class Engine:
    """A Docker engine that answers."""

    version: str
    buildx: str
    storage: str
    started_here: bool = False


def answers() -> str:
    """The server's version, or nothing when no engine answers."""
    if shutil.which("docker") is None:
        return ""
    done = command(["docker", "version", "--format", "{{.Server.Version}}"], limit=20, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def buildx_version() -> str:
    """buildx' version, or nothing when the plugin is missing."""
    done = command(["docker", "buildx", "version"], limit=20, check=False)
    words = done.stdout.split()
    return words[1] if done.returncode == 0 and len(words) > 1 else ""


def look() -> Engine | None:
    """The engine that answers now, with buildx; None when there is none."""
    version = answers()
    buildx = buildx_version() if version else ""
    if not version or not buildx:
        return None
    info = json.loads(command(["docker", "info", "--format", "{{json .}}"], limit=30).stdout)
    return Engine(version=version, buildx=buildx, storage=info.get("Driver", ""))


def ensure() -> Engine:
    """The engine that answers, else one that is installed (root on Debian or Ubuntu) and started; raises LabError.

    The error says why there is none.
    """
    found = look()
    if found is not None:
        return found
    if not is_root():
        raise LabError("no Docker engine with buildx answers, and only root can install and start one")
    with alone("engine"):
        found = look()  # another run may have made it while this one waited
        if found is not None:
            return found
        if answers():
            _install(("docker-buildx",))
        else:
            if (
                any(shutil.which(program) is None for program in ("dockerd", "containerd", "iptables", "docker"))
                or not buildx_version()
            ):
                _install(None)
            _start()
        found = look()
        if found is None:
            raise LabError(f"the Docker engine was started but does not answer; its log: {log_path()}")
        note(f"engine {found.version}, buildx {found.buildx}, {found.storage}")
        return Engine(version=found.version, buildx=found.buildx, storage=found.storage, started_here=True)


def _install(only: tuple[str, ...] | None) -> None:
    release = os_release()
    name, version = release.get("ID", ""), release.get("VERSION_ID", "")
    if name == "debian":
        packages = only or ENGINE_PACKAGES
        suffix = ""
        if version == "12":
            _add_trixie()
            suffix = "/trixie"
        # iptables of the release itself fits its kernel tools.
        wanted = [package if package == "iptables" else package + suffix for package in packages]
    elif name == "ubuntu":
        wanted = list(only or UBUNTU_PACKAGES)
    else:
        raise LabError(f"the lab can install a Docker engine on Debian and Ubuntu, not on {name or 'this system'}")
    note(f"installing {' '.join(wanted)}")
    started = time.monotonic()
    apt_install(wanted)
    note(f"installed in {time.monotonic() - started:.0f} s")


def _add_trixie() -> None:
    sources = Path("/etc/apt/sources.list.d/envkit-lab-trixie.list")
    pin = Path("/etc/apt/preferences.d/envkit-lab-trixie")
    sources.write_text(f"deb {debian_mirror()} trixie main\n", encoding="utf-8")
    pin.write_text("Package: *\nPin: release n=trixie\nPin-Priority: 50\n", encoding="utf-8")


def log_path() -> Path:
    """Where the engine that the lab started writes its log."""
    return cache_dir() / "dockerd.log"


def _start() -> None:
    if answers():  # the package's own service
        return
    if Path("/run/systemd/system").is_dir():
        command(["systemctl", "start", "docker"], limit=120)
        wait_for("docker.service", answers, limit=60)
        return
    _drop_stale()
    config = cache_dir() / "daemon.json"
    # The machine's own way out may carry less than 1500 bytes (tunnels, virtual networks); 1400 passes all that were met.
    config.write_text(json.dumps({"mtu": 1400, "features": {"cdi": True}}), encoding="utf-8")
    note(f"starting dockerd, log: {log_path()}")
    with log_path().open("ab") as log:
        child = subprocess.Popen(
            ["dockerd", "--config-file", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # outlives the shell and the test run that started it
            cwd="/",
        )

    def ready() -> bool:
        if child.poll() is not None:
            lines = log_path().read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise LabError(f"dockerd ended with {child.returncode}: {lines[-1] if lines else 'no word'}; its log: {log_path()}")
        return bool(answers())

    wait_for("dockerd", ready, limit=60)


def _drop_stale() -> None:
    """Removes what a killed engine left behind: dockerd does not start while its old pid belongs to some other process."""
    for pid_file, program in ((RUN / "docker.pid", DAEMON), (RUN / "docker/containerd/containerd.pid", "containerd")):
        with contextlib.suppress(OSError, ValueError):
            pid = int(pid_file.read_text().strip())
            if Path(f"/proc/{pid}/comm").exists() and Path(f"/proc/{pid}/comm").read_text().strip() == program:
                if program == DAEMON:
                    raise LabError(f"dockerd (pid {pid}) runs but does not answer")
                # A containerd that outlived its dockerd is taken over by the next one.
                continue
        with contextlib.suppress(OSError):
            pid_file.unlink()
    socket = RUN / "docker.sock"
    with contextlib.suppress(OSError):
        if socket.is_socket():
            socket.unlink()


def stop() -> bool:
    """Ends the engine that the lab started (never one of the machine's own); whether there was one."""
    with contextlib.suppress(OSError, ValueError):
        pid = int((RUN / "docker.pid").read_text().strip())
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        if str(cache_dir() / "daemon.json") in words:
            os.kill(pid, 15)
            wait_for("dockerd's end", lambda: not Path(f"/proc/{pid}").exists(), limit=30)
            return True
    return False
