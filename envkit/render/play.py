"""A plan as an Ansible play: values alone, the logic is in playbooks/roles. Pure."""

from __future__ import annotations

from typing import Any

from envkit import plan as plans
from envkit.model import Plan, Scheme
from envkit.render import templates


def play(plan: Plan, scheme: Scheme) -> str:
    """The play of a scheme."""
    template = f"playbook/{scheme.os}.yml.j2"
    document: dict[str, Any] = plans.to_document(plan)
    return templates.render(template, plan=plan, scheme=scheme, document=document, file=f"playbooks/{plan.scheme}.yml")
