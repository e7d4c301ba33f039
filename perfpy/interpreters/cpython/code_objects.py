"""Read code objects: name, file, lines and the range of instructions.

Each is read once and cached by its address. Because memory is reused, some words of a cached one are compared from time to time.
"""

from __future__ import annotations

import struct
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.interpreters.cpython.memory import WORD, UnreadableMemoryError, is_pointer, read_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.interpreters.cpython.layouts import PythonLayout
    from perfpy.interpreters.cpython.memory import Memory
    from perfpy.interpreters.cpython.objects import Objects

_LONGEST_TABLE: Final = 1 << 20  # bytes of a line table
_MOST_UNITS: Final = 1 << 22  # instructions of a code object
_MOST_CODES: Final = 1 << 17  # cached for a process
_MOST_BYTES: Final = 64 << 20  # of the code objects that were read of a process
_MOST_VARIABLES: Final = 1 << 10  # whose names are read
_OBJECT_SIZE: Final = 600  # bytes of a CodeObject without the contents of its names and line table
_FRESH: Final = 0.25  # seconds for which a cached code object is used without a comparison
_TYPE: Final = 8  # PyObject.ob_type
_SIZE: Final = 16  # PyVarObject.ob_size
_TYPE_NAME: Final = 24  # PyTypeObject.tp_name
_BYTES: Final = 32  # PyBytesObject.ob_sval
_CODE_TYPE: Final = b"code\0"


class CodeObject(NamedTuple):
    """A function's code.

    Attributes:
        number: identifies it.
        begin, end: addresses of its instructions.
        frame_size: bytes of its frames on the data stack, 0 before 3.11.
    """

    number: int
    address: int
    begin: int
    end: int
    name: str
    filename: str
    first_line: int
    lines: bytes
    frame_size: int


class Codes:
    """The code objects of one process.

    Args:
        memory: of the process.
        layout: of its objects.
        objects: its objects.
        clock: returns seconds, monotonic.
        numbers: yields the numbers of code objects.
    """

    def __init__(
        self, memory: Memory, layout: PythonLayout, objects: Objects, clock: Callable[[], float], numbers: Iterator[int] | None = None
    ) -> None:
        self._memory = memory
        self._objects = objects
        self._layout = layout
        self._clock = clock
        self._cached: dict[int, tuple[CodeObject | None, bytes, float]] = {}
        self._numbers = count() if numbers is None else numbers
        self._bytes = 0
        self._type = 0

    @property
    def is_full(self) -> bool:
        """Whether no further code objects are read."""
        return self._bytes > _MOST_BYTES

    def find(self, address: int) -> CodeObject | None:
        """Return the code object at an address; None if there is none."""
        now = self._clock()
        cached = self._cached.get(address)
        if cached is not None and now - cached[2] < _FRESH:
            return cached[0]
        if not is_pointer(address):
            return None
        try:
            head = self._memory.read(address, self._layout.code.size)
        except UnreadableMemoryError:
            return None
        identity = self._identity(head)
        code = cached[0] if cached is not None and cached[1] == identity else self._read(address, head)
        if len(self._cached) >= _MOST_CODES:
            self._cached.clear()
        self._cached[address] = (code, identity, now)
        return code

    def variable_names(self, code: CodeObject) -> list[str]:
        """Return the names of a function's local variables, in the order in which its frames have them; empty if they cannot be read."""
        try:
            return self.names_in(read_word(self._memory, code.address + self._layout.code.variables))
        except UnreadableMemoryError:
            return []

    def names_in(self, names: int, most: int = _MOST_VARIABLES) -> list[str]:
        """Return the last items of a tuple of names; empty if they cannot be read."""
        try:
            count = read_word(self._memory, names + _SIZE)
            if not is_pointer(names) or count > _MOST_VARIABLES:
                return []
            first = max(count - most, 0)
            items = self._memory.read(names + self._layout.tuple_items + 8 * first, 8 * (count - first))
            return [self._objects.text(address) for (address,) in WORD.iter_unpack(items)]
        except (UnreadableMemoryError, ValueError):
            return []

    def _identity(self, head: bytes) -> bytes:
        """Return the words that differ between two code objects at the same address: size, names and tables."""
        layout = self._layout.code
        fields = (layout.filename, layout.name, layout.lines, layout.code if not layout.is_inline else layout.name)
        words = (head[field : field + 8] for field in fields)
        return b"".join((head[_TYPE : _SIZE + 8], *words, head[layout.first_line : layout.first_line + 4]))

    def _read(self, address: int, head: bytes) -> CodeObject | None:
        layout = self._layout.code
        if self.is_full or not self._is_code(head):
            return None
        try:
            if layout.is_inline:
                begin, (units,) = address + layout.code, struct.unpack_from("<q", head, _SIZE)
                size = 2 * units
            else:
                text = _word(head, layout.code)
                begin, size = text + _BYTES, read_word(self._memory, text + _SIZE)
            if not 0 < size <= 2 * _MOST_UNITS:
                return None
            name = self._objects.text(_word(head, layout.qualname if layout.qualname >= 0 else layout.name))
            filename = self._objects.text(_word(head, layout.filename))
            lines = self._table(_word(head, layout.lines))
        except (UnreadableMemoryError, ValueError):
            return None
        self._bytes += _OBJECT_SIZE + len(name) + len(filename) + len(lines)
        (first_line,) = struct.unpack_from("<i", head, layout.first_line)
        frame_size = 8 * (sum(struct.unpack_from("<i", head, one)[0] for one in layout.frame_sizes) + layout.frame_extra)
        return CodeObject(next(self._numbers), address, begin, begin + size, name, filename, max(first_line, 0), lines, frame_size)

    def _is_code(self, head: bytes) -> bool:
        """Whether the name of an object's type is "code"."""
        if self._layout.is_free_threaded:  # the type is elsewhere
            return True
        kind = _word(head, _TYPE)
        if not self._type and is_pointer(kind):
            try:
                name = self._memory.read(read_word(self._memory, kind + _TYPE_NAME), len(_CODE_TYPE))
            except UnreadableMemoryError:
                return False
            self._type = kind if name == _CODE_TYPE else 0
        return kind == self._type != 0

    def _table(self, address: int) -> bytes:
        size = read_word(self._memory, address + _SIZE)
        if size > _LONGEST_TABLE:
            raise ValueError("no line table")
        return self._memory.read(address + _BYTES, size)


def _word(data: bytes, offset: int) -> int:
    (value,) = WORD.unpack_from(data, offset)
    return int(value)
