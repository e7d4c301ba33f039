"""Durations of the kernel's work, by kind, from recordings."""

from __future__ import annotations

import json
import tempfile

import numpy as np
import pytest

import perfpy
from perfpy.analysis.latencies import (
    KINDS,
    CallSamples,
    FunctionCalls,
    KernelLatencies,
    duration_bins,
    nearest_rank,
    pair_calls,
    read_latencies,
)
from perfpy.errors import UsageError
from perfpy.tools.latency import TITLES, distribution_json, distribution_lines
from tests.builders.many_threads import recording_of_switches
from tests.builders.traced import traced_recording


def latencies(data: bytes, kind: str) -> KernelLatencies:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with perfpy.open(file) as recording:
            return read_latencies(recording.data, kind)


def test_system_calls_are_grouped_by_name():
    found = latencies(traced_recording(40), "syscalls")
    assert {group.name for group in found.groups} == {"read", "write", "open", "close", "stat"}
    assert sum(len(group.durations) for group in found.groups) == 40
    assert all((group.durations == 12_345_678).all() for group in found.groups)


def test_delays_on_the_run_queue_last_from_the_wakeup():
    (group,) = latencies(recording_of_switches(3, 30), "runqueue").groups
    assert (group.durations[1:] == 1).all()


@pytest.mark.parametrize("kind", ["block", "locks", "softirq", "irq"])
def test_missing_tracepoints_are_reported_with_the_command_to_type(kind):
    with pytest.raises(UsageError, match=f"perfpy record -a -c 1 -e {KINDS[kind][0]}"):
        latencies(recording_of_switches(3, 5), kind)


def test_the_text_has_percentiles_and_a_histogram():
    lines = list(distribution_lines("syscalls", latencies(traced_recording(40), "syscalls")))
    assert lines[0] == "system calls: 40"
    assert lines[2].split() == ["count", "total", "min", "p50", "p90", "p95", "p99", "p99.9", "max", "mean"]
    assert lines[3].split()[:4] == ["close", "8", "98.77", "ms"]
    assert "40 |" in lines[-1]


def test_json_has_nanoseconds():
    values = json.loads(distribution_json("syscalls", latencies(traced_recording(40), "syscalls")))
    assert {group["p50"] for group in values["groups"]} == {12_345_678}
    assert sum(one["count"] for group in values["groups"] for one in group["histogram"]) == 40


def test_every_kind_has_a_title():
    assert set(TITLES) == set(KINDS)


def test_a_table_wider_than_the_window_has_fewer_numbers():
    narrow = list(distribution_lines("syscalls", latencies(traced_recording(40), "syscalls"), room=60))
    assert max(map(len, narrow[2:4])) <= 60
    assert {"p50", "p99", "max"} <= set(narrow[2].split())


def test_no_durations_make_a_line():
    assert list(distribution_lines("irq", KernelLatencies([], 2))) == ["interrupt handlers: 0", "2 did not end while they were recorded"]


# Entries and returns are paired to calls, with their time off the CPU.


def events(*rows: tuple[int, int, int]) -> CallSamples:
    tid, time, pointer = zip(*rows, strict=True) if rows else ((), (), ())
    return CallSamples(np.array(tid, np.int64), np.array(time, np.int64), np.array(pointer, np.uint64))


def durations(calls: FunctionCalls) -> list[tuple[int, int, int]]:
    return list(zip(calls.tid.tolist(), calls.start.tolist(), calls.duration.tolist(), strict=True))


def test_calls_of_threads_are_distinguished() -> None:
    calls = pair_calls(events((1, 10, 100), (2, 20, 100)), events((1, 50, 108), (2, 30, 108)))
    assert durations(calls) == [(2, 20, 10), (1, 10, 40)]
    assert calls.entry.tolist() == [1, 0]
    assert calls.exit.tolist() == [1, 0]


def test_nested_calls_end_inside_of_their_callers() -> None:
    calls = pair_calls(events((1, 10, 100), (1, 20, 60)), events((1, 30, 68), (1, 50, 108)))
    assert durations(calls) == [(1, 20, 10), (1, 10, 40)]


def test_a_call_that_is_left_by_longjmp_is_dropped() -> None:
    calls = pair_calls(events((1, 10, 100), (1, 20, 20)), events((1, 50, 108)))
    assert durations(calls) == [(1, 10, 40)]


def test_a_return_without_an_entry_is_dropped_and_an_open_call_is_counted() -> None:
    calls = pair_calls(events((1, 60, 100)), events((1, 50, 108)))
    assert durations(calls) == []
    assert calls.open_count == 1
    assert durations(pair_calls(events(), events())) == []


def test_time_off_the_cpu_counts_inside_the_call_only() -> None:
    switches = [(1, 5, True), (1, 12, False), (1, 20, True), (1, 25, False), (2, 26, True), (1, 45, True), (1, 70, False), (3, 1, False)]
    calls = pair_calls(events((1, 10, 100)), events((1, 50, 108)), switches)
    assert calls.off_cpu.tolist() == [2 + 5 + 5]


def test_percentiles_are_nearest_ranks() -> None:
    values = np.arange(1, 101)
    assert [nearest_rank(values, share) for share in (0.5, 0.99, 0.999, 0.001)] == [50, 99, 100, 1]
    assert nearest_rank(values[:0], 0.5) == 0


def test_bins_double() -> None:
    assert duration_bins(np.array([1, 2, 3, 9])) == [(1, 2, 1), (2, 4, 2), (4, 8, 0), (8, 16, 1)]
    assert duration_bins(np.array([], np.int64)) == []
