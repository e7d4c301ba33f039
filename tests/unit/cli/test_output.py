"""Output of the commands: the header, and what a terminal gets."""

from __future__ import annotations

import io
import sys
from types import SimpleNamespace

import pytest

from perfpy.cli.output import terminal
from perfpy.cli.output.header import event_lines
from perfpy.cli.output.terminal import TaskProgress, fit_notes
from perfpy.cli.stat.options import Progress
from perfpy.kernel import sysfs
from tests.builders.perfdata import usual_attr

# `evlist` over --control describes the open events.


def test_the_names_of_pmus_are_read_once_for_all_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer may request this list again and again; each reading of sysfs delays the end of the measurement."""
    reads = []

    class Machine:
        pmus = (SimpleNamespace(type=1, name="software"),)

        def __init__(self) -> None:
            reads.append(1)

    monkeypatch.setattr(sysfs, "Sysfs", Machine)
    events = [SimpleNamespace(name=f"event{number}", attr=usual_attr()) for number in range(10)]
    lines = event_lines(events, "-v").splitlines()  # type: ignore[arg-type]
    assert [line.partition(":")[0] for line in lines] == [event.name for event in events]
    assert all("type: 1 (software)" in line for line in lines)
    assert len(reads) == 1
    assert event_lines(events[:1], "") == "event0"  # type: ignore[arg-type]


# One module chooses between plain text and a view, and decides about colour.


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def stand_before(monkeypatch: pytest.MonkeyPatch, output: io.StringIO) -> None:
    """Lead standard output there, in the test itself: pytest's capture replaces it between a fixture and its test."""
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)


def test_a_terminal_gets_views_and_colour(monkeypatch):
    stand_before(monkeypatch, FakeTerminal())
    assert not terminal.wants_plain(stdio=False)
    assert terminal.wants_colour()
    assert terminal.console().is_terminal


def test_stdio_forces_plain_text_on_a_terminal(monkeypatch):
    stand_before(monkeypatch, FakeTerminal())
    assert terminal.wants_plain(stdio=True)


def test_a_pipe_gets_plain_text(monkeypatch):
    stand_before(monkeypatch, io.StringIO())
    assert terminal.wants_plain(stdio=False)
    assert not terminal.wants_colour()
    assert terminal.wants_colour("always")


def test_a_dumb_terminal_is_none(monkeypatch):
    stand_before(monkeypatch, FakeTerminal())
    monkeypatch.setenv("TERM", "dumb")
    assert terminal.wants_plain(stdio=False)


@pytest.mark.parametrize(("terminal_type", "seen"), [("xterm", True), ("dumb", False)])
def test_lines_are_written_over_only_where_that_can_be_seen(terminal_type, seen, monkeypatch):
    screen = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", terminal_type)
    progress = Progress()
    progress.show(1, 3)
    progress.clear()
    assert ("run 2 of 3" in screen.getvalue()) == seen
    with TaskProgress("reading") as show:
        assert (show is not None) == seen


def test_no_color_is_obeyed_unless_colour_is_demanded(monkeypatch):
    stand_before(monkeypatch, FakeTerminal())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal.wants_colour()
    assert terminal.wants_colour("always")
    assert terminal.console().no_color


def test_an_empty_no_color_counts_as_unset(monkeypatch):
    stand_before(monkeypatch, FakeTerminal())
    monkeypatch.setenv("NO_COLOR", "")
    assert terminal.wants_colour()


def test_never_means_never(monkeypatch):
    stand_before(monkeypatch, FakeTerminal())
    assert not terminal.wants_colour("never")


def test_columns_decides_the_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "123")
    assert terminal.width() == 123


def test_notes_that_do_not_fit_the_screen_are_counted(monkeypatch):
    monkeypatch.setattr(sys, "stderr", FakeTerminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    notes = ["one two three four five", "six", "seven"]
    assert fit_notes(notes, 4) == notes
    assert fit_notes(notes, 3) == ["3 more notes: -v shows them"]
    assert fit_notes([*notes, "eight"], 5) == [*notes, "eight"]
    assert fit_notes(["one", *notes], 4) == ["one", "3 more notes: -v shows them"]
    assert fit_notes(notes, 0) == ["3 more notes: -v shows them"]


def test_deep_indentation_leaves_room_for_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that belong to the last column of a table begin far to the right; a narrow window has no room for that."""
    stand_before(monkeypatch, FakeTerminal())
    monkeypatch.setattr(terminal, "width", lambda: 60)
    lines = [*terminal.wrap_lines([f"{'':44}called from load (importlib/_bootstrap_external.py:1032), main", f"{'':44}short"])]
    assert lines == [f"{'':20}called from load", f"{'':22}(importlib/_bootstrap_external.py:1032),", f"{'':22}main", f"{'':44}short"]
