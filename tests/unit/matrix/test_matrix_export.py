"""envkit matrix export: every format, escaped, whole, the same each time."""

from __future__ import annotations

import csv
import html.parser
import io
import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

from envkit.cli import app
from envkit.data import packaged
from envkit.matrix import export, load
from envkit.model import Matrix


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app.envkit, ["matrix", "export", *arguments], standalone_mode=False)


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load()


@pytest.fixture(scope="module")
def hostile(matrix: Matrix) -> Matrix:
    """A matrix whose texts try to be something else."""
    name, scheme = next(iter(matrix.schemes.items()))
    bad = '<script>alert("1")</script> | a & b'
    word, source = next(iter(matrix.sources.items()))
    return replace(
        matrix,
        schemes={**matrix.schemes, name: replace(scheme, title=bad, for_whom="=cmd()")},
        sources={**matrix.sources, word: replace(source, text=bad, url='javascript:alert("1")')},
    )


def test_json_fits_its_schema_and_holds_every_scheme(matrix: Matrix) -> None:
    document = json.loads(call("--format", "json").output)
    jsonschema.validate(document, json.loads(packaged("schemas/matrix-export.json").read_text(encoding="utf-8")))
    assert [row["scheme"] for row in document["schemes"]] == list(matrix.schemes)
    assert {row["scheme"] for row in document["combinations"]} == set(matrix.schemes)
    assert sorted(document["sources"]) == sorted(matrix.sources)


def test_one_combination_as_it_stands_in_the_matrix(matrix: Matrix) -> None:
    rows = export.tables(matrix)["combinations"]
    [row] = [
        row
        for row in rows
        if (row["scheme"], row["tag"], row["platform"], row["releases"][:5]) == ("linux-cuda", "cu132", "linux/x86_64", "2.15.")
    ]
    assert row["releases"] == "2.15.0"
    assert row["runtime"] == "13.2"
    assert row["driver"] == "580.65.06 or newer"
    assert row["code for"] == "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120"
    assert row["pythons"] == "3.11 3.12 3.13 3.14 3.14t 3.15 3.15t"
    assert (row["floor"], row["published"], row["evidence"]) == ("glibc 2.28", "yes", "wheel-measured")


@pytest.mark.parametrize("table", export.TABLES)
def test_csv_has_the_same_number_of_cells_in_every_line(table: str, matrix: Matrix) -> None:
    rows = list(csv.reader(io.StringIO(call("--format", "csv", "--table", table).output)))
    assert len(rows) == 1 + len(export.tables(matrix)[table])
    assert {len(row) for row in rows} == {len(rows[0])}


def test_a_spreadsheet_finds_no_formula(hostile: Matrix) -> None:
    assert not [
        row for row in csv.reader(io.StringIO(export.to_csv(hostile, "schemes"))) for cell in row if cell[:1] in "=+@" and cell
    ]


def test_markdown_tables_are_not_broken_by_texts(hostile: Matrix) -> None:
    text = export.to_markdown(hostile)
    assert "<script>" not in text.replace("\\<script>", "")
    for block in text.split("\n\n"):
        lines = [line.replace("\\\\", "").replace("\\|", "") for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


class Page(html.parser.HTMLParser):
    """The tags of a page, what is left open, and what it would fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.links: set[str] = set()
        self.ids: list[str] = []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.scripts += tag == "script"
        self.fetched += [
            value or "" for key, value in attrs if key in ("src", "srcset", "data") or (tag == "link" and key == "href")
        ]
        if tag == "a":
            self.links.add(values.get("href") or "")
        if values.get("id"):
            self.ids.append(values["id"] or "")
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_needs_nothing_and_its_links_lead_somewhere(matrix: Matrix) -> None:
    text = export.to_html(matrix)
    page = Page(text)
    assert page.open == []
    assert page.fetched == []
    assert "@import" not in text
    assert "url(" not in text
    assert len(page.ids) == len(set(page.ids))
    assert {link for link in page.links if link.startswith("#")} <= {f"#{word}" for word in page.ids}
    assert {link.split(":")[0] for link in page.links if not link.startswith("#")} <= {"https", "http"}


def test_the_page_escapes_what_it_shows(hostile: Matrix) -> None:
    page = Page(export.to_html(hostile))
    assert page.scripts == 1
    assert not [link for link in page.links if link.startswith("javascript")]


@pytest.mark.parametrize("form", export.FORMATS)
def test_the_same_matrix_gives_the_same_bytes(form: str, tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    assert call("--format", form, "-o", str(first)).return_value == 0
    assert call("--format", form, "-o", str(second)).return_value == 0
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 1000
    assert b"\r" not in first.read_bytes()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["matrix", "export", "-o", str(tmp_path / "none" / "x.json")]) == 6
    assert "cannot be written: No such file or directory" in capsys.readouterr().err
