"""The loaded BPF programs, by bpf(2).

What enters: nothing. What leaves: a BpfProgramInfo for each program whose
kernel addresses this user may see; an empty list for users who may not ask.
Layout: union bpf_attr and struct bpf_prog_info in include/uapi/linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_libc: Final = ctypes.CDLL(None, use_errno=True)
_SYSCALL_NUMBERS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "loongarch64": 280, "ppc64le": 361, "ppc64": 361, "s390x": 351}

_PROG_GET_NEXT_ID: Final = 11
_PROG_GET_FD_BY_ID: Final = 13
_OBJ_GET_INFO_BY_FD: Final = 15

_ATTR_SIZE: Final = 128
_INFO_SIZE: Final = 232
# type, id, tag, jited length, translated length, jited address, translated address, load time, uid, maps, map ids, name
_HEAD: Final = struct.Struct("=II8sIIQQQIIQ16s")
_KSYMS_AT: Final = 104  # u32 nr_jited_ksyms, nr_jited_func_lens; u64 jited_ksyms, jited_func_lens
_KSYMS: Final = struct.Struct("=IIQQ")
_TAGS_AT: Final = 180  # u32 nr_prog_tags; u64 prog_tags
_TAGS: Final = struct.Struct("=IQ")
_TAG_SIZE: Final = 8


class BpfProgramInfo(NamedTuple):
    """One program: its name and tag, and where each of its functions stands as (address, length).

    tags: of its functions; info: the struct bpf_prog_info, with the pointers of whoever asked.
    """

    id: int
    name: str
    tag: bytes
    functions: tuple[tuple[int, int], ...]
    tags: tuple[bytes, ...] = ()
    info: bytes = b""

    def with_arrays(self) -> tuple[bytes, bytes]:
        """The struct with offsets instead of pointers, and the bytes that they point into: addresses, lengths, tags."""
        count = len(self.functions)
        addresses = struct.pack(f"={count}Q", *(address for address, _ in self.functions))
        lengths = struct.pack(f"={count}I", *(length for _, length in self.functions))
        lengths += bytes(-len(lengths) % 8)
        info = bytearray(self.info)
        _KSYMS.pack_into(info, _KSYMS_AT, count, count, 0, len(addresses))
        _TAGS.pack_into(info, _TAGS_AT, len(self.tags), len(addresses) + len(lengths))
        return bytes(info), addresses + lengths + b"".join(self.tags)


def loaded_programs() -> list[BpfProgramInfo]:
    """The programs of this machine, by id."""
    number = _SYSCALL_NUMBERS.get(os.uname().machine)
    if number is None:
        return []
    found = []
    for ident, fd in _descriptors(number):
        try:
            info = _info(number, ident, fd)
        except OSError:  # a kernel that tells less
            continue
        finally:
            os.close(fd)
        if info:
            found.append(info)
    return found


def _call(number: int, command: int, attr: ctypes.Array[ctypes.c_char]) -> int:
    result: int = _libc.syscall(number, command, ctypes.byref(attr), _ATTR_SIZE)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _descriptors(number: int) -> Iterator[tuple[int, int]]:
    """(id, descriptor) of each program; the descriptors are the caller's to close."""
    ident = 0
    while True:
        attr = ctypes.create_string_buffer(struct.pack("=I", ident), _ATTR_SIZE)
        try:
            _call(number, _PROG_GET_NEXT_ID, attr)
        except OSError:  # the last one, or not allowed
            return
        (ident,) = struct.unpack_from("=I", attr, 4)
        try:
            fd = _call(number, _PROG_GET_FD_BY_ID, ctypes.create_string_buffer(struct.pack("=I", ident), _ATTR_SIZE))
        except OSError as error:
            if error.errno == errno.ENOENT:  # unloaded in the meantime
                continue
            return
        yield ident, fd


def _info(number: int, ident: int, fd: int) -> BpfProgramInfo | None:
    """Ask twice: how many functions there are, then where they stand."""
    info = ctypes.create_string_buffer(_INFO_SIZE)
    attr = ctypes.create_string_buffer(struct.pack("=IIQ", fd, _INFO_SIZE, ctypes.addressof(info)), _ATTR_SIZE)
    _call(number, _OBJ_GET_INFO_BY_FD, attr)
    count = _KSYMS.unpack_from(info, _KSYMS_AT)[0]
    if not count:
        return None
    addresses, lengths = (ctypes.c_uint64 * count)(), (ctypes.c_uint32 * count)()
    ctypes.memset(info, 0, _INFO_SIZE)
    tags = ctypes.create_string_buffer(count * _TAG_SIZE)
    _KSYMS.pack_into(info, _KSYMS_AT, count, count, ctypes.addressof(addresses), ctypes.addressof(lengths))
    _TAGS.pack_into(info, _TAGS_AT, count, ctypes.addressof(tags))
    _call(number, _OBJ_GET_INFO_BY_FD, attr)
    head = _HEAD.unpack_from(info)
    functions = tuple(zip(list(addresses), list(lengths), strict=True))
    if not all(address for address, _ in functions):  # hidden from this user
        return None
    name = head[-1].split(b"\0", 1)[0].decode(errors="replace")
    each = tuple(tags.raw[at : at + _TAG_SIZE] for at in range(0, count * _TAG_SIZE, _TAG_SIZE))
    return BpfProgramInfo(ident, name, head[2], functions, each, info.raw)
