"""The counters that perfpy.count opens for a block, and the counts it returns."""

from __future__ import annotations

import errno

from perfpy.capture.counting.region import Region
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
