"""The plan document: whole, readable again, and with an identity that means something."""

from __future__ import annotations

import dataclasses
import json

import pytest

from envkit.model import Container, Package, Plan, Verdict
from envkit.plan import digest, from_document, to_document

PLAN = Plan(
    scheme="linux-cuda",
    verdict=Verdict.SUPPORTED,
    platform="debian-12/x86_64",
    accelerator_name="GeForce RTX 5090",
    accelerator_arch="sm_120",
    driver_have="580.82",
    driver_need="570.26",
    backend_name="cuda",
    backend_version="12.8",
    backend_tag="cu128",
    device="cuda",
    framework_name="torch",
    framework_version="2.11.0",
    python="3.11",
    packages=(
        Package(name="torch", version="2.11.0+cu128", index="https://download.pytorch.org/whl/cu128"),
        Package(name="numpy", version="2.3.0", index="pypi"),
    ),
    env={"A": "1"},
    container=Container(platform="debian-12", base="debian:bookworm-slim", run_flags=("--gpus=all",)),
    run_flags=("--gpus=all",),
    reasons=("because",),
    sources=("somewhere",),
)


def test_a_plan_survives_its_document() -> None:
    document = json.loads(json.dumps(to_document(PLAN)))
    assert from_document(document) == PLAN
    assert document["digest"] == digest(PLAN)


@pytest.mark.parametrize(
    "change",
    [
        {"scheme": "linux-cpu"},
        {"platform": "ubuntu-24.04/x86_64"},
        {"python": "3.12"},
        {"backend_tag": "cu126"},
        {"packages": PLAN.packages[:1]},
        {"env": {}},
        {"partners": ("triton-rocm",)},
    ],
)
def test_the_digest_changes_with_what_gets_installed(change: dict[str, object]) -> None:
    assert digest(dataclasses.replace(PLAN, **change)) != digest(PLAN)  # type: ignore[arg-type]


@pytest.mark.parametrize("change", [{"driver_have": "595.45.04"}, {"reasons": ()}, {"sources": ()}, {"accelerator_name": "x"}])
def test_the_digest_does_not_change_with_why_it_was_chosen(change: dict[str, object]) -> None:
    assert digest(dataclasses.replace(PLAN, **change)) == digest(PLAN)  # type: ignore[arg-type]


def test_a_document_that_was_changed_is_refused() -> None:
    document = to_document(PLAN)
    document["packages"][0]["version"] = "2.11.0+cpu"
    with pytest.raises(ValueError, match="digest does not fit"):
        from_document(document)


@pytest.mark.parametrize(
    "document", [{}, [], {"schema": "envkit/plan/2"}, {"schema": "envkit/plan/1"}, None, {"schema": "envkit/plan/1", "scheme": 3}]
)
def test_what_is_no_plan_is_refused(document: object) -> None:
    with pytest.raises(ValueError, match=r"plan"):
        from_document(document)  # type: ignore[arg-type]


def test_the_requirement_of_a_package_is_a_pin() -> None:
    assert PLAN.packages[0].requirement == "torch==2.11.0+cu128"
    assert (
        Package(name="torch", version="2.12.0", index="x", extras="device-gfx1100").requirement == "torch[device-gfx1100]==2.12.0"
    )
    assert PLAN.framework_package is PLAN.packages[0]
