"""The lines of `perf script`: one for each sample, with side-band records between them.

Lines are written to a binary stream, a batch at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np

from perfpy.abi.startup import dataclass
from perfpy.perfdata.records.batches import Batch
from perfpy.views.script.event_lines import EventLines, columns_of
from perfpy.views.script.fields import OutputFields, kind_of
from perfpy.views.script.pieces import Flat
from perfpy.views.script.side_line import SideLine, whole
from perfpy.views.script.texts import field_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.views.script.line_context import LineContext
    from perfpy.views.script.texts.time_text import RelativeTimes
    from perfpy.views.tracepoints.event_text import TraceSource

_ROWS: Final = 1 << 14  # samples formatted together; limits the texts of a batch to a few MB
_TEXTS: Final = 1 << 12  # texts joined together; they are still in the CPU's caches


@dataclass(eq=False, repr=False)
class ScriptLines:
    """A writer of a recording's lines.

    Args:
        trace: formatters of tracepoints, by id
        relative: for --reltime and --deltatime
        side: the lines of side-band records, in order of delivery
    """

    events: Sequence[FileEvent]
    fields: OutputFields
    context: LineContext
    sample_filter: SampleFilter
    trace: TraceSource | None = None
    relative: RelativeTimes | None = None

    def columns(self) -> set[str]:
        """Return the sample columns needed."""
        needed = {"tid", "time", "cpumode"}
        for event in self.events:
            needed |= columns_of(event, self.fields.sets[kind_of(event)].fields)
        return needed | self.sample_filter.all_fields()

    def write(self, batches: Iterable[Batch], side: Iterable[SideLine], out: BinaryIO) -> int:
        """Write all lines, in order; return the number of samples printed."""
        makers = self.makers()
        waiting = _Waiting(side)
        printed = 0
        for batch in batches:
            for part in _parts(batch):
                chosen = self._filter(part)
                printed += len(chosen)
                write_texts(self._texts(chosen, waiting.before(part), makers), out)
        out.write(b"".join(self._side_texts(list(waiting.rest()))))
        return printed

    def make_lines(self, batch: Batch, makers: _Makers) -> tuple[int, list[bytes]]:
        """Return the number and the texts of samples without side-band lines between them."""
        texts, printed = list[bytes](), 0
        for part in _parts(batch):
            chosen = self._filter(part)
            printed += len(chosen)
            texts += self._texts(chosen, [], makers)
        return printed, texts

    def chosen_parts(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the filtered batches, in parts that are formatted together."""
        for batch in batches:
            yield from map(self._filter, _parts(batch))

    def each(self, batches: Iterable[Batch], side: Iterable[SideLine]) -> Iterator[tuple[SideLine | None, bytes | None]]:
        """Yield (record's line, its text) or (None, a sample's text), one at a time.

        A sample's text is b"" if it is not printed, None if it is filtered before its owner is known.
        """
        makers = self.makers()
        waiting = _Waiting(side)
        for batch in batches:
            for part in _parts(batch):
                yield from self._each_of(part, waiting.before(part), makers)
        rest = list(waiting.rest())
        yield from zip(rest, self._side_texts(rest), strict=True)

    def _each_of(self, part: Batch, side: list[SideLine], makers: _Makers) -> Iterator[tuple[SideLine | None, bytes | None]]:
        positions = positions_among(side, part)
        sample_times, side_times = self._shown_times(field_text.times(part, self.events), side, positions)
        texts: list[bytes | None] = [*(self._flat(part, sample_times, makers).lines() or [b""] * len(part))]
        if not self.sample_filter.is_open:
            view = self._view(part)
            for row in np.flatnonzero(~self.sample_filter.passing_mask(view)).tolist():
                texts[row] = b""
            for row in np.flatnonzero(~self.sample_filter.by_time_and_cpu(view)).tolist():
                texts[row] = None
        printed = 0
        for record, position, time in zip(side, positions, side_times, strict=True):
            yield from ((None, text) for text in texts[printed:position])
            yield record, whole(record, time, ns=self.context.ns)
            printed = position
        yield from ((None, text) for text in texts[printed:])

    def _view(self, batch: Batch) -> SampleView:
        """Return a batch as filters see it."""
        from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView  # most listings have no filter

        attrs = [event.attr for event in self.events]
        delivery = DeliveryOrder(batch.key, batch.key, batch.offset)
        return SampleView(batch.columns, batch.event, delivery, attrs, self.context.timeline, self.context.symbolizer)

    def makers(self) -> _Makers:
        """Return the formatters by event."""
        return _Makers(self._maker)

    def _maker(self, number: int) -> EventLines:
        event = self.events[number]
        one = self.fields.sets[kind_of(event)]
        return EventLines(event, one.fields, one.chosen, self.context, self.trace)

    def _filter(self, batch: Batch) -> Batch:
        mask = None if self.sample_filter.is_open else self.sample_filter.passing_mask(self._view(batch))
        if self.sample_filter.switch is not None:  # last, because samples that are not printed switch nothing
            mask = self.sample_filter.switch.mask(batch.event, mask)
        return batch if mask is None or mask.all() else take_rows(batch, np.flatnonzero(mask))

    def _texts(self, batch: Batch, side: list[SideLine], makers: _Makers) -> list[bytes]:
        """Return the lines of a part of a batch, and of the records before or among them."""
        if not len(batch):
            return self._side_texts(side)
        positions = positions_among(side, batch)
        times = field_text.times(batch, self.events)
        sample_times, side_times = self._shown_times(times, side, positions)
        flat = self._flat(batch, sample_times, makers)
        texts: list[bytes] = []
        joined = 0
        for line, position, time in zip(side, positions, side_times, strict=True):
            texts += flat.slice(joined, position)
            texts.append(whole(line, time, ns=self.context.ns))
            joined = position
        return [*texts, *flat.slice(joined, len(batch))] if texts else flat.parts

    def _side_texts(self, side: list[SideLine]) -> list[bytes]:
        _, times = self._shown_times(np.zeros(0, np.uint64), side, [0] * len(side))
        return [whole(line, time, ns=self.context.ns) for line, time in zip(side, times, strict=True)]

    def _shown_times(
        self, times: NDArray[np.uint64], side: list[SideLine], positions: Sequence[int]
    ) -> tuple[NDArray[np.uint64], list[int]]:
        """Return the values of the time field for samples and for the records among them."""
        side_times = [line.time for line in side]
        if self.relative is None:
            return times, side_times
        timed = [row for row, line in enumerate(side) if line.has_time]
        merged = np.insert(times, [positions[row] for row in timed], np.array([side_times[row] for row in timed], np.uint64))
        printed = self.relative.printed_times(merged)
        index = np.array([positions[row] for row in timed], np.int64) + np.arange(len(timed))
        for row, time in zip(timed, printed[index].tolist(), strict=True):
            side_times[row] = time
        return np.delete(printed, index), side_times

    def _flat(self, batch: Batch, times: NDArray[np.uint64], makers: _Makers) -> Flat:
        present = np.flatnonzero(np.bincount(batch.event, minlength=1)).tolist()
        if len(present) == 1:
            maker = makers[present[0]]
            return Flat([], 0) if maker.is_silent else maker.flat(batch, times)
        lines = np.full(len(batch), b"", object)
        for number in present:
            rows = np.flatnonzero(batch.event == number)
            if not makers[number].is_silent:
                sample_lines = makers[number].flat(take_rows(batch, rows), times[rows]).lines()
                lines[rows] = np.fromiter(sample_lines, object, len(sample_lines))
        return Flat(lines.tolist(), 1)


