"""BPF programs as instructions: a small assembler with labels.

Layout of an instruction, struct bpf_insn in include/uapi/linux/bpf.h: { u8 code; u4 dst, src; s16 offset; s32 immediate }.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import sys
from errno import ENOENT
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator


class BpfCode:
    """The instructions of one program. Registers are numbers from 0 to 10; 10 points to the end of the stack."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, int, int, int]] = []
        self._labels: dict[str, int] = {}
        self._jumps: dict[int, str] = {}

    def emit(self, code: int, dst: int = 0, src: int = 0, offset: int = 0, immediate: int = 0) -> None:
        """Append an instruction."""
        self._code.append((code, dst, src, offset, immediate))

    def label(self, name: str) -> None:
        """Name the next instruction."""
        self._labels[name] = len(self._code)

    def move(self, dst: int, src: int) -> None:
        """Copy a register."""
        self.emit(0xBF, dst, src)

    def set(self, dst: int, value: int) -> None:
        """Set a register to a number."""
        self.emit(0xB7, dst, immediate=value)

    def add(self, dst: int, src: int) -> None:
        """Add a register."""
        self.emit(0x0F, dst, src)

    def subtract(self, dst: int, src: int) -> None:
        """Subtract a register."""
        self.emit(0x1F, dst, src)

    def multiply(self, dst: int, src: int) -> None:
        """Multiply by a register."""
        self.emit(0x2F, dst, src)

    def mask(self, dst: int, value: int) -> None:
        """Keep the bits of a number."""
        self.emit(0x57, dst, immediate=value)

    def add_number(self, dst: int, value: int) -> None:
        """Add a number."""
        self.emit(0x07, dst, immediate=value)

    def load(self, dst: int, src: int, offset: int) -> None:
        """Load a 64-bit word."""
        self.emit(0x79, dst, src, offset)

    def load_half(self, dst: int, src: int, offset: int) -> None:
        """Load 32 bits; the upper half becomes 0."""
        self.emit(0x61, dst, src, offset)

    def store(self, dst: int, offset: int, src: int) -> None:
        """Store a 64-bit word."""
        self.emit(0x7B, dst, src, offset)

    def store_half(self, dst: int, offset: int, src: int) -> None:
        """Store the low 32 bits of a register."""
        self.emit(0x63, dst, src, offset)

    def load_map(self, dst: int, descriptor: int) -> None:
        """Load the address of a map."""
        self.emit(0x18, dst, 1, immediate=descriptor)  # BPF_PSEUDO_MAP_FD
        self.emit(0)

    def call(self, function: int) -> None:
        """Call a function of the kernel (enum bpf_func_id)."""
        self.emit(0x85, immediate=function)

    def end(self) -> None:
        """Return register 0."""
        self.emit(0x95)

    def jump(self, label: str) -> None:
        """Jump to a label."""
        self._jumps[len(self._code)] = label
        self.emit(0x05)

    def may_jump(self, label: str) -> None:
        """Jump out of a loop after some thousand rounds (may_goto; see has_may_goto)."""
        self._jumps[len(self._code)] = label
        self.emit(0xE5)

    def jump_if_equal(self, dst: int, value: int, label: str) -> None:
        """Jump if a register has this value."""
        self._jumps[len(self._code)] = label
        self.emit(0x15, dst, immediate=value)

    def jump_if_other(self, dst: int, value: int, label: str) -> None:
        """Jump if a register has another value."""
        self._jumps[len(self._code)] = label
        self.emit(0x55, dst, immediate=value)

    def jump_if_at_least(self, dst: int, value: int, label: str) -> None:
        """Jump if a register is not below a number, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0x35, dst, immediate=value)

    def jump_if_above(self, dst: int, value: int, label: str) -> None:
        """Jump if a register is above a number, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0x25, dst, immediate=value)

    def jump_if_below(self, dst: int, src: int, label: str) -> None:
        """Jump if a register is below another, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0xAD, dst, src)

    def jump_if_below_number(self, dst: int, value: int, label: str) -> None:
        """Jump if a register is below a number, without sign."""
        self._jumps[len(self._code)] = label
        self.emit(0xA5, dst, immediate=value)

    def jump_if_negative(self, dst: int, label: str) -> None:
        """Jump if a register is negative."""
        self._jumps[len(self._code)] = label
        self.emit(0xC5, dst)

    def jump_if_positive(self, dst: int, label: str) -> None:
        """Jump if a register is above 0, with sign."""
        self._jumps[len(self._code)] = label
        self.emit(0x65, dst)

    def bytes(self) -> bytes:
        """Return the program."""
        encoded = b""
        for number, (code, dst, src, offset, immediate) in enumerate(self._code):
            distance = self._labels[self._jumps[number]] - number - 1 if number in self._jumps else offset
            encoded += struct.pack("=BBhi", code, dst | src << 4, distance, immediate)
        return encoded


# Load BPF programs and create their maps by bpf(2). Layout: union bpf_attr, struct bpf_insn and the layout of BPF_MAP_TYPE_RINGBUF in
# include/uapi/linux/bpf.h.

_libc: Final = ctypes.CDLL(None, use_errno=True)
_SYSCALL_NUMBERS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "ppc64le": 361, "ppc64": 361, "s390x": 351}

_MAP_CREATE, _MAP_LOOKUP_ELEM, _MAP_UPDATE_ELEM, _MAP_DELETE_ELEM, _PROG_LOAD, _MAP_LOOKUP_BATCH = 0, 1, 2, 3, 5, 24
HASH, ARRAY, LRU_HASH, RINGBUF = 1, 2, 9, 27  #: enum bpf_map_type
KPROBE, TRACEPOINT, PERF_EVENT = 2, 5, 7  #: enum bpf_prog_type; the first one is also that of probes in programs
NO_PREALLOC: Final = 1  #: a map that takes memory only for its entries
_ATTR_SIZE: Final = 128
_AT_ONCE: Final = 1 << 12  # entries of a map
_LICENSE: Final = b"GPL"  # helpers that read a task's memory require it of the program
_BUSY, _DISCARDED = 1 << 31, 1 << 30  # of a record's length
_RECORD_HEAD: Final = 8


def _call(command: int, attr: bytes) -> int:
    """Call bpf(2). Raises OSError."""
    number = _SYSCALL_NUMBERS.get(os.uname().machine)
    if number is None or sys.maxsize < 2**32:
        raise OSError("no number of bpf(2) for this machine")
    result: int = _libc.syscall(number, command, ctypes.create_string_buffer(attr, _ATTR_SIZE), _ATTR_SIZE)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def create_map(kind: int, key_size: int, value_size: int, entries: int, flags: int = 0) -> int:
    """Create a map and return its descriptor. Raises OSError."""
    return _call(_MAP_CREATE, struct.pack("=5I", kind, key_size, value_size, entries, flags))


def lookup(descriptor: int, key: bytes, size: int) -> bytes:
    """Return the value of a key. Raises OSError if it is not in the map.

    Args:
        descriptor: of the map.
        key: the key's bytes.
        size: bytes of a value.
    """
    key_buffer, value = ctypes.create_string_buffer(key, len(key)), ctypes.create_string_buffer(size)
    _call(_MAP_LOOKUP_ELEM, struct.pack("=I4xQQQ", descriptor, ctypes.addressof(key_buffer), ctypes.addressof(value), 0))
    return value.raw


def entries(descriptor: int, key_size: int, value_size: int, most: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a hash map, as they are at the moment. Raises OSError.

    Args:
        descriptor: of the map.
        key_size, value_size: in bytes.
        most: its largest number of entries.
    """
    at_once = min(most, _AT_ONCE)
    keys, values = ctypes.create_string_buffer(key_size * at_once), ctypes.create_string_buffer(value_size * at_once)
    position = ctypes.create_string_buffer(max(key_size, 8))
    is_first = True
    for _ in range(most):
        # { u64 in_batch, out_batch, keys, values; u32 count, map_fd; u64 elem_flags, flags; }
        before = 0 if is_first else ctypes.addressof(position)
        addresses = (before, ctypes.addressof(position), ctypes.addressof(keys), ctypes.addressof(values))
        attr = ctypes.create_string_buffer(struct.pack("=QQQQIIQQ", *addresses, at_once, descriptor, 0, 0), _ATTR_SIZE)
        is_last = _try_batch(attr)
        (count,) = struct.unpack_from("=I", attr, 32)
        all_keys, all_values = keys.raw, values.raw
        for row in range(min(count, at_once)):
            yield all_keys[row * key_size : (row + 1) * key_size], all_values[row * value_size : (row + 1) * value_size]
        if is_last:
            return
        is_first = False


