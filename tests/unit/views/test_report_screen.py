"""Reports on a terminal."""

from __future__ import annotations

import io
import re
from itertools import product
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import perfpy
from perfpy.abi.flags import CONTEXT_USER, NATIVE_ENDIAN, PerfType, SampleType, SoftwareId
from perfpy.abi.perfpy_encodings import IS_WAIT, OFF_CPU_EVENT
from perfpy.abi.records import Comm, Lost, Mmap, Mmap2, SampleId
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, NameOptions, ReportOptions
from perfpy.analysis.verdict.functions import Share
from perfpy.perfdata.header import EventDesc, Feature, encode_feature
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screen import HottestPath, ScreenOptions, Stretch, begins_with_wait, caller_text, hottest_by, show_report
from perfpy.views.report.screen_table import OF_OTHERS, call_lines, fit_text, fitted_path, fold_repetitions, short_header
from perfpy.views.report.text import TextOptions
from perfpy.views.verdict.sentence import Sentence
from tests.builders.annotated import spin_with_lines
from tests.builders.elf import Elf
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.own_corpus import unpack
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr
from tests.builders.sampled_program import Stack, sampled_program

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.analysis.report.call_trees import CallNode
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.report.tables import Histogram


# Tests of the report on a terminal: unshortened numbers, lines within the window, notes first.


PLAIN = ScreenOptions()
OWN = ScreenOptions(own_first=True)
DETAILS = ScreenOptions(own_first=True, details=True)


def window(report: Report, recording: Recording, options: ScreenOptions, width: int, height: int) -> list[str]:
    """Return the lines of a window."""
    file = io.StringIO()
    show_report(report, recording, Console(file=file, width=width, height=height, no_color=True, highlight=False, markup=False), options)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def shown(path: Path, width: int, *, callers: bool = False, options: ScreenOptions = PLAIN, height: int = 40) -> list[str]:
    """Return the lines of a window of this size."""
    with Recording(str(path)) as recording:
        report = recording.report(callers=callers, symbols=SymbolOptions(cache=False, symfs=str(path.parent)))
        file = io.StringIO()
        show_report(
            report, recording, Console(file=file, width=width, height=height, no_color=True, highlight=False, markup=False), options
        )
    return [line.rstrip() for line in file.getvalue().splitlines()]


def test_callers_of_the_kernel_are_those_of_each_process(tmp_path: Path) -> None:
    stacks = [Stack(("finish_task_switch@kernel", "ask"), 100), Stack(("finish_task_switch@kernel", "look"), 60, tid=200, pid=200)]
    path = sampled_program(tmp_path, stacks)
    symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
    with Recording(str(path)) as recording:
        report = recording.report(callers=True, symbols=symbols)
        file = io.StringIO()
        show_report(report, recording, Console(file=file, width=120, height=40, no_color=True, highlight=False, markup=False), PLAIN)
    assert [line.split()[-1] for line in file.getvalue().splitlines() if " finish_task_switch " in line] == ["ask", "look"]


def recording_of_a_script(folder: Path) -> Path:
    """Record four samples in an interpreter, three of them for a function of the script; its perf map is in the folder."""
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (folder / "python").write_bytes(elf.symbol("evaluate", 0x1000, 0x40).build())
    (folder / "tmp").mkdir()
    (folder / "tmp" / "perf-7.map").write_text("700000 100 py::serve:/srv/app.py\n")
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    for start, name in ((0x401000, "/python"), (0x700000, "//anon")):
        built.record(
            Mmap2(
                2, 7, 7, start, 0x1000, 0x1000 if start < 0x700000 else start, 0, 0, 0, 0, 5, 2, name, b"", SampleId(pid=7, tid=7, time=1)
            )
        )
    for moment in range(4):
        chain = [0x401004, 0x700010] if moment else [0x401004]
        built.sample(pid=7, tid=7, time=5 + moment, ip=0x401004, period=1, misc=2, callchain=chain)
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path


