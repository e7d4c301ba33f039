"""Tests of the `record` actions of tools: the events that each records on kernels of different age."""

from __future__ import annotations

from itertools import pairwise

import pytest

from perfpy.cli.forwarded_actions import RECORDINGS, present_events, record_arguments


@pytest.fixture
def tracepoints(monkeypatch):
    """Set the tracepoints of the kernel, by system."""
    events_of: dict[str, list[str]] = {}
    monkeypatch.setattr("perfpy.kernel.tracefs.Tracefs.events", lambda _self, system: events_of.get(system, []))
    return events_of


def events_in(arguments):
    return [value for option, value in pairwise(arguments) if option == "-e"]


def test_the_first_of_alternatives_that_the_kernel_has_is_recorded(tracepoints):
    tracepoints["sched"] = ["sched_waking", "sched_wakeup"]
    assert present_events(["sched:sched_waking|sched:sched_wakeup"]) == ["sched:sched_waking"]
    tracepoints["sched"] = []
    assert present_events(["sched:sched_waking|sched:sched_wakeup"]) == ["sched:sched_wakeup"]


def test_an_event_that_only_some_kernels_have_is_left_out_of_others(tracepoints):
    assert "kmem:kmalloc_node" not in events_in(record_arguments("kmem", [], kinds=["slab"]))
    tracepoints["kmem"] = ["kmalloc_node"]
    assert "kmem:kmalloc_node" in events_in(record_arguments("kmem", [], kinds=["slab"]))


def test_events_stand_in_the_order_of_perf(tracepoints):
    tracepoints["sched"] = ["sched_stat_wait", "sched_waking"]
    names = [event.removeprefix("sched:sched_") for event in events_in(record_arguments("sched", []))]
    assert names == ["switch", "stat_wait", "stat_runtime", "process_fork", "wakeup_new", "migrate_task", "waking"]


@pytest.mark.parametrize("tool", RECORDINGS)
def test_arguments_of_the_line_stand_last(tool, tracepoints):
    arguments = record_arguments(tool, ["-a", "--", "true"], events=["cycles"], options=["-g"])
    assert arguments == [*RECORDINGS[tool].options.split(), "-g", "-e", "cycles", "-a", "--", "true"]
