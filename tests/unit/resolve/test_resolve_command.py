"""`envkit resolve` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from envkit import detect
from envkit.cli.app import COMMANDS, run
from envkit.cli.resolve import command
from envkit.errors import EnvkitError
from envkit.model import DriverFacts, Facts, Gpu, Machine, PythonFacts


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No envkit.toml and no setting of the caller's gets in."""
    monkeypatch.chdir(tmp_path)


def call(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), standalone_mode=False)


def code(result: Result) -> int:
    if isinstance(result.exception, EnvkitError):
        return result.exception.exit_code
    assert result.exception is None, result.exception
    return int(result.return_value or 0)


def test_it_is_listed_and_has_help() -> None:
    assert COMMANDS["resolve"] == "resolve"
    text = CliRunner().invoke(command, ["--help"]).output
    for option in (
        "--os",
        "--gpu",
        "--driver",
        "--backend",
        "--torch",
        "--python",
        "--with",
        "--accept",
        "--facts",
        "--all",
        "--format",
    ):
        assert option in text


PLAN = """\
linux-cuda: torch 2.15.0+cu132 on GeForce RTX 5090 (sm_120)

  verdict    supported (evidence: wheel-measured)
  platform   linux/x86_64
  backend    cuda 13.2 (cu132)
  python     3.12
  driver     have 580.82, need 580.65.06
  packages   torch==2.15.0+cu132  https://download.pytorch.org/whl/cu132
             numpy==2.5.5         pypi
"""

WHY = """\
why
  - torch 2.15.0+cu132 holds code for GeForce RTX 5090 (sm_120)
  - driver 580.82 reaches 580.65.06, the floor of CUDA 13.2 wheels
  - GeForce RTX 5090 (sm_120) is Blackwell, which works only with the open kernel module
  - torch 2.15.0 is the newest that the matrix has for linux-cuda
"""


def test_a_plan_in_words() -> None:
    result = call("--os", "linux", "--gpu", "RTX 5090", "--driver", "580.82", "--python", "3.12")
    assert code(result) == 0
    assert result.output.startswith(PLAN)
    assert WHY in result.output
    assert "\nsources\n  - " in result.output


def test_a_plan_as_a_document() -> None:
    result = call("--gpu", "RTX 5090", "--driver", "580.82", "--format", "json")
    document = json.loads(result.output)
    assert (code(result), document["schema"], document["scheme"]) == (0, "envkit/plan/1", "linux-cuda")
    assert document["accelerator"] == {"name": "GeForce RTX 5090", "arch": "sm_120"}


def test_nothing_fits() -> None:
    words = call("--os", "linux", "--gpu", "RTX 5090", "--driver", "550.54.14")
    assert code(words) == 4
    assert words.output.startswith("nothing fits: GeForce RTX 5090 (sm_120), driver 550.54.14, linux/x86_64\n\nwhy not\n")
    assert (
        "\n  1. update the driver to 570.26 or newer\n     gives torch 2.11.0+cu128 (linux-cuda, Python 3.14), supported\n"
        in words.output
    )
    document = call("--os", "linux", "--gpu", "RTX 5090", "--driver", "550.54.14", "--format", "json")
    assert code(document) == 4
    assert json.loads(document.output)["schema"] == "envkit/conflict/1"


def test_every_candidate() -> None:
    words = call("--gpu", "gfx1100", "--all")
    assert code(words) == 0
    assert " candidates for gfx1100, linux/x86_64\n" in words.output
    lines = [line.split()[0] for line in words.output.splitlines()[2:] if line.startswith("  ")]
    assert lines.index("supported") < lines.index("unsupported")
    document = call("--gpu", "gfx1100", "--all", "--format", "json")
    assert json.loads(document.output)["schema"] == "envkit/candidates/1"
    assert code(call("--gpu", "gfx803", "--all")) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("linux-cudda",), "unknown scheme 'linux-cudda'; did you mean 'linux-cuda'?"),
        (("--os", "linx", "--gpu", "none"), "unknown platform 'linx'; did you mean 'linux'?"),
        (("--os", "linux"), "which accelerator? Nothing says what the machine has"),
        (("--driver", "580.82"), "which accelerator? Nothing says what the machine has"),
        (("--gpu", "RTX 5091"), "unknown GPU 'RTX 5091'; did you mean GeForce RTX 5090"),
        (("--gpu", "RTX 6000"), "--gpu 'RTX 6000' may mean several: "),
        (("--gpu", "Voodoo 2 of my uncle"), "unknown GPU 'Voodoo 2 of my uncle'"),
        (("--gpu", "none", "--torch", "banana"), "--torch 'banana' names no release"),
        (("--gpu", "none", "--python", "banana"), "--python 'banana' names no Python 3"),
        (("--gpu", "RTX 5090", "--driver", "banana"), "--driver 'banana' is no version"),
        (("--gpu", "none", "--backend", "cu127"), "unknown backend 'cu127'; did you mean"),
        (("--gpu", "none", "--with", "torchvison"), "no companion package 'torchvison'; did you mean 'torchvision'?"),
        (("linux-cpu", "--scheme", "linux-cuda"), "two schemes: linux-cpu and linux-cuda"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str) -> None:
    result = call(*arguments)
    assert code(result) == 2
    assert isinstance(result.exception, EnvkitError)
    assert result.exception.message.startswith(message)
    assert result.exception.hint


def test_ambiguous_names_list_what_they_may_mean() -> None:
    error = call("--gpu", "RTX 6000").exception
    assert isinstance(error, EnvkitError)
    assert all(meaning in error.message for meaning in ("sm_75", "sm_89", "sm_120"))


