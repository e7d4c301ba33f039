"""Fold constants in print formats, as perf's library does when it parses."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from perfpy.perfdata.tracepoints.print_tree import Atom, Cast, Operation

if TYPE_CHECKING:
    from perfpy.perfdata.tracepoints.print_tree import Expression


_ALL: Final = (1 << 64) - 1
_MOST_DIGITS: Final = 40  # with leading zeros; more digits exceed 64 bits


def number(text: str) -> int:
    """Return the number at the start of an atom, as strtoull(text, 0) reads it; 0 without digits."""
    match = re.match(r"\s*([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if match is None:
        return 0
    digits = match[2]
    if len(digits) > _MOST_DIGITS:
        return -_ALL if match[1] == "-" else _ALL
    value = int(digits, 8) if digits[0] == "0" and digits.isdigit() else int(digits, 0)
    return -value if match[1] == "-" else value


def constant(tree: Expression) -> int | None:
    """Return the value of an expression without fields; None for any other."""
    if isinstance(tree, Atom):
        return number(tree.text)
    if isinstance(tree, Cast):
        return constant(tree.item)
    if not isinstance(tree, Operation):
        return None
    left = 0 if tree.left is None else constant(tree.left)
    right = constant(tree.right)
    if left is None or right is None:
        return None
    return _calculate(tree.operator, left, right)


def _calculate(operator: str, left: int, right: int) -> int | None:
    value = _result(operator, left, right)
    return value if value is None or -_ALL <= value <= _ALL else value & _ALL


def _result(operator: str, left: int, right: int) -> int | None:
    simple = {
        "|": left | right, "&": left & right, "^": left ^ right, "+": left + right, "-": left - right, "*": left * right, "~": ~right,
        "<": int(left < right), ">": int(left > right), "<=": int(left <= right), ">=": int(left >= right), "==": int(left == right),
        "!=": int(left != right), "&&": int(bool(left and right)), "||": int(bool(left or right)),
    }  # fmt: skip
    if operator in ("<<", ">>"):
        return left << (right & 63) if operator == "<<" else left >> (right & 63)
    if operator in ("/", "%"):
        return (left // right if operator == "/" else left % right) if right else None
    return simple.get(operator)


def fold(tree: Expression) -> Expression:
    """Replace an operation on two atoms by its value."""
    if not isinstance(tree, Operation) or tree.left is None:
        return tree
    left, right = fold(tree.left), fold(tree.right)
    if isinstance(left, Atom) and isinstance(right, Atom):
        value = _calculate(tree.operator, number(left.text), number(right.text))
        if value is not None:
            return Atom(str(value))
    return replace(tree, left=left, right=right)
