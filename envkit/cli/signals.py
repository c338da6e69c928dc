"""Being told to end is an interruption, as Ctrl-C is: what is half made is taken away, and the exit code is 130."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def ended_as_interrupted() -> Iterator[None]:
    """A closed terminal, `kill`, `timeout`, systemd and CI systems all end what runs inside as Ctrl-C would."""

    def interrupt(number: int, _frame: object) -> NoReturn:
        # `timeout` asks twice, systemd asks in two ways: the second time must not end the tidying up. That goes for the
        # rest of this process too, which has no more than a word to say.
        for each in before:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name) and os.name == "posix"]
    before = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in before:
            if signal.getsignal(number) is interrupt:
                signal.signal(number, signal.SIG_DFL)
