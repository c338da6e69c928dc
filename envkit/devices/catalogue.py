"""The shipped catalogue: one TOML file a vendor, read into an index by name and PCI id that is kept as JSON."""

from __future__ import annotations

from functools import cache
from typing import Any

from envkit.data import packaged
from envkit.devices import names
from envkit.matrix.parsed import derive
from envkit.model import Product

# Written out, never collected by scanning: one file each beside this module.
VENDORS = (
    "nvidia",
    "amd",
    "intel",
    "apple",
    "huawei",
    "google",
    "habana",
    "cambricon",
    "moorethreads",
    "aws",
    "qualcomm",
)
# Changes whenever `_index` or envkit.devices.names does: indexes that are kept must not outlive their recipe.
_RECIPE = "envkit devices 4"


class Catalogue:
    """Every known accelerator, found by name, architecture or PCI id."""

    def __init__(self, index: dict[str, Any]) -> None:
        self._products: list[dict[str, Any]] = index["products"]
        self.names: dict[str, list[list[int]]] = index["names"]  # key -> [product, distance]
        self.archs: dict[str, str] = index["archs"]  # architecture -> vendor
        self.pci: dict[str, list[Any]] = index["pci"]  # id -> [vendor, architecture, chip, name, products]
        self.families: dict[str, list[list[str]]] = index["families"]  # key -> [vendor, architecture]
        self.chips: dict[str, list[str]] = index["chips"]  # key -> [vendor, architecture, ...]
        self.prefixes: dict[str, list[str]] = index["prefixes"]  # how chip names begin -> [vendor, architecture]
        self.slices: dict[str, int] = index["slices"]  # TPU generation -> what a slice's number counts; 0: unknown
        self.instances: dict[str, int] = index["instances"]  # EC2 instance -> chips
        self.more_memory: frozenset[int] = frozenset(index["more_memory"])  # sold with other sizes too

    def __len__(self) -> int:
        return len(self._products)

    def product(self, number: int) -> Product:
        """The product at a place of the index."""
        row: dict[str, Any] = {
            word: tuple(value) if isinstance(value, list) else value for word, value in self._products[number].items()
        }
        return Product(**row)


@cache
def read_catalogue() -> Catalogue:
    """The catalogue; read once in a process."""
    paths = [packaged("devices") / f"{vendor}.toml" for vendor in VENDORS]
    return Catalogue(derive(paths, _RECIPE, _index))


def _index(files: list[dict[str, Any]]) -> dict[str, Any]:
    index: dict[str, Any] = {"products": [], "names": {}, "archs": {}, "pci": {}, "families": {}, "chips": {}, "prefixes": {}}
    index |= {"slices": {}, "instances": {}, "more_memory": []}
    for file in files:
        vendor, prefix = file["vendor"], file["pci_vendor"]
        index["archs"].update(dict.fromkeys(file["archs"], vendor))
        index["slices"].update(file.get("slice", {}))
        index["instances"].update(file.get("instance", {}))
        index["prefixes"].update({begin.lower(): [vendor, arch] for begin, arch in file.get("chip", {}).items()})
        for chip_id, (arch, chip, name) in file["pci"].items():
            index["pci"][f"{prefix}:{chip_id}"] = [vendor, arch, chip, name, []]
            _chip(index["chips"], vendor, arch, chip)
        for name, archs in file.get("codename", {}).items():
            index["families"][names.key(names.bare(names.words(name)))] = [[vendor, arch] for arch in archs]
        for row in file["product"]:
            _product(index, vendor, prefix, dict(row), file["source"])
    return index


def _chip(chips: dict[str, list[str]], vendor: str, arch: str, chip: str) -> None:
    key = names.key(names.words(chip))
    if arch and len(key) > 3:
        entry = chips.setdefault(key, [vendor])
        if arch not in entry:
            entry.append(arch)


def _product(index: dict[str, Any], vendor: str, prefix: str, row: dict[str, Any], sources: dict[str, Any]) -> None:
    number = len(index["products"])
    ids = [f"{prefix}:{chip_id}" for chip_id in row.get("pci_ids", ())]
    source = sources[row["source"]]
    if row.pop("more_memory", False):
        index["more_memory"].append(number)
    index["products"].append(
        {"arch": "", **row, "vendor": vendor, "pci_ids": ids, "source": f"{source['text']} <{source['url']}>"}
    )
    for pci_id in ids:
        index["pci"][pci_id][4].append(number)
    for key, distance in names.keys(row["name"], row.get("aliases", ())).items():
        index["names"].setdefault(key, []).append([number, distance])
    if row.get("family") and row.get("arch"):
        members = index["families"].setdefault(names.key(names.bare(names.words(row["family"]))), [])
        if [vendor, row["arch"]] not in members:
            members.append([vendor, row["arch"]])
