"""The hash table behind every group-by."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.symbols.interning import IdTable, first_occurrences, first_rows, number_values

KEYS = st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 7), max_size=200)


@given(st.lists(KEYS, max_size=5))
def test_ids_are_handed_out_in_order_of_first_appearance(batches):
    table = IdTable()
    expected: dict[int, int] = {}
    for batch in batches:
        result = [expected.setdefault(key, len(expected)) for key in batch]
        assert table.ids(np.array(batch, np.uint64)).tolist() == result
    assert table.keys.tolist() == list(expected)
    assert len(table) == len(expected)


@given(KEYS, KEYS)
def test_new_ids_come_with_the_places_where_they_were_first_seen(before, batch):
    table = IdTable()
    table.ids(np.array(before, np.uint64))
    _, new = table.ids_and_new(np.array(batch, np.uint64))
    fresh = [key for key in dict.fromkeys(batch) if key not in before]
    assert [batch[at] for at in new.tolist()] == fresh
    assert [batch.index(key) for key in fresh] == new.tolist()


@given(KEYS)
def test_a_first_occurrence_has_no_equal_key_before_it(keys):
    expected = [key not in keys[:at] for at, key in enumerate(keys)]
    assert first_occurrences(np.array(keys, np.uint64)).tolist() == expected


@pytest.mark.parametrize("distinct", [10, 5000, 60_000])
def test_growing_keeps_every_id(distinct):
    rng = np.random.default_rng(distinct)
    pool = rng.integers(0, 1 << 63, distinct, dtype=np.uint64)
    table = IdTable()
    for _ in range(3):
        keys = pool[rng.integers(0, distinct, 40_000)]
        ids = table.ids(keys)
        assert (table.keys[ids] == keys).all()


def test_keys_for_one_slot_are_kept_separate_and_repetitions_of_them_are_not():
    inverse = pow(0x9E3779B97F4A7C15, -1, 1 << 64)  # of what keys are multiplied by to spread them
    crowd = [number * inverse % (1 << 64) for number in range(40)]  # all in the first slot
    table = IdTable()
    table.ids(np.array(crowd[:9], np.uint64))
    batch = [*crowd[20:5:-1], *crowd, *crowd[::-1]]
    expected = {key: number for number, key in enumerate(dict.fromkeys([*crowd[:9], *batch]))}
    assert table.ids(np.array(batch, np.uint64)).tolist() == [expected[key] for key in batch]
    assert table.keys.tolist() == list(expected)


def test_keys_take_little_more_memory_than_themselves() -> None:
    """Recordings have millions of different addresses and stacks, which several tables know: free slots are what costs."""
    count = 300_000
    keys = np.arange(count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    tracemalloc.start()
    try:
        table = IdTable()
        for begin in range(0, count, 50_000):
            table.ids(keys[begin : begin + 50_000])
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(table) == count
    assert used < 32 * count


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64])
def test_many_small_numbers_are_numbered_as_few(dtype):
    values = np.array([7, 0, 7, 3, 5000] * 1000, dtype)
    numbers, ids = number_values(values)
    assert numbers.tolist() == [7, 0, 3, 5000]
    assert numbers.dtype == (np.uint64 if dtype == np.uint64 else np.int64)
    assert ids.tolist() == [0, 1, 0, 2, 3] * 1000
    assert first_rows(values).tolist() == [0, 1, 3, 4]
