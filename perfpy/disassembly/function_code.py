"""Locate the code of a function: the file or bytes, and the addresses there. Raises NoCodeError with the reason if there is none."""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.debuginfo.kept_answers import link_addresses
from perfpy.errors import PerfError
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.files.debug_files import has_code, of_build
from perfpy.symbols.files.elf import DAMAGE, ElfFile
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from typing import BinaryIO

    from perfpy.symbols.dso import Dso
    from perfpy.symbols.symbolizer import Symbolizer


_LARGEST: Final = 64 << 20  # bytes of a function
_KERNEL_ADVICE: Final = "name the kernel's own file with -k vmlinux, or keep it: perfpy buildid-cache --add vmlinux"
_MODULE_ADVICE: Final = "its file has to be where it was loaded from, or below --symfs"
_NO_FILE: Final = {
    DsoKind.JIT: "a perf map has the names of the code and not the code; recorded with perfpy record --jit, runtimes with jitdumps give it",
    DsoKind.BPF: "the recording has no code of BPF programs",
    DsoKind.VSYSCALL: "the page of old system calls is not a file",
    DsoKind.NONE: "no file is mapped there",
}


class NoCodeError(PerfError):
    """A function whose code is not available: function, reason."""

    def __init__(self, function: str, reason: str) -> None:
        self.function = function
        self.reason = reason
        super().__init__(f"{function}: {reason}")


class FunctionCode(NamedTuple):
    """The code of a function in `file`, from `start` to `end` (exclusive) in the addresses of its symbols.

    `memory`: the source if the code is not from a file.
    """

    name: str
    file: ElfFile
    start: int
    end: int
    memory: str = ""

    @property
    def is_file(self) -> bool:
        """Whether the code was read from a file as it is, not from memory or a compressed file."""
        return any(self.file.inode)


def function_code(symbolizer: Symbolizer, symbol: int) -> FunctionCode:
    """Return the location of a symbol's code. Raises NoCodeError."""
    symbols = symbolizer.symbols
    name, dso = symbols.name(symbol), symbols.dso(symbol)
    start, end = symbols.start(symbol), symbols.end(symbol)
    if not 0 < end - start <= _LARGEST:
        raise NoCodeError(name, f"a function of {end - start} bytes")
    file, start, end = _in_file(symbolizer, dso, name, start, end)
    in_memory = file.path == NAME and symbolizer.dsos[dso].kind is not DsoKind.BPF
    return FunctionCode(name, file, start, end, PATH if in_memory else "")


def code_bytes(code: FunctionCode) -> bytes:
    """Return the code's bytes, from the segment or else the section at its address."""
    file = code.file
    for segment in file.segments:
        address, offset, size = int(segment["vaddr"]), int(segment["offset"]), int(segment["filesz"])
        if address <= code.start < address + size:
            first = offset + code.start - address
            return bytes(file.content[first : first + min(code.end, address + size) - code.start])
    for section in file.sections[1:]:
        if section.addr <= code.start < section.addr + section.size:
            data = file.data(section)
            return bytes(data[code.start - section.addr : code.end - section.addr])
    raise NoCodeError(code.name, f"{code.file.path} has nothing at {code.start:#x}")


def bytes_at(symbolizer: Symbolizer, dso: int, start: int, size: int) -> tuple[ElfFile, bytes]:
    """Return the file and up to `size` bytes of code at an address of a dso. Raises NoCodeError."""
    name = symbolizer.dsos[dso].name
    file, first, _ = _in_file(symbolizer, dso, name, start, start + size)
    return file, code_bytes(FunctionCode(name, file, first, first + size))


def _in_file(symbolizer: Symbolizer, number: int, name: str, start: int, end: int) -> tuple[ElfFile, int, int]:
    dso = symbolizer.dsos[number]
    is_module = dso.kind is DsoKind.MODULE
    # Code in memory is patched and linked. The running kernel's is read from memory unless its vmlinux is available.
    image = symbolizer.module_code(number) if is_module and symbolizer.running_kernel() is None else symbolizer.image(number)
    if image and has_code(image[0]) and (not is_module or symbolizer.running_kernel() is None):
        file, above = image
        return file, (start - above) % (1 << 64), (end - above) % (1 << 64)
    if dso.kind in (DsoKind.KERNEL, DsoKind.MODULE):
        return _in_kernel(symbolizer, dso, number, name, start, end)
    if dso.kind is DsoKind.BPF:
        code, machine = symbolizer.programs().get(dso.name, (b"", 0)) if symbolizer.programs else (b"", 0)
        if len(code) < end or not machine:
            raise NoCodeError(name, f"{dso.name}: {_NO_FILE[dso.kind]}")
        first = symbolizer.in_memory(number, 0)
        return file_of(machine, first, code), first + start, first + end
    if dso.kind not in (DsoKind.FILE, DsoKind.VDSO):
        raise NoCodeError(name, f"{dso.name}: {_NO_FILE[dso.kind]}")
    files = symbolizer.files(number)
    file_that_ran = files.runtime or of_build(files.original, dso.build_id)  # a file without symbols has code, too
    if file_that_ran is None:
        raise NoCodeError(name, f"{dso.name}{_build_id(dso)} is missing; keep it with perfpy buildid-cache --add, or give --symfs")
    first, last = link_addresses(file_that_ran, np.array([start, end - 1], np.uint64)).tolist()
    return file_that_ran, first, last + 1


