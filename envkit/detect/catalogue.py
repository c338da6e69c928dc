"""The door to the catalogue of devices: which product and architecture a PCI id or a name stands for."""

from __future__ import annotations

import re

from envkit.model import Product

# PCI vendor ids as the PCI ID Repository (pciutils/pciids) lists them, and the words that facts use for the vendors.
VENDORS = {
    "10de": "nvidia",
    "1002": "amd",
    "8086": "intel",
    "106b": "apple",
    "19e5": "huawei",
    "1ae0": "google",
    "1d0f": "aws",
    "1da3": "habana",
    "1ed5": "moore-threads",
    "cabc": "cambricon",
    "1d94": "hygon",
    "1e36": "enflame",
    "1e3e": "iluvatar",
    "9999": "metax",
    "1e52": "tenstorrent",
    "1d22": "baidu",
}

# Adapters that only draw: virtual ones of hypervisors, and the display chips of management controllers.
VIRTUAL = {
    "1af4": "virtio",
    "1b36": "QXL",
    "1234": "Bochs",
    "15ad": "VMware",
    "80ee": "VirtualBox",
    "1414": "Hyper-V",
    "1ab8": "Parallels",
    "5853": "Xen",
    "1013": "Cirrus",
    "1a03": "ASPEED",
    "102b": "Matrox",
}

# Display chips of management controllers that carry the id of a vendor of accelerators.
MANAGEMENT = {"1002:515e": "ES1000", "1002:4752": "Rage XL", "19e5:1711": "iBMC"}

# Names that tell nothing: the catalogue's are better.
_BLAND = re.compile(
    r"(AMD )?Radeon(\(TM\))? Graphics$|(NVIDIA )?Graphics Device$|(NVIDIA )?Device [0-9a-f]{4}$|"
    r"Intel\(R\) Graphics( \[0x[0-9a-f]+\])?$|"
    r"(Intel\(R\) )?(UHD |Iris\(R\) Xe |Arc\(TM\) )?Graphics$|N/?A$|Unknown$|Microsoft Basic Display Adapter$|Video Controller.*|"
    r"3D Video Controller$|Display controller$|0x[0-9a-f]{4}$|AMD$|NVIDIA$|$",
    re.IGNORECASE,
)


def product(pci_id: str) -> Product | None:
    """The product behind a PCI id such as 10de:2684."""
    from envkit.devices import by_pci

    return by_pci(pci_id) if pci_id else None


def arch_of_name(name: str) -> str:
    """The architecture that a product's name stands for; "" where it is unknown or may mean several."""
    from envkit.devices import find

    if not name:
        return ""
    found = find(name)
    return found.archs[0] if len(found.archs) == 1 and not found.ambiguous else ""


def is_bland(name: str) -> bool:
    """Whether a device's name tells no more than its vendor."""
    return _BLAND.match(name.strip()) is not None


def best_name(*names: str) -> str:
    """The first of `names` that tells the product; else one that lists several; else any.

    The PCI ID Repository writes lists for chips that were sold under several names: "Navi 31 [Radeon RX 7900 XT/7900 XTX]".
    """
    known = [name for name in names if name]
    telling = [name for name in known if not is_bland(name)]
    return next((name for name in telling if "[" not in name), next(iter(telling), next(iter(known), "")))


def vendor_of_name(name: str) -> str:
    """The vendor that a product's name begins with or holds."""
    for pattern, vendor in (
        (r"nvidia|geforce|quadro|tesla ", "nvidia"),
        (r"\bamd\b|radeon|instinct|firepro", "amd"),
        (r"intel", "intel"),
        (r"apple", "apple"),
        (r"qualcomm|adreno", "qualcomm"),
        (r"ascend", "huawei"),
    ):
        if re.search(pattern, name, re.IGNORECASE):
            return vendor
    return ""
