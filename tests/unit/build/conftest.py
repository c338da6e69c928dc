"""Plans, decisions and streams to build with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from envkit.build.deciding import Decision
from envkit.build.progress import Stream
from envkit.model import Container, Os, OsRelease, Package, Plan, Scheme, Verdict, Wheel
from envkit.sources import Found
from envkit.sources.listing import Listed

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "build"
INDEX = "https://download.pytorch.org/whl/cpu"


def _read_stream(name: str) -> Stream:
    """The stream of a captured build."""
    stream = Stream()
    for line in (FIXTURES / name).read_text(encoding="utf-8").splitlines():
        stream.feed(line)
    stream.finish()
    return stream


def _make_decision(scheme: str = "linux-cpu", place: str = INDEX) -> Decision:
    """What one image is made of; the framework's wheel lies at `place`."""
    container = Container(platform="debian-12", base="debian:bookworm-slim")
    plan = Plan(
        scheme=scheme,
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
            Package(name="torch", version="2.13.0+cpu", index=INDEX),
            Package(name="numpy", version="2.4.6", index="pypi"),
        ),
        container=container,
    )
    wheel = Wheel(name="torch", version="2.13.0+cpu", tags=frozenset({"cp311-cp311-manylinux_2_28_x86_64"}))
    return Decision(
        scheme=Scheme(
            name=scheme,
            os=Os.LINUX,
            backend="cpu",
            framework="torch",
            task="train",
            title="PyTorch on the CPU",
            for_whom="anyone",
            container=container,
        ),
        platform=OsRelease(id="debian-12", os=Os.LINUX, name="Debian 12", python="3.11"),
        plan=plan,
        found=Found(wheels=(wheel,), listed=(Listed(wheel=wheel, place=place, find_links=place != INDEX),)),
    )


@pytest.fixture
def captured() -> Callable[[str], str]:
    """The text of a captured stream, by its name."""
    return lambda name: (FIXTURES / name).read_text(encoding="utf-8")


@pytest.fixture
def read_stream() -> Callable[[str], Stream]:
    """Reads a captured stream, by its name."""
    return _read_stream


@pytest.fixture
def make_decision() -> Callable[..., Decision]:
    """Makes what one image is made of: `make_decision(scheme, place)`."""
    return _make_decision


@pytest.fixture
def decision() -> Decision:
    """A plan whose wheel comes from its index."""
    return _make_decision()
