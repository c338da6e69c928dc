"""Whatever a file holds: a matrix, or faults that name it. Never another exception."""

from __future__ import annotations

import copy
import datetime
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit.data import shipped
from envkit.errors import InvalidFile
from envkit.matrix import check, load, reader
from envkit.model import Matrix

WORDS = [
    "meta", "source", "platform", "arch", "backend", "framework", "library", "scheme", "release", "build", "branch", "override",
    "container", "withdraw", "cuda", "torch", "numpy", "linux-cuda", "sm_80", "version", "tag", "platforms", "os", "", "ä", "a.b",
]  # fmt: skip
SCALARS = st.one_of(
    st.sampled_from([*WORDS, "12.8", "2.14", "cu130", "linux/x86_64", "unknown", "1" * 400, "\n", "\x00", "💥"]),
    st.text(max_size=8),
    st.integers(),
    st.floats(),
    st.booleans(),
    st.just(datetime.date(2026, 11, 30)),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
SHIPPED = tomllib.loads(shipped("matrix.toml").read_text(encoding="utf-8"))
QUIET = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below `value`; of long lists the first and last entries."""
    found = [path] if path else []
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        items = [(number, value[number]) for number in sorted({0, 1, len(value) - 1}) if 0 <= number < len(value)]
    else:
        return found
    for key, entry in items:
        found += places(entry, (*path, key))
    return found


PLACES = places(SHIPPED)


def outcome(content: dict[str, Any], *, overlay: bool, monkeypatch: pytest.MonkeyPatch) -> Matrix | InvalidFile:
    """What reading gives; the file's content is handed over without a detour through text."""
    real = reader.read_toml
    monkeypatch.setattr(reader, "read_toml", lambda path, label="": content if path.name == "fuzz.toml" else real(path, label))
    try:
        return load(overlays=[Path("fuzz.toml")]) if overlay else load(Path("fuzz.toml"))
    except InvalidFile as error:
        assert error.faults
        assert all(line.isprintable() for line in error.faults)
        return error


@pytest.mark.parametrize("overlay", [False, True])
def test_any_content(overlay: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    @QUIET
    @given(st.dictionaries(st.sampled_from(WORDS[:8]), VALUES, max_size=4))
    def run(content: dict[str, Any]) -> None:
        result = outcome(content, overlay=overlay, monkeypatch=monkeypatch)
        assert isinstance(result, InvalidFile) or overlay
        if isinstance(result, Matrix):
            check(result)

    run()


def test_the_shipped_matrix_with_any_value_in_any_place(monkeypatch: pytest.MonkeyPatch) -> None:
    @QUIET
    @given(st.sampled_from(PLACES), VALUES)
    def run(place: tuple[Any, ...], value: Any) -> None:
        content = copy.deepcopy(SHIPPED)
        target: Any = content
        for step in place[:-1]:
            target = target[step]
        target[place[-1]] = value
        result = outcome(content, overlay=False, monkeypatch=monkeypatch)
        if isinstance(result, Matrix):
            check(result)
        else:
            # The path begins where the value was put, or where it is referred to.
            assert len(result.faults) >= 1

    run()


def test_any_bytes(tmp_path: Path) -> None:
    path = tmp_path / "m.toml"

    @QUIET
    @given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
    def run(raw: bytes) -> None:
        path.write_bytes(raw)
        with pytest.raises(InvalidFile) as caught:
            load(path)
        assert str(path) in caught.value.message

    run()


def test_any_schemes_overlay_that_reads_is_a_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    @QUIET
    @given(st.sampled_from([place for place in PLACES if place[0] == "framework" and len(place) > 3]), VALUES)
    def run(place: tuple[Any, ...], value: Any) -> None:
        row = copy.deepcopy(SHIPPED["framework"][place[1]][place[2]][place[3]]) if isinstance(place[3], int) else {}
        if len(place) > 4:
            row[place[4]] = value
        outcome({"framework": {place[1]: {place[2]: [row]}}}, overlay=True, monkeypatch=monkeypatch)

    run()
