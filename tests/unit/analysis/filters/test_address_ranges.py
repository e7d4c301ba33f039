"""Addresses among the words of -S."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.analysis.filters.address_ranges import AddressRanges

HIGHEST = (1 << 64) - 1


@pytest.mark.parametrize(
    ("words", "length", "ranges"),
    [
        (["0x10"], 0, ((0x10, 0x10),)),
        (["main", "0x10", "0x20"], 15, ((0x10, 0x1F), (0x20, 0x2F))),
        ([hex(HIGHEST)], 5, ((HIGHEST, HIGHEST),)),
    ],
)
def test_hexadecimal_words_are_addresses(words: list[str], length: int, ranges: tuple[tuple[int, int], ...]) -> None:
    result = AddressRanges.of(words, length)
    assert result is not None
    assert result.ranges == ranges


@pytest.mark.parametrize("word", ["main", "", "0x", "0xyz", "10", hex(1 << 64)])
def test_other_words_are_names(word: str) -> None:
    assert AddressRanges.of([word], 0) is None


def test_both_ends_are_in_and_a_range_that_runs_backwards_is_empty() -> None:
    addresses = np.array([0, 9, 10, 15, 16, HIGHEST], np.uint64)
    assert AddressRanges(((10, 15), (HIGHEST, HIGHEST))).mask(addresses).tolist() == [False, False, True, True, False, True]
    assert not AddressRanges(((10, -5),)).mask(addresses).any()
