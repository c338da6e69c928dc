"""Images of frameworks other than torch, and on a vendor's base, for real: built together, proven, whole after pruning."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lab.needs import need

from envkit import matrix as matrices
from envkit.data import packaged
from envkit.model import Package, Wish
from envkit.render.image import image_files, probe_text
from envkit.resolve import plan_of, resolve

pytestmark = [pytest.mark.docker, pytest.mark.net, pytest.mark.usefixtures("bases")]

# What a program would import, in a container without a network.
SCHEMES = {
    "linux-cpu-jax": (
        "import jax, jax.numpy as jnp, jax.scipy.linalg, jax.nn, jax.sharding, jax.experimental.pallas, jax.export, scipy.stats;"
        "print(jax.devices()[0].platform, float(jax.jit(jax.grad(lambda x: jnp.sum(x**3)))(jnp.ones(2))[0]))",
        "cpu 3.0",
    ),
    "linux-cpu-mlx": (
        "import mlx.core as mx, mlx.nn as nn, mlx.optimizers, mlx.utils;"
        "f = mx.compile(mx.grad(lambda x: (x**3).sum()), shapeless=False); print(mx.default_device(), f(mx.ones(2))[0].item())",
        "Device(cpu, 0) 3.0",
    ),
    "linux-cpu-onnxruntime": (
        "import numpy.testing, onnxruntime as ort; print(ort.get_available_providers()[-1], ort.get_device())",
        "CPUExecutionProvider CPU",
    ),
    "linux-openvino": (
        "import ctypes, openvino as ov, openvino.opset13 as ops, openvino.preprocess, numpy as np;"
        "x = ops.parameter([2], np.float32); m = ov.compile_model(ov.Model([ops.multiply(x, x)], [x]), 'CPU');"
        "ctypes.CDLL('libOpenCL.so.1'); print(ov.Core().available_devices[0], m(np.array([3.0, 4.0], np.float32))[0].tolist())",
        "CPU [9.0, 16.0]",
    ),
}


@pytest.fixture(scope="module")
def bases(base_image: str) -> None:
    """Both bases that these images stand on."""
    from lab import base_image as lab_image
    from lab.machine import LabError

    try:
        lab_image.ensure("debian:trixie-slim")
    except LabError as error:
        need(" ".join(str(error).split()))


def run(argv: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={**os.environ, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def built(envkit_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All of them, by one command."""
    done = run([*envkit_command, "build", *SCHEMES, "--format", "json"], cwd=tmp_path_factory.mktemp("cwd"))
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    jsonschema.validate(document, json.loads((packaged("schemas") / "build.json").read_text(encoding="utf-8")))
    return {image["scheme"]: image for image in document["images"]}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_image_proves_itself_by_what_its_framework_is_for(
    built: dict[str, Any], scheme: str, envkit_command: list[str], tmp_path: Path
) -> None:
    done = run([*envkit_command, "verify", scheme, "--format", "json"], env={"XDG_STATE_HOME": str(tmp_path)}, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads(done.stdout)
    passed = {check["id"] for check in proof["checks"] if check["outcome"] == "passed"}
    step = "train-step" if matrices.load().schemes[scheme].task == "train" else "infer-step"
    assert {"image-plan", "flavour", "packages", "import", step, "same-result"} <= passed
    assert proof["plan"] == built[scheme]["plan"]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_that_a_program_imports_was_pruned(built: dict[str, Any], scheme: str) -> None:
    script, wanted = SCHEMES[scheme]
    done = run(["docker", "run", "--rm", "--network=none", f"envkit/{scheme}", "python", "-c", script])
    assert (done.stdout.strip(), done.returncode) == (wanted, 0), done.stderr
    left = "find /opt/venv/lib -type d -name tests; id -u; stat -c %U /workspace"
    done = run(["docker", "run", "--rm", "--network=none", f"envkit/{scheme}", "sh", "-c", left])
    assert done.stdout.split() == ["1000", "envkit"]


# ---- a vendor's base -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def vendors(base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A stand-in for a vendor's image: Debian with a Python that holds a torch by the vendor's own version."""
    from lab.fake_wheels import make_wheel

    folder = tmp_path_factory.mktemp("vendor")
    make_wheel(folder, "torch", "2.9.0a0+git1a2b3c4")
    (folder / "Dockerfile").write_text(
        f"FROM {base_image}\n"
        "RUN apt-get update && apt-get install -y --no-install-recommends python3 python3-pip\n"
        "RUN --mount=type=bind,target=/w python3 -m pip install --break-system-packages --no-index --no-deps /w/torch-*.whl\n",
        encoding="utf-8",
    )
    name = "envkit-test/vendor:1"
    done = run(["docker", "build", "--quiet", "--tag", name, str(folder)])
    assert done.returncode == 0, done.stderr
    yield name
    run(["docker", "image", "rm", "--force", name])


@pytest.mark.parametrize(
    ("version", "code", "words"),
    [
        ("2.9.0", 0, ""),
        ("2.8.0", 1, "the plan wants torch 2.8.0, this environment has 2.9.0a0+git1a2b3c4"),
    ],
)
def test_a_vendors_image_is_held_to_the_plan_without_a_driver(
    vendors: str, tmp_path: Path, version: str, code: int, words: str
) -> None:
    matrix = matrices.load()
    plan = plan_of(resolve(matrix, Wish(scheme="linux-hpu")))
    plan = replace(plan, python="3.11", packages=(Package(name="torch", version=version, index="vendor"),))
    for place, text in image_files(plan, matrix.schemes["linux-hpu"], None).items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text, encoding="utf-8")
    (tmp_path / "probe.py").write_text(probe_text(), encoding="utf-8")
    name = "envkit-test/hpu:1"
    argv = ["docker", "build", "--progress=plain", "--tag", name, "--build-arg", f"BASE={vendors}"]
    done = run([*argv, "--file", str(tmp_path / "linux-hpu/Dockerfile"), str(tmp_path)])
    try:
        assert done.returncode == code, done.stderr
        assert words in done.stderr
        if code == 0:
            script = "import importlib.metadata as m, sys; print(sys.prefix, m.version('torch'))"
            there = run(["docker", "run", "--rm", name, "python", "-c", script])
            assert there.stdout == "/opt/venv 2.9.0a0+git1a2b3c4\n", there.stderr
            assert run(["docker", "run", "--rm", name, "cat", "/opt/envkit/constraints.txt"]).stdout.endswith("torch==2.9.0\n")
    finally:
        run(["docker", "image", "rm", "--force", name])


def test_the_rendered_dockerfiles_are_clean(checkout: Path) -> None:
    linter = shutil.which("hadolint") or need("hadolint is missing (the dependency group `test`)")
    files = sorted(str(path) for path in (checkout / "images").glob("*/Dockerfile"))
    assert len(files) > 15
    done = run([linter, *files])
    assert (done.returncode, done.stdout) == (0, "")
