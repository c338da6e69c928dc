"""Plans as Dockerfiles."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from envkit.errors import EnvkitError
from envkit.model import Container, OsRelease, Package, Plan, Scheme
from envkit.plan import digest, from_document
from envkit.render.image import image_files, image_tags, labels_of, probe_text, run_lines


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
    packages = (
        Package(name="torch", version="2.7.1", index="vendor"),
        Package(name="torch-musa", version="2.7.1", index="vendor"),
    )
    files = image_files(replace(cpu_plan, backend_name="musa", packages=packages), cpu_scheme, debian)
    assert not [line for line in instructions(files["linux-cpu/Dockerfile"]) if re.search(r"\b(pip|uv) install", line)]
    assert "linux-cpu/plan/pyproject.toml" not in files
    assert files["linux-cpu/plan/constraints.txt"].splitlines()[1:] == ["torch==2.7.1", "torch-musa==2.7.1"]


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


# ---- what differs by backend and framework ---------------------------------------------------------------------------


def other(plan: Plan, scheme: Scheme, backend: str, framework: str = "torch", **more: Any) -> tuple[Plan, Scheme]:
    """The plan and the scheme of another backend and framework."""
    name = f"linux-{backend}" + ("" if framework == "torch" else f"-{framework}")
    packages = more.pop("packages", (Package(name=framework, version="1.0", index="pypi"),))
    task = more.pop("task", "train")
    changed = replace(plan, scheme=name, backend_name=backend, framework_name=framework, packages=packages, **more)
    return changed, replace(scheme, name=name, backend=backend, framework=framework, task=task)


def on(base: str, platform: str = "debian-12", **more: Any) -> Container:
    return Container(platform=platform, base=base, **more)


@pytest.mark.parametrize(
    ("flags", "groups", "lines"),
    [
        ((), (), ["docker run --rm -it envkit/linux-cpu"]),
        (
            ("--device=/dev/dri",),
            ("render",),
            ['docker run --rm -it --device=/dev/dri --group-add "$(getent group render | cut -d: -f3)" envkit/linux-cpu'],
        ),
        (
            ("--volume=" + "a" * 70, "--volume=" + "b" * 70),
            (),
            [f"docker run --rm -it --volume={'a' * 70} \\", f"    --volume={'b' * 70} envkit/linux-cpu"],
        ),
    ],
)
def test_a_dockerfile_says_how_its_image_is_started(
    cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease, flags: tuple[str, ...], groups: tuple[str, ...], lines: list[str]
) -> None:
    plan = replace(cpu_plan, run_flags=flags, container=on("debian:bookworm-slim", groups=groups))
    assert run_lines(plan) == lines
    text = dockerfile(plan, cpu_scheme, debian)
    assert "".join(f"#     {line}\n" for line in lines) in text
    assert ("The group numbers are those of the machine" in text) is bool(groups)


@pytest.mark.parametrize(
    ("base", "removed"), [("debian:trixie-slim", False), ("ubuntu:24.04", True), ("rocm/dev-ubuntu-24.04:7.14.0-full", True)]
)
def test_the_user_that_a_base_holds_already_makes_way(
    cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease, base: str, removed: bool
) -> None:
    text = dockerfile(replace(cpu_plan, container=on(base)), cpu_scheme, debian)
    assert ('userdel --remove "$(id -un 1000)"' in text) is removed
    assert " passwd" in text, "useradd is in no base of Debian 13's that holds only what is essential"


@pytest.mark.parametrize(
    ("base", "platform", "debians", "intels"),
    [
        ("debian:bookworm-slim", "debian-12/x86_64", True, False),
        ("debian:bookworm-slim", "debian-12/aarch64", False, False),
        ("debian:trixie-slim", "debian-13/x86_64", False, False),
        ("ubuntu:24.04", "ubuntu-24.04/x86_64", False, True),
    ],
)
def test_opencl_for_openvino_comes_from_where_the_base_has_it(
    cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease, base: str, platform: str, debians: bool, intels: bool
) -> None:
    plan, scheme = other(
        cpu_plan, cpu_scheme, "openvino", "openvino", platform=platform, container=on(base), task="infer", device="CPU"
    )
    text = dockerfile(plan, scheme, debian)
    system = next(line for line in instructions(text) if "useradd" in line)
    assert ("intel-opencl-icd ocl-icd-libopencl1" in system) is debians
    assert ("ppa:kobuk-team/intel-graphics" in text) is intels
    assert "infers" in text
    assert "trains" not in text


def test_an_image_for_intel_gpus_brings_their_user_space_driver(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    plan, scheme = other(cpu_plan, cpu_scheme, "xpu", container=on("ubuntu:24.04", "ubuntu-24.04"))
    text = dockerfile(plan, scheme, debian)
    assert "apt-get install -y --no-install-recommends libze1 libze-intel-gpu1 intel-opencl-icd" in text
    assert "apt-get purge -y --autoremove software-properties-common" in text


def test_a_library_that_mindspore_takes_for_granted_is_there(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    assert " libgomp1 " in dockerfile(*other(cpu_plan, cpu_scheme, "cpu", "mindspore"), debian)
    assert "libgomp1" not in dockerfile(cpu_plan, cpu_scheme, debian)


def test_mlx_for_cuda_is_not_imported_where_no_driver_is(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    plan, scheme = other(cpu_plan, cpu_scheme, "cuda", "mlx")
    text = dockerfile(plan, scheme, debian)
    assert "python /run/probe.py --level runtime --device cpu --expect" in text
    assert "NVIDIA_VISIBLE_DEVICES=all" in text, "it is a CUDA image for all else"


def test_frameworks_on_rocm_look_for_the_libraries_of_the_image(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    base = on("rocm/dev-ubuntu-22.04:7.2.4-complete", "ubuntu-22.04")
    text = dockerfile(*other(cpu_plan, cpu_scheme, "rocm", "onnxruntime", container=base, task="infer"), debian)
    assert "    migraphx" in text
    assert 'ctypes.CDLL("/opt/rocm/lib/libmigraphx_c.so.3")' in text
    text = dockerfile(*other(cpu_plan, cpu_scheme, "rocm", "jax", container=base), debian)
    assert "ENV LD_LIBRARY_PATH=/opt/rocm/lib:/opt/rocm/core/lib" in text
    assert "/opt/venv/lib/python3.11/site-packages/jax_plugins/xla_rocm7/xla_rocm_plugin.so" in text
    text = dockerfile(*other(cpu_plan, cpu_scheme, "rocm", container=base), debian)
    assert "ctypes" not in text, "torch brings its own ROCm"


def test_an_ascend_image_gets_what_cann_imports(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    base = on("quay.io/ascend/cann:9.0.0-910b-ubuntu22.04-py3.11", "ubuntu-22.04", groups=("HwHiAiUser",))
    text = dockerfile(*other(cpu_plan, cpu_scheme, "npu", container=base), debian)
    install = next(line for line in instructions(text) if "/run/probe.py" in line)
    assert "absl-py" in install.partition("find ")[0], "before anything is removed"
    assert "USER 1000:1000" in text
    assert "$(getent group HwHiAiUser | cut -d: -f3)" in text


def test_a_tpu_image_runs_as_root_and_says_why(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    text = dockerfile(*other(cpu_plan, cpu_scheme, "tpu"), debian)
    assert "USER 0:0" in text
    assert "USER 1000:1000" not in text
    assert "/dev/accel*" in text


def test_a_vendors_image_is_asked_for_its_own_packages(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    packages = (Package(name="torch", version="2.9.0", index="vendor"),)
    plan, scheme = other(cpu_plan, cpu_scheme, "hpu", packages=packages, python="3.10")
    files = image_files(plan, scheme, debian)
    assert sorted(files) == ["linux-hpu/Dockerfile", "linux-hpu/plan/constraints.txt", "linux-hpu/plan/plan.json"]
    text = files["linux-hpu/Dockerfile"]
    assert "/opt/venv/bin/python /run/probe.py --level runtime --device cpu --expect /opt/envkit/plan.json" in text
    assert "-m venv --system-site-packages --without-pip /opt/venv" in text
    assert "for each in python3.10 python3 python " in text


def test_llama_cpp_keeps_its_own_entry_point_and_folder(cpu_plan: Plan, cpu_scheme: Scheme, debian: OsRelease) -> None:
    packages = (Package(name="llama.cpp", version="11312", index="vendor"),)
    base = on("ghcr.io/ggml-org/llama.cpp:full-rocm-b11312", "ubuntu-26.04", groups=("render",))
    text = dockerfile(*other(cpu_plan, cpu_scheme, "rocm", "llamacpp", packages=packages, container=base, task="infer"), debian)
    names = [line.split()[0] for line in instructions(text)]
    assert not {"WORKDIR", "CMD", "ENTRYPOINT"} & set(names), "its programs are started by ./name"
    assert "USER 1000:1000" in text
    assert "--run -m /models/MODEL.gguf" in text
    assert "envkit verify" not in text, "the probe is for Python frameworks"