def recording_of_two_waits(folder: Path, second: str = "", library: str = "lib", event: str = "") -> Path:
    """Record six samples of `start` calling `save`, four of `main` calling `load`; both wait in `schedule`, called by libraries.

    second: the process's name for the last samples; library: the path of the libraries' file; event: the name of time off the CPU.
    """
    (folder / library).parent.mkdir(parents=True, exist_ok=True)
    for file, names in (("app", ("start", "save", "main", "load", "_ZSt4sortv", "_ZN4core3fmtEv")), (library, ("schedule",))):
        elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
        for number, name in enumerate(names):
            elf.symbol(name, 0x1000 + 0x100 * number, 0x100)
        (folder / file).write_bytes(elf.build())
    of_waits = {"type": PerfType.SOFTWARE, "config": SoftwareId.BPF_OUTPUT} if event else {}
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN, **of_waits)], [(1,)] if event else [])
    if event:
        described = (EventDesc(built.attrs[0], event, (1,)),)
        built.features[int(Feature.EVENT_DESC)] = encode_feature(Feature.EVENT_DESC, described, NATIVE_ENDIAN)
    built.record(Comm(0, 7, 7, "app", SampleId(pid=7, tid=7, time=1)))
    for start, name in ((0x401000, "/app"), (0x601000, f"/{library}")):
        built.record(Mmap2(2, 7, 7, start, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, name, b"", SampleId(pid=7, tid=7, time=1)))
    if second:
        built.record(Comm(0, 7, 7, second, SampleId(pid=7, tid=7, time=10)))
    for moment in range(10):
        caller, calls = (0x401010, 0x401110) if moment < 6 else (0x401210, 0x401310)
        of_libraries = 0x401410 + 0x100 * (moment % 2)
        built.sample(ip=0x601004, pid=7, tid=7, time=5 + moment, period=1, misc=2, callchain=[0x601004, of_libraries, calls, caller])
    (folder / "perf.data").write_bytes(built.file())
    return folder / "perf.data"


@pytest.fixture(scope="session")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of our own recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    unpack(folder)
    return folder


def of_own(own: Path, name: str, width: int = 80, height: int = 40, options: ScreenOptions = OWN) -> list[str]:
    """Return the window of one of our own recordings."""
    symbols = SymbolOptions(cache=False, symfs=str(own / "symfs"), kallsyms=str(own / "kallsyms.x86-64"))
    with Recording(str(own / f"{name}.data")) as recording:
        return window(recording.report(callers=True, symbols=symbols), recording, options, width, height)


def section(lines: list[str], title: str) -> list[str]:
    """Return the lines below a title."""
    start = next(number for number, line in enumerate(lines) if line.startswith(title)) + 1
    return lines[start : lines.index("", start)]


def percents(lines: list[str]) -> list[float]:
    return [float(line.split("%")[0]) for line in lines]


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", ["fp-a", "multi-a", "group-a"])
def test_everything_fits_the_window_with_unshortened_numbers(name: str, width: int, corpus: Path) -> None:
    lines = shown(corpus / "recorded" / f"{name}.data", width, callers=name == "fp-a", options=OWN)
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if re.match(r" *\d+\.\d\d%", line)]
    assert rows
    assert not any(re.match(r"( *[\d.]+%)* *[\d.]*…", line) for line in rows)


def test_functions_are_legible_in_a_narrow_window(tmp_path: Path) -> None:
    """Shares that do not sort the rows, seconds and long names of columns give way to names; the last line fits, too."""
    recording = sampled_program(
        tmp_path, [Stack(("memcpy@libc.so.6", "parse_request", "main"), 60), Stack(("serve_all_clients", "main"), 40)]
    )
    text = shown(recording, 40, callers=True, options=DETAILS)
    assert any(line.split()[:5] == ["Self", "+", "libs", "Object", "Symbol"] for line in text), "\n".join(text)
    assert [line for line in text if "parse_request" in line and "60.00%" in line]
    assert max(map(cell_len, shown(recording, 40, callers=True, options=OWN))) <= 40


@pytest.mark.parametrize("name", ["chains-user", "chains-dwarf", "wide", "context-switches", "page-faults"])
def test_one_event_fits_the_screen_with_the_prompt(name: str, own: Path) -> None:
    symbols = SymbolOptions(cache=False, symfs=str(own / "symfs"), kallsyms=str(own / "kallsyms.x86-64"))
    with Recording(str(own / f"{name}.data")) as recording:
        report = recording.report(callers=True, symbols=symbols)
        for width, height in product((60, 80, 120, 200), (24, 30, 50)):
            lines = window(report, recording, OWN, width, height)
            assert max(map(len, lines)) <= width
            assert len(lines) < height, (width, height)


def test_rows_above_a_limit_are_all_shown_however_low_the_screen(own: Path) -> None:
    every = ScreenOptions(text=TextOptions(percent_limit=1.0), every_row=True)
    low, high = (section(of_own(own, "wide", height=height, options=every), "cpu-clock") for height in (24, 100))
    assert low == high
    assert len(low) > len(section(of_own(own, "wide", height=24), "cpu-clock"))


