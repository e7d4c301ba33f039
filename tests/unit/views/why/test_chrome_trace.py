"""The states of threads as a Chrome trace."""

from __future__ import annotations

import json
from typing import Any

from perfpy.analysis.verdict import waits as reasons
from perfpy.views.why.chrome_trace import chrome_trace
from tests.builders.waiting_threads import Part, explained


def events() -> list[dict[str, Any]]:
    parts = [Part(1, 1000, 3000), Part(1, 3000, 9000, reasons.LOCK, "push", 2, "flush", 0x1000), Part(2, 1000, 9500, reasons.DISK, "flush")]
    text = "".join(chrome_trace(explained(parts, comms={1: 'a"b\n', 2: "writer"})))
    traced: list[dict[str, Any]] = json.loads(text)["traceEvents"]
    return traced


def test_each_segment_is_an_event_in_microseconds():
    complete = [event for event in events() if event["ph"] == "X"]
    assert [(event["tid"], event["name"], event["ts"], event["dur"]) for event in complete] == [
        (1, "running", 0.0, 2.0),
        (1, "lock", 2.0, 6.0),
        (2, "disk", 0.0, 8.5),
    ]
    assert complete[1]["args"] == {"function": "push", "lock": "0x1000", "waker": "writer (2)"}


def test_threads_have_their_names():
    assert {event["tid"]: event["args"]["name"] for event in events() if event["ph"] == "M"} == {1: 'a"b\n', 2: "writer"}


def test_a_wakeup_is_a_flow_from_the_waker():
    flows = [(event["ph"], event["tid"], event["ts"]) for event in events() if event["ph"] in "sf"]
    assert flows == [("s", 2, 8.0), ("f", 1, 8.0)]
