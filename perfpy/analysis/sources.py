"""What a histogram can group samples by: one number per sample for each source.

What enters: a batch of samples (`SampleView`). What leaves: for each source a
column of numbers, equal where the samples are alike in that respect. A source
is raw: the thread's id, the frame's id; sort keys (perfpy.analysis.sortkeys)
decide later, on the distinct numbers only, which of them are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from perfpy.abi.columns import Columns, Ragged, spans_index
from perfpy.abi.flags import PerfType, SampleType
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr
    from perfpy.symbols.address_space import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

# what perf takes for a field that the samples of an event do not have
_MINUS_ONE = -1
_ABSENT: dict[str, tuple[int, int]] = {
    "pid": (SampleType.TID, _MINUS_ONE),
    "tid": (SampleType.TID, _MINUS_ONE),
    "cpu": (SampleType.CPU, _MINUS_ONE),
    "time": (SampleType.TIME, _MINUS_ONE),
}


class SampleView:
    """The samples of one batch, as the sources read them.

    columns; event: index of each sample's event; key: delivery keys.
    """

    def __init__(
        self,
        columns: Columns,
        event: NDArray[np.int32],
        key: NDArray[np.uint64],
        attrs: Sequence[EventAttr],
        timeline: TaskTimeline,
        symbolizer: Symbolizer,
    ) -> None:
        self.columns = columns
        self.event = event
        self.key = key
        self.attrs = attrs
        self.timeline = timeline
        self.symbolizer = symbolizer
        self._frames: NDArray[np.int32] | None = None
        self._period: NDArray[np.uint64] | None = None

    def __len__(self) -> int:
        return self.columns.rows

    def take(self, rows: NDArray[Any] | slice) -> SampleView:
        """The given samples (indexes, a mask or a slice)."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        return SampleView(self.columns.take(rows), self.event[rows], self.key[rows], self.attrs, self.timeline, self.symbolizer)

    def with_columns(self, columns: dict[str, Any]) -> SampleView:
        """The same samples with other columns."""
        table = Columns(self.columns.rows, columns)
        return SampleView(table, self.event, self.key, self.attrs, self.timeline, self.symbolizer)

    def counted_once(self) -> SampleView:
        """These samples, each standing for one event."""
        self._period = np.ones(len(self), np.uint64)
        return self

    def weighted(self) -> SampleView:
        """These samples, each standing for its weight, at least 1."""
        self._period = np.maximum(self.column("weight"), 1).astype(np.uint64)
        return self

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

    def period(self) -> NDArray[np.uint64]:
        """How many events each sample stands for: its own period, or its event's fixed one."""
        if self._period is not None:
            return self._period
        fixed = np.array([attr.sample_period for attr in self.attrs], np.uint64)[self.event]
        values = self.columns.get("period")
        if values is None:
            return fixed
        has = np.array([bool(attr.sample_type & SampleType.PERIOD) for attr in self.attrs])
        return values if has.all() else np.where(has[self.event], values, fixed)

    def payloads(self) -> Ragged:
        """The raw data of tracepoints' samples; empty for other events."""
        raw = self.ragged("raw", np.uint8)
        traced = np.array([attr.type == PerfType.TRACEPOINT for attr in self.attrs])[self.event]
        if traced.all():
            return raw
        lengths = np.where(traced, raw.lengths, 0)
        index, offsets = spans_index(raw.offsets[:-1], lengths)
        return Ragged(raw.values[index], offsets)

    def frames(self) -> NDArray[np.int32]:
        """The frame (of the symbolizer) that each sample hit."""
        if self._frames is None:
            self._frames = self.symbolizer.frame_ids(
                self.column("pid"), self.column("ip").astype(np.uint64), self.key, self.columns["cpumode"]
            )
        return self._frames

    def data_frames(self) -> NDArray[np.int32]:
        """The place of the data that each sample touched (ADDR), found by the sample's own cpumode."""
        return self.symbolizer.frame_ids(
            self.column("pid"), self.column("addr").astype(np.uint64), self.key, self.columns["cpumode"]
        )


Read = Callable[[SampleView], NDArray[Any]]


@dataclass(frozen=True)
class Source:
    """One respect in which samples can be alike.

    fields: the columns that it reads; read: the number of each sample; dense:
    whether these are small ids already (of frames, comms, events).
    """

    fields: tuple[str, ...]
    read: Read
    dense: bool = False


def _field(name: str) -> Source:
    return Source((name,), lambda samples: samples.column(name))


def _own(name: str) -> Source:
    """A column that every batch has."""
    return Source((name,), lambda samples: samples.columns[name])


SOURCES: dict[str, Source] = {
    "comm": Source(("tid",), lambda samples: samples.timeline.comm_ids(samples.column("tid"), samples.key), dense=True),
    "frame": Source(("pid", "ip", "cpumode"), SampleView.frames, dense=True),
    "data": Source(("pid", "addr", "cpumode"), SampleView.data_frames, dense=True),
    "tid": _field("tid"),
    "pid": _field("pid"),
    "cpu": _field("cpu"),
    "time": _field("time"),
    "weight": _field("weight"),
    "ins_lat": _field("ins_lat"),
    "retire_lat": _field("retire_lat"),
    "transaction": _field("transaction"),
    "cgroup": _field("cgroup"),
    "data_src": _field("data_src"),
    "phys_addr": _field("phys_addr"),
    "data_page_size": _field("data_page_size"),
    "code_page_size": _field("code_page_size"),
    "cpumode": _own("cpumode"),
    "branch_from": Source(("branch_stack",), lambda samples: samples.columns["branch_from"], dense=True),
    "branch_to": Source(("branch_stack",), lambda samples: samples.columns["branch_to"], dense=True),
    "branch_flags": Source(("branch_stack",), lambda samples: samples.columns["branch_flags"]),
}


class RawTable:
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
