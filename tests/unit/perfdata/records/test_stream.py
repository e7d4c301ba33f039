"""Packed starts of records unpack to the same starts."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.perfdata.records.stream import pack_starts


@pytest.mark.parametrize(
    "sizes",
    [[], [40], [40] * 1000, [40] * 500 + [8] + [40] * 500, list(range(8, 4000, 8)), [8] + [65528] * 40, [500_000] + [48] * 100],
)
@pytest.mark.parametrize("first", [0, 104])
def test_starts_come_back(sizes: list[int], first: int) -> None:
    starts = first + np.cumsum([0, *sizes])
    distances = pack_starts(starts)
    assert distances is not None
    assert distances.starts().tolist() == starts.tolist()
    assert distances.starts().dtype == np.int64


def test_records_of_one_size_take_no_memory_and_others_two_bytes_each() -> None:
    alike, varied = pack_starts(np.arange(0, 1 << 20, 40)), pack_starts(np.cumsum(np.arange(8, 40_000, 8)))
    assert alike is not None
    assert varied is not None
    assert alike.nbytes < 20
    assert varied.nbytes == 2 * (5_000 - 2)


@pytest.mark.parametrize("starts", [[0, 41], [3, 43], [0, 1 << 20]])
def test_starts_that_do_not_fit_are_not_packed(starts: list[int]) -> None:
    assert pack_starts(np.array(starts)) is None
