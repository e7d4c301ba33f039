"""Tests of call trees as text."""

import sys

import pytest

from perfpy.analysis.report.call_trees import CallNode
from perfpy.analysis.report.options import CallGraph
from perfpy.views.report.callchain_text import ChainWriter, Stem

NAMES = ["main", "work", "rest", "leaf"]


def node(frames, period, children=(), own=0):
    below = period - own if children else 0
    return CallNode(list(frames), period, period, below, below, list(children))


TREE = [node([0], 100, [node([1, 3], 70), node([2], 30)])]


def draw(tree, graph, weight=100, total=200):
    writer = ChainWriter(graph, lambda at: NAMES[at])
    return list(writer.lines(tree, Stem(weight, total, 100, 100)))


def test_a_graph_shows_shares_of_the_total():
    assert draw(TREE, CallGraph()) == [
        "            |",
        "            ---main",
        "               |          ",
        "               |--35.00%--work",
        "               |          leaf",
        "               |          ",
        "                --15.00%--rest",
        "",
    ]


def test_a_fractal_tree_shows_shares_of_the_parent_and_the_remainder():
    tree = [node([0], 100, [node([1, 3], 70)])]
    tree[0].child_period = 100
    assert draw(tree, CallGraph(style="fractal"))[2:] == [
        "               |          ",
        "               |--70.00%--work",
        "               |          leaf",
        "                --30.00%--[...]",
        "",
    ]


def test_a_tree_of_a_part_of_the_entry_begins_with_its_share():
    assert draw(TREE, CallGraph(), weight=150)[:2] == ["            |          ", "             --50.00%--main"]


def test_folded_lines_have_their_own_share():
    assert draw(TREE, CallGraph(style="folded", percent=0, value="count")) == ["70 main;work;leaf", "30 main;rest"]


def test_names_longer_than_perfs_buffer_are_truncated():
    writer = ChainWriter(CallGraph(style="folded", percent=0, value="count"), lambda _index: "x" * 1022 + "é" + "y" * 1000)
    assert list(writer.lines([node([0], 5, own=5)], Stem(5, 5, 5, 5))) == ["5 " + "x" * 1022 + "\udcc3"]


def test_flat_chains_are_below_each_other():
    lines = draw(TREE, CallGraph(style="flat", percent=20))
    assert lines == ["           35.00%", *(" " * 16 + name for name in ("main", "work", "leaf")), ""]


@pytest.mark.parametrize(("limit", "lines"), [(1, 5), (0, 7)])
def test_the_limit_counts_the_entries_of_each_level(limit, lines):
    tree = [node([0], 100, [node([1], 70), node([2], 30)])]
    assert len(draw(tree, CallGraph(limit=limit))) == lines


@pytest.mark.thorough
def test_depth_does_not_end_at_the_recursion_limit():
    tree = node([3], 1)
    depth = sys.getrecursionlimit() + 200
    for _ in range(depth):
        tree = node([0], 2, [tree, node([1], 1)])
    assert len(draw([tree], CallGraph())) > 2 * depth


def test_shares_are_coloured_by_their_size():
    tree = [node([0], 20), node([1], 4), node([2], 1)]
    writer = ChainWriter(CallGraph(), lambda at: NAMES[at], colour="\x1b")
    shares = [line for line in writer.lines(tree, Stem(100, 200, 100, 100)) if "--" in line]
    assert shares == [
        "            |--\x1b[31m10.00%\x1b[m--main",
        "            |--\x1b[32m2.00%\x1b[m--work",
        "             --0.50%--rest",
    ]
