"""Windows: CIM's JSON in its several shapes, driver numbers, adapters that are no hardware."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from envkit.detect import probe, windows
from envkit.detect.parse import parse
from envkit.detect.raw import Raw
from envkit.detect.releases import id_of_title, windows_id

GIB = 1024**3


def raw_of(text: str, **more: Any) -> dict[str, Any]:
    tools = {"powershell": {"code": 0, "stdout": text, "stderr": "", "timed_out": False, "limit": 7.0}}
    return {"os": "windows", "tools": tools, "machine": "AMD64", "processors": 16, **more}


def test_a_card_beside_an_integrated_gpu(captured: Callable[[str], str]) -> None:
    machine = parse(raw_of(captured("windows-nvidia-intel.json"))).machine
    assert (machine.os, machine.os_id, machine.kernel, machine.arch) == ("windows", "windows-11", "10.0.26100", "x86_64")
    assert (machine.os_release, machine.secure_boot, machine.cpus) == ("Microsoft Windows 11 Pro", True, 16)
    assert machine.memory_bytes == 33366048 * 1024
    nvidia, intel = sorted(machine.gpus or (), key=lambda gpu: gpu.vendor, reverse=True)
    assert (nvidia.name, nvidia.pci_id, nvidia.arch, nvidia.kernel_driver) == (
        "NVIDIA GeForce RTX 4090",
        "10de:2684",
        "sm_89",
        "nvlddmkm",
    )
    # The registry has the whole size, the video class stops below 4 GiB.
    assert nvidia.memory_bytes == 25757220864
    assert (intel.pci_id, intel.kernel_driver) == ("8086:9bc4", "igfxnD")
    assert machine.driver.kernel == "576.28"
    assert machine.drivers["intel"].kernel == "31.0.101.2125"
    assert machine.driver.userspace == ""
    assert machine.glibc == machine.container == machine.libc == ""


def test_a_card_without_a_driver(captured: Callable[[str], str]) -> None:
    facts = parse(raw_of(captured("windows-amd-no-driver.json")))
    machine = facts.machine
    assert machine.os_id == "windows-10"
    assert facts.evidence["Win32_PnPEntity"] == "Video Controller (VGA Compatible): code 28"
    integrated, card = machine.gpus or ()
    assert (integrated.name, integrated.arch, integrated.kernel_driver) == ("Radeon Graphics (Raphael)", "gfx1036", "amdwddmg")
    assert (card.name, card.arch, card.kernel_driver) == ("Radeon RX 580", "gfx803", "")
    assert machine.driver.kernel == "32.0.31007.5012"
    assert machine.secure_boot is None


@pytest.mark.parametrize(
    ("windows_number", "own"),
    [
        ("32.0.15.7628", "576.28"),
        ("32.0.15.6094", "560.94"),
        ("31.0.15.2849", "528.49"),
        ("22.21.13.8253", "382.53"),
        ("30.0.14.7212", "472.12"),
        ("32.0.15.602", "506.02"),
        ("576.28", "576.28"),
        ("", ""),
        ("a.b.c.d", "a.b.c.d"),
    ],
)
def test_nvidia_numbers(windows_number: str, own: str) -> None:
    assert windows.nvidia_version(windows_number) == own


@pytest.mark.parametrize(
    ("build", "server", "expected"),
    [
        (26100, False, "windows-11"),
        (22000, False, "windows-11"),
        (21999, False, "windows-10"),
        (19045, False, "windows-10"),
        (9600, False, "windows-8"),
        (7601, False, "windows-7"),
        (6002, False, ""),
        (26100, True, "windows-server-2025"),
        (20348, True, "windows-server-2022"),
        (17763, True, "windows-server-2019"),
        (14393, True, "windows-server-2016"),
        (None, False, ""),
    ],
)
def test_releases_by_build(build: int | None, server: bool, expected: str) -> None:
    assert windows_id(build, server=server) == expected


@pytest.mark.parametrize(
    ("title", "kernel", "expected"),
    [
        ("Microsoft Windows 10 Pro", "10.0.19045", "windows-10"),
        ("Microsoft Windows 10 Pro", "10.0.22631", "windows-11"),
        ("Microsoft Windows 11", "10.0.26200.8524", "windows-11"),
        ("Microsoft Windows 11 Pro", "", "windows-11"),
        ("Microsoft Windows Server 2022 Datacenter", "10.0.20348", "windows-server-2022"),
        ("Microsoft Windows Server 2025 Standard", "", "windows-server-2025"),
    ],
)
def test_releases_by_title(title: str, kernel: str, expected: str) -> None:
    assert id_of_title(title, kernel) == expected


def adapters(**cim: Any) -> list[tuple[str, str, str]]:
    return [(seen.vendor, seen.pci_id, seen.driver_version) for seen in windows.adapters(Raw(cim))]


def test_adapters_that_are_no_hardware() -> None:
    video = [
        {"Name": "Microsoft Remote Display Adapter", "PNPDeviceID": "SWD\\REMOTEDISPLAYENUM\\RDPIDD_INDIRECTDISPLAY"},
        {"Name": "Microsoft Hyper-V Video", "PNPDeviceID": "VMBUS\\{DA0A7802}"},
        {"Name": "VMware SVGA 3D", "PNPDeviceID": "PCI\\VEN_15AD&DEV_0405"},
        {"Name": "Red Hat QXL controller", "PNPDeviceID": "PCI\\VEN_1B36&DEV_0100"},
        {"Name": "DisplayLink USB Device", "PNPDeviceID": "USB\\VID_17E9"},
        {"Name": "Something else", "PNPDeviceID": "ACPI\\X"},
    ]
    assert adapters(video=video) == []


def test_a_share_of_a_hosts_card() -> None:
    video = {"Name": "NVIDIA GeForce RTX 3080", "PNPDeviceID": "PCI\\VEN_1414&DEV_008E", "DriverVersion": "32.0.15.7628"}
    assert adapters(video=video) == [("nvidia", "", "576.28")]
    assert adapters(video={"Name": "Microsoft Basic Render Driver", "PNPDeviceID": "PCI\\VEN_1414&DEV_008C"}) == []


def test_qualcomms_graphics_are_on_no_bus() -> None:
    video = {"Name": "Qualcomm(R) Adreno(TM) X1-85 GPU", "PNPDeviceID": "ACPI\\VEN_QCOM&DEV_0C36", "DriverVersion": "31.0.112.0"}
    assert adapters(video=video) == [("qualcomm", "", "31.0.112.0")]


def test_basic_display_is_not_the_cards_driver() -> None:
    video = {
        "Name": "Microsoft Basic Display Adapter",
        "PNPDeviceID": "PCI\\VEN_10DE&DEV_2684&SUBSYS_0",
        "DriverVersion": "10.0.26100.1",
    }
    (seen,) = windows.adapters(Raw({"video": video}))
    assert (seen.vendor, seen.kernel_driver, seen.driver_version) == ("nvidia", "BasicDisplay", "")


def test_a_version_that_only_the_signed_driver_tells() -> None:
    video = {
        "Name": "NVIDIA GeForce GTX 980 Ti",
        "PNPDeviceID": "PCI\\VEN_10DE&DEV_17C8&SUBSYS_49983842&REV_A1\\4&14144E6&0&00E4",
    }
    drivers = {"DeviceID": video["PNPDeviceID"].lower(), "DriverVersion": "22.21.13.8253"}
    assert adapters(video=video, drivers=drivers) == [("nvidia", "10de:17c8", "382.53")]


@pytest.mark.parametrize(
    ("size", "expected"), [(2147483648, 2 * GIB), (4293918720, None), (4294967295, None), (-1, None), (None, None)]
)
def test_memory_without_a_registry_entry(size: int | None, expected: int | None) -> None:
    video = {"Name": "x", "PNPDeviceID": "PCI\\VEN_10DE&DEV_2684", "AdapterRAM": size}
    assert windows.adapters(Raw({"video": video}))[0].memory_bytes == expected


def test_the_registry_entry_of_another_card_is_not_this_ones_memory() -> None:
    video = {"Name": "x", "PNPDeviceID": "PCI\\VEN_10DE&DEV_2684&SUBSYS_1", "AdapterRAM": 1}
    registry = [{"MatchingDeviceId": "PCI\\VEN_10DE&DEV_17C8", "Memory": 6 * GIB}, {"MatchingDeviceId": "", "Memory": 5 * GIB}]
    assert windows.adapters(Raw({"video": video, "registry": registry}))[0].memory_bytes == 1


def test_without_powershell_the_registry_tells() -> None:
    registry = {
        "adapters": [
            {
                "DriverDesc": "NVIDIA GeForce RTX 4090",
                "DriverVersion": "32.0.15.7628",
                "MatchingDeviceId": "pci\\ven_10de&dev_2684",
                "Memory": 24 * GIB,
            }
        ],
        "product_name": "Windows 10 Pro",
        "secure_boot": 1,
    }
    raw = {"os": "windows", "release": "10.0.22631", "product_type": 1, "machine": "AMD64", "registry": registry, "tools": {}}
    machine = parse(raw).machine
    assert (machine.os_id, machine.os_release, machine.secure_boot) == ("windows-11", "Windows 11 Pro", True)
    assert [(gpu.pci_id, gpu.memory_bytes) for gpu in machine.gpus or ()] == [("10de:2684", 24 * GIB)]
    assert machine.driver.kernel == "576.28"


@pytest.mark.parametrize("said", ["", "Access denied", "{", "[]", "null", '"x"', "\ufeff{}"])
def test_powershell_that_tells_nothing(said: str) -> None:
    facts = parse(raw_of(said, release="10.0.19045"))
    assert said or facts.evidence["powershell"] == "no output"
    assert (facts.machine.os_id, facts.machine.gpus) == ("windows-10", ())


def test_a_byte_order_mark_and_noise_before_the_document(captured: Callable[[str], str]) -> None:
    machine = parse(raw_of("\ufeffWARNING: profile\r\n" + captured("windows-amd-no-driver.json"))).machine
    assert len(machine.gpus or ()) == 2


def test_arm() -> None:
    text = json.dumps(
        {"os": {"Caption": "Microsoft Windows 11 Home", "Version": "10.0.26100", "OSArchitecture": "ARM 64-bit Processor"}}
    )
    facts = parse(
        raw_of(text) | {"machine": "AMD64", "python": {"full_version": "3.12.1 (x) [MSC v.1937 64 bit (AMD64)]", "bits": 64}}
    )
    assert (facts.machine.arch, facts.python.machine) == ("arm64", "x86_64")


def test_the_script_fits_a_windows_command_line() -> None:
    arguments = probe.shell_arguments()
    assert len("powershell.exe " + " ".join(arguments)) < 8191
    script = base64.b64decode(arguments[-1]).decode("utf-16-le")
    for word in ("Win32_VideoController", "Win32_OperatingSystem", "Win32_PnPSignedDriver", "ConvertTo-Json"):
        assert word in script
    assert script.count("{") == script.count("}")
    assert script.count("(") == script.count(")")
    assert "SerialNumber" not in script


def test_the_probe_reads_windows_with_tools_that_are_there(
    monkeypatch: pytest.MonkeyPatch, captured: Callable[[str], str]
) -> None:
    asked = []

    def run(argv: list[str], limit: float) -> dict[str, Any]:
        asked.append(argv[0])
        text = captured("windows-nvidia-intel.json") if "powershell" in argv[0] else "0, NVIDIA GeForce RTX 4090, x\n"
        return {"code": 0, "stdout": text, "stderr": "", "timed_out": False}

    monkeypatch.setenv("PROCESSOR_ARCHITECTURE", "AMD64")
    monkeypatch.setattr(probe, "read_registry", lambda: {"adapters": [], "product_name": "", "secure_boot": None})
    raw = probe.read(run=run, which=lambda name: f"C:\\{name}" if name.endswith(".exe") else None, system="windows")
    assert parse(raw).machine.driver.kernel == "576.28"
    assert set(asked) == {"C:\\powershell.exe", "C:\\nvidia-smi.exe"}
