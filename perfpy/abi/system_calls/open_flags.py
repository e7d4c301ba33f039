"""The flags of open(2), which differ between machines: include/uapi/asm-generic/fcntl.h and the asm/fcntl.h of arm64 and ppc64."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

_USUAL = {"DIRECT": 0x4000, "DIRECTORY": 0x10000, "LARGEFILE": 0x8000, "NOFOLLOW": 0x20000}
_ARM = {"DIRECT": 0x10000, "DIRECTORY": 0x4000, "LARGEFILE": 0x20000, "NOFOLLOW": 0x8000}
_POWER = {"DIRECT": 0x20000, "DIRECTORY": 0x4000, "LARGEFILE": 0x10000, "NOFOLLOW": 0x8000}
_OF_MACHINES = {"aarch64": _ARM, "arm64": _ARM, "ppc64": _POWER, "ppc64le": _POWER}
_COMMON = {
    "WRONLY": 1,
    "RDWR": 2,
    "CREAT": 0x40,
    "EXCL": 0x80,
    "NOCTTY": 0x100,
    "TRUNC": 0x200,
    "APPEND": 0x400,
    "NONBLOCK": 0x800,
    "DSYNC": 0x1000,
    "ASYNC": 0x2000,
    "NOATIME": 0x40000,
    "CLOEXEC": 0x80000,
    "SYNC": 0x101000,
    "PATH": 0x200000,
    "TMPFILE": 0x400000,
}
#: the order in which perf prints them
_ORDER = (
    "RDWR APPEND ASYNC CLOEXEC CREAT DIRECT DIRECTORY EXCL LARGEFILE NOFOLLOW TMPFILE NOATIME NOCTTY NONBLOCK PATH SYNC DSYNC TRUNC WRONLY"
).split()
CREAT = _COMMON["CREAT"]


class OpenBits(NamedTuple):
    """The flags of a machine.

    Attributes:
        names: (mask, name), in the order in which they are printed.
        access: the mask of WRONLY and RDWR.
        sync: the mask of SYNC, which contains that of DSYNC.
    """

    names: tuple[tuple[int, str], ...]
    access: int
    sync: int


@cache
def open_bits(machine: str) -> OpenBits:
    """Return the flags of a machine, as uname(2) names it."""
    values = {**_COMMON, **_OF_MACHINES.get(machine, _USUAL)}
    return OpenBits(tuple((values[name], name) for name in _ORDER), 3, values["SYNC"])
