"""Open the events of a live view and read their ring buffers."""

from __future__ import annotations

import contextlib
import select
import time
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.flags import PerfType, SoftwareId
from perfpy.capture.record_options import GUEST_EVENT, complete_python_options
from perfpy.capture.sample_attrs import MAX_RATE, configure_sampling, is_dummy, sampling_warnings, with_frequency
from perfpy.capture.sample_counters import SampleCounters, pages_for, roomy_pages
from perfpy.capture.synthesis import Environment, event_groups, tracing_data
from perfpy.capture.targets import ANY, OfflineCpuError, resolve
from perfpy.capture.unwinding.process import plain_attr
from perfpy.errors import KernelRefusedError, PerfError, UsageError
from perfpy.events import parse_events
from perfpy.events.machine import this_machine as event_source
from perfpy.kernel import this_kernel
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.syscalls import may_measure_kernel, own_status
from perfpy.kernel.sysfs import Sysfs, Tracefs
from perfpy.perfdata.events import FileEvent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.off_cpu_events import SwitchLimit, WaitPlan
    from perfpy.capture.python_frames.kernel_frames import FrameCopier
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.targets import Target
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel
    from perfpy.perfdata.event_format import Tracing

_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_SECOND: Final = 1_000_000_000  # nanoseconds
_GONE: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL
_DEFAULT_EVENT: Final = "cycles:P"
_NO_SAMPLES: Final = "dummy"  # of --off-cpu, which adds events of its own


