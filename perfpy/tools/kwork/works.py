"""Run times and delays of each piece of kernel work.

A run reaches from an ENTRY to the EXIT that follows it, a delay from a RAISE to the ENTRY that follows it, both of the same work on the
same CPU. Events without such a counterpart are skipped and counted.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.perfdata.tracepoint_rows import read_tracepoints, tracepoints_of
from perfpy.scheduling.segments import numbers_of_keys, pair_events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.perfdata.tracepoint_rows import TracepointRows

    Int64 = NDArray[np.int64]


class WorkIntervals(NamedTuple):
    """Times between two phases of the same work.

    Attributes:
        begin, end: int64[n], indexes of events, by their begin.
        skipped: the events of each phase without counterpart: raise, entry, exit.
    """

    begin: Int64
    end: Int64
    skipped: tuple[int, int, int]


class WorkRow(NamedTuple):
    """The runs or delays of one piece of work on one CPU. Times are nanoseconds.

    Attributes:
        event: the index of its first event.
        kind, cpu, number: see WorkEvents.
        intervals: their number.
        total: of all durations.
        longest, begin, end: the first one of the longest duration.
    """

    event: int
    kind: int
    cpu: int
    number: int
    intervals: int
    total: int
    longest: int
    begin: int
    end: int

    @property
    def average(self) -> int:
        """The average duration, rounded down."""
        return self.total // self.intervals


#: sort keys, by perf's names
SORT_KEYS: Final[dict[str, Callable[[WorkRow], int]]] = {
    "runtime": lambda row: row.total,
    "avg": lambda row: row.average,
    "max": lambda row: row.longest,
    "count": lambda row: row.intervals,
}


class WorkTotals(NamedTuple):
    """The sums of a report: the number of runs, and nanoseconds."""

    intervals: int
    runtime: int
    span: int


def find_intervals(events: WorkEvents, work: Int64, first: int, last: int) -> WorkIntervals:
    """Return the intervals from one phase to another.

    Args:
        events: of a recording.
        work: numbers of their work, see WorkEvents.work_numbers.
        first, last: RAISE and ENTRY, or ENTRY and EXIT.
    """
    begins, ends = np.flatnonzero(events.phase == first), np.flatnonzero(events.phase == last)
    pairs = pair_events(work[begins], begins, work[ends], ends)
    order = np.argsort(begins[pairs.begin], kind="stable")
    skipped = [0, 0, 0]
    skipped[first], skipped[last] = len(begins) - len(order), len(ends) - len(order)
    return WorkIntervals(begins[pairs.begin][order], ends[pairs.end][order], (skipped[0], skipped[1], skipped[2]))


_PAGE: Final = 128  # events


def page_lines(events: WorkEvents, work: Int64, first: int, last: int) -> Iterator[str]:
    """Yield perf's line on the memory that events took, of pages that it never frees. See find_intervals.

    A begin is kept until an end or another begin of the same work, an end without a begin for good.
    """
    chosen = np.flatnonzero((events.phase == first) | (events.phase == last))
    rows = chosen[np.argsort(work[chosen], kind="stable")]
    is_begin = events.phase[rows] == first
    follows = np.append(False, is_begin[:-1] & (work[rows[1:]] == work[rows[:-1]]))[: len(rows)]  # a begin of the same work
    change = np.zeros(len(work), np.int64)
    change[rows] = np.where(is_begin, 1 - follows, 1 - 2 * follows)
    is_new = np.zeros(len(work), np.bool_)
    is_new[rows] = is_begin | ~follows
    before = np.cumsum(change) - change
    yield f"  INFO: use {-(-int((before + 1)[is_new].max(initial=0)) // _PAGE)} atom pages"


def make_rows(events: WorkEvents, work: Int64, intervals: WorkIntervals) -> list[WorkRow]:
    """Return a row for each piece of work with intervals: by kind, then the highest CPU and number first."""
    owner = work[intervals.begin]
    order = np.argsort(owner, kind="stable")
    if not len(order):
        return []
    begins = np.flatnonzero(np.append(True, np.diff(owner[order]) != 0))
    counts = np.diff(np.append(begins, len(order)))
    works, first_events = np.unique(work, return_index=True)
    events_of = first_events[np.searchsorted(works, owner)]
    rows = []
    durations = np.maximum(events.time[intervals.end] - events.time[intervals.begin], 0)
    totals = np.add.reduceat(durations[order], begins)
    for start, count, total in zip(begins.tolist(), counts.tolist(), totals.tolist(), strict=True):
        own = order[start : start + count]
        longest = own[int(durations[own].argmax())]
        begin, end = int(intervals.begin[longest]), int(intervals.end[longest])
        row = WorkRow(
            event=int(events_of[own[0]]),
            kind=int(events.kind[begin]),
            cpu=int(events.cpu[begin]),
            number=int(events.number[begin]),
            intervals=count,
            total=total,
            longest=int(durations[longest]),
            begin=int(events.time[begin]),
            end=int(events.time[end]),
        )
        rows.append(row)
    return sorted(rows, key=lambda row: (row.kind, -row.cpu, -row.number))


def sorted_rows(rows: Iterable[WorkRow], keys: Sequence[str]) -> list[WorkRow]:
    """Return the rows, highest values first; equal rows keep their order."""
    return sorted(rows, key=lambda row: [-SORT_KEYS[key](row) for key in keys])


def total_of(rows: Iterable[WorkRow], events: WorkEvents) -> WorkTotals:
    """Return the sums of all rows. events: of the report, from the first to the last."""
    listed = list(rows)
    span = int(events.time[-1]) - int(events.time[0]) if len(events.time) else 0
    return WorkTotals(sum(row.intervals for row in listed), sum(row.total for row in listed), max(span, 0))


class WorkHistory(NamedTuple):
    """Each run of each piece of work, by its end.

    Attributes:
        begin, end: int64[n], indexes of events.
        delay: int64[n], nanoseconds from the RAISE to the begin; -1 without one.
    """

    begin: Int64
    end: Int64
    delay: Int64


def make_history(events: WorkEvents, work: Int64) -> WorkHistory:
    """Return all runs with their delays."""
    runs = find_intervals(events, work, ENTRY, EXIT)
    waits = find_intervals(events, work, RAISE, ENTRY)
    delay_of = np.full(len(work), -1, np.int64)
    delay_of[waits.end] = np.maximum(events.time[waits.end] - events.time[waits.begin], 0)
    order = np.argsort(runs.end, kind="stable")
    begin = runs.begin[order]
    return WorkHistory(begin, runs.end[order], delay_of[begin])


RAISE: Final = 0
ENTRY: Final = 1
EXIT: Final = 2
IRQ: Final = "irq"
SOFTIRQ: Final = "softirq"
WORKQUEUE: Final = "workqueue"
#: kind of work -> its tracepoints, with the phase and the field that identifies the work
TRACEPOINTS: Final = {
    IRQ: (("irq:irq_handler_entry", ENTRY, "irq"), ("irq:irq_handler_exit", EXIT, "irq")),
    SOFTIRQ: (("irq:softirq_raise", RAISE, "vec"), ("irq:softirq_entry", ENTRY, "vec"), ("irq:softirq_exit", EXIT, "vec")),
    WORKQUEUE: (
        ("workqueue:workqueue_activate_work", RAISE, "work"),
        ("workqueue:workqueue_execute_start", ENTRY, "work"),
        ("workqueue:workqueue_execute_end", EXIT, "work"),
    ),
}
_NUMBERS: Final = ("irq", "vec", "work", "function")
_VECTOR_NAMES: Final = re.compile(r'\{\s*(\d{1,9}|0x[0-9a-fA-F]{1,8})\s*,\s*"([^"]{0,64})"\s*\}')


class WorkEvents(NamedTuple):
    """The events of all kinds of work, in order of delivery.

    Each kind of work has up to three tracepoints: the request (RAISE), the begin (ENTRY) and the end (EXIT). Layouts: the kernel's
    include/trace/events/irq.h and workqueue.h.

    Attributes:
        kind: int64[n], index in the kinds that were read.
        phase: int64[n], RAISE, ENTRY or EXIT.
        cpu, tid: int64[n], of the samples.
        number: uint64[n]; the interrupt, the vector, or the address of the work.
        function: uint64[n], the address of a work's function, or 0.
        name: str[n], of an interrupt's handler, or empty.
        time: int64[n], nanoseconds.
        key: uint64[n], delivery keys.
        chains: callchains, if they were asked for and recorded.
    """

    kind: Int64
    phase: Int64
    cpu: Int64
    tid: Int64
    number: NDArray[np.uint64]
    function: NDArray[np.uint64]
    name: NDArray[np.object_]
    time: Int64
    key: NDArray[np.uint64]
    chains: Ragged | None = None

    def take(self, chosen: NDArray[np.bool_] | Int64) -> WorkEvents:
        """Select rows by mask or index."""
        chains = None if self.chains is None else self.chains.take(chosen)
        return WorkEvents._make([*(column[chosen] for column in self[:-1]), chains])

    def work_numbers(self) -> Int64:
        """Return a number for each event that is equal for events of the same work on the same CPU."""
        return numbers_of_keys(self.kind, self.cpu, self.number.view(np.int64))


def missing_kinds(source: SampleSource, kinds: Sequence[str]) -> list[str]:
    """Return the kinds of work whose begin the recording lacks."""
    present = tracepoints_of(source)
    return [kind for kind in kinds if not any(name in present and phase == ENTRY for name, phase, _ in TRACEPOINTS[kind])]


def read_work(source: SampleSource, kinds: Sequence[str], phases: Sequence[int], *, chains: bool = False) -> WorkEvents:
    """Read the events of some kinds and phases.

    Args:
        source: the samples.
        kinds: keys of TRACEPOINTS, in the order of the result's numbers.
        phases: of RAISE, ENTRY and EXIT.
        chains: whether to keep the callchains.
    """
    readers = {
        name: (kind_number, phase, field)
        for kind_number, kind in enumerate(kinds)
        for name, phase, field in TRACEPOINTS[kind]
        if phase in phases
    }
    fields_of = {name: _fields_of(name, field) for name, (_, _, field) in readers.items()}
    tables = read_tracepoints(source, fields_of, with_chains=tuple(fields_of) if chains else ())
    parts, orders = [], []
    for name, table in tables.items():
        kind_number, phase, field = readers[name]
        parts.append(_events_of(table.with_numbers(name for name in fields_of[name] if name in _NUMBERS), kind_number, phase, field))
        orders.append(table.order)
    if not parts:
        none, keys = np.zeros(0, np.int64), np.zeros(0, np.uint64)
        return WorkEvents(none, none, none, none, keys, keys, np.zeros(0, object), none, keys)
    order = np.argsort(np.concatenate(orders), kind="stable")
    columns = [np.concatenate(columns) for columns in zip(*(part[:-1] for part in parts), strict=True)]
    all_chains = Ragged.concat([part.chains for part in parts if part.chains is not None]) if chains else None
    return WorkEvents._make([*columns, all_chains]).take(order)


def _fields_of(name: str, field: str) -> tuple[str, ...]:
    if field == "work":
        return (field, "function")
    return (field, "name") if name == TRACEPOINTS[IRQ][0][0] else (field,)


def _events_of(table: TracepointRows, kind: int, phase: int, field: str) -> WorkEvents:
    count = len(table.order)
    numbers = table.fields[field]
    number = numbers.astype(np.int64).view(np.uint64) if numbers.dtype.kind == "i" else numbers.astype(np.uint64)
    function = table.fields.get("function")
    return WorkEvents(
        kind=np.full(count, kind, np.int64),
        phase=np.full(count, phase, np.int64),
        cpu=table.cpu.astype(np.int64),
        tid=table.tid.astype(np.int64),
        number=number,
        function=np.zeros(count, np.uint64) if function is None else function.astype(np.uint64),
        name=_texts(table.fields.get("name"), count),
        time=table.time,
        key=table.key,
        chains=table.chains,
    )


def _texts(column: object, count: int) -> NDArray[np.object_]:
    if isinstance(column, np.ndarray) and column.dtype == object and len(column) == count:
        return column
    return np.full(count, "", object)


def vector_names(source: SampleSource) -> dict[int, str]:
    """Return the names of soft interrupts by number, from the recorded formats."""
    tracing = source.tracing
    for name in (name for name, _, _ in TRACEPOINTS[SOFTIRQ]):
        event = tracepoints_of(source).get(name)
        if event is not None and tracing is not None:
            text = tracing.formats[event.attr.config].print_fmt
            return {int(number, 16 if number.startswith("0x") else 10): word for number, word in _VECTOR_NAMES.findall(text)}
    return {}


NAME_WIDTH: Final = 30
_RUNTIMES: Final = ("Total Runtime", "Max runtime  ", "Max runtime start  ", "Max runtime end    ")
_DELAYS: Final = ("Avg delay    ", "Max delay    ", "Max delay start    ", "Max delay end      ")
_RULE: Final = " " + "-" * 128
_MARKS: Final = {SOFTIRQ: "(s)", WORKQUEUE: "(w)"}
_PHASES: Final = ("raise", "entry", "exit")
MILLISECOND: Final = 1_000_000


def label_of(kind: str, name: str, number: int) -> str:
    """Return the name of a piece of work as perf prints it, cut to the column's width.

    >>> label_of("softirq", "RCU", 9), label_of("irq", "eth0", 36), label_of("workqueue", "", 0xFF00)
    ('(s)RCU:9', 'eth0:36', '(w)0xff00')
    """
    text = name or f"{number:#x}" if kind == WORKQUEUE else f"{name or '(null)'}:{number}"
    return (_MARKS.get(kind, "") + text)[: NAME_WIDTH - 1]


def seconds_text(nanoseconds: int) -> str:
    """Return a time in seconds, truncated to microseconds.

    >>> seconds_text(1002003999)
    '1.002003'
    """
    micros = nanoseconds // 1000
    return f"{micros // 1_000_000}.{micros % 1_000_000:06d}"


def runtime_lines(rows: Iterable[WorkRow], label: Callable[[WorkRow], str], totals: WorkTotals | None) -> Iterator[str]:
    """Yield the table of `kwork report`; label: the text of a row's work; totals: for the summary below.

    The text is perf 6.12's, byte for byte.
    """
    yield from _table(rows, label, _RUNTIMES, lambda row: row.total)
    if totals is not None:
        load = totals.runtime / totals.span if totals.span else 0.0
        yield f"  Total count            : {totals.intervals:9d}"
        yield f"  Total runtime   (msec) : {totals.runtime / MILLISECOND:9.3f} ({load:.3f}% load average)"
        yield f"  Total time span (msec) : {totals.span / MILLISECOND:9.3f}"
        yield _RULE


def delay_lines(rows: Iterable[WorkRow], label: Callable[[WorkRow], str]) -> Iterator[str]:
    """Yield the table of `kwork latency`; label: the text of a row's work."""
    yield from _table(rows, label, _DELAYS, lambda row: row.average)


