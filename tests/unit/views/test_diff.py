"""Differences of recordings and groups on a terminal."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

import perfpy
from perfpy.abi.records import Comm, SampleId
from perfpy.analysis.differences import Compute, differences
from perfpy.analysis.group_differences import ComparedRows, GroupChanges, GroupRow, GroupSide
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.cli import run
from perfpy.views.diff.groups import group_lines, group_page, show_groups
from perfpy.views.diff.screen import Side, show_differences
from tests.builders.hosts import group
from tests.builders.perfdata import PerfDataBuilder
from tests.builders.sampled_program import Stack, sampled_program
from tests.builders.stacks import stacks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


# Tests of two groups on a terminal: changes are shown, the rest is counted; lines fit the window.


HOSTS = range(6)


@pytest.fixture
def found(tmp_path):
    sides = [{f"host{number}": {"a": 40 + number, "b": 40 - number, "c\x1b[2J": part} for number in HOSTS} for part in (20, 60)]
    before, after = (group(tmp_path / str(number), side) for number, side in enumerate(sides))
    return perfpy.diff(perfpy.open_many(before), perfpy.open_many(after), by="comm")


def shown(found, width=100, *, everything=False):
    file = io.StringIO()
    show_groups(found, Console(file=file, width=width, no_color=True, highlight=False, markup=False), everything=everything)
    return file.getvalue().splitlines()


def test_changes_are_shown_and_the_rest_is_counted(tmp_path):
    sides = [{f"host{number}": {"a": 40 + number % 3, "b": 40 - number % 2, "c": 20, "d": 30} for number in HOSTS} for _ in range(2)]
    for number in HOSTS:
        sides[1][f"host{number}"]["c"] = 26
        sides[1][f"host{number}"]["d"] = 24
    before, after = (group(tmp_path / str(number), side) for number, side in enumerate(sides))
    lines = shown(perfpy.diff(perfpy.open_many(before), perfpy.open_many(after), by="comm"))
    assert lines[0] == "Event 'cpu-clock:u'"
    assert {line.split()[-1] for line in lines if "% *" in line and "Each" not in line} == {"c", "d"}
    assert lines[-1] == "2 more rows; --all shows them"


def test_groups_without_changes_are_reported(tmp_path):
    before, after = (group(tmp_path / name, {f"host{number}": {"a": 40 + number, "b": 40} for number in HOSTS}) for name in "xy")
    changes = perfpy.diff(perfpy.open_many(before), perfpy.open_many(after), by="comm")
    assert shown(changes)[-1] == "no row changed beyond the spread of hosts; 2 rows; --all shows them"
    assert {line.split()[-1] for line in shown(changes, everything=True)[-2:]} == {"a", "b"}


@pytest.mark.parametrize("width", [40, 80])
def test_lines_fit_the_window_and_names_are_visible(found, width):
    lines = shown(found, width, everything=True)
    assert max(map(len, lines)) <= width
    assert not any("\x1b" in line for line in (*lines, *group_lines(found)))


def test_lines_of_programs_have_the_same_columns_in_all_rows(found):
    rows = [line.split("|") for line in group_lines(found, separator="|", quiet=True)]
    assert rows[0][-1] == "Command"
    assert rows[1][-1] == "c^[[2J"
    assert {len(row) for row in rows} == {11}


def test_the_page_marks_changed_functions():
    row = GroupRow(("app", "hot"), 0.25, 0.5, 0.01, 0.01, 0.2, 0.3, 0.01, 0, 0)
    side = GroupSide(["a", "b", "c", "d"], 4, 40, 40)
    rows = [row, row._replace(names=("app", "main"), chance=0.5), row._replace(names=("app", None))]
    changes = GroupChanges("cycles", ["dso", "symbol"], "host", (side, side), ComparedRows(rows, "permutation", 0, {}, None))
    page = group_page([stacks("app;main;hot 10\napp;main 30")], [stacks("app;main;hot 20\napp;main 20")], ["old", "new"], [changes])
    (result,) = re.findall(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page, re.DOTALL)
    data = json.loads(result)
    assert [data["names"][int(number)][0] for number in data["starred"][0]] == ["hot"]
    assert "+25.00 points (+20.00 to +30.00)" in next(iter(data["starred"][0].values()))
    assert data["verdict"][0] == "cycles: 2 rows of 3 changed beyond the spread of hosts"
    assert data["environment"] == ["before old: 4 hosts, 4 recordings, 40 samples", "after new: 4 hosts, 4 recordings, 40 samples"]


def test_no_change_is_not_a_decrease():
    row = GroupRow(("a",), 0.3, 0.3 - 1e-9, 0.0, 0.0, -1e-18, 0.0, 1.0, 0, 0)
    side = GroupSide(["a", "b"], 2, 40, 40)
    changes = GroupChanges("cycles", ["comm"], "host", (side, side), ComparedRows([row], "student", 0, {}, None))
    assert next(group_lines([changes], quiet=True)).split() == [
        "30.00%",
        "0.00",
        "30.00%",
        "0.00",
        "+0.00%",
        "+0.00",
        "+0.00",
        "100.00%",
        "a",
    ]


# Tests of the comparison on a terminal: totals first, then changes, then the number of hidden rows.


MILLISECOND = 1_000_000
BEFORE = {"steady": 100, "slower": 50, "rare\x1b[2J": 1}
AFTER = {"steady": 100, "slower": 200, "rare\x1b[2J": 2}


def recorded(path: Path, counts: Mapping[str, int]) -> Path:
    """Write a recording of threads with some samples of a millisecond of CPU time each."""
    built = PerfDataBuilder()
    for number, comm in enumerate(counts):
        tid = 100 + number
        built.record(Comm(0, tid, tid, comm, SampleId(pid=tid, tid=tid, time=1)))
        for time in range(counts[comm]):
            built.sample(pid=tid, tid=tid, time=10 + time * MILLISECOND, period=MILLISECOND)
    path.write_bytes(built.file())
    return path


def window_lines(
    folder: Path, before: Mapping[str, int], after: Mapping[str, int], width: int = 80, *, everything: bool = False
) -> list[str]:
    """Return the lines of a window of this width."""
    reports = []
    for name, counts in (("old.data", before), ("new.data", after)):
        with perfpy.open(recorded(folder / name, counts)) as recording:
            reports.append(recording.report(options=ReportOptions(columns=ColumnOptions(sort="comm"))))
    file = io.StringIO()
    sides = [Side("old.data", "make all", 0.25), Side("new.data", "make all", 0.5)]
    console = Console(file=file, width=width, no_color=True, highlight=False, markup=False)
    show_differences(differences(reports, Compute()), sides, console, everything=everything)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_totals_come_first_then_changes_then_the_hidden_rows(tmp_path: Path) -> None:
    assert window_lines(tmp_path, BEFORE, AFTER) == [
        "After uses 100 % more CPU time than before (65 % to 143 % by sampling, with 95 %",
        "confidence).",
        "The largest change is in slower (+99.3 % of the total before), which costs more.",
        "",
        "before old.data  make all",
        "after  new.data  make all",
        "",
        "cpu-clock:u            before      after     change",
        "  samples                 151        302       +151    2.00x",
        "  cost               151.0 ms   302.0 ms  +151.0 ms    2.00x",
        "  time recorded       0.250 s    0.500 s   +0.250 s    2.00x",
        "",
        "     before      after     change    of all    Command",
        "    50.0 ms   200.0 ms  +150.0 ms*   +33.1%*   slower",
        "   100.0 ms   100.0 ms     0.0 ms    -33.1%*   steady",
        "",
        "*: sampling alone would mark a row in 5 of 100 such tables",
        "1 more row, +1.0 ms in all; --all shows them",
    ]


def test_with_all_rows_changes_come_last(tmp_path: Path) -> None:
    lines = window_lines(tmp_path, BEFORE, AFTER, everything=True)
    assert [line.split()[-1] for line in lines[-3:]] == ["rare^[[2J", "steady", "slower"]


def test_sampling_noise_is_reported(tmp_path: Path) -> None:
    lines = window_lines(tmp_path, BEFORE, {**BEFORE, "steady": 104})
    assert lines[0] == "CPU time: cannot tell; a change of 3 % is within sampling noise."
    assert lines[8].endswith("within noise")
    assert lines[11:] == ["no row changed beyond sampling noise", "3 more rows, +4.0 ms in all; --all shows them"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_lines_fit_the_window(width: int, tmp_path: Path) -> None:
    counts = {"a" * 15: 100, "b" * 15: 1}
    assert max(map(len, window_lines(tmp_path, counts, AFTER, width, everything=True))) <= width


def test_a_renamed_program_is_matched_on_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfpy.cli.output.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    paths = [str(recorded(tmp_path / name, {name: count})) for name, count in (("fast", 50), ("slow", 200))]
    assert run(["diff", "-s", "comm", *paths]) == 0
    assert "    50.0 ms   200.0 ms  +150.0 ms*    +0.0%    fast → slow" in capsys.readouterr().out
    assert run(["diff", "-s", "comm", "--no-ignore-comm", *paths]) == 0
    assert capsys.readouterr().out.count("*  +100.0%*   slow\n") == 1


@pytest.mark.parametrize(
    ("compared", "expected"),
    [
        (200, "Most of what costs more is in validate() and the code it calls: from 33 % to 133 % of the total before."),
        (60, "No function changed beyond sampling noise."),
    ],
)
def test_the_function_whose_callees_changed_is_named(
    compared: int, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Functions of libraries do not change by themselves."""
    monkeypatch.setattr("perfpy.cli.output.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    paths = []
    for name, samples in (("old", 50), ("new", compared)):
        (tmp_path / name).mkdir()
        stacks = [Stack(("strlen@libc.so.6", "validate", "main"), samples), Stack(("memcmp@libc.so.6", "parse", "main"), 100)]
        paths.append(str(sampled_program(tmp_path / name, stacks)))
    page = tmp_path / "page.html"
    assert run(["diff", "--symfs", str(tmp_path / "old"), f"--html={page}", *paths]) == 0
    assert expected in page.read_text(), "the page begins with the same sentences"
    capsys.readouterr()
    assert run(["diff", "--symfs", str(tmp_path / "old"), *paths]) == 0
    assert expected in " ".join(capsys.readouterr().out.split())


def test_filters_select_the_compared_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("perfpy.cli.output.terminal.is_terminal", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    paths = [str(recorded(tmp_path / name, counts)) for name, counts in (("old.data", BEFORE), ("new.data", AFTER))]
    assert run(["diff", "-s", "pid", "--comms", "slower", *paths]) == 0
    output = capsys.readouterr().out
    assert "  cost                50.0 ms   200.0 ms  +150.0 ms    4.00x" in output
    assert "steady" not in output


@pytest.mark.parametrize("output", ["--json", "--html=page.html"])
def test_filters_that_remove_all_samples_are_named(
    output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path / "old.data", {"old": 5})
    recorded(tmp_path / "new.data", {"new": 5})
    assert run(["diff", output, "--comms", "old", "old.data", "new.data"]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first == "perfpy: new.data: the filters leave no samples: --comms old: no such command in this recording; it has new"
    assert run(["diff", "--comms", "old", "old.data", "new.data"]) == 0
    assert capsys.readouterr().err == ""
