"""The states of threads as a Chrome trace."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.analysis.verdict import waits as reasons
from perfpy.tools.why.text import chrome_trace
from tests.builders.viewers import firefox_profiler
from tests.builders.waiting_threads import Part, explained

if TYPE_CHECKING:
    from pathlib import Path


def trace() -> str:
    """Return the file of two threads."""
    parts = [Part(1, 1000, 3000), Part(1, 3000, 9000, reasons.LOCK, "push", 2, "flush", 0x1000), Part(2, 1000, 9500, reasons.DISK, "flush")]
    return "".join(chrome_trace(explained(parts, comms={1: 'a"b\n', 2: "writer"})))


def events() -> list[dict[str, Any]]:
    traced: list[dict[str, Any]] = json.loads(trace())["traceEvents"]
    return traced


def test_each_segment_is_an_event_in_microseconds():
    complete = [event for event in events() if event["ph"] == "X"]
    assert [(event["tid"], event["name"], event["ts"], event["dur"]) for event in complete] == [
        (1, "running", 0.0, 2.0),
        (1, "lock", 2.0, 6.0),
        (2, "disk", 0.0, 8.5),
    ]
    assert complete[1]["args"] == {"function": "push", "lock": "0x1000", "waker": "writer (2)"}


def test_processes_and_threads_have_their_names():
    names = [(event["name"], event["pid"], event["tid"], event["args"]["name"]) for event in events() if event["ph"] == "M"]
    assert names[0] == ("process_name", 1, 1, 'a"b\n')
    assert sorted(names[1:]) == [("thread_name", 1, 1, 'a"b\n'), ("thread_name", 1, 2, "writer")]


def test_a_wakeup_is_a_flow_from_the_waker():
    flows = [(event["ph"], event["tid"], event["ts"]) for event in events() if event["ph"] in "sf"]
    assert flows == [("s", 2, 8.0), ("f", 1, 8.0)]


def test_a_viewer_opens_the_file_with_its_own_importer(tmp_path: Path):
    """The Firefox Profiler imports Chrome traces; it shows segments as markers of their thread."""
    path = tmp_path / "why.json"
    path.write_text(trace())
    with firefox_profiler(path) as viewer:
        answer = viewer.asked("thread", "markers")
    assert answer["friendlyThreadName"] == 'a"b\n'
    spans = {kind["markerName"]: kind["topMarkers"][0] for kind in answer["byType"] if kind["isInterval"]}
    assert (spans["lock"]["start"], spans["lock"]["duration"]) == pytest.approx((0.002, 0.006))
    assert spans["running"]["duration"] == pytest.approx(0.002)
