"""Python functions as code at addresses, and the ELF image with their symbols and lines.

A function that several processes run has one range of addresses (see perfpy.capture.python_frames). The image contains no code: its .text
has only zeros.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.python_code import FIRST_ADDRESS, MAPPED_SIZE, PYTHON_MARK
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.interpreters.cpython.line_tables import decode_lines
from perfpy.symbols.providers import jitdump
from perfpy.symbols.providers.jit_lines import CodeLine, debug_sections
from perfpy.symbols.providers.jitdump import Section

if TYPE_CHECKING:
    from collections.abc import Iterable

IMAGE_OFFSET: Final = 0x1000  #: the file offset of FIRST_ADDRESS in the image
_ALIGNMENT: Final = 16
_BEFORE: Final = 2  # bytes before a function's first instruction; addresses there mean an unknown line
_LARGEST_IMAGE: Final = 64 << 20  # bytes of code; of 100,000 functions
_MOST_MEMORY: Final = 256 << 20  # bytes of the code objects of all functions
_MOST_LINES: Final = 1 << 19
_MACHINE: Final = 62  # EM_X86_64


class PlacedFunction(NamedTuple):
    """A function and its addresses. size: in bytes, including the two before its instructions."""

    begin: int
    size: int
    code: FoundCode
    version: tuple[int, int]

    def address(self, offset: int | None) -> int:
        """Return the address of an instruction; for None, the address of a function with an unknown line."""
        if offset is None or offset < 0:
            return self.begin if offset is None else self.begin + _BEFORE
        return min(self.begin + _BEFORE + offset, self.begin + self.size - 1)


class PythonFunctions:
    """All functions of a recording.

    Attributes:
        missing: what is not in the image, "" for nothing.
    """

    def __init__(self) -> None:
        self._functions: dict[tuple[object, ...], PlacedFunction] = {}
        self._end = FIRST_ADDRESS
        self._memory = 0
        self.missing = ""

    def __len__(self) -> int:
        return len(self._functions)

    @property
    def memory(self) -> int:
        """The bytes of the code objects."""
        return self._memory

    def addresses_of(self, code: FoundCode, version: tuple[int, int]) -> PlacedFunction | None:
        """Return a function's addresses, and allocate them for a new function; None if no addresses are left."""
        key = (code.filename, code.name, code.first_line, code.end - code.begin, code.lines, version)
        function = self._functions.get(key)
        if function is None:
            size = code.end - code.begin + _BEFORE
            if self._end + size > FIRST_ADDRESS + MAPPED_SIZE or self._memory + code.memory > _MOST_MEMORY:
                self.missing = f"more than {len(self._functions)} functions; the later ones have no names"
                return None
            self._memory += code.memory
            function = self._functions[key] = PlacedFunction(self._end, size, code, version)
            self._end += (size + _ALIGNMENT - 1) & -_ALIGNMENT
        return function

    def image(self) -> bytes:
        """Build the ELF file of all functions."""
        shift = IMAGE_OFFSET - FIRST_ADDRESS
        functions = list(self._functions.values())
        size = min(self._end - FIRST_ADDRESS, _LARGEST_IMAGE)
        if size == _LARGEST_IMAGE:
            functions = [one for one in functions if one.begin + one.size <= FIRST_ADDRESS + size]
            self.missing = f"more than {_LARGEST_IMAGE >> 20} MB of code; the later functions have no names"
        symbols = [(_name(one.code), one.begin + shift, one.size) for one in functions]
        lines = self._all_lines(functions, shift)
        sections = [Section(b".text", 1, 6, bytes(size), align=16)]
        sections += [Section(name, 1, 0, data) for name, data in debug_sections(lines, IMAGE_OFFSET, size).items()]
        return jitdump.shared_object(sections, symbols, _MACHINE, text_offset=IMAGE_OFFSET)

    def _all_lines(self, functions: Iterable[PlacedFunction], shift: int) -> list[CodeLine]:
        """Return the lines of all functions. If they are too many, those with the longest tables have only the first one."""
        lines: list[CodeLine] = []
        for one in sorted(functions, key=lambda one: len(one.code.lines)):
            room = _MOST_LINES - len(lines)
            lines += islice(_lines(one, shift), max(room, 1))
            if room <= 1:
                self.missing = self.missing or f"more than {_MOST_LINES} source lines; the longest functions have only their first one"
        return lines


def lock_holder(tid: int, code: FoundCode | None) -> FoundCode:
    """Return a function that stands for the thread for whose lock others wait.

    Args:
        tid: the thread's number; 0 if it is unknown.
        code: the function that it runs.
    """
    thread = f"thread {tid}" if tid else "another thread"
    name = f"[GIL held by {code.name}, {thread}]" if code else f"[GIL held by {thread}]"
    return FoundCode(0, -1, 0, 0, 2, name, code.filename if code else "<GIL>", code.first_line if code else 0, b"", 0)


def _name(code: FoundCode) -> str:
    """Return the function's name in the form of CPython's perf maps."""
    return f"{PYTHON_MARK}{_one_line(code.name)}:{_one_line(code.filename)}"


def _one_line(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text) or "?"


def _lines(function: PlacedFunction, shift: int) -> Iterable[CodeLine]:
    code = function.code
    file, begin = _one_line(code.filename), function.begin + shift
    yield CodeLine(begin, file, code.first_line)
    for offset, line in decode_lines(code.lines, code.first_line, function.version):
        if 0 <= offset < code.end - code.begin:
            yield CodeLine(begin + _BEFORE + offset, file, line or code.first_line)
