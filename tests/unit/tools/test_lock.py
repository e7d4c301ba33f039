"""Tests of `perfpy lock contention -o`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.cli import run
from tests.builders.kernel_events import recording_of_locks
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

_TABLE = """\
 contended   total wait          pid   owner

        10     86.42 ms          100   alpha
         9     33.33 ms          102   gamma
         9     32.10 ms          101   beta
         1      1.23 ms           -1   Unknown
"""


def test_the_owners_of_locks_are_shown_as_threads(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_locks())
    assert run(["lock", "contention", "-o", "-F", "contended,wait_total", "-i", str(path)]) == 0
    assert capsys.readouterr().err == _TABLE


def test_a_recording_without_wakeups_names_the_line_that_records_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    recording = EventRecording(["lock:contention_begin", "lock:contention_end"])
    recording.event("lock:contention_begin", 10**9, 5, 1, tid=100).event("lock:contention_end", 10**9 + 9, 5, 0, tid=100)
    path = tmp_path / "perf.data"
    path.write_bytes(recording.file())
    assert run(["lock", "contention", "-o", "-i", str(path)]) == 0
    error = capsys.readouterr().err
    assert "perfpy lock record -e sched:sched_waking -- COMMAND" in error
    assert "-1   Unknown" in error


def test_one_kind_of_row_excludes_another(capsys: pytest.CaptureFixture[str]):
    assert run(["lock", "contention", "-o", "-t"]) == 129
    assert "-t, -l and -o exclude each other" in capsys.readouterr().err
