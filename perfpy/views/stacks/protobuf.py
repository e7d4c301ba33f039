"""The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding): fields of messages to bytes."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERS_KEPT: Final = 1 << 16  # cached encodings of numbers
_FIXED64: Final = 1
_LENGTH_DELIMITED: Final = 2


@lru_cache(_NUMBERS_KEPT)
def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a varint field; proto3 omits 0.

    >>> number(1, 300).hex(), number(1, 0)
    ('08ac02', b'')
    """
    return _varint(field << 3) + _varint(value) if value else b""


def fixed(field: int, value: int) -> bytes:
    """Return a fixed64 field; proto3 omits 0."""
    return _varint(field << 3 | _FIXED64) + struct.pack("<Q", value) if value else b""


def message(field: int, data: bytes) -> bytes:
    """Return a field of bytes, text or a message."""
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """Return a field of text; proto3 omits empty ones."""
    return message(field, value.encode("utf-8", "replace")) if value else b""


def packed(field: int, values: Sequence[int]) -> bytes:
    """Return a field of many varints."""
    return message(field, b"".join(map(_varint, values)))
