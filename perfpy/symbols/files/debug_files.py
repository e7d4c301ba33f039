"""Search the files with symbols of a Dso, checked by build-id.

The search returns the file with symbols and the one that ran, or the list of searched paths. The order of paths is perf's; perfpy's own
places come last.
"""

from __future__ import annotations

import contextlib
import os
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfpy.abi.startup import NamedTuple
from perfpy.symbols.dso import Dso, DsoKind
from perfpy.symbols.files import build_id_notes
from perfpy.symbols.files.elf import BadElfError, ElfFile, NotElfError
from perfpy.symbols.files.elf_symbols import has_dynsym, has_symtab
from perfpy.untrusted import paths
from perfpy.untrusted.files import is_file, state_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.symbols.files import debuginfod

Made = TypeVar("Made")

_DEBUG_ROOT: Final = "/usr/lib/debug"
# perf's letters for where symbols come from (report -v)
_CACHED: Final = "B"
_AT_PATH: Final = "d"
#: of symbols that stand in the recording itself, or in a perf map
KEPT: Final = "j"


class Inline(Enum):
    """Which callchains get the frames of inlined calls."""

    NONE = "none"
    ALL = "all"
    ALL_AS_PERF = "all, as perf 7.3"  # which takes the address that a call returns to for the caller's
    UNWOUND_AS_PERF = "unwound, as perf 6.12"  # chains made of stacks' copies, where functions' names are the debug information's


class SymbolOptions(NamedTuple):
    """How and where to look for symbols; the names are those of perf's options.

    symfs: a folder that stands for /; kallsyms: a file in place of /proc/kallsyms; vmlinux: the kernel's ELF file;
    ignore_vmlinux: do not look for one; modules: load symbols of modules; demangle, demangle_kernel: names for people;
    buildid_dir: the build-id cache ("": perf's default, ~/.debug, or under symfs); debuginfod: ask the servers of
    DEBUGINFOD_URLS; os_release: of the recorded kernel, for the usual paths of vmlinux; cache: keep
    parsed symbols under XDG_CACHE_HOME; fold_interpreters: leave frames of interpreters out of callchains; force: believe
    perf maps of whoever owns them; inline: which callchains get the frames of inlined calls;
    live: what is recorded still runs, and writes on at its perf maps; kernel_copy: kallsyms and kcore of record --kcore.
    """

    symfs: str = ""
    kallsyms: str = ""
    vmlinux: str = ""
    ignore_vmlinux: bool = False
    modules: bool = True
    demangle: bool = True
    demangle_kernel: bool = False
    buildid_dir: str = ""
    debuginfod: bool = False
    os_release: str = ""
    cache: bool = True
    fold_interpreters: bool = False
    force: bool = False
    inline: Inline = Inline.ALL
    live: bool = False
    kernel_copy: tuple[str, str] = ("", "")

    @property
    def root(self) -> str:
        """symfs, or "" where it is / itself."""
        return "" if not self.symfs or os.path.realpath(self.symfs) == "/" else self.symfs.rstrip("/")

    @property
    def build_id_cache(self) -> str:
        """The folder of perf's build-id cache."""
        if self.buildid_dir:
            return self.buildid_dir
        if self.root:
            return self.root + "/.debug"
        return paths.build_id_cache()


class Found:
    """The result of a search. symbols and runtime are None where nothing fits; looked: every path that was tried.

    original: the file at the recorded path, of whatever build; origin: perf's letter for the kind of path where
    the symbols were ("!": nowhere); unreadable: the damaged files that were met, and what is wrong with them.
    """

    def __init__(self) -> None:
        self.symbols: ElfFile | None = None
        self.runtime: ElfFile | None = None
        self.looked: list[str] = []
        self.original: ElfFile | None = None
        self.unreadable: dict[str, str] = {}
        self.origin = "!"
        self._made: dict[object, Any] = {}

    def once(self, make: Callable[[Found], Made], name: str = "") -> Made:
        """What somebody makes of these files: made when it is first asked for, for whoever comes to them later, too.

        name: says what it is, where `make` is another function each time.
        """
        key = name or make
        if key not in self._made:
            self._made[key] = make(self)
        made: Made = self._made[key]
        return made


def find(
    dso: Dso,
    options: SymbolOptions,
    client: debuginfod.Client | None = None,
    kept: bytes | None = None,
    kept_symbols: bytes | None = None,
) -> Found:
    """The files of a Dso of user space.

    client: asks servers for what no path here has; kept, kept_symbols: the file itself, and the one with its
    symbols, if they were recorded. Of a build that is known a file here is as good, and may have lines, too.
    """
    found = Found()
    if kept and not dso.build_id:
        return _kept(dso, found, kept, kept_symbols)
    found.original = _at_recorded_path(dso, options.root, found)
    build_id = dso.build_id or (found.original.build_id if found.original else "")
    for candidates in (_candidates(dso, build_id, options, found.original), last_resorts(dso, options)):
        if found.runtime is None and found.symbols is None:
            _search(candidates, build_id, found)
    if found.symbols is None and client:
        _ask_servers(client, build_id, found)
    if dso.kind is DsoKind.VDSO and found.symbols is None:
        _take(_vdso(build_id, options), found, _AT_PATH)
    if kept and (found.symbols is None or found.runtime is None):
        return _kept(dso, found, kept, kept_symbols)
    found.symbols = found.symbols or found.runtime
    found.runtime = found.runtime or found.symbols
    return found


