"""The interpreter of a process: where its _PyRuntime is, its version, and the code of its evaluation loop.

What enters: a pid. What leaves: LocatedRuntime; None where the process runs no CPython. Looked at are mapped files that are called as
interpreters are, and then the program itself, which may embed one. Files are looked into once, however many processes map them.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.capture.python_frames.cold_code import cold_parts
from perfpy.symbols.files import elf, live_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.kernel.procfs import ProcFs, ProcMapping

_INTERPRETER: Final = re.compile(r"(?:lib)?python(\d)\.(\d+)[a-z]*(?:\.so[\d.]*)?")
_RUNTIME: Final = b"_PyRuntime"
_LOOPS: Final = (b"_PyEval_EvalFrameDefault", b"_TAIL_CALL_")  # the second: of builds whose instructions are functions (3.14)
_SECTION: Final = ".PyRuntime"
_MOST_LOOPS: Final = 1024
_PAGE: Final = 4096


class LocatedRuntime(NamedTuple):
    """runtime: the address of _PyRuntime; version: (0, 0) where no name says it; loops: address ranges of the evaluation loop."""

    runtime: int
    version: tuple[int, int]
    loops: list[tuple[int, int]]


class _RuntimeInFile(NamedTuple):
    """The same in a file, by its own addresses; first: the lowest address that is mapped."""

    runtime: int
    loops: list[tuple[int, int]]
    first: int


class RuntimeLocator:
    """Finds interpreters; knows the files that it has seen."""

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs
        self._files: dict[tuple[int, int, int], _RuntimeInFile | None] = {}

    def find(self, pid: int) -> LocatedRuntime | None:
        """Return the interpreter of a process."""
        try:
            mappings = [mapping for mapping in self._procfs.maps(pid, data=True) if mapping.inode and not mapping.offset]
            program = os.readlink(f"{self._procfs.root}/{pid}/exe")
        except OSError:
            return None
        for mapping, version in _candidates(mappings, program):
            found = self._in_file(pid, mapping)
            if found is not None:
                shift = mapping.start - found.first
                return LocatedRuntime(found.runtime + shift, version, [(begin + shift, end + shift) for begin, end in found.loops])
        return None

    def _in_file(self, pid: int, mapping: ProcMapping) -> _RuntimeInFile | None:
        key = (mapping.major, mapping.minor, mapping.inode)
        if key not in self._files:
            self._files[key] = _look_into(live_process.seen_by(pid, mapping.path))
        return self._files[key]


def _candidates(mappings: list[ProcMapping], program: str) -> Iterator[tuple[ProcMapping, tuple[int, int]]]:
    """Return the mappings of files that may hold an interpreter, libraries first."""
    named = [(mapping, match) for mapping in mappings if (match := _INTERPRETER.fullmatch(os.path.basename(mapping.path)))]
    named.sort(key=lambda one: not os.path.basename(one[0].path).startswith("lib"))
    for mapping, match in named:
        yield mapping, (int(match[1]), int(match[2]))
    known = {mapping.path for mapping, _ in named}
    for mapping in mappings:
        if mapping.path == program and program not in known:
            yield mapping, (0, 0)
            return


def _look_into(path: str) -> _RuntimeInFile | None:
    try:
        file = elf.ElfFile(path)
    except (elf.BadElfError, OSError):
        return None
    if file.bits != 64 or file.endian != "<" or not len(file.segments):
        return None
    runtime, loops = 0, list[tuple[int, int]]()
    for table, kind in ((".symtab", elf.SHT_SYMTAB), (".dynsym", elf.SHT_DYNSYM)):
        section = file.section(table, kind)
        if section is None:
            continue
        entries, strings = file.symbols(section), bytes(file.strings(section))
        runtime = runtime or next((begin for begin, _ in _symbols(entries, strings, _RUNTIME, exact=True)), 0)
        for name in _LOOPS:
            loops += [one for one in _symbols(entries, strings, name, exact=False) if one not in loops]
    if file.section(".symtab", elf.SHT_SYMTAB) is None:
        loops += [part for loop in list(loops) for part in cold_parts(file, *loop)]
    section = file.section(_SECTION)
    runtime = runtime or (section.addr if section else 0)
    first = int(file.segments["vaddr"].min()) & -_PAGE
    return _RuntimeInFile(runtime, loops, first) if runtime else None


def _symbols(entries: NDArray[Any], strings: bytes, name: bytes, *, exact: bool) -> Iterator[tuple[int, int]]:
    """Return where the symbols of a name begin and end; exact: else also those whose names go on with a dot or a word."""
    position = strings.find(b"\0" + name)
    seen = 0
    while position >= 0 and seen < _MOST_LOOPS:
        end = position + 1 + len(name)
        rest = strings[end : end + 1]
        if rest == b"\0" or (not exact and (rest == b"." or name.endswith(b"_"))):
            for row in np.flatnonzero(entries["name"] == position + 1).tolist():
                begin, size = int(entries["value"][row]), int(entries["size"][row])
                if begin:
                    yield begin, begin + max(size, 1)
        position = strings.find(b"\0" + name, end)
        seen += 1
