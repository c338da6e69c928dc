"""The door to the catalogue of devices: which product and architecture a PCI id or a name stands for."""

from __future__ import annotations

import re

from envkit.devices.adapters import MANAGEMENT as MANAGEMENT
from envkit.devices.adapters import VENDORS as VENDORS
from envkit.devices.adapters import VIRTUAL as VIRTUAL
from envkit.model import Product

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
        (r"intel(?!.*gaudi)", "intel"),
        (r"apple", "apple"),
        (r"qualcomm|adreno", "qualcomm"),
        (r"ascend", "huawei"),
        (r"gaudi|habana", "habana"),
        (r"cambricon|\bmlu\d", "cambricon"),
        (r"moore threads|\bmtt\b", "moorethreads"),
    ):
        if re.search(pattern, name, re.IGNORECASE):
            return vendor
    return ""
