"""Blocks of code between two branches, and their cycles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi import records
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.abi.records import SampleId
from perfpy.cli import run
from perfpy.perfdata.features import EventDesc, Feature
from tests.builders import own_corpus
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SPIN, INNER = 0x400176, 0x4001B7  # functions of the corpus's program
LOOP = (SPIN + 0x37, SPIN + 0xC)  # its branch back
CALL = (INNER + 4, SPIN)


def recorded(folder: Path, *stacks: list[tuple[tuple[int, int], int]], kind: int = BranchSample.ANY) -> Path:
    """Record samples with these branches, newest first, and the cycles of each."""
    attr = usual_attr(USUAL | SampleType.BRANCH_STACK, type=0, branch_sample_type=kind | BranchSample.USER, mmap=1, comm=1)
    built = PerfDataBuilder(attrs=[attr])
    who = SampleId(pid=40, tid=40, time=1)
    built.record(records.Comm(0x2000, 40, 40, "work", who))
    built.record(records.Mmap2(2, 40, 40, 0x400000, 0x1000, 0, 8, 1, 99, 0, 5, 2, "/tmp/c/work", b"", who))
    for number, stack in enumerate(stacks):
        branches = [(*ends, cycles << 4) for ends, cycles in stack]
        built.sample(misc=2, ip=SPIN, pid=40, tid=40, time=10 + number, period=1, branch_stack=branches)
    built.feature(Feature.ARCH, "x86_64").feature(Feature.BRANCH_STACK, b"")
    path = folder / "perf.data"
    path.write_bytes(built.feature(Feature.EVENT_DESC, (EventDesc(attr, "cycles:u", ()),)).file())
    return path


def rows(path: Path, capfd: pytest.CaptureFixture[str]) -> list[list[str]]:
    symfs = str(own_corpus.HERE / "symfs")
    assert run(["report", "--stdio", "--total-cycles", "--symfs", symfs, "--kallsyms", "/dev/null", "-i", str(path)]) == 0
    lines = capfd.readouterr().out.splitlines()
    return [line.split(maxsplit=4) for line in lines if line and not line.startswith("#")]


def test_a_block_is_the_longest_with_the_cycles_of_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    actual_rows = rows(recorded(tmp_path, [(LOOP, 8), (CALL, 5)], [(LOOP, 6), (LOOP, 8)]), capfd)
    # 8 + 6 + 8 of 27 cycles; 7 at a time; perf's 100 % of these counts a block for each way into its function: 8, 6 and 5 cycles
    assert [row[:4] for row in actual_rows] == [["81.48%", "22", "33.33%", "7"]]
    assert actual_rows[0][4].split() == ["[spin+0", "->", "spin+55]", "work"]


def test_samples_whose_last_branch_has_no_cycles_are_not_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    actual_rows = rows(recorded(tmp_path, [(LOOP, 8), (CALL, 2)], [(LOOP, 0), (LOOP, 500)]), capfd)
    assert [row[:2] for row in actual_rows] == [["80.00%", "8"]]


def test_beginnings_are_unknown_if_some_branches_were_not_recorded(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The block then begins at the function's first instruction."""
    branches = [(LOOP, 8), (LOOP, 8)]
    for kind, first in ((BranchSample.ANY, "[spin+12"), (BranchSample.COND, "[spin+0")):
        assert rows(recorded(tmp_path, branches, kind=kind), capfd)[0][4].split()[0] == first


def test_thousands_and_millions(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    long = [(LOOP, 65535)] * 20
    assert rows(recorded(tmp_path, long), capfd)[0][1:4] == ["1.3M", "100.00%", "65.5K"]
