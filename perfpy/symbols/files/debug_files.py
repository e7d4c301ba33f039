"""Search the files with symbols of a Dso, checked by build-id.

The search returns the file with symbols and the one that ran, or the list of searched paths. The order of paths is perf's; perfpy's own
places come last.
"""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import re
import struct
import zlib

import numpy as np

from perfpy.abi.flags import HOST_ONLY, Machines
from perfpy.abi.light_types import TYPE_CHECKING, Enum, NamedTuple, TypeVar
from perfpy.symbols.dso import VDSO, Dso, DsoKind
from perfpy.symbols.files import build_ids, elf_symbols
from perfpy.symbols.files.elf import DAMAGE, SHT_NOBITS, BadElfError, ElfFile, NotElfError, open_mapped, read_module
from perfpy.symbols.files.elf_symbols import has_dynsym, has_symtab
from perfpy.symbols.symbol_table import Symbols
from perfpy.untrusted import files as paths
from perfpy.untrusted.files import is_file, open_regular, regular_fd, state_of, trusted_file_owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Final, TypeAlias

    from numpy.typing import NDArray

    from perfpy.symbols.files import debuginfod
    from perfpy.untrusted.process_files import FileId

    _Key: TypeAlias = "tuple[str, DsoKind, str, FileId | None, SymbolOptions]"


Shared = TypeVar("Shared")

_DEBUG_ROOT: Final = "/usr/lib/debug"
# perf's letters for the origin of symbols (report -v).
_CACHED: Final = "B"
_AT_PATH: Final = "d"
_DEBUG_FILES: Final = "lfuxo"  # separate debug files that only a name leads to
#: the origin of symbols stored in the recording or in a perf map
KEPT: Final = "j"


class Inline(Enum):
    """Which callchains get frames of inlined calls."""

    NONE = "none"
    ALL = "all"
    ALL_AS_PERF = "all, as perf 7.3"  # takes return addresses as callers' addresses
    UNWOUND_AS_PERF = "unwound, as perf 6.12"  # callchains from copies of stacks; functions have the debug information's names


class GuestFiles(NamedTuple):
    """Where the symbols of virtual machines are found, by the names of perf kvm's options.

    Attributes:
        guestmount: a folder with a folder for each guest, which has the pid of its hypervisor and the guest's /proc
        guestkallsyms, guestvmlinux: files of the kernel of guests that have no folder
        machines: whose addresses have a meaning; those of other machines have none, as in perf
    """

    guestmount: str = ""
    guestkallsyms: str = ""
    guestvmlinux: str = ""
    machines: Machines = HOST_ONLY


class SymbolOptions(NamedTuple):
    """Options for finding symbols, by the names of perf's options.

    Attributes:
        symfs: the folder that stands for /.
        kallsyms: a file in place of /proc/kallsyms.
        vmlinux: the kernel's ELF file.
        ignore_vmlinux: do not search for a vmlinux.
        modules: load symbols of modules.
        demangle: demangle names.
        demangle_kernel: demangle the kernel's names, too.
        buildid_dir: the build-id cache ("": perf's default, ~/.debug, or under symfs).
        debuginfod: query the servers of DEBUGINFOD_URLS.
        os_release: the recorded kernel's release, for the usual paths of vmlinux.
        cache: store parsed symbols under XDG_CACHE_HOME.
        fold_interpreters: drop frames of interpreters from callchains; None: if the recording has Python functions (record --python).
        force: skip the check of perf maps' owners.
        inline: which callchains get frames of inlined calls.
        live: the recorded processes still run and append to their perf maps.
        kernel_copy: kallsyms and kcore of record --kcore.
        ended: when a recording of this machine ended, in seconds since 1970; 0 for another machine's, or if that is unknown.
        guests: where the symbols of virtual machines are.
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
    fold_interpreters: bool | None = None
    force: bool = False
    inline: Inline = Inline.ALL
    live: bool = False
    kernel_copy: tuple[str, str] = ("", "")
    ended: float = 0.0
    guests: GuestFiles = GuestFiles()

    @property
    def root(self) -> str:
        """symfs, or "" if that is /."""
        return "" if not self.symfs or os.path.realpath(self.symfs) == "/" else self.symfs.rstrip("/")

    @property
    def build_id_cache(self) -> str:
        """The folder of perf's build-id cache."""
        if self.buildid_dir:
            return self.buildid_dir
        if self.root:
            return self.root + "/.debug"
        return paths.build_id_cache()


