"""The file or files of a recording: rotation of the old one, compression, the final names.

An existing perf.data becomes perf.data.old; with --switch-output the files are perf.data.TIMESTAMP. "-" is standard output.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.capture.record_options import STANDARD_OUTPUT
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.writer import FINISHED_ROUND, FileWriter, PipeWriter

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
        self._old = rotate(self.path)
        return FileWriter(self.path)

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
        while os.path.lexists(name := _name_with_time(self.path, now)):  # no existing file is replaced
            now += 0.01
        os.rename(self.path, name)
        return name

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
        with contextlib.suppress(OSError):
            if os.path.isfile(self.path):
                os.unlink(self.path)
            if self._old:
                os.rename(self._old, self.path)


def _name_with_time(path: str, now: float) -> str:
    return f"{path}.{time.strftime('%Y%m%d%H%M%S', time.localtime(now))}{int(now % 1 * 100):02d}"


def _remove_folder(path: str) -> None:
    """Remove a folder recording, unless it contains other files. Raises OSError."""
    import shutil  # rarely needed; it loads compressors

    if any(name not in _IN_FOLDER and not name.startswith("data.") for name in os.listdir(path)):
        raise OSError(errno.ENOTEMPTY, "")
    shutil.rmtree(path)


def rotate(path: str) -> str:
    """Rename an existing recording to PATH.old; return that name, "" if there was none."""
    if not (os.path.isdir(path) or (os.path.isfile(path) and os.path.getsize(path))):
        return ""
    old = f"{path}.old"
    try:
        if os.path.isdir(old) and not os.path.islink(old):
            _remove_folder(old)
        elif os.path.isdir(path) and os.path.lexists(old):  # no folder replaces a file
            os.unlink(old)
        os.rename(path, old)
    except OSError as error:
        raise OutputFailedError(old, os.strerror(error.errno or 0), remedy="choose another file with -o") from None
    return old
