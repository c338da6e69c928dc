"""Lab hosts: containers with an SSH server, published on 127.0.0.1 alone, with keys made for the occasion."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import base_image
from lab.machine import CA_BUNDLE, alone, ca_bundle, command, find_links, need_programs, note, wait_for

IMAGE = "envkit-lab/ssh-host:bookworm"
LABEL = "org.envkit.lab=ssh-host"
USER = "lab"

# As a provider hands out a Debian machine: an SSH server, Python, and a user who may become root.
DOCKERFILE = f"""\
FROM debian:bookworm-slim
RUN apt-get update -qq \\
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \\
      ca-certificates openssh-server python3 python3-apt python3-venv sudo \\
 && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \\
 && mkdir -p /run/sshd \\
 && useradd --create-home --shell /bin/bash {USER} \\
 && install -d -m 700 -o {USER} -g {USER} /home/{USER}/.ssh \\
 && install -d -m 700 /root/.ssh \\
 && echo '{USER} ALL=(ALL) NOPASSWD: ALL' > /etc/sudoers.d/{USER}
CMD ["sh", "-c", "ssh-keygen -A && exec /usr/sbin/sshd -D -e"]
"""


@dataclass(frozen=True, kw_only=True)
class Host:
    """One lab host and the way to it."""

    name: str
    port: int
    user: str
    key: Path
    ssh_config: Path

    @property
    def url(self) -> str:
        """testinfra's address of the host, key and host key included."""
        return f"ssh://{self.user}@127.0.0.1:{self.port}?ssh_identity_file={self.key}&ssh_config={self.ssh_config}"

    @property
    def variables(self) -> dict[str, str | int]:
        """Ansible's connection variables of the host."""
        return {
            "ansible_host": "127.0.0.1",
            "ansible_port": self.port,
            "ansible_user": self.user,
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": f"-F {self.ssh_config}",
            "ansible_python_interpreter": "/usr/bin/python3",
        }


def inventory(hosts: Sequence[Host]) -> str:
    """An Ansible inventory of the hosts, in INI."""
    lines = ["[lab]"]
    for host in hosts:
        lines.append(" ".join([host.name, *(f'{name}="{value}"' for name, value in host.variables.items())]))
    return "\n".join(lines) + "\n"


def ensure_image() -> str:
    """The host image's name, built when the engine does not have it as it is written here."""
    base_image.ensure("debian:bookworm-slim")
    with alone("ssh-image"):
        proxies = [f"--build-arg={name}" for name in ("http_proxy", "https_proxy", "no_proxy") if os.environ.get(name)]
        started = time.monotonic()
        # BuildKit's cache decides whether anything is to be done.
        with tempfile.TemporaryDirectory() as empty:
            argv = ["docker", "buildx", "build", "--quiet", "--load", "--tag", IMAGE, *proxies, "--file", "-", empty]
            command(argv, limit=600, stdin=DOCKERFILE.encode())
        if time.monotonic() - started > 3:
            note(f"built {IMAGE} in {time.monotonic() - started:.0f} s")
    return IMAGE


def up(folder: Path, *, count: int = 1, user: str = USER, prefix: str = "") -> list[Host]:
    """`count` hosts that answer over SSH; keys and the SSH settings lie in `folder`.

    The hosts trust the certificates that this machine trusts and see its folders of wheels under the same path, read-only:
    what a company's own image would bring along.
    """
    need_programs({"ssh": "openssh-client", "ssh-keygen": "openssh-client"})
    ensure_image()
    folder.mkdir(parents=True, exist_ok=True)
    key = folder / "id_ed25519"
    if not key.is_file():
        command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "envkit-lab", "-f", key])
    key.chmod(0o600)
    ssh_config = folder / "ssh_config"
    known_hosts = folder / "known_hosts"
    ssh_config.write_text(
        f"Host 127.0.0.1\n  IdentityFile {key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known_hosts}\n"
        "  StrictHostKeyChecking yes\n  ConnectTimeout 10\n",
        encoding="utf-8",
    )
    prefix = prefix or f"envkit-lab-{os.getpid()}"
    mounts = [f"--volume={path}:{path}:ro" for path in find_links()]
    hosts = []
    try:
        for number in range(1, count + 1):
            name = f"{prefix}-{number}"
            command(["docker", "rm", "--force", name], check=False)
            described = ["--name", name, "--hostname", name, "--label", LABEL, "--publish", "127.0.0.1::22", *mounts]
            command(["docker", "run", "--detach", *described, IMAGE], limit=60)
            authorized = ("/root" if user == "root" else f"/home/{user}") + "/.ssh/authorized_keys"
            command(
                ["docker", "exec", "--interactive", "--user", user, name, "sh", "-c", f"umask 077; cat > {authorized}"],
                stdin=key.with_suffix(".pub").read_bytes(),
            )
            bundle = ca_bundle()
            if bundle is not None:
                command(["docker", "cp", bundle.resolve(), f"{name}:{CA_BUNDLE}"])
            port = int(command(["docker", "port", name, "22/tcp"]).stdout.split(":")[-1])
            hosts.append(Host(name=name, port=port, user=user, key=key, ssh_config=ssh_config))
        lines = []
        for host in hosts:
            wait_for(f"{host.name}: host key", lambda name=host.name: _host_keys(name), limit=30)
            lines += [f"[127.0.0.1]:{host.port} {entry}" for entry in _host_keys(host.name)]
        known_hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")
        for host in hosts:
            wait_for(f"{host.name}: SSH", lambda host=host: _answers(host), limit=30)
    except BaseException:
        down(prefix)
        raise
    return hosts


def _host_keys(name: str) -> list[str]:
    shown = command(["docker", "exec", name, "sh", "-c", "cat /etc/ssh/ssh_host_*_key.pub"], check=False)
    if shown.returncode != 0:
        return []
    return [" ".join(line.split()[:2]) for line in shown.stdout.splitlines() if line.strip()]


def _answers(host: Host) -> bool:
    argv = ["ssh", "-F", host.ssh_config, "-p", str(host.port), "-o", "BatchMode=yes", f"{host.user}@127.0.0.1", "true"]
    return command(argv, limit=15, check=False).returncode == 0


def down(prefix: str = "") -> int:
    """Removes the lab's hosts (those whose names begin with `prefix`); how many there were."""
    if shutil.which("docker") is None:
        return 0
    listed = command(
        ["docker", "ps", "--all", "--filter", f"label={LABEL}", "--format", "{{.Names}}"], check=False
    ).stdout.split()
    names = [name for name in listed if name.startswith(prefix)]
    if names:
        command(["docker", "rm", "--force", "--volumes", *names], limit=120)
    return len(names)
