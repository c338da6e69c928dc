"""Plans as Dockerfiles."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace

import pytest

from envkit.errors import EnvkitError
from envkit.model import Container, OsRelease, Package, Plan, Scheme
from envkit.plan import digest, from_document
from envkit.render.image import image_files, image_tags, labels_of, probe_text


def dockerfile(plan: Plan, scheme: Scheme, platform: OsRelease | None, *, prune: bool = True) -> str:
    return image_files(plan, scheme, platform, prune=prune)[f"{plan.scheme}/Dockerfile"]


def instructions(text: str) -> list[str]:
    """The instructions of a Dockerfile, comments left out and continued lines joined."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    return "\n".join(lines).replace("\\\n", " ").splitlines()


def test_the_files_of_an_image(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    files = image_files(cpu_plan, cpu_scheme, debian)
    assert sorted(files) == [
        "linux-cpu/Dockerfile",
        "linux-cpu/plan/constraints.txt",
        "linux-cpu/plan/plan.json",
        "linux-cpu/plan/pyproject.toml",
    ]
    assert all(text.endswith("\n") and "\r" not in text for text in files.values())
    assert from_document(json.loads(files["linux-cpu/plan/plan.json"])) == cpu_plan
    project = tomllib.loads(files["linux-cpu/plan/pyproject.toml"])
    assert project["project"]["dependencies"] == ["torch==2.13.0+cpu", "numpy==2.4.6"]
    own = project["tool"]["uv"]["sources"]["torch"]["index"]
    assert {"name": own, "url": "https://download.pytorch.org/whl/cpu", "explicit": True} in project["tool"]["uv"]["index"]
    assert "numpy" not in project["tool"]["uv"]["sources"]
    assert files["linux-cpu/plan/constraints.txt"].splitlines()[1:] == ["torch==2.13.0+cpu", "numpy==2.4.6"]


def test_the_same_plan_gives_the_same_bytes(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    assert image_files(cpu_plan, cpu_scheme, debian) == image_files(cpu_plan, cpu_scheme, debian)


def test_the_frame_of_a_dockerfile(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    text = dockerfile(cpu_plan, cpu_scheme, debian)
    lines = instructions(text)
    assert "# syntax" not in text, "it would have to be pulled"
    assert "HEALTHCHECK" not in text
    assert lines[0] == "ARG BASE=debian:bookworm-slim"
    assert [line for line in lines if line.startswith("FROM")] == [
        "FROM scratch AS wheels",
        "FROM ${BASE} AS system",
        "FROM system AS uv",
        "FROM system AS environment",
    ]
    assert "USER 1000:1000" in lines
    assert not [line for line in lines if line.startswith(("COPY", "ADD"))]
    install = next(line for line in lines if "/run/probe.py" in line)
    assert install.rstrip().endswith("python /run/probe.py --expect /opt/envkit/plan.json"), "the proof is the last step"
    assert "sharing=locked" in text
    assert "target=/root/.cache/uv" in install


def test_each_run_says_why(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    lines = dockerfile(cpu_plan, cpu_scheme, debian).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("RUN "):
            assert lines[number - 1].startswith("# "), line


def test_labels_lead_back_to_the_plan(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    labels = labels_of(cpu_plan, cpu_scheme)
    assert labels["org.envkit.plan"] == digest(cpu_plan)
    assert labels["org.envkit.scheme"] == "linux-cpu"
    assert labels["org.opencontainers.image.version"] == "2.13.0-cpu"
    assert "org.opencontainers.image.base.digest" not in labels
    text = dockerfile(cpu_plan, cpu_scheme, debian)
    assert 'org.opencontainers.image.description="PyTorch on the CPU, \\"plainly\\": torch 2.13.0+cpu"' in text


def test_a_known_digest_pins_the_base(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    known = f"sha256:{'a' * 64}"
    plan = replace(cpu_plan, container=Container(platform="debian-12", base="debian:bookworm-slim", digest=known))
    assert f"ARG BASE=debian:bookworm-slim@{known}\n" in dockerfile(plan, cpu_scheme, debian)
    assert labels_of(plan, cpu_scheme)["org.opencontainers.image.base.digest"] == known


def test_settings_of_the_plan_are_set(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    plan = replace(cpu_plan, env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "A": 'x "$y"'})
    assert 'ENV A="x \\"\\$y\\"" \\\n    HSA_OVERRIDE_GFX_VERSION="10.3.0"\n' in dockerfile(plan, cpu_scheme, debian)


def test_pruning_can_be_left_out(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    assert "torch_shm_manager" in dockerfile(cpu_plan, cpu_scheme, debian)
    assert "rm -rf" not in dockerfile(cpu_plan, cpu_scheme, debian, prune=False)


@pytest.mark.parametrize(("python", "managed"), [("3.11", False), ("3.13", True)])
def test_another_python_than_the_bases_is_brought_by_uv(
    cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease, python: str, managed: bool
) -> None:
    text = dockerfile(replace(cpu_plan, python=python), cpu_scheme, debian)
    assert ("--managed-python" in text) is managed
    assert (f"/usr/bin/python{python}" in text) is not managed
    assert f"/lib/python{python}/site-packages" in text


@pytest.mark.parametrize("backend", ["cuda", "rocm"])
def test_an_image_for_a_device_proves_itself_without_one_and_says_so(
    cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease, backend: str
) -> None:
    plan = replace(cpu_plan, scheme=f"linux-{backend}", backend_name=backend, device="cuda")
    text = dockerfile(plan, cpu_scheme, debian)
    assert "python /run/probe.py --device cpu --expect /opt/envkit/plan.json\n" in text
    assert f"The device is proven by `envkit verify linux-{backend}`" in text
    assert ("NVIDIA_VISIBLE_DEVICES=all" in text) is (backend == "cuda")


def test_a_backend_without_a_template_of_its_own_gets_the_plain_one(
    cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease
) -> None:
    text = dockerfile(replace(cpu_plan, backend_name="abacus"), cpu_scheme, debian)
    assert "uv --directory" in text
    assert "NVIDIA_VISIBLE_DEVICES" not in text


def test_what_comes_in_the_vendors_image_is_not_installed_again(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    packages = (Package(name="torch", version="2.7.1", index="vendor"), Package(name="numpy", version="1.26.4", index="pypi"))
    files = image_files(replace(cpu_plan, packages=packages), cpu_scheme, debian)
    assert "uv" not in files["linux-cpu/Dockerfile"]
    project = tomllib.loads(files["linux-cpu/plan/pyproject.toml"])
    assert project["project"]["dependencies"] == ["numpy==1.26.4"]
    assert "torch==2.7.1" in files["linux-cpu/plan/constraints.txt"]


def test_a_scheme_without_image_says_why(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    with pytest.raises(EnvkitError, match="linux-cpu has no image: for a reason"):
        image_files(replace(cpu_plan, container=None), replace(cpu_scheme, no_container="for a reason"), debian)


def test_partners_of_the_framework_are_pinned_too(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    files = image_files(cpu_plan, cpu_scheme, debian, partners=["triton==3.7.0"])
    assert "triton==3.7.0" in files["linux-cpu/plan/constraints.txt"]
    assert "triton" in tomllib.loads(files["linux-cpu/plan/pyproject.toml"])["tool"]["uv"]["sources"]


@pytest.mark.parametrize(
    ("version", "tag", "name"),
    [("2.13.0", "cpu", "2.13.0-cpu"), ("2.9.1", "rocm6.4", "2.9.1-rocm6.4"), ("2.1.0+x", "cu121", "2.1.0-x-cu121")],
)
def test_names_of_an_image(cpu_plan: Plan, version: str, tag: str, name: str) -> None:
    plan = replace(
        cpu_plan,
        framework_version=version,
        backend_tag=tag,
        packages=(Package(name="torch", version=version, index="pypi"),),
    )
    assert image_tags(plan) == ("envkit/linux-cpu:latest", f"envkit/linux-cpu:{name}")
    assert re.fullmatch(r"[\w][\w.-]{0,127}", name)


def test_the_probe_is_the_one_of_verify() -> None:
    assert 'SCHEMA = "envkit/probe/1"' in probe_text()
