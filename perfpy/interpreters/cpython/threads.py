"""Find the thread state of a kernel thread.

Since 3.11 a state has the thread's number in the process's own pid namespace. Earlier states only have pthread_self(), which is at the
upper end of the thread's stack: the nearest one above the stack pointer belongs to the thread. The main thread's stack is elsewhere; its
state is the oldest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.interpreters.cpython.layouts import NONE
from perfpy.interpreters.cpython.memory import WORD, UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory

_MOST_INTERPRETERS: Final = 256
_MOST_THREADS: Final = 8192
_LARGEST_STACK: Final = 64 << 20  # bytes between a stack pointer and pthread_self()
_USUAL_STACK: Final = 8 << 20  # bytes of a thread's stack by default


class ThreadStates:
    """The thread states of one process. runtime: the address of _PyRuntime."""

    def __init__(self, memory: Memory, runtime: int, layout: PythonLayout) -> None:
        self._memory = memory
        self._runtime = runtime
        self._layout = layout

    def interpreters(self) -> Iterator[int]:
        """Yield the addresses of the interpreter states."""
        runtime = self._layout.runtime
        state, count = read_word(self._memory, self._runtime + runtime.interpreters), 0
        while is_pointer(state) and count < _MOST_INTERPRETERS:
            yield state
            state, count = read_word(self._memory, state + runtime.next_interpreter), count + 1

    def all(self) -> Iterator[tuple[int, bytes]]:
        """Yield the address and the bytes of each thread state. Unreadable memory ends an interpreter's list."""
        thread, threads_to_read = self._layout.thread, _MOST_THREADS
        for interpreter in self.interpreters():
            try:
                state = read_word(self._memory, interpreter + self._layout.runtime.threads)
                while is_pointer(state) and threads_to_read > 0:
                    data = self._memory.read(state, thread.size)
                    yield state, data
                    (state,), threads_to_read = WORD.unpack_from(data, thread.next), threads_to_read - 1
            except UnreadableMemoryError:
                continue

    def by_native_id(self) -> dict[int, int]:
        """Return the states by the numbers of their threads; empty before 3.11."""
        offset = self._layout.thread.native_id
        return {} if offset == NONE else {WORD.unpack_from(data, offset)[0]: state for state, data in self.all()}

    def by_stack(self, stack_pointer: int, *, is_main: bool) -> int:
        """Return the state of the thread whose stack contains an address; 0 if there is none.

        The state of a thread that is just starting has the identity of the thread that started it. Its stack is below that of another
        one, whose state it must not get: while two states have one identity, only addresses at the usual distance count.
        """
        offset = self._layout.thread.thread_id
        states = [(WORD.unpack_from(data, offset)[0], state) for state, data in self.all()]
        is_starting = len({ident for ident, _ in states}) < len(states)
        largest = _USUAL_STACK if is_starting else _LARGEST_STACK
        if is_main:  # states are listed newest first, and the main thread's is the oldest
            return states[-1][1] if states else 0
        above = [(ident, state) for ident, state in states if 0 <= ident - stack_pointer < largest]
        return min(above)[1] if above else 0

    def gil_addresses(self) -> tuple[int, int]:
        """Return the addresses of the GIL's last holder and of its locked flag in the main interpreter; zeros for builds without a GIL."""
        runtime = self._layout.runtime
        if self._layout.is_free_threaded:
            return 0, 0
        try:
            gil = self._runtime
            if runtime.gil:
                gil = read_word(self._memory, list(self.interpreters())[-1] + runtime.gil)  # the first interpreter is listed last
        except (UnreadableMemoryError, IndexError):
            return 0, 0
        return (gil + runtime.gil_holder, gil + runtime.gil_locked) if is_pointer(gil) else (0, 0)
