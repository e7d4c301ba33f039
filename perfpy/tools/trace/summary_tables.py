"""The tables of calls: perf's with -s for each thread or all, those with percentiles and histograms, and those by file or by peer."""

from __future__ import annotations

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.system_calls import error_name
from perfpy.tools.trace.call_sums import ThreadRows, Totals, is_error
from perfpy.tools.trace.calls import EXIT, NO_ROW, UNNUMBERED
from perfpy.tools.trace.lines import NO_LINES
from perfpy.views.pieces import Flat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.tools.trace.call_sums import CallTotals, NamedTotals
    from perfpy.tools.trace.call_text import CallTexts
    from perfpy.tools.trace.calls import PairedEvents, ThreadNames
    from perfpy.tools.trace.lines import LineOptions, TraceLines


_MILLISECOND: Final = 1e6  # nanoseconds
_SECOND: Final = 1e9
_HEAD: Final = (
    "   syscall            calls  errors  total       min       avg       max       stddev",
    "                                     (msec)    (msec)    (msec)    (msec)        (%)",
    "   --------------- --------  ------ -------- --------- --------- ---------     ------",
)
_PARTS: Final = 16  # buckets of a power of two (perfpy.tools.trace.call_sums)
_BAR: Final = 40  # the longest bar
_HALF: Final = 0.5
_CLOSE: Final = 1e-3  # of a unit of the last decimal
_LARGE: Final = 1e9  # beyond it, few decimals of a float are exact
_PERCENTILE_HEAD: Final = (
    "   syscall            calls  errors     total   wall       p50       p90       p99       max",
    "                                       (msec)    (%)    (msec)    (msec)    (msec)    (msec)",
    "   --------------- --------  ------ --------- ------ --------- --------- --------- ---------",
)
_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "us"))
_NAMED_HEAD: Final = (
    "      calls  errors     total   wall       p50       p99       max        bytes  {}",
    "                       (msec)    (%)    (msec)    (msec)    (msec)",
    "   --------  ------ --------- ------ --------- --------- --------- ------------  ---------------",
)


class SummaryOptions(NamedTuple):
    """The form of the tables.

    Attributes:
        of_all: one table for all threads instead of one for each.
        errnos: print the error numbers of each call.
        most: rows of a table; 0 for all.
    """

    of_all: bool = False
    errnos: bool = False
    most: int = 0


class CallTables:
    """The tables of a stream's sums.

    Args:
        totals: the sums.
        options: their form.
        name_of: returns the name of a call.
        comm_of: returns the last comm of a thread.
    """

    def __init__(self, totals: Totals, options: SummaryOptions, name_of: Callable[[int], str], comm_of: Callable[[int], str]) -> None:
        self._totals = totals
        self._options = options
        self._name_of = name_of
        self._comm_of = comm_of

    def lines(self) -> Iterator[str]:
        """Yield the lines of the tables, without line breaks."""
        yield from ("", " Summary of events:", "")
        events = self._totals.events
        count = self._totals.samples
        if self._options.of_all:
            yield f" total, {count} events"
            rows = ThreadRows.of_all_threads(self._totals.of_all())
            yield from self._table(rows, row_texts(rows, self._name_of), 0, len(rows.tid))
            return
        rows = self._totals.thread_rows()
        texts = row_texts(rows, self._name_of)
        ends = {tid: row for row, tid in enumerate(rows.tid.tolist(), 1)}
        begins = dict(zip(ends, (0, *ends.values()), strict=False))
        for tid, own in sorted(events.items(), key=lambda item: item[1]):
            yield f" {self._comm_of(tid)} ({tid}), {own} events, {100 * own / max(count, 1):.1f}%{self._further_sums(tid)}"
            yield from self._table(rows, texts, begins.get(tid, 0), ends.get(tid, 0))

    def _further_sums(self, tid: int) -> str:
        """Return the page faults and the run time of a thread."""
        faults = ((name, self._totals.faults.get(name, {}).get(tid, 0)) for name in ("majfault", "minfault"))
        texts = [f", {count} {name}s" for name, count in faults if count]
        if self._totals.run_times:
            texts.append(f", {self._totals.run_times.get(tid, 0) / _MILLISECOND:.3f} msec")
        return "".join(texts)

    def _table(self, rows: ThreadRows, texts: list[str], begin: int, end: int) -> Iterator[str]:
        """Yield the table of some rows. texts: of all rows (row_texts)."""
        yield ""
        yield from _HEAD
        for row in range(begin, min(end, begin + (self._options.most or end))):
            yield texts[row]
            errnos = rows.errnos.get(row, {}) if self._options.errnos else {}
            yield from (f"\t\t\t\t{error_name(number).name}: {count}" for number, count in sorted(errnos.items()))
        yield from ("", "")


