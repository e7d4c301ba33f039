"""perf_event_open(2), its ioctls and its prctls: the only code that calls them.

The functions of this module implement the protocol `Kernel` of perfpy.kernel. Numbers: the kernel's unistd tables and
include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from errno import E2BIG, EINTR, EMFILE

from perfpy.abi.flags import ATTR_SIZE_VER0, FLAG_FD_CLOEXEC, FLAG_PID_CGROUP
from perfpy.errors import KernelRefusedError, UsageError
from perfpy.kernel.system_call import system_call

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    import mmap
    from typing import Final

    from perfpy.abi.attr import EventAttr

_SYSCALL_NUMBERS: Final = {
    # machine name of uname(2): (64-bit process, 32-bit process)
    "x86_64": (298, 336),
    "i686": (0, 336),
    "i586": (0, 336),
    "aarch64": (241, 364),
    "armv7l": (0, 364),
    "armv6l": (0, 364),
    "riscv64": (241, 241),
    "loongarch64": (241, 241),
    "ppc64le": (319, 319),
    "ppc64": (319, 319),
    "s390x": (331, 331),
    "mips64": (5292, 4333),
    "sparc64": (327, 327),
    "alpha": (493, 0),
}

# ioctl numbers are direction | size | '$' | number; a few architectures use other direction bits
_OTHER_DIRECTIONS: Final = ("ppc", "mips", "sparc", "alpha")
_POINTER: Final = struct.calcsize("P")
_IOC_NONE, _IOC_READ, _IOC_WRITE = (1, 2, 4) if os.uname().machine.startswith(_OTHER_DIRECTIONS) else (0, 2, 1)
_DIRECTION_SHIFT: Final = 29 if _IOC_NONE else 30


def _request(direction: int, number: int, size: int = 0) -> int:
    return direction << _DIRECTION_SHIFT | size << 16 | ord("$") << 8 | number


_ENABLE: Final = _request(_IOC_NONE, 0)
_DISABLE: Final = _request(_IOC_NONE, 1)
_REFRESH: Final = _request(_IOC_NONE, 2)
_RESET: Final = _request(_IOC_NONE, 3)
_PERIOD: Final = _request(_IOC_WRITE, 4, 8)
_SET_OUTPUT: Final = _request(_IOC_NONE, 5)
_SET_FILTER: Final = _request(_IOC_WRITE, 6, _POINTER)
_ID: Final = _request(_IOC_READ, 7, _POINTER)
_SET_BPF: Final = _request(_IOC_WRITE, 8, 4)
_PAUSE_OUTPUT: Final = _request(_IOC_WRITE, 9, 4)
_MODIFY_ATTRIBUTES: Final = _request(_IOC_WRITE, 11, _POINTER)

_FLAG_GROUP: Final = 1

_PR_TASK_PERF_EVENTS_DISABLE: Final = 31
_PR_TASK_PERF_EVENTS_ENABLE: Final = 32

_ENDIAN: Final = "<" if sys.byteorder == "little" else ">"


def _syscall_number() -> int:
    machine = os.uname().machine
    number = _SYSCALL_NUMBERS.get(machine, (0, 0))[sys.maxsize < 2**32]
    if not number:
        raise KernelRefusedError("perf_event_open", 0, cause=f"perfpy does not know its system call number on {machine}")
    return number


def perf_event_open(attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = FLAG_FD_CLOEXEC, *, event: str = "") -> int:
    """Open one counter, and return its file descriptor.

    An older kernel that knows fewer fields gets a shorter attr if the remaining fields are zero. Executed programs never inherit the
    descriptor, with or without FLAG_FD_CLOEXEC, which kernels before 3.14 do not know.

    Args:
        pid: a task, 0 for the caller, -1 for all; with FLAG_PID_CGROUP, the descriptor of a cgroup's folder
        cpu: a CPU, or -1 for any
        group_fd: the group's leader, or -1
        flags: FLAG_*
        event: the name in messages

    Raises KernelRefusedError, and UsageError for pid -1 with cpu -1, which the kernel does not define.
    """
    if pid == -1 and cpu == -1:
        raise UsageError("a counter for all tasks needs a CPU: pid -1 with cpu -1 is not valid")
    size = attr.size
    while True:
        buffer = bytearray(attr.pack(_ENDIAN, size).ljust(ATTR_SIZE_VER0, b"\0"))
        try:
            fd = system_call(_syscall_number(), buffer, pid, cpu, group_fd, flags)
        except OSError as refusal:
            error = refusal.errno or 0
        else:
            if not flags & FLAG_FD_CLOEXEC:
                os.set_inheritable(fd, False)
            return fd
        if error == EINTR:
            continue
        kernel_size = struct.unpack_from("=I", buffer, 4)[0]
        if error == E2BIG and ATTR_SIZE_VER0 <= kernel_size < size and not any(attr.pack(_ENDIAN, size)[kernel_size:]):
            size = kernel_size
            continue
        if error == EMFILE:
            raise _no_file_left(event)
        from perfpy.kernel.refusals import open_refused  # only a failure pays for its diagnosis

        raise open_refused(error, attr, pid, cpu, event=event, cgroup=bool(flags & FLAG_PID_CGROUP), known_size=kernel_size)


def _no_file_left(event: str) -> KernelRefusedError:
    """Return the only refusal explained in this module: without a free descriptor, no other module can be loaded."""
    allowed = os.sysconf("SC_OPEN_MAX")
    cause = f"too many open files ({allowed} are allowed)"
    return KernelRefusedError("perf_event_open", EMFILE, event=event, cause=cause, remedy="raise ulimit -n, or count fewer events or CPUs")


def _ioctl(name: str, fd: int, request: int, argument: int | bytes | bytearray = 0) -> None:
    try:
        fcntl.ioctl(fd, request, argument)
    except OSError as error:
        from perfpy.kernel.refusals import ioctl_refused

        raise ioctl_refused(name, error.errno or 0) from None


def enable(fd: int, *, group: bool = False) -> None:
    """Start a counter; with `group`, the group that it leads."""
    _ioctl("enable", fd, _ENABLE, _FLAG_GROUP if group else 0)


def disable(fd: int, *, group: bool = False) -> None:
    """Stop a counter; with `group`, the group that it leads."""
    _ioctl("disable", fd, _DISABLE, _FLAG_GROUP if group else 0)


def reset(fd: int, *, group: bool = False) -> None:
    """Set a count to 0, or with `group` the whole group's. The times continue."""
    _ioctl("reset", fd, _RESET, _FLAG_GROUP if group else 0)