class LiveRings:
    """The counters and ring buffers of a live view.

    Args:
        texts: the events, () for perf's default.
        filters: (number of events before it, expression).
        options: of sampling and target.
        tell: called with each line for the user.
        workload: the process of a program that has not started yet, which enables the events when it does; 0 for none.
        ring_size: bytes of a ring buffer where the user may lock them and gives no size; 0: by the events.
        offline_status: the exit status for an offline CPU, which is another one in each command of perf.

    Attributes:
        counters: the open counters.
        target: the tasks and CPUs.
        copier: of Python frames; None for those of other programs, and if the kernel does not permit it.
        waits: how switches become waits (--off-cpu); None otherwise.
        tell: see above.
        fullness: of the ring buffer with the most records at the last reading, from 0 to 1.
    """

    def __init__(
        self,
        texts: Sequence[str],
        filters: Sequence[tuple[int, str]],
        options: RecordOptions,
        tell: Callable[[str], None],
        kernel: Kernel | None = None,
        workload: int = 0,
        ring_size: int = 0,
        offline_status: int = PerfError.exit_code,
    ) -> None:
        kernel, procfs = kernel or this_kernel(), ProcFs()
        self.tell = tell
        sampling = options.sampling._replace(identifier=True, time=True, cpu_field=True, clockid=time.CLOCK_MONOTONIC)
        options = options._replace(sampling=sampling)
        self.copier: FrameCopier | None = None
        if options.python:
            options, self.copier = _with_python(options, len(texts))
        options = with_frequency(options, procfs.setting(MAX_RATE), tell)
        try:
            self.target = target = resolve(procfs=procfs)[0] if workload else _find_target(options, procfs)
        except OfflineCpuError as error:
            error.exit_code = offline_status
            raise
        if target.kind == "tid":
            options = options._replace(target=options.target._replace(inherit=False))
        self.options = options
        self._ring_size, self.fullness = ring_size, 0.0
        texts = texts or ((_NO_SAMPLES,) if options.off_cpu.enabled else ())
        events = configure_sampling(_parse(texts, filters, options, tell), options, target, kernel, Sysfs())
        self.waits: WaitPlan | None = None
        self._limit: SwitchLimit | None = None
        if options.off_cpu.enabled:
            from perfpy.capture.off_cpu_events import add_wait_events, switch_limit  # rarely needed

            events, self.waits = add_wait_events(events, options, target, kernel, tell)
        self.counters = counters = self._opened(kernel, events, procfs, workload, tell)
        if self.waits is not None:
            self._limit = switch_limit(counters, self.waits, options.off_cpu.limit, tell)
        self._watched = {*counters.fds()} if target.has_tasks else set()
        self._poll = select.poll()
        for fd in {*self._watched, *counters.ring_fds()}:
            self._poll.register(fd, select.POLLIN)

    def _opened(
        self, kernel: Kernel, events: Sequence[Event], procfs: ProcFs, workload: int, tell: Callable[[str], None]
    ) -> SampleCounters:
        """Return the counters, open and mapped."""
        target, options = self.target, self.options
        tids = (workload,) if workload else target.tids if target.has_tasks else (ANY,)
        counters = SampleCounters(
            *(kernel, events, target.cpus, tids),
            cgroup_fds=_cgroups(options.target.cgroups, events),
            skip_missing=target.kind in ("pid", "user"),
            skip_foreign=target.kind == "user",
            needs_all=self.waits is not None,  # whose plan has the indexes of events
            tell=tell,
        )
        counters.open()
        counters.warn_of_skipped(tell)
        try:
            usual = pages_for([event.attr for event in counters.events], procfs, own_status()[0])
            usual = max(usual, roomy_pages(procfs, own_status()[0], self._ring_size) if self._ring_size else 0)
            counters.map(options.buffers.mmap_pages or usual)
        except BaseException:
            counters.close()
            raise
        return counters

    @property
    def has_ended(self) -> bool:
        """Whether all tasks of the target have ended."""
        return self.target.has_tasks and not self._watched

    def watch(self, fd: int) -> None:
        """Let wait() return when a descriptor becomes readable."""
        self._poll.register(fd, select.POLLIN)

    def wait(self, seconds: float) -> None:
        """Wait until a ring buffer is half full, a watched descriptor is readable, or the time has passed."""
        for fd, happened in self._poll.poll(max(seconds, 0) * 1000):
            if happened & _GONE:
                self._poll.unregister(fd)
                self._watched.discard(fd)

    def read(self) -> bytes:
        """Take all records out of the ring buffers."""
        pieces = []
        self.fullness = 0.0
        self.counters.pause(True)
        for ring in self.counters.rings:
            of_ring = [bytes(piece) for piece in ring.pending()]
            ring.consume()
            pieces += of_ring
            self.fullness = max(self.fullness, sum(map(len, of_ring)) / ring.size)
        self.counters.pause(False)
        if self._limit is not None:
            self._limit.check()
        return b"".join(pieces)

    def change_rate(self, share: float) -> None:
        """Take a share of the samples per second that the options request."""
        for opened in self.counters.opened:
            attr = opened.event.attr
            frequency = max(int(attr.sample_period * share), 1)
            if not attr.freq or not attr.sample_period:
                continue
            is_clock = attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS
            with contextlib.suppress(OSError, KernelRefusedError):  # it stays as it is
                # The kernel has turned the frequency of a clock into a period: it would take a frequency for nanoseconds.
                opened.counter.set_period(_SECOND // frequency if is_clock else frequency)

    def events(self, tracing: Tracing | None) -> list[FileEvent]:
        """Return the events as samples refer to them."""
        events = []
        for index, event in enumerate(self.counters.events):
            point = event.event.tracepoint if tracing is not None else None
            events.append(FileEvent(event.attr, self.counters.ids(event), event.name, index, point))
        for group in event_groups(self.counters.events):
            for event_of_group in events[group.leader : group.leader + group.members]:
                event_of_group.leader = group.leader
        return events

    @property
    def features(self) -> dict[str, Any]:
        """The features that reports need, by name."""
        groups, topology = event_groups(self.counters.events), Environment().cpu_topology()
        return {**({"group_desc": groups} if groups else {}), **({"cpu_topology": topology} if topology else {})}

    @property
    def sampled_events(self) -> list[int]:
        """The indexes of the events with samples."""
        hidden = self.waits.hidden if self.waits else ()
        return [index for index, event in enumerate(self.counters.events) if not is_dummy(event) and index not in hidden]

    @property
    def recorded(self) -> tuple[SampleCounters, list[EventAttr]]:
        """The counters whose samples views have, and the attrs of these."""
        counters, plan = self.counters, self.waits
        attrs = [plain_attr(event.attr) if self.options.python else event.attr for event in counters.events]
        if plan is None:
            return counters, attrs
        from perfpy.capture.off_cpu_events import TIME_ATTR

        attrs[plan.time] = TIME_ATTR.copy(inherit=attrs[plan.time].inherit, disabled=attrs[plan.time].disabled)
        rows = [index for index in range(len(attrs)) if index not in plan.hidden]
        return counters.restricted_to([counters.events[index] for index in rows]), [attrs[index] for index in rows]

    @property
    def has_only_tracepoints(self) -> bool:
        """Whether all events with samples are tracepoints."""
        return all(self.counters.events[index].event.tracepoint for index in self.sampled_events)

    def tracing_data(self) -> bytes:
        """Return the formats of the tracepoints as a section of a file; empty without tracepoints."""
        tracepoints = [event.event.tracepoint for event in self.counters.events if event.event.tracepoint]
        if not tracepoints:
            return b""
        return tracing_data(Tracefs(), tracepoints).encode()

    def close(self) -> None:
        """Close the counters."""
        self.counters.close()
        if self.copier is not None:
            self.copier.close()


def _with_python(options: RecordOptions, events: int) -> tuple[RecordOptions, FrameCopier | None]:
    """Return the options with what Python frames need, and their copier. events: their number.

    Without permission for BPF programs, frames are read the better the sooner.
    """
    from perfpy.capture.python_frames.kernel_frames import open_copier

    options = complete_python_options(options)
    copier = open_copier(options, events)
    if copier is None:
        options = options._replace(buffers=options.buffers._replace(no_buffering=True))
    return options, copier


def _find_target(options: RecordOptions, procfs: ProcFs) -> Target:
    target = options.target if options.target.is_given else options.target._replace(all_cpus=True)
    return resolve(target, procfs=procfs)[0]


def _parse(texts: Sequence[str], filters: Sequence[tuple[int, str]], options: RecordOptions, tell: Callable[[str], None]) -> list[Event]:
    guests = options.guests
    default = GUEST_EVENT if guests.guest else _DEFAULT_EVENT if may_measure_kernel() else _DEFAULT_EVENT + "u"
    events = parse_events(texts or (default,), filters, event_source(""), host=guests.host, guests=guests.guest)
    for text in dict.fromkeys(sampling_warnings(events, options)):
        tell(f"warning: {text}")
    if tool := next((event.name for event in events if event.tool), ""):
        raise UsageError(f"'{tool}' can be counted, not sampled; use perfpy stat")
    return events


def _cgroups(names: Sequence[str], events: Sequence[Event]) -> dict[Event, int]:
    """Return event -> the folder of its cgroup."""
    if not names:
        return {}
    from perfpy.capture.cgroups import folders_of  # rarely needed

    return {event: fd for event, fd in zip(events, folders_of(names, len(events)), strict=False) if fd is not None}