def _table(
    rows: Iterable[WorkRow], label: Callable[[WorkRow], str], titles: Sequence[str], value: Callable[[WorkRow], int]
) -> Iterator[str]:
    first, longest, begin, end = titles
    yield ""
    yield f"  {'Kwork Name':<{NAME_WIDTH}} | Cpu  | {first} | Count     | {longest} | {begin} | {end} |"
    yield _RULE
    for row in rows:
        yield (
            f"  {label(row):<{NAME_WIDTH}} | {row.cpu:04d} | {value(row) / MILLISECOND:10.3f} ms | {row.intervals:9d} "
            f"| {row.longest / MILLISECOND:10.3f} ms | {seconds_text(row.begin):>17} s | {seconds_text(row.end):>17} s |"
        )
    yield _RULE


def skipped_lines(skipped: Sequence[int], records: int) -> Iterator[str]:
    """Yield perf's line on events without counterpart, if there are some.

    Args:
        skipped: the events of each phase.
        records: of the file.
    """
    count = sum(skipped)
    if count and records:
        parts = ", ".join(f"{number} {phase}" for number, phase in zip(skipped, _PHASES, strict=True))
        yield f"  INFO: {100 * count / records:.3f}% skipped events ({count} including {parts})"


_HEAD: Final = (
    f" {'Runtime start':<17}  {'Runtime end':<17}  {'Cpu':<6}  {'Kwork name':<30}  {'Runtime':<10}  {'Delaytime':<10}",
    f" {'':<17}  {'':<17}  {'':<6}  {'(TYPE)NAME:NUM':<30}  {'(msec)':<10}  {'(msec)':<10}",
    f" {'-' * 17}  {'-' * 17}  {'-' * 6}  {'-' * 30}  {'-' * 10}  {'-' * 10}",
)


def history_lines(runs: Iterable[tuple[int, int, int, str, int, str]]) -> Iterator[str]:
    """Yield the title and the line of each run.

    The text is perf 6.12's, byte for byte.

    Args:
        runs: begin and end (nanoseconds), CPU, label, delay (nanoseconds; -1: none), and the text of the callchain.
    """
    yield from _HEAD
    for begin, end, cpu, label, delay, chain in runs:
        delay_text = f"{delay / MILLISECOND:10.3f}" if delay >= 0 else " " * 10
        runtime = max(end - begin, 0) / MILLISECOND
        times = f" {seconds_text(begin):>17}  {seconds_text(end):>17}  [{cpu:04d}]"
        yield f"{times}  {label:<{NAME_WIDTH}}  {runtime:10.3f}  {delay_text} {chain}"
