"""Decode the records of a ring buffer of this process, one value each."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.attr import Reading
from perfpy.abi.columns import Ragged
from perfpy.abi.flags import ReadFormat, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import IdLayout, decode
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.abi.records import KernelRecord

_WORD: Final = 8
_READING_BITS: Final = (ReadFormat.TOTAL_TIME_ENABLED, ReadFormat.TOTAL_TIME_RUNNING, ReadFormat.ID, ReadFormat.LOST)
#: the fields of an attr that determine the layout of its records
_layout_of: Final = attrgetter(
    "sample_type", "sample_id_all", "read_format", "branch_sample_type", "sample_regs_user", "sample_regs_intr", "sample_stack_user"
)


class RingSample:
    """One sample. The fields that its event samples are attributes (`sample.ip`, `sample.callchain`, `sample.read`).

    Numbers are int; callchain and registers are lists of int; raw data, stack copies and AUX data are bytes; read is a list of Reading, one
    for each member of the group; branch_stack is a list of (from, to, flags).

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u", sample_period=1, sample_type=perfpy.SampleType.IP) as counter:
    ...     ring = counter.ring(pages=1)
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     sample = next(iter(ring))
    >>> sample.ip > 0
    True
    """

    __slots__ = ("_columns", "_read_format", "_row")

    def __init__(self, columns: Columns, row: int, read_format: int) -> None:
        self._columns = columns
        self._row = row
        self._read_format = read_format

    def __getattr__(self, name: str) -> Any:
        column = self._columns.get(name)
        if column is None:
            raise AttributeError(f"its event's samples have no '{name}': {', '.join(self._columns)}")
        if not isinstance(column, Ragged):
            return column[self._row].item()
        values = column[self._row]
        if name == "read":
            present = [bool(self._read_format & bit) for bit in _READING_BITS]
            return [
                Reading(member[0], *(field if has else None for field, has in zip(member[1:], present, strict=True)))
                for member in values.tolist()
            ]
        return values.tobytes() if values.dtype == np.uint8 else values.tolist()

    def __dir__(self) -> list[str]:
        return list(self._columns)

    def __repr__(self) -> str:
        items = ((name, getattr(self, name)) for name in self._columns if name not in ("misc", "cpumode"))
        fields = ", ".join(f"{name}={value:#x}" if name in ("ip", "addr") else f"{name}={value!r}" for name, value in items)
        return f"RingSample({fields})"


class RingDecoder:
    """The decoder of one ring buffer.

    `attrs` maps the counters' ids (the kernel's event ids) to their attrs, the owner of the ring first. If their layouts differ, each must
    sample SampleType.IDENTIFIER. Raises UsageError otherwise.
    """

    def __init__(self, attrs: Mapping[int, EventAttr], endian: str) -> None:
        self._endian = endian
        self._layouts = {ident: (SampleLayout(attr, endian), IdLayout.of(attr, endian)) for ident, attr in attrs.items()}
        self._read_formats = {ident: attr.read_format for ident, attr in attrs.items()}
        self._first = next(iter(attrs))
        self._alike = len(set(map(_layout_of, attrs.values()))) == 1
        if not self._alike and not all(attr.sample_type & SampleType.IDENTIFIER and attr.sample_id_all for attr in attrs.values()):
            raise UsageError("counters of one ring that sample differently must all have sample_type IDENTIFIER and sample_id_all")

    def decode(self, data: bytes) -> Iterator[KernelRecord | RingSample]:
        """Yield the records in the bytes of complete records, in order."""
        headers: list[tuple[int, int, int, int]] = []  # type, misc, start, end
        start = 0
        while start < len(data):
            type_, misc, size = HEADER[self._endian].unpack_from(data, start)
            headers.append((type_, misc, start, start + max(size, _WORD)))
            start = headers[-1][3]
        samples = self._samples(data, [start for type_, _, start, _ in headers if type_ == RecordType.SAMPLE])
        for type_, misc, start, end in headers:
            if type_ == RecordType.SAMPLE:
                yield samples[start]
            else:
                body = data[start + _WORD : end]
                yield decode(type_, misc, body, self._layouts[self._owner(body, -_WORD)][1], self._endian)

    def _owner(self, body: bytes, position: int) -> int:
        """Return the id of the counter that wrote a record."""
        if self._alike:
            return self._first
        ident = int.from_bytes(body[position:][:_WORD], "little" if self._endian == "<" else "big")
        return ident if ident in self._layouts else self._first

    def _samples(self, data: bytes, starts: Sequence[int]) -> dict[int, RingSample]:
        """Return the samples by their start."""
        of_owner: dict[int, list[int]] = {}
        for start in starts:
            of_owner.setdefault(self._owner(data[start + _WORD : start + 2 * _WORD], 0), []).append(start)
        buffer = np.frombuffer(data, np.uint8)
        samples = {}
        for owner, owned_starts in of_owner.items():
            columns, read_format = self._layouts[owner][0].decode(buffer, np.array(owned_starts, np.int64)), self._read_formats[owner]
            samples.update({start: RingSample(columns, row, read_format) for row, start in enumerate(owned_starts)})
        return samples
