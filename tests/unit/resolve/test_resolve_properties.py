"""What holds for every question."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from envkit import matrix as matrices
from envkit import plan as plans
from envkit.errors import UsageError
from envkit.model import Dotted, DriverFacts, Facts, Gpu, Machine, Matrix, PythonFacts, Resolution, Verdict, Wish
from envkit.resolve import candidates_document, conflict_document, resolve
from envkit.resolve.explain import conflict_text, plan_text
from envkit.resolve.wishes import version

MATRIX = matrices.load()
RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)

# Cards that no branch in the matrix has dropped.
KEPT = sorted(
    name
    for name, row in MATRIX.archs.items()
    if row.vendor == "nvidia"
    and not any(name in branch.dropped for branch in MATRIX.backends["cuda"].branches)
    and row.min_backend
)
DRIVERS = [
    *(
        f"{branch.branch}.{minor}"
        for branch in MATRIX.backends["cuda"].branches
        for minor in ("0", "26", "60.13", "82.07", "99.99")
    ),
    *{
        str(text)
        for release in MATRIX.backends["cuda"].releases
        for table in (release.min_driver, release.toolkit_driver)
        for text in table.values()
    },
]


def machine(*cards: Gpu, driver: str = "", **more: str) -> Facts:
    return Facts(machine=Machine(os="linux", gpus=cards, driver=DriverFacts(kernel=driver), **more))  # type: ignore[arg-type]


def goodness(resolution: Resolution) -> tuple[int, object]:
    """How good an answer is: any plan before none, a better verdict, a newer release."""
    if resolution.plan is None:
        return (-Verdict.UNSUPPORTED.rank, version("0"))
    return (-resolution.plan.verdict.rank, version(resolution.plan.framework_version))


@RELAXED
@given(st.sampled_from(KEPT), st.lists(st.sampled_from(DRIVERS), min_size=2, max_size=2, unique=True))
def test_a_newer_driver_never_makes_it_worse(arch: str, drivers: list[str]) -> None:
    older, newer = sorted(drivers, key=Dotted)
    card = Gpu(arch=arch, vendor="nvidia")
    assert goodness(resolve(MATRIX, Wish(), machine(card, driver=newer))) >= goodness(
        resolve(MATRIX, Wish(), machine(card, driver=older))
    )


@RELAXED
@given(st.sampled_from(sorted(MATRIX.archs)), st.sampled_from(DRIVERS))
def test_a_plan_never_needs_more_driver_than_there_is(arch: str, driver: str) -> None:
    resolution = resolve(MATRIX, Wish(), machine(Gpu(arch=arch, vendor=MATRIX.archs[arch].vendor), driver=driver))
    if resolution.plan is not None and resolution.plan.driver_need:
        assert Dotted(resolution.plan.driver_need) <= driver
    for each in resolution.nearest:
        if each.change.kind == "driver" and each.plan.driver_need:
            assert Dotted(each.plan.driver_need) <= each.plan.driver_have


# Adreno graphics are part of a processor, so they are no reason to expect more than the CPU where no scheme uses them.
CARDS = sorted(name for name, row in MATRIX.archs.items() if row.vendor != "qualcomm")


@RELAXED
@given(st.sampled_from(CARDS), st.sampled_from(DRIVERS))
def test_the_cpu_is_never_taken_unasked(arch: str, driver: str) -> None:
    resolution = resolve(MATRIX, Wish(), machine(Gpu(arch=arch, vendor=MATRIX.archs[arch].vendor), driver=driver))
    assert resolution.plan is None or resolution.plan.device != "cpu"
    assert resolution.plan is not None or any(each.plan.scheme == "linux-cpu" for each in resolution.nearest)


@settings(RELAXED, max_examples=120)
@given(
    st.sampled_from(sorted(MATRIX.archs)),
    st.sampled_from(["", *DRIVERS]),
    st.sampled_from(sorted(MATRIX.platforms)),
    st.sampled_from(["", "3.8.1", "3.12.4", "3.14.0"]),
    st.builds(
        Wish,
        torch=st.sampled_from(["", "2.7", ">=2.4,<2.9", "2.99"]),
        accept=st.lists(st.sampled_from(sorted(set(Verdict) - {Verdict.UNSUPPORTED})), unique=True).map(tuple),
    ),
)
def test_the_short_way_to_the_best_candidate_is_the_long_one(
    arch: str, driver: str, platform: str, python: str, wish: Wish
) -> None:
    card = Gpu(arch=arch, vendor=MATRIX.archs[arch].vendor)
    facts = replace(machine(card, driver=driver, os_id=platform), python=PythonFacts(version=python))
    facts = replace(facts, machine=replace(facts.machine, os=str(MATRIX.platforms[platform].os)))
    resolution = resolve(MATRIX, wish, facts)
    chosen = next((each.candidate for each in resolution.judged if each.verdict in wish.accept), None)
    plan = resolution.plan
    assert (plan is None) is (chosen is None)
    if plan and chosen:
        assert (plan.scheme, plan.framework_version, plan.backend_tag, plan.python) == (
            chosen.scheme.name,
            chosen.release.version,
            chosen.build.tag,
            chosen.python,
        )


WORDS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "linux",
            "windows",
            "wsl2",
            "ubuntu-24.04",
            "cuda",
            "cu128",
            "2.7",
            ">=2.4",
            "none",
            "sm_86",
            "gfx1100",
            "RTX 3060",
            "3.11",
            "580",
        ]
    ),
    st.from_regex(r"[0-9]{1,3}(\.[0-9x*]{1,3}){0,3}[+a-z0-9]{0,6}", fullmatch=True),
)


@settings(RELAXED, max_examples=150)
@given(
    st.builds(
        Wish,
        os=WORDS,
        gpu=WORDS,
        driver=WORDS,
        backend=WORDS,
        torch=WORDS,
        python=WORDS,
        scheme=st.sampled_from(["", "linux-cpu", "linux-cuda", "windows-directml"]),
    )
)
def test_no_text_breaks_it(wish: Wish) -> None:
    try:
        resolution = resolve(MATRIX, wish)
    except UsageError as error:
        assert error.message
        return
    told(resolution)


@settings(RELAXED, max_examples=150)
@given(
    wish=st.builds(Wish, torch=st.sampled_from(["", "2.7", "2.99"]), python=st.sampled_from(["", "3.8", "3.13t"])), data=st.data()
)
def test_no_report_breaks_it(wish: Wish, data: st.DataObject) -> None:
    text = st.one_of(
        st.just(""),
        st.text(max_size=8),
        st.sampled_from(["linux", "windows", "570.86.10", "2.39", "arm64", "nouveau", "NVIDIA", "sm_120"]),
    )
    gpus = st.lists(st.builds(Gpu, name=text, pci_id=text, arch=text, kernel_driver=text, vendor=text), max_size=3).map(tuple)
    facts = data.draw(
        st.builds(
            Facts,
            machine=st.builds(
                Machine,
                os=text,
                os_release=text,
                os_id=text,
                kernel=text,
                arch=text,
                glibc=text,
                wsl=st.booleans(),
                gpus=gpus,
                modules=st.sampled_from([None, (), ("nouveau",)]),
                driver=st.builds(DriverFacts, kernel=text, license=text),
            ),
            python=st.builds(PythonFacts, version=text),
        )
    )
    try:
        told(resolve(MATRIX, wish, facts))
    except UsageError as error:
        assert "system that envkit does not know" in error.message


def told(resolution: Resolution) -> None:
    """Every way to tell an answer works."""
    assert json.dumps(candidates_document(resolution))
    if resolution.plan is None:
        assert json.dumps(conflict_document(resolution))
        assert conflict_text(resolution).startswith("nothing fits: ")
    else:
        assert plans.from_document(plans.to_document(resolution.plan)) == resolution.plan
        assert plan_text(resolution.plan).startswith(f"{resolution.plan.scheme}: ")


def shuffled(matrix: Matrix, seed: int) -> Matrix:
    chance = Random(seed)

    def mixed(rows: tuple[object, ...]) -> tuple[object, ...]:
        return tuple(chance.sample(rows, len(rows)))

    torch = matrix.frameworks["torch"]
    cuda = matrix.backends["cuda"]
    return replace(
        matrix,
        frameworks={"torch": replace(torch, builds=mixed(torch.builds), releases=mixed(torch.releases))},
        backends={**matrix.backends, "cuda": replace(cuda, releases=mixed(cuda.releases), branches=mixed(cuda.branches))},
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("arch", "driver"),
    [("sm_120", "550.54.14"), ("sm_61", "580.82"), ("gfx1031", ""), ("sm_90", "580.82.07"), ("sm_121", "570.26")],
)
def test_the_order_of_rows_decides_nothing(seed: int, arch: str, driver: str) -> None:
    facts = machine(Gpu(arch=arch, vendor=MATRIX.archs[arch].vendor), driver=driver)
    plain, mixed = resolve(MATRIX, Wish(), facts), resolve(shuffled(MATRIX, seed), Wish(), facts)
    assert mixed.plan == plain.plan
    assert mixed.nearest == plain.nearest
    assert [each.candidate.label for each in mixed.judged] == [each.candidate.label for each in plain.judged]
