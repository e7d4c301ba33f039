"""Which columns give way where a window is narrow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import perfpy
from perfpy.abi.flags import NATIVE_ENDIAN, SampleType, SoftwareId
from perfpy.abi.recorded_marks import IS_WAIT, OFF_CPU_EVENT
from perfpy.abi.records import Comm, Mmap2, SampleId
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.perfdata.features import EventDesc, Feature, encode_feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screen import ScreenOptions, show_report
from perfpy.views.report.screen_table import OF_OTHERS, _short_header, call_lines, fit_text, fitted_path, fold_repetitions
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.report.call_trees import CallNode
    from perfpy.analysis.report.tables import Histogram


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


# Tests of shortened names.


NAMES = st.text(st.sampled_from("ab_:é…世界<>"), min_size=1, max_size=40)


@given(NAMES, st.integers(0, 50))
def test_text_fits_and_is_unchanged_if_it_fits_already(name: str, width: int) -> None:
    text = fit_text(name, width)
    assert cell_len(text) <= width
    assert (text == name) == (cell_len(name) <= width)


@given(st.lists(NAMES, min_size=1, max_size=8), st.integers(1, 100))
def test_paths_fit_and_count_the_missing_names(names: list[str], width: int) -> None:
    text = fitted_path(names, " > ", width)
    assert cell_len(text) <= width
    if cell_len(" > ".join(names)) <= width:
        assert text == " > ".join(names)


def test_the_end_of_a_functions_name_and_the_beginning_of_a_files_are_kept() -> None:
    assert fit_text("std::__shared_count<…>::__shared_count(…)", 20) == "std::__…d_count(…)"[:7] + "…" + "red_count(…)"
    assert fit_text("libpython3.11.so.1.0", 12, OF_OTHERS) == "libpyth….1.0"


def test_a_path_keeps_its_first_and_its_last_names() -> None:
    names = ["_start", "__libc_start_main", "__libc_start_call_main", "main"]
    assert fitted_path(names, " > ", 80) == "_start > __libc_start_main > __libc_start_call_main > main"
    assert fitted_path(names, " > ", 45) == "_start > __libc_start_main > (1 more) > main"
    assert fitted_path(names, " > ", 18) == "(3 more) > main"


# Tests of recursive functions in call trees: each is one line.


def test_consecutive_names_are_counted() -> None:
    assert list(fold_repetitions(["main", "walk", "walk", "walk", "leaf", "walk"])) == ["main", "walk  (3 times)", "leaf", "walk"]
    assert list(fold_repetitions([])) == []


@pytest.fixture
def recursive(tmp_path: Path) -> Path:
    """Record main calling walk, and walk calling itself and leaf; leaf is entered from four depths."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("leaf", 0x1000, 0x10).symbol("walk", 0x1010, 0x10).symbol("main", 0x1020, 0x10).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    for depth in range(1, 5):
        chain = [0x401004, *(0x401014 + depth % 2 for _ in range(depth)), 0x401024]
        built.sample(pid=7, tid=7, time=5 + depth, ip=0x401004, period=1, misc=2, callchain=chain)
    built.sample(pid=7, tid=7, time=20, ip=0x401014, period=1, misc=2, callchain=[0x401014, 0x401014, 0x401024])
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path


def histogram(recording: Path, *, as_one: bool, order: str, style: str = "graph") -> Histogram:
    graph = CallGraph(order=order, style=style)
    options = ReportOptions(
        chains=ChainOptions(call_graph=graph, children=True, recursion_as_one=as_one), columns=ColumnOptions(sort="symbol")
    )
    with perfpy.open(recording / "perf.data") as opened:
        return opened.report(options=options, symbols=SymbolOptions(symfs=str(recording), cache=False)).histograms[0]


def lines_of_call_lines(rows: Histogram, function: str) -> list[str]:
    return call_lines(rows, next(entry for entry in rows.visible_entries().tolist() if rows.text("symbol", entry) == f"[.] {function}"))


def shape(nodes: list[CallNode]) -> list[object]:
    return [(node.frames, node.period, node.count, node.child_period, shape(node.children)) for node in nodes]


def test_recursion_that_branches_is_one_line(recursive: Path) -> None:
    rows = histogram(recursive, as_one=True, order="caller")
    assert lines_of_call_lines(rows, "main") == ["100.00%  main", "         walk (recursive)", " 80.00%  leaf"]
    callers = histogram(recursive, as_one=True, order="callee")
    assert lines_of_call_lines(callers, "leaf") == [" 80.00%  leaf", "         walk (recursive)", "         main"]


def test_json_has_all_calls(recursive: Path) -> None:
    assert len(lines_of_call_lines(histogram(recursive, as_one=False, order="caller"), "main")) > 4
    assert "(recursive)" not in "".join(lines_of_call_lines(histogram(recursive, as_one=False, order="caller"), "main"))


def test_merging_recursion_keeps_shares(recursive: Path) -> None:
    rows = [histogram(recursive, as_one=as_one, order="caller") for as_one in (True, False)]
    shares = [[(each.texts["symbol"], each.values["children"], each.percent) for each in one.rows()] for one in rows]
    assert shares[0] == shares[1]


@pytest.mark.parametrize("style", ["graph", "fractal"])
def test_one_rows_tree_is_the_same_without_the_others(recursive: Path, style: str) -> None:
    alone, together = (histogram(recursive, as_one=False, order="caller", style=style) for _ in range(2))
    entries = alone.visible_entries().tolist()
    for entry in entries:
        assert shape(alone.calls(entry, alone=True)) == shape(together.calls(entry))
    assert alone.calls(entries[0], alone=True) is alone.calls(entries[0], alone=True), "made once"
