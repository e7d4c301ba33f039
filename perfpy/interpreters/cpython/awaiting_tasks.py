"""Read which coroutines await the asyncio task that a thread runs, since 3.14.

The thread state has the running task, each future and task the one that awaits it, and a task its coroutine, whose frame is inside it.
The module _asyncio publishes the offsets in its section .AsyncioDebug: u64 numbers, in the order of _FIELDS (Modules/_asynciomodule.c,
Py_AsyncioModuleDebugOffsets).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.interpreters.cpython.event_loops import is_callback, is_turn
from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.memory import WORD, UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.interpreters.cpython.frames import FrameWalker, PythonFrame
    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory

_FIELDS: Final = (
    *("task.size", "task.name", "task.awaited_by", "task.is_task", "task.awaited_by_is_set", "task.coroutine", "task.node"),
    *("interpreter.size", "interpreter.tasks_head", "thread.size", "thread.running_loop", "thread.running_task"),
)
_LARGEST: Final = 1 << 16  # of an offset
_TYPE: Final = 8  # PyObject.ob_type
_SET: Final = struct.Struct("<24xqqQ")  # PySetObject.used, mask, table
_SET_ENTRY: Final = 16  # bytes: key, hash
_TOP: Final = struct.Struct("<QQ")  # the upper words of a frame's stack
_MOST_SLOTS: Final = 1 << 10
_MOST_AWAITING: Final = 16  # futures and tasks in a row
_MOST_COROUTINES: Final = 64  # of a task, each awaiting the next
_LARGEST_COROUTINE: Final = 256  # bytes before the frame in a coroutine
_PAUSE: Final = 1.0  # seconds until the offsets are looked for again; doubled each time


class TaskOffsets(NamedTuple):
    """Offsets of the fields of futures and tasks, and of the running task in a thread state."""

    awaited_by: int
    is_task: int
    awaited_by_is_set: int
    coroutine: int
    running_task: int


def decode_task_offsets(data: bytes) -> TaskOffsets | None:
    """Return the offsets in a section; None if they make no sense."""
    if len(data) < 8 * len(_FIELDS):
        return None
    values = dict(zip(_FIELDS, struct.unpack_from(f"<{len(_FIELDS)}Q", data), strict=True))
    names = ("task.awaited_by", "task.is_task", "task.awaited_by_is_set", "task.coroutine", "thread.running_task")
    offsets = TaskOffsets(*(int(values[name]) for name in names))
    return offsets if max(offsets) < _LARGEST else None


class AwaitingTasks:
    """The tasks of one process.

    Args:
        memory: of the process.
        layout: of its objects.
        walker: reads frames.
        clock: returns seconds, monotonic.

    Attributes:
        find_section: returns the bytes of the section; b"" as long as the module is not loaded.
    """

    def __init__(self, memory: Memory, layout: PythonLayout, walker: FrameWalker, clock: Callable[[], float]) -> None:
        self.find_section: Callable[[], bytes] = bytes
        self._memory = memory
        self._layout = layout
        self._walker = walker
        self._clock = clock
        self._offsets: TaskOffsets | None = None
        self._search_again = 0.0
        self._pause = _PAUSE

    @property
    def is_known(self) -> bool:
        """Whether the tasks of this process can be read."""
        return self._offsets is not None

    def awaiting(self, frames: Sequence[PythonFrame], state: int) -> list[PythonFrame]:
        """Return the frames of the coroutines that await the running task, the nearest first; empty if there are none.

        The frames may be older than the memory, which is read now: the running task must still be that of the frames.

        Args:
            frames: of the thread, innermost first.
            state: the address of its thread state.
        """
        if self._layout.frame.stack_pointer == NONE or self._layout.is_free_threaded:
            return []
        for outermost, callback, turn in zip(frames, frames[1:], frames[2:], strict=False):
            if is_turn(turn.code.name, turn.code.filename) and is_callback(callback.code.name, callback.code.filename):
                try:
                    return self._of_task(outermost, state)
                except (UnreadableMemoryError, struct.error):
                    return []
        return []

    def _of_task(self, outermost: PythonFrame, state: int) -> list[PythonFrame]:
        """Return the frames that await the task whose outermost frame is known."""
        offsets = self._load_offsets()
        if offsets is None or not is_pointer(state):
            return []
        task = read_word(self._memory, state + offsets.running_task) & ~self._layout.tag_mask
        if not is_pointer(task):
            return []
        to_frame = outermost.address - read_word(self._memory, task + offsets.coroutine)
        frames: list[PythonFrame] = []
        if not 0 < to_frame <= _LARGEST_COROUTINE:
            return []
        for _ in range(_MOST_AWAITING):
            task = self._awaiting_one(task, offsets)
            if not task:
                break
            if self._memory.read(task + offsets.is_task, 1) != b"\0":
                frames += self._of_coroutine(read_word(self._memory, task + offsets.coroutine), to_frame)
        return frames

    def _load_offsets(self) -> TaskOffsets | None:
        now = self._clock()
        if self._offsets is None and now >= self._search_again:
            self._search_again, self._pause = now + self._pause, 2 * self._pause
            self._offsets = decode_task_offsets(self.find_section())
        return self._offsets

    def _awaiting_one(self, task: int, offsets: TaskOffsets) -> int:
        """Return the only future or task that awaits one; 0 if there is none, or more than one."""
        address = read_word(self._memory, task + offsets.awaited_by)
        if not is_pointer(address) or self._memory.read(task + offsets.awaited_by_is_set, 1) == b"\0":
            return address if is_pointer(address) else 0
        used, mask, table = _SET.unpack(self._memory.read(address, _SET.size))
        if used != 1 or not 0 <= mask < _MOST_SLOTS or not is_pointer(table):
            return 0
        slots = self._memory.read(table, _SET_ENTRY * (mask + 1))
        keys = [key for (key, key_hash) in struct.iter_unpack("<Qq", slots) if is_pointer(key) and key_hash != -1]
        return keys[0] if len(keys) == 1 else 0

    def _of_coroutine(self, coroutine: int, to_frame: int) -> list[PythonFrame]:
        """Return the frames of a waiting coroutine and of the coroutines it awaits, innermost first."""
        layout = self._layout.frame
        frames: list[PythonFrame] = []
        kind = read_word(self._memory, coroutine + _TYPE) if is_pointer(coroutine) else 0
        while coroutine and len(frames) < _MOST_COROUTINES:
            data = self._memory.read(coroutine + to_frame, layout.size)
            frame = self._walker.frame_of(coroutine + to_frame, data)
            if frame is None:
                break
            frames.append(frame)
            coroutine = self._awaited(WORD.unpack_from(data, layout.stack_pointer)[0], kind)
        return frames[::-1]

    def _awaited(self, top: int, kind: int) -> int:
        """Return the coroutine that another one awaits, at the top of its stack, in 3.15 below an index; 0 if it awaits something else."""
        if not is_pointer(top):
            return 0
        for word in reversed(_TOP.unpack(self._memory.read(top - _TOP.size, _TOP.size))):
            value = word & ~self._layout.tag_mask
            if is_pointer(value) and read_word(self._memory, value + _TYPE) == kind:
                return int(value)
        return 0
