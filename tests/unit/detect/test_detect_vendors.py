"""AMD, Intel, Ascend and the others; several vendors in one machine; what is no accelerator."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from envkit.detect import amd, ascend, intel
from envkit.detect.catalogue import best_name

MIB = 1024**2


# ---- AMD ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (90010, "gfx90a"),
        (90012, "gfx90c"),
        (90402, "gfx942"),
        (90500, "gfx950"),
        (80003, "gfx803"),
        (100300, "gfx1030"),
        (110003, "gfx1103"),
        (110501, "gfx1151"),
        (120001, "gfx1201"),
        (0, ""),
        (12, ""),
        (99999999, ""),
    ],
)
def test_target_versions(version: int, expected: str) -> None:
    assert amd.gfx_name(version) == expected


def test_a_node_of_the_topology(captured: Callable[[str], str]) -> None:
    node = amd.parse_kfd(captured("kfd-properties-gfx1151.txt"))
    assert node is not None
    assert (node.arch, node.address, node.pci_id) == ("gfx1151", "0000:c2:00.0", "1002:1586")
    assert amd.parse_kfd(captured("kfd-properties-cpu.txt")) is None
    assert amd.parse_kfd("") is None


def test_the_kernel_wins_over_the_catalogue_and_over_rocminfo(tree: Any, captured: Callable[[str], str]) -> None:
    tree.pci("0000:c2:00.0", "1002:744c", driver="amdgpu", mem_info_vram_total="536870912").module("amdgpu")
    tree.kfd(0, captured("kfd-properties-cpu.txt")).kfd(1, captured("kfd-properties-gfx1151.txt"))
    (gpu,) = tree.facts().machine.gpus
    assert (gpu.arch, gpu.memory_bytes, gpu.kernel_driver) == ("gfx1151", 512 * MIB, "amdgpu")


def test_a_card_without_a_compute_node(tree: Any) -> None:
    facts = tree.pci("0000:03:00.0", "1002:67df", driver="amdgpu").module("amdgpu").facts()
    assert facts.machine.gpus[0].arch == "gfx803"
    assert facts.evidence["/sys/class/kfd"].startswith("no such folder")


def test_rocminfo(captured: Callable[[str], str]) -> None:
    (agent,) = amd.parse_rocminfo(captured("rocminfo-7900xtx.txt"))
    assert (agent.arch, agent.name, agent.pci_id, agent.address) == ("gfx1100", "Radeon RX 7900 XTX", "1002:744c", "0000:09:00.0")
    assert agent.memory_bytes == 25149440 * 1024
    assert amd.parse_rocminfo("ROCk module is NOT loaded, possibly no GPU devices\n") == []


def test_rocminfo_in_wsl_is_all_there_is(tree: Any, captured: Callable[[str], str]) -> None:
    tree.release = "6.6.87.2-microsoft-standard-WSL2"
    tree.file("/dev/dxg", "").tool("rocminfo", captured("rocminfo-7900xtx.txt"))
    facts = tree.facts()
    (gpu,) = facts.machine.gpus
    assert (gpu.name, gpu.arch, gpu.pci_id, gpu.kernel_driver) == ("Radeon RX 7900 XTX", "gfx1100", "1002:744c", "dxgkrnl")
    assert "GPU-398a" not in json.dumps(dict(facts.evidence))


@pytest.mark.parametrize("wrapped", [True, False])
def test_amd_smi_in_both_shapes(captured: Callable[[str], str], wrapped: bool) -> None:
    document = json.loads(captured("amd-smi-static-mi350x.json"))
    (told,) = amd.parse_amd_smi(json.dumps(document if wrapped else document["gpu_data"]))
    assert (told.name, told.arch, told.address, told.pci_id) == ("AMD Instinct MI350X", "gfx950", "0000:05:00.0", "1002:75a0")
    assert (told.memory_bytes, told.driver) == (294896 * MIB, "6.18.3")


def test_amd_smi_adds_to_a_card_and_its_list_of_names_is_not_a_name(tree: Any, captured: Callable[[str], str]) -> None:
    tree.pci("0000:c4:00.0", "1002:1586", kind="038000", driver="amdgpu").module("amdgpu")
    tree.tool("amd-smi static", captured("amd-smi-static-strix-halo.json"))
    machine = tree.facts().machine
    (gpu,) = machine.gpus
    assert (gpu.name, gpu.arch, gpu.memory_bytes) == ("Radeon 8060S", "gfx1151", 512 * MIB)
    assert machine.driver.kernel == "6.16.0"


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("AMD Radeon Graphics", "Strix Halo [Radeon 8050S / Radeon 8060S]"), "Strix Halo [Radeon 8050S / Radeon 8060S]"),
        (("Strix Halo [Radeon 8050S / Radeon 8060S]", "", "Radeon 8060S"), "Radeon 8060S"),
        (("AMD Radeon RX 7900 XTX", "Navi 31 [Radeon RX 7900 XT/7900 XTX]"), "AMD Radeon RX 7900 XTX"),
        (("Intel(R) Graphics [0xe211]", ""), "Intel(R) Graphics [0xe211]"),
        (("", ""), ""),
    ],
)
def test_the_name_that_tells_most(names: tuple[str, ...], expected: str) -> None:
    assert best_name(*names) == expected


def test_a_module_of_the_kernel_itself_has_no_version(tree: Any, captured: Callable[[str], str]) -> None:
    tree.release = "6.18.3-arch1-1"
    tree.pci("0000:05:00.0", "1002:75a0", kind="120000", driver="amdgpu").module("amdgpu")
    assert tree.tool("amd-smi static", captured("amd-smi-static-mi350x.json")).facts().machine.driver.kernel == ""
    assert tree.module("amdgpu", "6.10.5").facts().machine.driver.kernel == "6.10.5"


@pytest.mark.parametrize(
    ("path", "text"),
    [("/opt/rocm/.info/version", "6.4.0-47\n"), ("/opt/rocm/core/.info/version", "6.4.0\n"), ("/opt/rocm-6.4.0/bin/x", "")],
)
def test_rocm_on_the_machine(tree: Any, path: str, text: str) -> None:
    assert tree.pci("0000:03:00.0", "1002:744c", driver="amdgpu").file(path, text).facts().machine.driver.toolkit == "6.4.0"


def test_partitions_of_one_card_are_one_card(tree: Any, captured: Callable[[str], str]) -> None:
    properties = captured("kfd-properties-gfx1151.txt")
    machine = tree.kfd(1, properties).kfd(2, properties).module("amdgpu").facts().machine
    assert [(gpu.arch, gpu.kernel_driver) for gpu in machine.gpus] == [("gfx1151", "amdgpu")]


def test_a_hanging_rocminfo(tree: Any) -> None:
    facts = tree.pci("0000:03:00.0", "1002:744c", driver="amdgpu").tool("rocminfo", hangs=True).facts()
    assert facts.machine.gpus[0].arch == "gfx1100"
    assert facts.evidence["rocminfo"] == "no answer within 7.5 s, stopped"


# ---- Intel -------------------------------------------------------------------------------------------------------


def test_arc_with_its_runtime(tree: Any, captured: Callable[[str], str]) -> None:
    tree.pci("0000:23:00.0", "8086:e223", driver="xe").pci("0000:27:00.0", "8086:e223", driver="xe").module("xe")
    tree.file("/sys/bus/pci/devices/0000:23:00.0/tile0/physical_vram_size_bytes", "34359738368\n")
    tree.file("/var/lib/dpkg/status", "Package: libze-intel-gpu1\nStatus: install ok installed\nVersion: 26.05.37020.3-1\n")
    tree.tool("xpu-smi discovery", captured("xpu-smi-discovery-b70.json"))
    machine = tree.facts().machine
    assert [(gpu.name, gpu.arch, gpu.memory_bytes) for gpu in machine.gpus] == [
        ("Intel(R) Arc(TM) Pro B70 Graphics", "bmg", 32 * 1024**3),
        ("Intel(R) Arc(TM) Pro B70 Graphics", "bmg", None),
    ]
    assert (machine.driver.kernel, machine.driver.userspace) == ("", "26.05.37020.3")


def test_a_name_that_is_only_a_number_gives_way_to_the_catalogue(captured: Callable[[str], str], tree: Any) -> None:
    assert intel.parse_xpu_smi(captured("xpu-smi-discovery-unnamed.json"))["0000:17:00.0"]["name"] == "Intel(R) Graphics [0xe211]"
    tree.pci("0000:17:00.0", "8086:56a0", driver="i915").tool("xpu-smi discovery", captured("xpu-smi-discovery-unnamed.json"))
    (gpu,) = tree.facts().machine.gpus
    assert (gpu.name, gpu.memory_bytes) == ("Arc A770", 25669140480)


def test_a_neural_unit_is_no_accelerator_but_can_be_seen(tree: Any) -> None:
    facts = tree.pci("0000:00:0b.0", "8086:7d1d", kind="120000", driver="intel_vpu").module("intel_vpu").facts()
    assert facts.machine.gpus == ()
    assert facts.machine.modules == ("intel_vpu",)
    assert "8086:7d1d class 120000 driver intel_vpu" in facts.evidence["/sys/bus/pci/devices"]


def test_oneapi(tree: Any) -> None:
    (tree.root / "opt/intel/oneapi/2025.0").mkdir(parents=True)
    (tree.root / "opt/intel/oneapi/2025.2").mkdir(parents=True)
    assert tree.pci("0000:00:02.0", "8086:9bc4", driver="i915").facts().machine.driver.toolkit == "2025.2"
    tree.link("/opt/intel/oneapi/compiler/latest", "2025.0")
    assert tree.facts().machine.driver.toolkit == "2025.0"


# ---- Ascend and the others ---------------------------------------------------------------------------------------


def test_npu_smi(captured: Callable[[str], str]) -> None:
    first, second = ascend.parse_npu_smi(captured("npu-smi-910b4.txt"))
    assert (first.name, first.address, first.memory_bytes) == ("910B4", "0000:c1:00.0", 32768 * MIB)
    assert second.address == "0000:c2:00.0"
    assert [(chip.name, chip.address) for chip in ascend.parse_npu_smi(captured("npu-smi-a3.txt"))] == [
        ("Ascend910", "0000:9d:00.0"),
        ("Ascend910", "0000:9f:00.0"),
    ]


def test_ascend_on_the_bus(tree: Any, captured: Callable[[str], str]) -> None:
    tree.pci("0000:c1:00.0", "19e5:d802", kind="120000", driver="devdrv_device_driver").pci("0000:05:00.0", "19e5:1711")
    tree.file("/dev/davinci0", "").file("/usr/local/Ascend/driver/version.info", "Version=24.1.1\nascendhal_version=7.35.23\n")
    tree.file(
        "/usr/local/Ascend/cann/x86_64-linux/ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.5.0\n"
    )
    machine = tree.tool("npu-smi info", captured("npu-smi-910b4.txt")).facts().machine
    (npu,) = machine.gpus
    assert (npu.name, npu.arch, npu.vendor, npu.memory_bytes) == ("Ascend 910B4", "ascend910b", "huawei", 32768 * MIB)
    assert (machine.driver.kernel, machine.driver.toolkit) == ("24.1.1", "8.5.0")


def test_ascend_that_names_itself_whole(tree: Any, captured: Callable[[str], str]) -> None:
    machine = tree.tool("npu-smi info", captured("npu-smi-a3.txt")).facts().machine
    assert [(gpu.name, gpu.memory_bytes) for gpu in machine.gpus] == [("Ascend910", 65536 * MIB)] * 2
    assert machine.driver.kernel == "26.0.rc2"


def test_ascend_by_its_nodes_alone(tree: Any) -> None:
    tree.file("/dev/davinci0", "").file("/dev/davinci1", "").file("/dev/davinci_manager", "")
    assert [gpu.name for gpu in tree.facts().machine.gpus] == ["Ascend NPU", "Ascend NPU"]


@pytest.mark.parametrize(
    ("ident", "kind", "vendor"),
    [
        ("1da3:1020", "120000", "habana"),
        ("1ed5:0323", "030000", "moorethreads"),
        ("cabc:0370", "120000", "cambricon"),
        ("1ae0:0063", "088000", "google"),
        ("1d0f:7264", "088000", "aws"),
        ("9999:0a01", "120000", "metax"),
        ("beef:0001", "120000", ""),
        ("beef:0001", "030200", ""),
    ],
)
def test_other_accelerators(tree: Any, ident: str, kind: str, vendor: str) -> None:
    (gpu,) = tree.pci("0000:65:00.0", ident, kind=kind, driver="x").facts().machine.gpus
    assert (gpu.vendor, gpu.pci_id, gpu.arch) == (vendor, ident, "")


@pytest.mark.parametrize(
    ("ident", "kind"),
    [
        ("1af4:1050", "030000"),  # virtio
        ("1b36:0100", "030000"),  # QXL
        ("1234:1111", "030000"),  # Bochs
        ("15ad:0405", "030000"),  # VMware
        ("1a03:2000", "030000"),  # ASPEED
        ("102b:0538", "030000"),  # Matrox
        ("1414:5353", "030000"),  # Hyper-V
        ("1013:00b8", "030000"),  # Cirrus
        ("1002:515e", "030000"),  # ES1000 of a management controller
        ("19e5:1711", "030000"),  # iBMC
        ("1d0f:1111", "030000"),  # EC2's screen
        ("1ae0:0042", "020000"),  # Google's network
        ("1d17:3d00", "030000"),  # a screen of nobody we know
        ("10de:22e8", "040300"),  # sound
    ],
)
def test_what_only_draws_is_no_accelerator(tree: Any, ident: str, kind: str) -> None:
    assert tree.pci("0000:00:01.0", ident, kind=kind, driver="x").facts().machine.gpus == ()


# ---- several vendors ---------------------------------------------------------------------------------------------


def test_three_vendors_in_one_machine(tree: Any) -> None:
    tree.pci("0000:00:02.0", "8086:9bc4", driver="i915").pci(
        "0000:03:00.0", "1002:744c", driver="amdgpu", mem_info_vram_total="25753026560"
    )
    tree.pci("0000:21:00.0", "10de:2684", driver="nvidia").pci("0000:05:00.0", "1a03:2000", driver="ast")
    tree.module("nvidia", "550.54.14").module("amdgpu", "6.10.5").module("i915").file("/opt/rocm/.info/version", "6.3.1\n")
    machine = tree.facts().machine
    assert [gpu.vendor for gpu in machine.gpus] == ["intel", "amd", "nvidia"]
    assert machine.driver.kernel == "550.54.14"
    assert {vendor: facts.kernel for vendor, facts in machine.drivers.items()} == {"nvidia": "550.54.14", "amd": "6.10.5"}
    assert machine.drivers["amd"].toolkit == "6.3.1"


def test_an_integrated_gpu_beside_a_card_of_the_same_vendor(tree: Any) -> None:
    tree.pci("0000:0c:00.0", "1002:164e", driver="amdgpu").pci("0000:03:00.0", "1002:744c", driver="amdgpu").module(
        "amdgpu", "6.10.5"
    )
    machine = tree.facts().machine
    assert [(gpu.pci_address, gpu.arch) for gpu in machine.gpus] == [("0000:03:00.0", "gfx1100"), ("0000:0c:00.0", "gfx1036")]
    assert machine.driver.kernel == "6.10.5"
    assert machine.drivers == {}


def test_the_discrete_card_names_the_driver(tree: Any) -> None:
    tree.pci("0000:0c:00.0", "1002:164e", driver="amdgpu").module("amdgpu", "6.10.5").pci(
        "0000:03:00.0", "8086:56a0", driver="i915"
    )
    tree.file("/var/lib/dpkg/status", "Package: libze-intel-gpu1\nStatus: install ok installed\nVersion: 25.18.1-1\n")
    machine = tree.facts().machine
    assert machine.driver.userspace == "25.18.1"
    assert set(machine.drivers) == {"amd", "intel"}


def test_a_guest_function_of_intel_that_a_driver_computes_on_stays(tree: Any) -> None:
    tree.pci("0000:4d:00.0", "8086:56a0", driver="i915")
    tree.pci("0000:4d:00.1", "8086:56a0", driver="vfio-pci", physfn="0000:4d:00.0")
    tree.pci("0000:4d:00.2", "8086:56a0", driver="i915", physfn="0000:4d:00.0")
    assert [gpu.pci_address for gpu in tree.facts().machine.gpus] == ["0000:4d:00.0", "0000:4d:00.2"]


def test_a_function_that_was_passed_to_this_guest_is_a_card_here(tree: Any) -> None:
    (gpu,) = tree.pci("0000:00:05.0", "1002:744c", driver="amdgpu").facts().machine.gpus
    assert gpu.pci_address == "0000:00:05.0"
