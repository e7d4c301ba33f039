"""Fields of tracepoints, read in the first pass or after it, in place or from decoded columns."""

from __future__ import annotations

import struct
import tempfile

import numpy as np
import pytest

import perfpy
from perfpy.analysis.sched.events import SWITCH
from perfpy.perfdata.tracepoint_rows import TracepointRows, read_tracepoints
from tests.builders.many_threads import recording_of_switches
from tests.builders.traced import TRACEPOINTS

FIELDS = ("prev_pid", "prev_state", "next_comm")


def rows_of(data: bytes, *, has_index: bool = False, chains: bool = False) -> tuple[TracepointRows, list[str]]:
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        with perfpy.open(file) as recording:
            if has_index:
                assert recording.data.sample_counts
            tables = read_tracepoints(recording.data, {SWITCH: FIELDS}, with_chains=(SWITCH,) if chains else ())
            assert sum(recording.data.sample_counts.values()) == 10
            return tables[SWITCH], recording.data.warnings


@pytest.mark.parametrize("chains", [False, True])
@pytest.mark.parametrize("has_index", [False, True])
def test_all_ways_to_read_give_the_same(has_index, chains):
    data = recording_of_switches(3, 5, time_of=lambda turn: 10**10 - turn * 1000)
    expected, _ = rows_of(data)
    rows, warnings = rows_of(data, has_index=has_index, chains=chains)
    for name in ("order", "key", "time", "pid", "tid", "cpu"):
        assert np.array_equal(getattr(rows, name), getattr(expected, name)), name
    assert {name: column.tolist() for name, column in rows.fields.items()} == {
        name: column.tolist() for name, column in expected.fields.items()
    }
    assert not warnings


@pytest.mark.parametrize("size", [4000, 20])
def test_raw_data_longer_than_their_sample_are_skipped_and_missing_fields_are_zero(size):
    data = recording_of_switches(3, 5)
    head = struct.pack("<HBBi", TRACEPOINTS[SWITCH][0], 0, 0, 101)  # of the second switch
    begin = data.index(head)
    changed = data[: begin - 4] + struct.pack("<I", size) + data[begin:]
    expected, _ = rows_of(data)
    rows, warnings = rows_of(changed)
    if size < 1000:
        assert rows.fields["prev_pid"].tolist() == [100, 0, 102, 100, 101]
        assert not warnings
    else:
        assert rows.order.tolist() == [1, 5, 7, 9]
        assert rows.time.tolist() == expected.time[[0, 2, 3, 4]].tolist()
        assert len(warnings) == 1
        assert "skipped 1 sample shorter" in warnings[0]
