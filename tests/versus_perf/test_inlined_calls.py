"""Tests of inlined calls in compiled programs against addr2line, and against perf in unwound stacks."""

from __future__ import annotations

import collections
import difflib
import os
import random
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.debuginfo.inlined_calls import InlineFinder
from perfpy.debuginfo.sections import DebugSections
from perfpy.debuginfo.unit_index import UnitIndex
from perfpy.symbols.files.elf import ElfFile
from tests.builders.patient_perf import patient
from tests.builders.prepared_start import PERFPY, run

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.versus_perf

PROGRAM = """
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
namespace app {
static inline unsigned mix(unsigned x) { x ^= x << 13; x ^= x >> 17; return x ^ x << 5; }
inline unsigned many(unsigned s, int n) { for (int i = 0; i < n; i++) s = mix(s); return s; }
struct Work {
  std::vector<unsigned> v; std::map<unsigned, std::string> m;
  void fill(unsigned n) { unsigned s = 1; for (unsigned i = 0; i < n; i++) v.push_back(s = many(s, 3)); }
  void order() { std::sort(v.begin(), v.end(), [](unsigned a, unsigned b) { return a * 7 % 1013 < b * 7 % 1013; }); }
  void names() { for (unsigned i = 0; i < v.size(); i += 16) m[v[i]] = std::to_string(i); }
};
}
__attribute__((noinline)) unsigned long work(int n) { app::Work w; w.fill(n); w.order(); w.names(); return w.m.size(); }
int main() { unsigned long t = 0; for (int i = 0; i < 12; i++) t += work(60000); return t == 1; }
"""
FLAGS = ("-O2 -gdwarf-5", "-O2 -gdwarf-4", "-O3 -gdwarf-3 -no-pie", "-O2 -gdwarf-2", "-O2 -gdwarf-5 -gz", "-O2 -g -flto")


def need(*tools: str) -> None:
    for tool in tools:
        if not shutil.which(tool):
            pytest.skip(f"no {tool} here")


@pytest.fixture(params=FLAGS)
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    need("g++")
    return compiled(tmp_path, "work", request.param)


def compiled(folder: Path, name: str, flags: str) -> Path:
    (folder / "work.cpp").write_text(PROGRAM)
    subprocess.run(["g++", *flags.split(), "-o", name, "work.cpp"], check=True, capture_output=True, timeout=120, cwd=folder)
    return folder / name


def our_calls(path: Path, addresses: list[int]) -> list[list[tuple[str, int]]]:
    """Return for each address the functions, innermost first, and the lines of their calls."""
    finder = InlineFinder(UnitIndex(DebugSections(ElfFile(str(path)))))
    calls = finder.find(np.array(addresses, np.uint64))
    rows = iter(calls.rows())
    return [[(finder.names[name].decode(), line) for name, _, _, line, *_ in (next(rows) for _ in range(count))] for count in calls.counts]


def their_calls(path: Path, addresses: list[int]) -> list[list[tuple[str, int]]]:
    """Return the same of addr2line, which is asked twice: its first answer for a function can have another's name."""
    questions = "".join(f"{address:#x}\n" for address in addresses * 2)
    command = ["addr2line", "-a", "-f", "-i", "-e", str(path)]
    output = subprocess.run(command, input=questions, capture_output=True, text=True, check=True, timeout=60).stdout
    answers = re.split(r"^0x[0-9a-f]+\n", output, flags=re.MULTILINE)[1:]
    return [functions(answer) for answer in answers[len(addresses) :]]


def functions(answer: str) -> list[tuple[str, int]]:
    lines = answer.splitlines()
    numbers = [int(match[1]) if (match := re.search(r":(\d+)( \(disc.*)?$", line)) else 0 for line in lines[1::2]]
    return list(zip(lines[::2], [*numbers[1:], 0], strict=True))


def addresses_of(path: Path) -> list[int]:
    text, chance = ElfFile(str(path)).section(".text"), random.Random(1)
    assert text is not None
    return sorted({chance.randrange(text.addr, text.addr + text.size) for _ in range(1500)})


def test_calls_equal_addr2lines(program: Path) -> None:
    need("addr2line")
    addresses = addresses_of(program)
    pairs = zip(addresses, our_calls(program, addresses), their_calls(program, addresses), strict=True)
    # outside of functions, addr2line names a symbol
    different = [pair for pair in pairs if pair[1] != pair[2] and (pair[1] or len(pair[2]) > 1)]
    assert len(different) <= 0.03 * len(addresses), different[:3]


@pytest.mark.parametrize("version", [4, 5])
def test_split_units_give_the_same_calls(tmp_path: Path, version: int) -> None:
    need("g++")
    whole = compiled(tmp_path, "whole", f"-O2 -gdwarf-{version}")
    split = compiled(tmp_path, "split", f"-O2 -gdwarf-{version} -gsplit-dwarf")
    addresses = addresses_of(whole)
    assert our_calls(split, addresses) == our_calls(whole, addresses)


