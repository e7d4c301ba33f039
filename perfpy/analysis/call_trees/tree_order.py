"""Reproduce the order of perf's red-black tree of rows.

perf inserts rows one by one. Its comparison of rows with
equal callers' overhead uses the depth of chains if both rows come from one
thread, and other columns if not; this comparison is not transitive, and a
row's position depends on the rows it meets on its way down. So the tree is built here
like perf's, for the tables in which that can happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_RED, _BLACK = 0, 1


class _Node:
    __slots__ = ("color", "left", "parent", "right", "row")

    def __init__(self, row: int, parent: _Node | None) -> None:
        self.row = row
        self.parent = parent
        self.left: _Node | None = None
        self.right: _Node | None = None
        self.color = _RED


def tree_order(rows: Iterable[int], before: Callable[[int, int], bool]) -> list[int]:
    """Insert the rows in turn, to the left of rows that they precede, else to the right; return the tree from left to right."""
    tree = _Tree()
    for row in rows:
        tree.insert(row, before)
    return tree.in_order()


class _Tree:
    def __init__(self) -> None:
        self._root: _Node | None = None

    def insert(self, row: int, before: Callable[[int, int], bool]) -> None:
        parent, node, left = None, self._root, False
        while node is not None:
            parent = node
            left = before(row, node.row)
            node = node.left if left else node.right
        fresh = _Node(row, parent)
        if parent is None:
            self._root = fresh
        elif left:
            parent.left = fresh
        else:
            parent.right = fresh
        self._balance(fresh)

    def _balance(self, node: _Node) -> None:
        """Restore the colours after an insertion."""
        while (parent := node.parent) is not None and parent.color == _RED:
            grand = parent.parent
            assert grand is not None  # a red node is never the root
            uncle = grand.right if parent is grand.left else grand.left
            if uncle is not None and uncle.color == _RED:
                parent.color = uncle.color = _BLACK
                grand.color = _RED
                node = grand
                continue
            if (node is parent.left) != (parent is grand.left):
                self._rotate(parent, to_left=node is parent.right)
                parent = node
            parent.color, grand.color = _BLACK, _RED
            self._rotate(grand, to_left=parent is grand.right)
            break
        if self._root is not None:
            self._root.color = _BLACK

    def _rotate(self, node: _Node, *, to_left: bool) -> None:
        """Replace a node by one of its children."""
        child = node.right if to_left else node.left
        assert child is not None
        moved = child.left if to_left else child.right
        if to_left:
            node.right, child.left = moved, node
        else:
            node.left, child.right = moved, node
        if moved is not None:
            moved.parent = node
        child.parent = node.parent
        if node.parent is None:
            self._root = child
        elif node.parent.left is node:
            node.parent.left = child
        else:
            node.parent.right = child
        node.parent = child

    def in_order(self) -> list[int]:
        rows: list[int] = []
        stack: list[_Node] = []
        node = self._root
        while stack or node is not None:
            while node is not None:
                stack.append(node)
                node = node.left
            node = stack.pop()
            rows.append(node.row)
            node = node.right
        return rows
