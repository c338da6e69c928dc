"""What goes into an image, decided on the real matrix with made-up package sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envkit.build import deciding
from envkit.build.deciding import decide
from envkit.errors import Unavailable, Unresolvable, UsageError
from envkit.matrix import load
from envkit.model import Framework, Wheel, Wish
from envkit.sources import Found, Sources
from envkit.sources.listing import Listed

INDEX = "https://download.pytorch.org/whl/cpu"


@pytest.fixture
def offer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Says which wheels can be had; returns the list of what was asked for."""
    asked: list[tuple[str, ...]] = []

    def say(*wheels: Wheel, reached: bool = True) -> list[tuple[str, ...]]:
        def look(_sources: Sources, _framework: Framework, tags: Any, *, companions: Any = (), limit: float = 5.0) -> Found:
            asked.append(tuple(tags))
            listed = tuple(Listed(wheel=wheel, place="/wheels", find_links=True) for wheel in wheels)
            faults = {} if reached else {INDEX: "did not answer: timed out"}
            return Found(
                indexes={INDEX: reached},
                wheels=wheels,
                listed=listed,
                faults=faults,
                places=("/wheels (torch)", f"{INDEX} (did not answer: timed out)" if not reached else f"{INDEX} (nothing)"),
            )

        monkeypatch.setattr(deciding, "look", look)
        return asked

    return say


def torch(version: str, python: str = "cp311", machine: str = "x86_64") -> Wheel:
    return Wheel(name="torch", version=version, tags=frozenset({f"{python}-{python}-manylinux_2_28_{machine}"}))


def quiet(_text: str) -> None:
    return


def made(scheme: str = "linux-cpu", wish: Wish | None = None, arch: str = "x86_64") -> deciding.Decision:
    return decide(load(), scheme, wish or Wish(), arch, Sources(), quiet)


def test_the_newest_that_can_be_had_for_the_containers_python(offer: Any) -> None:
    asked = offer(torch("2.12.0+cpu"), torch("2.13.0+cpu"), torch("2.14.0+cpu", "cp312"))
    decision = made()
    assert decision.plan.framework_package.version == "2.13.0+cpu"
    assert decision.plan.python == "3.11"
    assert decision.plan.platform == "debian-12/x86_64"
    assert decision.plan.container is not None
    assert asked == [("cpu",)]


def test_the_processor_of_the_engine_counts(offer: Any) -> None:
    offer(torch("2.13.0+cpu"), torch("2.12.0+cpu", machine="aarch64"))
    decision = made(arch="aarch64")
    assert decision.plan.platform == "debian-12/aarch64"
    assert decision.plan.framework_version == "2.12.0"


def test_wishes_are_granted(offer: Any) -> None:
    offer(torch("2.12.0+cpu"), torch("2.13.0+cpu"), torch("2.13.0+cpu", "cp312"))
    assert made(wish=Wish(torch="2.12")).plan.framework_version == "2.12.0"
    assert made(wish=Wish(python="3.12")).plan.python == "3.12"


def test_nothing_there_and_an_index_out_of_reach(offer: Any) -> None:
    offer(reached=False)
    with pytest.raises(Unavailable) as caught:
        made(wish=Wish(torch="2.13.0"))
    assert caught.value.message == (
        "torch==2.13.0+cpu for Python 3.11 can't be had here\n"
        "  looked at /wheels (torch)\n"
        f"  looked at {INDEX} (did not answer: timed out)"
    )


def test_a_dry_run_goes_on_where_a_build_would_stop(offer: Any) -> None:
    offer(reached=False)
    told: list[str] = []
    decision = decide(load(), "linux-cpu", Wish(torch="2.13.0"), "x86_64", Sources(), told.append, only_look=True)
    assert decision.plan.framework_package.version == "2.13.0+cpu"
    assert told[-1].startswith("warning: a build would stop here: torch==2.13.0+cpu for Python 3.11 can't be had here\n")


def test_a_dry_run_does_not_go_on_without_a_release_that_exists(offer: Any) -> None:
    offer(torch("2.12.0+cpu"))
    with pytest.raises(Unresolvable):
        decide(load(), "linux-cpu", Wish(torch="2.13.0"), "x86_64", Sources(), quiet, only_look=True)


def test_nothing_there_though_all_answered(offer: Any) -> None:
    offer(torch("2.12.0+cpu"))
    with pytest.raises(Unresolvable) as caught:
        made(wish=Wish(torch="2.13.0"))
    assert caught.value.message.startswith("torch==2.13.0+cpu for Python 3.11 can't be had here")
    assert caught.value.document is not None
    assert caught.value.document["schema"] == "envkit/conflict/1"


def test_what_nothing_can_give_asks_no_network(offer: Any) -> None:
    asked = offer()
    with pytest.raises(Unresolvable):
        made(wish=Wish(torch="99"))
    assert asked == []


def test_a_companion_that_is_not_there_is_named(offer: Any) -> None:
    offer(torch("2.13.0+cpu"), reached=False)
    with pytest.raises(Unavailable, match="torchvision"):
        made(wish=Wish(extras=("torchvision",)))


@pytest.mark.parametrize("scheme", ["windows-cpu", "windows-cuda", "windows-directml"])
def test_a_scheme_without_image_names_the_way_out(scheme: str) -> None:
    with pytest.raises(UsageError) as caught:
        made(scheme)
    assert caught.value.message == f"{scheme} has no image: {load().schemes[scheme].no_container}"
    assert caught.value.hint == f"on the machine itself: envkit up --scheme {scheme}"


def test_an_unknown_scheme_is_asked_back() -> None:
    with pytest.raises(UsageError, match="unknown scheme 'linux-cpi'; did you mean 'linux-cpu'"):
        made("linux-cpi")


def test_each_package_of_an_index_of_its_own_has_to_be_there(offer: Any) -> None:
    offer(torch("2.13.0+cpu"))
    decision = made()
    more = replace(
        decision.plan, packages=(*decision.plan.packages, replace(decision.plan.packages[0], name="triton", version="1"))
    )
    assert deciding.missing(more, decision.found) == ["triton==1"]


def test_what_stays_in_the_image_tells_nothing_of_this_machines_places(offer: Any) -> None:
    offer(torch("2.12.0+cpu"), reached=False)
    plan = made().plan
    assert plan.reasons
    assert not any("/wheels" in reason or "timed out" in reason for reason in plan.reasons)


def test_a_plan_that_cannot_be_had_purely_loses_its_reasons(offer: Any) -> None:
    offer(torch("2.13.0+cpu"))
    plan = replace(made().plan, reasons=("found at /wheels",))
    assert deciding.without_places(plan, None).reasons == ()
    assert deciding.without_places(plan, replace(plan, python="3.12", reasons=("x",))).reasons == ()
    assert deciding.without_places(plan, replace(plan, reasons=("x",))).reasons == ("x",)
