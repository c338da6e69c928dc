"""macOS: system_profiler, sw_vers and sysctl."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from envkit.detect import probe
from envkit.detect.parse import parse
from envkit.detect.releases import id_of_title, macos_id

GIB = 1024**3
SYSCTL = "hw.memsize: 38654705664\nhw.optional.arm64: 1\nmachdep.cpu.brand_string: Apple M3 Pro\nsysctl.proc_translated: 0\n"


def raw_of(machine: str = "arm64", **answers: str) -> dict[str, Any]:
    names = {
        "system_profiler": "system_profiler -json -detailLevel mini SPDisplaysDataType SPHardwareDataType",
        "sysctl": "sysctl hw.memsize",
    }
    tools = {
        names.get(name, name): {"code": 0, "stdout": text, "stderr": "", "timed_out": False} for name, text in answers.items()
    }
    return {
        "os": "macos",
        "machine": machine,
        "release": "23.4.0",
        "processors": 11,
        "tools": tools,
        "python": {"version": "3.12.3", "bits": 64},
    }


def test_apple_silicon(captured: Callable[[str], str]) -> None:
    facts = parse(raw_of(system_profiler=captured("macos-m3-pro.json"), sw_vers=captured("sw_vers-14.txt"), sysctl=SYSCTL))
    machine = facts.machine
    assert (machine.os, machine.os_id, machine.os_release, machine.kernel) == ("macos", "macos-14", "macOS 14.4.1", "23.4.0")
    (gpu,) = machine.gpus or ()
    assert (gpu.name, gpu.arch, gpu.vendor, gpu.memory_bytes) == ("Apple M3 Pro", "apple-m3", "apple", 36 * GIB)
    assert (machine.arch, machine.cpus, facts.python.machine) == ("arm64", 11, "arm64")


def test_the_memory_in_words_where_sysctl_is_silent(captured: Callable[[str], str]) -> None:
    machine = parse(raw_of(system_profiler=captured("macos-m3-pro.json"))).machine
    assert machine.memory_bytes == 36 * GIB
    assert machine.os_release == ""


def test_a_python_under_rosetta(captured: Callable[[str], str]) -> None:
    sysctl = SYSCTL.replace("proc_translated: 0", "proc_translated: 1")
    facts = parse(raw_of("x86_64", system_profiler=captured("macos-m3-pro.json"), sysctl=sysctl))
    assert (facts.machine.arch, facts.python.machine) == ("arm64", "x86_64")
    assert facts.evidence["sysctl sysctl.proc_translated"] == "1"


def test_an_intel_mac_with_a_radeon(captured: Callable[[str], str]) -> None:
    machine = parse(raw_of("x86_64", system_profiler=captured("macos-intel-radeon.json"))).machine
    assert [(gpu.vendor, gpu.pci_id, gpu.memory_bytes) for gpu in machine.gpus or ()] == [
        ("amd", "1002:67df", 8 * GIB),
        ("intel", "8086:3e98", None),
    ]
    assert machine.arch == "x86_64"


def test_the_first_system_for_apples_processors_wrote_a_key(captured: Callable[[str], str]) -> None:
    (gpu,) = parse(raw_of(system_profiler=captured("macos-m1-big-sur.json"))).machine.gpus or ()
    assert (gpu.name, gpu.arch) == ("Apple M1", "apple-m1")


def test_a_profiler_that_hangs() -> None:
    raw = raw_of(sysctl=SYSCTL)
    raw["tools"]["system_profiler -json"] = {"code": None, "stdout": "", "stderr": "", "timed_out": True, "limit": 7.5}
    facts = parse(raw)
    assert [gpu.name for gpu in facts.machine.gpus or ()] == ["Apple M3 Pro"]
    assert facts.evidence["system_profiler"] == "no answer within 7.5 s, stopped"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("14.4.1", "macos-14"), ("26.0", "macos-26"), ("10.15.7", "macos-10.15"), ("11", "macos-11"), ("", "")],
)
def test_releases(version: str, expected: str) -> None:
    assert macos_id(version) == expected
    if version:
        assert id_of_title(f"macOS {version}") == expected


def test_the_probe_asks_for_no_serial_number() -> None:
    asked: list[list[str]] = []

    def run(argv: list[str], limit: float) -> dict[str, Any]:
        asked.append(argv)
        return {"code": 0, "stdout": "", "stderr": "", "timed_out": False}

    probe.read(run=run, which=lambda name: f"/usr/bin/{name}", system="macos")
    (profiler,) = [argv for argv in asked if argv[0].endswith("system_profiler")]
    assert profiler[1:] == ["-json", "-detailLevel", "mini", "SPDisplaysDataType", "SPHardwareDataType"]
