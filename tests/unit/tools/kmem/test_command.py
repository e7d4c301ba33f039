"""Tests of `perfpy kmem stat`: options of the tables, and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.kernel_events import recording_of_allocations
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A recording of allocations."""
    file = tmp_path / "perf.data"
    file.write_bytes(recording_of_allocations())
    return str(file)


def test_sort_and_limit_belong_to_the_table_before_them(path, capsys):
    assert run(["kmem", "stat", "--caller", "-l", "1", "--alloc", "-l", "2", "-i", path]) == 0
    tables = capsys.readouterr().out.split("Frag\n")[1:]
    assert [sum(line.startswith(" 0x") for line in table.splitlines()) for table in tables] == [1, 2]


def test_options_may_stand_on_both_sides_of_the_action(path, capsys):
    assert run(["kmem", "--page", "-i", path, "--alloc", "-l", "2", "stat"]) == 0
    before = capsys.readouterr().out
    assert run(["kmem", "stat", "--page", "--alloc", "-l", "2", "-i", path]) == 0
    assert capsys.readouterr().out == before


def test_the_caller_of_pages_is_shown_by_address_without_symbols(path, capsys):
    assert run(["kmem", "--page", "--caller", "-i", path, "stat"]) == 0
    assert "| 7000\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alloc", "-s", "page"], "-s page: unknown sort key; expected ptr, callsite, bytes, hit, pingpong, frag"),
        (["--page", "--alloc", "-s", "ptr"], "-s ptr: unknown sort key; expected page, callsite, bytes, hit, order, migtype, gfp"),
    ],
)
def test_a_sort_key_of_the_other_allocator_is_refused(words, message, path, capsys):
    assert run(["kmem", *words, "-i", path, "stat"]) == 129
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["slab", "page"])
def test_a_recording_without_allocations_is_refused_with_the_line_that_records_them(kind, tmp_path, capsys):
    file = tmp_path / "perf.data"
    file.write_bytes(EventRecording(["kmem:kfree"]).event("kmem:kfree", 10**9, 1, 2).file())
    assert run(["kmem", f"--{kind}", "-i", str(file), "stat"]) == 129
    assert f"perfpy kmem --{kind} record -- COMMAND" in capsys.readouterr().err
