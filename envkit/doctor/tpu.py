"""Causes that lie in torch_xla and TPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from envkit.doctor.case import Case
from envkit.model import Dotted, Finding

_XLA = "pytorch/xla: installation: https://github.com/pytorch/xla#installation"
_LIBTPU = "JAX, installation on Cloud TPU: https://docs.jax.dev/en/latest/installation.html"


def _minor(text: str) -> Dotted | None:
    number = re.match(r"\s*(\d+\.\d+)", text)
    return Dotted(number[1]) if number else None


def xla_torch_mismatch(case: Case) -> Iterator[Finding]:
    """torch and torch_xla are of different minor releases."""
    said = case.hit(
        r"_XLAC\S*.*undefined symbol|undefined symbol.*_XLAC|_XLAC\S*.*(?:cannot import|symbol not found)"
        r"|torch_xla\S*.*undefined symbol|cannot import name '_XLAC'"
    )
    packages = dict(case.packages)
    for hit in case.hits(r"^\s*(?:\[pip3?\]\s*)?(torch[-_]xla|torch)(?:\[tpu\])?(?:\s+|==)v?(\d+\.\d[\w.+]*)"):
        packages.setdefault(hit[1].replace("_", "-").lower(), hit[2])
    torch, xla = packages.get("torch", ""), packages.get("torch-xla", "")
    mine, theirs = _minor(torch), _minor(xla)
    apart = mine is not None and theirs is not None and mine != theirs
    pinned = case.hit(
        r"torch[-_]xla \S+ requires torch|torch[-_]xla.*(?:built|compiled) (?:for|against|with) (?:a )?(?:different"
        r"|torch|pytorch)"
    )
    if said is None and not apart and pinned is None:
        return
    evidence = [str(hit) for hit in (said, pinned) if hit]
    evidence += [f"python.packages: torch {torch}"] if torch else []
    evidence += [f"python.packages: torch-xla {xla}"] if xla else []
    fitting = _release(case, theirs)
    both = f"torch {torch} and torch_xla {xla}" if torch and xla else "torch and torch_xla"
    yield Finding(
        cause="xla-torch-mismatch",
        message=f"{both} are of different builds; torch_xla loads only into the torch of its own minor release",
        evidence=tuple(dict.fromkeys(evidence)),
        remedy=(
            "Install both together, of the same minor release, torch from the CPU index; pin both, so that no later install "
            "moves one of them."
        ),
        commands=(
            f"python -m pip install torch=={fitting} --index-url https://download.pytorch.org/whl/cpu"
            if fitting
            else "python -m pip install --force-reinstall 'torch_xla[tpu]' torch",
            f"python -m pip install 'torch_xla[tpu]=={xla.partition('+')[0]}'" if xla and fitting else "python -m pip check",
        ),
        sources=(_XLA, "pytorch/xla issue #2259: https://github.com/pytorch/xla/issues/2259"),
        likelihood=93 if said else 85,
    )


def _release(case: Case, minor: Dotted | None) -> str:
    """The newest torch of a minor release."""
    if minor is None:
        return ""
    found = [row.version for row in case.matrix.frameworks["torch"].releases if f"{row.version}.".startswith(f"{minor}.")]
    return max(found, key=lambda text: Dotted(text).key, default="")


def tpu_libtpu_missing(case: Case) -> Iterator[Finding]:
    """The library that drives a TPU is not installed beside the framework."""
    said = case.hit(
        r"failed to open libtpu\.so|libtpu\.so: cannot open|libtpu.*(?:not found|not installed)|No module named '?libtpu"
    )
    if said is None:
        return
    jax = "jax" in case.packages or case.hit(r"\bjax\b") is not None
    yield Finding(
        cause="tpu-libtpu-missing",
        message="libtpu, which drives the TPU, is not installed in this environment",
        evidence=(str(said),),
        remedy="Install the framework with its TPU extra, which brings the libtpu that goes with it.",
        commands=('python -m pip install "jax[tpu]"',) if jax else ("python -m pip install 'torch_xla[tpu]'",),
        sources=(_LIBTPU, _XLA),
        likelihood=88,
    )


def tpu_in_use(case: Case) -> Iterator[Finding]:
    """Another process holds the TPU, which serves one at a time."""
    said = case.hit(
        r"TPU is already in use by (?:another )?process|/dev/(?:accel|vfio/)\S*.*(?:device or resource busy|already in use)"
        r"|libtpu_lockfile|libtpu\.so is already in use"
    )
    if said is None:
        return
    yield Finding(
        cause="tpu-in-use",
        message="another process holds the TPU; it serves one at a time",
        evidence=(str(said),),
        remedy="End the process that holds it; take a left-over lock file away only when no such process runs.",
        commands=("sudo lsof -w /dev/accel* /dev/vfio/*", "sudo rm -f /tmp/libtpu_lockfile"),
        sources=(_LIBTPU,),
        likelihood=90,
    )


CHECKS: tuple[Callable[[Case], Iterator[Finding]], ...] = (xla_torch_mismatch, tpu_libtpu_missing, tpu_in_use)
EXPLAINS: dict[str, tuple[str, ...]] = {
    "xla-torch-mismatch": ("two-torch-installs", "torchvision-mismatch", "wrong-accelerator-wheel")
}
