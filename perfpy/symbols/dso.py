"""Files that code was mapped from (perf's "dso"), with the names that perf prints and their kinds.

A Dso stands for a (name, build-id) pair. On the machine that ran them, files without a known build-id are told apart by device, inode and
generation. Dsos are numbered in order of appearance.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from perfpy.symbols.mapped_names import GUEST_KERNEL_NAME, KERNEL_NAME, is_memory
from perfpy.untrusted.paths import PYTHON_IMAGE

if TYPE_CHECKING:
    from perfpy.untrusted.process_files import FileId

UNKNOWN_NAME: Final = "[unknown]"
_VDSO_NAMES: Final = frozenset({"[vdso]", "[vdso32]", "[vdsox32]"})
_PERF_MAP = re.compile(r"/tmp/perf-([0-9]{1,10})\.map\Z")  # no process has a longer number
_JITTED = re.compile(r"(jitted-\d+)-\d+\.so\Z")  # the name that `inject --jit` gives a function's image
_MODULE_FILE = re.compile(r"(?P<stem>.+)\.ko(?:\.(?:gz|xz|zst))?\Z")


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
    """

    def __init__(
        self, name: str, kind: DsoKind = DsoKind.FILE, build_id: str = "", *, listed: bool = False, identity: FileId | None = None
    ) -> None:
        self.name = name
        self.kind = kind
        self.build_id = build_id
        self.long_name = name
        self.short_name = short_name(name, kind)
        self.pids: set[int] = set()
        self.listed = listed
        self.identity = identity

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
        match = _JITTED.match(self.short_name)
        return match[1] if match else self.short_name if self.kind is DsoKind.JIT else ""


def short_name(name: str, kind: DsoKind) -> str:
    """Return the name that `perf report` prints: the last part of a path, [module], or [JIT] tid N."""
    if kind is DsoKind.MODULE:
        return module_name(name)
    if kind is DsoKind.KERNEL and "vmlinux" in name:
        return "[kernel.vmlinux]"
    jit = _PERF_MAP.match(name)
    if jit:
        return f"[JIT] tid {jit[1]}"
    return name if name.startswith("[") else name.rsplit("/", 1)[-1]


def module_name(name: str) -> str:
    """Return [nf_tables] for /lib/modules/.../nf-tables.ko.xz; names in brackets stay."""
    if name.startswith("["):
        return name
    file = _MODULE_FILE.match(os.path.basename(name))
    return f"[{(file['stem'] if file else os.path.basename(name)).replace('-', '_')}]"


def is_module(name: str) -> bool:
    """Whether a name of kernel code is a module's: [name] or a .ko file, not the kernel's own."""
    if name.startswith("["):
        return not name.startswith((KERNEL_NAME[:-1], GUEST_KERNEL_NAME[:-1], "[vdso]", "[vsyscall]"))
    return _MODULE_FILE.match(os.path.basename(name)) is not None


def perf_map_pid(name: str) -> int | None:
    """Return N for /tmp/perf-N.map, None for any other name."""
    jit = _PERF_MAP.match(name)
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
    """

    def __init__(self, build_ids: dict[str, str] | None = None, *, by_identity: bool = False) -> None:
        self.dsos: list[Dso] = []
        self._ids: dict[tuple[str, str, tuple[int, ...]], dict[int, int]] = {}  # by generation
        self._build_ids = build_ids or {}
        self._by_identity = by_identity

    def id_of(self, name: str, kind: DsoKind, build_id: str = "", identity: FileId | None = None) -> int:
        """Return the number of the Dso with a name and build-id. The recording's build-id table supplies a missing build-id."""
        build_id = build_id or self._build_ids.get(name, "")
        if build_id or not self._by_identity or kind is not DsoKind.FILE or not identity or not identity[2]:
            identity = None
        numbers = self._ids.setdefault((name, build_id, identity[:3] if identity else ()), {})
        generation = identity[3] if identity else 0
        number = numbers.get(generation)
        if number is None and numbers and not generation:  # synthesized records have no generation
            return next(iter(numbers.values()))
        if number is None and 0 in numbers:
            number = numbers[generation] = numbers.pop(0)
            self.dsos[number].identity = identity
        elif number is None:
            number = numbers[generation] = len(self.dsos)
            self.dsos.append(Dso(name, kind, build_id, listed=name in self._build_ids, identity=identity))
        return number
