"""A wish and the facts of a machine, brought together into the question that the rules answer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from envkit.errors import UsageError
from envkit.model import (
    Backend,
    Dotted,
    DriverFacts,
    Facts,
    Gpu,
    Machine,
    Matrix,
    Os,
    Platform,
    Product,
    Scheme,
    Target,
    Verdict,
    Wish,
    dotted,
)
from envkit.resolve import wishes
from envkit.resolve.wishes import BackendWish, TorchWish

if TYPE_CHECKING:
    from envkit import devices

_PCI_VENDORS = {"10de": "nvidia", "1002": "amd", "8086": "intel"}

NO_MODULE = "none"  # in Gpu.kernel_driver: it was looked at, and nothing is bound

_INTEGRATED = ("apu", "integrated", "igpu")


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """What is asked of which machine, with every text read."""

    target: Target
    schemes: tuple[Scheme, ...]  # those that are considered
    scheme: str = ""  # the one that was named
    framework: str = ""  # the one that is meant
    torch: TorchWish = field(default_factory=TorchWish)
    backend: BackendWish = field(default_factory=BackendWish)
    accept: frozenset[Verdict] = frozenset((Verdict.SUPPORTED, Verdict.COMMUNITY))
    notes: tuple[str, ...] = ()


def read(matrix: Matrix, wish: Wish, facts: Facts | None = None, pythons: Sequence[str] | None = None) -> Question:
    """The question that a wish puts; raises UsageError where a text cannot be meant, or where too little is said."""
    wishes.read_scheme(matrix, wish.scheme)
    torch = wishes.read_torch(wish.torch)
    backend = wishes.read_backend(matrix, wish.backend or torch.tag)
    scheme = matrix.schemes.get(wish.scheme)
    framework = wishes.read_framework(matrix, wish.framework, scheme)
    extras = _extras(matrix, wish.extras)
    platform, own_python = _platform(matrix, wish.os, facts, scheme)
    name = scheme.backend if scheme else backend.name
    vendor = matrix.backends[name].vendor if name else ""  # whose cards are asked for
    cards, notes = _cards(matrix, wish.gpu, facts, platform, framework, vendor)
    if not wish.os.strip() and facts is None and scheme is None and cards and {card.vendor for card in cards} == {"apple"}:
        platform = wishes.read_platform(matrix, "macos")  # these are in Macs alone
    notes += _unreadable(facts)
    platform = _beside(cards, platform, told=_says_processor(wish.os, facts, platform))
    if cards is None and scheme is None and not _needs_no_card(matrix, backend):
        raise UsageError(
            "which accelerator? " + ("The facts do not say" if facts else "Nothing says") + " what the machine has",
            hint='name it (--gpu "RTX 5090", or --gpu none), give the facts of a machine (--facts FILE) or name a scheme',
        )
    shown, hidden = _set_aside(cards, vendor)
    schemes = (scheme,) if scheme else tuple(_fitting_schemes(matrix, platform, backend, framework))
    target = Target(
        platform=platform,
        accelerators=shown,
        drivers=_drivers(matrix, wish.driver, facts, platform, shown, vendor, notes),
        pythons=_pythons(wish.python, facts, pythons, own_python),
        python_told=bool(wish.python.strip()),
        hidden=hidden,
        order=cards or (),
        extras=extras,
        asked=tuple(each.name for each in schemes) if scheme or backend.name else (),
    )
    return Question(
        target=target,
        schemes=schemes,
        scheme=wish.scheme,
        framework=framework,
        torch=torch,
        backend=backend,
        accept=frozenset(wish.accept),
        notes=tuple(notes),
    )


def identified(matrix: Matrix, facts: Facts) -> tuple[Gpu, ...]:
    """Every card of a machine, with vendor, architecture and name filled in as far as the catalogue knows them."""
    os = _os_of_facts(facts.machine) or Os.LINUX
    platform = _platform_of_facts(matrix, facts.machine, os)
    return tuple(_identified(card, facts.machine, platform, matrix) for card in facts.machine.gpus or ())


def describe(question: Question) -> str:
    """The question in one line: "torch 2.7, RTX 5090 (sm_120), driver 550.54.14, linux/x86_64"."""
    target = question.target
    parts = [question.scheme] if question.scheme else []
    if question.torch.specifier:
        parts.append(f"torch {question.torch.text.removeprefix('torch')}")
    if question.backend.text:
        parts.append(question.backend.text)
    if target.accelerators:
        parts.append(cards_text(target.accelerators))
    elif target.accelerators is not None:
        parts.append("no accelerator")
    versions = sorted({facts.kernel for facts in target.drivers.values() if facts.kernel})
    parts.extend(f"driver {text}" for text in versions)
    parts.append(str(target.platform))
    if target.pythons:
        parts.append(f"Python {' or '.join(target.pythons)}")
    return ", ".join(parts)


def card_name(card: Gpu) -> str:
    """How messages name a card: "NVIDIA GeForce RTX 5090 (sm_120)"."""
    name = card.name or card.pci_id
    if name and card.arch and name != card.arch:
        return f"{name} ({card.arch})"
    return name or card.arch or f"{card.vendor or 'unknown'} GPU"


def cards_text(cards: Sequence[Gpu]) -> str:
    """Cards in words, equal ones counted: "8 x NVIDIA A100 (sm_80)"."""
    names = [card_name(card) for card in cards]
    counted = [(name, names.count(name)) for name in dict.fromkeys(names)]
    return ", ".join(f"{count} x {name}" if count > 1 else name for name, count in counted)


# ---- platform ----------------------------------------------------------------------------------------------------


def _platform(matrix: Matrix, text: str, facts: Facts | None, scheme: Scheme | None) -> tuple[Platform, str]:
    """The platform, and the Python that comes with it where a container's platform is meant."""
    if text.strip():
        asked = wishes.read_platform(matrix, text)
        # A family that the facts agree with adds nothing; anything else describes another machine.
        agreed = facts is not None and not asked.release and "/" not in text and asked.os is _os_of_facts(facts.machine)
        return (_platform_of_facts(matrix, facts.machine, asked.os) if facts and agreed else asked), ""
    if facts:
        os = _os_of_facts(facts.machine)
        if os is None:
            known = ", ".join(str(each) for each in Os)
            raise UsageError(
                f"the facts are of a system that envkit does not know: {facts.machine.os!r}", hint=f"it knows {known}"
            )
        return _platform_of_facts(matrix, facts.machine, os), ""
    if scheme and scheme.container and scheme.container.platform in matrix.platforms:
        row = matrix.platforms[scheme.container.platform]
        return wishes.platform_of(row), row.python
    os = scheme.os if scheme else Os.LINUX
    return Platform(os=os, arch=wishes.default_word(os), libc=wishes.libc_of(os, "", "")), ""


