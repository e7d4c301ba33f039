"""Rules of unwinding: DWARF expressions, code and tables of ARM."""

from __future__ import annotations

import contextlib
import operator
import random
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.symbols import perf_map
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.files.elf import ElfFile
from perfpy.unwind.arm_tables import ArmTables, rules_of
from perfpy.unwind.code_rules import in_trampolines, of_trampoline
from perfpy.unwind.expressions import evaluate
from perfpy.unwind.rules import OFFSET, FrameRules, architecture
from tests.builders import elf as b
from tests.builders.call_frames import sleb, uleb
from tests.builders.elf import Elf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer


# Expressions give for every sample what a machine that runs them for one sample would.


MASK = (1 << 64) - 1


@dataclass
class Machine:
    """Samples whose register n is 1000 * n + row, and whose memory at an even address holds twice the address."""

    word: int = 8
    endian: str = "<"
    operations_left: int = 1 << 20
    asked: list[int] = field(default_factory=list)

    def register(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        self.asked.append(number)
        return np.uint64(1000 * number & MASK) + rows.astype(np.uint64)

    def load(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        return addresses * np.uint64(2), addresses % np.uint64(2) == 0


def results(expression: bytes, rows: int = 2, cfa: int | None = None, **machine: object) -> list[int]:
    context = Machine(**machine)  # type: ignore[arg-type]
    start = None if cfa is None else np.full(rows, cfa, np.uint64)
    result: list[int] = evaluate(expression, context, np.arange(rows), start)[0].tolist()
    return result


def literal(number: int) -> bytes:
    return bytes([0x30 + number])


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (b"\x03" + (0x1234).to_bytes(8, "little"), 0x1234),
        (b"\x08\xfe", 0xFE),
        (b"\x09\xfe", MASK - 1),
        (b"\x0a\xfe\xff", 0xFFFE),
        (b"\x0b\xfe\xff", MASK - 1),
        (b"\x0c\xfe\xff\xff\xff", 0xFFFFFFFE),
        (b"\x0d\xfe\xff\xff\xff", MASK - 1),
        (b"\x0e" + bytes([1] * 8), 0x0101010101010101),
        (b"\x10" + uleb(300), 300),
        (b"\x11" + sleb(-300), MASK - 299),
        (literal(7) + b"\x12\x22", 14),  # dup plus
        (literal(7) + literal(9) + b"\x13", 7),  # drop
        (literal(7) + literal(9) + b"\x14", 7),  # over
        (literal(7) + literal(9) + b"\x15\x01", 7),  # pick
        (literal(7) + literal(9) + b"\x16\x1c", 2),  # swap minus
        (literal(1) + literal(2) + literal(4) + b"\x17\x1c", MASK),  # rot: 4 1 2, minus
        (literal(8) + b"\x06", 16),
        (b"\x10" + uleb(0x1234) + b"\x94\x01", 0x68),
        (literal(5) + b"\x1f\x19", 5),  # neg abs
        (literal(5) + b"\x20", MASK - 5),
        (literal(5) + b"\x23" + uleb(200), 205),
        (b"\x96" + literal(5) + b"\x9f", 5),
        (literal(3) + b"\x2f\x01\x00" + literal(9), 3),  # skip
        (b"\x92" + uleb(3) + sleb(-8), 2992),
    ],
)
def test_operations(expression, result):
    assert results(expression, rows=1) == [result]


BINARY = {
    0x1A: operator.and_, 0x1C: operator.sub, 0x1E: operator.mul, 0x21: operator.or_, 0x22: operator.add, 0x27: operator.xor,
    0x29: operator.eq, 0x2A: operator.ge, 0x2B: operator.gt, 0x2C: operator.le, 0x2D: operator.lt, 0x2E: operator.ne,
}  # fmt: skip


