"""Records of the kernel, their columns, and lists of CPUs."""

from __future__ import annotations

import ast
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfpy.abi import perf_records, records
from perfpy.abi import perf_records as u
from perfpy.abi import records as r
from perfpy.abi.attr import EventAttr, Reading
from perfpy.abi.columns import Ragged, count_each, grouped
from perfpy.abi.cpu_list import MOST_CPUS, cpu_list_text, parse_cpu_list
from perfpy.abi.flags import MISC_KERNEL, MISC_MMAP_BUILD_ID, MISC_MMAP_DATA, MISC_USER, NATIVE_ENDIAN, ReadFormat, RecordType, SampleType
from perfpy.abi.framing import HEADER
from perfpy.abi.perf_records import NewerRecord
from perfpy.abi.records import NO_ID, Comm, Exit, Fork, IdLayout, Ksymbol, Mmap, Mmap2, SampleId, code_mapping, decode, encode
from perfpy.abi.ring_records import RingDecoder, RingSample
from perfpy.abi.sample_encoding import encode_sample
from perfpy.abi.task_columns import MappedFile, RawColumns, decode_tasks
from perfpy.errors import UsageError
from tests.builders.specimens import ALL_IDS, KERNEL, SID, USER
from tests.builders.syntax import nodes_of
from tests.builders.timeline import task_records

# Side-band records and perf's own: round trip, and truncation at every byte.


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


# Records of one's own rings as values.


USUAL = SampleType.IP | SampleType.TID | SampleType.CALLCHAIN | SampleType.RAW
BY_ID = SampleType.IDENTIFIER | SampleType.IP


def comm(attr: EventAttr, name: str, endian: str = "<", **sample_id: int) -> bytes:
    layout = IdLayout.of(attr, endian)
    return records.encode(records.Comm(0, 7, 7, name, SampleId(**sample_id)), layout, endian)


@pytest.mark.parametrize("endian", "<>")
def test_samples_and_others_come_in_their_order(endian: str):
    attr = EventAttr(sample_type=USUAL, sample_id_all=1)
    chain = {"ip": 0x1000, "pid": 7, "tid": 8, "callchain": [1, 2, 3], "raw": b"abcd"}
    data = encode_sample(attr, chain, endian) + comm(attr, "one", endian, pid=7, tid=7) + encode_sample(attr, {**chain, "ip": 5}, endian)
    first, between, last = RingDecoder({1: attr}, endian).decode(data)
    assert isinstance(first, RingSample)
    assert (first.ip, first.pid, first.tid, first.callchain, first.raw) == (0x1000, 7, 8, [1, 2, 3], b"abcd")
    assert isinstance(between, records.Comm)
    assert (between.comm, between.sample_id) == ("one", SampleId(pid=7, tid=7))
    assert isinstance(last, RingSample)
    assert last.ip == 5
    assert repr(last).startswith("RingSample(ip=0x5, pid=7, tid=8, callchain=[1, 2, 3]")
    with pytest.raises(AttributeError, match="have no 'time': misc, cpumode, ip"):
        _ = first.time


def test_a_group_s_readings_are_readings():
    read_format = int(ReadFormat.GROUP | ReadFormat.ID | ReadFormat.TOTAL_TIME_ENABLED)
    attr = EventAttr(sample_type=SampleType.READ, read_format=read_format)
    members = [Reading(10, 99, None, 1), Reading(20, 99, None, 2)]
    (sample,) = RingDecoder({1: attr}, "<").decode(encode_sample(attr, {"read": members}, "<"))
    assert isinstance(sample, RingSample)
    assert sample.read == members


def test_counters_that_sample_differently_are_distinguished_by_id():
    attrs = {5: EventAttr(sample_type=BY_ID, sample_id_all=1), 6: EventAttr(sample_type=BY_ID | SampleType.ADDR, sample_id_all=1)}
    data = b"".join(
        [
            encode_sample(attrs[6], {"identifier": 6, "ip": 1, "addr": 2}, "<"),
            encode_sample(attrs[5], {"identifier": 5, "ip": 3}, "<"),
            comm(attrs[6], "six", identifier=6),
            encode_sample(attrs[6], {"identifier": 6, "ip": 4, "addr": 5}, "<"),
        ]
    )
    result = list(RingDecoder(attrs, "<").decode(data))
    assert [(one.identifier, one.ip, getattr(one, "addr", None)) for one in result if isinstance(one, RingSample)] == [
        (6, 1, 2),
        (5, 3, None),
        (6, 4, 5),
    ]
    assert isinstance(result[2], records.Comm)
    assert result[2].sample_id == SampleId(identifier=6)


