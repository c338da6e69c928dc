"""Linux machines made of files: systems, containers, limits, users."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from envkit.detect import facts_document, probe
from envkit.detect.linux import container
from envkit.detect.parse import parse
from envkit.detect.raw import Raw
from envkit.detect.releases import linux_id, parse_os_release

GIB = 1024**3


def test_a_machine_without_accelerators(tree: Any) -> None:
    machine = tree.facts().machine
    assert (machine.os, machine.os_id, machine.os_release) == ("linux", "ubuntu-24.04", "Ubuntu 24.04.1 LTS")
    assert machine.os_like == ("debian",)
    assert (machine.kernel, machine.arch, machine.libc, machine.glibc) == ("6.8.0-41-generic", "x86_64", "glibc", "2.39")
    assert machine.gpus == ()
    assert (machine.wsl, machine.container) == (False, "")
    assert machine.memory_bytes == 32617296 * 1024
    assert machine.cpus == 8


def test_this_machine_as_it_was_captured(captured: Callable[[str], str]) -> None:
    facts = parse(json.loads(captured("debian-12-vm.json")))
    machine = facts.machine
    assert (machine.os_id, machine.glibc, machine.gpus, machine.cpus) == ("debian-12", "2.36", (), 2)
    # The root file system came from an image, and /.dockerenv with it.
    assert machine.container == ""
    assert facts.evidence["/.dockerenv"] == "left over from an image; this is no container"
    assert machine.secure_boot is False
    # Whose toolkit it is must not get lost where no device tells it.
    assert machine.drivers["nvidia"].toolkit == machine.driver.toolkit == "13.0"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ID=ubuntu\nVERSION_ID="24.04"', "ubuntu-24.04"),
        ('ID=debian\nVERSION_ID="12"', "debian-12"),
        ("ID=debian\nVERSION_CODENAME=trixie", "debian-trixie"),
        ('ID="rhel"\nVERSION_ID="9.4"\nID_LIKE="fedora"', "rhel-9"),
        ('ID="rocky"\nVERSION_ID="9.4"\nID_LIKE="rhel centos fedora"', "rocky-9"),
        ('ID="almalinux"\nVERSION_ID="8.10"', "almalinux-8"),
        ('ID="ol"\nVERSION_ID="9.4"', "oracle-9"),
        ('ID="centos"\nVERSION_ID="7"', "centos-7"),
        ('ID="anolis"\nVERSION_ID="8.8"\nID_LIKE="rhel fedora centos"', "anolis-8"),
        ("ID=fedora\nVERSION_ID=41", "fedora-41"),
        ('ID="sles"\nVERSION_ID="15.6"', "sles-15"),
        ('ID="opensuse-leap"\nVERSION_ID="15.6"', "opensuse-leap-15.6"),
        ('ID="opensuse-tumbleweed"\nVERSION_ID="20260901"', "opensuse-tumbleweed"),
        ("ID=arch\nBUILD_ID=rolling", "arch"),
        ("ID=alpine\nVERSION_ID=3.20.3", "alpine-3.20"),
        ('ID="openEuler"\nVERSION_ID="24.03"', "openeuler-24.03"),
        ('ID="kylin"\nVERSION_ID="V10"', "kylin-v10"),
        ("ID=azurelinux\nVERSION_ID=3.0", "azurelinux-3"),
        ("ID='linuxmint'\nVERSION_ID='22'", "linuxmint-22"),
        ("", ""),
        ('ID="a b"', ""),
        ('ID="unclosed\nVERSION_ID="1"', "unclosed-1"),
    ],
)
def test_release_ids(text: str, expected: str) -> None:
    assert linux_id(parse_os_release(text)) == expected


def test_centos_6_without_os_release(tree: Any) -> None:
    (tree.root / "etc/os-release").unlink()
    machine = tree.file("/etc/redhat-release", "CentOS Linux release 7.9.2009 (Core)\n").facts().machine
    assert (machine.os_id, machine.os_release) == ("centos-7", "CentOS Linux release 7.9.2009 (Core)")


# ---- containers --------------------------------------------------------------------------------------------------

OVERLAY = (
    "700 600 0:50 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/{0}/l/A,upperdir=/var/lib/{0}/u,workdir=/var/lib/{0}/w"
)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"marks": ["/.dockerenv"], "mounts": [OVERLAY.format("docker/overlay2")]}, "docker"),
        ({"marks": ["/.dockerenv"], "mounts": ["1 1 254:0 / / rw - ext4 /dev/vda rw"]}, ""),
        ({"marks": ["/.dockerenv"], "mounts": ["1 1 0:1 / / rw - btrfs x rw", "2 1 8:1 /x /etc/hosts rw - ext4 x rw"]}, "docker"),
        ({"files": {"/proc/self/cgroup": "12:cpu:/docker/0123456789abcdef\n"}}, "docker"),
        ({"files": {"/proc/self/cgroup": "0::/system.slice/docker-0123456789ab.scope\n"}}, "docker"),
        ({"files": {"/proc/1/cgroup": "0::/system.slice/docker.service\n"}}, ""),
        (
            {"files": {"/proc/self/cgroup": "9:name=systemd:/docker/buildkit/dowsmj0p\n8:pids:/docker/buildkit/dowsmj0p\n"}},
            "buildkit",
        ),
        ({"files": {"/proc/self/cgroup": "3:cpuset:/lxc/web\n"}}, "lxc"),
        ({"files": {"/proc/1/cgroup": "0::/machine.slice/machine-debian.scope/payload\n"}}, "systemd-nspawn"),
        ({"marks": ["/run/.containerenv"], "files": {"/run/.containerenv": 'engine="podman-4.9.3"\n'}}, "podman"),
        ({"marks": ["/run/.containerenv"]}, "podman"),
        ({"marks": ["/run/.containerenv"], "files": {"/run/.containerenv": 'engine="buildah-1.33.7"\n'}}, "buildah"),
        ({"init_container": "podman", "marks": []}, "podman"),
        ({"init_container": "lxc", "marks": []}, "lxc"),
        ({"init_container": "lxc", "marks": ["/dev/lxd/sock"]}, "lxd"),
        ({"init_container": "systemd-nspawn"}, "systemd-nspawn"),
        ({"files": {"/run/systemd/container": "systemd-nspawn\n"}}, "systemd-nspawn"),
        ({"files": {"/proc/self/cgroup": "0::/lxc.payload.web/x\n"}}, "lxc"),
        ({"env": {"KUBERNETES_SERVICE_PORT": "443"}, "marks": ["/.dockerenv"]}, "kubernetes"),
        ({"files": {"/proc/self/cgroup": "0::/kubepods.slice/pod1/cri-containerd-1.scope\n"}}, "kubernetes"),
        ({"mounts": [OVERLAY.format("containers/storage/overlay")]}, "podman"),
        ({"mounts": [OVERLAY.format("containerd/io.containerd.snapshotter.v1.overlayfs")]}, "containerd"),
        ({"mounts": [OVERLAY.format("docker/buildkit/overlay")]}, "buildkit"),
        ({"mounts": ["1 1 0:1 / / rw - overlay airootfs rw,lowerdir=/run/archiso"]}, ""),
        ({"marks": ["/.singularity.d"]}, "apptainer"),
        ({"init_container": "wsl"}, ""),
        ({"marks": ["/proc/vz"]}, "openvz"),
        ({"marks": ["/proc/vz", "/proc/bc"]}, ""),
        ({}, ""),
    ],
)
def test_containers(document: dict[str, Any], expected: str) -> None:
    assert container(Raw(document)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"secure_boot": True}, True),
        ({"secure_boot": False}, False),
        ({"secure_boot": None, "marks": ["/sys/firmware", "/sys/firmware/efi"]}, None),
        ({"secure_boot": None, "marks": ["/sys/firmware"]}, False),
        ({"secure_boot": None, "marks": ["/sys/firmware"], "init_container": "podman"}, None),
        ({"secure_boot": None, "marks": ["/sys/firmware"], "release": "5.15.153.1-microsoft-standard-WSL2"}, None),
        ({"secure_boot": None, "marks": []}, None),
    ],
)
def test_secure_boot(tree: Any, changes: dict[str, Any], expected: bool | None) -> None:
    assert tree.facts(**changes).machine.secure_boot is expected


def test_secure_boot_is_the_byte_after_the_attributes(tree: Any) -> None:
    path = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
    assert tree.file(path, b"\x06\0\0\0\x01").facts().machine.secure_boot is True
    assert tree.file(path, b"\x06\0\0\0\0").facts().machine.secure_boot is False
    assert tree.file(path, b"\x06").facts().machine.secure_boot is None


# ---- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "cpus", "memory"),
    [
        ({"cpu.max": "max 100000", "memory.max": "max"}, 8, 32617296 * 1024),
        ({"cpu.max": "150000 100000", "memory.max": str(4 * GIB)}, 2, 4 * GIB),
        ({"cpu.max": "50000 100000", "memory.max": str(64 * GIB)}, 1, 32617296 * 1024),
        ({"cpu.max": "nonsense", "memory.max": "-3"}, 8, 32617296 * 1024),
    ],
)
def test_limits_of_cgroups_2(tree: Any, files: dict[str, str], cpus: int, memory: int) -> None:
    for name, text in files.items():
        tree.file(f"/sys/fs/cgroup/user.slice/user-1000.slice/{name}", text + "\n")
    machine = tree.facts().machine
    assert (machine.cpus, machine.memory_bytes) == (cpus, memory)


def test_limits_of_cgroups_1(tree: Any) -> None:
    tree.file("/proc/self/cgroup", "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n")
    tree.file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    tree.file("/sys/fs/cgroup/memory/docker/ab/memory.limit_in_bytes", f"{2 * GIB}\n")
    tree.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n")
    tree.file("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n")
    machine = tree.facts().machine
    assert (machine.cpus, machine.memory_bytes) == (3, 2 * GIB)


def test_an_unlimited_group_says_nothing_of_the_memory(tree: Any) -> None:
    (tree.root / "proc/meminfo").unlink()
    tree.file("/proc/self/cgroup", "5:memory:/\n").file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert tree.facts().machine.memory_bytes is None


# ---- C libraries -------------------------------------------------------------------------------------------------


def test_musl_is_told_apart(tree: Any) -> None:
    tree.file("/etc/os-release", 'ID=alpine\nVERSION_ID=3.20.3\nPRETTY_NAME="Alpine Linux v3.20"\n')
    tree.tool("ldd --version", code=1, stderr="musl libc (x86_64)\nVersion 1.2.5\nDynamic Program Loader\n")
    answer = {"code": 1, "stdout": "", "stderr": "musl libc (x86_64)\nVersion 1.2.5\n", "timed_out": False}
    machine = tree.facts(libc="", tools={"ldd --version": answer}).machine
    assert (machine.libc, machine.glibc, machine.os_id) == ("musl", "", "alpine-3.20")
    assert tree.facts(libc="", tools={}).machine.libc == "musl"


def test_a_static_python_asks_ldd(tree: Any) -> None:
    answer = {"code": 0, "stdout": "ldd (Ubuntu GLIBC 2.39-0ubuntu8.3) 2.39\nCopyright", "stderr": "", "timed_out": False}
    machine = tree.facts(libc="", tools={"ldd --version": answer}).machine
    assert (machine.libc, machine.glibc) == ("glibc", "2.39")
    assert tree.facts(libc="", tools={}).machine.libc == ""


# ---- users, nodes, packages --------------------------------------------------------------------------------------


def test_groups_are_named_by_the_machine_and_numbers_stay_where_it_does_not(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getgroups", lambda: [44, 992])
    monkeypatch.setattr(os, "getegid", lambda: 0)
    assert tree.facts().machine.user_groups == ("root", "video", "992")


def test_device_nodes_and_who_may_open_them(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (
        "/dev/kfd",
        "/dev/dri/renderD128",
        "/dev/dri/by-path/x",
        "/dev/nvidia0",
        "/dev/nvidiactl",
        "/dev/sda",
        "/dev/dxg",
    ):
        tree.file(path, "")
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).endswith("kfd") and real(path, mode))
    facts = tree.facts()
    assert facts.machine.devices == ("/dev/dxg", "/dev/kfd", "/dev/nvidia0", "/dev/nvidiactl", "/dev/dri/renderD128")
    assert facts.machine.devices_denied == ("/dev/kfd",)
    assert "/dev/kfd (not for this user)" in facts.evidence["ls -ln /dev"]
    assert "/dev/sda" not in facts.evidence["ls -ln /dev"]


DPKG = """Package: nvidia-driver-570
Status: install ok installed
Priority: optional
Version: 570.86.10-0ubuntu1

