"""Accelerators that are built together with an Arm processor."""

from __future__ import annotations

import pytest

from envkit import matrix as matrices
from envkit.devices.catalogue import read_catalogue
from envkit.model import Facts, Gpu, Machine, Matrix, Wish
from envkit.resolve import resolve
from envkit.resolve.target import read


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def platform(matrix: Matrix, wish: Wish, facts: Facts | None = None) -> str:
    return str(read(matrix, wish, facts).target.platform)


@pytest.mark.parametrize("gpu", ["GB10", "DGX Spark", "10de:2e12", "GH200", "GH200 480GB", "GB200", "GB300", "Jetson AGX Thor"])
def test_an_arm_processor_is_meant_where_none_is_named(matrix: Matrix, gpu: str) -> None:
    assert platform(matrix, Wish(gpu=gpu)) == "linux/aarch64"
    assert platform(matrix, Wish(gpu=gpu, os="linux")) == "linux/aarch64"
    assert platform(matrix, Wish(gpu=gpu, os="ubuntu-24.04")) == "ubuntu-24.04/aarch64"
    assert platform(matrix, Wish(gpu=gpu, scheme="linux-cuda")) == "debian-12/aarch64"
    plan = resolve(matrix, Wish(gpu=gpu)).plan
    assert plan is not None
    assert plan.platform == "linux/aarch64"


@pytest.mark.parametrize("gpu", ["B200", "B300", "H200 NVL", "RTX 5090", "RTX Spark N1X", "none"])
def test_it_is_not_guessed_for_others(matrix: Matrix, gpu: str) -> None:
    assert platform(matrix, Wish(gpu=gpu)) == "linux/x86_64"


@pytest.mark.parametrize(
    ("gpu", "os"), [("GB10", "linux/x86_64"), ("GH200", "ubuntu-24.04/x86_64"), ("Jetson Orin NX", "windows")]
)
def test_another_processor_or_system_is_rejected(matrix: Matrix, gpu: str, os: str) -> None:
    resolution = resolve(matrix, Wish(gpu=gpu, os=os))
    assert resolution.plan is None
    for each in resolution.judged:
        assert any("its systems are linux/aarch64" in answer.reason for answer in each.answers if answer.rule == "cpu-arch")


def test_the_facts_of_a_machine(matrix: Matrix) -> None:
    def facts(arch: str) -> Facts:
        return Facts(machine=Machine(os="linux", arch=arch, gpus=(Gpu(name="NVIDIA GB10"),)))

    assert platform(matrix, Wish(), facts("")) == "linux/aarch64"
    assert platform(matrix, Wish(os="debian-12"), facts("aarch64")) == "debian-12/aarch64"
    assert platform(matrix, Wish(), facts("x86_64")) == "linux/x86_64"
    assert platform(matrix, Wish(os="linux"), facts("x86_64")) == "linux/x86_64"
    assert resolve(matrix, Wish(), facts("x86_64")).plan is None


def test_every_jetson_that_has_wheels_is_marked() -> None:
    known = read_catalogue()
    products = [known.product(number) for number in range(len(known))]
    unmarked = [product.name for product in products if product.kind == "jetson" and product.cpu != "aarch64"]
    assert unmarked == ["Jetson TK1"]  # 32-bit