def _try_batch(attr: ctypes.Array[ctypes.c_char]) -> bool:
    """Look up the next entries; return whether they are the last."""
    number = _SYSCALL_NUMBERS[os.uname().machine]
    if _libc.syscall(number, _MAP_LOOKUP_BATCH, attr, _ATTR_SIZE) >= 0:
        return False
    code = ctypes.get_errno()
    if code != ENOENT:
        raise OSError(code, os.strerror(code))
    return True


def update(descriptor: int, key: bytes, value: bytes) -> None:
    """Set the value of a key. Raises OSError, for example if the map is full."""
    key_buffer, value_buffer = ctypes.create_string_buffer(key, len(key)), ctypes.create_string_buffer(value, len(value))
    pointers = (ctypes.addressof(key_buffer), ctypes.addressof(value_buffer))
    _call(_MAP_UPDATE_ELEM, struct.pack("=I4xQQQ", descriptor, *pointers, 0))


def delete(descriptor: int, key: bytes) -> None:
    """Remove a key. Raises OSError if it is not in the map."""
    buffer = ctypes.create_string_buffer(key, len(key))
    _call(_MAP_DELETE_ELEM, struct.pack("=I4xQ", descriptor, ctypes.addressof(buffer)))


def load_program(kind: int, instructions: bytes) -> int:
    """Load a program and return its descriptor. Raises OSError."""
    code = ctypes.create_string_buffer(instructions, len(instructions))
    license_text = ctypes.create_string_buffer(_LICENSE)
    pointers = (ctypes.addressof(code), ctypes.addressof(license_text))
    return _call(_PROG_LOAD, struct.pack("=IIQQ", kind, len(instructions) // 8, *pointers))


@cache
def has_may_goto() -> bool:
    """Return whether the kernel knows the instruction may_goto, as Linux 6.9 and later do."""
    program = BpfCode()
    program.set(0, 0)
    program.may_jump("end")
    program.label("end")
    program.emit(0x95)
    try:
        os.close(load_program(PERF_EVENT, program.bytes()))
    except OSError:
        return False
    return True


class BpfRing:
    """The reading side of a BPF_MAP_TYPE_RINGBUF: a page with the consumer's position, one with the producer's, then twice the data."""

    def __init__(self, descriptor: int, size: int) -> None:
        page = mmap.PAGESIZE
        self._consumer = mmap.mmap(descriptor, page)
        self._rest = mmap.mmap(descriptor, page + 2 * size, prot=mmap.PROT_READ, offset=page)
        self._positions = memoryview(self._consumer)[:8].cast("Q"), memoryview(self._rest)[:8].cast("Q")
        self._data = memoryview(self._rest)[page:]
        self._lengths = self._data.cast("I")
        self._mask = size - 1

    def take(self) -> bytes:
        """Copy the complete records so far, with their heads, and release their room. More may come faster than they are copied."""
        consumer, producer = self._positions
        begin, end = consumer[0], producer[0]
        offset = begin & self._mask
        size = min(end - begin, self._mask + 1) if end > begin else 0
        taken = bytes(self._data[offset : offset + _complete_size(self._lengths, offset, size)])
        consumer[0] = begin + len(taken)
        return taken

    def records(self) -> Iterator[bytes]:
        """Yield the complete records so far."""
        taken = self.take()
        for start, size in record_bounds(taken):
            yield taken[start : start + size]

    def close(self) -> None:
        """Unmap the ring."""
        for view in (*self._positions, self._lengths, self._data):
            view.release()
        self._consumer.close()
        self._rest.close()


def _complete_size(lengths: memoryview[int], offset: int, size: int) -> int:
    """Return the bytes of the records in a part of a ring that nobody writes any more.

    Args:
        lengths: the data of the ring.
        offset: where the part begins.
        size: its bytes.
    """
    position, end = offset, offset + size
    while position < end:
        length = lengths[position >> 2]
        if length & _BUSY:
            break
        after = position + ((length & ~_DISCARDED) + _RECORD_HEAD + 7 & ~7)
        if after > end:
            break
        position = after
    return position - offset


def record_bounds(taken: bytes) -> list[tuple[int, int]]:
    """Return start and size of the data of each record, without the discarded ones. taken: by BpfRing.take()."""
    lengths = memoryview(taken).cast("I")
    bounds, position, end = [], 0, len(taken)
    while position < end:
        size = lengths[position >> 2]
        if size & _DISCARDED:
            size &= ~_DISCARDED
        else:
            bounds.append((position + _RECORD_HEAD, size))
        position += size + _RECORD_HEAD + 7 & ~7
    return bounds
