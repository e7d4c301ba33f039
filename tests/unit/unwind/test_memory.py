"""Words of copied stacks: at any address, of any width, in either byte order, and none that was not copied."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from perfpy.unwind.memory import StackMemory

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
