"""Offsets of the fields of CPython's structures, in bytes, by version.

The tables of 3.8 to 3.12 are facts of the public headers (Include/internal/pycore_runtime.h, pycore_interp.h, pycore_frame.h,
Include/cpython/code.h) of 64-bit builds without Py_DEBUG. They hold for all releases of a minor version, whose ABI is fixed with the
release candidates. 3.13 and later describe themselves (debug_offsets).
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import Final

from perfpy.abi.light_types import NamedTuple

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
        copies: the copies of the instructions that threads run, since 3.14 without a GIL: an array after its length.
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
    copies: int = NONE


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
    def shift(self) -> int:
        """Bytes by which all fields of an object are further on than with a GIL: its owner, its lock and a second count of references."""
        return 16 if self.is_free_threaded else 0

    @property
    def tuple_items(self) -> int:
        """The offset of a tuple's items; since 3.14 they follow its hash."""
        return self.shift + (32 if self.version >= (3, 14) else 24)

    @property
    def code_names(self) -> int:
        """PyCodeObject.co_names, the tuple of the names that the instructions load, beside local variables."""
        return self.shift + (32 if self.version >= (3, 11) else 64)

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

# Decode _Py_DebugOffsets, the description of its structures that CPython 3.13 and later have at the beginning of _PyRuntime. Layout
# (Include/internal/pycore_debug_offsets.h): char cookie[8], then u64 numbers: the version, whether the build has no GIL, then groups of
# offsets, each after the size of its structure. Later versions append numbers to groups, so the lengths of groups depend on the version.

COOKIE: Final = b"xdebugpy"
SIZE: Final = 8 * 64  # bytes to read: all groups up to the code object, of any version
_HEAD_WORDS: Final = 3  # the cookie, the version, and whether the build has no GIL
_RUNTIME: Final = ("size", "finalizing", "interpreters_head")
_INTERPRETER: Final = ("size", "id", "next", "threads_head")
_GIL: Final = ("ceval_gil", "gil_runtime_state", "gil_runtime_state_enabled", "gil_runtime_state_locked", "gil_runtime_state_holder")
_THREAD: Final = ("size", "prev", "next", "interp", "current_frame", "thread_id", "native_thread_id", "datastack_chunk", "status")
_FRAME: Final = ("size", "previous", "executable", "instr_ptr", "localsplus", "owner")
_CODE: Final = (
    *("size", "filename", "name", "qualname", "linetable", "firstlineno", "argcount", "localsplusnames", "localspluskinds", "adaptive"),
)
_MODULES: Final = ("gc", "imports_modules", "sysdict", "builtins")
_GROUPS_3_13: Final = (
    ("runtime", _RUNTIME),
    ("interpreter", (*_INTERPRETER, *_MODULES, *_GIL)),
    ("thread", _THREAD),
    ("frame", _FRAME),
    ("code", _CODE),
)
_GROUPS_3_14: Final = (
    ("runtime", _RUNTIME),
    ("interpreter", (*_INTERPRETER, "threads_main", *_MODULES, *_GIL, "code_object_generation", "tlbc_generation")),
    ("thread", _THREAD),
    ("frame", (*_FRAME, "stackpointer", "tlbc_index")),
    ("code", (*_CODE, "co_tlbc")),
)
_GROUPS_3_15: Final = (
    *_GROUPS_3_14[:2],
    (
        "thread",
        (
            *("size", "prev", "next", "interp", "current_frame", "base_frame", "last_profiled_frame", "last_profiled_frame_seq"),
            *("thread_id", "native_thread_id", "datastack_chunk", "status"),
            *("holds_gil", "gil_requested", "current_exception", "exc_state"),
        ),
    ),
    ("exception", ("exc_value",)),
    *_GROUPS_3_14[3:],
)
_GROUPS: Final = {(3, 13): _GROUPS_3_13, (3, 14): _GROUPS_3_14, (3, 15): _GROUPS_3_15}
_FRAME_FIELDS: Final = ("localsplus", "previous", "executable", "instr_ptr", "owner")
_CODE_FIELDS: Final = ("size", "filename", "name", "qualname", "linetable", "firstlineno", "adaptive", "localsplusnames")
_LARGEST: Final = 1 << 20  # of a structure
_TAGS: Final = 3  # tag bits of references on the stack, since 3.14
#: field -> bytes from its offset on that are read of its structure, if more than a word
_LONG_FIELDS: Final = {"thread.datastack_chunk": 16, "code.firstlineno": 12}
#: fields that are not read, and the instructions, which begin after the structure
_UNREAD: Final = (
    *("thread.prev", "thread.interp", "thread.status", "frame.localsplus"),
    *("code.argcount", "code.localspluskinds", "code.adaptive"),
)
_SHORT_FIELDS: Final = ("frame.owner",)  # of one byte
_FRAME_SIZE: Final = 8  # bytes from co_firstlineno to co_framesize, which is not described
_SHIMS: Final = 3  # FRAME_OWNED_BY_CSTACK; since 3.14 FRAME_OWNED_BY_INTERPRETER, and after it the former


