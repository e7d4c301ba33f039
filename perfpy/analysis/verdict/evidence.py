"""The numbers that a verdict on a recording is made from: its time, functions, threads, waits and started processes."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from perfpy.abi.flags import RecordType
from perfpy.analysis.aggregate.exact_sums import sum_by
from perfpy.analysis.samples.wait_events import NANOSECONDS_A_SECOND, has_off_cpu, is_dummy, is_off_cpu, is_time
from perfpy.analysis.verdict.functions import SampledFunctions, sampled_functions
from perfpy.analysis.verdict.waits import Waits

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.sample_source import SampleSource

_LINES: Final = 200_000  # samples; the Python lines of larger recordings are not counted, because that takes a second pass
_ADDRESSES: Final = 50_000  # samples whose addresses are counted for lines, from the beginning of the recording
_LINE: Final = re.compile("[0-9]{1,9}")
IDLE_COMM: Final = "swapper"
_SOME: Final = 0.02  # share of a process that counts as one of several


class VerdictSource(Protocol):
    """The part of a recording that evidence needs."""

    @property
    def data(self) -> SampleSource:
        """The recording's data."""

    def report(self, by: str | None = None, /) -> Report:
        """Return a report by these keys."""


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


class Evidence:
    """The numbers of one report.

    Attributes:
        histogram: of the event that measures CPU use.
        functions: its functions; None if the report has no samples in code.
        waits: those of the report, None without.
        elapsed: seconds between the first and the last sample.
        seconds: CPU time in seconds, None for events that do not measure it.
    """

    def __init__(self, report: Report, recording: VerdictSource, waits: Callable[[], Report] | None = None) -> None:
        """Take the first event with samples.

        Args:
            report: made with RowOptions.by_thread for sentences about threads and waits.
            recording: the recording.
            waits: makes a report of the waits with the frames of interpreters, if `report` does not have these.
        """
        self._report, self._recording = report, recording
        histograms = [one for one in report.histograms if one.leader.samples and "frame" in report.folded.dimensions]
        on_cpu = [one for one in histograms if not is_off_cpu(one.leader.event) and not is_dummy(one.leader.event)]
        off_cpu = next((one for one in histograms if is_off_cpu(one.leader.event)), None)
        self.histogram: Histogram | None = on_cpu[0] if on_cpu else None
        self.has_several = len(on_cpu) > 1
        has_joined = self.histogram is not None and self.histogram.leader.event.has_waits
        self.functions = sampled_functions(report, self.histogram, waits=False if has_joined else None) if self.histogram else None
        first, last = recording.data.sample_times
        self.elapsed = max(last - first, 0) / NANOSECONDS_A_SECOND
        waiting = SampledFunctions(report, self.histogram, waits=True) if has_joined and self.histogram else None
        if off_cpu is not None and waits is not None:
            report = waits()
            off_cpu = next((one for one in report.histograms if one.leader.samples and is_off_cpu(one.leader.event)), None)
        waiting = SampledFunctions(report, off_cpu) if off_cpu else waiting
        self._waits_report = report
        is_known = waiting is not None and waiting.samples and "tid" in report.folded.dimensions
        self.waits = Waits(waiting) if waiting is not None and is_known else None

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

    @property
    def records_waits(self) -> bool:
        """Whether the recording has time off the CPU."""
        return has_off_cpu(self._recording.data.events)

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
        _, first, number = np.unique(histogram.keys["comm"].same[entries], return_index=True, return_inverse=True)
        totals = sum_by(number.ravel(), histogram.entries.measures["period"][entries, 0], len(first)).tolist()
        names = histogram.texts("comm", entries[first])
        commands = ((total, name.strip()) for total, name in zip(totals, names, strict=True))
        period, name = max((command for command in commands if command[1] != IDLE_COMM), default=(0, ""))
        return name, functions.share(period)

    def comm(self, tid: int) -> str:
        """Return the last name of a thread."""
        return self.histogram.names.tasks.last_comm(tid) if self.histogram else ""

    def _started_threads(self, pid: int) -> list[int]:
        tasks = self._recording.data.side_band([RecordType.FORK]).tasks().tasks
        threads: list[int] = tasks.tid[(tasks.type == RecordType.FORK) & (tasks.pid == pid) & (tasks.tid != pid)].tolist()
        return threads

    @cached_property
    def started_processes(self) -> int:
        """The number of processes that were started during the recording."""
        tasks = self._recording.data.side_band([RecordType.FORK]).tasks()
        first = self._recording.data.sample_times[0]
        new = (tasks.tasks.type == RecordType.FORK) & (tasks.tasks.pid != tasks.tasks.ppid) & (tasks.tasks.pid == tasks.tasks.tid)
        times = tasks.keys[tasks.tasks.rank[new] - 1]
        return int(np.count_nonzero(times >= first))

    def line(self, function: int, *, is_callee: bool = False) -> tuple[str, int] | None:
        """Return the path and the line of a function: where most of its samples are, or where it begins.

        is_callee: the function has few samples of its own.
        """
        name = self.functions.name(function) if self.functions is not None else ""
        if name.startswith("py::"):
            return self._python_line(name)
        hottest = None if is_callee else self._sampled_line(function)
        if hottest or self._report.find_begins is None or not name:
            return hottest
        return self._report.find_begins([function]).get(function)

    def is_inlined(self, function: int, line: tuple[str, int]) -> bool:
        """Whether a line of a function's samples stands before the function in its file: then its code was inlined there."""
        if self._report.find_begins is None or (self.functions is not None and self.functions.name(function).startswith("py::")):
            return False
        begin = self._report.find_begins([function]).get(function)
        return begin is not None and begin[0] == line[0] and line[1] < begin[1]

    def wait_line(self, function: int) -> tuple[str, int] | None:
        """Return the path and the line where a function that waits begins."""
        begins = self._waits_report.find_begins
        return begins([function]).get(function) if begins is not None and function >= 0 else None

    @property
    def read_python(self) -> bool:
        """Whether the recorder read Python functions (record --python), of this program or of others."""
        return "--python" in self._recording.data.features.get("cmdline", ())

    @property
    def is_program(self) -> bool:
        """Whether a command was started, and recorded from its beginning."""
        return any(event.attr.enable_on_exec for event in self._recording.data.events)

    def _sampled_line(self, function: int) -> tuple[str, int] | None:
        histogram, find_lines = self.histogram, self._report.find_lines
        if histogram is None or find_lines is None:
            return None
        locations = histogram.locations
        frames = np.flatnonzero(locations.symbol == function)
        address, count = self._addresses
        position = np.minimum(np.searchsorted(address, locations.ip[frames]), max(len(address) - 1, 0))
        is_sampled = address[position] == locations.ip[frames] if len(address) else np.zeros(len(frames), np.bool_)
        frames, samples = frames[is_sampled], count[position[is_sampled]]
        totals: dict[tuple[str, int], int] = {}
        for line, number in zip(find_lines(frames.tolist()), samples.tolist(), strict=True):
            if line is not None and line[1]:
                totals[line] = totals.get(line, 0) + number
        begin = self._report.find_begins([function]).get(function) if self._report.find_begins and totals else None
        inside = {line: number for line, number in totals.items() if begin is not None and line[0] == begin[0]} or totals
        return max(inside, key=lambda line: (inside[line], -line[1])) if inside else None

    @cached_property
    def _addresses(self) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The distinct addresses of the event's first samples, and the number of samples at each."""
        parts: list[NDArray[np.uint64]] = []
        count = 0
        for batch in self._recording.data.stored_batches({"ip"}):
            if len(batch.event):
                parts.append(batch.columns["ip"][batch.event == self.event.index])
                count += len(parts[-1])
            if count >= _ADDRESSES:
                break
        return np.unique(np.concatenate(parts) if parts else np.zeros(0, np.uint64), return_counts=True)

    def _python_line(self, name: str) -> tuple[str, int] | None:
        """Return the line of a Python function with most samples."""
        if self.histogram is None or self.histogram.leader.samples > _LINES:
            return None
        function, _, path = name.removeprefix("py::").partition(":")
        begin = f"{function} {path}:"
        for text in self._python_lines:
            if text.startswith(begin) and _LINE.fullmatch(text, len(begin)):
                return path, int(text[len(begin) :])
        return None

    @cached_property
    def _python_lines(self) -> list[str]:
        """The Python lines of the recording, those with most samples first."""
        report = self._recording.report("pyline")
        tables = [one for one in report.histograms if one.leader.event.index == self.event.index]
        return [row.texts["pyline"].strip() for row in tables[0].rows()] if tables else []
