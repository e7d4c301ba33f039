"""The chains of a batch that go on as others did before them.

What enters: samples, and the states (see known_callers) that their chains have come to. What leaves, step by step: the frames
there, and the samples whose stacks have other words than the ones before had, which must find their own way from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.unwind.known_callers import KEPT, NOTHING, SAMPLED, UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.unwind.known_callers import KnownCallers, States
    from perfpy.unwind.memory import StackMemory

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]


class Strayed(NamedTuple):
    """Samples whose chains do not go on from their states as others did; locations: as of Followed."""

    samples: Rows
    states: States
    locations: list[Values]


class Followed:
    """samples, states: where their chains are; locations: where each register that is kept is (SAMPLED: not on the stack).

    sampled: the values of these registers at the samples; rank: of the samples.
    """

    def __init__(self, known: KnownCallers, memory: StackMemory, sampled: list[Values], rank: NDArray[np.int32]) -> None:
        self._known = known
        self._memory = memory
        self._sampled = sampled
        self._rank = rank
        self._lowest = int(rank.min()) if len(rank) else 0
        self.samples: Rows = np.zeros(0, np.int64)
        self.states: States = np.zeros(0, np.int32)
        self.locations: list[Values] = [np.zeros(0, np.uint64) for _ in sampled]

    def __len__(self) -> int:
        return len(self.samples)

    def add(self, samples: Rows, states: States, locations: list[Values]) -> None:
        """More of them."""
        if len(samples):
            self.samples, self.states = np.concatenate([self.samples, samples]), np.concatenate([self.states, states])
            self.locations = [np.concatenate(both) for both in zip(self.locations, locations, strict=True)]

    def go(self, last_born: int) -> tuple[Rows, Values, Strayed]:
        """(samples, addresses of their frames, those that stray here); last_born: of what all addresses mean."""
        right = self._is_right(last_born)
        wrong = np.flatnonzero(~right)
        strayed = Strayed(self.samples[wrong], self.states[wrong], [values[wrong] for values in self.locations])
        if len(wrong):
            self._keep(np.flatnonzero(right))
        samples, states = self.samples, self.states
        following = self._known.following.take(states)
        for number, saved in enumerate(self._known.saved):
            moved = saved.take(states)
            self.locations[number] = np.where(moved == KEPT, self.locations[number], moved)
        self.states = following
        going = np.flatnonzero(following >= 0)
        if len(going) < len(following):
            self._keep(going)
        return samples, self._known.address.take(states), strayed

    def _keep(self, rows: Rows) -> None:
        self.samples, self.states = self.samples[rows], self.states[rows]
        self.locations = [values[rows] for values in self.locations]

    def _is_right(self, last_born: int) -> NDArray[np.bool_]:
        """Whose stacks have the words that were found there before."""
        known, states = self._known, self.states
        following = known.following.take(states)
        values, right = self._memory.load(self.samples, known.word_address.take(states))
        right &= values == known.word.take(states)
        right |= following == NOTHING
        right &= following != UNKNOWN
        register = known.base_register.take(states)
        for number, sampled in enumerate(self._sampled, 1):
            rows = np.flatnonzero(register == number)
            if len(rows):
                values, there = self._held(sampled, self.locations[number - 1][rows], self.samples[rows])
                right[rows] &= there & (values == known.base[states[rows]])
        if last_born > self._lowest:
            right &= (following < 0) | (self._rank[self.samples] >= known.born[following])
        return right

    def _held(self, sampled: Values, locations: Values, samples: Rows) -> tuple[Values, NDArray[np.bool_]]:
        """The values of a register that is kept at some locations, and whether they are known."""
        values, there = self._memory.load(samples, locations)
        still = locations == SAMPLED
        if still.any():
            values, there = np.where(still, sampled[samples], values), there | still
        return values, there
