"""Activities of threads for tests of `perfpy why`: segments, functions and wakers, without a recording.

Input: rows (tid, begin, end, kind, function, waker, lock). Output: an Explanation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.analysis.verdict import wait_reasons as reasons
from perfpy.scheduling.segments import BLOCKED, READY, Segments
from perfpy.scheduling.segments import RUNNING as RUNS
from perfpy.tools.why.activities import Activities, Meaning, RunningSamples
from perfpy.tools.why.explanation import Explanation
from perfpy.tools.why.tasks import RUNNING, RecordedTasks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Part(NamedTuple):
    """What a thread did for a time."""

    tid: int
    begin: int
    end: int
    kind: int = RUNNING
    function: str = ""
    waker: int = -1
    waker_function: str = ""
    lock: int = 0
    cpu: int = 0


class Meanings:
    """The meanings of callchains of one function each."""

    def __init__(self, names: Sequence[str], lock: str) -> None:
        self.functions = list(names)
        self.meanings = [
            Meaning(reasons.OTHER, number, lock, is_spin=False, is_send=False, is_own=True, call="", is_python=name.startswith("py::"))
            for number, name in enumerate(names)
        ]

    def names_of(self, chain: int) -> list[str]:
        return [self.functions[chain]]


def explained(
    parts: Sequence[Part],
    *,
    main: int = 1,
    comms: Mapping[int, str] | None = None,
    priorities: Mapping[int, int] | None = None,
    samples: Sequence[tuple[int, int, str, bool]] = (),
    lock: str = "mutex",
    programs: Mapping[int, int] | None = None,
) -> Explanation:
    """Return the explanation of threads of one process, whose number is `main`.

    Args:
        samples: (tid, time, function, spins).
        programs: thread -> its parent, of threads that are started programs of their own; without exec if the parent is negative.
    """
    rows = sorted(parts, key=lambda part: (part.tid, part.begin))
    names = sorted({name for part in rows for name in (part.function, part.waker_function)} | {one[2] for one in samples})
    number = {name: index for index, name in enumerate(names)}

    def column(values: Sequence[int]) -> np.ndarray:
        return np.array(values, np.int64)

    kinds = [RUNS if part.kind == RUNNING else READY if part.kind == reasons.CPU else BLOCKED for part in rows]
    none = np.full(len(rows), -1, np.int64)
    segments = Segments(
        tid=column([part.tid for part in rows]),
        begin=column([part.begin for part in rows]),
        end=column([part.end for part in rows]),
        kind=np.array(kinds, np.int8),
        cpu=column([part.cpu for part in rows]),
        departure=none,
        wakeup=none,
    )
    functions = column([number[part.function] if part.function else -1 for part in rows])
    ordered = sorted(samples)
    activities = Activities(
        segments,
        column([part.kind for part in rows]),
        functions,
        np.array([part.lock for part in rows], np.uint64),
        np.where(segments.kind == BLOCKED, functions, -1),
        column([part.waker for part in rows]),
        np.zeros(len(rows), bool),
        column([number[part.waker_function] if part.waker_function else -1 for part in rows]),
        dict(priorities or {}),
        Meanings(names, lock),  # type: ignore[arg-type]
        RunningSamples(
            column([one[0] for one in ordered]),
            column([one[1] for one in ordered]),
            column([number[one[2]] for one in ordered]),
            np.array([one[3] for one in ordered], bool),
        ),
    )
    tids = {part.tid for part in rows}
    own = programs or {}
    pid_of = {tid: tid if tid in own else main for tid in tids}
    comm_of = {tid: f"t{tid}" for tid in tids} | dict(comms or {})
    execs = [(pid, comm_of[pid], 0) for pid, parent in own.items() if parent > 0]
    tasks = RecordedTasks(pid_of, {pid: abs(parent) for pid, parent in own.items()}, execs, comm_of)
    return Explanation(activities, tasks, {main, *own}, main)
