"""Code of a range of time: samples know their place in the page's code, and these add up to what annotate finds in the range."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.report.options import ReportOptions
from perfpy.disassembly.disassembler import CodeStyle
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.page import code_data as module
from perfpy.views.page.code_data import code_data, file_data
from perfpy.views.page.page_parts import page_parts
from perfpy.views.page.profile_data import profile_data
from tests.builders.annotated import spin_with_lines, stand_in

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from perfpy.analysis.filters import SampleFilter


def column(packed: dict[str, Any]) -> NDArray[np.int64]:
    """Return the numbers of a packed column."""
    if "all" in packed:
        return np.full(packed["n"], packed["all"], np.int64)
    planes = np.frombuffer(zlib.decompress(base64.b64decode(packed["z"])), np.uint8).reshape(packed["bytes"], packed["n"]).astype(np.int64)
    values = sum((plane << 8 * number for number, plane in enumerate(planes)), np.zeros(packed["n"], np.int64))
    return np.cumsum(values) if packed.get("delta") else values


@pytest.mark.parametrize(("first", "last"), [(0, 13), (0, 5), (2, 9), (9, 13)])
def test_lines_and_instructions_of_a_range_equal_annotates(first: int, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = spin_with_lines(tmp_path)
    monkeypatch.setattr(module, "_CODE_ONLY", CodeStyle(program=str(stand_in(files))))
    symbols = SymbolOptions(symfs=str(files), cache=False)
    with Recording(str(files / "perf.data")) as recording:
        parts = page_parts(recording, symbols=symbols)
        assert parts.sites is not None
        (function, *_), (file, *_) = code_data(parts.annotation, parts.sites), file_data(parts.files, parts.sites)
        data = profile_data([parts.stacks], sites=parts.sites)
        rows = data["events"][0]["samples"][0]
        weights = np.bincount(column(rows["site"])[first:last], column(rows["weight"])[first:last], data["sites"] + 1)

        begin, end = ((210 + 10 * number) / 1e9 for number in (first, last - 1))
        chosen: SampleFilter | None = recording.where(time=f"{begin:.9f},{end:.9f}").sample_filter
        assert chosen is not None
        of_range = recording.annotate(options=ReportOptions(sample_filter=chosen), symbols=symbols)
        expected = {
            number: row.samples for number, row in enumerate(next(of_range.functions(style=module._CODE_ONLY)).rows()) if row.samples
        }
        by_instruction: dict[int, int] = {}
        for number, _, _, site in function["spots"]:
            by_instruction[number] = by_instruction.get(number, 0) + int(weights[site]) // 1000
        assert {number: samples for number, samples in by_instruction.items() if samples} == expected

        (lines,) = recording.source_files(sample_filter=chosen, symbols=symbols)
        own = {line.line: line.percent for one in lines.files if one.path == file["name"] for line in one.lines if line.percent}
        whole = {line.line: line.with_inlined for one in lines.files if one.path == file["name"] for line in one.lines if line.with_inlined}
        share = {kind: {line: 100 * sum(weights[site] for number, site, is_own in file["spots"] if number == line and (is_own or not kind))
                        / 1000 / (last - first) for line, _, _ in file["spots"]} for kind in (True, False)}  # fmt: skip
        assert {line: value for line, value in share[True].items() if value} == pytest.approx(own)
        assert {line: value for line, value in share[False].items() if value} == pytest.approx(whole)


def test_a_page_without_code_has_no_sites(tmp_path: Path) -> None:
    files = spin_with_lines(tmp_path)
    with Recording(str(files / "perf.data")) as recording:
        parts = page_parts(recording, symbols=SymbolOptions(symfs=str(files), cache=False), code=False)
        assert parts.sites is None
        data = profile_data([parts.stacks], sites=parts.sites)
        assert data["sites"] == 0
        assert "site" not in data["events"][0]["samples"][0]
