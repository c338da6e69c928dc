"""Accelerators by the names people write, by architecture and by PCI id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from envkit.devices import names
from envkit.devices.adapters import VENDORS
from envkit.devices.catalogue import Catalogue, read_catalogue
from envkit.model import Product

__all__ = ["Found", "by_pci", "find", "pci_id_of"]

_PCI = re.compile(r"\[?(?:0x)?([0-9a-f]{4})[:/-](?:0x)?([0-9a-f]{4})\]?", re.IGNORECASE)
_PCI_WINDOWS = re.compile(r"ven_([0-9a-f]{4})&dev_([0-9a-f]{4})", re.IGNORECASE)
_PCI_LSPCI = re.compile(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", re.IGNORECASE)
_CAPABILITY = re.compile(r"(?:compute capability |cc ?)?(\d{1,2})\.(\d)", re.IGNORECASE)
_SM = re.compile(r"(?:sm|compute)[_ -]?(\d{2,3})[af]?", re.IGNORECASE)
_GFX = re.compile(r"(gfx[0-9a-f]{3,4})(?::.*)?", re.IGNORECASE)
_DEVICE = re.compile(r"(.+?) device ([0-9a-f]{4})", re.IGNORECASE)
_SLICE = re.compile(r"(?:google )?(?:cloud )?(?:tpu[ -]?)?([a-z0-9]+)-(\d{1,5})", re.IGNORECASE)
_INSTANCE = re.compile(r"([a-z]+\d[a-z]*)\.(?:metal|\d*[a-z]*large)", re.IGNORECASE)
_SUGGESTIONS = 5
_CHIP = re.compile(r"(?:g[a-z]|tu|ad)\d{2}[0-9a-z]{1,4}", re.IGNORECASE)
_LONGEST = 200  # of a query; no name comes near it


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What a query means."""

    products: tuple[Product, ...] = ()
    archs: tuple[str, ...] = ()
    vendor: str = ""
    kind: str = "none"  # product, arch, pci, none
    ambiguous: bool = False  # it means different things: `products` are what it may be
    suggestions: tuple[str, ...] = ()  # names that come close, when nothing was found
    count: int | None = 1  # how many of it, as in "4x A100"; None where a slice's or an instance's number is not known


def find(query: str) -> Found:
    """What a text means: a name as people and tools write it, an architecture (sm_86, 8.6, gfx1030) or a PCI id (10de:2684).

    A number of cards before or behind a name is told in `count`; close misses are only suggested.
    """
    known = read_catalogue()
    text = names.in_latin(" ".join(query.split())[:_LONGEST])
    if not text:
        return Found()
    found = _meaning(text, known)
    if found:
        return found
    for reading, number, chip in names.readings(text):
        if found := _meaning(reading, known):
            found = _with_chip(found, chip, known)
            return replace(found, count=number) if found.count == 1 else found
    if found := _both(text, known):
        return found
    name = names.counted(text)[0]
    pci_id = pci_id_of(text)
    close = _close_archs(text, known) or _close(text, known) or _close(name, known)
    return Found(vendor=VENDORS.get(pci_id[:4], "") if pci_id else "", suggestions=close)


def _meaning(text: str, known: Catalogue) -> Found | None:
    """What a text means as it stands."""
    if found := _by_pci(text, known) or _by_arch(text, known):
        return found
    named = _by_name(text, known)
    word = text.lower()
    if word in known.archs:
        # "m1" is what the chip is called too; "m4" may be a Tesla.
        sure = named is not None and (not named.ambiguous or not named.vendor or not any(c.isdigit() for c in word))
        if not sure and (named is None or text == word):
            return Found(archs=(word,), vendor=known.archs[word], kind="arch")
    return named or _by_slice(text, known) or _by_family(text, known)


def _with_chip(found: Found, chip: str, known: Catalogue) -> Found:
    """What a name means on a known chip: "Raptor Lake-P [Iris Xe Graphics]"."""
    told = _by_family(chip, known) if chip and found.ambiguous else None
    kept = tuple(product for product in found.products if told and product.arch in told.archs)
    if told is None or not kept or len(told.archs) > 1:
        return found
    ambiguous = len({names.base(product.name) for product in kept}) > 1
    return replace(found, products=kept, archs=told.archs, vendor=told.vendor, ambiguous=ambiguous)


def _both(text: str, known: Catalogue) -> Found | None:
    """Two names of one thing: "GB10 / DGX Spark"."""
    parts = [_meaning(part, known) for part in text.split(" / ")]
    first = parts[0]
    if len(parts) < 2 or first is None or any(part is None or part.archs != first.archs for part in parts):
        return None
    return first


def pci_id_of(text: str) -> str:
    """The PCI id that a text writes, as "10de:2684"; "" where it is none."""
    found = _PCI.fullmatch(text.strip()) or _PCI_WINDOWS.search(text) or _PCI_LSPCI.search(text)
    return f"{found[1]}:{found[2]}".lower() if found else ""


