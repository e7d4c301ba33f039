"""Where a build of the evaluation loop keeps its pointer to instructions while it calls other code.

What enters: the stack words of the loop's frame, sample by sample. What leaves: the word that holds the pointer. Compilers give a
variable one home on the stack; other words hold what was there before. The home is learnt: it takes more different values than any other
word, and agrees more often with the frames that are read from memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_MOST_VALUES: Final = 1 << 12  # of a word that are counted
_MARGIN: Final = 2  # how much better a home is than any other word
_ENOUGH: Final = 8  # values that agreed, until a word is believed


class HomeSlots:
    """The words of one build's loop that pointed to instructions."""

    def __init__(self) -> None:
        self._values: dict[int, set[int]] = {}
        self._agreed: dict[int, int] = {}
        self._home: int | None = None
        self._is_new = False

    def note(self, pointers: Iterable[tuple[int, int, Collection[int]]], read: Collection[int]) -> None:
        """Take the pointers of a frame: the word's number, its value, the codes that it may mean. read: codes of its frames in memory."""
        for word, value, codes in pointers:
            values = self._values.setdefault(word, set())
            if len(values) < _MOST_VALUES:
                values.add(value)
            if any(code in read for code in codes):
                self._agreed[word] = self._agreed.get(word, 0) + 1
        self._is_new = True

    def home(self) -> int | None:
        """Return the number of the word; None where none stands out."""
        if self._is_new:
            self._is_new = False
            scores = sorted((len(values) * self._agreed.get(word, 0), word) for word, values in self._values.items())
            best, others = scores[-1:], scores[-2:-1]
            self._home = best[0][1] if best and best[0][0] >= max(_ENOUGH, *(_MARGIN * score for score, _ in others), 0) else None
        return self._home
