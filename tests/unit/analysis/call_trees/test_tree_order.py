"""The order of a red-black tree."""

from hypothesis import given
from hypothesis import strategies as st

from perfpy.analysis.call_trees.tree_order import tree_order


@given(st.lists(st.integers(0, 50), max_size=300))
def test_with_a_real_order_it_is_a_stable_sort(values):
    rows = tree_order(range(len(values)), lambda row, other: values[row] < values[other])
    assert rows == sorted(range(len(values)), key=lambda row: values[row])


def test_the_position_of_a_row_depends_on_comparisons():
    # rows 0 and 2 are of one kind and compared by depth; row 1 is of another, and equal to both
    depth, kind = [1, 5, 0], ["a", "b", "a"]

    def before(row, other):
        return kind[row] == kind[other] and depth[row] < depth[other]

    assert tree_order([0, 1, 2], before) == [2, 0, 1]
    assert tree_order([1, 0, 2], before) == [1, 2, 0]
