"""Tests of listings divided among processes: they equal those of a single process, including notes."""

from __future__ import annotations

import io
import lzma
import os
import signal
from typing import TYPE_CHECKING

import pytest

from perfpy.perfdata.records.delivery import Span, spans_of
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import Inline, SymbolOptions
from perfpy.views.script import run as divided
from perfpy.views.script.fields import OutputFields
from perfpy.views.script.run import ScriptOptions, ScriptRun
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["chains", "chains-dwarf", "sched", "made-branches", "fork-exec", "several", "lost", "arm64-chains", "damaged-bits"]
END = 1 << 64


@pytest.fixture
def forked(monkeypatch):
    """Divide small files, too; return a list of the number of processes of each listing."""
    counts = []
    jobs = divided.DividedListing.jobs

    def counted(self, requested):
        counts.append(jobs(self, requested))
        return counts[-1]

    monkeypatch.setattr(divided.DividedListing, "jobs", counted)
    monkeypatch.setattr(divided, "_LINES_EACH", 1)
    monkeypatch.setattr(divided, "STACKS_EACH", 1)
    monkeypatch.setattr("perfpy.workers.can_fork", lambda: True)
    return counts


@pytest.fixture(params=NAMES)
def path(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Record into a file that is read in small, and therefore several, chunks."""
    unpacked = tmp_path / "perf.data"
    size = unpacked.write_bytes(lzma.decompress((RECORDINGS / f"{request.param}.data.xz").read_bytes()))
    chunk = 1 << 16 if "dwarf" in request.param else max(512, size // 8 & ~7)
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: chunk)
    return unpacked


def listed(path: Path, jobs: int, *fields: str, **more):
    output_fields = OutputFields()
    for field in fields:
        output_fields.apply(field)
    symbols = SymbolOptions(inline=more.pop("inline", Inline.NONE))
    with Recording(path) as recording:
        run = ScriptRun(recording, ScriptOptions(fields=output_fields, jobs=jobs, symbols=symbols, **more))
        out = io.BytesIO()
        return run.write(out), out.getvalue(), run.truncated_stacks, recording.warnings


def test_listings_are_the_same(path, forked):
    assert listed(path, 3) == listed(path, 1)
    assert 1 < forked[0] <= 3
    assert forked[1] == 1


@pytest.mark.parametrize("path", ["chains-dwarf"], indirect=True)
@pytest.mark.parametrize("inline", [Inline.UNWOUND_AS_PERF, Inline.ALL])
def test_listings_with_inlined_calls_are_the_same(path, forked, inline):
    assert listed(path, 3, inline=inline) == listed(path, 1, inline=inline)
    assert forked[0] > 1


@pytest.mark.parametrize("path", ["several"], indirect=True)
@pytest.mark.parametrize("more", [{"reltime": True}, {"deltatime": True}, {"side_band_types": frozenset(["task"])}])
def test_lines_that_depend_on_earlier_lines_use_one_process(path, forked, more):
    assert listed(path, 3, **more) == listed(path, 1, **more)
    assert forked == []


@pytest.mark.parametrize("path", ["made-memory"], indirect=True)
def test_columns_as_wide_as_earlier_ones_use_one_process(path, forked):
    assert listed(path, 3) == listed(path, 1)
    assert forked == []


@pytest.mark.parametrize("path", ["chains"], indirect=True)
def test_small_recordings_use_one_process(path, forked, monkeypatch):
    monkeypatch.setattr(divided, "_LINES_EACH", 1_000_000)
    listed(path, 0)
    assert forked == [1]


@pytest.mark.parametrize("path", ["chains"], indirect=True)
def test_parts_of_killed_processes_are_listed_by_the_parent(path, forked, monkeypatch):
    here, batch_of = os.getpid(), Recording.batch_of
    alone = listed(path, 1)

    def killed(self, *args):
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch_of(self, *args)

    monkeypatch.setattr(Recording, "batch_of", killed)
    assert listed(path, 3) == alone


@pytest.mark.parametrize("path", ["chains", "several", "lost"], indirect=True)
def test_the_spans_are_all_samples_in_order(path):
    with Recording(path) as recording:
        whole = [row for batch in recording.batches(["time", "tid"]) for row in zip(batch.key.tolist(), batch.offset.tolist(), strict=True)]
        spans = recording.data.records.delivery_spans
        parts = [recording.batch_of(span, ["time", "tid"]) for span in spans]
    assert len(spans) > 1
    assert [row for part in parts if part for row in zip(part.key.tolist(), part.offset.tolist(), strict=True)] == whole


def test_a_span_begins_with_the_first_chunk_with_one_of_its_samples():
    assert spans_of([5, 9, END], [6, 8, 12]) == [Span(0, 1, 0, 5), Span(0, 2, 5, 9), Span(2, 3, 9, END)]
    assert spans_of([3, 3, END], [2, -1, 7]) == [Span(0, 1, 0, 3), Span(2, 3, 3, END)]
    assert spans_of([], []) == []
