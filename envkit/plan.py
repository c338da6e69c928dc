"""A plan as a document, and back: what a lock, an image label, a venv and a proof refer to."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from envkit.model import Container, Evidence, Package, Plan, Verdict

SCHEMA = "envkit/plan/1"


def digest(plan: Plan) -> str:
    """The plan's identity: `sha256:` over all that decides what gets installed.

    The driver found, the product's name, reasons, sources and evidence are left out: they tell why a plan was
    chosen, and a driver update must not make an environment look changed.
    """
    identity = {
        "scheme": plan.scheme,
        "platform": plan.platform,
        "arch": plan.accelerator_arch,
        "backend": [plan.backend_name, plan.backend_version, plan.backend_tag],
        "framework": [plan.framework_name, plan.framework_version],
        "python": plan.python,
        "packages": [[p.name, p.version, p.index, p.extras] for p in plan.packages],
        "env": dict(plan.env),
        **({"partners": list(plan.partners)} if plan.partners else {}),
        "base": [plan.container.base, plan.container.digest] if plan.container else [],
    }
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def to_document(plan: Plan) -> dict[str, Any]:
    """The document `envkit/plan/1`."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "scheme": plan.scheme,
        "verdict": str(plan.verdict),
        "platform": plan.platform,
        "accelerator": {"name": plan.accelerator_name, "arch": plan.accelerator_arch},
        "driver": {"have": plan.driver_have, "need": plan.driver_need},
        "backend": {
            "name": plan.backend_name,
            "version": plan.backend_version,
            "tag": plan.backend_tag,
            "device": plan.device,
        },
        "framework": {"name": plan.framework_name, "version": plan.framework_version},
        "python": plan.python,
        "packages": [
            {"name": p.name, "version": p.version, "index": p.index} | ({"extras": p.extras} if p.extras else {})
            for p in plan.packages
        ],
        "partners": list(plan.partners),
        "env": dict(plan.env),
        "run_flags": list(plan.run_flags),
        "evidence": str(plan.evidence),
        "reasons": list(plan.reasons),
        "sources": list(plan.sources),
    }
    if plan.container:
        document["container"] = {
            "platform": plan.container.platform,
            "base": plan.container.base,
            "digest": plan.container.digest,
            "vendor_base": plan.container.vendor_base,
            "groups": list(plan.container.groups),
        }
    document["digest"] = digest(plan)
    return document


def from_document(document: dict[str, Any]) -> Plan:
    """The plan of a document; raises ValueError where it is none, or where its digest does not fit its content."""
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ValueError(f"not a document of schema {SCHEMA}")
    try:
        plan = _read(document)
    except (KeyError, TypeError, AttributeError) as fault:
        raise ValueError(f"incomplete plan: {fault}") from None
    if document.get("digest") not in (None, digest(plan)):
        raise ValueError("the plan was changed after it was made: its digest does not fit its content")
    return plan


def _read(document: dict[str, Any]) -> Plan:
    shape = document.get("container")
    run_flags = tuple(document.get("run_flags", ()))
    container = (
        Container(
            platform=shape["platform"],
            base=shape["base"],
            digest=shape.get("digest", ""),
            vendor_base=shape.get("vendor_base", ""),
            run_flags=run_flags,
            groups=tuple(shape.get("groups", ())),
        )
        if shape
        else None
    )
    return Plan(
        scheme=document["scheme"],
        verdict=Verdict(document["verdict"]),
        platform=document["platform"],
        accelerator_name=document["accelerator"]["name"],
        accelerator_arch=document["accelerator"]["arch"],
        driver_have=document["driver"]["have"],
        driver_need=document["driver"]["need"],
        backend_name=document["backend"]["name"],
        backend_version=document["backend"]["version"],
        backend_tag=document["backend"]["tag"],
        device=document["backend"].get("device", ""),
        framework_name=document["framework"]["name"],
        framework_version=document["framework"]["version"],
        python=document["python"],
        packages=tuple(
            Package(name=p["name"], version=p["version"], index=p["index"], extras=p.get("extras", ""))
            for p in document["packages"]
        ),
        partners=tuple(document.get("partners", ())),
        env=dict(document.get("env", {})),
        container=container,
        run_flags=run_flags,
        reasons=tuple(document.get("reasons", ())),
        sources=tuple(document.get("sources", ())),
        evidence=Evidence(document.get("evidence", "claimed")),
    )