def _says_processor(text: str, facts: Facts | None, platform: Platform) -> bool:
    """Whether the architecture of the processor was told, and not only taken for the usual one."""
    known = wishes.machine_word(platform.os, facts.machine.arch) if facts else ""
    return "/" in text or (bool(known) and (not text.strip() or known == platform.arch))


def is_board(card: Gpu) -> bool:
    """Whether it is the graphics of a Jetson board, whose driver and wheels NVIDIA gives out by ways of their own."""
    product = _product(card)
    return product.kind == "jetson" if product else bool(card.arch) and _kinds_of(card.arch) == {"jetson"}


def _beside(cards: tuple[Gpu, ...] | None, platform: Platform, *, told: bool) -> Platform:
    """The platform with the processor that the cards come with, where none was told."""
    beside = {processor(card) for card in cards or ()}
    if told or len(beside) != 1 or "" in beside or platform.family != "linux":
        return platform
    return replace(platform, arch=beside.pop())


def processor(card: Gpu) -> str:
    """The only processor that a card comes with, as GB10 with an Arm one; "" where it may be any."""
    product = _product(card)
    return product.cpu if product else ""


def _os_of_facts(machine: Machine) -> Os | None:
    word = machine.os.strip().lower() or "linux"
    os = Os(word) if word in set(Os) else None
    return Os.WSL2 if os is Os.LINUX and machine.wsl else os


