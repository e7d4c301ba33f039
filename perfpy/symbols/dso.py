"""Files that code was mapped from (perf's "dso"), with the names that perf prints and their kinds.

A Dso stands for a (name, build-id) pair. On the machine that ran them, files without a known build-id are told apart by device, inode and
generation. Dsos are numbered in order of appearance.
"""

from __future__ import annotations

import contextlib
import os
import re
from functools import lru_cache

from perfpy.abi.flags import MISC_CPUMODE_MASK, MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_KERNEL
from perfpy.abi.light_types import TYPE_CHECKING, Enum
from perfpy.symbols.tasks import is_memory
from perfpy.untrusted import files
from perfpy.untrusted.files import PYTHON_IMAGE, is_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final

    from perfpy.untrusted.process_files import FileId


UNKNOWN_NAME: Final = "[unknown]"
VDSO: Final = "[vdso]"
VDSO_OF_32_BITS: Final = "[vdso32]"  # of 32-bit programs on x86_64
_VDSO_NAMES: Final = frozenset({VDSO, VDSO_OF_32_BITS, "[vdsox32]"})
_PERF_MAPS = "/tmp/perf-"
_PERF_MAP = _PERF_MAPS + r"([0-9]{1,10})\.map\Z"  # no process has a longer number
_JITTED = r"(jitted-\d+)-\d+\.so\Z"  # the name that `inject --jit` gives a function's image
_MODULE_FILE = r"(?P<stem>.+)\.ko(?:\.(?:gz|xz|zst))?\Z"


HOST: Final = -1  # the machine that recorded


class DsoKind(Enum):
    """The source of a Dso's symbols."""

    FILE = "file"
    KERNEL = "kernel"
    MODULE = "module"
    BPF = "bpf"
    JIT = "jit"  # /tmp/perf-PID.map
    VDSO = "vdso"
    VSYSCALL = "vsyscall"
    NONE = "none"  # memory without a file: //anon, [heap], [stack]


class Dso:
    """One mapped file.

    Attributes:
        name: as recorded, and as `perf script` prints it.
        short_name: as `perf report` prints it.
        long_name: the path; for the kernel, the origin of its symbols once they are loaded.
        build_id: lower-case hex, "" if unknown.
        listed: whether the recording's build-id table has it.
        identity: device (major, minor), inode and generation of the mapped file; None if the build-id or the name alone decides.
        recorded_id: device, inode and generation in the record of the first mapping; zeros if it has none.
        machine: HOST, or the hypervisor of the virtual machine whose kernel has it; 0 for all guests that share one.
    """

    def __init__(
        self,
        name: str,
        kind: DsoKind = DsoKind.FILE,
        build_id: str = "",
        *,
        listed: bool = False,
        identity: FileId | None = None,
        recorded_id: FileId = (0, 0, 0, 0),
        machine: int = HOST,
    ) -> None:
        self.name = name
        self.machine = machine
        self.kind = kind
        self.build_id = build_id
        self.long_name = name
        self.short_name = short_name(name, kind)
        self.pids: set[int] = set()
        self.listed = listed
        self.identity = identity
        self.recorded_id = recorded_id

    @property
    def kernel(self) -> bool:
        """Whether this is the kernel, a module, or code that the kernel generated."""
        return self.kind in (DsoKind.KERNEL, DsoKind.MODULE, DsoKind.BPF)

    @property
    def is_anonymous(self) -> bool:
        """Whether this is memory of one process without a file: heap, stack, anonymous mappings."""
        return not self.kernel and (not self.name.startswith("/") or self.name.startswith("//"))

    @property
    def made_code(self) -> str:
        """The common name of all code that a runtime generated in one process, "" for other files."""
        if self.short_name == PYTHON_IMAGE:
            return "Python"
        match = re.match(_JITTED, self.short_name)
        return match[1] if match else self.short_name if self.kind is DsoKind.JIT else ""


def short_name(name: str, kind: DsoKind) -> str:
    """Return the name that `perf report` prints: the last part of a path, [module], or [JIT] tid N."""
    if kind is DsoKind.MODULE:
        return module_name(name)
    if kind is DsoKind.KERNEL and "vmlinux" in name:
        return "[kernel.vmlinux]"
    jit = re.match(_PERF_MAP, name) if name.startswith(_PERF_MAPS) else None
    if jit:
        return f"[JIT] tid {jit[1]}"
    return name if name.startswith("[") else name.rsplit("/", 1)[-1]


