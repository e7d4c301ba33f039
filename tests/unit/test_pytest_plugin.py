"""What a test may cost: the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.errors import UsageError
from perfpy.pytest_plugin import NEW_BASELINE, Baselines, SlowPart, budget, judge, line_of_rest, lines_of_parts, slowest_parts
from tests.builders.perfdata import PerfDataBuilder
from tests.builders.sampled_program import PID, Stack, sampled_program

if TYPE_CHECKING:
    from pathlib import Path


def test_baselines_are_kept_for_each_machine(tmp_path: Path):
    path = str(tmp_path / "b.json")
    for machine, amount in (("here", 5.0), ("there", 7.0)):
        baselines = Baselines(path, machine)
        baselines.take("test_a", "page-faults", [amount, amount])
        assert baselines.of("test_a", "page-faults") == []
        assert baselines.write() == 1
    assert Baselines(path, "here").of("test_a", "page-faults") == [5, 5]
    assert Baselines(path, "there").of("test_a", "page-faults") == [7, 7]
    assert Baselines(path, "here").of("test_a", "cycles") == Baselines(path, "elsewhere").of("test_a", "page-faults") == []
    assert [file.name for file in tmp_path.iterdir()] == ["b.json"]


def test_nothing_taken_writes_nothing(tmp_path: Path):
    assert Baselines(str(tmp_path / "b.json")).write() == 0
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("text", ["", "{", "[]", '{"m": []}', '{"m": {"t": 1}}', '{"m": {"t": {"e": 5}}}', '{"m": {"t": {"e": ["5"]}}}'])
def test_another_file_is_none_of_baselines(tmp_path: Path, text: str):
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(UsageError, match=r"b\.json: "):
        Baselines(str(tmp_path / "b.json"))


FEW = budget("page-faults:u", at_most=100)
AS_BEFORE = budget("instructions:u")
THOUSAND = [1000.0, 1001, 1002, 1003, 1004]


def test_a_limit_needs_one_run_and_a_baseline_several():
    assert (FEW.repeat, AS_BEFORE.repeat) == (1, 5)
    assert budget("x", at_most=1, repeat=7).repeat == 7


@pytest.mark.parametrize("wrong", [{"at_most": "10 msec"}, {"repeat": 0}, {"tolerance": -1}, {"at_most": -1}])
def test_invalid_budgets_are_refused(wrong):
    with pytest.raises(UsageError, match="at_most"):
        budget("x", **wrong)


def test_the_median_of_the_runs_keeps_to_the_limit():
    assert not judge(FEW, [100], "", ()).complaint
    assert not judge(FEW, [99, 100, 5000], "", ()).complaint
    assert judge(FEW, [99, 101, 5000], "", ()).complaint == ("page-faults:u is 101 (3 runs, 99 to 5,000), at most 100 is allowed")
    assert judge(budget("task-clock", at_most=5), [5.5], "msec", ()).complaint == ("task-clock is 5.50 msec, at most 5.00 msec is allowed")
    assert judge(budget("task-clock", at_most=0.001), [0.00215], "msec", ()).complaint == (
        "task-clock is 0.00215 msec, at most 0.001 msec is allowed"
    )


def test_more_than_the_baseline_is_too_much_where_it_is_more_than_noise_and_tolerance():
    assert judge(AS_BEFORE, [value * 1.2 for value in THOUSAND], "", THOUSAND).complaint.startswith(
        "instructions:u is 20.0% higher than its baseline: 1,202 (5 runs, 1,200 to 1,205) against 1,002"
    )
    assert not judge(AS_BEFORE, [value * 1.04 for value in THOUSAND], "", THOUSAND).complaint  # does not matter
    assert judge(budget("instructions:u", tolerance=0.03), [value * 1.04 for value in THOUSAND], "", THOUSAND).complaint
    assert not judge(AS_BEFORE, [1000, 1001, 1002, 5000, 6000], "", THOUSAND).complaint  # chance
    assert judge(AS_BEFORE, [value / 2 for value in THOUSAND], "", THOUSAND).allowed == "as 1,002, now less"


def test_without_a_baseline_nothing_is_too_much():
    assert judge(AS_BEFORE, THOUSAND, "", ()) == (1002, "no baseline yet", "")
    assert judge(AS_BEFORE, THOUSAND, "", None).allowed == NEW_BASELINE


@pytest.mark.parametrize("event", ["page-faults:u", "faults", "minor-faults:k", "software/major-faults/", "exceptions:page_fault_user"])
def test_page_faults_have_no_baseline(event: str) -> None:
    """Stored were 176, 0, 0, 0 and 0: the heap is reused between runs, so twice as much memory cost nothing."""
    with pytest.raises(UsageError, match="no baseline for page faults, because later runs reuse the memory of the first; set at_most"):
        budget(event)
    assert budget(event, at_most=10).repeat == 1


@pytest.mark.parametrize("event", ["instructions:u", "context-switches", "alignment-faults", "cache-misses"])
def test_other_events_have_baselines(event: str) -> None:
    assert budget(event).at_most is None


@pytest.mark.parametrize(("samples", "sentences"), [(1, 0), (6, 1)])
def test_nothing_is_said_of_one_sample(samples: int, sentences: int, tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for number in range(samples):
        built.sample(ip=1, pid=7, tid=7, time=10**9 + number * 10**6, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    with perfpy.open(tmp_path / "perf.data") as recording:
        lines = [*lines_of_parts(slowest_parts([SlowPart("test_x.py::test_it", "test", 0.999, 1.02, 7)]), recording)]
    assert lines[0].split() == ["0.02", "s", "test", "test_x.py::test_it"]
    assert len(lines) == 1 + sentences


@pytest.mark.parametrize(("milliseconds", "sentences"), [(2, 0), (30, 1)])
def test_nothing_is_said_of_waits_for_little_of_the_time(milliseconds: int, sentences: int, tmp_path: Path) -> None:
    path = sampled_program(tmp_path, [Stack(("read",), milliseconds, state="S")], seconds=0.03)
    with perfpy.open(path) as recording:
        lines = [*lines_of_parts(slowest_parts([SlowPart("test_x.py::test_it", "test", 0.0, 0.031, PID)]), recording)]
    assert len(lines) == 1 + sentences


def test_the_beginnings_of_a_fixture_are_one_part(tmp_path: Path) -> None:
    """Fixtures of one name in other files are others; samples between the beginnings do not count."""
    built = PerfDataBuilder()
    for number in range(40):
        built.sample(ip=1, pid=7, tid=7, time=10**9 + number * 10**6, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    starts = [SlowPart(f"test_x.py::test_{number}", "fixture data", 1 + number / 100, 1.006 + number / 100, 7, "") for number in range(4)]
    other = SlowPart("test_y.py::test_z", "fixture data", 1.05, 1.08, 7, "test_y.py")
    parts = slowest_parts([*starts, other, SlowPart("test_x.py::test_0", "test", 1.1, 1.105, 7)])
    assert [(len(one.parts), round(one.seconds, 3)) for one in parts] == [(1, 0.03), (4, 0.024)]
    assert parts[1].line() == "    0.02 s  fixture data          4 times, longest for test_x.py::test_0 (0.01 s)"
    with perfpy.open(tmp_path / "perf.data") as recording:
        assert parts[1].samples(recording).report().histograms[0].leader.samples in range(24, 29)


def test_the_time_of_no_row_is_told() -> None:
    """Parts within others, and those of workers at the same time, count once."""
    outer, inner = SlowPart("a", "fixture db", 1.0, 3.0, 7), SlowPart("a", "fixture net", 1.5, 2.5, 7)
    other, short = SlowPart("b", "test", 2.0, 4.0, 8), SlowPart("c", "test", 5.0, 5.5, 8)
    parts = [outer, inner, other, short]
    (line,) = line_of_rest(parts, slowest_parts(parts)[:2], 0.0, 6.0)
    assert line.split(maxsplit=2)[:2] == ["3.00", "s"]
    assert line.endswith(
        "in no row above       of the session's 6.00 s: 0.50 s in further tests, fixtures and imports, 2.50 s outside of them"
    )
    assert not [*line_of_rest([outer], slowest_parts([outer]), 1.0, 3.005)]
    (empty,) = line_of_rest([], [], 0.0, 1.0)
    assert empty.endswith("of the session's 1.00 s: outside of tests, fixtures and imports")