def _platform_of_facts(matrix: Matrix, machine: Machine, os: Os) -> Platform:
    row = wishes.find_release(matrix, machine.os_id) if machine.os_id else wishes.release_named(matrix, machine.os_release)
    release = row.id if row else machine.os_id
    library = "musl" if "musl" in machine.libc.lower() else "glibc" if machine.libc else ""
    libc = library or wishes.libc_of(os, release or machine.os_release.lower().split(" ")[0], machine.glibc)
    made = Platform(
        os=os,
        release=release,
        arch=wishes.machine_word(os, machine.arch) or wishes.default_word(os),
        glibc=(dotted(machine.glibc) or (row.glibc if row else None)) if libc == "glibc" else None,
        kernel=dotted(machine.kernel),
        libc=libc,
    )
    told = re.search(r"\d+(?:\.\d+)+", machine.os_release, re.ASCII)
    return wishes.with_point(made, told[0] if told else "")


def _fitting_schemes(matrix: Matrix, platform: Platform, backend: BackendWish, framework: str) -> Iterator[Scheme]:
    own = {(s.backend, s.framework) for s in matrix.schemes.values() if s.os is platform.os}
    for scheme in matrix.schemes.values():
        # WSL2 runs Linux wheels, so Linux schemes serve it wherever no scheme of its own does.
        fits = scheme.os is platform.os or (
            platform.os is Os.WSL2 and scheme.os is Os.LINUX and (scheme.backend, scheme.framework) not in own
        )
        if fits and backend.name in ("", scheme.backend) and framework in ("", scheme.framework):
            yield scheme


# ---- accelerators ------------------------------------------------------------------------------------------------


def _needs_no_card(matrix: Matrix, backend: BackendWish) -> bool:
    return bool(backend.name) and matrix.backends[backend.name].device == "cpu"


def _cards(
    matrix: Matrix, text: str, facts: Facts | None, platform: Platform, framework: str, asked: str
) -> tuple[tuple[Gpu, ...] | None, list[str]]:
    if text.strip():
        return _card_named(text.strip(), matrix), []
    if facts is None or facts.machine.gpus is None:
        return None, []
    schemes = [scheme for scheme in matrix.schemes.values() if framework in ("", scheme.framework)]
    here = [matrix.backends[scheme.backend] for scheme in schemes if _runs_here(scheme, platform)]
    anything = any(not backend.vendor and backend.device != "cpu" for backend in here)
    cards, notes = [], []
    for found in facts.machine.gpus:
        card = _identified(found, facts.machine, platform, matrix)
        if _only_draws(card):
            continue
        served = any(_may_serve(matrix, backend, card) for backend in here)
        used = served or (bool(asked) and card.vendor == asked) or (anything and card.vendor in _PCI_VENDORS.values())
        if used or not _computes_nothing_here(card, platform):
            cards.append(card)
        else:
            notes.append(f"{card_name(card)} is left aside: no scheme of the matrix uses {_kind_title(matrix, card)} here")
    return tuple(cards), notes


def _runs_here(scheme: Scheme, platform: Platform) -> bool:
    return scheme.os is platform.os or (platform.os is Os.WSL2 and scheme.os is Os.LINUX)


def _may_serve(matrix: Matrix, backend: Backend, card: Gpu) -> bool:
    """Whether a backend is for a card's vendor and, where it serves the chips of a list alone, some list has the card's."""
    if backend.vendor != card.vendor or not backend.vendor:
        return False
    return backend.code_rule != "listed" or card.arch in _listed_chips(matrix, backend)


