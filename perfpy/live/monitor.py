"""LiveMonitor: one report per interval of what runs now."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.analysis.entries.plan import plan_report
from perfpy.analysis.report.report import planned_scan, recording_text, report_of
from perfpy.capture.metadata.recorded_features import RecordedFeatures
from perfpy.capture.metadata.synthesis import Synthesis, id_layout
from perfpy.capture.unwinding.plain_attrs import plain_attr
from perfpy.errors import PerfError
from perfpy.fleet.merged_profile import MergedProfile
from perfpy.fleet.portable.own_values import OwnWords
from perfpy.fleet.portable.profile import portable
from perfpy.fleet.portable.traced_values import formats_of
from perfpy.kernel.procfs import ProcFs
from perfpy.live.containers import RunningContainers
from perfpy.live.fading_rows import add_window
from perfpy.live.reading import RingReader
from perfpy.live.saved_recording import Retained, write_snapshot
from perfpy.live.symbolizing import LiveSymbols
from perfpy.live.window import LiveWindow
from perfpy.perfdata.records.raw_records import RawRecords
from perfpy.symbols.tasks.live_tasks import MOST_MAP_BYTES, LiveTasks
from perfpy.views.top.rates import WINDOW, Rates
from perfpy.workers.freed_memory import return_freed_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from perfpy.analysis.annotation.annotated import AnnotatedFunction
    from perfpy.analysis.entries.options import ReportOptions
    from perfpy.analysis.report.report import Report
    from perfpy.capture.off_cpu.sources import WaitPlan
    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.disassembly.objdump import CodeStyle
    from perfpy.fleet.portable.profile import PortableProfile
    from perfpy.live.jit_names import LiveJitNames
    from perfpy.live.python_frames import LivePython
    from perfpy.live.reading import RingRecords
    from perfpy.live.rings import LiveRings
    from perfpy.live.waits import LiveWaits
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.tracepoints.tracing_data import Tracing
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbol_table import SymbolTable
    from perfpy.symbols.symbolizer import Symbolizer


_DRAIN_EVERY: Final = 0.05  # seconds
_TRIM_EVERY: Final = 20_000_000_000  # nanoseconds


class LiveUpdate(NamedTuple):
    """The state at the end of an interval.

    Attributes:
        rates: in the interval.
        report: the rows so far.
        code: of the requested function; or why there is none.
        size: bytes of its records.
        seconds: that its computation took.
    """

    rates: Rates
    report: Report
    code: AnnotatedFunction | str = ""
    size: int = 0
    seconds: float = 0.0


class LiveMonitor:
    """Reports of running events, one per call of update().

    One thread may use the monitor while another one uses its reader.

    Args:
        rings: the open events.
        options: of the reports.
        symbols: where to look for symbols.
        shows_self: count perfpy's own samples.
        hidden: cpumodes without rows.
        zero: forget earlier windows instead of fading them.
        retain: seconds of samples that save() writes and annotate() counts.
        jit: requests names of code that JVMs have compiled.
        only_python: with Python frames, unwind the stacks of Python processes only.
        adapts_rate: take fewer samples per second while there is no time for them.

    Attributes:
        reader: of the ring buffers.
    """

    def __init__(
        self,
        rings: LiveRings,
        options: ReportOptions,
        symbols: SymbolOptions,
        *,
        shows_self: bool = False,
        hidden: Collection[int] = (),
        zero: bool = False,
        retain: float = 0,
        jit: LiveJitNames | None = None,
        only_python: bool = False,
        adapts_rate: bool = False,
    ) -> None:
        self._rings, self._options = rings, options
        self.zero = zero
        self._jit = jit
        tracing_data = rings.tracing_data()
        tracing = _tracing(tracing_data) if tracing_data else None
        self._python = self._new_python(rings.events(tracing), only_python=only_python) if rings.options.python else None
        self.reader = RingReader(rings, self._python, adapts_rate=adapts_rate)
        events = rings.events(tracing)
        for event in events if self._python else ():
            event.attr = plain_attr(event.attr)
        own, plan = -1 if shows_self else os.getpid(), rings.waits
        dropped = plan.hidden if plan else ()
        self._waits = self._new_waits(plan, events, own) if plan else None
        self._window = LiveWindow(events, rings.features, tracing, own=own, hidden=hidden, dropped=dropped)
        self._synthesis = _synthesis(rings, events)
        self._tasks = LiveTasks(self._window.table, self._present_state)
        self._symbols = LiveSymbols(self._tasks, symbols)
        self._plan = plan_report(self._window, options)  # raises for invalid options before anything runs
        self._history: PortableProfile | None = None
        self._retained, self._containers = Retained(retain), RunningContainers()
        recorded, attrs = rings.recorded
        self._recorded = RecordedFeatures(recorded, rings.options, attrs)
        self._total_lost = self._total_dropped = 0
        self._trim_at = 0
        self._since = time.monotonic_ns()

    def _new_python(self, events: list[FileEvent], *, only_python: bool) -> LivePython:
        from perfpy.live.python_frames import LivePython  # rarely needed

        return LivePython(self._rings, events, only_python=only_python)

    @staticmethod
    def _new_waits(plan: WaitPlan, events: list[FileEvent], own: int) -> LiveWaits:
        from perfpy.live.waits import LiveWaits  # rarely needed

        return LiveWaits(plan, events, own)

    @property
    def children(self) -> tuple[int, ...]:
        """The pids of processes that work for this one."""
        return () if self._python is None else (self._python.reader_pid,)

    def close(self) -> None:
        """End the process that reads Python frames, if there is one."""
        if self._python:
            self._python.close()

    def begin(self) -> None:
        """Enable the events, and learn about the running tasks."""
        self._rings.counters.enable()
        self._since = time.monotonic_ns()
        self._learn(self._draining(self._synthesized_records()))
        if self._python is not None:  # converting these would delay the first update
            self.reader.forget_samples()
        if self._waits is not None:
            self._waits.begin(self._target_threads(), time.monotonic_ns())

    def _target_threads(self) -> Iterator[tuple[int, int]]:
        """Yield the process and thread of each running task of the target."""
        procfs, target = ProcFs(), self._rings.target
        tids = set(target.tids) if target.has_tasks else None
        for pid in procfs.processes():
            yield from ((pid, tid) for tid in procfs.threads(pid) if tids is None or tid in tids)

    def _synthesized_records(self) -> Iterable[bytes]:
        rings, synthesis = self._rings, self._synthesis
        if not all(event.attr.exclude_kernel for event in rings.counters.events):
            yield from synthesis.kernel()
        if rings.options.side_band.all_cgroups:
            from perfpy.capture.cgroups import mount_point  # rarely needed

            yield from synthesis.cgroups(mount_point())
        if rings.target.has_tasks:
            yield from synthesis.threads(rings.target.tids)
        else:
            yield from synthesis.processes()

    def _draining(self, records: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the records, and empty the ring buffers in the meantime: large machines have many tasks."""
        due = time.monotonic() + _DRAIN_EVERY
        for record in records:
            yield record
            if time.monotonic() >= due:
                self.reader.drain()
                due = time.monotonic() + _DRAIN_EVERY

    def _learn(self, records: Iterable[bytes]) -> None:
        data = b"".join(records)
        if self._python:
            self._python.learn(data)
        if data:
            self._tasks.add(self._window.begin(data))

    def _present_state(self, pid: int) -> RawRecords | None:
        """Return the name and the mappings that a process has now; None if they cannot be read."""
        maps = b"".join(self._synthesis.maps_of(pid))
        if not maps:
            return None
        data = b"".join(self._synthesis.comm(pid)) + maps
        ordered = self._window.order_records(np.frombuffer(data, np.uint8))
        return RawRecords.of_chunk(ordered, np.ones(len(ordered.chunk.others), np.bool_))

    def _converted(self, reading: RingRecords) -> bytes:
        """Return the records of a reading; Python frames are added to those of which all ring buffers were read once more."""
        if self._python is None:
            return reading.records
        data = self._python.convert(reading.records) + self._python.convert(reading.further)
        data += self._python.rest() if reading.is_last else b""
        self._symbols.add_images(self._python.new_images())
        return data

    def update(self, reading: RingRecords) -> LiveUpdate:
        """Return the report of what happened until a reading."""
        now, begin = reading.time, time.monotonic()
        data = self._converted(reading)
        seconds, self._since = max((now - self._since) / 1e9, 1e-9), now
        window = self._window
        if self._waits is not None:
            data += self._waits.of_interval(window.order_records(np.frombuffer(data, np.uint8)), now)
        self._tasks.add(window.begin(data, until=0 if reading.is_last else now))
        first, last_time = window.sample_times
        self._retained.add(first, last_time, window.sample_bytes() if self._retained.is_wanted else b"")
        profile = self._fold()
        self._history = profile if self.zero else add_window(self._history, profile)
        self._tasks.forget(self._retained.first or first or now)
        counts = window.counts
        self._total_lost += counts.lost
        self._total_dropped += reading.dropped
        if now >= self._trim_at:
            self._trim_at = now + _TRIM_EVERY
            return_freed_memory()
        numbers = counts.samples, counts.kernel, counts.exact, counts.lost, self._total_lost
        rates = Rates(seconds, *numbers, reading.dropped, self._total_dropped)
        report, size = self._report(self._history), len(reading.records) + len(reading.further)
        return LiveUpdate(rates, report, size=size, seconds=time.monotonic() - begin)

    @property
    def options(self) -> ReportOptions:
        """The options of the reports."""
        return self._options

    def change(self, options: ReportOptions, hidden: Collection[int] | None = None) -> bool:
        """Report by other options from now on; return whether the rows so far were dropped, because they do not have the columns.

        hidden: cpumodes without rows; None to leave them. Raises UsageError for invalid options.
        """
        plan = plan_report(self._window, options)
        if hidden is not None:
            self._window.hidden = sorted(hidden)
        begins_again = plan.folding != self._plan.folding or hidden is not None
        if begins_again:
            self._history = None
        self._plan, self._options = plan, options
        return begins_again

    @property
    def hidden(self) -> list[int]:
        """The cpumodes without rows."""
        return self._window.hidden

    def report(self) -> Report | None:
        """Return the report of the rows so far; None before the first update."""
        return None if self._history is None else self._report(self._history)

    def save(self, path: str) -> float:
        """Write the retained samples as a perf.data; return the seconds that it covers. Raises OutputFailedError, PerfError."""
        retained = self._retained
        if not len(retained):
            raise PerfError("no samples to write yet")
        side_band = RawRecords.concat([self._window.lasting, self._tasks.records()])
        write_snapshot(path, self._rings, side_band, retained, self._recorded, self._symbols.images)
        return (retained.last - retained.first) / 1e9

    def symbol_tables(self) -> Iterator[tuple[str, SymbolTable]]:
        """Yield the names of files and their symbols, as far as they were loaded."""
        return self._symbols.tables()

    def annotate(self, function: str, dso: str, style: CodeStyle) -> AnnotatedFunction:
        """Return the code of a function with the retained samples. Raises NoCodeError. dso: as in perfpy.live.code."""
        from perfpy.live.code import annotate  # rarely needed

        now = self._window
        window = LiveWindow(now.events, now.features, now.tracing, hidden=now.hidden)
        window.begin(b"".join(self._retained.pieces()))
        return annotate(window, self._symbols, function, dso, style)

    def _fold(self) -> PortableProfile:
        """Return the profile of the current window."""
        window, plan = self._window, self._plan
        if self._jit is not None:
            self._jit.prepare(self._symbols)
        timeline, symbolizer = self._symbols.of_window(window.pids)
        scan, machine = planned_scan(plan, window, timeline, symbolizer)
        profile = scan.profile()
        texts: list[Any] = []
        if "raw" in plan.folding.dimensions:
            texts = self._payload_texts(profile.raw.payloads, symbolizer)
        words = OwnWords(timeline.last_comm, machine, formats_of(window.events, window.tracing), texts)
        infos = self._source_lines(symbolizer) if plan.needs_sources else None
        parts = recording_text(window)._replace(seconds=0), window.events, profile, symbolizer, timeline, words
        folded = portable(*parts, by_function=plan.folding.by_function, infos=infos)._replace(truncated=scan.truncated_stacks)
        if self._jit is not None:
            self._jit.see(symbolizer)
        folded.folded.measures[WINDOW] = folded.folded.period.copy()
        return folded

    def _payload_texts(self, payloads: Sequence[bytes], symbolizer: Symbolizer) -> list[Any]:
        """Return the shown texts of tracepoints' payloads."""
        from perfpy.analysis.report.report import key_style  # few views have tracepoints
        from perfpy.analysis.sortkeys.key_texts import TraceData
        from perfpy.fleet.portable.traced_values import shown_texts
        from perfpy.views.tracepoints.payloads import PayloadTexts

        tracing, plan = self._window.tracing, self._plan
        data = TraceData(payloads, PayloadTexts(tracing, symbolizer) if tracing is not None else None)
        return shown_texts(plan.layout, data, symbolizer, key_style(plan.options))

    @staticmethod
    def _source_lines(symbolizer: Symbolizer) -> DebugInfos:
        from perfpy.debuginfo.known_lines import lines_of  # rarely needed

        return lines_of(symbolizer)

    def _report(self, history: PortableProfile) -> Report:
        merged = MergedProfile(history)
        merged.features = self._window.features
        plan = plan_report(merged, self._options, merged.fields(raw=self._options.columns.raw_trace))
        words = merged.words(None)
        words = words._replace(machine=words.machine._replace(container_name=self._containers.text))
        report = report_of(plan, merged, merged.symbolizer, words, ())
        report.lost = self._total_lost
        return report


def _synthesis(rings: LiveRings, events: list[FileEvent]) -> Synthesis:
    layout, namespaces = id_layout(events[0].attr.sample_type), rings.options.side_band.namespaces
    data_mmaps = any(event.attr.mmap_data for event in events)
    return Synthesis(ProcFs(), layout, data_mmaps=data_mmaps, namespaces=namespaces, most_map_bytes=MOST_MAP_BYTES)


def _tracing(data: bytes) -> Tracing:
    from perfpy.perfdata.tracepoints.tracing_data import Tracing, decode_tracing  # few views have tracepoints

    return Tracing(decode_tracing(data), lambda _text: None)
