"""Every row of uv's and cog's tables and of the vendors' own, beside what envkit answers; differences are listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from lab import agreement
from lab.agreement import Deviation, Row, Table

from envkit import matrix as matrices
from envkit.model import Matrix

pytestmark = pytest.mark.skipif(not agreement.FACTS.is_dir(), reason=agreement.MISSING)

LISTS = {"peers": agreement.PEERS, "vendors": agreement.VENDORS}
TABLES = [(name, table) for name, tables in LISTS.items() for table in tables]


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return matrices.load()


@pytest.fixture(scope="module")
def rows(matrix: Matrix) -> dict[Table, tuple[Row, ...]]:
    return {table: tuple(table(matrix)) for _, table in TABLES}


@pytest.mark.parametrize(("name", "table"), TABLES, ids=[table.__name__ for _, table in TABLES])
def test_every_difference_has_its_reason(rows: dict[Table, tuple[Row, ...]], name: str, table: Table) -> None:
    known = agreement.read_deviations(name)
    found = agreement.unlisted(rows[table], known)
    print(f"{table.__name__}: {agreement.figures(rows[table], known)}")  # shown with -rA
    shown = "\n".join(f"  {row.table} {row.key}: they say {row.theirs!r}, envkit {row.ours!r}" for row in found)
    assert not found, f"\nnot in tests/fixtures/agreement/{name}.toml (mend the row, or list it with its reason):\n{shown}"


@pytest.mark.parametrize("name", LISTS)
def test_no_listed_difference_has_gone(rows: dict[Table, tuple[Row, ...]], name: str) -> None:
    every = [row for table in LISTS[name] for row in rows[table]]
    gone = agreement.vanished(every, agreement.read_deviations(name))
    shown = "\n".join(f"  {each}" for each in gone)
    assert not gone, f"\nno longer differ: take these keys out of tests/fixtures/agreement/{name}.toml:\n{shown}"


@pytest.mark.parametrize("name", LISTS)
def test_every_listed_difference_says_who_is_right_and_by_what(name: str) -> None:
    for each in agreement.read_deviations(name):
        assert each.right in ("ours", "theirs", "both", "open"), each
        assert all((each.keys, each.reason, each.source)), each


@pytest.mark.parametrize("name", LISTS)
def test_tables_are_not_empty(rows: dict[Table, tuple[Row, ...]], name: str) -> None:
    for table in LISTS[name]:
        keys = [(row.table, row.key) for row in rows[table]]
        assert len(keys) > 10, table.__name__
        assert len(set(keys)) == len(keys), table.__name__


# ---- the comparison itself ---------------------------------------------------------------------------------------


def _broken(matrix: Matrix) -> Iterator[tuple[str, Matrix, Table]]:
    cuda, rocm, torch = matrix.backends["cuda"], matrix.backends["rocm"], matrix.frameworks["torch"]

    def with_backend(name: str, **changed: Any) -> Matrix:
        return replace(matrix, backends={**matrix.backends, name: replace(matrix.backends[name], **changed)})

    def with_torch(**changed: Any) -> Matrix:
        return replace(matrix, frameworks={**matrix.frameworks, "torch": replace(torch, **changed)})

    floorless = tuple(replace(each, min_driver={}) for each in cuda.releases)
    yield "a floor is lost", with_backend("cuda", releases=floorless), agreement.uv_drivers
    yield "the same beside NVIDIA's table", with_backend("cuda", releases=floorless), agreement.cuda_floors
    kept = tuple(replace(each, dropped=()) for each in cuda.branches)
    yield "a branch drops nothing", with_backend("cuda", branches=kept), agreement.driver_branches
    fewer = tuple(replace(each, archs=("gfx90a",)) for each in rocm.releases)
    yield "AMD's lists are cut", with_backend("rocm", releases=fewer), agreement.rocm_lists
    either = {name: replace(each, module="either", own_cpu_module="") for name, each in matrix.archs.items()}
    yield "any module does", replace(matrix, archs=either), agreement.kernel_modules
    later = tuple(replace(each, pythons=each.pythons[:-1]) for each in torch.releases)
    yield "a Python is lost", with_torch(releases=later), agreement.torch_pythons
    yield "a build is lost", with_torch(builds=tuple(b for b in torch.builds if b.tag != "cu124")), agreement.cog_torch


def test_a_broken_matrix_is_noticed(matrix: Matrix) -> None:
    for what, broken, table in _broken(matrix):
        known = [each for name in LISTS for each in agreement.read_deviations(name)]
        assert agreement.unlisted(tuple(table(broken)), known), what


def test_a_deviation_that_has_gone_is_noticed() -> None:
    known = (Deviation(table="t", keys=("a*", "b"), theirs="1", ours="*", right="ours", reason="r", source="s"),)
    different = (Row(table="t", key="a1", theirs="1", ours="2"), Row(table="t", key="b", theirs="1", ours="1"))
    assert agreement.vanished(different, known) == ["t b: 1 / *"]
    assert agreement.unlisted((replace(different[0], theirs="3"),), known) == [replace(different[0], theirs="3")]


@pytest.mark.parametrize(
    ("text", "under"),
    [("525.60.13", "525.60.12"), ("450.80.02", "450.80.01"), ("580", "579.999"), ("452.39", "452.38"), ("570.00", "569.999")],
)
def test_just_below(text: str, under: str) -> None:
    assert agreement.below(text) == under
