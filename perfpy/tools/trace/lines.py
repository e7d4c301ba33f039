"""The lines of perf trace: calls at their return, interrupted calls, calls that do not return; and callchains below them.

Forms, learnt from the output of perf 6.12 and 7.3:

     0.257 ( 0.005 ms): ls/26357 openat(dfd: CWD, filename: 0xbbee0b1, flags: RDONLY|CLOEXEC)          = 3
    12.924 (         ): perfpy/26973 mmap(len: 1048576, prot: READ|WRITE, flags: PRIVATE|ANONYMOUS)     ...
    12.924 ( 0.022 ms): perfpy/26973  ... [continued]: mmap())                                             = 0x7fc04a929000
         ? (         ): ls/26357  ... [continued]: execve())                                           = 0
"""

from __future__ import annotations

import os

import numpy as np

from perfpy.abi.columns import Columns, Growing, Ragged, distinct, rows_where
from perfpy.abi.flags import MISC_KERNEL, PerfType, SampleType, SoftwareId
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.perfdata.tracepoint_rows import trace_columns
from perfpy.symbols.dso import UNKNOWN_NAME
from perfpy.symbols.interning import IdTable
from perfpy.tools.trace.argument_text import ArgumentRows, Process
from perfpy.tools.trace.call_sums import is_error
from perfpy.tools.trace.calls import ENTER, EXIT, NO_CALL, NO_ROW, OTHER, RawWords, int_column, slices_of
from perfpy.untrusted.text import one_line, one_line_bytes
from perfpy.views.pieces import Flat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.event_format import EventFormat, TraceField, Tracing
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.trace.call_sums import Totals
    from perfpy.tools.trace.call_text import CallTexts
    from perfpy.tools.trace.calls import CallEvents, PairedEvents, ThreadNames
    from perfpy.views.page.lanes import Lanes

    Texts = NDArray[np.object_]


_MILLISECOND: Final = 1e6  # nanoseconds
_LONGEST_COMM: Final = 14
_MOST_THREADS: Final = 1 << 16  # whose texts are kept
_LOW: Final = 0xFFFFFFFF
_LAST_TID: Final = 0x7FFFFFFF
NO_LINES: Final = Flat([], 1)
_RETURNED, _CONTINUED, _INTERRUPTED, _ENDED = range(4)  # kinds of lines


class LineOptions(NamedTuple):
    """Which lines to print, and how.

    Attributes:
        absolute_time: print the time of the clock, not since the first event.
        shows_comm, shows_cpu: print the comm, the CPU.
        failures_only: print only calls that failed.
        longer_than: print only calls that took more than this many milliseconds; 0 for all.
        as_json: print an object for each return instead (perfpy.tools.trace.summary_tables).
        has_calls: system calls are traced; without them, lines of other events have no duration.
        slowest: print only this many calls, those that took longest, at the end; 0 for all.
        has_least_depth: print only calls with enough frames, which are known at the return.
        lanes: collect the calls here instead of printing them.
    """

    absolute_time: bool = False
    shows_comm: bool = True
    shows_cpu: bool = False
    failures_only: bool = False
    longer_than: float = 0.0
    as_json: bool = False
    has_calls: bool = True
    slowest: int = 0
    has_least_depth: bool = False
    lanes: Lanes | None = None

    @property
    def has_interruptions(self) -> bool:
        """Whether calls may be printed before they return."""
        return not (self.failures_only or self.longer_than or self.slowest or self.has_least_depth)


class _PlacedLines(NamedTuple):
    """Some lines.

    Attributes:
        position: int64[n], the order among all lines: twice the row, one less before it.
        heads: object[n], the bytes before the thread.
        bodies: object[n], the rest, with the line feed.
    """

    position: NDArray[np.int64]
    heads: NDArray[np.object_]
    bodies: NDArray[np.object_]

    def with_stacks(self, stacks: NDArray[np.object_]) -> _PlacedLines:
        """Return the lines followed by callchains."""
        return self._replace(bodies=self.bodies + stacks)


