"""Parse a disassembler's text into AsmLines: instructions, and the lines between them.

The rules for which lines count, and for blanks and tabs, are perf's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

#: of a line that is no instruction of the function
NOT_CODE: Final = -1
_TABS: Final = 4  # columns; people's, where the text is not perf's
_INSTRUCTION: Final = re.compile(rb"(?:0[xX])?([0-9a-fA-F]{1,16}):(.+)")


class AsmLine(NamedTuple):
    """One line.

    offset: of the instruction, from the function's beginning, or NOT_CODE; text: what it is, or what is said there; indent: how
    many blanks stood before what is said there.
    """

    offset: int
    text: str
    indent: int = 0

    @property
    def is_code(self) -> bool:
        """Whether it is an instruction."""
        return self.offset != NOT_CODE


def of_objdump(lines: Iterable[bytes], start: int, end: int, path: str) -> list[AsmLine]:
    """The lines of a function from `start` to `end`; those that name the file (path) are left out."""
    named = path.encode("utf-8", "surrogateescape") + b":"
    return [_code_line(line, start, end) for line in lines if named not in line]


def _code_line(whole: bytes, start: int, end: int) -> AsmLine:
    line = whole.strip().expandtabs()
    found = _INSTRUCTION.match(line)
    address = int(found[1], 16) if found else -1
    if found and start <= address < end:
        return AsmLine(address - start, found[2].decode("utf-8", "surrogateescape"))
    before = whole[: len(whole) - len(whole.lstrip())].expandtabs(_TABS)
    return AsmLine(NOT_CODE, line.decode("utf-8", "surrogateescape"), len(before) if line else 0)
