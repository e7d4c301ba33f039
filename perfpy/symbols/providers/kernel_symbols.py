"""Symbols of the recorded kernel and its modules.

Sources, in perf's order: --kallsyms, --vmlinux, the build-id cache, the usual paths of vmlinux, and /proc/kallsyms if the recorded kernel
is running.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.symbols.demangling.demangle import Demangle, demangle, plain
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.files import build_id_notes, elf_symbols
from perfpy.symbols.files.compressed_files import read_module
from perfpy.symbols.files.debug_files import SymbolOptions, same_build_id
from perfpy.symbols.files.elf import DAMAGE, ElfFile, NotElfError, reason_of
from perfpy.symbols.mapped_names import KERNEL_NAME
from perfpy.symbols.providers import kallsyms
from perfpy.symbols.providers.kallsyms import Kallsyms
from perfpy.symbols.symbol_table import Symbols, SymbolTable
from perfpy.untrusted import paths
from perfpy.untrusted.files import read_named

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.symbols.caches.symbol_cache import SymbolCache
    from perfpy.symbols.tasks.address_space import TaskTimeline

_LARGEST_KALLSYMS: Final = 512 << 20  # bytes; a kernel with all its modules has 20 MB
_PROC_KALLSYMS: Final = "/proc/kallsyms"
_VMLINUX: Final = ("vmlinux", "/boot/vmlinux")
_VMLINUX_OF_RELEASE: Final = (
    "/boot/vmlinux-{}",
    "/usr/lib/debug/boot/vmlinux-{}",
    "/lib/modules/{}/build/vmlinux",
    "/usr/lib/debug/lib/modules/{}/vmlinux",
    "/usr/lib/debug/boot/vmlinux-{}.debug",
)


class KernelSymbols:
    """The symbols of the kernel and its modules, loaded once, by Dso number in `tables`."""

    def __init__(
        self, timeline: TaskTimeline, options: SymbolOptions, cache: SymbolCache | None = None, kallsyms: bytes | None = None
    ) -> None:
        self._kallsyms = kallsyms  # /proc/kallsyms as stored in the recording
        self._timeline = timeline
        self._options = options
        self._dsos = timeline.dso_table.dsos
        self._cache = cache
        self._demangle: Demangle = demangle if options.demangle_kernel else plain
        self.tables: dict[int, SymbolTable] = {}
        self.origins: dict[int, str] = {}  # perf's letters: k kallsyms, v vmlinux, K module, m compressed module
        self.looked: list[str] = []
        self.unreadable: dict[str, str] = {}  # damaged files and the reason
        self.restricted = False  # /proc/kallsyms exists but hides addresses (kptr_restrict)
        self.image: tuple[ElfFile, int] | None = None  # the vmlinux, and the distance of the recorded kernel's addresses from it
        self.running_below: int | None = None  # the distance of the recorded kernel from the running one; None: it is another kernel
        self.extent: tuple[int, int] | None = None  # the range of its symbols, which replaces the bounds of the kernel's mapping

    def load(self) -> None:
        """Try the sources until one has symbols."""
        kernel = self._timeline.kernel_dso
        if kernel >= 0:
            if self._options.kallsyms:
                self._from_kallsyms(self._options.kallsyms)
            elif self._options.kernel_copy[0] and not self._options.vmlinux:
                self._from_kallsyms(self._options.kernel_copy[0])
            elif not self._from_vmlinux(self._dsos[kernel]):
                self._from_running_kernel(self._dsos[kernel])
        for number, dso in enumerate(self._dsos):
            if dso.kind is DsoKind.MODULE and self._options.modules and number not in self.tables:
                self._from_module_file(number, dso)

    def _from_running_kernel(self, kernel: Dso) -> None:
        """Load kallsyms from the recording or the build-id cache, or the running kernel's."""
        if self._kallsyms:
            self._use_table(kallsyms.parse(self._kallsyms))
        elif not self._options.root and (path := self._kallsyms_path(kernel)):
            self._from_kallsyms(path)

    def _kallsyms_path(self, kernel: Dso) -> str:
        if not kernel.build_id or same_build_id(build_id_notes.of_kernel().hex(), kernel.build_id):
            return _PROC_KALLSYMS
        try:
            path = paths.build_id_path(self._options.build_id_cache, kernel.build_id, "kallsyms")
        except paths.UnsafeNameError:
            return ""
        self.looked.append(path)
        return path if os.path.exists(path) else ""

    def _from_kallsyms(self, path: str) -> None:
        self.looked.append(path)
        table = self._read_kallsyms(path)
        if table is not None:
            distance = self._use_table(table)
            self.running_below = distance if path in (_PROC_KALLSYMS, self._options.kernel_copy[0]) else None

    def _use_table(self, table: Kallsyms) -> int | None:
        """Use a table; return the distance of the recorded kernel from the table's, None if unknown."""
        self.restricted = table.is_restricted
        distance = self._relocation_of(table)
        if distance is not None and not table.is_restricted:
            self._dsos[self._timeline.kernel_dso].long_name = KERNEL_NAME
            self._assign(table, distance)
            return distance
        return None

    def _read_kallsyms(self, path: str) -> Kallsyms | None:
        """Parse a kallsyms file. The running kernel's is cached until a reboot or a change of its modules."""
        cache, key = self._cache, _boot_key() if path == _PROC_KALLSYMS and self._cache else ""
        cached = cache.load(key) if cache and key else None
        if cached:
            names = cached[1]["module_names"].tobytes().decode("utf-8", "surrogateescape")
            return Kallsyms(cached[0], cached[1]["module"], names.split("\0")[:-1])
        try:
            table = kallsyms.parse(read_named(path, limit=_LARGEST_KALLSYMS))
        except OSError:
            return None
        if cache and key and not table.is_restricted:
            names = "".join(name + "\0" for name in table.module_names)
            column = np.frombuffer(names.encode("utf-8", "surrogateescape"), np.uint8)
            cache.store(key, table.compact().symbols, module=table.module, module_names=column)
        return table

    def _relocation_of(self, table: Kallsyms) -> int | None:
        """Compute _relocation; quick for a kernel at an unchanged address."""
        reference = self._timeline.kernel_reference
        return 0 if reference and table.is_at(*reference) else self._relocation(table.address_of)

    def _relocation(self, address_of: elf_symbols.AddressOf) -> int | None:
        """Return the distance of the recorded kernel from the file's, None if the file lacks the reference symbol."""
        if not self._timeline.kernel_reference:
            return 0
        name, recorded = self._timeline.kernel_reference
        address = address_of(name)
        return None if address is None else recorded - address

    def _assign(self, table: Kallsyms, distance: int) -> None:
        """Assign kallsyms' symbols to the kernel and each module."""
        kernel = _shift(table.of_module(-1), distance)
        if len(kernel):
            self.extent = int(kernel.start[0]), int(kernel.end[-1])
            self._keep(self._timeline.kernel_dso, kernel, "k")
        numbers = {name: number for number, name in enumerate(table.module_names)}
        spaces = self._timeline.spaces
        for number, dso in enumerate(self._dsos):
            if dso.kind is DsoKind.MODULE and self._options.modules and dso.short_name in numbers:
                mine = table.of_module(numbers[dso.short_name])
                bias = int(spaces.bias[np.flatnonzero(spaces.dso == number)[0]])
                self._keep(number, _shift(mine, bias), "k")

    def _from_vmlinux(self, kernel: Dso) -> bool:
        for path in self._vmlinux_candidates(kernel):
            self.looked.append(path)
            try:
                file = ElfFile(path)
                if kernel.build_id and not same_build_id(file.build_id, kernel.build_id):
                    continue
                table = elf_symbols.by_address(file, self._demangle)
            except (OSError, NotElfError):
                continue
            except DAMAGE as damage:
                self.unreadable[path] = reason_of(damage)
                continue
            distance = self._relocation(table.address_of)
            if len(table) and distance is not None:
                kernel.long_name = path
                self.image = file, distance
                symbols, text = _shift(table.symbols, distance), file.section(".text")
                if text:
                    self.extent = text.addr + distance, int(symbols.end[-1])
                self._keep(self._timeline.kernel_dso, symbols, "v")
                return True
        return False

    def _vmlinux_candidates(self, kernel: Dso) -> Iterator[str]:
        options = self._options
        if options.vmlinux and not options.ignore_vmlinux:
            yield options.vmlinux
            return
        if kernel.build_id:
            with contextlib.suppress(paths.UnsafeNameError):
                yield paths.build_id_path(options.build_id_cache, kernel.build_id, "elf")
        if options.ignore_vmlinux:
            return
        for path in _VMLINUX:
            yield path if path.startswith("/") or not options.root else f"{options.root}/{path}"
        if options.os_release and not options.root:
            with contextlib.suppress(paths.UnsafeNameError):
                yield from (pattern.format(paths.component(options.os_release)) for pattern in _VMLINUX_OF_RELEASE)

    def _from_module_file(self, number: int, dso: Dso) -> None:
        """Load a module that kallsyms lacks from its .ko. Its mapping starts at .text."""
        try:
            path = paths.below(self._options.root, dso.name)
        except paths.UnsafeNameError:
            return
        if not dso.name.startswith("/") or not os.path.isfile(path):
            return
        self.looked.append(path)
        try:
            file = read_module(path)
            text = file.section(".text")
            if text is None or (dso.build_id and not same_build_id(file.build_id, dso.build_id)):
                return
            table = elf_symbols.load(file, file, self._demangle)
        except (OSError, NotElfError):
            return
        except DAMAGE as damage:
            self.unreadable[path] = reason_of(damage)
        else:
            self._keep(number, _shift(table.symbols, -text.offset), "K" if path.endswith(".ko") else "m")

    def _keep(self, number: int, symbols: Symbols, origin: str) -> None:
        self.tables[number], self.origins[number] = SymbolTable(symbols, self._demangle), origin


def _boot_key() -> str:
    """Return a key of this boot and the loaded modules, "" if the kernel does not provide it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read().hex()
    except OSError:
        return ""
    modules = b""
    with contextlib.suppress(FileNotFoundError), open("/proc/modules", "rb") as file:  # a kernel without modules
        modules = file.read()
    return f"kallsyms {boot} {zlib.crc32(modules)}"


def _shift(symbols: Symbols, distance: int) -> Symbols:
    if not distance:
        return symbols
    step = np.uint64(distance % (1 << 64))
    return symbols.with_columns(start=symbols.start + step, end=symbols.end + step)
