"""The probe inside another host, in one round trip."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from envkit.data import packaged
from envkit.detect.raw import json_of
from envkit.errors import StepFailed, Unavailable
from envkit.process import Completed, Runner

LIMIT = 30.0  # seconds; the probe itself ends after less than ten

_NEED_PYTHON = (
    "install Python 3.8 or newer there (Debian, Ubuntu: apt-get install python3; "
    "RHEL, Fedora: dnf install python3; Alpine: apk add python3)"
)


@lru_cache(maxsize=1)
def packed_probe() -> str:
    """The probe as one line of Python for `python3 -c`."""
    source = packaged("detect/probe.py").read_bytes()
    data = base64.b64encode(zlib.compress(source, 9)).decode("ascii")
    return f"import base64,zlib;PROBE_SOURCE=zlib.decompress(base64.b64decode('{data}'));exec(PROBE_SOURCE)"


# Where a Python lies on hosts whose PATH was cut; `ssh host command` and containers often have a short one.
_PLACES = "/usr/bin:/usr/local/bin:/bin:/opt/conda/bin:/opt/venv/bin:/run/current-system/sw/bin"


def read(run: Runner, inside: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    """The raw document of the host that `run` reaches. Raises Unavailable where it has no Python or does not answer.

    `inside` asks for a look into a Python environment there too, as the probe's `ask_inside` takes it.
    """
    limit = LIMIT + (float(inside.get("limit") or 60.0) if inside else 0.0)
    argv = ["-c", packed_probe(), *([json.dumps(dict(inside), separators=(",", ":"))] if inside else [])]
    answer = run(["python3", *argv], limit=limit)
    if answer.missing or answer.returncode == 127:
        # Only then: one round trip is enough for nearly all.
        again = run(["/bin/sh", "-c", f'PATH="$PATH:{_PLACES}"; exec python3 "$@"', "envkit", *argv], limit=limit)
        answer = again if parse(again) is not None else answer
    document = parse(answer)
    if document is not None:
        return document
    said = (answer.stderr or answer.stdout).strip()
    if "not recognized as" in said or "CommandNotFoundException" in said:
        return _read_by_powershell(run)
    if answer.timed_out:
        raise Unavailable(
            f"the host did not answer within {limit:g} s", hint="look whether it is up and whether a command hangs there"
        )
    if (
        answer.missing
        or answer.returncode == 127
        or re.search(r"python3?['\"]?: .*(not found|no such file)", said, re.IGNORECASE)
    ):
        raise Unavailable("the host has no python3, which detect needs there", hint=_NEED_PYTHON)
    if "SyntaxError" in said or "No module named" in said:
        raise Unavailable(f"the host's python3 is too old or incomplete: {last_line(said)}", hint=_NEED_PYTHON)
    if answer.returncode in (None, 255) or not answer.stdout.strip():
        raise Unavailable(f"the host cannot be reached: {last_line(said) or 'no answer'}", hint="try the same login by hand")
    raise StepFailed(f"the probe failed on the host: {last_line(said)}", hint="run envkit detect on the host itself")


def parse(answer: Completed) -> Mapping[str, Any] | None:
    """The raw document behind its mark in what a host printed; None where there is none."""
    from envkit.detect.probe import MARK

    _, mark, text = answer.stdout.rpartition(MARK)
    if not mark:
        return None
    try:
        document, _ = json.JSONDecoder().raw_decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, Mapping) else None


def _read_by_powershell(run: Runner) -> Mapping[str, Any]:
    """The raw document of a Windows host without Python: PowerShell tells the system and its adapters."""
    from envkit.detect import probe

    answer = run(["powershell", *probe.shell_arguments()], limit=LIMIT)
    if json_of(answer.stdout) is None:
        said = (answer.stderr or answer.stdout).strip()
        raise Unavailable(
            f"the host has no python3, and PowerShell told nothing: {last_line(said) or 'no answer'}",
            hint="install Python there (winget install Python.Python.3.12)",
        )
    told = {"code": answer.returncode, "stdout": answer.stdout, "stderr": answer.stderr, "timed_out": False, "limit": LIMIT}
    return {"format": probe.FORMAT, "os": "windows", "tools": {"powershell": told}}


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")[:300]
