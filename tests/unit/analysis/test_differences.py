"""Rows of several recordings side by side: computed values, and their order."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import SampleType
from perfpy.abi.records import SampleId
from perfpy.analysis.differences import (
    LEVEL,
    Amount,
    Compute,
    Counterparts,
    Difference,
    DifferenceRow,
    Part,
    amount_chance,
    baseline_share,
    chance,
    changed_rows,
    correct_for_many_tests,
    differences,
    has_grown_or_shrunk,
    main_command,
    number_of_tests,
    totals,
)
from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.differences import RecordingChanges
    from perfpy.analysis.group_differences import GroupChanges


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


def test_code_without_symbols_is_one_row_with_the_first_address_of_perfs_tree(tmp_path: Path) -> None:
    """Addresses around the circle of 2^64 have no order: a tree's first one depends on the order of the samples, not of the rows."""
    path = tmp_path / "perf.data"
    built = PerfDataBuilder()
    for time, (ip, period) in enumerate(((0x1000, 10), (6 << 60, 30), (11 << 60, 20)), 1):
        built.sample(misc=2, ip=ip, pid=7, tid=7, time=time, period=period)
    path.write_bytes(built.file())
    with perfpy.open(path) as recording:
        report = recording.report(options=ReportOptions(columns=ColumnOptions(sort="symbol")))
        (table,) = differences([report, report], Compute())
        (row,) = table.changes
        part = row.parts[0]
        histogram = table.histograms[0]
        assert part
        assert histogram
        assert (histogram.text("symbol", part.entry), part.period) == ("[.] 0xb000000000000000", 60)


# Rows of two recordings that changed beyond sampling noise, in amount or in share.


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


# An exact test separates changes of shares from noise, corrected for the number of rows.


def fisher(a: int, n: int, b: int, m: int) -> float:
    """Sum over all tables with these margins, as in textbooks."""
    ways = {x: math.comb(n, x) * math.comb(m, a + b - x) for x in range(max(0, a + b - m), min(n, a + b) + 1)}
    return sum(w for w in ways.values() if w <= ways[a]) / sum(ways.values())


@pytest.mark.parametrize("table", [(3, 10, 1, 10), (0, 50, 7, 40), (12, 100, 30, 120), (5, 5, 0, 5), (1, 3, 1, 900), (40, 1000, 80, 900)])
def test_the_probability_is_fishers(table: tuple[int, int, int, int]) -> None:
    assert chance(*table).p == pytest.approx(fisher(*table), rel=1e-6)


@pytest.mark.parametrize("table", [(0, 10, 0, 10), (10, 10, 20, 20), (0, 0, 5, 10)])
def test_impossible_differences_have_probability_1(table: tuple[int, int, int, int]) -> None:
    assert chance(*table) == (1.0, 1.0)


def test_many_samples_are_approximated_closely() -> None:
    exact, approximate = chance(1900, 100_000, 2050, 100_000).p, chance(2900, 100_000, 3050, 100_000)
    assert 0.01 < exact < 0.03
    assert 0.03 < approximate.p < 0.07
    assert approximate.least == 0.0


def test_the_least_probability_is_that_of_the_most_uneven_table() -> None:
    probability = chance(2, 10, 2, 10)
    assert probability.least == pytest.approx(fisher(4, 10, 0, 10))
    assert probability.least < probability.p


def test_rows_that_cannot_be_significant_do_not_count() -> None:
    telling, hopeless = chance(100, 1000, 200, 1000), chance(1, 1000, 0, 1000)
    assert hopeless.least > LEVEL
    assert number_of_tests([telling] + [hopeless] * 500) == 1
    assert correct_for_many_tests([telling, hopeless]) == [telling.p, 1.0]
    assert number_of_tests([telling] * 20) == 20


def test_no_rows_are_no_tests() -> None:
    assert correct_for_many_tests([]) == []