def _in_kernel(symbolizer: Symbolizer, dso: Dso, number: int, name: str, start: int, end: int) -> tuple[ElfFile, int, int]:
    """Locate code in the running kernel's memory, if that is the recorded kernel."""
    above = symbolizer.running_kernel()
    if above is None:
        advice = _MODULE_ADVICE if dso.kind is DsoKind.MODULE else _KERNEL_ADVICE
        raise NoCodeError(name, f"the recorded {dso.kind.value}{_build_id(dso)} is missing; {advice}")
    first, last = (int(address) for address in (start, end))
    if dso.kind is DsoKind.MODULE:  # its symbols count from the mapping's start
        first, last = symbolizer.in_memory(number, first), symbolizer.in_memory(number, last)
    first, last = (first - above) % (1 << 64), (last - above) % (1 << 64)
    try:
        return code_of(first, last, symbolizer.kernel_code), first, last
    except OSError as error:
        reason = f"{PATH}: {error.strerror}"
    except ValueError as error:
        reason = str(error)
    raise NoCodeError(name, f"the kernel's memory cannot be read ({reason}); {_KERNEL_ADVICE}")


def kernel_bytes(symbolizer: Symbolizer, start: int, size: int) -> bytes | None:
    """Return code of the recorded kernel at an address, None if it is missing."""
    image = symbolizer.kernel_image()
    if image is not None and has_code(image[0]):
        first = (start - image[1]) % (1 << 64)
        for segment in image[0].segments:
            within = first - int(segment["vaddr"])
            if 0 <= within < int(segment["filesz"]):
                begin = int(segment["offset"]) + within
                return bytes(image[0].content[begin : begin + min(size, int(segment["filesz"]) - within)])
    above = symbolizer.running_kernel()
    if above is None:
        return None
    first = (start - above) % (1 << 64)
    try:
        file = code_of(first, first + size, symbolizer.kernel_code)
        return bytes(file.content[-size:])
    except (OSError, ValueError):
        return None


def _build_id(dso: Dso) -> str:
    return f" with the build-id {dso.build_id}" if dso.build_id else ""


# Read code of the running kernel and its modules from its memory (/proc/kcore), as a small ELF file. The code is as patched at boot.
# Layout: elf(5), fs/proc/kcore.c.

PATH: Final = "/proc/kcore"
NAME: Final = "[kernel memory]"  #: the path of ELF files from memory
_HEADERS_MOST: Final = 1 << 20
_PAGE: Final = 4096
_EHDR_SIZE: Final = 64
_PHDR: Final = "2I6Q"  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_EXECUTABLE: Final = 5


def code_of(start: int, end: int, path: str = "") -> ElfFile:
    """Return the kernel's memory from `start` to `end` as an ELF file, read from /proc/kcore or `path`.

    Raises OSError or ValueError if it cannot be read.
    """
    path = path or PATH
    try:
        with open_regular(path, of_kernel=path == PATH) as memory:
            headers = memory.read(_EHDR_SIZE)
            (offset,) = struct.unpack_from("=Q", headers, 32)
            size, count = struct.unpack_from("=2H", headers, 54)
            headers_read = headers + memory.read(min(offset + size * count, _HEADERS_MOST) - _EHDR_SIZE)
            file = ElfFile(path, _without_sections(headers_read))
            return ElfFile(NAME, _as_file(headers_read, start, _read(memory, file, start, end)))
    except (*DAMAGE, OverflowError) as damage:
        raise ValueError(f"{path}: {damage}") from damage


def file_of(machine: int, start: int, code: bytes) -> ElfFile:
    """Return code stored in a recording as an ELF file for a machine."""
    header = struct.pack(
        "=4s12B2HI3QI6H", b"\x7fELF", 2, 1 + (sys.byteorder == "big"), 1, *bytes(9), 3, machine, 1, *bytes(4), _EHDR_SIZE, *bytes(5)
    )
    return ElfFile(NAME, _as_file(header, start, code))


def _without_sections(headers: bytes) -> bytes:
    """Remove the section headers from an ELF header: they are beyond the bytes read."""
    header = bytearray(headers)
    struct.pack_into("=Q", header, 40, 0)
    struct.pack_into("=3H", header, 58, 0, 0, 0)
    return bytes(header)


def _read(memory: BinaryIO, file: ElfFile, start: int, end: int) -> bytes:
    for segment in file.segments:
        address, offset, size = int(segment["vaddr"]), int(segment["offset"]), int(segment["filesz"])
        if address <= start and end <= address + size:
            memory.seek(offset + start - address)
            code = memory.read(end - start)
            if len(code) == end - start:
                return code
    raise ValueError(f"nothing at {start:#x}")


def _as_file(headers: bytes, start: int, code: bytes) -> bytes:
    """Return an ELF file for the same machine with one segment."""
    header = bytearray(_without_sections(headers)[:_EHDR_SIZE])
    struct.pack_into("=Q", header, 32, _EHDR_SIZE)
    struct.pack_into("=2H", header, 54, struct.calcsize("=" + _PHDR), 1)
    header += struct.pack("=" + _PHDR, 1, _EXECUTABLE, _PAGE, start, 0, len(code), len(code), _PAGE)
    return bytes(header).ljust(_PAGE, b"\0") + code
