"""Whose a PCI device is, and which of them only draw."""

from __future__ import annotations

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
    "1ed5": "moorethreads",
    "cabc": "cambricon",
    "17cb": "qualcomm",
    "5143": "qualcomm",
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
