"""Columns whose rows differ in length are read as numpy's arrays are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from perfpy.abi.columns import Ragged, count_each, grouped

COLUMN = Ragged(np.array([7, 8, 9, 1], np.uint64), np.array([0, 2, 2, 3, 4]))
ROWS = [[7, 8], [], [9], [1]]


@pytest.mark.parametrize(
    "rows",
    [
        slice(3), slice(1, None), slice(-2, None), slice(None, None, -1), slice(None, None, 2), slice(3, 1), [2, 0], [-1], [],
        np.array([3, 3]), np.array([-1, 0]), np.array([True, False, True, False]), np.zeros(4, bool), np.array([0], np.uint8),
    ],
)  # fmt: skip
def test_rows_are_selected_as_in_an_array(rows: Any) -> None:
    """By a slice, a mask or indexes: what an array of the row numbers gives."""
    index = np.array(rows, np.intp) if isinstance(rows, list) else rows
    expected = [ROWS[number] for number in np.arange(4)[index]]
    assert [row.tolist() for row in COLUMN[rows]] == expected


def test_one_row_is_its_values() -> None:
    """Also by numpy's numbers, and from the end."""
    assert [COLUMN[number].tolist() for number in (0, -1, np.int64(2), np.uint8(1))] == [[7, 8], [1], [9], []]


@pytest.mark.parametrize("rows", [4, -5, [4], "ip", np.array([[0]]), [0.5], np.array([True])])
def test_anything_but_a_row_is_refused(rows: Any) -> None:
    """As numpy refuses it."""
    with pytest.raises(IndexError):
        COLUMN[rows]


def test_a_ragged_column_shows_its_first_rows_and_their_number():
    column = Ragged(np.arange(10, 34), np.array([0, 2, 2, 14, 24]))
    assert repr(column) == "Ragged([10, 11], [], [12, 13, 14, ..., 21, 22, 23], ...; rows=4)"
    assert repr(Ragged.empty(1, np.uint64)) == "Ragged([]; rows=1)"


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("spread", [3, 1 << 20, 1 << 30])
def test_values_are_grouped_as_numpy_does(kind: type[np.signedinteger[Any]], spread: int) -> None:
    values = np.random.default_rng(spread).integers(-spread, spread, 300).astype(kind)
    limits = np.iinfo(kind)

    for column in (values, values[:0], np.append(values, [limits.min, limits.max]).astype(kind)):
        distinct_values, index = grouped(column)

        expected = np.unique(column, return_inverse=True)
        assert distinct_values.dtype == kind
        assert np.array_equal(distinct_values, expected[0])
        assert np.array_equal(index, expected[1])


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("spread", [3, 1 << 20, 1 << 30])
def test_values_are_counted_as_numpy_does(kind: type[np.integer[Any]], spread: int) -> None:
    values, limits = np.random.default_rng(spread).integers(0, spread, 300).astype(kind), np.iinfo(kind)
    high = (limits.max - values % 100).astype(kind)

    for column in (values, values[:0], high, np.append(values, np.array([limits.min, limits.max], kind))):
        expected = [one.tolist() for one in np.unique(column, return_counts=True)]
        assert [list(count_each(column)), list(count_each(column).values())] == expected
