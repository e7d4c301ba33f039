"""Find text that a process moved to other memory at its own address, and the file that it comes from.

BOLT's --hugify, iodlr, libhugetlbfs and Chrome OS have programs copy their text to huge pages: they map anonymous memory, a memfd or a file
of a memory file system over it, and copy the code back. From then on /proc/PID/maps and the kernel's records have memory there, which has
no symbols. The file is still known, because the process keeps its other segments: a mapping of one of them and the program headers say
which addresses the text has. The bytes decide: only pages equal to the file's are its text. A runtime that generates code where a library
was is not mistaken for the library, because dlclose() unmaps all segments.

Layouts: proc_pid_maps(5), gabi's Elf32/64_Ehdr and Phdr.
"""

from __future__ import annotations

import os
import struct
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.capture.process_memory import ProcessMemory
from perfpy.kernel.procfs import MAP_PRIVATE, PROT_EXEC, ProcMapping
from perfpy.symbols.tasks import is_move_target
from perfpy.untrusted.process_files import open_identified

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Protocol

    class TextMemory(Protocol):
        """The memory of a process."""

        def some(self, address: int, most: int) -> bytes:
            """Return the available bytes, at most `most`."""

        def close(self) -> None:
            """Close it."""


MOST_SECONDS: Final = 0.25  # for one process; 256 MB of text take 0.1
_CHUNK: Final = 1 << 16  # bytes compared at once; more do not stay in the cache, and take three times as long
_MOST_RANGES: Final = 64  # of one mapping
_MOST_SEGMENTS: Final = 128
_PAGE: Final = os.sysconf("SC_PAGESIZE")
_MAGIC: Final = b"\x7fELF"
_PT_LOAD: Final = 1
_PF_X: Final = 1


class Segment(NamedTuple):
    """A PT_LOAD program header: offset and size in the file, address before relocation."""

    offset: int
    address: int
    size: int
    is_text: bool


class _File(NamedTuple):
    fd: int
    segments: Sequence[Segment]


def find_moved_text(
    pid: int,
    mappings: Iterable[ProcMapping],
    seconds: float = MOST_SECONDS,
    open_memory: Callable[[int], TextMemory] = ProcessMemory,
) -> list[ProcMapping]:
    """Return the ranges of a process's memory that hold a file's text, as mappings of that file.

    Without permission to read the memory (Yama's ptrace_scope), the program headers alone decide.

    Args:
        pid: the process.
        mappings: in order, its executable memory and at least the nearest files around it (ProcFs.memory_with_code).
        seconds: the time limit, after which text is left out.
        open_memory: opens a process's memory; raises OSError.
    """
    deadline = time.monotonic() + seconds
    memory: TextMemory | None
    try:
        memory = open_memory(pid)
    except PermissionError:
        memory = None
    except OSError:  # the process is gone
        return []
    with ExitStack() as stack:
        if memory:
            stack.callback(memory.close)
        return list(_Search(pid, memory, deadline, stack).find(list(mappings)))


