"""Advice: what comes first, what speaks against it, and that all of it can be said in Chinese."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from envkit import matrix as matrices
from envkit.cli import app
from envkit.data import packaged
from envkit.model import DriverFacts, Facts, Gpu, Machine, Matrix, Os, Wish
from envkit.resolve import resolve
from envkit.resolve.advice import Advice, advise
from envkit.resolve.chinese import in_chinese
from envkit.resolve.explain import reason_groups


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def order(advice: Advice) -> list[str]:
    return [each.scheme.name for each in advice.schemes if each.usable]


@pytest.mark.parametrize(
    ("wish", "first", "never_before"),
    [
        ({"gpu": "RTX 4090", "os": "linux"}, "linux-cuda", "linux-cpu"),
        ({"gpu": "RTX 4090"}, "linux-cuda", "windows-directml"),
        ({"gpu": "RX 7900 XTX", "os": "windows"}, "windows-rocm", "windows-directml"),
        ({"gpu": "RX 6700 XT", "os": "linux"}, "linux-rocm", "linux-cpu"),
        ({"gpu": "RX 580", "os": "windows"}, "windows-directml", "windows-cpu"),
        ({"gpu": "none", "os": "linux"}, "linux-cpu", "linux-cuda"),
        ({"os": "ubuntu-24.04", "gpu": "none"}, "linux-cpu", "linux-rocm"),
    ],
)
def test_the_vendors_own_stack_before_any_layer_before_the_cpu(
    matrix: Matrix, wish: dict[str, str], first: str, never_before: str
) -> None:
    names = order(advise(matrix, Wish(**wish)))
    assert names[0] == first
    assert never_before not in names or names.index(first) < names.index(never_before)


def test_a_setting_is_told_and_never_hidden(matrix: Matrix) -> None:
    best = advise(matrix, Wish(gpu="RX 6700 XT", os="linux")).schemes[0]
    assert best.plan is not None
    assert best.plan.env["HSA_OVERRIDE_GFX_VERSION"] == "10.3.0"
    assert best.cons[0].text == "works only with a setting"
    assert any("HSA_OVERRIDE_GFX_VERSION=10.3.0" in point.text for point in best.cons)


def test_every_reason_that_comes_from_a_rule_has_a_source(matrix: Matrix) -> None:
    advice = advise(matrix, Wish(gpu="GTX 1080 Ti", os="linux", driver="580.82.07"))
    best = advice.schemes[0]
    assert best.scheme.name == "linux-cuda"
    assert best.sources
    assert all(point.sources for point in best.cons if "passed over" in point.text)
    assert all(point.sources for point in (*best.pros, *best.cannot) if point.text in (*best.scheme.pros, *best.scheme.cannot))


def test_schemes_of_other_vendors_are_named_apart(matrix: Matrix) -> None:
    advice = advise(matrix, Wish(gpu="RX 7900 XTX", os="linux"))
    cuda = next(each for each in advice.schemes if each.scheme.name == "linux-cuda")
    assert (cuda.usable, cuda.other_hardware) == (False, True)


def test_a_driver_that_is_too_old_is_told_with_the_change(matrix: Matrix) -> None:
    facts = Facts(
        machine=Machine(os="linux", gpus=(Gpu(arch="sm_120", vendor="nvidia"),), driver=DriverFacts(kernel="550.54.14"))
    )
    cuda = next(each for each in advise(matrix, Wish(), facts).schemes if each.scheme.name == "linux-cuda")
    assert not cuda.usable
    assert cuda.change == "update the driver to 570.26 or newer"
    assert any("550.54.14" in reason for reason in cuda.rejections)


def test_memory_and_systems_are_part_of_the_question(matrix: Matrix) -> None:
    assert advise(matrix, Wish(gpu="RTX 4090", os="linux")).asked == "GeForce RTX 4090 (sm_89), 24 GiB; linux"


def test_training_keeps_inference_schemes_behind(matrix: Matrix) -> None:
    for task in ("train", "infer"):
        for each in advise(matrix, Wish(gpu="none", os="linux"), task=task).schemes:
            assert each.fits_task is (task == "infer" or each.scheme.task == "train")


# ---- Chinese -----------------------------------------------------------------------------------------------------

HAN = re.compile(r"[\u4e00-\u9fff]")


def told_by(matrix: Matrix, wish: Wish, facts: Facts | None = None) -> set[str]:
    resolution = resolve(matrix, wish, facts)
    texts = {answer.reason for each in resolution.judged for answer in each.answers if answer.reason}
    texts |= set(reason_groups(resolution)) if resolution.plan is None else set()
    texts |= {each.change.text for each in resolution.nearest}
    return texts | set(resolution.plan.reasons if resolution.plan else ()) | set(resolution.notes)


def machines(matrix: Matrix) -> list[tuple[Wish, Facts | None]]:
    found: list[tuple[Wish, Facts | None]] = []
    systems = ["centos-7", "ubuntu-24.04", "rhel-9", "windows-10", "macos-13", "wsl2", "linux/aarch64", "alpine"]
    for arch, row in matrix.archs.items():
        for os in ("linux", "windows", "macos", "wsl2"):
            machine = Machine(os=os, gpus=(Gpu(arch=arch, vendor=row.vendor),), driver=DriverFacts(kernel="550.54.14"))
            found.append((Wish(), Facts(machine=machine)))
    for driver in ("450.1", "525.60.13", "580.82", "620.1"):
        for license in ("NVIDIA", "Dual MIT/GPL"):
            for arch in ("sm_61", "sm_90", "sm_120"):
                card = Gpu(arch=arch, vendor="nvidia", name="A card")
                machine = Machine(os="linux", gpus=(card,), driver=DriverFacts(kernel=driver, license=license))
                found.append((Wish(torch="2.7"), Facts(machine=machine)))
    for os_id in systems:
        machine = Machine(
            os="linux", os_id=os_id, libc="musl" if os_id == "alpine" else "", gpus=(Gpu(arch="gfx1030", vendor="amd"),)
        )
        found.append((Wish(python="3.9", extras=("torchvision",)), Facts(machine=machine)))
    found += [(Wish(gpu="none", torch="2.99"), None), (Wish(scheme="linux-cuda", torch="2.4", backend="cu130"), None)]
    two = (Gpu(arch="sm_89", vendor="nvidia"), Gpu(arch="gfx1036", vendor="amd"), Gpu(name="Mystery 9000"))
    found.append((Wish(), Facts(machine=Machine(os="linux", gpus=two, modules=("nouveau",)))))
    return found


def test_every_sentence_of_the_resolver_is_in_the_catalogue(matrix: Matrix) -> None:
    said = {text for wish, facts in machines(matrix) for text in told_by(matrix, wish, facts)}
    assert len(said) > 300
    missing = sorted({text for text in said if not HAN.search(in_chinese(text))})
    assert missing == []


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (
            "torch 2.7.1+cu128 needs glibc 2.28; ubuntu-18.04 has 2.27",
            "torch 2.7.1+cu128 需要 glibc 2.28；ubuntu-18.04 只有 2.27",
        ),
        (
            "torch 2.15.0 was passed over: torch 2.15.0+cu130 is expected, but that it was published is not confirmed",
            "未采用 torch 2.15.0：torch 2.15.0+cu130 预计存在，但是否已发布尚未证实",
        ),
        ("update the driver to 570.26 or newer", "将驱动升级到 570.26 或更新"),
        ("linux-rocm needs an AMD GPU; this machine has no accelerator", "linux-rocm 需要 AMD GPU；本机没有加速器"),
        (
            "linux-cuda, torch 2.1.0 to 2.6.0 (cu118): it has no code for RTX 5090 (sm_120): it holds sm_80",
            "linux-cuda，torch 2.1.0 至 2.6.0 (cu118)：该构建 没有 RTX 5090 (sm_120) 的代码：它只含有 sm_80",
        ),
        (
            "RTX 5090 (sm_120) is Blackwell, which works only with the open kernel module; "
            "V100 (sm_70) is Volta, which works only with the proprietary kernel module: no driver is both",
            "RTX 5090 (sm_120) 属于 Blackwell，只能使用开放内核模块；"
            "V100 (sm_70) 属于 Volta，只能使用专有内核模块：没有驱动能两者兼顾",
        ),
        (
            "torch 2.12.0 is not published for cu129 on linux: it has cpu, cu126",
            "torch 2.12.0 没有在 linux 上发布 cu129 版本：它有 cpu, cu126",
        ),
        ("a sentence that nobody wrote", "a sentence that nobody wrote"),
    ],
)
def test_sentences_in_chinese(english: str, chinese: str) -> None:
    assert in_chinese(english) == chinese


# ---- the command -------------------------------------------------------------------------------------------------


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app.envkit, ["advise", *arguments], standalone_mode=False)
    assert result.exception is None, result.exception
    return int(result.return_value), result.output


def test_the_command_advises_in_words_and_in_both_languages() -> None:
    code, english = run("--gpu", "RTX 4090", "--os", "linux")
    assert code == 0
    assert english.startswith("advice for GeForce RTX 4090 (sm_89), 24 GiB; linux, to train\n\n1. linux-cuda: ")
    assert "   get it   envkit up --scheme linux-cuda\n" in english
    code, chinese = run("--gpu", "RTX 4090", "--os", "linux", "--lang", "zh")
    assert code == 0
    assert chinese.startswith("GeForce RTX 4090 (sm_89), 24 GiB; linux 的建议（用途：训练）\n\n1. linux-cuda: ")
    assert run("--gpu", "RTX 4090", "--os", "linux", "--format", "md")[1].startswith("# advice for ")


@pytest.mark.parametrize(
    "arguments", [("--gpu", "RTX 4090"), ("--gpu", "none", "--os", "linux", "--lang", "zh", "--task", "infer")]
)
def test_the_document_is_what_its_schema_says(arguments: tuple[str, ...]) -> None:
    document: dict[str, Any] = json.loads(run(*arguments, "--format", "json")[1])
    jsonschema.validate(document, json.loads(packaged("schemas/advice.json").read_text(encoding="utf-8")))
    assert document["schemes"][0]["usable"]
    assert [each["rank"] for each in document["schemes"]] == list(range(1, len(document["schemes"]) + 1))


def test_facts_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "facts.toml"
    file.write_text(
        '[machine]\nos = "windows"\nkernel = "10.0.22631"\n[[machine.gpu]]\nname = "Radeon RX 7900 XTX"\n', encoding="utf-8"
    )
    code, text = run("--facts", str(file))
    assert code == 0
    assert "\n1. windows-rocm: " in text


def test_systems_of_a_machine_are_its_own(matrix: Matrix) -> None:
    facts = Facts(machine=Machine(os="linux", gpus=()))
    assert {each.os for each in advise(matrix, Wish(), facts).schemes} == {Os.LINUX}
