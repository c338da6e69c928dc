"""Whatever a machine, a tool or a person writes: an answer or a named fault, never a crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.detect import amd, ascend, facts_document, intel, nvidia, read_facts, releases, windows
from envkit.detect.document import Reader, _facts
from envkit.detect.excerpts import Privacy
from envkit.detect.parse import parse
from envkit.detect.raw import Raw, json_of, whole
from envkit.errors import InvalidFile

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "detect"
CAPTURED = [path.read_bytes().decode("utf-8") for path in sorted(FIXTURES.iterdir()) if path.suffix in (".txt", ".json", ".bin")]

# The catalogue is patched for each test function, which suits every example alike.
RULES = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A captured output with a piece cut out, doubled or replaced."""
    text = draw(st.sampled_from(CAPTURED))
    start = draw(st.integers(0, len(text)))
    end = draw(st.integers(start, min(len(text), start + 400)))
    return text[:start] + draw(st.sampled_from(["", text[start:end] * 2]) | st.text(max_size=40)) + text[end:]


PARSERS: list[Callable[[str], Any]] = [
    nvidia.parse_header,
    nvidia.parse_module_version,
    nvidia.parse_license,
    nvidia.without_processes,
    nvidia.bus_address,
    nvidia.combined_id,
    nvidia.arch_of_capability,
    lambda text: nvidia.parse_userspace(text.splitlines()),
    amd.parse_kfd,
    amd.parse_rocminfo,
    amd.parse_amd_smi,
    intel.parse_xpu_smi,
    ascend.parse_npu_smi,
    windows.nvidia_version,
    windows.pci_id,
    lambda text: releases.linux_id(releases.parse_os_release(text)),
    releases.macos_id,
    releases.id_of_title,
    releases.arch_word,
    json_of,
    whole,
    lambda text: Privacy().table({"x": text}),
]


@pytest.mark.parametrize("parser", PARSERS)
@RULES
@given(text=damaged() | st.text())
def test_parsers(parser: Callable[[str], Any], text: str) -> None:
    parser(text)


KEYS = [
    "files",
    "marks",
    "mounts",
    "pci",
    "kfd",
    "nvidia",
    "modules",
    "nodes",
    "libraries",
    "toolkits",
    "packages",
    "tools",
    "units",
]
KEYS += [
    "limits",
    "identity",
    "python",
    "env",
    "registry",
    "release",
    "machine",
    "libc",
    "secure_boot",
    "kernel_log",
    "faults",
    "drm",
]


@RULES
@given(document=st.dictionaries(st.sampled_from([*KEYS, "os"]), anything, max_size=8))
def test_raw_documents_of_any_shape(document: dict[str, Any]) -> None:
    facts_document(parse(document))


@RULES
@given(data=st.data())
def test_raw_documents_with_one_part_replaced(data: st.DataObject) -> None:
    document = json.loads((FIXTURES / "debian-12-vm.json").read_text())
    document["pci"] = [
        {"address": "0000:01:00.0", "vendor": "0x10de", "device": "0x2684", "class": "0x030000", "driver": "nvidia"}
    ]
    key = data.draw(st.sampled_from(sorted(document)))
    document[key] = data.draw(anything)
    document["os"] = data.draw(st.sampled_from(["linux", "windows", "macos"]))
    text = json.dumps(facts_document(parse(document)), allow_nan=True)
    assert json.loads(text)["schema"] == "envkit/facts/1"


TOOLS = [
    "nvidia-smi",
    "nvidia-smi -L",
    "nvidia-smi --query-gpu=index,name,pci.bus_id,driver_version,memory.total",
    "rocminfo",
    "amd-smi static",
]
TOOLS += [
    "xpu-smi discovery -j",
    "npu-smi info",
    "systemctl show",
    "rpm -qa",
    "powershell",
    "modinfo nvidia",
    "ldd --version",
    "sw_vers",
    "sysctl x",
]


@RULES
@given(
    tools=st.dictionaries(
        st.sampled_from(TOOLS),
        st.fixed_dictionaries(
            {
                "code": st.sampled_from([0, 1, None, -11]),
                "stdout": damaged() | st.text(),
                "stderr": st.text(),
                "timed_out": st.booleans(),
            }
        ),
        max_size=6,
    ),
    system=st.sampled_from(["linux", "windows", "macos"]),
)
def test_tools_that_print_anything(tools: dict[str, Any], system: str) -> None:
    document = {"os": system, "tools": tools, "release": "5.15-microsoft", "libc": "", "pci": [], "kfd": [], "nodes": []}
    facts_document(parse(document))


@RULES
@given(
    document=st.dictionaries(st.sampled_from(["machine", "python", "torch", "env", "request", "evidence", "schema"]), anything)
)
def test_hand_written_documents(document: dict[str, Any]) -> None:
    reader = Reader()
    facts = _facts(reader, document)
    assert all(fault for fault in reader.faults)
    facts_document(facts)


@RULES
@given(
    machine=st.dictionaries(st.sampled_from(["os", "gpu", "driver", "drivers", "devices", "wsl", "cpus", "services"]), anything)
)
def test_what_was_read_can_be_written_and_read_again(machine: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    path.write_text(json.dumps({"machine": machine}), encoding="utf-8", errors="surrogatepass")
    try:
        facts = read_facts(path)
    except InvalidFile as fault:
        assert fault.faults or "UTF-8" in str(fault)
        return
    path.write_text(json.dumps(facts_document(facts)), encoding="utf-8", errors="surrogatepass")
    assert read_facts(path) == facts


@RULES
@given(value=anything, keys=st.lists(st.text(max_size=5), max_size=4))
def test_looks_into_raw_documents(value: Any, keys: list[str]) -> None:
    raw = Raw(value if isinstance(value, dict) else {"x": value})
    raw.text(*keys), raw.number(*keys), raw.table(*keys), raw.texts(*keys), raw.tables(*keys), raw.file("x"), raw.tool("x")
