"""perf's build-id cache: recorded files, by build-id.

Layout (perf-buildid-cache(1)):

    PATH/BUILDID/elf (kallsyms, vdso, debug)   the file; a hard link if possible, and if the file is root's or ours
    .build-id/xx/yyyy -> ../../PATH/BUILDID

PATH is the file's name in the recording, which any process may have chosen. The cache is therefore written only if it belongs to us alone,
through open folders, with checked names. Only the owner can read its files, because some are not public at their origin.
"""

from __future__ import annotations

import contextlib
import os
import struct

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.untrusted import files
from perfpy.untrusted.files import regular_fd, trusted_file_owners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Final

    from perfpy.abi.framing import HeaderBuildId
    from perfpy.untrusted import destinations


_KERNEL: Final = "[kernel.kallsyms]"
_VDSO: Final = "[vdso]"
_KALLSYMS: Final = "/proc/kallsyms"
_DEBUG_FILES: Final = "/usr/lib/debug"
_COPY_SIZE: Final = 1 << 20


class BuildIdCache:
    """The cache in `folder` ("": perf's default)."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder or files.build_id_cache()

    def add(self, entries: Iterable[HeaderBuildId], elsewhere: Mapping[bytes, str] | None = None) -> list[str]:
        """Add the files of a recording's build-id table. Files that cannot be read or written are skipped.

        Args:
            entries: the build-id table.
            elsewhere: build-id -> path, of files that are not at their recorded path.

        Returns:
            a line for each file that was rejected because its name or folder is unsafe.
        """
        from perfpy.untrusted import destinations

        refused: list[str] = []
        for entry in entries:
            try:
                with contextlib.suppress(FileNotFoundError):
                    self.keep(entry.filename, entry.build_id.hex(), (elsewhere or {}).get(entry.build_id, ""))
            except destinations.ForeignFolderError as error:
                return [*refused, f"{error.filename}: {error.strerror}; nothing more is kept in the build-id cache"]
            except files.UnsafeNameError as error:
                refused.append(f"{error}; not kept in the build-id cache")
            except OSError:
                continue
        return refused

    def keep(self, name: str, build_id: str, path: str = "") -> None:
        """Add one file unless it is cached. `path`: where to read it, if not at `name`. Raises OSError, UnsafeNameError."""
        if not self.holds(build_id):
            self._put(name, build_id, lambda folder: _write_build(folder, name, build_id, path))

    def put(self, name: str, build_id: str, file: str, pieces: Iterator[bytes]) -> None:
        """Add a file of a build (elf, debug ...) from its bytes unless it is cached. Raises OSError, UnsafeNameError."""
        self._put(name, build_id, lambda folder: _write_checked(folder, file, build_id, pieces))

    def _put(self, name: str, build_id: str, fill: Callable[[destinations.Folder], None]) -> None:
        from perfpy.untrusted import destinations

        home = files.home_parts(name, build_id)
        *index, last = files.index_parts(build_id)
        with destinations.own(self.folder) as cache:
            with cache.inner(*home) as folder:
                fill(folder)
            if self.holds(build_id):
                return
            with cache.inner(*index) as links:
                if links.has(last):  # a dangling link
                    os.unlink(last, dir_fd=links.fd)
                os.symlink("/".join(("..", "..", *home)), last, dir_fd=links.fd)

    def entries(self) -> list[tuple[str, str]]:
        """Return the (build-id, recorded path) pairs of all builds, sorted by build-id."""
        root = os.path.realpath(self.folder)
        entries = []
        for build_id in self._index_ids():
            home = os.path.realpath(files.build_id_path(self.folder, build_id))
            if os.path.isdir(home) and home.startswith(root + "/"):
                path = os.path.dirname(home)[len(root) :]
                entries.append((build_id, path[1:] if path.startswith("/[") else path))
        return entries

    def _index_ids(self) -> Iterator[str]:
        """Yield the build-ids of the index. Other names there are not the cache's."""
        index = os.path.join(self.folder, files.INDEX)
        for prefix in _list_folder(index):
            for suffix in _list_folder(os.path.join(index, prefix)):
                with contextlib.suppress(files.UnsafeNameError):
                    yield files.build_id_hex(prefix + suffix)

    def valid_entries(self) -> list[tuple[str, str]]:
        """Return the entries whose path still has that build, as perf lists them. The others serve old recordings."""
        return [(build_id, name) for build_id, name in self.entries() if _build_id_now(name) == build_id]

    def holds(self, build_id: str) -> bool:
        """Whether a build is cached."""
        try:
            return os.path.exists(files.build_id_path(self.folder, build_id))
        except files.UnsafeNameError:
            return False

    def remove(self, build_id: str) -> bool:
        """Remove one build; return whether it was cached. Raises OSError if others can write to the cache."""
        from perfpy.untrusted import destinations

        *index, last = files.index_parts(build_id)
        if not os.path.islink(files.build_id_path(self.folder, build_id)):
            return False
        with destinations.own(self.folder, make=False) as cache:
            with cache.inner(*index, make=False) as links:
                target = os.readlink(last, dir_fd=links.fd)
                os.unlink(last, dir_fd=links.fd)
            with contextlib.suppress(OSError, files.UnsafeNameError):
                import shutil  # most importers only read

                *above, home = files.parts(target.removeprefix("../../"))
                with cache.inner(*above, make=False) as folder:
                    shutil.rmtree(home, dir_fd=folder.fd)
        return True


