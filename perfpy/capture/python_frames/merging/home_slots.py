"""The stack slot in which a build's evaluation loop saves its instruction pointer during calls.

Compilers give a variable one home on the stack; other words hold stale values. The home is learnt from samples: it has more distinct values
than any other word, and agrees more often with the frames in memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_MOST_VALUES: Final = 1 << 12  # counted for each word
_MARGIN: Final = 2  # a home's score is at least this multiple of any other word's
_ENOUGH: Final = 8  # the least score of a home


class HomeSlots:
    """The stack words of one build's loop that have pointed to instructions."""

    def __init__(self) -> None:
        self._values: dict[int, set[int]] = {}
        self._agreed: dict[int, int] = {}
        self._home: int | None = None
        self._is_new = False

    def note(self, pointers: Iterable[tuple[int, int, Collection[int]]], read: Collection[int]) -> None:
        """Add the pointers of one frame.

        Args:
            pointers: word number, value, and the code objects that the value can mean.
            read: the code objects of the loop's frames in memory.
        """
        for word, value, codes in pointers:
            values = self._values.setdefault(word, set())
            if len(values) < _MOST_VALUES:
                values.add(value)
            if any(code in read for code in codes):
                self._agreed[word] = self._agreed.get(word, 0) + 1
        self._is_new = True

    def home(self) -> int | None:
        """Return the number of the home word; None if no word stands out."""
        if self._is_new:
            self._is_new = False
            scores = sorted((len(values) * self._agreed.get(word, 0), word) for word, values in self._values.items())
            best, others = scores[-1:], scores[-2:-1]
            self._home = best[0][1] if best and best[0][0] >= max(_ENOUGH, *(_MARGIN * score for score, _ in others), 0) else None
        return self._home
