"""Evaluate DWARF expressions for many samples together.

Operations (DW_OP_*): DWARF 5, section 2.5. After a branch that samples take differently, each side continues separately. Expressions may
contain loops, so the number of operations is bounded. Raises ValueError for damaged expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from perfpy.unwind.frame_entries import ByteReader

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Values = NDArray[np.uint64]
    Signed = NDArray[np.int64]

_OPERATIONS_MOST: Final = 1 << 10
_DEPTH_MOST: Final = 1 << 6
_LITERALS: Final = 0x30
_REGISTERS: Final = 0x50
_BASES: Final = 0x70
_AFTER_BASES: Final = 0x90


class ExpressionContext(Protocol):
    """The inputs of an expression for some samples (rows). operations_left: the budget that all expressions share."""

    word: int
    endian: str
    operations_left: int

    def register(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return a register's values, by its DWARF number."""

    def load(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Read words of memory; also return which are known."""


def evaluate(
    expression: bytes, context: ExpressionContext, rows: NDArray[np.int64], cfa: NDArray[np.uint64] | None = None
) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return an expression's value for each row, and whether all its inputs are known. cfa: of each row; pushed first."""
    run = _ExpressionRun(expression, context, rows, cfa)
    start = [] if cfa is None else [cfa]
    run.go(0, start, np.arange(len(rows)))
    return run.result, run.is_valid


class _ExpressionRun:
    """One evaluation. result, is_valid: by row."""

    def __init__(self, expression: bytes, context: ExpressionContext, rows: NDArray[np.int64], cfa: NDArray[np.uint64] | None) -> None:
        self._expression = expression
        self._context = context
        self._rows = rows
        self._cfa = cfa
        self._mask = np.uint64((1 << 8 * context.word) - 1)
        self._left = _OPERATIONS_MOST
        self.result = np.zeros(len(rows), np.uint64)
        self.is_valid = np.ones(len(rows), bool)

    def go(self, position: int, stack: list[Values], which: NDArray[np.int64]) -> None:
        """Run from a position for some rows, whose values are on the stack."""
        reader = ByteReader(self._expression, self._context.endian, self._context.word, position)
        while reader and len(which):
            self._left -= 1
            self._context.operations_left -= 1
            if min(self._left, self._context.operations_left) < 0 or len(stack) > _DEPTH_MOST:
                raise ValueError("an expression without an end")
            code = reader.byte()
            if code == 0x2F:  # skip
                distance = reader.number(2, signed=True)
                self._move(reader, distance)
            elif code == 0x28:  # bra
                which, stack = self._branch(reader, stack, which)
            else:
                self._operation(code, reader, stack, which)
        if len(which):
            self.result[which] = _pop(stack) & self._mask

    def _move(self, reader: ByteReader, distance: int) -> None:
        reader.position += distance
        if not 0 <= reader.position <= len(self._expression):
            raise ValueError("an expression jumps out of itself")

    def _branch(self, reader: ByteReader, stack: list[Values], which: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[Values]]:
        """Run the rows that jump, then return the rows that do not."""
        distance = reader.number(2, signed=True)
        jumps = _pop(stack) & self._mask != 0
        if jumps.all():
            self._move(reader, distance)
            return which, stack
        if jumps.any():
            after = reader.position
            self._move(reader, distance)
            self.go(reader.position, [values[jumps] for values in stack], which[jumps])
            reader.position = after
        return which[~jumps], [values[~jumps] for values in stack]

    def _operation(self, code: int, reader: ByteReader, stack: list[Values], which: NDArray[np.int64]) -> None:
        if _LITERALS <= code < _REGISTERS:
            stack.append(self._constant(code - _LITERALS, which))
        elif code < _BASES and code >= _REGISTERS:
            stack.append(self._context.register(code - _REGISTERS, self._rows[which]))
        elif _BASES <= code < _AFTER_BASES:
            stack.append(self._add_base(code - _BASES, reader.sleb(), which))
        elif code in _CONSTANTS:
            stack.append(self._constant(_CONSTANTS[code](reader), which))
        elif code in _BINARY:
            top, below = _pop(stack), _pop(stack)
            stack.append(_BINARY[code](below & self._mask, top & self._mask) & self._mask)
        elif code in _OF_SIGNED:
            top, below = _pop(stack), _pop(stack)
            stack.append(_OF_SIGNED[code](self._sign_extend(below), self._sign_extend(top)) & self._mask)
        elif code in _SHUFFLES:
            _SHUFFLES[code](stack)
        else:
            self._other(code, reader, stack, which)

    def _other(self, code: int, reader: ByteReader, stack: list[Values], which: NDArray[np.int64]) -> None:
        if code == 0x06:  # deref
            stack.append(self._load(_pop(stack), which))
        elif code == 0x94:  # deref_size
            stack.append(self._truncate(self._load(_pop(stack), which), reader.byte()))
        elif code == 0x15:
            _pick(stack, reader.byte())
        elif code == 0x19:  # abs
            stack.append(np.abs(self._sign_extend(_pop(stack))).view(np.uint64) & self._mask)
        elif code in (0x1F, 0x20):  # neg, not
            stack.append(~_pop(stack) + np.uint64(code == 0x1F) & self._mask)
        elif code == 0x23:  # plus_uconst
            stack.append(_pop(stack) + np.uint64(reader.uleb()) & self._mask)
        elif code in (0x90, 0x92):  # regx, bregx
            number = reader.uleb()
            stack.append(self._add_base(number, reader.sleb() if code == 0x92 else 0, which))
        elif code == 0x9C and self._cfa is not None:  # call_frame_cfa
            stack.append(self._cfa[which])
        elif code not in (0x96, 0x9F):  # nop, stack_value
            raise ValueError(f"unknown operation {code:#x} in an expression")

    def _constant(self, number: int, which: NDArray[np.int64]) -> Values:
        return np.full(len(which), number & 0xFFFFFFFFFFFFFFFF, np.uint64)

    def _add_base(self, register: int, offset: int, which: NDArray[np.int64]) -> Values:
        return self._context.register(register, self._rows[which]) + self._constant(offset, which) & self._mask

    def _load(self, addresses: Values, which: NDArray[np.int64]) -> Values:
        values, is_readable = self._context.load(self._rows[which], addresses & self._mask)
        self.is_valid[which] &= is_readable
        return values

    def _truncate(self, values: Values, size: int) -> Values:
        """Truncate words to their first bytes in memory."""
        size = min(size, self._context.word)
        if self._context.endian == ">":
            return values >> np.uint64(8 * (self._context.word - size)) if size else values & np.uint64(0)
        return values & np.uint64((1 << 8 * size) - 1)

    def _sign_extend(self, values: Values) -> Signed:
        """Sign-extend numbers of a word's width."""
        unused = np.int64(64 - 8 * self._context.word)
        return values.view(np.int64) << unused >> unused


def _pop(stack: list[Values]) -> Values:
    if not stack:
        raise ValueError("an expression takes a value from an empty stack")
    return stack.pop()


def _pick(stack: list[Values], depth: int) -> None:
    if depth >= len(stack):
        raise ValueError("an expression looks below the stack")
    stack.append(stack[-1 - depth])


def _swap(stack: list[Values], count: int) -> None:
    if count > len(stack):
        raise ValueError("an expression looks below the stack")
    stack.insert(1 - count, stack.pop())


def _drop(stack: list[Values]) -> None:
    _pop(stack)


def _operand_reader(width: int, *, signed: bool) -> Callable[[ByteReader], int]:
    return lambda reader: reader.number(width, signed=signed)


def _divide(below: Signed, top: Signed) -> Values:
    quotient = np.abs(below) // np.where(top == 0, 1, np.abs(top))
    signed: Values = (np.sign(below) * np.sign(top) * quotient).view(np.uint64)
    return signed


def _shifted_right(below: Signed, top: Signed) -> Values:
    bits = np.where((top < 0) | (top > 63), 63, top)
    moved: Values = (below >> bits).view(np.uint64)
    return moved


def _shift(below: Values, top: Values, *, left: bool) -> Values:
    bits = np.minimum(top, np.uint64(63))
    moved = below << bits if left else below >> bits
    return np.where(top > 63, np.uint64(0), moved)


def _number(truth: NDArray[np.bool_]) -> Values:
    return truth.astype(np.uint64)


_CONSTANTS: Final[dict[int, Callable[[ByteReader], int]]] = {
    0x03: lambda reader: reader.number(reader.word),
    **{0x08 + 2 * log: _operand_reader(1 << log, signed=False) for log in range(4)},
    **{0x09 + 2 * log: _operand_reader(1 << log, signed=True) for log in range(4)},
    0x10: ByteReader.uleb,
    0x11: ByteReader.sleb,
}
#: (value below the top, top) -> result
_BINARY: Final[dict[int, Callable[[Values, Values], Values]]] = {
    0x1A: lambda below, top: below & top,
    0x1C: lambda below, top: below - top,
    0x1D: lambda below, top: below % np.where(top == 0, np.uint64(1), top),
    0x1E: lambda below, top: below * top,
    0x21: lambda below, top: below | top,
    0x22: lambda below, top: below + top,
    0x24: lambda below, top: _shift(below, top, left=True),
    0x25: lambda below, top: _shift(below, top, left=False),
    0x27: lambda below, top: below ^ top,
    0x29: lambda below, top: _number(below == top),
    0x2E: lambda below, top: _number(below != top),
}
_OF_SIGNED: Final[dict[int, Callable[[Signed, Signed], Values]]] = {
    0x1B: _divide,
    0x26: _shifted_right,
    0x2A: lambda below, top: _number(below >= top),
    0x2B: lambda below, top: _number(below > top),
    0x2C: lambda below, top: _number(below <= top),
    0x2D: lambda below, top: _number(below < top),
}
_SHUFFLES: Final[dict[int, Callable[[list[Values]], None]]] = {
    0x12: lambda stack: _pick(stack, 0),
    0x13: _drop,
    0x14: lambda stack: _pick(stack, 1),
    0x16: lambda stack: _swap(stack, 2),
    0x17: lambda stack: _swap(stack, 3),
}
