"""Pack columns of numbers for the page's scripts (unpack.js). A column is one of:

    {"n": rows, "all": value}     every row has this value
    {"n": rows, "bytes": 1 to 4, "z": ...} unsigned numbers: the lowest byte of each row, then the next one of each ...
    {..., "delta": 1}       the same for the differences of adjacent rows
    {"n": rows, "bytes": 8, "z": ...}   doubles

z is base64 of deflated bytes. Bytes of one significance are adjacent, because they are more similar than those of one number.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDEST: Final = 1 << 32


def packed(values: NDArray[Any], *, ascending: bool = False) -> dict[str, Any]:
    """Pack a column of nonnegative numbers; ascending: no number is less than the one before it."""
    rows = len(values)
    if not rows or (values == values[0]).all():
        return {"n": rows, "all": values[0].item() if rows else 0}
    if values.dtype.kind == "f" or int(values.max()) >= _WIDEST:
        return {"n": rows, "bytes": 8, "z": _deflated(values.astype("<f8").tobytes())}
    numbers = np.diff(values, prepend=values[:1] * 0) if ascending else values
    width = max(1, (int(numbers.max()).bit_length() + 7) // 8)
    planes = numbers.astype("<u4").view(np.uint8).reshape(rows, 4)[:, :width].T
    column = {"n": rows, "bytes": width, "z": _deflated(planes.tobytes())}
    return {**column, "delta": 1} if ascending else column


def _deflated(data: bytes) -> str:
    return base64.b64encode(zlib.compress(data, 6)).decode("ascii")
