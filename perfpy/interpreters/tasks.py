"""Read which coroutines await the asyncio task that a thread runs.

published_tasks (since 3.14) and task_callbacks (before) lead from a task to the one that awaits it. A task has a coroutine; the
frame of a coroutine that waits has the coroutine it awaits on its stack.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol

from perfpy.abi.light_types import NamedTuple
from perfpy.interpreters.layouts import NONE
from perfpy.interpreters.objects import WORD, UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from perfpy.interpreters.frames import Codes, FrameWalker, PythonFrame
    from perfpy.interpreters.layouts import PythonLayout
    from perfpy.interpreters.objects import Memory, Objects


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
        """Return the end of the stack of a waiting frame, whose bytes were read, or 0 without values."""
        layout = self._layout.frame
        if layout.stack_pointer != NONE:
            return int(WORD.unpack_from(data, layout.stack_pointer)[0])
        (depth,) = struct.unpack_from("<i", data, layout.stack_depth)
        bottom = address + layout.variables if layout.stack == NONE else WORD.unpack_from(data, layout.stack)[0]
        return bottom + WORD.size * depth if 0 < depth < _DEEPEST else 0

    def _awaited(self, top: int, kind: int) -> int:
        """Return the coroutine that another one awaits, at the top of its stack, in 3.15 below an index, or 0 for anything else."""
        if not is_pointer(top):
            return 0
        below, value = (word & ~self._layout.tag_mask for word in _TOP.unpack(self._memory.read(top - _TOP.size, _TOP.size)))
        if self._layout.version >= (3, 15) and not is_pointer(value):
            value = below
        return int(value) if is_pointer(value) and read_word(self._memory, value + _TYPE) == kind else 0


# Read which future or task awaits an asyncio task, as CPython 3.14 and later publish it. The thread state has the running task, and each
# future and task the one that awaits it. The module _asyncio publishes the offsets in its section .AsyncioDebug: u64 numbers, in the
# order of _FIELDS (Modules/_asynciomodule.c, Py_AsyncioModuleDebugOffsets).

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
    """Return the offsets in a section, or None if they make no sense."""
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
        """Return the task that a thread runs, or 0 without one. callback: not needed here."""
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
        """Return the coroutine of a task, or 0 for other futures."""
        if self._offsets is None or self._memory.read(future + self._offsets.is_task, 1) == b"\0":
            return 0
        return read_word(self._memory, future + self._offsets.coroutine)

    def awaiting_one(self, future: int) -> int:
        """Return the only future or task that awaits one, or 0 if there is none, or more than one."""
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


# Read which future or task awaits an asyncio task before CPython 3.14, by the callbacks that each future has for its end. A coroutine
# that awaits a task has its own task's wake-up among the callbacks, and that task refers to the awaited one in fut_waiter. gather(),
# wait(), wait_for() and shield() put a future of their own between the two, to which their callback refers, and TaskGroup refers to its
# parent task. The running task is the one whose step or wake-up the event loop's Handle has. Layouts: Modules/_asynciomodule.c
# (FutureObj, TaskObj, TaskStepMethWrapper), Include/cpython/{funcobject,methodobject,classobject}.h; they are the same in all releases of
# a minor version.

_SIZE: Final = 16  # PyVarObject.ob_size
_TYPE_NAME: Final = 24  # PyTypeObject.tp_name
_BASE: Final = 256  # PyTypeObject.tp_base
_LONGEST_NAME: Final = 32
_MOST_BASES: Final = 8
_MOST_TYPES: Final = 1 << 10
_HANDLE_CALLBACK: Final = 24  # asyncio's Handle has slots, which are in the order of their names
_FUTURE: Final = struct.Struct("<24xQ8xQ")  # FutureObj.fut_callback0, fut_callbacks
_LIST: Final = struct.Struct("<16xqQ")  # PyListObject.ob_size, ob_item
_TUPLE_ITEMS: Final = 24
_FIRST: Final = 16  # the first field: PyCFunction.m_ml, PyMethod.im_func, partial.fn, the task of a step, the value of a cell
_SECOND: Final = 24  # PyCFunction.m_self, PyMethod.im_self, partial.args
_MOST_CALLBACKS: Final = 8
_MOST_CELLS: Final = 16
_WAKE_UP: Final = b"task_wakeup"
_TASKS_FILE: Final = "/asyncio/tasks.py"
_GROUPS_FILE: Final = "/asyncio/taskgroups.py"
#: functions within gather(), wait() and shield(), and their variable with the future in between
_VARIABLES: Final = {"_done_callback": "outer", "_on_completion": "waiter", "_inner_done_callback": "outer"}
_RELEASE: Final = "_release_waiter"  # of wait_for()
_GROUP_CALLBACK: Final = "_on_task_done"
_PARENT: Final = "_parent_task"  # TaskGroup's attribute


class Tasks(Protocol):
    """The asyncio tasks of a process. All functions raise UnreadableMemoryError."""

    @property
    def is_known(self) -> bool:
        """Whether the tasks of this process can be read."""

    def running(self, state: int, callback: PythonFrame) -> int:
        """Return the task that a thread runs, or 0 without one.

        Args:
            state: of the thread.
            callback: the frame of Handle._run.
        """

    def coroutine(self, future: int) -> int:
        """Return the coroutine of a task, or 0 for other futures."""

    def awaiting_one(self, future: int) -> int:
        """Return the only future or task that awaits one, or 0 if there is none, or more than one."""


class _Offsets(NamedTuple):
    """Of TaskObj.task_fut_waiter and task_coro, PyFunctionObject.func_code and func_closure, and PyCodeObject.co_freevars (before 3.11)."""

    waits_for: int
    coroutine: int
    code: int = 48
    closure: int = 72
    free_variables: int = 80


_OFFSETS: Final = {
    (3, 8): _Offsets(104, 112, 16, 48),
    (3, 9): _Offsets(144, 152, 16, 48),
    (3, 10): _Offsets(152, 160),
    (3, 11): _Offsets(128, 136),
    (3, 12): _Offsets(128, 136),
    (3, 13): _Offsets(112, 120),
}


class TaskCallbacks:
    """The tasks of one process; a Tasks.

    Args:
        memory: of the process.
        layout: of its objects.
        codes: its code objects.
        objects: its other objects.
    """

    def __init__(self, memory: Memory, layout: PythonLayout, codes: Codes, objects: Objects) -> None:
        self._memory = memory
        self._layout = layout
        self._codes = codes
        self._objects = objects
        self._offsets = _OFFSETS.get(layout.version)
        self._type_names: dict[int, str] = {}
        self._positions: dict[int, int] = {}  # by number of the code: of the variable in the closure; NONE without it

    @property
    def is_known(self) -> bool:
        """Whether the tasks of this process can be read."""
        return self._offsets is not None

    def running(self, state: int, callback: PythonFrame) -> int:
        """Return the task that a thread runs, or 0 without one. state: not needed here."""
        del state
        handle = read_word(self._memory, callback.address + self._layout.frame.variables)  # self
        if not self._offsets or not is_pointer(handle):
            return 0
        step = read_word(self._memory, handle + _HANDLE_CALLBACK)
        task = self._field(step, _FIRST) if self._type_name(step) == "TaskStepMethWrapper" else self._woken_by(step)
        return task if self._is(task, "Task") else 0

    def coroutine(self, future: int) -> int:
        """Return the coroutine of a task, or 0 for other futures."""
        return self._field(future, self._offsets.coroutine) if self._offsets and self._is(future, "Task") else 0

    def awaiting_one(self, future: int) -> int:
        """Return the only future or task that awaits one, or 0 if there is none, or more than one."""
        callbacks = self._callbacks(future) if self._is(future, "Future", "Task") else []
        awaiting = {self._awaiting(callback, future) for callback in callbacks} - {0}
        return awaiting.pop() if len(awaiting) == 1 else 0

    def _callbacks(self, future: int) -> list[int]:
        first, others = _FUTURE.unpack(self._memory.read(future, _FUTURE.size))
        callbacks = [first] if is_pointer(first) else []
        if is_pointer(others) and self._type_name(others) == "list":
            size, items = _LIST.unpack(self._memory.read(others, _LIST.size))
            if 0 < size <= _MOST_CALLBACKS and is_pointer(items):
                pairs = WORD.iter_unpack(self._memory.read(items, 8 * size))
                callbacks += [self._field(pair, _TUPLE_ITEMS) for (pair,) in pairs if self._type_name(pair) == "tuple"]
        return callbacks

    def _awaiting(self, callback: int, future: int) -> int:
        """Return the future or task that a callback of a future serves, or 0 for other callbacks."""
        assert self._offsets is not None
        kind = self._type_name(callback)
        task = self._woken_by(callback)
        if task:
            return task if self._is(task, "Task") and self._field(task, self._offsets.waits_for) == future else 0
        awaiting = 0
        if kind == "function":
            awaiting = self._in_closure(callback)
        elif kind == "partial" and self._function_name(self._field(callback, _FIRST), _TASKS_FILE) == _RELEASE:
            items = self._field(callback, _SECOND)
            is_tuple = self._type_name(items) == "tuple" and self._field(items, _SIZE, is_aligned=False) > 0
            awaiting = self._field(items, _TUPLE_ITEMS) if is_tuple else 0
        elif kind == "method" and self._function_name(self._field(callback, _FIRST), _GROUPS_FILE) == _GROUP_CALLBACK:
            awaiting = self._objects.attribute(self._field(callback, _SECOND), _PARENT)
        return awaiting if self._is(awaiting, "Future", "Task") else 0

    def _woken_by(self, callback: int) -> int:
        """Return the task that a callback wakes up, or 0 for other callbacks."""
        kind = self._type_name(callback)
        if kind == "TaskWakeupMethWrapper":
            return self._field(callback, _FIRST)
        if kind != "builtin_function_or_method":
            return 0
        name = self._field(self._field(callback, _FIRST), 0, is_aligned=False)  # PyMethodDef.ml_name
        is_wake_up = name > _LONGEST_NAME and self._memory.read(name, len(_WAKE_UP) + 1) == _WAKE_UP + b"\0"
        return self._field(callback, _SECOND) if is_wake_up else 0

    def _in_closure(self, function: int) -> int:
        """Return the future in the variable of a function within gather(), wait() or shield(), or 0 for other functions."""
        assert self._offsets is not None
        variable = _VARIABLES.get(self._function_name(function, _TASKS_FILE))
        closure = self._field(function, self._offsets.closure) if variable else 0
        count = self._field(closure, _SIZE, is_aligned=False) if closure and self._type_name(closure) == "tuple" else 0
        code = self._codes.find(self._field(function, self._offsets.code))
        if not variable or not 0 < count <= _MOST_CELLS or code is None:
            return 0
        if code.number not in self._positions:
            assert self._offsets is not None
            field = self._layout.code.variables if self._layout.has_data_stack else self._offsets.free_variables
            names = self._codes.names_in(self._field(code.address, field), count)
            self._positions[code.number] = names.index(variable) if variable in names else NONE
        position = self._positions[code.number]
        cell = self._field(closure, _TUPLE_ITEMS + WORD.size * position) if 0 <= position < count else 0
        return self._field(cell, _FIRST) if self._type_name(cell) == "cell" else 0

    def _function_name(self, function: int, file: str) -> str:
        """Return the name of a Python function of a file, or "" for others."""
        if not self._offsets or self._type_name(function) != "function":
            return ""
        code = self._codes.find(self._field(function, self._offsets.code))
        return code.name.rpartition(".")[2] if code and code.filename.endswith(file) else ""

    def _is(self, address: int, *names: str) -> bool:
        """Whether an object belongs to one of these types of _asyncio or to a class derived from it."""
        kind = self._field(address, _TYPE) if is_pointer(address) else 0
        for _ in range(_MOST_BASES):
            if not kind or self._name_of(kind) in {f"_asyncio.{name}" for name in names}:
                return bool(kind)
            kind = self._field(kind, _BASE)
        return False

    def _type_name(self, address: int) -> str:
        """Return the name of an object's type without its module, or "" if there is none."""
        return self._name_of(self._field(address, _TYPE)).rpartition(".")[2] if is_pointer(address) else ""

    def _name_of(self, kind: int) -> str:
        if kind not in self._type_names:
            if len(self._type_names) >= _MOST_TYPES:
                self._type_names.clear()
            name = self._field(kind, _TYPE_NAME, is_aligned=False)
            self._type_names[kind] = self._text(name) if name > _LONGEST_NAME else ""
        return self._type_names[kind]

    def _text(self, address: int) -> str:
        """Read a C string; its memory may end soon after it."""
        for size in (_LONGEST_NAME, _LONGEST_NAME // 4):
            try:
                return self._memory.read(address, size).split(b"\0")[0].decode("ascii", "replace")
            except UnreadableMemoryError:
                continue
        return ""

    def _field(self, address: int, offset: int, *, is_aligned: bool = True) -> int:
        """Return a word of an object, or 0 without an object, and if the word should be the address of one and is none."""
        value = read_word(self._memory, address + offset) if is_pointer(address) else 0
        return value if is_pointer(value) or not is_aligned else 0


# Read how long an asyncio event loop has been running callbacks. Each turn of the loop (BaseEventLoop._run_once) waits for events, stores
# the time in its variable `end_time`, and runs all callbacks that are due. While it runs a callback (Handle._run), that variable tells
# when the turn's callbacks began, on the clock CLOCK_MONOTONIC. The loop serves nobody meanwhile. Loops that are not written in Python
# (uvloop) have no such variable.

_TURN: Final = ("_run_once", "BaseEventLoop._run_once")
_CALLBACK: Final = ("_run", "Handle._run")
_TURN_FILE: Final = "/asyncio/base_events.py"
_CALLBACK_FILE: Final = "/asyncio/events.py"
_BEGIN: Final = "end_time"
_FLOAT: Final = struct.Struct("<8xQd")  # PyFloatObject
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
        """Return when the callbacks of a thread's current turn began, in ns of CLOCK_MONOTONIC, or 0 if that is unknown.

        The frames may be older than the memory, which is read now: a turn that began after them is not theirs.

        Args:
            frames: of the thread, innermost first.
            moment: when they were current.
        """
        if self._layout.frame.variables == NONE:
            return 0
        for inner, frame in pairwise(frames):
            if is_turn(frame.code.name, frame.code.filename) and is_callback(inner.code.name, inner.code.filename):
                number = frame.code.number
                if number not in self._slots:
                    names = self._codes.variable_names(frame.code)
                    self._slots[number] = names.index(_BEGIN) if _BEGIN in names else NONE
                slot = self._slots[number]
                began = 0 if slot == NONE else self._nanoseconds(frame.address + self._layout.frame.variables + 8 * slot)
                return began if 0 <= moment - began < _LONGEST * 1_000_000_000 else 0
        return 0

    def _nanoseconds(self, variable: int) -> int:
        """Return the value of a variable that is a number of seconds, or 0 if it is none, or changes meanwhile."""
        try:
            value = read_word(self._memory, variable) & ~self._layout.tag_mask
            if not is_pointer(value):
                return 0
            kind, seconds = _FLOAT.unpack(self._memory.read(value + self._layout.shift, _FLOAT.size))
            # As long as the variable refers to the object, its memory is not reused.
            is_same = read_word(self._memory, variable) & ~self._layout.tag_mask == value
            return int(seconds * 1e9) if is_same and self._is_float(kind) and 0 < seconds < 1 << 32 else 0
        except UnreadableMemoryError:
            return 0

    def _is_float(self, kind: int) -> bool:
        if not self._float and is_pointer(kind):
            name = read_word(self._memory, kind + self._layout.shift + _TYPE_NAME)
            self._float = kind if self._memory.read(name, len(_FLOAT_NAME)) == _FLOAT_NAME else 0
        return kind == self._float != 0