def _listed_chips(matrix: Matrix, backend: Backend) -> set[str]:
    tags = {release.tag for release in backend.releases}
    lists = [release.archs for release in backend.releases]
    lists += [build.archs for framework in matrix.frameworks.values() for build in framework.builds if build.tag in tags]
    return {arch for each in lists for arch in each or ()}


def _kind_title(matrix: Matrix, card: Gpu) -> str:
    """What a card that is left aside is, in words: all GPUs of its vendor, or those of its architecture."""
    row = matrix.archs.get(card.arch)
    family = f" {row.family}" if row and any(backend.vendor == card.vendor for backend in matrix.backends.values()) else ""
    return f"{vendor_title(card.vendor)}{family} GPUs"


_VENDOR_TITLES = {
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "intel": "Intel",
    "apple": "Apple",
    "huawei": "Huawei",
    "google": "Google",
    "habana": "Intel Gaudi",
    "cambricon": "Cambricon",
    "moorethreads": "Moore Threads",
    "aws": "AWS",
    "qualcomm": "Qualcomm",
}


def vendor_title(vendor: str) -> str:
    """A vendor's name as it writes it."""
    return _VENDOR_TITLES.get(vendor, vendor)


def _card_named(text: str, matrix: Matrix) -> tuple[Gpu, ...]:
    from envkit import devices

    if text.lower() == "none":
        return ()
    found = devices.find(text)
    pci_id = devices.pci_id_of(text)
    if pci_id and found.kind == "none":
        card = Gpu(pci_id=pci_id, vendor=found.vendor)
        if _only_draws(card):
            raise UsageError(f"{text!r} is a display adapter that computes nothing", hint="--gpu none means no accelerator")
        return (replace(card, vendor=_vendor_word(card)),)
    if found.kind == "none" and (unheard := _of_new_architecture(text, matrix)):
        return (unheard,)
    if found.kind == "none" and not found.suggestions and not found.products and not found.archs:
        found_nothing = text.lower() in ("cpu", "no", "nothing")
        hint = (
            "--gpu none means no accelerator"
            if found_nothing
            else "write a product, an architecture (sm_86) or a PCI id (10de:2684)"
        )
        raise UsageError(f"unknown GPU {text!r}", hint=hint)
    if found.ambiguous and not _all_alike(found):
        raise UsageError(
            f"--gpu {text!r} may mean several: {'; '.join(_meanings(found.products, found.archs))}",
            # A name sold with several chips cannot be written more fully.
            hint=f"write {'' if len(found.products) == 1 else 'the full name, '}the architecture or the PCI id",
        )
    if found.products:
        product = found.products[0]
        arch = found.archs[0] if found.archs else product.arch
        name = "" if found.kind == "arch" else text if found.ambiguous else product.name
        return (Gpu(name=name, arch=arch, vendor=product.vendor, pci_id=pci_id),) * (found.count or 1)
    if found.archs:
        return (Gpu(arch=found.archs[0], vendor=found.vendor),) * (found.count or 1)
    raise UsageError(
        f"unknown GPU {text!r}" + (f"; did you mean {', '.join(found.suggestions)}?" if found.suggestions else ""),
        hint="write a product, an architecture (sm_86) or a PCI id (10de:2684)",
    )


def _of_new_architecture(text: str, matrix: Matrix) -> Gpu | None:
    """A card by an architecture that no product of the catalogue has: one that the matrix knows, or one newer than all of it."""
    word = text.strip().lower()
    if word in matrix.archs:
        return Gpu(arch=word, vendor=matrix.archs[word].vendor)
    known = [int(number[1]) for name in matrix.archs if (number := _NVIDIA_ARCH.fullmatch(name))]
    asked = _NVIDIA_ARCH.fullmatch(word)
    return Gpu(arch=word, vendor="nvidia") if asked and int(asked[1]) > max(known, default=0) else None


