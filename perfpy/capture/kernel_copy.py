"""record --kcore: copy the running kernel's code, its symbols and modules beside the recording.

The folder has `kallsyms`, `modules` and `kcore`, an ELF file with the text of the kernel and of its modules at their addresses.
perf looks for them there, too (perf.data-directory, "kcore_dir"). Layouts: elf(5), fs/proc/kcore.c; /proc/modules has
{ name, size, references, users, state, address }.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from perfpy.errors import PerfError
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.untrusted.destinations import Folder


KALLSYMS: Final = "kallsyms"
KCORE: Final = "kcore"
_MODULES: Final = "modules"
_EHDR_SIZE: Final = 64
_PHDR: Final = struct.Struct("=2I6Q")  # type, flags, offset, vaddr, paddr, filesz, memsz, align
_PT_LOAD: Final = 1
_PAGE: Final = 4096
_HEADERS_MOST: Final = 1 << 20
_LARGEST: Final = 256 << 20  # bytes of text
_PIECE: Final = 1 << 20
_CODE: Final = b"tTwW"


class Range(NamedTuple):
    """A range of addresses; end is exclusive."""

    start: int
    end: int


def copy_kernel(recording: Folder, name: str, proc: str = "/proc") -> None:
    """Write a folder of this name in that of a recording. Raises PerfError if the kernel denies access."""
    try:
        with open_regular(f"{proc}/{KCORE}", of_kernel=True) as memory:
            with open_regular(f"{proc}/{KALLSYMS}", of_kernel=True) as file:
                symbols = file.read()
            with open_regular(f"{proc}/{_MODULES}", of_kernel=True) as file:
                modules = file.read()
            with recording.inner(name) as folder:
                _write(folder, KALLSYMS, iter((symbols,)))
                _write(folder, _MODULES, iter((modules,)))
                _write(folder, KCORE, _kcore(memory, _text(symbols, modules)))
    except OSError as error:
        why = f"{error.filename or f'{proc}/{KCORE}'}: {error.strerror}"
        raise PerfError(f"--kcore: {why}; run as root on a kernel with CONFIG_PROC_KCORE and without lockdown") from None
    except (ValueError, IndexError, struct.error) as error:
        raise PerfError(f"--kcore: {proc}: {error}") from None


def _write(folder: Folder, name: str, pieces: Iterator[bytes]) -> None:
    with open(folder.create(name), "wb") as file:
        os.fchmod(file.fileno(), 0o400)
        file.writelines(pieces)


def _text(symbols: bytes, modules: bytes) -> list[Range]:
    """Return the ranges of code: the kernel's, then each module's up to the end of its last function's page."""
    bounds = {b"_stext": 0, b"_etext": 0}
    last: dict[bytes, int] = {}
    for line in symbols.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] in bounds:
            bounds[words[2]] = int(words[0], 16)
        elif len(words) == 4 and words[1] in _CODE:
            last[words[3]] = max(last.get(words[3], 0), int(words[0], 16))
    if not 0 < bounds[b"_stext"] < bounds[b"_etext"]:
        raise ValueError("the symbols have no addresses; run as root, or set sysctl kernel.kptr_restrict=0")
    ranges = [Range(bounds[b"_stext"] & -_PAGE, -(-bounds[b"_etext"] // _PAGE) * _PAGE)]
    for line in modules.splitlines():
        words = line.split()
        start = int(words[5], 16)
        end = (last.get(b"[" + words[0] + b"]", 0) & -_PAGE) + _PAGE
        if start < end <= start + _LARGEST:
            ranges.append(Range(start & -_PAGE, end))
    return ranges


def _kcore(memory: BinaryIO, ranges: list[Range]) -> Iterator[bytes]:
    """Yield an ELF file of this machine with the ranges that are in kcore."""
    header = memory.read(_EHDR_SIZE)
    (table,) = struct.unpack_from("=Q", header, 32)
    size, count = struct.unpack_from("=2H", header, 54)
    memory.seek(table)
    entries = memory.read(min(size * count, _HEADERS_MOST))
    segments = [_PHDR.unpack_from(entries, offset) for offset in range(0, len(entries) - _PHDR.size + 1, size)]
    parts = [(code_range, offset) for code_range in ranges if (offset := _offset_of(code_range, segments)) is not None]
    if not parts or sum(code_range.end - code_range.start for code_range, _ in parts) > _LARGEST:
        raise ValueError("the kernel's text is not in kcore")
    headers = bytearray(header)
    struct.pack_into("=2Q", headers, 32, _EHDR_SIZE, 0)
    struct.pack_into("=5H", headers, 54, _PHDR.size, len(parts), 0, 0, 0)
    position = -(-(_EHDR_SIZE + len(parts) * _PHDR.size) // _PAGE) * _PAGE
    begin = position
    for code_range, _ in parts:
        length = code_range.end - code_range.start
        headers += _PHDR.pack(_PT_LOAD, 7, position, code_range.start, 0, length, length, _PAGE)
        position += length
    yield bytes(headers).ljust(begin, b"\0")
    for code_range, offset in parts:
        yield from _bytes(memory, offset, code_range.end - code_range.start)


def _offset_of(code_range: Range, segments: list[tuple[int, ...]]) -> int | None:
    for kind, _, offset, start, _, length, _, _ in segments:
        if kind == _PT_LOAD and start <= code_range.start and code_range.end <= start + length:
            return offset + code_range.start - start
    return None


def _bytes(memory: BinaryIO, offset: int, size: int) -> Iterator[bytes]:
    """Yield the bytes of a range; unreadable ones are zeros."""
    while size:
        memory.seek(offset)
        data = memory.read(min(size, _PIECE)) or bytes(min(size, _PAGE))
        yield data
        offset += len(data)
        size -= len(data)
