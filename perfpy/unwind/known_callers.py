"""Callers that were found before, so that the next sample with the same stack need not find the way again.

What enters: states, which say where a chain has come to: an address, and the stack pointer. What leaves: for each state the
one that followed last time, and the words by which that was found: the return address, and the register that the CFA came
from where that was not the stack pointer. Where a sample has the same words, its chain goes on to the same state,
whatever else is on its stack: one word or two are looked at instead of all that rules ask for. Most samples of a
program stand in the outer frames that others stand in.
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

#: instead of a state: it is not known what follows; nothing follows
UNKNOWN: Final = -1
NOTHING: Final = -2
#: instead of an address at which a register is kept: it is where it was; it is what was sampled; it was found in another way
KEPT: Final = np.uint64((1 << 64) - 3)
SAMPLED: Final = np.uint64((1 << 64) - 1)
ELSEWHERE: Final = np.uint64((1 << 64) - 2)

_MOST: Final = 1 << 18  # states: some 30 MB
_ROOM: Final = 1 << 10
_FACTORS: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95))
_HALF: Final = np.uint64(32)


class ChainState(NamedTuple):
    """Where chains have come to, one row each.

    scene: what addresses mean (see Symbolizer.user_scenes); address: of the frame; back: how far its pc is after that;
    born: since which record the address means that; frame: its frame, by the id that a Symbolizer gives it.
    """

    scene: Values
    address: Values
    back: Values
    stack_pointer: Values
    born: NDArray[np.int32]
    frame: NDArray[np.int32]


class CallerWords(NamedTuple):
    """How a step was found, one row each: by the return address `word` at `word_address`, and by `base`, the value of a register.

    base_register: which of the registers that are kept it is, counted from 1; 0 where the CFA comes from the stack pointer.
    saved: where the caller's value of each of these registers is (KEPT: where the callee's is).
    """

    word_address: Values
    word: Values
    base_register: NDArray[np.int8]
    base: Values
    saved: list[Values]

    def take(self, rows: NDArray[np.int64]) -> CallerWords:
        """Some rows."""
        saved = [values[rows] for values in self.saved]
        return CallerWords(self.word_address[rows], self.word[rows], self.base_register[rows], self.base[rows], saved)


class KnownCallers:
    """All states that were met, by number. registers: how many are kept beside the stack pointer and the return address.

    The columns are those of ChainState and CallerWords, without the scene, and `following`: the state that came next. They are
    longer than there are states.
    """

    def __init__(self, registers: int) -> None:
        self._ids = IdTable()
        self._registers = registers
        self._make_room(_ROOM)

    def _make_room(self, room: int) -> None:
        """Columns that are so long; what is beyond the last state says nothing yet."""
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
        """Whether they should be begun anew."""
        return len(self) > _MOST

    def states(self, state: ChainState) -> States:
        """The numbers of the states, of new ones new numbers."""
        # 64 bits stand for all: two states are alike once in 2^64 pairs. A scene's lowest bit is free
        done = len(self)
        states, new = self._ids.ids_and_new(_mixed(_mixed(state.scene | state.back, state.address), state.stack_pointer))
        if len(new):
            if len(self) > len(self.address):
                self._make_room(2 * len(self))
            fresh = slice(done, len(self))
            self.address[fresh], self.back[fresh] = state.address[new], state.back[new]
            self.stack_pointer[fresh], self.born[fresh], self.frame[fresh] = state.stack_pointer[new], state.born[new], state.frame[new]
        return states

    def note(self, states: States, following: States, found: CallerWords) -> None:
        """What followed some states, and by which words that was found."""
        self.following[states] = following
        self.word_address[states], self.word[states] = found.word_address, found.word
        self.base_register[states], self.base[states] = found.base_register, found.base
        for column, values in zip(self.saved, found.saved, strict=True):
            column[states] = values

    def note_end(self, states: States) -> None:
        """Nothing follows some states, whatever is on the stack."""
        self.following[states] = NOTHING


def _mixed(key: Values, values: Values) -> Values:
    mixed = (key * _FACTORS[0]) ^ values
    found: Values = (mixed ^ mixed >> _HALF) * _FACTORS[1]
    return found
