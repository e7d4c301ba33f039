"""The trailer that says who and when of a side-band record <-> SampleId.

Layout: include/uapi/linux/perf_event.h, struct sample_id: the fields that sample_type asks for.
"""

# no `from __future__ import annotations`: a NamedTuple is made in half the time from types that are there

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType
from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr


class SampleId(NamedTuple):
    """struct sample_id: who and when of a side-band record; None where the event does not say."""

    pid: int | None = None
    tid: int | None = None
    time: int | None = None
    id: int | None = None
    stream_id: int | None = None
    cpu: int | None = None
    identifier: int | None = None


class IdLayout:
    """Where the sample_id trailer's fields are, for one sample_type; `size` is its length in bytes.

    Built with sample_type 0 it is no trailer at all.
    """

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
        # of each of SampleId's fields the index in what the struct has and a None after it
        self._positions = tuple(names.index(field) if field in names else len(names) for field in SampleId._fields)

    @classmethod
    def of(cls, attr: "EventAttr", endian: str) -> "IdLayout":
        """The trailer of the records of an event: none without sample_id_all."""
        return cls(attr.sample_type if attr.sample_id_all else 0, endian)

    def decode(self, body: bytes) -> SampleId | None:
        """The trailer at the end of a record's body; None when the event has none."""
        if not self.size:
            return None
        values = (*self._struct.unpack_from(body, len(body) - self.size), None)
        return SampleId._make([values[position] for position in self._positions])

    def encode(self, sample_id: SampleId | None) -> bytes:
        """The mirror of decode(); missing values become 0."""
        given = sample_id or SampleId()
        return self._struct.pack(*(((getattr(given, name) or 0) if name else 0) for name in self._names))


NO_ID: Final = IdLayout(0, "<")  # without fields it has no byte order
