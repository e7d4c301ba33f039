"""Tests that the screens of our own recordings are those that were looked at: 60, 80, 120 and 200 columns wide, 24 lines high.

`PERFPY_WRITE_SCREENS=1 pytest tests/golden/test_screens.py` writes them again; look at each before it is committed.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from rich.console import Console

from perfpy.analysis.report.options import CallGraph, ChainOptions, ReportOptions, RowOptions
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screen import ScreenOptions, show_report
from perfpy.views.verdict.profile import profile_verdict
from tests.builders.own_corpus import unpack

SCREENS = Path(__file__).with_name("screens")
HEIGHT = 24
RECORDINGS = ("chains-user", "chains-dwarf", "wide", "page-faults")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of our own recordings."""
    folder = tmp_path_factory.mktemp("recordings")
    unpack(folder)
    return folder


def screen(own: Path, name: str, width: int, lines_after: int = 0) -> str:
    """Return the screen of a recording, as `perfpy report` shows it. lines_after: of notes below it."""
    symbols = SymbolOptions(cache=False, symfs=str(own / "symfs"), kallsyms=str(own / "kallsyms.x86-64"))
    report_options = ReportOptions(chains=ChainOptions(CallGraph(order="caller"), children=True), rows=RowOptions(by_thread=True))
    file = io.StringIO()
    console = Console(file=file, width=width, height=HEIGHT, no_color=True, highlight=False, markup=False)
    with Recording(f"{name}.data") as recording:
        report = recording.report(options=report_options, symbols=symbols)
        options = ScreenOptions(own_first=True, browser=True, verdict=profile_verdict(report, recording.data), lines_after=lines_after)
        show_report(report, recording, console, options)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


@pytest.mark.parametrize("width", [60, 80, 120, 200])
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_screen_is_the_one_that_was_looked_at(name: str, width: int, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(own)  # the screen shows the path
    text, path = screen(own, name, width), SCREENS / f"{name}-{width}.txt"
    if os.environ.get("PERFPY_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) < HEIGHT  # the prompt is on the same screen


def test_a_screen_with_notes_below_it_fits(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts below the rows are left out, also the last one."""
    monkeypatch.chdir(own)
    text = screen(own, "wide", 80, lines_after=4)
    assert len(text.splitlines()) + 4 < HEIGHT
    assert "hottest" not in text
    assert "spin" in text
