"""Callchains of processes that are made here: program, mappings, registers and stack."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.abi.flags import CONTEXT_LOST_CALLER
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.unwind.rules import architecture
from perfpy.unwind.stepper import Stepper, Unwound, UserStacks
from tests.builders import call_frames as cfi
from tests.builders.elf import I386, X86_64, Elf
from tests.builders.timeline import mmap, timeline

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PID = 7
CODE = 0x400000  # where the program is mapped; its code is at 0x1000 in it
STACK = 0x7FFF0000
LEAF, MIDDLE, OUTER, FIRST = 0x1000, 0x1100, 0x1200, 0x1300
SP, BP, PC, BX = 7, 6, 8, 1  # perf's numbers
#: what a caller's pc is when the call ends 0x20 bytes into it
INTO = 0x20


class Process:
    """A program whose functions are known by call frame information, and what a sample of it has."""

    def __init__(self, folder: Path, *, bits: int = 64) -> None:
        self._folder = folder
        self.word = bits // 8
        returns, stack_pointer = (16, 7) if bits == 64 else (8, 4)
        self.info = cfi.CallFrameInfo(address=0x2000, word=self.word)
        self.usual = self.info.common(
            cfi.define_cfa(stack_pointer, self.word), cfi.offset(returns, 1), data_align=-self.word, returns=returns
        )
        self.elf = Elf(bits=bits, machine=X86_64 if bits == 64 else I386).text(0x1000, size=0x800)
        self.elf.section(".dynsym", type=11).segment(0, 0, 0x4000)
        self.maps = [(1, mmap(PID, CODE, 0x4000, str(folder / "program"))), (2, mmap(PID, STACK, 0x10000, "[stack]", prot=3))]

    def function(self, start: int, *program: bytes, common: int | None = None, size: int = 0x100) -> None:
        self.info.entry(self.usual if common is None else common, start, size, *program)

    def symbolizer(self) -> Symbolizer:
        """Write the program, once."""
        self.elf.section(".eh_frame", self.info.section(), addr=self.info.address, offset=0x2000)
        self.elf.section(".eh_frame_hdr", self.info.header(0x3000), addr=0x3000, offset=0x3000)
        (self._folder / "program").write_bytes(self.elf.build())
        return Symbolizer(timeline(*self.maps), SymbolOptions(cache=False, buildid_dir=str(self._folder)))

    def unwound(
        self, stack: bytes, registers: Mapping[int, int], *, copies: int = 1, most: int = 127, abi: int = 2, machine: str = "x86_64"
    ) -> Unwound:
        symbolizer = self.symbolizer()
        of = architecture(machine, abi)
        assert of is not None
        size = len(stack) + 7 & ~7
        values = {SP: STACK, **registers}
        stacks = UserStacks(
            {number: np.full(copies, value, np.uint64) for number, value in values.items()},
            np.frombuffer(stack.ljust(size, b"\0") * copies, np.uint8),
            np.arange(copies) * size,
            np.full(copies, len(stack)),
            np.full(copies, PID, np.int32),
            np.full(copies, 100, np.uint64),
        )
        return Stepper(of, symbolizer, max_stack=most).unwind(stacks)


@pytest.fixture
def process(tmp_path: Path) -> Process:
    return Process(tmp_path)


def words(*values: int, word: int = 8) -> bytes:
    return b"".join(struct.pack("<Q" if word == 8 else "<I", value) for value in values)


def returns_to(function: int) -> int:
    return CODE + function + INTO


def chain(found: Unwound, row: int = 0) -> list[int]:
    """Addresses in the program; others as they are."""
    return [value - CODE if CODE <= value < CODE + 0x4000 else value for value in found.chains[row].tolist()]


def calls(*functions: int) -> list[int]:
    """A leaf's address, and where its callers call: one byte before the call returns."""
    return [functions[0], *(function + INTO - 1 for function in functions[1:])]


PADDING = words(*[0] * 8)


