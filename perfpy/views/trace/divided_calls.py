"""The calls of a long recording by several processes, each of which pairs and prints spans of it.

A process does not know what happened before its span. So it leaves out what depends on that: the first return of each thread, if its
entry is before the span, and the line of the last call before the span, if it is interrupted. These lines belong between the others,
and this process, which follows the state from span to span, fills them in.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import first_of_each, rows_where
from perfpy.tracing.events import ENTER, EXIT, NO_CALL, UNNUMBERED, call_events
from perfpy.tracing.pairing import NO_ROW
from perfpy.views.script.pieces import Flat
from perfpy.workers.forked import ForkedWorkers
from perfpy.workers.jobs import jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.delivery.spans import Span
    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.pairing import OpenCalls, PairedEvents, Pairing
    from perfpy.tracing.totals import Totals
    from perfpy.views.trace.lines import TraceLines

#: the number of samples for which another process is worthwhile
_EVENTS_EACH: Final = 100_000


def jobs_of(parts: Sequence[Span], samples: int) -> int:
    """Return the worthwhile number of processes for the parts of a recording."""
    return min(jobs_for(0, samples, _EVENTS_EACH), max(len(parts), 1))


class PartCalls(NamedTuple):
    """The result for one span.

    Attributes:
        events: the events that depend on earlier spans: the first return of each thread, if its entry is unknown, and the first entry.
        texts: the lines, divided where lines of `events` may have to be added: one more than `events` has rows.
        totals: of the returns that do not depend on earlier spans; None without tables.
        open_calls: the entries that have not returned.
        warnings: about the file.
    """

    events: CallEvents
    texts: list[bytes]
    totals: Totals | None
    open_calls: OpenCalls
    warnings: list[str]


class DividedCalls:
    """Pairs and prints the parts of a recording without other events.

    Args:
        pairing: of the stream before the parts; the pairing of this process from then on.
        new_pairing: returns a pairing that knows nothing.
        lines: prints calls; None without lines.
        totals: the totals; None without tables.
    """

    def __init__(self, pairing: Pairing, new_pairing: Callable[[], Pairing], lines: TraceLines | None, totals: Totals | None) -> None:
        self._pairing = pairing
        self._new_pairing = new_pairing
        self._lines = lines
        self._totals = totals

    def batches(self, parts: Sequence[Span], read: Callable[[Span], CallEvents | None], warnings: list[str], jobs: int) -> Iterator[Flat]:
        """Yield the lines of each span. read: returns its events; warnings: about the file, to which those of other processes are added."""

        def work(span: Span) -> PartCalls | None:
            before = len(warnings)
            events = read(span)
            return None if events is None or not events.size else self._part(events, warnings[before:])

        with ForkedWorkers(parts, work, jobs) as workers:
            for part in workers.results():
                if part is not None:
                    warnings += [text for text in dict.fromkeys(part.warnings) if text not in warnings]
                    yield self._joined(part)

    def _part(self, batch: CallEvents, warnings: list[str]) -> PartCalls:
        """Return the calls of a span, in another process."""
        pairing = self._new_pairing()
        paired = pairing.pair(batch)
        open_calls = pairing.open_calls(batch)
        heads = _head_rows(batch, paired.entry)
        returns = heads[batch.kind[heads] == EXIT]
        totals = None
        if self._totals is not None:
            totals = self._totals.empty()
            exits = batch.kind == EXIT
            exits[returns] = False
            totals.add(paired, rows_where(exits))
        texts = [b""] * (len(heads) + 1)
        if self._lines is not None:
            texts = self._texts(paired, heads, returns)
        return PartCalls(batch.take(heads), texts, totals, open_calls, warnings)

    def _texts(self, paired: PairedEvents, heads: NDArray[np.int64], returns: NDArray[np.int64]) -> list[bytes]:
        """Return the lines, divided at the places of the heads."""
        assert self._lines is not None
        kind = paired.events.kind.copy()
        kind[returns] = UNNUMBERED
        position, lines = self._lines.placed_lines(paired._replace(events=paired.events._replace(kind=kind)))
        marks = 2 * heads - (paired.events.kind[heads] != EXIT)
        borders = [0, *(lines.stride * np.searchsorted(position, marks)).tolist(), len(lines.parts)]
        return [b"".join(lines.parts[begin:end]) for begin, end in pairwise(borders)]

    def _joined(self, part: PartCalls) -> Flat:
        """Return all lines of a span: its own, and the lines that depend on earlier spans."""
        events = part.events
        number = np.where(events.kind == ENTER, NO_CALL, events.number)  # the entry's own line, if it has one, is among the others
        head = self._pairing.pair(events._replace(number=number))
        texts = part.texts
        if self._lines is not None and events.size:
            position, lines = self._lines.placed_lines(head)
            rows = (position + 1) // 2 - head.carried
            added = dict(zip(rows.tolist(), lines.lines(), strict=True))
            texts = [text for row, text in enumerate(part.texts) for text in (text, added.get(row, b""))]
        if self._totals is not None and part.totals is not None:
            self._totals.merge(part.totals, head)
        self._pairing.follow(part.open_calls)
        return Flat(texts, len(texts))


def _head_rows(batch: CallEvents, entry: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the rows that depend on earlier events: the first returns of threads without an entry, and the first entry."""
    is_unpaired = (batch.kind == EXIT) & (entry == NO_ROW)
    unpaired = rows_where(is_unpaired)
    heads: list[int] = []
    if len(unpaired):
        calls = rows_where((batch.kind == ENTER) | (batch.kind == EXIT))
        first = calls[first_of_each(batch.tid[calls])]
        heads += first[is_unpaired[first]].tolist()
    is_entry = batch.kind == ENTER
    if is_entry.any():
        heads.append(int(is_entry.argmax()))
    return np.array(sorted(heads), np.int64)


def reader(batch_of: Callable[[Span], Batch | None], select: Callable[[CallEvents], CallEvents]) -> Callable[[Span], CallEvents | None]:
    """Return a function that reads the calls of a span. select: the command's filter."""

    def read(span: Span) -> CallEvents | None:
        batch = batch_of(span)
        return None if batch is None else select(call_events(batch.columns, batch.key))

    return read
