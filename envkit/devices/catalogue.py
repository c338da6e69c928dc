"""The shipped catalogue: one TOML file a vendor, read into an index by name and PCI id that is kept as JSON."""

from __future__ import annotations

from functools import cache
from typing import Any

from envkit.data import packaged
from envkit.devices import names
from envkit.matrix.parsed import derive
from envkit.model import Product

# Written out, never collected by scanning: one file each beside this module.
VENDORS = ("nvidia", "amd", "intel")
# Changes whenever `_index` or envkit.devices.names does: indexes that are kept must not outlive their recipe.
_RECIPE = "envkit devices 2"


class Catalogue:
    """Every known accelerator, found by name, architecture or PCI id."""

    def __init__(self, index: dict[str, Any]) -> None:
        self._products: list[dict[str, Any]] = index["products"]
        self.names: dict[str, list[list[int]]] = index["names"]  # key -> [product, distance]
        self.archs: dict[str, str] = index["archs"]  # architecture -> vendor
        self.pci: dict[str, list[Any]] = index["pci"]  # id -> [vendor, architecture, chip, name, products]

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
    products: list[dict[str, Any]] = []
    by_name: dict[str, list[list[int]]] = {}
    archs: dict[str, str] = {}
    pci: dict[str, list[Any]] = {}
    for file in files:
        vendor, prefix = file["vendor"], file["pci_vendor"]
        archs.update(dict.fromkeys(file["archs"], vendor))
        for chip_id, (arch, chip, name) in file["pci"].items():
            pci[f"{prefix}:{chip_id}"] = [vendor, arch, chip, name, []]
        sources = file["source"]
        for row in file["product"]:
            number = len(products)
            ids = [f"{prefix}:{chip_id}" for chip_id in row.get("pci_ids", ())]
            source = sources[row["source"]]
            products.append(
                {"arch": "", **row, "vendor": vendor, "pci_ids": ids, "source": f"{source['text']} <{source['url']}>"}
            )
            for pci_id in ids:
                pci[pci_id][4].append(number)
            for key, distance in names.keys(row["name"], row.get("aliases", ())).items():
                by_name.setdefault(key, []).append([number, distance])
    return {"products": products, "names": by_name, "archs": archs, "pci": pci}
