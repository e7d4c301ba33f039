"""Parse a disassembler's text into AsmLines: instructions, and the lines between them.

The rules for which lines count, and for blanks and tabs, are perf's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: the offset of lines that are not instructions of the function
NOT_CODE: Final = -1
_TABS: Final = 4  # columns, for screens; perf's text keeps the tabs
_INSTRUCTION: Final = re.compile(rb"(?:0[xX])?([0-9a-fA-F]{1,16}):(.+)")


class AsmLine(NamedTuple):
    """One line of code.

    Attributes:
        offset: of the instruction from the function's start, or NOT_CODE.
        text: the instruction, or the text of another line.
        indent: number of blanks before the text of another line.
    """

    offset: int
    text: str
    indent: int = 0

    @property
    def is_code(self) -> bool:
        """Whether the line is an instruction."""
        return self.offset != NOT_CODE


def of_objdump(lines: Iterable[bytes], start: int, end: int, path: str) -> list[AsmLine]:
    """Return the lines of a function from `start` to `end`, without the lines that name the file (`path`)."""
    path_prefix = path.encode("utf-8", "surrogateescape") + b":"
    return [_code_line(line, start, end) for line in lines if path_prefix not in line]


def _code_line(text: bytes, start: int, end: int) -> AsmLine:
    line = text.strip().expandtabs()
    match = _INSTRUCTION.match(line)
    address = int(match[1], 16) if match else -1
    if match and start <= address < end:
        return AsmLine(address - start, match[2].decode("utf-8", "surrogateescape"))
    before = text[: len(text) - len(text.lstrip())].expandtabs(_TABS)
    return AsmLine(NOT_CODE, line.decode("utf-8", "surrogateescape"), len(before) if line else 0)
