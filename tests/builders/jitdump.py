"""jitdump files, piece by piece (tools/perf/Documentation/jitdump-specification.txt)."""

from __future__ import annotations

import struct

PID = 77
X86_64 = 62


def header(pid: int = PID, machine: int = X86_64, flags: int = 0) -> bytes:
    """Return the header of a dump."""
    return struct.pack("<IIIIIIQQ", 0x4A695444, 1, 40, machine, 0, pid, 5, flags)


def record(kind: int, body: bytes, time: int) -> bytes:
    """Return a record of any type."""
    return struct.pack("<IIQ", kind, 16 + len(body), time) + body


def load(name: str, address: int, code: bytes, index: int = 1, *, time: int = 9, pid: int = PID) -> bytes:
    """Return a record of a new function."""
    body = struct.pack("<IIQQQQ", pid, pid, address, address, len(code), index) + name.encode() + b"\0" + code
    return record(0, body, time)


def move(old: int, new: int, size: int, index: int = 1, *, time: int = 9, pid: int = PID) -> bytes:
    """Return a record of a moved function."""
    return record(1, struct.pack("<IIQQQQQ", pid, pid, 0, old, new, size, index), time)


def unwinding(code_size: int, time: int = 9) -> bytes:
    """Return the unwinding information of the next function, in the form of CPython 3.13's trampolines."""
    common = struct.pack("<II", 20, 0) + b"\x01zR\0\x01\x78\x10\x01\x1b" + b"\x0c\x07\x08\x90\x01\0\0"
    place = -code_size // 8 * -8 + len(common) + 8  # of the field, relative to the function
    entry = struct.pack("<IIiI", 20, len(common) + 4, -place, code_size) + b"\0" + b"\x44\x0e\x10\x46\x0e\x08\0"
    table = b"\x01\x1b\x03\x3b" + struct.pack("<iIii", -52, 1, 0, 0)
    frames = common + entry
    return record(4, struct.pack("<QQQ", len(frames + table), len(table), 0) + frames + table, time)
