"""All files of all schemes, from the matrix alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from envkit.data import shipped
from envkit.errors import Unresolvable
from envkit.model import Matrix, Plan, Wish
from envkit.render.bake import Target, bake
from envkit.render.image import image_files, image_tags, probe_text
from envkit.render.play import play
from envkit.render.templates import MARKER
from envkit.resolve import plan_of, resolve
from envkit.resolve.wishes import read_scheme


@dataclass(frozen=True, kw_only=True, slots=True)
class Rendering:
    """What `envkit render` writes."""

    files: Mapping[str, str]  # path below the output folder, with slashes -> text
    skipped: Mapping[str, str]  # scheme -> why it has no image, or no files at all
    schemes: tuple[str, ...]  # those of the matrix
    whole: bool  # whether these are the files of all schemes


def render_schemes(matrix: Matrix, names: Sequence[str] = (), *, torch: str = "", with_roles: bool = False) -> Rendering:
    """The files of these schemes, of all where none is named.

    `torch` names the releases that may be in them, the newest by default; `with_roles` adds what the plays need besides
    themselves. Raises UsageError for an unknown scheme, and Unresolvable where nothing fits one that was named.
    """
    for name in names:
        read_scheme(matrix, name)
    files: dict[str, str] = {}
    skipped: dict[str, str] = {}
    targets: list[Target] = []
    for name in sorted(set(names) or matrix.schemes):
        scheme = matrix.schemes[name]
        try:
            plan = plan_for(matrix, name, torch)
        except Unresolvable as why:
            if names:
                raise
            skipped[name] = why.message
            continue
        files[f"playbooks/{name}.yml"] = play(plan, scheme)
        if scheme.container is None:
            skipped[name] = f"no image: {scheme.no_container}"
            continue
        platform = matrix.platforms.get(scheme.container.platform)
        files |= {f"images/{place}": text for place, text in image_files(plan, scheme, platform).items()}
        targets.append(Target(name=name, context=".", dockerfile=f"{name}/Dockerfile", tags=image_tags(plan)))
    if targets:
        files["images/probe.py"] = probe_text()
    if targets and not names:
        files["images/docker-bake.json"] = bake(targets, f"{MARKER} Build with: cd images && docker buildx bake")
    if with_roles:
        files |= role_files()
    return Rendering(files=dict(sorted(files.items())), skipped=skipped, schemes=tuple(sorted(matrix.schemes)), whole=not names)


def plan_for(matrix: Matrix, name: str, torch: str = "") -> Plan:
    """The plan that a scheme's files are made from: the newest release for the platform of its image, on any machine."""
    return plan_of(resolve(matrix, Wish(scheme=name, torch=torch)))


def role_files() -> dict[str, str]:
    """The roles that the plays use, and the probe that one of them carries."""
    roles = shipped("playbooks") / "roles"
    files = {
        f"playbooks/roles/{path.relative_to(roles).as_posix()}": path.read_text(encoding="utf-8")
        for path in sorted(roles.rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }
    return {**files, "playbooks/roles/verify/files/probe.py": probe_text()}
