"""Stacks of one or two recordings, as values for the page's scripts.

All samples of all events end at nodes of one tree of stacks: a sample is a node, a time, a
thread, a CPU and a weight. The scripts add up the selected samples. The values:

    names [name, module, category, the short name if different] ...; categories: perfpy.analysis.verdict.categories, WAITING, COMMAND
    charges a digit for each name: perfpy.analysis.verdict.categories.charge_kind()
    sides  the number of recordings
    tree  name, depth: columns, in depth-first order; names may be grouped by depth, columns of samples by node (marks.RowGroups)
    rare  share of the samples whose stacks lack frames between the outer ones and the innermost one (StackTree.rare)
    threads  [pid, tid, command] ...; cpus: numbers, -1 if unknown
    lanes  kind, name, about, total, number, and rows: columns begin, length, in ticks (wait_lanes)
    waits  who waited for whom (wait_chain_data), or null
    phases [function, begin, end, in ticks, share of the samples] ...: times in which the program mostly runs one function
    marks  kinds, texts: distinct; rows: columns time, thread, kind, text; or null
    tick  ns, the unit of times, which begin at the first sample of each recording; last: of samples and marks
    together whether samples were merged because they were too many
    each   how many samples one of the overview stands for; 1: there is no overview
    events   name, seconds (weights are ns of the sample's CPU), time (weights are ns), bytes (weights are), off (waits, which end at
        their times), samples: of each recording node, weight, and time, thread, cpu; or count without times; site: in code, 0 for none.
        With an overview, these are its samples, and: sums, columns of all samples without times; chunks: [first row in the overview,
        end, first tick, last tick] of each chunk; firstChunk: its number
    chunks   columns of all samples, chunk by chunk, which the page keeps apart
    sites  how many sites have numbers (code_data)
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.sample_view import combine_columns
from perfpy.analysis.stacks import Function, StackOptions, Stacks, StackTree
from perfpy.analysis.verdict.categories import COMMAND, KERNEL, NOT_CHARGED, OWN, UNKNOWN, charge_kind
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.interning import IdTable, sum_by
from perfpy.views.page.marks import RowGroups, mark_data, packed, task_of, wait_chain_data, wait_lane_data
from perfpy.views.readable import at_a_glance, event_name, source_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Locations
    from perfpy.analysis.source_files import FrameLines
    from perfpy.views.page.marks import Marks, PagePhase, WaitChains, WaitLane
    from perfpy.views.recorded import Recorded

    Int64 = NDArray[np.int64]


_FINEST: Final = 1000  # ns
_TICKS: Final = 1 << 22  # at most, in a recording
#: above this number a page has levels of detail; the overview has about this number of samples
MOST_ROWS: Final = 2_000_000
OVERVIEW: Final = 500_000
#: above this number samples that differ only in time are merged, within longer and longer ticks
MOST_SINGLE: Final = 8_000_000
#: above this number of distinct callchains rare ones lose frames
MOST_CHAINS: Final = 1 << 19
#: about the number of nodes that a page's tree has at most
MOST_NODES: Final = 500_000
_NUMBERS: Final = re.compile("[0-9]+")
_ALIKE: Final = 3  # commands
_BLOCK: Final = 1 << 16  # samples; most pairs of a block are known from those before
_MOST_PAYLOADS: Final = 200_000  # samples


def page_options(recording: Recorded, sample_filter: SampleFilter | None = None, *, latency: bool = False) -> StackOptions:
    """Return the options of the stacks that a page shows: single samples, and the data of tracepoints unless these are very many."""
    few = recording.data.sample_counts.total() <= _MOST_PAYLOADS
    chosen = sample_filter or SampleFilter()
    return StackOptions(chosen, timed=True, latency=latency, payloads=few, most_samples=MOST_SINGLE, most_chains=MOST_CHAINS)


def profile_data(
    recordings: Sequence[Sequence[Stacks]],
    marks: Marks | None = None,
    sites: PageSites | None = None,
    lanes: Sequence[WaitLane] = (),
    waits: WaitChains | None = None,
    phases: Sequence[PagePhase] = (),
) -> dict[str, Any]:
    """Return the values for one recording's events, or for two recordings' common events. marks to phases: of one recording."""
    split_parts = [[one for part in parts for one in _with_waits_apart(part)] for parts in recordings]
    for parts in split_parts:  # all code that a runtime compiled from one function is one
        parts[:] = [replace(part, functions=[one._replace(name=without_tier(one.name)) for one in part.functions]) for part in parts]
    columns = _with_events_of_both(split_parts)
    events = [part.event for part in columns[0]]
    merged = _merged_commands(part for parts in columns for part in parts)
    folded = [[_by_pairs(_with_merged_commands(part, merged)) for part in parts] for parts in columns]
    tree = StackTree.build(*(part for parts in folded for part, _ in parts), weighed=False, most=MOST_NODES)
    rows = _rows_of(columns, folded, tree, sites if sites is not None and sites.count else None)
    last = max((int(one.time.max()) for parts in rows for one in parts if len(one.time)), default=0)
    tick = max(_FINEST, -(-last // _TICKS))  # coarse for long recordings
    timed = [[one.in_ticks(tick) if len(one.time) else one for one in parts] for parts in rows]
    tasks, cpus = (_distinct(timed, name) for name in ("task", "cpu"))
    begin = _begin(columns[0])
    if marks is not None and len(tasks):
        tasks = np.union1d(tasks, np.array([task_of(mark) for mark in marks.rows if mark.time >= begin], np.int64))
    packing = _Packing(TasksAndCpus(tasks, cpus), _samples_for_each(timed))
    names = _names(tree.names, [[part for part, _ in parts] for parts in folded])
    return {
        "names": names,
        "charges": "".join(
            str(charge_kind(category, name) if name != f"[{module}]" else NOT_CHARGED) for name, module, category, *_ in names
        ),
        "inlined": _inlined(tree.names, [part for parts in folded for part, _ in parts]),
        "sides": len(recordings),
        "tree": {"name": RowGroups(tree.depth).packed(tree.name), "depth": packed(tree.depth)},
        "rare": _rare_share(tree, [part for parts in folded for part, _ in parts]),
        "threads": _threads(columns, tasks, marks),
        "marks": _marks(marks, begin, tick, tasks),
        "lanes": wait_lane_data(lanes, begin, tick) if begin else [],
        "waits": wait_chain_data(waits, begin, tick) if waits is not None and begin else None,
        "phases": [phase.values(begin, tick) for phase in phases if begin],
        "cpus": cpus.tolist(),
        "sites": sites.count if sites is not None else 0,
        "tick": tick,
        "last": max([last // tick, *((mark.time - begin) // tick for mark in (marks.rows if marks is not None and begin else ()))]),
        "together": int(any(part.timed is not None and part.timed.count is not None for parts in columns for part in parts)),
        "each": packing.each,
        "events": [
            {
                "event": event,
                "seconds": int(columns[0][number].in_seconds),
                "time": int(columns[0][number].in_nanoseconds),
                "bytes": int(columns[0][number].in_bytes),
                "off": int(columns[0][number].off_cpu),
                "samples": [packing.samples(parts[number], are_waits=columns[0][number].off_cpu) for parts in timed],
            }
            for number, event in enumerate(events)
        ],
        "chunks": packing.chunks,
    }


class _Packing:
    """The packing of samples.

    Attributes:
        each: how many samples one of the overview stands for; 1: all samples are packed at once.
        chunks: columns of all samples if there is an overview.
    """

    def __init__(self, known: TasksAndCpus, each: int) -> None:
        self._known = known
        self.each = each
        self.chunks: list[dict[str, Any]] = []

    def samples(self, rows: SampleRows, *, are_waits: bool) -> dict[str, Any]:
        """Return the columns of the samples of an event. are_waits: of time off the CPU."""
        if self.each == 1 or not len(rows.time):
            return self._known.packed(rows)
        levels = Levels.of(rows, self.each, are_waits=are_waits)
        first = len(self.chunks)
        self.chunks += [self._known.packed(chunk) for chunk in levels.chunks]
        return {**self._known.packed_levels(levels), "firstChunk": first}


def numbered_marks(data: Mapping[str, Any], marks: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """Return the texts of functions by their numbers among the names; marks: by name and file."""
    of_shown = {tuple(_function_row(Function(name, dso), UNKNOWN)[:2]): text for (name, dso), text in marks.items()}
    texts = ((str(number), of_shown.get((name, module))) for number, (name, module, *_) in enumerate(data["names"]))
    return {number: text for number, text in texts if text}


def _with_events_of_both(recordings: list[list[Stacks]]) -> list[list[Stacks]]:
    """Return the events that all recordings have, in the order of the first; a clock is the same with any modifier of precision."""
    if len(recordings) == 1:
        return recordings
    parts_of_events = [{event_name(part.event): part for part in parts} for parts in recordings]
    common = [event for event in parts_of_events[0] if all(event in parts for parts in parts_of_events)]
    return [[parts[event] for event in common] for parts in parts_of_events]


def _distinct(rows: Sequence[Sequence[SampleRows]], name: str) -> NDArray[np.int64]:
    """Return all values of a column, sorted."""
    values = [distinct_of_blocks(getattr(one, name)) for parts in rows for one in parts]
    return distinct(np.concatenate([np.zeros(0, np.int64), *values]))


def _with_waits_apart(part: Stacks) -> list[Stacks]:
    """Split a merged event into time on the CPU and off it: the page merges them itself."""
    timed = part.timed
    if timed is None or timed.waits is None or part.off_cpu or not timed.waits.any():
        return [part]
    parts = []
    for waits in (False, True):
        rows = np.flatnonzero(timed.waits == waits)
        names = ["chain", "comm", "pid", "tid", "time", "cpu", "weight"]
        names += [name for name in ("count", "site") if getattr(timed, name) is not None]
        on_cpu = replace(timed, **{name: getattr(timed, name)[rows] for name in names}, payload=None, waits=None)
        event = OFF_CPU_EVENT if waits else part.event.removesuffix(f" + {OFF_CPU_EVENT}")
        parts.append(replace(part, event=event, timed=on_cpu, in_seconds=True, off_cpu=waits))
    return [one for one in parts if one.timed is not None and len(one.timed.time)]


def _names(functions: Sequence[Function], recordings: Sequence[Sequence[Stacks]]) -> list[list[Any]]:
    """Return the functions and commands of the tree as values."""
    category_of = {Function(comm, ""): COMMAND for parts in recordings for part in parts for comm in part.comms}
    for parts in recordings:
        for part in parts:
            # Of stacks without categories (of many hosts, or tables) only the kernel is known.
            by_name = (KERNEL if function.kernel else OWN if function.dso else UNKNOWN for function in part.functions)
            category_of.update(zip(part.functions, part.categories or by_name, strict=True))
    return [_function_row(function, category_of.get(function, UNKNOWN)) for function in functions]


def _inlined(functions: Sequence[Function], parts: Iterable[Stacks]) -> list[int]:
    """Return the numbers of the functions that are inlined into others in all of their stacks."""
    is_inlined: dict[Function, bool] = {}
    for part in parts:
        for function, flag in zip(part.functions, part.inlined or [False] * len(part.functions), strict=True):
            is_inlined[function] = flag and is_inlined.get(function, True)
    return [number for number, function in enumerate(functions) if is_inlined.get(function)]


def _function_row(function: Function, category: int) -> list[Any]:
    """Return name, module, category, and the short name if different."""
    short = at_a_glance(function.name)
    return [function.name, source_file(function.name) or function.dso, category, *([short] if short != function.name else [])]


def _merged_commands(parts: Iterable[Stacks]) -> dict[str, str]:
    """Return the pattern (worker-*) of each command that differs from several others only in numbers, in any recording."""
    pattern_of = {comm: _NUMBERS.sub("*", comm) for part in parts for comm in part.comms}
    counts = Counter(pattern_of.values())
    return {comm: pattern for comm, pattern in pattern_of.items() if counts[pattern] >= _ALIKE}


def _with_merged_commands(part: Stacks, merged: Mapping[str, str]) -> Stacks:
    """Name commands by their patterns, so that their stacks are merged."""
    if not merged.keys() & set(part.comms):
        return part
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(merged.get(comm, comm), len(number_of)) for comm in part.comms], part.comm.dtype)
    timed = None if part.timed is None else replace(part.timed, comm=numbers[part.timed.comm])
    return replace(part, comms=list(number_of), comm=numbers[part.comm], timed=timed)


def _by_pairs(part: Stacks) -> tuple[Stacks, NDArray[np.int32]]:
    """Return the distinct pairs of command and chain as rows of stacks, and the pair of each sample, or of each row without samples."""
    rows = part if part.timed is None else part.timed
    chains = len(part.offsets)
    keys = rows.comm.astype(np.int64) * chains + rows.chain
    table = IdTable()
    blocks = [table.ids(keys[begin : begin + _BLOCK].view(np.uint64)) for begin in range(0, len(keys), _BLOCK)]
    number = np.concatenate([np.zeros(0, np.int32), *blocks])
    pairs = table.keys.view(np.int64)
    weight, count = sum_by(number, rows.weight.view(np.int64), len(pairs)), np.bincount(number, minlength=len(pairs))
    folded = replace(part, comm=(pairs // chains).astype(np.int32), chain=(pairs % chains).astype(np.int32), weight=weight.view(np.uint64),
                     count=count)  # fmt: skip
    return folded, number


def _rare_share(tree: StackTree, parts: Sequence[Stacks]) -> float:
    """Return the share of samples in rare stacks."""
    counts = np.concatenate([np.zeros(0, np.int64), *(part.count for part in parts)])
    return float(counts[tree.rare].sum() / max(1, counts.sum()))


def _rows_of(
    columns: Sequence[Sequence[Stacks]],
    folded: Sequence[Sequence[tuple[Stacks, NDArray[np.int32]]]],
    tree: StackTree,
    sites: PageSites | None,
) -> list[list[SampleRows]]:
    all_rows, first = [], 0
    for parts, pairs in zip(columns, folded, strict=True):
        begin, rows = _begin(parts), []
        for part, (pair, number) in zip(parts, pairs, strict=True):
            rows.append(_rows(part, tree.leaf[first + number], begin, sites))
            first += len(pair.chain)
        all_rows.append(rows)
    return all_rows


def _begin(parts: Sequence[Stacks]) -> int:
    """Return the time of the first sample, ns; 0 without times."""
    return min((int(part.timed.time.min()) for part in parts if part.timed is not None and _is_timed(part)), default=0)


def _marks(marks: Marks | None, begin: int, tick: int, tasks: NDArray[np.int64]) -> dict[str, Any] | None:
    if marks is None or not begin:
        return None
    return mark_data(marks, begin, tick, {task: number for number, task in enumerate(tasks.tolist())})


def _samples_for_each(rows: Sequence[Sequence[SampleRows]]) -> int:
    """Return how many samples one of the overview stands for; 1: there is no overview."""
    each = -(-sum(len(one.time) for parts in rows for one in parts) // OVERVIEW)
    return each if each > MOST_ROWS // OVERVIEW else 1


def _is_timed(part: Stacks) -> bool:
    """Whether the samples have times."""
    return part.timed is not None and bool(len(part.timed.time)) and int(part.timed.time.max()) < 1 << 63


def _rows(part: Stacks, node: NDArray[np.int32], begin: int, sites: PageSites | None) -> SampleRows:
    none = np.zeros(0, np.int64)
    timed = part.timed
    if timed is None:
        return SampleRows(node, part.weight.view(np.int64), part.count, none, none, none, none)
    count = np.ones(len(node), np.int8) if timed.count is None else timed.count
    when = timed.time.view(np.int64) - begin if _is_timed(part) else none
    task = timed.pid.astype(np.int64) << 32 | timed.tid.astype(np.int64) & 0xFFFFFFFF
    site = none if sites is None or timed.site is None else sites.of_rows(timed.site)
    return SampleRows(node, timed.weight.view(np.int64), count, when, task, timed.cpu, site)


def _threads(columns: Sequence[Sequence[Stacks]], tasks: NDArray[np.int64], marks: Marks | None) -> list[list[Any]]:
    """Return for each task its process, its number, and its last name."""
    comms: dict[int, str] = {task_of(mark): mark.text for mark in (marks.rows if marks else ()) if mark.kind in ("exec", "name")}
    for parts in columns:
        for part in parts:
            if part.timed is None:
                continue
            last = np.full(len(tasks), -1, np.int64)
            for begin in range(0, len(part.timed.comm), _BLOCK):
                pid, tid, comm = (column[begin : begin + _BLOCK] for column in (part.timed.pid, part.timed.tid, part.timed.comm))
                last[np.searchsorted(tasks, pid.astype(np.int64) << 32 | tid.astype(np.int64) & 0xFFFFFFFF)] = comm  # the last one stays
            comms.update((task, part.comms[comm]) for task, comm in zip(tasks.tolist(), last.tolist(), strict=True) if comm >= 0)
    return [[task >> 32, _sign(task & 0xFFFFFFFF), comms.get(task, "")] for task in tasks.tolist()]


def _sign(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number


# The samples of a page as columns, and levels of detail of very many of them.
#
# A page of few samples has all of them at once. Above a limit it has an overview, evenly chosen samples that stand for their neighbours;
# sums over the whole recording, which are exact; and chunks with all samples, which the scripts read when a short range is in view.


_CHUNK: Final = 1 << 17  # samples
_MOST_SUMS: Final = 1_000_000
_SPREAD: Final = 2654435761  # spreads consecutive numbers (Knuth's multiplicative hash)


class SampleRows(NamedTuple):
    """The samples of one event of one recording. All columns are of integers, as narrow as the recording's.

    Attributes:
        node, weight: of each.
        samples: how many samples each stands for.
        time: since the first, in ns or ticks; task, cpu: may be empty.
        site: number in code, may be empty.
    """

    node: NDArray[Any]
    weight: NDArray[Any]
    samples: NDArray[Any]
    time: NDArray[Any]
    task: NDArray[Any]
    cpu: NDArray[Any]
    site: NDArray[Any]

    def take(self, rows: NDArray[np.int64] | slice) -> SampleRows:
        """Select samples."""
        return SampleRows(*(column[rows] if len(column) else column for column in self))

    def in_ticks(self, tick: int) -> SampleRows:
        """Return the samples in order of time, with times in ticks, which must be below 1 << 31."""
        is_ordered = bool((self.time[1:] >= self.time[:-1]).all())
        rows = self if is_ordered else self.take(np.argsort(self.time, kind="stable"))
        ticks = np.empty(len(rows.time), np.int32)
        np.floor_divide(rows.time, tick, out=ticks, casting="unsafe")
        return rows._replace(time=ticks)

    def choose_evenly(self, each: int) -> tuple[SampleRows, NDArray[np.int64]]:
        """Return one of each `each` samples, with the weight of all of them, and its row.

        Which one depends on a hash: samples of several CPUs come in turns, and every n-th could always be of the same CPU.
        """
        begins = np.arange(0, len(self.node), each)
        sizes = np.minimum(each, len(self.node) - begins)
        spread = (np.arange(len(begins), dtype=np.uint64) * np.uint64(_SPREAD) & np.uint64(0xFFFFFFFF)) >> np.uint64(8)
        chosen = begins + (spread % sizes.astype(np.uint64)).astype(np.int64)
        weight, samples = (np.add.reduceat(column, begins, dtype=np.int64) for column in (self.weight, self.samples))
        return self.take(chosen)._replace(weight=weight, samples=samples), chosen

    def choose_longest(self, count: int) -> tuple[SampleRows, NDArray[np.int64]]:
        """Return the samples with most weight, and their rows: sums of neighbours would be waits that did not happen."""
        chosen = np.sort(np.argpartition(self.weight, -count)[-count:]) if count < len(self.node) else np.arange(len(self.node))
        return self.take(chosen), chosen

    def without_times(self) -> SampleRows | None:
        """Return the samples without times, equal ones added up; None if too many differ."""
        keys = [column for column in (self.task, self.cpu, self.node, self.site) if len(column)]
        table, blocks, first = IdTable(), [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
        for begin in range(0, len(self.node), _BLOCK):
            ids, new = table.ids_and_new(combine_columns([column[begin : begin + _BLOCK] for column in keys]))
            blocks.append(ids)
            first.append(new + begin)
            if len(table) > _MOST_SUMS:
                return None
        number = np.concatenate(blocks)
        weight, samples = (sum_by(number, column, len(table)) for column in (self.weight, self.samples))
        return self.take(np.concatenate(first))._replace(weight=weight, samples=samples, time=self.time[:0])


class Levels(NamedTuple):
    """Levels of detail of many samples.

    Attributes:
        overview: samples of the whole recording that stand for all.
        totals: all samples without times; None if too many differ.
        chunks: all samples, some at a time.
        bounds: the first row in the overview of each chunk, and the number of rows.
    """

    overview: SampleRows
    totals: SampleRows | None
    chunks: list[SampleRows]
    bounds: list[int]

    @classmethod
    def of(cls, rows: SampleRows, each: int, *, are_waits: bool) -> Levels:
        """Return the levels of samples in order of time; the overview has one of each `each`, of waits the longest."""
        size = each * max(1, _CHUNK // each)
        overview, chosen = rows.choose_longest(max(1, len(rows.node) // each)) if are_waits else rows.choose_evenly(each)
        begins = np.arange(0, len(rows.node), size)
        chunks = [rows.take(slice(begin, begin + size)) for begin in begins.tolist()]
        return cls(overview, rows.without_times(), chunks, [*np.searchsorted(chosen, begins).tolist(), len(chosen)])


def distinct_of_blocks(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values in ascending order, without a sorted copy of all of them."""
    blocks = [distinct(values[begin : begin + _BLOCK]) for begin in range(0, len(values), _BLOCK)]
    return distinct(np.concatenate([values[:0], *blocks]))


