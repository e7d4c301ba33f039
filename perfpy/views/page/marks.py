"""Marks: moments of threads, beside the samples of a profile: forks, exits, new names, switches, and samples of events that happen.

They come from the recording's side-band and from events whose samples stand for one moment each. The page's scripts (marks.js) get them as
columns, in order of time.
"""

from __future__ import annotations

import base64
import zlib
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.flags import MISC_COMM_EXEC, MISC_SWITCH_OUT, MISC_SWITCH_OUT_PREEMPT, RecordType
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.latencies import run_queue_waits
from perfpy.analysis.lock_waits import BEGIN, LockWaits, read_waits, type_of
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND
from perfpy.analysis.scheduler import SWITCH
from perfpy.analysis.verdict.categories import LIBRARY, OWN, is_packaged
from perfpy.errors import plural
from perfpy.perfdata.tracepoint_rows import tracepoints_of
from perfpy.untrusted.page import Base64
from perfpy.views.readable import at_a_glance
from perfpy.views.verdict.sentence import function_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.stacks import Stacks, TimedSamples
    from perfpy.analysis.verdict.phases import Phase
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.recorded import Recorded
    from perfpy.views.tracepoints.event_text import PayloadTexts

    Int64 = NDArray[np.int64]


#: above this number, one of several marks is kept
MOST_MARKS: Final = 100_000
_BLOCK: Final = 1 << 16  # samples
_MOST_RECORDS: Final = 200_000  # read of the side-band
_OF_TASKS: Final = (RecordType.FORK, RecordType.EXIT, RecordType.COMM, RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE)
_TYPES: Final = (*_OF_TASKS, RecordType.LOST, RecordType.LOST_SAMPLES)
#: software events that happen at moments, without their modifiers
_MOMENTS: Final = frozenset(
    ("page-faults", "faults", "minor-faults", "major-faults", "alignment-faults", "emulation-faults", "context-switches", "cs",
     "cpu-migrations", "migrations", "cgroup-switches")
)  # fmt: skip


class Mark(NamedTuple):
    """One mark; time in ns."""

    time: int
    pid: int
    tid: int
    kind: str
    text: str


class Marks(NamedTuple):
    """Marks in order of time.

    Attributes:
        rows: the marks that are kept.
        total: the number of all of them.
    """

    rows: list[Mark]
    total: int

    @property
    def notes(self) -> list[str]:
        """Return a note if marks were left out."""
        row_count = len(self.rows)
        return (
            [] if row_count == self.total else [f"the page has {row_count:,} of {self.total:,} {plural(self.total, 'mark')}, evenly chosen"]
        )


