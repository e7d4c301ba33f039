"""The events of a file: which one a record belongs to, and when the record was made.

What enters: the attrs with their ids, and chunks of records. What leaves:
event indexes and time stamps, for thousands of records at a time. The id is at
a fixed place of samples (struct sample in include/uapi/linux/perf_event.h:
IDENTIFIER comes first, ID behind IP, TID, TIME and ADDR) and, counted from the
end, of the sample_id trailer of all other records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import SampleType
from perfpy.abi.records import NO_ID, IdLayout
from perfpy.abi.samples import SampleLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr

UNKNOWN_EVENT: Final = -1
NEVER: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_TRAILER: Final = (
    SampleType.TID,
    SampleType.TIME,
    SampleType.ID,
    SampleType.STREAM_ID,
    SampleType.CPU,
    SampleType.IDENTIFIER,
)


@dataclass(slots=True)
class FileEvent:
    """One event of a recording: its attr, the ids its samples carry, its name as perf prints it, its place in the file.

    unit, scale, cpus: what EVENT_UPDATE records say; tracepoint: (system,
    name) of a tracepoint event once it is known.
    """

    attr: EventAttr
    ids: tuple[int, ...]
    name: str
    index: int
    unit: str = ""
    scale: float | None = None
    cpus: tuple[int, ...] | None = None
    tracepoint: tuple[str, str] | None = field(default=None)


class EventTable:
    """Looks up the events of records."""

    def __init__(self, events: Sequence[FileEvent], endian: str) -> None:
        self.events = list(events)
        self.endian = endian
        self._layouts: dict[tuple[int, ...], SampleLayout] = {}
        self.layouts = [self._layout(event.attr) for event in events]
        self.trailers = [IdLayout(e.attr.sample_type if e.attr.sample_id_all else 0, endian) for e in events]
        self._time_words = [layout.word_of("time") for layout in self.layouts]
        pairs = sorted((ident, event.index) for event in events for ident in event.ids)
        self._ids = np.array([ident for ident, _ in pairs], np.uint64)
        self._indexes = np.array([index for _, index in pairs], np.int32)

    def _layout(self, attr: EventAttr) -> SampleLayout:
        """One layout for all attrs whose samples look the same."""
        key = (
            attr.sample_type,
            attr.read_format,
            attr.branch_sample_type,
            attr.sample_regs_user,
            attr.sample_regs_intr,
        )
        if key not in self._layouts:
            self._layouts[key] = SampleLayout(attr, self.endian)
        return self._layouts[key]

    @property
    def tells_apart(self) -> bool:
        """Whether the samples say which event they belong to, all at the same place."""
        if len(self.events) < 2:
            return True
        places = {_id_word(event.attr.sample_type) for event in self.events}
        return len(places) == 1 and None not in places

    def index_of(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The events' indexes by id; the id 0 means the first event, as perf has it; UNKNOWN_EVENT where nobody has it."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int32)
        places = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        found = np.where(self._ids[places] == ids, self._indexes[places], UNKNOWN_EVENT)
        return np.where(ids == 0, 0, found).astype(np.int32, copy=False)

    def of_samples(self, words: NDArray[np.uint64], starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """The event of each sample. words: the buffer; starts, ends: of the records, in words."""
        word = _id_word(self.events[0].attr.sample_type) if len(self.events) > 1 else None
        if word is None:
            return np.zeros(len(starts), np.int32)
        whole = starts + word < ends
        ids = words[np.where(whole, starts + word, 0)].astype(np.uint64, copy=False)
        return np.where(whole, self.index_of(ids), UNKNOWN_EVENT)

    def sample_times(
        self, words: NDArray[np.uint64], starts: NDArray[np.int64], ends: NDArray[np.int64], events: NDArray[np.int32]
    ) -> NDArray[np.uint64]:
        """The time stamp of each sample; 0 where it has none."""
        return _words_at(words, starts, ends, self._time_words, events)

    def of_side_band(self, words: NDArray[np.uint64], ends: NDArray[np.int64]) -> NDArray[np.int32]:
        """The event of each of the kernel's other records. ends: behind each record, in words."""
        first = self.events[0].attr
        if len(self.events) == 1 or not first.sample_id_all:
            return np.zeros(len(ends), np.int32)
        back = _words_from_end(first.sample_type, SampleType.IDENTIFIER) or _words_from_end(first.sample_type, SampleType.ID)
        if not back:
            return np.zeros(len(ends), np.int32)
        return self.index_of(words[ends - back].astype(np.uint64, copy=False))

    def side_band_times(
        self, words: NDArray[np.uint64], starts: NDArray[np.int64], ends: NDArray[np.int64], events: NDArray[np.int32]
    ) -> NDArray[np.uint64]:
        """The time stamp of each of the kernel's other records; 0 where it has none."""
        backs = [_words_from_end(e.attr.sample_type, SampleType.TIME) if e.attr.sample_id_all else None for e in self.events]
        negative = [None if back is None else -back for back in backs]
        return _words_at(words, ends, ends, negative, events, starts)

    def trailer(self, event: int) -> IdLayout:
        """The sample_id trailer of the records of an event."""
        return self.trailers[max(event, 0)] if self.trailers else NO_ID

    @property
    def has_times(self) -> bool:
        """Whether any event's records have time stamps."""
        return any(event.attr.sample_type & SampleType.TIME for event in self.events)


def _words_at(
    words: NDArray[np.uint64],
    anchors: NDArray[np.int64],
    ends: NDArray[np.int64],
    distances: Sequence[int | None],
    events: NDArray[np.int32],
    starts: NDArray[np.int64] | None = None,
) -> NDArray[np.uint64]:
    """The word at each record's anchor plus its event's distance; 0 where there is none or it lies outside of the record."""
    starts = anchors if starts is None else starts
    known = set(distances)
    if len(known) == 1:
        (distance,) = known
        if distance is None:
            return np.zeros(len(anchors), np.uint64)
        places = anchors + distance
    else:
        table = np.array([0 if distance is None else distance for distance in distances], np.int64)
        places = anchors + table[events]
    inside = (places > starts) & (places < ends)
    if len(known) > 1:
        inside &= np.array([distance is not None for distance in distances])[events]
    if inside.all():
        values = words[places].astype(np.uint64, copy=False)
    else:
        values = np.where(inside, words[np.where(inside, places, 0)], np.uint64(0)).astype(np.uint64, copy=False)
    return np.where(values == NEVER, np.uint64(0), values)


def _id_word(sample_type: int) -> int | None:
    """The word of a sample that holds its event's id."""
    if sample_type & SampleType.IDENTIFIER:
        return 1
    if not sample_type & SampleType.ID:
        return None
    before = (SampleType.IP, SampleType.TID, SampleType.TIME, SampleType.ADDR)
    return 1 + sum(1 for bit in before if sample_type & bit)


def _words_from_end(sample_type: int, field: SampleType) -> int | None:
    """How many words before a record's end a field of the sample_id trailer begins."""
    if not sample_type & field:
        return None
    return sum(1 for bit in _TRAILER[_TRAILER.index(field) :] if sample_type & bit)
