"""Reading compiled architectures out of wheels: the list that torch holds, fat binaries, AMD's bundles."""

from __future__ import annotations

import io
import random
import struct
import zipfile
import zlib
from collections.abc import Iterator

import pytest

from envkit.matrix import load
from envkit.matrix.refresh import Options, refresh
from envkit.matrix.refresh.listings import File
from envkit.matrix.refresh.measure import find_flags, measure, read_code
from envkit.matrix.refresh.net import Distrusted
from envkit.matrix.refresh.remote import RemoteWheel

from .refresh_fake import MATRIX, FakeNet, Settings, upstream

FLAGS = "torch/lib/libtorch_python.so"
CUDA_VERSION = b"__version__ = '2.15.0+cu132'\ndebug = False\ncuda: Optional[str] = '13.2'\nhip: Optional[str] = None\n"
CPU_VERSION = b"__version__ = '2.15.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"


def in_pieces(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as made:
        for name, content in members.items():
            made.writestr(name, content)
    return buffer.getvalue()


def served(members: dict[str, bytes]) -> tuple[FakeNet, File]:
    data = archive(members)
    return FakeNet({"https://x/torch.whl": data}), File(name="torch.whl", url="https://x/torch.whl", size=len(data))


# ---- torch's own list --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("around", "words"),
    [
        (b"\0\0sm_75 sm_80 sm_120\0\0", ["sm_75", "sm_80", "sm_120"]),
        # torch 2.8: a text without an end of its own lies right before it.
        (b"std::string ipc_hsm_70 sm_75 sm_120\0", ["sm_70", "sm_75", "sm_120"]),
        (b"\0sm_50 sm_60 compute_60\0", ["sm_50", "sm_60", "compute_60"]),
        (b"\0gfx900 gfx90a gfx1100\0", ["gfx900", "gfx90a", "gfx1100"]),
        (b"\0sm_90\0", ["sm_90"]),
        (b"\0sm_90\0 and later \0sm_80 sm_90\0", ["sm_80", "sm_90"]),
        (b"needs sm_70 or newer\0", []),
        (b"\0sm_80 sm_90 are known\0", []),
        (b"", []),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 64, 100000])
def test_the_list_of_architectures_is_a_text_of_its_own(around: bytes, words: list[str], size: int) -> None:
    data = b"\x7fELF" + b"code" * 50 + around + b"more" * 50
    assert list(find_flags(in_pieces(data, size))) == words


def test_a_wheel_of_torch() -> None:
    noise = random.Random(1).randbytes(3_000_000)
    net, file = served({FLAGS: noise + b"\0sm_75 sm_80 sm_90 compute_90\0" + noise, "torch/version.py": CUDA_VERSION})
    code = measure(net, [file])  # type: ignore[arg-type]
    assert code is not None
    assert (code.archs, code.ptx, code.label, code.where) == (("sm_75", "sm_80", "sm_90"), ("sm_90",), "+cu132", FLAGS)
    # What lies behind the list is not fetched.
    assert 3_000_000 < code.bytes_read < 4_500_000


def test_a_wheel_of_torch_for_the_cpu() -> None:
    net, file = served({FLAGS: b"x" * 100, "torch/version.py": CPU_VERSION})
    code = measure(net, [file])  # type: ignore[arg-type]
    assert code is not None
    assert (code.archs, code.label) == ((), "+cpu")


def test_a_wheel_of_torch_without_a_list_is_not_guessed_at() -> None:
    net, file = served({FLAGS: b"x" * 100, "torch/version.py": CUDA_VERSION})
    with pytest.raises(Distrusted, match="has no list of architectures"):
        measure(net, [file])  # type: ignore[arg-type]


# ---- fat binaries ------------------------------------------------------------------------------------------------


def entry(kind: int, arch: int, payload: bytes) -> bytes:
    return struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(payload), 0, 0, 0, 0, arch).ljust(64, b"\0") + payload


def fat(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


@pytest.mark.parametrize("size", [1, 13, 4096, 10**6])
def test_fat_binaries_name_kind_and_architecture_of_each_entry(size: int) -> None:
    # The code of one entry holds the mark of a fat binary by chance: it is code all the same.
    chance = fat(entry(2, 35, b""))
    data = b"\x7fELF" * 10 + fat(entry(2, 80, b"a" * 300), entry(2, 90, chance + b"b" * 999), entry(1, 90, b"ptx")) + b"\0" * 64
    data += fat(entry(2, 120, b"c" * 50))
    sass, ptx = read_code(in_pieces(data, size))
    assert (sass, ptx) == ({"sm_80", "sm_90", "sm_120"}, {"sm_90"})


def test_what_only_begins_like_a_fat_binary_is_none() -> None:
    data = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 500) + b"\xff" * 500 + fat(entry(2, 75, b"x"))
    assert read_code([data]) == ({"sm_75"}, set())


def test_it_stops_when_more_brings_nothing_new() -> None:
    taken = []

    def pieces() -> Iterator[bytes]:
        for number in range(1000):
            taken.append(number)
            yield fat(entry(2, 80, b"x" * 10), entry(2, 90, b"x" * 10))

    assert read_code(pieces()) == ({"sm_80", "sm_90"}, set())
    assert len(taken) < 150


