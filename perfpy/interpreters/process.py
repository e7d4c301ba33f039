"""Read the Python frames of one process's threads from its memory.

A thread's state is searched once and cached, as long as it still has the thread's number.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple
from perfpy.interpreters.frames import MOST_FRAMES, CalledNames, Codes, FrameWalker, ThreadFrames
from perfpy.interpreters.layouts import COOKIE, LAYOUTS, NONE, SIZE, PythonLayout, decode
from perfpy.interpreters.objects import WORD, Objects, UnreadableMemoryError, is_pointer, read_word
from perfpy.interpreters.tasks import AwaitingTasks, EventLoops

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from perfpy.interpreters.frames import PythonFrame
    from perfpy.interpreters.objects import Memory


_ATTEMPTS: Final = 3
_MOST_VARIABLES: Final = 32  # of a frame
_STACK_WORDS: Final = 16  # of a frame's stack that are read
_STACK_SIZE: Final = 32  # PyCodeObject.co_stacksize, up to 3.10
_VALUE_STACK: Final = 64  # PyFrameObject.f_valuestack, up to 3.10
_BLOCKS: Final = 240  # bytes of f_blockstack before the variables, each int b_type, b_handler, b_level; before it int f_iblock; up to 3.10
_MOST_BLOCKS: Final = 20
_LARGEST_TABLE: Final = 1 << 16  # bytes of co_exceptiontable, which follows co_names since 3.11
_METHOD: Final = "builtin_function_or_method"
_LOCK_TYPES: Final = ("_thread.lock", "_thread.RLock")
_EXIT: Final = b"__exit__"
_LOCKED_BY: Final = struct.Struct("<q8xQQ")  # PyObject.ob_refcnt; lock_lock of a lock, or m_ml of a method; rlock_owner, or m_self
_PAUSE: Final = 0.05  # seconds until thread states are listed again for a thread without one


class LockReference(NamedTuple):
    """A lock that a frame of Python leads to.

    Attributes:
        semaphore: the address at which threads wait for it.
        owner: the thread_id of the thread that holds an RLock; 0 for other locks.
        kind: the name of its type.
        is_entered: whether the frame is in the body of a `with` statement for it.
    """

    semaphore: int
    owner: int
    kind: str
    is_entered: bool


def varints(data: bytes) -> list[int]:
    """Return the numbers of an exception table, six bits a byte, the most significant first (Objects/exception_handling_notes.txt).

    >>> varints(bytes([0x80 | 5, 0x41, 2, 7]))
    [5, 66, 7]
    """
    numbers: list[int] = []
    value = 0
    for byte in data:
        value = value << 6 | byte & 0x3F
        if not byte & 0x40:
            numbers.append(value)
            value = 0
    return numbers


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
        self._objects = objects = Objects(memory, self.layout)
        self.codes = Codes(memory, self.layout, objects, clock, numbers)
        self.called_names = CalledNames(memory, self.layout, objects)
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
        """Return the frames of a thread, or None without a thread state. Raises UnreadableMemoryError.

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
        """Return the address of the state of a thread whose frames were read, or 0 if there is none."""
        return self._state_of.get(tid, 0)

    def thread_id(self, tid: int) -> int:
        """Return the number by which Python knows a thread whose frames were read (threading.get_ident()), 0 without a state."""
        address = self.state_address(tid)
        return read_word(self._memory, address + self.layout.thread.thread_id) if address else 0

    def thread_name(self, tid: int) -> str:
        """Return the Python name of a thread whose frames were read, or "" without one."""
        return self._names.find(self.state_address(tid))

    def variables(self, frame: PythonFrame) -> list[tuple[str, str]]:
        """Return the names and the values, as text, of a frame's local variables that have a value.

        The thread may run meanwhile, so a value can be of another moment, or "?".
        """
        first = frame.address + self.layout.frame.variables
        names = self.codes.variable_names(frame.code)[:_MOST_VARIABLES] if self.layout.frame.variables != NONE else []
        try:
            words = struct.unpack(f"<{len(names)}Q", self._memory.read(first, 8 * len(names)))
        except UnreadableMemoryError:
            return []
        return [(name, self._objects.describe(word)) for name, word in zip(names, words, strict=True) if word & ~self.layout.tag_mask]

    def locks(self, frame: PythonFrame, semaphores: Collection[int]) -> list[LockReference]:
        """Return the locks that a frame's variables and its stack lead to, if threads wait at one of these addresses for them.

        A thread in the body of `with lock:` has the bound method lock.__exit__ on its stack. Since 3.14 locks have no semaphore.
        """
        layout = self.layout.frame
        if layout.variables == NONE or self.layout.version >= (3, 14):
            return []
        first, code = frame.address + layout.variables, frame.code
        count = len(self.codes.variable_names(code)[:_MOST_VARIABLES])
        try:
            if self.layout.has_data_stack:  # the stack follows the variables
                stack, depth = first + 8 * count, (code.frame_size - layout.variables) // 8 - count
            else:
                stack = read_word(self._memory, frame.address + _VALUE_STACK)
                (depth,) = struct.unpack("<i", self._memory.read(code.address + _STACK_SIZE, 4))
            values = self._words(first, count) + self._words(stack, min(depth, _STACK_WORDS))
            entered = count + self._kept_by_blocks(frame)
        except UnreadableMemoryError:
            return []
        found = {word: self._lock(word, semaphores, is_kept=number < entered) for number, word in reversed([*enumerate(values)])}
        return [lock for lock in found.values() if lock is not None]

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{max(count, 0)}Q", self._memory.read(address, 8 * max(count, 0)))

    def _kept_by_blocks(self, frame: PythonFrame) -> int:
        """Return how many values of a frame's stack the blocks around its instruction keep: those of `with`, `try` and loops."""
        if not self.layout.has_data_stack:
            count = min(read_word(self._memory, frame.address + self.layout.frame.variables - _BLOCKS - 8) & 0xFFFFFFFF, _MOST_BLOCKS)
            blocks = self._memory.read(frame.address + self.layout.frame.variables - _BLOCKS, 12 * count)
            return struct.unpack_from("<i", blocks, 12 * count - 4)[0] if count else 0
        table = read_word(self._memory, frame.code.address + self.layout.code_names + 8)
        size = min(read_word(self._memory, table + self.layout.shift + 16), _LARGEST_TABLE) if is_pointer(table) else 0
        numbers = varints(self._memory.read(table + self.layout.shift + 32, size))
        entries = zip(numbers[::4], numbers[1::4], numbers[3::4], strict=False)
        return max((depth >> 1 for begin, length, depth in entries if begin <= frame.offset // 2 < begin + length), default=0)

    def _lock(self, address: int, semaphores: Collection[int], *, is_kept: bool) -> LockReference | None:
        """Return the lock at an address, or that of the bound method there; None for other objects.

        is_kept: whether a block of the code needs the object on the stack.
        """
        shift = self.layout.shift
        try:
            if not is_pointer(address):
                return None
            references, semaphore, owner = _LOCKED_BY.unpack(self._memory.read(address + shift, _LOCKED_BY.size))
            lock, method = address, 0
            if semaphore not in semaphores and is_pointer(owner):
                lock, method = owner, semaphore
                _, semaphore, owner = _LOCKED_BY.unpack(self._memory.read(lock + shift, _LOCKED_BY.size))
            if semaphore not in semaphores or references <= 0 or (kind := self._objects.type_name(lock)) not in _LOCK_TYPES:
                return None
            is_exit = bool(method) and self._objects.type_name(address) == _METHOD and self._method_name(method) == _EXIT
        except UnreadableMemoryError:
            return None
        return LockReference(semaphore, owner if kind == _LOCK_TYPES[1] else 0, kind.rpartition(".")[2], is_exit and is_kept)

    def _method_name(self, definition: int) -> bytes:
        """Return the beginning of the name in a PyMethodDef."""
        return self._memory.read(read_word(self._memory, definition), len(_EXIT)) if is_pointer(definition) else b""

    def thread_of_state(self, address: int) -> int:
        """Return the number of the thread with a state, or 0 before Python 3.11, and if it cannot be read."""
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
        if now - self._listed >= _PAUSE:
            self._listed = now
            self._state_of = self.states.by_native_id()
        else:
            self._state_of |= self.states.newer_by_native_id(self._state_of)
        return self._state_of.get(tid, 0)


# Find the thread state of a kernel thread. Since 3.11 a state has the thread's number in the process's own pid namespace. Earlier states
# only have pthread_self(), which is at the upper end of the thread's stack: the nearest one above the stack pointer belongs to the
# thread. The main thread's stack is elsewhere; its state is the oldest.

_MOST_INTERPRETERS: Final = 256
_MOST_THREADS: Final = 8192
_MOST_NEWER: Final = 64  # threads that start within the pause between two lists
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

    def newer_by_native_id(self, known: dict[int, int]) -> dict[int, int]:
        """Return the states that are newer than all known ones, by the numbers of their threads; empty before 3.11.

        The state of a thread that is just starting has the number of the thread that started it, which is known.
        """
        offset, states, newer = self._layout.thread.native_id, set(known.values()), dict[int, int]()
        for state, data in self.all() if offset != NONE else ():  # newest first
            if state in states or len(newer) == _MOST_NEWER:
                break
            newer[WORD.unpack_from(data, offset)[0]] = state
        return {tid: state for tid, state in newer.items() if tid not in known}

    def by_stack(self, stack_pointer: int, *, is_main: bool) -> int:
        """Return the state of the thread whose stack contains an address, or 0 if there is none.

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


# Read the names of Python's threads. The kernel knows them only since 3.14, and truncates them. The module `threading` has a dictionary
# `_active` with all threads that were started through it, by pthread_self(); each has its name in the attribute `_name`.

_MODULE_DICT: Final = 16  # PyModuleObject.md_dict
_FIRST_PAUSE: Final = 0.25  # seconds until the module is looked for again; doubled each time
_LONGEST_PAUSE: Final = 60.0
_INTERPRETERS_SEARCHED: Final = 16


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
        self._pause = _FIRST_PAUSE

    def find(self, state: int) -> str:
        """Return the name of the thread with a state at an address, or "" without one."""
        if self._layout.runtime.modules == NONE or not is_pointer(state):
            return ""
        if not self._active and self._clock() >= self._search_again:
            dictionaries = []
            try:
                for _, interpreter in zip(range(_INTERPRETERS_SEARCHED), self._states.interpreters(), strict=False):
                    modules = read_word(self._memory, interpreter + self._layout.runtime.modules)
                    module = self._objects.find(modules, "threading") if modules else 0
                    active = (
                        self._objects.find(read_word(self._memory, module + self._layout.shift + _MODULE_DICT), "_active") if module else 0
                    )
                    if active:
                        dictionaries.append(active)
            except (UnreadableMemoryError, ValueError, struct.error):
                pass
            self._active = dictionaries
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
