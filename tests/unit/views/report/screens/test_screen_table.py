"""Which columns give way where a window is narrow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from perfpy.abi.flags import NATIVE_ENDIAN, SampleType, SoftwareId
from perfpy.abi.records import Comm, Mmap2
from perfpy.abi.waits import IS_WAIT, OFF_CPU_EVENT
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import ChainOptions, ReportOptions
from perfpy.perfdata.container.feature_values import EventDesc
from perfpy.perfdata.container.features import Feature, encode_feature
from perfpy.recording import Recording
from perfpy.views.report.screens.screen import ScreenOptions, show_report
from perfpy.views.report.screens.screen_table import _short_header
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = USUAL | SampleType.IDENTIFIER | SampleType.CALLCHAIN
CLOCK = usual_attr(FIELDS)
WAITS = usual_attr(FIELDS | SampleType.WEIGHT_STRUCT, config=SoftwareId.BPF_OUTPUT, sample_period=1, freq=0)
STATES = ("S (sleeping)", "D (disk sleep)", "R (ready)", "on CPU")
FILES = ("/opt/service/lib/libstorage-engine.so.7.2", "/opt/service/lib/libprotocol-buffers.so.1", "/usr/lib/libc.so.6")


def lines(folder: Path, width: int, *, own_first: bool = True, one_command: bool = False) -> list[str]:
    """The screen of three threads' time on the CPU and off it; names of commands, files and functions are long."""
    built = PerfDataBuilder([CLOCK, WAITS], [(1,), (2,)])
    described = tuple(
        EventDesc(attr, name, ids) for attr, name, ids in zip((CLOCK, WAITS), ("cpu-clock", OFF_CPU_EVENT), built.ids, strict=True)
    )
    built.features[int(Feature.EVENT_DESC)] = encode_feature(Feature.EVENT_DESC, described, NATIVE_ENDIAN)
    for number, file in enumerate(FILES):
        built.record(Comm(0, 7 + number, 7 + number, f"storage-worker{0 if one_command else number}"))
        built.record(Mmap2(2, 7 + number, 7 + number, 0x400000, 0x1000, 0, 0, 0, 0, 0, 5, 2, file, b""))
    for number, state in enumerate("SDR"):
        usual = {
            "pid": 7 + number,
            "tid": 7 + number,
            "misc": 2,
            "callchain": (0x400010 + number,),
            "ip": 0x400010 + number,
            "time": 10 + number,
        }
        built.sample(0, period=1_000_000, **usual)
        built.sample(1, period=9_000_000 - number, weight=0, ins_lat=ord(state), retire_lat=IS_WAIT, **usual)
    (folder / "perf.data").write_bytes(built.file())
    options = ReportOptions(
        columns=ColumnOptions(sort="state,comm,dso,symbol", children=True, metrics=("seconds",)), chains=ChainOptions(children=True)
    )
    screen = io.StringIO()
    with Recording(str(folder / "perf.data")) as recording:
        recording.merge_off_cpu()
        console = Console(file=screen, width=width, height=40, no_color=True, highlight=False, markup=False)
        show_report(recording.report(options=options), recording, console, ScreenOptions(own_first=own_first))
    results = [line.rstrip() for line in screen.getvalue().splitlines()]
    heading = next(number for number, line in enumerate(results) if "State" in line)
    return results[heading : heading + 7]


@pytest.mark.parametrize("width", [80, 90, 100, 120, 160])
def test_states_are_whole_in_every_window(width: int, tmp_path: Path) -> None:
    printed_lines = lines(tmp_path, width)
    text = "\n".join(printed_lines)
    assert all(state in text for state in STATES)
    assert all(len(line) <= width for line in printed_lines)


def test_the_bar_goes_first_then_the_share_that_does_not_sort(tmp_path: Path) -> None:
    narrow, wider, wide = (lines(tmp_path, width, one_command=True) for width in (64, 74, 80))
    assert ("█" in narrow[1], "Children" in narrow[0], "Self" in narrow[0]) == (False, False, True)
    assert ("█" in wider[1], "Children" in wider[0]) == (False, True)
    assert ("█" in wide[1], "Children" in wide[0]) == (True, True)


@pytest.mark.parametrize("width", [80, 100, 130])
def test_tables_of_several_commands_have_no_shares_with_callees(width: int, tmp_path: Path) -> None:
    heading = lines(tmp_path, width)[0]
    assert ("Children" in heading, "Self" in heading) == (False, True)


def test_sort_keys_stay(tmp_path: Path) -> None:
    heading = lines(tmp_path, 80, own_first=False)[0]
    assert "Children" in heading
    assert "Self" not in heading


def table_of_threads(folder: Path, *, of_processes: bool) -> list[list[str]]:
    """Return the commands and shares of a process with two named threads, and of a thread whose process has no name."""
    built = PerfDataBuilder([CLOCK], [(1,)])
    for pid, tid, name in ((7, 7, "server"), (7, 8, "worker-1"), (7, 9, "worker-2"), (20, 21, "alone")):
        built.record(Comm(0, pid, tid, name))
        built.sample(0, pid=pid, tid=tid, misc=2, callchain=(0x400010,), ip=0x400010, time=10 + tid, period=1)
    (folder / "perf.data").write_bytes(built.file())
    options = ReportOptions(columns=ColumnOptions(sort="comm", of_processes=of_processes))
    with Recording(str(folder / "perf.data")) as recording:
        return sorted([row.texts["comm"].strip(), f"{row.percent:.0f}"] for row in recording.report(options=options))


def test_threads_with_names_of_their_own_count_for_their_process(tmp_path: Path) -> None:
    assert table_of_threads(tmp_path, of_processes=True) == [["alone", "25"], ["server", "75"]]
    assert len(table_of_threads(tmp_path, of_processes=False)) == 4


def test_a_long_name_of_a_column_has_a_short_form() -> None:
    assert _short_header("Shared Object", 13) == "Shared Object"
    assert _short_header("Shared Object", 8) == "Object"
    assert _short_header("Shared Object", 4) == "Obj…"
    assert _short_header("Memory access", 8) == "Access"
    assert _short_header("Time of day", 8) == "Time of…"


def test_seconds_end_at_milliseconds(tmp_path: Path) -> None:
    text = "\n".join(lines(tmp_path, 160))
    assert " 0.009 " in text
    assert "0.009000" not in text
