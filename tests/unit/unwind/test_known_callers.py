"""Chains that go on as others did have the same frames as if each found its own way."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Literal

import numpy as np
import pytest

from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.unwind import stepper
from perfpy.unwind.known_callers import UNKNOWN, CallerWords, ChainState, KnownCallers, StackMemory
from perfpy.unwind.rules import architecture
from perfpy.unwind.stepper import Stepper, Unwound, UserStacks
from tests.builders import call_frames as cfi
from tests.builders.elf import Elf
from tests.builders.timeline import mmap, timeline

if TYPE_CHECKING:
    from pathlib import Path


PID, CODE, STACK = 7, 0x400000, 0x7FFF0000
LEAF, BY_POINTER, MIDDLE, OTHER, LAST = (CODE + at for at in (0x1000, 0x1100, 0x1200, 0x1300, 0x1400))
INTO = 0x20
SP, BP, PC = 7, 6, 8  # perf's numbers
WORDS = 16


def symbolizer(folder: Path, program: str = "program", *, again: str = "") -> Symbolizer:
    """A program: the leaf saves rbp, one function finds its frame by it, two by the stack pointer; of the last nothing is outside.

    again: another program that is mapped there after record 150.
    """
    info = cfi.CallFrameInfo(address=0x2000)
    usual = info.common(cfi.define_cfa(7, 8), cfi.offset(16, 1))
    info.entry(usual, 0x1000, 0x100, cfi.define_cfa_offset(16), cfi.offset(6, 2))
    info.entry(usual, 0x1100, 0x100, cfi.define_cfa(6, 16), cfi.offset(6, 2))
    info.entry(usual, 0x1200, 0x200, cfi.define_cfa_offset(24))
    info.entry(usual, 0x1400, 0x100, cfi.undefined(16))
    elf = Elf().text(0x1000, size=0x800).section(".dynsym", type=11).segment(0, 0, 0x4000)
    elf.section(".eh_frame", info.section(), addr=0x2000, offset=0x2000)
    (folder / program).write_bytes(elf.build())
    maps = [(1, mmap(PID, CODE, 0x4000, str(folder / program))), (2, mmap(PID, STACK, 0x10000, "[stack]", prot=3))]
    if again:
        maps.append((150, mmap(PID, CODE, 0x4000, str(folder / again))))
    return Symbolizer(timeline(*maps), SymbolOptions(cache=False, buildid_dir=str(folder)))


def stacks(rows: list[tuple[int, int, list[int]]], keys: list[int] | None = None) -> UserStacks:
    """pc, rbp and the words on the stack of each sample."""
    data = np.zeros((len(rows), WORDS), np.uint64)
    for number, (_, _, words) in enumerate(rows):
        data[number, : len(words)] = words
    registers = {
        SP: np.full(len(rows), STACK, np.uint64),
        PC: np.array([pc for pc, _, _ in rows], np.uint64),
        BP: np.array([bp for _, bp, _ in rows], np.uint64),
    }
    sizes = np.full(len(rows), WORDS * 8, np.int64)
    starts = np.arange(len(rows), dtype=np.int64) * WORDS * 8
    pid, key = np.full(len(rows), PID, np.int32), np.array(keys or [100] * len(rows), np.uint64)
    return UserStacks(registers, data.reshape(-1).view(np.uint8), starts, sizes, pid, key)


def made(symbolizer: Symbolizer) -> Stepper:
    of = architecture("x86_64", 2)
    assert of is not None
    return Stepper(of, symbolizer)


def chains(found: Unwound) -> list[list[int]]:
    return [chain.tolist() for chain in found.chains]


def alone(folder: Path, of: UserStacks) -> list[list[int]]:
    """Each sample by itself, by somebody who knows nothing."""
    results = []
    for row in range(len(of)):
        registers = {number: values[row : row + 1] for number, values in of.registers.items()}
        one = UserStacks(
            registers, of.data, of.starts[row : row + 1], of.sizes[row : row + 1], of.pid[row : row + 1], of.key[row : row + 1]
        )
        results += chains(made(symbolizer(folder)).unwind(one))
    return results


THROUGH_MIDDLE = [0, MIDDLE + INTO, 5, 6, LAST + INTO]  # of a leaf: the saved rbp, then the return addresses
THROUGH_OTHER = [0, OTHER + INTO, 5, 6, LAST + INTO]
#: the leaf saves rbp for the function that finds its frame by it, at two distances
BY_SAVED = [STACK + 0x28, BY_POINTER + INTO, 1, 2, 3, STACK, MIDDLE + INTO, 5, 6, LAST + INTO]
BY_SAVED_FARTHER = [STACK + 0x30, BY_POINTER + INTO, 1, 2, 3, 4, STACK, MIDDLE + INTO, 5, 6, LAST + INTO]


def test_samples_that_share_outer_frames_have_their_own_inner_ones(tmp_path: Path):
    rows = [
        (LEAF, 0, THROUGH_MIDDLE),
        (LEAF + 1, 0, THROUGH_MIDDLE),
        (LEAF, 0, THROUGH_OTHER),
        (LEAF, 0, [0, MIDDLE + INTO, 5, 6, OTHER + INTO]),
        (LEAF, 9, [9, *THROUGH_MIDDLE[1:]]),
        (LEAF, 0, BY_SAVED),
        (LEAF, 1, BY_SAVED_FARTHER),
        (BY_POINTER, STACK + 0x28, BY_SAVED),
        (BY_POINTER, STACK + 0x30, BY_SAVED_FARTHER),
    ]
    expected = alone(tmp_path, stacks(rows))
    assert [len(chain) for chain in expected] == [3, 3, 3, 3, 3, 4, 4, 3, 3]
    one = made(symbolizer(tmp_path))
    assert chains(one.unwind(stacks(rows))) == expected
    for order in (range(9), range(8, -1, -1), (5, 6, 5, 6, 2, 0), (6,), (5,)):
        assert chains(one.unwind(stacks([rows[row] for row in order]))) == [expected[row] for row in order]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.slow
def test_random_stacks_unwind_the_same_together_and_alone(tmp_path: Path, seed: int):
    numbers = np.random.default_rng(seed)
    values = [0, 5, STACK + 0x10, STACK + 0x28, STACK + 0x30, *(function + INTO for function in (LEAF, BY_POINTER, MIDDLE, OTHER, LAST))]
    rows = []
    for _ in range(60):
        pc = int(numbers.choice([LEAF, BY_POINTER, MIDDLE, MIDDLE + INTO - 1, LAST]))
        rows.append((pc, int(numbers.choice(values)), [int(value) for value in numbers.choice(values, WORDS)]))
    one = made(symbolizer(tmp_path))
    many = stacks(rows)
    assert chains(one.unwind(many)) == alone(tmp_path, many)
    assert chains(one.unwind(many)) == alone(tmp_path, many)


def test_a_shared_stack_is_stepped_through_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    stepped: list[int] = []
    step = stepper._StepperRun._step

    def counted(run, rules, special):
        stepped.append(len(rules))
        return step(run, rules, special)

    monkeypatch.setattr(stepper._StepperRun, "_step", counted)
    one = made(symbolizer(tmp_path))
    rows = [(LEAF, 0, BY_SAVED)] * 50
    one.unwind(stacks(rows))
    assert sum(stepped) == 4  # one of them finds the way for all
    stepped.clear()
    one.unwind(stacks(rows))
    assert sum(stepped) == 0
    one.unwind(stacks([*rows, (LEAF, 0, BY_SAVED_FARTHER)]))
    assert sum(stepped) == 3  # the leaf's caller is found as ever, its own is elsewhere, and so are all after it


def test_chains_that_differ_repeatedly_are_complete(tmp_path: Path):
    rows = [(LEAF, 0, THROUGH_MIDDLE), (LEAF, 0, THROUGH_OTHER), (LEAF, 0, BY_SAVED), (LEAF, 0, BY_SAVED_FARTHER)] * 3
    expected = alone(tmp_path, stacks(rows))
    one = made(symbolizer(tmp_path))
    for _ in range(3):
        assert chains(one.unwind(stacks(rows))) == expected


def test_the_length_limit_holds_for_followed_chains(tmp_path: Path):
    rows = [(LEAF, 0, BY_SAVED)] * 3 + [(BY_POINTER, STACK + 0x28, BY_SAVED)] * 2 + [(LEAF, 0, THROUGH_OTHER)]
    whole = alone(tmp_path, stacks(rows))
    of = architecture("x86_64", 2)
    assert of is not None
    for most in (1, 2, 3):
        one = Stepper(of, symbolizer(tmp_path), max_stack=most)
        for _ in range(2):
            assert chains(one.unwind(stacks(rows))) == [chain[:most] for chain in whole]


def test_callers_from_before_a_mapping_are_not_used_after_it(tmp_path: Path):
    symbolizer(tmp_path)
    info = cfi.CallFrameInfo(address=0x2000)
    usual = info.common(cfi.define_cfa(7, 8), cfi.offset(16, 1))
    info.entry(usual, 0x1000, 0x400, cfi.define_cfa_offset(32))
    info.entry(usual, 0x1400, 0x100, cfi.undefined(16))
    elf = Elf().text(0x1000, size=0x800).section(".dynsym", type=11).segment(0, 0, 0x4000)
    (tmp_path / "later").write_bytes(elf.section(".eh_frame", info.section(), addr=0x2000, offset=0x2000).build())
    words = [0, MIDDLE + INTO, 5, LAST + INTO, LAST + INTO]
    rows = [(LEAF, 0, words)] * 4
    one = made(symbolizer(tmp_path, again="later"))
    early, late = [LEAF, MIDDLE + INTO - 1, LAST + INTO - 1], [LEAF, LAST + INTO - 1]
    for keys, expected in (
        ([100, 200, 100, 200], [early, late, early, late]),
        ([200, 200, 100, 100], [late, late, early, early]),
        ([100] * 4, [early] * 4),
        ([200] * 4, [late] * 4),
    ):
        assert chains(one.unwind(stacks(rows, keys))) == expected


def test_states_differ_in_each_field():
    known_callers = KnownCallers(1)
    for changed, by in enumerate((8, 1, 1, 8)):
        scene, address, back, stack_pointer = (
            np.array([value, value + by * (number == changed)], np.uint64) for number, value in enumerate((8, 0x10, 0, 0x20))
        )
        first, second = known_callers.states(ChainState(scene, address, back, stack_pointer, *[np.zeros(2, np.int32)] * 2)).tolist()
        assert first == 0
        assert second == changed + 1
    assert known_callers.following[: len(known_callers)].tolist() == [UNKNOWN] * 5
    word = np.array([7], np.uint64)
    known_callers.note(np.array([2], np.int32), np.array([3], np.int32), CallerWords(word, word, np.zeros(1, np.int8), word, [word]))
    assert (known_callers.following[2], known_callers.word[2], known_callers.saved[0][2]) == (3, 7, 7)
    known_callers.note_end(np.array([2], np.int32))
    assert known_callers.following[2] < UNKNOWN


def test_the_copies_of_a_batch_are_freed_with_it(tmp_path: Path):
    one = made(symbolizer(tmp_path))
    gc.disable()  # files of hundreds of MB must not stay mapped until it comes
    try:
        for rows in ([(LEAF, 0, BY_SAVED)], [(LEAF, 0, BY_SAVED), (LEAF, 0, THROUGH_OTHER)]):
            of = stacks(rows)
            assert of.data.base is not None
            data = weakref.ref(of.data.base)  # what owns the bytes: views of it come and go
            one.unwind(of)
            del of
            assert data() is None
    finally:
        gc.enable()


# Words of copied stacks: at any address, of any width, in either byte order, and none that was not copied.


BASE = 0x7000


def memory(*, word: int = 8, endian: str = "<", sizes: tuple[int, ...] = (64, 32)) -> tuple[StackMemory, bytes]:
    data = bytes(range(1, 129))
    buffer = np.frombuffer(data, np.uint8)
    starts = np.array([0, 64])[: len(sizes)]
    base = np.array([BASE, BASE + 0x100], np.uint64)[: len(sizes)]
    return StackMemory(buffer, starts, np.array(sizes), base, word=word, endian=endian), data


def loaded(source: StackMemory, row: int, address: int) -> int | None:
    values, is_loaded = source.load(np.array([row]), np.array([address % (1 << 64)], np.uint64))
    return int(values[0]) if is_loaded[0] else None


@pytest.mark.parametrize("endian", ["<", ">"])
@pytest.mark.parametrize("word", [4, 8])
@pytest.mark.parametrize("distance", [0, 1, 4, 5, 8, 15])
def test_a_word_is_read_at_any_address(word, endian, distance):
    source, data = memory(word=word, endian=endian)
    order: Literal["little", "big"] = "little" if endian == "<" else "big"
    assert loaded(source, 0, BASE + distance) == int.from_bytes(data[distance : distance + word], order)
    assert loaded(source, 1, BASE + 0x100 + distance) == int.from_bytes(data[64 + distance : 64 + distance + word], order)


def test_words_outside_a_copy_are_unknown():
    source, _ = memory()
    inside = [address for address in range(BASE - 20, BASE + 90) if loaded(source, 0, address) is not None]
    assert (inside[0], inside[-1]) == (BASE, BASE + 64 - 8)


@pytest.mark.parametrize("size", [0, 1, 7])
def test_a_copy_shorter_than_a_word_has_none(size):
    source, _ = memory(sizes=(size, 32))
    assert loaded(source, 0, BASE) is None
    assert loaded(source, 1, BASE + 0x100) is not None


def test_addresses_above_and_below_a_copy_differ():
    source, _ = memory()
    addresses = np.array([BASE - 8, BASE, BASE + 64, 1 << 63], np.uint64)
    assert source.is_above(np.zeros(4, np.int64), addresses).tolist() == [False, False, True, True]
