"""Line tables of generated code: their cost."""

from __future__ import annotations

import time

from perfpy.symbols.providers.jit_lines import CodeLine, debug_sections


def test_a_hundred_thousand_lines_are_written_in_less_than_three_seconds():
    """Tenfold what the recorder of a large Python program writes; with copies of the table for each line they took seven seconds."""
    lines = [CodeLine(0x1000 + 2 * number, f"/program/file{number // 500}.py", number % 500 + 1) for number in range(100_000)]
    began = time.process_time()
    sections = debug_sections(lines, 0x1000, 2 * len(lines))
    assert time.process_time() - began < 3
    assert len(sections[b".debug_line"]) > 500_000
