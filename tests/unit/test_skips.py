"""What is missing skips a test with its reason, and fails it where nothing may be missing."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

TESTS = Path(__file__).resolve().parents[1]
SUITE = """
import sys
import pytest
from lab.needs import need

def test_needs():
    need("no engine answers")

@pytest.mark.skip(reason="no such tool")
def test_marked(): ...

@pytest.mark.gpu
def test_opt_in(): ...

@pytest.mark.skip(reason="only on Windows")
def test_elsewhere(): ...

@pytest.mark.xfail(strict=True, reason="known")
def test_known():
    assert False
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner runs need no installed plugins, which take a second to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    pytester.makeini("[pytest]\nmarkers =\n  gpu: needs an accelerator\n")
    conftest = (TESTS / "conftest.py").read_text(encoding="utf-8")
    pytester.makeconftest(conftest.replace("Path(__file__).resolve().parent)", f"{str(TESTS)!r})"))
    pytester.makepyfile(SUITE)
    return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rs", *arguments)


def test_elsewhere_they_skip_with_their_reason(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVKIT_CI", raising=False)
    result = run(pytester)
    result.assert_outcomes(skipped=4, xfailed=1)
    result.stdout.fnmatch_lines(["*no engine answers*", "*opt-in: run with -m gpu*"])


def test_in_ci_they_fail(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_CI", "1")
    result = run(pytester)
    result.assert_outcomes(failed=1, errors=1, skipped=2, xfailed=1)
    result.stdout.fnmatch_lines(["*nothing may be missing with ENVKIT_CI=1: no engine answers*"])


def test_a_whole_module_too(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENVKIT_CI", "1")
    pytester.makepyfile(test_other="import pytest\npytest.importorskip('no_such_library')\ndef test_it(): ...")
    result = run(pytester)
    assert result.ret != 0
    result.stdout.fnmatch_lines(["*test_other.py: skipped, and nothing may be skipped*"])


def test_a_named_marker_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENVKIT_CI", raising=False)
    run(pytester, "-m", "gpu").assert_outcomes(passed=1, deselected=4)
