"""Questions about Ascend, Gaudi, Cambricon, Moore Threads, TPU and Neuron machines, answered from their vendors' tables."""

from __future__ import annotations

from typing import Any

import pytest

from envkit.matrix import load
from envkit.model import DriverFacts, Facts, Gpu, Machine, Matrix, Plan, Resolution, Verdict, Wish
from envkit.resolve import resolve
from envkit.resolve.chinese import in_chinese
from envkit.resolve.documents import conflict_document


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


def machine(vendor: str, name: str = "", *, arch: str = "", driver: str = "", toolkit: str = "", **more: Any) -> Facts:
    """The facts of a machine with one card, on Ubuntu 22.04 unless told otherwise."""
    fields = {"os": "linux", "os_id": "ubuntu-22.04", "arch": "x86_64", **more}
    card = Gpu(vendor=vendor, name=name, arch=arch)
    return Facts(machine=Machine(gpus=(card,), driver=DriverFacts(kernel=driver, toolkit=toolkit), **fields))


def pins(plan: Plan) -> dict[str, str]:
    return {package.name: package.version for package in plan.packages}


def because(resolution: Resolution) -> str:
    return "\n".join(each["because"] for each in conflict_document(resolution)["rejections"])


def planned(matrix: Matrix, wish: Wish, facts: Facts | None = None) -> Plan:
    resolution = resolve(matrix, wish, facts)
    assert resolution.plan is not None, because(resolution)
    return resolution.plan


# ---- without a scheme: the machine tells --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "scheme", "torch", "device", "verdict"),
    [
        (machine("huawei", "Ascend 910B4"), "linux-npu", "2.12.0", "npu", "supported"),
        (machine("habana", "Gaudi 2"), "linux-hpu", "2.9.0", "hpu", "supported"),
        (machine("habana", arch="gaudi"), "linux-hpu", "2.6.0", "hpu", "supported"),  # 1.22 dropped the first generation
        (machine("google", "TPU v6e"), "linux-tpu", "2.15.0", "tpu", "supported"),
        (machine("google", "TPU v5e"), "linux-tpu", "2.9.1", "xla", "supported"),  # TorchTPU calls it experimental
        (machine("google", "TPU v4"), "linux-tpu", "2.9.1", "xla", "supported"),
        (machine("google", arch="tpu-v7x"), "linux-tpu", "2.15.0", "tpu", "supported"),
        (machine("aws", arch="trn1", os_id="ubuntu-24.04"), "linux-neuron", "2.9.0", "xla", "supported"),
        (machine("aws", arch="inf2", os_id="amzn-2023"), "linux-neuron", "2.9.0", "xla", "supported"),
        (machine("aws", arch="trn1"), "linux-neuron", "2.9.0", "xla", "supported"),
        (machine("cambricon", "MLU370-X8"), "linux-mlu", "2.4.1", "mlu", "community"),  # no list of cards is public
        (machine("moorethreads", "MTT S80"), "linux-musa", "2.7.1", "musa", "supported"),
    ],
)
def test_each_machine_finds_the_scheme_of_its_vendor(
    matrix: Matrix, facts: Facts, scheme: str, torch: str, device: str, verdict: str
) -> None:
    plan = planned(matrix, Wish(), facts)
    assert (plan.scheme, plan.framework_version, plan.device, str(plan.verdict)) == (scheme, torch, device, verdict)


