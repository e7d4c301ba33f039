"""Write a recording: a seekable perf.data, or a pipe.

A file can be read from its first byte on at any moment, and is complete after finish().
Layout: perfpy.perfdata.header; the order of sections is perf's:

    header, ids of all events, attr table, data, feature table, feature sections
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from typing import TYPE_CHECKING, Any, Final, Protocol

from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import with_header
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.perf_records import FinishedRound, HeaderAttr, HeaderTracingData, encode
from perfpy.errors import OutputFailedError, PerfError
from perfpy.perfdata.header import HEADER_SIZE, SECTION_SIZE, AttrEntry, Feature, FileHeader, FileSection, PipeHeader, decode_header
from perfpy.untrusted.destinations import create_named

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from perfpy.abi.attr import EventAttr


#: the arguments of os.writev
Slice = bytes | bytearray | memoryview

FINISHED_ROUND: Final = encode(FinishedRound(0), NATIVE_ENDIAN)

_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_RECORD_SIZE: Final = struct.Struct("=6xH")
_SIZE: Final = struct.Struct("=Q")
_DATA_SIZE_AT: Final = 48  # offset in the file header


class WrittenEvent(NamedTuple):
    """An event's attr and the ids of its counters, as the file's head has them."""

    attr: EventAttr
    ids: tuple[int, ...]


class RecordWriter(Protocol):
    """The destination of records: a file, or a pipe."""

    path: str
    size: int  # bytes written so far, the head included

    def begin(self, events: Sequence[WrittenEvent], features: Mapping[int, bytes]) -> None:
        """Write the part in front of the records."""

    def write(self, *slices: Slice) -> None:
        """Append whole records, in any number of slices."""

    def mark(self) -> None:
        """Make the records written so far a whole recording, in case it ends here."""

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Write the part after the records."""

    def close(self) -> None:
        """Release the file."""


