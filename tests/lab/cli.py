"""The lab by hand: python tests/lab/cli.py engine | base-image [NAME] | ssh-hosts up [N] | ssh-hosts down | stop"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import base_image, engine, ssh_hosts
from lab.machine import LabError, cache_dir


def main() -> int:
    """The exit code of a call."""
    parser = argparse.ArgumentParser(prog="python tests/lab/cli.py", description=__doc__)
    parts = parser.add_subparsers(dest="part", required=True)
    parts.add_parser("engine", help="a Docker engine that answers: found, or installed and started")
    parts.add_parser("stop", help="ends the engine that the lab started")
    image = parts.add_parser("base-image", help="a base image: found, pulled, or made")
    image.add_argument("name", nargs="?", default="debian:bookworm-slim")
    hosts = parts.add_parser("ssh-hosts", help="containers with an SSH server on 127.0.0.1")
    hosts.add_argument("what", choices=["up", "down"])
    hosts.add_argument("count", nargs="?", type=int, default=1)
    wish = parser.parse_args()
    try:
        if wish.part == "engine":
            found = engine.ensure()
            print(f"docker {found.version}, buildx {found.buildx}, {found.storage}")
        elif wish.part == "stop":
            print("stopped" if engine.stop() else "nothing to stop")
        elif wish.part == "base-image":
            engine.ensure()
            print(base_image.ensure(wish.name))
        elif wish.what == "up":
            engine.ensure()
            made = ssh_hosts.up(cache_dir() / "ssh", count=wish.count, prefix="envkit-lab-hand")
            for host in made:
                print(host.url)
            (cache_dir() / "ssh/inventory.ini").write_text(ssh_hosts.inventory(made), encoding="utf-8")
            print(f"inventory: {cache_dir() / 'ssh/inventory.ini'}")
        else:
            print(f"removed {ssh_hosts.down('envkit-lab-hand')}")
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 5
    return 0


if __name__ == "__main__":
    sys.exit(main())
