"""The facts document: written in order, read back, and every fault of a hand-written one named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from envkit.data import packaged
from envkit.detect import facts_document, read_facts
from envkit.errors import InvalidFile
from envkit.model import DriverFacts, Facts, Gpu, Machine, PythonFacts

FULL = """
[machine]
os = "linux"
os_release = "Ubuntu 24.04.1 LTS"
kernel = "6.8.0-41-generic"
arch = "x86_64"
glibc = "2.39"
wsl = false
container = ""
secure_boot = true
user_groups = ["adm", "sudo"]
devices = ["/dev/dri/renderD128"]
modules = ["nouveau"]
system_packages = { "nvidia-driver-570" = "570.86.10-0ubuntu1" }
services = { "nvidia-fabricmanager" = "inactive" }
shm_bytes = 67108864
[[machine.gpu]]
name = "NVIDIA GeForce RTX 5090"
pci_id = "10DE:2B85"
arch = "sm_120"
kernel_driver = "nouveau"
[machine.driver]
kernel = "570.86.10"
userspace = "570.86.10"
license = "Dual MIT/GPL"
toolkit = "12.8"
[python]
version = "3.11.9"
machine = "x86_64"
packages = { torch = "2.6.0+cu124", numpy = "2.0.0" }
[torch]
version = "2.6.0+cu124"
cuda = "12.4"
hip = ""
available = false
arch_list = ["sm_50", "sm_90"]
device_count = 0
device_names = []
[env]
CUDA_VISIBLE_DEVICES = "1"
[request]
command = "pip install torch==2.4.0 --index-url https://download.pytorch.org/whl/cu124"
[evidence]
dmesg = "NVRM: ..."
"nvidia-smi" = "..."
error = "the error line that the person saw"
"""


def write(tmp_path: Path, text: str, name: str = "report.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_the_example_of_the_interface(tmp_path: Path) -> None:
    notes: list[str] = []
    facts = read_facts(write(tmp_path, FULL), notes)
    machine = facts.machine
    assert (machine.os, machine.os_id, machine.glibc, machine.wsl, machine.secure_boot) == (
        "linux",
        "ubuntu-24.04",
        "2.39",
        False,
        True,
    )
    assert machine.gpus == (Gpu(name="NVIDIA GeForce RTX 5090", pci_id="10de:2b85", arch="sm_120", kernel_driver="nouveau"),)
    assert machine.driver == DriverFacts(kernel="570.86.10", userspace="570.86.10", license="Dual MIT/GPL", toolkit="12.8")
    assert facts.python.packages["torch"] == "2.6.0+cu124"
    assert facts.torch["device_count"] == 0
    assert facts.env == {"CUDA_VISIBLE_DEVICES": "1"}
    assert facts.evidence["error"] == "the error line that the person saw"
    assert notes == []


def test_the_order_of_the_interface(tmp_path: Path) -> None:
    document = facts_document(read_facts(write(tmp_path, FULL)))
    assert list(document) == ["schema", "machine", "python", "torch", "env", "request", "evidence"]
    promised = [
        *("os", "os_release", "kernel", "arch", "glibc", "wsl", "container", "secure_boot", "user_groups", "devices", "modules"),
        *("system_packages", "services", "shm_bytes", "gpu", "driver"),
    ]
    assert [key for key in document["machine"] if key in promised] == promised
    assert list(document["machine"]["gpu"][0]) == ["name", "pci_id", "arch", "kernel_driver"]
    assert list(document["machine"]["driver"]) == ["kernel", "userspace", "license", "toolkit"]


@pytest.mark.parametrize("name", ["report.json", "report"])
def test_there_and_back(tmp_path: Path, name: str) -> None:
    facts = read_facts(write(tmp_path, FULL))
    again = read_facts(write(tmp_path, json.dumps(facts_document(facts)), name))
    assert again == facts
    assert facts_document(again) == facts_document(facts)


def test_what_is_not_known_is_left_out() -> None:
    assert facts_document(Facts()) == {"schema": "envkit/facts/1"}
    known = Facts(machine=Machine(os="linux", wsl=False, gpus=(), devices=()))
    assert facts_document(known)["machine"] == {"os": "linux", "wsl": False, "container": "", "devices": [], "gpu": []}


def test_every_field_survives(tmp_path: Path) -> None:
    facts = Facts(
        machine=Machine(
            os="linux",
            os_release="x",
            os_id="debian-12",
            os_like=("debian",),
            kernel="6",
            arch="aarch64",
            glibc="2.36",
            libc="glibc",
            wsl=True,
            container="podman",
            secure_boot=False,
            user_groups=("a",),
            devices=("/dev/kfd",),
            devices_denied=("/dev/kfd",),
            modules=("amdgpu",),
            system_packages={"a": "1"},
            services={"b": "active"},
            shm_bytes=0,
            cpus=2,
            memory_bytes=3,
            gpus=(Gpu(name="n", pci_id="1002:744c", arch="a", kernel_driver="k", memory_bytes=1, vendor="amd", pci_address="p"),),
            driver=DriverFacts(kernel="1", userspace="2", license="3", toolkit="4"),
            drivers={"amd": DriverFacts(kernel="1"), "nvidia": DriverFacts(toolkit="12")},
        ),
        python=PythonFacts(version="3.12", machine="aarch64", executable="/x", packages={"torch": "2"}),
        torch={"version": "2", "cuda": "", "arch_list": ["sm_90"], "something": {"new": [1]}},
        env={"A": "b"},
        request={"command": "c", "tries": 2},
        evidence={"d": "e"},
    )
    document = facts_document(facts)
    jsonschema.validate(document, json.loads(packaged("schemas/facts.json").read_text()))
    assert read_facts(write(tmp_path, json.dumps(document), "f.json")) == facts


FAULTY = """
schema = "envkit/facts/2"
[machine]
os = "wsl2"
glibc = 2.39
wsl = "no"
user_groups = "adm"
devices = ["/dev/kfd", 3]
shm_bytes = -1
cpus = 1.5
system_packages = { docker = 20.10 }
[[machine.gpu]]
name = 5090
pci_id = "10de-2b85"
[machine.driver]
kernel = 570.86
[python]
packages = ["torch"]
[torch]
available = "yes"
arch_list = "sm_90"
device_count = true
[env]
CUDA_VISIBLE_DEVICES = 1
[evidence]
dmesg = ["a"]
"""


def test_every_fault_is_named_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile) as raised:
        read_facts(write(tmp_path, FAULTY))
    assert raised.value.exit_code == 3
    assert sorted(raised.value.faults) == sorted(
        [
            "schema: expected 'envkit/facts/1', got text 'envkit/facts/2'",
            "machine.os: expected one of linux, windows, macos, got 'wsl2'; for WSL2 write os = \"linux\" and wsl = true",
            "machine.glibc: expected text (a version needs quotes), got number 2.39",
            "machine.wsl: expected true or false, got text 'no'",
            "machine.user_groups: expected a list of texts, got text 'adm'",
            "machine.devices[1]: expected text, got number 3",
            "machine.shm_bytes: expected a whole number, got number -1",
            "machine.cpus: expected a whole number, got number 1.5",
            "machine.system_packages.docker: expected text, got number 20.1",
            "machine.gpu[0].name: expected text (a version needs quotes), got number 5090",
            "machine.gpu[0].pci_id: expected vendor:device such as '10de:2684', got '10de-2b85'",
            "machine.driver.kernel: expected text (a version needs quotes), got number 570.86",
            "python.packages: expected a table, got a list",
            "torch.available: expected true or false, got text 'yes'",
            "torch.arch_list: expected a list of texts, got text 'sm_90'",
            "torch.device_count: expected a whole number, got true",
            "env.CUDA_VISIBLE_DEVICES: expected text, got number 1",
            "evidence.dmesg: expected text, got a list",
        ]
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("machine = 1", "machine: expected a table, got number 1"),
        ("[machine]\ngpu = 'RTX'", "machine.gpu: expected a list of tables, got text 'RTX'"),
        ("[machine]\ngpu = ['RTX']", "machine.gpu[0]: expected a table, got text 'RTX'"),
        ("[machine]\ndriver = '570'", "machine.driver: expected a table, got text '570'"),
        ("[machine]\ndrivers = { nvidia = '570' }", "machine.drivers.nvidia: expected a table, got text '570'"),
        ("env = []", "env: expected a table, got a list"),
    ],
)
def test_tables_of_another_kind(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(InvalidFile) as raised:
        read_facts(write(tmp_path, text))
    assert raised.value.faults == (fault,)


def test_unknown_keys_are_ignored_and_can_be_named(tmp_path: Path) -> None:
    notes: list[str] = []
    text = "title = 'x'\n[machine]\nkernal = '6'\n[[machine.gpu]]\nnam = 'y'\n[machine.driver]\nversion = '5'\n"
    text += "[expected]\ncause = 'z'\n"
    facts = read_facts(write(tmp_path, text), notes)
    assert facts.machine.gpus == (Gpu(),)
    assert notes == [
        "title: unknown key",
        "machine.kernal: unknown key; did you mean 'kernel'?",
        "machine.gpu[0].nam: unknown key; did you mean 'name'?",
        "machine.driver.version: unknown key",
    ]


def test_one_gpu_in_single_brackets_is_one_gpu(tmp_path: Path) -> None:
    facts = read_facts(write(tmp_path, "[machine.gpu]\nname = 'Apple M1'\n"))
    assert facts.machine.gpus == (Gpu(name="Apple M1"),)


def test_null_is_not_known(tmp_path: Path) -> None:
    text = '{"machine": {"os": null, "wsl": null, "gpu": null, "driver": null}, "torch": {"cuda": null}, "env": null}'
    assert read_facts(write(tmp_path, text, "f.json")) == Facts()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("f.toml", "a = ", "is not valid TOML"),
        ("f.json", "{", "is not valid JSON"),
        ("f.json", "[]", "expected a table, got a list"),
        ("f.json", "3", "expected a table, got number 3"),
        ("f.json", "[" * 100000, "nested too deeply"),
        ("f", '{"machine": {', "is not valid JSON"),
    ],
)
def test_files_that_are_none(tmp_path: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        read_facts(write(tmp_path, text, name))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="cannot be read: No such file"):
        read_facts(tmp_path / "missing.toml")
    with pytest.raises(InvalidFile, match="cannot be read: Is a directory"):
        read_facts(tmp_path)
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidFile, match="is not UTF-8 text"):
        read_facts(tmp_path / "b.toml")


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "n.toml").write_bytes(b"\xef\xbb\xbf[machine]\nos = 'windows'\n")
    assert read_facts(tmp_path / "n.toml").machine.os == "windows"


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("Ubuntu 24.04.1 LTS", "ubuntu-24.04"),
        ("Debian GNU/Linux 12 (bookworm)", "debian-12"),
        ("Debian GNU/Linux bookworm/sid", ""),
        ("CentOS Linux 7 (Core)", "centos-7"),
        ("Fedora 39", "fedora-39"),
        ("Fedora Linux 41 (Workstation Edition)", "fedora-41"),
        ("Rocky Linux 9.4 (Blue Onyx)", "rocky-9"),
        ("Red Hat Enterprise Linux 9.4 (Plow)", "rhel-9"),
        ("Red Hat Enterprise Linux Server release 7.9 (Maipo)", "rhel-7"),
        ("SUSE Linux Enterprise Server 15 SP6", "sles-15"),
        ("macOS 12.2.1", "macos-12"),
        ("Mac OS X 10.15.7", "macos-10.15"),
        ("Ubuntu", ""),
        ("Solus", ""),
        ("", ""),
    ],
)
def test_releases_as_systems_name_themselves(tmp_path: Path, release: str, expected: str) -> None:
    facts = read_facts(write(tmp_path, json.dumps({"machine": {"os": "linux", "os_release": release}}), "f.json"))
    assert facts.machine.os_id == expected


def test_the_schema_holds_the_example(tmp_path: Path) -> None:
    schema: dict[str, Any] = json.loads(packaged("schemas/facts.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(facts_document(read_facts(write(tmp_path, FULL))), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"schema": "envkit/facts/1", "machine": {"glibc": 2.39}}, schema)
