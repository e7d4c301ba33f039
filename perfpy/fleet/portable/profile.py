"""The profile of a recording in terms that hold on all machines: names of events, files and functions, not numbers and addresses.

A PortableProfile can be sent (perfpy.fleet.transfer) and merged with others (perfpy.fleet.merging). Its size
grows with the distinct values among the samples, not with their number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.abi.flags import PerfType
from perfpy.analysis.samples.dimensions import DIMENSIONS
from perfpy.fleet.portable.lines import line_columns
from perfpy.fleet.portable.own_values import replace_numbers
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.known_frames import SymbolColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.profile import Folded, FoldedSamples
    from perfpy.analysis.sortkeys.key_texts import RecordingText
    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.fleet.portable.own_values import OwnWords
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.tracepoints.event_format import EventFormat
    from perfpy.symbols.frame_table import LineColumns
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.unwind.truncated_stacks import TruncatedStacks

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
        values: the values that a dimension's numbers index (perfpy.fleet.portable.own_values).
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
    folded = profile.folded
    chains, lengths = _chains(profile, symbolizer)
    used = _used_frames(folded, chains, len(symbolizer.frames))
    number_of = np.cumsum(used, dtype=np.int32) - np.int32(1)
    symbols = _resolve_names(symbolizer, used, infos, sites=sites)
    dimensions = {name: number_of[v] if _is_of_frames(name) else v for name, v in folded.dimensions.items()}
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
    dsos, origins = [_portable_dso(symbolizer.dsos[number]) for number in hit], [symbolizer.origin(number) for number in hit]
    return _ResolvedFrames(frames, _symbols(symbolizer, numbers, hit), dsos, origins, lines)


def _portable_dso(dso: Dso) -> Dso:
    """Return a file as all recordings have it: code of runtimes is one file, whichever process made it."""
    return Dso("[JIT]", DsoKind.JIT) if dso.made_code else dso


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
        if _is_of_frames(name):
            used[values] = True
    return used


def _is_of_frames(name: str) -> bool:
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
