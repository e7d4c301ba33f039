"""Tests of the browser's code screen, driven by its keys."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from tests.builders.annotated import program, recording, stand_in

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("textual", reason="the extra perfpy[tui] is not installed")


def driven(folder: Path, *keys: str, objdump: bool = True) -> tuple[str, list[str], int]:
    """Return the screen after some keys in the report: its class, its lines of code, and the class of the current line."""
    from perfpy.disassembly.disassembler import CodeStyle
    from perfpy.views.annotate.browser import CodeScreen
    from perfpy.views.report.browser import ReportBrowser

    (folder / "bin").mkdir()
    (folder / "bin" / "spin").write_bytes(program().build())
    (folder / "perf.data").write_bytes(recording())
    style = CodeStyle(program=str(stand_in(folder)) if objdump else "/nonexistent")
    symbols = SymbolOptions(symfs=str(folder), cache=False)

    async def run() -> tuple[str, list[str], int]:
        with Recording(str(folder / "perf.data")) as opened:

            def code(event: object, function: str) -> CodeScreen:
                return CodeScreen(opened.annotate(function, symbols=symbols).function(event, style))  # type: ignore[arg-type]

            app = ReportBrowser(opened.report(["symbol"], symbols=symbols), code=code)
            async with app.run_test(size=(100, 30)) as pilot:
                await pilot.pause()
                for key in keys:
                    await pilot.press(key)
                    await app.workers.wait_for_complete()
                    await pilot.pause()
                if not isinstance(app.screen, CodeScreen):
                    return type(app.screen).__name__, [str(note.message) for note in app._notifications], 0
                lines = app.screen.code
                output = [lines.page.text(number, 90, lines.page.jumps_at(lines.cursor)).plain for number in range(len(lines.page.lines))]
                return "CodeScreen", output, lines.cursor

    return asyncio.run(run())


@pytest.mark.parametrize("key", ["enter", "a"])
def test_the_code_opens_at_its_hottest_instruction(tmp_path: Path, key: str) -> None:
    screen, lines, cursor = driven(tmp_path, key)
    assert screen == "CodeScreen"
    assert lines[cursor].startswith(" 60.00% ┌▶    1011  dec")


def test_keys_move_by_heat_and_along_jumps(tmp_path: Path) -> None:
    assert driven(tmp_path, "a", "n")[2] == 4
    (tmp_path / "again").mkdir()
    assert driven(tmp_path / "again", "a", "n", "enter")[2] == 2


def test_source_lines_can_be_hidden(tmp_path: Path) -> None:
    _, lines, cursor = driven(tmp_path, "a", "s")
    assert len(lines) == 4
    assert "dec" in lines[cursor]


def test_escape_returns_to_the_report(tmp_path: Path) -> None:
    assert driven(tmp_path, "a", "escape")[0] != "CodeScreen"


def test_missing_code_is_explained(tmp_path: Path) -> None:
    screen, notes, _ = driven(tmp_path, "a", objdump=False)
    assert screen != "CodeScreen"
    assert any("cannot run /nonexistent" in note for note in notes)


def test_a_row_without_a_function_has_no_code(tmp_path: Path) -> None:
    _, notes, _ = driven(tmp_path, "end", "a")
    assert any("no function in this row" in note for note in notes)