def test_own_shares_come_first_and_determine_the_order(own: Path) -> None:
    heading, *rows = section(of_own(own, "chains-user"), "task-clock")
    assert heading.split() == ["Self", "Children", "Symbol", "Called", "from", "own", "code"]
    assert percents(rows) == sorted(percents(rows), reverse=True)
    assert rows[0].split()[-2:] == ["spin", "middle"]
    assert min(percents(rows)) > 0  # functions without own samples only call others
    heading, *rows = section(of_own(own, "chains-user", options=PLAIN), "task-clock")
    assert heading.split() == ["Children", "Self", "Symbol", "Called", "from", "own", "code"]
    assert rows[0].split()[-1] == "_start"


@pytest.mark.parametrize(("second", "options", "has_shares"), [("", OWN, True), ("other", OWN, False), ("other", PLAIN, True)])
def test_rows_of_several_commands_have_no_shares_with_callees(
    second: str, options: ScreenOptions, has_shares: bool, tmp_path: Path
) -> None:
    """A function's callers are in rows of several commands; --children shows the column."""
    lines = shown(recording_of_two_waits(tmp_path, second), 80, callers=True, options=options)
    assert ("Children" in section(lines, "cpu-clock")[0]) == has_shares


def test_equal_columns_are_in_the_title(own: Path) -> None:
    lines = of_own(own, "chains-user", width=100)
    title = next(line for line in lines if line.startswith("task-clock:u "))
    assert title == "task-clock:u (CPU time)  342 samples; these rows: Command work, Shared Object work"
    assert not any("Command" in line for line in lines if line != title)


def test_files_and_commands_have_the_shares_of_reports_by_them(own: Path) -> None:
    rows = section(of_own(own, "wide", width=120, options=DETAILS), "hottest commands")
    for key, halves in (("comm", [row[:60] for row in rows]), ("dso", [row[60:] for row in rows])):
        output = {half.split()[-1]: half.split()[0] for half in halves if half.strip()}
        with Recording(str(own / "wide.data")) as recording:
            expected = {row.texts[key].strip().replace(".kallsyms", ""): f"{row.percent:.2f}%" for row in recording.report(by=[key]).top(5)}
        assert output == expected, key
    assert section(of_own(own, "chains-user", options=DETAILS), "hottest files") == ["100.00% ██████ work"]
    assert not any(line.startswith("hottest commands") for line in of_own(own, "chains-user", options=DETAILS))
    assert "hottest files" not in of_own(own, "chains-user"), "among the details"


def test_the_hottest_path_leads_from_the_start_to_the_work(own: Path) -> None:
    path = section(of_own(own, "chains-user", options=DETAILS), "hottest path")
    assert path == ["100.00%  _start → start → once", " 70.76%  outer → middle", " 55.85%  spin"]
    path = section(of_own(own, "chains-user"), "hottest path")
    assert path == ["100.00%  start → once", *[" 70.76%  outer → middle", " 55.85%  spin"]], "own code only"
    assert section(of_own(own, "chains-user", height=24), "hottest path") == path
    assert "hottest path" not in "\n".join(of_own(own, "wide"))


def test_the_path_begins_at_the_start_of_the_program(tmp_path: Path) -> None:
    lines = shown(recording_of_two_waits(tmp_path), 80, callers=True)
    assert any(line.endswith(" schedule") for line in lines)
    assert section(lines, "hottest path") == [" 60.00%  start → save", " 30.00%  schedule"]
    lines = shown(recording_of_two_waits(tmp_path), 80, callers=True, options=ScreenOptions(details=True))
    assert section(lines, "hottest path") == [" 60.00%  start → save", " 30.00%  core::fmt() → schedule"]


def test_the_path_of_waits_says_so(tmp_path: Path) -> None:
    """It stands below a table of CPU time, too."""
    titles = [
        line for line in shown(recording_of_two_waits(tmp_path, event=OFF_CPU_EVENT), 80, callers=True) if line.startswith("hottest path")
    ]
    assert titles == ["hottest path of the waits"]


