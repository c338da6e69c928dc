"""Every product and every id of the collected facts, asked of the catalogue: names, architectures, memory, years, kinds."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from envkit.devices import Found, by_pci, find
from envkit.model import Product

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
pytestmark = pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")

# What the facts dispute themselves: the notes beside these rows name both architectures.
DISPUTED = {"Radeon 820M": {"gfx1152", "gfx1153"}, "Ryzen AI 5 330": {"gfx1152", "gfx1153"}}
# Several products in one row of the facts, written so that no part is a name of its own.
WRITTEN_TOGETHER = {
    "Radeon R9 Fury / Nano": ["Radeon R9 Fury", "Radeon R9 Nano"],
    "Ryzen AI Max+ PRO 495 / Max PRO 490 / 485 graphics": [
        "Ryzen AI Max+ PRO 495",
        "Ryzen AI Max PRO 490",
        "Ryzen AI Max PRO 485",
    ],
    "Radeon 610M / Radeon Graphics (Raphael)": ["Radeon 610M (Raphael)", "Radeon Graphics (Raphael)"],
}


def facts(name: str) -> dict[str, Any]:
    return tomllib.loads((FACTS / f"{name}.toml").read_text(encoding="utf-8"))


def sm(capability: str) -> str:
    return "sm_" + capability.replace(".", "")


def named(found: Found, name: str) -> Product:
    return next(product for product in found.products if product.name == name)


# ---- NVIDIA ------------------------------------------------------------------------------------------------------


def test_nvidia_products() -> None:
    rows = facts("nvidia_gpus")["gpu"]
    assert len(rows) == 400
    for row in rows:
        name = row["name"]
        wanted = {sm(each) for each in row["cc_variants"]} if row["cc"] == "varies" else {sm(row["cc"])}
        for query in (name, f"NVIDIA {name}"):
            product = named(find(query), name)
            assert {product.arch, *product.variants} - {""} == wanted, name
            assert list(product.memory_gib) == row["memory_gib"], name
            assert product.year == row.get("first_year"), name
            assert sorted(product.pci_ids) == sorted(f"10de:{chip_id}" for chip_id in row.get("pci_ids", ())), name
        # Facts call laptop parts by the class of their desktop part.
        assert product.kind == row["class"] or (product.kind == "laptop" and row["class"] in ("consumer", "workstation")), name
        assert find(name).ambiguous or set(find(name).archs) == wanted, name
        if "conflict" in row:
            assert product.note == row["conflict"]
        if "no" in row.get("memory_note", "") and not row["memory_gib"]:
            assert product.memory_gib == ()


def test_nvidia_ids() -> None:
    ids = facts("nvidia_pci_ids")["ids"]
    assert len(ids) == 938
    for chip_id, (_, capability, _) in ids.items():
        product = by_pci(f"10de:{chip_id}")
        assert product is not None
        assert product.arch == ("" if capability == "unknown" else sm(capability)), chip_id


def test_names_of_nvidias_driver() -> None:
    """Where the driver has one name for several chips, the name is ambiguous; the id never is."""
    for name, row in facts("nvidia_pci_ids")["driver_name"].items():
        found = find(name)
        if row["cc"] not in ("varies", "unknown"):
            assert sm(row["cc"]) in found.archs, name
            assert found.ambiguous or found.archs == (sm(row["cc"]),), name


def test_nvidia_chips() -> None:
    for row in facts("nvidia_gpus")["chip"]:
        for chip in (row["prefix"], row["prefix"] + "GL", row["prefix"] + "M"):
            if len(row["prefix"]) > 4:  # "GK10" is no chip yet
                assert find(chip).archs == (sm(row["cc"]),), chip
    assert find("GK107").archs == ("sm_30",)
    assert find("GK110B").archs == ("sm_35",)


def test_a_laptop_part_has_the_architecture_of_its_series() -> None:
    """The facts' name rule, with its exceptions."""
    rows = {row["name"]: row for row in facts("nvidia_gpus")["gpu"]}
    tried = 0
    for name, row in rows.items():
        desktop = name.removesuffix(" Laptop GPU")
        if name != desktop and desktop in rows and "varies" not in (row["cc"], rows[desktop]["cc"]):
            tried += 1
            assert find(name).archs == find(desktop).archs, name
    assert tried > 15
    assert find("GeForce RTX 2050 Laptop GPU").archs == ("sm_86",)
    for name in ("Quadro K1200", "Quadro K2200", "Quadro K620", "Quadro K2200M", "Quadro K620M", "GeForce GTX 745"):
        assert find(name).archs == ("sm_50",), name
    for name, arch in (("MX110", "sm_50"), ("MX130", "sm_50"), ("MX150", "sm_61"), ("MX450", "sm_75"), ("MX570", "sm_86")):
        assert find(f"GeForce {name}").archs == (arch,), name


