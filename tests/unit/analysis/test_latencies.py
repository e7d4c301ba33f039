"""Latencies, waits for locks, and the scheduler's switches."""

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
from perfpy.analysis.lock_waits import UNKNOWN_OWNER, LockWaitTimes, LockWakeups, find_owners
from perfpy.analysis.scheduler import DelaySums, SchedEvents, read_events
from perfpy.errors import UsageError
from perfpy.tools.latency import TITLES, distribution_json, distribution_lines
from tests.builders.many_threads import recording_of_switches
from tests.builders.traced import traced_recording

# Durations of the kernel's work, by kind, from recordings.


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


# Tests of who held the lock that a thread waited for.


def owners_of(waits: list[tuple[int, int, int, int]], wakeups: list[tuple[int, int, int]]) -> list[int]:
    """Return the owners for rows (thread, lock, begin, end) and (waker, woken, order)."""
    rows = np.array(waits, np.int64).reshape(-1, 4)
    wakes = np.array(wakeups, np.int64).reshape(-1, 3)
    owners: list[int] = find_owners(LockWaitTimes(*rows.T), LockWakeups(*wakes.T)).tolist()
    return owners


@pytest.mark.parametrize(
    ("waits", "wakeups", "owners"),
    [
        ([(10, 1, 5, 9)], [(20, 10, 7)], [20]),
        ([(10, 1, 5, 9)], [(30, 10, 6), (20, 10, 8)], [20]),
        ([(10, 1, 5, 9)], [(20, 10, 3), (20, 10, 12), (20, 11, 7)], [UNKNOWN_OWNER]),
        ([(10, 1, 5, 9)], [(10, 10, 7)], [UNKNOWN_OWNER]),
        ([(10, 1, 1, 2), (11, 1, 4, 6)], [], [UNKNOWN_OWNER, 10]),
        ([(10, 1, 1, 2), (11, 2, 4, 6)], [], [UNKNOWN_OWNER, UNKNOWN_OWNER]),
        ([(10, 1, 1, 2), (10, 1, 4, 6)], [], [UNKNOWN_OWNER, UNKNOWN_OWNER]),
        ([(10, 1, 5, -1)], [(20, 10, 7)], [UNKNOWN_OWNER]),
        ([], [(20, 10, 7)], []),
        ([], [], []),
    ],
    ids=[
        "waker",
        "last waker",
        "wakeups outside",
        "woken by itself",
        "last holder",
        "another lock",
        "own lock",
        "no end",
        "no waits",
        "nothing",
    ],
)
def test_the_owner_woke_the_thread_or_got_the_lock_before(waits, wakeups, owners):
    assert owners_of(waits, wakeups) == owners


# The scheduler's tracepoints as columns, also from damaged formats.


def events_of(data: bytes) -> SchedEvents:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with perfpy.open(file) as recording:
            return read_events(recording.data)


def test_fields_come_in_order_of_delivery():
    events = events_of(recording_of_switches(3, 5))
    assert events.switches.fields["prev_pid"].tolist() == [100, 101, 102, 100, 101]
    assert events.wakeups.fields["pid"].tolist() == [101, 102, 100, 101, 102]
    assert events.switches.order.tolist() == [1, 3, 5, 7, 9]
    assert (events.switches.time[1:] > events.switches.time[:-1]).all()


def test_rows_that_are_not_in_order_of_time_are_sorted():
    events = events_of(recording_of_switches(3, 4, time_of=lambda turn: 10**10 - turn * 1000))
    assert events.switches.fields["prev_pid"].tolist() == [100, 102, 101, 100]
    assert (events.switches.time[1:] > events.switches.time[:-1]).all()


@pytest.mark.parametrize("field", [b"prev_pid", b"prev_state", b"next_prio", b"next_pid"])
def test_a_field_that_the_format_lacks_is_zero(field):
    damaged = recording_of_switches(3, 5).replace(field + b";", field[:-1] + b"x;")
    events = events_of(damaged)
    assert events.switches.fields[field.decode()].tolist() == [0] * 5
    sums = DelaySums()
    sums.add(events)
    assert sums.tasks(str)
