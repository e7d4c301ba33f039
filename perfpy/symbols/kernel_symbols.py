"""Symbols of the recorded kernel and its modules.

Sources, in perf's order: --kallsyms, --vmlinux, the build-id cache, the usual paths of vmlinux, and /proc/kallsyms if the recorded kernel
is running.
"""

from __future__ import annotations

import contextlib
import os
import zlib

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.symbols.demangling.demangle import Demangle, demangle, plain
from perfpy.symbols.dso import HOST, Dso, DsoKind
from perfpy.symbols.files import build_ids, elf_symbols
from perfpy.symbols.files.debug_files import SymbolOptions, same_build_id
from perfpy.symbols.files.elf import DAMAGE, ElfFile, NotElfError, read_module, reason_of
from perfpy.symbols.symbol_table import STB_GLOBAL, STB_LOCAL, STB_WEAK, STT_FUNC, STT_OBJECT, Symbols, SymbolTable
from perfpy.untrusted import files
from perfpy.untrusted.files import read_named

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

    from numpy.typing import NDArray

    from perfpy.symbols.address_spaces import RecordedKernel, TaskTimeline
    from perfpy.symbols.files.debug_files import SymbolCache


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
        self,
        timeline: TaskTimeline,
        options: SymbolOptions,
        cache: SymbolCache | None = None,
        kallsyms: bytes | None = None,
        kernel: RecordedKernel | None = None,
    ) -> None:
        self._kernel = kernel or timeline.kernels[0]  # the host's
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
        kernel = self._kernel.dso
        if self._kernel.machine != HOST:
            self._load_guest()
            return
        if kernel >= 0:
            if self._options.kallsyms:
                self._from_kallsyms(self._options.kallsyms)
            elif self._options.kernel_copy[0] and not self._options.vmlinux:
                self._from_kallsyms(self._options.kernel_copy[0])
            elif not self._from_vmlinux(self._dsos[kernel]):
                if self._kallsyms:  # stored in the recording
                    self._use_table(parse(self._kallsyms))
                elif not self._options.root and (path := self._kallsyms_path(self._dsos[kernel])):
                    self._from_kallsyms(path)
        for number, dso in enumerate(self._dsos):
            if dso.kind is DsoKind.MODULE and dso.machine == HOST and self._options.modules and number not in self.tables:
                self._from_module_file(number, dso)

    def _load_guest(self) -> None:
        """Load the symbols of a virtual machine: from its folder, or the files that the options name."""
        guests, machine = self._options.guests, self._kernel.machine
        if machine:
            with contextlib.suppress(files.UnsafeNameError):
                self._from_kallsyms(files.below(guests.guestmount, f"{machine}/proc/kallsyms"))
        elif guests.guestvmlinux:
            self._from_image(guests.guestvmlinux, self._dsos[self._kernel.dso])
        elif guests.guestkallsyms:
            self._from_kallsyms(guests.guestkallsyms)

    def _kallsyms_path(self, kernel: Dso) -> str:
        if not kernel.build_id or same_build_id(build_ids.of_kernel().hex(), kernel.build_id):
            return _PROC_KALLSYMS
        try:
            path = files.build_id_path(self._options.build_id_cache, kernel.build_id, "kallsyms")
        except files.UnsafeNameError:
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
        reference = self._kernel.reference
        distance = 0 if reference and table.is_at(*reference) else self._relocation(table.address_of)
        if distance is not None and not table.is_restricted:
            self._dsos[self._kernel.dso].long_name = self._kernel.name
            # Assign kallsyms' symbols to the kernel and each module.
            kernel = _shift(table.of_module(-1), distance)
            if len(kernel):
                self.extent = int(kernel.start[0]), int(kernel.end[-1])
                self._keep(self._kernel.dso, kernel, "k" if self._kernel.machine == HOST else "g")
            numbers = {name: number for number, name in enumerate(table.module_names)}
            spaces = self._timeline.spaces
            for number, dso in enumerate(self._dsos):
                is_own = dso.kind is DsoKind.MODULE and dso.machine == self._kernel.machine
                if is_own and self._options.modules and dso.short_name in numbers:
                    mine = table.of_module(numbers[dso.short_name])
                    bias = int(spaces.bias[np.flatnonzero(spaces.dso == number)[0]])
                    self._keep(number, _shift(mine, bias), "k" if self._kernel.machine == HOST else "G")
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
            table = parse(read_named(path, limit=_LARGEST_KALLSYMS))
        except OSError:
            return None
        if cache and key and not table.is_restricted:
            names = "".join(name + "\0" for name in table.module_names)
            column = np.frombuffer(names.encode("utf-8", "surrogateescape"), np.uint8)
            cache.store(key, table.compact().symbols, module=table.module, module_names=column)
        return table

    def _relocation(self, address_of: elf_symbols.AddressOf) -> int | None:
        """Return the distance of the recorded kernel from the file's, None if the file lacks the reference symbol."""
        if not self._kernel.reference:
            return 0
        name, recorded = self._kernel.reference
        address = address_of(name)
        return None if address is None else recorded - address

    def _from_vmlinux(self, kernel: Dso) -> bool:
        return any(self._from_image(path, kernel) for path in self._vmlinux_candidates(kernel))

    def _from_image(self, path: str, kernel: Dso) -> bool:
        """Load the symbols of a vmlinux; return whether it is the recorded kernel's."""
        self.looked.append(path)
        try:
            file = ElfFile(path)
            if kernel.build_id and not same_build_id(file.build_id, kernel.build_id):
                return False
            table = elf_symbols.by_address(file, self._demangle)
        except (OSError, NotElfError):
            return False
        except DAMAGE as damage:
            self.unreadable[path] = reason_of(damage)
            return False
        distance = self._relocation(table.address_of)
        if not len(table) or distance is None:
            return False
        kernel.long_name = path
        self.image = file, distance
        symbols, text = _shift(table.symbols, distance), file.section(".text")
        if text:
            self.extent = text.addr + distance, int(symbols.end[-1])
        self._keep(self._kernel.dso, symbols, "v" if self._kernel.machine == HOST else "V")
        return True

    def _vmlinux_candidates(self, kernel: Dso) -> Iterator[str]:
        options = self._options
        if options.vmlinux and not options.ignore_vmlinux:
            yield options.vmlinux
            return
        if kernel.build_id:
            with contextlib.suppress(files.UnsafeNameError):
                yield files.build_id_path(options.build_id_cache, kernel.build_id, "elf")
        if options.ignore_vmlinux:
            return
        for path in _VMLINUX:
            yield path if path.startswith("/") or not options.root else f"{options.root}/{path}"
        if options.os_release and not options.root:
            with contextlib.suppress(files.UnsafeNameError):
                yield from (pattern.format(files.component(options.os_release)) for pattern in _VMLINUX_OF_RELEASE)

    def _from_module_file(self, number: int, dso: Dso) -> None:
        """Load a module that kallsyms lacks from its .ko. Its mapping starts at .text."""
        try:
            path = files.below(self._options.root, dso.name)
        except files.UnsafeNameError:
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


