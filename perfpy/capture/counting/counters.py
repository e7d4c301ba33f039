"""Events opened as counters over tasks and CPUs, enabled, read, closed: the machinery under stat and count().

What enters: events of perfpy.events and whom to count. What leaves: for each
event the `CounterCell`s of its counters. What the attr of a counting event holds
(read_format, inherit, enable_on_exec ...) is decided here, as perf does.
"""

from __future__ import annotations

import errno
import os

from perfpy.abi.flags import FLAG_FD_CLOEXEC, FLAG_PID_CGROUP, ReadFormat, SampleType
from perfpy.capture.counter import Counter
from perfpy.counts.aggregation import CountedEvent, CounterCell
from perfpy.counts.ratios import is_clock
from perfpy.errors import KernelRefused, NotScheduled, UsageError
from perfpy.kernel import this_kernel

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Final

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.readings import Reading
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

ANY: Final = -1
_OTHER_FILES: Final = 40
#: errnos by which the kernel says that it cannot count an event at all
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOENT, errno.EOPNOTSUPP, errno.ENXIO)
_TIMES: Final = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING


class CountingOptions:
    """How events are counted.

    inherit: children and new threads, too; on_exec: from the moment that the
    task executes a program; all_user, all_kernel: as if each event had :u or
    :k; identifier: mark the attrs as those of a file with several events.
    """

    __slots__ = ("all_kernel", "all_user", "identifier", "inherit", "on_exec")

    def __init__(
        self,
        *,
        inherit: bool = True,
        on_exec: bool = False,
        all_user: bool = False,
        all_kernel: bool = False,
        identifier: bool = True,
    ) -> None:
        self.inherit = inherit
        self.on_exec = on_exec
        self.all_user = all_user
        self.all_kernel = all_kernel
        self.identifier = identifier


def counting_attr(attr: EventAttr, options: CountingOptions, *, leads: bool, in_group: bool) -> EventAttr:
    """The attr to count an event with, as perf makes it; leads: a group, or itself alone."""
    user, kernel = attr.exclude_user, attr.exclude_kernel
    if options.all_user or options.all_kernel:
        user, kernel = int(options.all_kernel), int(not options.all_kernel)
    return attr.copy(
        read_format=int(_TIMES | ReadFormat.ID | ReadFormat.GROUP if in_group else _TIMES),
        sample_type=int(SampleType.IDENTIFIER) if options.identifier else 0,
        sample_period=0,
        freq=0,
        inherit=int(options.inherit),
        exclude_user=user,
        exclude_kernel=kernel,
        disabled=int(leads),
        enable_on_exec=int(leads and options.on_exec),
    )


def counted_event(name: str, attr: EventAttr, *, tool: str = "") -> CountedEvent:
    """An event to count, with the unit that its count has by nature: ns for clocks (shown as ms) and tool events."""
    event = CountedEvent(name, attr, unit="ns" if tool else "", tool=tool)
    if not tool and is_clock(event):
        event.unit, event.scale = "msec", 1e-6
    return event


def counted_events(events: Iterable[Event]) -> list[CountedEvent]:
    """Events of the event language as events to count; the attrs are copies. Raises UsageError for the term percore."""
    made: dict[int, CountedEvent] = {}
    found = []
    for event in events:
        if event.terms.percore:
            raise UsageError(f"{event.name}: the term percore is perf's, but not perfpy's; --per-core sums all events by core")
        counted = counted_event(event.name, event.attr.copy(), tool=event.tool)
        if event.unit or event.scale != 1.0:
            counted.unit, counted.scale = event.unit, event.scale
        counted.pmu = event.pmu
        counted.cpus = event.cpus
        counted.requires_cpu = event.requires_cpu
        counted.bound = event.requires_cpu or event.terms.cpu is not None
        counted.per_pkg = event.per_pkg
        counted.snapshot = event.snapshot
        counted.weak = event.weak
        counted.precise_max = event.precise_max
        counted.filter = event.filter
        counted.keepalive = event.keepalive
        made[id(event)] = counted
        found.append(counted)
        leader = made.get(id(event.leader), counted)
        counted.leader = leader
        if leader is not counted:
            leader.group_size += 1
    return found


class _Column:
    """The counters of one event, in the order of opening, each with the place that its cell is for."""

    __slots__ = ("counters", "event")

    def __init__(self, event: CountedEvent) -> None:
        self.event = event
        self.counters: dict[tuple[int, int], Counter] = {}  # (cpu, thread index) -> counter