def _build_id_now(name: str) -> str:
    if name == _KERNEL:
        return of_kernel().hex()
    return of_file(name).hex() if name.startswith("/") else ""


def _list_folder(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _write_build(folder: destinations.Folder, name: str, build_id: str, resolved: str) -> None:
    """Write the files of one build to its folder."""
    if name == _KERNEL:
        fd = os.open(_KALLSYMS, os.O_RDONLY | os.O_CLOEXEC)
        with open(fd, "rb"):
            _copy(fd, folder, "kallsyms")
    elif name == _VDSO:
        _write(folder, "vdso", iter([vdso_image()]))
    else:
        _link(resolved or os.path.realpath(name), folder, "elf", build_id)
        debug = files.debug_file(_DEBUG_FILES, build_id)
        if os.path.exists(debug):
            _link(os.path.realpath(debug), folder, "debug", build_id)


def _link(source: str, folder: destinations.Folder, name: str, build_id: str) -> None:
    """Hard-link the opened file. Copy it across file systems, and if another user could change it later."""
    fd = regular_fd(source)
    with open(fd, "rb"):
        actual_id = of_fd(fd)
        if actual_id and actual_id.hex() != build_id:  # a compressed module has no readable build-id
            raise FileNotFoundError(f"{source}: meanwhile replaced by another build")
        if os.fstat(fd).st_uid not in trusted_file_owners():
            _copy(fd, folder, name)
            return
        try:
            os.link(f"/proc/self/fd/{fd}", name, dst_dir_fd=folder.fd, follow_symlinks=True)
        except FileExistsError:
            pass
        except OSError:
            _copy(fd, folder, name)


def _copy(fd: int, folder: destinations.Folder, name: str) -> None:
    _write(folder, name, iter(lambda: os.read(fd, _COPY_SIZE), b""))


def _write(folder: destinations.Folder, name: str, pieces: Iterator[bytes]) -> None:
    """Write a new file, or remove it again if writing fails. An existing file is of the same build and stays."""
    try:
        fd = folder.create(name)
    except FileExistsError:
        return
    try:
        with open(fd, "wb") as file:
            file.writelines(pieces)
    except BaseException:
        os.unlink(name, dir_fd=folder.fd)
        raise


def _write_checked(folder: destinations.Folder, name: str, build_id: str, pieces: Iterator[bytes]) -> None:
    """Write a new file and check its build-id. Raises FileNotFoundError if it differs."""
    if folder.has(name):
        return
    _write(folder, name, pieces)
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder.fd)
    with open(fd, "rb"):
        actual_id = of_fd(fd)
    if actual_id and name in ("elf", "vdso") and actual_id.hex() != build_id:
        os.unlink(name, dir_fd=folder.fd)
        raise FileNotFoundError(f"{name}: of another build than {build_id}")


# Read build-ids: from an ELF file's notes, the kernel's, and this process's vdso. Functions return the id's bytes, b"" without one.
# Imports nothing heavy, because a recorder needs a few build-ids. Layout: gabi's Elf32/64_Ehdr, Phdr, Shdr and Nhdr; a note is { u32
# namesz, descsz, type; name, desc, each padded to 4 bytes }; the build-id's name is "GNU", its type 3.

