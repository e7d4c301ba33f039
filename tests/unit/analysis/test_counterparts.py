"""A program has one name for two recordings, whatever each calls it."""

from __future__ import annotations

import pytest

from perfpy.analysis.counterparts import Counterparts, main_command

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
