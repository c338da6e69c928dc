"""What a failed build means: the code to end with, the words, the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable

from envkit.build.building import failure
from envkit.build.progress import Stream
from envkit.errors import StepFailed, Unavailable
from envkit.process import Completed

FAILED = Completed(argv=("docker",), returncode=1)


def judged(stream: Stream, done: Completed = FAILED) -> Exception:
    return failure(done, stream, ["linux-cpu"], "/state/build-linux-cpu.log")


def test_a_step_that_failed(read_stream: Callable[[str], Stream]) -> None:
    error = judged(read_stream("failed-step.rawjson"))
    assert isinstance(error, StepFailed)
    assert error.message == (
        "building linux-cpu: the step 'RUN echo hello; echo oops >&2; exit 3' failed\n"
        "  hello\n  oops\n  exit code 3\nlog: /state/build-linux-cpu.log"
    )


def test_an_environment_that_did_not_prove_itself(read_stream: Callable[[str], Stream]) -> None:
    error = judged(read_stream("not-proven.rawjson"))
    assert isinstance(error, StepFailed)
    assert error.message == (
        "building linux-cpu: the step 'install, prune and prove' failed: the environment did not prove itself\n"
        "  flavour: the plan wants torch 2.13.0+cu130, this environment has 2.13.0+cpu\n"
        "  framework-build: the plan wants torch 2.13.0+cu130, the torch that is imported says 2.13.0+cpu (built for the CPU)\n"
        "log: /state/build-linux-cpu.log"
    )


def test_an_index_that_could_not_be_reached(read_stream: Callable[[str], Stream]) -> None:
    error = judged(read_stream("index-unreachable.rawjson"))
    assert isinstance(error, Unavailable)
    assert error.message.startswith(
        "building linux-cpu: the step 'install, prune and prove' failed: a package source could not be reached\n"
    )
    assert "\n  exit code 2\nlog: /state/build-linux-cpu.log" in error.message
    assert "ENVKIT_PYTORCH_MIRROR" in error.hint


def test_a_base_that_could_not_be_had(read_stream: Callable[[str], Stream]) -> None:
    error = judged(read_stream("base-unreachable.rawjson"))
    assert isinstance(error, Unavailable)
    assert error.message.startswith("building linux-cpu: the base image docker.io/library/debian:nosuch could not be had\n")
    assert error.hint.endswith("docker pull docker.io/library/debian:nosuch, docker load")


def test_a_full_disk(read_stream: Callable[[str], Stream]) -> None:
    error = judged(read_stream("disk-full.rawjson"))
    assert isinstance(error, StepFailed)
    assert "no space left on the disk that the Docker engine uses" in error.message
    assert error.hint == "see what takes it (docker system df) and free some: docker builder prune, docker image prune"


def test_a_full_disk_that_the_builder_itself_meets() -> None:
    stream = Stream()
    stream.feed(
        json.dumps({"vertexes": [{"digest": "a", "name": "exporting to image", "error": "write: no space left on device"}]})
    )
    error = judged(stream)
    assert isinstance(error, StepFailed)
    assert error.message.startswith("building linux-cpu: the step 'exporting to image' failed: no space left")


def test_a_builder_that_failed_before_its_first_step() -> None:
    stream = Stream()
    stream.feed("ERROR: failed to solve: something else")
    error = judged(stream)
    assert isinstance(error, StepFailed)
    assert error.message == (
        "building linux-cpu: the step 'start' failed\n  ERROR: failed to solve: something else\nlog: /state/build-linux-cpu.log"
    )


def test_a_builder_that_says_nothing() -> None:
    assert isinstance(judged(Stream()), StepFailed)


def test_docker_that_went_away_meanwhile() -> None:
    assert isinstance(judged(Stream(), Completed(argv=("docker",), returncode=None, missing=True)), Unavailable)


def test_a_build_without_end() -> None:
    error = judged(Stream(), Completed(argv=("docker",), returncode=None, timed_out=True))
    assert isinstance(error, StepFailed)
    assert error.message == "building linux-cpu did not end within 6 hours\nlog: /state/build-linux-cpu.log"


def test_logins_are_not_repeated() -> None:
    stream = Stream()
    stream.feed("ERROR: could not fetch https://user:secret@mirror.example/simple/torch/")
    assert "secret" not in str(judged(stream))
    assert "https://***@mirror.example" in str(judged(stream))
