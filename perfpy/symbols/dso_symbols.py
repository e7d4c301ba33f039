"""Load the symbol table of each Dso on first use; for Dsos without one, keep the searched paths."""

from __future__ import annotations

import contextlib

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, Protocol
from perfpy.symbols.demangling.demangle import Demangle, demangle, plain
from perfpy.symbols.dso import HOST, KERNEL_NAME, Dso, DsoKind, perf_map_pid
from perfpy.symbols.files import debug_files, elf_symbols
from perfpy.symbols.files.debug_files import SymbolCache
from perfpy.symbols.files.elf import DAMAGE, ElfFile, read_mini_debug_info, reason_of
from perfpy.symbols.kernel_symbols import KernelSymbols
from perfpy.symbols.symbol_table import EMPTY, SymbolTable, symbols_of_names
from perfpy.untrusted import files as paths
from perfpy.untrusted.files import ForeignFileError, state_of, trusted_file_owners

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Final

    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.files import debuginfod
    from perfpy.symbols.files.debug_files import SharedFiles, SymbolOptions
    from perfpy.symbols.quality_notes import RefusedFile, UnreadableFile

_LARGE_MAP: Final = 4 << 20  # bytes


class StoredFiles(Protocol):
    """Files that are available as bytes."""

    def get(self, name: str) -> bytes | None:
        """Return the bytes of a file, or None if it is missing."""


class KeptSymbols(Protocol):
    """Symbols stored without their files."""

    def table(self, file: str) -> SymbolTable | None:
        """Return the symbols of a file, by its build-id, or its name if it has none."""


