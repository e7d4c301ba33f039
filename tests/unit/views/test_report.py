"""Reports as text and in notebooks."""

from __future__ import annotations

import colorsys
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_USER, SampleType
from perfpy.abi.records import SampleId
from perfpy.analysis.report.call_trees import CallNode
from perfpy.analysis.report.options import CallGraph, ColumnOptions, ReportOptions, RowOptions
from perfpy.analysis.sort_key import ColumnCell
from perfpy.analysis.sort_keys import sort_key
from perfpy.analysis.verdict.categories import INTERPRETER, OWN
from perfpy.cli import run
from perfpy.perfdata.header import EventDesc, EventGroup, Feature
from perfpy.untrusted.terminal import Terminal, escape_of
from perfpy.views.report import notebook
from perfpy.views.report.callchain_text import ChainWriter, Stem
from perfpy.views.report.text import (
    KeyColumnText,
    TextOptions,
    _decoded,
    _piece_of,
    _set,
    _set_function,
    key_texts,
    report_lines,
)
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.stacks import stacks
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfpy.analysis.report.tables import Histogram


# The widths of columns.


@pytest.mark.parametrize(("samples", "width"), [(1, 13), (2, 14)])
def test_dynamic_texts_have_their_bytes_width_once_rows_were_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], samples: int, width: int
) -> None:
    """The bytes of a text end with a NUL. perf does not see them where there is a single sample."""
    built = EventRecording(["irq:irq_handler_entry"])
    for number in range(samples):
        built.event("irq:irq_handler_entry", 10 + number, 36, b"virtio1-req.0")
    (tmp_path / "perf.data").write_bytes(built.file())
    run(["report", "-f", "--stdio", "-s", "irq_handler_entry.name", "-i", str(tmp_path / "perf.data")])
    assert f"# ........  {width * '.'}\n" in capsys.readouterr().out


# Which rows are printed, and in which order.


def rows_of(tmp_path: Path, capsys: pytest.CaptureFixture[str], *words: str) -> list[list[str]]:
    """Return the words of the rows that a report prints, by table."""
    run(["report", "-f", "--stdio", "-i", str(tmp_path / "perf.data"), *words])
    tables = capsys.readouterr().out.split("# Samples:")[1:]
    return [[" ".join(line.split()) for line in table.splitlines()[1:] if line and not line.startswith("#")] for table in tables]


