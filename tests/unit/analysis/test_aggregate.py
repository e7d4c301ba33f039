"""Aggregates of samples, their sums, and sums beyond 64 bits."""

from __future__ import annotations

import errno
import lzma
import os
import random
import signal
import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.abi.columns import Columns
from perfpy.abi.flags import CONTEXT_KERNEL, CONTEXT_USER, MISC_KERNEL, MISC_USER, SampleType
from perfpy.abi.records import Comm, Mmap2, SampleId
from perfpy.analysis.aggregate import overflow, profile, scan
from perfpy.analysis.aggregate import overflow as runs
from perfpy.analysis.aggregate import profile as chain_numbers
from perfpy.analysis.aggregate.overflow import VARIABLE, Overflow, ScratchFile, memory_for, memory_limit
from perfpy.analysis.aggregate.profile import FirstDelivery
from perfpy.analysis.report import call_trees, entries
from perfpy.analysis.report import entries as rows
from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, NameOptions, ReportOptions, TimeOptions
from perfpy.analysis.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.stacks import StackOptions
from perfpy.errors import OutputFailedError, UsageError
from perfpy.perfdata.records import stream
from perfpy.perfdata.records.stream import RecordStream
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.symbols.interning import GroupSums, sum_by
from perfpy.unwind.callchains import UserCallchains
from perfpy.views.report.text import TextOptions, report_lines
from perfpy.views.stacks.exports import folded_lines
from perfpy.views.stacks.protobuf_exports import pprof
from tests.builders import call_frames as cfi
from tests.builders.elf import Elf
from tests.builders.options import report_options
from tests.builders.own_corpus import HERE, RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.timeline import comm, mmap

if TYPE_CHECKING:
    from pathlib import Path

    from perfpy.symbols.quality_notes import TruncatedStacks


# Samples folded to rows.


PROCESSES = (7, 8)
CODE = 0x400000


def recording() -> bytes:
    """Build two processes whose programs change, with chains, in rounds within which times go back and forth."""
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN, sample_id_all=1)])
    for time in range(1, 400):
        pid = PROCESSES[time * time % 7 % 2]
        when = 10 * time + (25 if time % 3 else 0)
        if time % 50 == 1:
            built.record(Comm(0, pid, pid, f"name{time % 4}", SampleId(pid=pid, tid=pid, time=when)))
        if time % 70 == 3:
            where = (pid, pid, CODE, 0x1000, 0, 8, 1, 99, 0, 5, 2)
            built.record(Mmap2(MISC_USER, *where, f"/nowhere/{time}", b"", SampleId(pid=pid, tid=pid, time=when)))
        chain = [CONTEXT_USER, *(CODE + 16 * (time * step % 11) for step in range(1, 2 + time % 4))]
        built.sample(misc=MISC_USER, pid=pid, tid=pid + time % 2, time=when, ip=chain[1], period=time % 5, callchain=chain)
        if time % 40 == 0:
            built.round()
    return built.file()


def report(path: Path, **changes: Any) -> dict[str, Any]:
    options = report_options(call_graph=CallGraph(), columns=ColumnOptions(sort="comm,dso,symbol,pid"), **changes)
    with Recording(path) as opened:
        return opened.report(options=options).to_dict()


@pytest.mark.parametrize("children", [False, True])
@pytest.mark.slow
def test_rows_do_not_depend_on_the_size_of_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, children: bool) -> None:
    """Also if the groups of samples are forgotten after each piece of the file."""
    path = tmp_path / "perf.data"
    path.write_bytes(recording())
    expected = report(path, children=children)
    assert len(expected["events"][0]["rows"]) > 30
    monkeypatch.setattr(profile, "_KINDS_KEPT", 0)
    for module in (chain_numbers, rows, entries):
        monkeypatch.setattr(module, "_FRAMES_AT_ONCE", 1)
    monkeypatch.setattr(call_trees, "_WALKERS_AT_ONCE", 1)
    monkeypatch.setattr(stream.RecordStream.__init__, "__kwdefaults__", {"chunk_size": 1024})
    assert report(path, children=children) == expected


