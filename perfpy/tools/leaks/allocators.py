"""Probes on the allocating functions of a running process: BPF programs that keep a map of the allocations that are not freed."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.attr import EventAttr
from perfpy.capture.counter import Counter
from perfpy.capture.python_frames.kernel_frames import (
    FRAME,
    HEAD,
    HEAD_OFFSETS,
    RECORD,
    UNKNOWN_THREAD,
    copy_frames,
    copy_head,
    find_thread,
)
from perfpy.errors import PerfError
from perfpy.kernel import bpf as bpf_loading
from perfpy.kernel.bpf import BpfCode
from perfpy.kernel.sysfs import Sysfs
from perfpy.untrusted.pinned_files import PinnedFile
from perfpy.untrusted.process_files import open_identified

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.kernel.procfs import ProcFs
    from perfpy.symbols.files import elf


INTERVAL: Final = 1 << 14  #: bytes of small allocations for each chosen one; a power of two
SHORT_INTERVAL: Final = 1 << 10  #: the same with CPython's small objects
MOST_FRAMES: Final = 24  #: of an allocation, innermost first
VALUE_SIZE: Final = HEAD.size + MOST_FRAMES * FRAME.size
STATE_SIZE: Final = 24  #: bytes of a CPU's state: { s64 bytes until the next choice, allocated bytes; u64 lost allocations }
PENDING_SIZE: Final = 16  #: { u64 size, address of the result }

_LOOKUP, _UPDATE, _DELETE, _RANDOM, _CPU, _PID_TGID, _READ_USER = 1, 2, 3, 7, 8, 14, 112  # enum bpf_func_id
_R0, _R1, _R2, _R3, _R4, _R6, _R7, _R8, _STACK = 0, 1, 2, 3, 4, 6, 7, 8, 10
_REGISTERS: Final = {"rdi": 112, "rsi": 104, "rdx": 96, "rcx": 88}  # in struct pt_regs of x86-64: the arguments
_RESULT: Final = 80  # rax
_KEY, _RESULT_AT, _SIZE, _ADDRESS, _SIZE_KEPT, _WORD_SIZE = -8, -24, -32, -40, -48, -56  # on the program's stack
_ANONYMOUS: Final = 0x20  # MAP_ANONYMOUS
_NO_ADDRESS: Final = 4095  # errors of mmap are above -4096


class Allocator(NamedTuple):
    """A function that allocates memory.

    Attributes:
        sizes: the registers whose product is the size.
        freed: the register with memory that it frees first; "" if it frees none.
        result_by_pointer: it stores the address at its first argument, and returns something else.
        is_mapping: it maps memory; its arguments are those of mmap(2).
        largest: bytes; it leaves more to another allocator. 0: no limit.
    """

    name: str
    sizes: tuple[str, ...]
    freed: str = ""
    result_by_pointer: bool = False
    is_mapping: bool = False
    largest: int = 0


class AllocationMaps(NamedTuple):
    """The descriptors of the maps.

    At its entry, an allocation is chosen or not. At its return, its address and the Python frames of its thread enter a map. Freeing
    removes the address. Layout of a map's value: HEAD and the frames, as in frame_program, with the size in place of the GIL's holder.

    Attributes:
        live: address -> allocation.
        pending: tid -> a chosen allocation between entry and return.
        state: CPU -> see STATE_SIZE.
        threads, scratch: see frame_program.
    """

    live: int
    pending: int
    state: int
    threads: int
    scratch: int


def entry_program(maps: AllocationMaps, allocator: Allocator, interval: int) -> bytes:
    """Return the program at the entry of a function that allocates. interval: see INTERVAL."""
    program = BpfCode()
    program.move(_R6, _R1)
    if allocator.is_mapping:
        _skip_other_mappings(program, maps)
    if allocator.freed:
        _free(program, maps.live, allocator.freed)
    program.load(_R7, _R6, _REGISTERS[allocator.sizes[0]])
    for factor in allocator.sizes[1:]:
        program.load(_R1, _R6, _REGISTERS[factor])
        program.multiply(_R7, _R1)
    program.jump_if_equal(_R7, 0, "end")
    if allocator.largest:
        program.jump_if_above(_R7, allocator.largest, "end")
    _choose(program, maps.state, interval)
    _put_thread(program)
    program.store(_STACK, _SIZE, _R7)
    if allocator.result_by_pointer:
        program.load(_R1, _R6, _REGISTERS["rdi"])
    else:
        program.set(_R1, 0)
    program.store(_STACK, _RESULT_AT, _R1)
    _update(program, maps.pending, _KEY, _SIZE)
    return _ended(program)


def _skip_other_mappings(program: BpfCode, maps: AllocationMaps) -> None:
    """End for mappings of files, for reserved address space, and for mappings that another allocating function makes."""
    program.load(_R1, _R6, _REGISTERS["rcx"])
    program.mask(_R1, _ANONYMOUS)
    program.jump_if_equal(_R1, 0, "end")
    program.load(_R1, _R6, _REGISTERS["rdx"])
    program.emit(0x67, _R1, immediate=32)  # PROT_* is an int
    program.jump_if_equal(_R1, 0, "end")
    _put_thread(program)
    _look_up(program, maps.pending, _KEY)
    program.jump_if_other(_R0, 0, "end")


def _choose(program: BpfCode, state: int, interval: int) -> None:
    """Count the bytes in r7, and end unless the allocation is chosen."""
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, state, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.move(_R8, _R0)
    program.load(_R1, _R8, 8)
    program.add(_R1, _R7)
    program.store(_R8, 8, _R1)
    program.jump_if_at_least(_R7, interval, "chosen")
    program.load(_R1, _R8, 0)
    program.subtract(_R1, _R7)
    program.store(_R8, 0, _R1)
    program.jump_if_positive(_R1, "end")
    program.call(_RANDOM)  # from half an interval to one and a half: no rhythm of the program hits the same allocation always
    program.mask(_R0, interval - 1)
    program.load(_R1, _R8, 0)
    program.add(_R1, _R0)
    program.add_number(_R1, interval // 2)
    program.store(_R8, 0, _R1)
    program.label("chosen")


def return_program(maps: AllocationMaps, interval: int) -> bytes:
    """Return the program at the return of a function that allocates. interval: see INTERVAL."""
    program = BpfCode()
    program.move(_R6, _R1)
    _put_thread(program)
    _look_up(program, maps.pending, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R7, _R0, 0)
    program.store(_STACK, _SIZE_KEPT, _R7)
    program.load(_R8, _R0, 8)
    _on_key(program, maps.pending, _KEY, _DELETE)
    _find_address(program)
    program.move(_R1, _R6)
    find_thread(program, maps.threads, maps.scratch, is_sample=True)
    copy_head(program)
    copy_frames(program, MOST_FRAMES)
    program.jump("put")
    program.label("unknown")
    program.set(_R1, UNKNOWN_THREAD)
    program.store(RECORD, HEAD_OFFSETS["count"], _R1)
    program.label("put")
    _put(program, maps)
    program.jump("end")
    program.label("failed")
    _take_back(program, maps.state, interval)
    return _ended(program)


def _find_address(program: BpfCode) -> None:
    """Put the allocation's address on the stack: the result, or the word at the address in r8. Jump to "failed" if there is none."""
    program.load(_R1, _R6, _RESULT)
    program.jump_if_equal(_R8, 0, "has address")
    program.jump_if_other(_R1, 0, "failed")  # the result is an error
    program.set(_R1, 0)
    program.store(_STACK, _WORD_SIZE, _R1)
    program.move(_R1, _STACK)
    program.add_number(_R1, _WORD_SIZE)
    program.set(_R2, 8)
    program.move(_R3, _R8)
    program.call(_READ_USER)
    program.load(_R1, _STACK, _WORD_SIZE)
    program.label("has address")
    program.store(_STACK, _ADDRESS, _R1)
    program.add_number(_R1, _NO_ADDRESS)  # NULL and the errors of mmap become at most this
    program.jump_if_below_number(_R1, _NO_ADDRESS + 1, "failed")


