"""Open events as counters over tasks and CPUs, enable, read and close them: the core of stat and count().

The attr of a counting event (read_format, inherit, enable_on_exec ...) is decided here, as perf does.
"""

from __future__ import annotations

import errno
import os

from perfpy.abi.attr import CountState
from perfpy.abi.flags import FLAG_PID_CGROUP, ReadFormat, SampleType
from perfpy.abi.light_types import NamedTuple
from perfpy.capture.counter import Counter, Opener, OpenEvent, events_to_open
from perfpy.counts.aggregation import CounterCell, count_members
from perfpy.errors import KernelRefusedError, NotScheduledError, UsageError
from perfpy.kernel import this_kernel

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Final, TypeAlias

    from perfpy.abi.attr import EventAttr, Reading
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

    Readings: TypeAlias = "dict[OpenEvent, list[CounterCell]]"


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
        optional: events that are left out, whatever the reason of their refusal.
    """

    inherit: bool = True
    on_exec: bool = False
    all_user: bool = False
    all_kernel: bool = False
    identifier: bool = True
    alone: Collection[Event] = frozenset()
    with_threads: bool = False
    skip_missing: bool = False
    optional: Collection[Event] = frozenset()


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
        self.tids: list[int] = []
        self.missing: set[int] = set()  # indexes of tasks that ended before they were opened
        self.cpus = list(cpus)
        self.options = options or CountingOptions()
        self.notes = self._ungroup_by_cpus()
        self._dissolved: list[OpenEvent] = []  # events of groups that were broken up, to open again
        count_members(self.events)
        self._cgroup_fds = cgroup_fds or {}
        self._prepared: dict[OpenEvent, tuple[EventAttr, tuple[bool, bool]]] = {}
        self._kernel = kernel or this_kernel()
        self._warn = warn or (lambda _text: None)
        self._opener = Opener(self._kernel, self, on_cpus=self.cpus != [ANY], tell=self._warn)

    def _ungroup_by_cpus(self) -> list[str]:
        """Remove members from groups whose leader counts on other CPUs; return perf's warnings."""
        notes: list[str] = []
        for leader in [event for event in self.events if event.is_leader]:
            members = [event for event in self.events if event.leader is leader and not event.tool]
            others = [event for event in members if tuple(self._cpus_of(event)) != tuple(self._cpus_of(leader))]
            if others:
                names = ", ".join(event.name for event in members)
                notes += [
                    "WARNING: grouped events cpus do not match.",
                    "Events with CPUs not matching the leader will be removed from the group.",
                    f"  {leader.event.group_name or 'anon group'} {{ {names} }}",
                ]
            for event in others:
                event.leave_group()
        return notes

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
            while self._dissolved:
                events, self._dissolved = self._dissolved, []
                self._open_everywhere([event for event in self.events if event in events])
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
                if event.state.supported and not event.tool and event not in self._dissolved and cpu in self._cpus_of(event):
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
        is_optional = opened.event in self.options.optional
        if refusal.errno not in _UNSUPPORTED and not is_optional:
            return False
        if opened.is_leader and opened.group_size > 1 and not is_optional:
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
        """Close a group; open() opens each of its events alone at last. Those that count only in a group stay with its leader."""
        members = [event for event in self.events if event.leader is leader]
        for event in members:
            event.close()
        for event in members:
            if event is leader or not event.event.must_be_grouped:
                event.leave_group()
            event.weak = False
        count_members(self.events)
        for event in members:
            self._prepare(event)
        self._dissolved += members

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
                readings[event] = [CounterCell(max(self.cpus[0], 0), 0, value, nanoseconds, nanoseconds)]  # in perf, of the first CPU
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
