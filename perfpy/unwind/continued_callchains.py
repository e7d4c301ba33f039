"""Callchains of a batch that continue as earlier ones did.

A sample whose chain reaches a state that an earlier chain was in (see known_callers) is compared with that chain: it continues the same way
while its stack has the same words. All chains step together, because the places of the words are known in advance. Samples with other words
continue in the stepper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.startup import NamedTuple
from perfpy.unwind.known_callers import KEPT, NOTHING, SAMPLED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.unwind.known_callers import KnownCallers, States
    from perfpy.unwind.memory import StackMemory

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]


class Waiting(NamedTuple):
    """Chains in states that earlier chains were in.

    Attributes:
        locations: the address of each saved register (SAMPLED: not on the stack).
    """

    samples: Rows
    states: States
    depth: Rows
    locations: list[Values]

    def take(self, rows: Rows) -> Waiting:
        """Select rows."""
        return Waiting(self.samples[rows], self.states[rows], self.depth[rows], [values[rows] for values in self.locations])

    def and_others(self, others: Waiting) -> Waiting:
        """Return these chains and others."""
        if not len(self.samples):
            return others
        samples, states = np.concatenate([self.samples, others.samples]), np.concatenate([self.states, others.states])
        locations = [np.concatenate(both) for both in zip(self.locations, others.locations, strict=True)]
        return Waiting(samples, states, np.concatenate([self.depth, others.depth]), locations)


class Went(NamedTuple):
    """One frame for each sample that continues, and the chains that do not."""

    samples: Rows
    frames: NDArray[np.int32]
    strayed: Waiting


class Followed:
    """Compares stacks with earlier ones.

    Args:
        callers: the callers of earlier chains.
        memory: the stacks.
        sampled: values of the saved registers at the samples.
        rank: of the samples.
        most: the most frames of a chain.
    """

    def __init__(self, callers: KnownCallers, memory: StackMemory, sampled: list[Values], rank: NDArray[np.int32], most: int) -> None:
        self._known_callers = callers
        self._memory = memory
        self._sampled = sampled
        self._rank = rank
        self._lowest = int(rank.min()) if len(rank) else 0
        self._most = most
        none = np.zeros(0, np.int64)
        self._chains = Waiting(none, np.zeros(0, np.int32), none, [np.zeros(0, np.uint64) for _ in sampled])

    def __len__(self) -> int:
        return len(self._chains.samples)

    def add(self, chains: Waiting) -> None:
        """Add chains that have reached known states."""
        self._chains = self._chains.and_others(chains)

    def step(self, last_born: int) -> Went:
        """Move all chains to the states that followed earlier. last_born: the newest record that any address depends on."""
        callers, chains = self._known_callers, self._chains
        following, frames = callers.following.take(chains.states), callers.frame.take(chains.states)
        right = self._have_same_words(chains, following, last_born)
        going = right & (chains.depth < self._most - 1)
        self._chains = self._advance(chains, following, going)
        right |= following == NOTHING
        if right.all():
            return Went(chains.samples, frames, chains.take(rows_where(~right)))
        return Went(chains.samples[right], frames[right], chains.take(rows_where(~right)))

    def _advance(self, chains: Waiting, following: States, going: NDArray[np.bool_]) -> Waiting:
        """Return the chains that continue, in their new states."""
        saved, states = self._known_callers.saved, chains.states
        if not going.all():
            rows = rows_where(going)
            chains, following = chains.take(rows), following[rows]
            states = chains.states
        return Waiting(chains.samples, following, chains.depth + 1, _relocate([values.take(states) for values in saved], chains.locations))

    def _have_same_words(self, chains: Waiting, following: States, last_born: int) -> NDArray[np.bool_]:
        """Return which stacks have the words that lead to the next state."""
        callers, (samples, states, _, locations) = self._known_callers, chains
        values, right = self._memory.load(samples, callers.word_address.take(states))
        right &= values == callers.word.take(states)
        right &= following >= 0
        register = callers.base_register.take(states)
        if register.any():
            for number, sampled in enumerate(self._sampled, 1):
                rows = rows_where(register == number)
                if len(rows):
                    values, there = self._register_values(sampled, locations[number - 1][rows], samples[rows])
                    right[rows] &= there & (values == callers.base[states[rows]])
        if last_born > self._lowest:
            right &= self._rank[samples] >= callers.born[following]
        return right

    def _register_values(self, sampled: Values, locations: Values, samples: Rows) -> tuple[Values, NDArray[np.bool_]]:
        """Return the values of a saved register at some locations, and which are known."""
        values, there = self._memory.load(samples, locations)
        still = locations == SAMPLED
        if still.any():
            values, there = np.where(still, sampled[samples], values), there | still
        return values, there


def _relocate(moved: list[Values], before: list[Values]) -> list[Values]:
    """Return the places of registers after a step."""
    return [np.where(after == KEPT, values, after) for after, values in zip(moved, before, strict=True)]
