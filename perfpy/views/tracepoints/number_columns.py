"""Expressions of a tracepoint's print format as functions over columns of numbers.

The functions compute an expression (perfpy.perfdata.tracepoints.print_tree) over all rows at once, as unsigned 64-bit numbers, as perf's
library does. numpy's numbers overflow as those of C. Each function is a closure over the functions of its operands; no code is generated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from perfpy.perfdata.tracepoints.print_constants import number
from perfpy.perfdata.tracepoints.print_tree import (
    Atom,
    Cast,
    Conditional,
    DynamicArray,
    DynamicLength,
    Element,
    Expression,
    FieldValue,
    Operation,
)
from perfpy.views.tracepoints.rows import NUMBER_SIZES, TraceRows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.perfdata.tracepoints.event_format import TraceField

    Numbers: TypeAlias = "NDArray[np.uint64]"

#: Computes a number for each row.
NumberColumn: TypeAlias = Callable[[TraceRows], "Numbers"]

_ALL: Final = (1 << 64) - 1
_CAST_BITS: Final = {"u8": 8, "s8": 8, "char": 8, "u16": 16, "s16": 16, "short": 16, "u32": 32, "s32": 32, "int": 32}
_NEVER_INSIDE: Final = np.uint64(1 << 20)  # beyond the end of every record, and small enough to add to


def number_column(tree: Expression, long_size: int) -> NumberColumn:
    """Return a function that computes an expression. Texts have no value and count as 0.

    Args:
        long_size: bytes of a long on the recorded machine
    """
    function = _compile(tree, long_size)
    if isinstance(function, _Constant):
        value = function.value
        return lambda rows: np.full(len(rows), value)
    return function


class _Constant:
    """The same number for each row, computed in advance."""

    def __init__(self, value: int) -> None:
        self.value = np.uint64(value & _ALL)

    def __call__(self, _rows: TraceRows) -> Numbers:
        """Return the number, which numpy broadcasts."""
        return self.value  # type: ignore[return-value]


def _compile(tree: Expression, long_size: int) -> NumberColumn:
    make = _MAKERS.get(type(tree))
    return _Constant(0) if make is None else make(tree, long_size)


def signed_column(values: Numbers, bits: int) -> NDArray[Any]:
    """Return the lowest bits as signed numbers."""
    return values.astype(f"u{bits // 8}").view(f"i{bits // 8}")


def unsigned_column(values: Numbers, bits: int) -> NDArray[Any]:
    """Return the lowest bits as unsigned numbers."""
    return values.astype(f"u{bits // 8}", copy=False)


def _atom(tree: Atom, _long_size: int) -> NumberColumn:
    return _Constant(number(tree.text))


def _field(tree: FieldValue, _long_size: int) -> NumberColumn:
    field = tree.field
    return _Constant(0) if field is None else lambda rows: rows.number(field.offset, field.size)


def _cast(tree: Cast, long_size: int) -> NumberColumn:
    return _narrow(_compile(tree.item, long_size), tree.type)


def _narrow(item: NumberColumn, type_name: str) -> NumberColumn:
    bits = _CAST_BITS.get(type_name.removeprefix("unsigned "), 64)
    mask = np.uint64((1 << bits) - 1)
    if isinstance(item, _Constant):
        return _Constant(int(item.value & mask))
    return item if bits == 64 else lambda rows: item(rows) & mask


def _conditional(tree: Conditional, long_size: int) -> NumberColumn:
    condition = _compile(tree.condition, long_size)
    yes, no = _compile(tree.yes, long_size), _compile(tree.no, long_size)
    if isinstance(condition, _Constant):
        return yes if condition.value else no
    return lambda rows: np.where(condition(rows) != 0, yes(rows), no(rows))


def _operation(tree: Operation, long_size: int) -> NumberColumn:
    compute = _OPERATORS.get(tree.operator)
    if compute is None:
        return _Constant(0)
    left = _Constant(0) if tree.left is None else _compile(tree.left, long_size)
    right = _compile(tree.right, long_size)
    if isinstance(left, _Constant) and isinstance(right, _Constant):
        return _Constant(int(compute(np.array([left.value]), np.array([right.value]))[0]))
    return lambda rows: compute(left(rows), right(rows)).astype(np.uint64, copy=False)


def _divide(left: Numbers, right: Numbers) -> Numbers:
    """Return left / right; 0 where C would trap."""
    return np.where(right == 0, 0, left // np.maximum(right, 1))


def _remainder(left: Numbers, right: Numbers) -> Numbers:
    """Return left % right; 0 where C would trap."""
    return np.where(right == 0, 0, left % np.maximum(right, 1))


# a unary operator's left side is 0
_OPERATORS: Final[dict[str, Callable[[Numbers, Numbers], NDArray[Any]]]] = {
    "|": lambda left, right: left | right,
    "&": lambda left, right: left & right,
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _remainder,
    "<<": lambda left, right: left << (right & np.uint64(63)),
    ">>": lambda left, right: left >> (right & np.uint64(63)),
    "<": lambda left, right: left < right,
    ">": lambda left, right: left > right,
    "<=": lambda left, right: left <= right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "&&": lambda left, right: (left != 0) & (right != 0),
    "||": lambda left, right: (left != 0) | (right != 0),
    "!": lambda _left, right: right == 0,
    "~": lambda _left, right: ~right,
}


def _element(tree: Element, long_size: int) -> NumberColumn:
    """Return array[index]. A cast of the array to a pointer selects the pointer's type of element."""
    array = tree.array
    pointer = ""
    while isinstance(array, Cast):
        pointer = pointer or array.type
        array = array.item
    index = _compile(tree.index, long_size)
    if isinstance(array, DynamicArray):
        value = _dynamic_element(array.field, index, long_size)
    elif isinstance(array, FieldValue) and array.field is not None and array.field.element_size in NUMBER_SIZES:
        value = _fixed_element(array.field, index)
    else:
        return _Constant(0)
    return _narrow(value, pointer[:-2].rstrip()) if pointer.endswith("*") else value


def _dynamic_element(field: TraceField, index: NumberColumn, long_size: int) -> NumberColumn:
    size = field.element_size or long_size
    # perf's library takes the index as bytes here
    return lambda rows: rows.number_at(rows.data_range(field)[0] + _clip(index(rows)), size)


def _fixed_element(field: TraceField, index: NumberColumn) -> NumberColumn:
    offset, size = field.offset, field.element_size
    if isinstance(index, _Constant):
        start = offset + min(int(index.value), int(_NEVER_INSIDE)) * size
        return lambda rows: rows.number(start, size)
    return lambda rows: rows.number_at(offset + _clip(index(rows)) * size, size)


def _clip(index: Numbers) -> NDArray[np.int64]:
    return np.minimum(index, _NEVER_INSIDE).astype(np.int64)


def _length(tree: DynamicLength, _long_size: int) -> NumberColumn:
    return lambda rows: rows.data_range(tree.field)[1].astype(np.uint64)


def _offset(tree: DynamicArray, _long_size: int) -> NumberColumn:
    return lambda rows: rows.data_range(tree.field)[0].astype(np.uint64)


_MAKERS: Final[dict[type, Callable[[Any, int], NumberColumn]]] = {
    Atom: _atom,
    FieldValue: _field,
    Cast: _cast,
    Conditional: _conditional,
    Operation: _operation,
    Element: _element,
    DynamicLength: _length,
    DynamicArray: _offset,
}