@pytest.mark.parametrize("words", [[], ["--hierarchy"]])
@pytest.mark.parametrize(("index", "of_group"), [(0, ["1::1", "2::2"]), (1, ["2::2", "1::1"]), (2, ["1::1", "2::2"])])
def test_events_outside_of_groups_are_sorted_by_themselves(
    index: int, of_group: list[str], words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--group-sort-idx applies only to groups that have an event with this index."""
    names = ("first", "second", "alone")
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.IDENTIFIER) for _ in names], [(number,) for number in range(1, 4)])
    built.feature(Feature.EVENT_DESC, [EventDesc(attr, name, ids) for attr, name, ids in zip(built.attrs, names, built.ids, strict=True)])
    built.feature(Feature.GROUP_DESC, [EventGroup("{anon_group}", 0, 2)])
    for event, periods in enumerate([(5, 3), (2, 4), (6, 7)]):
        for pid, period in enumerate(periods, 1):
            built.sample(event, ip=0x1000, pid=pid, tid=pid, time=10 + event, period=period, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    group, alone = rows_of(tmp_path, capsys, "-s", "pid", "--group-sort-idx", str(index), *words)
    assert [row.split()[-1] for row in group] == of_group
    assert [row.split()[-1] for row in alone] == ["2::2", "1::1"]


@pytest.mark.parametrize("words", [[], ["--hierarchy"]])
def test_a_share_that_reaches_the_limit_in_32_bits_is_printed(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in perf: 4.99999986 % is 5 %."""
    built = PerfDataBuilder()
    for pid, period in ((1, 95_020_523), (2, 5_001_080)):
        built.sample(ip=1, pid=pid, tid=pid, time=10, period=period, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert rows_of(tmp_path, capsys, "-s", "pid", "--percent-limit", "5", *words) == [["95.00% 1::1", "5.00% 2::2"]]
    assert rows_of(tmp_path, capsys, "-s", "pid", "--percent-limit", "5.000001", *words) == [["95.00% 1::1"]]


# Processes on screens, by their command lines.


def test_processes_are_named_on_screens_only(tmp_path: Path) -> None:
    """perf's text keeps the comm. Threads have their own comm."""
    built = PerfDataBuilder()
    for tid in (7, 8):
        built.record(records.Comm(0, 7, tid, "gunicorn", SampleId(pid=7, tid=tid, time=1)))
        built.sample(ip=1, pid=7, tid=tid, time=10, period=9 - tid, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    with perfpy.open(tmp_path / "perf.data") as recording:
        (histogram,) = recording.report(["pid"]).histograms
    rows = histogram.visible_entries()
    names = {7: "gunicorn: worker 2"}
    assert key_texts("pid", histogram, rows, TextOptions(process_names=names)) == ["      7:gunicorn: worker 2", "      8:gunicorn"]
    assert key_texts("pid", histogram, rows, TextOptions()) == ["      7:gunicorn", "      8:gunicorn"]


# Tests of report -H: each event's table has levels for its own keys, as perf 6.12's.


def test_levels_have_the_order_of_perfs_tree(tmp_path: Path) -> None:
    """Rows of equal shares stand as in other reports: perf compares addresses whatever their files, and functions by these."""
    built = PerfDataBuilder()
    elf = tmp_path / "named"
    elf.write_bytes(Elf().text(0x1000, size=0x1000).segment(0x1000, 0x1000, 0x1000).symbol("save", 0x1000, 0x40).build())
    for number, name in enumerate(("/missing/first", str(elf), "/missing/second")):
        built.record(records.Mmap(0, 7, 7, 0x10000 * (number + 1), 0x10000, 0, name, SampleId(7, 7, 1)))
    for time, ip in enumerate((0x10300, 0x30100, 0x10500, 0x30400, 0x21004)):
        built.sample(ip=ip, pid=7, tid=7, time=10 + time, period=5, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())

    def addresses(*, hierarchy: bool) -> list[str]:
        options = ReportOptions(columns=ColumnOptions(sort="symbol"), rows=RowOptions(hierarchy=hierarchy))
        with perfpy.open(tmp_path / "perf.data") as recording:
            lines = list(report_lines(recording.report(options=options), TextOptions()))
        return [line.split()[-1] for line in lines if "0x" in line]

    assert addresses(hierarchy=True) == addresses(hierarchy=False)
    assert len(addresses(hierarchy=True)) == 4


@pytest.fixture
def equal_shares(tmp_path: Path) -> Path:
    """Record two threads' functions of equal shares; perf places them by their order in its tree of entries.

    "call" precedes its callee "apply" in one thread, and this precedes the function "begin" of the other thread by name,
    and "begin" the function "call".
    """
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN)])
    first = Elf().text(0x3000).segment(0x3000, 0x3000, 0x1000)
    second = Elf().text(0x1000).segment(0x1000, 0x1000, 0x1000).symbol("begin", 0x1000, 0x40).symbol("leaf", 0x1800, 0x40)
    for number, name in enumerate(("apply", "call", "leaf")):
        first.symbol(name, 0x3000 + 0x400 * number, 0x40)
    for base, name, elf in ((0x100000, "first", first), (0x200000, "second", second)):
        (tmp_path / name).write_bytes(elf.build())
        built.record(records.Mmap(2, 7, 7, base, 0x10000, 0, str(tmp_path / name), SampleId(7, 7, 1)))
    for tid, chain in ((7, [0x103804, 0x103004, 0x103404]), (8, [0x201804, 0x201004])):
        built.sample(ip=chain[0], pid=7, tid=tid, time=10 + tid, period=5, misc=2, callchain=[CONTEXT_USER, *chain])
    (tmp_path / "perf.data").write_bytes(built.file())
    return tmp_path / "perf.data"


