"""Read the names of Python's threads.

The kernel knows them only since 3.14, and truncates them. The module `threading` has a dictionary `_active` with all threads that were
started through it, by pthread_self(); each has its name in the attribute `_name`.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.memory import UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory
    from perfpy.interpreters.cpython.objects import Objects
    from perfpy.interpreters.cpython.threads import ThreadStates

_MODULE_DICT: Final = 16  # PyModuleObject.md_dict
_PAUSE: Final = 0.25  # seconds until the module is looked for again; doubled each time
_LONGEST_PAUSE: Final = 60.0
_MOST_INTERPRETERS: Final = 16


class PythonThreadNames:
    """The threads of one process.

    Args:
        memory: of the process.
        layout: of its objects.
        objects: its objects.
        states: its thread states.
        clock: returns seconds, monotonic.
    """

    def __init__(self, memory: Memory, layout: PythonLayout, objects: Objects, states: ThreadStates, clock: Callable[[], float]) -> None:
        self._memory = memory
        self._layout = layout
        self._objects = objects
        self._states = states
        self._clock = clock
        self._active: list[int] = []  # the dictionaries of all interpreters
        self._search_again = 0.0
        self._pause = _PAUSE

    def find(self, state: int) -> str:
        """Return the name of the thread with a state at an address; "" without one."""
        if self._layout.is_free_threaded or self._layout.runtime.modules == NONE or not is_pointer(state):
            return ""
        if not self._active and self._clock() >= self._search_again:
            self._active = self._find_active()
            self._search_again, self._pause = self._clock() + self._pause, min(2 * self._pause, _LONGEST_PAUSE)
        try:
            identity = read_word(self._memory, state + self._layout.thread.thread_id)
        except UnreadableMemoryError:
            return ""
        for dictionary in self._active:
            try:
                thread = self._objects.find_number(dictionary, identity)
                if is_pointer(thread) and (name := self._objects.attribute(thread, "_name")):
                    return self._objects.text(name)
            except (UnreadableMemoryError, ValueError, struct.error):
                continue
        return ""

    def _find_active(self) -> list[int]:
        dictionaries = []
        try:
            for _, interpreter in zip(range(_MOST_INTERPRETERS), self._states.interpreters(), strict=False):
                modules = read_word(self._memory, interpreter + self._layout.runtime.modules)
                module = self._objects.find(modules, "threading") if modules else 0
                active = self._objects.find(read_word(self._memory, module + _MODULE_DICT), "_active") if module else 0
                if active:
                    dictionaries.append(active)
        except (UnreadableMemoryError, ValueError, struct.error):
            pass
        return dictionaries
