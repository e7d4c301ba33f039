"""`perfpy archive`: pack the files that a recording needs, to read it on another machine, or unpack them.

The archive, RECORDING.tar.bz2, has the build-id cache's copies of the files that samples and callchains hit. Files that the cache
lacks are added to it first if they still exist.
"""

from __future__ import annotations

import os
import sys
import tarfile
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

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
    from collections.abc import Iterable, Iterator

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
    for member in read_members(expansion.expand_stream(file, limit)):
        if member.size > limit:
            raise tarfile.ReadError(f"a file of {member.size} bytes; files in an archive of this size have at most {limit}")
        try:
            _keep(cache, member)
            count += 1
        except (paths.UnsafeNameError, FileNotFoundError):
            refused.append(member.name)
    return count, refused


def _keep(cache: BuildIdCache, member: TarMember) -> None:
    """Add one file to the cache. Raises UnsafeNameError unless its name has the form PATH/BUILD-ID/KIND."""
    above, build_id, kind = ["", "", "", *member.name.removeprefix("./").rsplit("/", 2)][-3:]
    if kind not in KINDS:
        raise paths.UnsafeNameError(member.name, "it is none of " + ", ".join(KINDS))
    name = above if above.startswith("[") else f"/{above}"
    cache.put(name, paths.build_id_hex(build_id), kind, member.pieces)


# Read the files of an untrusted tar archive in one pass. Yields a TarMember with its content in pieces for each regular file. Raises
# TarError for a damaged archive. Extended headers and the number of members are limited; Python's tarfile reads headers of any size into
# memory. Format: POSIX.1-2017, pax.

_BLOCK: Final = tarfile.BLOCKSIZE
_LARGEST_HEADER: Final = 1 << 16  # of an extended header: a path has 4 KB
_MOST_MEMBERS: Final = 1 << 16
_MEMBER_PIECE: Final = 1 << 20
_GLOBAL_HEADER: Final = b"g"


class TarMember(NamedTuple):
    """A regular file of an archive. pieces: its content, `size` bytes; unread pieces are skipped."""

    name: str
    size: int
    pieces: Iterator[bytes]


def read_members(pieces: Iterator[bytes]) -> Iterator[TarMember]:
    """Yield the regular files of an archive in order. Raises tarfile.TarError."""
    stream = _Stream(pieces)
    name = size = None
    for _ in range(_MOST_MEMBERS):
        header = stream.take(_BLOCK)
        if not any(header):
            return  # the end mark of tar
        member = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        if member.size < 0:
            raise tarfile.ReadError(f"a member of {member.size} bytes")
        if member.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE, _GLOBAL_HEADER, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            if member.size > _LARGEST_HEADER:
                raise tarfile.ReadError(f"an extended header of {member.size} bytes")
            body = stream.take(member.size)
            stream.skip(-member.size % _BLOCK)
            if member.type == tarfile.GNUTYPE_LONGNAME:
                name = body.rstrip(b"\0").decode("utf-8", "surrogateescape")
            elif member.type in (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE):
                fields = _pax_fields(body)
                name, size = fields.get("path", name), _decimal(fields["size"]) if "size" in fields else size
            continue
        if member.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a sparse file")
        has_content = member.isreg() or member.type not in tarfile.SUPPORTED_TYPES
        length = (member.size if size is None else size) if has_content else 0
        content = stream.pieces(length)
        if member.isreg():
            yield TarMember(member.name if name is None else name, length, content)
        for _piece in content:
            pass
        stream.skip(-length % _BLOCK)
        name = size = None
    raise tarfile.ReadError(f"more than {_MOST_MEMBERS} members")


def _pax_fields(body: bytes) -> dict[str, str]:
    """Return the fields of an extended header: lines "LENGTH KEYWORD=VALUE"."""
    fields: dict[str, str] = {}
    start = 0
    while start < len(body) and body[start]:
        digits, _, _ = body[start : start + 8].partition(b" ")
        length = _decimal(digits.decode("latin-1"))
        keyword, equals, value = body[start + len(digits) + 1 : start + length - 1].partition(b"=")
        if not equals or start + length > len(body):
            raise tarfile.ReadError("a damaged extended header")
        fields[keyword.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        start += length
    return fields


def _decimal(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise tarfile.ReadError("a damaged extended header")
    return int(text)


class _Stream:
    """Bytes from pieces. Raises tarfile.ReadError at the end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def take(self, size: int) -> bytes:
        """Return the next few bytes."""
        return b"".join(self.pieces(size))

    def skip(self, size: int) -> None:
        """Skip bytes."""
        for _ in self.pieces(size):
            pass

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next bytes in pieces."""
        while size:
            if not self._rest:
                piece = next(self._pieces, None)
                if piece is None:
                    raise tarfile.ReadError("the archive ends too early")
                self._rest = memoryview(piece)
            part = self._rest[: min(size, _MEMBER_PIECE)]
            self._rest = self._rest[len(part) :]
            size -= len(part)
            if part:
                yield bytes(part)