def crc_of_content(file: ElfFile) -> int:
    """Return the CRC32 of a whole file."""
    return zlib.crc32(file.content)


class DsoFiles:
    """The files of one dso.

    Attributes:
        crc_of: returns the CRC32 of a file.
        symbols: the file with symbols, None if none fits.
        runtime: the file that was mapped, None if none fits.
        looked: every path that was tried.
        original: the file at the recorded path, of any build.
        unreadable: damaged files and the reason, by path.
        refused: files of another build and the reason, by path.
        origin: perf's letter for the kind of path of `symbols`; "!" without symbols.
    """

    def __init__(self, crc_of: Callable[[ElfFile], int] = crc_of_content) -> None:
        self.crc_of = crc_of
        self.symbols: ElfFile | None = None
        self.runtime: ElfFile | None = None
        self.looked: list[str] = []
        self.original: ElfFile | None = None
        self.unreadable: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.origin = "!"
        self._shared_values: dict[object, Any] = {}

    def once(self, make: Callable[[DsoFiles], Shared], name: str = "") -> Shared:
        """Return make(self), computed once for all users of these files.

        `name`: the key, if `make` is a new function in each call.
        """
        key = name or make
        if key not in self._shared_values:
            self._shared_values[key] = make(self)
        value: Shared = self._shared_values[key]
        return value


def find(
    dso: Dso,
    options: SymbolOptions,
    client: debuginfod.Client | None = None,
    stored: bytes | None = None,
    stored_symbols: bytes | None = None,
    crc_of: Callable[[ElfFile], int] = crc_of_content,
) -> DsoFiles:
    """Return the files of a user-space dso.

    Args:
        dso: the dso.
        options: where to search.
        client: queried for files that no path has.
        stored: the file stored in the recording. A file on disk with the same build-id is preferred: it may have lines, too.
        stored_symbols: the file with symbols stored in the recording.
        crc_of: returns the CRC32 of a file, perhaps from a cache.
    """
    files = DsoFiles(crc_of)
    if stored and not dso.build_id:
        return _use_stored(dso, files, stored, stored_symbols)
    if dso.identity and not options.symfs:
        if options.live or _is_replaced(dso, dso.identity, options.ended or math.inf, files):
            return _find_identified(dso, dso.identity, options, client, files)
    else:
        files.original = _read_recorded_path(dso, options.root, files)
    build_id = dso.build_id or (files.original.build_id if files.original else "")
    for candidates in (_candidates(dso, build_id, options, files.original), last_resorts(dso, options)):
        if files.runtime is None and files.symbols is None:
            _search(candidates, build_id, files)
    if files.symbols is None and client:
        _ask_servers(client, build_id, files)
    if dso.name == VDSO and files.symbols is None:
        _assign(_vdso(build_id, options), files, _AT_PATH)
    if stored and (files.symbols is None or files.runtime is None):
        return _use_stored(dso, files, stored, stored_symbols)
    files.symbols = files.symbols or files.runtime
    files.runtime = files.runtime or files.symbols
    return files