KERNEL = 0xFFFFFFFF81000000


def in_two_functions(folder: Path) -> tuple[Path, SymbolOptions]:
    """Record ten samples at different addresses of a function, called from different addresses of another."""
    names = folder / "kallsyms"
    names.write_text("".join(f"{KERNEL + 0x100 * at:x} T {name}\n" for at, name in enumerate(["_text", "inner", "outer", "_etext"])))
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.CALLCHAIN)])
    whole = (0xFFFFFFFF, 0, KERNEL, 0x1000, KERNEL, 0, 0, 0, 0, 0, 0)
    built.record(Mmap2(MISC_KERNEL, *whole, "[kernel.kallsyms]_text", b"", SampleId(pid=0, tid=0, time=1)))
    for time in range(10, 20):
        ip = KERNEL + 0x100 + time
        built.sample(misc=MISC_KERNEL, pid=7, tid=7, time=time, ip=ip, period=1, callchain=[CONTEXT_KERNEL, ip, ip + 0x100])
    path = folder / "perf.data"
    path.write_bytes(built.file())
    return path, SymbolOptions(kallsyms=str(names), cache=False)


@pytest.mark.parametrize("options", [{}, {"verbose": True}, {"call_graph": CallGraph(key="address")}], ids=["plain", "-v", "-g address"])
def test_places_in_one_function_are_one_row(tmp_path: Path, options: dict[str, Any]) -> None:
    """Whether or not the chains are separated by address, because addresses are shown."""
    path, symbols = in_two_functions(tmp_path)
    chosen_options = report_options(children=True, columns=ColumnOptions(sort="symbol"), **{"call_graph": CallGraph(), **options})
    with Recording(path) as opened:
        table = opened.report(options=chosen_options, symbols=symbols).histograms[0]
    outer, inner = table.rows()
    assert (outer.values["children"], outer.values["samples"]) == ([10], [0])
    assert (inner.values["children"], inner.values["samples"]) == ([10], [10])
    # callers or callees of a row, in the tree below it
    nodes = table.calls(inner.entry)
    assert sum(node.period for node in nodes) == 10
    assert (len(nodes) == 10) is ("call_graph" in options)


def test_stacks_are_separated_by_function(tmp_path: Path) -> None:
    path, symbols = in_two_functions(tmp_path)
    with Recording(path) as opened:
        (stacks,) = opened.stacks(symbols)
    assert [stacks.functions[number].name for number in stacks.frames] == ["inner", "outer"]
    assert stacks.total == 10


# The first delivered sample of each row.


ATTRS = [EventAttr(sample_type=SampleType.TID)]
Sample = tuple[int, int, int, int]


def view(samples: list[Sample], place: int) -> SampleView:
    """Return samples of (row, tid, key, time), in the order of a file with `place` samples before them."""
    _, tid, key, time = (np.array(column, np.uint64) for column in zip(*samples, strict=True))
    moments = DeliveryOrder(key, time, np.arange(place, place + len(samples)))
    columns = Columns(len(samples), {"tid": tid.astype(np.int32)})
    return SampleView(columns, np.zeros(len(samples), np.int32), moments, ATTRS, None, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(30))
def test_rows_keep_their_first_sample_in_any_order(seed: int) -> None:
    """Keys and times have many ties; some keys are later than their times, like those of late samples."""
    generator = random.Random(seed)
    times = [generator.randrange(8) for _ in range(60)]
    samples = [(generator.randrange(9), generator.randrange(4), max(time, generator.randrange(8)), time) for time in times]
    firsts, size = FirstDelivery(), 0
    cuts = [0, *sorted(generator.sample(range(1, 60), 3)), 60]
    for begin, end in pairwise(cuts):
        rows = np.array([row for row, *_ in samples[begin:end]], np.int32)
        size = max(size, int(rows.max()) + 1)
        firsts.add(rows, size, view(samples[begin:end], begin))
    expected: dict[int, tuple[int, ...]] = {}
    for place in sorted(range(60), key=lambda place: (samples[place][2:], place)):
        row, tid, key, time = samples[place]
        expected.setdefault(row, (key, time, place, tid))
    moments, tids = firsts.first_samples(size)
    results = {row: (*(int(column[row]) for column in moments), int(tids[row])) for row in expected}
    assert results == expected
    assert [row for row in moments.order().tolist() if row in expected] == list(expected)


