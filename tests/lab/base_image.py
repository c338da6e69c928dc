"""The base images that the Dockerfiles ask for: pulled, else made from the distribution's packages under the same name."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from lab.machine import LabError, alone, cache_dir, command, debian_mirror, is_root, need_programs, note

# Image name -> Debian suite that it is made of.
SUITES = {"debian:bookworm-slim": "bookworm", "debian:trixie-slim": "trixie"}
PULL_LIMIT = float(os.environ.get("ENVKIT_LAB_PULL_LIMIT", "60"))
# What a slim image leaves out.
SLIM = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("man", "doc", "locale", "info")]


def has(image: str) -> bool:
    """Whether the engine has the image."""
    return command(["docker", "image", "inspect", image], limit=30, check=False).returncode == 0


def ensure(image: str = "debian:bookworm-slim") -> str:
    """The image's name, once the engine has it: there already, pulled, or made by mmdebstrap and imported."""
    if has(image):
        return image
    if image not in SUITES:
        raise LabError(f"the lab makes {', '.join(SUITES)}, not {image}")
    with alone("base-image"):
        if has(image):
            return image
        pulled = command(["docker", "pull", "--quiet", image], limit=PULL_LIMIT, check=False)
        if pulled.returncode == 0:
            return image
        last = (pulled.stderr.strip().splitlines() or ["no answer"])[-1]
        note(f"{image} cannot be pulled ({last[:160]}); making it from Debian's packages")
        tar = _tar(SUITES[image])
        started = time.monotonic()
        command(["docker", "import", "--change", 'CMD ["bash"]', tar, image], limit=300)
        note(f"imported {image} in {time.monotonic() - started:.0f} s")
    return image


def _tar(suite: str) -> Path:
    """The root file system of a suite as a tar in the cache folder, made when it is missing or older than a month."""
    tar = cache_dir() / f"{suite}-slim.tar"
    if tar.is_file() and time.time() - tar.stat().st_mtime < 30 * 86400:
        return tar
    if not is_root():
        raise LabError("only root can make a base image from Debian's packages (mmdebstrap)")
    need_programs({"mmdebstrap": "mmdebstrap"})
    mirror = debian_mirror()
    started = time.monotonic()
    half = tar.with_name(f"part-{tar.name}")  # its ending tells mmdebstrap what to make
    argv = ["mmdebstrap", "--quiet", "--variant=apt", *SLIM, "--include=ca-certificates", suite, str(half), mirror]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode != 0:
            raise LabError("mmdebstrap failed:\n" + "\n".join(done.stderr.splitlines()[-15:]))
        half.replace(tar)
    finally:
        half.unlink(missing_ok=True)
    note(f"made {tar.name} in {time.monotonic() - started:.0f} s")
    return tar
