"""Tests of blocks between branches and of the types of branches, against counts by hand."""

from __future__ import annotations

import contextlib
import io
import random
import re
import shutil
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

import perfpy
from perfpy.abi.attr import EventAttr
from perfpy.abi.flags import BranchSample, SampleType
from perfpy.abi.records import Comm, Mmap2, SampleId
from perfpy.analysis.dimensions import CYCLES_SHIFT as _SHIFT
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.report.branch_blocks import COLUMNS, branch_coverage, branch_kinds
from perfpy.cli import run
from perfpy.perfdata.header import Feature
from perfpy.views.report.text import branch_kind_lines
from perfpy.views.script.code import BranchCounters
from tests.builders.elf import ALLOC, EXEC, Elf
from tests.builders.perfdata import PerfDataBuilder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from perfpy.recording import Recording

FILE, OTHER = 0x400000, 0x800000
COND, CALL, NEW = 1 << 20, 4 << 20, 15 << 20 | 1 << 26
PREDICTED = 2
CYCLES_SHIFT = int(_SHIFT)

needs_objdump = pytest.mark.skipif(not shutil.which("objdump"), reason="needs objdump")


def recording(folder: Path, stacks: Iterable[list[tuple[int, int, int]]], kind: int = BranchSample.ANY | BranchSample.TYPE_SAVE) -> Path:
    """Write samples of one process with these branches, the newest first."""
    fields = SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.BRANCH_STACK
    built = PerfDataBuilder([EventAttr(sample_type=fields, branch_sample_type=kind, sample_period=1, sample_id_all=1)], [(1,)])
    ids = SampleId(pid=7, tid=7, time=1)
    built.record(Comm(0, 7, 7, "walker", ids))
    for start in (FILE, OTHER):
        built.record(Mmap2(2, 7, 7, start, 0x10000, 0, 8, 1, 99 + start, 0, 5, 2, f"/none/{start:x}", b"", ids))
    for number, stack in enumerate(stacks):
        built.sample(0, misc=2, ip=FILE, pid=7, tid=7, time=10 + number, branch_stack=stack)
    built.feature(Feature.BRANCH_STACK, b"")
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path


def kinds(opened: Recording) -> dict[str, int]:
    return branch_kinds(opened.batches(COLUMNS), opened.events, opened.timeline, opened.symbolizer(), SampleFilter())


def test_each_branch_counts_for_its_own_type(tmp_path: Path) -> None:
    stack = [
        (FILE + 8, FILE + 4, COND), (FILE + 4, FILE + 8, COND), (FILE + 4, FILE + 0x2000, CALL), (FILE, FILE + 0x300000, CALL),
        (FILE, FILE + 4, NEW), (FILE, FILE + 4, 0), (0, FILE, CALL), (FILE, FILE + 1, 15 << 20 | 9 << 26),
    ]  # fmt: skip
    with perfpy.open(recording(tmp_path, [stack, []])) as opened:
        counts = kinds(opened)
    assert counts == {"COND_FWD": 1, "COND_BWD": 1, "CROSS_4K": 1, "CROSS_2M": 1, "COND": 2, "CALL": 2, "FAULT_DATA": 1}
    lines = list(branch_kind_lines(counts))
    assert lines[:5] == ["", "#", "# Branch Statistics:", "#", "COND_FWD:  25.0%"]
    assert lines[-1] == "FAULT_DATA:  25.0%"
    assert list(branch_kind_lines({"FAULT_DATA": 1})) == []


