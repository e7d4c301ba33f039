"""The counters that perfpy.count opens for a block, and the counts it returns."""

from __future__ import annotations

import errno
import threading

import pytest

from perfpy.capture.region import Region, counted
from perfpy.errors import UnknownEventError
from tests.builders.fake_kernel import FakeCounter, FakeKernel


def test_separate_children_are_counted_on_their_own() -> None:
    def counts(counter: FakeCounter) -> None:
        counter.value, counter.enabled, counter.running = (10 if counter.attr.inherit else 4), 5, 5

    kernel = FakeKernel(counts=counts)
    with Region("page-faults:u", "duration_time", "minor-faults:u", separate_children=True, kernel=kernel) as region:
        assert [counter.attr.inherit for counter in kernel.counters] == [1, 1, 0, 0]
    assert [(count.own, count.children) for count in region.values()] == [(4, 6), (None, None), (4, 6)]


def test_counters_without_inherit_count_the_thread_only() -> None:
    kernel = FakeKernel()
    with Region("page-faults:u", inherit=False, kernel=kernel):
        assert not kernel.counters[0].attr.inherit


def test_an_empty_block_is_counted_once_and_omitted() -> None:
    reads = iter([9, 7, 8, 7, 9, 107, 207])

    def counts(counter: FakeCounter) -> None:
        counter.value, counter.enabled, counter.running = next(reads), 5, 5

    region = Region("page-faults:u", net=True, kernel=FakeKernel(counts=counts))
    results = []
    for _ in range(2):
        with region:
            pass
        results.append((region["page-faults:u"].value, region["page-faults:u"].overhead))
    assert results == [(100, 7), (200, 7)]


def test_missing_events_are_known_inside_the_block() -> None:
    kernel = FakeKernel(refuse={"minor-faults:u": errno.ENOENT})
    with Region("page-faults:u", "minor-faults:u", kernel=kernel) as region:
        assert list(region.why_not) == ["minor-faults:u"]
        assert "minor-faults" in region.why_not["minor-faults:u"]


def test_a_block_that_is_entered_again_asks_for_the_same() -> None:
    kernel = FakeKernel()
    region = Region("{page-faults:u,minor-faults:u}", kernel=kernel)
    attrs = []
    for _ in range(3):
        with region:
            attrs.append(region._counting.events[0].attr)
    first, again = ([counter.attr for counter in kernel.counters][start : start + 2] for start in (0, 4))
    assert [attr.pack("<") for attr in first] == [attr.pack("<") for attr in again]
    assert attrs[0] is attrs[1] is attrs[2]  # and creates no new attrs


# perfpy.counted adds up the counts of a function's calls.


def three_each(counter: FakeCounter) -> None:
    counter.value, counter.enabled, counter.running = 3, 10, 10


def test_calls_on_all_threads_are_summed() -> None:
    @counted("page-faults:u", "task-clock:u", kernel=FakeKernel(counts=three_each))
    def work(number: int) -> int:
        """What it does."""
        return number + 1

    assert (getattr(work, "__name__", ""), work.__doc__) == ("work", "What it does.")
    assert (work(1), work(2)) == (2, 3)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.calls == 5
    assert (work.counts["page-faults:u"].value, work.counts["page-faults:u"].enabled) == (15, 50)
    work.reset()
    assert (work.calls, dict(work.counts)) == (0, {})


def test_a_call_of_itself_belongs_to_the_first() -> None:
    @counted("page-faults:u", kernel=FakeKernel(counts=three_each))
    def down(number: int) -> int:
        return down(number - 1) if number else 0

    assert down(5) == 0
    assert (down.calls, down.counts["page-faults:u"].value) == (1, 3)


def test_a_call_that_fails_counts_and_fails() -> None:
    def fail(self: object) -> None:
        raise LookupError(type(self).__name__)

    class Worker:
        method = counted("page-faults:u", kernel=FakeKernel(counts=three_each))(fail)

    with pytest.raises(LookupError, match="Worker"):
        Worker().method()
    assert vars(Worker)["method"].calls == 1


def test_an_unknown_event_is_reported_at_once() -> None:
    with pytest.raises(UnknownEventError):
        counted("no-such-event", kernel=FakeKernel())(len)


def test_an_uncounted_event_gives_the_reason_in_the_sum() -> None:
    @counted("cycles:u", "page-faults:u", kernel=FakeKernel(counts=three_each, refuse={"cycles:u": errno.ENOENT}))
    def work() -> None: ...

    work()
    work()
    count = work.counts["cycles:u"]
    assert count.value is None
    assert "cannot open event 'cycles:u'" in count.why_not
    assert [line.split()[:2] for line in str(work.counts).splitlines()] == [["<not", "counted>"], ["6", "page-faults:u"]]


def test_a_counter_that_never_ran_is_reported() -> None:
    @counted("page-faults:u", kernel=FakeKernel())
    def work() -> None: ...

    work()
    assert "never on the hardware" in work.counts["page-faults:u"].why_not