def test_callers_are_found_by_rules(process):
    process.function(LEAF)
    process.function(MIDDLE, cfi.advance(1), cfi.define_cfa_offset(32))
    process.function(OUTER, cfi.undefined(16))
    stack = words(returns_to(MIDDLE), 1, 2, 3, returns_to(OUTER)) + PADDING
    unwound = process.unwound(stack, {PC: CODE + LEAF}, copies=3)
    assert [chain(unwound, row) for row in range(3)] == [calls(LEAF, MIDDLE, OUTER)] * 3
    assert not unwound.is_truncated.any()


def test_outermost_frames_are_marked_beside_their_rules(process):
    """_start says so by its return address that is undefined; code without rules is followed on, by guesses."""
    process.function(LEAF)
    process.function(OUTER, cfi.undefined(16))
    of = architecture("x86_64", 2)
    assert of is not None
    stepper = Stepper(of, process.symbolizer())
    addresses = np.array([CODE + LEAF, CODE + OUTER + INTO], np.uint64)
    rules, ends = stepper.frame_rules(np.full(2, PID, np.int32), np.full(2, 100, np.uint64), addresses)
    assert ends.tolist() == [False, True]
    assert rules[0].cfa == (7, 8)


def test_the_frame_pointer_is_followed_from_frame_to_frame(process):
    process.function(LEAF)
    process.function(MIDDLE, cfi.define_cfa(6, 16), cfi.offset(6, 2))
    process.function(OUTER, cfi.define_cfa(6, 16), cfi.offset(6, 2))
    process.function(FIRST, cfi.undefined(16))
    stack = words(returns_to(MIDDLE), 0, STACK + 64, returns_to(OUTER), 0, 0, 0, 0, 0, returns_to(FIRST)) + PADDING
    assert chain(process.unwound(stack, {PC: CODE + LEAF, BP: STACK + 16})) == calls(LEAF, MIDDLE, OUTER, FIRST)


def test_a_register_needed_by_an_outer_frame_is_tracked(process):
    """rbx is saved by the leaf, and the middle function finds its frame by it."""
    process.function(LEAF, cfi.define_cfa_offset(16), cfi.offset(3, 2))
    process.function(MIDDLE, cfi.define_cfa(3, 24))
    process.function(OUTER, cfi.undefined(16))
    stack = words(STACK + 32, returns_to(MIDDLE), 0, 0, 0, 0, returns_to(OUTER)) + PADDING
    assert chain(process.unwound(stack, {PC: CODE + LEAF, BX: 0})) == calls(LEAF, MIDDLE, OUTER)


def test_expressions_give_frames_and_registers(process):
    load = b"\x77\x08\x06"  # what is at rsp + 8
    process.function(LEAF, cfi.define_cfa_expression(load), cfi.expression(6, b"\x38\x1c", is_value=True))
    process.function(MIDDLE, cfi.define_cfa(6, 24))
    process.function(OUTER, cfi.undefined(16))
    stack = words(0, STACK + 32, 0, returns_to(MIDDLE), 0, returns_to(OUTER)) + PADDING
    assert chain(process.unwound(stack, {PC: CODE + LEAF})) == calls(LEAF, MIDDLE, OUTER)


def _lowered(place: int) -> bytes:
    """A CFA by the caller's stack pointer, which is at a distance from this one, and the instruction's byte."""
    return cfi.define_cfa_expression(b"\x77" + cfi.sleb(place) + b"\x06\x23\x08") + cfi.advance(1)


