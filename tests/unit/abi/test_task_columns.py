"""Records of tasks by columns say what they say one by one."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from perfpy.abi import records
from perfpy.abi.flags import MISC_KERNEL, MISC_MMAP_BUILD_ID, MISC_MMAP_DATA, MISC_USER
from perfpy.abi.records import NO_ID, Comm, Exit, Fork, IdLayout, Ksymbol, Mmap, Mmap2, SampleId
from perfpy.abi.task_columns import MappedFile, RawColumns, decode_tasks
from tests.builders.timeline import task_records

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
