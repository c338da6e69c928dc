"""`envkit up` for JAX, MLX, OpenVINO and ONNX Runtime for real: from PyPI, on this machine's processor, to a proof."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from lab.needs import need

from envkit.venv.folder import own

pytestmark = pytest.mark.net

# What each environment has to hold, and a line of its own framework that says where it computes.
SCHEMES = {
    "linux-cpu-jax": ({"jax", "jaxlib", "numpy"}, "import jax; print(jax.devices()[0].platform)", "cpu"),
    "linux-cpu-mlx": ({"mlx", "mlx-cpu"}, "import mlx.core as mx; print(mx.default_device().type.name)", "cpu"),
    "linux-openvino": ({"openvino", "numpy"}, "import openvino; print(openvino.Core().available_devices[0])", "CPU"),
    "linux-cpu-onnxruntime": (
        {"onnxruntime", "numpy"},
        "import onnxruntime; print(onnxruntime.get_available_providers()[-1])",
        "CPUExecutionProvider",
    ),
}

Call = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def call(envkit_command: list[str]) -> Call:
    def run(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*envkit_command, *arguments],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
            env={**os.environ, **environ},
        )
        assert "Traceback" not in done.stderr
        return done

    return run


def bring_up(call: Call, folder: Path, scheme: str) -> subprocess.CompletedProcess[str]:
    done = call("up", "env", "--scheme", scheme, "--format", "json", cwd=folder)
    if done.returncode == 5:
        need(f"what {scheme} needs cannot be had here: {done.stderr.strip()[-300:]}")
    return done


def installed(env: Path) -> dict[str, str]:
    pairs = (path.name.removesuffix(".dist-info").rpartition("-") for path in env.glob("lib/python*/site-packages/*.dist-info"))
    return {name.replace("_", "-").lower(): version for name, _, version in pairs}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_environment_from_nothing_to_a_proof(call: Call, tmp_path: Path, scheme: str) -> None:
    done = bring_up(call, tmp_path, scheme)
    assert done.returncode == 0, done.stderr + done.stdout
    proof = json.loads(done.stdout)
    assert proof["passed"] is True
    assert any(check["level"] == "compute" and check["outcome"] == "passed" for check in proof["checks"])
    plan = json.loads((own(tmp_path / "env") / "plan.json").read_text(encoding="utf-8"))
    assert plan["scheme"] == scheme
    packages, line, device = SCHEMES[scheme]
    there = installed(tmp_path / "env")
    assert {package["name"]: package["version"] for package in plan["packages"]}.items() <= there.items()
    assert packages <= set(there)
    assert "torch" not in there, "nothing of torch is installed for another framework"
    assert "torch" not in done.stderr
    said = subprocess.run(
        [str(tmp_path / "env" / "bin" / "python"), "-c", line], capture_output=True, text=True, timeout=300, check=False
    )
    assert said.stdout.strip() == device, said.stderr

    # A second time nothing is installed, and it is proved again.
    again = call("up", "env", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "is as wished" in again.stderr
    assert "installing" not in again.stderr


def test_a_later_install_cannot_swap_the_framework(call: Call, tmp_path: Path) -> None:
    bring_up(call, tmp_path, "linux-cpu-onnxruntime")
    env = tmp_path / "env"
    version = installed(env)["onnxruntime"]
    constraints = (own(env) / "constraints.txt").read_text(encoding="utf-8")
    assert f"onnxruntime=={version}\n" in constraints
    done = subprocess.run(
        [str(env / "bin" / "python"), "-m", "pip", "install", "--quiet", "onnxruntime<1.32"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode != 0
    assert installed(env)["onnxruntime"] == version


def test_another_framework_takes_the_place_of_the_first(call: Call, tmp_path: Path) -> None:
    bring_up(call, tmp_path, "linux-cpu-mlx")
    done = bring_up(call, tmp_path, "linux-cpu-onnxruntime")
    assert "making it anew with onnxruntime==" in done.stderr
    assert "mlx" not in installed(tmp_path / "env")
    assert "onnxruntime" in installed(tmp_path / "env")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_index_that_cannot_be_reached(call: Call, tmp_path: Path, scheme: str) -> None:
    nowhere = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "", "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    done = call("up", "env", "--scheme", scheme, cwd=tmp_path, **nowhere)
    assert done.returncode == 5, done.stderr
    assert "did not answer" in done.stderr
    assert "PIP_INDEX_URL" in done.stderr
    assert "torch" not in done.stderr
    assert not (tmp_path / "env").exists()
