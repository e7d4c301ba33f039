"""Names of values and bits in arguments of system calls.

constants.tsv has a row for each name: kind, form, value, name. Forms:

    value     the argument is one of these numbers
    bit       the argument is an OR of these bits, printed in the order of the rows
    zero      the name of 0 among bits
    option    how the kind is printed: "always" (0, too), "hex" (other numbers), "array" (bits without a name as perf's arrays print them)
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from perfpy.abi.system_calls.tables import read_rows


class Constants(NamedTuple):
    """The names of one kind.

    Attributes:
        values: number -> name, if the argument is one of these numbers.
        bits: (mask, name), in the order in which they are printed.
        zero: the text of 0 among bits, "" for none.
        is_always_shown: whether 0 is printed, too.
        is_hex: whether numbers without a name are hexadecimal.
        is_array: whether bits without a name are printed as perf's arrays of names print them.
    """

    values: dict[int, str]
    bits: tuple[tuple[int, str], ...]
    zero: str
    is_always_shown: bool
    is_hex: bool
    is_array: bool


@cache
def _table() -> dict[str, Constants]:
    rows: dict[str, list[tuple[str, int, str]]] = {}
    for kind, form, number, name in read_rows("constants.tsv"):
        rows.setdefault(kind, []).append((form, int(number, 0), name))
    return {kind: _constants(own) for kind, own in rows.items()}


def _constants(rows: list[tuple[str, int, str]]) -> Constants:
    return Constants(
        {number: name for form, number, name in rows if form == "value"},
        tuple((number, name) for form, number, name in rows if form == "bit"),
        next((name for form, _, name in rows if form == "zero"), ""),
        *(any(form == "option" and name == option for form, _, name in rows) for option in ("always", "hex", "array")),
    )


def constants_of(kind: str) -> Constants | None:
    """Return the names of a kind; None if the table does not have it."""
    return _table().get(kind)