def test_the_path_of_a_wait_ends_before_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "kallsyms").write_text(
        "".join(f"ffffffff81000{n}00 T {name}\n" for n, name in enumerate(("_text", "sys_futex", "schedule")))
    )
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(
        Mmap(
            1,
            0xFFFFFFFF,
            0,
            0xFFFFFFFF81000000,
            0x1000,
            0xFFFFFFFF81000000,
            "[kernel.kallsyms]_text",
            SampleId(pid=0xFFFFFFFF, tid=0, time=0),
        )
    )
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("save", 0x1000, 0x10).build())
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    chain = [0xFFFFFFFFFFFFFF80, 0xFFFFFFFF81000210, 0xFFFFFFFF81000110, 0xFFFFFFFFFFFFFE00, 0x401004]
    for moment in range(9):
        built.sample(ip=chain[1], pid=7, tid=7, time=5 + moment, period=1, misc=1, callchain=chain)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(str(tmp_path / "perf.data")) as recording:
        symbols = SymbolOptions(cache=False, symfs=str(tmp_path), kallsyms=str(tmp_path / "kallsyms"))
        lines = window(recording.report(callers=True, symbols=symbols), recording, OWN, 80, 40)
    assert any(" schedule " in line and line.endswith(" save") for line in lines), "called from own code, not from the kernel's"
    assert section(lines, "hottest path") == ["100.00%  save"]


def test_functions_of_the_program_are_shown_with_callees(tmp_path: Path) -> None:
    lines = shown(recording_of_two_waits(tmp_path), 80, callers=True, options=DETAILS)
    part = section(lines, "hottest functions of app, including callees")
    assert [line.split()[::2] for line in part] == [["60.00%", "start"], ["60.00%", "save"], ["40.00%", "main"], ["40.00%", "load"]]


@pytest.mark.parametrize("own", [95, 0])
def test_the_hot_function_is_shown_even_with_nearly_all_samples(tmp_path: Path, own: int) -> None:
    """Functions that only lead there are dropped."""
    names = ["main", "run", "work", *(f"part{number}" for number in range(8))]
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    for number, name in enumerate(names):
        elf.symbol(name, 0x1000 + 0x100 * number, 0x100)
    (tmp_path / "app").write_bytes(elf.build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Comm(0, 7, 7, "app", SampleId(pid=7, tid=7, time=1)))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    leading = [0x401210, 0x401110, 0x401010]
    for moment in range(800):
        callee = [] if moment < own * 8 else [0x401310 + 0x100 * (moment % 8)]
        chain = [*callee, *(leading if moment else leading[1:])]
        built.sample(ip=chain[0], pid=7, tid=7, time=5 + moment, period=1, misc=2, callchain=chain)
    (tmp_path / "perf.data").write_bytes(built.file())
    part = section(shown(tmp_path / "perf.data", 80, callers=True, options=DETAILS), "hottest functions of app, including callees")
    assert part[0].split()[::2] == ["99.88%", "work"]
    assert not {"main", "run"} & {line.split()[-1] for line in part}


def test_a_function_that_waited_in_several_states_is_shown_once(tmp_path: Path) -> None:
    with Recording(str(recording_of_two_waits(tmp_path))) as recording:
        symbols = SymbolOptions(cache=False, symfs=str(tmp_path))
        report = recording.report(by=["time", "dso", "symbol", "comm"], callers=True, symbols=symbols)
        lines = window(report, recording, DETAILS, 80, 60)
    part = section(lines, "hottest functions of app, including callees")
    assert [line.split()[::2] for line in part] == [["60.00%", "start"], ["60.00%", "save"], ["40.00%", "main"], ["40.00%", "load"]]


def test_stretches_with_the_smallest_losses_are_merged() -> None:
    stretches = [Stretch((name,), share, " > ") for name, share in (("a", 90.0), ("b", 89.0), ("c", 40.0), ("d", 39.0), ("e", 5.0))]
    assert [(stretch.names, stretch.share) for stretch in HottestPath("", stretches).within(3)] == [
        (("a",), 90.0),
        (("b", "c"), 40.0),
        (("d", "e"), 5.0),
    ]
    assert HottestPath("", stretches).within(5) == stretches
    assert HottestPath("", stretches[:1]).within(3) == stretches[:1]


def test_generated_functions_are_shown_with_callees(tmp_path: Path) -> None:
    lines = "\n".join(
        shown(recording_of_a_script(tmp_path), 80, callers=True, options=DETAILS._replace(text=TextOptions(short_names=True)))
    )
    assert "\nhottest functions of scripts and jitted code, including callees\n 75.00% ██████ serve (app.py)\n" in lines