@pytest.mark.parametrize(("kind", "is_shown"), [(BranchSample.ANY | BranchSample.TYPE_SAVE, True), (BranchSample.ANY, False)])
def test_reports_end_with_the_types_if_they_were_recorded(
    kind: int, is_shown: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recording(tmp_path, [[(FILE + 8, FILE + 4, COND)]], kind)
    for options in ([], ["--total-cycles"]):
        assert run(["report", "--stdio", *options, "-i", str(path)]) == 0
        assert capsys.readouterr().out.endswith("\n    COND: 100.0%\n") is is_shown


def test_without_samples_there_are_no_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in perf: the hint alone, and the reason on standard error."""
    path = recording(tmp_path, [], BranchSample.ANY)
    assert run(["report", "--stdio", "--total-cycles", "-i", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "# To display the perf.data header info, please use --header/--header-only options.\n#\n"
    assert "no samples in this recording" in printed.err


def test_quiet_reports_of_blocks_have_the_table_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(tmp_path, [[(FILE + 8, FILE + 4, COND)]], BranchSample.ANY)
    assert run(["report", "--stdio", "--total-cycles", "-q", "-i", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "Tip" not in printed
    assert "Samples: " not in printed
    assert run(["report", "--stdio", "--total-cycles", "-i", str(path)]) == 0
    assert "# Samples: 1  of event" in capsys.readouterr().out
    assert run(["report", "--stdio", "--total-cycles", "--time", "0,1", "-i", str(path)]) == 0
    assert " (time slices: 0,1)\n" in capsys.readouterr().out


def test_dumps_count_branches_only_where_the_report_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(tmp_path, [[(FILE + 8, FILE + 4, COND)] * 3, [(FILE + 8, FILE + 4, COND)] * 2], BranchSample.ANY)
    counts = {}
    for option in ("-b", "--no-branch-stack", "--branch-history"):
        assert run(["report", "-D", option, "-i", str(path)]) == 0
        counts[option] = int(capsys.readouterr().out.split()[-1])
    assert counts == {"-b": 5, "--no-branch-stack": 2, "--branch-history": 2}


def test_reports_of_blocks_refuse_a_parent_without_callchains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recording(tmp_path, [[(FILE + 8, FILE + 4, COND)]], BranchSample.ANY)
    assert run(["report", "--stdio", "--total-cycles", "-p", "main", "-i", str(path)]) == 255
    assert "no callchains" in capsys.readouterr().err


def test_a_column_of_counters_has_as_many_letters_as_their_mean() -> None:
    """A + marks a counter that was as large as it can be; a - one that was 0. Damaged widths do not fill the memory."""
    counters = BranchCounters(2, ["a", "b", "c"])
    assert counters.column([2, 1, 0], [3, 1, 0]) == "|AA+ |B   |-   |"
    assert counters.column([2, 1, 0], [3, 1, 0], numbers=True) == "A=2+,B=1 ,C=- "
    assert len(BranchCounters(32, ["a"]).column([1 << 31], [(1 << 32) - 1])) < 300
    assert len(BranchCounters(32, ["a"]).text((1 << 32) - 1)) < 300


def by_hand(blocks: list[tuple[int, int, int]], address: int) -> tuple[float, float, float]:
    """Return joined, left and predicted of an address as perf computes them."""

    def covering(at: int) -> int:
        return sum(start <= at <= end for start, end, _ in blocks)

    entered = sum(start == address for start, _, _ in blocks)
    taken = sum(end == address for _, end, _ in blocks)
    predicted = sum(bool(flags & PREDICTED) for _, end, flags in blocks if end == address)
    branch = min((end for _, end, _ in blocks if end >= address), default=0)
    joined = 100 * entered / covering(branch) if entered else 0.0
    return joined, 100 * taken / covering(address) if taken else 0.0, 100 * predicted / taken if taken else 0.0


@pytest.mark.parametrize("seed", range(6))
def test_coverage_is_that_of_blocks_counted_one_by_one(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    stacks = []
    for _ in range(60):
        places = [draw.choice((FILE, FILE, FILE, OTHER)) + draw.randrange(24) for _ in range(2 * draw.randrange(8))]
        stacks.append([(at, to, draw.choice((0, PREDICTED, 1))) for at, to in zip(places[::2], places[1::2], strict=True)])
    stacks.append([(FILE + 1, 0, 0), (FILE, 0, 0)])  # a target that is no code
    blocks = [
        (older[1], newer[0], newer[2]) for stack in stacks for newer, older in pairwise(stack) if FILE <= older[1] <= newer[0] < OTHER
    ]
    with perfpy.open(recording(tmp_path, stacks)) as opened:
        symbolizer = opened.symbolizer()
        coverage = branch_coverage(opened.batches(COLUMNS), opened.events, opened.timeline, symbolizer, SampleFilter())
        dso = next(number for number, dso in enumerate(symbolizer.dsos) if dso.long_name == f"/none/{FILE:x}")
        shares = dict(coverage.shares(dso, np.arange(24)))
        assert list(coverage.shares(len(symbolizer.dsos), np.arange(24))) == []
    for address in range(24):
        joined, left, predicted = by_hand(blocks, FILE + address)
        if not joined and not left:
            assert address not in shares
            continue
        assert shares[address].joined == pytest.approx(joined)
        assert shares[address].left == pytest.approx(left)
        if left:
            assert shares[address].predicted == pytest.approx(predicted)


# The instructions per cycle of functions.

#: instructions of 1, 3, 5, 2 and 1 bytes: nop; dec %rdi; mov $1,%eax; jne; ret
WALK = bytes.fromhex("90 48ffcf b801000000 75fb c3")
BOUNDARIES = (0, 1, 4, 9, 11)
FIRST, SECOND = FILE + 0x1000, FILE + 0x1010


def walked(folder: Path, stacks: Iterable[list[tuple[int, int, int]]], kind: int = BranchSample.ANY) -> Path:
    """Write branches of a program with two functions of the same code, and the program; return the recording."""
    program = Elf().section(".text", (WALK + bytes(4)) * 2, flags=ALLOC | EXEC, addr=0x1000, offset=0x1000, size=0x20)
    program.segment(0x1000, 0x1000, 0x1000).symbol("first", 0x1000, len(WALK)).symbol("second", 0x1010, len(WALK))
    (folder / "none").mkdir(parents=True)
    (folder / "none" / f"{FILE:x}").write_bytes(program.build())
    return recording(folder, stacks, kind)


def ipc_texts(path: Path, *options: str) -> dict[str, str]:
    """Return the IPC column of the functions that branches enter."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert run(["report", "--stdio", "-g", "none", "-s", "symbol_to", "--symfs", str(path.parent), "-i", str(path), *options]) == 0
    return {match[1]: match[2].strip() for match in re.finditer(r"% +\[.\] (\w+) +(.+)$", output.getvalue(), re.MULTILINE)}


def ipc_by_hand(stacks: list[list[tuple[int, int, int]]], begin: int) -> str:
    """Count instructions and cycles of the longest block up to each branch of a function, one by one."""
    executions: dict[int, dict[int, list[int]]] = {}
    for stack in stacks:
        if stack and stack[0][2] >> CYCLES_SHIFT:
            for newer, older in pairwise(stack):
                end, start, cycles = newer[0] - begin, older[1] - begin, newer[2] >> CYCLES_SHIFT
                if cycles and 0 <= start < end < len(WALK):
                    executions.setdefault(end, {}).setdefault(start, []).append(cycles)
    longest = [(end, min(starts), starts[min(starts)]) for end, starts in executions.items()]
    covered = [(end, start, cycles) for end, start, cycles in longest if end in BOUNDARIES and start in BOUNDARIES]
    instructions = sum((BOUNDARIES.index(end) - BOUNDARIES.index(start) + 1) * len(cycles) for end, start, cycles in covered)
    value = instructions / max(sum(sum(cycles) for *_, cycles in covered), 1)
    return f"{value:<5.2f} [{100 * len(covered) / len(BOUNDARIES):5.1f}%]"


@needs_objdump
@pytest.mark.parametrize("seed", range(4))
def test_the_ipc_of_a_function_is_that_of_its_longest_blocks(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    places = [start + offset for start in (FIRST, SECOND) for offset in (*BOUNDARIES, *BOUNDARIES, 5)]
    stacks = [
        [(draw.choice(places), draw.choice(places), draw.choice((0, 1, 2, 7, 40)) << CYCLES_SHIFT) for _ in range(draw.randrange(6))]
        for _ in range(40)
    ]
    expected = {"first": ipc_by_hand(stacks, FIRST), "second": ipc_by_hand(stacks, SECOND)}
    assert not any(text.startswith("0.00") for text in expected.values())
    assert ipc_texts(walked(tmp_path, stacks)) == expected


LOOP = [(FIRST + 9, FIRST + 4, 3 << CYCLES_SHIFT), (FIRST + 9, FIRST + 4, 5 << CYCLES_SHIFT), (FIRST + 9, FIRST + 4, 0)]
NO_IPC = "0.00  [  0.0%]"


@needs_objdump
def test_the_longest_block_replaces_shorter_ones_in_any_order(tmp_path: Path) -> None:
    longer = [(FIRST + 9, FIRST + 4, 2 << CYCLES_SHIFT), (FIRST + 11, FIRST + 1, 0)]
    assert ipc_texts(walked(tmp_path / "last", [LOOP, longer])) == {"first": "1.50  [ 20.0%]"}
    assert ipc_texts(walked(tmp_path / "first", [longer, LOOP])) == {"first": "1.50  [ 20.0%]"}


@needs_objdump
def test_filters_of_times_change_the_ipc_and_filters_of_rows_do_not(tmp_path: Path) -> None:
    path = walked(tmp_path, [LOOP, [(FIRST + 9, FIRST + 4, 2 << CYCLES_SHIFT), (FIRST + 11, FIRST + 1, 0)]])
    assert ipc_texts(path, "--time", "0.000000010,0.000000010") == {"first": "0.50  [ 20.0%]"}
    assert ipc_texts(path, "-d", f"{FILE:x}") == {"first": "1.50  [ 20.0%]"}
    for words in (["--comms", "nobody"], ["-S", "first"]):  # the samples themselves are elsewhere
        assert ipc_texts(path, *words) == {}


@needs_objdump
def test_functions_without_cycles_or_code_and_chosen_branches_have_no_ipc(tmp_path: Path) -> None:
    assert ipc_texts(walked(tmp_path / "calls", [LOOP], BranchSample.ANY_CALL)) == {"first": NO_IPC}
    assert ipc_texts(walked(tmp_path / "newest", [[(FIRST + 11, FIRST, 0), *LOOP]])) == {"first": NO_IPC}
    assert ipc_texts(walked(tmp_path / "none", [[], [(FIRST + 9, FIRST + 4, 3 << CYCLES_SHIFT)]])) == {"first": NO_IPC}
    path = walked(tmp_path / "cut", [LOOP])
    assert ipc_texts(path, "--objdump", "/none/objdump") == {"first": NO_IPC}
    assert ipc_texts(path, "--objdump", shutil.which("objdump") or "") == {"first": "0.50  [ 20.0%]"}
    program = path.parent / "none" / f"{FILE:x}"
    program.write_bytes(program.read_bytes().replace(WALK, b""))  # too short for its own headers
    assert set(ipc_texts(path).values()) <= {NO_IPC, "-"}
