"""What belongs together is there together: commands and their help and tests, schemes and their files, rules and their tests,
documents and their schemas. The lists are written out in the code; this says what is missing beside them."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

from envkit.cli import app
from envkit.data import packaged, shipped

ROOT = Path(__file__).resolve().parents[2]
UNIT = ROOT / "tests/unit"


@cache
def unit_texts() -> dict[Path, str]:
    """The unit tests' source, this file left out."""
    return {path: path.read_text(encoding="utf-8") for path in UNIT.rglob("test_*.py") if path != Path(__file__)}


def commands(command: click.Command, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield names, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from commands(below, (*names, name))


ALL_COMMANDS = [found for found in commands(app.envkit, ()) if found[0]]


def test_the_list_of_commands_is_the_one_that_help_shows() -> None:
    assert list(app.SUMMARIES) == list(app.COMMANDS)
    assert len(ALL_COMMANDS) >= len(app.COMMANDS)


@pytest.mark.parametrize(("names", "command"), ALL_COMMANDS, ids=[" ".join(names) for names, _ in ALL_COMMANDS])
def test_every_command_explains_itself(names: tuple[str, ...], command: click.Command) -> None:
    assert (command.help or "").strip(), f"{names} has no help"
    silent = [param.name for param in command.params if isinstance(param, click.Option) and not (param.help or "").strip()]
    assert silent == [], f"options of {' '.join(names)} without help"


@pytest.mark.parametrize(
    "names", [names for names, command in ALL_COMMANDS if not isinstance(command, click.Group)], ids=" ".join
)
def test_every_command_has_a_test_that_calls_it(names: tuple[str, ...]) -> None:
    words = ",\\s*".join(f'"{name}"' for name in names)
    spoken = re.compile(rf"\[\s*{words}|\(\s*{words}|\"{' '.join(names)}\b")
    callers = [
        path.name
        for path, text in unit_texts().items()
        if ("CliRunner" in text or "app.run" in text or "main(" in text) and spoken.search(text)
    ]
    assert callers, f"no unit test calls envkit {' '.join(names)}"


@cache
def matrix() -> Any:
    from envkit.matrix import load

    return load()


SCHEMES = sorted(re.findall(r"^\[scheme\.([\w-]+)\]", shipped("matrix.toml").read_text(encoding="utf-8"), re.MULTILINE))


def test_there_are_schemes() -> None:
    assert sorted(matrix().schemes) == SCHEMES
    assert {"linux-cpu", "linux-cuda", "linux-rocm", "windows-cpu", "windows-cuda", "windows-rocm", "windows-directml"} <= set(
        SCHEMES
    )


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_has_its_files_or_says_why_not(name: str) -> None:
    scheme = matrix().schemes[name]
    dockerfile = ROOT / "images" / name / "Dockerfile"
    if scheme.container is None:
        assert len(scheme.no_container) > 20, f"{name} has no container and does not say why"
        assert not dockerfile.exists()
    else:
        assert dockerfile.is_file()
    assert scheme.title and scheme.for_whom and scheme.needs and scheme.pros and scheme.cons and scheme.sources


def test_no_image_or_play_without_a_scheme() -> None:
    images = {path.parent.name for path in (ROOT / "images").glob("*/Dockerfile")}
    plays = {path.stem for path in (ROOT / "playbooks").glob("*.yml")}
    assert images <= set(SCHEMES)
    assert plays <= set(SCHEMES)
    assert images
    assert plays


def test_every_rule_has_a_test() -> None:
    from envkit.resolve import RULES

    spoken = "\n".join(text for path, text in unit_texts().items() if "resolve" in path.parts)
    untested = [rule.__name__ for rule in RULES if not re.search(rf"\b{re.escape(rule.__name__)}\b", spoken)]
    assert untested == []
    assert [rule.__name__ for rule in RULES if not inspect.getdoc(rule)] == []


# Notes that envkit leaves for itself; nobody else is promised anything about them.
PRIVATE = {"state", "last"}


def document_names() -> list[str]:
    """The documents that the code makes: envkit/<name>/1."""
    found: set[str] = set()
    for path in (ROOT / "envkit").rglob("*.py"):
        found |= set(re.findall(r"envkit/([a-z-]+)/1\b", path.read_text(encoding="utf-8")))
    return sorted(found - PRIVATE)


@pytest.mark.parametrize("name", document_names())
def test_every_document_has_a_schema(name: str) -> None:
    import jsonschema

    path = packaged("schemas") / f"{name}.json"
    assert path.is_file(), f"no schema for envkit/{name}/1"
    schema = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"]["const"] == f"envkit/{name}/1"
    assert "schema" in schema["required"]


def test_every_schema_is_of_a_document() -> None:
    assert sorted(path.stem for path in packaged("schemas").glob("*.json")) == document_names()
    assert {"plan", "conflict", "facts", "proof"} <= set(document_names())


def test_every_detect_module_is_listed() -> None:
    detect = importlib.import_module("envkit.detect")
    listed = {probe.__module__ for probe in getattr(detect, "PROBES", ())}
    assert listed, "envkit.detect.PROBES names no probe"


def test_no_machine_or_unfinished_work_in_the_tree() -> None:
    """Marks of unfinished work, and paths of one machine, have no place in what is shipped."""
    marks = re.compile(rf"\b(TODO|FIXME|XXX)\b|{re.escape(f'{ROOT}/')}")
    wrong = []
    for folder in ("envkit", "templates", "playbooks", "images", "docs", "tests", ".ci"):
        for path in sorted((ROOT / folder).rglob("*")):
            passed_over = (
                path == Path(__file__) or {"__pycache__", "fixtures"} & set(path.parts) or path.suffix in (".pyc", ".gz")
            )
            if path.is_file() and not passed_over:
                wrong += [f"{path.relative_to(ROOT)}: {found[0]}" for found in marks.finditer(path.read_text(encoding="utf-8"))]
    assert wrong == []


@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_speaks_both_languages_and_says_how_it_stands(name: str) -> None:
    scheme = matrix().schemes[name]
    words = ("title", "for_whom", "needs", "pros", "cons", "cannot", "no_container")
    wanted = [word for word in words if getattr(scheme, word)]
    assert [word for word in wanted if not scheme.zh.get(word)] == []
    assert scheme.stability and scheme.ecosystem and scheme.multi_device
    others = [other for other in matrix().schemes.values() if other.name != name]
    assert [other.name for other in others if other.for_whom == scheme.for_whom or other.pros == scheme.pros] == []


def test_all_promised_schemes_are_there() -> None:
    promised = """linux-cuda linux-rocm linux-xpu linux-cpu linux-hpu linux-npu linux-npu-mindspore linux-mlu linux-musa linux-tpu
        linux-tpu-jax linux-cuda-jax linux-rocm-jax linux-cpu-jax linux-cpu-mlx linux-openvino linux-cuda-onnxruntime
        linux-rocm-onnxruntime linux-rocm-llamacpp linux-neuron windows-cuda windows-rocm windows-directml windows-xpu windows-cpu
        windows-directml-onnxruntime windows-directml-tensorflow wsl2-cuda wsl2-rocm wsl2-directml
        macos-mps macos-mlx macos-cpu"""
    assert set(promised.split()) <= set(SCHEMES)
    assert set(matrix().clouds) == {"groq", "cerebras"}
