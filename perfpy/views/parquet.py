"""Export recordings to the tables of a folder, and read them from there. Needs pyarrow.

Files are written under temporary names and then renamed.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import json
import os
from functools import cached_property
from glob import escape, glob
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.analysis.callchains import ChainTable, frames_of, user_callchains
from perfpy.analysis.named_samples import UNKNOWN
from perfpy.errors import BadPerfDataError, OutputFailedError, PerfError
from perfpy.perfdata.reader import MARKER, VERSION
from perfpy.perfdata.skeleton import damage_of_tables, damaged_table, join_skeleton, make_skeleton, open_table
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbol_table import SymbolTable, symbols_of_names
from perfpy.untrusted.destinations import shared_folder
from perfpy.untrusted.expansion import ExpansionError
from perfpy.untrusted.files import UnsafeNameError, component

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.untrusted.destinations import Folder
    from perfpy.views.recorded import Recorded

    Keys = NDArray[np.int64]


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
        where = symbols or recording.symbol_options or SymbolOptions()
        self._symbolizer = recording.symbolizer(where._replace(fold_interpreters=bool(where.fold_interpreters)))  # tables have all frames
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
            "recording": self._key, "host": self._host, "path": text_of(self._recording.path),
            "command": text_of(self._recording.command_line), "started": started, "ended": ended,
            "kernel": text_of(header.get("osrelease")), "arch": text_of(header.get("arch")),
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


# Keys of tables: int64 hashes of a row's identity, equal in all recordings and on all machines.


def key_of(*parts: object) -> int:
    """Return the key of these parts; never 0, which stands for none."""
    text = "\0".join(map(str, parts)).encode("utf-8", "surrogateescape")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little", signed=True) or 1


def key_of_numbers(numbers: NDArray[np.int64]) -> int:
    """Return the key of a row of keys."""
    return int.from_bytes(blake2b(numbers.tobytes(), digest_size=8).digest(), "little", signed=True) or 1


class FrameRow(NamedTuple):
    """A row of the table of frames; address: in its file, or in memory without a file."""

    frame: int
    symbol: int
    address: int


class SymbolRow(NamedTuple):
    """A row of the table of symbols; dso: the file's short name; path: its path; inlined: into the function at start."""

    symbol: int
    name: str
    dso: str
    path: str
    build_id: str
    start: int
    end: int
    inlined: bool


class FrameKeys:
    """The keys of a Symbolizer's frames and of their symbols, extended as it gets new frames."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._frames: list[int] = []
        self._of_symbols: list[int] = []
        self.rows: list[FrameRow] = []
        self.symbols: dict[int, SymbolRow] = {}

    def grow(self) -> tuple[Keys, Keys]:
        """Return the keys by frame number: the frame's, and its symbol's."""
        frames = self._symbolizer.resolve()
        first_new = len(self._frames)
        columns = (frames.dso[first_new:], frames.symbol[first_new:], frames.address[first_new:])
        for dso, symbol, address in zip(*(column.tolist() for column in columns), strict=True):
            self._add(dso, symbol, address)
        return np.array(self._frames, np.int64), np.array(self._of_symbols, np.int64)

    def _add(self, dso: int, symbol: int, address: int) -> None:
        row = self._symbol(dso, symbol)
        frame = key_of("frame", row.symbol, address)
        self.symbols[row.symbol] = row
        self._frames.append(frame)
        self._of_symbols.append(row.symbol)
        self.rows.append(FrameRow(frame, row.symbol, _sign(address)))

    def _symbol(self, dso: int, symbol: int) -> SymbolRow:
        symbolizer = self._symbolizer
        short = path = UNKNOWN
        build_id = ""
        if dso >= 0:
            one = symbolizer.dsos[dso]
            short, path, build_id = one.short_name, one.name, one.build_id or ""
        name, start, end, inlined = UNKNOWN, 0, 0, False
        if symbol >= 0:
            symbols = symbolizer.symbols
            name, start, end = symbols.name(symbol), symbols.start(symbol), symbols.end(symbol)
            inlined = symbols.is_inlined(symbol)
        key = key_of("symbol", build_id or path, name, start)
        return SymbolRow(key, _text(name), _text(short), _text(path), build_id, _sign(start), _sign(end), inlined)


def _text(name: str) -> str:
    """Return valid UTF-8: other bytes become escapes."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _sign(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def text_of(value: Any) -> str:
    """Return a value of the header as text; "" for none."""
    return "" if value is None else _text(str(value))