@given(st.sampled_from(sorted(BINARY)), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_binary_operators_use_signed_numbers(code, below, top):
    assert results(b"\x11" + sleb(below) + b"\x11" + sleb(top) + bytes([code]), rows=1) == [int(BINARY[code](below, top)) & MASK]


@pytest.mark.parametrize(
    ("code", "below", "top", "result"),
    [
        (0x1B, -7, 2, MASK - 2),  # division towards zero
        (0x1B, 7, 0, 0 + 7 * 0),
        (0x1D, 7, 4, 3),
        (0x24, 1, 63, 1 << 63),
        (0x24, 1, 64, 0),
        (0x25, -1, 60, 15),
        (0x26, -16, 2, MASK - 3),
        (0x26, -16, 100, MASK),
    ],
)
def test_numbers_are_divided_and_shifted(code, below, top, result):
    assert results(b"\x11" + sleb(below) + b"\x11" + sleb(top) + bytes([code]), rows=1) == [result]


def test_the_linkage_table_expression_depends_on_the_pc():
    """rsp + 8, and 8 more from the 12th byte of an entry of 16 on."""
    expression = b"\x77\x08\x80\x00" + literal(15) + b"\x1a" + literal(11) + b"\x2a" + literal(3) + b"\x24\x22"
    assert results(expression, rows=16) == [7008 + row + (8 if (16000 + row) & 15 >= 11 else 0) for row in range(16)]


def test_samples_branch_separately():
    odd = b"\x80\x00" + literal(1) + b"\x1a\x28\x04\x00" + literal(7) + b"\x2f\x01\x00" + literal(9)
    assert results(odd, rows=4) == [7, 9, 7, 9]


def test_the_cfa_is_pushed_first_and_available_as_an_operation():
    assert results(literal(8) + b"\x1c", cfa=100) == [92, 92]
    assert results(b"\x13\x9c", cfa=100) == [100, 100]


def test_unknown_inputs_make_the_result_unknown():
    result = evaluate(b"\x70\x00\x06", Machine(), np.arange(3))[1]
    assert result.tolist() == [True, False, True]


def test_numbers_of_32_bits_wrap_around():
    assert results(literal(1) + literal(2) + b"\x1c", rows=1, word=4) == [0xFFFFFFFF]
    assert results(literal(1) + literal(2) + b"\x1c" + literal(0) + b"\x2d", rows=1, word=4) == [1]


def test_the_first_bytes_of_a_big_endian_word_are_its_upper_ones():
    assert results(b"\x0e" + (1 << 60).to_bytes(8, "big") + b"\x94\x01", rows=1, endian=">") == [0x20]


@pytest.mark.parametrize(
    "expression",
    [b"", b"\x06", b"\x22", b"\x15\x05", b"\x17", b"\xff", b"\x2f\xfd\xff", b"\x2f\x10\x00", b"\x30" * 100, b"\x30\x28\x00", b"\x9c"],
)
def test_damaged_expressions_raise(expression):
    with pytest.raises(ValueError, match=r"expression|beyond|stack"):
        results(expression)


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_run_or_refused(expression):
    with contextlib.suppress(ValueError):
        assert len(results(expression, rows=3)) == 3


# Trampolines of Python functions: those without a frame pointer are known by their size.


#: of 3.12 without and with endbr64, with a frame pointer, and of another runtime
MAP = b"10000 b py::f:/a.py\n1000b f py::g:/a.py\n1001a c py::h:/a.py\n10030 b JS:*fib\n10040 40 perfpy::evaluate\n"


class Maps:
    """A Symbolizer with a perf map, and a file that has the same names."""

    dsos = (Dso("/tmp/perf-7.map", DsoKind.JIT), Dso("/usr/bin/program"))

    def __init__(self, *later: bytes) -> None:
        self._text = MAP
        self._later = [*later]

    def symbols_of(self, number: int, addresses: NDArray[np.uint64]) -> tuple[Any, NDArray[np.int64]]:
        table = perf_map.MapTable(perf_map.parse(self._text))
        return table, table.find(addresses)

    def has_grown(self, number: int) -> bool:
        grown = bool(self._later)
        self._text += b"".join(self._later)
        self._later.clear()
        return grown


def found(dso: int, *addresses: int, maps: Maps | None = None) -> list[bool]:
    inside, _ = in_trampolines(cast("Symbolizer", maps or Maps()), dso, np.array(addresses, np.uint64))
    return [bool(one) for one in inside]


def test_trampolines_are_identified_by_name_and_size():
    assert found(0, 0x10005, 0x1000F, 0x1001F, 0x10035, 0x10100) == [True, True, False, False, False]
    assert found(0) == []


def test_perfpys_evaluator_is_identified_by_name():
    addresses = np.array([0x10005, 0x10035, 0x10050, 0x1007F, 0x10080], np.uint64)
    trampolines, evaluator = in_trampolines(cast("Symbolizer", Maps()), 0, addresses)
    assert trampolines.tolist() == [True, False, False, False, False]
    assert evaluator.tolist() == [False, False, True, True, False]


def test_a_growing_map_is_read_again_for_unknown_addresses():
    maps = Maps(b"20000 b py::later:/a.py\n")
    assert found(0, 0x10005, maps=maps) == [True]
    assert found(0, 0x10005, 0x20005, maps=maps) == [True, True]
    assert found(0, 0x30000, maps=maps) == [False]


def test_only_perf_maps_contain_trampolines():
    assert found(1, 0x10005) == [False]


def test_the_cfa_of_a_trampoline_is_16_bytes_above_its_stack_pointer():
    x86 = architecture("x86_64", 2)
    assert x86 is not None
    rules = of_trampoline(x86)
    assert rules is not None
    assert (rules.cfa, rules.registers, rules.reach) == ((7, 16), ((16, (OFFSET, -8)),), None)


def test_other_architectures_trampolines_have_frame_pointers():
    i386 = architecture("x86_64", 1)
    assert i386 is not None
    assert of_trampoline(i386) is None


# The tables of 32-bit Arm programs as rules: what each instruction does, where entries lie, and what damage gives.


CODE, TABLE, ENTRIES = 0x10000, 0x10800, 0x10900


def offsets(rules: FrameRules | None) -> dict[int, int]:
    """Register -> where it was saved, from the CFA."""
    assert rules is not None
    assert all(kind == OFFSET for _, (kind, _) in rules.registers)
    return {register: value for register, (_, value) in rules.registers if not isinstance(value, bytes)}


@pytest.mark.parametrize(
    ("instructions", "cfa", "saved"),
    [
        ("b0", (13, 0), {}),  # finish at once
        ("a0b0b0", (13, 4), {4: -4}),  # pop {r4}
        ("aeb0b0", (13, 32), {4: -32, 5: -28, 6: -24, 7: -20, 8: -16, 9: -12, 10: -8, 14: -4}),  # pop {r4-r10, lr}
        ("97840b", (7, 16), {4: -16, 5: -12, 7: -8, 14: -4}),  # sp = r7; pop {r4, r5, r7, lr}
        ("0ba8b0", (13, 56), {4: -8, 14: -4}),  # sp += 48; pop {r4, lr}
        ("b108ad", (13, 32), {3: -32, 4: -28, 5: -24, 6: -20, 7: -16, 8: -12, 9: -8, 14: -4}),  # pop {r3}; pop {r4-r9, lr}
        ("b20100", (13, 0x204 + 8), {}),  # sp += 0x204 + 1 << 2; then 4 more
        ("40a8", (13, 4), {4: -8, 14: -4}),  # sp -= 4
        ("8800", (13, 4), {14: -4}),  # pop {pc}: the caller's is there
        ("c803b0", (13, 32), {}),  # four registers of floating point
        ("b303b0", (13, 36), {}),  # the same in the old form, with a word
        ("d3b0", (13, 32), {}),  # d8-d11
        ("bbb0", (13, 36), {}),
        ("b4a8", (13, 12), {4: -8, 14: -4}),  # a signature
        ("c6c3", (13, 32), {}),
        ("c70f", (13, 16), {}),
        ("c3", (13, 32), {}),
    ],
)
def test_instructions_locate_registers(instructions: str, cfa: tuple[int, int], saved: dict[int, int]) -> None:
    rules = rules_of(bytes.fromhex(instructions))
    assert offsets(rules) == saved
    assert rules is not None
    assert (rules.cfa, rules.return_column) == (cfa, 14)


@pytest.mark.parametrize("instructions", ["", "8000", "a897", "8200"])
def test_instructions_that_rules_cannot_express_end_the_chain(instructions: str) -> None:
    """Nothing; refuse to unwind; the stack pointer from a register that was popped; the stack pointer popped."""
    assert rules_of(bytes.fromhex(instructions)) is None


@pytest.mark.parametrize("instructions", ["9d", "9f", "ca", "d8", "ff", "b5", "b2ffffffffff"])
def test_instructions_outside_the_abi_raise(instructions: str) -> None:
    with pytest.raises(ValueError, match=r"unknown|cannot be|without end"):
        rules_of(bytes.fromhex(instructions))


def prel31(target: int, here: int) -> int:
    return (target - here) & 0x7FFFFFFF


def tables(rows: list[tuple[int, int]], entries: bytes = b"", endian: str = "<") -> ArmTables:
    """rows: start of the code, and the second word: as it is, or (from 0x10000 on) where the entry is."""
    words = []
    for number, (start, word) in enumerate(rows):
        here = TABLE + 8 * number
        words += [prel31(start, here), prel31(word, here + 4) if CODE <= word < 1 << 20 else word]
    elf = Elf(bits=32, machine=b.ARM, endian=endian).text(CODE, size=0x400).segment(CODE, CODE, 0x1000)
    elf.section(".ARM.exidx", struct.pack(f"{endian}{len(words)}I", *words), addr=TABLE, offset=TABLE)
    elf.section(".ARM.extab", entries, addr=ENTRIES, offset=ENTRIES)
    return ArmTables(ElfFile("app", elf.build()))


@pytest.mark.parametrize("endian", ["<", ">"])
def test_entries_are_inline_or_separate(endian: str) -> None:
    entries = struct.pack(f"{endian}IIIII", 0x8101AEB0, 0xB0B0B0B0, prel31(CODE, ENTRIES + 8), 0x01A8B0B0, 0xB0B0B0B0)
    rows = [(CODE, 0x80A8B0B0), (CODE + 0x40, 1), (CODE + 0x80, ENTRIES), (CODE + 0xC0, ENTRIES + 8)]
    actual_tables = tables(rows, entries, endian)
    assert offsets(actual_tables.find(CODE + 0x3E)) == {4: -8, 14: -4}
    assert actual_tables.find(CODE + 0x40) is None
    assert len(offsets(actual_tables.find(CODE + 0x80))) == 8
    assert offsets(actual_tables.find(CODE + 0x3FF)) == {4: -8, 14: -4}
    assert actual_tables.find(CODE - 1) is None


def test_damaged_tables_have_no_rules_and_one_flaw() -> None:
    actual_tables = tables([(CODE, 0x8FA8B0B0), (CODE + 0x40, 0xFFF00)])
    assert actual_tables.find(CODE) is None
    assert actual_tables.find(CODE + 0x40) is None
    assert actual_tables._file.flaws == ["unwinding tables of Arm: an entry that makes no sense"]


def test_random_instructions_give_rules_or_none() -> None:
    rng = random.Random(4)
    for _ in range(2000):
        data = rng.randbytes(rng.randrange(1, 40))
        try:
            rules = rules_of(data)
        except (ValueError, StopIteration):
            continue
        assert rules is None or -0x20000000 < rules.cfa[1] < 0x20000000


def test_random_tables_give_rules_or_none() -> None:
    rng = random.Random(5)
    for _ in range(200):
        rows = [(CODE + 8 * number, rng.choice((rng.getrandbits(32), ENTRIES + rng.randrange(0, 64), 1))) for number in range(12)]
        actual_tables = tables(rows, rng.randbytes(64), rng.choice("<>"))
        for address in range(CODE - 8, CODE + 0x100, 8):
            actual_tables.find(address)
