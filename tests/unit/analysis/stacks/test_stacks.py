"""The prefix tree of stacks: shape, order, weights, and two merged profiles."""

from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.analysis.stacks.stacks import StackTree
from tests.builders.stacks import stacks


def drawn(tree: StackTree) -> list[str]:
    """Return the tree as indented lines with the weights of stacks that end there."""
    own = zip(*(column.tolist() for column in tree.own), strict=True)
    rows = zip(tree.depth.tolist(), tree.name.tolist(), own, strict=True)
    return ["  " * depth + tree.names[name].name + "".join(f" {w:g}" for w in weights) for depth, name, weights in rows]


def test_stacks_share_their_outer_functions() -> None:
    tree = StackTree.build(stacks("sh;main;b 2\nsh;main;a;c 3\nsh;main 1\nls;main;a 4"))
    assert drawn(tree) == ["ls 0", "  main 0", "    a 4", "sh 0", "  main 1", "    a 0", "      c 3", "    b 2"]
    assert tree.totals == (10,)


def test_two_profiles_are_laid_over_one_another() -> None:
    tree = StackTree.build(stacks("sh;main;a 2"), stacks("sh;main;b 5\nsh;main;a 1"))
    assert drawn(tree) == ["sh 0 0", "  main 0 0", "    a 2 1", "    b 0 5"]
    assert tree.totals == (2, 6)


def test_a_stack_of_nothing_but_its_command_counts() -> None:
    assert drawn(StackTree.build(stacks("sh 7"))) == ["sh 7"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(st.sampled_from("abc"), max_size=5), st.integers(1, 9)), min_size=1, max_size=12))
def test_paths_back_from_the_tree_are_the_rows_merged(rows: list[tuple[list[str], int]]) -> None:
    tree = StackTree.build(stacks("\n".join(f"{';'.join(['x', *path])} {weight}" for path, weight in rows)))
    want: dict[tuple[str, ...], int] = {}
    for path, weight in rows:
        want[("x", *path)] = want.get(("x", *path), 0) + weight
    got, path = {}, []
    for depth, name, weight in zip(tree.depth.tolist(), tree.name.tolist(), tree.own[0].tolist(), strict=True):
        path[depth:] = [tree.names[name].name]
        if weight:
            got[tuple(path)] = weight
    assert got == want
