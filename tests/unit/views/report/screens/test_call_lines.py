"""Tests of recursive functions in call trees: each is one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi.flags import SampleType
from perfpy.abi.records import Mmap2
from perfpy.abi.sample_id import SampleId
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import CallGraph, ChainOptions, ReportOptions
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screens.call_lines import call_lines, fold_repetitions
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.call_trees.call_tree import CallNode
    from perfpy.analysis.report.histogram import Histogram


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


def lines(rows: Histogram, function: str) -> list[str]:
    return call_lines(rows, next(entry for entry in rows.visible_entries().tolist() if rows.text("symbol", entry) == f"[.] {function}"))


def shape(nodes: list[CallNode]) -> list[object]:
    return [(node.frames, node.period, node.count, node.child_period, shape(node.children)) for node in nodes]


def test_recursion_that_branches_is_one_line(recursive: Path) -> None:
    rows = histogram(recursive, as_one=True, order="caller")
    assert lines(rows, "main") == ["100.00%  main", "         walk (recursive)", " 80.00%  leaf"]
    callers = histogram(recursive, as_one=True, order="callee")
    assert lines(callers, "leaf") == [" 80.00%  leaf", "         walk (recursive)", "         main"]


def test_json_has_all_calls(recursive: Path) -> None:
    assert len(lines(histogram(recursive, as_one=False, order="caller"), "main")) > 4
    assert "(recursive)" not in "".join(lines(histogram(recursive, as_one=False, order="caller"), "main"))


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
