"""Merge the portable profiles of several recordings.

Files are equal by name, functions by name within a file, events by key; addresses do not matter. Rows, frames, chains and names keep
the order of their first occurrence; so the grouping of neighbours does not matter: merge(a, b, c, d) is merge(merge(a, b), merge(c, d)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.analysis.aggregate.profile import Folded, samples_of_frames
from perfpy.analysis.callchains import ChainTable
from perfpy.analysis.dimensions import DIMENSIONS, PayloadTable
from perfpy.analysis.report.report import SampleWords
from perfpy.analysis.sort_key import TaskComms
from perfpy.errors import UsageError
from perfpy.fleet.portable_profile import (
    FRAME_COLUMNS,
    MergedLines,
    MergedValues,
    PortableProfile,
    RecordingProblem,
    identity_columns,
    merged_data,
    merged_fields,
)
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.dso_symbols import loader_of
from perfpy.symbols.interning import GroupSums, TupleTable
from perfpy.symbols.known_frames import KnownFrames, SymbolColumns
from perfpy.symbols.quality_notes import TruncatedStacks
from perfpy.symbols.tasks import name_of_unnamed

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.report.options import Finder, Layout
    from perfpy.analysis.sort_key import MemoryWords, RecordingText
    from perfpy.perfdata.event_format import EventFormat
    from perfpy.perfdata.events import FileEvent
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbol_table import SymbolTable
    from perfpy.symbols.symbolizer import LineColumns


_CHAINS_AT_ONCE = 1 << 13


class _Numbers:
    """Numbers of keys, in the order of their first occurrence."""

    def __init__(self) -> None:
        self._number_of: dict[Hashable, int] = {}
        self.new: list[int] = []  # indexes of the new keys of the last call

    def of(self, keys: Sequence[Hashable]) -> NDArray[np.int32]:
        """Return the number of each key."""
        number_of = self._number_of
        self.new = []
        numbers = np.empty(len(keys), np.int32)
        for index, key in enumerate(keys):
            before = len(number_of)
            number = numbers[index] = number_of.setdefault(key, before)
            if number == before:
                self.new.append(index)
        return numbers


class Merging:
    """A merge in progress."""

    def __init__(self) -> None:
        self._recordings: list[RecordingText] = []
        self._events: list[FileEvent] = []
        self._event_keys: list[tuple[object, ...]] = []
        self._formats: list[EventFormat | None] = []
        self._dsos: list[Dso] = []
        self._first_build: list[int] = []
        self._origins: list[str] = []
        self._comms: list[str] = []
        self._last_comms: dict[int, str] = {}
        self._numbers_of = {name: _Numbers() for name in ("recording", "event", "dso", "file", "comm", "symbol")}
        self._values: dict[str, list[Any]] = {}
        self._symbols: list[SymbolColumns] = []
        self._frame_ids: TupleTable | None = None
        self._lines = MergedLines()
        self._frames: list[dict[str, NDArray[Any]]] = []
        self._chains = ChainTable()
        self._rows: TupleTable | None = None
        self._dimensions: tuple[str, ...] = ()
        self._tids: list[NDArray[np.int64]] = []
        self._period, self._count = GroupSums(), GroupSums()
        self._measures: dict[str, GroupSums] = {}
        self._lost = self._dropped = 0
        self._truncated: dict[tuple[int, str], tuple[int, int]] = {}
        self._by_function = True
        self._listed: dict[str, None] = {}
        self._warnings: list[RecordingProblem] = []

    def add(self, part: PortableProfile) -> None:
        """Add the next part."""
        numbers = self._numbers_of
        recording, event = numbers["recording"].of(part.recordings), numbers["event"].of(part.event_keys)
        self._recordings += [part.recordings[index] for index in numbers["recording"].new]
        for index in numbers["event"].new:
            self._event_keys.append(part.event_keys[index])
            self._events.append(renumber_event(part.events[index], len(self._events)))
            self._formats.append(part.formats[index])
        comm = numbers["comm"].of(part.comms)
        self._comms += [part.comms[index] for index in numbers["comm"].new]
        for tid, name in part.last_comms.items():
            self._last_comms.setdefault(tid, name)
        self._listed.update(dict.fromkeys(part.listed))
        self._warnings += part.warnings
        frame = self._frames_of(part)
        maps = {"frame": frame, "comm": comm, "recording": recording, **{name: self._values_of(name, part) for name in part.values}}
        self._add_rows(part.folded, event, maps, self._chains_of(part, frame))
        self._lost, self._dropped = self._lost + part.lost, self._dropped + part.dropped
        for one in part.truncated:
            truncated, stacks = self._truncated.get((one.size, one.machine), (0, 0))
            self._truncated[one.size, one.machine] = truncated + one.truncated, stacks + one.stacks

    def _frames_of(self, part: PortableProfile) -> NDArray[np.int32]:
        """Return the merged number of each frame of a part. Builds of a file stay separate if addresses matter."""
        own, first = self._dsos_of(part.dsos, part.origins)
        has_function = part.by_function & (part.frames["symbol"] >= 0)
        dso = np.where(has_function, first[part.frames["dso"]], own[part.frames["dso"]])
        lines = self._lines.with_merged_paths(part.lines) if part.lines is not None else None
        symbol = np.append(self._symbols_of(part.symbols, first if part.by_function else own, lines), np.int32(-1))
        self._by_function = part.by_function
        frames = {**part.frames, "dso": dso, "symbol": symbol[part.frames["symbol"]]}
        address = np.where(dso >= 0, frames["address"], frames["ip"])
        address = np.where(has_function, np.uint64(0), address)
        identity = [frames["level"], frames["dso"] + 1, frames["symbol"] + 1, address, *identity_columns(lines)]
        if self._frame_ids is None:
            self._frame_ids = TupleTable([column is not address for column in identity])
        ids, new = self._frame_ids.ids_and_new(identity)
        if lines is not None:
            self._lines.add_frames(lines, new)
        self._frames.append({name: frames[name][new] for name in FRAME_COLUMNS})
        return ids

    def _dsos_of(self, dsos: Sequence[Dso], origins: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the merged number of each file of a part, and of the file's first build; the last entry is for no file."""
        numbers = self._numbers_of["dso"]
        own = numbers.of([(file.short_name, file.kind.value, file.build_id) for file in dsos])
        for index in numbers.new:
            self._dsos.append(dsos[index])
            self._origins.append(origins[index])
        files = self._numbers_of["file"]
        file = files.of([(file.short_name, file.kind.value) for file in dsos])
        self._first_build += own[files.new].tolist()
        none = np.array([-1], np.int32)
        return np.concatenate([own, none]), np.concatenate([np.array(self._first_build, np.int32)[file], none])

    def _values_of(self, name: str, part: PortableProfile) -> NDArray[np.int32]:
        """Return the merged number of each value of a dimension."""
        numbers, merged_values = self._numbers_of.setdefault(f"value of {name}", _Numbers()), self._values.setdefault(name, [])
        result = numbers.of(part.values[name])
        merged_values += [part.values[name][index] for index in numbers.new]
        return result

    def _symbols_of(self, symbols: SymbolColumns, dso: NDArray[np.int32], lines: LineColumns | None) -> NDArray[np.int32]:
        """Return the merged number of each symbol of a part."""
        file = dso[symbols.dso]
        keys = [*zip(file.tolist(), symbols.names, symbols.twin.tolist(), symbols.inlined.tolist(), strict=True)]
        numbers = self._numbers_of["symbol"].of(keys)
        new = self._numbers_of["symbol"].new
        self._symbols.append(symbols._replace(dso=file).take(new))
        if lines is not None:
            self._lines.add_symbols(lines, new)
        return numbers

    def _chains_of(self, part: PortableProfile, frame: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the merged number of each chain of a part; the last entry is for no chain."""
        offsets, chain_numbers = part.offsets, []
        for begin in range(0, len(part.chain_lengths), _CHAINS_AT_ONCE):
            lengths = part.chain_lengths[begin : begin + _CHAINS_AT_ONCE]
            entries = part.chain_frames[offsets[begin] : offsets[begin + len(lengths)]]
            chain_numbers.append(self._chains.add(frame[entries], lengths))
        return np.concatenate([*chain_numbers, np.array([-1], np.int32)])

    def _add_rows(self, folded: Folded, event: NDArray[np.int32], maps: dict[str, NDArray[np.int32]], chain: NDArray[np.int32]) -> None:
        if self._rows is None:
            self._dimensions = tuple(sorted(folded.dimensions))
            self._measures = {name: GroupSums() for name in folded.measures}
            self._rows = TupleTable([True, True, *(name in self._values or DIMENSIONS[name].dense for name in self._dimensions), True])
        if tuple(sorted(folded.dimensions)) != self._dimensions:
            raise UsageError("some recordings have branches or memory accesses, others do not; report them separately")
        columns: list[NDArray[Any]] = [event[folded.event], folded.filtered.astype(np.int32)]
        for name in self._dimensions:
            table = name if name in maps else DIMENSIONS[name].table
            values = folded.dimensions[name]
            columns.append(maps[table][values] if table else values)
        ids, new = self._rows.ids_and_new([*columns, chain[folded.chain] + 1])
        size = len(self._rows)
        self._tids.append(folded.tid[new])
        self._period.add(ids, folded.period, size)
        self._count.add(ids, folded.count, size)
        for name, measures in self._measures.items():
            measures.add(ids, folded.measures[name], size)

    def result(self) -> PortableProfile:
        """Return the merged profile."""
        assert self._rows is not None, "nothing to merge"
        size = len(self._rows)
        event, mark, *rest, chain = self._rows.columns()
        measures = {name: values.totals(size) for name, values in self._measures.items()}
        totals = self._period.totals(size), self._count.totals(size)
        dimensions = dict(zip(self._dimensions, rest, strict=True))
        rows = Folded(event, mark.astype(np.bool_), chain - 1, np.concatenate(self._tids), *totals, dimensions, measures)
        frames = {name: np.concatenate([part[name] for part in self._frames]) for name in FRAME_COLUMNS}
        chain_frames, offsets = self._chains.chains()
        names = [name for part in self._symbols for name in part.names]
        symbols = SymbolColumns(names, *(np.concatenate(columns) for columns in zip(*(part[1:] for part in self._symbols), strict=True)))
        truncated = [TruncatedStacks(*counts, *key) for key, counts in sorted(self._truncated.items())]
        return PortableProfile(
            self._recordings,
            self._events,
            self._event_keys,
            self._dsos,
            self._origins,
            frames,
            symbols,
            chain_frames,
            np.diff(offsets),
            self._comms,
            self._last_comms,
            rows,
            self._values,
            self._formats,
            self._lines.result(),
            *(self._lost, self._dropped),
            truncated,
            self._by_function,
            list(self._listed),
            self._warnings,
        )


def renumber_event(event: FileEvent, number: int) -> FileEvent:
    """Return a copy of an event with another number; groups do not extend across recordings."""
    from copy import copy

    event = copy(event)
    event.index = event.leader = number
    event.group_name = ""
    return event


# A portable profile as the input of reports and stacks (perfpy.analysis): folded samples, callchains, frames and texts.


class MergedProfile:
    """A portable profile as FoldedSamples and SourceHeader."""

    tracing = None
    is_pipe = False
    endian = "<"

    def __init__(self, profile: PortableProfile, symbols: SymbolOptions | None = None) -> None:
        """Adapt a profile; symbols: where to look for files with code."""
        self.events: list[FileEvent] = profile.events
        self.features: dict[str, object] = {}
        self.raw = PayloadTable()
        self.values = MergedValues(profile.folded.dimensions, profile.values, profile.recordings)
        loader = loader_of(profile.dsos, symbols) if symbols is not None else None
        self.symbolizer = KnownFrames(profile.frames, profile.symbols, profile.dsos, profile.origins, profile.lines, loader)
        self.folded: Folded = profile.folded.with_dimensions(self.values.dimensions)
        self.profile = profile
        self.chains = MergedChains(profile) if len(profile.chain_lengths) or not len(profile.folded) else None
        if self.chains is not None:  # rows of recordings without callchains have empty ones
            none = len(profile.chain_lengths)
            self.folded = self.folded.with_chains(np.where(profile.folded.chain < 0, none, profile.folded.chain))

    def last_comm(self, tid: int) -> str:
        """Return the last comm of a thread, from the first recording that has its id."""
        return self.values.comm_of(tid) or self.profile.last_comms.get(tid) or name_of_unnamed(tid)

    def fields(self, *, raw: bool) -> Finder:
        """Return a finder of sort keys for tracepoint fields."""
        profile = self.profile
        return merged_fields(profile.events, profile.formats, profile.values.get("raw", []), raw=raw)

    def words(self, memory: MemoryWords | None) -> SampleWords:
        """Return the texts of the dimensions other than locations."""
        profile = self.profile
        return SampleWords(
            TaskComms(profile.comms, self.last_comm), merged_data(profile.values.get("raw", [])), memory, self.values.machine
        )

    def samples_of_frames(self) -> NDArray[np.int64]:
        """Return the number of samples, after filters, on each frame."""
        return samples_of_frames(self.folded)


class MergedChains:
    """The distinct callchains of many recordings, and an empty one as the last."""

    def __init__(self, profile: PortableProfile) -> None:
        self._frames, self._offsets = profile.chain_frames, profile.offsets

    def chains(self) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return all frame ids, and the offset of each chain, with one more entry than chains."""
        return self._frames, np.append(self._offsets, self._offsets[-1])


def describe_builds(profile: PortableProfile, layout: Layout) -> str:
    """Return a note on files with several builds whose functions share rows; "" if rows separate them, or there are none."""
    if layout.has("build_id") or not any(key.of_location for key in layout.keys):
        return ""
    builds: dict[str, set[str]] = {}
    for file in profile.dsos:
        builds.setdefault(file.short_name, set()).add(file.build_id)
    names = [f"{name} ({len(build_ids)})" for name, build_ids in builds.items() if len(build_ids) > 1]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"rows combine several builds of these files: {', '.join(names[:_SHOWN])}{more}; -s +build_id separates them" * bool(names)


_SHOWN: Final = 5


# Resolve addresses of a merged profile that the machines of the recordings could not, with files of the same build-id on this machine.


#: kinds of files that are equal on all machines if their build-ids are
_FILES = (DsoKind.FILE, DsoKind.VDSO)


def add_local_symbols(profile: PortableProfile, options: SymbolOptions) -> PortableProfile:
    """Return the profile with symbols of this machine's files for frames without symbols."""
    frames = profile.frames
    unresolved = np.flatnonzero((frames["symbol"] < 0) & (frames["dso"] >= 0))
    loader = loader_of(profile.dsos, options)
    symbols, origins = _Symbols(profile), list(profile.origins)
    symbol = frames["symbol"].copy()
    offset = frames["symbol_offset"].copy()
    for dso in distinct(frames["dso"][unresolved]).tolist():
        file = profile.dsos[dso]
        if not file.build_id or file.kind not in _FILES:
            continue
        rows = unresolved[frames["dso"][unresolved] == dso]
        table = loader.table(dso)
        if not len(table):
            continue
        origins[dso] = loader.origin(dso)
        row = table.find(frames["address"][rows])
        hit = rows[row >= 0]
        symbol[hit] = symbols.numbers(table, dso, row[row >= 0])
        offset[hit] = frames["address"][hit] - table.symbols.start[row[row >= 0]]
    lines = profile.lines and profile.lines._replace(begins=profile.lines.begins + [(-1, 0)] * len(symbols.new))
    columns = {**frames, "symbol": symbol, "symbol_offset": offset}
    return profile._replace(frames=columns, symbols=symbols.columns(), origins=origins, lines=lines)


class _Symbols:
    """The symbols of a profile, extended by new ones; a symbol with the file and name of an existing one is that one."""

    def __init__(self, profile: PortableProfile) -> None:
        self._columns, self._by_function = profile.symbols, profile.by_function
        self._files = [(file.short_name, file.kind) for file in profile.dsos]
        self._first = {file: number for number, file in reversed(list(enumerate(self._files)))}
        rows = zip(self._columns.dso.tolist(), self._columns.names, self._columns.inlined.tolist(), strict=True)
        self._numbers: dict[tuple[int, str], int] = {}
        for number, (dso, name, inlined) in enumerate(rows):
            if not inlined:
                self._numbers.setdefault((dso, name), number)
        self.new: list[tuple[Any, ...]] = []  # name, and columns as in SymbolColumns

    def numbers(self, table: SymbolTable, dso: int, rows: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the numbers of symbols of a file."""
        dso = self._first[self._files[dso]] if self._by_function else dso
        present, inverse = np.unique(rows, return_inverse=True)
        ids = np.array([self._number(table, dso, row) for row in present.tolist()], np.int32)
        return ids[inverse.ravel()]

    def _number(self, table: SymbolTable, dso: int, row: int) -> int:
        name = table.name(row)
        number = self._numbers.setdefault((dso, name), len(self._columns.names) + len(self.new))
        if number == len(self._columns.names) + len(self.new):
            columns = table.symbols
            self.new.append((name, columns.start[row], columns.end[row], dso, 0, False, False, columns.binding[row]))
        return number

    def columns(self) -> SymbolColumns:
        """Return the columns of all symbols."""
        if not self.new:
            return self._columns
        (old_names, *old_columns), (names, *new) = self._columns, zip(*self.new, strict=True)
        arrays = [np.asarray(old) for old in old_columns]
        joined = (np.concatenate([old, np.array(more, old.dtype)]) for old, more in zip(arrays, new, strict=True))
        return SymbolColumns([*old_names, *names], *joined)
