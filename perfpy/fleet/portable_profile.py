"""The profile of a recording in terms that hold on all machines: names of events, files and functions, not numbers and addresses.

A PortableProfile can be sent (perfpy.fleet.transfer) and merged with others (perfpy.fleet.merging). Its size
grows with the distinct values among the samples, not with their number.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import PerfType
from perfpy.analysis.dimensions import DIMENSIONS
from perfpy.analysis.event_sort_keys import field_keys
from perfpy.analysis.locations import Locations
from perfpy.analysis.report.entries import with_inlined_leaves
from perfpy.analysis.sort_key import KeyColumn, KeyStyle, KeyTexts, MachineTexts, TaskComms, TraceData
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.known_frames import SymbolColumns
from perfpy.symbols.symbolizer import LineColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples
    from perfpy.analysis.locations import Int64
    from perfpy.analysis.report.options import Finder, Layout
    from perfpy.analysis.sort_key import RecordingText, SortKey
    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.perfdata.event_format import EventFormat, Tracing
    from perfpy.perfdata.events import FileEvent
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.symbols.symbolizer import Symbolizer


#: the columns of frames
FRAME_COLUMNS = ("ip", "level", "dso", "address", "symbol", "symbol_offset", "map_start", "map_end")
#: types of events whose config means the same on every machine
_SAME_EVERYWHERE = (PerfType.HARDWARE, PerfType.SOFTWARE, PerfType.HW_CACHE, PerfType.RAW)


class RecordingProblem(NamedTuple):
    """A recording that could not be read, at least in part, and the reason."""

    path: str
    reason: str

    @classmethod
    def of(cls, path: str, error: Exception) -> RecordingProblem:
        """Return the reason why a recording could not be read, without repeating its path."""
        return cls(path, str(error).removeprefix(f"{path}: ").removeprefix(f"{path}, "))


class PortableProfile(NamedTuple):
    """The folded samples of one recording or of several.

    Attributes:
        recordings: the recordings.
        events: by number.
        event_keys: of each event; equal for events of the same meaning.
        dsos: files by number.
        origins: of each file, the letter of its source of symbols.
        frames, symbols: columns.
        chain_frames, chain_lengths: the distinct callchains.
        comms: by number.
        last_comms: tid -> last comm.
        folded: the rows; chain is -1 without callchain.
        values: the values that a dimension's numbers index (perfpy.fleet.portable_profile).
        formats: of each event, None if it is no tracepoint.
        lines: source lines, if requested.
        lost, dropped: records.
        truncated: truncated stacks.
        by_function: whether addresses within a function are ignored.
        listed: files of the recordings' build-id tables.
        warnings: skipped parts of recordings.
    """

    recordings: list[RecordingText]
    events: list[FileEvent]
    event_keys: list[tuple[object, ...]]
    dsos: list[Dso]
    origins: list[str]
    frames: dict[str, NDArray[Any]]
    symbols: SymbolColumns
    chain_frames: NDArray[np.int32]
    chain_lengths: NDArray[np.int64]
    comms: list[str]
    last_comms: dict[int, str]
    folded: Folded
    values: dict[str, list[Any]]
    formats: list[EventFormat | None]
    lines: LineColumns | None
    lost: int
    dropped: int
    truncated: list[TruncatedStacks]
    by_function: bool
    listed: list[str]
    warnings: list[RecordingProblem]

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The offset of each chain, and the end of the last one."""
        return np.concatenate([[0], np.cumsum(self.chain_lengths)]).astype(np.int64)


def event_keys(events: list[FileEvent]) -> list[tuple[object, ...]]:
    """Return a key for each event, equal for events of the same meaning: the counted event and its modes, not its precision.

    The second event of one meaning in a recording gets another key than the first.
    """
    keys = [_meaning(event) for event in events]
    return [(*key, keys[:number].count(key)) for number, key in enumerate(keys)]


def _meaning(event: FileEvent) -> tuple[object, ...]:
    attr = event.attr
    modes = attr.exclude_user, attr.exclude_kernel, attr.exclude_hv, attr.exclude_guest, attr.exclude_host
    if attr.type in _SAME_EVERYWHERE:
        return "number", int(attr.type), attr.config, *modes
    return "name", event.name.partition(":p")[0], *modes


