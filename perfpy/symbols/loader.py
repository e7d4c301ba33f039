"""Load the symbol table of each Dso on first use; for Dsos without one, keep the searched paths."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from perfpy.perfdata.container.kept_files import DEBUG_FILE
from perfpy.symbols.demangling.demangle import Demangle, demangle, plain
from perfpy.symbols.dso import Dso, DsoKind, perf_map_pid
from perfpy.symbols.files import column_files, debug_files, elf_cache, elf_symbols
from perfpy.symbols.files.compressed_files import read_mini_debug_info
from perfpy.symbols.files.elf import DAMAGE, ElfFile, reason_of
from perfpy.symbols.files.symbol_cache import SymbolCache
from perfpy.symbols.mapped_names import KERNEL_NAME
from perfpy.symbols.providers.kernel_symbols import KernelSymbols
from perfpy.symbols.providers.missing import UnreadableFile
from perfpy.symbols.symbol_table import EMPTY, SymbolTable, named
from perfpy.untrusted import paths
from perfpy.untrusted.files import ForeignFileError, state_of, trusted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from perfpy.perfdata.container.kept_files import KeptFiles
    from perfpy.symbols.files import debuginfod
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.files.shared_files import SharedFiles
    from perfpy.symbols.tasks.address_space import TaskTimeline

_LARGE_MAP: Final = 4 << 20  # bytes


class KeptSymbols(Protocol):
    """Symbols that somebody has kept without the files that they are from."""

    def table(self, file: str) -> SymbolTable | None:
        """Those of a file, by its build-id, or its name where it has none."""


class SymbolLoader:
    """Loads symbol tables by the number of a Dso."""

    def __init__(
        self,
        timeline: TaskTimeline,
        options: SymbolOptions,
        kept: KeptFiles | None = None,
        known: KeptSymbols | None = None,
        shared: SharedFiles | None = None,
    ) -> None:
        """kept: files that the recording brings along; known: symbols of files that are not here; shared: files found before."""
        self._shared = shared
        self._known = known
        self._timeline = timeline
        self._options = options
        self._kept = kept
        self._dsos = timeline.dso_table.dsos
        self._tables: dict[int, SymbolTable] = {}
        self._found: dict[int, debug_files.DsoFiles] = {}
        self._looked: dict[int, list[str]] = {}
        self._map_sizes: dict[int, tuple[str, int]] = {}  # of perf maps, when they were read
        self._origins: dict[int, str] = {}
        self._files: list[ElfFile] = []
        self._unreadable: dict[str, str] = {}
        self._kernel: KernelSymbols | None = None
        self._module_images: dict[int, tuple[ElfFile, int] | None] = {}
        self._module_code: dict[int, tuple[ElfFile, int] | None] = {}
        self._cache = SymbolCache(column_files.folder("symbols")) if options.cache else None
        self._debuginfod = _debuginfod_client() if options.debuginfod else None
        self.demangle: Demangle = demangle if options.demangle else plain

    @property
    def kernel(self) -> KernelSymbols:
        """The kernel's symbols, loaded by the first who asks."""
        if self._kernel is None:
            kept = self._kept.get(KERNEL_NAME) if self._kept else None
            self._kernel = KernelSymbols(self._timeline, self._options, self._cache, kept)
            self._kernel.load()
        return self._kernel

    def module_image(self, number: int) -> tuple[ElfFile, int] | None:
        """The file with a module's debug information, and how far its frames lie above it; None where there is none."""
        if number not in self._module_images:
            from perfpy.symbols.files.module_files import find_debug_module  # of few recordings

            self._module_images[number] = find_debug_module(self._dsos[number], self._options.root)
        return self._module_images[number]

    def module_code(self, number: int) -> tuple[ElfFile, int] | None:
        """The file with a module's code, and how far its frames lie above it; None where it is not here."""
        if number not in self._module_code:
            from perfpy.symbols.files.module_files import find_module_code  # of few recordings

            self._module_code[number] = find_module_code(self._dsos[number], self._options.root)
        return self._module_code[number]

    def table(self, number: int) -> SymbolTable:
        """The symbols of a Dso; an empty table where none were found."""
        table = self._tables.get(number)
        if table is None:
            dso = self._dsos[number]
            table = self._load(number, dso)
            if not len(table) and self._known is not None:
                table = self._known.table(dso.build_id or dso.name) or table
            self._tables[number] = table
        return table

    def has_grown(self, number: int) -> bool:
        """Whether the perf map of a Dso has got longer since it was read; then it is read again when it is asked for."""
        path, size = self._map_sizes.get(number, ("", 0))
        more = size // 8 if size > _LARGE_MAP else 0  # what is read again and again has to be worth it
        if not self._options.live or not path or _size_of(path) <= size + more:
            return False
        self._tables.pop(number, None)
        return True

    def files(self, number: int) -> debug_files.DsoFiles:
        """The ELF files of a Dso of user space: the one that ran, and the one with its symbols; searched for once."""
        found = self._found.get(number)
        if found is None:
            dso = self._dsos[number]
            kept = [self._kept.get(name) for name in (dso.name, DEBUG_FILE + dso.name)] if self._kept else []
            if self._shared is not None and not any(kept):
                found = self._shared.find(dso, self._options, self._debuginfod)
            else:
                found = debug_files.find(dso, self._options, self._debuginfod, *kept)
            self._found[number] = found
            self._looked[number], self._origins[number] = found.looked, found.origin
            self._unreadable |= found.unreadable
        return found

    def know_files(self, number: int, found: debug_files.DsoFiles) -> None:
        """What files() is to say of a Dso: somebody has searched before."""
        self._found[number] = found
        self._looked[number], self._origins[number] = found.looked, found.origin

    def looked(self, number: int) -> list[str]:
        """Where the symbols of a Dso were searched."""
        if self._dsos[number].kind in (DsoKind.KERNEL, DsoKind.MODULE):
            return self.kernel.looked
        return self._looked.get(number, [])

    def unreadable(self) -> list[UnreadableFile]:
        """The files that are damaged, wholly or in part; more can come whenever symbols are asked for."""
        in_parts = {file.path: "; ".join(file.flaws) for file in self._files if file.flaws}
        kernel = self._kernel.unreadable if self._kernel else {}
        return [UnreadableFile(path, reason) for path, reason in (in_parts | kernel | self._unreadable).items()]

    def origin(self, number: int) -> str:
        """perf's letter for where the symbols of a Dso come from; "!" where there is no file of this build."""
        dso = self._dsos[number]
        if dso.kind in (DsoKind.KERNEL, DsoKind.MODULE):
            return self.kernel.origins.get(number, "!")
        return self._origins.get(number, "!")

    def _load(self, number: int, dso: Dso) -> SymbolTable:
        match dso.kind:
            case DsoKind.KERNEL | DsoKind.MODULE:
                return self.kernel.tables.get(number, SymbolTable(EMPTY))
            case DsoKind.VSYSCALL:
                return self._vsyscall()
            case DsoKind.FILE | DsoKind.VDSO:
                return self._load_file(number)
            case DsoKind.JIT:
                return self._load_jit(number, dso)
            case DsoKind.BPF:
                return self._program(number, dso)
        return SymbolTable(EMPTY)

    def _vsyscall(self) -> SymbolTable:
        """The page of three system calls that old x86 programs jump into; it is no file (arch/x86/entry/vsyscall)."""
        start = np.arange(3, dtype=np.uint64) * np.uint64(0x400)
        return SymbolTable(named(start, start + np.uint64(0x400), [b"vgettimeofday", b"vtime", b"vgetcpu"]))

    def _load_file(self, number: int) -> SymbolTable:
        found = self.files(number)
        if found.symbols is None or found.runtime is None:
            return SymbolTable(EMPTY)
        self._files += {found.symbols, found.runtime}
        try:
            return found.once(self._table_of, "symbols")
        except DAMAGE as damage:
            self._unreadable[found.symbols.path] = reason_of(damage)
            return SymbolTable(EMPTY)

    def _table_of(self, found: debug_files.DsoFiles) -> SymbolTable:
        """The symbols in files that are there. Raises what damaged files do."""
        assert found.symbols is not None
        assert found.runtime is not None
        mini = None if elf_symbols.has_symtab(found.symbols) else read_mini_debug_info(found.runtime)
        cache = None if found.origin == debug_files.KEPT else self._cache  # it knows files by their paths
        symbols = elf_cache.symbols_of(found.symbols, found.runtime, cache)
        return elf_symbols.table_of(symbols, found.runtime, self.demangle, mini)

    def _load_jit(self, number: int, dso: Dso) -> SymbolTable:
        from perfpy.symbols.providers import perf_map

        self._looked[number] = looked = []
        if kept := self._kept.get(dso.name) if self._kept else None:
            self._origins[number] = debug_files.KEPT
            return perf_map.MapTable(perf_map.parse(kept))
        for path, owners, pid in self._perf_maps(dso):
            looked.append(path)
            self._map_sizes[number] = path, _size_of(path)  # what is written while it is read is read again
            try:
                table = perf_map.load(path, owners, pid)
            except ForeignFileError as error:
                looked[-1] += f" ({error.strerror}, not to the process: -f if you trust it)"
            except (OSError, ValueError):
                continue
            else:
                self._origins[number] = debug_files.KEPT
                return table
        return SymbolTable(EMPTY)

    def _perf_maps(self, dso: Dso) -> Iterator[tuple[str, Collection[int] | None, int]]:
        """Where a perf map may be, whose it has to be, and of which process: everybody can write into /tmp, not below symfs."""
        from perfpy.symbols.files import live_process

        pid = perf_map_pid(dso.name)
        owners = None if self._options.force else trusted() if pid is None else live_process.trusted_owners(pid)
        with contextlib.suppress(paths.UnsafeNameError):
            found = [paths.below("", dso.name)] if pid is None else live_process.perf_map_paths(pid)
            yield from ((path, owners, pid or 0) for path in found)
            if self._options.root:
                yield paths.below(self._options.root, dso.name), None, 0

    def _program(self, number: int, dso: Dso) -> SymbolTable:
        """A BPF program or trampoline is one symbol, named as its Dso."""
        spaces = self._timeline.spaces
        mine = spaces.dso == number
        size = (spaces.map_end[mine] - spaces.map_start[mine]).max(keepdims=True)
        return SymbolTable(named(np.zeros(1, np.uint64), size, [dso.name.encode("utf-8", "surrogateescape")], binding=0, type=0))


def _debuginfod_client() -> debuginfod.Client:
    from perfpy.symbols.files import debuginfod  # few have servers

    return debuginfod.Client()


def _size_of(path: str) -> int:
    try:
        return state_of(path).st_size
    except OSError:
        return -1
