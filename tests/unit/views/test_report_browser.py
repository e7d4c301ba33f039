"""The browser, driven by its keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from perfpy.recording import Recording
from perfpy.symbols.debugfiles import SymbolOptions

if TYPE_CHECKING:
    from pathlib import Path

textual = pytest.importorskip("textual", reason="the extra perfpy[tui] is not installed")


def driven(path: Path, tmp_path: Path, *keys: str) -> tuple[list[str], str]:
    """The labels of the rows (with what is open below them) after some keys, and the title."""
    from textual.widgets import Static, Tree

    from perfpy.views.report_browser import ReportBrowser

    async def run() -> tuple[list[str], str]:
        with Recording(str(path)) as recording:
            report = recording.report(callers=True, symbols=SymbolOptions(symfs=str(tmp_path), cache=False))
            app = ReportBrowser(report)
            async with app.run_test() as pilot:
                for key in keys:
                    await pilot.press(key)
                    await pilot.pause()
                tree = app.query_one("#rows", Tree)
                labels = []
                for row in tree.root.children:
                    labels.append(str(row.label))
                    if row.is_expanded:
                        labels += [f"  {child.label}" for child in row.children]
                return labels, str(app.query_one("#title", Static).content)

    return asyncio.run(run())


def test_rows_come_as_in_the_report_and_open_to_their_calls(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "recorded" / "fp-a.data"
    closed, title = driven(path, tmp_path)
    assert title.startswith("cpu-clock: 168 samples")
    assert closed[0].split()[:2] == ["100.00%", "0.00%"]
    opened, _ = driven(path, tmp_path, "down", "enter")
    assert len(opened) > len(closed)
    assert opened[1].startswith("  ")


def test_filters_narrow_the_rows_and_escape_brings_them_back(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "recorded" / "multi-a.data"
    everything, _ = driven(path, tmp_path)
    kernel, title = driven(path, tmp_path, "down", "d")
    assert 0 < len(kernel) < len(everything)
    assert "dso" in title
    assert driven(path, tmp_path, "down", "d", "escape")[0] == everything


def test_tab_goes_to_the_next_event(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "recorded" / "multi-a.data"
    assert driven(path, tmp_path, "tab")[1].startswith("task-clock")


def test_a_search_keeps_the_functions_with_the_part(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "recorded" / "fp-a.data"
    found, _ = driven(path, tmp_path, "slash", "5", "5", "enter")
    assert found
    assert all("55" in label for label in found)