class _Search:
    """The search in one process. Files stay open until the stack is closed."""

    def __init__(self, pid: int, memory: TextMemory | None, deadline: float, stack: ExitStack) -> None:
        self._pid = pid
        self._memory = memory
        self._deadline = deadline
        self._stack = stack
        self._files: dict[tuple[int, int, int], _File | None] = {}

    def find(self, mappings: Sequence[ProcMapping]) -> Iterator[ProcMapping]:
        """Yield the moved text, as mappings of its files."""
        for memory, neighbours in _with_neighbours(mappings):
            visited: set[tuple[object, ...]] = set()
            for neighbour in neighbours:
                if time.monotonic() > self._deadline:
                    return
                identity = neighbour.major, neighbour.minor, neighbour.inode
                if identity not in self._files:
                    opened = open_identified(neighbour.path, (*identity, 0), (self._pid,))
                    if opened:
                        self._stack.callback(os.close, opened[0])
                    self._files[identity] = _File(opened[0], load_segments(opened[0])) if opened else None
                file = self._files[identity]
                for text, bias in texts_over(memory, neighbour, file.segments if file else ()):
                    candidate = neighbour.inode, text, bias
                    if file and candidate not in visited:
                        visited.add(candidate)
                        yield from self._compare(memory, neighbour, file.fd, text, bias)

    def _compare(self, memory: ProcMapping, neighbour: ProcMapping, fd: int, text: Segment, bias: int) -> Iterator[ProcMapping]:
        """Yield the parts of some memory that are equal to a text segment of a file."""
        first, last = text.address + bias, text.address + text.size + bias
        start, end = max(memory.start, first & -_PAGE), min(memory.end, -(-last & -_PAGE))
        if self._memory is None:
            ranges = [(start, end)] if (start, end) == (memory.start, memory.end) else []
        else:
            ranges = self._equal_ranges(fd, start, end, (first, last), first - text.offset)
        for range_start, range_end in ranges:
            yield neighbour._replace(
                start=range_start, end=range_end, prot=memory.prot, flags=MAP_PRIVATE, offset=range_start - first + text.offset
            )

    def _equal_ranges(self, fd: int, start: int, end: int, text: tuple[int, int], base: int) -> list[tuple[int, int]]:
        """Return the ranges of pages in [start, end) whose part of the text is the file's. The file's first byte would be at `base`."""
        ranges: list[tuple[int, int]] = []
        for chunk in range(start, end, _CHUNK):
            if time.monotonic() > self._deadline:
                break
            for equal_start, equal_end in self._equal_in_chunk(fd, chunk, min(chunk + _CHUNK, end), text, base):
                if ranges and ranges[-1][1] == equal_start:
                    ranges[-1] = ranges[-1][0], equal_end
                elif len(ranges) == _MOST_RANGES:
                    return ranges
                else:
                    ranges.append((equal_start, equal_end))
        return ranges

    def _equal_in_chunk(self, fd: int, start: int, end: int, text: tuple[int, int], base: int) -> Iterator[tuple[int, int]]:
        assert self._memory is not None
        first, last = max(start, text[0]), min(end, text[1])
        code = self._memory.some(first, last - first)
        try:
            recorded = os.pread(fd, last - first, first - base)
        except OSError:
            return
        if len(code) == len(recorded) == last - first and code == recorded:
            yield start, end
            return
        for page in range(start, end, _PAGE):
            part = slice(max(page, first) - first, min(page + _PAGE, last) - first)
            if len(code) >= part.stop and len(recorded) >= part.stop and code[part] == recorded[part]:
                yield page, page + _PAGE


def _with_neighbours(mappings: Sequence[ProcMapping]) -> Iterator[tuple[ProcMapping, list[ProcMapping]]]:
    """Yield memory that may hold text, each with the nearest mappings of files below and above it."""
    above: list[ProcMapping | None] = [None] * len(mappings)
    nearest: ProcMapping | None = None
    for index in range(len(mappings) - 1, -1, -1):
        above[index] = nearest
        if _has_file(mappings[index]):
            nearest = mappings[index]
    below: ProcMapping | None = None
    for mapping, file_above in zip(mappings, above, strict=True):
        if mapping.prot & PROT_EXEC and is_move_target(mapping.path):
            yield mapping, [neighbour for neighbour in (below, file_above) if neighbour is not None]
        elif _has_file(mapping):
            below = mapping


def _has_file(mapping: ProcMapping) -> bool:
    return mapping.inode != 0 and mapping.path.startswith("/") and not is_move_target(mapping.path)


def texts_over(memory: ProcMapping, neighbour: ProcMapping, segments: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    """Yield the text segments of a file that lie over some memory, each with its bias, by a mapping of the same file."""
    for mapped in segments:
        if not mapped.offset & -_PAGE <= neighbour.offset < mapped.offset + mapped.size:
            continue
        bias = neighbour.start - neighbour.offset - (mapped.address - mapped.offset)
        if bias & _PAGE - 1:
            continue
        for text in segments:
            if text.is_text and memory.start < text.address + text.size + bias and text.address + bias < memory.end:
                yield text, bias


def load_segments(fd: int) -> list[Segment]:
    """Return the PT_LOAD segments of an open ELF file with contents; none if it is damaged or not one."""
    try:
        head = os.pread(fd, 64, 0)
        if head[:4] != _MAGIC or len(head) < 64:
            return []
        endian, is_wide = "<" if head[5] == 1 else ">", head[4] == 2
        (table,) = struct.unpack_from(endian + ("Q" if is_wide else "I"), head, 32 if is_wide else 28)
        size, count = struct.unpack_from(endian + "HH", head, 54 if is_wide else 42)
        # { u32 type, flags; u64 offset, vaddr, paddr, filesz ... } or { u32 type, offset, vaddr, paddr, filesz, memsz, flags ... }
        layout = struct.Struct(endian + ("IIQQ8xQ" if is_wide else "III4xI4xI"))
        entries = os.pread(fd, size * min(count, _MOST_SEGMENTS), table)
        segments = []
        for position in range(0, len(entries) - layout.size + 1, max(size, layout.size)):
            kind, *fields = layout.unpack_from(entries, position)
            flags, offset, address, length = fields if is_wide else (fields[3], *fields[:3])
            if kind == _PT_LOAD and length:
                segments.append(Segment(offset, address, length, bool(flags & _PF_X)))
    except (OSError, OverflowError, struct.error):
        return []
    return segments
