"""The variables of ELF files at addresses of a process: the names of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.symbols.demangling.demangle import demangle
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.files.elf import SHT_DYNSYM, SHT_SYMTAB
from perfpy.symbols.symbol_table import STT_OBJECT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from perfpy.symbols.files.elf import ElfFile
    from perfpy.symbols.symbolizer import Symbolizer


_MOST_LOCKS: Final = 1000  # locks that are named
_LONGEST_NAME: Final = 256  # bytes of a name
_TYPE: Final = 0xF  # of a symbol's info
_ADDRESS: Final = (1 << 64) - 1
_PAGE: Final = 4096


def name_locks(waits: Mapping[int, NDArray[np.int32]], symbolizer: Symbolizer) -> dict[int, str]:
    """Return the names of locks that have one.

    A lock lies in the data of a file whose code is in the callchain of the wait. The place of that code tells where the file is loaded,
    and the file's symbol table has the variables. Locks on the heap have no name.

    Args:
        waits: the address of each lock -> the frames of a callchain that waits for it.
        symbolizer: of the recording.
    """
    names = {}
    tables: dict[int, Variables | None] = {}
    for lock, frames in list(waits.items())[:_MOST_LOCKS]:
        for frame in frames.tolist():
            number = int(symbolizer.frames.dso[frame])
            if number < 0 or symbolizer.dsos[number].kind is not DsoKind.FILE:
                continue
            if number not in tables:
                files = symbolizer.files(number)
                tables[number] = Variables(files.runtime, files.symbols) if files.runtime and files.symbols else None
            table = tables[number]
            name = table.name(lock, int(symbolizer.frames.ip[frame]), int(symbolizer.frames.address[frame])) if table else ""
            if name:
                names[lock] = name
                break
    return names


class Variables:
    """The variables of a file.

    Args:
        runtime: the file that is loaded.
        symbols: the file with its symbol table, often the same one.
    """

    def __init__(self, runtime: ElfFile, symbols: ElfFile) -> None:
        self._segments = [tuple(int(segment[name]) for name in ("vaddr", "memsz", "filesz", "offset")) for segment in runtime.segments]
        section = symbols.section(".symtab", SHT_SYMTAB) or symbols.section(".dynsym", SHT_DYNSYM)
        table = symbols.symbols(section) if section else None
        self._strings = symbols.strings(section) if section else b""
        chosen = None if table is None else table[(table["info"] & _TYPE) == STT_OBJECT]
        self._table = None if chosen is None else chosen[np.argsort(chosen["value"], kind="stable")]

    def name(self, lock: int, ip: int, offset: int) -> str:
        """Return the variable at an address; "" for none.

        Args:
            lock: the address in the process.
            ip, offset: an address of the file's code in the process, and the same in the file.
        """
        for vaddr, _, filesz, begin in self._segments:
            if begin <= offset < begin + filesz:
                return self.name_at((lock - ip + offset - begin + vaddr) & _ADDRESS)
        return ""

    def name_loaded(self, address: int, start: int) -> str:
        """Return the variable at an address of a process; "" for none. start: the address at which the file is loaded."""
        first = min((vaddr for vaddr, *_ in self._segments), default=0) & -_PAGE
        return self.name_at((address - start + first) & _ADDRESS)

    def name_at(self, address: int) -> str:
        """Return the variable at an address of the file; "" for none."""
        if self._table is None or not len(self._table):
            return ""
        row = int(np.searchsorted(self._table["value"], np.uint64(address), side="right")) - 1
        if row < 0:
            return ""
        value, size = int(self._table["value"][row]), int(self._table["size"][row])
        if not value <= address < value + max(size, 1):
            return ""
        begin = int(self._table["name"][row])
        return demangle(bytes(self._strings[begin : begin + _LONGEST_NAME]).split(b"\0", 1)[0])
