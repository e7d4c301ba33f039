"""Numbers and names of system calls, by machine.

numbers.tsv has a row for each call and a column for each machine; "-" where the machine does not have the call.
"""

from __future__ import annotations

import os
from functools import cache

from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final


_ABSENT = "-"
#: the machine as uname(2) and perf's header spell it -> the column of numbers.tsv
_MACHINES = {
    "x86_64": "x86_64",
    "i386": "i386",
    "i486": "i386",
    "i586": "i386",
    "i686": "i386",
    "aarch64": "arm64",
    "arm64": "arm64",
    "ppc64": "ppc64",
    "ppc64le": "ppc64",
    "s390x": "s390x",
    "riscv64": "riscv64",
}


def has_table(machine: str) -> bool:
    """Whether the calls of a machine are known."""
    return machine in _MACHINES


@cache
def names_by_number(machine: str) -> dict[int, str]:
    """Return number -> name of a machine's calls; empty for an unknown machine."""
    rows = read_rows("numbers.tsv")
    machines = next(rows)
    if machine not in _MACHINES:
        return {}
    column = machines.index(_MACHINES[machine])
    return {int(row[column]): row[0] for row in rows if row[column] != _ABSENT}


@cache
def numbers_by_name(machine: str) -> dict[str, int]:
    """Return name -> number of a machine's calls; empty for an unknown machine."""
    return {name: number for number, name in names_by_number(machine).items()}


# Read the tables beside this module: lines of words between tabs; lines that begin with # are comments.

_FOLDER = os.path.join(os.path.dirname(__file__), "system_call_tables")


def read_rows(name: str) -> Iterator[list[str]]:
    """Yield the rows of a table."""
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as table:
        for line in table:
            if not line.isspace() and not line.startswith("#"):
                yield line.rstrip("\n").split("\t")


# The arguments of system calls: their names as the kernel's tracepoints have them, and their kinds. arguments.tsv has a row for each
# call: its name, then NAME=KIND for each argument, in order. Kinds:
#
#     int, long        signed numbers of 32 and 64 bits
#     hex              addresses and other words
#     text             the address of a string; its low 32 bits are printed, as perf does without BPF
#     buffer           the address of bytes that the call writes
#     fd, dirfd        a descriptor; of a folder, or AT_FDCWD
#     long_fd          a descriptor that the tracepoint declares as a number of 64 bits
#     pid              a process or thread
#     others           tables of constants.tsv, and the kinds of perfpy.tools.trace.call_text


class CallArgument(NamedTuple):
    """One argument of a call."""

    name: str
    kind: str


@cache
def _argument_table() -> dict[str, tuple[CallArgument, ...]]:
    return {row[0]: tuple(CallArgument(*word.split("=")) for word in row[1:]) for row in read_rows("arguments.tsv")}


def arguments_of(name: str) -> tuple[CallArgument, ...] | None:
    """Return the arguments of a call; None if they are unknown."""
    return _argument_table().get(name)


# Names of values and bits in arguments of system calls. constants.tsv has a row for each name: kind, form, value, name. Forms:
#
#     value     the argument is one of these numbers
#     bit       the argument is an OR of these bits, printed in the order of the rows
#     zero      the name of 0 among bits
#     option    how the kind is printed: "always" (0, too), "hex" (other numbers), "array" (bits without a name as perf's arrays print
#     them)


class Constants(NamedTuple):
    """The names of one kind.

    Attributes:
        values: number -> name, if the argument is one of these numbers.
        bits: (mask, name), in the order in which they are printed.
        zero: the text of 0 among bits, "" for none.
        is_always_shown: whether 0 is printed, too.
        is_hex: whether numbers without a name are hexadecimal.
        is_array: whether bits without a name are printed as perf's arrays of names print them.
    """

    values: dict[int, str]
    bits: tuple[tuple[int, str], ...]
    zero: str
    is_always_shown: bool
    is_hex: bool
    is_array: bool


@cache
def _constant_table() -> dict[str, Constants]:
    rows: dict[str, list[tuple[str, int, str]]] = {}
    for kind, form, number, name in read_rows("constants.tsv"):
        rows.setdefault(kind, []).append((form, int(number, 0), name))
    return {kind: _constants(own) for kind, own in rows.items()}


