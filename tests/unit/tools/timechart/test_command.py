"""Tests of the chart: what it contains, hostile names, and refusals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from perfpy.cli import run
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_SWITCH, _WAKEUP, _IDLE, _FREQUENCY = "sched:sched_switch", "sched:sched_wakeup", "power:cpu_idle", "power:cpu_frequency"
_WORK = "workqueue:workqueue_activate_work"
_READ, _READ_END = "syscalls:sys_enter_read", "syscalls:sys_exit_read"
_HOSTILE = "</text><script>alert(1)</script>\x1b]&"


def switched(comms: Mapping[int, bytes] | None = None) -> EventRecording:
    """Return a recording of two tasks: 100 runs 2 ms and blocks on I/O for 3 ms, 101 wakes it and waits 1 ms for a CPU."""
    recording = EventRecording([_SWITCH, _WAKEUP, _IDLE, _FREQUENCY], comms={100: _HOSTILE, 101: "b"})

    def switch(time: int, before: int, after: int, state: int) -> None:
        recording.event(_SWITCH, time * 10**6, b"", before, 120, state, (comms or {}).get(after, b""), after, 120, tid=before)

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


def test_spans_show_states_of_tasks_and_their_lengths(tmp_path):
    shown = titles(draw(tmp_path, switched(), "-T"))
    assert [text for text in shown if text.startswith("#")] == [
        "#0 running 1.0 ms", "#0 waiting ", "#0 blocked 3.0 ms", "#0 running 2.0 ms",
        "#0 running 2.0 ms", "#0 waiting 1.0 ms", "#0 running 3.0 ms",
    ]  # fmt: skip
    assert [text for text in shown if text.startswith("101 ")] == ["101 b running 2.0 ms", "101 b running 3.0 ms"]


def test_hostile_names_stay_text(tmp_path):
    elements = draw(tmp_path, switched())
    assert not [element for element in elements if element.tag.endswith("script")]
    assert any("<script>" in text and "^[" in text for text in titles(elements))


def test_cpus_have_idle_states_and_frequencies(tmp_path):
    elements = draw(tmp_path, switched(), "-P")
    assert [element.get("class") for element in elements if element.get("class") in ("c1", "c3", "c6")][3:] == ["c3"]
    assert [element.text for element in elements if element.get("font-size") == "0.25pt"][-1] == "     1000"


def test_labels_of_idle_states_fit_into_half_of_them(tmp_path):
    """perf halves the width before it rounds it down to 5 points, halved as often as it has to be."""
    recording = EventRecording([_SWITCH, _IDLE]).event(_SWITCH, 0, b"", 1, 120, 0, b"", 2, 120, tid=1)
    for number, length in enumerate((3, 9, 13, 600)):  # in pixels, of 1000
        recording.event(_IDLE, number * 2 * 10**6, 2, 0).event(_IDLE, number * 2 * 10**6 + length * 10**5, 0xFFFFFFFF, 0)
    recording.event(_SWITCH, 10**8, b"", 2, 120, 0, b"", 1, 120, tid=2)
    sizes = [element.get("font-size") for element in draw(tmp_path, recording, "-P") if element.text == "C2"]
    assert sizes == ["5.00000000pt", "5.00000000pt", "2.50000000pt", "1.25000000pt"]  # the newest first


@pytest.mark.parametrize(
    ("words", "tids"), [((), {"100", "101"}), (("-n", "1"), {"100", "101"}), (("-p", "b"), {"101"}), (("-p", "100"), {"100"})]
)
def test_options_choose_the_rows_of_tasks(words, tids, tmp_path):
    labels = [element.text or "" for element in draw(tmp_path, switched(), "-T", *words) if element.tag.endswith("text")]
    assert {text.split(":")[1].split()[0] for text in labels if text.endswith("ms)")} == tids


def test_a_chart_of_no_tasks_has_no_rows_and_wakeups(tmp_path):
    assert len(titles(draw(tmp_path, switched()))) > len(titles(draw(tmp_path, switched(), "-n", "0")))
    without = draw(tmp_path, switched(), "-n", "0")
    assert [element.get("height") for element in without[:1]] == [element.get("height") for element in draw(tmp_path, switched(), "-P")[:1]]
    assert not any(text.startswith("#") or "wakes up" in text for text in titles(without))
    assert any(element.get("class") == "c3" for element in without)


@pytest.mark.parametrize(("text", "count"), [("2ms", 2), ("3ms", 0), ("b", 2), ("alert", 2), ("lart", 0), ("0", 0)])
def test_spans_are_highlighted_by_name_or_length(text, count, tmp_path):
    elements = draw(tmp_path, switched(), "-T", f"--highlight={text}")
    assert sum(element.get("class") == "sample_hi" for element in elements) == count


def test_a_task_has_a_row_for_each_name(tmp_path):
    """A span that began under one name and ended under another is lost, as in perf's chart."""
    recording = EventRecording([_SWITCH], comms={100: "sh"})
    for time, before, after in ((1, 0, 100), (3, 100, 0), (4, 0, 100)):
        recording.event(_SWITCH, time * 10**7, b"", before, 120, 1, b"", after, 120, tid=before)
    recording.rename(100, "make", 5 * 10**7)
    for time, before, after in ((6, 100, 0), (7, 0, 100), (8, 100, 0)):
        recording.event(_SWITCH, time * 10**7, b"", before, 120, 1, b"", after, 120, tid=before)
    labels = [element.text for element in draw(tmp_path, recording) if element.tag.endswith("text")]
    assert [text for text in labels if text and text.endswith("ms)")] == ["make:100 (10.0ms)", "sh:100 (20.0ms)"]


