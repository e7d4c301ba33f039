"""Places of values within groups, beside a search of each group alone."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.tracing.grouped_values import GroupedValues


@pytest.mark.parametrize("side", ["left", "right"])
def test_places_are_those_of_each_group_alone(side):
    random = np.random.default_rng(1)
    groups, values = random.integers(0, 20, 500) * 7, random.integers(0, 50, 500)
    wanted_groups, wanted = random.integers(-1, 25, 400) * 7, random.integers(-5, 60, 400)
    grouped = GroupedValues(groups, values)
    found = grouped.find(wanted_groups, wanted, side)

    for index, (group, value) in enumerate(zip(wanted_groups.tolist(), wanted.tolist(), strict=True)):
        own = np.sort(values[groups == group])
        begin, end, position = int(found.begin[index]), int(found.end[index]), int(found.position[index])
        assert end - begin == len(own)
        if len(own):
            assert values[grouped.order[begin:end]].tolist() == own.tolist()
            assert position - begin == np.searchsorted(own, value, side)


def test_equal_values_keep_their_order_and_large_keys_are_exact():
    keys = np.array([2**63 + 1, 2**63, 2**63 + 1], np.uint64)
    grouped = GroupedValues(np.array([4, 4, 4]), keys)

    assert grouped.order.tolist() == [1, 0, 2]
    assert grouped.find(np.array([4]), keys[:1]).position.tolist() == [1]


def test_nothing_is_found_among_no_values():
    found = GroupedValues(np.zeros(0, np.int64), np.zeros(0, np.int64)).find(np.array([1]), np.array([1]))

    assert (found.begin.tolist(), found.end.tolist()) == ([0], [0])
