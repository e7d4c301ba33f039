"""Side-band records and perf's own: round trip, and truncation at every byte."""

import pytest

from perfpy.abi import cpu_map
from perfpy.abi import records as r
from perfpy.abi import user_records as u
from perfpy.abi.attr import EventAttr
from perfpy.abi.build_ids import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.abi.flags import MISC_MMAP_BUILD_ID, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.sample_id import IdLayout, SampleId

ALL_IDS = SampleType.TID | SampleType.TIME | SampleType.ID | SampleType.STREAM_ID | SampleType.CPU | SampleType.IDENTIFIER
SID = SampleId(pid=1, tid=2, time=3 << 40, id=4, stream_id=5, cpu=6, identifier=4)

KERNEL = [
    r.Mmap(2, 1, 2, 0x400000, 0x1000, 0x2000, "/usr/bin/true", SID),
    r.Mmap2(2, 1, 2, 0x400000, 0x1000, 0x2000, 8, 1, 77, 9, 5, 2, "/usr/lib/x", b"", SID),
    r.Mmap2(2 | MISC_MMAP_BUILD_ID, 1, 2, 0x400000, 0x1000, 0, 0, 0, 0, 0, 5, 2, "/lib/y", bytes(range(1, 21)), SID),
    r.Mmap2(2 | MISC_MMAP_BUILD_ID, 1, 2, 0x400000, 0x1000, 0, 0, 0, 0, 0, 5, 2, "/lib/md5", bytes(range(1, 17)), SID),
    r.Comm(1 << 13, 1, 2, "a command", SID),
    r.Comm(0, 1, 2, "not \udcff utf-8", SID),
    r.Fork(0, 1, 2, 3, 4, 5, SID),
    r.Exit(0, 1, 2, 3, 4, 5, SID),
    r.Lost(0, 1, 2, SID),
    r.LostSamples(0, 9, SID),
    r.Throttle(0, 1, 2, 3, SID),
    r.Unthrottle(0, 1, 2, 3, SID),
    r.Read(0, 1, 2, bytes(range(24)), SID),
    r.Aux(0, 1, 2, 3, SID),
    r.ItraceStart(0, 1, 2, SID),
    r.Switch(1 << 13, SID),
    r.SwitchCpuWide(0, 1, 2, SID),
    r.Namespaces(0, 1, 2, ((3, 4), (5, 6), (7, 8)), SID),
    r.Ksymbol(0, 1 << 63, 64, 1, 0, "bpf_prog_abc", SID),
    r.BpfEvent(0, 1, 0, 5, b"\1\2\3\4\5\6\7\0", SID),
    r.Cgroup(0, 5, "/system.slice", SID),
    r.TextPoke(0, 0xFFFFFFFF81000000, b"\x90" * 5, b"\xe8\1\2\3\4", SID),
    r.AuxOutputHwId(0, 7, SID),
    r.CallchainDeferred(0, 1, (2, 3, 4), SID),
]
USER = [
    u.HeaderAttr(0, EventAttr(type=1, config=3), (10, 11)),
    u.HeaderEventType(0, 5, "cycles"),
    u.HeaderTracingData(0, 4096),
    HeaderBuildId(MISC_BUILD_ID_SIZE | 2, -1, bytes(range(16)), "/usr/lib/libc.so.6"),
    HeaderBuildId(MISC_BUILD_ID_SIZE | 1, -1, bytes(range(20)), "[kernel.kallsyms]"),
    u.FinishedRound(0),
    u.FinishedInit(0),
    u.IdIndex(0, (u.IdIndexEntry(1, 2, 3, 4), u.IdIndexEntry(5, 6, 7, 8))),
    u.IdIndex(0, (u.IdIndexEntry(1, 2, 3, 4, 0, 0), u.IdIndexEntry(5, 6, 7, 8, 9, 10))),
    u.AuxtraceInfo(0, 1, (1, 2, 3)),
    u.Auxtrace(0, 4096, 1, 2, 3, 4, 5),
    u.AuxtraceError(0, 1, 2, 3, 4, 5, 1, 6, 7, "overflow", 8, 9),
    u.ThreadMap(0, ((1, "init"), (2, "kthreadd"))),
    u.CpuMap(0, (0, 1, 2, 3)),
    u.CpuMap(0, (0, 2, 5)),
    u.CpuMap(0, (-1,)),
    u.CpuMap(0, (-1, 4, 5)),
    u.StatConfig(0, ((0, 3), (1, 1000))),
    u.Stat(0, 1, 2, 3, 4, 5, 6),
    u.StatRound(0, 1, 99),
    u.EventUpdate(0, u.EVENT_UPDATE_UNIT, 1, "Joules"),
    u.EventUpdate(0, u.EVENT_UPDATE_SCALE, 1, 0.5),
    u.EventUpdate(0, u.EVENT_UPDATE_NAME, 1, "my event"),
    u.EventUpdate(0, u.EVENT_UPDATE_CPUS, 1, (0, 1)),
    u.TimeConv(0, 1, 2, 3),
    u.TimeConv(0, 1, 2, 3, 4, 5, 1, 0),
    u.HeaderFeature(0, 3, b"12345678"),
    u.Compressed(0, b"123"),
    u.Compressed2(0, b"12345"),
]


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
def test_perfs_own_record_survives_a_round_trip(record: u.UserRecord, endian: str) -> None:
    data = u.encode(record, endian)
    assert isinstance(record, u.Compressed) or len(data) % 8 == 0
    assert u.decode(*parts(data, endian), endian) == record


def test_a_scale_stands_in_the_files_byte_order() -> None:
    """As perf 6.1 on s390x writes it; perf 6.12 forgets to swap it when it reads such a file, and shows -0.00 msec."""
    written = bytes.fromhex("0000004e 0000 0020 0000000000000001 0000000000000004 3eb0c6f7a0b5ed8d")
    update = u.EventUpdate(0, u.EVENT_UPDATE_SCALE, 4, 1e-6)
    assert u.encode(update, ">") == written
    assert u.decode(*parts(written, ">"), ">") == update


@pytest.mark.parametrize("record", KERNEL + USER, ids=lambda record: type(record).__name__)
def test_a_record_cut_at_any_byte_decodes_or_raises_value_error(record: r.KernelRecord | u.UserRecord) -> None:
    layout = IdLayout(ALL_IDS)
    own = isinstance(record, u.UserRecord) and not isinstance(record, r.Unknown)
    number, misc, body = parts(u.encode(record) if own else r.encode(record, layout), "<")
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
    assert cpu_map.decode(wide, "<") == (1, 3)
    assert cpu_map.decode(narrow, "<") == (0, 33)


def test_an_unknown_type_is_kept() -> None:
    for module in (r, u):
        back = module.decode(99, 1, b"12345678")
        assert back == r.Unknown(1, 99, b"12345678")
        assert parts(module.encode(back), "<") == (99, 1, b"12345678")


def test_a_record_past_65535_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="65535"):
        r.encode(r.Comm(0, 1, 2, "x" * 70000))
