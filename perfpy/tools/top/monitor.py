"""LiveMonitor: one report per interval of what runs now."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, slices_index
from perfpy.abi.flags import CONTEXT_USER, NATIVE_ENDIAN, SampleType
from perfpy.analysis.aggregate.profile import Folded
from perfpy.analysis.annotation import BY_FUNCTION, Annotation
from perfpy.analysis.dimensions import DIMENSIONS
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.options import ReportOptions, plan_report
from perfpy.analysis.report.report import NO_LOSSES, key_style, make_report, planned_scan, recording_text, report_of
from perfpy.analysis.sort_key import TraceData
from perfpy.capture.off_cpu_events import TIME_ATTR
from perfpy.capture.synthesis import RecordedFeatures, Synthesis, guest_kernels, id_layout
from perfpy.capture.unwinding.process import plain_attr
from perfpy.capture.unwinding.switches_to_waits import PieceWaits, records, sum_short_waits
from perfpy.disassembly.function_code import NoCodeError
from perfpy.errors import PerfError
from perfpy.fleet.merging import MergedProfile, Merging
from perfpy.fleet.portable_profile import OwnWords, formats_of, portable, shown_texts
from perfpy.kernel.procfs import ProcFs, read_wait
from perfpy.live.window import LiveSymbols, LiveWindow
from perfpy.perfdata.records.delivery import EventTable, RawRecords
from perfpy.scheduling.intervals import IntervalPairing, Intervals
from perfpy.scheduling.transitions import OUT, STACK, TRANSITION, Transitions, has_user_part
from perfpy.symbols.files.debug_files import Inline
from perfpy.symbols.live_tasks import MOST_MAP_BYTES, LiveTasks
from perfpy.tools.top.names import LivePython, RunningContainers
from perfpy.tools.top.options import WINDOW, Rates
from perfpy.tools.top.reading import Retained, RingReader, write_snapshot
from perfpy.workers import return_freed_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.annotation import AnnotatedFunction
    from perfpy.analysis.report.report import Report
    from perfpy.capture.off_cpu_events import WaitPlan
    from perfpy.debuginfo.debug_info import DebugInfos
    from perfpy.disassembly.disassembler import CodeStyle
    from perfpy.fleet.portable_profile import PortableProfile
    from perfpy.live.rings import LiveRings
    from perfpy.perfdata.event_format import Tracing
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.delivery import OrderedChunk
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbol_table import SymbolTable
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.tools.top.names import LiveJitNames
    from perfpy.tools.top.reading import RingRecords


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
        self._python = LivePython(rings, rings.events(tracing), only_python=only_python) if rings.options.python else None
        self.reader = RingReader(rings, self._python, adapts_rate=adapts_rate)
        events = rings.events(tracing)
        for event in events if self._python else ():
            event.attr = plain_attr(event.attr)
        own, plan = -1 if shows_self else os.getpid(), rings.waits
        dropped = plan.hidden if plan else ()
        self._waits = LiveWaits(plan, events, own) if plan else None
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
        for guest in guest_kernels(rings.options.guests, rings.tell):
            yield from synthesis.guest_kernel(guest)
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
        rates = Rates(seconds, *numbers, reading.dropped, self._total_dropped, counts.guest_kernel, counts.guest_user)
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
        """Return the code of a function with the retained samples. Raises NoCodeError. dso: as in perfpy.tools.top.monitor."""
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
        if symbolizer.inline is not Inline.NONE:
            from perfpy.debuginfo.inlined_frames import give_inlined  # most views have no callchains

            give_inlined(symbolizer, unwound=window.has(SampleType.STACK_USER))
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
        from perfpy.views.tracepoints.event_text import PayloadTexts

        tracing, plan = self._window.tracing, self._plan
        data = TraceData(payloads, PayloadTexts(tracing, symbolizer) if tracing is not None else None)
        return shown_texts(plan.layout, data, symbolizer, key_style(plan.options))

    @staticmethod
    def _source_lines(symbolizer: Symbolizer) -> DebugInfos:
        from perfpy.debuginfo.debug_info import lines_of  # rarely needed

        return lines_of(symbolizer)

    def _report(self, history: PortableProfile) -> Report:
        merged = MergedProfile(history)
        merged.features = self._window.features
        plan = plan_report(merged, self._options, merged.fields(raw=self._options.columns.raw_trace))
        words = merged.words(None)
        words = words._replace(machine=words.machine._replace(container_name=self._containers.text))
        report = report_of(plan, merged, merged.symbolizer, words, ())
        report.losses = NO_LOSSES._replace(samples=self._total_lost)
        return report


def _synthesis(rings: LiveRings, events: list[FileEvent]) -> Synthesis:
    layout, namespaces = id_layout(events[0].attr.sample_type), rings.options.side_band.namespaces
    data_mmaps = any(event.attr.mmap_data for event in events)
    return Synthesis(ProcFs(), layout, data_mmaps=data_mmaps, namespaces=namespaces, most_map_bytes=MOST_MAP_BYTES)


def _tracing(data: bytes) -> Tracing:
    from perfpy.perfdata.event_format import Tracing, decode_tracing  # few views have tracepoints

    return Tracing(decode_tracing(data), lambda _text: None)


_KEPT: Final = (7, 8)  # the share of a row that an interval leaves
_MOST_ROWS: Final = 20_000  # beyond it the smallest rows go first


def add_window(history: PortableProfile | None, window: PortableProfile) -> PortableProfile:
    """Return the rows of a window, and those of the windows before it with 7/8 of their weight."""
    faded = fade(history) if history is not None else None
    if faded is None or not len(faded.folded):
        return window
    merging = Merging()
    merging.add(window)
    merging.add(faded)
    return merging.result()


def fade(profile: PortableProfile) -> PortableProfile:
    """Return the rows with 7/8 of their weight, without rows that have none left, and without what only those referred to.

    Each interval leaves 7/8 of every row (rounded down), so that a row without new samples fades and disappears, as in perf top.
    """
    share, of = _KEPT
    rows = profile.folded
    period, count = rows.period * share // of, rows.count * share // of
    measures = {name: values * 0 if name == WINDOW else values * share // of for name, values in rows.measures.items()}
    chosen = period > 0
    if int(np.count_nonzero(chosen)) > _MOST_ROWS:
        least = np.partition(period, -_MOST_ROWS)[-_MOST_ROWS]
        chosen &= period >= max(int(least), 1)
    faded = Folded(rows.event, rows.filtered, rows.chain, rows.tid, period, count, rows.dimensions, measures)
    return select_rows(profile, faded.take(np.flatnonzero(chosen)))


def select_rows(profile: PortableProfile, rows: Folded) -> PortableProfile:
    """Return a profile with some of its rows, without chains, frames, symbols, files, comms and values that these do not use."""
    chains, chain_of = _renumber_used(rows.chain, len(profile.chain_lengths))
    lengths = profile.chain_lengths[chains]
    chain_frames = profile.chain_frames[slices_index(profile.offsets[chains], lengths)[0]]
    dimensions = dict(rows.dimensions)
    of_frames = [name for name in dimensions if name != "raw" and name not in profile.values and DIMENSIONS[name].table == "frame"]
    frames, frame_of = _renumber_used(np.concatenate([chain_frames, *(dimensions[name] for name in of_frames)]), len(profile.frames["ip"]))
    dimensions |= {name: frame_of[dimensions[name]] for name in of_frames}
    comms, values = profile.comms, {}
    for name in dimensions:
        if name in profile.values:
            used, number_of = _renumber_used(dimensions[name], len(profile.values[name]))
            dimensions[name], values[name] = number_of[dimensions[name]], [profile.values[name][index] for index in used.tolist()]
        elif name == "comm":
            used, number_of = _renumber_used(dimensions[name], len(comms))
            dimensions[name], comms = number_of[dimensions[name]], [comms[index] for index in used.tolist()]
    if "comm" not in dimensions:
        comms = []
    columns = {name: column[frames] for name, column in profile.frames.items()}
    symbols, symbol_of = _renumber_used(columns["symbol"], len(profile.symbols.names))
    columns["symbol"] = symbol_of[columns["symbol"]].astype(np.int32)
    table = profile.symbols.take(symbols.tolist())
    dsos, dso_of = _renumber_used(np.concatenate([columns["dso"], table.dso]), len(profile.dsos))
    columns["dso"] = dso_of[columns["dso"]].astype(np.int32)
    tids = set(rows.tid.tolist())
    return profile._replace(
        dsos=[profile.dsos[number] for number in dsos.tolist()],
        origins=[profile.origins[number] for number in dsos.tolist()],
        frames=columns,
        symbols=table._replace(dso=dso_of[table.dso].astype(np.int32)),
        chain_frames=frame_of[chain_frames].astype(np.int32),
        chain_lengths=lengths,
        comms=comms,
        last_comms={tid: comm for tid, comm in profile.last_comms.items() if tid in tids},
        folded=rows.with_dimensions(dimensions).with_chains(chain_of[rows.chain]),
        values=values,
        lines=None if profile.lines is None else profile.lines.take(frames),
    )


def _renumber_used(numbers: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers in use, and the new number of each old one; -1 stays."""
    mask = np.zeros(count + 1, np.bool_)
    mask[numbers] = True
    mask[-1] = False  # -1: none
    used = np.flatnonzero(mask)
    number_of = np.full(count + 1, -1, np.int64)
    number_of[used] = np.arange(len(used))
    return used, number_of


