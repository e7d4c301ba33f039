"""Read and write the primitive fields of feature sections: numbers, strings and counts, each checked against the section's end.

Layout of a string: struct perf_header_string { u32 len; char string[len]; } with len a multiple
of 64 that includes the terminating NUL.
"""

from __future__ import annotations

import struct

from perfpy.abi.framing import as_number

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import TypeVar

    _T = TypeVar("_T")

_NAME_ALIGN = 64


class FieldReader:
    """A cursor over the fields of a section. Every method raises ValueError if the bytes end too early.

    Attributes:
        cpus: CPUs of the recorded machine, if an earlier section had them.
    """

    def __init__(self, data: bytes, endian: str = "<", *, cpus: int | None = None) -> None:
        self._data = data
        self.cpus = cpus
        self._offset = 0
        self.endian = endian

    @property
    def remaining(self) -> int:
        """Bytes not read yet."""
        return len(self._data) - self._offset

    def raw(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if size > self.remaining:
            raise ValueError(f"{size} bytes expected, {self.remaining} are left")
        self._offset += size
        return self._data[self._offset - size : self._offset]

    def u32(self) -> int:
        """Return the next 4 bytes as a number."""
        return as_number(self.raw(4), self.endian)

    def u64(self) -> int:
        """Return the next 8 bytes as a number."""
        return as_number(self.raw(8), self.endian)

    def u64s(self, count: int) -> tuple[int, ...]:
        """Return the next `count` 8-byte numbers."""
        return struct.unpack(f"{self.endian}{count}Q", self.raw(8 * count))

    def string(self) -> str:
        """Return a counted string up to its first NUL, UTF-8 with surrogate escapes."""
        return self.raw(self.u32()).split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def read_string(self) -> str:
        """Return a NUL-terminated string, UTF-8 with surrogate escapes."""
        end = self._data.find(b"\0", self._offset)
        if end < 0:
            raise ValueError("string has no terminating NUL")
        return self.raw(end + 1 - self._offset)[:-1].decode("utf-8", "surrogateescape")

    def list(self, count: int, read: Callable[[], _T], at_least: int) -> tuple[_T, ...]:
        """Return `count` entries of at least `at_least` bytes each; reject a count that cannot fit before reading."""
        if count * at_least > self.remaining:
            raise ValueError(f"{count} entries do not fit the {self.remaining} bytes left")
        return tuple(read() for _ in range(count))

    def strings(self) -> tuple[str, ...]:
        """Return a u32 count's strings."""
        return self.list(self.u32(), self.string, 4)


class FieldWriter:
    """A buffer of encoded fields: the reverse of FieldReader."""

    def __init__(self, endian: str = "<") -> None:
        self._parts: list[bytes] = []
        self.endian = endian

    def raw(self, data: bytes) -> None:
        """Append bytes."""
        self._parts.append(data)

    def u32(self, *values: int) -> None:
        """Append 4-byte numbers."""
        self._parts.append(struct.pack(f"{self.endian}{len(values)}I", *values))

    def u64(self, *values: int) -> None:
        """Append 8-byte numbers."""
        self._parts.append(struct.pack(f"{self.endian}{len(values)}Q", *values))

    def string(self, value: str) -> None:
        """Append a counted string, padded like perf's."""
        data = value.encode("utf-8", "surrogateescape")
        size = (len(data) + _NAME_ALIGN) // _NAME_ALIGN * _NAME_ALIGN
        self.u32(size)
        self.raw(data.ljust(size, b"\0"))

    def strings(self, values: Iterable[str]) -> None:
        """Append a u32 count and the strings."""
        values = tuple(values)
        self.u32(len(values))
        for value in values:
            self.string(value)

    def getvalue(self) -> bytes:
        """Return all bytes written so far."""
        return b"".join(self._parts)
