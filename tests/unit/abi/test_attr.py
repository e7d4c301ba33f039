"""perf_event_attr: every field and bit survives the way to bytes and back, in both byte orders and every ABI size."""

import pytest

from perfpy.abi import flags
from perfpy.abi.attr import FIELDS, FLAG_BITS, EventAttr

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
