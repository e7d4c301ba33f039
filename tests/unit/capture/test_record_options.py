"""Texts of record's options are parsed."""

from __future__ import annotations

import pytest

from perfpy.abi.flags import BranchSample
from perfpy.capture import record_options as values
from perfpy.errors import UsageError
from tests.builders.options import record_options


@pytest.mark.parametrize(
    ("text", "chain"),
    [
        ("fp", values.Callchain("fp")),
        ("fp,32", values.Callchain("fp", max_stack=32)),
        ("fp,defer", values.Callchain("fp", defer=True)),
        ("fp,32,defer", values.Callchain("fp", max_stack=32, defer=True)),
        ("dwarf", values.Callchain("dwarf", stack_size=8192)),
        ("dwarf,4090", values.Callchain("dwarf", stack_size=4096)),
    ],
)
def test_call_graphs(text, chain):
    assert values.parse_callchain(text) == chain


@pytest.mark.parametrize("text", ["lbr", "foo", "dwarf,x", "dwarf,65536", "dwarf,0", "dwarf,defer"])
def test_call_graphs_that_cannot_be(text):
    with pytest.raises(UsageError, match="--call-graph"):
        values.parse_callchain(text)


@pytest.mark.parametrize(("text", "clock"), [("CLOCK_MONOTONIC", 1), ("mono", 1), ("boottime", 7), ("4", 4)])
def test_clocks(text, clock):
    assert values.parse_clock(text) == clock


@pytest.mark.parametrize(("text", "pages"), [("0", 1), ("1", 1), ("3", 4), ("128", 128), ("64K", 16), ("1M", 256)])
def test_ring_sizes_are_rounded_up_to_a_power_of_two(text, pages):
    assert values.parse_pages(text) == pages


@pytest.mark.parametrize("text", ["x", "1X", "", "9" * 20])
def test_ring_sizes_that_cannot_be(text):
    with pytest.raises(UsageError, match="--mmap-pages"):
        values.parse_pages(text)


@pytest.mark.parametrize(("text", "delay"), [("100", 100), ("-1", -1), ("10-20,30-40", ((10, 20), (30, 40)))])
def test_delays(text, delay):
    assert values.parse_delay(text) == delay


@pytest.mark.parametrize("text", ["x", "-2", "9" * 20, "20-10", "10-20,15-30", "10-20,"])
def test_delays_that_cannot_be(text):
    with pytest.raises(UsageError, match="--delay"):
        values.parse_delay(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [("signal", (0, 0)), ("100M", (100 << 20, 0)), ("30s", (0, 30)), ("2m", (0, 120)), ("1h", (0, 3600))],
)
def test_switching_outputs(text, rule):
    assert values.parse_switch_output(text) == rule


def test_branch_filters_without_a_kind_mean_any_branch():
    assert values.parse_branch_filter("u") == BranchSample.USER | BranchSample.ANY
    assert values.parse_branch_filter("any_call,k") == BranchSample.ANY_CALL | BranchSample.KERNEL


def test_unknown_words_are_reported_with_the_known_ones():
    with pytest.raises(UsageError, match="any_call"):
        values.parse_branch_filter("foo")
    with pytest.raises(UsageError, match="unknown register 'foo'"):
        values.parse_registers("foo", "--user-regs")
    with pytest.raises(UsageError, match="monotonic"):
        values.parse_clock("foo")
    with pytest.raises(UsageError, match="unknown clock"):
        values.parse_clock("9" * 20)


@pytest.mark.parametrize(
    "together",
    [
        {"freq": 1, "period": 1},
        {"freq": 0},
        {"all_user": True, "all_kernel": True},
        {"per_thread": True, "all_cpus": True},
        {"cgroups": ("a",)},
        {"switch_output": values.SwitchOutput(), "output": "-"},
    ],
)
def test_options_that_cannot_be_together(together):
    with pytest.raises(UsageError):
        record_options(**together).check()
