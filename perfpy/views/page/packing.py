"""Columns of numbers as compressed base64, which unpack.js turns into typed arrays again.

A column of equal numbers is {n, all}. Others are {n, bytes, z}: `bytes` planes, one for each byte of the numbers, the lowest first. Planes
compress better than whole numbers. With `delta` the numbers are differences to those before. 8 bytes are doubles.
"""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.untrusted.page import Base64

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WIDEST: Final = 1 << 32
_EFFORT: Final = 4  # a third of the time of zlib's default, for files 3 % larger
_PIECES: Final = 8
_PIECE: Final = 1 << 12  # bytes


def packed(values: NDArray[Any], *, ascending: bool = False) -> dict[str, Any]:
    """Pack a column of nonnegative numbers; ascending: no number is less than the one before it."""
    rows = len(values)
    if not rows or (values == values[0]).all():
        return {"n": rows, "all": values[0].item() if rows else 0}
    if values.dtype.kind == "f" or int(values.max()) >= _WIDEST:
        return {"n": rows, "bytes": 8, "z": _deflated(values.astype("<f8").tobytes())}
    numbers = _differences(values) if ascending else values.astype("<u4")
    width = max(1, (int(numbers.max()).bit_length() + 7) // 8)
    column = {"n": rows, "bytes": width, "z": _deflated(numbers.view(np.uint8).reshape(rows, 4)[:, :width].T.tobytes())}
    return {**column, "delta": 1} if ascending else column


def _differences(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Return the differences of numbers below 1 << 32 to those before, without columns of 64 bits."""
    differences = np.empty(len(values), "<u4")
    differences[0] = values[0]
    np.subtract(values[1:], values[:-1], out=differences[1:], casting="unsafe")
    return differences


def _deflated(data: bytes) -> Base64:
    packer = zlib.compressobj(_EFFORT, strategy=_strategy(data))
    return Base64(base64.b64encode(packer.compress(data) + packer.flush()).decode("ascii"))


def _strategy(data: bytes) -> int:
    """Return how to compress bytes, by pieces of long ones: samples of many threads in turns have no repetitions worth a search."""
    if len(data) < _PIECES * _PIECE * 2:
        return zlib.Z_DEFAULT_STRATEGY
    pieces = [data[begin : begin + _PIECE] for begin in range(0, len(data) - _PIECE, len(data) // _PIECES)]
    sizes = {}
    for strategy in (zlib.Z_HUFFMAN_ONLY, zlib.Z_DEFAULT_STRATEGY):  # of equal sizes the quicker one
        packers = [zlib.compressobj(_EFFORT, strategy=strategy) for _ in pieces]
        sizes[strategy] = sum(len(packer.compress(piece) + packer.flush()) for packer, piece in zip(packers, pieces, strict=True))
    return min(sizes, key=lambda strategy: sizes[strategy])
