"""Columns of fixed width, and lines joined from them."""

from __future__ import annotations

import numpy as np

from perfpy.views.sched.columns import duration_piece, milliseconds
from perfpy.views.script.pieces import Coded, Joiner, Piece, text_of


def test_durations_of_a_million_milliseconds_and_more_are_wider() -> None:
    durations = [0, 999, 1_234_567, 99_999_999, 100_000_000, 1_000_000_000, 999_999_999_999]
    for values in (durations, [*durations, 10**12]):
        piece = duration_piece(np.array(values, np.int64))
        assert list(piece) == [milliseconds(value, 6).encode() for value in values]


def test_lines_of_equal_width_are_joined_like_others() -> None:
    codes = np.array([1, 0, 1])
    for texts in ([b"ab", b"cd"], [b"ab", b"longer"], [b"a\0", b"b\0"]):
        pieces: list[Piece] = [np.array([b"12", b"34", b"56"]), b" ", Coded(codes, texts), b"\n"]
        assert text_of(pieces, 3) == b"".join(Joiner().join(pieces, 3).parts)
    assert text_of([b""], 0) == b""
