"""The output of record --threads: a folder, in which each CPU's rings have a file of their own.

What enters: records of the rings, told with the CPU that they came from, by several threads at once; everything else
as for any RecordOutput. What leaves: PATH/data, and PATH/data.0, data.1 ..., one a CPU, which hold records and nothing else.

A file is only ever written by one thread, so nothing is locked. What the threads have to say goes through a pipe that the
recorder polls.
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
    """What one CPU's rings held. level: of its compression, 0 for none."""

    def __init__(self, path: str, level: int) -> None:
        self.file = RecordFile(path)
        self.starts = RoundStarts()
        self.packer = Packer(level) if level else None

    def write(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring."""
        self.file.write(*(self.packer.pack(*slices) if self.packer else slices))

    def end_round(self) -> None:
        """The rings were read."""
        self.starts.add(self.file.size)


class ThreadNotices:
    """What threads tell the recorder: a descriptor that becomes readable then. Answers, as Attention has them."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._failure: OutputFailedError | None = None

    def fileno(self) -> int:
        """The descriptor."""
        return self._reading

    def tell(self, failure: OutputFailedError | None = None) -> None:
        """By a thread: there is something to see, or it failed."""
        self._failure = self._failure or failure
        try:
            os.write(self._writing, b".")
        except BlockingIOError:  # it has been told often enough
            return

    def take(self) -> bool:
        """By the recorder. Raises what a thread failed with."""
        try:
            os.read(self._reading, 4096)
        except BlockingIOError:
            return True
        if self._failure:
            raise self._failure
        return True

    def close(self) -> None:
        """No thread is left."""
        os.close(self._reading)
        os.close(self._writing)


class RingFilesOutput(FolderOutput):
    """A RecordOutput whose rings' records go to files of their CPUs. level: of compression, 0 for none; most: bytes of the
    whole at which the recorder is to be told (--max-size), 0 for any number.
    """

    def __init__(self, path: str, packer: Packer | None = None, level: int = 0, most: int = 0) -> None:
        self.files: list[RingFile] = []
        super().__init__(path, packer)
        self._level = level
        self._most = most
        self.notices = ThreadNotices()
        self.answers = self.notices

    def open_files(self, number: int) -> None:
        """One for each CPU, in their order."""
        self.files = [RingFile(os.path.join(self.path, f"{MAIN_FILE}.{index}"), self._level) for index in range(number)]

    @property
    def size(self) -> int:
        """Bytes written."""
        return self.writer.size + sum(one.file.size for one in self.files)

    @property
    def taken(self) -> int:
        """Bytes that the rings gave."""
        return self.size

    def start(self) -> None:
        """What stands in front of the samples is written: should the recorder be killed, every perf reads that, and finds the rest."""
        assert isinstance(self.writer, FileWriter)
        self.writer.mark_with({Feature.DIR_FORMAT: encode_feature(Feature.DIR_FORMAT, FOLDER_VERSION, NATIVE_ENDIAN)})

    def pass_ended(self) -> None:
        """By a thread: it has emptied its rings once."""
        if 0 < self._most <= self.size:
            self.notices.tell()

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """What no CPU of the recording has written: there is no such ring."""
        self.write(*slices)

    def parts(self) -> Iterator[OutputPart]:
        """The main file's records, then those of each CPU."""
        yield from super().parts()
        yield from (OutputPart(one.file.fd, 0, one.file.size, one.starts.offsets or [0]) for one in self.files)

    def complete(self, called: int, hurried: Callable[[], bool]) -> None:
        """The threads are gone: their compression counts as ours."""
        super().complete(called, hurried)
        for one in self.files:
            if self._packer and one.packer:
                self._packer.taken += one.packer.taken
                self._packer.given += one.packer.given

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Complete the folder."""
        try:
            super().finish(features)
        finally:
            self._close_files()

    def abandon(self) -> None:
        """Nothing was recorded."""
        self._close_files()
        super().abandon()

    def _close_files(self) -> None:
        for one in self.files:
            one.file.close()
        self.notices.close()