class RecordFile:
    """A file of records.

    Raises OutputFailedError: from the constructor if the file cannot be
    created; from write() if the disk is full, and the file then ends after its last whole record.
    """

    def __init__(self, path: str, fd: int = -1) -> None:
        """Open the file `fd`, or create `path`."""
        self.path = path
        try:
            self.fd = create_named(path) if fd < 0 else fd
        except OSError as error:
            raise OutputFailedError(path, error.strerror or str(error), remedy="choose another file with -o") from None
        self.size = 0
        self._records_from = 0  # offset of the first record

    def write(self, *slices: Slice) -> None:
        """Append whole records, in any number of slices."""
        total = sum(map(len, slices))
        written = 0
        try:
            written = os.writev(self.fd, slices)
            while written < total:  # interrupted by a signal, or the disk is almost full
                remaining = b"".join(slices)[written:]
                written += os.write(self.fd, remaining)
        except OSError as error:
            data = b"".join(slices)
            end = 0
            if self.size >= self._records_from:
                while end + 8 <= written and end + (size := _RECORD_SIZE.unpack_from(data, end)[0]) <= written and size:
                    end += size
            self.size += end
            try:
                os.ftruncate(self.fd, self.size)
                os.lseek(self.fd, self.size, os.SEEK_SET)
            except OSError:  # a device cannot be truncated
                pass
            raise _output_failed(self.path, error, is_empty=not self.size) from None
        self.size += total

    def close(self) -> None:
        """Close the file. Raises OutputFailedError: some file systems report a full disk only then."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            try:
                os.close(fd)
            except OSError as error:
                raise _output_failed(self.path, error, is_empty=True) from None


class FileWriter(RecordFile):
    """A seekable perf.data. finish() works even after write() failed."""

    def __init__(self, path: str, fd: int = -1) -> None:
        super().__init__(path, fd)
        self._records_from = HEADER_SIZE + 1
        self._ids = FileSection(HEADER_SIZE, 0)
        self._attrs = FileSection(HEADER_SIZE, 0)
        self._attr_size = 0
        self._data_start = HEADER_SIZE

    @classmethod
    def resume(cls, path: str, folder: int | None = None) -> FileWriter:
        """Open the file of a recorder that was killed, to append after its last mark.

        Raises OSError, and ValueError if it has no mark, or is another user's. folder: a descriptor of the folder of a relative path.
        """
        writer = cls(path, os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder))
        try:
            state = os.fstat(writer.fd)
            if state.st_uid != os.geteuid() or state.st_nlink != 1:
                raise ValueError(f"{path}: owned by another user, or hard-linked")
            header = decode_header(os.pread(writer.fd, HEADER_SIZE, 0))
            if not isinstance(header, FileHeader) or not header.data.size or header.data.end > os.fstat(writer.fd).st_size:
                raise ValueError(f"{path}: not a recording that can be resumed")
            os.ftruncate(writer.fd, header.data.end)
            os.lseek(writer.fd, header.data.end, os.SEEK_SET)
        except (OSError, ValueError):
            writer.close()
            raise
        writer._attrs, writer._attr_size, writer._data_start = header.attrs, header.attr_size, header.data.offset
        writer.size = header.data.end
        return writer

    @property
    def data(self) -> FileSection:
        """The section of the records."""
        return FileSection(self._data_start, self.size - self._data_start)

    def begin(self, events: Sequence[WrittenEvent], features: Mapping[int, bytes]) -> None:
        """Write the head. Readers see the events at once, and records up to the end of the file.

        features: written by finish(); only pipes need them here.
        """
        del features
        ids = b"".join(struct.pack(f"={len(event.ids)}Q", *event.ids) for event in events)
        entries = []
        offset = HEADER_SIZE
        for event in events:
            entries.append(AttrEntry(event.attr, FileSection(offset, 8 * len(event.ids))).encode("="))
            offset += 8 * len(event.ids)
        self._attrs = FileSection(offset, sum(map(len, entries)))
        self._attr_size = len(entries[0])
        self._data_start = self._attrs.end
        self.write(self._header(data_size=0, features=()), ids, *entries)

    def _header(self, data_size: int, features: tuple[int, ...]) -> bytes:
        data = FileSection(self._data_start, data_size)
        return FileHeader(NATIVE_ENDIAN, 2, self._attr_size, self._attrs, data, FileSection(0, 0), features).encode()

    def mark(self) -> None:
        """Update the data size in the head: if the recorder is killed, every perf reads the records up to here."""
        if self._data_start == HEADER_SIZE:  # no head yet
            return
        with contextlib.suppress(OSError):  # a device is never read again
            os.pwrite(self.fd, _SIZE.pack(self.size - self._data_start), _DATA_SIZE_AT)

    def mark_with(self, features: Mapping[int, bytes]) -> None:
        """Mark like mark(), and append features, which the next record overwrites."""
        with contextlib.suppress(OSError):
            os.pwrite(self.fd, self._sections(features), self.size)
            os.pwrite(self.fd, self._header(self.size - self._data_start, tuple(sorted(features))), 0)

    def _sections(self, features: Mapping[int, bytes]) -> bytes:
        """Return the feature table and the feature sections, for the position after the data."""
        bodies = [features[number] for number in sorted(features)]
        offset = self.size + SECTION_SIZE * len(bodies)
        table = []
        for body in bodies:
            table.append(struct.pack("=2Q", offset, len(body)))
            offset += len(body)
        return b"".join((*table, *bodies))

    def finish(self, features: Mapping[int, bytes]) -> None:
        """Write the features after the data, and the final header.

        Raises OutputFailedError if the disk is full; the file is then complete without the features.
        """
        failure = None
        numbers = tuple(sorted(features))
        data_size = self.size - self._data_start
        try:
            self.write(self._sections(features))
        except OutputFailedError as error:
            failure, numbers = error, ()
            os.ftruncate(self.fd, self._data_start + data_size)
        try:
            os.pwrite(self.fd, self._header(data_size, tuple(numbers)), 0)
        except OSError as error:
            raise _output_failed(self.path, error) from None
        if failure:
            raise failure


class PipeWriter:
    """A recording as a stream: a file's last part comes first here."""

    def __init__(self, fd: int, path: str = "-") -> None:
        self.path = path
        self.fd = fd
        self.size = 0

    def begin(self, events: Sequence[WrittenEvent], features: Mapping[int, bytes]) -> None:
        """Write the pipe header, every event, every feature, and the tracepoints' formats."""
        parts = [PipeHeader(NATIVE_ENDIAN).encode()]
        parts += (encode(HeaderAttr(0, event.attr, event.ids), NATIVE_ENDIAN) for event in events)
        for number in sorted(features):
            if number not in _NOT_IN_PIPES:
                parts.append(_feature_record(number, features[number]))
        parts.append(_feature_record(_LAST_FEATURE, b""))
        tracing = features.get(Feature.TRACING_DATA)
        if tracing:
            padded = tracing + bytes(-len(tracing) % 8)
            parts += (encode(HeaderTracingData(0, len(padded)), NATIVE_ENDIAN), padded)
        self.write(*parts)

    def write(self, *slices: Slice) -> None:
        """Append whole records, in any number of slices. Raises BrokenPipeError if the reader has closed the pipe."""
        data: Slice = slices[0] if len(slices) == 1 else b"".join(slices)
        view = memoryview(data)
        self.size += len(view)
        while view:
            try:
                view = view[os.write(self.fd, view) :]
            except BrokenPipeError:
                raise
            except OSError as error:
                raise _output_failed("standard output", error) from None

    def mark(self) -> None:
        """No-op: streams have no size to record."""

    def finish(self, features: Mapping[int, bytes]) -> None:
        """No-op: streams have no sections after the records."""
        del features

    def close(self) -> None:
        """No-op: the stream belongs to its opener."""


