"""The rules that locate a caller's registers, and all distinct rules as columns.

Each distinct FrameRules has a number, which indexes the arrays of RuleTable, so that the stepper handles all samples together. Meaning of
the rules: DWARF 5, section 6.4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from perfpy.abi.columns import Growing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.unwind.architectures import Architecture

SAME: Final = 0
UNDEFINED: Final = 1
OFFSET: Final = 2  # saved at CFA + value
VAL_OFFSET: Final = 3  # is CFA + value
REGISTER: Final = 4  # is in register number value
EXPRESSION: Final = 5  # saved at the address that the expression computes
VAL_EXPRESSION: Final = 6  # is the expression's value

#: Properties of unusual rules (RuleTable.flags).
ENDS: Final = 1
SIGNAL: Final = 2
NEAR_GUESS: Final = 4  # a guessed frame pointer, accepted if it is near the stack pointer
FAR_GUESS: Final = 8  # a guessed frame pointer, accepted if its callers are code
CFA_EXPRESSION: Final = 16
MOVES_STACK_POINTER: Final = 32  # it is not the CFA
RETURNS_ELSEWHERE: Final = 64  # the return address is in another column than the architecture's

#: (kind, an offset, a register's number, or an expression)
Rule: TypeAlias = "tuple[int, int | bytes]"
#: (register, offset) or an expression
CfaRule: TypeAlias = "tuple[int, int] | bytes"

#: The code is unknown: the chain ends.
END: Final = 0

# operations of DWARF expressions
_BREG0: Final = 0x70
_DEREF: Final = 0x06
_PLUS_CONSTANT: Final = 0x23
_CONSTANT, _MINUS, _TIMES, _EQUAL = 0x08, 0x1C, 0x1E, 0x29


class FrameRules(NamedTuple):
    """One row: how to compute the CFA (in nearly all code the caller's stack pointer) and the caller's registers.

    Attributes:
        registers: (DWARF number, Rule), ascending, without unchanged registers.
        return_column: the register that has the caller's pc.
        is_signal: whether the kernel made the frame.
        reach: for code without information, how far above the stack pointer an accepted frame pointer may be (0: anywhere, but its callers
            must
            be code); None for other code.
    """

    cfa: CfaRule
    registers: tuple[tuple[int, Rule], ...]
    return_column: int
    is_signal: bool = False
    reach: int | None = None


def by_frame_pointer(architecture: Architecture, reach: int) -> FrameRules | None:
    """Return the rules of code without call frame information, or None for architectures without frame pointers."""
    frame, column = architecture.frame, architecture.return_column
    if frame is None:
        return None
    if frame.chained:
        return FrameRules(bytes((_BREG0 + frame.register, 0, _DEREF)), ((column, (OFFSET, frame.returns)),), column, reach=reach)
    saved = ((frame.register, (OFFSET, frame.saved - frame.size)), (column, (OFFSET, frame.returns - frame.size)))
    return FrameRules((frame.register, frame.size), tuple(sorted(saved)), column, reach=reach)


def of_stub(architecture: Architecture) -> FrameRules:
    """Return the rules of a linkage stub, which has pushed at most its return address."""
    column = architecture.return_column
    pushed = ((column, (OFFSET, -architecture.stub)),) if architecture.stub else ()
    return FrameRules((architecture.stack_pointer, architecture.stub), pushed, column)


def of_leaf(architecture: Architecture) -> FrameRules:
    """Return the rules of code without information that has pushed nothing and called nothing; its caller must be code."""
    return FrameRules((architecture.stack_pointer, architecture.entry), (), architecture.return_column, reach=0)


def by_record(rules: FrameRules, architecture: Architecture) -> FrameRules | None:
    """Return the rules with an unknown stack pointer and a known frame pointer, or None if they do not suffice.

    The frame pointer points to the saved one of the caller, whose place the rules contain.
    """
    frame = architecture.frame
    if frame is None or isinstance(rules.cfa, bytes) or rules.cfa[0] != architecture.stack_pointer:
        return rules
    kind, value = dict(rules.registers).get(frame.register, (SAME, 0))
    if kind != OFFSET or isinstance(value, bytes):
        return None
    return rules._replace(cfa=(frame.register, frame.saved - value))


def of_signal(architecture: Architecture) -> FrameRules | None:
    """Return the rules of a signal frame in the kernel's layout."""
    frame = architecture.signal
    if frame is None:
        return None
    lower = _lower(architecture, *frame.small) if frame.small else b""
    slots = (*frame.slots, (frame.column, frame.pc))
    saved = {register: _above(architecture, frame.first + slot * architecture.word) + lower for register, slot in slots}
    cfa = saved[architecture.stack_pointer] + bytes((_DEREF, _PLUS_CONSTANT)) + _uleb(architecture.entry)
    rules: list[tuple[int, Rule]] = [(register, (EXPRESSION, address)) for register, address in sorted(saved.items())]
    return FrameRules(cfa, tuple(rules), frame.column, is_signal=True)


def _above(architecture: Architecture, offset: int) -> bytes:
    """Return the address at an offset above the stack pointer, as an expression."""
    return bytes((_BREG0 + architecture.stack_pointer, 0, _PLUS_CONSTANT)) + _uleb(offset)


def _lower(architecture: Architecture, pointer: int, target: int, size: int) -> bytes:
    """Return an expression that subtracts `size` if there is a pointer to an address, both relative to the stack pointer."""
    is_pointed = _above(architecture, pointer) + bytes((_DEREF,)) + _above(architecture, target) + bytes((_EQUAL,))
    return is_pointed + bytes((_CONSTANT, size, _TIMES, _MINUS))


def _uleb(value: int) -> bytes:
    return bytes((value & 0x7F | 0x80, value >> 7))


class RuleColumns:
    """The rules of one register, one row for each FrameRules.

    Attributes:
        kind: OFFSET and so on.
        value: the offset, or the row of the register; otherwise -1.
        is_rare: neither unchanged nor saved at an offset.
        has_rare: whether any rule is rare.
    """

    def __init__(self) -> None:
        self._kind, self._value, self._is_rare = Growing(np.int8), Growing(np.int64), Growing(bool)
        self.has_rare = False

    def extend(self, rules: Iterable[Rule], row: dict[int, int]) -> None:
        """Append rules. row: DWARF number of a tracked register -> its row."""
        kinds, values = zip(*rules, strict=True)
        kind = np.array(kinds, np.int8)
        numbers = [
            -1 if isinstance(value, bytes) else row.get(value, -1) if kind == REGISTER else value
            for kind, value in zip(kinds, values, strict=True)
        ]
        is_rare = (kind != SAME) & (kind != OFFSET)
        for column, added in ((self._kind, kind), (self._value, np.array(numbers, np.int64)), (self._is_rare, is_rare)):
            column.append(added)
        self.has_rare |= bool(is_rare.any())
        self.kind, self.value, self.is_rare = self._kind.values, self._value.values, self._is_rare.values


class RuleTable:
    """All rules of one architecture, by number; number END ends a chain.

    Attributes:
        tracked: the DWARF numbers of tracked registers: those from which any CFA, or a rule of a tracked register, is computed. It grows
            when a
            rule needs more.
    """

    def __init__(self, architecture: Architecture) -> None:
        self._architecture = architecture
        self._numbers: dict[FrameRules, int] = {}
        self.rules: list[FrameRules] = [FrameRules((architecture.stack_pointer, 0), (), architecture.return_column)]
        frame = [architecture.frame.register] if architecture.frame and not architecture.frame.chained else []
        self.tracked: list[int] = [architecture.stack_pointer, architecture.return_column, *frame, *architecture.often]
        self._encoded = 0
        self._made_tracked = 0
        self._moves: set[tuple[int, int]] = set()  # registers that are saved in another one

    def __len__(self) -> int:
        return len(self.rules)

    def number(self, rules: FrameRules) -> int:
        """Return the number of rules."""
        number = self._numbers.get(rules)
        if number is None:
            number = self._numbers[rules] = len(self.rules)
            self.rules.append(rules)
        return number

    def track(self, register: int) -> None:
        """Track another register."""
        if register not in self.tracked and 0 <= register < len(self._architecture.registers):
            self.tracked.append(register)

    def update(self) -> None:
        """Extend the arrays by the rules added since the last call."""
        for rules in self.rules[self._encoded :]:
            if not isinstance(rules.cfa, bytes):
                self.track(rules.cfa[0])
            self.track(rules.return_column)
            self._moves.update((register, int(value)) for register, (kind, value) in rules.registers if kind == REGISTER)
        self._track_moved()
        if self._made_tracked != len(self.tracked):
            self._encoded, self._made_tracked = 0, len(self.tracked)
            self._columns = [Growing(kind) for kind in (np.uint8, np.int64, np.uint64, np.int64, bool, bool, np.uint64)]
            self.registers = [RuleColumns() for _ in self.tracked]
        if self._encoded < len(self.rules):
            self._extend(self.rules[self._encoded :])
            self._encoded = len(self.rules)

    def _extend(self, new: list[FrameRules]) -> None:
        row = {register: number for number, register in enumerate(self.tracked)}
        cfa = [(0, 0) if isinstance(rules.cfa, bytes) else (row.get(rules.cfa[0], -1), rules.cfa[1]) for rules in new]
        added: tuple[NDArray[Any], ...] = (
            np.array([self._flags_of(self._encoded + number, rules) for number, rules in enumerate(new)], np.uint8),
            np.array([one for one, _ in cfa], np.int64),
            np.array([offset & 0xFFFFFFFFFFFFFFFF for _, offset in cfa], np.uint64),
            np.array([row.get(rules.return_column, -1) for rules in new], np.int64),
            np.array([rules.reach is not None for rules in new], bool),
            np.array([self._is_pointed(rules) for rules in new], bool),
            np.array([rules.reach or 0 for rules in new], np.uint64),
        )
        for column, values in zip(self._columns, added, strict=True):
            column.append(values)
        arrays = (one.values for one in self._columns)
        self.flags, self.cfa_row, self.cfa_offset, self.return_row, self.is_guess, self.is_pointed, self.reach = arrays
        by_register = [dict(rules.registers) for rules in new]
        for register, columns in zip(self.tracked, self.registers, strict=True):
            # A stack pointer without a rule is the CFA, or unchanged.
            is_cfa = register == self._architecture.stack_pointer and not self._architecture.entry
            default: Rule = (VAL_OFFSET, 0) if is_cfa else (SAME, 0)
            columns.extend([rules.get(register, default) for rules in by_register], row)

    def _is_pointed(self, rules: FrameRules) -> bool:
        """Whether the CFA is guessed from a register that may point anywhere."""
        return rules.reach is not None and (isinstance(rules.cfa, bytes) or rules.cfa[0] != self._architecture.stack_pointer)

    def _track_moved(self) -> None:
        """Track the registers that can contain tracked ones."""
        tracked = 0
        while tracked < len(self.tracked):
            tracked = len(self.tracked)
            for register, source in self._moves:
                if register in self.tracked:
                    self.track(source)

    def _flags_of(self, number: int, rules: FrameRules) -> int:
        flags = ENDS if number == END else SIGNAL if rules.is_signal else 0
        if rules.reach is not None:
            flags |= NEAR_GUESS if rules.reach else FAR_GUESS
        if isinstance(rules.cfa, bytes):
            flags |= CFA_EXPRESSION
        if self._architecture.entry or any(register == self._architecture.stack_pointer for register, _ in rules.registers):
            flags |= MOVES_STACK_POINTER
        return flags | (RETURNS_ELSEWHERE if rules.return_column != self._architecture.return_column else 0)

    def expression(self, number: int, register: int | None) -> bytes:
        """Return the expression of the CFA (None) or of a register."""
        rules = self.rules[number]
        rule = rules.cfa if register is None else dict(rules.registers)[register][1]
        return rule if isinstance(rule, bytes) else b""
