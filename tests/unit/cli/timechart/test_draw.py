"""Tests of the chart: what it contains, hostile names, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from perfpy.cli import run
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path

_SWITCH, _WAKEUP, _IDLE, _FREQUENCY = "sched:sched_switch", "sched:sched_wakeup", "power:cpu_idle", "power:cpu_frequency"
_READ, _READ_END = "syscalls:sys_enter_read", "syscalls:sys_exit_read"
_HOSTILE = "</text><script>alert(1)</script>\x1b]&"


def switched() -> EventRecording:
    """Return a recording of two tasks: 100 runs 2 ms and blocks on I/O for 3 ms, 101 wakes it and waits 1 ms for a CPU."""
    recording = EventRecording([_SWITCH, _WAKEUP, _IDLE, _FREQUENCY], comms={100: _HOSTILE, 101: "b"})

    def switch(time: int, before: int, after: int, state: int) -> None:
        recording.event(_SWITCH, time * 10**6, b"", before, 120, state, b"", after, 120, tid=before)

    switch(1, 0, 100, 0)
    switch(3, 100, 101, 2)
    recording.event(_WAKEUP, 6 * 10**6, b"", 100, 120, 0, tid=101)
    switch(6, 101, 100, 0)
    switch(7, 100, 101, 1)
    recording.event(_IDLE, 7 * 10**6, 3, 1, cpu=1).event(_IDLE, 8 * 10**6, 0xFFFFFFFF, 1, cpu=1)
    recording.event(_FREQUENCY, 2 * 10**6, 1000, 1, cpu=1).event(_FREQUENCY, 5 * 10**6, 2000, 1, cpu=1)
    switch(9, 101, 0, 1)
    return recording


def draw(tmp_path: Path, recording: EventRecording, *words: str) -> list[ElementTree.Element]:
    """Return the elements of the chart."""
    (tmp_path / "perf.data").write_bytes(recording.file())
    assert run(["timechart", "-i", str(tmp_path / "perf.data"), "-o", str(tmp_path / "out.svg"), *words]) == 0
    return list(ElementTree.parse(tmp_path / "out.svg").iter())  # our own file


def titles(elements: list[ElementTree.Element]) -> list[str]:
    return [element.text or "" for element in elements if element.tag.endswith("title")]


def test_bars_show_states_of_tasks_and_their_lengths(tmp_path):
    shown = titles(draw(tmp_path, switched(), "-T"))
    assert [text for text in shown if text.startswith("101 ")] == [
        "101 b runs 3.0 ms", "101 b waits for a CPU 1.0 ms", "101 b runs 2.0 ms",
    ]  # fmt: skip
    assert any(text.startswith("100 ") and text.endswith("is blocked 3.0 ms") for text in shown)


def test_hostile_names_stay_text(tmp_path):
    elements = draw(tmp_path, switched())
    assert not [element for element in elements if element.tag.endswith("script")]
    assert any("<script>" in text and "^[" in text for text in titles(elements))


def test_cpus_have_idle_states_and_frequencies(tmp_path):
    elements = draw(tmp_path, switched(), "-P")
    assert titles(elements) == ["C3 for 1.0 ms"]
    assert [element.get("class") for element in elements if element.tag.endswith("polyline")] == ["frequency"]


@pytest.mark.parametrize(
    ("words", "tids"), [((), {"100", "101"}), (("-n", "1"), {"101"}), (("-p", "b"), {"101"}), (("-p", "100"), {"100"})]
)
def test_options_choose_the_tasks(words, tids, tmp_path):
    assert {text.split()[0] for text in titles(draw(tmp_path, switched(), "-T", *words))} == tids


@pytest.mark.parametrize(("text", "count"), [("4ms", 2), ("6ms", 0), ("b", 2)])
def test_tasks_are_highlighted_by_name_or_run_time(text, count, tmp_path):
    elements = draw(tmp_path, switched(), "-T", f"--highlight={text}")
    assert sum(element.get("class") == "highlighted" for element in elements) == count


def test_calls_are_joined_lengthened_and_left_out(tmp_path):
    recording = EventRecording([_READ, _READ_END], comms={100: "cat"})
    for begin, end, result in ((1000, 2000, 512), (2500, 3000, 512), (50_000, 51_000, -11)):
        recording.event(_READ, begin, 0, 3, 0, 4096).event(_READ_END, end, 0, result)
    assert titles(draw(tmp_path, recording)) == [
        "disk fd=3 512 bytes in 1.0 us, error=0 merges=0", "disk fd=3 512 bytes in 0.5 us, error=0 merges=0",
        "disk fd=3 0 bytes in 1.0 us, error=11 merges=0",
    ]  # fmt: skip
    assert titles(draw(tmp_path, recording, "--io-skip-eagain", "--io-merge-dist=500ns", "--io-min-time=1us")) == [
        "disk fd=3 1024 bytes in 2.5 us, error=0 merges=1"
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-w", "1"], "-w 1: expected 100 to 100000 pixels"),
        (["-P", "-T"], "-P and -T exclude each other"),
        (["--io-min-time=x"], "expects a time such as 500us or 2ms"),
        (["-t"], "the recording does not describe the CPUs' topology"),
        (["--symfs", "x"], "the chart shows no symbols"),
        (["bogus"], "unknown action 'bogus'; expected record"),
    ],
)
def test_a_wrong_line_is_refused(words, message, tmp_path, capsys):
    path = tmp_path / "perf.data"
    path.write_bytes(switched().file())
    assert run(["timechart", "-i", str(path), "-o", str(tmp_path / "out.svg"), *words]) == 129
    assert message in capsys.readouterr().err


def test_a_recording_without_the_tracepoints_is_refused(tmp_path, capsys):
    path = tmp_path / "perf.data"
    path.write_bytes(EventRecording(["kmem:kfree"]).event("kmem:kfree", 10**9, 1, 2).file())
    assert run(["timechart", "-i", str(path), "-o", str(tmp_path / "out.svg")]) == 129
    assert "perfpy timechart record -- COMMAND" in capsys.readouterr().err
    assert not (tmp_path / "out.svg").exists()