# Read /proc/kallsyms: symbols of the kernel and of each module, as columns sorted by address. Lines have the form `ADDRESS TYPE
# NAME[\t[MODULE]]` (kernel/kallsyms.c).

_NEWLINE, _TAB, _BRACKET, _DOLLAR = (ord(character) for character in "\n\t]$")
_LOWER: Final = 0x20
_PAGE: Final = np.uint64(4096)
_DIGITS: Final = np.full(256, 255, np.uint8)  # character -> value of the hexadecimal digit
_DIGITS[np.frombuffer(b"0123456789abcdefABCDEF", np.uint8)] = [*range(16), *range(10, 16)]
_WORD: Final = 8  # bytes
_DIGITS_MOST: Final = 16  # digits of an address
_CODE_OR_DATA: Final = np.frombuffer(b"TWDB", np.uint8)
_CODE: Final = np.frombuffer(b"TW", np.uint8)


class Kallsyms:
    """Kernel symbols, sorted by address; each ends at the next.

    The last one before another module (or the kernel) ends at the end of the page after it.

    Attributes:
        symbols: the symbols.
        module: index into module_names, -1 for the kernel itself.
        module_names: in brackets.
    """

    def __init__(self, symbols: Symbols, module: NDArray[np.int32], module_names: list[str]) -> None:
        self.symbols = symbols
        self.module = module
        self.module_names = module_names

    @property
    def is_restricted(self) -> bool:
        """Whether the kernel hid all addresses (kptr_restrict, or no CAP_SYSLOG)."""
        return not self.symbols.start[-1:].any()

    def address_of(self, name: str) -> int | None:
        """Return the address of the first function with a name in the kernel itself, None without one."""
        text = bytes(self.symbols.sources[0])
        encoded_name = name.encode("utf-8", "surrogateescape") + b"\0"
        offsets = []
        offset = text.find(encoded_name) if name else -1
        while offset >= 0:
            # Without a separator before it, the match is the end of a longer name.
            if text[max(offset - 1, 0) : offset] in (b"", b" ", b"\0"):
                offsets.append(offset)
            offset = text.find(encoded_name, offset + 1)
        rows = np.flatnonzero(np.isin(self.symbols.name, offsets) & (self.symbols.type == STT_FUNC))
        if not len(rows):
            return None
        return int(self.symbols.start[rows[np.argmin(self.symbols.name[rows])]])  # the first in the text

    def is_at(self, name: str, address: int) -> bool:
        """Whether a function with a name starts at an address; much faster than address_of."""
        first, last = (int(np.searchsorted(self.symbols.start, np.uint64(address), side)) for side in ("left", "right"))
        table = SymbolTable(self.symbols)
        encoded_name = name.encode("utf-8", "surrogateescape")
        return any(self.symbols.type[row] == STT_FUNC and table.raw_name(row) == encoded_name for row in range(first, last))

    def of_module(self, number: int) -> Symbols:
        """Return the symbols of one module, or of the kernel itself (-1)."""
        rows = np.flatnonzero(self.module == number)
        together = len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1
        return self.symbols.pick(slice(int(rows[0]), int(rows[-1]) + 1) if together else rows)

    def compact(self) -> Kallsyms:
        """Return a copy without the parts of the text that are not names."""
        text = np.frombuffer(self.symbols.sources[0], np.uint8)
        ends = np.flatnonzero(text == 0)
        length = ends[np.searchsorted(ends, self.symbols.name)] + 1 - self.symbols.name
        start = np.cumsum(length) - length
        index = np.arange(int(length.sum())) + np.repeat(self.symbols.name - start, length)
        return Kallsyms(self.symbols.with_columns(name=start, sources=(text[index].tobytes(),)), self.module, self.module_names)


