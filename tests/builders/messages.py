"""The fields of protocol buffers, read without a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def varints(data: bytes) -> list[int]:
    """Return the numbers of a packed field."""
    values, shift, value = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            values.append(value)
            shift = value = 0
    return values


def protobuf(data: bytes) -> Iterator[tuple[int, Any]]:
    """Yield a message's fields: varints as int, length-delimited ones as bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        start = at
        while data[at] > 0x7F:
            at += 1
        at += 1
        return varints(data[start:at])[0]

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            size = varint()
            yield key >> 3, data[at : at + size]
            at += size
        else:
            yield key >> 3, varint()
