"""The page of calls over time: a lane for each thread, and a table of all calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.system_calls.groups import calls_of_group
from perfpy.views.page.packing import packed
from perfpy.views.page.page import assemble

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from perfpy.tracing.lanes import LaneCalls, Lanes, MergedCalls
    from perfpy.tracing.totals import CallTotals, Totals

_SCRIPTS: Final = (
    *("model/words", "model/trees", "model/unpack", "model/categories", "model/call_lanes"),
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
        "calls": _call_columns(calls, first, indexes),
        "merged": _merged_columns(merged, first),
        "texts": [text.decode("utf-8", "surrogateescape").rstrip("\n") for text in texts],
        "table": [_row(call) for call in table],
        "wall": max(totals.last_time - totals.first_time, 1),
        "notes": [*notes, *_notes(int(merged.calls.sum()), int((calls.text < 0).sum()))],
    }
    return assemble("lanes.html", _SCRIPTS, data)


def _call_columns(calls: LaneCalls, first: int, indexes: Mapping[int, int]) -> dict[str, Any]:
    """Return the columns of single calls. first: the time at which the page begins; indexes: number of a call -> index of its name."""
    return {
        "begin": packed((calls.begin - first).astype(np.float64)),
        "took": packed(calls.took),
        "lane": packed(calls.lane),
        "name": packed(np.array([indexes[number] for number in calls.number.tolist()], np.int64)),
        "error": packed(calls.is_error.astype(np.int64)),
        "text": packed(calls.text + 1),
    }


def _merged_columns(merged: MergedCalls, first: int) -> dict[str, Any]:
    """Return the columns of merged calls."""
    return {
        "begin": packed((merged.begin - first).astype(np.float64)),
        "took": packed(merged.end - merged.begin),
        "lane": packed(merged.lane),
        "count": packed(merged.calls),
        "total": packed(merged.total),
    }


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