# Write rows to the files of a folder of tables: Parquet, compressed by zstd.
#
# Rows that recordings share (stacks, frames, symbols,
# events) are written by the first recording that has them.


_COMPRESSION: Final = {"compression": "zstd", "compression_level": 3}
#: ascending columns: their differences are small
_GROWING: Final = ("at", "time")


def require_pyarrow() -> None:
    """Raise PerfError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401  # what every table needs
    except ImportError:
        raise PerfError("Parquet needs pyarrow: pip install 'perfpy[frames]'") from None


class NewFile:
    """A file that gets its name when it is finished; others may write in its folder, and plant links there."""

    def __init__(self, folder: Folder, name: str) -> None:
        """Create the file; the folder is closed at the end."""
        self._folder = folder
        self._name = name
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{name}.unfinished", dir_fd=folder.fd)
        self.file = open(folder.create(f"{name}.unfinished"), "wb")  # noqa: SIM115  # finish() closes it

    def finish(self) -> int:
        """Rename the file, and return its size in bytes."""
        size = self.file.tell()
        self.file.close()
        os.replace(f"{self._name}.unfinished", self._name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        self._folder.close()
        return size


class TableFiles:
    """The tables of one folder; bytes: written by this object."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.bytes = 0

    def begin_samples(self, host: str, recording: str) -> SampleFiles:
        """Return the writer of one recording's samples; files of an earlier export of it will be deleted."""
        return SampleFiles(self, host, recording)

    def add(self, name: str, key: str, columns: Mapping[str, Any], recording: str) -> None:
        """Write the rows whose keys are not in the table yet, each once."""
        known_keys = self._known_keys(name, key, recording)
        _, first = np.unique(columns[key], return_index=True)
        first.sort()
        rows = first[~np.isin(columns[key][first], known_keys)]
        self._write(f"{name}/{recording}.parquet", {one: _take_rows(column, rows) for one, column in columns.items()}, recording)

    def add_rows(self, name: str, key: str, rows: Sequence[Any], recording: str) -> None:
        """Write named tuples like add(); without any, write no file."""
        if rows:
            self.add_named(name, key, rows[0]._fields, rows, recording)

    def add_named(self, name: str, key: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], recording: str) -> None:
        """Write tuples like add()."""
        self.add(name, key, _columns(names, rows), recording)

    def write_own(self, name: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], recording: str) -> None:
        """Write rows that belong to one recording."""
        self._write(f"{name}/{recording}.parquet", _columns(names, rows), recording)

    def write_chains(self, chains: Ragged, recording: str) -> None:
        """Write the raw callchains, in the order of their numbers."""
        self._write(f"chains/{recording}.parquet", {"addresses": chains}, recording)

    def write_recording(self, about: Mapping[str, Any], recording: str) -> None:
        """Write the row of the recording, which comes last and makes the others valid."""
        import pyarrow

        types = {
            "started": pyarrow.timestamp("ns", "UTC"),
            "ended": pyarrow.timestamp("ns", "UTC"),
            "before": pyarrow.list_(pyarrow.int64()),
        }
        arrays = {
            name: pyarrow.array([value.tolist() if isinstance(value, np.ndarray) else value], types.get(name))
            for name, value in about.items()
        }
        self.put(f"recordings/{recording}.parquet", pyarrow.table(arrays))

    def _known_keys(self, name: str, key: str, recording: str) -> NDArray[np.int64]:
        """Return the keys that other recordings have written."""
        folder = os.path.join(self.folder.path, name)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        others = [file for file in files if file.endswith(".parquet") and file != f"{recording}.parquet"]
        keys = [np.zeros(0, np.int64)]
        for file in others:
            path = os.path.join(folder, file)
            try:
                with open_table(path, [key]) as table:
                    keys.append(table.read(columns=[key])[key].to_numpy().astype(np.int64))
            except damage_of_tables() as error:
                raise damaged_table(path, error) from None
        return np.concatenate(keys)

    def _write(self, path: str, columns: Mapping[str, Any], _recording: str) -> None:
        import pyarrow

        self.put(path, pyarrow.table({name: arrow_array(name, column) for name, column in columns.items()}))

    def put(self, path: str, table: Any) -> None:
        """Write one file atomically."""
        import pyarrow.parquet

        created = self.create(path)
        pyarrow.parquet.write_table(table, created.file, **_COMPRESSION)
        self.bytes += created.finish()

    def create(self, path: str) -> NewFile:
        """Create a file at a relative path, with its folders."""
        *folders, name = path.split("/")
        return NewFile(self.folder.inner(*folders), name)


