"""The text and JSON of threads that were watched through /proc (perfpy why without access to tracepoints)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.kinds import RUNNING
from perfpy.plurals import plural
from perfpy.untrusted.text import visible
from perfpy.views.verdict.sentence import percent, seconds
from perfpy.views.why.text import thread_table
from perfpy.views.why.verdict import launch_text
from perfpy.views.why.words import NAMES, OBJECTS, VERBS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.analysis.why.explanation import ThreadTimes

_MATTERS: Final = 0.1  # of the time
_RUNS: Final = 0.65  # of the time: programs that run for longer do not mainly wait
_SENTENCES: Final = 3
_THREADS: Final = 10
_MOST_PROGRAMS: Final = 16  # that wait for each other in a row


class WatchedWait(NamedTuple):
    """One kind of wait of a thread.

    Attributes:
        tid: the thread.
        kind: see perfpy.analysis.why.kinds.
        call: the system call; "".
        lock: the address of a futex; 0.
        time: nanoseconds.
    """

    tid: int
    kind: int
    call: str
    lock: int
    time: int


def watched_lines(
    main: int,
    threads: Sequence[ThreadTimes],
    waits: Mapping[int, Sequence[WatchedWait]],
    parents: Mapping[int, int],
    *,
    all_threads: bool,
) -> Iterator[str]:
    """Yield the verdict and the table of threads.

    Args:
        main: the first thread of the process.
        threads: their times.
        waits: what each thread did.
        parents: process -> its parent.
        all_threads: list all threads, not only the first ones.
    """
    yield from watched_verdict(main, threads, waits, parents)
    if threads:
        yield ""
        yield from thread_table(threads, None if all_threads else _THREADS)


def watched_verdict(
    main: int, threads: Sequence[ThreadTimes], waits: Mapping[int, Sequence[WatchedWait]], parents: Mapping[int, int]
) -> list[str]:
    """Return the sentences.

    Threads for whose end the main thread waits are considered in its place, and so is a program that it started and waits for.
    """
    by_tid = {thread.tid: thread for thread in threads}
    if main not in by_tid:
        return ["The process ended before it was looked at."]
    programs = _programs(main, by_tid, waits, parents)
    through = launch_text([by_tid[pid].comm for pid in programs])
    main = programs[-1]
    chosen = [main]
    joined = sum(wait.time for wait in waits.get(main, ()) if wait.kind == reasons.JOIN)
    if joined > by_tid[main].wall / 2:
        chosen = [thread.tid for thread in threads if thread.pid == by_tid[main].pid and thread.tid != main] or chosen
    whole = sum(by_tid[tid].wall for tid in chosen)
    merged: dict[tuple[int, str, int], tuple[int, set[int]]] = {}
    for tid in chosen:
        for wait in waits.get(tid, ()):
            time, tids = merged.get(wait[1:4], (0, set()))
            merged[wait[1:4]] = (time + wait.time, tids | {tid})
    rows = sorted(merged.items(), key=lambda item: -item[1][0])
    running = [row for row in rows if row[0][0] == RUNNING]
    others = [row for row in rows if row[0][0] != RUNNING]
    runs = sum(time for _, (time, _) in running)
    ordered = running + others if runs >= _RUNS * whole or not others else others + running
    sentences = []
    for (kind, call, lock), (time, tids) in ordered[:_SENTENCES]:
        if time >= _MATTERS * whole and whole:
            who = _who([by_tid[tid] for tid in sorted(tids)])
            sentences.append(f"{who} {_activity(kind, call, lock, f'{percent(time / whole)} of {seconds(whole / 1e9)}')}.")
    sentences = sentences or [f"{_who([by_tid[main]])} has no long wait in {seconds(whole / 1e9)}."]
    return [f"{sentences[0].removesuffix('.')}; {through}.", *sentences[1:]] if through else sentences


def _programs(
    main: int, by_tid: Mapping[int, ThreadTimes], waits: Mapping[int, Sequence[WatchedWait]], parents: Mapping[int, int]
) -> list[int]:
    """Return the processes from one that waits for the end of the only program that it started, to the last program in this row.

    Other waits are left out, because /proc does not tell who will end them.
    """
    programs = [main]
    while len(programs) < _MOST_PROGRAMS:
        waiting = by_tid[programs[-1]]
        awaited = sum(wait.time for wait in waits.get(waiting.tid, ()) if wait.kind == reasons.CHILD)
        children = (by_tid[pid] for pid, parent in parents.items() if parent == waiting.pid and pid in by_tid)
        started = [one.tid for one in children if one.comm != waiting.comm and one.wall > waiting.wall / 2]
        if len(started) != 1 or started[0] in programs or awaited <= waiting.wall / 2:
            break
        programs += started
    return programs


def _who(threads: Sequence[ThreadTimes]) -> str:
    name = visible(threads[0].comm)
    return f"{name} ({threads[0].tid})" if len(threads) == 1 else f"{name} ({len(threads)} {plural(len(threads), 'thread')})"


def _activity(kind: int, call: str, lock: int, amount: str) -> str:
    if kind in VERBS:
        verb, _, rest = VERBS[kind].partition(" ")
        return f"{verb} {amount}{f' {rest}' if rest else ''}"
    awaited = (
        f"{'a lock' if kind == reasons.LOCK else 'a lock or another thread'} (futex {lock:#x})" if lock else OBJECTS.get(kind, NAMES[kind])
    )
    return f"waits {amount} for {awaited}{f' ({visible(call)})' if call and not lock else ''}"


def watched_json(main: int, threads: Sequence[ThreadTimes], waits: Mapping[int, Sequence[WatchedWait]], parents: Mapping[int, int]) -> str:
    """Return one JSON object; times are nanoseconds."""
    by_tid = {thread.tid: thread for thread in threads}
    rows = sorted((wait for of_thread in waits.values() for wait in of_thread), key=lambda wait: -wait.time)
    return json.dumps(
        {
            "format": "perfpy-why",
            "version": 1,
            "watched": True,
            "verdict": watched_verdict(main, threads, waits, parents),
            "main": {"tid": main, "comm": by_tid[main].comm if main in by_tid else "", "time": by_tid[main].wall if main in by_tid else 0},
            "threads": [thread._asdict() for thread in threads],
            "waits": [wait._asdict() | {"kind": NAMES[wait.kind], "lock": f"{wait.lock:#x}" if wait.lock else None} for wait in rows],
        }
    )