# ---- Ascend ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "cann", "torch", "npu", "verdict"),
    [
        ("", "9.1.0", "2.12.0", "2.12.0", "supported"),
        ("26.0.RC1", "9.0.0", "2.10.0", "2.10.0", "supported"),
        ("25.5.0", "8.5.0", "2.9.0", "2.9.0", "supported"),
        ("25.3.rc1", "8.3.RC1", "2.8.0", "2.8.0", "supported"),
        ("25.2.0", "8.2.RC1", "2.6.0", "2.6.0", "supported"),
        ("25.0.RC1", "8.1.RC1", "2.5.1", "2.5.1", "supported"),
        ("24.1.0", "8.0.0", "2.4.0", "2.4.0.post2", "supported"),
        ("24.1.RC3", "8.0.RC3", "2.4.0", "2.4.0", "supported"),
        ("24.1.RC2", "8.0.RC2", "2.3.1", "2.3.1", "supported"),
        ("24.1.1", "8.0.0", "2.4.0", "2.4.0.post2", "community"),  # newer than 24.1.0, older than what 8.1.RC1 came with
        ("25.4.0", "8.3.RC1", "2.8.0", "2.8.0", "community"),
    ],
)
def test_the_driver_decides_on_cann_and_that_on_torch(
    matrix: Matrix, driver: str, cann: str, torch: str, npu: str, verdict: str
) -> None:
    plan = planned(matrix, Wish(), machine("huawei", "Ascend 910B4", driver=driver))
    assert (plan.backend_version, plan.framework_version, str(plan.verdict)) == (cann, torch, verdict)
    assert pins(plan)["torch-npu"] == npu


@pytest.mark.parametrize(
    ("toolkit", "torch", "npu"),
    [
        ("9.1.0", "2.12.0", "2.12.0"),
        ("9.0.1", "2.10.0", "2.10.0.post2"),
        ("9.0.0", "2.10.0", "2.10.0"),
        ("8.5.0", "2.9.0", "2.9.0"),
        ("8.5.1", "2.9.0", "2.9.0"),
        ("8.3.RC1", "2.8.0", "2.8.0"),
        ("8.2.RC1", "2.6.0", "2.6.0"),
        ("8.1.RC1", "2.5.1", "2.5.1"),
        ("8.0.RC2", "2.3.1", "2.3.1"),
    ],
)
def test_installed_cann_decides_on_torch_npu(matrix: Matrix, toolkit: str, torch: str, npu: str) -> None:
    plan = planned(matrix, Wish(), machine("huawei", "Ascend 910B4", toolkit=toolkit))
    assert (plan.framework_version, pins(plan)["torch-npu"]) == (torch, npu)


def test_another_cann_than_the_installed_one_is_a_change(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(torch="2.8"), machine("huawei", "Ascend 910B4", toolkit="9.1.0"))
    assert resolution.plan is None
    assert "is paired with CANN 9.0.0; this machine has CANN 9.1.0" in because(resolution)
    assert [(each.change.kind, each.change.text) for each in resolution.nearest][:2] == [
        ("torch", "use torch 2.9.0: --torch 2.9.0"),
        ("torch", "use torch 2.12.0: --torch 2.12.0"),
    ]
    assert any(each.change.text == "install CANN 9.0.0" for each in resolution.nearest)


@pytest.mark.parametrize(
    ("arch", "torch", "index", "version"),
    [
        ("x86_64", "2.9.0", "https://download.pytorch.org/whl/cpu", "2.9.0+cpu"),
        ("x86_64", "2.12.0", "https://download.pytorch.org/whl/cpu", "2.12.0+cpu"),
        ("aarch64", "2.9.0", "pypi", "2.9.0"),
        ("aarch64", "2.10.0", "pypi", "2.10.0"),
        ("aarch64", "2.11.0", "https://download.pytorch.org/whl/cpu", "2.11.0+cpu"),  # PyPI's own is a CUDA one from here on
    ],
)
def test_where_torch_comes_from(matrix: Matrix, arch: str, torch: str, index: str, version: str) -> None:
    plan = planned(matrix, Wish(scheme="linux-npu", gpu="Ascend 910B", torch=torch, os=f"ubuntu-22.04/{arch}"))
    own = plan.framework_package
    assert (own.index, own.version) == (index, version)
    assert {package.index for package in plan.packages if package.name == "torch-npu"} == {"pypi"}


