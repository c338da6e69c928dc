"""A plan and a scheme to render."""

from __future__ import annotations

import pytest

from envkit.model import Container, Os, OsRelease, Package, Plan, Scheme, Verdict

CONTAINER = Container(platform="debian-12", base="debian:bookworm-slim")


@pytest.fixture
def cpu_plan() -> Plan:
    """A plan for linux-cpu."""
    return Plan(
        scheme="linux-cpu",
        verdict=Verdict.SUPPORTED,
        platform="debian-12/x86_64",
        accelerator_name="",
        accelerator_arch="",
        driver_have="",
        driver_need="",
        backend_name="cpu",
        backend_version="",
        backend_tag="cpu",
        device="cpu",
        framework_name="torch",
        framework_version="2.13.0",
        python="3.11",
        packages=(
            Package(name="torch", version="2.13.0+cpu", index="https://download.pytorch.org/whl/cpu"),
            Package(name="numpy", version="2.4.6", index="pypi"),
        ),
        container=CONTAINER,
        reasons=("because",),
    )


@pytest.fixture
def cpu_scheme() -> Scheme:
    """The scheme of that plan."""
    return Scheme(
        name="linux-cpu",
        os=Os.LINUX,
        backend="cpu",
        framework="torch",
        task="train",
        title='PyTorch on the CPU, "plainly"',
        for_whom="anyone",
        container=CONTAINER,
    )


@pytest.fixture
def debian() -> OsRelease:
    """The platform of that plan's image."""
    return OsRelease(id="debian-12", os=Os.LINUX, name="Debian 12", python="3.11")
