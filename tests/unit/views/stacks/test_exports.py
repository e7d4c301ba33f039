"""Tests of stacks in formats of other viewers: each contains the same profile."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from perfpy.cli import run
from perfpy.views.stacks import exports
from perfpy.views.stacks import exports as time_order
from perfpy.views.stacks.exports import ThreadOrder, threads_in_order
from tests.builders.sampled_program import Stack, sampled_program
from tests.builders.stacks import At, stacks, timed_stacks
from tests.builders.viewers import SPEEDSCOPE, consumed

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from perfpy.analysis.stacks import Stacks


PROFILE = "sh;main;run;sys_read_[k] 3\nsh;main;run 2\nls;main 4\nls 1"


def test_folded_lines_are_sorted_and_summed() -> None:
    assert list(exports.folded_lines(stacks(PROFILE))) == ["ls 1", "ls;main 4", "sh;main;run 2", "sh;main;run;sys_read 3"]
    assert list(exports.folded_lines(stacks("a;f 1\na;f 2"))) == ["a;f 3"]


def test_a_semicolon_in_a_name_does_not_split_it() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="operator;")])
    assert list(exports.folded_lines(part)) == ["a;operator: 1"]


def test_a_line_break_in_a_name_does_not_end_the_line() -> None:
    part = stacks("a;f 1")
    part = dataclasses.replace(part, functions=[part.functions[0]._replace(name="f 7\nroot;forged")], comms=["a\r\nb"])
    assert list(exports.folded_lines(part)) == ["a^M^Jb;f 7^Jroot:forged 1"]


def test_speedscope_holds_every_stack_outermost_first() -> None:
    data = json.loads(exports.speedscope([stacks(PROFILE, "cpu-clock:u"), stacks("x;y 1", "faults")], "perf.data"))
    first, second = data["profiles"]
    names = [frame["name"] for frame in data["shared"]["frames"]]
    got = {tuple(names[i] for i in sample): weight for sample, weight in zip(first["samples"], first["weights"], strict=True)}
    assert got == {("sh", "main", "run", "sys_read"): 3, ("sh", "main", "run"): 2, ("ls", "main"): 4, ("ls",): 1}
    assert (first["unit"], first["endValue"]) == ("nanoseconds", 10)
    assert (second["unit"], second["name"]) == ("none", "faults")


def test_speedscopes_schema_accepts_the_export(tmp_path: Path) -> None:
    file = tmp_path / "speedscope.json"
    file.write_text(exports.speedscope([stacks(PROFILE, "cpu-clock"), stacks("x;y 1", "faults")], "perf.data"))
    assert consumed(SPEEDSCOPE, file) == [True, None]


PYTHON = "sh;py::main:/srv/app.py;run 5"


def test_functions_of_python_have_their_names_and_files_in_viewers_and_are_folded_as_perf_prints_them() -> None:
    part = stacks(PYTHON)
    assert list(exports.folded_lines(part)) == [PYTHON]
    frames = json.loads(exports.speedscope([part], "perf.data"))["shared"]["frames"]
    assert {"name": "main (app.py)", "file": "/srv/app.py"} in frames


# Stacks in order of time: frames begin and end where samples say, and nest.


def in_order(part: Stacks) -> list[ThreadOrder]:
    functions = range(len(part.functions))
    return threads_in_order(part, functions, range(100, 100 + len(part.comms)))


def spans(part: Stacks, order: ThreadOrder) -> list[tuple[str, int, int]]:
    """Return each frame of a thread with its begin and end. As in speedscope, an end must match the innermost frame."""
    names = {**dict(enumerate(function.name for function in part.functions)), **dict(enumerate(part.comms, 100))}
    open_frames: list[tuple[int, int]] = []
    results, now = [], order.first
    for edge in order.edges:
        assert edge.time >= now
        now = edge.time
        if edge.is_begin:
            open_frames.append((edge.frame, edge.time))
        else:
            frame, begin = open_frames.pop()
            assert frame == edge.frame
            results.append((names[frame], begin, edge.time))
    assert not open_frames
    assert now == order.last
    return results


def test_frames_that_two_samples_share_go_on() -> None:
    part = timed_stacks([At("a;main;run", 10, 10), At("a;main;walk", 20, 10), At("a;main;walk", 30, 10)])
    (order,) = in_order(part)
    assert spans(part, order) == [("run", 0, 10), ("walk", 10, 30), ("main", 0, 30), ("a", 0, 30)]


def test_long_gaps_stay_gaps_and_short_ones_close() -> None:
    part = timed_stacks([At("a;main", 10, 10), At("a;main", 28, 10), At("a;main", 99, 10)])
    (order,) = in_order(part)
    assert spans(part, order) == [("main", 0, 28), ("a", 0, 28), ("main", 89, 99), ("a", 89, 99)]


def test_threads_are_separate_and_sorted_by_time() -> None:
    part = timed_stacks([At("a;main", 10, 10, 7, 7), At("b;main", 15, 10, 7, 9), At("b;main", 25, 10, 7, 9)])
    orders = in_order(part)
    assert [order.name for order in orders] == ["b 7/9", "a 7"]
    assert [(order.first, order.last) for order in orders] == [(5, 25), (0, 10)]


def test_counts_and_too_many_samples_have_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = [At("a;main", 10, 10), At("a;main", 20, 10)]
    assert not in_order(timed_stacks(samples, "faults", in_seconds=False))
    monkeypatch.setattr(time_order, "MOST_SAMPLES", 1)
    assert not in_order(timed_stacks(samples))


stacks_and_times = st.tuples(st.sampled_from(["a", "a;f", "a;f;g", "a;g;f", "b;f;f"]), st.integers(0, 60), st.integers(1, 40))


@given(st.lists(stacks_and_times, min_size=1, max_size=12))
def test_frames_of_any_samples_nest(samples: list[tuple[str, int, int]]) -> None:
    part = timed_stacks([At(stack, 100 + time, weight) for stack, time, weight in sorted(samples, key=lambda sample: sample[1])])
    for order in in_order(part):
        spans(part, order)
        assert [span.begin for span in order.steady_stacks[1:]] == [span.end for span in order.steady_stacks[:-1]]
        assert all(one.path != other.path for one, other in zip(order.steady_stacks, order.steady_stacks[1:], strict=False))


def test_speedscope_opens_with_the_busiest_thread_in_order_of_time(tmp_path: Path) -> None:
    part = timed_stacks([At("a;main;run", 10, 10), At("a;main;walk", 20, 10)])
    text = exports.speedscope([part], "perf.data")
    evented, sampled = json.loads(text)["profiles"]
    assert (evented["type"], evented["name"], evented["unit"]) == ("evented", f"a 7: {part.event}", "nanoseconds")
    assert (evented["startValue"], evented["endValue"], len(evented["events"])) == (0, 20, 8)
    assert (sampled["type"], sampled["endValue"]) == ("sampled", 20)
    (tmp_path / "speedscope.json").write_text(text)
    assert consumed(SPEEDSCOPE, tmp_path / "speedscope.json") == [True, None]


def test_whole_stacks_replace_many_events_and_have_the_same_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = timed_stacks([At("a;main;run", 10, 10), At("a;main;run", 20, 10), At("a;main;walk", 30, 10), At("b;main", 90, 10)])
    (order,) = in_order(part)
    monkeypatch.setattr(exports, "_FEW_EVENTS", 0)
    text = exports.speedscope([part], "perf.data")
    in_time, _ = json.loads(text)["profiles"]
    assert (in_time["type"], in_time["startValue"], in_time["endValue"]) == ("sampled", order.first, order.last)
    assert in_time["weights"] == [20, 10, 50, 10]
    assert [len(stack) for stack in in_time["samples"]] == [3, 3, 0, 2]
    (tmp_path / "speedscope.json").write_text(text)
    assert consumed(SPEEDSCOPE, tmp_path / "speedscope.json") == [True, None]


def test_an_export_has_the_threads_of_a_recording(tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("run", "main"), 3, tid=100), Stack(("walk", "main"), 5, tid=101)])
    exported = tmp_path / "out.json"
    assert run(["report", "-q", "-i", str(path), "--symfs", str(tmp_path), "--speedscope", str(exported)]) == 0
    profiles = json.loads(exported.read_text())["profiles"]
    assert [profile["type"] for profile in profiles] == ["evented", "evented", "sampled"]
    assert [profile["endValue"] - profile["startValue"] for profile in profiles[:2]] == [5_000_000, 3_000_000]
