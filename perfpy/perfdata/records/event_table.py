"""The event and the time of each record, for thousands of records at once.

The id is at a fixed offset in samples (struct sample in include/uapi/linux/perf_event.h:
IDENTIFIER comes first, ID after IP, TID, TIME and ADDR) and, counted from the
end, in the sample_id trailer of all other records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import SampleType
from perfpy.abi.sample_id import NO_ID, IdLayout
from perfpy.abi.samples.decoding import SampleLayout

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
    """The events of a file, looked up by the ids in records."""

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
        """Return one layout for all attrs whose samples look the same."""
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
    def has_event_ids(self) -> bool:
        """Whether the samples have an event id, all at the same offset."""
        if len(self.events) < 2:
            return True
        positions = set(self._id_words)
        return len(positions) == 1 and None not in positions

    def index_of(self, ids: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the events' indexes by id, UNKNOWN_EVENT for unknown ids. As in perf, id 0 is the first event's."""
        if not len(self._ids):
            return np.zeros(len(ids), np.int32)
        if len(self._near) and len(ids):
            nearby: NDArray[np.int32] = self._near.take(np.minimum(ids - self._ids[0], len(self._near) - 1).view(np.int64))
            if nearby.min() != UNKNOWN_EVENT:
                return nearby
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        searched = np.where(self._ids[positions] == ids, self._indexes[positions], UNKNOWN_EVENT)
        return np.where(ids == 0, 0, searched).astype(np.int32, copy=False)

    def of_samples(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the event of each sample of a chunk of samples."""
        word = self._id_words[0] if len(self.events) > 1 else None
        if word is None:
            return np.zeros(len(chunk.starts), np.int32)
        ids, inside = _words_at(chunk, self.endian, word)
        events = self.index_of(ids)
        return events if inside is None else np.where(inside, events, np.int32(UNKNOWN_EVENT))

    def sample_times(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return the time stamp of each sample of a chunk of samples; 0 for none."""
        return self._times(chunk, self._time_words, events)

    def of_side_band(self, chunk: Chunk) -> NDArray[np.int32]:
        """Return the event of each record of a chunk without samples."""
        first = self.events[0].attr
        from_end = _words_from_end(first.sample_type, SampleType.IDENTIFIER) or _words_from_end(first.sample_type, SampleType.ID)
        if len(self.events) == 1 or not first.sample_id_all or not from_end:
            return np.zeros(len(chunk.starts), np.int32)
        return self.index_of(_words_at(chunk, self.endian, (chunk.sizes >> 3).astype(np.int64) - from_end)[0])

    def side_band_times(self, chunk: Chunk, events: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return the time stamp of each record of a chunk without samples; 0 for none."""
        from_end = [_words_from_end(e.attr.sample_type, SampleType.TIME) if e.attr.sample_id_all else None for e in self.events]
        return self._times(chunk, [None if words is None else -words for words in from_end], events, (chunk.sizes >> 3).astype(np.int64))

    def _times(
        self, chunk: Chunk, words: Sequence[int | None], events: NDArray[np.int32], base: NDArray[np.int64] | int = 0
    ) -> NDArray[np.uint64]:
        """Return the word at `base` plus the event's entry in `words`; 0 beyond the record's end, and for the "no time" mark."""
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
        """Return the layout of the sample_id trailer of an event's records."""
        return self.trailers[max(event, 0)] if self.trailers else NO_ID

    @property
    def has_times(self) -> bool:
        """Whether any event's records have time stamps."""
        return any(event.attr.sample_type & SampleType.TIME for event in self.events)


def _nearby(ids: NDArray[np.uint64], indexes: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return a table from id minus the lowest id to index, with one more entry for all other ids; empty if the ids lie too far apart."""
    lowest, highest = (int(ids[0]), int(ids[-1])) if len(ids) else (0, 0)
    if not lowest or highest - lowest >= _NEARBY:
        return np.zeros(0, np.int32)
    table = np.full(highest - lowest + 2, UNKNOWN_EVENT, np.int32)
    table[(ids - ids[0]).view(np.int64)[::-1]] = indexes[::-1]  # in reverse, so that the first of several events with one id wins
    return table


def _words_at(chunk: Chunk, endian: str, words: NDArray[np.int64] | int) -> tuple[NDArray[np.uint64], NDArray[np.bool_] | None]:
    """Return a word of each record, counted from its start, and whether it lies inside of the record (None: all do)."""
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
    """Return the number of words from a sample_id trailer's field to the record's end."""
    if not sample_type & field:
        return None
    return sum(1 for bit in _TRAILER[_TRAILER.index(field) :] if sample_type & bit)
