"""perf's build-id cache: the files that recordings need, kept by build-id.

What enters: files, or the build-id table of a recording. What leaves, below the
cache's folder, is laid out as perf does (perf-buildid-cache(1)):

    PATH/BUILDID/elf (kallsyms, vdso, debug)   the file, a hard link where possible
    .build-id/xx/yyyy -> ../../PATH/BUILDID
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from perfpy.symbols import buildid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfpy.abi.build_ids import HeaderBuildId

_KERNEL: Final = "[kernel.kallsyms]"
_VDSO: Final = "[vdso]"
_INDEX: Final = ".build-id"
_DEBUG_FILES: Final = "/usr/lib/debug/.build-id"
_COPY_SIZE: Final = 1 << 20


def default_folder() -> str:
    """Where perf keeps the cache."""
    return os.path.expanduser("~/.debug")


class BuildIdCache:
    """The cache below `folder` ("" = perf's default)."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder or default_folder()

    def add(self, entries: Iterable[HeaderBuildId], elsewhere: Mapping[str, str] | None = None) -> None:
        """Keep the files of a recording's build-id table. Nothing fails: what cannot be kept is not kept.

        elsewhere: where files are that are not at their path.
        """
        for entry in entries:
            with contextlib.suppress(OSError):
                self.keep(entry.filename, entry.build_id.hex(), (elsewhere or {}).get(entry.filename, ""))

    def keep(self, name: str, build_id: str, place: str = "") -> None:
        """Keep one file, if it is not there yet. place: where it can be read, if not by its name. Raises OSError."""
        home, index = self._home(name, build_id), self._index(build_id)
        if os.path.exists(index):
            return
        os.makedirs(home, 0o755, exist_ok=True)
        if name == _KERNEL:
            _copy("/proc/kallsyms", f"{home}/kallsyms")
        elif name == _VDSO:
            _write(f"{home}/vdso", buildid.vdso_image())
        else:
            _link(place or os.path.realpath(name), f"{home}/elf")
            debug = f"{_DEBUG_FILES}/{build_id[:2]}/{build_id[2:]}.debug"
            if os.path.exists(debug):
                _link(os.path.realpath(debug), f"{home}/debug")
        os.makedirs(os.path.dirname(index), 0o755, exist_ok=True)
        if os.path.islink(index):  # to nowhere
            os.unlink(index)
        os.symlink(os.path.relpath(home, os.path.dirname(index)), index)

    def entries(self) -> list[tuple[str, str]]:
        """(build-id, recorded path) of everything kept, by build-id."""
        root = os.path.realpath(self.folder)
        found = []
        for prefix in _listed(f"{self.folder}/{_INDEX}"):
            for rest in _listed(f"{self.folder}/{_INDEX}/{prefix}"):
                home = os.path.realpath(f"{self.folder}/{_INDEX}/{prefix}/{rest}")
                if os.path.isdir(home) and home.startswith(root + "/"):
                    path = os.path.dirname(home)[len(root) :]
                    found.append((prefix + rest, path[1:] if path.startswith("/[") else path))
        return found

    def valid_entries(self) -> list[tuple[str, str]]:
        """The entries whose path still has that build: what perf lists. (The others serve old recordings.)"""
        return [(build_id, name) for build_id, name in self.entries() if _build_id_now(name) == build_id]

    def holds(self, build_id: str) -> bool:
        """Whether a build is kept."""
        return os.path.exists(self._index(build_id))

    def remove(self, build_id: str) -> bool:
        """Forget one build; whether it was there."""
        import shutil  # only here, and most who import this only read

        index = self._index(build_id)
        if not os.path.islink(index):
            return False
        home = os.path.realpath(index)
        os.unlink(index)
        if home.startswith(os.path.realpath(self.folder) + "/"):
            shutil.rmtree(home, ignore_errors=True)
        return True

    def _home(self, name: str, build_id: str) -> str:
        return f"{self.folder}/{name.lstrip('/')}/{build_id}"

    def _index(self, build_id: str) -> str:
        return f"{self.folder}/{_INDEX}/{build_id[:2]}/{build_id[2:]}"


def _build_id_now(name: str) -> str:
    if name == _KERNEL:
        return buildid.of_kernel().hex()
    return buildid.of_file(name).hex() if name.startswith("/") else ""


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _link(source: str, target: str) -> None:
    """A hard link, or a copy where the file is on another file system."""
    try:
        os.link(source, target)
    except FileExistsError:
        pass
    except OSError:
        _copy(source, target)


def _copy(source: str, target: str) -> None:
    with open(source, "rb") as file:
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, os.fstat(file.fileno()).st_mode & 0o755 | 0o600)
        try:
            while piece := file.read(_COPY_SIZE):
                os.write(fd, piece)
        finally:
            os.close(fd)


def _write(target: str, data: bytes) -> None:
    with open(target, "wb") as file:
        file.write(data)
