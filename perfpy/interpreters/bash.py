"""Read the functions and lines that a running bash is in, from its memory.

bash keeps the call stack of a script in the arrays FUNCNAME, BASH_SOURCE and BASH_LINENO, and the line of the current command in a number.
Distributions strip bash, but builtins that are loaded at run time need its variables, so the dynamic symbols have them. The layouts are
those of bash's headers since 4.0: variables.h (VAR_CONTEXT, SHELL_VAR), hashlib.h (HASH_TABLE, BUCKET_CONTENTS) and array.h (ARRAY).
"""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple
from perfpy.interpreters.objects import UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.interpreters.objects import Memory


#: the file names of bash; a shell called sh is bash on some distributions
PROGRAM: Final = re.compile(r"r?bash(?:-?[\d.]+)?|sh")
#: bash's variables: the line that it expands, that of the last simple command, and the table of the script's variables
SYMBOLS: Final = ("line_number", "line_number_for_err_trap", "global_variables")
_TABLE: Final = 32  # VAR_CONTEXT.table
_HASH_TABLE: Final = struct.Struct("<Qi")  # bucket_array, nbuckets
_BUCKET: Final = struct.Struct("<QQQ")  # next, key, data
_VALUE: Final = 8  # SHELL_VAR.value
_HEADS: Final = (16, 24)  # possible offsets of ARRAY.head
_ELEMENT: Final = struct.Struct("<qQQ")  # ind, value, next
_MOST_BUCKETS: Final = 1 << 14
_MOST_VARIABLES: Final = 1 << 14
_MOST_FRAMES: Final = 64
_LONGEST: Final = 256  # bytes of a function's name or of a file's
_NAMES: Final = (b"FUNCNAME", b"BASH_SOURCE", b"BASH_LINENO")
_MAIN: Final = "main"  # bash's own name of what is in no function


class ScriptFrame(NamedTuple):
    """A function of a script ("" for what is in none), its file, and the line that it has reached."""

    function: str
    file: str
    line: int


class BashProcess:
    """One bash. Its methods raise UnreadableMemoryError.

    Args:
        memory: of the process.
        symbols: the addresses of SYMBOLS.
    """

    def __init__(self, memory: Memory, symbols: Mapping[str, int]) -> None:
        self._memory = memory
        self._symbols = symbols
        self._variables: dict[bytes, int] = {}

    def frames(self, *, has_started: bool) -> list[ScriptFrame]:
        """Return the script's frames, innermost first; empty before it begins.

        has_started: whether the current command has started its program. Then only the line of the last simple command is its own; the
        other one, which is right during expansions, is that of the loop or list around it.
        """
        if not self._variables:
            self._variables = self._find_variables()
        functions, sources, lines = ([*self._array(self._variables[name])] for name in _NAMES)
        current = self._symbols["line_number_for_err_trap" if has_started else "line_number"]
        line = int.from_bytes(self._memory.read(current, 4), "little", signed=True)
        frames = []
        for number, source in enumerate(sources):
            function = functions[number] if number < len(functions) else ""
            frames.append(ScriptFrame("" if function == _MAIN else function, source, line))
            line = int(lines[number]) if number < len(lines) and lines[number].isdecimal() else 0
        return frames

    def _find_variables(self) -> dict[bytes, int]:
        """Return the addresses of the variables with the call stack."""
        context = read_word(self._memory, self._symbols["global_variables"])
        table = read_word(self._memory, context + _TABLE) if is_pointer(context) else 0
        if not is_pointer(table):
            raise UnreadableMemoryError
        buckets, count = _HASH_TABLE.unpack(self._memory.read(table, _HASH_TABLE.size))
        if not (is_pointer(buckets) and 0 < count <= _MOST_BUCKETS):
            raise UnreadableMemoryError
        addresses: dict[bytes, int] = {}
        most = _MOST_VARIABLES
        for (first,) in struct.iter_unpack("<Q", self._memory.read(buckets, 8 * count)):
            bucket = first
            while is_pointer(bucket) and most:
                bucket, key, data = _BUCKET.unpack(self._memory.read(bucket, _BUCKET.size))
                most -= 1
                name = self._bytes(key, len(_NAMES[1]) + 1)
                if name in _NAMES:
                    addresses[name] = data
        if len(addresses) < len(_NAMES):
            raise UnreadableMemoryError
        return addresses

    def _array(self, variable: int) -> list[str]:
        """Return the first elements of an array variable."""
        array = read_word(self._memory, variable + _VALUE)
        if not is_pointer(array):
            return []
        for offset in _HEADS:
            head = read_word(self._memory, array + offset)
            if not is_pointer(head):
                continue
            number, value, element = _ELEMENT.unpack(self._memory.read(head, _ELEMENT.size))
            if number == -1 and not value:  # the element before the first
                break
        else:
            return []
        values: list[str] = []
        while is_pointer(element) and element != head and len(values) < _MOST_FRAMES:
            _, value, element = _ELEMENT.unpack(self._memory.read(element, _ELEMENT.size))
            values.append(self._bytes(value, _LONGEST).decode("utf-8", "replace"))
        return values

    def _bytes(self, address: int, most: int) -> bytes:
        """Return a string's first bytes, up to `most`. A string may lie at the end of a mapping, so a shorter read is tried, too."""
        for size in (most, 16):
            try:
                return self._memory.read(address, size).partition(b"\0")[0]
            except UnreadableMemoryError:
                continue
        return b""