def _is_replaced(dso: Dso, identity: FileId, ended: float, files: DsoFiles) -> bool:
    """Whether there is another file at the recorded path. If not, read the file there, if there is one."""
    from perfpy.untrusted.process_files import is_modified, is_recorded

    try:
        path = paths.below("", dso.name)
        fd = regular_fd(path)
    except (OSError, ValueError, paths.UnsafeNameError):  # ValueError: a name with a NUL
        return False
    if is_recorded(fd, identity, ended) is False:
        os.close(fd)
        files.refused[dso.name] = (
            "is not the file that ran, it was replaced: its functions have no names"
            " (give a folder with the recorded file by --symfs; --symfs / takes the new file)"
        )
        return True
    if is_modified(fd, ended):
        files.refused[dso.name] = "was modified after it ran: its names may be wrong (record its build-id: --buildid-mmap)"
    files.original = _read(path, files, fd=fd)
    return False


def _find_identified(dso: Dso, identity: FileId, options: SymbolOptions, client: debuginfod.Client | None, files: DsoFiles) -> DsoFiles:
    """Return the files of a dso whose device and inode are known. A file of the same name is not taken instead."""
    try:
        files.original = open_mapped(dso.name, identity, dso.pids)
    except FileNotFoundError as error:
        files.looked.append(f"{dso.name} ({error.strerror})")
        return files
    except (OSError, NotElfError):
        return files
    except BadElfError as damage:
        files.unreadable[dso.name] = damage.reason
        return files
    files.refused.pop(dso.name, None)
    path, build_id = files.original.path, files.original.build_id
    if build_id or path == dso.name:
        _search(_candidates(dso, build_id, options, files.original), build_id, files)
    _search(iter([(_AT_PATH, path)]), build_id, files)
    if files.symbols is None and client:
        _ask_servers(client, build_id, files)
    files.symbols = files.symbols or files.runtime
    files.runtime = files.runtime or files.symbols
    return files


def own_build_id(dso: Dso, ended: float) -> bytes:
    """Return the build-id of the file that a recording of this machine mapped, b"" if it is gone; ended: see SymbolOptions."""
    file = find(dso, SymbolOptions(cache=False, ended=ended)).original
    return bytes.fromhex(file.build_id) if file else b""


def of_build(file: ElfFile | None, build_id: str) -> ElfFile | None:
    """Return a stored file unless it is of another build: two files of a recording may have one name."""
    return None if file and build_id and not same_build_id(file.build_id, build_id) else file


def _use_stored(dso: Dso, files: DsoFiles, stored: bytes, stored_symbols: bytes | None) -> DsoFiles:
    """Use the files stored in the recording."""
    symbols, runtime = (of_build(_read(dso.name, files, data), dso.build_id) if data else None for data in (stored_symbols, stored))
    files.runtime = runtime or symbols
    files.symbols = symbols or runtime
    files.origin = KEPT if files.symbols else "!"
    return files


def _read_recorded_path(dso: Dso, root: str, files: DsoFiles) -> ElfFile | None:
    if dso.kind is not DsoKind.FILE or not dso.name.startswith("/"):
        return None
    try:
        return _read(paths.below(root, dso.name), files)
    except paths.UnsafeNameError:
        return None


def _search(candidates: Iterator[tuple[str, str]], build_id: str, files: DsoFiles) -> None:
    """Try paths until both the symbols and the mapped file are found."""
    for origin, path in candidates:
        file = _open(path, build_id, files)
        if file and not build_id and origin in _DEBUG_FILES and not _has_linked_crc(file, files):
            continue
        _assign(file, files, origin)
        if files.symbols and files.runtime:
            return


def _has_linked_crc(file: ElfFile, files: DsoFiles) -> bool:
    """Whether a debug file has the CRC in the program's .gnu_debuglink, or the program has none. gdb refuses other files, too."""
    program = files.original
    expected = program.debuglink_crc() if program and file is not program else None
    if program is None or expected is None:
        return True
    if files.crc_of(file) == expected:
        return True
    files.refused[file.path] = f"belongs to another build of {program.path} (the CRC in .gnu_debuglink differs); it is not used"
    return False