def portable(
    recording: RecordingText,
    events: list[FileEvent],
    profile: FoldedSamples,
    symbolizer: Symbolizer,
    timeline: TaskTimeline,
    words: OwnWords,
    *,
    by_function: bool,
    infos: DebugInfos | None = None,
    sites: bool = False,
) -> PortableProfile:
    """Return the portable profile of a recording.

    words: the interpretation of the recording's own numbers; infos: the source of lines, if requested;
    sites: include lines of callers and of functions' first instructions.
    """
    chains, lengths = _chains(profile, symbolizer)
    drawn = None if profile.chains is None else (chains, np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))
    folded = with_inlined_leaves(profile.folded, drawn, symbolizer, callers_first=False)
    used = _used_frames(folded, chains, len(symbolizer.frames))
    number_of = np.cumsum(used, dtype=np.int32) - np.int32(1)
    symbols = _resolve_names(symbolizer, used, infos, sites=sites)
    dimensions = {name: number_of[v] if is_of_frames(name) else v for name, v in folded.dimensions.items()}
    dimensions, values = replace_numbers(dimensions, words)
    return PortableProfile(
        *([recording], events, event_keys(events)),
        symbols.dsos,
        symbols.origins,
        symbols.frames,
        symbols.symbols,
        number_of[chains],
        lengths,
        list(timeline.comms),
        {tid: timeline.last_comm(tid) for tid in dict.fromkeys(folded.tid.tolist())},
        folded.with_dimensions(dimensions),
        *(values, list(words.formats), symbols.lines),
        *(0, 0, []),
        by_function,
        *([], []),
    )


class _ResolvedFrames(NamedTuple):
    """Resolved frames, with their symbols and files."""

    frames: dict[str, NDArray[Any]]
    symbols: SymbolColumns
    dsos: list[Dso]
    origins: list[str]
    lines: LineColumns | None


def _resolve_names(symbolizer: Symbolizer, used: NDArray[np.bool_], infos: DebugInfos | None, *, sites: bool) -> _ResolvedFrames:
    table = symbolizer.resolve()
    frames = {name: getattr(table, name)[used] for name in FRAME_COLUMNS}
    numbers, frames["symbol"] = _number_symbols(frames["symbol"], len(symbolizer.symbols))
    hit, frames["dso"] = _number_symbols(frames["dso"], len(symbolizer.dsos))
    lines = line_columns(infos, symbolizer, np.flatnonzero(used), numbers, whole=sites) if infos is not None else None
    # Code of runtimes is one file, whichever process made it.
    dsos = [Dso("[JIT]", DsoKind.JIT) if symbolizer.dsos[number].made_code else symbolizer.dsos[number] for number in hit]
    origins = [symbolizer.origin(number) for number in hit]
    return _ResolvedFrames(frames, _symbols(symbolizer, numbers, hit), dsos, origins, lines)


def _chains(profile: FoldedSamples, symbolizer: Symbolizer) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the distinct chains with inlined calls, resolved where the files are."""
    if profile.chains is None:
        return np.zeros(0, np.int32), np.zeros(0, np.int64)
    frames, offsets = profile.chains.chains()
    return symbolizer.expand(frames, np.diff(offsets))


def _used_frames(folded: Folded, chains: NDArray[np.int32], size: int) -> NDArray[np.bool_]:
    used = np.zeros(size, np.bool_)
    used[chains] = True
    for name, values in folded.dimensions.items():
        if is_of_frames(name):
            used[values] = True
    return used


def is_of_frames(name: str) -> bool:
    """Whether the numbers of a dimension are frames."""
    return name != "raw" and DIMENSIONS[name].table == "frame"


def _number_symbols(symbol: NDArray[np.int32], count: int) -> tuple[list[int], NDArray[np.int32]]:
    """Return the symbols, or dsos, of frames, and each frame's index among these."""
    used = np.zeros(count + 1, np.bool_)
    used[symbol] = True
    used[-1] = False  # -1: none
    numbers = np.flatnonzero(used).tolist()
    number_of = np.full(len(used), -1, np.int32)
    number_of[numbers] = np.arange(len(numbers))
    return numbers, number_of[symbol]