def test_two_recordings_of_the_same_thing_seldom_have_a_mark() -> None:
    rng = np.random.default_rng(1)
    odds = rng.dirichlet(np.ones(300) * 0.3)
    marked = 0
    for _ in range(60):
        before, after = rng.multinomial(2000, odds).tolist(), rng.multinomial(2000, odds).tolist()
        result = correct_for_many_tests([chance(a, 2000, b, 2000) for a, b in zip(before, after, strict=True)])
        marked += min(result) < LEVEL
    assert marked <= 7  # 3 expected


def test_a_function_that_doubled_is_marked_among_hundreds() -> None:
    rng = np.random.default_rng(2)
    odds = rng.dirichlet(np.ones(300))
    odds[0] = 0.05
    changed = odds.copy()
    changed[0] = 0.1
    before, after = (rng.multinomial(3000, share / share.sum()).tolist() for share in (odds, changed))
    result = correct_for_many_tests([chance(a, 3000, b, 3000) for a, b in zip(before, after, strict=True)])
    assert result[0] < LEVEL
    assert sum(p < LEVEL for p in result) <= 2


# The changes between two recordings as values, and the limit of diff.


def recording(path: Path, samples: dict[str, int]) -> str:
    """Record samples of some commands, one file each."""
    built = PerfDataBuilder()
    for tid, (comm, count) in enumerate(samples.items(), 7):
        ids = {"pid": tid, "tid": tid}
        built.record(records.Comm(0, tid, tid, comm, SampleId(**ids, time=tid)))
        built.record(records.Mmap2(2, tid, tid, 0x1000, 0x1000, 0, 8, 1, 99, 0, 5, 2, f"/bin/{comm}", b"", SampleId(**ids, time=tid)))
        for number in range(count):
            built.sample(misc=2, ip=0x1000, **ids, time=100 + number, period=1000)
    path.write_bytes(built.file())
    return str(path)


@pytest.fixture
def both(tmp_path: Path) -> tuple[str, str]:
    before = recording(tmp_path / "old.data", {"parse": 300, "sort": 100, "rest": 20})
    return before, recording(tmp_path / "new.data", {"parse": 305, "sort": 250, "rest": 21})


def test_rows_that_changed_most_come_first(both: tuple[str, str]) -> None:
    with perfpy.open(both[0]) as before, perfpy.open(both[1]) as after:
        (changes,) = perfpy.diff(before, after, by="dso")
        assert (changes.before, changes.after) == ((420, 420_000), (576, 576_000))
        assert [changes.name(row) for row in changes] == ["sort", "parse", "rest"]
        assert (changes[0].change, changes[0].has_changed, len(changes), len(changes[1:])) == (150_000, True, 3, 2)
        assert [changes.name(row) for row in changes.above()] == ["sort"]
        assert changes.above(0.3) == [changes[0]]
        assert changes.above(0.4) == []
        columns = changes.to_columns()
        assert (columns["dso"], columns["change"]) == (["sort", "parse", "rest"], [150_000, 5_000, 1_000])
        assert changes.to_pandas()["samples_after"].tolist() == changes.to_arrow()["samples_after"].to_pylist() == [250, 305, 21]
        assert changes.to_dict() == columns
        assert repr(changes) == "<RecordingChanges of cpu-clock:u: 420000 -> 576000, 2 of 3 rows changed>"


