"""Read which coroutines await the asyncio task that a thread runs.

published_tasks (since 3.14) and task_callbacks (before) lead from a task to the one that awaits it. A task has a coroutine; the
frame of a coroutine that waits has the coroutine it awaits on its stack.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.interpreters.cpython.event_loops import is_callback, is_turn
from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.memory import WORD, UnreadableMemoryError, is_pointer, read_word
from perfpy.interpreters.cpython.published_tasks import PublishedTasks
from perfpy.interpreters.cpython.task_callbacks import TaskCallbacks

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.interpreters.cpython.code_objects import Codes
    from perfpy.interpreters.cpython.frames import FrameWalker, PythonFrame
    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory
    from perfpy.interpreters.cpython.objects import Objects
    from perfpy.interpreters.cpython.task_callbacks import Tasks

_TYPE: Final = 8  # PyObject.ob_type
_TOP: Final = struct.Struct("<QQ")  # the upper words of a frame's stack
_MOST_AWAITING: Final = 16  # futures and tasks in a row
_MOST_COROUTINES: Final = 64  # of a task, each awaiting the next
_LARGEST_COROUTINE: Final = 256  # bytes before the frame in a coroutine
_FRAME_OBJECT: Final = 16  # PyGenObject.gi_frame, before 3.11
_DEEPEST: Final = 1 << 12  # values on the stack of a frame


class AwaitingTasks:
    """The tasks of one process.

    Args:
        memory: of the process.
        layout: of its objects.
        walker: reads frames.
        codes: its code objects.
        objects: its other objects.
        clock: returns seconds, monotonic.

    Attributes:
        find_section: returns the bytes of the section .AsyncioDebug; b"" as long as the module is not loaded.
    """

    def __init__(
        self, memory: Memory, layout: PythonLayout, walker: FrameWalker, codes: Codes, objects: Objects, clock: Callable[[], float]
    ) -> None:
        self.find_section: Callable[[], bytes] = bytes
        self._memory = memory
        self._layout = layout
        self._walker = walker
        self._tasks: Tasks = TaskCallbacks(memory, layout, codes, objects)
        if layout.version >= (3, 14):
            self._tasks = PublishedTasks(memory, layout.tag_mask, self._section, clock)

    @property
    def is_known(self) -> bool:
        """Whether the tasks of this process can be read."""
        return self._tasks.is_known

    def awaiting(self, frames: Sequence[PythonFrame], state: int) -> list[PythonFrame]:
        """Return the frames of the coroutines that await the running task, the nearest first; empty if there are none.

        The frames may be older than the memory, which is read now: the running task must still be that of the frames.

        Args:
            frames: of the thread, innermost first.
            state: the address of its thread state.
        """
        if self._layout.is_free_threaded:
            return []
        for outermost, callback, turn in zip(frames, frames[1:], frames[2:], strict=False):
            if is_turn(turn.code.name, turn.code.filename) and is_callback(callback.code.name, callback.code.filename):
                try:
                    return self._of_task(outermost, self._tasks.running(state, callback))
                except (UnreadableMemoryError, ValueError, struct.error):
                    return []
        return []

    def _section(self) -> bytes:
        return self.find_section()

    def _of_task(self, outermost: PythonFrame, task: int) -> list[PythonFrame]:
        """Return the frames that await the running task, whose outermost frame is known."""
        coroutine = self._tasks.coroutine(task) if task else 0
        if not is_pointer(coroutine):
            return []
        to_frame = outermost.address - coroutine
        is_same = 0 < to_frame <= _LARGEST_COROUTINE
        if not self._layout.has_data_stack:
            is_same = read_word(self._memory, coroutine + _FRAME_OBJECT) == outermost.address
        frames: list[PythonFrame] = []
        for _ in range(_MOST_AWAITING if is_same else 0):
            task = self._tasks.awaiting_one(task)
            if not task:
                break
            frames += self._of_coroutine(self._tasks.coroutine(task), to_frame)
        return frames

    def _of_coroutine(self, coroutine: int, to_frame: int) -> list[PythonFrame]:
        """Return the frames of a waiting coroutine and of the coroutines it awaits, innermost first.

        Args:
            coroutine: its address.
            to_frame: bytes from a coroutine to its frame, since 3.11.
        """
        layout = self._layout.frame
        frames: list[PythonFrame] = []
        kind = read_word(self._memory, coroutine + _TYPE) if is_pointer(coroutine) else 0
        while coroutine and len(frames) < _MOST_COROUTINES:
            address = coroutine + to_frame if self._layout.has_data_stack else read_word(self._memory, coroutine + _FRAME_OBJECT)
            if not is_pointer(address):
                break
            data = self._memory.read(address, layout.size)
            frame = self._walker.frame_of(address, data)
            if frame is None:
                break
            frames.append(frame)
            coroutine = self._awaited(self._top(address, data), kind)
        return frames[::-1]

    def _top(self, address: int, data: bytes) -> int:
        """Return the end of the stack of a waiting frame, whose bytes were read; 0 without values."""
        layout = self._layout.frame
        if layout.stack_pointer != NONE:
            return int(WORD.unpack_from(data, layout.stack_pointer)[0])
        (depth,) = struct.unpack_from("<i", data, layout.stack_depth)
        bottom = address + layout.variables if layout.stack == NONE else WORD.unpack_from(data, layout.stack)[0]
        return bottom + WORD.size * depth if 0 < depth < _DEEPEST else 0

    def _awaited(self, top: int, kind: int) -> int:
        """Return the coroutine that another one awaits, at the top of its stack, in 3.15 below an index; 0 if it awaits something else."""
        if not is_pointer(top):
            return 0
        below, value = (word & ~self._layout.tag_mask for word in _TOP.unpack(self._memory.read(top - _TOP.size, _TOP.size)))
        if self._layout.version >= (3, 15) and not is_pointer(value):
            value = below
        return int(value) if is_pointer(value) and read_word(self._memory, value + _TYPE) == kind else 0
