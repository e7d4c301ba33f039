"""A cursor over bytes, and its mirror: the primitive fields that feature sections are made of.

What enters: a section's bytes and its byte order. What leaves: numbers,
strings and counts, each checked against what is left. Layout of a string:
struct perf_header_string { u32 len; char string[len]; } with len a multiple
of 64 that includes the terminating NUL.
"""

from __future__ import annotations

import struct

from perfpy.abi.byteorder import as_number

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    _T = TypeVar("_T")

_NAME_ALIGN = 64


class FieldReader:
    """Reads one field after the other; every method raises ValueError when the bytes end too early.

    cpus: the number of CPUs of the machine recorded, where a section before told it.
    """

    def __init__(self, data: bytes, endian: str = "<", *, cpus: int | None = None) -> None:
        self._data = data
        self.cpus = cpus
        self._offset = 0
        self.endian = endian

    @property
    def left(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._offset

    def raw(self, size: int) -> bytes:
        """The next `size` bytes."""
        if size > self.left:
            raise ValueError(f"{size} bytes expected, {self.left} are left")
        self._offset += size
        return self._data[self._offset - size : self._offset]

    def u32(self) -> int:
        """The next 4 bytes as a number."""
        return as_number(self.raw(4), self.endian)

    def u64(self) -> int:
        """The next 8 bytes as a number."""
        return as_number(self.raw(8), self.endian)

    def u64s(self, count: int) -> tuple[int, ...]:
        """The next `count` 8-byte numbers."""
        return struct.unpack(f"{self.endian}{count}Q", self.raw(8 * count))

    def string(self) -> str:
        """A counted string up to its first NUL, UTF-8 with surrogate escapes."""
        return self.raw(self.u32()).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def terminated(self) -> str:
        """A string that ends with its NUL, UTF-8 with surrogate escapes."""
        end = self._data.find(b"\0", self._offset)
        if end < 0:
            raise ValueError("a string without an end")
        return self.raw(end + 1 - self._offset)[:-1].decode("utf-8", "surrogateescape")

    def list(self, count: int, read: Callable[[], _T], at_least: int) -> tuple[_T, ...]:
        """`count` entries of at least `at_least` bytes each; a count that cannot fit is refused before any is read."""
        if count * at_least > self.left:
            raise ValueError(f"{count} entries where {self.left} bytes are left")
        return tuple(read() for _ in range(count))

    def strings(self) -> tuple[str, ...]:
        """A u32 count and as many strings."""
        return self.list(self.u32(), self.string, 4)


class FieldWriter:
    """The mirror of FieldReader; getvalue() gives the bytes."""

    def __init__(self, endian: str = "<") -> None:
        self._parts: list[bytes] = []
        self.endian = endian

    def raw(self, data: bytes) -> None:
        """Bytes as they are."""
        self._parts.append(data)

    def u32(self, *values: int) -> None:
        """Numbers of 4 bytes."""
        self._parts.append(struct.pack(f"{self.endian}{len(values)}I", *values))

    def u64(self, *values: int) -> None:
        """Numbers of 8 bytes."""
        self._parts.append(struct.pack(f"{self.endian}{len(values)}Q", *values))

    def string(self, value: str) -> None:
        """A counted string, padded as perf does."""
        data = value.encode("utf-8", "surrogateescape")
        size = (len(data) + _NAME_ALIGN) // _NAME_ALIGN * _NAME_ALIGN
        self.u32(size)
        self.raw(data.ljust(size, b"\0"))

    def strings(self, values: Iterable[str]) -> None:
        """A u32 count and as many strings."""
        values = tuple(values)
        self.u32(len(values))
        for value in values:
            self.string(value)

    def getvalue(self) -> bytes:
        """All that was written."""
        return b"".join(self._parts)
