"""Offsets of the fields of CPython's structures, in bytes, by version.

The tables of 3.8 to 3.12 are facts of the public headers (Include/internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h,
Include/cpython/code.h) of 64-bit builds without Py_DEBUG. They hold for all releases of a minor version, whose ABI is fixed with the
release candidates. 3.13 and later describe themselves (debug_offsets).
"""

from __future__ import annotations

from typing import Final, NamedTuple

NONE: Final = -1  # a field that a version lacks


class RuntimeLayout(NamedTuple):
    """From _PyRuntime to thread states.

    Attributes:
        gil: the lock in _PyRuntime up to 3.11, a pointer to it in the interpreter later.
        modules: sys.modules in the interpreter.
    """

    interpreters: int
    next_interpreter: int
    threads: int
    gil: int
    gil_holder: int
    gil_locked: int
    modules: int = NONE


class ThreadLayout(NamedTuple):
    """PyThreadState. frame: the innermost frame, in cframe if there is one. native_id: NONE before 3.11."""

    size: int
    next: int
    frame: int
    cframe: int
    thread_id: int
    native_id: int
    chunk: int


class FrameLayout(NamedTuple):
    """_PyInterpreterFrame, PyFrameObject before 3.11.

    Attributes:
        instruction: a pointer; before 3.11 an int that counts bytes (3.8, 3.9) or units of two (3.10).
        is_entry: 3.11 only.
        shims: the least owner of frames that stand for calls from C and run no code.
        variables: the first local variable.
        stack_pointer: the end of a waiting frame's stack.
        stack_depth: otherwise an int, the number of values from the beginning of the stack.
        stack: the beginning of the stack; NONE: the first variable.
    """

    size: int
    previous: int
    code: int
    instruction: int
    owner: int
    is_entry: int
    shims: int
    variables: int = NONE
    stack_pointer: int = NONE
    stack_depth: int = NONE
    stack: int = NONE


class CodeLayout(NamedTuple):
    """PyCodeObject.

    Attributes:
        code: the start of the instructions; before 3.11 a pointer to a bytes object with them.
        variables: the tuple with the names of local variables.
        frame_sizes: ints whose sum, plus `frame_extra`, is the number of words of a frame on the data stack.
    """

    size: int
    filename: int
    name: int
    qualname: int
    lines: int
    first_line: int
    code: int
    is_inline: bool
    variables: int
    frame_sizes: tuple[int, ...] = ()
    frame_extra: int = 0


class PythonLayout(NamedTuple):
    """All offsets of one version. ascii_text, other_text: where the characters of a compact string begin."""

    version: tuple[int, int]
    runtime: RuntimeLayout
    thread: ThreadLayout
    frame: FrameLayout
    code: CodeLayout
    ascii_text: int
    other_text: int
    tag_mask: int = 0
    is_free_threaded: bool = False

    @property
    def tuple_items(self) -> int:
        """The offset of a tuple's items; since 3.14 they follow its hash."""
        return 32 if self.version >= (3, 14) else 24

    @property
    def shared_keys(self) -> int:
        """PyHeapTypeObject.ht_cached_keys: the keys that the instances of a class share."""
        return 888 if self.version >= (3, 15) else 880 if self.version >= (3, 12) else 872

    @property
    def has_data_stack(self) -> bool:
        """Whether frames are on a data stack, so that one call of the evaluation loop can run many."""
        return self.version >= (3, 11)


_OLD_THREAD: Final = ThreadLayout(264, 8, 24, NONE, 176, NONE, NONE)
_OLD_CODE: Final = CodeLayout(176, 104, 112, NONE, 120, 40, 48, is_inline=False, variables=72)
_OLD_FRAME: Final = FrameLayout(112, 24, 32, 104, NONE, NONE, 1 << 8, variables=360, stack_pointer=72)

#: Versions that do not describe themselves.
LAYOUTS: Final = {
    (3, 8): PythonLayout((3, 8), RuntimeLayout(32, 0, 8, 0, 1160, 1168, modules=56), _OLD_THREAD, _OLD_FRAME, _OLD_CODE, 48, 72),
    (3, 9): PythonLayout((3, 9), RuntimeLayout(32, 0, 8, 0, 360, 368, modules=856), _OLD_THREAD, _OLD_FRAME, _OLD_CODE, 48, 72),
    (3, 10): PythonLayout(
        (3, 10),
        RuntimeLayout(32, 0, 8, 0, 360, 368, modules=856),
        _OLD_THREAD,
        _OLD_FRAME._replace(instruction=96, variables=352, stack_pointer=NONE, stack_depth=80, stack=64),
        _OLD_CODE,
        48,
        72,
    ),
    (3, 11): PythonLayout(
        (3, 11),
        RuntimeLayout(40, 0, 16, 0, 368, 376, modules=888),
        ThreadLayout(360, 8, 8, 56, 152, 160, 296),
        FrameLayout(72, 48, 32, 56, 69, 68, 1 << 8, variables=72, stack_depth=64),
        CodeLayout(192, 112, 120, 128, 136, 72, 184, is_inline=True, variables=96, frame_sizes=(68, 76), frame_extra=9),
        48,
        72,
    ),
    (3, 12): PythonLayout(
        (3, 12),
        RuntimeLayout(40, 0, 72, 384, 8, 16, modules=944),
        ThreadLayout(288, 8, 0, 56, 136, 144, 232),
        FrameLayout(72, 8, 0, 56, 70, NONE, 3, variables=72, stack_depth=64),
        CodeLayout(200, 112, 120, 128, 136, 68, 192, is_inline=True, variables=96, frame_sizes=(76,)),
        40,
        56,
    ),
}
