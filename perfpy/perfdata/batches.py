"""The second pass over a file: the samples as columns, in order of delivery.

What enters: keyed chunks and what the survey found. What leaves: Batches.
A chunk's samples are given out as soon as nothing that could come before them
is left to be read; the rest waits for the next chunk. So memory holds a chunk
and what is out of order, not the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.perfdata.ordering import delivery_order
from perfpy.perfdata.survey import NO_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.event_table import EventTable
    from perfpy.perfdata.keyed import KeyedChunk
    from perfpy.perfdata.side_band import Turn


class Batch(NamedTuple):
    """Some samples, in order of delivery.

    columns: name -> array (perfpy.abi.samples); event: int32, index into
    PerfData.events; key: uint64, the order of delivery as a number; offset:
    int64, where each sample's record is in the file.
    """

    columns: Columns
    event: NDArray[np.int32]
    key: NDArray[np.uint64]
    offset: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.event)


class _Waiting(NamedTuple):
    """Samples in the order of the file."""

    columns: Columns
    event: NDArray[np.int32]
    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    offset: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> _Waiting:
        return _Waiting(self.columns.take(rows), self.event[rows], self.key[rows], self.time[rows], self.offset[rows])

    @classmethod
    def concat(cls, parts: list[_Waiting]) -> _Waiting:
        if len(parts) == 1:
            return parts[0]
        arrays = (np.concatenate([part[i] for part in parts]) for i in range(1, 5))
        return cls(Columns.concat([part.columns for part in parts]), *arrays)

    def delivered(self) -> Batch:
        order = delivery_order(self.key, self.time)
        ready = self if order is None else self.take(order)
        return Batch(ready.columns, ready.event, ready.key, ready.offset)


def ordered_batches(
    streams: Sequence[Iterator[KeyedChunk]],
    turns: Iterable[Turn],
    table: EventTable,
    fields: Collection[str] | None,
    warn: Callable[[str], None],
) -> Iterator[Batch]:
    """All samples of all streams, sorted as perf delivers them.

    turns: whose chunk comes next, as the survey found it; fields: the columns
    wanted (None: all).
    """
    waiting: list[_Waiting] = []
    for stream, later in turns:
        keyed = next(streams[stream])
        if len(keyed.samples):
            waiting.append(_decoded(keyed, table, fields, warn))
        if not waiting:
            continue
        samples = _Waiting.concat(waiting)
        if later == NO_KEY:
            ready, waiting = samples, []
        else:
            now = samples.key < np.uint64(later)
            if now.all():
                ready, waiting = samples, []
            else:
                ready, waiting = samples.take(now), [samples.take(~now)]
        if len(ready.event):
            yield ready.delivered()
    if waiting:
        yield _Waiting.concat(waiting).delivered()


def _decoded(keyed: KeyedChunk, table: EventTable, fields: Collection[str] | None, warn: Callable[[str], None]) -> _Waiting:
    """The samples of a chunk; those of no known event or too short for their event are left out with a warning."""
    chunk = keyed.chunk
    starts = chunk.starts[keyed.samples]
    columns, rows = _decode_by_layout(chunk.data, starts, keyed.events, table, fields)
    places = keyed.samples
    samples = _Waiting(columns, keyed.events, keyed.keys[places], keyed.times[places], chunk.offsets[places])
    if rows is not None:
        samples = _Waiting(columns, samples.event[rows], samples.key[rows], samples.time[rows], samples.offset[rows])
        warn(f"offset {int(chunk.offsets[places[0]]):#x} and behind: {len(places) - len(rows)} samples of unknown events left out")
    if columns.damaged is not None and columns.damaged.any():
        bad = int(samples.offset[columns.damaged.argmax()])
        warn(f"offset {bad:#x}: {int(columns.damaged.sum())} samples shorter than their event says, left out")
        samples = samples.take(~columns.damaged)
    samples.columns.damaged = None
    return samples


def _decode_by_layout(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    events: NDArray[np.int32],
    table: EventTable,
    fields: Collection[str] | None,
) -> tuple[Columns, NDArray[np.intp] | None]:
    """(columns of all samples, or of the rows given): each layout's samples decoded at once, then put back in place."""
    present = np.flatnonzero(np.bincount(events + 1, minlength=1))
    layouts = {id(table.layouts[event - 1]): table.layouts[event - 1] for event in present.tolist() if event}
    known = None if not len(present) or present[0] else np.flatnonzero(events >= 0)
    if known is not None:
        starts, events = starts[known], events[known]
    if len(layouts) == 1:
        (layout,) = layouts.values()
        return layout.decode(data, starts, fields), known
    parts, places = [], []
    layout_of = np.array([list(layouts).index(id(layout)) if id(layout) in layouts else -1 for layout in table.layouts])
    for number, layout in enumerate(layouts.values()):
        mine = np.flatnonzero(layout_of[events] == number)
        parts.append(layout.decode(data, starts[mine], fields))
        places.append(mine)
    if not parts:
        return Columns(0), known
    return Columns.concat(parts).take(np.argsort(np.concatenate(places), kind="stable")), known
