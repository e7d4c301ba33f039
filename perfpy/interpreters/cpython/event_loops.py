"""Read how long an asyncio event loop has been running callbacks.

Each turn of the loop (BaseEventLoop._run_once) waits for events, stores the time in its variable `end_time`, and runs all callbacks that
are due. While it runs a callback (Handle._run), that variable tells when the turn's callbacks began, on the clock CLOCK_MONOTONIC. The
loop serves nobody meanwhile. Loops that are not written in Python (uvloop) have no such variable.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.memory import UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.interpreters.cpython.code_objects import Codes
    from perfpy.interpreters.cpython.frames import PythonFrame
    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory

_TURN: Final = ("_run_once", "BaseEventLoop._run_once")
_CALLBACK: Final = ("_run", "Handle._run")
_TURN_FILE: Final = "/asyncio/base_events.py"
_CALLBACK_FILE: Final = "/asyncio/events.py"
_BEGIN: Final = "end_time"
_FLOAT: Final = struct.Struct("<8xQd")  # PyFloatObject
_TYPE_NAME: Final = 24  # PyTypeObject.tp_name
_FLOAT_NAME: Final = b"float\0"
_LONGEST: Final = 86_400  # seconds


def is_turn(name: str, filename: str) -> bool:
    """Whether a function is a turn of asyncio's event loop."""
    return name in _TURN and filename.endswith(_TURN_FILE)


def is_callback(name: str, filename: str) -> bool:
    """Whether a function is asyncio's call of a callback."""
    return name in _CALLBACK and filename.endswith(_CALLBACK_FILE)


class EventLoops:
    """The event loops of one process.

    Args:
        memory: of the process.
        layout: of its objects.
        codes: its code objects.
    """

    def __init__(self, memory: Memory, layout: PythonLayout, codes: Codes) -> None:
        self._memory = memory
        self._layout = layout
        self._codes = codes
        self._slots: dict[int, int] = {}  # by code object: the position of the variable; NONE without
        self._float = 0  # the address of the type

    def began(self, frames: Iterable[PythonFrame], moment: int) -> int:
        """Return when the callbacks of a thread's current turn began, in ns of CLOCK_MONOTONIC; 0 if that is unknown.

        The frames may be older than the memory, which is read now: a turn that began after them is not theirs.

        Args:
            frames: of the thread, innermost first.
            moment: when they were current.
        """
        if self._layout.frame.variables == NONE or self._layout.is_free_threaded:
            return 0
        for inner, frame in pairwise(frames):
            if is_turn(frame.code.name, frame.code.filename) and is_callback(inner.code.name, inner.code.filename):
                slot = self._slot(frame)
                began = 0 if slot == NONE else self._nanoseconds(frame.address + self._layout.frame.variables + 8 * slot)
                return began if 0 <= moment - began < _LONGEST * 1_000_000_000 else 0
        return 0

    def _slot(self, frame: PythonFrame) -> int:
        """Return the position of the variable among those of the frame."""
        number = frame.code.number
        if number not in self._slots:
            names = self._codes.variable_names(frame.code)
            self._slots[number] = names.index(_BEGIN) if _BEGIN in names else NONE
        return self._slots[number]

    def _nanoseconds(self, variable: int) -> int:
        """Return the value of a variable that is a number of seconds; 0 if it is none, or changes meanwhile."""
        try:
            value = read_word(self._memory, variable) & ~self._layout.tag_mask
            if not is_pointer(value):
                return 0
            kind, seconds = _FLOAT.unpack(self._memory.read(value, _FLOAT.size))
            # As long as the variable refers to the object, its memory is not reused.
            is_same = read_word(self._memory, variable) & ~self._layout.tag_mask == value
            return int(seconds * 1e9) if is_same and self._is_float(kind) and 0 < seconds < 1 << 32 else 0
        except UnreadableMemoryError:
            return 0

    def _is_float(self, kind: int) -> bool:
        if not self._float and is_pointer(kind) and self._memory.read(read_word(self._memory, kind + _TYPE_NAME), 6) == _FLOAT_NAME:
            self._float = kind
        return kind == self._float != 0
