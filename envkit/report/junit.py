"""Proofs as JUnit XML: one suite a host, one test case a check."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree

from envkit.model import Proof
from envkit.report.proofs import Result, Unreached, verdict_line, well

# What XML 1.0 cannot carry, not even escaped: https://www.w3.org/TR/xml/#charsets
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def results_junit(results: Sequence[Result], level: str = "compute") -> str:
    """The XML document of one or several proofs that were to go up to `level`.

    A host without a passed proof always has a case that is not green: a failure where the command ends as failed, too.
    """
    root = ElementTree.Element("testsuites", name="envkit verify")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    seconds = 0.0
    for result in results:
        suite, counts, spent = _unreached(result) if isinstance(result, Unreached) else _suite(result, level)
        root.append(suite)
        totals = {key: totals[key] + counts[key] for key in totals}
        seconds += spent
    _count(root, totals, seconds)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")


def _suite(proof: Proof, level: str) -> tuple[ElementTree.Element, dict[str, int], float]:
    name = f"envkit.verify.{proof.scheme or 'environment'}"
    suite = ElementTree.Element("testsuite", name=clean(name), hostname=clean(proof.host), timestamp=clean(proof.when))
    properties = ElementTree.SubElement(suite, "properties")
    shown = ("torch", "python", "device", "device_name", "loss_before", "loss_after", "max_abs_diff_to_cpu")
    values = {"plan": proof.plan, "scheme": proof.scheme, **{key: proof.measured.get(key) for key in shown}}
    for key, value in values.items():
        if value not in (None, ""):
            ElementTree.SubElement(properties, "property", name=key, value=clean(str(value)))
    counts = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for check in proof.checks:
        case = ElementTree.SubElement(
            suite, "testcase", classname=clean(f"{name}.{check.level}"), name=clean(check.id), time=f"{check.seconds:.3f}"
        )
        counts["tests"] += 1
        if check.outcome == "failed":
            counts["failures"] += 1
            ElementTree.SubElement(case, "failure", message=clean(check.detail), type=clean(check.id)).text = clean(check.detail)
        elif check.outcome == "skipped":
            counts["skipped"] += 1
            ElementTree.SubElement(case, "skipped", message=clean(check.detail))
        elif check.detail:
            ElementTree.SubElement(case, "system-out").text = clean(check.detail)
    if not proof.passed and not counts["failures"]:
        # Only green and skipped cases would look like success, and nothing was proven.
        outcome = ("skipped", "skipped") if well(proof, level) else ("failures", "failure")
        words = clean(verdict_line(proof))
        counts["tests"] += 1
        counts[outcome[0]] += 1
        case = ElementTree.SubElement(suite, "testcase", classname=clean(name), name="proof", time="0.000")
        found = ElementTree.SubElement(case, outcome[1], message=words)
        if outcome[1] == "failure":
            found.set("type", "proof")
            found.text = words
    seconds = sum(check.seconds for check in proof.checks)
    _count(suite, counts, seconds)
    return suite, counts, seconds


def _unreached(result: Unreached) -> tuple[ElementTree.Element, dict[str, int], float]:
    suite = ElementTree.Element("testsuite", name="envkit.verify", hostname=clean(result.host))
    case = ElementTree.SubElement(suite, "testcase", classname="envkit.verify", name="reach", time="0.000")
    text = "\n".join(filter(None, [result.why, result.hint]))
    ElementTree.SubElement(case, "error", message=clean(result.why), type="unreached").text = clean(text)
    counts = {"tests": 1, "failures": 0, "errors": 1, "skipped": 0}
    _count(suite, counts, 0.0)
    return suite, counts, 0.0


def _count(element: ElementTree.Element, counts: dict[str, int], seconds: float) -> None:
    for key, value in counts.items():
        element.set(key, str(value))
    element.set("time", f"{seconds:.3f}")


def clean(text: str) -> str:
    """The text with what XML cannot carry shown as \\x.. instead."""
    return _FORBIDDEN.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
