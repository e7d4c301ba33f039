"""perf_event_attr: every field and bit survives the way to bytes and back, in both byte orders and every ABI size."""

from __future__ import annotations

import itertools

import pytest

from perfpy.abi import flags
from perfpy.abi.attr import (
    FIELDS,
    FLAG_BITS,
    EventAttr,
    Reading,
    UserReading,
    are_sampled_each_time,
    decode_read,
    encode_read,
    is_sampled_each_time,
    option_for_fewer,
    read_size,
)
from perfpy.abi.flags import HardwareId, PerfType, ReadFormat, SampleType, SoftwareId

SIZES = sorted(value for name, value in vars(flags).items() if name.startswith("ATTR_SIZE_"))
WIDTH = {"I": 32, "Q": 64, "i": 31, "H": 16}


def full() -> EventAttr:
    """An attr whose every field and bit differs from 0 and from its neighbours."""
    attr = EventAttr()
    for i, (name, _, code) in enumerate(FIELDS, 1):
        if name != "size":
            setattr(attr, name, (0x0123456789ABCDEF * i) % (1 << WIDTH[code]))
    for i, (name, width) in enumerate(FLAG_BITS):
        setattr(attr, name, (i % 3 != 0) if width == 1 else 2)
    return attr


@pytest.mark.parametrize("endian", "<>")
def test_every_field_survives_a_round_trip(endian: str) -> None:
    attr = full()
    assert EventAttr.unpack(attr.pack(endian, flags.ATTR_SIZE_VER9), endian) == attr


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("size", SIZES)
def test_a_shorter_struct_keeps_the_fields_that_its_abi_has(size: int, endian: str) -> None:
    data = full().pack(endian, size)
    assert len(data) == size
    back = EventAttr.unpack(data, endian)
    assert back.size == size
    for name, offset, _ in FIELDS:
        if name != "size":
            is_known = getattr(back, name) == getattr(full(), name)
            assert is_known == (offset < size), name


def test_layout_is_the_kernels() -> None:
    data = EventAttr(type=1, config=2, disabled=1, precise_ip=3, sample_period=7).pack()
    assert data[:8] == bytes((1, 0, 0, 0, 136, 0, 0, 0))
    assert data[8] == 2
    assert data[16] == 7
    assert data[40:48] == bytes((1, 0x80, 1, 0, 0, 0, 0, 0))  # disabled is bit 0, precise_ip bits 15 and 16


def test_big_endian_bit_fields_start_at_the_highest_bit() -> None:
    assert EventAttr(disabled=1, inherit=1).pack(">")[40:48] == bytes((0xC0, 0, 0, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("length", range(flags.ATTR_SIZE_VER0))
def test_a_cut_struct_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="64"):
        EventAttr.unpack(bytes(length))


def test_bytes_of_a_newer_abi_are_kept() -> None:
    data = EventAttr(type=4).pack(size=flags.ATTR_SIZE_VER9) + b"newer..."
    attr = EventAttr.unpack(data)
    assert attr.unknown == b"newer..."
    assert attr.pack()[8:] == data[8:]


def test_union_names_are_the_same_field() -> None:
    attr = EventAttr(freq=1, sample_freq=99, bp_addr=0x1000, bp_len=8)
    assert (attr.sample_period, attr.config1, attr.config2) == (99, 0x1000, 8)


def test_copy_changes_only_the_named_fields() -> None:
    attr = full()
    other = attr.copy(exclude_kernel=1, config=5)
    assert other.config == 5
    assert other.copy(exclude_kernel=attr.exclude_kernel, config=attr.config) == attr


# Which events have a sample for each occurrence, and which option lowers the number of samples.


FAULTS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.PAGE_FAULTS, sample_period=1)
CLOCK = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK, sample_period=4000, freq=1)
DUMMY = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.DUMMY, sample_period=1)
TRACEPOINT = EventAttr(type=PerfType.TRACEPOINT, config=300, sample_period=1, sample_type=int(SampleType.PERIOD))
WAITS = EventAttr(type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT, sample_period=1)


@pytest.mark.parametrize(
    ("attr", "expected"),
    [
        (FAULTS, True),
        (FAULTS.copy(sample_period=4), False),
        (FAULTS.copy(sample_period=4, sample_type=int(SampleType.PERIOD)), True),  # the kernel ignores the count
        (FAULTS.copy(sample_period=4000, freq=1, sample_type=int(SampleType.PERIOD)), False),
        (TRACEPOINT, True),
        (TRACEPOINT.copy(sample_period=8), True),
        (TRACEPOINT.copy(sample_period=99, freq=1), False),
        (WAITS, True),
        (CLOCK, False),
        (CLOCK.copy(sample_period=1, freq=0), False),  # a nanosecond: the kernel has a least period
        (EventAttr(type=PerfType.HARDWARE, config=HardwareId.CPU_CYCLES, sample_period=1), False),
        (EventAttr(type=PerfType.BREAKPOINT, sample_period=1), True),
    ],
)
def test_an_event_without_a_frequency_that_the_kernel_counts_itself_is_sampled_each_time(attr: EventAttr, expected: bool) -> None:
    assert is_sampled_each_time(attr) is expected


def test_dummies_do_not_set_the_pace() -> None:
    assert are_sampled_each_time([FAULTS, DUMMY])
    assert not are_sampled_each_time([FAULTS, CLOCK])
    assert not are_sampled_each_time([DUMMY])


@pytest.mark.parametrize(
    ("attrs", "option"),
    [
        ([CLOCK], "-F"),
        ([CLOCK, WAITS], "-F"),
        ([FAULTS, DUMMY], "-c"),
        ([TRACEPOINT], "--filter"),
        ([FAULTS.copy(sample_type=int(SampleType.PERIOD))], ""),
        ([WAITS], ""),
    ],
)
def test_the_option_is_the_one_that_has_an_effect(attrs: list[EventAttr], option: str) -> None:
    assert option_for_fewer(attrs) == option


# read() buffers: every read_format decodes to what was encoded; multiplexed counts are scaled.


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
