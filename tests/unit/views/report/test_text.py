"""Tests of report -H: each event's table has levels for its own keys, as perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.sort_key import ColumnCell
from perfpy.analysis.sort_keys import sort_key
from perfpy.cli import run
from perfpy.untrusted.terminal import Terminal, escape_of
from perfpy.views.report.text import KeyColumnText, TextOptions, _pad_column, _set, _set_function
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfpy.analysis.report.tables import Histogram


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


# Tests of the columns of a report's table.


class NoRows:
    """A histogram with headings only."""


def heading(width: int) -> str:
    rows: Histogram = NoRows()  # type: ignore[assignment]
    return KeyColumnText(sort_key("symbol"), rows, TextOptions(), width).header()


def test_headings_are_as_wide_as_their_columns():
    assert heading(40) == f"{'Symbol':40}"


def test_headings_above_very_long_names_end_like_perfs():
    """C++ functions have such names; perf writes a heading into 1024 bytes, including a final 0."""
    assert heading(1100) == f"{'Symbol':1023}"


def test_coloured_numbers_are_padded_beside_shorter_ones() -> None:
    """Colours begin with a character that no encoding has: columns are padded without it."""
    cells = [f"{escape_of(Terminal.__new__(Terminal))}[31m 12.00%\x1b[m", " 0.10%"]
    assert _pad_column(cells, 9, numbers=True) == [cells[0], " 0.10%   "]


@pytest.mark.parametrize(
    ("cell", "width", "output"),
    [
        (ColumnCell.CUT, 12, b"comm=w\xc3\xb6rker"),
        (ColumnCell.CUT, 7, b"comm=w\xc3"),
        (ColumnCell.CUT, 40, b"comm=w\xc3\xb6rker-0"),
        (ColumnCell.RIGHT_CUT, 12, b"comm=w\xc3\xb6rker"),
        (ColumnCell.RIGHT_CUT, 16, b"  comm=w\xc3\xb6rker-0"),
        (ColumnCell.RIGHT, 16, b"  comm=w\xc3\xb6rker-0"),
    ],
)
def test_columns_are_truncated_and_padded_by_bytes(cell: ColumnCell, width: int, output: bytes) -> None:
    """Like C's precision and width: a name may end within a character."""
    assert _set("comm=w\u00f6rker-0", cell, width).encode(errors="surrogateescape") == output


@pytest.mark.parametrize(
    ("cell", "width", "output"),
    [
        (ColumnCell.CUT, 9, "[.] inner (inlined)"),
        (ColumnCell.CUT, 7, "[.] inn (inlined)"),
        (ColumnCell.LEFT, 9, "[.] inner (inlined)"),
        (ColumnCell.LEFT, 21, "[.] inner (inlined)  "),
    ],
)
def test_inlined_is_shown_in_narrow_columns(cell: ColumnCell, width: int, output: str) -> None:
    """perf truncates only the name."""
    assert _set_function("[.] inner (inlined)", cell, width) == output
