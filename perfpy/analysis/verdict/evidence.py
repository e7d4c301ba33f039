"""The numbers that a verdict on a recording is made from: its time, functions, threads, waits, and processes."""

from __future__ import annotations

import os
import re
from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.flags import PerfType, RecordType
from perfpy.abi.framing import LONGEST_COMM
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND, has_off_cpu, is_dummy, is_off_cpu, is_time
from perfpy.analysis.verdict.call_sites import HotLine, Statements
from perfpy.analysis.verdict.categories import OWN
from perfpy.analysis.verdict.functions import SampledFunctions, sampled_functions
from perfpy.analysis.verdict.phases import (
    FEWEST_BURSTS,
    FEWEST_PROCESSES,
    LEAST_DISTANCE,
    MOST_SAMPLES,
    SHORTEST_OF_PHASES,
    SLICES,
    find_bursts,
    find_phases,
    find_program_phases,
    find_stretches,
    take_turns,
    time_alone,
    work_intervals,
)
from perfpy.analysis.verdict.processes import (
    LOOKS,
    MOST,
    NEARLY_ALL,
    KilledProcesses,
    LargestProcess,
    Processes,
    ProcessStart,
    compiled_files,
    find_start_in_script,
    find_targets,
    is_build_tool,
    name_processes,
    process_rows,
)
from perfpy.analysis.verdict.wait_reasons import FILE_LOCK, GIL, JOIN
from perfpy.analysis.verdict.waits import (
    MOST_OF_IT,
    ONE_FUNCTION,
    RUNNING,
    Waits,
    activity_of,
    find_holders,
    find_waker,
    is_endless,
    is_never_woken,
    is_rarely_woken,
    seen_locks,
    stuck_threads,
    waiting_goroutines,
    waiting_workers,
)
from perfpy.perfdata.kept_files import PROCESSES, STATES, ObservedFrame, decode_commands, decode_states
from perfpy.symbols.interning import sum_by

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram
    from perfpy.analysis.verdict.functions import Share
    from perfpy.analysis.verdict.phases import Bursts, BusyIntervals, LongStretches, Phase, Turns
    from perfpy.analysis.verdict.processes import NamedProcess, ProcessRow, SourceLine, StartedProcesses
    from perfpy.analysis.verdict.waits import SeenLock, Wait, WaitingGoroutines, Waker
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.kept_files import ObservedState
    from perfpy.perfdata.sample_source import SampleSource


IDLE_COMM: Final = "swapper"
_MOST_SAMPLES: Final = 2_000_000  # whose times are looked at: 66 bytes each
#: the program and the number of jobs in a command line
_JOBS: Final = re.compile(r"(?:^| |/)(g?make|ninja)(?= ).* (?:-j ?|--jobs[= ])([2-9]|[1-9]\d+)(?= |$)")
_NUMBER: Final = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
_RECEIVES: Final = re.compile(r"<?(?:crossbeam_channel|std::sync::mpm?sc|flume|tokio::sync::mpsc)::.*recv.*", re.DOTALL)
_GIVES_WAY: Final = re.compile(r"runtime\.(?:Gosched|gosched_m|gosched_m\.abi0)")  # a goroutine lets others run
_CONNECTIONS: Final = {"connecting": "connecting to", "peer": "connected to"}  # kinds of observed states
_FEWEST_LOOKS: Final = 4  # at the connections of a process, five a second if the machine is not busy
AT_TIMES: Final = 0.2  # of the looks at a process
_FEWEST_ALLOCATIONS: Final = 20  # samples and waits
_SOME: Final = 0.02  # share of a process that counts as one of several


class BusyThread(NamedTuple):
    """The thread with most samples.

    Attributes:
        name: its comm.
        share: of the samples of its process.
        threads: the number of threads of its process.
    """

    tid: int
    name: str
    share: float
    threads: int


def _histogram_of_waits(report: Report) -> Histogram | None:
    """Return the rows of time off the CPU, which may be joined with those on it."""
    sampled = (one for one in report.histograms if one.leader.samples)
    return next((one for one in sampled if one.leader.event.has_waits or is_off_cpu(one.leader.event)), None)


