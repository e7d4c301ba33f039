"""Numbers in the byte order of the recorded machine, "<" or ">" as in struct."""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final, Literal


ORDERS: Final[dict[str, Literal["little", "big"]]] = {"<": "little", ">": "big"}


def as_number(data: bytes, endian: str) -> int:
    """Return all of `data` as one unsigned number.

    >>> as_number(bytes((1, 0)), "<"), as_number(bytes((1, 0)), ">")
    (1, 256)
    """
    return int.from_bytes(data, ORDERS[endian])
