"""Events are opened as counters: the one loop of attempts under stat, count() and record.

What enters: an event, the attr that it is wanted with, tasks and CPUs. What
leaves: an `OpenEvent` with a Counter for each of them; it bears the attr and
the name that the kernel took, and how the event fared. What to try after a refusal is said in
perfpy.events.fallback; what a command makes of an event that nothing helps is
its own affair (`Refusals`).
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

    #: what the counter is known by afterwards, a task (or a cgroup's folder), a CPU
    OpeningTarget = tuple[Any, int, int]

    class Refusals(Protocol):
        """What a command makes of refusals."""

        def member_refused(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool | None:
            """A member of a weak group was refused: True to try it again, False to go on without, None when that is no reason."""

        def cannot_count(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
            """The event cannot be had as it is: True when the measurement goes on without it."""

        def may_replace(self, opened: OpenEvent, refusal: KernelRefusedError) -> bool:
            """Whether another event may stand for it."""

        def goes_without(self, tid: int, refusal: KernelRefusedError) -> bool:
            """Whether this task is left out."""


class OpenEvent(CountedEvent):
    """An event on its way to being open, and its counters.

    name, attr: those that were tried last; leader, weak: its group as it is now;
    state: how it fared; filter: the filter that its counters are to have.
    asked: the attr that it is wanted with, while `attr` is the one that was
    tried last, with these flags; asked_precise: the precise_ip before it was lowered.
    """

    __slots__ = ("asked", "asked_precise", "counters", "event", "filter", "flags", "state", "weak")

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
        """Whether it leads a group, or is alone."""
        return self.leader is self

    def ask(self, attr: EventAttr) -> None:
        """Want the event with this attr, from the first attempt on."""
        self.asked = self.attr = attr
        self.flags = FLAG_FD_CLOEXEC
        self.asked_precise = 0

    def leave_group(self) -> None:
        """Count for itself."""
        self.leader, self.group_size, self.weak = self, 1, False

    def set_filter(self) -> None:
        """Give the counters the filter, if there is one."""
        if self.filter:
            for counter in self.counters.values():
                counter.set_filter(self.filter)

    def close(self, *, but: int = 0) -> None:
        """Give the counters back, but for so many that were opened first."""
        for known_by in list(self.counters)[but:]:
            self.counters.pop(known_by).close()


def to_open(events: Iterable[Event]) -> list[OpenEvent]:
    """Events to be opened, in the groups that they are in; leaders stand before their members."""
    found: dict[Event, OpenEvent] = {}
    for event in events:
        found[event] = OpenEvent(event, None if event.led_by is None else found[event.led_by])
    return list(found.values())


class Opener:
    """Opens events one after the other; what this kernel was found to lack is not asked for again.

    on_cpus: whole CPUs are measured, not tasks; tell: called with a line for
    each event that another stands for; more_files: raises the limit of open
    files, False when it cannot.
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
        """Open an event's counters on the targets where it has none yet: as wanted, or with less, or another in its place.

        flags: besides those of the attempt. Raises KernelRefusedError when nothing helped.
        """
        self._begin(opened)
        counters = opened.counters
        earlier, gone = len(counters), set()
        again = True
        while again:
            leaders = {} if opened.is_leader else opened.leader.counters
            again = False
            try:
                for known_by, pid, cpu in targets:
                    if known_by not in counters and pid not in gone:
                        leader, asked = leaders.get(known_by), opened.flags | flags
                        counters[known_by] = Counter(opened.attr, pid, cpu, leader, event=opened.name, flags=asked, kernel=self._kernel)
            except KernelRefusedError as refusal:
                if again := self._refusals.goes_without(pid, refusal):
                    gone.add(pid)
                    continue
                first = not counters
                opened.close(but=earlier)
                again = self._may_try_again(opened, refusal, first=first)

    def _begin(self, opened: OpenEvent) -> None:
        """Leave out what earlier events have found out is not there."""
        if not self._missing or opened.counters:
            return
        from perfpy.events.fallback import first_attempt

        first = first_attempt(opened.attr, self._missing, leads=opened.is_leader)
        opened.attr, opened.flags = first.attr, first.flags

    def _may_try_again(self, opened: OpenEvent, refusal: KernelRefusedError, *, first: bool) -> bool:
        """What follows from a refusal: True to try again, False to go on without the event, or it is raised."""
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
        """Leave out what an old kernel, or a simple PMU such as msr, takes for invalid; False when nothing is left."""
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
        """A clock for cycles, user space for who may not look into the kernel; the event's name says so."""
        from perfpy.events.fallback import replacement
        from perfpy.kernel.refusals import paranoid_level

        instead = replacement(opened.name, opened.asked, refusal.errno, on_cpus=self._on_cpus, paranoid=paranoid_level())
        if instead is None:
            return False
        opened.name = instead.name
        opened.ask(instead.attr)
        self._begin(opened)
        self._tell(instead.message)
        return True