def row_texts(rows: ThreadRows, name_of: Callable[[int], str]) -> list[str]:
    """Return the lines of many rows: each distinct text of a column is formatted once."""
    times = _FixedPoint(3), _FixedPoint(2)
    columns = (
        _Texts(lambda number: f"   {name_of(number):<15s}").of(rows.number),
        _Texts(lambda count: f" {count:8d}").of(rows.calls),
        _Texts(lambda count: f" {count:6d}").of(rows.errors),
        *(times[0].of(column / _MILLISECOND) for column in (rows.total, rows.least, rows.means(), rows.most)),
        [f"{text}%" for text in times[1].of(rows.relative_errors())],
    )
    return list(map("".join, zip(*columns, strict=True)))


class _Texts(dict[int, str]):
    """The text of each number. form: returns that of one number."""

    def __init__(self, form: Callable[[int], str]) -> None:
        self._form = form

    def __missing__(self, number: int) -> str:
        text = self[number] = self._form(number)
        return text

    def of(self, numbers: NDArray[np.int64]) -> list[str]:
        """Return the texts of numbers."""
        return [self[number] for number in numbers.tolist()]


class _FixedPoint:
    """Numbers with some decimals, nine letters wide, after a space."""

    def __init__(self, decimals: int) -> None:
        self._scale = 10**decimals
        self._form = f" {{:9.{decimals}f}}".format
        self._texts = _Texts(lambda units: self._form(units / self._scale))

    def of(self, values: NDArray[np.float64]) -> list[str]:
        """Return the texts of numbers. Numbers with the same last decimal have one text."""
        scaled = values * self._scale
        units = np.rint(scaled)
        # close to the middle between two texts, the number itself decides
        is_close = (np.abs(np.abs(scaled - units) - _HALF) < _CLOSE) | ~((values >= 0) & (values < _LARGE))
        texts = self._texts.of(np.where(is_close, 0, units).astype(np.int64))
        for row in rows_where(is_close).tolist():
            texts[row] = self._form(values[row])
        return texts


def percentile_lines(totals: Totals, name_of: Callable[[int], str], most: int = 0, *, histograms: bool = False) -> Iterator[str]:
    """Yield the table of all calls by their total time.

    Args:
        totals: the sums.
        name_of: returns the name of a call.
        most: rows; 0 for all.
        histograms: print the histogram of each call below the table.
    """
    calls = totals.of_all()
    wall = max(totals.last_time - totals.first_time, 1)
    yield from ("", f" {sum(call.calls for call in calls)} calls in {wall / _SECOND:.3f} s:", "", *_PERCENTILE_HEAD)
    for call in calls[: most or len(calls)]:
        times = (*(call.percentile(share) for share in (0.5, 0.9, 0.99)), call.most)
        columns = "".join(f" {value / _MILLISECOND:9.3f}" for value in times)
        share = 100 * call.total / wall
        yield f"   {name_of(call.number):<15s} {call.calls:8d}  {call.errors:6d} {call.total / _MILLISECOND:9.3f} {share:6.2f}{columns}"
    for call in calls[: most or len(calls)] if histograms else ():
        yield from _histogram(call, name_of)


