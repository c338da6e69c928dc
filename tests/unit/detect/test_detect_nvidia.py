"""NVIDIA devices: the bus, /proc, nvidia-smi old and new, WSL, MIG, Jetson."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from envkit.detect import nvidia

MIB = 1024**2
OPEN_570 = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build  (dvs-builder@U16-A24-9-2)\n"
QUERY = "nvidia-smi --query-gpu=index,name,pci.bus_id,pci.device_id,driver_version,memory.total,mig.mode.current"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("nvidia-smi-610-b200.txt", {"tool": "610.43.02", "driver": "610.43.02", "cuda": "13.3"}),
        ("nvidia-smi-450-titan.txt", {"tool": "450.57", "driver": "450.57", "cuda": "11.0"}),
        ("nvidia-smi-wsl-555.txt", {"tool": "555.52.01", "driver": "555.99", "cuda": "12.5"}),
        ("nvidia-smi-wsl-err-546.txt", {"tool": "545.46", "driver": "546.80", "cuda": ""}),
    ],
)
def test_headers(captured: Callable[[str], str], name: str, expected: dict[str, str]) -> None:
    assert nvidia.parse_header(captured(name)) == expected


@pytest.mark.parametrize(
    ("name", "version", "license_"),
    [
        ("nvidia-version-open-565.txt", "565.57.01", "Dual MIT/GPL"),
        ("nvidia-version-open-525-dkms.txt", "525.60.11", "Dual MIT/GPL"),
        ("nvidia-version-proprietary-520.txt", "520.56.06", "NVIDIA"),
    ],
)
def test_module_versions(captured: Callable[[str], str], name: str, version: str, license_: str) -> None:
    assert nvidia.parse_module_version(captured(name)) == version
    assert nvidia.parse_license(captured(name)) == license_


def test_the_license_of_a_module_that_is_not_loaded() -> None:
    assert nvidia.parse_license("", "filename: x\nlicense:        NVIDIA\n") == "NVIDIA"
    assert nvidia.parse_license("", "") == ""


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            ["/usr/lib/x86_64-linux-gnu/libcuda.so.1 -> libcuda.so.570.86.10", "/usr/lib/x86_64-linux-gnu/libcuda.so.535.1.2"],
            "570.86.10",
        ),
        (["/usr/lib64/libcuda.so.535.183.01", "/usr/lib64/libcuda.so.550.54.14"], "550.54.14"),
        (["/usr/lib64/libcuda.so.570.86.10", "/usr/lib64/libcuda.so.1 -> libcuda.so.535.183.01"], "535.183.01"),
        (["/usr/lib/wsl/lib/libcuda.so.1"], ""),
        (["/usr/lib/aarch64-linux-gnu/libcuda.so.1 -> libcuda.so.1.1"], ""),
        (["/usr/lib64/libnvidia-ml.so.550.54.14"], ""),
        ([], ""),
    ],
)
def test_userspace_versions(lines: list[str], expected: str) -> None:
    assert nvidia.parse_userspace(lines) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("00000000:01:00.0", "0000:01:00.0"),
        ("00010000:C1:00.0", "10000:c1:00.0"),
        ("0000:0a:00.0", "0000:0a:00.0"),
        ("[N/A]", ""),
    ],
)
def test_bus_addresses(text: str, expected: str) -> None:
    assert nvidia.bus_address(text) == expected


def test_a_card_without_any_tool(tree: Any) -> None:
    tree.pci("0000:01:00.0", "10de:2b85", driver="nvidia").pci("0000:01:00.1", "10de:22e8", kind="040300", driver="snd_hda_intel")
    tree.module("nvidia", "570.86.10").file("/proc/driver/nvidia/version", OPEN_570)
    tree.file("/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.10", "").link(
        "/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.570.86.10"
    )
    tree.file("/usr/local/cuda/version.json", '{"cuda": {"name": "CUDA SDK", "version": "12.8.1"}}')
    machine = tree.facts().machine
    (gpu,) = machine.gpus
    assert (gpu.name, gpu.arch, gpu.pci_id, gpu.kernel_driver) == ("GeForce RTX 5090", "sm_120", "10de:2b85", "nvidia")
    assert (gpu.vendor, gpu.pci_address, gpu.memory_bytes) == ("nvidia", "0000:01:00.0", None)
    driver = machine.driver
    assert (driver.kernel, driver.userspace, driver.license, driver.toolkit) == (
        "570.86.10",
        "570.86.10",
        "Dual MIT/GPL",
        "12.8.1",
    )
    assert machine.drivers == {}
    assert machine.services == {"nvidia-fabricmanager": "not-installed", "nvidia-persistenced": "not-installed"}


def test_nouveau_holds_the_card(tree: Any) -> None:
    facts = tree.pci("0000:01:00.0", "10de:2b85", driver="nouveau").module("nouveau").facts()
    (gpu,) = facts.machine.gpus
    assert (gpu.kernel_driver, facts.machine.driver.kernel, facts.machine.modules) == ("nouveau", "", ("nouveau",))


def test_a_card_without_a_driver_and_a_module_that_was_not_loaded(tree: Any) -> None:
    tree.pci("0000:01:00.0", "10de:2684")
    tree.tool(
        "modinfo nvidia", "filename:       /lib/modules/x/nvidia.ko\nversion:        550.54.14\nlicense:        NVIDIA\nparm: x\n"
    )
    facts = tree.facts()
    assert facts.machine.gpus[0].kernel_driver == ""
    assert (facts.machine.driver.kernel, facts.machine.driver.license) == ("", "NVIDIA")
    assert facts.evidence["modinfo nvidia"].splitlines()[1] == "version:        550.54.14"
    assert "parm" not in facts.evidence["modinfo nvidia"]


def test_an_unknown_card_stays_unknown(tree: Any) -> None:
    (gpu,) = tree.pci("0000:01:00.0", "10de:ffff", driver="nvidia").facts().machine.gpus
    assert (gpu.name, gpu.arch, gpu.vendor) == ("", "", "nvidia")


def test_nvidia_smi_adds_names_memory_and_capability(tree: Any) -> None:
    tree.pci("0000:01:00.0", "10de:2684", driver="nvidia").pci("0000:41:00.0", "10de:2684", driver="vfio-pci")
    row = "0, NVIDIA GeForce RTX 4090, 00000000:01:00.0, 0x268410DE, 550.54.14, 24564, [N/A], 8.9\n"
    tree.tool(QUERY + ",compute_cap", row).tool("nvidia-smi", "")
    machine = tree.facts().machine
    first, second = machine.gpus
    assert (first.name, first.arch, first.memory_bytes) == ("NVIDIA GeForce RTX 4090", "sm_89", 24564 * MIB)
    # The other one was given to a guest: nvidia-smi does not see it.
    assert (second.name, second.kernel_driver, second.memory_bytes) == ("GeForce RTX 4090", "vfio-pci", None)
    assert machine.driver.kernel == "550.54.14"


def test_an_old_nvidia_smi_that_does_not_know_a_column(tree: Any) -> None:
    tree.pci("0000:17:00.0", "10de:20b2", driver="nvidia")
    tree.tool(QUERY + ",compute_cap", code=2, stdout='Field "compute_cap" is not a valid field to query.\n')
    tree.tool(QUERY, "0, A100-SXM4-80GB, 00000000:17:00.0, 0x20B210DE, 450.57, 81251, Disabled\n").tool("nvidia-smi", "")
    (gpu,) = tree.facts().machine.gpus
    assert (gpu.memory_bytes, gpu.arch) == (81251 * MIB, "sm_80")


def test_what_it_cannot_tell_is_nothing(tree: Any) -> None:
    tree.pci("0000:0f:00.0", "10de:2901", driver="nvidia")
    tree.tool(QUERY + ",compute_cap", "0, NVIDIA B200, 00000000:0F:00.0, 0x290110DE, 580.82.07, [N/A], [Not Supported], 10.0\n")
    (gpu,) = tree.tool("nvidia-smi", "").facts().machine.gpus
    assert (gpu.memory_bytes, gpu.arch) == (None, "sm_100")


def test_mig_lists_the_slices_without_their_identifiers(tree: Any) -> None:
    tree.pci("0000:17:00.0", "10de:20b2", driver="nvidia").module("nvidia", "550.54.14")
    tree.tool(QUERY + ",compute_cap", "0, NVIDIA A100-SXM4-80GB, 00000000:17:00.0, 0x20B210DE, 550.54.14, 81920, Enabled, 8.0\n")
    listing = (
        "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-5a5a5a5a-1234-4321-abcd-0123456789ab)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-6b6b6b6b-1234-4321-abcd-0123456789ab)\n"
    )
    tree.tool("nvidia-smi -L", listing).tool("nvidia-smi", "")
    (tree.root / "proc/driver/nvidia/capabilities/gpu0/mig/gi1").mkdir(parents=True)
    facts = tree.facts(env={"CUDA_VISIBLE_DEVICES": "MIG-6b6b6b6b-1234-4321-abcd-0123456789ab"})
    text = facts.evidence["nvidia-smi -L"]
    assert "5a5a5a5a" not in text
    assert "MIG 3g.40gb     Device  0: (UUID: MIG-" in text
    # The same slice has the same stand-in wherever it is named.
    assert facts.env["CUDA_VISIBLE_DEVICES"] in text
    assert facts.evidence["/proc/driver/nvidia/capabilities"] == "gpu0: gi1"


def test_the_table_is_kept_without_programs_and_date(captured: Callable[[str], str]) -> None:
    text = nvidia.without_processes(captured("nvidia-smi-610-b200.txt"))
    assert text.startswith("+---")
    assert "NVIDIA B200" in text
    assert "somebody" not in text
    assert "Processes" not in text


def test_nvml_mismatch_tells_the_version_of_the_library(tree: Any) -> None:
    tree.pci("0000:01:00.0", "10de:2684", driver="nvidia").file("/proc/driver/nvidia/version", OPEN_570)
    said = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 575.51\n"
    driver = tree.tool("nvidia-smi", said, code=18).facts().machine.driver
    assert (driver.kernel, driver.userspace) == ("570.86.10", "575.51")


@pytest.mark.parametrize("answer", [{"hangs": True}, {"code": -11}, {"code": 9, "stdout": "NVIDIA-SMI has failed because ..."}])
def test_a_tool_that_hangs_or_crashes_adds_nothing_but_evidence(tree: Any, answer: dict[str, Any]) -> None:
    facts = tree.pci("0000:01:00.0", "10de:2684", driver="nvidia").tool("nvidia-smi", **answer).facts()
    assert facts.machine.gpus[0].arch == "sm_89"
    assert facts.evidence["nvidia-smi"]
    if answer.get("hangs"):
        assert facts.evidence["nvidia-smi"].startswith("no answer within 7.5 s")


# ---- WSL, Jetson, containers -------------------------------------------------------------------------------------


def test_wsl_shows_the_windows_driver(tree: Any, captured: Callable[[str], str]) -> None:
    tree.release = "5.15.153.1-microsoft-standard-WSL2"
    tree.file("/dev/dxg", "").pci("8756:00:00.0", "1414:008e", kind="030200", driver="dxgkrnl")
    tree.file("/sys/module/dxgkrnl/parameters/x", "").file("/usr/lib/wsl/lib/libcuda.so.1", "")
    tree.tool(QUERY + ",compute_cap", "0, NVIDIA GeForce RTX 4070, 00000000:01:00.0, 0x278610DE, 555.99, 12282, [N/A], 8.9\n")
    machine = tree.tool("nvidia-smi", captured("nvidia-smi-wsl-555.txt")).facts().machine
    (gpu,) = machine.gpus
    assert machine.wsl is True
    assert (gpu.name, gpu.pci_id, gpu.kernel_driver, gpu.arch) == ("NVIDIA GeForce RTX 4070", "10de:2786", "dxgkrnl", "sm_89")
    assert (machine.driver.kernel, machine.driver.userspace) == ("555.99", "555.52.01")
    assert machine.secure_boot is None


def test_wsl_asks_the_windows_side_for_other_vendors(tree: Any, captured: Callable[[str], str]) -> None:
    tree.release = "5.15.153.1-microsoft-standard-WSL2"
    tree.file("/dev/dxg", "").tool("powershell", captured("windows-amd-no-driver.json"))
    machine = tree.facts().machine
    assert [(gpu.pci_id, gpu.arch, gpu.kernel_driver) for gpu in machine.gpus] == [
        ("1002:164e", "gfx1036", "dxgkrnl"),
        ("1002:67df", "gfx803", "dxgkrnl"),
    ]
    assert machine.driver.kernel == "32.0.31007.5012"


def test_wsl_1_has_no_device(tree: Any) -> None:
    tree.release = "4.4.0-19041-Microsoft"
    machine = tree.facts().machine
    assert (machine.wsl, machine.gpus) == (True, ())


def test_a_jetson_is_known_by_its_device_tree(tree: Any, captured: Callable[[str], str]) -> None:
    tree.file("/proc/device-tree/compatible", captured("jetson-compatible.bin")).file(
        "/proc/device-tree/model", captured("jetson-model.bin")
    )
    tree.file("/etc/nv_tegra_release", captured("jetson-tegra-release.txt")).module("nvgpu")
    tree.tool(QUERY + ",compute_cap", "0, Orin (nvgpu), [N/A], [N/A], 540.4.0, [N/A], [N/A], 8.7\n").tool("nvidia-smi", "")
    facts = tree.facts(machine="aarch64")
    (gpu,) = facts.machine.gpus
    assert (gpu.name, gpu.arch, gpu.kernel_driver, gpu.pci_id) == ("Jetson AGX Orin", "sm_87", "nvgpu", "")
    assert facts.machine.arch == "aarch64"
    assert facts.evidence["/etc/nv_tegra_release"].startswith("# R39")


def test_a_container_without_device_nodes(tree: Any) -> None:
    tree.file("/.dockerenv", "").file(
        "/proc/self/mountinfo", "7 6 0:5 / / rw - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l\n"
    )
    tree.pci("0000:01:00.0", "10de:2684", driver="nvidia").file("/proc/driver/nvidia/version", OPEN_570)
    machine = tree.facts().machine
    # sysfs and /proc show the host's card; that none of its nodes is here is what tells the story.
    assert (machine.container, machine.devices) == ("docker", ())
    assert machine.driver.kernel == "570.86.10"
    assert len(machine.gpus) == 1


def test_a_sandbox_without_a_bus_still_has_what_the_tool_lists(tree: Any) -> None:
    tree.tool(QUERY + ",compute_cap", "0, NVIDIA A100-SXM4-80GB, 00000000:17:00.0, 0x20B210DE, 550.54.14, 81920, Disabled, 8.0\n")
    (gpu,) = tree.tool("nvidia-smi", "").facts().machine.gpus
    assert (gpu.pci_id, gpu.arch, gpu.pci_address) == ("10de:20b2", "sm_80", "0000:17:00.0")


def test_fabric_manager_is_asked_where_it_is_installed(tree: Any) -> None:
    tree.pci("0000:17:00.0", "10de:20b2", driver="nvidia").pci("0000:c1:00.0", "10de:1af1", kind="068000")
    tree.module("nvidia", "535.183.01").file("/usr/lib/systemd/system/nvidia-fabricmanager.service", "")
    (tree.root / "run/systemd/system").mkdir(parents=True)
    tree.tool("systemctl show", "Id=nvidia-fabricmanager.service\nActiveState=failed\n")
    facts = tree.facts()
    assert dict(facts.machine.services) == {"nvidia-fabricmanager": "failed", "nvidia-persistenced": "not-installed"}
    # The switch is on the bus, and no accelerator.
    assert len(facts.machine.gpus) == 1
    assert "10de:1af1" in facts.evidence["/sys/bus/pci/devices"]


def test_virtual_functions_of_a_card_that_is_listed_are_left_out(tree: Any) -> None:
    tree.pci("0000:17:00.0", "10de:20b2", driver="nvidia", sriov_numvfs="2")
    tree.pci("0000:17:00.4", "10de:20b2", driver="nvidia", physfn="0000:17:00.0")
    facts = tree.facts()
    assert len(facts.machine.gpus) == 1
    assert "virtual function of 0000:17:00.0" in facts.evidence["/sys/bus/pci/devices"]


def test_builder_names_in_version_lines_are_left_out(tree: Any, captured: Callable[[str], str]) -> None:
    tree.file("/proc/driver/nvidia/version", captured("nvidia-version-open-525-dkms.txt"))
    text = tree.facts().evidence["/proc/driver/nvidia/version"]
    assert "localhost" not in text
    assert "525.60.11  Release Build" in text
