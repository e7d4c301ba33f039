"""The messages between the recorder and the unwinding process, over two pipes.

request { u32 kind, extents; { u64 store, offset, size; } [extents] }
answer  { u32 kind, reserved; u64 size; char data[size] }
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.capture.unwinding.spool import Extent

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Requests: the events, as HEADER_ATTR records; records that are in the file already; records to unwind; end of records;
#: the file's features; the oldest piece is in the file (one extent: inode, 0, end).
EVENTS: Final = 1
KNOWN: Final = 2
PIECE: Final = 3
END: Final = 4
FEATURES: Final = 5
WRITTEN: Final = 6

#: Answers: ready; records of the oldest piece; its end; a copy of its side-band records; a line for the user; the files that
#: samples hit; all work is finished; lines of a perf map (u64 pid, text); the image of the Python functions (path, NUL, bytes).
READY: Final = 11
RECORDS: Final = 12
PIECE_DONE: Final = 13
SIDE_BAND: Final = 14
NOTE: Final = 15
HITS: Final = 16
FINISHED: Final = 17
NAMES: Final = 18
IMAGE: Final = 19

_REQUEST: Final = struct.Struct("=II")
_EXTENT: Final = struct.Struct("=QQQ")
_ANSWER: Final = struct.Struct("=IIQ")
_FEATURE: Final = struct.Struct("=IQ")
_PID: Final = struct.Struct("=Q")


def request(kind: int, extents: Sequence[Extent] = ()) -> bytes:
    """Encode a request."""
    return _REQUEST.pack(kind, len(extents)) + b"".join(_EXTENT.pack(*extent) for extent in extents)


def answer(kind: int, data: bytes = b"") -> bytes:
    """Encode an answer."""
    return _ANSWER.pack(kind, 0, len(data)) + data


def encode_features(features: Mapping[int, bytes]) -> bytes:
    """Encode the features for FEATURES."""
    return b"".join(_FEATURE.pack(number, len(data)) + data for number, data in features.items())


def decode_features(data: bytes) -> dict[int, bytes]:
    """Decode the bytes of encode_features()."""
    features, offset = {}, 0
    while offset < len(data):
        number, size = _FEATURE.unpack_from(data, offset)
        offset += _FEATURE.size
        features[number] = data[offset : offset + size]
        offset += size
    return features


def names(pid: int, lines: str) -> bytes:
    """Encode an answer with lines of a process's perf map."""
    return answer(NAMES, _PID.pack(pid) + lines.encode("utf-8", "replace"))


def decode_names(data: bytes) -> tuple[int, bytes]:
    """Decode an answer of names()."""
    return _PID.unpack_from(data)[0], data[_PID.size :]


class Incoming:
    """Reassembles messages from the pieces that are read."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Add bytes that were read."""
        self._bytes += data

    def requests(self) -> Iterator[tuple[int, list[Extent]]]:
        """Yield the complete requests."""
        while len(self._bytes) >= _REQUEST.size:
            kind, count = _REQUEST.unpack_from(self._bytes)
            end = _REQUEST.size + count * _EXTENT.size
            if len(self._bytes) < end:
                return
            extents = [Extent(*numbers) for numbers in _EXTENT.iter_unpack(bytes(self._bytes[_REQUEST.size : end]))]
            del self._bytes[:end]
            yield kind, extents

    def answers(self) -> Iterator[tuple[int, bytes]]:
        """Yield the complete answers."""
        while len(self._bytes) >= _ANSWER.size:
            kind, _, size = _ANSWER.unpack_from(self._bytes)
            end = _ANSWER.size + size
            if len(self._bytes) < end:
                return
            data = bytes(self._bytes[_ANSWER.size : end])
            del self._bytes[:end]
            yield kind, data
