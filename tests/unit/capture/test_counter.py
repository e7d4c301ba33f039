"""Counters of the API: one, a group, and a stream of events."""

from __future__ import annotations

import errno
import threading
from typing import TYPE_CHECKING

import pytest

from perfpy import disable_all, enable_all
from perfpy.abi.attr import EventAttr, Reading
from perfpy.abi.flags import HardwareId, PerfType, ReadFormat
from perfpy.capture.counter import Counter
from perfpy.capture.counter_group import CounterGroup
from perfpy.capture.event_stream import field_reader
from perfpy.errors import KernelRefusedError, NotScheduledError, UsageError
from perfpy.perfdata.event_format import parse_format
from tests.builders.fake_kernel import FIRST_FD, FakeCounter, FakeKernel
from tests.builders.user_page import capability, page

if TYPE_CHECKING:
    from perfpy.abi.attr import UserReading


# A Counter's methods call the kernel with its descriptor.


TIMES = int(ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.TOTAL_TIME_RUNNING)


def cycles(kernel: FakeKernel, **fields: int) -> Counter:
    attr = EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES, read_format=TIMES, **fields)
    return Counter(attr, event="cycles", kernel=kernel)


def seven(counter: FakeCounter) -> None:
    counter.value, counter.enabled, counter.running = 7, 20, 10


def test_the_page_gives_the_count_if_a_register_is_readable() -> None:
    counter = cycles(FakeKernel(page=page()))
    reading = counter.read_user(lambda _: 11)
    assert (reading.value, reading.from_page, reading.why_read) == (111, True, "")


@pytest.mark.parametrize(
    ("mapped", "reason"), [(page(can=capability(1)), "cap_user_rdpmc"), (page(index=0), "index is 0"), (None, "does not map")]
)
def test_otherwise_read_does_and_gives_the_reason(mapped: bytearray | None, reason: str) -> None:
    counter = cycles(FakeKernel(counts=seven, page=mapped))
    reading = counter.read_user()
    assert (reading.value, reading.scaled, reading.from_page) == (7, 14, False)
    assert reason in reading.why_read


def test_a_machine_that_perfpy_has_no_code_for_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfpy.kernel.user_page.CODE", {})
    reading = cycles(FakeKernel(counts=seven, page=page())).read_user()
    assert (reading.value, reading.from_page) == (7, False)
    assert "no machine code" in reading.why_read


def test_registers_of_another_task_or_thread_are_not_to_be_seen() -> None:
    other = Counter(EventAttr(read_format=TIMES), pid=1, kernel=FakeKernel(counts=seven, page=page()))
    assert "another task" in other.read_user().why_read
    counter = cycles(FakeKernel(counts=seven, page=page(index=0)))
    assert "index is 0" in counter.read_user().why_read
    results: list[UserReading] = []
    thread = threading.Thread(target=lambda: results.append(counter.read_user()))
    thread.start()
    thread.join()
    assert (results[0].value, results[0].from_page) == (7, False)
    assert "another thread" in results[0].why_read


def test_the_page_is_mapped_once() -> None:
    kernel = FakeKernel(page=page(index=0))
    with cycles(kernel) as counter:
        for _ in range(3):
            counter.read_user()
    assert kernel.calls.count(("map_page", FIRST_FD)) == 1
    assert kernel.counters[0].closed


def test_the_page_reports_a_pinned_counter_without_pmu() -> None:
    kernel = FakeKernel(page=page(index=0))
    counter = cycles(kernel, pinned=1)
    kernel.counters[0].gone = True
    with pytest.raises(NotScheduledError, match="cycles"):
        counter.read_user()


def test_each_method_is_its_ioctl() -> None:
    kernel = FakeKernel()
    counter, other = cycles(kernel), cycles(kernel)
    counter.refresh(3)
    counter.set_period(1000)
    counter.set_output(other)
    counter.set_output(None)
    counter.set_bpf(9)
    counter.pause_output()
    counter.pause_output(False)
    attr = EventAttr(type=PerfType.BREAKPOINT)
    counter.modify_attributes(attr)
    fd = counter.fileno()
    assert kernel.calls[2:] == [
        ("refresh", fd, 3),
        ("set_period", fd, 1000),
        ("set_output", fd, other.fd),
        ("set_output", fd, -1),
        ("set_bpf", fd, 9),
        ("pause_output", fd, True),
        ("pause_output", fd, False),
        ("modify_attributes", fd),
    ]
    assert counter.attr is attr
    assert counter.id == 1


