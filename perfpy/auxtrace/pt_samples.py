"""Turn the Intel PT traces of a recording into samples among its other records, as perf 6.12 delivers them.

The traces of CPUs or threads are decoded side by side, each up to the time of the next record, because records tell which thread runs and
what it has mapped.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import MISC_KERNEL, MISC_SWITCH_OUT, MISC_USER, NATIVE_ENDIAN, BranchSample, PerfType, RecordType, SampleType
from perfpy.abi.perf_records import AuxtraceError, encode
from perfpy.abi.records import Aux, AuxOutputHwId, Exit, ItraceStart, Switch, SwitchCpuWide
from perfpy.abi.sample_encoding import encode_sample, written_attr
from perfpy.auxtrace.intel_pt import TracePieces, pebs_values
from perfpy.auxtrace.itrace import ERRORS, LOST, OVERFLOW, CountedCycles, OwnSample, Period, has_aux_samples, with_aux_samples
from perfpy.auxtrace.pt_clock import PtParameters
from perfpy.auxtrace.pt_code import ASYNC, CALL, RETURN, TRACE_BEGIN, TRACE_END, AddressFilters, CodeOfProcesses, LastBranches, TracedCalls
from perfpy.auxtrace.pt_flow import PtFlow
from perfpy.errors import PerfError
from perfpy.perfdata.events import default_name
from perfpy.perfdata.writer import WrittenEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from perfpy.auxtrace.itrace import AuxPiece, AuxPieces, Itrace, PtEvent
    from perfpy.auxtrace.pt_clock import TraceClock
    from perfpy.auxtrace.pt_code import CodeSources
    from perfpy.perfdata.reader import PerfData

    class Writer(Protocol):
        """Where samples go."""

        def write(self, data: bytes | memoryview, /) -> object:
            """Write records."""

    #: (process, thread, times, rows of sources, targets, whether they are calls, return addresses) -> whether to go on
    TakeCalls = Callable[[int, int, NDArray[np.uint64], NDArray[np.uint64]], bool]


#: the words of AUXTRACE_INFO
_TYPE, _SHIFT, _MULT, _ZERO, _HAS_ZERO, _TSC, _NO_COMPRESSION, _SWITCHES, _IS_SNAPSHOT, _PER_CPU = range(10)
_MTC, _MTC_FREQUENCY, _CRYSTAL_TICKS, _CRYSTAL, _CYC, _TURBO_RATIO, _FILTER_SIZE = range(10, 17)
_BRANCH_BIT: Final = 0x2000
DEPTH_SHIFT: Final = 32  # of the depth of calls in weights
_POWER_BIT, _EVENT_BIT, _NO_TNT_BIT = 1 << 4, 1 << 31, 1 << 55
_CYC_ENABLED, _CYC_THRESHOLD = 1 << 1, 0xF << 19
_KERNEL: Final = 1 << 63
_MASK_64: Final = (1 << 64) - 1
_NOBODY: Final = -1
_TRACE_SHIFT: Final = 32  # of numbers of traces above those of queues
_LATER: Final = 1024  # branches between a sample in the kernel and the end of the trace before it, as perf assumes
_LAST: Final = 1 << 64
_ID_AFTER: Final = 1_000_000_000  # perf's ids of the new events begin as much above that of the tracer's event
_SYNTH: Final = 0x80000000  # PERF_TYPE_SYNTH
_CYCLES, _INSTRUCTIONS, _BRANCHES = 0, 1, 4  # of PERF_TYPE_HARDWARE
_SAME: Final = ("exclude_user", "exclude_kernel", "exclude_hv", "exclude_host", "exclude_guest", "sample_id_all", "read_format")
#: what samples of the trace have of the tracer's fields (PERF_SAMPLE_MASK in perf's event.h)
_KEPT: Final = (
    *(SampleType.IP, SampleType.TID, SampleType.TIME, SampleType.ADDR, SampleType.ID, SampleType.STREAM_ID, SampleType.CPU),
    *(SampleType.PERIOD, SampleType.IDENTIFIER),
)
#: kinds of events: name, letter, config of PERF_TYPE_SYNTH, and the layout of raw data
_RAW: Final = {
    "ptwrite": ("w", 0),
    "cbr": ("p", 5),
    "psb": ("p", 6),
    "mwait": ("p", 1),
    "pwre": ("p", 2),
    "exstop": ("p", 3),
    "pwrx": ("p", 4),
    "evt": ("I", 7),
    "iflag": ("I", 8),
}
#: the fields of samples that are written as rows, in order
_ROW_FIELDS: Final = (
    *(SampleType.IDENTIFIER, SampleType.IP, SampleType.TID, SampleType.TIME, SampleType.ADDR, SampleType.ID, SampleType.STREAM_ID),
    *(SampleType.CPU, SampleType.PERIOD, SampleType.WEIGHT, SampleType.TRANSACTION),
)
#: the samples of an event that may have several
_KINDS_OF: Final = {"instructions": ("instructions", "cycles")}
_MOST_COUNTERS, _MISC_EXACT_IP = 64, 1 << 14
_OF_POWER: Final = frozenset(("mwait", "pwre", "exstop", "pwrx"))
_WITH_RATE: Final = 4  # skipped events before the first one that is not, from which on rates of cores are told
_MOST_BYTES: Final = 16 << 30  # of samples
_AT_ONCE: Final = 1 << 20  # branches encoded at once
_LETTERS: Final = frozenset("iybcrglxwpoIeGLAZTftaMmsq")  # those of other tracers are ignored, as perf ignores them


class _PtQueue:
    """One trace: its CPU (-1: none), thread and decoder; the instructions and cycles of the last sample of each kind that has them."""

    def __init__(self, number: int, cpu: int, tid: int, flow: PtFlow, pieces: TracePieces) -> None:
        self.number, self.cpu, self.tid, self.flow, self.pieces = number, cpu, tid, flow, pieces
        self.is_ready = False
        self.task: tuple[int, int] | None = None  # process and thread of the sample whose piece is decoded
        self.pebs: dict[int, tuple[int, int]] = {}  # number of the hardware's counter -> number and id of the event
        self.period_skipped = 0
        self._last = {"branches": (0, 0), "instructions": (0, 0), "cycles": (0, 0)}

    def traces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """Yield the first and the last branch, and the number of their trace, of branches between two positions."""
        changes = self.flow.traces
        for number, (begin, trace) in enumerate(changes):
            end = changes[number + 1][0] if number + 1 < len(changes) else last
            if max(begin, first) < min(end, last):
                yield max(begin, first), min(end, last), self.number | trace << _TRACE_SHIFT

    @property
    def cycles_before(self) -> int:
        """The cycles up to the last sample of cycles."""
        return self._last["cycles"][1]

    def since_last(self, kind: str, total: int, cycles: int) -> tuple[int, int]:
        """Return the instructions and cycles since the last sample of a kind that had them; 0 without new cycles. cycles: -1 if unknown."""
        before = self._last[kind]
        if cycles in (-1, before[1]):
            return 0, 0
        self._last[kind] = total, cycles
        return total - before[0], (cycles - before[1]) & _MASK_64

    def settle(self, kind: str, totals: NDArray[np.uint64], cycles: NDArray[np.uint64]) -> None:
        """Replace instructions and cycles of samples of a kind by those since the last sample that had them."""
        is_known = cycles != np.uint64(_MASK_64)
        rows = np.flatnonzero(is_known)
        before = np.concatenate([np.array(self._last[kind][1:], np.uint64), cycles[rows]])
        rows = rows[np.flatnonzero(before[1:] != before[:-1])]
        last = np.array([self._last[kind]], np.uint64)
        values = np.concatenate([last, np.stack([totals[rows], cycles[rows]], axis=1)])
        self._last[kind] = int(values[-1, 0]), int(values[-1, 1])
        totals[:] = cycles[:] = 0
        totals[rows], cycles[rows] = np.diff(values, axis=0).T


class _TracesByTime:
    """The traces by the time of their next event. Of traces with the same time the first one is perf's (auxtrace_heap__pop)."""

    def __init__(self) -> None:
        self.queues: list[_PtQueue] = []

    def add(self, queue: _PtQueue) -> None:
        """Add a trace."""
        self.queues.append(queue)
        self._rise(len(self.queues) - 1, queue)

    def pop(self) -> None:
        """Remove the first trace."""
        queues, hole, count = self.queues, 0, len(self.queues)
        while (left := 2 * hole + 1) < count:
            right = left + 1
            if right >= count:
                queues[hole] = queues[left]
                queues.pop()
                return
            child = left if queues[left].flow.stamp < queues[right].flow.stamp else right
            queues[hole], hole = queues[child], child
        last = queues.pop()
        if hole < len(queues):
            self._rise(hole, last)

    def _rise(self, hole: int, queue: _PtQueue) -> None:
        queues = self.queues
        while hole and queues[parent := (hole - 1) >> 1].flow.stamp > queue.flow.stamp:
            queues[hole], hole = queues[parent], parent
        queues[hole] = queue


