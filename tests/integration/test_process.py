"""Processes for real: limits, groups, what is captured."""

from __future__ import annotations

import gc
import sys
import time
import warnings
from pathlib import Path

import pytest

from envkit.process import run

PYTHON = sys.executable


def test_output_and_status_are_captured() -> None:
    done = run([PYTHON, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"])
    assert (done.returncode, done.stdout, done.stderr, done.ok) == (3, "out\n", "err\n", False)


def test_a_missing_program_is_an_answer() -> None:
    done = run(["no-such-program-anywhere"])
    assert done.missing
    assert done.returncode is None


def test_the_limit_ends_the_whole_group(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    grandchild = f"import time\nwhile True:\n    open({str(beat)!r}, 'a').write('.'); time.sleep(0.05)"
    parent = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {grandchild!r}]); time.sleep(60)"
    started = time.monotonic()
    done = run([PYTHON, "-c", parent], limit=1.5)
    assert done.timed_out
    assert done.returncode is None
    assert time.monotonic() - started < 8
    size = beat.stat().st_size
    assert size > 0, "the grandchild never ran, so this proves nothing"
    time.sleep(0.4)
    assert beat.stat().st_size == size, "a grandchild outlived the limit"


def test_a_grandchild_that_keeps_the_pipe_open_does_not_keep_us() -> None:
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(30)']"
    parent = f"import subprocess, sys; subprocess.Popen({sleeper}, start_new_session=True); print('done')"
    started = time.monotonic()
    done = run([PYTHON, "-c", parent], limit=20)
    assert done.stdout == "done\n"
    assert time.monotonic() - started < 8


def test_lines_of_standard_error_come_as_they_are_written() -> None:
    lines: list[tuple[float, str]] = []
    script = "import sys, time\nfor i in range(3):\n    print(i, file=sys.stderr, flush=True); time.sleep(0.3)"
    run([PYTHON, "-c", script], on_line=lambda line: lines.append((time.monotonic(), line)))
    assert [line for _, line in lines] == ["0", "1", "2"]
    assert lines[-1][0] - lines[0][0] > 0.3


def test_standard_input_is_given_and_bad_bytes_do_not_break_reading() -> None:
    assert run([PYTHON, "-c", "print(input())"], stdin="hello\n").stdout == "hello\n"
    assert "�" in run([PYTHON, "-c", "import sys; sys.stdout.buffer.write(b'\\xff\\xfe')"]).stdout


@pytest.mark.parametrize("argv", [["bad\0name"], [PYTHON, "a\0b"]])
def test_what_cannot_be_started_is_an_answer(argv: list[str]) -> None:
    assert run(argv).returncode is None


def test_no_pipe_is_left_to_the_garbage_collector() -> None:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run([sys.executable, "-c", "import sys; print(1); print(2, file=sys.stderr)"])
        gc.collect()
    assert [str(each.message) for each in found if issubclass(each.category, ResourceWarning)] == []
