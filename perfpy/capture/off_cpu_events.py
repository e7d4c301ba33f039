"""The events that record --off-cpu opens, and a WaitPlan that describes how they become waits.

Three events are added after the user's. The first becomes `offcpu-time` in the file. It counts nothing, but requests SWITCH
records, which have the times when each thread left a CPU and returned, and need no privilege. The second samples the stack of
the leaving thread: the tracepoint sched:sched_switch, which also has the thread's state, or without access to tracepoints the
software event context-switches. The third, a tracepoint again, has the wakers (without -a only wakeups by recorded threads).

None of the three is in the file. Another process converts them to samples of waits during the recording
(perfpy.capture.unwinding.switches_to_waits), because a machine may switch a hundred thousand times a second, and because pipes,
--switch-output and killed recordings need them then, not at the end.
"""

from __future__ import annotations

import os
import re
import time
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.abi.sample_layout import user_registers
from perfpy.capture.record_options import Callchain
from perfpy.capture.sample_attrs import SWITCH
from perfpy.capture.targets import ANY, online_cpus
from perfpy.errors import KernelRefusedError
from perfpy.events.event import Event
from perfpy.kernel.sysfs import Tracefs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.targets import Target
    from perfpy.kernel import Kernel


_WHO_AND_WHEN: Final = SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.PERIOD
_WAKING: Final = ("sched", "sched_waking")
_FIELD: Final = re.compile(r"field:[^;]*\b(\w+)(?:\[\d+\])?;\s*offset:(\d+);\s*size:(\d+);")
_WORTH_WAKING: Final = 1 << 18  # bytes in a ring buffer
_NANOSECONDS: Final = 1_000_000  # in a millisecond

_WITHOUT_TRACEPOINTS: Final = (
    "note: no access to tracepoints, so the state of waiting threads and their wakers are unknown;"
    " run as root, or with CAP_PERFMON and read access to /sys/kernel/tracing"
)
_WITHOUT_STACKS: Final = (
    "note: the time off the CPU has no stacks, because the kernel hides its code from users;"
    " run as root, or set sysctl kernel.perf_event_paranoid=1"
)

#: The attr of waits in the file, as perf has it.
TIME_ATTR: Final = EventAttr(
    type=PerfType.SOFTWARE,
    config=SoftwareId.BPF_OUTPUT,
    sample_period=1,
    sample_type=int(_WHO_AND_WHEN | SampleType.CALLCHAIN | SampleType.WEIGHT_STRUCT),
    read_format=int(ReadFormat.ID | ReadFormat.LOST),
    sample_id_all=1,
)


class RawField(NamedTuple):
    """The position of a field in the raw data of a tracepoint, in bytes."""

    offset: int
    size: int


class WaitPlan(NamedTuple):
    """The plan for turning recorded events into waits.

    Attributes:
        time, switches, wakings: indexes of the three events (-1: missing).
        state: the field of sched_switch; None without tracepoints.
        woken: the field of sched_waking; None without tracepoints.
        threshold: in ns; shorter waits are added up.
        without_kernel: drop threads that never run in user space.
    """

    time: int
    switches: int
    wakings: int
    state: RawField | None
    woken: RawField | None
    threshold: int
    without_kernel: bool

    @property
    def hidden(self) -> tuple[int, ...]:
        """The events that are not in the file."""
        return tuple(index for index in (self.switches, self.wakings) if index >= 0)


def add_wait_events(
    events: Sequence[Event], options: RecordOptions, target: Target, kernel: Kernel, tell: Callable[[str], None]
) -> tuple[list[Event], WaitPlan]:
    """Return the events and those for waits. Each must have its id first, and a time."""
    sources = _Sources(options, target, kernel)
    opened = list(events)
    time = len(opened)
    opened.append(sources.time())
    traced = sources.are_traceable()
    switches = sources.switches(traced)
    if not traced:
        tell(_WITHOUT_TRACEPOINTS if switches else _WITHOUT_STACKS)
    if switches:
        opened.append(switches)
    wakings = sources.wakings() if traced else None
    if wakings:
        opened.append(wakings)
    state, woken = (tracepoint_field(*SWITCH, "prev_state"), tracepoint_field(*_WAKING, "pid")) if traced else (None, None)
    plan = WaitPlan(
        time,
        time + 1 if switches else -1,
        time + 2 if wakings else -1,
        state,
        woken,
        options.off_cpu.threshold * _NANOSECONDS,
        without_kernel=not options.sampling.kernel_callchains,
    )
    return opened, plan


