"""A plan as an Ansible play: values alone, the logic is in playbooks/roles. Pure."""

from __future__ import annotations

from typing import Any

from envkit import plan as plans
from envkit.model import Plan, Scheme
from envkit.render import templates


def play(plan: Plan, scheme: Scheme) -> str:
    """The play of a scheme."""
    by_vendor = [package.requirement for package in plan.packages if package.index == "vendor"]
    document: dict[str, Any] = plans.to_document(plan)
    return templates.render(
        f"playbook/{'vendor' if by_vendor else scheme.os}.yml.j2",
        plan=plan,
        scheme=scheme,
        document=document,
        names=" and ".join(by_vendor),
        steps=list(scheme.install) or [f"see {scheme.name} in: envkit schemes"],
        file=f"playbooks/{plan.scheme}.yml",
    )
