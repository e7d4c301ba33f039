"""Perf maps of JIT compilers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.symbols import perf_map
from perfpy.untrusted.process_files import trusted_owners

if TYPE_CHECKING:
    from pathlib import Path


def names(text: bytes, *addresses: int) -> list[str]:
    table = perf_map.MapTable(perf_map.parse(text))
    return [table.name(row) if row >= 0 else "-" for row in table.find(np.array(addresses, np.uint64)).tolist()]


def test_names_may_hold_spaces_and_anything_else():
    text = b"7f0000001000 40 JS:*fib /home/x y/a.js:1:2\n7f0000001040 8 py::main:/x.py\n"
    assert names(text, 0x7F0000001000, 0x7F000000103F, 0x7F0000001044, 0x7F0000001048) == [
        *("JS:*fib /home/x y/a.js:1:2", "JS:*fib /home/x y/a.js:1:2", "py::main:/x.py", "-"),
    ]


def test_addresses_may_have_a_prefix():
    assert names(b"0x1000 0x10 f\n", 0x1008) == ["f"]


def test_reused_memory_has_the_last_name():
    assert names(b"1000 10 old\n2000 10 other\n1000 10 new\n", 0x1000, 0x100C) == ["new", "new"]


def test_uncovered_parts_of_earlier_code_keep_name_and_start():
    text = b"1000 100 old\n2000 10 other\n1000 8 new\n1040 10 inner\n1048 20 last\n"
    assert names(text, 0x1004, 0x1008, 0x103F, 0x1041, 0x1048, 0x1067, 0x1068, 0x10FF, 0x1100) == [
        *("new", "old", "old", "inner", "last", "last", "old", "old", "-"),
    ]
    table = perf_map.MapTable(perf_map.parse(text))
    assert table.symbols.start[table.find(np.array([0x1050, 0x10F0], np.uint64))].tolist() == [0x1048, 0x1000]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=12))
def test_the_last_covering_line_wins_at_every_address(spans: list[tuple[int, int]]):
    text = b"".join(b"%x %x %d\n" % (start, size, number) for number, (start, size) in enumerate(spans))
    covering = [[str(number) for number, (start, size) in enumerate(spans) if start <= at < start + size] for at in range(64)]
    assert names(text, *range(64)) == [(["-", *result])[-1] for result in covering]


def test_code_without_a_size_covers_its_start():
    assert names(b"1000 0 f\n", 0x1000, 0x1001) == ["f", "-"]


@pytest.mark.parametrize("size", [1, 10, 13, 14, 15, 40, 1000])
def test_lines_are_the_same_in_pieces_of_any_size(size: int, monkeypatch: pytest.MonkeyPatch):
    text = b"1000 10 first\n2000 10 a longer name\n\nxx\n3000 10 last"
    monkeypatch.setattr(perf_map, "_PIECE", size)
    assert names(text, 0x1004, 0x2004, 0x3004, 0x4000) == ["first", "a longer name", "last", "-"]


def test_functions_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """A line may have six bytes: of a map of the largest size 90 million functions."""
    monkeypatch.setattr(perf_map, "_PIECE", 30)
    text = b"".join(b"%x 1 f%d\n" % (0x1000 + number, number) for number in range(100))
    table = perf_map.MapTable(perf_map.parse(text, 20))
    assert len(table) == 20
    assert [table.find(np.array([0x1000 + number], np.uint64))[0] for number in (0, 19, 20)] == [0, 19, -1]


def test_malformed_lines_are_skipped():
    assert names(b"\nnonsense\n1000\n1000 10\n1000 10 f\nzz 10 g\n", 0x1000) == ["f"]
    assert names(b"", 0x1000) == ["-"]


def test_names_are_not_demangled():
    assert names(b"1000 10 _Z3foov\n", 0x1000) == ["_Z3foov"]


def test_a_map_is_read_from_its_file(tmp_path: Path):
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    assert len(perf_map.load(str(tmp_path / "perf-7.map"))) == 1


def test_a_map_of_another_user_is_refused(tmp_path: Path):
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    assert len(perf_map.load(str(tmp_path / "perf-7.map"), {os.getuid()})) == 1
    with pytest.raises(PermissionError):
        perf_map.load(str(tmp_path / "perf-7.map"), {12345})


def test_a_map_has_a_largest_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(perf_map, "LARGEST", 9)
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    with pytest.raises(OSError, match="larger"):
        perf_map.load(str(tmp_path / "perf-7.map"))


def test_a_fifo_in_the_place_of_a_map_is_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "perf-7.map")
    with pytest.raises(OSError, match="not a regular file"):
        perf_map.load(str(tmp_path / "perf-7.map"))


def test_files_about_a_process_may_belong_to_its_owner_root_or_us():
    assert trusted_owners(os.getpid()) == {0, os.geteuid()}
    assert trusted_owners(1 << 22) == {0, os.geteuid()}  # no such process