def by_pci(pci_id: str) -> Product | None:
    """The product that a PCI id names, or its chip where several products have the id; None where it is not known."""
    known = read_catalogue()
    found = _PCI.fullmatch(pci_id.strip())
    entry = known.pci.get(f"{found[1]}:{found[2]}".lower()) if found else None
    return _of_chip(entry, f"{found[1]}:{found[2]}".lower(), known) if entry and found else None


def _of_chip(entry: list[object], pci_id: str, known: Catalogue) -> Product:
    vendor, arch, chip, name, numbers = entry
    assert isinstance(numbers, list)  # noqa: S101
    products = [known.product(number) for number in numbers]
    same = [product for product in products if names.key(names.words(product.name)) == names.key(names.words(str(name)))]
    if len(products) == 1 or same:
        product = same[0] if same else products[0]
        # A name sold with several chips: the id says which one this is.
        return product if product.arch or not arch else replace(product, arch=str(arch), variants=())
    title = str(name) or str(chip) or pci_id
    archs = dict.fromkeys(each for product in products for each in (product.variants or (product.arch,)) if each)

    def shared(values: Iterable[str]) -> str:
        distinct = set(values)
        return distinct.pop() if len(distinct) == 1 else ""

    return Product(
        name=f"{chip} [{title}]" if chip and "/" in title else title,
        vendor=str(vendor),
        arch=str(arch),
        family=shared(product.family for product in products),
        kind=shared(product.kind for product in products),
        cpu=shared(product.cpu for product in products),
        pci_ids=(pci_id,),
        variants=tuple(archs) if not arch and len(archs) > 1 else (),
    )


def _by_pci(text: str, known: Catalogue) -> Found | None:
    pci_id = pci_id_of(text)
    if not pci_id and (device := _DEVICE.fullmatch(text)):
        # lspci without a name for the chip: "Huawei Technologies Co., Ltd. Device d802".
        maker = names.vendor_of(names.words(device[1]))
        pci_id = next((f"{code}:{device[2].lower()}" for code, vendor in VENDORS.items() if vendor == maker), "")
    entry = known.pci.get(pci_id) if pci_id else None
    if entry is None:
        return None
    product = _of_chip(entry, pci_id, known)
    archs = (product.arch,) if product.arch else product.variants
    return Found(products=(product,), archs=archs, vendor=product.vendor, kind="pci", ambiguous=len(archs) > 1)


def _arch_written(text: str) -> str:
    """The architecture that a text writes as NVIDIA's and AMD's tools do; "" where it writes none."""
    if found := _CAPABILITY.fullmatch(text):
        return f"sm_{found[1]}{found[2]}"
    if found := _SM.fullmatch(text):
        return f"sm_{found[1]}"
    found = _GFX.fullmatch(text)
    return found[1].lower() if found else ""


def _by_arch(text: str, known: Catalogue) -> Found | None:
    arch = _arch_written(text)
    return Found(archs=(arch,), vendor=known.archs[arch], kind="arch") if arch in known.archs else None


def _close_archs(text: str, known: Catalogue) -> tuple[str, ...]:
    from difflib import get_close_matches

    arch = _arch_written(text)
    return tuple(get_close_matches(arch, known.archs, n=_SUGGESTIONS, cutoff=0.7)) if arch else ()


