"""The reader's messages to the unwinding process, over a pipe.

Layout of a message: { u32 size; char data[size] }, where data is marshalled. Both ends are processes of one recording, forked from one
program, and nothing else writes into the pipe.
"""

from __future__ import annotations

import marshal
import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


_HEAD: Final = struct.Struct("=I")
_OBJECT_SIZE: Final = 600  # bytes of a FoundCode without the contents of its names and line table


class FoundProcess(NamedTuple):
    """A Python process; an earlier one of the same pid is gone.

    loops: address ranges of its evaluation loop; gil: the address of the lock, 0 for builds without.
    """

    pid: int
    version: tuple[int, int]
    loops: list[tuple[int, int]]
    gil: int = 0


class FoundCode(NamedTuple):
    """A code object that a process runs. The fields are those of CodeObject."""

    pid: int
    number: int
    address: int
    begin: int
    end: int
    name: str
    filename: str
    first_line: int
    lines: bytes
    frame_size: int

    @property
    def memory(self) -> int:
        """The bytes that it takes, roughly."""
        return _OBJECT_SIZE + len(self.name) + len(self.filename) + len(self.lines)


ReadFrame = tuple[int, int, int, bool]  #: address, number of the code object, offset, is_entry


class FoundChain(NamedTuple):
    """The frames of a thread, for samples taken at `times`, innermost first.

    left: frames that the thread has left, the last called first; lag: nanoseconds from the newest of these samples to the reading;
    has_moved: the thread ran while it was read; is_exact: they were copied at the moment of the sample.
    gil: the thread's GilState, the thread that holds the lock, or 0, and the number of the code that this one ran, or -1.
    turn_began: when an event loop began to run the callbacks of its turn (EventLoops.began), 0 if that is unknown.
    awaiting: code and offset of the frames that await the running task (AwaitingTasks.awaiting).
    """

    pid: int
    tid: int
    times: list[int]
    frames: list[ReadFrame]
    left: list[ReadFrame]
    is_whole: bool
    has_moved: bool
    lag: int
    is_exact: bool = False
    gil: tuple[int, int, int] = (0, 0, -1)
    turn_began: int = 0
    awaiting: list[tuple[int, int]] = []  # noqa: RUF012  # never changed


class FoundCall(NamedTuple):
    """The name that was loaded for the call by an instruction.

    code: the number of the code object; offset: of the instruction.
    """

    pid: int
    code: int
    offset: int
    name: str


class FoundName(NamedTuple):
    """The name of a thread, which replaces the kernel's."""

    pid: int
    tid: int
    name: str


class ReadUpTo(NamedTuple):
    """All samples up to this time have been read."""

    time: int


class Refused(NamedTuple):
    """A process without Python frames, and the reason: unreadable memory or an unknown interpreter."""

    pid: int
    reason: str


Answer = FoundProcess | FoundCode | FoundCall | FoundChain | FoundName | ReadUpTo | Refused
_KINDS: Final = (FoundProcess, FoundCode, FoundCall, FoundChain, FoundName, ReadUpTo, Refused)


def encode_message(answer: Answer) -> bytes:
    """Encode a message."""
    data = marshal.dumps((_KINDS.index(type(answer)), tuple(answer)))
    return _HEAD.pack(len(data)) + data


class IncomingAnswers:
    """A decoder of messages that arrive in pieces."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def add(self, data: bytes) -> None:
        """Append bytes from the pipe."""
        self._bytes += data

    def answers(self) -> Iterator[Answer]:
        """Yield the messages that are complete."""
        position = 0
        while len(self._bytes) - position >= _HEAD.size:
            (size,) = _HEAD.unpack_from(self._bytes, position)
            if len(self._bytes) - position - _HEAD.size < size:
                break
            kind, values = marshal.loads(memoryview(self._bytes)[position + _HEAD.size : position + _HEAD.size + size])
            position += _HEAD.size + size
            yield _KINDS[kind](*values)
        del self._bytes[:position]
