"""The page of calls over time: a lane for each thread, and a table of all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.system_calls import calls_of_group
from perfpy.tools.trace.call_sums import is_error
from perfpy.tools.trace.calls import EXIT, NO_ROW
from perfpy.tools.trace.lanes import LaneCalls
from perfpy.tools.trace.lines import NO_LINES, KnownLines, LineKeys
from perfpy.views.page.marks import packed
from perfpy.views.page.page import assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.tools.trace.call_sums import CallTotals, Totals
    from perfpy.tools.trace.call_text import CallTexts
    from perfpy.tools.trace.calls import CallEvents, PairedEvents, ThreadNames
    from perfpy.tools.trace.lanes import Lanes, MergedCalls
    from perfpy.tools.trace.lines import LineOptions
    from perfpy.views.script.pieces import Flat


_SCRIPTS: Final = (
    *("model/words", "model/trees", "model/kinds", "model/unpack", "model/categories", "model/call_lanes"),
    *("views/elements", "views/brush", "views/call_lanes_canvas", "views/call_table", "lanes"),
)
_GROUPS: Final = ("waiting", "network", "memory", "process", "signal", "file")  # the first that has the call
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
    calls, merged, texts = lanes.finish()
    table = totals.of_all()
    indexes = {call.number: index for index, call in enumerate(table)}
    for number in np.unique(calls.number).tolist():
        indexes.setdefault(number, len(indexes))
    names = [name_of(number) for number in indexes]
    first = int(min((column.min() for column in (calls.begin, merged.begin) if len(column)), default=0))
    ends = (calls.begin + calls.took, merged.end)
    last = int(max((column.max() for column in ends if len(column)), default=first))
    data: dict[str, Any] = {
        "title": title,
        "span": last - first,
        "lanes": [list(thread) for thread in lanes.threads],
        "names": [[name, _group(name)] for name in names],
        "groups": list(_GROUPS),
        "calls": {
            "begin": packed((calls.begin - first).astype(np.float64)),
            "took": packed(calls.took),
            "lane": packed(calls.lane),
            "name": packed(np.array([indexes[number] for number in calls.number.tolist()], np.int64)),
            "error": packed(calls.is_error.astype(np.int64)),
            "text": packed(calls.text + 1),
        },
        "merged": {
            "begin": packed((merged.begin - first).astype(np.float64)),
            "took": packed(merged.end - merged.begin),
            "lane": packed(merged.lane),
            "count": packed(merged.calls),
            "total": packed(merged.total),
        },
        "texts": [text.decode("utf-8", "surrogateescape").rstrip("\n") for text in texts],
        "table": [_row(call) for call in table],
        "thread_time": _thread_time(calls, merged),
        "notes": [*notes, *_notes(int(merged.calls.sum()), int((calls.text < 0).sum()))],
    }
    return assemble("lanes.html", _SCRIPTS, data)


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


def _row(call: CallTotals) -> list[float]:
    """Return calls, errors and times (ns) of a row of the table."""
    times = (call.percentile(0.5), call.percentile(0.99), call.most)
    return [call.calls, call.errors, call.total, *(round(time) for time in times)]


def _notes(merged: int, without_text: int) -> list[str]:
    notes = []
    if merged:
        notes.append(f"{merged:,} short calls are merged: a pale bar is those of a thread in an interval; the table counts all calls")
    if without_text:
        notes.append(f"{without_text:,} calls have no arguments here: the page has room for those of the longest calls")
    return notes


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
