"""The lines of perf trace: calls at their return, interrupted calls, and calls that do not return.

Forms, learnt from the output of perf 6.12 and 7.3:

     0.257 ( 0.005 ms): ls/26357 openat(dfd: CWD, filename: 0xbbee0b1, flags: RDONLY|CLOEXEC)          = 3
    12.924 (         ): perfpy/26973 mmap(len: 1048576, prot: READ|WRITE, flags: PRIVATE|ANONYMOUS)     ...
    12.924 ( 0.022 ms): perfpy/26973  ... [continued]: mmap())                                             = 0x7fc04a929000
         ? (         ): ls/26357  ... [continued]: execve())                                           = 0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.tracing.events import ENTER, EXIT, NO_CALL, OTHER
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import is_error
from perfpy.views.script.pieces import Flat
from perfpy.views.trace.known_lines import KnownLines, LineKeys
from perfpy.views.trace.line_heads import NO_DURATION, line_heads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.lanes import Lanes
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames
    from perfpy.views.trace.call_text import CallTexts
    from perfpy.views.trace.other_events import OtherEvents
    from perfpy.views.trace.stack_text import StackTexts

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
        as_json: print an object for each return instead (perfpy.views.trace.json_lines).
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
