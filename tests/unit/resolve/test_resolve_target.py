"""How a wish and the facts of a machine become the question that the rules answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envkit import matrix as matrices
from envkit.errors import UsageError
from envkit.model import DriverFacts, Facts, Gpu, Kind, Machine, Matrix, Offers, Os, PythonFacts, Wheel, Wish
from envkit.resolve import resolve
from envkit.resolve.candidates import rows
from envkit.resolve.target import NO_MODULE, Question, describe, driver_number, read


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def facts(*cards: Gpu, python: str = "", **more: Any) -> Facts:
    return Facts(machine=Machine(os=more.pop("os", "linux"), gpus=cards, **more), python=PythonFacts(version=python))


RTX_3090 = Gpu(pci_id="10de:2204", vendor="nvidia")
RAPHAEL = Gpu(pci_id="1002:164e", vendor="amd")  # an iGPU
RX_7900 = Gpu(pci_id="1002:744c", vendor="amd")


def question(matrix: Matrix, there: Facts | None = None, **wish: Any) -> Question:
    return read(matrix, Wish(**wish), there)


@pytest.mark.parametrize(
    ("wish", "there", "platform"),
    [
        ({"scheme": "linux-cuda"}, None, "debian-12/x86_64"),  # the image's
        ({"scheme": "windows-cuda"}, None, "windows/x86_64"),
        ({"scheme": "linux-cuda", "os": "ubuntu-24.04"}, None, "ubuntu-24.04/x86_64"),
        ({"scheme": "linux-cuda", "os": "linux"}, None, "linux/x86_64"),
        ({"gpu": "none"}, None, "linux/x86_64"),
        ({}, {"os_id": "ubuntu-24.04", "arch": "aarch64"}, "ubuntu-24.04/aarch64"),
        ({}, {"os_id": "ubuntu-24.04", "arch": "arm64"}, "ubuntu-24.04/aarch64"),
        ({}, {"os_release": "Ubuntu 24.04.1 LTS"}, "ubuntu-24.04/x86_64"),
        ({}, {"os_id": "fedora-43"}, "fedora-43/x86_64"),
        ({}, {"os": "windows", "arch": "AMD64"}, "windows/x86_64"),
        ({}, {"os": "windows", "arch": "ARM64"}, "windows/arm64"),
        ({}, {"os": "linux", "wsl": True}, "wsl2/x86_64"),
        ({}, {"os": "linux", "wsl": True, "os_id": "ubuntu-24.04"}, "ubuntu-24.04/x86_64"),
        # An option that says the same again takes nothing away; one that differs describes another machine.
        ({"os": "linux"}, {"os_id": "ubuntu-24.04"}, "ubuntu-24.04/x86_64"),
        ({"os": "linux/aarch64"}, {"os_id": "ubuntu-24.04"}, "linux/aarch64"),
        ({"os": "debian-12"}, {"os_id": "ubuntu-24.04"}, "debian-12/x86_64"),
    ],
)
def test_platform(matrix: Matrix, wish: dict[str, str], there: dict[str, Any] | None, platform: str) -> None:
    made = question(matrix, None if there is None else facts(**there), **wish)
    assert str(made.target.platform) == platform


def test_a_system_that_is_none_of_ours_is_not_taken_for_linux(matrix: Matrix) -> None:
    with pytest.raises(UsageError, match="a system that envkit does not know: 'freebsd'"):
        question(matrix, facts(os="freebsd"))
    assert str(question(matrix, facts(os="freebsd"), os="linux").target.platform) == "linux/x86_64"


def test_a_described_system_has_its_own_c_library(matrix: Matrix) -> None:
    there = facts(os_id="ubuntu-24.04", glibc="2.39")
    assert question(matrix, there).target.platform.glibc == "2.39"
    assert question(matrix, there, os="debian-12").target.platform.glibc == "2.36"
    assert question(matrix, facts(os_id="debian-12")).target.platform.glibc == "2.36"


def test_wsl2_takes_linux_schemes_and_the_windows_driver(matrix: Matrix) -> None:
    made = question(matrix, facts(RTX_3090, wsl=True, driver=DriverFacts(kernel="572.60")))
    assert made.target.platform.os is Os.WSL2
    names = {scheme.name for scheme in made.schemes}
    assert names >= {"linux-cpu", "linux-xpu", "wsl2-cuda", "wsl2-directml", "wsl2-rocm"}
    assert {name.partition("-")[0] for name in names} <= {"linux", "wsl2"}


@pytest.mark.parametrize(
    ("wish", "there", "offered", "pythons"),
    [
        ({"python": "3.13t"}, "3.11.2", None, ("3.13t",)),
        ({}, "3.11.2", None, ("3.11",)),
        ({}, "3.13.1t", None, ("3.13t",)),
        ({}, "3.15.0beta1", None, ("3.15",)),
        ({}, "3.11.2", ["3.12.4", "3.11.2"], ("3.12", "3.11")),
        ({"python": "3.10"}, "3.11.2", ["3.12.4"], ("3.10",)),
        ({}, "", None, None),
    ],
)
def test_pythons(
    matrix: Matrix, wish: dict[str, str], there: str, offered: list[str] | None, pythons: tuple[str, ...] | None
) -> None:
    assert read(matrix, Wish(**wish), facts(python=there), offered).target.pythons == pythons  # type: ignore[arg-type]


def test_the_image_brings_its_python(matrix: Matrix) -> None:
    assert question(matrix, scheme="linux-cuda").target.pythons == ("3.11",)
    assert question(matrix, scheme="linux-cuda", os="linux").target.pythons is None
    assert question(matrix, scheme="windows-cuda").target.pythons is None


def test_cards_are_identified_by_pci_id_and_name(matrix: Matrix) -> None:
    made = question(
        matrix, facts(RTX_3090, Gpu(name="NVIDIA GeForce RTX 5090"), Gpu(pci_id="10DE:2684"), Gpu(arch="8.9", vendor="nvidia"))
    )
    assert [card.arch for card in made.target.accelerators or ()] == ["sm_86", "sm_120", "sm_89", "sm_89"]
    assert {card.vendor for card in made.target.accelerators or ()} == {"nvidia"}


@pytest.mark.parametrize(
    ("card", "vendor"),
    [
        (Gpu(name="NVIDIA GPU"), "nvidia"),
        (Gpu(name="Tesla of some kind"), "nvidia"),
        (Gpu(name="AMD Radeon Graphics"), "amd"),
        (Gpu(name="Intel Arc A770", arch="dg2"), "intel"),
        (Gpu(arch="gfx1100"), "amd"),
    ],
)
def test_the_vendor_of_a_card_that_a_person_described(matrix: Matrix, card: Gpu, vendor: str) -> None:
    assert [each.vendor for each in question(matrix, facts(card)).target.accelerators or ()] == [vendor]


def test_equal_cards_are_counted(matrix: Matrix) -> None:
    made = question(matrix, facts(*[Gpu(name="NVIDIA A100", arch="sm_80", pci_address=f"0000:{n}") for n in range(8)]))
    assert describe(made) == "8 x NVIDIA A100 (sm_80), linux/x86_64"


def test_an_unknown_card_stays_unknown(matrix: Matrix) -> None:
    resolution = resolve(
        matrix, Wish(), facts(Gpu(pci_id="10de:ffff", name="NVIDIA Device ffff"), driver=DriverFacts(kernel="620.70.06"))
    )
    assert resolution.plan is None
    assert {str(each.verdict) for each in resolution.judged if each.candidate.backend.name == "cuda"} <= {
        "unknown",
        "unsupported",
    }
    assert any("is not known" in answer.reason for each in resolution.judged for answer in each.answers)


@pytest.mark.parametrize(
    ("card", "modules", "driver", "bound"),
    [
        (RTX_3090, None, "", ""),
        (RTX_3090, (), "", NO_MODULE),
        (RTX_3090, ("nouveau",), "", NO_MODULE),
        (RTX_3090, ("nvidia", "nvidia_uvm"), "", ""),
        (RTX_3090, (), "580.82.07", ""),  # a driver answered, so one is loaded
        (replace(RTX_3090, kernel_driver="nouveau"), ("nouveau",), "", "nouveau"),
        (RAPHAEL, ("amdgpu",), "", ""),
        (RAPHAEL, ("radeon",), "", NO_MODULE),
    ],
)
def test_no_loaded_module_is_a_fact(matrix: Matrix, card: Gpu, modules: tuple[str, ...] | None, driver: str, bound: str) -> None:
    made = question(matrix, facts(card, modules=modules, driver=DriverFacts(kernel=driver)))
    assert made.target.accelerators is not None
    assert made.target.accelerators[0].kernel_driver == bound


@pytest.mark.parametrize(
    ("vendor", "os", "text", "number"),
    [
        ("nvidia", Os.LINUX, "570.86.10", "570.86.10"),
        ("nvidia", Os.WINDOWS, "572.60", "572.60"),
        ("nvidia", Os.WINDOWS, "32.0.15.7260", "572.60"),
        ("nvidia", Os.WINDOWS, "31.0.15.5176", "551.76"),
        ("nvidia", Os.WSL2, "32.0.15.8097", "580.97"),
        ("amd", Os.WINDOWS, "26.6.4", "26.6.4"),
        ("amd", Os.WINDOWS, "32.0.21025.1024", ""),  # says nothing about the Adrenalin release
        ("amd", Os.LINUX, "6.12.12", "6.12.12"),
        ("nvidia", Os.LINUX, "", ""),
        ("nvidia", Os.LINUX, "nonsense", ""),
    ],
)
def test_driver_numbers(vendor: str, os: Os, text: str, number: str) -> None:
    assert driver_number(vendor, os, text) == number


def test_one_driver_table_and_cards_of_two_vendors(matrix: Matrix) -> None:
    there = facts(RX_7900, RTX_3090, driver=DriverFacts(kernel="580.82.07"))
    drivers = question(matrix, there).target.drivers
    assert (drivers["nvidia"].kernel, drivers["amd"].kernel) == ("580.82.07", "")
    each = {"nvidia": DriverFacts(kernel="580.82.07"), "amd": DriverFacts(kernel="6.12.12")}
    drivers = question(matrix, facts(RX_7900, RTX_3090, drivers=each)).target.drivers
    assert (drivers["nvidia"].kernel, drivers["amd"].kernel) == ("580.82.07", "6.4")  # whose module is 6.12.12
    # --driver is about one of them: NVIDIA's, unless the wish is for AMD.
    drivers = question(matrix, facts(RX_7900, RTX_3090, drivers=each), driver="595.71.05").target.drivers
    assert (drivers["nvidia"].kernel, drivers["amd"].kernel) == ("595.71.05", "6.4")
    drivers = question(matrix, facts(RX_7900, RTX_3090, drivers=each), driver="30.10", backend="rocm").target.drivers
    assert (drivers["nvidia"].kernel, drivers["amd"].kernel) == ("580.82.07", "30.10")


def test_a_driver_that_is_asked_about_replaces_the_one_that_is_there(matrix: Matrix) -> None:
    there = facts(RTX_3090, driver=DriverFacts(kernel="550.54.14", license="NVIDIA"))
    driver = question(matrix, there, driver="580.82.07").target.drivers["nvidia"]
    assert (driver.kernel, driver.license) == ("580.82.07", "NVIDIA")


def test_a_scheme_for_any_card_is_held_to_the_driver_alone(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-cuda", driver="550.54.14"))
    assert resolution.plan is not None
    assert resolution.plan.backend_tag == "cu126"
    assert resolution.plan.driver_have == "550.54.14"


INDEX = "https://download.pytorch.org/whl/cpu"
FOLDER = Offers(
    indexes={INDEX: False},
    wheels=(Wheel(name="torch", version="2.13.0+cpu", tags=frozenset({"cp311-cp311-manylinux_2_28_x86_64"})),),
    places=("a folder of wheels (torch 2.13.0+cpu)",),
)


def test_what_can_be_had_decides(matrix: Matrix) -> None:
    there = facts(os_id="debian-12", python="3.11.2")
    made = resolve(matrix, Wish(), there, FOLDER).plan
    assert made is not None
    assert made.framework_package.requirement == "torch==2.13.0+cpu"
    passed = "torch 2.15.0 was passed over: torch 2.15.0+cpu for Python 3.11 cannot be had here: "
    assert f"{passed}{INDEX} could not be reached; looked at a folder of wheels (torch 2.13.0+cpu)" in made.reasons


def test_what_cannot_be_had_is_a_conflict(matrix: Matrix) -> None:
    for wish, python in ((Wish(torch="2.14.1"), "3.11.2"), (Wish(), "3.12.3"), (Wish(extras=("torchvision",)), "3.11.2")):
        resolution = resolve(matrix, wish, facts(os_id="debian-12", python=python), FOLDER)
        assert resolution.plan is None
        assert {answer.rule for each in resolution.judged for answer in each.answers if answer.kind is Kind.REJECTED} >= {
            "offered"
        }
    # The changes are as real as the offers: the folder's own release, the folder's own Python.
    other = resolve(matrix, Wish(torch="2.14.1"), facts(os_id="debian-12", python="3.11.2"), FOLDER)
    assert [each.change.text for each in other.nearest] == ["use torch 2.13.0: --torch 2.13.0"]
    other = resolve(matrix, Wish(), facts(os_id="debian-12", python="3.12.3"), FOLDER)
    assert [each.change.text for each in other.nearest] == ["use Python 3.11: --python 3.11"]


def test_nearest_without_a_machine(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-cuda", torch="2.99"))
    assert [each.change.text for each in resolution.nearest] == ["use torch 2.15.0: --torch 2.15.0"]


@pytest.mark.parametrize("wish", [{}, {"os": "linux"}, {"driver": "580.82"}, {"torch": "2.7"}, {"backend": "cuda"}])
def test_too_little_is_said(matrix: Matrix, wish: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="which accelerator"):
        resolve(matrix, Wish(**wish))  # type: ignore[arg-type]


def test_the_cpu_needs_no_card_to_be_named(matrix: Matrix) -> None:
    made = resolve(matrix, Wish(backend="cpu", os="windows")).plan
    assert made is not None
    assert made.scheme == "windows-cpu"


def test_the_question_in_one_line(matrix: Matrix) -> None:
    made = question(
        matrix, facts(RTX_3090, os_id="ubuntu-24.04", python="3.12.3", driver=DriverFacts(kernel="580.82.07")), torch="torch>=2.4"
    )
    assert describe(made) == "torch >=2.4, GeForce RTX 3090 (sm_86), driver 580.82.07, ubuntu-24.04/x86_64, Python 3.12"


def test_a_build_of_one_release_goes_before_that_of_its_line(matrix: Matrix) -> None:
    torch = matrix.frameworks["torch"]
    whole = next(
        build for build in torch.builds if build.release == "2.9" and build.tag == "cu128" and "linux/x86_64" in build.platforms
    )
    both = replace(whole, platforms=("linux/x86_64", "windows/x86_64"))
    own = replace(whole, release="2.9.1", platforms=("linux/x86_64",), note="its own")
    changed = replace(matrix, frameworks={"torch": replace(torch, builds=(both, own))})
    found = {
        (row.release.version, row.build.platforms): row.build.note
        for row in rows(changed).of(matrix.backends["cuda"], changed.frameworks["torch"])
    }
    assert found == {
        ("2.9.1", ("linux/x86_64",)): "its own",
        ("2.9.1", ("windows/x86_64",)): both.note,
        ("2.9.0", ("linux/x86_64", "windows/x86_64")): both.note,
    }


@pytest.mark.parametrize(
    ("platform", "python", "reason"),
    [
        ("ubuntu-24.04", "3.12", "Python 3.12 comes with ubuntu-24.04; --python names another"),
        ("debian-12", "3.11", "Python 3.11 comes with debian-12; --python names another"),
        # Its own, 3.9, has no wheels of the newest release.
        ("debian-11", "3.15", "Python 3.15 is the newest that everything has wheels for; --python names another"),
    ],
)
def test_the_python_of_a_system_is_taken_where_it_does(platform: str, python: str, reason: str) -> None:
    plan = resolve(matrices.load(), Wish(os=platform, gpu="RTX 4090", driver="580.95.05")).plan
    assert plan is not None
    assert (plan.framework_version, plan.python) == ("2.15.0", python)
    assert reason in plan.reasons
