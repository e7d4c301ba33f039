"""The explanation of `perfpy why` for other programs: one JSON object, the states of threads over time for Perfetto (Chrome Trace Event
Format), and the turns of threads for the HTML page.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.tools.why.causes import DEEPEST, ROOT
from perfpy.tools.why.tasks import RUNNING, SPINNING
from perfpy.tools.why.text import longest_waits
from perfpy.tools.why.verdict import NAMES, running_function, turn_text, verdict, waker_function
from perfpy.untrusted.text import visible
from perfpy.views.page.marks import WaitChains

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.tools.why.causes import Cause, CauseGroups
    from perfpy.tools.why.explanation import Explanation


_SMALLEST: Final = 0.001  # of the time
_DEEPEST: Final = 12
_WAITS: Final = 100


def why_json(explanation: Explanation) -> str:
    """Return the object as text. Times are nanoseconds."""
    main, pid = explanation.main, explanation.tasks.pid_of.get(explanation.main, explanation.main)
    return json.dumps(
        {
            "format": "perfpy-why",
            "version": 1,
            "verdict": verdict(explanation),
            "main": {"pid": pid, "tid": main, "comm": explanation.comm(main), "time": explanation.elapsed},
            "critical-path": _children(explanation, explanation.path, [ROOT], 0),
            "threads": [thread._asdict() for thread in explanation.threads],
            "waits": [_values(explanation, explanation.waits, cause, stacks=True) for cause in longest_waits(explanation)[:_WAITS]],
            "not-followed": explanation.path.tree.cut,
            "lost-events": explanation.lost,
        }
    )


def _children(explanation: Explanation, groups: CauseGroups, nodes: Sequence[int], depth: int) -> list[dict[str, Any]]:
    if depth >= _DEEPEST:
        return []
    return [
        {**_values(explanation, groups, cause, stacks=False), "during": _children(explanation, groups, cause.nodes, depth + 1)}
        for cause in groups.children(nodes)
        if cause.time >= _SMALLEST * explanation.elapsed
    ]


def _values(explanation: Explanation, groups: CauseGroups, cause: Cause, *, stacks: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"kind": NAMES[cause.kind], "comm": cause.comm, "time": cause.time}
    function = running_function(groups, cause) if cause.kind in (RUNNING, SPINNING) else cause.function
    if function:
        values["function"] = function
    if cause.lock:
        values["lock"] = f"{cause.lock:#x}"
        values["lock-name"] = groups.lock_names.get(cause.lock)
    values["threads"] = sorted(groups.all_of("tids", cause.nodes))
    values["count"] = sum(groups.all_of("counts", cause.nodes).values())
    is_ready = cause.kind == reasons.CPU
    waker, time = explanation.runner(groups, cause) if is_ready else groups.largest("wakers", cause.nodes)
    if time:
        values["waker"] = {"tid": waker, "comm": explanation.comm(waker), "function": waker_function(groups, cause), "time": time}
    if interrupted := groups.interrupted(cause.nodes):
        values["ended-by-interrupts"] = interrupted
    if stacks:
        for name, detail in (("stack", "chains"), ("waker-stack", "waker_chains")):
            chain, _ = groups.largest(detail, cause.nodes)
            values[name] = groups.meanings.names_of(chain) if chain >= 0 else []
    return values


_MICROSECOND: Final = 1000


def chrome_trace(explanation: Explanation) -> Iterator[str]:
    """Yield the file in pieces: the threads of the explained processes.

    Each segment of a thread is a complete event ("X") with the kind of activity as its name. Each wakeup is a flow ("s", "f") from the
    waker to the woken thread. Times are microseconds from the begin of the recording.
    """
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


def wait_chains(explanation: Explanation) -> WaitChains:
    """Return the turns of the explained threads, and of the threads that ended their waits, for the page."""
    activities, groups = explanation.activities, explanation.waits
    segments, is_named = activities.segments, {thread.tid for thread in explanation.threads}
    tids = np.array([thread.tid for thread in explanation.threads], np.int64)
    newest = tids
    for _ in range(DEEPEST):
        wakers = np.unique(activities.waker[np.isin(segments.tid, newest)])
        newest = wakers[(wakers > 0) & ~np.isin(wakers, tids)]
        if not len(newest):
            break
        tids = np.concatenate([tids, newest])
    order, number = np.argsort(tids, kind="stable"), {tid: index for index, tid in enumerate(tids.tolist())}
    positions = np.searchsorted(tids[order], segments.tid)
    thread = order[np.minimum(positions, len(tids) - 1)] if len(tids) else positions
    rows = np.flatnonzero(np.isin(segments.tid, tids))
    rows = rows[np.lexsort((segments.begin[rows], thread[rows]))]
    keys = np.stack(
        [column[rows].astype(np.int64) for column in (activities.kind, activities.function, activities.lock, activities.chain)], axis=1
    )
    distinct, text = np.unique(keys, axis=0, return_inverse=True)
    number_of_text: dict[str, int] = {}
    texts = np.array([number_of_text.setdefault(turn_text(groups, *key), len(number_of_text)) for key in distinct.tolist()], np.int64)
    chains, which = np.unique(np.concatenate([activities.chain[rows], activities.waker_chain[rows]]), return_inverse=True)
    stacks = which.ravel() - int((chains < 0).sum())
    waker = activities.waker[rows]
    return WaitChains(
        number.get(explanation.main, 0),
        [(tid, visible(explanation.comm(tid))) for tid in tids.tolist()],
        len(is_named),
        list(number_of_text),
        [[visible(name) for name in activities.meanings.names_of(chain)] for chain in chains.tolist() if chain >= 0],
        thread[rows],
        segments.begin[rows],
        segments.end[rows],
        segments.kind[rows].astype(np.int64),
        texts[text.ravel()],
        np.array([number.get(tid, -1) for tid in waker.tolist()], np.int64),
        np.maximum(stacks[: len(rows)], -1),
        np.maximum(stacks[len(rows) :], -1),
    )
