"""Tests that report --stdio of recordings made elsewhere equals what perf printed of them."""

from __future__ import annotations

import gzip
import os
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.report.options import CallGraph, ChainOptions, ColumnOptions, ReportOptions
from perfpy.analysis.sort_key import Mode
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.text import HEADER_HINT, TextOptions, report_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: lines that depend on the run, not on the recording
RUN_DEPENDENT = re.compile(rb"\(Tip:|^#\s*$")
#: name -> why perf's answer is not ours; * stands for any end
UNLIKE_PERF = {
    "killed-a.data": "perf reads nothing of a recording that was killed",
    "trunc-half-a.data": "perf reads nothing of a recording that is cut",
    "s390x-pipe*": "perf does not understand big-endian pipes",
    "simpleperf_perf_for_build_id_check.data": "perf stops at a record of simpleperf's own",
    "simpleperf_perf_with_callchain_record.data": "perf stops at a record of simpleperf's own",
    "simpleperf_perf_with_failed_unwinding_debug_info.data": "perf stops at a record of simpleperf's own",
    "simpleperf_perf_with_symbols_for_nonzero_minvaddr_dso.data*": "perf stops at a record of simpleperf's own",
    "simpleperf_perf.data": "perf maps the kernel's modules over the kernel in files of simpleperf",
    "simpleperf_perf_b.data": "perf maps the kernel's modules over the kernel in files of simpleperf",
    "autofdo-chromeos_perf.data.piped.host": "perf takes the features of an early pipe for other records and gives up",
    "dwarf-nofp-a.data": "perf shows inlined calls there",
    "perfparser_vector_static_gcc_perf.lbr.data": "perf reads behind the end of empty branch stacks",
}


@pytest.fixture
def perf_maps() -> Iterator[list[Path]]:
    """Yield a list for maps of JIT compilers, placed in their usual location and removed at the end."""
    placed: list[Path] = []
    yield placed
    for path in placed:
        path.unlink(missing_ok=True)


def comparable(output: bytes) -> list[bytes]:
    return [line.rstrip() for line in output.splitlines() if not RUN_DEPENDENT.search(line)]


def is_listed(name: str) -> bool:
    return any(name == entry or (entry.endswith("*") and name.startswith(entry[:-1])) for entry in UNLIKE_PERF)


def report(path: Path, symbols: SymbolOptions) -> bytes:
    with Recording(os.fspath(path)) as recording:
        mode = Mode.BRANCH if recording.data.has_branches else Mode.NORMAL
        options = ReportOptions(chains=ChainOptions(call_graph=CallGraph(order="caller"), children=True), columns=ColumnOptions(mode=mode))
        result = recording.report(options=options, symbols=symbols)
        lines = [HEADER_HINT, *(report_lines(result, TextOptions()) if result.samples else ())]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def unlike(folder: Path, symbols: SymbolOptions, placed: list[Path]) -> tuple[int, list[str]]:
    """Return how many recordings of a folder were compared, and which differ."""
    compared, different = 0, []
    for answer in sorted(folder.glob("*.report.gz")):
        name = answer.name.removesuffix(".report.gz")
        expected = comparable(gzip.decompress(answer.read_bytes()))
        if not any(expected) or is_listed(name):
            continue
        for source in sorted((folder / (name.removesuffix(".data") + ".maps")).glob("*")):
            target = type(source)("/tmp") / source.name  # where JIT compilers write them
            if not target.exists():
                shutil.copy(source, target)
                placed.append(target)
        compared += 1
        if comparable(report(folder / name, symbols)) != expected:
            different.append(name)
    return compared, different


@pytest.mark.parametrize(("folder", "least"), [("recorded", 80), ("public", 60), ("qemu", 10), ("malformed", 5)])
def test_the_report_of_every_recording_is_perfs(
    folder: str, least: int, corpus: Path, files_of_recordings: SymbolOptions, perf_maps: list[Path], tmp_path: Path
) -> None:
    elsewhere = SymbolOptions(symfs=str(tmp_path), buildid_dir=str(tmp_path), cache=False)
    compared, different = unlike(corpus / folder, files_of_recordings if folder == "recorded" else elsewhere, perf_maps)
    assert compared >= least
    assert not different