_NVIDIA_ARCH = re.compile(r"sm_(\d{2,3})[af]?", re.ASCII)


def _all_alike(found: devices.Found) -> bool:
    """Whether it does not matter which of several products a name means: one architecture, in machines of any kind."""
    same = len(found.archs) == 1 and len({product.vendor for product in found.products}) == 1
    return same and not any(product.cpu for product in found.products)


def _meanings(products: Sequence[Product], archs: Sequence[str]) -> list[str]:
    texts = []
    for product in products:
        known = ", ".join(product.variants or ((product.arch,) if product.arch else ()))
        texts.append(f"{product.name} ({known})" if known else product.name)
    return texts or list(archs)


def _identified(gpu: Gpu, machine: Machine, platform: Platform, matrix: Matrix) -> Gpu:
    """The card with its vendor, architecture and name filled in from the catalogue, as far as it knows them."""
    product, vendor, arch = _product(gpu), _vendor_word(gpu), ""
    if product is not None:
        vendor, arch = vendor or product.vendor, product.arch
    elif gpu.name and (found := _named(gpu.name)):
        # What all its meanings share is known of an ambiguous name too.
        vendor = vendor or found.vendor
        arch = found.archs[0] if len(found.archs) == 1 and vendor == found.vendor else ""
    vendor = vendor or _vendor_of(gpu.arch, gpu.name) or (_named(gpu.arch).vendor if gpu.arch else "")
    arch = _arch_word(gpu.arch, vendor) or arch
    return replace(
        gpu,
        vendor=vendor,
        arch=arch,
        name=gpu.name or (product.name if product else ""),
        kernel_driver=gpu.kernel_driver or _missing_module(modules_of(matrix, vendor), vendor, machine, platform),
    )


def memory_of(card: Gpu) -> tuple[float, ...]:
    """The sizes of memory in GiB that a card comes with; () where they are not known."""
    if card.memory_bytes:
        return (round(card.memory_bytes / 2**30),)
    product = _product(card)
    return product.memory_gib if product else ()


def _product(gpu: Gpu) -> Product | None:
    return _looked_up(gpu.pci_id.lower(), gpu.name)


@lru_cache(maxsize=4096)
def _looked_up(pci_id: str, name: str) -> Product | None:
    from envkit import devices

    product = devices.by_pci(pci_id) if pci_id else None
    if product is None and name:
        found = devices.find(name)
        product = found.products[0] if found.products and not found.ambiguous else None
    return product


@lru_cache(maxsize=4096)
def _named(name: str) -> devices.Found:
    from envkit import devices

    return devices.find(name)


def product_name(card: Gpu) -> str:
    """The card's name in the catalogue; "" where it does not know the card."""
    product = _product(card)
    return product.name if product else ""


def may_mean(card: Gpu) -> str:
    """What a card of unknown architecture may be, as the end of a sentence; "" where nothing is known of its name."""
    found = _named(card.name) if card.name else None
    if found is None or card.arch or not found.ambiguous:
        return ""
    return f": it may be {'; '.join(_meanings(found.products, found.archs))}"


def _vendor_word(gpu: Gpu) -> str:
    """The vendor that a report gives, in this project's word for it; "" for a word that means none."""
    from envkit.devices.adapters import VENDORS

    word = gpu.vendor.strip().lower()
    if word and word not in VENDORS.values():
        word = word if word == "qualcomm" else _vendor_of("", word)
    return word or VENDORS.get(gpu.pci_id.lower()[:4], "")


# Words of product names and of drivers, for reports that give neither vendor nor PCI id.
_VENDOR_WORDS = {
    "nvidia": ("nvidia", "geforce", "quadro", "tesla", "jetson", "rtx", "gtx"),
    "amd": ("amd", "radeon", "instinct", "ati"),
    "intel": ("intel", "intel(r)"),
    "apple": ("apple",),
    "qualcomm": ("qualcomm", "qualcomm(r)", "adreno"),
    "huawei": ("huawei", "ascend"),
}


