"""Read code of the running kernel and its modules from its memory (/proc/kcore), as a small ELF file.

The code is as patched at boot. Layout: elf(5), fs/proc/kcore.c.
"""

from __future__ import annotations

import struct
import sys
from typing import TYPE_CHECKING, Final

from perfpy.symbols.files.elf import DAMAGE, ElfFile
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from typing import BinaryIO

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
