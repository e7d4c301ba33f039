"""The run time of each task on each CPU, without the interrupts that it was charged for.

Input: switches, and interrupts with the task that they interrupted. Output: a row for each task, and the time of idle tasks and of
interrupts. A run reaches from the switch to a task until the switch away from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.scheduling.segments import pair_events
from perfpy.tools.kwork.works import ENTRY, EXIT, IRQ, MILLISECOND, SOFTIRQ
from perfpy.untrusted.text import padded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.tracepoint_rows import TracepointRows
    from perfpy.tools.kwork.works import WorkEvents

    Int64 = NDArray[np.int64]


SWITCH: Final = "sched:sched_switch"
FIELDS: Final = ("prev_pid", "next_pid", "prev_comm", "next_comm")
_SHARE: Final = 10_000  # hundredths of a percent
_TID_BITS: Final = 32
_TID_MASK: Final = (1 << _TID_BITS) - 1


class TaskUsage(NamedTuple):
    """The run time of one task.

    Attributes:
        cpu: the highest CPU that it came to.
        tid: 0 for the idle task of one CPU.
        comm: its name, a recorded text.
        runtime: nanoseconds, without interrupts.
        share: hundredths of a percent of a CPU; the sum over the CPUs.
    """

    cpu: int
    tid: int
    comm: str
    runtime: int
    share: int


class CpuUsage(NamedTuple):
    """The use of all CPUs. Times are nanoseconds.

    Attributes:
        tasks: in order of the highest CPU that each came to, then of the highest number.
        total: all run times, interrupts included.
        idle, interrupts: of the idle tasks; by kind of interrupt.
        load: hundredths of a percent that the tasks used, by CPU.
    """

    tasks: list[TaskUsage]
    total: int
    idle: int
    interrupts: dict[str, int]
    load: dict[int, int]


class _TaskRun(NamedTuple):
    """The sum of the runs of one task on one CPU, in nanoseconds."""

    cpu: int
    tid: int
    comm: str
    runtime: int


#: sort keys, by perf's names; the lowest values come first
SORT_KEYS: Final[dict[str, Callable[[TaskUsage], tuple[int, ...]]]] = {
    "rate": lambda task: (-task.share,),
    "runtime": lambda task: (-task.runtime,),
    "tid": lambda task: (task.tid, task.cpu),
}


def measure_usage(
    switches: TracepointRows, interrupts: Mapping[str, WorkEvents], name: str = "", selected: NDArray[np.bool_] | None = None
) -> CpuUsage:
    """Return the use of the CPUs.

    Args:
        switches: with FIELDS.
        selected: mask of the switches whose time counts; None: all. As in perf, the others give tasks their names.
        interrupts: the ENTRY and EXIT events by kind, IRQ before SOFTIRQ.
        name: leave out tasks with other names; "": all.
    """
    table = _RunTable(switches, selected)
    total_of_cpu = table.total_of_cpu()
    charged = {kind: table.charge(interrupts[kind]) if kind in interrupts else 0 for kind in (IRQ, SOFTIRQ)}
    runs = table.rows()
    idle = sum(run.runtime for run in runs if not run.tid)
    selected_runs = [run for run in runs if not name or run.comm == name]
    used = dict.fromkeys(total_of_cpu, 0)
    for run in selected_runs:
        if run.tid and run.runtime:
            used[run.cpu] += run.runtime
    load = {cpu: time * _SHARE // total_of_cpu[cpu] for cpu, time in used.items()}
    return CpuUsage(_merge(selected_runs, total_of_cpu), sum(total_of_cpu.values()), idle, charged, load)


class _RunTable:
    """The run times of each task on each CPU."""

    def __init__(self, switches: TracepointRows, selected: NDArray[np.bool_] | None) -> None:
        leaving = _task_keys(switches.cpu, switches.fields["prev_pid"])
        entering = _task_keys(switches.cpu, switches.fields["next_pid"])
        rows = np.arange(len(leaving)) if selected is None else np.flatnonzero(selected)
        pairs = pair_events(entering[rows], rows * 2 + 1, leaving[rows], rows * 2)
        begin, end = rows[pairs.begin], rows[pairs.end]
        both = np.stack([leaving, entering], axis=1).ravel()
        self._keys, first = np.unique(both, return_index=True)
        self._first_time = switches.time[first // 2]
        self._runtime = np.zeros(len(self._keys), np.int64)
        durations = np.maximum(switches.time[end] - switches.time[begin], 0)
        np.add.at(self._runtime, np.searchsorted(self._keys, entering[begin]), durations)
        none = np.zeros(len(leaving), "S1")
        comms = [switches.fields.get(name, none) for name in ("prev_comm", "next_comm")]  # a recorded format may lack a field
        self._comms = [_text(comms[row % 2][row // 2]) for row in first.tolist()]

    def total_of_cpu(self) -> dict[int, int]:
        """Return the time that tasks ran on each CPU with runs."""
        totals: dict[int, int] = {}
        for run in self.rows():
            if run.runtime:
                totals[run.cpu] = totals.get(run.cpu, 0) + run.runtime
        return dict(sorted(totals.items()))

    def charge(self, events: WorkEvents) -> int:
        """Take interrupts from the run times of the tasks that they interrupted; return their total time.

        A task whose interrupts took all its time, or more, keeps it: some of them ran outside of its recorded time. Interrupts before the
        first switch of a task do not count.
        """
        task = _task_keys(events.cpu, events.tid)
        begins, ends = np.flatnonzero(events.phase == ENTRY), np.flatnonzero(events.phase == EXIT)
        pairs = pair_events(task[begins], begins, task[ends], ends)
        begin, end = begins[pairs.begin], ends[pairs.end]
        position = np.searchsorted(self._keys, task[end])
        position[position == len(self._keys)] = 0
        counts = (
            (self._keys[position] == task[end]) & (events.time[end] >= self._first_time[position]) if len(self._keys) else np.zeros(0, bool)
        )
        if not counts.any():
            return 0
        taken = np.zeros(len(self._keys), np.int64)
        np.add.at(taken, position[counts], np.maximum(events.time[end] - events.time[begin], 0)[counts])
        taken[taken >= self._runtime] = 0
        self._runtime -= taken
        return int(taken.sum())

    def rows(self) -> list[_TaskRun]:
        """Return the tasks, highest CPU and number first."""
        columns = zip(self._keys.tolist(), self._comms, self._runtime.tolist(), strict=True)
        runs = [_TaskRun(key >> _TID_BITS, key & _TID_MASK, comm, runtime) for key, comm, runtime in columns]
        return sorted(runs, key=lambda run: (-run.cpu, -run.tid))


def _task_keys(cpu: NDArray[np.signedinteger], tid: NDArray[np.signedinteger]) -> Int64:
    """Return a number for each task on a CPU."""
    return cpu.astype(np.int64) << _TID_BITS | tid.astype(np.int64) & _TID_MASK


def _text(comm: object) -> str:
    return comm.split(b"\0")[0].decode("utf-8", "surrogateescape") if isinstance(comm, bytes) else ""


def _merge(runs: Iterable[_TaskRun], total_of_cpu: Mapping[int, int]) -> list[TaskUsage]:
    """Return a row for each task that ran; the idle task has one for each CPU."""
    rows: dict[tuple[int, int], TaskUsage] = {}
    for run in runs:
        key = (run.tid, 0 if run.tid else run.cpu)
        share = run.runtime * _SHARE // total_of_cpu[run.cpu] if run.runtime else 0
        row = rows.get(key, TaskUsage(run.cpu, run.tid, run.comm, 0, 0))
        rows[key] = row._replace(runtime=row.runtime + run.runtime, share=row.share + share)
    return [row for row in rows.values() if row.runtime]


def sorted_tasks(tasks: Iterable[TaskUsage], keys: Sequence[str]) -> list[TaskUsage]:
    """Return the tasks sorted by keys; equal ones keep their order."""
    return sorted(tasks, key=lambda task: [SORT_KEYS[key](task) for key in keys])


_BAR_WIDTH: Final = 30
_MOST_BARS: Final = 4 * _BAR_WIDTH


def usage_lines(usage: CpuUsage, tasks: Sequence[TaskUsage]) -> Iterator[str]:
    """Yield the lines. tasks: those of the usage, sorted. The text is perf 6.12's, byte for byte."""
    yield ""
    yield f"Total  : {usage.total / MILLISECOND:10.3f} ms, {len(usage.load)} cpus"
    shares = [100 * time / usage.total if usage.total else 0.0 for time in (usage.idle, usage.interrupts[IRQ], usage.interrupts[SOFTIRQ])]
    yield "%Cpu(s): {:6.2f}% id, {:6.2f}% hi, {:6.2f}% si".format(*shares)
    for cpu, load in usage.load.items():
        bar = "|" * min(load * _BAR_WIDTH // _SHARE, _MOST_BARS)
        yield f"%Cpu{cpu:<4d}[{bar:<{_BAR_WIDTH}} {load // 100:3d}.{load % 100:02d}%]"
    yield ""
    yield f"  {'PID':>7}  {'%CPU':>6}  {'RUNTIME':>16}  {'COMMAND':<16}"
    yield "  " + "-" * 52
    for task in tasks:
        share = f"{task.share // 100}.{task.share % 100:02d}"
        yield f"  {task.tid:7d}  {share:>6}  {task.runtime / MILLISECOND:13.3f} ms  {padded(task.comm, 16)}"
    yield ""
