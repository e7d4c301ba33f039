"""Stacks of two recordings match if only names, or depths of recursion, differ."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.analysis.stacks.matching import match_names
from perfpy.analysis.stacks.stacks import Function, Stacks, StackTree
from perfpy.symbols.demangling.short_names import without_instance


def stacks(comm: str, dso: str, *chains: tuple[str, ...]) -> Stacks:
    """Return stacks with one sample a chain, the innermost function first."""
    names = sorted({name for chain in chains for name in chain})
    frames = [names.index(name) for chain in chains for name in chain]
    offsets = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
    rows = np.arange(len(chains), dtype=np.int32)
    functions = [Function(name, dso) for name in names]
    weight = np.full(len(chains), 10, np.uint64)
    zeros, ones = np.zeros(len(chains), np.int32), np.ones(len(chains), np.int64)
    return Stacks("cycles", functions, np.array(frames, np.int32), offsets, [comm], rows, zeros, weight, ones)


def paths(before: Stacks, after: Stacks, **options: object) -> list[tuple[str, list[float]]]:
    """Return each node of the merged tree: its name, and its own weight before and after."""
    first, second = match_names([before], [after], **options)  # type: ignore[arg-type]
    tree = StackTree.build(first[0], second[0])
    return [(tree.names[name].name, [own[node] for own in tree.own]) for node, name in enumerate(tree.name)]


def test_frames_match_where_only_the_program_is_called_differently() -> None:
    actual_paths = paths(stacks("old", "old", ("work", "main")), stacks("new", "new", ("work", "main")))
    assert actual_paths == [("old → new", [0, 0]), ("main", [0, 0]), ("work", [10, 10])]


def test_matching_can_be_disabled() -> None:
    actual_paths = paths(stacks("old", "old", ("work",)), stacks("new", "new", ("work",)), ignore_comm=False)
    assert actual_paths == [("new", [0, 0]), ("work", [0, 10]), ("old", [0, 0]), ("work", [10, 0])]


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_recursion_depth_does_not_separate_callers(depth: int) -> None:
    once = stacks("a", "a", ("leaf", "walk", "main"))
    deep = stacks("a", "a", ("leaf", *["walk"] * depth, "main"), ("walk",) * depth)
    assert paths(once, deep) == [("a", [0, 0]), ("main", [0, 0]), ("walk", [0, 0]), ("leaf", [10, 10]), ("walk", [0, 10])]


def test_instances_of_a_template_are_one_function() -> None:
    names = [f"void fill<{kind}>(std::vector<{kind}, std::allocator<{kind} > >&)" for kind in ("int", "double")]
    before, after = stacks("a", "a", (names[0], "main")), stacks("a", "a", (names[1], "main"))
    assert paths(before, after, name=without_instance) == [("a", [0, 0]), ("main", [0, 0]), ("fill<…>(…)", [10, 10])]
    assert len(paths(before, after)) == 4


def test_chains_without_frames_stay() -> None:
    empty = stacks("a", "a", (), ("main", "main"), ())
    assert paths(empty, empty) == [("a", [20, 20]), ("main", [10, 10])]
