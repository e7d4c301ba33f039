"""The output of record --threads: a folder with a file for each CPU's ring buffers.

The folder has `data`, and data.0, data.1 ..., which contain only records. Each file is written by one thread, so no locks are
needed. Threads notify the recorder through a pipe that it polls.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.metadata.recorded_features import FOLDER_VERSION
from perfpy.capture.output.folder_output import MAIN_FILE, FolderOutput
from perfpy.capture.output.output import OutputPart, RoundStarts
from perfpy.perfdata.container.compression import Packer
from perfpy.perfdata.container.features import Feature, encode_feature
from perfpy.perfdata.container.writer import FileWriter, RecordFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from perfpy.errors import OutputFailedError
    from perfpy.perfdata.container.writer import Slice


class RingFile:
    """The file of one CPU's ring buffers: path, its descriptor, the level of compression (0 for none)."""

    def __init__(self, path: str, fd: int, level: int) -> None:
        self.file = RecordFile(path, fd)
        self.starts = RoundStarts()
        self.packer = Packer(level) if level else None

    def write(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer."""
        self.file.write(*(self.packer.pack(*slices) if self.packer else slices))

    def end_round(self) -> None:
        """Mark the end of a pass over the ring buffers."""
        self.starts.add(self.file.size)


class ThreadNotices:
    """Notifications of the recorder by threads: a descriptor that becomes readable. Answers of Attention."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._failure: OutputFailedError | None = None

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._reading

    def tell(self, failure: OutputFailedError | None = None) -> None:
        """Notify the recorder, optionally of a failure; called by threads."""
        self._failure = self._failure or failure
        try:
            os.write(self._writing, b".")
        except BlockingIOError:  # the recorder has been notified already
            return

    def take(self) -> bool:
        """Consume the notifications in the recorder. Raises a thread's failure."""
        try:
            os.read(self._reading, 4096)
        except BlockingIOError:
            return True
        if self._failure:
            raise self._failure
        return True

    def close(self) -> None:
        """Close the pipe, after the threads have ended."""
        os.close(self._reading)
        os.close(self._writing)


class RingFilesOutput(FolderOutput):
    """A RecordOutput whose ring buffers' records go to the files of their CPUs.

    Args:
        level: of compression, 0 for none.
        most: total bytes at which to notify the recorder (--max-size), 0 for no limit.
    """

    def __init__(self, path: str, packer: Packer | None = None, level: int = 0, most: int = 0) -> None:
        self.files: list[RingFile] = []
        super().__init__(path, packer)
        self._level = level
        self._most = most
        self.notices = ThreadNotices()
        self.answers = self.notices

    def open_files(self, number: int) -> None:
        """Open one file for each CPU, in order."""
        names = [f"{MAIN_FILE}.{index}" for index in range(number)]
        self.files = [RingFile(os.path.join(self.path, name), self.create(name), self._level) for name in names]

    @property
    def size(self) -> int:
        """Bytes written."""
        return self.writer.size + sum(one.file.size for one in self.files)

    @property
    def bytes_read(self) -> int:
        """Bytes read from the ring buffers."""
        return self.size

    def start(self, signal_fd: int = -1) -> None:
        """Mark everything before the samples as complete: if the recorder is killed, any perf can read it and find the other files."""
        assert isinstance(self.writer, FileWriter)
        self.writer.mark_with({Feature.DIR_FORMAT: encode_feature(Feature.DIR_FORMAT, FOLDER_VERSION, NATIVE_ENDIAN)})

    def pass_ended(self) -> None:
        """Called by a thread after a pass over its ring buffers."""
        if 0 < self._most <= self.size:
            self.notices.tell()

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer to the main file; no recorded CPU has one."""
        self.write(*slices)

    def parts(self) -> Iterator[OutputPart]:
        """Yield the main file's records, then those of each CPU."""
        yield from super().parts()
        yield from (OutputPart(one.file.fd, 0, one.file.size, one.starts.offsets or [0]) for one in self.files)

    def complete(self, signal_fd: int, hurried: Callable[[], bool]) -> None:
        """Add the compression of the threads, which have ended, to the recorder's."""
        super().complete(signal_fd, hurried)
        for one in self.files:
            if self._packer and one.packer:
                self._packer.bytes_in += one.packer.bytes_in
                self._packer.bytes_out += one.packer.bytes_out

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the folder."""
        try:
            super().finish(features)
        finally:
            self._close_files()

    def abandon(self) -> None:
        """Remove the folder: nothing was recorded."""
        self._close_files()
        super().abandon()

    def _close_files(self) -> None:
        for one in self.files:
            one.file.close()
        self.notices.close()