def _assign(file: ElfFile | None, files: DsoFiles, origin: str) -> None:
    if file and files.symbols is None and has_symtab(file):
        files.symbols, files.origin = file, origin
    if file and files.runtime is None and has_dynsym(file):
        files.runtime = file
        if files.symbols is None:
            files.origin = origin


def _ask_servers(client: debuginfod.Client, build_id: str, files: DsoFiles) -> None:
    """Fetch the symbols, and the program itself if it is missing too."""
    for kind in ("debuginfo", "executable"):
        if kind == "debuginfo" or not files.runtime:
            files.looked.extend(f"{server}/buildid/{build_id}/{kind}" for server in client.servers if build_id)
            path = client.fetch(build_id, kind)
            _assign(_open(path, build_id, files) if path else None, files, _CACHED)


def _vdso(build_id: str, options: SymbolOptions) -> ElfFile | None:
    """Return this kernel's vdso if it is the recorded one. With symfs, only a matching build-id proves that."""
    try:
        file = ElfFile(VDSO, build_ids.vdso_image())
    except BadElfError:
        return None
    return file if (same_build_id(file.build_id, build_id) if build_id else not options.root) else None


def _open(path: str, build_id: str, files: DsoFiles) -> ElfFile | None:
    """Return the ELF file at a path if its build-id is the recorded one."""
    if path in files.looked:
        return None
    files.looked.append(path)
    is_original = files.original and (path == files.original.path or _same_file(files.original.path, path))
    file = files.original if is_original else _read(path, files)
    return file if file and (not build_id or same_build_id(file.build_id, build_id)) else None


def _same_file(one: str, other: str) -> bool:
    """Whether two paths lead to one file. Build-id caches contain hard links."""
    try:
        return os.path.samestat(state_of(one), state_of(other))
    except OSError:
        return False


def _read(path: str, files: DsoFiles, data: bytes | None = None, *, fd: int | None = None) -> ElfFile | None:
    """Return the ELF file at a path, None if there is none or it cannot be read; data: its bytes; fd: its descriptor, which this closes."""
    try:
        return ElfFile(path, data, fd=fd) if data or fd is not None or is_file(path) else None
    except (OSError, ValueError, NotElfError):  # ValueError: a name with a NUL
        return None
    except BadElfError as damage:
        files.unreadable[path] = damage.reason
        return None


def same_build_id(one: str, other: str) -> bool:
    """Whether two build-ids are equal except for trailing zeros (recordings store 20 bytes)."""
    return one.ljust(40, "0") == other.ljust(40, "0")


def _candidates(dso: Dso, build_id: str, options: SymbolOptions, original: ElfFile | None) -> Iterator[tuple[str, str]]:
    """Yield the (origin, path) pairs to try, in perf's order."""
    root, path = options.root, dso.name
    if original:
        yield from _until_unsafe(("l", candidate) for candidate in paths.debuglinks(root, _DEBUG_ROOT, path, original.debuglink() or ""))
    if build_id:
        yield from _until_unsafe(
            (origin, paths.build_id_path(options.build_id_cache, build_id, name))
            for origin, name in ((_CACHED, "elf"), (_CACHED, "vdso"), ("D", "debug"))
        )
    if dso.kind is DsoKind.FILE and path.startswith("/"):
        yield from _until_unsafe(_by_name(root, path, build_id))


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


