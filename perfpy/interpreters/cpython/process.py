"""Read the Python frames of one process's threads from its memory.

A thread's state is searched once and cached, as long as it still has the thread's number.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.interpreters.cpython.awaiting_tasks import AwaitingTasks
from perfpy.interpreters.cpython.code_objects import Codes
from perfpy.interpreters.cpython.debug_offsets import COOKIE, SIZE, decode
from perfpy.interpreters.cpython.event_loops import EventLoops
from perfpy.interpreters.cpython.frames import MOST_FRAMES, FrameWalker, ThreadFrames
from perfpy.interpreters.cpython.layouts import LAYOUTS, NONE, PythonLayout
from perfpy.interpreters.cpython.memory import UnreadableMemoryError, is_pointer, read_word
from perfpy.interpreters.cpython.objects import Objects
from perfpy.interpreters.cpython.thread_names import PythonThreadNames
from perfpy.interpreters.cpython.threads import ThreadStates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.interpreters.cpython.memory import Memory

_ATTEMPTS: Final = 3
_PAUSE: Final = 0.05  # seconds until thread states are listed again for a thread without one


def layout_of(memory: Memory, runtime: int, version: tuple[int, int]) -> PythonLayout:
    """Return the layout of a runtime, from its description or by its version. Raises ValueError for unsupported versions."""
    data = memory.read(runtime, SIZE)
    if data.startswith(COOKIE):
        return decode(data)
    if version not in LAYOUTS:
        raise ValueError("Python {}.{} is not known here".format(*version))
    return LAYOUTS[version]


class PythonProcess:
    """The interpreters of one process. Raises UnreadableMemoryError, or ValueError for unsupported versions.

    Args:
        memory: of the process.
        runtime: the address of _PyRuntime.
        version: (0, 0) if the runtime must describe itself.
        clock: returns seconds, monotonic.
        numbers: yields the numbers of code objects.
    """

    def __init__(
        self, memory: Memory, runtime: int, version: tuple[int, int], clock: Callable[[], float], numbers: Iterator[int] | None = None
    ) -> None:
        self._memory = memory
        self._clock = clock
        self.layout = layout_of(memory, runtime, version)
        self.states = ThreadStates(memory, runtime, self.layout)
        objects = Objects(memory, self.layout)
        self.codes = Codes(memory, self.layout, objects, clock, numbers)
        self.event_loops = EventLoops(memory, self.layout, self.codes)
        self._names = PythonThreadNames(memory, self.layout, objects, self.states, clock)
        self._walker = FrameWalker(memory, self.layout, self.codes)
        self.awaiting_tasks = AwaitingTasks(memory, self.layout, self._walker, self.codes, objects, clock)
        self._state_of: dict[int, int] = {}
        self._listed = -1.0

    @property
    def needs_stack_pointer(self) -> bool:
        """Whether thread states lack the number of their thread."""
        return self.layout.thread.native_id == NONE

    def frames(self, tid: int, stack_pointer: int = 0, *, is_main: bool = False) -> ThreadFrames | None:
        """Return the frames of a thread; None without a thread state. Raises UnreadableMemoryError.

        Args:
            tid: in the process's own pid namespace.
            stack_pointer: identifies the thread before 3.11.
            is_main: whether it is the main thread.
        """
        frames: ThreadFrames | None = None
        for _ in range(_ATTEMPTS):  # a chain that its thread changes during the reading is read again
            state = self._state(tid, stack_pointer, is_main=is_main)
            if state is None:
                return frames
            address, data = state
            frames = self._walker.frames(data, address)
            if frames.is_whole or len(frames.frames) >= MOST_FRAMES:
                break
        return frames

    def frames_of_words(self, words: Iterable[tuple[int, int, int, int]], *, is_whole: bool) -> ThreadFrames:
        """Return frames that were copied while their thread stood still (FrameWalker.frames_of_words)."""
        return self._walker.frames_of_words(words, is_whole=is_whole)

    def state_address(self, tid: int) -> int:
        """Return the address of the state of a thread whose frames were read; 0 if there is none."""
        return self._state_of.get(tid, 0)

    def thread_name(self, tid: int) -> str:
        """Return the Python name of a thread whose frames were read; "" without one."""
        return self._names.find(self.state_address(tid))

    def thread_of_state(self, address: int) -> int:
        """Return the number of the thread with a state; 0 before Python 3.11, and if it cannot be read."""
        offset = self.layout.thread.native_id
        if offset == NONE or not is_pointer(address):
            return 0
        try:
            return read_word(self._memory, address + offset)
        except UnreadableMemoryError:
            return 0

    def _state(self, tid: int, stack_pointer: int, *, is_main: bool) -> tuple[int, bytes] | None:
        address = self._state_of.get(tid)
        if address is not None:
            data = self._read(address)
            if data is not None and self._belongs(data, tid):
                return address, data
            del self._state_of[tid]
        address = self._find(tid, stack_pointer, is_main=is_main)
        data = self._read(address) if address else None
        if not address or data is None:
            return None
        self._state_of[tid] = address
        return address, data

    def _read(self, address: int) -> bytes | None:
        try:
            return self._memory.read(address, self.layout.thread.size)
        except UnreadableMemoryError:
            return None

    def _belongs(self, data: bytes, tid: int) -> bool:
        offset = self.layout.thread.native_id
        return offset == NONE or struct.unpack_from("<Q", data, offset)[0] == tid

    def _find(self, tid: int, stack_pointer: int, *, is_main: bool) -> int:
        if self.layout.thread.native_id == NONE:
            return self.states.by_stack(stack_pointer, is_main=is_main)
        now = self._clock()
        if now - self._listed < _PAUSE:
            return 0
        self._listed = now
        self._state_of = self.states.by_native_id()
        return self._state_of.get(tid, 0)