def test_others_that_sample_differently_are_refused():
    with pytest.raises(UsageError, match="IDENTIFIER"):
        RingDecoder({5: EventAttr(sample_type=SampleType.IP), 6: EventAttr(sample_type=SampleType.ADDR)}, "<")


def test_an_unknown_record_is_kept():
    (unknown,) = RingDecoder({1: EventAttr()}, "<").decode(bytes([200, 0, 0, 0, 0, 0, 16, 0]) + bytes(8))
    assert unknown == records.Unknown(0, 200, bytes(8))


# Columns whose rows differ in length are read as numpy's arrays are.


COLUMN = Ragged(np.array([7, 8, 9, 1], np.uint64), np.array([0, 2, 2, 3, 4]))
ROWS = [[7, 8], [], [9], [1]]


@pytest.mark.parametrize(
    "rows",
    [
        slice(3), slice(1, None), slice(-2, None), slice(None, None, -1), slice(None, None, 2), slice(3, 1), [2, 0], [-1], [],
        np.array([3, 3]), np.array([-1, 0]), np.array([True, False, True, False]), np.zeros(4, bool), np.array([0], np.uint8),
    ],
)  # fmt: skip
def test_rows_are_selected_as_in_an_array(rows: Any) -> None:
    """By a slice, a mask or indexes: what an array of the row numbers gives."""
    index = np.array(rows, np.intp) if isinstance(rows, list) else rows
    expected = [ROWS[number] for number in np.arange(4)[index]]
    assert [row.tolist() for row in COLUMN[rows]] == expected


def test_one_row_is_its_values() -> None:
    """Also by numpy's numbers, and from the end."""
    assert [COLUMN[number].tolist() for number in (0, -1, np.int64(2), np.uint8(1))] == [[7, 8], [1], [9], []]


@pytest.mark.parametrize("rows", [4, -5, [4], "ip", np.array([[0]]), [0.5], np.array([True])])
def test_anything_but_a_row_is_refused(rows: Any) -> None:
    """As numpy refuses it."""
    with pytest.raises(IndexError):
        COLUMN[rows]


def test_a_ragged_column_shows_its_first_rows_and_their_number():
    column = Ragged(np.arange(10, 34), np.array([0, 2, 2, 14, 24]))
    assert repr(column) == "Ragged([10, 11], [], [12, 13, 14, ..., 21, 22, 23], ...; rows=4)"
    assert repr(Ragged.empty(1, np.uint64)) == "Ragged([]; rows=1)"


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("spread", [3, 1 << 20, 1 << 30])
def test_values_are_grouped_as_numpy_does(kind: type[np.signedinteger[Any]], spread: int) -> None:
    values = np.random.default_rng(spread).integers(-spread, spread, 300).astype(kind)
    limits = np.iinfo(kind)

    for column in (values, values[:0], np.append(values, [limits.min, limits.max]).astype(kind)):
        distinct_values, index = grouped(column)

        expected = np.unique(column, return_inverse=True)
        assert distinct_values.dtype == kind
        assert np.array_equal(distinct_values, expected[0])
        assert np.array_equal(index, expected[1])


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint32, np.uint64])
@pytest.mark.parametrize("spread", [3, 1 << 20, 1 << 30])
def test_values_are_counted_as_numpy_does(kind: type[np.integer[Any]], spread: int) -> None:
    values, limits = np.random.default_rng(spread).integers(0, spread, 300).astype(kind), np.iinfo(kind)
    high = (limits.max - values % 100).astype(kind)

    for column in (values, values[:0], high, np.append(values, np.array([limits.min, limits.max], kind))):
        expected = [one.tolist() for one in np.unique(column, return_counts=True)]
        assert [list(count_each(column)), list(count_each(column).values())] == expected


# Records of tasks by columns say what they say one by one.


