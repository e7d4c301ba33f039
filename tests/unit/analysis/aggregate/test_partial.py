"""A recording folded by several processes gives the report of one: same rows, same order, same text."""

from __future__ import annotations

import lzma
import os
import signal

import pytest

from perfpy.analysis.aggregate import overflow, runs, scan
from perfpy.analysis.entries.layout import ColumnOptions
from perfpy.analysis.entries.options import CallGraph, ChainOptions, NameOptions, ReportOptions, TimeOptions
from perfpy.perfdata.records.stream import RecordStream
from perfpy.recording import Recording
from perfpy.views.report.column_text import TextOptions
from perfpy.views.report.text import report_lines
from perfpy.views.stacks.exports import folded_lines
from perfpy.views.stacks.pprof import pprof
from tests.builders.own_corpus import RECORDINGS

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
    monkeypatch.setattr("perfpy.workers.jobs.can_fork", lambda: True)
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
            return [list(folded_lines(part)) for part in recording.stacks(jobs=jobs)]

    assert lines(3) == lines(1)
    assert parts[0] > 1


def test_stacks_with_addresses_are_the_same(path, parts):
    def profile(jobs):
        with Recording(path) as recording:
            return pprof(recording.stacks(jobs=jobs, sites=True))

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
