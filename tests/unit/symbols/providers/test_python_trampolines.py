"""How to unwind the trampolines of CPython 3.12."""

from __future__ import annotations

import numpy as np

from perfpy.symbols.files.elf import ElfFile
from perfpy.symbols.providers.perf_map import MapTable, parse
from perfpy.symbols.providers.python_trampolines import trampolines
from perfpy.unwind.call_frames import CallFrames

BASE = 0x7F0000012340


def offsets(text: str, *addresses: int) -> list[int | None]:
    """How far the canonical frame address is from the stack pointer, None where nothing is known."""
    frames = CallFrames(ElfFile("map", trampolines(MapTable(parse(text.encode())))))
    return [rule.cfa[1] if rule else None for rule in frames.find(np.array(addresses, np.uint64))]


def test_the_stack_pointer_is_moved_by_8_during_the_call():
    text = f"{BASE:x} b py::f:/a.py\n{BASE + 11:x} b py::g:/a.py\n"
    assert offsets(text, BASE, BASE + 6, BASE + 10, BASE + 11, BASE + 17, BASE + 22) == [8, 16, 8, 8, 16, None]


def test_those_that_begin_with_endbr64_too():
    assert offsets(f"{BASE:x} f py::f:/a.py\n", BASE, BASE + 8, BASE + 10, BASE + 14) == [8, 16, 16, 8]


def test_other_code_is_left_alone():
    text = f"{BASE:x} b JS:*f\n{BASE + 64:x} 10 py::of_another_size\n"
    assert trampolines(MapTable(parse(text.encode()))) == b""