@pytest.mark.parametrize(("lowered", "call", "is_found"), [(1, b"\xe8\0\0\0\0", True), (9, b"\xff\xd0", True), (9, b"\x90", False)])
def test_a_stack_pointer_below_the_copied_stack_is_found_by_its_older_copy(process, lowered, call, is_found):
    """As in OpenSSL's SHA-2 for AVX2: the stack pointer is lowered by 128 bytes again and again, and what is saved is copied below it."""
    process.function(LEAF, *map(_lowered, [152, -8, 120, 0]), cfi.define_cfa_expression(b"\x77\x78\x06\x23\x08"))
    process.function(OUTER, cfi.undefined(16))
    process.elf.section(".calls", call, addr=OUTER + INTO - len(call), offset=OUTER + INTO - len(call))
    frame = [0] * (16 * lowered + 40)
    frame[16 * lowered + 19] = STACK + 8 * len(frame)
    frame[3], frame[16] = STACK + 64, STACK + 8 * len(frame)  # data
    unwound = process.unwound(words(*frame, returns_to(OUTER)) + PADDING, {PC: CODE + LEAF + 4}, copies=2)
    expected = calls(LEAF + 4, OUTER) if is_found else [LEAF + 4]
    assert [chain(unwound, row) for row in range(2)] == [expected] * 2


def test_an_interrupted_pc_is_looked_up_without_subtracting_one(process):
    """The kernel's frame restores all registers; where it goes on is an instruction of its own, not one after a call."""
    frame = process.info.common(
        cfi.define_cfa_expression(b"\x77\x20\x06"),  # the stack pointer of then, at rsp + 32
        cfi.expression(16, b"\x77\x28"),
        cfi.expression(6, b"\x77\x30"),
        augmentation=b"zRS",
    )
    process.function(LEAF)
    process.function(MIDDLE - 1, common=frame, size=0x10)
    process.function(OUTER, cfi.advance(1), cfi.define_cfa(6, 16))
    process.function(FIRST, cfi.undefined(16))
    interrupted = CODE + OUTER  # its very first instruction, where the return address is still at the stack pointer
    stack = words(CODE + MIDDLE, 0, 0, 0, 0, STACK + 96, interrupted, 0, 0, 0, 0, 0, returns_to(FIRST)) + PADDING
    assert chain(process.unwound(stack, {PC: CODE + LEAF})) == [LEAF, MIDDLE, OUTER, FIRST + INTO - 1]


@pytest.mark.parametrize("copies", [1, 3])
def test_a_signal_trampoline_is_looked_up_without_subtracting_one(process, copies):
    """Its information begins one byte before it; the handler returns to it without having been called. Later samples follow the first."""
    frame = process.info.common(cfi.define_cfa_expression(b"\x77\x20\x06"), cfi.expression(16, b"\x77\x28"), augmentation=b"zRS")
    process.function(LEAF)
    process.function(MIDDLE - 1, common=frame, size=0x10)
    process.function(OUTER, cfi.undefined(16))
    stack = words(returns_to(LEAF), CODE + MIDDLE, 0, 0, 0, 0, STACK + 96, CODE + OUTER, 0, 0, 0, 0) + PADDING
    unwound = process.unwound(stack, {PC: CODE + LEAF}, copies=copies)
    assert [chain(unwound, row) for row in range(copies)] == [[LEAF, LEAF + INTO - 1, MIDDLE, OUTER]] * copies


VDSO = 0x500000


@pytest.mark.parametrize("machine", ["aarch64", "ppc64le", "s390x", "riscv64"])
@pytest.mark.parametrize("copies", [1, 3])
def test_the_kernels_trampoline_is_exact_too(process, machine, copies):
    """It is in the vdso, whose image is not needed: the frame has the kernel's layout. Return addresses are in a register."""
    of = architecture(machine, 2)
    assert of is not None
    assert of.signal is not None
    links = process.info.common(cfi.define_cfa(of.stack_pointer, of.entry), returns=of.return_column)
    process.function(LEAF, common=links)
    process.function(OUTER, common=links)
    process.function(FIRST, cfi.undefined(of.return_column), common=links)
    process.maps.append((3, mmap(PID, VDSO, 0x1000, "[vdso]")))
    slots = dict(of.signal.slots)
    saved = {slots[of.stack_pointer]: STACK + 0x600, slots[of.return_column]: returns_to(FIRST), of.signal.pc: CODE + OUTER}
    frame = bytearray(0x800)
    for slot, value in saved.items():
        struct.pack_into("<Q", frame, of.signal.first + 8 * slot, value)
    sampled = {of.pc: CODE + LEAF, of.registers[of.return_column]: VDSO + 0x100, of.registers[of.stack_pointer]: STACK}
    unwound = process.unwound(bytes(frame), sampled, copies=copies, machine=machine)
    expected = [LEAF, VDSO + 0x100, OUTER, FIRST + INTO - 1]
    assert [chain(unwound, row) for row in range(copies)] == [expected] * copies