class PtSamples:
    """The samples of a recording's Intel PT traces.

    Args:
        take: receives calls and returns in place of the writer of samples.

    Attributes:
        events: the new events, in perf's order.
        names: of these.
        own_attrs: those of the recording's own samples as they are written.
    """

    def __init__(
        self, data: PerfData, aux: AuxPieces, itrace: Itrace, clock: TraceClock, code: CodeSources, take: TakeCalls | None = None
    ) -> None:
        self._data, self._aux, self._itrace, self._take = data, aux, itrace, take
        if "d" in itrace.letters:
            raise PerfError("--itrace=d: the log of perf's own decoder; perfpy report -D prints the packets of the trace")
        if missing := "".join(sorted(itrace.letters - _LETTERS)):
            data.warnings.append(f"--itrace: {missing} of Intel PT is left out; perf script --itrace={missing} decodes it")
        words = next(info.priv for info in aux.infos if info.type == 1)
        self._words = tuple(words) + (0,) * (_TURBO_RATIO + 1 - len(words))
        self._has_aux_samples = has_aux_samples(data)
        if self._has_aux_samples:
            self._aux = with_aux_samples(data, aux, clock.ticks)
        self._tracer = next((event for event in data.events if event.attr.type == self._words[_TYPE]), None)
        self._has_times = self._knows_times() and "Z" not in itrace.letters
        self._clock = clock if self._has_times else clock._replace(mult=clock.mult or 1)
        self._is_per_cpu = bool(self._words[_PER_CPU])
        self._parameters = self._read_parameters()
        build_ids = {entry.filename: entry.build_id.hex() for entry in data.features.get("build_id", ())}
        self._processes = CodeOfProcesses(code.find_file, code.read_kernel, build_ids)
        self._threads: dict[int, int] = {}  # CPU -> thread
        self._filter = self._branch_filter()
        self._left_to_skip = itrace.skipped
        self._written = 0
        letters = itrace.letters | ({"g", "G"} if itrace.is_default else set())
        self._has_chains, self._adds_chains = "g" in letters, "G" in letters
        self._has_stacks, self._adds_stacks = "l" in letters, "L" in letters
        self._calls = TracedCalls(itrace.frames) if letters & {"g", "G"} else None
        self._depths = TracedCalls(1) if itrace.details.branch_flags else None
        later = (1 if self._tracer is None or self._tracer.attr.exclude_kernel else _LATER) if self._adds_stacks else 0
        self._last = LastBranches(itrace.branches, later) if letters & {"l", "L"} else None
        self.own_attrs = self._choose_own_attrs()
        self._has_counts = itrace.details.ipc
        self._choose_events()
        self._queues = self._make_queues()
        self._running = _TracesByTime()

    @staticmethod
    def clock_words(data: PerfData, aux: AuxPieces) -> tuple[int, int, int]:
        """Return time_shift, time_mult and time_zero of the trace's ticks."""
        words = next(info.priv for info in aux.infos if info.type == 1)
        if len(words) <= _PER_CPU:
            raise PerfError(f"{data.path}: the description of the Intel PT trace (AUXTRACE_INFO) is truncated")
        return words[_SHIFT] & 63, words[_MULT] & 0xFFFFFFFF, words[_ZERO]

    def _knows_times(self) -> bool:
        words = self._words
        if not words[_TSC] or not words[_HAS_ZERO] or self._tracer is None:
            return False
        return self._data.has(SampleType.TIME) and bool(self._tracer.attr.config & words[_TSC])

    def _read_parameters(self) -> PtParameters:
        words, config = self._words, self._tracer.attr.config if self._tracer else 0
        frequency = words[_MTC_FREQUENCY]
        period = (config & frequency) // (frequency & -frequency) if frequency else 0
        mult, shift = words[_MULT] & 0xFFFFFFFF or 1, words[_SHIFT] & 63
        hertz = (10**9 // mult << shift) + ((10**9 % mult << shift) // mult)
        ratio = words[_TURBO_RATIO] or (hertz + 50_000_000) // 100_000_000
        return PtParameters(
            returns_are_compressed=not words[_NO_COMPRESSION] or not config & words[_NO_COMPRESSION],
            has_branches=not (config & 1 and not config & _BRANCH_BIT),
            has_times=self._has_times,
            mtc_period=min(period, 15),
            crystal=(words[_CRYSTAL_TICKS] & 0xFFFFFFFF, words[_CRYSTAL] & 0xFFFFFFFF),
            turbo_ratio=ratio & 0xFFFFFFFF,
            thousands_of_hertz=hertz // ratio // 1000 if ratio else 0,
            filters=self._read_filters(),
            has_cyc_threshold=bool(config & _CYC_ENABLED and config & _CYC_THRESHOLD),
            tells_interrupts=self._tells_interrupts(),
        )

    def _tells_interrupts(self) -> bool:
        """Whether packets tell if interrupts are enabled: the word after the filter."""
        size, *rest = self._words[_FILTER_SIZE:] or (0,)
        after = size // 8 + 1 if size else 0
        return after < len(rest) and bool(rest[after])

    def _choose_own_attrs(self) -> list[EventAttr]:
        """Return the attrs of the recording's own samples, with what is added; find the events whose samples are in the trace (PEBS)."""
        attrs, self._pebs_events = [], list[int]()
        for number, event in enumerate(self._data.events):
            attr, kind = written_attr(event.attr), event.attr.sample_type
            if event.attr.aux_output and event.ids and "o" in self._itrace.letters:
                self._pebs_events.append(number)
                kept = ~int(SampleType.CALLCHAIN) if not self._has_chains else -1
                attr = attr.copy(
                    sample_type=(attr.sample_type | kind & SampleType.REGS_INTR) & kept, sample_regs_intr=event.attr.sample_regs_intr
                )
            added = SampleType.CALLCHAIN if self._adds_chains else 0
            added |= SampleType.BRANCH_STACK if self._adds_stacks else 0
            attrs.append(attr.copy(sample_type=attr.sample_type | added))
        return attrs

    def _read_filters(self) -> AddressFilters | None:
        """Return the addresses that are traced, None for all."""
        size, *rest = self._words[_FILTER_SIZE:] or (0,)
        text = struct.pack(f"={len(rest)}Q", *rest)[:size].split(b"\0")[0].decode("utf-8", "surrogateescape")
        try:
            return AddressFilters(text) if text else None
        except ValueError as error:
            self._data.warnings.append(f"the filter of addresses is damaged at {str(error)!a}; branches that leave it may be errors")
            return None

    def _branch_filter(self) -> int:
        letters = self._itrace.letters
        return (CALL | ASYNC | TRACE_END if "c" in letters else 0) | (RETURN | TRACE_BEGIN if "r" in letters else 0)

    # -- the new events --------------------------------------------------------------

    def _choose_events(self) -> None:
        """Make the attrs of the new events."""
        self.events: list[WrittenEvent] = []
        self.names: list[str] = []
        self._attrs: dict[str, tuple[EventAttr, int]] = {}
        tracer, letters = self._tracer, self._itrace.letters - ({"b"} if self._itrace.is_default else set())
        if tracer is None or not tracer.ids:
            return
        fields = sum(int(field) for field in _KEPT if tracer.attr.sample_type & field)
        fields = fields & ~int(SampleType.TIME | SampleType.ADDR) | int(SampleType.IP | SampleType.TID | SampleType.PERIOD)
        others = [event.attr for event in self._data.events if event.attr.type == PerfType.HARDWARE]
        fields |= int(SampleType.TIME) if self._has_times or any(other.sample_type & SampleType.TIME for other in others) else 0
        if not self._is_per_cpu:
            fields &= ~int(SampleType.CPU)
        attr = EventAttr(type=0, sample_type=fields, **{name: getattr(tracer.attr, name) for name in _SAME})
        fields |= int(SampleType.WEIGHT) if self._depths is not None else 0
        fields |= int(SampleType.TRANSACTION | SampleType.STREAM_ID) if self._has_counts else 0
        attr = attr.copy(sample_type=fields)
        if letters & set("bcr"):
            self._add("branches", attr.copy(config=_BRANCHES, sample_period=1, sample_type=fields | int(SampleType.ADDR)))
        if self._has_chains:
            attr = attr.copy(sample_type=fields | int(SampleType.CALLCHAIN))
        if self._has_stacks:
            index = tracer.attr.branch_sample_type | int(BranchSample.HW_INDEX)
            attr = attr.copy(sample_type=attr.sample_type | int(SampleType.BRANCH_STACK), branch_sample_type=index)
        if "i" in letters:
            self._add("instructions", attr.copy(config=_INSTRUCTIONS, sample_period=self._period_of_attr()))
        if "y" in letters:
            self._add("cycles", attr.copy(config=_CYCLES, sample_period=self._period_of_attr()))
        attr = attr.copy(sample_period=1, sample_type=attr.sample_type & ~int(SampleType.PERIOD))
        if "x" in letters:
            self._add("transactions", attr.copy(config=_INSTRUCTIONS), "transactions")
        attr = attr.copy(type=_SYNTH, sample_type=attr.sample_type | int(SampleType.RAW))
        for name, (letter, config) in _RAW.items():
            is_enabled = {"evt": tracer.attr.config & _EVENT_BIT, "iflag": self._parameters.tells_interrupts}.get(name, True)
            if letter in letters and is_enabled and (name not in _OF_POWER or tracer.attr.config & _POWER_BIT):
                self._add(name, attr.copy(config=config), name)

    def _add(self, kind: str, attr: EventAttr, name: str = "") -> None:
        assert self._tracer is not None
        ident = ((self._tracer.ids[0] + _ID_AFTER) & _MASK_64 or 1) + len(self.events)
        self.events.append(WrittenEvent(attr, (ident,)))
        self.names.append(name or default_name(attr))
        self._attrs[kind] = attr, ident

    def _period_of_attr(self) -> int:
        itrace = self._itrace
        return itrace.period if itrace.unit in ("i", "t") else self._ticks_in(itrace.nanoseconds)

    def _ticks_in(self, nanoseconds: int) -> int:
        mult, shift = self._words[_MULT] & 0xFFFFFFFF or 1, self._words[_SHIFT] & 63
        whole, rest = divmod(nanoseconds, mult)
        return min((whole << shift) + (rest << shift) // mult, _MASK_64)

    def _period(self) -> Period:
        if not self._itrace.letters & {"i", "y"}:
            return Period()
        count = self._period_of_attr()
        return Period(count or 1, is_ticks=self._itrace.unit != "i" and bool(count))

    # -- the traces --------------------------------------------------------------------

    def _make_queues(self) -> list[_PtQueue]:
        pieces: dict[int, list[AuxPiece]] = {}
        for piece in self._aux.pieces:
            pieces.setdefault(piece.record.idx, []).append(piece)
        counting = CountedCycles(
            by_event=self._has_counts or "cycles" in self._attrs,
            by_branch=self._has_counts and "branches" in self._attrs,
            approximately="A" in self._itrace.letters,
        )
        queues, config = [], self._tracer.attr.config if self._tracer else 0
        quickness = max(self._itrace.quickness, 1 if config & _NO_TNT_BIT and self._parameters.has_branches else 0)
        for number in sorted(pieces):
            record = pieces[number][0].record
            tid, cpu = _signed(record.tid), _signed(record.cpu)
            trace = TracePieces(
                self._aux,
                pieces[number],
                may_overlap=bool(self._words[_IS_SNAPSHOT]) or self._has_aux_samples,
                has_tsc=bool(self._words[_TSC] and config & self._words[_TSC]),
                has_times=self._has_times,
                left=0 if self._is_stepped else len(pieces[number]),
            )
            space = self._processes.space(tid)
            flow = PtFlow(trace, self._parameters, self._processes.edges, space, self._period(), counting, quickness)
            queues.append(_PtQueue(number, cpu, tid, flow, trace))
        return queues

    @property
    def _is_stepped(self) -> bool:
        """Whether each piece is decoded when its sample comes, because times are unknown."""
        return self._has_aux_samples and not self._words[_IS_SNAPSHOT] and not self._has_times

    def write(self, others: Iterator[tuple[int, bytes, object]], writer: Writer) -> None:
        """Write the recording's own records (time in nanoseconds, bytes, the record if it is no sample) and the samples."""
        for time, raw, record in others:
            if self._has_times:
                if time and time != _MASK_64:
                    self._begin()
                    self._deliver(self._clock.ticks(time), writer)
            elif isinstance(record, OwnSample) and self._is_stepped:
                self._deliver_piece(record, writer)
            elif isinstance(record, Exit) and not self._has_aux_samples:
                self._deliver_all(writer, record.tid)
            if isinstance(record, Aux) and record.flags & 1 and "e" in self._itrace.letters and not self._leaves_out(LOST):
                self._write_lost(record, writer)
            self._apply(record)
            writer.write(self._with_calls(record) if raw and isinstance(record, OwnSample) and self._adds else raw)
        self._begin()
        if self._has_times:
            self._deliver(_LAST, writer)
        else:
            self._deliver_all(writer, _NOBODY)

    def close(self) -> None:
        """Close the file with the AUX data of samples."""
        if self._aux.sampled is not None:
            self._aux.sampled.close()

    @property
    def _adds(self) -> bool:
        """Whether samples of the recording get more fields."""
        return self._adds_chains or self._adds_stacks or bool(self._pebs_events)

    def _with_calls(self, sample: OwnSample) -> bytes:
        """Return a sample of the recording with the callchain and the last branches of its thread, as far as it does not have them."""
        given, attr = self._data.events[sample.event].attr.sample_type, self.own_attrs[sample.event]
        tid, ip, more = sample.number("tid"), max(sample.number("ip"), 0), dict[str, Any]()
        if self._adds_chains and self._calls is not None and not given & SampleType.CALLCHAIN:
            more["callchain"] = self._calls.late_chain(tid, ip)
        if self._adds_stacks and self._last is not None and not given & SampleType.BRANCH_STACK:
            more["branch_stack"] = self._last.late_stack(tid, ip, self._edge_columns())
        try:
            return sample.encode(attr, more)
        except ValueError:  # too long with them
            return sample.encode(attr, {})

    def _deliver_piece(self, sample: OwnSample, writer: Writer) -> None:
        """Write the samples of the piece of the trace that a sample has."""
        index, *_ = self._aux.queues.get(max(sample.number("identifier"), sample.number("id")), (0,))
        for queue in self._queues:
            if queue.number == index and sample.has_aux:
                queue.pieces.left, queue.flow.ended = 1, False
                queue.task = sample.number("pid"), sample.number("tid")
                self._run(queue, _LAST, writer)

    def follow(self, others: Iterator[tuple[int, bytes, object]]) -> None:
        """Give calls and returns to the receiver until it refuses more. others: as of write()."""
        with suppress(_TakenError):
            self.write(others, _NoWriter())

    def _begin(self) -> None:
        """Decode each trace up to its first time."""
        for queue in self._queues:
            if not queue.is_ready and self._has_times:
                queue.is_ready = True
                self._set_thread(queue)
                flow = queue.flow
                while not flow.ended and not flow.stamp:
                    flow.take(len(flow.branches), len(flow.events))
                    flow.run(1)
                flow.take(*flow.boundary)
                flow.events = [event for event in flow.events if event.kind != "error"]
                if flow.stamp:
                    self._running.add(queue)

    def _deliver(self, until: int, writer: Writer) -> None:
        """Write the samples before a time, in ticks, in order over all traces."""
        running = self._running
        while running.queues:
            queue = running.queues[0]
            if queue.flow.stamp >= until:
                return
            running.pop()
            limit = min(running.queues[0].flow.stamp + 1, until) if running.queues else until
            self._run(queue, limit, writer)
            if not queue.flow.ended:
                running.add(queue)

    def _deliver_all(self, writer: Writer, tid: int) -> None:
        """Write all samples of a thread's trace, or of all."""
        for queue in self._queues:
            if tid in (_NOBODY, queue.tid) and not queue.flow.ended:
                self._run(queue, _LAST, writer)

    def _run(self, queue: _PtQueue, until: int, writer: Writer) -> None:
        pid, tid = self._set_thread(queue)
        flow = queue.flow
        while True:
            flow.run(until)
            is_early = flow.ended or flow.stamp < until
            end = (len(flow.branches), len(flow.events)) if is_early else flow.boundary
            self._write_samples(queue, pid, tid, *end, writer)
            if flow.ended or flow.stamp >= until:
                return

    def _set_thread(self, queue: _PtQueue) -> tuple[int, int]:
        """Let a trace go on in the thread that runs now; return its process and thread."""
        if queue.task is not None:
            queue.flow.space = self._processes.space(queue.task[0])
            return queue.task
        tid = queue.tid if queue.tid != _NOBODY and self._words[_SWITCHES] == 0 else self._threads.get(queue.cpu, _NOBODY)
        pid = self._processes.pid_of.get(tid, _NOBODY)
        queue.flow.space = self._processes.space(pid)
        return pid, tid

    def _apply(self, record: object) -> None:
        """Apply a record: what is mapped, which thread runs."""
        self._processes.apply(record)
        if isinstance(record, OwnSample):
            return
        stamp = getattr(record, "sample_id", None)
        if stamp is None or None in (stamp.cpu, stamp.tid, stamp.pid):
            return
        if isinstance(record, AuxOutputHwId):
            self._set_counter(record.hw_id, (stamp.identifier or stamp.id) or 0)
        elif isinstance(record, ItraceStart):
            if self._is_per_cpu:
                self._threads[stamp.cpu] = _signed(record.tid)
        elif isinstance(record, (Switch, SwitchCpuWide)):
            is_out = bool(record.misc & MISC_SWITCH_OUT)
            if self._words[_SWITCHES] == 3:
                if not is_out:
                    self._threads[stamp.cpu] = _signed(stamp.tid)
                elif isinstance(record, SwitchCpuWide):
                    self._threads[stamp.cpu] = _signed(record.next_prev_tid)
                    self._processes.pid_of.setdefault(_signed(record.next_prev_tid), _signed(record.next_prev_pid))
            elif not is_out:
                self._threads[stamp.cpu] = _signed(stamp.tid)
                self._processes.pid_of.setdefault(_signed(stamp.tid), _signed(stamp.pid))

    def _set_counter(self, counter: int, ident: int) -> None:
        """Note which event a counter of the hardware counts."""
        index, *_ = self._aux.queues.get(ident, (_NOBODY,))
        event = next((number for number, event in enumerate(self._data.events) if ident in event.ids), _NOBODY)
        for queue in self._queues:
            if queue.number == index and event != _NOBODY:
                queue.pebs[counter] = event, ident

    # -- samples -------------------------------------------------------------------------

    def _write_samples(self, queue: _PtQueue, pid: int, tid: int, end: int, count: int, writer: Writer) -> None:
        """Write the samples of the first `end` branches of a trace and the first `count` other events, and forget these."""
        flow = queue.flow
        events = flow.events[:count]
        if not end and not events:
            return
        if self._take is not None:
            self._give_calls(pid, tid, flow, end)
            flow.take(end, count)
            return
        blocks = self._branch_blocks(queue, pid, tid, end)
        numbers = np.frombuffer(flow.branches[:end], np.int32)
        position = walked = 0
        is_simple = self._calls is None and self._last is None and not self._left_to_skip
        if blocks is None and is_simple and "instructions" in self._attrs and "cycles" not in self._attrs:
            events = self._write_instructions(queue, pid, tid, events, writer)
        times = self._nanoseconds(np.array([event.ticks for event in events], np.uint64)).tolist()
        for event, time in zip(events, times, strict=True):
            if event.kind not in ("error", "pebs") and not self._attrs.keys() & _KINDS_OF.get(event.kind, (event.kind,)):
                continue
            self._follow(tid, queue, walked, numbers[walked : event.position])
            walked = event.position
            if blocks is not None:
                self._write_rows(queue, blocks, position, event.position, writer)
            position = event.position
            for kind in _KINDS_OF.get(event.kind, (event.kind,)):
                if raw := self._event_bytes(queue, pid, tid, event._replace(kind=kind), time):
                    self._count_bytes(len(raw))
                    writer.write(raw)
        if blocks is not None:
            self._write_rows(queue, blocks, position, end, writer)
        self._follow(tid, queue, walked, numbers[walked:])
        flow.take(end, count)

    def _follow(self, tid: int, queue: _PtQueue, first: int, numbers: NDArray[np.int32]) -> None:
        """Apply branches to the callchain and the last branches of their thread. first: the position of the first one."""
        for begin, end, trace in queue.traces(first, first + len(numbers)):
            part = numbers[begin - first : end - first]
            if self._calls is not None:
                self._calls.follow(tid, trace, part, self._edge_columns())
            if self._last is not None:
                self._last.follow(tid, trace, part)

    def _give_calls(self, pid: int, tid: int, flow: PtFlow, end: int) -> None:
        """Give the calls and returns among the first branches to their receiver."""
        numbers = np.frombuffer(flow.branches[:end], np.int32)
        columns = self._edge_columns()
        flags = columns[2][numbers]
        rows = np.flatnonzero(flags & np.uint64(CALL | RETURN | TRACE_BEGIN))
        if not len(rows):
            return
        source, target, flag, length = columns[:, numbers[rows]]
        after = source + length
        is_call = ((flag & np.uint64(CALL)) != 0) & (target != 0) & (target != after)
        chosen = is_call | ((flag & np.uint64(CALL)) == 0)
        calls = np.stack([source, target, is_call.astype(np.uint64), after])[:, chosen]
        assert self._take is not None
        if not self._take(pid, tid, self._times(flow, rows[chosen]), calls):
            raise _TakenError

    def _times(self, flow: PtFlow, rows: NDArray[np.intp]) -> NDArray[np.uint64]:
        """Return the times of branches, in nanoseconds."""
        positions = np.array([position for position, _ in flow.stamps] or [0], np.int64)
        ticks = np.array([ticks for _, ticks in flow.stamps] or [flow.stamp], np.uint64)
        return self._nanoseconds(ticks)[np.maximum(np.searchsorted(positions, rows, "right") - 1, 0)]

    def _nanoseconds(self, ticks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the times of samples; 0 if times are left out."""
        return self._clock.nanoseconds(ticks) if self._has_times else np.zeros_like(ticks)

    def _write_rows(
        self, queue: _PtQueue, blocks: tuple[NDArray[np.uint64], NDArray[np.int64]], first: int, last: int, writer: Writer
    ) -> None:
        rows, before = blocks
        part = rows[before[first] : before[last]]
        skipped = min(self._left_to_skip, len(part))
        self._left_to_skip -= skipped
        part = part[skipped:]
        if len(part):
            if self._has_counts:
                self._settle(queue, "branches", part)
            self._count_bytes(part.nbytes)
            writer.write(part.data.cast("B"))

    def _count_bytes(self, size: int) -> None:
        self._written += size
        if self._written > _MOST_BYTES:
            raise PerfError(
                f"{self._data.path}: the samples of the trace need more than {_MOST_BYTES >> 30} GB; choose fewer, such as --itrace=i1ms"
            )

    def _branch_blocks(self, queue: _PtQueue, pid: int, tid: int, end: int) -> tuple[NDArray[np.uint64], NDArray[np.int64]] | None:
        """Return samples of branches as words, a row each, and their number before each branch."""
        if "branches" not in self._attrs:
            return None
        attr, ident = self._attrs["branches"]
        flow = queue.flow
        numbers = np.frombuffer(flow.branches[:end], np.int32)
        columns = self._edge_columns()
        is_chosen = (columns[2][numbers] & self._filter) != 0 if self._filter else np.ones(len(numbers), bool)
        before = np.concatenate([[0], np.cumsum(is_chosen)])
        chosen = numbers[is_chosen]
        times = self._times(flow, np.flatnonzero(is_chosen))
        source, target = columns[0][chosen], columns[1][chosen]
        weight: Any = 0
        if self._depths is not None:
            parts = [self._depths.depths(tid, trace, numbers[first:last], columns) for first, last, trace in queue.traces(0, len(numbers))]
            depths = np.concatenate([np.zeros(0, np.uint64), *parts])[is_chosen]
            weight = columns[2][chosen] | depths << np.uint64(DEPTH_SHIFT)
            if self._parameters.tells_interrupts:
                weight = weight | flow.interrupt_bits(np.flatnonzero(is_chosen))
        address = np.where(source == 0, target, source)
        totals = cycles = np.zeros(0, np.uint64)
        if self._has_counts:
            rows = np.flatnonzero(is_chosen)
            totals, cycles = np.frombuffer(flow.counts[:end], np.uint64)[rows], flow.branch_cycles(rows)
        return self._rows(attr, ident, queue.cpu, (pid, tid), source, target, times, 1, weight, address, totals, cycles), before

    def _settle(self, queue: _PtQueue, kind: str, rows: NDArray[np.uint64]) -> None:
        """Let samples of a kind have the instructions and cycles since the last one."""
        fields = [field for field in _ROW_FIELDS if self._attrs[kind][0].sample_type & field]
        totals, cycles = (rows[:, 1 + fields.index(field)] for field in (SampleType.TRANSACTION, SampleType.STREAM_ID))
        queue.settle(kind, totals, cycles)

    @staticmethod
    def _rows(
        attr: EventAttr,
        ident: int,
        cpu: int,
        task: tuple[int, int],
        source: NDArray[np.uint64],
        target: NDArray[np.uint64],
        times: NDArray[np.uint64],
        period: NDArray[np.uint64] | int,
        weight: NDArray[np.uint64] | int,
        address: NDArray[np.uint64],
        totals: NDArray[np.uint64],
        cycles: NDArray[np.uint64],
    ) -> NDArray[np.uint64]:
        """Return samples as words, a row each. address: tells the level of privilege."""
        tasks = task[0] & 0xFFFFFFFF | (task[1] & 0xFFFFFFFF) << 32
        stream_id = cycles if attr.sample_type & SampleType.TRANSACTION else ident
        values: tuple[Any, ...] = ident, source, tasks, times, target, ident, stream_id, cpu & 0xFFFFFFFF, period, weight, totals
        used = [value for field, value in zip(_ROW_FIELDS, values, strict=True) if attr.sample_type & field]
        rows = np.empty((len(source), 1 + len(used)), np.uint64)
        level = np.where(address >= np.uint64(_KERNEL), np.uint64(MISC_KERNEL), np.uint64(MISC_USER))
        rows[:, 0] = np.uint64(RecordType.SAMPLE | 8 * rows.shape[1] << 48) | level << np.uint64(32)
        for number, value in enumerate(used, 1):
            rows[:, number] = value
        return rows

    def _write_instructions(self, queue: _PtQueue, pid: int, tid: int, events: list[PtEvent], writer: Writer) -> list[PtEvent]:
        """Write the samples of instructions at once if there is nothing between them; return the events that are left."""
        written = {*self._attrs, "error", "pebs"} - {"instructions"}
        is_all = all(event.kind not in written for event in events)
        events = [event for event in events if event.kind == "instructions"] if is_all else events
        if not is_all or not events:
            return events
        attr, ident = self._attrs["instructions"]
        fields = zip(*((event.ticks, event.ip, event.target, event.value, event.total) for event in events), strict=True)
        ticks, ip, target, value, totals = (np.array(column, np.uint64) for column in fields)
        cycles = np.array([event.cycles for event in events], np.int64).astype(np.uint64)
        value[0] += np.uint64(0 if self._itrace.quickness else queue.period_skipped)
        queue.period_skipped = 0
        flags = np.array([event.flags for event in events], np.uint64)
        address = np.where(ip == 0, target, ip)
        times, task = self._nanoseconds(ticks), (pid, tid)
        rows = self._rows(attr, ident, queue.cpu, task, ip, target, times, value, flags, address, totals, cycles)
        if self._has_counts:
            self._settle(queue, "instructions", rows)
        self._count_bytes(rows.nbytes)
        writer.write(rows.data.cast("B"))
        return []

    def _edge_columns(self) -> NDArray[np.uint64]:
        """Return sources, targets, flags and lengths of all branches by number."""
        edges = self._processes.edges.columns
        if len(edges) != getattr(self, "_known_edges", -1):
            self._known_edges = len(edges)
            self._edge_table = np.array(edges, np.uint64).reshape(-1, 4).T.copy()
        return self._edge_table

    def _event_bytes(self, queue: _PtQueue, pid: int, tid: int, event: PtEvent, time: int) -> bytes:
        """Return the record of an event that is no branch; b"" for none. time: the event's, in nanoseconds."""
        if event.kind == "error":
            return self._error_bytes(queue, pid, tid, event)
        if event.kind == "pebs":
            return self._pebs_bytes(queue, pid, tid, event)
        if event.kind not in self._attrs:
            return b""
        period = event.value + (0 if self._itrace.quickness else queue.period_skipped)
        instructions = cycles = 0
        if event.kind == "cycles" and event.cycles in (-1, queue.cycles_before):
            return b""
        if self._skips(queue, event):
            return b""
        if event.kind in _KINDS_OF["instructions"]:
            instructions, cycles = queue.since_last(event.kind, event.total, event.cycles)
            period = cycles if event.kind == "cycles" else period
        attr, ident = self._attrs[event.kind]
        address = event.ip or event.target
        values: dict[str, Any] = {
            "identifier": ident,
            "id": ident,
            "stream_id": cycles if self._has_counts else ident,
            "transaction": instructions,
            "ip": event.ip,
            "addr": event.target,
            "pid": pid,
            "tid": tid,
            "cpu": queue.cpu,
            "time": time,
            "period": period,
            "weight": event.flags,
            "misc": MISC_KERNEL if address >= _KERNEL else MISC_USER,
        }
        if self._has_chains and self._calls is not None:
            values["callchain"] = self._calls.chain(tid, event.ip)
        if self._has_stacks and self._last is not None:
            values |= {"branch_stack": self._last.stack(tid, self._edge_columns()), "branch_hw_index": _MASK_64}
        if attr.sample_type & SampleType.RAW:
            values["raw"] = self._raw(event)
        queue.period_skipped = 0 if event.kind == "instructions" else queue.period_skipped
        return encode_sample(attr, values, NATIVE_ENDIAN)

    def _pebs_bytes(self, queue: _PtQueue, pid: int, tid: int, event: PtEvent) -> bytes:
        """Return the samples of a PEBS record in the trace: one for each of its counters whose event is known."""
        if not self._pebs_events:
            return b""
        first, records = self._pebs_events[0], []
        counters = pebs_values(event.items, 0)["counters"]
        known = [queue.pebs.get(counter) for counter in range(_MOST_COUNTERS) if counters >> counter & 1]
        single = first, self._data.events[first].ids[0]
        for number, ident in [one or single for one in known[: known.index(None) + 1 if None in known else None]] or [single]:
            if self._skips(queue, event):
                continue
            attr = self.own_attrs[number]
            values = {"ip": event.ip, **pebs_values(event.items, attr.sample_regs_intr)}
            ticks = values["ticks"] or event.ticks
            values |= {"identifier": ident, "id": ident, "stream_id": ident, "pid": pid, "tid": tid, "cpu": queue.cpu}
            values["time"] = int(self._clock.nanoseconds(np.array([ticks], np.uint64))[0]) if self._has_times or values["ticks"] else 0
            values["period"] = 0 if attr.freq else attr.sample_period
            values["misc"] = _MISC_EXACT_IP | (MISC_KERNEL if values["ip"] >= _KERNEL else MISC_USER)
            given = self._data.events[number].attr.sample_type
            if given & SampleType.CALLCHAIN and self._has_chains and self._calls is not None:
                values["callchain"] = self._calls.chain(tid, values["ip"])[: self._itrace.frames]
            if given & SampleType.BRANCH_STACK and not values["branch_stack"] and self._has_stacks and self._last is not None:
                values["branch_stack"] = self._last.stack(tid, self._edge_columns())
            values["branch_hw_index"] = _MASK_64
            records.append(encode_sample(attr, values, NATIVE_ENDIAN))
        return b"".join(records)

    def _skips(self, queue: _PtQueue, event: PtEvent) -> bool:
        """Count an event if the first ones are left out (--itrace=s), and return whether this one is."""
        is_rate = event.kind == "cbr"
        if self._left_to_skip <= (_WITH_RATE if is_rate else 0):
            return False
        self._left_to_skip -= 0 if is_rate else 1
        queue.period_skipped += event.value if event.kind == "instructions" else 0
        return True

    def _raw(self, event: PtEvent) -> bytes:
        if event.kind == "ptwrite":
            return struct.pack("<IQ", event.extra, event.value)
        if event.kind == "psb":
            return struct.pack("<IQ", 0, event.extra)
        if event.kind == "cbr":
            parameters = self._parameters
            flags = event.value & 0xFFFF | (parameters.turbo_ratio << 16) & 0xFFFFFFFF
            return struct.pack("<III", flags, (event.value & 0xFF) * parameters.thousands_of_hertz & 0xFFFFFFFF, 0)
        if event.kind == "exstop":
            return struct.pack("<I", event.extra)
        if event.kind == "evt":
            flags = event.value & 0x1F | event.extra << 7 | event.value & 0xFF00 | len(event.items) << 16
            return struct.pack("<I", flags) + b"".join(struct.pack("<2Q", kind, payload) for kind, payload in event.items)
        if event.kind == "iflag":
            return struct.pack("<IQ", event.value | event.extra << 1, event.target)
        return struct.pack("<IQ", 0, event.value)

    def _leaves_out(self, number: int) -> bool:
        """Whether --itrace=e-o or e-l leaves out an error."""
        return (number == OVERFLOW and "o" in self._itrace.errors_left_out) or (number == LOST and "l" in self._itrace.errors_left_out)

    def _error_bytes(self, queue: _PtQueue, pid: int, tid: int, event: PtEvent) -> bytes:
        if "e" not in self._itrace.letters or self._leaves_out(event.value):
            return b""
        time = int(self._clock.nanoseconds(np.array([event.ticks], np.uint64))[0]) if self._has_times else 0
        return _error(event.value, queue.cpu, pid, tid, event.ip, time)

    def _write_lost(self, record: Aux, writer: Writer) -> None:
        stamp = record.sample_id
        cpu, pid, tid, time = (getattr(stamp, name, None) or 0 for name in ("cpu", "pid", "tid", "time"))
        writer.write(_error(LOST, cpu, pid, tid, 0, time))


class _TakenError(Exception):
    """The receiver of calls has all that it needs."""


class _NoWriter:
    """A writer that drops what is written."""

    def write(self, data: object) -> None:
        """Drop data."""


def _error(number: int, cpu: int, pid: int, tid: int, ip: int, time: int) -> bytes:
    cpu, pid, tid = (value & 0xFFFFFFFF for value in (cpu, pid, tid))
    return encode(AuxtraceError(0, 1, number, cpu, pid, tid, 1, ip, time, ERRORS[number], 0, 0xFFFFFFFF), NATIVE_ENDIAN)


def _signed(number: int) -> int:
    return number - (1 << 32) if number >> 31 else number
