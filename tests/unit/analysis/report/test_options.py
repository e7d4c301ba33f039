"""Columns from -s and -F."""

import pytest

from perfpy.analysis.report.options import ColumnOptions, make_layout
from perfpy.analysis.sort_key import Mode
from perfpy.errors import UsageError


def names(entries):
    return [entry.name for entry in entries]


def test_the_default_is_overhead_by_command_file_and_function():
    layout = make_layout(ColumnOptions())
    assert names(layout.fields) == ["overhead", "comm", "dso", "symbol"]
    assert names(layout.sorts) == ["overhead", "comm", "dso", "symbol"]


def test_callers_stand_before_the_overhead():
    assert names(make_layout(ColumnOptions(children=True)).fields)[:2] == ["overhead_children", "overhead"]


def test_the_first_key_that_begins_with_a_word_is_meant():
    assert names(make_layout(ColumnOptions(sort="s,d,c")).keys) == ["symbol", "dso", "comm"]


def test_a_plus_adds_to_the_default():
    assert names(make_layout(ColumnOptions(sort="+cpu")).keys) == ["comm", "dso", "symbol", "cpu"]


def test_fields_alone_are_shown_and_sorted_by_in_their_order():
    layout = make_layout(ColumnOptions(fields="comm,overhead,sym"))
    assert names(layout.fields) == ["comm", "overhead", "symbol"] == names(layout.sorts)


def test_a_field_with_plus_is_added_to_the_usual_columns():
    assert names(make_layout(ColumnOptions(sort="comm", fields="+period")).fields) == ["overhead", "period", "comm"]


def test_two_names_of_one_key_are_one_column():
    layout = make_layout(ColumnOptions(sort="retire_lat,p_stage_cyc,local_retire_lat,local_p_stage_cyc"))
    assert names(layout.keys) == ["retire_lat", "local_retire_lat"]


def test_no_keys_at_all_are_one_row_for_everything():
    layout = make_layout(ColumnOptions(sort=""))
    assert names(layout.fields) == ["overhead"] == names(layout.sorts)


def test_braces_hold_a_level_together():
    layout = make_layout(ColumnOptions(sort="comm,{dso,sym},cpu"))
    assert [names(level) for level in layout.levels] == [["comm"], ["dso", "symbol"], ["cpu"]]


@pytest.mark.parametrize("sort", ["nonsense", "+", "comm,overheadx"])
def test_unknown_keys_are_named(sort):
    with pytest.raises(UsageError, match="--sort key"):
        make_layout(ColumnOptions(sort=sort))


def test_keys_of_branches_need_branches():
    with pytest.raises(UsageError, match="Invalid --sort key: `dso_from'"):
        make_layout(ColumnOptions(sort="dso_from"))
    assert make_layout(ColumnOptions(sort="dso_from", mode=Mode.BRANCH)).has("dso_from")


def test_tracepoints_alone_are_sorted_by_their_text():
    assert names(make_layout(ColumnOptions(tracepoints=True)).keys) == ["trace"]


def test_keys_newer_than_perf_612_take_no_abbreviation_away():
    assert names(make_layout(ColumnOptions(sort="t,comm,tgid,comm_nodigit")).keys) == ["transaction", "comm", "tgid", "comm_nodigit"]


@pytest.mark.parametrize(
    ("sort", "message"),
    [
        ("symblo", "Unknown --sort key: `symblo'; similar keys: symbol"),
        ("qqqq", "Unknown --sort key: `qqqq'; keys: overhead, "),
        ("comm,typeoff", "Unknown --sort key: `typeoff'; perfpy does not read data types"),
        ("dso_from", "Invalid --sort key: `dso_from' needs branch records; record with -b"),
        ("mem", "Invalid --sort key: `mem' needs --mem-mode"),
    ],
)
def test_errors_name_alternatives(sort, message):
    with pytest.raises(UsageError) as caught:
        make_layout(ColumnOptions(sort=sort))
    assert str(caught.value).startswith(message)


def test_fields_are_refused_alike():
    with pytest.raises(UsageError, match="Unknown --fields key: `overhed'; similar keys: overhead"):
        make_layout(ColumnOptions(fields="overhed"))
