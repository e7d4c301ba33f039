"""The record of a mapping that the kernel does not tell of."""

from __future__ import annotations

from perfpy.abi.code_mapping import code_mapping
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import Mmap2, decode, encode
from perfpy.abi.sample_id import IdLayout


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