def module_name(name: str) -> str:
    """Return [nf_tables] for /lib/modules/.../nf-tables.ko.xz; names in brackets stay."""
    if name.startswith("["):
        return name
    file = re.match(_MODULE_FILE, os.path.basename(name))
    return f"[{(file['stem'] if file else os.path.basename(name)).replace('-', '_')}]"


def is_module(name: str) -> bool:
    """Whether a name of kernel code is a module's: [name] or a .ko file, not the kernel's own."""
    if name.startswith("["):
        return not name.startswith((KERNEL_NAME[:-1], GUEST_KERNEL_NAME[:-1], "[vdso]", "[vsyscall]"))
    return re.match(_MODULE_FILE, os.path.basename(name)) is not None


def perf_map_pid(name: str) -> int | None:
    """Return N for /tmp/perf-N.map, None for any other name."""
    jit = re.match(_PERF_MAP, name) if name.startswith(_PERF_MAPS) else None
    return int(jit[1]) if jit else None


@lru_cache(maxsize=1 << 12)
def user_kind(name: str) -> DsoKind:
    """Return the kind of a user-space Dso by its name."""
    if name in _VDSO_NAMES:
        return DsoKind.VDSO
    if name == "[vsyscall]":
        return DsoKind.VSYSCALL
    if is_memory(name):
        return DsoKind.NONE
    return DsoKind.JIT if perf_map_pid(name) is not None else DsoKind.FILE


class DsoTable:
    """All Dsos of a recording, numbered in order of appearance; the kernel, if present, is number 0.

    Args:
        build_ids: file name -> hex, of the recording's table.
        by_identity: whether device, inode and generation tell files apart, because they are those of this machine.
        has_vdso32: whether the vdso of 32-bit programs has a name of its own, as on x86_64.
    """

    def __init__(self, build_ids: dict[str, str] | None = None, *, by_identity: bool = False, has_vdso32: bool = False) -> None:
        self.has_vdso32 = has_vdso32
        self.dsos: list[Dso] = []
        self._ids: dict[tuple[str, str, int, tuple[int, ...]], dict[int, int]] = {}  # by generation
        self._build_ids = build_ids or {}
        self._by_identity = by_identity

    def id_of(self, name: str, kind: DsoKind, build_id: str = "", identity: FileId | None = None, *, machine: int = HOST) -> int:
        """Return the number of a machine's Dso with a name and build-id. The recording's build-id table supplies a missing build-id."""
        build_id, recorded_id = build_id or self._build_ids.get(name, ""), identity or (0, 0, 0, 0)
        if build_id or not self._by_identity or kind is not DsoKind.FILE or not identity or not identity[2]:
            identity = None
        numbers = self._ids.setdefault((name, build_id, machine, identity[:3] if identity else ()), {})
        generation = identity[3] if identity else 0
        number = numbers.get(generation)
        if number is None and numbers and not generation:  # synthesized records have no generation
            return next(iter(numbers.values()))
        if number is None and 0 in numbers:
            number = numbers[generation] = numbers.pop(0)
            self.dsos[number].identity = identity
        elif number is None:
            number = numbers[generation] = len(self.dsos)
            listed = name in self._build_ids
            self.dsos.append(Dso(name, kind, build_id, listed=listed, identity=identity, recorded_id=recorded_id, machine=machine))
        return number


# The names of the kernel in MMAP records, which are perf's.


KERNEL_NAME: Final = "[kernel.kallsyms]"
GUEST_KERNEL_NAME: Final = "[guest.kernel.kallsyms]"
_KERNEL_PREFIX: Final = KERNEL_NAME[:-1]


def is_kernel_map(misc: int) -> bool:
    """Whether a record maps something into the host kernel's address space."""
    return misc & MISC_CPUMODE_MASK == MISC_KERNEL


def is_guest_map(misc: int) -> bool:
    """Whether a record or a build-id is of a virtual machine."""
    return misc & MISC_CPUMODE_MASK in (MISC_GUEST_KERNEL, MISC_GUEST_USER)


def is_kernel_name(name: str, *, of_guest: bool = False) -> bool:
    """Whether a kernel mapping is the kernel itself, not a module. The name may be followed by the symbol at the mapping's start."""
    return name.startswith(_KERNEL_PREFIX) or (of_guest and name.startswith(GUEST_KERNEL_NAME[:-1]))


# Paths below /proc to files of running processes: deleted programs, memfds, files of containers. Empty without /proc, or if the process
# has ended. Most reports need none, and do not load process_files.

DELETED: Final = " (deleted)"