def _positions(known: NDArray[np.int64], values: NDArray[Any]) -> NDArray[np.int32]:
    """Return the position of each value among the known ones."""
    positions = np.empty(len(values), np.int32)
    for begin in range(0, len(values), _BLOCK):
        positions[begin : begin + _BLOCK] = np.searchsorted(known, values[begin : begin + _BLOCK])
    return positions


class TasksAndCpus(NamedTuple):
    """All tasks and CPUs of a page, sorted: samples have their numbers."""

    tasks: NDArray[np.int64]
    cpus: NDArray[np.int64]

    def packed(self, rows: SampleRows) -> dict[str, Any]:
        """Return the columns of some samples."""
        columns = {"node": packed(rows.node), "weight": packed(rows.weight), "count": packed(rows.samples)}
        groups = RowGroups(rows.node)
        if len(rows.task):
            columns["thread"] = groups.packed(_positions(self.tasks, rows.task))
            columns["cpu"] = groups.packed(_positions(self.cpus, rows.cpu))
        if len(rows.site):
            columns["site"] = groups.packed(rows.site)
        if len(rows.time):
            columns["time"] = packed(rows.time, ascending=True)
        return columns

    def packed_levels(self, levels: Levels) -> dict[str, Any]:
        """Return the columns of the overview and the sums, and for each chunk its rows in the overview and its ticks."""
        rows = zip(levels.bounds, levels.bounds[1:], strict=False)
        chunks = [[*of_overview, int(chunk.time[0]), int(chunk.time[-1])] for of_overview, chunk in zip(rows, levels.chunks, strict=True)]
        totals = {"sums": self.packed(levels.totals)} if levels.totals is not None else {}
        return {**self.packed(levels.overview), **totals, "chunks": chunks}