def _by_slice(text: str, known: Catalogue) -> Found | None:
    """A slice of TPUs (v5litepod-8), or an instance that has nothing but one kind of chip (trn1.32xlarge)."""
    sliced, instance = _SLICE.fullmatch(text), _INSTANCE.fullmatch(text)
    if sliced and sliced[1].lower() in known.slices:
        found = _by_name(f"tpu {sliced[1]}", known)
        a_chip, number = known.slices[sliced[1].lower()], int(sliced[2])
        # Half a chip cannot be had, so a number that gives one means something else.
        sure = a_chip and number and number % a_chip == 0
        return replace(found, count=number // a_chip if sure else None) if found else None
    if instance and (found := _by_name(instance[1], known)) and found.vendor == "aws":
        return replace(found, count=known.instances.get(text.lower()))
    return None


def _by_family(text: str, known: Catalogue) -> Found | None:
    """A chip (AD102, Navi 31) or a family (Hopper, RDNA3), where it is of few architectures."""
    parts = names.words(text)
    vendor, key = names.vendor_of(parts), names.key(names.bare(parts))
    pairs = [(maker, arch) for maker, *archs in [known.chips.get(key, [""])] for arch in archs]
    pairs = pairs or [(maker, arch) for maker, arch in known.families.get(key, ())]
    if not pairs and _CHIP.fullmatch(text):
        begin = max((each for each in known.prefixes if text.lower().startswith(each)), key=len, default="")
        pairs = [(maker, arch) for maker, arch in [known.prefixes[begin]]] if begin else []
    pairs = [pair for pair in pairs if names.made_by(pair[0], vendor)]
    makers = {maker for maker, _ in pairs}
    if len(makers) != 1:
        return None
    archs = tuple(dict.fromkeys(arch for _, arch in pairs))
    return Found(archs=archs, vendor=makers.pop(), kind="arch", ambiguous=len(archs) > 1)


def _by_name(text: str, known: Catalogue) -> Found | None:
    parts = names.words(text)
    vendor = names.vendor_of(parts)
    hits = _hits(names.bare(parts), vendor, known)
    if not hits and (begun := _begun(text, vendor, known)):
        return begun
    if not hits:
        shorter, memory = names.without_memory(text)
        if memory is not None:
            hits = _hits(names.bare(names.words(shorter)), vendor, known)
            hits = [hit for hit in hits if not hit[0].memory_gib or memory in hit[0].memory_gib or hit[2]]
        if not hits:
            return None
    # "NVIDIA T1000" is what the driver calls one card; "T1000" is what people call several.
    whole = names.key(names.bare(parts))
    if vendor and any(distance == 0 for _, distance, _ in hits):
        hits = [hit for hit in hits if hit[1] == 0]
    elif any(distance < 2 for _, distance, _ in hits) and not whole[0].isdigit():
        hits = [hit for hit in hits if hit[1] < 2]
    hits.sort(key=lambda hit: (hit[1], names.key(names.bare(names.words(hit[0].name))) != whole, len(hit[0].name)))
    products = tuple(product for product, _, _ in hits)
    archs = tuple(dict.fromkeys(arch for product in products for arch in ((product.arch,) if product.arch else product.variants)))
    vendors = {product.vendor for product in products}
    return Found(
        products=products,
        archs=archs,
        vendor=products[0].vendor if len(vendors) == 1 else "",
        kind="product",
        ambiguous=len(archs) > 1 or len({names.base(product.name) for product in products}) > 1,
    )


def _begun(text: str, vendor: str, known: Catalogue) -> Found | None:
    """Several products of one architecture whose names go on where the query ends: "RTX PRO 6000 Blackwell"."""
    parts = names.bare(names.words(text))
    start = names.key(parts)
    if len(start) < 3 or not any(part.isdigit() for part in parts):
        return None
    # The query's last word must be a whole one: "V100" begins no "V100S".
    whole = re.compile(r"[\W_]*".join(map(re.escape, parts)) + r"(?![a-z0-9])", re.IGNORECASE)
    numbers = dict.fromkeys(
        number for key, entries in known.names.items() if key.startswith(start) for number, distance in entries if distance < 2
    )
    found = [product for product in map(known.product, numbers) if names.made_by(product.vendor, vendor)]
    found = [product for product in found if any(whole.search(name) for name in (product.name, *product.aliases))]
    archs = {(product.vendor, product.arch) for product in found}
    if len(found) < 2 or len(archs) != 1 or not found[0].arch:
        return None
    found.sort(key=lambda product: len(product.name))
    return Found(products=tuple(found), archs=(found[0].arch,), vendor=found[0].vendor, kind="product")


def _hits(parts: list[str], vendor: str, known: Catalogue) -> list[tuple[Product, int, bool]]:
    """Products of that name: each with its distance from it, and whether it was sold with other memory too."""
    entries = known.names.get(names.key(parts), ())
    found = [(known.product(number), distance, number in known.more_memory) for number, distance in entries]
    return [hit for hit in found if names.made_by(hit[0].vendor, vendor)]


def _close(name: str, known: Catalogue) -> tuple[str, ...]:
    """Names that come close: those that go on where the query ends, then those with a slip in them, then those that hold it."""
    from difflib import get_close_matches

    parts = names.words(names.without_memory(name)[0])
    vendor, text = names.vendor_of(parts), names.key(names.bare(parts))
    if len(text) < 3:
        return ()
    digit = next((c for c in text if c.isdigit()), "")
    # Only keys of like length that hold the first digit, so that a miss stays cheap.
    likely = [key for key in known.names if abs(len(key) - len(text)) <= 4 and digit in key]
    longer = sorted((key for key in known.names if key.startswith(text)), key=len)
    holding = sorted((key for key in known.names if text in key), key=len) if len(text) > 3 else []
    matches = (*longer, *get_close_matches(text, likely, n=_SUGGESTIONS * 3, cutoff=0.75), *holding)
    if not matches and len(stem := text[: text.find(digit)] if digit else "") > 3:
        # Another number of the same series: "Gaudi 4", "TPU v9".
        matches = tuple(sorted((key for key in known.names if key.startswith(stem)), key=lambda key: (len(key), key)))
    found: list[str] = []
    for key in matches:
        for number, _ in known.names[key]:
            product = known.product(number)
            if product.name not in found and names.made_by(product.vendor, vendor):
                found.append(product.name)
        if len(found) >= _SUGGESTIONS:
            break
    return tuple(found[:_SUGGESTIONS])
