"""Attempts after a refusal, for every command that opens events."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.attr import COUNTED, EventAttr
from perfpy.abi.flags import FLAG_FD_CLOEXEC, FLAG_PID_CGROUP, HardwareId, PerfType, ReadFormat, SoftwareId
from perfpy.capture.counter import Opener, OpenEvent, events_to_open
from perfpy.capture.counters import Counting, CountingOptions, Differences
from perfpy.counts.aggregation import CounterCell
from perfpy.errors import GroupIsFullError, KernelRefusedError
from perfpy.events.event import Event
from tests.builders.fake_kernel import FakeCounter, FakeKernel

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
        patch.setattr("perfpy.kernel.syscalls.paranoid_level", lambda: 2)
        opener(Picky(why), warnings).open(opened, TASKS)
    attr = opened.attr
    assert (opened.name, attr.type, attr.exclude_kernel, attr.precise_ip) == ("cycles:Pu", PerfType.HARDWARE, 1, 2)
    assert len(warnings) == 1


def test_an_uncore_pmu_that_cannot_sample_is_named():
    event = Event("uncore_imc/clockticks/", EventAttr(type=20, sample_period=4000), pmu="uncore_imc_0", cpus=(0,), requires_cpu=True)
    kernel = FakeKernel(refuse={event.name: errno.EINVAL})
    with pytest.raises(KernelRefusedError, match="PMU uncore_imc_0 counts for whole CPUs and takes no samples; count it by"):
        opener(kernel).open(OpenEvent(event), [(0, -1, 0)])


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


# Events are opened as counters as perf opens them, and counters are read as cells.


def software(name: str, config: int, **more: Any) -> Event:
    return Event(name, EventAttr(type=PerfType.SOFTWARE, config=config, exclude_guest=1), **more)


def group(leader: Event, *members: Event) -> list[Event]:
    return [leader, *(member._replace(led_by=leader) for member in members)]


def test_a_counter_for_each_event_cpu_and_task() -> None:
    """The matrix is opened CPU by CPU, and within a CPU event by event."""
    kernel = FakeKernel()
    events = [software("cs", SoftwareId.CONTEXT_SWITCHES), software("faults", SoftwareId.PAGE_FAULTS)]
    Counting(events, cpus=(0, 1), kernel=kernel).open((7, 8))
    opened = [(counter.event, counter.cpu, counter.pid) for counter in kernel.counters]
    assert opened[:4] == [("cs", 0, 7), ("cs", 0, 8), ("faults", 0, 7), ("faults", 0, 8)]
    assert len(opened) == 8


def test_counting_attrs_are_perfs() -> None:
    """Times in the read format, no sampling, inherited, disabled until enabled."""
    kernel = FakeKernel()
    event = software("cs", SoftwareId.CONTEXT_SWITCHES)
    event.attr.sample_period = 1000
    Counting([event], options=CountingOptions(on_exec=True), kernel=kernel).open()
    attr = kernel.counters[0].attr
    assert attr.read_format == ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING
    assert (attr.sample_period, attr.inherit, attr.disabled, attr.enable_on_exec) == (0, 1, 1, 1)


def test_members_follow_their_leader() -> None:
    """Only the leader is disabled and enabled; members join its descriptor and are read with it."""

    def counts(counter: FakeCounter) -> None:
        counter.value, counter.enabled, counter.running = counter.fd, 10, 10

    kernel = FakeKernel(counts=counts)
    events = group(software("cs", SoftwareId.CONTEXT_SWITCHES), software("faults", SoftwareId.PAGE_FAULTS))
    counting = Counting(events, kernel=kernel)
    counting.open()
    leader, member = kernel.counters
    assert member.group_fd == leader.fd
    assert (leader.attr.disabled, member.attr.disabled) == (1, 0)
    counting.enable()
    assert [call for call in kernel.calls if call[0] == "enable"] == [("enable", leader.fd, False)]
    readings = counting.read({})
    assert [cells[0].value for cells in readings.values()] == [leader.fd, member.fd]


def test_an_event_that_the_machine_lacks_is_marked_with_the_reason() -> None:
    """ENOENT leaves the event out; others go on."""
    kernel = FakeKernel(refuse={"cycles": errno.ENOENT})
    cycles = Event("cycles", EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES))
    faults = software("faults", SoftwareId.PAGE_FAULTS)
    counting = Counting([cycles, faults], kernel=kernel)
    counting.open()
    lacking, other = counting.events
    assert not lacking.state.supported
    assert isinstance(lacking.state.why_not, KernelRefusedError)
    assert other.state == COUNTED
    assert counting.read({})[lacking] == []
    assert len(counting.read({})[other]) == 1


def test_failed_events_are_not_retried_when_opened_again() -> None:
    """A later run of a repeat does not retry what failed, and the event itself is unchanged."""
    kernel = FakeKernel(refuse={"cycles": errno.ENOENT})
    cycles = Event("cycles", EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES))
    warnings: list[str] = []
    counting = Counting([cycles, software("faults", SoftwareId.PAGE_FAULTS)], kernel=kernel, warn=warnings.append)
    for _ in range(3):
        with counting.open():
            assert [len(cells) for cells in counting.read({}).values()] == [0, 1]
    assert len(warnings) == 1
    assert cycles.attr == EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES)


def test_users_without_access_to_the_kernel_count_user_space_in_every_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counted event has the fallback's name, the requested one is unchanged, and one warning is given."""

    class Strict(FakeKernel):
        def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
            if not attr.exclude_kernel:
                raise KernelRefusedError("perf_event_open", errno.EACCES, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    monkeypatch.setattr("perfpy.kernel.syscalls.paranoid_level", lambda: 2)
    asked, warnings = software("cs", SoftwareId.CONTEXT_SWITCHES), list[str]()
    counting = Counting([asked], kernel=Strict(), warn=warnings.append)
    for _ in range(2):
        with counting.open():
            assert [(event.name, len(cells)) for event, cells in counting.read({}).items()] == [("cs:u", 1)]
    assert (asked.name, asked.attr.exclude_kernel, len(warnings)) == ("cs", 0, 1)


def test_an_ended_task_is_an_error_and_closes_everything() -> None:
    """What the user must mend is raised, with nothing left open."""
    kernel = FakeKernel(refuse={"faults": errno.ESRCH})
    events = [software("cs", SoftwareId.CONTEXT_SWITCHES), software("faults", SoftwareId.PAGE_FAULTS)]
    with pytest.raises(KernelRefusedError):
        Counting(events, kernel=kernel).open((4,))
    assert all(counter.closed for counter in kernel.counters)


class Ending(FakeKernel):
    """Task 5 ends before the second event is opened."""

    def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
        if pid == 5 and event == "faults":
            raise KernelRefusedError("perf_event_open", errno.ESRCH, event=event)
        return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)


