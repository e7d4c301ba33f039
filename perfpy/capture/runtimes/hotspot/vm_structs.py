"""The tables of HotSpot's data structures, which libjvm.so exports for tools: offsets, sizes, addresses.

Layout: OpenJDK, vmStructs.cpp: gHotSpotVMStructs is an array of entries, ended by one without a type name; further variables
have the size of an entry and the offsets in it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from perfpy.capture.runtimes.hotspot.process_memory import ProcessMemory

VARIABLES: Final = "gHotSpotVM"
_MOST_ENTRIES: Final = 1 << 14
_LARGEST_ENTRY: Final = 1 << 10
_BLOCK: Final = 1 << 16
_WORD: Final = struct.Struct("=Q")
_INT: Final = struct.Struct("=i")
_SIZES: Final = {"u1": 1, "u2": 2, "int16_t": 2, "bool": 1}
_SIGNED: Final = ("int", "int16_t")


class StructField(NamedTuple):
    """A field of a struct.

    Attributes:
        offset: in its struct; the address for a static field.
        size: bytes.
        is_signed: whether it may be negative.
    """

    offset: int
    size: int
    is_signed: bool

    @classmethod
    def of_type(cls, offset: int, kind: str) -> StructField:
        """Return a field of a C++ type."""
        size = 8 if kind.endswith("*") or kind in ("address", "size_t") else _SIZES.get(kind, 4)
        return cls(offset, size, kind in _SIGNED)

    def of(self, data: bytes) -> int:
        """Return its value in the bytes of a struct. Raises ValueError if they are too short."""
        if not 0 <= self.offset <= len(data) - self.size:
            raise ValueError("a field outside of its struct")
        return int.from_bytes(data[self.offset : self.offset + self.size], "little", signed=self.is_signed)


class VmStructs:
    """All fields, and the sizes of all types. addresses has the exported variables."""

    def __init__(self, memory: ProcessMemory, addresses: Mapping[str, int]) -> None:
        self._memory = memory
        self._addresses = addresses
        self._fields: dict[tuple[str, str], StructField] = {}
        self._sizes: dict[str, int] = {}
        for entry, offsets in self._entries("Structs", "Struct", ("TypeName", "FieldName", "TypeString", "IsStatic", "Offset", "Address")):
            type_name, field, kind, static, offset, address = offsets
            is_static = _INT.unpack_from(entry, static)[0]
            value = _WORD.unpack_from(entry, address if is_static else offset)[0]
            self._fields[self._text(entry, type_name), self._text(entry, field)] = StructField.of_type(value, self._text(entry, kind))
        for entry, (type_name, size) in self._entries("Types", "Type", ("TypeName", "Size")):
            self._sizes[self._text(entry, type_name)] = _WORD.unpack_from(entry, size)[0]

    def field(self, *names: tuple[str, str]) -> StructField:
        """Return the first field (struct, name) that this version has. Raises LookupError if it has none of them."""
        field = self.has(*names)
        if field is None:
            raise LookupError("::".join(names[0]))
        return field

    def has(self, *names: tuple[str, str]) -> StructField | None:
        """Return the same; None if this version has none of them."""
        return next((self._fields[name] for name in names if name in self._fields), None)

    def size(self, type_name: str) -> int:
        """Return the size of a type. Raises LookupError."""
        return self._sizes[type_name]

    def _text(self, entry: bytes, begin: int) -> str:
        return self._memory.text(_WORD.unpack_from(entry, begin)[0])

    def _entries(self, table: str, kind: str, names: tuple[str, ...]) -> Iterator[tuple[bytes, tuple[int, ...]]]:
        """Yield the bytes of each entry, and the offsets in it."""
        start, size = self._variable(table), self._variable(f"{kind}EntryArrayStride")
        offsets = tuple(self._variable(f"{kind}Entry{name}Offset") for name in names)
        if not max(offsets) + 8 <= size <= _LARGEST_ENTRY:
            raise LookupError(f"{VARIABLES}{table}")
        data = b""
        for number in range(_MOST_ENTRIES):
            if len(data) < (number + 1) * size:
                data += self._memory.some(start + len(data), _BLOCK)
            entry = data[number * size : (number + 1) * size]
            if len(entry) < size or not _WORD.unpack_from(entry, offsets[0])[0]:
                return
            yield entry, offsets

    def _variable(self, name: str) -> int:
        return self._memory.number(self._addresses[f"{VARIABLES}{name}"])
