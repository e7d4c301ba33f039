"""Explain why the kernel refused a call: find one cause and a remedy.

The causes come from the errno, the request, /proc/sys/kernel/perf_event_*, /proc/self/status and the limits.
"""

from __future__ import annotations

import errno
import os

from perfpy.abi.flags import ATTR_SIZE_VER0, PerfType
from perfpy.errors import KernelRefusedError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

    from perfpy.abi.attr import EventAttr

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
    elif code == errno.EINVAL or (code == errno.EOPNOTSUPP and attr.branch_sample_type):
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
        return "the PMU cannot sample branches", "drop -b and the branch filters"
    if attr.precise_ip:
        return f"the PMU cannot sample with precision {attr.precise_ip}", "use fewer p modifiers"
    if attr.type == PerfType.BREAKPOINT:
        return "the CPU cannot watch that address with that length and access", "align the address to its length"
    return "the kernel rejects an argument", "check the event's terms and modifiers (perfpy list)"


def _by_errno(code: int, attr: EventAttr, pid: int, cpu: int) -> tuple[str, str]:
    no_pmu = "this machine has no suitable PMU (virtual machines often have none)"
    hardware = attr.type in (PerfType.HARDWARE, PerfType.HW_CACHE, PerfType.RAW)
    where = f"CPU {cpu}" if cpu >= 0 else "this CPU"
    if (code == errno.ENOENT and hardware) or (code in (errno.ENXIO, errno.EOPNOTSUPP) and hardware):
        return no_pmu, "count a software event such as cpu-clock or task-clock"
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