def test_the_first_new_thread_restarts_the_interval_of_a_process_with_a_new_name(tmp_path):
    """perf takes the FORK record of a thread for that of its process, until the process's name has a beginning."""
    recording = EventRecording([_SWITCH], comms={100: "perfpy"})
    recording.rename(100, "work", 1 * 10**6)
    recording.event(_SWITCH, 2 * 10**6, b"", 0, 120, 0, b"", 100, 120, tid=0)
    recording.fork(100, 201, 4 * 10**6).fork(100, 202, 5 * 10**6)
    recording.event(_SWITCH, 6 * 10**6, b"", 100, 120, 1, b"", 0, 120, tid=100)
    assert titles(draw(tmp_path, recording)).count("100 work running 2.0 ms") == 1


def test_a_clock_that_jumps_does_not_lengthen_the_file(tmp_path):
    recording = switched().event(_SWITCH, 1 << 62, b"", 100, 120, 1, b"", 0, 120, tid=100)
    assert len(draw(tmp_path, recording)) < 110_000


def test_calls_are_joined_lengthened_and_left_out(tmp_path):
    recording = EventRecording([_READ, _READ_END], comms={100: "cat"})
    for begin, end, result in ((1000, 2000, 512), (2500, 3000, 512), (50_000, 51_000, -11)):
        recording.event(_READ, begin, 0, 3, 0, 4096).event(_READ_END, end, 0, result)
    recording.event(_READ, 60_000, 0, 4, 0, 4096).event(_READ, 61_000, 0, 4, 0, 4096)
    exact = ("--io-min-time=1ns", "--io-merge-dist=1ns")
    assert titles(draw(tmp_path, recording, *exact)) == [
        "fd=3 error=-11 merges=0", "fd=3 error=0 merges=0", "fd=3 error=0 merges=0",
    ]  # fmt: skip
    joined = draw(tmp_path, recording, "--io-skip-eagain", "--io-merge-dist=500ns", "--io-min-time=1us")
    assert titles(joined) == ["fd=3 error=0 merges=1"]
    assert [element.text for element in joined if (element.text or "").startswith("cat")] == ["cat:100 (1024.0 bytes)"]


def test_a_call_that_has_not_returned_lasts_until_the_end(tmp_path):
    recording = EventRecording([_READ, _READ_END], comms={100: "cat", 101: "dd"})
    recording.event(_READ, 10**9, 0, 3, 0, 4096).event(_READ_END, 2 * 10**9, 0, 512)
    recording.event(_READ, 3 * 10**9, 0, 3, 0, 4096).event(_READ, 5 * 10**9, 0, 3, 0, 1, tid=101)
    bars = [element for element in draw(tmp_path, recording) if element.get("class") == "disk"]
    assert [float(bar.get("x", 0)) + float(bar.get("width", 0)) for bar in bars[1:]] == pytest.approx([1000.0, 250.0])


