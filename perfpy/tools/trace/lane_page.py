"""The page of calls over time: a lane for each thread, and a table of all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.system_calls import calls_of_group
from perfpy.errors import plural
from perfpy.tools.trace.call_sums import is_error
from perfpy.tools.trace.calls import EXIT, NO_ROW
from perfpy.tools.trace.lines import NO_LINES, KnownLines, LineKeys
from perfpy.views.page.lanes import LaneCalls, LaneStory, LaneTable, limits, page_of_lanes

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.tools.trace.call_sums import CallTotals, Totals
    from perfpy.tools.trace.call_text import CallTexts
    from perfpy.tools.trace.calls import CallEvents, PairedEvents, ThreadNames
    from perfpy.tools.trace.lines import LineOptions
    from perfpy.views.page.lanes import Lanes, MergedCalls
    from perfpy.views.pieces import Flat


_GROUPS: Final = ("waiting", "network", "memory", "process", "signal", "file")  # the first that has the call
_COLOURS: Final = ("waiting", "interpreter", "runtime", "kernel", "own", "library")
_COLUMNS: Final = (
    *(("Calls", "whole"), ("Errors", "whole"), ("Total", "duration"), ("Of the threads' time", "percent")),
    *(("p50", "duration"), ("p99", "duration"), ("Longest", "duration")),
)
_WAITING: Final = frozenset(
    "futex futex_wait futex_waitv poll ppoll select pselect6 epoll_wait epoll_pwait epoll_pwait2 nanosleep clock_nanosleep wait4 waitid "
    "pause rt_sigtimedwait rt_sigsuspend io_getevents io_pgetevents semop semtimedop msgrcv mq_timedreceive flock".split()
)
_FILE: Final = frozenset(
    "read pread64 readv preadv preadv2 write pwrite64 writev pwritev pwritev2 close fstat lseek getdents64 fsync".split()
)


def lane_page(lanes: Lanes, totals: Totals, name_of: Callable[[int], str], title: str, notes: Sequence[str] = ()) -> str:
    """Return the page.

    Args:
        lanes: the calls over time.
        totals: the sums of all calls.
        name_of: returns the name of a call.
        title: the traced command or recording.
        notes: on losses and the like.
    """
    all_calls = totals.of_all()
    indexes = {call.number: index for index, call in enumerate(all_calls)}

    def tell(calls: LaneCalls, merged: MergedCalls) -> LaneStory:
        for number in np.unique(calls.number).tolist():
            indexes.setdefault(number, len(indexes))
        names = [name_of(number) for number in indexes]
        first, last = limits(calls, merged)
        count, threads = sum(call.calls for call in all_calls), len(lanes.threads)
        headline: list[str | int] = [
            f"{count:,} system {plural(count, 'call')} of {threads:,} {plural(threads, 'thread')} in ",
            last - first,
        ]
        together = f", the sum over {threads:,} threads" if threads > 1 else ""
        headline += [f"; most time in {names[0]}, ", all_calls[0].total, together] if all_calls else []
        thread_time = _thread_time(calls, merged)
        table = LaneTable("Call", _COLUMNS, [_row(call, thread_time) for call in all_calls])
        return LaneStory(
            title, headline, "call", list(zip(_GROUPS, _COLOURS, strict=True)), [(name, _group(name)) for name in names], table, notes
        )

    return page_of_lanes(lanes, indexes.__getitem__, tell)


def _thread_time(calls: LaneCalls, merged: MergedCalls) -> int:
    """Return the nanoseconds from the first call of each thread to the end of its last one, of all threads."""
    lane, begin, end = map(
        np.concatenate, zip((calls.lane, calls.begin, calls.begin + calls.took), (merged.lane, merged.begin, merged.end), strict=True)
    )
    if not len(lane):
        return 1
    order = np.argsort(lane, kind="stable")
    first = rows_where(np.diff(lane[order], prepend=-1) != 0)
    lengths = np.maximum.reduceat(end[order], first) - np.minimum.reduceat(begin[order], first)
    return max(int(lengths.sum()), 1)


def _group(name: str) -> int:
    """Return the index of a call's group; that after the last for none."""
    if name in _WAITING:
        return 0
    groups = {**{group: calls_of_group(group) for group in _GROUPS[1:]}, "file": calls_of_group("file") | calls_of_group("string") | _FILE}
    return next((index for index, group in enumerate(_GROUPS) if name in groups.get(group, ())), len(_GROUPS))


def _row(call: CallTotals, thread_time: int) -> list[float]:
    """Return the values of a row of the table."""
    times = (call.percentile(0.5), call.percentile(0.99), call.most)
    return [call.calls, call.errors, call.total, call.total / thread_time, *(round(time) for time in times)]


