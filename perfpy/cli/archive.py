"""`perfpy archive`: pack the files that a recording needs, to read it on another machine, or unpack them.

The archive, RECORDING.tar.bz2, has the build-id cache's copies of the files that samples and callchains hit. Files that the cache
lacks are added to it first if they still exist.
"""

from __future__ import annotations

import os
import sys
import tarfile
from typing import TYPE_CHECKING, BinaryIO, Final

from perfpy.abi.flags import MISC_KERNEL, MISC_USER
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, Value, fail, option, words
from perfpy.cli.line.perfconfig import load_config
from perfpy.errors import BadPerfDataError, PerfError, plural
from perfpy.untrusted import expansion
from perfpy.untrusted import files as paths
from perfpy.untrusted.expansion import ExpansionError
from perfpy.untrusted.files import open_regular
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.abi.framing import HeaderBuildId
    from perfpy.recording import Recording
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.build_ids import BuildIdCache


_SUFFIX = ".tar.bz2"
_MODE = 0o600  # as of recordings: an archive has kernel addresses, and programs that others may not be able to read
_MOST_WARNINGS = 20
_SAID = "Now please run:\n\n$ perf archive --unpack\n\nor unpack the tar manually wherever you need to run 'perf report' on."


_LACKING = {"--all": "copy the recording along with the archive, or use record --self-contained"}


class ArchiveCommandOptions(CommandOptions, lacks=_LACKING):
    """Options of `perfpy archive`."""

    input: str = option("-i,--input", Value(default=""), "input file (default: perf.data); with --unpack: the archive", metavar="<file>")

    unpack: bool = option("--unpack", Flag(), "unpack an archive into the build-id cache")
    force: bool = option("-f,--force", Flag(), "skip the file ownership check")
    files: tuple[str, ...] = words("[<file>]")


def run(options: ArchiveCommandOptions) -> int:
    """Pack the files that a recording needs (default: perf.data) into FILE.tar.bz2; with --unpack add them to the build-id cache."""
    from perfpy.symbols.files.build_ids import BuildIdCache

    names = [name for name in (options.input, *options.files) if name]
    if len(names) > 1:
        fail("archive takes one file")
    name = names[0] if names else ""
    cache = BuildIdCache(load_config().build_id_folder)
    return _unpack(name or _only_archive(), cache) if options.unpack else _pack(name, cache, options)


def _pack(name: str, cache: BuildIdCache, options: ArchiveCommandOptions) -> int:
    from perfpy.cli.output.output_files import whole_file

    with open_recording(name, force=options.force) as recording:
        target = recording.path + _SUFFIX
        entries = _entries(recording)
        for line in cache.add(entries):
            print(one_line(f"Warning: {line}"), file=sys.stderr)
        with whole_file(target, _MODE) as out:
            pack(cache, dict.fromkeys(entry.build_id.hex() for entry in entries), out)
    from perfpy.cli.line.examples import use_program_name

    print(use_program_name(_SAID.replace("perf ", "perfpy ")))
    return 0


def _entries(recording: Recording) -> list[HeaderBuildId]:
    """Return the hit files as entries of a build-id table."""
    from perfpy.abi.framing import MISC_BUILD_ID_SIZE, HeaderBuildId
    from perfpy.analysis.locations import hit_dsos

    entries = []
    for dso in hit_dsos(recording.data, recording.symbolizer(), chains=True):
        build_id = build_id_here(dso, recording.data.ended_here)
        if build_id:
            misc = MISC_BUILD_ID_SIZE | (MISC_KERNEL if dso.kernel else MISC_USER)
            entries.append(HeaderBuildId(misc, -1, build_id, dso.name))
    return entries


def build_id_here(dso: Dso, ended: float) -> bytes:
    """Return the build-id of a file from the recording, else from this machine: b"" if the file that ran is gone.

    ended: when this machine ended the recording, in seconds since 1970; 0 if it is another one's.
    """
    if dso.identity and not dso.build_id:
        from perfpy.symbols.files import debug_files

        return debug_files.own_build_id(dso, ended)
    from perfpy.capture.dso_hits import own_build_id

    return bytes.fromhex(dso.build_id) or own_build_id(dso.name)


def _only_archive() -> str:
    """Return the only archive in this folder. Raises PerfError if there is not exactly one."""
    names = sorted(name for name in os.listdir(".") if name.startswith("perf") and name.endswith(_SUFFIX))
    if len(names) != 1:
        raise PerfError(f"{', '.join(names) or 'no archive'} in this directory; name the archive to unpack")
    return names[0]


def _unpack(name: str, cache: BuildIdCache) -> int:
    from perfpy.untrusted.destinations import ForeignFolderError

    try:
        with open_regular(name) as file:
            count, refused = unpack(cache, file)
    except ForeignFolderError:
        raise
    except (tarfile.TarError, ExpansionError) as error:
        raise BadPerfDataError(name, str(error) or "truncated archive", remedy="create it again with perfpy archive perf.data") from None
    for note in refused[:_MOST_WARNINGS]:
        print(one_line(f"Warning: {name}: {note}: skipped"), file=sys.stderr)
    if len(refused) > _MOST_WARNINGS:
        print(one_line(f"Warning: {name}: {len(refused) - _MOST_WARNINGS} more files: skipped"), file=sys.stderr)
    print(f"unpacked {count} {plural(count, 'file')} into {cache.folder}")
    return 0


command = PerfCommand(ArchiveCommandOptions, run)


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

    Each file is unpacked only under its own build-id. Links are not followed; the index is rebuilt.

    Raises tarfile.TarError, ExpansionError, OSError and its subclass ForeignFolderError.
    """
    count, refused = 0, []
    if not os.fstat(file.fileno()).st_size:
        raise tarfile.ReadError("empty file")
    limit = expansion.stream_allowance(os.fstat(file.fileno()).st_size)
    for member in expansion.read_members(expansion.expand_stream(file, limit)):
        if member.size > limit:
            raise tarfile.ReadError(f"a file of {member.size} bytes; files in an archive of this size have at most {limit}")
        try:
            _keep(cache, member)
            count += 1
        except (paths.UnsafeNameError, FileNotFoundError):
            refused.append(member.name)
    return count, refused


def _keep(cache: BuildIdCache, member: expansion.TarMember) -> None:
    """Add one file to the cache. Raises UnsafeNameError unless its name has the form PATH/BUILD-ID/KIND."""
    above, build_id, kind = ["", "", "", *member.name.removeprefix("./").rsplit("/", 2)][-3:]
    if kind not in KINDS:
        raise paths.UnsafeNameError(member.name, "it is none of " + ", ".join(KINDS))
    name = above if above.startswith("[") else f"/{above}"
    cache.put(name, paths.build_id_hex(build_id), kind, member.pieces)
