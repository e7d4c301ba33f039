"""The tables of 32-bit Arm programs as rules: what each instruction does, where entries lie, and what damage gives."""

from __future__ import annotations

import random
import struct

import pytest

from perfpy.symbols.files.elf import ElfFile
from perfpy.unwind.arm_tables import ArmTables, rules_of
from perfpy.unwind.rules import OFFSET, FrameRules
from tests.builders import elf as b
from tests.builders.elf import Elf

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