_CHECK_EVERY: Final = 10_000_000_000  # nanoseconds
_WITHOUT_WORK: Final = (ord("S"), ord("I"))  # states of kernel threads


class LiveWaits:
    """Turns the switches of each interval into samples of the event `offcpu-time`.

    `record --off-cpu` writes a wait when it ends. A live view counts in each interval the part of every wait that lies in it, so that
    waits that have not ended have rows, too.

    Args:
        plan: the events that were opened for waits.
        events: all events, as samples refer to them; that of waits gets the attr of its samples.
        own: the process whose waits are dropped, -1 for none.
    """

    def __init__(self, plan: WaitPlan, events: Sequence[FileEvent], own: int) -> None:
        self._plan = plan
        self._own = own
        event = events[plan.time]
        event.attr = TIME_ATTR.copy(inherit=event.attr.inherit, disabled=event.attr.disabled)
        self._pieces = PieceWaits(plan, events, EventTable(events, NATIVE_ENDIAN).layouts, own)
        self._ident = events[plan.time].ids[0] if events[plan.time].ids else 0
        self._pairing = IntervalPairing(sums_running=False)
        self._counted_until = 0
        self._check_at = 0  # nanoseconds
        self._missing: set[int] = set()  # waiting threads that did not exist at the last check

    def begin(self, threads: Iterable[tuple[int, int]], now: int) -> None:
        """Learn what threads wait for already. threads: process and thread of each; now: nanoseconds."""
        self._counted_until = now
        self._pairing.take_ended(now, waiting_threads(threads, now, self._own))

    def of_interval(self, ordered: OrderedChunk, until: int) -> bytes:
        """Return the samples of an interval, as records.

        Args:
            ordered: the records since the last call.
            until: nanoseconds; all records up to this time have been there.
        """
        chunk, events = ordered.chunk, ordered.keyed_samples.events
        side_band = chunk.rows(chunk.others)
        arguments = ordered.keyed_samples.chunk, events, side_band, ordered.other_events, ordered.times[chunk.others]
        ended = self._pairing.take_ended(until, self._pieces.transitions(*arguments, None))
        begin, self._counted_until = self._counted_until, until
        if until >= self._check_at:
            self._check_at = until + _CHECK_EVERY
            self._forget_missing()
        parts = (without_idle(clip(waits, begin)) for waits in (ended, self._pairing.unfinished(until)))
        return b"".join(records(sum_short_waits(waits, self._plan.threshold), self._ident) for waits in parts if len(waits.rows))

    def _forget_missing(self) -> None:
        """Forget threads whose ends were lost: they did not exist at the last check, either, so that no record of them follows."""
        waiting = self._pairing.waiting_threads().tolist()
        missing = {tid for tid in waiting if tid and not os.path.exists(f"/proc/{tid}")}
        self._pairing.forget(np.array(sorted(missing & self._missing), np.int32))
        self._missing = missing


