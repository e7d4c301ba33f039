"""Ranges of addresses: `-S 0xADDRESS` and `--addr-range`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

_HIGHEST: Final = (1 << 64) - 1


class AddressRanges(NamedTuple):
    """Ranges as (first, last) pairs."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, words: Iterable[str], length: int) -> AddressRanges | None:
        """Return the ranges of `length` bytes beyond each hexadecimal number; None if no word is one.

        >>> AddressRanges.of(["main", "0x10"], 15)
        AddressRanges(ranges=((16, 31),))
        """
        starts = [start for start in map(_address, words) if start is not None]
        return cls(tuple((start, min(start + length, _HIGHEST)) for start in starts)) if starts else None

    def mask(self, addresses: NDArray[Any]) -> NDArray[Any]:
        """Return a mask of the addresses inside of the ranges."""
        import numpy as np

        inside = np.zeros(len(addresses), bool)
        for first, last in self.ranges:
            if first <= last:
                inside |= (addresses >= np.uint64(first)) & (addresses <= np.uint64(last))
        return inside


def _address(word: str) -> int | None:
    if not word.startswith("0x"):
        return None
    try:
        address = int(word, 16)
    except ValueError:
        return None
    return address if address <= _HIGHEST else None
