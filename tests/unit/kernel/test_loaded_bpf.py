"""What is asked of the kernel about BPF programs, and how it goes into the file."""

from __future__ import annotations

import os
import struct

import pytest

from perfpy.kernel.loaded_bpf import BpfProgramInfo, _program, loaded_programs, loaded_types
from perfpy.perfdata.bpf_programs import BpfFunction, bpf_functions, btf_function_names
from perfpy.perfdata.features import BpfProgram
from tests.builders import bpf_programs

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