def _vendor_of(arch: str, name: str) -> str:
    word = arch.lower()
    if word.startswith(("sm_", "gfx")):
        return "nvidia" if word.startswith("sm_") else "amd"
    words = name.lower().split()
    return next((vendor for vendor, known in _VENDOR_WORDS.items() if any(each in known for each in words)), "")


def _arch_word(text: str, vendor: str) -> str:
    word = text.strip().lower().split(":")[0]  # gfx90a:sramecc+:xnack- is gfx90a
    capability = re.fullmatch(r"(\d+)\.(\d)", word, re.ASCII)
    return f"sm_{capability[1]}{capability[2]}" if capability and vendor in ("nvidia", "") else word


def modules_of(matrix: Matrix, vendor: str) -> tuple[str, ...]:
    """The kernel modules through which a vendor's stack reaches its cards; bound to anything else, they compute nothing."""
    own = (backend.modules for backend in matrix.backends.values() if vendor and backend.vendor == vendor)
    return next((modules for modules in own if modules), ())


def _missing_module(modules: Sequence[str], vendor: str, machine: Machine, platform: Platform) -> str:
    """`NO_MODULE` where the loaded modules are known and none of the vendor's is among them."""
    if platform.os is not Os.LINUX or not modules or machine.modules is None or _driver_facts(machine, vendor).kernel:
        return ""
    return "" if set(modules) & set(machine.modules) else NO_MODULE


def _set_aside(cards: tuple[Gpu, ...] | None, asked: str) -> tuple[tuple[Gpu, ...] | None, tuple[Gpu, ...]]:
    """The cards to plan for, and the integrated GPUs that have a card beside them and whose vendor was not asked for."""
    if cards is None or len(cards) < 2:
        return cards, ()
    inside = [is_integrated(card) for card in cards]
    discrete = {card.vendor for card, integrated in zip(cards, inside, strict=True) if not integrated}
    shown: list[Gpu] = []
    hidden: list[Gpu] = []
    for card, integrated in zip(cards, inside, strict=True):
        aside = integrated and (card.vendor in discrete or (bool(discrete) and card.vendor != asked))
        (hidden if aside else shown).append(card)
    return tuple(shown), tuple(hidden)


def _only_draws(card: Gpu) -> bool:
    """Whether it is a virtual screen or a management controller's display, which no one computes on."""
    from envkit.devices.adapters import MANAGEMENT, VIRTUAL

    pci_id = card.pci_id.lower()
    if pci_id[:4] in VIRTUAL or pci_id in MANAGEMENT:
        return True
    return not (card.vendor or pci_id or card.arch) and bool(_DRAWING.search(card.name))


_DRAWING = re.compile(
    r"\b(virtio|qxl|bochs|vmware|virtualbox|hyper-?v|parallels|xen|cirrus|aspeed|matrox|llvmpipe|swiftshader|"
    r"basic (display|render)|remote display|standard vga|virtual display)",
    re.IGNORECASE,
)
# Intel's cards of their own; its other names are those of graphics inside processors.
_INTEL_CARDS = re.compile(
    r"\b(arc(\(tm\))?\s+(pro\s+)?[a-z]\d{2}|flex|(gpu )?max \d|data center|dg[12]\b|battlemage)", re.IGNORECASE
)


def _computes_nothing_here(card: Gpu, platform: Platform) -> bool:
    """Whether a card that no scheme uses is known to be part of a processor; any other is no reason to take the CPU unasked."""
    if platform.os is Os.MACOS:
        return True  # what a Mac has is known, and can be no other
    product = _product(card)
    if product is not None and product.kind:
        return product.kind in _INTEGRATED
    return card.vendor == "qualcomm" or (card.vendor == "intel" and _is_intel_integrated(card))


