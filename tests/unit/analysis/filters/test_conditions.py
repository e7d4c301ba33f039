"""The arguments of where(): one value or several, times in seconds; and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.errors import PerfError, UsageError
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def recording(tmp_path: Path) -> perfpy.Recording:
    """Return a recording of twenty samples, 10 ns apart."""
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).file())
    return perfpy.open(path)


@pytest.mark.parametrize(
    ("conditions", "count"),
    [
        ({}, 20),
        ({"pid": [1, 99999]}, 0),
        ({"comm": {"busy", "other"}}, 20),
        ({"comm": "other"}, 0),
        ({"event": "cpu-clock"}, 20),
        ({"time": (None, "50ns")}, 6),
        ({"time": ("0.1us", None)}, 10),
        ({"time": (5e-8, 1e-7)}, 6),
        ({"time": "0%-50%"}, 10),
        ({"time": ("50%", "100%"), "comm": "busy"}, 10),
    ],
)
def test_samples_that_meet_all_conditions_are_left(recording: perfpy.Recording, conditions: dict[str, Any], count: int) -> None:
    assert len(recording.where(**conditions).samples["ip"]) == count


def test_numbers_may_be_numpys(recording: perfpy.Recording) -> None:
    pid = recording.samples["pid"][:1]
    assert len(recording.where(pid=pid).samples["ip"]) == len(recording.where(pid=pid[0]).samples["ip"]) == 20


@pytest.mark.parametrize(
    ("conditions", "error", "says"),
    [
        ({"pid": "12"}, TypeError, "pid takes a number or several numbers; not '12'"),
        ({"cpu": 1.5}, TypeError, "cpu takes a number or several numbers; not 1.5"),
        ({"comm": 5}, TypeError, "comm takes a text or several texts; not 5"),
        ({"symbol": [b"main"]}, TypeError, "symbol takes a text or several texts; not b'main'"),
        ({"dso": b"libc"}, TypeError, "dso takes a text"),
        ({"event": "cycles"}, UsageError, "no event 'cycles' in the recording; its events: cpu-clock:u"),
        ({"time": 5}, TypeError, "time takes a start and an end, such as"),
        ({"time": ("1.5 apples", None)}, ValueError, "a time is seconds from the first sample, or a text such as '1.5s'"),
        ({"time": (-1, None)}, ValueError, "a time is counted from the first sample on; not -1"),
        ({"time": ("90%", "10%")}, ValueError, "ends before it begins"),
        ({"time": "x,y"}, UsageError, "Invalid time string"),
        ({"colour": "red"}, TypeError, "colour"),
    ],
)
def test_invalid_arguments_raise_errors(recording: perfpy.Recording, conditions: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says.replace("(", r"\(")):
        recording.where(**conditions)


def test_conditions_add_up(recording: perfpy.Recording) -> None:
    part = recording.where(time=("10ns", "150ns")).where(time=("100ns", None)).where(comm=["busy", "x"]).where(comm=["busy", "y"])
    assert len(part.samples["ip"]) == 6
    assert len(part.where(comm="x").samples["ip"]) == 0
    with pytest.raises(ValueError, match="do not overlap"):
        recording.where(time=(None, "50ns")).where(time=("100ns", None))


def test_report_refuses_options_together_with_keys(recording: perfpy.Recording) -> None:
    from perfpy.analysis.entries.options import ReportOptions

    with pytest.raises(PerfError, match="drop them"):
        recording.report(by="comm", options=ReportOptions())
