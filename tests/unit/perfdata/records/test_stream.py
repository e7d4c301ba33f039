"""Packed starts of records unpack to the same starts."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from perfpy.perfdata.records.stream import pack_starts, walk, walk_over_payloads


@pytest.mark.parametrize(
    "sizes",
    [[], [40], [40] * 1000, [40] * 500 + [8] + [40] * 500, list(range(8, 4000, 8)), [8] + [65528] * 40, [500_000] + [48] * 100],
)
@pytest.mark.parametrize("first", [0, 104])
def test_starts_come_back(sizes: list[int], first: int) -> None:
    starts = first + np.cumsum([0, *sizes])
    distances = pack_starts(starts)
    assert distances is not None
    assert distances.starts().tolist() == starts.tolist()
    assert distances.starts().dtype == np.int64


def test_records_of_one_size_take_no_memory_and_others_two_bytes_each() -> None:
    alike, varied = pack_starts(np.arange(0, 1 << 20, 40)), pack_starts(np.cumsum(np.arange(8, 40_000, 8)))
    assert alike is not None
    assert varied is not None
    assert alike.nbytes < 20
    assert varied.nbytes == 2 * (5_000 - 2)


@pytest.mark.parametrize("starts", [[0, 41], [3, 43], [0, 1 << 20]])
def test_starts_that_do_not_fit_are_not_packed(starts: list[int]) -> None:
    assert pack_starts(np.array(starts)) is None


# walk() finds the same records as following the sizes one by one, whatever the payloads look like.


@pytest.fixture(autouse=True)
def _link_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Link records after 512 bytes instead of 64 KiB."""
    monkeypatch.setattr("perfpy.perfdata.records.stream._PROBE", 64)


def followed(data: bytes, endian: str) -> tuple[list[int], int]:
    """Follow the sizes from header to header."""
    result, at = [], 0
    while at + 8 <= len(data):
        _, _, size = struct.unpack_from(endian + "IHH", data, at)
        if size < 8 or at + size > len(data):
            break
        result.append(at)
        at += size
    return result, at


def record(kind: int, body: bytes, endian: str) -> bytes:
    return struct.pack(endian + "IHH", kind, 2, 8 + len(body)) + body


USUAL = (16, 16, 24, 40, 200)


def records(
    rng: random.Random, count: int, endian: str, others: float, odd: float = 0.0, fakes: float = 2 / 3, sizes: tuple[int, ...] = USUAL
) -> bytes:
    """Build samples whose payloads look like sample headers, and other records between them.

    Args:
        others, odd: shares of records other than samples, and of sizes that are no multiples of 8.
        fakes: share of header-like payload.
    """
    parts = []
    for _ in range(count):
        size = rng.choice(sizes)
        like_headers = struct.pack(endian + "IHH", rng.choice((3, 9)), 2, rng.choice((0, 8, 16, 32, 4000))), struct.pack(endian + "Q", 9)
        words = (rng.choice(like_headers) if rng.random() < fakes else rng.randbytes(8) for _ in range(size // 8))
        body = b"".join(words)
        if rng.random() < odd:
            body += b"odd"
        parts.append(record(9 if rng.random() > others else rng.choice((1, 3, 68)), body, endian))
    return b"".join(parts)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize(("others", "odd"), [(0.0, 0.0), (0.02, 0.0), (0.5, 0.0), (1.0, 0.0), (0.02, 0.01), (0.5, 0.003)])
@pytest.mark.parametrize("fakes", [0.0, 0.002, 2 / 3])
def test_the_walk_is_that_of_following_every_size(endian: str, others: float, odd: float, fakes: float) -> None:
    rng = random.Random(f"{endian}{others}{odd}{fakes}")
    for count in (0, 1, 2, 50, 400):
        data = records(rng, count, endian, others, odd, fakes)
        for cut in (0, 1, 8, 13, 40):
            part = data[: max(0, len(data) - cut)]
            result = walk(np.frombuffer(part, np.uint8), endian)
            assert (result.starts.tolist(), result.end) == followed(part, endian)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("odd", [0.0, 0.1])
def test_large_records_are_followed_too(endian: str, odd: float) -> None:
    rng = random.Random(f"{endian}{odd}")
    data = records(rng, 60, endian, 0.2, odd, sizes=(40, 2000, 8000, 65000))
    for cut in (0, 8, 13, 40_000):
        part = data[: len(data) - cut]
        result = walk(np.frombuffer(part, np.uint8), endian)
        assert (result.starts.tolist(), result.end) == followed(part, endian)


@pytest.mark.parametrize("endian", "<>")
def test_damaged_records_are_followed_as_far_as_sizes_lead(endian: str) -> None:
    rng = random.Random(endian)
    good = records(rng, 60, endian, 0.3, fakes=0.3)
    place = struct.Struct(endian + "H")
    for _ in range(300):
        data = bytearray(good[: rng.randrange(len(good) // 2, len(good))])
        for _ in range(rng.randrange(1, 4)):
            word = rng.randrange(len(data) // 8) * 8
            place.pack_into(data, word + 6, rng.choice((0, 7, 8, 9, 24, 48, 65535)))
        if rng.random() < 0.3:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        result = walk(np.frombuffer(bytes(data), np.uint8), endian)
        starts, end = followed(bytes(data), endian)
        assert (result.starts.tolist(), result.end) == (starts, end)
        size = place.unpack_from(data, end + 6)[0] if end + 8 <= len(data) else 8
        assert result.bad_size == (size if size < 8 else None)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("size", [0, 1, 7])
def test_the_walk_ends_at_an_invalid_size_and_reports_it(endian: str, size: int) -> None:
    good = records(random.Random(1), 30, endian, 0.1)
    data = good + struct.pack(endian + "IHH", 9, 0, size) + bytes(100)
    result = walk(np.frombuffer(data, np.uint8), endian)
    assert (result.end, result.bad_size) == (len(good), size)
    assert result.starts.tolist() == followed(good, endian)[0]


@pytest.mark.parametrize("endian", "<>")
def test_data_after_an_auxtrace_record_is_skipped(endian: str) -> None:
    auxtrace = record(71, struct.pack(endian + "QQQIIII", 100, 0, 0, 0, 0, 0, 0), endian)
    sample = record(9, bytes(8), endian)
    data = sample + auxtrace + b"\1" * 100 + sample + auxtrace
    result = walk_over_payloads(np.frombuffer(data, np.uint8), endian)
    second = len(sample) + len(auxtrace) + 100
    assert result.starts.tolist() == [0, len(sample), second, second + len(sample)]
    assert result.end == len(data) + 100


@pytest.mark.parametrize("endian", "<>")
def test_tracing_data_inside_of_its_record_is_not_skipped_twice(endian: str) -> None:
    inside = record(66, struct.pack(endian + "I", 100) + bytes(100), endian)
    behind = record(66, struct.pack(endian + "I", 16), endian)
    sample = record(9, bytes(8), endian)
    data = inside + sample + behind + bytes(16) + sample
    starts = walk_over_payloads(np.frombuffer(data, np.uint8), endian).starts.tolist()
    assert starts == [0, len(inside), len(inside) + len(sample), len(data) - len(sample)]


@pytest.mark.parametrize("endian", "<>")
def test_a_buffer_may_begin_at_any_address(endian: str) -> None:
    data = records(random.Random(endian), 50, endian, 0.5)
    result = walk(np.frombuffer(b"?" + data, np.uint8)[1:], endian)
    assert (result.starts.tolist(), result.end) == followed(data, endian)
