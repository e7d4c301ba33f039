"""The file or files of a recording: rotation of the old one, compression, the final names.

An existing perf.data becomes perf.data.old; with --switch-output the files are perf.data.TIMESTAMP. "-" is standard output.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.capture.record_options import STANDARD_OUTPUT
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.writer import FINISHED_ROUND, FileWriter, PipeWriter
from perfpy.untrusted.destinations import FileDestination, create_named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfpy.capture.output.attention import Answers
    from perfpy.perfdata.container.compression import Packer
    from perfpy.perfdata.container.writer import RecordWriter, Slice, WrittenEvent


class RoundStarts:
    """Offsets of some rounds in a file; their number stays bounded however long the recording is."""

    def __init__(self, most: int = 128) -> None:
        self.offsets: list[int] = []
        self._most = most
        self._every = 1
        self._skipped = 0

    def add(self, offset: int) -> None:
        """Add a round."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.offsets.append(offset)
        if len(self.offsets) > self._most:
            del self.offsets[::2]
            self._every *= 2


_STDOUT_FD: Final = 1
_IN_FOLDER: Final = ("data", "kcore_dir")  # files of a folder recording, besides data.N


class OutputPart(NamedTuple):
    """A range of whole records in a file, from `begin` to `end`. starts are offsets of some rounds."""

    fd: int
    begin: int
    end: int
    starts: list[int]


class RecordOutput:
    """The destination of a recording. Open it before anything is measured, so that a bad path fails early. Raises OutputFailedError.

    packer compresses the records of the ring buffers.

    Attributes:
        others: the processes that help to write it.
        answers: the data from them.
        hits: the files that samples hit, if these processes have found them.
    """

    others: tuple[int, ...] = ()
    answers: Answers | None = None
    hits: bytes = b""

    def __init__(self, path: str, packer: Packer | None = None) -> None:
        self.path = path
        self.is_pipe = path == STANDARD_OUTPUT
        self._packer = packer
        self._old = ""
        self.destination: FileDestination | None = None  # of the path, in an open folder
        self.images: dict[str, bytes] = {}  # images of functions by file name, at the end
        self.writer = self._open()
        self.rounds = 0
        self.round_starts = RoundStarts()

    def names(self) -> dict[int, bytes]:
        """Return lines of perf maps by pid, from the processes that help to write it."""
        return {}

    def _open(self) -> RecordWriter:
        if self.is_pipe:
            return PipeWriter(_STDOUT_FD)
        self._old, fd = new_recording(self.find_destination())
        return FileWriter(self.path, fd)

    def find_destination(self) -> FileDestination:
        """Return the destination of the path; its folder is opened once, as others may exchange it. Raises OutputFailedError."""
        if self.destination is None:
            self.destination = find_destination(self.path)
        return self.destination

    @property
    def size(self) -> int:
        """Bytes written to the current file."""
        return self.writer.size

    @property
    def bytes_read(self) -> int:
        """Bytes read from the ring buffers: here as many as were written."""
        return self.writer.size

    def begin(self, events: Sequence[WrittenEvent], features: Mapping[int, bytes]) -> None:
        """Write the header of the current file."""
        self.writer.begin(events, features)

    def write(self, *slices: Slice) -> None:
        """Append records unchanged."""
        self.writer.write(*slices)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer."""
        if self._packer:
            self.writer.write(*self._packer.pack(*slices))
        else:
            self.writer.write(*slices)

    def parts(self) -> Iterator[OutputPart]:
        """Yield the ranges of records, if they can be read again."""
        if isinstance(self.writer, FileWriter):
            yield OutputPart(self.writer.fd, self.writer.data.offset, self.writer.size, self.round_starts.offsets)

    def start(self, signal_fd: int = -1) -> None:
        """Called after everything before the samples is written. signal_fd becomes readable with a signal."""

    def complete(self, signal_fd: int, hurried: Callable[[], bool]) -> None:
        """Write records still held after the last ones. signal_fd becomes readable with a signal; hurried returns whether not to wait."""

    def end_round(self) -> None:
        """Mark the end of a round, after all ring buffers were read: records before the previous mark can be sorted."""
        self.rounds += 1
        self.writer.write(FINISHED_ROUND)
        self.writer.mark()
        self.round_starts.add(self.writer.size)

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the current file and close it."""
        try:
            self.writer.finish(features)
        finally:
            self.writer.close()

    def stamp(self) -> str:
        """Rename the finished file to a name with the time; return that name."""
        now = time.time()
        destination = self.find_destination()
        while destination.has(name := _name_with_time(destination.name, now)):  # no existing file is replaced
            now += 0.01
        destination.rename_entry(destination.name, name)
        return self.path + name.removeprefix(destination.name)

    def remove(self, path: str) -> None:
        """Remove a finished file that stamp() named."""
        with contextlib.suppress(OSError):
            self.find_destination().remove_entry(os.path.basename(path))

    def reopen(self) -> None:
        """Begin another file at the same path."""
        if self._packer:
            self._packer.restart()
        self.writer = self._open()
        self.round_starts = RoundStarts()

    def abandon(self) -> None:
        """Remove the file, and restore the old one: nothing was recorded."""
        self.writer.close()
        if self.is_pipe:
            return
        destination = self.find_destination()
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.stat(destination.name, dir_fd=destination.folder).st_mode):
                destination.remove_entry()
            if self._old:
                destination.rename_entry(self._old, destination.name)