def parse(text: bytes) -> Kallsyms:
    """Parse the text of /proc/kallsyms. Malformed lines are skipped."""
    data = np.frombuffer(text + b"\n" if text and text[-1] != _NEWLINE else text, np.uint8)
    line_end = np.flatnonzero(data == _NEWLINE)
    line = np.append(0, line_end[:-1] + 1) if len(line_end) else line_end
    digits = max(text.find(b" ", 0, _DIGITS_MOST + 1), 0)
    regular = line_end - line > digits + 3
    line, line_end = line[regular], line_end[regular]
    letter = data[line + digits + 1]
    name = line + digits + 3
    is_wanted = np.isin(letter & ~np.uint8(_LOWER), _CODE_OR_DATA) & (data[name] != _DOLLAR)
    is_wanted &= (data[line + digits] == ord(" ")) & (data[name - 1] == ord(" "))
    line, line_end, letter, name = line[is_wanted], line_end[is_wanted], letter[is_wanted], name[is_wanted]
    start, valid = _hexadecimal(data, line, digits)
    line_end, letter, name, start = line_end[valid], letter[valid], name[valid], start[valid]
    upper = letter & ~np.uint8(_LOWER)
    binding = np.where(upper == ord("W"), STB_WEAK, np.where(letter == upper, STB_GLOBAL, STB_LOCAL)).astype(np.uint8)
    symbols = Symbols(
        start=start,
        end=start,
        binding=binding,
        type=np.where(np.isin(upper, _CODE), STT_FUNC, STT_OBJECT).astype(np.uint8),
        name=name,
        source=np.zeros(len(name), np.uint8),
        sources=(data.tobytes().replace(b"\n", b"\0").replace(b"\t", b"\0"),),
    )
    order = np.argsort(start, kind="stable")
    module, names = _number_modules(symbols.sources[0], _modules(data, name, line_end)[order])
    closed = symbols.pick(order).close()
    border = np.flatnonzero(module[1:] != module[:-1])
    closed.end[border] = (closed.start[border] + _PAGE + _PAGE - np.uint64(1)) // _PAGE * _PAGE
    return Kallsyms(closed, module, names)


