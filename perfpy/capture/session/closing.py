"""The last lines of a recording: its size, its quality, and remedies. perf's own line comes first."""

from __future__ import annotations

import os
import re
import struct
import sys
from _thread import get_native_id
from typing import TYPE_CHECKING, Final

from perfpy.abi.attr import are_sampled_each_time, option_for_fewer
from perfpy.abi.flags import RecordType, SampleType
from perfpy.capture.record_options import DEFAULT_FREQ
from perfpy.capture.sample_attrs import is_dummy
from perfpy.capture.session.inputs import FIRST_PATIENCE, CostLimit, Regularly, SwitchEvent
from perfpy.errors import PerfError, plural
from perfpy.events.event import change_events, combine_filters
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.sample_counters import SampleCounters
    from perfpy.capture.session.inputs import Alarm
    from perfpy.capture.session.output import DataFile, Held, RecordOutput
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel
    from perfpy.perfdata.writer import Packer


_MEGABYTE: Final = 1 << 20
_FEW: Final = 400  # samples: a share of 10 % has an error of 3 points
_FEW_LOST: Final = 0.01  # of the samples; a brief recording leaves them to the report
_SURE: Final = 1.96  # standard deviations: 19 times out of 20
_LARGER: Final = 4  # times the ring buffer that was too small
_MOST_RING: Final = 64 << 20
_PYTHON: Final = re.compile(r"(?:lib)?python\d\.\d+[a-z]*(?:\.so[\d.]*)?")  # CPython's program and library
_SMALL_COPY: Final = 8192  # bytes of a stack, perf's own size


def captured_line(name: str, size: int, samples: int | None, packer: Packer | None) -> str:
    """Return perf's line."""
    counted = f" ({samples} samples)" if samples else ""
    packed = ""
    if packer and packer.bytes_out:
        packed = f", compressed (original {packer.bytes_in / _MEGABYTE:.3f} MB, ratio is {packer.ratio:.3f})"
    return f"[ perf record: Captured and wrote {size / _MEGABYTE:.3f} MB {name}{counted}{packed} ]"


def judgement(file: DataFile, options: RecordOptions, ring: int, procfs: ProcFs | None = None) -> Iterator[str]:
    """Yield notes on the recording's quality, with remedies. ring is the size of a ring buffer in bytes; procfs: where processes are."""
    samples = file.samples
    if file.hint:
        yield f"note: {file.hint}"
    yield from _losses(file, options, ring)
    if not options.notes or samples is None or options.sampling.no_samples:
        return
    if runs_python(file, options):
        yield "note: this is a Python program; record --python has its functions and lines"
    if samples < _FEW:
        yield from busy_children(options, procfs or ProcFs())
    if not (options.brief and samples):
        if not samples:
            yield "note: no samples; nothing ran on the target, or the events did not occur (-a records the whole machine)"
        elif are_sampled_each_time(file.attrs):
            if not (file.lost or file.hint):
                yield f"note: {samples} {plural(samples, 'sample')}, none lost: every event has its sample"
        elif samples < _FEW:
            period, freq = options.sampling.period, options.sampling.freq or DEFAULT_FREQ
            more = f"lower -c ({period})" if period else f"raise -F ({freq} Hz)"
            few = f"{samples} {plural(samples, 'sample is', 'samples are')} few"
            yield f"note: {few}: {_exactness(samples)}; record for longer, or {more}"
        elif not (file.lost or file.hint):
            yield f"note: a good recording: {samples} samples, none lost; {_exactness(samples)}"


def runs_python(file: DataFile, options: RecordOptions) -> bool:
    """Return whether samples of chosen tasks hit CPython, and the recording does not have its functions."""
    target = options.target
    if options.python or options.jit or target.all_cpus or target.cpu or target.cgroups:
        return False
    return any(_PYTHON.fullmatch(os.path.basename(name)) for name in file.hit_files)


def busy_children(options: RecordOptions, procfs: ProcFs) -> Iterator[str]:
    """Tell that processes which the chosen ones started earlier do the work: they are not recorded."""
    chosen = {int(pid) for pid in options.target.pid.split(",") if pid.strip().isdecimal()}
    if not chosen or options.target.all_cpus or options.target.descendants:
        return
    descendants, processes = procfs.descendants(chosen), procfs.parents()
    if sum(ticks for _, ticks in descendants.values()) > sum(processes[pid][1] for pid in chosen if pid in processes):
        work = plural(len(descendants), "child process, which does", "child processes, which do")
        yield f"note: -p leaves out {len(descendants)} {work} most of the work; record them with --descendants"