@pytest.mark.parametrize("verbose", [(), ("-v",)])
@pytest.mark.parametrize(
    ("columns", "order"),
    [
        # functions alone are compared by files first
        (("-s", "sym"), ["begin", "call", "apply"]),
        (("-s", "symoff"), ["call", "apply", "begin"]),
        # the key dso compares files later
        (("-s", "sym,dso"), ["call", "apply", "begin"]),
        (("-s", "sym,comm,dso"), ["call", "apply", "begin"]),
        (("-s", "symoff,dso"), ["apply", "begin", "call"]),
        (("-s", "dso,sym"), ["call", "apply", "begin"]),
        # perf overlooks the key dso of -F
        (("-F", "overhead_children,overhead,sym,dso"), ["begin", "call", "apply"]),
    ],
)
def test_functions_of_equal_shares_have_the_order_of_perfs_tree(
    columns: tuple[str, ...], order: list[str], verbose: tuple[str, ...], equal_shares: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the key dso, perf compares functions by their addresses within any files, and files only afterwards."""
    run(["report", "-f", "--stdio", *columns, *verbose, "-i", str(equal_shares)])
    assert re.findall(r" 0\.00% .*\[\.\] ((?!leaf)\w+)", capsys.readouterr().out) == order


RAISE, IDLE, SWITCH = "irq:softirq_raise", "power:cpu_idle", "sched:sched_switch"


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


def test_a_report_without_keys_has_one_row(text_of: Callable[..., str]) -> None:
    """All keys are numbers; also -H --raw-trace without formats of the tracepoints."""
    assert text_of("-H", "-q", "-s", "sample,period").splitlines()[-3].split()[0] == "100.00%"


@pytest.mark.parametrize(
    ("args", "head"),
    [
        ((), ["# Overhead  ", "# ........  "]),
        (("-n",), ["# Overhead       Samples  ", "# ......................  "]),
        (("-t,",), ["# Overhead,", "# ........,"]),
    ],
)
def test_a_table_whose_keys_are_fields_of_other_events_is_empty(
    args: tuple[str, ...], head: list[str], text_of: Callable[..., str]
) -> None:
    lines = text_of("-H", "-s", "vec", *args).splitlines()
    table = lines[lines.index("# Samples: 3  of event 'power:cpu_idle'") :]
    assert table[1:8] == ["# Event count (approx.): 0", "#", *head, "#", "", ""]
    assert text_of("-H", "-q", "-s", "vec").splitlines()[-3:] == ["    25.00%  9", "", "", "", ""][-3:]


# Tests of fields in columns.


@pytest.mark.parametrize(
    ("args", "widths"),
    [
        (("-s", "name"), [15, 16]),
        (("--raw-trace", "-s", "name"), [4, 16]),
        (("-s", "name/raw"), [4, 16]),
        (("-s", "name,name/raw"), [15, 16]),
    ],
)
def test_raw_fields_do_not_share_a_width(args, widths, tmp_path, capsys):
    """Formatted fields of one name are as wide as their longest text in all tables, raw ones as the data of their own, with the NUL."""
    recording = EventRecording(["irq:irq_handler_entry", "module:module_load"])
    for time, name in enumerate((b"abc", b"abc", b"abd"), 10):
        recording.event("irq:irq_handler_entry", time, 1, name)
    for time, name in enumerate((b"a_longer_module", b"a_longer_module", b"zram"), 20):
        recording.event("module:module_load", time, 1, name)
    (tmp_path / "perf.data").write_bytes(recording.file())
    run(["report", "--stdio", "-i", str(tmp_path / "perf.data"), *args])
    dots = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("# ....")]
    assert [len(line[2]) for line in dots] == widths


@pytest.mark.parametrize("raw", [[], ["--raw-trace"]])
def test_texts_of_hidden_rows_widen_the_columns_of_fields(raw, tmp_path, capsys):
    recording = EventRecording(["irq:irq_handler_entry"], comms={100: "worker1", 101: "worker2"})
    for tid, name in ((100, b"abc"), (101, b"longer_name")):
        recording.event("irq:irq_handler_entry", 10, 1, name, tid=tid)
    (tmp_path / "perf.data").write_bytes(recording.file())
    run(["report", "--stdio", "-i", str(tmp_path / "perf.data"), "-s", "name", "-c", "worker1", *raw])
    output = capsys.readouterr().out
    assert f"# ........  {'.' * len('longer_name_')}\n" in output  # with the NUL
    assert "longer_name" not in output


@pytest.mark.parametrize(
    ("widths", "text"), [("5", "0x000001234"), ("5,20", "0x0000000000001234"), ("5,12", "0x00001234"), ("5,3", "0x1234")]
)
def test_an_address_has_the_digits_that_the_width_of_symoff_leaves(widths, text, tmp_path, capsys):
    built = PerfDataBuilder()
    built.sample(ip=0x1234, pid=7, tid=7, time=10, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    run(["report", "--stdio", "-q", "-i", str(tmp_path / "perf.data"), "-s", "symoff", "-w", widths])
    assert capsys.readouterr().out.split()[-2:] == ["[.]", text]


def test_a_text_field_is_bytes_from_the_first_row_on_that_is_no_text(tmp_path, capsys):
    """perf decides for the whole field once it meets bytes that are no text; rows in their order, whatever the samples' order."""
    recording = EventRecording([SWITCH])
    for time, name in enumerate((b"rare", b"\x01", b"often", b"\x01", b"often", b"often"), 10):
        recording.event(SWITCH, time, name, 1, 120, 0, b"", 2, 120)
    (tmp_path / "perf.data").write_bytes(recording.file())
    run(["report", "--stdio", "-q", "-i", str(tmp_path / "perf.data"), "--raw-trace", "-s", "prev_comm"])
    rows = [line.split()[1] for line in capsys.readouterr().out.splitlines() if line]
    assert rows == ["often", "ARRAY[01,", "ARRAY[72,"]


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
    piece = _piece_of(cells, 9, numbers=True)
    assert isinstance(piece, list)
    assert [_decoded(cell + b"\n") for cell in piece] == [cells[0], " 0.10%   "]


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
    ("cell", "width", "number", "output"),
    [
        (ColumnCell.DIGITS, 3, 7, "007"),
        (ColumnCell.DIGITS, 5, -1, "-00001"),
        (ColumnCell.DIGITS, 1, 12, "12"),
        (ColumnCell.SPACED_DIGITS, 6, -1, "  -001"),
        (ColumnCell.SPACED_DIGITS, 3, 0, "   "),
        (ColumnCell.SPACED_DIGITS, 1, 0, "0"),
    ],
)
def test_numbers_have_as_many_digits_as_their_columns(cell: ColumnCell, width: int, number: int, output: str) -> None:
    """With -w the CPUs and sockets of perf's text have zeros before them."""
    assert _set(f"{number:03d}", cell, width) == output


