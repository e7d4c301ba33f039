"""Build-ids of the recorded files: the table in perf.data, and the cache that keeps the files themselves.

What enters: DSOs. What leaves: HeaderBuildId values for the BUILD_ID feature,
and below the cache's folder, as perf lays it out (perf-buildid-cache(1)):

    PATH/BUILDID/elf (kallsyms, vdso)      the file, a hard link where possible
    .build-id/xx/yyyy -> ../../PATH/BUILDID
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.abi.user_records import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.capture.synthesis import KERNEL
from perfpy.symbols import buildid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.capture.dso_hits import Dso

_VDSO: Final = "[vdso]"
_PID: Final = -1  # the host
_DEBUG_FILES: Final = "/usr/lib/debug/.build-id"
_COPY_SIZE: Final = 1 << 20


def own_build_id(name: str) -> bytes:
    """The build-id of what a map is called: a file, the kernel, one of its modules, the vdso; b"" where there is none."""
    if name == _VDSO:
        return buildid.of_image(buildid.vdso_image())
    if name.startswith(KERNEL):
        return buildid.of_kernel()
    if name.startswith("["):
        return buildid.of_module(name.strip("[]"))
    return buildid.of_file(name) if name.startswith("/") and not name.startswith("//") else b""


def table(dsos: Iterable[Dso]) -> tuple[HeaderBuildId, ...]:
    """The entries for the files that have a build-id."""
    found = []
    for dso in dsos:
        build_id = dso.build_id or own_build_id(dso.name)
        if build_id:
            misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.is_kernel else MISC_USER)
            found.append(HeaderBuildId(misc, _PID, build_id, dso.name))
    return tuple(found)


class BuildIdCache:
    """The cache below `folder` ("" = ~/.debug). Nothing here fails: what cannot be kept is not kept."""

    def __init__(self, folder: str = "") -> None:
        self._folder = folder or os.path.expanduser("~/.debug")

    def add(self, entries: Iterable[HeaderBuildId]) -> None:
        """Keep the files of a recording's build-id table."""
        for entry in entries:
            with contextlib.suppress(OSError):
                self._add(entry.filename, entry.build_id.hex())

    def _add(self, name: str, build_id: str) -> None:
        home = f"{self._folder}/{name.lstrip('/')}/{build_id}"
        index = f"{self._folder}/.build-id/{build_id[:2]}/{build_id[2:]}"
        if os.path.exists(index):
            return
        os.makedirs(home, 0o755, exist_ok=True)
        if name == KERNEL:
            _copy("/proc/kallsyms", f"{home}/kallsyms")
        elif name == _VDSO:
            _write(f"{home}/vdso", buildid.vdso_image())
        else:
            _link(os.path.realpath(name), f"{home}/elf")
            debug = f"{_DEBUG_FILES}/{build_id[:2]}/{build_id[2:]}.debug"
            if os.path.exists(debug):
                _link(os.path.realpath(debug), f"{home}/debug")
        os.makedirs(os.path.dirname(index), 0o755, exist_ok=True)
        os.symlink(os.path.relpath(home, os.path.dirname(index)), index)


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
