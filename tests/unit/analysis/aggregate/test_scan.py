"""A recording with stack copies, unwound by several processes, gives the report of one: rows, trees, notes."""

from __future__ import annotations

import lzma
import os
import signal
import struct
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.abi.flags import SampleType
from perfpy.analysis.aggregate import scan
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, NameOptions, ReportOptions
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.unwind.callchains import UserCallchains
from perfpy.views.report.text import TextOptions, report_lines
from perfpy.views.stacks.exports import folded_lines
from tests.builders import call_frames as cfi
from tests.builders.elf import Elf
from tests.builders.own_corpus import HERE, RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.timeline import comm, mmap

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.unwind.truncated_stacks import TruncatedStacks

CODE, STACK, COPY = 0x400000, 0x7FFF0000, 64
CALLERS = CallGraph(order="caller")
ASKED = {
    "default": ReportOptions(),
    "callers": ReportOptions(chains=ChainOptions(call_graph=CALLERS, children=True)),
    "callees": ReportOptions(
        chains=ChainOptions(call_graph=CallGraph(order="callee")),
        names=NameOptions(verbose=True),
        columns=ColumnOptions(sort="comm,dso,sym,pid"),
    ),
    "lines": ReportOptions(chains=ChainOptions(call_graph=CALLERS, children=True), columns=ColumnOptions(sort="srcline")),
}
SYMBOLS = SymbolOptions(
    symfs=str(HERE / "symfs"), inline=Inline.NONE, cache=False
)  # has the recorded program; no file of this machine is taken for it
INLINES = {"none": Inline.NONE, "as perf": Inline.UNWOUND_AS_PERF, "all": Inline.ALL}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Split small files, too; return the list of the processes of each report."""
    counts = []
    ranges = scan.SampleScan._ranges

    def counted(self: scan.SampleScan) -> list[range]:
        actual_ranges = ranges(self)
        counts.append(len(actual_ranges))
        return actual_ranges

    monkeypatch.setattr(scan.SampleScan, "_ranges", counted)
    monkeypatch.setattr(scan, "STACKS_EACH", 1)
    monkeypatch.setattr(scan, "SAMPLES_EACH", 1)
    monkeypatch.setattr("perfpy.workers.can_fork", lambda: True)
    return counts


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a recording with stacks, read in several chunks."""
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 16)
    unpacked = tmp_path / "perf.data"
    unpacked.write_bytes(lzma.decompress((RECORDINGS / "chains-dwarf.data.xz").read_bytes()))
    return unpacked


Shown = tuple[list[str], list[tuple[str, int]], list[str], list[str], "list[TruncatedStacks]"]


def shown(path: Path, options: ReportOptions, jobs: int, symbols: SymbolOptions = SYMBOLS) -> Shown:
    """Return all texts of a report: rows, missing symbols, notes, warnings, truncated stacks."""
    with Recording(path) as recording:
        report = recording.report(options=options, jobs=jobs, symbols=symbols)
        lines = [line for line in report_lines(report, TextOptions()) if "# (Tip:" not in line]
        return lines, [(item.dso.name, item.samples) for item in report.missing], report.notes, recording.warnings, report.truncated


@pytest.mark.parametrize(("requested", "inline"), [*((requested, "none") for requested in ASKED), ("callers", "as perf"), ("lines", "all")])
def test_reports_are_the_same(path: Path, requested: str, inline: str, parts: list[int]):
    symbols = SYMBOLS._replace(inline=INLINES[inline])
    together = shown(path, ASKED[requested], 3, symbols)
    assert together == shown(path, ASKED[requested], 1, symbols)
    assert any("--" in line for line in together[0]) == (ASKED[requested].chains.call_graph is not None)
    assert 1 < parts[0] <= 3
    assert parts[1] == 1


def test_truncated_stacks_of_all_parts_are_added_up(tmp_path: Path, parts: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 2048)
    path = tmp_path / "truncated.data"
    path.write_bytes(truncated_stacks(tmp_path, 60))
    symbols = SYMBOLS._replace(symfs="")
    result = shown(path, ASKED["callers"], 3, symbols)
    (truncated,) = result[-1]
    assert (truncated.truncated, truncated.stacks, truncated.size) == (60, 60, COPY)
    assert result == shown(path, ASKED["callers"], 1, symbols)
    assert parts == [3, 1]


def truncated_stacks(folder: Path, count: int) -> bytes:
    """Build samples of a function whose recursion is deeper than the stack copies."""
    info = cfi.CallFrameInfo()
    info.entry(info.common(cfi.define_cfa(7, 8), cfi.offset(16, 1)), 0x1000, 0x100)
    elf = Elf().text(0x1000, size=0x400).segment(0, 0, 0x4000).symbol("deep", 0x1000, 0x100).symbol("deep", 0x1000, 0x100, table=".dynsym")
    elf.section(".eh_frame", info.section(), addr=0x2000, offset=0x2000)
    program = folder / "program"
    program.write_bytes(elf.section(".eh_frame_hdr", info.header(0x3000), addr=0x3000, offset=0x3000).build())
    sample_type = USUAL | SampleType.CALLCHAIN | SampleType.REGS_USER | SampleType.STACK_USER
    built = PerfDataBuilder([usual_attr(sample_type, sample_regs_user=1 << 6 | 1 << 7 | 1 << 8, sample_stack_user=COPY)])
    built.record(comm(7, "made")).record(mmap(7, CODE, 0x4000, str(program))).record(mmap(7, STACK, 0x1000, "[stack]", prot=3))
    registers, stack = [0, STACK, CODE + 0x1000], struct.pack("<Q", CODE + 0x1020) * (COPY // 8)
    for time in range(100, 100 + count):
        values: dict[str, Any] = {"time": time, "pid": 7, "tid": 7, "period": 1, "ip": CODE + 0x1000, "misc": 2, "callchain": []}
        built.sample(**values, user_regs=registers, user_regs_abi=2, user_stack=stack)
    return built.file()


def test_folded_stacks_are_the_same(path: Path, parts: list[int]):
    def lines(jobs: int) -> list[list[str]]:
        with Recording(path) as recording:
            return [list(folded_lines(part)) for part in recording.stacks(SYMBOLS._replace(inline=Inline.ALL), jobs=jobs)]

    assert lines(3) == lines(1)
    assert max(line.count(";") for line in lines(1)[0]) > 3
    assert parts[0] > 1


def test_reports_without_chains_unwind_nothing(path: Path, parts: list[int], monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("stacks are unwound")

    monkeypatch.setattr(UserCallchains, "extend", refuse)
    assert shown(path, ReportOptions(), 3)[0]


def test_a_part_whose_process_was_killed_is_unwound_here(path: Path, parts: list[int], monkeypatch: pytest.MonkeyPatch):
    alone, here, extended = shown(path, ASKED["callers"], 1), os.getpid(), UserCallchains.extend

    def killed(self: UserCallchains, *args: object) -> object:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return extended(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(UserCallchains, "extend", killed)
    assert shown(path, ASKED["callers"], 3) == alone
    assert parts[-1] > 1
