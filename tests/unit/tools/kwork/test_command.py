"""Tests of `perfpy kwork`: names, filters and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.kernel_events import recording_of_work
from tests.builders.terminals import on_terminal
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A recording of work."""
    file = tmp_path / "perf.data"
    file.write_bytes(recording_of_work())
    return str(file)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("report -s avg", "-s avg: unknown sort key; expected runtime, max, count"),
        ("-k disk report", "-k disk: unknown kind of work; expected irq, softirq, workqueue, sched"),
        ("report -C x", "-C 'x': 'x' is neither a CPU nor a range of CPUs such as 0-3"),
        ("-k irq top", "kwork top needs switches; add sched to -k"),
        ("report -b", "needs perf's BPF programs"),
    ],
)
def test_a_wrong_line_is_refused(line, message, path, capsys):
    assert run(["kwork", *line.split(), "-i", path]) == 129
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("action", "kinds"), [("report", "irq,softirq,workqueue"), ("top", "irq,softirq,workqueue,sched")])
def test_a_recording_without_the_tracepoints_is_refused_with_the_line_that_records_them(action, kinds, tmp_path, capsys):
    file = tmp_path / "perf.data"
    file.write_bytes(EventRecording(["kmem:kfree"]).event("kmem:kfree", 10**9, 1, 2).file())
    assert run(["kwork", action, "-i", str(file)]) == 129
    assert f"perfpy kwork -k {kinds} record -- COMMAND" in capsys.readouterr().err


def test_options_before_the_action_keep_their_meaning(path, capsys):
    """In timehist itself, -k is the kernel's image."""
    assert run(["kwork", "-k", "softirq", "timehist", "-i", path]) == 0
    output = capsys.readouterr().out
    assert "(s)RCU:9" in output
    assert "eth0" not in output


def test_a_hostile_handler_cannot_control_a_terminal(tmp_path):
    recording = EventRecording(["irq:irq_handler_entry", "irq:irq_handler_exit"])
    recording.event("irq:irq_handler_entry", 10**9, 5, b"\x1b]0;x\x07a\nb").event("irq:irq_handler_exit", 10**9 + 5, 5, 1)
    file = tmp_path / "perf.data"
    file.write_bytes(recording.file())
    terminal = on_terminal("--no-pager", "kwork", "report", "-i", str(file), columns=200)
    assert "\x1b]0;" not in terminal.text
    assert "^[]0;x^Ga^Jb:5" in terminal.text
