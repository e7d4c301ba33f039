"""Which mappings of a process are its interpreter."""

from __future__ import annotations

from perfpy.capture.python_frames.locating import loaded_files
from perfpy.kernel.procfs import ProcMapping

READ, CODE = 1, 5
LIBPYTHON, PROGRAM = 77, 88


def mapping(start: int, prot: int, offset: int, inode: int = LIBPYTHON) -> ProcMapping:
    path = {LIBPYTHON: "/usr/lib/libpython3.12.so.1.0", PROGRAM: "/usr/bin/program"}.get(inode, "")
    return ProcMapping(start=start, end=start + 0x1000, prot=prot, flags=2, offset=offset, major=8, minor=1, inode=inode, path=path)


def test_files_that_are_mapped_as_data_are_not_loaded():
    loaded = [mapping(0x5000, READ, 0), mapping(0x6000, CODE, 0x1000)]
    below, above = mapping(0x1000, READ, 0), mapping(0x9000, READ, 0)
    assert loaded_files([below, *loaded, above]) == loaded[:1]
    assert loaded_files([below, above]) == []


def test_every_file_has_its_own_beginning():
    program = [mapping(0x1000, CODE, 0, PROGRAM), mapping(0x2000, READ, 0x1000, PROGRAM)]
    library = [mapping(0x3000, READ, 0), mapping(0x4000, CODE, 0x1000), mapping(0x7000, CODE, 0, 0)]
    assert loaded_files([*program, *library]) == [program[0], library[0]]
