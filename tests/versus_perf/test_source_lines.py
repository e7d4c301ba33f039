"""Tests of source lines of compiled programs against addr2line and perf."""

from __future__ import annotations

import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.source_lines import SourceLines
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import ElfFile
from tests.builders.patient_perf import patient
from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

PROGRAM = """
#include <algorithm>
#include <map>
#include <string>
#include <vector>
struct Less { bool operator()(int a, int b) const { return (a * 31 ^ a >> 3) < (b * 31 ^ b >> 3); } };
template <class T> __attribute__((noinline)) T total(const std::vector<T> &v) {
  T s{};
  for (auto x : v) s += x ^ s << 1;
  return s;
}
__attribute__((noinline, section(".text.cold"))) static int cold(int x) { return x % 7; }
int main() {
  long sum = 0;
  for (int k = 0; k < 10; k++) {
    std::vector<int> v(20000);
    for (auto &x : v) x = rand();
    std::sort(v.begin(), v.end(), Less());
    std::map<std::string, int> m;
    for (int i = 0; i < 3000; i++) m[std::to_string(v[i] % 501)]++;
    sum += total(v) + m.size() + cold(k);
  }
  return sum == 1;
}
"""
FLAGS = (
    "-O2 -gdwarf-5",
    "-O0 -gdwarf-4",
    "-O2 -gdwarf-3 -no-pie",
    "-O3 -gdwarf-2",
    "-O2 -gdwarf-5 -gz",
    "-O1 -g -ffunction-sections",
)


def need(*tools: str) -> None:
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")


@pytest.fixture(params=FLAGS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    need("g++")
    (tmp_path / "work.cpp").write_text(PROGRAM)
    command = ["g++", *request.param.split(), "-o", "work", "work.cpp"]
    subprocess.run(command, check=True, capture_output=True, timeout=120, cwd=tmp_path)
    return tmp_path / "work"


def test_lines_equal_addr2lines(program: Path) -> None:
    need("addr2line")
    file, chance = ElfFile(str(program)), random.Random(1)
    code = [section for section in file.sections[1:] if section.flags & 4 and section.size]
    chosen = {chance.randrange(section.addr, section.addr + section.size) for section in code for _ in range(400)}
    addresses = np.array(sorted(chosen), np.uint64)
    lines = SourceLines(UnitIndex(DebugSections(file)), as_addr2line=True)
    position = lines.find(addresses)
    pairs = zip(position.file.tolist(), position.line.tolist(), strict=True)
    ours = [f"{lines.paths[path]}:{line or '?'}" if path >= 0 else "??:0" for path, line in pairs]
    questions = "".join(f"{address:#x}\n" for address in addresses.tolist())
    output = subprocess.run(
        ["addr2line", "-e", str(program)], input=questions, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    theirs = [line.partition(" (discriminator")[0] for line in output.splitlines()]
    different = [row for row in zip(addresses.tolist(), ours, theirs, strict=True) if row[1] != row[2]]
    assert len(different) <= 0.03 * len(addresses), different[:5]


OPTIONS = (
    "report --stdio --no-children -g none -s srcline",
    "report --stdio --no-children -g none -s srcfile,sym",
    "report --stdio --no-children -g none -s srcline --full-source-path",
    "report --stdio --no-children -g caller,srcline -s comm",
    "report --stdio --no-children -g address -s comm",
    "script -F ip,sym,srcline",
    "script -F comm,tid,ip,srccode -G",
)


@pytest.mark.live
@pytest.mark.parametrize(("program", "flags"), [(flags, flags) for flags in FLAGS[::2]], indirect=["program"], ids=FLAGS[::2])
@pytest.mark.thorough
def test_text_is_perfs(program: Path, flags: str, perf: str, tmp_path: Path) -> None:
    need("addr2line")
    record = [perf, "record", "-q", "-e", "cpu-clock", "-F", "1000", "-g", "-o", "work.data", str(program)]
    subprocess.run(record, check=True, capture_output=True, timeout=60, cwd=tmp_path)

    def lines(arguments: str, *tool: str) -> list[str]:
        command, *rest = arguments.split()
        process = run([*tool, command, "-i", "work.data", *rest], timeout=120, cwd=tmp_path, env=patient(tmp_path))
        return [line for line in process.stdout.decode().splitlines() if not line.startswith("# (Tip")]

    # the layouts of debug information differ in what is read, not in how it is printed
    arguments = OPTIONS if flags == FLAGS[0] else OPTIONS[-2:]
    assert [one for one in arguments if lines(one, *PERFPY) != lines(one, perf)] == []