def _until_unsafe(candidates: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the paths up to the first unsafe name."""
    with contextlib.suppress(paths.UnsafeNameError):
        yield from candidates


def last_resorts(dso: Dso, options: SymbolOptions) -> Iterator[tuple[str, str]]:
    """Yield paths for files that are not at their recorded path: deleted ones and those in containers."""
    if options.root or dso.kind is not DsoKind.FILE or not dso.name.startswith("/"):
        return
    from perfpy.symbols.dso import DELETED, paths_of

    if dso.name.endswith(DELETED) and dso.build_id:  # replaced by the same build, as package upgrades do
        yield _AT_PATH, dso.name.removesuffix(DELETED)
    yield from ((_AT_PATH, candidate) for candidate in paths_of(dso.name, dso.pids))


# Share the files of several recordings: each is found, read and parsed once. Hosts of one service run the same files, and reading these
# takes most of the time.

#: bytes of open files; data parsed from them may take as much again
_LIMIT: Final = 1 << 30


class SharedFiles:
    """The files of dsos found so far, for one report: files must not change meanwhile. `limit`: bytes of open files."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit, self._size = limit, 0
        self._files: dict[_Key, DsoFiles] = {}

    def find(
        self,
        dso: Dso,
        options: SymbolOptions,
        client: debuginfod.Client | None,
        crc_of: Callable[[ElfFile], int] = crc_of_content,
    ) -> DsoFiles:
        """Return the files of a user-space dso; see debug_files.find."""
        key = dso.name, dso.kind, dso.build_id, dso.identity, options
        files = self._files.get(key)
        if files is None:
            files = find(dso, options, client, crc_of=crc_of)
            size = sum(len(file.content) for file in {files.symbols, files.runtime, files.original} if file)
            if self._size + size > self._limit:  # drop all; later requests search again
                self._files.clear()
                self._size = 0
            self._size += size
            self._files[key] = files
        if files.runtime is None and any(last_resorts(dso, options)):
            return find(dso, options, client, crc_of=crc_of)  # only this dso's pids lead to the file of a running process
        return files


# Find the ELF file of a kernel module, or its debug file of the same build, and the offset of its frames.

_PACKED: Final = r"\.(?:gz|xz|zst)\Z"


def find_debug_module(dso: Dso, root: str) -> tuple[ElfFile, int] | None:
    """Return the module's file with debug information and the offset of its frames, None if missing. `root` stands for /."""
    module = next((file for file in _files(dso, root) if file.section(".debug_info") is not None), None)
    text = module.section(".text") if module else None
    # A module's mapping begins with its code, and debuginfo.sections relocates debug information to file offsets.
    return (module, -text.offset) if module and text else None


def find_module_code(dso: Dso, root: str) -> tuple[ElfFile, int] | None:
    """Return the module itself and the distance of its frames from the addresses of .text, None if missing."""
    module = next((file for file in _files(dso, root) if has_code(file)), None)
    text = module.section(".text") if module else None
    return (module, -text.addr) if module and text else None


def has_code(file: ElfFile) -> bool:
    """Whether the file has code, not only debug information."""
    text = file.section(".text")
    return text is not None and text.type != SHT_NOBITS


def _files(dso: Dso, root: str) -> Iterator[ElfFile]:
    """Yield the files of this build that have a .text section, even an empty one."""
    for path in _module_candidates(dso, root):
        try:
            file = read_module(path) if os.path.isfile(path) else None
        except (OSError, *DAMAGE):
            continue
        if file is None or (dso.build_id and not same_build_id(file.build_id, dso.build_id)):
            continue
        if file.section(".text") is not None:
            yield file


def _module_candidates(dso: Dso, root: str) -> Iterator[str]:
    """Yield paths by likelihood: the module itself, then the distributions' folders for debug files."""
    plain = re.sub(_PACKED, "", dso.name)
    names = (dso.name, f"{_DEBUG_ROOT}{plain}", f"{_DEBUG_ROOT}{plain}.debug") if dso.name.startswith("/") else ()
    try:
        yield from (paths.below(root, name) for name in names)
        if dso.build_id:
            yield paths.debug_file(root + _DEBUG_ROOT, dso.build_id)
    except paths.UnsafeNameError:
        return


# Cache parsed symbols of the kernel (kernel_symbols) and of large ELF files (elf_cache) between runs.
#
# A key identifies the contents. Names are one column of bytes, the last (see column_files).


# Cache columns of numbers between runs, in files below XDG_CACHE_HOME/perfpy. Columns are stored by name under a key, which must change
# whenever they would, and are mapped on load. No function here raises: a file that is missing, truncated, damaged or of another version
# or owner is a miss, and a failed write is ignored. The folder must belong to this user alone.
#
# Files are replaced atomically and never changed, so concurrent runs do not disturb each other. The least recently used files are removed
# above the size limit. File layout: magic; u64 length of the head; u64 sum (modulo 2^64) of all words that follow; the head, a line "NAME
# DTYPE BYTES" per column; the columns, each padded to 8 bytes. (A sum takes a tenth of a CRC's time and detects what happens to files:
# zero pages, truncation, single words. Importing json would take longer than reading the file.)

_MAGIC: Final = b"perfpy\x00\x03"  # the last byte is the version of the layout and of the cached computations
_HEAD: Final = struct.Struct("<8sQQ")
_ALIGN: Final = 8
_MOST_CACHED: Final = 256 << 20
_STALE: Final = 3600  # age in seconds at which temporary files are removed


def folder(name: str) -> str:
    """Return the folder of one kind of cached files."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "perfpy", name)


class ColumnFiles:
    """A folder of cached tables.

    Args:
        path: the folder.
        suffix: of the file names.
        limit: bytes of all files together.
    """

    def __init__(self, path: str, suffix: str, limit: int = _MOST_CACHED) -> None:
        self.path = path
        self.limit = limit
        self._suffix = suffix

    def columns(self, key: str) -> dict[str, NDArray[Any]] | None:
        """Return the columns stored under a key (a valid file name), None if there are none."""
        name = self._file(key)
        try:
            with open_regular(name, owners=trusted_file_owners()) as file:
                data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with contextlib.suppress(OSError):  # the folder may be read-only
                os.utime(name)
            return _decode(data)
        except (OSError, ValueError, TypeError, struct.error):
            return None

    def keep(self, key: str, columns: dict[str, NDArray[Any]]) -> None:
        """Store columns under a key (a valid file name)."""
        from perfpy.untrusted.destinations import own

        with contextlib.suppress(OSError):
            with own(self.path) as folder:
                folder.put(os.path.basename(self._file(key)), (_encode(columns),))
            # Remove the least recently used files above the limit, and temporary files of killed runs.
            import time

            stale = time.time() - _STALE
            with os.scandir(self.path) as entries:
                states = [(entry.stat().st_mtime, entry.stat().st_size, entry.path) for entry in entries]
            excess = sum(size for _, size, _ in states) - self.limit
            for used, size, name in sorted(states):
                if excess > 0 or (used < stale and not name.endswith(self._suffix)):
                    with contextlib.suppress(OSError):  # a concurrent run removed it first
                        os.unlink(name)
                    excess -= size

    def _file(self, key: str) -> str:
        return os.path.join(self.path, re.sub(r"[^0-9A-Za-z]", "-", key) + self._suffix)


def _encode(columns: dict[str, NDArray[Any]]) -> bytes:
    text = "".join(f"{name} {column.dtype.str} {column.nbytes}\n" for name, column in columns.items()).encode()
    parts = [text, *(column.tobytes() for column in columns.values())]
    body = b"".join(part + bytes(-len(part) % _ALIGN) for part in parts)
    return _HEAD.pack(_MAGIC, len(text), _sum(body)) + body


def _sum(body: bytes | memoryview) -> int:
    return int(np.frombuffer(body, "<u8").sum(dtype=np.uint64))


def _decode(data: mmap.mmap) -> dict[str, NDArray[Any]]:
    """Decode the output of _encode. Raises ValueError for anything else."""
    magic, length, checksum = _HEAD.unpack_from(data)
    body = memoryview(data)[_HEAD.size :]
    if magic != _MAGIC or _sum(body) != checksum:
        raise ValueError("not a table of this version")
    offset, columns = length + -length % _ALIGN, {}
    for line in bytes(body[:length]).decode().splitlines():
        name, kind, size = line.split(" ")
        columns[name] = np.frombuffer(body[offset : offset + int(size)], np.dtype(kind))
        offset += int(size) + -int(size) % _ALIGN
    return columns


_KEPT: Final = ("start", "end", "binding", "type", "name")


class SymbolCache(ColumnFiles):
    """A folder of cached symbol tables. `limit`: bytes of all files together."""

    def __init__(self, path: str, limit: int = _MOST_CACHED) -> None:
        super().__init__(path, ".symbols", limit)

    def load(self, key: str) -> tuple[Symbols, dict[str, NDArray[Any]]] | None:
        """Return the symbols and further columns stored under a key, None if there are none."""
        columns = self.columns(key)
        if columns is None or not columns.keys() >= {*_KEPT, "names"}:
            return None
        names = columns.pop("names").data
        own = {name: columns.pop(name) for name in _KEPT}
        return Symbols(**own, source=np.zeros(len(own["start"]), np.uint8), sources=(names,)), columns

    def store(self, key: str, symbols: Symbols, **further: NDArray[Any]) -> None:
        """Store symbols and further columns under a key."""
        lengths = [len(source) for source in symbols.sources]
        base = np.cumsum([0, *lengths[:-1]])
        names = b"".join(bytes(source) for source in symbols.sources)
        joined = symbols.with_columns(name=symbols.name + base[symbols.source], source=np.zeros_like(symbols.source), sources=(names,))
        columns = {name: getattr(joined, name) for name in _KEPT} | further | {"names": np.frombuffer(joined.sources[0], np.uint8)}
        self.keep(key, columns)


# Cache the symbols and CRCs of large ELF files between runs, in a thirtieth of the time of reading them again. A file is identified by
# build-id (or inode), size and time, and by its owner if others could have made it: anybody can make a file with the build-id of another
# one. Names stay in the file. Small files are not cached, because reading them is faster.

_BIG: Final = 20_000  # symbols
_SLOW_CRC: Final = 16 << 20  # bytes


def symbols_of(symbol_file: ElfFile, runtime: ElfFile, cache: SymbolCache | None) -> Symbols:
    """Return the symbols as elf_symbols.collect does, from the cache if possible."""
    tables = elf_symbols.symbol_sections(symbol_file)
    big = sum(section.size for section in tables) > _BIG * (24 if symbol_file.bits == 64 else 16)
    key = key_of("elf", symbol_file, runtime) if cache and big else ""
    if not cache or not key:
        return elf_symbols.collect(symbol_file, runtime)
    cached = cache.load(key)
    if cached and "table" in cached[1]:
        return cached[0].with_columns(source=cached[1]["table"], sources=tuple(symbol_file.strings(section) for section in tables))
    symbols = elf_symbols.collect(symbol_file, runtime)
    cache.store(key, symbols.with_columns(sources=(b"",) * len(tables)), table=symbols.source)
    return symbols


def crc_of(file: ElfFile, cache: ColumnFiles | None) -> int:
    """Return the CRC32 of a whole file; of a large one, which takes a second for a GB, from the cache if possible."""
    key = key_of("crc", file) if cache and len(file.content) > _SLOW_CRC else ""
    columns = cache.columns(key) if cache and key else None
    if columns and len(columns.get("crc", ())) == 1:
        return int(columns["crc"][0])
    crc = crc_of_content(file)
    if cache and key:
        cache.keep(key, {"crc": np.array([crc], np.uint32)})
    return crc


def key_of(kind: str, *files: ElfFile) -> str:
    """Return a key that changes with the files, "" if that cannot be guaranteed. `kind`: of the cached value."""
    words = [kind]
    for file in files:
        try:
            state = state_of(file.path)
        except OSError:  # an image in memory
            return ""
        owner = "" if state.st_uid in trusted_file_owners() else f"user{state.st_uid}"
        words += [owner + (file.build_id or f"{state.st_dev:x}.{state.st_ino:x}"), f"{state.st_size:x}", f"{state.st_mtime_ns:x}"]
    return " ".join(words if words[1:4] != words[4:] else words[:4])
