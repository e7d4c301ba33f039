"""Pack files of a build-id cache into an archive as `perf archive` does, and unpack untrusted archives.

An archive is a tar compressed by bzip2, in the cache's layout. Each file is unpacked only under its own build-id. Links are not followed;
the index is rebuilt.
"""

from __future__ import annotations

import os
import tarfile
from typing import TYPE_CHECKING, BinaryIO, Final

from perfpy.untrusted import expansion, paths, tar_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.symbols.caches.build_id_cache import BuildIdCache

#: kinds of files that the cache keeps per build-id
KINDS: Final = ("elf", "debug", "vdso", "kallsyms", "probes")


def pack(cache: BuildIdCache, build_ids: Iterable[str], out: BinaryIO) -> int:
    """Write the cached files of these build-ids to an archive; return the number of builds."""
    root = os.path.realpath(cache.folder)
    count = 0
    with tarfile.open(fileobj=out, mode="w:bz2") as archive:
        for build_id in build_ids:
            link = paths.build_id_path(root, build_id)
            home = os.path.relpath(os.path.realpath(link), root)
            if not os.path.isdir(link) or home.startswith(".."):
                continue
            index = tarfile.TarInfo(os.path.relpath(link, root))
            index.type, index.linkname = tarfile.SYMTYPE, f"../../{home}"
            archive.addfile(index)
            for kind in KINDS:
                path = f"{root}/{home}/{kind}"
                if os.path.isfile(path):
                    archive.add(path, f"{home}/{kind}", recursive=False)
            count += 1
    return count


def unpack(cache: BuildIdCache, file: BinaryIO) -> tuple[int, list[str]]:
    """Add the files of an archive to the cache; return their number and the names of rejected files.

    Raises tarfile.TarError, ExpansionError, OSError and its subclass ForeignFolderError.
    """
    count, refused = 0, []
    if not os.fstat(file.fileno()).st_size:
        raise tarfile.ReadError("empty file")
    limit = expansion.stream_allowance(os.fstat(file.fileno()).st_size)
    for member in tar_stream.read_members(expansion.expand_stream(file, limit)):
        if member.size > limit:
            raise tarfile.ReadError(f"a file of {member.size} bytes; files in an archive of this size have at most {limit}")
        try:
            _keep(cache, member)
            count += 1
        except (paths.UnsafeNameError, FileNotFoundError):
            refused.append(member.name)
    return count, refused


def _keep(cache: BuildIdCache, member: tar_stream.TarMember) -> None:
    """Add one file to the cache. Raises UnsafeNameError unless its name has the form PATH/BUILD-ID/KIND."""
    above, build_id, kind = ["", "", "", *member.name.removeprefix("./").rsplit("/", 2)][-3:]
    if kind not in KINDS:
        raise paths.UnsafeNameError(member.name, "it is none of " + ", ".join(KINDS))
    name = above if above.startswith("[") else f"/{above}"
    cache.put(name, paths.build_id_hex(build_id), kind, member.pieces)