@pytest.mark.parametrize(
    ("gpu", "image"),
    [
        ("Ascend 910B", "quay.io/ascend/cann:8.5.0-910b-ubuntu22.04-py3.11"),
        ("Atlas 800T A3", "quay.io/ascend/cann:8.5.0-a3-ubuntu22.04-py3.11"),
        ("Atlas 300I Duo", "quay.io/ascend/cann:8.5.0-310p-ubuntu22.04-py3.11"),
        ("ascend910", "quay.io/ascend/cann:8.5.0-910-ubuntu22.04-py3.11"),
        ("ascend310b", ""),  # there is no image for it
    ],
)
def test_there_is_one_image_a_chip(matrix: Matrix, gpu: str, image: str) -> None:
    plan = planned(matrix, Wish(scheme="linux-npu", gpu=gpu, backend="cann8.5.0"))
    assert (plan.container.base if plan.container else "") == image


@pytest.mark.parametrize(
    ("options", "reason", "nearest"),
    [
        ({"torch": "2.15"}, "; linux-npu has 2.1.0, 2.2.0, 2.3.1, ", "use torch 2.12.0: --torch 2.12.0"),
        ({"torch": "2.12.1"}, "torch 2.12.1 is not published for linux-npu", "use torch 2.12.0: --torch 2.12.0"),
        ({"torch": "2.14"}, "torch-npu 2.14.0 is on PyPI, but no source says which CANN", "use torch 2.12.0: --torch 2.12.0"),
        ({"torch": "2.9.1"}, "torch-npu 2.9.1 is on PyPI, but no source says which CANN", "use torch 2.9.0: --torch 2.9.0"),
        ({"python": "3.14"}, "has wheels for Python 3.10 to 3.13; this is Python 3.14", "use Python 3.13: --python 3.13"),
        ({"torch": "2.6", "python": "3.13"}, "has wheels for Python 3.9 to 3.12", "use torch 2.7.1: --torch 2.7.1"),
        ({"backend": "cann8.5.0", "gpu": "ascend950"}, "CANN 8.5.0 serves", "use another build: --backend cann9.1.0"),
        ({"os": "ubuntu-18.04", "torch": "2.9"}, "needs glibc 2.28; ubuntu-18.04 has 2.27", "use torch 2.6.0: --torch 2.6.0"),
        (
            {"gpu": "RTX 4090"},
            "linux-npu needs a Huawei Ascend NPU; this machine has GeForce RTX 4090",
            "use NVIDIA CUDA: --scheme linux-cuda",
        ),
    ],
)
def test_what_ascend_cannot(matrix: Matrix, options: dict[str, str], reason: str, nearest: str) -> None:
    resolution = resolve(matrix, Wish(**{"scheme": "linux-npu", "gpu": "Ascend 910B", "os": "ubuntu-22.04", **options}))  # type: ignore[arg-type]
    assert resolution.plan is None
    assert reason in because(resolution)
    assert nearest in [each.change.text for each in resolution.nearest]


def test_a_name_of_two_chips_is_no_guess(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(), machine("huawei", "Ascend910"))
    assert resolution.plan is None
    assert "the architecture of Ascend910 is not known" in because(resolution)


def test_the_newest_pair_without_cann_can_be_had_when_asked_for(matrix: Matrix) -> None:
    accept = (Verdict.SUPPORTED, Verdict.COMMUNITY, Verdict.UNKNOWN)
    plan = planned(matrix, Wish(scheme="linux-npu", gpu="Ascend 910B", torch="2.14", python="3.14", accept=accept))
    assert (pins(plan)["torch-npu"], str(plan.verdict)) == ("2.14.0", "unknown")


@pytest.mark.parametrize(
    ("options", "version", "cann", "verdict"),
    [
        ({}, "2.9.0", "9.0.0", "supported"),
        ({"torch": "2.7.2"}, "2.7.2", "8.5.0", "supported"),
        ({"torch": "2.7.1"}, "2.7.1", "8.3.RC1", "supported"),
        ({"os": "ubuntu-22.04/aarch64"}, "2.9.0", "9.0.0", "supported"),
    ],
)
def test_mindspore_and_its_cann(matrix: Matrix, options: dict[str, str], version: str, cann: str, verdict: str) -> None:
    plan = planned(matrix, Wish(scheme="linux-npu-mindspore", gpu="Ascend 910B", **options))  # type: ignore[arg-type]
    assert (plan.framework_version, plan.backend_version, str(plan.verdict), plan.device) == (version, cann, verdict, "Ascend")


