"""Events are opened as counters: the one loop of attempts under stat, count() and record.

What enters: an event, the attr that it is wanted with, tasks and CPUs. What
leaves: an `OpenEvent` with a Counter for each of them; its event bears the
attr and the name that the kernel took. What to try after a refusal is said in
perfpy.events.fallback; what a command makes of an event that nothing helps is
its own affair (`Refusals`).
"""

from __future__ import annotations

import errno

from perfpy.abi.flags import FLAG_FD_CLOEXEC
from perfpy.capture.counter import Counter
from perfpy.errors import KernelRefused

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Protocol

    from perfpy.abi.attr import EventAttr
    from perfpy.events.event import Event
    from perfpy.kernel import Kernel

    #: what the counter is known by afterwards, a task (or a cgroup's folder), a CPU
    OpeningTarget = tuple[Any, int, int]

    class Refusals(Protocol):
        """What a command makes of refusals."""

        def member_refused(self, opened: OpenEvent, refusal: KernelRefused) -> bool | None:
            """A member of a weak group was refused: True to try it again, False to go on without, None when that is no reason."""

        def cannot_count(self, opened: OpenEvent, refusal: KernelRefused) -> bool:
            """The event cannot be had as it is: True when the measurement goes on without it."""

        def may_replace(self, opened: OpenEvent, refusal: KernelRefused) -> bool:
            """Whether another event may stand for it."""

        def goes_without(self, tid: int, refusal: KernelRefused) -> bool:
            """Whether this task is left out."""


class OpenEvent:
    """An event and its counters; leader: the one that leads its group, None when it is alone or leads.

    asked: the attr that it is wanted with, while the event bears the one that
    was tried last, with these flags; asked_precise: the precise_ip before it
    was lowered.
    """

    __slots__ = ("asked", "asked_precise", "counters", "event", "flags", "leader")

    def __init__(self, event: Event, leader: OpenEvent | None = None) -> None:
        self.event = event
        self.leader = leader
        self.counters: dict[Any, Counter] = {}
        self.ask(event.attr)

    def ask(self, attr: EventAttr) -> None:
        """Want the event with this attr, from the first attempt on."""
        self.asked = self.event.attr = attr
        self.flags = FLAG_FD_CLOEXEC
        self.asked_precise = 0

    def close(self, *, but: int = 0) -> None:
        """Give the counters back, but for so many that were opened first."""
        for known_by in list(self.counters)[but:]:
            self.counters.pop(known_by).close()


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

        flags: besides those of the attempt. Raises KernelRefused when nothing helped.
        """
        self._begin(opened)
        event, counters = opened.event, opened.counters
        earlier, gone = len(counters), set()
        again = True
        while again:
            leaders = opened.leader.counters if opened.leader else {}
            again = False
            try:
                for known_by, pid, cpu in targets:
                    if known_by not in counters and pid not in gone:
                        leader, asked = leaders.get(known_by), opened.flags | flags
                        counters[known_by] = Counter(event.attr, pid, cpu, leader, event=event.name, flags=asked, kernel=self._kernel)
            except KernelRefused as refusal:
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

        first = first_attempt(opened.event.attr, self._missing, leads=opened.leader is None)
        opened.event.attr, opened.flags = first.attr, first.flags

    def _may_try_again(self, opened: OpenEvent, refusal: KernelRefused, *, first: bool) -> bool:
        """What follows from a refusal: True to try again, False to go on without the event, or it is raised."""
        if refusal.errno == errno.EMFILE and self._more_files():
            return True
        if opened.leader and opened.event.weak:
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

    def _ask_for_less(self, opened: OpenEvent, refusal: KernelRefused, *, first: bool) -> bool:
        """Leave out what an old kernel, or a simple PMU such as msr, takes for invalid; False when nothing is left."""
        event = opened.event
        if refusal.errno != errno.EINVAL and not (event.precise_max and event.attr.precise_ip):
            return False
        from perfpy.events.fallback import Attempt, next_attempt

        attempt = Attempt(event.attr, opened.flags, self._missing, opened.leader is None, opened.asked_precise)
        less = next_attempt(attempt, refusal.errno, precise_max=event.precise_max, first=first)
        if less is None:
            return False
        event.attr, opened.flags, self._missing, opened.asked_precise = less.attr, less.flags, less.missing, less.asked_precise
        return True

    def _replace(self, opened: OpenEvent, refusal: KernelRefused) -> bool:
        """A clock for cycles, user space for who may not look into the kernel; the event's name says so."""
        from perfpy.events.fallback import replacement
        from perfpy.kernel.refusals import paranoid_level

        event = opened.event
        instead = replacement(event.name, opened.asked, refusal.errno, on_cpus=self._on_cpus, paranoid=paranoid_level())
        if instead is None:
            return False
        event.name = instead.name
        opened.ask(instead.attr)
        self._begin(opened)
        self._tell(instead.message)
        return True