def _histogram(call: CallTotals, name_of: Callable[[int], str]) -> Iterator[str]:
    """Yield the counts of calls by powers of two of their times."""
    counts: dict[int, int] = {}
    for bucket, count in call.buckets.items():
        counts[bucket // _PARTS] = counts.get(bucket // _PARTS, 0) + count
    yield from ("", f" {name_of(call.number)}: {call.calls} calls, {call.total / _MILLISECOND:.3f} msec")
    largest = max(counts.values(), default=1)
    for power in range(min(counts, default=0), max(counts, default=-1) + 1):
        count = counts.get(power, 0)
        bar = "#" * -(-_BAR * count // largest)
        yield f"   {_time(2**power):>8s} .. {_time(2 ** (power + 1)):>8s} {count:9d} {bar}".rstrip()


def _time(nanoseconds: int) -> str:
    """Return a time with its unit, three digits."""
    for size, unit in _UNITS:
        if nanoseconds >= size:
            return f"{nanoseconds / size:.3g} {unit}"
    return f"{nanoseconds} ns"


def named_lines(named: NamedTotals, most: int = 0) -> Iterator[str]:
    """Yield the table of all names by their total time. most: rows; 0 for all."""
    calls = named.totals.of_all()
    wall = _wall(named)
    yield from ("", f" {sum(call.calls for call in calls)} calls with a {named.kind} in {wall / _SECOND:.3f} s:", "")
    yield from (line.format(named.kind) for line in _NAMED_HEAD)
    for call in calls[: most or len(calls)]:
        times = "".join(f" {value / _MILLISECOND:9.3f}" for value in (call.percentile(0.5), call.percentile(0.99), call.most))
        yield (
            f"   {call.calls:8d}  {call.errors:6d} {call.total / _MILLISECOND:9.3f} {100 * call.total / wall:6.2f}{times}"
            f" {named.bytes[call.number]:12d}  {named.names[call.number]}"
        )


def named_json(named: NamedTotals) -> Iterator[str]:
    """Yield an object for each name; times in nanoseconds."""
    import json  # most runs print text

    wall = _wall(named)
    for call in named.totals.of_all():
        name, size = named.names[call.number], named.bytes[call.number]
        yield json.dumps({named.kind: name, **call_values(call, wall), "bytes": size})


def _wall(named: NamedTotals) -> int:
    return max(named.totals.last_time - named.totals.first_time, 1)


def call_values(call: CallTotals, wall: int) -> dict[str, Any]:
    """Return the sums of a call for JSON; times in nanoseconds."""
    return {
        "calls": call.calls,
        "errors": {error_name(number).name: count for number, count in sorted(call.errnos.items())},
        "total": call.total,
        "share": call.total / wall,
        "min": call.least,
        "mean": call.mean,
        "p50": call.percentile(0.5),
        "p99": call.percentile(0.99),
        "max": call.most,
    }


class SlowestCalls:
    """Keeps the lines of the calls that took longest.

    Args:
        lines: makes the lines.
        options: which calls count, and how many are kept.
    """

    def __init__(self, lines: TraceLines, options: LineOptions) -> None:
        self._lines = lines
        self._options = options
        self._kept: list[tuple[int, int, bytes]] = []  # minus the duration, order, line
        self._count = 0

    def lines(self, paired: PairedEvents) -> Flat:
        """Take the calls of a batch; return no lines."""
        events, most = paired.events, self._options.slowest
        rows = rows_where((events.kind == EXIT) & (paired.entry != NO_ROW))
        if self._options.failures_only:
            rows = rows[is_error(events.result[rows])]
        took = events.time[rows] - events.time[paired.entry[rows]]
        least = -self._kept[-1][0] if len(self._kept) == most else -1
        if len(rows) > most:
            least = max(least, int(np.partition(took, -most)[-most]) - 1)
        chosen = took > least
        rows, took = rows[chosen], took[chosen]
        kind = np.full(events.size, UNNUMBERED, np.uint8)
        kind[rows] = EXIT
        lines = self._lines.lines(paired._replace(events=events._replace(kind=kind))).lines()
        for duration, line in zip(took.tolist(), lines, strict=True):
            self._count += 1
            self._kept.append((-duration, self._count, line))
        self._kept = sorted(self._kept)[:most]
        return NO_LINES

    def rest(self) -> Flat:
        """Return the lines of the slowest calls, the slowest first."""
        return Flat([line for _, _, line in self._kept], 1)


_JSON_MILLISECOND = 1_000_000


class JsonCalls:
    """The objects of a stream of events, batch after batch. They have the times in nanoseconds, and numbers as the kernel has them.

    Args:
        options: which calls.
        calls: the texts of calls.
        names: the comms of threads.
    """

    def __init__(self, options: LineOptions, calls: CallTexts, names: ThreadNames) -> None:
        self._options = options
        self._calls = calls
        self._names = names

    def lines(self, paired: PairedEvents) -> Flat:
        """Return an object for each return of a batch."""
        import json  # most runs print text

        events = paired.events
        rows = rows_where(events.kind == EXIT)
        entry = paired.entry[rows]
        failed = is_error(events.result[rows])
        took = np.where(entry == NO_ROW, -1, events.time[rows] - events.time[entry])
        chosen = np.ones(len(rows), np.bool_)
        if self._options.failures_only:
            chosen &= failed
        if self._options.longer_than:
            chosen &= took > self._options.longer_than * _JSON_MILLISECOND
        rows, entry, failed, took = rows[chosen], entry[chosen], failed[chosen], took[chosen]
        comms = self._names.comm_ids(events.tid[rows], events.key[rows]).tolist()
        known = rows_where(entry != NO_ROW)
        texts: list[str | None] = [None] * len(rows)
        for index, text in zip(known.tolist(), self._calls.texts(events, entry[known], self._names), strict=True):
            texts[index] = text
        columns = (events.time, events.pid, events.tid, events.cpu, events.number, events.result)
        lines = []
        for index, (time, pid, tid, cpu, number, result) in enumerate(zip(*(column[rows].tolist() for column in columns), strict=True)):
            has_entry = texts[index] is not None
            value: dict[str, Any] = {
                "time": time - took[index].item() if has_entry else None,
                "duration": took[index].item() if has_entry else None,
                "pid": pid,
                "tid": tid,
                "comm": self._names.comms[comms[index]],
                "cpu": cpu,
                "call": self._calls.name(number),
                "arguments": self._arguments(paired, int(entry[index])) if has_entry else None,
                "text": texts[index],
                "result": result,
                "error": error_name(-result).name if failed[index] else None,
            }
            lines.append(json.dumps(value).encode() + b"\n")
        return Flat(lines, 1)

    def rest(self) -> Flat:
        """Return the objects that were kept for the end: none."""
        return Flat([], 1)

    def _arguments(self, paired: PairedEvents, row: int) -> dict[str, Any]:
        """Return name -> number of each argument, or its string."""
        strings = self._calls.strings.get(row, {})
        values = paired.events.arguments[row].tolist()
        names = self._calls.argument_names(int(paired.events.number[row]))
        return {name: strings.get(index, values[index]) for index, name in enumerate(names)}


def json_summary(totals: Totals, name_of: Callable[[int], str], comm_of: Callable[[int], str], *, of_all: bool) -> Iterator[str]:
    """Yield an object for each call of each thread, or of all."""
    import json  # most runs print text

    wall = max(totals.last_time - totals.first_time, 1)
    if of_all:
        for call in totals.of_all():
            yield json.dumps({"call": name_of(call.number), **call_values(call, wall)})
        return
    for tid, calls in totals.by_thread().items():
        for call in calls:
            yield json.dumps({"tid": tid, "comm": comm_of(tid), "call": name_of(call.number), **call_values(call, wall)})