@pytest.mark.parametrize(("limit", "status"), [("30%", 90), ("0.3", 90), ("40%", 0)])
def test_a_limit_is_an_exit_status(both: tuple[str, str], limit: str, status: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diff", "--fail-above", limit, "-s", "dso", *both]) == status
    line = f"sort costs more than before, by 35.7% of all cpu-clock:u; the limit is {float(limit.strip('%')):.1f}%"
    assert capfd.readouterr().err.splitlines() == [line] * (status != 0)


def test_cheaper_rows_exceed_no_limit(both: tuple[str, str]) -> None:
    assert cli.run(["diff", "--fail-above", "1%", "-s", "dso", *reversed(both)]) == 0


def test_three_recordings_have_no_limit(both: tuple[str, str], capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diff", "--fail-above", "1%", *both, both[0]]) == 129
    assert "--fail-above requires two recordings" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["x", "-1", "nan", "inf", ""])
def test_a_limit_is_a_share(both: tuple[str, str], text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["diff", f"--fail-above={text}", *both]) == 129
    assert "expects a share of 0 % or more, such as 3%" in capfd.readouterr().err


def test_paths_are_opened(both: tuple[str, str], tmp_path: Path) -> None:
    """Recordings by path, groups by folder; the result outlives the files' closing."""
    all_changes: list[RecordingChanges] = perfpy.diff(both[0], Path(both[1]), by="dso")
    changes = all_changes[0]
    assert [changes.name(row) for row in changes] == ["sort", "parse", "rest"]
    assert changes[0].has_changed
    with perfpy.open(both[0]) as before:
        assert len(perfpy.diff(before, both[1], by="dso")) == 1
    for folder, seed in (("before", 300), ("after", 500)):
        (tmp_path / folder).mkdir()
        recording(tmp_path / folder / "one.data", {"parse": seed, "rest": 20})
    groups: list[GroupChanges] = perfpy.diff(str(tmp_path / "before"), tmp_path / "after", by="dso")
    assert len(groups[0]) == 2
    with pytest.raises(perfpy.errors.BadPerfDataError, match="nowhere"):
        perfpy.diff("nowhere", both[1])


# A program has one name for two recordings, whatever each calls it.


OLD, NEW = {"prog-old": 990, "perf-exec": 10}, {"prog-new": 500}
TWO = {"make": 50, "cc1": 50}


def test_one_command_is_all_that_matters_where_it_has_nearly_all() -> None:
    assert (main_command(OLD), main_command(TWO), main_command({})) == ("prog-old", "", "")


def test_a_program_under_two_names_has_one() -> None:
    parts = Counterparts.of(OLD, NEW, ignore=None)
    assert parts.command(0, "prog-old") == parts.command(1, "prog-new") == "prog-old → prog-new"
    assert parts.file(0, "prog-old") == parts.file(1, "prog-new") == "prog-old → prog-new"


def test_other_commands_keep_their_names() -> None:
    parts = Counterparts.of(OLD, NEW, ignore=None)
    assert [parts.command(0, "perf-exec"), parts.file(0, "libc.so.6"), parts.command(0, "prog-new")] == [
        "perf-exec",
        "libc.so.6",
        "prog-new",
    ]


def test_a_truncated_command_matches_its_file() -> None:
    parts = Counterparts.of({"a-long-program-": 1}, {"another-long-pr": 1}, ignore=None)
    assert parts.file(0, "a-long-program-name") == parts.file(1, "another-long-program") == "a-long-program- → another-long-pr"


@pytest.mark.parametrize(("before", "after"), [(OLD, OLD), (OLD, TWO), (TWO, NEW), ({}, NEW)])
def test_nothing_is_renamed_where_a_recording_has_several_commands_or_both_the_same(before: dict[str, int], after: dict[str, int]) -> None:
    parts = Counterparts.of(before, after, ignore=None)
    names = [*before, *after]
    assert [(parts.command(0, name), parts.file(1, name)) for name in names] == [(name, name) for name in names]


def test_matching_can_be_disabled() -> None:
    assert Counterparts.of(OLD, NEW, ignore=False).command(0, "prog-old") == "prog-old"


def test_all_commands_may_be_taken_for_one() -> None:
    parts = Counterparts.of(TWO, NEW, ignore=True)
    assert {parts.command(0, "make"), parts.command(0, "cc1"), parts.command(1, "prog-new")} == {"all commands"}
    assert Counterparts.of(OLD, NEW, ignore=True).command(0, "perf-exec") == "prog-old → prog-new"
