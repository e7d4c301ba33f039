"""Hashes that distinguish samples."""

import numpy as np
import pytest

from perfpy.abi.columns import Ragged, Slices
from perfpy.analysis.samples import row_hashes
from perfpy.analysis.samples.row_hashes import combine_columns, row_fingerprints


def ragged(*rows: list[int]) -> Ragged:
    """Return rows of words."""
    return Ragged(np.array([word for row in rows for word in row], np.uint64), np.cumsum([0, *map(len, rows)]))


def test_equal_rows_have_one_number_wherever_they_stand() -> None:
    numbers = row_fingerprints(ragged([1, 2], [], [3], [1, 2], []))
    assert numbers[0] == numbers[3]
    assert numbers[1] == numbers[4]
    assert len(set(numbers.tolist())) == 3


def test_rows_that_differ_in_order_or_by_zeros_have_different_numbers() -> None:
    rows = ragged([1, 2], [2, 1], [1, 2, 0], [0, 1, 2], [0], [0, 0], [])
    assert len(set(row_fingerprints(rows).tolist())) == 7


@pytest.mark.parametrize("order", ["<", ">"])
def test_rows_in_a_buffer_have_the_numbers_of_the_same_rows_apart(order: str) -> None:
    words = np.array([9, 1, 2, 9, 3, 9], order + "u8")
    spans = Slices(words, np.array([1, 4, 0]), np.array([2, 1, 0]))
    assert row_fingerprints(spans).tolist() == row_fingerprints(ragged([1, 2], [3], [])).tolist()


def test_rows_of_many_blocks_have_the_numbers_that_each_has_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(1)
    words = random.integers(0, 1 << 63, 5000).astype(np.uint64)
    lengths = np.append(random.integers(0, 9, 600), [700, 0, 3])
    starts = np.cumsum(lengths + 1) - lengths - 1
    alone = [int(row_fingerprints(Slices(words, starts[i : i + 1], lengths[i : i + 1]))[0]) for i in range(len(starts))]
    for block in (1, 7, 100, 1 << 15):
        monkeypatch.setattr(row_hashes, "_BLOCK", block)
        assert row_fingerprints(Slices(words, starts, lengths)).tolist() == alone
        assert row_fingerprints(Slices(words, starts[::-1], lengths[::-1])).tolist() == alone[::-1]


def test_millions_of_similar_chains_have_different_hashes() -> None:
    low, high = np.meshgrid(np.arange(0, 16 * 1000, 16), np.arange(0, 16 * 1000, 16))
    words = np.stack([low.ravel(), high.ravel()], axis=1).astype(np.uint64).ravel() + np.uint64(0x7F0000000000)
    rows = Ragged(words, np.arange(0, len(words) + 1, 2))
    assert len(set(row_fingerprints(rows).tolist())) == 1_000_000


def test_exchanged_columns_have_different_hashes() -> None:
    one, two = np.array([1, 2, 0], np.int64), np.array([2, 1, 0], np.int64)
    numbers = combine_columns([one, two])
    assert len(set(numbers.tolist())) == 3
    assert numbers[0] != combine_columns([two, one])[0]


def test_a_chain_is_not_taken_for_its_neighbour_column() -> None:
    numbers = combine_columns([row_fingerprints(ragged([5, 7], [5])), np.array([0, 7])])
    assert numbers[0] != numbers[1]
