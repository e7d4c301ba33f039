"""perfpy.counted adds up the counts of a function's calls."""

from __future__ import annotations

import errno
import threading

import pytest

from perfpy.capture.counting.counted import counted
from perfpy.errors import UnknownEventError
from tests.builders.fake_kernel import FakeCounter, FakeKernel


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
