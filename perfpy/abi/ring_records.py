"""Records as a program reads them from its own rings: one value each.

What enters: the attrs of the counters that write to a ring, and its bytes.
What leaves: for each record a value of perfpy.abi.records, or a `RingSample`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import ReadFormat, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.readings import Reading
from perfpy.abi.records import decode
from perfpy.abi.sample_id import IdLayout
from perfpy.abi.samples import SampleLayout
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.abi.records import KernelRecord

_WORD: Final = 8
_READING_BITS: Final = (ReadFormat.TOTAL_TIME_ENABLED, ReadFormat.TOTAL_TIME_RUNNING, ReadFormat.ID, ReadFormat.LOST)
#: what says how a record is laid out
_layout_of: Final = attrgetter(
    "sample_type", "sample_id_all", "read_format", "branch_sample_type", "sample_regs_user", "sample_regs_intr", "sample_stack_user"
)


class RingSample:
    """One sample: its fields are attributes, those that its event asks for (`sample.ip`, `sample.callchain`, `sample.read`).

    Numbers are int; callchain and registers lists of int; raw data, copied stacks and AUX data bytes; read a list of
    Reading, one a member of the group; branch_stack a list of (from, to, flags).

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
            asked = [bool(self._read_format & bit) for bit in _READING_BITS]
            return [_reading(member, asked) for member in values.tolist()]
        return values.tobytes() if values.dtype == np.uint8 else values.tolist()

    def __dir__(self) -> list[str]:
        return list(self._columns)

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in self._columns if name not in ("misc", "cpumode"))
        fields = ", ".join(f"{name}={value:#x}" if name in ("ip", "addr") else f"{name}={value!r}" for name, value in shown)
        return f"RingSample({fields})"


def _reading(member: tuple[int, ...], asked: Sequence[bool]) -> Reading:
    return Reading(member[0], *(field if has else None for field, has in zip(member[1:], asked, strict=True)))


class RingDecoder:
    """Decodes what counters write to one ring.

    attrs: of the counters, by their ids (event ids of the kernel), that of the ring itself first. Where they
    lay records out differently, each must ask for SampleType.IDENTIFIER. Raises UsageError where one does not.
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
        """The records of some whole records' bytes, in their order."""
        found: list[tuple[int, int, int, int]] = []  # type, misc, start, end
        start = 0
        while start < len(data):
            type_, misc, size = HEADER[self._endian].unpack_from(data, start)
            found.append((type_, misc, start, start + max(size, _WORD)))
            start = found[-1][3]
        samples = self._samples(data, [start for type_, _, start, _ in found if type_ == RecordType.SAMPLE])
        for type_, misc, start, end in found:
            if type_ == RecordType.SAMPLE:
                yield samples[start]
            else:
                body = data[start + _WORD : end]
                yield decode(type_, misc, body, self._layouts[self._owner(body, -_WORD)][1], self._endian)

    def _owner(self, body: bytes, position: int) -> int:
        """The id of the counter that wrote a record."""
        if self._alike:
            return self._first
        ident = int.from_bytes(body[position:][:_WORD], "little" if self._endian == "<" else "big")
        return ident if ident in self._layouts else self._first

    def _samples(self, data: bytes, starts: Sequence[int]) -> dict[int, RingSample]:
        """By where they start."""
        of_owner: dict[int, list[int]] = {}
        for start in starts:
            of_owner.setdefault(self._owner(data[start + _WORD : start + 2 * _WORD], 0), []).append(start)
        buffer = np.frombuffer(data, np.uint8)
        samples = {}
        for owner, its_starts in of_owner.items():
            columns, read_format = self._layouts[owner][0].decode(buffer, np.array(its_starts, np.int64)), self._read_formats[owner]
            samples.update({start: RingSample(columns, row, read_format) for row, start in enumerate(its_starts)})
        return samples
