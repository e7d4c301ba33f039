"""Tests of report -H: each event's table has levels for its own keys, as perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RAISE, IDLE = "irq:softirq_raise", "power:cpu_idle"


@pytest.fixture
def text_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Return the rows of a report of two threads' soft interrupts, and of idle states."""
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    recording = EventRecording([RAISE, IDLE], comms={100: "worker1", 101: "worker2"})
    for time, (tid, vector) in enumerate([(100, 1), (100, 1), (101, 1), (101, 9)], 10):
        recording.event(RAISE, time, vector, tid=tid)
    for time, state in enumerate((2, 2, 3), 20):
        recording.event(IDLE, time, state, 0, tid=100)
    path = tmp_path / "perf.data"
    path.write_bytes(recording.file())

    def rows(*args: str) -> str:
        run(["report", "--stdio", "-i", str(path), *args])
        output = capsys.readouterr()
        assert not output.err
        return output.out

    return rows


BY_VECTOR = """\
    75.00%     1
       50.00%     worker1
       25.00%     worker2
    25.00%     9
       25.00%     worker2


   100.00%  worker1


"""
IN_COLUMNS = """\
 50.00% , 2          ,worker1,1
 25.00% , 1          ,worker2,9
 25.00% , 1          ,worker2,1


 100.00%, 3          ,worker1
    66.67% , 2          ,2
    33.33% , 1          ,3


"""


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("-s", "vec,comm"), BY_VECTOR),
        (("-s", "vec,comm,vec"), BY_VECTOR),  # a key that is named twice has one level
        (("-s", "{comm,vec},cpu_idle.state,comm", "-n", "-t,"), IN_COLUMNS),
    ],
)
def test_a_tables_levels_are_its_own_events_keys(args: tuple[str, ...], text: str, text_of: Callable[..., str]) -> None:
    assert text_of("-H", "-q", *args) == text


def test_only_a_tables_own_keys_are_in_its_header(text_of: Callable[..., str]) -> None:
    headers = [line for line in text_of("-H", "-s", "vec,comm").splitlines() if "Overhead" in line]
    assert headers == ["#    Overhead  vec / Command", "# Overhead  Command"]


@pytest.mark.parametrize("keys", ["vec", "sample,period"])
def test_a_table_without_keys_has_one_row(keys: str, text_of: Callable[..., str]) -> None:
    """All keys are fields of other events, or numbers; also -H --raw-trace without formats of the tracepoints."""
    assert text_of("-H", "-q", "-s", keys).splitlines()[-3].split()[0] == "100.00%"