def _take_back(program: BpfCode, state: int, interval: int) -> None:
    """Subtract a failed allocation from the allocated bytes: what its entry added, for a small one the whole interval."""
    program.jump_if_at_least(_R7, interval, "large")
    program.set(_R7, interval)
    program.label("large")
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, state, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R1, _R0, 8)
    program.subtract(_R1, _R7)
    program.store(_R0, 8, _R1)


def _put(program: BpfCode, maps: AllocationMaps) -> None:
    """Put the allocation into the map of live ones, or count it as lost."""
    program.load(_R1, _STACK, _SIZE_KEPT)
    program.store(RECORD, HEAD_OFFSETS["holder"], _R1)
    program.load_map(_R1, maps.live)
    program.move(_R2, _STACK)
    program.add_number(_R2, _ADDRESS)
    program.move(_R3, RECORD)
    program.set(_R4, 0)
    program.call(_UPDATE)
    program.jump_if_equal(_R0, 0, "end")
    program.call(_CPU)
    program.store_half(_STACK, _KEY, _R0)
    _look_up(program, maps.state, _KEY)
    program.jump_if_equal(_R0, 0, "end")
    program.load(_R1, _R0, 16)
    program.add_number(_R1, 1)
    program.store(_R0, 16, _R1)


def free_program(maps: AllocationMaps, register: str) -> bytes:
    """Return the program at the entry of a function that frees the memory in a register."""
    program = BpfCode()
    program.move(_R6, _R1)
    _free(program, maps.live, register)
    return _ended(program)


def _free(program: BpfCode, live: int, register: str) -> None:
    """Remove the allocation at the address in an argument."""
    program.load(_R1, _R6, _REGISTERS[register])
    program.store(_STACK, _ADDRESS, _R1)
    _on_key(program, live, _ADDRESS, _DELETE)


def _put_thread(program: BpfCode) -> None:
    program.call(_PID_TGID)
    program.store_half(_STACK, _KEY, _R0)


def _look_up(program: BpfCode, descriptor: int, key: int) -> None:
    _on_key(program, descriptor, key, _LOOKUP)


def _update(program: BpfCode, descriptor: int, key: int, value: int) -> None:
    """Set the value of a key; both are on the stack."""
    program.move(_R3, _STACK)
    program.add_number(_R3, value)
    program.set(_R4, 0)
    _on_key(program, descriptor, key, _UPDATE)


def _on_key(program: BpfCode, descriptor: int, key: int, function: int) -> None:
    program.load_map(_R1, descriptor)
    program.move(_R2, _STACK)
    program.add_number(_R2, key)
    program.call(function)


def _ended(program: BpfCode) -> bytes:
    program.label("end")
    program.set(_R0, 0)  # no sample
    program.end()
    return program.bytes()


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
    from perfpy.capture.python_frames.locating import loaded_files
    from perfpy.symbols.files import elf

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
    import numpy as np

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
