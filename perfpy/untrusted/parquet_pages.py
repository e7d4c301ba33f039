"""The memory that a Parquet file's columns need, computed before any page is expanded.

Raises ExpansionError for invalid pages. Column totals in the file are ignored, because libraries use the header of each page, with its size
and number of values, where one run can stand for a billion values. Layout: parquet.thrift of the Apache Parquet format 2.11 (PageHeader),
in Thrift's compact protocol.
"""

from __future__ import annotations

from typing import Any, BinaryIO, Final

from perfpy.untrusted.expansion import ExpansionError

# fields of PageHeader, and of the three kinds of headers in it
_UNCOMPRESSED, _COMPRESSED, _DATA, _DICTIONARY, _DATA_2 = 2, 3, 5, 7, 8
_VALUES: Final = 1
_ENCODING: Final = {_DATA: 2, _DICTIONARY: 2, _DATA_2: 4}
#: plain, dictionaries, runs, packed bits, differences, split bytes: no value can be longer than what is there of it
_ENCODINGS: Final = frozenset((0, 2, 3, 4, 5, 6, 8, 9))
# a page's header may have the least and the largest value of the page, which others keep below 4 kB
_HEADER: Final = 1 << 16
_DEPTH: Final = 4
_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)


def memory_of(file: BinaryIO, start: int, size: int, width: int) -> int:
    """What a column chunk becomes. start, size: in the file; width: bytes of a value. Raises ExpansionError where it is damaged."""
    position, total = start, 0
    while position < start + size:
        file.seek(position)
        header = _CompactFields(file.read(_HEADER))
        page = header.struct(_DEPTH)
        uncompressed, compressed = _number(page, _UNCOMPRESSED), _number(page, _COMPRESSED)
        for kind, field in _ENCODING.items():
            if kind in page:
                about = page[kind]
                if _number(about, field) not in _ENCODINGS:
                    raise ExpansionError(f"the values of a page have an encoding ({_number(about, field)}) that perfpy does not write")
                total += _number(about, _VALUES) * width
        total += uncompressed
        position += header.position + compressed
    return total


def _number(fields: Any, field: int) -> int:
    value = fields.get(field) if isinstance(fields, dict) else None
    if not isinstance(value, int) or value < 0:
        raise ExpansionError("the header of a page is damaged")
    return value


class _CompactFields:
    """Structs in Thrift's compact protocol: fields by number, integers and structs with their values, others passed over."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.position = 0

    def struct(self, depth: int) -> dict[int, Any]:
        """The struct at the position."""
        found: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) != _STOP:
            field = field + (head >> 4) if head >> 4 else self._integer()
            found[field] = self._value(head & 15, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return None
        if kind in (_I16, _I32, _I64):
            return self._integer()
        if kind == _STRUCT and depth:
            return self.struct(depth - 1)
        if kind == _BINARY:
            length = self._varint()  # which moves on
            self.position += length
        elif kind == _BYTE:
            self.position += 1
        elif kind == _DOUBLE:
            self.position += 8
        else:  # no header has others
            raise ExpansionError("the header of a page is damaged")
        return None

    def _byte(self) -> int:
        if self.position >= len(self._data):
            raise ExpansionError("the header of a page is cut off, or too large")
        self.position += 1
        return self._data[self.position - 1]

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > 63:
                raise ExpansionError("the header of a page is damaged")

    def _integer(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)
