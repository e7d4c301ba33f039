"""Attempts after a refusal, for every command that opens events."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import FLAG_FD_CLOEXEC, FLAG_PID_CGROUP, HardwareId, PerfType
from perfpy.capture.opening import Opener, OpenEvent, events_to_open
from perfpy.errors import KernelRefusedError
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeKernel

if TYPE_CHECKING:
    from collections.abc import Callable

TASKS = [((0, 0), 7, 0), ((0, 1), 8, 0)]  # two threads on one CPU


class Strict:
    """Tolerates no refusal; any event may be replaced."""

    def member_refused(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool | None:
        return None

    def cannot_count(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool:
        return False

    def may_replace(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool:
        return True

    def goes_without(self, _tid: int, _refusal: KernelRefusedError) -> bool:
        return False


class Lenient(Strict):
    """Goes on without events that cannot be counted, and without ended tasks."""

    def cannot_count(self, _opened: OpenEvent, _refusal: KernelRefusedError) -> bool:
        return True

    def goes_without(self, tid: int, _refusal: KernelRefusedError) -> bool:
        return tid == 7


class Picky(FakeKernel):
    """Refuses as `why` says: (attr, pid, number of counters so far) -> errno or 0."""

    def __init__(self, why: Callable[[EventAttr, int, int], int]) -> None:
        super().__init__()
        self.why = why
        self.tried: list[EventAttr] = []

    def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
        self.tried.append(attr)
        number = self.why(attr, pid, sum(not counter.closed for counter in self.counters))
        if number:
            raise KernelRefusedError("perf_event_open", number, event=event)
        return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)


def cycles(**fields: int) -> Event:
    return Event("cycles:P", EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES, **fields), precise_max=bool(fields))


def opener(kernel: FakeKernel, messages: list[str] | None = None, rules: Strict | None = None, **options) -> Opener:
    return Opener(kernel, rules or Strict(), on_cpus=False, tell=(messages if messages is not None else []).append, **options)


def test_the_next_event_starts_with_the_last_ones_fallback():
    """A kernel without mmap2 refuses once, not once an event; a cloexec that it knows stays."""
    kernel = Picky(lambda attr, _pid, _open: errno.EINVAL if attr.mmap2 else 0)
    one, other = (OpenEvent(Event(name, EventAttr(type=PerfType.SOFTWARE, mmap2=1))) for name in "ab")
    both = opener(kernel)
    both.open(one, TASKS)
    before = len(kernel.tried)
    both.open(other, TASKS)
    assert len(kernel.tried) == before + 2
    assert (one.attr.mmap2, other.attr.mmap2) == (0, 0)


def test_the_requested_attr_stays_unchanged():
    """Less is asked with another attr; whoever holds the first one sees no change."""
    event_attr = EventAttr(type=PerfType.SOFTWARE, mmap2=1)
    opened = OpenEvent(Event("a", event_attr))
    opener(Picky(lambda attr, _pid, _open: errno.EINVAL if attr.mmap2 else 0)).open(opened, TASKS)
    assert (event_attr.mmap2, opened.event.attr.mmap2, opened.attr.mmap2) == (1, 1, 0)


def test_the_counters_of_one_call_are_alike():
    """The second thread takes less precision than the first: both get that."""
    kernel = Picky(lambda attr, pid, _open: errno.EOPNOTSUPP if attr.precise_ip > 1 and pid == 8 else 0)
    opened = OpenEvent(cycles(precise_ip=2))
    opener(kernel).open(opened, TASKS)
    assert [(c.pid, c.attr.precise_ip, c.closed) for c in kernel.counters] == [(7, 2, True), (7, 1, False), (8, 1, False)]
    assert list(opened.counters) == [(0, 0), (0, 1)]


def test_counters_of_an_earlier_call_stay_unchanged():
    """What is open already is neither opened again nor closed by a refusal elsewhere."""
    kernel = Picky(lambda _attr, _pid, count: errno.ENOENT if count else 0)
    opened = OpenEvent(Event("a", EventAttr(type=PerfType.SOFTWARE)))
    mine = opener(kernel)
    mine.open(opened, TASKS[:1])
    with pytest.raises(KernelRefusedError):
        mine.open(opened, TASKS)
    assert [counter.closed for counter in kernel.counters] == [False]


def test_user_space_alone_gets_the_highest_precision():
    """Who may not look into the kernel gets :u, and of that the best that the PMU has, not the best there is."""

    def why(attr: EventAttr, _pid: int, _open: int) -> int:
        return errno.EACCES if not attr.exclude_kernel else errno.EOPNOTSUPP if attr.precise_ip > 2 else 0

    warnings: list[str] = []
    opened = OpenEvent(cycles(precise_ip=3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("perfpy.kernel.refusals.paranoid_level", lambda: 2)
        opener(Picky(why), warnings).open(opened, TASKS)
    attr = opened.attr
    assert (opened.name, attr.type, attr.exclude_kernel, attr.precise_ip) == ("cycles:Pu", PerfType.HARDWARE, 1, 2)
    assert len(warnings) == 1


def test_with_too_few_files_the_limit_is_raised_once():
    """EMFILE is tried again where the limit could be raised, and is an error where it could not."""
    raised: list[bool] = []

    def more_files() -> bool:
        raised.append(True)
        return len(raised) == 1

    def why(_attr: EventAttr, _pid: int, count: int) -> int:
        return errno.EMFILE if count and len(raised) < 1 else 0

    opened = OpenEvent(Event("a", EventAttr(type=PerfType.SOFTWARE)))
    opener(Picky(why), more_files=more_files).open(opened, TASKS)
    assert len(opened.counters) == 2
    with pytest.raises(KernelRefusedError):
        opener(Picky(lambda *_: errno.EMFILE)).open(OpenEvent(cycles()), TASKS)


def test_a_command_may_go_on_without_an_event_or_a_task():
    """What the opener asks of the command decides: nothing open, or all but one."""
    lacking = OpenEvent(cycles())
    opener(Picky(lambda *_: errno.ENOENT), rules=Lenient()).open(lacking, TASKS[1:])
    assert not lacking.counters
    rest = OpenEvent(cycles())
    opener(Picky(lambda _attr, pid, _open: errno.ESRCH if pid == 7 else 0), rules=Lenient()).open(rest, TASKS)
    assert list(rest.counters) == [(0, 1)]


def test_members_join_their_leaders_counter_and_flags_are_added():
    """A member is opened with the descriptor of the leader on the same CPU and thread."""
    kernel = FakeKernel()
    leader = Event("a", EventAttr(type=PerfType.SOFTWARE))
    first, second = events_to_open([leader, Event("b", EventAttr(type=PerfType.SOFTWARE), leader)])
    both = opener(kernel)
    both.open(first, TASKS)
    both.open(second, TASKS, flags=FLAG_PID_CGROUP)
    assert [counter.group_fd for counter in kernel.counters] == [-1, -1, kernel.counters[0].fd, kernel.counters[1].fd]
    assert kernel.counters[2].flags == FLAG_FD_CLOEXEC | FLAG_PID_CGROUP
