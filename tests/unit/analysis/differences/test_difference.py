"""Rows of several recordings side by side: computed values, and their order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.abi.flags import SampleType
from perfpy.analysis.differences.difference import Compute, Difference, DifferenceRow, Part, differences
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import ReportOptions, RowOptions
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def change(name: str | None, *periods: int | None) -> DifferenceRow:
    parts = [None if period is None else Part(0, period, period // 1000, filtered=False) for period in periods]
    return DifferenceRow(("a.out", name), parts)


def difference(compute: Compute, changes: Sequence[DifferenceRow], totals: Sequence[int] = (100_000, 200_000)) -> Difference:
    return Difference("cycles", [None] * len(totals), compute, list(totals), totals[0], list(changes))


def names_in_order(compute: Compute, changes: Sequence[DifferenceRow], first: int = 1) -> list[str | None]:
    result = difference(compute, changes, (100_000,) * len(changes[0].parts))
    return [row.names[1] for row in sorted(changes, key=lambda row: result.order(row, first))]


@pytest.mark.parametrize(
    ("compute", "value"),
    [(Compute("delta"), 5.0), (Compute("delta-abs"), 5.0), (Compute("ratio"), 3.0), (Compute("wdiff", (1, 2)), 50_000)],
)
def test_the_numbers_are_perfs(compute: Compute, value: float) -> None:
    assert difference(compute, []).value(change("main", 10_000, 30_000), 1) == pytest.approx(value)


def test_a_row_that_the_other_recording_lacks_has_no_value() -> None:
    assert difference(Compute(), []).value(change("main", 10_000, None), 1) is None


def test_a_new_row_changed_by_its_whole_share() -> None:
    assert difference(Compute(), []).value(change("main", None, 30_000), 1) == pytest.approx(15.0)
    assert difference(Compute(), []).baseline(change("main", None, 30_000)) == 0.0


ROWS = (change("down", 9_000, 1_000), change("up", 1_000, 7_000), change("gone", 50_000, None), change("new", None, 2_000))


def test_the_largest_change_of_either_sign_is_first() -> None:
    assert names_in_order(Compute("delta-abs"), ROWS) == ["down", "up", "new", "gone"]


def test_delta_sorts_by_sign() -> None:
    assert names_in_order(Compute("delta"), ROWS) == ["up", "new", "down", "gone"]


def test_ratios_of_new_rows_come_after_all_that_are_known() -> None:
    assert names_in_order(Compute("ratio"), ROWS) == ["up", "down", "new", "gone"]


def test_order_0_sorts_by_the_baseline() -> None:
    assert names_in_order(Compute(), ROWS, first=0) == ["gone", "down", "up", "new"]


def test_equal_rows_are_in_order_of_names_and_nameless_ones_last() -> None:
    assert names_in_order(Compute(), [change(name, 1_000, 1_000) for name in ("b", None, "a")]) == ["a", "b", None]


def test_numbers_sort_by_value_and_a_name_of_countless_digits_as_text() -> None:
    rows = [change(name, 1_000, 1_000) for name in ("9" * 5_000, "10", "9", "main")]
    assert names_in_order(Compute(), rows) == ["9", "10", "9" * 5_000, "main"]


def test_a_third_recording_may_decide_the_order() -> None:
    rows = [change("x", 1_000, 9_000, 1_000), change("y", 1_000, 1_000, 5_000)]
    assert names_in_order(Compute(), rows, first=1) == ["x", "y"]
    assert names_in_order(Compute(), rows, first=2) == ["y", "x"]


def test_shares_of_a_baseline_without_samples_are_no_numbers_and_do_not_sort() -> None:
    rows = [change("b", None, 9_000), change("a", None, 1_000)]
    result = difference(Compute(), rows, (0, 10_000))
    assert all(math.isnan(result.value(row, 1) or 0.0) for row in rows)
    assert [row.names[1] for row in sorted(rows, key=lambda row: result.order(row, 1))] == ["a", "b"]


USER, KERNEL, BOTH = {"exclude_kernel": 1}, {"exclude_kernel": 0, "exclude_user": 1}, {"exclude_kernel": 0}


Row = tuple[str, str, float | None]


def changes(folder: Path, baseline: Sequence[dict[str, int]], other: Sequence[dict[str, int]]) -> list[list[Row]]:
    """Return event, thread and change of each row, table by table; the only sample of each event has thread numbers from 100 on."""
    reports = []
    for name, events in (("old", baseline), ("new", other)):
        attrs = [usual_attr(USUAL | SampleType.IDENTIFIER, **bits) for bits in events]
        built = PerfDataBuilder(attrs=attrs, ids=[(number + 1,) for number in range(len(attrs))])
        for number in range(len(attrs)):
            built.sample(number, pid=100 + number, tid=100 + number, time=number + 1, period=10)
        (folder / name).write_bytes(built.file())
        with perfpy.open(folder / name) as recording:
            reports.append(recording.report(options=ReportOptions(rows=RowOptions(group=False), columns=ColumnOptions(sort="pid"))))
    return [
        [(table.event, str(row.names[0]).strip().split(":")[0], table.value(row, 1)) for row in table.changes]
        for table in differences(reports, Compute())
    ]


def test_events_with_different_exclusions_are_distinguished_by_their_names(tmp_path: Path) -> None:
    assert changes(tmp_path, (USER, KERNEL), (USER, KERNEL)) == [[("cpu-clock:u", "100", 0.0)], [("cpu-clock:k", "101", 0.0)]]


def test_new_events_are_beside_the_first_compared_event(tmp_path: Path) -> None:
    assert changes(tmp_path, (KERNEL, USER), (BOTH,)) == [[("cpu-clock:k", "100", 0.0)], [("cpu-clock:u", "101", None)]]
