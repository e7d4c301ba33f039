"""One sample is kept of the several that a hit of a tracepoint may have: that with a stack if there is one."""

from __future__ import annotations

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import NATIVE_ENDIAN, PerfType, SampleType
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.abi.sample_encoding import encode_sample
from perfpy.capture.unwinding.chosen_tasks import RepeatedHits, _Hits, repeated_hits
from perfpy.capture.unwinding.serving import chunk_of

STACK, PLAIN = "T", "S"


def kept(text: str, *, carried: int = 0) -> str:
    """Return which samples stay, as "." for dropped ones. text has words of kind, CPU, hit and time, the first ones of an earlier piece."""
    words = text.split()
    number = np.arange(len(words)) - carried
    hits = _Hits(
        np.where(number < 0, -1, number),
        np.array([int(word[1]) for word in words]),
        np.array([int(word[3:]) for word in words]),
        np.array([word[0] == STACK for word in words]),
        np.array([[ord(word[2])] for word in words], np.uint8),
    )
    dropped = repeated_hits(hits)
    return " ".join("." if drop else word for word, drop in list(zip(words, dropped, strict=True))[carried:])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ("S0a1 S0b2 S0a3", "S0a1 S0b2 S0a3"),
        ("T0a1 S0a2 S0b3", "T0a1 . S0b3"),
        ("T0a1 T0a2 S0a3 S0b4", "T0a1 . . S0b4"),
        ("S0a1 T0a2", ". T0a2"),
        ("T0a1 S1a1", "T0a1 S1a1"),  # of two CPUs
        ("T0a1 T0b2", "T0a1 T0b2"),  # those without a stack were lost
        ("T0a1 T0a2", "T0a1 ."),
        ("T0a10 S0a11 T0a12 T0a50 S0a51 T0a52", "T0a10 . . T0a50 . ."),  # the same wakeup twice
        ("S0a10 T0a11 S0a50", ". T0a11 S0a50"),
        ("S0a10 T0a49 S0a50", "S0a10 T0a49 ."),
    ],
)
def test_each_hit_keeps_one_sample(samples, expected):
    assert kept(samples) == expected


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ("T0a1 S0a2 S0b3", ". S0b3"),
        ("S0a1 T0a2 S0b3", ". S0b3"),
        ("T0a1 T0a2 S0a3", ". ."),
        ("S0b1 S0a2", "S0a2"),
    ],
)
def test_a_hit_may_begin_in_the_piece_before(samples, expected):
    assert kept(samples, carried=1) == expected


def attr(*, has_stack: bool) -> EventAttr:
    kind = SampleType.IDENTIFIER | SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.RAW
    stack = SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER if has_stack else 0
    return EventAttr(
        type=PerfType.TRACEPOINT,
        config=370,
        sample_type=int(kind | stack),
        sample_regs_user=3 * has_stack,
        sample_stack_user=64 * has_stack,
    )


ATTRS = [attr(has_stack=True), attr(has_stack=False)]


def sample(number: int, raw: bytes, time: int, cpu: int = 0) -> bytes:
    fields = {"identifier": number, "ip": 1, "pid": 5, "tid": 6, "time": time, "cpu": cpu, "raw": raw}
    if number == 0:
        fields |= {"callchain": [1], "user_regs": [7, 8], "user_stack": b"s" * 64}
    return encode_sample(ATTRS[number], fields, NATIVE_ENDIAN)


def test_pieces_are_decoded():
    one = RepeatedHits(ATTRS)
    layouts = [SampleLayout(each, NATIVE_ENDIAN) for each in ATTRS]

    def dropped(*samples: tuple[int, bytes, int]) -> list[bool]:
        chunk = chunk_of(np.frombuffer(b"".join(sample(*each) for each in samples), np.uint8))
        events = np.array([each[0] for each in samples], np.int32)
        times = np.array([each[2] for each in samples], np.uint64)
        return [bool(each) for each in one.are_repeated(chunk, events, times, layouts)]

    assert dropped((1, b"a" * 12, 1), (0, b"b" * 12, 2), (1, b"b" * 12, 3), (0, b"c" * 12, 4)) == [False, False, True, False]
    assert dropped((1, b"c" * 12, 5), (1, b"a" * 12, 6)) == [True, False]
    assert dropped() == []
    assert (
        RepeatedHits(ATTRS[:1]).are_repeated(chunk_of(np.zeros(0, np.uint8)), np.zeros(0, np.int32), np.zeros(0, np.uint64), []).size == 0
    )