class TraceLines:
    """The lines of a stream of events, batch after batch.

    Args:
        options: which lines, and how.
        calls: the texts of calls.
        names: the comms of threads.
        ending: numbers of calls that do not return.
        others: the texts of samples of other events.
        stacks: the texts of callchains.
    """

    def __init__(
        self,
        options: LineOptions,
        calls: CallTexts,
        names: ThreadNames,
        ending: NDArray[np.int64],
        others: OtherEvents | None = None,
        stacks: StackTexts | None = None,
    ) -> None:
        self._options = options
        self._calls = calls
        self._names = names
        self._ending = ending.tolist() or [NO_CALL]
        self._others_of = others
        self._stacks = stacks if stacks is not None and stacks.has_stacks else None
        self._base: int | None = None
        self._threads: dict[int, str] = {}
        self._keys = LineKeys()
        self._known = KnownLines()
        self._comms = names.comms

    @property
    def base(self) -> int | None:
        """The time that is printed as 0; None before the first event."""
        return self._base

    def lines(self, paired: PairedEvents) -> Flat:
        """Return the lines of a batch, in order."""
        return self.placed_lines(paired)[1]

    def placed_lines(self, paired: PairedEvents) -> tuple[NDArray[np.int64], Flat]:
        """Return the lines of a batch, in order, and the position of each: twice its row, one less for a line before the row."""
        events = paired.events
        if self._base is None and events.size:
            self._base = 0 if self._options.absolute_time else int(events.time[0])
        if self._names.comms is not self._comms:  # the indexes of comms, which are in the keys, have a new meaning
            self._comms = self._names.comms
            self._known.forget()
            self._threads.clear()
        parts = [*self._returns(paired)]
        if self._options.has_interruptions:
            parts += [self._interrupted(paired), self._ended(paired)]
        parts.append(self._others(paired))
        parts = [part for part in parts if len(part.position)]
        if not parts:
            return np.zeros(0, np.int64), NO_LINES
        position = np.concatenate([part.position for part in parts])
        texts = np.empty((len(position), 2), object)
        texts[:, 0] = np.concatenate([part.heads for part in parts])
        texts[:, 1] = np.concatenate([part.bodies for part in parts])
        if len(parts) > 1:
            order = np.argsort(position, kind="stable")
            position, texts = position[order], texts[order]
        return position, Flat(texts.ravel().tolist(), 2)

    def rest(self) -> Flat:
        """Return the lines that were kept for the end: none."""
        return NO_LINES

    def _returns(self, paired: PairedEvents) -> tuple[_PlacedLines, _PlacedLines]:
        """Return two kinds of lines: of whole calls, and of returns whose entry was printed before or is unknown."""
        events = paired.events
        rows = rows_where(events.kind == EXIT)
        entry = paired.entry[rows]
        is_rest = entry == NO_ROW
        if self._options.has_interruptions:
            is_rest |= paired.was_interrupted[entry]
        rows, entry, is_rest = self._chosen(events, rows, entry, is_rest)
        stacks = np.zeros(0, object)
        if self._stacks is not None:
            stacks, is_deep = self._stacks.stacks(events.row[rows], are_calls=True)
            rows, entry, is_rest, stacks = rows[is_deep], entry[is_deep], is_rest[is_deep], stacks[is_deep]
        whole, rest = rows_where(~is_rest), rows_where(is_rest)
        returned, continued = self._returned(paired, rows[whole], entry[whole]), self._continued(paired, rows[rest], entry[rest])
        if self._stacks is None:
            return returned, continued
        return returned.with_stacks(stacks[whole]), continued.with_stacks(stacks[rest])

    def _returned(self, paired: PairedEvents, rows: NDArray[np.int64], entry: NDArray[np.int64]) -> _PlacedLines:
        """Return the lines of calls that were not interrupted."""
        events = paired.events
        heads = self._heads(events, entry, rows, rows)

        def make(chosen: NDArray[np.intp]) -> list[str]:
            threads = self._thread_texts(events, rows[chosen], rows[chosen])
            calls = self._calls.texts(events, entry[chosen], self._names)
            results = self._calls.results(paired, rows[chosen], self._names)
            return list(map("%s%-69s = %s".__mod__, zip(threads, calls, results, strict=True)))

        numbers, varies = self._calls.key_numbers(events, entry)
        varies |= self._calls.vary_results(events, rows, entry)
        result, number = events.result[rows].view(np.uint64), events.number[rows].view(np.uint64)
        numbers.append(number)  # that of the entry is another one if samples between them were lost
        keys = self._keys.keys([_RETURNED, *self._thread_numbers(events, rows, rows), *numbers, result])
        return _PlacedLines(2 * rows, heads, self._known.texts(keys, varies, make))

    def _continued(self, paired: PairedEvents, rows: NDArray[np.int64], entry: NDArray[np.int64]) -> _PlacedLines:
        """Return the ends of calls that were interrupted, or whose entry is unknown."""
        events = paired.events
        heads = self._heads(events, entry, rows, rows)

        def make(chosen: NDArray[np.intp]) -> list[str]:
            threads = self._thread_texts(events, rows[chosen], rows[chosen])
            ends = [f" ... [continued]: {name}())" for name in self._calls.names(events.number[rows[chosen]])]
            results = self._calls.results(paired, rows[chosen], self._names)
            return list(map("%s%-69s = %s".__mod__, zip(threads, ends, results, strict=True)))

        number, result = events.number[rows].view(np.uint64), events.result[rows].view(np.uint64)
        keys = self._keys.keys([_CONTINUED, *self._thread_numbers(events, rows, rows), number, result])
        return _PlacedLines(2 * rows, heads, self._known.texts(keys, self._calls.vary_results(events, rows, None), make))

    def _interrupted(self, paired: PairedEvents) -> _PlacedLines:
        """Return the calls that are printed before they return."""
        rows = rows_where(paired.interrupter != NO_ROW)
        moment = paired.interrupter[rows]
        return _PlacedLines(2 * moment - 1, *self._entered(paired, _INTERRUPTED, rows, moment, "%s%-66s ..."))

    def _ended(self, paired: PairedEvents) -> _PlacedLines:
        """Return the calls that do not return."""
        events = paired.events
        rows = np.concatenate([rows_where(events.number[paired.carried :] == number) for number in self._ending]) + paired.carried
        rows = np.sort(rows[events.kind[rows] == ENTER])
        return _PlacedLines(2 * rows, *self._entered(paired, _ENDED, rows, rows, "%s%-69s = ?"))

    def _entered(
        self, paired: PairedEvents, kind: int, rows: NDArray[np.int64], moment: NDArray[np.int64], form: str
    ) -> tuple[NDArray[np.object_], NDArray[np.object_]]:
        """Return heads and bodies of calls without a result. moment: the rows at whose time the lines are printed."""
        events = paired.events

        def make(chosen: NDArray[np.intp]) -> list[str]:
            threads = self._thread_texts(events, rows[chosen], moment[chosen])
            return list(map(form.__mod__, zip(threads, self._calls.texts(events, rows[chosen], self._names), strict=True)))

        numbers, varies = self._calls.key_numbers(events, rows)
        keys = self._keys.keys([kind, *self._thread_numbers(events, rows, moment), *numbers])
        return self._heads(events, rows, None, rows), self._known.texts(keys, varies, make)

    def _others(self, paired: PairedEvents) -> _PlacedLines:
        """Return the samples of other events."""
        events = paired.events
        rows = rows_where(events.kind == OTHER)
        others = self._others_of
        if others is None or not len(rows):
            return _PlacedLines(np.zeros(0, np.int64), np.zeros(0, object), np.zeros(0, object))

        def make(chosen: NDArray[np.intp]) -> list[str]:
            threads = self._thread_texts(events, rows[chosen], rows[chosen])
            return list(map("%s%s".__mod__, zip(threads, others.texts(paired, rows[chosen]), strict=True)))

        varies = np.ones(len(rows), np.bool_)
        bodies = self._known.texts(np.zeros(len(rows), np.uint64), varies, make)
        times, cpus = events.time[rows] - (self._base or 0), events.cpu[rows] if self._options.shows_cpu else None
        heads = line_heads(times, None, cpus, without=NO_DURATION if self._options.has_calls else b"")
        faults = rows_where(others.are_faults(events.row[rows]))
        if len(faults):
            heads[faults] = line_heads(times[faults], np.zeros(len(faults), np.int64), None if cpus is None else cpus[faults])
        lines = _PlacedLines(2 * rows, heads, bodies)
        return lines if self._stacks is None else lines.with_stacks(self._stacks.stacks(events.row[rows], are_calls=False)[0])

    def _chosen(
        self, events: CallEvents, rows: NDArray[np.int64], entry: NDArray[np.int64], is_rest: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
        """Return the returns and entries that the options let through."""
        options = self._options
        if options.has_interruptions:
            return rows, entry, is_rest
        chosen = np.ones(len(rows), np.bool_)
        if options.failures_only:
            chosen &= is_error(events.result[rows])
        if options.longer_than:
            took = np.where(entry == NO_ROW, 0, events.time[rows] - events.time[entry])
            chosen &= took > options.longer_than * _MILLISECOND
        return rows[chosen], entry[chosen], is_rest[chosen]

    def _heads(
        self, events: CallEvents, entry: NDArray[np.int64], rows: NDArray[np.int64] | None, cpus_of: NDArray[np.int64]
    ) -> NDArray[np.object_]:
        """Return the texts before the thread.

        Args:
            events: the batch.
            entry: the rows whose time is printed; -1 for an unknown time.
            rows: the rows of the returns; None without.
            cpus_of: the rows whose CPU is printed.
        """
        unknown = entry == NO_ROW
        began = events.time[entry]
        if unknown.any():
            began = np.where(unknown, self._base or 0, began)
        durations = None if rows is None else np.where(unknown, 0, events.time[rows] - began)
        return line_heads(began - (self._base or 0), durations, events.cpu[cpus_of] if self._options.shows_cpu else None, unknown)

    def _thread_numbers(self, events: CallEvents, rows: NDArray[np.int64], moment: NDArray[np.int64]) -> list[NDArray[np.uint64]]:
        """Return the columns that decide the text of a thread."""
        tids = events.tid[rows]
        numbers = [tids.view(np.uint32).astype(np.uint64)]
        if self._options.shows_comm:
            numbers.append(self._names.comm_ids(tids, events.key[moment]).astype(np.uint64))
        return numbers

    def _thread_texts(self, events: CallEvents, rows: NDArray[np.int64], moment: NDArray[np.int64]) -> list[str]:
        """Return "COMM/TID " of each row."""
        tids = events.tid[rows]
        if not self._options.shows_comm:
            return list(map("%d ".__mod__, tids.tolist()))
        comms = self._names.comm_ids(tids, events.key[moment]).astype(np.int64)
        packed = (comms << 32) | (tids.astype(np.int64) & _LOW)
        names, known = self._names.comms, self._threads
        if len(known) > _MOST_THREADS:
            known.clear()
        keys = packed.tolist()
        for key in set(keys).difference(known):
            tid = key & _LOW
            known[key] = f"{names[key >> 32][:_LONGEST_COMM]}/{tid if tid <= _LAST_TID else tid - _LOW - 1} "
        return list(map(known.__getitem__, keys))


_MICROSECOND: Final = 1000
_TIE: Final = 500
_LONGEST_EXACT: Final = 10**16  # nanoseconds: the error of a double is smaller than one of them
_WIDEST: Final = 10**6  # milliseconds with the width of the column
_MOST_TEXTS: Final = 1 << 16  # milliseconds of one batch that are made to text once
_LONG: Final = 100_000  # microseconds: a duration that is wider than usual
_THOUSAND: Final = np.array([b"%03d" % number for number in range(1000)], "S3")
_HUNDRED: Final = np.array([b"%2d." % number for number in range(100)], "S3")
_NO_TIME: Final = b"         ? "
NO_DURATION: Final = b"(         ): "


def _microseconds(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return times in ns as the microseconds that C prints with %.3f of milliseconds: ties are decided by the double."""
    whole: NDArray[np.int64] = (times + _TIE) // _MICROSECOND
    for row in rows_where(times % _MICROSECOND == _TIE).tolist():
        whole[row] = int((b"%.3f" % (int(times[row]) / _MILLISECOND)).replace(b".", b""))
    return whole


def _joined(columns: Sequence[NDArray[np.bytes_] | bytes], count: int) -> Texts:
    """Return the columns' texts, which have no trailing NULs, side by side."""
    arrays: list[Any] = [np.asarray(column) for column in columns]
    rows = np.empty(count, np.dtype([(f"f{index}", column.dtype) for index, column in enumerate(arrays)]))
    for index, column in enumerate(arrays):
        rows[f"f{index}"] = column
    texts: Texts = rows.view(f"S{rows.dtype.itemsize}").astype(object)
    return texts


def _time_columns(times: NDArray[np.int64]) -> list[NDArray[np.bytes_] | bytes] | None:
    """Return "%10.3f " of times, each text as wide as the others; None if they differ in width."""
    low, high = int(times.min()), int(times.max())
    if low < 0 or high >= _LONGEST_EXACT:
        return None
    micros = _microseconds(times)
    millis = micros // _MICROSECOND
    first, last = int(millis.min()), int(millis.max())
    if last - first >= _MOST_TEXTS or (last >= _WIDEST and len(str(first)) != len(str(last))):
        return None
    texts = np.array([b"%6d." % number for number in range(first, last + 1)])
    return [texts[millis - first], _THOUSAND[micros - millis * _MICROSECOND], b" "]


def line_heads(
    times: NDArray[np.int64],
    durations: NDArray[np.int64] | None,
    cpus: NDArray[np.int32] | None,
    unknown: NDArray[np.bool_] | None = None,
    *,
    without: bytes = NO_DURATION,
) -> Texts:
    """Return the beginnings of lines.

    Args:
        times: ns since the first event.
        durations: ns; None for lines without one.
        cpus: to print; None for none.
        unknown: the lines whose time and duration are unknown.
        without: the text in place of durations.
    """
    columns = _time_columns(times) if len(times) and (durations is None or _are_usual(durations)) else None
    heads = _slow_heads(times, durations, cpus, without) if columns is None else _usual_heads(columns, times, durations, cpus, without)
    for row in () if unknown is None else rows_where(unknown).tolist():
        heads[row] = _NO_TIME + (b"" if cpus is None else b"[%03d] " % cpus[row]) + NO_DURATION
    return heads


def _are_usual(durations: NDArray[np.int64]) -> bool:
    return int(durations.min()) >= 0 and int(durations.max()) < _LONGEST_EXACT


def _usual_heads(
    columns: list[NDArray[np.bytes_] | bytes],
    times: NDArray[np.int64],
    durations: NDArray[np.int64] | None,
    cpus: NDArray[np.int32] | None,
    without: bytes,
) -> Texts:
    if cpus is not None:
        if len(cpus) and not 0 <= int(cpus.min()) <= int(cpus.max()) < len(_THOUSAND):
            return _slow_heads(times, durations, cpus, without)
        columns += [b"[", _THOUSAND[cpus], b"] "]
    if durations is None:
        return _joined([*columns, without] if without else columns, len(times))
    micros = _microseconds(durations)
    short = np.minimum(micros, _LONG - 1)
    whole = short // _MICROSECOND
    heads = _joined([*columns, b"(", _HUNDRED[whole], _THOUSAND[short - whole * _MICROSECOND], b" ms): "], len(times))
    wide = rows_where(micros >= _LONG)
    if len(wide):
        heads[wide] = _slow_heads(times[wide], durations[wide], None if cpus is None else cpus[wide], without)
    return heads


def _slow_heads(times: NDArray[np.int64], durations: NDArray[np.int64] | None, cpus: NDArray[np.int32] | None, without: bytes) -> Texts:
    """Return heads of any width, a line at a time."""
    parts = [map(b"%10.3f ".__mod__, (times / _MILLISECOND).tolist())]
    if cpus is not None:
        parts.append(map(b"[%03d] ".__mod__, cpus.tolist()))
    if durations is None:
        parts.append(map(without.__add__, [b""] * len(times)))
    else:
        parts.append(map(b"(%6.3f ms): ".__mod__, (durations / _MILLISECOND).tolist()))
    heads = np.empty(len(times), object)
    heads[:] = list(map(b"".join, zip(*parts, strict=True)))
    return heads


_MOST_LINES: Final = 1 << 17  # that are kept
_MOST_NUMBERS: Final = 32  # columns that decide a text
_LOW_BITS: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


class LineKeys:
    """Computes the keys of lines.

    A key is a sum of the line's numbers, 32 bits at a time, each multiplied by a random odd number, so that nobody can choose arguments
    whose line is taken for another one.
    """

    def __init__(self) -> None:
        self._factors = np.frombuffer(os.urandom(16 * _MOST_NUMBERS), np.uint64) | np.uint64(1)

    def keys(self, numbers: Sequence[NDArray[np.uint64] | int]) -> NDArray[np.uint64]:
        """Return the key of each line. numbers: the columns of numbers that decide the text; a number stands for a whole column."""
        key = np.zeros(1, np.uint64)
        for index, column in enumerate(numbers):
            low, high = self._factors[2 * index], self._factors[2 * index + 1]
            if isinstance(column, int):
                key = key + np.full(1, column, np.uint64) * low
            else:
                key = key + (column & _LOW_BITS) * low
                if int(column.max(initial=0)) > int(_LOW_BITS):
                    key += (column >> _HALF) * high
        return key


class KnownLines:
    """The texts of lines by their keys, as bytes with a line feed."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all texts."""
        self._table = IdTable()
        self._texts = Growing(object)

    def texts(
        self, keys: NDArray[np.uint64], varies: NDArray[np.bool_], make: Callable[[NDArray[np.intp]], list[str]]
    ) -> NDArray[np.object_]:
        """Return the text of each line.

        Args:
            keys: of the lines.
            varies: the lines whose text depends on more than the key.
            make: returns the texts of some lines.
        """
        if len(self._texts.values) > _MOST_LINES:
            self.forget()
        texts = np.empty(len(keys), object)
        varying = rows_where(varies)
        if len(varying):
            texts[varying] = _as_lines(make(varying))
        same = rows_where(~varies) if len(varying) else np.arange(len(keys))
        if len(same):
            ids, new = self._table.ids_and_new(keys[same])
            if len(new):
                made = np.empty(len(new), object)
                made[:] = _as_lines(make(same[new]))
                self._texts.append(made)
            texts[same] = self._texts.values[ids]
        return texts


def _as_lines(texts: list[str]) -> list[bytes]:
    """Return the texts as bytes, each with one line feed at its end."""
    data = "\n".join([*texts, ""]).encode("utf-8", "surrogateescape")
    if b"\r" not in data:
        lines = data.splitlines(keepends=True)
        if len(lines) == len(texts):
            return lines
    return [one_line_bytes(text.encode("utf-8", "surrogateescape")) + b"\n" for text in texts]


_FAULTS: Final = {SoftwareId.PAGE_FAULTS_MAJ: "majfault", SoftwareId.PAGE_FAULTS_MIN: "minfault"}
_PROCESS = "pid"  # the end of the names of fields that are processes


def fault_name(event: FileEvent, *, is_recorded: bool = False) -> str:
    """Return how perf trace calls a page fault of this event; "" for other events.

    is_recorded: of a recording, in which all page faults of one event are minor ones, as in perf.
    """
    if event.attr.type != PerfType.SOFTWARE:
        return ""
    return "minfault" if is_recorded and event.attr.config == SoftwareId.PAGE_FAULTS else _FAULTS.get(event.attr.config, "")


class OtherEvents:
    """The texts of samples that are no system calls.

    The text is NAME(FIELD: VALUE, ...) for tracepoints, NAME() for the rest. As in perf trace, fields that are 0 are omitted, strings
    stand between quotes, and processes have their comm.

    Args:
        events: of the source.
        tracing: the formats of its tracepoints.
        names: the comms of threads.
        stacks: the texts of page faults; None without.
        is_recorded: of a recording.
    """

    def __init__(
        self,
        events: Sequence[FileEvent],
        tracing: Tracing | None,
        names: ThreadNames,
        stacks: StackTexts | None = None,
        *,
        is_recorded: bool = False,
    ) -> None:
        self._stacks = stacks
        self._fault_names = [fault_name(event, is_recorded=is_recorded) for event in events]
        self._faults = np.array([name != "" for name in self._fault_names], np.bool_)
        self._events = events
        self._tracing = tracing
        self._names = names
        self._batch: Batch | None = None

    def begin_batch(self, batch: Batch) -> None:
        """Take the samples of the next batch."""
        self._batch = batch

    def are_faults(self, samples: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which samples are page faults."""
        assert self._batch is not None
        return self._faults[self._batch.event[samples]] if self._stacks is not None else np.zeros(len(samples), np.bool_)

    def texts(self, paired: PairedEvents, rows: NDArray[np.int64]) -> list[str]:
        """Return the text of each row. rows: of samples of other events."""
        assert self._batch is not None
        texts = [""] * len(rows)
        samples = paired.events.row[rows]
        event = self._batch.event[samples]
        for index in distinct(event).tolist():
            chosen = rows_where(event == index)
            of_event = self._of_event(self._events[index], paired, rows[chosen], samples[chosen])
            for position, text in zip(chosen.tolist(), of_event, strict=True):
                texts[position] = text
        return texts

    def _of_event(self, event: FileEvent, paired: PairedEvents, rows: NDArray[np.int64], samples: NDArray[np.int64]) -> Sequence[str]:
        name = self._fault_names[event.index]
        if name and self._stacks is not None:
            return self._stacks.faults(samples, name)
        form = self._format(event)
        if form is None or self._batch is None or "raw" not in self._batch.columns:
            return [f"{event.name}()"] * len(rows)
        raw: Ragged = self._batch.columns["raw"].take(samples).gather()
        columns = trace_columns(form, raw, self._tracing.endian if self._tracing else "<")
        parts = [self._field_texts(field, columns[field.name], paired, rows) for field in form.fields]
        if not parts:
            return [f"{event.name}()"] * len(rows)
        return [f"{event.name}({', '.join(filter(None, of_row))})" for of_row in zip(*parts, strict=True)]

    def _format(self, event: FileEvent) -> EventFormat | None:
        if self._tracing is None or event.attr.type != PerfType.TRACEPOINT:
            return None
        try:
            return self._tracing.formats[event.attr.config]
        except (KeyError, ValueError):
            return None

    def _field_texts(self, field: TraceField, column: Any, paired: PairedEvents, rows: NDArray[np.int64]) -> list[str]:
        """Return NAME: VALUE of each row; "" for fields that are 0."""
        if isinstance(column, Ragged):
            return [f"{field.name}: {bytes(value).hex()}" if len(value) else "" for value in column]
        if column.dtype == object:
            return [f'{field.name}: "{one_line(text)}"' for text in column.tolist()]
        if column.ndim > 1:
            return [f"{field.name}: {value}" for value in column.tolist()]
        if field.name.endswith(_PROCESS):
            values = Process().texts_of(column.astype(np.int32), ArgumentRows(paired.events, rows, self._names, None))
        else:
            values = list(map(hex if field.is_pointer else str, column.tolist()))
        return [f"{field.name}: {text}" if value else "" for text, value in zip(values, column.tolist(), strict=True)]


RUN_TIME: Final = "sched:sched_stat_runtime"
_PID, _RUN_TIME = "pid", "runtime"


class EventSums:
    """Adds samples of faults and run times to the sums.

    Args:
        events: of the source.
        tracing: the formats of its tracepoints.
        totals: the sums.
        is_recorded: of a recording.
    """

    def __init__(self, events: Sequence[FileEvent], tracing: Tracing | None, totals: Totals, *, is_recorded: bool = False) -> None:
        self._totals = totals
        self._endian = tracing.endian if tracing is not None else "<"
        self._faults = {event.index: name for event in events if (name := fault_name(event, is_recorded=is_recorded))}
        self._times: dict[int, tuple[tuple[int, int], tuple[int, int]]] = {}
        for event in events if tracing is not None else ():
            if event.name == RUN_TIME and event.attr.type == PerfType.TRACEPOINT:
                form = tracing.formats[event.attr.config]  # type: ignore[union-attr]
                pid, took = form.field(_PID), form.field(_RUN_TIME)
                if pid is not None and took is not None:
                    self._times[event.index] = (pid.offset, pid.size), (took.offset, took.size)

    def add(self, batch: Batch) -> None:
        """Add the samples of a batch."""
        for index, name in self._faults.items():
            rows = rows_where(batch.event == index)
            self._totals.add_faults(name, int_column(batch.columns, "tid")[rows])
        for index, (pid, took) in self._times.items():
            rows = rows_where(batch.event == index)
            if len(rows) and "raw" in batch.columns:
                words = RawWords(slices_of(batch.columns["raw"]).take(rows), self._endian)
                self._totals.add_run_times(words.numbers(*pid), words.numbers(*took))


# Callchains below the lines of calls, and page faults: a frame a line, SYMBOL (FILE), as perf trace prints them.

_INDENT: Final = b" " * 39
_LOST: Final = np.uint64(0xFFFFFFFFFFFFFFFF)  # the address of an unknown caller
_FIELDS: Final = ("callchain", "cpumode", "ip")
_FAULT_FIELDS: Final = ("addr", "cpumode", "ip")


class StackLimits(NamedTuple):
    """Which callchains to print.

    Attributes:
        most: the most frames of a callchain.
        least: print only calls with this many frames.
        has_kernel: print the kernel's frames of system calls, too.
    """

    most: int = 127
    least: int = 0
    has_kernel: bool = True


class StackTexts:
    """The callchains and page faults of samples.

    Args:
        source: the samples.
        options: which callchains; None for none.
        has_faults: samples of page faults are printed.
    """

    def __init__(self, source: SampleSource, options: StackLimits | None, *, has_faults: bool = False) -> None:
        self._source = source
        self._options = options if source.has(SampleType.CALLCHAIN) else None
        self._has_faults = has_faults
        self._symbolizer: Symbolizer | None = None
        self._batch: Batch | None = None
        self._frames: list[bytes] = []  # the line of each frame

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that texts need."""
        return (*(_FIELDS if self._options else ()), *(_FAULT_FIELDS if self._has_faults else ()))

    @property
    def has_stacks(self) -> bool:
        """Whether callchains are printed."""
        return self._options is not None

    def begin(self, symbolizer: Symbolizer) -> FurtherColumns | None:
        """Use these symbols for the next batches; return what unwinds copied stacks, None without them."""
        from perfpy.analysis.callchains import user_callchains  # most recordings have no callchains
        from perfpy.debuginfo.inlined_frames import give_inlined

        self._symbolizer = symbolizer
        self._frames = []
        if symbolizer.inliner is None:
            give_inlined(symbolizer, unwound=self._source.has(SampleType.STACK_USER))
        return user_callchains(self._source, symbolizer, self._options.most) if self._options else None

    def begin_batch(self, batch: Batch) -> None:
        """Take the samples of the next batch."""
        self._batch = batch

    def stacks(self, samples: NDArray[np.int64], *, are_calls: bool) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
        """Return the lines of each sample's callchain, and whether it has enough frames."""
        from perfpy.analysis.callchains import whole_chains_of  # see begin()
        from perfpy.views.script.field_text import truncate_chains

        batch, symbolizer, options = self._batch, self._symbolizer, self._options
        assert batch is not None
        assert symbolizer is not None
        assert options is not None
        columns = batch.columns
        if not len(samples) or "callchain" not in columns:  # the batch may have samples of events without callchains alone
            return np.full(len(samples), b"", object), np.full(len(samples), options.least <= 0)
        chosen = Columns(len(samples), {name: columns[name].take(samples) for name in ("callchain", "user_frames") if name in columns})
        ids, counts = whole_chains_of(chosen.gather(), int_column(columns, "pid")[samples], batch.key[samples], symbolizer, options.most)
        if are_calls and not options.has_kernel:
            is_kernel = np.array([*(dso.kernel for dso in symbolizer.dsos), False], np.bool_)
            ids, counts = _kept(ids, counts, ~is_kernel[symbolizer.resolve().dso[ids]])
        if (lost := symbolizer.resolve().ip[ids] == _LOST).any():
            ids, counts = _kept(ids, counts, ~lost)
        if not self._source.has(SampleType.STACK_USER):  # the unwinder limits each part of a callchain itself
            ids, counts = truncate_chains(ids, counts, options.most)
        ids, counts = symbolizer.expand(ids, counts)
        lines = self._frame_lines(symbolizer)
        ends = np.cumsum(counts).tolist()
        own = [lines[frame] for frame in ids.tolist()]
        texts = np.empty(len(samples), object)
        texts[:] = [b"".join(own[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
        return texts, counts >= options.least

    def _frame_lines(self, symbolizer: Symbolizer) -> list[bytes]:
        """Return the line of each frame so far."""
        frames = symbolizer.resolve()
        symbols = symbolizer.symbols
        first = len(self._frames)
        for symbol, dso, address in zip(
            frames.symbol[first:].tolist(), frames.dso[first:].tolist(), frames.address[first:].tolist(), strict=True
        ):
            name = symbols.name(symbol) if symbol >= 0 else f"[{_hex(address) if dso >= 0 else 0}]"
            file = "inlined" if symbol >= 0 and symbols.is_inlined(symbol) else self._file(dso)
            self._frames.append(_INDENT + one_line(f"{name} ({file})").encode("utf-8", "surrogateescape") + b"\n")
        return self._frames

    def _file(self, dso: int) -> str:
        assert self._symbolizer is not None
        return self._symbolizer.dsos[dso].name if dso >= 0 else UNKNOWN_NAME

    def faults(self, samples: NDArray[np.int64], name: str) -> list[str]:
        """Return NAME [CODE] => FILE@ADDRESS of page faults."""
        batch, symbolizer = self._batch, self._symbolizer
        assert batch is not None
        assert symbolizer is not None
        columns = batch.columns
        pid, key, mode = int_column(columns, "pid")[samples], batch.key[samples], columns["cpumode"][samples]
        addresses = columns["addr"][samples] if "addr" in columns else np.zeros(len(samples), np.uint64)
        codes = symbolizer.frame_ids(pid, columns["ip"][samples], key, mode)
        targets = symbolizer.frame_ids(pid, addresses, key, mode)
        frames, symbols = symbolizer.resolve(), symbolizer.symbols
        texts = []
        levels = np.where(mode == MISC_KERNEL, "k", ".")
        rows = zip(codes.tolist(), targets.tolist(), addresses.tolist(), levels.tolist(), strict=True)
        for code, target, address, level in rows:
            symbol = int(frames.symbol[code])
            where = f"{symbols.name(symbol)}+{int(frames.symbol_offset[code]):#x}" if symbol >= 0 else _hex(int(frames.address[code]))
            dso = int(frames.dso[target])
            text = f"{self._file(dso)}@{_hex(int(frames.address[target]))} (d{level})" if dso >= 0 else f"0x{address:x} (?{level})"
            texts.append(one_line(f"{name} [{where}] => {text}"))
        return texts


def _kept(ids: NDArray[np.int32], counts: NDArray[np.int64], kept: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return callchains with some of their frames."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return ids[kept], np.bincount(rows[kept], minlength=len(counts)).astype(np.int64)


def _hex(number: int) -> str:
    """Return a number as C prints it by %#lx."""
    return f"{number:#x}" if number else "0"


class JoinedColumns:
    """Further columns by several sources, one after the other (perfdata.records.batches.FurtherColumns)."""

    def __init__(self, parts: Sequence[FurtherColumns]) -> None:
        self._parts = parts

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the parts need."""
        return tuple(dict.fromkeys(name for part in self._parts for name in part.fields))

    def extend(self, columns: Columns, event: NDArray[np.int32], key: NDArray[np.uint64]) -> Columns:
        """Return the columns with those of all parts."""
        for part in self._parts:
            columns = part.extend(columns, event, key)
        return columns
