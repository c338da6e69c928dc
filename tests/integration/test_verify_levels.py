"""The levels collective and speed with the real torch: two processes and gloo, right and damaged in one way each."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.model import Proof
from envkit.verify import Aim, verify_venv

UV = Path(sys.executable).with_name("uv")
CPU = Aim(scheme="linux-cpu", expect={"backend": {"name": "cpu", "device": "cpu"}, "framework": {"name": "torch"}})

pytestmark = pytest.mark.net


@pytest.fixture
def bent(cpu_venv: Path, tmp_path: Path) -> Callable[[str], Path]:
    """An environment with the packages of the shared one, in which lines run when torch.distributed has been imported."""

    def make(lines: str) -> Path:
        folder = tmp_path / "env"
        subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, folder], check=True, timeout=60)
        mine = next(folder.glob("lib/python*/site-packages"))
        for entry in next(cpu_venv.glob("lib/python*/site-packages")).iterdir():
            if not (mine / entry.name).exists():
                (mine / entry.name).symlink_to(entry)
        (mine / "bend.py").write_text(f"BENT = {lines!r}\n{HOOK}", encoding="utf-8")
        (mine / "bend.pth").write_text("import bend\n", encoding="utf-8")
        return folder

    return make


HOOK = """
import importlib.util, sys

class Bend:
    def find_spec(self, name, path=None, target=None):
        if name != "torch.distributed":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module
        def exec_module(module):
            run(module)
            exec(BENT, {"module": module})
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Bend())
"""


def outcomes(proof: Proof) -> dict[str, str]:
    return {check.id: check.outcome for check in proof.checks}


def detail(proof: Proof, identity: str) -> str:
    return next(check.detail for check in proof.checks if check.id == identity)


def test_two_processes_reduce_and_train_together(cpu_venv: Path, envkit_command: list[str]) -> None:
    argv = [*envkit_command, "verify", "--venv", str(cpu_venv), "--level", "collective", "--format", "json"]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    checks = {check["id"]: check for check in json.loads(ended.stdout)["checks"]}
    assert checks["all-reduce"]["detail"] == "gloo summed 1024 numbers over 2: cpu, cpu"
    assert checks["data-parallel"]["detail"].startswith("a batch spread over 2 gave the step of the whole")
    assert {checks[name]["level"] for name in ("all-reduce", "data-parallel")} == {"collective"}
    assert "matmul-rate" not in checks


def test_rates_are_measured_and_not_judged_where_no_floor_is_known(cpu_venv: Path) -> None:
    proof = verify_venv(CPU, cpu_venv, level="speed")
    assert proof.passed
    assert outcomes(proof)["matmul-rate"] == outcomes(proof)["copy-rate"] == "skipped"
    assert "measured only: no floor is known for" in detail(proof, "matmul-rate")
    device = proof.measured["devices"][0]
    assert device["matmul_tflops"] > 0
    assert device["copy_gbytes"] > 0
    assert device["loss_before"] > 0  # what the step gave is still there
    assert len(proof.measured["devices"]) == 1


def test_a_wrong_sum_has_failed(bent: Callable[[str], Path]) -> None:
    lines = (
        "kept = module.all_reduce\n"
        "def wrong(tensor, *words, **more):\n    kept(tensor, *words, **more)\n    tensor[3] += 1\n"
        "module.all_reduce = wrong\n"
    )
    proof = verify_venv(CPU, bent(lines), level="collective")
    assert not proof.passed
    assert outcomes(proof)["train-step"] == "passed"
    assert detail(proof, "all-reduce") == "process 1 of 2: gloo gave a wrong sum over cpu, cpu, at 1 of 1024 places"
    assert detail(proof, "data-parallel") == "not reached, since all-reduce failed"


def test_processes_that_do_not_average_have_failed(bent: Callable[[str], Path]) -> None:
    # Each process keeps its own gradients: what a broken hook between backward and the library leaves.
    lines = (
        "import importlib\n"
        "class Alone:\n"
        "    def __init__(self, module): self.module = module\n"
        "    def __call__(self, *words): return self.module(*words)\n"
        "    def parameters(self): return self.module.parameters()\n"
        "kept = module.init_process_group\n"
        "def start(*words, **more):\n"
        "    importlib.import_module('torch.nn.parallel').DistributedDataParallel = Alone\n"
        "    kept(*words, **more)\n"
        "module.init_process_group = start\n"
    )
    proof = verify_venv(CPU, bent(lines), level="collective")
    assert outcomes(proof)["all-reduce"] == "passed"
    assert "differs from the step of the whole batch" in detail(proof, "data-parallel")
    assert not proof.passed


def test_one_process_that_dies_ends_the_other_soon(bent: Callable[[str], Path]) -> None:
    lines = (
        "import os\nkept = module.all_reduce\n"
        "def dies(tensor, *words, **more):\n"
        "    if os.environ['RANK'] == '1':\n        os.abort()\n"
        "    kept(tensor, *words, **more)\n"
        "module.all_reduce = dies\n"
    )
    started = time.monotonic()
    proof = verify_venv(CPU, bent(lines), limit=120, level="collective")
    assert time.monotonic() - started < 60
    assert not proof.passed
    words = "process 2 of 2: the process was ended by signal SIGABRT while summing over all on cpu"
    assert detail(proof, "all-reduce").startswith(words)


def test_processes_that_wait_for_ever_are_killed_within_the_limit(bent: Callable[[str], Path]) -> None:
    lines = "import time\nmodule.all_reduce = lambda *words, **more: time.sleep(600)\n"
    started = time.monotonic()
    proof = verify_venv(CPU, bent(lines), limit=25, level="collective")
    assert time.monotonic() - started < 32
    assert detail(proof, "all-reduce").startswith("process 1 of 2: did not come back within 25 s while summing over all on cpu")
