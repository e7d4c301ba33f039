"""Read the loaded BPF programs, and the BTF that names their functions, by bpf(2).

Users without the permission see no programs. Layout: union bpf_attr, struct bpf_prog_info and bpf_btf_info in include/uapi/linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


_libc: Final = ctypes.CDLL(None, use_errno=True)
_SYSCALL_NUMBERS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "ppc64le": 361, "ppc64": 361, "s390x": 351}

_PROG_GET_NEXT_ID: Final = 11
_PROG_GET_FD_BY_ID: Final = 13
_OBJ_GET_INFO_BY_FD: Final = 15

_BTF_GET_FD_BY_ID: Final = 19

_ATTR_SIZE: Final = 128
_INFO_SIZE: Final = 232
# type, id, tag, jited length, translated length, jited address, translated address, load time, uid, maps, map ids, name
_HEAD: Final = struct.Struct("=II8sIIQQQIIQ16s")
_BTF_ID_AT: Final = 128
_BTF_INFO: Final = struct.Struct("=QIIQII")  # struct bpf_btf_info: btf, btf_size, id, name, name_len, kernel_btf


class _Array(NamedTuple):
    """An array that struct bpf_prog_info counts and points to.

    Attributes:
        bit: its number in perf's enum perf_bpil_array_types
        count_at, pointer_at: offsets of count and pointer in the struct
        size: bytes of an element; 0 if the kernel decides
        size_at: offset of the element size in the struct, if the kernel decides
    """

    bit: int
    count_at: int
    pointer_at: int
    size: int = 0
    size_at: int = 0


_CODE: Final = _Array(0, 16, 24, 1)  # jited_prog_insns
_ADDRESSES: Final = _Array(3, 104, 112, 8)  # jited_ksyms
_LENGTHS: Final = _Array(4, 108, 120, 4)  # jited_func_lens
_FUNCTION_TYPES: Final = _Array(5, 144, 136, size_at=132)  # func_info
_LINES: Final = _Array(6, 148, 152, size_at=172)  # line_info
_CODE_LINES: Final = _Array(7, 168, 160, size_at=176)  # jited_line_info
_TAGS: Final = _Array(8, 180, 184, 8)  # prog_tags
_ARRAYS: Final = (_CODE, _ADDRESSES, _LENGTHS, _FUNCTION_TYPES, _LINES, _CODE_LINES, _TAGS)  # the arrays that perf records, in its order


class BpfProgramInfo(NamedTuple):
    """One program.

    Attributes:
        functions: (address, length) of each function
        tags: the tag of each function
        info: the struct bpf_prog_info, with this process's pointers
        arrays: bit -> the array's bytes
        btf_id: the BTF that names the functions; 0 without one
        function_types: the functions' type ids in the BTF
    """

    id: int
    name: str
    tag: bytes
    functions: tuple[tuple[int, int], ...]
    tags: tuple[bytes, ...] = ()
    info: bytes = b""
    arrays: Mapping[int, bytes] = MappingProxyType({})
    btf_id: int = 0
    function_types: tuple[int, ...] = ()

    def with_arrays(self) -> tuple[int, bytes, bytes]:
        """Return the bits of the arrays, the struct with offsets instead of pointers, and the bytes that the offsets refer to.

        An array that the kernel withheld gets a count of 0, because perf trusts the counts of the struct.
        """
        info = bytearray(self.info)
        bits, data = 0, b""
        for array in _ARRAYS:
            content = self.arrays.get(array.bit, b"")
            if content:
                bits |= 1 << array.bit
                struct.pack_into("=Q", info, array.pointer_at, len(data))
                data += content + bytes(-len(content) % 8)
            else:
                struct.pack_into("=I", info, array.count_at, 0)
                struct.pack_into("=Q", info, array.pointer_at, 0)
        return bits, bytes(info), data


def loaded_programs() -> list[BpfProgramInfo]:
    """Return the programs of this machine, by id."""
    number = _SYSCALL_NUMBERS.get(os.uname().machine)
    if number is None:
        return []
    programs = []
    for ident, fd in _descriptors(number):
        try:
            info = _info(number, ident, fd)
        except OSError:  # an older kernel that reports fewer fields
            continue
        finally:
            os.close(fd)
        if info:
            programs.append(info)
    return programs


def _call(number: int, command: int, attr: ctypes.Array[ctypes.c_char]) -> int:
    result: int = _libc.syscall(number, command, ctypes.byref(attr), _ATTR_SIZE)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _descriptors(number: int) -> Iterator[tuple[int, int]]:
    """Yield (id, descriptor) of each program. The caller closes the descriptors."""
    ident = 0
    while True:
        attr = ctypes.create_string_buffer(struct.pack("=I", ident), _ATTR_SIZE)
        try:
            _call(number, _PROG_GET_NEXT_ID, attr)
        except OSError:  # after the last program, or without permission
            return
        (ident,) = struct.unpack_from("=I", attr, 4)
        try:
            fd = _call(number, _PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=I", ident), _ATTR_SIZE))
        except OSError as error:
            if error.errno == errno.ENOENT:  # unloaded in the meantime
                continue
            return
        yield ident, fd


def _query_object(number: int, fd: int, info: ctypes.Array[ctypes.c_char]) -> None:
    """Let the kernel fill `info` with the properties of a descriptor."""
    attr = struct.pack("=IIQ", fd, len(info), ctypes.addressof(info))
    _call(number, _OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(attr, _ATTR_SIZE))


def _info(number: int, ident: int, fd: int) -> BpfProgramInfo | None:
    """Query a program twice: first the sizes of its arrays, then their contents."""
    info = ctypes.create_string_buffer(_INFO_SIZE)
    _query_object(number, fd, info)
    shapes = {array: (_u32(info, array.count_at), array.size or _u32(info, array.size_at)) for array in _ARRAYS}
    if not shapes[_ADDRESSES][0]:
        return None
    ctypes.memset(info, 0, _INFO_SIZE)
    buffers: dict[_Array, ctypes.Array[ctypes.c_char]] = {}
    for array, (count, size) in shapes.items():
        if count and size:
            buffers[array] = ctypes.create_string_buffer(count * size)
            struct.pack_into("=I", info, array.count_at, count)
            struct.pack_into("=Q", info, array.pointer_at, ctypes.addressof(buffers[array]))
            if array.size_at:
                struct.pack_into("=I", info, array.size_at, size)
    _query_object(number, fd, info)
    arrays = {array.bit: buffers[array].raw for array in buffers if _is_complete(info, array, *shapes[array])}
    return _program(ident, info.raw, arrays, shapes[_FUNCTION_TYPES][1])


def _is_complete(info: ctypes.Array[ctypes.c_char], array: _Array, count: int, size: int) -> bool:
    """Whether the kernel filled an array completely. It hides an array from a user by a null pointer or a zero count."""
    (pointer,) = struct.unpack_from("=Q", info, array.pointer_at)
    return bool(pointer) and _u32(info, array.count_at) == count and (not array.size_at or _u32(info, array.size_at) == size)


def _program(ident: int, info: bytes, arrays: dict[int, bytes], type_size: int) -> BpfProgramInfo | None:
    head = _HEAD.unpack_from(info)
    addresses, lengths = (_numbers(arrays.get(array.bit, b""), array.size) for array in (_ADDRESSES, _LENGTHS))
    tags = arrays.get(_TAGS.bit, b"")
    each = tuple(tags[offset : offset + _TAGS.size] for offset in range(0, len(tags), _TAGS.size))
    if not len(addresses) == len(lengths) == len(each) or not all(addresses):  # hidden from this user
        return None
    name = head[-1].split(b"\0", 1)[0].decode(errors="replace")
    records = arrays.get(_FUNCTION_TYPES.bit, b"")  # { u32 insn_off, type_id; }
    types = tuple(_u32(records, offset + 4) for offset in range(0, len(records), type_size or 8))
    functions = tuple(zip(addresses, lengths, strict=True))
    return BpfProgramInfo(ident, name, head[2], functions, each, info, arrays, _u32(info, _BTF_ID_AT), types)


def _numbers(data: bytes, size: int) -> tuple[int, ...]:
    return tuple(int.from_bytes(data[offset : offset + size], sys.byteorder) for offset in range(0, len(data), size))


def _u32(data: ctypes.Array[ctypes.c_char] | bytes, offset: int) -> int:
    (value,) = struct.unpack_from("=I", data, offset)
    return int(value)


def loaded_types(programs: Iterable[BpfProgramInfo]) -> dict[int, bytes]:
    """Return the BTF of programs by its id, without BTF that is gone or hidden from this user."""
    types: dict[int, bytes] = {}
    for ident in sorted({program.btf_id for program in programs} - {0}):
        try:
            types[ident] = _types(_SYSCALL_NUMBERS[os.uname().machine], ident)
        except OSError:
            continue
    return types


def _types(number: int, ident: int) -> bytes:
    fd = _call(number, _BTF_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=I", ident), _ATTR_SIZE))
    try:
        info = ctypes.create_string_buffer(_BTF_INFO.size)
        _query_object(number, fd, info)
        size = _BTF_INFO.unpack_from(info)[1]
        data = ctypes.create_string_buffer(size)
        info = ctypes.create_string_buffer(_BTF_INFO.pack(ctypes.addressof(data), size, 0, 0, 0, 0), _BTF_INFO.size)
        _query_object(number, fd, info)
        return data.raw
    finally:
        os.close(fd)
