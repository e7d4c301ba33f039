"""Call trees built level by level equal trees built chain by chain."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.analysis.report.call_trees import ClassedFrames, Pruning, grow, minimum_period
from perfpy.analysis.report.entries import Walkers


def forest(chains, *, pruning=None, by_period=True):
    """Build a forest from (root, frames, period) of each chain."""
    frames = [frame for _, chain, _ in chains for frame in chain]
    ends = np.cumsum([len(chain) for _, chain, _ in chains], dtype=np.int64)
    lengths = np.array([len(chain) for _, chain, _ in chains], np.int64)
    walkers = Walkers(
        np.array([root for root, _, _ in chains], np.int64),
        ends - lengths,
        ends,
        np.array([period for _, _, period in chains], np.int64),
        np.ones(len(chains), np.int64),
    )
    flat = np.array(frames, np.int32)
    roots = max((root for root, _, _ in chains), default=-1) + 1
    steps = ClassedFrames(flat, np.arange(int(flat.max(initial=-1)) + 1))
    return grow(steps, walkers, roots, pruning or Pruning(), by_period=by_period), flat


def shape(nodes, flat):
    return [([int(flat[at]) for at in node.frames], node.period, node.own_period, shape(node.children, flat)) for node in nodes]


def test_calls_without_a_branch_are_one_node():
    tree, flat = forest([(0, [1, 2, 3], 5), (0, [1, 2, 3], 7)])
    assert shape(tree.children_of_root(0), flat) == [([1, 2, 3], 12, 12, [])]


def test_a_chain_that_ends_on_the_way_cuts_the_node():
    tree, flat = forest([(0, [1, 2, 3], 5), (0, [1, 2], 7)])
    assert shape(tree.children_of_root(0), flat) == [([1, 2], 12, 7, [([3], 5, 5, [])])]


def test_children_come_with_the_largest_first_and_equal_ones_in_order_of_class():
    tree, flat = forest([(0, [1, 9], 5), (0, [1, 4], 5), (0, [1, 7], 6)])
    assert [child[0] for child in shape(tree.children_of_root(0), flat)[0][3]] == [[7], [4], [9]]


def test_without_periods_children_are_in_order_of_class():
    tree, flat = forest([(0, [9], 50), (0, [4], 5)], by_period=False)
    assert [node[0] for node in shape(tree.children_of_root(0), flat)] == [[4], [9]]


def test_a_dropped_branch_still_divides_the_node_and_counts_below_its_parent():
    tree, flat = forest([(0, [1, 2], 99), (0, [1, 3], 1)], pruning=Pruning(minimum=5))
    assert shape(tree.children_of_root(0), flat) == [([1], 100, 0, [([2], 99, 99, [])])]
    assert tree.child_period(0) == 100


def test_relative_pruning_measures_against_the_siblings():
    chains = [(0, [1, 2], 60), (0, [1, 3], 40), (0, [4], 900), (0, [5], 9)]
    tree, flat = forest(chains, pruning=Pruning(relative=0.1))
    assert [node[0] for node in shape(tree.children_of_root(0), flat)] == [[4]]
    tree, flat = forest(chains, pruning=Pruning(relative=0.05))
    assert [node[3] for node in shape(tree.children_of_root(0), flat)] == [[], [([2], 60, 60, []), ([3], 40, 40, [])]]


def test_roots_have_their_own_trees():
    tree, flat = forest([(0, [1], 5), (1, [1, 2], 7)])
    assert shape(tree.children_of_root(0), flat) == [([1], 5, 5, [])]
    assert shape(tree.children_of_root(1), flat) == [([1, 2], 7, 7, [])]


CHAINS = st.lists(st.tuples(st.just(0), st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(1, 9)), min_size=1, max_size=40)


@given(CHAINS)
def test_every_path_has_the_sum_of_the_chains_that_begin_with_it(chains):
    tree, flat = forest(chains)
    sums: dict[tuple[int, ...], int] = {}
    for _, chain, period in chains:
        for length in range(1, len(chain) + 1):
            sums[tuple(chain[:length])] = sums.get(tuple(chain[:length]), 0) + period
    results = {}

    def visit(nodes, above):
        for node in nodes:
            path = above
            for at in node.frames:
                path = (*path, int(flat[at]))
                results[path] = node.period
            visit(node.children, path)

    visit(tree.children_of_root(0), ())
    assert results == sums


@pytest.mark.parametrize(
    ("percent", "least"), [(0.5, 5), (0.55, 5), (-1e20, 0), (float("nan"), 0), (float("inf"), 1 << 62), (1e300, 1 << 62)]
)
def test_the_least_period_is_one_for_any_share(percent: float, least: int):
    assert minimum_period(1000, percent) == least
    tree, _ = forest([(0, [1], 1000)], pruning=Pruning(minimum_period(1000, percent)))
    assert len(tree.children_of_root(0)) == (least <= 1000)