def test_code_without_information_is_left_by_a_near_frame_pointer(process):
    process.function(OUTER, cfi.undefined(16))
    stack = words(0, 0, STACK + 48, returns_to(OUTER)) + PADDING
    assert chain(process.unwound(stack, {PC: CODE + LEAF, BP: STACK + 16})) == calls(LEAF, OUTER)


@pytest.mark.parametrize("pointer", [0, STACK - 8, STACK + 0x5000, 12345])
def test_code_without_information_ends_the_chain_with_an_invalid_frame_pointer(process, pointer):
    process.function(OUTER, cfi.undefined(16))
    stack = words(*[returns_to(OUTER)] * 0x1000)
    assert chain(process.unwound(stack, {PC: CODE + LEAF, BP: pointer})) == [LEAF]


def test_generated_code_is_left_by_any_frame_pointer_that_leads_to_code(process):
    process.function(OUTER, cfi.undefined(16))
    process.maps.append((3, mmap(PID, 0x10000, 0x1000, "//anon")))
    filler = words(*[0] * 0xA00)
    stack = filler + words(STACK, returns_to(OUTER)) + PADDING
    assert chain(process.unwound(stack, {PC: 0x10010, BP: STACK + len(filler)})) == [0x10010, OUTER + INTO - 1]
    stack = filler + words(STACK, 0x123456789) + PADDING
    assert chain(process.unwound(stack, {PC: 0x10010, BP: STACK + len(filler)})) == [0x10010]


def test_the_linkage_table_has_pushed_nothing(process):
    process.elf.section(".plt", flags=6, addr=0x1000, offset=0x1000, size=0x40)
    process.function(OUTER, cfi.undefined(16))
    assert chain(process.unwound(words(returns_to(OUTER)) + PADDING, {PC: CODE + LEAF, BP: 1})) == calls(LEAF, OUTER)


def test_a_chain_that_leaves_the_stack_copy_is_truncated_and_marked(process):
    process.function(LEAF)
    process.function(MIDDLE, cfi.define_cfa_offset(0x100))
    unwound = process.unwound(words(returns_to(MIDDLE)) + PADDING, {PC: CODE + LEAF})
    assert chain(unwound) == [*calls(LEAF, MIDDLE), CONTEXT_LOST_CALLER]
    assert unwound.is_truncated.tolist() == [True]


def test_a_return_address_of_zero_ends_the_chain(process):
    """As Go's goroutines begin."""
    process.function(LEAF)
    process.function(MIDDLE)
    unwound = process.unwound(words(returns_to(MIDDLE), 0) + PADDING, {PC: CODE + LEAF})
    assert chain(unwound) == calls(LEAF, MIDDLE)
    assert not unwound.is_truncated.any()


def test_a_zero_return_address_of_a_guessed_frame_is_marked_but_not_truncated(process):
    process.function(OUTER)
    unwound = process.unwound(words(STACK + 0x20, 0) + PADDING, {PC: CODE + LEAF, BP: STACK})
    assert chain(unwound) == [*calls(LEAF), CONTEXT_LOST_CALLER]
    assert not unwound.is_truncated.any()


def test_a_return_address_where_nothing_is_mapped_ends_the_chain(process):
    process.function(LEAF)
    assert chain(process.unwound(words(0x123456789) + PADDING, {PC: CODE + LEAF})) == [LEAF, 0x123456788]