def test_the_last_line_suggests_the_next_command(own: Path) -> None:
    last = of_own(own, "chains-user", width=120, options=OWN._replace(browser=True))[-1]
    assert last == "next: report -v (kinds of code, files), --tui (browse), --html (flame graph), --stdio (perf's text)"
    assert of_own(own, "chains-user", options=DETAILS)[-1] == "next: report --html (flame graph), --stdio (perf's text)"
    assert re.match(r"next: report -v \(\d+ more rows, kinds of code, files\), --html", of_own(own, "wide", height=24)[-1])


def test_calls_can_be_drawn_as_a_tree(corpus: Path) -> None:
    calls = section(shown(corpus / "recorded" / "fp-a.data", 80, callers=True, options=ScreenOptions(tree=True)), "calls of the first row")
    assert all(re.match(r"( *\d+\.\d\d%| {7})  |\.\.\. ", line) for line in calls)
    assert len(calls) > 3


def test_groups_have_a_column_for_each_member(corpus: Path) -> None:
    lines = shown(corpus / "recorded" / "group-a.data", 120)
    head = next(line for line in lines if line.endswith("Symbol"))
    assert head.split()[:2] == ["cpu-clock", "task-clock"]


def test_a_note_explains_how_to_record_callchains(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).file())
    assert "! no callchains recorded; record with -g to see callers" in shown(path, 100)
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    path.write_bytes(built.sample(pid=1, tid=1, time=5, ip=1, period=1, callchain=[1]).file())
    assert not any(line.startswith("! no callchains") for line in shown(path, 100))


def test_lost_records_are_reported(tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(20).record(Lost(0, 0, 1234, SampleId(pid=1, tid=1, time=1))).file())
    assert any(line.startswith("! 1,234 records were lost") for line in shown(path, 100))


@pytest.mark.parametrize("whole", [False, True])
def test_long_names_are_short_in_rows_and_calls_by_default(tmp_path: Path, whole: bool) -> None:
    options = ScreenOptions(text=TextOptions(short_names=not whole))
    lines = "\n".join(shown(recording_with_long_names(tmp_path), 250, callers=True, options=options))
    for _, long, short in (SORT, OWNER):
        assert (f" {long}\n" in lines, f" {short}\n" in lines) == (whole, not whole)
        assert lines.count(long if whole else short) > 1


def test_frames_without_a_name_are_one_stretch_of_the_path(tmp_path: Path) -> None:
    elf = Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000)
    (tmp_path / "app").write_bytes(elf.symbol("work", 0x1000, 0x10).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, "/app", b"", SampleId(pid=7, tid=7, time=1)))
    for time in range(9):
        built.sample(ip=0x401004, pid=7, tid=7, time=5 + time, period=1, misc=2, callchain=[0x401004, 0x99, 0x98, 0])
    (tmp_path / "perf.data").write_bytes(built.file())
    lines = shown(tmp_path / "perf.data", 80, callers=True, options=ScreenOptions(details=True))
    assert section(lines, "hottest path") == ["100.00%  [unknown] → work"]
    (tmp_path / "app").write_bytes(Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000).build())
    assert "hottest path" not in shown(tmp_path / "perf.data", 80, callers=True), "no name is no path"


