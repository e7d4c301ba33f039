"""The report on a terminal: numbers whole, lines within the window, what the recording lacks said first."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Lost
from perfpy.abi.sample_id import SampleId
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.screen import show_report
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

PLAIN = TextOptions()


def shown(path: Path, width: int, *, callers: bool = False, options: TextOptions = PLAIN) -> list[str]:
    """The lines of a window so many columns wide."""
    with Recording(str(path)) as recording:
        report = recording.report(callers=callers, symbols=SymbolOptions(cache=False, symfs=str(path.parent)))
        file = io.StringIO()
        show_report(report, recording, Console(file=file, width=width, no_color=True, highlight=False, markup=False), options)
    return file.getvalue().splitlines()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", ["fp-a", "multi-a", "group-a"])
def test_tables_fit_the_window_with_whole_numbers(name: str, width: int, corpus: Path) -> None:
    path = corpus / "recorded" / f"{name}.data"
    lines = [line for line in shown(path, width, callers=name == "fp-a") if not line.startswith(("!", "..."))]
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if re.match(r" *\d+\.\d\d%", line)]
    assert rows
    assert not any(re.match(r"( *[\d.]+%)* *[\d.]*…", line) for line in rows)


def test_calls_are_drawn_with_their_shares_in_front(corpus: Path) -> None:
    lines = shown(corpus / "recorded" / "fp-a.data", 80, callers=True)
    calls = lines[lines.index("calls of the first row:") + 1 :]
    assert all(re.match(r"( *\d+\.\d\d%| {7})  |\.\.\. ", line) for line in calls)
    assert len(calls) > 3


def test_groups_have_a_column_for_each_member(corpus: Path) -> None:
    lines = shown(corpus / "recorded" / "group-a.data", 120)
    head = next(line for line in lines if "Command" in line)
    assert head.split("Command")[0].split() == ["cpu-clock", "task-clock"]


def test_without_callchains_the_way_to_get_them_is_named(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).file())
    assert "! no callchains were recorded: -g shows who calls what" in shown(path, 100)
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    path.write_bytes(built.sample(pid=1, tid=1, time=5, ip=1, period=1, callchain=[1]).file())
    assert not any(line.startswith("! no callchains") for line in shown(path, 100))


def test_records_that_were_lost_are_told_of(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).record(Lost(0, 0, 1234, SampleId(pid=1, tid=1, time=1))).file())
    assert any(line.startswith("! 1,234 records were lost") for line in shown(path, 100))


@pytest.mark.parametrize("whole", [False, True])
def test_long_names_are_short_in_rows_and_calls_unless_asked_for(tmp_path: Path, whole: bool) -> None:
    options = TextOptions(short_names=not whole)
    lines = "\n".join(shown(recording_with_long_names(tmp_path), 250, callers=True, options=options))
    for _, long, short in (SORT, OWNER):
        assert (f"[.] {long}" in lines, f"[.] {short}" in lines) == (whole, not whole)
        assert lines.count(long if whole else short) > 1
