"""What an activated environment sets besides uv's own: the plan's environment, and the pins for later `uv pip install`s."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from envkit.venv.folder import own, write_whole

_BEGIN, _END = ">>> envkit", "<<< envkit"


def binaries(directory: Path) -> Path:
    """The folder of the environment's programs."""
    return directory / ("Scripts" if sys.platform == "win32" else "bin")


def interpreter(directory: Path) -> Path:
    """The environment's Python."""
    return binaries(directory) / ("python.exe" if sys.platform == "win32" else "python")


def constraint_reference(directory: Path) -> str:
    """The pins as pip and uv read them from a setting: both split at blanks, so a path that has some goes in as a URL."""
    file = own(directory) / "constraints.txt"
    return file.as_uri() if re.search(r"\s", str(file)) else str(file)


def write_activation(directory: Path, env: Mapping[str, str]) -> None:
    """Adds `env` and the pins to the scripts that activate the environment; what an earlier call added is replaced."""
    pins = constraint_reference(directory)
    for name, extend in (("activate", _posix), ("activate.fish", _fish), ("activate.csh", _csh), ("activate.ps1", _powershell)):
        script = binaries(directory) / name
        if script.is_file():
            text = script.read_text(encoding="utf-8")
            new = extend(_without_ours(text), env, pins)
            if new != text:
                write_whole(script, new)


def _without_ours(text: str) -> str:
    return re.sub(rf"[^\n]*# {_BEGIN}\n.*?# {_END}\n", "", text, flags=re.DOTALL)


def _block(*lines: str, indent: str = "") -> str:
    return "".join(f"{indent}{line}\n" for line in (f"# {_BEGIN}", *lines, f"# {_END}"))


def _posix(text: str, env: Mapping[str, str], pins: str) -> str:
    names = ["UV_CONSTRAINT", *env]
    undo = [
        line
        for name in names
        for line in (
            f'if ! [ -z "${{_ENVKIT_OLD_{name}+_}}" ] ; then',
            f'    if [ "x${{_ENVKIT_OLD_{name}}}" = x ] ; then unset {name}',
            f'    else {name}="${{_ENVKIT_OLD_{name}}}" ; export {name} ; fi',
            f"    unset _ENVKIT_OLD_{name}",
            "fi",
        )
    ]
    set_ = [f'_ENVKIT_OLD_{name}="${{{name}-}}"' for name in names]
    # Later installs are held to the pins; the user's own constraints stay in force.
    set_ += [f'UV_CONSTRAINT="${{UV_CONSTRAINT:+$UV_CONSTRAINT }}"{shlex.quote(pins)}', "export UV_CONSTRAINT"]
    set_ += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    text = text.replace("deactivate () {\n", "deactivate () {\n" + _block(*undo, indent="    "), 1)
    return _ended(text) + _block(*set_)


def _fish(text: str, env: Mapping[str, str], pins: str) -> str:
    names = ["UV_CONSTRAINT", *env]
    undo = [
        line
        for name in names
        for line in (
            f"if set -q _ENVKIT_OLD_{name}",
            f'    if test -n "$_ENVKIT_OLD_{name}"; set -gx {name} $_ENVKIT_OLD_{name}; else; set -e {name}; end',
            f"    set -e _ENVKIT_OLD_{name}",
            "end",
        )
    ]
    set_ = [f'set -g _ENVKIT_OLD_{name} "${name}"' for name in names]
    set_ += [f'set -gx UV_CONSTRAINT (string trim "$UV_CONSTRAINT "{_fish_quote(pins)})']
    set_ += [f"set -gx {name} {_fish_quote(value)}" for name, value in env.items()]
    text = re.sub(r"(function deactivate[^\n]*\n)", lambda head: head[1] + _block(*undo, indent="    "), text, count=1)
    return _ended(text) + _block(*set_)


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _csh(text: str, env: Mapping[str, str], pins: str) -> str:
    names = ["UV_CONSTRAINT", *env]
    # csh has no functions: what activation set is unset, not set back.
    unset = "".join(f"unsetenv {name}; " for name in names)
    text = re.sub(r"(test [^;']*\"nondestructive\" && unalias)", lambda found: unset + found[1], _without_unset(text), count=1)
    values = {"UV_CONSTRAINT": pins, **env}
    return _ended(text) + _block(*(f"setenv {name} {_csh_quote(value)}" for name, value in values.items()))


def _without_unset(text: str) -> str:
    return re.sub(r"unsetenv UV_CONSTRAINT; (unsetenv (?!VIRTUAL_ENV)\w+; )*(?=test )", "", text)


def _csh_quote(text: str) -> str:
    return shlex.quote(text).replace("!", "\\!")


def _powershell(text: str, env: Mapping[str, str], pins: str) -> str:
    names = ["UV_CONSTRAINT", *env]
    undo = [
        f"if (Test-Path variable:_ENVKIT_OLD_{name}) {{ $env:{name} = $variable:_ENVKIT_OLD_{name}; "
        f'Remove-Variable "_ENVKIT_OLD_{name}" -Scope global }}'
        for name in names
    ]
    set_ = [f"$global:_ENVKIT_OLD_{name} = $env:{name}" for name in names]
    set_ += [f'$env:UV_CONSTRAINT = ("$env:UV_CONSTRAINT " + {_ps_quote(pins)}).Trim()']
    set_ += [f"$env:{name} = {_ps_quote(value)}" for name, value in env.items()]
    head = "function global:deactivate([switch] $NonDestructive) {\n"
    text = text.replace(head, head + _block(*undo, indent="    "), 1)
    return _ended(text) + _block(*set_)


def _ps_quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def write_pip_settings(directory: Path) -> None:
    """Holds pip, too, to the pins. The environment's own pip.conf is the one place that every pip started in it reads."""
    file = directory / ("pip.ini" if sys.platform == "win32" else "pip.conf")
    write_whole(
        file,
        "# Made by envkit: later installs keep to the versions and the flavour that were proved here.\n"
        f"[install]\nconstraint = {constraint_reference(directory)}\n",
    )


def activation_command(directory: Path, environ: Mapping[str, str] | None = None) -> str:
    """The line that activates the environment, in the words of the user's shell."""
    environ = os.environ if environ is None else environ
    folder = binaries(directory)
    if sys.platform == "win32":
        return f"& '{folder / 'activate.ps1'}'" if environ.get("PSModulePath") else f'"{folder / "activate.bat"}"'
    shell = Path(environ.get("SHELL", "")).name
    if shell == "fish":
        return f"source {_fish_quote(str(folder / 'activate.fish')) if _odd(folder) else folder / 'activate.fish'}"
    if shell in ("csh", "tcsh"):
        return f"source {shlex.quote(str(folder / 'activate.csh'))}"
    if shell == "nu":
        return f"overlay use {shlex.quote(str(folder / 'activate.nu'))}"
    word = "source" if shell in ("bash", "zsh") else "."
    return f"{word} {shlex.quote(str(folder / 'activate'))}"


def _odd(path: Path) -> bool:
    return shlex.quote(str(path)) != str(path)