class SampleFiles:
    """The files of one recording's samples: one a day."""

    def __init__(self, tables: TableFiles, host: str, recording: str) -> None:
        self._tables = tables
        self._host = host
        self._recording = recording
        self._writers: dict[str, tuple[Any, NewFile]] = {}

    def write(self, day: str, columns: Mapping[str, Any]) -> None:
        """Write some rows of a day."""
        import pyarrow
        import pyarrow.parquet

        path = f"samples/host={self._host}/day={day}/{self._recording}.parquet"
        count = len(columns["at"])
        arrays = {"recording": pyarrow.array([self._recording] * count), **{name: arrow_array(name, one) for name, one in columns.items()}}
        table = pyarrow.table(arrays)
        if path not in self._writers:
            plain = {name: "DELTA_BINARY_PACKED" for name in _GROWING if name in arrays}
            dictionary = [name for name in arrays if name not in plain]
            created = self._tables.create(path)
            writer = pyarrow.parquet.ParquetWriter(
                created.file, table.schema, use_dictionary=dictionary, column_encoding=plain or None, **_COMPRESSION
            )
            self._writers[path] = writer, created
        self._writers[path][0].write_table(table)

    def close(self) -> None:
        """Finish the files, and delete those of an earlier export that were not written again."""
        for writer, created in self._writers.values():
            writer.close()
            self._tables.bytes += created.finish()
        root = self._tables.folder
        name = f"{self._recording}.parquet"
        for folder, _, files, fd in os.fwalk("samples", dir_fd=root.fd) if root.has("samples") else ():
            if name in files and f"{folder}/{name}" not in self._writers:
                os.unlink(name, dir_fd=fd)


def arrow_array(name: str, column: Any) -> Any:
    """Convert a column to pyarrow: ragged ones of bytes as binary, others as lists."""
    import pyarrow

    if name == "at":
        return pyarrow.array(column, pyarrow.int64()).cast(pyarrow.timestamp("ns", "UTC"))
    if not isinstance(column, Ragged):
        return pyarrow.array(column)
    if column.values.dtype == np.uint8:
        whole, bounds = column.values.tobytes(), column.offsets.tolist()
        return pyarrow.array([whole[begin:end] for begin, end in itertools.pairwise(bounds)], pyarrow.binary())
    return pyarrow.ListArray.from_arrays(pyarrow.array(column.offsets.astype(np.int32)), pyarrow.array(column.values))


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: _column(values) for name, values in zip(names, columns, strict=True)}


def _column(values: Sequence[Any]) -> NDArray[Any]:
    if values and isinstance(values[0], bool):
        return np.array(values, np.bool_)
    return np.array(values, np.int64 if values and isinstance(values[0], int) else object)


def _take_rows(column: Any, rows: NDArray[np.int64]) -> Any:
    return column.take(rows) if isinstance(column, Ragged) else column[rows]


# Read a recording from a folder of tables: the original perf.data, except for the parts that are not exported.


_NUMBER, _OBJECT = 8, 200  # bytes of a value: of a number, and of an object in a row
#: of all tables: many times a day's recording
_MOST_BYTES: Final = 4 << 30
_OF_SYMBOLS: Final = ("start", "end", "name", "build_id", "path", "inlined")
_OWN: Final = ("recording", "at", "event", "task", "symbol", "frame", "stack", "chain", "event_in_file", "host", "day")


def open_exported(path: str) -> tuple[BinaryIO, bool]:
    """Return the recording as an open file without a name, and whether its callchains were unwound. Raises BadPerfDataError."""
    require_pyarrow()
    folder, key = os.path.dirname(os.path.dirname(path)), os.path.basename(path).partition(".")[0]
    try:
        about = _rows(path, ["file", "before", "unwound", "samples"])
        chains = _read_ragged(_rows(os.path.join(folder, "chains", f"{key}.parquet"), ["addresses"])["addresses"].combine_chunks())
        files = sorted(glob(os.path.join(escape(folder), "samples", "host=*", "day=*", f"{key}.parquet")), key=os.path.dirname)
        before = np.array(about["before"][0].as_py(), np.int64)
        samples = (part for file in files for part in _samples(file, chains))
        return join_skeleton(about["file"][0].as_py(), before, samples), bool(about["unwound"][0].as_py())
    except damage_of_tables() as error:
        raise BadPerfDataError(
            path, f"not a recording exported by perfpy (version {VERSION}): {(str(error).splitlines() or ['damaged'])[0]}"
        ) from None