def test_bundles_of_amd() -> None:
    plain = b"__CLANG_OFFLOAD_BUNDLE__...hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-...hipv4-amdgcn-amd-amdhsa--gfx1100"
    names = b"__CLANG_OFFLOAD_BUNDLE__" + b"hipv4-amdgcn-amd-amdhsa--gfx942" + b"x" * 5000
    packed = struct.pack("<4sHHQQQ", b"CCOB", 3, 0, 0, 0, 0) + zlib.compress(names)
    assert read_code([plain])[0] == {"gfx90a", "gfx1100"}
    assert read_code([b"x" * 77 + packed])[0] == {"gfx942"}


def test_other_libraries_of_a_wheel_are_looked_at_and_foreign_ones_are_not() -> None:
    net, file = served(
        {
            "mlx/lib/libmlx.so": b"x" * 500 + fat(entry(2, 80, b"x"), entry(1, 90, b"y")),
            "mlx.libs/libother-1234.so.3": fat(entry(2, 35, b"x")),
            "mlx/data.bin": fat(entry(2, 50, b"x")),
        }
    )
    code = measure(net, [file])  # type: ignore[arg-type]
    assert code is not None
    assert (code.archs, code.ptx, code.where) == (("sm_80",), ("sm_90",), "libmlx.so")
    net, file = served({"pure/module.py": b"x"})
    assert measure(net, [file]) is None  # type: ignore[arg-type]


# ---- remote wheels -----------------------------------------------------------------------------------------------


def test_members_packed_and_unpacked_come_whole() -> None:
    content = random.Random(2).randbytes(2_500_000)
    for compression in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):
        data = archive({"a.txt": b"first", "deep/b.bin": content}, compression)
        wheel = RemoteWheel(FakeNet({"https://x": data}), "https://x", len(data))  # type: ignore[arg-type]
        assert wheel.read("a.txt") == b"first"
        assert b"".join(wheel.stream("deep/b.bin")) == content


def test_a_large_directory_is_fetched_at_once() -> None:
    data = archive({f"folder/of/many/files/{number:06}.h": b"" for number in range(3000)})
    wheel = RemoteWheel(FakeNet({"https://x": data}), "https://x", len(data))  # type: ignore[arg-type]
    assert len(wheel.members) == 3000


@pytest.mark.parametrize("damage", [b"", b"x" * 100, b"PK\x05\x06"])
def test_what_is_no_wheel_is_said(damage: bytes) -> None:
    data = damage or archive({"a": b"b"})[:-30]
    with pytest.raises(Distrusted, match="no whole wheel"):
        RemoteWheel(FakeNet({"https://x": data}), "https://x", len(data))  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [10, 16, 17, 18, 19])
def test_a_damaged_directory_is_said(at: int) -> None:
    data = bytearray(archive({"a.txt": b"content"}))
    end = data.rfind(b"PK\x05\x06")
    data[end + at] ^= 0x55
    wheel = FakeNet({"https://x": bytes(data)})
    if at == 10:  # the count of entries is not needed
        assert list(RemoteWheel(wheel, "https://x", len(data)).members) == ["a.txt"]  # type: ignore[arg-type]
        return
    with pytest.raises(Distrusted, match="damaged"):
        RemoteWheel(wheel, "https://x", len(data))  # type: ignore[arg-type]


# ---- the whole ---------------------------------------------------------------------------------------------------


def with_wheels(flags: bytes, label: bytes = b"+cu130") -> FakeNet:
    """Upstream whose wheels of torch hold this list."""
    net = upstream()
    version = CUDA_VERSION.replace(b"+cu132", label)
    metadata = b"Metadata-Version: 2.1\nName: torch\nVersion: 2.15.0\n"
    whole = archive({FLAGS: b"\0" + flags + b"\0", "torch/version.py": version, "torch-1.dist-info/METADATA": metadata})
    for url in list(net.pages):
        if ("/torch-2.1" in url and url.endswith(".whl")) or "/torch-2.13" in url:
            net.pages[url] = whole
    import json

    key = "https://pypi.org/simple/torch/"
    kind, body = net.pages[key]
    document = json.loads(body)
    for file in document["files"]:
        net.pages[file["url"]] = whole
        file["size"] = len(whole)
    document["files"] = [file for file in document["files"] if "2.13.0" in file["filename"] or "2.14.0" in file["filename"]]
    net.pages[key] = (kind, json.dumps(document))
    return net


def run(net: FakeNet) -> object:
    return refresh(load(MATRIX), Settings(), Options(only=("torch",), measure=True), net=net)


def test_a_wheel_that_agrees_raises_the_evidence() -> None:
    result = run(with_wheels(b"sm_75 sm_80"))
    equal = [(one.version, one.platform, one.agrees) for one in result.measured]  # type: ignore[attr-defined]
    assert ("2.13.0", "linux/x86_64", True) in equal
    assert ("2.14.0", "linux/x86_64", True) in equal
    [change] = [change for change in result.changes if change.label == "2.13 cu130 linux/x86_64"]  # type: ignore[attr-defined]
    assert change.now == {"evidence": "wheel-measured", "source": ["torch-pypi", "torch-code"]}
    assert not change.shrinks


def test_a_wheel_that_differs_is_a_change() -> None:
    result = run(with_wheels(b"sm_80 compute_80"))
    [change] = [change for change in result.changes if change.label == "2.14 cu130 linux/x86_64"]  # type: ignore[attr-defined]
    assert change.now["archs"] == ["sm_80"]
    assert change.now["ptx"] == ["sm_80"]
    assert change.shrinks
    assert [one.agrees for one in result.measured if one.platform == "linux/x86_64"] == [False, False]  # type: ignore[attr-defined]