# ---- AMD ---------------------------------------------------------------------------------------------------------


def test_amd_products() -> None:
    rows = facts("amd_gpus")["gpu"]
    assert len(rows) == 128
    for row in rows:
        for name in WRITTEN_TOGETHER.get(row["name"], [row["name"]]):
            found = find(name)
            wanted = DISPUTED.get(name, {row["gfx"]} - {"unknown"})
            assert (set(found.archs), found.vendor) == (wanted, "amd"), name
            product = found.products[0]
            if row.get("memory_gib", "unknown") != "unknown":
                assert set(row["memory_gib"]) <= set(product.memory_gib), name
            if row["class"] == "apu":
                assert product.kind == "apu", name
            seen = {pci_id for each in found.products for pci_id in each.pci_ids}
            assert set(row["pci_ids"]) <= seen, name
        for processor in row.get("cpus", ()):
            assert set(find(processor).archs) == DISPUTED.get(processor, {row["gfx"]}), processor


def test_amd_ids_and_processors() -> None:
    file = facts("amd_gpus")
    assert len(file["pci"]) == 174
    for row in file["pci"]:
        product = by_pci(row["id"])
        assert product is not None
        assert product.arch == ("" if row["gfx"] == "unknown" else row["gfx"]), row["id"]
    for row in file["ryzen_official"]:
        for processor in row["cpus"]:
            assert row["gfx"] in find(processor).archs, processor
            assert set(find(f"AMD {processor}").archs) == DISPUTED.get(processor, {row["gfx"]}), processor
        for graphics in filter(None, row.get("graphics", "").split(", ")):
            assert row["gfx"] in find(f"AMD Radeon(TM) {graphics} Graphics").archs, graphics
    for row in file["gfx"]:
        assert find(row["gfx"]).archs == (row["gfx"],)
        assert find(f"{row['gfx']}:sramecc+:xnack-").archs == (row["gfx"],)


def test_other_sizes_of_memory_may_be_named_where_the_facts_say_so() -> None:
    for row in facts("amd_gpus")["gpu"]:
        note = row.get("notes", "")
        free = row.get("memory_gib", "unknown") == "unknown" or "others may exist" in note or "other capacities exist" in note
        if row["class"] != "apu":
            for name in WRITTEN_TOGETHER.get(row["name"], [row["name"]]):
                assert bool(find(f"{name} 7GB").products) == free, name


# ---- the others --------------------------------------------------------------------------------------------------


INTEL_FAMILIES = {
    "DG1": {"dg1"},
    "Alchemist": {"dg2", "ats-m"},
    "Battlemage": {"bmg"},
    "Tiger Lake": {"tgl"},
    "Rocket Lake": {"rkl"},
    "Alder Lake": {"adl"},
    "Raptor Lake": {"rpl"},
    "Meteor Lake": {"mtl-h", "mtl-u"},
    "Arrow Lake": {"arl-h", "arl-u", "arl-s"},
    "Lunar Lake": {"lnl"},
    "Panther Lake": {"ptl"},
    "Wildcat Lake": {"wcl"},
    "Crescent Island": {"cri"},
    "Nova Lake": {"nvl"},
    "Ponte Vecchio (Data Center GPU Max)": {"pvc"},
    "Data Center GPU Flex": {"ats-m"},
    "Gen8, Gen9, Gen11": {"gen8", "gen9", "gen11"},
}


