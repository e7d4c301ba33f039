"""A page's parts come from one pass over the samples, and are those of single passes."""

from __future__ import annotations

import lzma
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.aggregate import profile, shared_pass
from perfpy.analysis.callchains import frames_of
from perfpy.analysis.filters import EventSwitch, SampleFilter
from perfpy.analysis.report.options import ReportOptions
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records import stream
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.page.page_parts import page_parts
from perfpy.views.page.profile_data import page_stacks
from tests.builders.annotated import spin_with_lines
from tests.builders.own_corpus import RECORDINGS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from perfpy.analysis.source_files import SourceShares
    from perfpy.analysis.stacks import Stacks
    from perfpy.views.page.page import PageParts

#: frame pointers, copies of stacks, readings of groups, tracepoints, code of a runtime
KINDS = ("chains", "chains-dwarf", "group", "tracepoint-chains", "perf-map")
SYMBOLS = SymbolOptions(cache=False)


def unpacked(name: str, folder: Path) -> Recording:
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    return Recording(str(path))


def lines_of(parts: list[Stacks]) -> list[tuple[object, ...]]:
    """Return each sample of each event: time, thread, weight and functions."""
    rows: list[tuple[object, ...]] = []
    for part in parts:
        assert part.timed is not None
        one = part.timed
        columns = (one.time.tolist(), one.tid.tolist(), one.weight.tolist(), one.chain.tolist())
        rows += [(part.event, time, tid, weight, [part.functions[number] for number in part.chain_of(chain).tolist()])
                 for time, tid, weight, chain in zip(*columns, strict=True)]  # fmt: skip
    return rows


def places_of_samples(parts: PageParts) -> list[tuple[int, int]]:
    """Return the address of each sample, and the one that its line counts for."""
    assert parts.sites is not None
    address = parts.annotation._symbolizer.frames.ip
    rows = np.concatenate([one.timed.site for one in parts.stacks if one.timed is not None and one.timed.site is not None])
    sites = parts.sites.site_of_row[rows]
    return list(zip(address[parts.sites.frame[sites]].tolist(), address[parts.sites.line_frame[sites]].tolist(), strict=True))


def shares_of(files: Sequence[SourceShares]) -> list[SourceShares]:
    return [one._replace(frame_lines=None) for one in files]


@pytest.mark.parametrize("name", KINDS)
def test_parts_equal_those_of_single_passes(name: str, tmp_path: Path) -> None:
    switch = EventSwitch(0, None, show=True) if name == "group" else None
    chosen = SampleFilter(switch=switch)
    with unpacked(name, tmp_path) as recording:
        parts = page_parts(recording, chosen, SYMBOLS)
        assert lines_of([*parts.stacks]) == lines_of(page_stacks(recording, SYMBOLS, sample_filter=chosen))
        single = recording.annotate(options=ReportOptions(sample_filter=chosen), symbols=SYMBOLS).report
        assert parts.annotation.report.to_dict() == single.to_dict()
        assert shares_of(parts.files) == shares_of(recording.source_files(sample_filter=chosen, symbols=SYMBOLS))
        assert int(parts.reports.report.folded.count.sum()) == sum(int(part.count.sum()) for part in parts.stacks)


@pytest.mark.parametrize("name", ["group", "perf-map"])
def test_the_parts_do_not_depend_on_the_size_of_batches(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the groups of samples are looked up, or forgotten, after each batch."""
    chosen = SampleFilter(switch=EventSwitch(0, None, show=True) if name == "group" else None)

    def fold() -> tuple[object, ...]:
        with unpacked(name, tmp_path) as recording:
            parts = page_parts(recording, chosen, SYMBOLS)
            assert len(set(places_of_samples(parts))) > 1
            return lines_of([*parts.stacks]), parts.annotation.report.to_dict(), shares_of(parts.files), places_of_samples(parts)

    expected = fold()
    monkeypatch.setattr(stream.RecordStream.__init__, "__kwdefaults__", {"chunk_size": 1024})
    assert fold() == expected
    monkeypatch.setattr(shared_pass, "_FRAMES_AT_ONCE", 1)
    assert fold() == expected
    monkeypatch.setattr(shared_pass, "_KINDS_KEPT", 0)
    assert fold() == expected


def test_the_frames_of_callchains_are_looked_up_once_for_all_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks and verdict need callchains by function, source lines by address."""

    def chains_looked_up(*, code: bool) -> int:
        counts = []

        def look_up(*args: Any) -> Any:
            counts.append(len(args[0]))
            return frames_of(*args)

        monkeypatch.setattr(profile, "frames_of", look_up)
        with unpacked("chains", tmp_path) as recording:
            page_parts(recording, None, SYMBOLS, code=code)
        return sum(counts)

    assert 0 < chains_looked_up(code=True) == chains_looked_up(code=False)


@pytest.mark.parametrize("function", [None, "spin"])
def test_source_lines_come_from_the_samples_of_the_annotation(function: str | None, tmp_path: Path) -> None:
    files = spin_with_lines(tmp_path)
    symbols, chosen = SymbolOptions(symfs=str(files), cache=False), SampleFilter(symbols=(function,) if function else None)
    with Recording(str(files / "perf.data")) as recording:
        parts = page_parts(recording, chosen, symbols)
        assert shares_of(parts.files) == shares_of(recording.source_files(sample_filter=chosen, symbols=symbols))
        assert parts.files[0].files
        assert page_parts(recording, chosen, symbols, code=False).files == []


def test_a_page_reads_the_samples_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def count_passes_of(name: str) -> None:
        method = getattr(PerfData, name)

        def counted(*args: Any, **options: Any) -> Any:
            passes.append(name)
            return method(*args, **options)

        monkeypatch.setattr(PerfData, name, counted)

    count_passes_of("batches")
    count_passes_of("stored_batches")
    with unpacked("chains-dwarf", tmp_path) as recording:
        recording.page(symbols=SYMBOLS)
    assert passes == ["batches"]