@pytest.mark.parametrize("grouped", [False, True])
def test_an_ended_task_is_removed_from_all_events(grouped: bool) -> None:
    """The others are counted, each under its own index; nothing of the ended one stays open."""
    kernel = Ending(counts=lambda counter: setattr(counter, "value", counter.pid))
    events = [software(name, SoftwareId.CONTEXT_SWITCHES) for name in ("cs", "faults", "third")]
    counting = Counting(group(*events) if grouped else events, kernel=kernel, options=CountingOptions(skip_missing=True))
    counting.open((4, 5, 6))
    results = {event.name: [(cell.thread, cell.value) for cell in cells] for event, cells in counting.read({}).items()}
    assert results == {name: [(0, 4), (2, 6)] for name in ("cs", "faults", "third")}
    assert all(counter.closed for counter in kernel.counters if counter.pid == 5)
    assert counting.missing == {1}
    counting.close()
    assert [len(cells) for cells in counting.open((4,)).read({}).values()] == [1, 1, 1]
    assert not counting.missing


def test_a_target_without_any_task_left_is_an_error() -> None:
    """Nothing would be counted."""
    kernel = FakeKernel(refuse={"cs": errno.ESRCH})
    with pytest.raises(KernelRefusedError):
        Counting([software("cs", SoftwareId.CONTEXT_SWITCHES)], kernel=kernel, options=CountingOptions(skip_missing=True)).open((4, 5))