def test_mindspore_on_the_cpu_is_the_newest(matrix: Matrix) -> None:
    plan = planned(matrix, Wish(scheme="linux-cpu-mindspore", os="ubuntu-22.04"))
    assert (plan.framework_version, plan.framework_package.version, plan.device) == ("2.10.0", "2.10.0", "CPU")
    resolution = resolve(matrix, Wish(scheme="linux-cpu-mindspore", python="3.13"))
    assert resolution.plan is None
    assert "this is Python 3.13" in because(resolution)


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (
            "torch 2.14.0 was passed over: torch 2.14.0+cpu with torch-npu 2.14.0 is not confirmed: "
            "torch-npu 2.14.0 is on PyPI, but no source says which CANN it goes with",
            "未采用 torch 2.14.0：torch 2.14.0+cpu with torch-npu 2.14.0 尚未证实："
            "torch-npu 2.14.0 在 PyPI 上，但没有资料说明它与哪个 CANN 配套",
        ),
        (
            "torch 2.9.0 with torch-npu 2.9.0 is paired with CANN 8.5.0; this machine has CANN 9.1.0",
            "torch 2.9.0 with torch-npu 2.9.0 与 CANN 8.5.0 配套；本机为 CANN 9.1.0",
        ),
        ("install CANN 8.5.0", "安装 CANN 8.5.0"),
    ],
)
def test_pairs_are_told_in_chinese(english: str, chinese: str) -> None:
    assert in_chinese(english) == chinese


# ---- the others --------------------------------------------------------------------------------------------------


def test_the_first_gaudi_and_the_release_that_dropped_it(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-hpu", gpu="Gaudi 1", backend="gaudi1.23.0"))
    assert resolution.plan is None
    assert "Intel Gaudi software 1.23.0 serves gaudi2, gaudi3; this machine has" in because(resolution)
    assert resolution.nearest[0].change.text == "use another build: --backend gaudi1.21.0"


@pytest.mark.parametrize(
    ("driver", "software", "torch", "verdict"),
    [
        ("1.22.0-740", "1.22.0", "2.7.1", "supported"),
        ("1.22.0", "1.22.0", "2.7.1", "supported"),
        ("1.23.0-695", "1.23.0", "2.9.0", "supported"),
        ("1.21.0", "1.21.0", "2.6.0", "supported"),
    ],
)
def test_the_driver_of_gaudi_is_of_the_release(matrix: Matrix, driver: str, software: str, torch: str, verdict: str) -> None:
    plan = planned(matrix, Wish(), machine("habana", "Gaudi 2", driver=driver))
    assert (plan.backend_version, plan.framework_version, str(plan.verdict)) == (software, torch, verdict)
    assert plan.framework_package.index == "vendor"
    assert {package.index for package in plan.packages} == {"vendor"}, "its image has the libraries that were tested with it"
    assert plan.container is not None
    assert plan.container.base.endswith(f"{software}/ubuntu22.04/habanalabs/pytorch-installer-{torch}:latest")


def test_an_image_of_another_python_is_left_away(matrix: Matrix) -> None:
    plan = planned(matrix, Wish(scheme="linux-hpu", gpu="Gaudi 2", python="3.12"))
    assert (plan.python, plan.container) == ("3.12", None)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"torch": "2.10"}, "torch 2.10 is not published for linux-tpu"),
        ({"python": "3.9", "torch": "2.15"}, "has wheels for Python 3.11 to 3.14"),
        ({"python": "3.13", "torch": "2.9"}, "torch-xla 2.9.0 has wheels for Python 3.10 to 3.12; this is Python 3.13"),
        ({"os": "ubuntu-18.04", "torch": "2.15"}, "needs glibc 2.31; ubuntu-18.04 has 2.27"),
        ({"os": "ubuntu-22.04/aarch64"}, "is published for linux/x86_64; this machine is linux/aarch64"),
    ],
)
def test_what_tpus_cannot(matrix: Matrix, options: dict[str, str], reason: str) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-tpu", gpu="TPU v6e", **options))  # type: ignore[arg-type]
    assert resolution.plan is None
    assert reason in because(resolution)


