"""What identifies a machine stays out of the document."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import pytest

from envkit.detect import facts_document, probe
from envkit.detect.excerpts import Privacy, shorten


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Serial Number                         : 1560521001234", "Serial Number                         : (left out)"),
        ("        ASIC_SERIAL: 0x89ABCDEF", "        ASIC_SERIAL: (left out)"),
        ("ether 04:90:81:2c:77:b0 txqueuelen", "ether xx:xx:xx:xx:xx:xx txqueuelen"),
        ("0000:01:00.0 is an address on the bus", "0000:01:00.0 is an address on the bus"),
        ("Release Build  (root@gpu-box-17)  Thu Oct 10", "Release Build  Thu Oct 10"),
        ("Linux version 6.8 (buildd@lcy02-amd64-080) (gcc)", "Linux version 6.8 (gcc)"),
        ("GPU-398a3f843a146602", "GPU-0000000000000001"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_identifiers_are_replaced(text: str, expected: str) -> None:
    assert Privacy().clean(text) == expected


def test_one_identifier_has_one_stand_in() -> None:
    privacy = Privacy()
    first = privacy.clean("GPU-11111111-2222-3333-4444-555555555555")
    assert privacy.clean("MIG-99999999-2222-3333-4444-555555555555") != first.replace("GPU", "MIG")
    assert privacy.clean("GPU-11111111-2222-3333-4444-555555555555".upper()).lower() == first.lower()


def test_long_excerpts_keep_head_and_tail() -> None:
    text = shorten("a" * 5000 + "b" * 5000)
    assert len(text) < 4100
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert shorten("a\x00\x1b[31mb\n\n") == "a[31mb"


def test_variables_that_may_hold_secrets_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TPU_WORKER_HOSTNAMES", "CUDA_API_KEY", "TORCH_TOKEN", "NVIDIA_PASSWORD", "HTTPS_PROXY", "HOME", "HOSTNAME"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    env = probe.read_environment()
    assert env["CUDA_VISIBLE_DEVICES"] == "0"
    assert "secret" not in env.values()


def test_the_document_of_this_machine_does_not_name_it(tree: Any) -> None:
    name = socket.gethostname()
    tree.file(
        "/proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1  Release Build  (root@{name})\n",
    )
    tree.file("/etc/hostname", name).file("/sys/class/dmi/id/product_serial", "SN-1234").file(
        "/sys/class/dmi/id/product_name", "Z790"
    )
    tree.pci("0000:01:00.0", "10de:2684", driver="nvidia", unique_id="deadbeefdeadbeef")
    text = json.dumps(facts_document(tree.facts()))
    assert "SN-1234" not in text
    assert "deadbeef" not in text
    assert f"@{name}" not in text
    assert "Z790" in text


def test_tools_see_every_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    env = probe.tool_environment()
    assert "CUDA_VISIBLE_DEVICES" not in env
    assert "HSA_OVERRIDE_GFX_VERSION" not in env
    assert env["LC_ALL"] == "C"
    assert os.environ["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"