def make_marks(source: Recorded, parts: Sequence[Stacks], symbols: SymbolOptions | None = None, *, sampled_only: bool = False) -> Marks:
    """Return the marks of a recording.

    Args:
        source: the recording.
        parts: the stacks of its events.
        symbols: for functions in the data of tracepoints.
        sampled_only: leave out records of threads without samples, and records after the last sample: for parts of a recording.
    """
    words = source.payloads(source.symbolizer(symbols)) if any(part.payloads for part in parts) else None
    records = _of_records(source)
    if sampled_only:
        tasks, last = _sampled(parts)
        records = (mark for mark in records if task_of(mark) in tasks and mark.time <= last)
    rows = [*records, *(mark for part in parts if is_momentary(part) for mark in _of_samples(part, words))]
    rows.sort(key=lambda mark: mark.time)
    total = len(rows) + sum(len(part.timed.time) - MOST_MARKS for part in parts if is_momentary(part) and part.timed is not None
                            and len(part.timed.time) > MOST_MARKS)  # fmt: skip
    return Marks(rows[:: -(-len(rows) // MOST_MARKS)] if len(rows) > MOST_MARKS else rows, total)


def _sampled(parts: Sequence[Stacks]) -> tuple[set[int], int]:
    """Return the tasks with samples, and the time of the last sample."""
    timed = [part.timed for part in parts if part.timed is not None and len(part.timed.time)]
    pairs = (
        (one.pid[begin : begin + _BLOCK], one.tid[begin : begin + _BLOCK]) for one in timed for begin in range(0, len(one.pid), _BLOCK)
    )
    tasks = {task for pid, tid in pairs for task in distinct(pid.astype(np.int64) << 32 | tid.astype(np.int64) & 0xFFFFFFFF).tolist()}
    return tasks, max((int(one.time.max()) for one in timed), default=0)


def is_momentary(part: Stacks) -> bool:
    """Whether samples of an event are moments, and not times."""
    return part.timed is not None and (part.tracepoint or part.event.partition(":")[0] in _MOMENTS)


def mark_data(marks: Marks, begin: int, tick: int, number_of: dict[int, int]) -> dict[str, Any]:
    """Return the values for the page; marks before the first sample are left out.

    Args:
        marks: the marks.
        begin: the time of the first sample, ns.
        tick: ns.
        number_of: the number of each task, pid << 32 | tid.
    """
    rows = [mark for mark in marks.rows if mark.time >= begin]
    kinds, texts = _NumberedTexts(), _NumberedTexts()
    columns = {
        "time": packed(np.array([(mark.time - begin) // tick for mark in rows], np.int64), ascending=True),
        "thread": packed(np.array([number_of[task_of(mark)] for mark in rows], np.int64)),
        "kind": packed(np.array([kinds.of(mark.kind) for mark in rows], np.int64)),
        "text": packed(np.array([texts.of(mark.text) for mark in rows], np.int64)),
    }
    return {"kinds": kinds.values, "texts": texts.values, "rows": columns}


def task_of(mark: Mark) -> int:
    """Return the task of a mark as pid << 32 | tid in 64 bits with a sign, as the tasks of samples are; a damaged pid may have 32 bits."""
    task = (mark.pid & 0xFFFFFFFF) << 32 | mark.tid & 0xFFFFFFFF
    return task - (1 << 64) if task >> 63 else task


class _NumberedTexts:
    """Texts, numbered as they come."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self._number_of.setdefault(text, len(self._number_of))

    @property
    def values(self) -> list[str]:
        return list(self._number_of)


def _of_records(source: Recorded) -> Iterator[Mark]:
    """Yield a mark for each record of a task's life; synthesized records have no time."""
    for side in islice(source.side_band(_TYPES), _MOST_RECORDS):
        record, sample = side.record, side.record.sample_id
        time = getattr(record, "time", 0) or (sample.time if sample is not None and sample.time else 0)
        if not time:
            continue
        kind = type(record).__name__
        if kind == "Fork":
            yield Mark(
                time,
                record.ppid,
                record.ptid,
                *(("fork", f"process {record.pid}") if record.pid != record.ppid else ("thread", str(record.tid))),
            )
        elif kind == "Exit":
            yield Mark(time, record.pid, record.tid, "exit", "")
        elif kind == "Comm":
            yield Mark(time, record.pid, record.tid, "exec" if record.misc & MISC_COMM_EXEC else "name", record.comm)
        elif sample is not None and sample.tid is not None:
            kind, text = ("lost", f"{record.lost:,}") if kind.startswith("Lost") else ("switch", _direction(record.misc))
            yield Mark(time, sample.pid or 0, sample.tid, kind, text)


def _direction(misc: int) -> str:
    if not misc & MISC_SWITCH_OUT:
        return "in"
    return "out, preempted" if misc & MISC_SWITCH_OUT_PREEMPT else "out"


def _of_samples(part: Stacks, words: PayloadTexts | None) -> Iterator[Mark]:
    """Yield a mark for each sample, at most MOST_MARKS, evenly chosen."""
    timed = part.timed
    assert timed is not None
    rows = np.arange(0, len(timed.time), -(-len(timed.time) // MOST_MARKS) or 1)
    texts = _texts(part, timed, rows, words)
    columns = (timed.time[rows].tolist(), timed.pid[rows].tolist(), timed.tid[rows].tolist())
    yield from (Mark(time, pid, tid, part.event, text) for time, pid, tid, text in zip(*columns, texts, strict=True))


def _texts(part: Stacks, timed: TimedSamples, rows: NDArray[np.int64], words: PayloadTexts | None) -> Iterable[str]:
    """Return the text of each sample: a tracepoint's data, or the innermost function."""
    if words is not None and part.tracepoint and timed.payload is not None:
        numbers, which = np.unique(timed.payload[rows], return_inverse=True)
        texts = words.texts([part.payloads[number] for number in numbers.tolist()])
        return [texts[number] for number in which.ravel().tolist()]
    lengths = np.diff(part.offsets)
    names = [at_a_glance(function.name) for function in part.functions]
    return [names[part.frames[part.offsets[chain]]] if lengths[chain] else "" for chain in timed.chain[rows].tolist()]


class PagePhase(NamedTuple):
    """A time in which the program mostly runs one function; begin and end in ns, share of the samples."""

    text: str
    begin: int
    end: int
    share: float

    @classmethod
    def of(cls, phase: Phase, first: int) -> PagePhase:
        """Return a phase of the verdict. first: the time of the first sample, ns."""
        begin, end = (first + round(time * NANOSECONDS_A_SECOND) for time in (phase.begin, phase.end))
        return cls(function_text(phase.function), begin, end, phase.share)

    def values(self, begin: int, tick: int) -> list[Any]:
        """Return the values for the page. begin, tick: the time of the first sample and the unit of times, ns."""
        return [self.text, *(max(time - begin, 0) // tick for time in (self.begin, self.end)), round(self.share, 4)]


# Lanes of waits on the time line: how many threads wait for a CPU, and for the locks that each thread holds.
#
# They need the tracepoints of the scheduler and of locks. Each lane has the times of its waits; the page's scripts (wait_lanes.js) count
# how
# many of them there are at each moment.


RUN_QUEUE: Final = "cpu"
LOCK: Final = "lock"
_MOST_HOLDERS: Final = 3  # the holders that others wait for longest; the rest share a lane
_MOST_WAITS: Final = 50_000  # in a lane: the longest
_LONGEST_NAME: Final = 64


class WaitLane(NamedTuple):
    """The waits in one lane.

    Attributes:
        kind: RUN_QUEUE or LOCK.
        name: of the lane, with a recorded text.
        about: the locks, "" for none.
        begin, end: int64[n], nanoseconds, in order of begin.
        total: nanoseconds of all waits.
        number: of all waits.
    """

    kind: str
    name: str
    about: str
    begin: Int64
    end: Int64
    total: int
    number: int


def make_wait_lanes(source: SampleSource) -> list[WaitLane]:
    """Return the lanes of a recording; [] without tracepoints of switches or locks."""
    present = tracepoints_of(source)
    lanes = []
    if SWITCH in present:
        lanes += _lane(RUN_QUEUE, "run queue", "", *run_queue_waits(source))
    if BEGIN in present:
        names = {side.record.tid: side.record.comm for side in source.side_band({RecordType.COMM})}
        lanes += _lanes_of_holders(read_waits(source, owners=True), names)
    return lanes


def _lanes_of_holders(waits: LockWaits, names: dict[int, str]) -> list[WaitLane]:
    """Return a lane for each thread that held locks for which others waited, and one for the rest."""
    assert waits.owner is not None
    ended = np.flatnonzero(waits.duration >= 0)
    owner, begin, duration = waits.owner[ended], waits.begin[ended], waits.duration[ended]
    holders, which = np.unique(owner[owner > 0], return_inverse=True)
    totals = np.bincount(which.ravel(), duration[owner > 0]) if len(holders) else np.zeros(0)
    chosen = holders[np.argsort(-totals, kind="stable")][:_MOST_HOLDERS].tolist()
    lanes = []
    for holder in (*chosen, None):
        rows = np.flatnonzero(owner == holder if holder is not None else ~np.isin(owner, chosen))
        title = f"{names.get(holder, '?')[:_LONGEST_NAME]} {holder}: locks" if holder is not None else "other locks"
        kinds = sorted({type_of(flags) for flags in np.unique(waits.flags[ended][rows]).tolist()})
        lanes += _lane(LOCK, title, ", ".join(kinds), begin[rows], begin[rows] + duration[rows])
    return lanes


def _lane(kind: str, name: str, about: str, begin: Int64, end: Int64) -> list[WaitLane]:
    """Return the lane of waits, with the longest ones if they are too many; [] without waits."""
    length = end - begin
    if not len(length):
        return []
    kept = np.argpartition(-length, _MOST_WAITS)[:_MOST_WAITS] if len(length) > _MOST_WAITS else np.arange(len(length))
    kept = kept[np.argsort(begin[kept], kind="stable")]
    return [WaitLane(kind, name, about, begin[kept], end[kept], int(length.sum()), len(length))]


def wait_lane_data(lanes: Sequence[WaitLane], begin: int, tick: int) -> list[dict[str, Any]]:
    """Return the values for the page. begin, tick: the time of the first sample and the unit of times, ns."""
    values = []
    for lane in lanes:
        first = np.maximum(lane.begin - begin, 0) // tick
        last = np.maximum(lane.end - begin, 0) // tick
        order = np.argsort(first, kind="stable")
        rows = {"begin": packed(first[order], ascending=True), "length": packed((last - first)[order])}
        values.append({"kind": lane.kind, "name": lane.name, "about": lane.about, "total": lane.total, "number": lane.number, "rows": rows})
    return values


# Who waited for whom: the turns of threads, and the thread that ended each wait. The page's scripts (wait_chains.js) follow the wakers.


_MOST_TURNS: Final = 50_000  # the longest


class WaitChains(NamedTuple):
    """What threads do, and which threads end their waits.

    Attributes:
        main: the thread whose time is explained.
        threads: (tid, name) of each, those that are explained first.
        explained: the number of those.
        texts: what a thread does in a turn: "waits for a lock in save()".
        stacks: functions of callchains, the innermost first.
        thread: int64[n], of each turn, an index of `threads`; turns are sorted by thread and time.
        begin, end: int64[n], nanoseconds.
        state: int64[n], see perfpy.scheduling.segments.
        text: int64[n], an index of `texts`.
        waker: int64[n], an index of `threads`; -1: unknown.
        stack, waker_stack: int64[n], indexes of `stacks`; -1: none.
    """

    main: int
    threads: Sequence[tuple[int, str]]
    explained: int
    texts: Sequence[str]
    stacks: Sequence[Sequence[str]]
    thread: Int64
    begin: Int64
    end: Int64
    state: Int64
    text: Int64
    waker: Int64
    stack: Int64
    waker_stack: Int64


def wait_chain_data(chains: WaitChains, begin: int, tick: int) -> dict[str, Any]:
    """Return the values for the page. begin, tick: the time of the first sample and the unit of times, ns."""
    length = chains.end - chains.begin
    kept = np.arange(len(length))
    if len(length) > _MOST_TURNS:
        kept = np.sort(np.argpartition(length, -_MOST_TURNS)[-_MOST_TURNS:])
    first, last = ((np.maximum(column[kept] - begin, 0) // tick) for column in (chains.begin, chains.end))
    kept, first, last = kept[last > first], first[last > first], last[last > first]
    columns = {name: getattr(chains, name)[kept] for name in ("thread", "state", "text")}
    columns |= {name: getattr(chains, name)[kept] + 1 for name in ("waker", "stack", "waker_stack")}
    shown = np.unique(np.concatenate([columns["stack"], columns["waker_stack"]]))  # stacks of turns that are left out have no number
    numbers = np.zeros(len(chains.stacks) + 1, np.int64)
    numbers[shown[shown > 0]] = np.arange(1, int((shown > 0).sum()) + 1)
    columns |= {name: numbers[columns[name]] for name in ("stack", "waker_stack")}
    rows = {name: packed(column) for name, column in columns.items()} | {"begin": packed(first), "length": packed(last - first)}
    stacks = [list(chains.stacks[number - 1]) for number in shown.tolist() if number]
    python = sorted({name for stack in stacks for name in stack if name.startswith(PYTHON_MARK) and name.count(":") >= 3})
    return {
        "main": chains.main,
        "threads": [list(thread) for thread in chains.threads],
        "explained": chains.explained,
        "texts": list(chains.texts),
        "stacks": stacks,
        "python": {name: [at_a_glance(name), LIBRARY if is_packaged(name.split(":", 3)[3]) else OWN] for name in python},
        "total": len(length),
        "rows": rows,
    }


# Columns of numbers as compressed base64, which unpack.js turns into typed arrays again.
#
# A column of equal numbers is {n, all}. Others are {n, bytes, z}: `bytes` planes, one for each byte of the numbers, the lowest first,
# because planes compress better than whole numbers. With `delta` the numbers are differences to those before. 8 bytes are doubles.
# With `grouped` the rows come group by group, for example by stack, and in their order within each group.


_WIDEST: Final = 1 << 32
_EFFORT: Final = 6
_PIECES: Final = 8
_PIECE: Final = 1 << 12  # bytes
_FEWEST_RANKED: Final = 1 << 12  # rows of a column
_SPREAD: Final = 8  # rows for each distinct number, and numbers for each row
_TRIAL: Final = 1 << 14  # rows


def packed(values: NDArray[Any], *, ascending: bool = False) -> dict[str, Any]:
    """Pack a column of nonnegative numbers; ascending: few numbers are less than the one before them.

    Columns of few distinct numbers may become their ranks by frequency, `of` a table: the upper bytes of ranks are nearly always 0.
    """
    rows = len(values)
    if not rows or (values == values[0]).all():
        return {"n": rows, "all": values[0].item() if rows else 0}
    if values.dtype.kind == "f" or int(values.max()) >= _WIDEST:
        return {"n": rows, "bytes": 8, "z": _deflated(values.astype("<f8").tobytes())}
    if not ascending and (table := _by_frequency(values)) is not None:
        ranks = np.empty(int(values.max()) + 1, np.uint32)
        ranks[table] = np.arange(len(table), dtype=np.uint32)
        return {**packed(ranks[values]), "of": packed(table, ascending=True)}
    numbers = _differences(values) if ascending else values.astype("<u4")
    width = max(1, (int(numbers.max()).bit_length() + 7) // 8)
    planes = numbers.view(np.uint8).reshape(rows, 4)[:, :width].T
    column = {
        "n": rows,
        "bytes": width,
        "z": [_deflated(plane.tobytes()) for plane in planes] if width > 1 else _deflated(planes.tobytes()),
    }
    return {**column, "delta": 1} if ascending else column


class RowGroups:
    """Groups of rows, such as those of one stack, in which a column may take less room than in order of the rows."""

    def __init__(self, groups: NDArray[Any]) -> None:
        """Group rows. groups: the number of each row's group, below 1 << 32."""
        self._groups = groups
        part = slice(max(0, (len(groups) - _TRIAL) // 2), (len(groups) + _TRIAL) // 2)
        self._part, self._order_of_part = part, _grouped_rows(groups[part])

    def packed(self, values: NDArray[Any]) -> dict[str, Any]:
        """Pack a column of nonnegative numbers in the order in which a part of it takes less room."""
        part = values[self._part]
        if _room(packed(part)) <= _room(packed(part[self._order_of_part])):
            return packed(values)
        return {**packed(values[self._order]), "grouped": 1}

    @cached_property
    def _order(self) -> NDArray[np.int32]:
        return _grouped_rows(self._groups)


def _grouped_rows(groups: NDArray[Any]) -> NDArray[np.int32]:
    """Return the rows by group, ascending within each: two passes over halves of the numbers, which NumPy sorts by their digits."""
    order = np.argsort(groups.astype(np.uint16), kind="stable").astype(np.int32)
    if len(groups) and int(groups.max()) >= 1 << 16:
        order = order[np.argsort((groups >> 16).astype(np.uint16)[order], kind="stable")]
    return order


def _room(column: dict[str, Any]) -> int:
    """Return how many characters a packed column has, but for the table of ranks."""
    planes = column.get("z", "")
    return len(planes) if isinstance(planes, str) else sum(map(len, planes))


def _by_frequency(values: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the distinct numbers, the most frequent first; None if ranks would save no room, as where numbers are ranks already.

    Numbers whose frequencies differ by less than a factor of two are in ascending order, because the table then takes less room.
    """
    highest = int(values.max())
    if len(values) < _FEWEST_RANKED or highest < 256 or highest > _SPREAD * len(values):
        return None
    counts = np.bincount(values)
    table = np.flatnonzero(counts)
    if len(table) * _SPREAD > len(values):
        return None
    table = table[np.argsort(-np.frexp(counts[table])[1], kind="stable")]
    ranked, plain = (_bits(numbers, counts[table]) for numbers in (np.arange(len(table)), table))
    return table if ranked < 0.95 * plain else None


def _bits(numbers: NDArray[np.int64], counts: NDArray[np.int64]) -> float:
    """Return the entropy, in bits, of the bytes of all numbers. counts: how often each number occurs."""
    bits = 0.0
    for shift in range(0, int(numbers.max()).bit_length(), 8):
        by_byte = np.bincount(numbers >> shift & 0xFF, weights=counts)
        shares = by_byte[by_byte > 0] / counts.sum()
        bits -= float((by_byte[by_byte > 0] * np.log2(shares)).sum())
    return bits


def _differences(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the differences of numbers below 1 << 32 to those before, without columns of 64 bits."""
    differences = np.empty(len(values), "<u4")
    differences[0] = values[0]
    np.subtract(values[1:], values[:-1], out=differences[1:], casting="unsafe")
    return differences


def _deflated(data: bytes) -> Base64:
    packer = zlib.compressobj(_EFFORT, memLevel=9, strategy=_strategy(data))
    return Base64(base64.b64encode(packer.compress(data) + packer.flush()).decode("ascii"))


def _strategy(data: bytes) -> int:
    """Return how to compress bytes, by pieces of long ones: samples of many threads in turns have no repetitions worth a search."""
    if len(data) < _PIECES * _PIECE * 2:
        return zlib.Z_DEFAULT_STRATEGY
    pieces = [data[begin : begin + _PIECE] for begin in range(0, len(data) - _PIECE, len(data) // _PIECES)]
    sizes = {}
    for strategy in (zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_DEFAULT_STRATEGY):  # of equal sizes the quicker one
        packers = [zlib.compressobj(_EFFORT, strategy=strategy) for _ in pieces]
        sizes[strategy] = sum(len(packer.compress(piece) + packer.flush()) for packer, piece in zip(packers, pieces, strict=True))
    return min(sizes, key=lambda strategy: sizes[strategy])
