"""What a histogram can group samples by: one number per sample for each dimension.

What enters: a batch of samples (`SampleView`). What leaves: for each dimension a
column of numbers, equal where the samples are alike in that respect. A dimension
is raw: the thread's id, the frame's id; sort keys (perfpy.analysis.sortkeys.names)
decide later, on the distinct numbers only, which of them are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from perfpy.abi.columns import Columns, Ragged, Slices, slices_index
from perfpy.abi.flags import PerfType, SampleType
from perfpy.analysis.samples.branches import branch_frames
from perfpy.analysis.samples.fingerprints import TaskStates
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

# the columns that are dimensions as they are
_FIELDS = (
    "tid",
    "pid",
    "cpu",
    "time",
    "weight",
    "ins_lat",
    "retire_lat",
    "transaction",
    "cgroup",
    "data_src",
    "phys_addr",
    "data_page_size",
    "code_page_size",
    "cpumode",
)

# what perf takes for a field that the samples of an event do not have
_MINUS_ONE = -1
_ABSENT: dict[str, tuple[int, int]] = {
    "pid": (SampleType.TID, _MINUS_ONE),
    "tid": (SampleType.TID, _MINUS_ONE),
    "cpu": (SampleType.CPU, _MINUS_ONE),
    "time": (SampleType.TIME, _MINUS_ONE),
}


class DeliveryOrder(NamedTuple):
    """When each sample is delivered: sorted by key, then time, then ordinal, they are in order. uint64, uint64, int64."""

    key: NDArray[np.uint64]
    time: NDArray[np.uint64]
    ordinal: NDArray[np.int64]

    def take(self, rows: NDArray[Any] | slice) -> DeliveryOrder:
        """Those of some of the samples."""
        return DeliveryOrder(self.key[rows], self.time[rows], self.ordinal[rows])

    def order(self) -> NDArray[np.int64]:
        """The samples in order."""
        return np.lexsort((self.ordinal, self.time, self.key))


class SampleView:
    """The samples of one batch, as the dimensions read them.

    columns; event: index of each sample's event; delivery: when they are delivered.
    """

    columns: Columns

    def __init__(
        self,
        columns: Columns,
        event: NDArray[Any],
        delivery: DeliveryOrder,
        attrs: Sequence[EventAttr],
        timeline: TaskTimeline,
        symbolizer: Symbolizer,
    ) -> None:
        self.columns = columns
        self.event = event
        self.delivery = delivery
        self.attrs = attrs
        self.timeline = timeline
        self.symbolizer = symbolizer
        self._period: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self.columns.rows

    @property
    def key(self) -> NDArray[np.uint64]:
        """The delivery keys."""
        return self.delivery.key

    @cached_property
    def tasks(self) -> TaskStates:
        """What the samples' tasks were when they were taken."""
        return TaskStates(self)

    def take(self, rows: NDArray[Any] | slice) -> SampleView:
        """The given samples (indexes, a mask or a slice)."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        return SampleView(self.columns.take(rows), self.event[rows], self.delivery.take(rows), self.attrs, self.timeline, self.symbolizer)

    def with_columns(self, columns: dict[str, Any]) -> SampleView:
        """The same samples with other columns."""
        table = Columns(self.columns.rows, columns)
        return SampleView(table, self.event, self.delivery, self.attrs, self.timeline, self.symbolizer)

    def counted_once(self) -> SampleView:
        """These samples, each standing for one event."""
        self._period = np.ones(len(self), np.uint64)
        return self

    def weighted(self) -> SampleView:
        """These samples, each standing for its weight, at least 1."""
        self._period = np.maximum(self.column("weight"), 1).astype(np.uint64)
        return self

    def in_grains(self, grain: int) -> SampleView:
        """These samples, their times rounded down to multiples of `grain` ns."""
        time = self.columns.get("time")
        if time is None:
            return self
        unit = np.uint64(grain or 1)
        return self.with_columns({**self.columns, "time": time // unit * unit})

    def column(self, name: str) -> NDArray[Any]:
        """A numeric column; for samples that lack the field, what perf takes instead."""
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

    def ragged(self, name: str, dtype: Any) -> Ragged:
        """A ragged column, empty where samples do not have it."""
        values = self.columns.get(name)
        return values if isinstance(values, Ragged) else Ragged.empty(len(self), dtype)

    def chains(self) -> Ragged | Slices:
        """The callchains, perhaps still in the buffer."""
        chains = self.columns.get("callchain")
        return chains if isinstance(chains, (Ragged, Slices)) else Ragged.empty(len(self), np.uint64)

    def period(self) -> NDArray[np.uint64]:
        """How many events each sample stands for: its own period, or its event's fixed one."""
        if self._period is not None:
            return self._period
        fixed: NDArray[np.uint64] = np.array([attr.sample_period for attr in self.attrs], np.uint64)[self.event]
        values = self.columns.get("period")
        if values is None:
            return fixed
        # samples that carried readings were expanded: each row has its counter's own
        has = np.array([bool(attr.sample_type & (SampleType.PERIOD | SampleType.READ)) for attr in self.attrs])
        periods: NDArray[np.uint64] = values if has.all() else np.where(has[self.event], values, fixed)
        return periods

    def payloads(self) -> Ragged:
        """The raw data of tracepoints' samples; empty for other events."""
        raw = self.ragged("raw", np.uint8)
        traced = np.array([attr.type == PerfType.TRACEPOINT for attr in self.attrs])[self.event]
        if traced.all():
            return raw
        lengths = np.where(traced, raw.lengths, 0)
        index, offsets = slices_index(raw.offsets[:-1], lengths)
        return Ragged(raw.values[index], offsets)

    def frames_at(self, column: str) -> NDArray[np.int32]:
        """The frame (of the symbolizer) at the addresses of a column, in the mode of each sample."""
        address = self.column(column).astype(np.uint64)
        return self.symbolizer.frame_ids(self.column("pid"), address, self.key, self.columns["cpumode"])