def _hexadecimal(data: NDArray[np.uint8], line: NDArray[np.int64], digits: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Parse the numbers at the start of lines; also return which of them are valid."""
    value, valid = np.zeros(len(line), np.uint64), np.ones(len(line), np.bool_)
    full_words = digits - digits % _WORD
    if full_words:
        words: NDArray[np.uint64] = np.ndarray(len(data) - _WORD + 1, "<u8", data, strides=(1,))  # a word at every byte
        for column in range(0, full_words, _WORD):
            number, good = _eight_digits(words[line + column].astype(np.uint64, copy=False))
            valid &= good
            value = value << np.uint64(4 * _WORD) | number
    for column in range(full_words, digits):
        digit = _DIGITS[data[line + column]]
        valid &= digit < 16
        value = value << np.uint64(4) | digit.astype(np.uint64)
    return value, valid


def _eight_digits(word: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Parse eight hexadecimal characters per word (the first in the lowest byte) in parallel; also return which are valid."""
    high = _each(0x80)
    letter = word | _each(0x20)
    # Bytes below 0x80 do not carry over into the next byte.
    is_digit = (word + _each(0x80 - ord("0"))) & ~(word + _each(0x80 - ord("9") - 1))
    is_letter = (letter + _each(0x80 - ord("a"))) & ~(letter + _each(0x80 - ord("f") - 1))
    valid = ((is_digit | is_letter) & ~word & high) == high
    value = (word & _each(0x0F)) + (word >> np.uint64(6) & _each(1)) * np.uint64(9)
    for bits, mask in (4, 0x00FF00FF00FF00FF), (8, 0x0000FFFF0000FFFF), (16, 0xFFFFFFFF):
        value = (value << np.uint64(bits) | value >> np.uint64(2 * bits)) & np.uint64(mask)
    return value, valid


def _each(byte: int) -> np.uint64:
    """Return a word that repeats a byte eight times."""
    return np.uint64(byte * 0x0101010101010101)


def _modules(data: NDArray[np.uint8], name: NDArray[np.int64], line_end: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the offset of the module's "[" on each line that ends with "]", -1 on other lines."""
    module = np.full(len(name), -1, np.int64)
    rows = np.flatnonzero(data[line_end - 1] == _BRACKET)
    tabs = np.flatnonzero(data == _TAB) if len(rows) else rows
    if len(tabs):
        tab = tabs[np.maximum(np.searchsorted(tabs, line_end[rows]) - 1, 0)]
        inside = (tab > name[rows]) & (tab < line_end[rows])
        module[rows[inside]] = tab[inside] + 1
    return module


def _number_modules(text: bytes | memoryview, module: NDArray[np.int64]) -> tuple[NDArray[np.int32], list[str]]:
    """Convert the offsets of modules' names to indices (-1 without a module) and the list of names."""
    numbers: dict[bytes, int] = {}
    result = np.full(len(module), -1, np.int32)
    rows = np.flatnonzero(module >= 0)
    text_bytes = bytes(text)
    result[rows] = [
        numbers.setdefault(text_bytes[offset : text_bytes.find(b"\0", offset)], len(numbers)) for offset in module[rows].tolist()
    ]
    return result, [name.decode("utf-8", "surrogateescape") for name in numbers]
