"""The images of several plans as one file for `docker buildx bake`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """One image of a bake file."""

    name: str
    context: str
    dockerfile: str
    tags: Sequence[str]
    contexts: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = ()
    args: Mapping[str, str | None] = field(default_factory=dict)  # None: from the environment of the builder
    no_cache: bool = False
    network: str = ""


def bake(targets: Sequence[Target], note: str = "") -> str:
    """The bake file: one target an image, and the group `default` of all of them. `note` says of itself what it is."""
    rows: dict[str, dict[str, Any]] = {}
    for target in targets:
        row: dict[str, Any] = {"context": target.context, "dockerfile": target.dockerfile, "tags": list(target.tags)}
        if target.contexts:
            row["contexts"] = dict(target.contexts)
        if target.secrets:
            row["secret"] = list(target.secrets)
        if target.args:
            row["args"] = dict(target.args)
        if target.no_cache:
            row["no-cache"] = True
        if target.network:
            row["network"] = target.network
        rows[target.name] = row
    # JSON has no comments, but this key is one to bake.
    document: dict[str, Any] = {"//": note} if note else {}
    document |= {"group": {"default": {"targets": [target.name for target in targets]}}, "target": rows}
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
