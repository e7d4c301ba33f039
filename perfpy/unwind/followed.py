"""The chains of a batch that go on as others did before them.

What enters: samples, and the states (see known_callers) that their chains have come to. What leaves, step by step: the frames
of those whose stacks have the words that the others' had, and the samples that must find their own way from where theirs
have others. All chains take a step together: where the words stand was found out before.
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
    """Chains: of which samples; the states they have come to; how many frames they have; locations: where each register that is kept is.

    (SAMPLED: not on the stack.)
    """

    samples: Rows
    states: States
    depth: Rows
    locations: list[Values]

    def take(self, rows: Rows) -> Waiting:
        """Some of them."""
        return Waiting(self.samples[rows], self.states[rows], self.depth[rows], [values[rows] for values in self.locations])

    def and_others(self, others: Waiting) -> Waiting:
        """These and others."""
        if not len(self.samples):
            return others
        samples, states = np.concatenate([self.samples, others.samples]), np.concatenate([self.states, others.states])
        locations = [np.concatenate(both) for both in zip(self.locations, others.locations, strict=True)]
        return Waiting(samples, states, np.concatenate([self.depth, others.depth]), locations)


class Went(NamedTuple):
    """The frames of some samples' chains, one each, and the chains that do not go on as others did."""

    samples: Rows
    frames: NDArray[np.int32]
    strayed: Waiting


class Followed:
    """Compares stacks with those before. sampled: the values of the registers that are kept at the samples; rank: of the samples.

    most: frames of a chain.
    """

    def __init__(self, known: KnownCallers, memory: StackMemory, sampled: list[Values], rank: NDArray[np.int32], most: int) -> None:
        self._known = known
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
        """More chains, which have come to states that others have been in."""
        self._chains = self._chains.and_others(chains)

    def step(self, last_born: int) -> Went:
        """Let all chains go to where others went from the same states; last_born: of what all addresses mean."""
        known, chains = self._known, self._chains
        following, frames = known.following.take(chains.states), known.frame.take(chains.states)
        right = self._is_right(chains, following, last_born)
        going = right & (chains.depth < self._most - 1)
        self._chains = self._moved(chains, following, going)
        right |= following == NOTHING
        if right.all():
            return Went(chains.samples, frames, chains.take(rows_where(~right)))
        return Went(chains.samples[right], frames[right], chains.take(rows_where(~right)))

    def _moved(self, chains: Waiting, following: States, going: NDArray[np.bool_]) -> Waiting:
        """The chains that go on, where they are then."""
        saved, states = self._known.saved, chains.states
        if not going.all():
            rows = rows_where(going)
            chains, following = chains.take(rows), following[rows]
            states = chains.states
        return Waiting(chains.samples, following, chains.depth + 1, _from([values.take(states) for values in saved], chains.locations))

    def _is_right(self, chains: Waiting, following: States, last_born: int) -> NDArray[np.bool_]:
        """Whose stacks have the words by which others went on."""
        known, (samples, states, _, locations) = self._known, chains
        values, right = self._memory.load(samples, known.word_address.take(states))
        right &= values == known.word.take(states)
        right &= following >= 0
        register = known.base_register.take(states)
        if register.any():
            for number, sampled in enumerate(self._sampled, 1):
                rows = rows_where(register == number)
                if len(rows):
                    values, there = self._held(sampled, locations[number - 1][rows], samples[rows])
                    right[rows] &= there & (values == known.base[states[rows]])
        if last_born > self._lowest:
            right &= self._rank[samples] >= known.born[following]
        return right

    def _held(self, sampled: Values, locations: Values, samples: Rows) -> tuple[Values, NDArray[np.bool_]]:
        """The values of a register that is kept at some locations, and whether they are known."""
        values, there = self._memory.load(samples, locations)
        still = locations == SAMPLED
        if still.any():
            values, there = np.where(still, sampled[samples], values), there | still
        return values, there


def _from(moved: list[Values], before: list[Values]) -> list[Values]:
    """Where registers are after a step, by where it moved them to."""
    return [np.where(after == KEPT, values, after) for after, values in zip(moved, before, strict=True)]
