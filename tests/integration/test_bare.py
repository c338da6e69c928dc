"""The two commands of README.md in a Debian root with git and python3-venv only."""

from __future__ import annotations

import os

import pytest
from lab.needs import need


@pytest.mark.bare
@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
def test_the_first_command_proves_an_environment(suite: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can enter a bare system")
    from lab import bare

    first, _ = bare.commands()
    with bare.bare_root(suite) as folder:
        code = bare.run_inside(folder, first, limit=1200)
    if code == 5:
        need(f"torch for the Python of {suite} cannot be had from here")
    assert code == 0


@pytest.mark.bare
def test_the_second_command_is_green() -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can enter a bare system")
    from lab import bare

    _, second = bare.commands()
    with bare.bare_root("bookworm") as folder:
        assert bare.run_inside(folder, second, limit=2700) == 0
