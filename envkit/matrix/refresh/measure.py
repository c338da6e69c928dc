"""Reads which architectures a remote wheel holds code for, from as little of it as will do.

torch says it itself: `torch.cuda.get_arch_list()` is a string inside libtorch_python.so. Other wheels hold NVIDIA's fat binaries
(a header, then one entry for each piece of code with its kind and architecture) or AMD's code bundles (whose entries are named).
"""

from __future__ import annotations

import importlib
import re
import struct
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from envkit.matrix.reader import arch_order
from envkit.matrix.refresh.listings import File
from envkit.matrix.refresh.net import Distrusted, Net
from envkit.matrix.refresh.remote import RemoteWheel

FLAGS_IN = "torch/lib/libtorch_python.so"
VERSION_IN = "torch/version.py"
# Fat binaries are alike all through a library; after this many that bring nothing new, no new one is waited for.
_ENOUGH = 120
_LARGEST = 400 * 1024 * 1024

_WORD = rb"(?:(?:sm|compute)_\d+[af]?|gfx[0-9a-f]+)"
# Other text may lie right before the list, without an end of its own (torch 2.8 and 2.9); one word alone must be a whole text.
_FLAGS = re.compile(rb"%b(?: %b)+(?=\x00)|(?<=\x00)%b(?=\x00)" % (_WORD, _WORD, _WORD))
_MAGIC = struct.pack("<IHH", 0xBA55ED50, 1, 16)
_ENTRY = struct.Struct("<HHIQIIHHI")  # kind, -, header, size, packed, -, minor, major, architecture
_PTX, _ELF = 1, 2
_ZLIB, _ZSTD = 0, 1  # how AMD's bundles may be packed
_BUNDLED = re.compile(rb"amdgcn-amd-amdhsa-{1,2}(gfx[0-9a-f]+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """What a wheel holds code for."""

    archs: tuple[str, ...]  # sm_80, gfx942
    ptx: tuple[str, ...] = ()  # code that newer devices can translate, by the architecture that it is for
    label: str = ""  # the local part of the version that the wheel calls itself: +cu132
    where: str = ""  # the member that says so
    bytes_read: int = 0
    seconds: float = 0.0


def measure(net: Net, files: Sequence[File]) -> Code | None:
    """The code in the first of `files` that has some; None where none has. Raises Unreachable or Distrusted."""
    begin = time.monotonic()
    for file in files:
        wheel = _Counted(net, file)
        code = _of_torch(wheel) if FLAGS_IN in wheel.members else _of_libraries(wheel)
        if code is not None:
            return Code(
                archs=code.archs,
                ptx=code.ptx,
                label=code.label,
                where=code.where,
                bytes_read=wheel.taken,
                seconds=time.monotonic() - begin,
            )
    return None


class _Counted(RemoteWheel):
    """A remote wheel that knows how much of it was read."""

    def __init__(self, net: Net, file: File) -> None:
        self.taken = 0
        super().__init__(net, file.url, file.size)

    def _part(self, begin: int, end: int) -> bytes:
        data = super()._part(begin, end)
        self.taken += len(data)
        return data


# ---- torch -------------------------------------------------------------------------------------------------------


def _of_torch(wheel: RemoteWheel) -> Code | None:
    text = wheel.read(VERSION_IN).decode("utf-8", "replace") if VERSION_IN in wheel.members else ""
    named = re.search(r"^__version__ = '[^'+]*(\+[^']+)?'", text, re.MULTILINE)
    label = (named[1] or "") if named else ""
    if re.search(r"^cuda(?:: [^=]+)? = None$", text, re.MULTILINE) and re.search(r"^hip(?:: [^=]+)? = None$", text, re.MULTILINE):
        return Code(archs=(), label=label, where=VERSION_IN)
    flags = find_flags(wheel.stream(FLAGS_IN))
    if not flags:
        raise Distrusted(f"its {FLAGS_IN} has no list of architectures")
    return Code(
        archs=_sorted(word for word in flags if not word.startswith("compute_")), ptx=_ptx(flags), label=label, where=FLAGS_IN
    )


def find_flags(pieces: Iterable[bytes]) -> tuple[str, ...]:
    """The list of architectures in a library: the first text of several words that are nothing else, or one word alone."""
    longest = b""
    tail = b"\x00"
    for piece in pieces:
        data = tail + piece
        for found in _FLAGS.findall(data):
            if len(found) > len(longest):
                longest = found
        if b" " in longest:
            break
        tail = data[-4096:]
    return tuple(longest.decode("ascii").split())


def _ptx(flags: Iterable[str]) -> tuple[str, ...]:
    return _sorted(word.replace("compute_", "sm_") for word in flags if word.startswith("compute_"))


def _sorted(words: Iterable[str]) -> tuple[str, ...]:
    # What a feature variant (sm_90a) adds for the same device is no architecture of its own here.
    return tuple(sorted({word.rstrip("af") if word.startswith("sm_") else word for word in words}, key=arch_order))


# ---- other libraries ---------------------------------------------------------------------------------------------


def _of_libraries(wheel: RemoteWheel) -> Code | None:
    libraries = [member for member in wheel.members.values() if re.search(r"\.so(\.[\d.]+)?$|\.pyd$|\.dll$", member.name)]
    sass: set[str] = set()
    ptx: set[str] = set()
    where: list[str] = []
    # Helpers that lie beside the package (*.libs/) are other people's.
    for member in sorted(libraries, key=lambda one: one.packed):
        if ".libs/" in member.name or member.packed > _LARGEST:
            continue
        found = read_code(wheel.stream(member.name))
        if found[0] or found[1]:
            where.append(member.name.rpartition("/")[2])
            sass |= found[0]
            ptx |= found[1]
    return Code(archs=_sorted(sass), ptx=_sorted(ptx), where=", ".join(where)) if where else None


def read_code(pieces: Iterable[bytes]) -> tuple[set[str], set[str]]:
    """The architectures of machine code and of PTX in a library. Stops when more brings nothing new."""
    sass: set[str] = set()
    ptx: set[str] = set()
    reader = _FatBinaries()
    stale = 0
    tail = b""
    for piece in pieces:
        known = len(sass) + len(ptx)
        for kind, number in reader.feed(piece):
            (ptx if kind == _PTX else sass).add(f"sm_{number}")
        data = tail + piece
        sass |= {found.decode() for found in _BUNDLED.findall(data)} | _packed_bundles(data)
        tail = data[-4096:]
        if len(sass) + len(ptx) > known:
            stale, reader.containers = 0, 0
        elif reader.containers:
            stale = reader.containers
        if stale >= _ENOUGH:
            break
    return sass, ptx


def _packed_bundles(data: bytes) -> set[str]:
    """The architectures of AMD's packed bundles: their names lie at the beginning of what is packed."""
    found: set[str] = set()
    at = data.find(b"CCOB")
    while at >= 0:
        version, method = struct.unpack("<HH", data[at + 4 : at + 8]) if len(data) >= at + 8 else (0, 0)
        header = {1: 20, 2: 24, 3: 32}.get(version, 0)
        if header and method in (_ZLIB, _ZSTD):
            names = _unpacked(data[at + header : at + header + 65536], method)
            found |= {name.decode() for name in _BUNDLED.findall(names)}
        at = data.find(b"CCOB", at + 4)
    return found


def _unpacked(data: bytes, method: int) -> bytes:
    """The beginning of packed data."""
    try:
        if method == _ZLIB:
            return zlib.decompressobj().decompress(data, 65536)
        zstd = importlib.import_module("compression.zstd")
    except zlib.error:
        return b""
    except ImportError:
        raise Distrusted("its code is packed with zstd, which Python 3.14 and newer can read") from None
    try:
        unpacked: bytes = zstd.ZstdDecompressor().decompress(data, 65536)
    except zstd.ZstdError:
        return b""
    return unpacked


class _FatBinaries:
    """Finds fat binaries in a stream of bytes; only their headers are looked at."""

    def __init__(self) -> None:
        self.containers = 0
        self._data = b""
        self._skip = 0  # bytes that are not looked at
        self._left = 0  # of the fat binary that is being read

    def feed(self, piece: bytes) -> Iterator[tuple[int, int]]:
        """Kind and architecture of each entry whose header is there now."""
        self._data += piece
        while True:
            if self._skip:
                gone = min(self._skip, len(self._data))
                self._data, self._skip = self._data[gone:], self._skip - gone
                if self._skip:
                    return
            if self._left > 0:
                if len(self._data) < _ENTRY.size:
                    return
                kind, _, header, size, _, _, _, _, number = _ENTRY.unpack(self._data[: _ENTRY.size])
                whole = header + size
                if kind not in (_PTX, _ELF) or not 0 < whole <= self._left or not 10 <= number < 1000:
                    self._left = 0  # no fat binary after all
                    continue
                yield kind, number
                self._left -= whole
                self._skip = whole
                continue
            at = self._data.find(_MAGIC)
            if at < 0:
                self._data = self._data[-len(_MAGIC) + 1 :]
                return
            if len(self._data) < at + 16:
                self._data = self._data[at:]
                return
            (self._left,) = struct.unpack("<Q", self._data[at + 8 : at + 16])
            self.containers += 1
            self._data = self._data[at + 16 :]