class Evidence:
    """The numbers of one report.

    Attributes:
        report: the report.
        histogram: of the event that measures CPU use.
        functions: its functions; None if the report has no samples in code.
        waits: those of the report, None without.
        wait_statements: the lines of functions that wait, None without.
        elapsed: seconds between the first and the last sample, of a part of a recording those of the part.
        seconds: CPU time in seconds, None for events that do not measure it.
    """

    def __init__(self, report: Report, data: SampleSource, unfolded: Callable[[], Report] | None = None) -> None:
        """Take the first event with samples.

        Args:
            report: made with RowOptions.by_thread for sentences about threads and waits.
            data: the recording's samples.
            unfolded: returns a report with the frames of interpreters, if `report` does not have these.
        """
        self.report, self._data = report, data
        histograms = [one for one in report.histograms if one.leader.samples and "frame" in report.folded.dimensions]
        on_cpu = [one for one in histograms if not is_off_cpu(one.leader.event) and not is_dummy(one.leader.event)]
        self.histogram: Histogram | None = on_cpu[0] if on_cpu else None
        self.has_several = len(on_cpu) > 1
        has_joined = self.histogram is not None and self.histogram.leader.event.has_waits
        self.functions = sampled_functions(report, self.histogram, waits=False if has_joined else None) if self.histogram else None
        first, last = data.sample_times
        times = report.options.sample_filter.times
        self.elapsed = (max(last - first, 0) if times is None else times.length_within(first, last)) / NANOSECONDS_A_SECOND
        self._unfolded = unfolded() if unfolded is not None and histograms else None  # if interpreters are folded
        of_waits = _histogram_of_waits(report) if histograms else None
        if of_waits is not None and self._unfolded is not None:  # which has the frames that tell what threads wait for
            report = self._unfolded
            of_waits = _histogram_of_waits(report)
        named = self.histogram or of_waits
        self._tasks = named.names.tasks if named else None
        only_waits = True if has_joined else None
        waiting = sampled_functions(report, of_waits, waits=only_waits) if of_waits else None
        is_known = waiting is not None and waiting.samples and "tid" in report.folded.dimensions
        self.waits = Waits(waiting) if waiting is not None and is_known else None
        if self.waits is not None:  # threads can wait from before the first event until the end
            self.elapsed = max(self.elapsed, self.waits.longest_sum)
        self._statements: Statements | None = None
        self.wait_statements: Statements | None = None
        if self.histogram is not None:
            self._statements = Statements(self.report, self.histogram.leader.event.index, waits=False if has_joined else None)
        if self.waits is not None:
            assert of_waits is not None
            self.wait_statements = Statements(report, of_waits.leader.event.index, waits=only_waits)

    @property
    def event(self) -> FileEvent:
        """The event that measures CPU use."""
        assert self.histogram is not None
        return self.histogram.leader.event

    @property
    def seconds(self) -> float | None:
        """CPU time, except that of idle CPUs; None for events whose periods are not time."""
        is_measured = self.functions is not None and is_time(self.event)
        return self.functions.period / NANOSECONDS_A_SECOND if is_measured and self.functions is not None else None

    @cached_property
    def in_garbage_collection(self) -> tuple[float, Share | None]:
        """The share of the samples in garbage collectors, and the own function that calls them most: see SampledFunctions."""
        functions = self._runtime_functions
        return (0.0, None) if functions is None else functions.in_garbage_collection(self._thread_name)

    @cached_property
    def in_whole_heap(self) -> float:
        """The share of the samples in which V8 collects the garbage of its whole heap, not only of young objects."""
        return 0.0 if self._runtime_functions is None else self._runtime_functions.in_whole_heap()

    @property
    def collections(self) -> dict[str, ObservedState]:
        """The garbage collections of the JVM with most samples, by their kind: young and full."""
        return {one.reason: one for one in self._of_busiest("collections") if one.began}

    @property
    def heap_options(self) -> list[str]:
        """The options that limit the heap of the Node with most samples."""
        return [one.reason for one in self._of_busiest("heap option")]

    def _of_busiest(self, kind: str) -> list[ObservedState]:
        return [one for one in self._observed if one.kind == kind and one.pid in [pid for pid, _ in self.processes[:1]]]

    @cached_property
    def allocators(self) -> list[tuple[str, float]]:
        """The two own functions with most of the time in allocations and waits for them, and their shares; none if that is uncertain."""
        parts = [self._runtime_functions, self.waits.functions if self.waits is not None and self.seconds is not None else None]
        amounts = [one.allocations() for one in parts if one is not None]
        periods: Counter[str] = Counter()
        for part in amounts:
            periods.update({name: period for name, (_, period) in part.items()})
        samples = sum(count for part in amounts for count, _ in part.values())
        if samples < _FEWEST_ALLOCATIONS or not periods.total():
            return []
        return [(name, period / periods.total()) for name, period in periods.most_common(2)]

    @cached_property
    def json_of_v8(self) -> tuple[list[Share], Share | None]:
        """The shares of samples in JSON.parse() and JSON.stringify() of V8, and their most frequent caller."""
        return ([], None) if self._runtime_functions is None else self._runtime_functions.json_of_v8()

    @cached_property
    def in_compilers(self) -> float:
        """The share of the samples in compilers of runtimes."""
        functions = self._runtime_functions
        return 0.0 if functions is None else functions.in_compilers(self._thread_name)

    @cached_property
    def _runtime_functions(self) -> SampledFunctions | None:
        """The functions, with those of interpreters and virtual machines."""
        functions, histogram = self.functions, self.histogram
        if self._unfolded is not None and histogram is not None:
            index = histogram.leader.event.index
            unfolded = next((one for one in self._unfolded.histograms if one.leader.event.index == index), None)
            waits = False if histogram.leader.event.has_waits else None
            functions = functions if unfolded is None else sampled_functions(self._unfolded, unfolded, waits=waits)
        return functions

    def _thread_name(self, tid: int) -> str:
        return self._tasks.last_comm(tid) if self._tasks else ""

    @property
    def records_waits(self) -> bool:
        """Whether the recording has time off the CPU."""
        return has_off_cpu(self._data.events)

    @property
    def is_system_wide(self) -> bool:
        """Whether all tasks of the CPUs were recorded: then samples of the idle task can occur."""
        return self.functions is not None and self.functions.idle > 0

    @cached_property
    def processes(self) -> list[tuple[int, float]]:
        """The processes and their shares of the samples, largest first; empty if the report has no threads."""
        functions = self.functions
        if functions is None or "pid" not in functions.rows.dimensions:
            return []
        pids, number = np.unique(functions.rows.dimensions["pid"], return_inverse=True)
        totals = sum_by(number.ravel(), functions.rows.period, len(pids))
        order = np.argsort(-totals, kind="stable")
        return [(int(pids[one]), functions.share(int(totals[one]))) for one in order.tolist()]

    @property
    def has_several_processes(self) -> bool:
        """Whether more than one process has a share that matters."""
        return sum(share >= _SOME for _, share in self.processes) > 1

    @cached_property
    def busiest_thread(self) -> BusyThread | None:
        """The thread with most samples of the process with most samples."""
        functions = self.functions
        if functions is None or self.histogram is None or not self.processes:
            return None
        pid = self.processes[0][0]
        rows = np.flatnonzero(functions.rows.dimensions["pid"] == pid)
        tids, number = np.unique(functions.rows.dimensions["tid"][rows], return_inverse=True)
        totals = sum_by(number.ravel(), functions.rows.period[rows], len(tids))
        best = int(np.argmax(totals))
        threads = {*tids.tolist(), pid, *self._started_threads(pid)}
        return BusyThread(int(tids[best]), self.comm(int(tids[best])), int(totals[best]) / max(int(totals.sum()), 1), len(threads))

    @cached_property
    def busiest_command(self) -> tuple[str, float]:
        """The command with most samples, and its share; "" if the report has no commands."""
        functions, histogram = self.functions, self.histogram
        if functions is None or histogram is None or "comm" not in histogram.keys:
            return "", 0.0
        entries = histogram.visible_entries()
        _, first, number = np.unique(histogram.keys["comm"].same(entries), return_index=True, return_inverse=True)
        totals = sum_by(number.ravel(), histogram.entries.measures["period"][entries, 0], len(first)).tolist()
        names = histogram.texts("comm", entries[first])
        commands = ((total, name.strip()) for total, name in zip(totals, names, strict=True))
        period, name = max((command for command in commands if command[1] != IDLE_COMM), default=(0, ""))
        return self.full_name(name), functions.share(period)

    @cached_property
    def main_threads(self) -> frozenset[int]:
        """The first threads of the recorded processes that wait."""
        dimensions = self.waits.rows.dimensions if self.waits is not None else {}
        return frozenset(np.unique(dimensions["pid"]).tolist()) if "pid" in dimensions else frozenset()

    def comm(self, tid: int) -> str:
        """Return the last name of a thread, in full if it is that of an executable file."""
        return self.full_name(self._tasks.last_comm(tid) if self._tasks else "")

    def full_name(self, comm: str) -> str:
        """Return the name of the executable file that a thread's name, of at most 15 bytes, is the beginning of."""
        if len(comm.encode(errors="surrogateescape")) != LONGEST_COMM:
            return comm
        names = {name for name in self._executables if name.startswith(comm)}
        return names.pop() if len(names) == 1 else comm

    @cached_property
    def _executables(self) -> set[str]:
        """The names of all files whose code is mapped."""
        mappings = self._data.side_band([RecordType.MMAP, RecordType.MMAP2])
        return {os.path.basename(side.record.filename) for side in mappings}

    def _started_threads(self, pid: int) -> list[int]:
        tasks = self._data.side_band([RecordType.FORK]).tasks().tasks
        threads: list[int] = tasks.tid[(tasks.type == RecordType.FORK) & (tasks.pid == pid) & (tasks.tid != pid)].tolist()
        return threads

    @cached_property
    def _processes(self) -> Processes:
        return Processes(self._data, decode_commands(self._kept(PROCESSES)))

    @cached_property
    def started(self) -> StartedProcesses | None:
        """The processes that were started during the recording, None without any."""
        started = self._processes.find_started()
        if started is None:
            return None
        programs = {pid: self.full_name(name) for pid, name in started.programs.items()}
        return started._replace(starter_name=self.full_name(started.starter_name), programs=programs)

    def share_of_processes(self, pids: Collection[int]) -> float:
        """Return the share of the samples in some processes."""
        return sum(share for pid, share in self.processes if pid in pids)

    @cached_property
    def largest_process(self) -> LargestProcess | None:
        """The one of several processes of a program that has over half of the CPU time; None without one."""
        pid, share = next(iter(self.processes), (0, 0.0))
        if self.seconds is None or share < MOST_OF_IT or not self.comm(pid):
            return None
        started = self._processes.find_started()
        pids = {one for one in (*dict(self.processes), *(started.pids if started is not None else ())) if self.comm(one) == self.comm(pid)}
        pids -= self._processes.with_descendants(pids)
        if pid not in pids or len(pids) < FEWEST_PROCESSES:
            return None
        cpus = self._data.features.get("nrcpus")
        has_cpus = self.records_waits and cpus and cpus.online > 1 and self._work_intervals is not None
        alone = time_alone(self._work_intervals, pid) if has_cpus and self._work_intervals is not None else None
        if alone is None:
            return LargestProcess(pid, share, len(pids))
        first = self._data.sample_times[0]
        return LargestProcess(pid, share, len(pids), *(one / NANOSECONDS_A_SECOND for one in (alone[0] - first, alone[1] - alone[0])))

    @cached_property
    def killed(self) -> list[KilledProcesses]:
        """The processes that signals killed, by program and signal, most first."""
        states: dict[tuple[str, str], list[ObservedState]] = {}
        for state in self._observed:
            if state.kind == "killed":
                states.setdefault((self.comm(state.pid), state.reason), []).append(state)
        started = self._processes.find_started()
        counts = Counter(self.comm(pid) for pid in started.pids) if started is not None else Counter[str]()
        killed = []
        for (program, signal), of_program in states.items():
            parents = {self._processes.parent_of(state.pid) for state in of_program}
            parent = self.comm(parents.pop()) if len(parents) == 1 and 0 not in parents else ""
            killed.append(KilledProcesses(program, signal, len(of_program), counts[program], parent, *self._place_of_faults(of_program)))
        return sorted(killed, key=lambda one: -one.number)

    def _place_of_faults(self, states: Sequence[ObservedState]) -> tuple[str, SourceLine | None, int]:
        """Return the function and the line in which most processes got the signal that killed them, and their number; "" without one."""
        find = self.report.find_code
        ends = [(one.pid, one.frames[0].line, self._processes.end_of(one.pid)) for one in states if one.frames]
        known = [(pid, address, end - 1) for pid, address, end in ends if end > 0 and 0 < address < 1 << 63]
        if find is None or not known:
            return "", None, 0
        code = find(*zip(*known, strict=True))
        function, count = Counter(name for name, _ in code).most_common(1)[0]
        # nobody looks into the C library's assembler
        lines = Counter(line for name, line in code if name == function and line is not None and not line[0].endswith(".S"))
        return function, next(iter(dict(lines.most_common(1))), None), count if function else 0

    @cached_property
    def compiled(self) -> dict[int, str]:
        """What the processes of compilers, assemblers and linkers compile or make."""
        return compiled_files(decode_commands(self._kept(PROCESSES)))

    @cached_property
    def in_build_tools(self) -> float:
        """The share of the samples in compilers, assemblers and linkers."""
        return sum(share for pid, share in self.processes if is_build_tool(self.comm(pid)))

    def start_of(self, started: StartedProcesses) -> ProcessStart | None:
        """Return the own function in which processes are started, None if it is unknown or several do so."""
        parents = {self._processes.parent_of(pid) for pid in started.pids}
        for statements in (self.wait_statements, self._statements):
            start = statements.find_start(parents) if statements is not None else None
            if start is not None:
                return start
        return find_start_in_script(state for state in self._observed if state.kind == "bash" and state.pid in parents)

    @cached_property
    def _observed(self) -> list[ObservedState]:
        """The states of shells and Go programs that the recorder saw."""
        return decode_states(self._kept(STATES))

    @cached_property
    def process_names(self) -> dict[int, NamedProcess]:
        """The names of processes by their command lines; empty for recordings without these."""
        commands = decode_commands(self._kept(PROCESSES))
        return name_processes(commands, find_targets(self.functions) if commands and self.functions is not None else {})

    @cached_property
    def process_rows(self) -> list[ProcessRow]:
        """What the processes of a service with several workers did; empty for other programs, and for tracepoints (no CPU time)."""
        if self.functions is None or self.event.attr.type == PerfType.TRACEPOINT:
            return []
        return process_rows(self.functions, self.process_names, self.comm)

    def _kept(self, name: str) -> bytes:
        """Return a file in the recording, b"" if it is missing."""
        files = getattr(self._data, "kept_files", None)  # sources other than files have none
        return (files.get(name) if files is not None and name in files else None) or b""

    def call_of(self, wait: Wait) -> str:
        """Return the system call in which the thread that waited longest slept nearly always, "" if it is unknown."""
        states = [state for state in self._observed if state.kind == "call" and state.pid == wait.thread]
        most = max(states, key=lambda state: state.seen, default=None)
        return most.reason if most is not None and most.looks >= LOOKS and most.seen >= NEARLY_ALL * most.looks else ""

    def peers(self, wait: Wait) -> tuple[str, list[tuple[str, str, int]]]:
        """Return how a process is connected to others while its main thread waits, and their addresses, each with the name and the number
        of the process there, "" and 0 if unknown; "" and none if it is not.
        """
        states = [one for one in self._observed if one.kind in _CONNECTIONS and one.pid == wait.thread and one.looks >= _FEWEST_LOOKS]
        states = [one for one in states if not one.began or one.began[0].line != one.pid]  # its own clients wait for it
        for least, adverb in ((MOST, ""), (AT_TIMES, "at times ")):
            for kind, words in _CONNECTIONS.items():
                chosen = [one for one in states if one.kind == kind and one.seen >= least * one.looks]
                if addresses := sorted(
                    {(one.reason, *(one.began[0].function, one.began[0].line)) if one.began else (one.reason, "", 0) for one in chosen}
                ):
                    return f"{adverb}{words}", addresses
        return "", []

    def is_deadlock(self, wait: Wait) -> bool:
        """Whether all threads of a process wait for locks, or for each other's end, all the time.

        Then one of them holds the lock, or nobody does who could release it. The threads of a JVM that do not run the program's code have
        none of its locks.
        """
        if self.waits is None or wait.threads < 2 or wait.processes > 1:
            return False
        rows = np.flatnonzero(self.waits.rows.dimensions["pid"] == self.process_of(wait.thread))
        is_java = self.waits.are_of_java and wait.in_own >= ONE_FUNCTION
        others = (one for one in self.waits.by_reason(rows) if one.reason not in (wait.reason, JOIN))
        runs = bool(self.seconds) and not (is_java and self.functions is not None and not self.functions.by_category()[OWN])
        return not runs and not any(one.in_own or not is_java for one in others)

    def cpu_limit(self, wait: Wait) -> tuple[float, float]:
        """Return the CPUs to which a cgroup limits the process that waits longest, and the share of its periods that reached the limit."""
        pid = self.process_of(wait.thread)
        limits = [
            one for one in self._observed if one.kind == "limit" and one.pid == pid and _NUMBER.fullmatch(one.reason) and one.looks > 0
        ]
        return (float(limits[0].reason), min(limits[0].seen / limits[0].looks, 1.0)) if limits else (0.0, 0.0)

    def goroutines(self, wait: Wait) -> list[WaitingGoroutines]:
        """Return the waiting goroutines of the process that waits; empty for other programs than Go's."""
        pid = self.process_of_wait(wait)
        return waiting_goroutines(state for state in self._observed if state.kind == "go" and state.pid == pid)

    @cached_property
    def yielding_goroutines(self) -> tuple[float, ObservedFrame | None]:
        """The share of the samples in runtime.Gosched(), and the own function that nearly all goroutines call it from, None if unknown.

        The runtime leaves the goroutine's stack, so that the callchains of samples do not have the caller.
        """
        functions = self._runtime_functions
        if functions is None or not (share := functions.share_with(_GIVES_WAY)):
            return 0.0, None
        callers: Counter[tuple[str, str, int]] = Counter()
        for state in self._observed:
            if state.kind == "go" and state.frames and _GIVES_WAY.fullmatch(state.frames[0].function):
                caller = next((frame for frame in state.frames if not frame.function.startswith("runtime.")), None)
                if caller is not None:
                    callers[caller] += state.seen
        most, seen = next(iter(callers.most_common(1)), (("", "", 0), 0))
        return share, ObservedFrame(*most) if seen >= max(MOST * callers.total(), LOOKS) else None

    @cached_property
    def turns(self) -> Turns | None:
        """The processes that worked one after the other although several CPUs were online; None if that is not certain."""
        cpus = self._data.features.get("nrcpus")
        if not self.records_waits or not cpus or cpus.online < 2 or len(self.processes) < FEWEST_PROCESSES:
            return None
        return take_turns(self._work_intervals) if self._work_intervals is not None else None

    @cached_property
    def bursts(self) -> Bursts | None:
        """The bursts in which the program uses CPUs; None if it does not surely work in bursts."""
        is_idle_at_times = (self.seconds or 0.0) < self.elapsed
        if not is_idle_at_times or self.elapsed < FEWEST_BURSTS * LEAST_DISTANCE:
            return None
        return find_bursts(self._work_intervals) if self._work_intervals is not None else None

    @cached_property
    def _work_intervals(self) -> BusyIntervals | None:
        """When threads had work; None for parts of recordings, those of whole machines, and long ones."""
        waiting = next((event.index for event in self._data.events if is_off_cpu(event)), -2)
        is_part = not self.report.options.sample_filter.includes_host
        if self.histogram is None or self.seconds is None or self.is_system_wide or is_part or self.has_several:
            return None
        if self._data.sample_counts.total() > _MOST_SAMPLES:
            return None
        return work_intervals(self._data, self.event.index, waiting)

    @cached_property
    def phases(self) -> list[Phase]:
        """The functions that have nearly all CPU time one after the other; empty if that is not certain. Pages mark the same."""
        fold_times = self.report.fold_times
        is_part = self.report.options.sample_filter.times is not None
        if self.seconds is None or fold_times is None or self.is_system_wide or is_part or self.elapsed < SHORTEST_OF_PHASES:
            return []
        samples = fold_times(int(self.elapsed / SLICES * NANOSECONDS_A_SECOND))
        functions = samples and SampledFunctions(samples, self.event.index, waits=False if self.event.has_waits else None)
        if not functions:
            return []
        first, rows = self._data.sample_times[0], functions.rows
        phases = find_phases(functions, first)
        if phases or not self.has_several_processes or "pid" not in rows.dimensions:
            return phases
        return find_program_phases(rows.dimensions["pid"], rows.dimensions["time"], rows.count, self.comm, first)

    def stretches(self, function: int, callee: str) -> LongStretches | None:
        """Return the long stretches of time in which an own function runs a C function; None if they are not certain."""
        samples = self.report.fold_times(1) if self.report.fold_times and self.seconds and self.report.samples <= MOST_SAMPLES else None
        if samples is None or self.functions is None:
            return None
        timed = SampledFunctions(samples, self.event.index, waits=False if self.event.has_waits else None)
        name = self.functions.name(function)
        same = next((one for one in timed.present.tolist() if timed.name(one) == name), None)
        return None if same is None else find_stretches(timed, same, callee)

    @property
    def allowed_jobs(self) -> str:
        """The words of the recorded command that allow several jobs at a time, as "make -j2"; "" for none."""
        words = [str(word) for word in self._data.features.get("cmdline") or ()]
        jobs = _JOBS.search(" ".join(words))
        return f"{jobs[1]} -j{jobs[2]}" if jobs else ""

    def is_recorder(self, comm: str) -> bool:
        """Whether this is the name of the program that recorded, whose work is in the recording of a whole machine."""
        return comm != "" and comm == self._processes.recorder

    def line(self, function: int, *, callee: str = "", in_kernel: bool = False) -> HotLine | None:
        """Return the line at which a function has most of its samples: see Statements.line()."""
        return None if self._statements is None else self._statements.line(function, callee=callee, in_kernel=in_kernel)

    def charged_lines(self, function: int) -> dict[SourceLine, float]:
        """Return the lines of the samples that are charged to a function, with their shares: see Statements.charged_lines()."""
        return {} if self._statements is None else self._statements.charged_lines(function)

    def line_with_callees(self, function: int, *, waits: bool) -> HotLine | None:
        """Return the line at which a function runs or waits longest, with all functions that it calls."""
        statements = self.wait_statements if waits else self._statements
        return None if statements is None else statements.line_with_callees(function)

    def is_inlined(self, function: int, line: tuple[str, int]) -> bool:
        """Whether a line of a function's samples is not in the function: then code was inlined there."""
        return self._statements is not None and self._statements.is_inlined(function, line)

    def wait_line(self, wait: Wait) -> HotLine | None:
        """Return the line at which the function of a wait waits longest.

        A thread can wait for Python's lock after every line, so that wait has the line at which the function runs longest.
        """
        if self.wait_statements is None or wait.number < 0:
            return None
        line = self._line_of_name(wait.function) if wait.reason == GIL else None
        return line or self.wait_statements.wait_line(wait.number, wait.reason)

    def second_line(self, wait: Wait) -> HotLine | None:
        """Return the line at which the second function of a wait waits longest."""
        statements = self.wait_statements
        is_known = statements is not None and wait.second_number >= 0 and wait.reason != GIL
        return statements.wait_line(wait.second_number, wait.reason) if statements is not None and is_known else None

    def waker(self, wait: Wait) -> Waker | None:
        """Return the thread that ended a wait, and what it did meanwhile; None if it is not certain."""
        statements = self.wait_statements
        if statements is None or statements.waits is None or self.waits is None:
            return None
        if len(statements.waits.rows) and statements.waits.functions.samples != self.waits.functions.samples:
            return None  # an excerpt of a long recording
        running = self.functions if self.seconds is not None else None
        return find_waker(wait, statements.waits, running, self._processes.children_of, elapsed=self.elapsed)

    def holders(self, wait: Wait) -> Waker | None:
        """Return what the several threads that ended waits for a lock did while they held it; None if it is not certain."""
        statements = self.wait_statements
        if statements is None or statements.waits is None:
            return None
        return find_holders(wait, statements.waits, self.functions if self.seconds is not None else None)

    @cached_property
    def waiting_workers(self) -> int:
        """The number of threads that run tasks of pools, if all of them wait for results of tasks all the time; 0 otherwise."""
        return waiting_workers(self.waits) if self.waits is not None else 0

    @cached_property
    def stuck_threads(self) -> dict[int, SeenLock]:
        """The threads that waited until the end, without running, for a lock with a known holder."""
        return stuck_threads(self._observed)

    def seen_lock(self, wait: Wait) -> SeenLock | None:
        """Return the lock that a wait's threads waited for, if the recorder saw that one other thread held it; None otherwise."""
        if self.waits is None:
            return None
        is_chosen = (self.waits.reason == wait.reason) & self.waits.are_for_known_locks
        tids = set(distinct(self.waits.rows.dimensions["tid"][is_chosen]).tolist())
        locks = [one for one in seen_locks(self._observed) if one.tid in tids and one.is_file == (wait.reason == FILE_LOCK)]
        is_one = len({one.holder for one in locks}) == 1 and locks[0].holder not in tids
        return locks[0] if is_one and len(locks) >= MOST * wait.threads else None

    def activity(self, tid: int) -> Waker | None:
        """Return what a thread did for most of the time; None if it is not in the recording."""
        waits = self.wait_statements.waits if self.wait_statements is not None else None
        return None if waits is None else activity_of(tid, waits, self.functions if self.seconds is not None else None)

    def vague_share(self, wait: Wait, *, in_both: bool = False) -> float:
        """Return the share of a wait that may be in functions which its function calls; in_both: or which the second one calls."""
        if self.waits is None:
            return 0.0
        functions = self.waits.functions
        first, second = functions.vague_share(wait.number), functions.vague_share(wait.second_number) if in_both else 0.0
        in_second = wait.in_second if in_both else 0.0
        return (first * wait.in_function + second * in_second) / max(wait.in_function + in_second, 1e-9)

    def vague_share_of_waker(self, waker: Waker) -> float:
        """Return the share of what a waker did that may be in functions which its function calls."""
        of_waits = self.wait_statements.functions if self.wait_statements is not None else None
        functions = self.functions if waker.reason == RUNNING else of_waits
        return functions.vague_share(waker.number) if functions is not None else 0.0

    def function_of_lock(self, tid: int) -> tuple[str, HotLine | None, float] | None:
        """Return the own function ("" if unknown) and the line in which a thread waits longest for locks, and the share that may be in
        functions which it calls; None if it does not wait.
        """
        statements = self.wait_statements
        if statements is None or statements.waits is None:
            return None
        rows = np.flatnonzero((statements.waits.rows.dimensions["tid"] == tid) & statements.waits.are_for_known_locks)
        wait = next(iter(statements.waits.by_reason(rows)), None)
        if wait is None:
            return None
        line = statements.wait_line(wait.number, wait.reason, tid) if wait.number >= 0 else None
        return wait.function, line, statements.waits.functions.vague_share(wait.number)

    def is_only_busy_thread(self, tid: int) -> bool:
        """Whether nearly all of the recorded CPU time is one thread's."""
        if self.functions is None or self.seconds is None or "tid" not in self.functions.rows.dimensions:
            return False
        rows = self.functions.rows
        return int(rows.period[rows.dimensions["tid"] == tid].sum()) >= NEARLY_ALL * max(int(rows.period.sum()), 1)

    def children_of(self, pid: int) -> list[int]:
        """Return the processes that a process created."""
        return self._processes.children_of(pid)

    def children_in_turn(self, wait: Wait) -> tuple[str, int, ProcessStart | None]:
        """Return the program of nearly all children of a process that waits for children, their number, and the lines that started them.

        The process may wait for one of its own name that does so, as a shell does for a part of a pipeline. The program is "" if they are
        forks that executed none; the number is 0 if there are several programs, or only one child.
        """
        pids = [self.process_of_wait(wait)]
        pids += [child for child in self.children_of(pids[0]) if self.comm(child) == self.comm(pids[0])]
        for pid in pids:
            children = self._processes.created_by(pid)
            names = Counter(self.comm(child) if self._processes.has_executed(child) else "" for child in children)
            name, count = next(iter(names.most_common(1)), ("", 0))
            if count >= max(2, NEARLY_ALL * names.total()):
                return name, count, find_start_in_script(one for one in self._observed if one.kind == "bash" and one.pid == pid)
        return "", 0, None

    @property
    def takes_from_queues(self) -> bool:
        """Whether own functions that wait for work do so in a queue: in Python and Java."""
        waits = self.waits
        is_python = waits is not None and any(waits.functions.name(one).startswith(PYTHON_MARK) for one in waits.functions.present.tolist())
        return is_python or (waits is not None and waits.are_of_java)

    @property
    def receives_from_channels(self) -> bool:
        """Whether own functions that wait for work receive from a channel, as in Rust."""
        waits = self.waits
        return waits is not None and any(_RECEIVES.fullmatch(waits.functions.name(one)) for one in waits.functions.present.tolist())

    def is_of_only_thread(self, wait: Wait) -> bool:
        """Whether the process of the thread that waits for another one has no other thread, as far as the recording tells."""
        pid = self.process_of(wait.thread)
        tasks = self._data.side_band([RecordType.FORK, RecordType.EXIT]).tasks().tasks
        created, ended = ({*tasks.tid[(tasks.pid == pid) & (tasks.type == kind)].tolist()} for kind in (RecordType.FORK, RecordType.EXIT))
        named = {side.record.tid for side in self._data.side_band([RecordType.COMM]) if side.record.pid == pid}
        return pid > 0 and (created | named) - ended == {wait.thread}

    def name_and_parent(self, wait: Wait) -> tuple[str, str]:
        """Return the name of all processes that wait for a reason, and that of the one that created them; "" for several."""
        if self.waits is None or wait.processes != wait.threads:
            return "", ""
        pids = distinct(self.waits.rows.dimensions["pid"][self.waits.reason == wait.reason]).tolist()
        names, parents = {self.comm(pid) for pid in pids}, {self._processes.parent_of(pid) for pid in pids}
        parent = self.comm(parents.pop()) if len(parents) == 1 and 0 not in parents else ""
        return (names.pop(), parent) if len(names) == 1 else ("", "")

    def outermost(self, wait: Wait) -> Wait:
        """Return the waits for child processes of the one process that created the others, directly or not."""
        if self.waits is None or wait.processes < 2:
            return wait
        is_waiting = self.waits.reason == wait.reason
        pids = self.waits.rows.dimensions["pid"]
        present, number = np.unique(pids[is_waiting], return_inverse=True)
        totals = sum_by(number.ravel(), self.waits.rows.period[is_waiting], len(present))
        waiting = set(present[totals >= MOST_OF_IT * totals.max()].tolist())  # helpers that wait for a moment do not count
        outer = [pid for pid in waiting if self._processes.parent_of(pid) not in waiting]
        rows = np.flatnonzero(is_waiting & (pids == outer[0])) if len(outer) == 1 else np.zeros(0, np.int64)
        return next(iter(self.waits.by_reason(rows)), wait)

    def is_never_woken(self, wait: Wait) -> bool:
        """Whether no recorded thread ended any of the waits, which ended by their time limits then, or not at all."""
        statements = self.wait_statements
        return self.is_program and statements is not None and statements.waits is not None and is_never_woken(wait, statements.waits)

    def is_rarely_woken(self, wait: Wait) -> bool:
        """Whether no recorded thread ended the waits of a program's thread for most of their time."""
        statements = self.wait_statements
        return self.is_program and statements is not None and statements.waits is not None and is_rarely_woken(wait, statements.waits)

    def share_of_own_stacks(self, wait: Wait) -> float:
        """Return the share of a wait's time that has the stacks of just these waits, not those of similar ones."""
        waits = self.wait_statements.waits if self.wait_statements is not None else None
        return waits.share_of_own_stacks(wait.reason) if waits is not None else 1.0

    def process_of_wait(self, wait: Wait) -> int:
        """Return the process of the thread that waited longest."""
        assert self.waits is not None
        dimensions = self.waits.rows.dimensions
        return int(dimensions["pid"][dimensions["tid"] == wait.thread][0])

    def is_endless(self, wait: Wait) -> bool:
        """Whether the threads waited for the whole recording; False if that is not certain."""
        statements = self.wait_statements
        return statements is not None and statements.waits is not None and is_endless(wait, statements.waits)

    def process_of(self, tid: int) -> int:
        """Return the process of a thread that waited, 0 if it is unknown."""
        functions = self.wait_statements.functions if self.wait_statements is not None else None
        if functions is None:
            return 0
        rows = np.flatnonzero(functions.rows.dimensions["tid"] == tid)
        return int(functions.rows.dimensions["pid"][rows[0]]) if len(rows) else 0

    def waker_line(self, waker: Waker) -> HotLine | None:
        """Return the line at which a waker waited or ran."""
        if waker.number < 0 or self.wait_statements is None:
            return None
        return self.line(waker.number) if waker.reason == RUNNING else self.wait_statements.wait_line(waker.number, waker.reason)

    def _line_of_name(self, name: str) -> HotLine | None:
        """Return the line of a function of the waits' report, whose numbers may differ, where it uses CPUs."""
        functions = self.functions
        numbers = [] if functions is None else [one for one in functions.present.tolist() if functions.name(one) == name]
        return next(filter(None, (self.line(number) for number in numbers)), None)

    @property
    def read_python(self) -> bool:
        """Whether the recorder read Python functions (record --python), of this program or of others."""
        return "--python" in self._data.features.get("cmdline", ())

    @property
    def is_program(self) -> bool:
        """Whether a command was started, and recorded from its beginning."""
        return any(event.attr.enable_on_exec for event in self._data.events)
