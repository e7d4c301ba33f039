"""Side-band records and perf's own: round trip, and truncation at every byte."""

from __future__ import annotations

import pytest

from perfpy.abi import perf_records
from perfpy.abi import perf_records as u
from perfpy.abi import records as r
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.newer_records import NewerRecord
from perfpy.abi.records import NO_ID, IdLayout, Mmap2, SampleId, code_mapping, decode, encode
from tests.builders.specimens import ALL_IDS, KERNEL, SID, USER


def parts(data: bytes, endian: str) -> tuple[int, int, bytes]:
    number, misc, size = HEADER[endian].unpack_from(data)
    assert size == len(data)
    return number, misc, data[8:]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("sample_type", [0, SampleType.TIME | SampleType.CPU, ALL_IDS])
@pytest.mark.parametrize("record", KERNEL, ids=lambda record: type(record).__name__)
def test_kernel_record_survives_a_round_trip(record: r.KernelRecord, sample_type: int, endian: str) -> None:
    layout = IdLayout(sample_type, endian)
    data = r.encode(record, layout, endian)
    assert len(data) % 8 == 0
    back = r.decode(*parts(data, endian), layout, endian)
    assert back._replace(sample_id=None) == record._replace(sample_id=None)
    for name in SampleId._fields if back.sample_id else ():
        assert getattr(back.sample_id, name) in (None, getattr(SID, name))
    if sample_type == ALL_IDS:
        assert back.sample_id == SID


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("record", USER, ids=lambda record: type(record).__name__)
def test_perfs_own_record_survives_a_round_trip(record: u.UserRecord | NewerRecord, endian: str) -> None:
    data = u.encode(record, endian)
    assert isinstance(record, u.Compressed) or len(data) % 8 == 0
    assert u.decode(*parts(data, endian), endian) == record


def test_a_scale_stands_in_the_files_byte_order() -> None:
    """As perf 6.1 on s390x writes it; perf 6.12 forgets to swap it when it reads such a file, and shows -0.00 msec."""
    written = bytes.fromhex("0000004e 0000 0020 0000000000000001 0000000000000004 3eb0c6f7a0b5ed8d")
    update = u.EventUpdate(0, u.EVENT_UPDATE_SCALE, 4, 1e-6)
    assert u.encode(update, ">") == written
    assert u.decode(*parts(written, ">"), ">") == update


@pytest.mark.parametrize("record", [*KERNEL, *USER], ids=lambda record: type(record).__name__)
def test_a_record_cut_at_any_byte_decodes_or_raises_value_error(record: r.KernelRecord | u.UserRecord | NewerRecord) -> None:
    layout = IdLayout(ALL_IDS, "<")
    if isinstance(record, u.UserRecord | NewerRecord) and not isinstance(record, r.Unknown):
        own, data = True, u.encode(record, "<")
    else:
        own, data = False, r.encode(record, layout, "<")
    number, misc, body = parts(data, "<")
    for length in range(len(body)):
        try:
            u.decode(number, misc, body[:length]) if own else r.decode(number, misc, body[:length], layout)
        except ValueError:
            continue


def test_a_body_too_short_for_its_fixed_fields_is_refused() -> None:
    with pytest.raises(ValueError, match="MMAP2"):
        r.decode(10, 0, bytes(16))
    with pytest.raises(ValueError, match="STAT"):
        u.decode(76, 0, bytes(8))


def test_a_count_beyond_the_record_is_refused() -> None:
    huge = (1 << 60).to_bytes(8, "little")
    for number in (69, 73, 75, 83):
        with pytest.raises(ValueError, match="room"):
            u.decode(number, 0, huge + bytes(8))
    with pytest.raises(ValueError, match="room"):
        r.decode(16, 0, bytes(8) + huge)


def test_a_cpu_mask_is_read_in_both_word_sizes() -> None:
    wide = bytes((1, 0, 1, 0, 8, 0, 0, 0, 0, 0)) + (0b1010).to_bytes(8, "little")
    narrow = bytes((1, 0, 2, 0, 4, 0)) + (1).to_bytes(4, "little") + (2).to_bytes(4, "little")
    assert perf_records.decode_cpu_map(wide, "<") == (1, 3)
    assert perf_records.decode_cpu_map(narrow, "<") == (0, 33)


def test_an_unknown_type_is_kept() -> None:
    unknown = r.Unknown(1, 99, b"12345678")
    assert r.decode(99, 1, b"12345678") == u.decode(99, 1, b"12345678") == unknown
    for data in (r.encode(unknown, NO_ID, "<"), u.encode(unknown, "<")):
        assert parts(data, "<") == (99, 1, b"12345678")


def test_a_record_past_65535_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="65535"):
        r.encode(r.Comm(0, 1, 2, "x" * 70000), NO_ID, "<")


def test_a_device_and_an_inode_are_no_build_id():
    """Kernels set the bit in records that have none, if another recording asks for build-ids at the same time."""
    plain = r.Mmap2(0, 7, 7, 0x1000, 0x1000, 0, 0xFE, 0, 328261, 0, 5, 2, "/usr/lib/libc.so.6")
    identified = plain._replace(maj=0, ino=0, misc=MISC_MMAP_BUILD_ID, build_id=bytes(range(1, 9)))
    for record, expected in (
        (plain, plain),
        (plain._replace(maj=8, min=1, ino_generation=77), plain._replace(maj=8, min=1, ino_generation=77)),
        (identified, identified),
    ):
        body = r.encode(record, NO_ID, "<")[8:]
        assert r.decode(RecordType.MMAP2, MISC_MMAP_BUILD_ID, body, NO_ID, "<") == expected


# The record of a mapping that the kernel does not tell of.


def test_it_is_decoded_as_a_record_of_the_kernel() -> None:
    layout = IdLayout(SampleType.TID | SampleType.TIME, NATIVE_ENDIAN)
    result = code_mapping((7, 9), (0x1000, 0x200, 0x40), "/tmp/jitted-7-1.so", 123, 5, (8, 1, 77))
    data = encode(result, layout, NATIVE_ENDIAN)
    kind, misc, size = HEADER[NATIVE_ENDIAN].unpack_from(data)
    record = decode(kind, misc, data[8:], layout, NATIVE_ENDIAN)
    assert (kind, size) == (RecordType.MMAP2, len(data))
    assert isinstance(record, Mmap2)
    assert record.sample_id is not None
    assert (record.pid, record.tid, record.addr, record.len, record.pgoff) == (7, 9, 0x1000, 0x200, 0x40)
    assert (record.maj, record.min, record.ino, record.prot, record.flags, record.filename) == (8, 1, 77, 5, 2, "/tmp/jitted-7-1.so")
    assert (record.sample_id.pid, record.sample_id.tid, record.sample_id.time) == (7, 9, 123)
