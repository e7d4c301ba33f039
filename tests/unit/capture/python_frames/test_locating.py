"""Which mappings of a process are its interpreter."""

from __future__ import annotations

import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.capture.python_frames.locating import cold_parts, is_part, jump_targets, loaded_files
from perfpy.kernel.procfs import ProcMapping
from perfpy.symbols.files.elf import SHT_SYMTAB, ElfFile

if TYPE_CHECKING:
    from pathlib import Path

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


BEGIN = 0x10_0000

SOURCE = """
#include <stdlib.h>
#define COLD __attribute__((cold, noinline))
COLD void fail(int n) { abort(); }
COLD void other(int n) { exit(n); }
__attribute__((noinline)) int loop(volatile int *p) {
  int sum = 0;
  for (int i = 0; i < *p; i++) {
    if (__builtin_expect(p[1] == i, 0)) { sum += p[2]; fail(sum); sum *= p[3]; fail(sum + 1); }
    if (__builtin_expect(p[4] == i, 0)) { sum -= p[5]; other(sum); sum *= p[6]; fail(sum); }
    if (__builtin_expect(p[7] == i, 0)) { sum ^= p[8]; fail(sum); other(sum); }
    sum += i;
  }
  return sum;
}
int main(void) { volatile int p[9] = {1}; return loop(p); }
"""


def test_jumps_of_both_kinds():
    code = b"\x90\x0f\x84" + struct.pack("<i", 0x100) + b"\xe9" + struct.pack("<i", -0x200) + b"\x90\x90"
    assert sorted(jump_targets(code, BEGIN).tolist()) == [BEGIN + 12 - 0x200, BEGIN + 7 + 0x100]
    assert not len(jump_targets(b"\xe9\0", BEGIN))


def test_calls_of_another_function_make_it_no_part():
    assert not is_part(np.array([100, 100, 100]), 100, 200)
    assert not is_part(np.array([150]), 100, 200)
    assert not is_part(np.array([200, 90]), 100, 200)
    assert is_part(np.array([100, 150]), 100, 200)


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
def test_the_part_that_gcc_moves_away(tmp_path: Path):
    (tmp_path / "program.c").write_text(SOURCE)
    command = ["gcc", "-O2", "-fno-pie", "-no-pie", "-o", "program", "program.c"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    symbols = subprocess.run(["nm", "-S", "program"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("\n")
    ranges = {words[3]: (int(words[0], 16), int(words[0], 16) + int(words[1], 16)) for words in map(str.split, symbols) if len(words) == 4}
    if "loop.cold" not in ranges:
        pytest.skip("this compiler keeps the function in one piece")
    subprocess.run(["strip", "program"], cwd=tmp_path, check=True)
    file = ElfFile(str(tmp_path / "program"))
    assert file.section(".symtab", SHT_SYMTAB) is None
    assert cold_parts(file, *ranges["loop"]) == [ranges["loop.cold"]]
    assert cold_parts(file, *ranges["main"]) == []
    assert cold_parts(file, 1 << 40, (1 << 40) + 100) == []
