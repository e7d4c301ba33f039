"""The CPython interpreter of a process: the address of _PyRuntime, the version, and the code of the evaluation loop.

Candidates are mapped files with an interpreter's name, then the program itself, which may embed one. Each file is read once, even if many
processes map it.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.light_types import NamedTuple
from perfpy.symbols.files import elf
from perfpy.unwind.frame_entries import FrameSection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.kernel.procfs import ProcFs, ProcMapping
    from perfpy.symbols.files.elf import ElfFile

_INTERPRETER: Final = re.compile(r"(?:lib)?python(\d)\.(\d+)[a-z]*(?:\.so[\d.]*)?")
_RUNTIME: Final = b"_PyRuntime"
_LOOPS: Final = (b"_PyEval_EvalFrameDefault", b"_TAIL_CALL_")  # the second: builds with a function for each instruction (3.14)
_SECTION: Final = ".PyRuntime"
_EXECUTABLE: Final = 4  # PROT_EXEC
_MOST_LOOPS: Final = 1024
_PAGE: Final = 4096


class LocatedRuntime(NamedTuple):
    """An interpreter in a process.

    Attributes:
        runtime: the address of _PyRuntime.
        version: (0, 0) if no file name contains it.
        loops: address ranges of the evaluation loop.
    """

    runtime: int
    version: tuple[int, int]
    loops: list[tuple[int, int]]


class _RuntimeInFile(NamedTuple):
    """An interpreter in a file, in the file's addresses. first: the lowest mapped address."""

    runtime: int
    loops: list[tuple[int, int]]
    first: int


class RuntimeLocator:
    """Finds interpreters, and caches results by file."""

    def __init__(self, procfs: ProcFs) -> None:
        self._procfs = procfs
        self._files: dict[tuple[int, int, int], _RuntimeInFile | None] = {}

    def find(self, pid: int) -> LocatedRuntime | None:
        """Return the interpreter of a process; None if it does not run CPython."""
        try:
            mappings = loaded_files(self._procfs.maps(pid, data=True))
            program = os.readlink(f"{self._procfs.root}/{pid}/exe")
        except OSError:
            return None
        for mapping, version in _candidates(mappings, program):
            key = (mapping.major, mapping.minor, mapping.inode)
            if key not in self._files:
                self._files[key] = _find_in_file(pid, mapping)
            in_file = self._files[key]
            if in_file is not None:
                shift = mapping.start - in_file.first
                return LocatedRuntime(in_file.runtime + shift, version, [(begin + shift, end + shift) for begin, end in in_file.loops])
        return None


def loaded_files(mappings: Iterable[ProcMapping]) -> list[ProcMapping]:
    """Return the first mapping of each file that was loaded as code: the last one of the file's beginning before its code.

    Programs that read symbols, as profilers do, map the files of their own interpreter as data, too.
    """
    beginnings: dict[tuple[int, int, int], ProcMapping] = {}
    loaded: dict[int, ProcMapping] = {}
    for mapping in mappings:
        key = (mapping.major, mapping.minor, mapping.inode)
        if mapping.inode and not mapping.offset:
            beginnings[key] = mapping
        if mapping.prot & _EXECUTABLE and key in beginnings:
            loaded[beginnings[key].start] = beginnings[key]
    return list(loaded.values())


def _candidates(mappings: list[ProcMapping], program: str) -> Iterator[tuple[ProcMapping, tuple[int, int]]]:
    """Yield mappings that may contain an interpreter and the version in the file name, libraries first."""
    interpreters = [(mapping, match) for mapping in mappings if (match := _INTERPRETER.fullmatch(os.path.basename(mapping.path)))]
    interpreters.sort(key=lambda one: not os.path.basename(one[0].path).startswith("lib"))
    for mapping, match in interpreters:
        yield mapping, (int(match[1]), int(match[2]))
    seen_paths = {mapping.path for mapping, _ in interpreters}
    for mapping in mappings:
        if mapping.path == program and program not in seen_paths:
            yield mapping, (0, 0)
            return