@pytest.mark.parametrize(("key", "empty", "width"), [("weight", 6, 12), ("time", 4, 12), ("addr", 7, 18), ("cgroup_id", 21, 21)])
def test_only_columns_with_rows_have_their_least_width(
    key: str, empty: int, width: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = EventRecording(["irq:softirq_raise"])
    recording.event("irq:softirq_raise", 10, 1)
    (tmp_path / "perf.data").write_bytes(recording.file())
    for comm, size in (("nobody", empty), ("swapper", width)):
        run(["report", "-f", "--stdio", "-s", f"{key},pid", "-i", str(tmp_path / "perf.data"), *(["-c", comm] if comm == "nobody" else [])])
        assert f"# ........  {size * '.'}  ..." in capsys.readouterr().out


def test_shares_of_callers_need_callchains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in perf, except in a strict list of fields, where the column is empty."""
    built = PerfDataBuilder()
    built.sample(misc=2, ip=1, pid=40, tid=40, time=10, period=1)
    (tmp_path / "perf.data").write_bytes(built.file())
    for option, names in (("-F+", "Overhead  "), ("-s", "Overhead\n"), ("-F", "Children\n"), ("--no-children -F+", "Overhead  Children  ")):
        run(["report", "-f", "--stdio", *f"{option}overhead_children".split(), "-i", str(tmp_path / "perf.data")])
        assert f"# {names}" in capsys.readouterr().out


def test_the_sort_order_of_memory_accesses_begins_with_the_default_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """perf replaces the plus of `-s +cpu`; a field of -F has no name of the machine's architecture."""
    attr = usual_attr(USUAL | SampleType.DATA_SRC)
    built = PerfDataBuilder(attrs=[attr])
    built.sample(misc=2, ip=1, pid=40, tid=40, time=10, period=1, data_src=0)
    (tmp_path / "perf.data").write_bytes(built.file())
    run(["report", "-f", "--stdio", "--mem-mode", "-s", "+pid", "-i", str(tmp_path / "perf.data")])
    assert "local_ins_lat,local_p_stage_cyc,pid\n" in capsys.readouterr().out
    for option, header in (("-F", "Local Pipeline Stage Cycle"), ("-s", "Local Retire Latency")):
        run(["report", "-f", "--stdio", option, "local_p_stage_cyc", "-i", str(tmp_path / "perf.data")])
        assert f"  {header}\n".replace("  ", "", option == "-F") in capsys.readouterr().out


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


def test_narrow_columns_of_pages_and_physical_addresses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """perf truncates physical addresses, and only pads the sizes of pages."""
    attr = usual_attr(USUAL | SampleType.DATA_SRC | SampleType.PHYS_ADDR | SampleType.DATA_PAGE_SIZE | SampleType.CODE_PAGE_SIZE)
    built = PerfDataBuilder(attrs=[attr])
    built.sample(misc=2, ip=1, pid=40, tid=40, time=10, period=1, data_src=0, phys_addr=0x1234, data_page_size=4096, code_page_size=1 << 30)
    (tmp_path / "perf.data").write_bytes(built.file())
    keys = ["-s", "phys_daddr,data_page_size,code_page_size,pid"]
    run(["report", "-f", "--stdio", "-q", "--mem-mode", "--no-children", *keys, "-w", "0,7,1,2", "-i", str(tmp_path / "perf.data")])
    assert "100.00%  [.] 0x0  4K  1024M  " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "texts"),
    [
        ("local_weight", ["18446744073709551615", "4000000000000", "7           "]),
        ("weight", ["18446744073709551614", "8000000000000", "14          "]),
    ],
)
def test_large_weights_are_unsigned_and_whole(key: str, texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A weight has 64 bits; perf pads its column, but truncates no number."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.WEIGHT)])
    for time, weight in enumerate((7, 4 * 10**12, (1 << 64) - 1) * 2, 10):
        built.sample(misc=2, ip=1, pid=40, tid=40, time=time, period=1, weight=weight)
    (tmp_path / "perf.data").write_bytes(built.file())
    run(["report", "-f", "--stdio", "-q", "--no-children", "-s", key, "-i", str(tmp_path / "perf.data")])
    assert sorted(line.split("%  ")[1] for line in capsys.readouterr().out.splitlines() if line) == sorted(texts)


# Tests of call trees as text.


NAMES = ["main", "work", "rest", "leaf"]


def node(frames, period, children=(), own=0):
    below = period - own if children else 0
    return CallNode(list(frames), period, period, below, below, list(children))


TREE = [node([0], 100, [node([1, 3], 70), node([2], 30)])]


def draw(tree, graph, weight=100, total=200):
    writer = ChainWriter(graph, lambda at: NAMES[at])
    return list(writer.lines(tree, Stem(weight, total, 100, 100)))


def test_a_graph_shows_shares_of_the_total():
    assert draw(TREE, CallGraph()) == [
        "            |",
        "            ---main",
        "               |          ",
        "               |--35.00%--work",
        "               |          leaf",
        "               |          ",
        "                --15.00%--rest",
        "",
    ]


def test_a_fractal_tree_shows_shares_of_the_parent_and_the_remainder():
    tree = [node([0], 100, [node([1, 3], 70)])]
    tree[0].child_period = 100
    assert draw(tree, CallGraph(style="fractal"))[2:] == [
        "               |          ",
        "               |--70.00%--work",
        "               |          leaf",
        "                --30.00%--[...]",
        "",
    ]


def test_a_tree_of_a_part_of_the_entry_begins_with_its_share():
    assert draw(TREE, CallGraph(), weight=150)[:2] == ["            |          ", "             --50.00%--main"]


def test_folded_lines_have_their_own_share():
    assert draw(TREE, CallGraph(style="folded", percent=0, value="count")) == ["70 main;work;leaf", "30 main;rest"]


def test_names_longer_than_perfs_buffer_are_truncated():
    writer = ChainWriter(CallGraph(style="folded", percent=0, value="count"), lambda _index: "x" * 1022 + "é" + "y" * 1000)
    assert list(writer.lines([node([0], 5, own=5)], Stem(5, 5, 5, 5))) == ["5 " + "x" * 1022 + "\udcc3"]


def test_flat_chains_are_below_each_other():
    lines = draw(TREE, CallGraph(style="flat", percent=20))
    assert lines == ["           35.00%", *(" " * 16 + name for name in ("main", "work", "leaf")), ""]


@pytest.mark.parametrize(("limit", "lines"), [(1, 5), (0, 7)])
def test_the_limit_counts_the_entries_of_each_level(limit, lines):
    tree = [node([0], 100, [node([1], 70), node([2], 30)])]
    assert len(draw(tree, CallGraph(limit=limit))) == lines


@pytest.mark.thorough
def test_depth_does_not_end_at_the_recursion_limit():
    tree = node([3], 1)
    depth = sys.getrecursionlimit() + 200
    for _ in range(depth):
        tree = node([0], 2, [tree, node([1], 1)])
    assert len(draw([tree], CallGraph())) > 2 * depth


def test_shares_are_coloured_by_their_size():
    tree = [node([0], 20), node([1], 4), node([2], 1)]
    writer = ChainWriter(CallGraph(), lambda at: NAMES[at], colour="\x1b")
    shares = [line for line in writer.lines(tree, Stem(100, 200, 100, 100)) if "--" in line]
    assert shares == [
        "            |--\x1b[31m10.00%\x1b[m--main",
        "            |--\x1b[32m2.00%\x1b[m--work",
        "             --0.50%--rest",
    ]


# Tests of reports in Python: as text and HTML, as a sequence, and as columns.


HOSTILE = "<img src=x onerror=alert(1)>\x1b]0;t\a"


@pytest.fixture
def report(tmp_path: Path) -> perfpy.Report:
    """Return a report of thirty commands; the first one has most samples."""
    built = PerfDataBuilder()
    for tid in range(100, 130):
        comm = HOSTILE if tid == 100 else f"prog{tid}"
        built.record(records.Comm(0, tid, tid, comm, SampleId(pid=tid, tid=tid, time=1)))
    for number in range(40):
        tid = 100 + max(number - 10, 0)
        built.sample(ip=0x1000, pid=tid, tid=tid, time=number + 2, period=1)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return perfpy.open(path).report(by="comm,pid")


def test_it_is_a_sequence_of_rows(report: perfpy.Report) -> None:
    assert len(report) == 30
    assert [row.texts["comm"] for row in report][1:3] == [row.texts["comm"] for row in report[1:3]]
    assert (report[0].samples, report[0].percent, report[-1].samples) == (11, 27.5, 1)
    assert next(iter(report[report.histograms[0].leader.event.name].rows())) == report[0]
    with pytest.raises(IndexError):
        report[30]
    with pytest.raises(KeyError, match="no event 'cycles' in this report; its events:"):
        report["cycles"]


def test_its_columns_have_numbers(report: perfpy.Report) -> None:
    columns = report.to_columns()
    assert list(columns) == ["overhead", "period", "samples", "comm", "pid"]
    assert (columns["pid"][0], columns["samples"][0], columns["overhead"][0]) == (100, 11, 27.5)
    assert {len(values) for values in columns.values()} == {30}
    assert report.to_pandas()["pid"].tolist() == report.to_arrow()["pid"].to_pylist() == columns["pid"]


def test_it_shows_its_first_rows(report: perfpy.Report) -> None:
    lines = repr(report).splitlines()
    assert lines[0] == "<Report of 40 samples: 30 rows>"
    assert lines[2].split()[:2] == ["27.50%", "<img"]
    assert lines[-1] == "... and 10 rows more"
    assert "\x1b" not in repr(report)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)


