"""The events of a file: which one a record belongs to, and when the record was made.

What enters: the attrs with their ids, and chunks of records. What leaves:
event indexes and time stamps, for thousands of records at a time. The id is at
a fixed offset of samples (struct sample in include/uapi/linux/perf_event.h:
IDENTIFIER comes first, ID after IP, TID, TIME and ADDR) and, counted from the
end, of the sample_id trailer of all other records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import SampleType
from perfpy.abi.sample_id import NO_ID, IdLayout
from perfpy.abi.samples import SampleLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.chunk import Chunk

UNKNOWN_EVENT: Final = -1
_NEVER: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_NEARBY: Final = 1 << 12
_TRAILER: Final = (
    SampleType.TID,
    SampleType.TIME,
    SampleType.ID,
    SampleType.STREAM_ID,
    SampleType.CPU,
    SampleType.IDENTIFIER,
)


class EventTable:
    """Looks up the events of records."""

    def __init__(self, events: Sequence[FileEvent], endian: str) -> None:
        self.events = list(events)
        self.endian = endian
        self._layouts: dict[tuple[int, ...], SampleLayout] = {}
        self.layouts = [self._layout(event.attr) for event in events]
        self.trailers = [IdLayout.of(event.attr, endian) for event in events]
        self._id_words = [layout.word_of("identifier") or layout.word_of("id") for layout in self.layouts]
        self._time_words = [layout.word_of("time") for layout in self.layouts]
        pairs = sorted((ident, event.index) for event in events for ident in event.ids)
        self._ids = np.array([ident for ident, _ in pairs], np.uint64)
        self._indexes = np.array([index for _, index in pairs], np.int32)
        self._near = _nearby(self._ids, self._indexes)

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
        """Whether the samples say which event they belong to, all at the same offset."""
        if len(self.events) < 2:
            return True
        positions = set(self._id_words)
        return len(positions) == 1 and None not in positions

    def index_of(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The events' indexes by id; the id 0 means the first event, as perf has it; UNKNOWN_EVENT where nobody has it."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int32)
        if len(self._near) and len(ids):
            found: NDArray[np.int32] = self._near.take(np.minimum(ids - self._ids[0], len(self._near) - 1).view(np.int64))
            if found.min() != UNKNOWN_EVENT:
                return found
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        searched = np.where(self._ids[positions] == ids, self._indexes[positions], UNKNOWN_EVENT)
        return np.where(ids == 0, 0, searched).astype(np.int32, copy=False)

    def of_samples(self, chunk: Chunk) -> NDArray[np.int32]:
        """The event of each record of a chunk, all of which are samples."""
        word = self._id_words[0] if len(self.events) > 1 else None
        if word is None:
            return np.zeros(len(chunk.starts), np.int32)
        ids, inside = _words_at(chunk, self.endian, word)
        events = self.index_of(ids)
        return events if inside is None else np.where(inside, events, np.int32(UNKNOWN_EVENT))

    def sample_times(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.uint64]:
        """The time stamp of each record of a chunk, all of which are samples; 0 where there is none."""
        return self._times(chunk, self._time_words, events)

    def of_side_band(self, chunk: Chunk) -> NDArray[np.int32]:
        """The event of each record of a chunk, none of which is a sample."""
        first = self.events[0].attr
        from_end = _words_from_end(first.sample_type, SampleType.IDENTIFIER) or _words_from_end(first.sample_type, SampleType.ID)
        if len(self.events) == 1 or not first.sample_id_all or not from_end:
            return np.zeros(len(chunk.starts), np.int32)
        return self.index_of(_words_at(chunk, self.endian, (chunk.sizes >> 3).astype(np.int64) - from_end)[0])

    def side_band_times(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.uint64]:
        """The time stamp of each record of a chunk, none of which is a sample; 0 where there is none."""
        from_end = [_words_from_end(e.attr.sample_type, SampleType.TIME) if e.attr.sample_id_all else None for e in self.events]
        return self._times(chunk, [None if words is None else -words for words in from_end], events, (chunk.sizes >> 3).astype(np.int64))

    def _times(
        self, chunk: Chunk, words: Sequence[int | None], events: NDArray[np.int32], base: NDArray[np.int64] | int = 0
    ) -> NDArray[np.uint64]:
        """The word at `base` plus what `words` has for the event of each record; 0 where the record ends before or it says "none"."""
        if all(word is None for word in words):
            return np.zeros(len(chunk.starts), np.uint64)
        if len(set(words)) == 1:
            times, inside = _words_at(chunk, self.endian, base + int(words[0] or 0))
        else:
            times, inside = _words_at(chunk, self.endian, base + np.array([word or 0 for word in words], np.int64)[events])
            has_time = np.array([word is not None for word in words])[events]
            inside = has_time if inside is None else inside & has_time
        if inside is not None:
            times = np.where(inside, times, np.uint64(0))
        if len(times) and times.max() == _NEVER:
            times[times == _NEVER] = 0
        return times

    def trailer(self, event: int) -> IdLayout:
        """The sample_id trailer of the records of an event."""
        return self.trailers[max(event, 0)] if self.trailers else NO_ID

    @property
    def has_times(self) -> bool:
        """Whether any event's records have time stamps."""
        return any(event.attr.sample_type & SampleType.TIME for event in self.events)


def _nearby(ids: NDArray[np.uint64], indexes: NDArray[np.int32]) -> NDArray[np.int32]:
    """The index of each id from the lowest on, and one more for all others; empty where they lie too far apart (a kernel counts them)."""
    lowest, highest = (int(ids[0]), int(ids[-1])) if len(ids) else (0, 0)
    if not lowest or highest - lowest >= _NEARBY:
        return np.zeros(0, np.int32)
    table = np.full(highest - lowest + 2, UNKNOWN_EVENT, np.int32)
    table[(ids - ids[0]).view(np.int64)[::-1]] = indexes[::-1]  # of events with one id the first is written last
    return table


def _words_at(chunk: Chunk, endian: str, words: NDArray[np.int64] | int) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
    """(a word of each record, counted from its start; whether it lies inside of the record, None when all do)."""
    inside = (chunk.sizes >> 3) > words
    if not isinstance(words, int):
        inside &= words > 0
    all_inside = bool(inside.all())
    if all_inside and isinstance(words, int):
        return chunk.column("u8", words << 3).astype(np.uint64, copy=False), None
    data = chunk.data[: len(chunk.data) & ~7].view(endian + "u8")
    if all_inside:
        return data.take((chunk.starts >> 3) + words).astype(np.uint64, copy=False), None
    positions = np.where(inside, (chunk.starts >> 3) + words, 0)
    return data.take(positions).astype(np.uint64, copy=False), inside


def _words_from_end(sample_type: int, field: int) -> int | None:
    """How many words before a record's end a field of the sample_id trailer begins."""
    if not sample_type & field:
        return None
    return sum(1 for bit in _TRAILER[_TRAILER.index(field) :] if sample_type & bit)
