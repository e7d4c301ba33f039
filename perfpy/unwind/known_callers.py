"""Cache callers, so that the next sample with the same stack follows the same way.

A state is an address and a stack pointer that a chain has reached. Each state has the state that followed last time, and the words that led
there: the return address, and the register that gave the CFA unless that was the stack pointer. A sample with the same words continues to
the same state, whatever else is on its stack: it compares one or two words instead of all that the rules read. Most samples of a program
share their outer frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Values = NDArray[np.uint64]
    States = NDArray[np.int32]

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
