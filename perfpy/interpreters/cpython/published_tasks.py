"""Read which future or task awaits an asyncio task, as CPython 3.14 and later publish it.

The thread state has the running task, and each future and task the one that awaits it. The module _asyncio publishes the offsets in its
section .AsyncioDebug: u64 numbers, in the order of _FIELDS (Modules/_asynciomodule.c, Py_AsyncioModuleDebugOffsets).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.interpreters.cpython.memory import is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.interpreters.cpython.frames import PythonFrame
    from perfpy.interpreters.cpython.memory import Memory

_FIELDS: Final = (
    *("task.size", "task.name", "task.awaited_by", "task.is_task", "task.awaited_by_is_set", "task.coroutine", "task.node"),
    *("interpreter.size", "interpreter.tasks_head", "thread.size", "thread.running_loop", "thread.running_task"),
)
_LARGEST: Final = 1 << 16  # of an offset
_SET: Final = struct.Struct("<24xqqQ")  # PySetObject.used, mask, table
_SET_ENTRY: Final = 16  # bytes: key, hash
_MOST_SLOTS: Final = 1 << 10
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


class PublishedTasks:
    """The tasks of one process; a task_callbacks.Tasks.

    Args:
        memory: of the process.
        tag_mask: the tag bits of references.
        find_section: returns the bytes of the section; b"" as long as the module is not loaded.
        clock: returns seconds, monotonic.
    """

    def __init__(self, memory: Memory, tag_mask: int, find_section: Callable[[], bytes], clock: Callable[[], float]) -> None:
        self._memory = memory
        self._tag_mask = tag_mask
        self._find_section = find_section
        self._clock = clock
        self._offsets: TaskOffsets | None = None
        self._search_again = 0.0
        self._pause = _PAUSE

    @property
    def is_known(self) -> bool:
        """Whether the tasks of this process can be read."""
        return self._offsets is not None

    def running(self, state: int, callback: PythonFrame) -> int:
        """Return the task that a thread runs; 0 without one. callback: not needed here."""
        del callback
        now = self._clock()
        if self._offsets is None and now >= self._search_again:
            self._search_again, self._pause = now + self._pause, 2 * self._pause
            self._offsets = decode_task_offsets(self._find_section())
        if self._offsets is None or not is_pointer(state):
            return 0
        task = read_word(self._memory, state + self._offsets.running_task) & ~self._tag_mask
        return task if is_pointer(task) else 0

    def coroutine(self, future: int) -> int:
        """Return the coroutine of a task; 0 for other futures."""
        if self._offsets is None or self._memory.read(future + self._offsets.is_task, 1) == b"\0":
            return 0
        return read_word(self._memory, future + self._offsets.coroutine)

    def awaiting_one(self, future: int) -> int:
        """Return the only future or task that awaits one; 0 if there is none, or more than one."""
        offsets = self._offsets
        address = read_word(self._memory, future + offsets.awaited_by) if offsets else 0
        if not offsets or not is_pointer(address):
            return 0
        if self._memory.read(future + offsets.awaited_by_is_set, 1) == b"\0":
            return address
        used, mask, table = _SET.unpack(self._memory.read(address, _SET.size))
        if used != 1 or not 0 <= mask < _MOST_SLOTS or not is_pointer(table):
            return 0
        slots = self._memory.read(table, _SET_ENTRY * (mask + 1))
        keys = [key for (key, key_hash) in struct.iter_unpack("<Qq", slots) if is_pointer(key) and key_hash != -1]
        return keys[0] if len(keys) == 1 else 0