def test_after_batches_in_order_new_rows_and_late_samples_count() -> None:
    firsts = FirstDelivery()
    batches: list[list[Sample]] = [
        [(2, 5, 10, 10), (0, 6, 11, 11), (2, 7, 12, 12)],  # no sample of row 1 yet
        [(2, 8, 20, 20), (1, 9, 21, 21), (1, 4, 22, 22), (3, 3, 23, 23)],
        [(0, 1, 5, 5), (3, 2, 24, 24)],  # the first one is late
        [(3, 1, 23, 22)],  # as early as the first one, with an earlier time
    ]
    place = 0
    for batch in batches:
        firsts.add(np.array([row for row, *_ in batch], np.int32), 4, view(batch, place))
        place += len(batch)
    moments, tids = firsts.first_samples(4)
    assert moments.key.tolist() == [5, 21, 10, 23]
    assert tids.tolist() == [1, 9, 5, 1]


# A recording folded by several processes gives the report of one: same rows, same order, same text.


NAMES = "chains sched zstd-many pipe-chains made-branches made-memory fork-exec lost several arm64-chains".split()
GRAPH = CallGraph(order="caller")
REQUESTS = {
    "default": ReportOptions(),
    "callers": ReportOptions(chains=ChainOptions(call_graph=GRAPH, children=True)),
    "tasks": ReportOptions(names=NameOptions(verbose=True), columns=ColumnOptions(sort="comm,dso,sym,pid,cpu")),
    "times": ReportOptions(times=TimeOptions(time_quantum=1000), columns=ColumnOptions(sort="time,sym")),
    "tiers": ReportOptions(chains=ChainOptions(call_graph=GRAPH), names=NameOptions(tiers_as_one=True), columns=ColumnOptions(sort="sym")),
}


@pytest.fixture
def parts(monkeypatch):
    """Split small files, too; return the list of the processes of each report."""
    counts = []
    ranges = scan.SampleScan._ranges

    def counted(self):
        actual_ranges = ranges(self)
        counts.append(len(actual_ranges))
        return actual_ranges

    monkeypatch.setattr(scan.SampleScan, "_ranges", counted)
    monkeypatch.setattr(scan, "SAMPLES_EACH", 1)
    monkeypatch.setattr(scan, "CHAINS_EACH", 1)
    monkeypatch.setattr("perfpy.workers.can_fork", lambda: True)
    return counts