def waiting_threads(threads: Iterable[tuple[int, int]], now: int, own: int) -> Transitions:
    """Return the transitions of threads that are off the CPU now, as if each left it at this moment: by their states in /proc."""
    waiting = [(pid, tid, *read_wait(pid, tid)) for pid, tid in threads if pid != own]
    waiting = [row for row in waiting if len(row[2]) == 1 and row[2] not in "RXZ"]
    rows = np.zeros(2 * len(waiting), TRANSITION)
    rows["time"], rows["cpu"], rows["stack"] = now, -1, -1
    for number, (pid, tid, letter, _) in enumerate(waiting):
        pair = rows[2 * number : 2 * number + 2]
        pair["pid"], pair["tid"], pair["detail"], pair["kind"] = pid, tid, ord(letter), (STACK, OUT)
    rows["stack"][::2] = np.arange(len(waiting))
    chains = [[np.uint64(CONTEXT_USER), np.uint64(address)] if address else [] for *_, address in waiting]
    offsets = np.cumsum([0, *map(len, chains)]).astype(np.int64)
    return Transitions(rows, Ragged(np.array([value for chain in chains for value in chain], np.uint64), offsets))


def without_idle(waits: Intervals) -> Intervals:
    """Return the waits without those of kernel threads that sleep: they wait for work."""
    stack, state = waits.rows["stack"], waits.rows["state"]
    in_user = np.append(has_user_part(waits.stacks), True)[stack]  # -1: without a stack
    return waits.take(in_user | ~np.isin(state, _WITHOUT_WORK))


def clip(waits: Intervals, begin: int) -> Intervals:
    """Return the waits without what lies before a time."""
    rows = waits.rows.copy()
    rows["duration"] = np.minimum(rows["duration"], rows["end"] - np.minimum(rows["end"], np.uint64(begin)))
    return Intervals(rows[rows["duration"] > 0], waits.stacks)


def annotate(window: LiveWindow, symbols: LiveSymbols, function: str, dso: str, style: CodeStyle) -> AnnotatedFunction:
    """Return the code of a function with the samples of a window. Raises NoCodeError.

    dso: the short name of its file; "" for the hottest function with the name.
    """
    timeline, symbolizer = symbols.of_window(window.pids)
    options = ReportOptions(sample_filter=SampleFilter(symbols=(function,))).by_address(BY_FUNCTION)
    annotation = Annotation(make_report(window, timeline, symbolizer, options), symbolizer)
    tables = (table for table in annotation.report.histograms if table.leader.samples)
    functions = (one for table in tables for one in annotation.functions(table, style))
    found = next((one for one in functions if not dso or one.dso.short_name == dso), None)
    if found is None:
        raise NoCodeError(function, next(iter(annotation.without_code), "no samples in this function itself in the last minute"))
    return found