def test_all_counters_of_the_caller_go_on_and_stop() -> None:
    kernel = FakeKernel()
    cycles(kernel, disabled=1), cycles(kernel, disabled=1)
    enable_all(kernel)
    assert [counter.counting for counter in kernel.counters] == [True, True]
    disable_all(kernel)
    assert [counter.counting for counter in kernel.counters] == [False, False]


def test_a_member_of_a_group_reads_as_itself() -> None:
    """A read of any member has the whole group; ids tell which is which, or the order in which they were opened."""
    for ids in (0, int(ReadFormat.ID)):
        kernel = FakeKernel()
        read_format = TIMES | int(ReadFormat.GROUP) | ids
        attrs = [EventAttr(type=PerfType.HARDWARE, config=n, read_format=read_format) for n in (0, 1)]
        leader = Counter(attrs[0], kernel=kernel)
        member = Counter(attrs[1], group=leader, kernel=kernel)
        for fake, value in zip(kernel.counters, (5, 9), strict=True):
            fake.value = value
        assert (leader.read().value, member.read().value) == (5, 9)


def test_a_counter_tells_for_which_share_of_the_time_it_counted() -> None:
    """A task on a CPU that the PMU lacks: 0 is not a count."""

    def stopped(counter: FakeCounter) -> None:
        counter.enabled += 200
        counter.running = max(counter.enabled - 300, 0)

    with Counter(EventAttr(read_format=TIMES), event="cpu_atom/cycles/", kernel=FakeKernel(counts=stopped)) as counter:
        counter.cpus = (8, 9)
        never, partial = counter.read(), counter.read()
        assert repr(never) == "Reading(value=0, enabled=200, running=0, id=None, lost=None, share=0.000)"
        assert counter.why_partial(never) == (
            "never counted: cpu_atom/cycles/ counts on CPUs 8-9 only, where its task did not run or other events had the PMU"
        )
        assert counter.why_partial(partial) == (
            "counted for 25.0% of the time: cpu_atom/cycles/ counts on CPUs 8-9 only, and shares them with other events"
        )
        counter.cpus = None
        assert counter.why_partial(partial) == "counted for 25.0% of the time: other events had the PMU"
        assert counter.why_partial(Reading(7, 5, 5)) == counter.why_partial(Reading(7)) == ""


def test_a_closed_counter_is_reported() -> None:
    counter = cycles(FakeKernel())
    counter.close()
    counter.close()
    for ask in (counter.read, counter.enable, lambda: counter.set_period(5), lambda: counter.id, counter.read_user):
        with pytest.raises(UsageError, match="the counter is closed"):
            ask()


def test_a_forgotten_counter_is_closed_with_a_warning() -> None:
    kernel = FakeKernel()
    with pytest.warns(ResourceWarning, match="Counter 'cycles' .* was never closed"):
        cycles(kernel)
    assert kernel.counters[0].closed


def test_a_descriptor_of_another_opener_is_a_counter() -> None:
    kernel = FakeKernel(counts=seven)
    with cycles(kernel) as counter:
        again = Counter.from_fd(counter.fileno(), event="theirs", kernel=kernel)
        assert again.read() == counter.read()
        assert "theirs" in repr(again)
    again.fd = -1  # it was the same descriptor


def test_anything_but_a_counter_is_refused() -> None:
    with open("/dev/null") as file, pytest.raises(UsageError, match="is not a perf event"):
        Counter.from_fd(file.fileno())


# A CounterGroup opens and reads its members together, and explains refusals.


def attrs(*ids: int) -> list[EventAttr]:
    return [EventAttr(type=PerfType.HARDWARE, config=number) for number in ids]


def numbered(counter: FakeCounter) -> None:
    counter.value, counter.enabled, counter.running = 100 + counter.fd, 20, 10


PAIR = attrs(HardwareId.CPU_CYCLES, HardwareId.INSTRUCTIONS)


