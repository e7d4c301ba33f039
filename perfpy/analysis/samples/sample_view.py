"""The samples of one batch with their events, tasks and symbols.

A `SampleView` is a value: each change returns another one. Columns have perf's values, also for samples without the field.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi.columns import Columns, Ragged, Slices, slices_index
from perfpy.abi.flags import PerfType, SampleType
from perfpy.abi.startup import NamedTuple, dataclass, replace
from perfpy.analysis.samples.row_hashes import row_fingerprints
from perfpy.analysis.samples.task_dimensions import TaskStates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

# perf's values for fields that the samples of an event lack
_MINUS_ONE = -1
_ABSENT: dict[str, tuple[int, int]] = {
    "pid": (SampleType.TID, _MINUS_ONE),
    "tid": (SampleType.TID, _MINUS_ONE),
    "cpu": (SampleType.CPU, _MINUS_ONE),
    "time": (SampleType.TIME, _MINUS_ONE),
}


class DeliveryOrder(NamedTuple):
    """The delivery order of samples: sorted by key, then time, then ordinal. uint64[n], uint64[n], int64[n]."""

    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    ordinal: NDArray[np.int64]

    def take(self, rows: NDArray[Any] | slice) -> DeliveryOrder:
        """Select samples."""
        return DeliveryOrder(self.key[rows], self.time[rows], self.ordinal[rows])

    def order(self) -> NDArray[np.int64]:
        """Return the indexes that sort the samples."""
        return np.lexsort((self.ordinal, self.time, self.key))


@dataclass(eq=False, repr=False)
class SampleView:
    """The samples of one batch, as dimensions read them.

    Attributes:
        columns: the fields.
        event: index of each sample's event.
        delivery: their order.
        attrs: of the events.
        timeline: of the tasks.
        symbolizer: of the recording.
        stands_for: the number of events of each sample, if that is not its period.
    """

    columns: Columns
    event: NDArray[Any]
    delivery: DeliveryOrder
    attrs: Sequence[EventAttr]
    timeline: TaskTimeline
    symbolizer: Symbolizer
    stands_for: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self.columns.rows

    @property
    def key(self) -> NDArray[np.uint64]:
        """The delivery keys."""
        return self.delivery.key

    @cached_property
    def tasks(self) -> TaskStates:
        """The samples' tasks at their moments."""
        return TaskStates(self.timeline, self.column("pid"), self.column("tid"), self.key)

    def take(self, rows: NDArray[Any] | slice) -> SampleView:
        """Select samples by indexes, a mask or a slice."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        stands_for = None if self.stands_for is None else self.stands_for[rows]
        columns, event, delivery = self.columns.take(rows), self.event[rows], self.delivery.take(rows)
        return replace(self, columns=columns, event=event, delivery=delivery, stands_for=stands_for)

    def gather(self) -> SampleView:
        """Return the same samples, independent of the buffer that they were read from."""
        return replace(self, columns=self.columns.gather())

    @classmethod
    def concat(cls, parts: Sequence[SampleView]) -> SampleView:
        """Concatenate samples of one recording with the same columns and names."""
        if len(parts) == 1:
            return parts[0]
        event, columns = np.concatenate([part.event for part in parts]), Columns.concat([part.columns for part in parts])
        delivery = DeliveryOrder(*(np.concatenate(values) for values in zip(*(part.delivery for part in parts), strict=True)))
        chosen = [part.period() for part in parts] if any(part.stands_for is not None for part in parts) else []
        return replace(parts[0], columns=columns, event=event, delivery=delivery, stands_for=np.concatenate(chosen) if chosen else None)

    def named_by(self, timeline: TaskTimeline, symbolizer: Symbolizer) -> SampleView:
        """Return the same samples with the names of another timeline and symbolizer."""
        return self if symbolizer is self.symbolizer else replace(self, timeline=timeline, symbolizer=symbolizer)

    def with_columns(self, columns: dict[str, Any]) -> SampleView:
        """Return the same samples with other columns."""
        return replace(self, columns=Columns(self.columns.rows, columns))

    def counted_once(self) -> SampleView:
        """Return these samples, each with one event."""
        return replace(self, stands_for=np.ones(len(self), np.uint64))

    def with_weights(self) -> SampleView:
        """Return these samples, each with its weight, at least 1, as the number of events."""
        return replace(self, stands_for=np.maximum(self.column("weight"), 1).astype(np.uint64))

    def in_grains(self, grain: int) -> SampleView:
        """Return these samples, with times rounded down to multiples of `grain` ns."""
        time = self.columns.get("time")
        if time is None:
            return self
        unit = np.uint64(grain or 1)
        return self.with_columns({**self.columns, "time": time // unit * unit})

    def column(self, name: str) -> NDArray[Any]:
        """Return a numeric column, with perf's value for samples that lack the field."""
        values = self.columns.get(name)
        bit, absent = _ABSENT.get(name, (0, 0))
        if values is None:
            return np.full(len(self), absent, np.int64)
        lacking = [not attr.sample_type & bit for attr in self.attrs] if bit else []
        if any(lacking):
            none = values.dtype.type(absent) if values.dtype.kind == "i" else ~np.uint64(0)
            return np.where(np.array(lacking)[self.event], none, values)
        numbers: NDArray[Any] = values
        return numbers

    def ragged_column(self, name: str, dtype: Any) -> Ragged:
        """Return a ragged column, empty for samples that lack it."""
        values = self.columns.get(name)
        return values.gather() if isinstance(values, (Ragged, Slices)) else Ragged.empty(len(self), dtype)

    @cached_property
    def chain_fingerprints(self) -> NDArray[np.uint64]:
        """A hash of each callchain."""
        return row_fingerprints(self.chains())

    def chains(self) -> Ragged | Slices:
        """Return the callchains, perhaps still in the buffer."""
        chains = self.columns.get("callchain")
        return chains if isinstance(chains, (Ragged, Slices)) else Ragged.empty(len(self), np.uint64)

    def period(self) -> NDArray[np.uint64]:
        """Return the number of events of each sample: its own period, or its event's fixed one."""
        if self.stands_for is not None:
            return self.stands_for
        values = self.columns.get("period")
        # samples with readings were expanded: each row has its counter's own
        has = np.array([values is not None and bool(attr.sample_type & (SampleType.PERIOD | SampleType.READ)) for attr in self.attrs])
        if values is not None and has.all():
            own: NDArray[np.uint64] = values
            return own
        fixed: NDArray[np.uint64] = np.array([attr.sample_period for attr in self.attrs], np.uint64)[self.event]
        return fixed if values is None else np.where(has[self.event], values, fixed)

    def payloads(self) -> Ragged:
        """Return the raw data of tracepoints' samples; empty for other events."""
        raw = self.ragged_column("raw", np.uint8)
        traced = np.array([attr.type == PerfType.TRACEPOINT for attr in self.attrs])[self.event]
        if traced.all():
            return raw
        lengths = np.where(traced, raw.lengths, 0)
        index, offsets = slices_index(raw.offsets[:-1], lengths)
        return Ragged(raw.values[index], offsets)

    def frames_at(self, column: str) -> NDArray[np.int32]:
        """Return the frames (of the symbolizer) at the addresses of a column, in the mode of each sample."""
        return self._ip_frames if column == "ip" else self._look_up_frames(column)

    @cached_property
    def _ip_frames(self) -> NDArray[np.int32]:
        return self._look_up_frames("ip")

    def _look_up_frames(self, column: str) -> NDArray[np.int32]:
        address = self.column(column).astype(np.uint64)
        return self.symbolizer.frame_ids(self.column("pid"), address, self.key, self.columns["cpumode"])