class SymbolLoader:
    """The symbol tables of Dsos, by number, loaded on first use.

    Args:
        timeline: the tasks and dsos.
        options: where to search.
        files: files stored in the recording.
        symbols: symbols of files that are not available.
        shared: files found for other recordings.
    """

    def __init__(
        self,
        timeline: TaskTimeline,
        options: SymbolOptions,
        files: StoredFiles | None = None,
        symbols: KeptSymbols | None = None,
        shared: SharedFiles | None = None,
    ) -> None:
        self._shared = shared
        self._recorded_symbols = symbols
        self._timeline = timeline
        self._options = options
        self._recorded_files = files
        self._dsos = timeline.dso_table.dsos
        self._tables: dict[int, SymbolTable] = {}
        self._used: set[int] = set()  # since the last trim()
        self._files_by_dso: dict[int, debug_files.DsoFiles] = {}
        self._looked: dict[int, list[str]] = {}
        self._map_sizes: dict[int, tuple[str, int]] = {}  # dso -> path and size of its perf map when it was read
        self._origins: dict[int, str] = {}
        self._files: list[ElfFile] = []
        self._unreadable: dict[str, str] = {}
        self._refused: dict[str, str] = {}
        self._kernels: dict[int, KernelSymbols] = {}  # by machine
        self._kernel_dsos = 0  # dsos that follow() has checked
        self._module_images: dict[int, tuple[ElfFile, int] | None] = {}
        self._module_code: dict[int, tuple[ElfFile, int] | None] = {}
        self._cache = SymbolCache(debug_files.folder("symbols")) if options.cache else None
        self._debuginfod = _debuginfod_client() if options.debuginfod else None
        self.demangle: Demangle = demangle if options.demangle else plain

    def follow(self, timeline: TaskTimeline) -> None:
        """Continue with a later timeline of the same dso table: reread perf maps that have grown, and the symbols of new modules."""
        self._timeline = timeline
        for number in list(self._map_sizes):
            self.has_grown(number)
        if self._kernels and any(
            self._dsos[number].kind in (DsoKind.KERNEL, DsoKind.MODULE) for number in range(self._kernel_dsos, len(self._dsos))
        ):
            self._kernels.clear()
            self._tables = {number: table for number, table in self._tables.items() if not self._dsos[number].kernel}
        self._kernel_dsos = len(self._dsos)

    def forget(self, names: Collection[str]) -> None:
        """Load the symbols of stored files again, which have changed."""
        for number, dso in enumerate(self._dsos):
            if dso.name in names:
                self._tables.pop(number, None)
                self._files_by_dso.pop(number, None)

    @property
    def kernel(self) -> KernelSymbols:
        """The host kernel's symbols, loaded on first use."""
        return self._kernel_of(HOST)

    def extent_of(self, number: int) -> tuple[int, int] | None:
        """Return the range of the symbols of a kernel, by its Dso; None without symbols."""
        return self._kernel_of(self._dsos[number].machine).extent

    def _kernel_of(self, machine: int) -> KernelSymbols:
        symbols = self._kernels.get(machine)
        if symbols is None:
            stored = self._recorded_files.get(KERNEL_NAME) if self._recorded_files and machine == HOST else None
            recorded = next(kernel for kernel in self._timeline.kernels if kernel.machine == machine)
            symbols = self._kernels[machine] = KernelSymbols(self._timeline, self._options, self._cache, stored, recorded)
            symbols.load()
        return symbols

    def module_image(self, number: int) -> tuple[ElfFile, int] | None:
        """Return the file with a module's debug information and the offset of its frames, None if missing."""
        if number not in self._module_images:
            from perfpy.symbols.files.debug_files import find_debug_module  # few recordings need it

            self._module_images[number] = find_debug_module(self._dsos[number], self._options.root)
        return self._module_images[number]

    def module_code(self, number: int) -> tuple[ElfFile, int] | None:
        """Return the file with a module's code and the offset of its frames, None if missing."""
        if number not in self._module_code:
            from perfpy.symbols.files.debug_files import find_module_code  # few recordings need it

            self._module_code[number] = find_module_code(self._dsos[number], self._options.root)
        return self._module_code[number]

    def table(self, number: int) -> SymbolTable:
        """Return the symbols of a Dso, an empty table if none are found."""
        table = self._tables.get(number)
        self._used.add(number)
        if table is None:
            dso = self._dsos[number]
            table = self._load(number, dso)
            if not len(table) and self._recorded_symbols is not None:
                table = self._recorded_symbols.table(dso.build_id or dso.name) or table
            self._tables[number] = table
        return table

    def trim(self, most: int) -> None:
        """Forget the files that were used least recently until the symbols take less memory, but none used since the last call.

        Args:
            most: bytes.
        """
        for number in self._used & self._tables.keys():
            self._tables[number] = self._tables.pop(number)  # the order is that of the last uses
        sizes = {number: _bytes_of(table) for number, table in self._tables.items() if not self._dsos[number].kernel}
        excess = sum(sizes.values()) - most
        for number, size in sizes.items():
            if excess <= 0 or number in self._used:
                break
            excess -= size
            del self._tables[number]
            files = self._files_by_dso.pop(number, None)
            if files is not None:
                self._files = [file for file in self._files if file not in (files.symbols, files.runtime)]
        self._used.clear()

    def loaded_tables(self) -> dict[int, SymbolTable]:
        """Return the tables that were loaded, by Dso."""
        return dict(self._tables)

    def has_grown(self, number: int) -> bool:
        """Whether the perf map of a Dso has grown since it was read. The next `table` reads it again."""
        path, size = self._map_sizes.get(number, ("", 0))
        slack = size // 8 if size > _LARGE_MAP else 0  # reread large maps only after substantial growth
        if not self._options.live or not path or _size_of(path) <= size + slack:
            return False
        self._tables.pop(number, None)
        return True

    def files(self, number: int) -> debug_files.DsoFiles:
        """Return the ELF files of a user-space Dso, searched once."""
        files = self._files_by_dso.get(number)
        if files is None:
            dso = self._dsos[number]
            stored = stored_symbols = None
            if self._recorded_files:
                from perfpy.perfdata.kept_files import DEBUG_FILE  # few recordings have files

                stored, stored_symbols = self._recorded_files.get(dso.name), self._recorded_files.get(DEBUG_FILE + dso.name)
            if self._shared is not None and not (stored or stored_symbols):
                files = self._shared.find(dso, self._options, self._debuginfod, self._crc_of)
            else:
                files = debug_files.find(dso, self._options, self._debuginfod, stored, stored_symbols, crc_of=self._crc_of)
            self._files_by_dso[number] = files
            self._looked[number], self._origins[number] = files.looked, files.origin
            self._unreadable |= files.unreadable
            self._refused |= files.refused
        return files

    def _crc_of(self, file: ElfFile) -> int:
        return debug_files.crc_of(file, self._cache)

    def found_files(self) -> dict[int, debug_files.DsoFiles]:
        """Return the results of files() so far, by Dso."""
        return dict(self._files_by_dso)

    def set_files(self, number: int, files: debug_files.DsoFiles) -> None:
        """Set the result of files() for a Dso."""
        self._files_by_dso[number] = files
        self._looked[number], self._origins[number] = files.looked, files.origin

    def searched_paths(self, number: int) -> list[str]:
        """Return the paths searched for the symbols of a Dso."""
        if self._dsos[number].kind in (DsoKind.KERNEL, DsoKind.MODULE):
            return self._kernel_of(self._dsos[number].machine).looked
        return self._looked.get(number, [])

    def unusable(self) -> list[UnreadableFile | RefusedFile]:
        """Return the damaged files and those of other builds met so far."""
        in_parts = {file.path: "; ".join(file.flaws) for file in self._files if file.flaws}
        kernel = {path: reason for symbols in self._kernels.values() for path, reason in symbols.unreadable.items()}
        unreadable = in_parts | kernel | self._unreadable
        if not unreadable and not self._refused:
            return []
        from perfpy.symbols.quality_notes import RefusedFile, UnreadableFile  # most reports have none

        refused = (RefusedFile(path, reason) for path, reason in self._refused.items())
        return [*(UnreadableFile(path, reason) for path, reason in unreadable.items()), *refused]

    def origin(self, number: int) -> str:
        """Return perf's letter for the origin of a Dso's symbols, "!" without a file of this build."""
        dso = self._dsos[number]
        if dso.kind in (DsoKind.KERNEL, DsoKind.MODULE):
            return self._kernel_of(dso.machine).origins.get(number, "!")
        return self._origins.get(number, "!")

    def _load(self, number: int, dso: Dso) -> SymbolTable:
        match dso.kind:
            case DsoKind.KERNEL | DsoKind.MODULE:
                return self._kernel_of(dso.machine).tables.get(number, SymbolTable(EMPTY))
            case DsoKind.VSYSCALL:  # three system calls, without a file (arch/x86/entry/vsyscall)
                start = np.arange(3, dtype=np.uint64) * np.uint64(0x400)
                return SymbolTable(symbols_of_names(start, start + np.uint64(0x400), [b"vgettimeofday", b"vtime", b"vgetcpu"]))
            case DsoKind.FILE | DsoKind.VDSO:
                files = self.files(number)
                if files.symbols is None or files.runtime is None:
                    return SymbolTable(EMPTY)
                self._files += {files.symbols, files.runtime}
                try:
                    return files.once(self._table_of, "symbols")
                except DAMAGE as damage:
                    self._unreadable[files.symbols.path] = reason_of(damage)
                    return SymbolTable(EMPTY)
            case DsoKind.JIT:
                return self._load_jit(number, dso)
            case DsoKind.BPF:
                spaces = self._timeline.spaces
                mine = spaces.dso == number
                size = (spaces.map_end[mine] - spaces.map_start[mine]).max(keepdims=True)
                return SymbolTable(
                    symbols_of_names(np.zeros(1, np.uint64), size, [dso.name.encode("utf-8", "surrogateescape")], binding=0, type=0)
                )
        return SymbolTable(EMPTY)

    def _table_of(self, files: debug_files.DsoFiles) -> SymbolTable:
        """Return the symbols of found files. Raises the errors of DAMAGE."""
        assert files.symbols is not None
        assert files.runtime is not None
        mini = None if elf_symbols.has_symtab(files.symbols) else read_mini_debug_info(files.runtime)
        cache = None if files.origin == debug_files.KEPT else self._cache  # the cache identifies files by their paths
        symbols = debug_files.symbols_of(files.symbols, files.runtime, cache)
        return elf_symbols.table_of(symbols, files.runtime, self.demangle, mini)

    def _load_jit(self, number: int, dso: Dso) -> SymbolTable:
        from perfpy.symbols import perf_map

        self._looked[number] = looked = []
        room = perf_map.MOST_FUNCTIONS - sum(len(table) for table in self._tables.values() if isinstance(table, perf_map.MapTable))
        if stored := self._recorded_files.get(dso.name) if self._recorded_files else None:
            self._origins[number] = debug_files.KEPT
            return self._limited(dso, perf_map.MapTable(perf_map.parse(stored, room)), room)
        for path, owners, pid in self._perf_maps(dso):
            looked.append(path)
            self._map_sizes[number] = path, _size_of(path)  # taken before reading: growth during the read is seen later
            try:
                table = perf_map.load(path, owners, pid, room)
            except ForeignFileError as error:
                looked[-1] += f" ({error.strerror}, not to the process: -f if you trust it)"
            except (OSError, ValueError):
                continue
            else:
                self._origins[number] = debug_files.KEPT
                return self._limited(dso, table, room)
        return SymbolTable(EMPTY)

    def _limited(self, dso: Dso, table: SymbolTable, room: int) -> SymbolTable:
        """Note that a perf map was read in part."""
        if len(table) >= room:
            self._unreadable[dso.name] = "too many functions in perf maps; the later ones have no names"
        return table

    def _perf_maps(self, dso: Dso) -> Iterator[tuple[str, Collection[int] | None, int]]:
        """Yield possible perf maps: (path, allowed owners, pid). Anyone can write to /tmp, but not to symfs."""
        from perfpy.symbols.dso import perf_map_paths
        from perfpy.untrusted import process_files

        pid = perf_map_pid(dso.name)
        owners = None if self._options.force else trusted_file_owners() if pid is None else process_files.trusted_owners(pid)
        with contextlib.suppress(paths.UnsafeNameError):
            map_paths = [paths.below("", dso.name)] if pid is None else perf_map_paths(pid)
            yield from ((path, owners, pid or 0) for path in map_paths)
            if self._options.root:
                yield paths.below(self._options.root, dso.name), None, 0


def loader_of(dsos: list[Dso], options: SymbolOptions) -> SymbolLoader:
    """Return a loader of symbols of these files, without mappings."""
    from perfpy.abi.task_columns import RawColumns, decode_tasks  # a loader of a recording's files gets its timeline
    from perfpy.symbols.address_spaces import TaskTimeline

    none = np.zeros(0, np.int64)
    raw = RawColumns(none.astype(np.uint32), none.astype(np.uint16), none, none, none, b"")
    timeline = TaskTimeline(decode_tasks(raw, none.astype(np.uint64), "<"))
    timeline.dso_table.dsos[:] = dsos
    return SymbolLoader(timeline, options)


def _bytes_of(table: SymbolTable) -> int:
    """Return the size of a table in memory, with the mapped names."""
    symbols = table.symbols
    columns = (symbols.start, symbols.end, symbols.binding, symbols.type, symbols.name, symbols.source)
    return sum(column.nbytes for column in columns) + sum(map(len, symbols.sources))


def _debuginfod_client() -> debuginfod.Client:
    from perfpy.symbols.files import debuginfod  # few users have servers

    return debuginfod.Client()


def _size_of(path: str) -> int:
    try:
        return state_of(path).st_size
    except OSError:
        return -1