def decode(data: bytes) -> PythonLayout:
    """Return the layout that a runtime describes. Raises ValueError for other data and for unsupported versions."""
    numbers = struct.unpack_from("<40Q", data, 8) if data.startswith(COOKIE) and len(data) >= SIZE else ()
    if not numbers:
        raise ValueError("no description of a Python runtime")
    version = (numbers[0] >> 24 & 0xFF, numbers[0] >> 16 & 0xFF)
    if version not in _GROUPS:
        raise ValueError("the runtime describes itself as Python {}.{}, which is not known here".format(*version))
    values = struct.unpack_from(f"<{SIZE // 8}Q", data)
    offsets = {name: values[word] for name, word in _words(version).items()}
    if any(value > _LARGEST for name, value in offsets.items() if not name.endswith("_generation")) or not _fits(offsets):
        raise ValueError("the description of the Python runtime has unexpected values")
    return _layout(version, offsets, is_free_threaded=bool(numbers[1]))


def described_words() -> dict[tuple[int, int], dict[str, int]]:
    """Return for each version that describes itself where in its description, counted in words, the offsets of its fields are."""
    return {version: _words(version) for version in _GROUPS}


def _words(version: tuple[int, int]) -> dict[str, int]:
    fields = [f"{group}.{name}" for group, names in _GROUPS[version] for name in names]
    return {name: word for word, name in enumerate(fields, _HEAD_WORDS)}


def _fits(offsets: dict[str, int]) -> bool:
    """Whether the fields lie within the part of their structure that is read: of a frame, that before its variables."""
    for group, names, end in (("thread", _THREAD, "thread.size"), ("frame", _FRAME, "frame.localsplus"), ("code", _CODE, "code.size")):
        for name in names:
            field = f"{group}.{name}"
            size = 1 if field in _SHORT_FIELDS else _LONG_FIELDS.get(field, 8)
            is_unread = field in _UNREAD or name == "size"
            if not is_unread and offsets[field] + size > offsets[end]:
                return False
    gil, fields = offsets["interpreter.gil_runtime_state"], ("gil_runtime_state_holder", "gil_runtime_state_locked")
    return all(gil <= offsets[f"interpreter.{name}"] for name in fields)


def _layout(version: tuple[int, int], offsets: dict[str, int], *, is_free_threaded: bool) -> PythonLayout:
    gil = offsets["interpreter.gil_runtime_state"]
    runtime = RuntimeLayout(
        offsets["runtime.interpreters_head"],
        offsets["interpreter.next"],
        offsets["interpreter.threads_head"],
        offsets["interpreter.ceval_gil"],
        offsets["interpreter.gil_runtime_state_holder"] - gil,
        offsets["interpreter.gil_runtime_state_locked"] - gil,
        offsets["interpreter.imports_modules"],
    )
    tags = _TAGS if version >= (3, 14) else 0
    layout = PythonLayout(version, runtime, _thread(offsets), _frame(version, offsets), _code(offsets), 40, 56, tags, is_free_threaded)
    return layout._replace(ascii_text=layout.ascii_text + layout.shift, other_text=layout.other_text + layout.shift)


def _thread(offsets: dict[str, int]) -> ThreadLayout:
    names = ("thread_id", "native_thread_id", "datastack_chunk")
    return ThreadLayout(
        offsets["thread.size"],
        offsets["thread.next"],
        offsets["thread.current_frame"],
        NONE,
        *(offsets[f"thread.{name}"] for name in names),
    )


def _frame(version: tuple[int, int], offsets: dict[str, int]) -> FrameLayout:
    size, previous, executable, pointer, owner = (offsets[f"frame.{name}"] for name in _FRAME_FIELDS)
    top = offsets.get("frame.stackpointer", NONE)
    top = top if 0 <= top <= size - 8 else NONE
    depth = pointer + 8 if version == (3, 13) and pointer + 12 <= size else NONE  # it follows instr_ptr, and is not described
    return FrameLayout(size, previous, executable, pointer, owner, NONE, _SHIMS, variables=size, stack_pointer=top, stack_depth=depth)


def _code(offsets: dict[str, int]) -> CodeLayout:
    size, filename, name, qualname, lines, first_line, code, variables = (offsets[f"code.{name}"] for name in _CODE_FIELDS)
    copies = offsets.get("code.co_tlbc") or NONE  # 0 in builds with a GIL
    return CodeLayout(size, filename, name, qualname, lines, first_line, code, True, variables, (first_line + _FRAME_SIZE,), copies=copies)


# The slots of types: name of the method that Python has for it ("()": the type itself; "-": one that nobody calls), its number in specs
# (Include/typeslots.h), and its offset in PyTypeObject, or that of a table in it and then the offset in the table.

_SLOTS: Final = os.path.join(os.path.dirname(__file__), "slots.tsv")


@cache
def slots() -> tuple[tuple[str, int, tuple[int, int]], ...]:
    """Return the name, the number and the offsets of each slot; the second offset is NONE for slots of the type itself."""
    with open(_SLOTS, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    offsets = [offset.partition("+") for _, _, offset in rows]
    return tuple(
        (row[0], int(row[1]), (int(first), int(second) if second else NONE)) for row, (first, _, second) in zip(rows, offsets, strict=True)
    )
