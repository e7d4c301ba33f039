"""Commands of ioctl(2): include/uapi/asm-generic/ioctl.h, and ioctls.tsv with the names of terminals, perf, KVM, vhost, DRM, sound and USB.

Layout of a command: number in bits 0 to 7, type in 8 to 15, size in 16 to 29, direction in 30 and 31.
"""

from __future__ import annotations

from functools import cache

from perfpy.abi.system_calls.tables import read_rows

_DIRECTIONS = ("NONE", "WRITE", "READ", "READ|WRITE")


@cache
def _table() -> dict[int, str]:
    return {int(number, 16): name for number, name in read_rows("ioctls.tsv")}


@cache
def _types() -> frozenset[int]:
    return frozenset(number >> 8 for number in _table())


def ioctl_name(command: int) -> str:
    """Return the name of a command; its parts if it has none."""
    name = _table().get(command & 0xFFFF)
    if name is not None:
        return name
    number, kind, size, direction = command & 0xFF, command >> 8 & 0xFF, command >> 16 & 0x3FFF, command >> 30
    if kind in _types():
        return f"({kind:#x}, {_hex(number)}, {_hex(direction)})"
    return f"({_DIRECTIONS[direction]}, {_hex(kind)}, {_hex(number)}, {_hex(size)})"


def _hex(number: int) -> str:
    """Return a number as C's %#x."""
    return f"{number:#x}" if number else "0"
