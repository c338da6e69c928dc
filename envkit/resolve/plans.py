"""A chosen candidate, written out as a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from envkit.model import Answer, Candidate, Gpu, Judged, Kind, Matrix, Offers, Package, Plan, Source, Target
from envkit.resolve.candidates import by_release, cards, index_of, local_version, own_python, package_of, pin
from envkit.resolve.rules import companion_version, framework_build
from envkit.resolve.target import Question, card_name, vendor_title
from envkit.resolve.wishes import version

Judge = Callable[[Candidate], Judged]


def make_plan(chosen: Judged, question: Question, matrix: Matrix, judge: Judge, offers: Offers | None = None) -> Plan:
    """The plan for the chosen candidate; `judge` gives the whole judgement of another one."""
    candidate, target = chosen.candidate, question.target
    device = candidate.accelerator
    own = target.drivers.get(candidate.backend.vendor)
    need = max((a.need_driver for a in chosen.answers if a.need_driver is not None), key=lambda floor: floor.key, default=None)
    env = {
        **candidate.scheme.env,
        **{k: v for answer in chosen.answers for k, v in answer.env.items()},
        **visible(candidate, target),
    }
    container = candidate.scheme.container
    if container and target.platform.release not in ("", container.platform):
        container = None  # a plan for a machine that is named is not a plan for the image
    if container and (candidate.build.image or candidate.build.index == "vendor" or candidate.backend.host_toolkit):
        # The scheme's own base holds another release than this one.
        image = image_of(candidate)
        # What lies ready in an image lies there for the Python of its system alone.
        held = matrix.platforms[container.platform].python if candidate.build.index == "vendor" else candidate.python
        container = replace(container, base=image, digest="", vendor_base="") if image and held == candidate.python else None
    return Plan(
        scheme=candidate.scheme.name,
        verdict=chosen.verdict,
        platform=str(target.platform),
        accelerator_name=device.name if device else "",
        accelerator_arch=device.arch if device else "",
        driver_have=own.kernel if own else "",
        driver_need=str(need or ""),
        backend_name=candidate.backend.name,
        backend_version=str(candidate.backend_release.version),
        backend_tag=candidate.build.tag,
        device=device_of(candidate),
        framework_name=candidate.framework.name,
        framework_version=candidate.release.version,
        python=candidate.python,
        packages=packages(candidate, target, matrix, offers),
        partners=partners(candidate),
        env=env,
        container=container,
        run_flags=container.run_flags if container else (),
        reasons=tuple(_reasons(chosen, question, matrix, judge)),
        sources=source_texts(matrix.sources, _source_ids(chosen)),
        evidence=candidate.build.evidence,
    )


def device_of(candidate: Candidate) -> str:
    """What the scheme's framework calls the device that the plan is for."""
    backend, scheme = candidate.backend, candidate.scheme
    if backend.without_card and candidate.accelerator is None:
        return backend.without_card
    return candidate.build.device or scheme.device or backend.device


def image_of(candidate: Candidate) -> str:
    """The vendor's image that holds a candidate's build; "" where the vendor has none for the chip."""
    image, chips, card = candidate.build.image, candidate.backend.chips, candidate.accelerator
    held = next((word for word in chips.values() if f"-{word}-" in image), "")
    if not held or card is None or not card.arch:
        return image
    return image.replace(f"-{held}-", f"-{chips[card.arch]}-") if card.arch in chips else ""


def packages(candidate: Candidate, target: Target, matrix: Matrix, offers: Offers | None = None) -> tuple[Package, ...]:
    """What gets installed: the framework and its companions from their own index, libraries from PyPI."""
    framework, release, build = candidate.framework, candidate.release, candidate.build
    index, local = index_of(framework, build), local_version(build)
    arch = candidate.accelerator.arch if candidate.accelerator else ""
    # Builds whose device code is in packages of its own have one for all devices, for a plan that names none.
    extras = build.extras.replace("{arch}", arch or "all")
    found = [Package(name=package_of(candidate), version=f"{release.version}{local}", index=index, extras=extras)]
    found += [
        Package(name=name, version=each.version, index=each.index or index, extras=each.extras)
        for name, each in sorted(build.packages.items())
    ]
    for name in target.extras:
        text = companion_version(matrix, candidate, name, offers)
        if text is not None:
            found.append(Package(name=name, version=text, index=index, extras=extras if name in build.extras_of else ""))
    # What comes by a vendor's own way comes with the libraries that the vendor tested beside it.
    for name in framework.default_packages if index != "vendor" else ():
        text = pin(matrix, name, release, candidate.python, candidate.platform)
        if text is not None and name not in {package.name for package in found}:
            found.append(Package(name=name, version=text, index="pypi"))
    return tuple(found)


def partners(candidate: Candidate) -> tuple[str, ...]:
    """The names that must come from the framework's own index; those of a device package for the card, or for every one."""
    build = candidate.build
    arch = candidate.accelerator.arch if candidate.accelerator else ""
    devices = (arch,) if arch else build.archs or ()
    named = [[name] if "{arch}" not in name else [name.replace("{arch}", each) for each in devices] for name in build.partners]
    return tuple(sorted(name for names in named for name in names))