Package: nvidia-driver-535
Status: deinstall ok config-files
Version: 535.183.01-0ubuntu1

Package: bash
Status: install ok installed
Version: 5.2

Package: linux-image-6.8.0-41-generic
Status: install ok installed
Version: 6.8.0-41.41

Package: rocm-core
Status: hold ok installed
Version: 6.4.0.60400-47~24.04
"""


def test_packages_of_dpkg(tree: Any) -> None:
    assert dict(tree.file("/var/lib/dpkg/status", DPKG).facts().machine.system_packages) == {
        "linux-image-6.8.0-41-generic": "6.8.0-41.41",
        "nvidia-driver-570": "570.86.10-0ubuntu1",
        "rocm-core": "6.4.0.60400-47~24.04",
    }


def test_packages_of_pacman_and_apk(tree: Any) -> None:
    (tree.root / "var/lib/pacman/local/nvidia-open-570.86.16-2").mkdir(parents=True)
    (tree.root / "var/lib/pacman/local/bash-5.2.037-1").mkdir(parents=True)
    tree.file("/lib/apk/db/installed", "P:level-zero\nV:1.17.6-r0\n\nP:busybox\nV:1.36.1-r29\n")
    packages = dict(tree.facts().machine.system_packages)
    assert packages == {"nvidia-open": "570.86.16-2", "level-zero": "1.17.6-r0"}


def test_packages_of_rpm_are_asked_where_there_is_a_card(tree: Any) -> None:
    tree.tool("rpm -qa", "kmod-nvidia-open\t570.86.10-1.el9\nbash\t5.1.8-9.el9\nkernel-core\t5.14.0-503.el9\n")
    assert dict(tree.facts().machine.system_packages) == {}
    assert tree.asked == []
    tree.pci("0000:01:00.0", "10de:2684", driver="nvidia").module("nvidia", "570.86.10")
    packages = dict(tree.facts().machine.system_packages)
    assert packages == {"kernel-core": "5.14.0-503.el9", "kmod-nvidia-open": "570.86.10-1.el9"}


def test_the_kernel_log_is_evidence(tree: Any) -> None:
    tree.file("/dev/kmsg", "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)\n")
    assert tree.facts().evidence["dmesg"] == "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)"


# ---- an empty and a broken machine -------------------------------------------------------------------------------


def test_an_empty_root(tmp_path: Path) -> None:
    raw = probe.read(str(tmp_path), system="linux")
    facts = parse(raw)
    assert facts.machine.os == "linux"
    assert facts.machine.gpus == ()
    assert facts.machine.os_id == ""
    document = facts_document(facts)
    assert "os_release" not in document["machine"]
    json.dumps(document)


def test_files_of_random_bytes(tree: Any) -> None:
    noise = bytes(range(256)) * 4
    for path in probe.FILES:
        tree.file(path, noise)
    tree.pci("0000:01:00.0", "10de:2684")
    for name in ("vendor", "device", "class"):
        tree.file(f"/sys/bus/pci/devices/0000:01:00.0/{name}", noise)
    tree.kfd(1, noise.decode("latin-1")).file("/proc/modules", noise).file("/var/lib/dpkg/status", noise)
    tree.file("/proc/self/mountinfo", noise)
    json.dumps(facts_document(tree.facts()))


def test_what_a_tool_said_is_kept_once(tree: Any) -> None:
    raw = tree.tool("rocminfo", "ROCk module is loaded\n").raw()
    assert json.dumps(raw).count("ROCk module is loaded") == 1


def test_a_part_that_cannot_be_read_costs_only_itself(tree: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(files: probe.Files) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(probe, "read_packages", broken)
    facts = tree.pci("0000:01:00.0", "10de:2684").facts()
    assert len(facts.machine.gpus) == 1
    assert facts.evidence["envkit detect"] == "packages: RuntimeError: broken"
