"""Proofs as lines for a terminal or a log."""

from __future__ import annotations

from collections.abc import Sequence

from envkit.model import Proof
from envkit.report.proofs import Result, devices_of, one_line, result_line, verdict_line


def proof_text(proof: Proof) -> str:
    """One aligned line a check, what was measured, and the verdict last."""
    subject = proof.scheme or "environment"
    plan = f", plan {proof.plan[:19]}" if proof.plan else ""
    lines = [f"{subject} on {proof.host}{plan}, {proof.when}", ""]
    widths = [max((len(getattr(check, name)) for check in proof.checks), default=0) for name in ("level", "id", "outcome")]
    for check in proof.checks:
        cells = [check.level.ljust(widths[0]), check.id.ljust(widths[1]), check.outcome.ljust(widths[2])]
        lines.append(f"  {'  '.join(cells)}  {check.seconds:7.2f} s  {one_line(check.detail)}".rstrip())
    measured = measured_lines(proof)
    if measured:
        lines += ["", *(f"  {line}" for line in measured)]
    lines += ["", verdict_line(proof)]
    return "\n".join(lines)


def measured_lines(proof: Proof) -> list[str]:
    """The measured values that a reader looks for: the framework, and the step of each device."""
    measured = proof.measured
    lines = []
    framework = str(measured.get("framework") or "torch")
    if measured.get(framework):
        built = [
            f"{title} {measured[key]}" for key, title in (("cuda", "CUDA"), ("hip", "HIP"), ("xpu", "XPU")) if measured.get(key)
        ]
        parts = [f"{framework} {measured[framework]}" + (f" ({', '.join(built)})" if built else "")]
        if measured.get("python"):
            parts.append(f"Python {measured['python']}")
        if measured.get("import_seconds"):
            parts.append(f"imported in {measured['import_seconds']:.2f} s")
        lines.append(", ".join(parts))
    for device in devices_of(proof):
        words = []
        if "loss_before" in device:
            words.append(f"loss {_number(device['loss_before'])} -> {_number(device.get('loss_after'))}")
        words.append(f"largest difference to the reference {_number(device.get('max_abs_diff_to_cpu'), '.2e')}")
        if device.get("step_seconds") is not None:
            words.append(f"{'step' if 'loss_before' in device else 'inference'} {device['step_seconds']:.3f} s")
        if device.get("matmul_tflops") is not None:
            words.append(f"products {_number(device['matmul_tflops'], '.4g')} TFLOP/s in {device.get('matmul_format')}")
        if device.get("copy_gbytes") is not None:
            words.append(f"copies {_number(device['copy_gbytes'], '.4g')} GB/s")
        lines.append(f"{device['device']}: {', '.join(words)}")
    return lines


def _number(value: object, form: str = ".6g") -> str:
    return format(value, form) if isinstance(value, int | float) else "not finite"


def results_text(results: Sequence[Result]) -> str:
    """Each proof in full, and a line a host at the end where there are several."""
    if len(results) == 1 and isinstance(results[0], Proof):
        return proof_text(results[0])
    blocks = [proof_text(result) for result in results if isinstance(result, Proof)]
    width = max((len(result.host) for result in results), default=0)
    lines = [f"{result.host.ljust(width)}  {result_line(result)}" for result in results]
    return "\n\n".join([*blocks, "\n".join(lines)])
