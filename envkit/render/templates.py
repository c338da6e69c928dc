"""The door to jinja2: templates from `templates/`, undefined names are errors, the same bytes every time."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from envkit.data import shipped

if TYPE_CHECKING:
    from jinja2 import Environment

# Tells a generated file from one that somebody wrote.
SIGN = "Written by `envkit render`"
# What a generated file says of itself.
MARKER = f"{SIGN}: change matrix.toml or templates/ and render again, not this file."


_EXPRESSION = re.compile(r"\{[{%#]")
# What JSON leaves as it is and YAML does not take, or takes for the end of a line.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def render(template: str, **values: Any) -> str:
    """The text of a template, such as `dockerfile/cpu.Dockerfile.j2`; ends with exactly one line end."""
    text = _environment().get_template(template).render(marker=MARKER, **values)
    return text.rstrip("\n") + "\n"


def exists(template: str) -> bool:
    """Whether there is such a template."""
    return (shipped("templates") / template).is_file()


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(shipped("templates"), encoding="utf-8"),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  the results are Dockerfiles and YAML; each value is quoted by a filter for its language
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        newline_sequence="\n",
    )
    environment.filters.update(shell=shell, quoted=quoted, scalar=scalar, yaml=yaml, comment=comment)
    return environment


def shell(text: str) -> str:
    """`text` as one word of a shell command, always in quotes."""
    return "'" + text.replace("'", "'\\''") + "'"


def quoted(text: str) -> str:
    """`text` as a value of ENV or LABEL: double quotes, nothing in it is replaced by the builder."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return '"' + " ".join(escaped.splitlines()) + '"'


def scalar(value: Any) -> str:
    """A value as YAML on one line; what looks like an expression of Ansible's is marked as plain text."""
    mark = "!unsafe " if isinstance(value, str) and _EXPRESSION.search(value) else ""
    return mark + _UNPRINTABLE.sub(lambda found: f"\\U{ord(found[0]):08x}", json.dumps(value, ensure_ascii=False))


def comment(text: str, mark: str = "", width: int = 120) -> str:
    """`text` as lines that start with "# ", the first with `mark` besides."""
    lines = textwrap.wrap(" ".join(text.split()), width - 2 - len(mark), break_long_words=False, break_on_hyphens=False) or [""]
    return "\n".join(f"# {mark if number == 0 else ' ' * len(mark)}{line}" for number, line in enumerate(lines))


def yaml(value: Any, indent: int = 0, width: int = 120) -> str:
    """A document as YAML blocks, every line indented by `indent` spaces; the texts in it are never expressions."""
    return "\n".join(" " * indent + line if line else "" for line in _lines(value, width - indent))


def _lines(value: Any, width: int) -> list[str]:
    if isinstance(value, Mapping) and value:
        lines: list[str] = []
        for key, item in value.items():
            lines += _entry(f"{key}:", item, width)
        return lines
    if isinstance(value, Sequence) and not isinstance(value, str) and value:
        lines = []
        for item in value:
            if isinstance(item, Mapping) and item:
                inner = _lines(item, width - 2)
                lines += [f"- {inner[0]}", *(f"  {line}" for line in inner[1:])]
            else:
                lines += _entry("-", item, width)
        return lines
    return [scalar(value)]


def _entry(head: str, item: Any, width: int) -> list[str]:
    if item and isinstance(item, Mapping | Sequence) and not isinstance(item, str):
        return [head, *(f"  {line}" for line in _lines(item, width - 2))]
    one = f"{head} {scalar(item)}"
    if len(one) <= width or not isinstance(item, str) or not _can_be_folded(item):
        return [one]
    folded = textwrap.wrap(item, width - 2, break_long_words=False, break_on_hyphens=False)
    return [f"{head} >-", *(f"  {line}" for line in folded)]


def _can_be_folded(text: str) -> bool:
    """Whether a text is the same after its spaces were made line ends and back."""
    return text == " ".join(text.split()) and text.isprintable() and not _EXPRESSION.search(text)
