"""A lock has the name of the variable at its address, wherever the program is loaded."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from perfpy.symbols.dso import DsoKind
from perfpy.symbols.variables import name_locks

LOADED = 0x5500_0000_0000
CODE, DATA = (0x1000, 0x1000, 0x1000, 0x1000), (0x4000, 0x200, 0x100, 0x3000)  # vaddr, memsz, filesz, offset
STRINGS = b"\0queue_lock\0main\0_ZN4book4lockE\0"


class Elf:
    """A file with variables of 40 bytes at 0x4010 and 0x4100, and a function."""

    segments = np.array([CODE, DATA], [(name, "u8") for name in ("vaddr", "memsz", "filesz", "offset")])

    def section(self, name, *types):
        return name if name == ".symtab" else None

    def symbols(self, section):
        rows = [(1, 1, 0x4010, 40), (12, 2, 0x1000, 0x800), (17, 1, 0x4100, 40)]
        return np.array(rows, [("name", "u4"), ("info", "u1"), ("value", "u8"), ("size", "u8")])

    def strings(self, section):
        return STRINGS


LOCK_NAME_FILES = SimpleNamespace(runtime=Elf(), symbols=Elf())


def symbolizer(files=LOCK_NAME_FILES):
    """A symbolizer with one frame, at offset 0x1234 of the file."""
    frames = SimpleNamespace(
        dso=np.array([0, -1], np.int32), ip=np.array([LOADED + 0x1234, 5], np.uint64), address=np.array([0x1234, 5], np.uint64)
    )
    return SimpleNamespace(frames=frames, dsos=[SimpleNamespace(kind=DsoKind.FILE)], files=lambda number: files)


@pytest.mark.parametrize(
    ("offset", "name"),
    [
        *[(0x4010, "queue_lock"), (0x4010 + 39, "queue_lock"), (0x4010 + 40, "")],
        *[(0x400F, ""), (0x1000, ""), (-0x100000, ""), (0x4100, "book::lock")],
    ],
)
def test_the_variable_at_the_address_is_found(offset, name):
    lock = LOADED + offset
    expected = {lock: name} if name else {}
    assert name_locks({lock: np.array([1, 0], np.int32)}, symbolizer()) == expected


def test_files_that_are_missing_give_no_names():
    missing = symbolizer(SimpleNamespace(runtime=None, symbols=None))
    assert name_locks({LOADED + 0x4010: np.array([0], np.int32)}, missing) == {}