# The places in code that a page's samples were taken at, numbered, so that the page can add up those of a range of time by line.
#
# A site is a sampled frame together with the frame that its source line counts for: these differ in runtimes, which work for
# functions that they name. Only sites of shown code get a number.


_HALF = 32
_LOW = (1 << _HALF) - 1


class PageSites:
    """The sites of folded samples.

    Attributes:
        frame, line_frame: of each site: where the sample was taken, and what its source line counts for.
        site_of_row: the site of each row of folded samples.
    """

    def __init__(self, frame: Int64, line_frame: Int64, locations: Locations, lines: FrameLines) -> None:
        """Collect the sites of rows. lines: of the frames for lines."""
        sites, site_of_row = np.unique(frame.astype(np.int64) << _HALF | line_frame, return_inverse=True)
        self.site_of_row: Int64 = site_of_row.ravel()
        self.frame, self.line_frame = sites >> _HALF, sites & _LOW
        self._number = np.zeros(len(sites), np.int64)
        self._lines = lines
        self._symbol = locations.symbol[self.frame].astype(np.int64)
        start = locations.symbol_bounds(self._symbol)[0]
        self._offset = (locations.address[self.frame] - start).astype(np.int64)

    @property
    def count(self) -> int:
        """The number of sites with a number."""
        return int(self._number.max(initial=0))

    def _numbers(self, sites: Int64) -> list[int]:
        """Return the numbers of sites, from 1 on; new ones get the next."""
        new = sites[self._number[sites] == 0]
        self._number[new] = self.count + 1 + np.arange(len(new))
        numbers: list[int] = self._number[sites].tolist()
        return numbers

    def in_function(self, symbol: int, bounds: Int64) -> list[tuple[int, int]]:
        """Return the instruction and the number of each site in a function. bounds: offsets of its instructions, and its size."""
        sites = np.flatnonzero(self._symbol == symbol)
        instruction = np.searchsorted(bounds, self._offset[sites], "right") - 1
        inside = (instruction >= 0) & (instruction < len(bounds) - 1)
        return list(zip(instruction[inside].tolist(), self._numbers(sites[inside]), strict=True))

    def in_file(self, path: str, shown: set[int]) -> list[tuple[int, int, int]]:
        """Return line, number and whether the line is the site's own, for each site in some lines of a file."""
        frame, line, own = self._lines.of_file(path)
        begin, end = (np.searchsorted(frame, self.line_frame, side) for side in ("left", "right"))
        spots: dict[tuple[int, int], int] = {}
        for site in np.flatnonzero(end > begin).tolist():
            for row in range(int(begin[site]), int(end[site])):
                if int(line[row]) in shown:
                    key = int(line[row]), site
                    spots[key] = max(spots.get(key, 0), int(own[row]))
        numbers = self._numbers(np.unique(np.array([site for _, site in spots], np.int64)))
        number_of = dict(zip(sorted({site for _, site in spots}), numbers, strict=True))
        return [(line, number_of[site], own) for (line, site), own in spots.items()]

    def of_rows(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of each row's site, 0 for none."""
        numbers: NDArray[np.int32] = self._number.astype(np.int32)[self.site_of_row][rows]
        return numbers
