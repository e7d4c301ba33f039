"""The chains of a batch that go on as others did before them.

What enters: samples, and the states (see known_callers) that their chains have come to. What leaves: the frames from there
on, as far as their stacks have the words that the others' had; and the samples that must find their own way from
where theirs have others. All words of all chains are compared together: where they stand was found out before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, distinct, rows_where, slices_index
from perfpy.unwind.known_callers import KEPT, NOTHING, SAMPLED, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.unwind.known_callers import KnownCallers, States
    from perfpy.unwind.memory import StackMemory

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]

_ROWS_AT_ONCE: Final = 1 << 12  # each of up to as many frames as are looked at


class Waiting(NamedTuple):
    """Chains: of which samples; the states they have come to; how many frames they have; locations: where each register that is kept is.

    (SAMPLED: not on the stack.)
    """

    samples: Rows
    states: States
    depth: Rows
    locations: list[Values]

    def take(self, rows: Rows | slice) -> Waiting:
        """Some of them."""
        return Waiting(self.samples[rows], self.states[rows], self.depth[rows], [values[rows] for values in self.locations])


def together(parts: list[Waiting]) -> Waiting:
    """All chains of some."""
    samples, states, depth, locations = zip(*parts, strict=True)
    kept = [np.concatenate(values) for values in zip(*locations, strict=True)]
    return Waiting(np.concatenate(samples), np.concatenate(states), np.concatenate(depth), kept)


class Went(NamedTuple):
    """The frames of some samples' chains, one row each, and the chains that do not go on as others did."""

    samples: Rows
    frames: Ragged
    strayed: Waiting


class _Paths(NamedTuple):
    """How chains went on from different states: the states, and where each register is there (KEPT: where it was)."""

    begins: States  # ascending
    states: Ragged
    locations: list[Values]


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

    def go(self, waiting: Waiting, last_born: int) -> Iterator[Went]:
        """Follow all chains as far as others went; last_born: of what all addresses mean."""
        for begin in range(0, len(waiting.samples), _ROWS_AT_ONCE):
            yield self._gone(waiting.take(slice(begin, begin + _ROWS_AT_ONCE)), last_born)

    def _gone(self, waiting: Waiting, last_born: int) -> Went:
        paths = self._paths(distinct(waiting.states))
        path = np.searchsorted(paths.begins, waiting.states)
        lengths = np.minimum(paths.states.lengths[path], self._most - waiting.depth)
        index, offsets = slices_index(paths.states.offsets[:-1][path], lengths)
        states, row = paths.states.values[index], np.repeat(np.arange(len(path)), lengths)
        wrong = rows_where(~self._is_right(waiting, row, states, [values[index] for values in paths.locations], last_born))
        if not len(wrong):
            return Went(waiting.samples, Ragged(self._known.address.take(states), offsets), waiting.take(wrong))
        rows, first = _first_of_rows(row[wrong])
        first = wrong[first]
        strayed = waiting.take(rows)
        right = lengths.copy()
        right[rows] = first - offsets[:-1][rows]
        locations = [values[index[first]] for values in paths.locations]
        strayed = Waiting(strayed.samples, states[first], strayed.depth + right[rows], _from(locations, strayed.locations))
        index, offsets = slices_index(offsets[:-1], right)
        return Went(waiting.samples, Ragged(self._known.address.take(states[index]), offsets), strayed)

    def _paths(self, begins: States) -> _Paths:
        """How chains went on from some states."""
        following = self._known.following
        states, path = begins, np.arange(len(begins))
        stages: list[tuple[States, Rows]] = []
        while len(states) and len(stages) < self._most:
            stages.append((states, path))
            after = following.take(states)
            going = (after >= 0).nonzero()[0]
            if len(going) < len(after):
                after, path = after.take(going), path.take(going)
            states = after
        states, path = (np.concatenate(values) for values in zip(*stages, strict=True))
        offsets = np.zeros(len(begins) + 1, np.int64)
        np.cumsum(np.bincount(path, minlength=len(begins)), out=offsets[1:])
        index = offsets[path] + np.repeat(np.arange(len(stages)), [len(path) for _, path in stages])
        ordered = np.empty_like(states)
        ordered[index] = states
        found = Ragged(ordered, offsets)
        return _Paths(begins, found, [_carried(values.take(ordered), found) for values in self._known.saved])

    def _is_right(self, waiting: Waiting, row: Rows, states: States, locations: list[Values], last_born: int) -> NDArray[np.bool_]:
        """Whose stacks have, at states, the words that were found there before."""
        known = self._known
        samples = waiting.samples[row]
        following = known.following.take(states)
        values, right = self._memory.load(samples, known.word_address.take(states))
        right &= values == known.word.take(states)
        right |= following == NOTHING
        right &= following != UNKNOWN
        register = known.base_register.take(states)
        for number, sampled in enumerate(self._sampled, 1):
            rows = rows_where(register == number)
            if len(rows):
                (where,) = _from([locations[number - 1][rows]], [waiting.locations[number - 1][row[rows]]])
                values, there = self._held(sampled, where, samples[rows])
                right[rows] &= there & (values == known.base[states[rows]])
        if last_born > self._lowest:
            right &= (following < 0) | (self._rank[samples] >= known.born[following])
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


def _carried(moved: Values, paths: Ragged) -> Values:
    """Where a register is at each state of paths, by where the steps from each move it to."""
    begins = np.repeat(paths.offsets[:-1], paths.lengths)
    last = np.where(moved != KEPT, np.arange(len(moved)), -1)
    np.maximum.accumulate(last, out=last)
    last[1:], last[:1] = last[:-1].copy(), -1
    return np.where(last >= begins, moved[last], KEPT)


def _first_of_rows(rows: Rows) -> tuple[Rows, Rows]:
    """(the different ones of ascending rows, where each stands first)."""
    first = rows_where(np.concatenate([[True], rows[1:] != rows[:-1]]))
    return rows[first], first