class ExportedSymbols:
    """The symbols of a folder of tables: those of its recordings' samples and callchains."""

    def __init__(self, path: str) -> None:
        """Set the folder; path: of one of the recordings."""
        self._folder = os.path.join(os.path.dirname(os.path.dirname(path)), "symbols")

    def table(self, file: str) -> SymbolTable | None:
        """Return the symbols of a file, by its build-id, or by its name without one."""
        rows = sorted({(start, end, name) for start, end, name, whose in self._rows if whose == file})
        if not rows:
            return None
        starts, ends = (np.array([row[side] for row in rows], np.int64).view(np.uint64) for side in (0, 1))
        order = np.argsort(starts, kind="stable")
        names = [rows[row][2].encode("utf-8", "surrogateescape") for row in order.tolist()]
        return SymbolTable(symbols_of_names(starts[order], ends[order], names))

    @cached_property
    def _rows(self) -> list[tuple[int, int, str, str]]:
        """Start, end, name, and build-id or path of each symbol."""
        symbols: list[tuple[int, int, str, str]] = []
        for path in sorted(glob(os.path.join(escape(self._folder), "*.parquet"))):
            try:
                symbols += _symbols_in(path)
            except damage_of_tables() as error:
                raise damaged_table(path, error) from None
        return symbols


def _symbols_in(path: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield start, end, name, and build-id or path of each symbol of a table. Raises as damage_of_tables() says."""
    table = _rows(path, [*_OF_SYMBOLS], _OBJECT)
    columns = [_values(table[name]) for name in _OF_SYMBOLS]
    for start, end, name, build_id, file, inlined in zip(*columns, strict=True):
        if not isinstance(name, str) or not isinstance(build_id or file, str):
            raise TypeError("a symbol without a name or a file")
        if not inlined and start != end:
            yield _address(start), _address(end), name, build_id or file


def _address(value: Any) -> int:
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise TypeError(f"{value!r} is not an address")
    return value


def _rows(path: str, columns: list[str], width: int = _NUMBER) -> Any:
    """Return columns of a table. width: bytes in memory per value."""
    with open_table(path, columns, width=width, most=_MOST_BYTES) as table:
        return table.read(columns=columns)


def _samples(path: str, chains: Ragged) -> Iterator[tuple[NDArray[np.int32], Columns]]:
    """Yield the samples of a file, batch by batch: the events' indexes, and the columns of the records."""
    with open_table(path) as table:
        for part in table.iter_batches():
            columns = Columns(part.num_rows)
            for name in part.schema.names:
                if name not in _OWN:
                    columns[name] = _read_column(name, part[name])
            chain = part["chain"].to_numpy()
            if len(chain) and chain.max() >= 0:
                columns["callchain"] = _chosen(chains, chain)
            yield part["event_in_file"].to_numpy().astype(np.int32), columns


def _read_column(name: str, array: Any) -> Any:
    """Return numbers, or rows of bytes, as perfpy.abi.sample_encoding takes them."""
    import pyarrow

    if not pyarrow.types.is_dictionary(array.type):
        return array.to_numpy()
    values, numbers = array.dictionary.to_pylist(), array.indices.to_numpy()
    lengths = np.array([len(value) for value in values], np.int64)[numbers]
    if int(lengths.sum()) > _MOST_BYTES:
        raise ExpansionError(f"{name} would become {int(lengths.sum()):,} bytes")
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.frombuffer(b"".join([values[number] for number in numbers.tolist()]), np.uint8)
    return Ragged(values.view(BRANCH_DTYPE), offsets // BRANCH_DTYPE.itemsize) if name == "branch_stack" else Ragged(values, offsets)


def _values(column: Any) -> list[Any]:
    """Return the values of a column; equal strings are one object."""
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = []
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        values += [names[number] for number in chunk.indices.to_pylist()]
    return values


def _read_ragged(array: Any) -> Ragged:
    return Ragged(array.values.to_numpy().view(np.uint64), array.offsets.to_numpy().astype(np.int64))


def _chosen(chains: Ragged, numbers: NDArray[np.int32]) -> Ragged:
    """Return the callchain of each sample; empty if its number is -1."""
    none = Ragged(chains.values, np.concatenate([chains.offsets, chains.offsets[-1:]]))
    return none.take(np.where(numbers >= 0, numbers, len(chains)).astype(np.int64))
