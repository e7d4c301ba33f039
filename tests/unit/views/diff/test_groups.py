"""Tests of two groups on a terminal: changes are shown, the rest is counted; lines fit the window."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

import perfpy
from perfpy.analysis.group_differences import ComparedRows, GroupChanges, GroupRow, GroupSide
from perfpy.views.diff.groups import group_lines, group_page, show_groups
from tests.builders.hosts import group
from tests.builders.stacks import stacks

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
