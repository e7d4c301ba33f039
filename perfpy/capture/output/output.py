"""The file or files of a recording: rotation of the old one, compression, the final names.

What enters: a path ("-" = standard output), then heads and records. What
leaves: perf.data, the previous one as perf.data.old; and when the output is
switched, perf.data.TIMESTAMP files.
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
    """Where rounds begin in a file, some of them: few enough to be kept however long the recording is."""

    def __init__(self, most: int = 128) -> None:
        self.offsets: list[int] = []
        self._most = most
        self._every = 1
        self._skipped = 0

    def add(self, offset: int) -> None:
        """One more round begins."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.offsets.append(offset)
        if len(self.offsets) > self._most:
            del self.offsets[::2]
            self._every *= 2


_STDOUT_FD: Final = 1
_IN_FOLDER: Final = ("data", "kcore_dir")  # of a recording that is a folder, besides data.N


class OutputPart(NamedTuple):
    """Where whole records are: from `begin` to `end` of a file. starts: offsets at which some rounds begin."""

    fd: int
    begin: int
    end: int
    starts: list[int]


class RecordOutput:
    """Where a recording goes; open it before anything is measured, so that a bad path costs nothing.

    packer: compresses the records of the rings. others: the processes that help to write it; answers: what
    comes from them; hits: which files samples fell into, where they found that out. Raises OutputFailedError.
    """

    others: tuple[int, ...] = ()
    answers: Answers | None = None
    hits: bytes = b""

    def __init__(self, path: str, packer: Packer | None = None) -> None:
        self.path = path
        self.is_pipe = path == STANDARD_OUTPUT
        self._packer = packer
        self._old = ""
        self.images: dict[str, bytes] = {}  # files of functions, by their names, in the end
        self.writer = self._open()
        self.rounds = 0
        self.round_starts = RoundStarts()

    def names(self) -> dict[int, bytes]:
        """Lines of perf maps by pid, as far as those that help to write it found out any."""
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
    def taken(self) -> int:
        """Bytes that the rings gave: as many as were written."""
        return self.writer.size

    def begin(self, events: Sequence[WrittenEvent], features: Mapping[int, bytes]) -> None:
        """Write the head of the current file."""
        self.writer.begin(events, features)

    def write(self, *slices: Slice) -> None:
        """Append records as they are."""
        self.writer.write(*slices)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring."""
        if self._packer:
            self.writer.write(*self._packer.pack(*slices))
        else:
            self.writer.write(*slices)

    def parts(self) -> Iterator[OutputPart]:
        """Where the records are, if they can be read again."""
        if isinstance(self.writer, FileWriter):
            yield OutputPart(self.writer.fd, self.writer.data.offset, self.writer.size, self.round_starts.offsets)

    def start(self) -> None:
        """What stands in front of the samples is written; they come next."""

    def complete(self, called: int, hurried: Callable[[], bool]) -> None:
        """No more records come: write what is held back. called: becomes readable with a signal; hurried: whether it says not to wait."""

    def end_round(self) -> None:
        """All rings were read: what stands before the previous round can be put in order."""
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
        """Give the finished file a name with the time in it; returns that name."""
        now = time.time()
        while os.path.lexists(name := _stamped(self.path, now)):  # no file takes the place of another one
            now += 0.01
        os.rename(self.path, name)
        return name

    def reopen(self) -> None:
        """Begin another file of the same path."""
        if self._packer:
            self._packer.restart()
        self.writer = self._open()
        self.round_starts = RoundStarts()

    def abandon(self) -> None:
        """Nothing was recorded: leave things as they were."""
        self.writer.close()
        if self.is_pipe:
            return
        with contextlib.suppress(OSError):
            if os.path.isfile(self.path):
                os.unlink(self.path)
            if self._old:
                os.rename(self._old, self.path)


def _stamped(path: str, now: float) -> str:
    return f"{path}.{time.strftime('%Y%m%d%H%M%S', time.localtime(now))}{int(now % 1 * 100):02d}"


def _remove_folder(path: str) -> None:
    """Remove a recording that is a folder; one in which other things are stays. Raises OSError."""
    import shutil  # it loads compressors, and this is rare

    if any(name not in _IN_FOLDER and not name.startswith("data.") for name in os.listdir(path)):
        raise OSError(errno.ENOTEMPTY, "")
    shutil.rmtree(path)


def rotate(path: str) -> str:
    """Keep a recording of the same name as PATH.old; returns that name, "" when there was none."""
    if not (os.path.isdir(path) or (os.path.isfile(path) and os.path.getsize(path))):
        return ""
    old = f"{path}.old"
    try:
        if os.path.isdir(old) and not os.path.islink(old):
            _remove_folder(old)
        elif os.path.isdir(path) and os.path.lexists(old):  # no folder takes a file's name
            os.unlink(old)
        os.rename(path, old)
    except OSError as error:
        raise OutputFailedError(old, os.strerror(error.errno or 0), remedy="choose another file with -o") from None
    return old
