"""The conversions in the format string of a tracepoint's print format.

The parser splits the C format string of a PrintFormat, with escapes as written, into plain text and Conversions.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

from perfpy.perfdata.tracepoints.print_format import PrintFormat, PrintFormatError
from perfpy.perfdata.tracepoints.print_tree import Cast, FieldValue

_CONVERSION: Final = re.compile(r"%(?P<flags>[-+#0-9.*]*)(?P<long>[hlLzZ]*)(?P<rest>[-+#0-9.*]*)(?P<kind>.)", re.DOTALL)
_PYTHON_FLAGS: Final = re.compile(r"[-+#0]*(?:[0-9]{1,4}|\*)?(?:\.(?:[0-9]{0,4}|\*))?")
_POINTER: Final = re.compile(r"[FSfs]|[Mm][RF]?|[Ii]S[pfs]*[hnlb]?c?|[Ii]4[hnlb]?|[Ii]6c?|[Ii]|U[LlBb]?|h[CDN]?")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_KINDS_OF_ARGUMENTS: Final = "pcduixXos"
_LENGTH_BITS: Final = {-2: 8, -1: 16, 0: 32, 1: 64, 2: 64}


class Conversion(NamedTuple):
    """A conversion such as %-08lx.

    Attributes:
        flags: "-08"
        long: the length letters, "l"
        kind: "x"; "" for an invalid conversion
        letters: letters after %p that belong to it
    """

    text: str
    flags: str
    long: str
    kind: str
    letters: str

    @property
    def takes_argument(self) -> bool:
        """Whether perf's library supports the conversion."""
        return self.kind != "" and self.kind in _KINDS_OF_ARGUMENTS

    @property
    def stars(self) -> int:
        """The number of arguments for the width and precision."""
        return self.flags.count("*")

    @property
    def python_flags(self) -> str:
        """Return the flags of the equivalent Python conversion. Raises PrintFormatError if there are none, or for widths of thousands."""
        if _PYTHON_FLAGS.fullmatch(self.flags) is None:
            raise PrintFormatError(f"a conversion that is none: {self.text[:20]!r}")
        return self.flags

    @property
    def width(self) -> int:
        """The largest number of characters of its width and precision."""
        return widest(self.python_flags)

    @property
    def bits(self) -> int:
        """Return the number of bits of the length letters. Raises PrintFormatError for unknown letters."""
        marks = sum({"h": -1, "l": 1}.get(mark, 0) for mark in self.long)
        marks = 2 if "L" in self.long else 1 if re.search("[zZ]", self.long) else marks
        if marks not in _LENGTH_BITS:
            raise PrintFormatError("bad count")
        return _LENGTH_BITS[marks]


def split(literal: str) -> list[tuple[str, Conversion | None]]:
    """Split a C format into pairs of plain text and the following conversion, or None."""
    parts: list[tuple[str, Conversion | None]] = []
    text: list[str] = []
    i = 0
    while i < len(literal):
        char = literal[i]
        if char == "\\" and i + 1 < len(literal):
            text.append(_ESCAPES.get(literal[i + 1], literal[i + 1]))
            i += 2
        elif char == "%" and literal[i + 1 : i + 2] == "%":
            text.append("%")
            i += 2
        elif char == "%":
            conversion = _conversion(literal, i)
            parts.append(("".join(text), conversion))
            text = []
            i += len(conversion.text)
        else:
            text.append(char)
            i += 1
    parts.append(("".join(text), None))
    return parts


def _conversion(literal: str, start: int) -> Conversion:
    """Parse the conversion at `start`."""
    match = _CONVERSION.match(literal, start)
    if match is None:
        return Conversion(literal[start:], "", "", "", "")
    letters = _POINTER.match(literal, match.end()) if match["kind"] == "p" else None
    own_letters = letters[0] if letters else ""
    return Conversion(match[0] + own_letters, match["flags"] + match["rest"], match["long"], match["kind"], own_letters)


def widest(conversion: str) -> int:
    """Return the largest number in a conversion."""
    return max((int(digits) for digits in re.findall("[0-9]+", conversion)), default=0)


def field_formats(parsed: PrintFormat) -> dict[str, PrintFormat]:
    """Return the first conversion of each field that is printed as a plain number, with "0x" before it if the format has it."""
    formats: dict[str, PrintFormat] = {}
    arguments = iter(parsed.arguments)
    for literal, conversion in split(parsed.literal):
        if conversion is None or not conversion.takes_argument:
            continue
        arguments_of_one = [*islice(arguments, conversion.stars + 1)]
        tree = arguments_of_one[-1] if arguments_of_one else None
        while isinstance(tree, Cast):
            tree = tree.item
        if isinstance(tree, FieldValue) and not conversion.stars:
            formats.setdefault(tree.name, PrintFormat(f"{'0x' if literal.endswith('0x') else ''}{conversion.text}", (arguments_of_one[0],)))
    return formats
