"""Cache callers, so that the next sample with the same stack follows the same way.

A state is an address and a stack pointer that a chain has reached. Each state has the state that followed last time, and the words that led
there: the return address, and the register that gave the CFA unless that was the stack pointer. A sample with the same words continues to
the same state, whatever else is on its stack: it compares one or two words instead of all that the rules read. Most samples of a program
share their outer frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.abi.light_types import NamedTuple
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.uint64]
    States = NDArray[np.int32]
    Rows = NDArray[np.int64]


#: Instead of a state: the next one is unknown; none follows.
UNKNOWN: Final = -1
NOTHING: Final = -2
#: Instead of the address of a saved register: unchanged; the sampled value; found in another way.
KEPT: Final = np.uint64((1 << 64) - 3)
SAMPLED: Final = np.uint64((1 << 64) - 1)
ELSEWHERE: Final = np.uint64((1 << 64) - 2)

_MOST: Final = 1 << 18  # states: about 30 MB
_ROOM: Final = 1 << 10
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95))
_HALF: Final = np.uint64(32)


class ChainState(NamedTuple):
    """The states of chains, one in each row.

    Attributes:
        scene: the meaning of addresses (see Symbolizer.user_scenes).
        address: of the frame.
        back: from the address to the frame's pc.
        born: rank of the record since which the address has this meaning.
        frame: id of the frame in the Symbolizer.
    """

    scene: Values
    address: Values
    back: Values
    stack_pointer: Values
    born: NDArray[np.int32]
    frame: NDArray[np.int32]


class CallerWords(NamedTuple):
    """The words that led to a caller, one step in each row: the return address `word` at `word_address`, and the register value `base`.

    Attributes:
        base_register: number of the saved register, from 1; 0: the CFA comes from the stack pointer.
        saved: the address of the caller's value of each register (KEPT: the callee's).
    """

    word_address: Values
    word: Values
    base_register: NDArray[np.int8]
    base: Values
    saved: list[Values]

    def take(self, rows: NDArray[np.int64]) -> CallerWords:
        """Select rows."""
        saved = [values[rows] for values in self.saved]
        return CallerWords(self.word_address[rows], self.word[rows], self.base_register[rows], self.base[rows], saved)


class KnownCallers:
    """All states so far, by number.

    The columns are those of ChainState and CallerWords, without the scene, and `following`: the next state. They are longer than the number
    of states.

    Args:
        registers: the number of saved registers, besides the stack pointer and the return address.
    """

    def __init__(self, registers: int) -> None:
        self._ids = IdTable()
        self._registers = registers
        self._make_room(_ROOM)

    def _make_room(self, room: int) -> None:
        """Grow the columns; rows beyond the last state are unused."""
        kinds = (np.uint64, np.uint64, np.uint64, np.int32, np.int32, np.int32, np.uint64, np.uint64, np.int8, np.uint64)
        old = self._columns if len(self._ids) else []
        self._columns: list[NDArray[Any]] = [np.zeros(room, kind) for kind in (*kinds, *[np.uint64] * self._registers)]
        self.address, self.back, self.stack_pointer, self.born, self.frame, self.following = self._columns[:6]
        self.word_address, self.word, self.base_register, self.base = self._columns[6:10]
        self.saved: list[Values] = self._columns[10:]
        self.following[:] = UNKNOWN
        for column, values in zip(self._columns, old, strict=False):
            column[: len(values)] = values

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def is_full(self) -> bool:
        """Whether the cache should be cleared."""
        return len(self) > _MOST

    def states(self, state: ChainState) -> States:
        """Return the numbers of states; new states get new numbers."""
        # 64 bits identify a state: two states collide once in 2^64 pairs. A scene's lowest bit is free.
        first_new = len(self)
        states, new = self._ids.ids_and_new(_mix(_mix(state.scene | state.back, state.address), state.stack_pointer))
        if len(new):
            if len(self) > len(self.address):
                self._make_room(2 * len(self))
            fresh = slice(first_new, len(self))
            self.address[fresh], self.back[fresh] = state.address[new], state.back[new]
            self.stack_pointer[fresh], self.born[fresh], self.frame[fresh] = state.stack_pointer[new], state.born[new], state.frame[new]
        return states

    def note(self, states: States, following: States, caller_words: CallerWords) -> None:
        """Store the states that followed, and the words that led there."""
        self.following[states] = following
        self.word_address[states], self.word[states] = caller_words.word_address, caller_words.word
        self.base_register[states], self.base[states] = caller_words.base_register, caller_words.base
        for column, values in zip(self.saved, caller_words.saved, strict=True):
            column[states] = values

    def note_end(self, states: States) -> None:
        """Mark states as outermost, whatever is on the stack."""
        self.following[states] = NOTHING


def _mix(key: Values, values: Values) -> Values:
    mixed = (key * _FACTORS[0]) ^ values
    hashes: Values = (mixed ^ mixed >> _HALF) * _FACTORS[1]
    return hashes


# Callchains of a batch that continue as earlier ones did. A sample whose chain reaches a state that an earlier chain was in (see
# known_callers) is compared with that chain: it continues the same way while its stack has the same words. All chains step together,
# because the places of the words are known in advance. Samples with other words continue in the stepper.
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


# The known memory of a process: the copies of its stack in samples.

_SEVEN: Final = np.uint64(7)
_LOG_OF_WORD: Final = np.uint64(3)
_BITS: Final = np.uint64(64)


class StackMemory:
    """The stacks of some samples, one in each row.

    A copy's last word is used, as perf does with libdw; with libunwind perf ignores it, and loses its callers.

    Args:
        data: bytes of all copies, each at a multiple of 8.
        starts: of each copy in `data`.
        sizes: of each copy, in bytes.
        base: the address of each copy's first byte.
        word: bytes of an address.
        endian: of the copies.
    """

    def __init__(
        self,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        sizes: NDArray[np.int64],
        base: NDArray[np.uint64],
        *,
        word: int,
        endian: str,
    ) -> None:
        self._words: NDArray[Any] = data[: len(data) & ~7].view(endian + "u8")
        self._starts = starts.astype(np.uint64)
        fits = sizes >= word
        self._base = base
        # The last offset of a word.
        self._last = np.where(fits, sizes - word, 0).astype(np.uint64)
        self._none = None if bool(fits.all()) else ~fits
        self._word = word
        self._is_big = endian == ">"

    def load(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the word at each row's address (0 if it is unknown), and whether it is known."""
        offset = addresses - self._base[rows]
        is_readable = offset <= self._last[rows]
        if self._none is not None:
            is_readable &= ~self._none[rows]
        if is_readable.all():
            return self._copied_words(self._starts[rows] + offset), is_readable
        if self._none is None:  # stands in for words outside the copies
            offset *= is_readable
            return self._copied_words(self._starts[rows] + offset) * is_readable, is_readable
        values = np.zeros(len(rows), np.uint64)
        values[is_readable] = self._copied_words((self._starts[rows] + offset)[is_readable])
        return values, is_readable

    def is_above(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Whether a word at each address would be beyond the end of the row's copy, not before its beginning."""
        above: NDArray[np.bool_] = (addresses >= self._base[rows]) & (addresses - self._base[rows] > self._last[rows])
        return above

    def _copied_words(self, position: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the words at positions of the buffer."""
        index = (position >> _LOG_OF_WORD).view(np.int64)
        shift = position & _SEVEN
        if self._word == 8 and not shift.any():
            whole: NDArray[np.uint64] = self._words.take(index).astype(np.uint64, copy=False)
            return whole
        first = self._words.take(index).astype(np.uint64, copy=False)
        after = self._words.take(np.minimum(index + 1, len(self._words) - 1)).astype(np.uint64, copy=False)
        bits = shift * np.uint64(8)
        rest = np.where(bits == 0, np.uint64(0), _BITS - bits)
        if self._is_big:
            joined = np.where(bits == 0, first, first << bits | after >> rest)
            return joined >> np.uint64(64 - 8 * self._word)
        joined = np.where(bits == 0, first, first >> bits | after << rest)
        return joined & np.uint64((1 << 8 * self._word) - 1)
