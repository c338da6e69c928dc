"""The guard of the unit tests really guards."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CASES = {
    "socket": "import socket; socket.socket().connect(('127.0.0.1', 9))",
    "connection": "import socket; socket.create_connection(('127.0.0.1', 9))",
    "names": "import socket; socket.getaddrinfo('localhost', 80)",
    "urllib": "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9/')",
    "requests": "import requests; requests.get('http://127.0.0.1:9/')",
    "docker": "import socket; socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
    "subprocess": "import subprocess; subprocess.run(['true'])",
    "envkit": "from envkit.process import run; run(['true'])",
    "shell": "import os; os.system('true')",
    "swallowed": """\
    import socket
    try:
        socket.socket().connect(('127.0.0.1', 9))
    except Exception:
        pass""",
    "thread": """\
    import subprocess, threading
    one = threading.Thread(target=lambda: subprocess.run(['true']))
    one.start()
    one.join()""",
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", CASES)
def test_the_outside_is_closed(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile(f"def test_it():\n    {CASES[case].strip()}\n")
    result = pytester.runpytest_inprocess("-p", "no:threadexception", "-p", "no:cacheprovider")
    counts = result.parseoutcomes()
    assert counts.get("failed", 0) + counts.get("errors", 0) >= 1
    result.stdout.fnmatch_lines("*a unit test must not use *")


def test_what_stays_inside_is_let_through(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(Path(__file__).with_name("conftest.py").read_text(encoding="utf-8"))
    pytester.makepyfile("from pathlib import Path\ndef test_it(tmp_path):\n    (tmp_path / 'a').write_text('b')\n    Path.home()")
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
