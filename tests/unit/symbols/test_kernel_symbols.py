"""/proc/kallsyms: which lines count, where symbols end, and who owns them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from perfpy.symbols import kernel_symbols
from perfpy.symbols.symbol_table import SymbolTable

KERNEL = 0xFFFFFFFF81000000
TEXT = b"""\
ffffffff81000000 T _stext
ffffffff81000000 T _text
ffffffff81000100 t helper
ffffffff81000200 W weak_one
ffffffff81000200 t strong_local
ffffffff81000300 D a_table
ffffffff81000400 B a_bss
ffffffff81000500 r read_only
ffffffff81000600 A absolute
ffffffff81000700 t $d.7
ffffffffc0000000 t mod_start\t[nf_tables]
ffffffffc0000020 T mod_next\t[nf_tables]
ffffffffc0010000 t other\t[xfs]
"""


def kernel(text: bytes = TEXT) -> SymbolTable:
    return SymbolTable(kernel_symbols.parse(text).of_module(-1))


def name(table: SymbolTable, address: int) -> str:
    row = int(table.find(np.array([address], np.uint64))[0])
    return table.name(row) if row >= 0 else "-"


def test_code_and_data_count_other_types_do_not():
    table = kernel()
    assert [name(table, 0xFFFFFFFF81000000 + at) for at in (0x100, 0x300, 0x400, 0x500, 0x600, 0x700)] == [
        *("helper", "a_table", "a_bss", "a_bss", "a_bss", "a_bss"),
    ]


def test_the_last_symbol_at_an_address_wins():
    # none has a size, so each but the last ends where it starts
    table = kernel()
    assert name(table, 0xFFFFFFFF81000000) == "_text"
    assert name(table, 0xFFFFFFFF81000250) == "strong_local"


def test_the_last_symbol_before_a_module_ends_with_the_next_page():
    symbols = kernel_symbols.parse(TEXT).symbols
    ends = {SymbolTable(symbols).name(row): int(symbols.end[row]) for row in range(len(symbols))}
    assert ends["a_bss"] == 0xFFFFFFFF81002000
    assert ends["mod_start"] == 0xFFFFFFFFC0000020
    assert ends["mod_next"] == 0xFFFFFFFFC0002000
    assert ends["other"] == 0xFFFFFFFFC0011000


def test_each_module_has_its_own_symbols():
    table = kernel_symbols.parse(TEXT)
    assert table.module_names == ["[nf_tables]", "[xfs]"]
    assert table.module.tolist() == [-1] * 7 + [0, 0, 1]
    assert [hex(start) for start in table.of_module(0).start.tolist()] == ["0xffffffffc0000000", "0xffffffffc0000020"]


def test_symbols_of_a_module_may_lie_apart():
    table = kernel_symbols.parse(TEXT + b"ffffffffc0020000 t far\t[nf_tables]\n")
    assert [hex(start) for start in table.of_module(0).start.tolist()][-1] == "0xffffffffc0020000"
    assert table.of_module(1).end.tolist() == [0xFFFFFFFFC0011000]


def test_the_address_of_a_function_is_that_of_its_first_line():
    table = kernel_symbols.parse(TEXT + b"ffffffff82000000 T _text\n")
    assert table.address_of("_text") == 0xFFFFFFFF81000000
    assert table.address_of("text") is None
    assert table.address_of("a_table") is None  # data
    assert table.is_at("_text", 0xFFFFFFFF81000000)
    assert table.is_at("_stext", 0xFFFFFFFF81000000)
    assert not table.is_at("_text", 0xFFFFFFFF81000100)
    assert not table.is_at("a_table", 0xFFFFFFFF81000300)


def test_a_compact_table_has_the_same_symbols():
    table, small = kernel_symbols.parse(TEXT), kernel_symbols.parse(TEXT).compact()
    assert len(small.symbols.sources[0]) < len(table.symbols.sources[0])
    assert small.address_of("_stext") == small.address_of("_text") == 0xFFFFFFFF81000000
    assert small.address_of("hook") is small.address_of("start") is None
    names = [[SymbolTable(result.symbols).raw_name(row) for row in range(len(result.symbols))] for result in (table, small)]
    assert names[0] == names[1]


def test_addresses_that_the_kernel_hides_are_recognised():
    assert kernel_symbols.parse(b"0000000000000000 T _text\n0000000000000000 t helper\n").is_restricted
    assert not kernel_symbols.parse(TEXT).is_restricted


def test_addresses_of_32_bit_kernels_are_shorter():
    table = kernel(b"c0100000 T _text\nc0100010 t helper\n")
    assert name(table, 0xC0100015) == "helper"


def test_addresses_are_read_digit_by_digit():
    """Upper and lower case, all digits in all places."""
    addresses = [0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x9A9A9A9A9A9A9A9A, 0xA0F0000000000F0A, 0x0FFFFFFFFFFFFFFF]
    lines = [f"{address:{case}} T f{address:x}\n" for address, case in zip(addresses, ["016x", "016X"] * 3, strict=False)]
    table = kernel_symbols.parse("".join(lines).encode())
    assert table.symbols.start.tolist() == sorted(addresses)


@pytest.mark.parametrize("wrong", b"/:@G`g\0\x10\x80\xb0\xe1 x")
@pytest.mark.parametrize("place", [0, 3, 7, 8, 15])
def test_other_characters_make_no_address(wrong: int, place: int):
    good = b"ffffffff81000000 T good\n"
    bad = bytearray(b"ffffffff81000100 T bad\n")
    bad[place] = wrong
    assert kernel_symbols.parse(good + bytes(bad)).symbols.start.tolist() == [0xFFFFFFFF81000000]


@pytest.mark.parametrize("text", [b"", b"\n", b"garbage\n", b"ffffffff81000000\n", b"xx T y\n\n\n", b"ffffffff81000000 T"])
def test_lines_without_a_symbol_are_skipped(text: bytes):
    assert len(kernel_symbols.parse(text).symbols) == 0


def test_the_last_line_may_lack_its_end():
    assert name(kernel(b"ffffffff81000000 T _text"), 0xFFFFFFFF81000000) == "_text"


@pytest.mark.parametrize(
    "text",
    [
        b"f" * 4_000_000 + b" T f\n",
        b"\n" * 4_000_000,
        b"ffffffff81000000 T " + b"f" * 4_000_000,
        b"ffffffff81000000 T f\t[" + b"m" * 4_000_000 + b"]",
        b"ffffffff81000000 T f\t[m]\n" * 100_000,
    ],
)
def test_lines_that_no_kernel_writes_take_time_by_their_length(text: bytes):
    start = time.process_time()
    table = kernel_symbols.parse(text)
    assert table.address_of("") is None
    assert time.process_time() - start < 2


def test_a_name_that_ends_every_line_is_looked_up_once():
    text = b"".join(b"%016x t x.a\n" % (KERNEL + 16 * number) for number in range(100_000)) + b"%016x T a\n" % (KERNEL + 16)
    table = kernel_symbols.parse(text)
    start = time.process_time()
    assert table.address_of("a") == KERNEL + 16
    assert time.process_time() - start < 2
