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
from perfpy.tracing.events import ENTER, EXIT, OTHER
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import is_error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames
    from perfpy.views.trace.call_text import CallTexts

_MILLISECOND: Final = 1e6  # nanoseconds
_LONGEST_COMM: Final = 14
_MOST_THREADS: Final = 1 << 16  # whose texts are kept
_LOW: Final = 0xFFFFFFFF
_LAST_TID: Final = 0x7FFFFFFF
_NO_TIME, _NO_DURATION = "         ? ", "(         ): "


class LineOptions(NamedTuple):
    """Which lines to print, and how.

    Attributes:
        absolute_time: print the time of the clock, not since the first event.
        shows_comm, shows_cpu: print the comm, the CPU.
        failures_only: print only calls that failed.
        longer_than: print only calls that took more than this many milliseconds; 0 for all.
        as_json: print an object for each return instead (perfpy.views.trace.json_lines).
    """

    absolute_time: bool = False
    shows_comm: bool = True
    shows_cpu: bool = False
    failures_only: bool = False
    longer_than: float = 0.0
    as_json: bool = False

    @property
    def has_interruptions(self) -> bool:
        """Whether calls may be printed before they return."""
        return not (self.failures_only or self.longer_than)


class _PlacedLines(NamedTuple):
    """Some lines.

    Attributes:
        position: int64[n], the order among all lines: twice the row, one less before it.
        texts: the lines.
    """

    position: NDArray[np.int64]
    texts: list[str]


