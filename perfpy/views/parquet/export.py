"""Export one recording to the tables of a folder (perfpy.views.parquet lists them). Needs pyarrow.

Files are written under temporary names and then renamed.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.analysis.callchains.user_callchains import user_callchains
from perfpy.analysis.samples.callchains import ChainTable, frames_of
from perfpy.errors import OutputFailedError, PerfError
from perfpy.perfdata.skeleton import make_skeleton
from perfpy.perfdata.tables_folder import MARKER, VERSION
from perfpy.untrusted.folders import shared_folder
from perfpy.untrusted.paths import UnsafeNameError, component
from perfpy.views.parquet.keys import FrameKeys, key_of, key_of_numbers, text_of
from perfpy.views.parquet.tables import TableFiles, require_pyarrow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.recorded import Recorded

_DAY: Final = 86_400_000_000_000
_NOT_KEPT: Final = ("user_regs", "user_regs_abi", "user_stack", "intr_regs", "intr_regs_abi", "read", "aux", "branch_counters")
_RAGGED: Final = ("raw", "branch_stack")


class Exported(NamedTuple):
    """A summary of the export.

    Attributes:
        recording: its key in the tables.
        samples: their number.
        bytes: written in all.
    """

    recording: str
    samples: int
    bytes: int


def export(recording: Recorded, folder: str, symbols: SymbolOptions | None = None) -> Exported:
    """Add a recording to a folder of tables. Raises PerfError if it cannot be exported, OutputFailedError."""
    require_pyarrow()
    if not recording.events:
        raise PerfError(f"{recording.path}: no events to export")
    try:
        with shared_folder(folder) as opened:
            names = os.listdir(opened.fd)
            if MARKER not in names and not all(name.startswith(".") for name in names):
                raise OutputFailedError(folder, "the folder has other files", remedy="name a new folder, or one of an earlier export")
            tables = TableFiles(opened)
            marker = tables.create(MARKER)
            marker.file.write(json.dumps({"format": "perfpy", "version": VERSION}).encode())
            marker.finish()
            return _Export(recording, tables, symbols).run()
    except OSError as error:
        raise OutputFailedError(folder, error.strerror or str(error)) from None


class _Export:
    def __init__(self, recording: Recorded, tables: TableFiles, symbols: SymbolOptions | None) -> None:
        self._recording = recording
        self._tables = tables
        self._symbolizer = recording.symbolizer(symbols)
        self._keys = FrameKeys(self._symbolizer)
        self._skeleton = make_skeleton(recording.data)
        self._before = np.zeros(len(self._skeleton.keys), np.int64)
        self._key = recording_key(recording)
        self._host = text_of(recording.header.get("hostname")) or "unknown"
        self._clock = _wall_clock(recording)
        self._events = np.array([key_of("event", event.name) for event in recording.events], np.int64)
        self._tasks: dict[tuple[int, int, int], int] = {}
        self._chains = _RawChains()
        self._stacks = ChainTable()
        self._stack_keys: list[int] = []
        self._count = 0

    def run(self) -> Exported:
        written = self._tables.begin_samples(_folder_name(self._host), self._key)
        unwound = user_callchains(self._recording.data, self._symbolizer)
        fields = {*self._recording.data.column_names, "cpumode"} - {*_NOT_KEPT}
        for batch in filter(len, self._recording.batches(fields, unwound)):
            columns = self._columns(batch)
            for day in np.unique(columns["day"]).tolist():
                rows = np.flatnonzero(columns["day"] == day)
                written.write(_day_name(day), {name: _some(column, rows) for name, column in columns.items() if name != "day"})
        written.close()
        self._write_dimensions(unwound is not None)
        return Exported(self._key, self._count, self._tables.bytes)

    def _columns(self, batch: Batch) -> dict[str, Any]:
        """Return the rows of the table of samples, and the day of each."""
        symbolizer, columns = self._symbolizer, batch.columns
        self._before += np.searchsorted(batch.key, self._skeleton.keys, side="left")
        zeros = np.zeros(len(batch), np.uint64)
        pid, ip = columns.get("pid", zeros.astype(np.int32)), columns.get("ip", zeros)
        sampled = symbolizer.frame_ids(pid, ip, batch.key, columns["cpumode"])
        stack, chain = self._stack_ids(batch, pid, sampled)
        frames, symbols = self._keys.grow()
        moment = columns.get("time", zeros).astype(np.int64) + self._clock
        table: dict[str, Any] = {"at": moment, "day": moment // _DAY, "event": self._events[batch.event], "task": self._task_keys(batch)}
        table |= {"symbol": symbols[sampled], "frame": frames[sampled], "stack": self._keys_of_stacks(frames)[stack], "chain": chain}
        table |= {"event_in_file": batch.event.astype(np.int32)}
        sample_columns = {
            name: column for name, column in columns.items() if name not in (*_NOT_KEPT, "callchain") and not isinstance(column, Ragged)
        }
        table |= {name: column.astype(np.int64) if column.dtype == np.uint64 else column for name, column in sample_columns.items()}
        table |= {name: _bytes_of(columns[name]) for name in _RAGGED if name in columns}
        self._count += len(batch)
        return table

    def _stack_ids(self, batch: Batch, pid: NDArray[Any], sampled: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return for each sample the number of its stack, and of its raw callchain (-1: none)."""
        chains = batch.columns.get("callchain")
        if chains is None:
            return self._stacks.add(sampled, np.ones(len(batch), np.int64)), np.full(len(batch), -1, np.int32)
        frames, counts = frames_of(chains, pid, batch.key, self._symbolizer)
        alone = np.flatnonzero(counts == 0)
        if len(alone):  # a sample without callers is a stack of its own frame
            frames = np.insert(frames, np.cumsum(counts)[alone], sampled[alone])
            counts = counts.copy()
            counts[alone] = 1
        frames, counts = self._symbolizer.expand(frames, counts)
        return self._stacks.add(frames, counts), self._chains.add(chains)

    def _keys_of_stacks(self, frames: NDArray[np.int64]) -> NDArray[np.int64]:
        ids, offsets = self._stacks.chains()
        bounds = offsets.tolist()
        keys = frames[ids]
        for number in range(len(self._stack_keys), len(bounds) - 1):
            self._stack_keys.append(key_of_numbers(keys[bounds[number] : bounds[number + 1]]))
        return np.array(self._stack_keys, np.int64)

    def _task_keys(self, batch: Batch) -> NDArray[np.int64]:
        """Return the keys of the samples' tasks: a thread, and its comm."""
        none = np.full(len(batch), -1, np.int32)
        pid, tid = (batch.columns.get(name, none) for name in ("pid", "tid"))
        comm = self._recording.timeline.comm_ids(tid, batch.key)
        rows = np.stack([pid.astype(np.int64), tid.astype(np.int64), comm.astype(np.int64)], axis=1)
        different, which = np.unique(rows, axis=0, return_inverse=True)
        keys = []
        for task in map(tuple, different.tolist()):
            if task not in self._tasks:
                self._tasks[task] = key_of("task", self._key, *task[:2], self._recording.timeline.comms[task[2]])
            keys.append(self._tasks[task])
        return np.array(keys, np.int64)[which.ravel()]

    def _write_dimensions(self, unwound: bool) -> None:
        tables, comms = self._tables, self._recording.timeline.comms
        frames, _ = self._keys.grow()
        ids, offsets = self._stacks.chains()
        stacks = {"stack": self._keys_of_stacks(frames), "frames": Ragged(frames[ids], offsets)}
        tables.add("stacks", "stack", stacks, self._key)
        tables.add_rows("frames", "frame", self._keys.rows, self._key)
        tables.add_rows("symbols", "symbol", list(self._keys.symbols.values()), self._key)
        tasks = [(key, self._key, pid, tid, text_of(comms[comm])) for (pid, tid, comm), key in self._tasks.items()]
        tables.write_own("tasks", ("task", "recording", "pid", "tid", "comm"), tasks, self._key)
        events = [(key, text_of(event.name)) for key, event in zip(self._events.tolist(), self._recording.events, strict=True)]
        tables.add_named("events", "event", ("event", "name"), events, self._key)
        tables.write_chains(self._chains.column(), self._key)
        header, data = self._recording.header, self._recording.data
        started = _wrap_time((data.record_index.first or 0) + self._clock)
        ended = _wrap_time((data.record_index.last or 0) + self._clock)
        about = {
            "recording": self._key, "host": self._host, "path": text_of(self._recording.path), "command": text_of(self._recording.title),
            "started": started, "ended": ended, "kernel": text_of(header.get("osrelease")), "arch": text_of(header.get("arch")),
            "samples": self._count, "file": self._skeleton.file, "before": self._before, "unwound": unwound,
        }  # fmt: skip
        tables.write_recording(about, self._key)