def _name_with_time(path: str, now: float) -> str:
    return f"{path}.{time.strftime('%Y%m%d%H%M%S', time.localtime(now))}{int(now % 1 * 100):02d}"


def find_destination(path: str) -> FileDestination:
    """Return the destination of a recording, without following links at its end. Raises OutputFailedError."""
    try:
        return FileDestination(path, follow=False)
    except OSError as error:
        raise OutputFailedError(path, error.strerror or str(error), remedy="choose another file with -o") from None


def new_recording(destination: FileDestination) -> tuple[str, int]:
    """Rename an existing recording to NAME.old, and create a new one; return that name ("" if there was none) and the descriptor.

    Raises OutputFailedError.
    """
    if destination.inherited >= 0:
        return "", -1
    old = rotate(destination)
    try:
        return old, create_named(destination.name, destination.folder)
    except OSError as error:
        if old:
            with contextlib.suppress(OSError):
                destination.rename_entry(old, destination.name)
        raise OutputFailedError(destination.path, error.strerror or str(error), remedy="choose another file with -o") from None


def rotate(destination: FileDestination) -> str:
    """Rename an existing recording to NAME.old; return that name, "" if there was none. Raises OutputFailedError."""
    try:
        existing = os.stat(destination.name, dir_fd=destination.folder)
    except OSError:  # none, or a dangling link
        return ""
    is_folder = stat.S_ISDIR(existing.st_mode)
    if not (is_folder or (stat.S_ISREG(existing.st_mode) and existing.st_size)):
        return ""
    old = f"{destination.name}.old"
    try:
        if destination.has_folder(old):
            _remove_folder(destination, old)
        elif is_folder and destination.has(old):  # no folder replaces a file
            destination.remove_entry(old)
        destination.rename_entry(destination.name, old)
    except OSError as error:
        raise OutputFailedError(f"{destination.path}.old", os.strerror(error.errno or 0), remedy="choose another file with -o") from None
    return old


def _remove_folder(destination: FileDestination, name: str) -> None:
    """Remove a folder recording, unless it contains other files. Raises OSError."""
    import shutil  # rarely needed; it loads compressors

    folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=destination.folder)
    try:
        names = os.listdir(folder)
        if any(name not in _IN_FOLDER and not name.startswith("data.") for name in names):
            raise OSError(errno.ENOTEMPTY, "")
        for one in names:
            if stat.S_ISDIR(os.stat(one, dir_fd=folder, follow_symlinks=False).st_mode):
                shutil.rmtree(one, dir_fd=folder)
            else:
                os.unlink(one, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=destination.folder)