@pytest.mark.parametrize(("count", "tids"), [(1, {100, 101}), (3, {100, 101, 102}), (4, {100, 101, 102, 103})])
def test_rows_are_of_tasks_that_moved_a_megabyte_or_a_power_of_ten_less(count, tids, tmp_path):
    """perf's steps are 1 MiB, a tenth of it, and so on, until the chart has enough rows."""
    sizes = {100: 50 << 20, 101: 1 << 20, 102: (1 << 20) // 10, 103: (1 << 20) // 10 - 1}
    recording = EventRecording([_READ, _READ_END], comms={tid: f"t{tid}" for tid in sizes})
    for tid, size in sizes.items():
        recording.event(_READ, tid * 10**6, 0, 3, 0, 4096, tid=tid).event(_READ_END, tid * 10**6 + 1000, 0, size, tid=tid)
    labels = [element.text or "" for element in draw(tmp_path, recording, "-n", str(count))]
    assert {int(text.split(":")[1].split()[0]) for text in labels if text.endswith("bytes)")} == tids


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


def test_the_chart_begins_with_the_first_sample_of_any_event(tmp_path):
    recording = EventRecording([_SWITCH, _WORK, _FREQUENCY], comms={100: "a"})
    recording.event(_WORK, 1 * 10**6, 0, 0, tid=100)
    recording.event(_SWITCH, 3 * 10**6, b"", 0, 120, 0, b"a", 100, 120, tid=0)
    recording.event(_FREQUENCY, 5 * 10**6, 2000, 0, cpu=0)
    recording.event(_WORK, 9 * 10**6, 0, 0, tid=100)
    names = [element for element in draw(tmp_path, recording, "-P") if element.get("font-size") == "0.25pt"]
    assert float(names[-1].attrib["x"]) == pytest.approx(1000 / 9)


# The page of --html: its own intervals, which add up to the time of the CPUs.


def page_data(tmp_path: Path, recording: EventRecording, *words: str) -> dict[str, Any]:
    (tmp_path / "perf.data").write_bytes(recording.file())
    assert run(["timechart", "-i", str(tmp_path / "perf.data"), "--html", str(tmp_path / "out.html"), *words]) == 0
    text = (tmp_path / "out.html").read_text()
    data: dict[str, Any] = json.loads(text.partition('<script type="application/json" id="data">')[2].partition("</script>")[0])
    return data


def test_the_page_has_the_time_of_each_task(tmp_path):
    """100 runs, is blocked and runs again; 101 runs, waits 1 ms for the CPU and runs again: one CPU is busy all the time."""
    data, ms = page_data(tmp_path, switched({100: b"</script>\x1b]&"})), 10**6
    assert data["names"] == [[":101", 0], ["</script>^[]&", 0], ["waits for a CPU", 1], ["waits (disk sleep)", 2]]
    assert data["table"]["rows"] == [[5 * ms, 5 / 16, 2, 3 * ms, ms, ms, 0], [3 * ms, 3 / 16, 2, 2 * ms, 0, 0, 3 * ms]]
    assert data["headline"] == ["2 CPUs, 50 % busy for ", 8 * ms, "; most time in :101, ", 5 * ms, ", the sum over 2 CPUs"]
    assert [lane[1:] for lane in data["lanes"]] == [[-2, "CPU 0"], [-3, "CPU 1"], [101, ":101"], [100, "</script>^[]&"]]
    assert [lane[1:] for lane in page_data(tmp_path, switched(), "-p", "101")["lanes"]] == [[-2, "CPU 0"], [-3, "CPU 1"], [101, ":101"]]


def test_a_task_that_left_without_an_event_ran_until_the_next_one_came(tmp_path):
    """A process that forbids its events (PR_TASK_PERF_EVENTS_DISABLE) comes to the CPU, and is not seen to leave it."""
    recording = EventRecording([_SWITCH], comms={})
    for time, before, after in ((1, 0, 7), (3, 0, 8), (4, 8, 0)):
        recording.event(_SWITCH, time * 10**6, b"", before, 120, 1, b"app" if after == 7 else b"other", after, 120, tid=before)
    data = page_data(tmp_path, recording)
    assert [name for name, _ in data["names"][:2]] == ["app", "other"]
    assert [row[0] for row in data["table"]["rows"]] == [2 * 10**6, 10**6]


def test_names_of_tasks_stay_where_many_bars_are_merged(tmp_path, monkeypatch):
    """Bars of CPUs and tasks, more than a page has, keep their own texts."""
    monkeypatch.setattr("perfpy.views.page.lanes._MOST_CALLS", 1)
    recording = EventRecording([_SWITCH], comms={})
    for time in range(1, 41):
        before, after = 100 + (time - 1) % 3, 100 + time % 3
        recording.event(_SWITCH, time * 10**6, b"", before, 120, 1, f"app{after}".encode(), after, 120, tid=before)
    for time, before, after, comm in ((41, 101, 109, b"last"), (42, 109, 100, b"app100"), (300, 100, 109, b"last"), (301, 109, 0, b"")):
        recording.event(_SWITCH, time * 10**6, b"", before, 120, 2, comm, after, 120, tid=before)
    data = page_data(tmp_path, recording)
    assert data["texts"] == ["app101 (101) waits (disk sleep), then woken on an unknown CPU"]


def test_a_terminal_is_told_of_the_page_where_a_chart_is_large(tmp_path, capsys, monkeypatch):
    (tmp_path / "perf.data").write_bytes(switched().file())
    monkeypatch.setattr("perfpy.tools.timechart.command._LARGE", 1000)
    words = ["timechart", "-i", str(tmp_path / "perf.data"), "-o", str(tmp_path / "out.svg")]
    for option, lines in (((), 1), (("-v",), 2)):  # -v is told what a terminal is
        assert run([*words, *option]) == 0
        told = capsys.readouterr().err.splitlines()
        assert len(told) == lines
        assert told[0].startswith("Written 0.0 seconds of trace to")
    assert "perfpy timechart --html <file> writes a page that opens at once" in told[1]


def test_a_page_needs_switches(tmp_path, capsys):
    (tmp_path / "perf.data").write_bytes(EventRecording([_IDLE], comms={}).event(_IDLE, 10**6, 3, 1, cpu=1).file())
    assert run(["timechart", "-i", str(tmp_path / "perf.data"), "--html", str(tmp_path / "out.html")]) == 129
    assert "--html draws switches of tasks, and the recording has none" in capsys.readouterr().err
    assert not (tmp_path / "out.html").exists()
