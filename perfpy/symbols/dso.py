"""Files that code was mapped from (perf's "dso"), with the names that perf prints and their kinds.

A Dso stands for a (name, build-id) pair. They are numbered in order of appearance.
"""

from __future__ import annotations

import os
import re
from enum import Enum
from functools import lru_cache
from typing import Final

from perfpy.symbols.mapped_names import GUEST_KERNEL_NAME, KERNEL_NAME, is_memory
from perfpy.untrusted.paths import PYTHON_IMAGE

UNKNOWN_NAME: Final = "[unknown]"
_VDSO_NAMES: Final = frozenset({"[vdso]", "[vdso32]", "[vdsox32]"})
_PERF_MAP = re.compile(r"/tmp/perf-(\d+)\.map\Z")
_JITTED = re.compile(r"(jitted-\d+)-\d+\.so\Z")  # what `inject --jit` makes of a jitdump
_MODULE_FILE = re.compile(r"(?P<stem>.+)\.ko(?:\.(?:gz|xz|zst))?\Z")


class DsoKind(Enum):
    """Where the symbols of a Dso come from."""

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

    name: as recorded, and as `perf script` prints it; short_name: as `perf report` prints it; long_name: the path
    (after symbols were loaded: of the kernel, where they came from); build_id: lower-case hex, or "" where unknown.
    """

    def __init__(self, name: str, kind: DsoKind = DsoKind.FILE, build_id: str = "", *, listed: bool = False) -> None:
        self.name = name
        self.kind = kind
        self.build_id = build_id
        self.long_name = name
        self.short_name = short_name(name, kind)
        self.pids: set[int] = set()
        self.listed = listed  # in the file's table of build-ids

    @property
    def kernel(self) -> bool:
        """Whether it is the kernel, a module, or code that the kernel made."""
        return self.kind in (DsoKind.KERNEL, DsoKind.MODULE, DsoKind.BPF)

    @property
    def made_code(self) -> str:
        """What to call all code that a runtime made in one process, of which this has some or all; "" for other files."""
        if self.short_name == PYTHON_IMAGE:
            return "Python"
        match = _JITTED.match(self.short_name)
        return match[1] if match else self.short_name if self.kind is DsoKind.JIT else ""


def short_name(name: str, kind: DsoKind) -> str:
    """The name that `perf report` prints: the last part of a path, [module], or [JIT] tid N."""
    if kind is DsoKind.MODULE:
        return module_name(name)
    if kind is DsoKind.KERNEL and "vmlinux" in name:
        return "[kernel.vmlinux]"
    jit = _PERF_MAP.match(name)
    if jit:
        return f"[JIT] tid {jit[1]}"
    return name if name.startswith("[") else name.rsplit("/", 1)[-1]


def module_name(name: str) -> str:
    """[nf_tables] for /lib/modules/.../nf-tables.ko.xz; names in brackets stay."""
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
    """N of /tmp/perf-N.map, None for any other name."""
    jit = _PERF_MAP.match(name)
    return int(jit[1]) if jit else None


@lru_cache(maxsize=1 << 12)
def user_kind(name: str) -> DsoKind:
    """The kind of a Dso of user space by its name."""
    if name in _VDSO_NAMES:
        return DsoKind.VDSO
    if name == "[vsyscall]":
        return DsoKind.VSYSCALL
    if is_memory(name):
        return DsoKind.NONE
    return DsoKind.JIT if perf_map_pid(name) is not None else DsoKind.FILE


class DsoTable:
    """All Dsos of a recording, numbered as they appear; the kernel, if there is one, is number 0."""

    def __init__(self, build_ids: dict[str, str] | None = None) -> None:
        self.dsos: list[Dso] = []
        self._ids: dict[tuple[str, str], int] = {}
        self._build_ids = build_ids or {}

    def id_of(self, name: str, kind: DsoKind, build_id: str = "") -> int:
        """The number of the Dso with this name and build-id; the build-id table of the file fills in what the record lacks."""
        build_id = build_id or self._build_ids.get(name, "")
        number = self._ids.get((name, build_id))
        if number is None:
            number = self._ids[name, build_id] = len(self.dsos)
            self.dsos.append(Dso(name, kind, build_id, listed=name in self._build_ids))
        return number
