"""A proof as text, JUnit and Markdown: whole texts, since people and CI systems read them."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import jsonschema
import pytest

from envkit.data import packaged
from envkit.model import Check, Proof
from envkit.report.junit import clean, results_junit
from envkit.report.markdown import results_markdown
from envkit.report.proofs import Unreached, as_json, verdict_line
from envkit.report.text import results_text

DIGEST = "sha256:" + "0123456789abcdef" * 4

PASSED = Proof(
    plan=DIGEST,
    scheme="linux-cuda",
    host="lab1",
    when="2026-11-30T22:35:50Z",
    checks=(
        Check(id="temp-space", level="host", outcome="passed", seconds=0.004, detail="/tmp has 9 MiB free"),
        Check(id="packages", level="runtime", outcome="skipped", detail="nothing is pinned to compare with"),
        Check(id="train-step", level="compute", outcome="passed", seconds=1.25, detail="on cuda:0 the loss fell from 2.3 to 2.1"),
        Check(
            id="train-step/cuda:1",
            level="compute",
            outcome="passed",
            seconds=1.5,
            detail="on cuda:1 the loss fell from 2.3 to 2.1",
        ),
    ),
    measured={
        "torch": "2.7.1+cu128",
        "cuda": "12.8",
        "python": "3.12.4",
        "import_seconds": 2.5,
        "device": "cuda:0",
        "loss_before": 2.3,
        "devices": [
            {
                "device": "cuda:0",
                "name": "NVIDIA H200",
                "arch": "sm_90",
                "loss_before": 2.3,
                "loss_after": 2.1,
                "max_abs_diff_to_cpu": 1e-5,
                "step_seconds": 0.25,
            },
            {
                "device": "cuda:1",
                "name": "",
                "arch": "sm_90",
                "loss_before": 2.3,
                "loss_after": None,
                "max_abs_diff_to_cpu": None,
            },
        ],
    },
)
FAILED = replace(
    PASSED,
    plan="",
    scheme="",
    checks=(
        Check(
            id="flavour", level="runtime", outcome="failed", detail="the plan wants torch 2.13.0+cpu, this environment has 2.13.0"
        ),
        Check(id="import", level="framework", outcome="failed", seconds=0.5, detail="torch | is\nbroken <b>\x1b[31m"),
        Check(id="train-step", level="compute", outcome="skipped", detail="not reached, since import failed"),
    ),
    measured={},
)
UNREACHED = Unreached(host="ansible://lab2", why="cannot be reached: Connection refused", hint="check that its SSH server runs")


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        (PASSED.checks, "PASSED: one step trained on cuda:0 (NVIDIA H200), cuda:1"),
        (
            FAILED.checks,
            "FAILED: flavour: the plan wants torch 2.13.0+cpu, this environment has 2.13.0 (and 1 more)",
        ),
        (FAILED.checks[:1], "FAILED: flavour: the plan wants torch 2.13.0+cpu, this environment has 2.13.0"),
        ((), "FAILED: nothing was checked"),
        (FAILED.checks[2:], "FAILED: nothing was checked"),
        ((*PASSED.checks[:1], *FAILED.checks[2:]), "FAILED: nothing was computed"),
        (PASSED.checks[:2], "NOT PROVEN: nothing failed, and nothing was computed"),
    ],
)
def test_the_verdict_gives_its_reason(checks: tuple[Check, ...], line: str) -> None:
    assert verdict_line(replace(PASSED, checks=checks)) == line


def test_a_proof_as_text() -> None:
    text = """\
linux-cuda on lab1, plan sha256:0123456789ab, 2026-11-30T22:35:50Z

  host     temp-space         passed      0.00 s  /tmp has 9 MiB free
  runtime  packages           skipped     0.00 s  nothing is pinned to compare with
  compute  train-step         passed      1.25 s  on cuda:0 the loss fell from 2.3 to 2.1
  compute  train-step/cuda:1  passed      1.50 s  on cuda:1 the loss fell from 2.3 to 2.1

  torch 2.7.1+cu128 (CUDA 12.8), Python 3.12.4, imported in 2.50 s
  cuda:0: loss 2.3 -> 2.1, largest difference to the reference 1.00e-05, step 0.250 s
  cuda:1: loss 2.3 -> not finite, largest difference to the reference not finite

PASSED: one step trained on cuda:0 (NVIDIA H200), cuda:1"""
    assert results_text([PASSED]) == text


def test_an_inference_as_text() -> None:
    checks = (Check(id="infer-step", level="compute", outcome="passed", seconds=0.5, detail="on CPU one inference in 0.05 s"),)
    device = {"device": "CPU", "name": "Intel", "max_abs_diff_to_cpu": 7e-8, "step_seconds": 0.05}
    measured = {"framework": "openvino", "openvino": "2026.4.1", "python": "3.12.4", "devices": [device]}
    lines = results_text([replace(PASSED, checks=checks, measured=measured)]).splitlines()
    assert lines[4:] == [
        "  openvino 2026.4.1, Python 3.12.4",
        "  CPU: largest difference to the reference 7.00e-08, inference 0.050 s",
        "",
        "PASSED: one inference computed on CPU (Intel)",
    ]


def test_a_failure_as_text_ends_with_its_reason() -> None:
    lines = results_text([FAILED]).splitlines()
    assert lines[0] == "environment on lab1, 2026-11-30T22:35:50Z"
    assert lines[3] == "  framework  import      failed      0.50 s  torch | is broken <b>\\x1b[31m"
    assert lines[-1] == "FAILED: flavour: the plan wants torch 2.13.0+cpu, this environment has 2.13.0 (and 1 more)"


def test_several_hosts_end_with_a_line_each() -> None:
    assert results_text([PASSED, FAILED, UNREACHED]).splitlines()[-3:] == [
        "lab1            PASSED: one step trained on cuda:0 (NVIDIA H200), cuda:1",
        "lab1            FAILED: flavour: the plan wants torch 2.13.0+cpu, this environment has 2.13.0 (and 1 more)",
        "ansible://lab2  UNREACHED: cannot be reached: Connection refused (check that its SSH server runs)",
    ]


def test_a_proof_as_markdown() -> None:
    text = """\
