"""The unwinding process's loop: pieces of the ring buffers in, the same records with callchains out.

A piece is held until the next one arrives: all ring buffers were read once more then, so that every mapping before its samples
is known.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import sys
from collections import deque
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import perf_records
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.capture.unwinding import process
from perfpy.capture.unwinding.process import MEMORY, PublishedExtents
from perfpy.capture.unwinding.unwinder import PieceUnwinder, UnwoundPiece
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.records.stream import Chunk, walk
from perfpy.perfdata.writer import FINISHED_ROUND, FileWriter
from perfpy.untrusted.destinations import FileDestination

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.capture.off_cpu_events import WaitPlan
    from perfpy.capture.unwinding.process import Extent, SharedProcesses

    Parts = Sequence[bytes]


_READ: Final = 1 << 16


def serve(
    requests: int,
    answers: int,
    stores: tuple[int, int, int],
    *,
    plan: WaitPlan | None = None,
    only: Collection[int] | None = None,
    jit: bool = False,
    python: tuple[int, str | None] | None = None,
    joins: bool = False,
    around: Collection[int] | None = None,
    concerned: SharedProcesses | None = None,
    rescue: Rescue | None = None,
) -> None:
    """Serve until the end of requests, or until the recorder has ended.

    plan, only, jit, python, joins, around and concerned are as in PieceUnwinder.
    rescue completes the file if the recorder ends early; None without a file.
    """
    new_unwinder = partial(PieceUnwinder, plan=plan, only=only, jit=jit, python=python, joins=joins, around=around, concerned=concerned)
    service = _Service(SpoolReader(stores), new_unwinder, rescue)
    try:
        for answer in service.answers(_requests(requests, service.look, service.note)):
            try:
                _write(answers, answer)
            except BrokenPipeError:  # the recorder has ended, but its earlier requests are still in the pipe
                if rescue is None:
                    raise
                service.is_alone = True
        if rescue and service.is_alone:
            rescue.finish(service.remaining())
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:  # whatever happens, the recorder goes on without this process, and prints the reason
        with contextlib.suppress(BrokenPipeError):
            _write(answers, process.answer(process.NOTE, f"unwinding: {type(error).__name__}: {error}".encode()))
        raise


def _requests(fd: int, look: Callable[[], float | None], note: Callable[[int, list[Extent]], None]) -> Iterator[tuple[int, list[Extent]]]:
    """Yield the requests.

    Args:
        fd: the pipe.
        look: called while there are none, returns the seconds until the next time, None for not before a request.
        note: called with each request that has arrived, before earlier ones are yielded.
    """
    incoming = process.Incoming()
    waiting: deque[tuple[int, list[Extent]]] = deque()
    is_open = True
    while is_open or waiting:
        while is_open and select.select([fd], [], [], 0 if waiting else look())[0]:
            data = os.read(fd, _READ)
            is_open = bool(data)
            incoming.add(data)
            for request in incoming.requests():
                note(*request)
                waiting.append(request)
        if waiting:
            yield waiting.popleft()


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class _Service:
    """Answers requests. is_alone: the recorder has ended without END."""

    def __init__(self, stores: SpoolReader, new_unwinder: Callable[[Sequence[FileEvent]], PieceUnwinder], rescue: Rescue | None) -> None:
        self._stores = stores
        self._new_unwinder = new_unwinder
        self._rescue = rescue
        self._unwinder: PieceUnwinder | None = None
        self.is_alone = False

    def look(self) -> float | None:
        """Look at the states of programs; see PieceUnwinder.look()."""
        return self._unwinder.look() if self._unwinder else None

    def note(self, kind: int, extents: list[Extent]) -> None:
        """Read runtimes for a piece that has to wait for its turn."""
        if kind == process.PIECE and self._unwinder is not None and self._unwinder.reads_runtimes:
            self._unwinder.read_runtimes(chunk_of(self._stores.bytes_of(extents)))

    def answers(self, requests: Iterator[tuple[int, list[Extent]]]) -> Iterator[bytes]:
        """Yield all answers."""
        for kind, extents in requests:
            if kind == process.EVENTS:
                self._unwinder = self._new_unwinder(events_of(self._stores.bytes_of(extents)))
            elif kind == process.END:
                unwinder = self._get_unwinder()
                yield from self._encode_piece(unwinder.rest())
                yield process.answer(process.HITS, unwinder.hits())
                yield from (process.answer(process.IMAGE, os.fsencode(name) + b"\0" + image) for name, image in unwinder.images())
                yield from (process.answer(process.NOTE, note.encode()) for note in unwinder.notes())
                if unwinder.left:
                    yield process.answer(process.LEFT, unwinder.left.to_bytes(8, sys.byteorder))
                yield process.answer(process.FINISHED)
                return
            else:
                yield from self._answer(kind, extents)
        self.is_alone = True

    def _get_unwinder(self) -> PieceUnwinder:
        if self._unwinder is None:
            raise ValueError("records before their events")
        return self._unwinder

    def _answer(self, kind: int, extents: list[Extent]) -> Iterator[bytes]:
        if kind == process.KNOWN:
            self._get_unwinder().learn(chunk_of(self._stores.bytes_of(extents)))
            yield process.answer(process.READY)
        elif kind == process.PIECE:
            yield from self._encode_piece(self._get_unwinder().take(chunk_of(self._stores.bytes_of(extents))))
        elif self._rescue and kind == process.FEATURES:
            self._rescue.features = process.decode_features(self._stores.bytes_of(extents).tobytes())
        elif self._rescue and kind == process.WRITTEN:
            ((file, _, end),) = extents
            self._rescue.written(file, end)

    def _encode_piece(self, piece: UnwoundPiece | None) -> Iterator[bytes]:
        if piece is None:
            return
        if self._rescue:
            self._rescue.keep(piece.parts)
            for _ in range(piece.pieces - 1):
                self._rescue.keep(())
        if piece.side_band:
            yield process.answer(process.SIDE_BAND, piece.side_band)
        yield from (process.names(pid, lines) for pid, lines in piece.names.items())
        yield from (process.answer(process.RECORDS, part) for part in piece.parts)
        yield process.answer(process.PIECE_DONE) * piece.pieces

    def remaining(self) -> Iterator[list[bytes]]:
        """Yield the remaining pieces, including the recorder's open one."""
        unwinder = self._get_unwinder()
        extents = self._stores.open_piece()
        pieces = [unwinder.take(chunk_of(self._stores.bytes_of(extents)))] if extents else []
        yield from (piece.parts for piece in (*pieces, unwinder.rest()) if piece)