def _losses(file: DataFile, options: RecordOptions, ring: int) -> Iterator[str]:
    """Yield the warnings about lost samples and context switches, with remedies."""
    lost, samples, attrs = file.lost - file.lost_switches, file.samples, file.attrs
    if switches := file.lost_switches:
        which = plural(switches, "context switch was", "context switches were")
        yield f"warning: {switches} {which} lost: times of waits are uncertain; try larger buffers (-m)"
    if not lost or (options.brief and lost < _FEW_LOST * (samples or 0)):
        return
    remedies = []
    if ring < _MOST_RING:  # larger buffers help up to that size
        larger = min(max(ring, PAGE_SIZE) * _LARGER, _MOST_RING)
        remedies.append(f"larger buffers (-m {larger >> 20}M)" if larger >= _MEGABYTE else f"larger buffers (-m {larger >> 10}K)")
    chain = options.sampling.callchain
    if chain and chain.mode == "dwarf" and chain.stack_size > _SMALL_COPY:  # the stack is nearly all of a sample
        remedies.append(f"smaller copies of stacks (--call-graph dwarf,{_SMALL_COPY})")
    option = option_for_fewer(attrs)
    if option == "-F":
        remedies.append(f"a lower frequency (-F {max((options.sampling.freq or DEFAULT_FREQ) // 2, 1)})")
    elif option == "-c":
        period = options.sampling.period or max(attr.sample_period for attr in attrs)
        factor = -(-(lost + samples) // samples) if samples else _LARGER
        remedies.append(f"a higher count (-c {period * max(factor, 2)})")
    elif option:
        remedies.append("a filter (--filter)")
    share = f" ({100 * lost / (lost + samples):.1f} %)" if samples and not options.off_cpu.enabled else ""  # samples of waits: unknown
    cause = f"{lost} {plural(lost, 'sample was', 'samples were')} lost{share}"
    yield f"warning: {cause}: try {' or '.join(remedies)}" if remedies else f"warning: {cause}"


def _exactness(samples: int) -> str:
    """Return the precision of a share: the spread of a binomial distribution."""
    return f"a share of 10 % is accurate to {100 * _SURE * (0.1 * 0.9 / samples) ** 0.5:.1f} points"


# Detect whether a recording feeds itself: most samples come from the recorder's own system calls. A recorder that records its own write()
# causes the next sample by writing the last one. If samples are large (a user stack of 64 KiB), that alone fills the ring buffers faster
# than they are read, other samples find no room, and the file grows until the disk is full. Neither waiting nor larger buffers help; perf
# has no remedy but --exclude-perf. The ring buffers are therefore inspected once in several megabytes. If most records are the recorder's
# own, several times in a row, its samples are filtered out from then on. Otherwise the recorder is recorded, as in perf. Events other
# than tracepoints have no filters, and need none: clocks and counters of the CPU do not run faster because of a write.

_HEADER: Final = struct.Struct("=IHH")
_TID: Final = struct.Struct("=I")
_ENOUGH: Final = 256  # records of a ring buffer to inspect: feedback affects all
_EVERY: Final = 8 << 20  # bytes written between two inspections
_SURE_INSPECTIONS: Final = 3  # inspections in a row


class OwnSamples:
    """Looks for samples of the calling thread in some passes over the ring buffers.

    others are processes that count as its own.
    """

    def __init__(self, events: Sequence[OpenEvent], others: Sequence[int] = ()) -> None:
        kinds = [event.attr.sample_type for event in events]
        first = kinds[0]
        # Either all events have the id first, or none; IP and TID follow (the order of PERF_SAMPLE_* in perf_event_open(2)).
        alike = all(kind & SampleType.TID and not (kind ^ first) & (SampleType.IDENTIFIER | SampleType.IP) for kind in kinds)
        # The kernel accepts one filter for each counter, so events with a filter (--filter) keep that one.
        self._events = [event for event in events if event.event.tracepoint and not event.filter] if alike else []
        self._tid_at = 8 + sum(8 for kind in (SampleType.IDENTIFIER, SampleType.IP) if first & kind) + 4  # after the pid
        self._sample = int(RecordType.SAMPLE)
        self.tid = get_native_id()
        self._tids = (self.tid, *others)
        self._own = self._all = 0  # bytes of the inspected pass
        self._looked_at = 0
        self._dominated_passes = 0

    def due(self, written: int) -> bool:
        """Evaluate the last inspected pass, and return whether to inspect the next one. written is the bytes so far."""
        if self._all:
            self._dominated_passes = self._dominated_passes + 1 if self._own * 2 > self._all else 0
            self._own = self._all = 0
        if not self._events or 0 <= written - self._looked_at < _EVERY:
            return False
        self._looked_at = written
        return True

    def look(self, written: int, tell: Callable[[str], None]) -> bool:
        """Like due(); if own samples dominate, filter them out from here on with a warning."""
        is_due = self.due(written)
        if self.prevail:
            for event in self.leave_out():
                event.set_filter()
            tell(f"warning: most samples come from perfpy's own writes; excluding perfpy ({self.tid}) from here on (--exclude-perf)")
        return is_due

    @property
    def prevail(self) -> bool:
        """Whether most samples are the recorder's own, and a filter can remove them."""
        return self._dominated_passes >= _SURE_INSPECTIONS

    def inspect(self, slices: Sequence[memoryview]) -> None:
        """Inspect the first records of a ring buffer."""
        data = slices[0] if slices else memoryview(b"")
        offset, looked, end = 0, 0, len(data)
        while offset + self._tid_at + 4 <= end and looked < _ENOUGH:
            kind, _, size = _HEADER.unpack_from(data, offset)
            if size < 8:
                return
            self._all += size
            if kind == self._sample and _TID.unpack_from(data, offset + self._tid_at)[0] in self._tids:
                self._own += size
            offset += size
            looked += 1

    def leave_out(self) -> list[OpenEvent]:
        """Extend the filters, once; return the events whose counters need them."""
        events, self._events, self._dominated_passes = self._events, [], 0
        for event in events:
            event.filter = _without(event.filter, self._tids)
        return events


def exclude_threads(events: Sequence[Event], tids: Sequence[int]) -> list[Event]:
    """Return the events, with tracepoints filtered to exclude these threads."""
    return change_events(events, lambda event: {"filter": _without(event.filter, tids)} if event.tracepoint else {})


def _without(filter_expression: str, tids: Sequence[int]) -> str:
    for tid in tids:
        filter_expression = combine_filters(filter_expression, f"common_pid != {tid}")
    return filter_expression


# The progress of a recording, as one line on a terminal: time, samples, losses, the file's size, and the rate of each event. Samples are
# estimated from the bytes of the ring buffers and the size of one record in some thousands.

_LINE_INTERVAL: Final = 1.0  # seconds
_LOOKED_AT: Final = 64  # records of a ring buffer
_CLOCKS: Final = ("cpu-clock", "task-clock")
_EVENTS: Final = 3  # events in the line
_WIDTH: Final = 80  # of a terminal that does not report it
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


class ProgressLine:
    """The line of one recording; an alarm of Attention."""

    def __init__(self, counters: SampleCounters, output: RecordOutput, start: float) -> None:
        self._counters = counters
        self._output = output
        self._start = self._last = start
        self._next = start + _LINE_INTERVAL
        self._values: dict[str, int] = {}
        self._samples = 0
        self._looked_bytes = self._looked_samples = 0
        self._last_bytes = output.bytes_read
        self._is_visible = False

    def wait(self, now: float) -> float:
        """Return the seconds until the line is due."""
        return max(self._next - now, 0.0)

    def ring(self, now: float) -> None:
        """Update the line."""
        if now < self._next:
            return
        self._next = now + _LINE_INTERVAL
        rates, lost = self._measure(now - self._last)
        self._last = now
        bytes_read = self._output.bytes_read
        if self._looked_bytes:
            self._samples += round((bytes_read - self._last_bytes) * self._looked_samples / self._looked_bytes)
        self._last_bytes = bytes_read
        events = ", ".join(f"{name} {_rate(name, rate)}" for name, rate in list(rates.items())[:_EVENTS])
        others = f", {len(rates) - _EVENTS} more" if len(rates) > _EVENTS else ""
        size = self._output.size / _MEGABYTE
        parts = f"{now - self._start:.0f} s, ~{_short(self._samples)} samples, {lost} lost, {size:.1f} MB"
        from perfpy.untrusted.terminal import control

        width = os.get_terminal_size(sys.stderr.fileno()).columns or _WIDTH
        control(sys.stderr, "\r\x1b[K")
        sys.stderr.write(f"[ perf record: {parts}; {events}{others}; Ctrl-C stops it ]"[: max(width - 1, 1)])
        sys.stderr.flush()
        self._is_visible = True

    def inspect(self, held: Held) -> None:
        """Inspect a few records of a ring buffer for the size of a sample."""
        data = held[0]
        offset = 0
        for _ in range(_LOOKED_AT):
            if offset + _HEADER.size > len(data):
                break
            kind, _, size = _HEADER.unpack_from(data, offset)
            if size < _HEADER.size or offset + size > len(data):
                break
            self._looked_samples += kind == RecordType.SAMPLE
            offset += size
        self._looked_bytes += offset

    def clear(self) -> None:
        """Clear the line before other output."""
        from perfpy.untrusted.terminal import control

        if self._is_visible:
            control(sys.stderr, "\r\x1b[K")
            self._is_visible = False

    def _measure(self, seconds: float) -> tuple[dict[str, float], int]:
        """Return the events per second since the last line, and the total of lost samples."""
        values: dict[str, int] = {}
        attrs: dict[str, EventAttr] = {}
        lost = 0
        for one in self._counters.opened:
            if is_dummy(one.event):
                continue
            try:
                reading = one.counter.read()
            except (PerfError, OSError):  # a CPU that went offline, a pinned event
                continue
            values[one.event.name] = values.get(one.event.name, 0) + reading.value
            attrs[one.event.name] = one.event.attr
            lost += reading.lost or 0
        rates = {name: (value - self._values.get(name, 0)) / seconds for name, value in values.items()}
        self._values = values
        return rates, lost


def _rate(name: str, rate: float) -> str:
    """Format a rate; clocks count nanoseconds of a CPU."""
    if name.split(":", maxsplit=1)[0] in _CLOCKS:
        return f"{rate / 1e9:.2f} CPUs"
    return f"{_short(rate)}/s"


def _short(number: float) -> str:
    for factor, unit in _UNITS:
        if number >= factor:
            return f"{number / factor:.1f}{unit}"
    return f"{number:.0f}"


# Inputs and periodic actions of a recording, by its options: reading ring buffers, the progress line, --max-cpu, --switch-output-event.

_LARGE_RING: Final = 2 << 20
_OFTEN: Final = 0.2  # seconds
_NOW_AND_THEN: Final = 1.0


def emptying(counters: SampleCounters, options: RecordOptions) -> list[Alarm]:
    """Return the alarm to read the ring buffers periodically, if the recorder reads them."""
    return [] if options.buffers.overwrite or options.buffers.threads else [Regularly(patience(counters, options), FIRST_PATIENCE)]


def patience(counters: SampleCounters, options: RecordOptions) -> float:
    """Return the seconds between reads: often for large default ring buffers; else so that a killed recording lacks only a second."""
    large = counters.rings and counters.rings[0].size >= _LARGE_RING and not options.buffers.mmap_pages
    return _OFTEN if large else _NOW_AND_THEN


def progress(
    command: Sequence[str], counters: SampleCounters, output: RecordOutput, options: RecordOptions, now: float
) -> ProgressLine | None:
    """Return the progress line; None if no person reads it, or if the command may write to the terminal (`sleep` does not)."""
    is_silent = not command or os.path.basename(command[0]) == "sleep"
    is_shown = options.notes and sys.stderr.isatty() and is_silent and os.environ.get("TERM", "dumb") != "dumb"
    return ProgressLine(counters, output, now) if is_shown else None


def cost_limit(counters: SampleCounters, output: RecordOutput, options: RecordOptions, tell: Callable[[str], None]) -> list[CostLimit]:
    """Return the alarm that keeps the cost of recording below --max-cpu."""
    if not options.max_cpu:
        return []
    # Waits consist of pairs of events: only the clock beside them may be sampled less.
    events = [event for event in counters.events if event.attr.freq] if options.off_cpu.enabled else counters.events
    may_rest = not (options.off_cpu.enabled or options.starts_disabled or options.control)  # otherwise others switch them
    return [CostLimit(counters, events, options.max_cpu, tell, others=output.others, may_rest=may_rest)]


def switch_events(
    options: RecordOptions,
    kernel: Kernel,
    ask: Callable[[], None],
    tell: Callable[[str], None],
    at_end: Callable[[Callable[[], None]], object],
) -> list[SwitchEvent]:
    """Return the inputs that request another file when an event happens. at_end gets the function that closes them."""
    if not options.output.switch_output_event:
        return []
    one = SwitchEvent(options.output.switch_output_event, kernel, ask, tell)
    at_end(one.close)
    return [one]
