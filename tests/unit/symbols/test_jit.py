"""Perf maps of JIT compilers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.symbols import jit
from perfpy.symbols.symbol_table import SymbolTable

if TYPE_CHECKING:
    from pathlib import Path


def names(text: bytes, *addresses: int) -> list[str]:
    table = SymbolTable(jit.parse(text))
    return [table.name(row) if row >= 0 else "-" for row in table.find(np.array(addresses, np.uint64)).tolist()]


def test_names_may_hold_spaces_and_anything_else():
    text = b"7f0000001000 40 JS:*fib /home/x y/a.js:1:2\n7f0000001040 8 py::main:/x.py\n"
    assert names(text, 0x7F0000001000, 0x7F000000103F, 0x7F0000001044, 0x7F0000001048) == [
        *("JS:*fib /home/x y/a.js:1:2", "JS:*fib /home/x y/a.js:1:2", "py::main:/x.py", "-"),
    ]


def test_addresses_may_have_a_prefix():
    assert names(b"0x1000 0x10 f\n", 0x1008) == ["f"]


def test_code_made_anew_at_an_address_has_the_last_name():
    assert names(b"1000 10 old\n2000 10 other\n1000 8 new\n", 0x1004, 0x100C) == ["new", "-"]


def test_lines_that_are_not_as_described_are_skipped():
    assert names(b"\nnonsense\n1000\n1000 10\n1000 10 f\nzz 10 g\n", 0x1000) == ["f"]
    assert names(b"", 0x1000) == ["-"]


def test_names_are_not_demangled():
    assert names(b"1000 10 _Z3foov\n", 0x1000) == ["_Z3foov"]


def test_a_map_is_read_from_its_file(tmp_path: Path):
    (tmp_path / "perf-7.map").write_bytes(b"1000 10 f\n")
    assert len(jit.load(str(tmp_path / "perf-7.map"))) == 1
