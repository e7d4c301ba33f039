"""Open events as counters: the loop of attempts that stat, count() and record share.

perfpy.events.fallback decides what to try after a refusal. The command decides what happens to an event that cannot be opened
(`Refusals`).
"""

from __future__ import annotations

import errno

from perfpy.abi.flags import FLAG_FD_CLOEXEC
from perfpy.capture.counter import Counter
from perfpy.counts.aggregation import COUNTED, CountedEvent
from perfpy.errors import KernelRefusedError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, Protocol

    from perfpy.abi.attr import EventAttr
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

    #: The key of the counter, a task (or a cgroup's folder), a CPU.
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
        from perfpy.kernel.refusals import paranoid_level

        instead = replacement(opened.name, opened.requested, refusal.errno, on_cpus=self._on_cpus, paranoid=paranoid_level())
        if instead is None:
            return False
        opened.name = instead.name
        opened.ask(instead.attr)
        self._begin(opened)
        self._tell(instead.message)
        return True
