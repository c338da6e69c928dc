"""The filters that quote for a language, and the door to jinja2."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import given
from hypothesis import strategies as st

from envkit.render import templates


@pytest.mark.parametrize("text", ["", "plain", "two words", "it's", '"$HOME" `id`', "a\\b", "!"])
def test_a_word_of_the_shell_comes_back_whole(text: str) -> None:
    assert shlex.split(templates.shell(text)) == [text]


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain", '"plain"'),
        ('says "yes"', '"says \\"yes\\""'),
        ("costs $5", '"costs \\$5"'),
        ("back\\slash", '"back\\\\slash"'),
        ("two\nlines", '"two lines"'),
        ("中文", '"中文"'),
    ],
)
def test_a_value_of_a_dockerfile_stays_as_it_is(text: str, quoted: str) -> None:
    assert templates.quoted(text) == quoted


def _no_keyword(word: str) -> bool:
    return word not in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")


LONG = "a reason that is longer than one line can be, " * 4
LEAVES = st.one_of(st.text(), st.booleans(), st.none(), st.integers(), st.just(LONG.strip()), st.just(LONG))
DOCUMENTS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True).filter(_no_keyword), inner, max_size=4),
    ),
    max_leaves=12,
)


class Loader(pyyaml.SafeLoader):
    """Reads Ansible's mark for plain text."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


@given(DOCUMENTS)
def test_a_document_comes_back_whole_from_yaml(document: Any) -> None:
    text = templates.yaml({"value": document}, 4)
    assert pyyaml.load("root:\n" + text, Loader) == {"root": {"value": document}}
    assert all(line.startswith("    ") for line in text.split("\n") if line)


def test_long_texts_are_folded_within_the_width() -> None:
    text = templates.yaml({"reasons": [LONG.strip()]}, 6)
    assert max(map(len, text.splitlines())) <= 120
    assert ">-" in text


def test_what_looks_like_an_expression_is_marked_as_plain_text() -> None:
    assert templates.yaml({"a": "{{ lookup('pipe', 'id') }}"}) == "a: !unsafe \"{{ lookup('pipe', 'id') }}\""


def test_an_undefined_name_is_an_error() -> None:
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError):
        templates.render("dockerfile/cpu.Dockerfile.j2")


def test_there_is_no_template_for_a_backend_that_nobody_wrote_one_for() -> None:
    assert templates.exists("dockerfile/cpu.Dockerfile.j2")
    assert not templates.exists("dockerfile/abacus.Dockerfile.j2")