def test_intel_families() -> None:
    rows = facts("intel")["gpu"]
    assert {row["name"] for row in rows} == set(INTEL_FAMILIES)
    for name, archs in INTEL_FAMILIES.items():
        found = [find(part) for part in re.split(", ", name)]
        assert {arch for each in found for arch in each.archs} == archs, name
        assert {each.vendor for each in found} == {"intel"}


def test_gaudi_generations() -> None:
    for row in facts("intel")["gaudi_hardware"]:
        for name in row["generations"]:
            found = find(f"Intel {name}")
            word = name.lower().replace(" ", "")
            assert (word in found.archs, found.vendor) == (True, "habana")
            assert found.ambiguous == (name == "Gaudi")


def test_ascend_hardware() -> None:
    for row in facts("ascend")["hardware"]:
        chip = row.get("image_chip") or row["family"].removeprefix("Ascend ").lower()
        found = find(row["family"])
        assert f"ascend{chip}" in found.archs, row["family"]
        assert found.ambiguous == (row["family"] == "Ascend 910")
        for name in row["products"]:
            assert find(name).archs == (f"ascend{chip}",), name


def test_tpu_generations() -> None:
    rows = facts("tpu")["generation"]
    assert len(rows) == 7
    for row in rows:
        word = "tpu-v" + row["name"].removeprefix("v")
        for query in (row["ray"], f"TPU {row['name']}", f"Google Cloud TPU {row['name']}"):
            assert find(query).archs == (word,), query
        product = find(row["ray"]).products[0]
        assert list(product.memory_gib) == [size for key in ("hbm_gb", "hbm_gib") if (size := row.get(key))]
        # A slice's number counts cores up to v5p; of TPU7x it is not known.
        count = find(f"{row['name']}-8").count
        assert count == (None if row["name"] == "7x" else 8 // row["cores_per_chip"])


def test_cambricon_and_moore_threads() -> None:
    for row in facts("cambricon")["hardware"]:
        for name in (row["family"], *row["products"]):
            assert find(name).archs == (row["family"].lower(),), name
    for row in facts("moore_threads")["hardware"]:
        for name in row["products"]:
            found = find(name)
            assert (found.archs, found.vendor) == ((row["arch"],), "moorethreads"), name
            assert list(found.products[0].memory_gib) == ([row["memory_gb"]] if "memory_gb" in row else [])


def test_neuron_instances() -> None:
    for row in facts("others")["neuron_release"]:
        for name in row["instances"]:
            assert (find(name).archs, find(name).vendor) == ((name,), "aws")


# What Ray has names for and the catalogue has not: graphics before GCN4, and vendors that no scheme knows.
NOT_KNOWN = {"AMD-Radeon-R9-200-HD-7900", "AMD-Radeon-HD-7900", "MXC500", "MXC550", "FURIOSA_RNGD"}


def test_names_that_ray_gives() -> None:
    vendors = {"Intel-GAUDI": "habana"}
    for row in facts("others")["ray_accelerator_type"]:
        for name in row["types"]:
            found = find(name)
            if name in NOT_KNOWN:
                assert found.kind == "none", name
            else:
                assert (found.kind != "none", found.vendor) == (True, vendors.get(name, row["vendor"])), name


def test_adreno_as_directml_takes_it() -> None:
    families = [row["family"] for row in facts("directml")["hardware"] if row["vendor"] == "Qualcomm"]
    assert families == ["Adreno 600"]
    assert find("Adreno 600").archs == ("adreno6xx",)
