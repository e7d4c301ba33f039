"""The meanings of file names in MMAP records: the kernel, anonymous memory, generated code.

Imports no numpy, because the end of `perfpy record` uses it. The names are the kernel's (mm/mmap.c, kernel/events/core.c), and perf's for
the kernel.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_GUEST_KERNEL, MISC_KERNEL
from perfpy.untrusted import paths
from perfpy.untrusted.files import is_file
from perfpy.untrusted.paths import perf_map
from perfpy.untrusted.process_files import find_mapping, is_younger, root_of, status_numbers, status_words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


# Paths below /proc to files of running processes: deleted programs, memfds, files of containers. Empty without /proc, or if the process
# has ended.

DELETED: Final = " (deleted)"


def paths_of(path: str, pids: Iterable[int]) -> Iterator[str]:
    """Yield paths through which running processes reach a file that they mapped by this name: their root, or their mappings."""
    for pid in sorted(pids):
        full_path = (root_of(pid) or "") + path  # maps has paths below our root
        mapping = find_mapping(pid, full_path)
        if not mapping:
            continue  # ended, or another process with the same pid
        if not path.endswith(DELETED):
            with contextlib.suppress(paths.UnsafeNameError):
                yield paths.in_process(pid, path)
        yield from _mapped_file(pid, mapping, full_path)


def perf_map_paths(pid: int) -> Iterator[str]:
    """Yield possible paths of a process's perf map: in its /tmp, by the pid in its namespace, or in ours."""
    inner = innermost_pid(pid)
    if inner and (other_root(pid) or (inner != pid and is_younger(paths.perf_map(inner), pid))):
        yield paths.in_process(pid, paths.perf_map(inner))
    yield paths.perf_map(pid)


def seen_by(pid: int, path: str) -> str:
    """Return the path of a file that a process knows by `path`: below its root if it has another one.

    If there is no such file, the pid may belong to another process.
    """
    if other_root(pid):
        with contextlib.suppress(paths.UnsafeNameError):
            inside = paths.in_process(pid, path)
            return inside if is_file(inside) else path
    return path


def _mapped_file(pid: int, mapping: str, path: str) -> Iterator[str]:
    for link in (f"/proc/{pid}/exe", f"/proc/{pid}/map_files/{mapping}"):
        try:
            if os.readlink(link) == path:
                yield link
                return
        except OSError:
            continue


def innermost_pid(pid: int) -> int:
    """Return a process's pid in its innermost namespace, 0 if it has ended."""
    numbers = status_numbers(pid, "NStgid:")
    return int(numbers[-1]) if numbers else 0


def innermost_tid(pid: int, tid: int) -> int:
    """Return a thread's id in its innermost namespace, 0 if it has ended."""
    numbers = status_numbers(pid, "NSpid:", tid)
    return int(numbers[-1]) if numbers else 0


def catches(pid: int, number: int) -> bool:
    """Whether a running process has a handler for a signal."""
    words = status_words(pid, "SigCgt:")
    return bool(words) and bool(int(words[0], 16) >> (number - 1) & 1)


def other_root(pid: int) -> bool:
    """Whether a process runs among other mounts, as in a container, or below chroot."""
    return root_of(pid) != ""