def _constants(rows: list[tuple[str, int, str]]) -> Constants:
    return Constants(
        {number: name for form, number, name in rows if form == "value"},
        tuple((number, name) for form, number, name in rows if form == "bit"),
        next((name for form, _, name in rows if form == "zero"), ""),
        *(any(form == "option" and name == option for form, _, name in rows) for option in ("always", "hex", "array")),
    )


def constants_of(kind: str) -> Constants | None:
    """Return the names of a kind; None if the table does not have it."""
    return _constant_table().get(kind)


# Error numbers of system calls: names and texts, as of all machines but alpha, mips, parisc and sparc. errors.tsv has the number, the
# name of include/uapi/asm-generic/errno.h and the text of strerror(3) in the C locale.


class ErrorName(NamedTuple):
    """The name and the text of an error number."""

    name: str
    text: str


@cache
def _error_table() -> dict[int, ErrorName]:
    return {int(number): ErrorName(name, text) for number, name, text in read_rows("errors.tsv")}


def error_name(number: int) -> ErrorName:
    """Return the name and the text of an error number; the name of an unknown one is its number."""
    return _error_table().get(number) or ErrorName(str(number), f"Unknown error {number}")


# Groups of system calls by name, for -e. "file" and "string" are perf's groups, the calls with strings in their arguments; "network",
# "process", "memory", "signal" and "ipc" are what strace(1) calls %network and so on.

_FILE: Final = (
    "access chmod creat execve faccessat getcwd lstat mkdir open openat quotactl read readlink rename rmdir stat statfs symlink"
    " unlink write"
)
_STRING: Final = (
    "access acct add_key chdir chmod chown chroot creat delete_module execve execveat faccessat fchmodat fchownat fgetxattr finit_module"
    " fremovexattr fsetxattr futimesat getxattr inotify_add_watch lchown lgetxattr link linkat listxattr llistxattr lremovexattr"
    " lsetxattr lstat memfd_create mkdir mkdirat mknod mknodat mq_open mq_timedsend mq_unlink name_to_handle_at newfstatat open openat"
    " pivot_root pwrite64 quotactl readlink readlinkat removexattr rename renameat renameat2 request_key rmdir setxattr stat statfs statx"
    " swapoff swapon symlink symlinkat truncate unlink unlinkat utimensat"
)
_NETWORK: Final = (
    "accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg recvmsg send sendfile sendmmsg sendmsg"
    " sendto setsockopt shutdown socket socketcall socketpair"
)
_PROCESS: Final = (
    "clone clone3 execve execveat exit exit_group fork kill pidfd_open pidfd_send_signal rt_sigqueueinfo rt_tgsigqueueinfo tgkill tkill"
    " unshare vfork wait4 waitid waitpid"
)
_MEMORY: Final = (
    "brk get_mempolicy madvise map_shadow_stack mbind migrate_pages mincore mlock mlock2 mlockall mmap mmap2 move_pages mprotect mremap"
    " mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect process_madvise remap_file_pages set_mempolicy"
    " set_mempolicy_home_node"
)
_SIGNAL: Final = (
    "kill pause pidfd_send_signal rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait"
    " rt_tgsigqueueinfo sigaction sigaltstack signal signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend tgkill tkill"
)
_IPC: Final = (
    "ipc mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop"
    " semtimedop shmat shmctl shmdt shmget"
)
_GROUPS: Final = {
    "file": _FILE,
    "string": _STRING,
    "network": _NETWORK,
    "process": _PROCESS,
    "memory": _MEMORY,
    "signal": _SIGNAL,
    "ipc": _IPC,
}


def calls_of_group(name: str) -> frozenset[str]:
    """Return the calls of a group; empty if there is no such group."""
    return frozenset(_GROUPS.get(name.removeprefix("%"), "").split())


# Commands of ioctl(2): include/uapi/asm-generic/ioctl.h, and ioctls.tsv with the names of terminals, perf, KVM, vhost, DRM, sound and
# USB. Layout of a command: number in bits 0 to 7, type in 8 to 15, size in 16 to 29, direction in 30 and 31.

_DIRECTIONS = ("NONE", "WRITE", "READ", "READ|WRITE")


