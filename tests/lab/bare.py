"""A bare Debian root with git, python3-venv and ca-certificates only, in which the two commands of README.md are run.

    python3 tests/lab/bare.py [--suite bookworm|trixie] [--tests] [--keep DIR]

The machine's own way out is handed in (pip's, uv's and proxy variables, /etc/pip.conf, the certificates, folders of wheels),
nothing else. Needs root. A Docker engine that answers here is lent through its socket; without one the tests start their own.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.machine import (
    CA_BUNDLE,
    LabError,
    alone,
    ca_bundle,
    cache_dir,
    command,
    debian_mirror,
    find_links,
    is_root,
    need_programs,
    note,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("git", "python3-venv", "ca-certificates")
SUITES = ("bookworm", "trixie")
# Settings of the way out, by the beginning of the variable's name.
WAY_OUT = (
    "PIP_",
    "UV_",
    "SSL_CERT_",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
)


def commands() -> tuple[str, str]:
    """README.md's two commands: to a proven environment, and to green tests."""
    blocks = re.findall(r"^```(?:sh|bash)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    one = next((block for block in blocks if "envkit up" in block), "")
    two = next((block for block in blocks if "tests/run" in block), "")
    if not one or not two:
        raise LabError("README.md no longer shows its two commands as blocks of shell")
    return one.strip(), two.strip()


def root_tar(suite: str) -> Path:
    """The bare system as a tar in the cache folder, made when it is missing or older than a month."""
    tar = cache_dir() / f"{suite}-bare.tar"
    if tar.is_file() and time.time() - tar.stat().st_mtime < 30 * 86400:
        return tar
    need_programs({"mmdebstrap": "mmdebstrap"})
    with alone(f"bare-{suite}"):
        half = tar.with_name(f"part-{tar.name}")
        started = time.monotonic()
        try:
            argv = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, half, debian_mirror()]
            command(argv, limit=900)
            half.replace(tar)
        finally:
            half.unlink(missing_ok=True)
        note(f"made {tar.name} in {time.monotonic() - started:.0f} s")
    return tar


@contextlib.contextmanager
def bare_root(suite: str, keep: Path | None = None) -> Iterator[Path]:
    """A fresh bare system with a clone of this checkout's HEAD in /root/envkit; removed in the end unless `keep` is its place."""
    tar = root_tar(suite)
    folder = keep or Path(tempfile.mkdtemp(prefix="envkit-bare-", dir="/var/tmp"))
    try:
        command(["tar", "--extract", "--numeric-owner", "--file", tar, "--directory", folder], limit=300)
        command(["git", "clone", "--quiet", "--no-hardlinks", ROOT, folder / "root/envkit"])
        yield folder
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def run_inside(folder: Path, script: str, *, limit: float, lend_engine: bool = True) -> int:
    """The exit code of a shell script in the bare system, as root, in /root/envkit; its processes and mounts end with it."""
    variables = {name: value for name, value in os.environ.items() if name.upper().startswith(WAY_OUT)}
    variables |= {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    if os.environ.get("ENVKIT_CI"):
        variables["ENVKIT_CI"] = os.environ["ENVKIT_CI"]
    mounts = ["mount -t proc proc proc", "mount --rbind /sys sys", "mount --rbind /dev dev", "mount -t tmpfs tmpfs run"]
    bound: dict[Path, Path] = {path: path for path in find_links()}
    for file in (Path("/etc/resolv.conf"), Path("/etc/hosts"), Path("/etc/pip.conf")):
        if file.exists():
            bound[file.resolve()] = file
    bundle = ca_bundle()
    if bundle is not None:
        bound[bundle.resolve()] = CA_BUNDLE
        if bundle != CA_BUNDLE:
            bound[bundle] = bundle
    for source, target in bound.items():
        inside = folder / target.relative_to("/")
        if source.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            if not inside.exists():
                inside.touch()
        mounts.append(f"mount --bind '{source}' '.{target}' && mount -o remount,bind,ro '.{target}'")
    socket = Path("/var/run/docker.sock")
    shared: Path | None = None
    if lend_engine and socket.is_socket() and command(["docker", "version"], limit=20, check=False).returncode == 0:
        mounts.append("touch run/docker.sock && mount --bind /run/docker.sock run/docker.sock")
        # The lent engine sees this machine's files: what the tests hand it as a volume must lie under the same path in both.
        shared = Path(tempfile.mkdtemp(prefix="envkit-bare-tmp-", dir="/var/tmp"))
        variables["TMPDIR"] = str(shared)
        mounts.append(f"mkdir -p '.{shared}' && mount --bind '{shared}' '.{shared}'")
    (folder / "root/script.sh").write_text(f"set -eux\ncd /root/envkit\n{script}\n", encoding="utf-8")
    # A change of the root mount, and not chroot alone: a Docker engine inside has to find its root to be a mount.
    pivot = [
        "mkdir -p old-root",
        "pivot_root . old-root",
        "exec chroot . sh -c 'umount -l /old-root && exec bash /root/script.sh'",
    ]
    outer = "\n".join(["set -e", f"mount --bind '{folder}' '{folder}'", f"cd '{folder}'", *mounts, *pivot])
    started = time.monotonic()
    try:
        # A mount and a process namespace of its own: whatever the script leaves running or mounted is gone when it ends.
        code = subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", outer],
            env=variables,
            stdin=subprocess.DEVNULL,
            timeout=limit,
            check=False,
        ).returncode
    except subprocess.TimeoutExpired:
        code = 124
    finally:
        if shared is not None:
            shutil.rmtree(shared, ignore_errors=True)
    note(f"ended with {code} after {time.monotonic() - started:.0f} s")
    return code


def main() -> int:
    """0 when all that was asked passed."""
    parser = argparse.ArgumentParser(prog="python3 tests/lab/bare.py", description=__doc__)
    parser.add_argument("--suite", choices=SUITES, default="bookworm")
    parser.add_argument("--tests", action="store_true", help="the second command too")
    parser.add_argument("--keep", type=Path, help="an empty folder to make the system in, and to leave it")
    parser.add_argument("--own-engine", action="store_true", help="lend no Docker engine (two need a network namespace each)")
    parser.add_argument("--run", metavar="SCRIPT", help="another script instead of the README's commands")
    wish = parser.parse_args()
    if not is_root():
        print("only root can enter a bare system", file=sys.stderr)
        return 5
    try:
        first, second = commands() if not wish.run else (wish.run, "")
        with bare_root(wish.suite, wish.keep) as folder:
            code = run_inside(folder, first, limit=1200, lend_engine=not wish.own_engine)
            if code == 0 and wish.tests and second:
                code = run_inside(folder, second, limit=2700, lend_engine=not wish.own_engine)
            return code
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 5


if __name__ == "__main__":
    sys.exit(main())