class TraceLines:
    """The lines of a stream of events, batch after batch.

    Args:
        options: which lines, and how.
        calls: the texts of calls.
        names: the comms of threads.
        ending: numbers of calls that do not return.
        event_texts: returns the texts of samples of other events, by rows of a batch.
    """

    def __init__(
        self,
        options: LineOptions,
        calls: CallTexts,
        names: ThreadNames,
        ending: NDArray[np.int64],
        event_texts: Callable[[PairedEvents, NDArray[np.int64]], Sequence[str]] | None = None,
    ) -> None:
        self._options = options
        self._calls = calls
        self._names = names
        self._ending = ending
        self._event_texts = event_texts
        self._base: int | None = None
        self._threads: dict[int, str] = {}

    def lines(self, paired: PairedEvents) -> list[str]:
        """Return the lines of a batch, in order, without line breaks."""
        events = paired.events
        if self._base is None and events.size:
            self._base = 0 if self._options.absolute_time else int(events.time[0])
        parts = [self._returned(paired), self._continued(paired)]
        if self._options.has_interruptions:
            parts += [self._interrupted(paired), self._ended(paired)]
        parts.append(self._others(paired))
        parts = [part for part in parts if part.texts]
        if len(parts) == 1:
            return parts[0].texts
        if not parts:
            return []
        position = np.concatenate([part.position for part in parts])
        texts = np.array([text for part in parts for text in part.texts], object)
        lines: list[str] = texts[np.argsort(position, kind="stable")].tolist()
        return lines

    def _returned(self, paired: PairedEvents) -> _PlacedLines:
        """Return the calls that are printed at their return."""
        events = paired.events
        rows = rows_where(events.kind == EXIT)
        entry = paired.entry[rows]
        is_whole = entry != NO_ROW
        if self._options.has_interruptions:
            is_whole &= ~paired.was_interrupted[entry]
        rows, entry = self._chosen(events, rows[is_whole], entry[is_whole])
        times = ((events.time[entry] - (self._base or 0)) / _MILLISECOND).tolist()
        durations = ((events.time[rows] - events.time[entry]) / _MILLISECOND).tolist()
        threads = self._thread_texts(events, rows, rows)
        calls = self._calls.texts(events, entry, self._names)
        results = self._calls.results(paired, rows, self._names)
        if self._options.shows_cpu:
            cpus = events.cpu[rows].tolist()
            parts = zip(times, cpus, durations, threads, calls, results, strict=True)
            return _PlacedLines(2 * rows, list(map("%10.3f [%03d] (%6.3f ms): %s%-69s = %s".__mod__, parts)))
        columns = zip(times, durations, threads, calls, results, strict=True)
        return _PlacedLines(2 * rows, list(map("%10.3f (%6.3f ms): %s%-69s = %s".__mod__, columns)))

    def _continued(self, paired: PairedEvents) -> _PlacedLines:
        """Return the ends of calls that were interrupted, or whose entry is unknown."""
        events = paired.events
        rows = rows_where(events.kind == EXIT)
        entry = paired.entry[rows]
        is_rest = entry == NO_ROW
        if self._options.has_interruptions:
            is_rest |= paired.was_interrupted[entry]
        rows, entry = self._chosen(events, rows[is_rest], entry[is_rest])
        has_entry = entry != NO_ROW
        known = self._durations(events, np.where(has_entry, entry, rows), rows)
        durations = [text if has else _NO_DURATION for text, has in zip(known, has_entry.tolist(), strict=True)]
        heads = self._heads(events, entry, durations, rows)
        ends = [f" ... [continued]: {name}())" for name in self._calls.names(events.number[rows])]
        results = self._calls.results(paired, rows, self._names)
        return _PlacedLines(2 * rows, list(map("%s%-69s = %s".__mod__, zip(heads, ends, results, strict=True))))

    def _interrupted(self, paired: PairedEvents) -> _PlacedLines:
        """Return the calls that are printed before they return."""
        events = paired.events
        rows = rows_where(paired.interrupter != NO_ROW)
        moment = paired.interrupter[rows]
        heads = self._heads(events, rows, [_NO_DURATION] * len(rows), rows, moment)
        calls = self._calls.texts(events, rows, self._names)
        return _PlacedLines(2 * moment - 1, list(map("%s%-66s ...".__mod__, zip(heads, calls, strict=True))))

    def _ended(self, paired: PairedEvents) -> _PlacedLines:
        """Return the calls that do not return."""
        events = paired.events
        rows = rows_where((events.kind == ENTER) & np.isin(events.number, self._ending))
        rows = rows[rows >= paired.carried]
        heads = self._heads(events, rows, [_NO_DURATION] * len(rows), rows)
        calls = self._calls.texts(events, rows, self._names)
        return _PlacedLines(2 * rows, list(map("%s%-69s = ?".__mod__, zip(heads, calls, strict=True))))

    def _others(self, paired: PairedEvents) -> _PlacedLines:
        """Return the samples of other events."""
        events = paired.events
        rows = rows_where(events.kind == OTHER)
        if self._event_texts is None or not len(rows):
            return _PlacedLines(np.zeros(0, np.int64), [])
        heads = self._heads(events, rows, [_NO_DURATION] * len(rows), rows)
        return _PlacedLines(2 * rows, list(map("%s%s".__mod__, zip(heads, self._event_texts(paired, rows), strict=True))))

    def _chosen(self, events: CallEvents, rows: NDArray[np.int64], entry: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the returns and entries that the options let through."""
        options = self._options
        chosen = np.ones(len(rows), np.bool_)
        if options.failures_only:
            chosen &= is_error(events.result[rows])
        if options.longer_than:
            took = np.where(entry == NO_ROW, 0, events.time[rows] - events.time[entry])
            chosen &= took > options.longer_than * _MILLISECOND
        return rows[chosen], entry[chosen]

    def _durations(self, events: CallEvents, entry: NDArray[np.int64], rows: NDArray[np.int64]) -> list[str]:
        return list(map("(%6.3f ms): ".__mod__, ((events.time[rows] - events.time[entry]) / _MILLISECOND).tolist()))

    def _heads(
        self,
        events: CallEvents,
        times_of: NDArray[np.int64],
        durations: list[str],
        rows: NDArray[np.int64],
        moment: NDArray[np.int64] | None = None,
    ) -> list[str]:
        """Return the texts before the call: time, duration and thread.

        Args:
            events: the batch.
            times_of: the rows whose time is printed; -1 for an unknown time.
            durations: the texts of the durations.
            rows: the rows of the threads.
            moment: the rows at whose time the lines are printed; by default the same.
        """
        times = list(map("%10.3f ".__mod__, ((events.time[times_of] - (self._base or 0)) / _MILLISECOND).tolist()))
        for index in rows_where(times_of == NO_ROW).tolist():
            times[index] = _NO_TIME
        threads = self._thread_texts(events, rows, rows if moment is None else moment)
        if self._options.shows_cpu:
            cpus = map("[%03d] ".__mod__, events.cpu[rows].tolist())
            return list(map("%s%s%s%s".__mod__, zip(times, cpus, durations, threads, strict=True)))
        return list(map("%s%s%s".__mod__, zip(times, durations, threads, strict=True)))

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
