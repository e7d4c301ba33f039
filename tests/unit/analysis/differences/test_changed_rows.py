"""Rows of two recordings that changed beyond sampling noise, in amount or in share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.analysis.differences.changed_rows import Amount, baseline_share, changed_rows, has_grown_or_shrunk, totals
from perfpy.analysis.differences.difference import Compute, Difference, differences
from perfpy.analysis.differences.proportions import LEVEL, amount_chance
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import ReportOptions
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def compared(folder: Path, before: Sequence[int], after: Sequence[int], periods: tuple[int, int] = (10, 10)) -> Difference:
    """Record threads with these numbers of samples."""
    reports = []
    for name, counts, period in (("old", before, periods[0]), ("new", after, periods[1])):
        built = PerfDataBuilder()
        for thread, count in enumerate(counts):
            for number in range(count):
                built.sample(pid=100 + thread, tid=100 + thread, time=number + 1, period=period)
        (folder / name).write_bytes(built.file())
        with perfpy.open(folder / name) as recording:
            reports.append(recording.report(options=ReportOptions(columns=ColumnOptions(sort="pid"))))
    return next(differences(reports, Compute()))


def verdicts(found: Difference) -> dict[int, tuple[bool, bool]]:
    return {int(str(row.names[0]).split(":")[0]) - 100: (row.by_amount, row.by_share) for row in changed_rows(found)}


def test_equal_time_in_a_longer_program_is_a_change_of_share_only(tmp_path: Path) -> None:
    assert verdicts(compared(tmp_path, (100, 100), (400, 100))) == {0: (True, True), 1: (False, True)}


def test_growth_in_proportion_is_a_change_of_amount_only(tmp_path: Path) -> None:
    assert verdicts(compared(tmp_path, (100, 100), (300, 300))) == {0: (True, False), 1: (True, False)}


def test_samples_that_stand_for_more_are_no_change(tmp_path: Path) -> None:
    result = compared(tmp_path, (200, 100), (100, 50), (10, 20))
    assert totals(result) == (Amount(300, 3000), Amount(150, 3000))
    assert verdicts(result) == {0: (False, False), 1: (False, False)}


def test_the_largest_change_is_first_and_new_rows_have_nothing_before(tmp_path: Path) -> None:
    rows = changed_rows(compared(tmp_path, (50, 10), (40, 80, 30)))
    assert [row.change for row in rows] == [700, 300, -100]
    assert rows[1].before == Amount(0, 0)


@pytest.mark.parametrize(
    ("before", "after", "changed"), [(364, 952, True), (300, 330, False), (0, 5, False), (0, 30, True), (3000, 3300, True)]
)
def test_totals_grow_or_do_not(before: int, after: int, changed: bool) -> None:  # a parameter
    assert has_grown_or_shrunk(Amount(before, before), Amount(after, after)) is changed


def test_a_recording_without_samples_has_an_equal_baseline_share() -> None:
    assert baseline_share(Amount(0, 0), Amount(10, 100)) == 0.5


def test_equal_amounts_are_marked_at_the_rate_of_the_level() -> None:
    random = np.random.default_rng(1)
    for mean, share in ((30, 0.5), (200, 0.2), (5000, 0.5)):
        pairs = zip(random.poisson(mean * share, 2000).tolist(), random.poisson(mean * (1 - share), 2000).tolist(), strict=True)
        marked = sum(amount_chance(before, after, share).p < LEVEL for before, after in pairs)
        assert 0.01 * 2000 < marked < 0.065 * 2000