Read = Callable[[SampleView], NDArray[Any]]


class Dimension(NamedTuple):
    """One respect in which samples can be alike.

    fields: the columns that it reads; fingerprints: what it depends on (perfpy.analysis.samples.fingerprints);
    read: the number of each sample; dense: whether these are small ids already (of frames, comms, events).
    """

    fields: tuple[str, ...]
    fingerprints: tuple[str, ...]
    read: Read
    dense: bool = False


def _field(name: str) -> Dimension:
    return Dimension((name,), (name,), lambda samples: samples.column(name))


def _added(name: str, *fields: str) -> Dimension:
    """A column of small numbers that no sample has by itself: it is added to batches, by what the fields say."""
    return Dimension(fields, (name,), lambda samples: samples.columns[name], dense=True)


def _branch_end(name: str) -> Dimension:
    return Dimension(("branch_stack", "pid"), (name, "space"), lambda samples: branch_frames(samples, name), dense=True)


DIMENSIONS: dict[str, Dimension] = {
    "comm": Dimension(("pid", "tid"), ("comm",), lambda samples: samples.timeline.comm_ids(samples.column("tid"), samples.key), dense=True),
    "frame": Dimension(
        ("pid", "tid", "ip", "cpumode"), ("ip", "cpumode", "mode_space"), lambda samples: samples.frames_at("ip"), dense=True
    ),
    "data": Dimension(
        ("pid", "tid", "addr", "cpumode"), ("addr", "cpumode", "mode_space"), lambda samples: samples.frames_at("addr"), dense=True
    ),
    "cgroup_id": _added("cgroup_id", "tid"),
    "parallelism": _added("parallelism"),
    "branch_from": _branch_end("branch_from"),
    "branch_to": _branch_end("branch_to"),
    "branch_flags": Dimension(("branch_stack",), ("branch_flags",), lambda samples: samples.columns["branch_flags"]),
}
DIMENSIONS |= {name: _field(name) for name in _FIELDS}


class PayloadTable:
    """Distinct raw payloads (of tracepoints): bytes <-> dense ids."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}
        self.payloads: list[bytes] = []

    def ids(self, raw: Ragged) -> NDArray[np.int32]:
        """The id of each row's bytes."""
        data, bounds = raw.values.tobytes(), raw.offsets.tolist()
        found = [self._id(data[start:end]) for start, end in pairwise(bounds)]
        return np.array(found, np.int32)

    def _id(self, payload: bytes) -> int:
        number = self._ids.setdefault(payload, len(self.payloads))
        if number == len(self.payloads):
            self.payloads.append(payload)
        return number


class TupleTable:
    """Dense ids for tuples of numbers: several columns to one, and back.

    dense: which columns hold small ids already (32 bits, not negative); the
    others are given ids of their own first.
    """

    def __init__(self, dense: Sequence[bool]) -> None:
        self._values = [None if small else IdTable() for small in dense]
        self._pairs = [IdTable() for _ in dense]

    def __len__(self) -> int:
        return len(self._pairs[-1])

    def ids_and_new(self, columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The id of each row of `columns`, and the rows at which new ids were first seen, in order of these ids."""
        ids, new = np.zeros(len(columns[0]), np.int32), np.zeros(0, np.int64)
        first = True
        for values, pairs, column in zip(self._values, self._pairs, columns, strict=True):
            small = column if values is None else values.ids(column.astype(np.int64, copy=False).view(np.uint64))
            packed = small.astype(np.uint64)
            if not first:
                packed |= ids.astype(np.uint64) << _HALF
                ids, new = pairs.ids_and_new(packed)
            elif len(columns) == 1:
                ids, new = pairs.ids_and_new(packed)
            else:
                ids = small.astype(np.int32, copy=False)
            first = False
        return ids, new

    def columns(self) -> list[NDArray[np.int64]]:
        """The number of every column for every id."""
        numbers = np.arange(len(self))
        found: list[NDArray[np.int64]] = []
        for at in range(len(self._pairs) - 1, -1, -1):
            if at or len(self._pairs) == 1:
                packed = self._pairs[at].keys[numbers]
                small, numbers = (packed & _LOW).astype(np.int64), (packed >> _HALF).astype(np.int64)
            else:
                small = numbers
            values = self._values[at]
            found.append(small if values is None else values.keys.view(np.int64)[small])
        return found[::-1]
