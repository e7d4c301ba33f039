"""The ring buffer of BPF programs, read from memory made by hand; and a program that the kernel verifies."""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import closing

import pytest

from perfpy.kernel import bpf as bpf_loading
from perfpy.kernel.bpf import BpfRing, record_bounds
from perfpy.kernel.loaded_bpf import BpfProgramInfo, _program, loaded_programs, loaded_types
from perfpy.perfdata.bpf_programs import BpfFunction, bpf_functions, btf_function_names
from perfpy.perfdata.header import BpfProgram
from tests.builders import bpf_programs

PAGE = mmap.PAGESIZE
SIZE = PAGE
BUSY, DISCARDED = 1 << 31, 1 << 30


@pytest.fixture
def memory():
    descriptor = os.memfd_create("ring")
    os.ftruncate(descriptor, 2 * PAGE + 2 * SIZE)
    yield descriptor
    os.close(descriptor)


def put(memory: int, position: int, data: bytes, flags: int = 0) -> int:
    """Write a record, also into the second mapping of the data, and return the end."""
    record = struct.pack("=II", len(data) | flags, 0) + data
    for number, byte in enumerate(record):
        for copy in (0, SIZE):
            os.pwrite(memory, bytes((byte,)), 2 * PAGE + copy + (position + number) % SIZE)
    end = position + (len(record) + 7 & ~7)
    os.pwrite(memory, struct.pack("=Q", end), PAGE)
    return end


def test_records_come_in_order_and_are_released(memory):
    end = put(memory, 0, b"first")
    end = put(memory, end, b"dropped", DISCARDED)
    end = put(memory, end, b"second record")
    with closing(BpfRing(memory, SIZE)) as ring:
        assert list(ring.records()) == [b"first", b"second record"]
        assert os.pread(memory, 8, 0) == struct.pack("=Q", end)
        assert not list(ring.records())


def test_records_that_are_still_written_wait(memory):
    end = put(memory, 0, b"first")
    put(memory, end, b"second", BUSY)
    with closing(BpfRing(memory, SIZE)) as ring:
        assert list(ring.records()) == [b"first"]
        put(memory, end, b"second")
        assert list(ring.records()) == [b"second"]


def test_reading_ends_although_more_records_come(memory):
    """Programs of other tasks write faster than a busy machine reads."""
    end = put(memory, 0, b"first")
    with closing(BpfRing(memory, SIZE)) as ring:
        seen = []
        for record in ring.records():
            seen.append(record)
            assert len(seen) == 1
            end = put(memory, end, b"second")
        assert seen == [b"first"]
        assert next(ring.records()) == b"second"


def test_records_wrap_around(memory):
    begin = 7 * SIZE - 16
    os.pwrite(memory, struct.pack("=Q", begin), 0)
    put(memory, begin, b"x" * 100)
    with closing(BpfRing(memory, SIZE)) as ring:
        assert list(ring.records()) == [b"x" * 100]


def test_a_length_beyond_the_ring_is_no_record(memory):
    os.pwrite(memory, struct.pack("=I", SIZE * 2), 2 * PAGE)
    os.pwrite(memory, struct.pack("=Q", 64), PAGE)
    with closing(BpfRing(memory, SIZE)) as ring:
        assert not list(ring.records())


def test_a_copy_has_complete_records_with_their_heads(memory):
    end = put(memory, 0, b"first")
    end = put(memory, end, b"dropped", DISCARDED)
    end = put(memory, end, b"")
    put(memory, end, b"busy", BUSY)
    with closing(BpfRing(memory, SIZE)) as ring:
        taken = ring.take()
        assert [taken[start : start + size] for start, size in record_bounds(taken)] == [b"first", b""]
        assert len(taken) == end
        assert ring.take() == b""


@pytest.mark.parametrize("length", [SIZE, 0x3FFFFFFF, 57])
def test_a_length_beyond_the_written_part_ends_the_copy(memory, length):
    end = put(memory, 0, b"first")
    os.pwrite(memory, struct.pack("=I", length), 2 * PAGE + end)
    os.pwrite(memory, struct.pack("=Q", end + 64), PAGE)
    with closing(BpfRing(memory, SIZE)) as ring:
        assert list(ring.records()) == [b"first"]


@pytest.mark.parametrize("producer", [0, 1 << 40])
def test_a_position_outside_the_ring_is_no_reason_to_read_there(memory, producer):
    put(memory, 4096, b"x" * 100)
    os.pwrite(memory, struct.pack("=Q", 4096), 0)
    os.pwrite(memory, struct.pack("=Q", producer), PAGE)
    with closing(BpfRing(memory, SIZE)) as ring:
        assert len(ring.take()) <= SIZE


