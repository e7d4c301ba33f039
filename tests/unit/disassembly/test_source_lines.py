"""Source lines between instructions are objdump's, but read by perfpy."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from perfpy.disassembly.source_lines import with_source

if TYPE_CHECKING:
    from pathlib import Path

HEADER = """static inline int mixed(int times) {
  int value = times;
  for (int i = 0; i < times; i++)
    value ^= i * value;
default_label:
  return value;
}
"""
SOURCE = """#include "mixed.h"




int twice(int x) { return 2 * x; }

int main(int count, char **words) {
  int sum = 0;
  for (int i = 0; i < count; i++) {
    sum += mixed(i) + twice(sum);
    sum -= mixed(sum);
  }
  return sum;
}
"""


def objdump(program: Path, option: str) -> list[bytes]:
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", option, str(program)]
    return subprocess.run(command, check=True, capture_output=True, timeout=60).stdout.split(b"\n")


@pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("objdump"), reason="needs gcc and objdump")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "unfinished"])
@pytest.mark.parametrize("option", ["-O0", "-O2"])
def test_the_lines_are_objdumps(tmp_path: Path, option: str, end: str):
    text = SOURCE.removesuffix("\n") if end == "unfinished" else SOURCE
    (tmp_path / "mixed.h").write_text(HEADER)
    (tmp_path / "main.c").write_text(text)
    subprocess.run(["gcc", "-g", option, "-w", "-o", "program", "main.c"], check=True, timeout=60, cwd=tmp_path)
    if end != "unfinished":
        (tmp_path / "main.c").write_bytes(text.replace("\n", end).encode())
    lines = [*with_source(objdump(tmp_path / "program", "-l"))]
    assert lines == objdump(tmp_path / "program", "-S")
    assert any(b"sum += mixed(i)" in line for line in lines)


def test_lines_without_a_file_are_left_out(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    names = [b"/nowhere/a.c", os.fsencode(tmp_path / "fifo"), b"???", b"/dev/zero", b"/proc/self/maps", b"a\0b"]
    text = [b"0000000000001010 <spin>:", b"spin():", *(name + b":7 (discriminator 2)" for name in names), b"    1010:\tnop", b""]
    assert [*with_source(text)] == [text[0], *text[-2:]]