def _symbols(symbolizer: Symbolizer, numbers: list[int], hit: list[int]) -> SymbolColumns:
    """Return columns of symbols. hit: the dsos of the symbols."""
    number_of = {dso: number for number, dso in enumerate(hit)}
    symbols = symbolizer.symbols
    names = [symbols.name(number) for number in numbers]
    start, end = (np.array([bound(number) for number in numbers], np.uint64) for bound in (symbols.start, symbols.end))
    dso = np.array([number_of[symbols.dso(number)] for number in numbers], np.int32)
    inlined = np.array([symbols.is_inlined(number) for number in numbers], np.bool_)
    is_data = np.array([symbols.is_data(number) for number in numbers], np.bool_)
    binding = np.array([symbols.binding(number) for number in numbers], np.uint8)
    once = inlined | np.array([bool(symbolizer.dsos[number].made_code) for number in hit] + [False], np.bool_)[dso]
    return SymbolColumns(names, start, end, dso, _twins(names, start, dso, once), is_data, inlined, binding)


def _twins(names: list[str], start: NDArray[np.uint64], dso: NDArray[np.int32], once: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Number symbols of one name in a file: 0 for the first, 1 for the next; a file may have several static functions of one name.

    once: symbols that are one wherever they are: inlined calls, and code that runtimes made again.
    """
    numbers: dict[tuple[str, int], int] = {}
    twins = np.zeros(len(names), np.int32)
    for number in np.argsort(start, kind="stable").tolist():
        if not once[number]:
            key = names[number], int(dso[number])
            twins[number] = numbers[key] = numbers.get(key, -1) + 1
    return twins


# Source lines of frames, from debug information where the files are, by path and line so that they compare across machines.


def line_columns(
    infos: DebugInfos, symbolizer: Symbolizer, frames: NDArray[np.int64], symbols: Sequence[int], *, whole: bool
) -> LineColumns:
    """Return the lines of some frames and symbols; whole: also of frames as callers, and of functions' first instructions."""
    own = infos.code_lines(frames)
    callers = infos.code_lines(frames, np.ones(len(frames), np.uint64)) if whole else own
    begins = infos.begins(symbols) if whole else {}
    numbers: dict[str, int] = {path: number for number, path in enumerate(infos.paths)}
    positions = [(numbers.setdefault(path, len(numbers)), line) for path, line in (begins.get(symbol, ("", 0)) for symbol in symbols)]
    begins_of_symbols = [(-1, 0) if symbol not in begins else one for symbol, one in zip(symbols, positions, strict=True)]
    files = [file.kind is not DsoKind.MODULE and infos.of(number) is not None for number, file in enumerate(symbolizer.dsos)]
    linked = np.array([*files, False], np.bool_)[symbolizer.frames.dso[frames]]
    small = [column.astype(np.int32) for column in (own.file, own.line, callers.file, callers.line)]
    return LineColumns(list(numbers), begins_of_symbols, own.address, linked, *small)


class MergedLines:
    """A merge of the columns of several parts."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._begins: list[tuple[int, int]] = []
        self._parts: list[LineColumns] = []

    def with_merged_paths(self, lines: LineColumns) -> LineColumns:
        """Return the columns of a part with merged path numbers."""
        number = np.array([self._numbers.setdefault(path, len(self._numbers)) for path in lines.paths] + [-1], np.int32)
        return lines._replace(
            file=number[lines.file],
            caller_file=number[lines.caller_file],
            begins=[(int(number[file]), line) for file, line in lines.begins],
        )

    def add_frames(self, lines: LineColumns, new: NDArray[Any]) -> None:
        """Add the lines of new frames."""
        self._parts.append(lines.take(new))

    def add_symbols(self, lines: LineColumns, new: Sequence[int]) -> None:
        """Add the lines of new symbols."""
        self._begins += [lines.begins[index] for index in new]

    def result(self) -> LineColumns | None:
        """Return the merged columns; None if nothing was added."""
        if not self._parts:
            return None
        columns = (np.concatenate(parts) for parts in zip(*(one[2:] for one in self._parts), strict=True))
        return LineColumns(list(self._numbers), self._begins, *columns)


def identity_columns(lines: LineColumns | None) -> list[NDArray[Any]]:
    """Return the columns that separate frames of one address: the line, and the line that calls an inlined function."""
    return [] if lines is None else [lines.file + 1, lines.line, lines.caller_line]


# Replace numbers that only one recording can interpret (tasks, cgroups, tracepoint data) by values that compare across recordings.
#
# Folded samples get dimensions that index lists of values; MergedValues maps those of merged profiles to texts for reports.


#: dimensions with thread or process ids
_TASKS: Final = ("tid", "pid")
#: shift of the ordinal that separates tasks with one id in different recordings
_NUMBER_BITS: Final = 32


class OwnWords(NamedTuple):
    """The interpretation of a recording's numbers.

    Attributes:
        last_comm: of threads.
        machine: names of cgroups and sockets.
        formats: of each event, None if it is no tracepoint.
        payloads: the distinct tracepoint data, as texts.
    """

    last_comm: Callable[[int], str]
    machine: MachineTexts
    formats: Sequence[EventFormat | None]
    payloads: Sequence[Hashable] = ()


class ValuedDimensions(NamedTuple):
    """Dimensions that compare across recordings.

    Attributes:
        dimensions: columns of numbers.
        values: for some of the dimensions, the values that their numbers index.
    """

    dimensions: dict[str, NDArray[Any]]
    values: dict[str, list[Any]]


def replace_numbers(dimensions: dict[str, NDArray[Any]], words: OwnWords) -> ValuedDimensions:
    """Replace the recording's own numbers by indexes of values."""
    indexed, values = dict(dimensions), {}
    for name, numbers in dimensions.items():
        if name == "socket":
            present, inverse = np.unique(numbers, return_inverse=True)
            indexed[name] = np.array([words.machine.socket_of(number) for number in present.tolist()], np.int64)[inverse.ravel()]
        elif name in _TASKS:
            indexed[name], values[name] = _number_values(numbers, lambda tid: (tid, words.last_comm(tid)))
        elif name == "cgroup":
            indexed[name], values[name] = _number_values(numbers, lambda number: number and (words.machine.cgroup_name(number) or ""))
        elif name == "cgroup_id":
            indexed[name], values[name] = _number_values(numbers, lambda number: words.machine.cgroup_namespaces[number])
        elif name == "raw":
            values[name] = list(words.payloads)
    return ValuedDimensions(indexed, values)


def _number_values(numbers: NDArray[Any], value_of: Callable[[int], Hashable]) -> tuple[NDArray[np.int32], list[Hashable]]:
    """Return indexes of distinct values, in order of the numbers, and the values."""
    present, inverse = np.unique(numbers, return_inverse=True)
    values: dict[Hashable, int] = {}
    number_of = np.array([values.setdefault(value_of(number), len(values)) for number in present.tolist()], np.int32)
    return number_of[inverse.ravel()], list(values)


class MergedValues:
    """Texts of merged values; dimensions: with numbers for sort keys."""

    def __init__(self, dimensions: dict[str, NDArray[Any]], values: dict[str, list[Any]], recordings: Sequence[RecordingText]) -> None:
        self._values = values
        self._comms: dict[int, str] = {}
        self._recordings = recordings
        self.dimensions: dict[str, NDArray[Any]] = {}
        for name in _TASKS:
            if name in values:
                self.dimensions[name] = self._tasks(values[name])[dimensions[name]]
        if "cgroup" in values:  # 0 marks samples without cgroup
            cgroups = np.array([0 if path == 0 else number + 1 for number, path in enumerate(values["cgroup"])], np.int64)
            self.dimensions["cgroup"] = cgroups[dimensions["cgroup"]]

    def _tasks(self, values: list[tuple[int, str]]) -> NDArray[np.int64]:
        """Return a number for each task; later tasks with the same id get larger ones."""
        occurrences: dict[int, int] = {}
        numbers = np.zeros(len(values), np.int64)
        for row, (tid, comm) in enumerate(values):
            occurrence = occurrences[tid] = occurrences.get(tid, -1) + 1
            numbers[row] = number = tid + (occurrence << _NUMBER_BITS)
            self._comms[number] = comm
        return numbers

    def comm_of(self, number: int) -> str | None:
        """Return the last comm of a task, by its number in `dimensions`."""
        return self._comms.get(number)

    @property
    def machine(self) -> MachineTexts:
        """The texts of sockets, cgroups and recordings."""
        paths = self._values.get("cgroup", [])
        return MachineTexts(
            socket_of=lambda number: number,
            cgroup_name=lambda number: paths[number - 1] or None,
            cgroup_namespaces=self._values.get("cgroup_id", []),
            recordings=self._recordings,
        )


# Tracepoint data as texts, because kernels number tracepoints and place fields differently.
#
# Each recording's payloads become the texts that its sort keys show; merged profiles get sort keys that show these texts.


#: the key that shows all of the data
_WHOLE: Final = "trace"
_NUMBER: Final = re.compile("-?[0-9]{1,20}")


class ShownText(NamedTuple):
    """A sort key's text for some data.

    Attributes:
        key: the key's name.
        text: as shown.
        width: that the text needs in its column.
    """

    key: str
    text: str
    width: int


def shown_texts(layout: Layout, data: TraceData, symbolizer: Symbolizer, style: KeyStyle) -> list[tuple[ShownText, ...]]:
    """Return the texts of a report's keys for each payload, without keys of other tracepoints."""
    rows = np.arange(len(data.payloads))
    texts_of_each: list[list[ShownText]] = [[] for _ in data.payloads]
    texts = KeyTexts(Locations(symbolizer), None, TaskComms((), str), data, style=style)
    for key in layout.keys:
        if key.dimension == "raw":
            column = key.column(texts, rows)
            for row in rows.tolist():
                text, width = column.text(row), column.wide(row)
                if text or width:
                    texts_of_each[row].append(ShownText(key.name, text, width))
    return [tuple(texts_of_row) for texts_of_row in texts_of_each]


def formats_of(events: Sequence[FileEvent], tracing: Tracing | None) -> list[EventFormat | None]:
    """Return the format of each event; None if it is no tracepoint."""
    return [tracing.formats.get(event.attr.config) if tracing is not None else None for event in events]


def merged_fields(
    events: Sequence[FileEvent], formats: Sequence[EventFormat | None], texts: Sequence[tuple[ShownText, ...]], *, raw: bool
) -> Finder:
    """Return a finder of sort keys like field_keys(), over texts instead of data."""

    def find_keys(token: str) -> list[SortKey]:
        pairs = zip(events, formats, strict=True)
        keys = [key for event, one in pairs if one for key in field_keys(token, [event], {event.attr.config: one}, raw=raw, endian="<")]
        return [key._replace(column=partial(_column, key.name, texts)) for key in keys]

    return find_keys


def merged_data(texts_of_rows: Sequence[tuple[ShownText, ...]]) -> TraceData:
    """Return the texts of whole payloads."""
    full_texts = [next((one.text for one in texts if one.key == _WHOLE and one.width), None) for texts in texts_of_rows]
    numbers = [b"" if text is None else b"%d" % number for number, text in enumerate(full_texts)]
    return TraceData(numbers, _RowTexts(full_texts))


class _RowTexts:
    """Texts of payloads that are numbers of known texts."""

    def __init__(self, full_texts: Sequence[str | None]) -> None:
        self._full_texts = full_texts

    def texts(self, payloads: Sequence[bytes]) -> list[str]:
        return [self.raw_text(payload) for payload in payloads]

    def raw_text(self, payload: bytes) -> str:
        return self._full_texts[int(payload)] or ""

    def field_text(self, _payload: bytes, _name: str) -> str:
        return ""


def _column(name: str, texts: Sequence[tuple[ShownText, ...]], _texts: KeyTexts, numbers: Int64) -> KeyColumn:
    """Return a key's column of texts; larger numbers come first, as their bytes do in perf's order."""
    nothing = ShownText(name, "", 0)
    fields = [next((one for one in texts[number] if one.key == name), nothing) for number in numbers.tolist()]
    rank = _ranks([one.text for one in fields])
    return KeyColumn(rank, rank, lambda i: fields[i].text, lambda i: fields[i].width)


def _ranks(texts: Sequence[str]) -> Int64:
    numeric = {text: int(text) for text in set(texts) if _NUMBER.fullmatch(text)}
    order = sorted(set(texts), key=lambda text: (text in numeric, numeric.get(text, 0), text), reverse=True)
    rank = {text: number for number, text in enumerate(order)}
    return np.array([rank[text] for text in texts], np.int64)
