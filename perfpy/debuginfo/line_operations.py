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

    from perfpy.debuginfo.line_header import LineHeader

EXTENDED, COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE = range(5)
CONST_ADD_PC, FIXED_ADVANCE_PC = 8, 9
SPECIAL, UNKNOWN = 13, 14
_LEB128_OPERANDS: Final = bytes((0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1))  # of operations 0 to 12
_FIXED_ADVANCE_BYTES: Final = 2

_WINDOW: Final = 1 << 16  # bytes that are looked at together ...
_MARGIN: Final = 1 << 8  # ... and how far a number may reach beyond them
_MORE: Final = 0x80  # of a byte in LEB128: others follow
_DOUBLINGS: Final = 6
_FAR: Final = 1 << 40  # beyond every program
PADDING: Final = bytes(16)  # zeros after a program, so that operands of a cut one can be read

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Uint64 = NDArray[np.uint64]


def meanings(header: LineHeader) -> Bytes:
    """What each operation is: the number of a standard one, SPECIAL or UNKNOWN."""
    table = np.full(256, UNKNOWN, np.uint8)
    table[:SPECIAL] = np.arange(SPECIAL)
    table[header.opcode_base :] = SPECIAL
    return table


def windows(code: Bytes, header: LineHeader) -> Iterator[Int64]:
    """The offset of each operation that is whole, a part of the program after the other; PADDING follows the code."""
    operands = np.zeros(256, np.int64)
    operands[1 : 1 + len(header.operands)] = np.frombuffer(header.operands, np.uint8)
    operands[:SPECIAL] = np.frombuffer(_LEB128_OPERANDS, np.uint8)
    operands[header.opcode_base :] = 0
    kinds = meanings(header)
    begin, end = 0, len(code) - len(PADDING)
    while begin < end:
        following = _following(code[begin : min(begin + _WINDOW + _MARGIN, end)], operands, kinds)
        reached = _reached(following[:_WINDOW])
        offsets = reached + begin
        begin += int(following[reached[-1]])
        yield offsets if begin <= end else offsets[:-1]


def _following(code: Bytes, operands: Int64, kinds: Bytes) -> Int64:
    """For every byte: where the next operation is, if one begins here."""
    last = code < _MORE  # of a number in LEB128
    stops = np.append(np.flatnonzero(last), _FAR)
    passed = np.cumsum(last)  # how many numbers end up to here
    count = operands[code]
    following = np.arange(1, len(code) + 1)
    some = np.flatnonzero(count)
    following[some] = stops[np.minimum(passed[some] + count[some], len(stops)) - 1] + 1
    kind = kinds[code]
    following[kind == FIXED_ADVANCE_PC] += _FIXED_ADVANCE_BYTES
    extended = np.flatnonzero(kind == EXTENDED)
    after = stops[np.minimum(passed[extended], len(stops) - 1)] + 1
    following[extended] = after + _sizes(code, extended + 1)
    return following


def _sizes(code: Bytes, offset: Int64) -> Int64:
    """Sizes of extended operations; what is too large for any is just far."""
    padded = np.concatenate((code, np.frombuffer(PADDING, np.uint8)))
    return np.minimum(unsigned(padded, offset), np.uint64(_FAR)).astype(np.int64)


def _reached(following: Int64) -> Int64:
    """The offsets that are reached from 0, in order."""
    end = len(following)
    jumps = [np.append(np.minimum(following, end), end)]
    for _ in range(_DOUBLINGS):
        jumps.append(jumps[-1].take(jumps[-1]))
    reached, offset, far = [], 0, jumps.pop()
    while offset < end:
        reached.append(offset)
        offset = int(far[offset])
    found = np.array(reached, np.int64)
    for jump in reversed(jumps):  # between each two the one that is half as many operations on
        found = np.stack((found, jump.take(found)), axis=1).ravel()
    return found[found < end]


def unsigned(code: Bytes, offset: Int64) -> Uint64:
    """The unsigned numbers in LEB128 at some offsets, modulo 2^64."""
    return _numbers(code, offset)[0]


def unsigned_with_end(code: Bytes, offset: Int64) -> tuple[Uint64, Int64]:
    """As `unsigned`, and where each ends (at its beginning where it is longer than any number)."""
    value, bits, byte = _numbers(code, offset)
    return value, offset + np.where(byte < _MORE, bits // np.uint64(7), np.uint64(0)).astype(np.int64)


def signed(code: Bytes, offset: Int64) -> Int64:
    """As `unsigned`, with a sign."""
    value, bits, byte = _numbers(code, offset)
    negative = (byte & 0x40).astype(bool) & (bits < np.uint64(64))
    value[negative] |= ~np.uint64(0) << bits[negative]
    return value.view(np.int64)


def _numbers(code: Bytes, offset: Int64) -> tuple[Uint64, Uint64, Bytes]:
    """The values, how many bits each has, and its last byte."""
    byte = code[offset]
    value = (byte & 0x7F).astype(np.uint64)
    bits = np.full(len(offset), 7, np.uint64)
    going = np.flatnonzero(byte >= _MORE)
    offset = offset[going]
    while len(going) and bits[going[0]] < 70:
        offset = np.minimum(offset + 1, len(code) - 1)
        more = code[offset]
        shift = bits[going]
        value[going] |= np.where(shift < 64, (more & 0x7F).astype(np.uint64) << np.minimum(shift, np.uint64(63)), np.uint64(0))
        bits[going] = shift + np.uint64(7)
        byte[going] = more
        on = more >= _MORE
        going, offset = going[on], offset[on]
    return value, bits, byte
