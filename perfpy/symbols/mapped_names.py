"""The meanings of file names in MMAP records: the kernel, anonymous memory, generated code.

Imports no numpy, because the end of `perfpy record` uses it. The names are the kernel's (mm/mmap.c, kernel/events/core.c), and perf's for
the kernel.
"""

from __future__ import annotations

from typing import Final

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_GUEST_KERNEL, MISC_KERNEL
from perfpy.untrusted.paths import perf_map

KERNEL_NAME: Final = "[kernel.kallsyms]"
GUEST_KERNEL_NAME: Final = "[guest.kernel.kallsyms]"
MAP_HUGETLB: Final = 0x40000  # asm-generic/mman-common.h
_KERNEL_PREFIX: Final = KERNEL_NAME[:-1]
#: memory that programs move their text to, in /proc/PID/maps; the name of usual anonymous memory is empty
_MOVE_TARGETS: Final = ("/anon_hugepage", "/memfd:", "/dev/shm/", "/dev/hugepages/", "/dev/zero", "[anon:", "[anon_shmem:")


def is_kernel_map(misc: int) -> bool:
    """Whether a record maps something into the host kernel's address space."""
    return misc & MISC_CPUMODE_MASK == MISC_KERNEL


def is_user_map(misc: int) -> bool:
    """Whether a record maps something into its process's address space."""
    return misc & MISC_CPUMODE_MASK not in (MISC_KERNEL, MISC_GUEST_KERNEL)


def is_kernel_name(name: str) -> bool:
    """Whether a kernel mapping is the kernel itself, not a module. The name may be followed by the symbol at the mapping's start."""
    return name.startswith(_KERNEL_PREFIX)


def is_anonymous(name: str) -> bool:
    """Whether a mapping has no file: //anon, /dev/zero, huge pages."""
    return name == "//anon" or name.startswith(("/dev/zero", "/anon_hugepage"))


def has_no_file(name: str) -> bool:
    """Whether a mapping is [heap], [stack...] or System V shared memory."""
    return name == "[heap]" or name.startswith(("[stack", "/SYSV"))


def is_memory(name: str, flags: int = 0) -> bool:
    """Whether a mapping is memory instead of a file. `flags`: of mmap()."""
    return is_anonymous(name) or has_no_file(name) or bool(flags & MAP_HUGETLB)


def is_move_target(path: str) -> bool:
    """Whether a name in /proc/PID/maps is that of memory to which programs move their text."""
    return not path or path.startswith(_MOVE_TARGETS)


def shown_name(name: str, pid: int, flags: int, *, executable: bool) -> str:
    """Return the name of a mapping: its file, or for generated code the perf map of its process."""
    return perf_map(pid) if executable and is_memory(name, flags) else name