def _kept(dso: Dso, found: Found, kept: bytes, kept_symbols: bytes | None) -> Found:
    """What was recorded, in place of what is here."""
    symbols = _read(dso.name, found, kept_symbols) if kept_symbols else None
    runtime = _read(dso.name, found, kept)
    found.runtime = runtime or symbols
    found.symbols = symbols or runtime
    found.origin = KEPT if found.symbols else "!"
    return found


def _at_recorded_path(dso: Dso, root: str, found: Found) -> ElfFile | None:
    if dso.kind is not DsoKind.FILE or not dso.name.startswith("/"):
        return None
    try:
        return _read(paths.below(root, dso.name), found)
    except paths.UnsafeNameError:
        return None


def _search(candidates: Iterator[tuple[str, str]], build_id: str, found: Found) -> None:
    """Try paths until both the symbols and the file that ran are there."""
    for origin, path in candidates:
        _take(_open(path, build_id, found), found, origin)
        if found.symbols and found.runtime:
            return


def _take(file: ElfFile | None, found: Found, origin: str) -> None:
    if file and found.symbols is None and has_symtab(file):
        found.symbols, found.origin = file, origin
    if file and found.runtime is None and has_dynsym(file):
        found.runtime = file
        if found.symbols is None:
            found.origin = origin


def _ask_servers(client: debuginfod.Client, build_id: str, found: Found) -> None:
    """Fetch what no path here has: the symbols, and the program itself if that is missing as well."""
    for kind in ("debuginfo", "executable"):
        if kind == "debuginfo" or not found.runtime:
            found.looked.extend(f"{server}/buildid/{build_id}/{kind}" for server in client.servers if build_id)
            path = client.fetch(build_id, kind)
            _take(_open(path, build_id, found) if path else None, found, _CACHED)


def _vdso(build_id: str, options: SymbolOptions) -> ElfFile | None:
    """This kernel's own, if it is the recorded one; with symfs that must be known, not assumed."""
    try:
        file = ElfFile("[vdso]", build_id_notes.vdso_image())
    except BadElfError:
        return None
    return file if (same_build_id(file.build_id, build_id) if build_id else not options.root) else None


def _open(path: str, build_id: str, found: Found) -> ElfFile | None:
    """The file, if it is ELF and has the build-id that was recorded."""
    if path in found.looked:
        return None
    found.looked.append(path)
    file = found.original if found.original and _same_file(found.original.path, path) else _read(path, found)
    return file if file and (not build_id or same_build_id(file.build_id, build_id)) else None


def _same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file: build-id caches hold files by hard links."""
    try:
        return os.path.samestat(state_of(one), state_of(other))
    except OSError:
        return False


def _read(path: str, found: Found, data: bytes | None = None) -> ElfFile | None:
    """The file at a path, None if there is none, or no ELF file that can be read."""
    try:
        return ElfFile(path, data) if data or is_file(path) else None
    except (OSError, ValueError, NotElfError):  # ValueError: a name with a NUL
        return None
    except BadElfError as damage:
        found.unreadable[path] = damage.reason
        return None


def same_build_id(one: str, other: str) -> bool:
    """Build-ids are equal when they are, but for zeros at the end (recordings keep 20 bytes)."""
    return one.ljust(40, "0") == other.ljust(40, "0")


def _candidates(dso: Dso, build_id: str, options: SymbolOptions, original: ElfFile | None) -> Iterator[tuple[str, str]]:
    """(origin, path) to try, in perf's order."""
    root, path = options.root, dso.name
    if original:
        yield from _safe(("l", candidate) for candidate in paths.debuglinks(root, _DEBUG_ROOT, path, original.debuglink() or ""))
    if build_id:
        yield from _safe(
            (origin, paths.indexed(options.build_id_cache, build_id, name))
            for origin, name in ((_CACHED, "elf"), (_CACHED, "vdso"), ("D", "debug"))
        )
    if dso.kind is DsoKind.FILE and path.startswith("/"):
        yield from _safe(_by_name(root, path, build_id))


def _by_name(root: str, path: str, build_id: str) -> Iterator[tuple[str, str]]:
    debug_root = root + _DEBUG_ROOT
    yield "f", paths.below(debug_root, f"{path}.debug")
    yield "u", paths.below(debug_root, path)
    yield "x", paths.below(f"{debug_root}/lib", path)
    if build_id:
        yield "b", paths.debug_file(debug_root, build_id)
    yield _AT_PATH, paths.below(root, path)
    folder, name = os.path.split(path)
    yield "o", paths.below(root, f"{folder}/.debug/{name}")


def _safe(candidates: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The paths up to a name that is none."""
    with contextlib.suppress(paths.UnsafeNameError):
        yield from candidates


def last_resorts(dso: Dso, options: SymbolOptions) -> Iterator[tuple[str, str]]:
    """Where a file can be that is not at its path any more, or never was: it was deleted, or it is a container's."""
    if options.root or dso.kind is not DsoKind.FILE or not dso.name.startswith("/"):
        return
    from perfpy.symbols.files.live_process import DELETED, paths_of

    if dso.name.endswith(DELETED) and dso.build_id:  # replaced by the same, as upgrades do
        yield _AT_PATH, dso.name.removesuffix(DELETED)
    yield from ((_AT_PATH, candidate) for candidate in paths_of(dso.name, dso.pids))
