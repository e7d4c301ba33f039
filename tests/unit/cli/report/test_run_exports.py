"""`perfpy report --folded`, `--event`: stacks of one event at a time, because folded lines have no units."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.annotated import recording, spin_with_lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def two_events(tmp_path: Path) -> list[str]:
    """A recording of cpu-clock and, with periods twice as large, task-clock; options that read it without files."""
    (tmp_path / "perf.data").write_bytes(recording(2))
    return ["report", "-q", "--symfs", str(tmp_path), "-i", str(tmp_path / "perf.data")]


def total(text: str) -> int:
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def test_folded_lines_of_several_events_are_not_added_up(two_events: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*two_events, "--folded"]) == 0
    assert total(capsys.readouterr().out) == 13 * 1000


def test_the_others_have_a_file_each(two_events: list[str], tmp_path: Path) -> None:
    assert run([*two_events, f"--folded={tmp_path}/stacks.txt"]) == 0
    assert total((tmp_path / "stacks.txt").read_text()) == 13 * 1000
    assert total((tmp_path / "stacks-task-clock:u.txt").read_text()) == 13 * 2000
    assert sorted(file.name for file in tmp_path.glob("stacks*")) == ["stacks-task-clock:u.txt", "stacks.txt"]


def test_one_event_can_be_chosen(two_events: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*two_events, "--event", "task-clock", "--folded"]) == 0
    assert total(capsys.readouterr().out) == 13 * 2000
    assert run([*two_events, "--event", "task-clock", "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["name"] for table in events if table["rows"] for event in table["events"]] == ["task-clock:u"]


def test_an_event_that_was_not_recorded_is_reported(two_events: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*two_events, "--event", "cycles", "--folded"]) == 129
    assert "no event 'cycles' in the recording; its events: cpu-clock:u, task-clock:u" in capsys.readouterr().err


def test_speedscope_has_the_lines_where_functions_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spin_with_lines(tmp_path)
    assert run(["report", "-q", "--symfs", str(tmp_path), "-i", str(tmp_path / "perf.data"), "--speedscope=-"]) == 0
    frames = json.loads(capsys.readouterr().out)["shared"]["frames"]
    assert {"name": "spin", "file": f"{tmp_path}/a.c", "line": 2} in frames
    assert {"name": "helper", "file": f"{tmp_path}/b.h"} in frames
