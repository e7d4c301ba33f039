"""Numbers in the byte order of the recorded machine.

What enters: bytes, and "<" or ">" as struct has it. What leaves: a as_number.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final, Literal


ORDERS: Final[dict[str, Literal["little", "big"]]] = {"<": "little", ">": "big"}


def as_number(data: bytes, endian: str) -> int:
    """The unsigned number that all of `data` makes.

    >>> as_number(bytes((1, 0)), "<"), as_number(bytes((1, 0)), ">")
    (1, 256)
    """
    return int.from_bytes(data, ORDERS[endian])
