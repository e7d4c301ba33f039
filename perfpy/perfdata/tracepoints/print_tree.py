"""The expressions in the arguments of a tracepoint's print format.

perfdata.tracepoints.print_format builds the trees; views.tracepoints.printer
and views.tracepoints.number_columns evaluate them over many samples at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from perfpy.perfdata.tracepoints.event_format import TraceField


@dataclass(frozen=True, slots=True)
class Atom:
    """A number, a name, or the text of a string literal, escapes as written."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldValue:
    """REC->name; field is None if the format has no such field."""

    name: str
    field: TraceField | None


@dataclass(frozen=True, slots=True)
class Cast:
    """(type)item"""

    type: str
    item: Expression


@dataclass(frozen=True, slots=True)
class Operation:
    """left operator right; left is None for a unary operator."""

    operator: str
    left: Expression | None
    right: Expression
    priority: int


@dataclass(frozen=True, slots=True)
class Conditional:
    """condition ? yes : no"""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Element:
    """array[index]"""

    array: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Flags:
    """__print_flags(value, delimiter, { mask, name } ...)"""

    value: Expression
    delimiter: str
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Symbolic:
    """__print_symbolic(value, { value, name } ...)"""

    value: Expression
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HexBytes:
    """__print_hex(array, size), or without blanks __print_hex_str(array, size)"""

    array: Expression
    size: Expression
    delimiter: str


@dataclass(frozen=True, slots=True)
class NumberArray:
    """__print_array(array, count, element size)"""

    array: Expression
    count: Expression
    element_size: Expression


@dataclass(frozen=True, slots=True)
class DynamicText:
    """__get_str(name); by kind, a bitmask or a cpumask."""

    name: str
    field: TraceField | None
    kind: str


@dataclass(frozen=True, slots=True)
class DynamicArray:
    """__get_dynamic_array(name), __get_sockaddr(name)"""

    field: TraceField


@dataclass(frozen=True, slots=True)
class DynamicLength:
    """__get_dynamic_array_len(name)"""

    field: TraceField


Expression: TypeAlias = (
    Atom
    | FieldValue
    | Cast
    | Operation
    | Conditional
    | Element
    | Flags
    | Symbolic
    | HexBytes
    | NumberArray
    | DynamicText
    | DynamicArray
    | DynamicLength
)


def levels(tree: Expression) -> int:
    """Return the depth of an expression: 1 for one without parts.

    >>> levels(Cast("u8", Atom("1")))
    2
    """
    deepest = 0
    pending = [(tree, 1)]
    while pending:
        part, depth = pending.pop()
        deepest = max(deepest, depth)
        values = (getattr(part, name) for name in part.__slots__)
        pending += [(value, depth + 1) for value in values if isinstance(value, Expression)]
    return deepest
