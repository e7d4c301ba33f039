"""Read build-ids: from an ELF file's notes, the kernel's, and this process's vdso.

Functions return the id's bytes, b"" without one. Imports nothing heavy, because a recorder needs a few build-ids. Layout: gabi's
Elf32/64_Ehdr, Phdr, Shdr and Nhdr; a note is { u32 namesz, descsz, type; name, desc, each padded to 4 bytes }; the build-id's name is
"GNU", its type 3.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

from perfpy.untrusted import paths
from perfpy.untrusted.files import regular_fd

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC: Final = b"\x7fELF"
_GNU: Final = b"GNU\0"
_NT_GNU_BUILD_ID: Final = 3
_PT_NOTE: Final = 4
_SHT_NOTE: Final = 7
_KERNEL_NOTES: Final = "/sys/kernel/notes"
_MAX_NOTES: Final = 1 << 20
_MAX_TABLE: Final = 1 << 22


def of_file(path: str) -> bytes:
    """Return the build-id of an ELF file; b"" if it has none or cannot be read."""
    try:
        fd = regular_fd(path)
    except (OSError, ValueError):  # ValueError: a name with a NUL
        return b""
    try:
        return of_fd(fd)
    finally:
        os.close(fd)


def of_fd(fd: int) -> bytes:
    """Return the build-id of an open ELF file."""
    try:
        return _from_elf(lambda size, offset: os.pread(fd, size, offset))
    except (OSError, struct.error, OverflowError):
        return b""


def of_image(data: bytes) -> bytes:
    """Return the build-id of an ELF file in memory."""
    try:
        return _from_elf(lambda size, offset: data[offset : offset + size])
    except struct.error:
        return b""


def of_kernel(path: str = _KERNEL_NOTES) -> bytes:
    """Return the running kernel's build-id."""
    return _notes_of(path)


def of_module(name: str, root: str = "/sys/module") -> bytes:
    """Return the build-id of a loaded module."""
    try:
        return _notes_of(paths.module_notes(name, root))
    except paths.UnsafeNameError:  # module names may come from a recording
        return b""


def _notes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return from_notes(file.read(_MAX_NOTES), "=")
    except OSError:
        return b""


def vdso_image(maps: str = "/proc/self/maps", memory: str = "/proc/self/mem") -> bytes:
    """Return the vdso mapped in this process. All processes of one word size share it."""
    try:
        with open(maps) as file:
            line = next((line for line in file if line.endswith("[vdso]\n")), "")
        if not line:
            return b""
        start, end = (int(number, 16) for number in line.split(None, 1)[0].split("-"))
        fd = os.open(memory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, end - start, start)
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return b""


def _from_elf(read: Callable[[int, int], bytes]) -> bytes:
    """Search the note segments, then (for files without segments) the note sections."""
    head = read(64, 0)
    if head[:4] != _MAGIC or len(head) < 52:
        return b""
    wide = head[4] == 2
    endian = "<" if head[5] == 1 else ">"
    remaining = _MAX_NOTES  # bytes for all segments and sections together: a file may refer to the same notes thousands of times
    if wide:
        phoff, shoff = struct.unpack_from(endian + "QQ", head, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from(endian + "HHHH", head, 54)
    else:
        phoff, shoff = struct.unpack_from(endian + "II", head, 28)
        phentsize, phnum, shentsize, shnum = struct.unpack_from(endian + "HHHH", head, 42)
    for table, size, count, kind, kind_at, offset_position in (
        (phoff, phentsize, phnum, _PT_NOTE, 0, ("Q", 8, 32) if wide else ("I", 4, 16)),
        (shoff, shentsize, shnum, _SHT_NOTE, 4, ("Q", 24, 32) if wide else ("I", 16, 20)),
    ):
        entries = read(min(size * count, _MAX_TABLE), table) if table else b""
        for position in range(0, len(entries) - size + 1 if size else 0, size or 1):
            if struct.unpack_from(endian + "I", entries, position + kind_at)[0] != kind:
                continue
            code, offset_at, size_at = offset_position
            (offset,) = struct.unpack_from(endian + code, entries, position + offset_at)
            (length,) = struct.unpack_from(endian + code, entries, position + size_at)
            notes = read(min(length, remaining), offset)
            remaining -= len(notes)
            build_id = from_notes(notes, endian)
            if build_id:
                return build_id
    return b""


def from_notes(notes: bytes, endian: str = "=") -> bytes:
    """Return the build-id in the content of a note section."""
    offset = 0
    while offset + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(endian + "III", notes, offset)
        name_at = offset + 12
        data_at = name_at + (name_size + 3 & ~3)
        offset = data_at + (size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[name_at : name_at + name_size] == _GNU:
            return notes[data_at : data_at + size]
    return b""
