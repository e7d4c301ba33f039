"""Tests of what the rows tell about functions: the source line at which they have most samples."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console

from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.report.screens.screen import ScreenOptions, show_report
from tests.builders.sampled_program import Stack, sampled_program

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


def rows(folder: Path, *stacks: Stack) -> str:
    """Return the screen of an invented program, whose functions begin in line 39; the line of a frame is 40 plus its offset."""
    path = sampled_program(folder, stacks)
    with Recording(str(path)) as recording:
        report = recording.report(callers=True, symbols=SymbolOptions(cache=False, symfs=str(folder), kallsyms=str(folder / "kallsyms")))
        table = report.histograms[0].locations

        def lines(frames: NDArray[np.int64], are_callers: NDArray[np.bool_]) -> list[tuple[str, int] | None]:
            offsets = table.address[frames] % 0x100 - are_callers
            return [("/src/\x1b[2Ja.c", 40 + int(offset)) for offset in offsets]

        report.find_lines = lines
        report.find_begins = lambda functions: dict.fromkeys(functions, ("/src/\x1b[2Ja.c", 39))
        file = io.StringIO()
        show_report(report, recording, Console(file=file, width=100, height=40, color_system=None), ScreenOptions(own_first=True))
    return file.getvalue()


def test_own_functions_have_their_hottest_line(tmp_path: Path) -> None:
    text = rows(tmp_path, Stack(("scan+3", "main"), 30), Stack(("scan+7", "main"), 60), Stack(("memcpy@libc.so.6", "copy+32", "main"), 10))
    assert "scan (^[[2Ja.c:47)" in text, "the heavier of two lines; names of files are data"
    assert "memcpy (" not in text, "lines of libraries say nothing about the program"


def test_code_of_the_kernel_has_no_line(tmp_path: Path) -> None:
    assert "a.c" not in rows(tmp_path, Stack(("clear_page@kernel", "touch", "main"), 10))


def test_a_shell_that_only_starts_the_program_has_no_functions_of_its_own(tmp_path: Path) -> None:
    small = rows(tmp_path, Stack(("run", "main"), 4), Stack(("memcpy@libc.so.6",), 96))
    large = rows(tmp_path, Stack(("run", "main"), 10), Stack(("memcpy@libc.so.6",), 90))
    assert "hottest functions of app" not in small
    assert "hottest functions of app" in large