@pytest.mark.live
@pytest.mark.system_wide
def test_the_kernel_takes_maps_and_programs():
    if os.geteuid():
        pytest.skip("loading BPF programs needs root")
    threads = bpf_loading.create_map(bpf_loading.LRU_HASH, 4, 8, 16)
    try:
        bpf_loading.update(threads, b"\1\0\0\0", bytes(8))
        bpf_loading.delete(threads, b"\1\0\0\0")
        with pytest.raises(FileNotFoundError):
            bpf_loading.delete(threads, b"\1\0\0\0")
        os.close(bpf_loading.load_program(bpf_loading.PERF_EVENT, struct.pack("=BBhiBBhi", 0xB7, 0, 0, 1, 0x95, 0, 0, 0)))
        with pytest.raises(OSError, match=r"Invalid|denied"):
            bpf_loading.load_program(bpf_loading.PERF_EVENT, struct.pack("=BBhi", 0x95, 0, 0, 0))  # no result
    finally:
        os.close(threads)


# What is asked of the kernel about BPF programs, and how it goes into the file.


CODE_LENGTH_AT, CODE_AT, LINES_AT = 16, 24, 148


def test_counts_and_places_come_from_the_present_arrays():
    """The kernel counts what it was not asked for, too; a reader would follow its empty pointers."""
    info = bytearray(232)
    struct.pack_into("=IIQ", info, CODE_LENGTH_AT, 5, 0, 0x7FFF0000)
    struct.pack_into("=I", info, LINES_AT, 9)
    struct.pack_into("=II", info, 104, 1, 1)
    struct.pack_into("=I", info, 180, 1)
    arrays = {0: b"\x90\x90\x90\x90\xc3", 3: struct.pack("=Q", 0xFFFFFFFFC0000000), 4: struct.pack("=I", 5), 8: b"12345678"}
    bits, info_of_kernel, data = BpfProgramInfo(
        7, "p", b"12345678", ((0xFFFFFFFFC0000000, 5),), (b"12345678",), bytes(info), arrays
    ).with_arrays()
    assert bits == 1 << 0 | 1 << 3 | 1 << 4 | 1 << 8
    assert struct.unpack_from("=IIQ", info_of_kernel, CODE_LENGTH_AT) == (5, 0, 0)
    assert data[:8] == b"\x90\x90\x90\x90\xc3\0\0\0"
    assert struct.unpack_from("=I", info_of_kernel, LINES_AT) == (0,)
    function = BpfFunction(0, "bpf_prog_3132333435363738", 0xFFFFFFFFC0000000, 5, b"\x90\x90\x90\x90\xc3")
    assert bpf_functions(BpfProgram(bits, info_of_kernel, data), ()) == [function]


@pytest.mark.parametrize("place", [112, 120, 184])
def test_arrays_at_places_that_cannot_be_name_no_functions(place):
    data = bytearray(232)
    struct.pack_into("=II", data, 104, 1, 1)
    struct.pack_into("=I", data, 180, 1)
    struct.pack_into("=Q", data, place, (1 << 64) - 8)
    assert bpf_functions(BpfProgram(0, bytes(data), bytes(16)), ()) == []


def test_code_that_the_kernel_hides_has_no_length():
    info = bytearray(232)
    struct.pack_into("=I", info, CODE_LENGTH_AT, 1219)
    bits, info_of_kernel, data = BpfProgramInfo(7, "p", b"", (), (), bytes(info)).with_arrays()
    assert (bits, data) == (0, b"")
    assert info_of_kernel == bytes(232)


def test_a_program_whose_functions_the_kernel_hides_is_left_out():
    """Without CAP_SYSLOG the kernel hides addresses and lengths, and shows the tags."""
    tags, addresses, lengths = b"12345678", struct.pack("=Q", 0xFFFFFFFFC0000000), struct.pack("=I", 5)
    assert _program(7, bytes(232), {8: tags}, 0) is None
    assert _program(7, bytes(232), {3: addresses, 4: lengths}, 0) is None
    assert _program(7, bytes(232), {3: addresses, 4: lengths, 8: tags}, 0) is not None


@pytest.mark.live
def test_programs_of_this_machine_are_reported_with_their_code_and_names():
    try:
        opened = [bpf_programs.load("plain_one"), bpf_programs.load("several", ["its_first_function", "its_second"])]
    except OSError as error:
        pytest.skip(f"no BPF programs here: {error}")
    try:
        results = {program.name: program for program in loaded_programs()}
        plain, several = results["plain_one"], results["several"]
        types = loaded_types(results.values())
    finally:
        for fd in opened:
            os.close(fd)
    assert len(plain.functions) == 1
    assert len(plain.arrays[0]) == plain.functions[0][1]
    assert plain.btf_id == 0
    names = btf_function_names(types[several.btf_id])
    assert [names[number] for number in several.function_types] == ["its_first_function", "its_second"]
    assert len(several.functions) == len(several.tags) == 2