def paths_of(path: str, pids: Iterable[int]) -> Iterator[str]:
    """Yield paths through which running processes reach a file that they mapped by this name: their root, or their mappings."""
    from perfpy.untrusted.process_files import find_mapping, root_of

    for pid in sorted(pids):
        full_path = (root_of(pid) or "") + path  # maps has paths below our root
        mapping = find_mapping(pid, full_path)
        if not mapping:
            continue  # ended, or another process with the same pid
        if not path.endswith(DELETED):
            with contextlib.suppress(files.UnsafeNameError):
                yield files.in_process(pid, path)
        yield from _mapped_file(pid, mapping, full_path)


def perf_map_paths(pid: int) -> Iterator[str]:
    """Yield possible paths of a process's perf map: in its /tmp, by the pid in its namespace, or in ours."""
    from perfpy.untrusted.process_files import is_younger

    inner = innermost_pid(pid)
    if inner and (other_root(pid) or (inner != pid and is_younger(files.perf_map(inner), pid))):
        yield files.in_process(pid, files.perf_map(inner))
    yield files.perf_map(pid)


def seen_by(pid: int, path: str) -> str:
    """Return the path of a file that a process knows by `path`: below its root if it has another one.

    If there is no such file, the pid may belong to another process.
    """
    if other_root(pid):
        with contextlib.suppress(files.UnsafeNameError):
            inside = files.in_process(pid, path)
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
    from perfpy.untrusted.process_files import status_numbers

    numbers = status_numbers(pid, "NStgid:")
    return int(numbers[-1]) if numbers else 0


def innermost_tid(pid: int, tid: int) -> int:
    """Return a thread's id in its innermost namespace, 0 if it has ended."""
    from perfpy.untrusted.process_files import status_numbers

    numbers = status_numbers(pid, "NSpid:", tid)
    return int(numbers[-1]) if numbers else 0


def catches(pid: int, number: int) -> bool:
    """Whether a running process has a handler for a signal."""
    from perfpy.untrusted.process_files import status_words

    words = status_words(pid, "SigCgt:")
    return bool(words) and bool(int(words[0], 16) >> (number - 1) & 1)


def other_root(pid: int) -> bool:
    """Whether a process runs among other mounts, as in a container, or below chroot."""
    from perfpy.untrusted.process_files import root_of

    return root_of(pid) != ""


# Whose code a file has: an interpreter's or a virtual machine's, the C library's, or that of the program itself.

_RUNTIMES: Final = (
    r"(lib)?python[\d.]*[a-z]*(\.so[\d.]*)?"
    r"|(lib)?node(js)?(\.so[\d.]*)?"
    r"|(lib)?ruby[\d.-]*(\.so[\d.]*)?"
    r"|libjvm\.so|luajit.*"
)

_C_LIBRARIES: Final = r"(ld|lib(c|m|pthread|gcc_s|stdc\+\+|dl|rt))[-.]"


#: files of the system, of packages, and of virtual machines whose program is elsewhere
_INSTALLED: Final = (
    r"/(?:usr/)?lib(?:32|64|x32)?/.*|/snap/.*|/nix/store/.*|/gnu/store/.*|.*/(?:site|dist)-packages/.*|.*/node_modules/.*|.*/lib/python\d.*"
    r"|(?:.*/)?lib(?:perl|lua|php|R|coreclr|clrjit|mono)\b[^/]*"
)


def is_own_library(dso: Dso) -> bool:
    """Whether a dso is a shared library of the program itself, as an extension module that is built where it is used."""
    is_library = dso.kind is DsoKind.FILE and not dso.made_code and ".so" in dso.short_name
    return is_library and not (is_runtime(dso) or is_c_library(dso) or re.fullmatch(_INSTALLED, dso.name))


def is_runtime(dso: Dso) -> bool:
    """Whether a dso is the program or library of an interpreter or a virtual machine."""
    return re.fullmatch(_RUNTIMES, dso.short_name) is not None


def is_c_library(dso: Dso) -> bool:
    """Whether a dso is a library that every program has."""
    return re.match(_C_LIBRARIES, dso.short_name) is not None


def has_python_image(paths: Iterable[str] | None) -> bool:
    """Whether the recording stores images of Python functions read from memory (record --python)."""
    return any(os.path.basename(name) == PYTHON_IMAGE for name in paths or ())


def file_ranks(dsos: Sequence[Dso]) -> list[int]:
    """Return the rank of each file: by device, inode and generation, as perf compares data. Memory without a file is one file.

    The last rank is that of no file.
    """
    keys = [(file.recorded_id, -1 if file.is_anonymous else number) for number, file in enumerate(dsos)]
    rank_of = {key: rank for rank, key in enumerate(sorted(set(keys)))}
    return [*(rank_of[key] for key in keys), len(keys)]