def refresh(fd: int, overflows: int) -> None:
    """Enable a sampling counter for `overflows` more overflows."""
    _ioctl("refresh", fd, _REFRESH, overflows)


def set_period(fd: int, period: int) -> None:
    """Change the sampling period (events, or Hz if the attr has freq)."""
    _ioctl("set the period", fd, _PERIOD, struct.pack("=Q", period))


def set_output(fd: int, target_fd: int) -> None:
    """Send the records of `fd` to the ring of `target_fd` (-1: back to its own)."""
    if target_fd >= 0:
        _ioctl("set the output", fd, _SET_OUTPUT, target_fd)
        return
    import ctypes  # rarely needed; fcntl would pass only half of the word

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(_SET_OUTPUT), ctypes.c_long(target_fd)):
        from perfpy.kernel.refusals import ioctl_refused

        raise ioctl_refused("set the output", ctypes.get_errno())


def set_filter(fd: int, text: str) -> None:
    """Set a tracepoint's filter expression, or an address filter."""
    _ioctl(f"set the filter '{text}'", fd, _SET_FILTER, bytearray(text.encode() + b"\0"))


def event_id(fd: int) -> int:
    """Return the counter's id in samples and group reads."""
    answer = bytearray(8)
    _ioctl("ask for the id", fd, _ID, answer)
    return int(struct.unpack("=Q", answer)[0])


def set_bpf(fd: int, program_fd: int) -> None:
    """Attach a loaded BPF program to a tracepoint's counter."""
    _ioctl("attach the BPF program", fd, _SET_BPF, program_fd)


def pause_output(fd: int, paused: bool) -> None:
    """Stop or resume writing to the counter's ring."""
    _ioctl("pause the output", fd, _PAUSE_OUTPUT, int(paused))


def modify_attributes(fd: int, attr: EventAttr) -> None:
    """Change the attr of an open counter; the kernel allows it only for breakpoints."""
    _ioctl("modify the attributes", fd, _MODIFY_ATTRIBUTES, bytearray(attr.pack(_ENDIAN)))


def _prctl(option: int) -> None:
    import ctypes  # needed only by programs that measure themselves

    if ctypes.CDLL(None, use_errno=True).prctl(option, 0, 0, 0, 0) < 0:
        raise KernelRefusedError("prctl", ctypes.get_errno())


def enable_all() -> None:
    """Enable every counter that the calling task has opened, but none that others opened on it."""
    _prctl(_PR_TASK_PERF_EVENTS_ENABLE)


def disable_all() -> None:
    """Disable every counter that the calling task has opened."""
    _prctl(_PR_TASK_PERF_EVENTS_DISABLE)


#: read a counter's value in its read format; b"" if a pinned counter lost the PMU. Raises OSError.
read: Final = os.read  # no wrapper, because counters are read millions of times


def map_page(fd: int) -> mmap.mmap:
    """Map a counter's control page read-only (see perfpy.kernel.user_page). Raises KernelRefusedError.

    The kernel refuses counters that children inherit on any CPU, and a single page of a counter with a mapped ring.
    """
    import mmap  # only needed to read counters without system calls

    try:
        return mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
    except OSError as error:
        raise KernelRefusedError("mmap", error.errno or 0, cause=f"the kernel does not map this counter's page: {error.strerror}") from None


def close(fd: int) -> None:
    """Close the counter."""
    os.close(fd)
