"""Accelerators by the names people write, by architecture and by PCI id."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from envkit.devices import names
from envkit.devices.catalogue import Catalogue, read_catalogue
from envkit.model import Product

__all__ = ["Found", "by_pci", "find", "pci_id_of"]

_PCI = re.compile(r"\[?(?:0x)?([0-9a-f]{4})[:/-](?:0x)?([0-9a-f]{4})\]?", re.IGNORECASE)
_PCI_WINDOWS = re.compile(r"ven_([0-9a-f]{4})&dev_([0-9a-f]{4})", re.IGNORECASE)
_CAPABILITY = re.compile(r"(?:compute capability |cc ?)?(\d{1,2})\.(\d)", re.IGNORECASE)
_SM = re.compile(r"(?:sm|compute)[_ -]?(\d{2,3})[af]?", re.IGNORECASE)
_GFX = re.compile(r"(gfx[0-9a-f]{3,4})(?::.*)?", re.IGNORECASE)
_SUGGESTIONS = 5
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


def find(query: str) -> Found:
    """What a name, an architecture (sm_86, 8.6, gfx1030) or a PCI id (10de:2684) means; close misses are only suggested."""
    known = read_catalogue()
    text = " ".join(query.split())[:_LONGEST]
    return _by_pci(text, known) or _by_arch(text, known) or _by_name(text, known)


def pci_id_of(text: str) -> str:
    """The PCI id that a text writes, as "10de:2684"; "" where it is none."""
    found = _PCI.fullmatch(text.strip()) or _PCI_WINDOWS.search(text)
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
    return Product(
        name=f"{chip} [{title}]" if chip and "/" in title else title,
        vendor=str(vendor),
        arch=str(arch),
        family=products[0].family if products else "",
        kind=products[0].kind if products and len({product.kind for product in products}) == 1 else "",
        cpu=products[0].cpu if products and len({product.cpu for product in products}) == 1 else "",
        pci_ids=(pci_id,),
    )


def _by_pci(text: str, known: Catalogue) -> Found | None:
    found = _PCI.fullmatch(text) or _PCI_WINDOWS.search(text)
    if not found:
        return None
    pci_id = f"{found[1]}:{found[2]}".lower()
    entry = known.pci.get(pci_id)
    if entry is None:
        maker = {"10de": "nvidia", "1002": "amd", "8086": "intel"}.get(pci_id[:4], "")
        return Found(vendor=maker)
    product = _of_chip(entry, pci_id, known)
    archs = (product.arch,) if product.arch else product.variants
    return Found(products=(product,), archs=archs, vendor=product.vendor, kind="pci", ambiguous=len(archs) > 1)


def _by_arch(text: str, known: Catalogue) -> Found | None:
    arch = ""
    if found := _CAPABILITY.fullmatch(text):
        arch = f"sm_{found[1]}{found[2]}"
    elif found := _SM.fullmatch(text):
        arch = f"sm_{found[1]}"
    elif found := _GFX.fullmatch(text):
        arch = found[1].lower()
    elif text.lower() in known.archs:
        arch = text.lower()
    if not arch:
        return None
    if arch in known.archs:
        return Found(archs=(arch,), vendor=known.archs[arch], kind="arch")
    from difflib import get_close_matches

    return Found(suggestions=tuple(get_close_matches(arch, known.archs, n=_SUGGESTIONS, cutoff=0.7)))


def _by_name(text: str, known: Catalogue) -> Found:
    parts = names.words(text)
    vendor = names.vendor_of(parts)
    hits = _hits(names.bare(parts), vendor, known)
    if not hits and (begun := _begun(text, vendor, known)):
        return begun
    if not hits:
        shorter, memory = names.without_memory(text)
        if memory is not None:
            hits = _hits(names.bare(names.words(shorter)), vendor, known)
            hits = [hit for hit in hits if not hit[0].memory_gib or memory in hit[0].memory_gib]
        if not hits:
            return Found(suggestions=_close(names.bare(names.words(shorter)), vendor, known))
    # "NVIDIA T1000" is what the driver calls one card; "T1000" is what people call several.
    whole = names.key(names.bare(parts))
    if vendor and any(distance == 0 for _, distance in hits):
        hits = [hit for hit in hits if hit[1] == 0]
    elif any(distance < 2 for _, distance in hits) and not whole[0].isdigit():
        hits = [hit for hit in hits if hit[1] < 2]
    hits.sort(key=lambda hit: (hit[1], names.key(names.words(hit[0].name)) != whole, len(hit[0].name)))
    products = tuple(product for product, _ in hits)
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
    found = [product for product in map(known.product, numbers) if not vendor or product.vendor == vendor]
    found = [product for product in found if any(whole.search(name) for name in (product.name, *product.aliases))]
    archs = {(product.vendor, product.arch) for product in found}
    if len(found) < 2 or len(archs) != 1 or not found[0].arch:
        return None
    found.sort(key=lambda product: len(product.name))
    return Found(products=tuple(found), archs=(found[0].arch,), vendor=found[0].vendor, kind="product")


def _hits(parts: list[str], vendor: str, known: Catalogue) -> list[tuple[Product, int]]:
    entries = known.names.get(names.key(parts), ())
    found = [(known.product(number), distance) for number, distance in entries]
    return [hit for hit in found if not vendor or hit[0].vendor == vendor]


def _close(parts: list[str], vendor: str, known: Catalogue) -> tuple[str, ...]:
    """Names that come close: those that go on where the query ends, then those with a slip in them, then those that hold it."""
    from difflib import get_close_matches

    text = names.key(parts)
    if len(text) < 3:
        return ()
    digit = next((c for c in text if c.isdigit()), "")
    # Only keys of like length that hold the first digit, so that a miss stays cheap.
    likely = [key for key in known.names if abs(len(key) - len(text)) <= 4 and digit in key]
    longer = sorted((key for key in known.names if key.startswith(text)), key=len)
    holding = sorted((key for key in known.names if text in key), key=len) if len(text) > 3 else []
    found: list[str] = []
    for key in (*longer, *get_close_matches(text, likely, n=_SUGGESTIONS * 3, cutoff=0.75), *holding):
        for number, _ in known.names[key]:
            product = known.product(number)
            if product.name not in found and (not vendor or product.vendor == vendor):
                found.append(product.name)
        if len(found) >= _SUGGESTIONS:
            break
    return tuple(found[:_SUGGESTIONS])