def test_a_frame_that_is_its_own_caller_ends_the_chain(process):
    process.function(LEAF, cfi.define_cfa_offset(0), b"\x08" + cfi.uleb(16))
    assert chain(process.unwound(PADDING, {PC: CODE + LEAF})) == [LEAF]


def test_chains_end_at_the_limit_of_frames(process):
    process.function(LEAF)
    stack = words(*[CODE + LEAF + INTO] * 300)
    assert len(chain(process.unwound(stack, {PC: CODE + LEAF}))) == 127
    assert len(chain(process.unwound(stack, {PC: CODE + LEAF}, most=3))) == 3


def test_a_process_without_readable_files_has_no_chain(process):
    process.maps = [(1, mmap(PID, CODE, 0x4000, "/nowhere/program"))]
    assert chain(process.unwound(PADDING, {PC: CODE + LEAF})) == []


def test_memory_that_was_not_copied_is_taken_from_mapped_files(process):
    process.elf.section(".data", words(CODE + MIDDLE + INTO), addr=0x1F00, offset=0x1F00)
    process.function(LEAF, cfi.define_cfa_expression(b"\x10" + cfi.uleb(CODE + 0x1F08)))
    process.function(MIDDLE, cfi.undefined(16))
    assert chain(process.unwound(PADDING, {PC: CODE + LEAF})) == calls(LEAF, MIDDLE)


def test_tasks_of_32_bits_have_words_of_4_bytes(tmp_path):
    process = Process(tmp_path, bits=32)
    process.function(LEAF, cfi.define_cfa_offset(8))
    process.function(MIDDLE, cfi.define_cfa(5, 8), cfi.offset(5, 2))
    process.function(OUTER, cfi.undefined(8))
    stack = words(0, returns_to(MIDDLE), 0, STACK + 32, returns_to(OUTER), word=4) + PADDING
    assert chain(process.unwound(stack, {PC: CODE + LEAF, BP: STACK + 12}, abi=1)) == calls(LEAF, MIDDLE, OUTER)


def test_damaged_information_is_reported_and_ends_its_chains(process):
    process.function(LEAF)
    process.function(MIDDLE, b"\x3c")
    unwound = process.unwound(words(returns_to(MIDDLE), returns_to(OUTER)) + PADDING, {PC: CODE + LEAF, BP: 0})
    assert chain(unwound) == calls(LEAF, MIDDLE)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_leaves_finite_chains(process, seed):
    """Frames by rules, expressions and a signal, some bytes of which are others."""
    random = np.random.default_rng(seed)
    loop = b"\x30\x2f\xfd\xff"
    process.function(LEAF, cfi.define_cfa_expression(b"\x77\x08\x06"), cfi.expression(6, b"\x38\x1c", is_value=True))
    process.function(MIDDLE, cfi.define_cfa(6, 24), cfi.offset(3, 2), cfi.expression(12, loop))
    process.function(OUTER, cfi.advance(1), b"\x0a", cfi.define_cfa_offset(64), b"\x0b", cfi.undefined(16))
    data = process.info._data
    for place in random.integers(0, len(data), 1 + seed % 5).tolist():
        data[place] = int(random.integers(0, 256))
    stack = words(0, STACK + 32, 0, returns_to(MIDDLE), 0, returns_to(OUTER), 0, returns_to(LEAF)) + PADDING
    unwound = process.unwound(stack, {PC: CODE + LEAF}, copies=20)
    assert unwound.chains.lengths.min() >= 1
    assert unwound.chains.lengths.max() <= 127


def test_endless_expressions_are_bounded(process):
    process.function(LEAF, cfi.define_cfa_expression(b"\x30\x2f\xfc\xff"))
    assert chain(process.unwound(PADDING, {PC: CODE + LEAF}, copies=500)) == [LEAF]
