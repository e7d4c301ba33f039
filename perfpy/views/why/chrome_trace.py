"""The states of threads over time in the Chrome Trace Event Format (JSON), which Perfetto and chrome://tracing open.

Each segment of a thread is a complete event ("X") with the kind of activity as its name. Each wakeup is a flow ("s", "f") from the waker
to the woken thread. Times are microseconds from the begin of the recording.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.views.why.words import NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.why.explanation import Explanation

_MICROSECOND: Final = 1000


def chrome_trace(explanation: Explanation) -> Iterator[str]:
    """Yield the file in pieces: the threads of the explained processes."""
    activities = explanation.activities
    segments = activities.segments
    threads = {thread.tid: thread for thread in explanation.threads}
    rows = np.flatnonzero(np.isin(segments.tid, list(threads)))
    start = int(segments.begin.min()) if len(segments.begin) else 0
    yield '{"displayTimeUnit":"ns","traceEvents":[\n'
    yield ",\n".join(json.dumps(event) for event in _names(explanation))
    for row in rows.tolist():
        for event in _events(explanation, row, start):
            yield ",\n" + json.dumps(event)
    yield "\n]}\n"


def _names(explanation: Explanation) -> Iterator[dict[str, Any]]:
    """Yield the names of processes and threads."""
    for pid in sorted({thread.pid for thread in explanation.threads}):
        yield {"name": "process_name", "ph": "M", "pid": pid, "tid": pid, "args": {"name": explanation.comm(pid)}}
    for thread in explanation.threads:
        yield {"name": "thread_name", "ph": "M", "pid": thread.pid, "tid": thread.tid, "args": {"name": thread.comm}}


def _events(explanation: Explanation, row: int, start: int) -> Iterator[dict[str, Any]]:
    """Yield the event of a segment, and the two of the wakeup that ended it."""
    activities = explanation.activities
    segments = activities.segments
    tid, begin, end = int(segments.tid[row]), int(segments.begin[row]), int(segments.end[row])
    pid = explanation.tasks.pid_of.get(tid, tid)
    values: dict[str, Any] = {}
    if function := explanation.path.function(int(activities.function[row])):
        values["function"] = function
    if lock := int(activities.lock[row]):
        values["lock"] = explanation.path.lock_names.get(lock) or f"{lock:#x}"
    waker = int(activities.waker[row])
    if waker > 0:
        values["waker"] = f"{explanation.comm(waker)} ({waker})"
    kind = NAMES[int(activities.kind[row])]
    time = (begin - start) / _MICROSECOND
    yield {
        "name": kind,
        "cat": "thread",
        "ph": "X",
        "ts": time,
        "dur": (end - begin) / _MICROSECOND,
        "pid": pid,
        "tid": tid,
        "args": values,
    }
    if waker > 0:
        flow = {"name": "wakeup", "cat": "wakeup", "id": row, "ts": (end - start) / _MICROSECOND}
        yield {**flow, "ph": "s", "pid": explanation.tasks.pid_of.get(waker, waker), "tid": waker}
        yield {**flow, "ph": "f", "bp": "e", "pid": pid, "tid": tid}
