"""JavaScript functions of a running Node in samples that are unwound while recording, from V8's heap: names without a restart.

A frame of JavaScript has its JSFunction below the frame pointer, whichever of V8's compilers made the code. The function leads to its name,
script and position. Where these stand is told by the variables v8dbg_* that V8 exports for debuggers (gen-postmortem-metadata.py). The
process is not stopped, and its garbage collector may move functions meanwhile; so each object is checked by the types of those that it
leads to, and functions are read again with each piece of the recording.

Functions that V8 has inlined have frames of their own where the code calls something: its table of source positions has each call. Without
a call, they count for the function whose code has them; if that is one of Node's own, for the first function of the program in it: it calls
the others.

Each function has an address of its own, which no mapping of the process contains, and a line of a perf map as Node itself writes it.
"""

from __future__ import annotations

import struct
import time
from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.capture.process_memory import with_memory
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso
from perfpy.symbols.files import elf
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.capture.process_memory import ProcessMemory
    from perfpy.unwind.rules import FrameRules


_PREFIX: Final = "v8dbg_"
#: the variables that are needed, by the names of fields here
_VARIABLES: Final = {
    "function": "off_fp_function",
    "context": "off_fp_context",
    "map": "class_HeapObject__map__Map",
    "type": "class_Map__instance_type__uint16_t",
    "shared": "class_JSFunction__shared__SharedFunctionInfo",
    "name_or_scope": "class_SharedFunctionInfo__name_or_scope_info__Object",
    "script": "class_SharedFunctionInfo__script_or_debug_info__HeapObject",
    "script_name": "class_Script__name__Object",
    "source": "class_Script__source__Object",
    "line_ends": "class_Script__line_ends__Object",
    "string_length": "class_String__length__int32_t",
    "one_byte": "class_SeqOneByteString__chars__char",
    "two_byte": "class_SeqTwoByteString__chars__char",
    "first": "class_ConsString__first__String",
    "second": "class_ConsString__second__String",
    "resource": "class_ExternalString__resource__Object",
    "parent": "class_SlicedString__parent__String",
    "offset": "class_SlicedString__offset__SMI",
    "actual": "class_ThinString__actual__String",
    "array_length": "class_FixedArrayBase__length__SMI",
    "array_data": "class_FixedArray__data__uintptr_t",
    "of_shared": "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",
    "of_script": "type_Script__SCRIPT_TYPE",
    "of_scope": "type_ScopeInfo__SCOPE_INFO_TYPE",
    "of_array": "type_FixedArray__FIXED_ARRAY_TYPE",
    "local_count": "scopeinfo_idx_ncontextlocals",
    "first_local": "scopeinfo_idx_first_vars",
    "feedback_cell": "class_JSFunction__raw_feedback_cell__FeedbackCell",
    "deoptimization": "class_Code__deoptimization_data__FixedArray",
    "inlined_count": "DeoptimizationDataInlinedFunctionCountIndex",
    "literals": "DeoptimizationDataLiteralArrayIndex",
    "inlining_positions": "DeoptimizationDataInliningPositionsIndex",
    "positions": "class_Code__source_position_table__ByteArray",
    "of_code": "type_Code__CODE_TYPE",
    "no_string": "FirstNonstringType",
    "representation": "StringRepresentationMask",
    "cons": "ConsStringTag",
    "external": "ExternalStringTag",
    "sliced": "SlicedStringTag",
    "thin": "ThinStringTag",
    "encoding": "StringEncodingMask",
    "narrow": "OneByteStringTag",
    "small_integer": "SmiShiftSize",
}
_WORD: Final = 8
_TAG: Final = 1  # of pointers to objects; small integers have 0
_TAG_MASK: Final = 3
_SMALL_INTEGER: Final = 32  # bits that a small integer is shifted by, without compressed pointers
_WEAK: Final = 2  # a bit of pointers that do not keep their object
_OF_NODE: Final = " node:"  # before the name of a script of Node's own
_MOST_INLINED: Final = 100  # functions that are looked at
_ALIGNED: Final = 64  # machine code, in bytes
_DISTANCES: Final = (1 << 16, 1 << 14, 1 << 12, 0)  # bytes before an address where its code may begin, from the address's page on
_LARGEST_TABLE: Final = 1 << 18  # bytes of positions
_MOST_CALLS: Final = 1 << 12  # inlined into one piece of code
_MOST_CODES: Final = 1 << 12
_DEEPEST_INLINED: Final = 32
_BEGINS: Final = range(8, 48, 8)  # offsets of the address of the first instruction, after the table of positions
_POSITION: Final = struct.Struct("<QiI")  # source position, inlined function, unused
_OUTERMOST: Final = 0  # instead of the number of an inlined call, which are from 1 here
_PAUSE: Final = 0.5  # seconds between two looks for new memory with code
_LONGEST_NUMBER: Final = 63  # bits
_PAGE: Final = 4096
_INLINED_CALL: Final = 31  # bits of a source position before the number of the inlined call
_MOST_LOCALS: Final = 75  # of a scope that stand in it; more are in a table
_SCANNED: Final = 8  # words of a scope after its locals
_DEEPEST: Final = 4  # strings that lead to each other
_LONGEST_NAME: Final = 512  # characters
_LONGEST_SOURCE: Final = 8 << 20  # characters of a script without a table of lines
_MOST_LINES: Final = 1 << 20  # of one script, and of all that are kept
_MOST_SCRIPTS: Final = 4096
_MOST_FUNCTIONS: Final = 1 << 16
_MOST_POINTERS: Final = 1 << 18  # to functions: each closure has its own
_FIRST_ADDRESS: Final = 1 << 16  # the lowest that the kernel maps anything at
_ROOM: Final = 16  # bytes for each function
_END: Final = 1 << 47