def write_texts(texts: list[bytes], out: BinaryIO) -> None:
    """Write texts, some thousands at a time."""
    out.writelines(b"".join(texts[begin : begin + _TEXTS]) for begin in range(0, len(texts), _TEXTS))


class _Makers(dict[int, EventLines]):
    """The formatters by event index, created for the first sample, because a file may have many events."""

    def __init__(self, make: Callable[[int], EventLines]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> EventLines:
        maker = self[number] = self._make(number)
        return maker


def take_rows(batch: Batch, rows: NDArray[np.intp]) -> Batch:
    """Return rows of a batch."""
    return Batch(batch.columns.take(rows), batch.event[rows], batch.key[rows], batch.offset[rows])


def _parts(batch: Batch) -> Iterator[Batch]:
    """Split a batch into parts that are formatted together."""
    if len(batch) <= _ROWS:
        yield batch
        return
    for begin in range(0, len(batch), _ROWS):
        rows = slice(begin, begin + _ROWS)
        yield Batch(batch.columns.take(rows), batch.event[rows], batch.key[rows], batch.offset[rows])


def positions_among(side: Sequence[SideLine], batch: Batch) -> list[int]:
    """Return the row that follows each record; the offset in the file decides between equal keys."""
    if not side:
        return []
    keys = np.array([line.key for line in side], np.uint64)
    positions = np.searchsorted(batch.key, keys, side="left")
    ends = np.searchsorted(batch.key, keys, side="right")
    for i in np.flatnonzero(positions != ends).tolist():
        positions[i] += int(np.searchsorted(batch.offset[positions[i] : ends[i]], side[i].offset))
    latest: list[int] = np.maximum.accumulate(positions).tolist()
    return latest


class _Waiting:
    """The records that are not yet printed."""

    def __init__(self, side: Iterable[SideLine]) -> None:
        self._side = iter(side)
        self._next = next(self._side, None)

    def before(self, batch: Batch) -> list[SideLine]:
        """Return the records before the batch's last sample."""
        records = []
        last = (int(batch.key[-1]), int(batch.offset[-1])) if len(batch) else (0, 0)
        while self._next is not None and (self._next.key, self._next.offset) < last:
            records.append(self._next)
            self._next = next(self._side, None)
        return records

    def rest(self) -> Iterator[SideLine]:
        """Return all remaining records."""
        while self._next is not None:
            yield self._next
            self._next = next(self._side, None)


class DumpLines:
    """Script's lines among dumped records; both come in order of delivery."""

    def __init__(self, lines: Iterator[tuple[SideLine | None, bytes | None]], kinds: frozenset[int]) -> None:
        """Set the lines as ScriptLines.each yields them, and the types of records that may have one."""
        self._lines = lines
        self._kinds = kinds
        self._samples: deque[bytes | None] = deque()
        self._records: deque[tuple[SideLine, bytes]] = deque()

    def of_sample(self) -> bytes | None:
        """Return the line of a sample's next delivery; None if it was filtered early."""
        while not self._samples and self._pull():
            pass
        return self._samples.popleft() if self._samples else b""

    def of_record(self, kind: int, offset: int) -> bytes:
        """Return the line of a record other than a sample; b"" if it has none."""
        if kind not in self._kinds:
            return b""
        while not self._records and self._pull():
            pass
        if not self._records or (self._records[0][0].kind, self._records[0][0].offset) != (kind, offset):
            return b""
        return self._records.popleft()[1]

    def _pull(self) -> bool:
        item = next(self._lines, None)
        if item is None:
            return False
        record, text = item
        if record is None:
            self._samples.append(text)
        else:
            self._records.append((record, text or b""))
        return True
