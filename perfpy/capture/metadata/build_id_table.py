"""Build-ids of the recorded files: the table for perf.data, and the files' copies in the BuildIdCache of perfpy.symbols."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.abi.perf_records.build_id_record import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.capture.metadata.synthesis import KERNEL
from perfpy.symbols.caches.build_id_cache import BuildIdCache
from perfpy.symbols.files import build_id_notes, live_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from perfpy.capture.dso_hits import HitDso

_VDSO: Final = "[vdso]"
_PID: Final = -1  # the host


def own_build_id(name: str) -> bytes:
    """Return the build-id of a mapping's name: a file, the kernel, a module, the vdso; b"" if there is none."""
    if name == _VDSO:
        return build_id_notes.of_image(build_id_notes.vdso_image())
    if name.startswith(KERNEL):
        return build_id_notes.of_kernel()
    if name.startswith("["):
        return build_id_notes.of_module(name.strip("[]"))
    return build_id_notes.of_file(name) if name.startswith("/") and not name.startswith("//") else b""


def paths(dsos: Iterable[HitDso]) -> dict[str, str]:
    """Return the paths of files that are not at their recorded path: deleted ones, and those of containers, while their processes run."""
    moved = {}
    for dso in dsos:
        is_file = dso.name.startswith("/") and not dso.name.startswith("//") and not dso.is_kernel
        if is_file and (not os.path.exists(dso.name) or live_process.other_root(dso.pid)):
            path = next(live_process.paths_of(dso.name, (dso.pid,)), "")
            if path:
                moved[dso.name] = path
    return moved


def table(dsos: Iterable[HitDso], elsewhere: Mapping[str, str] | None = None) -> tuple[HeaderBuildId, ...]:
    """Return the entries for the files with a build-id. elsewhere is the result of `paths`."""
    elsewhere = elsewhere or {}
    entries = []
    for dso in dsos:
        build_id = dso.build_id or own_build_id(elsewhere.get(dso.name, dso.name))
        if build_id:
            misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.is_kernel else MISC_USER)
            entries.append(HeaderBuildId(misc, _PID, build_id, dso.name))
    return tuple(entries)


def keep(entries: Iterable[HeaderBuildId], elsewhere: Mapping[str, str], folder: str) -> None:
    """Add the files of a table to the cache in a folder ("": perf's default), and print those that were not safe to add."""
    for refused in BuildIdCache(folder).add(entries, elsewhere):
        print(f"Warning: {refused}", file=sys.stderr)