class _Sources:
    """Builds the events of one recording."""

    def __init__(self, options: RecordOptions, target: Target, kernel: Kernel) -> None:
        self._options = options
        self._target = target
        self._kernel = kernel

    def time(self) -> Event:
        """Return the event of SWITCH records."""
        return Event(OFF_CPU_EVENT, self._attr(PerfType.SOFTWARE, SoftwareId.BPF_OUTPUT, exclude_kernel=1, context_switch=1))

    def are_traceable(self) -> bool:
        """Whether the tracepoints are accessible."""
        try:
            ids = [Tracefs().event_id(*name) for name in (SWITCH, _WAKING)]
        except KernelRefusedError:
            return False
        if None in ids or tracepoint_field(*SWITCH, "prev_state") is None or tracepoint_field(*_WAKING, "pid") is None:
            return False
        return self._opens(EventAttr(type=PerfType.TRACEPOINT, config=ids[0] or 0, sample_period=1, sample_type=int(SampleType.RAW)))

    def switches(self, traced: bool) -> Event | None:
        """Return the event that samples threads leaving a CPU; None without access."""
        if traced:
            attr = self._attr(PerfType.TRACEPOINT, Tracefs().event_id(*SWITCH) or 0)
            attr = attr.copy(sample_type=attr.sample_type | SampleType.RAW)
        else:
            attr = self._attr(PerfType.SOFTWARE, SoftwareId.CONTEXT_SWITCHES)
            if not self._opens(attr.copy(disabled=1, enable_on_exec=0, inherit=0)):
                return None
        name, tracepoint = (":".join(SWITCH), SWITCH) if traced else ("context-switches", None)
        return Event(name, self._with_stack(attr), tracepoint=tracepoint)

    def wakings(self) -> Event:
        """Return the event of wakeups."""
        attr = self._attr(PerfType.TRACEPOINT, Tracefs().event_id(*_WAKING) or 0)
        return Event(":".join(_WAKING), attr.copy(sample_type=attr.sample_type | SampleType.RAW), tracepoint=_WAKING)

    def _attr(self, kind: int, config: int, **fields: int) -> EventAttr:
        """Return an attr that starts and ends with the other events."""
        options = self._options
        from_exec = self._target.kind == "command" and not options.starts_disabled
        attr = EventAttr(
            type=kind,
            config=config,
            sample_period=1,
            sample_type=int(_WHO_AND_WHEN),
            read_format=int(ReadFormat.ID | ReadFormat.LOST),
            sample_id_all=1,
            disabled=1,
            enable_on_exec=int(from_exec),
            inherit=int(options.target.inherit and not options.target.per_thread),
            **fields,
        )
        return attr if options.sampling.clockid is None else attr.copy(use_clockid=1, clockid=options.sampling.clockid)

    def _with_stack(self, attr: EventAttr) -> EventAttr:
        """Add the stack to the attr by the options; by frame pointers without an option."""
        options = self._options
        chain = options.sampling.callchain or Callchain("fp", max_stack=0)
        attr = attr.copy(
            sample_type=attr.sample_type | SampleType.CALLCHAIN,
            sample_max_stack=chain.max_stack,
            exclude_callchain_user=int(options.sampling.kernel_callchains or chain.mode == "dwarf"),
            exclude_callchain_kernel=int(options.sampling.user_callchains),
            watermark=1,
            wakeup_events=_WORTH_WAKING,
        )
        if chain.mode != "dwarf":
            return attr
        return attr.copy(
            sample_type=attr.sample_type | SampleType.REGS_USER | SampleType.STACK_USER,
            sample_regs_user=user_registers(os.uname().machine),
            sample_stack_user=chain.stack_size,
        )

    def _opens(self, attr: EventAttr) -> bool:
        """Whether the kernel permits the event."""
        pid, cpu = (0, ANY) if self._target.has_tasks else (ANY, min(online_cpus()))
        try:
            self._kernel.close(self._kernel.perf_event_open(attr, pid, cpu))
        except KernelRefusedError:
            return False
        return True