def test_calls_in_files_that_are_not_linked(tmp_path: Path) -> None:
    need("addr2line", "gcc")
    (tmp_path / "work.c").write_text(MODULE)
    subprocess.run(["gcc", "-O2", "-g", "-c", "work.c"], check=True, capture_output=True, timeout=120, cwd=tmp_path)
    path = tmp_path / "work.o"
    text = ElfFile(str(path)).section(".text")
    assert text is not None
    addresses = list(range(text.size))
    command = ["addr2line", "-a", "-f", "-i", "-j", ".text", "-e", str(path)]
    questions = "".join(f"{address:#x}\n" for address in addresses)
    output = subprocess.run(command, input=questions, capture_output=True, text=True, check=True, timeout=60).stdout
    theirs = [functions(answer) for answer in re.split(r"^0x[0-9a-f]+\n", output, flags=re.MULTILINE)[1:]]
    ours = our_calls(path, [text.offset + address for address in addresses])
    assert sum(len(calls) > 1 for calls in theirs) > 10
    assert [pair for pair in zip(ours, theirs, strict=True) if pair[0] and pair[0] != pair[1]] == []
    assert sum(not calls for calls in ours) < 0.2 * len(ours)  # between functions


MODULE = """
static inline int mixed(int x) { x ^= x << 13; return x ^ x >> 17; }
static inline int many(int x, int n) { for (int i = 0; i < n; i++) x = mixed(x); return x; }
int first(int *all, int n) { int sum = 0; for (int i = 0; i < n; i++) sum += many(all[i], 3); return sum; }
int second(int x) { return mixed(x) + many(x, x); }
"""

ASKED = ("script", "script --no-inline", "report --stdio --no-children -g", "report --stdio --no-children -g folded")


# compared without the order of equal siblings, which perf takes from comparisons that are not transitive
REORDERED = (
    "report --stdio --no-children -g fractal,0.5,caller",
    "report --stdio -g fractal --no-inline",
    "report --stdio --no-children -s pid",
    "report --stdio --no-children -s comm -g caller",
)


class Recorded:
    """A recording of PROGRAM with copies of its stacks, and what perf and perfpy print of it."""

    def __init__(self, folder: Path, perf: str, flags: str) -> None:
        self._folder = folder
        self._perf = perf
        program = compiled(folder, "work", flags)
        record = [perf, "record", "-q", "-e", "cpu-clock", "-F", "1000", "--call-graph", "dwarf", "-o", "work.data", str(program)]
        # addr2line's first answer for a function can have another's name. perf asks in the order of time and perfpy in that of the file;
        # these are the same if all samples are of one CPU.
        cpu = min(os.sched_getaffinity(0))
        subprocess.run(["taskset", "-c", str(cpu), *record], check=True, capture_output=True, timeout=60, cwd=folder)

    def both(self, arguments: str) -> tuple[list[str], list[str]]:
        """Return perf's lines, and perfpy's."""
        return self.lines(arguments, self._perf), self.lines(arguments, *PERFPY)

    def lines(self, arguments: str, *tool: str) -> list[str]:
        command, *rest = arguments.split()
        # perf leaves a bit of the symbol [...] uninitialized, which then is inlined or not; memory from malloc is zero with these
        environment = {**patient(self._folder), "MALLOC_PERTURB_": "255", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
        process = run([*tool, command, "-i", "work.data", *rest], timeout=120, cwd=self._folder, env=environment)
        return [line for line in process.stdout.decode().splitlines() if not line.startswith("# (Tip")]


@pytest.fixture(scope="module")
def recorded(request: pytest.FixtureRequest, perf: str, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    need("addr2line", "g++")
    return Recorded(tmp_path_factory.mktemp("recorded"), perf, getattr(request, "param", FLAGS[0]))


@pytest.mark.live
@pytest.mark.parametrize("recorded", FLAGS[:2], indirect=True)
@pytest.mark.thorough
def test_text_is_perfs(recorded: Recorded, perf: str) -> None:
    assert any("(inlined)" in line for line in recorded.lines("script", perf))
    for options in ASKED:
        theirs, ours = recorded.both(options)
        same = difflib.SequenceMatcher(None, theirs, ours, autojunk=False).ratio()
        assert same >= 0.97, f"{options}: {same:.3f} of the lines"


def calls_of(lines: list[str]) -> collections.Counter[str]:
    """Return how often each call is drawn, wherever it is."""
    return collections.Counter(re.sub(r"^[\s|-]+", "", line) for line in lines)


@pytest.mark.live
@pytest.mark.thorough
def test_trees_are_perfs_but_for_the_order_of_equal_callers(recorded: Recorded) -> None:
    for options in REORDERED:
        theirs, ours = recorded.both(options)
        assert len(theirs) > 50
        different = calls_of(theirs) - calls_of(ours)
        assert different.total() <= 0.03 * len(theirs), f"{options}: {different}"


def sums_of(lines: list[str]) -> dict[str, tuple[float, float, int]]:
    """Return for each function and file the sums of Children and Self in percent, and the number of its rows."""
    sums: dict[str, tuple[float, float, int]] = {}
    for line in lines:
        if match := re.match(r"^ +([\d.]+)% +([\d.]+)%  (\S.*?) *$", line):
            children, own, count = sums.get(match[3], (0.0, 0.0, 0))
            sums[match[3]] = children + float(match[1]), own + float(match[2]), count + 1
    return sums


@pytest.mark.live
@pytest.mark.thorough
def test_a_function_has_no_more_rows_than_in_perf(recorded: Recorded) -> None:
    """perf compares two symbols by name if one is inlined, else by address: its rows of one function may lie apart in its tree."""
    theirs, ours = (sums_of(lines) for lines in recorded.both("report --stdio -g none -s sym,dso"))
    assert len(ours) > 30
    assert ours.keys() == theirs.keys()
    for function, (children, own, count) in ours.items():
        their_children, their_own, their_count = theirs[function]
        assert count <= their_count
        assert (children, own) == pytest.approx((their_children, their_own), abs=0.01 * their_count), function