def visible(candidate: Candidate, target: Target) -> Mapping[str, str]:
    """The setting that keeps hidden cards of the same vendor away from the framework."""
    vendor = candidate.backend.vendor
    name = candidate.backend.visible
    hidden = [card for card in target.hidden if card.vendor == vendor]
    if not name or not hidden:
        return {}
    order = [card for card in target.order if card.vendor == vendor]
    if all(card.pci_address for card in order):
        order.sort(key=lambda card: card.pci_address)
    numbers = ",".join(str(number) for number, card in enumerate(order) if card not in hidden)
    # CUDA numbers the fastest card first unless it is told to go by the bus.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", name: numbers} if vendor == "nvidia" else {name: numbers}


# ---- reasons -----------------------------------------------------------------------------------------------------


def _reasons(chosen: Judged, question: Question, matrix: Matrix, judge: Judge) -> Iterable[str]:
    candidate, target = chosen.candidate, question.target
    if candidate.backend.device == "cpu":
        asked = candidate.scheme.name in target.asked
        yield f"{candidate.scheme.name} was asked for" if asked else "the machine has no accelerator, so the CPU does the work"
    told = [answer.reason for answer in chosen.answers if answer.reason and answer.kind is not Kind.REJECTED]
    yield from dict.fromkeys(_strictest_driver_only(chosen, told))
    passed = passed_over(chosen, question, matrix, judge)
    if passed:
        yield passed
    elif not question.torch.specifier:
        release = f"{candidate.framework.name} {candidate.release.version}"
        yield f"{release} is the newest that the matrix has for {candidate.scheme.name}"
    if target.pythons is None:
        own = candidate.python == own_python(matrix, target)
        why = f"comes with {target.platform.release}" if own else "is the newest that everything has wheels for"
        yield f"Python {candidate.python} {why}; --python names another"
    without = candidate.backend.without_card
    if candidate.accelerator is None and without and target.accelerators is not None:
        vendor = vendor_title(candidate.backend.vendor)
        yield f"the machine has no {vendor} GPU, so {candidate.framework.name} computes on the {without}"
    elif candidate.accelerator is None and candidate.backend.device != "cpu":
        held = f": its code is for {', '.join(candidate.build.archs)}" if candidate.build.archs else ""
        yield f"no card was named, so the plan is for any that {framework_build(candidate)} serves{held}"
    yield from (_kept_away(card, candidate, target) for card in _others(candidate, target))
    yield from question.notes


def _strictest_driver_only(chosen: Judged, told: Iterable[str]) -> Iterable[str]:
    """The reasons without those of driver floors below the strictest one, which say nothing more."""
    floors = [answer for answer in chosen.answers if answer.need_driver is not None]
    top = max(floors, key=lambda answer: answer.need_driver.key if answer.need_driver else (), default=None)
    weaker = {a.reason for a in floors if top and a.need_driver != top.need_driver and a.kind is Kind.FITS}
    return (reason for reason in told if reason not in weaker)


def passed_over(chosen: Judged, question: Question, matrix: Matrix, judge: Judge) -> str:
    """Why the newest release was not taken; "" where it was."""
    mine = chosen.candidate
    for group in by_release(matrix, question):
        newest = [c for c in group if c.backend.name == mine.backend.name and c.framework.name == mine.framework.name]
        if not newest:
            continue
        if version(newest[0].release.version) <= version(mine.release.version):
            return ""
        closest = min(map(judge, newest), key=lambda each: (len(objections(each)), each.candidate.label))
        why = objections(closest)
        name = f"{mine.framework.name} {closest.candidate.release.version}"
        return f"{name} was passed over: {why[0].reason}" if why else f"{name} was passed over: it is not as well supported here"
    return ""


def objections(judged: Judged) -> list[Answer]:
    """The answers that keep a candidate from being supported, the gravest first."""
    order = (Kind.REJECTED, Kind.UNKNOWN, Kind.SETTING, Kind.COMMUNITY)
    return [answer for kind in order for answer in judged.answers if answer.kind is kind]


def _others(candidate: Candidate, target: Target) -> list[Gpu]:
    used = cards(candidate.backend, target)
    there = (target.accelerators or ()) + target.hidden
    return [card for card in there if not any(card is each for each in used)]


def _kept_away(card: Gpu, candidate: Candidate, target: Target) -> str:
    name, setting = card_name(card), visible(candidate, target)
    if candidate.backend.device == "cpu":
        return f"{name} is left unused, as asked"
    if card.vendor == candidate.backend.vendor and setting:
        words = " ".join(f"{key}={value}" for key, value in setting.items())
        return f"{name} is kept away from the framework with {words} (numbered as the machine lists its cards)"
    return (
        f"{name} is left alone: a build for {vendor_title(candidate.backend.vendor) or candidate.backend.title} does not use it"
    )


# ---- sources -----------------------------------------------------------------------------------------------------


def _source_ids(judged: Judged) -> Iterable[str]:
    candidate = judged.candidate
    for answer in judged.answers:
        yield from answer.sources
    yield from candidate.build.sources
    yield from candidate.release.sources
    yield from candidate.scheme.sources


def source_texts(sources: Mapping[str, Source], ids: Iterable[str]) -> tuple[str, ...]:
    """The sources as a reader can follow them, each once."""
    texts = []
    for name in dict.fromkeys(ids):
        source = sources.get(name)
        if source is None:
            texts.append(name)
        elif source.url and source.url not in source.text:
            texts.append(f"{source.text}: {source.url}")
        else:
            texts.append(source.text)
    return tuple(texts)