@cache
def _ioctl_table() -> dict[int, str]:
    return {int(number, 16): name for number, name in read_rows("ioctls.tsv")}


@cache
def _types() -> frozenset[int]:
    return frozenset(number >> 8 for number in _ioctl_table())


def ioctl_name(command: int) -> str:
    """Return the name of a command; its parts if it has none."""
    name = _ioctl_table().get(command & 0xFFFF)
    if name is not None:
        return name
    number, kind, size, direction = command & 0xFF, command >> 8 & 0xFF, command >> 16 & 0x3FFF, command >> 30
    if kind in _types():
        return f"({kind:#x}, {_hex(number)}, {_hex(direction)})"
    return f"({_DIRECTIONS[direction]}, {_hex(kind)}, {_hex(number)}, {_hex(size)})"


def _hex(number: int) -> str:
    """Return a number as C's %#x."""
    return f"{number:#x}" if number else "0"


# The flags of open(2), which differ between machines: include/uapi/asm-generic/fcntl.h and the asm/fcntl.h of arm64 and ppc64.

_USUAL_FLAGS = {"DIRECT": 0x4000, "DIRECTORY": 0x10000, "LARGEFILE": 0x8000, "NOFOLLOW": 0x20000}
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
    values = {**_COMMON, **_OF_MACHINES.get(machine, _USUAL_FLAGS)}
    return OpenBits(tuple((values[name], name) for name in _ORDER), 3, values["SYNC"])


# The kinds of results of system calls.

#: name -> hex, pid, timeout (0 is one) or fcntl_result; other calls return a number
_KINDS: Final = {
    **dict.fromkeys(("brk", "mmap", "mmap2", "mremap"), "hex"),
    **dict.fromkeys(("clone", "getpgid", "getppid", "gettid", "set_tid_address", "wait4", "waitid"), "pid"),
    **dict.fromkeys(("poll", "ppoll", "select"), "timeout"),
    **dict.fromkeys(("fcntl", "fcntl64"), "fcntl_result"),
}
_USUAL: Final = "long"


def result_kind(name: str) -> str:
    """Return the kind of a call's result."""
    return _KINDS.get(name, _USUAL)


# The structures that arguments of system calls point to. structures.tsv has a row for each argument: the call, the argument, the
# structure, when its bytes are right (entry, return, or both), and for arrays where their number of elements is. Layouts are those of the
# kernel's headers in include/uapi, on machines of 64 bits:
#
#     timespec, timeval       s64 seconds; s64 nanoseconds or microseconds
#     itimerspec, itimerval   the interval, then the value
#     sockaddr                u16 family, ...: in.h, in6.h, un.h
#     pollfd                  s32 fd; s16 events, revents
#     epoll_event             u32 events; u64 data; packed on x86-64
#     iovec                   u64 base, length
#     clone_args              u64 flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, ...
#     open_how                u64 flags, mode, resolve
#     stat                    differs by machine
#     statx                   u32 mask; ... u16 mode at 28; ... u64 size at 40
#     rlimit                  u64 current, maximum
#     sigset                  u64, bit n of signal n + 1
#     sigaction               u64 handler, flags, restorer (not on all machines), sigset
#     msghdr                  u64 name; u32 size of name; u64 iovecs, their number, control data, its size; u32 flags
#     mmsghdr                 msghdr; u32 bytes sent or received
#     fd_set                  u64s, bit n of descriptor n; the count of its elements is one of bits
#     sigset_pointer          u64 address of a sigset; u64 its size
#     siginfo                 s32 signo, errno, code; then by signal and code

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
_STRUCTURE_MACHINES: Final = ("x86_64", "aarch64", "riscv64", "ppc64", "ppc64le", "s390x", "loongarch64")
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
def _structure_table(machine: str) -> dict[str, tuple[PointedStructure, ...]]:
    table: dict[str, tuple[PointedStructure, ...]] = {}
    for call, argument, structure, when, *count in read_rows("structures.tsv") if machine in _STRUCTURE_MACHINES else ():
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
    return _structure_table(machine).get(call, ())


def mode_offset(machine: str) -> int:
    """Return the offset of st_mode, an unsigned int, in struct stat."""
    return _MODES.get(machine, 24)