class ScriptFunction(NamedTuple):
    """A function of JavaScript: the addresses that stand for it, and its name in a perf map, such as `JS:~handle /srv/app.js:12:34`."""

    begin: int
    end: int
    name: str


def read_layout(pid: int, memory: ProcessMemory, procfs: ProcFs) -> dict[str, int]:
    """Return offsets, types and tags of V8's objects by the names of _VARIABLES, as the program of a process tells them.

    Raises OSError or LookupError if it does not, or if its V8 is of an unknown kind.
    """
    program = next((one for one in procfs.maps(pid, data=True) if one.path.startswith("/") and one.offset == 0), None)
    if program is None:
        raise LookupError("no program")
    try:
        file = elf.ElfFile(dso.seen_by(pid, program.path))
        section = file.section(".dynsym", elf.SHT_DYNSYM)
        if section is None or file.bits != 64:
            raise LookupError("it exports nothing")
        entries, strings = file.symbols(section), bytes(file.strings(section))
        base = program.start - min((int(one["vaddr"]) for one in file.segments), default=0)
    except elf.BadElfError as error:
        raise LookupError(str(error)) from None
    values = {}
    for field, name in _VARIABLES.items():
        position = strings.find(f"\0{_PREFIX}{name}\0".encode())
        rows = np.flatnonzero(entries["name"] == position + 1)
        if position < 0 or not len(rows):
            raise LookupError(f"it does not export {_PREFIX}{name}")
        values[field] = memory.number(base + int(entries["value"][rows[0]]), 4, signed=True)
    if values["small_integer"] != _SMALL_INTEGER - 1:
        raise LookupError("its pointers are compressed")
    return values


