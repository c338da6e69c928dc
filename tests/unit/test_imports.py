"""Imports point one way, and each outside library has one door (docs/architecture.md); read from the source alone."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "envkit"

# From the ground up; a room may import from its own row and from those above it in this list.
ROWS = (
    ("errors", "files", "model"),
    ("plan", "process", "data", "matrix", "devices"),
    ("detect", "resolve", "sources"),
    ("render",),
    ("build", "venv", "bundle", "provision", "verify"),
    ("doctor", "report"),
    ("cli",),
)
ROW = {room: number for number, row in enumerate(ROWS) for room in row}

# Outside library -> the rooms or modules that may import it.
DOORS = {
    "click": ("cli",),
    "rich": ("cli", "report"),
    "jinja2": ("render",),
    "docker": ("build",),
    "ansible_runner": ("provision",),
    "testinfra": ("verify",),
    "pytest": ("verify",),
    "requests": ("matrix.refresh", "bundle", "sources"),
    "tomlkit": ("matrix.refresh",),
    "packaging": tuple(ROW),
    "uv": ("venv", "sources", "build"),
}
# Those that cost start-up time, or that a system may lack, are imported where they are used.
HEAVY = {"rich", "jinja2", "docker", "ansible_runner", "testinfra", "pytest", "requests", "tomlkit"}
# Processes start in one place; the probes run inside the target, where there is no envkit.
PROCESS_MODULES = {"subprocess", "pty"}
PROBES = ("detect.probe", "verify.probe")
# Collected by pytest, so pytest is there before they are.
UNDER_PYTEST = "verify.smoke"


@dataclass(frozen=True)
class Import:
    """One import: where, of what, and when it is carried out."""

    module: str
    line: int
    target: str
    at_start: bool
    for_types: bool

    def __str__(self) -> str:
        return f"envkit/{self.module.replace('.', '/')}.py:{self.line}: {self.target}"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path) -> Iterator[Import]:
    module = module_name(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))

    def walk(node: ast.AST, at_start: bool, for_types: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            inside = at_start and not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            types = for_types or (isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test))
            if isinstance(child, ast.Import):
                for alias in child.names:
                    yield Import(module, child.lineno, alias.name, at_start, for_types)
            elif isinstance(child, ast.ImportFrom):
                if child.level:
                    package = ["envkit", *([part for part in module.split(".") if part])]
                    if path.name != "__init__.py":
                        package = package[:-1]
                    base = ".".join([*package[: len(package) - child.level + 1], *([child.module] if child.module else [])])
                else:
                    base = child.module or ""
                if base == "envkit":
                    for alias in child.names:
                        yield Import(module, child.lineno, f"envkit.{alias.name}", at_start, for_types)
                else:
                    yield Import(module, child.lineno, base, at_start, for_types)
            yield from walk(child, inside, types)

    yield from walk(tree, True, False)


SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if "_shipped" not in path.parts)
ALL = [found for path in SOURCES for found in imports(path)]


def room(module: str) -> str:
    return module.partition(".")[0]


def test_there_is_something_to_look_at() -> None:
    assert len(SOURCES) > 20
    assert {"errors", "model", "process", "resolve", "cli"} <= {room(module_name(path)) for path in SOURCES}


def test_every_room_has_its_row() -> None:
    known = {*ROW, "", "__main__"}
    assert {room(module_name(path)) for path in SOURCES} <= known


def test_imports_point_one_way() -> None:
    wrong = []
    for found in ALL:
        here, there = room(found.module), room(found.target.removeprefix("envkit").removeprefix("."))
        if not found.target.startswith("envkit.") or here not in ROW or there not in ROW:
            continue
        if ROW[there] > ROW[here]:
            wrong.append(str(found))
    assert wrong == []


def test_rooms_of_one_row_have_no_circles() -> None:
    edges: dict[str, set[str]] = {name: set() for name in ROW}
    for found in ALL:
        here, there = room(found.module), room(found.target.removeprefix("envkit."))
        if found.target.startswith("envkit.") and here in ROW and there in ROW and here != there:
            edges[here].add(there)
    left = dict(edges)
    while left:
        free = [name for name, needs in left.items() if not (needs & left.keys())]
        assert free, f"these rooms import each other: {sorted(left)}"
        for name in free:
            del left[name]


@pytest.mark.parametrize("library", sorted(DOORS))
def test_each_outside_library_has_one_door(library: str) -> None:
    wrong = [
        str(found)
        for found in ALL
        if found.target.partition(".")[0] == library
        and not any(found.module == door or found.module.startswith(door + ".") for door in DOORS[library])
    ]
    assert wrong == []


def test_every_outside_library_is_known() -> None:
    unknown = {
        str(found)
        for found in ALL
        if (top := found.target.partition(".")[0]) not in sys.stdlib_module_names
        and top not in DOORS
        and top != "envkit"
        # The probe imports the framework it is to prove.
        and found.module not in PROBES
    }
    assert unknown == set()


def test_heavy_libraries_are_imported_where_they_are_used() -> None:
    wrong = [
        str(found)
        for found in ALL
        if found.at_start
        and not found.for_types
        and found.target.partition(".")[0] in HEAVY
        and not found.module.startswith(UNDER_PYTEST)
    ]
    assert wrong == []


def test_processes_start_in_one_place() -> None:
    wrong = [
        str(found)
        for found in ALL
        if found.target.partition(".")[0] in PROCESS_MODULES and found.module != "process" and found.module not in PROBES
    ]
    assert wrong == []
    calls = ("os.system(", "os.popen(", "os.fork(", "os.exec", "os.spawn", "os.posix_spawn")
    for path in SOURCES:
        if module_name(path) != "process" and module_name(path) not in PROBES:
            text = path.read_text(encoding="utf-8")
            assert [call for call in calls if call in text] == [], path


@pytest.mark.parametrize("probe", PROBES)
def test_probes_need_nothing_but_python_3_8(probe: str) -> None:
    path = PACKAGE / (probe.replace(".", "/") + ".py")
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 8))
    at_start = {found.target.partition(".")[0] for found in imports(path) if found.at_start}
    assert at_start <= set(sys.stdlib_module_names)
    assert not [str(found) for found in imports(path) if found.target.partition(".")[0] == "envkit"]


def test_only_the_commands_print_and_exit() -> None:
    wrong = []
    for path in SOURCES:
        module = module_name(path)
        if room(module) in ("cli", "__main__") or module in PROBES:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            # A child that was forked and has no program yet ends itself so.
            if called in ("print", "sys.exit", "exit", "quit") or (called == "os._exit" and module != "process"):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {called}")
    assert wrong == []
