"""Encode and decode the sample_id trailer of side-band records.

Layout: struct sample_id in include/uapi/linux/perf_event.h; it has the fields of sample_type.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr


class SampleId(NamedTuple):
    """struct sample_id: the task, time and event of a side-band record; None for a field that the event lacks."""

    pid: int | None = None
    tid: int | None = None
    time: int | None = None
    id: int | None = None
    stream_id: int | None = None
    cpu: int | None = None
    identifier: int | None = None


class IdLayout:
    """The layout of the sample_id trailer for one sample_type; `size` is its length in bytes, 0 for sample_type 0."""

    def __init__(self, sample_type: int, endian: str) -> None:
        code = endian
        names: list[str] = []
        for bit, kind, fields in (
            (SampleType.TID, "II", ("pid", "tid")),
            (SampleType.TIME, "Q", ("time",)),
            (SampleType.ID, "Q", ("id",)),
            (SampleType.STREAM_ID, "Q", ("stream_id",)),
            (SampleType.CPU, "II", ("cpu", "")),
            (SampleType.IDENTIFIER, "Q", ("identifier",)),
        ):
            if sample_type & bit:
                code += kind
                names.extend(fields)
        self._struct = struct.Struct(code)
        self._names = tuple(names)
        self.size = self._struct.size
        self._zeros = bytes(self.size)
        # the index of each of SampleId's fields in the unpacked struct, which is followed by a None for missing fields
        self._positions = tuple(names.index(field) if field in names else len(names) for field in SampleId._fields)

    @classmethod
    def of(cls, attr: EventAttr, endian: str) -> IdLayout:
        """Return the trailer of an event's records; empty without sample_id_all."""
        return cls(attr.sample_type if attr.sample_id_all else 0, endian)

    def decode(self, body: bytes) -> SampleId | None:
        """Decode the trailer at the end of a record's body; None if the event has none."""
        if not self.size:
            return None
        values = (*self._struct.unpack_from(body, len(body) - self.size), None)
        return SampleId._make([values[position] for position in self._positions])

    def encode(self, sample_id: SampleId | None) -> bytes:
        """Encode; the mirror of decode(). Missing values become 0."""
        if sample_id is None:
            return self._zeros
        return self._struct.pack(*(((getattr(sample_id, name) or 0) if name else 0) for name in self._names))


NO_ID: Final = IdLayout(0, "<")  # without fields it has no byte order
