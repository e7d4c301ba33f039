"""Durations of the kernel's work, by kind, from recordings."""

from __future__ import annotations

import json
import tempfile

import pytest

import perfpy
from perfpy.analysis.kernel_latencies import KINDS, KernelLatencies, read_latencies
from perfpy.errors import UsageError
from perfpy.views.latency.distributions import TITLES, distribution_json, distribution_lines
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
