"""Comparing what two programs measured, one after the other, on a machine that does not stand still.

Input: what asks each of them. Output: nothing, or AssertionError where they differ each time: what one of
them met by chance (a CPU on which nothing ran, an interval that came late) the next try does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_TRIES = 4


def assert_alike(ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    """Ask both until they agree, at most some times."""
    for _ in range(_TRIES - 1):
        if ours() == theirs():
            return
    assert ours() == theirs()