class Counting:
    """Events opened on tasks and CPUs.

    events: in the order of printing; tids: tasks, (ANY,) for all; cpus: CPUs,
    (ANY,) for any. cgroup_fds: path -> fd of the folder, for events that have
    a cgroup. warn: called with a line of text for what is worth telling.

    open() raises KernelRefused for what is the user's to mend (permissions,
    no such process, too many files); events that the machine cannot count
    are marked unsupported instead, with the reason in `why_not`.
    """

    def __init__(
        self,
        events: Sequence[CountedEvent],
        *,
        tids: Sequence[int] = (ANY,),
        cpus: Sequence[int] = (ANY,),
        options: CountingOptions | None = None,
        cgroup_fds: dict[str, int] | None = None,
        kernel: Kernel | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.events = list(events)
        self.tids = list(tids)
        self.cpus = list(cpus)
        self.options = options or CountingOptions()
        self._cgroup_fds = cgroup_fds or {}
        self._kernel = kernel or this_kernel()
        self._warn = warn or (lambda _text: None)
        self._columns = {event: _Column(event) for event in self.events}
        self._flags = FLAG_FD_CLOEXEC
        self._missing: frozenset[str] = frozenset()

    # -- opening ---------------------------------------------------------------

    def open(self) -> None:
        """Open every event on every CPU and task; on an error nothing stays open."""
        for event in self.events:
            self._prepare(event)
        self._make_room()
        try:
            for cpu in self._every_cpu():
                for event in self.events:
                    if event.supported and not event.tool and self._wants(event, cpu):
                        self._open_event(event, cpu)
            self._set_filters()
        except BaseException:
            self.close()
            raise

    def _make_room(self) -> None:
        """Allow this process as many open files as it needs, if it may; once none is left it is too late to try."""
        needed = len(self.events) * len(self._every_cpu()) * len(self.tids)
        if needed + _OTHER_FILES > os.sysconf("SC_OPEN_MAX"):
            from perfpy.kernel.procfs import raise_open_files_limit

            raise_open_files_limit()

    def _every_cpu(self) -> list[int]:
        found = set(self.cpus)
        for event in self.events:
            if event.cpus is not None:
                found.update(self._cpus_of(event))
        return sorted(found)

    def _cpus_of(self, event: CountedEvent) -> list[int]:
        """The CPUs that an event is opened on: those asked for that its PMU is on."""
        if event.cpus is None:
            return self.cpus
        if self.cpus == [ANY]:
            return list(event.cpus) if event.bound else self.cpus
        return [cpu for cpu in self.cpus if cpu in event.cpus]

    def _wants(self, event: CountedEvent, cpu: int) -> bool:
        return cpu in self._cpus_of(event)

    def _prepare(self, event: CountedEvent) -> None:
        event.attr = counting_attr(event.attr, self.options, leads=event.leader is event, in_group=event.leader.group_size > 1)

    def _open_event(self, event: CountedEvent, cpu: int) -> None:
        column = self._columns[event]
        if self._missing and not column.counters:
            from perfpy.events.fallback import first_attempt

            event.attr = first_attempt(event.attr, self._missing).attr  # earlier events have found out what is not there
        for thread, tid in enumerate(list(self.tids)):
            while (cpu, thread) not in column.counters:  # a group that fell apart is open on all CPUs already
                try:
                    column.counters[cpu, thread] = self._open_counter(event, cpu, thread, tid)
                except KernelRefused as refused:
                    if not self._retry(event, refused, first=not column.counters):
                        return

    def _open_counter(self, event: CountedEvent, cpu: int, thread: int, tid: int) -> Counter:
        flags = self._flags
        if event.cgroup is not None:
            tid = self._cgroup_fds[event.cgroup]
            flags |= FLAG_PID_CGROUP
        leader = self._columns[event.leader].counters.get((cpu, thread)) if event.leader is not event else None
        return Counter(event.attr, tid, cpu, leader, event=event.name, flags=flags, kernel=self._kernel)

    def _retry(self, event: CountedEvent, refused: KernelRefused, *, first: bool) -> bool:
        """What follows from a refusal: True to try again, False to go on without the event (or the task), or raise."""
        if event.weak and event.leader is not event and refused.errno in (errno.EINVAL, errno.EBADF):
            self._dissolve(event.leader)
            return False
        may_ask_less = refused.errno == errno.EINVAL or (event.precise_max and event.attr.precise_ip)
        if may_ask_less and self._ask_for_less(event, refused, first=first):
            return True
        if refused.errno in _UNSUPPORTED:
            self._unsupported(event, refused)
            return False
        if self._exclude_kernel(event, refused):
            return True
        raise refused

    def _ask_for_less(self, event: CountedEvent, refused: KernelRefused, *, first: bool) -> bool:
        """Leave out what an old kernel, or a simple PMU such as msr, takes for invalid; False when nothing is left."""
        from perfpy.events.fallback import Attempt, next_attempt

        attempt = Attempt(event.attr, self._flags, self._missing, event.leader is event, event.asked_precise)
        less = next_attempt(attempt, refused.errno, precise_max=event.precise_max, first=first)
        if less is None:
            return False
        event.attr, self._flags, self._missing = less.attr, less.flags, less.missing
        event.asked_precise = less.asked_precise
        return True

    def _unsupported(self, event: CountedEvent, refused: KernelRefused) -> None:
        if event.leader is event and event.group_size > 1:
            if not event.weak:
                raise refused
            self._dissolve(event)
            return
        event.supported = False
        event.why_not = refused
        self._close_column(event)
        self._warn(f"{event.name} event is not supported by the kernel: {refused.cause}")

    def _exclude_kernel(self, event: CountedEvent, refused: KernelRefused) -> bool:
        """A user who may not look into the kernel counts user space, and the event's name says so."""
        if refused.errno != errno.EACCES or event.cgroup is not None:
            return False
        from perfpy.events.fallback import replacement
        from perfpy.kernel.refusals import paranoid_level

        on_cpus = self.cpus != [ANY]
        instead = replacement(event.name, event.attr, refused.errno, on_cpus=on_cpus, paranoid=paranoid_level())
        if instead is None:
            return False
        event.attr, event.name = instead.attr, instead.name
        self._warn(instead.message)
        return True

    def _dissolve(self, leader: CountedEvent) -> None:
        """A weak group that the PMU cannot hold: each of its events alone, from the first CPU on."""
        members = [event for event in self.events if event.leader is leader]
        for event in members:
            self._close_column(event)
        for event in members:
            event.leader, event.group_size, event.weak = event, 1, False
            self._prepare(event)
        for cpu in self._every_cpu():
            for event in members:
                if event.supported and self._wants(event, cpu):
                    self._open_event(event, cpu)

    def _set_filters(self) -> None:
        for event, column in self._columns.items():
            if event.filter:
                for counter in column.counters.values():
                    counter.set_filter(event.filter)

    # -- running ---------------------------------------------------------------

    def enable(self, name: str = "") -> bool:
        """Let all groups count, or the one that an event of this name leads; False when there is no such event."""
        return self._switch(Counter.enable, name)

    def disable(self, name: str = "") -> bool:
        """Stop all groups, so that what is read afterwards is of one moment; or the one that an event of this name leads."""
        return self._switch(Counter.disable, name)

    def _switch(self, action: Callable[[Counter], None], name: str) -> bool:
        named = [(event, column) for event, column in self._columns.items() if name in ("", event.name)]
        for event, column in named:
            if event.leader is event:
                for counter in column.counters.values():
                    action(counter)
        return bool(named)

    def read(self, tool_times: dict[str, int]) -> dict[CountedEvent, list[CounterCell]]:
        """Every counter's reading since it was enabled.

        tool_times: the tool events' values in ns. An event of which a counter
        could not be read (a pinned one that lost its place) is marked failed.
        """
        found: dict[CountedEvent, list[CounterCell]] = {}
        groups: dict[tuple[CountedEvent, int, int], list[Reading]] = {}
        for event, column in self._columns.items():
            if event.tool:
                value = tool_times.get(event.tool, 0)
                found[event] = [CounterCell(0, 0, value, value, value)]
                continue
            found[event] = self._read_column(event, column, groups)
        return found

    def _read_column(
        self, event: CountedEvent, column: _Column, groups: dict[tuple[CountedEvent, int, int], list[Reading]]
    ) -> list[CounterCell]:
        cells = []
        alone = event.leader.group_size == 1
        for (cpu, thread), counter in column.counters.items():
            try:
                reading = counter.read() if alone else self._read_member(event, cpu, thread, counter, groups)
            except NotScheduled as reason:
                event.failed = True
                event.why_not = reason
                continue
            cells.append(CounterCell(cpu, thread, reading.value, reading.enabled or 0, reading.running or 0))
        return cells

    def _read_member(
        self,
        event: CountedEvent,
        cpu: int,
        thread: int,
        counter: Counter,
        groups: dict[tuple[CountedEvent, int, int], list[Reading]],
    ) -> Reading:
        key = (event.leader, cpu, thread)
        if event.leader is event:
            groups[key] = counter.read_group()[::-1]
        if key not in groups:
            raise NotScheduled(event.name)
        return groups[key].pop()  # members stand in the order in which they were opened

    def ids(self, event: CountedEvent) -> dict[tuple[int, int], int]:
        """The kernel's ids of an event's counters, by CPU and thread index."""
        return {target: counter.id for target, counter in self._columns[event].counters.items()}

    # -- closing ---------------------------------------------------------------

    def _close_column(self, event: CountedEvent) -> None:
        column = self._columns[event]
        for counter in column.counters.values():
            counter.close()
        column.counters.clear()

    def close(self) -> None:
        """Give all counters back."""
        for event in self.events:
            self._close_column(event)

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Differences:
    """Readings since the start -> readings since the last round; snapshot events stay as they are."""

    def __init__(self) -> None:
        self._previous: dict[CountedEvent, dict[tuple[int, int], CounterCell]] = {}

    def since_last(self, readings: dict[CountedEvent, list[CounterCell]]) -> dict[CountedEvent, list[CounterCell]]:
        """The differences; the readings are remembered for the next time."""
        return {event: self._event(event, cells) for event, cells in readings.items()}

    def _event(self, event: CountedEvent, cells: list[CounterCell]) -> list[CounterCell]:
        if event.snapshot:
            return cells
        before = self._previous.setdefault(event, {})
        found = []
        for cell in cells:
            key = (cell.cpu, cell.thread)
            last = before.get(key)
            before[key] = cell
            if last is not None:
                found.append(cell.since(last))
            else:
                found.append(cell)
        return found
