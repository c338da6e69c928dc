"""The documents hold what INTERFACE.md promises, whatever was asked."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from envkit import matrix as matrices
from envkit import plan as plans
from envkit.data import packaged
from envkit.model import DriverFacts, Facts, Gpu, Machine, Matrix, PythonFacts, Resolution, Verdict, Wish
from envkit.resolve import candidates_document, conflict_document, resolve
from envkit.resolve.explain import candidates_text, conflict_text, plan_text


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


def schema(name: str) -> Any:
    return json.loads(packaged(f"schemas/{name}.json").read_text())


REGISTRY = Registry().with_resources(
    [(schema(name)["$id"], Resource.from_contents(schema(name))) for name in ("plan", "conflict", "candidates")]
)


def check(document: dict[str, Any]) -> None:
    name = document["schema"].split("/")[1]
    Draft202012Validator(schema(name), registry=REGISTRY).validate(json.loads(json.dumps(document)))


def machine(*archs: str, driver: str = "", **more: Any) -> Facts:
    cards = tuple(Gpu(arch=arch, vendor="amd" if arch.startswith("gfx") else "nvidia") for arch in archs)
    return Facts(machine=Machine(os=more.pop("os", "linux"), gpus=cards, driver=DriverFacts(kernel=driver), **more))


QUESTIONS = [
    (Wish(), machine("sm_120", driver="580.82")),
    (Wish(), machine("sm_120", driver="550.54.14")),
    (Wish(), machine("sm_61", driver="595.71.05")),
    (Wish(), machine("gfx1031")),
    (Wish(accept=(Verdict.SUPPORTED, Verdict.OVERRIDE)), machine("gfx1031")),
    (Wish(), machine("gfx1100", os="windows")),
    (Wish(), machine()),
    (Wish(scheme="linux-cuda"), machine()),
    (Wish(scheme="linux-cuda"), None),
    (Wish(scheme="linux-cpu", extras=("torchvision",)), None),
    (Wish(scheme="windows-directml"), None),
    (Wish(scheme="windows-cuda"), machine()),
    (Wish(torch="2.99"), machine("sm_90", driver="560.35.05")),
    (Wish(torch="2.6", python="3.14"), machine("sm_120", driver="550.54.14")),
    (Wish(backend="cu128", torch="2.14"), machine("sm_90", driver="560.35.05")),
    (Wish(backend="rocm6.4"), machine("sm_90")),
    (Wish(python="3.8"), machine("sm_90", driver="560.35.05")),
]


@pytest.mark.parametrize(("wish", "facts"), QUESTIONS)
def test_documents_hold_to_their_schemas(matrix: Matrix, wish: Wish, facts: Facts | None) -> None:
    resolution = resolve(matrix, wish, facts)
    check(candidates_document(resolution))
    check(plans.to_document(resolution.plan) if resolution.plan else conflict_document(resolution))
    for text in (candidates_text(resolution), plan_text(resolution.plan) if resolution.plan else conflict_text(resolution)):
        assert text.isascii()
        assert "None" not in text


@pytest.mark.parametrize(("wish", "facts"), QUESTIONS)
def test_a_plan_reads_back_and_every_nearest_one_is_real(matrix: Matrix, wish: Wish, facts: Facts | None) -> None:
    resolution = resolve(matrix, wish, facts)
    offered = [resolution.plan] if resolution.plan else [each.plan for each in resolution.nearest]
    for plan in offered:
        document = plans.to_document(plan)
        assert plans.from_document(document) == plan
        assert plan.reasons
        assert plan.sources
        assert plan.framework_package.version.startswith(plan.framework_version)
        assert plan.packages[0].index == "pypi" or plan.packages[0].index.startswith("https://")
        assert "{" not in plan.packages[0].index + plan.packages[0].extras
    digests = [plans.digest(plan) for plan in offered]
    assert len(set(digests)) == len(digests)
    assert len(resolution.nearest) <= 6


def test_the_schemas_are_strict_enough_to_fail() -> None:
    with pytest.raises(Exception, match="required property"):
        check({"schema": "envkit/conflict/1", "rejections": [{"candidate": "torch", "sources": []}], "nearest": []})


def test_conflict_document_word_for_word(matrix: Matrix) -> None:
    document = conflict_document(resolve(matrix, Wish(scheme="linux-cuda"), machine("sm_120", driver="550.54.14")))
    assert list(document) == ["schema", "asked", "rejections", "nearest", "notes"]
    assert document["asked"] == "linux-cuda, sm_120, driver 550.54.14, linux/x86_64"
    own = next(each for each in document["rejections"] if each["candidate"] == "torch 2.11.0+cu128 (linux-cuda, Python 3.14)")
    assert own["because"] == "driver 550.54.14 does not know sm_120: the first is 570.26, of CUDA 12.8"
    assert any("docs.nvidia.com" in source for source in own["sources"])
    first = document["nearest"][0]
    assert (first["change"], first["kind"], first["value"]) == ("update the driver to 570.26 or newer", "driver", "570.26")
    assert first["plan"]["schema"] == "envkit/plan/1"
    assert document["nearest"][-1]["change"] == "use the CPU: --scheme linux-cpu"


def test_a_question_without_any_candidate_still_has_a_rejection(matrix: Matrix) -> None:
    document = conflict_document(resolve(matrix, Wish(torch="2.99"), machine("sm_90", driver="560.35.05")))
    assert len(document["rejections"]) == 1
    assert document["rejections"][0]["because"] == "the matrix knows no torch 2.99: it has 1.13.0 to 2.15.0"


def test_conflict_text_word_for_word(matrix: Matrix) -> None:
    facts = Facts(
        machine=Machine(
            os="linux",
            os_id="ubuntu-22.04",
            gpus=(Gpu(name="NVIDIA A100", arch="sm_80", vendor="nvidia"),),
            driver=DriverFacts(kernel="510.39.01"),
        ),
        python=PythonFacts(version="3.10.12"),
    )
    text = conflict_text(resolve(matrix, Wish(scheme="linux-cuda", torch="2.9.1"), facts))
    assert text == "\n".join(
        [
            "nothing fits: linux-cuda, torch 2.9.1, NVIDIA A100 (sm_80), driver 510.39.01, ubuntu-22.04/x86_64, Python 3.10",
            "",
            "why not",
            "  - linux-cuda, torch 2.9.1 (cu126, cu128): "
            "driver 510.39.01 is older than 525.60.13, which these wheels need on Linux",
            "  - linux-cuda, torch 2.9.1 (cu130): driver 510.39.01 is older than 580.65.06, which these wheels need on Linux",
            "",
            "what would fit, the least change first",
            "  1. use torch 2.7.1: --torch 2.7.1",
            "     gives torch 2.7.1+cu118 (linux-cuda, Python 3.10), supported",
            "  2. update the driver to 525.60.13 or newer",
            "     gives torch 2.9.1+cu128 (linux-cuda, Python 3.10), supported",
            "  3. use the CPU: --scheme linux-cpu",
            "     gives torch 2.9.1+cpu (linux-cpu, Python 3.10), supported",
        ]
    )


def test_every_candidate_is_listed_best_first(matrix: Matrix) -> None:
    resolution: Resolution = resolve(matrix, Wish(), machine("sm_90", driver="580.82.07"))
    document = candidates_document(resolution)
    ranks = [Verdict(each["verdict"]).rank for each in document["candidates"]]
    assert ranks == sorted(ranks)
    assert document["plan"] == plans.digest(resolution.plan) if resolution.plan else False
    assert {each["scheme"] for each in document["candidates"]} >= {"linux-cuda", "linux-rocm", "linux-xpu", "linux-cpu"}
    labels = [each["candidate"] for each in document["candidates"]]
    assert len(set(labels)) == len(labels)
