"""Expressions give for every sample what a machine that runs them for one sample would."""

from __future__ import annotations

import contextlib
import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfpy.unwind.expressions import evaluate
from tests.builders.call_frames import sleb, uleb

if TYPE_CHECKING:
    from numpy.typing import NDArray

MASK = (1 << 64) - 1


@dataclass
class Machine:
    """Samples whose register n is 1000 * n + row, and whose memory at an even address holds twice the address."""

    word: int = 8
    endian: str = "<"
    operations_left: int = 1 << 20
    asked: list[int] = field(default_factory=list)

    def register(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        self.asked.append(number)
        return np.uint64(1000 * number & MASK) + rows.astype(np.uint64)

    def load(self, rows: NDArray[np.int64], addresses: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        return addresses * np.uint64(2), addresses % np.uint64(2) == 0


def results(expression: bytes, rows: int = 2, cfa: int | None = None, **machine: object) -> list[int]:
    context = Machine(**machine)  # type: ignore[arg-type]
    start = None if cfa is None else np.full(rows, cfa, np.uint64)
    result: list[int] = evaluate(expression, context, np.arange(rows), start)[0].tolist()
    return result


def literal(number: int) -> bytes:
    return bytes([0x30 + number])


@pytest.mark.parametrize(
    ("expression", "result"),
    [
        (b"\x03" + (0x1234).to_bytes(8, "little"), 0x1234),
        (b"\x08\xfe", 0xFE),
        (b"\x09\xfe", MASK - 1),
        (b"\x0a\xfe\xff", 0xFFFE),
        (b"\x0b\xfe\xff", MASK - 1),
        (b"\x0c\xfe\xff\xff\xff", 0xFFFFFFFE),
        (b"\x0d\xfe\xff\xff\xff", MASK - 1),
        (b"\x0e" + bytes([1] * 8), 0x0101010101010101),
        (b"\x10" + uleb(300), 300),
        (b"\x11" + sleb(-300), MASK - 299),
        (literal(7) + b"\x12\x22", 14),  # dup plus
        (literal(7) + literal(9) + b"\x13", 7),  # drop
        (literal(7) + literal(9) + b"\x14", 7),  # over
        (literal(7) + literal(9) + b"\x15\x01", 7),  # pick
        (literal(7) + literal(9) + b"\x16\x1c", 2),  # swap minus
        (literal(1) + literal(2) + literal(4) + b"\x17\x1c", MASK),  # rot: 4 1 2, minus
        (literal(8) + b"\x06", 16),
        (b"\x10" + uleb(0x1234) + b"\x94\x01", 0x68),
        (literal(5) + b"\x1f\x19", 5),  # neg abs
        (literal(5) + b"\x20", MASK - 5),
        (literal(5) + b"\x23" + uleb(200), 205),
        (b"\x96" + literal(5) + b"\x9f", 5),
        (literal(3) + b"\x2f\x01\x00" + literal(9), 3),  # skip
        (b"\x92" + uleb(3) + sleb(-8), 2992),
    ],
)
def test_operations(expression, result):
    assert results(expression, rows=1) == [result]


BINARY = {
    0x1A: operator.and_, 0x1C: operator.sub, 0x1E: operator.mul, 0x21: operator.or_, 0x22: operator.add, 0x27: operator.xor,
    0x29: operator.eq, 0x2A: operator.ge, 0x2B: operator.gt, 0x2C: operator.le, 0x2D: operator.lt, 0x2E: operator.ne,
}  # fmt: skip


@given(st.sampled_from(sorted(BINARY)), st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-(1 << 63), (1 << 63) - 1))
def test_binary_operators_use_signed_numbers(code, below, top):
    assert results(b"\x11" + sleb(below) + b"\x11" + sleb(top) + bytes([code]), rows=1) == [int(BINARY[code](below, top)) & MASK]


@pytest.mark.parametrize(
    ("code", "below", "top", "result"),
    [
        (0x1B, -7, 2, MASK - 2),  # division towards zero
        (0x1B, 7, 0, 0 + 7 * 0),
        (0x1D, 7, 4, 3),
        (0x24, 1, 63, 1 << 63),
        (0x24, 1, 64, 0),
        (0x25, -1, 60, 15),
        (0x26, -16, 2, MASK - 3),
        (0x26, -16, 100, MASK),
    ],
)
def test_numbers_are_divided_and_shifted(code, below, top, result):
    assert results(b"\x11" + sleb(below) + b"\x11" + sleb(top) + bytes([code]), rows=1) == [result]


def test_the_linkage_table_expression_depends_on_the_pc():
    """rsp + 8, and 8 more from the 12th byte of an entry of 16 on."""
    expression = b"\x77\x08\x80\x00" + literal(15) + b"\x1a" + literal(11) + b"\x2a" + literal(3) + b"\x24\x22"
    assert results(expression, rows=16) == [7008 + row + (8 if (16000 + row) & 15 >= 11 else 0) for row in range(16)]


def test_samples_branch_separately():
    odd = b"\x80\x00" + literal(1) + b"\x1a\x28\x04\x00" + literal(7) + b"\x2f\x01\x00" + literal(9)
    assert results(odd, rows=4) == [7, 9, 7, 9]


def test_the_cfa_is_pushed_first_and_available_as_an_operation():
    assert results(literal(8) + b"\x1c", cfa=100) == [92, 92]
    assert results(b"\x13\x9c", cfa=100) == [100, 100]


def test_unknown_inputs_make_the_result_unknown():
    result = evaluate(b"\x70\x00\x06", Machine(), np.arange(3))[1]
    assert result.tolist() == [True, False, True]


def test_numbers_of_32_bits_wrap_around():
    assert results(literal(1) + literal(2) + b"\x1c", rows=1, word=4) == [0xFFFFFFFF]
    assert results(literal(1) + literal(2) + b"\x1c" + literal(0) + b"\x2d", rows=1, word=4) == [1]


def test_the_first_bytes_of_a_big_endian_word_are_its_upper_ones():
    assert results(b"\x0e" + (1 << 60).to_bytes(8, "big") + b"\x94\x01", rows=1, endian=">") == [0x20]


@pytest.mark.parametrize(
    "expression",
    [b"", b"\x06", b"\x22", b"\x15\x05", b"\x17", b"\xff", b"\x2f\xfd\xff", b"\x2f\x10\x00", b"\x30" * 100, b"\x30\x28\x00", b"\x9c"],
)
def test_damaged_expressions_raise(expression):
    with pytest.raises(ValueError, match=r"expression|beyond|stack"):
        results(expression)


@settings(max_examples=300)
@given(st.binary(max_size=40))
def test_any_bytes_are_run_or_refused(expression):
    with contextlib.suppress(ValueError):
        assert len(results(expression, rows=3)) == 3
