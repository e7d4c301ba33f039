"""perf_event_open(2), its ioctls and its prctls: the only code that calls them.

The functions of this module implement the protocol `Kernel` of perfpy.kernel. Numbers: the kernel's unistd tables and
include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import _struct as struct  # struct itself is one more module to load
import errno
import os
import sys
from _ctypes import FUNCFLAG_CDECL, FUNCFLAG_USE_ERRNO, CFuncPtr, _SimpleCData, dlopen, dlsym, get_errno
from errno import E2BIG, EINTR, EMFILE

from perfpy.abi.flags import ATTR_SIZE_VER0, FLAG_FD_CLOEXEC, FLAG_PID_CGROUP, PerfType
from perfpy.errors import KernelRefusedError, UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    import mmap
    from typing import Any, Final

    from perfpy.abi.attr import EventAttr


_PMUS: Final = "/sys/bus/event_source/devices"
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
_WORD: Final = 8  # bytes
_RUSAGE_SIZE: Final = 18 * _WORD  # struct rusage of getrusage(2)
_INT: Final = (1 << 32) - 1

_PR_TASK_PERF_EVENTS_DISABLE: Final = 31
_PR_TASK_PERF_EVENTS_ENABLE: Final = 32

_ENDIAN: Final = "<" if sys.byteorder == "little" else ">"


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
    machine = os.uname().machine
    number = _SYSCALL_NUMBERS.get(machine, (0, 0))[sys.maxsize < 2**32]
    if not number:
        raise KernelRefusedError("perf_event_open", 0, cause=f"perfpy does not know its system call number on {machine}")
    while True:
        buffer = bytearray(attr.pack(_ENDIAN, size).ljust(ATTR_SIZE_VER0, b"\0"))
        try:
            fd = system_call(number, buffer, pid, cpu, group_fd, flags)
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
            # Explained here, because without a free descriptor no other module can be loaded.
            cause, remedy = (
                f"too many open files ({os.sysconf('SC_OPEN_MAX')} are allowed)",
                "raise ulimit -n, or count fewer events or CPUs",
            )
            raise KernelRefusedError("perf_event_open", EMFILE, event=event, cause=cause, remedy=remedy)
        raise open_refused(error, attr, pid, cpu, event=event, cgroup=bool(flags & FLAG_PID_CGROUP), known_size=kernel_size)


def _ioctl(name: str, fd: int, request: int, argument: int | bytes | bytearray = 0) -> None:
    import fcntl  # counters of a command that is started are enabled by its exec

    try:
        fcntl.ioctl(fd, request, argument)
    except OSError as error:
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


# syscall(2) by _ctypes, the core of ctypes: importing ctypes itself would take a tenth of the instructions of `stat -- true`.


class _Word(_SimpleCData):  # type: ignore[type-arg]  # its value is the one of `long`
    _type_ = "l"


class _Byte(_SimpleCData):  # type: ignore[type-arg]  # only arrays of it are used
    _type_ = "c"


class _Function(CFuncPtr):
    _flags_ = FUNCFLAG_CDECL | FUNCFLAG_USE_ERRNO
    _restype_ = _Word


_syscall: Final[Any] = _Function(dlsym(dlopen(None, 0), "syscall"))  # type: ignore[arg-type]  # None is this process


def system_call(number: int, *arguments: int | bytearray) -> int:
    """Return the result of a system call. A bytearray is passed by its address, and the kernel may write into it. Raises OSError."""
    words = [_Word(argument) if isinstance(argument, int) else (_Byte * len(argument)).from_buffer(argument) for argument in arguments]
    result: int = _syscall(_Word(number), *words)
    if result == -1:
        raise OSError(get_errno(), "system call failed")
    return result


def wait_for_child(pid: int, options: int) -> tuple[int, int, float, float]:
    """Wait for a child as os.wait4 does, without the library that it loads. Return the child's pid, or 0 if it runs, its status, and
    its user and system time in seconds.
    """
    if _POINTER < _WORD:  # other layouts of the account
        pid, status, usage = os.wait4(pid, options)
        return pid, status, usage.ru_utime, usage.ru_stime
    status_bytes, account = bytearray(_WORD), bytearray(_RUSAGE_SIZE)
    wait4: Any = _Function(dlsym(dlopen(None, 0), "wait4"))  # type: ignore[arg-type]  # None is this process
    pointers = [(_Byte * len(buffer)).from_buffer(buffer) for buffer in (status_bytes, account)]
    while (ended := wait4(_Word(pid), pointers[0], _Word(options), pointers[1]) & _INT) == _INT:  # a C int: -1
        if get_errno() != EINTR:
            raise OSError(get_errno(), os.strerror(get_errno()))
    seconds, microseconds, system_seconds, system_microseconds = struct.unpack_from("=4q", account)
    times = seconds + microseconds / 1e6, system_seconds + system_microseconds / 1e6
    return ended, struct.unpack_from("=i", status_bytes)[0], *times


# The kernel of a closed counter, and a check whether a descriptor is a perf event.


class _ClosedKernel:
    """A kernel whose every call is an error."""

    def read(self, fd: int, size: int) -> bytes:
        raise UsageError("the counter is closed")

    def __getattr__(self, name: str) -> object:
        raise UsageError("the counter is closed")


CLOSED: Any = _ClosedKernel()


def is_perf_event(fd: int) -> bool:
    """Whether an open descriptor comes from perf_event_open(2)."""
    try:
        return os.readlink(f"/proc/self/fd/{fd}") == "anon_inode:[perf_event]"
    except OSError:
        return False


# Explain why the kernel refused a call: find one cause and a remedy. The causes come from the errno, the request,
# /proc/sys/kernel/perf_event_*, /proc/self/status and the limits.

_CAP_SYS_PTRACE: Final = 19
_CAP_SYS_ADMIN: Final = 21
_CAP_SYSLOG: Final = 34
_CAP_PERFMON: Final = 38
_SECCOMP_FILTER: Final = 2

_PARANOID: Final = "/proc/sys/kernel/perf_event_paranoid"
_STATUS: Final = "/proc/self/status"


def paranoid_level(path: str = _PARANOID) -> int | None:
    """Return the sysctl kernel.perf_event_paranoid; None if the kernel has no perf events."""
    try:
        with open(path) as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def own_status(path: str = _STATUS) -> tuple[int, int]:
    """Return the effective capabilities of this process as a bit mask, and its seccomp mode."""
    capabilities = seccomp = 0
    try:
        with open(path) as file:
            for line in file:
                name, _, value = line.partition(":")
                if name == "CapEff":
                    capabilities = int(value, 16)
                elif name == "Seccomp":
                    seccomp = int(value)
    except OSError:
        pass
    return capabilities, seccomp


def may_count_cpus() -> bool:
    """Whether this user may count all tasks of a CPU."""
    trusted = own_status()[0] & (1 << _CAP_PERFMON | 1 << _CAP_SYS_ADMIN)
    return bool(trusted) or (paranoid_level() or 0) <= 0


def may_lock_more() -> bool:
    """Whether ring buffers of this user may lock more memory than the limit for all users."""
    return bool(own_status()[0] & (1 << _CAP_PERFMON | 1 << _CAP_SYS_ADMIN)) or (paranoid_level() or 0) < 0


def may_measure_kernel() -> bool:
    """Whether this user may measure the kernel, not only user space."""
    return (paranoid_level() or 0) <= 1 or bool(own_status()[0] & (1 << _CAP_PERFMON | 1 << _CAP_SYS_ADMIN))


def kernel_addresses_hidden(restriction: int, paranoid: int, capabilities: int) -> bool:
    """Whether /proc/kallsyms hides addresses from this user, by kernel.kptr_restrict and perf_event_paranoid (kernel/ksyms_common.c)."""
    if capabilities & 1 << _CAP_SYSLOG:
        return restriction >= 2
    return restriction > 0 or paranoid > 1


def open_refused(
    code: int,
    attr: EventAttr,
    pid: int,
    cpu: int,
    *,
    event: str = "",
    cgroup: bool = False,
    known_size: int = 0,
) -> KernelRefusedError:
    """Return the error for a refused perf_event_open. `known_size` is the size that the kernel wrote into attr.size."""
    if code in (errno.EACCES, errno.EPERM):
        cause, remedy = _no_permission(code, attr, pid, cgroup)
    elif code == errno.E2BIG:
        cause, remedy = _attr_too_new(attr, known_size), "drop the options that this kernel is too old for"
    elif code == errno.EINVAL or (code == errno.EOPNOTSUPP and (attr.branch_sample_type or attr.precise_ip)):
        cause, remedy = _invalid(attr, cpu)
    else:
        cause, remedy = _by_errno(code, attr, pid, cpu)
    return KernelRefusedError("perf_event_open", code, event=event, cause=cause, remedy=remedy)


def ioctl_refused(action: str, code: int) -> KernelRefusedError:
    """Return the error for a refused ioctl. `action` is its purpose in words."""
    cause = os.strerror(code)
    remedy = ""
    if action.startswith("set the filter") and code == errno.EINVAL:
        cause = "the kernel does not accept the expression"
        remedy = "check the names of the fields in the tracepoint's format file"
    return KernelRefusedError(f"cannot {action}: ioctl", code, cause=cause, remedy=remedy)


_OF_ANOTHER_USER: Final = "belongs to another user"


def is_of_another_user(refusal: KernelRefusedError) -> bool:
    """Whether the kernel refused an event because of its task: that of another user, or one with privileges."""
    return refusal.cause.endswith(_OF_ANOTHER_USER)


def _no_permission(code: int, attr: EventAttr, pid: int, cgroup: bool) -> tuple[str, str]:
    capabilities, seccomp = own_status()
    level = paranoid_level()
    trusted = bool(capabilities & (1 << _CAP_PERFMON | 1 << _CAP_SYS_ADMIN))
    if not trusted and level is not None:
        reason = _paranoid_reason(level, attr, pid, cgroup)
        if reason:
            return reason
    if seccomp == _SECCOMP_FILTER and (trusted or code == errno.EPERM):
        return (
            "a seccomp filter forbids perf_event_open here, as most containers do",
            "start the container with a seccomp profile that allows perf_event_open",
        )
    if pid > 0 and not capabilities & 1 << _CAP_SYS_PTRACE:
        return f"process {pid} {_OF_ANOTHER_USER}", "run as its user, or with CAP_PERFMON or CAP_SYS_PTRACE"
    return "the kernel does not permit it", "run as root, or with CAP_PERFMON (a security module may forbid it, too)"


def _paranoid_reason(level: int, attr: EventAttr, pid: int, cgroup: bool) -> tuple[str, str] | None:
    """Return the cause and remedy if perf_event_paranoid forbids this request to a user without capabilities."""
    setting = f"kernel.perf_event_paranoid is {level}"
    if level > 2:
        return f"{setting}: users may not measure anything", "run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=2"
    if level > 0 and (pid == -1 or cgroup):
        return (
            f"{setting}: users may not count whole CPUs",
            "run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=0, or measure one command",
        )
    if level > 1 and not attr.exclude_kernel:
        return (
            f"{setting}: users may not measure the kernel",
            "count user space only (modifier :u), run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=1",
        )
    if level > -1 and attr.type == PerfType.TRACEPOINT:
        return f"{setting}: users may not open tracepoints", "run with CAP_PERFMON, or sysctl kernel.perf_event_paranoid=-1"
    return None


def _attr_too_new(attr: EventAttr, known_size: int) -> str:
    from perfpy.abi.attr import FIELDS

    newer = [name for name, offset, _ in FIELDS if offset >= max(known_size, ATTR_SIZE_VER0) and getattr(attr, name)]
    return f"this kernel's perf_event_attr has {known_size} bytes and lacks {', '.join(newer) or 'a field'}"


def _invalid(attr: EventAttr, cpu: int) -> tuple[str, str]:
    if cpu >= 0 and not os.path.exists(f"/sys/devices/system/cpu/cpu{cpu}"):
        return f"there is no CPU {cpu}", "choose CPUs of /sys/devices/system/cpu/online"
    if attr.branch_sample_type:
        return "the PMU cannot sample branches, or not by these filters", "use -j any, or no branch filters and --call-graph fp"
    if attr.precise_ip:
        return f"the PMU cannot sample with precision {attr.precise_ip}", "use fewer p modifiers"
    if attr.type == PerfType.BREAKPOINT:
        return "the CPU cannot watch that address with that length and access", "align the address to its length"
    if attr.type > PerfType.BREAKPOINT and (attr.exclude_kernel or attr.exclude_user):
        return "the PMU may not be able to leave out the kernel or user space", "drop the modifiers u and k, --all-user or --all-kernel"
    if attr.sample_period and attr.type > PerfType.BREAKPOINT:
        return "the kernel rejects an argument, or its PMU only counts", "check its terms and modifiers (perfpy list), or use perfpy stat"
    return "the kernel rejects an argument", "check the event's terms and modifiers (perfpy list)"


_core_pmu_known: list[bool] = []


def _has_core_pmu() -> bool:
    """Whether the CPU has a PMU, whose folder is `cpu` or has a list of its CPUs."""
    if not _core_pmu_known:  # lists try dozens of events that a CPU lacks
        try:
            names = os.listdir(_PMUS)
        except OSError:
            names = []
        _core_pmu_known.append("cpu" in names or any(os.path.exists(f"{_PMUS}/{name}/cpus") for name in names))
    return _core_pmu_known[0]


def _by_errno(code: int, attr: EventAttr, pid: int, cpu: int) -> tuple[str, str]:
    hardware = attr.type in (PerfType.HARDWARE, PerfType.HW_CACHE, PerfType.RAW)
    where = f"CPU {cpu}" if cpu >= 0 else "this CPU"
    if (code == errno.ENOENT and hardware) or (code in (errno.ENXIO, errno.EOPNOTSUPP) and hardware):
        if _has_core_pmu():
            return "the PMU of this CPU cannot count it", "perfpy list shows the available events"
        no_pmu = "no PMU that counts it; virtual machines have one only if the host passes it on (KVM: -cpu host,pmu=on)"
        return no_pmu, "software events such as task-clock and profiles by time (perfpy record -- COMMAND) need none"
    causes: dict[int, tuple[str, str]] = {
        errno.ENOENT: ("the kernel does not know this event", "perfpy list shows the available events"),
        errno.EOPNOTSUPP: ("the PMU cannot do this", "count instead of sampling, or use a software event"),
        errno.ENXIO: ("the kernel does not have this event's PMU", "perfpy list shows the available events"),
        errno.ESRCH: (f"no process or thread {pid}", "it may have ended"),
        errno.ENODEV: (f"{where} is offline, or has no PMU for it", "choose CPUs of /sys/devices/system/cpu/online"),
        errno.ENFILE: ("the whole system has too many open files", "raise sysctl fs.file-max"),
        errno.EBUSY: ("another user has exclusive use of the PMU", "stop that measurement, or drop exclusive events"),
        errno.ENOSPC: ("no free slot", "breakpoints have few (often 4): watch fewer addresses"),
        errno.ENOMEM: ("the kernel is out of memory for counters", "count fewer events or CPUs"),
        errno.ENOSYS: ("this kernel has no perf events", "CONFIG_PERF_EVENTS is off, or a sandbox hides it"),
        errno.EOVERFLOW: ("too many callchain entries requested", "see sysctl kernel.perf_event_max_stack"),
    }
    return causes.get(code, ("", ""))