@pytest.mark.parametrize(("name", "arch"), [("T1000", "sm_75"), ("T500 (Laptop)", "sm_75"), ("Radeon 610M", "gfx1036")])
def test_a_name_of_several_products_that_are_all_alike_is_no_riddle(name: str, arch: str) -> None:
    document = json.loads(call("--gpu", name, "--accept", "unknown", "--accept", "override", "--format", "json").output)
    accelerator = document["accelerator"] if "accelerator" in document else document["nearest"][0]["plan"]["accelerator"]
    assert accelerator == {"name": name, "arch": arch}


@pytest.mark.parametrize("text", ["10de:2b85", "sm_120", "12.0", "NVIDIA GeForce RTX 5090", "rtx5090", "geforce rtx 5090"])
def test_one_card_under_all_its_names(text: str) -> None:
    document = json.loads(call("--gpu", text, "--driver", "580.82", "--format", "json").output)
    assert document["accelerator"]["arch"] == "sm_120"


def here(*cards: Gpu, driver: str = "") -> Facts:
    machine = Machine(os="linux", os_id="debian-12", arch="x86_64", glibc="2.36", gpus=cards, driver=DriverFacts(kernel=driver))
    return Facts(machine=machine, python=PythonFacts(version="3.11.2"))


def test_without_a_machine_it_is_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detect, "detect", here)
    assert code(call()) == 0
    assert call().output.startswith("linux-cpu: torch 2.15.0+cpu\n")
    assert code(call("linux-cuda")) == 4
    assert "linux-cuda needs an NVIDIA GPU; this machine has no accelerator" in call("linux-cuda").output
    assert "1. use the CPU: --scheme linux-cpu" in call("linux-cuda").output
    monkeypatch.setattr(detect, "detect", lambda: here(Gpu(arch="sm_86", vendor="nvidia"), driver="580.82.07"))
    assert call("linux-cuda").output.startswith("linux-cuda: torch 2.15.0+cu132 on sm_86\n")
    assert call("--scheme", "linux-cpu").output.startswith("linux-cpu: torch 2.15.0+cpu\n")


def test_a_described_machine_is_never_mixed_with_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Facts:
        raise AssertionError("this machine was looked at")

    monkeypatch.setattr(detect, "detect", never)
    assert code(call("--gpu", "RTX 5090", "--driver", "580.82")) == 0
    assert code(call("linux-cuda", "--os", "ubuntu-24.04")) == 0
    assert "ubuntu-24.04/x86_64" in call("linux-cuda", "--os", "ubuntu-24.04").output


def test_facts_from_a_file(tmp_path: Path) -> None:
    report = tmp_path / "report.toml"
    report.write_text(
        '[machine]\nos = "linux"\nos_release = "Ubuntu 24.04.1 LTS"\nglibc = "2.39"\n'
        '[[machine.gpu]]\nname = "NVIDIA GeForce RTX 5090"\npci_id = "10de:2b85"\nkernel_driver = "nvidia"\n'
        '[machine.driver]\nkernel = "570.86.10"\nlicense = "Dual MIT/GPL"\n[python]\nversion = "3.12.3"\n'
    )
    document = json.loads(call("--facts", str(report), "--format", "json").output)
    assert document["platform"] == "ubuntu-24.04/x86_64"
    assert document["framework"]["version"] == "2.11.0"
    assert document["python"] == "3.12"
    newer = json.loads(call("--facts", str(report), "--driver", "580.82.07", "--format", "json").output)
    assert newer["framework"]["version"] == "2.15.0"


def test_companions_and_settings() -> None:
    document = json.loads(
        call("linux-cpu", "--os", "debian-12", "--torch", "2.8.0", "--with", "torchvision", "--format", "json").output
    )
    assert [package["name"] for package in document["packages"]] == ["torch", "torchvision", "numpy"]
    assert code(call("--gpu", "gfx1031")) == 4
    accepted = json.loads(call("--gpu", "gfx1031", "--accept", "override", "--format", "json").output)
    assert accepted["env"] == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    assert accepted["verdict"] == "override"


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("GPU", "gfx1031", "gfx1031"),
        ("GPU", "RTX 5090", "GeForce RTX 5090"),
        ("SCHEME", "linux-cpu", "linux-cpu"),
        ("TORCH", "2.8.0", "torch 2.8.0"),
        ("ALL", "1", "candidates for"),
    ],
)
def test_every_option_can_be_set_by_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, value: str, wanted: str
) -> None:
    monkeypatch.setenv("ENVKIT_RESOLVE_OS", "linux")
    monkeypatch.setenv("ENVKIT_RESOLVE_GPU", "none")
    monkeypatch.setenv(f"ENVKIT_RESOLVE_{name}", value)
    assert run(["resolve"]) in (0, 4)
    assert wanted in capsys.readouterr().out


def test_two_cards_are_not_taken_for_one() -> None:
    result = call("--os", "linux", "--gpu", "RTX 5090", "--gpu", "RX 7900 XTX")
    assert code(result) == 2
    assert "--gpu was given 2 times: RTX 5090, RX 7900 XTX" in str(result.exception)


def test_no_traceback_on_anything(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["resolve", "--nonsense"],
        ["resolve", "a", "b"],
        ["resolve", "--facts", "/"],
        ["resolve", "--accept", "all"],
    ):
        assert run(arguments) in (2, 3)
        told = capsys.readouterr()
        assert told.out == ""
        assert "error: " in told.err
        assert "Traceback" not in told.err