def test_a_weak_group_falls_apart() -> None:
    """Where the PMU cannot hold a group of :W, each event is opened alone, and read alone."""

    class SmallPmu(FakeKernel):
        def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
            if group_fd != -1:
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    kernel = SmallPmu()
    pair = group(software("cs", SoftwareId.CONTEXT_SWITCHES, weak=True), software("faults", SoftwareId.PAGE_FAULTS, weak=True))
    events = Counting(pair, cpus=(0, 1), kernel=kernel).open().events
    alive = [counter for counter in kernel.counters if not counter.closed]
    assert sorted((counter.event, counter.cpu) for counter in alive) == [("cs", 0), ("cs", 1), ("faults", 0), ("faults", 1)]
    assert not any(
        attr.read_format & ReadFormat.GROUP for attr in [*(counter.attr for counter in alive), *(event.attr for event in events)]
    )
    assert [event.leader for event in events] == events


@pytest.mark.parametrize(
    ("member", "opens_alone", "expected"),
    [
        (EventAttr(type=PerfType.RAW, config=0xC4), True, GroupIsFullError),
        (EventAttr(type=PerfType.RAW, config=0xC4), False, KernelRefusedError),
        (EventAttr(type=PerfType.RAW, config=0xC4, exclusive=1), True, KernelRefusedError),
        (EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS), True, KernelRefusedError),
    ],
)
def test_a_member_that_opens_alone_has_its_group_as_the_reason(member: EventAttr, opens_alone: bool, expected: type[Exception]) -> None:
    """Only then, and only events that need a counter; the other members count."""

    class SmallPmu(FakeKernel):
        def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
            if event == "member" and (group_fd != -1 or not opens_alone):
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    kernel = SmallPmu()
    pair = group(Event("leader", EventAttr(type=PerfType.RAW, config=0xC0)), Event("member", member))
    leader, refused = Counting(pair, cpus=(0,), kernel=kernel).open().events
    assert leader.state.supported
    assert not refused.state.supported
    assert type(refused.state.why_not) is expected
    assert [counter.event for counter in kernel.counters if not counter.closed] == ["leader"]


def test_topdown_events_stay_grouped_when_a_weak_group_falls_apart() -> None:
    """The kernel refuses them alone. As in perf 6.12, all that is opened after the refusal counts guests, too."""

    class ThreeCounters(FakeKernel):
        def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
            if event == "cycles" and group_fd != -1:
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    def core(name: str, config: int, must_be_grouped: bool = False) -> Event:
        attr = EventAttr(type=PerfType.RAW, config=config, exclude_guest=1)
        return Event(name, attr, weak=True, must_be_grouped=must_be_grouped)

    kernel = ThreeCounters()
    topdown = [core("slots", 0x400, must_be_grouped=True), core("retiring", 0x8000, must_be_grouped=True), core("cycles", 0x3C)]
    counting = Counting([core("before", 1), *group(*topdown)], cpus=(0,), kernel=kernel).open()
    _, slots, retiring, cycles = counting.events
    assert (retiring.leader, cycles.leader) == (slots, cycles)
    alive = {counter.event: counter for counter in kernel.counters if not counter.closed}
    assert [alive[name].attr.exclude_guest for name in ("before", "slots", "retiring", "cycles")] == [1, 0, 0, 0]
    assert alive["slots"].attr.read_format & ReadFormat.GROUP
    assert not alive["cycles"].attr.read_format & ReadFormat.GROUP