def test_code_without_symbols_is_one_row_for_each_file(tmp_path: Path) -> None:
    for name in ("app", "libx.so"):
        (tmp_path / name).write_bytes(Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000).build())
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    for start, name in ((0x401000, "/app"), (0x601000, "/libx.so")):
        built.record(Mmap2(2, 7, 7, start, 0x1000, 0x1000, 0, 0, 0, 0, 5, 2, name, b"", SampleId(pid=7, tid=7, time=1)))
    for time in range(9):
        built.sample(ip=(0x401000 if time % 3 else 0x601000) + 16 * time, pid=7, tid=7, time=5 + time, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    with Recording(str(tmp_path / "perf.data")) as recording:
        options = ReportOptions(names=NameOptions(unnamed_as_one=True))
        report = recording.report(options=options, symbols=SymbolOptions(cache=False, symfs=str(tmp_path)))
        rows = [(row.texts["symbol"], round(row.percent)) for row in report.histograms[0].rows()]
        assert rows == [("[.] code of app without symbols", 67), ("[.] code of libx.so without symbols", 33)]
        addresses = recording.report(symbols=SymbolOptions(cache=False, symfs=str(tmp_path)))
        assert len(addresses.histograms[0]) == 9


@pytest.mark.parametrize(("calls", "text"), [(6, "parse"), (3, "parse (30 %)"), (0, "")])
def test_a_caller_of_few_samples_has_its_share_or_is_not_named(calls: int, text: str) -> None:
    assert caller_text(Share("parse", calls / 10), str) == text


@pytest.mark.parametrize(
    ("width", "title"), [(36, "cpu-clock:u (CPU time)  9 samples"), (72, "cpu-clock:u (CPU time)  9 samples; these rows: Command :7")]
)
def test_common_values_are_never_shortened(width: int, title: str, tmp_path: Path) -> None:
    built = PerfDataBuilder()
    for time in range(9):
        built.sample(ip=0x401004 + time, pid=7, tid=7, time=5 + time, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert next(line for line in shown(tmp_path / "perf.data", width) if line.startswith("cpu-clock")).startswith(title)


def test_a_verdict_on_waits_puts_their_table_first() -> None:
    wait, work = Sentence("longest wait", "", {}), Sentence("hot function", "", {})
    assert begins_with_wait([wait, work])
    assert not begins_with_wait([work, wait])
    assert not begins_with_wait([])


# Summaries beside the rows of a report.


def hottest_files(folder: Path, *stacks: Stack, by: str = "dso,symbol") -> list[tuple[float, str]]:
    path = sampled_program(folder, stacks)
    symbols = SymbolOptions(cache=False, symfs=str(folder), kallsyms=str(folder / "kallsyms"))
    with Recording(str(path)) as recording:
        options = ReportOptions()._replace(columns=ReportOptions().columns._replace(sort=by))
        (histogram,) = recording.report(options=options, symbols=symbols).histograms
        return [(round(share, 1), name) for share, name in hottest_by("dso", histogram)]


PYTHON = [
    Stack(("py::parse:/srv/app.py@jitted-0-1.so",), 40),
    Stack(("py::load:/srv/app.py@jitted-0-1.so",), 20),
    Stack(("py::loads:/usr/lib/python3/json/__init__.py@jitted-0-1.so",), 30),
    Stack(("memcpy@libc.so.6",), 10),
]


def test_python_functions_count_for_their_source_files(tmp_path: Path) -> None:
    assert hottest_files(tmp_path, *PYTHON) == [(60.0, "app.py"), (30.0, "json/__init__.py"), (10.0, "libc.so.6")]


def test_without_functions_python_is_one_file(tmp_path: Path) -> None:
    shares = hottest_files(tmp_path, *PYTHON, by="comm,dso")
    assert [share for share, _ in shares] == [90.0, 10.0]
    assert "app.py" not in dict(shares).values()


def test_c_functions_that_python_called_count_for_their_module(tmp_path: Path) -> None:
    called = [("re.Pattern.sub:<built-in>", 40), ("sorted:<built-in>", 30), ("add:<built-in, by its call>", 20)]
    shares = hottest_files(tmp_path, *(Stack((f"py::{name}@jitted-0-1.so",), count) for name, count in called))
    assert shares == [(44.4, "re (C)"), (33.3, "builtins (C)"), (22.2, "unknown module (C)")]


def test_hostile_names_of_source_files_are_visible(tmp_path: Path) -> None:
    ((_, name),) = hottest_files(tmp_path, Stack(("py::f:/srv/a\x1b[2J.py@jitted-0-1.so",), 9))
    assert name == "a^[[2J.py"


# Tests of what the rows tell about functions: the source line at which they have most samples.


def rows(folder: Path, *stacks: Stack, options: ScreenOptions = OWN, height: int = 40) -> str:
    """Return the screen of an invented program, whose functions begin in line 39; the line of a frame is 40 plus its offset."""
    path = sampled_program(folder, stacks)
    with Recording(str(path)) as recording:
        report = recording.report(callers=True, symbols=SymbolOptions(cache=False, symfs=str(folder), kallsyms=str(folder / "kallsyms")))
        table = report.histograms[0].locations

        def lines(frames: NDArray[np.int64], are_callers: NDArray[np.bool_]) -> list[tuple[str, int] | None]:
            offsets = table.address[frames] % 0x100 - are_callers
            return [("/src/\x1b[2Ja.c", 40 + int(offset)) for offset in offsets]

        report.find_lines = lines
        report.find_begins = lambda functions: dict.fromkeys(functions, ("/src/\x1b[2Ja.c", 39))
        file = io.StringIO()
        show_report(report, recording, Console(file=file, width=100, height=height, color_system=None), options)
    return file.getvalue()


def test_own_functions_have_their_hottest_line(tmp_path: Path) -> None:
    text = rows(tmp_path, Stack(("scan+3", "main"), 30), Stack(("scan+7", "main"), 60), Stack(("memcpy@libc.so.6", "copy+32", "main"), 10))
    assert "scan (^[[2Ja.c:47, 60 %)" in text, "the heavier of two lines with its own share; names of files are data"
    assert "memcpy (" not in text, "lines of libraries say nothing about the program"


@pytest.mark.parametrize(("path", "text"), [("/lib/libspin.so.1", "helper (inlined in spin())"), ("/bin/spin", "helper (inlined)")])
def test_rows_of_code_inlined_in_a_library_name_the_function_of_the_headline(tmp_path: Path, path: str, text: str) -> None:
    """Sentences name the library's function, sin(), while perf's rows name code that is inlined in it."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    ids = {"pid": 7, "tid": 7, "time": 100}
    built.record(Comm(0, 7, 7, "spin", SampleId(**ids)))
    built.record(Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 8, 1, 99, 0, 5, 2, path, b"", SampleId(**ids)))
    for time in range(200, 300):
        chain = (CONTEXT_USER, 0x401012)
        built.sample(0, misc=2, ip=0x401012, pid=7, tid=7, time=time, period=1000, callchain=chain)
    spin_with_lines(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libspin.so.1").write_bytes((tmp_path / "bin" / "spin").read_bytes())
    (tmp_path / "perf.data").write_bytes(built.file())
    lines = shown(tmp_path / "perf.data", 100, callers=True, options=OWN)
    assert [line for line in lines if re.search(f" {re.escape(text)}( |$)", line) and "█" in line], "\n".join(lines)


def test_code_of_the_kernel_has_no_line(tmp_path: Path) -> None:
    text = rows(tmp_path, Stack(("clear_page@kernel", "touch", "main"), 10))
    assert not [line for line in text.splitlines() if "clear_page" in line and "a.c" in line]


def test_own_functions_have_the_share_of_the_headline(tmp_path: Path) -> None:
    """With the library and kernel code that they call; the rows are sorted by it, and own code is what others are called from."""
    stacks = [
        Stack(("memcpy@libc.so.6", "copy", "main"), 50),
        Stack(("lll_lock_wait@libc.so.6", "pthread_mutex_lock@libc.so.6", "save", "main"), 20),
        Stack(("save", "main"), 10),
        Stack(("main",), 20),
    ]
    heading, *table = section([line.rstrip() for line in rows(tmp_path, *stacks).splitlines()], "task-clock")
    assert heading.split()[:3] == ["Self", "With", "libraries"]
    assert " copy (" in table[0], "the headline's function comes first"
    assert re.findall(r"[\d.]+%", table[0]) == ["0.00%", "50.00%"]
    (of_save,) = [line for line in table if " save (" in line]
    assert re.findall(r"[\d.]+%", of_save) == ["10.00%", "30.00%"]
    (of_lock,) = [line for line in table if "lll_lock_wait" in line]
    assert re.findall(r"[\d.]+%", of_lock) == ["20.00%"]
    assert of_lock.endswith(" save"), "not the function of a library"
    assert "Children" not in heading


def test_shares_with_libraries_are_those_of_each_command(tmp_path: Path) -> None:
    """Rows of several commands divide a function."""
    path = recording_of_two_waits(tmp_path, "other", "usr/lib/libevents.so.1")
    _, *table = section(shown(path, 100, callers=True, options=OWN), "cpu-clock")
    shares = {
        tuple(re.findall(r"app|other|save|load", line)[::2]): re.findall(r"[\d.]+%", line) for line in table if "schedule" not in line
    }
    assert shares == {("app", "save"): ["0.00%", "50.00%"], ("other", "load"): ["0.00%", "40.00%"], ("other", "save"): ["0.00%", "10.00%"]}


def test_callers_are_those_of_each_command(tmp_path: Path) -> None:
    """A function of the kernel that two programs use has a row, and a caller, for each of them."""
    text = rows(tmp_path, Stack(("switch@kernel", "ask"), 60), Stack(("switch@kernel", "look"), 40, tid=200, pid=200))
    assert [line.split()[-1] for line in text.splitlines() if " switch " in line] == ["ask", "look"]


def test_the_path_shrinks_and_goes_before_rows_do(tmp_path: Path) -> None:
    """Otherwise the answer would scroll away first."""
    stacks = [Stack((f"part{number}", "work", "run", "main"), 8) for number in range(12)]
    stacks += [Stack(("work", "run", "main"), 5), Stack(("run", "main"), 5), Stack(("main",), 5)]
    sizes = []
    for height in (40, 24, 22, 18):
        lines = [line.rstrip() for line in rows(tmp_path, *stacks, height=height).splitlines()]
        assert len(lines) < height
        path = section(lines, "hottest path") if "hottest path" in lines else []
        sizes.append((len(section(lines, "task-clock")) - 1, len(path)))
    assert sizes == [(10, 3), (9, 2), (7, 2), (7, 0)]


def test_a_headline_on_a_function_and_its_callees_has_the_first_row(tmp_path: Path) -> None:
    verdict = [Sentence("hot tree", "", {}, {"function": "parse"})]
    stacks = [Stack((f"part{number}", "parse", "main"), 6) for number in range(10)]
    text = rows(tmp_path, *stacks, Stack(("main",), 40), options=OWN._replace(verdict=verdict))
    heading, first, *_ = section([line.rstrip() for line in text.splitlines()], "task-clock")
    assert heading.split()[:2] == ["Self", "Children"]
    assert re.findall(r"[\d.]+%", first) == ["0.00%", "60.00%"]
    assert " parse" in first


def test_a_shell_that_only_starts_the_program_has_no_functions_of_its_own(tmp_path: Path) -> None:
    small = rows(tmp_path, Stack(("run", "main"), 4), Stack(("memcpy@libc.so.6",), 96), options=DETAILS)
    large = rows(tmp_path, Stack(("run", "main"), 10), Stack(("memcpy@libc.so.6",), 90), options=DETAILS)
    assert "hottest functions of app" not in small
    assert "hottest functions of app" in large


# Which columns give way where a window is narrow.


FIELDS = USUAL | SampleType.IDENTIFIER | SampleType.CALLCHAIN
CLOCK = usual_attr(FIELDS)
WAITS = usual_attr(FIELDS | SampleType.WEIGHT_STRUCT, config=SoftwareId.BPF_OUTPUT, sample_period=1, freq=0)
STATES = ("S (sleeping)", "D (disk sleep)", "R (ready)", "on CPU")
FILES = ("/opt/service/lib/libstorage-engine.so.7.2", "/opt/service/lib/libprotocol-buffers.so.1", "/usr/lib/libc.so.6")


def waiting_threads(folder: Path, *, one_command: bool = False) -> str:
    """Write three threads' time on the CPU and off it, and return the path; names of commands, files and functions are long."""
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
    return str(folder / "perf.data")


def lines(folder: Path, width: int, *, own_first: bool = True, one_command: bool = False) -> list[str]:
    """The table of their states in a window."""
    path = waiting_threads(folder, one_command=one_command)
    options = ReportOptions(
        columns=ColumnOptions(sort="state,comm,dso,symbol", children=True, metrics=("seconds",)), chains=ChainOptions(children=True)
    )
    screen = io.StringIO()
    with Recording(path) as recording:
        recording.merge_off_cpu()
        console = Console(file=screen, width=width, height=40, no_color=True, highlight=False, markup=False)
        show_report(recording.report(options=options), recording, console, ScreenOptions(own_first=own_first))
    results = [line.rstrip() for line in screen.getvalue().splitlines()]
    heading = next(number for number, line in enumerate(results) if "State" in line)
    assert any(line.startswith("cpu-clock + offcpu-time (CPU time and waits)") for line in results)
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


def test_the_table_of_waits_tells_which_share_is_for_a_cpu(tmp_path: Path) -> None:
    screen = io.StringIO()
    with Recording(waiting_threads(tmp_path)) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="state,symbol")))
        show_report(report, recording, Console(file=screen, width=100, height=40, no_color=True), ScreenOptions(own_first=True))
    titles = [line for line in screen.getvalue().splitlines() if " samples" in line and ("CPU time" in line or "waits" in line)]
    assert titles[0].startswith("cpu-clock (CPU time)  3 samples")
    assert "for a CPU" not in titles[0]
    assert titles[1].startswith(f"{OFF_CPU_EVENT} (waits)  3 samples, 33 % of the time for a CPU")


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
    assert short_header("Shared Object", 13) == "Shared Object"
    assert short_header("Shared Object", 8) == "Object"
    assert short_header("Shared Object", 4) == "Obj…"
    assert short_header("Memory access", 8) == "Access"
    assert short_header("Time of day", 8) == "Time of…"


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
