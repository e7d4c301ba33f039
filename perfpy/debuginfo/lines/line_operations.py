"""Find where the operations of a line program begin, and read their numbers, for a whole program at once.

Operations vary in length, so that each start depends on the one before. All candidates are computed together: for every byte, the start of
the next operation if one begins there; from that the second next, fourth next, up to the 64th. A loop visits every 64th actual start, and
the tables give the others. That takes a fraction of the time of a loop over all operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.lines.line_header import LineHeader

EXTENDED, COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE = range(5)
NEGATE_STATEMENT = 6
CONST_ADD_PC, FIXED_ADVANCE_PC = 8, 9
SPECIAL, UNKNOWN = 13, 14
_LEB128_OPERANDS: Final = bytes((0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1))  # operand counts of operations 0 to 12
_FIXED_ADVANCE_BYTES: Final = 2

_WINDOW: Final = 1 << 16  # bytes that are processed together
_MARGIN: Final = 1 << 8  # how far an operation may reach beyond the window
_MORE: Final = 0x80  # the continuation bit of LEB128 bytes
_DOUBLINGS: Final = 6
_FAR: Final = 1 << 40  # beyond every program
PADDING: Final = bytes(16)  # zeros after a program, so that the operands of a truncated one can be read

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Uint64 = NDArray[np.uint64]


def meanings(header: LineHeader) -> Bytes:
    """Return the kind of each first byte: the number of a standard operation, SPECIAL or UNKNOWN."""
    table = np.full(256, UNKNOWN, np.uint8)
    table[:SPECIAL] = np.arange(SPECIAL)
    table[header.opcode_base :] = SPECIAL
    return table


def windows(code: Bytes, header: LineHeader) -> Iterator[Int64]:
    """Yield the offsets of complete operations, window by window. The code must end with PADDING."""
    operands = np.zeros(256, np.int64)
    operands[1 : 1 + len(header.operands)] = np.frombuffer(header.operands, np.uint8)
    operands[:SPECIAL] = np.frombuffer(_LEB128_OPERANDS, np.uint8)
    operands[header.opcode_base :] = 0
    kinds = meanings(header)
    begin, end = 0, len(code) - len(PADDING)
    while begin < end:
        following = _following(code[begin : min(begin + _WINDOW + _MARGIN, end)], operands, kinds)
        reached = _find_reached(following[:_WINDOW])
        offsets = reached + begin
        begin += int(following[reached[-1]])
        yield offsets if begin <= end else offsets[:-1]


def _following(code: Bytes, operands: Int64, kinds: Bytes) -> Int64:
    """Return for every byte the offset of the next operation, as if one began at this byte."""
    last = code < _MORE  # the last bytes of LEB128 numbers
    stops = np.append(np.flatnonzero(last), _FAR)
    passed = np.cumsum(last)  # how many numbers end up to each byte
    count = operands[code]
    following = np.arange(1, len(code) + 1)
    with_operands = np.flatnonzero(count)
    following[with_operands] = stops[np.minimum(passed[with_operands] + count[with_operands], len(stops)) - 1] + 1
    kind = kinds[code]
    following[kind == FIXED_ADVANCE_PC] += _FIXED_ADVANCE_BYTES
    extended = np.flatnonzero(kind == EXTENDED)
    after = stops[np.minimum(passed[extended], len(stops) - 1)] + 1
    following[extended] = after + _sizes(code, extended + 1)
    return following


def _sizes(code: Bytes, offset: Int64) -> Int64:
    """Return the sizes of extended operations, at most _FAR."""
    padded = np.concatenate((code, np.frombuffer(PADDING, np.uint8)))
    return np.minimum(unsigned_numbers(padded, offset), np.uint64(_FAR)).astype(np.int64)


def _find_reached(following: Int64) -> Int64:
    """Return the offsets that are reached from 0, ascending."""
    end = len(following)
    jumps = [np.append(np.minimum(following, end), end)]
    for _ in range(_DOUBLINGS):
        jumps.append(jumps[-1].take(jumps[-1]))
    reached, offset, far = [], 0, jumps.pop()
    while offset < end:
        reached.append(offset)
        offset = int(far[offset])
    offsets = np.array(reached, np.int64)
    for jump in reversed(jumps):  # insert between each two offsets the one half as many operations on
        offsets = np.stack((offsets, jump.take(offsets)), axis=1).ravel()
    return offsets[offsets < end]


def unsigned_numbers(code: Bytes, offset: Int64) -> Uint64:
    """Return the unsigned LEB128 numbers at offsets, modulo 2^64."""
    return _numbers(code, offset)[0]


def unsigned_with_end(code: Bytes, offset: Int64) -> tuple[Uint64, Int64]:
    """Return the unsigned numbers and the offset after each one (its start if the number is too long)."""
    value, bits, byte = _numbers(code, offset)
    return value, offset + np.where(byte < _MORE, bits // np.uint64(7), np.uint64(0)).astype(np.int64)


def signed_numbers(code: Bytes, offset: Int64) -> Int64:
    """Return the signed LEB128 numbers at offsets."""
    value, bits, byte = _numbers(code, offset)
    negative = (byte & 0x40).astype(bool) & (bits < np.uint64(64))
    value[negative] |= ~np.uint64(0) << bits[negative]
    return value.view(np.int64)


def _numbers(code: Bytes, offset: Int64) -> tuple[Uint64, Uint64, Bytes]:
    """Return the values, the bits of each, and its last byte."""
    byte = code[offset]
    value = (byte & 0x7F).astype(np.uint64)
    bits = np.full(len(offset), 7, np.uint64)
    unfinished = np.flatnonzero(byte >= _MORE)
    offset = offset[unfinished]
    while len(unfinished) and bits[unfinished[0]] < 70:
        offset = np.minimum(offset + 1, len(code) - 1)
        next_byte = code[offset]
        shift = bits[unfinished]
        value[unfinished] |= np.where(shift < 64, (next_byte & 0x7F).astype(np.uint64) << np.minimum(shift, np.uint64(63)), np.uint64(0))
        bits[unfinished] = shift + np.uint64(7)
        byte[unfinished] = next_byte
        is_continued = next_byte >= _MORE
        unfinished, offset = unfinished[is_continued], offset[is_continued]
    return value, bits, byte