def _find_in_file(pid: int, mapping: ProcMapping) -> _RuntimeInFile | None:
    try:
        file = elf.open_mapped(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
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
    """Yield the ranges of the symbols with a name.

    Args:
        entries: the symbol table.
        strings: the names of the table's symbols.
        name: the symbol's name.
        exact: False: also names with a suffix after a dot, or after a name that ends with an underscore.
    """
    position = strings.find(b"\0" + name)
    count = 0
    while position >= 0 and count < _MOST_LOOPS:
        end = position + 1 + len(name)
        suffix = strings[end : end + 1]
        if suffix == b"\0" or (not exact and (suffix == b"." or name.endswith(b"_"))):
            for row in np.flatnonzero(entries["name"] == position + 1).tolist():
                begin, size = int(entries["value"][row]), int(entries["size"][row])
                if begin:
                    yield begin, begin + max(size, 1)
        position = strings.find(b"\0" + name, end)
        count += 1


_USUAL: Final = b"\x01\x1b\x03\x3b"  # version 1; 4-byte pointers relative to the section, as all linkers write them
_HEAD: Final = struct.Struct("<4siI")
_LEAST: Final = 2  # jumps from the function


def cold_parts(file: ElfFile, begin: int, end: int) -> list[tuple[int, int]]:
    """Return the ranges that x86-64 code of a function jumps into, beside its own."""
    code = _code(file, begin, end)
    header, frames = file.section(".eh_frame_hdr"), file.section(".eh_frame")
    if header is None or frames is None:
        return []
    data = bytes(file.data(header))
    if len(data) < _HEAD.size or not data.startswith(_USUAL):
        return []
    count = min(_HEAD.unpack_from(data)[2], (len(data) - _HEAD.size) // 8)
    table = np.frombuffer(data, "<i4", 2 * count, _HEAD.size).reshape(-1, 2).astype(np.int64) + header.addr
    section = FrameSection(bytes(file.data(frames)), frames.addr, is_eh=True, endian="<", word=8)
    targets = jump_targets(code, begin)
    targets = targets[(targets < begin) | (targets >= end)]
    parts = []
    for row in np.unique(np.searchsorted(table[:, 0], targets, "right") - 1).tolist():
        try:
            entry = section.entry(int(table[row, 1]) - frames.addr)
        except ValueError:
            continue
        if row >= 0 and is_part(targets, entry.start, entry.end):
            parts.append((entry.start, entry.end))
    return parts


def is_part(targets: NDArray[np.int64], start: int, end: int) -> bool:
    """Whether jumps of a function lead into a range, one of them not to its start: into other functions none does."""
    into = targets[(targets >= start) & (targets < end)]
    return len(into) >= _LEAST and bool((into != start).any())


def _code(file: ElfFile, begin: int, end: int) -> bytes:
    for segment in file.segments:
        offset = begin - int(segment["vaddr"])
        if offset >= 0 and end - int(segment["vaddr"]) <= int(segment["filesz"]):
            first = int(segment["offset"]) + offset
            return bytes(file.content[first : first + end - begin])
    return b""


def jump_targets(code: bytes, begin: int) -> NDArray[np.int64]:
    """Return the targets of jumps with 4-byte distances in x86-64 code at an address.

    Instructions are not decoded, so some targets are bytes of other instructions.
    """
    data = np.frombuffer(code, np.uint8)
    if len(data) < 6:
        return np.zeros(0, np.int64)
    conditional = np.flatnonzero((data[:-5] == 0x0F) & (data[1:-4] & 0xF0 == 0x80)) + 2
    always = np.flatnonzero(data[:-4] == 0xE9) + 1
    positions = np.concatenate([conditional, always])
    distances = np.lib.stride_tricks.sliding_window_view(data, 4)[positions].copy().view("<i4")[:, 0]
    targets: NDArray[np.int64] = begin + positions + 4 + distances.astype(np.int64)
    return targets
