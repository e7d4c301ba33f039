"""Python functions and lines for a live view: the parts of `record --python` around the ring buffers of `top`.

Another process reads the frames (perfpy.capture.unwinding.frame_reader), because a page of a hostile program can block its reader for
ever. Samples with registers and stack copies go in; samples with callchains of native and Python frames come out.
"""

from __future__ import annotations

import contextlib
import tempfile
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.capture.counter import Counter
from perfpy.capture.unwinding.frame_reader import ReaderProcess
from perfpy.capture.unwinding.plain_attrs import has_stacks
from perfpy.capture.unwinding.serving import chunk_of
from perfpy.capture.unwinding.spool import Spool
from perfpy.capture.unwinding.unwinder import PieceUnwinder
from perfpy.errors import KernelRefusedError

if TYPE_CHECKING:
    from perfpy.capture.unwinding.unwinder import UnwoundPiece
    from perfpy.live.rings import LiveRings
    from perfpy.perfdata.container.events import FileEvent

_SPOOL: Final = 128 << 20  # bytes of memory: twice the records that may wait


class LivePython:
    """Converts the records of ring buffers. Close it before the rings.

    One thread may convert while another one calls look(), close_piece() and release_pieces().

    Attributes:
        reader_pid: of the process that reads frames.

    Args:
        rings: the open, not enabled events.
        events: those of the rings.
        only_python: whether other processes' callchains need no user part.
    """

    def __init__(self, rings: LiveRings, events: list[FileEvent], *, only_python: bool = False) -> None:
        with contextlib.ExitStack() as opened:
            counters = rings.counters
            attr = counters.events[0].attr
            copier = rings.copier
            self._spool = Spool(tempfile.gettempdir(), _SPOOL)
            opened.callback(self._spool.close)
            self._reader = ReaderProcess(self._spool, attr, copier.maps if copier else None, change=0)
            opened.callback(self._reader.close)
            opened.callback(self._reader.close_answers)
            if copier is not None:
                with contextlib.suppress(OSError, KernelRefusedError):
                    for own in copier.attach((one.counter for one in counters.opened if has_stacks(one.event.attr)), Counter):
                        opened.callback(own.close)
            frames = self._reader.answers, None
            self._unwinder = PieceUnwinder(events, own=self._reader.pid, python=frames, is_live=True, only_python=only_python)
            self.reader_pid = self._reader.pid
            self._functions = 0
            self._opened = opened.pop_all()

    def learn(self, records: bytes) -> None:
        """Learn from synthesized records."""
        if records:
            self._unwinder.learn(chunk_of(np.frombuffer(records, np.uint8)))

    def look(self, records: bytes) -> None:
        """Let the reader read the frames of new records."""
        self._reader.look(self._spool.write([records]))

    def close_piece(self) -> None:
        """Begin the next piece."""
        if self._spool.size:
            self._spool.close_piece()

    def release_pieces(self) -> None:
        """Release all pieces but the last: the reader may be behind by one."""
        while len(self._spool) > 1:
            self._spool.release_first()

    def convert(self, records: bytes) -> bytes:
        """Return the records of the ring buffers with callchains; those of the last call, if all were read once more since.

        The reader must have seen the records (look).
        """
        return _bytes_of(self._unwinder.take(chunk_of(np.frombuffer(records, np.uint8))))

    def rest(self) -> bytes:
        """Return the records of the last call of convert()."""
        return _bytes_of(self._unwinder.rest())

    def new_images(self) -> dict[str, bytes]:
        """Return the image of all functions by its path, if there are new ones; another path if earlier functions were forgotten."""
        before, self._functions = self._functions, self._unwinder.function_count
        return dict(self._unwinder.images()) if self._functions > before else {}

    def close(self) -> None:
        """End the reader."""
        self._opened.close()


def _bytes_of(piece: UnwoundPiece | None) -> bytes:
    return b"".join(piece.parts) if piece else b""