def tracepoint_field(system: str, name: str, field: str) -> RawField | None:
    """Return the position of a tracepoint's field from its format file."""
    text = Tracefs().format(system, name) or ""
    return next((RawField(int(offset), int(size)) for candidate, offset, size in _FIELD.findall(text) if candidate == field), None)


# Limit the stacks per second of context switches. Recording a stack at each switch takes a microsecond or more, and so does writing it. A
# program that switches 200,000 times a second would be disturbed more than it runs. Events that sample stacks and wakeups are therefore
# disabled while they exceed the limit, with one note. SWITCH records continue, so that the time off the CPU stays complete, and in the
# right thread; the rest gets the stacks of similar waits (perfpy.capture.unwinding.switches_to_waits). The stacks have ring buffers of
# their own: if the recorder gets no CPU for too long, stacks are dropped, and neither SWITCH records nor other events' samples.

_LOOK: Final = 0.01  # seconds between two checks
_LONGEST_REST: Final = 1.0  # seconds


class SwitchedCounters(Protocol):
    """The interface of a recording's counters that is used here."""

    @property
    def events(self) -> Sequence[OpenEvent]:
        """All events of the recording."""

    def count(self, event: OpenEvent) -> int:
        """Return how often an event has happened."""

    def switch(self, event: OpenEvent, on: bool) -> None:
        """Enable or disable an event's counters."""


def switch_limit(counters: SwitchedCounters, plan: WaitPlan, most: int, tell: Callable[[str], None]) -> SwitchLimit:
    """Return the limit of stacks of switches in a recording of waits."""
    note = (
        f"note: recording the stacks of {most:,} context switches a second, a part of all (--off-cpu-limit): those"
        " of more would disturb the target"
    )
    sampled = counters.events[plan.switches] if plan.switches >= 0 else None
    return SwitchLimit(counters, sampled, [counters.events[number] for number in plan.hidden], most, lambda: tell(note))


class SwitchLimit:
    """Watches the switches of one recording.

    Args:
        counters: of the recording.
        sampled: the event whose rate is limited; None for none.
        limited: the events that are disabled above the limit.
        most: stacks per second; 0 for no limit.
        warn: called the first time.
    """

    def __init__(
        self,
        counters: SwitchedCounters,
        sampled: OpenEvent | None,
        limited: Sequence[OpenEvent],
        most: int,
        warn: Callable[[], None] = lambda: None,
    ) -> None:
        self._counters = counters
        self._sampled = sampled
        self._limited = limited
        self._most = most
        self._warn = warn
        self._looked = time.monotonic()
        self._last_total = 0
        self._resume = 0.0  # when disabled events are enabled again; 0 while they are on
        self._has_warned = False

    def check(self) -> None:
        """Disable or re-enable the events if necessary; called after all ring buffers were read."""
        now = time.monotonic()
        if self._sampled is None or not self._most:
            return
        if self._resume:
            if now >= self._resume:
                self._switch(now, resume=0.0)
        elif now - self._looked >= _LOOK:
            total = self._counters.count(self._sampled)
            switches, self._last_total = total - self._last_total, total
            passed, self._looked = now - self._looked, now
            too_long = switches / self._most - passed
            if too_long > 0:
                if not self._has_warned:
                    self._has_warned = True
                    self._warn()
                self._switch(now, resume=now + min(too_long, _LONGEST_REST))

    def _switch(self, now: float, *, resume: float) -> None:
        for event in self._limited:
            self._counters.switch(event, not resume)
        self._resume, self._looked = resume, now