def _feature_record(number: int, data: bytes) -> bytes:
    """Return a HEADER_FEATURE record, unpadded like perf's, so that it keeps the section's length."""
    return with_header(RecordType.HEADER_FEATURE, 0, struct.pack("=Q", number) + data, NATIVE_ENDIAN)


_NOT_IN_PIPES: Final = (Feature.TRACING_DATA, Feature.BUILD_ID, Feature.CACHE)
_LAST_FEATURE: Final = 32  # HEADER_LAST_FEATURE of perf 6.12: ends the features of a pipe


def _output_failed(path: str, error: OSError, *, is_empty: bool = False) -> OutputFailedError:
    remedy = ("free some space" if is_empty else "free some space; the recording up to here is kept") if error.errno in _FULL else ""
    return OutputFailedError(path, os.strerror(error.errno or 0), remedy=remedy)


# Compress records into COMPRESSED records: one zstd stream in pieces, the reverse of perfpy.perfdata.records.stream. Each piece is
# flushed, so that a reader gets all its records. Layout: { header; char data[]; }, not padded, as perf 6.12 writes and reads it (newer
# versions also have COMPRESSED2).

_MOST: Final = 0xFFFF - 8  # the longest payload of a record


class Packer:
    """The compressor of one recording.

    Attributes:
        taken: uncompressed bytes so far.
        given: compressed bytes so far.
    """

    def __init__(self, level: int) -> None:
        from perfpy.untrusted.expansion import ExpansionError, zstd_library  # only compressed recordings need it

        try:
            compressor = zstd_library().ZstdCompressor
        except ExpansionError as error:
            raise PerfError(f"compression: {error}") from None
        self._make: Any = lambda: compressor(level=level)
        self._zstd: Any = self._make()
        self._flush = compressor.FLUSH_BLOCK
        self.bytes_in = 0
        self.bytes_out = 0

    def restart(self) -> None:
        """Begin a new zstd stream, for a new output file."""
        self._zstd = self._make()

    def pack(self, *slices: Slice) -> Iterator[bytes]:
        """Yield COMPRESSED records that hold these bytes."""
        for piece in slices:
            packed = self._zstd.compress(piece, self._flush)
            self.bytes_in += len(piece)
            self.bytes_out += len(packed)
            for offset in range(0, len(packed), _MOST):
                yield with_header(RecordType.COMPRESSED, 0, packed[offset : offset + _MOST], NATIVE_ENDIAN)

    @property
    def ratio(self) -> float:
        """Uncompressed bytes per compressed byte."""
        return self.bytes_in / self.bytes_out if self.bytes_out else 0.0
