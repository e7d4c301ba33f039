"""Counts are found by the names of their events."""

from __future__ import annotations

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.counts.aggregation import EVERYWHERE, CountedEvent, CountRow
from perfpy.counts.named_counts import Count, Counts, named_count

CYCLES = Count("cycles:u", 1000, 1000.0, "", 5, 5)
CLOCK = Count("task-clock", 2_500_000, 2.5, "msec", 5, 5)


def test_an_event_is_found_by_its_requested_and_its_counted_name():
    counts = Counts(["cycles", "task-clock"], [CYCLES, CLOCK])
    assert counts["cycles"] is counts["cycles:u"] is CYCLES
    assert list(counts) == ["cycles", "task-clock"]
    assert len(counts) == 2


def test_an_uncounted_name_is_reported_with_the_counted_ones():
    with pytest.raises(KeyError, match="faults: not among the events counted: cycles"):
        Counts(["cycles"], [CYCLES])["faults"]


def test_a_mapping_of_plain_values():
    assert Counts(["task-clock"], [CLOCK]).to_dict() == {
        "task-clock": {
            "event": "task-clock",
            "value": 2_500_000,
            "amount": 2.5,
            "unit": "msec",
            "enabled": 5,
            "running": 5,
            "spread": None,
            "why_not": "",
            "own": None,
            "overhead": None,
        }
    }


def test_the_first_of_two_equal_names_stays():
    again = CYCLES._replace(value=7)
    assert Counts(["cycles", "cycles"], [CYCLES, again])["cycles"].value == 1000


def test_a_row_becomes_a_count_in_its_unit():
    event = CountedEvent("task-clock", EventAttr(), unit="msec", scale=1e-6)
    assert named_count(CountRow(event, EVERYWHERE, 2_500_000, 5, 5, 1), 0.5) == Count("task-clock", 2_500_000, 2.5, "msec", 5, 5, 0.5)


def test_a_row_that_was_not_counted_has_no_value():
    event = CountedEvent("cycles", EventAttr())
    assert named_count(CountRow(event, EVERYWHERE, 0, 9, 0, 1)).value is None


def test_children_are_the_total_minus_the_task():
    both = CYCLES.beside(CYCLES._replace(value=400))
    assert (both.own, both.children) == (400, 600)
    assert str(both).endswith("#  40.0% its own")
    assert CYCLES.children is None
    assert CYCLES.beside(CYCLES._replace(value=1001)).children == 0  # read later: never less than nothing
    assert ((both + both).own, (both + CYCLES).own) == (800, None)


def test_value_amount_and_own_exclude_an_overhead():
    net = CLOCK.without(CLOCK._replace(value=500_000, amount=0.5))
    assert (net.value, net.amount, net.overhead) == (2_000_000, 2.0, 500_000)
    assert CYCLES.without(CYCLES._replace(value=2000)).value == 0
    apart = CYCLES.beside(CYCLES._replace(value=400)).without(CYCLES._replace(value=100, own=50))
    assert (apart.value, apart.own) == (900, 350)
    nothing = CYCLES._replace(value=None, amount=None)
    assert (nothing.without(CYCLES), CYCLES.without(nothing), CYCLES.beside(nothing)) == (nothing, CYCLES, CYCLES)
