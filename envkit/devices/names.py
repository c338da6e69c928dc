"""Names of accelerators as people and tools write them, brought to one form. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# What may stand before a name and says no more than who made it.
_VENDORS = {
    "nvidia": "nvidia",
    "amd": "amd",
    "ati": "amd",
    "advanced": "amd",  # Advanced Micro Devices, Inc.
    "intel": "intel",
    "apple": "apple",
    "huawei": "huawei",
    "google": "google",
    "habana": "habana",
    "cambricon": "cambricon",
    "moore": "moorethreads",  # Moore Threads Technology Co., Ltd
    "mthreads": "moorethreads",
    "aws": "aws",
    "amazon": "aws",
    "qualcomm": "qualcomm",
}
# Whose name stands before products that count as another vendor's: Gaudi is sold as Intel's.
_ALSO = {"intel": {"habana"}}
# Words that tell nothing apart: "RTX 6000 Ada" is the "RTX 6000 Ada Generation".
_EMPTY = {"generation", "edition", "graphics", "gpu", "npu", "series", "with", "design", "tensor", "core", "the", "cloud"}
_EMPTY |= {"developer", "kit", "oam", "mcm", "mba"}
# What stands behind a vendor's name.
_EMPTY |= {"corporation", "inc", "co", "ltd", "limited", "labs", "technologies", "technology", "com"}
_EMPTY |= {"micro", "devices", "threads"}  # Advanced Micro Devices, Moore Threads
_SAME = {"mobile": "laptop", "notebook": "laptop"}
# Brands that are left out in speech: "RTX 4090", "T4", "MI300X", "W7900", "A770".
_BRANDS = {"geforce", "radeon", "tesla", "quadro", "instinct", "arc", "jetson", "nvs", "ascend", "mtt", "tpu"}
_CLASSES = {"rtx", "gtx", "gts", "gt", "rx", "pro", "ai", "r", "max", "flex"}
# How a data-center card is built in; "A100" means all of them.
_FORMS = {"pcie", "sxm", "nvl", "hbm", "lc", "dgxs", "fhhl", "hgx"}
# What drivers leave out of a name.
_LEFT_OUT = re.compile(r"\((?:Laptop|Pascal)\)")
_TRADEMARKS = re.compile(r"\((?:r|tm|c)\)|[®™©]", re.IGNORECASE)
_MEMORY = re.compile(r"\b(\d{1,4})\s*g(?:i?b)?\b", re.IGNORECASE)
_WORDS = re.compile(r"[a-z]+|\d+")


def words(name: str) -> list[str]:
    """The words of a name: letters and digits apart, synonyms made one, empty words left out."""
    found = _WORDS.findall(_TRADEMARKS.sub(" ", name).lower())
    result: list[str] = []
    for position, word in enumerate(found):
        if word == "q" and result and result[-1] == "max":
            result[-1] = "maxq"
        elif word not in _EMPTY:
            result.append(_SAME.get(word, word))
        elif word == "core" and position and found[position - 1] != "tensor":
            result.append(word)
    return result


# Vendors and products as Chinese texts name them.
_CHINESE = {
    "英伟达": "nvidia",
    "超威": "amd",
    "英特尔": "intel",
    "苹果": "apple",
    "华为": "huawei",
    "昇腾": "ascend",
    "寒武纪": "cambricon",
    "摩尔线程": "moore threads",
    "高通": "qualcomm",
    "谷歌": "google",
    "显卡": " ",
    "加速卡": " ",
}


def in_latin(text: str) -> str:
    """A name with its Chinese words in Latin letters; "" where one of them is not known, since it may be the very vendor."""
    for word, latin in _CHINESE.items():
        text = text.replace(word, f" {latin} ")
    text = " ".join(text.split())
    return "" if any(sign.isalpha() and not sign.isascii() for sign in text) else text


def vendor_of(parts: list[str]) -> str:
    """The vendor that a name begins with, or ""."""
    return _VENDORS.get(parts[0], "") if parts else ""


def made_by(vendor: str, maker: str) -> bool:
    """Whether a product of `vendor` may have `maker` before its name; any may have none."""
    return not maker or vendor == maker or vendor in _ALSO.get(maker, ())


def bare(parts: list[str]) -> list[str]:
    """A name without the vendors that it begins with."""
    while parts and parts[0] in _VENDORS:
        parts = parts[1:]
    return parts


# "4x A100", "8 x H100 80GB", "2 RTX 3090"; "A100 x 4", "T4 (x2)".
_COUNT_BEFORE = re.compile(r"(\d{1,4})(?:\s*[x×*]\s*|\s+)(?=[a-z])(.+)", re.IGNORECASE)
_COUNT_BEHIND = re.compile(r"(.+?)\s+\(?[x×*]\s*(\d{1,4})\)?", re.IGNORECASE)
_MOST = 1024  # cards of one machine or slice; a bigger number belongs to the name
# What tools print around a name: lspci's revision, nvidia-smi -L's UUID, the cores that macOS counts.
_AROUND = re.compile(
    r"\((?:rev [0-9a-f]{2}|uuid: [^)]*|prog-if [^)]*)\)|\[(?:amd/ati|[0-9a-f]{4}(?::[0-9a-f]{4})?)\]", re.IGNORECASE
)
_CORES = re.compile(r"\(?\b\d{1,3}[- ]cores?\b(?: gpu| cpu)?\)?", re.IGNORECASE)
_MACS = re.compile(r"(?:macbook(?: pro| air)?|mac (?:mini|studio|pro)|imac)(?: with)? (?=(?:apple )?m\d)", re.IGNORECASE)
# Windows names a processor together with its graphics: "AMD Ryzen 7 7840U w/ Radeon 780M Graphics".
_PROCESSOR_WITH = re.compile(r".* (?:w/|with) (?=radeon )", re.IGNORECASE)


def counted(text: str) -> tuple[str, int]:
    """A name without the number of cards that is written with it, and that number: "4x A100" gives "A100" and 4."""
    before, behind = _COUNT_BEFORE.fullmatch(text), _COUNT_BEHIND.fullmatch(text)
    name, number = (before[2], int(before[1])) if before else (behind[1], int(behind[2])) if behind else (text, 1)
    return (name, number) if 1 <= number <= _MOST else (text, 1)


def readings(text: str) -> Iterator[tuple[str, int, str]]:
    """What a text may say where it is no name as it stands: name, number of cards and chip, the likeliest first."""
    line = _AROUND.sub(" ", text)
    line = " ".join(_CORES.sub(" ", line.rsplit(": ", 1)[-1]).split())
    line = _PROCESSOR_WITH.sub("", _MACS.sub("", line))
    for each in dict.fromkeys((counted(text), counted(line))):
        if each[0] != text:
            yield *each, ""
    name, number = counted(line)
    # lspci: the chip, and in brackets what it was sold as.
    if inside := re.fullmatch(r"(.*?) ?\[(.+)\]", name):
        yield inside[2], number, inside[1]
        yield inside[1], number, ""
    elif outside := re.fullmatch(r"(.+?) ?\([^()]*\)", name):
        yield outside[1], number, ""


def without_memory(name: str) -> tuple[str, float | None]:
    """A name without its memory, and that memory: "A100 80GB" gives "A100 " and 80."""
    found = _MEMORY.search(name)
    return (name[: found.start()] + name[found.end() :], float(found[1])) if found else (name, None)


def key(parts: Iterable[str]) -> str:
    """What names are looked up by: "rtx 5090" and "RTX5090" have the same."""
    return "".join(parts)


def keys(name: str, aliases: Iterable[str]) -> dict[str, int]:
    """What a product answers to, with how far each is from its full name: 0 the name, 1 without brand, 2 without class."""
    result: dict[str, int] = {}
    for spelling in (name, *aliases):
        for parts in _spellings(spelling):
            _add(result, parts, 0)
            for shorter in _without_brand(parts):
                _add(result, shorter, 1)
                _add(result, _without_class(shorter), 2)
    return result


def _add(result: dict[str, int], parts: list[str], distance: int) -> None:
    text = key(parts)
    # A class alone ("rtx"), or a few digits ("4"), names nothing.
    if len(text) < 2 or (distance and len(text) < 7 and not any(part.isdigit() for part in parts)):
        return
    if distance == 2 and sum(c.isdigit() for c in text) < 2:
        return
    result[text] = min(distance, result.get(text, distance))


def _spellings(name: str) -> Iterator[list[str]]:
    """A name as tools write it: drivers leave out what stands in brackets."""
    yield bare(words(name))
    if _LEFT_OUT.search(name):
        yield bare(words(_LEFT_OUT.sub(" ", name)))


def _without_brand(parts: list[str]) -> Iterator[list[str]]:
    shorter = parts
    while shorter and shorter[0] in _BRANDS:
        shorter = shorter[1:]
    if shorter[:2] == ["data", "center"]:
        shorter = shorter[2:]
    yield shorter
    # "RTX 6000" is said of the Quadro, of the Ada and of the Blackwell card.
    plain = [part for part in shorter if part not in ("ada", "blackwell", "workstation")]
    if plain != shorter:
        yield plain
    form = next((i for i, part in enumerate(shorter) if part in _FORMS and i > 0), None)
    if form is not None and shorter[0] not in _CLASSES and "gb" not in shorter[:form]:
        yield shorter[:form]


def _without_class(parts: list[str]) -> list[str]:
    shorter = parts
    while len(shorter) > 1 and shorter[0] in _CLASSES:
        shorter = shorter[1:]
    return shorter


def base(name: str) -> str:
    """What remains when build, laptop marks and memory are taken off: variants of one card share it."""
    parts = words(_LEFT_OUT.sub(" ", without_memory(name)[0]))
    kept = [part for part in parts if part not in ("maxq", "passive", "workstation", "server", "sff")]
    form = next((i for i, part in enumerate(kept) if part in _FORMS and i > 0), None)
    return key(kept if form is None else kept[:form])
