"""What a refresh writes: the rows that it proposes and nothing else; all of it or nothing."""

from __future__ import annotations

import difflib
import json
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

pytest.importorskip("tomlkit", reason="tomlkit is not installed: uv sync")

from envkit.cli import app
from envkit.errors import StepFailed
from envkit.matrix import check, load
from envkit.matrix.refresh import Options, Report, refresh, write
from envkit.matrix.refresh.changes import Change, SourceRow
from envkit.matrix.refresh.edit import apply, toml

from .refresh_fake import JSON, MATRIX, PYPI, FakeNet, Settings, upstream


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A copy of the small matrix."""
    return Path(shutil.copy(MATRIX, tmp_path / "matrix.toml"))


def report(path: Path, net: FakeNet | None = None, *only: str, **options: Any) -> Report:
    return refresh(load(path), Settings(), Options(only=only, **options), net=net or upstream())


def diff(before: str, after: str) -> list[str]:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm="")
    return [line for line in lines if line[:3] not in ("---", "+++") and not line.startswith("@@")]


def test_new_rows_stand_where_they_belong_and_all_else_stays(own: Path) -> None:
    before = own.read_text(encoding="utf-8")
    write(own, own.read_bytes(), report(own, None, "openvino"), day="2026-12-01")
    assert diff(before, own.read_text(encoding="utf-8")) == [
        '-updated = "2026-09-10"',
        '+updated = "2026-12-01"',
        '-openvino-pypi = { text = "PyPI openvino: file list and wheel metadata", '
        'url = "https://pypi.org/project/openvino/", date = "2026-09-10" }',
        '+openvino-pypi = { text = "PyPI openvino: file list and wheel metadata", '
        'url = "https://pypi.org/project/openvino/", date = "2026-12-01" }',
        '+  { version = "2026.4.1", date = "2026-10-01", pythons = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"], '
        'source = "openvino-pypi" },',
        '+  { release = "2026.4.1", tag = "openvino", platforms = ["linux/x86_64"], glibc = "2.28", local = "", '
        'evidence = "index-checked", source = "openvino-pypi" },',
    ]


def test_everything_new_is_written_passes_the_check_and_is_not_new_again(own: Path) -> None:
    before = own.read_text(encoding="utf-8")
    write(own, own.read_bytes(), report(own), day="2026-12-01")
    after = own.read_text(encoding="utf-8")
    assert check(load(own)) == []
    assert [line for line in before.splitlines() if line.startswith("#")] == [
        line for line in after.splitlines() if line.startswith("#")
    ]
    assert "},  # a comment behind a row" in after
    assert report(own).changes == ()
    assert diff(after, write(own, own.read_bytes(), report(own), day="2026-12-01")) == []


def test_an_older_patch_release_goes_between_the_rows(own: Path) -> None:
    write(own, own.read_bytes(), report(own, None, "torch"))
    versions = [row["version"] for row in tomllib.loads(own.read_text(encoding="utf-8"))["framework"]["torch"]["release"]]
    assert versions == ["2.13.0", "2.14.0", "2.14.1", "2.15.0"]


def shrunk() -> FakeNet:
    net = upstream()
    _, body = net.pages[f"{PYPI}/openvino/"]
    document = json.loads(body)
    document["files"] = [file for file in document["files"] if "2026.4.0" not in file["filename"]]
    net.pages[f"{PYPI}/openvino/"] = (JSON, json.dumps(document))
    return net


def test_it_does_not_shrink_unasked(own: Path) -> None:
    before = own.read_bytes()
    found = report(own, shrunk(), "openvino", force=True)
    with pytest.raises(StepFailed) as caught:
        write(own, before, found)
    assert str(caught.value) == (
        "refused: the matrix would shrink; nothing is written\n"
        "  framework.openvino.release 2026.4.0: no longer listed\n"
        "  framework.openvino.build 2026.4.0 openvino linux/x86_64: no wheel of it is listed any more"
    )
    assert caught.value.exit_code == 6
    assert own.read_bytes() == before
    write(own, before, found, force=True)
    document = tomllib.loads(own.read_text(encoding="utf-8"))["framework"]["openvino"]
    assert [row["version"] for row in document["release"]] == ["2026.4.1"]
    assert [row["release"] for row in document["build"]] == ["2026.4.1"]


def test_nothing_is_written_beside_an_answer_that_is_not_believed(own: Path) -> None:
    before = own.read_bytes()
    net = upstream()
    net.pages[f"{PYPI}/jax/"] = (JSON, '{"files": [')
    with pytest.raises(StepFailed) as caught:
        write(own, before, report(own, net), force=True)
    assert str(caught.value) == (
        "refused: these answers are not to be believed; nothing is written\n"
        "  https://pypi.org/simple/jax/: answered JSON that is not whole"
    )
    assert own.read_bytes() == before


def test_a_file_that_changed_meanwhile_is_left_alone(own: Path) -> None:
    before = own.read_bytes()
    found = report(own)
    own.write_bytes(before + b"# mine\n")
    with pytest.raises(StepFailed, match="has changed since it was read"):
        write(own, before, found)
    assert own.read_bytes() == before + b"# mine\n"


def test_a_matrix_that_would_not_pass_its_check_is_not_written(own: Path) -> None:
    before = own.read_bytes()
    row = {"release": "2.15.0", "tag": "cu999", "platforms": ["linux/x86_64"], "source": "nobody"}
    change = Change(kind="new", table="framework.torch.build", label="2.15.0 cu999", key=row, row=row)
    with pytest.raises(StepFailed) as caught:
        write(own, before, Report(changes=(change,), places=()))
    assert "matrix.toml: framework.torch.build[4].tag: unknown tag 'cu999'" in str(caught.value)
    assert own.read_bytes() == before


def test_a_full_disk_leaves_the_file_as_it_was(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = own.read_bytes()
    found = report(own)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write(own, before, found)
    assert own.read_bytes() == before
    assert [path.name for path in own.parent.iterdir()] == ["matrix.toml"]


def test_changed_fields_come_and_go() -> None:
    text = MATRIX.read_text(encoding="utf-8")
    change = Change(
        kind="changed",
        table="framework.torch.build",
        label="2.14 cu132 linux/x86_64",
        key={"release": "2.14", "tag": "cu132", "platforms": ["linux/x86_64"]},
        now={
            "published": None,
            "note": None,
            "evidence": "index-checked",
            "glibc": "2.28",
            "source": ["torch-pypi", "torch-index"],
        },
    )
    source = SourceRow(id="torch-index", text='an "index"', url="https://x.example/")
    assert diff(text, apply(text, [change], [source], "2026-09-10")) == [
        '+torch-index = { text = "an \\"index\\"", url = "https://x.example/", date = "2026-09-10" }',
        '-  { release = "2.14", tag = "cu132", platforms = ["linux/x86_64"], published = "unknown", evidence = "claimed", '
        'note = "not seen on the index", source = "torch-pypi" },',
        '+  { release = "2.14", tag = "cu132", platforms = ["linux/x86_64"], glibc = "2.28", evidence = "index-checked", '
        'source = ["torch-pypi", "torch-index"] },',
    ]


def test_fields_stay_in_their_order_and_new_ones_come_where_they_usually_are() -> None:
    text = MATRIX.read_text(encoding="utf-8")
    head = '{ release = "2026.4.0", tag = "openvino", platforms = ["linux/x86_64"], '
    row = head + 'local = "", glibc = "2.28", source = "openvino-pypi" }'
    lines = [f"  {row}," if '{ release = "2026.4.0"' in line else line for line in text.splitlines()]
    text = "\n".join(lines) + "\n"
    change = Change(
        kind="changed",
        table="framework.openvino.build",
        label="x",
        key={"release": "2026.4.0", "tag": "openvino", "platforms": ["linux/x86_64"]},
        now={"pythons": ["3.12"], "evidence": "index-checked", "glibc": "2.34"},
    )
    gone, come = diff(text, apply(text, [change], [], "2026-09-10"))
    assert gone[1:] == f"  {row},"
    assert come[1:] == (
        f'  {head}pythons = ["3.12"], local = "", glibc = "2.34", evidence = "index-checked", source = "openvino-pypi" }},'
    )


def test_one_platform_of_several_vanishes() -> None:
    text = MATRIX.read_text(encoding="utf-8")
    key = {"release": "0.11.2", "tag": "cpu", "platforms": ["linux/aarch64", "linux/x86_64"], "platform": "linux/aarch64"}
    change = Change(kind="vanished", table="framework.jax.build", label="x", key=key, shrinks=True)
    gone, come = diff(text, apply(text, [change], [], "2026-09-10"))
    assert gone.replace('["linux/aarch64", "linux/x86_64"]', '["linux/x86_64"]')[1:] == come[1:]


def test_arrays_of_tables_are_edited_as_well() -> None:
    text = '[meta]\nupdated = "2026-01-01"\n\n'
    text += '[[framework.x.release]]\nversion = "1.0"\n# between\n\n[[framework.x.release]]\nversion = "3.0"\n'
    row = {"version": "2.0", "pythons": ["3.12"]}
    edited = apply(text, [Change(kind="new", table="framework.x.release", label="2.0", row=row)], [], "2026-01-01")
    assert [entry["version"] for entry in tomllib.loads(edited)["framework"]["x"]["release"]] == ["1.0", "2.0", "3.0"]
    assert "# between" in edited


@pytest.mark.parametrize(
    "value",
    ["plain", 'a "quoted" \\ one', "line\nbreak", "\x7f\x00é漢", True, ["a", "b"], {"a-b": "1", "c.d e": {"x": ["y"]}}, {}, []],
)
def test_values_come_back_as_they_were(value: Any) -> None:
    assert tomllib.loads(f"value = {toml(value)}")["value"] == value


# ---- the command -------------------------------------------------------------------------------------------------


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> FakeNet:
    """What the command finds upstream."""
    fake = upstream()
    monkeypatch.setattr("envkit.matrix.refresh.refreshing.Net", lambda *_, **__: fake)
    return fake


def run(*arguments: str) -> Any:
    """What a call prints and the code that it ends with, as a person sees them."""
    command = click.Command("envkit", callback=lambda: sys.exit(app.run(["matrix", "refresh", *arguments])))
    return CliRunner().invoke(command, [])


def test_the_command_prints_a_diff_and_writes_nothing(own: Path, net: FakeNet) -> None:
    before = own.read_bytes()
    result = run(str(own), "--only", "openvino")
    assert result.exit_code == 0
    assert own.read_bytes() == before
    assert result.stdout.splitlines()[:8] == [
        "framework.openvino.release",
        "  + 2026.4.1: new",
        '      { version = "2026.4.1", date = "2026-10-01", pythons = ["3.10", "3.11", "3.12", "3.13", "3.14", "3.14t"], '
        'source = "openvino-pypi" }',
        "",
        "framework.openvino.build",
        "  + 2026.4.1 openvino linux/x86_64: like 2026.4.0 openvino",
        '      { release = "2026.4.1", tag = "openvino", platforms = ["linux/x86_64"], glibc = "2.28", local = "", '
        'evidence = "index-checked", source = "openvino-pypi" }',
        "",
    ]
    assert result.stdout.splitlines()[-1].startswith("2 new (1 places read, 0 not reached, 0 refused; ")


def test_check_asks_whether_there_are_differences(own: Path, net: FakeNet) -> None:
    assert run(str(own), "--only", "openvino", "--check").exit_code == 1
    assert run(str(own), "--only", "openvino", "--write").exit_code == 0
    assert run(str(own), "--only", "openvino", "--check").exit_code == 0


def test_the_document_fits_its_schema(own: Path, net: FakeNet) -> None:
    import jsonschema

    from envkit.data import packaged

    result = run(str(own), "--format", "json")
    document = json.loads(result.stdout)
    jsonschema.validate(document, json.loads(packaged("schemas/matrix-refresh.json").read_text(encoding="utf-8")))
    assert document["schema"] == "envkit/matrix-refresh/1"
    assert {change["kind"] for change in document["changes"]} == {"new", "changed"}


def test_a_page_cut_short_ends_with_6_and_leaves_the_file(own: Path, net: FakeNet) -> None:
    before = own.read_bytes()
    kind, body = net.pages[f"{PYPI}/openvino/"]
    net.pages[f"{PYPI}/openvino/"] = (kind, body[:-100])
    result = run(str(own), "--only", "openvino")
    assert result.exit_code == 6
    assert "refused: https://pypi.org/simple/openvino/: answered JSON that is not whole" in result.stderr
    assert run(str(own), "--only", "openvino", "--write").exit_code == 6
    assert own.read_bytes() == before


def test_without_any_network_it_ends_with_5(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_OFFLINE", "1")
    before = own.read_bytes()
    result = run(str(own), "--write")
    assert result.exit_code == 5
    assert "not compared: pypi.org: not asked: the settings forbid the network (8 places)" in result.stderr
    assert "no place could be reached" in result.stderr
    assert own.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--only", "torhc"), 2, "did you mean 'torch'?"),
        (("nothing.toml",), 3, "nothing.toml: cannot be read: No such file or directory"),
        (("--timeout", "0"), 2, "--timeout"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], code: int, text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == code
    assert text in result.stderr
