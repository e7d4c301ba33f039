"""The functions of a process that allocate and free memory: those of the C library, and of an allocator that replaces it."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.attr import EventAttr
from perfpy.capture.counter import Counter
from perfpy.capture.memory_growth.programs import AllocationMaps, Allocator, entry_program, free_program, return_program
from perfpy.capture.python_frames.locating import loaded_files
from perfpy.errors import PerfError
from perfpy.kernel.bpf import loading as bpf_loading
from perfpy.kernel.sysfs import Sysfs
from perfpy.symbols.files import elf
from perfpy.untrusted.identified_file import open_identified
from perfpy.untrusted.pinned_files import PinnedFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.kernel.procfs import ProcFs


_OF_C: Final = (
    Allocator("malloc", ("rdi",)),
    Allocator("calloc", ("rdi", "rsi")),
    Allocator("realloc", ("rsi",), freed="rdi"),
    Allocator("aligned_alloc", ("rsi",)),
    Allocator("memalign", ("rsi",)),
    Allocator("posix_memalign", ("rdx",), result_by_pointer=True),
)
_MAPPING: Final = Allocator("mmap", ("rsi",), is_mapping=True)
LARGEST_SMALL: Final = 512  #: bytes of the objects for which CPython has its own allocator
_OF_PYTHON: Final = (
    Allocator("_PyObject_Malloc", ("rsi",), largest=LARGEST_SMALL),
    Allocator("_PyObject_Calloc", ("rsi", "rdx"), largest=LARGEST_SMALL),
    Allocator("_PyObject_Realloc", ("rdx",), freed="rsi", largest=LARGEST_SMALL),
)
_FREEING: Final = {"free": "rdi", "munmap": "rdi", "_PyObject_Free": "rsi"}  # the register with the memory
_MOST_FILES: Final = 4
_RETURN: Final = 1  # the uprobe PMU's term retprobe


class AllocatorFile(NamedTuple):
    """A file with allocating functions: the open file, the functions, and the offsets of all in it."""

    pinned: PinnedFile
    allocators: tuple[Allocator, ...]
    offsets: dict[str, int]


def find_allocators(procfs: ProcFs, pid: int, *, small_objects: bool) -> list[AllocatorFile]:
    """Return the loaded files that define malloc, and CPython's allocator of small objects. Raises PerfError if they are not to be found.

    Args:
        procfs: the proc file system.
        pid: the process.
        small_objects: whether CPython's allocator is included. The memory that it maps for its objects is left out then.
    """
    allocators = [*_OF_C, *([] if small_objects else [_MAPPING])]
    files: list[AllocatorFile] = []
    has_python = False
    for mapping in loaded_files(procfs.maps(pid, data=True)):
        try:
            opened = open_identified(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
            if opened is None:
                continue
            pinned = PinnedFile(*opened)
            file = elf.ElfFile(pinned.path, fd=pinned.duplicate())
        except (elf.BadElfError, OSError):
            continue
        allocator_file = _functions(pinned, file, ".dynsym", elf.SHT_DYNSYM, allocators)
        if {"malloc", "free"} <= allocator_file.offsets.keys() and len(files) < _MOST_FILES:
            files.append(allocator_file)
        of_python = _functions(pinned, file, ".symtab", elf.SHT_SYMTAB, _OF_PYTHON) if small_objects and not has_python else None
        if of_python and {one.name for one in _OF_PYTHON} | {"_PyObject_Free"} <= of_python.offsets.keys():
            files.append(of_python)
            has_python = True
    if not files:
        raise PerfError(f"process {pid}: no loaded file defines malloc")
    if small_objects and not has_python:
        raise PerfError(
            f"process {pid}: its interpreter has no symbols of its allocator; "
            "start the program with PYTHONMALLOC=malloc in its environment, and drop --small-objects"
        )
    return files


def _functions(pinned: PinnedFile, file: elf.ElfFile, table: str, kind: int, allocators: Sequence[Allocator]) -> AllocatorFile:
    """Return the allocating functions that a file defines, and the freeing ones, one for each address."""
    section = file.section(table, kind)
    if file.bits != 64 or section is None:
        return AllocatorFile(pinned, (), {})
    symbols, strings = file.symbols(section), bytes(file.strings(section))
    function_names = (*(one.name for one in allocators), *_FREEING)
    names = {start: name for name in function_names for start in _starts(strings, name.encode() + b"\0")}
    is_named = np.isin(symbols["name"], np.array(list(names), np.int64))
    offsets: dict[str, int] = {}
    for symbol in symbols[is_named & (symbols["value"] != 0) & (symbols["shndx"] != 0)]:
        offset = _file_offset(file, int(symbol["value"]))
        if offset and offset not in offsets.values():
            offsets[names[int(symbol["name"])]] = offset
    return AllocatorFile(pinned, tuple(one for one in allocators if one.name in offsets), offsets)


def _starts(strings: bytes, text: bytes) -> Iterator[int]:
    """Yield where a text is in a table of strings: names may be the ends of longer ones."""
    start = strings.find(text)
    while start >= 0:
        yield start
        start = strings.find(text, start + 1)


def _file_offset(file: elf.ElfFile, address: int) -> int:
    for segment in file.segments:
        position = address - int(segment["vaddr"])
        if 0 <= position < int(segment["filesz"]):
            return int(segment["offset"]) + position
    return 0


@contextlib.contextmanager
def probes(files: list[AllocatorFile], pid: int, maps: AllocationMaps, interval: int) -> Iterator[None]:
    """Run the programs at the functions of a process, and of its threads. Raises OSError and KernelRefusedError.

    Args:
        files: with the functions.
        pid: the process.
        maps: of the programs.
        interval: bytes of small allocations for each chosen one.
    """
    pmu = Sysfs().pmu("uprobe")
    kind = pmu.type if pmu else None
    if kind is None:
        raise PerfError("this kernel has no probes in programs (uprobes)")
    with contextlib.ExitStack() as opened:
        for file in files:  # freeing first: no allocation in the map can be freed without a probe
            for name, register in _FREEING.items():
                if name in file.offsets:
                    opened.enter_context(_probe(kind, file, name, 0, pid, free_program(maps, register)))
        for config in (_RETURN, 0):
            for file in files:
                for allocator in file.allocators:
                    program = return_program(maps, interval) if config else entry_program(maps, allocator, interval)
                    opened.enter_context(_probe(kind, file, allocator.name, config, pid, program))
        yield


@contextlib.contextmanager
def _probe(kind: int, file: AllocatorFile, name: str, config: int, pid: int, instructions: bytes) -> Iterator[None]:
    # The kernel opens the path again. Nothing shows it, so it may be that of the descriptor, which no other user can exchange.
    path = ctypes.create_string_buffer(b"/proc/self/fd/%d" % file.pinned.fd)
    attr = EventAttr(type=kind, config=config, config1=ctypes.addressof(path), config2=file.offsets[name])
    with Counter(attr, pid, event=f"uprobe on {name}") as counter:
        program = bpf_loading.load_program(bpf_loading.KPROBE, instructions)
        try:
            counter.set_bpf(program)
            yield
        finally:
            os.close(program)
