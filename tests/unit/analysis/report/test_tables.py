"""Filters select samples; in perf's plain text they select rows, by the first sample of each, with a note."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.abi.records import Comm
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions
from perfpy.analysis.report.report import filtered_rows_notes
from perfpy.analysis.report.tables import tree_order
from perfpy.recording import Recording
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.analysis.report.report import Report


FIRST, SECOND = 7, 8


def report(tmp_path: Path, sample_filter: SampleFilter, *, rows_filtered: bool = False) -> Report:
    """Report two processes on one CPU: first three samples of one, then two of the other."""
    built = PerfDataBuilder().record(Comm(0, FIRST, FIRST, "first")).record(Comm(0, SECOND, SECOND, "second"))
    for time, pid in enumerate((FIRST, SECOND, FIRST, SECOND, FIRST)):
        built.sample(pid=pid, tid=pid, time=time + 1, ip=0x1000, period=10, cpu=0)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    options = ReportOptions(rows=RowOptions(rows_filtered=rows_filtered), columns=ColumnOptions(sort="cpu"), sample_filter=sample_filter)
    with Recording(str(path)) as recording:
        return recording.report(options=options)


def counts(found: Report) -> list[int]:
    return [row.values["samples"][0] for row in found.top(10)]


@pytest.mark.parametrize(
    ("sample_filter", "remaining"),
    [
        (SampleFilter(pids=(SECOND,)), 2),
        (SampleFilter(tids=(FIRST,)), 3),
        (SampleFilter(comms=("second",)), 2),
        (SampleFilter(comms=("first", "second")), 5),
    ],
)
def test_a_row_has_the_samples_that_filters_leave(sample_filter: SampleFilter, remaining: int, tmp_path: Path) -> None:
    result = report(tmp_path, sample_filter)
    assert counts(result) == [remaining]
    assert list(filtered_rows_notes(result)) == []


def test_a_filter_that_leaves_nothing_leaves_no_row(tmp_path: Path) -> None:
    assert counts(report(tmp_path, SampleFilter(pids=(99,)))) == []


def test_plain_text_filters_rows_by_first_samples_with_a_note(tmp_path: Path) -> None:
    hidden = report(tmp_path, SampleFilter(pids=(SECOND,)), rows_filtered=True)
    assert counts(hidden) == []
    assert "2 samples pass the filters, the rows have 0" in "".join(filtered_rows_notes(hidden))
    result = report(tmp_path, SampleFilter(pids=(FIRST,)), rows_filtered=True)
    assert counts(result) == [5]
    assert "3 samples pass the filters, the rows have 5" in "".join(filtered_rows_notes(result))
    assert list(filtered_rows_notes(report(tmp_path, SampleFilter(), rows_filtered=True))) == []


# The order of a red-black tree.


@given(st.lists(st.integers(0, 50), max_size=300))
def test_with_a_real_order_it_is_a_stable_sort(values):
    rows = tree_order(range(len(values)), lambda row, other: values[row] < values[other])
    assert rows == sorted(range(len(values)), key=lambda row: values[row])


def test_the_position_of_a_row_depends_on_comparisons():
    # rows 0 and 2 are of one kind and compared by depth; row 1 is of another, and equal to both
    depth, kind = [1, 5, 0], ["a", "b", "a"]

    def before(row, other):
        return kind[row] == kind[other] and depth[row] < depth[other]

    assert tree_order([0, 1, 2], before) == [2, 0, 1]
    assert tree_order([1, 0, 2], before) == [1, 2, 0]