_MAGIC: Final = b"\x7fELF"
_GNU: Final = b"GNU\0"
_NT_GNU_BUILD_ID: Final = 3
_PT_NOTE: Final = 4
_SHT_NOTE: Final = 7
_KERNEL_NOTES: Final = "/sys/kernel/notes"
_MAX_NOTES: Final = 1 << 20
_MAX_TABLE: Final = 1 << 22


def of_file(path: str) -> bytes:
    """Return the build-id of an ELF file; b"" if it has none or cannot be read."""
    try:
        fd = regular_fd(path)
    except (OSError, ValueError):  # ValueError: a name with a NUL
        return b""
    try:
        return of_fd(fd)
    finally:
        os.close(fd)


def of_fd(fd: int) -> bytes:
    """Return the build-id of an open ELF file."""
    try:
        return _from_elf(lambda size, offset: os.pread(fd, size, offset))
    except (OSError, struct.error, OverflowError):
        return b""


def of_image(data: bytes) -> bytes:
    """Return the build-id of an ELF file in memory."""
    try:
        return _from_elf(lambda size, offset: data[offset : offset + size])
    except struct.error:
        return b""


def of_kernel(path: str = _KERNEL_NOTES) -> bytes:
    """Return the running kernel's build-id."""
    return _notes_of(path)


def of_module(name: str, root: str = "/sys/module") -> bytes:
    """Return the build-id of a loaded module."""
    try:
        return _notes_of(files.module_notes(name, root))
    except files.UnsafeNameError:  # module names may come from a recording
        return b""


def _notes_of(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return from_notes(file.read(_MAX_NOTES), "=")
    except OSError:
        return b""


def vdso_image(maps: str = "/proc/self/maps", memory: str = "/proc/self/mem") -> bytes:
    """Return the vdso mapped in this process. All processes of one word size share it."""
    try:
        with open(maps) as file:
            line = next((line for line in file if line.endswith("[vdso]\n")), "")
        if not line:
            return b""
        start, end = (int(number, 16) for number in line.split(None, 1)[0].split("-"))
        fd = os.open(memory, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.pread(fd, end - start, start)
        finally:
            os.close(fd)
    except (OSError, ValueError):
        return b""


def _from_elf(read: Callable[[int, int], bytes]) -> bytes:
    """Search the note segments, then (for files without segments) the note sections."""
    head = read(64, 0)
    if head[:4] != _MAGIC or len(head) < 52:
        return b""
    wide = head[4] == 2
    endian = "<" if head[5] == 1 else ">"
    remaining = _MAX_NOTES  # bytes for all segments and sections together: a file may refer to the same notes thousands of times
    if wide:
        phoff, shoff = struct.unpack_from(endian + "QQ", head, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from(endian + "HHHH", head, 54)
    else:
        phoff, shoff = struct.unpack_from(endian + "II", head, 28)
        phentsize, phnum, shentsize, shnum = struct.unpack_from(endian + "HHHH", head, 42)
    for table, size, count, kind, kind_at, offset_position in (
        (phoff, phentsize, phnum, _PT_NOTE, 0, ("Q", 8, 32) if wide else ("I", 4, 16)),
        (shoff, shentsize, shnum, _SHT_NOTE, 4, ("Q", 24, 32) if wide else ("I", 16, 20)),
    ):
        entries = read(min(size * count, _MAX_TABLE), table) if table else b""
        for position in range(0, len(entries) - size + 1 if size else 0, size or 1):
            if struct.unpack_from(endian + "I", entries, position + kind_at)[0] != kind:
                continue
            code, offset_at, size_at = offset_position
            (offset,) = struct.unpack_from(endian + code, entries, position + offset_at)
            (length,) = struct.unpack_from(endian + code, entries, position + size_at)
            notes = read(min(length, remaining), offset)
            remaining -= len(notes)
            build_id = from_notes(notes, endian)
            if build_id:
                return build_id
    return b""


def from_notes(notes: bytes, endian: str = "=") -> bytes:
    """Return the build-id in the content of a note section."""
    offset = 0
    while offset + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from(endian + "III", notes, offset)
        name_at = offset + 12
        data_at = name_at + (name_size + 3 & ~3)
        offset = data_at + (size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[name_at : name_at + name_size] == _GNU:
            return notes[data_at : data_at + size]
    return b""
