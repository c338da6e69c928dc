"""Names as people and tools write them, architectures and PCI ids -> one accelerator."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from envkit.devices import by_pci, find
from envkit.devices.catalogue import read_catalogue

WORDS = [
    "rtx",
    "gtx",
    "rx",
    "5090",
    "4090",
    "ti",
    "super",
    "xt",
    "laptop",
    "gpu",
    "80gb",
    "nvidia",
    "amd",
    ":",
    "10de",
    "sm_",
    "8.6",
    "(",
    "4x",
    "x",
    "/",
    "[",
    "]",
    "tpu",
    "v4-8",
    "ascend",
    "910b",
    "m4",
    "gaudi",
    "w/",
    ": ",
    "device",
    "d802",
]

MAKERS = {
    "nvidia": "NVIDIA",
    "amd": "AMD",
    "intel": "Intel",
    "apple": "Apple",
    "huawei": "Huawei",
    "google": "Google",
    "habana": "Habana",
    "cambricon": "Cambricon",
    "moorethreads": "Moore Threads",
    "aws": "AWS",
    "qualcomm": "Qualcomm",
}


@pytest.mark.parametrize(
    ("query", "name", "arch"),
    [
        ("RTX 5090", "GeForce RTX 5090", "sm_120"),
        ("rtx5090", "GeForce RTX 5090", "sm_120"),
        ("RTX-5090", "GeForce RTX 5090", "sm_120"),
        ("  geforce   rtx 5090 ", "GeForce RTX 5090", "sm_120"),
        ("NVIDIA GeForce RTX 5090", "GeForce RTX 5090", "sm_120"),
        ("5090 D", "GeForce RTX 5090 D", "sm_120"),
        ("4090", "GeForce RTX 4090", "sm_89"),
        ("RTX 4070", "GeForce RTX 4070", "sm_89"),
        ("RTX 4070 Ti", "GeForce RTX 4070 Ti", "sm_89"),
        ("4070ti", "GeForce RTX 4070 Ti", "sm_89"),
        ("RTX 4070 SUPER", "GeForce RTX 4070 SUPER", "sm_89"),
        ("rtx 4070 ti super", "GeForce RTX 4070 Ti SUPER", "sm_89"),
        ("GeForce RTX 4070 Laptop GPU", "GeForce RTX 4070 Laptop GPU", "sm_89"),
        ("RTX 4070 Laptop", "GeForce RTX 4070 Laptop GPU", "sm_89"),
        ("rtx 4070 mobile", "GeForce RTX 4070 Laptop GPU", "sm_89"),
        ("NVIDIA GeForce RTX 3060 Ti", "GeForce RTX 3060 Ti", "sm_86"),
        ("RTX 3060 12GB", "GeForce RTX 3060", "sm_86"),
        ("RTX 2050", "GeForce RTX 2050 Laptop GPU", "sm_86"),
        ("RTX 2080 Super with Max-Q Design", "GeForce RTX 2080 SUPER with Max-Q Design", "sm_75"),
        ("GTX 1080 Ti", "GeForce GTX 1080 Ti", "sm_61"),
        ("1080 ti", "GeForce GTX 1080 Ti", "sm_61"),
        ("GTX 1060", "GeForce GTX 1060", "sm_61"),
        ("GTX 980 Ti", "GeForce GTX 980 Ti", "sm_52"),
        ("GTX 580", "GeForce GTX 580", "sm_20"),
        ("GTX TITAN", "GeForce GTX TITAN", "sm_35"),
        ("TITAN V", "TITAN V", "sm_70"),
        ("MX450", "GeForce MX450", "sm_75"),
        ("Tesla T4", "Tesla T4", "sm_75"),
        ("T4", "Tesla T4", "sm_75"),
        ("NVIDIA T1000", "T1000", "sm_75"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM4", "sm_80"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe", "sm_80"),
        ("A100", "A100 PCIe", "sm_80"),
        ("NVIDIA A10G", "A10G", "sm_86"),
        ("A6000", "RTX A6000", "sm_86"),
        ("RTX 6000 Ada", "RTX 6000 Ada Generation", "sm_89"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada Generation", "sm_89"),
        ("RTX PRO 6000", "RTX PRO 6000 Blackwell Workstation Edition", "sm_120"),
        ("Quadro RTX 6000", "Quadro RTX 6000", "sm_75"),
        ("L40S", "L40S", "sm_89"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5", "sm_90"),
        ("GH200", "GH200", "sm_90"),
        ("B200", "B200", "sm_100"),
        ("V100", "Tesla V100 PCIe", "sm_70"),
        ("Tesla V100-SXM2-16GB", "Tesla V100 SXM2", "sm_70"),
        ("K80", "Tesla K80", "sm_37"),
        ("Tesla M60", "Tesla M60", "sm_52"),
        ("Jetson AGX Orin", "Jetson AGX Orin", "sm_87"),
        ("DGX Spark", "GB10", "sm_121"),
        ("rx 7900 xt", "Radeon RX 7900 XT", "gfx1100"),
        ("AMD Radeon RX 7900 XT", "Radeon RX 7900 XT", "gfx1100"),
        ("7900XTX", "Radeon RX 7900 XTX", "gfx1100"),
        ("RX 9070", "Radeon RX 9070", "gfx1201"),
        ("rx 9070xt", "Radeon RX 9070 XT", "gfx1201"),
        ("RX 7600 XT", "Radeon RX 7600 XT", "gfx1102"),
        ("6700XT", "Radeon RX 6700 XT", "gfx1031"),
        ("vega 64", "Radeon RX Vega 64", "gfx900"),
        ("Radeon VII", "Radeon VII", "gfx906"),
        ("MI300X", "Instinct MI300X", "gfx942"),
        ("AMD Instinct MI210", "Instinct MI210", "gfx90a"),
        ("W7900", "Radeon PRO W7900", "gfx1100"),
        ("Radeon 780M", "Radeon 780M", "gfx1103"),
        ("AMD Radeon 780M Graphics", "Radeon 780M", "gfx1103"),
        ("Ryzen AI Max+ 395", "Ryzen AI Max+ 395", "gfx1151"),
        ("arc a770", "Arc A770", "dg2"),
        ("Intel(R) Arc(TM) A770 Graphics", "Arc A770", "dg2"),
        ("B580", "Arc B580", "bmg"),
        ("Intel® Data Center GPU Max 1550", "Data Center GPU Max 1550", "pvc"),
    ],
)
def test_a_name_means_one_product(query: str, name: str, arch: str) -> None:
    found = find(query)
    assert (found.kind, found.ambiguous, found.suggestions) == ("product", False, ())
    assert found.products[0].name == name
    assert found.archs == (arch,)
    assert found.vendor == found.products[0].vendor


@pytest.mark.parametrize(
    ("query", "names", "archs"),
    [
        (
            "RTX 6000",
            {
                "Quadro RTX 6000",
                "Quadro RTX 6000 (Laptop)",
                "RTX 6000 Ada Generation",
                "RTX PRO 6000 Blackwell Workstation Edition",
            },
            {"sm_75", "sm_89", "sm_120"},
        ),
        ("RTX 4000", {"Quadro RTX 4000", "Quadro RTX 4000 (Laptop)", "RTX 4000 Ada Generation"}, {"sm_75", "sm_89"}),
        ("T1000", {"T1000", "Quadro T1000 (Laptop)"}, {"sm_75"}),
        ("GT 730", {"GeForce GT 730"}, {"sm_21", "sm_30", "sm_35"}),
        ("GTX 750 Ti", {"GeForce GTX 750 Ti"}, {"sm_30", "sm_50"}),
        ("GT 1030", {"GeForce GT 1030"}, {"sm_30", "sm_61"}),
        ("titan x", {"TITAN X (Pascal)", "GeForce GTX TITAN X"}, {"sm_52", "sm_61"}),
        ("780M", {"Radeon 780M", "GeForce GTX 780M"}, {"gfx1103", "sm_30"}),
        ("580", {"Radeon RX 580", "GeForce GTX 580"}, {"gfx803", "sm_20"}),
    ],
)
def test_an_ambiguous_name_lists_what_it_may_mean(query: str, names: set[str], archs: set[str]) -> None:
    found = find(query)
    assert found.ambiguous
    assert {product.name for product in found.products} == names
    assert set(found.archs) == archs


def test_variants_of_one_card_are_not_ambiguous() -> None:
    found = find("A100")
    assert not found.ambiguous
    assert {product.name for product in found.products} >= {"A100 PCIe", "A100 SXM4"}


@pytest.mark.parametrize(
    ("query", "suggestion"),
    [
        ("RTX 5099", "GeForce RTX 5090"),
        ("RTX 4050", "GeForce RTX 4050 Laptop GPU"),
        ("RX 7900 XTZ", "Radeon RX 7900 XTX"),
        ("Orin", "Jetson AGX Orin"),
        ("RTX 4090 48GB", "GeForce RTX 4090"),
        ("H1000", "H100 SXM5"),
        ("NVIDIA MI300X", ""),
        ("AMD RTX 4090", ""),
    ],
)
def test_close_misses_are_suggested_and_never_taken(query: str, suggestion: str) -> None:
    found = find(query)
    assert (found.kind, found.products, found.archs) == ("none", (), ())
    assert suggestion in (*found.suggestions, "")


@pytest.mark.parametrize("query", ["", " ", "banana", "GeForce", "RTX", "graphics", "NVIDIA", "4", "\x00", "🦀", "a" * 5000])
def test_what_is_no_accelerator_is_none(query: str) -> None:
    assert (find(query).kind, find(query).products) == ("none", ())


@pytest.mark.parametrize(
    ("query", "arch", "member"),
    [
        ("Tesla V100", "sm_70", "Tesla V100 SXM2"),
        ("nvidia tesla v100", "sm_70", "Tesla V100 PCIe"),
        ("RTX PRO 6000 Blackwell", "sm_120", "RTX PRO 6000 Blackwell Server Edition"),
    ],
)
def test_a_name_that_several_products_of_one_architecture_begin_with(query: str, arch: str, member: str) -> None:
    found = find(query)
    assert (found.archs, found.vendor, found.ambiguous) == ((arch,), "nvidia", False)
    assert member in {product.name for product in found.products}


@pytest.mark.parametrize("query", ["RTX 40", "Tesla V10", "Radeon RX 79", "Tesla", "RTX 4050", "AMD Tesla V100"])
def test_the_beginning_of_a_word_or_of_several_architectures_means_nothing(query: str) -> None:
    assert find(query).kind == "none"


def test_the_names_of_the_card_beside_do_not_begin_with_it() -> None:
    assert not any("V100S" in product.name for product in find("Tesla V100").products)


def test_a_generic_name_is_no_product() -> None:
    """What an APU is called by its driver says nothing of its architecture."""
    assert find("AMD Radeon Graphics").kind == "none"
    assert find("Intel(R) UHD Graphics").kind == "none"


@pytest.mark.parametrize("suffixes", [("", "Ti", "SUPER", "Ti SUPER", "Laptop GPU"), ("", "XT", "XTX", "GRE", "M")])
def test_suffixes_are_never_mixed_up(suffixes: tuple[str, ...]) -> None:
    names = {row["name"] for row in read_catalogue()._products}
    tried = 0
    for name in names:
        for suffix in suffixes:
            longer = f"{name} {suffix}".strip()
            if longer in names and longer != name:
                tried += 1
                assert find(longer).products[0].name == longer
                assert longer not in [p.name for p in find(name).products]
    assert tried > 5


def test_every_product_answers_to_its_own_name() -> None:
    known = read_catalogue()
    for number in range(len(known)):
        product = known.product(number)
        maker = MAKERS[product.vendor]
        for query in (product.name, f"{maker} {product.name}", product.name.upper(), product.name.replace(" ", "-")):
            found = find(query)
            assert product in found.products, query
            same = [p for p in found.products if p.name.lower() == product.name.lower()]
            assert found.products[0] in same or found.ambiguous or len(found.archs) == 1, query


@pytest.mark.parametrize(
    ("query", "arch", "vendor"),
    [
        ("sm_86", "sm_86", "nvidia"),
        ("SM86", "sm_86", "nvidia"),
        ("8.6", "sm_86", "nvidia"),
        ("12.0", "sm_120", "nvidia"),
        ("compute_90", "sm_90", "nvidia"),
        ("sm_90a", "sm_90", "nvidia"),
        ("compute capability 7.5", "sm_75", "nvidia"),
        ("gfx1030", "gfx1030", "amd"),
        ("GFX90A", "gfx90a", "amd"),
        ("gfx90a:sramecc+:xnack-", "gfx90a", "amd"),
        ("dg2", "dg2", "intel"),
        ("BMG", "bmg", "intel"),
    ],
)
def test_architectures(query: str, arch: str, vendor: str) -> None:
    found = find(query)
    assert (found.kind, found.archs, found.vendor, found.products) == ("arch", (arch,), vendor, ())


@pytest.mark.parametrize(("query", "suggestion"), [("sm_999", "sm_90"), ("gfx1039", "gfx1033"), ("9.9", "sm_90")])
def test_unknown_architectures_are_not_taken(query: str, suggestion: str) -> None:
    found = find(query)
    assert (found.kind, found.archs) == ("none", ())
    assert suggestion in found.suggestions


@pytest.mark.parametrize(
    "query", ["10de:2684", "10DE:2684", "0x10de:0x2684", "[10de:2684]", "10de/2684", "PCI\\VEN_10DE&DEV_2684&SUBSYS_16F1&REV_A1"]
)
def test_pci_ids(query: str) -> None:
    found = find(query)
    assert (found.kind, found.archs, found.vendor) == ("pci", ("sm_89",), "nvidia")
    assert found.products[0].name == "GeForce RTX 4090"


@pytest.mark.parametrize(
    ("pci_id", "name", "arch"),
    [
        ("10de:2684", "GeForce RTX 4090", "sm_89"),
        ("10de:2B85", "GeForce RTX 5090", "sm_120"),
        ("10de:1287", "GeForce GT 730", "sm_35"),
        ("10de:0f02", "GeForce GT 730", "sm_21"),
        ("10de:1f91", "TU117M [GeForce GTX 1650 Mobile / Max-Q]", "sm_75"),
        ("10de:20b2", "A100 SXM4 80GB", "sm_80"),
        ("1002:744c", "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", "gfx1100"),
        ("1002:74a1", "Instinct MI300X", "gfx942"),
        ("8086:56a0", "Arc A770", "dg2"),
        ("8086:e20b", "Arc B580", "bmg"),
    ],
)
def test_by_pci(pci_id: str, name: str, arch: str) -> None:
    product = by_pci(pci_id)
    assert product is not None
    assert (product.name, product.arch, product.variants) == (name, arch, ())
    assert pci_id.lower() in product.pci_ids


@pytest.mark.parametrize("pci_id", ["10de:ffff", "1234:5678", "", "10de", "10de:2684:00", "xxxx:yyyy"])
def test_unknown_pci_ids(pci_id: str) -> None:
    assert by_pci(pci_id) is None


def test_the_vendor_of_an_unknown_id_is_known() -> None:
    assert (find("10de:fffe").kind, find("10de:fffe").vendor) == ("none", "nvidia")


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.text(max_size=30) | st.lists(st.sampled_from(WORDS)).map(" ".join))
@example("(((")
@example("nvidia")
@example("ven_10de&dev_")
def test_any_query(query: str) -> None:
    found = find(query)
    assert found.kind in ("product", "arch", "pci", "none")
    assert (found.kind == "none") == (not found.products and not found.archs)
    by_pci(query)


def test_it_is_quick() -> None:
    find("RTX 5090")
    start = time.perf_counter()
    for query in ("RTX 5090", "sm_86", "10de:2684", "RX 7900 XT"):
        find(query)
    hits = time.perf_counter() - start
    start = time.perf_counter()
    find("RTX 5099")
    assert hits < 0.01
    assert time.perf_counter() - start < 0.05


def test_a_second_process_starts_from_the_kept_index(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A cache of its own: others may be tidying up in the user's at this moment.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    read_catalogue.cache_clear()
    read_catalogue()
    read_catalogue.cache_clear()
    monkeypatch.setattr("envkit.devices.catalogue._index", lambda files: pytest.fail("made again"))
    assert find("RTX 5090").kind == "product"


@pytest.mark.parametrize("query", ["燧原 S60", "壁仞 H100", "沐曦 4090", "天数智芯 100", "Ускоритель H100"])
def test_a_word_of_another_script_that_is_not_known_is_never_left_out(query: str) -> None:
    assert find(query).kind == "none"


@pytest.mark.parametrize(
    ("query", "same"), [("英伟达 RTX 4090", "RTX 4090"), ("华为昇腾 910B", "Ascend 910B"), ("摩尔线程 MTT S80 显卡", "MTT S80")]
)
def test_chinese_names_of_vendors(query: str, same: str) -> None:
    assert find(query).archs == find(same).archs != ()