class V8Process:
    """A Node, by its memory; the same methods as JavaProcess. Raises OSError or LookupError if it is not ready.

    low and high are the bounds of what may be its code: also that of V8's interpreter, which is in the program.
    """

    low: Final = _FIRST_ADDRESS
    high: Final = _END

    def __init__(
        self,
        memory: ProcessMemory,
        layout: Mapping[str, int],
        *,
        is_published: bool = False,
        code: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._heap = V8Heap(memory, layout)
        self._memory = memory
        self._codes = OptimizedCalls(memory, self._heap, layout, self._function_named)
        self._is_published = is_published
        self._code = code or (lambda: (_FIRST_ADDRESS, _END))
        self._code_begin, self._code_end = self._code()
        self._next_look = 0.0
        self._function = layout["function"] // _WORD
        self._context = layout["context"] // _WORD
        self._functions: dict[int, ScriptFunction | None] = {}  # by the address of a JSFunction, as it was read last
        self._fresh: set[int] = set()  # addresses that were read since the last refresh
        self._by_name: dict[str, ScriptFunction] = {}
        self._new: dict[int, ScriptFunction] = {}
        self._reported: set[int] = set()

    @classmethod
    def of(cls, pid: int, procfs: ProcFs, *, is_published: bool = False) -> V8Process:
        """Open the Node of a pid. is_published: it writes a perf map itself, so that only inlined functions lack names."""

        def make(memory: ProcessMemory) -> V8Process:
            return cls(memory, read_layout(pid, memory, procfs), is_published=is_published, code=lambda: _generated_code(pid, procfs))

        return with_memory(pid, make)

    def close(self) -> None:
        """Close its memory."""
        self._memory.close()

    def refresh(self) -> None:
        """Read functions again: they may have been moved."""
        self._fresh.clear()
        if (now := time.monotonic()) > self._next_look:
            self._next_look = now + _PAUSE
            self._code_begin, self._code_end = self._code()
        self._codes.forget_changed()
        if len(self._functions) > _MOST_POINTERS:
            self._functions.clear()

    def look(self, stack: NDArray[np.uint64], stack_pointer: int) -> None:
        """Read the functions of the frames on a stack while they are there; its frames are named later."""
        if not 0 < stack_pointer < _END:
            return
        for word in stack[(stack > np.uint64(self._code_begin)) & (stack < np.uint64(self._code_end))].tolist():
            self._codes.find(word - 1)
        own = stack_pointer + _WORD * np.arange(len(stack), dtype=np.uint64)
        is_frame = (stack > own) & (stack < np.uint64(stack_pointer + _WORD * len(stack))) & (stack & np.uint64(7) == 0)
        for slot in np.flatnonzero(is_frame).tolist():
            function = 0 if self._is_published else self._candidate(stack, slot)
            if function and function not in self._fresh:
                self._fresh.add(function)
                found = self._read(function)
                if found is not None or function not in self._functions:
                    self._functions[function] = found

    def name_methods(self, chain: Sequence[int], stack: NDArray[np.uint64]) -> list[int]:
        """Return a callchain with the addresses of functions. chain is innermost first, callers one byte before the return address.

        A frame is found by the return address above its frame pointer, and is one of JavaScript if a function is at its place below it.
        """
        addresses, row = [*chain], 0
        for number in range(len(chain) - 1 if not self._is_published else 0):
            for slot in (np.flatnonzero(stack[row:] == np.uint64(chain[number + 1] + 1)) + row).tolist():
                found = self._functions.get(self._candidate(stack, slot - 1))
                if found is not None:
                    self._new[found.begin] = found
                    addresses[number], row = found.begin, slot + 1
                    break
        return self._with_inlined(chain, addresses)

    def _with_inlined(self, chain: Sequence[int], addresses: list[int]) -> list[int]:
        """Return the addresses of a callchain, named already, with frames of the functions that are inlined into callers."""
        complete: list[int] = []
        for number, (value, address) in enumerate(zip(chain, addresses, strict=True)):
            inlined = self._codes.functions_at(value) if number else ()
            for function in inlined:
                self._new[function.begin] = function
                complete.append(function.begin)
            if not inlined or address != inlined[-1].begin:  # the name of Node's own may already be that of the function in it
                complete.append(address)
        return complete

    def rules(self, addresses: Sequence[int]) -> list[FrameRules | None]:
        """Return no rules: V8's code has frame pointers."""
        return [None] * len(addresses)

    def new_methods(self) -> list[ScriptFunction]:
        """Return the functions found since the last call."""
        new = [one for begin, one in self._new.items() if begin not in self._reported]
        self._reported.update(self._new)
        self._new = {}
        return new

    def _candidate(self, stack: NDArray[np.uint64], slot: int) -> int:
        """Return the address at the place of the function in the frame whose pointer leads to a slot; 0 if there is no such frame."""
        if slot + self._function < 0:
            return 0
        function, context = int(stack[slot + self._function]), int(stack[slot + self._context])
        are_objects = function & _TAG_MASK == context & _TAG_MASK == _TAG
        return function if are_objects and _FIRST_ADDRESS < function < _END else 0

    def _read(self, address: int) -> ScriptFunction | None:
        try:
            name = self._heap.function_name(address)
        except (OSError, ValueError):
            return None
        return self._function_named(name)

    def _function_named(self, name: str) -> ScriptFunction | None:
        if not name:
            return None
        known = self._by_name.get(name)
        if known is None and len(self._by_name) < _MOST_FUNCTIONS:
            begin = _FIRST_ADDRESS + _ROOM * len(self._by_name)
            known = self._by_name[name] = ScriptFunction(begin, begin + _ROOM, name)
        return known


def _generated_code(pid: int, procfs: ProcFs) -> tuple[int, int]:
    """Return the bounds of the executable memory of a process without a file; twice the same address if there is none, or no process."""
    try:
        pieces = [(one.start, one.end) for one in procfs.maps(pid) if not one.path]
    except OSError:
        pieces = []
    return (min(start for start, _ in pieces), max(end for _, end in pieces)) if pieces else (_FIRST_ADDRESS, _FIRST_ADDRESS)


def has_readable_names(pid: int) -> bool:
    """Whether a process contains a V8 whose functions can be named by its memory."""
    try:
        V8Process.of(pid, ProcFs()).close()
    except (OSError, LookupError, ValueError):
        return False
    return True


class V8Heap:
    """The objects of V8 that lead from a function to its name. Names and lines of scripts are read once."""

    def __init__(self, memory: ProcessMemory, layout: Mapping[str, int]) -> None:
        self._memory = memory
        self._layout = layout
        self._names: dict[tuple[int, int], str] = {}  # by addresses of what functions share, and of their scripts
        self._lines: dict[int, list[int]] = {}  # positions of the ends of lines, by the address of a script

    def function_name(self, function: int) -> str:
        """Return the name of the function at an address, with script, line and column; "" if it is not of a script.

        Raises OSError or ValueError if there is no function.
        """
        fields = self._layout
        shared = self._pointer(function, fields["shared"])
        self._require(shared, "of_shared")
        script = self._pointer(shared, fields["script"])
        if self._type(script) != fields["of_script"]:  # a built-in function
            return ""
        known = self._names.get((shared, script))
        if known is None:
            if len(self._names) >= _MOST_FUNCTIONS:
                self._names.clear()
            known = self._names[shared, script] = self._name(shared, script)
        return (self._inlined(function) if _OF_NODE in known else "") or known

    def shared_name(self, shared: int) -> str:
        """Return the name of a function by what it shares with others of the same code; "" if it is not of a script."""
        self._require(shared, "of_shared")
        script = self._pointer(shared, self._layout["script"])
        return self._name(shared, script) if self._type(script) == self._layout["of_script"] else ""

    def optimized(self, code: int) -> OptimizedCode | None:
        """Return the tables of optimized code; None for other code. Raises OSError or ValueError if there is none."""
        fields, memory = self._layout, self._memory
        self._require(code, "of_code")
        data, table = self._pointer(code, fields["deoptimization"]), self._pointer(code, fields["positions"])
        if self._type(data) != fields["of_array"]:
            return None
        calls = self._pointer(data, fields["array_data"] + _WORD * fields["inlining_positions"])
        literals = self._pointer(data, fields["array_data"] + _WORD * fields["literals"])
        count = self._integer(memory.number(data - _TAG + fields["array_data"] + _WORD * fields["inlined_count"]))
        words = np.frombuffer(memory.read(literals - _TAG + fields["array_data"], _WORD * min(count, _MOST_CALLS)), np.uint64)
        return OptimizedCode(
            self._bytes(table, _LARGEST_TABLE),
            self._bytes(calls, _MOST_CALLS * _POSITION.size),
            (words & ~np.uint64(_WEAK)).tolist(),
        )

    def _bytes(self, array: int, most: int) -> bytes:
        """Return the contents of an array of bytes. Raises ValueError if there are more than `most`."""
        size = self._integer(self._memory.number(array - _TAG + self._layout["array_length"]))
        if size > most:
            raise ValueError("a table of unusual size")
        return self._memory.read(array - _TAG + self._layout["array_data"], size)

    def _inlined(self, function: int) -> str:
        """Return the name of the first function of the program that V8 has inlined into one of Node's; "" without one."""
        fields = self._layout
        try:
            code = self._pointer(function, fields["feedback_cell"] + _WORD)
            data = self._pointer(code, fields["deoptimization"])
            if self._type(code) != fields["of_code"] or self._type(data) != fields["of_array"]:  # not optimized
                return ""
            count = self._integer(self._memory.number(data - _TAG + fields["array_data"] + _WORD * fields["inlined_count"]))
            literals = self._pointer(data, fields["array_data"] + _WORD * fields["literals"])
            entries = self._memory.read(literals - _TAG + fields["array_data"], _WORD * min(count, _MOST_INLINED))
            for shared in (np.frombuffer(entries, np.uint64) & ~np.uint64(_WEAK)).tolist():
                self._require(shared, "of_shared")
                script = self._pointer(shared, fields["script"])
                name = self._name(shared, script) if self._type(script) == fields["of_script"] else ""
                if name and _OF_NODE not in name:
                    return name
        except (OSError, ValueError):  # it is not as in the versions that are known
            pass
        return ""

    def _name(self, shared: int, script: int) -> str:
        fields = self._layout
        file = self._text(self._pointer(script, fields["script_name"]), _LONGEST_NAME)
        name, position = self._scope(self._pointer(shared, fields["name_or_scope"]))
        line, column = self._line(script, position)
        return one_line(f"JS:~{name} {file}:{line}:{column}") if file else ""

    def _scope(self, scope: int) -> tuple[str, int]:
        """Return name and position of a function, by its scope: after the variables stand its names, and its first and last position."""
        fields = self._layout
        self._require(scope, "of_scope")
        count = self._integer(self._memory.number(scope - _TAG + _WORD * (1 + fields["local_count"])))
        names = count if count < _MOST_LOCALS else 1
        begin = scope - _TAG + _WORD * (1 + fields["first_local"] + names + count)
        words = np.frombuffer(self._memory.read(begin, _WORD * _SCANNED), np.uint64).tolist()
        name = ""
        positions: list[int] = []
        for word in words:
            if word & _TAG_MASK == _TAG:
                if len(positions) > 1:
                    break
                positions = []
                name = name or (self._text(word, _LONGEST_NAME) if self._type(word) < fields["no_string"] else "")
            else:
                positions.append(self._integer(word))
        if len(positions) < 2 or not 0 <= positions[-2] <= positions[-1]:
            raise ValueError("a scope without positions")
        return name, positions[-2]

    def _line(self, script: int, position: int) -> tuple[int, int]:
        """Return line and column of a position, from 1."""
        if script not in self._lines:
            if sum(map(len, self._lines.values())) >= _MOST_LINES or len(self._lines) >= _MOST_SCRIPTS:
                self._lines.clear()
            self._lines[script] = self._line_ends(script)
        ends = self._lines[script]
        line = bisect_right(ends, position - 1)
        return line + 1, position - (ends[line - 1] if line else -1)

    def _line_ends(self, script: int) -> list[int]:
        fields = self._layout
        table = self._pointer(script, fields["line_ends"])
        if self._type(table) == fields["of_array"]:
            count = self._integer(self._memory.number(table - _TAG + fields["array_length"]))
            if 0 < count < _MOST_LINES:
                data = self._memory.read(table - _TAG + fields["array_data"], _WORD * count)
                table_ends: list[int] = (np.frombuffer(data, np.uint64) >> np.uint64(_SMALL_INTEGER)).tolist()
                return table_ends
        units = self._characters(self._pointer(script, fields["source"]), _LONGEST_SOURCE)
        return np.flatnonzero(units == ord("\n")).tolist()

    # objects

    def _pointer(self, address: int, offset: int) -> int:
        word = self._memory.number(address - _TAG + offset)
        if word & _TAG_MASK != _TAG:
            raise ValueError("no pointer")
        return word

    def _integer(self, word: int) -> int:
        if word & ((1 << _SMALL_INTEGER) - 1):
            raise ValueError("no small integer")
        return word >> _SMALL_INTEGER

    def _type(self, address: int) -> int:
        return self._memory.number(self._pointer(address, self._layout["map"]) - _TAG + self._layout["type"], 2)

    def _require(self, address: int, kind: str) -> None:
        if self._type(address) != self._layout[kind]:
            raise ValueError("an object of another type")

    def _text(self, string: int, most: int) -> str:
        return "".join(map(chr, self._characters(string, most).tolist()))

    def _characters(self, string: int, most: int) -> NDArray[np.integer]:
        """Return the first code units of a string. Raises ValueError if it is none, or is not flat."""
        fields, memory, begin, length = self._layout, self._memory, 0, -1
        for _ in range(_DEEPEST):
            kind = self._type(string)
            if kind >= fields["no_string"]:
                break
            if length < 0:
                length = min(memory.number(string - _TAG + fields["string_length"], 4), most)
            representation = kind & fields["representation"]
            size = 1 if kind & fields["encoding"] == fields["narrow"] else 2
            if representation == fields["cons"]:
                if memory.number(self._pointer(string, fields["second"]) - _TAG + fields["string_length"], 4):
                    break
                string = self._pointer(string, fields["first"])
            elif representation == fields["sliced"]:
                begin += self._integer(memory.number(string - _TAG + fields["offset"]))
                string = self._pointer(string, fields["parent"])
            elif representation == fields["thin"]:
                string = self._pointer(string, fields["actual"])
            else:
                data = string - _TAG + fields["one_byte" if size == 1 else "two_byte"]
                if representation == fields["external"]:
                    data = memory.number(string - _TAG + fields["resource"] + _WORD)
                return np.frombuffer(memory.read(data + size * begin, size * length), np.uint8 if size == 1 else np.uint16)
        raise ValueError("no flat string")


# The functions inlined into V8's optimized code. Each piece of machine code is preceded by a pointer to its Code, which has its table of
# source positions: pairs of LEB128 numbers in zigzag order (source-position-table.cc). The first is the distance in machine code, or its
# complement; the second is the difference of source positions, whose upper bits are the number of the inlined call (source-position.h).
# Such a call has the position of the call and the number of the function (InliningPosition). A position holds until the next one, for V8's
# own profiler, too. Tables have the positions of calls only, unless V8 is asked for more, so only return addresses are looked up.


class OptimizedCode(NamedTuple):
    """The tables of one piece of optimized code.

    Attributes:
        positions: the table of source positions.
        calls: the inlined calls.
        functions: addresses of what the inlined functions share with others.
    """

    positions: bytes
    calls: bytes
    functions: list[int]


class _CodeWithCalls(NamedTuple):
    """One piece of machine code. functions: the inlined functions, innermost first, of each inlined call."""

    start: int
    end: int
    identity: bytes
    offsets: list[int]
    calls: list[int]
    functions: list[tuple[ScriptFunction, ...]]


class OptimizedCalls:
    """The functions that are inlined where optimized code makes a call. function_named: returns the function of a name."""

    def __init__(
        self, memory: ProcessMemory, heap: V8Heap, layout: Mapping[str, int], function_named: Callable[[str], ScriptFunction | None]
    ) -> None:
        self._memory = memory
        self._heap = heap
        self._positions = layout["positions"]
        self._function_named = function_named
        self._codes: dict[int, _CodeWithCalls] = {}  # by start
        self._starts: list[int] = []  # ascending
        self._nowhere: set[int] = set()  # addresses without optimized code, for now

    def forget_changed(self) -> None:
        """Drop code that was replaced."""
        if len(self._codes) > _MOST_CODES:
            self._codes.clear()
        self._codes = {start: code for start, code in self._codes.items() if self._is_still(code)}
        self._starts = sorted(self._codes)
        self._nowhere.clear()

    def functions_at(self, address: int) -> tuple[ScriptFunction, ...]:
        """Return the functions that are inlined at a call, innermost first. address: one byte before the return address."""
        code = self._known(address)
        if code is None:
            return ()
        row = bisect_right(code.offsets, address - code.start) - 1
        if row < 0:
            return ()
        call = code.calls[row]
        return code.functions[call] if 0 <= call < len(code.functions) else ()

    def find(self, address: int) -> None:
        """Read the code at an address while it is there."""
        if address in self._nowhere or self._known(address) is not None or not _FIRST_ADDRESS < address < _END:
            return
        code = self._search(address)
        if code is None:
            self._nowhere.add(address)
        else:
            self._codes[code.start] = code
            self._starts = sorted(self._codes)

    def _known(self, address: int) -> _CodeWithCalls | None:
        row = bisect_right(self._starts, address) - 1
        code = self._codes[self._starts[row]] if row >= 0 else None
        return code if code is not None and address < code.end else None

    def _search(self, address: int) -> _CodeWithCalls | None:
        """Return the code at an address: the nearest beginning before it whose Code says that the address belongs to it."""
        last, first, data = address & -_ALIGNED, 0, b""
        for distance in _DISTANCES:  # another mapping may begin in between
            first = min(max((last & -_PAGE) - distance, 0) + _ALIGNED, last)
            data = self._memory.some(first - _WORD, last - first + _WORD)
            if data:
                break
        words = np.frombuffer(data[: len(data) & -_WORD], np.uint64)[:: _ALIGNED // _WORD]
        for row in np.flatnonzero(words & np.uint64(_TAG_MASK) == np.uint64(_TAG))[::-1].tolist():
            try:
                found = self._code_of(int(words[row]), first + row * _ALIGNED)
            except (OSError, ValueError):
                continue
            if found is not None:
                start, size, identity = found
                return self._read(int(words[row]), start, size, identity) if address < start + size else None
        return None

    def _code_of(self, code: int, start: int) -> tuple[int, int, bytes] | None:
        """Return start, size and identity of machine code that begins at an address, if a Code tells the same."""
        data = self._memory.read(code - _TAG + self._positions, _BEGINS.stop + 5 * _WORD)
        for offset in _BEGINS:
            if int.from_bytes(data[offset : offset + _WORD], "little") == start:
                # after the address: the builtin's number and flags, then the size of instructions and of what follows them
                identity = data[offset + _WORD : offset + 5 * _WORD]
                return start, int.from_bytes(data[offset + 2 * _WORD : offset + 2 * _WORD + 4], "little"), identity
        return None

    def _is_still(self, code: _CodeWithCalls) -> bool:
        """Whether code is unchanged; True if the process has ended."""
        word = self._memory.some(code.start - _WORD, _WORD)
        if len(word) < _WORD:
            return True
        try:
            found = self._code_of(int.from_bytes(word, "little"), code.start)
        except OSError:
            return False
        return found == (code.start, code.end - code.start, code.identity)

    def _read(self, code: int, start: int, size: int, identity: bytes) -> _CodeWithCalls:
        try:
            tables = self._heap.optimized(code)
        except (OSError, ValueError):  # it is not as in the versions that are known
            tables = None
        if tables is None or not tables.functions:
            return _CodeWithCalls(start, start + size, identity, [], [], [])
        offsets, calls = _calls_of(tables.positions)
        return _CodeWithCalls(start, start + size, identity, offsets, calls, self._functions(tables))

    def _functions(self, tables: OptimizedCode) -> list[tuple[ScriptFunction, ...]]:
        """Return the functions of each inlined call; none where one is unknown, for then the others would call the wrong one."""
        inlined: list[tuple[ScriptFunction, ...]] = [()]
        names: dict[int, ScriptFunction | None] = {}
        for position, number, _ in _POSITION.iter_unpack(tables.calls[: len(tables.calls) // _POSITION.size * _POSITION.size]):
            caller = position >> _INLINED_CALL & 0xFFFF
            if not 0 <= number < len(tables.functions) or not 0 <= caller < len(inlined):
                inlined.append(())
                continue
            if number not in names:
                names[number] = self._name(tables.functions[number])
            function, around = names[number], inlined[caller]
            is_whole = function is not None and (caller == _OUTERMOST or around) and len(around) < _DEEPEST_INLINED
            inlined.append((function, *around) if is_whole and function is not None else ())
        return inlined

    def _name(self, shared: int) -> ScriptFunction | None:
        try:
            return self._function_named(self._heap.shared_name(shared))
        except (OSError, ValueError):
            return None


def _calls_of(table: bytes) -> tuple[list[int], list[int]]:
    """Return the offsets in machine code, ascending, and the number of the inlined call of each (0: none)."""
    numbers = _zigzag_numbers(table)
    offsets: list[int] = []
    calls: list[int] = []
    offset = position = 0
    for distance, difference in zip(numbers[::2], numbers[1::2], strict=False):
        offset += distance if distance >= 0 else -distance - 1
        position += difference
        offsets.append(offset)
        calls.append(position >> _INLINED_CALL & 0xFFFF)
    return offsets, calls


def _zigzag_numbers(data: bytes) -> list[int]:
    numbers, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append((value >> 1) ^ -(value & 1))
            value = shift = 0
        elif shift > _LONGEST_NUMBER:
            break
    return numbers
