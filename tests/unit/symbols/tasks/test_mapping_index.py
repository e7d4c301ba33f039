"""The index of pieces is linear in them, however they lie."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from perfpy.symbols.tasks import mapping_intervals
from perfpy.symbols.tasks.mapping_intervals import Mapping, SpaceBuilder

PAGE = 0x1000


def nested(count: int) -> SpaceBuilder:
    """Return mappings, each inside the one before."""
    builder = SpaceBuilder()
    space = builder.new_space()
    for number in range(count):
        builder.insert(space, Mapping(number * PAGE, (2 * count - number) * PAGE, 0, number % 10), number + 1)
    return builder


def test_nested_mappings_take_memory_by_their_number():
    count = 3000
    builder = nested(count)
    tracemalloc.start()
    builder.build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < count * 3000  # an entry for each address that each holds takes 100 times that


def test_the_innermost_of_nested_mappings_holds_an_address_from_its_rank_on():
    count = 500
    spaces = nested(count).build()
    moment, page = (grid.ravel() for grid in np.meshgrid(np.arange(1, count + 1), np.arange(2 * count)))
    result, born = spaces.find(np.zeros(len(page), np.int32), (page * PAGE).astype(np.uint64), moment.astype(np.int32))
    depth = np.minimum(np.minimum(page, 2 * count - 1 - page), moment - 1)
    assert (result == depth).all()
    assert (born <= moment).all()


@pytest.mark.parametrize("largest", [2, 5, 1024])
def test_long_and_short_mappings_over_each_other_agree_with_a_plain_replay(largest: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapping_intervals, "_LARGEST", largest)
    rng = np.random.default_rng(1)
    builder, held = SpaceBuilder(), np.full(400, -1)
    space = builder.new_space()
    log = [held.copy()]
    for rank in range(1, 300):
        start = int(rng.integers(0, 390))
        end = min(start + int(rng.choice([1, 5, 40, 300])), 400)
        builder.insert(space, Mapping(start, end, 0, rank % 5), rank)
        held[start:end] = rank % 5
        log.append(held.copy())
    spaces = builder.build()
    moment, address = (grid.ravel() for grid in np.meshgrid(np.arange(300), np.arange(400)))
    result, _ = spaces.find(np.zeros(len(address), np.int32), address.astype(np.uint64), moment.astype(np.int32))
    assert (np.where(result >= 0, spaces.dso[result], -1) == np.array(log)[moment, address]).all()
