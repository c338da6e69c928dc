"""The smaller parts: Pythons, uv's words, what is installed, and what activation adds."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envkit.errors import UsageError
from envkit.model import Package, Plan, Verdict
from envkit.venv import pythons
from envkit.venv.activation import activation_command, constraint_reference, write_activation, write_pip_settings
from envkit.venv.contents import distributions, inspect, python_of, remove_rest, tops, wrong_versions
from envkit.venv.folder import State
from envkit.venv.making import matters, progress
from envkit.venv.pythons import Interpreter, choices, parse_list

PLAN = Plan(
    scheme="linux-cpu",
    verdict=Verdict.SUPPORTED,
    platform="debian-12/x86_64",
    accelerator_name="",
    accelerator_arch="",
    driver_have="",
    driver_need="",
    backend_name="cpu",
    backend_version="0",
    backend_tag="cpu",
    device="cpu",
    framework_name="torch",
    framework_version="2.7.1",
    python="3.11",
    packages=(
        Package(name="torch", version="2.7.1+cpu", index="https://index.example/cpu"),
        Package(name="numpy", version="2.3.5", index="pypi"),
    ),
)

# ---- Pythons -----------------------------------------------------------------------------------------------------


def row(version: str, path: str | None = "/usr/bin/python", **more: Any) -> dict[str, Any]:
    major, minor = version.split(".")[:2]
    parts = {"major": int(major), "minor": int(minor), "patch": 1}
    return {
        "key": f"cpython-{version}",
        "version": version,
        "version_parts": parts,
        "path": path,
        "implementation": "cpython",
        **more,
    }


def test_uvs_list_of_pythons() -> None:
    rows = [
        row("3.9.1"),
        row("3.13.1"),
        row("3.13.0", "/other"),
        row("3.14.0", None),
        row("3.13.1", "/t", variant="freethreaded"),
        row("3.15.0a2", "/alpha"),
        row("3.12.1", "/pypy", implementation="pypy"),
        "nonsense",
    ]
    assert parse_list(json.dumps(rows)) == [
        Interpreter(version="3.13", path="/usr/bin/python"),
        Interpreter(version="3.9", path="/usr/bin/python"),
        Interpreter(version="3.13t", path="/t"),
    ]


@pytest.mark.parametrize("text", ["", "{", "{}", "3", "null", '[{"implementation": "cpython", "path": "/x"}]'])
def test_a_broken_list_names_no_python(text: str) -> None:
    assert parse_list(text) == []


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("", ["/run", "/usr/13", "/usr/12"]),
        ("3.11", ["/run"]),
        ("3.12", ["/usr/12"]),
        ("3.12.4", ["/usr/12"]),
        ("cp313", ["/usr/13"]),
        ("3.10", []),
    ],
)
def test_the_python_that_runs_envkit_comes_first(asked: str, expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    there = [
        Interpreter(version="3.13", path="/usr/13"),
        Interpreter(version="3.12", path="/usr/12"),
        Interpreter(version="3.11", path="/usr/11"),
    ]
    monkeypatch.setattr(pythons, "running", lambda: Interpreter(version="3.11", path="/run"))
    monkeypatch.setattr(pythons, "installed", lambda uv: there)
    assert [one.path for one in choices(Path("uv"), asked)] == expected


def test_a_python_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="banana"):
        list(choices(Path("uv"), "banana"))


# ---- uv's words --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Downloading torch (182.9MiB)", "  Downloading torch (182.9MiB)"),
        ("\x1b[2mResolved \x1b[1m11 packages\x1b[0m \x1b[2min 67ms\x1b[0m", "  Resolved 11 packages in 67ms"),
        ("warning: Failed to hardlink files", "  warning: Failed to hardlink files"),
        (" + numpy==2.3.5", ""),
        ("Using Python 3.11.7 environment at: env", ""),
        ("warning: https://me:secret@host is slow", "  warning: https://***@host is slow"),
    ],
)
def test_what_is_told_of_uvs_progress(line: str, said: str) -> None:
    assert progress(line) == said


def test_the_lines_that_matter_are_uvs_error_without_secrets() -> None:
    text = "Using Python 3.11\nerror: Failed to fetch: `https://me:secret@host/x`\n  cause: dns error\n\n  cause: no such host\n"
    assert matters(text) == "error: Failed to fetch: `https://***@host/x`\n  cause: dns error\n  cause: no such host"
    assert matters("\n".join(f"line {n}" for n in range(40))).splitlines() == [f"line {n}" for n in range(25, 40)]
    assert matters("error: x\n" + "y\n" * 30).splitlines()[-1] == "... and 17 more lines"


# ---- contents ----------------------------------------------------------------------------------------------------


@pytest.fixture
def env(tmp_path: Path) -> Path:
    """An environment as uv leaves one, with torch and numpy of a few bytes."""
    path = tmp_path / "env"
    site = path / "lib" / "python3.11" / "site-packages"
    put(
        site, "torch", "2.7.1+cpu", {"torch/__init__.py": "x = 1\n", "torch/lib/libtorch.so": "code", "functorch/__init__.py": ""}
    )
    put(site, "numpy", "2.3.5", {"numpy/__init__.py": ""})
    put(site, "typing_extensions", "4.1", {"typing_extensions.py": ""})
    (path / "bin").mkdir()
    (path / "bin" / "python").touch()
    (path / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.11.7\n", encoding="utf-8")
    return path


def put(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    info = f"{name}-{version}.dist-info"
    for file, text in {**files, f"{info}/METADATA": "x"}.items():
        (site / file).parent.mkdir(parents=True, exist_ok=True)
        (site / file).write_text(text, encoding="utf-8")
    record = "".join(f"{file},sha256=x,{len(text)}\n" for file, text in files.items())
    (site / info / "RECORD").write_text(
        f"{record}{info}/METADATA,,\n../../../bin/{name},,\ntorch/__pycache__/a.pyc,,\n", encoding="utf-8"
    )


def state(env: Path) -> State:
    return State(state="complete", installed=distributions(env), tops=tops(env, ["torch", "numpy"]))


def test_what_is_installed(env: Path) -> None:
    assert distributions(env) == {"torch": "2.7.1+cpu", "numpy": "2.3.5", "typing-extensions": "4.1"}
    assert tops(env, ["torch"]) == {"torch": ("functorch", "torch", "torch-2.7.1+cpu.dist-info")}
    assert python_of(env) == "3.11"
    assert wrong_versions(env, PLAN) == []
    assert inspect(env, PLAN, state(env)).words == ()


def damage_record(site: Path) -> None:
    shutil.rmtree(site / "torch-2.7.1+cpu.dist-info")


def swap_flavour(site: Path) -> None:
    (site / "torch-2.7.1+cpu.dist-info").rename(site / "torch-2.7.1.dist-info")


def cut_a_library(site: Path) -> None:
    (site / "torch" / "lib" / "libtorch.so").write_text("co")


def lose_a_file(site: Path) -> None:
    (site / "torch" / "__init__.py").unlink()


def lose_a_dependency(site: Path) -> None:
    shutil.rmtree(site / "typing_extensions-4.1.dist-info")


@pytest.mark.parametrize(
    ("harm", "words", "packages", "corrupt"),
    [
        (damage_record, "torch is not installed any more", ("torch",), ()),
        (swap_flavour, "torch is 2.7.1, not 2.7.1+cpu", ("torch",), ()),
        (cut_a_library, "torch is damaged: torch/lib/libtorch.so has 2 bytes instead of 4", ("torch",), ("torch",)),
        (lose_a_file, "torch is damaged: torch/__init__.py is missing", ("torch",), ("torch",)),
        (lose_a_dependency, "typing-extensions is not installed any more", (), ()),
    ],
)
def test_damage_is_seen_and_named(env: Path, harm: Any, words: str, packages: tuple[str, ...], corrupt: tuple[str, ...]) -> None:
    before = state(env)
    harm(env / "lib" / "python3.11" / "site-packages")
    found = inspect(env, PLAN, before)
    assert (found.words, found.packages, found.corrupt) == ((words,), packages, corrupt)


def test_a_python_that_is_gone_is_seen(env: Path) -> None:
    before = state(env)
    (env / "bin" / "python").unlink()
    assert inspect(env, PLAN, before).python


def test_what_the_user_added_or_updated_beside_the_plan_is_no_damage(env: Path) -> None:
    before = state(env)
    site = env / "lib" / "python3.11" / "site-packages"
    put(site, "pandas", "3.0", {"pandas/__init__.py": ""})
    shutil.rmtree(site / "typing_extensions-4.1.dist-info")
    put(site, "typing_extensions", "4.9", {"typing_extensions.py": ""})
    assert inspect(env, PLAN, before).words == ()


def test_the_rest_of_a_package_without_record_is_removed_and_nothing_else(env: Path) -> None:
    site = env / "lib" / "python3.11" / "site-packages"
    before = state(env)
    damage_record(site)
    (site / "mine.py").touch()
    remove_rest(env, before.tops)
    assert sorted(path.name for path in site.iterdir() if "." not in path.name or path.suffix == ".py") == [
        "mine.py",
        "numpy",
        "typing_extensions.py",
    ]


def test_an_untrusted_package_is_removed_whatever_its_records_say(env: Path) -> None:
    site = env / "lib" / "python3.11" / "site-packages"
    before = state(env)
    swap_flavour(site)
    (site / "torch-1.0.dist-info").mkdir()
    remove_rest(env, before.tops, ["torch"])
    assert not [path.name for path in site.iterdir() if "torch" in path.name]
    assert (site / "numpy" / "__init__.py").exists()


def test_a_flavour_that_is_not_the_plans_is_told(env: Path) -> None:
    wanted = replace(
        PLAN, packages=(Package(name="torch", version="2.7.1+cu128", index="x"), Package(name="scipy", version="1", index="pypi"))
    )
    assert wrong_versions(env, wanted) == ["torch is 2.7.1+cpu, not 2.7.1+cu128", "scipy is missing, not 1"]


# ---- activation --------------------------------------------------------------------------------------------------


def test_paths_with_blanks_reach_pip_and_uv_as_urls(tmp_path: Path) -> None:
    assert constraint_reference(Path("/a/env")) == "/a/env/envkit/constraints.txt"
    assert constraint_reference(Path("/a b/ü")) == "file:///a%20b/%C3%BC/envkit/constraints.txt"
    write_pip_settings(tmp_path)
    assert f"[install]\nconstraint = {tmp_path}/envkit/constraints.txt\n" in (tmp_path / "pip.conf").read_text()


def test_activation_is_extended_once_however_often(env: Path) -> None:
    script = env / "bin" / "activate"
    script.write_text("deactivate () {\n    unset VIRTUAL_ENV\n}\nVIRTUAL_ENV=x\n", encoding="utf-8")
    write_activation(env, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    once = script.read_text()
    assert once.count("export HSA_OVERRIDE_GFX_VERSION=10.3.0") == 1
    write_activation(env, {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"})
    assert script.read_text() == once
    write_activation(env, {})
    assert "HSA_OVERRIDE" not in script.read_text()
    assert "UV_CONSTRAINT" in script.read_text()


@pytest.mark.parametrize(
    ("shell", "folder", "line"),
    [
        ("/bin/bash", "/a/env", "source /a/env/bin/activate"),
        ("/usr/bin/zsh", "/a b/env", "source '/a b/env/bin/activate'"),
        ("/bin/dash", "/a/env", ". /a/env/bin/activate"),
        ("", "/a/env", ". /a/env/bin/activate"),
        ("/usr/bin/fish", "/a/env", "source /a/env/bin/activate.fish"),
        ("/usr/bin/fish", "/it's", "source '/it\\'s/bin/activate.fish'"),
        ("/bin/tcsh", "/a/env", "source /a/env/bin/activate.csh"),
        ("/usr/bin/nu", "/a/env", "overlay use /a/env/bin/activate.nu"),
    ],
)
def test_the_line_that_activates_is_in_the_users_shells_words(shell: str, folder: str, line: str) -> None:
    assert activation_command(Path(folder), {"SHELL": shell}) == line
