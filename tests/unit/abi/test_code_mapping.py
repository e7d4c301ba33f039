"""The record of a mapping that the kernel does not tell of."""

from __future__ import annotations

from perfpy.abi.code_mapping import code_mapping
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.records import Mmap2, decode, encode
from perfpy.abi.sample_id import IdLayout


def test_it_is_read_again_as_what_the_kernel_writes() -> None:
    layout = IdLayout(SampleType.TID | SampleType.TIME, NATIVE_ENDIAN)
    made = code_mapping((7, 9), (0x1000, 0x200, 0x40), "/tmp/jitted-7-1.so", 123, 5, (8, 1, 77))
    data = encode(made, layout, NATIVE_ENDIAN)
    kind, misc, size = HEADER[NATIVE_ENDIAN].unpack_from(data)
    found = decode(kind, misc, data[8:], layout, NATIVE_ENDIAN)
    assert (kind, size) == (RecordType.MMAP2, len(data))
    assert isinstance(found, Mmap2)
    assert found.sample_id is not None
    assert (found.pid, found.tid, found.addr, found.len, found.pgoff) == (7, 9, 0x1000, 0x200, 0x40)
    assert (found.maj, found.min, found.ino, found.prot, found.flags, found.filename) == (8, 1, 77, 5, 2, "/tmp/jitted-7-1.so")
    assert (found.sample_id.pid, found.sample_id.tid, found.sample_id.time) == (7, 9, 123)