def _is_intel_integrated(card: Gpu) -> bool:
    # The PCI address of Intel's integrated graphics never changes.
    return not _INTEL_CARDS.search(card.name) if card.name else card.pci_address.removeprefix("0000:") == "00:02.0"


def is_integrated(card: Gpu) -> bool:
    """Whether it is the graphics part of a processor."""
    product = _product(card)
    if product is not None and product.kind:
        return product.kind in _INTEGRATED
    if card.vendor == "intel":
        return _is_intel_integrated(card)
    return bool(card.arch) and _integrated_only(card.arch)


def _integrated_only(arch: str) -> bool:
    """Whether the catalogue knows the architecture from processors alone, as gfx1036."""
    kinds = _kinds_of(arch)
    return bool(kinds) and kinds <= set(_INTEGRATED)


@lru_cache(maxsize=256)
def _kinds_of(arch: str) -> frozenset[str]:
    """The kinds of products that the catalogue knows with an architecture."""
    from envkit.devices.catalogue import read_catalogue

    known = read_catalogue()
    return frozenset(product.kind for product in map(known.product, range(len(known))) if product.arch == arch)


# ---- drivers -----------------------------------------------------------------------------------------------------


def _unreadable(facts: Facts | None) -> list[str]:
    """What the facts say that cannot be read, and so counts as not known."""
    if facts is None:
        return []
    tables = {"machine.driver": facts.machine.driver}
    tables |= {f"machine.drivers.{vendor}": driver for vendor, driver in facts.machine.drivers.items()}
    found = [
        f"{place}.kernel of the facts is no version, so the driver counts as not known: {driver.kernel!r}"
        for place, driver in tables.items()
        if driver.kernel and not dotted(driver.kernel)
    ]
    if facts.python.version and not _PYTHON_OF_FACTS.match(facts.python.version):
        found.append(f"python.version of the facts is no Python 3, so it counts as not known: {facts.python.version!r}")
    return found


def _driver_facts(machine: Machine, vendor: str) -> DriverFacts:
    return machine.drivers.get(vendor) or machine.driver


def _drivers(
    matrix: Matrix,
    text: str,
    facts: Facts | None,
    platform: Platform,
    cards: tuple[Gpu, ...] | None,
    wanted: str,
    notes: list[str],
) -> Mapping[str, DriverFacts]:
    asked = wishes.read_driver(text)
    vendors = dict.fromkeys(card.vendor for card in cards or ()) or dict.fromkeys([wanted] if wanted else [])
    found: dict[str, DriverFacts] = {}
    meant = wanted or (_driven(vendors) if vendors else "")
    for vendor in vendors:
        known = DriverFacts()
        if facts and vendor in facts.machine.drivers:
            known = facts.machine.drivers[vendor]
        elif facts and not facts.machine.drivers and (len(vendors) == 1 or vendor == _driven(vendors)):
            known = facts.machine.driver
        told = asked if vendor == meant else ""
        kernel = driver_number(vendor, platform.os, told or known.kernel)
        if platform.os is Os.LINUX and kernel:
            own = dotted(facts.machine.kernel) if facts and not told else None
            kernel, note = release_number(matrix, vendor, kernel, told=bool(told), linux=own)
            notes += [note] if note else []
        found[vendor] = replace(known, kernel=kernel)
    return found


def _driven(vendors: Mapping[str, None]) -> str:
    """Whose driver a lone [machine.driver] table describes beside cards of several vendors."""
    # amdgpu shows no version of its own unless it came from AMD's packages.
    return "nvidia" if "nvidia" in vendors else next(iter(vendors))