def test_torch_tpu_on_what_it_calls_experimental(matrix: Matrix) -> None:
    plan = planned(matrix, Wish(scheme="linux-tpu", gpu="TPU v5e", torch="2.15"))
    assert (pins(plan)["torch-tpu"], plan.verdict, plan.device) == ("0.2.0", Verdict.COMMUNITY, "tpu")


def test_old_torch_xla_takes_libtpu_from_a_page_of_links(matrix: Matrix) -> None:
    from envkit.sources import Sources
    from envkit.sources.installing import installation

    plan = planned(matrix, Wish(scheme="linux-tpu", gpu="TPU v4", torch="2.4"))
    project = installation(Sources(), plan).project
    page = project.split('url = "https://storage.googleapis.com/libtpu-releases/index.html"', 1)[1]
    assert page.startswith('\nexplicit = true\nformat = "flat"')


@pytest.mark.parametrize(
    ("gpu", "options", "reason"),
    [
        ("inf1", {}, "serves inf2, trn1, trn2, trn3; this machine has"),
        ("trn3", {"backend": "neuron2.28.1"}, "AWS Neuron SDK 2.28.1 serves inf2, trn1, trn2; this machine has"),
        ("trn1", {"torch": "2.10"}, "torch 2.10 is not published for linux-neuron"),
        ("trn1", {"torch": "2.9", "python": "3.14"}, "this is Python 3.14"),
    ],
)
def test_what_neuron_cannot(matrix: Matrix, gpu: str, options: dict[str, str], reason: str) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-neuron", gpu=gpu, os="ubuntu-24.04", **options))  # type: ignore[arg-type]
    assert resolution.plan is None
    assert reason in because(resolution)


def test_neuron_comes_from_its_own_index(matrix: Matrix) -> None:
    plan = planned(matrix, Wish(scheme="linux-neuron", gpu="trn2", os="ubuntu-24.04"))
    where = {package.name: package.index for package in plan.packages}
    assert where["torch-neuronx"] == where["neuronx-cc"] == "https://pip.repos.neuron.amazonaws.com"
    assert plan.backend_version == "2.31.1"


def test_a_card_that_only_third_parties_name(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-musa", gpu="MTT S5000"))
    assert resolution.plan is None
    assert "torch_musa 2.9.1 is known from third-party images alone" in because(resolution)
    said = {answer.reason for each in resolution.judged for answer in each.answers}
    assert "whether torch_musa 2.7.1 serves MTT S5000 (mp_31) is not known" in said


@pytest.mark.parametrize(("gpu", "verdict"), [("ascend910b", "supported"), ("ascenda3", "unknown"), ("ascend950", "unsupported")])
def test_chips_that_no_list_of_an_old_cann_names(matrix: Matrix, gpu: str, verdict: str) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-npu", gpu=gpu, backend="cann8.0.0"))
    assert {str(each.verdict) for each in resolution.judged} == {verdict}


def test_moore_threads_on_another_python(matrix: Matrix) -> None:
    resolution = resolve(matrix, Wish(scheme="linux-musa", gpu="MTT S80", python="3.11"))
    assert resolution.plan is None
    assert resolution.nearest[0].change.text == "use Python 3.10: --python 3.10"


def test_cambricon_says_what_is_not_known(matrix: Matrix) -> None:
    plan = planned(matrix, Wish(scheme="linux-mlu", gpu="MLU370-X8", driver="6.2.8"))
    assert "Cambricon publishes no list of the cards that CNToolkit 4.0.1 serves" in plan.reasons
    assert pins(plan)["torch-mlu"] == "1.25.0+torch2.4.1"
    assert plan.container is None
    resolution = resolve(matrix, Wish(scheme="linux-mlu", gpu="MLU370-X8", torch="2.13"))
    assert resolution.plan is None
    assert "named in CI files alone" in because(resolution)