## environment on lab1

**FAILED: flavour: the plan wants torch 2.13.0+cpu, this environment has 2.13.0 (and 1 more)**

| level | check | outcome | seconds | detail |
| --- | --- | --- | ---: | --- |
| runtime | `flavour` | failed | 0.00 | the plan wants torch 2.13.0+cpu, this environment has 2.13.0 |
| framework | `import` | failed | 0.50 | torch \\| is broken \\<b>\\\\x1b\\[31m |
| compute | `train-step` | skipped | 0.00 | not reached, since import failed |

2026-11-30T22:35:50Z"""
    assert results_markdown([FAILED]) == text


def test_several_hosts_as_markdown_begin_with_a_table() -> None:
    text = results_markdown([PASSED, UNREACHED])
    assert text.startswith(
        "| host | result |\n| --- | --- |\n"
        "| lab1 | PASSED: one step trained on cuda:0 (NVIDIA H200), cuda:1 |\n"
        "| ansible://lab2 | UNREACHED: cannot be reached: Connection refused (check that its SSH server runs) |\n\n"
        "## linux-cuda on lab1"
    )
    assert f"Plan `{DIGEST}`, 2026-11-30T22:35:50Z" in text


def test_a_proof_as_junit() -> None:
    text = """\
<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="envkit verify" tests="3" failures="2" errors="0" skipped="1" time="0.500">
  <testsuite name="envkit.verify.environment" hostname="lab1" timestamp="2026-11-30T22:35:50Z" tests="3" failures="2" errors="0" \
skipped="1" time="0.500">
    <properties />
    <testcase classname="envkit.verify.environment.runtime" name="flavour" time="0.000">
      <failure message="the plan wants torch 2.13.0+cpu, this environment has 2.13.0" type="flavour">\
the plan wants torch 2.13.0+cpu, this environment has 2.13.0</failure>
    </testcase>
    <testcase classname="envkit.verify.environment.framework" name="import" time="0.500">
      <failure message="torch | is&#10;broken &lt;b&gt;\\x1b[31m" type="import">torch | is
broken &lt;b&gt;\\x1b[31m</failure>
    </testcase>
    <testcase classname="envkit.verify.environment.compute" name="train-step" time="0.000">
      <skipped message="not reached, since import failed" />
    </testcase>
  </testsuite>
</testsuites>"""
    assert results_junit([FAILED]) == text


def test_junit_of_a_passed_proof_is_green_and_carries_what_was_measured() -> None:
    root = ElementTree.fromstring(results_junit([PASSED]))
    assert root.attrib == {"name": "envkit verify", "tests": "4", "failures": "0", "errors": "0", "skipped": "1", "time": "2.754"}
    properties = {p.get("name"): p.get("value") for p in root.iter("property")}
    assert properties == {
        "plan": DIGEST,
        "scheme": "linux-cuda",
        "torch": "2.7.1+cu128",
        "python": "3.12.4",
        "device": "cuda:0",
        "loss_before": "2.3",
    }


@pytest.mark.parametrize("checks", [(), PASSED.checks[:2], FAILED.checks[2:]])
def test_junit_is_never_green_without_a_passed_proof(checks: tuple[Check, ...]) -> None:
    root = ElementTree.fromstring(results_junit([replace(PASSED, checks=checks)]))
    assert root.get("failures") == "1"
    assert [case.get("name") for case in root.iter("testcase")][-1] == "proof"
    assert int(root.get("tests", "")) == len(list(root.iter("testcase")))


def test_an_unreached_host_is_an_error_in_junit() -> None:
    root = ElementTree.fromstring(results_junit([PASSED, UNREACHED]))
    assert root.get("errors") == "1"
    error = root.find(".//error")
    assert error is not None
    assert error.text == "cannot be reached: Connection refused\ncheck that its SSH server runs"


@pytest.mark.parametrize(
    "text", ["\x00", "\x1b[0m", "\x08", "\ufffe", "\ud800", "a\tb\nc", "\U0001f600", "中文", "]]>", "&<>\"'"]
)
def test_junit_is_xml_whatever_the_detail(text: str) -> None:
    failed = replace(FAILED, host=text, checks=(Check(id="import", level="framework", outcome="failed", detail=text),))
    root = ElementTree.fromstring(results_junit([failed, Unreached(host=text, why=text)]).encode("utf-8"))
    failure = root.find(".//failure")
    assert failure is not None
    assert failure.text == clean(text)


def test_several_proofs_as_json_follow_their_schema() -> None:
    document = json.loads(as_json([PASSED, UNREACHED]))
    jsonschema.validate(document, json.loads(packaged("schemas/proofs.json").read_text(encoding="utf-8")))
    assert document["passed"] is False
    assert document["unreached"][0]["host"] == "ansible://lab2"
    assert json.loads(as_json([PASSED, PASSED]))["passed"] is True
    assert json.loads(as_json([]))["passed"] is False


def test_one_proof_as_json_is_the_proof_itself() -> None:
    document = json.loads(as_json([PASSED]))
    jsonschema.validate(document, json.loads(packaged("schemas/proof.json").read_text(encoding="utf-8")))
    assert document["schema"] == "envkit/proof/1"