def driver_number(vendor: str, os: Os, text: str) -> str:
    """The vendor's own number for a driver; Windows shows 32.0.15.7260 for NVIDIA's 572.60. "" where it cannot be told."""
    parts = text.split(".")
    if os not in (Os.WINDOWS, Os.WSL2) or len(parts) != 4 or not all(part.isdecimal() for part in parts):
        return text if dotted(text) else ""
    if vendor == "nvidia":
        digits = (parts[2] + parts[3].zfill(4))[-5:]
        return f"{int(digits[:3])}.{digits[3:]}"
    # AMD's Windows driver numbers say nothing about the Adrenalin release that the floors are given in.
    return "" if vendor == "amd" else text


def release_number(matrix: Matrix, vendor: str, text: str, *, told: bool, linux: Dotted | None = None) -> tuple[str, str]:
    """The vendor's number for the release of a driver whose kernel module shows `text`, and what there is to say about it.

    The module of AMD's driver 30.10 calls itself 6.14.14, and that of a Linux kernel has that kernel's number or none.
    `told`: a person wrote it, who may well mean a release. "" where it cannot be told which release it is.
    """
    known = [b for b in matrix.backends.values() if b.vendor == vendor and any(branch.numbers for branch in b.branches)]
    have = dotted(text)
    if not known or have is None:
        return text, ""
    if linux is not None and have == linux:
        return "", ""
    backend = known[0]
    if told and any(row.version == have for row in backend.releases):
        return text, ""
    for branch in backend.branches:
        if any(text == number or text.startswith(f"{number}.") for number in branch.numbers):
            return str(branch.branch), f"{text} is the number that the driver {branch.branch} of {vendor_title(vendor)} shows"
    lines = [(*branch.branch.key, 0)[:2] for branch in backend.branches]
    if (*have.key, 0)[:2] in lines or have > backend.branches[-1].branch:
        return text, ""
    what = f"the driver {text} is none of {vendor_title(vendor)}'s releases that the matrix knows"
    return "", f"{what}, so which {backend.title} it serves is not judged"


# ---- Pythons and companions --------------------------------------------------------------------------------------


_PYTHON_OF_FACTS = re.compile(r"3\.\d+", re.ASCII)


def _pythons(text: str, facts: Facts | None, offered: Sequence[str] | None, own: str) -> tuple[str, ...] | None:
    asked = wishes.read_python(text)
    if asked:
        return (asked,)
    if offered is not None:
        return tuple(dict.fromkeys(wishes.read_python(each) for each in offered)) or None
    if facts and facts.python.version:
        found = _PYTHON_OF_FACTS.match(facts.python.version)
        if found:
            return (found[0] + ("t" if facts.python.version.lower().endswith("t") else ""),)
    return (own,) if own else None


def _extras(matrix: Matrix, names: Sequence[str]) -> tuple[str, ...]:
    known = sorted({name for framework in matrix.frameworks.values() for name in framework.companions})
    missing = {name: why for framework in matrix.frameworks.values() for name, why in framework.no_wheels.items()}
    for name in names:
        if name in missing:
            raise UsageError(f"{name} cannot be part of a plan: there are no wheels of it", hint=missing[name])
        if name not in known:
            close = difflib.get_close_matches(name.lower(), known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"no companion package {name!r}{meant}", hint=f"the matrix knows {', '.join(known) or 'none'}")
    return tuple(dict.fromkeys(names))


def with_driver(target: Target, vendor: str, driver: Dotted | None) -> Target:
    """The same machine with another driver of that vendor, loaded; None for one whose version does not matter."""
    facts = replace(target.drivers.get(vendor, DriverFacts()), kernel=str(driver or ""))
    cards = target.accelerators and tuple(
        replace(card, kernel_driver="") if card.vendor == vendor else card for card in target.accelerators
    )
    return replace(target, drivers={**target.drivers, vendor: facts}, accelerators=cards)


def with_toolkit(target: Target, vendor: str) -> Target:
    """The same machine with whatever runtime of that vendor a plan needs."""
    facts = replace(target.drivers.get(vendor, DriverFacts()), toolkit="")
    return replace(target, drivers={**target.drivers, vendor: facts})
