"""Error numbers of system calls: names and texts, as of all machines but alpha, mips, parisc and sparc.

errors.tsv has the number, the name of include/uapi/asm-generic/errno.h and the text of strerror(3) in the C locale.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from perfpy.abi.system_calls.tables import read_rows


class ErrorName(NamedTuple):
    """The name and the text of an error number."""

    name: str
    text: str


@cache
def _table() -> dict[int, ErrorName]:
    return {int(number): ErrorName(name, text) for number, name, text in read_rows("errors.tsv")}


def error_name(number: int) -> ErrorName:
    """Return the name and the text of an error number; the name of an unknown one is its number."""
    return _table().get(number) or ErrorName(str(number), f"Unknown error {number}")