def test_names_are_escaped(report: perfpy.Report) -> None:
    page = report._repr_html_() or ""
    tags = Tags()
    tags.feed(page)
    assert {*tags.tags} == {"table", "caption", "thead", "tbody", "tr", "th", "td", "p"}
    assert tags.tags.count("tr") == 21
    assert "&lt;img src=x" in page


def test_a_recording_without_samples_has_an_empty_report(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(PerfDataBuilder().file())
    report = perfpy.open(tmp_path / "perf.data").report()
    assert (len(report), list(report), report[:3], report.to_columns(), report._repr_html_()) == (0, [], [], {}, "")
    assert repr(report) == "<Report of 0 samples: 0 rows>"
    with pytest.raises(IndexError):
        report[0]


def test_columns_of_a_field_are_equally_wide_for_all_tracepoints(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """perf takes the longest text of all events that have the field, without the minimum width of theirs."""
    built = EventRecording(["kmem:kmalloc", "kmem:mm_page_alloc"])
    built.event("kmem:kmalloc", 10**10, 0, 0, 1, 1, 0xCC0, 0).event("kmem:mm_page_alloc", 10**10 + 1, 1, 0, 0xCC0 | 0x40100, 0)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["report", "--stdio", "-s", "gfp_flags", "-g", "none", "-i", str(tmp_path / "perf.data")]) == 0
    dots = [line for line in capfdbinary.readouterr().out.decode().splitlines() if line.startswith("# ..")]
    assert dots == [f"# ........  {'.' * len('GFP_KERNEL|__GFP_ZERO|__GFP_COMP')}"] * 2


def test_a_text_after_a_blank_is_the_rest_of_the_line_and_widens_no_column(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """`work struct 0x7b: function poll` has no `=` after `work`, which perf skips; a column of numbers is two digits a byte wide."""
    start, end = "workqueue:workqueue_execute_start", "workqueue:workqueue_execute_end"
    built = EventRecording([start, end])
    for time in range(3):
        built.event(start, 10**10 + time, 0x1234567890ABCDEF, 7).event(end, 10**10 + time, 5, 7)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["report", "--stdio", "-s", "work", "-g", "none", "-i", str(tmp_path / "perf.data")]) == 0
    lines = [line for line in capfd.readouterr().out.splitlines() if line.startswith(("# ..", "   "))]
    dots = f"# ........  {'.' * 18}"
    assert lines == [dots, "   100.00%  struct 0x123456789", dots, "   100.00%          struct 0x5"]


def test_calls_of_a_cell_have_the_colours_of_pages() -> None:
    script = (files("perfpy") / "views/page/scripts/model/categories.js").read_text()
    tokens = re.findall(r"\[(\d+), (\d+), (\d+)\]", re.findall(r"light: \[(.*)\],", script)[0])
    for number, colour in notebook._COLOURS.items():
        hue, saturation, light = (int(text) for text in tokens[number])
        of_page = colorsys.hls_to_rgb(hue / 360, light / 100, saturation / 100)
        assert colour == ",".join(str(round(255 * part)) for part in of_page)


def test_the_picture_of_a_cell_tells_categories_apart() -> None:
    """A built-in function of the interpreter is not own code, which is bold."""
    call = notebook._call_tree(
        [replace(stacks("python;py::<module>:/tmp/1/7.py;py::f:/tmp/1/7.py;py::g:/tmp/1/8.py;sum 3000000"),
                 categories=(OWN, OWN, OWN, INTERPRETER))],
        notebook.CellSource("/tmp/1/7.py", lambda _path: [], lambda path: "In[2]" if path == "/tmp/1/8.py" else ""),
    )  # fmt: skip
    page = notebook._call_html(call, call.weight, 0)
    bars = re.findall(r"rgba\((\d+,\d+,\d+),[\d.]+\)[^>]*>([^<]*)<", page)
    assert [colour for colour, _ in bars] == [notebook._COLOURS[one] for one in (OWN, OWN, OWN, INTERPRETER)]
    assert [name for _, name in bars] == ["cell 100.00%", "f (cell) 100.00%", "g (In[2]) 100.00%", "sum 100.00%"]
    assert page.count("font-weight:bold") == 3
