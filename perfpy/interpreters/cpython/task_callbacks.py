"""Read which future or task awaits an asyncio task before CPython 3.14, by the callbacks that each future has for its end.

A coroutine that awaits a task has its own task's wake-up among the callbacks, and that task refers to the awaited one in fut_waiter.
gather(), wait(), wait_for() and shield() put a future of their own between the two, to which their callback refers, and TaskGroup
refers to its parent task. The running task is the one whose step or wake-up the event loop's Handle has. Layouts:
Modules/_asynciomodule.c (FutureObj, TaskObj, TaskStepMethWrapper), Include/cpython/{funcobject,methodobject,classobject}.h; they are
the same in all releases of a minor version.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.memory import WORD, UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from perfpy.interpreters.cpython.code_objects import CodeObject, Codes
    from perfpy.interpreters.cpython.frames import PythonFrame
    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory
    from perfpy.interpreters.cpython.objects import Objects

_TYPE: Final = 8  # PyObject.ob_type
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
        """Return the task that a thread runs; 0 without one.

        Args:
            state: of the thread.
            callback: the frame of Handle._run.
        """

    def coroutine(self, future: int) -> int:
        """Return the coroutine of a task; 0 for other futures."""

    def awaiting_one(self, future: int) -> int:
        """Return the only future or task that awaits one; 0 if there is none, or more than one."""


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
        """Return the task that a thread runs; 0 without one. state: not needed here."""
        del state
        handle = read_word(self._memory, callback.address + self._layout.frame.variables)  # self
        if not self._offsets or not is_pointer(handle):
            return 0
        step = read_word(self._memory, handle + _HANDLE_CALLBACK)
        task = self._field(step, _FIRST) if self._type_name(step) == "TaskStepMethWrapper" else self._woken_by(step)
        return task if self._is(task, "Task") else 0

    def coroutine(self, future: int) -> int:
        """Return the coroutine of a task; 0 for other futures."""
        return self._field(future, self._offsets.coroutine) if self._offsets and self._is(future, "Task") else 0

    def awaiting_one(self, future: int) -> int:
        """Return the only future or task that awaits one; 0 if there is none, or more than one."""
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
        """Return the future or task that a callback of a future serves; 0 for other callbacks."""
        assert self._offsets is not None
        kind = self._type_name(callback)
        task = self._woken_by(callback)
        if task:
            return task if self._is(task, "Task") and self._field(task, self._offsets.waits_for) == future else 0
        awaiting = 0
        if kind == "function":
            awaiting = self._in_closure(callback)
        elif kind == "partial" and self._function_name(self._field(callback, _FIRST), _TASKS_FILE) == _RELEASE:
            awaiting = self._first_item(self._field(callback, _SECOND))
        elif kind == "method" and self._function_name(self._field(callback, _FIRST), _GROUPS_FILE) == _GROUP_CALLBACK:
            awaiting = self._objects.attribute(self._field(callback, _SECOND), _PARENT)
        return awaiting if self._is(awaiting, "Future", "Task") else 0

    def _woken_by(self, callback: int) -> int:
        """Return the task that a callback wakes up; 0 for other callbacks."""
        kind = self._type_name(callback)
        if kind == "TaskWakeupMethWrapper":
            return self._field(callback, _FIRST)
        if kind != "builtin_function_or_method":
            return 0
        name = self._field(self._field(callback, _FIRST), 0, is_aligned=False)  # PyMethodDef.ml_name
        is_wake_up = name > _LONGEST_NAME and self._memory.read(name, len(_WAKE_UP) + 1) == _WAKE_UP + b"\0"
        return self._field(callback, _SECOND) if is_wake_up else 0

    def _in_closure(self, function: int) -> int:
        """Return the future in the variable of a function within gather(), wait() or shield(); 0 for other functions."""
        assert self._offsets is not None
        variable = _VARIABLES.get(self._function_name(function, _TASKS_FILE))
        closure = self._field(function, self._offsets.closure) if variable else 0
        count = self._field(closure, _SIZE, is_aligned=False) if closure and self._type_name(closure) == "tuple" else 0
        code = self._codes.find(self._field(function, self._offsets.code))
        if not variable or not 0 < count <= _MOST_CELLS or code is None:
            return 0
        if code.number not in self._positions:
            names = self._closure_names(code, count)
            self._positions[code.number] = names.index(variable) if variable in names else NONE
        position = self._positions[code.number]
        cell = self._field(closure, _TUPLE_ITEMS + WORD.size * position) if 0 <= position < count else 0
        return self._field(cell, _FIRST) if self._type_name(cell) == "cell" else 0

    def _closure_names(self, code: CodeObject, count: int) -> list[str]:
        """Return the names of the variables in a function's closure; since 3.11 they are the last ones of all its variables."""
        assert self._offsets is not None
        field = self._layout.code.variables if self._layout.has_data_stack else self._offsets.free_variables
        return self._codes.names_in(self._field(code.address, field), count)

    def _first_item(self, items: int) -> int:
        is_tuple = self._type_name(items) == "tuple" and self._field(items, _SIZE, is_aligned=False) > 0
        return self._field(items, _TUPLE_ITEMS) if is_tuple else 0

    def _function_name(self, function: int, file: str) -> str:
        """Return the name of a Python function of a file; "" for others."""
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
        """Return the name of an object's type without its module; "" if there is none."""
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
        """Return a word of an object; 0 without an object, and if the word should be the address of one and is none."""
        value = read_word(self._memory, address + offset) if is_pointer(address) else 0
        return value if is_pointer(value) or not is_aligned else 0
