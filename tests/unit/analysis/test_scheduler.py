"""The scheduler's tracepoints as columns, also from damaged formats."""

from __future__ import annotations

import tempfile

import pytest

import perfpy
from perfpy.analysis.scheduler import SchedEvents, read_events, task_delays, transitions_of
from tests.builders.many_threads import recording_of_switches


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
    assert task_delays(events, transitions_of(events), str)
