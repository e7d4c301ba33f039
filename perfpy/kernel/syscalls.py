"""perf_event_open(2), its ioctls and its prctls: the only code that calls them.

What enters: an EventAttr, numbers and file descriptors. What leaves: file
descriptors and numbers, or a KernelRefused that says why. Numbers of the
calls: the kernel's unistd tables and include/uapi/linux/perf_event.h.

The functions of this module together are the `Kernel` of perfpy.kernel.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
from errno import E2BIG, EINTR, EMFILE

from perfpy.abi.flags import ATTR_SIZE_VER0, FLAG_FD_CLOEXEC, FLAG_PID_CGROUP
from perfpy.errors import KernelRefused, UsageError

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

# ioctl numbers are direction | size | '$' | number; a few architectures have other direction bits
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

_libc: Final = ctypes.CDLL(None, use_errno=True)


def _syscall_number() -> int:
    machine = os.uname().machine
    number = _SYSCALL_NUMBERS.get(machine, (0, 0))[sys.maxsize < 2**32]
    if not number:
        raise KernelRefused("perf_event_open", 0, cause=f"perfpy does not know its system call number on {machine}")
    return number


def perf_event_open(attr: EventAttr, pid: int, cpu: int, group_fd: int = -1, flags: int = FLAG_FD_CLOEXEC, *, event: str = "") -> int:
    """Open one counter.

    attr: what to count; an older kernel that knows fewer fields gets the
    shorter struct, as long as the rest is zero. pid: a task, 0 for the caller
    itself, -1 for all (with FLAG_PID_CGROUP: the fd of a cgroup's folder);
    cpu: its number, or -1 for any; group_fd: the group's leader or -1;
    flags: FLAG_*; event: the name for messages. Programs that are executed
    never inherit the descriptor, with or without FLAG_FD_CLOEXEC (which
    kernels before 3.14 do not know).

    Returns the file descriptor. Raises KernelRefused, and UsageError for
    pid -1 with cpu -1, which the kernel has no meaning for.
    """
    if pid == -1 and cpu == -1:
        raise UsageError("a counter for all tasks needs a CPU: pid -1 with cpu -1 is not valid")
    size = attr.size
    while True:
        buffer = ctypes.create_string_buffer(attr.pack(_ENDIAN, size), max(size, ATTR_SIZE_VER0))
        where = ctypes.c_int(pid), ctypes.c_int(cpu), ctypes.c_int(group_fd)
        fd: int = _libc.syscall(_syscall_number(), ctypes.byref(buffer), *where, ctypes.c_ulong(flags))
        if fd >= 0:
            if not flags & FLAG_FD_CLOEXEC:
                os.set_inheritable(fd, False)
            return fd
        error = ctypes.get_errno()
        if error == EINTR:
            continue
        known = struct.unpack_from("=I", buffer, 4)[0]
        if error == E2BIG and ATTR_SIZE_VER0 <= known < size and not any(attr.pack(_ENDIAN, size)[known:]):
            size = known
            continue
        if error == EMFILE:
            raise _no_file_left(event)
        from perfpy.kernel.refusals import open_refused  # only a failure has to pay for its diagnosis

        raise open_refused(error, attr, pid, cpu, event=event, cgroup=bool(flags & FLAG_PID_CGROUP), known_size=known)


def _no_file_left(event: str) -> KernelRefused:
    """The one refusal that is explained here: no further module can be loaded without a file descriptor."""
    allowed = os.sysconf("SC_OPEN_MAX")
    cause = f"too many open files ({allowed} are allowed)"
    return KernelRefused("perf_event_open", EMFILE, event=event, cause=cause, remedy="raise ulimit -n, or count fewer events or CPUs")


def _ioctl(name: str, fd: int, request: int, argument: int | bytes | bytearray = 0) -> None:
    try:
        fcntl.ioctl(fd, request, argument)
    except OSError as error:
        from perfpy.kernel.refusals import ioctl_refused

        raise ioctl_refused(name, error.errno or 0) from None


def enable(fd: int, *, group: bool = False) -> None:
    """Let a counter count (with `group`: all of the group that it leads)."""
    _ioctl("enable", fd, _ENABLE, _FLAG_GROUP if group else 0)


def disable(fd: int, *, group: bool = False) -> None:
    """Stop a counter (with `group`: all of the group that it leads)."""
    _ioctl("disable", fd, _DISABLE, _FLAG_GROUP if group else 0)


def reset(fd: int, *, group: bool = False) -> None:
    """Set a count to 0; its times go on (with `group`: the whole group's)."""
    _ioctl("reset", fd, _RESET, _FLAG_GROUP if group else 0)


def refresh(fd: int, overflows: int) -> None:
    """Enable a sampling counter for that many overflows more."""
    _ioctl("refresh", fd, _REFRESH, overflows)


def set_period(fd: int, period: int) -> None:
    """Change the sampling period (events, or Hz where the attr says freq)."""
    _ioctl("set the period", fd, _PERIOD, struct.pack("=Q", period))


def set_output(fd: int, target_fd: int) -> None:
    """Send the records of `fd` to the ring of `target_fd` (-1: to its own again)."""
    if target_fd >= 0:
        _ioctl("set the output", fd, _SET_OUTPUT, target_fd)
    elif _libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(_SET_OUTPUT), ctypes.c_long(target_fd)):  # a whole word of ones: fcntl passes half
        from perfpy.kernel.refusals import ioctl_refused

        raise ioctl_refused("set the output", ctypes.get_errno())


def set_filter(fd: int, text: str) -> None:
    """Set a tracepoint's filter expression, or an address filter."""
    _ioctl(f"set the filter '{text}'", fd, _SET_FILTER, bytearray(text.encode() + b"\0"))


def event_id(fd: int) -> int:
    """The counter's id, as it stands in samples and group reads."""
    answer = bytearray(8)
    _ioctl("ask for the id", fd, _ID, answer)
    return int(struct.unpack("=Q", answer)[0])


def set_bpf(fd: int, program_fd: int) -> None:
    """Attach a loaded BPF program to a tracepoint's counter."""
    _ioctl("attach the BPF program", fd, _SET_BPF, program_fd)


def pause_output(fd: int, paused: bool) -> None:
    """Stop (or go on) writing to the counter's ring."""
    _ioctl("pause the output", fd, _PAUSE_OUTPUT, int(paused))


def modify_attributes(fd: int, attr: EventAttr) -> None:
    """Change the attr of an open counter; the kernel allows it for breakpoints only."""
    _ioctl("modify the attributes", fd, _MODIFY_ATTRIBUTES, bytearray(attr.pack(_ENDIAN)))


def _prctl(option: int) -> None:
    if _libc.prctl(option, 0, 0, 0, 0) < 0:
        raise KernelRefused("prctl", ctypes.get_errno())


def enable_all() -> None:
    """Enable every counter that the calling task has opened (not those of others on it)."""
    _prctl(_PR_TASK_PERF_EVENTS_ENABLE)


def disable_all() -> None:
    """Disable every counter that the calling task has opened."""
    _prctl(_PR_TASK_PERF_EVENTS_DISABLE)


#: up to so many bytes of a counter's value in its read format; b"" when a pinned counter has lost the PMU. Raises OSError.
read: Final = os.read  # itself: counters are read a million times


def map_page(fd: int) -> mmap.mmap:
    """The counter's control page, read-only (see perfpy.kernel.user_page). Raises KernelRefused.

    The kernel maps nothing of a counter that children on any CPU inherit, and
    no page alone where a ring is mapped.
    """
    import mmap  # only who reads counters without system calls needs it

    try:
        return mmap.mmap(fd, mmap.PAGESIZE, mmap.MAP_SHARED, mmap.PROT_READ)
    except OSError as error:
        raise KernelRefused("mmap", error.errno or 0, cause=f"the kernel does not map this counter's page: {error.strerror}") from None


def close(fd: int) -> None:
    """Give the counter back."""
    os.close(fd)
