"""Cold parts of functions in stripped files: of programs that gcc splits, and of bytes made by hand."""

from __future__ import annotations

import shutil
import struct
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.capture.python_frames.cold_code import cold_parts, is_part, jump_targets
from perfpy.symbols.files.elf import SHT_SYMTAB, ElfFile

if TYPE_CHECKING:
    from pathlib import Path

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
