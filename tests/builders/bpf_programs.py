"""BPF programs that only add numbers, loaded into this machine's kernel: for tests of what a recording says of them.

Input: the names of functions; the first one calls the others.
Output: a descriptor; the program is loaded until it is closed, and can be run. Layouts: union
bpf_attr and struct bpf_insn in include/uapi/linux/bpf.h, include/uapi/linux/btf.h.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_SYSCALL: Final = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_TEST_RUN, _BTF_LOAD = 5, 10, 18
_SOCKET_FILTER: Final = 1
_ATTR_SIZE: Final = 148

_ADDITIONS: Final = 500  # enough for a sample to hit them

_INT, _FUNC_PROTO, _FUNC = 1, 13, 12


def types(functions: Sequence[str]) -> bytes:
    """BTF of functions (struct __sk_buff *, of type unsigned long) -> int; their types are 3, 4, ..."""
    strings = b"\0int\0x\0"
    records = struct.pack("=IIII", 1, _INT << 24, 4, 1 << 24 | 32)
    records += struct.pack("=III", 0, _FUNC_PROTO << 24 | 1, 1) + struct.pack("=II", 5, 1)
    for place, name in enumerate(functions):
        records += struct.pack("=III", len(strings), _FUNC << 24 | (place == 0), 2)  # the first is global, the others static
        strings += name.encode() + b"\0"
    return struct.pack("=HBBIIIII", 0xEB9F, 1, 0, 24, 0, len(records), len(records), len(strings)) + records + strings


def load(name: str, functions: Sequence[str] = ()) -> int:
    """Load a program; functions: the names in its BTF, without them it has one function and no BTF. Raises OSError if one may not."""
    body = struct.pack("=BBhi", 0xB7, 0, 0, 0) + struct.pack("=BBhi", 0x07, 0, 0, 3) * _ADDITIONS + struct.pack("=BBhi", 0x95, 0, 0, 0)
    size = len(body) // 8
    others = functions[1:]
    starts = [0, *(len(others) + size * (place + 1) for place in range(len(others)))]
    # the first calls the others, at a distance counted from behind the call
    code = b"".join(struct.pack("=BBhi", 0x85, 0x10, 0, start - place - 1) for place, start in enumerate(starts[1:]))
    code += body * (len(others) + 1)
    buffers = [ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL\0")]
    attr = struct.pack("=IIQQ", _SOCKET_FILTER, len(code) // 8, ctypes.addressof(buffers[0]), ctypes.addressof(buffers[1]))
    attr += struct.pack("=IIQII", 0, 0, 0, 0, 0) + name.encode().ljust(16, b"\0")
    types_fd = -1
    if functions:
        blob = ctypes.create_string_buffer(types(functions))
        types_fd = _bpf(_BTF_LOAD, struct.pack("=QQIII", ctypes.addressof(blob), 0, len(blob) - 1, 0, 0))
        places = b"".join(struct.pack("=II", start, 3 + place) for place, start in enumerate(starts))
        buffers.append(ctypes.create_string_buffer(places))
        attr += struct.pack("=IIIIQI", 0, 0, types_fd, 8, ctypes.addressof(buffers[-1]), len(functions))
    try:
        return _bpf(_PROG_LOAD, attr)
    finally:
        if types_fd >= 0:
            os.close(types_fd)


def run(program: int, times: int) -> None:
    """Run a program on an empty packet, as often as wanted."""
    packet = ctypes.create_string_buffer(64)
    _bpf(_PROG_TEST_RUN, struct.pack("=IIIIQQI", program, 0, 64, 0, ctypes.addressof(packet), 0, times))


def _bpf(command: int, attr: bytes) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    number = _SYSCALL.get(os.uname().machine)
    if number is None:
        raise OSError("bpf(2) has another number here")
    fd: int = libc.syscall(number, command, ctypes.create_string_buffer(attr, _ATTR_SIZE), _ATTR_SIZE)
    if fd < 0:
        raise OSError(ctypes.get_errno(), f"bpf: {os.strerror(ctypes.get_errno())}")
    return fd
