"""The builder's stream, read into steps."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Sequence

import pytest

from envkit.build.progress import Step, Stream
from envkit.cli.build import Drawing, Lines, _display, now_at

Read = Callable[[str], Stream]
Captured = Callable[[str], str]


def objects(text: str) -> list[dict[str, object]]:
    found, at = [], 0
    while text[at:].lstrip().startswith("{"):
        at = len(text) - len(text[at:].lstrip())
        document, at = json.JSONDecoder().raw_decode(text, at)
        found.append(document)
    return found


def test_a_whole_build(read_stream: Read) -> None:
    stream = read_stream("success.rawjson")
    steps = {step.title: step for step in stream.steps.values() if step.title}
    assert set(steps) == {
        "base debian:bookworm-slim",
        "Python and a user",
        "send uv",
        "send wheels",
        "install, prune and prove",
        "exporting to image",
    }
    assert steps["Python and a user"].cached
    install = steps["install, prune and prove"]
    assert not install.cached
    assert install.seconds is not None
    assert 1 < install.seconds < 60
    assert " + torch==2.13.0+cpu" in install.output
    assert stream.failed is None
    assert stream.plain == []


@pytest.mark.parametrize("name", ["success.rawjson", "failed-step.rawjson"])
def test_one_object_a_line_reads_the_same_as_many_lines_an_object(name: str, captured: Captured, read_stream: Read) -> None:
    compact = Stream()
    for document in objects(captured(name)):
        compact.feed(json.dumps(document))
    compact.finish()
    assert compact.steps == read_stream(name).steps


def test_several_objects_on_one_line(captured: Captured, read_stream: Read) -> None:
    stream = Stream()
    told = stream.feed("".join(json.dumps(document) for document in objects(captured("failed-step.rawjson"))))
    assert stream.steps == read_stream("failed-step.rawjson").steps
    assert told


def test_the_step_that_failed_and_the_last_words(read_stream: Read) -> None:
    stream = read_stream("failed-step.rawjson")
    failed = stream.failed
    assert failed is not None
    assert failed.output == ["hello", "oops"]
    assert failed.error.endswith("exit code: 3")
    assert stream.plain[-1].startswith("ERROR: failed to solve: process")


def test_a_step_that_was_called_off_is_not_the_one_that_failed() -> None:
    stream = Stream()
    stream.feed(
        json.dumps({"vertexes": [{"digest": "a", "name": "[x 1/1] RUN a", "error": "context canceled: context canceled"}]})
    )
    stream.feed(json.dumps({"vertexes": [{"digest": "b", "name": "[x 1/1] RUN b", "error": "exit code: 1"}]}))
    assert stream.failed is not None
    assert stream.failed.digest == "b"


def log(*texts: bytes) -> str:
    rows = [{"vertex": "a", "stream": 1, "data": base64.b64encode(text).decode()} for text in texts]
    return json.dumps({"logs": rows})


@pytest.mark.parametrize(
    ("parts", "lines"),
    [
        ([b"one\ntwo\n"], ["one", "two"]),
        ([b"on", b"e\ntw", b"o"], ["one", "two"]),
        ([b"10%\r50%\r100%\n"], ["100%"]),
        ([b"\x1b[1mbold\x1b[0m\n"], ["bold"]),
        ([b"\xff broken\n"], ["\ufffd broken"]),
        ([b"windows\r\n"], ["windows"]),
        ([], []),
    ],
)
def test_output_is_put_together_line_by_line(parts: list[bytes], lines: list[str]) -> None:
    stream = Stream()
    for part in parts:
        stream.feed(log(part))
    stream.finish()
    assert stream._step("a").output == lines


def test_a_stream_that_is_cut_off_keeps_what_was_whole() -> None:
    stream = Stream()
    stream.feed(json.dumps({"vertexes": [{"digest": "a", "name": "[x 1/1] RUN a", "started": "2026-01-01T00:00:00Z"}]}))
    for line in ['{"vertexes": [', '{"digest": "b"']:
        stream.feed(line)
    stream.finish()
    assert list(stream.steps) == ["a"]
    assert stream.plain == ['{"vertexes": [', '{"digest": "b"']


@pytest.mark.parametrize(
    "text", ["", "   ", "}", "null", "[]", '{"vertexes": null}', '{"statuses": [{}]}', '{"logs": [{}]}', "{}"]
)
def test_odd_lines_do_no_harm(text: str) -> None:
    stream = Stream()
    stream.feed(text)
    stream.feed(json.dumps({"vertexes": [{"digest": "a", "name": "exporting to image"}]}))
    stream.finish()
    assert "exporting to image" in [step.name for step in stream.steps.values()]


@pytest.mark.parametrize(
    ("name", "title", "target"),
    [
        ("[internal] load build definition from Dockerfile", "", ""),
        ("[linux-cpu internal] load build definition from Dockerfile", "", "linux-cpu"),
        ("[context wheels] load .dockerignore", "", ""),
        ("[context wheels] load from client", "send wheels", ""),
        ("[linux-cpu context wheels] load from client", "send wheels", "linux-cpu"),
        ("[environment 1/1] RUN --mount=type=cache x", "install, prune and prove", ""),
        ("[linux-cpu environment 1/1] RUN --mount=type=cache x", "install, prune and prove", "linux-cpu"),
        ("[system 2/3] RUN apt-get update", "Python and a user", ""),
        ("[system 3/3] WORKDIR /workspace", "", ""),
        ("[uv 2/3] RUN x", "uv", ""),
        ("[system 1/3] FROM docker.io/library/debian:bookworm-slim@sha256:abc", "base debian:bookworm-slim", ""),
        ("exporting to image", "exporting to image", ""),
        ("[linux-cpu] exporting to image", "exporting to image", "linux-cpu"),
        ("x" * 80, "x" * 57 + "...", ""),
    ],
)
def test_titles_are_for_people(name: str, title: str, target: str) -> None:
    step = Step(digest="a", name=name)
    assert (step.title, step.target) == (title, target)


@pytest.mark.parametrize(
    ("started", "completed", "seconds"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.5Z", 1.5),
        ("2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.623456789Z", 0.5),
        ("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z", 0.0),
        ("2026-01-01T00:00:00Z", "", None),
        ("", "2026-01-01T00:00:00Z", None),
    ],
)
def test_how_long_a_step_took(started: str, completed: str, seconds: float | None) -> None:
    assert Step(digest="a", started=started, completed=completed).seconds == seconds


class Clock:
    """A clock that goes when told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def follow(show: Lines, clock: Clock, documents: Sequence[dict[str, object]]) -> None:
    stream = Stream()
    for document in documents:
        for step, lines in stream.feed(json.dumps(document)):
            show(step, lines)
        clock.now += 31