class _RawChains:
    """Distinct callchains as the kernel, or the unwinder, wrote them."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def add(self, chains: Ragged) -> NDArray[np.int32]:
        """Return the number of each chain."""
        whole, bounds = chains.values.astype(np.uint64).tobytes(), (chains.offsets * 8).tolist()
        numbers = self._numbers
        numbers_of_chains = [numbers.setdefault(whole[begin:end], len(numbers)) for begin, end in itertools.pairwise(bounds)]
        return np.array(numbers_of_chains, np.int32)

    def column(self) -> Ragged:
        """Return all chains."""
        values = np.frombuffer(b"".join(self._numbers), np.uint64).view(np.int64)
        return Ragged(values, np.concatenate([[0], np.cumsum([len(one) // 8 for one in self._numbers])]).astype(np.int64))


def recording_key(recording: Recorded) -> str:
    """Return the name of a recording in the tables: the same for every export of it."""
    data, header = recording.data, recording.header
    parts = (header.get("hostname"), header.get("cmdline"), data.record_index.first, data.record_index.last, data.size)
    return f"{key_of('recording', *parts) & (1 << 64) - 1:016x}"


def _wall_clock(recording: Recorded) -> int:
    """Return the offset of the recording's times to the wall clock: from its header, or so that it ends at the file's modification time."""
    clock = recording.header.get("clock_data")
    if clock is not None:
        return _wrap_time(int(clock.wall_clock_ns - clock.clockid_ns))
    return _wrap_time(int(recording.data.modification_time * 1e9) - (recording.data.record_index.last or 0))


def _wrap_time(nanoseconds: int) -> int:
    """Return a time modulo 2^64, as signed columns hold it: damaged recordings have times that no clock shows."""
    return (nanoseconds + (1 << 63)) % (1 << 64) - (1 << 63)


def _folder_name(host: str) -> str:
    try:
        return component(host)
    except UnsafeNameError:
        return "unknown"


def _day_name(day: int) -> str:
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()


def _bytes_of(column: Ragged) -> Ragged:
    """Return rows of bytes."""
    size = column.values.dtype.itemsize
    return Ragged(np.ascontiguousarray(column.values).view(np.uint8), column.offsets * size)


def _some(column: Any, rows: NDArray[np.int64]) -> Any:
    return column.take(rows) if isinstance(column, Ragged) else column[rows]
