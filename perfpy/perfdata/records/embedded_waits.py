"""Decode time off the CPU as perf 7 records it: a BPF program writes each wait into the raw data of a sample.

Layout (off_cpu.bpf.c of tools/perf): { u32 pid, tid; u64 period, nr; u64 ips[nr]; u64 cgroup; }
The sample around it is the BPF program's: its time and CPU are those of the end of the wait.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Columns, Ragged, slices_index
from perfpy.abi.flags import PerfType, SampleType, SoftwareId
from perfpy.abi.waits import OFF_CPU_EVENT

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import StoredBatch

_HEAD: Final = "IIQQ"
_HEAD_SIZE: Final = 24
_WORD: Final = 8
RAW: Final = "raw"
#: the columns to replace
FIELDS: Final = frozenset(("pid", "tid", "period", "callchain", "ip", "cgroup"))


class EmbeddedWaits:
    """A decoder of waits in raw data. events: the indexes of the events with waits."""

    def __init__(self, events: Sequence[int], endian: str) -> None:
        self._events = np.array(events, np.int32)
        self._head = struct.Struct(endian + _HEAD)
        self._endian = endian

    @classmethod
    def of(cls, events: Sequence[FileEvent], endian: str) -> EmbeddedWaits | None:
        """Return the decoder for a recording; None if no event has waits."""
        indexes = [event.index for event in events if _is_embedded(event)]
        return cls(indexes, endian) if indexes else None

    def fields_for(self, fields: Collection[str] | None) -> Collection[str] | None:
        """Return the columns to decode for these fields."""
        return fields if fields is None or not FIELDS.intersection(fields) else {*fields, RAW}

    def replace_columns(self, samples: StoredBatch) -> StoredBatch:
        """Return the samples with the columns of their waits; samples with truncated raw data stay as they are."""
        rows = np.flatnonzero(np.isin(samples.event, self._events))
        raw = samples.columns.get(RAW)
        if raw is None or not len(rows):
            return samples
        waits = [(row, *wait) for row in rows.tolist() if (wait := self._wait(raw.gather()[row].tobytes()))]
        if not waits:
            return samples
        names = ("row", "pid", "tid", "period", "ips", "cgroup")
        return _replace_values(samples, dict(zip(names, map(list, zip(*waits, strict=True)), strict=True)))

    def _wait(self, data: bytes) -> tuple[int, int, int, NDArray[np.uint64], int] | None:
        if len(data) < _HEAD_SIZE:
            return None
        pid, tid, period, count = self._head.unpack_from(data)
        if count > (len(data) - _HEAD_SIZE) // _WORD - 1:  # the cgroup follows the callchain
            return None
        words = np.frombuffer(data, self._endian + "u8", count + 1, _HEAD_SIZE).astype(np.uint64)
        return pid, tid, period, words[:-1], int(words[-1])


def _is_embedded(event: FileEvent) -> bool:
    attr = event.attr
    is_bpf_output = attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT
    return is_bpf_output and event.name == OFF_CPU_EVENT and bool(attr.sample_type & SampleType.RAW)


def _replace_values(samples: StoredBatch, waits: dict[str, list[Any]]) -> StoredBatch:
    """Return the samples with the values of the waits in their rows."""
    rows = np.array(waits["row"], np.int64)
    columns = dict(samples.columns)
    waits["ip"] = [int(ips[1]) if len(ips) > 1 else 0 for ips in waits["ips"]]  # after the marker of user space
    for name in ("pid", "tid", "period", "ip", "cgroup"):
        if name in columns:
            column = columns[name].copy()
            column[rows] = np.array(waits[name], np.uint64).astype(column.dtype)
            columns[name] = column
    if "callchain" in columns:
        columns["callchain"] = _with_chains(columns["callchain"].gather(), rows, waits["ips"])
    return samples._replace(columns=Columns(samples.columns.rows, columns, samples.columns.damaged))


def _with_chains(chains: Ragged, rows: NDArray[np.int64], replacements: list[NDArray[np.uint64]]) -> Ragged:
    """Return the callchains with those of some rows replaced."""
    lengths = chains.lengths.copy()
    lengths[rows] = 0
    unchanged = lengths.copy()
    lengths[rows] = [len(chain) for chain in replacements]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], unchanged)[0]] = chains.values[slices_index(chains.offsets[:-1], unchanged)[0]]
    values[slices_index(offsets[:-1][rows], lengths[rows])[0]] = np.concatenate(replacements)
    return Ragged(values, offsets)