_MILLISECOND = 1_000_000
_UNFINISHED = b" ...\n"


class LaneLines:
    """Adds the calls of batches to lanes.

    Args:
        lanes: the lanes.
        options: which calls.
        calls: the texts of calls.
        names: the comms of threads.
    """

    def __init__(self, lanes: Lanes, options: LineOptions, calls: CallTexts, names: ThreadNames) -> None:
        self._lanes, self._options, self._calls, self._names = lanes, options, calls, names
        self._keys, self._known = LineKeys(), KnownLines()
        self._open: dict[tuple[int, int], tuple[int, int, bytes]] = {}  # (tid, time) -> lane, number, text
        self._last = 0

    def lines(self, paired: PairedEvents) -> Flat:
        """Take the calls of a batch; return no lines."""
        events = paired.events
        if not events.size:
            return NO_LINES
        self._last = max(self._last, int(events.time[-1]))
        rows = rows_where((events.kind == EXIT) & (paired.entry != NO_ROW))
        entry = paired.entry[rows]
        took, failed = events.time[rows] - events.time[entry], is_error(events.result[rows])
        chosen = took > self._options.longer_than * _MILLISECOND if self._options.longer_than else np.ones(len(rows), np.bool_)
        if self._options.failures_only:
            chosen &= failed
        rows, entry, took, failed = rows[chosen], entry[chosen], took[chosen], failed[chosen]
        texts = np.array([self._lanes.text(text) for text in self._texts(paired, rows, entry).tolist()], np.int64)
        lanes = self._lanes_of(events, rows)
        self._lanes.add(LaneCalls(events.time[entry], took, lanes, events.number[rows], failed, texts))
        self._follow_open(paired)
        return NO_LINES

    def rest(self) -> Flat:
        """Add the calls that have not returned, up to the last event; return no lines."""
        if self._options.longer_than or self._options.failures_only:
            return NO_LINES
        for (_, time), (lane, number, text) in sorted(self._open.items(), key=lambda item: item[0][1]):
            begin, took, lanes, numbers, texts = (
                np.array([value], np.int64) for value in (time, self._last - time, lane, number, self._lanes.text(text))
            )
            self._lanes.add(LaneCalls(begin, took, lanes, numbers, np.zeros(1, np.bool_), texts))
        self._open.clear()
        return NO_LINES

    def _texts(self, paired: PairedEvents, rows: NDArray[np.int64], entry: NDArray[np.int64]) -> NDArray[np.object_]:
        """Return CALL(ARGUMENTS) = RESULT of returns."""
        events = paired.events

        def make(chosen: NDArray[np.intp]) -> list[str]:
            calls = self._calls.texts(events, entry[chosen], self._names)
            results = self._calls.results(paired, rows[chosen], self._names)
            return [f"{call} = {result}" for call, result in zip(calls, results, strict=True)]

        numbers, varies = self._calls.key_numbers(events, entry)
        varies |= self._calls.vary_results(events, rows, entry)
        return self._known.texts(self._keys.keys([*numbers, events.result[rows].view(np.uint64)]), varies, make)

    def _lanes_of(self, events: CallEvents, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        tids, last = np.unique(events.tid[rows][::-1], return_index=True)
        rows_of = rows[::-1][last]
        comms = self._names.comm_ids(tids, events.key[rows_of]).tolist()
        pids = events.pid[rows_of].tolist()
        lanes = [self._lanes.lane(pid, tid, self._names.comms[comm]) for pid, tid, comm in zip(pids, tids.tolist(), comms, strict=True)]
        return np.array(lanes, np.int64)[np.searchsorted(tids, events.tid[rows])] if lanes else np.zeros(0, np.int64)

    def _follow_open(self, paired: PairedEvents) -> None:
        """Keep the calls that have not returned."""
        events = paired.events
        rows = np.array(sorted(paired.open_rows), np.int64)
        before, self._open = self._open, {}
        keys = list(zip(events.tid[rows].tolist(), events.time[rows].tolist(), strict=True))
        new = [index for index, key in enumerate(keys) if key not in before]
        new_rows = rows[new]
        texts = self._calls.texts(events, new_rows, self._names)
        lanes = self._lanes_of(events, new_rows)
        for index, lane, row, text in zip(new, lanes.tolist(), new_rows.tolist(), texts, strict=True):
            before[keys[index]] = lane, int(events.number[row]), text.encode("utf-8", "surrogateescape") + _UNFINISHED
        self._open = {key: before[key] for key in keys}
