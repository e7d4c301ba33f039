"""Build-ids of the recorded files: the table for perf.data, and the files' copies in the BuildIdCache of perfpy.symbols."""

from __future__ import annotations

import os
import struct
import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import MISC_KERNEL, MISC_MMAP_BUILD_ID, MISC_USER, RecordType
from perfpy.abi.perf_records.build_id_record import MISC_BUILD_ID_SIZE, HeaderBuildId
from perfpy.abi.startup import NamedTuple
from perfpy.capture.dso_hits import BUILD_ID_AT, HEADER, IDENTITY, NAME_AT
from perfpy.capture.metadata.synthesis import KERNEL
from perfpy.symbols.caches.build_id_cache import BuildIdCache
from perfpy.symbols.files import build_id_notes, live_process
from perfpy.untrusted.identified_file import open_identified
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import ExitStack

    from perfpy.capture.dso_hits import HitDso

_VDSO: Final = "[vdso]"
_PID: Final = -1  # the host
_SHOWN: Final = 3
_MOST_OPEN: Final = 256  # files that are not at their recorded path


def own_build_id(name: str) -> bytes:
    """Return the build-id of a mapping's name: a file, the kernel, a module, the vdso; b"" if there is none."""
    if name == _VDSO:
        return build_id_notes.of_image(build_id_notes.vdso_image())
    if name.startswith(KERNEL):
        return build_id_notes.of_kernel()
    if name.startswith("["):
        return build_id_notes.of_module(name.strip("[]"))
    return build_id_notes.of_file(name) if name.startswith("/") and not name.startswith("//") else b""


class BuildIdTable(NamedTuple):
    """The recorded files with a build-id.

    Attributes:
        entries: the build-id table of perf.data, one entry for each name.
        others: the build-ids that are in the records of mappings instead: of files in containers that have the name of an entry, and of
            files that share their name with one whose build-id is unknown, because that would get the build-id of the entry.
        elsewhere: build-id -> path, of files that are not at their recorded path.
        replaced: the paths of files that are gone and have another file at their path.
    """

    entries: tuple[HeaderBuildId, ...]
    others: dict[HitDso, HeaderBuildId]
    elsewhere: dict[bytes, str]
    replaced: tuple[str, ...]

    @property
    def other_build_ids(self) -> dict[tuple[bytes, tuple[int, ...]], bytes]:
        """The build-ids of `others`, by name and identity, as the records have it."""
        build_ids: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        for dso, entry in self.others.items():
            if dso.identity:
                build_ids[os.fsencode(dso.name), dso.identity] = entry.build_id
                if dso.synthesized:
                    build_ids[os.fsencode(dso.name), (*dso.identity[:3], 0)] = entry.build_id
        return build_ids


def paths(dsos: Iterable[HitDso], opened: ExitStack) -> dict[HitDso, str]:
    """Return the actual paths of files that are not at their recorded path; "" for files that are gone.

    These are deleted files, and those in containers and below chroot.

    Args:
        dsos: the files.
        opened: keeps files open whose process may have ended. Their paths are valid until it is closed.
    """
    moved: dict[HitDso, str] = {}
    for dso in dsos:
        if dso.is_kernel or not dso.name.startswith("/") or dso.name.startswith("//"):
            continue
        if dso.identity and not dso.build_id:
            opened_file = open_identified(dso.name, dso.identity, (dso.pid,)) if len(moved) < _MOST_OPEN else None
            if opened_file is not None and opened_file[1] == dso.name:
                os.close(opened_file[0])
                continue
            if opened_file is not None:
                opened.callback(os.close, opened_file[0])
            moved[dso] = f"/proc/self/fd/{opened_file[0]}" if opened_file is not None else ""
        elif not os.path.exists(dso.name) or live_process.other_root(dso.pid):
            path = next(live_process.paths_of(dso.name, (dso.pid,)), "")
            if path:
                moved[dso] = path
    return moved


def table(dsos: Iterable[HitDso], moved: Mapping[HitDso, str] | None = None) -> BuildIdTable:
    """Return the files with a build-id. moved is the result of `paths`."""
    moved = moved or {}
    first: dict[str, HeaderBuildId] = {}
    owners: dict[str, HitDso] = {}
    others: dict[HitDso, HeaderBuildId] = {}
    elsewhere: dict[bytes, str] = {}
    unknown: set[str] = set()
    for dso in sorted(dsos, key=lambda dso: dso in moved):  # of files with one name, the host's is in the table
        build_id = dso.build_id or own_build_id(moved.get(dso, dso.name))
        if not build_id:
            unknown.add(dso.name)
            continue
        misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.is_kernel else MISC_USER)
        entry = HeaderBuildId(misc, _PID, build_id, dso.name)
        owners.setdefault(dso.name, dso)
        if first.setdefault(dso.name, entry).build_id != build_id and not dso.build_id:
            others[dso] = entry
        if path := moved.get(dso):
            elsewhere[build_id] = path
    for name in unknown & first.keys():
        entry, dso = first.pop(name), owners[name]
        if not dso.build_id:
            others[dso] = entry
    replaced = (dso.name for dso, path in moved.items() if not path and os.path.exists(dso.name))
    return BuildIdTable(tuple(first.values()), others, elsewhere, tuple(dict.fromkeys(replaced)))


def replaced_line(paths: Sequence[str]) -> str:
    """Return the warning about files that were replaced while they were recorded."""
    names = ", ".join(one_line(path) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return (
        f"warning: replaced while recorded: {names}{more}; functions of the files that ran have no names"
        " (--buildid-mmap records the build-ids of the files that run)"
    )


def keep(files: BuildIdTable, folder: str) -> None:
    """Add the files to the cache in a folder ("": perf's default). Print a warning for each file that is not safe to add."""
    for refused in BuildIdCache(folder).add((*files.entries, *files.others.values()), files.elsewhere):
        print(f"Warning: {refused}", file=sys.stderr)


def build_ids_in_mappings(data: memoryview, build_ids: Mapping[tuple[bytes, tuple[int, ...]], bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, bytes) to write into the records of some files' mappings, so that they have build-ids.

    Args:
        data: whole records.
        build_ids: the files' build-ids, by name and identity.
    """
    offset = 0
    while offset + HEADER.size <= len(data):
        kind, misc, size = HEADER.unpack_from(data, offset)
        if size < HEADER.size:
            break
        if kind == RecordType.MMAP2 and not misc & MISC_MMAP_BUILD_ID:
            record = bytes(data[offset : offset + size])
            name = record[NAME_AT[kind] :].partition(b"\0")[0]
            if build_id := build_ids.get((name, IDENTITY.unpack_from(record, BUILD_ID_AT))):
                yield offset, HEADER.pack(kind, misc | MISC_MMAP_BUILD_ID, size)
                yield offset + BUILD_ID_AT, struct.pack("=B3x20s", len(build_id), build_id)
        elif kind == RecordType.AUXTRACE:
            size += int.from_bytes(data[offset + 8 : offset + 16], sys.byteorder)
        offset += size
