"""The catalogue's own files: complete, sourced, without contradictions."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from envkit.data import packaged
from envkit.devices.catalogue import VENDORS
from envkit.devices.names import base, key, keys, without_memory, words
from envkit.matrix import load

FACTS = Path(__file__).resolve().parents[3].parent / "shared/facts"
FIELDS = {
    "name", "arch", "family", "kind", "cpu", "memory_gib", "more_memory", "pci_ids", "aliases", "variants", "year", "note",
    "source",
}  # fmt: skip
KINDS = {"datacenter", "workstation", "consumer", "laptop", "apu", "soc", "jetson"}


def content(vendor: str) -> dict[str, Any]:
    return tomllib.loads((packaged("devices") / f"{vendor}.toml").read_text(encoding="utf-8"))


def test_every_file_is_listed() -> None:
    assert {path.stem for path in packaged("devices").glob("*.toml")} == set(VENDORS)


@pytest.mark.parametrize("vendor", VENDORS)
def test_rows_have_the_shape_that_is_read(vendor: str) -> None:
    file = content(vendor)
    names = [row["name"] for row in file["product"]]
    assert sorted(names) == sorted(set(names))
    for row in file["product"]:
        assert set(row) <= FIELDS, row
        assert row["source"] in file["source"], row
        assert row["kind"] in KINDS, row
        assert row.get("cpu", "aarch64") == "aarch64", row
        assert row.get("arch", "") in ("", *file["archs"]), row
        assert set(row.get("variants", ())) <= set(file["archs"]), row
        assert not row.get("arch") or not row.get("variants"), row
        assert set(row.get("pci_ids", ())) <= set(file["pci"]), row
        assert all(0 < size < 1024 for size in row.get("memory_gib", ())), row
    for chip_id, (arch, chip, name) in file["pci"].items():
        assert re.fullmatch(r"[0-9a-f]{4}", chip_id)
        assert arch in ("", *file["archs"])
        assert isinstance(chip, str)
        assert isinstance(name, str)


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_product_and_its_ids_agree(vendor: str) -> None:
    file = content(vendor)
    wrong = []
    for row in file["product"]:
        own = {row.get("arch", ""), *row.get("variants", ())} - {""}
        theirs = {file["pci"][chip_id][0] for chip_id in row.get("pci_ids", ())} - {""}
        if own and theirs and not theirs <= own:
            wrong.append((row["name"], own, theirs))
    assert wrong == []


def test_every_architecture_is_in_the_matrix() -> None:
    matrix = load()
    for vendor in VENDORS:
        assert set(content(vendor)["archs"]) <= set(matrix.archs)
        assert {name for name, arch in matrix.archs.items() if arch.vendor == vendor} == set(content(vendor)["archs"])


@pytest.mark.skipif(not FACTS.is_dir(), reason="the collected facts do not lie beside this checkout")
def test_every_collected_product_and_id_is_there() -> None:
    gpus = tomllib.loads((FACTS / "nvidia_gpus.toml").read_text(encoding="utf-8"))["gpu"]
    ids = tomllib.loads((FACTS / "nvidia_pci_ids.toml").read_text(encoding="utf-8"))["ids"]
    ours = {row["name"]: row for row in content("nvidia")["product"]}
    for row in gpus:
        arch = "" if row["cc"] == "varies" else "sm_" + row["cc"].replace(".", "")
        assert ours[row["name"]].get("arch", "") == arch
        assert ours[row["name"]].get("pci_ids", []) == sorted(row.get("pci_ids", []))
    pci = content("nvidia")["pci"]
    assert {chip_id: row[0] for chip_id, row in pci.items() if chip_id in ids} == {
        chip_id: "" if cc == "unknown" else "sm_" + cc.replace(".", "") for chip_id, (_, cc, _) in ids.items()
    }
    amd = content("amd")
    for row in tomllib.loads((FACTS / "amd_gpus.toml").read_text(encoding="utf-8"))["pci"]:
        assert amd["pci"][row["id"].removeprefix("1002:")][0] == ("" if row["gfx"] == "unknown" else row["gfx"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA GeForce RTX 4070 Laptop GPU", "nvidia geforce rtx 4070 laptop"),
        ("GeForce RTX 2080 with Max-Q Design", "geforce rtx 2080 maxq"),
        ("Intel(R) Arc(TM) A770 Graphics", "intel arc a 770"),
        ("RTX 6000 Ada Generation", "rtx 6000 ada"),
        ("7900XTX", "7900 xtx"),
        ("", ""),
    ],
)
def test_words_of_a_name(name: str, expected: str) -> None:
    assert " ".join(words(name)) == expected


def test_keys_of_a_product() -> None:
    assert keys("GeForce RTX 4070 Ti", ()) == {"geforcertx4070ti": 0, "rtx4070ti": 1, "4070ti": 2}
    assert keys("Tesla V100 SXM2", ())["v100"] == 1
    assert "4" not in keys("Tesla T4", ())
    assert key(["rtx", "4090"]) == "rtx4090"


@pytest.mark.parametrize(
    ("name", "left", "memory"), [("A100 80GB", "A100 ", 80), ("3060 12 GiB", "3060 ", 12), ("T4", "T4", None)]
)
def test_memory_in_a_name(name: str, left: str, memory: float | None) -> None:
    assert without_memory(name) == (left, memory)


def test_variants_share_a_base() -> None:
    assert base("A100 PCIe") == base("A100 SXM4") == base("A100-SXM4-80GB")
    assert base("Quadro T1000 (Laptop)") != base("T1000")
    assert base("GeForce RTX 4070 Ti") != base("GeForce RTX 4070")