@pytest.fixture(params=NAMES)
def path(request, tmp_path, monkeypatch):
    """Return a recording that is read in several small chunks; compressed records have up to 64 KB."""
    unpacked = tmp_path / "perf.data"
    size = unpacked.write_bytes(lzma.decompress((RECORDINGS / f"{request.param}.data.xz").read_bytes()))
    monkeypatch.setitem(
        RecordStream.__init__.__kwdefaults__, "chunk_size", 1 << 16 if "zstd" in request.param else max(512, size // 8 & ~7)
    )
    return unpacked


def text(path, options, jobs):
    with Recording(path) as recording:
        report = recording.report(options=options, jobs=jobs)
        lines = [line for line in report_lines(report, TextOptions()) if "# (Tip:" not in line]
        missing = [(item.dso.name, item.samples) for item in report.missing]
        return lines, missing, report.notes, recording.warnings


@pytest.mark.parametrize("requested", REQUESTS)
@pytest.mark.slow
def test_reports_are_the_same(path, requested, parts):
    assert text(path, REQUESTS[requested], 3) == text(path, REQUESTS[requested], 1)
    assert 1 < parts[0] <= 3
    assert parts[1] == 1


def test_stacks_are_the_same(path, parts):
    def lines(jobs):
        with Recording(path) as recording:
            return [list(folded_lines(part)) for part in recording.stacks(options=StackOptions(jobs=jobs))]

    assert lines(3) == lines(1)
    assert parts[0] > 1


def test_stacks_with_addresses_are_the_same(path, parts):
    def profile(jobs):
        with Recording(path) as recording:
            return pprof(recording.stacks(options=StackOptions(jobs=jobs, sites=True)))

    assert profile(3) == profile(1)
    assert parts[0] > 1


@pytest.mark.parametrize("path", ["sched"], indirect=True)
def test_payloads_are_the_same(path, parts):
    options = ReportOptions(columns=ColumnOptions(sort="trace"))
    assert text(path, options, 3) == text(path, options, 1)
    assert parts[0] > 1


def test_small_recordings_have_one_process(path, parts, monkeypatch):
    monkeypatch.setattr(scan, "SAMPLES_EACH", 1_000_000)
    text(path, ReportOptions(), 0)
    assert parts == [1]


@pytest.mark.parametrize("path", ["chains"], indirect=True)
def test_callchains_are_divided_sooner(path, parts, monkeypatch):
    monkeypatch.setattr(scan, "SAMPLES_EACH", 1_000_000)
    with_chains = ReportOptions(chains=ChainOptions(call_graph=GRAPH))
    assert text(path, with_chains, 2) == text(path, with_chains, 1)
    text(path, ReportOptions(), 2)
    assert parts == [2, 1, 1]


def test_a_part_whose_process_was_killed_is_folded_here(path, parts, monkeypatch):

    here, stored = os.getpid(), scan.SampleScan._stored_samples
    alone = text(path, ReportOptions(), 1)

    def killed(self, turns):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return stored(self, turns)

    monkeypatch.setattr(scan.SampleScan, "_stored_samples", killed)
    assert text(path, ReportOptions(), 3) == alone


@pytest.fixture
def spilled(path, monkeypatch):
    """Return a function after whose call no folded rows stay in memory.

    Its results grow with the rows in files, here and in other processes.
    """
    here, others = [], path.with_name("kept")  # a file: others are other processes
    others.write_bytes(b"")
    add_rows, keep = runs.FoldedRuns.add_rows, overflow.ScratchFile.keep

    def counted(self, *what):
        here.append("run")
        return add_rows(self, *what)

    def counted_part(self, part):
        others.write_bytes(others.read_bytes() + b"x")
        return keep(self, part)

    def begin():
        monkeypatch.setenv(overflow.VARIABLE, "1")
        return here, others

    monkeypatch.setattr(runs, "_AT_ONCE", 2)
    monkeypatch.setattr(runs, "_FRAMES_AT_ONCE", 3)
    monkeypatch.setattr(runs.FoldedRuns, "add_rows", counted)
    monkeypatch.setattr(overflow.ScratchFile, "keep", counted_part)
    return begin


@pytest.mark.parametrize(("requested", "jobs"), [*((name, 1) for name in REQUESTS), ("callers", 2), ("times", 2)])
@pytest.mark.slow
def test_reports_beyond_memory_are_the_same(path, requested, jobs, parts, spilled):
    expected = text(path, REQUESTS[requested], 1)
    here, others = spilled()
    assert text(path, REQUESTS[requested], jobs) == expected
    assert len(here) > 1
    assert bool(others.read_bytes()) == (jobs > 1)


def test_stacks_beyond_memory_are_the_same(path, spilled):
    def lines():
        with Recording(path) as recording:
            return [list(folded_lines(part)) for part in recording.stacks()]

    expected = lines()
    here, _ = spilled()
    assert lines() == expected
    assert len(here) > 1


@pytest.mark.parametrize("path", ["sched"], indirect=True)
def test_payloads_beyond_memory_are_the_same(path, spilled):
    options = ReportOptions(columns=ColumnOptions(sort="trace"))
    expected = text(path, options, 1)
    here, _ = spilled()
    assert text(path, options, 1) == expected
    assert len(here) > 1


# A recording with stack copies, unwound by several processes, gives the report of one: rows, trees, notes.


SCAN_CODE, STACK, COPY = 0x400000, 0x7FFF0000, 64
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
def scan_parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
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
    monkeypatch.setattr(scan, "CHAINS_EACH", 1)
    monkeypatch.setattr("perfpy.workers.can_fork", lambda: True)
    return counts


@pytest.fixture
def scan_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
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
def test_reports_of_a_scan_are_the_same(scan_path: Path, requested: str, inline: str, scan_parts: list[int]):
    symbols = SYMBOLS._replace(inline=INLINES[inline])
    together = shown(scan_path, ASKED[requested], 3, symbols)
    assert together == shown(scan_path, ASKED[requested], 1, symbols)
    assert any("--" in line for line in together[0]) == (ASKED[requested].chains.call_graph is not None)
    assert 1 < scan_parts[0] <= 3
    assert scan_parts[1] == 1


def test_truncated_stacks_of_all_parts_are_added_up(tmp_path: Path, scan_parts: list[int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 2048)
    path = tmp_path / "truncated.data"
    path.write_bytes(truncated_stacks(tmp_path, 60))
    symbols = SYMBOLS._replace(symfs="")
    result = shown(path, ASKED["callers"], 3, symbols)
    (truncated,) = result[-1]
    assert (truncated.truncated, truncated.stacks, truncated.size) == (60, 60, COPY)
    assert result == shown(path, ASKED["callers"], 1, symbols)
    assert scan_parts == [3, 1]


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
    built.record(comm(7, "made")).record(mmap(7, SCAN_CODE, 0x4000, str(program))).record(mmap(7, STACK, 0x1000, "[stack]", prot=3))
    registers, stack = [0, STACK, SCAN_CODE + 0x1000], struct.pack("<Q", SCAN_CODE + 0x1020) * (COPY // 8)
    for time in range(100, 100 + count):
        values: dict[str, Any] = {"time": time, "pid": 7, "tid": 7, "period": 1, "ip": SCAN_CODE + 0x1000, "misc": 2, "callchain": []}
        built.sample(**values, user_regs=registers, user_regs_abi=2, user_stack=stack)
    return built.file()


def test_folded_stacks_are_the_same(scan_path: Path, scan_parts: list[int]):
    def lines(jobs: int) -> list[list[str]]:
        with Recording(scan_path) as recording:
            return [list(folded_lines(part)) for part in recording.stacks(SYMBOLS._replace(inline=Inline.ALL), StackOptions(jobs=jobs))]

    assert lines(3) == lines(1)
    assert max(line.count(";") for line in lines(1)[0]) > 3
    assert scan_parts[0] > 1


def test_reports_without_chains_unwind_nothing(scan_path: Path, scan_parts: list[int], monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise AssertionError("stacks are unwound")

    monkeypatch.setattr(UserCallchains, "extend", refuse)
    assert shown(scan_path, ReportOptions(), 3)[0]


def test_a_part_whose_process_was_killed_is_unwound_here(scan_path: Path, scan_parts: list[int], monkeypatch: pytest.MonkeyPatch):
    alone, here, extended = shown(scan_path, ASKED["callers"], 1), os.getpid(), UserCallchains.extend

    def killed(self: UserCallchains, *args: object) -> object:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return extended(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(UserCallchains, "extend", killed)
    assert shown(scan_path, ASKED["callers"], 3) == alone
    assert scan_parts[-1] > 1


# Sums by group, exact beyond what a float can hold.


def test_sums_beyond_53_bits_are_exact():
    big = (1 << 60) + 1
    assert sum_by(np.array([1, 0, 1]), np.array([big, 7, big], np.uint64), 3).tolist() == [7, 2 * big, 0]


def test_running_sums_grow_with_their_groups():
    sums = GroupSums()
    sums.add(np.array([0, 1, 1]), np.array([5, 6, 7]), 2)
    sums.add(np.array([3]), np.array([1]), 100)
    sums.add(np.array([1, 3]), None, 100)
    assert sums.totals(5).tolist() == [5, 14, 0, 2, 0]


def test_sums_beyond_64_bits_overflow_in_silence():
    wrapped = np.array([-(1 << 63), 5, -(1 << 62), -3], np.int64)  # sums of damaged counts
    assert sum_by(np.array([0, 0, 1, 1]), wrapped, 2).tolist() == [-(1 << 63) + 5, -(1 << 62) - 3]
    assert sum_by(np.zeros(4096, np.int64), np.full(4096, -(1 << 62), np.int64), 1).tolist() == [0]


def test_equal_values_are_counted():
    groups = np.array([0, 2, 2], np.int32)
    assert sum_by(groups, np.full(3, 250_000, np.uint64), 3).tolist() == [250_000, 0, 500_000]
    assert sum_by(groups, np.full(3, (1 << 60) + 1, np.uint64), 3).tolist() == [(1 << 60) + 1, 0, (1 << 61) + 2]
    assert sum_by(groups, np.full(3, -2, np.int64), 3).tolist() == [-2, 0, -4]


# Arrays beyond the memory limit are stored in a file, unchanged.


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64K", 64 << 10), ("500M", 500 << 20), ("2g", 2 << 30), ("1GiB", 1 << 30), ("3MB", 3 << 20)]
)
def test_the_variable_sets_the_limit(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert memory_limit() == size
    assert memory_for(1) == size


@pytest.mark.parametrize("text", ["much", "0", "-1", "1.5G", "2 furlongs", "9" * 30])
def test_an_invalid_limit_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UsageError, match="write 500M or 2G"):
        memory_limit()


def test_without_the_variable_the_limit_is_a_share_of_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    files = {"/proc/meminfo": "MemTotal: 9999999 kB\nMemAvailable:    1048576 kB\n", "/proc/self/cgroup": "0::/box\n"}
    monkeypatch.setattr(overflow, "_read", lambda path: files.get(path, ""))
    assert memory_limit() == 256 << 20
    files |= {"/sys/fs/cgroup/box/memory.max": f"{512 << 20}\n", "/sys/fs/cgroup/box/memory.current": f"{128 << 20}\n"}
    assert memory_limit() == 96 << 20
    files["/sys/fs/cgroup/box/memory.max"] = "max\n"
    assert memory_limit() == 256 << 20
    files["/proc/meminfo"] = f"MemAvailable: {1 << 40} kB\n"
    assert memory_limit() == 512 << 20
    assert memory_for(1) is None


def test_arrays_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = ScratchFile()
    first, second = file.write(np.arange(5, dtype=np.uint8)), file.write(np.arange(7, dtype=np.int64))
    joined = file.append_joined((np.full(count, count, np.uint16) for count in (2, 0, 3)), np.uint16)
    place = file.keep({"a": np.arange(3)})
    assert file.map_array(first).tolist() == [0, 1, 2, 3, 4]
    assert file.read(second, 2, 5).tolist() == [2, 3, 4]
    assert joined.tolist() == [2, 2, 3, 3, 3]
    assert file.load(place)["a"].tolist() == [0, 1, 2]
    assert file.map_array(file.write(np.zeros(0))).tolist() == []
    assert not list(tmp_path.iterdir())  # it has no name


def test_arrays_are_in_memory_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "100")
    overflow = Overflow()
    few, many = np.arange(10), np.arange(20)
    assert overflow.keep(few) is few
    assert isinstance(overflow.keep(many).base, np.memmap)
    assert overflow.keep(many).tolist() == many.tolist()
    assert isinstance(overflow.store_joined([few, few], 20, np.int64).base, np.memmap)
    assert overflow.store_joined([few[:2]], 2, np.int64).base is None


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = ScratchFile()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputFailedError) as caught:
        file.write(np.arange(3))
    beginning = f"cannot write {tmp_path}: No space left on device; the distinct samples do not fit into memory; "
    assert str(caught.value) == f"{beginning}set TMPDIR to a folder with more space, or raise {VARIABLE}"


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(OutputFailedError, match="No such file or directory; the distinct samples do not fit"):
        ScratchFile()
