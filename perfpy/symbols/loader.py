"""The symbol table of each Dso, loaded when it is first needed.

What enters: Dsos of a TaskTimeline. What leaves: a SymbolTable per Dso; for
those without one, the places that were searched.
"""

from __future__ import annotations

import os
from typing import Final

import numpy as np
from numpy.typing import NDArray

from perfpy.symbols import debugfiles, elf_symbols, jit, kallsyms
from perfpy.symbols.address_space import TaskTimeline
from perfpy.symbols.debugfiles import SymbolOptions
from perfpy.symbols.demangle import Demangle, demangle, plain
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.elf import BadElf
from perfpy.symbols.symbol_table import EMPTY, Symbols, SymbolTable, named

_PROC_KALLSYMS: Final = "/proc/kallsyms"


class SymbolLoader:
    """Loads symbol tables by the number of a Dso."""

    def __init__(self, timeline: TaskTimeline, options: SymbolOptions) -> None:
        self._timeline = timeline
        self._options = options
        self._dsos = timeline.dso_table.dsos
        self._tables: dict[int, SymbolTable] = {}
        self.looked: dict[int, list[str]] = {}
        self._kernel_done = False
        self.demangle: Demangle = demangle if options.demangle else plain

    def prepare(self, dsos: NDArray[np.int32]) -> None:
        """Load the kernel's symbols if any of these Dsos is of the kernel: modules get theirs from the same file."""
        if not self._kernel_done and any(self._dsos[dso].kernel for dso in np.unique(dsos).tolist() if dso >= 0):
            self._kernel_done = True
            self._load_kernel()

    def table(self, number: int) -> SymbolTable:
        """The symbols of a Dso; an empty table where none were found."""
        table = self._tables.get(number)
        if table is None:
            table = self._tables[number] = self._load(number)
        return table

    def _load(self, number: int) -> SymbolTable:
        dso = self._dsos[number]
        match dso.kind:
            case DsoKind.FILE | DsoKind.VDSO:
                return self._load_file(number, dso)
            case DsoKind.JIT:
                return self._load_jit(number, dso)
            case DsoKind.BPF:
                return self._bpf(number, dso)
        return SymbolTable(EMPTY)

    def _load_file(self, number: int, dso: Dso) -> SymbolTable:
        found = debugfiles.find(dso, self._options)
        self.looked[number] = found.looked
        if found.symbols is None or found.runtime is None:
            return SymbolTable(EMPTY)
        try:
            return elf_symbols.load(found.symbols, found.runtime, self.demangle)
        except (BadElf, ValueError, IndexError):
            return SymbolTable(EMPTY)

    def _load_jit(self, number: int, dso: Dso) -> SymbolTable:
        self.looked[number] = [dso.name]
        try:
            return jit.load(dso.name)
        except OSError:
            return SymbolTable(EMPTY)

    def _bpf(self, number: int, dso: Dso) -> SymbolTable:
        spaces = self._timeline.spaces
        mine = np.flatnonzero(spaces.dso == number)
        size = (spaces.map_end[mine] - spaces.map_start[mine]).max(keepdims=True)
        return SymbolTable(named(np.zeros(1, np.uint64), size, [dso.name.encode("utf-8", "surrogateescape")], binding=0, type=0))

    def _load_kernel(self) -> None:
        path = self._options.kallsyms or ("" if self._options.root else _PROC_KALLSYMS)
        kernel = self._timeline.kernel_dso
        self.looked[kernel] = [path] if path else []
        if not path or not os.path.exists(path):
            return
        with open(path, "rb") as file:
            table = kallsyms.parse(file.read())
        self._share(table)

    def _share(self, table: kallsyms.Kallsyms) -> None:
        """Give the kernel and each module the symbols that kallsyms has for them."""
        delta = self._relocation(table)
        if delta is None or table.restricted:
            return
        symbols, module = table.closed()
        names = table.module_names()
        kernel = symbols.pick(module == -1)
        self._tables[self._timeline.kernel_dso] = SymbolTable(_moved(kernel, -delta), self._kernel_demangle())
        spaces = self._timeline.spaces
        for number, dso in enumerate(self._dsos):
            if dso.kind is DsoKind.MODULE and dso.short_name in names:
                mine = symbols.pick(module == names.index(dso.short_name))
                at = int(np.flatnonzero(spaces.dso == number)[0])
                self._tables[number] = SymbolTable(_moved(mine, int(spaces.bias[at])), self._kernel_demangle())

    def _relocation(self, table: kallsyms.Kallsyms) -> int | None:
        """How far the file's kernel lies above the recorded one; None where the reference symbol is missing."""
        if not self._timeline.kernel_reference:
            return 0
        name, address = self._timeline.kernel_reference
        now = table.address_of(name)
        return None if now is None else now - address

    def _kernel_demangle(self) -> Demangle:
        return demangle if self._options.demangle_kernel else plain


def _moved(symbols: Symbols, distance: int) -> Symbols:
    step = np.uint64(distance % (1 << 64))
    return Symbols(**{**vars(symbols), "start": symbols.start + step, "end": symbols.end + step})


