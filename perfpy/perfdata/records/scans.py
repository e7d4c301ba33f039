"""Passes over the records of a recording: the survey, the side-band, the batches of samples.

What enters: a RecordStream for each file of the recording (nearly always one), and
the events that records belong to. What leaves: what a pass was made for. Everything
here works a chunk at a time: RecordStream finds the records, DeliveryKeys says which
come first, of all files.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.abi.flags import RecordType
from perfpy.abi.waits import OFF_CPU_EVENT
from perfpy.perfdata.records.batches import Batch, SampleDecoder, StoredBatch, ordered_batches, stored_batches
from perfpy.perfdata.records.delivery_keys import DeliveryKeys, KeyedSamples, OrderedChunk
from perfpy.perfdata.records.delivery_spans import Span, spans_of
from perfpy.perfdata.records.event_table import EventTable
from perfpy.perfdata.records.side_band import SideBand, records_of_types
from perfpy.perfdata.records.survey import Survey, Surveyor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Change
    from perfpy.perfdata.records.deferred_callchains import DeferredCallchains
    from perfpy.perfdata.records.embedded_waits import EmbeddedWaits
    from perfpy.perfdata.records.raw_records import RawRecord
    from perfpy.perfdata.records.stream import RecordStream

_FIRST_FOREIGN_TYPE: Final = 0x8000  # simpleperf's own records begin here


class RecordScans:
    """The records of one recording: `streams`, the main file's first, then those of its threads' files.

    table: which event a record belongs to, and how its samples and trailers
    are laid out; by_time: whether perf puts the records in order of time,
    otherwise they come as they stand in the file.
    """

    def __init__(
        self,
        streams: Sequence[RecordStream],
        events: Sequence[FileEvent],
        *,
        is_pipe: bool,
        warn: Callable[[str], None],
        as_stored: bool = False,
        are_decoded: Callable[[Iterable[RawRecord]], bool] = lambda _: False,
    ) -> None:
        """as_stored: whether times do not matter; are_decoded: whether somebody decodes what AUXTRACE_INFO records announce."""
        self._are_decoded = are_decoded
        self.streams = streams
        self._warn = warn
        self.table = EventTable(events, streams[0].endian)
        if not self.table.tells_apart:
            warn("its samples do not say which event they belong to; all are taken for the first one's")
        self.by_time = not as_stored and self.table.has_times and (is_pipe or bool(events[0].attr.sample_id_all))
        in_rounds = len(streams) == 1  # the rounds of the main file say nothing of those of the others
        self._keys = [DeliveryKeys(self.table, by_time=self.by_time, in_rounds=in_rounds) for _ in streams]

    @property
    def column_names(self) -> list[str]:
        """The columns that the samples of any event have, in layout order."""
        return list(dict.fromkeys(name for layout in self.table.layouts for name in layout.names))

    def no_samples(self) -> Columns:
        """Every column, without a row."""
        empty = np.zeros(8, np.uint8), np.zeros(0, np.int64)
        return Columns.concat([Columns(0), *(layout.decode(*empty) for layout in self.table.layouts)])

    def chunks(self) -> list[Iterator[OrderedChunk]]:
        """The ordered chunks of each stream: all records as they stand in the files."""
        return [self._chunks(number) for number in range(len(self.streams))]

    def _chunks(self, number: int) -> Iterator[OrderedChunk]:
        stream, keys = self.streams[number], self._keys[number]
        order = keys.before(0)
        for index, chunk in enumerate(stream.chunks()):
            ordered = keys.ordered(chunk, index, order)
            self._tell_damage(stream)
            yield ordered
        self._tell_damage(stream)

    def _samples(self, first: Mapping[int, int] | None = None) -> list[Iterator[KeyedSamples]]:
        """The samples of each stream, after the survey. first: stream -> the chunk to begin with."""
        return [self._samples_of(number, first.get(number, 0) if first else 0) for number in range(len(self.streams))]

    def _samples_of(self, number: int, first: int) -> Iterator[KeyedSamples]:
        stream, keys = self.streams[number], self._keys[number]
        for index, chunk in enumerate(stream.chunks(first), first):
            samples = keys.samples_again(chunk, index)
            self._tell_damage(stream)
            yield samples
        self._tell_damage(stream)

    def _tell_damage(self, stream: RecordStream) -> None:
        if stream.damage:
            self._warn(f"offset {stream.damage.offset:#x}: {stream.damage.reason}; what is before it was read")

    @property
    def is_damaged(self) -> bool:
        """Whether the last pass over the records ended before their end."""
        return any(stream.damage for stream in self.streams)

    @property
    def is_truncated(self) -> bool:
        """Whether all that was wrong with the last pass is that the file ends inside a record."""
        found = [stream.damage for stream in self.streams if stream.damage]
        return bool(found) and all(damage.is_end for damage in found)

    @cached_property
    def survey(self) -> Survey:
        """What the first pass found: counts, times, raw side-band."""
        surveyor = Surveyor(len(self.streams))
        for number, chunks in enumerate(self.chunks()):
            for ordered in chunks:
                surveyor.see(number, ordered)
        found = surveyor.found(stream.unpacked for stream in self.streams)
        for kind, count in sorted(found.types.items()):
            if kind >= _FIRST_FOREIGN_TYPE:
                self._warn(f"{count} records of type {kind}, which perf does not have, skipped")
        traces = found.types[RecordType.AUXTRACE]
        if traces and not self._are_decoded(found.raw.of_types([RecordType.AUXTRACE_INFO])):
            self._warn(f"traces of the hardware in {traces} AUXTRACE records are not decoded; what they hold is not shown")
        return found

    def side_band(self, types: Collection[int] | None) -> SideBand:
        """The records that are no samples, in order of delivery."""
        return SideBand(self.survey.raw, self._bulk, self.table, self._warn, types)

    def _bulk(self, types: Collection[int]) -> Iterator[RawRecord]:
        """Those of the side-band that the survey does not keep, read from the file."""
        present = [kind for kind in types if self.survey.types[kind]]
        return records_of_types(self.chunks(), self.survey.bulk_turns, present) if present else iter(())

    @cached_property
    def _deferred(self) -> DeferredCallchains | None:
        """The user callchains that stand apart from their samples; None where there are none."""
        if not self.survey.types[RecordType.CALLCHAIN_DEFERRED]:
            return None
        # few recordings have them
        from perfpy.perfdata.records.deferred_callchains import DeferredCallchains

        return DeferredCallchains(self._bulk([RecordType.CALLCHAIN_DEFERRED]), self.table.endian)

    @cached_property
    def _waits(self) -> EmbeddedWaits | None:
        """Waits in the raw data of samples; None where there are none."""
        if not any(event.name == OFF_CPU_EVENT for event in self.table.events):
            return None
        from perfpy.perfdata.records.embedded_waits import EmbeddedWaits  # few recordings have them

        return EmbeddedWaits.of(self.table.events, self.table.endian)

    def _decoder(self, fields: Collection[str] | None, change: Change | None) -> SampleDecoder:
        """What decodes samples: at first they get what of them stands elsewhere."""
        changes: list[Change] = []
        if self._waits is not None:
            fields = self._waits.needed(fields)
            changes.append(self._waits.shown)
        if self._deferred is not None:
            changes.append(self._deferred.added)
        if change is not None:
            changes.append(change)
        return SampleDecoder(self.table, fields, self._warn, _one_after_the_other(changes))

    def batches(self, fields: Collection[str] | None, change: Change | None = None) -> Iterator[Batch]:
        """All samples in order of delivery. change: what is done with those of each chunk first."""
        turns = self.survey.turns
        yield from ordered_batches(self._samples(), turns, self._decoder(fields, change))

    @cached_property
    def delivery_spans(self) -> list[Span]:
        """Parts whose samples are delivered one after the other; none where they cannot be read apart from each other."""
        survey = self.survey
        apart = len(self.streams) == 1 and self.streams[0].is_known and self._deferred is None
        return spans_of([turn.later for turn in survey.turns], survey.highest[0]) if apart else []

    def batch_of(self, span: Span, fields: Collection[str] | None, change: Change | None = None) -> Batch | None:
        """The samples of one span, in order of delivery; None where there are none. change: as for batches."""
        decoder = self._decoder(fields, change)
        chunks = islice(self._samples_of(0, span.first), span.end - span.first)
        parts = [decoder.kept(chosen) for chosen in map(span.chosen, chunks) if len(chosen.keys)]
        if not parts:
            return None
        samples = StoredBatch.concat(parts).ordered()
        return Batch(samples.columns, samples.event, samples.key, samples.offset)

    def stored(self, fields: Collection[str] | None, turns: range | None = None, change: Change | None = None) -> Iterator[StoredBatch]:
        """All samples as they stand in the file; or those of some of the survey's turns. change: as for batches."""
        found = self.survey.turns
        turns = range(len(found)) if turns is None else turns
        chunks_before = Counter(turn.stream for turn in found[: turns.start])
        return stored_batches(self._samples(chunks_before), found[turns.start : turns.stop], self._decoder(fields, change))


def _one_after_the_other(changes: list[Change]) -> Change | None:
    """All changes as one; None for none."""
    if len(changes) < 2:
        return changes[0] if changes else None

    def change(samples: StoredBatch) -> StoredBatch:
        for one in changes:
            samples = one(samples)
        return samples

    return change
