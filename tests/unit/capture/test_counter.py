"""A Counter's methods call the kernel with its descriptor."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from perfpy import disable_all, enable_all
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import HardwareId, PerfType, ReadFormat
from perfpy.capture.counter import Counter
from perfpy.errors import NotScheduledError, UsageError
from tests.builders.fake_kernel import FIRST_FD, FakeCounter, FakeKernel
from tests.builders.user_page import capability, page

if TYPE_CHECKING:
    from perfpy.abi.attr import UserReading

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
