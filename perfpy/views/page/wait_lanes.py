"""Lanes of waits on the time line: how many threads wait for a CPU, and for the locks that each thread holds.

They need the tracepoints of the scheduler and of locks. Each lane has the times of its waits; the page's scripts (wait_lanes.js) count how
many of them there are at each moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.analysis.kernel_latencies import run_queue_waits
from perfpy.analysis.locks.contention import BEGIN, LockWaits, read_waits, type_of
from perfpy.analysis.sched.events import SWITCH
from perfpy.perfdata.tracepoint_rows import tracepoints_of
from perfpy.views.page.packing import packed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.sample_source import SampleSource

    Int64 = NDArray[np.int64]

RUN_QUEUE: Final = "cpu"
LOCK: Final = "lock"
_MOST_HOLDERS: Final = 3  # the holders that others wait for longest; the rest share a lane
_MOST_WAITS: Final = 50_000  # in a lane: the longest
_LONGEST_NAME: Final = 64


class WaitLane(NamedTuple):
    """The waits in one lane.

    Attributes:
        kind: RUN_QUEUE or LOCK.
        name: of the lane, with a recorded text.
        about: the locks, "" for none.
        begin, end: int64[n], nanoseconds, in order of begin.
        total: nanoseconds of all waits.
        number: of all waits.
    """

    kind: str
    name: str
    about: str
    begin: Int64
    end: Int64
    total: int
    number: int


def make_wait_lanes(source: SampleSource) -> list[WaitLane]:
    """Return the lanes of a recording; [] without tracepoints of switches or locks."""
    present = tracepoints_of(source)
    lanes = []
    if SWITCH in present:
        lanes += _lane(RUN_QUEUE, "run queue", "", *run_queue_waits(source))
    if BEGIN in present:
        waits = read_waits(source, owners=True)
        lanes += _lanes_of_holders(waits, _names_of_threads(source))
    return lanes


def _lanes_of_holders(waits: LockWaits, names: dict[int, str]) -> list[WaitLane]:
    """Return a lane for each thread that held locks for which others waited, and one for the rest."""
    assert waits.owner is not None
    ended = np.flatnonzero(waits.duration >= 0)
    owner, begin, duration = waits.owner[ended], waits.begin[ended], waits.duration[ended]
    holders, which = np.unique(owner[owner > 0], return_inverse=True)
    totals = np.bincount(which.ravel(), duration[owner > 0]) if len(holders) else np.zeros(0)
    chosen = holders[np.argsort(-totals, kind="stable")][:_MOST_HOLDERS].tolist()
    lanes = []
    for holder in (*chosen, None):
        rows = np.flatnonzero(owner == holder if holder is not None else ~np.isin(owner, chosen))
        title = f"{names.get(holder, '?')[:_LONGEST_NAME]} {holder}: locks" if holder is not None else "other locks"
        kinds = sorted({type_of(flags) for flags in np.unique(waits.flags[ended][rows]).tolist()})
        lanes += _lane(LOCK, title, ", ".join(kinds), begin[rows], begin[rows] + duration[rows])
    return lanes


def _lane(kind: str, name: str, about: str, begin: Int64, end: Int64) -> list[WaitLane]:
    """Return the lane of waits, with the longest ones if they are too many; [] without waits."""
    length = end - begin
    if not len(length):
        return []
    kept = np.argpartition(-length, _MOST_WAITS)[:_MOST_WAITS] if len(length) > _MOST_WAITS else np.arange(len(length))
    kept = kept[np.argsort(begin[kept], kind="stable")]
    return [WaitLane(kind, name, about, begin[kept], end[kept], int(length.sum()), len(length))]


def _names_of_threads(source: SampleSource) -> dict[int, str]:
    return {side.record.tid: side.record.comm for side in source.side_band({RecordType.COMM})}


def wait_lane_data(lanes: Sequence[WaitLane], begin: int, tick: int) -> list[dict[str, Any]]:
    """Return the values for the page. begin, tick: the time of the first sample and the unit of times, ns."""
    values = []
    for lane in lanes:
        first = np.maximum(lane.begin - begin, 0) // tick
        last = np.maximum(lane.end - begin, 0) // tick
        order = np.argsort(first, kind="stable")
        rows = {"begin": packed(first[order], ascending=True), "length": packed((last - first)[order])}
        values.append({"kind": lane.kind, "name": lane.name, "about": lane.about, "total": lane.total, "number": lane.number, "rows": rows})
    return values