def test_a_group_is_read_at_once() -> None:
    """Only the leader waits to be enabled."""
    kernel = FakeKernel(counts=numbered)
    with CounterGroup(PAIR, events=["cycles", "instructions"], kernel=kernel) as group:
        assert [counter.attr.disabled for counter in kernel.counters] == [1, 0]
        reading = group.read()
        assert [one.value for one in reading] == [100 + counter.fd for counter in group]
        assert reading["instructions"] == reading[1]
    assert all(counter.closed for counter in kernel.counters)


def test_members_of_the_same_name_are_kept_separate() -> None:
    kernel = FakeKernel(counts=numbered)
    with CounterGroup(attrs(*[HardwareId.CPU_CYCLES] * 3), events=["cycles", "cycles", "other"], kernel=kernel) as group:
        reading = group.read()
        assert len({one.value for one in reading}) == 3
        assert reading["other"] == reading[2]
        with pytest.raises(KeyError, match="0, 1 are named 'cycles'"):
            reading["cycles"]
        with pytest.raises(KeyError, match="no member is named 'cycle'"):
            reading["cycle"]


@pytest.mark.parametrize("fits", [1, 2])
def test_the_error_of_a_too_large_group_has_the_number_that_fits(fits: int) -> None:
    class SmallPmu(FakeKernel):
        def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
            members = sum(1 for one in self.counters if not one.closed)
            if group_fd >= 0 and members >= fits:
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event)
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    kernel = SmallPmu()
    three = attrs(HardwareId.CPU_CYCLES, HardwareId.INSTRUCTIONS, HardwareId.CACHE_MISSES)
    with pytest.raises(KernelRefusedError, match=f"at the same time as the events before it.*at most {fits} of these 3"):
        CounterGroup(three, events=["a", "b", "c"], kernel=kernel)
    assert all(counter.closed for counter in kernel.counters)


def test_an_event_that_opens_nowhere_is_reported() -> None:
    class NoPmu(FakeKernel):
        def perf_event_open(self, attr, pid, cpu, group_fd=-1, flags=0, *, event=""):
            if event == "b":
                raise KernelRefusedError("perf_event_open", errno.EINVAL, event=event, cause="no such thing")
            return super().perf_event_open(attr, pid, cpu, group_fd, flags, event=event)

    with pytest.raises(KernelRefusedError, match="no such thing"):
        CounterGroup(PAIR, events=["a", "b"], kernel=NoPmu())


def test_a_group_needs_an_event() -> None:
    with pytest.raises(UsageError, match="at least one"):
        CounterGroup([], kernel=FakeKernel())


# Fields of a tracepoint are decoded from one sample's bytes by the format; missing bytes are no error.


FORMAT = """name: made
ID: 7
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:char comm[8];\toffset:8;\tsize:8;\tsigned:0;
\tfield:u16 numbers[2];\toffset:16;\tsize:4;\tsigned:0;
\tfield:__data_loc char[] name;\toffset:20;\tsize:4;\tsigned:0;
\tfield:__rel_loc u32[] rest;\toffset:24;\tsize:4;\tsigned:0;
\tfield:long delta;\toffset:28;\tsize:8;\tsigned:1;

print fmt: ""
"""


def made() -> bytes:
    import struct

    name, rest = b"f\xc3\xbcr\0", b"\1\2\3\4"
    begin = 36
    locations = (len(name) << 16 | begin, len(rest) << 16 | begin + len(name) - 28)
    return struct.pack("=HHi8s2HIIq", 7, 0, -3, b"task\0xyz", 5, 6, *locations, -9) + name + rest


def test_each_field_is_of_its_kind() -> None:
    read = field_reader(parse_format(FORMAT, "made"))
    assert read(made()) == {
        "common_type": 7, "common_pid": -3, "comm": "task", "numbers": [5, 6], "name": "f\u00fcr", "rest": b"\1\2\3\4", "delta": -9,
    }  # fmt: skip


@pytest.mark.parametrize("length", range(45))
def test_short_data_is_no_failure(length: int) -> None:
    read = field_reader(parse_format(FORMAT, "made"))
    assert list(read(made()[:length])) == ["common_type", "common_pid", "comm", "numbers", "name", "rest", "delta"]