TRAILER = 0x2 | 0x4 | 0x80  # TID, TIME, CPU
IDENTITY = SampleId(pid=7, tid=8, time=9, cpu=1)
MAPPED: list[Mmap | Mmap2] = [
    Mmap(MISC_KERNEL, 0xFFFFFFFF, 0, 0xFFFFFFFF81000000, 0x1000, 0xFFFFFFFF81000000, "[kernel.kallsyms]_text", IDENTITY),
    Mmap2(MISC_USER, 1, 2, 0x400000, 0x2000, 0x1000, 8, 1, 4711, 3, 5, 2, "/bin/a", b"", IDENTITY),
    Mmap2(MISC_USER, 3, 3, 0x700000, 0x2000, 0, 8, 1, 4711, 3, 5, 2, "/bin/a", b"", IDENTITY),
    Mmap2(MISC_USER | MISC_MMAP_BUILD_ID, 3, 3, 0x400000, 0x2000, 0, 0, 0, 0, 0, 3, 0x40002, "/bin/é\udcff", b"\x12" * 20, IDENTITY),
    Mmap2(MISC_USER | MISC_MMAP_BUILD_ID, 3, 3, 0x400000, 0x2000, 0, 0, 0, 0, 0, 3, 2, "/bin/short", b"\x12" * 8, IDENTITY),
    Mmap(MISC_USER, 4, 4, 0x1000, (1 << 64) - 1, 0, "/bin/of eight bytes", IDENTITY),
    Mmap(MISC_USER | MISC_MMAP_DATA, 4, 4, 0x1000, 0x1000, 0, "/bin/of eight bytes", IDENTITY),
]
TASKS: list[Comm | Fork | Exit] = [
    Comm(0, 1, 2, "name", IDENTITY),
    Fork(1 << 13, 3, 4, 5, 6, 7, IDENTITY),
    Exit(0, 8, 9, 10, 11, 12, IDENTITY),
    Comm(0, 3, 3, "name", IDENTITY),
    Comm(0, 0xFFFFFFFF, 0xFFFFFFFF, "", IDENTITY),
]
SYMBOL = Ksymbol(0, 0xFFFFFFFFC0000000, 0x100, 1, 0, "bpf_prog", None)


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("sample_type", [0, TRAILER])
def test_columns_of_mappings_equal_single_records(endian: str, sample_type: int) -> None:
    actual_task_records = task_records(*enumerate(MAPPED), endian=endian, trailer=IdLayout(sample_type, endian))
    maps = actual_task_records.maps
    assert maps.rank.tolist() == list(range(1, len(MAPPED) + 1))
    assert actual_task_records.keys.tolist() == list(range(len(MAPPED)))
    assert list(zip(maps.mode, maps.pid, maps.start, maps.length, maps.pgoff, strict=True)) == [
        (record.misc & 7, record.pid, record.addr, record.len, record.pgoff) for record in MAPPED
    ]
    assert [actual_task_records.files[number] for number in maps.file] == [
        MappedFile("[kernel.kallsyms]_text", True, 0, b""),
        MappedFile("/bin/a", True, 2, b"", (8, 1, 4711, 3)),
        MappedFile("/bin/a", True, 2, b"", (8, 1, 4711, 3)),
        MappedFile("/bin/é\udcff", False, 0x40002, b"\x12" * 20),
        MappedFile("/bin/short", False, 2, b"\x12" * 8),
        MappedFile("/bin/of eight bytes", True, 0, b""),
        MappedFile("/bin/of eight bytes", False, 0, b""),
    ]
    assert maps.file[1] == maps.file[2]


@pytest.mark.parametrize("endian", "<>")
@pytest.mark.parametrize("sample_type", [0, TRAILER])
def test_columns_of_tasks_equal_single_records(endian: str, sample_type: int) -> None:
    actual_task_records = task_records(*enumerate(TASKS), endian=endian, trailer=IdLayout(sample_type, endian))
    tasks = actual_task_records.tasks
    assert [(records.type_of(record), record.misc, record.pid, record.tid) for record in TASKS] == list(
        zip(tasks.type, tasks.misc, tasks.pid, tasks.tid, strict=True)
    )
    assert [actual_task_records.comms[number] if number >= 0 else None for number in tasks.comm] == ["name", None, None, "name", ""]
    assert (tasks.ppid[1], tasks.ptid[1], tasks.ppid[2], tasks.ptid[2]) == (4, 6, 9, 11)


def test_ranks_count_through_all_kinds() -> None:
    actual_task_records = task_records((5, TASKS[0]), (6, SYMBOL), (7, MAPPED[1]), (7, TASKS[2]))
    assert (actual_task_records.tasks.rank.tolist(), actual_task_records.maps.rank.tolist()) == ([1, 4], [3])
    assert actual_task_records.ksymbols == [(2, SYMBOL)]
    assert actual_task_records.keys.tolist() == [5, 6, 7, 7]


