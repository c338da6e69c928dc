"""Makes virtual environments: marked while they are in the making, proved when they are whole."""

from __future__ import annotations

from envkit.venv.activation import activation_command
from envkit.venv.folder import State, last_environment, read_state, settle
from envkit.venv.making import draw
from envkit.venv.up import Options, UpResult, up

__all__ = ["Options", "State", "UpResult", "activation_command", "draw", "last_environment", "read_state", "settle", "up"]