def test_progress_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    running = {"digest": "a", "name": "[environment 1/1] RUN x", "started": "2026-01-01T00:00:00Z"}
    clock = Clock()
    follow(
        Lines(clock=clock),
        clock,
        [
            {"vertexes": [{"digest": "z", "name": "[internal] load .dockerignore", "started": "2026-01-01T00:00:00Z"}]},
            {"vertexes": [{"digest": "b", "name": "[system 2/3] RUN y", "cached": True, "completed": "2026-01-01T00:00:00Z"}]},
            {"vertexes": [running]},
            {"logs": [{"vertex": "a", "data": base64.b64encode(b"Downloading torch\n").decode()}]},
            {"vertexes": [{**running, "completed": "2026-01-01T00:01:33Z"}]},
            {"vertexes": [{**running, "completed": "2026-01-01T00:01:33Z"}]},
        ],
    )
    assert capsys.readouterr().err == (
        "  Python and a user: as before\n"
        "  install, prune and prove: Downloading torch\n"
        "  install, prune and prove: done in 93.0 s\n"
    )


def test_everything_that_is_said_can_be_seen(capsys: pytest.CaptureFixture[str], captured: Captured) -> None:
    clock = Clock()
    show = Lines(everything=True, clock=clock)
    follow(show, clock, objects(captured("failed-step.rawjson")))
    said = capsys.readouterr().err
    assert " | oops\n" in said
    assert said.endswith(": failed\n")


def test_the_probe_is_not_quoted_word_by_word() -> None:
    step = Step(digest="a", output=["Installed 3 packages", '{"schema": "envkit/probe/1", "passed": true}', ""])
    assert now_at(step) == "proving"


def test_progress_that_is_drawn(capsys: pytest.CaptureFixture[str], captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich", reason="rich is missing, which draws the progress")
    monkeypatch.setenv("COLUMNS", "80")
    stream, drawn = Stream(), []
    with Drawing() as drawing:
        for document in objects(captured("success.rawjson")):
            for step, lines in stream.feed(json.dumps(document)):
                drawing(step, lines)
            drawn.append(str(drawing._render()))
    said = capsys.readouterr().err
    assert "  Python and a user: as before\n" in said
    assert re.search(r"  install, prune and prove: \d+\.\d s\n", said)
    assert any(re.search(r"install, prune and prove  \d+ s  Installed 1 package", text) for text in drawn)
    assert drawn[-1] == "", "nothing runs any more"


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX are there pseudo-terminals")
@pytest.mark.parametrize("name", ["success.rawjson", "failed-step.rawjson"])
def test_progress_on_a_terminal(name: str, captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rich", reason="rich is missing, which draws the progress")
    import pty

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("NO_COLOR", raising=False)
    faults: list[object] = []
    monkeypatch.setattr(threading, "excepthook", faults.append)  # drawing goes on in a thread of its own
    master, slave = pty.openpty()
    drawn = bytearray()

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(master, 4096):
                drawn.extend(piece)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(slave, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        stream = Stream()
        with _display("auto") as watch:
            assert isinstance(watch, Drawing)
            for document in objects(captured(name)):
                for step, lines in stream.feed(json.dumps(document)):
                    watch(step, lines)
                time.sleep(0.005)  # time to draw between what happens
    reader.join(timeout=10)
    os.close(master)
    text = drawn.decode()
    assert faults == []
    assert "Traceback" not in text
    assert "\x1b[?25l" in text, "the cursor is hidden while something is drawn"
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "and comes back"
    assert ": failed" in text if name.startswith("failed") else re.search(r"install, prune and prove: \d+\.\d s", text)
