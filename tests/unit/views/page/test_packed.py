"""Tests of the page's packed columns: unpacking returns what was packed."""

from __future__ import annotations

import base64
import zlib
from itertools import accumulate
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfpy.views.page.packed import packed


def unpacked(column: dict[str, Any]) -> list[float]:
    """Unpack like unpack.js."""
    rows = column["n"]
    if "all" in column:
        return [column["all"]] * rows
    data = zlib.decompress(base64.b64decode(column["z"]))
    if column["bytes"] == 8:
        return list(map(float, np.frombuffer(data, "<f8")))
    assert len(data) == rows * column["bytes"]
    values = [sum(data[plane * rows + row] << 8 * plane for plane in range(column["bytes"])) for row in range(rows)]
    return list(accumulate(values)) if "delta" in column else list(values)


@given(st.lists(st.integers(0, (1 << 53) - 1)))
def test_numbers_round_trip(values: list[int]) -> None:
    assert unpacked(packed(np.array(values, np.int64))) == values


@given(st.lists(st.integers(0, (1 << 32) - 1)))
def test_ascending_numbers_round_trip(values: list[int]) -> None:
    assert unpacked(packed(np.array(sorted(values), np.int64), ascending=True)) == sorted(values)


def test_a_column_of_one_value_is_that_value() -> None:
    assert packed(np.full(1000, 4_000_000)) == {"n": 1000, "all": 4_000_000}
    assert packed(np.zeros(0, np.int64)) == {"n": 0, "all": 0}


def test_small_numbers_take_a_byte_each_before_compression() -> None:
    assert packed(np.array([1, 255]))["bytes"] == 1
    assert packed(np.array([1, 256]))["bytes"] == 2
    assert packed(np.array([7_000_000, 7_000_001]), ascending=True)["bytes"] == 3