def events_of(data: NDArray[np.uint8]) -> list[FileEvent]:
    """Return the events of HEADER_ATTR records."""
    events = []
    chunk = chunk_of(data)
    for row in range(len(chunk)):
        record = perf_records.decode(RecordType.HEADER_ATTR, 0, chunk.record(row)[8:], NATIVE_ENDIAN)
        assert isinstance(record, perf_records.HeaderAttr)
        events.append(FileEvent(record.attr, record.ids, "", row))
    return events


def chunk_of(data: NDArray[np.uint8]) -> Chunk:
    """Return the records of a piece: the kernel's or perfpy's own, and whole."""
    return Chunk(data, walk(data, NATIVE_ENDIAN).starts, NATIVE_ENDIAN, 0)


# Complete the file in the unwinding process if the recorder is killed, with everything read from the ring buffers. The recorder marks the
# file's size after each round, and reports that the piece is in it. Until then pieces are kept here, so that data after the last mark can
# be written again.


class Rescue:
    """The state of one recording. path is its file; its folder is opened now, as others may exchange it."""

    def __init__(self, path: str) -> None:
        self._destination = FileDestination(path, follow=False)
        self._pieces: deque[Parts] = deque()
        self._file = self._end = 0
        self.features: Mapping[int, bytes] = {}

    def keep(self, parts: Parts) -> None:
        """Keep a piece that is sent to the recorder."""
        self._pieces.append(parts)

    def written(self, file: int, end: int) -> None:
        """Drop the oldest piece, which is in the file and marked. file is its inode; end is that of its records."""
        if self._pieces:
            self._pieces.popleft()
        self._file, self._end = file, end

    def finish(self, remaining: Iterable[Parts]) -> None:
        """Write the missing pieces and the rest, after the recorder's end. Raises PerfError, OSError, ValueError."""
        writer = FileWriter.resume(self._destination.name, self._destination.folder)
        try:
            if os.fstat(writer.fd).st_ino == self._file and writer.size > self._end and self._pieces:
                self._pieces.popleft()  # it was marked, but not reported
            for parts in chain(self._pieces, remaining):
                writer.write(*parts, FINISHED_ROUND)
                writer.mark()
            writer.finish(self.features)
        finally:
            writer.close()


# The reading side of the spool.


class SpoolReader:
    """Reads the spool. Memory is mapped: contiguous bytes are used in place."""

    def __init__(self, fds: tuple[int, int, int]) -> None:
        self._fds = fds[:2]
        self._open_piece = PublishedExtents(fds[2])
        self._memory = np.zeros(0, np.uint8)

    def bytes_of(self, extents: Sequence[Extent]) -> NDArray[np.uint8]:
        """Return the bytes of extents; valid until the piece is released."""
        if len(extents) == 1 and extents[0].store == MEMORY:
            _, offset, size = extents[0]
            if len(self._memory) < offset + size:
                self._memory = np.frombuffer(mmap.mmap(self._fds[MEMORY], 0, prot=mmap.PROT_READ), np.uint8)
            return self._memory[offset : offset + size]
        data = np.empty(sum(extent.size for extent in extents), np.uint8)
        end = 0
        for store, offset, size in extents:
            view = data[end : end + size].data
            copied = 0
            while copied < size:
                count = os.preadv(self._fds[store], [view[copied:]], offset + copied)
                if not count:
                    raise ValueError("the spool is shorter than its extents")
                copied += count
            end += size
        return data

    def open_piece(self) -> list[Extent]:
        """Return the piece that the recorder had not sent when it ended."""
        return self._open_piece.extents()
