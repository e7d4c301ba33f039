"""read() buffers: every read_format decodes to what was encoded; multiplexed counts are scaled."""

import itertools

import pytest

from perfpy.abi.flags import ReadFormat
from perfpy.abi.readings import Reading, UserReading, decode_read, encode_read, read_size

BITS = (ReadFormat.TOTAL_TIME_ENABLED, ReadFormat.TOTAL_TIME_RUNNING, ReadFormat.ID, ReadFormat.LOST)
FORMATS = [sum(combo) for n in range(5) for combo in itertools.combinations(BITS, n)]


def reading(read_format: int, value: int) -> Reading:
    return Reading(value, *(10 * i + value if read_format & bit else None for i, bit in enumerate(BITS, 1)))


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("read_format", FORMATS)
def test_a_single_reading_survives_a_round_trip(read_format: int, endian: str) -> None:
    one = [reading(read_format, 5)]
    data = encode_read(one, read_format, endian)
    assert len(data) == read_size(read_format)
    assert decode_read(data, read_format, endian) == one


@pytest.mark.parametrize("read_format", FORMATS)
def test_a_group_survives_a_round_trip(read_format: int) -> None:
    read_format |= ReadFormat.GROUP
    first = reading(read_format, 5)
    others = [reading(read_format, value) for value in (6, 7)]
    group = [first, *(Reading(other.value, first.enabled, first.running, other.id, other.lost) for other in others)]
    data = encode_read(group, read_format)
    assert len(data) == read_size(read_format, 3)
    assert decode_read(data, read_format) == group


@pytest.mark.parametrize("read_format", [*FORMATS, *(f | ReadFormat.GROUP for f in FORMATS)])
def test_a_short_buffer_is_refused(read_format: int) -> None:
    data = encode_read([reading(read_format, 1)], read_format)
    for length in range(0, len(data), 8):
        with pytest.raises(ValueError, match="bytes"):
            decode_read(data[:length], read_format)


def test_a_multiplexed_count_is_scaled_to_its_enabled_time() -> None:
    assert Reading(100, enabled=1000, running=250).scaled == 400
    assert Reading(100, enabled=1000, running=250).share == 0.25
    assert Reading(100, enabled=1000, running=1000).scaled == 100
    assert Reading(0, enabled=1000, running=0).scaled == 0
    assert Reading(0, enabled=1000, running=0).share == 0
    assert Reading(7).scaled == 7


def test_a_reading_from_the_page_has_no_reason_and_one_of_read_has() -> None:
    assert (UserReading(5, 2, 1).why_read, UserReading(5, 2, 1).from_page, UserReading(5, 2, 1).scaled) == ("", True, 10)
    for reading in (Reading(5, 2, 1), Reading(5, 2, 1, 7, 3)):
        read_by_syscall = UserReading.of_read(reading, "no register")
        assert (read_by_syscall.why_read, read_by_syscall.from_page) == ("no register", False)
        assert (read_by_syscall.value, read_by_syscall.running, read_by_syscall.id, read_by_syscall.lost) == (
            5,
            1,
            reading.id,
            reading.lost,
        )
        assert "why_read='no register'" in repr(read_by_syscall)
