"""A plan as the files that an image is built from. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from envkit import plan as plans
from envkit.data import packaged
from envkit.errors import EnvkitError
from envkit.model import OsRelease, Plan, Scheme
from envkit.render import templates
from envkit.sources import Sources, installation

# Shared libraries that a framework's wheels neither bring along nor find in a slim base.
_LIBRARIES = {"mindspore": ("libgomp1",)}
# What belongs behind the name of an image that starts a program, not a shell.
_ARGUMENTS = {"llamacpp": "--run -m /models/MODEL.gguf --n-gpu-layers 99"}


def image_tags(plan: Plan) -> tuple[str, str]:
    """The names that an image of this plan gets: the newest of its scheme, and its version."""
    return f"envkit/{plan.scheme}:latest", f"envkit/{plan.scheme}:{_version(plan)}"


def _version(plan: Plan) -> str:
    # "+" may not stand in a tag of an image.
    return re.sub(r"[^\w.-]", "-", f"{plan.framework_version}-{plan.backend_tag}")


def image_files(
    plan: Plan, scheme: Scheme, platform: OsRelease | None, *, partners: Sequence[str] = (), prune: bool = True
) -> dict[str, str]:
    """The files that the image's build context holds for this scheme, by their place in it.

    `partners` are requirements that the framework pins and that its own index serves. Raises EnvkitError where the
    scheme has no image or its backend no template.
    """
    if plan.container is None:
        raise EnvkitError(f"{plan.scheme} has no image: {scheme.no_container}")
    # A framework may need more, or other things, than its backend's own template gives.
    vendor = plan.framework_package.index == "vendor"
    names = [f"{plan.backend_name}-{plan.framework_name}", *(["vendor"] if vendor else []), plan.backend_name, "plain"]
    template = next(each for name in names if templates.exists(each := f"dockerfile/{name}.Dockerfile.j2"))
    managed = platform is not None and bool(platform.python) and platform.python != plan.python
    dockerfile = templates.render(
        template,
        plan=plan,
        scheme=scheme,
        base=plan.container.base + (f"@{plan.container.digest}" if plan.container.digest else ""),
        managed_python=managed,
        # Debian 13's base may come without the package that makes users.
        system_packages=[
            "ca-certificates",
            "passwd",
            *([] if managed else ["python3"]),
            *_LIBRARIES.get(plan.framework_name, ()),
        ],
        site=f"/opt/venv/lib/python{plan.python}/site-packages",
        prune=prune,
        more=[package.requirement for package in plan.packages if package.index != "vendor"],
        labels=labels_of(plan, scheme),
        run_lines=run_lines(plan, _ARGUMENTS.get(plan.framework_name, "")),
    )
    install = installation(Sources(), plan, partners=partners)
    files = {
        f"{plan.scheme}/Dockerfile": dockerfile,
        f"{plan.scheme}/plan/plan.json": json.dumps(plans.to_document(plan), indent=2, ensure_ascii=False) + "\n",
        f"{plan.scheme}/plan/constraints.txt": install.constraints,
    }
    # What lies ready in a vendor's image is not installed.
    return files if vendor else {**files, f"{plan.scheme}/plan/pyproject.toml": install.project}


def run_lines(plan: Plan, arguments: str = "") -> list[str]:
    """The command that starts a container of the plan's image with its devices, in lines that can be pasted."""
    words = ["docker run --rm -it", *plan.run_flags]
    words += [f'--group-add "$(getent group {name} | cut -d: -f3)"' for name in (plan.container.groups if plan.container else ())]
    words += ["--volume=MODELS:/models"] if arguments else []
    words.append(f"envkit/{plan.scheme} {arguments}".rstrip())
    lines = [words[0]]
    for word in words[1:]:
        if len(lines[-1]) + len(word) < 110:
            lines[-1] += f" {word}"
        else:
            lines[-1] += " \\"
            lines.append(f"    {word}")
    return lines


def labels_of(plan: Plan, scheme: Scheme) -> dict[str, str]:
    """The labels of the image: what the OCI names, and what leads back to the plan."""
    container = plan.container
    labels = {
        "org.opencontainers.image.title": f"envkit/{plan.scheme}",
        "org.opencontainers.image.description": f"{scheme.title}: {plan.framework_name} {plan.framework_package.version}",
        "org.opencontainers.image.version": _version(plan),
        "org.opencontainers.image.base.name": container.base if container else "",
        "org.opencontainers.image.base.digest": container.digest if container else "",
        "org.envkit.scheme": plan.scheme,
        "org.envkit.plan": plans.digest(plan),
    }
    return {name: value for name, value in labels.items() if value}


def probe_text() -> str:
    """The probe that proves an environment from inside."""
    return packaged("verify/probe.py").read_text(encoding="utf-8")