def test_optional_events_are_left_out_whatever_the_reason() -> None:
    """The default metrics do not end a measurement that works without them."""

    class Forbidding(FakeKernel):
        def perf_event_open(self, attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = 0, *, event: str = "") -> int:
            if event != "cycles":
                raise KernelRefusedError("perf_event_open", errno.ENODEV, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    metrics = group(Event("slots", EventAttr(type=PerfType.RAW, config=0x400)), Event("retiring", EventAttr(type=PerfType.RAW)))
    events = [Event("cycles", EventAttr()), *metrics]
    opened = Counting(events, kernel=Forbidding(), options=CountingOptions(optional=metrics)).open().events
    assert [event.state.supported for event in opened] == [True, False, False]
    with pytest.raises(KernelRefusedError):
        Counting(events, kernel=Forbidding()).open()


def test_members_that_count_on_other_cpus_leave_their_group() -> None:
    pair = group(
        Event("c6", EventAttr(type=20), cpus=(0,), requires_cpu=True, pmu="cstate_pkg"), Event("tsc", EventAttr(type=9), pmu="msr")
    )
    counting = Counting(pair, cpus=(0, 1), kernel=FakeKernel())
    assert [event.group_size for event in counting.events] == [1, 1]
    assert counting.notes[-1] == "  anon group { c6, tsc }"
    assert Counting(pair, cpus=(0,), kernel=FakeKernel()).notes == []


def test_a_pinned_counter_that_lost_its_place_fails() -> None:
    """An empty read means no count, not zero."""
    kernel = FakeKernel(counts=lambda counter: setattr(counter, "gone", True))
    event = software("cs", SoftwareId.CONTEXT_SWITCHES)
    counting = Counting([event], kernel=kernel)
    counting.open()
    assert list(counting.read({}).values()) == [[]]
    assert counting.events[0].state.failed


def test_cgroups_are_opened_by_their_folder() -> None:
    """The pid is the folder's descriptor, and a flag says so."""
    kernel = FakeKernel()
    event = software("cs", SoftwareId.CONTEXT_SWITCHES, cgroup="web")
    Counting([event], cpus=(0,), cgroup_fds={"web": 77}, kernel=kernel).open()
    assert kernel.counters[0].pid == 77
    assert kernel.counters[0].flags & FLAG_PID_CGROUP


def test_events_of_one_cpus_pmu_stay_on_it() -> None:
    """A PMU's own CPUs limit where its events are opened."""
    kernel = FakeKernel()
    uncore = software("uncore", SoftwareId.DUMMY, cpus=(1,))
    Counting([uncore], cpus=(0, 1, 2), kernel=kernel).open()
    assert [counter.cpu for counter in kernel.counters] == [1]


def test_filters_are_set_on_every_counter() -> None:
    """A tracepoint's filter reaches all its counters."""
    kernel = FakeKernel()
    event = software("sched:x", SoftwareId.DUMMY, filter="pid > 1")
    Counting([event], cpus=(0, 1), kernel=kernel).open()
    assert [counter.filter for counter in kernel.counters] == ["pid > 1"] * 2


def test_differences_between_rounds() -> None:
    """Each round has what came since the last; snapshots stay whole."""
    event, snapshot = events_to_open([software("cs", SoftwareId.CONTEXT_SWITCHES), software("temp", SoftwareId.DUMMY, snapshot=True)])
    differences = Differences()
    differences.since_last({event: [CounterCell(0, 0, 5, 10, 10)], snapshot: [CounterCell(0, 0, 50, 10, 10)]})
    second = differences.since_last({event: [CounterCell(0, 0, 8, 30, 20)], snapshot: [CounterCell(0, 0, 49, 30, 30)]})
    assert [(cell.value, cell.enabled, cell.running) for cell in second[event]] == [(3, 20, 10)]
    assert [(cell.value, cell.enabled, cell.running) for cell in second[snapshot]] == [(49, 30, 30)]
