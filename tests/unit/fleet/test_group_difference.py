"""Groups of recordings are compared by host: each host is one observation, however much it has recorded."""

from __future__ import annotations

import pytest

import perfpy
from perfpy.errors import UsageError
from perfpy.fleet.group_difference import with_recordings
from tests.builders.hosts import group, host_recording

SHARES = {"a": (40, 44, 38, 41, 43, 39, 42, 37), "b": (40, 36, 42, 39, 37, 41, 38, 43)}


def numbered(change=0, scale=(10,) * 8, first=0):
    """Build eight hosts on which "b" and "c" share equally what "a" leaves; c has `change` more samples."""
    return {
        f"host{first + number}": {"a": a * size, "b": b * size, "c": (20 + change) * size}
        for number, (a, b, size) in enumerate(zip(SHARES["a"], SHARES["b"], scale, strict=True))
    }


def changes(before, after, **options):
    (result,) = perfpy.diff(perfpy.open_many(before), perfpy.open_many(after), by="comm")
    if options:
        (result,) = perfpy.open_many(before).changes(perfpy.open_many(after), by="comm", **options)
    return result


def rows(found):
    return {row.names[0]: row for row in found}


def test_a_change_on_all_hosts_stands_out_from_their_spread(tmp_path):
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(10, first=100)))
    assert (actual_changes.unit, actual_changes.test, actual_changes.in_both) == ("host", "permutation", 0)
    assert [row.names for row in actual_changes.above()] == [("c",)]
    (changed,) = actual_changes.above(0.05)
    assert (changed.before, changed.after) == pytest.approx((0.2, 30 / 110))
    assert changed.low < changed.change < changed.high
    assert actual_changes.above(0.1) == []
    assert actual_changes.shares[("c",)] == ([0.2] * 8, [pytest.approx(30 / 110)] * 8)
    assert rows(actual_changes)["a"].change < 0


def test_the_same_hosts_are_compared_with_themselves(tmp_path):
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(1)))
    assert actual_changes.in_both == 8
    assert (rows(actual_changes)["c"].rose, rows(actual_changes)["c"].fell) == (8, 0)
    assert {name for name, row in rows(actual_changes).items() if row.has_changed} >= {"c"}


def test_a_host_that_did_more_is_no_change_where_hosts_are_the_same(tmp_path):
    """The amount of work differs between hosts, not its shares."""
    before = group(tmp_path / "before", numbered(scale=(40, *(10,) * 7)))
    after = group(tmp_path / "after", numbered(scale=(*(10,) * 7, 40)))
    actual_changes = changes(before, after)
    assert all(row.change == pytest.approx(0) for row in actual_changes)
    assert not any(row.has_changed for row in actual_changes)


def test_recordings_of_one_host_are_one_observation(tmp_path):
    for name, change in (("before", 0), ("after", 10)):
        for number in range(12):
            host_recording(tmp_path / name / f"{number}.data", f"{name}{number % 2}", {"a": 50 + number % 3, "c": 20 + change})
    actual_changes = changes(tmp_path / "before", tmp_path / "after")
    assert (len(actual_changes.before.units), actual_changes.before.recordings, actual_changes.test) == (2, 12, "student")
    by_recording = changes(tmp_path / "before", tmp_path / "after", unit="recording")
    assert (len(by_recording.before.units), by_recording.test) == (12, "permutation")
    assert {row.names[0] for row in by_recording if row.has_changed} == {"a", "c"}


@pytest.mark.parametrize("host", ["here", ""])
def test_recordings_are_compared_if_hosts_are_unknown_or_one(tmp_path, host):
    for name, change in (("before", 0), ("after", 30)):
        for number in range(5):
            host_recording(tmp_path / name / f"{number}.data", host, {"a": 50 + number, "c": 20 + change})
    actual_changes = changes(tmp_path / "before", tmp_path / "after")
    assert (actual_changes.unit, len(actual_changes.before.units), actual_changes.in_both) == ("recording", 5, 0)
    assert [row.names for row in actual_changes.above()] == [("c",)]


def test_one_host_shows_no_spread(tmp_path):
    actual_changes = changes(group(tmp_path / "before", {"one": {"a": 100, "c": 100}}), group(tmp_path / "after", numbered(first=100)))
    assert actual_changes.test == ""
    assert all(row.chance is None and row.low is None and not row.has_changed for row in actual_changes)


def test_hosts_may_all_count_the_same(tmp_path):
    sides = [{"big": {"a": 900, "b": 100}, "small": {"a": 10, "b": 90}}, {"big2": {"a": 900, "b": 100}, "small2": {"a": 10, "b": 90}}]
    before, after = (group(tmp_path / str(number), side) for number, side in enumerate(sides))
    shares = {weight: rows(perfpy.open_many(before, weight=weight).changes(perfpy.open_many(after, weight=weight), "comm")[0])["a"].before
              for weight in ("time", "samples", "equal")}  # fmt: skip
    assert shares == {"time": pytest.approx(910 / 1100), "samples": pytest.approx(910 / 1100), "equal": pytest.approx(0.5)}


