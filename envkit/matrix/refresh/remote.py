"""Members of a wheel on a server: its directory by two requests, then only the parts of what is wanted."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from envkit.matrix.refresh.net import Distrusted, Net

_TAIL = 65536
_PIECE = 1024 * 1024
_LARGEST_DIRECTORY = 64 * 1024 * 1024
_STORED, _DEFLATED = 0, 8
_ZIP64 = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Member:
    """One file inside a wheel."""

    name: str
    method: int
    packed: int  # bytes in the wheel
    size: int
    offset: int  # of its local header


class RemoteWheel:
    """A wheel on a server that sends parts of files. Raises Unreachable or Distrusted."""

    def __init__(self, net: Net, url: str, size: int | None = None) -> None:
        self._net = net
        self._url = url
        self._size = size if size else net.size(url)
        self.members = {member.name: member for member in self._directory()}

    def _part(self, begin: int, end: int) -> bytes:
        return self._net.part(self._url, begin, min(end, self._size))

    def _directory(self) -> Iterator[Member]:
        begin = max(0, self._size - _TAIL)
        tail = self._part(begin, self._size)
        place = tail.rfind(b"PK\x05\x06")
        if place < 0 or len(tail) - place < 22:
            raise Distrusted("the file is no whole wheel: it has no directory at its end")
        count, length, offset = struct.unpack("<HII", tail[place + 10 : place + 20])
        locator = tail.rfind(b"PK\x06\x07", 0, place)
        if locator >= 0 and (offset == _ZIP64 or length == _ZIP64 or count == 0xFFFF):
            (end_record,) = struct.unpack("<Q", tail[locator + 8 : locator + 16])
            record = self._part(end_record, end_record + 56)
            if record[:4] != b"PK\x06\x06" or len(record) < 56:
                raise Distrusted("the directory of the wheel is damaged")
            length, offset = struct.unpack("<QQ", record[40:56])
        if length > _LARGEST_DIRECTORY or offset + length > self._size:
            raise Distrusted("the directory of the wheel is damaged")
        data = tail[offset - begin : offset - begin + length] if offset >= begin else self._part(offset, offset + length)
        return _entries(data)

    def read(self, name: str, largest: int = 4 * 1024 * 1024) -> bytes:
        """A small member, whole."""
        member = self.members[name]
        if member.size > largest:
            raise Distrusted(f"{name} in the wheel is larger than {largest} bytes")
        return b"".join(self.stream(name))

    def stream(self, name: str) -> Iterator[bytes]:
        """A member from its beginning, in pieces; what the caller does not take is not fetched."""
        member = self.members[name]
        # The local header may have another extra field than the directory says, so it is looked at.
        data = self._part(member.offset, member.offset + 30 + len(name.encode()) + 512 + min(member.packed, _PIECE))
        if data[:4] != b"PK\x03\x04":
            raise Distrusted("the directory of the wheel is damaged")
        names, extras = struct.unpack("<HH", data[26:30])
        begin = member.offset + 30 + names + extras
        end = begin + member.packed
        piece = data[30 + names + extras :][: member.packed]
        taken = begin + len(piece)
        unpack = zlib.decompressobj(-15) if member.method == _DEFLATED else None
        if unpack is None and member.method != _STORED:
            raise Distrusted(f"{name} is packed in a way that is not known ({member.method})")
        while piece:
            try:
                yield unpack.decompress(piece) if unpack else piece
            except zlib.error:
                raise Distrusted(f"{name} in the wheel is damaged") from None
            piece = self._part(taken, min(end, taken + _PIECE)) if taken < end else b""
            taken += len(piece)


def _entries(data: bytes) -> Iterator[Member]:
    at = 0
    while at + 46 <= len(data) and data[at : at + 4] == b"PK\x01\x02":
        method, packed, size = struct.unpack("<H8xII", data[at + 10 : at + 28])
        names, extras, comments = struct.unpack("<HHH", data[at + 28 : at + 34])
        (offset,) = struct.unpack("<I", data[at + 42 : at + 46])
        name = data[at + 46 : at + 46 + names].decode("utf-8", "replace")
        extra = data[at + 46 + names : at + 46 + names + extras]
        size, packed, offset = _zip64(extra, size, packed, offset)
        yield Member(name, method, packed, size, offset)
        at += 46 + names + extras + comments
    if at != len(data):
        raise Distrusted("the directory of the wheel is damaged")


def _zip64(extra: bytes, *fields: int) -> tuple[int, ...]:
    """The fields that did not fit their 32 bits, from the extra field, in its order."""
    if _ZIP64 not in fields:
        return fields
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack("<HH", extra[at : at + 4])
        if kind == 1:
            values = iter(struct.unpack(f"<{length // 8}Q", extra[at + 4 : at + 4 + length // 8 * 8]))
            return tuple(next(values, field) if field == _ZIP64 else field for field in fields)
        at += 4 + length
    return fields
