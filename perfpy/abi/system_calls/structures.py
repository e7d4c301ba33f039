"""The structures that arguments of system calls point to.

structures.tsv has a row for each argument: the call, the argument, the structure, when its bytes are right (entry, return, or both), and
for arrays where their number of elements is. Layouts are those of the kernel's headers in include/uapi, on machines of 64 bits:

    timespec, timeval       s64 seconds; s64 nanoseconds or microseconds
    itimerspec, itimerval   the interval, then the value
    sockaddr                u16 family, ...: in.h, in6.h, un.h
    pollfd                  s32 fd; s16 events, revents
    epoll_event             u32 events; u64 data; packed on x86-64
    iovec                   u64 base, length
    clone_args              u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, ...
    open_how                u64 flags, mode, resolve
    stat                    differs by machine
    statx                   u32 mask; ... u16 mode at 28; ... u64 size at 40
    rlimit                  u64 current, maximum
    sigset                  u64, bit n of signal n + 1
    sigaction               u64 handler, flags, restorer (not on all machines), sigset
    msghdr                  u64 name; u32 size of name; u64 iovecs, their number, control data, its size; u32 flags
    mmsghdr                 msghdr; u32 bytes sent or received
    fd_set                  u64s, bit n of descriptor n; the count of its elements is one of bits
    sigset_pointer          u64 address of a sigset; u64 its size
    siginfo                 s32 signo, errno, code; then by signal and code
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from perfpy.abi.system_calls.arguments import arguments_of
from perfpy.abi.system_calls.tables import read_rows

RESULT: Final = 6  #: the count is the result of the call
ONE: Final = 7  #: the argument points to one structure
_SIZES: Final = {
    "timespec": 16,
    "timeval": 16,
    "timespec_pair": 16,
    "timeval_pair": 16,
    "itimerspec": 32,
    "itimerval": 32,
    "sockaddr": 1,
    "pollfd": 8,
    "epoll_event": 16,
    "epoll_events": 16,
    "iovec": 16,
    "clone_args": 1,
    "open_how": 1,
    "stat": 64,
    "statx": 48,
    "rlimit": 16,
    "descriptor_pair": 8,
    "sigset": 8,
    "sigaction": 32,
    "msghdr": 56,
    "mmsghdr": 64,
    "fd_set": 8,
    "sigset_pointer": 8,
    "siginfo": 48,
}
_COUNTED_IN_BITS: Final = ("fd_set",)
_POINTERS: Final = ("sigset_pointer",)
_PAIRS: Final = ("timespec_pair", "timeval_pair")  # arrays of two
_PACKED_EVENT: Final = 12
_MACHINES: Final = ("x86_64", "aarch64", "riscv64", "ppc64", "ppc64le", "s390x", "loongarch64")
_WITHOUT_RESTORER: Final = ("riscv64", "loongarch64")
_MODES: Final = {"aarch64": 16, "riscv64": 16, "loongarch64": 16}  # offsets of st_mode; 24 elsewhere


class PointedStructure(NamedTuple):
    """The structure that an argument points to.

    Attributes:
        argument: its index.
        structure: the name of the structure.
        size: bytes of an element.
        at_entry, at_return: when the bytes are right.
        length_from: index of the argument with the number of elements, RESULT or ONE.
        is_count_address: whether that argument is the address of the number, an int.
        is_count_of_bits: whether the number is one of bits, which are in 64-bit words.
        is_pointer: whether the argument points to the address of the structure.
    """

    argument: int
    structure: str
    size: int
    at_entry: bool
    at_return: bool
    length_from: int
    is_count_address: bool
    is_count_of_bits: bool = False
    is_pointer: bool = False


@cache
def _table(machine: str) -> dict[str, tuple[PointedStructure, ...]]:
    table: dict[str, tuple[PointedStructure, ...]] = {}
    for call, argument, structure, when, *count in read_rows("structures.tsv") if machine in _MACHINES else ():
        names = [one.name for one in arguments_of(call) or ()]
        source = count[0] if count else ""
        pointed = PointedStructure(
            argument=names.index(argument),
            structure=structure,
            size=structure_size(structure, machine) * (2 if structure in _PAIRS else 1),
            at_entry=when != "return",
            at_return=when != "entry",
            length_from=RESULT if source == "result" else names.index(source.lstrip("*")) if source else ONE,
            is_count_address=source.startswith("*"),
            is_count_of_bits=structure in _COUNTED_IN_BITS,
            is_pointer=structure in _POINTERS,
        )
        table[call] = (*table.get(call, ()), pointed)
    return table


def structure_size(structure: str, machine: str) -> int:
    """Return the bytes of a structure, or of an element of an array."""
    if structure.startswith("epoll_event") and machine == "x86_64":
        return _PACKED_EVENT
    if structure == "sigaction" and machine in _WITHOUT_RESTORER:
        return 24
    return _SIZES[structure]


def structures_of(call: str, machine: str) -> tuple[PointedStructure, ...]:
    """Return the structures that a call's arguments point to; none on machines of 32 bits."""
    return _table(machine).get(call, ())


def mode_offset(machine: str) -> int:
    """Return the offset of st_mode, an unsigned int, in struct stat."""
    return _MODES.get(machine, 24)