def test_growth_on_all_hosts_shows_in_rates(tmp_path):
    """Shares do not show it; recordings of twice the length are no growth."""
    before = group(tmp_path / "before", {f"host{number}": {"a": 30 + number, "b": 20} for number in range(8)})
    busier = group(
        tmp_path / "busier", {f"host{number}": {"a": 30 + number, "b": 20, "again": 30 + number, "more": 20} for number in range(8)}
    )
    longer = group(tmp_path / "longer", {f"host{number}": {"a": 60 + 2 * number, "b": 40} for number in range(8)})
    grown, same = (changes(before, one).rate for one in (busier, longer))
    assert grown.after == pytest.approx(2 * grown.before)
    assert grown.has_changed
    assert same.after == pytest.approx(same.before, rel=0.05)
    equal = perfpy.open_many(before, weight="equal").changes(perfpy.open_many(busier, weight="equal"))
    assert equal[0].rate is None


def test_one_host_that_did_less_is_no_change(tmp_path):
    """Hosts with few samples, in either group, do not make groups differ."""
    sizes = {"before": range(9), "after": range(9, 20)}
    for name, numbers in sizes.items():
        group(tmp_path / name, {f"host{number}": {"a": 30 if number == 12 else 40, "b": 40} for number in numbers})
    actual_changes = changes(tmp_path / "before", tmp_path / "after")
    assert actual_changes.rate is not None
    assert not actual_changes.rate.has_changed
    assert not any(row.has_changed for row in actual_changes)


def test_an_idle_host_has_a_rate_and_no_share(tmp_path):
    sides = [{f"host{number}": {"a": 40, "b": 20} for number in range(3)} for _ in range(2)]
    sides[1]["host2"] = {"b": 40, "idle": 39}
    before, after = (group(tmp_path / str(number), side) for number, side in enumerate(sides))
    from perfpy.analysis.filters import SampleFilter
    from perfpy.analysis.report.options import ColumnOptions, ReportOptions, RowOptions

    options = ReportOptions(
        rows=RowOptions(rows_filtered=False, relative_percentages=True),
        columns=ColumnOptions(sort="comm"),
        sample_filter=SampleFilter(comms=("a",)),
    )
    (result,) = perfpy.open_many(before).changes(
        perfpy.open_many(after), options=options, options_of=lambda _recording: (with_recordings(options), None)
    )
    assert result.rate is not None
    assert result.after.units == ["host0", "host1"]
    assert result.rate.after == pytest.approx(result.rate.before * 2 / 3)


def test_the_smallest_of_very_many_rows_are_not_tested(tmp_path, monkeypatch):
    monkeypatch.setattr("perfpy.analysis.group_differences._MOST_CELLS", 32)
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(10)))
    assert {name: row.chance is None for name, row in rows(actual_changes).items()} == {"a": False, "b": False, "c": True}
    assert rows(actual_changes)["c"].after == pytest.approx(30 / 110)


def test_rows_of_one_group_only_have_nothing_in_the_other(tmp_path):
    new = {host: {**counts, "new": 50} for host, counts in numbered(first=100).items()}
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", new))
    assert rows(actual_changes)["new"].before == 0
    assert rows(actual_changes)["new"].has_changed


def test_a_host_without_samples_of_the_event_has_no_share(tmp_path):
    before = group(tmp_path / "before", {**numbered(), "idle": {}})
    actual_changes = changes(before, group(tmp_path / "after", numbered(first=100)))
    assert "idle" not in actual_changes.before.units


def test_as_columns(tmp_path):
    actual_changes = changes(group(tmp_path / "before", numbered()), group(tmp_path / "after", numbered(10)))
    columns = actual_changes.to_columns()
    assert actual_changes.to_arrow().column_names == list(columns)
    assert columns["comm"][0] == "c"
    assert columns["has_changed"][0]
    assert {len(values) for values in columns.values()} == {len(actual_changes)}
    assert "8 -> 8 hosts" in repr(actual_changes)


def test_groups_that_cannot_be_compared_are_refused(tmp_path):
    before, after = (perfpy.open_many(group(tmp_path / name, numbered())) for name in ("before", "after"))
    with pytest.raises(UsageError, match="in both groups"):
        before.changes(before)
    with pytest.raises(UsageError, match="cannot be rows"):
        before.changes(after, by="host,comm")
    with pytest.raises(UsageError, match="unit"):
        before.changes(after, unit="day")
