"""Open events as counters: the loop of attempts that stat, count() and record share.

perfpy.events.fallback decides what to try after a refusal. The command decides what happens to an event that cannot be opened
(`Refusals`).
"""

from __future__ import annotations

import errno
import os

from perfpy.abi.flags import FLAG_FD_CLOEXEC, FLAG_PID_CGROUP, ReadFormat, SampleType
from perfpy.abi.light_types import NamedTuple
from perfpy.capture.counter import Counter
from perfpy.counts.aggregation import COUNTED, CountedEvent, CounterCell, CountState, count_members
from perfpy.errors import KernelRefusedError, NotScheduledError, UsageError
from perfpy.kernel import this_kernel

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any, Final, Protocol, TypeAlias

    from perfpy.abi.attr import EventAttr, Reading
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

    OpeningTarget = tuple[Any, int, int]

    class Refusals(Protocol):
        """A command's decisions about refusals."""

        def member_refused(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool | None:
            """Handle a refused member of a weak group: True to retry, False to go on without it, None if the group is not the reason."""

        def cannot_count(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
            """Whether the measurement goes on without an event that cannot be opened."""

        def may_replace(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
            """Whether another event may replace it."""

        def goes_without(self, tid: int, refusal: KernelRefusedError) -> bool:
            """Whether to skip this task."""

    Readings: TypeAlias = "dict[OpenEvent, list[CounterCell]]"


class OpenEvent(CountedEvent):
    """An event that is being opened, and its counters.

    Attributes:
        name, attr: those tried last.
        flags: the flags of the last attempt.
        leader, weak: its current group.
        state: its outcome.
        filter: the filter for its counters.
        requested: the requested attr.
        asked_precise: the requested precise_ip, before it was lowered.
    """

    __slots__ = ("asked_precise", "counters", "event", "filter", "flags", "requested", "state", "weak")

    leader: OpenEvent

    def __init__(self, event: Event, leader: OpenEvent | None = None) -> None:
        super().__init__(event.name, event.attr, unit=event.unit, scale=event.scale, pmu=event.pmu, tool=event.tool)
        self.per_pkg, self.snapshot, self.cpus, self.cgroup = event.per_pkg, event.snapshot, event.cpus, event.cgroup
        self.event = event
        self.leader = leader or self
        self.weak = event.weak
        self.filter = event.filter
        self.state = COUNTED
        self.counters: dict[Any, Counter] = {}
        self.ask(event.attr)

    @property
    def is_leader(self) -> bool:
        """Whether it leads a group, or has none."""
        return self.leader is self

    def ask(self, attr: EventAttr) -> None:
        """Request this attr from the next attempt on."""
        self.requested = self.attr = attr
        self.flags = FLAG_FD_CLOEXEC
        self.asked_precise = 0

    def leave_group(self) -> None:
        """Leave the group, and count alone."""
        self.leader, self.group_size, self.weak = self, 1, False

    def set_filter(self) -> None:
        """Set the filter of the counters, if there is one."""
        if self.filter:
            for counter in self.counters.values():
                counter.set_filter(self.filter)

    def close(self, *, but: int = 0) -> None:
        """Close the counters, except the first `but`."""
        for known_by in list(self.counters)[but:]:
            self.counters.pop(known_by).close()


def events_to_open(events: Iterable[Event]) -> list[OpenEvent]:
    """Return the events to open, in their groups; leaders come before their members."""
    opened: dict[Event, OpenEvent] = {}
    for event in events:
        opened[event] = OpenEvent(event, None if event.led_by is None else opened[event.led_by])
    return list(opened.values())


class Opener:
    """Opens events in order; features that the kernel lacks are not requested again.

    Args:
        on_cpus: whole CPUs are measured, not tasks.
        tell: called with a line for each replaced event.
        more_files: raises the limit of open files; False if it cannot.
    """

    def __init__(
        self,
        kernel: Kernel,
        refusals: Refusals,
        *,
        on_cpus: bool,
        tell: Callable[[str], None],
        more_files: Callable[[], bool] = lambda: False,
    ) -> None:
        self._kernel = kernel
        self._refusals = refusals
        self._on_cpus = on_cpus
        self._tell = tell
        self._more_files = more_files
        self._missing: frozenset[str] = frozenset()

    def open(self, opened: OpenEvent, targets: Sequence[OpeningTarget], *, flags: int = 0) -> None:
        """Open an event's counters on the targets that have none yet: as requested, with less, or as another event.

        flags are added to those of the attempt. Raises KernelRefusedError if no attempt succeeds.
        """
        self._begin(opened)
        counters = opened.counters
        earlier, ended_tasks = len(counters), set()
        again = True
        while again:
            leaders = {} if opened.is_leader else opened.leader.counters
            again = False
            try:
                for known_by, pid, cpu in targets:
                    if known_by not in counters and pid not in ended_tasks:
                        leader, open_flags = leaders.get(known_by), opened.flags | flags
                        counters[known_by] = Counter(
                            opened.attr, pid, cpu, leader, event=opened.name, flags=open_flags, kernel=self._kernel
                        )
            except KernelRefusedError as refusal:
                if again := self._refusals.goes_without(pid, refusal):
                    ended_tasks.add(pid)
                    continue
                first = not counters
                opened.close(but=earlier)
                again = self._may_try_again(opened, refusal, first=first)

    def _begin(self, opened: OpenEvent) -> None:
        """Omit features that earlier events have found missing."""
        if not self._missing or opened.counters:
            return
        from perfpy.events.fallback import first_attempt

        first = first_attempt(opened.attr, self._missing, leads=opened.is_leader)
        opened.attr, opened.flags = first.attr, first.flags

    def _may_try_again(self, opened: OpenEvent, refusal: KernelRefusedError, *, first: bool) -> bool:
        """Handle a refusal: True to retry, False to go on without the event; otherwise raise it."""
        if refusal.errno == errno.EMFILE and self._more_files():
            return True
        if opened.weak and not opened.is_leader:
            again = self._refusals.member_refused(opened, refusal)
            if again is not None:
                return again
        if self._ask_for_less(opened, refusal, first=first):
            return True
        if self._refusals.cannot_count(opened, refusal):
            return False
        if self._refusals.may_replace(opened, refusal) and self._replace(opened, refusal):
            return True
        raise refusal

    def _ask_for_less(self, opened: OpenEvent, refusal: KernelRefusedError, *, first: bool) -> bool:
        """Omit a feature that an old kernel, or a simple PMU such as msr, rejects; False if nothing is left to omit."""
        precise_max = opened.event.precise_max
        if refusal.errno != errno.EINVAL and not (precise_max and opened.attr.precise_ip):
            return False
        from perfpy.events.fallback import Attempt, next_attempt

        attempt = Attempt(opened.attr, opened.flags, self._missing, opened.is_leader, opened.asked_precise)
        less = next_attempt(attempt, refusal.errno, precise_max=precise_max, first=first)
        if less is None:
            return False
        opened.attr, opened.flags, self._missing, opened.asked_precise = less.attr, less.flags, less.missing, less.asked_precise
        return True

    def _replace(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
        """Replace cycles by a clock, or restrict the event to user space if the kernel is off limits; the event's name changes with it."""
        from perfpy.events.fallback import replacement
        from perfpy.kernel.syscalls import paranoid_level

        instead = replacement(opened.name, opened.requested, refusal.errno, on_cpus=self._on_cpus, paranoid=paranoid_level())
        if instead is None:
            return False
        opened.name = instead.name
        opened.ask(instead.attr)
        self._begin(opened)
        self._tell(instead.message)
        return True


# Open events as counters over tasks and CPUs, enable, read and close them: the core of stat and count(). The attr of a counting event
# (read_format, inherit, enable_on_exec ...) is decided here, as perf does.

ANY: Final = -1
_OTHER_FILES: Final = 40
#: Errnos with which the kernel refuses events that it cannot count at all.
_UNSUPPORTED: Final = (errno.EINVAL, errno.ENOSYS, errno.ENOENT, errno.EOPNOTSUPP, errno.ENXIO)
_TIMES: Final = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING


class CountingOptions(NamedTuple):
    """Options for counting events.

    Attributes:
        inherit: count children and new threads, too.
        on_exec: start when the task executes a program.
        all_user, all_kernel: as if each event had :u or :k.
        identifier: mark the attrs as those of a file with several events.
        alone: events counted for the tasks themselves, whatever inherit says.
        with_threads: count events of `alone` in new threads, too.
        skip_missing: skip tasks that end before they are opened, if one is left.
    """

    inherit: bool = True
    on_exec: bool = False
    all_user: bool = False
    all_kernel: bool = False
    identifier: bool = True
    alone: Collection[Event] = frozenset()
    with_threads: bool = False
    skip_missing: bool = False


def counting_attr(event: OpenEvent, options: CountingOptions) -> EventAttr:
    """Return the attr to count an event with, as perf makes it."""
    attr, leads = event.attr, event.is_leader
    user, kernel = attr.exclude_user, attr.exclude_kernel
    if options.all_user or options.all_kernel:
        user, kernel = int(options.all_kernel), int(not options.all_kernel)
    attr = attr.copy(
        read_format=int(_TIMES | ReadFormat.ID | ReadFormat.GROUP if event.leader.group_size > 1 else _TIMES),
        sample_type=int(SampleType.IDENTIFIER) if options.identifier else 0,
        sample_period=0,
        freq=0,
        inherit=int(options.inherit),
        exclude_user=user,
        exclude_kernel=kernel,
        disabled=int(leads),
        enable_on_exec=int(leads and options.on_exec),
    )
    if event.event in options.alone:
        threads = int(options.with_threads)
        attr = attr.copy(inherit=threads, inherit_thread=threads)
    if event.event.ebb:
        from perfpy.events.ebb import with_needs  # rarely needed

        attr = with_needs(attr, leads=leads)
    return attr


class Counting:
    """Events opened on tasks and CPUs. It may be opened again after close(); what was learned about the events is kept.

    Args:
        events: in the order of printing.
        cpus: CPUs; (ANY,) for any.
        cgroup_fds: path -> fd of the folder, for events with a cgroup.
        warn: called with a line of text.
    """

    def __init__(
        self,
        events: Sequence[Event],
        *,
        cpus: Sequence[int] = (ANY,),
        options: CountingOptions | None = None,
        cgroup_fds: Mapping[str, int] | None = None,
        kernel: Kernel | None = None,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.events = events_to_open(events)
        count_members(self.events)
        self.tids: list[int] = []
        self.missing: set[int] = set()  # indexes of tasks that ended before they were opened
        self.cpus = list(cpus)
        self.options = options or CountingOptions()
        self._cgroup_fds = cgroup_fds or {}
        self._prepared: dict[OpenEvent, tuple[EventAttr, tuple[bool, bool]]] = {}
        self._kernel = kernel or this_kernel()
        self._warn = warn or (lambda _text: None)
        self._opener = Opener(self._kernel, self, on_cpus=self.cpus != [ANY], tell=self._warn)

    # -- opening ---------------------------------------------------------------

    def open(self, tids: Sequence[int] = (ANY,)) -> Counting:
        """Open every event on every CPU and task; after an error nothing stays open. tids are tasks, (ANY,) for all.

        Raises KernelRefusedError for problems that the user can solve (permissions, no such process, too many files). Events that the
        machine cannot count are marked unsupported instead, with the reason.
        """
        self.tids, self.missing = list(tids), set()
        for event in self.events:
            self._prepare(event)
        # Raise the limit of open files if needed and permitted; it is too late once none is left.
        needed = len(self.events) * len(self._every_cpu()) * len(self.tids)
        if needed + _OTHER_FILES > os.sysconf("SC_OPEN_MAX"):
            from perfpy.kernel.procfs import raise_open_files_limit

            raise_open_files_limit()
        try:
            self._open_everywhere(self.events)
            self._close_missing()
            for event in self.events:
                event.set_filter()
        except BaseException:
            self.close()
            raise
        return self

    def _every_cpu(self) -> list[int]:
        cpus = set(self.cpus)
        for event in self.events:
            if event.cpus is not None:
                cpus.update(self._cpus_of(event))
        return sorted(cpus)

    def _cpus_of(self, event: OpenEvent) -> Sequence[int]:
        """Return the CPUs to open an event on: the requested ones that its PMU covers."""
        if event.cpus is None:
            return self.cpus
        if self.cpus == [ANY]:
            return event.cpus if event.event.bound else self.cpus
        return [cpu for cpu in self.cpus if cpu in event.cpus]

    def _prepare(self, event: OpenEvent) -> None:
        shape = event.is_leader, event.leader.group_size > 1
        prepared = self._prepared.get(event)
        if prepared is None or prepared[0] is not event.attr or prepared[1] != shape:  # a block that is entered again has the same attr
            prepared = self._prepared[event] = counting_attr(event, self.options), shape
        event.ask(prepared[0])

    def _open_everywhere(self, events: Sequence[OpenEvent]) -> None:
        for cpu in self._every_cpu():
            for event in events:
                if event.state.supported and not event.tool and cpu in self._cpus_of(event):
                    tids = enumerate(self.tids if event.cgroup is None else [self._cgroup_fds[event.cgroup]] * len(self.tids))
                    targets = [((cpu, thread), tid, cpu) for thread, tid in tids if thread not in self.missing]
                    self._opener.open(event, targets, flags=0 if event.cgroup is None else FLAG_PID_CGROUP)

    # -- refusals (called by the opener) ---------------------------------------

    def member_refused(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool | None:
        """Dissolve a weak group that does not fit on the PMU."""
        if refusal.errno not in (errno.EINVAL, errno.EBADF):
            return None
        self._dissolve(opened.leader)
        return False

    def cannot_count(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
        """Mark an event that the machine lacks, with the reason, unless other events depend on it."""
        if refusal.errno not in _UNSUPPORTED:
            return False
        if opened.is_leader and opened.group_size > 1:
            if not opened.weak:
                return False
            self._dissolve(opened)
            return True
        opened.state = CountState(supported=False, why_not=refusal)
        opened.close()
        self._warn(f"{opened.name} event is not supported by the kernel: {refusal.cause}")
        return True

    def may_replace(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
        """Whether to count user space only, for a user without access to the kernel; no other replacement is made."""
        return refusal.errno == errno.EACCES and opened.cgroup is None

    def goes_without(self, tid: int, refusal: KernelRefusedError) -> bool:
        """Whether to skip a task that has ended, if other tasks of the target are left."""
        if refusal.errno != errno.ESRCH or not self.options.skip_missing or tid not in self.tids:
            return False
        self.missing.add(self.tids.index(tid))
        return len(self.missing) < len(self.tids)

    def _close_missing(self) -> None:
        """Close other events' counters of tasks that have ended meanwhile: all events must count the same tasks."""
        for event in self.events if self.missing else ():
            for known_by in [known_by for known_by in event.counters if known_by[1] in self.missing]:
                event.counters.pop(known_by).close()

    def _dissolve(self, leader: OpenEvent) -> None:
        """Reopen each event of a group alone, from the first CPU on."""
        members = [event for event in self.events if event.leader is leader]
        for event in members:
            event.close()
        for event in members:
            event.leave_group()
            self._prepare(event)
        self._open_everywhere(members)

    # -- running ---------------------------------------------------------------

    def enable(self, name: str = "") -> bool:
        """Enable all groups, or the one that an event of this name leads; return False if there is no such event."""
        return self._switch(Counter.enable, [event for event in self.events if name in ("", event.name)])

    def disable(self, name: str = "") -> bool:
        """Stop all groups, so that their readings have the same time, or the one that an event of this name leads."""
        return self._switch(Counter.disable, [event for event in self.events if name in ("", event.name)])

    def enable_ebb(self) -> None:
        """Enable the events that the start of a program does not enable."""
        self._switch(Counter.enable, [event for event in self.events if event.event.ebb])

    @staticmethod
    def _switch(action: Callable[[Counter], None], events: Sequence[OpenEvent]) -> bool:
        for event in events:
            for counter in event.counters.values() if event.is_leader else ():
                try:
                    action(counter)
                except NotScheduledError:  # reads report it
                    continue
        return bool(events)

    def read(self, tool_times: dict[str, int]) -> Readings:
        """Read every counter's value since it was enabled.

        tool_times has the tool events' values in ns. An event with an unreadable counter (a pinned one that lost the PMU) is marked failed.
        """
        readings: Readings = {}
        groups: dict[tuple[OpenEvent, int, int], list[Reading]] = {}
        for event in self.events:
            if event.tool:
                value = tool_times.get(event.tool, 0)
                nanoseconds = 1 if event.snapshot else max(value, 1)  # a time of 0 counts as measured
                readings[event] = [CounterCell(0, 0, value, nanoseconds, nanoseconds)]
                continue
            cells = []
            alone = event.leader.group_size == 1
            for (cpu, thread), counter in event.counters.items():
                try:
                    if alone:
                        reading = counter.read()
                    else:
                        key = (event.leader, cpu, thread)
                        if event.is_leader:
                            groups[key] = counter.read_group()[::-1]
                        if key not in groups:
                            raise NotScheduledError(event.name)
                        reading = groups[key].pop()  # members are in the order of opening
                except (NotScheduledError, UsageError) as reason:  # UsageError: event-based branches, whose counts the program owns
                    event.state = event.state._replace(failed=True, why_not=reason)
                    continue
                cells.append(CounterCell(cpu, thread, reading.value, reading.enabled or 0, reading.running or 0))
            readings[event] = cells
        return readings

    def ids(self, event: OpenEvent) -> dict[tuple[int, int], int]:
        """Return the kernel's ids of an event's counters, by CPU and thread index."""
        return {target: counter.id for target, counter in event.counters.items()}

    # -- closing ---------------------------------------------------------------

    def close(self) -> None:
        """Close all counters."""
        for event in self.events:
            event.close()

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Differences:
    """Converts readings since the start to readings since the last round; snapshot events are unchanged."""

    def __init__(self) -> None:
        self._previous: dict[OpenEvent, dict[tuple[int, int], CounterCell]] = {}

    def since_last(self, readings: Readings) -> Readings:
        """Return the differences, and store the readings for the next call."""
        differences: Readings = {}
        for event, cells in readings.items():
            if event.snapshot:
                differences[event] = cells
                continue
            before = self._previous.setdefault(event, {})
            differences[event] = [
                cell.since(before[cell.cpu, cell.thread]) if (cell.cpu, cell.thread) in before else cell for cell in cells
            ]
            before.update({(cell.cpu, cell.thread): cell for cell in cells})
        return differences