def test_a_name_that_is_not_ended_in_its_place_runs_on_into_the_trailer() -> None:
    """As perf 3.12's MMAP2 records had it, and as perfpy.abi.records reads them."""
    layout = IdLayout(0x4, "<")  # TIME
    bodies = [struct.pack("<II", 1, 2) + name + struct.pack("<Q", time) for name, time in ((b"8 bytes!", 0x4142), (b"ended\0\0\0", 9))]
    raw = RawColumns(
        np.array([3, 3], np.uint32), np.zeros(2, np.uint16), np.array([0, 24]), np.array([24, 24]), np.array([8, 8]), b"".join(bodies)
    )
    tasks = decode_tasks(raw, np.array([1, 2], np.uint64), "<")
    assert [tasks.comms[number] for number in tasks.tasks.comm] == ["8 bytes!BA", "ended"]
    read = [records.decode(3, 0, body, layout) for body in bodies]
    assert [record.comm for record in read if isinstance(record, Comm)] == ["8 bytes!BA", "ended"]


def test_bodies_too_short_for_their_type_are_reported() -> None:
    kinds, sizes, trailers = zip(*((10, 72, 8), (10, 71, 8), (1, 32, 0), (1, 31, 0), (7, 24, 0), (7, 24, 8), (3, 8, 0)), strict=True)
    count = len(kinds)
    raw = RawColumns(
        np.array(kinds, np.uint32), np.zeros(count, np.uint16), np.zeros(count, np.int64), np.array(sizes), np.array(trailers), b""
    )
    assert raw.too_short.tolist() == [False, True, False, True, False, True, False]


def test_no_records_are_no_columns() -> None:
    actual_task_records = task_records(trailer=NO_ID)
    assert (
        len(actual_task_records.keys),
        len(actual_task_records.maps.rank),
        actual_task_records.files,
        len(actual_task_records.tasks.rank),
        actual_task_records.comms,
        actual_task_records.ksymbols,
    ) == (0, 0, [], 0, [], [])


# Lists of CPUs such as 0-3,8: the one way from text to numbers, and back.


PACKAGE = Path(__file__).resolve().parents[3] / "perfpy"


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("0", (0,)),
        ("0-3", (0, 1, 2, 3)),
        ("0-2,5", (0, 1, 2, 5)),
        ("3,1-2", (1, 2, 3)),
        ("1,0-2,1", (0, 1, 2)),
        ("7-7", (7,)),
        ("0,8-9\n", (0, 8, 9)),
        ("0, 2", (0, 2)),
        ("65535", (65535,)),
        ("", ()),
        (" \n", ()),
    ],
)
def test_a_list_becomes_numbers_in_ascending_order_each_once(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpu_list(text) == cpus


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "'a' is neither a CPU nor a range"),
        ("1-", "'1-' is neither"),
        ("-1", "'-1' is neither"),
        ("0-3-5", "'0-3-5' is neither"),
        ("1,,2", "'' is neither"),
        ("0,", "'' is neither"),
        ("+1", "neither"),
        ("1_0", "neither"),
        ("²", "neither"),
        ("٣", "neither"),
        ("0x1", "neither"),
        ("3-1", "'3-1' runs backwards"),
        ("65536", "no machine has a CPU 65536"),
        ("0-4294967295", "no machine has a CPU 4294967295"),
        ("9" * 5000, "no machine has a CPU 9{20}"),
        ("0-65535," * 4 + "0", "more than 65536 CPUs"),
    ],
)
def test_anything_but_a_list_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        parse_cpu_list(text)
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("cpus", "text"), [((), ""), ((4,), "4"), ((0, 1, 2, 5), "0-2,5"), ((5, 1, 2), "5,1-2"), ((-1,), "-1"), ((-1, 3), "-1,3")]
)
def test_numbers_become_a_list(cpus: tuple[int, ...], text: str) -> None:
    assert cpu_list_text(cpus) == text


@given(st.sets(st.integers(0, MOST_CPUS - 1), max_size=40) | st.builds(range, st.integers(0, 300), st.integers(0, 700)))
def test_a_list_that_was_written_is_read_again(cpus: set[int] | range) -> None:
    ascending = tuple(sorted(cpus))
    assert parse_cpu_list(cpu_list_text(ascending)) == ascending


@pytest.mark.thorough
def test_nothing_else_reads_a_list_of_cpus() -> None:
    """No other function of the package that is about CPUs parts a text at a dash."""
    results = []
    for path in PACKAGE.rglob("*.py"):
        for function in nodes_of(path) if '"-"' in path.read_text() else ():
            if not isinstance(function, ast.FunctionDef):
                continue
            calls = (node for node in ast.walk(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
            parts = any(call.func.attr in ("partition", "split") and "'-'" in map(ast.unparse, call.args) for call in calls)  # type: ignore[attr-defined]
            if parts and "cpu" in ast.unparse(function).lower():
                results.append(f"{path.relative_to(PACKAGE)}:{function.name}")
    assert results == ["abi/cpu_list.py:_bounds"]
