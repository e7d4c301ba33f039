"""Which thread each CPU ran over time: what `sched map` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.scheduling.switch_times import previous_of
from perfpy.symbols.interning import number_values
from perfpy.symbols.tasks.value_history import DeliveredValues

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from perfpy.analysis.sched.events import SchedEvents
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.tasks.address_space import TaskTimeline

_NAMES: Final = 26


class TaskNameFilter(NamedTuple):
    """Names of tasks to show.

    Attributes:
        names: allowed names.
        in_part: whether a part of a name suffices.
    """

    names: Collection[str]
    in_part: bool

    def mask(self, comms: list[str]) -> NDArray[np.bool_]:
        """Return which names are allowed."""
        if self.in_part:
            return np.array([any(name in comm for name in self.names) for comm in comms], bool)
        return np.array([comm in self.names for comm in comms], bool)


class SwitchMap(NamedTuple):
    """The switches as rows, and the lines to show.

    Attributes:
        time, cpu: int64[n], of each switch.
        thread: int64[n], the thread that came, as an index into `tids`.
        is_new: bool[n], whether the thread came for the first time, or has got a name since it came last.
        comm: int64[n], index of the thread's name.
        tids: the threads by first arrival on a CPU.
        is_hidden: of each thread: whether the filter of names excluded it when it came first.
        line: the switch of each line.
        is_departure: of each line: whether it shows that a thread left, instead of the arrival.
    """

    time: NDArray[np.int64]
    cpu: NDArray[np.int64]
    thread: NDArray[np.int64]
    is_new: NDArray[np.bool_]
    comm: NDArray[np.int64]
    tids: NDArray[np.int64]
    is_hidden: NDArray[np.bool_]
    line: NDArray[np.int64]
    is_departure: NDArray[np.bool_]


def make_map(
    events: SchedEvents,
    source: SampleSource,
    timeline: TaskTimeline,
    names: TaskNameFilter | None,
    cpus: Collection[int] | None = None,
) -> SwitchMap:
    """Return the map of a recording.

    Args:
        events, source, timeline: of the recording.
        names: of the tasks to show; None: all.
        cpus: whose switches have lines; None: all.
    """
    rows = events.switches
    count = len(rows.order)
    cpu, tid = rows.cpu.astype(np.int64), rows.fields["next_pid"]
    comm = timeline.comm_ids(tid, rows.key).astype(np.int64)
    tids, numbers = number_values(tid)  # in order of their first rows
    thread = numbers.astype(np.int64)
    version = _comm_versions(source, tid, rows.key)
    before = previous_of(thread)
    is_first = before < 0
    has_line = np.ones(count, bool) if cpus is None else np.isin(cpu, list(cpus))
    if names is None:
        comes, leaves = has_line, np.zeros(count, bool)
        is_hidden = np.zeros(len(tids), bool)
    else:
        left = timeline.comm_ids(rows.fields["prev_pid"], rows.key)
        allowed = names.mask(timeline.comms)
        is_hidden = ~allowed[comm][is_first]
        comes, leaves = allowed[comm] & has_line, allowed[left] & has_line
    is_new = is_first | _changed_since_line(thread, version, comes | is_first)
    line = np.concatenate([np.flatnonzero(comes), np.flatnonzero(leaves)])
    is_departure = np.arange(len(line)) >= int(comes.sum())
    order = np.lexsort((is_departure, line))
    return SwitchMap(rows.time, cpu, thread, is_new, comm, tids, is_hidden, line[order], is_departure[order])


def _changed_since_line(thread: NDArray[np.int64], version: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a thread's name changed since its last row among the known ones."""
    changed = np.zeros(len(thread), bool)
    rows = np.flatnonzero(known)
    before = previous_of(thread[rows])
    changed[rows] = (before >= 0) & (version[rows] != version[rows][before])
    return changed


def _comm_versions(source: SampleSource, tid: NDArray[np.int64], key: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return numbers that change when a thread gets a name."""
    records = source.side_band({RecordType.COMM}).tasks()
    keys = records.keys[records.tasks.rank.astype(np.int64) - 1]
    history = DeliveredValues(records.tasks.tid.astype(np.int64), keys, np.arange(1, len(keys) + 1))
    return history.find(tid, key, 0).astype(np.int64)


def shortname(number: int) -> str:
    """Return the short name of the number-th thread: A0 to Z0, then A1, and again A0 after Z9.

    >>> shortname(0), shortname(25), shortname(26), shortname(260)
    ('A0', 'Z0', 'A1', 'A0')
    """
    return f"{chr(ord('A') + number % _NAMES)}{number // _NAMES % 10}"
