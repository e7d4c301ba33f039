"""The ring's arithmetic on fake memory: head, tail, wrap, and the backward mode."""

from __future__ import annotations

import struct

import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import SampleType
from perfpy.abi.ring_records import RingSample
from perfpy.errors import UsageError
from perfpy.kernel.ring import AuxArea, Ring, capability

PAGE = 4096
HEAD, TAIL = 1024, 1032


def memory(data_size: int = PAGE) -> bytearray:
    return bytearray(PAGE + data_size)


def record(size: int, fill: int) -> bytes:
    return struct.pack("=IHH", 9, 0, size) + bytes([fill]) * (size - 8)


def set_head(buffer: bytearray, value: int, at: int = HEAD) -> None:
    struct.pack_into("=Q", buffer, at, value)


def tail(buffer: bytearray, at: int = TAIL) -> int:
    return int(struct.unpack_from("=Q", buffer, at)[0])


def joined(slices: tuple[memoryview, ...]) -> bytes:
    return b"".join(slices)


def test_empty_ring_hands_out_nothing() -> None:
    assert Ring(memory(), page_size=PAGE).pending() == ()


def test_records_are_one_slice_of_the_ring_itself() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    buffer[PAGE : PAGE + 16] = record(16, 1)
    set_head(buffer, 16)
    (piece,) = ring.pending()
    assert bytes(piece) == record(16, 1)
    buffer[PAGE + 8] = 77
    assert piece[8] == 77


def test_wrapped_records_are_two_slices() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    start = 5 * PAGE - 24
    struct.pack_into("=Q", buffer, TAIL, start)
    data = record(40, 3)
    buffer[2 * PAGE - 24 :] = data[:24]
    buffer[PAGE : PAGE + 16] = data[24:]
    set_head(buffer, start + 40)
    pieces = ring.pending()
    assert [len(piece) for piece in pieces] == [24, 16]
    assert joined(pieces) == data


def test_records_up_to_the_very_end_are_one_slice() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    struct.pack_into("=Q", buffer, TAIL, PAGE - 32)
    set_head(buffer, PAGE)
    assert [len(piece) for piece in ring.pending()] == [32]


def test_full_ring_is_handed_out_whole() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    struct.pack_into("=Q", buffer, TAIL, 64)
    set_head(buffer, PAGE + 64)
    assert [len(piece) for piece in ring.pending()] == [PAGE - 64, 64]


def test_consume_returns_only_bytes_that_were_read() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    set_head(buffer, 48)
    ring.pending()
    set_head(buffer, 96)  # written after pending()
    ring.consume()
    assert tail(buffer) == 48
    assert sum(len(piece) for piece in ring.pending()) == 48


def test_backward_ring_reads_from_the_newest_to_the_oldest_whole_record() -> None:
    buffer = memory()
    ring = Ring(buffer, backward=True, page_size=PAGE)
    head = (1 << 64) - 40
    buffer[2 * PAGE - 40 : 2 * PAGE - 24] = record(16, 2)
    buffer[2 * PAGE - 24 :] = record(24, 1)
    set_head(buffer, head)
    assert joined(ring.pending()) == record(16, 2) + record(24, 1)
    assert ring.pending() == ()


def test_backward_ring_never_writes_its_tail() -> None:
    buffer = memory()
    ring = Ring(buffer, backward=True, page_size=PAGE)
    buffer[2 * PAGE - 16 :] = record(16, 1)
    set_head(buffer, (1 << 64) - 16)
    ring.pending()
    ring.consume()
    assert tail(buffer) == 0


def test_backward_ring_that_was_run_over_omits_the_torn_record() -> None:
    buffer = memory()
    ring = Ring(buffer, backward=True, page_size=PAGE)
    size = 1000  # four whole records and 96 bytes of a fifth fit
    for i in range(4):
        buffer[PAGE + i * size : PAGE + (i + 1) * size] = record(size, i)
    buffer[PAGE + 4 * size :] = record(size, 9)[:96]
    set_head(buffer, (1 << 64) - 20 * PAGE)
    data = joined(ring.pending())
    assert data == b"".join(record(size, i) for i in range(4))


def test_size_that_is_no_power_of_two_is_refused() -> None:
    with pytest.raises(ValueError, match="power of two"):
        Ring(memory(3 * PAGE), page_size=PAGE)


def test_clock_is_read_from_the_control_page() -> None:
    buffer = memory()
    struct.pack_into("=Q", buffer, 40, 1 << 4)
    struct.pack_into("=HIQQ", buffer, 50, 31, 1234, 0, 99)
    struct.pack_into("=QQ", buffer, 80, 7, 8)
    clock = Ring(buffer, page_size=PAGE).clock()
    assert clock == (31, 1234, 99, 7, 8, True, False)


def test_aux_area_wraps_like_the_ring() -> None:
    buffer = memory()
    area = AuxArea(Ring(buffer, page_size=PAGE), bytearray(range(64)))
    struct.pack_into("=QQ", buffer, 1056, 80, 48)
    pieces = area.pending()
    assert joined(pieces) == bytes(range(48, 64)) + bytes(range(16))
    area.consume()
    assert tail(buffer, 1064) == 80


@pytest.mark.parametrize(("order", "bit"), [("little", 1 << 4), ("big", 1 << 59)])
def test_capabilities_are_counted_from_where_the_compiler_begins(order, bit, monkeypatch):
    monkeypatch.setattr("sys.byteorder", order)
    assert capability(4) == bit


def test_iterating_consumes_the_records() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    ring.set_writers(lambda: {1: EventAttr(sample_type=SampleType.IP)})
    for number in range(3):
        buffer[PAGE + number * 16 : PAGE + number * 16 + 16] = struct.pack("=IHHQ", 9, 2, 16, number)
    set_head(buffer, 48)
    for sample in ring:
        assert isinstance(sample, RingSample)
        assert sample.ip == 0
        break
    assert tail(buffer) == 48
    assert [sample.ip for sample in ring if isinstance(sample, RingSample)] == [1, 2]  # the loop that was left had one
    assert list(ring) == []


def test_a_ring_of_unknown_writers_hands_out_bytes_alone() -> None:
    buffer = memory()
    ring = Ring(buffer, page_size=PAGE)
    assert list(ring) == []
    set_head(buffer, 16)
    with pytest.raises(UsageError, match=r"Counter\.ring"):
        list(ring)


def test_a_backward_ring_has_no_aux_area() -> None:
    with pytest.raises(UsageError, match="backward"):
        AuxArea.map(-1, Ring(memory(), page_size=PAGE, backward=True), 1)
