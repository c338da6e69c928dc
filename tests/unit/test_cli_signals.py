"""Being told to end is an interruption, once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

from envkit.cli import app
from envkit.cli.signals import ended_as_interrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX are processes asked to end by signals")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_DFL) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_it_interrupts_and_asking_again_does_not_disturb_the_tidying_up(name: str) -> None:
    tidied = False
    with pytest.raises(KeyboardInterrupt), ended_as_interrupted():
        try:
            os.kill(os.getpid(), getattr(signal, name))
            pytest.fail("it went on")
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            tidied = True
    assert tidied
    os.kill(os.getpid(), signal.SIGTERM)  # `timeout` may be late with its second one


def test_afterwards_all_is_as_before_and_what_is_ignored_stays_so() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # nohup
    with ended_as_interrupted():
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["verify", "linux-cpu"], "envkit.verify.verify_image"),
        (["build", "linux-cpu"], "envkit.build.engine.look"),
        (["up"], "envkit.venv.settle"),
    ],
)
def test_the_commands_end_as_interrupted(
    words: list[str], place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(*_words: object, **_more: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    import_module(place.rpartition(".")[0])
    # Where it is not seen to, this ends the whole test run.
    monkeypatch.setattr(place, ask)
    assert app.run(words) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
